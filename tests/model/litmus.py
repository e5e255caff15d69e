#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Try each protocol of the rings on a processor with weakly ordered memory.

usage: litmus.py SOURCE

The memory is that of ARMv8 without dependencies: all processors and the card see a store
at the same moment, and accesses of one thread to different places happen in any order
that no barrier forbids.  So this memory allows all orders of arm64, and more.  A barrier of
the library has the effect of its instruction in barrier.h (read from SOURCE); one of the
kernel or of the card has the effect that the kernel's documents describe.

All orders are tried.  A protocol must never end as its last member forbids, and must be
able to with any one of its barriers taken away, or the barrier would show nothing.
"""
import itertools
import os
import re
import sys

# The accesses (R, W) before the barrier, and those behind it that it orders
ORDERS = {"osh": ("RW", "RW"), "oshld": ("R", "RW"), "oshst": ("W", "W")}
KERNEL = {"dma_wmb": "oshst", "dma_rmb": "oshld", "mb": "osh",
          # writel() begins with it.
          "writel": "oshst"}
# smp_wmb() of QEMU is a release fence, and orders loads before it, too.
CARD = {"smp_rmb": "oshld", "smp_mb": "osh", "smp_wmb": "osh",
        # The processor that wrote the doorbell waits while the card is told.
        "exit": "osh"}

# (name, threads, the end that must not be).  R x: a load of x into the word x; W x 1: a
# store.  The memory is 0 in the beginning.
PROTOCOLS = (
    ("an index, then the entries that it covers",
     ("W entry 1; to_card; W prod 1", "R prod; smp_rmb; R entry"),
     lambda r: r["prod"] and not r["entry"]),
    ("the same, of the driver",
     ("W entry 1; dma_wmb; W prod 1", "R prod; smp_rmb; R entry"),
     lambda r: r["prod"] and not r["entry"]),
    ("a doorbell, then the index",
     ("W prod 1; doorbell; W bell 1", "R bell; exit; R prod"),
     lambda r: r["bell"] and not r["prod"]),
    ("the same, of the driver",
     ("W prod 1; writel; W bell 1", "R bell; exit; R prod"),
     lambda r: r["bell"] and not r["prod"]),
    ("a slot is read before it is given back, and written after",
     ("R cons; from_card; W slot 1", "R slot; smp_wmb; W cons 1"),
     lambda r: r["cons"] and r["slot"]),
    ("the phase, then the completion",
     ("R phase; from_card; R body", "W body 1; smp_wmb; W phase 1"),
     lambda r: r["phase"] and not r["body"]),
    ("the same, of the driver",
     ("R phase; dma_rmb; R body", "W body 1; smp_wmb; W phase 1"),
     lambda r: r["phase"] and not r["body"]),
    ("a completion is read before its place is given back",
     ("R body; to_card; W cons 1", "R cons; smp_rmb; W body 1"),
     lambda r: r["cons"] and r["body"]),
    ("the same, of the driver",
     ("R body; dma_rmb; W cons 1", "R cons; smp_rmb; W body 1"),
     lambda r: r["cons"] and r["body"]),
    ("a sleeping thread is woken",
     ("W arm 1; arm; R phase", "W phase 1; smp_mb; R arm"),
     lambda r: not r["phase"] and not r["arm"]),
    ("the same, of the driver",
     ("W arm 1; mb; R phase", "W phase 1; smp_mb; R arm"),
     lambda r: not r["phase"] and not r["arm"]),
    ("a buffer that the card waits for is announced",
     ("W prod 1; arm; R awaited", "W awaited 1; smp_mb; R prod"),
     lambda r: not r["prod"] and not r["awaited"]),
)


def library(source):
    """{barrier of barrier.h: its instruction of arm64}."""
    with open(os.path.join(source, "guest-lib/include/libunetmm/barrier.h"),
              encoding="utf-8") as file:
        text = file.read()
    found = dict(re.findall(
        r'void unetmm_(\w+)_barrier\(void\)\n{\n    UNETMM_FENCE_\(.*, "(\w+)"\);', text))
    assert set(found) == {"to_card", "from_card", "arm", "doorbell"}, found
    return found


def accesses(thread, barriers):
    """[(kind, place, value of a store, the earlier ones that must have happened)]."""
    steps = [step.split() for step in thread.split("; ")]
    made = []       # the number of each step among the accesses, or its barrier
    result = []
    for kind, *rest in steps:
        if not rest:
            made.append(barriers.get(kind, ("", "")))
            continue
        before = set()
        for at, step in enumerate(made):
            if isinstance(step, int) and (result[step][1] == rest[0] or any(
                    result[step][0] in first and kind in second
                    for first, second in
                    (other for other in made[at:] if not isinstance(other, int)))):
                before.add(step)
        made.append(len(result))
        result.append((kind, rest[0], rest[-1], before))
    return result


def outcomes(threads):
    """The words of each end that some order has."""
    names = [(t, a) for t, thread in enumerate(threads) for a in range(len(thread))]
    for order in itertools.permutations(names):
        at = {name: place for place, name in enumerate(order)}
        if any(at[t, earlier] > at[t, a] for t, a in names for earlier in threads[t][a][3]):
            continue
        memory, words = {}, {}
        for t, a in order:
            kind, place, value, _ = threads[t][a]
            if kind == "W":
                memory[place] = int(value)
            else:
                words[place] = memory.get(place, 0)
        yield words


def forbidden(protocol, barriers):
    """Can the protocol end as it must not, with these barriers?"""
    _, threads, bad = protocol
    return any(bad(words) for words in
               outcomes([accesses(thread, barriers) for thread in threads]))


def main():
    """Each protocol with its barriers, and without each of them."""
    barriers = {name: ORDERS[order] for name, order in
                {**library(sys.argv[1]), **KERNEL, **CARD}.items()}
    number = failed = 0
    for protocol in PROTOCOLS:
        used = [step for thread in protocol[1] for step in thread.split("; ") if " " not in step]
        tries = [("", barriers, False)]
        tries += [(f" needs {name}", {k: v for k, v in barriers.items() if k != name}, True)
                  for name in used]
        for text, some, wanted in tries:
            number += 1
            right = forbidden(protocol, some) == wanted
            failed += not right
            print(f"{'ok' if right else 'not ok'} {number} - {protocol[0]}{text}")
    print(f"1..{number}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
