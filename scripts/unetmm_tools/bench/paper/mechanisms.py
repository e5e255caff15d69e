# SPDX-License-Identifier: GPL-2.0-or-later
"""Mechanisms that the card's interface does not have, and the cold ring by TCP's timers."""

import operator

from unetmm_tools.bench.paper.figures import STRIDE, backup_costs
from unetmm_tools.guest.profiles import PS, Inputs, pca200

MISSES = {"bytes": 40, "rounds": 2048, "warm": 64, "pages": 64,
          "tlb_sets": STRIDE}
DESCRIPTORS = 256               # of 16 bytes in a page
KTLB = {"processes": 8, "pages": 256, "accesses": 100000}


def switched(program, experiment, base, off, on):
    """The results without and with a mechanism: a function of their name."""
    runs = [program.want(experiment, {**base, **costs}) for costs in (off, on)]
    return lambda name: tuple(get(name) for get in runs)


def switches(program, inputs):
    """Rows: mechanism, measured value and its unit, without it, with it."""
    hca, atm = inputs.connectib, inputs.pca200
    miss = pca200(inputs, tlb=True)
    resumed = switched(program, "resume", {
        **hca.costs(report="trigger", fault="driver", reply="update",
                    resume="restart", clear="clear")},
        {"clear_first": 1}, {})
    evicted = switched(program, "pingpong", {
        **miss, **MISSES, "rounds": 16}, {"evict_report": miss["report"]}, {})
    waited = switched(program, "wait", {
        **miss, **MISSES, "interval": 331 * PS["us"]},
        {"busy_wait": 0}, {"busy_wait": 1})
    paged = switched(program, "pingpong", {
        **miss, **MISSES, "rounds": 16, "page_in": atm.cost("page_in")},
        {"others": atm.cost("slice")}, {})
    limited = program.want("limit", {
        **miss, "bytes": 1024, "rounds": 192, "warm": 80, "pages": 64,
        "tlb_limit": atm.cost("entries")})
    shared = switched(program, "ktlb", KTLB, {}, {"shared": 1})
    absent = switched(program, "backup", backup_costs(
        inputs, "minor_thread", 12), {}, {"descriptors": DESCRIPTORS})
    program.run()
    rows = [
        ("NPF: resume the hardware, then clear the bit",
         "a page fault, us", resumed("fault"), PS["us"]),
        ("", "a second one that follows at once, us", resumed("second"),
         PS["us"]),
        ("NPF: a page with 256 of the ring's descriptors is absent, instead "
         "of a buffer", "one fault in 2^12 packets, Gb/s",
         tuple(map(operator.truediv, absent("bits"), absent("time"))), 0.001),
        ("", "packets in the backup ring, each fault",
         tuple(map(operator.truediv, absent("backed"), absent("faults"))), 1),
        ("U-Net/MM: one record for a miss and the page to unpin",
         "there and back, each send misses, us", evicted("round"), PS["us"]),
        ("U-Net/MM: the card waits busily for a miss",
         "a message that arrives meanwhile, us", waited("message"), PS["us"]),
        ("U-Net/MM: page-in at the head of the run queue",
         "there and back, each send's page is on disk, ms", paged("round"),
         PS["ms"]),
        ("U-Net/MM: the kernel limits valid entries, at run time",
         "pages pinned", (limited("entries"), limited("entries, limited")), 1),
        ("", "there and back, us",
         (limited("round"), limited("round, limited")), PS["us"]),
        ("U-Net/MM: one TLB of the kernel for the card, not one a process",
         "pages pinned", shared("pinned"), 1),
        ("", "misses", shared("misses"), 1)]
    return [(text, what, *(value / unit for value in values))
            for text, what, values, unit in rows]


def switches_table(program):
    """The rows of switches(), as text."""
    return [("Mechanism", "Measured", "Without", "With")] + [
        (text, what, *(f"{value:.2f}" if value % 1 else f"{value:.0f}"
                       for value in values))
        for text, what, *values in switches(program, Inputs())]


COLD_RINGS = (16, 32, 64, 128)
COLD_CLIENTS = (1, 4, 16, 64)
COLD_WAYS = (("one after another", 1), ("all at once", 0))
COLD_PAPER = ("10.9", "11.8", "61.9", "no end")


def cold(program, ring, connections, sequential=1, stamps=1, **more):
    """NPF, Figure 4: the results of one client and one ring."""
    p = Inputs().coldring
    costs = {"fault": p.cost("fault"), **more}
    return program.want("cold", {
        **p.costs(service="service", accesses="operations", delay="delay",
                  rto_first="rto_first", rto_again="rto_again",
                  rto_least="rto_least", rto_server="rto_server",
                  syn_wait="syn_wait"),
        **costs, "ring": ring, "connections": connections,
        "sequential": sequential, "stamps": stamps})


def cold_table(program):
    """Rows: the paper's, and each client's seconds until it is done."""
    runs = [((str(clients), text, "yes" if stamps else "no"),
             [cold(program, ring, clients, way, stamps)
              for ring in COLD_RINGS])
            for stamps in (0, 1) for text, way in COLD_WAYS
            for clients in COLD_CLIENTS]
    program.run()
    return [("Connections", "Made", "Time stamps",
             *(f"Ring of {ring}, s" for ring in COLD_RINGS)),
            ("the paper's", "–", "–", *COLD_PAPER)] + [
        (*names, *(f"{get('time') / PS['s']:.1f}" if get("time") else "no end"
                   for get in results)) for names, results in runs]
