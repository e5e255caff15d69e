# SPDX-License-Identifier: GPL-2.0-or-later
"""Do the tests and functions exist that the documents name?

Prints one line for each error, and nothing if there is none.  The documents are
those in docs/, README.md, CONTRIBUTING.md and the manual pages.  Names of tests
are

    test_FILE.TEST         TEST(TEST, ...) or TEST_OF(TEST, ...) in tests/core/ROOM/test_FILE.c
    /unetmm/GROUP/TEST     in a program of tests/qtest
    unetmm-FILE.TEST       in a part of qos-test, tests/qtest/unetmm-FILE.c
    PROGRAM.TEST           TEST(TEST, ...) with _ for -, or a macro like it, or TEST_NAMED("TEST", ...),
                           in tests/guest/SUBJECT/PROGRAM.c
    fuzz-NAME              tests/fuzz/fuzz-NAME.c

and [ROOM/]FILE.c: FUNCTION(), also behind hw/net/unetmm/, guest-driver/ or guest-lib/src/,
is a function defined there.  FUNCTION(), UNETMM_MACRO, FI_UNETMM_PARAMETER, a file, and
the options of a command have to be in the sources.  No document has the number
of a line, which the next change makes false.  Files that comments of C sources name
exist, too.  Besides: the card's assertions are those that docs/security.rst lists, tests/guest/driver/abi.c knows each
member of the driver's structures that is to be zero, tests/guest/driver/ioctls.c makes each call, the card's sources
are those of the specification, the figures of docs/lockstep.rst are the pinned
ones, and README.md is short enough to be read.
"""

import collections
import fnmatch
import functools
import glob
import json
import os
import re
import sys

from unetmm_tools import REPO

PLACES = ("hw/net/unetmm", "guest-driver", "guest-lib/src", "guest-lib")
UAPI = "guest-driver/uapi/linux/unetmm.h"
ABI = "tests/guest/driver/abi.c"
IOCTLS = "tests/guest/driver/ioctls.c"
LISTS = "hw/net/unetmm/abi/unetmm_lists.h"
SPEC = "docs/specs/unetmm.rst"
README_LINES = 150
LOCKSTEP = "docs/lockstep.rst"
PINNED = "tests/lockstep/figures.json"
# Functions of Linux and libraries that the documents name and our sources do not
FOREIGN = {"always", "copy_present_page", "dma_iova_link", "dma_iova_unlink",
           "dma_map_sgtable", "fi_cancel", "get_user_pages",
           "invalidate_range_end", "invalidate_range_start", "iommu_unmap_fast",
           "pin_user_pages", "enable_testing", "process_mrelease", "remap_pfn_range", "__schedule",
           "task_work_add", "vma_link"}
# Files of others, of the cache, and the results of an example
ELSEWHERE = {"/etc/hpccinf.txt", "CMakeLists.txt", "fuzz/coverage.json", "fuzz/runs.json", "tools/testing/selftests", "out.json", "card.trace", "driver.trace",
             "solution.patch", "qom/object.c", "osdep.h",
             "Documentation/userspace-api/ioctl/ioctl-number.rst"}
SOURCE = re.compile(r"\.(c|h|py|sh|lua|in|cdef|map|fragment|pml|patch)$|/run$|"
                    r"(^|/)(meson\.build|meson_options\.txt|Kbuild|Kconfig|Makefile|"
                    r"init|trace-events|rules)$|^scripts/[\w-]+$|^\.ci/")

LITERAL = re.compile(r"``?([^`]+)``?")
DEFINITION = re.compile(r"^[A-Za-z][^;{}()=]*?[\s*](\w+)\([^;{}]*\)\n\{",
                        re.MULTILINE)
ENDINGS = ("c", "h", "rst", "md", "py", "tsv", "lua", "json", "pml", "trace",
           "patch", "txt", "sh")
LINE_NUMBER = re.compile(rf"\b[\w/-]+\.(?:{'|'.join(ENDINGS)}):\d+")
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


def read_all(pattern):
    """The files of a pattern, one after the other."""
    return "".join(read(path) for path in sorted(glob.glob(pattern, root_dir=REPO)))


@functools.cache
def files():
    """All files of the repository."""
    found = []
    for directory, folders, names in os.walk(REPO):
        leave = {".git", "__pycache__", *(["build"] if directory == REPO else ())}
        folders[:] = [name for name in folders if name not in leave]
        found += [os.path.relpath(os.path.join(directory, name), REPO)
                  for name in names]
    return sorted(found)


@functools.cache
def pages():
    """All documents."""
    return [name for name in files() if re.match(
        r"docs/.*\.(rst|md)$|(README|CONTRIBUTING)\.md$|guest-lib/man/.*\.\d$", name)]


