/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Shared receive contexts: one port, of which each bound EP has a channel.  A card
 * has fewer endpoints than a large job has connections, and an endpoint's channels
 * share its free queue.
 */
#include "provider.h"

#include <stdlib.h>

static int srx_close(fid_t fid)
{
    struct umfi_srx *srx = umfi_of(fid, struct umfi_srx, fid.fid);

    if (__atomic_load_n(&srx->users, __ATOMIC_ACQUIRE)) {
        return -FI_EBUSY;
    }
    umfi_port_close(srx->port);
    __atomic_sub_fetch(&srx->domain->users, 1, __ATOMIC_RELEASE);
    free(srx);
    return 0;
}

static int srx_control(fid_t fid, int command, void *arg)
{
    return command == FI_ENABLE ? 0 : -FI_ENOSYS;
}

static struct fi_ops srx_fi_ops = {
    .size = sizeof(srx_fi_ops),
    .close = srx_close,
    .bind = umfi_no_bind,
    .control = srx_control,
    .ops_open = umfi_no_ops_open,
};

int umfi_srx_open(struct fid_domain *fid, struct fi_rx_attr *attr, struct fid_ep **out,
                  void *context)
{
    struct umfi_domain *domain = umfi_of(fid, struct umfi_domain, fid);
    size_t size = attr && attr->size ? attr->size : UMFI_RX_SIZE;
    struct umfi_srx *srx = calloc(1, sizeof(*srx));
    int ret;

    if (!srx) {
        return -FI_ENOMEM;
    }
    srx->domain = domain;
    /* Its channels share the send queue, too. */
    ret = umfi_port_open(domain, size > UMFI_TX_SIZE ? size : UMFI_TX_SIZE, size,
                         &umfi_channel_events, &srx->port);
    if (ret) {
        free(srx);
        return ret;
    }
    srx->fid.fid.fclass = FI_CLASS_SRX_CTX;
    srx->fid.fid.context = context;
    srx->fid.fid.ops = &srx_fi_ops;
    srx->fid.ops = &umfi_ep_ops;
    srx->fid.msg = &umfi_srx_msg_ops;
    __atomic_add_fetch(&domain->users, 1, __ATOMIC_RELAXED);
    *out = &srx->fid;
    return 0;
}
