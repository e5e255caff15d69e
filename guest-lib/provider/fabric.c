/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The fabric: libunetmm's context, and all objects below it. */
#include "provider.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

static int fabric_close(fid_t fid)
{
    struct umfi_fabric *fabric = umfi_of(fid, struct umfi_fabric, fid.fid);
    int ret;

    if (__atomic_load_n(&fabric->users, __ATOMIC_ACQUIRE)) {
        return -FI_EBUSY;
    }
    umfi_calls_cancel(fabric, NULL);
    umfi_cm_close(fabric);
    ret = unetmm_close(fabric->ctx);
    if (ret) {
        UMFI_WARN(FI_LOG_FABRIC, "close: %s\n",
                  unetmm_strerror(ret, UNETMM_CALL_ANY));
    }
    close(fabric->neighbours);
    close(fabric->epoll);
    free(fabric);
    return 0;
}

int umfi_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
    for (int i = 0; i < count; i++) {
        int ret;

        switch (fids[i]->fclass) {
        case FI_CLASS_CQ:
            ret = umfi_cq_trywait(umfi_of(fids[i], struct umfi_cq, fid.fid));
            break;
        case FI_CLASS_EQ:
            ret = umfi_eq_trywait(umfi_of(fids[i], struct umfi_eq, fid.fid));
            break;
        default:
            ret = -FI_EINVAL;
        }
        if (ret) {
            return ret;
        }
    }
    return 0;
}

static struct fi_ops fabric_fi_ops = {
    .size = sizeof(fabric_fi_ops),
    .close = fabric_close,
    .bind = umfi_no_bind,
    .control = umfi_no_control,
    .ops_open = umfi_no_ops_open,
};

static struct fi_ops_fabric fabric_ops = {
    .size = sizeof(fabric_ops),
    .domain = umfi_domain_open,
    .passive_ep = umfi_pep_open,
    .eq_open = umfi_eq_open,
    .wait_open = umfi_no_wait_open,
    .trywait = umfi_trywait,
};

/*
 * The context's descriptor says that a channel waits to be accepted, and that of the
 * neighbour table that a request may have its answer.
 */
static int watch_descriptors(struct umfi_fabric *fabric)
{
    struct epoll_event accepts = { .events = EPOLLPRI }, changes = { .events = EPOLLIN };
    int ret;

    fabric->neighbours = umfi_neighbours_open();
    fabric->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (fabric->neighbours >= 0 && fabric->epoll >= 0 &&
        !epoll_ctl(fabric->epoll, EPOLL_CTL_ADD, unetmm_ctx_fd(fabric->ctx), &accepts) &&
        !epoll_ctl(fabric->epoll, EPOLL_CTL_ADD, fabric->neighbours, &changes)) {
        return 0;
    }
    ret = -errno;
    if (fabric->neighbours >= 0) {
        close(fabric->neighbours);
    }
    if (fabric->epoll >= 0) {
        close(fabric->epoll);
    }
    return ret;
}

int umfi_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **out,
                     void *context)
{
    struct umfi_fabric *fabric = calloc(1, sizeof(*fabric));
    int ret;

    if (!fabric) {
        return -FI_ENOMEM;
    }
    ret = umfi_netdev_find(&fabric->dev);
    if (!ret) {
        ret = unetmm_open(umfi_config.device, umfi_config.source, &fabric->ctx);
        if (ret) {
            UMFI_WARN(FI_LOG_FABRIC, "%s: %s\n", umfi_config.device,
                      unetmm_strerror(ret, UNETMM_CALL_OPEN));
        }
    }
    if (ret) {
        free(fabric);
        return ret;
    }
    ret = watch_descriptors(fabric);
    if (ret) {
        unetmm_close(fabric->ctx);
        free(fabric);
        return ret;
    }
    fabric->next_export = 1;
    umfi_list_init(&fabric->cm_ports);
    umfi_list_init(&fabric->ports);
    umfi_list_init(&fabric->callees);
    umfi_list_init(&fabric->callees_ready);
    umfi_list_init(&fabric->calls_running);
    umfi_list_init(&fabric->calls_ended);
    fabric->fid.fid.fclass = FI_CLASS_FABRIC;
    fabric->fid.fid.context = context;
    fabric->fid.fid.ops = &fabric_fi_ops;
    fabric->fid.ops = &fabric_ops;
    fabric->fid.api_version = attr ? attr->api_version : 0;
    *out = &fabric->fid;
    return 0;
}
