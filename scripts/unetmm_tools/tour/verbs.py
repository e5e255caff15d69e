# SPDX-License-Identifier: GPL-2.0-or-later
"""The tour of verbs: perftest on the card, with and without ODP, beside rdma_rxe.

Debian's programs run in the same virtual time on rdma_rxe over an e1000e, and on the card, by
Debian's librxe and by our provider.  With --odp perftest registers its buffers with
IBV_ACCESS_ON_DEMAND; the counters of the driver tell the number of page faults.
"""

import math

from unetmm_tools.bench import two_guests, virtual as bench
from unetmm_tools.bench.common import BenchError
from unetmm_tools.guest import virtual
from unetmm_tools.tour.base import DemoError, clocks, parse_lines

VIRTUAL = True
TAKES = "two minutes or more"
# Of virtual time
LIMIT_SECONDS = 900
ADDRESS = "10.7.0.%d"
# title, program, options; the first number of a line of perftest is the size
RUNS = (
    ("send, 8 B, half a round trip", "ib_send_lat", "-s 8 -n 200"),
    ("write, 8 B, half a round trip", "ib_write_lat", "-s 8 -n 200"),
    ("send, 64 KiB", "ib_send_bw", "-s 65536 -n 200 -t 8"),
    ("write, 64 KiB", "ib_write_bw", "-s 65536 -n 200 -t 8"),
)
# name, title, parameter `verbs` of unetmm_ib, options
CARD_WAYS = (("card", "librxe", "rxe", ""), ("odp", "librxe, ODP", "rxe", " --odp"),
             ("own", "own, ODP", "own", " --odp"))
WAYS = (("rxe", "rxe, e1000e"), *((name, title) for name, title, _, _ in CARD_WAYS))
# counter of the driver, its title; pinned_now is a level, the others count
COUNTERS = (("faults", "misses served"), ("faults_deferred", "paged in"),
            ("invalidations", "invalidations"), ("pinned_now", "pages pinned"))
STAT = "echo \"stat_{way} $(unetmm-stat --driver --all --json)\"\n"


def runs(options):
    """The programs of both sides, for perftest_scripts()."""
    return [(tool, words + options) for _, tool, words in RUNS]


def rxe(kernel):
    """The output of the client on rdma_rxe."""
    serve, use = two_guests.perftest_scripts(runs(""), "rxe0", "10.0.1.1")
    return client(bench.RXE_UP % 1 + serve, bench.RXE_UP % 2 + use, kernel,
                  ["--no-card", *two_guests.rxe_options(kernel)], e1000e=True)


def card(kernel, interface):
    """The output of the client on the card: figures of each way, and counters behind them."""
    scripts = [bench.HEAD + f"verbs-up {ADDRESS % me} {interface}\n" for me in (1, 2)]
    for way, _, verbs, options in CARD_WAYS:
        if verbs == interface:
            serve, use = two_guests.perftest_scripts(runs(options), "unetmm0", ADDRESS % 1)
            scripts[0] += serve
            scripts[1] += f"echo \"way {way}\"\n" + use + STAT.format(way=way)
    return client(*scripts, kernel, ["--verbs", "--cpus", "1", "--memory", "768M"])


def client(serve, use, kernel, options, **more):
    """Runs both scripts in one virtual time; the output of the second one."""
    with virtual.VirtualPair(serve + "exec sleep infinity\n", use, kernel=kernel,
                             options=options, **more) as couple:
        if couple.b.wait(LIMIT_SECONDS):
            raise DemoError(f"the client's script failed: {couple.b.trouble()}; the "
                            f"server's: {couple.a.trouble()}")
        return couple.b.results()


def figures(text):
    """One number a run: microseconds or MB/s."""
    try:
        rows = two_guests.rxe_rows(text)
    except BenchError as error:
        raise DemoError(str(error)) from error
    if len(rows) != len(RUNS):
        raise DemoError(f"{len(rows)} figures came, {len(RUNS)} were expected")
    return {title: round(row["median"], 1) for (title, _, _), row in zip(RUNS, rows)}


def build_report(texts, kernel):
    """Everything on the screen, as one object, from the outputs of the guests."""
    rxe_text, *card_texts = texts
    ways, counters = {"rxe": figures(rxe_text)}, {}
    for text in card_texts:
        before = dict.fromkeys((name for name, _ in COUNTERS), 0)
        for part in text.split("way ")[1:]:
            way, _, lines = part.partition("\n")
            ways[way] = figures(lines)
            now = parse_lines(lines)[f"stat_{way}"][-1]["driver"]
            counters[way] = {name: now[name] - (0 if name == "pinned_now" else before[name])
                             for name, _ in COUNTERS}
            before = now
    missing = [name for name, _ in WAYS if name not in ways]
    if missing:
        raise DemoError(f"the tour ended before the way {missing[0]}")
    return {"kernel": kernel, "clocks": "one virtual time, equal in every run",
            "wire": "a link of 10 us and 10 Gb/s", "ways": ways, "counters": counters}


def measure(kernel):
    """Boots the guests of all runs; the report."""
    return build_report([rxe(kernel), card(kernel, "rxe"), card(kernel, "own")], kernel)


def show(report):
    """The screen."""
    print(f"""
Two guests, Linux {report['kernel']}, {report['wire']}; Debian's perftest.
Microseconds, and MB/s for 64 KiB:
""")
    print("  " + " " * 34 + "".join(f"{title:>12}" for _, title in WAYS))
    for title, _, _ in RUNS:
        print(f"  {title:34}" + "".join(
            f"{report['ways'][way][title]:12.1f}" for way, _ in WAYS))
    print("\n  the driver of the client, in all four runs:")
    for name, title in COUNTERS:
        print(f"  {title:46}" + "".join(
            f"{report['counters'][way][name]:12}" for way, _ in WAYS[1:]))
    print(f"\n({clocks(report)})")


def is_good(report):
    """True if each figure is a number, and no page was pinned."""
    return all(math.isfinite(figure) and figure > 0
               for way in report["ways"].values() for figure in way.values()) and \
        not any(counters["pinned_now"] for counters in report["counters"].values())
