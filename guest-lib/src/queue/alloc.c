/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The memory of an endpoint without queues, and the queues once there are some.
 */
#include "queue.h"

#include <sched.h>

/* Reads of indices that the card is about to show, before giving up; before yielding. */
#define SETTLE_TRIES    10000
#define SETTLE_SPINS    100

/*
 * The card shows its indices behind the completions of a turn, so a buffer's may be
 * taken before its place in the queue is free.  The card is in the middle of a turn
 * then, which has its bounds; this wait has a bound as well, for a faulty card.
 */
static int fq_settles(struct unetmm_ep *ep, uint32_t n)
{
    const struct unetmm_ep_card *card = &ep->index->card;
    unsigned tries;

    for (tries = 0; tries < SETTLE_TRIES; tries++) {
        int32_t ahead = (int32_t)(unetmm_read_word(&card->cq_prod) -
                                  ep->cq_cons);

        unetmm_from_card_barrier();
        ep->fq_cons = unetmm_read_word(&card->fq_cons);
        unetmm_from_card_barrier();
        if (ep->fq_mask + 1 - (ep->fq_prod - ep->fq_cons) >= n) {
            return 1;
        }
        if (ahead >= 0) {
            return 0;
        }
        if (tries > SETTLE_SPINS) {
            sched_yield();
        }
    }
    return 0;
}

int unetmm_trap(struct unetmm_ep *pub)
{
    const struct unetmm_ep_private *ep = unetmm_ep_private(pub);
    struct unetmm_post post = { .size = sizeof(post), .endpoint = ep->id };
    int ret = sys_ioctl(ep->ctx->fd, UNETMM_IOC_POST, &post);

    if (ret < 0) {
        /* Entries not taken are still in the queues: the next ring sends them. */
        pub->unrung = 1;
        return ret;
    }
    return 0;
}

static const struct unetmm_rare_ops_ rare_ops = {
    .trap = unetmm_trap,
    .kick = unetmm_kick_rare,
    .queue = unetmm_queue_rare,
    .post = unetmm_post_rare,
    .poll = unetmm_poll_rare,
    .note = unetmm_poll_note,
    .settle = fq_settles,
    .unstash = unetmm_unstash,
};

int unetmm_ep_alloc(uint32_t channels, uint32_t imports,
                    struct unetmm_ep_private **result)
{
    struct unetmm_ep_private *ep;
    void *memory;
    int ret = unetmm_alloc_wiped(sizeof(*ep), &memory);

    if (ret) {
        return ret;
    }
    ep = memory;
    ep->mtu = sys_calloc(channels, sizeof(*ep->mtu));
    ep->records = sys_calloc(channels, sizeof(*ep->records));
    /* One at least: calloc() of none may be NULL. */
    ep->imports = sys_calloc(imports ? imports : 1, sizeof(*ep->imports));
    if (!ep->mtu || !ep->records || !ep->imports) {
        free(ep->imports);
        free(ep->records);
        free(ep->mtu);
        unetmm_free_wiped(ep, sizeof(*ep));
        return -ENOMEM;
    }
    ep->pub.rare = &rare_ops;
    ep->pub.channels = channels;
    ep->pub.channel_mtu = ep->mtu;
    ep->pub.nimports = imports;
    ep->pub.imports = ep->imports;
    ep->event_fd = -1;
    /* With default attributes these cannot fail. */
    pthread_mutex_init(&ep->handlers.lock, NULL);
    pthread_cond_init(&ep->handlers.change, NULL);
    *result = ep;
    return 0;
}

void unetmm_ep_free(struct unetmm_ep_private *ep)
{
    pthread_cond_destroy(&ep->handlers.change);
    pthread_mutex_destroy(&ep->handlers.lock);
    free(ep->handlers.channel);
    free(ep->handlers.notify);
    free(ep->stash.all);
    free(ep->imports);
    free(ep->records);
    free(ep->mtu);
    unetmm_free_wiped(ep, sizeof(*ep));
}

void unetmm_ep_bind(struct unetmm_ep_private *ep,
                    const struct unetmm_endpoint *layout, void *queues,
                    void *doorbell)
{
    unsigned char *base = queues;

    ep->id = layout->id;
    ep->queues = queues;
    ep->doorbell = doorbell;
    ep->pub.sq_mask = (1u << layout->sq_log2) - 1;
    ep->pub.fq_mask = (1u << layout->fq_log2) - 1;
    ep->pub.cq_mask = (1u << layout->cq_log2) - 1;
    ep->pub.cq_log2 = layout->cq_log2;
    ep->pub.sq = base + layout->sq_offset;
    ep->pub.fq = (void *)(base + layout->fq_offset);
    ep->pub.cq = (void *)(base + layout->cq_offset);
    ep->pub.index = (void *)(base + layout->index_offset);
    ep->pub.doorbell = doorbell;
    ep->pub.alive = 1;
    unetmm_ep_set_direct(&ep->pub);
}
