# SPDX-License-Identifier: GPL-2.0-or-later
"""scripts/bench --paper: the papers' figures in virtual time."""

import argparse
import json
import sys

from unetmm_tools.bench.paper.conclusions import STEP, fit, ports_table, sensitivities
from unetmm_tools.bench.paper.figures import Program, measure
from unetmm_tools.bench.paper.mechanisms import cold_table, switches_table
from unetmm_tools.bench.paper.pages import (check_curves, check_page, plot, rst_table,
                                            update_curves, update_page)
from unetmm_tools.bench.paper.tables import (by_cost, columns, needless, summary, table,
                                             unexplained)
from unetmm_tools.guest.profiles import Inputs, PaperError


def report(points, program, options):
    """Prints the tables, the summary and the sensitivities."""
    print("\n".join(table(points)))
    print()
    print("inputs: (P)ublished, (D)erived, (F)itted, (A)ssumed")
    print(summary(points))
    for cost, of in by_cost(points).items():
        print(f"explained: {of}: {cost}")
    print("\ntranslation in U-Net/MM's ports, by Table 1:")
    for row in columns(ports_table()):
        print("  " + row)
    print("\nthe cold ring, dropping (NPF, Figure 4b):")
    for row in columns(cold_table(program)):
        print("  " + row)
    print("\nmechanisms, without and with each:")
    for row in columns(switches_table(program)):
        print("  " + row)
    print()
    if not options.quick:
        print(f"Each input by {100 * STEP:.0f} % up and down:")
        for line in sensitivities(program):
            print("  " + line)


def main():
    """scripts/bench --paper."""
    parser = argparse.ArgumentParser(prog="scripts/bench --paper")
    parser.add_argument("--program", required=True)
    parser.add_argument("--json")
    parser.add_argument("--plots")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--fit", action="store_true")
    options = parser.parse_args()
    program = Program(options.program)
    if options.fit:
        fit(program)
        return
    points = measure(program, Inputs())
    report(points, program, options)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            for p in points:
                file.write(json.dumps({key: p[key] for key in (
                    "id", "paper", "page", "x", "expected", "got", "error",
                    "class", "inputs", "explained")}) + "\n")
    if options.plots:
        plot(points, options.plots)
    if options.update:
        update_page(rst_table(points, program))
        update_curves(points)
    if options.check:
        check_page(rst_table(points, program))
        check_curves(points)
    bad = unexplained(points)
    if bad:
        raise PaperError("held out, more than 15 % off, and not explained: " +
                         ", ".join(f"{p['id']} {p['x']}" for p in bad))
    idle = needless(points)
    if idle:
        raise PaperError("explained.toml names points that are within 15 %: " +
                         ", ".join(f"{p['id']} {p['x']}" for p in idle))


if __name__ == "__main__":
    try:
        main()
    except (PaperError, OSError) as error:
        sys.exit(f"error: {error}")
