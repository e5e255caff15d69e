#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Do the tests and functions exist that the documents name?

Prints one line for each error, and nothing if there is none.  In
docs/security.rst, docs/papers.md, docs/driver.rst and docs/rooms.rst the names of
tests are

    test_FILE.TEST         TEST() in tests/core/ROOM/test_FILE.c, in its table
    /unetmm/GROUP/TEST     in a program of tests/qtest
    unetmm-FILE.TEST       in a part of qos-test, tests/qtest/unetmm-FILE.c
    PROGRAM.TEST           in the table of tests/guest/PROGRAM.c
    fuzz-NAME              tests/fuzz/fuzz-NAME.c

and [ROOM/]FILE.c: FUNCTION(), also behind hw/net/unetmm/ or guest-driver/, is a
function defined there.  Besides: the card's
assertions are those that docs/security.rst lists, tests/guest/abi.c knows each
member of the driver's structures that is to be zero, the card's table of
policies is that of the specification, and README.md is short enough to be read.
"""

import collections
import glob
import os
import re
import sys

REPO = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.realpath(__file__))))
PAGES = ("docs/security.rst", "docs/papers.md", "docs/driver.rst",
         "docs/rooms.rst")
PLACES = ("hw/net/unetmm", "guest-driver")
UAPI = "guest-driver/uapi/linux/unetmm.h"
ABI = "tests/guest/abi.c"
TABLES = "hw/net/unetmm/card/tables.c"
SPEC = "docs/specs/unetmm.rst"
README_LINES = 150
WITH = ("FIXED", "BROUGHT", "RAW", "DATAGRAM", "RELIABLE")

LITERAL = re.compile(r"``?([^`]+)``?")
DEFINITION = re.compile(r"^[A-Za-z][^;{}()=]*?[\s*](\w+)\([^;{}]*\)\n\{",
                        re.MULTILINE)
ASSERTION = re.compile(r"\b(?:g_)?assert(?:_\w+)?\(|\babort\(|\bg_error\(|"
                       r"\bg_abort\(|\b__builtin_unreachable\(|"
                       r"\b__builtin_trap\(|&error_fatal\b")


def read(path):
    """A file of the repository, or nothing."""
    try:
        with open(os.path.join(REPO, path), encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def has(pattern, text):
    """Is there a match?"""
    return re.search(pattern, text) is not None


def is_core_test(name):
    """test_FILE.TEST"""
    match = re.fullmatch(r"(test_\w+)\.(\w{3,})", name)
    if not match:
        return None
    text = "".join(read(os.path.relpath(path, REPO)) for path in
                   glob.glob(os.path.join(REPO, "tests/core/*",
                                          match[1] + ".c")))
    # In the table of tests: behind a parenthesis, not at a line's start.
    return has(rf"(?m)^\s+\w+\(\s*{match[2]}\b", text)


def is_program_test(name):
    """/unetmm/GROUP/TEST"""
    if not name.startswith("/unetmm/"):
        return None
    return any(f'add_func("{name}"' in read(os.path.relpath(path, REPO))
               for path in glob.glob(os.path.join(REPO, "tests/qtest/*.c")))


def is_qos_test(name):
    """unetmm-FILE.TEST"""
    match = re.fullmatch(r"(unetmm-[\w-]*test)\.([\w-]+)", name)
    if not match:
        return None
    return f'qos_add_test("{match[2]}"' in read(f"tests/qtest/{match[1]}.c")


def is_guest_test(name):
    """PROGRAM.TEST"""
    match = re.fullmatch(r"([a-z]+)\.([a-z][\w.-]*)", name)
    if not match or match[2] in ("c", "h", "rst", "md", "py", "tsv", "lua"):
        return None
    text = read(f"tests/guest/{match[1]}.c")
    return f'{{ "{match[2]}",' in text


def is_fuzz_target(name):
    """fuzz-NAME"""
    if not re.fullmatch(r"fuzz-\w+", name):
        return None
    return bool(read(f"tests/fuzz/{name}.c"))


def functions_of(path):
    """Functions defined in a file, with their text up to the next one."""
    text = read(path)
    found = [(match[1], match.start()) for match in DEFINITION.finditer(text)]
    ends = [start for _, start in found[1:]] + [len(text)]
    return {name: text[start:end] for (name, start), end in zip(found, ends)}


def is_function(name):
    """[PLACE/][ROOM/]FILE.c: FUNCTION()"""
    match = re.fullmatch(rf"(?:({'|'.join(PLACES)})/)?"
                         r"((?:\w+/)?\w+\.c): (\w+)\(\)", name)
    if not match:
        return None
    return any(match[3] in functions_of(f"{place}/{match[2]}")
               for place in ([match[1]] if match[1] else PLACES))


KINDS = (is_core_test, is_program_test, is_qos_test, is_guest_test,
         is_fuzz_target, is_function)


def check_names(page):
    """Names on a page that look like one of ours and are not there."""
    names = {" ".join(name.split()) for name in LITERAL.findall(read(page))}
    if not names:
        yield f"{page}: names nothing"
    for name in sorted(names):
        verdicts = [kind(name) for kind in KINDS]
        if False in verdicts and True not in verdicts:
            yield f"{page}: there is no {name}"


def check_assertions(page="docs/security.rst"):
    """The card's assertions against the page's table."""
    listed = collections.Counter()
    for name, count in re.findall(r"\* - ``(\w+/\w+\.c: \w+)\(\)``\n\s+- (\d+)",
                                  read(page)):
        listed[name] = int(count)
    found = collections.Counter()
    for path in sorted(glob.glob(os.path.join(REPO, "hw/net/unetmm/*/*.c"))):
        name = "/".join(path.split("/")[-2:])
        inside = 0
        for function, text in functions_of(f"hw/net/unetmm/{name}").items():
            count = len(ASSERTION.findall(text))
            inside += count
            if count:
                found[f"{name}: {function}"] = count
        if inside != len(ASSERTION.findall(read(f"hw/net/unetmm/{name}"))):
            yield f"{name}: an assertion outside of a function"
    for name in sorted(found | listed):
        if found[name] != listed[name]:
            yield (f"{name}() has {found[name]} assertions, {page} says "
                   f"{listed[name]}")


def zero_members():
    """(structure, member) of the driver's interface that are to be zero."""
    for name, text in re.findall(r"struct (unetmm_\w+) - (.*?)\*/",
                                 read(UAPI), re.DOTALL):
        for member, about in re.findall(r"@(\w+): ([^\n]*)", text):
            if re.match("zero$|in: zero;|REGISTER: UNETMM_", about):
                yield name, member


