# SPDX-License-Identifier: GPL-2.0-or-later
"""Builds the driver for each kernel, runs the tests in guests, and prints a table.

A kernel that breaks the build or a test is a row of the table: its first error, or
the names of the tests that failed.  With --update docs/kernels.rst gets each row as
soon as it is there; rows of other kernels stay.  With --show a script runs in place of
the tests.
"""

import argparse
import collections
import functools
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import time

from unetmm_tools import REPO, SCRIPTS
from unetmm_tools.guest import pair as guests, vm

PAGE = os.path.join(REPO, "docs", "kernels.rst")
# Parts of the page that are made here: their first lines, and the last one of each
TABLE = ".. The table is made by scripts/kernels --update.\n"
SHOWN = ".. The outputs are made by scripts/kernels --show docs/kernels-show --update.\n"
END = ".. End of the part.\n"
HEAD = ("Name", "Kernel", "Builds", "Tests passed", "Failed", "Skipped, and the reason", "Day")

EXAMPLES = """\
examples:
  All kernels, some minutes each:
    scripts/kernels

  The newest one of Debian's backports alone, as JSON too:
    scripts/setup --update kernel-newest
    scripts/kernels --json kernels.json newest

  One row of the table in docs/kernels.rst again:
    scripts/kernels --update 6.12

  The output of a script on each kernel, side by side:
    scripts/kernels --show /tmp/same
"""
NAMES = (*vm.KERNELS, vm.ARM64)

Row = collections.namedtuple("Row", "name kernel builds passed failed skipped day",
                             defaults=(time.strftime("%Y-%m-%d"),))


def note(text):
    """Prints a line of progress."""
    print(text, file=sys.stderr, flush=True)


def build(name):
    """("yes" or the first error of the build, the file system of the guest was made)."""
    done = subprocess.run([os.path.join(SCRIPTS, "setup"), f"initramfs-{name}"],
                          stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True,
                          check=False)
    if not done.returncode:
        return "yes", True
    errors = re.findall(r"^[ |]*(\S+?:\d+):\d+: error: (.*)$", done.stdout, re.MULTILINE)
    errors = [": ".join(error) for error in errors]
    return (errors or done.stdout.strip().splitlines()[-1:] or ["no"])[0], False


def release(name):
    """The output of uname -r in the guest."""
    kernel = vm.setup_paths(f"kernel-{name}")[f"kernel-{name}"]
    return vm.read_file(os.path.join(os.path.dirname(kernel), "release")).decode().strip()


def run_tests(name, options):
    """The results of the tests in guests, as tests/e2e/run --json prints them."""
    command = [os.path.join(REPO, "tests", "e2e", "run"), "--kernel", name, "--json"]
    command += ["--only", options.only] if options.only else []
    command += ["--long"] if options.long else ["--turn", "1/2"]
    command += ["--seed", str(options.seed)]
    note(f"{name}: running the tests in guests, --seed {options.seed} ...")
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    return [json.loads(line) for line in done.stdout.splitlines()]


def show(names, script):
    """The output of a script in a guest of each kernel, side by side."""
    columns = []
    with tempfile.TemporaryDirectory() as directory:
        for name in names:
            note(f"{name}: running {script} ...")
            guest = guests.Guest(name, directory, vm.read_file(script).decode(),
                                 ["--kernel", name, "--id", "1", "--netdev", "none"])
            guest.start()
            guest.wait(300)
            columns.append([name, "", *guest.results().splitlines()])
    widths = [max(map(len, column)) for column in columns]
    return [" | ".join(f"{text:{width}}" for text, width in zip(line, widths)).rstrip()
            for line in itertools.zip_longest(*columns, fillvalue="")]


