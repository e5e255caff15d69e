/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The fast path, inline.  A program that includes this file instead of
 * libunetmm.h, or after it, calls the same functions, with the same results, and
 * the compiler puts their bodies into it.  Such a program knows the layout of
 * struct unetmm_ep and of struct unetmm_event_counter, so it needs a library with
 * that layout: it refers to the symbol unetmm_inline_1_ (version node
 * UNETMM_INLINE_1), which a library with another layout does not have, and the
 * dynamic linker then refuses to start the program.
 *
 * A body is used where the function is called by name.  Its address is that of the
 * library's symbol, which src/fast.c makes from these bodies.
 *
 * All names that end in an underscore, and all members of the structures, are
 * private.
 */
#ifndef LIBUNETMM_INLINE_H
#define LIBUNETMM_INLINE_H

#include <libunetmm.h>

#include <libunetmm/barrier.h>
#include <libunetmm/byteorder.h>
#include <libunetmm/helper.h>
#include <libunetmm/mmio.h>

#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- The layout that inline programs depend on -------------------------- */

extern const uint32_t unetmm_inline_1_;
/* Every object that includes this file refers to the symbol. */
static const uint32_t *const unetmm_inline_layout_
    __attribute__((__used__)) = &unetmm_inline_1_;

struct unetmm_import_record {
    uint64_t length;            /* 0: no such import */
    uint16_t channel;
    uint8_t rights;
};

/* A descriptor of the send queue, without its data. */
struct unetmm_request_ {
    uint64_t user_data;
    uint64_t offset;            /* in the import */
    unsigned flags;             /* UNETMM_MORE, _UNSIGNALED, _INLINE, _NOTIFY, _COUNT */
    unsigned import;
    uint32_t imm;               /* of NOTIFY and COUNT; the offload of a frame */
    uint16_t channel;
    uint8_t opcode;             /* UNETMM_OP_* */
};

/*
 * A source that has work to do for each descriptor (utlb: it pins the pages).
 * queue() and post() are called before a descriptor is put into its queue, and may
 * change its user_data and flags: 0, or -errno and the descriptor is not queued
 * (-EAGAIN: the queue counts as full).  taken() is called for each completion, and
 * returns 0 if the program is not to see it.  pending() returns how many messages
 * the source will queue again without a call of the program.
 */
struct unetmm_source_ops_ {
    int (*queue)(struct unetmm_ep *ep, struct unetmm_request_ *request,
                 const struct iovec *iov, unsigned n);
    int (*post)(struct unetmm_ep *ep, void *buf, size_t len, uint64_t *user_data);
    int (*taken)(struct unetmm_ep *ep, struct unetmm_completion *c);
    int (*pending)(struct unetmm_ep *ep);
};

/* The rare cases of the bodies below, for every source. */
struct unetmm_rare_ops_ {
    /* Source ktlb: has the driver look at the queues.  0, or -errno. */
    int (*trap)(struct unetmm_ep *ep);
    /*
     * The free queue seems full.  Nonzero: the card is about to show that a buffer
     * whose completion was taken has left it, and now it has.
     */
    int (*settle)(struct unetmm_ep *ep);
    /* Takes completions that a call kept which waited for another one. */
    int (*unstash)(struct unetmm_ep *ep, struct unetmm_completion *c,
                   unsigned n);
};

/*
 * The library allocates it in pages of its own that the kernel wipes in a forked
 * child: there `alive` is 0, which tells a child from the owner without a system
 * call, and before a queue is touched (the child has none mapped).
 */
