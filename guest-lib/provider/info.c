/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* fi_getinfo(): the provider's one description, and whether it suits the caller. */
#include "provider.h"

#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#define TX_CAPS     (FI_MSG | FI_RMA | FI_SEND | FI_READ | FI_WRITE)
#define RX_CAPS     (FI_MSG | FI_RMA | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define DOMAIN_CAPS (FI_LOCAL_COMM | FI_REMOTE_COMM)
#define ALL_CAPS    (TX_CAPS | RX_CAPS | DOMAIN_CAPS)
#define TX_OP_FLAGS (FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | \
                     FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE)
#define RX_OP_FLAGS FI_COMPLETION
#define MSG_ORDER   FI_ORDER_SAS

#define NO(...)     do { UMFI_INFO(FI_LOG_CORE, __VA_ARGS__); return false; } while (0)

/* The name of the card's device without its folder. */
static const char *domain_name(void)
{
    const char *slash = strrchr(umfi_config.device, '/');

    return slash ? slash + 1 : umfi_config.device;
}

static int mr_mode(void)
{
    return FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY |
           (umfi_config.source == UNETMM_SOURCE_PINNED ? FI_MR_LOCAL : 0);
}

/* ---- The description ------------------------------------------------------- */

static size_t most_ops(const struct umfi_netdev *dev)
{
    return ((size_t)1 << dev->limits.max_ring_log2) / UMFI_COPY_SLOTS;
}

static void fill_contexts(struct fi_info *info)
{
    *info->tx_attr = (struct fi_tx_attr) {
        .caps = TX_CAPS,
        .msg_order = MSG_ORDER,
        .inject_size = UMFI_INJECT,
        .size = UMFI_TX_SIZE,
        .iov_limit = UMFI_IOV,
        .rma_iov_limit = 1,
    };
    *info->rx_attr = (struct fi_rx_attr) {
        .caps = RX_CAPS,
        .mode = FI_RX_CQ_DATA,
        .msg_order = MSG_ORDER,
        .size = UMFI_RX_SIZE,
        .iov_limit = 1,
    };
}

static void fill_domain(struct fi_domain_attr *attr, const struct umfi_netdev *dev)
{
    attr->threading = FI_THREAD_SAFE;
    attr->control_progress = FI_PROGRESS_MANUAL;
    attr->data_progress = FI_PROGRESS_AUTO;
    attr->resource_mgmt = FI_RM_ENABLED;
    attr->mr_mode = mr_mode();
    attr->mr_key_size = sizeof(uint64_t);
    attr->cq_data_size = UMFI_CQ_DATA;
    attr->cq_cnt = 65536;
    attr->ep_cnt = (size_t)dev->limits.endpoints * dev->limits.channels;
    attr->tx_ctx_cnt = attr->rx_ctx_cnt = dev->limits.endpoints;
    attr->max_ep_tx_ctx = attr->max_ep_rx_ctx = 1;
    attr->max_ep_srx_ctx = dev->limits.endpoints;
    attr->mr_iov_limit = 1;
    attr->mr_cnt = dev->limits.regions;
    attr->caps = DOMAIN_CAPS;
    attr->name = strdup(domain_name());
}

static void *copy_address(const struct sockaddr_in *from, size_t *len)
{
    void *copy = from ? malloc(sizeof(*from)) : NULL;

    *len = copy ? sizeof(*from) : 0;
    return copy ? memcpy(copy, from, sizeof(*from)) : NULL;
}

struct fi_info *umfi_info_alloc(const struct umfi_netdev *dev,
                                const struct sockaddr_in *src,
                                const struct sockaddr_in *dst)
{
    struct fi_info *info = fi_allocinfo();

    if (!info) {
        return NULL;
    }
    info->caps = ALL_CAPS;
    info->mode = FI_RX_CQ_DATA;
    info->addr_format = FI_SOCKADDR_IN;
    info->src_addr = copy_address(src, &info->src_addrlen);
    info->dest_addr = copy_address(dst, &info->dest_addrlen);
    fill_contexts(info);
    *info->ep_attr = (struct fi_ep_attr) {
        .type = FI_EP_MSG,
        .protocol = UMFI_PROTOCOL,
        .protocol_version = UMFI_PROTOCOL_VERSION,
        .max_msg_size = UMFI_MAX_MESSAGE,
        .tx_ctx_cnt = 1,
        .rx_ctx_cnt = 1,
    };
    fill_domain(info->domain_attr, dev);
    info->fabric_attr->name = strdup(UMFI_NAME);
    info->fabric_attr->prov_version = umfi_provider.version;
    info->fabric_attr->api_version = umfi_provider.fi_version;
    if ((src && !info->src_addr) || (dst && !info->dest_addr) ||
        !info->domain_attr->name || !info->fabric_attr->name) {
        fi_freeinfo(info);
        return NULL;
    }
    return info;
}

