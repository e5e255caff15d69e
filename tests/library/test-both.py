#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The fast path by the library's symbols and by inline.h gives the same results,
and a program in C and in C++ that uses all of it compiles without a warning.

usage: test-both.py SOURCE-ROOT PROGRAM INLINE-PROGRAM [SEED]
"""
import os
import random
import shlex
import subprocess
import sys

ROOT = sys.argv[1]

CALLS = 20000
FUNCTIONS = ["send", "sendv", "post", "poll", "ring", "send_pending",
             "channel_mtu", "fence", "post_frame", "start", "counter_read",
             "write", "writev", "read", "readv", "fetch_add", "cmp_swap"]


def run_program(program, seed):
    wrapper = shlex.split(os.environ.get("MESON_EXE_WRAPPER", ""))
    return subprocess.run([*wrapper, program, str(seed), str(CALLS)], check=True,
                          capture_output=True, text=True).stdout.splitlines()


def warnings():
    """The compilers' warnings for both.c, in both languages and both ways."""
    flags = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion",
             "-Wsign-conversion", "-Werror", "-fsyntax-only"]
    flags += ["-I" + os.path.join(ROOT, path) for path in (
        "guest-lib/include", "hw/net/unetmm/abi", "guest-driver/uapi")]
    said = ""
    for language in (["gcc", "-std=c11", "-x", "c"],
                     ["g++", "-std=c++17", "-x", "c++"]):
        for how in ([], ["-DBOTH_INLINE"]):
            run = subprocess.run(
                [*language, *flags, *how,
                 os.path.join(ROOT, "tests/library/both.c")],
                capture_output=True, text=True, check=False)
            said += run.stderr if run.returncode else ""
    return said


def main():
    given = sys.argv[4] if len(sys.argv) > 4 else os.environ.get("UNETMM_SEED")
    seed = int(given, 0) if given else random.getrandbits(32)
    print(f"# seed {seed}")
    print("1..3")
    symbols, inline = (run_program(program, seed) for program in sys.argv[2:4])
    differ = next((i for i, pair in enumerate(zip(symbols, inline))
                   if pair[0] != pair[1]), None)
    same = differ is None and len(symbols) == len(inline) > CALLS
    print("ok" if same else "not ok", "1 - both give the same results")
    if differ is not None:
        print(f"# symbols: {symbols[differ]}\n# inline:  {inline[differ]}")
    # Each function has succeeded and has failed, so that the comparison says
    # something about each; those that cannot fail have had two results.
    results = {}
    for line in symbols:
        head, _, tail = line.partition(":")
        ret = int(tail.split()[-2])
        results.setdefault(int(head.split()[2]), set()).add(ret)
    poor = [name for number, name in enumerate(FUNCTIONS)
            if len(results.get(number, ())) < 2 or
            max(results[number]) < 0]
    print("ok" if not poor else "not ok", "2 - every function was tried")
    if poor:
        print(f"# too few results: {poor}")
    if not same or poor:
        print(f"# again: {' '.join(sys.argv[:4])} {seed}")
    said = warnings()
    print("ok" if not said else "not ok", "3 - C and C++ compile without a warning")
    if said:
        print("# " + said.replace("\n", "\n# "))
    return not same or bool(poor) or bool(said)


sys.exit(main())
