# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=dash

step "modules" load rds_rdma
turn 1
step "messages and RDMA" by_rdma python3 /tmp/rds.py send
turn 2
step "the RDMA device goes under the connection, and comes again" reload
turn 3
step "messages after that" by_rdma python3 /tmp/rds.py send
turn 4
turn 5
step "messages after the server's RDMA device was away" by_rdma python3 /tmp/rds.py send
turn 6
turn 7
step "RDS goes" rmmod rds_rdma
step "no queue pair is left" await queue_pairs 0
step "the RDMA device goes" rmmod unetmm_ib
