#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The runners of tests, tests/e2e/run and those of unetmm_tools/check, on output that is
made up: whatever a program says or leaves out must not look like success.

usage: test-runner.py SOURCE-ROOT
"""
import argparse
import contextlib
import glob
import importlib.machinery
import importlib.util
import io
import itertools
import os
import subprocess
import sys
import tempfile
from unittest import mock

sys.dont_write_bytecode = True
ROOT = os.path.realpath(sys.argv[1])


def load(name, *path):
    """A file of Python, whatever its name, as a module."""
    path = os.path.join(ROOT, *path)
    loader = importlib.machinery.SourceFileLoader(name, path)
    module = importlib.util.module_from_spec(
        importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


sys.path.insert(0, os.path.join(ROOT, "scripts"))
from unetmm_tools.build import passed  # noqa: E402  (of this checkout)
from unetmm_tools.check import commands, runner, stages, suite, taptests  # noqa: E402
from unetmm_tools.guest import vm  # noqa: E402
run = load("e2e_run", "tests", "e2e", "run")

GOOD = """\
# program vm
1..2
# vm --seed 7
ok 1 - vm.one.tlb # 0.1 s
ok 2 - vm.two.tlb # 0.2 s
# status 0
"""


# ---- tests/e2e/run --------------------------------------------------------------


def outcomes(text):
    """{name: outcome} of the output of a guest's script."""
    return {r.name: r.outcome for r in run.read_results("one", text)}


def failures(text):
    """The names of the tests that have failed."""
    return sorted(name for name, outcome in outcomes(text).items()
                  if outcome == "failed")


def a_good_program_passes():
    assert outcomes(GOOD) == {"vm.one.tlb": "passed", "vm.two.tlb": "passed"}
    both = GOOD + GOOD.replace("vm", "reap")
    assert len(outcomes(both)) == 4 and not failures(both), outcomes(both)


def a_program_must_end_as_its_tests_say():
    """It may have crashed behind its last test, or not be there at all."""
    for status in (1, 2, 127, 134, 139):
        text = GOOD.replace("# status 0", f"# status {status}")
        assert failures(text) == ["vm.ends-well"], (status, outcomes(text))
        text = text.replace("vm", "first") + GOOD
        assert failures(text) == ["first.ends-well"], outcomes(text)
    text = GOOD.replace("ok 2", "not ok 2")
    assert failures(text) == ["vm.ends-well", "vm.two.tlb"], outcomes(text)
    text = text.replace("# status 0", "# status 1")
    assert failures(text) == ["vm.two.tlb"], outcomes(text)


def a_program_must_keep_to_its_plan():
    lines = GOOD.splitlines(keepends=True)
    for missing, name in ((1, "vm.starts"), (3, "vm.comes-to-its-end"),
                          (4, "vm.comes-to-its-end"),
                          (5, "vm.comes-to-its-end")):
        text = "".join(lines[:missing] + lines[missing + 1:])
        assert failures(text) == [name], (missing, outcomes(text))
    text = GOOD.replace("1..2", "1..1")
    assert failures(text) == ["vm.keeps-to-its-plan"], outcomes(text)
    text = "# program vm\nsh: ./vm: not found\n# status 127\n"
    assert failures(text) == ["vm.starts"], outcomes(text)
    text = "# program vm\n1..0\n# status 0\n"
    assert not outcomes(text), outcomes(text)


def the_script_asks_for_each_status():
    options = argparse.Namespace(seed=1, kernel="6.1", long=False, only=None,
                                 turn=None)
    text = run.script([run.Call("vm"), run.Call("reap")], options, "stream")
    lines = text.splitlines()
    for program in ("vm", "reap"):
        at = next(i for i, line in enumerate(lines)
                  if line.startswith(f"./{program} "))
        assert "# program " + program in lines[at - 1], lines[at - 1]
        assert "# status $?" in lines[at + 1], lines[at + 1]


def a_program_that_others_need_has_no_turn():
    options = argparse.Namespace(seed=1, kernel="6.1", long=False, only=None,
                                 turn="1/2")
    servers = {call.program for kernel in ("6.1", "6.12", "debug")
               for boot in run.boots(kernel) for call in boot.calls_b}
    assert servers and servers | {"stop"} == set(run.NO_TURN), servers
    text = run.script([run.Call(name) for name in ("vm", *run.NO_TURN)],
                      options, "stream")
    assert [line.split()[0] for line in text.splitlines()
            if "--turn 1/2" in line] == ["./vm"], text


