# SPDX-License-Identifier: GPL-2.0-or-later
"""Does a test run each command that README.md, docs/ or a manual page shows?

Prints one line for each error, and nothing if there is none.  A command is a line of
a block of code that begins with a program of this project.  tests/commands/shown.txt
has all commands, below the names of the tests that run them.
"""

import glob
import os
import re
import sys

from unetmm_tools import REPO

LIST = "tests/commands/shown.txt"
COMMAND = re.compile(
    r"\s*(?:(?:\$|/ #) )?"
    r"((?:sudo )?(?:(?:scripts|tests|docs)/[\w/.-]+|unetmm-[a-z]+|lockstep-switch|"
    r"mpirun|fi_(?:info|pingpong)|meson setup|make -C guest-driver)(?: .*)?)$")
# Below these nothing needs to exist.
FREE = ("run", "long", "not")


def read(path):
    """A file of the repository."""
    with open(os.path.join(REPO, path), encoding="utf-8") as file:
        return file.read()


def found_in(pattern):
    """Paths relative to the repository."""
    return sorted(os.path.relpath(path, REPO) for path in
                  glob.glob(os.path.join(REPO, pattern), recursive=True))


def indent_of(line):
    """The number of spaces before a line's text."""
    return len(line) - len(line.lstrip())


def markdown_code(text):
    """The lines between fences."""
    code = False
    for line in text.splitlines():
        if line.startswith("```"):
            code = not code
        elif code:
            yield line


def rst_code(text):
    """The lines of literal blocks."""
    margin = None
    for line in text.splitlines():
        if margin is not None and line.strip() and indent_of(line) <= margin:
            margin = None
        if margin is not None:
            yield line
        elif re.search(r"::\s*$", line) or line.lstrip().startswith(".. code"):
            margin = indent_of(line)


def manual_code(text):
    """The lines of examples, without the formatter's words."""
    for block in re.findall(r"^\.EX\n(.*?)^\.EE", text, re.M | re.S):
        for escape, plain in ((r"\-", "-"), (r"\(aq", "'"), (r"\e", "\\"),
                              (r"\&", "")):
            block = block.replace(escape, plain)
        yield from block.splitlines()


def command_of(line):
    """The line's command, without a comment, or None."""
    match = COMMAND.match(re.sub(r"\s+#( .*)?$", "", line))
    return " ".join(match[1].split()) if match else None


def shown():
    """{command: page}"""
    commands = {}
    for pattern, code in (("*.md", markdown_code), ("docs/**/*.md", markdown_code),
                          ("docs/**/*.rst", rst_code),
                          ("guest-lib/man/*.[1-9]", manual_code)):
        for page in found_in(pattern):
            for line in code(read(page).replace("\\\n", " ")):
                command = command_of(line)
                if command:
                    commands.setdefault(command, page)
    return commands


def listed():
    """{command: what runs it}"""
    commands, how = {}, None
    for number, line in enumerate(read(LIST).splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            if line[0] != " ":
                how = line.strip()
            elif how is None or line.strip() in commands:
                raise ValueError(f"{LIST}:{number}: twice, or below nothing")
            else:
                commands[line.strip()] = how
    return commands


def problem_of(how):
    """Why nothing can be run by that, or None."""
    kind, _, rest = how.partition(": ")
    if kind in FREE:
        return "a reason is missing" if kind == "not" and not rest else None
    if kind == "stage":
        text, wanted = read("scripts/unetmm_tools/check/suite.py"), rf'^    "{re.escape(rest)}": \('
    elif os.path.isfile(os.path.join(REPO, kind)):
        text, wanted = read(kind), rf"^(?:def |[A-Z]+\(|[a-z ]+ )(?:test_)?{rest}\("
    else:
        return f"there is no {kind}"
    return None if rest and re.search(wanted, text, re.M) else f"{kind} has no {rest}"


def problems():
    """A sentence for each error."""
    found, known = shown(), listed()
    for command, page in found.items():
        if command not in known:
            yield f"{page}: no test runs '{command}': add it to {LIST}"
    for command in known:
        if command not in found:
            yield f"{LIST}: no page shows '{command}'"
    for how in sorted(set(known.values())):
        if problem_of(how):
            yield f"{LIST}: '{how}': {problem_of(how)}"


def main():
    """1 if something is wrong."""
    wrong = list(problems())
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
