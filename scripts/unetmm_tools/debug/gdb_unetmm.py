# SPDX-License-Identifier: GPL-2.0-or-later
"""gdb's commands for the card: its state, in plain words.

scripts/debug loads this into Debian's gdb; `source scripts/unetmm_tools/debug/gdb_unetmm.py`
does it by hand.  The commands read the card's memory and change nothing.
`help user-defined` and `help unetmm-ep` describe them.
"""

import gdb

PAGE_SHIFT = 12
RINGS = ("commands", "command completions", "faults", "notifications")
QUEUES = ("sq", "fq", "cq")
EP_MISSES = 17
PTE_WRITE = 0x4         # UNETMM_PTE_WRITE, unetmm_hw.h

# The user's name of a moment, and the function that the card calls then.
PLACES = {
    "doorbell": "unetmm_core_doorbell",
    "send": "unetmm_send_turn",
    "tlb-miss": "unetmm_miss_want",
    "miss-report": "miss_report",
    "fault-reply": "unetmm_fault_reply",
    "tlb-insert": "unetmm_tlb_insert",
    "evict": "unetmm_miss_report_eviction",
    "invalidate": "unetmm_invalidate",
    "receive": "unetmm_recv_frame",
    "completion": "unetmm_ep_complete",
    "interrupt": "unetmm_irq_flush",
    "reset": "unetmm_core_reset",
    "command": "unetmm_cmd_run",
}


def word(value):
    """An enumerator of the card's without its prefix, in small letters."""
    name = str(value)
    return name.rsplit("_", 1)[-1].lower()


def find_core():
    """The card: the nearest frame's `core`, or the device by its QEMU id."""
    frame = gdb.newest_frame()
    while frame is not None:
        try:
            core = frame.read_var("core")
            if not core.is_optimized_out and int(core):
                return core.dereference()
        except (ValueError, gdb.error, RuntimeError):
            pass
        frame = frame.older()
    try:
        state = gdb.parse_and_eval(
            "(UnetmmState *)qdev_find_recursive(sysbus_get_default(), "
            '"unetmm0")')
        if int(state):
            return state["core"]
    except gdb.error as error:
        raise gdb.GdbError(f"the card is not there yet: {error}")
    raise gdb.GdbError("there is no device with the id unetmm0")


def number_of(text, limit, what):
    """A small number that a user typed."""
    try:
        number = int(text, 0)
    except ValueError:
        raise gdb.GdbError(f"{text}: give the number of {what}")
    if not 0 <= number < limit:
        raise gdb.GdbError(f"{what} {number}: the card has 0 to {limit - 1}")
    return number


def say(text=""):
    """One line."""
    gdb.write(text + "\n")


def count(number, thing, things=None):
    """A number and its noun."""
    return f"{number} {thing if number == 1 else things or thing + 's'}"


# ---- The TLB ----------------------------------------------------------------


def show_entry(tlb, slot, entry):
    """One entry of the TLB."""
    sets, ways = int(tlb["sets"]), int(tlb["ways"])
    place = (f"set {slot // ways}" if slot < sets * ways
             else f"victim {slot - sets * ways}")
    pte = int(entry["pte"])
    facts = ["may be written" if pte & PTE_WRITE else "read only"]
    if int(entry["dirty"]):
        facts.append("written")
    if int(entry["busy"]):
        facts.append("held by " + count(int(entry["busy"]), "transfer"))
    if int(entry["in_dma"]):
        facts.append("a page is moving")
    if int(entry["dying"]):
        facts.append("invalidated, goes when it is let go")
    say(f"  {place}: space {int(entry['space'])} page "
        f"{int(entry['vpn']) << PAGE_SHIFT:#x} -> {pte & ~0xfff:#x}, "
        f"{', '.join(facts)}, tag {int(entry['tag'])}")


class Tlb(gdb.Command):
    """The entries of the card's TLB, by set.

    unetmm-tlb [SPACE]   all entries, or those of one address space
    """

    def __init__(self):
        super().__init__("unetmm-tlb", gdb.COMMAND_USER)

    def invoke(self, argument, from_tty):
        """Prints it."""
        core = find_core()
        tlb = core["source"]["tlb"]
        space = None
        if argument:
            space = number_of(argument, int(core["params"]["spaces"]),
                              "an address space")
        total = int(tlb["sets"]) * int(tlb["ways"]) + int(tlb["victims"])
        say(f"TLB: {count(int(tlb['sets']), 'set')} of "
            f"{count(int(tlb['ways']), 'way')}, "
            f"{count(int(tlb['victims']), 'victim')}; "
            f"{int(tlb['used'])} of {count(total, 'entry', 'entries')} used")
        left = int(tlb["used"])
        for slot in range(total):
            if not left:
                break
            entry = tlb["entries"][int(tlb["slot"][slot])]
            if not int(entry["valid"]) and not int(entry["dying"]):
                continue
            left -= 1
            if space in (None, int(entry["space"])):
                show_entry(tlb, slot, entry)


