# SPDX-License-Identifier: GPL-2.0-or-later
"""A timeline as one HTML file that needs no network and no other file.

page() takes a document of timeline.py.  Names and values of a trace may be hostile: the
page gets them as JSON without "<", shows them as text, and is bounded in events, lanes
and lengths; a sentence on the page says how much is left out.
"""

import bisect
import collections
import heapq
import json
import os
import re

TEMPLATE = os.path.join(os.path.dirname(os.path.realpath(__file__)), "timeline_page.html")
MOST_ITEMS = 40000
MOST_LANES = 160
MOST_FIELDS = 12
MOST_TEXT = 160
MOST_PINS = 4096        # that a search for the last one looks at
PAGE_SHIFT = 12
MOST_VPN = 1 << (64 - PAGE_SHIFT)
NUMBER = re.compile("0x[0-9a-f]{1,16}|0|[1-9][0-9]{0,19}")

# From one bound of a fault to the next one
STAGES = ("report", "find", "answer", "note")


class Item:
    """A span or a moment (end is None) on a lane."""

    def __init__(self, lane, event, end=None):
        self.lane, self.start, self.end = lane, event["ts"], end
        self.name, self.args = event["name"], event.get("args", {})
        self.stages = []

    def number(self, key):
        """An argument as a number, or None."""
        text = str(self.args.get(key, ""))
        return int(text, 0) if NUMBER.fullmatch(text) else None

    def pages(self):
        """(first, last) number of the pages that the item names, or None."""
        first = self.number("vpn")
        last = first
        if first is None and self.number("vaddr") is not None:
            first = self.number("vaddr") >> PAGE_SHIFT
            last = first + max(self.number("npages") or 1, 1) - 1
        elif first is None and self.number("addr") is not None:
            last = self.number("addr") + max(self.number("len") or 1, 1) - 1
            first, last = self.number("addr") >> PAGE_SHIFT, last >> PAGE_SHIFT
        elif first is None and None not in (self.number("first"), self.number("last")):
            first, last = (self.number(key) >> PAGE_SHIFT for key in ("first", "last"))
        if first is None or not 0 <= first <= last < MOST_VPN:
            return None
        return first, last


Lane = collections.namedtuple("Lane", "group name items")


def lanes_of(document):
    """The lanes of a document in its order."""
    groups, lanes, begun = {}, {}, {}
    for event in document["traceEvents"]:
        key = event["pid"], event["tid"]
        if event["ph"] == "M" and event["name"] == "process_name":
            groups[event["pid"]] = event["args"]["name"]
        elif event["ph"] == "M":
            lanes[key] = Lane(groups[event["pid"]], event["args"]["name"], [])
        elif event["ph"] == "E":
            lanes[key].items.append(Item(lanes[key], begun.pop(key), event["ts"]))
        elif event["ph"] == "B":
            begun[key] = event
        else:
            lanes[key].items.append(Item(lanes[key], event))
    return list(lanes.values())


def card_of(lane):
    """The prefix of a card's groups, where there are several cards."""
    return lane.group.rpartition(": ")[0]


class Spaces:
    """The space of each endpoint, by all events that name both."""

    def __init__(self, lanes):
        self.known = collections.defaultdict(list)
        for item in (item for lane in lanes for item in lane.items):
            if item.number("ep") is not None and item.number("space") is not None:
                self.known[card_of(item.lane), item.number("ep")].append(
                    (item.start, item.number("space")))
        for times in self.known.values():
            times.sort()

    def of(self, item):
        """The space of an item, or None."""
        space = item.number("space")
        times = self.known.get((card_of(item.lane), item.number("ep")))
        if space is None and times:
            place = bisect.bisect_right(times, item.start, key=lambda pair: pair[0])
            space = times[max(place - 1, 0)][1]
        if space is None:
            return None
        return f"{card_of(item.lane)} {space}".strip()


