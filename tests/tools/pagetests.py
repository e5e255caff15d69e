# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests of the page that scripts/timeline --html writes; tests/docs has those in a browser."""

import html.parser
import json
import os
import re
import subprocess
from unittest import mock

from unetmm_tools.check.taptests import require
from unetmm_tools.guest import timeline, timeline_page

HERE = os.path.dirname(os.path.realpath(__file__))
SCRIPT = os.path.join(os.path.dirname(os.path.dirname(HERE)), "scripts", "timeline")
SAMPLES = [os.path.join(HERE, "samples", f"{name}.trace") for name in ("card", "driver")]
HOSTILE = "</script><script>document.title='broken'</script><!--<b>&amp;\u202e\u2028"


class Parts(html.parser.HTMLParser):
    """The scripts of a page, and its attributes that could load something."""

    def __init__(self, text):
        super().__init__()
        self.scripts, self.loads, self.inside = [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.inside = tag == "script"
        self.loads += [(tag, name, value) for name, value in attrs
                       if name in ("src", "href", "srcset", "action")]
        if self.inside:
            self.scripts.append("")

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.scripts[-1] += data


def document_of(card, driver):
    """The document of two lists of lines."""
    return timeline.build(timeline.read_card(card), timeline.read_driver(driver))


def data_of(text):
    """The data of a page, as its own script would read them."""
    parts = Parts(text)
    require(len(parts.scripts) == 2 and not parts.loads,
            f"{len(parts.scripts)} scripts, loads {parts.loads}")
    require("<" not in parts.scripts[0] and text.isascii() != ("\u202e" in text), "raw data")
    return json.loads(parts.scripts[0])


def sample_lines():
    """(card's lines, driver's)."""
    return [timeline.lines_of(path) for path in SAMPLES]


def page_data(_directory):
    """timeline page: each event of the sample is on its lane, faults have their stages"""
    lines = sample_lines()
    document = document_of(*lines)
    data = data_of(timeline_page.page(document, "sample"))
    items = [item for lane in data["lanes"] for item in lane["items"]]
    count = {kind: sum(e["ph"] == kind for e in document["traceEvents"]) for kind in "BEi"}
    require(len(items) == count["B"] + count["i"] and
            sum("e" in item for item in items) == count["E"], f"{len(items)}, {count}")
    require(not data["left"] and data["slack"] > 0, f"{data['left']}")
    staged = {data["texts"][item["n"]]: item for item in items if "g" in item}
    require(len(staged) == sum(":unetmm_miss " in line for line in lines[0]), f"{len(staged)}")
    # By the driver's text alone: from the first line of a miss to the last pin, and to the reply.
    for name, item in staged.items():
        part = re.search(rf"(\S+): unetmm_miss: [^\n]*id={name.split()[1]} (.*?)(\S+): unetmm_"
                         rf"reply: [^\n]*id={name.split()[1]} ", "\n".join(lines[1]), re.S)
        last = re.findall(r"(\S+): unetmm_pin:", part[2])[-1]
        stages = {stage: to - begin for stage, begin, to in item["g"]}
        require(abs(stages["find"] - 1e6 * (float(last) - float(part[1]))) < 0.01,
                f"{name}: {stages}")
        require(item["g"][2][2] == max(item["e"], item["g"][1][2]), f"{name}: {stages}")
        require(item["g"][0][1] == item["s"] and [s[0] for s in item["g"]] ==
                ["report", "find", "answer", "note"] and
                all(a[2] == b[1] for a, b in zip(item["g"], item["g"][1:])), f"{item}")


def page_pages(_directory):
    """timeline page: events name their pages, in the space of their endpoint"""
    card, driver = sample_lines()
    card += ["1@1795239570.000000:unetmm_tlb_evict space 2 vaddr 0x7fe5de252000 tag 1 dirty 0",
             "1@1795239570.000001:unetmm_invalidate space 2 0x7fe5de250000..0x7fe5de253fff "
             "dropped 4 busy 0",
             "1@1795239570.000002:unetmm_buffer_returned ep 1 addr 0x7fe5de251ffe len 3 status 0"]
    data = data_of(timeline_page.page(document_of(card, driver), "sample"))
    found = {}
    for item in (item for lane in data["lanes"] for item in lane["items"]):
        if "p" in item and data["texts"][item["p"][0]] == "2" and \
                item["p"][1] <= 0x7fe5de252 <= item["p"][2]:
            name = data["texts"][item["n"]]
            found[name] = found.get(name, 0) + 1
    require(found == {"fault 0x40019": 2, "pin": 1, "tlb_evict": 1, "invalidate": 1,
                      "buffer_returned": 1}, f"{found}")


def page_hostile(_directory):
    """timeline page: damaged lines are counted, hostile names and numbers stay text"""
    card, driver = sample_lines()
    card += ["1@1795239570.000001:unetmm_miss ep 1 id 0x4",
             "1@1795239570.000002:unetmm_send ep 0x1 channel 0 cookie 0x0 len 8 status 0",
             "1@1795239570.000003:unetmm_miss ep 1 id 0x99 vaddr 0xffffffffffffffff "
             "npages 18446744073709551615 flags 0x0",
             f"1@{'9' * 400}.000000:unetmm_reset ",
             f"1@1795239570.000004:unetmm_drop ep 1 counter {'7' * 5000}",
             "1@1795239569.000000:unetmm_reply id 0x99 status 0x1f vaddr 0x0 npages 007",
             "1@1795239570.000005:unetmm_tlb_evict space 2 vaddr 0xfffffffffffffffff tag 1",
             "1@1795239570.000006:unetmm_reset first 5",
             *[f"1@1795239570.000006:unetmm_miss ep 1 id 0x77 vaddr 0x{n}000 npages 1 flags 0x0"
               for n in range(3)]]
    driver += [f" {HOSTILE}-7 [000] .....  7.999999: unetmm_pin: space=2 vpn=0x{'f' * 40} "
               f"pfn={HOSTILE.replace(' ', '')}",
               " k-1 [000] .....  7.999999: unetmm_miss: space=2 ep=1 id=zz vaddr=0x0",
               " k-1 [000] .....  7.999999: unetmm_reply: space=2 id=0x99 status=x"]
    document = document_of(card, driver)
    require(not timeline.problems(document), "the checker objects")
    data = data_of(timeline_page.page(document, HOSTILE))
    names = [data["texts"][item["n"]] for lane in data["lanes"] for item in lane["items"]]
    require(names.count("unreadable") == 4, f"{names.count('unreadable')} unreadable")
    require("\u202e" not in "".join(data["texts"]) and
            any("</script><script>" in text for text in data["texts"]), "a name is not there")
    require(all(item["p"][1] <= item["p"][2] < 1 << 52 for lane in data["lanes"]
                for item in lane["items"] if "p" in item), "pages")


@mock.patch.object(timeline_page, "MOST_ITEMS", 4000)
def page_bounds(_directory):
    """timeline page: of a long trace the page has a bounded part, and names the rest"""
    card, driver = sample_lines()
    most = timeline_page.MOST_ITEMS
    card += [f"1@1795239570.{n:06}:unetmm_doorbell ep {n % 400}" for n in range(most)]
    driver += [f" k-7 [000] .....  7.999999: unetmm_pin: a={'x' * 500} " +
               " ".join(f"k{n}=1" for n in range(20))]
    document = document_of(card, driver)
    data = data_of(timeline_page.page(document, "long"))
    items = [item for lane in data["lanes"] for item in lane["items"]]
    lanes = sum(e.get("name") == "thread_name" for e in document["traceEvents"])
    require(len(data["lanes"]) == timeline_page.MOST_LANES and len(items) <= most, "no bound")
    said = " ".join(data["left"])
    require(f"of {lanes} lanes the last {lanes - timeline_page.MOST_LANES}, with " in said and
            "values of events with more than" in said and "1 long texts" in said, said)
    one = timeline.build_cards({"a": timeline.read_card(
        f"1@1.{n:06}:unetmm_reset " for n in range(most + 9))})
    data = data_of(timeline_page.page(one, "one lane"))
    require(len(data["lanes"][0]["items"]) == most and
            data["left"] == [f"of {most + 9} events the last 9, behind the end of this page"],
            f"{data['left']}")


def page_cards(_directory):
    """timeline page: a document of several cards or of frames makes a page, too"""
    card = timeline.read_card(sample_lines()[0])
    data = data_of(timeline_page.page(timeline.build_cards({"a": card, "b": card}), "two"))
    spaces = {data["texts"][item["p"][0]] for lane in data["lanes"] for item in lane["items"]
              if item.get("p", [None])[0] is not None}
    require(spaces == {"a 1", "a 2", "b 1", "b 2"}, f"{spaces}")
    frames = timeline.build_frames({"node": ["5000 tx 15067 60 0badcafe"]})
    require(data_of(timeline_page.page(frames, "frames"))["slack"] is None, "a slack")


def page_options(directory):
    """timeline page: --html stands alone or beside -o, whose file is the same"""
    base = [SCRIPT, "--card", SAMPLES[0], "--driver", SAMPLES[1]]
    paths = [os.path.join(directory, name) for name in ("a.html", "b.html", "c.json", "d.json")]
    for more, lines in ((["--html", paths[0]], 1), (["--html", paths[1], "-o", paths[2]], 2),
                        (["-o", paths[3]], 1)):
        done = subprocess.run([*base, *more], capture_output=True, text=True, check=True)
        require(len(done.stdout.splitlines()) == lines, done.stdout)
    texts = [open(path, encoding="utf-8").read() for path in paths]
    require(texts[0] == texts[1] and texts[2] == texts[3], "the files differ")
    require(data_of(texts[0])["title"] == "card.trace", "another title")
    done = subprocess.run(base, capture_output=True, text=True, check=False)
    require(done.returncode == 1 and "give -o FILE, --html FILE, or both" in done.stderr,
            done.stderr)


TESTS = (page_data, page_pages, page_hostile, page_bounds, page_cards, page_options)
