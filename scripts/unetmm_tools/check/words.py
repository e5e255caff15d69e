# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts phrases that make the project's texts hard to read.

A sentence of the project names its subject, its verb and its object; it uses
the field's term (RNR NACK, completion, doorbell, page fault), and says one
thing.  The phrases below replace a noun by a pronoun or a term by a riddle:

  kind       instead of                          write
{examples}

A phrase is looked for in documents, manual pages, comments and strings, across
the ends of lines.  A question may use "what" and "who".  So may a sentence whose
"who" has a noun for persons before it: "users who".

{ceilings} has a ceiling for each folder.  The check fails
if a folder has more phrases than its ceiling; if it has fewer, the check asks
for a lower ceiling, which --lower writes.  No option raises a ceiling.

examples: check the ceilings; list the places of a folder or a file; lower the
ceilings to the numbers of today

  scripts/unetmm_tools/run check.words
  scripts/unetmm_tools/run check.words --list docs
  scripts/unetmm_tools/run check.words --lower
"""

import argparse
import collections
import io
import os
import re
import subprocess
import sys
import tokenize

from unetmm_tools import REPO

CEILINGS = "scripts/unetmm_tools/check/words.txt"
# These have the phrases as examples.
OWN = ("scripts/unetmm_tools/check/words.py", "tests/runner/test-words.py")

Kind = collections.namedtuple("Kind", "name pattern instead better")

PERSONS = ("people|persons?|users?|authors?|readers?|students?|teachers?|"
           "researchers?|developers?|administrators?|newcomers?|those")

KINDS = (
    Kind("what", r"\bwhat\b",
         "what the card has", "the entries of the card"),
    Kind("who", r"(?<!\w)(?:who|whoever|whom)\b",
         "who waits is told", "a waiting process is told"),
    Kind("likewise", r"\blikewise\b",
         "likewise", "the same for a read"),
    Kind("echo", r"\b(?:(?:and|but) so (?:is|are|has|have|do|does|can|may)|"
                 r"neither (?:is|are|has|have|do|does|can|may)|"
                 r"nor (?:is|are|has|have|do|does|can|may))\b",
         "and so is the driver", "the driver is GPL, too"),
    Kind("genitive", r"\bof (?:the |its |this )?\w+'s(?=[.,;:)]|\s(?:and|or)\b)",
         "a ring of the driver's", "the driver's ring"),
    Kind("old", r"\b(?:by and by|in quiet|in peace|at the earliest|to the "
                r"letter|of its own accord|by itself|parted from|for good)\b",
         "faults in quiet", "faults without other load"),
)

# Folder or file: the places that are counted together.
SUFFIXES = (".md", ".rst", ".txt", ".1", ".3", ".7", ".h", ".c", ".py", ".in",
            ".sh", ".lua", "trace-events")


def help_text():
    """The text above, with the kinds."""
    lines = [f"  {kind.name:10} {kind.instead:35} {kind.better}"
             for kind in KINDS]
    return __doc__.format(examples="\n".join(lines), ceilings=CEILINGS)


# ---- Texts -------------------------------------------------------------------


def blank(text):
    """Spaces in place of a text, with the text's line ends."""
    return re.sub(r"[^\n]", " ", text)


def prose_of_c(text):
    """Comments and strings; all else is blank."""
    out, end = [], 0
    for match in re.finditer(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', text,
                             re.DOTALL):
        out += [blank(text[end:match.start()]), match[0]]
        end = match.end()
    return re.sub(r"(?m)^([ \t]*)\*(?!/)", r"\1 ", "".join(out))


def python_spans(text):
    """(start, end) of each comment and string.  Python 3.12 and later have tokens for
    the parts of an f-string: all from its start to its end is the string, as before."""
    opens = getattr(tokenize, "FSTRING_START", None)
    closes = getattr(tokenize, "FSTRING_END", None)
    starts = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == opens:
            starts.append(token.start)
        elif token.type == closes:
            start = starts.pop()
            if not starts:
                yield start, token.end
        elif token.type in (tokenize.COMMENT, tokenize.STRING) and not starts:
            yield token.start, token.end


def prose_of_python(text):
    """Comments and strings of Python."""
    lines = text.split("\n")
    kept = [[" "] * len(line) for line in lines]
    for (row, column), (last, end) in python_spans(text):
        for number in range(row, last + 1):
            line = lines[number - 1]
            first = column if number == row else 0
            stop = end if number == last else len(line)
            kept[number - 1][first:stop] = line[first:stop]
    # Names of variables in braces are no words.
    return re.sub(r"\{[^{}\n]*\}", lambda m: blank(m[0]),
                  "\n".join("".join(line) for line in kept))


