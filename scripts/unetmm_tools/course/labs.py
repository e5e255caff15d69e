# SPDX-License-Identifier: GPL-2.0-or-later
"""The labs of docs/labs and their tests.

A lab is one row of LABS: its test, the reason for which its starting point fails, and the files
that a student changes.
"""

import contextlib
import dataclasses
import glob
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile

from unetmm_tools import REPO

SCRIPTS = os.path.join(REPO, "scripts")
FOLDER = os.path.join(REPO, "docs", "labs")
# Of scripts/vm --qemu
QEMU = os.environ.get("UNETMM_QEMU") or "stock"
LIBRARY = ("guest-lib/include", "hw/net/unetmm/abi", "guest-driver/uapi")
CORE_FLAGS = ("-std=gnu11 -O1 -g -Wall -Wextra -Werror -Wno-unused-parameter "
              "-Wno-missing-field-initializers -DUNETMM_STANDALONE").split()
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
# A test that fails leaves its memory: the list of leaks would hide the reason.
NO_LEAKS = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0",
            "CMOCKA_MESSAGE_OUTPUT": "TAP"}
LIMIT = 300             # seconds of a program


class LabError(Exception):
    """The test could not be run; a sentence."""


def ran(command, limit=LIMIT, **more):
    """(exit status, output)"""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False,
                              timeout=limit, **more)
    except FileNotFoundError as error:
        raise LabError(f"there is no {command[0]}: scripts/setup packages "
                       "installs missing packages") from error
    except subprocess.TimeoutExpired as error:
        raise LabError(f"{command[0]} took more than {limit} s") from error
    return done.returncode, done.stdout


def built(target):
    """The directory of a target of scripts/setup, up to date."""
    # The standard error is not taken: it shows the steps as they come.
    done = subprocess.run([os.path.join(SCRIPTS, "setup"), "--paths", target],
                          stdout=subprocess.PIPE, text=True, check=False)
    found = re.search(rf"^{target}=(.*)$", done.stdout, re.M)
    if done.returncode or not found:
        raise LabError(f"scripts/setup {target} failed")
    return found[1]


def guest_built(qemu):
    """Makes the files of a guest: scripts/vm would make them without a word here."""
    for target in ("stock" if qemu == "stock" else "qemu", "initramfs-6.1"):
        built(target)


def packages(*names):
    """Flags of pkg-config: (for the compiler, for the linker)"""
    flags = []
    for kind in ("--cflags", "--libs"):
        status, text = ran(["pkg-config", kind, *names])
        if status:
            raise LabError(text)
        flags.append(text.split())
    return flags


def compiled(command):
    """Runs the compiler; its complaints are the test's failure."""
    status, text = ran(command)
    if status:
        raise AssertionError(text)


# Lines of the tests' own driver, and their meaning for a student
HINTS = {"# fake_poll(ep, &cqe)": "a completion has not come, as the card still waits for a page"}


def reported(status, text):
    """A program's TAP: fails as it does, with the name of the first test that failed."""
    print(text, end="")
    if status:
        failed = re.search(r"^not ok \d+ - (\w+)", text, re.M)
        hint = "".join(f": {means}" for line, means in HINTS.items() if failed and
                       line in text[failed.end():].split("ok ", 1)[0])
        raise AssertionError((f"the test {failed[1]} failed" if failed else
                              "the test failed") + hint)


# ---- The tests -------------------------------------------------------------


def debugged(program, function):
    """Replaces this program by gdb, which stops where the student's part begins."""
    os.execvpe("gdb", ["gdb", "-q", "-ex", f"break {function}", "-ex", "run", program], NO_LEAKS)


def core_lab(base, name, work, gdb=None):
    """A program with the card's core of the unit tests."""
    here = os.path.join(base, "docs", "labs", name)
    core = os.path.join(built("core"), "tests", "core")
    for_cc, for_ld = packages("glib-2.0", "cmocka")
    program = os.path.join(work, name)
    compiled(["gcc", *CORE_FLAGS, *SANITIZERS, "-DUNETMM_TELL_BARRIERS",
              f"-I{here}", f"-I{base}/hw/net/unetmm", f"-I{REPO}/tests/core",
              f"-I{core}", *for_cc, f"{here}/{name}.c", f"{here}/test.c",
              f"{core}/libunetmm_core_tests.a", "-o", program, *for_ld])
    if gdb:
        debugged(program, gdb)
    reported(*ran([program], env=NO_LEAKS))


def misses(program, replacement):
    """{program: capacity and conflict misses} with 256 entries in sets of four."""
    status, text = ran([program, "--ways", "4", "--replace", replacement])
    if status:
        raise AssertionError(f"--replace {replacement}: {text}")
    rows = [line.split("\t") for line in text.splitlines()[2:]]
    return {row[0]: int(row[6]) + int(row[7]) for row in rows
            if row[1] == "256"}


