# SPDX-License-Identifier: GPL-2.0-or-later
"""Has clang read each C file of the project as the build does, with all its warnings as
errors.  The build itself is another compiler's.

usage: scripts/unetmm_tools/run build.clang BUILD [SOURCE]
       scripts/unetmm_tools/run build.clang BUILD --include DIR FOLDER...

BUILD is a build directory whose generated headers are up to date.  In
QEMU's, SOURCE is the tree with copies of our files; ours are read in place of these.
With --include the files of the FOLDERs are read, and headers of DIR go before the
system's: those of another release of a library.

A file that has passed is read again only if the file, a header or its command has
changed.
"""
import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import sys

from unetmm_tools import REPO
from unetmm_tools.build import passed

# Options for the code, of which older releases of clang lack some, and those that name
# the compiler's other files
DROPPED = re.compile(r"-ffixed-.*|-flive-range-shrinkage|-fzero-call-used-regs=.*|"
                     r"-ftrivial-auto-var-init=.*|-M.*|-o|-c")
WITH_VALUE = {"-o", "-MF", "-MQ", "-MT"}
# Names of gcc's warnings are no fault of a file.
OWN = ["-Werror", "-Wno-unknown-warning-option", "-fsyntax-only",
       "-fno-color-diagnostics"]


def tracked(*patterns):
    """The project's files."""
    done = subprocess.run(["git", "-C", REPO, "ls-files", "-co", "--exclude-standard",
                           *patterns], stdout=subprocess.PIPE, text=True, check=True)
    return [name for name in sorted(set(done.stdout.splitlines()))
            if os.path.isfile(os.path.join(REPO, name))]


def shared_state():
    """A name for all that any file may include, and for the compiler."""
    sources = tracked("*.c")
    included = set()
    for name in sources:
        with open(os.path.join(REPO, name), encoding="utf-8") as file:
            included |= {os.path.basename(path) for path in re.findall(
                r'^#include "([^"]*\.c)"', file.read(), re.M)}
    version = subprocess.run(["clang", "--version"], stdout=subprocess.PIPE, text=True,
                             check=True).stdout
    return passed.key_of([version], tracked("*.h", "*trace-events", "*.[1-9]") + [
        name for name in sources if os.path.basename(name) in included], REPO)


def arguments(command):
    """The words of a compiler's command that are the preprocessor's and the language's."""
    words = shlex.split(command)
    while not words[0].startswith("-"):     # ccache, the compiler
        words.pop(0)
    kept, skip = [], False
    for word in words:
        if skip or DROPPED.fullmatch(word):
            skip = not skip and word in WITH_VALUE
        else:
            kept.append(word)
    return kept


def jobs(build, source):
    """{our file: the words of its command}: the first of each, since a file is compiled
    again for another kind of program, not by other rules."""
    found = {}
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        for entry in json.load(file):
            path = os.path.realpath(os.path.join(entry["directory"], entry["file"]))
            name = os.path.relpath(path, source)
            if not name.endswith(".c") or name.startswith("..") or \
                    not os.path.isfile(os.path.join(REPO, name)):
                continue
            words = [word for word in arguments(entry["command"])
                     if word != entry["file"]]
            found.setdefault(name, words)
    return found


def read(build, name, words, state):
    """The complaints of clang about a file; none if it has passed before."""
    # Without the way to this clone, which other clones do not have
    way = os.path.relpath(REPO, os.path.realpath(build))
    key = passed.key_of([state, "silent", *OWN, *(word.replace(way, "") for word in words)],
                        [name], REPO)
    if passed.has(key):
        return ""
    done = subprocess.run(["clang", "-iquote", REPO, *words, *OWN,
                           os.path.join(REPO, name)], cwd=build, text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    # A macro's own warning is no error to clang, even with -Werror.
    if done.returncode == 0 and not done.stdout:
        passed.add(key)
        return ""
    return f"{done.stdout}{name}: clang ends with {done.returncode}\n"


def main():
    """Prints all warnings; returns 1 if there is one."""
    build, *words = sys.argv[1:]
    include, folders = (words[1], tuple(words[2:])) if words[:1] == ["--include"] else ("", "")
    source = os.path.realpath(words[0] if words and not include else REPO)
    state = shared_state()
    work = {name: [*options, "-I", include] if include else options
            for name, options in jobs(build, source).items() if name.startswith(folders)}
    if not work:
        sys.exit(f"error: {build} has no commands for files of {source}")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        running = [pool.submit(read, build, name, words, state)
                   for name, words in work.items()]
        said = "".join(result.result() for result in running)
    print(said, end="")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
