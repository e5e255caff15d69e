#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The tools end to end over a fake card: results, losses, and words.

usage: test-tools.py DIRECTORY-OF-THE-FAKE-TOOLS SOURCE-ROOT OTHER-TOOL...
"""
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

TOOLS, ROOT, *OTHERS = sys.argv[1:]
MANUALS = os.path.join(ROOT, "guest-lib", "man")
sys.path.insert(0, os.path.join(ROOT, "scripts"))
from unetmm_tools.check import schemas, taptests  # noqa: E402  (of this checkout)

ROWS, INFO, STAT, CP = map(schemas.validator, ("results", "info", "stat", "cp"))
PEER = "52:54:00:00:00:01"
# On a busy machine the other end may be long in coming.
COMMON = ["--timeout", "60", "--json", "--verify", "--buffers", "16"]


def tool(name):
    return os.path.join(TOOLS, "fake-unetmm-" + name)


def pair(name, options, both=(), env=None):
    """Runs a listening and a connecting tool; the latter's rows."""
    with tempfile.TemporaryDirectory() as sockets:
        environment = dict(os.environ, UNETMM_FAKE_DIR=sockets, **(env or {}))
        listener = subprocess.Popen(
            [tool(name), "--listen", "-d", "/fake/1", *COMMON, *both],
            env=environment, stderr=subprocess.PIPE, text=True)
        run = subprocess.run(
            [tool(name), PEER, "-d", "/fake/2", *COMMON, *both, *options],
            env=environment, capture_output=True, text=True, timeout=100)
        try:
            errors = listener.communicate(timeout=100)[1]
        except subprocess.TimeoutExpired:
            listener.kill()
            errors = listener.communicate()[1] + "the listener did not end"
    assert run.returncode == 0, run.stderr
    assert listener.returncode == 0, errors
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    for row in rows:
        ROWS.validate(row)
    return rows


def sentence(command, code, *words):
    """The command must fail so, in one line that has these words."""
    with tempfile.TemporaryDirectory() as sockets:
        # A program that fails leaves its memory to the end of the process.
        run = subprocess.run(
            command, env=dict(os.environ, UNETMM_FAKE_DIR=sockets,
                              ASAN_OPTIONS="detect_leaks=0"),
            capture_output=True, text=True, timeout=100)
    assert run.returncode == code, (run.returncode, run.stderr)
    assert len(run.stderr.splitlines()) == 1, run.stderr
    assert not run.stdout, run.stdout
    for word in words:
        assert word in run.stderr, run.stderr


def connecting_waits_for_the_peer():
    """Its card comes later than the client, and there was no link until then."""
    with tempfile.TemporaryDirectory() as sockets:
        environment = dict(os.environ, UNETMM_FAKE_DIR=sockets)
        for name, here, there in (("pingpong", [PEER], []), ("bw", [PEER], []),
                                  ("cp", [os.path.abspath(__file__), PEER],
                                   ["--copy", "--directory", sockets])):
            with subprocess.Popen(
                    [tool(name), *here, "-d", "/fake/2", "--timeout", "60"],
                    env=dict(environment, UNETMM_FAKE_LINK_AFTER="1000"),
                    stdout=subprocess.DEVNULL) as client:
                # Longer than a lost question takes to be repeated
                try:
                    client.wait(2)
                except subprocess.TimeoutExpired:
                    pass
                assert client.poll() is None, (name, client.returncode)
                subprocess.run([tool(name), *there, "--listen", "-d", "/fake/1"],
                               env=environment, stdout=subprocess.DEVNULL, timeout=100,
                               check=True)
                assert client.wait(100) == 0, name


def pingpong_sizes():
    sizes = [1, 3, 8, 40, 41, 224, 225, 9000, 9001, 64000]
    rows = pair("pingpong", ["--size", ",".join(map(str, sizes)),
                             "--count", "50", "--warmup", "5"])
    assert [r["bytes"] for r in rows] == sizes
    for r in rows:
        assert r["n"] + r["lost"] == 50 and r["verified"] and not r["bad"]
        assert 0 < r["min"] <= r["median"] <= r["p99"] <= r["max"]
    assert [r["frames"] for r in rows] == [1] * 8 + [2, 8]


def pingpong_modes():
    for mode in ["--poll", "--block"]:
        rows = pair("pingpong", ["--count", "50"], both=[mode])
        assert rows[0]["mode"] == mode[2:]


