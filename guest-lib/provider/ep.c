/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Endpoints: a channel of the card each, on a port of their own or an SRX's. */
#include "provider.h"

#include <stdlib.h>
#include <string.h>

int umfi_copy_address(struct umfi_fabric *fabric, const struct sockaddr_in *from, void *to,
                      size_t *len)
{
    size_t room = *len;

    *len = sizeof(*from);
    sys_lock_take(&fabric->lock);
    memcpy(to, from, room < sizeof(*from) ? room : sizeof(*from));
    sys_lock_drop(&fabric->lock);
    return room < sizeof(*from) ? -FI_ETOOSMALL : 0;
}

/* ---- Ports and queues ------------------------------------------------------ */

/* 0: the EP is enabled.  -FI_EAGAIN: it is to get a port. */
static int check_enabled(const struct umfi_ep *ep)
{
    sys_assert_held(&ep->domain->lock);
    if (ep->port) {
        return 0;
    }
    if (ep->state == UMFI_ENDED) {
        return -FI_EOPBADSTATE;
    }
    if (!ep->eq || !ep->tx_cq || !ep->rx_cq) {
        return ep->eq ? -FI_ENOCQ : -FI_ENOEQ;
    }
    return -FI_EAGAIN;
}

/* Other threads find the port by the EP once the queues take its completions. */
static int attach_port(struct umfi_ep *ep, struct umfi_port *port)
{
    int ret = umfi_cq_attach(ep->tx_cq, port);

    sys_assert_held(&ep->domain->lock);
    if (!ret) {
        ret = umfi_cq_attach(ep->rx_cq, port);
        if (ret) {
            umfi_cq_detach(ep->tx_cq, port);
        }
    }
    if (!ret) {
        ep->port = port;
    }
    return ret;
}

/*
 * A port of its own is opened without the lock, since that pins a page.  Another thread may enable
 * or close the EP meanwhile, or bind an SRX.
 */
static int open_port(struct umfi_ep *ep)
{
    struct umfi_port *port;
    bool attached;
    int ret = umfi_port_open(ep->domain, ep->tx_size, ep->rx_size, &umfi_channel_events, &port);

    if (ret) {
        return ret;
    }
    umfi_lock(ep->domain);
    ret = check_enabled(ep);
    if (ret == -FI_EAGAIN) {
        ret = ep->srx ? -FI_EOPBADSTATE : attach_port(ep, port);
    }
    attached = ep->port == port;
    umfi_unlock(ep->domain);
    if (!attached) {
        umfi_port_close(port);
    }
    return ret;
}

int umfi_ep_enable(struct umfi_ep *ep)
{
    bool opens;
    int ret;

    umfi_lock(ep->domain);
    ret = check_enabled(ep);
    opens = ret == -FI_EAGAIN && !ep->srx;
    if (ret == -FI_EAGAIN && ep->srx) {
        ret = attach_port(ep, ep->srx->port);
    }
    umfi_unlock(ep->domain);
    return opens ? open_port(ep) : ret;
}

static int ep_shutdown(struct fid_ep *fid, uint64_t flags)
{
    struct umfi_ep *ep = umfi_of(fid, struct umfi_ep, fid);
    int ret;

    umfi_lock(ep->domain);
    ret = umfi_ep_begin_shutdown(ep);
    umfi_unlock(ep->domain);
    return ret;
}

/* ---- Closing --------------------------------------------------------------- */

/*
 * Ends an EP without a channel: no other thread enables or connects it from now on.  The channel of
 * another EP ends behind its messages.
 */
static void end_unconnected(struct umfi_ep *ep)
{
    umfi_lock(ep->domain);
    if (ep->state == UMFI_IDLE || ep->state == UMFI_CONNECTING) {
        umfi_ep_set_state(ep, UMFI_ENDED);
    }
    umfi_unlock(ep->domain);
}

/* Returns the port, which no other thread finds by the EP from now on; NULL: there was none. */
static struct umfi_port *detach_port(struct umfi_ep *ep)
{
    struct umfi_port *port;

    umfi_lock(ep->domain);
    port = ep->port;
    if (port) {
        umfi_ep_close_channel(ep);
        umfi_port_forget_ep(port, ep);
        umfi_cq_detach(ep->tx_cq, port);
        umfi_cq_detach(ep->rx_cq, port);
        ep->port = NULL;
    }
    umfi_unlock(ep->domain);
    return port;
}

static void drop_users(const struct umfi_ep *ep)
{
    if (ep->tx_cq) {
        __atomic_sub_fetch(&ep->tx_cq->users, 1, __ATOMIC_RELEASE);
    }
    if (ep->rx_cq) {
        __atomic_sub_fetch(&ep->rx_cq->users, 1, __ATOMIC_RELEASE);
    }
    if (ep->eq) {
        __atomic_sub_fetch(&ep->eq->users, 1, __ATOMIC_RELEASE);
    }
    if (ep->srx) {
        __atomic_sub_fetch(&ep->srx->users, 1, __ATOMIC_RELEASE);
    }
    __atomic_sub_fetch(&ep->domain->users, 1, __ATOMIC_RELEASE);
}

