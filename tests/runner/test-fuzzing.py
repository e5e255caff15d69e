#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""scripts/unetmm_tools/check/fuzzing.py, with programs in the place of fuzzers: inputs that are kept,
a failure, and an end by a signal."""

import json
import os
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
RUN = os.path.join(HERE, "..", "..", "scripts", "unetmm_tools", "run")
# Takes libFuzzer's options; $MODE chooses how it ends.
FUZZER = """\
#!/bin/sh
for word; do case $word in -*) ;; *) kept=${kept:-$word} ;; esac; done
echo input >"$kept/$$"
echo 'stat::number_of_executed_units: 7'
case $MODE in
    fails) echo 'Test unit written to /tmp/an-input'; exit 77 ;;
    waits) trap 'exit 72' TERM; echo >>"$PIPE"; while :; do sleep 0.05; done ;;
esac
"""


def start(directory, mode, *options, **more):
    """The runner with two such programs, side by side."""
    program = os.path.join(directory, "fuzzer")
    if not os.path.exists(program):
        with open(program, "w", encoding="utf-8") as file:
            file.write(FUZZER)
        os.chmod(program, 0o755)
    return subprocess.Popen(
        [RUN, "check.fuzzing", "--build", os.path.join(directory, "build"),
         "--cache", os.path.join(directory, "cache"), "--seed", "3", "--jobs", "2",
         *options, "run", "one", program, "-max_len=9", "+", "two", program],
        env={**os.environ, "MODE": mode, **more}, stderr=subprocess.PIPE, text=True)


def outcomes(directory):
    """Those of all runs, in their order."""
    with open(os.path.join(directory, "cache", "runs.json"), encoding="utf-8") as file:
        return sorted((run["target"], run["outcome"], run["inputs"])
                      for run in map(json.loads, file))


def kept(directory, name):
    """How many inputs are kept."""
    return len(os.listdir(os.path.join(directory, "cache", "kept", name)))


def inputs_are_kept(directory):
    """Those of a run with a time; of one with a number only the first are wanted."""
    for number in (1, 2):
        process = start(directory, "ends", "--seconds", "5")
        said = process.communicate(timeout=60)[1]
        assert process.returncode == 0 and "fuzz-one: 7 inputs" in said, said
        assert kept(directory, "one") == kept(directory, "two") == number
    process = start(directory, "ends", "--runs", "5")
    process.communicate(timeout=60)
    assert process.returncode == 0 and kept(directory, "one") == 2
    assert outcomes(directory) == [("one", "ended", 7)] * 3 + [("two", "ended", 7)] * 3


def a_failure_is_told(directory):
    """With the command that repeats it."""
    process = start(directory, "fails", "--seconds", "5")
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 1, said
    assert "fuzzer -max_len=9 /tmp/an-input" in said and \
        outcomes(directory)[0][1] == "failed", said


def coverage_names_the_input(directory):
    """An input that fails during a measurement: the program's last lines are shown."""
    program = os.path.join(directory, "replay")
    with open(program, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\necho '# kept/one/an-input'\necho 'stray write'\nexit 1\n")
    os.chmod(program, 0o755)
    done = subprocess.run(
        [RUN, "check.fuzzing", "--build", directory, "--cache", directory,
         "coverage", "one", program], stderr=subprocess.PIPE, text=True, timeout=60,
        check=False)
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    assert "kept/one/an-input\nstray write" in done.stderr, done.stderr


def a_signal_ends_all(directory):
    """Each signal; the inputs of both programs stay."""
    pipe = os.path.join(directory, "pipe")
    os.mkfifo(pipe)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        process = start(directory, "waits", "--seconds", "500", PIPE=pipe)
        with open(pipe, encoding="utf-8") as file:
            # Both have begun.
            lines = ""
            while lines.count("\n") < 2:
                lines += file.read() or ""
        process.send_signal(number)
        said = process.communicate(timeout=60)[1]
        assert process.returncode == 130, (process.returncode, said)
        assert not [run for run in outcomes(directory) if run[1] != "stopped"]
    assert kept(directory, "one") == 3


TESTS = (inputs_are_kept, a_failure_is_told, coverage_names_the_input, a_signal_ends_all)


def main():
    """TAP."""
    failed = 0
    print(f"1..{len(TESTS)}")
    for number, test in enumerate(TESTS, 1):
        with tempfile.TemporaryDirectory(prefix="unetmm-") as directory:
            try:
                test(directory)
                print(f"ok {number} - {test.__name__}")
            except (AssertionError, OSError, subprocess.SubprocessError) as error:
                failed += 1
                print(f"not ok {number} - {test.__name__}")
                print(f"# {error!r}".replace("\n", "\n# "))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
