# SPDX-License-Identifier: GPL-2.0-or-later
"""The points in docs/paper-figures.rst, in tests/paper/points.tsv and in plots."""

import os
import subprocess
import tempfile

from unetmm_tools import REPO
from unetmm_tools.bench.paper.conclusions import ports_table
from unetmm_tools.bench.paper.mechanisms import cold_table, switches_table
from unetmm_tools.bench.paper.tables import by_cost, firsts, number, percent, rst_rows, summary
from unetmm_tools.guest.profiles import PAPER, PaperError

PAGE = os.path.join(REPO, "docs", "paper-figures.rst")
CURVES = os.path.join(PAPER, "points.tsv")
BEGIN, END = ".. made by scripts/bench --paper --update", ".. end of it"


def rst_table(points, program):
    """The lines of docs/paper-figures.rst."""
    out = [summary(points), "", ".. list-table::", "   :header-rows: 1", ""]
    out += rst_rows([("Figure", "x", "Paper", "Here", "Error", "Class")] + [
        (f"{p['title']} ({p['id']}: {p['paper']}, {p['page']})"
         if p is first else "", p["x"] or "–",
         f"{number(p['expected'])} {p['unit']}".strip(), number(p["got"]),
         percent(p["error"]), p["class"])
        for p, first in zip(points, firsts(points))])
    out += ["", "Held-out points that are more than 15 % off, and the cost "
            "that is missing:", ""]
    for cost, of in by_cost(points).items():
        out += [f"* {of}: {cost}"]
    out += ["", "Not predictable, and why:", ""]
    seen = set()
    for p in points:
        if p["class"] == "not-predictable" and p["id"] not in seen:
            seen.add(p["id"])
            out += [f"* {p['title']} ({p['id']}): {p['explained']}"]
    out += ["", "Which of U-Net/MM's ports is cheaper, by the costs of their "
            "Table 1: translation for one way of a message, and the DC21140's "
            "copy by the receiver's kernel:", "",
            ".. list-table::", "   :header-rows: 1", ""]
    out += rst_rows(ports_table())
    out += ["", "The cold ring of NPF's Figure 4b, dropping: seconds until "
            "10 000 operations are done, by the client's connections:", "",
            ".. list-table::", "   :header-rows: 1", ""]
    out += rst_rows(cold_table(program))
    out += ["", "Mechanisms of the papers that the card's interface does not "
            "have, in the model: without and with each:", "",
            ".. list-table::", "   :header-rows: 1", ""]
    return out + rst_rows(switches_table(program))


def plot(points, directory):
    """One picture for each curve: the paper's points, and ours."""
    os.makedirs(directory, exist_ok=True)
    curves = {}
    for p in points:
        if p["got"] is not None:
            curves.setdefault(p["id"], []).append(p)
    for name, of in curves.items():
        if len(of) < 3:
            continue
        with tempfile.NamedTemporaryFile("w", suffix=".dat") as data:
            for i, p in enumerate(of):
                data.write(f'{i} "{p["x"]}" {p["expected"]} {p["got"]}\n')
            data.flush()
            svg = os.path.join(directory, f"{name}.svg")
            commands = f"""
set terminal svg size 720,420 noenhanced background 'white'
set output '{svg}'
set title '{of[0]["title"].replace("'", "")} ({of[0]["page"]})'
set ylabel '{of[0]["unit"]}'
set xtics rotate by -45
set key top left
set yrange [0:*]
plot '{data.name}' using 1:3:xtic(2) with points pt 7 title 'paper', \
 '' using 1:4 with lines title 'here'
"""
            try:
                subprocess.run(["gnuplot", "-"], input=commands, text=True,
                               check=True)
            except (FileNotFoundError,
                    subprocess.CalledProcessError) as error:
                raise PaperError("--plots needs gnuplot: run scripts/setup "
                                 "plots") from error


def curves_text(points):
    """points.tsv, from which scripts/figures draws the overlays."""
    return "# made by scripts/bench --paper --update\nid\tx\tpaper\there\n" + (
        "".join(f"{p['id']}\t{p['x']}\t{p['expected']}\t{p['got']:.6g}\n"
                for p in points if p["got"] is not None))


def read_curves():
    """{id: [(x, the paper's value, ours)]} of points.tsv."""
    found = {}
    with open(CURVES, encoding="utf-8") as file:
        for line in file.read().splitlines()[2:]:
            name, x, paper, here = line.split("\t")
            found.setdefault(name, []).append((x, float(paper), float(here)))
    return found


def update_curves(points):
    """Writes points.tsv."""
    with open(CURVES, "w", encoding="utf-8") as file:
        file.write(curves_text(points))


def check_curves(points):
    """Does points.tsv have these values?"""
    with open(CURVES, encoding="utf-8") as file:
        if file.read() != curves_text(points):
            raise PaperError("tests/paper/points.tsv has other values (run "
                             "scripts/bench --paper --update, then "
                             "scripts/figures)")


def update_page(lines):
    """Replaces the text between the two marks."""
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    if page.count(BEGIN) != 1 or END not in page.split(BEGIN)[1]:
        raise PaperError(f"{PAGE} has no single place for the table")
    head, rest = page.split(BEGIN)
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(head + BEGIN + "\n\n" + "\n".join(lines) + "\n\n" + END +
                   rest.split(END, 1)[1])


def check_page(lines):
    """Does the page have this table?"""
    with open(PAGE, encoding="utf-8") as file:
        if "\n".join(lines) not in file.read():
            raise PaperError("docs/paper-figures.rst has another table (run "
                             "scripts/bench --paper --update)")