def restored(base, work):
    """A TLB with the replacement is saved and restored, as in a migration."""
    for_cc, for_ld = packages("glib-2.0")
    program = os.path.join(work, "restore")
    compiled(["gcc", *CORE_FLAGS, *SANITIZERS, f"-I{base}/hw/net/unetmm",
              f"-I{work}", *for_cc, f"{base}/docs/labs/evict/test.c",
              *glob.glob(f"{base}/hw/net/unetmm/tlb/*.c"),
              f"{base}/hw/net/unetmm/stream/stream.c", "-o", program, *for_ld])
    reported(*ran([program], env=NO_LEAKS))


def evict_lab(base, _name, work):
    """The TLB simulation with the tree's TLB."""
    sources = [f"{base}/tests/sim/{name}.c" for name in (
        "main", "sim", "mm", "sample", "radix", "sockets", "utlb")]
    library = os.path.join(built("library"), "guest-lib", "libunetmm.a")
    for_cc, for_ld = packages("glib-2.0")
    program = os.path.join(work, "tlb-sim")
    compiled([sys.executable, f"{REPO}/tests/core/trace-shim.py",
              f"{base}/hw/net/unetmm/trace-events", f"{work}/trace-unetmm.h"])
    compiled(["gcc", *CORE_FLAGS, "-O2", "-ftree-vectorize",
              f"-I{base}/hw/net/unetmm", f"-I{work}", f"-I{REPO}/tests/sim",
              *(f"-I{REPO}/{place}" for place in LIBRARY), *for_cc, *sources,
              *glob.glob(f"{base}/hw/net/unetmm/tlb/*.c"),
              f"{base}/hw/net/unetmm/stream/stream.c", library, "-lpthread",
              "-o", program, *for_ld])
    counts = {name: misses(program, name) for name in ("fifo", "lru", "clock")}
    for name, count in counts.items():
        print(f"# {name:6}", ", ".join(f"{k} {v}" for k, v in count.items()),
              f"- {sum(count.values())} in all")
    fifo, lru, clock = (counts[name] for name in ("fifo", "lru", "clock"))
    if sum(fifo.values()) != 4007 or sum(lru.values()) != 2899:
        raise AssertionError("fifo and lru miss as often as before: 4007, 2899")
    if clock in (fifo, lru):
        raise AssertionError("clock is fifo or lru under another name")
    if sum(clock.values()) >= sum(fifo.values()):
        raise AssertionError("clock misses less often than fifo in all")
    if clock["sockets"] > 1.1 * lru["sockets"]:
        raise AssertionError("sockets: clock is within a tenth of lru")
    restored(base, work)


def answers_of(path):
    """{name: value}"""
    with open(path, encoding="utf-8") as file:
        return dict(re.findall(r"^(\w+) *= *(.*?) *$", file.read(), re.M))


def number(text):
    """The value of a number, which students write in any base; other texts as they are."""
    try:
        return int(text or "", 0)
    except ValueError:
        return text


def expected_answers(samples, miss):
    """The answers, from the two traces."""
    with open(os.path.join(samples, "card.trace"), encoding="utf-8") as file:
        card = {kind: (float(when), rest) for when, kind, rest in re.findall(
            rf"@(\S+):unetmm_(miss|reply) (.*\bid {miss}\b.*)", file.read())}
    with open(os.path.join(samples, "driver.trace"), encoding="utf-8") as file:
        driver = file.read()
    begin, pins, end, reply = re.search(
        rf" (\S+): unetmm_miss: \S+ \S+ id={miss} .*\n((?:.*unetmm_pin.*\n)*)"
        rf".*unetmm_command.*\n.* (\S+): unetmm_reply: (.*)", driver).groups()
    flags = int(re.search(r"flags (\S+)", card["miss"][1])[1], 0)
    return {
        "owner": "buffer" if flags & 1 else "send",
        "pages": re.search(r"npages (\d+)", card["miss"][1])[1],
        "card_us": f"{1e6 * (card['reply'][0] - card['miss'][0]):.0f}",
        "driver_us": f"{1e6 * (float(end) - float(begin)):.0f}",
        "first_pfn": re.search(r"pfn=(\S+)", pins)[1],
        "tag": re.search(r"tag=(\S+)", reply)[1],
    }


def callers(base):
    """Functions that ask for a missing page of a free buffer."""
    with open(f"{base}/hw/net/unetmm/recv/head.c", encoding="utf-8") as file:
        text = file.read()
    return [name for name, body in re.findall(
        r"^(?:static )?[\w ]+[ *](\w+)\([^;{]*\)\n\{(.*?)^\}", text,
        re.M | re.S) if "unetmm_miss_want(" in body]


