#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Random choices in the tests of the core can be repeated: the seed is the same
unless one is given, and the command that is printed does the same again.

usage: test-seed.py PROGRAM
"""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../scripts"))
from unetmm_tools.check import taptests  # noqa: E402  (of this checkout)

PROGRAM = sys.argv[1]
# meson has an emulator for programs of another machine.
WRAPPED = " ".join(filter(None, [os.environ.get("MESON_EXE_WRAPPER"), PROGRAM]))


def run(command, **env):
    """(exit status, both outputs) of a shell's command line."""
    bare = {name: value for name, value in os.environ.items()
            if not name.startswith("UNETMM_")}
    done = subprocess.run(["sh", "-c", command.replace(PROGRAM, WRAPPED)],
                          env={**bare, **env}, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=100,
                          check=False)
    return done.returncode, done.stdout


def repeat_of(text):
    """The command in the output."""
    found = re.findall(r"^# repeat: (.*)$", text, flags=re.M)
    assert len(found) == 1, text
    return found[0]


def the_seed_is_the_same_by_default():
    for _ in range(2):
        status, text = run(PROGRAM)
        assert status == 0 and repeat_of(text) == \
            f"UNETMM_SEED=1 {PROGRAM}", text


def what_is_printed_repeats_the_run():
    status, text = run(PROGRAM, UNETMM_SEED="0x1234", UNETMM_MIGRATE="3",
                       UNETMM_LONG="1")
    command = repeat_of(text)
    assert status == 0 and command == ("UNETMM_MIGRATE=3 UNETMM_LONG=1 "
                                       f"UNETMM_SEED=4660 {PROGRAM}"), text
    assert run(command) == (status, text)


def one_test_runs_alone():
    status, text = run(PROGRAM, UNETMM_TEST="test_table_and_instruction")
    assert status == 0 and re.findall(r"^ok .*$", text, flags=re.M) == [
        "ok 1 - test_table_and_instruction"] and "1..1\n" in text, text
    assert run(repeat_of(text)) == (status, text)


def no_seed_is_taken_for_another():
    for wrong in ("0", "", "many", "7x"):
        status, text = run(PROGRAM, UNETMM_SEED=wrong)
        assert status != 0 and "UNETMM_SEED=" + wrong in text, text


TESTS = [the_seed_is_the_same_by_default, what_is_printed_repeats_the_run,
         one_test_runs_alone, no_seed_is_taken_for_another]

sys.exit(taptests.plain(TESTS))
