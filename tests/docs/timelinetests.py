# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests of the page that scripts/timeline --html writes, in Chromium."""
import contextlib
import os
import sys

from chromium import LIMIT, browser
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.actions.wheel_input import ScrollOrigin
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait
from unetmm_tools.check.taptests import require
from unetmm_tools.guest import timeline_page

TOOLS = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "tools")
sys.path.insert(0, TOOLS)
from pagetests import HOSTILE, document_of, sample_lines  # noqa: E402  (of tests/tools)

SIZES = ((1280, 900), (400, 800))
FACTS = """
const shown = s => [...document.querySelectorAll(s)].map(e => e.textContent);
return {wide: document.documentElement.scrollWidth - window.innerWidth,
        ticks: shown("svg .tick"), groups: shown("svg .group"), legend: shown("#legend li"),
        left: shown("#left:not([hidden])"), scripts: document.scripts.length,
        marks: document.querySelectorAll("svg *").length,
        cut: [...document.querySelectorAll("svg text.tick, svg text.group")].filter(e => {
          const a = e.getBoundingClientRect(), b = e.ownerSVGElement.getBoundingClientRect();
          return a.left < b.left - 1 || a.right > b.right + 1; }).length,
        paper: getComputedStyle(document.body).backgroundColor, title: document.title,
        loaded: performance.getEntriesByType("resource").map(e => e.name)};
"""


@contextlib.contextmanager
def opened(directory, document, title="sample", size=SIZES[0], scheme="light"):
    """A browser with the page of a document; the console must stay empty."""
    path = os.path.join(directory, "timeline.html")
    with open(path, "w", encoding="utf-8") as file:
        file.write(timeline_page.page(document, title))
    driver = browser(directory)
    try:
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False})
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": scheme}]})
        driver.get("file://" + path)
        yield driver
        said = driver.get_log("browser")
        require(not said, f"the console has {said}")
    finally:
        driver.quit()


def view(driver):
    """(first, last) time of the view, once it is drawn."""
    driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    data = driver.execute_script("return {...document.getElementById('figure').dataset}")
    return float(data["from"]), float(data["to"])


def text_of(driver, name):
    """The text of an element of the page."""
    return driver.find_element(By.ID, name).text


def timeline_fits(directory):
    """timeline page: wide and narrow, light and dark, it has lanes, units and a legend"""
    papers = set()
    for size, scheme in ((SIZES[0], "light"), (SIZES[1], "dark"), (SIZES[1], "light")):
        with opened(directory, document_of(*sample_lines()), "x", size, scheme) as driver:
            view(driver)
            facts = driver.execute_script(FACTS)
        require(facts["wide"] <= 0 and not facts["cut"], f"{size}: {facts}")
        require(facts["groups"] == ["driver", "card", "endpoint 0", "endpoint 1", "endpoint 2"] and
                len(facts["ticks"]) >= 2 and all(t.endswith(" s") for t in facts["ticks"]) and
                len(facts["legend"]) == 9 and not facts["loaded"] and not facts["left"],
                f"{size}: {facts}")
        papers.add(facts["paper"])
    require(len(papers) == 2, f"the papers of light and dark are {papers}")


def timeline_zoom(directory):
    """timeline page: wheel, drag, keys and buttons choose the time"""
    with opened(directory, document_of(*sample_lines())) as driver:
        whole, figure = view(driver), driver.find_element(By.ID, "drawing")
        left, width = 130, figure.rect["width"] - 136
        at = 0.75
        x = round(left + at * width - figure.rect["width"] / 2)
        ActionChains(driver).scroll_from_origin(
            ScrollOrigin.from_element(figure, x, 0), 0, -200).perform()
        near = view(driver)
        there = [v[0] + at * (v[1] - v[0]) for v in (whole, near)]
        require(near[1] - near[0] < 0.7 * (whole[1] - whole[0]) and
                abs(there[0] - there[1]) < 0.01 * (whole[1] - whole[0]), f"{whole} {near}")
        ActionChains(driver).move_to_element_with_offset(figure, 0, 0).click_and_hold() \
            .move_by_offset(100, 0).release().perform()
        marked = view(driver)
        require(abs((marked[1] - marked[0]) / (near[1] - near[0]) - 100 / width) < 0.01,
                f"{near} {marked}")
        body = driver.find_element(By.TAG_NAME, "body")
        for key, factor, moved in (("+", 0.5, 0), ("-", 2, 0), (Keys.ARROW_RIGHT, 1, 0.2),
                                   (Keys.ARROW_LEFT, 1, -0.2)):
            before = view(driver)
            body.send_keys(key)
            after, span = view(driver), before[1] - before[0]
            require(abs((after[1] - after[0]) / span - factor) < 1e-6 and
                    abs((sum(after) - sum(before)) / 2 / span - moved) < 1e-6,
                    f"{key}: {before} {after}")
        driver.find_element(By.ID, "busy").click()
        busy = view(driver)
        require(busy[1] - busy[0] < (whole[1] - whole[0]) / 2, f"{busy}")
        body.send_keys(Keys.HOME)
        require(all(abs(a - b) < 1 for a, b in zip(view(driver), whole)), "Home is not the whole run")
        for _ in range(60):
            body.send_keys("+")
        ticks = driver.execute_script(FACTS)["ticks"] if view(driver) else []
        require(1 <= len(ticks) < 50, f"{ticks}")


