# SPDX-License-Identifier: GPL-2.0-or-later
"""The tour of VMMC: writing into a peer's memory.

The example vmmc-tour does each operation once; unetmm-pingpong measures the ways
of writing; bench-local measures a miss with the sources tlb and utlb.
"""

from unetmm_tools.tour.base import DemoError, clocks, need, wire

DEVICE_OPTIONS = "user-mtu=9000"
E1000E = False

STOPS = (
    ("import", "export, import (refused before the export)"),
    ("deliberate", "deliberate update: WRITE"),
    ("read", "READ of the same bytes"),
    ("automatic", "automatic update: plain stores, a fence"),
    ("udma", "user-level DMA start: a store and a load"),
    ("fetch-add", "FETCH_ADD, each once"),
    ("notifications", "notifications while their handler is blocked"),
    ("redirection", "redirection in the middle of a write"),
    ("revocation", "revocation under writes"),
)
# Name of unetmm-pingpong's operation, and its name on the screen.
WAYS = (
    ("send", "SEND"), ("write", "deliberate update"),
    ("au", "automatic update"), ("udma", "user-level DMA start"),
    ("read", "READ"), ("atomic", "FETCH_ADD"),
)
SERVICES = {op: 10 + i for i, (op, _) in enumerate(WAYS)}

SERVERS = """#!/bin/sh
vmmc-tour || exit 1
""" + "".join(f"unetmm-pingpong --listen --reliable --op {op} "
              f"--service {SERVICES[op]}\n" for op, _ in WAYS) + """
unetmm-pingpong --listen --service 99 --timeout %(limit)d
"""

CLIENT = """#!/bin/sh
as() { name=$1; shift; "$@" | while read -r line; do echo "$name $line"; done; }
as stop vmmc-tour %(mac)s
""" + "".join(f"as latency unetmm-pingpong %(mac)s --reliable --op {op} "
              f"--service {SERVICES[op]} --json --count 1000\n"
              for op, _ in WAYS) + """
as miss bench-local tlb miss 128
as miss bench-local utlb miss 128
unetmm-pingpong %(mac)s --service 99 --count 1 --warmup 0 >/dev/null
"""


def build_report(found, kernel, seconds):
    """Everything on the screen, as one object."""
    stops = {row["step"]: row for row in found.get("stop", [])
             if isinstance(row, dict)}
    missing = [name for name, _ in STOPS if name not in stops]
    if missing:
        raise DemoError(f"the tour ended before {missing[0]}: "
                        f"{found.get('stop', ['it printed nothing'])[-1]}")
    ways = [row for row in found.get("latency", []) if isinstance(row, dict)]
    if len(ways) != len(WAYS):
        raise DemoError(f"{len(WAYS) - len(ways)} ways of writing were not "
                        "measured")
    need(found, "miss")
    return {"kernel": kernel, "seconds": round(seconds, 1),
            "clocks": "two QEMUs, two clocks, wall time",
            "stops": [stops[name] for name, _ in STOPS],
            "ways": [{**row, "name": op, "label": label}
                     for row, (op, label) in zip(ways, WAYS)],
            "misses": {row["mode"]: row for row in found["miss"]}}


def stop_result(row):
    """The last column of a stop's line."""
    if row["bad"]:
        return f"WRONG: {row['bad']}"
    if row["step"] == "notifications":
        return "none lost, in order, after their data"
    if row["step"] == "redirection":
        return (f"{row['copied']} bytes had landed and were copied, the rest "
                "went to the new place")
    if row["step"] == "revocation":
        return f"write {row['writes']} was refused; no byte changed afterwards"
    return "right"


def show(report):
    """The screen."""
    print(f"""
Two guests, Linux {report['kernel']}, {wire(report)}.  Guest \
b writes into a's memory:
""")
    for row, (_, label) in zip(report["stops"], STOPS):
        print(f"  {label:51} {row['bytes']:8}  {stop_result(row)}")
    print("\n8 bytes, microseconds               median     p99      n")
    for row in report["ways"]:
        way = ("there and back" if row["name"] in ("read", "atomic")
               else "one way")
        print(f"  {row['label']:21} {way:14}{row['median']:7.1f}"
              f" {row['p99']:7.1f} {row['n']:6}")
    print("\nMessages from pages that are in the card's TLB or cache (hit) and "
          "that are not (miss),\nmicroseconds each:")
    for mode, row in report["misses"].items():
        served = "fetched by the card" if row["fetches"] else \
            "served by the kernel"
        print(f"  {mode:5} hit {row['hit']:8.2f}   miss {row['missed']:8.2f}"
              f"   {row['misses']} misses, {served}")
    print(f"\n({clocks(report)})")


def is_good(report):
    """True if each operation did its part, and no byte changed that must not."""
    return not any(row["bad"] for row in report["stops"])
