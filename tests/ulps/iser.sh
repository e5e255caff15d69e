# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=dash

target=iqn.2026-01.unetmm:disk
