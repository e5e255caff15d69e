# SPDX-License-Identifier: GPL-2.0-or-later
"""The stages of scripts/test but style and demo: the commands that they run.

A stage is a function that yields one Result after another.
"""

import json
import os
import re
import shutil
import time

from unetmm_tools import REPO, SCRIPTS
from unetmm_tools.check.runner import (FAIL, PASS, RUN, SKIP, Result, StageError, if_changed,
                                       lib_shell, one, run, shell_test, shown, side_by_side,
                                       tap_results, tracked)


def program_results(test, env):
    """The results of a program, by its line in meson's log.

    A failed test of cmocka is repeated alone.  A card that moves at each n-th
    access would move elsewhere then: such a program is repeated as a whole.
    """
    own = {name: value for name, value in test.get("env", {}).items()
           if name.startswith(("UNETMM_", "MESON_EXE_WRAPPER"))}
    env = {**env, **own}
    good = test["result"] in ("OK", "SKIP")
    prefix = f"{test['name']}: "
    repeat = shown(test["command"], env)
    found = tap_results(prefix, test.get("stdout", ""), repeat, 0,
                        int(not good))
    if found[0].name == f"{prefix}says something":
        outcome = {"OK": PASS, "SKIP": SKIP}.get(test["result"], FAIL)
        return [Result(test["name"], outcome, test["duration"],
                       test.get("stdout", "") + test.get("stderr", ""), repeat)]
    if "CMOCKA_MESSAGE_OUTPUT" not in test["env"] or "UNETMM_MIGRATE" in env:
        return found
    for i, result in enumerate(found):
        name = result.name.removeprefix(prefix)
        if result.outcome == FAIL and re.fullmatch(r"\w+", name):
            found[i] = result._replace(repeat=shown(
                test["command"], {**env, "UNETMM_TEST": name}))
    return found


def meson_tests(build, limit, env, programs=()):
    """meson test, the results of each program."""
    command = lib_shell("meson_command")[0].split()
    log = os.path.join(build, "meson-logs", "testlog.json")
    # Without a test of this name meson leaves the log of the last run as it is.
    if os.path.exists(log):
        os.unlink(log)
    # Limits for tests that hang; a busy machine must not reach them.  One test more
    # than there are CPUs, since some wait for times.
    status, output = run([*command, "test", "-C", build, "--no-rebuild",
                          "--print-errorlogs", "--timeout-multiplier", "8",
                          "--num-processes", str(os.cpu_count() + 1),
                          *programs], limit, env)
    results = []
    if os.path.exists(log):
        with open(log, encoding="utf-8") as file:
            results = [result for line in file
                       for result in program_results(json.loads(line), env)]
    if status != 0 and not any(r.outcome == FAIL for r in results):
        results.append(Result("meson test", FAIL, 0, output, "meson test"))
    return results


def one_unit_test(test, env):
    """A test that --test names; a program whose tests have no names runs whole."""
    program, _, name = test.partition(": ")
    found = meson_tests(lib_shell("guest_build")[0], 7200,
                        {**env, "UNETMM_TEST": name} if name else env, [program])
    if name and not any(r.name == test or r.outcome == FAIL for r in found):
        raise StageError(f"there is no test {test}: write PROGRAM or "
                         "PROGRAM: TEST, as the suite prints a failed one")
    yield from found


def stage_unit(options):
    """The core and the library as plain programs."""
    # Each run has its own; by themselves the programs take 1.
    env = {"UNETMM_SEED": os.environ.get("UNETMM_SEED") or
           str(1 + int.from_bytes(os.urandom(4), "little"))}
    if options.long:
        env["UNETMM_LONG"] = "1"
    for test in options.test:
        yield from one_unit_test(test, env)
    if options.test:
        return
    yield from meson_tests(lib_shell("guest_build")[0], 7200, env)
    yield one("clang: the core, the library, their tests and tools",
              [RUN, "build.clang", lib_shell("guest_build")[0]],
              1800)
    yield shell_test("programs build against the installed library",
                     "check_install")
    command = [os.path.join(REPO, "docs", "labs", "run"), "--check"]
    if options.long:
        command.append("--long")
    start = time.monotonic()
    status, output = run(command, 1800)
    yield from tap_results("labs: ", output, shown(command),
                           time.monotonic() - start, status)


def cross(arch):
    """The stage of unit tests for another machine."""
    def stage(_options):
        yield from meson_tests(lib_shell("cross_build", arch)[0], 7200, {})
    stage.__doc__ = f"The unit tests of library and core for {arch}, run by qemu-user."
    return stage


