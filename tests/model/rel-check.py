#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Check the models of reliable channels, and of the protocols on them, with spin.

usage: rel-check.py

Each model must be right, with timers that end at any moment and with timers that
end when nothing else happens; and with a rule taken away it must be wrong, or it
would show nothing.
"""
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
# To compile takes longer than to check: without optimization, then.
SAFE = ["-DEAGER", "-run", "-O0", "-safety"]
LIVE = ["-run", "-O0", "-a", "-f"]
SYNC = ["-run", "-O0", "-safety"]
CHECKS = (
    ("nothing is lost, doubled or stuck, whenever timers end", "rel",
     ["-DBUDGET=2", *SAFE], True),
    ("all arrives in the end", "rel", ["-DBUDGET=1", *LIVE], True),
    ("without retransmission not all arrives", "rel",
     ["-DBUDGET=1", "-DBREAK=1", *LIVE], False),
    ("taking a packet again is seen", "rel",
     ["-DBUDGET=1", "-DBREAK=2", *SAFE], False),
    ("an acknowledgement lost and not repeated is seen", "rel",
     ["-DBUDGET=1", "-DBREAK=3", *LIVE], False),
    ("atomics are executed once, and not if they were rejected", "ops",
     ["-DBUDGET=2", *SAFE], True),
    ("all requests end", "ops", ["-DBUDGET=1", *LIVE], True),
    ("a request not sent again is seen", "ops",
     ["-DBUDGET=1", "-DBREAK=1", *LIVE], False),
    ("a request over before its answer is seen", "ops",
     ["-DBUDGET=1", "-DBREAK=2", *SAFE], False),
    ("executing a repeated atomic is seen", "ops",
     ["-DBUDGET=1", "-DBREAK=3", *SAFE], False),
    ("forgetting a rejection is seen", "ops",
     ["-DBUDGET=2", "-DBREAK=4", *SAFE], False),
    ("a semaphore's units are neither lost nor doubled", "sync",
     SYNC, True),
    ("a ticket that is lost and not looked for is seen", "sync",
     ["-DBREAK=1", *SYNC], False),
    ("a unit on its way to a member that gave up, if lost, is seen", "sync",
     ["-DBREAK=2", *SYNC], False),
    ("looking for lost tickets while one is taken is seen", "sync",
     ["-DBREAK=3", *SYNC], False),
    ("a thread that sleeps is woken for all that comes", "wake", SYNC, True),
    ("the same with room for both records", "wake", ["-DRING=2", *SYNC], True),
    ("looking whether it is armed before the completion is seen", "wake",
     ["-DBREAK=1", *SYNC], False),
    ("an interrupt lost while one is handled is seen", "wake",
     ["-DRING=2", "-DBREAK=2", *SYNC], False),
    ("a full ring that is not looked at again is seen", "wake",
     ["-DBREAK=3", *SYNC], False),
    ("looking again before arming is seen", "wake",
     ["-DBREAK=4", *SYNC], False),
    ("arming without a look at the counter is seen", "wake",
     ["-DBREAK=5", *SYNC], False),
)


def errors(model, options):
    """The errors that spin counts."""
    with tempfile.TemporaryDirectory() as where:
        done = subprocess.run(["spin", *options,
                               os.path.join(HERE, model + ".pml")],
                              cwd=where,
                              stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.STDOUT, timeout=300,
                              check=False)
    found = re.search(r"errors: (\d+)", done.stdout)
    if not found or "max search depth too small" in done.stdout:
        sys.exit(done.stdout[-3000:])
    return int(found[1])


def main():
    """TAP."""
    bad = False
    for number, (name, model, options, right) in enumerate(CHECKS, 1):
        good = (errors(model, options) == 0) == right
        bad = bad or not good
        print(f"{'ok' if good else 'not ok'} {number} - {name}", flush=True)
    print(f"1..{len(CHECKS)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
