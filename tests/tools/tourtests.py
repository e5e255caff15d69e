# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests of a tour's screen: scripts/unetmm_tools/tour/npf.py.

The figures are made up; no guest runs.  A fault's cost is the difference of two
medians, so on a busy machine it can come out negative.
"""

import contextlib
import io

from unetmm_tools.check.taptests import require
from unetmm_tools.tour import npf as tour_npf

LONG = 4 << 20
FAULTS = {
    **{f"{name}, 4096": 10.0 for name in tour_npf.STAGES},
    **{f"inv-{stage}, {size}": 5.0 for stage in ("table", "card", "free")
       for size in (4096, LONG)},
    "cpu, 4096": 18.0, "unknown, 4096": 90.0, "absent, 4096": 108.0,
    f"unknown, {LONG}": 660.0, f"unknown, page by page, {LONG}": 23600.0,
    f"absent, {LONG}": 3020.0, f"absent, page by page, {LONG}": 27900.0,
}
NOTE = ("  (not measurable: with the fault the transfer took no longer than "
        "without it; the machine was busy)")


def screen(**changed):
    """The lines that the tour prints of the faults; changed[key] in FAULTS."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        tour_npf.show_faults({**FAULTS, **changed})
    return out.getvalue().splitlines()


def tour_costs(_directory):
    """tour npf: costs and ratios of faults"""
    lines = screen()
    require(lines[4] == "  one page 90, 5.0 times a fault of the processor (18)"
            "; absent in the process, too: 108", lines[4])
    require(lines[5].endswith(" 0.66 ms, page by page     23.6 ms: 1/36"),
            lines[5])
    require(lines[6].endswith(" 3.02 ms, page by page     27.9 ms: 1/9"),
            lines[6])
    require(len(lines) == 7, f"more lines: {lines[7:]}")


def tour_no_cost(_directory):
    """tour npf: a cost that is not positive is no time and has no ratio"""
    for key, row in (("unknown, 4096", 4), ("absent, 4096", 4),
                     (f"unknown, {LONG}", 5),
                     (f"unknown, page by page, {LONG}", 5),
                     (f"absent, {LONG}", 6),
                     (f"absent, page by page, {LONG}", 6)):
        for cost in (-42.0, 0.0):
            lines = screen(**{key: cost})
            require(lines[row].count("not measurable") == 1, lines[row])
            require("-" not in lines[row], lines[row])
            require("1/" not in lines[row], lines[row])
            require(lines[-1] == NOTE, lines[-1])
            require([line for at, line in enumerate(lines[:7]) if at != row] ==
                    [line for at, line in enumerate(screen()) if at != row],
                    f"{key}: another line changed")
    require("times" not in screen(**{"unknown, 4096": -1.0})[4],
            "a ratio of a cost that was not measured")


TESTS = (tour_costs, tour_no_cost)
