#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Check the card's trace of reliable channels against the model's rules.

usage: rel-trace.py PROGRAM

Runs PROGRAM with UNETMM_TRACE=1, takes from its events the steps of each
half of a channel (the sender on one card, the receiver on the other), makes of it a
Promela program that applies the same rules as rel.pml (rel-rules.pml) and asserts
that each step was allowed, and lets spin run it.  Then the same with single
events changed: spin must find each of these.
"""
import itertools
import os
import random
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
SEQ = 256
EVENT = re.compile(r"^unetmm_rel_(sent|turn|kept|ack_sent|ack|timeout|"
                   r"resumed) "
                   r"ep (\d+) channel (\d+) psn (\d+)(?: (\w+) (\w+))?"
                   r"(?: what (\d+))?")
SENDER = ("sent", "ack", "timeout", "resumed")
TAKEN, LATER, REFUSED, DROPPED = 0, 1, 2, 3

HEADER = """#define WINDOW 64
#define SEQ 256
#include "rel-rules.pml"

short r_j;

inline e_first(p) { assert(CAN_SEND && p == nxt); tx_first() }
inline e_again(p) { assert(CAN_AGAIN(p)); tx_again(p) }
inline e_resumed(p) { assert(paused && p == una); tx_resume() }
inline e_timeout(p) { assert(CAN_TIME_OUT && p == una); tx_timeout() }
inline e_take(p) { assert(IS_EXPECTED(p)); rx_take() }
inline e_refuse(p) { assert(IS_EXPECTED(p)); refusing = true }
inline e_keep(p) { assert(IS_EARLY(p) && !have[p] && !refusing); rx_keep(p) }
inline e_told(p, kind)
{
    assert(p == expected && (kind == ACK_OK || refusing));
    if
    :: kind == ACK_OK -> refusing = false
    :: else -> skip
    fi;
    r_j = 1;
    do
    :: r_j < WINDOW ->
        assert(abit[(expected + r_j) % SEQ] == have[(expected + r_j) % SEQ]);
        r_j++
    :: else -> break
    od
}
inline e_ack(p, kind) { tx_ack(p, kind); assert(!refused_ack) }

"""


def events(program):
    """Events of each run: a list of (kind, ep, psn, word, bits, what)."""
    done = subprocess.run([program],
                          env={"UNETMM_SEED": "1", **os.environ,
                               "UNETMM_TRACE": "1"},
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, check=False)
    if done.returncode:
        sys.exit(done.stdout + done.stderr[-3000:])
    runs = []
    for line in done.stderr.splitlines():
        if line.startswith("unetmm_channel ") and " ep 1 " in line:
            runs.append([])
        match = EVENT.match(line)
        if match:
            kind, endpoint, _, psn, word, value, what = match.groups()
            value = int(value, 0) if value else 0
            runs[-1].append((kind, int(endpoint), int(psn), word, value,
                             int(what or 0)))
    return runs


def step(event):
    """One event as a statement of Promela."""
    kind, _, psn, _, value, what = event
    number = psn % SEQ
    if kind == "sent":
        return f"e_again({number})" if value else f"e_first({number})"
    if kind in ("timeout", "resumed"):
        return f"e_{kind}({number})"
    if kind == "kept":
        return f"e_keep({number})"
    if kind == "turn":
        return {TAKEN: f"e_take({number})", REFUSED: f"e_refuse({number})",
                LATER: "skip", DROPPED: "assert(false)"}[value]
    places = [(psn + 1 + i) % SEQ for i in range(63) if value >> i & 1]
    call = "e_told" if kind == "ack_sent" else "e_ack"
    return "; ".join([f"abit[{place}] = true" for place in places] +
                     [f"{call}({number}, {what})"] +
                     [f"abit[{place}] = false" for place in places])


def halves(run):
    """The steps of each half of a run, whose sender is endpoint 1 or 2."""
    for endpoint in (1, 2):
        yield [event for event in run
               if (event[1] == endpoint) == (event[0] in SENDER)]


def follow(steps, first):
    """Lets spin run the steps: was each allowed; and its output."""
    body = ";\n    ".join(["una = %d" % (first % SEQ), "nxt = una",
                           "expected = una"] + [step(e) for e in steps])
    with tempfile.TemporaryDirectory() as where:
        with open(os.path.join(where, "trace.pml"), "w",
                  encoding="utf-8") as file:
            file.write(HEADER + "init\n{\n    " + body + "\n}\n")
        os.symlink(os.path.join(HERE, "rel-rules.pml"),
                   os.path.join(where, "rel-rules.pml"))
        done = subprocess.run(["spin", "-T", "-B", "trace.pml"], cwd=where,
                              stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.STDOUT, timeout=120,
                              check=False)
    if "rror:" in done.stdout and "assertion" not in done.stdout:
        sys.exit(done.stdout[-2000:])
    return "assertion" not in done.stdout, done.stdout


def broken(steps, kind, change):
    """The steps with one event of a kind changed, and some after it."""
    at = [i for i, e in enumerate(steps) if e[0] == kind and i > 20 and
          (kind != "turn" or e[4] == TAKEN)]
    if not at:
        return None
    where = random.Random(1).choice(at)
    changed = change(steps[where])
    return steps[:where] + changed + steps[where + 1:where + 40]


def found(known, make):
    """The result of make() for the longest half that it accepts, and that
    half's first number."""
    for steps, first in known:
        made = make(steps)
        if made:
            return made, first
    return None, 0


