# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests of scripts/tlb-sim --trace and of scripts/bench --paper --set, for tests/tools/run."""

import csv
import json
import os
import subprocess
import xml.etree.ElementTree
from unittest import mock

from unetmm_tools import SCRIPTS
from unetmm_tools.check.taptests import require
from unetmm_tools.guest import profiles

LIMIT = 800


def started(name, *arguments):
    """The ended process of a script."""
    return subprocess.run([os.path.join(SCRIPTS, name), *arguments], text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT,
                          check=False)


def refused(name, arguments, words):
    """The script must fail with one sentence that has the words."""
    done = started(name, *arguments)
    require(done.returncode and words in done.stderr.splitlines()[-1] and not done.stdout,
            f"{arguments}: {done}")


def trace_rows(directory):
    """tlb-sim: a row for each combination of entries, ways and replacement"""
    path = os.path.join(directory, "pages")
    with open(path, "w", encoding="utf-8") as file:
        # In turn five pages, of which a set of four ways and LRU never keeps the next one
        file.writelines(f"1 {page}\n" for page in range(5) for _ in "ab")
        file.writelines(f"1 {page}\n" for _ in range(9) for page in range(5))
    found = started("tlb-sim", "--trace", path, "--entries", "4,8", "--ways", "4,8",
                    "--victims", "0", "--replace", "lru,fifo", "--json")
    rows = [json.loads(line) for line in found.stdout.splitlines()]
    require([(row["entries"], row["ways"], row["replace"], row["other"]) for row in rows] == [
        (4, 4, "lru", 45), (4, 4, "fifo", 45), (8, 4, "lru", 0), (8, 4, "fifo", 0),
        (8, 8, "lru", 0), (8, 8, "fifo", 0)], f"{found}")
    require(all(row["references"] == 55 and row["first"] == 5 for row in rows), f"{rows}")
    refused("tlb-sim", ["--trace", path, "--ways", "1,2", "--victims", "0,1,2,3,4,5,6,7",
                        "--entries", "8,16", "--svg", os.path.join(directory, "svg")],
            "--svg: 16 lines are too many for a figure, which has 14 at most")
    table = started("tlb-sim", "--trace", path, "--entries", "4", "--ways", "4", "--victims", "0")
    require("| 4 | 4 | 0 | add | fifo | 55 | 5 | 45 | 90.91 | 0 |" in table.stdout, f"{table}")


def trace_files(directory):
    """tlb-sim: the rows as a file, and as a figure with a line for each TLB, axes and a legend"""
    path, rows, figure = (os.path.join(directory, name) for name in ("pages", "csv", "svg"))
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"1 {page}\n" for _ in range(10) for page in range(5))
    done = started("tlb-sim", "--trace", path, "--entries", "2,4,8", "--ways", "2", "--victims", "0",
                   "--replace", "lru,fifo", "--csv", rows, "--svg", figure)
    require(done.returncode == 0, f"{done}")
    with open(rows, encoding="utf-8", newline="") as file:
        found = list(csv.DictReader(file))
    require([(row["entries"], row["replace"], float(row["missed_percent"])) for row in found if
             row["entries"] != "4"] == [("2", "lru", 100), ("2", "fifo", 100), ("8", "lru", 10),
                                        ("8", "fifo", 10)], f"{found}")
    tree = xml.etree.ElementTree.parse(figure)
    texts = [node.text for node in tree.iter("{http://www.w3.org/2000/svg}text")]
    for words in ("TLB misses of pages, 50 references", "entries", "missed, % of all references",
                  "the same in all lines: ways 2, victims 0, index add", "replace lru",
                  "replace fifo", "first misses of a page, which each TLB has", "2", "4", "8"):
        require(words in texts, f"no {words} in {texts}")
    lines = [[tuple(map(float, point.split(","))) for point in node.get("points").split()]
             for node in tree.iter("{http://www.w3.org/2000/svg}polyline")]
    lines = [points for points in lines if len(points) == 3]
    require(len(lines) == 3 and all(points[2][1] == lines[2][2][1] for points in lines) and
            lines[0][0][1] < lines[0][2][1] and lines[2][0][1] == lines[2][2][1], f"{lines}")