def pingpong_pinned_spread():
    rows = pair("pingpong", ["--count", "50", "--size", "4k"],
                both=["--source", "pinned", "--memory", "4M"])
    assert rows[0]["source"] == "pinned" and rows[0]["memory"] == 4 << 20


def posting_by_call():
    for name, options in (("pingpong", ["--size", "8,1k,20000"]),
                          ("bw", ["--size", "8,1k,20000", "--bidir"])):
        rows = pair(name, ["--count", "50", *options], both=["--source", "ktlb"])
        assert len(rows) >= 3
        for r in rows:
            assert r["source"] == "ktlb" and r["verified"] and not r["bad"]
            assert r["lost"] == 0 and r["median"] > 0, r


def reliable_channels():
    for name in ("pingpong", "bw"):
        rows = pair(name, ["--count", "60", "--size", "8,20000,100000"],
                    both=["--reliable"],
                    env={"UNETMM_FAKE_LOSS": "50", "UNETMM_FAKE_DUP": "50"})
        assert [r["frames"] for r in rows] == [1, 1, 2], rows
        assert all(r["lost"] == 0 and not r["bad"] for r in rows), rows


def pingpong_survives_loss():
    rows = pair("pingpong", ["--count", "60", "--size", "8,20000"],
                env={"UNETMM_FAKE_LOSS": "50", "UNETMM_FAKE_DUP": "50"})
    assert all(0 < r["lost"] <= r["resent"] and r["n"] + r["lost"] == 60 and
               not r["bad"] for r in rows), rows


def slow_answers_are_samples():
    """The listener stands still again and again: nothing is lost, and that is seen."""
    for both in (["--reliable"], [], ["--op", "write"]):
        with tempfile.TemporaryDirectory() as sockets:
            environment = dict(os.environ, UNETMM_FAKE_DIR=sockets)
            with subprocess.Popen([tool("pingpong"), "--listen", "-d", "/fake/1", *COMMON,
                                   *both], env=environment) as listener:
                with subprocess.Popen(
                        [tool("pingpong"), PEER, "-d", "/fake/2", *COMMON, *both, "--count",
                         "1000", "--duration", "4"], env=environment, text=True,
                        stdout=subprocess.PIPE) as client:
                    for word in itertools.cycle((signal.SIGSTOP, signal.SIGCONT)):
                        try:
                            client.wait(0.6)
                            break
                        except subprocess.TimeoutExpired:
                            listener.send_signal(word)
                    listener.send_signal(signal.SIGCONT)
                    row = json.loads(client.stdout.read())
            ROWS.validate(row)
            assert client.returncode == 0 and listener.returncode == 0, row
            # Half of the round trip
            assert row["lost"] == row["resent"] == 0 and row["max"] > 250000, row
            assert row["n"] % 1000 == 0, row


def listener_serves_one_after_another():
    with tempfile.TemporaryDirectory() as sockets:
        environment = dict(os.environ, UNETMM_FAKE_DIR=sockets)
        with subprocess.Popen(
                [tool("bw"), "--listen", "--forever", "-d", "/fake/1",
                 *COMMON], env=environment) as listener:
            try:
                for _ in range(5):
                    subprocess.run(
                        [tool("bw"), PEER, "-d", "/fake/2", "--count", "20",
                         "--size", "64,20000", *COMMON], env=environment,
                        stdout=subprocess.DEVNULL, timeout=100, check=True)
            finally:
                listener.kill()


def bw_sizes():
    sizes = [8, 64, 1000, 9000, 65536]
    rows = pair("bw", ["--size", ",".join(map(str, sizes)),
                       "--count", "300", "--warmup", "20"])
    assert [r["bytes"] for r in rows] == sizes
    assert all(r["lost"] == 0 and r["bad"] == 0 and r["median"] > 0
               for r in rows), rows


def bw_both_ways():
    rows = pair("bw", ["--bidir", "--size", "64,20000", "--count", "300"])
    assert [r["direction"] for r in rows] == ["send", "receive"] * 2
    assert all(r["lost"] == 0 and r["bad"] == 0 and r["median"] > 0
               for r in rows), rows


