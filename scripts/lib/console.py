#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Joins the terminal to a guest's console, started with --console unix:PATH.

Usage: console.py PATH      (Ctrl-] leaves; the guest goes on)
"""

import os
import select
import socket
import sys
import termios
import tty

LEAVE = b"\x1d"


def relay(console):
    """Copies bytes both ways until Ctrl-] or until the guest has ended."""
    while True:
        ready, _, _ = select.select([console, sys.stdin.fileno()], [], [])
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


def main():
    """Puts the terminal in raw mode for as long as the guest has it."""
    if len(sys.argv) != 2:
        sys.exit("error: name the console's socket")
    console = socket.socket(socket.AF_UNIX)
    try:
        console.connect(sys.argv[1])
    except OSError as error:
        sys.exit(f"error: {sys.argv[1]}: {error.strerror}: is the guest up?")
    print("Press Enter for a prompt, Ctrl-] to leave.")
    if not sys.stdin.isatty():
        relay(console)
        return
    saved = termios.tcgetattr(sys.stdin)
    tty.setraw(sys.stdin)
    try:
        relay(console)
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, saved)
        print()


if __name__ == "__main__":
    main()