def what_is_left_out_is_counted():
    text = GOOD.replace("ok 2 - vm.two.tlb # 0.2 s",
                        "ok 2 - vm.two.tlb # SKIP left out: the seed chose "
                        "others")
    assert outcomes(text) == {"vm.one.tlb": "passed",
                              "vm.two.tlb": "left out"}, outcomes(text)


SKIPS = """\
# kernels  tests          why
6.1        one/vm.two.*   # it is not there
6.1,debug  one/vm.t*      # the same
"""


def judged(kernel, name, outcome="skipped"):
    """The outcome of a test by the list above."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(SKIPS)
        file.flush()
        result = run.Result("one", name, outcome, "no such thing")
        run.judge_skip(result, run.read_skips(kernel, file.name))
    return result.outcome


def a_skip_must_be_allowed_on_its_kernel():
    assert judged("6.1", "vm.two.tlb") == "skipped"
    assert judged("debug", "vm.two.tlb") == "skipped"
    assert judged("6.12", "vm.two.tlb") == "failed"
    assert judged("6.1", "vm.one.tlb") == "failed"
    assert judged("6.12", "vm.one.tlb", "passed") == "passed"
    assert judged("6.12", "vm.one.tlb", "left out") == "left out"


def an_expected_complaint_is_expected_once():
    """An announced complaint may come once, and must come."""
    text = "the card has failed and needs a reset: a command does not complete"
    says = f"unetmm: {text}"
    announced = f"unetmm-test expects: {text.removesuffix(' does not complete')}"
    assert run.complaints([says]) == [says]
    assert not run.complaints([announced, says], True)
    assert run.complaints([says, announced]) == [says]
    assert len(run.complaints([announced, says, says])) == 1
    assert not run.complaints([announced])
    assert len(run.complaints([announced], True)) == 1
    assert len(run.complaints([announced, "WARNING: CPU: 0"])) == 1


def the_list_of_skips_can_be_read():
    """Kernels that there are, programs that there are, a reason for each."""
    path = os.path.join(ROOT, "tests", "e2e", "skips.txt")
    with open(path, encoding="utf-8") as file:
        lines = [line for line in file if line.split("#")[0].strip()]
    for line in lines:
        words, _, reason = line.partition("#")
        kernels, pattern = words.split()
        assert set(kernels.split(",")) <= {"6.1", "6.12", "debug"}, line
        assert len(reason.strip()) > 10, line
        program = pattern.rpartition("/")[2].partition(".")[0]
        assert glob.glob(os.path.join(ROOT, "tests/guest/*", program + ".c")), line
        boots = {boot.name for kernel in kernels.split(",")
                 for boot in run.boots(kernel)
                 if program in [call.program for call in boot.calls_a]}
        assert any(run.fnmatch.fnmatchcase(f"{boot}/{program}.",
                                           pattern.partition(".")[0] + ".")
                   for boot in boots), (line, boots)


# ---- unetmm_tools/check -----------------------------------------------------------


def tap(text, status=0):
    """{name: outcome} as scripts/test takes it."""
    return {r.name: r.outcome
            for r in runner.tap_results("t: ", text, "again", 0, status)}


def scripts_test_checks_the_plan():
    good = "1..2\nok 1 - a\nok 2 - b\n"
    assert tap(good) == {"t: a": "passed", "t: b": "passed"}
    assert tap("ok 1 /a\nok 2 /b\n1..2\n") == {"t: /a": "passed",
                                               "t: /b": "passed"}
    for bad in (good.replace("1..2\n", ""), good.replace("1..2", "1..3"),
                good.replace("1..2", "1..1"), good[:-len("ok 2 - b\n")]):
        assert tap(bad).get("t: keeps to its plan") == "failed", (bad,
                                                                  tap(bad))
    assert tap("") == {"t: says something": "failed"}
    assert tap(good, 1)["t: ends well"] == "failed"


def subtests_have_plans_of_their_own():
    text = ("1..1\n# Subtest: a\n    1..2\n    ok 1 x\n    ok 2 y\n"
            "ok 1 a\n")
    assert "failed" not in tap(text).values(), tap(text)
    text = text.replace("    ok 2 y\n", "")
    assert tap(text)["t: keeps to its plan"] == "failed", tap(text)


def scripts_test_tells_skips_apart():
    text = ("1..4\nok 1 - a # SKIP no such kernel\nok 2 - b # SKIP left out: "
            "by chance\nok 3 - c # UNSTEADY: failed\nok 4 - d # 0.1 s\n")
    assert list(tap(text).values()) == ["skipped", "left out", "unsteady",
                                        "passed"], tap(text)


def a_failed_unit_test_is_repeated_alone():
    entry = {"name": "core-x", "result": "FAIL", "duration": 1,
             "command": ["/build/test_x"], "env": {"CMOCKA_MESSAGE_OUTPUT": "TAP"},
             "stdout": "1..2\nok 1 - test_a\nnot ok 2 - test_b\n"}
    seed = {"UNETMM_SEED": "7"}
    alone = "UNETMM_SEED=7 UNETMM_TEST=test_b /build/test_x"
    whole = "UNETMM_SEED=7 /build/test_x"

    def repeats(**changes):
        return [r.repeat for r in
                stages.program_results({**entry, **changes}, seed)
                if r.outcome == "failed"]

    assert repeats() == [alone], repeats()
    assert repeats(env={}) == [whole]
    # Where a card moves depends on the tests before.
    moved = {**entry["env"], "UNETMM_MIGRATE": "7"}
    assert repeats(env=moved) == ["UNETMM_SEED=7 UNETMM_MIGRATE=7 /build/test_x"]
    # The program ended within a test, or before the first.
    assert repeats(stdout="1..2\nok 1 - test_a\n") == [whole]
    assert repeats(stdout="") == [whole]
    assert not repeats(stdout="", result="OK")


def a_test_that_is_not_there_is_no_success():
    """cmocka has run none then, and is content."""
    entry = {"name": "core-x", "result": "OK", "duration": 1,
             "command": ["/build/test_x"], "env": {}, "stdout": "1..0\n"}
    keep = stages.meson_tests, stages.lib_shell
    stages.lib_shell = lambda *_: ["/build"]
    stages.meson_tests = lambda build, limit, env, programs: \
        stages.program_results(entry, env)
    try:
        for name, good in (("core-x: test_a", True), ("core-x: test_b", False)):
            entry["stdout"] = "1..1\nok 1 - test_a\n" if good else "1..0\n"
            try:
                list(stages.one_unit_test(name, {}))
                assert good, name
            except runner.StageError:
                assert not good, name
    finally:
        stages.meson_tests, stages.lib_shell = keep


def each_test_that_is_named_runs():
    keep = stages.one_unit_test
    stages.one_unit_test = lambda name, env: [name]
    try:
        found = list(stages.stage_unit(argparse.Namespace(test=["a: x", "b"], long=False)))
        assert found == ["a: x", "b"], found
    finally:
        stages.one_unit_test = keep


def a_failed_build_fails_its_stages_alone():
    """The others run, and the reason is shown; scripts/setup says it for scripts/test."""
    good = runner.Result("fine", "passed", 0, "", "")
    keep, argv, said = suite.STAGES, sys.argv, io.StringIO()
    suite.STAGES = {"bad": (lambda _: [good], ["no-such-target"]), "good": (lambda _: [good], [])}
    sys.argv = ["suite"]
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()):
            status = suite.main()
    finally:
        suite.STAGES, sys.argv = keep, argv
    said = said.getvalue()
    assert status == 1 and said.endswith("1 passed, 1 failed, 0 skipped\n"), said
    assert "setup no-such-target failed: no such target: no-such-target" in said, said


def the_list_of_unsteady_tests_may_be_empty():
    """With nothing but comments each test that is unsteady is unknown."""
    unsteady = runner.Result("one/keep.truncated", "unsteady", 0, "", "")
    where = suite.UNSTEADY_LIST
    with tempfile.NamedTemporaryFile("w") as listed:
        suite.UNSTEADY_LIST = listed.name
        for text, unknown in (("# none\n\n", 1), ("one/other: x\n", 1),
                              (f"{unsteady.name}: found\n", 0)):
            listed.seek(0)
            listed.truncate()
            listed.write(text)
            listed.flush()
            known = suite.known_unsteady()
            with contextlib.redirect_stdout(io.StringIO()):
                found = suite.show_unsteady([("e2e", unsteady)], known)
            assert found == unknown, (text, found)
        suite.UNSTEADY_LIST = where


def a_fuzzer_that_is_not_there_is_skipped():
    stages.lib_shell = lambda *_: ["no"]
    found = list(stages.fuzz_qemu(argparse.Namespace(long=False)))
    assert [r.outcome for r in found] == ["skipped"], found
    assert "scripts/setup qemu-fuzz" in found[0].detail, found


# ---- unetmm_tools/guest/vm.py -----------------------------------------------------


def a_wire_has_two_ends():
    """Each one's remote address is the other's own; mistakes get a sentence."""
    ends = [dict(word.split("=") for word in
                 vm.netdev_value(f"wire:/tmp/w,,x,{end}".replace(",,", ","),
                                 "n0").replace(",,", ";").split(",")[1:])
            for end in (1, 2)]
    assert ends[0]["local.path"] == ends[1]["remote.path"] == "/tmp/w;x.1"
    assert ends[1]["local.path"] == ends[0]["remote.path"] == "/tmp/w;x.2"
    macs = {vm.derive_mac(vm.parse_options(["--netdev", f"wire:/tmp/w,{end}"]),
                          "unetmm") for end in (1, 2)}
    assert len(macs) == 2, macs
    for wrong in ("wire:", "wire:,1", "wire:/tmp/w", "wire:/tmp/w,3",
                  "wire:" + 106 * "x" + ",1"):
        try:
            raise AssertionError(vm.netdev_value(wrong, "n0"))
        except vm.VmError as error:
            assert "wire:PATH,1" in str(error), error


def vm_ends_as_its_script_does():
    """Of the words that QEMU copies the last status counts; QEMU's own comes first."""
    program = ("import os, sys\n"
               "from unetmm_tools.guest import vm\n"
               "ends = os.pipe()\n"
               "command = ['sh', '-c', f'printf \"$0\" >/proc/self/fd/{ends[1]};'\n"
               "           'exit $1', *sys.argv[1:]]\n"
               "try:\n"
               "    sys.exit(vm.watch(command, [ends[1]], ends[0]))\n"
               "except vm.VmError as error:\n"
               "    sys.exit(f'error: {error}')\n")
    for said, code, expected in (
            ("a\r\nunetmm-run-status 42\r\n", 0, 42),
            ("unetmm-run-status 0\n", 0, 0),
            ("no end of lineunetmm-run-status 255\n", 0, 255),
            ("unetmm-run-status 3\r\n\xc3" + 3000 * "more\n", 0, 3),
            ("unetmm-run-status 3\nunetmm-run-status 0\n", 0, 0),
            (3000 * "words " + "unetmm-run-status 1\n", 0, 1),
            ("unetmm-run-status 0\n", 9, 9),
            ("unetmm-run-status 1", 0, None), ("", 0, None)):
        done = subprocess.run(
            [sys.executable, "-c", program, said, str(code)], text=True, check=False,
            capture_output=True, env=dict(os.environ, PYTHONPATH=os.path.join(ROOT, "scripts")), timeout=60)
        assert done.returncode == (1 if expected is None else expected), (said, done)
        assert ("before its script" in done.stderr) == (expected is None), done
    done = subprocess.run(
        [sys.executable, "-c", program.replace("exit $1", "kill -9 $$"), "", "0"],
        env=dict(os.environ, PYTHONPATH=os.path.join(ROOT, "scripts")), timeout=60, check=False)
    assert done.returncode == 128 + 9, done


