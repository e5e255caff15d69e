# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=dash

serve_nvme() {
    mount -t configfs none /sys/kernel/config || return
    target=/sys/kernel/config/nvmet
    mkdir -p $target/subsystems/disk/namespaces/1 $target/ports/1
    echo 1 >$target/subsystems/disk/attr_allow_any_host
    echo /dev/ram0 >$target/subsystems/disk/namespaces/1/device_path
    echo 1 >$target/subsystems/disk/namespaces/1/enable
    echo rdma >$target/ports/1/addr_trtype
    echo ipv4 >$target/ports/1/addr_adrfam
    echo 10.7.0.1 >$target/ports/1/addr_traddr
    echo 4420 >$target/ports/1/addr_trsvcid
    ln -s $target/subsystems/disk $target/ports/1/subsystems/disk
}

step "modules" kernel_modules
step "serve" serve_nvme
turn 1
turn 2
step "the target goes" rm $target/ports/1/subsystems/disk
step "no queue pair is left" await queue_pairs 0
step "the RDMA device goes" rmmod unetmm_ib
turn 3
