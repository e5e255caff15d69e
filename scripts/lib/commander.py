# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest that executes the host's orders, line by line, while the host measures.

The host's words go by a serial port of their own, the guest's answers by the one for
results.  The output of a command is lines that begin with a name.
"""

import json
import os
import socket
import time

import pair as guests

# `as NAME command`: its lines, each behind the name.  An order is executed by a shell of
# its own, whose children are not the reader's: busybox's `read` begins anew when a child
# ends, and forgets the beginning of the line.
BEGIN = """
as() { name=$1; shift; "$@" 2>&1 | while read -r line; do echo "$name $line"; done; }
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


class Commander:
    """One guest under a program's orders.

    begin    a script's text, which is run before each order: functions
    options  arguments of scripts/vm
    extra    arguments of QEMU
    """

    def __init__(self, directory, begin="", options=(), extra=()):
        self._path = os.path.join(directory, "orders")
        self.guest = guests.Guest(
            "a", directory, f"#!/bin/sh\n{begin}{BEGIN}",
            [*options, "--", *extra,
             "-serial", f"unix:{self._path},server=on,wait=off"])
        self._socket = None

    def start(self, limit=60):
        """Boots, and waits for the guest's word."""
        self.guest.start()
        self.wait_for("guest", limit)
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(self._path)

    def order(self, line):
        """Has the guest's shell execute a line; does not wait."""
        self._socket.sendall(line.encode() + b"\n")

    def said(self, name):
        """All that came under a name: objects, or texts."""
        found = []
        for line in self.guest.results().splitlines(keepends=True):
            word, _, rest = line.rstrip("\r\n").partition(" ")
            # The last one may be on its way yet.
            if word == name and rest and line.endswith("\n"):
                found.append(json.loads(rest) if rest.startswith("{") else rest)
        return found

    def wait_for(self, name, limit=20, count=1):
        """Until so much was said under a name; the last of it."""
        deadline = time.monotonic() + limit
        while True:
            found = self.said(name)
            if len(found) >= count:
                return found[count - 1]
            if time.monotonic() > deadline or not self.guest.running():
                raise guests.GuestError(
                    f"nothing under '{name}' in {limit} s; "
                    f"{self.guest.trouble()}")
            time.sleep(0.02)

    def end(self, limit=30):
        """Orderly: the guest powers off."""
        self.order("end")
        if self.guest.wait(limit):
            raise guests.GuestError(self.guest.trouble())

    def close(self):
        """At any time."""
        if self._socket:
            self._socket.close()
        self.guest.kill()
