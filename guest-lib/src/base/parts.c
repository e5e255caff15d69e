/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Free buffers of several pieces, which callers and source utlb post.
 */
#include "base.h"

bool unetmm_parts_fit(struct unetmm_ep *ep, unsigned n)
{
    return ep->fq_mask + 1 - (ep->fq_prod - ep->fq_cons) >= n ||
           ep->rare->settle(ep, n);
}

void unetmm_put_parts(struct unetmm_ep *ep, const struct iovec *iov, unsigned n,
                      uint64_t user_data)
{
    unsigned i;

    for (i = 0; i < n; i++) {
        unetmm_fill_fqe_(ep, ep->fq_prod + i, iov[i].iov_base, iov[i].iov_len,
                         user_data, i + 1 < n ? UNETMM_FQE_F_CHAIN : 0);
    }
    /* All at once: a chain of which the end is not posted is none. */
    ep->fq_prod += n;
    unetmm_write_index(&ep->index->user.fq_prod, ep->fq_prod);
}
