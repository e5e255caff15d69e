#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The fast path by the library's symbols costs the inline functions' instructions and
those of a call.

usage: test-fast.py SYMBOLS-PROGRAM INLINE-PROGRAM
"""
import subprocess
import sys

# The call and the return, up to eight arguments, of which two go by the stack, and
# registers that are saved.
CALL = 18


def counts(program):
    run = subprocess.run([program], check=True, capture_output=True, text=True)
    return {name: float(count) for name, count in
            (line.split() for line in run.stdout.splitlines())}


def main():
    symbols, inline = counts(sys.argv[1]), counts(sys.argv[2])
    print(f"1..{len(inline)}")
    failed = False
    for number, (name, count) in enumerate(inline.items(), 1):
        good = symbols[name] <= count + CALL
        failed |= not good
        print("ok" if good else "not ok", number, "-",
              f"{name}: {symbols[name]:.0f} instructions, {count:.0f} inline")
    return failed


sys.exit(main())