struct unetmm_ep {
    uint32_t alive;
    uint32_t unrung;            /* something was queued since the doorbell */
    uint32_t sq_mask;
    uint32_t sq_prod;
    uint32_t sq_cons;           /* the card's, as last read */
    uint32_t fq_mask;
    uint32_t fq_prod;
    uint32_t fq_cons;           /* the card's, as last read */
    uint32_t cq_mask;
    uint32_t cq_log2;
    uint32_t cq_cons;
    uint32_t blocked_rung;      /* cq_cons when we rang for CQ_BLOCKED */
    uint32_t inline_max;
    uint32_t max_buffer_pages;
    uint32_t channels;
    struct unetmm_ep_index *index;
    unetmm_u8 *sq;
    struct unetmm_fqe *fq;
    struct unetmm_cqe *cq;
    volatile uint32_t *doorbell;
    const uint32_t *channel_mtu; /* by channel; 0: not open */
    uint32_t trap;              /* source ktlb: a call instead of a doorbell */
    uint32_t may_zero;          /* UNETMM_ZERO means something */
    const struct unetmm_source_ops_ *source; /* NULL: it has no such work */
    const struct unetmm_rare_ops_ *rare;
    uint32_t stashed;           /* completions were taken for another call */
    uint32_t nimports;
    const struct unetmm_import_record *imports;     /* by number */
    uint32_t raw;               /* frames, and no channels */
    uint32_t slots;             /* buffers are looked at when they are used */
    uint32_t unlooked;          /* posted since FQ_AWAITED was last read */
};

struct unetmm_event_counter {
    const uint32_t *alive;
    const uint64_t *word;
};

/* ---- The doorbell ---------------------------------------------------------- */

/* 0 if the channel is not open.  Another thread may open or close it. */
UNETMM_HELPER_ uint32_t unetmm_mtu_(const struct unetmm_ep *ep,
                                    unsigned channel)
{
    return channel >= ep->channels ? 0 :
        __atomic_load_n(&ep->channel_mtu[channel], __ATOMIC_RELAXED);
}

UNETMM_FAST_ int64_t unetmm_channel_mtu(const struct unetmm_ep *ep,
                                        unsigned channel)
{
    uint32_t mtu;

    if (!ep->alive) {
        return -EOWNERDEAD;
    }
    mtu = unetmm_mtu_(ep, channel);
    return mtu ? (int64_t)mtu : -ENOENT;
}

UNETMM_FAST_ int unetmm_ring(struct unetmm_ep *ep)
{
    if (!ep->alive) {
        return -EOWNERDEAD;
    }
    ep->unrung = 0;
    if (ep->trap) {
        return ep->rare->trap(ep);
    }
    unetmm_write_doorbell(ep->doorbell);
    return 0;
}

/* After queueing: ring, or remember that it has to be done. */
UNETMM_HELPER_ void unetmm_ring_unless_more_(struct unetmm_ep *ep, int more)
{
    if (more) {
        ep->unrung = 1;
    } else {
        unetmm_ring(ep);
    }
}

/*
 * A queue is full.  The doorbell is rung for descriptors queued with UNETMM_MORE:
 * a caller that tries again would otherwise wait for itself.
 */
UNETMM_HELPER_ int unetmm_full_(struct unetmm_ep *ep)
{
    if (unetmm_read_word(&ep->index->card.state) & UNETMM_EP_ERROR) {
        return -EIO;
    }
    if (ep->unrung) {
        unetmm_ring(ep);
    }
    if (ep->source) {
        ep->source->pending(ep);
    }
    return -EAGAIN;
}

/* ---- Sending --------------------------------------------------------------- */

UNETMM_HELPER_ unetmm_u8 *unetmm_slot_(const struct unetmm_ep *ep,
                                       uint32_t index)
{
    return ep->sq + (size_t)(index & ep->sq_mask) * UNETMM_SLOT_BYTES;
}

/* True if the send queue has room for so many slots more. */
UNETMM_HELPER_ int unetmm_sq_has_room_(struct unetmm_ep *ep, uint32_t slots)
{
    if (ep->sq_mask + 1 - (ep->sq_prod - ep->sq_cons) >= slots) {
        return 1;
    }
    ep->sq_cons = unetmm_read_word(&ep->index->card.sq_cons);
    /* The card has read a slot before we overwrite it. */
    unetmm_from_card_barrier();
    return ep->sq_mask + 1 - (ep->sq_prod - ep->sq_cons) >= slots;
}

