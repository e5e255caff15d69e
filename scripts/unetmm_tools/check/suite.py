# SPDX-License-Identifier: GPL-2.0-or-later
"""The stages of scripts/test: the commands they run, how results are counted.

A stage is a function that yields one Result after another; run_stage() prints
them and adds them up.  Whatever a test prints is kept in a log file and shown
if the test fails.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

from unetmm_tools import REPO, SCRIPTS
from unetmm_tools.build import passed

RUN = os.path.join(SCRIPTS, "unetmm_tools", "run")
# Names and parts of words in the sources that codespell takes for misspelt words
SPELT_SO = "filp,bu,fro,whats,whos,ublished,caf,nd"
UNSTEADY_LIST = os.path.join(REPO, "tests", "unsteady.txt")

Result = collections.namedtuple("Result", "name outcome seconds detail repeat")

PASS, FAIL, SKIP, UNSTEADY = "passed", "failed", "skipped", "unsteady"
LEFT_OUT = "left out"
TAP_LINE = re.compile(r"^\s*(not ok|ok)\s+\d*\s*-?\s*(.*?)\s*"
                      r"(#\s*(skip|todo|unsteady)\b.*)?$", re.I)


class StageError(Exception):
    """The stage could not be run; the text says why."""


def lib_shell(function, *arguments):
    """Calls a function of unetmm_tools/build; returns its output's lines."""
    done = subprocess.run(
        ["bash", "-c", '. "$0/unetmm_tools/build/all.sh"; "$@"', SCRIPTS, function,
         *arguments], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise StageError(f"{function} failed")
    return done.stdout.splitlines()


def wait_for(process, limit, out, talks):
    """The status, or None after `limit` seconds, of a command that talks without a
    word in them.  A limit of None: the command has its own limits."""
    said, since = -1, time.monotonic()
    while True:
        try:
            return process.wait(1)
        except subprocess.TimeoutExpired:
            size = os.fstat(out.fileno()).st_size
            if talks and size != said:
                said, since = size, time.monotonic()
            if limit is not None and time.monotonic() - since > limit:
                process.kill()
                return None


def run(command, limit, env=None, cwd=REPO, talks=False, stderr=subprocess.STDOUT):
    """Runs a command; returns (status, output).  Status None: out of time.
    stderr None: the standard error goes to the terminal as it comes."""
    if shutil.which(command[0]) is None:
        raise StageError(f"there is no {command[0]}: scripts/setup packages "
                         "installs missing packages")
    with tempfile.TemporaryFile("w+", encoding="utf-8",
                                errors="replace") as out:
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out,
                              stderr=stderr, cwd=cwd,
                              env={**os.environ, **(env or {})}) as process:
            status = wait_for(process, limit, out, talks)
        out.seek(0)
        return status, out.read()


def shown(command, env=None):
    """The command as a person would type it."""
    words = [f"{key}={value}" for key, value in (env or {}).items()]
    return " ".join(words + [os.path.relpath(word, REPO)
                             if word.startswith(REPO + os.sep) else word
                             for word in command])


def one(name, command, limit=300, env=None, clean=False):
    """A command that is one test.  clean: any output is a failure, too."""
    start = time.monotonic()
    status, output = run(command, limit, env)
    good = status == 0 and not (clean and output.strip())
    detail = output if status is not None else f"{output}\nout of time"
    return Result(name, PASS if good else FAIL, time.monotonic() - start,
                  detail, shown(command, env))


def shell_test(name, function, *arguments, limit=300):
    """A function of unetmm_tools/build that is one test."""
    return one(name, ["bash", "-c", '. "$0/unetmm_tools/build/all.sh"; "$@"', SCRIPTS,
                      function, *arguments], limit)


def tap_outcome(match):
    """The outcome of a test by its line of TAP."""
    word = (match[4] or "").lower()
    if word == "skip" and re.match(r"#\s*skip\s+left out\b", match[3], re.I):
        return LEFT_OUT
    if word in ("skip", "unsteady"):
        return SKIP if word == "skip" else UNSTEADY
    return PASS if match[1] == "ok" else FAIL


