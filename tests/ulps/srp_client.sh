# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=dash

ports=/sys/class/srp_remote_ports
log_in() {
    echo "id_ext=554e45544d4d0001,ioc_guid=554e45544d4d0001,dest=10.7.0.1:5555" \
        >/sys/class/infiniband_srp/srp-unetmm0-1/add_target && await sized
}
log_out() {
    for port in $ports/port-*; do echo 1 >"$port/delete"; done
    await no_disk
}
# no_patience: a lost connection ends the disk after two seconds; Linux tries to connect anew for ten
# minutes otherwise.
no_patience() {
    for port in $ports/port-*; do
        echo off >"$port/reconnect_delay" && echo 1 >"$port/fast_io_fail_tmo" &&
            echo 2 >"$port/dev_loss_tmo" || return
    done
}

step "modules" load ib_srp sd_mod
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
step "the disk goes" await no_disk
step "no queue pair is left" await queue_pairs 0
step "the RDMA device goes" rmmod unetmm_ib
turn 6
