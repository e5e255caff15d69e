# SPDX-License-Identifier: GPL-2.0-or-later
"""The main function of the test programs in Python, tests/NAME/run: it chooses tests, runs
them, and prints TAP.

A test is a function with one argument.  Its docstring is the result's name; the name on the
command line is the function's, without test_.
"""

import concurrent.futures
import functools
import multiprocessing
import os
import sys
import tempfile
import time
import traceback


class Skipped(Exception):
    """The test cannot be run here; the text says why."""


def require(good, text):
    """Ends the test with a sentence."""
    if not good:
        raise AssertionError(text)


def name_of(test):
    """As the command line takes it."""
    return test.__name__.removeprefix("test_")


def of_module(members):
    """The functions test_... among a module's globals(), and of these test_long_... apart."""
    found = [value for key, value in members.items() if key.startswith("test_")]
    return ([test for test in found if not name_of(test).startswith("long_")],
            [test for test in found if name_of(test).startswith("long_")])


def choose(tests, more, words):
    """The tests that the command line asks for: `tests`, `more` as well with --long, or those
    that are named: by name, or by words of the docstring."""
    names, chosen = [word for word in words if word != "--long"], []
    for name in names:
        if name.startswith("-"):
            sys.exit(f"error: {name}: use --long, or names of tests")
        found = [test for test in tests + more if name_of(test) == name] or \
                [test for test in tests + more if name in test.__doc__]
        if not found:
            sys.exit(f"error: there is no {name}; the tests are " +
                     ", ".join(map(name_of, tests + more)))
        chosen += [test for test in found if test not in chosen]
    return chosen if names else tests + more if "--long" in words else tests


def result_of(test, given=None):
    """(outcome, lines of TAP's comments) of one test, whose argument is `given`, or else a
    directory of its own."""
    begun = time.monotonic()
    lines, outcome = [], "ok"
    with tempfile.TemporaryDirectory(prefix="ut-", ignore_cleanup_errors=True) as directory:
        try:
            test(directory if given is None else given)
        except Skipped as reason:
            outcome = f"skip {reason}"
        except (Exception, SystemExit):  # pylint: disable=W0718
            outcome = "not ok"
            lines = traceback.format_exc().splitlines()
    return outcome, [*lines, f"{name_of(test)}: {time.monotonic() - begun:.1f} s"]


def plain(tests, repeat=None):
    """Runs functions without an argument and prints TAP, of a failure also the command
    `repeat`.  Returns the exit status."""
    failed = 0
    print(f"1..{len(tests)}", flush=True)
    for number, test in enumerate(tests, 1):
        try:
            test()
            print(f"ok {number} - {test.__name__}", flush=True)
        except (Exception, SystemExit):  # pylint: disable=W0718
            failed += 1
            print(f"not ok {number} - {test.__name__}")
            for line in ([f"repeat: {repeat}"] if repeat else []) + \
                    traceback.format_exc().splitlines():
                print(f"# {line}", flush=True)
    return 1 if failed else 0


def main(tests, more=(), given=None, jobs=1, words=None):
    """Runs the tests that are chosen; returns the exit status.

    more: tests that take long.  given: one object for all tests, whose drop() follows a failure and the end.  Without
    it each test gets a directory, and `jobs` tests run at a time, in processes.
    """
    chosen = choose(list(tests), list(more), sys.argv[1:] if words is None else words)
    program = os.path.relpath(os.path.realpath(sys.argv[0]),
                              os.path.realpath(os.path.join(__file__, "../../../..")))
    print(f"1..{len(chosen)}", flush=True)
    failed = 0
    with concurrent.futures.ProcessPoolExecutor(
            jobs, multiprocessing.get_context("fork")) as pool:
        run = pool.map if jobs > 1 and given is None else map
        results = run(functools.partial(result_of, given=given), chosen)
        for number, (test, (outcome, lines)) in enumerate(zip(chosen, results), 1):
            good, _, reason = outcome.partition("skip ")
            print("".join(f"# {line}\n" for line in lines) +
                  f"{good or 'ok'} {number} - {test.__doc__}" +
                  (f" # SKIP {reason}" if reason else ""))
            if outcome == "not ok":
                failed += 1
                print(f"# repeat: {program} {name_of(test)}")
                if given is not None:
                    given.drop()
            sys.stdout.flush()
    if given is not None:
        given.drop()
    return 1 if failed else 0
