# SPDX-License-Identifier: GPL-2.0-or-later
"""Commands that are tests, and how their results are counted.

A test's output is kept in a log file and shown if the test fails.
"""

import collections
import concurrent.futures
import os
import re
import shutil
import subprocess
import tempfile
import time

from unetmm_tools import REPO, SCRIPTS
from unetmm_tools.build import passed

RUN = os.path.join(SCRIPTS, "unetmm_tools", "run")

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


def one(name, command, limit=1200, env=None, clean=False):
    """A command that is one test.  clean: any output is a failure, too."""
    start = time.monotonic()
    status, output = run(command, limit, env)
    good = status == 0 and not (clean and output.strip())
    detail = output if status is not None else f"{output}\nout of time"
    return Result(name, PASS if good else FAIL, time.monotonic() - start,
                  detail, shown(command, env))


def shell_test(name, function, *arguments, limit=1200):
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


def tracked(*patterns):
    """Files of the project by pattern, git's or (in an export) all."""
    done = subprocess.run(["git", "-C", REPO, "ls-files", "-co",
                           "--exclude-standard", *patterns],
                          stdout=subprocess.PIPE, text=True, check=False)
    return [name for name in done.stdout.splitlines()
            if os.path.isfile(os.path.join(REPO, name))]


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
