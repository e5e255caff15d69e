# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=dash

# less_memory: than the file is long, with swap.
less_memory() {
    grep -E 'MemTotal|SwapTotal' /proc/meminfo
    [ "$(awk '/MemTotal|SwapTotal/ { sum += $2 } END { print sum }' /proc/meminfo)" -lt \
        $((MIB * 1024)) ]
}
copy() { cp /mnt/file /mnt/copy && sync; }

step "modules" load rpcrdma nfsv4
step "frames" frames
turn 1
step "mount" mount_nfs
step "memory" "$MEMORY"
step "copy a file" copy
step "RDMA has been used" rdma_stats 1
step "loss" "$LOSS"
turn 2
step "unmount" leave
turn 3
