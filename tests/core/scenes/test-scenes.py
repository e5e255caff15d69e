#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The scenes of docs/concepts.rst happen as docs/figures/scenes.trace has them.

usage: test-scenes.py PROGRAM TRACE
"""
import difflib
import os
import shlex
import subprocess
import sys


def main():
    """Prints TAP: a test that fails shows the lines that differ."""
    program, trace = sys.argv[1:]
    # Neither saved nor restored: that is another sequence of events.
    env = {name: value for name, value in os.environ.items()
           if not name.startswith("UNETMM_")}
    wrapper = shlex.split(os.environ.get("MESON_EXE_WRAPPER", ""))
    done = subprocess.run([*wrapper, program], stderr=subprocess.PIPE, text=True,
                          env=env, check=False)
    with open(trace, encoding="utf-8") as file:
        recorded = file.read()
    print("1..2")
    print("ok" if done.returncode == 0 else "not ok",
          "1 - each scene comes to its end")
    good = done.stderr == recorded
    if not good:
        for line in difflib.unified_diff(
                recorded.splitlines(), done.stderr.splitlines(),
                "docs/figures/scenes.trace", "today", lineterm="", n=1):
            print(f"# {line}")
        print("# scripts/figures --record renews it")
    print("ok" if good else "not ok",
          "2 - the events are those of docs/figures/scenes.trace")
    return 0 if done.returncode == 0 and good else 1


if __name__ == "__main__":
    sys.exit(main())
