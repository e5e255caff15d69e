# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=dash

# serve_disk: to all initiators, without a password.
serve_disk() {
    local group=/sys/kernel/config/target/iscsi/$target/tpgt_1
    local portal=$group/np/10.7.0.1:3260
    mkdir -p /sys/kernel/config/target/iscsi && mkdir -p "$group/lun/lun_0" "$portal" &&
        echo 1 >"$portal/iser" && ln -s "$disk" "$group/lun/lun_0/disk" || return
    echo 30 >"$group/attrib/login_timeout" && echo 0 >"$group/attrib/authentication" &&
        echo 1 >"$group/attrib/generate_node_acls" &&
        echo 0 >"$group/attrib/demo_mode_write_protect" && echo 1 >"$group/enable"
}

step "modules" load crc32c_generic ib_isert target_core_file
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
