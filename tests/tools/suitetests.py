# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests of how scripts/test counts the results of its stages: unetmm_tools/check/suite.py.

The stages are made up; all else is the code of scripts/test.
"""

import contextlib
import io
import os
import sys
from unittest import mock

from unetmm_tools.check import runner, suite
from unetmm_tools.check.taptests import require

CLOSING = "3 passed, 0 failed, 1 skipped"
TAP = """\
ok 1 - one/a.b.tlb
ok 2 - one/a.c.tlb # SKIP it is not there
# it said so
ok 3 - one/a.d.tlb # UNSTEADY: failed, and passed when it was repeated
# repeat: tests/e2e/run --seed 1 --only one/a.d.tlb
ok 4 - one/a.e.tlb
ok 5 - one/kernel-a.is-content
1..5
"""


def run(directory, listed, tap=TAP):
    """(exit status, lines of output, of errors) of a run with such a list."""
    path = os.path.join(directory, "unsteady.txt")
    with open(path, "w", encoding="utf-8") as file:
        file.write(listed)
    stages = {"made-up": (lambda _: runner.tap_results("", tap, "again", 1, 0),
                          [])}
    out, errors = io.StringIO(), io.StringIO()
    with mock.patch.multiple(suite, STAGES=stages, UNSTEADY_LIST=path), \
            mock.patch.object(sys, "argv", ["suite.py"]), \
            contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        status = suite.main()
    return status, out.getvalue().splitlines(), errors.getvalue()


def suite_steady(directory):
    """suite: where none is unsteady, the last line says all"""
    tap = TAP.replace(" # UNSTEADY: failed, and passed when it was repeated", "")
    status, lines, _ = run(directory, "# none\n\n", tap)
    require(status == 0, f"status {status}")
    require(lines[-1] == "4 passed, 0 failed, 1 skipped", lines[-1])
    require(not any("unsteady" in line for line in lines), "one is unsteady")


def suite_listed(directory):
    """suite: an unsteady test that is listed is named with its cause"""
    status, lines, _ = run(directory, "# those\none/a.d.tlb: dice: too few\n")
    require(status == 0, f"status {status}")
    require(lines[-1] == CLOSING, lines[-1])
    require(lines[-2] == "unsteady in made-up: one/a.d.tlb: dice: too few",
            lines[-2])
    # Its output, and the command, where it failed.
    require("    | # it said so" in lines and
            any("--only one/a.d.tlb" in line for line in lines),
            "its output is not shown")


def suite_unlisted(directory):
    """suite: an unsteady test that is not listed fails the run"""
    for listed in ("# one/a.d.tlb: in a comment\n", "one/a.d: all of these\n",
                   "one/a.e.tlb: another\n"):
        status, lines, _ = run(directory, listed)
        require(status == 1, f"status {status} with {listed}")
        require(lines[-1] == CLOSING, lines[-1])
        require(lines[-2].startswith("unsteady in made-up: one/a.d.tlb: not in "
                                     "tests/unsteady.txt"), lines[-2])


def suite_failed(directory):
    """suite: a list of unsteady tests excuses no failure"""
    tap = TAP.replace("ok 4 - one/a.e", "not ok 4 - one/a.e")
    status, lines, _ = run(directory,
                           "one/a.d.tlb: dice\none/a.e.tlb: dice\n", tap)
    require(status == 1, f"status {status}")
    require(lines[-1] == "2 passed, 1 failed, 1 skipped", lines[-1])


def suite_mistakes(directory):
    """suite: a list that cannot be read is said at once, with the line"""
    for listed in ("one/a.d.tlb\n", "one/a.d.tlb:\n", "one/a.d.tlb:   \n",
                   "one/a.d.tlb: dice\none/a.d.tlb: dice\n"):
        status, lines, errors = run(directory, listed)
        number = listed.count("\n")
        require(status == 1 and not lines, f"it runs with {listed}")
        require(f"line {number}: write TEST: CAUSE" in errors, errors)


def suite_list(_directory):
    """suite: tests/unsteady.txt can be read"""
    suite.known_unsteady()


TESTS = (suite_steady, suite_listed, suite_unlisted, suite_failed,
         suite_mistakes, suite_list)
