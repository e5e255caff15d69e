# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=dash

step "modules" load_target
step "a disk" make_disk
step "serve" serve_disk
turn 1
turn 2
step "the target's disk has the sum" compare_sum
turn 3
turn 4
step "the target's disk has the other data's sum" compare_sum
turn 5
step "the RDMA device goes during a transfer" rmmod unetmm_ib
turn 6
