#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""scripts/unetmm_tools/check/taptests.py: which tests are run, and their TAP."""

import contextlib
import io
import os
import re
import sys

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(REPO, "scripts"))
from unetmm_tools.check import taptests  # noqa: E402  (of this checkout)
from unetmm_tools.check.taptests import require  # noqa: E402


def test_good(directory):
    """first: good"""
    require(os.path.isdir(directory), "no directory")


def test_bad(_directory):
    """second: bad"""
    require(False, "a sentence")


def test_away(_directory):
    """third: away"""
    raise taptests.Skipped("no such thing")


def test_long_one(_directory):
    """fourth: long"""


class Given:
    """An object for all tests."""

    dropped = 0

    def drop(self):
        """After a failure, and at the end"""
        self.dropped += 1


def ran(*words, tests=None, more=None, **options):
    """(exit status, TAP without times)"""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            status = taptests.main(tests or [test_good, test_bad, test_away],
                                   more or [test_long_one], words=words, **options)
        except SystemExit as end:
            status = str(end)
    return status, re.sub(r"^# \w+: [\d.]+ s\n", "", out.getvalue(), flags=re.M)


def check_all(jobs):
    """The three tests, with their results and a command that repeats the second."""
    status, text = ran(jobs=jobs)
    require(status == 1 and text.startswith("1..3\nok 1 - first: good\n"), text)
    require("# AssertionError: a sentence\nnot ok 2 - second: bad\n# repeat: " in text, text)
    require(text.endswith("test-taptests.py bad\nok 3 - third: away # SKIP no such thing\n"),
            text)


def check_chosen():
    """Names, words of the docstring, --long, --turn, and mistakes."""
    for words, names in ((("good",), ["first"]), (("d: a", "good"), ["third", "first"]),
                         (("long_one",), ["fourth"]), (("good", "first"), ["first"]),
                         (("--long",), ["first", "second", "third", "fourth"])):
        found = re.findall(r"^(?:not )?ok \d - (\w+)", ran(*words)[1], re.M)
        require(found == names, f"{words}: {found}")
    for words, text in ((("nothing",), "the tests are good, bad, away, long_one"),
                        (("--turn",), "use --long"), (("-x",), "use --long")):
        require(text in ran(*words)[0], str(words))
    require(ran("good")[0] == 0 and ran("away")[0] == 0, "a good run")


def check_given():
    """One object for all tests is dropped after a failure, and at the end."""
    given = Given()
    status, _ = ran(tests=[takes_it], more=[test_bad], given=given)
    require(status == 0 and given.dropped == 1, f"{given.dropped}")
    ran("--long", tests=[takes_it], more=[test_bad], given=given)
    require(given.dropped == 3, f"{given.dropped}")


def takes_it(given):
    """one: takes the object"""
    require(isinstance(given, Given), "another object")


CHECKS = (("one after another", lambda: check_all(1)), ("two at a time", lambda: check_all(2)),
          ("the chosen ones", check_chosen), ("one object for all", check_given))


def main():
    """Prints TAP."""
    print(f"1..{len(CHECKS)}")
    failed = 0
    for number, (name, check) in enumerate(CHECKS, 1):
        try:
            check()
            print(f"ok {number} - {name}")
        except AssertionError as error:
            failed += 1
            print(f"# {error}\nnot ok {number} - {name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
