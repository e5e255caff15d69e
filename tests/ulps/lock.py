# SPDX-License-Identifier: GPL-2.0-or-later
"""lock.py try FILE: is the lock free?  lock.py hold FILE: waits for it, says so, and has it
until the process is killed."""

import fcntl
import signal
import sys

with open(sys.argv[2], "r+b") as file:
    if sys.argv[1] == "try":
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            print("free")
        except BlockingIOError:
            print("locked")
    else:
        fcntl.lockf(file, fcntl.LOCK_EX)
        print("held", flush=True)
        signal.pause()