def row(name, options):
    """The table's row of a kernel."""
    start = time.monotonic()
    note(f"{name}: building the driver and the guest ...")
    builds, made = build(name)
    if not made:
        return Row(name, release(name), builds, 0, [], {})
    by_outcome = collections.defaultdict(list)
    for result in run_tests(name, options):
        by_outcome[result["outcome"]].append(result)
        if "repeat" in result:
            note(f"{result['detail']}\n{name}: {result['boot']}/{result['name']} has failed: "
                 f"{result['repeat']}")
    reasons = collections.Counter(result["detail"].strip().removeprefix("# SKIP ")
                                  for result in by_outcome["skipped"])
    failed = [f"{result['boot']}/{result['name']}"
              for outcome in ("failed", "unsteady") for result in by_outcome[outcome]]
    note(f"{name}: {time.monotonic() - start:.0f} s")
    return Row(name, release(name), builds, len(by_outcome["passed"]),
               sorted(failed), dict(reasons))


def cells(each):
    """A row's texts."""
    failed = "0" if not each.failed else ", ".join(each.failed)
    skipped = "; ".join(f"{count}: {reason}"
                        for reason, count in sorted(each.skipped.items())) or "none"
    return each.name, each.kernel, each.builds, str(each.passed), failed, skipped, each.day


def rst(rows):
    """Rows of texts as a table."""
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for texts in [HEAD, *rows]:
        lines += [("   * - " if not number else "     - ") + text
                  for number, text in enumerate(texts)]
    return "\n".join(lines) + "\n"


def update(begin, change):
    """Writes a part of the page: CHANGE of the text that is there."""
    with open(PAGE, encoding="utf-8") as file:
        before, rest = file.read().split(begin)
    old, after = rest.split(END, 1)
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(f"{before}{begin}\n{change(old)}\n{END}{after}")


def with_row(new, old):
    """The table OLD with a new row, in place of the one with the same name."""
    rows = {texts[0]: texts for texts in
            (re.findall(r"- (.*)", part) for part in re.split(r"^   \* ", old, flags=re.M)[2:])}
    rows[new[0]] = new
    return rst([rows[name] for name in NAMES if name in rows])


def parse():
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="scripts/kernels", description=__doc__, epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *NAMES],
                        help=f"{vm.KERNELS_TEXT}, or {vm.ARM64} (default: all)")
    parser.add_argument("--only", metavar="TEST", help="as tests/e2e/run has it")
    parser.add_argument("--long", action="store_true", help="all tests, not half of them")
    parser.add_argument("--seed", type=int, metavar="N",
                        help="choose the tests as a run with this seed did")
    parser.add_argument("--show", metavar="SCRIPT",
                        help="run SCRIPT in a guest of each kernel, and print its outputs")
    parser.add_argument("--json", metavar="FILE", help="write the rows there, too")
    parser.add_argument("--update", action="store_true",
                        help="write the rows, or the outputs, into docs/kernels.rst")
    options = parser.parse_args()
    options.names = options.names or list(NAMES)
    if options.seed is None:
        options.seed = int.from_bytes(os.urandom(4), "little")
    if options.update and options.only:
        parser.error("--update: a row of the page has all tests: leave out --only")
    return options


def main():
    """Prints the table; 1 if a kernel's build or a test of it failed."""
    options = parse()
    if options.show:
        lines = show(options.names, options.show)
        print(*lines, sep="\n")
        if options.update:
            update(SHOWN, lambda _: "::\n\n" + "".join(f"  {line}".rstrip() + "\n"
                                                       for line in lines))
        return 0
    rows = []
    for name in options.names:
        rows.append(row(name, options))
        if options.update:
            update(TABLE, functools.partial(with_row, cells(rows[-1])))
    for each in [HEAD, *map(cells, rows)]:
        print("  ".join(f"{text:{width}}" for text, width in
                        zip(each, (7, 22, 6, 12, 6, 24, 0))))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump([each._asdict() for each in rows], file, indent=1)
            file.write("\n")
    return int(any(each.builds != "yes" or each.failed for each in rows))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (vm.VmError, guests.GuestError, OSError) as error:
        sys.exit(f"error: {error}")