def bw_survives_loss():
    rows = pair("bw", ["--bidir", "--size", "64,20000", "--count", "500"],
                env={"UNETMM_FAKE_LOSS": "30", "UNETMM_FAKE_DUP": "20"})
    assert all(0 < r["lost"] < r["n"] * r["frames"] // 4 and r["doubled"] > 0
               and not r["bad"] for r in rows), rows


def bw_large_frames():
    rows = pair("bw", ["--count", "200"], env={"UNETMM_FAKE_MTU": "65536"})
    assert rows[0]["frames"] == 1 and rows[0]["frame"] == 65536


def stat_shows_what_counts():
    env = dict(os.environ, UNETMM_FAKE_DIR=tempfile.gettempdir())
    text = subprocess.run([tool("stat"), "-d", "/fake/9"], env=env,
                          capture_output=True, text=True, check=True).stdout
    assert "52:54:00:00:00:09" in text
    assert "tx_frames" in text and "rx_frames" not in text
    data = json.loads(subprocess.run(
        [tool("stat"), "-d", "/fake/9", "--json", "--all"], env=env,
        capture_output=True, text=True, check=True).stdout)
    STAT.validate(data)
    assert data["card"]["tx_frames"] == 1 and data["driver"]["pins"] == 0
    assert data["tlb_sets"] == 1024


def stat_says_what_it_counts():
    """The first line of --watch has all since the card was there, the next the rest."""
    with tempfile.TemporaryDirectory() as sockets:
        with subprocess.Popen(
                [tool("stat"), "-d", "/fake/9", "--json", "--all", "--watch", "1"],
                text=True, stdout=subprocess.PIPE,
                env=dict(os.environ, UNETMM_FAKE_DIR=sockets)) as stat:
            rows = [json.loads(stat.stdout.readline()) for _ in range(2)]
            stat.kill()
    for row in rows:
        STAT.validate(row)
    assert [(row["increments"], row["card"]["tx_frames"]) for row in rows] == \
        [(False, 1), (True, 0)], rows


def info(options, parameters=(), cards=(3, 12)):
    """unetmm-info where sysfs has so much: (status, output, complaints)"""
    with tempfile.TemporaryDirectory() as directory:
        misc = os.path.join(directory, "sysfs/class/misc")
        for name in ["rfkill", "unetmmx", "unetmm"] if cards else []:
            os.makedirs(os.path.join(misc, name))
        for card in cards:
            pci = f"../../../devices/pci0000:00/0000:00:{card:02x}.0"
            os.makedirs(os.path.join(misc, f"unetmm{card}"))
            os.symlink(pci, os.path.join(misc, f"unetmm{card}", "device"))
        where = os.path.join(directory, "sysfs/module/unetmm/parameters")
        for name, value in parameters:
            os.makedirs(where, exist_ok=True)
            with open(os.path.join(where, name), "w",
                      encoding="utf-8") as file:
                file.write(value + "\n")
        run = subprocess.run(
            [tool("info"), *options], cwd=directory, capture_output=True,
            env=dict(os.environ, UNETMM_FAKE_DIR=directory), text=True,
            timeout=100)
        if "--json" in options and run.stdout:
            INFO.validate(json.loads(run.stdout))
        return run.returncode, run.stdout, run.stderr


def info_shows_all_cards():
    status, text, errors = info([])
    assert (status, errors) == (0, "")
    for word in ["/fake/3\n", "/fake/12\n", "52:54:00:00:00:0c", "up",
                 "0000:00:03.0", "tlb ktlb pinned", "skip drop",
                 "1024 sets x 1 way + 16 victims: 1040 pages, 4160 KiB",
                 "9000 bytes", "2, the driver's own included"]:
        assert word in text, (word, text)
    assert text.index("/fake/3\n") < text.index("/fake/12\n")
    assert "!" not in text and "parameters" not in text
    status, text, _ = info(["--list"])
    rows = [line.split() for line in text.splitlines()]
    assert rows == [["/fake/3", "52:54:00:00:00:03", "up", "0000:00:03.0"],
                    ["/fake/12", "52:54:00:00:00:0c", "up", "0000:00:0c.0"]]


def info_chooses():
    for options in (["--card", "12"], ["-d", "/fake/12"]):
        status, text, _ = info([*options, "--json"])
        cards = json.loads(text)["cards"]
        assert status == 0 and len(cards) == 1
        assert cards[0]["device"] == "/fake/12" and \
            cards[0]["pci"] == "0000:00:0c.0" and cards[0]["link"] is True
        assert cards[0]["sources"] == ["tlb", "ktlb", "pinned"]
        assert cards[0]["version"] == "2.0" and cards[0]["tlb_sets"] == 1024


