# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests of scripts/compare, for tests/tools/run."""

import csv
import json
import os
import random
import re
import xml.etree.ElementTree

from unetmm_tools.check.taptests import require
from figuretests import refused, started


def rows_of(*arguments):
    """The objects of scripts/compare --json."""
    done = started("compare", "--json", *arguments)
    require(done.returncode == 0, f"{arguments}: {done}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def near(value, expected):
    """Equal but for the last digit that is printed."""
    return abs(value - expected) < 0.0021


def compare_sums(directory):
    """compare: the time of a hit, a miss, a pin and a page fault is the sum of its steps"""
    path = os.path.join(directory, "pages")
    with open(path, "w", encoding="utf-8") as file:
        file.writelines("7 0x5000\n" for _ in range(1000))
    steps = {"post": 1, "fetch": 2, "hit_read": 3, "delay": 4, "arrive": 5, "hit_write": 6,
             "poll": 7, "report": 10, "interrupt": 20, "fault": 30, "resume": 40, "trap": 50,
             "entry": 0, "hit_head": 0, "evict": 0, "unpin": 0, "wire_byte": 0, "copy_byte": 0}
    rows = {row["source"]: row for row in rows_of(
        "--trace", path, *(word for name, value in steps.items()
                           for word in ("--set", f"{name}={value}")))}
    hit = sum(range(1, 8))
    require({name: row["p99"] for name, row in rows.items()} == dict.fromkeys(rows, hit) and
            len(rows) == 5, f"{rows}")
    for name, more in (("tlb", 100), ("odp", 100), ("utlb", 80), ("shadow", 0), ("pinned", 0)):
        require(near(rows[name]["most"], hit + more) and
                near(rows[name]["mean"], hit + more / 1000), f"{name}: {rows[name]}")
    require(rows["tlb"]["misses"] == 1 and rows["pinned"]["misses"] == 0, f"{rows}")


def compare_misses(directory):
    """compare: source tlb misses as often as in scripts/tlb-sim, by each geometry and replacement"""
    path, numbers = os.path.join(directory, "pages"), random.Random(1)
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"1 {numbers.randrange(300)}\n" for _ in range(3000))
    geometry = ["--trace", path, "--entries", "64,256", "--ways", "1,4", "--victims", "0,16",
                "--index", "add,xor", "--replace", "fifo,lru"]
    names = ("entries", "ways", "victims", "index", "replace")
    sim = started("tlb-sim", *geometry, "--json")
    counted = {tuple(row[name] for name in names): row["first"] + row["other"]
               for row in map(json.loads, sim.stdout.splitlines())}
    found = {tuple(row[name] for name in names): row["misses"]
             for row in rows_of(*geometry, "--source", "tlb")}
    # The card may move the page of an answer at once, the simulation after the next miss: with
    # victims behind sets of one way that is seen.
    same = {key for key in found if key[1] > 1 or not key[2]}
    require(all(found[key] == counted[key] for key in same) and len(same) == 24 and
            len(found) == len(counted) == 32 and len(set(found.values())) > 8 and
            all(abs(found[key] - counted[key]) < 0.01 * counted[key] for key in found),
            f"{set(found.items()) ^ set(counted.items())}")


def compare_policies(_directory):
    """compare: policies differ where buffers are posted late, and not where they wait ahead"""
    late = ["--direction", "receive", "--source", "tlb,odp", "--references", "2000",
            "--policy", "drop,skip,rnr,backup,redirect", "--interval", "0", "--ahead"]
    rows = {(row["source"], row["policy"]): row for row in rows_of(*late, "1")}
    require(len(rows) == 10 and all(row["messages"] == 2000 for row in rows.values()), f"{rows}")
    for source in ("tlb", "odp"):
        for policy in ("drop", "skip"):
            require(rows[source, policy]["most"] > 1000 and rows[source, policy]["resent"] > 100,
                    f"{rows[source, policy]}")
        for policy in ("rnr", "backup", "redirect"):
            require(rows[source, policy]["most"] < 100 and not rows[source, policy]["resent"],
                    f"{rows[source, policy]}")
        require(rows[source, "rnr"]["refused"] > 100, f"{rows}")
    early = rows_of(*late[:-1], "--interval", "100", "--ahead", "8")
    require(all(row["p99"] < 100 for row in early if row["policy"] in ("drop", "skip")), f"{early}")


