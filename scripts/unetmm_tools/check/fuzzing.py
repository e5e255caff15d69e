# SPDX-License-Identifier: GPL-2.0-or-later
"""Run fuzz targets for scripts/fuzz, and measure the coverage of their inputs.

usage: fuzzing.py --build DIR --cache DIR (--seconds N | --runs N) --seed N
                  [--jobs N] run NAME PROGRAM [ARGUMENT]... [+ NAME ...]...
       fuzzing.py --build DIR --cache DIR coverage NAME PROGRAM [+ NAME ...]...

The inputs that a timed run finds stay in DIR/kept/NAME, where the next run starts
from them.  CACHE/runs.json has a line for each run: inputs, processor seconds,
outcome.  coverage runs all inputs, writes CACHE/coverage.json, and prints a line
for each file.
"""

import argparse
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from unetmm_tools import REPO

REGRESS = os.path.join(REPO, "tests", "fuzz", "regress")
# In the build directory
SEEDS = os.path.join("tests", "fuzz", "corpus")
# The parts whose coverage is printed, by folder
PARTS = {"core": "hw/net/unetmm/", "provider": "guest-lib/provider/"}
INTERRUPTED = 72                # exit status of libFuzzer


class Stopped(Exception):
    """A signal asks for the end."""


def note(text):
    """A line for the user."""
    print(text, file=sys.stderr, flush=True)


def end_with_parent():
    """No fuzzer outlives this program, even if SIGKILL ends it."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def number_of(log, name):
    """A figure that libFuzzer has printed at its end."""
    found = re.findall(rf"^stat::{name}: *(\d+)", log, re.MULTILINE)
    return int(found[-1]) if found else 0


class Run:
    """A fuzzer that is running."""

    def __init__(self, options, name, words):
        self.name, self.words = name, words
        self.kept = os.path.join(options.cache, "kept", name)
        self.failed = os.path.join(options.cache, "failed", name)
        self.log = os.path.join(options.build, f"fuzz-{name}.log")
        self.start = time.monotonic()
        command = words
        if options.runs:
            # Inputs that earlier runs have kept differ from machine to machine,
            # and libFuzzer's records of comparisons with the layout of memory.
            self.kept = os.path.join(options.build, f"fuzz-{name}.new")
            shutil.rmtree(self.kept, ignore_errors=True)
            if not subprocess.run(["setarch", "-R", "true"], check=False,
                                  stderr=subprocess.DEVNULL).returncode:
                command = ["setarch", "-R", *words]
            self.length, limit = f"-runs={options.runs}", 120
        else:
            # libFuzzer takes the time of one input by the wall clock, and a long run
            # may be beside other work.
            self.length, limit = f"-max_total_time={options.seconds}", 1200
        for directory in (options.build, self.kept, self.failed):
            os.makedirs(directory, exist_ok=True)
        self.before = len(os.listdir(self.kept))
        seeds = os.path.join(options.build, SEEDS, name)
        self.seeds = len(os.listdir(seeds)) if os.path.isdir(seeds) else 0
        note(f"fuzz-{name}: {self.length.lstrip('-')}, seed {options.seed}")
        with open(self.log, "wb") as log:
            # A group of its own: Ctrl-C comes to this program alone.
            self.process = subprocess.Popen(    # pylint: disable=R1732
                [*command, f"-seed={options.seed}", self.length, f"-timeout={limit}",
                 "-rss_limit_mb=2048", "-print_final_stats=1", "-verbosity=0",
                 f"-artifact_prefix={self.failed}/", self.kept,
                 *([seeds] if self.seeds else [])],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True, preexec_fn=end_with_parent)

    def end(self, options, seconds):
        """Says how it ended; false if an input failed."""
        with open(self.log, encoding="utf-8", errors="replace") as file:
            log = file.read()
        inputs = number_of(log, "number_of_executed_units")
        new = len(os.listdir(self.kept)) - self.before
        status = self.process.returncode
        good = status in (0, INTERRUPTED)
        with open(os.path.join(options.cache, "runs.json"), "a",
                  encoding="utf-8") as file:
            file.write(json.dumps({
                "target": self.name, "seed": options.seed, "length": self.length,
                "inputs": inputs, "new": new, "processor_s": round(seconds, 1),
                "elapsed_s": round(time.monotonic() - self.start, 1),
                "outcome": {0: "ended", INTERRUPTED: "stopped"}.get(
                    status, "failed")}) + "\n")
        if good:
            note(f"fuzz-{self.name}: {inputs} inputs, {new} new ones kept, "
                 f"{seconds:.0f} s of a processor, no failure")
            if inputs <= self.seeds + self.before and not options.runs:
                note(f"fuzz-{self.name}: the time ended before the first new "
                     "input; give it more")
            return True
        note("\n".join(log.splitlines()[-60:]))
        written = re.findall(r"Test unit written to (.*)", log)
        note(f"fuzz-{self.name}: FAILED, the whole log is {self.log}")
        note(f"repeat: {' '.join(self.words)} " +
             (written[-1] if written else "(no input was kept)"))
        return False


def stop(_signal, _frame):
    """Ends the program by way of main()."""
    raise Stopped


def wait_for_one(options, running):
    """Waits for the end of one of the fuzzers; false if an input failed."""
    pid, status, usage = os.wait4(-1, 0)
    run = next((run for run in running if run.process.pid == pid), None)
    if not run:
        return True
    running.remove(run)
    run.process.returncode = os.waitstatus_to_exitcode(status)
    return run.end(options, usage.ru_utime + usage.ru_stime)


def run_all(options, targets):
    """The exit status."""
    running, waiting, good = [], list(targets), True
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    try:
        while running or waiting:
            while waiting and len(running) < options.jobs:
                running.append(Run(options, *waiting.pop(0)))
            good &= wait_for_one(options, running)
    except Stopped:
        note("fuzz: stopping; the same command goes on from the kept inputs")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        for run in running:
            run.process.terminate()
        while running:
            wait_for_one(options, running)
        return 130
    return 0 if good else 1


# ---- Coverage ---------------------------------------------------------------------


def tool(name):
    """A program of the LLVM that the compiler belongs to."""
    done = subprocess.run(["clang", f"-print-prog-name={name}"], check=True,
                          stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def profile(options, name, program):
    """Runs all inputs of a target; returns the file with the counts, or None."""
    raw = os.path.join(options.build, f"{name}.profraw")
    inputs = [path for path in (
        os.path.join(options.build, SEEDS, name), os.path.join(REGRESS, name),
        os.path.join(options.cache, "kept", name)) if os.path.isdir(path)]
    path = os.path.join(options.build, f"{name}.log")
    with open(path, "wb") as log:
        done = subprocess.run([program, *inputs], check=False, stdout=log, stderr=log,
                              env={**os.environ, "LLVM_PROFILE_FILE": raw})
    if not done.returncode:
        return raw
    # The program has named each input before it ran it.
    with open(path, encoding="utf-8", errors="replace") as log:
        note("\n".join(log.read().splitlines()[-60:]))
    note(f"fuzz-{name}: FAILED, the whole log is {path}; the last input that it "
         "names has failed")
    return None


def lines_of(text):
    """{file: {line: runs}} of lcov's format."""
    found, file = {}, None
    for line in text.splitlines():
        if line.startswith("SF:"):
            name = os.path.relpath(line[3:], REPO)
            file = found.setdefault(name, {})
        elif line.startswith("DA:"):
            number, runs = line[3:].split(",")[:2]
            file[int(number)] = file.get(int(number), 0) + int(runs)
    return found


