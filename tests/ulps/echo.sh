# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=dash
#
# Programs of TCP sockets, unmodified, which a library makes those of another kind.

# listening: this guest's only server does so, by TCP, SMC or rdma_cm.
listening() {
    grep -q ' 0A ' /proc/net/tcp /proc/net/tcp6 || rdma resource show cm_id | grep -q LISTEN ||
        ! kill -0 "$server" 2>/dev/null
}
# serve COMMAND...: in the background, until it listens.
serve() {
    env "$@" >/tmp/served 2>&1 &
    server=$!
    await listening
}
served() {
    wait "$server"
    set -- $?
    cat /tmp/served
    return "$1"
}
