# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=dash

step "modules" load rds_rdma
step "listen" serve
turn 1
turn 2
step "answer messages" by_rdma served
step "listen again" serve
turn 3
turn 4
step "answer after the client's RDMA device was away" by_rdma served
step "the RDMA device goes under the connection, and comes again" reload
step "listen after that" serve
turn 5
turn 6
step "answer after that" by_rdma served
step "the RDMA device goes" rmmod unetmm_ib
turn 7
