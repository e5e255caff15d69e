# SPDX-License-Identifier: GPL-2.0-or-later
"""QEMU with the card under gdb, stopped where the user wants to look.

scripts/debug runs main().  gdb's commands for the card are gdb_unetmm.py's.
"""

import argparse
import os
import shutil
import sys
import tempfile

from unetmm_tools import REPO
from unetmm_tools.guest import pair, vm

COMMANDS = os.path.join(os.path.dirname(os.path.realpath(__file__)),
                        "gdb_unetmm.py")

WORKLOAD = """#!/bin/sh
unetmm-pingpong --listen --timeout 600 &
unetmm-pingpong 52:54:00:6d:00:01 --size 8k --timeout 600
wait
"""

SOURCES = os.path.join(REPO, "hw", "net", "unetmm")

# gdb must leave QEMU's own signals alone; everything else stays on one page.
SETTINGS = ("set confirm off", "set pagination off", "set style enabled off",
            "set print thread-events off", "set debuginfod enabled off",
            # The build tree is shared; the card was built of our sources.
            f"set substitute-path ../source/hw/net/unetmm {SOURCES}",
            "handle SIGUSR1 SIGUSR2 SIGPIPE SIGALRM nostop noprint pass")


def parse():
    """The options of scripts/debug; scripts/vm gets those behind `--`."""
    parser = vm.Parser(
        prog="scripts/debug", allow_abbrev=False,
        usage="scripts/debug [options] [-- ARGUMENTS OF scripts/vm]",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Starts a guest under gdb that sends messages to itself "
        "through its card, and\nstops the card at a moment of your choice. "
        "In gdb, unetmm-tlb, unetmm-ep,\nunetmm-ring and unetmm-transfer print "
        "the card's state; unetmm-break lists\nthe moments.  "
        "docs/debugging.rst walks through one miss with them.",
        epilog="examples:\n"
        "  The first miss of a send:\n"
        "    scripts/debug --at tlb-miss --if '!miss->owner->write'\n\n"
        "  The same without a terminal:\n"
        "    scripts/debug --at tlb-miss --batch -e bt -e unetmm-tlb\n\n"
        "  A guest that runs already (started by scripts/vm), by QEMU's "
        "process id:\n"
        "    scripts/debug --attach 4711\n")
    parser.add_argument("--at", metavar="NAME",
                        help="a moment (unetmm-break lists them) or any "
                             "function (default: tlb-miss; with --attach: "
                             "where it is)")
    parser.add_argument("--if", dest="condition", metavar="EXPRESSION",
                        help="stop only if this C expression is true there")
    parser.add_argument("-e", "--execute", action="append", default=[],
                        metavar="COMMAND",
                        help="a gdb command at the stop; may be repeated")
    parser.add_argument("--batch", action="store_true",
                        help="end after these commands instead of asking for "
                             "more")
    parser.add_argument("--run", metavar="SCRIPT",
                        help="the guest's script, instead of messages to "
                             "itself")
    parser.add_argument("--attach", type=int, metavar="PID",
                        help="go to a QEMU that runs; it goes on when gdb "
                             "ends")
    arguments, extra = sys.argv[1:], []
    if "--" in arguments:
        cut = arguments.index("--")
        arguments, extra = arguments[:cut], arguments[cut + 1:]
    options = parser.parse_args(arguments)
    options.extra = extra
    if options.attach and (options.run or extra):
        parser.error("--attach takes a guest as it is: leave out --run and "
                     "the options behind --")
    return options


def gdb_command(options):
    """gdb with its settings and commands; the program comes behind."""
    stop = " ".join(word for word in (options.at or "tlb-miss",
                                      options.condition) if word)
    if not options.attach:
        steps = [f"unetmm-start {stop}"]
    else:
        steps = [f"unetmm-break {stop}", "continue"] if options.at else []
    command = ["gdb", "-q", "-nx"] + (["-batch"] if options.batch else [])
    for line in SETTINGS:
        command += ["-iex", line]
    command += ["-iex", f"source {COMMANDS}"]
    for line in steps + options.execute:
        command += ["-ex", line]
    if options.batch:
        command += ["-ex", "detach" if options.attach else "kill"]
    return command


def guest_command(options, directory):
    """QEMU's command line and the descriptors that it inherits."""
    script = options.run
    if script is None:
        script = os.path.join(directory, "workload")
        with open(script, "w", encoding="utf-8") as file:
            file.write(WORKLOAD)
    console = os.path.join(directory, "console")
    results = os.path.join(directory, "results")
    # gdb has the terminal; the later of two options wins.
    guest = vm.parse_options(["--id", "1", "--netdev", "hubport,hubid=0",
                              "--console", console, "--results", results,
                              "--run", script, *options.extra])
    if not options.batch:
        print(f"The guest's console is in {console}, its script writes to "
              f"{results}.", file=sys.stderr)
    return vm.prepare(guest)


def run_gdb(command, descriptors):
    """Runs gdb in the foreground; returns its status."""
    child = os.fork()
    if child == 0:
        try:
            pair.die_with_parent()
            for descriptor in descriptors:
                os.set_inheritable(descriptor, True)
            os.execvp(command[0], command)
        except OSError as error:
            print(f"error: {command[0]}: {error.strerror}", file=sys.stderr)
            os._exit(127)  # pylint: disable=W0212
    while True:
        try:
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        except KeyboardInterrupt:
            continue        # gdb's: it stops the guest


def main():
    """scripts/debug."""
    directory = tempfile.mkdtemp(prefix="unetmm-debug-")
    try:
        options = parse()
        if not shutil.which("gdb"):
            sys.exit("error: gdb is missing: install the Debian package gdb")
        command, descriptors = gdb_command(options), []
        if options.attach:
            command += ["-p", str(options.attach)]
        else:
            guest, descriptors = guest_command(options, directory)
            command += ["--args", *guest]
        status = run_gdb(command, descriptors)
    except (vm.VmError, OSError) as error:
        sys.exit(f"error: {error}")
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    sys.exit(status)


if __name__ == "__main__":
    main()
