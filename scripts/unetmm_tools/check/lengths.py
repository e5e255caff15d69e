# SPDX-License-Identifier: GPL-2.0-or-later
"""Is a C function of the project longer than MOST lines?

Prints those that are, one line each; nothing if all is right.  A function is
counted from the first line of its head to its closing brace.  Without arguments
all files that git knows are looked at, else those that are named.
"""

import os
import re
import subprocess
import sys

from unetmm_tools import REPO

PLACES = ("hw", "guest-driver", "guest-lib", "tests")
MOST = 60

# A line before a head: an end, a directive, or a comment.
ENDS = re.compile(r"^$|^[}#/]|^ \*|[;}]$|\*/$")


def c_files():
    """The sources and headers."""
    names = subprocess.run(["git", "-C", REPO, "ls-files", *PLACES],
                           stdout=subprocess.PIPE, text=True, check=True)
    return [os.path.join(REPO, name) for name in names.stdout.split()
            if name.endswith((".c", ".h"))]


def functions(lines):
    """(first line, last line, head) of each, counted from 1.

    A function's braces, and no others, stand in the first column, alone.
    """
    body = None
    for number, line in enumerate(lines, 1):
        if line == "{":
            body = number
        elif line == "}" and body:
            first = body
            while first > 1 and not ENDS.search(lines[first - 2]):
                first -= 1
            yield first, number, lines[first - 1]
            body = None


def main():
    """Returns 1 if a function is too long, or if there is none at all."""
    count = bad = 0
    for path in sys.argv[1:] or c_files():
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
        for first, last, head in functions(lines):
            count += 1
            if last - first + 1 > MOST:
                bad += 1
                print(f"{os.path.relpath(path, REPO)}:{first}: "
                      f"{last - first + 1} lines: {head}")
    print(f"{count} functions, {bad} of them too long")
    return 1 if bad or not count else 0


if __name__ == "__main__":
    sys.exit(main())
