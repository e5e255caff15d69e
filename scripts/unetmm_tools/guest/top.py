# SPDX-License-Identifier: GPL-2.0-or-later
"""scripts/top: running cards on a terminal; docs/watch.rst is the manual."""

import argparse
import json
import os
import select
import shutil
import sys
import termios
import time
import tty

from unetmm_tools.guest import live, vm

DESCRIPTION = """\
Shows the cards of running guests on a terminal: the TLB, the endpoints with their queues, the
faults in flight, and the events of a second.  Keys: p pause, s step, l slow, r run, q quit.

Starts a guest for each CMD (a program of the guest, or a line for its shell; PEER is the address
of the next guest's card), or looks at guests that run (--qmp).  Without a terminal, or with
--once, it prints one look.
"""

EXAMPLES = """\
examples:
  Two guests that exchange messages; a TLB of 64 entries:
    scripts/top --device-opts tlb-sets=64 -- 'unetmm-pingpong --listen' \\
        -- 'unetmm-pingpong $PEER --count 1000000 --size 4k --memory 1m'

  A guest that runs, from another terminal:
    scripts/vm --qmp /tmp/vm.qmp
    scripts/top --qmp /tmp/vm.qmp

  Ten looks as JSON:
    scripts/top --json --count 10 -- 'unetmm-pingpong --listen' -- 'unetmm-pingpong $PEER'
"""

KEYS = {"p": "pause", "s": "step", "l": "slow", "r": "run"}
SHADES = " .:-=+*#"


def density(card, width):
    """A line of letters: how full each part of the TLB's sets is."""
    slots = card["sets"] * card["ways"]
    parts = max(1, min(width, slots))
    full = [0] * parts
    for entry in card["tlb"]:
        if not entry["victim"]:
            full[entry["slot"] * parts // slots] += 1
    most = slots / parts
    return "".join(SHADES[min(len(SHADES) - 1, int(count * (len(SHADES) - 1) / most + 0.999))]
                   for count in full)


def lines_of(state, ends, width):
    """The lines of the screen."""
    yield f"unetmm top   {time.strftime('%H:%M:%S', time.localtime(state['time']))}   " \
        f"{state['mode']}   keys: p pause, s step, l slow, r run, q quit"
    for card in state["cards"]:
        yield ""
        if card["state"] == "ended":
            yield f"guest {card['name']}: ended ({card['why']})"
            continue
        victims = sum(entry["victim"] for entry in card["tlb"])
        done = ends.get(card["name"])
        yield f"guest {card['name']}: {card['state']}" + (
            f"; the command ended with status {done[0]}: {done[1]}" if done else "")
        yield f"  TLB {card['pins']} of {card['sets'] * card['ways'] + card['victims']} " \
            f"({card['sets']} sets of {card['ways']}, {victims} of {card['victims']} victims), " \
            f"{sum(entry['busy'] for entry in card['tlb'])} in a transfer"
        yield "  [" + density(card, max(8, width - 6)) + "]"
        if card["rates"]:
            yield "  in a second: " + ", ".join(f"{name} {value}" for name, value in
                                                card["rates"].items())
        yield "  endpoint  space  sends  buffers  completions  state"
        for found in card["endpoints"]:
            yield f"  {found['id']:>8}  {found['space']:>5}  {found['sends']:>5}  " \
                f"{found['buffers']:>7}  {found['completions']:>11}  {found['state']}"
        for fault in sorted(card["faults"], key=lambda fault: -fault["ms"])[:8]:
            yield f"  fault {fault['id']:#x}: endpoint {fault['ep']}, page {fault['page']:#x}, " \
                f"{fault['ms']} ms, {fault['stage']}"


def build_parser():
    """The options."""
    parser = vm.Parser(
        prog="scripts/top", description=DESCRIPTION, epilog=EXAMPLES, allow_abbrev=False,
        usage="scripts/top [options] (--qmp PATH | -- CMD [-- CMD2]...)",
        formatter_class=argparse.RawDescriptionHelpFormatter)
    live.add_options(parser)
    parser.add_argument("--once", action="store_true", help="print one look, and end")
    parser.add_argument("--json", action="store_true", help="print an object for each look")
    parser.add_argument("--count", type=int, metavar="N",
                        help="end after N looks (default: go on; one without a terminal)")
    return parser


def key_of(seconds, cards):
    """The key that is pressed in so many seconds, or ""; slow guests go on meanwhile."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if select.select([sys.stdin], [], [], 0)[0]:
            return os.read(sys.stdin.fileno(), 1).decode("ascii", "replace")
        cards.rest(live.STEP)
    return ""


def screen(found, options):
    """Draws until q is pressed."""
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    sys.stdout.write("\033[?1049h\033[?25l")
    try:
        left = options.count
        while left is None or left > 0:
            width, height = shutil.get_terminal_size()
            lines = list(lines_of(found.live.look(), found.ends(), width))[:height]
            sys.stdout.write("\033[H" + "\033[K\n".join(line[:width] for line in lines) +
                             "\033[K\033[J")
            sys.stdout.flush()
            left = left and left - 1
            key = key_of(options.interval, found.live)
            if key == "q":
                return
            if key in KEYS:
                found.live.control(KEYS[key])
    finally:
        sys.stdout.write("\033[?25h\033[?1049l")
        sys.stdout.flush()
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def plain(found, options):
    """Prints looks, one below the other."""
    for number in range(options.count or 1):
        if not number and not options.once:
            found.live.look()       # Rates need two looks.
        if number or not options.once:
            found.live.rest(options.interval)
        state = found.live.look()
        if options.json:
            print(json.dumps({**state, "ended": found.ends()}), flush=True)
        else:
            print("\n".join(lines_of(state, found.ends(), 100)), flush=True)


def run(options, commands):
    """Opens the cards, and shows them."""
    found = live.opened(options, commands)
    try:
        if options.json or options.once or not (sys.stdin.isatty() and sys.stdout.isatty()):
            plain(found, options)
        else:
            screen(found, options)
    finally:
        found.close()


def main():
    """scripts/top."""
    words, commands = live.split(sys.argv[1:])
    options = build_parser().parse_args(words)
    if options.count is not None and not 1 <= options.count <= 10**9:
        raise live.LiveError(f"--count {options.count}: use a number from 1 on")
    run(options, commands)


if __name__ == "__main__":
    live.program(main)