def prose(path, text):
    """The part of a file that people read as sentences."""
    if path.endswith((".c", ".h")):
        return prose_of_c(text)
    first = text.partition("\n")[0]
    if path.endswith(".py") or (first.startswith("#!") and "python" in first):
        try:
            return prose_of_python(text)
        except (tokenize.TokenError, IndentationError):
            return text
    # Literals name things as they are.
    return re.sub(r"``[^`]*``|`[^`\n]*`", lambda m: blank(m[0]), text)


def is_question(text, start):
    """Is the sentence behind this place a question?"""
    end = re.compile(r"[.;:!?](?=\s|[\"')]|$)|\n\s*\n").search(text, start)
    return bool(end) and end[0] == "?"


def hits(path, text):
    """(line, kind) of each phrase."""
    text = prose(path, text)
    for kind in KINDS:
        pattern = kind.pattern.replace(" ", r"[\s#*]+")
        for match in re.finditer(pattern, text, re.IGNORECASE):
            if kind.name in ("what", "who") and is_question(text, match.end()):
                continue
            if kind.name == "who" and re.search(
                    rf"\b(?:{PERSONS})[\s#*]+$", text[:match.start()][-40:],
                    re.IGNORECASE):
                continue
            yield text.count("\n", 0, match.start()) + 1, kind.name


# ---- Folders -----------------------------------------------------------------


def files_of(base, place):
    """The texts of a folder, or the file."""
    done = subprocess.run(["git", "-C", base, "ls-files", "-co",
                           "--exclude-standard", "--", place],
                          stdout=subprocess.PIPE, text=True, check=False)
    for name in sorted(set(done.stdout.splitlines())):
        path = os.path.join(base, name)
        if name in (CEILINGS, *OWN) or \
                not os.path.isfile(path):
            continue
        if name.endswith(SUFFIXES):
            yield name
        elif "." not in os.path.basename(name):
            with open(path, "rb") as file:
                if file.read(2) == b"#!":
                    yield name


def find(base, place):
    """[(file, line, kind)] of a folder."""
    found = []
    for name in files_of(base, place):
        with open(os.path.join(base, name), encoding="utf-8",
                  errors="replace") as file:
            found += [(name, line, kind)
                      for line, kind in sorted(hits(name, file.read()))]
    return found


def read_ceilings(base):
    """({folder: ceiling}, [line])"""
    ceilings, lines = {}, []
    with open(os.path.join(base, CEILINGS), encoding="utf-8") as file:
        for line in file.read().splitlines():
            lines.append(line)
            if line.strip() and not line.startswith("#"):
                place, number = line.split()
                ceilings[place] = int(number)
    return ceilings, lines


def check(base):
    """Returns ([line for a count above its ceiling], {folder: lower count})."""
    ceilings, _ = read_ceilings(base)
    above, below = [], {}
    for place, ceiling in ceilings.items():
        found = find(base, place)
        if len(found) > ceiling:
            above.append(
                f"{place}: {len(found)} phrases, the ceiling is {ceiling}: "
                f"scripts/unetmm_tools/run check.words --list {place} shows them, --help says "
                "how to write such sentences")
        elif len(found) < ceiling:
            below[place] = len(found)
    return above, below


def lower(base):
    """Writes the counts that are below their ceilings."""
    _, below = check(base)
    _, lines = read_ceilings(base)
    with open(os.path.join(base, CEILINGS), "w", encoding="utf-8") as file:
        for line in lines:
            place = line.split()[0] if line.strip() else ""
            file.write((f"{place} {below[place]}" if place in below else line)
                       + "\n")


def main():
    """Returns 1 if a folder is above its ceiling."""
    parser = argparse.ArgumentParser(
        description=help_text(),
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", metavar="PLACE",
                        help="list the phrases of a folder or file, by line")
    parser.add_argument("--lower", action="store_true",
                        help="write lower ceilings where there are fewer")
    parser.add_argument("--base", default=REPO, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.list:
        found = find(options.base, options.list)
        for name, line, kind in found:
            with open(os.path.join(options.base, name), encoding="utf-8",
                      errors="replace") as file:
                text = file.read().split("\n")[line - 1].strip()
            print(f"{name}:{line}: {kind}: {text[:100]}")
        print(f"{len(found)} phrases")
        return 0
    if options.lower:
        lower(options.base)
        return 0
    above, below = check(options.base)
    for line in above:
        print(line)
    for place, number in below.items():
        print(f"{place}: only {number} phrases are left: lower the ceiling by "
              "scripts/unetmm_tools/run check.words --lower")
    return 1 if above else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        sys.exit(1)
