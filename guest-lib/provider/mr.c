/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory regions.  Local use needs none but with source `pinned`, which uses
 * registered memory only.  Remote use is an export of libunetmm that peers use by its
 * key and by this process's addresses (FI_MR_VIRT_ADDR).
 *
 * With FI_UNETMM_WHOLE the first region for peers exports the whole address space, and
 * all regions have its key, so that registering costs no system call.
 */
#include "provider.h"

#include <stdlib.h>

/*
 * A flag that libfabric's layers use among themselves: memory of theirs, which a cache
 * of registrations has no use for.  No public header has it.
 */
#define NOT_CACHED  (1ull << 60)

struct mr {
    struct fid_mr fid;
    struct umfi_domain *domain;
    void *addr;
    size_t len;
    uint64_t id;                /* of its own export; 0: none */
};

static int mr_close(fid_t fid)
{
    struct mr *mr = umfi_of(fid, struct mr, fid.fid);
    struct umfi_fabric *fabric = mr->domain->fabric;
    int ret = 0;

    if (mr->id) {
        ret = unetmm_unexport(fabric->ctx, mr->id);
    }
    umfi_unpin(fabric, mr->addr, mr->len);
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

/*
 * Regions of libfabric's callers may share pages, so with source `pinned` the pages are
 * registered by umfi_pin() and not by the export.
 */
static unsigned export_flags(void)
{
    return UNETMM_EXPORT_KEYED | (umfi_config.source == UNETMM_SOURCE_PINNED ?
                                  UNETMM_EXPORT_REGISTERED : 0);
}

/* An export with a key, and its number. */
static int export_memory(struct umfi_fabric *fabric, void *addr, size_t len,
                         unsigned rights, unsigned flags, uint64_t *id, uint64_t *key)
{
    uint64_t number = __atomic_fetch_add(&fabric->next_export, 1, __ATOMIC_RELAXED);
    uint64_t base;
    int ret = unetmm_export(fabric->ctx, number, addr, len, rights, flags, 0);

    if (ret) {
        return ret;
    }
    ret = unetmm_export_key(fabric->ctx, number, key, &base);
    if (ret) {
        unetmm_unexport(fabric->ctx, number);
        return ret;
    }
    *id = number;
    return 0;
}

static int whole_key(struct umfi_domain *domain, uint64_t *key)
{
    int ret = 0;

    umfi_lock(domain);
    if (!domain->whole) {
        ret = export_memory(domain->fabric, NULL, 0, UNETMM_RIGHT_READ |
                            UNETMM_RIGHT_WRITE, UNETMM_EXPORT_WHOLE, &domain->whole,
                            &domain->whole_key);
    }
    *key = domain->whole_key;
    umfi_unlock(domain);
    return ret;
}

void umfi_mr_end_whole(struct umfi_domain *domain)
{
    if (domain->whole) {
        unetmm_unexport(domain->fabric->ctx, domain->whole);
    }
}

static int register_memory(struct mr *mr, uint64_t access)
{
    struct umfi_fabric *fabric = mr->domain->fabric;
    unsigned rights = rights_of(access);
    int ret = umfi_pin(fabric, mr->addr, mr->len);

    if (!ret && rights) {
        ret = umfi_config.whole ? whole_key(mr->domain, &mr->fid.key) :
            export_memory(fabric, mr->addr, mr->len, rights, export_flags(), &mr->id,
                          &mr->fid.key);
        if (ret) {
            umfi_unpin(fabric, mr->addr, mr->len);
        }
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

    if (fid->fclass != FI_CLASS_DOMAIN || flags & ~NOT_CACHED || attr->iov_count != 1) {
        UMFI_WARN(FI_LOG_MR, "%zu ranges, flags %#llx: use one range and no flags\n",
                  attr->iov_count, (unsigned long long)flags);
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
    ret = register_memory(mr, attr->access);
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
