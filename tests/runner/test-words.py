#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""scripts/unetmm_tools/check/words.py: each kind of phrase, and the ceilings, in a small tree."""

import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
RUN = os.path.join(HERE, "..", "..", "scripts", "unetmm_tools", "run")
CEILINGS = "scripts/unetmm_tools/check/words.txt"

# (title, file, its text, the kinds that are found)
CASES = (
    ("plain sentences have no phrase", "a.md",
     "The card drops the frame. A user who waits is a person.\n", []),
    ("what, across the end of a line", "a.md",
     "The card drops\nwhat it cannot place.\n", ["2: what"]),
    ("a question may ask what", "a.md", "What does the card drop?\n", []),
    ("a question behind it is another sentence", "a.md",
     "It drops what came. Is that right?\n", ["1: what"]),
    ("a literal is a name", "a.rst", "The column ``what`` is first.\n", []),
    ("who", "a.md", "Who waits is told.\n", ["1: who"]),
    ("likewise", "a.md", "A read, likewise.\n", ["1: likewise"]),
    ("an echo", "a.md", "It is full, and so\nis the other.\n", ["1: echo"]),
    ("a double genitive", "a.md", "A ring of the driver's.\n",
     ["1: genitive"]),
    ("a single one", "a.md", "The size of the driver's ring.\n", []),
    ("an old turn", "a.md", "Faults in quiet.\n", ["1: old"]),
    ("a comment of C", "a.c", "int what; /* takes\n * what came */\n",
     ["2: what"]),
    ("a string of C", "a.h", 'const char *s = "what came";\n', ["1: what"]),
    ("a comment, a string and a name of Python", "a.py",
     'what = 1  # what came\nprint(f"what {what}")\n',
     ["1: what", "2: what"]),
    ("a string in the expression of an f-string", "a.py",
     """print(f"{row['what']}, who came")\n""",
     ["1: who"]),
    ("doubled braces of an f-string", "a.py", 'print(f"{{ {x} }} what came")\n',
     ["1: what"]),
    ("a shell script", "run", "#!/bin/sh\n# runs what is left\n",
     ["2: what"]),
    ("a file that is no text", "a.bin", "what came\n", []),
)


def run(base, *options):
    """(status, lines)"""
    done = subprocess.run([RUN, "check.words", "--base", base, *options],
                          stdout=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


def write(base, name, text):
    """One file below a folder."""
    path = os.path.join(base, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def tree(directory, files, ceilings="place 0\n"):
    """A repository with these files in place/, and the ceilings."""
    base = tempfile.mkdtemp(dir=directory)
    subprocess.run(["git", "init", "-q", base], check=True)
    for name, text in files.items():
        write(base, os.path.join("place", name), text)
    write(base, CEILINGS, "# a comment\n" + ceilings)
    return base


def finds(directory, name, text, kinds):
    """--list has these kinds, and the check fails if there is one."""
    base = tree(directory, {name: text})
    status, lines = run(base, "--list", "place")
    found = [": ".join(line.split(": ", 2)[:2]).partition(":")[2]
             for line in lines[:-1]]
    assert status == 0 and found == kinds, lines
    status, lines = run(base)
    assert status == (1 if kinds else 0), lines


def ceilings(directory):
    """Above: fails.  At: silent.  Below: asks, and --lower writes it."""
    text = {"a.md": "what came, what went\n", "b.md": "who came\n"}
    for limit, wanted in ((2, 1), (3, 0), (5, 0)):
        base = tree(directory, text, f"place {limit}\n")
        status, lines = run(base)
        assert status == wanted and bool(lines) == (limit != 3), (limit, lines)
        assert limit < 4 or "lower the ceiling" in lines[0], lines
        status, _ = run(base, "--lower")
        with open(os.path.join(base, CEILINGS), encoding="utf-8") as file:
            left = file.read()
        assert status == 0 and left == f"# a comment\nplace {min(3, limit)}\n", \
            left


def teaches():
    """--help has the better sentences."""
    _, lines = run(".", "--help")
    assert any("the entries of the card" in line for line in lines), lines


def main():
    """TAP."""
    failed = 0
    with tempfile.TemporaryDirectory(prefix="unetmm-") as directory:
        tests = [(title, finds, (directory, *rest))
                 for title, *rest in CASES]
        tests += [("the ceilings", ceilings, (directory,)),
                  ("--help teaches", teaches, ())]
        print(f"1..{len(tests)}")
        for number, (title, test, words) in enumerate(tests, 1):
            try:
                test(*words)
                print(f"ok {number} - {title}")
            except (AssertionError, subprocess.SubprocessError) as error:
                failed += 1
                print(f"not ok {number} - {title}")
                print(f"# {error}".replace("\n", "\n# "))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
