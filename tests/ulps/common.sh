# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=dash
#
# Functions of the guests' scripts.  $me is 1 for the server's guest, 2 for the client's.

# report NAME STATUS: a result, with /tmp/output.
report() {
    echo "# result $1 $2"
    sed 's/^/# /' /tmp/output
}

# step NAME COMMAND...: its status is a result; the guest ends if it has failed.
step() {
    local name=$1 status began now
    shift
    read -r began _ </proc/uptime
    "$@" >/tmp/output 2>&1
    status=$?
    read -r now _ </proc/uptime
    echo "# $now ($began): $name"
    report "$name" $status
    [ $status = 0 ] || { dmesg | tail -n 40 | sed 's/^/# /'; exit 1; }
}

# turn NUMBER: both guests wait for each other.
turn() {
    if [ "$me" = 1 ]; then
        nc -l -p $((20000 + $1)) </dev/null >/dev/null
    else
        until nc 10.7.0.1 $((20000 + $1)) </dev/null >/dev/null 2>&1; do usleep 20000; done
    fi
}

# load NAME...: the modules that these need.
load() {
    local name file
    for name in "$@"; do
        while read -r file; do
            [ -e "/sys/module/$(echo "${file##*/}" | sed 's/\.ko$//; s/-/_/g')" ] ||
                insmod "$file" || return
        done <"/ulps-modules/$name"
    done
}

# queue_pairs NUMBER: of all programs, without QP1.
queue_pairs() {
    rdma resource show qp
    [ "$(rdma resource show qp | grep -vc GSI)" = "$1" ]
}

# await COMMAND...: until it succeeds.  The test's limit is the end of that.
await() { until "$@"; do usleep 50000; done; }

# reload: the RDMA device goes and comes again; the netdev keeps its address.
reload() {
    rmmod unetmm_ib && insmod /verbs-modules/*unetmm_ib.ko &&
        await grep -q ffff: /sys/class/infiniband/unetmm0/ports/1/gids/1
}
