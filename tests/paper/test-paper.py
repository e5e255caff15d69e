#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The papers' figures have not changed, and keep the rules for errors.

test-paper.py PROGRAM [--update]: TAP.  --update writes golden.tsv.
"""

import ast
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "scripts"))
from unetmm_tools.bench.paper import figures, mechanisms, pages, tables  # noqa: E402
from unetmm_tools.guest import profiles  # noqa: E402

GOLDEN = os.path.join(HERE, "golden.tsv")
FITTED = 0.005                  # of a calibration point's error ...
WHOLE = 0.02                    # ... if the value is a whole number

# One run of each experiment, by the point that it makes.
PINNED = (("N10i", "2^-12"), ("N10m", "2^-11"), ("N10d", "2^-18"),
          ("N8n", "5"), ("N8b", "64 KB, 8"), ("N3", "4 MB"), ("N3c", "4 MB"), ("R5", "1500"),
          ("R6", "1498"), ("T1a", "send miss, one evicted"))


def line(name, x, key, result):
    """One of golden.tsv: a run's arguments, events and their hash."""
    return f"{name}\t{x}\t{key[0]}\t{result['events']}\t{result['trace']}\n"


def traces(path):
    """Lines of golden.tsv."""
    program = figures.Program(path)
    lines = []
    for name, x in PINNED:
        before = set(program.known)
        figures.FIGURES[name][1](program, profiles.Inputs(), x)
        program.run()
        for key in program.known:
            if key not in before:
                lines.append(line(name, x, key, program.known[key]))
    before = set(program.known)
    mechanisms.cold(program, 64, 16)
    program.run()
    lines += [line("N4b", "64", key, program.known[key])
              for key in program.known if key not in before]
    return "".join(lines)


def refused(path, text):
    """The program says no to this input."""
    done = subprocess.run([path, "--batch"], input=text, text=True,
                          stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, check=False)
    return done.returncode == 2 and "unetmm-paper: " in done.stderr


def formula_refused(text):
    """A profile's formula may not do this."""
    try:
        profiles.formula(ast.parse(text, mode="eval"), {"a": 1})
    except profiles.PaperError:
        return True
    return False


def switches(rows):
    """Checks of the papers' mechanisms."""
    values = [(without, with_it) for _, _, without, with_it in rows]
    (fault, second, rate, backed, record, busy, head, pins, limited, shared,
     misses) = values
    clear = profiles.Inputs().connectib["clear"]
    yield "resuming first saves the first fault the firmware's step", (
        abs(fault[0] - fault[1] - clear) < 0.01)
    yield "... and a second one that follows at once waits for it", (
        abs(second[1] - second[0] - clear) < 0.01)
    yield "an absent page of descriptors sends more packets to the ring", (
        backed[0] == 1 and backed[1] > 10 and rate[1] <= rate[0])
    yield "one record saves a handshake for each of two misses", (
        abs(record[0] - record[1] - 2 * profiles.Inputs().pca200["report"]) < 1)
    yield "a card that waits busily delays arriving messages", (
        busy[0] < busy[1] < busy[0] + 21)
    yield "a thread at the head of the run queue waits for no slice", (
        head[0] > head[1] + profiles.Inputs().pca200["slice"])
    yield "never more pages are pinned than the kernel's limit", (
        pins[0] > 64 and pins[1] == profiles.Inputs().pca200["entries"] and
        limited[1] > limited[0])
    yield "one TLB for the card bounds the pins of all processes", (
        shared[0] == 2048 and shared[1] <= 1040 and misses[1] > misses[0])


def cold_ring(program):
    """Checks of TCP's timers at a cold ring."""
    warm = mechanisms.cold(program, 64, 16, fault=0)
    small, large = (mechanisms.cold(program, ring, 1) for ring in (16, 64))
    many = mechanisms.cold(program, 64, 16)
    karn = mechanisms.cold(program, 64, 1, stamps=0)
    program.run()
    yield "a warm ring loses nothing and takes the server's time", (
        warm("lost") == 0 and 43 < warm("time") / profiles.PS["ms"] < 60)
    yield "each slot of a cold ring loses a packet and waits for a timer", (
        small("lost") == 17 and large("lost") == 65 and
        large("time") - small("time") == 48 * 200 * profiles.PS["ms"])
    yield "sixteen connections, one after another, are silent for 55 to 60 s", (
        55 < many("first") / profiles.PS["s"] < 60)
    yield "a client whose timer only grows gives up", karn("time") == 0


def checks(path):
    """(name, passed) in turn."""
    with open(GOLDEN, encoding="utf-8") as file:
        golden = file.read()
    yield "the events are those of golden.tsv", traces(path) == golden
    program = figures.Program(path)
    points = figures.measure(program, profiles.Inputs())
    again = figures.measure(figures.Program(path), profiles.Inputs())
    yield "a second run is the same", points == again
    yield "every point has a class", all(
        p["class"] in figures.CLASSES for p in points)
    yield "a point that an input was fitted to is met", all(
        abs(p["error"]) < (WHOLE if p["id"] == "N8b" else FITTED)
        for p in points
        if p["class"] == "calibration" and p["id"] != "N3p")
    yield "sums of inputs are met", all(
        abs(p["error"]) < 0.02 for p in points if p["class"] == "composition")
    yield "held-out points are near, or explained", not tables.unexplained(
        points)
    yield "nothing is explained that is near", not tables.needless(points)
    yield "a point without a prediction has a reason", all(
        p["explained"] and p["got"] is None for p in points
        if p["class"] == "not-predictable")
    yield "a fitted input serves its own figure alone", not any(
        p.get("borrowed") for p in points)
    far = [dict(p, got=2 * p["got"], error=1.0, explained=None)
           for p in points if p["id"] == "N3a"]
    yield "a point that is far off is found", len(
        tables.unexplained(far)) == 2
    slow = figures.measure(figures.Program(path), profiles.Inputs(
        {("connectib", "not_ready"): 2.0}), ["N10i"])
    fast = [p for p in points if p["id"] == "N10i"]
    yield "a cost that is changed moves its figure alone", (
        slow[0]["got"] < 0.6 * fast[0]["got"])
    yield "unknown costs and negative ones are refused", (
        refused(path, "run rnr\nrubbish 1\n") and
        refused(path, "run rnr\nbytes -1\n") and
        refused(path, "run rnr\nbytes\n") and
        refused(path, "run rubbish\n"))
    yield from cold_ring(program)
    yield from switches(mechanisms.switches(program, profiles.Inputs()))
    yield "formulas only count", (
        formula_refused("__import__('os')") and formula_refused("a.b") and
        formula_refused("a ** a") and not formula_refused("(a + 2) / 3"))
    try:
        pages.check_page(pages.rst_table(points, program))
        pages.check_curves(points)
        same = True
    except profiles.PaperError as error:
        print(f"# {error}")
        same = False
    yield "docs/paper-figures.rst and points.tsv have these values", same


def main():
    """TAP."""
    path = sys.argv[1]
    if "--update" in sys.argv:
        with open(GOLDEN, "w", encoding="utf-8") as file:
            file.write(traces(path))
        return 0
    failed = number = 0
    for name, passed in checks(path):
        number += 1
        failed += not passed
        print(f"{'ok' if passed else 'not ok'} {number} - {name}", flush=True)
    print(f"1..{number}")
    if failed:
        print(f"# repeat: {sys.executable} {__file__} {path}")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