@functools.cache
def sources(pattern=""):
    """The text of all source files whose name has a match."""
    return "\n".join(read(name) for name in files()
                     if SOURCE.search(name) and re.search(pattern, name))


@functools.cache
def words():
    """All words of the sources."""
    return set(re.findall(r"\w+", sources()))


# Pages about the product's code: a test's function of the same name is another one.
PRODUCT = {f"docs/{name}.rst": "^(hw|guest-driver|guest-lib)/"
           for name in ("rooms", "driver", "library-rooms")}


@functools.cache
def called(pattern=""):
    """All words before a parenthesis in these sources: functions, and macros like them."""
    text = sources(pattern)
    return set(re.findall(r"\b(\w+)\s*\(", text) +
               re.findall(r"(?m)^TEST(?:_OF)?\((\w+)", text))


@functools.cache
def endings_of_paths():
    """All files, from any of their folders on."""
    return {"/".join(path.split("/")[first:]) for path in files()
            for first in range(path.count("/") + 1)}


def has(pattern, text):
    """Is there a match?"""
    return re.search(pattern, text) is not None


def is_core_test(name):
    """test_FILE.TEST"""
    match = re.fullmatch(r"(test_\w+)\.(\w{3,})", name)
    if not match:
        return None
    text = read_all(f"tests/core/*/{match[1]}.c")
    return has(rf"(?m)^TEST(?:_OF)?\({match[2]}\b", text)


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
    if not match or match[2] in ENDINGS:
        return None
    text = read_all(f"tests/guest/*/{match[1]}.c")
    if not text:
        return None
    if match[1] == "kinds":
        kind = match[2].partition(".")[0]
        return f"KIND({kind}," in read("tests/guest/memory/kinds.h")
    function = re.escape(match[2].replace("-", "_"))
    return has(rf'(?m)^\w+\((?:{function}|"{re.escape(match[2])}"),', text)


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
                         r"((?:\w+/)*\w+\.c): (\w+)\(\)", name)
    if not match:
        return None
    return any(match[3] in functions_of(f"{place}/{match[2]}")
               for place in ([match[1]] if match[1] else PLACES))


def is_file(name):
    """PATH/FILE.ENDING, from any folder on, or a pattern of such names."""
    if not re.fullmatch(rf"[\w./*-]+\.({'|'.join(ENDINGS)})", name) or \
            name in ELSEWHERE or "NAME" in name or re.match(r"\.|\W*/", name):
        return None
    return name in endings_of_paths() or "*" in name and any(
        fnmatch.fnmatch(path, name) for path in endings_of_paths())


KINDS = (is_core_test, is_program_test, is_qos_test, is_guest_test,
         is_fuzz_target, is_function, is_file)


def check_names(page):
    """Names on a page that look like one of ours and are not there."""
    names = {" ".join(name.split()) for name in LITERAL.findall(read(page))}
    for name in sorted(names):
        verdicts = [kind(name) for kind in KINDS]
        if False in verdicts and True not in verdicts:
            yield f"{page}: there is no {name}"


def is_word(name):
    """A word of the sources; NAME_ and NAME_* stand for all that begin so."""
    if name.endswith(("_", "*")):
        return any(word.startswith(name.rstrip("*")) for word in words())
    if name.startswith("FI_UNETMM_"):
        name = name.removeprefix("FI_UNETMM_").lower()
        return f'"{name}"' in sources("^guest-lib/provider/")
    return name in words()


def check_words(page):
    """Macros, functions, files and lines in a page's text."""
    text = re.sub(r"\\f[BIRP]", "", read(page)).replace("\\-", "-")
    text = re.sub(r"(?m)^\.TH .*$", "", text)
    for name in sorted(set(re.findall(r"\b(?:FI_)?UNETMM_[A-Z0-9_]+\b\*?", text))):
        if not is_word(name):
            yield f"{page}: there is no {name}"
    # In the text, or a frame of gdb's
    for name in sorted(set(re.findall(r"\b(\w+)\(\)", text) + re.findall(
            r"(?m)^ +#\d+ +(\w+) \(", text)) - called(PRODUCT.get(page, "")) - FOREIGN):
        yield f"{page}: there is no {name}()"
    for name in sorted(set(re.findall(
            r"(?<![\w./-])(?:docs|hw|guest-driver|guest-lib|scripts|tests|tools|debian)"
            r"/[\w./*-]*[\w*]", text))):
        if not glob.glob(os.path.join(REPO, name) + "*") and \
                "NAME" not in name and name not in ELSEWHERE:
            yield f"{page}: there is no {name}"
    for name in sorted(set(LINE_NUMBER.findall(text))):
        yield f"{page}: {name} is out of date with the next change; name a function"


