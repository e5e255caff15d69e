/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Endpoints: their queues and doorbell, mapped into the process.
 */
#include "../handler/handler.h"
#include "../recording/recording.h"
#include "../remote/remote.h"

static const struct unetmm_ep_attr default_attr = UNETMM_EP_ATTR_INIT;

/* The shortest attributes: without raw endpoints. */
#define LEAST_ATTR_BYTES    SIZED_UP_TO(struct unetmm_ep_attr, spin_ns)

/* The longest descriptor must fit, with room for another behind it. */
#define MIN_SEND_SLOTS  8

/* log2 of a queue's depth, or -EINVAL. */
static int depth_log2(const struct unetmm_ctx *ctx, uint32_t depth,
                      uint32_t least)
{
    int log2;

    if (depth < least || depth & (depth - 1)) {
        return -EINVAL;
    }
    log2 = __builtin_ctz(depth);
    return (uint32_t)log2 > ctx->info.max_ring_log2 ? -EINVAL : log2;
}

/* The request to the driver. */
static int fill_request(const struct unetmm_ctx *ctx,
                        const struct unetmm_ep_attr *attr, int event_fd,
                        struct unetmm_endpoint *request)
{
    int sq_log2 = depth_log2(ctx, attr->send_slots, MIN_SEND_SLOTS);
    int fq_log2 = depth_log2(ctx, attr->free_depth, 2);
    int cq_log2 = depth_log2(ctx, attr->completion_depth, 2);

    if (sq_log2 < 0 || fq_log2 < 0 || cq_log2 < 0 ||
        attr->inline_max > UNETMM_MAX_INLINE) {
        return -EINVAL;
    }
    *request = (struct unetmm_endpoint) {
        .size = sizeof(*request),
        .flags = attr->flags,
        .sq_log2 = (uint32_t)sq_log2,
        .fq_log2 = (uint32_t)fq_log2,
        .cq_log2 = (uint32_t)cq_log2,
        .policy = attr->policy,
        .pretranslate = attr->pretranslate,
        .event_fd = event_fd,
        .backup = attr->backup,
    };
    return 0;
}

/* Does a queue of so many bytes lie in those that are mapped, aligned for its entries? */
static bool is_in(const struct unetmm_endpoint *layout, uint32_t offset, uint64_t bytes)
{
    return !(offset % sizeof(uint64_t)) && offset <= layout->queue_bytes &&
        bytes <= layout->queue_bytes - offset;
}

/* Does the driver's answer fit the request? */
static bool layout_answers(const struct unetmm_endpoint *layout,
                           const struct unetmm_endpoint *asked)
{
    return layout->sq_log2 == asked->sq_log2 && layout->fq_log2 == asked->fq_log2 &&
        layout->cq_log2 == asked->cq_log2 &&
        is_in(layout, layout->sq_offset, (uint64_t)UNETMM_SLOT_BYTES << asked->sq_log2) &&
        is_in(layout, layout->fq_offset, sizeof(struct unetmm_fqe) << asked->fq_log2) &&
        is_in(layout, layout->cq_offset, sizeof(struct unetmm_cqe) << asked->cq_log2) &&
        is_in(layout, layout->index_offset, sizeof(struct unetmm_ep_index)) &&
        layout->doorbell_bytes >= sizeof(uint32_t);
}

static int map_endpoint(struct unetmm_ep_private *ep,
                        const struct unetmm_endpoint *layout)
{
    int fd = ep->ctx->fd;
    void *queues, *doorbell;
    int ret;

    ep->queue_bytes = layout->queue_bytes;
    ep->doorbell_bytes = layout->doorbell_bytes;
    ret = sys_mmap(&queues, ep->queue_bytes, PROT_READ | PROT_WRITE,
                   MAP_SHARED, fd, layout->queue_map);
    if (ret) {
        return ret;
    }
    ret = sys_mmap(&doorbell, ep->doorbell_bytes, PROT_WRITE, MAP_SHARED, fd,
                   layout->doorbell_map);
    if (ret) {
        sys_munmap(queues, ep->queue_bytes);
        return ret;
    }
    unetmm_ep_bind(ep, layout, queues, doorbell);
    return 0;
}

static int close_endpoint(const struct unetmm_ctx *ctx, uint32_t id)
{
    return unetmm_object_end(ctx, UNETMM_OBJECT_ENDPOINT, id, 0, 0);
}

