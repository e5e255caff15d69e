# SPDX-License-Identifier: GPL-2.0-or-later
"""Parts of scripts/bench that run on the host, and instructions that are counted."""

import os
import subprocess

from unetmm_tools.bench.common import NETVM, SOURCES, BenchError, json_rows, single, sized
from unetmm_tools.guest import vm

# Calls in each case of bench-fast-*, as in tests/bench/fast.h
FAST_CALLS = 64


def program(name):
    """The path of one of tests/bench's programs."""
    return os.path.join(vm.setup_paths("unit")["unit"], "tests", "bench", name)


def output(name, *arguments):
    """Runs the program; all that it printed."""
    done = subprocess.run([name, *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise BenchError(f"{name}: {done.stderr.strip()}")
    return done.stdout


def native(name, *arguments):
    """Runs one of them; its rows."""
    return json_rows(output(program(name), *arguments))


def part_host(options):
    """Memory copies, UNIX sockets, and the floor of a latency."""
    return native("bench-host", "6" if options.quick else "40")


def part_core(options):
    """The cost of a message on the in-process card."""
    return native("bench-core", sized(options, "20", "400", "4000"))


def verbs_program():
    """The path of the program that counts the calls of our provider of verbs."""
    return os.path.join(vm.setup_paths("verbs-calls")["verbs-calls"], "bench-fast-verbs")


def calls(how):
    """Instructions of calls of the library, or of a provider where it is built."""
    name = verbs_program() if how == "verbs" else program(f"bench-fast-{how}")
    if not os.path.exists(name):
        return []
    return [{"peer": f"calls, {how}", "mode": mode, "metric": "call instructions",
             "bytes": 0, "frame": 0, "median": float(count), "p99": None,
             "n": FAST_CALLS, "unit": "instructions"}
            for mode, count in map(str.split, output(name).splitlines())]


def part_count(options):
    """Instructions: exact, and the same on every machine."""
    rows = []
    ends = "2,512" if options.quick else "2,8,64,512"
    for name in ("endpoints", "wake-ups"):
        rows += native("bench-count", name, ends)
    rows += native("bench-count", "channels",
                   "1,1024" if options.quick else "1,16,128,1024")
    rows += native("bench-count", "misses",
                   "2,128" if options.quick else ends)
    rows += native("bench-count", "memory",
                   "1,64" if options.quick else "1,16,256,1024")
    # Longer ones are copied by instructions that count by the byte.
    rows += native("bench-sources", "64")
    rows += calls("symbols") + calls("provider") + calls("verbs")
    script = "#!/bin/sh\nset -e\nulimit -l unlimited\n"
    # The compared sources; in a full run the others, too
    for source in (("tlb", "pinned", "shadow", "odp") if options.quick else
                   SOURCES):
        script += (f"bench-local {source} count "
                   f"{'8,4096' if options.quick else '8,4096,8192'}\n")
    script += "bench-local tlb count-ops 8\n" + NETVM % {
        "count": "count-", "notify": 100, "sync": 50,
        "rates": "50,100" if options.quick else "50,75,90,95,98,100",
        "pages": 512, "redirects": 100, "faults": 10}
    return rows + json_rows(single(options, script, "--", "-icount",
                                   "shift=0,sleep=off"))
