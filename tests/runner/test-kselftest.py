#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""tests/guest/kselftest: its KTAP and exit status, with programs made for this."""

import glob
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
RUNNER = os.path.join(HERE, "..", "guest", "kselftest")

PROGRAMS = {
    "passes": "#!/bin/sh\necho 'ok 1 - a'\necho \"# $*\"\necho 1..1\n",
    "fails": "#!/bin/sh\necho 'not ok 1 - b'\nexit 1\n",
    "stays": "#!/bin/sh\nexec sleep 60\n",
    "dies": "#!/bin/sh\nkill -9 $$\n",
}

# (description, arguments, exit status, lines that are printed, device)
CASES = (
    ("a program that passes", ["passes"], 0,
     ["TAP version 13", "1..1", "  ok 1 - a", "  1..1",
      "ok 1 selftests: unetmm: passes"]),
    ("a program that fails, and one after it", ["fails", "passes"], 1,
     ["1..2", "  not ok 1 - b", "not ok 1 selftests: unetmm: fails # exit=1",
      "ok 2 selftests: unetmm: passes"]),
    ("a program that does not end", ["--timeout", "1", "stays"], 1,
     ["not ok 1 selftests: unetmm: stays # TIMEOUT 1 seconds"]),
    ("a program that is killed", ["dies"], 1,
     ["not ok 1 selftests: unetmm: dies # exit=137"]),
    ("a program that is not built", ["passes", "absent"], 0,
     ["ok 2 selftests: unetmm: absent # SKIP it is not in DIR"]),
    ("no program at all", ["absent"], 4,
     ["ok 1 selftests: unetmm: absent # SKIP it is not in DIR"]),
    ("a seed and long runs", ["--seed", "77", "--long", "passes"], 0,
     ["  # --seed 77 --long"]),
    ("a seed that is no number", ["--seed", "x", "passes"], 2,
     ["kselftest: --seed wants a number, not 'x'"]),
    ("an option that does not exist", ["--what"], 2,
     ["kselftest: there is no option --what: see kselftest --help"]),
)


def run(base, arguments, device):
    """(exit status, lines)"""
    done = subprocess.run(
        [RUNNER, "--dir", base, *arguments], stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=False, timeout=60,
        env={**os.environ, "UNETMM_DEVICE": device})
    return done.returncode, done.stdout.replace(base, "DIR").splitlines()


def wrong(base, arguments, status, expected, device="/dev/null"):
    """The difference from the expected output, or nothing."""
    got, lines = run(base, arguments, device)
    missing = [line for line in expected if line not in lines]
    if got != status or missing:
        return f"exit status {got}, lines {lines}, without {missing}"
    return None


def main():
    """TAP."""
    cases = [(name, (arguments, status, expected, "/dev/null"))
             for name, arguments, status, expected in CASES]
    cases.append(("no card", (["passes"], 4, [
        "1..0 # SKIP there is no /nowhere: load the module unetmm, with a card"],
        "/nowhere")))
    print(f"1..{len(cases) + 1}")
    bad = False
    with tempfile.TemporaryDirectory() as base:
        for name, text in PROGRAMS.items():
            path = os.path.join(base, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(path, 0o755)
        for number, (name, case) in enumerate(cases, 1):
            why = wrong(base, *case)
            bad |= bool(why)
            print(f"{'not ok' if why else 'ok'} {number} - {name}")
            if why:
                print(f"# {why}")
    # Each program that runs by default exists.
    listed = subprocess.run([RUNNER, "--list"], stdout=subprocess.PIPE,
                            text=True, check=True).stdout.split()
    absent = [name for name in listed if not glob.glob(
        os.path.join(HERE, "../guest/*", name + ".c"))]
    print(f"{'not ok' if absent else 'ok'} {len(cases) + 1} - the list: {absent}")
    return int(bad or bool(absent))


if __name__ == "__main__":
    sys.exit(main())
