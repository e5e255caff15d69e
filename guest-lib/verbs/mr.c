/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory regions.  The driver gives numbers in turn, so the table is in two steps.
 */
#include "send.h"

#include <errno.h>
#include <stdlib.h>

#define MR_SLOTS    (1u << UMV_MR_LOG2)

static struct umv_mr **leaf_of(const struct umv_context *context, uint32_t lkey)
{
    return umv_load(&context->mrs[lkey >> 8 >> UMV_MR_LOG2]);
}

static void set_mr(struct umv_context *context, uint32_t lkey, struct umv_mr *mr)
{
    __atomic_store_n(&leaf_of(context, lkey)[lkey >> 8 & (MR_SLOTS - 1)], mr, __ATOMIC_RELEASE);
}

/* Leaves stay for the context's life. */
static int add_mr(struct umv_context *context, uint32_t lkey, struct umv_mr *mr)
{
    int ret = 0;

    sys_lock_take(&context->lock);
    if (!leaf_of(context, lkey)) {
        struct umv_mr **leaf = calloc(MR_SLOTS, sizeof(struct umv_mr *));

        ret = leaf ? 0 : ENOMEM;
        __atomic_store_n(&context->mrs[lkey >> 8 >> UMV_MR_LOG2], leaf, __ATOMIC_RELEASE);
    }
    sys_lock_drop(&context->lock);
    if (!ret) {
        set_mr(context, lkey, mr);
    }
    return ret;
}

/* Looks the region up, and keeps a copy of it. */
void *umv_find_memory(const struct umv_context *context, const struct ibv_pd *pd,
                      struct umv_last_mr *last, const struct ibv_sge *sge, int access)
{
    uint32_t version = umv_load(&context->mr_version);
    struct umv_mr **leaf = leaf_of(context, sge->lkey);
    const struct umv_mr *mr;

    if (!leaf) {
        return NULL;
    }
    mr = umv_load(&leaf[sge->lkey >> 8 & (MR_SLOTS - 1)]);
    if (!mr || mr->vmr.ibv_mr.lkey != sge->lkey || mr->vmr.ibv_mr.pd != pd ||
        (mr->access & access) != access || sge->addr < mr->iova || sge->length > mr->length ||
        sge->addr - mr->iova > mr->length - sge->length) {
        return NULL;
    }
    *last = (struct umv_last_mr) {
        .lkey = sge->lkey, .version = version, .end = mr->iova + mr->length,
         .length = mr->length, .delta = mr->start - mr->iova, .access = mr->access,
    };
    return (void *)(uintptr_t)(mr->start + (sge->addr - mr->iova));
}

/* Segments without bytes are left out; the others' number. */
unsigned umv_translate(const struct umv_context *context, const struct ibv_pd *pd,
                       struct umv_last_mr *last, const struct ibv_sge *sges, int n, int access,
                       struct iovec *iov)
{
    unsigned used = 0;
    int i;

    for (i = 0; i < n; i++) {
        if (sges[i].length) {
            iov[used].iov_base = umv_memory_of(context, pd, last, &sges[i], access);
            iov[used++].iov_len = sges[i].length;
        }
    }
    return used;
}

struct ibv_mr *umv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                          int access)
{
    struct umv_mr *mr = calloc(1, sizeof(*mr));
    struct ib_uverbs_reg_mr_resp resp;
    struct ibv_reg_mr cmd;
    int ret;

    if (!mr) {
        return NULL;
    }
    ret = ibv_cmd_reg_mr(pd, addr, length, iova, access, &mr->vmr, &cmd, sizeof(cmd), &resp,
                         sizeof(resp));
    if (ret) {
        goto free_mr;
    }
    mr->start = (uintptr_t)addr;
    mr->iova = iova;
    mr->length = length;
    mr->access = access;
    /* libibverbs sets it later. */
    mr->vmr.ibv_mr.pd = pd;
    ret = add_mr(umv_context(pd->context), mr->vmr.ibv_mr.lkey, mr);
    if (!ret) {
        return &mr->vmr.ibv_mr;
    }
    ibv_cmd_dereg_mr(&mr->vmr);
free_mr:
    free(mr);
    errno = ret;
    return NULL;
}

int umv_dereg_mr(struct verbs_mr *vmr)
{
    struct umv_context *context = umv_context(vmr->ibv_mr.context);
    struct umv_mr *mr = container_of(vmr, struct umv_mr, vmr), *old = mr;
    uint32_t index = vmr->ibv_mr.lkey >> 8 & (MR_SLOTS - 1);
    struct umv_mr **leaf = leaf_of(context, vmr->ibv_mr.lkey);
    int ret = ibv_cmd_dereg_mr(vmr);

    if (ret) {
        return ret;
    }
    /* The driver may have given the number to another region already. */
    __atomic_compare_exchange_n(&leaf[index], &old, NULL, false, __ATOMIC_RELEASE,
                                __ATOMIC_RELAXED);
    __atomic_fetch_add(&context->mr_version, 1, __ATOMIC_RELEASE);
    free(mr);
    return 0;
}
