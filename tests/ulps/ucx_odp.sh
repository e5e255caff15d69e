# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=dash
#
# A region on demand that is longer than the memory.

LENGTH=$((560 << 20))
begin_swap() {
    modprobe -q zram
    echo 1G >/sys/block/zram0/disksize && mkswap /dev/zram0 && swapon /dev/zram0
}
short_of_memory() {
    grep MemTotal /proc/meminfo
    [ "$(awk '/MemTotal/ { print $2 }' /proc/meminfo)" -lt $((LENGTH / 1024)) ]
}
# swapped: more than the part of the region for which there is no memory at all.
swapped() {
    grep pswp /proc/vmstat
    awk '$1 == "pswpout" { print; exit !($2 > 20000) }' /proc/vmstat
}