def each_boot_has_a_turn():
    """On one of two kernels, or with one of three seeds."""
    def booted(kernel, seed, **more):
        options = argparse.Namespace(**{
            "kernel": kernel, "seed": seed, "turn": "0/3", "long": False,
            "only": None, **more})
        return {boot.name for boot in run.boots(kernel)
                if run.has_turn(boot, options)}

    def all_of(kernel):
        return {boot.name for boot in run.boots(kernel)}

    assert set(run.BOOT_TURNS) <= all_of("6.1") & all_of("6.12")
    assert booted("6.1", 1) | booted("6.12", 1) == \
        all_of("6.1") | all_of("6.12")
    assert booted("6.1", 1) != all_of("6.1")
    groups = [booted("debug", seed) for seed in (1, 4, 7)]
    assert set.union(*groups) == all_of("debug")
    assert sum(map(len, groups)) == len(all_of("debug"))
    assert booted("debug", 0) == booted("debug", 2) == groups[0]
    assert [booted("debug", 6 * n + 5, turn="0/6") for n in range(3)] == groups
    for kernel in ("6.1", "6.12", "debug"):
        for more in ({"turn": None}, {"long": True}, {"only": "one/vm"}):
            assert booted(kernel, 1, **more) == all_of(kernel), (kernel, more)