def stage_msan(_options):
    """The core's tests and inputs, in which nothing undefined may be used."""
    yield from meson_tests(lib_shell("msan_build")[0], 7200, {})


def stage_threads(_options):
    """The tests of library and provider that have threads, under the thread sanitizer."""
    supp = os.path.join(REPO, "tests", "library", "threads.supp")
    yield from meson_tests(lib_shell("threads_build")[0], 1800,
                           # Only an access whose stack is known can be suppressed.
                           {"TSAN_OPTIONS": f"history_size=7:suppressions={supp}"},
                           lib_shell("threads_tests"))


# Seconds by the clock, for a program that hangs: a busy host makes an hour of inputs longer, and
# libFuzzer itself ends an input that takes too long.
FUZZ_HANGS = 7200


def stage_fuzz(options):
    """scripts/fuzz: the same inputs each time, or an hour of new ones."""
    length = ["--hours", "1"] if options.long else ["--runs", "400", "--seed", "1"]
    for result in side_by_side([
            (one, f"fuzz-{target} finds nothing",
             [os.path.join(SCRIPTS, "fuzz"), *length, target],
             FUZZ_HANGS)
            for target in lib_shell("fuzz_targets")]):
        print("\n".join(line for line in result.detail.splitlines()
                        if line.startswith("fuzz-")), flush=True)
        yield result
    yield from fuzz_qemu(options)


def fuzz_qemu(options):
    """QEMU's generic fuzzer, if it is there; to build it takes minutes."""
    if not options.long and lib_shell("qemu_fuzz_there") != ["yes"]:
        yield Result("QEMU's generic fuzzer finds nothing", SKIP, 0,
                     "# SKIP it is not in the cache for these sources "
                     "(scripts/setup qemu-fuzz builds it)",
                     "scripts/fuzz qemu")
        return
    length = ["--hours", "1"] if options.long else ["--runs", "200",
                                                    "--seed", "1"]
    yield one("QEMU's generic fuzzer finds nothing",
              [os.path.join(SCRIPTS, "fuzz"), *length, "qemu"],
              FUZZ_HANGS)


def stage_driver(options):
    """The module and sparse; a warning has failed scripts/setup already."""
    files = tracked("guest-driver/*", "hw/net/unetmm/abi/*", "meson.build",
                    "scripts/unetmm_tools/build/driver.sh", "scripts/unetmm_tools/build/kernel.sh")
    files.append(shutil.which("sparse"))
    headers = {kernel: lib_shell("kernel_dir", kernel)[0] + "/release"
               for kernel in ("6.1", "6.12")}
    names = ["6.1", "6.12", "debug"] + ["newest"] * options.long
    for kernel in names:
        yield one(f"the module builds for Linux {kernel} with W=1",
                  [os.path.join(SCRIPTS, "setup"), f"driver-{kernel}"])
    yield from side_by_side([
        *((if_changed, options, [*files, release], shell_test,
           f"sparse finds nothing for Linux {kernel}", "check_driver", kernel)
          for kernel, release in headers.items()),
        (if_changed, options, [*files, headers["6.1"]], shell_test,
         "DKMS's copy builds without the repository", "check_dkms", "6.1")])


def stage_qtest(_options):
    """QEMU's own test programs: the card's part of qos-test, and ours."""
    qemu = lib_shell("qemu_bin")[0]
    env = {"QTEST_QEMU_BINARY": qemu, "MALLOC_PERTURB_": "165"}
    for program in lib_shell("qtest_programs"):
        name = os.path.basename(program)
        command = [program, "--tap", "-k"]
        if name == "qos-test":
            command += qos_paths(program, env)
        start = time.monotonic()
        status, output = run(command, 1200, env)
        yield from tap_results(f"{name}: ", output, shown(command, env),
                               time.monotonic() - start, status)
    yield shell_test("clang: the card in QEMU, and its qtests", "check_qemu_clang",
                     limit=1800)


def qos_paths(program, env):
    """The card's groups among the thousands of tests in qos-test."""
    _, output = run([program, "-l"], 120, env)
    groups = {line.strip().rsplit("/", 1)[0] for line in output.splitlines()
              if line.startswith("/") and "/unetmm-tests/" in line}
    return [word for group in sorted(groups) for word in ("-p", group)]


