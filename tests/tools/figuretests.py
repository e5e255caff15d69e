# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests of scripts/tlb-sim --trace and of scripts/bench --paper --set, for tests/tools/run."""

import json
import os
import subprocess

from unetmm_tools import SCRIPTS
from unetmm_tools.check.taptests import require

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
    table = started("tlb-sim", "--trace", path, "--entries", "4", "--ways", "4", "--victims", "0")
    require("| 4 | 4 | 0 | add | fifo | 55 | 5 | 45 | 90.91 | 0 |" in table.stdout, f"{table}")


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
            (["--ways", "2"], "--ways goes with --trace")):
        refused("tlb-sim", arguments, words)
    said = " ".join(started("tlb-sim", "--help").stdout.split())
    for words in ("add (page + space * odd) or xor", "lru: the entry that was used longest ago",
                  "a power of two up to 1048576"):
        require(words in said, said)


TESTS = (trace_rows, trace_mistakes)