# ---- Endpoints and transfers ------------------------------------------------


def endpoint(core, text):
    """The endpoint that a user named; None: none was named."""
    return core["eps"][number_of(text, int(core["params"]["endpoints"]),
                                 "an endpoint")]


def live_endpoints(core):
    """All endpoints that exist."""
    for i in range(int(core["params"]["endpoints"])):
        if int(core["eps"][i]["live"]):
            yield core["eps"][i]


def show_queue(name, prod, cons, log2, waiting):
    """One queue of an endpoint."""
    say(f"  {name}: {count((prod - cons) & 0xffffffff, 'entry', 'entries')} "
        f"of {1 << log2} {waiting} (producer {prod}, consumer {cons})")


def show_miss(ep, number, miss):
    """One miss of an endpoint, if it waits."""
    state = word(miss["state"])
    if state == "none":
        return
    who = "send" if not number else f"free buffer in place {number - 1}"
    ident = (int(miss["generation"]) << 16 |
             (int(ep["id"]) * EP_MISSES + number))
    means = {"wanted": "to be reported to the driver",
             "asked": "reported, the driver has not answered",
             "deferred": "the driver pages in",
             "joined": "another report covers it",
             "refused": "no room for the answer, asked again later"}
    say(f"  miss {ident:#x} of the {who}: "
        f"{count(int(miss['npages']), 'page')} from "
        f"{int(miss['vpn']) << PAGE_SHIFT:#x} to "
        f"{'write' if int(miss['write']) else 'read'}; "
        f"{means.get(state, state)}")


def show_transfer(ep):
    """The send in work, in one or two lines."""
    tx = ep["tx"]
    desc = tx["desc"]
    state, blocked = word(tx["state"]), word(tx["blocked_on"])
    if state == "idle":
        say("  send in work: none")
        return
    doing = {"gather": "gathers its segments", "transmit": "is to be sent",
             "complete": "is to be completed"}[state]
    why = {"not": "", "fault": ", waits for a translation",
           "time": ", waits for a page to move", "wire": ", waits for the wire",
           "cq": ", waits for room in the completion queue"}[blocked]
    say(f"  send in work: cookie {int(desc['cookie']):#x}, "
        f"{int(tx['done'])} of {count(int(desc['len']), 'byte')}, "
        f"channel {int(desc['channel'])}; {doing}{why}")
    for i in range(min(int(desc["nsegs"]), 16)):
        seg = desc["segs"][i]
        here = (f", {int(tx['seg_off'])} gathered"
                if i == int(tx["seg"]) else "")
        say(f"    segment {i}: {count(int(seg['len']), 'byte')} at "
            f"{int(seg['addr']):#x}{here}")


def show_heads(ep):
    """The free buffers that the card has fetched."""
    most = int(gdb.parse_and_eval("UNETMM_MAX_HEADS"))
    for n in range(int(ep["nheads"])):
        head = ep["heads"][(int(ep["first_head"]) + n) % most]
        state = {"check": "to be looked up", "ready": "translated",
                 "asked": "asked for", "deferred": "being paged in",
                 "failed": "comes back"}[word(head["state"])]
        say(f"  free buffer {n}: {count(int(head['len']), 'byte')} at "
            f"{int(head['addr']):#x}, {state}")


def show_endpoint(core, ep):
    """Prints an endpoint: state, queues, a waiting miss."""
    source = core["spaces"][int(ep["space"])]["source"]["name"].string()
    state = ("stopped by an error" if int(ep["error"]) else
             "closing" if int(ep["closing"]) else "runs")
    say(f"endpoint {int(ep['id'])}: {state}, space {int(ep['space'])} "
        f"(source {source}), policy {ep['policy']['name'].string()}")
    show_queue("send queue", int(ep["sq_prod"]), int(ep["sq_cons"]),
               int(ep["sq_log2"]), "to be sent")
    show_queue("free queue", int(ep["fq_prod"]), int(ep["fq_cons"]),
               int(ep["fq_log2"]), "to be filled")
    show_queue("completion queue", int(ep["cq_prod"]), int(ep["cq_cons"]),
               int(ep["cq_log2"]), "not read")
    show_transfer(ep)
    show_heads(ep)
    for number in range(EP_MISSES):
        show_miss(ep, number, ep["misses"][number])


class Endpoint(gdb.Command):
    """An endpoint: queues, the send in work, free buffers, misses.

    unetmm-ep [N]   endpoint N, or a line for each that exists
    """

    def __init__(self):
        super().__init__("unetmm-ep", gdb.COMMAND_USER)

    def invoke(self, argument, from_tty):
        """Prints it."""
        core = find_core()
        if argument:
            ep = endpoint(core, argument)
            if not int(ep["live"]):
                raise gdb.GdbError(f"there is no endpoint {argument} now: "
                                   "unetmm-ep alone lists them")
            show_endpoint(core, ep)
            return
        for ep in live_endpoints(core):
            say(f"endpoint {int(ep['id'])}: space {int(ep['space'])}, "
                f"{(int(ep['sq_prod']) - int(ep['sq_cons'])) & 0xffffffff} "
                f"to send, {int(ep['nheads'])} buffers fetched")


