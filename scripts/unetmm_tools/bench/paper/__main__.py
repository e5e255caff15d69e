# SPDX-License-Identifier: GPL-2.0-or-later
"""scripts/bench --paper: the papers' figures in virtual time."""

import argparse
import json
import math
import re
import sys

from unetmm_tools.bench.paper.conclusions import STEP, fit, ports_table, sensitivities
from unetmm_tools.bench.paper.figures import FIGURES, Program, measure
from unetmm_tools.bench.paper.mechanisms import cold_table, switches_table
from unetmm_tools.bench.paper.pages import (check_curves, check_page, plot, rst_table,
                                            update_curves, update_page)
from unetmm_tools.bench.paper.tables import (by_cost, columns, needless, number, percent, summary,
                                             table, unexplained)
from unetmm_tools.guest.profiles import Inputs, PaperError, Profile, profile_names


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


def given_inputs(words):
    """{(profile, name): value} of --set PROFILE.NAME=VALUE."""
    given = {}
    for word in words:
        found = re.fullmatch(r"(\w+)\.(\w+)=(.*)", word)
        if not found:
            raise PaperError(f"--set {word}: use PROFILE.NAME=VALUE, as connectib.trigger=20")
        profile, key, text = found.groups()
        if profile not in profile_names():
            raise PaperError(f"--set {word}: use a profile of {', '.join(profile_names())}")
        keys = Profile(profile).entries
        if key not in keys:
            raise PaperError(f"--set {word}: use a name of {profile}: {', '.join(keys)}")
        try:
            value = float(text)
        except ValueError:
            value = -1
        if not 0 <= value < float("inf"):
            raise PaperError(f"--set {word}: use a number, in {keys[key]['unit']}")
        given[profile, key] = value
    return given


def figures_of(given):
    """The figures that have costs of the profiles of --set."""
    return [name for name, (_, _, sources) in FIGURES.items()
            if {profile for profile, _ in given} & set(sources.split(", "))]


def report_changes(base, points, given):
    """Prints the inputs that --set gives, and the points that they move."""
    usual = Inputs()
    print("\n".join(columns([("input", "unit", "the profile's", "given")] + [
        (f"{profile}.{key}", getattr(usual, profile).unit(key),
         number(getattr(usual, profile)[key]), number(value))
        for (profile, key), value in given.items()])))
    # The last digits of a slope depend on the order of sums.
    moved = [(was, now) for was, now in zip(base, points) if was["got"] is not None and
             not math.isclose(was["got"], now["got"], rel_tol=1e-9)]
    total = sum(p["got"] is not None for p in base)
    print(f"\n{len(moved)} of the {total} points of these profiles "
          "move:")
    if moved:
        print("\n".join(columns([("id", "x", "the paper's", "baseline", "now", "unit", "change")] + [
            (was["id"], was["x"], number(was["expected"]), number(was["got"]),
             number(now["got"]), was["unit"],
             percent(now["got"] / was["got"] - 1 if was["got"] else None))
            for was, now in moved])))


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
    parser.add_argument("--set", action="append", default=[])
    options = parser.parse_args()
    given = given_inputs(options.set)
    if given and (options.update or options.check or options.fit):
        raise PaperError("--set is for a look: leave out --update, --check and --fit")
    program = Program(options.program)
    if options.fit:
        fit(program)
        return
    points = measure(program, Inputs(), None if options.plots or not given else figures_of(given))
    if given:
        base = points
        try:
            points = measure(program, Inputs(given=given),
                             list(dict.fromkeys(point["id"] for point in base)))
        except ZeroDivisionError:
            raise PaperError("--set: a figure divides by this value; use one above 0") from None
        report_changes(base, points, given)
    else:
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
    if not given:
        check_errors(points)


def check_errors(points):
    """Held-out points are near, or explained; and none is explained without need."""
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
