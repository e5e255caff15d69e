/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory regions.  Local use needs none but with source `pinned`, which uses
 * registered memory only.  Remote use is an export of libunetmm.
 */
#include "provider.h"

#include <stdlib.h>

struct mr {
    struct fid_mr fid;
    struct umfi_domain *domain;
    void *addr;
    size_t len;
    bool exported;
    bool registered;
};

static int mr_close(fid_t fid)
{
    struct mr *mr = umfi_of(fid, struct mr, fid.fid);
    struct unetmm_ctx *ctx = mr->domain->fabric->ctx;
    int ret = 0;

    if (mr->exported) {
        ret = unetmm_unexport(ctx, mr->fid.key);
    } else if (mr->registered) {
        ret = unetmm_deregister(ctx, mr->addr, mr->len);
    }
    if (ret) {
        UMFI_WARN(FI_LOG_MR, "ending key %#llx: error %d\n",
                  (unsigned long long)mr->fid.key, ret);
    }
    __atomic_sub_fetch(&mr->domain->users, 1, __ATOMIC_RELEASE);
    free(mr);
    return 0;
}

static struct fi_ops mr_fi_ops = {
    .size = sizeof(mr_fi_ops),
    .close = mr_close,
    .bind = umfi_no_bind,
    .control = umfi_no_control,
    .ops_open = umfi_no_ops_open,
};

static unsigned rights_of(uint64_t access)
{
    return (access & FI_REMOTE_READ ? UNETMM_RIGHT_READ : 0) |
           (access & FI_REMOTE_WRITE ? UNETMM_RIGHT_WRITE : 0);
}

static int mr_enter(struct mr *mr, uint64_t access)
{
    struct unetmm_ctx *ctx = mr->domain->fabric->ctx;
    unsigned rights = rights_of(access);
    int ret = 0;

    if (rights) {
        mr->fid.key = __atomic_fetch_add(&mr->domain->fabric->next_key, 1, __ATOMIC_RELAXED);
        ret = unetmm_export(ctx, mr->fid.key, mr->addr, mr->len, rights, 0, 0);
        mr->exported = !ret;
    } else if (umfi_config.source == UNETMM_SOURCE_PINNED) {
        ret = unetmm_register(ctx, mr->addr, mr->len, UNETMM_REGION_WRITE);
        mr->registered = !ret;
    }
    if (ret) {
        UMFI_WARN(FI_LOG_MR, "%p, %zu bytes: %s\n", mr->addr, mr->len,
                  unetmm_strerror(ret, rights ? UNETMM_CALL_EXPORT :
                                       UNETMM_CALL_REGISTER));
    }
    return ret;
}

static int mr_regattr(fid_t fid, const struct fi_mr_attr *attr, uint64_t flags,
                      struct fid_mr **out)
{
    struct umfi_domain *domain = umfi_of(fid, struct umfi_domain, fid.fid);
    struct mr *mr;
    int ret;

    if (fid->fclass != FI_CLASS_DOMAIN || flags || attr->iov_count != 1) {
        return -FI_EINVAL;
    }
    mr = calloc(1, sizeof(*mr));
    if (!mr) {
        return -FI_ENOMEM;
    }
    mr->domain = domain;
    mr->addr = attr->mr_iov->iov_base;
    mr->len = attr->mr_iov->iov_len;
    mr->fid.fid.fclass = FI_CLASS_MR;
    mr->fid.fid.context = attr->context;
    mr->fid.fid.ops = &mr_fi_ops;
    mr->fid.key = FI_KEY_NOTAVAIL;
    ret = mr_enter(mr, attr->access);
    if (ret) {
        free(mr);
        return ret;
    }
    __atomic_add_fetch(&domain->users, 1, __ATOMIC_RELAXED);
    *out = &mr->fid;
    return 0;
}

static int mr_regv(fid_t fid, const struct iovec *iov, size_t count, uint64_t access,
                   uint64_t offset, uint64_t key, uint64_t flags, struct fid_mr **out,
                   void *context)
{
    const struct fi_mr_attr attr = {
        .mr_iov = iov,
        .iov_count = count,
        .access = access,
        .offset = offset,
        .requested_key = key,
        .context = context,
    };

    return mr_regattr(fid, &attr, flags, out);
}

static int mr_reg(fid_t fid, const void *buf, size_t len, uint64_t access,
                  uint64_t offset, uint64_t key, uint64_t flags, struct fid_mr **out,
                  void *context)
{
    const struct iovec iov = { (void *)(uintptr_t)buf, len };

    return mr_regv(fid, &iov, 1, access, offset, key, flags, out, context);
}

struct fi_ops_mr umfi_mr_ops = {
    .size = sizeof(umfi_mr_ops),
    .reg = mr_reg,
    .regv = mr_regv,
    .regattr = mr_regattr,
};