def plan_problem(output):
    """Why a program's TAP is not all that it has planned, or None.

    Subtests are indented, and each depth has plans of its own.
    """
    planned, seen = collections.Counter(), collections.Counter()
    for line in output.splitlines():
        depth = len(line) - len(line.lstrip())
        plan = re.match(r"\s*1\.\.(\d+)", line)
        if plan:
            number = int(plan[1])
            # GLib's, behind each of several paths, are of all before it.
            if planned[depth] < number == seen[depth]:
                planned[depth] = 0
            planned[depth] += number
        elif TAP_LINE.match(line):
            seen[depth] += 1
    for depth in sorted({*planned, *seen}):
        if depth not in planned:
            return f"there is no plan (1..N) for {seen[depth]} results"
        if planned[depth] != seen[depth]:
            return f"{planned[depth]} results are planned, not {seen[depth]}"
    return None


def tap_results(prefix, output, repeat, seconds, status):
    """The results in a program's TAP; plan and exit status must agree."""
    found, said = [], []
    for line in output.splitlines():
        match = TAP_LINE.match(line)
        if not match:
            said.append(line)
            # The command comes after the test's line.
            if "# repeat" in line and found and \
                    found[-1].outcome in (FAIL, UNSTEADY):
                found[-1] = found[-1]._replace(
                    detail=f"{found[-1].detail}\n{line}")
            continue
        outcome = tap_outcome(match)
        found.append(Result(f"{prefix}{match[2]}", outcome, 0,
                            ("\n".join(said) or output)
                            if outcome in (FAIL, UNSTEADY)
                            else match[3] or "", repeat))
        said = []
    problem = plan_problem(output)
    if found and problem:
        found.append(Result(f"{prefix}keeps to its plan", FAIL, seconds,
                            f"{output}\n{problem}", repeat))
    if status != 0 and not any(r.outcome == FAIL for r in found):
        found.append(Result(f"{prefix}ends well", FAIL, seconds,
                            f"{output}\nexit status {status}", repeat))
    if not found:
        found.append(Result(f"{prefix}says something", FAIL, seconds, output,
                            repeat))
    return found


def side_by_side(tests):
    """Results of (function, arguments...), in their order; two or more run at
    a time, for tests that do not build the same thing."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        running = [pool.submit(*test) for test in tests]
        for result in running:
            yield result.result()


# ---- The stages -----------------------------------------------------------


def tracked(*patterns):
    """Files of the project by pattern, git's or (in an export) all."""
    done = subprocess.run(["git", "-C", REPO, "ls-files", "-co",
                           "--exclude-standard", *patterns],
                          stdout=subprocess.PIPE, text=True, check=False)
    return [name for name in done.stdout.splitlines()
            if os.path.isfile(os.path.join(REPO, name))]


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
        # It ends with 1 if it has found anything; otherwise it has not come to its end.
        if status not in (0, 1):
            found.append(f"{output}\nexit status {status}")
        for file in some if not found else ():
            passed.add(keys[file])
        bad += found
    return Result(name, FAIL if bad or not files else PASS,
                  time.monotonic() - start, "\n".join(bad),
                  shown([*command, *files]))


