# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=dash

step "swap" begin_swap
turn 1
step "the memory is less than the message" short_of_memory
step "messages" env UCX_TLS=rc_v ucx_perftest 10.7.0.1 -t ucp_put_bw -B -s $LENGTH -n 1 -w 0
turn 2