/*
 * ofi_rxm reads the completions of an endpoint after it has closed it, and posts their
 * buffers to it again.  That has to fail, so the memory stays until as many others have
 * been closed as can be connected at a time, or the domain is closed.
 */
static void keep_closed(struct umfi_ep *ep)
{
    struct umfi_domain *domain = ep->domain;
    struct umfi_ep **place;

    umfi_lock(domain);
    umfi_list_del(&ep->in_domain);
    umfi_ep_set_state(ep, UMFI_ENDED);
    place = &domain->closed[domain->nclosed++ % UMFI_CLOSED_KEPT];
    free(*place);
    *place = ep;
    umfi_unlock(domain);
}

void umfi_ep_free_closed(struct umfi_domain *domain)
{
    for (unsigned i = 0; i < UMFI_CLOSED_KEPT; i++) {
        free(domain->closed[i]);
        domain->closed[i] = NULL;
    }
}

static int ep_close(fid_t fid)
{
    struct umfi_ep *ep = umfi_of(fid, struct umfi_ep, fid.fid);
    struct umfi_fabric *fabric = ep->domain->fabric;
    struct umfi_port *port;

    /* From here on nobody connects it. */
    sys_lock_take(&fabric->lock);
    umfi_cm_abandon_ep(ep);
    end_unconnected(ep);
    sys_lock_drop(&fabric->lock);
    port = detach_port(ep);
    if (port && !ep->srx) {
        umfi_port_close(port);
    }
    if (ep->eq) {
        umfi_eq_remove_events(ep->eq, fid);
    }
    keep_closed(ep);
    drop_users(ep);
    return 0;
}

/* ---- Binding, options ------------------------------------------------------ */

static int bind_cq(struct umfi_ep *ep, struct umfi_cq *cq, uint64_t flags)
{
    const uint64_t known = FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION;
    uint64_t completion = flags & FI_SELECTIVE_COMPLETION ? 0 : FI_COMPLETION;

    if (flags & ~known || !(flags & (FI_TRANSMIT | FI_RECV)) ||
        cq->domain != ep->domain || (flags & FI_TRANSMIT && ep->tx_cq) ||
        (flags & FI_RECV && ep->rx_cq)) {
        return -FI_EINVAL;
    }
    if (flags & FI_TRANSMIT) {
        ep->tx_cq = cq;
        ep->tx_completion = completion;
        __atomic_add_fetch(&cq->users, 1, __ATOMIC_RELAXED);
    }
    if (flags & FI_RECV) {
        ep->rx_cq = cq;
        ep->rx_completion = completion;
        __atomic_add_fetch(&cq->users, 1, __ATOMIC_RELAXED);
    }
    return 0;
}

static int bind_object(struct umfi_ep *ep, fid_t to, uint64_t flags)
{
    sys_assert_held(&ep->domain->lock);
    if (ep->port || ep->state == UMFI_ENDED) {
        return -FI_EOPBADSTATE;
    }
    switch (to->fclass) {
    case FI_CLASS_CQ:
        return bind_cq(ep, umfi_of(to, struct umfi_cq, fid.fid), flags);
    case FI_CLASS_EQ:
        if (ep->eq || umfi_of(to, struct umfi_eq, fid.fid)->fabric != ep->domain->fabric) {
            return -FI_EINVAL;
        }
        ep->eq = umfi_of(to, struct umfi_eq, fid.fid);
        __atomic_add_fetch(&ep->eq->users, 1, __ATOMIC_RELAXED);
        return 0;
    case FI_CLASS_SRX_CTX:
        if (ep->srx || umfi_of(to, struct umfi_srx, fid.fid)->domain != ep->domain) {
            return -FI_EINVAL;
        }
        ep->srx = umfi_of(to, struct umfi_srx, fid.fid);
        __atomic_add_fetch(&ep->srx->users, 1, __ATOMIC_RELAXED);
        return 0;
    default:
        return -FI_ENOSYS;
    }
}

static int ep_bind(fid_t fid, fid_t to, uint64_t flags)
{
    struct umfi_ep *ep = umfi_of(fid, struct umfi_ep, fid.fid);
    int ret;

    umfi_lock(ep->domain);
    ret = bind_object(ep, to, flags);
    umfi_unlock(ep->domain);
    return ret;
}

static int ep_control(fid_t fid, int command, void *arg)
{
    return command == FI_ENABLE ?
        umfi_ep_enable(umfi_of(fid, struct umfi_ep, fid.fid)) : -FI_ENOSYS;
}

int umfi_getopt(fid_t fid, int level, int name, void *value, size_t *len)
{
    if (level != FI_OPT_ENDPOINT || name != FI_OPT_CM_DATA_SIZE) {
        return -FI_ENOPROTOOPT;
    }
    if (*len < sizeof(size_t)) {
        return -FI_ETOOSMALL;
    }
    *(size_t *)value = UMFI_CM_DATA;
    *len = sizeof(size_t);
    return 0;
}

int umfi_setopt(fid_t fid, int level, int name, const void *value, size_t len)
{
    return -FI_ENOPROTOOPT;
}