def a_check_that_passed_is_not_repeated():
    """Until one of its files changes; one that failed is, and --long repeats all."""
    def check(name, outcome):
        calls.append(name)
        return runner.Result(name, outcome, 0, "", "")

    def called(outcome, long=False):
        before = len(calls)
        result = runner.if_changed(argparse.Namespace(long=long), [file.name],
                                  check, "a check", outcome)
        assert result.outcome == outcome, result
        return len(calls) - before

    calls, cache = [], passed.CACHE
    with tempfile.TemporaryDirectory() as directory, \
            tempfile.NamedTemporaryFile("w") as file:
        passed.CACHE = os.path.join(directory, "passed")
        try:
            assert [called("passed"), called("passed")] == [1, 0]
            assert called("passed", long=True) == 1
            file.write("changed")
            file.flush()
            assert [called("passed"), called("passed")] == [1, 0]
            assert [called("failed"), called("failed")] == [1, 1]
            for entry in os.scandir(passed.CACHE):
                os.utime(entry.path, (1, 1))
            passed.tidy()
            assert called("passed") == 1
        finally:
            passed.CACHE = cache


class Running:
    """A program that says a word after each of some seconds, and ends after the last."""

    def __init__(self, seconds):
        self.now, self.seconds, self.killed = 0, list(seconds), False
        self.file = tempfile.TemporaryFile("w")     # pylint: disable=R1732

    def wait(self, seconds):
        """Until it ends, or so many seconds."""
        self.now += seconds
        if self.seconds and self.now >= self.seconds[0]:
            self.now -= self.seconds.pop(0)
            self.file.write("word\n")
            self.file.flush()
        if self.seconds:
            raise subprocess.TimeoutExpired("x", seconds)
        return 3

    def kill(self):
        """It is out of time."""
        self.killed = True


