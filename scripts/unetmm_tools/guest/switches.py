# SPDX-License-Identifier: GPL-2.0-or-later
"""Switches of a cluster: each joins the cards of all its guests.

A switch has start(), close(), and netdev(number): the value of scripts/vm --netdev
of guest `number`, from 1.  SWITCHES names them.
"""

import hashlib
import os
import subprocess
import time

from unetmm_tools.guest import pair as guests, vm

LIMIT_SECONDS = 20


class Hub:
    """A QEMU without a machine, whose netdev hub joins UNIX datagram sockets.

    It floods: each frame goes to every other guest.
    """

    def __init__(self, directory, number, name="hub"):
        self._path = os.path.join(directory, name)
        self._number = number
        self._process = None

    def netdev(self, number):
        """The guest's end of its wire."""
        return f"wire:{self._path}{number},1"

    def command(self):
        """QEMU's command line."""
        words = [vm.default_qemu(), "-machine", "none",
                 "-nodefaults", "-no-user-config", "-display", "none"]
        for number in range(1, self._number + 1):
            words += ["-netdev",
                      vm.wire_value(f"wire:{self._path}{number},2",
                                    f"w{number}"),
                      "-netdev",
                      f"hubport,id=p{number},hubid=0,netdev=w{number}"]
        return words

    def start(self):
        """Returns when the hub's ends of all wires exist."""
        with open(f"{self._path}.log", "wb") as log:
            self._process = subprocess.Popen(   # pylint: disable=R1732
                self.command(), stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, preexec_fn=guests.die_with_parent)
        ends = [f"{self._path}{number}.2"
                for number in range(1, self._number + 1)]
        deadline = time.monotonic() + LIMIT_SECONDS
        while not all(os.path.exists(end) for end in ends):
            if self._process.poll() is not None or \
                    time.monotonic() > deadline:
                raise guests.GuestError(
                    "the hub does not start: " +
                    guests.read_text(f"{self._path}.log").strip())
            time.sleep(0.01)

    def running(self):
        """False when the hub has ended."""
        return self._process is not None and self._process.poll() is None

    def close(self):
        """Ends it."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None


class Multicast:
    """UDP multicast on the loopback interface: QEMU's netdev `socket`.

    No process; but a station gets its own frames back, a frame of more than 9,000
    bytes is not promised to pass, and frames are lost when many come at once.
    """

    def __init__(self, directory, number, name="multicast"):
        # Two clusters should not hear each other; both bytes depend on the
        # directory, which is the cluster's own.
        digest = hashlib.sha256(f"{directory}/{name}".encode()).digest()
        port = 20000 + int.from_bytes(digest[:2], "big") % 20000
        self._value = (f"socket,mcast=239.255.{digest[2]}.{digest[3]}:{port},"
                       "localaddr=127.0.0.1")
        self._number = number

    def netdev(self, _number):
        """The arguments are the same for all nodes."""
        return self._value

    def start(self):
        """There is nothing to start."""

    def running(self):
        """Without a process there is nothing that can end."""
        return True

    def close(self):
        """There is nothing to end."""


SWITCHES = {"hub": Hub, "multicast": Multicast}
