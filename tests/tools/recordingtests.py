# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests of scripts/recording, for tests/tools/run."""

import json
import os
import random

from unetmm_tools.bench import recording
from unetmm_tools.check.taptests import require
from figuretests import refused, started

A, B, C = (f"52:54:00:00:00:0{number}" for number in (1, 2, 3))
START = 1700000000 * 10**9
GUESTS = ("--keep", "kept", "--env", "UNETMM_RECORD=run", "--", "unetmm-pingpong --listen", "--",
          "unetmm-pingpong $PEER --count 500 --size 256")


def write(directory, name, lines, began=START):
    """A recording of these lines; returns its path."""
    path = os.path.join(directory, name)
    with open(path, "wb") as file:
        file.write("".join(f"{line}\n" for line in [f"unetmm-recording 1 7 {began}", *lines])
                   .encode("latin-1"))
    return path


def output(*arguments):
    """The lines of scripts/recording that are no comments, and its standard error."""
    done = started("recording", *arguments)
    require(done.returncode == 0, f"{arguments}: {done}")
    return [line for line in done.stdout.splitlines() if not line.startswith("#")], done.stderr


def recording_merge(directory):
    """recording: sends of all hosts in the order of their times, reads from the peer, long ones cut"""
    a = write(directory, "a", [
        f"10 endpoint 0 {A} 0 -", f"11 endpoint 3 {A} 0 -",
        "12 buffer 0 - 4096 0x7000+4096", f"2500 send 0 {B} 100 0x1008+100",
        # Threads may write lines a little out of order.
        f"1000 write 3 {B} 2097153 0x2000+2097153", f"3000 read 0 {C} 300 -",
        f"4000 send 0 {A} 8 -", "5000 frame 0 - 64 0x10+64", "6000 lost 0 - 2 -"])
    b = write(directory, "b", [f"5 endpoint 0 {B} 0 -", f"999 fetch-add 0 {A} 8 -",
                               f"2000 send 0 {A} 0 -"], START + 501)
    found, said = output("merge", a, b)
    require(found == ["0.000 0 1 1048576", "0.000 0 1 1048576", "0.000 0 1 1", "0.500 1 0 8",
                      "1.500 0 1 100", "1.501 1 0 1", "2.000 2 0 300"], f"{found}")
    for words in ("3 hosts, 7 sends; left out: 1 sends of a host to itself; left out: 1 frames",
                  "--nodes 3 --set bytes=1048576", "2 posts of signal handlers are missing"):
        require(words in said, f"no {words}: {said}")
    found, _ = output("merge", "--align", "first", a, b)
    require(found[3] == "0.000 1 0 8" and found[4] == "1.001 1 0 1", f"{found}")
    # A card that sends nothing, and gets nothing, is no host; a long run needs a limit.
    c = write(directory, "c", [f"1 endpoint 0 {C} 0 -", f"5 endpoint 1 {B} 0 -",
                               f"12000000000 send 1 {A} 1 -"])
    found, said = output("merge", c)
    require(found == ["0.000 0 1 1"] and "2 hosts" in said, f"{found} {said}")
    found, said = output("merge", write(directory, "d", [
        f"5 endpoint 1 {B} 0 -", f"6 send 1 {A} 1 -", f"12000000000 send 1 {A} 1 -"]))
    require("--nodes 2 --set bytes=1 --set until=13" in said, said)
    # Hosts are numbered in the order of the files.
    require(output("merge", b, a)[0][0] == "0.000 1 0 1048576", "the order of the files")


def recording_pages(directory):
    """recording: the pages of posts, as scripts/tlb-sim and scripts/compare read them"""
    one = write(directory, "one", [
        f"1 endpoint 0 {A} 0 -", f"20 send 0 {B} 4097 0x1fff+2,0x9000+4095",
        f"30 send 0 {B} 16 -", "40 buffer 0 - 8192 0x7f0000001000+8192"])
    # The card refuses memory behind the last address.
    with open(one, "a", encoding="ascii") as file:
        file.write(f"50 write 0 {B} 8 {(1 << 64) - 7:#x}+8\n")
    other = write(directory, "other", [f"1 endpoint 0 {A} 0 -", f"2 endpoint 1 {B} 0 -",
                                       f"25 read 0 {B} 1 0x5000+1", f"26 read 1 {A} 1 0x6000+1"])
    sent, received = ["0 0x1", "0 0x2", "0 0x9"], ["0 0x7f0000001", "0 0x7f0000002"]
    for words, expected in (([one], sent + received), (["--direction", "send", one], sent),
                            (["--direction", "receive", one], received),
                            (["--card", A, one, other], sent + ["1 0x5"] + received)):
        found, said = output("pages", *words)
        require(found == expected and f"{len(found)} references" in said, f"{words}: {found} {said}")
    refused("recording", ["pages", one, other], "2 cards, of which each has a TLB")
    trace = os.path.join(directory, "pages")
    with open(trace, "w", encoding="utf-8") as file:
        file.write("\n".join(sent + received) + "\n")
    row = json.loads(started("tlb-sim", "--trace", trace, "--json").stdout)
    require((row["references"], row["first"]) == (5, 5), f"{row}")


