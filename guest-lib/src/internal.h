/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the objects of the library know of each other.  Nothing here is
 * exported; the unit tests link it statically.
 */
#ifndef UNETMM_INTERNAL_H
#define UNETMM_INTERNAL_H

#include <libunetmm.h>

#include <stdatomic.h>

struct unetmm_ctx {
    int fd;
    unsigned source;
    struct unetmm_info info;
    atomic_uint endpoints;
    const uint32_t *alive;      /* in a page that is wiped in a child */
};

struct unetmm_ep_private {
    struct unetmm_ep pub;       /* first: the handle points here */
    struct unetmm_ctx *ctx;
    uint32_t id;
    int event_fd;
    uint32_t spin_ns;
    uint32_t *mtu;              /* what pub.channel_mtu shows */
    void *queues;
    size_t queue_bytes;
    void *doorbell;
    size_t doorbell_bytes;
};

static inline struct unetmm_ep_private *unetmm_ep_private(
    const struct unetmm_ep *ep)
{
    return (struct unetmm_ep_private *)(uintptr_t)ep;
}

/* Zeroed memory that reads as zero again in a forked child; or -errno. */
int unetmm_alloc_wiped(size_t bytes, void **memory);
void unetmm_free_wiped(void *memory, size_t bytes);

/* 0, or -EOWNERDEAD in a forked child. */
int unetmm_ctx_check(const struct unetmm_ctx *ctx);

/* A timeout as the driver's calls want it. */
uint64_t unetmm_deadline(int64_t timeout_ns);

/* An endpoint without queues; unetmm_ep_bind() gives it some. */
int unetmm_ep_alloc(uint32_t channels, struct unetmm_ep_private **ep);
void unetmm_ep_free(struct unetmm_ep_private *ep);
void unetmm_ep_bind(struct unetmm_ep_private *ep,
                    const struct unetmm_endpoint *layout, void *queues,
                    void *doorbell);

#endif /* UNETMM_INTERNAL_H */
