# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=dash
#
# RDS: functions of both guests.

stats() { python3 /tmp/rds.py stats; }
packets() { unetmm-stat --card --all | awk '$1 == "rel_packets" { print $2 }'; }
# serve: in the background, from the time on when its socket is bound.
serve() {
    before=$(packets)
    rm -f /tmp/bound /tmp/enough
    python3 /tmp/rds.py serve >/tmp/served 2>&1 &
    server=$!
    await bound
}
bound() { [ -e /tmp/bound ] || ! kill -0 $server; }
# served: the client has all answers.
served() {
    touch /tmp/enough
    wait $server
    set -- $?
    cat /tmp/served
    return "$1"
}
# by_rdma COMMAND...: it succeeds, RDS has one connection, by verbs, and the card has sent packets.
by_rdma() {
    [ "$me" = 1 ] || before=$(packets)
    "$@" && stats >/tmp/stats || return
    grep -E '^connection|^conn_reset|_rdma_bytes' /tmp/stats
    echo "$(($(packets) - before)) packets"
    [ "$(grep ^connection /tmp/stats)" = "connection 10.7.0.$me 10.7.0.$((3 - me)) infiniband" ] &&
        [ $(($(packets) - before)) -gt 1000 ]
}
