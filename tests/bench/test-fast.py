#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The fast path by the library's symbols costs the inline functions' instructions and
those of a call.

usage: test-fast.py SYMBOLS-PROGRAM INLINE-PROGRAM

Both programs have the library in them: in a program that has not, the call by the
procedure linkage table costs one instruction more.
"""
import subprocess
import sys

# Call and return are two instructions, and an argument that the inline function does
# not need as such is one: poll has the least that there can be.  A seventh and an eighth
# argument go by the stack, and so many values are alive that registers are saved.
CALL = {"send-8": 4, "send-200": 4, "send-4096": 4, "post": 6, "poll-one": 5, "poll-none": 5,
        "write-8": 16, "write-4096": 16, "read-4096": 14, "fetch-add": 7}


def counts(program):
    run = subprocess.run([program], check=True, capture_output=True, text=True)
    return {name: float(count) for name, count in
            (line.split() for line in run.stdout.splitlines())}


def main():
    symbols, inline = counts(sys.argv[1]), counts(sys.argv[2])
    print(f"1..{len(inline)}")
    failed = False
    for number, (name, count) in enumerate(inline.items(), 1):
        good = symbols[name] <= count + CALL[name]
        failed |= not good
        print("ok" if good else "not ok", number, "-",
              f"{name}: {symbols[name]:.0f} instructions, {count:.0f} inline "
              f"({100 * (symbols[name] / count - 1):+.0f} %)")
    return failed


sys.exit(main())
