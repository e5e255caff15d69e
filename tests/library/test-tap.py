#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The common part of programs of tests in guests (tests/guest/common/tap.c), with a
program (tap_program.c) that has no card and does as it is told.

usage: test-tap.py PROGRAM DIRECTORY
"""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../scripts"))
from unetmm_tools.check import taptests  # noqa: E402  (of this checkout)

PROGRAM, DIRECTORY = (os.path.abspath(path) for path in sys.argv[1:])
SOURCES = 6
VARIANTS = 2 * SOURCES


def run(*options, counters="", endpoints="endpoint 0: the driver's\n"):
    """(exit status, {test: (ok, the words behind it)}, all lines)"""
    path = os.path.join(DIRECTORY, "tap-endpoints")
    if os.path.exists(path):
        os.unlink(path)
    if endpoints is not None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(endpoints)
    done = subprocess.run([PROGRAM, "--seed", "7", *options], cwd=DIRECTORY,
                          env=dict(os.environ, TAP_COUNTERS=counters),
                          stdout=subprocess.PIPE, text=True, timeout=100,
                          check=False)
    lines = done.stdout.splitlines()
    tests = {m[2]: (m[1] == "ok", m[3]) for m in (
        re.match(r"(ok|not ok) \d+ - tap-program\.(\S+) # (.*)", line)
        for line in lines) if m}
    plans = [line for line in lines if line.startswith("1..")]
    assert "--list" in options or plans == [f"1..{len(tests)}"], lines
    return done.returncode, tests, lines


def left_out(tests):
    """The names of those that were."""
    return [name for name, (_, rest) in tests.items()
            if rest.startswith("SKIP left out: ")]


def exit_status_tells_of_failures():
    status, tests, _ = run("--only", "plain")
    assert status == 0 and list(tests) == ["plain"], (status, tests)
    status, tests, _ = run("--only", "fails")
    assert status == 1 and not tests["fails"][0], (status, tests)
    status, tests, _ = run("--only", "skips")
    assert status == 0 and tests["skips"] == (
        True, "SKIP there is no such thing"), tests


def a_leak_is_a_failure():
    status, tests, lines = run("--only", "plain", counters="leak")
    assert status == 1 and not tests["plain"][0], lines
    assert any("left behind: 0 endpoints" in line for line in lines), lines


def what_cannot_be_read_is_a_failure():
    """Of the driver's counters, and of its list of endpoints."""
    for how in ({"counters": "none"}, {"endpoints": None}):
        status, tests, lines = run("--only", "plain", **how)
        assert status == 1 and not tests["plain"][0], (how, lines)
        assert any("cannot be read" in line for line in lines), lines
        status, tests, lines = run("--only", "no-card", **how)
        assert status == 0 and tests["no-card"][0], (how, lines)


def a_driver_may_need_a_moment():
    status, tests, lines = run("--only", "plain", counters="later")
    assert status == 0 and tests["plain"][0], lines


def each_variant_has_a_line():
    """Whatever the seed leaves out; and nothing is, if one is asked for."""
    for options, out in (([], None), (["--brief"], VARIANTS - 1),
                         (["--long"], 0), (["--brief", "--long"], 0)):
        _, tests, lines = run(*options)
        variants = [name for name in tests if name.startswith("passes.")]
        assert len(variants) == VARIANTS, (options, lines)
        missing = left_out(tests)
        assert len(missing) == out or out is None and \
            0 < len(missing) < VARIANTS, (options, missing)
        assert not any(tests[name][0] is False for name in missing)
        _, _, listed = run(*options, "--list")
        assert len(listed) == len(tests) - len(missing), (options, listed)
    _, tests, lines = run("--only", "passes.odp.drop", "--brief")
    assert list(tests) == ["passes.odp.drop"] and not left_out(tests), lines
    _, tests, lines = run("--source", "utlb", "--brief")
    assert not left_out(tests) and "passes.utlb.skip" in tests, lines


def each_test_has_a_turn():
    """In one of the runs, with the variants that its seed chooses."""
    def chosen(seed, *options):
        _, _, names = run(*options, "--seed", str(seed), "--list")
        return set(names)

    def tests_of(names):
        return {name.split(".")[1] for name in names}

    everything = chosen(7, "--long")
    for options in ([], ["--brief"]):
        seen = set()
        for seed in range(36):
            parts = [chosen(seed, "--turn", f"{i}/3", *options)
                     for i in range(3)]
            tests = [test for part in parts for test in tests_of(part)]
            assert sorted(tests) == sorted(tests_of(everything)), parts
            seen |= parts[0]
        assert seen == everything, (options, everything - seen)
    assert chosen(7, "--turn", "0/3", "--long") == everything
    for i in range(3):
        assert chosen(7, "--turn", f"{i}/3", "--only", "plain") == {
            "tap-program.plain"}
    for bad in ("3/3", "x", "1", "0/0"):
        done = subprocess.run([PROGRAM, "--turn", bad], cwd=DIRECTORY,
                              stdout=subprocess.PIPE, text=True, check=False)
        assert done.returncode == 2 and f"--turn {bad}" in done.stdout, done


def time_that_stood_still_is_not_waited_for():
    status, tests, lines = run("--only", "patience")
    assert status == 0 and tests["patience"][0], lines


TESTS = [exit_status_tells_of_failures, a_leak_is_a_failure,
         what_cannot_be_read_is_a_failure, a_driver_may_need_a_moment,
         each_variant_has_a_line, each_test_has_a_turn,
         time_that_stood_still_is_not_waited_for]

sys.exit(taptests.plain(TESTS))