/* Slots behind the descriptor's first one. */
UNETMM_HELPER_ uint32_t unetmm_inline_slots_(size_t len)
{
    return len <= UNETMM_SQE_INLINE ? 0 :
        (uint32_t)((len - UNETMM_SQE_INLINE + UNETMM_SLOT_BYTES - 1) /
                   UNETMM_SLOT_BYTES);
}

UNETMM_HELPER_ uint32_t unetmm_seg_slots_(unsigned n)
{
    return n <= UNETMM_SQE_SEGS ? 0 :
        (n - UNETMM_SQE_SEGS + UNETMM_SLOT_SEGS - 1) / UNETMM_SLOT_SEGS;
}

/*
 * Copies a message into the slots from `index` on: the first 32 bytes into the
 * descriptor, the rest into raw slots.  A slot never wraps, a descriptor may.
 */
UNETMM_HELPER_ void unetmm_put_inline_(struct unetmm_ep *ep, uint32_t index,
                                       const struct iovec *iov, unsigned n)
{
    unetmm_u8 *to = unetmm_slot_(ep, index) + offsetof(struct unetmm_sqe, data);
    size_t room = UNETMM_SQE_INLINE;
    unsigned i;

    for (i = 0; i < n; i++) {
        const unetmm_u8 *from = (const unetmm_u8 *)iov[i].iov_base;
        size_t left = iov[i].iov_len;

        while (left) {
            size_t now;

            if (!room) {
                to = unetmm_slot_(ep, ++index);
                room = UNETMM_SLOT_BYTES;
            }
            now = left < room ? left : room;
            memcpy(to, from, now);
            to += now;
            from += now;
            room -= now;
            left -= now;
        }
    }
}

UNETMM_HELPER_ void unetmm_put_segs_(struct unetmm_ep *ep, uint32_t index,
                                     const struct iovec *iov, unsigned n)
{
    struct unetmm_seg *seg = (struct unetmm_seg *)(void *)
        (unetmm_slot_(ep, index) + offsetof(struct unetmm_sqe, seg));
    unsigned room = UNETMM_SQE_SEGS;
    unsigned i;

    for (i = 0; i < n; i++) {
        if (!room) {
            seg = (struct unetmm_seg *)(void *)unetmm_slot_(ep, ++index);
            room = UNETMM_SLOT_SEGS;
        }
        seg->addr = unetmm_swap64((uintptr_t)iov[i].iov_base);
        seg->len = unetmm_swap32((uint32_t)iov[i].iov_len);
        seg->rsvd = 0;
        seg++;
        room--;
    }
}

/* The first half of a descriptor; the second is data or segments. */
UNETMM_HELPER_ struct unetmm_sqe *unetmm_put_sqe_(
    struct unetmm_ep *ep, uint32_t index, const struct unetmm_request_ *r)
{
    struct unetmm_sqe *sqe = (struct unetmm_sqe *)(void *)
        unetmm_slot_(ep, index);
    unsigned flags = r->flags & UNETMM_UNSIGNALED ? UNETMM_SQE_F_QUIET : 0;

    if (r->opcode == UNETMM_OP_WRITE) {
        flags |= r->flags & UNETMM_NOTIFY ? UNETMM_SQE_F_NOTIFY :
                 r->flags & UNETMM_COUNT ? UNETMM_SQE_F_COUNT : 0;
    }
    sqe->opcode = r->opcode;
    sqe->flags = (unetmm_u8)flags;
    sqe->nsegs = 0;
    sqe->inline_len = 0;
    sqe->channel = unetmm_swap16(r->channel);
    sqe->rsvd0 = 0;
    sqe->cookie = unetmm_swap64(r->user_data);
    sqe->imm = unetmm_swap32(r->imm);
    sqe->handle = unetmm_swap32(r->import);
    sqe->remote = unetmm_swap64(r->offset);
    return sqe;
}

