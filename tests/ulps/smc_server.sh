# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=dash

step "modules" load smc
step "EID" python3 /tmp/smc.py eid UNETMM
step "serve" serve $by_smc python3 /tmp/echo.py serve
turn 1
step "echo by SMC-R" served
step "counters" counters
turn 2
step "SMC-R has been used" used server_v2=1 rx_bytes=4400194 tx_bytes=4400194 fallbacks=0
step "serve iperf3" serve $by_smc iperf3 -4 -s -1
turn 3
step "iperf3 by SMC-R" served
step "counters" counters
turn 4
step "SMC-R has been used by iperf3" used server_v2=3 fallbacks=0

step "serve without SMC" serve python3 /tmp/echo.py serve
turn 5
step "echo by TCP" served
step "serve a client without SMC" serve $by_smc python3 /tmp/echo.py serve
turn 6
step "echo by TCP from SMC" served
step "one fall back" used server_v2=3 fallbacks=1
turn 7
step "the RDMA device goes" rmmod unetmm_ib
step "serve without the device" serve $by_smc python3 /tmp/echo.py serve
turn 8
step "echo without the device" served
step "two fall backs" used server_v2=3 fallbacks=2
