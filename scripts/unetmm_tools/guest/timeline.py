# SPDX-License-Identifier: GPL-2.0-or-later
"""Two traces of one run, the card's and its driver's, as one timeline.

The card's is QEMU's (-trace 'unetmm_*' -msg timestamp=on), the driver's is
the text of the guest's tracefs.  The output is the JSON of Chrome's trace
viewer, which Perfetto opens as well, or a page (timeline_page.py).
scripts/timeline runs main().

The clocks.  The card's events have the host's time of day, the driver's the
guest's time since boot.  Each miss is seen on both sides, by its id: the card
reports it before the driver handles it, the driver handles it before the card
gets the answer, and the card gets an answer with pages before the driver says
so.  Each of these is a bound on the difference of the clocks.  The middle of
the interval that satisfies all bounds is taken; if there is none, the guest's
clock runs at a slightly other rate, and the rate with the widest interval is taken.
"""

import argparse
import collections
import heapq
import json
import operator
import os
import re
import sys
import tempfile

from unetmm_tools.guest import pair, timeline_page, vm

# The events of a timeline; registers and commands would be most of the trace.
CARD_EVENTS = ("doorbell", "send", "receive", "complete", "buffer_returned",
               "drop", "notify", "miss", "reply", "invalidate", "tlb_evict",
               "wire_*", "interrupt", "reset", "ep_*", "rel_*", "err_*")
CARD_LINE = re.compile(r"^(?:[0-9]+@([0-9]{1,12})\.([0-9]{6}):)?(unetmm_\w+) ?(.*)$")
DRIVER_LINE = re.compile(r"^\s*(\S.*)-(\d+)\s+\[\d+\]\s+\S+\s+([0-9]{1,12})\.([0-9]{6}): "
                         r"(unetmm_\w+): (.*)$")
NUMBER = r"0x[0-9a-f]{1,16}|0|[1-9][0-9]{0,19}"
CARD_FIELD = re.compile(rf"(\w+) ({NUMBER})\b")
RANGE = re.compile(r" (0x[0-9a-f]{1,16})\.\.(0x[0-9a-f]{1,16})\b")
# Numbers that the lanes need; "ep" is decimal everywhere.
CARD_NEEDS = {"miss": ("ep", "id", "vaddr", "npages", "flags"), "reply": ("id", "status"),
              "send": ("ep", "len"), "receive": ("ep", "len"), "complete": ("ep", "opcode")}
DRIVER_NEEDS = {"miss": ("id",), "reply": ("id", "status")}
UNREADABLE = "unreadable"       # the name of an event whose text is damaged
LOST = re.compile(r"LOST (\d+) EVENTS", re.I)
REPLIES = ("resolved", "deferred", "error", "retry")
DEFERRED = 1
MOST_DRIFT = 2e-3       # of the guest's clock against the host's
ROUNDING_US = 2         # both clocks are printed in microseconds

Event = collections.namedtuple("Event", "time name fields text where")
Span = collections.namedtuple("Span", "start end name fields")
TIMES_AND_NAME = operator.itemgetter(0, 1, 2)   # of a Span, whose fields have no order
Clock = collections.namedtuple("Clock", "rate offset slack")


class TraceError(Exception):
    """A trace cannot be used; the text says why."""


class EmptyTrace(TraceError):
    """A trace has no event of the card."""


# ---- Reading ----------------------------------------------------------------


def with_range(fields, text):
    """Adds "first" and "last" of the addresses "0x..0x" of an invalidation."""
    match = RANGE.search(text)
    return {**fields, "first": match[1], "last": match[2]} if match else fields


def card_fields(text):
    """The "name value" pairs of an event; values stay texts."""
    return with_range(dict(CARD_FIELD.findall(text)), text)


def driver_fields(text):
    """The "name=value" pairs of a tracepoint."""
    return with_range(dict(re.findall(r"(\w+)=(\S+)", text)), text)


def checked(event, needs):
    """The event, or an unreadable one in its place: a run that is killed cuts a line off."""
    if all(re.fullmatch(NUMBER, event.fields.get(key, ""))
           for key in needs.get(event.name, ())) and \
            re.fullmatch("[0-9]{1,10}", event.fields.get("ep", "0")):
        return event
    return event._replace(name=UNREADABLE, fields={"line": event.text[:200]})


def in_order(events, needs):
    """The checked events by their time."""
    return sorted((checked(event, needs) for event in events), key=lambda e: e.time)