/* The length of a message, or more than `max` if it is longer than that. */
UNETMM_HELPER_ size_t unetmm_iov_length_(const struct iovec *iov, unsigned n,
                                         size_t max)
{
    size_t total = 0;
    unsigned i;

    for (i = 0; i < n; i++) {
        if (iov[i].iov_len > max - total) {
            return max + 1;
        }
        total += iov[i].iov_len;
    }
    return total;
}

/*
 * Has the source do its work for a descriptor.  It is given copies, so that the
 * caller's variables can stay in registers where there is no such source.
 */
UNETMM_HELPER_ int unetmm_prepare_(struct unetmm_ep *ep, struct unetmm_request_ *r,
                                   const struct iovec *iov, unsigned n)
{
    struct unetmm_request_ copy = *r;
    struct iovec one;
    int ret;

    if (n == 1) {
        one = iov[0];
        iov = &one;
    }
    ret = ep->source->queue(ep, &copy, n ? iov : NULL, n);
    r->user_data = copy.user_data;
    r->flags = copy.flags;
    return ret;
}

/*
 * Puts a descriptor with `len` bytes of data into the send queue.  All its
 * values have been checked.
 */
UNETMM_HELPER_ int unetmm_queue_(struct unetmm_ep *ep, struct unetmm_request_ r,
                                 const struct iovec *iov, unsigned n, size_t len,
                                 int is_inline)
{
    uint32_t slots = 1 + (is_inline ? unetmm_inline_slots_(len) :
                                      unetmm_seg_slots_(n));
    struct unetmm_sqe *sqe;

    if (!unetmm_sq_has_room_(ep, slots)) {
        return unetmm_full_(ep);
    }
    if (ep->source) {
        int ret = unetmm_prepare_(ep, &r, iov, is_inline ? 0 : n);

        if (ret) {
            return ret == -EAGAIN ? unetmm_full_(ep) : ret;
        }
    }
    sqe = unetmm_put_sqe_(ep, ep->sq_prod, &r);
    if (is_inline) {
        sqe->flags |= UNETMM_SQE_F_INLINE;
        sqe->inline_len = (unetmm_u8)len;
        unetmm_put_inline_(ep, ep->sq_prod, iov, n);
    } else {
        sqe->nsegs = (unetmm_u8)n;
        unetmm_put_segs_(ep, ep->sq_prod, iov, n);
    }
    ep->sq_prod += slots;
    unetmm_write_index(&ep->index->user.sq_prod, ep->sq_prod);
    unetmm_ring_unless_more_(ep, r.flags & UNETMM_MORE);
    return 0;
}

/* Messages and frames of up to this length are copied into the queue. */
UNETMM_HELPER_ size_t unetmm_inline_limit_(const struct unetmm_ep *ep,
                                           unsigned flags)
{
    return flags & UNETMM_INLINE ? UNETMM_MAX_INLINE : ep->inline_max;
}

UNETMM_FAST_ int unetmm_sendv(struct unetmm_ep *ep, unsigned channel,
                              const struct iovec *iov, unsigned n,
                              uint64_t user_data, unsigned flags)
{
    const struct unetmm_request_ request = {
        user_data, 0, flags, 0, 0, (uint16_t)channel, UNETMM_OP_SEND,
    };
    size_t limit, len;
    uint32_t mtu;

    if (!ep->alive) {
        return -EOWNERDEAD;
    }
    if (n > UNETMM_MAX_SEGS || flags & ~UNETMM_SEND_FLAGS) {
        return -EINVAL;
    }
    mtu = unetmm_mtu_(ep, channel);
    if (!mtu) {
        return -ENOENT;
    }
    len = unetmm_iov_length_(iov, n, mtu);
    limit = unetmm_inline_limit_(ep, flags);
    if (len > mtu || (flags & UNETMM_INLINE && len > limit)) {
        return -EMSGSIZE;
    }
    return unetmm_queue_(ep, request, iov, n, len, len <= limit);
}

