# SPDX-License-Identifier: GPL-2.0-or-later
"""The programs behind scripts/*, in rooms.

A room may import itself and those before it: build (products: programs, kernels, file
systems), guest (one guest and several), debug and bench, tour (of scripts/demo), check
(scripts/test and its checkers).  `scripts/unetmm_tools/run ROOM.MODULE` runs a module's
main program.
"""

import os
import re

SCRIPTS = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
REPO = os.path.dirname(SCRIPTS)

# The package unetmm-vm has the scripts there, and commands for them.
INSTALLED = REPO == "/usr/share/unetmm"


def commands(text):
    """A text with the names of scripts that the user can call."""
    return re.sub(r"\bscripts/(vm|cluster|run)\b", r"unetmm-\1", text) if INSTALLED else text
