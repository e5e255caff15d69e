# SPDX-License-Identifier: GPL-2.0-or-later
"""The state of running cards, again and again, for scripts/top and scripts/watch.

A card is looked at by QMP: its TLB, its endpoints, its counters.  Guests that these scripts start
have a trace, too, from which the faults in flight and the histories of pages come; of a guest
that runs already (--qmp) the histories are the differences of two looks.
"""

import argparse
import collections
import os
import re
import shlex
import signal
import sys
import tempfile
import threading
import time

from unetmm_tools.guest import lab, pair, timeline, vm
from unetmm_tools.guest.progress import Progress

EVENTS = ("miss", "reply", "tlb_insert", "tlb_evict", "invalidate", "wire_*")
RATES = ("doorbells", "sends_done", "rx_frames", "tx_bytes", "rx_bytes", "tlb_hits", "tlb_misses",
         "tlb_evictions", "drop_absent")
MOST_TRACE = 256 << 20          # bytes; then the trace ends
TRACE_PIECE = 8 << 20           # bytes that are in memory at a time
MOST_PAGES, MOST_EVENTS = 20000, 60
MOST_ENTRIES = 4096             # of a TLB that are shown
MOST_FAULTS = 200
STEP = 0.02                     # seconds of a step
SLOW = 0.1                      # the part of the time in which slow guests run
MODES = ("run", "pause", "step", "slow")
REPLIES = ("resolved", "deferred", "error", "retry")


class LiveError(Exception):
    """One sentence for the user."""


class Card:
    """One card: a name, a function for QMP's commands, and perhaps the path of a trace."""

    def __init__(self, name, qmp, trace=None):
        self.name, self._qmp, self._trace = name, qmp, trace
        self._offset, self._rest = 0, b""
        self._before = None
        self.shape, self.failed = None, None
        self.faults = {}
        self.pages = collections.OrderedDict()      # (space, page): a deque of texts
        self._entries = {}

    def get(self, name):
        """A property of the card."""
        return self._qmp("qom-get", path=f"/machine/peripheral/{pair.CARD}", property=name)

    def execute(self, command):
        """A command of QMP without arguments."""
        return self._qmp(command)

    def begin(self):
        """Looks for the card, and switches its events on."""
        self.shape = {name: self.get(f"tlb-{name}") for name in ("sets", "ways", "victims")}
        if self._trace:
            for event in EVENTS:
                self._qmp("trace-event-set-state", name=f"unetmm_{event}", enable=True)

    # ---- Histories

    def note(self, space, page, text, when=None):
        """Adds an event to the history of a page; without a time it happened before this look."""
        key = space, page
        if key not in self.pages:
            if len(self.pages) >= MOST_PAGES:
                self.pages.popitem(last=False)
            self.pages[key] = collections.deque(maxlen=MOST_EVENTS)
        self.pages[key].append((when or time.time(), text))

    def history(self, space, page):
        """The events of a page, oldest first."""
        return [{"time": when, "text": text} for when, text in self.pages.get((space, page), ())]

    def read_trace(self):
        """Takes the events that are new."""
        if not self._trace or not os.path.exists(self._trace):
            return
        # Later lines are for the next look: a card may write faster than this reads.
        end = os.path.getsize(self._trace)
        with open(self._trace, "rb") as file:
            file.seek(self._offset)
            while data := file.read(min(TRACE_PIECE, end - file.tell())):
                lines = (self._rest + data).split(b"\n")
                self._rest = lines.pop()[-65536:]
                self._take_lines(lines)
            self._offset = file.tell()
        if end > MOST_TRACE:
            for event in EVENTS:
                self._qmp("trace-event-set-state", name=f"unetmm_{event}", enable=False)
            self._trace = None

    def _take_lines(self, lines):
        for line in lines:
            if found := timeline.CARD_LINE.match(line.decode("ascii", "replace")):
                fields = {name: int(value, 0) for name, value in
                          timeline.CARD_FIELD.findall(found[4])}
                when = float(f"{found[1]}.{found[2]}") if found[1] else time.time()
                self._take(found[3].removeprefix("unetmm_"), fields, when)

    def _take(self, name, fields, when):
        """One event; a damaged one has no fields."""
        if name == "miss" and {"id", "ep", "vaddr", "npages"} <= fields.keys():
            if len(self.faults) < MOST_FAULTS:
                self.faults[fields["id"]] = {
                    "id": fields["id"], "ep": fields["ep"], "page": fields["vaddr"] >> 12,
                    "pages": fields["npages"], "since": when, "stage": "reported"}
        elif name == "reply" and {"id", "status"} <= fields.keys():
            if fields["status"] == timeline.DEFERRED:
                if fault := self.faults.get(fields["id"]):
                    fault["stage"] = "deferred: the page is brought in"
            else:
                self.faults.pop(fields["id"], None)
        elif name == "tlb_insert" and {"space", "vpn"} <= fields.keys():
            self.note(fields["space"], fields["vpn"], "entered the TLB", when)
        elif name == "tlb_evict" and {"space", "vaddr"} <= fields.keys():
            self.note(fields["space"], fields["vaddr"] >> 12, "evicted" + (
                ", written by the card" if fields.get("dirty") else ""), when)

    def _compare(self, entries):
        """Notes the differences to the look before."""
        now = {(entry["space"], entry["page"]): entry["slot"] for entry in entries}
        for key in now.keys() - self._entries.keys():
            if not self._trace:
                self.note(*key, f"is in the TLB, in slot {now[key]}")
        for key in self._entries.keys() - now.keys():
            # Without the event of an eviction the kernel has taken the page.
            if not self.pages.get(key) or not self.pages[key][-1][1].startswith("evicted"):
                self.note(*key, f"is in the TLB no more (was in slot {self._entries[key]})")
        for key in now.keys() & self._entries.keys():
            if now[key] != self._entries[key]:
                self.note(*key, f"moved from slot {self._entries[key]} to {now[key]}")
        self._entries = now

    # ---- Looks

    def look(self):
        """The state now."""
        self.read_trace()
        counters, when = self.get("counters"), time.monotonic()
        entries = [{"slot": entry["slot"], "space": entry["space"], "page": entry["vaddr"] >> 12,
                    "busy": bool(entry["busy"]), "victim": bool(entry["victim"]),
                    "writable": bool(entry["writable"])} for entry in self.get("tlb")]
        self._compare(entries)
        rates = {}
        if self._before and when > self._before[0]:
            rates = {name: round((counters[name] - self._before[1][name]) /
                                 (when - self._before[0])) for name in RATES if name in counters}
        self._before = when, counters
        now = time.time()
        return {
            "name": self.name, "state": self.execute("query-status")["status"], **self.shape,
            "pins": len(entries), "tlb": entries[:MOST_ENTRIES],
            "endpoints": [endpoint(found) for found in self.get("active-endpoints")],
            "faults": [{**fault, "ms": round(1000 * (now - fault["since"]))}
                       for fault in self.faults.values()],
            "traced": bool(self._trace), "rates": rates,
            "counters": {name: value for name, value in counters.items() if value}}