def read_card(lines):
    """The card's events, in microseconds of the host."""
    events = []
    for line in lines:
        match = CARD_LINE.match(line)
        if not match:
            continue
        if match[1] is None:
            raise TraceError("the card's trace has no times: give QEMU "
                             "-msg timestamp=on")
        events.append(Event(int(match[1]) * 1000000 + int(match[2]),
                            match[3][len("unetmm_"):], card_fields(match[4]),
                            match[4], "card"))
    if not events:
        raise EmptyTrace("the card's trace has no event of unetmm: give QEMU "
                         "-trace 'unetmm_*'")
    return in_order(events, CARD_NEEDS)


def read_driver(lines):
    """The driver's events, in microseconds of the guest."""
    events = []
    for line in lines:
        if LOST.search(line):
            raise TraceError("the guest's trace buffer was too small and lost "
                             "events: enlarge buffer_size_kb")
        match = DRIVER_LINE.match(line)
        if match:
            events.append(Event(int(match[3]) * 1000000 + int(match[4]),
                                match[5][len("unetmm_"):],
                                driver_fields(match[6]), match[6],
                                f"{match[1]}-{match[2]}"))
    if not events:
        raise TraceError("the driver's trace has no event of unetmm: write 1 "
                         "to events/unetmm/enable in the guest's tracefs")
    return in_order(events, DRIVER_NEEDS)


def ident(event):
    """The id of a miss or an answer, as a number."""
    return int(event.fields["id"], 0)


# ---- Spans ------------------------------------------------------------------


def faults(events):
    """Spans from a miss to its answer; a deferred one goes on.

    An id has a generation, so it names one miss; it is asked again under the
    same id when the answer found no room.
    """
    spans, going = [], {}
    for event in events:
        if event.name == "miss":
            key = ident(event)
            if key in going:        # the first was not answered
                spans.append(fault_span(going.pop(key), event.time, None))
            going[key] = event
        elif event.name == "reply" and ident(event) in going:
            status = int(event.fields["status"], 0)
            if status != DEFERRED:
                spans.append(fault_span(going.pop(ident(event)), event.time,
                                        status))
    last = events[-1].time
    spans += [fault_span(miss, last, None) for miss in going.values()]
    return sorted(spans, key=TIMES_AND_NAME)


def fault_span(miss, end, status):
    """One miss; status None: nobody answered it in this trace."""
    answer = "no answer" if status is None else \
        REPLIES[status] if status < len(REPLIES) else f"status {status}"
    return Span(miss.time, end, "fault " + miss.fields["id"],
                {**miss.fields, "answer": answer, "detail": miss.text})


def by_endpoint(events):
    """{ep: its events and the answers to its misses}, by number."""
    own, asked = collections.defaultdict(list), {}
    for event in events:
        if event.name == "miss":
            asked[ident(event)] = event.fields["ep"]
        ep = asked.get(ident(event)) if event.name == "reply" else event.fields.get("ep")
        if ep is not None and int(ep) < 0xffffffff:
            own[ep].append(event)
    return dict(sorted(own.items(), key=lambda pair: int(pair[0])))


def sends(own):
    """From the descriptor to its completion.

    An endpoint has one send in work at a time.  One that asked for no
    completion ends with the last answer that it waited for, if any.
    """
    spans, going, end = [], None, 0
    missing = set()

    def finish(when):
        spans.append(Span(going.time, when,
                          f"send {going.fields['len']} bytes", going.fields))

    for event in own:
        if event.name == "send":
            if going:
                finish(end)
            going, end = event, event.time
        elif not going:
            continue
        elif event.name == "miss" and not int(event.fields["flags"], 0) & 2:
            missing.add(ident(event))
        elif event.name == "reply" and ident(event) in missing:
            end = event.time
        elif event.name == "complete" and event.fields["opcode"] == "1":
            finish(event.time)
            going = None
    if going:
        finish(end)
    return spans


def receives(own):
    """From the completion that announces a message to its last byte counted.

    The card writes both in one run; with x-dma-page-ns the message has been
    landing before, unseen by the trace.
    """
    spans, announced = [], None
    for event in own:
        if event.name == "complete" and event.fields["opcode"] in ("2", "4"):
            announced = event
        elif event.name == "receive":
            start = (announced or event).time
            spans.append(Span(start, event.time,
                              f"receive {event.fields['len']} bytes",
                              (announced or event).fields))
            announced = None
    return spans


# ---- The clocks -------------------------------------------------------------


