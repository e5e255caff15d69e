/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Operations of libfabric's tables that no object of the provider has. */
#include "provider.h"

int umfi_no_bind(fid_t fid, fid_t to, uint64_t flags)
{
    return -FI_ENOSYS;
}

int umfi_no_control(fid_t fid, int command, void *arg)
{
    return -FI_ENOSYS;
}

int umfi_no_ops_open(fid_t fid, const char *name, uint64_t flags, void **ops,
                     void *context)
{
    return -FI_ENOSYS;
}

int umfi_no_join(struct fid_ep *ep, const void *addr, uint64_t flags,
                 struct fid_mc **mc, void *context)
{
    return -FI_ENOSYS;
}
