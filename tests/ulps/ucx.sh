# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=dash

# UCX before 1.19 takes the header of each datagram for IPv6's, but on mlx5.
export UCX_UD_VERBS_ETH_DGID_CHECK=n
# Option -B of ucx_perftest makes regions on demand up to this size.
export UCX_IB_ODP_MAX_SIZE=inf UCX_NET_DEVICES=unetmm0:1

# transports: both are the device's.
transports() {
    ucx_info -d >/tmp/info || return
    grep -A 1 'Transport: [ru][cd]_verbs' /tmp/info >/tmp/found
    cat /tmp/found
    [ "$(grep -c 'Device: unetmm0:1' /tmp/found)" = 2 ]
}