def compare_files(directory):
    """compare: the table, and the rows and a figure as files, each with the values held constant"""
    rows, svg, pdf = (os.path.join(directory, name) for name in ("rows", "svg", "pdf"))
    done = started("compare", "--source", "tlb,odp", "--pages", "128,2048", "--references", "500",
                   "--set", "interrupt=5", "--csv", rows, "--svg", svg, "--pdf", pdf)
    require(done.returncode == 0 and re.search(r"^128 +tlb +[\d.]+ ", done.stdout, re.M) and
            "held constant: pattern uniform, entries 1024" in done.stdout and
            "interrupt 5 us" in done.stdout, f"{done}")
    with open(rows, encoding="utf-8", newline="") as file:
        lines = file.read().splitlines()
    require("# hardware: fast" in lines and "# interrupt: 5 us" in lines, f"{lines}")
    table = list(csv.DictReader(line for line in lines if not line.startswith("# ")))
    require([(row["pages"], row["source"]) for row in table] == [
        ("128", "tlb"), ("128", "odp"), ("2048", "tlb"), ("2048", "odp")], f"{table}")
    texts = [node.text for node in xml.etree.ElementTree.parse(svg).iter(
        "{http://www.w3.org/2000/svg}text")]
    for words in ("Translation of made references", "pages", "time of a message, us: mean",
                  "source tlb", "source odp", "128", "2048"):
        require(words in texts, f"no {words} in {texts}")
    require(any(text.startswith("held constant: pattern uniform") for text in texts), f"{texts}")
    with open(pdf, "rb") as file:
        data = file.read()
    table = int(re.search(rb"startxref\n(\d+)\n%%EOF\n$", data)[1])
    places = [int(line[:10]) for line in data[table:].splitlines()[3:] if line.endswith(b" n ")]
    require(data.startswith(b"%PDF-1.4\n") and data[table:].startswith(b"xref\n0 8\n") and
            len(places) == 7 and all(data[place:].startswith(b"%d 0 obj\n" % number)
                                     for number, place in enumerate(places, 1)), f"{places}")
    stream = re.search(rb"/Length (\d+) >>\nstream\n(.*)\nendstream", data, re.S)
    require(int(stream[1]) == len(stream[2]) and b"(source odp) Tj" in stream[2] and
            b"(Translation of made references) Tj" in stream[2], f"{stream}")
    again = started("compare", "--source", "tlb,odp", "--pages", "128,2048", "--references", "500",
                    "--set", "interrupt=5")
    require(again.stdout == done.stdout, "another run has other figures")


def compare_mistakes(directory):
    """compare: mistakes are answered in one sentence, which names the values that there are"""
    path = os.path.join(directory, "pages")
    with open(path, "w", encoding="utf-8") as file:
        file.write("1 2\n\n# more\n2 3\n")
    bad = os.path.join(directory, "bad")
    with open(bad, "wb") as file:
        file.write(b"\xff\xfe\n")
    sparse = os.path.join(directory, "sparse")
    with open(sparse, "w", encoding="utf-8") as file:
        file.writelines(f"1 {page << 18}\n" for page in range(2000))
    for arguments, words in (
            (["--trace", "none"], "none: No such file"), (["--trace", bad], "is no text"),
            (["--trace", path], "2 spaces"), (["--trace", path, "--space", "3"], "of space 3"),
            (["--trace", path, "--pages", "5"], "leave them out"), (["--space", "3"], "--trace"),
            (["--trace", sparse], "compare source tlb alone"),
            (["--source", "direct"], "tlb, utlb, shadow"), (["--policy", "rnr"], "receive"),
            (["--direction", "receive", "--policy", "ask"], "skip, drop"),
            (["--direction", "receive", "--policy", "rnr", "--source", "pinned"],
             "pinned has no policy rnr"),
            (["--entries", "32"], "64 to"), (["--ways", "3"], "powers of two"),
            (["--victims", "-1"], "--victims"), (["--replace", "mru"], "fifo, lru"),
            (["--ahead", "17"], "1 to 16"), (["--ahead", "1,2"], "one number"),
            (["--set", "interrupts=5"], "interrupt, fault"), (["--set", "fault=x"], "in us"),
            (["--set", "fault=nan"], "in us"), (["--pattern", "random"], "uniform"),
            (["--svg", "/nosuch/file"], "cannot be written"), (["--csv", directory], "be written"),
            (["--victims", "0,1,2,3", "--source", "tlb", "--entries", "64,128", "--replace", "lru,fifo",
              "--index", "add,xor", "--pdf", os.path.join(directory, "p")], "15 at most"),
            (["--victims", ",".join(map(str, range(500)))], "more than 400")):
        refused("compare", arguments, words)
    said = " ".join(started("compare", "--help").stdout.split())
    for words in ("lru: the entry that was used longest ago", "odp: table filled by faults",
                  "skewed: nine of ten references"):
        require(words in said, said)
    costs = started("compare", "--costs", "--hardware", "pca200").stdout
    require(re.search(r"^report +24 us +the card tells", costs, re.M), costs)


TESTS = (compare_sums, compare_misses, compare_policies, compare_files, compare_mistakes)
