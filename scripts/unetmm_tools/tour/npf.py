# SPDX-License-Identifier: GPL-2.0-or-later
"""The tour of NIC page faults: memory that nobody registers, pins or keeps resident.

The example npf-tour writes to and reads from memory that was paged out just before,
on either side.  bench-local takes a fault apart.  The block server of storage.py is
run with a buffer that is pinned and with one that is not.
"""

from unetmm_tools.bench import storage
from unetmm_tools.tour.base import DemoError, clocks, need, wire

DEVICE_OPTIONS = "user-mtu=9000"
E1000E = False

STOPS = (
    ("first-write", "WRITE, first: no entries on either card"),
    ("write", "WRITE, again"),
    ("write-out-there", "WRITE into pages that were paged out"),
    ("write-out-here", "WRITE from pages that were paged out"),
    ("read-out-there", "READ of pages that were paged out"),
    ("read-out-here", "READ into pages that were paged out"),
    ("read-out-here-rewind", "the same READ with go-back-N"),
)
STAGES = ("card", "interrupt", "wait", "find", "table", "resume")

SWAP = """
modprobe -q zram
echo 64M >/sys/block/zram0/disksize && mkswap /dev/zram0 >/dev/null &&
    swapon /dev/zram0 || exit 1
"""

SERVERS = f"""#!/bin/sh
{SWAP}
npf-tour || exit 1
unetmm-pingpong --listen --reliable --service 99 --timeout %(limit)d
"""

CLIENT = f"""#!/bin/sh
as() {{ name=$1; shift; "$@" | while read -r line; do echo "$name $line"; done; }}
{SWAP}
as stop npf-tour %(mac)s
as fault bench-local odp fault 40
unetmm-pingpong %(mac)s --reliable --service 99 --count 1 --warmup 0 >/dev/null
"""


def build_report(found, kernel, seconds):
    """Everything on the screen, as one object."""
    need(found, "stop")
    need(found, "fault")
    stops = {row["step"]: row for row in found["stop"] if "step" in row}
    faults = {}
    for row in found["fault"]:
        key = (row.get("npf") or row.get("fault_stage") or
               "inv-" + row["inv_stage"])
        faults[key, row["bytes"]] = row["median"]
    missing = [name for name, _ in STOPS if name not in stops]
    missing += [name for name in STAGES if (name, 4096) not in faults]
    if missing:
        raise DemoError(f"the tour ended before {missing[0]}")
    try:
        # Its guest has a disk, which has the host's time.
        store = None if "virtual" in found else storage.measure(kernel,
                                                                quick=True)
    except storage.StorageError as error:
        raise DemoError(str(error)) from error
    return {"kernel": kernel, "seconds": round(seconds, 1),
            "clocks": "two QEMUs, two clocks, wall time", "stops": stops,
            "faults": {f"{name}, {size}": median
                       for (name, size), median in faults.items()},
            "storage": store}


def show_stops(stops):
    """The transfers, one line each."""
    print("  2 MiB each                                 pages out      ms  "
          "faults  RNR  page-ins  dropped")
    for name, label in STOPS:
        row = stops[name]
        print(f"  {label:42}{row['out']:10}{row['us'] / 1000:8.1f}"
              f"{row['faults']:8}{row['rnr']:5}{row['page_ins']:10}"
              f"{row['dropped']:9}"
              f"  {'WRONG' if row['bad'] else 'every byte right'}")


def cost_text(cost, form):
    """A fault's cost, or a word.

    It is the difference of two medians, of transfers with and without the fault:
    on a busy machine the difference can be 0 or negative, which is no time.
    """
    return form.format(cost) if cost > 0 else "not measurable"


def show_one_fault(own, one, absent):
    """The time of one page's fault, beside a fault of the processor."""
    times = f", {one / own:.1f} times" if one > 0 else ";"
    print(f"  one page {cost_text(one, '{:.0f}')}{times} a fault of the "
          f"processor ({own:.0f}); absent in the process, too: "
          f"{cost_text(absent, '{:.0f}')}")


def show_faults(faults):
    """One fault by stage, and many at once."""
    print("\nA fault, microseconds: " + ", ".join(
        f"{name} {faults[f'{name}, 4096']:.0f}" for name in STAGES))
    for size, name in ((4096, "4 KiB"), (4 << 20, "4 MiB")):
        print(f"  an invalidation of {name}: " + ", ".join(
            f"{stage} {faults[f'inv-{stage}, {size}']:.0f}"
            for stage in ("table", "card", "free")))
    costs = [faults["unknown, 4096"], faults["absent, 4096"]]
    show_one_fault(faults["cpu, 4096"], *costs)
    for name, label in (("unknown", "resident in the process"),
                        ("absent", "absent in the process, too")):
        batch = faults[f"{name}, {4 << 20}"]
        single = faults[f"{name}, page by page, {4 << 20}"]
        costs += [batch, single]
        ratio = f": 1/{single / batch:.0f}" if min(batch, single) > 0 else ""
        print(f"  4 MiB {label:29} at once "
              f"{cost_text(batch / 1000, '{:8.2f} ms')}, page by page "
              f"{cost_text(single / 1000, '{:8.1f} ms')}{ratio}")
    if min(costs) <= 0:
        print("  (not measurable: with the fault the transfer took no longer than "
              "without it; the machine was busy)")


def show(report):
    """The screen."""
    print(f"""
Two guests, Linux {report['kernel']}, {wire(report)}; source \
odp, policy rnr: nothing is
registered or pinned.  Guest b writes to and reads from guest a's memory:
""")
    show_stops(report["stops"])
    show_faults(report["faults"])
    if report["storage"]:
        storage.show(report["storage"])
    print(f"\n({clocks(report)})")


def is_good(report):
    """True if all bytes were right."""
    return not any(row["bad"] for row in report["stops"].values())