def bounds(card, driver):
    """The bounds that order the two sides: [(driver time, least, most), ...].

    least and most bound the card's time minus the driver's at that moment.
    """
    asked = {ident(e): e for e in card if e.name == "miss"}
    answered = {ident(e): e for e in card if e.name == "reply"}
    found = []
    for event in driver:
        if event.name not in ("miss", "reply"):
            continue
        key = ident(event)
        if event.name == "miss" and key in asked:
            found.append((event.time, asked[key].time - event.time, None))
        if event.name == "miss" and key in answered:
            found.append((event.time, None, answered[key].time - event.time))
        if event.name == "reply" and key in answered and \
                event.fields["status"] == "0":
            found.append((event.time, answered[key].time - event.time, None))
    return found


def room(found, drift, pivot):
    """(least, most) of the offset at the pivot for one rate."""
    least = max(low - drift * (t - pivot) for t, low, _ in found
                if low is not None)
    most = min(high - drift * (t - pivot) for t, _, high in found
               if high is not None)
    return least, most


def align(card, driver):
    """Maps the driver's clock to the card's clock."""
    found = bounds(card, driver)
    if not any(low is not None for _, low, _ in found) or \
            not any(high is not None for _, _, high in found):
        raise TraceError("no miss is in both traces, so that their clocks "
                         "cannot be compared: trace one run on both sides")
    pivot, drift = found[0][0], 0.0
    least, most = room(found, drift, pivot)
    if least > most:
        # The room is a concave function of the rate: three points will do.
        low, high = -MOST_DRIFT, MOST_DRIFT
        for _ in range(80):
            a, b = low + (high - low) / 3, high - (high - low) / 3
            room_a, room_b = room(found, a, pivot), room(found, b, pivot)
            if room_a[1] - room_a[0] < room_b[1] - room_b[0]:
                low = a
            else:
                high = b
        drift = (low + high) / 2
        least, most = room(found, drift, pivot)
    if least > most + ROUNDING_US:
        raise TraceError("no difference of the clocks explains both traces: "
                         "they are of different runs")
    return Clock(1 + drift, (least + most) / 2 - drift * pivot,
                 max(most - least, 0) / 2)


# ---- Writing ----------------------------------------------------------------


class Trace:
    """Collects events, lane by lane; each lane goes forward in time."""

    def __init__(self, zero):
        self.zero = zero
        self.events = []
        self.lanes = 0

    def group(self, pid, name):
        """A group of lanes: an endpoint, or the driver."""
        self.events.append({"ph": "M", "name": "process_name", "pid": pid,
                            "tid": 0, "args": {"name": name}})

    def lane(self, pid, name):
        """A new lane of a group; returns its number."""
        self.lanes += 1
        self.events.append({"ph": "M", "name": "thread_name", "pid": pid,
                            "tid": self.lanes, "args": {"name": name}})
        return self.lanes

    def add(self, kind, time, pid, tid, **more):
        """One event."""
        self.events.append({"ph": kind, "ts": round(time - self.zero, 3),
                            "pid": pid, "tid": tid, **more})

    def spans(self, pid, name, spans):
        """Spans that may overlap: as many lanes as it takes."""
        lanes, busy, free = [], [], []
        for span in sorted(spans, key=TIMES_AND_NAME):
            while busy and busy[0][0] <= span.start:
                heapq.heappush(free, heapq.heappop(busy)[1])
            if not free:
                heapq.heappush(free, len(lanes))
                lanes.append([])
            number = heapq.heappop(free)
            lanes[number].append(span)
            heapq.heappush(busy, (span.end, number))
        for number, lane in enumerate(lanes):
            tid = self.lane(pid, name if not number
                            else f"{name} ({number + 1})")
            for span in lane:
                self.add("B", span.start, pid, tid, name=span.name,
                         args=span.fields)
                self.add("E", span.end, pid, tid)

    def moments(self, pid, name, events):
        """Events without length, on a lane of their own."""
        if not events:
            return
        tid = self.lane(pid, name)
        for event in sorted(events, key=lambda e: e.time):
            self.add("i", event.time, pid, tid, name=event.name, s="t",
                     args={**event.fields, "by": event.where})


def card_lanes(trace, card, first, prefix=""):
    """A card's groups of lanes, whose numbers begin at first."""
    trace.group(first, prefix + "card")
    trace.moments(first, "events", [e for e in card if "ep" not in e.fields and
                                    e.name not in ("reply",)])
    card_faults = collections.defaultdict(list)
    for span in faults(card):
        card_faults[span.fields["ep"]].append(span)
    for ep, own in by_endpoint(card).items():
        pid = first + 98 + int(ep)
        trace.group(pid, f"{prefix}endpoint {ep}")
        trace.spans(pid, "sends", sends(own))
        trace.spans(pid, "receives", receives(own))
        trace.spans(pid, "faults", card_faults[ep])
        trace.moments(pid, "events", [
            e for e in own if e.name not in ("send", "receive", "miss", "reply")])


