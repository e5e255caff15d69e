# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=dash

step "modules" load_initiator
step "data" make_data /tmp/first
step "other data" make_data /tmp/second
turn 1
step "log in" log_in
step "write" write_disk /tmp/first
step "compare" same_disk /tmp/first
turn 2
turn 3
step "log out" log_out
step "no queue pair is left" await queue_pairs 0
step "log in again" log_in
step "the data are there" same_disk /tmp/first
step "write other data" write_disk /tmp/second
step "compare other data" same_disk /tmp/second
turn 4
step "no patience" no_patience
step "begin a transfer" begin_writer
step "the transfer goes on" goes_on
turn 5
step "the transfer ends with an error" end_writer
step "the disk goes" forget
step "no queue pair is left" await queue_pairs 0
step "the RDMA device goes" rmmod unetmm_ib
turn 6
