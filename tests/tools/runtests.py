# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests of scripts/run, for tests/tools/run."""

import json
import os
import re
import subprocess
import types
from unittest import mock

from unetmm_tools import SCRIPTS
from unetmm_tools.check.taptests import require
from unetmm_tools.guest import run, vm

LIMIT = 300
# Guest b waits for the file that this program leaves.
C_SOURCE = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <libunetmm.h>

int main(int argc, char **argv)
{
    struct unetmm_ctx *ctx;
    FILE *file = fopen("written", "w");

    printf("%s %s %s %d\\n", getenv("GUEST"), getenv("PEER"), argv[1],
           unetmm_open(NULL, UNETMM_SOURCE_TLB, &ctx));
    fflush(stdout);
    fputs("by a\\n", file);
    fclose(file);
    return rename("written", "of-a") + pause() + argc;
}
"""
PYTHON_SOURCE = """
import os, sys, unetmm
with unetmm.Context():
    os.mkdir("sub")
    open("sub/bytes", "wb").write(bytes(range(256)) * 100)
    print(sys.argv[1:], os.environ["MORE"])
sys.exit(3)
"""


def started(directory, *arguments):
    """The ended process of scripts/run in a directory."""
    return subprocess.run([os.path.join(SCRIPTS, "run"), *arguments], cwd=directory, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT,
                          check=False)


def write(directory, name, text):
    """A file."""
    with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
        file.write(text)


def run_mistakes(directory):
    """run: mistakes are answered in one sentence, before a guest is booted"""
    write(directory, "bad.c", "#error no\n")
    write(directory, "mine.py", PYTHON_SOURCE)
    for arguments, words in (
            ([], "scripts/run -- ./mine"), (["--"], "scripts/run -- ./mine"),
            (["--", "true", "--"], "scripts/run -- ./mine"),
            (["--fast", "--", "true"], "--help"),
            (["--guests", "9", "--", "true"], "1 to 8"),
            (["--guests", "3", "--", "true", "--", "true"], "2 commands"),
            (["--inject", "lose=1", "--", "true"], "loss"),
            (["--inject", "loss", "--", "true"], "loss=0.01"),
            (["--inject", "loss=2", "--", "true"], "0 to 1"),
            (["--share", "none", "--", "true"], "none is no folder"),
            (["--share", ".", "--kernel", "debug", "--", "true"], "9p"),
            (["--share", ".", "--virtual", "--", "true"], "host's time"),
            (["--env", "x", "--", "true"], "NAME=VALUE"),
            (["--timeout", "0", "--", "true"], "0 seconds"),
            (["--virtual", "--", "./mine.py"], "programs of the guest"),
            (["--device-opts", "tlb-setz=4", "--", "true"], "tlb-setz"),
            (["--", "./bad.c"], "./bad.c does not compile")):
        done = started(directory, *arguments)
        last = done.stderr.splitlines()[-1]
        require(done.returncode == run.FAILED and last.startswith("error: ") and words in last,
                f"{arguments}: {done}")
    for arguments, words in (["--json", "--fast", "--", "true"], "--help"), \
            (["--json", "--", "./bad.c"], "./bad.c does not compile"), \
            (["--json", "--guests", "2", "--", "true", "--", "true", "--", "true"], "3 commands"):
        found = json.loads(started(directory, *arguments).stdout)
        require(found["status"] == run.FAILED and words in found["reason"] and
                found["guests"] == [], f"{arguments}: {found}")


def run_names(directory):
    """run: two C sources of one name are two programs"""
    for status in 3, 4:
        os.mkdir(os.path.join(directory, str(status)))
        write(directory, f"{status}/mine.c", f"int main(void) {{ return {status}; }}\n")
    files = {}
    texts = [run.command_text([os.path.join(directory, f"{status}/mine.c")], f"place/{status}",
                              files, directory) for status in (3, 4)]
    for status, text in zip((3, 4), texts):
        program = files[text.strip().removeprefix("/")]
        done = subprocess.run([program], check=False)
        require(done.returncode == status, f"{program}: {done}")


def run_sentences(directory):
    """run: the reason of a failure, by the console, the status or the end of QEMU"""
    def found(status, console="", running=True, said=""):
        guest = types.SimpleNamespace(name="a", console=lambda: console, stderr_path=os.devnull,
                                      running=lambda: running)
        states = [run.State(status, said)]
        return run.outcome(types.SimpleNamespace(
            guests=[guest], states=lambda: states, directory=directory), [["./x"]], states)
    for arguments, status, words in (
            ((None,), None, ""), ((0,), 0, ""),
            ((3,), 3, "./x ended with status 3"),
            ((139,), 139, "./x was ended by SIGSEGV"),
            ((127,), 127, "not found ./x"), ((126,), 126, "cannot execute"),
            ((137, "[ 9.1] Out of memory: Killed process 70 (x) total-vm:1kB"), 137,
             "ran out of memory, and Linux ended x"),
            ((0, "[ 2.0] BUG: kernel NULL pointer dereference, address: 8\r\n"), 1,
             "failed: BUG: kernel NULL pointer dereference, address: 8"),
            ((0, "[ 2.0] watchdog: BUG: soft lockup - CPU#0 stuck for 22s!"), 0, ""),
            ((0, "[ 2.0] WARNING: possible circular locking dependency detected"), 1,
             "possible circular"),
            ((None, "Kernel panic - not syncing: no", False), run.FAILED,
             "failed: Kernel panic - not syncing: no"),
            ((None, "", False), run.FAILED, "powered off")):
        got = found(*arguments)
        require((got is None) == (status is None) and (got is None or (
            got[0] == status and (words in got[1] if words else got[1] is None))),
            f"{arguments}: {got}")
    write(directory, "output", "x" * 5000)
    with mock.patch.object(run, "DISK_BYTES", 4000):
        require(found(None) == (run.FAILED, run.TOO_MUCH) and found(0) == (0, None),
                f"{found(None)}")


def run_key(directory):
    """run: the guest's file system is another when a library of this machine is another"""
    library = os.path.join(directory, "libother.so.1")
    write(directory, "libother.so.1", "")
    done = subprocess.run(["bash", "-c", f""". {SCRIPTS}/unetmm_tools/build/all.sh
        ldd() {{ printf '\\tlibother.so.1 => %s (0x1)\\n' {library}; }}
        initramfs_file 6.1; initramfs_file 6.1; touch -d @1 {library}; initramfs_file 6.1"""],
                          stdout=subprocess.PIPE, text=True, check=True)
    before, again, after = done.stdout.splitlines()
    require(before == again != after, done.stdout)


