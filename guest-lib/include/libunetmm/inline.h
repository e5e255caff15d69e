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
 * library's symbol, which src/queue/fast.c makes from these bodies.
 *
 * All names that end in an underscore, and all members of the structures, are for
 * this library.  A program that uses them depends on this version.
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

/* In a request's flags: it is by key.  The bits from REGION_SHIFT_ on are the region. */
#define UNETMM_KEYED_           0x8000u
#define UNETMM_REGION_SHIFT_    16

/* A descriptor of the send queue, without its data. */
struct unetmm_request_ {
    uint64_t user_data;
    uint64_t offset;            /* in the import */
    /* UNETMM_MORE, _UNSIGNALED, _INLINE, _NOTIFY, _COUNT, _IMM, _KEYED_; with that a region */
    unsigned flags;
    unsigned import;            /* _KEYED_: the key */
    uint32_t imm;               /* of NOTIFY, COUNT, IMM; the offload of a frame */
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
    int (*post)(struct unetmm_ep *ep, const struct iovec *iov, unsigned n,
                uint64_t *user_data);
    int (*taken)(struct unetmm_ep *ep, struct unetmm_completion *c);
    int (*pending)(struct unetmm_ep *ep);
};

/*
 * The rare cases of the bodies below, for every source.  They are calls of the
 * library so that a body calls nothing on its usual way: it then needs no stack
 * frame, and the symbol costs little more than the inline function.
 */
struct unetmm_rare_ops_ {
    /* Source ktlb: has the driver look at the queues.  0, or -errno. */
    int (*trap)(struct unetmm_ep *ep);
    /* The same, with result 0: a failure comes as the state of the endpoint. */
    int (*kick)(struct unetmm_ep *ep);
    /*
     * unetmm_queue_(), of ep->request, and unetmm_post_recv() with checked
     * arguments: the endpoint has struct unetmm_source_ops_, the queue seems full,
     * or data to be copied are more than the descriptor holds or several pieces.
     */
    int (*queue)(struct unetmm_ep *ep, const struct iovec *iov, unsigned n,
                 size_t len, int is_inline);
    int (*post)(struct unetmm_ep *ep, void *buf, size_t len, uint64_t user_data,
                unsigned flags);
    /* unetmm_poll() where completions are stashed, or pass through the source. */
    int (*poll)(struct unetmm_ep *ep, struct unetmm_completion *c, unsigned n);
    /*
     * The end of unetmm_poll(), which has taken `taken` of `n` completions, in one
     * of the states UNETMM_NOTED_: the result.
     */
    int (*note)(struct unetmm_ep *ep, uint32_t state, unsigned taken, unsigned n);
    /*
     * The free queue seems to have fewer than n places.  Waits until the card has
     * published fq_cons, if the completion of a buffer was taken; nonzero: n places are free.
     */
    int (*settle)(struct unetmm_ep *ep, uint32_t n);
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
    uint32_t direct;            /* alive, and neither source nor stashed: unetmm_peek() */
    /* Arguments of rare->queue(); on the stack they would cost each call a frame. */
    struct unetmm_request_ request;
    struct iovec piece;
};

struct unetmm_event_counter {
    const uint32_t *alive;
    const uint64_t *word;
};

/* ---- The doorbell ---------------------------------------------------------- */

/* 0 if the channel is not open.  Another thread may open or close it. */
UNETMM_HELPER_ uint32_t unetmm_mtu_(const struct unetmm_ep *ep,
                                    int channel)
{
    unsigned number = (unsigned)channel;

    return number >= ep->channels ? 0 :
        __atomic_load_n(&ep->channel_mtu[number], __ATOMIC_RELAXED);
}

UNETMM_FAST_ int64_t unetmm_channel_mtu(const struct unetmm_ep *ep,
                                        int channel)
{
    uint32_t mtu;

    if (!ep->alive) {
        return -EOWNERDEAD;
    }
    mtu = unetmm_mtu_(ep, channel);
    return mtu ? (int64_t)mtu : -ENOENT;
}

