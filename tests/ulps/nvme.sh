# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=dash

# kernel_modules: those of NVMe over RDMA, and a disk of 64 MiB.
kernel_modules() {
    local file
    for file in /kernel-modules/*.ko; do
        case "$file" in
            *brd*) insmod "$file" rd_nr=1 rd_size=65536 || return ;;
            *) insmod "$file" || return ;;
        esac
    done
}
