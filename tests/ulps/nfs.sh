# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=dash
#
# NFS over RDMA: functions of both guests.

# try_lock FILE WORD: lock.py says so.
try_lock() {
    said=$(python3 /tmp/lock.py try "$1")
    echo "$said"
    [ "$said" = "$2" ]
}

# hold FILE: in the background; $holder.
hold() {
    python3 /tmp/lock.py hold "$1" >/tmp/held &
    holder=$!
}
held() { await grep -q held /tmp/held; }
release() {
    kill "$holder"
    wait "$holder"
    true >/tmp/held
}

# sums FOLDER: its files have the sums that are in it.
sums() {
    cd "$1" && md5sum -c sums >/tmp/sums 2>&1
    set -- $?
    cd / && wc -l /tmp/sums
    grep -v OK$ /tmp/sums
    return "$1"
}

# export_srv: tells the kernel in place of exportfs and rpc.mountd: an address is one of
# `guests`; these have file system 0 (fsid=0, rw, insecure, no_root_squash, no_subtree_check).
export_srv() {
    echo "nfsd 10.7.0.2 9000000000 guests" >/proc/net/rpc/auth.unix.ip/channel
    echo 'guests 1 \x00000000 9000000000 /srv' >/proc/net/rpc/nfsd.fh/channel
    echo "guests /srv 9000000000 9218 65534 65534 0" >/proc/net/rpc/nfsd.export/channel
}
prepare_nfs() {
    mkdir -p /srv /var/lib/nfs/v4recovery
    mount -t tmpfs srv /srv && mount -t nfsd nfsd /proc/fs/nfsd || return
    # Version 3 wants rpcbind.
    echo "-3" >/proc/fs/nfsd/versions
    # After a start clients have this time to say which locks they had: more than a busy host
    # needs, as this guest ends the time itself.
    echo 1800 >/proc/fs/nfsd/nfsv4leasetime
    echo 1800 >/proc/fs/nfsd/nfsv4gracetime
    touch /srv/lock
    # Linux 6.1 would forget a client that comes in the first of these times.
    start_nfs && end_grace
}
end_grace() { echo Y >/proc/fs/nfsd/v4_end_grace; }
start_nfs() {
    # The end of the server has forgotten it.
    export_srv
    echo "rdma 20049" >/proc/fs/nfsd/portlist && echo 2 >/proc/fs/nfsd/threads
}
no_cm_id() { [ -z "$(rdma resource show cm_id)" ]; }

mount_nfs() {
    mkdir -p /mnt
    mount -t nfs4 -o proto=rdma,port=20049,vers=4.2,addr=10.7.0.1,clientaddr=10.7.0.2 10.7.0.1:/ /mnt &&
        grep "^10.7.0.1:/ /mnt nfs4 .*proto=rdma,port=20049" /proc/mounts
}
drop_caches() { echo 3 >/proc/sys/vm/drop_caches; }
# rdma_stats: the transport's, of one queue pair: it has sent chunks in both directions.
rdma_stats() {
    awk '/xprt:.*rdma/ {
        print "connections " $5 ", read chunks " $13 ", write chunks " $14 ", bytes " $16 " " $17
        good = $5 >= least && $13 && $14 && !$22
    } END { exit !good }' least="$1" /proc/self/mountstats
}
leave() { umount /mnt; }
# lost: frames, and packets of reliable channels that were sent again.
lost() {
    unetmm-stat --card --all >/tmp/stats || return
    awk '$1 ~ /^(inj_loss|rel_packets|rel_resent)$/ { print; good += $2 > 0 }
         $1 == "rel_failed" { print; good -= $2 > 0 } END { exit good != 3 }' /tmp/stats
}
# frames: as long as $MTU says, which the packets of reliable channels follow.
frames() { ip link set "$(cat /sys/class/infiniband/unetmm0/ports/1/gid_attrs/ndevs/0)" mtu "$MTU"; }
