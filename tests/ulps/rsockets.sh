# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=dash
#
# Sockets of librdmacm, of which all data comes by WRITEs with an immediate.

imms() { unetmm-stat --card --all | awk '$1 == "rel_imms" { print $2 }'; }
# by_writes COMMAND...: it succeeds, and the card has taken such WRITEs meanwhile.
by_writes() {
    local before
    before=$(imms)
    "$@" || return
    echo "$(($(imms) - before)) immediates"
    [ "$(imms)" -gt "$before" ]
}
