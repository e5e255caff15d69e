#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""scripts/migration-dump: finds a card in a file that is built as QEMU builds
its own, names each value, and answers a damaged file with one sentence.

usage: test-migration-dump.py SOURCE-ROOT PROGRAM
"""
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

ROOT, PROGRAM = (os.path.realpath(path) for path in sys.argv[1:])
sys.path.insert(0, os.path.join(ROOT, "scripts"))
from unetmm_tools.check import taptests  # noqa: E402  (of this checkout)
SCRIPT = os.path.join(ROOT, "scripts", "migration-dump")
SEED = int(os.environ.get("UNETMM_SEED", "1"))
BEFORE = b"\x55" * 37         # the fields of PCI and MSI-X


def new_block():
    """The saved state of a card that has just been made."""
    return subprocess.run([PROGRAM, "--new"], stdout=subprocess.PIPE,
                          check=True).stdout


BLOCK = new_block()


def run(data, *options):
    """(exit status, output, errors) of a file with these bytes."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        done = subprocess.run([SCRIPT, "--program", PROGRAM, *options,
                               file.name], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=100, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def section(number, name, block):
    """A device's section: header, fields, footer."""
    name = name.encode()
    return b"\x04" + struct.pack(">IB", number, len(name)) + name + \
        struct.pack(">II", 0, 1) + BEFORE + struct.pack(">I", len(block)) + \
        block + b"\x7e" + struct.pack(">I", number)


def device(name, block):
    """The card's entry in the description."""
    return {"name": name, "instance_id": 0, "vmsd_name": "unetmm",
            "version": 1, "fields": [
                {"name": "parent_obj", "type": "struct", "size": 30},
                {"name": "msix", "type": "struct", "size": len(BEFORE) - 30},
                {"name": "core", "type": "unetmm/core",
                 "size": len(block) + 4}]}


def migration(*names, devices=None):
    """A migration file: memory that looks like a card, then the devices."""
    memory = b"\x01" + section(2, (names or ("x",))[0], b"memory") + b"\x00" * 99
    sections = b"".join(section(40 + i, name, BLOCK)
                        for i, name in enumerate(names))
    if devices is None:
        devices = [device(name, BLOCK) for name in names]
    text = json.dumps({"page_size": 4096, "devices": devices}).encode()
    return b"QEVM\x00\x00\x00\x03" + memory + sections + b"\x00\x06" + \
        struct.pack(">I", len(text)) + text


def refused(data, words, *options):
    """One sentence, and status 1."""
    status, _, errors = run(data, *options)
    assert status == 1 and words in errors, (status, errors)
    assert errors.startswith("error: ") and errors.count("\n") == 1, errors


def a_block_is_printed_whole():
    status, text, errors = run(BLOCK, "--json")
    assert status == 0 and not errors, errors
    values = json.loads(text)
    at = 0
    for value in values:
        assert value["offset"] == at, value
        at += value["bytes"]
    assert at == len(BLOCK), (at, len(BLOCK))
    assert len({value["path"] for value in values}) == len(values)
    named = {value["path"]: value["value"] for value in values}
    assert named["params.endpoints"] == 4 and named["ep[3].live"] == 0, named
    assert values[0]["path"] == "mark" and values[-1]["path"] == "end"


def only_some_are_printed():
    status, text, _ = run(BLOCK, "--only", "ring[1].")
    lines = text.splitlines()
    assert status == 0 and len(lines) == 6, text
    assert all(line.split()[1].startswith("ring[1].") for line in lines), text


def a_card_is_found():
    data = migration("0000:00:05.0/unetmm")
    assert run(data)[:2] == run(BLOCK)[:2]
    assert run(data, "--list")[1] == f"0000:00:05.0 {len(BLOCK)}\n"


def one_of_several_cards():
    data = migration("0000:00:05.0/unetmm", "0000:00:06.0/unetmm")
    refused(data, "several cards")
    refused(data, "no card '7'", "--card", "7")
    assert run(data, "--card", "0000:00:06.0")[:2] == run(BLOCK)[:2]


def other_files_are_refused():
    data = migration("0000:00:05.0/unetmm")
    refused(b"", "empty")
    refused(b"nothing of a card's", "neither")
    refused(b"QFI\xfb" + b"\x00" * 99, "disk image")
    refused(migration(), "no card")
    refused(data[:-1], "no description")
    refused(data[:300], "no description")


def lies_of_a_description_are_refused():
    name = "0000:00:05.0/unetmm"
    for key, value in (("version", -1), ("instance_id", "x"),
                       ("version", 7), ("fields", 3), ("fields", [])):
        wrong = {**device(name, BLOCK), key: value}
        refused(migration(name, devices=[wrong]), "")
    for size in (-1, 0, 3, len(BLOCK) + 3, 1 << 40, None, "4"):
        wrong = device(name, BLOCK)
        wrong["fields"][2]["size"] = size
        refused(migration(name, devices=[wrong]), "")


def cut_blocks_are_refused():
    for n in (8, 12, 100, 300, len(BLOCK) // 2, len(BLOCK) - 1):
        refused(BLOCK[:n], "too early" if n > 15 else "")
    refused(BLOCK + b"\x00", "after its end")


def damaged_blocks_are_survived():
    rng = random.Random(SEED)
    for _ in range(40):
        data = bytearray(BLOCK)
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(8, len(data))] = rng.choice((0, 1, 2, 255))
        status, _, errors = run(bytes(data))
        assert status in (0, 1) and errors.count("\n") == status, errors
        assert "has failed" not in errors, errors


TESTS = [a_block_is_printed_whole, only_some_are_printed, a_card_is_found,
         one_of_several_cards, other_files_are_refused,
         lies_of_a_description_are_refused, cut_blocks_are_refused,
         damaged_blocks_are_survived]

sys.exit(taptests.plain(TESTS, f"UNETMM_SEED={SEED} {' '.join(sys.argv)}"))