# Where the options of a command are: its own file, and all that may parse them.
COMMANDS = ((r"scripts/[\w-]+", r"^scripts/"),
            (r"(?:tests|docs)(?:/\w+)+/run", r"^((tests|docs)/.*/run|scripts/unetmm_tools/course/.*)$"),
            (r"unetmm-[a-z]+", r"^guest-lib/tools/"))
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]+")


def check_options(page):
    """Options in examples of our commands."""
    for line in read(page).replace("\\-", "-").split("\n"):
        for command, place in COMMANDS:
            # Behind -- they are QEMU's, or another program's.
            for call in re.findall(rf"(?:^|[\s`(]){command}((?: +[^\s`|;&)]+)*)", line):
                for name in OPTION.findall(re.split(r" -- |#", call)[0]):
                    if name.removeprefix("--") not in sources(place):
                        yield f"{page}: no command there has {name}: {line.strip()}"


def check_assertions(page="docs/security.rst"):
    """The card's assertions against the page's table."""
    listed = collections.Counter()
    for name, count in re.findall(r"\* - ``([\w/]+\.c: \w+)\(\)``\n\s+- (\d+)",
                                  read(page)):
        listed[name] = int(count)
    found = collections.Counter()
    card = os.path.join(REPO, "hw/net/unetmm")
    for path in sorted(glob.glob(os.path.join(card, "**/*.c"), recursive=True)):
        name = os.path.relpath(path, card)
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
    for name in re.findall(r"#define UNETMM_IOC_(\w+)\s+_IO\(", read(UAPI)):
        if f"FORM({name}," not in read(IOCTLS):
            yield f"{IOCTLS}: does not make the call {name}"


def sources_of_card():
    """The fixed sources, those that the driver brings pages for."""
    found = (set(), set())
    text = read(LISTS)
    text = text[text.index("define UNETMM_SOURCES"):text.index("define UNETMM_POLICIES")]
    for name in re.findall(r"\b[CS]\(\d+, \w+, (\w+),", text):
        text = read(f"hw/net/unetmm/source/{name}.c")
        found[has(r"\.driver_brings = true", text)].add(name)
    return found


def check_sources():
    """Are the lists of sources the same?"""
    for kind, names in zip(("Fixed", "Brought"), sources_of_card()):
        listed = re.search(rf"^{kind} sources: ([^.]*)\.", read(SPEC),
                           re.MULTILINE)
        if not listed or set(re.findall(r"``(\w+)``", listed[1])) != names:
            yield (f"{SPEC}: the {kind.lower()} sources are "
                   f"{', '.join(sorted(names))}")


def check_figures():
    """Does the page have the figures that scripts/bench --virtual is compared with?"""
    pinned = json.loads(read(PINNED))["figures"]
    rows = re.findall(r"^  unetmm +(\w+) +(\d+) +([\d.]+) +([\d.]+) ", read(LOCKSTEP), re.M)
    if not rows:
        yield f"{LOCKSTEP}: no row of figures is understood"
    for mode, size, *shown in rows:
        name = f"unetmm {mode} latency {size}"
        known = [f"{pinned.get(key, 0):.2f}" for key in (name, f"{name}, p99")]
        if shown != known:
            yield (f"{LOCKSTEP}: {mode}, {size} bytes: {' and '.join(shown)} where {PINNED} "
                   f"has {' and '.join(known)}")


def check_readme():
    """Errors of the front page."""
    lines = len(read("README.md").splitlines())
    if lines > README_LINES:
        yield (f"README.md: {lines} lines; move text to docs/ until there are "
               f"{README_LINES}")


def check_comments():
    """Do the files exist that comments of our C sources name?"""
    known = endings_of_paths()
    for path in files():
        if not re.match(r"(hw|guest-driver|guest-lib|tests|tools)/.*\.[ch]$", path):
            continue
        for comment in re.findall(r"/\*.*?\*/", read(path), re.DOTALL):
            for name in re.findall(r"(?<![\w/.<-])([\w/-]+\.(?:c|h|py|rst|md|sh|txt))\b(?!\()",
                                   comment):
                if name not in known and "NAME" not in name and name not in ELSEWHERE:
                    yield f"{path}: a comment names {name}, which does not exist"


def main():
    """1 if something is wrong."""
    wrong = [*(line for page in pages()
               for check in (check_names, check_words, check_options)
               for line in check(page)),
             *check_assertions(), *check_abi(), *check_sources(),
             *check_comments(), *check_figures(), *check_readme()]
    for line in wrong:
        print(line)
    names = sum(len(LITERAL.findall(read(page))) for page in pages())
    print(f"{len(pages())} pages with {names} names, {len(wrong)} of them wrong")
    return 1 if wrong or not names else 0


if __name__ == "__main__":
    sys.exit(main())