def miss_lab(base, name, _work, guest=False):
    """The answers of answers.txt."""
    given = answers_of(os.path.join(base, "docs", "labs", name, "answers.txt"))
    wanted = expected_answers(os.path.join(base, "tests", "tools", "samples"),
                              "0x40024")
    wrong = [key for key, value in wanted.items() if number(given.get(key)) != number(value)]
    if given.get("function") not in callers(base):
        wrong.append("function")
    if wrong:
        raise AssertionError("answers.txt: not right: " + ", ".join(wrong))
    if guest:
        guest_built("built")
        _, text = ran([os.path.join(SCRIPTS, "debug"), "--at", "tlb-miss",
                       "--if", "miss->owner->write", "--batch", "-e", "bt 3"])
        if not re.search(rf"\b{given['function']}\b", text):
            raise AssertionError(f"gdb shows another function:\n{text}")


def mailbox_lab(base, name, work, guest=True):
    """A program in a guest."""
    here = os.path.join(base, "docs", "labs", name)
    root = os.path.join(work, "root")
    os.makedirs(root)
    library = os.path.join(built("library"), "guest-lib", "libunetmm.a")
    compiled(["gcc", "-O1", "-g", "-Wall", "-Wextra", "-Werror", f"-I{here}",
              *(f"-I{REPO}/{place}" for place in LIBRARY), f"{here}/{name}.c",
              f"{here}/test.c", library, "-lpthread", "-o", f"{root}/mailbox"])
    if not guest:
        return
    guest_built(QEMU)
    with open(f"{work}/files.cpio", "wb") as file:
        subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=root,
                       input=b"mailbox\n", stdout=file, check=True)
    with open(f"{work}/script", "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n/mailbox\n")
    os.chmod(f"{work}/script", 0o755)
    _, text = ran([os.path.join(SCRIPTS, "vm"), "--netdev", "none", "--qemu", QEMU,
                   "--overlay", f"{work}/files.cpio", "--run", f"{work}/script",
                   "--results", f"{work}/results"], stdin=subprocess.DEVNULL)
    if not os.path.exists(f"{work}/results"):
        raise LabError(text)
    with open(f"{work}/results", encoding="utf-8") as file:
        result = file.read()
    reported(0 if re.search(r"^ok 1 ", result, re.M) else 1, result)


# ---- The table --------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Lab:
    """A lab."""
    test: object            # called with (root of the tree, name of the lab, working directory)
    start: str              # part of the reason for which the test fails at the starting point
    files: tuple            # that a student changes, from the root; a folder ends with "/"
    function: str = None    # a function that the student writes: gdb stops there
    guest: bool = False     # the test takes `guest`: with the parts in a guest?


LABS = {
    "miss": Lab(miss_lab, "not right: owner, pages", ("docs/labs/miss/answers.txt",), guest=True),
    "pin": Lab(core_lab, "the test a_send_from_one_page failed", ("docs/labs/pin/pin.c",),
               "driver_fault"),
    "evict": Lab(evict_lab, "there is no replacement clock",
                 ("hw/net/unetmm/tlb/", "hw/net/unetmm/sources.txt")),
    "fault": Lab(core_lab, "the test drop_loses_a_burst failed", ("docs/labs/fault/fault.c",),
                 "measure"),
    "policy": Lab(core_lab, "the test short_messages_all_arrive failed",
                  ("docs/labs/policy/policy.c",), "courier_absent"),
    "mailbox": Lab(mailbox_lab, "the test failed", ("docs/labs/mailbox/mailbox.c",), guest=True),
}


def outcome(name, base, work, **more):
    """The reason for which the lab's test fails on the tree at `base`; None if it passes."""
    try:
        LABS[name].test(base, name, tempfile.mkdtemp(dir=work), **more)
    except AssertionError as error:
        return str(error)
    return None


def silent(name, base, work, **more):
    """(reason as of outcome(), the output of the test)"""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        wrong = outcome(name, base, work, **more)
    return wrong, said.getvalue()


# A copy of the tree has these: the files of the labs, and those that their tests compile.
COPIED = ("docs/labs", "hw/net/unetmm", "tests/sim", "tests/tools/samples")


def copy(work):
    """Copies the parts of the tree that labs change; returns the root of the copy."""
    base = os.path.join(work, "tree")
    for place in COPIED:
        shutil.copytree(os.path.join(REPO, place), os.path.join(base, place))
    return base


def may_change(name, path):
    """Is the file, named from the root of the tree, one that students change in that lab?"""
    return any(path == place or (place.endswith("/") and path.startswith(place))
               for place in LABS[name].files)
