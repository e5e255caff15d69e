# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=dash

by_smc=LD_PRELOAD=/ulps-lib/preload_smc.so
# used WORD...: of SMC's counters.
used() {
    python3 /tmp/smc.py stats >/tmp/stats || return
    cat /tmp/stats
    for word in "$@"; do
        tail -n 1 /tmp/stats | grep -qw "$word" || return
    done
}
