# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=dash

# write_tree: files of many lengths in folders, and their sums.
write_tree() {
    for length in 0 1 100 1000 4095 4096 4097 65536 131073 1000001 3000000; do
        mkdir -p "/mnt/tree/$length" || return
        for copy in a b; do
            head -c "$length" /dev/urandom >"/mnt/tree/$length/$copy" || return
        done
    done
    mv /mnt/tree/4096/a /mnt/tree/moved && echo more >>/mnt/tree/4097/b &&
        (cd /mnt/tree && find . -type f ! -name sums -exec md5sum {} + >sums) && sync
}
read_tree() { drop_caches; sums /mnt/tree; }
# write_on: pieces of 64 KiB, each as soon as the one before is in the server's memory, until the
# file /tmp/enough is there; /tmp/twin gets the same.
write_on() {
    piece=0
    until [ -e /tmp/enough ]; do
        for file in /mnt/big /tmp/twin; do
            dd if=/tmp/pieces of=$file bs=64k count=1 skip=$((piece % 16)) seek=$((piece % 64)) \
                conv=notrunc,fsync 2>>/tmp/writing || return
        done
        piece=$((piece + 1))
    done
    echo "$piece pieces"
}
go_on() {
    touch /tmp/enough
    wait $writer && drop_caches && cmp /mnt/big /tmp/twin
}

step "modules" load rpcrdma nfsv4
turn 1
step "mount" mount_nfs
step "write a tree" write_tree
step "read it back" read_tree
step "RDMA has been used" rdma_stats 1
turn 2

hold /mnt/lock
step "lock" held
turn 3
turn 4
release
turn 5
step "the server's lock excludes this guest" try_lock /mnt/lock locked
hold /mnt/lock
turn 6
step "the lock comes when the server releases it" held
turn 7

dd if=/dev/urandom of=/tmp/pieces bs=64k count=16 2>/dev/null
write_on &
writer=$!
turn 8
step "the writer goes on through the server's restart" go_on
step "there was a second connection" rdma_stats 2
turn 9
turn 10
release
step "the tree after the server's RDMA device was away" read_tree
step "the RDMA device goes under the mount, and comes again" reload
step "the tree after that" read_tree
step "unmount" leave
# The transport goes after umount(8), when the other guest has answered.
step "no queue pair is left" await queue_pairs 0
turn 11
step "the RDMA device goes" rmmod unetmm_ib
