# SPDX-License-Identifier: GPL-2.0-or-later
"""The stage style: checkers over the sources."""

import collections
import os
import re
import shutil
import time

from unetmm_tools import REPO, SCRIPTS
from unetmm_tools.build import passed
from unetmm_tools.check.runner import (FAIL, PASS, RUN, Result, if_changed, lib_shell, one, run,
                                       shell_test, shown, side_by_side, tracked)

# Names and parts of words in the sources that codespell takes for misspelt words
SPELT_SO = "filp,bu,fro,whats,whos,ublished,caf,nd"


def missing_spdx():
    """Source files without a licence line."""
    bad = []
    for name in tracked("*.c", "*.h", "*.py", "*.sh", "*meson.build",
                        "scripts/*", "*.rst", "*.patch"):
        if name.endswith((".patch", ".md")):
            continue
        with open(os.path.join(REPO, name), encoding="utf-8",
                  errors="replace") as file:
            if "SPDX-License-Identifier" not in file.read(3000):
                bad.append(name)
    return bad


def python_files():
    """The project's Python, commands among it, whose first line names the language."""
    names = []
    for name in tracked():
        with open(os.path.join(REPO, name), "rb") as file:
            if name.endswith(".py") or re.match(rb"#!.*python", file.readline(100)):
                names.append(name)
    return names


def defined_twice():
    """Functions of unetmm_tools/build/*.sh that another file there defines, too: all.sh reads
    all of them, and the last one counts."""
    places = collections.defaultdict(list)
    for name in tracked("scripts/unetmm_tools/build/*.sh"):
        with open(os.path.join(REPO, name), encoding="utf-8") as file:
            for function in re.findall(r"^(\w+)\(\)", file.read(), re.M):
                places[function].append(name)
    return [f"{function}(): {', '.join(names)}"
            for function, names in sorted(places.items()) if len(names) > 1]


def wrong_modes():
    """Files with a line #! that cannot be executed, and the other way round.  meson's runner of
    tests does not end if it cannot start a test."""
    bad = []
    for name in tracked():
        path = os.path.join(REPO, name)
        if not os.path.islink(path):
            with open(path, "rb") as file:
                if (file.read(2) == b"#!") != os.access(path, os.X_OK):
                    bad.append(name)
    return bad


def fixed_machines():
    """Lines of scripts/ with a name that only one kind of host has; build/cache.sh has the names
    of the host that runs it."""
    names = re.compile(r"(x86_64|aarch64)-linux-gnu|[-=]amd64\b|ld-linux-(x86|aarch)")
    bad = []
    for name in tracked("scripts/*"):
        if name.endswith(("/build/cache.sh", "/check/style.py", ".patch")):
            continue
        with open(os.path.join(REPO, name), encoding="utf-8") as file:
            bad += [f"{name}:{number}: {line.strip()}" for number, line in enumerate(file, 1)
                    if names.search(line)]
    return bad


def licences_missing():
    """Licences that a file names and LICENSES/ does not have."""
    used = set()
    for name in tracked():
        with open(os.path.join(REPO, name), encoding="utf-8",
                  errors="replace") as file:
            for line in re.findall(r"SPDX-License-Identifier: ([^\n*>]+)",
                                   file.read(3000)):
                used |= set(re.findall(r"[A-Za-z][\w.+-]+", line))
    used -= {"OR", "AND", "WITH"}
    return sorted(name for name in used if not os.path.exists(
        os.path.join(REPO, "LICENSES", name + ".txt")))


def checkpatch(options, name, program, files, waivers):
    """A checkpatch over whole files, less docs/checkpatch-waivers.txt; over
    those that have changed since they passed, or with --long all."""
    command = ["perl", program, "--no-tree", "--terse", "--no-summary", "-f"]
    keys = {file: passed.key_of(waivers, [program, file], REPO)
            for file in files}
    changed = [file for file in files
               if options.long or not passed.has(keys[file])]
    start, bad = time.monotonic(), []
    # A busy machine gets further with the next run: some files at a time pass.
    for first in range(0, len(changed), 8):
        some = changed[first:first + 8]
        status, output = run([*command, *some], 300)
        found = [line for line in output.splitlines()
                 if re.search(r"(ERROR|WARNING|CHECK):", line) and
                 not any(re.search(w, line) for w in waivers)]
        # checkpatch ends with 1 if it has found anything; another status is an error of its own.
        if status not in (0, 1):
            found.append(f"{output}\nexit status {status}")
        for file in some if not found else ():
            passed.add(keys[file])
        bad += found
    return Result(name, FAIL if bad or not files else PASS,
                  time.monotonic() - start, "\n".join(bad),
                  shown([*command, *files]))


def read_waivers(kind):
    """Regular expressions in docs/checkpatch-waivers.txt for one checker."""
    with open(os.path.join(REPO, "docs", "checkpatch-waivers.txt"),
              encoding="utf-8") as file:
        return [line.split(None, 1)[1].strip() for line in file
                if line.startswith(kind + " ")]