def build(card, driver):
    """The whole document."""
    clock = align(card, driver)
    driver = [e._replace(time=e.time * clock.rate + clock.offset)
              for e in driver]
    trace = Trace(min(card[0].time, driver[0].time))
    trace.group(1, "driver")
    trace.spans(1, "faults", faults(driver))
    trace.moments(1, "events", [e for e in driver
                                if e.name not in ("miss", "reply")])
    card_lanes(trace, card, 2)
    return {"traceEvents": trace.events, "displayTimeUnit": "ns",
            "otherData": {"clock": "host, microseconds",
                          "driver_rate": clock.rate,
                          "driver_offset_us": clock.offset,
                          "driver_uncertainty_us": clock.slack}}


# Numbers of groups that a card may take: 2 + 65535 endpoints at most
CARD_NUMBERS = 100000


def build_cards(cards):
    """The document of several cards of one host, whose traces have its clock.

    cards  {name: events}
    """
    trace = Trace(min(events[0].time for events in cards.values()))
    for number, (name, events) in enumerate(cards.items()):
        card_lanes(trace, events, 2 + number * CARD_NUMBERS, name + ": ")
    return {"traceEvents": trace.events, "displayTimeUnit": "ns",
            "otherData": {"clock": "host, microseconds"}}


FRAME_LINE = re.compile(r"(\d+) (tx|rx) (\d+) (\d+) [0-9a-f]+$")


def build_frames(logs):
    """The document of guests in one virtual time, from the logs of their links.

    logs  {name: lines of lockstep's log=FILE}
    """
    found = {name: [match for match in map(FRAME_LINE.match, lines) if match]
             for name, lines in logs.items()}
    times = [int(match[1]) for frames in found.values() for match in frames]
    if not times:
        raise TraceError("the logs have no frames")
    trace = Trace(min(times) / 1e3)
    for pid, (name, frames) in enumerate(found.items(), 1):
        trace.group(pid, name)
        trace.spans(pid, "sent", [
            Span(int(m[1]) / 1e3, int(m[3]) / 1e3, f"{m[4]} bytes",
                 {"bytes": m[4]}) for m in frames if m[2] == "tx"])
        trace.moments(pid, "received", [
            Event(int(m[1]) / 1e3, f"{m[4]} bytes", {"bytes": m[4]}, "", "link")
            for m in frames if m[2] == "rx"])
    return {"traceEvents": trace.events, "displayTimeUnit": "ns",
            "otherData": {"clock": "virtual, microseconds"}}


def problems(document):
    """Errors in the structure of a document, as sentences."""
    found, last, depth = [], {}, collections.Counter()
    for event in document["traceEvents"]:
        if event["ph"] == "M":
            continue
        lane = (event["pid"], event["tid"])
        if event["ts"] < last.get(lane, 0):
            found.append(f"lane {lane} goes back in time at {event['ts']}")
        last[lane] = event["ts"]
        depth[lane] += {"B": 1, "E": -1}.get(event["ph"], 0)
        if depth[lane] < 0:
            found.append(f"lane {lane}: an end without a begin")
    return found + [f"lane {lane}: {n} begins without an end"
                    for lane, n in depth.items() if n > 0]


# ---- A run of our own -------------------------------------------------------

WORKLOAD = """#!/bin/sh
t=/sys/kernel/tracing
[ -e $t/trace ] || mount -t tracefs tracefs $t || exit 1
echo 8192 >$t/buffer_size_kb
echo 1 >$t/events/unetmm/enable || exit 1
unetmm-pingpong --listen --timeout 120 >/tmp/listen 2>&1 &
unetmm-pingpong 52:54:00:6d:00:01 --size 8,8k --count 50 --timeout 120 \\
    >/tmp/connect 2>&1 || { cat /tmp/listen /tmp/connect; exit 1; }
wait
echo 0 >$t/tracing_on
cat $t/trace
"""


