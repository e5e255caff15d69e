# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=dash

by_smc=LD_PRELOAD=/ulps-lib/preload_smc.so
# counters: of SMC.  Both guests print them before one of them judges: a fall back's reason is known
# to the guest alone that has declined, and the end of a guest is the end of both.
counters() { python3 /tmp/smc.py stats; }
# used WORD...: of SMC's counters.
used() {
    counters >/tmp/stats || return
    cat /tmp/stats
    for word in "$@"; do
        tail -n 1 /tmp/stats | grep -qw "$word" || return
    done
}
