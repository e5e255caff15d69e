# SPDX-License-Identifier: GPL-2.0-or-later
"""The tour of NetVM: memory that is pinned on neither side.

The example netvm-tour makes the round: writes into pages that are there and that
are paged out, ways to wait for an event counter, a semaphore and a wait-queue
between the guests.  bench-local runs one workload with the sources tlb and shadow.
"""

from unetmm_tools.tour.base import DemoError, clocks, need, wire

DEVICE_OPTIONS = "user-mtu=9000"
E1000E = False

STOPS = ("resident", "paged-out", "one-page")
WAITS = (
    ("bytes", "looking at the bytes"), ("spin", "a counter: spin"),
    ("block", "a counter: block"), ("handler", "a counter: handler"),
)
SYNCS = (
    ("semaphore", "semaphore: in, a READ and a WRITE, out"),
    ("wait-queue", "wait-queue: wait until woken"),
)

CREDITS = 4                     # packets on their way to memory that may be absent

SERVERS = f"""#!/bin/sh
echo {CREDITS} >/sys/module/unetmm/parameters/redirect_credits || exit 1
modprobe -q zram
echo 64M >/sys/block/zram0/disksize && mkswap /dev/zram0 >/dev/null &&
    swapon /dev/zram0 || exit 1
netvm-tour || exit 1
unetmm-pingpong --listen --reliable --service 99 --timeout %(limit)d
"""

CLIENT = """#!/bin/sh
as() { name=$1; shift; "$@" | while read -r line; do echo "$name $line"; done; }
as stop netvm-tour %(mac)s
as mix bench-local tlb mix 4000
as mix bench-local shadow mix 4000
unetmm-pingpong %(mac)s --reliable --service 99 --count 1 --warmup 0 >/dev/null
"""


def by_key(rows, key, names):
    """{name: row} of those that have the key; all names must be there."""
    found = {row[key]: row for row in rows
             if isinstance(row, dict) and key in row}
    missing = [name for name in names if name not in found]
    if missing:
        raise DemoError(f"the tour ended before {missing[0]}: "
                        f"{rows[-1] if rows else 'nothing was said'}")
    return {name: found[name] for name in names}


def build_report(found, kernel, seconds):
    """Everything on the screen, as one object."""
    rows = found.get("stop", [])
    need(found, "mix")
    return {"kernel": kernel, "seconds": round(seconds, 1),
            "clocks": "two QEMUs, two clocks, wall time",
            "credits": CREDITS,
            "stops": by_key(rows, "step", STOPS),
            "waits": by_key(rows, "wait", [name for name, _ in WAITS]),
            "syncs": by_key(rows, "sync", [name for name, _ in SYNCS]),
            "mix": by_key(found["mix"], "mix", ("tlb", "shadow"))}


def verdict(row):
    """The result of a stop's checks."""
    return f"WRONG: {row['bad']}" if row["bad"] else "every byte right"


def show_writes(report):
    """Into memory that is there, and that is not."""
    stops = report["stops"]
    for name, label in (("resident", "resident on the receiver"),
                        ("paged-out", "paged out there just before")):
        row = stops[name]
        print(f"  {row['bytes']:8} bytes, {label:28} {row['us'] / 1000:8.1f} ms"
              f"  {verdict(row)}")
        if row["out"]:
            print(f"           {row['out']} pages were out; "
                  f"{row['redirected']} packets redirected, {row['copied']} "
                  f"copied once, {row['page_ins']} page-ins;\n"
                  f"           with {report['credits']} credits the sender "
                  f"waited {row['credit_waits']} times for one; nothing was "
                  "lost")
    row = stops["one-page"]
    print(f"  {row['bytes']:8} bytes, write to completion: "
          f"{row['there_us']:8.1f} us resident {row['away_us']:8.1f} us paged "
          f"out  {verdict(row)}")


def show(report):
    """The screen."""
    print(f"""
Two guests, Linux {report['kernel']}, {wire(report)}; source \
shadow, policy redirect.
Guest b writes into a's memory, which is pinned on neither side:
""")
    show_writes(report)
    print("\nA write there and an answer, microseconds        median     p99"
          "      n")
    for name, label in WAITS:
        row = report["waits"][name]
        print(f"  a waits by {label:35}{row['median']:8.1f}{row['p99']:8.1f}"
              f" {row['n']:6}")
    print("Between the two guests")
    for name, label in SYNCS:
        row = report["syncs"][name]
        print(f"  {label:46}{row['median']:8.1f}         {row['n']:6}  "
              f"{'WRONG' if row['bad'] else 'right'}")
    print("\nThe same messages from more pages than the TLB has, one in ten of "
          "them new:")
    for name, row in report["mix"].items():
        table = (f", {row['in_table']} of {row['pages']} resident pages in "
                 "the table" if name == "shadow" else "")
        print(f"  {name:6} {row['median']:7.1f} us, p99 {row['p99']:7.1f}: "
              f"{row['misses']} misses, {row['pins']} pins, {row['pushes']} "
              f"pushes, {row['interrupts']} interrupts{table}")
    print(f"\n({clocks(report)})")


def is_good(report):
    """True if all bytes came once and no semaphore or wait-queue let a wrong member go on."""
    return not any(row["bad"] for rows in (report["stops"], report["syncs"])
                   for row in rows.values())
