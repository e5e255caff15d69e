# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests with the card, from a script or a notebook on the host: docs/lab.rst.

    from unetmm import lab

    with lab.Lab(2) as (a, b):
        b.launch("unetmm-pingpong --listen")
        print(a.run(f"unetmm-pingpong {b.mac} --count 1000"))
        a.faults(loss=0.01)
        print(a.counters()["tx_frames"], a.tlb(), a.endpoints())

It needs a checkout of unetmm, whose scripts build and start the guests: the one that
this file is in, or the one that UNETMM_TREE names.  It needs no card on the host, and
neither libunetmm nor cffi.
"""
import os
import sys

TREE = os.environ.get("UNETMM_TREE") or os.path.abspath(os.path.join(
    os.path.dirname(os.path.realpath(__file__)), "../../.."))
if not os.path.exists(os.path.join(TREE, "scripts", "unetmm_tools", "guest", "lab.py")):
    raise ImportError("unetmm.lab needs a checkout of unetmm: set UNETMM_TREE "
                      "to its directory")
sys.path.append(os.path.join(TREE, "scripts"))
# pylint: disable-next=wrong-import-position
from unetmm_tools.guest.lab import (CommandError, Guest, GuestError, Job,  # noqa: E402
                                    Lab, knobs)
from unetmm_tools.guest import vm  # noqa: E402  pylint: disable=wrong-import-position

# The project's tests have the QEMU with the corrections; others need not wait for its build.
vm.DEFAULT_QEMU = "stock"

__all__ = ["CommandError", "Guest", "GuestError", "Job", "Lab", "knobs"]
