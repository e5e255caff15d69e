# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=dash

step "modules" load rds_rdma
turn 1
step "answer messages" by_rdma python3 /tmp/rds.py serve
turn 2
turn 3
step "answer after the client's RDMA device was away" by_rdma python3 /tmp/rds.py serve
step "the RDMA device goes under the connection, and comes again" reload
turn 4
step "answer after that" by_rdma python3 /tmp/rds.py serve
turn 5
step "the RDMA device goes" rmmod unetmm_ib
turn 6
