# SPDX-License-Identifier: GPL-2.0-or-later
"""writer.py DISK: writes to the disk, past the cache, until an error comes, and says so."""

import mmap
import os
import sys

LENGTH, ROOM = 1 << 20, 8 << 20

disk = os.open(sys.argv[1], os.O_WRONLY | os.O_DIRECT)
data = mmap.mmap(-1, LENGTH)
data.write(os.urandom(LENGTH))
written = 0
try:
    while True:
        written += os.pwrite(disk, data, written % ROOM)
        if written <= ROOM:
            print(f"written: {written} bytes", flush=True)
except OSError as error:
    print(f"error after {written} bytes: {error}")