def info_shows_parameters():
    known = [("pin_limit_pages", "262144"), ("hole", "N"), ("x", 'a"b\\c\t')]
    status, text, _ = info(["--json"], known)
    data = json.loads(text)
    assert status == 0 and data["warnings"] == []
    assert data["parameters"] == {"hole": False, "pin_limit_pages": 262144,
                                  "x": 'a"b\\c\t'}
    known[1] = ("hole", "Y")
    data = json.loads(info(["--json"], known)[1])
    assert data["parameters"]["hole"] is True and len(data["warnings"]) == 1
    status, text, _ = info([], known)
    assert status == 0 and text.count("!") == 1 and "opens a hole" in text


def info_without_cards():
    for options in ([], ["--list"], ["--json"]):
        status, text, errors = info(options, cards=())
        assert status == 1 and "modprobe unetmm" in errors
        assert len(errors.splitlines()) == 1
        assert text == "" or json.loads(text)["cards"] == []
    status, text, errors = info(["-d", "/no/such"])
    assert status == 1 and "/no/such: " in errors and text == ""


def info_finds_peers():
    """One table for people; of each card for programs, and only if asked."""
    status, text, errors = info(["--peers"], cards=(3, 12))
    rows = [line.split() for line in text.splitlines()]
    assert (status, errors) == (0, "") and len(rows) == 3, text
    assert rows[0] == ["device", "card", "name", "endpoint", "service",
                       "channels", "program"]
    assert rows[1] == ["/fake/3", "52:54:00:00:00:63", "-", "3", "7",
                       "datagram", "reliable", "far", '"away"']
    assert rows[2][0] == "/fake/12"
    status, text, errors = info(["-p", "--json", "-c", "3"])
    assert (status, errors) == (0, ""), errors
    [card] = json.loads(text)["cards"]
    assert card["peers"] == [
        {"mac": "52:54:00:00:00:63", "name": "", "endpoint": 3, "service": 7,
         "mtu": 1024, "channels": ["datagram", "reliable"],
         "program": 'far "away"'}], card
    assert "peers" not in json.loads(info(["--json"])[1])["cards"][0]


def garbage_is_refused():
    """Whatever is typed: a sentence of ours, or getopt's and argp's; status 2."""
    words = ["--nosuch", "--size", "--json=1", "-x", "--help=2", "--",
             "--bidir=1", "--samples"]
    values = ["", " ", "-1", "0x", "1e3", "99999999999999999999999", "1kk",
              "nan", "\x7f", "%n%s", "8," * 4000, "é"]
    for name, options in (
            ("pingpong", ["size", "count", "warmup", "spin-ns", "buffers",
                          "frame", "memory", "timeout", "service", "source",
                          "policy", "seed", "op", "combine"]),
            ("bw", ["size", "count", "buffers", "frame", "timeout", "op"]),
            ("stat", ["watch", "endpoint"]), ("info", ["card"])):
        peer = [PEER] if name in ("pingpong", "bw") else []
        lines = [[word] for word in words]
        # The first with all values, each of the others with some.
        lines += [[*peer, f"--{o}", v] for i, o in enumerate(options)
                  for v in (values[i % 4::4] if i else values)]
        lines += [[*peer, "too much"]]
        for line in lines:
            if line == ["--"] and not peer:
                continue        # says nothing
            run = subprocess.run([tool(name), *line], capture_output=True,
                                 timeout=100)
            assert run.returncode == 2, (name, line, run)
            said = run.stderr.split(b"Try `unetmm-")
            assert said[0].count(b"\n") == 1, (name, line, run)
            assert b"--help" in said[-1] and len(said) <= 2, (name, line, run)
            assert not run.stdout, (name, line, run)