/* Has the driver make the endpoint, and maps it. */
static int open_endpoint(struct unetmm_ep_private *ep,
                         const struct unetmm_ep_attr *attr)
{
    const struct unetmm_ctx *ctx = ep->ctx;
    struct unetmm_endpoint asked, request;
    int ret = fill_request(ctx, attr, ep->event_fd, &asked);

    if (ret) {
        return ret;
    }
    request = asked;
    ret = sys_ioctl(ctx->fd, UNETMM_IOC_ENDPOINT, &request);
    if (ret < 0) {
        return ret;
    }
    ret = layout_answers(&request, &asked) ? map_endpoint(ep, &request) : -EPROTO;
    if (ret) {
        close_endpoint(ctx, request.id);
        return ret;
    }
    ep->spin_ns = attr->spin_ns;
    ep->pub.inline_max = attr->inline_max;
    ep->pub.raw = attr->flags & UNETMM_EP_RAW;
    ep->pub.slots = ep->pub.raw || attr->policy == UNETMM_POLICY_BACKUP;
    ep->pub.trap = ctx->source == UNETMM_SOURCE_KTLB;
    ep->pub.may_zero = ctx->source == UNETMM_SOURCE_TLB ||
                       ctx->source == UNETMM_SOURCE_SHADOW ||
                       ctx->source == UNETMM_SOURCE_ODP || ep->pub.trap;
    /* Only the TLB has to hold all pages of a buffer at the same time. */
    ep->pub.max_buffer_pages = ctx->source == UNETMM_SOURCE_TLB ?
        ctx->info.max_buffer_pages : UNETMM_MAX_BUF_PAGES;
    return 0;
}

int unetmm_ep_create(struct unetmm_ctx *ctx, const struct unetmm_ep_attr *given,
                     struct unetmm_ep **result)
{
    struct unetmm_ep_private *ep;
    struct unetmm_ep_attr attr = default_attr;
    int ret = unetmm_ctx_check(ctx);

    if (ret) {
        return ret;
    }
    if (given) {
        ret = sized_read(&attr, sizeof(attr), LEAST_ATTR_BYTES, given);
    }
    if (ret || ctx->source == UNETMM_OBSERVE) {
        return ret ? ret : -EINVAL;
    }
    ret = unetmm_ep_alloc(ctx->info.channels, ctx->info.imports, &ep);
    if (ret) {
        return ret;
    }
    ep->ctx = ctx;
    ep->event_fd = sys_eventfd();
    if (ep->event_fd < 0) {
        ret = ep->event_fd;
        goto free_ep;
    }
    ret = ctx->utlb ? unetmm_utlb_ep_open(ep) : 0;
    if (ret) {
        goto close_event_fd;
    }
    ret = open_endpoint(ep, &attr);
    if (ret) {
        goto close_utlb;
    }
    unetmm_recording_open(ep);
    atomic_fetch_add(&ctx->endpoints, 1);
    *result = &ep->pub;
    return 0;

close_utlb:
    unetmm_utlb_ep_close(ep);
close_event_fd:
    sys_close(ep->event_fd);
free_ep:
    unetmm_ep_free(ep);
    return ret;
}

int unetmm_ep_destroy(struct unetmm_ep *pub)
{
    struct unetmm_ep_private *ep = unetmm_ep_private(pub);
    int ret;

    if (!pub->alive) {
        return -EOWNERDEAD;
    }
    unetmm_thread_leave(ep);
    unetmm_watch_end_all(ep);
    unetmm_windows_end(ep);
    /* The card first: nothing may be unmapped under it. */
    ret = close_endpoint(ep->ctx, ep->id);
    unetmm_recording_close(ep);
    unetmm_utlb_ep_close(ep);
    sys_munmap(ep->doorbell, ep->doorbell_bytes);
    sys_munmap(ep->queues, ep->queue_bytes);
    sys_close(ep->event_fd);
    atomic_fetch_sub(&ep->ctx->endpoints, 1);
    if (unetmm_in_handler(ep)) {
        /* The handler's caller still needs to look here. */
        pub->alive = pub->direct = 0;
        ep->handlers.ep_destroyed = true;
    } else {
        unetmm_ep_free(ep);
    }
    return ret < 0 ? ret : 0;
}

int unetmm_ep_id(const struct unetmm_ep *ep)
{
    return ep->alive ? (int)unetmm_ep_private(ep)->id : -EOWNERDEAD;
}