def run_workload(kernel, directory):
    """Messages from a card to itself; returns (card's lines, driver's)."""
    log = os.path.join(directory, "card.trace")
    arguments = ["--id", "1", "--netdev", "hubport,hubid=0", "--trust-tsc",
                 "--kernel", kernel, "--", "-msg", "timestamp=on", "-D", log]
    for event in CARD_EVENTS:
        arguments += ["-trace", f"unetmm_{event}"]
    guest = pair.Guest("timeline", directory, WORKLOAD, arguments)
    guest.start()
    try:
        status = guest.wait(300)
    finally:
        guest.kill()
    if status:
        raise TraceError("the workload failed in the guest: "
                         f"{' '.join(guest.results().split()[-40:])}")
    return lines_of(log), guest.results().splitlines()


def lines_of(path):
    """A file's lines; bytes that are not UTF-8 are replaced."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read().splitlines()


def parse():
    """The options of scripts/timeline."""
    parser = vm.Parser(
        prog="scripts/timeline", allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Turns the card's and the driver's trace of one run into "
        "a timeline: lanes for each\nendpoint (sends, receives, faults, events) "
        "and for the driver.  -o writes JSON,\nwhich https://ui.perfetto.dev and "
        "chrome://tracing open; --html writes a page for\nany browser, which needs "
        "no network and shows the history of each page of memory.",
        epilog="examples:\n"
        "  A short run of its own:\n"
        "    scripts/timeline --run -o out.json --html out.html\n\n"
        "  Traces of another run:\n"
        "    scripts/vm -- -trace 'unetmm_*' -msg timestamp=on -D card.trace\n"
        "    (in the guest: echo 1 >/sys/kernel/tracing/events/unetmm/enable;\n"
        "    then the workload; then take /sys/kernel/tracing/trace along)\n"
        "    scripts/timeline --card card.trace --driver driver.trace "
        "--html out.html\n\n"
        "The clocks are aligned by the misses, which both traces have; the\n"
        "document says how exactly (otherData).\n")
    parser.add_argument("--card", metavar="FILE", help="QEMU's trace")
    parser.add_argument("--driver", metavar="FILE",
                        help="text of the guest's tracefs")
    parser.add_argument("--run", action="store_true",
                        help="run a short workload in a guest instead")
    parser.add_argument("--kernel", default="6.1", metavar="6.1|6.12|newest",
                        help="with --run (default: 6.1)")
    parser.add_argument("--keep", metavar="DIR",
                        help="with --run: keep both traces there")
    parser.add_argument("-o", "--output", metavar="FILE",
                        help="where the JSON goes")
    parser.add_argument("--html", metavar="FILE", help="where the page goes")
    options = parser.parse_args()
    if not options.output and not options.html:
        parser.error("give -o FILE, --html FILE, or both")
    if options.run == bool(options.card or options.driver) or \
            bool(options.card) != bool(options.driver):
        parser.error("give either --run, or both --card and --driver")
    if options.kernel not in vm.KERNELS:
        parser.error(f"--kernel {options.kernel}: use {vm.KERNELS_TEXT}")
    return options


def both_traces(options):
    """(card's lines, driver's lines), from files or a run."""
    if not options.run:
        return lines_of(options.card), lines_of(options.driver)
    with tempfile.TemporaryDirectory(prefix="unetmm-") as directory:
        card, driver = run_workload(options.kernel, directory)
    if options.keep:
        os.makedirs(options.keep, exist_ok=True)
        for name, lines in (("card", card), ("driver", driver)):
            path = os.path.join(options.keep, f"{name}.trace")
            with open(path, "w", encoding="utf-8") as file:
                file.write("\n".join(lines) + "\n")
    return card, driver


def write(path, text):
    """A file with the text and an end of line."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.rstrip("\n") + "\n")


def say(path, document):
    """Prints one line about a written file."""
    events = document["traceEvents"]
    spans = sum(event["ph"] == "B" for event in events)
    damaged = sum(event.get("name") == UNREADABLE for event in events)
    print(f"{path}: {len(events)} events, {spans} spans; clocks agree within "
          f"{document['otherData']['driver_uncertainty_us']:.0f} us" +
          (f"; {damaged} events are damaged ({UNREADABLE})" if damaged else ""))


def main():
    """scripts/timeline."""
    try:
        options = parse()
        card, driver = both_traces(options)
        document = build(read_card(card), read_driver(driver))
        if options.output:
            write(options.output, json.dumps(document))
            say(options.output, document)
        if options.html:
            name = "a run" if options.run else os.path.basename(options.card)
            write(options.html, timeline_page.page(document, name))
            say(options.html, document)
    except (TraceError, pair.GuestError, vm.VmError) as error:
        sys.exit(f"error: {error}")
    except OSError as error:
        sys.exit(f"error: {error.filename}: {error.strerror}")


if __name__ == "__main__":
    main()