def check_abi():
    """Is each of them tried?"""
    text = read(ABI)
    members = list(zero_members())
    if len(members) < 10:
        yield f"{UAPI}: the members that are to be zero are not found"
    for name, member in members:
        if not has(rf"FIELD\(\w+, {name}, {member}\)", text):
            yield f"{ABI}: does not try {name}.{member}"


def policies_of_card():
    """Where the card allows each policy: {name: [bool, ...]}, as in WITH."""
    found = {}
    for name, flags in re.findall(r"\bP\(\w+, (\w+), ([\w |]+)\)",
                                  read(TABLES)):
        words = flags.split(" | ")
        found[name] = [word in words for word in WITH]
        if set(words) - set(WITH):
            found[name] = None
    return found


def policies_of_spec():
    """The same, in the specification."""
    found = {}
    table = re.search(r"^policy +fixed sources +brought sources +raw +"
                      r"datagram +reliable\n=[= ]+\n(.*?)\n=", read(SPEC),
                      re.MULTILINE | re.DOTALL)
    for line in table[1].split("\n") if table else ():
        name, *cells = line.split()
        found[name.strip("`")] = [cell == "yes" for cell in cells]
    return found


def sources_of_card():
    """The fixed sources, those that the driver brings pages for."""
    found = (set(), set())
    for name in re.findall(r"\bS\(\w+, (\w+)\)", read(TABLES)):
        text = read(f"hw/net/unetmm/source/{name}.c")
        found[has(r"\.driver_brings = true", text)].add(name)
    return found


def check_policies():
    """Are the tables the same?"""
    card, spec = policies_of_card(), policies_of_spec()
    if len(card) < 5 or None in card.values():
        yield f"{TABLES}: the table of policies is not understood"
    for name in sorted(card | spec):
        if card.get(name) != spec.get(name):
            yield (f"{SPEC}: policy {name} is not allowed with the same as in "
                   f"{TABLES}")
    for kind, names in zip(("Fixed", "Brought"), sources_of_card()):
        listed = re.search(rf"^{kind} sources: ([^.]*)\.", read(SPEC),
                           re.MULTILINE)
        if not listed or set(re.findall(r"``(\w+)``", listed[1])) != names:
            yield (f"{SPEC}: the {kind.lower()} sources are "
                   f"{', '.join(sorted(names))}")


def check_readme():
    """Errors of the front page."""
    lines = len(read("README.md").splitlines())
    if lines > README_LINES:
        yield (f"README.md: {lines} lines; move text to docs/ until there are "
               f"{README_LINES}")


def main():
    """1 if something is wrong."""
    wrong = [*(line for page in PAGES for line in check_names(page)),
             *check_assertions(), *check_abi(), *check_policies(),
             *check_readme()]
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
