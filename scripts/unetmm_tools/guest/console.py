# SPDX-License-Identifier: GPL-2.0-or-later
"""Joins the terminal to a guest's console, started with --console unix:PATH.

usage: scripts/unetmm_tools/run guest.console PATH      (Ctrl-] leaves; the guest goes on)
"""

import os
import select
import socket
import sys
import termios
import tty

LEAVE = b"\x1d"


def relay(console, goes_on):
    """Copies bytes both ways until Ctrl-] or until the guest has ended."""
    while goes_on():
        ready, _, _ = select.select([console, sys.stdin.fileno()], [], [], 0.2)
        if console in ready:
            data = console.recv(4096)
            if not data:
                return
            os.write(sys.stdout.fileno(), data)
        if sys.stdin.fileno() in ready:
            data = os.read(sys.stdin.fileno(), 4096)
            if not data or LEAVE in data:
                return
            console.sendall(data)


def join(path, goes_on=lambda: True):
    """Joins the terminal to the socket, as long as goes_on() is true."""
    console = socket.socket(socket.AF_UNIX)
    console.connect(path)
    print("Press Enter for a prompt, Ctrl-] to leave.")
    if not sys.stdin.isatty():
        relay(console, goes_on)
        return
    saved = termios.tcgetattr(sys.stdin)
    tty.setraw(sys.stdin)
    try:
        relay(console, goes_on)
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, saved)
        print()


def main():
    """Takes the socket's path as the only argument."""
    if len(sys.argv) != 2:
        sys.exit("error: name the console's socket")
    try:
        join(sys.argv[1])
    except OSError as error:
        sys.exit(f"error: {sys.argv[1]}: {error.strerror}: is the guest up?")


if __name__ == "__main__":
    main()
