# SPDX-License-Identifier: GPL-2.0-or-later
"""scripts/bench: the card beside its alternatives, and its limits.

Each part boots its guests and returns rows, one dict for each figure, with the
keys of sockets.row().  All figures of a table come from one run on one machine;
compare their ratios only.
"""

import argparse
import json
import math
import sys
import time

from unetmm_tools.bench import host, one_guest, two_guests
from unetmm_tools.bench.common import BenchError
from unetmm_tools.bench.show import plots, show_goals, show_matrix, show_rows
from unetmm_tools.bench.sockets import SocketsError
from unetmm_tools.guest import pair as guests, vm

PARTS = ("host", "core", "count", "local", "memory", "sockets", "unetmm",
         "frames", "matrix", "storage", "coldring", "overcommit", "rxe",
         "netdev")
SMOKE_PARTS = ("core", "local")

# Where parts run
THIS_HOST = "programs of this host"
PLACES = {THIS_HOST: ("host", "core", "count"),
          "one guest": ("count", "local", "memory", "matrix", "storage", "coldring", "overcommit"),
          "two guests, two QEMUs, two clocks": ("sockets", "unetmm", "frames", "rxe", "netdev")}

# No parts of a quick run unless they are named
LONG_PARTS = ("matrix", "storage", "coldring", "overcommit")


def parse():
    """scripts/bench has checked the options."""
    parser = argparse.ArgumentParser(prog="scripts/bench")
    parser.add_argument("--kernel", default="6.1")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--only", action="append", choices=PARTS, default=[])
    parser.add_argument("--skip", action="append", choices=PARTS, default=[])
    parser.add_argument("--json")
    parser.add_argument("--plots")
    options = parser.parse_args()
    if options.smoke and not options.only:
        options.only = SMOKE_PARTS
    return options


def write_rows(options, rows):
    """After each part: a later one may be ended from outside."""
    if options.json:
        with open(options.json, "a", encoding="utf-8") as file:
            for found in rows:
                file.write(json.dumps(found) + "\n")


def part_of(name):
    """The function of a part."""
    return next(getattr(place, f"part_{name}") for place in (host, one_guest, two_guests)
                if hasattr(place, f"part_{name}"))


def footer(parts, kernel):
    """Where the figures of these parts come from."""
    words = [text for text, names in PLACES.items() if set(parts) & set(names)]
    if words and words != [THIS_HOST]:
        words.append(f"Linux {kernel} in the guests, TCG")
    return "; ".join(words) or "nothing was measured"


def main():
    """Part by part; a part that fails is named and fails the run, the results
    of the others are shown."""
    options = parse()
    rows, failed, ran, start = [], [], [], time.monotonic()
    if options.json:
        with open(options.json, "w", encoding="utf-8"):
            pass
    for part in PARTS:
        if part in options.skip or (part not in options.only and (
                options.only or options.quick and part in LONG_PARTS)):
            continue
        print(f"  {part}: {part_of(part).__doc__} ...",
              file=sys.stderr, flush=True)
        began = time.monotonic()
        try:
            found = part_of(part)(options)
            rows += found
            ran.append(part)
            write_rows(options, found)
        except (BenchError, SocketsError, guests.GuestError, vm.VmError,
                OSError, ValueError, KeyError, IndexError) as error:
            failed.append(part)
            print(f"error: {part}: {error}", file=sys.stderr)
        print(f"  {part}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    if any(not math.isfinite(r["median"]) for r in rows):
        failed.append("a figure that is no number")
    show_rows([r for r in rows if r["metric"] != "cell"])
    show_matrix(rows)
    show_goals(rows)
    print(f"\n({footer(ran, options.kernel)}; wall time; {time.monotonic() - start:.0f} s in all)")
    if options.plots:
        plots(rows, options.plots)
    sys.exit(1 if failed or not rows else 0)


if __name__ == "__main__":
    main()
