# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests of the page of scripts/watch, in Chromium, on cards that are a table (tests/tools/livecards.py)."""
import os
import sys

from chromium import LIMIT, browser
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait
from unetmm_tools.check.taptests import require

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "tools"))
from livecards import served  # noqa: E402  (of tests/tools)

SIZES = ((1280, 900), (400, 800))


def shown(driver, selector):
    """The texts of elements, which each look makes anew."""
    return driver.execute_script(
        "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", selector)


def until(driver, condition):
    """Waits for a state of the page."""
    WebDriverWait(driver, LIMIT).until(lambda _: condition())


def watch_page(directory):
    """watch page: wide and narrow, it has TLBs, queues, faults, and the history of a page"""
    for size in SIZES:
        with served() as (server, cards):
            driver = browser(directory)
            try:
                driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
                    "width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False})
                driver.get(server.address)
                until(driver, lambda: len(shown(driver, ".card")) == 2)
                until(driver, lambda: "waits for a page" in " ".join(shown(driver, ".endpoints td")))
                wide = driver.execute_script(
                    "return document.documentElement.scrollWidth - window.innerWidth")
                require(wide <= 0, f"{size}: {wide} pixels too wide")
                require("reported" in " ".join(shown(driver, "table.fault td")), f"{size}: no fault")
                canvas = driver.find_element(By.CSS_SELECTOR, "canvas")
                require(canvas.size["height"] > 10 and canvas.size["width"] <= size[0], f"{canvas.size}")
                # Entry 0 is in the first cell.
                ActionChains(driver).move_to_element_with_offset(
                    canvas, 3 - canvas.size["width"] // 2, 3 - canvas.size["height"] // 2).click().perform()
                until(driver, lambda: "entered the TLB" in " ".join(shown(driver, "#history")))
                require("Page 0x10000 of space 1, guest a" in shown(driver, "#history")[0],
                        f"{shown(driver, '#history')}")
                driver.find_element(By.CSS_SELECTOR, "[data-mode=pause]").click()
                until(driver, lambda: cards[0].commands[-1:] == ["stop"] and
                      "".join(shown(driver, "#state")).startswith("pause"))
                said = driver.get_log("browser")
                require(not said, f"the console has {said}")
            finally:
                driver.quit()


TESTS = (watch_page,)
