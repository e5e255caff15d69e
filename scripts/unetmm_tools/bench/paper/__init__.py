# SPDX-License-Identifier: GPL-2.0-or-later
"""scripts/bench --paper: the papers' figures in virtual time."""