/* ---- The caller's wishes --------------------------------------------------- */

/*
 * Data that comes with a peer's write takes one of our receive buffers, whose context
 * its completion has.  A caller says with FI_RX_CQ_DATA that it knows.  Without, it has
 * no such data; messages with data are as others.
 */
static bool takes_cq_data(const struct fi_info *hints)
{
    uint64_t mode = hints->mode | (hints->rx_attr ? hints->rx_attr->mode : 0);

    return mode & FI_RX_CQ_DATA || (hints->caps && !(hints->caps & FI_RMA));
}

/*
 * There is one limit for messages and RMA.  A caller that asks for RMA has that of RMA:
 * ofi_rxm does, unless its own caller has no hints.  It has long messages read so, and hands
 * the limit on.
 */
static size_t longest(const struct fi_info *hints)
{
    return hints->caps & FI_RMA ? UMFI_MAX_RMA : UMFI_MAX_MESSAGE;
}

static bool suits_ep(const struct fi_info *hints)
{
    const struct fi_ep_attr *attr = hints->ep_attr;

    if (attr->type != FI_EP_UNSPEC && attr->type != FI_EP_MSG) {
        NO("endpoints are of type FI_EP_MSG: use " UMFI_NAME ";ofi_rxm for others\n");
    }
    if (attr->protocol && attr->protocol != UMFI_PROTOCOL) {
        NO("protocol %u is not the provider's\n", attr->protocol);
    }
    if (attr->max_msg_size > longest(hints)) {
        NO("a message has at most %u bytes; writes and reads, which caps lack, have more\n",
           (unsigned)UMFI_MAX_MESSAGE);
    }
    if (attr->msg_prefix_size ||
        attr->max_order_raw_size || attr->max_order_war_size ||
        attr->max_order_waw_size) {
        NO("a size or an order of memory that endpoints do not have\n");
    }
    if (attr->tx_ctx_cnt > 1 || (attr->rx_ctx_cnt > 1 &&
                                 attr->rx_ctx_cnt != FI_SHARED_CONTEXT)) {
        NO("endpoints have one context of each kind\n");
    }
    return true;
}

static bool suits_mr(uint32_t version, const struct fi_domain_attr *attr,
                     uint64_t mode)
{
    int missing = mr_mode() & ~attr->mr_mode;

    /* Older callers have two modes, of which "basic" is all bits of today. */
    if (FI_VERSION_LT(version, FI_VERSION(1, 5))) {
        if (attr->mr_mode == UMFI_MR_SCALABLE ||
            (mr_mode() & FI_MR_LOCAL && !(mode & UMFI_LOCAL_MR))) {
            NO("memory regions are \"basic\"\n");
        }
        return true;
    }
    if (attr->mr_mode == UMFI_MR_BASIC) {
        missing = 0;
    }
    if (missing) {
        NO("mr_mode lacks %#x\n", (unsigned)missing);
    }
    return true;
}

static bool suits_domain(uint32_t version, const struct fi_domain_attr *attr,
                         uint64_t mode)
{
    if (attr->name && strcmp(attr->name, domain_name())) {
        NO("the domain is %s\n", domain_name());
    }
    if (attr->mr_key_size > sizeof(uint64_t) || attr->cq_data_size > UMFI_CQ_DATA ||
        attr->max_ep_tx_ctx > 1 || attr->max_ep_rx_ctx > 1 || attr->mr_iov_limit > 1 ||
        attr->max_ep_stx_ctx || attr->caps & ~DOMAIN_CAPS) {
        NO("a size or a capability that the domain does not have\n");
    }
    if (attr->control_progress == FI_PROGRESS_AUTO) {
        NO("connections make progress while an event queue is read\n");
    }
    return suits_mr(version, attr, mode);
}