UNETMM_FAST_ int unetmm_send(struct unetmm_ep *ep, unsigned channel,
                             const void *buf, size_t len, uint64_t user_data,
                             unsigned flags)
{
    struct iovec iov;

    iov.iov_base = (void *)(uintptr_t)buf;
    iov.iov_len = len;
    return unetmm_sendv(ep, channel, &iov, 1, user_data, flags);
}

UNETMM_FAST_ int unetmm_send_pending(struct unetmm_ep *ep)
{
    if (!ep->alive) {
        return -EOWNERDEAD;
    }
    ep->sq_cons = unetmm_read_word(&ep->index->card.sq_cons);
    unetmm_from_card_barrier();
    if (ep->source) {
        int again = ep->source->pending(ep);

        return (int)(ep->sq_prod - ep->sq_cons) + again;
    }
    return (int)(ep->sq_prod - ep->sq_cons);
}

/* ---- Free buffers ---------------------------------------------------------- */

UNETMM_HELPER_ int unetmm_fq_has_room_(struct unetmm_ep *ep)
{
    if (ep->fq_prod - ep->fq_cons > ep->fq_mask) {
        ep->fq_cons = unetmm_read_word(&ep->index->card.fq_cons);
        unetmm_from_card_barrier();
    }
    return ep->fq_prod - ep->fq_cons <= ep->fq_mask || ep->rare->settle(ep);
}

UNETMM_HELPER_ void unetmm_put_fqe_(struct unetmm_ep *ep, void *buf, size_t len,
                                    uint64_t user_data, unsigned flags)
{
    struct unetmm_fqe *fqe = &ep->fq[ep->fq_prod & ep->fq_mask];

    fqe->addr = unetmm_swap64((uintptr_t)buf);
    fqe->len = unetmm_swap32((uint32_t)len);
    fqe->flags = unetmm_swap32(flags & UNETMM_ZERO ? UNETMM_FQE_F_ZERO : 0);
    fqe->cookie = unetmm_swap64(user_data);
    fqe->rsvd = 0;
    ep->fq_prod++;
    unetmm_write_index(&ep->index->user.fq_prod, ep->fq_prod);
}

/*
 * A buffer is in the queue.  Where the card looks only when a message comes there is
 * nothing to be said to it, unless the driver waits for buffers.
 */
UNETMM_HELPER_ void unetmm_offer_(struct unetmm_ep *ep, int more)
{
    if (!ep->slots) {
        unetmm_ring_unless_more_(ep, more);
        return;
    }
    ep->unlooked = 1;
    if (more) {
        return;
    }
    if (ep->unrung) {
        unetmm_ring(ep);
    } else {
        /* The index before the state. */
        unetmm_arm_barrier();
        if (unetmm_read_word(&ep->index->card.state) & UNETMM_EP_FQ_AWAITED) {
            unetmm_ring(ep);
        }
    }
    ep->unlooked = 0;
}

/* The driver may refuse the last buffer, and then has not taken it. */
UNETMM_HELPER_ int unetmm_post_checked_(struct unetmm_ep *ep)
{
    if (unetmm_ring(ep) == -EINVAL) {
        ep->fq_prod--;
        unetmm_write_index(&ep->index->user.fq_prod, ep->fq_prod);
        return -EINVAL;
    }
    return 0;
}

UNETMM_FAST_ int unetmm_post_recv(struct unetmm_ep *ep, void *buf, size_t len,
                                  uint64_t user_data, unsigned flags)
{
    uintptr_t in_page = (uintptr_t)buf & (UNETMM_PAGE_BYTES - 1);

    if (!ep->alive) {
        return -EOWNERDEAD;
    }
    if (!len || flags & ~(UNETMM_MORE | UNETMM_ZERO) ||
        (flags & UNETMM_ZERO &&
         (in_page || len != UNETMM_PAGE_BYTES || !ep->may_zero))) {
        return -EINVAL;
    }
    if (len > UINT32_MAX - UNETMM_PAGE_BYTES ||
        (in_page + len + UNETMM_PAGE_BYTES - 1) / UNETMM_PAGE_BYTES >
        ep->max_buffer_pages) {
        return -EMSGSIZE;
    }
    if (!unetmm_fq_has_room_(ep)) {
        return unetmm_full_(ep);
    }
    if (ep->source) {
        uint64_t new_user_data = user_data;
        int ret = ep->source->post(ep, buf, len, &new_user_data);

        if (ret) {
            return ret == -EAGAIN ? unetmm_full_(ep) : ret;
        }
        user_data = new_user_data;
    }
    unetmm_put_fqe_(ep, buf, len, user_data, flags);
    if (flags & UNETMM_ZERO && ep->trap) {
        return unetmm_post_checked_(ep);
    }
    unetmm_offer_(ep, flags & UNETMM_MORE);
    return 0;
}

