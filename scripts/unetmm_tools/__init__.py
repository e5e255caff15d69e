# SPDX-License-Identifier: GPL-2.0-or-later
"""The programs behind scripts/*, in rooms.

A room may import itself and those before it: build (products: programs, kernels, file
systems), guest (one guest and several), debug and bench, tour (of scripts/demo), check
(scripts/test and its checkers).  `scripts/unetmm_tools/run ROOM.MODULE` runs a module's
main program.
"""

import os

SCRIPTS = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
REPO = os.path.dirname(SCRIPTS)
