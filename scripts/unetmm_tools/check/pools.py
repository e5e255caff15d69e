# SPDX-License-Identifier: GPL-2.0-or-later
"""Has docs/limits.md a row for each pool that users share?

Prints one line for each error, and nothing if there is none.  The driver's
parameters, the limits that it reads from the card, its shares of users and the card's
properties have to be in the column "Size" or "Charged to" of the table of pools, or
in the list of other numbers behind it; each name there exists; each row names a test,
and tests that exist.
"""

import re
import sys

from unetmm_tools.check import documents

PAGE = "docs/limits.md"
HEAD = "| Pool | Size | Charged to | When it is full | One user | Tests |"
OTHERS = "Numbers that are no pool"
# Names of the code, by where they are defined: a pattern for its part of a file, and
# one for a name in that.
DEFINED = {
    "guest-driver/param/param.h": (r"#define UNETMM_PARAMS\(X\)(.*?)\n\n",
                                   r"X\((\w+)"),
    "guest-driver/base/base.h": (r"struct unetmm_limits \{(.*?)\n\};",
                                 r"(?:u\d+) (\w+)(?:\[\w+\])?;"),
    "guest-driver/space/space.h": (r"enum unetmm_use \{(.*?)\n\};",
                                   r"UNETMM_(USE_\w+),"),
    "docs/system/unetmm.rst": (r"gen-spec-tables: properties(.*?)"
                               r"gen-spec-tables: end", r"\* - ``([\w-]+)``"),
}
LITERAL = re.compile(r"`([^`]+)`")


def defined():
    """{name: the files that define it}"""
    found = {}
    for path, (part, name) in DEFINED.items():
        text = re.search(part, documents.read(path), re.DOTALL)
        names = re.findall(name, text[1]) if text else []
        if len(names) < 5:
            raise SystemExit(f"{path}: its names are not found")
        for one in names:
            found.setdefault(one, []).append(path)
    return found


def rows(text):
    """The table's rows, as lists of cells."""
    table = text.split(HEAD + "\n", 1)
    if len(table) < 2:
        return []
    lines = re.match(r"(?:\|.*\n)+", table[1])[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split(" | ")]
            for line in lines[1:]]


def check_tests(row):
    """Errors in the tests of one row."""
    tests = LITERAL.findall(row[-1])
    if not tests:
        yield f"{PAGE}: {row[0]}: no test"
    for test in tests:
        if True not in [kind(test) for kind in documents.KINDS]:
            yield f"{PAGE}: {row[0]}: there is no {test}"


def check(text):
    """All errors of the page."""
    table = rows(text)
    names, owners = set(), defined()
    for row in table:
        if len(row) != HEAD.count(" | ") + 1:
            yield f"{PAGE}: not a row of the table: {' | '.join(row)}"
            continue
        names |= set(LITERAL.findall(row[1] + row[2]))
        yield from check_tests(row)
    listed = text.partition(OTHERS)[2].split("\n\n", 2)[1:2]
    names |= set(LITERAL.findall("".join(listed)))
    if not table or not listed:
        yield f"{PAGE}: the table, or the list behind it, is not found"
    for name in sorted(set(owners) - names):
        yield f"{PAGE}: no pool has {name} of {', '.join(owners[name])}"
    for name in sorted(names - set(owners)):
        if not re.fullmatch(r"[A-Z][A-Z_]+", name):
            yield f"{PAGE}: there is no number {name}"


def main():
    """1 if something is wrong."""
    wrong = list(check(documents.read(PAGE)))
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
