# SPDX-License-Identifier: GPL-2.0-or-later
"""scripts/test: runs stages and adds up their results; failed tests are shown.

A new stage is a function in stages.py, a row of STAGES here, a line in usage() of scripts/test
and a row of docs/testing.rst.
"""

import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
import time

from unetmm_tools import REPO, SCRIPTS
from unetmm_tools.build import passed
from unetmm_tools.check.demo import stage_demo
from unetmm_tools.check.runner import FAIL, LEFT_OUT, PASS, SKIP, UNSTEADY, Result, StageError
from unetmm_tools.check.stages import (cross, e2e, stage_commands, stage_docs, stage_driver,
                                       stage_fabtests, stage_fuzz, stage_lockstep, stage_mpi,
                                       stage_msan, stage_mutate, stage_package, stage_qtest,
                                       stage_roots, stage_scale, stage_stock, stage_threads,
                                       stage_tools, stage_ulps, stage_unit,
                                       stage_verbs)
from unetmm_tools.check.style import stage_style

UNSTEADY_LIST = os.path.join(REPO, "tests", "unsteady.txt")

STAGES = {
    "style": (stage_style, ["qemu", "kernel-source"]),
    "unit": (stage_unit, ["unit"]),
    **{f"unit-{arch}": (cross(arch), [f"unit-{arch}"]) for arch in ("arm64", "riscv64", "s390x")},
    "msan": (stage_msan, ["msan"]),
    "threads": (stage_threads, ["threads"]),
    "fuzz": (stage_fuzz, ["fuzz"]),
    "driver": (stage_driver, ["kernel-6.1", "kernel-6.12", "kernel-debug"]),
    "qtest": (stage_qtest, ["qemu", "qtests"]),
    "e2e-6.1": (e2e("6.1", "0/2"), ["qemu", "initramfs-6.1"]),
    "e2e-6.12": (e2e("6.12", "1/2"), ["qemu", "initramfs-6.12"]),
    "e2e-debug": (e2e("debug", "0/6"), ["qemu", "initramfs-debug"]),
    "e2e-newest": (e2e("newest", "1/2"), ["qemu", "initramfs-newest"]),
    "e2e-kcsan": (e2e("kcsan", "1/6"), ["qemu", "initramfs-kcsan"]),
    "e2e-arm64": (e2e("arm64", "0/2"), ["stock-arm64", "initramfs-arm64"]),
    "lockstep": (stage_lockstep, ["qemu", "initramfs-6.1", "unit"]),
    "scale": (stage_scale, []),     # its tests are skipped without ns-3
    "mpi": (stage_mpi, ["qemu", "initramfs-6.1", "unit", "mpi-guest",
            "mpi5-guest"]),
    "verbs": (stage_verbs, ["qemu", "initramfs-6.1", "verbs-guest-6.1", "python-guest",
              "verbs-calls"]),
    "ulps": (stage_ulps, ["qemu", "initramfs-6.1", "verbs-guest-6.1", "python-guest",
             "ulps-guest-6.1"]),
    "commands": (stage_commands, ["qemu", "stock", "initramfs-6.1"]),
    "tools": (stage_tools, ["qemu", "stock", "initramfs-6.1", "initramfs-6.12", "unit",
              "python-guest", "verbs-calls"]),
    "fabtests": (stage_fabtests, ["qemu", "initramfs-6.1", "fabtests"]),
    "stock": (stage_stock, ["qemu", "stock", "initramfs-6.1"]),
    "docs": (stage_docs, ["docs"]),
    "demo": (stage_demo, ["qemu", "stock", "initramfs-6.1"]),
    "package": (stage_package, ["guest"]),
    "roots": (stage_roots, ["packages"]),
    "mutate": (stage_mutate, ["unit"]),
}

# Those that are run with --long, or when they are named
STAGES_LONG = {"e2e-arm64", "e2e-kcsan", "e2e-newest", "fabtests", "msan", "mutate",
               "package", "roots", "threads", "unit-arm64", "unit-riscv64", "unit-s390x"}


def chosen(options):
    """The stages to be run, in their order if none is named."""
    unknown = ", ".join(set(options.only) - set(STAGES))
    if unknown:
        raise StageError(f"no such stage: {unknown} (scripts/test --list prints them, with "
                         "--long all)")
    return options.only or [name for name in STAGES
                            if options.long or name not in STAGES_LONG]


def show_failure(result):
    """Prints a failed test's output, and at its end the command that repeats the test."""
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
    """The part of that line about variants that --long alone runs."""
    return f", {count[LEFT_OUT]} left out" if count[LEFT_OUT] else ""


def build(names):
    """{target of these stages: why scripts/setup could not make it}"""
    print("Building for the tests:", file=sys.stderr, flush=True)
    failed = {}
    for target in dict.fromkeys(target for name in names for target in STAGES[name][1]):
        with tempfile.NamedTemporaryFile("r", encoding="utf-8") as why:
            done = subprocess.run([os.path.join(SCRIPTS, "setup"), "--yes", target], check=False,
                                  env={**os.environ, "UNETMM_WHY": why.name})
            if done.returncode:
                failed[target] = f"scripts/setup {target} failed: {why.read().strip()}"
    return failed


def run_stage(name, options, not_built):
    """Runs one stage, unless a target of its own is not built; returns its results."""
    start = time.monotonic()
    results = []
    try:
        for target in STAGES[name][1]:
            if target in not_built:
                raise StageError(not_built[target])
        for result in STAGES[name][0](options):
            results.append(result)
            if result.outcome in (FAIL, UNSTEADY):
                show_failure(result)
            elif result.name.startswith("words:"):
                # This check asks for lower ceilings.
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
    parser.add_argument("--test", action="append", default=[])
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--repeat-failed", type=int, default=0)
    parser.add_argument("--list", action="store_true")
    return parser.parse_args()


def main():
    """Prints stages, or builds and runs."""
    options = parse()
    if options.list:
        print("\n".join(STAGES))
        return 0
    try:
        names = chosen(options)
        known = known_unsteady()
    except (StageError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    not_built = build(names)
    passed.tidy()
    everything = [(name, r) for name in names for r in run_stage(name, options, not_built)]
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
