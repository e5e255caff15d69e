# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=dash

send="python3 /tmp/echo.py send 10.7.0.1"

step "modules" load smc
step "EID" python3 /tmp/smc.py eid UNETMM
turn 1
# shellcheck disable=SC2086 # words
step "echo by SMC-R" env $by_smc $send
step "counters" counters
turn 2
step "SMC-R has been used" used client_v2=1 rx_bytes=4400194 tx_bytes=4400194 fallbacks=0
turn 3
step "iperf3 by SMC-R" env $by_smc iperf3 -c 10.7.0.1 -n 8M
step "counters" counters
turn 4
step "SMC-R has been used by iperf3" used client_v2=3 fallbacks=0
turn 5
step "echo with a server without SMC" env $by_smc $send
step "one fall back" used client_v2=3 fallbacks=1
turn 6
step "echo by TCP" $send
turn 7
step "the RDMA device goes" rmmod unetmm_ib
turn 8
step "echo without the device" env $by_smc $send
step "two fall backs" used client_v2=3 fallbacks=2
