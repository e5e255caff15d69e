# SPDX-License-Identifier: GPL-2.0-or-later
"""scripts/demo: boots guests, has them do a tour, and shows the screen.

Each tour is a module; tour.py defines its members.
"""

import argparse
import json
import shlex
import shutil
import sys
import tempfile
import time

from unetmm_tools import SCRIPTS
from unetmm_tools.bench.sockets import SocketsError
from unetmm_tools.guest import pair as guests, virtual, vm
from unetmm_tools.tour import ethernet, messages, mpi, netvm, npf, verbs, vmmc
from unetmm_tools.tour.base import NETWORK, DemoError, parse_lines

MAC_A = "52:54:00:6d:00:01"
# For guests that hang: of the host's time, or of virtual time with --virtual
LIMITS = {False: 600, True: 120}
TOURS = {"messages": messages, "vmmc": vmmc, "netvm": netvm, "npf": npf,
         "ethernet": ethernet, "mpi": mpi, "verbs": verbs}


def run_guests(tour, options):
    """Boots both, waits, returns (found, pair, directory of the consoles)."""
    words = {"network": NETWORK, "mac": MAC_A, "limit": LIMITS[options.virtual]}
    common = ["--device-opts", tour.DEVICE_OPTIONS]
    sockets = tempfile.mkdtemp(prefix="unetmm-demo-") if options.keep else ""
    consoles = [["--keep", "--console", f"unix:{sockets}/{name}"]
                if options.keep else [] for name in "ab"]
    kind = virtual.VirtualPair if options.virtual else guests.Pair
    couple = kind(tour.SERVERS % words, tour.CLIENT % words,
                  kernel=options.kernel, e1000e=tour.E1000E,
                  options=common, options_a=consoles[0],
                  options_b=consoles[1])
    try:
        couple.start()
        wait_for_scripts(couple, LIMITS[options.virtual])
        found = parse_lines(couple.b.results())
        for name, values in parse_lines(couple.a.results()).items():
            found.setdefault(name, values)
    except BaseException:
        couple.close()
        raise
    return found, couple, sockets


def wait_for_scripts(couple, seconds):
    """Until both scripts have ended, with a word now and then."""
    deadline = couple.deadline(seconds)
    said = time.monotonic()
    while couple.a.status() is None or couple.b.status() is None:
        if deadline.passed():
            raise guests.GuestError(f"not done after {seconds} "
                                    f"{couple.a.UNIT}; "
                                    f"a: {couple.a.trouble()}; "
                                    f"b: {couple.b.trouble()}")
        for guest in (couple.a, couple.b):
            if not guest.running() and guest.status() is None:
                raise guests.GuestError(f"{guest.name} has ended; "
                                        f"{guest.trouble()}")
        if time.monotonic() - said > 2 and sys.stderr.isatty():
            lines = len(couple.b.results().splitlines())
            print(f"\r  measuring: {lines} figures so far ", end="",
                  file=sys.stderr)
            said = time.monotonic()
        time.sleep(0.05)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)


def keep_running(couple, sockets):
    """Says how to get at the guests, and waits until they are ended."""
    print("\nBoth guests are up.  In two other terminals:")
    for name in "ab":
        print("  " + shlex.join([f"{SCRIPTS}/unetmm_tools/run", "guest.console",
                                 f"{sockets}/{name}"]))
    print("Ctrl-C here ends them.", flush=True)
    try:
        while couple.a.running() or couple.b.running():
            time.sleep(0.2)
    except KeyboardInterrupt:
        pass


def do_tour(tour, options):
    """Boots two guests for a tour, and shows it; returns the report."""
    start = time.monotonic()
    found, couple, sockets = run_guests(tour, options)
    try:
        if options.virtual:
            found["virtual"] = [True]
        report = tour.build_report(found, options.kernel,
                                   time.monotonic() - start)
        if options.virtual:
            # The report is the same in every run.
            report["clocks"] = "one virtual time, equal in every run"
            report["wire"] = "a link of 10 us and 10 Gb/s between their cards"
            del report["seconds"]
        finish(tour, report, options)
        if options.keep:
            keep_running(couple, sockets)
    finally:
        couple.close()
        if sockets:
            shutil.rmtree(sockets, ignore_errors=True)
    return report


def finish(tour, report, options):
    """The screen and the file."""
    tour.show(report)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
            file.write("\n")


def do_own_tour(tour, options):
    """Runs a tour that has its guests itself."""
    if options.virtual and not tour.VIRTUAL:
        raise DemoError(f"--virtual: the tour {options.tour} is on the network of "
                        "the host, which has a time of its own")
    if options.keep:
        raise DemoError(f"--keep: the tour {options.tour} ends its guest itself")
    report = tour.measure(options.kernel)
    finish(tour, report, options)
    return report


def main():
    """scripts/demo has checked the options."""
    parser = argparse.ArgumentParser(prog="scripts/demo")
    parser.add_argument("--tour", default="messages", choices=TOURS)
    parser.add_argument("--kernel", default="6.1")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--virtual", action="store_true")
    options = parser.parse_args()
    tour = TOURS[options.tour]
    if options.virtual and options.keep:
        sys.exit("error: --keep needs consoles, whose input has the host's time: "
                 "leave out --virtual")
    try:
        print(f"  booting and measuring ({getattr(tour, 'TAKES', 'some seconds')}) ...",
              file=sys.stderr)
        report = (do_own_tour if hasattr(tour, "measure") else do_tour)(
            tour, options)
    except KeyboardInterrupt:
        sys.exit("interrupted")
    except (guests.GuestError, vm.VmError, DemoError, SocketsError,
            OSError) as error:
        sys.exit(f"error: {error}")
    sys.exit(0 if tour.is_good(report) else 1)


if __name__ == "__main__":
    main()
