# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=dash

step "swap" begin_swap
step "serve" serve UCX_TLS=rc_v ucx_perftest
turn 1
step "messages" served
step "pages went to swap" swapped
turn 2
