# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=dash
#
# SRP, for the steps of disk_server.sh and disk_client.sh.

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

load_initiator() { load ib_srp sd_mod; }
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
# forget: Linux removes the disk when the connection is lost.
forget() { await no_disk; }
