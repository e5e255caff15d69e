# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/labs/run: tests the labs, exports them for a class, and grades submissions."""

import argparse
import json
import sys
import tempfile
import time

from unetmm_tools import REPO
from unetmm_tools.course import check, grade, handout, labs, slides
from unetmm_tools.guest.progress import Progress

DESCRIPTION = """\
Tests a lab on the files of this tree, as you have changed them, and prints "passed", or "not
yet:" with the reason.  The exit status is 0 if the lab is passed, 1 if not, 2 for a wrong call.

The labs: {labs}.
mailbox boots a guest; miss does so with --gdb.  --check does these parts with --long alone.
"""

EXAMPLES = """\
examples:
  Test your answer to lab pin; stop in it with gdb; look at the solution:
    docs/labs/run pin
    docs/labs/run pin --gdb
    cat docs/labs/pin/solution.patch

  For a class: a tree without solutions; slides; a student's files as one file; all submissions
  in a folder, with a row for each student:
    docs/labs/run --export ~/handout
    docs/labs/run --slides ~/slides
    docs/labs/run pin --pack ann.tar
    docs/labs/run --grade submissions pin evict

  A submission is a folder, or a tar file, with the changed files, named from the root of the tree
  (STUDENT/docs/labs/pin/pin.c).  Its programs run with your rights and without a sandbox: grade
  submissions that you do not trust in a container or in a virtual machine.

  Check all labs: the test fails at the starting point, and passes with the solution (TAP):
    docs/labs/run --check
"""


def parse():
    """The options."""
    parser = argparse.ArgumentParser(
        prog="docs/labs/run", description=DESCRIPTION.format(labs=", ".join(labs.LABS)),
        epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labs", nargs="*", metavar="LAB")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--gdb", action="store_true",
                      help="stop in your part with gdb; lab miss: compare with gdb, in a guest")
    what.add_argument("--check", action="store_true",
                      help="do the tests fail at the start and pass with the solutions?")
    what.add_argument("--export", metavar="DIR", help="a hand-out: this tree without solutions")
    what.add_argument("--slides", metavar="DIR",
                      help="write slides of the labs, an HTML file each")
    what.add_argument("--pack", metavar="FILE", help="write your files of the lab as a tar file")
    what.add_argument("--grade", metavar="DIR", help="test each submission in a folder")
    parser.add_argument("--long", action="store_true",
                        help="with --check and --grade: the parts in guests, too")
    parser.add_argument("--json", action="store_true", help="the result as JSON")
    options = parser.parse_args()
    unknown = [name for name in options.labs if name not in labs.LABS]
    if unknown:
        parser.error(f"no lab {unknown[0]}: there are {', '.join(labs.LABS)}")
    if not (options.check or options.export or options.grade or options.slides) and len(options.labs) != 1:
        parser.error("name one lab, or --check, --export, --grade or --slides")
    if options.export and options.labs:
        parser.error("--export takes no lab: a hand-out has all of them")
    return options


def graded(options):
    """--grade; the exit status is 0 if all submissions pass."""
    names, progress = options.labs or list(labs.LABS), Progress()
    rows = grade.grade(options.grade, names, options.long, progress.say)
    progress.end(f"{len(rows)} tests of submissions")
    print(json.dumps(rows, indent=2) if options.json else grade.table(rows, names))
    return 0 if all(row["passed"] for row in rows) else 1


def one(options):
    """The test of one lab."""
    name, more = options.labs[0], {}
    lab = labs.LABS[name]
    if options.gdb and lab.guest and name == "miss":
        more = {"guest": True}
    elif options.gdb and not lab.function:
        raise labs.LabError(f"lab {name} has no part for gdb: docs/debugging.rst tells how to "
                            "stop in the card or in a guest")
    elif options.gdb:
        more = {"gdb": lab.function}
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as work:
        if options.json:
            wrong, said = labs.silent(name, REPO, work, **more)
            print(json.dumps({"lab": name, "passed": wrong is None, "reason": wrong,
                              "output": said, "seconds": round(time.monotonic() - begun, 1)},
                             indent=2))
        else:
            wrong = labs.outcome(name, REPO, work, **more)
            print(f"not yet: {wrong}" if wrong else "passed")
    return 1 if wrong else 0


def main():
    """docs/labs/run."""
    options = parse()
    if options.check:
        return check.check(options.labs or list(labs.LABS), options.long)
    if options.grade:
        return graded(options)
    if options.slides:
        print(slides.write(options.labs or list(labs.LABS), options.slides))
        return 0
    if options.export or options.pack:
        print(handout.export(options.export) if options.export else
              handout.pack(options.labs[0], options.pack))
        return 0
    return one(options)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except labs.LabError as wrong_call:
        print(f"error: {wrong_call}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