def if_changed(options, files, test, name, *arguments):
    """test(name, *arguments), whose outcome depends on the arguments and on files
    alone, the checker among them.  If it has passed with these it passes at
    once, but with --long."""
    files = [file for file in files if file and os.path.isfile(
        os.path.join(REPO, file))]
    key = passed.key_of([test.__name__, name, *map(str, arguments)], files,
                        REPO)
    if not options.long and passed.has(key):
        return Result(name, PASS, 0, "unchanged since it passed", "")
    result = test(name, *arguments)
    if result.outcome == PASS:
        passed.add(key)
    return result


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
        (one, "the specification's tables agree with the header",
         [os.path.join(SCRIPTS, "gen-spec-tables"), "--check"]),
        (one, "the tests, functions, files and options of the documents exist",
         [RUN, "check.documents"], 60, None, True),
        (one, "each command of a document has a test, or a reason is known",
         [RUN, "check.commands"], 60, None, True),
        (one, "the table of pools has all that users share",
         [RUN, "check.pools"], 60, None, True),
        (one, "no C function has more than 60 lines",
         [RUN, "check.lengths"], 60, None, True),
        (one, "codespell: documents, manual pages, sources",
         [*lib_shell("codespell_command"), "--quiet-level", "3",
          "--ignore-words-list", SPELT_SO,
          *tracked("*.md", "*.rst", "*.txt", "*.[1-9chs]", "*.py", "*.sh",
                   "scripts/*")], 300, None, True),
        (one, "words: no folder has more phrases to avoid than its ceiling",
         [RUN, "check.words"]),
        *((one, f"layers: no room of the {tree} names anything of a higher one",
           [os.path.join(SCRIPTS, "layers"), "--tree", tree])
          for tree in ("card", "driver")),
        *((one, f"the picture of the {tree}'s rooms is of today",
           [os.path.join(SCRIPTS, "layers"), "--tree", tree, "--check-svg",
            f"docs/rooms-{tree}.svg"]) for tree in ("card", "driver")),
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
    for name, compiler in (("C11", ["gcc", "-std=c11", "-x", "c"]),
                           ("C++17", ["g++", "-std=c++17", "-x", "c++"])):
        yield one(f"the shared headers are {name}",
                  [*compiler, "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
                   "-Iguest-driver/uapi", "-Ihw/net/unetmm/abi", "-include",
                   "linux/unetmm.h", "hw/net/unetmm/abi/unetmm_wire.h"])


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


def one_unit_test(options, env):
    """The test that --test names; a program whose tests have no names runs whole."""
    program, _, name = options.test.partition(": ")
    found = meson_tests(lib_shell("guest_build")[0], 7200,
                        {**env, "UNETMM_TEST": name} if name else env, [program])
    if name and not any(r.name == options.test or r.outcome == FAIL for r in found):
        raise StageError(f"there is no test {options.test}: write PROGRAM or "
                         "PROGRAM: TEST, as the suite prints a failed one")
    yield from found


def stage_unit(options):
    """The core and the library as plain programs."""
    # Each run has its own; by themselves the programs take 1.
    env = {"UNETMM_SEED": os.environ.get("UNETMM_SEED") or
           str(1 + int.from_bytes(os.urandom(4), "little"))}
    if options.long:
        env["UNETMM_LONG"] = "1"
    if options.test:
        yield from one_unit_test(options, env)
        return
    yield from meson_tests(lib_shell("guest_build")[0],
                           7200 if options.long else 1800, env)
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


def stage_s390x(_options):
    """The core's tests where the first byte is the highest one."""
    yield from meson_tests(lib_shell("s390x_build")[0], 7200, {})


def stage_msan(_options):
    """The core's tests and inputs, in which nothing undefined may be used."""
    yield from meson_tests(lib_shell("msan_build")[0], 7200, {})


def stage_threads(_options):
    """The tests of library and provider that have threads, under the thread sanitizer."""
    supp = os.path.join(REPO, "tests", "guest", "lib", "threads.supp")
    yield from meson_tests(lib_shell("threads_build")[0], 1800,
                           # Only an access whose stack is known can be suppressed.
                           {"TSAN_OPTIONS": f"history_size=7:suppressions={supp}"},
                           lib_shell("threads_tests"))