def mistakes_get_one_sentence():
    sentence([tool("pingpong"), PEER, "-d", "/fake/2", "--timeout", "1"], 1,
             "cannot reach " + PEER, "listening side first")
    sentence([tool("bw"), PEER, "-d", "/no/such"], 1, "/no/such", "load the")
    sentence([tool("pingpong"), "peer"], 2, "'peer'", "MAC")
    sentence([tool("pingpong")], 2, "--listen")
    sentence([tool("bw"), PEER, "--size", "4"], 2, "8 bytes")
    sentence([tool("bw"), PEER, "--size", "1,x"], 2, "--size", "'x'")
    sentence([tool("bw"), PEER, "--source", "disk"], 2,
             "tlb, ktlb, utlb, shadow, odp or pinned")
    sentence([tool("stat"), "--watch", "0"], 2, "--watch")
    sentence([tool("info"), "--card", "x"], 2, "--card", "'x'")
    sentence([tool("info"), "--card", "1", "-d", "/fake/1"], 2, "enough")
    sentence([tool("info"), "0"], 2, "'0'")
    sentence([tool("info"), "--list", "--json"], 2, "--list", "--json")
    sentence([tool("info"), "--list", "--peers"], 2, "--list", "--peers")
    sentence([tool("stat"), "-d", "/fake/3", "--endpoint", "5"], 1,
             "no such endpoint")


def operations():
    """Operations that need a window are for the guests' tests."""
    for options, both in ((["--size", "1,2,3,7,8,9,224,225,9001,64000"],
                           ["--op", "write"]),
                          (["--size", "8,20000"], ["--op", "write", "--block"]),
                          (["--size", "3,8,64000"], ["--op", "read"]),
                          ([], ["--op", "atomic"])):
        rows = pair("pingpong", ["--count", "50", *options], both=both)
        assert len(rows) == len(options[1].split(",") if options else [8])
        for r in rows:
            assert r["op"] == both[1] and r["verified"] and not r["bad"], r
            assert r["n"] == 50 and 0 < r["min"] <= r["p99"], r
            assert r["way"] == ("one way" if both[1] == "write" else
                                "round trip"), r


def operations_have_bandwidth():
    for op, way in (("write", "send"), ("read", "receive")):
        rows = pair("bw", ["--count", "300", "--size", "1,64,20000,64000"],
                    both=["--op", op])
        assert [r["bytes"] for r in rows] == [1, 64, 20000, 64000]
        assert all(r["direction"] == way and r["op"] == op and r["verified"] and
                   not r["bad"] and r["messages_per_s"] > 0
                   for r in rows), rows


def operations_have_their_limits():
    """One sentence, before anything is opened."""
    for name, options, words in (
            ("pingpong", ["--op", "fly"], ["--op", "'fly'"]),
            ("pingpong", ["--op", "write", "--source", "ktlb"],
             ["--op write", "reliable", "ktlb"]),
            ("pingpong", ["--op", "atomic", "--size", "8,16"],
             ["--op atomic", "8 bytes", "not 16"]),
            ("pingpong", ["--op", "udma", "--size", "6"], ["multiple of 4"]),
            ("pingpong", ["--op", "udma", "--size", "8k"], ["4096 bytes"]),
            ("pingpong", ["--op", "read", "--size", "5m"], ["4194304 bytes"]),
            ("pingpong", ["--op", "au", "--block"], ["notification"]),
            ("pingpong", ["--combine", "8"], ["--op au"]),
            ("pingpong", ["--listen", "--histogram"], ["connecting side"]),
            ("pingpong", ["--op", "au", "--combine", "225"], ["to 224"]),
            ("pingpong", ["--op", "write", "--frame", "9000"], ["--frame"]),
            ("bw", ["--op", "au"], ["unetmm-pingpong"]),
            ("bw", ["--op", "read", "--bidir"], ["--bidir"])):
        sentence([tool(name), PEER, *options], 2, *words)


def other_operation_is_said():
    """Started with different operations, whichever side it is."""
    for name in ("pingpong", "bw"):
        for there, here in ((["--op", "read"], ["--reliable"]),
                            (["--reliable"], ["--op", "write"])):
            with tempfile.TemporaryDirectory() as sockets:
                environment = dict(os.environ, UNETMM_FAKE_DIR=sockets,
                                   ASAN_OPTIONS="detect_leaks=0")
                with subprocess.Popen(
                        [tool(name), "--listen", "-d", "/fake/1", *COMMON,
                         *there], env=environment) as listener:
                    try:
                        run = subprocess.run(
                            [tool(name), PEER, "-d", "/fake/2", *COMMON,
                             *here], env=environment, capture_output=True,
                            text=True, timeout=100)
                    finally:
                        listener.kill()
            what = there[1] if there[0] == "--op" else "send"
            assert run.returncode == 1, run
            assert f"started with --op {what}: use the same" in run.stderr, \
                run.stderr