def endpoint(found):
    """An endpoint, with the lengths of its queues."""
    def waiting(ring):
        return (found[f"{ring}-prod"] - found[f"{ring}-cons"]) & 0xffffffff
    return {"id": found["id"], "space": found["space"], "sends": waiting("sq"),
            "buffers": waiting("fq"), "completions": waiting("cq"),
            "state": "stopped" if found["stopped"] else
            "waits for a page" if found["send-blocked-on"] else "runs"}


class Live:
    """Cards, and their time.

    lock  QMP has one client at a time; `mode` is the guests' state
    """

    def __init__(self, cards):
        self.cards = cards
        self.mode = "run"
        self.lock = threading.Lock()
        for card in cards:
            card.begin()

    def look(self):
        """The states of all cards."""
        with self.lock:
            states = []
            for card in self.cards:
                try:
                    states.append(card.look())
                except (pair.GuestError, OSError, ValueError, KeyError) as error:
                    card.failed = str(error).splitlines()[0] if str(error) else "is gone"
                    states.append({"name": card.name, "state": "ended", "why": card.failed})
            return {"time": time.time(), "mode": self.mode, "cards": states}

    def history(self, name, space, page):
        """The history of a page of one card."""
        with self.lock:
            return next((card.history(space, page) for card in self.cards
                         if card.name == name), [])

    def _all(self, command):
        for card in self.cards:
            if not card.failed:
                try:
                    card.execute(command)
                except (pair.GuestError, OSError):
                    card.failed = "is gone"

    def control(self, mode):
        """run, pause, step (a moment, then pause) or slow."""
        if mode not in MODES:
            raise LiveError(f"{mode}: use {', '.join(MODES)}")
        with self.lock:
            self._all("stop" if mode == "pause" else "cont")
            if mode in ("step", "slow"):
                time.sleep(STEP)
                self._all("stop")
            self.mode = "pause" if mode == "step" else mode

    def rest(self, seconds):
        """Lets so much time pass; slow guests run for a part of it."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if self.mode != "slow":
                time.sleep(min(left, STEP))
                continue
            with self.lock:
                # Another thread may have changed the mode meanwhile.
                if self.mode != "slow":
                    continue
                self._all("cont")
                time.sleep(STEP * SLOW)
                self._all("stop")
            time.sleep(min(left, STEP * (1 - SLOW)))

    def release(self):
        """The guests go on."""
        if self.mode != "run":
            self.control("run")


# ---- The cards that the options name


def add_options(parser):
    """The options of both scripts."""
    parser.add_argument("--qmp", action="append", default=[], metavar="PATH",
                        help="look at a guest that runs: the socket of scripts/vm --qmp PATH; may be "
                        "given again")
    parser.add_argument("--interval", type=interval, default=0.5, metavar="SECONDS",
                        help="between two looks: 0.05 to 60 (default: 0.5)")
    parser.add_argument("--kernel", default="6.1", metavar="|".join(vm.KERNELS),
                        help="of the guests that are started (default: 6.1)")
    parser.add_argument("--device-opts", metavar="K=V,...",
                        help="properties of their cards, as tlb-sets=64")


def interval(text):
    """The type of --interval."""
    try:
        found = float(text)
    except ValueError:
        found = 0
    if not 0.05 <= found <= 60:
        raise argparse.ArgumentTypeError(f"{text}: use 0.05 to 60 seconds")
    return found


def interrupt(_number, _frame):
    """The handler of signals that end a program in order."""
    raise KeyboardInterrupt


def program(body):
    """Calls body() of scripts/top and scripts/watch; an error is one sentence, and ends the program."""
    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGHUP, interrupt)
    try:
        body()
    except KeyboardInterrupt:
        sys.exit(130)
    except vm.SetupFailed:
        sys.exit("error: scripts/setup has failed; its messages say why")
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(1)
    except (LiveError, pair.GuestError, vm.VmError, OSError, ValueError) as error:
        sys.exit(f"error: {str(error).splitlines()[0]}")


def split(arguments):
    """(options, the words of each command behind --)."""
    options, commands = list(arguments), []
    while "--" in options:
        cut = len(options) - options[::-1].index("--")
        commands.insert(0, options[cut:])
        options = options[:cut - 1]
    return options, commands


def check(options, commands):
    """Refuses options that do not go together."""
    if bool(options.qmp) == bool(commands):
        raise LiveError("name a command behind --, as in -- 'unetmm-pingpong --listen' -- "
                        "'unetmm-pingpong $PEER', or the socket of a guest that runs (--qmp PATH)")
    if not all(words and words[0].strip() for words in commands):
        raise LiveError("a command behind -- is empty")
    if len(commands) > lab.NUMBERS[-1]:
        raise LiveError(f"{len(commands)} commands: use 1 to {lab.NUMBERS[-1]}")


class Attached:
    """Guests that run already."""

    def __init__(self, options):
        self._sockets = []
        cards = []
        for number, path in enumerate(options.qmp):
            if not os.path.exists(path):
                raise LiveError(f"--qmp {path}: there is no such socket")
            try:
                self._sockets.append(pair.Qmp(path, 5))
            except (pair.GuestError, OSError, ValueError) as error:
                self.close()
                raise LiveError(f"--qmp {path}: no QEMU answers there, or it has another client "
                                f"({error})") from None
            cards.append(Card("abcdefgh"[number % 8], self._sockets[-1].command))
        try:
            self.live = Live(cards)
        except pair.GuestError as error:
            self.close()
            raise LiveError(f"a guest has no card unetmm ({error})") from None

    @staticmethod
    def ends():
        """The commands that have ended: none is known."""
        return {}

    def close(self):
        """The guests stay, and run."""
        if hasattr(self, "live"):
            self.live.release()
        for found in self._sockets:
            found.close()


class Started:
    """Guests that run commands."""

    def __init__(self, options, commands):
        self._folder = tempfile.TemporaryDirectory(prefix="unetmm-live-")
        self._lab, self._jobs = None, {}
        try:
            self._boot(options, commands)
        except BaseException:
            self.close()
            raise

    def _boot(self, options, commands):
        words = ["--device-opts", options.device_opts] if options.device_opts else []
        # QEMU puts its number for %d.
        self._lab = lab.Lab(len(commands), kernel=options.kernel, options=[
            *words, "--", "-msg", "timestamp=on", "-D", self._path("%d")])
        progress = Progress()
        many = "a guest" if len(commands) == 1 else f"{len(commands)} guests"
        self._lab.boot(tick=lambda: progress.say(f"booting {many}"))
        progress.end(f"booted {many}")
        self.live = Live([Card(guest.name, guest.qmp, self._path(guest.pid))
                          for guest in self._lab])
        for number, (guest, command) in enumerate(zip(self._lab, commands)):
            peer = self._lab[(number + 1) % len(commands)].mac
            line = command[0] if len(command) == 1 else shlex.join(command)
            self._jobs[guest.name] = guest.launch(f"export GUEST={guest.name} PEER={peer}\n{line}",
                                                  1 << 20)

    def _path(self, number):
        return os.path.join(self._folder.name, f"{number}.trace")

    def ends(self):
        """{guest: (exit status, last line)} of the commands that have ended."""
        found = {}
        with self.live.lock:
            for name, job in self._jobs.items():
                if job.status is not None:
                    said = [line for line in job.output.splitlines() if line.strip()]
                    found[name] = job.status, re.sub(r"[^ -~]", "?", said[-1])[:200] if said else ""
        return found

    def close(self):
        """Ends the guests."""
        if self._lab:
            self._lab.close()
        self._folder.cleanup()


def opened(options, commands):
    """The cards that the options name."""
    check(options, commands)
    if options.qmp:
        return Attached(options)
    vm.DEFAULT_QEMU = "stock"
    os.environ.setdefault("UNETMM_GUEST", "tools")
    os.environ.setdefault("UNETMM_DRIVER", "quick")
    return Started(options, commands)
