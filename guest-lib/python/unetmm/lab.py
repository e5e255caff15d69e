# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests with the card, from a script or a notebook on the host: docs/lab.rst.

    from unetmm import lab

    with lab.Lab(2) as (a, b):
        b.launch("unetmm-pingpong --listen")
        print(a.run(f"unetmm-pingpong {b.mac} --count 1000"))
        a.faults(loss=0.01)
        print(a.counters()["tx_frames"], a.tlb(), a.endpoints())

It needs a checkout of unetmm, whose scripts build and start the guests: the one that
this file is in, or the one that UNETMM_TREE names.  It needs no card on the host, and
neither libunetmm nor cffi.
"""
import base64
import itertools
import json
import os
import re
import secrets
import shutil
import socket
import sys
import tempfile
import time

TREE = os.environ.get("UNETMM_TREE") or os.path.abspath(os.path.join(
    os.path.dirname(os.path.realpath(__file__)), "../../.."))
if not os.path.exists(os.path.join(TREE, "scripts", "lib", "pair.py")):
    raise ImportError("unetmm.lab needs a checkout of unetmm: set UNETMM_TREE "
                      "to its directory")
sys.path.append(os.path.join(TREE, "scripts", "lib"))
import pair  # noqa: E402  (of the checkout)
import vm  # noqa: E402  (beside it)

GuestError = pair.GuestError

# The guest's shell executes the host's orders, line by line.
#
# `as NAME command`: its lines, each behind the name.  `job NAME SCRIPT WORD`: the same of
# a script in base64, with a dot, the word and its exit status in the end.  An order is executed by a shell of
# its own, whose children are not the reader's: busybox's `read` begins anew when a child
# ends, and forgets the beginning of the line.
BEGIN = """
as() { name=$1; shift; "$@" 2>&1 | while read -r line; do echo "$name $line"; done; }
job() {
    { sh -c "$(echo "$2" | base64 -d)" 2>&1 </dev/null; set -- "$1" $? "$3"
      # The dot is behind the output's last byte, be that the end of a line or not.
      echo ".$3 $2"; } |
        while IFS= read -r line; do echo "$1 $line"; done
}
if [ $# -gt 0 ]; then
    eval "$1"
    exit
fi
stty -F /dev/ttyS2 raw -echo
exec 4</dev/ttyS2
echo guest ready
while read -r line <&4; do
    [ "$line" = end ] && exit 0
    /run "$line" 4<&-
done
exit 1
"""


class CommandError(Exception):
    """A command in a guest that failed: `status` and `output`."""

    def __init__(self, command, status, output):
        super().__init__(f"status {status} of: {command}\n{output}")
        self.status = status
        self.output = output


class Job:
    """A command that runs in a guest."""

    def __init__(self, guest, name, command, word):
        self.guest = guest
        self.name = name
        self.command = command
        # No output of a command looks like its end.
        self._end = re.compile(rf"(.*)\.{word} (\d+)$")

    def _lines(self):
        found = []
        for line in self.guest.results().splitlines(keepends=True):
            name, _, rest = line.partition(" ")
            # The last one may be on its way yet.
            if name == self.name and line.endswith("\n"):
                found.append(rest.rstrip("\n"))
        return found

    def _look(self):
        """The text printed so far, and the exit status, or None while it runs."""
        lines = self._lines()
        end = self._end.match(lines[-1]) if lines else None
        if end:
            return "\n".join([*lines[:-1], end[1]]), int(end[2])
        return "".join(line + "\n" for line in lines), None

    @property
    def status(self):
        """The exit status, or None while it runs."""
        return self._look()[1]

    @property
    def output(self):
        """The text printed so far, on both of its outputs."""
        return self._look()[0]

    def wait(self, timeout=60, check=True):
        """Its output, when it has ended; CommandError if its status is not 0."""
        self.guest.until(lambda: self.status is not None, timeout,
                         f"'{self.command}' has not ended")
        if check and self.status:
            raise CommandError(self.command, self.status, self.output)
        return self.output


def knobs(seed=None, **rates):
    """The card's properties for Guest.faults(): {name: value}."""
    found = {} if seed is None else {"x-seed": seed}
    for name, value in rates.items():
        name = name.replace("_", "-")
        found[f"x-{name}"] = int(value) if name.endswith("-ns") else \
            round(value * 1e6)
    return found


class Guest(pair.Guest):
    """One guest that executes orders, and whose card can be looked at.

    begin    a script's text, which is run before each order: functions
    options  arguments of scripts/vm, and after "--" of QEMU
    """

    def __init__(self, name, directory, begin="", options=()):
        self._orders = os.path.join(directory, f"{name}.orders")
        options = list(options)
        if "--" not in options:
            options.append("--")
        super().__init__(name, directory, f"#!/bin/sh\n{begin}{BEGIN}", [
            *options, "-serial", f"unix:{self._orders},server=on,wait=off"])
        self._socket = None
        self._numbers = itertools.count(1)

    # ---- Its life

    def boot(self, timeout=120):
        """After start(): waits until the guest executes orders."""
        self.wait_for("guest", timeout)
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(self._orders)

    def end(self, timeout=30):
        """Has the guest power off."""
        self.order("end")
        if self.wait(timeout):
            raise GuestError(self.trouble())

    def close(self):
        """Ends it at any time."""
        if self._socket:
            self._socket.close()
            self._socket = None
        self.kill()

    # ---- Commands

    def run(self, command, timeout=60, check=True):
        """Runs a shell command; returns its output, as Job.wait() does."""
        return self._job(command, "").wait(timeout, check)

    def launch(self, command):
        """Starts a shell command in the background; returns its Job."""
        return self._job(command, " &")

    def _job(self, command, more):
        name = f"job{next(self._numbers)}"
        script = base64.b64encode(command.encode()).decode()
        word = secrets.token_hex(8)
        self.order(f"job {name} {script} {word}{more}")
        return Job(self, name, command, word)

    def put(self, path, data):
        """Writes a file in the guest."""
        data = data.encode() if isinstance(data, str) else data
        self.run(f": >{path}")
        for at in range(0, len(data), 2048):
            piece = base64.b64encode(data[at:at + 2048]).decode()
            self.run(f"echo {piece} | base64 -d >>{path}")

    def order(self, line):
        """Has the guest's shell execute a line; does not wait."""
        self._socket.sendall(line.encode() + b"\n")

    def said(self, name):
        """All that came under a name (`as NAME command`): objects, or texts."""
        found = []
        for line in self.results().splitlines(keepends=True):
            word, _, rest = line.rstrip("\r\n").partition(" ")
            if word == name and rest and line.endswith("\n"):
                found.append(json.loads(rest) if rest.startswith("{") else rest)
        return found

    def wait_for(self, name, limit=20, count=1):
        """Until so much was said under a name; the last of it."""
        self.until(lambda: len(self.said(name)) >= count, limit,
                   f"nothing under '{name}'")
        return self.said(name)[count - 1]

    def until(self, condition, limit, problem):
        """Waits for a condition, as long as the guest runs."""
        deadline = time.monotonic() + limit
        while not condition():
            if time.monotonic() > deadline or not self.running():
                raise GuestError(f"{self.name}: {problem} in {limit} s; "
                                 f"{self.trouble()}")
            time.sleep(0.02)

    # ---- The card

    @property
    def mac(self):
        """The card's address."""
        return self.card_get("mac")

    def counters(self):
        """{name: value} of all that the card has counted."""
        return self.card_get("counters")

    def tlb(self):
        """The translations in the card's TLB, a dictionary each."""
        return self.card_get("tlb")

    def endpoints(self):
        """The endpoints that exist on the card, with their rings' indices."""
        return self.card_get("active-endpoints")

    def faults(self, seed=None, **rates):
        """Sets how often the card misbehaves, from 0 to 1, by the knob's name.

        faults(loss=0.01, force_miss=0.5) is x-loss and x-force-miss; those that end
        in _ns are times.  `seed` makes the run repeatable.
        """
        for name, value in knobs(seed, **rates).items():
            self.card_set(name, value)

    def link(self, up):
        """Takes the card's link down, or up again."""
        self.qmp("set_link", name=pair.CARD, up=up)


class Lab:
    """Guests a and, of two, b, whose cards are joined by a wire.

    number     1 or 2
    kernel     6.1, 6.12, debug or a path
    options    more arguments of scripts/vm for both, as a list
    python     adds python3 and the package unetmm to the guests
    directory  where the guests' files stay; by default they are removed
    """

    def __init__(self, number=1, kernel="6.1", options=(), python=False,
                 directory=None):
        if number not in (1, 2):
            raise ValueError("a wire has one or two guests")
        self._own = directory is None
        self.directory = directory or tempfile.mkdtemp(prefix="unetmm-lab-")
        os.makedirs(self.directory, exist_ok=True)
        common = ["--kernel", kernel, *(["--python"] if python else [])]
        self.guests = []
        for index in range(number):
            wire = ["--netdev", f"wire:{self.directory}/wire,{index + 1}"] \
                if number == 2 else []
            self.guests.append(Guest(
                "ab"[index], self.directory,
                options=["--id", str(index + 1), *wire, *common, *options]))

    def __enter__(self):
        try:
            self.boot()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exc):
        self.close()

    def __iter__(self):
        return iter(self.guests)

    def __getitem__(self, index):
        return self.guests[index]

    def boot(self, timeout=120):
        """Starts all guests; returns when they can run commands."""
        for guest in self.guests:
            guest.start()
        for guest in self.guests:
            guest.boot(timeout)

    def close(self):
        """Ends the guests, and removes their files."""
        for guest in self.guests:
            guest.close()
        if self._own:
            shutil.rmtree(self.directory, ignore_errors=True)
