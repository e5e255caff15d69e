# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=dash

turn 1
# The client sends the server this limit of the words between the two.
step "qperf" qperf --timeout 120 -cm 1 -t 1 10.7.0.1 rc_lat rc_bw rc_rdma_write_bw rc_rdma_read_bw
turn 2
step "no queue pair is left" await queue_pairs 0