static bool suits_tx(const struct fi_tx_attr *attr, const struct umfi_netdev *dev)
{
    if (attr->caps & ~ALL_CAPS || attr->op_flags & ~TX_OP_FLAGS ||
        attr->msg_order & ~MSG_ORDER || attr->comp_order) {
        NO("a capability, a flag or an order that sending does not have\n");
    }
    if (attr->inject_size > UMFI_INJECT || attr->size > most_ops(dev) ||
        attr->iov_limit > UMFI_IOV || attr->rma_iov_limit > 1) {
        NO("sending is limited to %zu operations, %u bytes injected, %u segments\n",
           most_ops(dev), (unsigned)UMFI_INJECT, UMFI_IOV);
    }
    return true;
}

static bool suits_rx(const struct fi_rx_attr *attr, const struct umfi_netdev *dev)
{
    if (attr->caps & ~ALL_CAPS || attr->op_flags & ~RX_OP_FLAGS ||
        attr->msg_order & ~MSG_ORDER || attr->comp_order ||
        attr->total_buffered_recv) {
        NO("a capability, a flag or an order that receiving does not have\n");
    }
    if (attr->size > most_ops(dev) || attr->iov_limit > 1) {
        NO("receiving is limited to %zu buffers of one segment\n", most_ops(dev));
    }
    return true;
}

static bool suits_hints(uint32_t version, const struct fi_info *hints,
                        const struct umfi_netdev *dev)
{
    if (hints->caps & ~ALL_CAPS) {
        NO("capabilities %#llx are not the provider's\n",
           (unsigned long long)(hints->caps & ~ALL_CAPS));
    }
    if (hints->addr_format != FI_FORMAT_UNSPEC && hints->addr_format != FI_SOCKADDR &&
        hints->addr_format != FI_SOCKADDR_IN) {
        NO("addresses are of the format FI_SOCKADDR_IN\n");
    }
    if (hints->fabric_attr && hints->fabric_attr->name &&
        strcmp(hints->fabric_attr->name, UMFI_NAME)) {
        NO("the fabric is " UMFI_NAME "\n");
    }
    if (hints->domain_attr && hints->domain_attr->cq_data_size &&
        !takes_cq_data(hints)) {
        NO("data of writes takes receive buffers: the mode lacks FI_RX_CQ_DATA\n");
    }
    return (!hints->ep_attr || suits_ep(hints)) &&
        (!hints->domain_attr || suits_domain(version, hints->domain_attr,
                                             hints->mode)) &&
        (!hints->tx_attr || suits_tx(hints->tx_attr, dev)) &&
        (!hints->rx_attr || suits_rx(hints->rx_attr, dev));
}

/* Reduces the description to the caller's wishes. */
static void apply_hints(uint32_t version, const struct fi_info *hints, struct fi_info *info)
{
    if (hints->caps) {
        info->caps = hints->caps | DOMAIN_CAPS;
        info->tx_attr->caps = hints->caps & TX_CAPS;
        info->rx_attr->caps = hints->caps & RX_CAPS;
    }
    info->ep_attr->max_msg_size = longest(hints);
    info->handle = hints->handle;
    if (!takes_cq_data(hints)) {
        info->domain_attr->cq_data_size = 0;
    }
    if (!(hints->mode & FI_RX_CQ_DATA)) {
        info->mode = 0;
        info->rx_attr->mode &= hints->rx_attr ? hints->rx_attr->mode : 0;
    }
    if (hints->ep_attr && hints->ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT) {
        info->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
    }
    if (hints->tx_attr) {
        info->tx_attr->op_flags = hints->tx_attr->op_flags;
        if (hints->tx_attr->size) {
            info->tx_attr->size = hints->tx_attr->size;
        }
    }
    if (hints->rx_attr) {
        info->rx_attr->op_flags = hints->rx_attr->op_flags;
        if (hints->rx_attr->size) {
            info->rx_attr->size = hints->rx_attr->size;
        }
    }
    if (hints->domain_attr) {
        if (hints->domain_attr->threading) {
            info->domain_attr->threading = hints->domain_attr->threading;
        }
        if (FI_VERSION_LT(version, FI_VERSION(1, 5)) ||
            hints->domain_attr->mr_mode == UMFI_MR_BASIC) {
            info->domain_attr->mr_mode = UMFI_MR_BASIC;
        }
    }
}

/* ---- Listeners ------------------------------------------------------------- */