/* The endpoint is the process's own. */
UNETMM_HELPER_ int unetmm_ring_(struct unetmm_ep *ep)
{
    ep->unrung = 0;
    if (__builtin_expect(ep->trap, 0)) {
        return ep->rare->trap(ep);
    }
    unetmm_write_doorbell(ep->doorbell);
    return 0;
}

UNETMM_FAST_ int unetmm_ring(struct unetmm_ep *ep)
{
    return ep->alive ? unetmm_ring_(ep) : -EOWNERDEAD;
}

/* At the end of a call that has queued something.  Returns 0. */
UNETMM_HELPER_ int unetmm_kick_(struct unetmm_ep *ep)
{
    ep->unrung = 0;
    if (__builtin_expect(ep->trap, 0)) {
        return ep->rare->kick(ep);
    }
    unetmm_write_doorbell(ep->doorbell);
    return 0;
}

/* Rings, or remembers that the doorbell is due. */
UNETMM_HELPER_ int unetmm_kick_unless_more_(struct unetmm_ep *ep, int more)
{
    if (more) {
        ep->unrung = 1;
        return 0;
    }
    return unetmm_kick_(ep);
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
    if (__builtin_expect(ep->sq_mask + 1 - (ep->sq_prod - ep->sq_cons) >= slots,
                         1)) {
        return 1;
    }
    ep->sq_cons = unetmm_read_word(&ep->index->card.sq_cons);
    /* The card has read a slot before we overwrite it. */
    unetmm_from_card_barrier();
    return ep->sq_mask + 1 - (ep->sq_prod - ep->sq_cons) >= slots;
}

/* Slots behind the descriptor's first one. */
UNETMM_HELPER_ uint32_t unetmm_seg_slots_(unsigned n)
{
    return n <= UNETMM_SQE_SEGS ? 0 :
        (n - UNETMM_SQE_SEGS + UNETMM_SLOT_SEGS - 1) / UNETMM_SLOT_SEGS;
}

/*
 * Copies up to 32 bytes.  memcpy() is a call where the length is not known, and costs
 * more than the copy.
 */
UNETMM_HELPER_ void unetmm_copy_(unetmm_u8 *to, const unetmm_u8 *from, size_t len)
{
    /* The two halves overlap if they have to. */
    if (len >= 16) {
        memcpy(to, from, 16);
        memcpy(to + len - 16, from + len - 16, 16);
    } else if (len >= 8) {
        memcpy(to, from, 8);
        memcpy(to + len - 8, from + len - 8, 8);
    } else if (len >= 4) {
        memcpy(to, from, 4);
        memcpy(to + len - 4, from + len - 4, 4);
    } else if (len) {
        to[0] = from[0];
        to[len / 2] = from[len / 2];
        to[len - 1] = from[len - 1];
    }
}

