# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs a module of this package as a program.

usage: scripts/unetmm_tools/run ROOM.MODULE [OPTION]...
"""

import os
import runpy
import sys

# Python puts the directory of the package there, in place of the one that has it.
sys.path[0] = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
if len(sys.argv) < 2:
    sys.exit(__doc__)
runpy.run_module(f"unetmm_tools.{sys.argv.pop(1)}", run_name="__main__", alter_sys=True)
