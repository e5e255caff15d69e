# SPDX-License-Identifier: GPL-2.0-or-later
"""Do the tests that walk all calls of the driver have a row for each?

Prints one line for each error, and the number of rows.  Each ioctl and each type
of object of the uapi header has a row in the table of abi.c (bad arguments, other
users) and in that of fail.c (a failure at each chance).
"""

import re
import sys

from unetmm_tools.check import documents

HEADER = "guest-driver/uapi/linux/unetmm.h"
# The tables, and the beginning of a row.
TABLES = {
    "tests/guest/driver/abi.c": r"^    (?:CALL|GROWN)\((\w+),|^    (DESTROY)\((\w+),",
    "tests/guest/driver/fail.c": r"^    ATTEMPT\((?!DESTROY)(\w+),|^    ATTEMPT\((DESTROY) (\w+),",
}


def defined():
    """The names of all rows: "EXPORT", "DESTROY export"."""
    text = documents.read(HEADER)
    calls = re.findall(r"#define\s+UNETMM_IOC_(\w+)\s+_IO\(", text)
    objects = re.findall(r"#define\s+UNETMM_OBJECT_(\w+)\s+\d", text)
    if len(calls) < 20 or len(objects) < 5:
        raise SystemExit(f"{HEADER}: its calls are not found")
    return ({call for call in calls if call not in ("MAGIC", "DESTROY")} |
            {f"DESTROY {name.lower()}" for name in objects})


def main():
    """Returns the exit status."""
    wanted = defined()
    status = 0
    for path, row in TABLES.items():
        found = {call or f"{destroy} {name}" for call, destroy, name in
                 re.findall(row, documents.read(path), re.MULTILINE)}
        for name in sorted(wanted - found):
            print(f"{path}: no row for {name}")
            status = 1
        print(f"{path}: {len(wanted & found)} of {len(wanted)} rows")
    return status


if __name__ == "__main__":
    sys.exit(main())
