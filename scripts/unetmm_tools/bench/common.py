# SPDX-License-Identifier: GPL-2.0-or-later
"""Sizes, rows and guests that several parts of scripts/bench use."""

import json
import tempfile

from unetmm_tools.guest import pair as guests

SOURCES = ("tlb", "ktlb", "pinned", "utlb", "shadow", "odp")
POLICIES = ("drop", "skip", "redirect", "rnr")
USER_MTU = 65536


def sized(options, smoke, quick, full):
    """The value for a smoke test, a quick run or a full run."""
    return smoke if options.smoke else quick if options.quick else full


class BenchError(Exception):
    """A figure could not be measured; the text gives the reason."""


def json_rows(text):
    """The rows among a program's lines."""
    rows = []
    for line in text.splitlines():
        if line.startswith('{"peer"'):
            rows.append(json.loads(line))
    return rows


# Parts count and local run these programs: count for instructions, local for times.
NETVM = """
bench-local tlb %(count)snotify %(notify)d
bench-local tlb %(count)ssync %(sync)d
bench-local tlb rate %(rates)s
bench-local shadow rate %(rates)s
bench-local pinned pin 100
bench-local shadow push %(pages)d
bench-local tlb redirect %(redirects)d
bench-local shadow redirect %(redirects)d
bench-local odp fault %(faults)d
"""


def single(options, script, *words, limit=300):
    """Runs a script in one guest; returns its output."""
    with tempfile.TemporaryDirectory(prefix="unetmm-") as directory:
        guest = guests.Guest("a", directory, script, [
            "--kernel", options.kernel, "--netdev", "none", "--id", "1",
            *words])
        try:
            guest.start()
            status = guest.wait(limit)
        finally:
            guest.kill()
        if status:
            raise BenchError(f"a guest's script failed: {guest.trouble()}")
        return guest.results()


def source_mode(found):
    """A tool's mode: its operation, unless that is a datagram; its way of
    waiting; and its source, unless that is the card's TLB."""
    words = []
    if found["op"] != "send":
        words.append(found["op"])
        if found.get("combine"):
            words.append("combining")
    elif found["reliable"]:
        words.append("reliable send")
    words.append(found["mode"])
    if found["source"] != "tlb":
        words.append(found["source"])
    return ", ".join(words)