struct fi_info *umfi_info_of_listener(const struct umfi_fabric *fabric,
                                      const struct fi_info *wanted)
{
    struct fi_info *info = umfi_info_alloc(&fabric->dev, NULL, NULL);

    if (!info) {
        return NULL;
    }
    apply_hints(fabric->fid.api_version, wanted, info);
    if (wanted->ep_attr && wanted->ep_attr->max_msg_size) {
        info->ep_attr->max_msg_size = wanted->ep_attr->max_msg_size;
    }
    /* libfabric sets these members in the result of fi_getinfo(); callers read them here, too. */
    info->fabric_attr->api_version = fabric->fid.api_version;
    info->fabric_attr->prov_name = strdup(UMFI_NAME);
    if (!info->fabric_attr->prov_name) {
        fi_freeinfo(info);
        return NULL;
    }
    return info;
}

struct fi_info *umfi_info_of_request(const struct fi_info *listener,
                                     const struct sockaddr_in *own,
                                     const struct sockaddr_in *peer)
{
    struct fi_info *info = fi_dupinfo(listener);

    if (!info) {
        return NULL;
    }
    info->src_addr = copy_address(own, &info->src_addrlen);
    info->dest_addr = copy_address(peer, &info->dest_addrlen);
    if (!info->src_addr || !info->dest_addr) {
        fi_freeinfo(info);
        return NULL;
    }
    return info;
}

/* ---- Addresses ------------------------------------------------------------- */

struct ends {
    struct sockaddr_in src, dst;
    bool have_dst;
};

static int look_up_address(const char *node, const char *service, uint64_t flags,
                           struct sockaddr_in *found)
{
    struct addrinfo *list;
    struct addrinfo wish = {
        .ai_family = AF_INET,
        .ai_socktype = SOCK_STREAM,
        .ai_flags = (flags & FI_SOURCE ? AI_PASSIVE : 0) |
                    (flags & FI_NUMERICHOST ? AI_NUMERICHOST : 0),
    };

    if (getaddrinfo(node, service, &wish, &list)) {
        return -FI_ENODATA;
    }
    memcpy(found, list->ai_addr, sizeof(*found));
    freeaddrinfo(list);
    return 0;
}

static bool is_in(const void *addr, size_t len)
{
    return addr && len >= sizeof(struct sockaddr_in) &&
        ((const struct sockaddr_in *)addr)->sin_family == AF_INET;
}

static int find_ends(const struct umfi_netdev *dev, const char *node,
                     const char *service, uint64_t flags, const struct fi_info *hints,
                     struct ends *ends)
{
    struct sockaddr_in found;

    memset(ends, 0, sizeof(*ends));
    if (hints && is_in(hints->src_addr, hints->src_addrlen)) {
        memcpy(&ends->src, hints->src_addr, sizeof(ends->src));
    }
    if (hints && is_in(hints->dest_addr, hints->dest_addrlen)) {
        memcpy(&ends->dst, hints->dest_addr, sizeof(ends->dst));
        ends->have_dst = true;
    }
    if (node || service) {
        if (look_up_address(node, service, flags, &found)) {
            return -FI_ENODATA;
        }
        if (flags & FI_SOURCE || !node) {
            ends->src = found;
        } else {
            ends->dst = found;
            ends->have_dst = true;
        }
    }
    if (ends->have_dst && !umfi_netdev_reaches(dev, ends->dst.sin_addr)) {
        return -FI_ENODATA;
    }
    /* A name of this host may have any of its addresses; the card has one. */
    if (ends->src.sin_addr.s_addr != INADDR_ANY &&
        ends->src.sin_addr.s_addr != dev->address.s_addr &&
        ntohl(ends->src.sin_addr.s_addr) >> 24 != IN_LOOPBACKNET) {
        return -FI_ENODATA;
    }
    ends->src.sin_family = AF_INET;
    ends->src.sin_addr = dev->address;
    return 0;
}

int umfi_getinfo(uint32_t version, const char *node, const char *service,
                 uint64_t flags, const struct fi_info *hints, struct fi_info **info)
{
    struct umfi_netdev dev;
    struct ends ends;

    if (umfi_config.unknown_source || umfi_netdev_find(&dev) ||
        (hints && !suits_hints(version, hints, &dev)) ||
        find_ends(&dev, node, service, flags, hints, &ends)) {
        return -FI_ENODATA;
    }
    *info = umfi_info_alloc(&dev, &ends.src, ends.have_dst ? &ends.dst : NULL);
    if (!*info) {
        return -FI_ENOMEM;
    }
    if (hints) {
        apply_hints(version, hints, *info);
    } else if (FI_VERSION_LT(version, FI_VERSION(1, 5))) {
        (*info)->domain_attr->mr_mode = UMFI_MR_BASIC;
    }
    return 0;
}
