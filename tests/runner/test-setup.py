#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""scripts/setup makes each thing that the scripts ask for; with programs in
apt-get's place, so that nothing is installed.

usage: test-setup.py SOURCE-ROOT BUILD-ROOT
"""
import contextlib
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
    *Error-Mode=any*" update") exit 100 ;;
    *" download "*)
        [ ! -e "$UNETMM_TEST/it.deb" ] || cp "$UNETMM_TEST/it.deb" . ;;
    *gnuplot-nox*)
        ln -s /bin/true "$UNETMM_TEST/bin/gnuplot"
        : >"$UNETMM_TEST/absent" ;;
esac
"""

# apt translates its words.
APT_CACHE = """#!/bin/sh
case "${LC_ALL:-$LANG}" in
    C*) echo "  Candidate: 1.2-3" ;;
    *) echo "  Installationskandidat: 1.2-3" ;;
esac
"""

SUDO = """#!/bin/sh
[ "$1" = -v ] || exec "$@"
"""


class Machine:
    """A PATH without gnuplot, and a cache of its own."""

    def __init__(self, directory):
        self._directory = directory
        self.cache = os.path.join(directory, "cache", "unetmm")
        self._bin = os.path.join(directory, "bin")
        os.mkdir(self._bin)
        for place in ("/usr/sbin", "/usr/bin", "/bin"):
            for name in os.listdir(place):
                path = os.path.join(self._bin, name)
                if not name.startswith("gnuplot") and \
                        not os.path.lexists(path):
                    os.symlink(os.path.join(place, name), path)
        for name, text in (("dpkg-query", DPKG_QUERY), ("apt-get", APT_GET),
                           ("apt-cache", APT_CACHE), ("sudo", SUDO)):
            path = os.path.join(self._bin, name)
            if os.path.lexists(path):
                os.unlink(path)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(path, 0o755)
        with open(os.path.join(directory, "absent"), "w",
                  encoding="utf-8") as file:
            file.write("gnuplot-nox\n")

    def run(self, *command, **variables):
        """(exit status, output); a variable that is None is not in the environment."""
        bare = {name: value for name, value in os.environ.items()
                if not name.startswith("UNETMM_")}
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=100, check=False,
            env={name: value for name, value in
                 {**bare, "PATH": self._bin, "UNETMM_TEST": self._directory,
                  "XDG_CACHE_HOME": os.path.dirname(self.cache),
                  "PYTHONDONTWRITEBYTECODE": "1", **variables}.items() if value is not None})
        return done.returncode, done.stdout

    def shell(self, text, **variables):
        """The output of a line that has the functions of scripts/setup."""
        status, said = self.run("bash", "-ec", f". {SCRIPTS}/unetmm_tools/build/all.sh; {text}",
                                **variables)
        assert status == 0, said
        return said

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
                    if " install " in line]
        assert len(installs) == 1 and \
            installs[0].split()[-1] == "gnuplot-nox" and \
            "gdb" not in installs[0], installs
        status, text = machine.run(
            os.path.join(ROOT, step[1].split()[0]), "--yes", step[1].split()[1])
        assert status == 0 and len([line for line in machine.asked()
                                    if " install " in line]) == 1, text


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
        r"tests/(core|fuzz|library|model|paper|provider|runner|sim)/", name)]
    assert not tests, tests


@contextlib.contextmanager
def a_machine():
    """A Machine in a directory of its own."""
    with tempfile.TemporaryDirectory() as directory:
        yield Machine(directory)


def apt_in_any_language():
    """The candidate is read from the output of apt, which follows the user's language."""
    with a_machine() as machine:
        said = machine.shell("candidate it", LANG="de_DE.UTF-8", LC_ALL=None)
        assert said == "1.2-3\n", said


def no_kernel():
    """A version that is not there ends the run, and is not kept."""
    with a_machine() as machine:
        said = machine.shell("candidate() { :; }; debian_kernel_abi() { echo 6.1.0-1; }; "
                             "if kernel_dir 6.1; then echo a directory; fi")
        assert not said and not os.path.exists(f"{machine.cache}/pin/kernel-6.1"), said


def a_download_that_was_killed():
    """The part of a package that is left does not spoil the next call."""
    with a_machine() as machine:
        top = os.path.dirname(os.path.dirname(machine.cache))
        tree = os.path.join(top, "tree")
        os.makedirs(os.path.join(tree, "DEBIAN"))
        with open(os.path.join(tree, "DEBIAN", "control"), "w", encoding="utf-8") as file:
            file.write("Package: it\nVersion: 1\nArchitecture: all\nMaintainer: none\n"
                       "Description: a file\n")
        with open(os.path.join(tree, "content"), "w", encoding="utf-8") as file:
            file.write("all of it\n")
        subprocess.run(["dpkg-deb", "-b", "--root-owner-group", tree,
                        os.path.join(top, "it.deb")], stdout=subprocess.DEVNULL, check=True)
        os.makedirs(os.path.join(top, "product.debs"))
        with open(os.path.join(top, "product.debs", "old.deb"), "wb") as file:
            file.write(b"!<arch>\ndebian-binary")
        said = machine.shell(f'fetch_suite_deb "" it "{top}/product"; cat "{top}/product/content"')
        assert said == "all of it\n" and not os.path.exists(f"{top}/product.debs"), said