/* Segments from `to` on, in slot `index`.  A slot never wraps, a descriptor may. */
UNETMM_HELPER_ void unetmm_put_segs_(struct unetmm_ep *ep, uint32_t index,
                                     unetmm_u8 *to, const struct iovec *iov,
                                     unsigned n)
{
    struct unetmm_seg *seg = (struct unetmm_seg *)(void *)to;
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

/*
 * The first half of a descriptor; the second is data or segments: `inline_len` bytes
 * if is_inline, else nsegs.  Returns where the second half begins.
 */
UNETMM_HELPER_ unetmm_u8 *unetmm_put_sqe_(struct unetmm_ep *ep, uint32_t index,
                                          const struct unetmm_request_ *r,
                                          int is_inline, unsigned nsegs,
                                          size_t inline_len)
{
    unetmm_u8 *slot = unetmm_slot_(ep, index);
    struct unetmm_sqe *sqe = (struct unetmm_sqe *)(void *)slot;
    unsigned flags = (r->flags & UNETMM_UNSIGNALED ? UNETMM_SQE_F_QUIET : 0) |
        (is_inline ? UNETMM_SQE_F_INLINE : 0);
    uint64_t head;

    flags |= r->flags & UNETMM_KEYED_ ? UNETMM_SQE_F_KEYED : 0;
    if (r->opcode == UNETMM_OP_WRITE) {
        flags |= r->flags >> 2 & (UNETMM_SQE_F_NOTIFY | UNETMM_SQE_F_COUNT |
                                  UNETMM_SQE_F_IMM);
    } else if (r->opcode == UNETMM_OP_SEND) {
        flags |= r->flags >> 2 & UNETMM_SQE_F_IMM;
    }
    /* opcode, flags, nsegs, inline_len, channel and region: one store for six. */
    head = unetmm_swap64(r->opcode | (uint64_t)flags << 8 |
                         (is_inline ? (uint64_t)inline_len << 24 :
                                      (uint64_t)nsegs << 16) |
                         (uint64_t)r->channel << 32 |
                         (uint64_t)(r->flags >> UNETMM_REGION_SHIFT_) << 48);
    memcpy(slot, &head, sizeof(head));
    sqe->cookie = unetmm_swap64(r->user_data);
    sqe->imm = unetmm_swap32(r->imm);
    sqe->handle = unetmm_swap32(r->import);
    sqe->remote = unetmm_swap64(r->offset);
    return slot + offsetof(struct unetmm_sqe, data);
}

/* The length of a message, or more than `max` if it is longer than that. */
UNETMM_HELPER_ size_t unetmm_iov_length_(const struct iovec *iov, unsigned n,
                                         size_t max)
{
    size_t total = 0;
    unsigned i;

    if (n == 1) {
        return iov[0].iov_len;
    }
    for (i = 0; i < n; i++) {
        if (iov[i].iov_len > max - total) {
            return max + 1;
        }
        total += iov[i].iov_len;
    }
    return total;
}

UNETMM_HELPER_ int unetmm_queue_rare_(struct unetmm_ep *ep,
                                      const struct unetmm_request_ *r,
                                      const struct iovec *iov, unsigned n,
                                      size_t len, int is_inline)
{
    ep->request = *r;
    if (n == 1) {
        ep->piece = iov[0];
        iov = &ep->piece;
    }
    return ep->rare->queue(ep, iov, n, len, is_inline);
}

/*
 * Puts a descriptor into the send queue: with data of one piece that it holds if
 * is_inline, which is a constant here, else with n segments.
 */
UNETMM_HELPER_ int unetmm_queue_as_(struct unetmm_ep *ep,
                                    const struct unetmm_request_ *r,
                                    const struct iovec *iov, unsigned n,
                                    size_t len, int is_inline)
{
    uint32_t slots = 1 + (is_inline ? 0 : unetmm_seg_slots_(n));
    uint32_t prod;
    unetmm_u8 *data;

    if (__builtin_expect(ep->source || !unetmm_sq_has_room_(ep, slots), 0)) {
        return unetmm_queue_rare_(ep, r, iov, n, len, is_inline);
    }
    prod = ep->sq_prod;
    data = unetmm_put_sqe_(ep, prod, r, is_inline, n, len);
    if (is_inline) {
        unetmm_copy_(data, (const unetmm_u8 *)iov[0].iov_base, len);
    } else {
        unetmm_put_segs_(ep, prod, data, iov, n);
    }
    prod += slots;
    ep->sq_prod = prod;
    unetmm_write_index(&ep->index->user.sq_prod, prod);
    return unetmm_kick_unless_more_(ep, r->flags & UNETMM_MORE);
}

/*
 * Puts a descriptor with `len` bytes of data into the send queue.  All its
 * values have been checked.
 */
UNETMM_HELPER_ int unetmm_queue_(struct unetmm_ep *ep, struct unetmm_request_ r,
                                 const struct iovec *iov, unsigned n, size_t len,
                                 int is_inline)
{
    if (!is_inline) {
        return unetmm_queue_as_(ep, &r, iov, n, len, 0);
    }
    if (n == 1 && len <= UNETMM_SQE_INLINE) {
        return unetmm_queue_as_(ep, &r, iov, 1, len, 1);
    }
    return unetmm_queue_rare_(ep, &r, iov, n, len, 1);
}

/* Messages and frames of up to this length are copied into the queue. */
UNETMM_HELPER_ size_t unetmm_inline_limit_(const struct unetmm_ep *ep,
                                           unsigned flags)
{
    return flags & UNETMM_INLINE ? UNETMM_MAX_INLINE : ep->inline_max;
}

/* `extra`: 0, or UNETMM_IMM, which callers may not set. */
UNETMM_HELPER_ int unetmm_message_(struct unetmm_ep *ep, int channel,
                                   const struct iovec *iov, unsigned n,
                                   uint32_t imm, uint64_t user_data,
                                   unsigned flags, unsigned extra)
{
    const struct unetmm_request_ request = {
        user_data, 0, flags | extra, 0, imm, (uint16_t)channel, UNETMM_OP_SEND,
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

UNETMM_FAST_ int unetmm_sendv(struct unetmm_ep *ep, int channel,
                              const struct iovec *iov, unsigned n,
                              uint64_t user_data, unsigned flags)
{
    return unetmm_message_(ep, channel, iov, n, 0, user_data, flags, 0);
}

UNETMM_FAST_ int unetmm_send(struct unetmm_ep *ep, int channel,
                             const void *buf, size_t len, uint64_t user_data,
                             unsigned flags)
{
    struct iovec iov;

    iov.iov_base = (void *)(uintptr_t)buf;
    iov.iov_len = len;
    return unetmm_sendv(ep, channel, &iov, 1, user_data, flags);
}

UNETMM_FAST_ int unetmm_sendv_imm(struct unetmm_ep *ep, int channel,
                                  const struct iovec *iov, unsigned n,
                                  uint32_t imm, uint64_t user_data,
                                  unsigned flags)
{
    return unetmm_message_(ep, channel, iov, n, imm, user_data, flags,
                           UNETMM_IMM);
}

UNETMM_FAST_ int unetmm_send_imm(struct unetmm_ep *ep, int channel,
                                 const void *buf, size_t len, uint32_t imm,
                                 uint64_t user_data, unsigned flags)
{
    struct iovec iov;

    iov.iov_base = (void *)(uintptr_t)buf;
    iov.iov_len = len;
    return unetmm_sendv_imm(ep, channel, &iov, 1, imm, user_data, flags);
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
    return ep->fq_prod - ep->fq_cons <= ep->fq_mask;
}

UNETMM_HELPER_ void unetmm_fill_fqe_(struct unetmm_ep *ep, uint32_t at, void *buf,
                                     size_t len, uint64_t user_data, uint32_t flags)
{
    struct unetmm_fqe *fqe = &ep->fq[at & ep->fq_mask];

    fqe->addr = unetmm_swap64((uintptr_t)buf);
    fqe->len = unetmm_swap32((uint32_t)len);
    fqe->flags = unetmm_swap32(flags);
    fqe->cookie = unetmm_swap64(user_data);
    fqe->rsvd = 0;
}

UNETMM_HELPER_ void unetmm_put_fqe_(struct unetmm_ep *ep, void *buf, size_t len,
                                    uint64_t user_data, unsigned flags)
{
    uint32_t prod = ep->fq_prod;

    unetmm_fill_fqe_(ep, prod, buf, len, user_data,
                     flags & UNETMM_ZERO ? UNETMM_FQE_F_ZERO : 0);
    prod++;
    ep->fq_prod = prod;
    unetmm_write_index(&ep->index->user.fq_prod, prod);
}

/*
 * A buffer is in the queue.  Where the card looks only when a message comes, it needs
 * no doorbell, unless the driver waits for buffers.
 */
UNETMM_HELPER_ int unetmm_offer_(struct unetmm_ep *ep, int more)
{
    if (!ep->slots) {
        return unetmm_kick_unless_more_(ep, more);
    }
    ep->unlooked = !!more;
    if (more) {
        return 0;
    }
    if (ep->unrung) {
        return unetmm_kick_(ep);
    }
    /* The index before the state. */
    unetmm_arm_barrier();
    if (unetmm_read_word(&ep->index->card.state) & UNETMM_EP_FQ_AWAITED) {
        return unetmm_kick_(ep);
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
    if (__builtin_expect(ep->source || !unetmm_fq_has_room_(ep) ||
                         (flags & UNETMM_ZERO && ep->trap), 0)) {
        return ep->rare->post(ep, buf, len, user_data, flags);
    }
    unetmm_put_fqe_(ep, buf, len, user_data, flags);
    return unetmm_offer_(ep, flags & UNETMM_MORE);
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
    /* A copy costs less than to find out whether there are data. */
    memcpy(c->data, cqe->data, sizeof(c->data));
    c->imm = unetmm_swap32(cqe->imm);
}

/* The flags of the completion for `index`; their phase says whether it is there. */
UNETMM_HELPER_ uint32_t unetmm_flags_at_(const struct unetmm_ep *ep, uint32_t index,
                                         const struct unetmm_cqe *cqe, int *there)
{
    uint32_t flags = unetmm_read_word(&cqe->flags);

    *there = (flags & UNETMM_PHASE) == UNETMM_PHASE_OF(index, ep->cq_log2);
    return flags;
}

/* The same for the completion at `index`. */
UNETMM_HELPER_ uint32_t unetmm_next_flags_(const struct unetmm_ep *ep,
                                           uint32_t index, int *there)
{
    return unetmm_flags_at_(ep, index, &ep->cq[index & ep->cq_mask], there);
}

/* Takes the completion at `index`; 0: it is not there yet. */
UNETMM_HELPER_ int unetmm_take_next_(const struct unetmm_ep *ep, uint32_t index,
                                     struct unetmm_completion *c)
{
    const struct unetmm_cqe *cqe = &ep->cq[index & ep->cq_mask];
    int there;
    uint32_t flags = unetmm_flags_at_(ep, index, cqe, &there);

    if (!there) {
        return 0;
    }
    unetmm_from_card_barrier();
    unetmm_take_(cqe, flags, c);
    return 1;
}

/* The index up to which completions have been taken. */
UNETMM_HELPER_ void unetmm_taken_(struct unetmm_ep *ep, uint32_t index)
{
    if (index != ep->cq_cons) {
        ep->cq_cons = index;
        /* All reads of an entry come before the card may overwrite it. */
        unetmm_write_index(&ep->index->user.cq_cons, index);
    }
}

/* States of the card in which unetmm_poll() may have to do more. */
#define UNETMM_NOTED_ \
    (UNETMM_EP_ERROR | UNETMM_EP_FQ_AWAITED | UNETMM_EP_CQ_BLOCKED)

UNETMM_HELPER_ int unetmm_polled_(struct unetmm_ep *ep, unsigned taken, unsigned n)
{
    uint32_t state = unetmm_read_word(&ep->index->card.state);

    if (__builtin_expect(state & UNETMM_NOTED_, 0)) {
        return ep->rare->note(ep, state, taken, n);
    }
    return (int)taken;
}

UNETMM_HELPER_ int unetmm_poll_(struct unetmm_ep *ep,
                                struct unetmm_completion *c, unsigned n)
{
    uint32_t index = ep->cq_cons;
    unsigned taken;

    for (taken = 0; taken < n && unetmm_take_next_(ep, index, &c[taken]); taken++) {
        index++;
    }
    unetmm_taken_(ep, index);
    return unetmm_polled_(ep, taken, n);
}

UNETMM_FAST_ int unetmm_poll(struct unetmm_ep *ep,
                             struct unetmm_completion *c, unsigned n)
{
    if (!ep->alive) {
        return -EOWNERDEAD;
    }
    if (__builtin_expect(ep->source || ep->stashed, 0)) {
        return ep->rare->poll(ep, c, n);
    }
    /* Most programs take one at a time, which needs no loop. */
    return n == 1 ? unetmm_poll_(ep, c, 1) : UNETMM_POLL_MANY_(ep, c, n);
}

UNETMM_FAST_ int unetmm_peek(const struct unetmm_ep *ep, struct unetmm_completion *c)
{
    return ep->direct && unetmm_take_next_(ep, ep->cq_cons, c);
}

UNETMM_FAST_ void unetmm_take(struct unetmm_ep *ep)
{
    unetmm_taken_(ep, ep->cq_cons + 1);
}

UNETMM_FAST_ int unetmm_card_waits(const struct unetmm_ep *ep)
{
    return ep->alive && (unetmm_read_word(&ep->index->card.state) & UNETMM_NOTED_) != 0;
}

#ifdef __cplusplus
}
#endif

#include <libunetmm/inline_remote.h>
#include <libunetmm/inline_key.h>
#include <libunetmm/inline_frame.h>

#endif /* LIBUNETMM_INLINE_H */
