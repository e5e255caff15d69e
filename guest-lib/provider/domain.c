/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The domain: the objects of the data path, and their lock. */
#include "provider.h"

#include <stdlib.h>
#include <string.h>

static int domain_close(fid_t fid)
{
    struct umfi_domain *domain = umfi_of(fid, struct umfi_domain, fid.fid);

    if (__atomic_load_n(&domain->users, __ATOMIC_ACQUIRE)) {
        return -FI_EBUSY;
    }
    umfi_mr_end_whole(domain);
    umfi_ep_free_closed(domain);
    __atomic_sub_fetch(&domain->fabric->users, 1, __ATOMIC_RELEASE);
    free(domain);
    return 0;
}

static struct fi_ops domain_fi_ops = {
    .size = sizeof(domain_fi_ops),
    .close = domain_close,
    .bind = umfi_no_bind,
    .control = umfi_no_control,
    .ops_open = umfi_no_ops_open,
};

static struct fi_ops_domain domain_ops = {
    .size = sizeof(domain_ops),
    .av_open = umfi_no_av_open,
    .cq_open = umfi_cq_open,
    .endpoint = umfi_ep_open,
    .scalable_ep = umfi_no_scalable_ep,
    .cntr_open = umfi_no_cntr_open,
    .poll_open = umfi_no_poll_open,
    .stx_ctx = umfi_no_stx_ctx,
    .srx_ctx = umfi_srx_open,
    .query_atomic = umfi_no_query_atomic,
};

int umfi_domain_open(struct fid_fabric *fid, struct fi_info *info,
                     struct fid_domain **out, void *context)
{
    struct umfi_fabric *fabric = umfi_of(fid, struct umfi_fabric, fid);
    struct umfi_domain *domain;

    domain = calloc(1, sizeof(*domain));
    if (!domain) {
        return -FI_ENOMEM;
    }
    domain->fabric = fabric;
    umfi_list_init(&domain->eps);
    domain->fid.fid.fclass = FI_CLASS_DOMAIN;
    domain->fid.fid.context = context;
    domain->fid.fid.ops = &domain_fi_ops;
    domain->fid.ops = &domain_ops;
    domain->fid.mr = &umfi_mr_ops;
    __atomic_add_fetch(&fabric->users, 1, __ATOMIC_RELAXED);
    *out = &domain->fid;
    return 0;
}