def a_limit_may_be_one_of_silence():
    """Of the others the time in all is limited; None: it has limits of its own."""
    for seconds, limit, talks, status in (
            ([9, 9, 9], 10, True, 3), ([9, 9, 9], 10, False, None),
            ([9, 13, 9], 10, True, None), ([5, 4], 10, False, 3),
            ([900, 900], None, False, 3)):
        program, clock = Running(seconds), itertools.count()
        with mock.patch.object(runner.time, "monotonic", lambda: next(clock)):
            found = runner.wait_for(program, limit, program.file, talks)
        program.file.close()
        assert found == status and program.killed == (status is None), seconds


def commands_of_pages_are_found():
    """Those of blocks of code that begin with a program of ours."""
    def found(code, text):
        return [command for command in map(commands.command_of, code(text)) if command]

    assert found(commands.rst_code, "Text::\n\n  scripts/vm --id 1   # one\n  ls\n\n"
                 "  $ unetmm-stat\n\nscripts/vm is text.\n\n.. code::\n\n"
                 "   sudo scripts/x\nscripts/not\n") == \
        ["scripts/vm --id 1", "unetmm-stat", "sudo scripts/x"]
    assert found(commands.markdown_code, "scripts/a\n```\nscripts/b\n```\nscripts/c"
                 ) == ["scripts/b"]
    assert found(commands.manual_code, ".EX\nunetmm-bw \\-\\-listen\n.EE\nunetmm-x\n"
                 ) == ["unetmm-bw --listen"]


def what_runs_a_command_must_exist():
    for how in ("run", "not: a reason", "stage: demo", "tests/commands/run: kv",
                "tests/tools/run: gdb_miss"):
        assert commands.problem_of(how) is None, how
    for how in ("not", "not: ", "stage: none", "tests/commands/run: none", "tests/none: x",
                "tests/commands/run"):
        assert commands.problem_of(how), how


TESTS = [a_limit_may_be_one_of_silence, commands_of_pages_are_found,
         what_runs_a_command_must_exist, a_program_that_others_need_has_no_turn, each_boot_has_a_turn, a_check_that_passed_is_not_repeated, a_wire_has_two_ends,
         vm_ends_as_its_script_does, a_good_program_passes, a_program_must_end_as_its_tests_say,
         a_program_must_keep_to_its_plan, the_script_asks_for_each_status,
         what_is_left_out_is_counted, a_skip_must_be_allowed_on_its_kernel,
         an_expected_complaint_is_expected_once,
         the_list_of_skips_can_be_read, scripts_test_checks_the_plan,
         subtests_have_plans_of_their_own, scripts_test_tells_skips_apart,
         a_failed_unit_test_is_repeated_alone,
         a_test_that_is_not_there_is_no_success, each_test_that_is_named_runs,
         a_failed_build_fails_its_stages_alone,
         the_list_of_unsteady_tests_may_be_empty,
         a_fuzzer_that_is_not_there_is_skipped]

sys.exit(taptests.plain(TESTS))
