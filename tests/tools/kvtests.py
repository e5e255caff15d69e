# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests of unetmm-kv with clients on the host, for tests/tools/run.

Without a card: the server is a process of the host, under the sanitizers, and its
wire a UNIX socket to libslirp in a QEMU without a machine.  With one: in a guest.
"""

import errno
import os
import random
import socket
import struct
import subprocess
import sys
import threading
import time

from unetmm_tools.bench import ethernet, kvload
from unetmm_tools.check import schemas
from unetmm_tools.check.taptests import require
from unetmm_tools.guest import vm

LIMIT = 120


def free_pid(process):
    """Ends a process of ours, whatever it does."""
    if process.poll() is None:
        process.kill()
        process.wait(LIMIT)


def listens(path):
    """Is there a listener?  The file is there a moment earlier."""
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as file:
        return any(line.split()[3] == "00010000" and line.rstrip().endswith(" " + path)
                   for line in file)


class Wire:
    """A server on libslirp's network, both as processes of the host."""

    def __init__(self, directory, cold=0, memory="4M"):
        paths = vm.setup_paths("qemu", "guest")
        self._socket = os.path.join(directory, f"wire{cold}")
        [port] = ethernet.free_ports(1)
        self.address = ("127.0.0.1", port)
        self._net = subprocess.Popen(
            [paths["qemu"], "-M", "none", "-nodefaults", "-display", "none",
             "-netdev", f"user,id=u,hostfwd=tcp:127.0.0.1:{port}-"
             "10.0.2.100:11211", "-netdev", "hubport,id=a,hubid=0,netdev=u",
             "-netdev", "stream,id=s,server=on,addr.type=unix,addr.path="
             + self._socket, "-netdev", "hubport,id=b,hubid=0,netdev=s"],
            stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + LIMIT
        while not listens(self._socket):
            require(time.monotonic() < deadline, "QEMU has no network")
            time.sleep(0.02)
        self.server = subprocess.Popen(
            [os.path.join(paths["guest"], "tests", "library",
                          "fake-unetmm-kv"), "--device", self._socket,
             "--memory", memory, "--connections", "40", "--json"],
            env={**os.environ, "UNETMM_KV_COLD": str(cold)},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        require(schemas.row("kv", self.server.stdout.readline())["ready"],
                "the server does not start")

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        free_pid(self.server)
        free_pid(self._net)

    def connect(self):
        """A client."""
        return socket.create_connection(self.address, LIMIT)

    def end(self):
        """Ends the server, which must have nothing to complain of: its counters."""
        self.server.terminate()
        said, complaints = self.server.communicate(timeout=LIMIT)
        require(not self.server.returncode and not complaints,
                f"status {self.server.returncode}: {complaints[-3000:]}")
        return schemas.row("kv", said)


def kv_wire_load(directory):
    """kv: a load over lwIP and libslirp, every value right"""
    with Wire(directory) as wire:
        load = kvload.Load(wire.address, kvload.Choice(1, 300))
        [report] = kvload.run([load], LIMIT, 3000)
        require(report["operations"] >= 3000 and not report["wrong"] and
                not report["resets"], report)
        counted = kvload.stats(wire.address)
        require(counted["cmd_set"] >= 300 and counted["get_hits"] > 2000 and
                counted["curr_items"] == 300, counted)
        # More than lwIP's window, and more than there is room for at once
        value = random.Random(1).randbytes(600000)
        with wire.connect() as sock:
            sock.sendall(b"set big 0 0 %d\r\n%s\r\nget big big\r\nquit\r\n" %
                         (len(value), value))
            answer = sock.makefile("rb").read()
        part = b"VALUE big 0 %d\r\n%s\r\n" % (len(value), value)
        require(answer == b"STORED\r\n" + 2 * part + b"END\r\n",
                f"{len(answer)} bytes, which are not the value twice")
        wire.end()


def kv_wire_pipeline(directory):
    """kv: requests that wait because answers find no room are all carried out"""
    chance = random.Random(2)
    big = chance.randbytes(60000)
    ask = b"set big 0 0 %d\r\n%s\r\n" % (len(big), big)
    answer = b"STORED\r\n"
    small = [chance.randbytes(chance.randrange(3000)) for _ in range(40)]
    for number, value in enumerate(small):
        ask += b"get big\r\nset k%d 0 0 %d\r\n%s\r\n" % (
            number, len(value), value)
        answer += b"VALUE big 0 %d\r\n%s\r\nEND\r\nSTORED\r\n" % (len(big), big)
    for number, value in enumerate(small):
        ask += b"get k%d\r\n" % number
        answer += b"VALUE k%d 0 %d\r\n%s\r\nEND\r\n" % (
            number, len(value), value)
    with Wire(directory) as wire:
        with wire.connect() as sock:
            sock.sendall(ask + b"quit\r\n")
            got = sock.makefile("rb").read()
        same = len(os.path.commonprefix([got, answer]))
        require(got == answer, f"{len(got)} bytes, of which {same} are right, "
                f"not {len(answer)}")
        wire.end()


def kv_wire_hostile(directory):
    """kv: garbage, resets, half-closed connections, and too many of them"""
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    words = (b"get ", b"set ", b"a ", b"0 ", b"5 ", b"1048577 ", b"-1 ",
             b"\r\n", b"hello\r\n", b"stats\r\n", b"delete ", b"noreply", b"\n")
    with Wire(directory) as wire:
        for _ in range(150):
            sock = wire.connect()
            data = b"".join(chance.choice(words) if chance.random() < 0.9 else
                            chance.randbytes(chance.randrange(2000))
                            for _ in range(chance.randrange(60)))
            try:
                sock.sendall(data)
                if chance.random() < 0.5:
                    sock.shutdown(socket.SHUT_WR)
                    sock.settimeout(LIMIT)
                    while sock.recv(65536):
                        pass
                elif chance.random() < 0.5:
                    # Closing it is a reset.
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                    struct.pack("ii", 1, 0))
            except OSError as error:
                # The server has hung up: shutdown() behind a reset finds no connection.
                if not isinstance(error, ConnectionError) and error.errno != errno.ENOTCONN:
                    raise AssertionError(f"seed {seed}: {error}") from None
            sock.close()
        # New clients are served, though these are too many and say nothing.
        crowd = [wire.connect() for _ in range(60)]
        deadline = time.monotonic() + LIMIT
        while True:
            try:
                answer = kvload.talk(wire.address, "set k 0 0 1\r\nx\r\n"
                                     "get k\r\n", 5)
            except OSError:
                answer = ""
            if "VALUE k 0 1\r\nx\r\n" in answer:
                break
            require(time.monotonic() < deadline and
                    wire.server.poll() is None,
                    f"no service any more; seed {seed}: {answer}")
        for sock in crowd:
            sock.close()
        try:
            wire.end()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from None


def kv_wire_losses(directory):
    """kv: where each cold buffer costs a frame, TCP repeats it"""
    with Wire(directory, cold=3) as wire:
        load = kvload.Load(wire.address, kvload.Choice(1, 50))
        [report] = kvload.run([load], LIMIT, 200)
        require(report["operations"] >= 200 and not report["wrong"], report)
        require(wire.end()["lost"] == 3, "nothing was lost")


def kv_cold_ring(_directory):
    """kv: a cold ring three ways: pinned and backup answer, drop stands still"""
    with ethernet.Guest("6.1", 5) as stations:
        runs = [ethernet.cold_run(stations, policy, ring, limit, 300, seed=ring)
                for policy, ring, limit in (
                    ("pinned", 64, LIMIT), ("backup", 16, LIMIT),
                    ("backup", 2048, LIMIT), ("drop", 64, 10))]
        # A small backup ring drops the rest, and TCP repeats that: some ten operations
        # for each time that its timer takes.
        name, address = stations.need_server("backup", 256, 1 << 20,
                                             "--backup", "1")
        [few] = kvload.run([kvload.Load(address, kvload.Choice(9, 100), 4)],
                           2 * LIMIT, 100)
        counted = stations.stop_server(name)
        stations.guest.end()
    for run in runs:
        words = f"{run['policy']}, ring of {run['ring']}: {run}"
        require(not run["wrong"], words)
        require(run["done"] == (run["policy"] != "drop"), words)
        require((run["drop_absent"] > 0) == (run["policy"] == "drop"), words)
        require((run["backup_packets"] > 0) == (run["policy"] == "backup"),
                words)
    require(runs[1]["backup_packets"] <= runs[2]["backup_packets"],
            "a larger ring has more cold buffers")
    require(few["operations"] >= 100 and not few["wrong"], few)
    require(counted["backup_packets"] > 0, counted)


class Tiring(threading.Thread):
    """A server that answers so many gets, and then nobody any more."""

    def __init__(self, answers):
        super().__init__(daemon=True)
        self._answers = answers
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = self._listener.getsockname()

    def run(self):
        connection = self._listener.accept()[0]
        with connection:
            while data := connection.recv(65536):
                if self._answers > 0:
                    self._answers -= 1
                    connection.sendall(b"STORED\r\n" if data.startswith(b"set")
                                       else b"END\r\n")


def load_of_the_silent(_directory):
    """kvload: the time in which a server says nothing is part of the result"""
    server = Tiring(50)
    server.start()
    load = kvload.Load(server.address, kvload.Choice(1), 1, fill=False)
    [report] = kvload.run([load], seconds=5)
    require(report["operations"] == 50 and not report["resets"], f"{report}")
    require(report["seconds"] >= 5, f"{report}")
    for name in ("times", "hit_times"):
        require(len(report[name]) >= 50 and not any(report[name][-3:]), f"{report}")
    require(sum(report["times"]) == 50, f"{report}")
    server = Tiring(50)
    server.start()
    done = subprocess.run(
        [sys.executable, kvload.__file__, "127.0.0.1:%d" % server.address[1],
         "--operations", "2000", "--limit", "1", "--connections", "1"],
        capture_output=True, text=True, timeout=LIMIT, check=False)
    require(done.returncode == 1 and "2000 operations" in done.stderr, f"{done}")


TESTS = (load_of_the_silent, kv_wire_load, kv_wire_pipeline, kv_wire_hostile, kv_wire_losses, kv_cold_ring)
