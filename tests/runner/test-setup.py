#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""scripts/setup makes each thing that the scripts ask for; with programs in
apt-get's place, so that nothing is installed.

usage: test-setup.py SOURCE-ROOT BUILD-ROOT
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT, BUILD = (os.path.realpath(path) for path in sys.argv[1:3])
SCRIPTS = os.path.join(ROOT, "scripts")

# Everything is installed but the packages that a file `absent` names.
DPKG_QUERY = """#!/bin/sh
for word; do
    case "$word" in -*|\\$*) continue ;; esac
    grep -qx "$word" "$UNETMM_TEST/absent" || echo "$word installed"
done
"""

APT_GET = """#!/bin/sh
echo "$*" >>"$UNETMM_TEST/asked"
case "$*" in
    *gnuplot-nox*)
        ln -s /bin/true "$UNETMM_TEST/bin/gnuplot"
        : >"$UNETMM_TEST/absent" ;;
esac
"""

SUDO = """#!/bin/sh
[ "$1" = -v ] || exec "$@"
"""


class Machine:
    """A PATH without gnuplot, and a cache of its own."""

    def __init__(self, directory):
        self._directory = directory
        self._bin = os.path.join(directory, "bin")
        os.mkdir(self._bin)
        for place in ("/usr/sbin", "/usr/bin", "/bin"):
            for name in os.listdir(place):
                path = os.path.join(self._bin, name)
                if not name.startswith("gnuplot") and \
                        not os.path.lexists(path):
                    os.symlink(os.path.join(place, name), path)
        for name, text in (("dpkg-query", DPKG_QUERY), ("apt-get", APT_GET),
                           ("sudo", SUDO)):
            path = os.path.join(self._bin, name)
            if os.path.lexists(path):
                os.unlink(path)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(path, 0o755)
        with open(os.path.join(directory, "absent"), "w",
                  encoding="utf-8") as file:
            file.write("gnuplot-nox\n")

    def run(self, *command):
        """(exit status, output)"""
        bare = {name: value for name, value in os.environ.items()
                if not name.startswith("UNETMM_")}
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=100, check=False,
            env={**bare, "PATH": self._bin, "UNETMM_TEST": self._directory,
                 "XDG_CACHE_HOME": os.path.join(self._directory, "cache"),
                 "PYTHONDONTWRITEBYTECODE": "1"})
        return done.returncode, done.stdout

    def asked(self):
        """The arguments of apt-get."""
        path = os.path.join(self._directory, "asked")
        if not os.path.exists(path):
            return []
        with open(path, encoding="utf-8") as file:
            return file.read().splitlines()


def targets():
    """The output of scripts/setup --list."""
    done = subprocess.run([os.path.join(SCRIPTS, "setup"), "--list"],
                          stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.split()


def setup_installs_what_draws():
    """The message names a step, and that installs the missing packages."""
    with tempfile.TemporaryDirectory() as directory:
        machine = Machine(directory)
        status, text = machine.run(os.path.join(SCRIPTS, "bench"), "--plots",
                                   directory)
        step = re.search(r"gnuplot: run (scripts/setup \S+)$", text.strip())
        assert status and step and text.count("\n") == 1, text
        assert not machine.asked(), machine.asked()
        status, text = machine.run(
            os.path.join(ROOT, step[1].split()[0]), "--yes", step[1].split()[1])
        assert status == 0, text
        installs = [line for line in machine.asked()
                    if line.startswith("install")]
        assert len(installs) == 1 and \
            installs[0].split()[-1] == "gnuplot-nox" and \
            "gdb" not in installs[0], installs
        status, text = machine.run(
            os.path.join(ROOT, step[1].split()[0]), "--yes", step[1].split()[1])
        assert status == 0 and len([line for line in machine.asked()
                                    if line.startswith("install")]) == 1, text


def every_step_that_is_named_exists():
    """In scripts, their messages and the documents."""
    known, number = set(targets()), 0
    for place in ("scripts", "scripts/unetmm_tools/build", "docs", "tests", "tests/e2e",
                  "."):
        directory = os.path.join(ROOT, place)
        for name in sorted(os.listdir(directory)):
            path = os.path.join(directory, name)
            if not os.path.isfile(path) or name == "CHANGELOG.md":
                continue
            with open(path, encoding="utf-8", errors="replace") as file:
                text = file.read()
            for step in re.findall(
                    r"(?:run|installs?:?|`) ?scripts/setup ([a-z][\w.-]+)", text):
                assert step.rstrip(".") in known, f"{path}: {step}"
                number += 1
    assert number > 3, number


def guests_need_no_unit_tests():
    """The first screen of scripts/demo does not wait for them."""
    done = subprocess.run(["ninja", "-C", BUILD, "-t", "query", "all"],
                          stdout=subprocess.PIPE, text=True, check=True)
    needed = done.stdout.split("outputs:")[0].split()
    assert "guest-lib/tools/unetmm-stat" in needed, needed
    tests = [name for name in needed if re.match(
        r"tests/(core|fuzz|guest/lib|model|paper|provider|runner|sim)/", name)]
    assert not tests, tests


TESTS = [setup_installs_what_draws, every_step_that_is_named_exists,
         guests_need_no_unit_tests]

FAILED = 0
print(f"1..{len(TESTS)}")
for count, test in enumerate(TESTS, 1):
    try:
        if shutil.which("apt-get") or test is not setup_installs_what_draws:
            test()
            print(f"ok {count} - {test.__name__}", flush=True)
        else:
            print(f"ok {count} - {test.__name__} # SKIP this is not Debian")
    except (AssertionError, subprocess.SubprocessError) as error:
        FAILED += 1
        print(f"not ok {count} - {test.__name__}")
        print(f"# {error}".replace("\n", "\n# "), flush=True)
sys.exit(FAILED > 0)