def trace_mistakes(directory):
    """tlb-sim: mistakes of the trace and of the options, with the values that there are"""
    path = os.path.join(directory, "pages")
    with open(path, "w", encoding="utf-8") as file:
        file.write("1 2\n\n# more\n1 x\n")
    for arguments, words in (
            (["--trace", path], f"{path}:4: use SPACE PAGE"),
            (["--trace", "none"], "none: there is no such file"),
            (["--trace", path, "--entries", "100"], "powers of two from 1 to 1048576"),
            (["--trace", path, "--ways", "128"], "powers of two from 1 to 64"),
            (["--trace", path, "--victims", "1,x"], "numbers from 0 to 1024"),
            (["--trace", path, "--replace", "mru"], "fifo, lru, random"),
            (["--trace", path, "--index", "sub"], "add, xor"),
            (["--trace", path, "--utlb"], "--trace goes with"),
            (["--csv", "x"], "--csv goes with --trace"),
            (["--ways", "2"], "--ways goes with --trace")):
        refused("tlb-sim", arguments, words)
    said = " ".join(started("tlb-sim", "--help").stdout.split())
    for words in ("add (page + space * odd) or xor", "lru: the entry that was used longest ago",
                  "a power of two up to 1048576"):
        require(words in said, said)


def paper_set(directory):
    """bench --paper --set: the points that an input moves, beside the baseline; status 0"""
    path = os.path.join(directory, "points")
    done = started("bench", "--paper", "--set", "dc21140.hub=10", "--json", path)
    lines = [line.split() for line in done.stdout.splitlines()]
    require(done.returncode == 0 and ["dc21140.hub", "us", "2.4", "10"] in lines, f"{done}")
    with open(path, encoding="utf-8") as file:
        points = {(point["id"], point["x"]): point["got"] for point in map(json.loads, file)}
    moved = [words for words in lines if words[-1:] == ["%"]]
    # A round trip has the hub's delay once; its slope, and streams, do not have it.
    require([words[:2] for words in moved] == [["R1", "40"]], f"{moved}")
    require(abs(points["R1", "40"] - float(moved[0][3]) - 7.6) < 0.01 and
            ("R6", "1498") in points and ("R4", "40") not in points, f"{points}")
    same = started("bench", "--paper", "--set", "dc21140.hub=2.4")
    require(same.returncode == 0 and "\n0 of the " in same.stdout, f"{same}")


def paper_mistakes(_directory):
    """bench --paper --set: mistakes, with the names that there are"""
    for arguments, words in (
            (["--set", "trigger=20"], "PROFILE.NAME=VALUE"),
            (["--set", "connectx.trigger=20"], "connectib, dc21140"),
            (["--set", "connectib.start=20"], "trigger, driver"),
            (["--set", "connectib.trigger=-1"], "in us"),
            (["--set", "connectib.trigger=fast"], "in us"),
            (["--set", "dc21140.line=0"], "above 0"),
            (["--set", "connectib.trigger=20", "--update"], "leave out --update")):
        refused("bench", ["--paper", *arguments], words)


def profile_errors(directory):
    """bench --paper: an error of a profile names the file, the line and the key"""
    good = '[fetch]\nvalue = 1\nunit = "us"\nclass = "assumed"\nsource = "x"\n\n'
    for text, line, words in (
            ('[late]\nvalue = "x"\nunit = "us"\nclass = "assumed"\nsource = "x"\n', 7, "late: "),
            ('[late]\nvalue = 1\nunit = "us"\nclass = "guess"\n', 7, "late: needs a unit, a class"),
            ('[late]\nunit = "us"\nclass = "assumed"\nsource = "x"\n', 7, "late: has no value"),
            ('[late]\nunit = "us"\nclass = "derived"\nformula = "fetch * other"\n', 7, "late: "),
            ('[late]\nunit = "us"\nclass = "derived"\nformula = "fetch *"\n', 7, "late: "),
            ("[late\n", 7, "")):
        with open(os.path.join(directory, "mine.toml"), "w", encoding="utf-8") as file:
            file.write(good + text)
        with mock.patch.object(profiles, "PROFILES", directory):
            try:
                profiles.Profile("mine")
            except profiles.PaperError as error:
                require("mine.toml" in str(error) and words in str(error) and
                        (f":{line}: " in str(error) or "line 7" in str(error)), f"{text}: {error}")
            else:
                raise AssertionError(f"{text} is taken")


TESTS = (trace_rows, trace_files, trace_mistakes, paper_set, paper_mistakes, profile_errors)