# The kernels' stages have one seed, which chooses the tests that each of them runs.
GUEST_SEED = int.from_bytes(os.urandom(4), "little")


def e2e(kernel, turn):
    """The stage of programs in guests with one kernel.

    turn, I/N: without --long it runs one test of every N; another I, others.
    """
    def stage(options):
        command = [os.path.join(REPO, "tests", "e2e", "run"), "--kernel",
                   kernel, "--seed", str(GUEST_SEED), "--turn", turn]
        if options.long:
            command.append("--long")
        if options.repeat_failed:
            command += ["--repeat-failed", str(options.repeat_failed)]
        start = time.monotonic()
        status, output = run(command, 14400 if options.long else 3600)
        yield from tap_results("", output, shown(command),
                               time.monotonic() - start, status)
    stage.__doc__ = f"Programs in guests with Linux {kernel}."
    return stage


def stage_tools(options):
    """The tools that show the card's state; guests by unetmm.lab and with Python."""
    for name in ("tools", "lab"):
        yield from own_runner(name, options, 3600, talks=True)


def own_runner(name, options, long_limit, talks=False):
    """The results of tests/NAME/run, which knows --long."""
    command = [os.path.join(REPO, "tests", name, "run")]
    if options.long:
        command.append("--long")
    start = time.monotonic()
    status, output = run(command, long_limit if options.long else 900,
                         talks=talks)
    yield from tap_results("", output, shown(command),
                           time.monotonic() - start, status)


def stage_lockstep(options):
    """Machines in one virtual time: the protocol, equal runs, pinned figures."""
    # Its guests have limits of virtual time; each test says a line.
    yield from own_runner("lockstep", options, 3600, talks=True)


def stage_scale(options):
    """Many cards in a network that ns-3 simulates."""
    yield from own_runner("scale", options, 1800, talks=True)


def stage_commands(options):
    """The commands that the documents show."""
    yield from own_runner("commands", options, 3600, talks=True)


def stage_stock(options):
    """The card in the distribution's QEMU."""
    yield from own_runner("stock", options, 900, talks=True)


def stage_fabtests(options):
    """libfabric's own tests on the provider."""
    yield from own_runner("fabtests", options, 7200)


def stage_verbs(options):
    """The card as an RDMA device, with Debian's own programs."""
    yield from own_runner("verbs", options, 1800, talks=True)


def stage_ulps(options):
    """Kernels and middleware on verbs."""
    yield from own_runner("ulps", options, 1800, talks=True)


def stage_mpi(options):
    """scripts/cluster, and MPI on its guests."""
    yield shell_test("the provider and its tests suit the libfabric of Debian 13",
                     "check_libfabric")
    yield from own_runner("mpi", options, 3600, talks=True)


def stage_roots(options):
    """The README's commands in fresh systems of Debian; says how long each step takes."""
    command = [os.path.join(REPO, "tests", "roots", "run")]
    if options.long:
        command.append("--long")
    start = time.monotonic()
    # The times come on the standard error.
    status, output = run(command, 36000, stderr=None)
    yield from tap_results("", output, shown(command), time.monotonic() - start,
                           status)


def stage_docs(_options):
    """The site of the documents: links, pages in a browser, search."""
    command = [os.path.join(REPO, "tests", "docs", "run")]
    start = time.monotonic()
    status, output = run(command, 900, talks=True)
    yield from tap_results("", output, shown(command),
                           time.monotonic() - start, status)


# For each part; it learns which tests run which lines in that time as well.
MUTATE_MINUTES = "25"


def stage_mutate(_options):
    """tests/mutate/run: a sample of mutants, the same each time."""
    program = os.path.join(REPO, "tests", "mutate", "run")
    yield one("tests/mutate/equivalent.txt has mutants that there are",
              [program, "--check"], 120)
    for part in ("core", "library", "provider"):
        result = one(f"unit tests kill as many of the {part}'s mutants as they "
                     "did", [program, "--gate", "--part", part, "--minutes",
                             MUTATE_MINUTES], 7200)
        print("\n".join(line for line in result.detail.splitlines()
                        if " % " in line), flush=True)
        yield result


def stage_package(_options):
    """Debian's packages in clean roots; says how long the first guest takes."""
    command = ["bash", "-c", '. "$0/unetmm_tools/build/all.sh"; check_packages', SCRIPTS]
    start = time.monotonic()
    status, output = run(command, 3600, stderr=None)
    yield from tap_results("package: ", output, "scripts/test --only package",
                           time.monotonic() - start, status)
