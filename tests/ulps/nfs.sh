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