def figures(lines):
    """The number of lines with code, of those that ran, and the others."""
    missing = sorted(number for number, runs in lines.items() if not runs)
    return {"lines": len(lines), "run": len(lines) - len(missing),
            "missing": missing}


def show(name, entry):
    """One line of the table."""
    share = 100.0 * entry["run"] / max(1, entry["lines"])
    print(f"{share:6.1f} %  {entry['run']:6} of {entry['lines']:6}  {name}")


def coverage(options, targets):
    """Prints the table, and writes it."""
    raw = [profile(options, name, words[0]) for name, words in targets]
    if None in raw:
        return 1
    merged = os.path.join(options.build, "all.profdata")
    subprocess.run([tool("llvm-profdata"), "merge", "-sparse", *raw, "-o", merged],
                   check=True)
    objects = [word for _, words in targets[1:] for word in ("-object", words[0])]
    done = subprocess.run(
        [tool("llvm-cov"), "export", "-format=lcov", f"-instr-profile={merged}",
         targets[0][1][0], *objects], check=True, stdout=subprocess.PIPE, text=True)
    found = {name: figures(lines) for name, lines in lines_of(done.stdout).items()
             if name.endswith(".c")}
    parts = {}
    for part, place in PARTS.items():
        mine = {name: entry for name, entry in sorted(found.items())
                if name.startswith(place)}
        if not mine:
            continue
        for name, entry in mine.items():
            show(name, entry)
        parts[part] = {key: sum(entry[key] for entry in mine.values())
                       for key in ("lines", "run")}
        show(f"all of the {part}", parts[part])
    path = os.path.join(options.cache, "coverage.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"parts": parts, "files": found}, file, indent=1)
    note(f"coverage: {path} has the lines that no input runs")
    return 0


def split(words):
    """(name, program and arguments) of each target."""
    targets = [[]]
    for word in words:
        if word == "+":
            targets.append([])
        else:
            targets[-1].append(word)
    return [(target[0], target[1:]) for target in targets]


def main():
    """Runs or measures."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("command", choices=("run", "coverage"))
    parser.add_argument("--build", required=True)
    parser.add_argument("--cache", required=True)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--runs", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("targets", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    os.makedirs(options.cache, exist_ok=True)
    targets = split(options.targets)
    if options.command == "coverage":
        return coverage(options, targets)
    return run_all(options, targets)


if __name__ == "__main__":
    sys.exit(main())
