# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=dash

# load_target: the parameter is the target's name in place of the device's number.
load_target() {
    load target_core_file && insmod "$(tail -n 1 /ulps-modules/ib_srpt)" srpt_service_guid=0x554e45544d4d0001
}
# serve_disk: to initiators that come by rdma_cm to this address, by which Linux looks for their entry.
serve_disk() {
    local fabric=/sys/kernel/config/target/srpt guid group entry
    guid=$(cut -d : -f 5- /sys/class/infiniband/unetmm0/ports/1/gids/0)
    mkdir -p $fabric && echo 5555 >$fabric/discovery_auth/rdma_cm_port || return
    group=$fabric/$guid/$guid
    entry=$group/acls/10.7.0.1/lun_0
    mkdir -p "$group/lun/lun_0" && ln -s "$disk" "$group/lun/lun_0/disk" && mkdir -p "$entry" &&
        ln -s "$group/lun/lun_0" "$entry/disk" && echo 1 >"$group/enable"
}

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