def copy(files, directory):
    """Copies them to a receiver, into the directory; the sender's rows."""
    with tempfile.TemporaryDirectory() as sockets:
        environment = dict(os.environ, UNETMM_FAKE_DIR=sockets)
        # The driver's double does not redirect parts that writes lie across.
        with subprocess.Popen(
                [tool("cp"), "--listen", "-d", "/fake/1", "--copy", "--timeout", "60",
                 "--json", "--directory", directory], env=environment,
                stdout=subprocess.PIPE, text=True) as listener:
            run = subprocess.run(
                [tool("cp"), *files, PEER, "-d", "/fake/2", "--json", "--timeout",
                 "60"], env=environment, capture_output=True, text=True, timeout=100)
            received = listener.communicate(timeout=100)[0]
    assert (run.returncode, run.stderr, listener.returncode) == (0, "", 0), run
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    for row, line in zip(rows, received.splitlines(), strict=True):
        CP.validate(row)
        assert row["checksum"] == json.loads(line)["checksum"], (row, line)
    return rows


def copies_are_whole():
    """Also where the size is not that of the content, or is that of whole pieces."""
    with tempfile.TemporaryDirectory() as directory, \
            tempfile.TemporaryDirectory() as source:
        files = ["/proc/version", "/sys/kernel/mm/transparent_hugepage/enabled"]
        for name, size in (("empty", 0), ("piece", 4 << 20), ("more", (9 << 20) + 1)):
            files.append(os.path.join(source, name))
            with open(files[-1], "wb") as file:
                file.write(os.urandom(size))
        files.append(os.path.join(source, "sparse"))
        with open(files[-1], "wb") as file:
            file.truncate(5 << 20)
        assert os.stat(files[0]).st_size == 0 and os.stat(files[1]).st_size == 4096
        rows = copy(files, directory)
        for path, row in zip(files, rows, strict=True):
            with open(path, "rb") as file:
                wanted = file.read()
            with open(os.path.join(directory, os.path.basename(path)), "rb") as file:
                assert wanted == file.read() and row["bytes"] == len(wanted), row


def only_files_are_copied():
    """The others get a sentence before anybody is called."""
    with tempfile.TemporaryDirectory() as source:
        fifo, right = (os.path.join(source, name) for name in ("fifo", "file"))
        os.mkfifo(fifo)
        with open(right, "wb"):
            pass
        for name, word in ((fifo, "not a file that can be copied"),
                           ("/dev/zero", "not a file that can be copied"),
                           ("/dev/tty", "not a file that can be copied"),
                           (source, "-r"), ("/nosuch", "No such file"),
                           (os.path.join(source, ".hidden"), "of that name")):
            for files in ([name], [right, name]):
                sentence([tool("cp"), *files, PEER, "-d", "/fake/2"], 1, name + ": ",
                         word)
        sentence([tool("cp"), "-r", "/nosuch", PEER], 1, "/nosuch: No such file")
        sentence([tool("cp"), right, PEER, "-d", "/fake/2", "--timeout", "1"], 1,
                 "cannot connect")


def programs():
    """Each tool's name and its program."""
    return [(os.path.basename(path).removeprefix("fake-unetmm-").removeprefix(
        "unetmm-"), path) for path in
            OTHERS + [tool(name) for name in ("pingpong", "bw", "stat", "info", "cp")]]


def help_teaches():
    """--help has an example, each option of the manual and no other, short lines."""
    assert len(programs()) in (7, 8), programs()
    for name, path in programs():
        text = subprocess.run([path, "--help"], capture_output=True,
                              text=True, check=True).stdout
        assert "Example" in text and "unetmm-" + name in text, (name, text)
        assert max(map(len, text.splitlines())) < 81, (name, text)
        assert text == subprocess.run([path, "-h"], capture_output=True,
                                      text=True, check=True).stdout
        in_help = set(re.findall(r"^ +(?:-., )?(--[a-z][a-z-]*)", text, flags=re.M))
        with open(os.path.join(MANUALS, f"unetmm-{name}.1"),
                  encoding="utf-8") as file:
            options = file.read().split(".SH OPTIONS")[1].split(".SH ")[0]
        in_page = {word.replace("\\-", "-") for word in
                   re.findall(r"\\-\\-[a-z][a-z\\-]*", options)}
        # These are a matter of course.
        assert in_help - {"--help", "--usage"} == in_page - {"--help"}, \
            (name, in_help ^ in_page)
        short = subprocess.run([path, "--usage"], capture_output=True,
                               text=True, check=True).stdout
        assert "Usage: unetmm-" + name in short, short


