#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The fast path by the library's symbols costs the inline functions' instructions and
those of a call; a message by the provider of libfabric costs no more than it does now.

The limits are instructions of one compiler, LIMITS_OF.  With another one the counts are
printed and not compared.

usage: test-fast.py COMPILER SYMBOLS-PROGRAM INLINE-PROGRAM [PROVIDER-PROGRAM]

Both programs have the library in them: in a program that has not, the call by the
procedure linkage table costs one instruction more.
"""
import subprocess
import sys

LIMITS_OF = "gcc 12"

# Call and return are two instructions, and an argument that the inline function does
# not need as such is one: poll has the least that there can be.  A seventh and an eighth
# argument go by the stack, and so many values are alive that registers are saved.
CALL = {"send-8": 4, "send-200": 4, "send-4096": 4, "post": 6, "poll-one": 5, "poll-none": 5,
        "write-8": 16, "write-4096": 16, "read-4096": 14, "fetch-add": 7,
        "write-key-8": 18, "write-key-4096": 18, "read-key-4096": 15}
# By libfabric's calls and by the library's symbols, and how many times the latter's
# instructions the former may have (the aim is 1.3): a message with both completions; a
# write and a read by key, which libfabric has in one call for all lengths
BY_PROVIDER = (
    ("a message", ("send-8", "sent-8", "recv", "received-8"),
     ("send-8", "poll-one", "post", "poll-one"), 1.58),
    ("a write and a read", ("write-8", "read-4096"), ("write-key-8", "read-key-4096"), 2.5))


def counts(program):
    run = subprocess.run([program], check=True, capture_output=True, text=True)
    return {name: float(count) for name, count in
            (line.split() for line in run.stdout.splitlines())}


def main():
    symbols, inline = counts(sys.argv[2]), counts(sys.argv[3])
    provider = [counts(program) for program in sys.argv[4:]]
    known = sys.argv[1] == LIMITS_OF
    skip = "" if known else f" # SKIP the limits are those of {LIMITS_OF}"
    print(f"1..{len(inline) + len(provider) * len(BY_PROVIDER)}")
    failed = False
    for number, (name, count) in enumerate(inline.items(), 1):
        good = not known or symbols[name] <= count + CALL[name]
        failed |= not good
        print("ok" if good else "not ok", number, "-",
              f"{name}: {symbols[name]:.0f} instructions, {count:.0f} inline "
              f"({100 * (symbols[name] / count - 1):+.0f} %){skip}")
    rows = [(count, row) for count in provider for row in BY_PROVIDER]
    for number, (count, row) in enumerate(rows, len(inline) + 1):
        name_of, theirs, library, most = row
        ours = sum(count[name] for name in theirs)
        bare = sum(symbols[name] for name in library)
        good = not known or ours <= most * bare
        failed |= not good
        print("ok" if good else "not ok", number, "-",
              f"{name_of} by the provider: {ours:.0f} instructions, {bare:.0f} by the "
              f"library ({ours / bare:.2f}){skip}")
    return failed


sys.exit(main())
