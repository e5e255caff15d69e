/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The device: its match for libibverbs, contexts, and objects that the driver alone has.
 */
#include "mw.h"
#include "srq.h"
#include "ud.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define PCI_VENDOR  0x1af4
#define PCI_DEVICE  0x10f0

struct context_resp {
    struct ib_uverbs_get_context_resp base;
    struct unetmm_verbs_context own;
};

static int query_device(struct ibv_context *context,
                        const struct ibv_query_device_ex_input *input,
                        struct ibv_device_attr_ex *attr, size_t bytes)
{
    struct ib_uverbs_ex_query_device_resp resp;
    size_t resp_bytes = sizeof(resp);
    int ret = ibv_cmd_query_device_any(context, input, attr, bytes, &resp, &resp_bytes);

    if (!ret) {
        snprintf(attr->orig_attr.fw_ver, sizeof(attr->orig_attr.fw_ver), "%u.%u",
                 UNETMM_GET(UNETMM_VERSION_MAJOR, attr->orig_attr.hw_ver),
                 UNETMM_GET(UNETMM_VERSION_MINOR, attr->orig_attr.hw_ver));
    }
    return ret;
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
    struct ibv_query_port cmd;

    return ibv_cmd_query_port(context, port, attr, &cmd, sizeof(cmd));
}

static struct ibv_pd *alloc_pd(struct ibv_context *context)
{
    struct ib_uverbs_alloc_pd_resp resp;
    struct ibv_alloc_pd cmd;
    struct ibv_pd *pd = calloc(1, sizeof(*pd));
    int ret;

    if (!pd) {
        return NULL;
    }
    ret = ibv_cmd_alloc_pd(context, pd, &cmd, sizeof(cmd), &resp, sizeof(resp));
    if (ret) {
        free(pd);
        errno = ret;
        return NULL;
    }
    return pd;
}

static int dealloc_pd(struct ibv_pd *pd)
{
    int ret = ibv_cmd_dealloc_pd(pd);

    if (!ret) {
        free(pd);
    }
    return ret;
}

static void free_context(struct ibv_context *ibcontext)
{
    struct umv_context *context = umv_context(ibcontext);
    size_t i;

    for (i = 0; i < sizeof(context->mrs) / sizeof(context->mrs[0]); i++) {
        free(context->mrs[i]);
    }
    verbs_uninit_context(&context->vctx);
    free(context);
}

static const struct verbs_context_ops context_ops = {
    .advise_mr = ibv_cmd_advise_mr,
    .alloc_mw = umv_alloc_mw,
    .alloc_pd = alloc_pd,
    .bind_mw = umv_bind_mw,
    .create_ah = umv_create_ah,
    .create_cq = umv_create_cq,
    .create_cq_ex = umv_create_cq_ex,
    .create_qp = umv_create_qp,
    .create_qp_ex = umv_create_qp_ex,
    .create_srq = umv_create_srq,
    .create_srq_ex = umv_create_srq_ex,
    .dealloc_mw = umv_dealloc_mw,
    .dealloc_pd = dealloc_pd,
    .dereg_mr = umv_dereg_mr,
    .destroy_ah = umv_destroy_ah,
    .destroy_cq = umv_destroy_cq,
    .destroy_qp = umv_destroy_qp,
    .destroy_srq = umv_destroy_srq,
    .free_context = free_context,
    .modify_qp = umv_modify_qp,
    .modify_srq = umv_modify_srq,
    .poll_cq = umv_poll_cq,
    .post_recv = umv_post_recv,
    .post_send = umv_post_send,
    .post_srq_recv = umv_post_srq_recv,
    .query_device_ex = query_device,
    .query_port = query_port,
    .query_qp = umv_query_qp,
    .query_srq = umv_query_srq,
    .reg_mr = umv_reg_mr,
    .req_notify_cq = ibv_cmd_req_notify_cq,
    .resize_cq = umv_resize_cq,
};

static struct verbs_context *alloc_context(struct ibv_device *device, int fd, void *data)
{
    struct context_resp resp = {};
    struct ibv_get_context cmd = {};
    struct umv_context *context;

    (void)data;
    context = verbs_init_and_alloc_context(device, fd, context, vctx, RDMA_DRIVER_UNKNOWN);
    if (!context) {
        return NULL;
    }
    if (ibv_cmd_get_context(&context->vctx, &cmd, sizeof(cmd), &resp.base, sizeof(resp))) {
        verbs_uninit_context(&context->vctx);
        free(context);
        return NULL;
    }
    context->max_message = resp.own.max_message;
    verbs_set_ops(&context->vctx, &context_ops);
    return &context->vctx;
}

static struct verbs_device *alloc_device(struct verbs_sysfs_dev *found)
{
    (void)found;
    return calloc(1, sizeof(struct verbs_device));
}

static void uninit_device(struct verbs_device *device)
{
    free(device);
}

static const struct verbs_match_ent matches[] = {
    VERBS_PCI_MATCH(PCI_VENDOR, PCI_DEVICE, NULL),
    {},
};

static const struct verbs_device_ops device_ops = {
    .name = "unetmm",
    .match_min_abi_version = UNETMM_VERBS_ABI,
    .match_max_abi_version = UNETMM_VERBS_ABI,
    .match_table = matches,
    .alloc_device = alloc_device,
    .uninit_device = uninit_device,
    .alloc_context = alloc_context,
};
PROVIDER_DRIVER(unetmm, device_ops);
