# SPDX-License-Identifier: GPL-2.0-or-later
"""The common part of the tours of scripts/demo: parsing the guests' output.

A tour is a module with

  SERVERS, CLIENT   the scripts of guests a and b; %(mac)s is a's, %(limit)d the
                    seconds that a waits at most, %(network)s is NETWORK.  Lines of output are a name, a space and
                    a JSON object or a text.
  DEVICE_OPTIONS    the cards' properties
  E1000E            True: the guests have such a card, too
  build_report(found, kernel, seconds)
                    all that is on the screen, as one object
  show(report)      prints the screen
  is_good(report)   whether all that was checked was right

The last thing b does is to call a service of a that a waits for.

A tour that has its guests itself has measure(kernel), which returns the report, and
VIRTUAL, True if its guests are in virtual time, in place of SERVERS, CLIENT,
DEVICE_OPTIONS and E1000E.
"""

import json
import re

# Finds the name of the kernel's own interface, dev.
NETWORK = """
for dev in /sys/class/net/*; do
    dev=${dev##*/}
    [ $dev = lo ] || break
done
"""


def clocks(report):
    """Which clock a report's times are of, and how long it took."""
    took = f"; {report['seconds']} s in all" if "seconds" in report else ""
    return report["clocks"] + took


def wire(report):
    """The link between the cards."""
    return report.get("wire", "a UNIX socket between their cards")


class DemoError(Exception):
    """A figure is missing or a check failed; the text says which."""


def parse_lines(text):
    """{name: [object or text]} from a guest's lines."""
    found = {}
    for line in text.splitlines():
        name, _, rest = line.partition(" ")
        if not re.fullmatch(r"[a-z]+(_[a-z0-9]+)*", name) or not rest:
            continue
        try:
            value = json.loads(rest)
        except ValueError:
            value = rest
        found.setdefault(name, []).append(value)
    return found


def need(found, name):
    """The one value of a name."""
    if name not in found:
        raise DemoError(f"the guests did not report {name}")
    return found[name][-1]