/* ---- Completions ----------------------------------------------------------- */

UNETMM_HELPER_ void unetmm_take_(const struct unetmm_cqe *cqe, uint32_t flags,
                                 struct unetmm_completion *c)
{
    c->user_data = unetmm_swap64(cqe->cookie);
    c->len = unetmm_swap32(cqe->len);
    c->channel = unetmm_swap16(cqe->channel);
    c->type = cqe->opcode;
    c->status = cqe->status;
    c->flags = flags & ~UNETMM_PHASE;
    c->is_inline = !!(flags & UNETMM_CQE_F_INLINE);
    if (c->is_inline || c->type == UNETMM_CQE_NOTIFY) {
        memcpy(c->data, cqe->data, sizeof(c->data));
    }
}

/* The flags of the next completion; its phase says whether it is there. */
UNETMM_HELPER_ uint32_t unetmm_next_flags_(const struct unetmm_ep *ep,
                                           uint32_t index, int *there)
{
    uint32_t flags = unetmm_read_word(&ep->cq[index & ep->cq_mask].flags);

    *there = (flags & UNETMM_PHASE) == UNETMM_PHASE_OF(index, ep->cq_log2);
    return flags;
}

UNETMM_FAST_ int unetmm_poll(struct unetmm_ep *ep,
                             struct unetmm_completion *c, unsigned n)
{
    uint32_t index = ep->cq_cons;
    uint32_t state;
    unsigned taken;

    if (!ep->alive) {
        return -EOWNERDEAD;
    }
    if (ep->stashed && n) {
        return ep->rare->unstash(ep, c, n);
    }
    for (taken = 0; taken < n; index++) {
        int there;
        uint32_t flags = unetmm_next_flags_(ep, index, &there);

        if (!there) {
            break;
        }
        unetmm_from_card_barrier();
        unetmm_take_(&ep->cq[index & ep->cq_mask], flags, &c[taken]);
        if (!ep->source || ep->source->taken(ep, &c[taken])) {
            taken++;
        }
    }
    if (index != ep->cq_cons) {
        ep->cq_cons = index;
        /* All reads of an entry come before the card may overwrite it. */
        unetmm_write_index(&ep->index->user.cq_cons, index);
    }
    state = unetmm_read_word(&ep->index->card.state);
    if (state & UNETMM_EP_ERROR && !taken && n) {
        int there;

        /* Completions that the card wrote before it stopped come first. */
        unetmm_from_card_barrier();
        unetmm_next_flags_(ep, index, &there);
        return there ? 0 : -EIO;
    }
    if (state & UNETMM_EP_FQ_AWAITED && ep->unlooked) {
        ep->unlooked = 0;
        unetmm_ring(ep);
    }
    if (state & UNETMM_EP_CQ_BLOCKED && ep->blocked_rung != index) {
        /*
         * Ring once for the entries taken so far.  If the card blocks just after
         * the state was read, the next poll that finds no entry rings.
         */
        ep->blocked_rung = index;
        unetmm_ring(ep);
    }
    return (int)taken;
}

#ifdef __cplusplus
}
#endif

#include <libunetmm/inline_remote.h>
#include <libunetmm/inline_frame.h>

#endif /* LIBUNETMM_INLINE_H */