def every_tool_has_a_version():
    for name, program in programs():
        for option in ("-V", "--version"):
            run = subprocess.run([program, option], capture_output=True,
                                 text=True, check=True)
            assert not run.stderr, (program, run.stderr)
            assert re.fullmatch(
                rf"unetmm-{name} \(unetmm\) \d+\.\d+\.\d+\n", run.stdout), run.stdout


def all_sizes_are_one_option():
    for name in ("pingpong", "bw"):
        rows = pair(name, ["-a", "--count", "5", "--warmup", "0"])
        assert [r["bytes"] for r in rows] == [8 << i for i in range(14)], rows


def duration_is_kept():
    """In rounds of --count; also where messages are of a peer's memory."""
    for name, both in (("pingpong", []), ("bw", ["--bidir"]), ("bw", []),
                       ("pingpong", ["--op", "write"]), ("bw", ["--op", "read"])):
        begin = time.monotonic()
        rows = pair(name, ["--size", "8,64", "--count", "20", "--warmup", "2",
                           "--duration", "1"], both=both)
        took = time.monotonic() - begin
        assert took >= 2, took
        assert len(rows) == (4 if "--bidir" in both else 2), rows
        for row in rows:
            sent = row["n"] + (row["lost"] if name == "pingpong" else 0)
            assert sent > 20 and sent % 20 == 0, row
            assert not row["bad"], row
    for wrong in ("0", "x", "-1", "86401", ""):
        sentence([tool("bw"), PEER, "--duration", wrong], 2, "--duration",
                 "86400")


def samples_and_histogram_agree():
    with tempfile.TemporaryDirectory() as place:
        path = os.path.join(place, "samples")
        rows = pair("pingpong", ["--count", "200", "--size", "8,1k",
                                 "--histogram", "--samples", path])
        with open(path, encoding="utf-8") as file:
            head, *lines = file.read().splitlines()
    assert head == "# bytes microseconds", head
    for row in rows:
        samples = sorted(float(us) for size, us in map(str.split, lines)
                         if int(size) == row["bytes"])
        assert len(samples) == row["n"], (row, len(samples))
        assert samples[0] == row["min"] and samples[-1] == row["max"], row
        begins = [us for us, _ in row["histogram"]] + [float("inf")]
        assert begins == sorted(set(begins)), row
        # Microseconds have three digits.
        for (begin, count), end in zip(row["histogram"], begins[1:]):
            inside = [us for us in samples if begin <= us + 0.0005 and us < end]
            assert abs(len(inside) - count) <= 2, (begin, end, count, inside)
        assert sum(count for _, count in row["histogram"]) == row["n"], row
    sentence([tool("pingpong"), PEER, "--samples", "/nowhere/at/all"], 1,
             "/nowhere/at/all", "No such file")


def rows_of_other_shapes_are_no_rows():
    """The schema can say no."""
    good = pair("pingpong", ["--count", "5"])[0]
    for name, value in (("median", None), ("metric", "speed"), ("n", 0),
                        ("histogram", [[1.0]]), ("unit", "ms")):
        assert not ROWS.is_valid({**good, name: value}), name
    for name in ROWS.schema["required"]:
        assert not ROWS.is_valid({key: good[key] for key in good
                                  if key != name}), name


def objects_of_other_shapes_are_not_taken():
    """The same of unetmm-info and unetmm-stat."""
    good = json.loads(info(["-p", "--json", "-c", "3"])[1])
    [card] = good["cards"]
    for name, value in (("mac", "52:54"), ("sources", ["tlb", "tlb"]),
                        ("policies", ["hope"]), ("link", 1), ("version", 2),
                        ("endpoints", -1), ("more", 0),
                        ("peers", [{**card["peers"][0], "channels": []}])):
        assert not INFO.is_valid({**good, "cards": [{**card, name: value}]}), name
    for name in set(card) - {"peers"}:
        assert not INFO.is_valid({**good, "cards": [
            {key: card[key] for key in card if key != name}]}), name
    assert not INFO.is_valid({**good, "parameters": {"x": None}})
    env = dict(os.environ, UNETMM_FAKE_DIR=tempfile.gettempdir())
    good = json.loads(subprocess.run(
        [tool("stat"), "-d", "/fake/9", "--json", "--driver"], env=env,
        capture_output=True, text=True, check=True).stdout)
    STAT.validate(good)
    for name, value in (("driver", {"pins": -1}), ("driver", {"A b": 1}),
                        ("card", None), ("more", 1)):
        assert not STAT.is_valid({**good, name: value}), name
    for name in good:
        assert not STAT.is_valid({key: good[key] for key in good
                                  if key != name}), name