def add_stages(lanes):
    """Gives each fault on the card that the driver has handled the bounds of its stages."""
    faults, pins = collections.defaultdict(list), collections.defaultdict(list)
    for item in (i for lane in lanes if lane.group == "driver" for i in lane.items):
        if item.end is not None:
            faults[item.number("id")].append(item)
        elif item.name == "pin":
            pins[item.number("space")].append(item)
    for same in faults.values():
        same.sort(key=lambda item: item.end)
    for item in (i for lane in lanes if lane.group != "driver" and
                 lane.name.startswith("faults") for i in lane.items):
        same = faults[item.number("id")]
        place = bisect.bisect_left(same, item.start, key=lambda fault: fault.end)
        if place < len(same) and same[place].start <= item.end:
            item.stages = stages(item, same[place], pins[same[place].number("space")])


def last_pin(fault, pins):
    """The time at which the driver pinned the last page of a fault, or None."""
    place = bisect.bisect_right(pins, fault.end, key=lambda pin: pin.start)
    pages = fault.pages() or (1, 0)
    for pin in reversed(pins[max(place - MOST_PINS, 0):place]):
        if pin.start >= fault.start and pages[0] <= (pin.number("vpn") or 0) <= pages[1]:
            return pin.start
    return None


def stages(card, driver, pins):
    """[[name, begin, end], ...]; each begins where the one before it ends."""
    found, before = [], card.start
    for name, bound in zip(STAGES, (driver.start, last_pin(driver, pins), card.end,
                                    driver.end)):
        if bound is not None:
            found.append([name, before, max(before, bound)])
            before = found[-1][2]
    return found


class Texts:
    """Numbers for texts; a long one is cut, a character that is not printed replaced."""

    def __init__(self):
        self.numbers, self.cut = {}, 0

    def __call__(self, text):
        text = str(text)
        if len(text) > MOST_TEXT:
            self.cut += 1
            text = text[:MOST_TEXT] + "\u2026"
        if not text.isprintable():
            text = "".join(c if c.isprintable() else "\ufffd" for c in text)
        return self.numbers.setdefault(text, len(self.numbers))


def packed(item, texts, spaces):
    """An item as the page takes it; keys without a value are left out."""
    args = list(item.args.items())[:MOST_FIELDS]
    found = {"s": item.start, "n": texts(item.name),
             "a": [texts(word) for pair in args for word in pair]}
    if item.end is not None:
        found["e"] = item.end
    if item.pages():
        space = spaces.of(item)
        found["p"] = [None if space is None else texts(space), *item.pages()]
    if item.stages:
        found["g"] = item.stages
    return found


def data_of(document, title):
    """The data of the page."""
    lanes = lanes_of(document)
    spaces, texts = Spaces(lanes), Texts()
    add_stages(lanes)
    shown = lanes[:MOST_LANES]
    items = [item for lane in shown for item in lane.items]
    kept = set(heapq.nsmallest(MOST_ITEMS, items, key=lambda item: item.start))
    out = [{"group": texts(lane.group), "name": texts(lane.name),
            "items": [packed(item, texts, spaces) for item in lane.items if item in kept]}
           for lane in shown]
    fields = sum(max(len(item.args) - MOST_FIELDS, 0) for item in kept)
    left = [words for count, words in (
        (len(items) - len(kept), f"of {len(items)} events the last {len(items) - len(kept)}, "
         "behind the end of this page"),
        (len(lanes) - len(shown), f"of {len(lanes)} lanes the last {len(lanes) - len(shown)}, "
         f"with {sum(len(lane.items) for lane in lanes[MOST_LANES:])} events"),
        (fields, f"{fields} values of events with more than {MOST_FIELDS}"),
        (texts.cut, f"the ends of {texts.cut} long texts")) if count]
    other = document["otherData"]
    return {"title": title, "clock": other["clock"],
            "slack": other.get("driver_uncertainty_us"), "left": left,
            "lanes": out, "texts": list(texts.numbers)}


def page(document, title):
    """The text of the HTML file."""
    with open(TEMPLATE, encoding="utf-8") as file:
        template = file.read()
    # "<" would end or hide the script that holds the data; json escapes all but ASCII.
    data = json.dumps(data_of(document, title), allow_nan=False).replace("<", "\\u003c")
    before, behind = template.split("@DATA@")
    return before + data + behind