def run_programs(_directory):
    """run: docs/howto.rst names each program of the guests"""
    done = subprocess.run(["bash", "-c", f""". {SCRIPTS}/unetmm_tools/build/all.sh
        UNETMM_GUEST=tools setup_guest >&2
        guest_programs | sed -n 's#.* usr/bin/##p'; printf '%s\\n' "${{GUEST_TOOLS[@]}}" """],
                          stdout=subprocess.PIPE, text=True, check=True)
    with open(os.path.join(SCRIPTS, "../docs/howto.rst"), encoding="utf-8") as file:
        row = file.read().split("\nPrograms in the guests\n")[1].split("   * - ")[2]
    require(sorted(done.stdout.split()) == sorted(set(re.findall("``([\\w-]+)``", row))),
            f"{done.stdout}\n{row}")


def run_completion(_directory):
    """run: bash completes options of the scripts, stages and targets"""
    for words, wanted in (
            ("scripts/run --gu scripts/run", "--guests"),
            ("scripts/tlb-sim --vic scripts/tlb-sim", "--victims"),
            ("scripts/bench --plo scripts/bench", "--plots"),
            ("scripts/test too --only", "tools"),
            ("scripts/setup tlb scripts/setup", "tlb-sim"),
            ("scripts/run ./mi --", "")):
        done = subprocess.run(["bash", "-c", f""". tools/completion/unetmm.bash
            complete -p {words.split()[0]} >/dev/null && _unetmm_complete {words}
            echo "${{COMPREPLY[*]}}" """], cwd=os.path.dirname(SCRIPTS), stdout=subprocess.PIPE,
                              text=True, check=True)
        require(done.stdout == f"{wanted}\n", f"{words}: {done.stdout}")


def run_pair(directory):
    """run: a C source in one guest, a line for the shell in another, a folder for both"""
    write(directory, "mine.c", C_SOURCE)
    done = started(
        directory, "--share", ".", "--json", "--", "mine.c", "first $1", "--",
        "until cat of-a 2>/dev/null; do :; done; echo by b >of-b; kill -SEGV $$")
    found = json.loads(done.stdout)
    a, b = found["guests"]
    require(done.returncode == found["status"] == b["status"] == 139, f"{done}")
    require(a == {"name": "a", "status": None, "cut": 0,
                  "output": "a 52:54:00:6d:00:02 first $1 0\n"}, f"{a}")
    require("guest b" in found["reason"] and "SIGSEGV" in found["reason"] and
            b["output"].startswith("by a\n"), f"{found}")
    with open(os.path.join(directory, "of-b"), encoding="utf-8") as file:
        require(file.read() == "by b\n", "the file of guest b")
        require(os.stat(file.fileno()).st_uid == os.geteuid(), "its owner")
    require(os.path.exists(os.path.join(found["folder"], "b.console")), f"{found}")


def run_files(directory):
    """run: a Python source; its status, and the files that it has left"""
    write(directory, "mine.py", PYTHON_SOURCE)
    # The limit is that of a run, and not of a build.
    vm.setup_paths("python-guest")
    done = started(directory, "--keep", "kept", "--env", "MORE=a b", "--", "mine.py", "-x", "y z")
    require(done.returncode == 3 and done.stdout == "['-x', 'y z'] a b\n", f"{done}")
    require("mine.py ended with status 3" in done.stderr and "are in kept" in done.stderr,
            done.stderr)
    with open(os.path.join(directory, "kept/a.files/sub/bytes"), "rb") as file:
        require(file.read() == bytes(range(256)) * 100, "other bytes have come")


def run_late(directory):
    """run: of a program that is late the first bytes are kept, and its files"""
    done = started(directory, "--keep", "kept", "--timeout", "15", "--max-output", "4K", "--json",
                   "--", "echo part >left; yes | head -c 6000; sleep 1000")
    found = json.loads(done.stdout)
    guest, = found["guests"]
    require(done.returncode == found["status"] == run.LATE and guest["status"] is None and
            guest["output"] == "y\n" * (2 << 10) and guest["cut"] > 0, f"{done.stdout[-200:]}")
    require(f"{guest['cut']} bytes more than the 4096" in done.stderr, done.stderr)
    for name, text in ("a.output", guest["output"]), ("a.files/left", "part\n"):
        with open(os.path.join(directory, "kept", name), encoding="utf-8") as file:
            require(file.read() == text, name)


TESTS = (run_mistakes, run_names, run_sentences, run_key, run_programs, run_completion, run_pair, run_files, run_late)
