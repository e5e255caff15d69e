# SPDX-License-Identifier: GPL-2.0-or-later
"""Machines without a system, and peers that speak -device lockstep's protocol."""

import os
import socket
import struct
import subprocess
import time

from unetmm_tools.guest import pair, vm
from unetmm_tools.guest.virtual import STILL_SECONDS

HELLO, FRAME, MARK, BYE = range(1, 5)
MAGIC = 0x3150534c
HEAD = struct.Struct("<IIqq")
GREETING = struct.Struct("<IIqq")


def message(kind, when, promise=None, data=b""):
    """One message."""
    return HEAD.pack(kind, len(data), when,
                     when if promise is None else promise) + data


def hello(when, latency=10_000, stop=0, magic=MAGIC, port=0):
    """The first message of a side."""
    return message(HELLO, when, data=GREETING.pack(magic, port, latency, stop))


class Machine:
    """A QEMU with lockstep ports, whose CPU runs the firmware and then sleeps.

    ports  a list of the properties of each -device lockstep, as a text
    """

    def __init__(self, directory, name, ports, *more, icount=True):
        self.qmp_path = os.path.join(directory, f"{name}.qmp")
        self.stderr_path = os.path.join(directory, f"{name}.stderr")
        command = [vm.setup_paths("qemu")["qemu"], "-nodefaults",
                   "-no-user-config", "-display", "none", "-machine", "q35",
                   "-accel", "tcg,thread=single", "-m", "16M", "-seed", "1",
                   "-rtc", "base=2026-01-01,clock=vm",
                   "-qmp", f"unix:{self.qmp_path},server=on,wait=off"]
        if icount:
            command += ["-icount", "shift=3,sleep=off"]
        for number, port in enumerate(ports):
            command += ["-netdev", f"hubport,id=n{number},hubid={number}",
                        "-device", f"lockstep,id=l{number},netdev=n{number},"
                        f"port={number},{port}"]
        with open(self.stderr_path, "wb") as stderr:
            self.process = subprocess.Popen(    # pylint: disable=R1732
                [*command, *more], stdin=subprocess.DEVNULL, stdout=stderr,
                stderr=stderr, preexec_fn=pair.die_with_parent)
        self._qmp = None

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def qmp(self, name, /, **arguments):
        """Executes a QMP command."""
        if self._qmp is None:
            self._qmp = pair.Qmp(self.qmp_path, STILL_SECONDS)
        return self._qmp.command(name, **arguments)

    def get(self, name, port=0):
        """A property of a port."""
        return self.qmp("qom-get", path=f"/machine/peripheral/l{port}",
                        property=name)

    def status(self):
        """Of the machine: running, paused, io-error."""
        return self.qmp("query-status")["status"]

    def said(self):
        """All that it wrote on its standard error."""
        with open(self.stderr_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def until(self, condition, problem):
        """Waits for a condition."""
        deadline = pair.Deadline(STILL_SECONDS)
        while not condition():
            if deadline.passed() or self.process.poll() is not None:
                raise AssertionError(f"{problem}; it says: {self.said()}")
            time.sleep(0.01)

    def fails(self, text):
        """Waits for the machine to be stopped by an error with that text."""
        self.until(lambda: text in self.said(), f"'{text}' was not said")
        self.until(lambda: self.status() == "io-error", "it runs on")


class Peer:
    """The other end of a port with server=on."""

    def __init__(self, path, gone=lambda: False):
        """gone(): nobody is going to be there any more."""
        deadline = pair.Deadline(STILL_SECONDS)
        while True:
            last = gone() or deadline.passed()
            self.socket = socket.socket(socket.AF_UNIX)
            try:
                self.socket.connect(path)
                break
            except OSError:
                self.socket.close()
                if last:
                    raise
                time.sleep(0.01)
        self.socket.settimeout(STILL_SECONDS)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.socket.close()

    def send(self, *messages):
        """Sends messages, or any bytes."""
        self.socket.sendall(b"".join(messages))

    def _bytes(self, number):
        data = b""
        while len(data) < number:
            more = self.socket.recv(number - len(data))
            if not more:
                raise AssertionError("the machine has closed the connection")
            data += more
        return data

    def get(self):
        """The next message: (type, time, promise, payload)."""
        kind, length, when, promise = HEAD.unpack(self._bytes(HEAD.size))
        return kind, when, promise, self._bytes(length)