def stage_fuzz(options):
    """scripts/fuzz: the same inputs each time, or an hour of new ones."""
    length = ["--hours", "1"] if options.long else ["--runs", "400", "--seed", "1"]
    for result in side_by_side([
            (one, f"fuzz-{target} finds nothing",
             [os.path.join(SCRIPTS, "fuzz"), *length, target],
             4000 if options.long else 400)
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
              7200 if options.long else 200)


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
        status, output = run(command, 600, env)
        yield from tap_results(f"{name}: ", output, shown(command, env),
                               time.monotonic() - start, status)
    yield shell_test("clang: the card in QEMU, and its qtests", "check_qemu_clang",
                     limit=1800)


def qos_paths(program, env):
    """Of the thousands of tests in qos-test, the card's groups."""
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


def stage_tools(_options):
    """The tools that show the card's state; guests by unetmm.lab and with Python."""
    for name in ("tools", "lab"):
        command = [os.path.join(REPO, "tests", name, "run")]
        start = time.monotonic()
        status, output = run(command, 600)
        yield from tap_results("", output, shown(command),
                               time.monotonic() - start, status)


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


def stage_commands(options):
    """The commands that the documents show."""
    yield from own_runner("commands", options, 3600, talks=True)


def stage_stock(options):
    """The card in the distribution's QEMU."""
    yield from own_runner("stock", options, 900)


def stage_fabtests(options):
    """libfabric's own tests on the provider."""
    yield from own_runner("fabtests", options, 7200)


def stage_mpi(options):
    """scripts/cluster, and MPI on its guests."""
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
    status, output = run(command, 600)
    yield from tap_results("", output, shown(command),
                           time.monotonic() - start, status)


def stage_demo(options):
    """scripts/demo, and checks of its reports.

    Without --long: the first tour, with --virtual as well, and of the others one pair,
    by the seed; the tour mpi takes long.
    """
    pairs = ((("vmmc", vmmc_facts), ("npf", npf_facts)),
             (("netvm", netvm_facts), ("ethernet", ethernet_facts)))
    yield from demo_results("messages", message_facts)
    yield from demo_results("messages", message_facts, ("--virtual",), None)
    for number, pair in enumerate(pairs):
        if options.long or GUEST_SEED % len(pairs) == number:
            for tour, facts in pair:
                yield from demo_results(tour, facts)
    if options.long:
        for tour, facts in (("vmmc", vmmc_facts), ("netvm", netvm_facts),
                            ("npf", npf_facts)):
            yield from demo_results(tour, facts, ("--virtual",), None)
        yield from demo_results("mpi", mpi_facts, (), None)


def demo_results(tour, facts, words=(), limit=300):
    """One tour, and the facts that must be true of its report.

    In virtual time a tour has limits of virtual time, and the host's is no limit.
    """
    with tempfile.TemporaryDirectory() as directory:
        report = os.path.join(directory, "demo.json")
        command = [os.path.join(SCRIPTS, "demo"), "--tour", tour, *words,
                   "--json", report]
        result = one(f"{' '.join(['scripts/demo --tour', tour, *words])} ends well",
                     command, limit)
        yield result
        if result.outcome != PASS:
            return
        with open(report, encoding="utf-8") as file:
            data = json.load(file)
    for name, good in facts(data):
        yield Result(" ".join(["demo:", name, *words]), PASS if good else FAIL, 0,
                     json.dumps(data, indent=1), result.repeat)


def message_facts(data):
    """Whatever the machine's speed."""
    return (
        ("every byte was verified", data["exchange"]["verified"] is True),
        ("messages went both ways", all(
            data["exchange"][way]["messages"] > 0 for way in ("to", "from"))),
        ("the TLB was hit and missed", data["tlb"]["hits"] > 0 and
         data["tlb"]["misses"] > 0),
        ("pages were pinned", data["tlb"]["pins"] > 0),
        ("latencies and bandwidths are there", len(data["figures"]) >= 6),
    )


def vmmc_facts(data):
    """The same of the tour of VMMC."""
    stops = {row["step"]: row for row in data["stops"]}
    return (
        ("all stops were made, and all was right there", len(stops) == 9 and
         not any(row["bad"] for row in stops.values())),
        ("something was copied by a redirection, or nothing had to be",
         0 <= stops["redirection"]["copied"] <= stops["redirection"]["bytes"]),
        ("each way of writing was measured", len(data["ways"]) == 6 and
         all(row["median"] > 0 for row in data["ways"])),
        ("the card fetched for utlb, and not for tlb",
         data["misses"]["utlb"]["fetches"] > 0 and
         not data["misses"]["tlb"]["fetches"] and
         data["misses"]["tlb"]["misses"] > 0),
    )


def netvm_facts(data):
    """The same of the tour of NetVM."""
    stops, mix = data["stops"], data["mix"]
    out = stops["paged-out"]
    return (
        ("all that was written was right", not any(
            row["bad"] for row in stops.values())),
        ("packets for resident pages were not redirected, but for pages that "
         "were changing", stops["resident"]["redirected"] <
         out["redirected"]),
        ("packets for absent pages were redirected, and copied once",
         out["out"] > 0 and out["redirected"] > 0 and
         out["copied"] == out["redirected"]),
        ("the sender was out of credits, and went on",
         out["credit_waits"] > 0),
        ("each way of waiting was measured", len(data["waits"]) == 4 and
         all(row["median"] > 0 for row in data["waits"].values())),
        ("the semaphore let one in at a time, and nobody was left waiting",
         not any(row["bad"] for row in data["syncs"].values())),
        ("tlb missed and pinned; shadow pinned nothing, and pushed",
         mix["tlb"]["misses"] > 0 and mix["tlb"]["pins"] > 0 and
         not mix["shadow"]["pins"] and mix["shadow"]["pushes"] > 0),
        ("shadow missed less than tlb", mix["shadow"]["misses"] <
         mix["tlb"]["misses"]),
    )


def npf_facts(data):
    """The same of the tour of NIC page faults."""
    stops, faults, store = data["stops"], data["faults"], data["storage"]
    points = store["points"]
    return (
        ("all that was moved was right", not any(
            row["bad"] for row in stops.values())),
        ("pages that both cards know cause neither faults nor RNR NACKs",
         not stops["write"]["faults"] and not stops["write"]["rnr"]),
        ("512 pages that were paged out caused 1 to 19 faults", all(
            row["out"] > 0 and 0 < row["faults"] < 20
            for name, row in stops.items() if "out" in name)),
        ("requests to absent pages of the peer were answered by RNR NACKs", all(
            stops[name]["rnr"] > 0
            for name in ("write-out-there", "read-out-there"))),
        ("answers without a place were dropped", all(
            stops[name]["dropped"] > 0
            for name in ("read-out-here", "read-out-here-rewind"))),
        ("each stage was measured", all(
            faults[f"{name}, 4096"] >= 0
            for name in ("card", "interrupt", "wait", "find", "table",
                         "resume"))),
        ("a pinned buffer does not start where all memory is too little, and "
         "one that is not does", points[0]["pinned"] is None and
         points[0]["odp"] is not None),
        ("with more memory both do", all(
            point["pinned"] and point["odp"] for point in points[1:])),
        ("blocks of 64 KiB keep less than a quarter of the buffer resident",
         store["resident"]["odp-64k"] < store["resident"]["pinned-512k"] / 4),
    )


def ethernet_facts(data):
    """The same of the tour of Ethernet."""
    net, cold = data["net"], data["cold"]
    curve = {run["policy"]: run for run in cold["curve"]}
    runs = cold["curve"] + cold["first"]
    return (
        ("the interface is the card's, and the only one",
         ": unetmm," in net["interface"]),
        ("DHCP gave an address", net["lease"].startswith("dhcp") or
         net["lease"][:1].isdigit()),
        ("each ping was answered", net["answers"] == net["pings"] > 0),
        ("every byte of the download was right", net["right"] is True),
        ("every value was right", not any(run["wrong"] for run in runs)),
        ("the backup ring kept the frames that a cold ring would have lost, "
         "and no frame was dropped", all(
             run["backup_packets"] > 0 and not run["drop_absent"] and
             run["done"] for run in cold["first"]
             if run["policy"] == "backup")),
        ("pinned buffers are never absent", not any(
            run["drop_absent"] or run["backup_packets"] for run in runs
            if run["policy"] == "pinned")),
        ("drop lost frames, and answered a tenth of backup at most",
         curve["drop"]["drop_absent"] > 0 and 10 *
         curve["drop"]["operations"] < curve["backup"]["operations"]),
    )


def mpi_facts(data):
    """The same of the tour of MPI; the program has checked the bytes."""
    ways = data["ways"]
    return (
        ("copying takes longer than reading pinned memory", all(
            ways["copy"][f"{operation}, 1048576"] >
            ways["pin"][f"{operation}, 1048576"]
            for operation in ("sendrecv", "bcast", "alltoall"))),
        ("page faults take about the time of the pin-down cache", all(
            time < 1.25 * ways["pin"][name] for name, time in ways["npf"].items()
            if int(name.split()[-1]) >= 32768)),
    )


# For each part; it learns which tests run which lines in that time as well.
MUTATE_MINUTES = "25"


def stage_mutate(_options):
    """tests/mutate/run: a sample of mutants, the same each time."""
    program = os.path.join(REPO, "tests", "mutate", "run")
    yield one("tests/mutate/equivalent.txt has mutants that there are",
              [program, "--check"], 120)
    for part in ("core", "library"):
        result = one(f"unit tests kill as many of the {part}'s mutants as they "
                     "did", [program, "--gate", "--part", part, "--minutes",
                             MUTATE_MINUTES], 7200)
        print("\n".join(line for line in result.detail.splitlines()
                        if " % " in line), flush=True)
        yield result


def stage_package(_options):
    """Debian's packages in a clean root."""
    command = ["bash", "-c", '. "$0/unetmm_tools/build/all.sh"; check_packages', SCRIPTS]
    start = time.monotonic()
    status, output = run(command, 1800)
    yield from tap_results("package: ", output, "scripts/test --only package",
                           time.monotonic() - start, status)


STAGES = {
    "style": (stage_style, ["qemu", "kernel-source"]),
    "unit": (stage_unit, ["unit"]),
    "s390x": (stage_s390x, ["s390x"]),
    "msan": (stage_msan, ["msan"]),
    "threads": (stage_threads, ["threads"]),
    "fuzz": (stage_fuzz, ["fuzz"]),
    "driver": (stage_driver, ["kernel-6.1", "kernel-6.12", "kernel-debug"]),
    "qtest": (stage_qtest, ["qemu", "qtests"]),
    "e2e-6.1": (e2e("6.1", "0/2"), ["qemu", "initramfs-6.1"]),
    "e2e-6.12": (e2e("6.12", "1/2"), ["qemu", "initramfs-6.12"]),
    "e2e-debug": (e2e("debug", "0/3"), ["qemu", "initramfs-debug"]),
    "e2e-newest": (e2e("newest", "1/2"), ["qemu", "initramfs-newest"]),
    "lockstep": (stage_lockstep, ["qemu", "initramfs-6.1", "unit"]),
    "mpi": (stage_mpi, ["qemu", "initramfs-6.1", "unit", "mpi-guest",
            "mpi5-guest"]),
    "commands": (stage_commands, ["qemu", "initramfs-6.1"]),
    "tools": (stage_tools, ["qemu", "initramfs-6.1", "unit", "python-guest"]),
    "fabtests": (stage_fabtests, ["qemu", "initramfs-6.1", "fabtests"]),
    "stock": (stage_stock, ["qemu", "stock", "initramfs-6.1"]),
    "docs": (stage_docs, ["docs"]),
    "demo": (stage_demo, ["qemu", "initramfs-6.1"]),
    "package": (stage_package, ["guest"]),
    "roots": (stage_roots, ["packages"]),
    "mutate": (stage_mutate, ["unit"]),
}

# Those that are run with --long, or when they are named
STAGES_LONG = {"e2e-newest", "fabtests", "msan", "mutate", "package", "roots", "s390x",
               "threads"}


def chosen(options, named):
    """The stages to be run, in their order if none is named."""
    return named or [name for name in STAGES
                     if options.long or name not in STAGES_LONG]


# ---- Running them -----------------------------------------------------------


def show_failure(result):
    """All that is known of a failed test, the way to repeat it last."""
    tail = result.detail.rstrip().splitlines()[-150:]
    print("not ok: " + result.name if result.outcome == FAIL else
          f"unsteady: {result.name} failed, and passed when it was repeated")
    for line in tail:
        print(f"    | {line}")
    print(f"    repeat: {result.repeat}", flush=True)


def unsteady(count):
    """A part of the line with the counts, if there is something to say."""
    return f", {count[UNSTEADY]} unsteady" if count[UNSTEADY] else ""


def left_out(count):
    """The same of variants that --long alone runs."""
    return f", {count[LEFT_OUT]} left out" if count[LEFT_OUT] else ""


def run_stage(name, options):
    """Runs one stage; returns its results."""
    start = time.monotonic()
    results = []
    try:
        for result in STAGES[name][0](options):
            results.append(result)
            if result.outcome in (FAIL, UNSTEADY):
                show_failure(result)
            elif result.name.startswith("words:"):
                # It asks for lower ceilings.
                print(result.detail, end="", flush=True)
    except (StageError, OSError, ValueError, KeyError) as error:
        failed = Result(f"stage {name}", FAIL, 0, str(error) or repr(error),
                        f"scripts/test --only {name}")
        results.append(failed)
        show_failure(failed)
    count = collections.Counter(r.outcome for r in results)
    print(f"{name:10} {count[PASS]:4} passed, {count[FAIL]:3} failed, "
          f"{count[SKIP]:3} skipped{unsteady(count)}{left_out(count)}  "
          f"{time.monotonic() - start:6.1f} s", flush=True)
    for result in results:
        if result.outcome == SKIP:
            print(f"    skipped: {result.name} {result.detail.strip()}")
    return results


def known_unsteady():
    """{test: its cause, as far as it is known}, as UNSTEADY_LIST has it."""
    known = {}
    with open(UNSTEADY_LIST, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            name, _, cause = line.partition(": ")
            if not cause.strip() or name in known:
                raise StageError(f"{os.path.relpath(UNSTEADY_LIST, REPO)}, "
                                 f"line {number}: write TEST: CAUSE, and each "
                                 "test once")
            known[name] = cause.strip()
    return known


def show_unsteady(results, known):
    """A line for each unsteady test; returns how many are not known."""
    found = dict.fromkeys((stage, r.name) for stage, r in results
                          if r.outcome == UNSTEADY)
    for stage, name in found:
        print(f"unsteady in {stage}: {name}: " +
              known.get(name, "not in tests/unsteady.txt; find the cause; "
                        "until then, list the test there with the known facts"))
    return sum(name not in known for _, name in found)


def write_json(path, results):
    """One object a line."""
    with open(path, "w", encoding="utf-8") as file:
        for stage, result in results:
            entry = result._asdict()
            if result.outcome == PASS:
                del entry["detail"]
            file.write(json.dumps({"stage": stage, **entry}) + "\n")


def parse():
    """scripts/test has checked the options."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--test")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--repeat-failed", type=int, default=0)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--targets", nargs="*")
    return parser.parse_args()


def main():
    """Prints stages, targets of scripts/setup, or runs."""
    options = parse()
    if options.list:
        print("\n".join(STAGES))
        return 0
    if options.targets is not None:
        names = chosen(options, options.targets)
        if set(names) - set(STAGES):
            return 1
        targets = [t for name in names for t in STAGES[name][1]]
        print("\n".join(dict.fromkeys(targets)))
        return 0
    try:
        known = known_unsteady()
    except (StageError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    passed.tidy()
    everything = []
    for name in chosen(options, options.only):
        everything += [(name, r) for r in run_stage(name, options)]
    if options.json:
        write_json(options.json, everything)
    count = collections.Counter(r.outcome for _, r in everything)
    if count[LEFT_OUT]:
        print(f"{count[LEFT_OUT]} variants of tests were left out, as the "
              "seeds chose: --long runs them")
    unknown = show_unsteady(everything, known)
    print(f"{count[PASS]} passed, {count[FAIL]} failed, "
          f"{count[SKIP]} skipped")
    return 1 if count[FAIL] or unknown or not count[PASS] else 0


if __name__ == "__main__":
    sys.exit(main())