struct fi_ops_ep umfi_ep_ops = {
    .size = sizeof(umfi_ep_ops),
    .cancel = umfi_no_cancel,
    .getopt = umfi_getopt,
    .setopt = umfi_setopt,
    .tx_ctx = umfi_no_tx_ctx,
    .rx_ctx = umfi_no_rx_ctx,
    .rx_size_left = umfi_no_size_left,
    .tx_size_left = umfi_no_size_left,
};

static struct fi_ops ep_fi_ops = {
    .size = sizeof(ep_fi_ops),
    .close = ep_close,
    .bind = ep_bind,
    .control = ep_control,
    .ops_open = umfi_no_ops_open,
};

/* ---- Connections ----------------------------------------------------------- */

static int ep_getname(fid_t fid, void *addr, size_t *len)
{
    struct umfi_ep *ep = umfi_of(fid, struct umfi_ep, fid.fid);

    return umfi_copy_address(ep->domain->fabric, &ep->src, addr, len);
}

static int ep_getpeer(struct fid_ep *fid, void *addr, size_t *len)
{
    struct umfi_ep *ep = umfi_of(fid, struct umfi_ep, fid);

    return umfi_copy_address(ep->domain->fabric, &ep->dst, addr, len);
}

static int ep_connect(struct fid_ep *fid, const void *addr, const void *data,
                      size_t len)
{
    struct umfi_ep *ep = umfi_of(fid, struct umfi_ep, fid);
    const struct sockaddr_in *to = addr;
    int ret;

    /* fi_cm(3) would have the rest dropped; libfabric's own test wants this answer. */
    if (!to || to->sin_family != AF_INET || len > UMFI_CM_DATA) {
        return -FI_EINVAL;
    }
    ret = umfi_ep_enable(ep);
    if (ret) {
        return ret;
    }
    return umfi_cm_connect(ep, to, data, len);
}

static int ep_accept(struct fid_ep *fid, const void *data, size_t len)
{
    struct umfi_ep *ep = umfi_of(fid, struct umfi_ep, fid);
    int ret = umfi_ep_enable(ep);

    return ret ? ret : umfi_cm_accept(ep, data, len);
}

static struct fi_ops_cm ep_cm_ops = {
    .size = sizeof(ep_cm_ops),
    .setname = umfi_no_setname,
    .getname = ep_getname,
    .getpeer = ep_getpeer,
    .connect = ep_connect,
    .listen = umfi_no_listen,
    .accept = ep_accept,
    .reject = umfi_no_reject,
    .shutdown = ep_shutdown,
    .join = umfi_no_join,
};

/* ---- Opening --------------------------------------------------------------- */

static void set_attributes(struct umfi_ep *ep, const struct fi_info *info)
{
    ep->src = (struct sockaddr_in) {
        .sin_family = AF_INET,
        .sin_addr = ep->domain->fabric->dev.address,
    };
    if (info->src_addr && info->src_addrlen >= sizeof(ep->src)) {
        memcpy(&ep->src, info->src_addr, sizeof(ep->src));
    }
    if (info->dest_addr && info->dest_addrlen >= sizeof(ep->dst)) {
        memcpy(&ep->dst, info->dest_addr, sizeof(ep->dst));
    }
    ep->tx_size = info->tx_attr && info->tx_attr->size ? info->tx_attr->size :
        UMFI_TX_SIZE;
    ep->rx_size = info->rx_attr && info->rx_attr->size ? info->rx_attr->size :
        UMFI_RX_SIZE;
    ep->tx_flags = info->tx_attr ? info->tx_attr->op_flags : 0;
    ep->rx_flags = info->rx_attr ? info->rx_attr->op_flags : 0;
}

int umfi_ep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **out,
                 void *context)
{
    struct umfi_domain *domain = umfi_of(fid, struct umfi_domain, fid);
    struct umfi_ep *ep;

    if (info->ep_attr && info->ep_attr->type != FI_EP_MSG &&
        info->ep_attr->type != FI_EP_UNSPEC) {
        return -FI_EINVAL;
    }
    ep = calloc(1, sizeof(*ep));
    if (!ep) {
        return -FI_ENOMEM;
    }
    ep->domain = domain;
    umfi_list_init(&ep->node);
    umfi_list_init(&ep->in_domain);
    set_attributes(ep, info);
    if (info->handle && !umfi_cm_assign_request(domain->fabric, info->handle, ep)) {
        free(ep);
        return -FI_ECONNABORTED;
    }
    ep->fid.fid.fclass = FI_CLASS_EP;
    ep->fid.fid.context = context;
    ep->fid.fid.ops = &ep_fi_ops;
    ep->fid.ops = &umfi_ep_ops;
    ep->fid.cm = &ep_cm_ops;
    ep->fid.msg = &umfi_msg_ops;
    ep->fid.rma = &umfi_rma_ops;
    umfi_lock(domain);
    umfi_list_add(&domain->eps, &ep->in_domain);
    umfi_unlock(domain);
    __atomic_add_fetch(&domain->users, 1, __ATOMIC_RELAXED);
    *out = &ep->fid;
    return 0;
}