def recording_garbage(directory):
    """recording: a line that is none is refused with file and line, whatever its bytes are"""
    good = [f"1 endpoint 0 {A} 0 -", f"2 send 0 {B} 8 0x10+8"]
    for line, words in (
            ("", "use NS"), ("2 send 0 52:54 8 -", "use NS"), (f"2 Send 0 {B} 8 -", "use NS"),
            (f"-2 send 0 {B} 8 -", "use NS"), (f"2 send 0 {B} 8", "use NS"),
            (f"2 send 0 {B} 8 - ", "use NS"), (f"2 send 0 {B} 8 0x10+0", "use NS"),
            (f"2 send 0 {B} 8 0x10+4,", "use NS"), (f"2\0 send 0 {B} 8 -", "use NS"),
            (f"2 send 0 {B} 17 " + ",".join(["0x10+1"] * 17), "use NS"),
            (f"99999999999999999999 send 0 {B} 8 -", "use NS"), ("\xff\xfe", "use NS"),
            (f"2 send 0 {B.upper()} 8 -\r", "use NS"), ("x" * 1001, "too long"),
            (f"2 send 1 {B} 8 -", "no line above makes endpoint 1"),
            (f"2 endpoint 0 {B} 0 -", "was there before"), ("2 send 0 - 8 -", "an address"),
            (f"2 frame 0 {B} 64 -", "no peer"), (f"2 send 0 {B} 9 0x10+8", "do not have 9 bytes"),
            (f"2 write 0 {B} 99999999999 -", "a message has 4194304 at most")):
        path = write(directory, "bad", [*good, line])
        for command in ("merge", "pages"):
            refused("recording", [command, path], f"error: {path}:4: ")
            refused("recording", [command, path], words)
    for text, words in ((b"", "is empty"), (b"\n", ":1: this is no recording"),
                        (b"\x7fELF\n", ":1: this is no recording"),
                        (b"unetmm-recording 2 7 8\n", "has form 2"),
                        (b"unetmm-recording 1 7 8\n", "no send from one host to another")):
        path = os.path.join(directory, "bad")
        with open(path, "wb") as file:
            file.write(text)
        refused("recording", ["merge", path], words)
    refused("recording", ["merge", "/no/such"], "No such file")
    refused("recording", ["merge", directory], "Is a directory")
    late = write(directory, "late", [good[0], good[1], f"1000000003003 send 0 {B} 8 -"])
    refused("recording", ["merge", late], f"{late}:4: this is more than 1000 seconds behind")


def recording_noise(directory):
    """recording: of random damage the tool says one sentence, or makes a trace"""
    rng, path = random.Random(3), os.path.join(directory, "noise")
    lines = [f"1 endpoint 0 {A} 0 -"] + [f"{n} send 0 {B} 8 0x10+8" for n in range(20)]
    with open(write(directory, "good", lines), "rb") as file:
        good = file.read()
    # In this process, as a start takes longer than a run.
    for turn in range(400):
        bad = bytearray(good)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(bad))
            bad[at:at + rng.randrange(3)] = bytes(
                rng.choice(b"0123456789 -+,:x\n\0\xff") for _ in range(rng.randrange(3)))
        with open(path, "wb") as file:
            file.write(bad)
        try:
            recording.read([path], lambda post: post.operation != "buffer", 1000, "sends")
        except recording.RecordingError as error:
            require(str(error).startswith(f"{path}:") and "\n" not in str(error),
                    f"turn {turn}: {error}")


def recording_cut(directory):
    """recording: the last line of a process that was ended is left out, and said"""
    path = write(directory, "cut", [f"1 endpoint 0 {A} 0 -", f"2 send 0 {B} 8 -"])
    with open(path, "a", encoding="utf-8") as file:
        file.write(f"3 send 0 {B} 8")
    found, said = output("merge", path)
    require(found == ["0.000 0 1 8"] and f"{path}:4: the last line is cut off" in said, said)


def recording_guests(directory):
    """recording: a run of two guests becomes a workload, and references to pages"""
    def shown(name, *arguments, into=None):
        done = started(name, *arguments)
        require(done.returncode == 0, f"{name} {arguments}: {done}")
        if into:
            with open(into, "w", encoding="utf-8") as file:
                file.write(done.stdout)
        return done

    before = os.getcwd()
    os.chdir(directory)
    try:
        shown("run", *GUESTS)
        merged = shown("recording", "merge", "kept/a.files/run", "kept/b.files/run",
                       into="pingpong.txt")
        require("2 hosts, " in merged.stderr, f"{merged.stderr}")
        with open("pingpong.txt", encoding="utf-8") as file:
            sends = [line.split()[1:] for line in file if not line.startswith("#")]
        # 500 questions of host 1 and 500 answers; some messages agree on the run.
        for host, peer in ("0", "1"), ("1", "0"):
            count = sends.count([host, peer, "256"])
            require(500 <= count < 1500, f"{count} of {host}; {len(sends)}")
        row = json.loads(shown("scale", "--nodes", "8", "--workload", "replay", "--trace",
                               "pingpong.txt", "--json").stdout)
        require(row["operations"] == 4 * len(sends) and not row["failed"] and row["done"], f"{row}")
        shown("recording", "pages", "kept/b.files/run", into="pages")
        rows = [json.loads(line) for line in shown(
            "compare", "--trace", "pages", "--source", "tlb,odp", "--entries", "64,256",
            "--json").stdout.splitlines()]
        require(len(rows) == 4, f"{rows}")
        rows = [json.loads(line) for line in shown(
            "tlb-sim", "--trace", "pages", "--entries", "64,256", "--json").stdout.splitlines()]
        require(len(rows) == 2 and rows[0]["references"] > 500, f"{rows}")
    finally:
        os.chdir(before)


TESTS = (recording_merge, recording_pages, recording_garbage, recording_noise, recording_cut,
         recording_guests)