def stage_style(options):
    """Checkers over the sources."""
    bad = missing_spdx()
    yield Result("every source file has an SPDX line", FAIL if bad else PASS,
                 0, "\n".join(bad), "grep -L SPDX-License-Identifier FILE")
    bad = defined_twice()
    yield Result("no function of unetmm_tools/build is defined twice", FAIL if bad else PASS,
                 0, "\n".join(bad), "grep -n '^NAME()' scripts/unetmm_tools/build/*.sh")
    bad = wrong_modes()
    yield Result("files with a line #! can be executed, and no others", FAIL if bad else PASS,
                 0, "\n".join(bad), "chmod +x FILE")
    bad = fixed_machines()
    yield Result("no script but build/cache.sh has a name of one kind of host",
                 FAIL if bad else PASS, 0, "\n".join(bad), "grep -rn x86_64-linux-gnu scripts")
    bad = licences_missing()
    yield Result("LICENSES has the text of each licence", FAIL if bad else
                 PASS, 0, "\n".join(bad), "grep -r SPDX-License-Identifier")
    qemu = lib_shell("qemu_tree")[0] + "/source/scripts/checkpatch.pl"
    kernel = lib_shell("kernel_source")[0] + "/scripts/checkpatch.pl"
    scripts = [f for f in tracked("scripts/*", "tests/guest/init", ".ci/run")
               if b"sh" in open(os.path.join(REPO, f), "rb").readline()
               or f.endswith(".sh")]
    yield from side_by_side([
        (checkpatch, options, "QEMU's checkpatch: the card and its qtests", qemu,
         tracked("hw/*.[ch]", "tests/qtest/*.[ch]"), read_waivers("qemu")),
        (checkpatch, options, "Linux's checkpatch: the driver", kernel,
         tracked("guest-driver/*.[ch]"), read_waivers("linux")),
        (if_changed, options, [*scripts, shutil.which("shellcheck")], one,
         "shellcheck: the scripts", ["shellcheck", "-x", *scripts], 1200),
        (one, "pyflakes: each Python name exists, and nothing hides an import",
         ["pyflakes3", *python_files()], 300, None, True),
        (one, "the specification's tables agree with the header",
         [os.path.join(SCRIPTS, "gen-spec-tables"), "--check"]),
        (one, "the tests, functions, files and options of the documents exist",
         [RUN, "check.documents"], 60),
        (one, "each command of a document has a test, or a reason is known",
         [RUN, "check.commands"], 60, None, True),
        (one, "the table of pools has all that users share",
         [RUN, "check.pools"], 60, None, True),
        (one, "the tests of all calls have a row for each call",
         [RUN, "check.calls"], 60),
        (one, "each mutant that is known to be equivalent is still one of its file",
         [os.path.join(REPO, "tests", "mutate", "run"), "--check"], 60),
        (one, "no C function has more than 60 lines",
         [RUN, "check.lengths"], 60),
        (one, "codespell: documents, manual pages, sources",
         [*lib_shell("codespell_command"), "--quiet-level", "3",
          "--ignore-words-list", SPELT_SO,
          *tracked("*.md", "*.rst", "*.txt", "*.[1-9chs]", "*.py", "*.sh",
                   "scripts/*")], 300, None, True),
        (one, "words: no folder has more phrases to avoid than its ceiling",
         [RUN, "check.words"]),
        *((one, f"layers: no room of the {tree} names anything of a higher one",
           [os.path.join(SCRIPTS, "layers"), "--tree", tree])
          for tree in ("card", "driver", "library", "scripts")),
        *((one, f"the picture of the {tree}'s rooms is of today",
           [os.path.join(SCRIPTS, "layers"), "--tree", tree, "--check-svg",
            f"docs/rooms-{tree}.svg"]) for tree in ("card", "driver", "library")),
        (one, "the figures in docs/figures are current",
         [os.path.join(SCRIPTS, "figures"), "--check"]),
        (one, "the libraries' binary interface is that of guest-lib/abi",
         [os.path.join(SCRIPTS, "abi")]),
        (one, "docs/tlb-simulation.md agrees with the TLB simulation",
         [os.path.join(SCRIPTS, "tlb-sim"), "--check"]),
        (shell_test, "upstream's tarball is taken if its SHA-256 is right",
         "check_qemu_release"),
        *((one, f"docutils: {page}", ["rst2html", "--halt=2", "--report=2",
                                      page, os.devnull])
          for page in tracked("docs/*.rst")
          # Its directives are Sphinx's; the stage docs reads it.
          if page != "docs/site/index.rst")])
    yield from shared_headers()


def shared_headers():
    """The headers that driver, library and card share, in their languages."""
    for name, compiler in (("C11", ["gcc", "-std=c11", "-x", "c"]),
                           ("C++17", ["g++", "-std=c++17", "-x", "c++"])):
        yield one(f"the shared headers are {name}",
                  [*compiler, "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
                   "-Iguest-driver/uapi", "-Ihw/net/unetmm/abi", "-include",
                   "linux/unetmm.h", "hw/net/unetmm/abi/unetmm_wire.h"])