# Places at which the model is asked; most of a run's are behind no earlier refusal.
TRIES = 20


def beside(steps):
    """At each place that has room: behind a refusal two packets go out that were not
    refused.  One can have been chosen before, unless an earlier refusal still holds."""
    end = None
    for i, event in enumerate(steps):
        if event[0] == "sent" and not event[4]:
            end = event[2] + 1
        if i > 20 and event[0] == "ack" and 2 < (end - event[2]) % 2**32 < 60:
            refusal = event[:5] + (1,)
            sent = [("sent", event[1], (end + n) % 2**32, "again", 0, 0)
                    for n in range(2)]
            yield steps[:i + 1] + [refusal] + sent[:1], steps[:i + 1] + [refusal] + sent


BROKEN = (
    ("a packet is taken twice", "turn", lambda e: [e, e]),
    ("a packet is sent out of turn", "sent",
     lambda e: [e[:2] + (e[2] + 70,) + e[3:]]),
    ("a packet is taken for the one after it", "turn",
     lambda e: [e[:2] + (e[2] + 1,) + e[3:]]),
    ("more is acknowledged than was taken", "ack_sent",
     lambda e: [e[:2] + (e[2] + 1,) + e[3:]]),
    ("an acknowledgement is believed that cannot be", "ack",
     lambda e: [e[:2] + (e[2] + 100,) + e[3:]]),
)


def main():
    """TAP."""
    runs = events(sys.argv[1])
    count = 0
    bad = False

    def say(good, name):
        nonlocal count, bad
        count += 1
        bad = bad or not good
        print(f"{'ok' if good else 'not ok'} {count} - {name}")

    known = []
    for number, run in enumerate(runs):
        for half, steps in enumerate(halves(run)):
            first = 0xffffffc0 if half == 0 else 0x7fffffd0
            good, said = follow(steps, first)
            say(good, f"run {number} half {half}: {len(steps)} steps are "
                      "steps of the model")
            if good:
                known.append((steps, first))
            else:
                print("\n".join("# " + line for line in
                                said.splitlines()[:12]))
    known.sort(key=lambda half: -len(half[0]))
    for name, kind, change in BROKEN:
        steps, first = found(known, lambda steps, kind=kind, change=change:
                             broken(steps, kind, change))
        say(steps is not None and not follow(steps, first)[0],
            f"the model sees that {name}")
    places = ((pair, first) for steps, first in known for pair in beside(steps))
    both, first = next((place for place in itertools.islice(places, TRIES)
                        if follow(place[0][0], place[1])[0]), (None, 0))
    say(both is not None,
        "the model lets a packet go out that was chosen before a refusal")
    say(both is not None and not follow(both[1], first)[0],
        "the model sees that two packets go out beside a refused one")
    print(f"1..{count}")
    return 1 if bad or not runs else 0


if __name__ == "__main__":
    sys.exit(main())