class Transfer(gdb.Command):
    """The transfers in progress: sends, and the message that is landing.

    unetmm-transfer [N]   of all endpoints, or of endpoint N
    """

    def __init__(self):
        super().__init__("unetmm-transfer", gdb.COMMAND_USER)

    def invoke(self, argument, from_tty):
        """Prints it."""
        core = find_core()
        chosen = ([endpoint(core, argument)] if argument else
                  [ep for ep in live_endpoints(core)
                   if word(ep["tx"]["state"]) != "idle"])
        for ep in chosen:
            say(f"endpoint {int(ep['id'])}:")
            show_transfer(ep)
        if not chosen:
            say("no send is in work")
        rx = core["rx"]
        if int(rx["active"]):
            place = rx["place"]
            piece = place["pieces"][int(place["piece"])]
            say(f"endpoint {int(rx['ep'])} receives "
                f"{count(int(rx['len']), 'byte')}, a "
                f"{rx['owner']['name'].string()}'s: page "
                f"{int(place['page']) + 1} of {int(place['npages'])} moves, "
                f"at {int(piece['addr']) + int(place['off']):#x}")


# ---- Rings ------------------------------------------------------------------


class Ring(gdb.Command):
    """A ring: how full it is, and where.

    unetmm-ring                      the card's four rings
    unetmm-ring cmd|cmdc|fault|notify  one of them
    unetmm-ring sq|fq|cq N           a queue of endpoint N
    """

    def __init__(self):
        super().__init__("unetmm-ring", gdb.COMMAND_USER)

    def invoke(self, argument, from_tty):
        """Prints it."""
        core = find_core()
        words = argument.split()
        names = ("cmd", "cmdc", "fault", "notify")
        if not words:
            for i in range(len(names)):
                self.show(core, i)
        elif len(words) == 1 and words[0] in names:
            self.show(core, names.index(words[0]))
        elif len(words) == 2 and words[0] in QUEUES:
            ep, q = endpoint(core, words[1]), words[0]
            say(f"{q} of endpoint {words[1]}: at {int(ep[q + '_base']):#x}")
            show_queue(q, int(ep[q + "_prod"]), int(ep[q + "_cons"]),
                       int(ep[q + "_log2"]), "waiting")
        else:
            raise gdb.GdbError("use unetmm-ring cmd, cmdc, fault or notify, "
                               "or sq, fq or cq and an endpoint")

    @staticmethod
    def show(core, number):
        """One ring of the card."""
        ring = core["ring"]["all"][number]
        if not int(ring["enabled"]):
            say(f"ring of {RINGS[number]}: off")
            return
        waiting = (int(ring["prod"]) - int(ring["cons"])) & 0xffffffff
        say(f"ring of {RINGS[number]}: "
            f"{count(waiting, 'entry', 'entries')} of "
            f"{1 << int(ring['log2'])} not consumed (producer "
            f"{int(ring['prod'])}, consumer {int(ring['cons'])}), at "
            f"{int(ring['base']):#x}")


# ---- Breakpoints ------------------------------------------------------------


class Break(gdb.Command):
    """Stops the card at a moment, given by a name or any function.

    unetmm-break NAME [CONDITION]   e.g. unetmm-break tlb-miss !miss->owner->write
    unetmm-break                    lists the names
    """

    def __init__(self):
        super().__init__("unetmm-break", gdb.COMMAND_USER)

    def invoke(self, argument, from_tty):
        """Sets it."""
        if not argument:
            for name, function in PLACES.items():
                say(f"  {name:12} {function}()")
            return
        name, _, condition = argument.partition(" ")
        place = PLACES.get(name, name)
        try:
            gdb.decode_line(place)      # finds inlined functions, too
        except gdb.error:
            raise gdb.GdbError(f"{name}: no such moment or function "
                               "(unetmm-break lists the moments)")
        stop = gdb.Breakpoint(place)
        if condition:
            stop.condition = condition
        say(f"stops at {name}, {place}()")


class Start(gdb.Command):
    """Sets a breakpoint as unetmm-break does, then runs; or gives up.

    For scripts/debug: without the breakpoint the guest would run to its end.
    """

    def __init__(self):
        super().__init__("unetmm-start", gdb.COMMAND_USER)

    def invoke(self, argument, from_tty):
        """Runs."""
        try:
            gdb.execute(f"unetmm-break {argument}")
        except gdb.error as error:
            gdb.write(f"error: {error}\n", gdb.STDERR)
            gdb.execute("quit 1")
        gdb.execute("run")


for command in (Tlb, Endpoint, Transfer, Ring, Break, Start):
    command()