def examples_of(name):
    """Argument lists in the tool's help and its manual."""
    text = subprocess.run([tool(name), "--help"], capture_output=True,
                          text=True, check=True).stdout
    text = text[text.index("Example"):]
    with open(os.path.join(MANUALS, f"unetmm-{name}.1"),
              encoding="utf-8") as file:
        text += "".join(re.findall(r"^\.EX\n(.*?)^\.EE", file.read(),
                                   flags=re.M | re.S)).replace("\\-", "-")
    found = [line.split() for line in re.findall(
        rf"^\s*(?:\$ )?unetmm-{name} ([^|\n]*)", text, flags=re.M)]
    assert len(found) > 1, (name, text)
    return found


def examples_of_pairs_do_their_work():
    for name in ("pingpong", "bw"):
        lines = examples_of(name)
        listen = [line for line in lines if "--listen" in line]
        connect = [line for line in lines if line[0] == PEER]
        assert len(lines) == len(listen) + len(connect), lines
        for there, here in zip(listen, connect):
            with tempfile.TemporaryDirectory() as sockets:
                environment = dict(os.environ, UNETMM_FAKE_DIR=sockets)
                with subprocess.Popen(
                        [tool(name), *there, "-d", "/fake/1", "--timeout",
                         "60"], env=environment, text=True,
                        stdout=subprocess.PIPE) as listener:
                    run = subprocess.run(
                        [tool(name), *here, "-d", "/fake/2", "--timeout", "60",
                         "--count", "50"], env=environment, text=True,
                        capture_output=True, timeout=100)
                    listener.communicate(timeout=100)
            assert run.returncode == 0 and not run.stderr, (here, run)
            assert listener.returncode == 0, there
            sizes = here[here.index("--size") + 1].split(",")
            assert len(run.stdout.splitlines()) > len(sizes), (here, run)


def examples_of_info_find_cards():
    for line in examples_of("info"):
        status, text, errors = info(line, cards=(0, 1))
        assert status == 0 and text and not errors, (line, status, errors)


def examples_of_stat_go_on():
    """It prints again and again: three lines are enough."""
    for line in examples_of("stat"):
        with tempfile.TemporaryDirectory() as sockets:
            with subprocess.Popen(
                    [tool("stat"), *line, "-d", "/fake/1"], text=True,
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                    env=dict(os.environ, UNETMM_FAKE_DIR=sockets)) as stat:
                try:
                    said = [stat.stdout.readline() for _ in range(3)]
                    assert all(said), (line, stat.stderr.read())
                finally:
                    stat.kill()


TESTS = [
    examples_of_pairs_do_their_work, examples_of_info_find_cards,
    examples_of_stat_go_on, connecting_waits_for_the_peer, pingpong_sizes, pingpong_modes, pingpong_pinned_spread, posting_by_call,
    pingpong_survives_loss, slow_answers_are_samples, reliable_channels,
    listener_serves_one_after_another, bw_sizes, bw_both_ways, bw_survives_loss, bw_large_frames,
    stat_shows_what_counts, stat_says_what_it_counts, objects_of_other_shapes_are_not_taken,
    info_shows_all_cards, info_chooses,
    every_tool_has_a_version, all_sizes_are_one_option,
    duration_is_kept, samples_and_histogram_agree, rows_of_other_shapes_are_no_rows,
    info_shows_parameters, info_without_cards, info_finds_peers, garbage_is_refused,
    mistakes_get_one_sentence, operations, operations_have_bandwidth,
    operations_have_their_limits,
    other_operation_is_said, help_teaches, copies_are_whole, only_files_are_copied,
]

sys.exit(taptests.plain(TESTS))