def timeline_choice(directory):
    """timeline page: a fault and an address lead to the history of a page"""
    with opened(directory, document_of(*sample_lines())) as driver:
        driver.find_element(By.CSS_SELECTOR, "button.fault").click()
        view(driver)
        said, history = text_of(driver, "detail"), text_of(driver, "history")
        for word in ("fault 0x40019", "report", "find", "answer", "note", "resolved"):
            require(word in said, f"no {word} in {said}")
        for word in ("page 0x7fe5de252000 of space 2", "3 events", "pfn 0x1fd45", "driver, faults"):
            require(word in history, f"no {word} in {history}")
        require(driver.find_elements(By.CSS_SELECTOR, "svg .chosen") and
                driver.find_elements(By.CSS_SELECTOR, "svg .hit"), "nothing is outlined")
        driver.find_elements(By.CSS_SELECTOR, "button.page")[1].click()
        require("0x7fe5de253000" in text_of(driver, "history") and
                "pfn 0x1fd46" in text_of(driver, "history"), text_of(driver, "history"))
        driver.find_element(By.TAG_NAME, "body").send_keys("n")
        view(driver)
        require("fault 0x40019" not in text_of(driver, "detail"), "n chooses the same fault")
        # Behind each outline the mark itself takes the click.
        mark = driver.find_element(By.CSS_SELECTOR, "svg .fault:not(.many)")
        ActionChains(driver).move_to_element(mark).click().perform()
        require("takes" in text_of(driver, "detail"), "a click on a mark chooses nothing")
        box = driver.find_element(By.ID, "address")
        for text, word in (("0x7fca7335b123", "page 0x7fca7335b000"), ("7fca7335b000", "pfn 0x1fd47"),
                           ("0x1", "0 events"), ("cat's", "at most 16 hexadecimal")):
            box.clear()
            box.send_keys(text + Keys.ENTER)
            found = text_of(driver, "history").replace("No event", "0 events")
            require(word in found, f"{text}: {found}")
        driver.find_element(By.TAG_NAME, "body").send_keys(Keys.ESCAPE)
        require(not text_of(driver, "history"), "Escape forgets nothing")


def timeline_hostile(directory):
    """timeline page: hostile names do nothing, a long trace has a bounded figure that says so"""
    card, driver_lines = sample_lines()
    driver_lines += [f" {HOSTILE}-7 [000] .....  7.2{n:05}: unetmm_pin: space=2 "
                     f"vpn=0x7fe5de252 pfn={HOSTILE.replace(' ', '')}" for n in range(400)]
    card += [f"1@1795239570.{n:06}:unetmm_doorbell ep {n % 400}" for n in range(30000)]
    card += ["1@999999999999.000000:unetmm_reset "]
    with opened(directory, document_of(card, driver_lines), HOSTILE) as driver:
        facts = driver.execute_script(FACTS)
        require(facts["title"].startswith("Timeline of </script><script>") and
                facts["scripts"] == 2 and not facts["loaded"], f"{facts}")
        require(facts["left"] and "lanes the last" in facts["left"][0], f"{facts['left']}")
        require(facts["marks"] < 60000 and facts["wide"] <= 0, f"{facts['marks']}")
        box = driver.find_element(By.ID, "address")
        box.send_keys("0x7fe5de252000" + Keys.ENTER)
        WebDriverWait(driver, LIMIT).until(
            lambda d: "of which the first 300 follow" in text_of(d, "history"))
        require("</script>" in text_of(driver, "history"), "the name is not shown as text")


TESTS = (timeline_fits, timeline_zoom, timeline_choice, timeline_hostile)