def versions_stay_without_a_network():
    """scripts/setup --update keeps the choice of versions if it cannot read newer lists."""
    with a_machine() as machine:
        pin = os.path.join(machine.cache, "pin", "kernel-6.1")
        os.makedirs(os.path.dirname(pin))
        with open(pin, "w", encoding="utf-8") as file:
            file.write("6.1.0-1 6.1.1-1\n")
        status, said = machine.run(os.path.join(SCRIPTS, "setup"), "--update")
        assert status and os.path.exists(pin), said


def caches_that_cannot_be():
    """A name that a program would split, a relative one, a cache that has moved; no HOME."""
    setup = os.path.join(SCRIPTS, "setup")
    with a_machine() as machine:
        for name in ("/tmp/My Passport", "relative", "/tmp/a:b", "/tmp/a'b"):
            status, said = machine.run(setup, "--paths", "packages", XDG_CACHE_HOME=name)
            assert status and "set XDG_CACHE_HOME to an absolute path" in said, said
        machine.shell("check_machine")
        machine.shell("check_machine", XDG_CACHE_HOME=f"{os.path.dirname(machine.cache)}/.")
        os.rename(machine.cache, f"{machine.cache}-elsewhere")
        os.makedirs(os.path.join(os.path.dirname(machine.cache), "other"))
        other = os.path.join(os.path.dirname(machine.cache), "other", "unetmm")
        os.rename(f"{machine.cache}-elsewhere", other)
        status, said = machine.run(setup, "--paths", "packages",
                                   XDG_CACHE_HOME=os.path.dirname(other))
        assert status and f"was moved here from {machine.cache}:" in said, said
        status, said = machine.run(setup, "--list", HOME=None, XDG_CACHE_HOME=None)
        assert status == 0 and "initramfs-6.1" in said, said
        said = machine.shell("env | grep ^HOME=", HOME=None)
        assert said.startswith("HOME=/"), said


def old_products_go_whole():
    """Products of the last day stay; each older one goes at once."""
    with a_machine() as machine:
        for name in ("old", "new"):
            os.makedirs(os.path.join(machine.cache, "driver", name, "part"))
        os.utime(os.path.join(machine.cache, "driver", "old"), (0, 0))
        machine.shell(f"use_product driver {machine.cache}/driver/missing")
        left = os.listdir(os.path.join(machine.cache, "driver"))
        assert left == ["new"], left


def commands_that_install():
    """On Debian 12 they add the suite of our QEMU, if apt does not know it."""
    with a_machine() as machine:
        os.makedirs(os.path.join(machine.cache, "apt"))
        with open(os.path.join(machine.cache, "apt", "unetmm.sources"), "w",
                  encoding="utf-8") as file:
            file.write("Types: deb\nURIs: security\nSuites: bookworm-security\n\n"
                       "Types: deb\nURIs: mirror\nSuites: bookworm bookworm-backports\n"
                       "Components: main\n\nTypes: deb-src\n")
        said = machine.shell("backports_sources bookworm")
        assert said == "Types: deb\nURIs: mirror\nSuites: bookworm-backports\n" \
            "Components: main\n", said
        assert not machine.shell("backports_sources trixie")
        said = machine.shell("host_codename() { echo bookworm; }; install_advice /it")
        assert "/srv/unetmm/unetmm-backports.sources\n" in said and \
            "-t bookworm-backports unetmm-vm" in said, said
        said = machine.shell("host_codename() { echo trixie; }; apt-cache() { echo n=trixie; }; "
                             "install_advice /it")
        assert "backports" not in said, said


ANYWHERE = [every_step_that_is_named_exists, guests_need_no_unit_tests]
TESTS = [apt_in_any_language, no_kernel, a_download_that_was_killed, versions_stay_without_a_network,
         caches_that_cannot_be, old_products_go_whole, commands_that_install,
         setup_installs_what_draws, *ANYWHERE]

FAILED = 0
print(f"1..{len(TESTS)}")
for count, test in enumerate(TESTS, 1):
    try:
        if shutil.which("dpkg-deb") or test in ANYWHERE:
            test()
            print(f"ok {count} - {test.__name__}", flush=True)
        else:
            print(f"ok {count} - {test.__name__} # SKIP this is not Debian")
    except (AssertionError, subprocess.SubprocessError) as error:
        FAILED += 1
        print(f"not ok {count} - {test.__name__}")
        print(f"# {error}".replace("\n", "\n# "), flush=True)
sys.exit(FAILED > 0)
