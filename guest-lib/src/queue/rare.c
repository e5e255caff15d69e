/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The rare cases of the fast path: struct unetmm_rare_ops_ of inline.h.  The
 * arguments have been checked, and the endpoint is the process's own.
 */
#include "queue.h"
#include "../recording/recording.h"

/*
 * A queue is full.  The doorbell is rung for descriptors queued with UNETMM_MORE:
 * a caller that tries again would otherwise wait for itself.
 */
static int full(struct unetmm_ep *ep)
{
    if (unetmm_read_word(&ep->index->card.state) & UNETMM_EP_ERROR) {
        return -EIO;
    }
    if (ep->unrung) {
        unetmm_ring_(ep);
    }
    if (ep->source) {
        ep->source->pending(ep);
    }
    return -EAGAIN;
}

int unetmm_kick_rare(struct unetmm_ep *ep)
{
    ep->rare->trap(ep);
    return 0;
}

/* Slots behind the first one of a descriptor with so many bytes in it. */
uint32_t unetmm_inline_slots(size_t len)
{
    return len <= UNETMM_SQE_INLINE ? 0 :
        (uint32_t)((len - UNETMM_SQE_INLINE + UNETMM_SLOT_BYTES - 1) /
                   UNETMM_SLOT_BYTES);
}

/*
 * Copies a message: its first 32 bytes to `to`, in the descriptor's slot `index`, the
 * rest into the slots behind it, of which the first comes behind the last.
 */
void unetmm_put_pieces(struct unetmm_ep *ep, uint32_t index, uint8_t *to,
                       const struct iovec *iov, unsigned n)
{
    /* Until the end of the ring all bytes are contiguous. */
    size_t room = (size_t)(ep->sq_mask + 1 - (index & ep->sq_mask)) *
        UNETMM_SLOT_BYTES - offsetof(struct unetmm_sqe, data);
    unsigned i;

    for (i = 0; i < n; i++) {
        const uint8_t *from = iov[i].iov_base;
        size_t left = iov[i].iov_len;

        while (left) {
            size_t now;

            if (!room) {
                to = ep->sq;
                room = UNETMM_MAX_INLINE;
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

int unetmm_queue_rare(struct unetmm_ep *ep, const struct iovec *iov, unsigned n,
                      size_t len, int is_inline)
{
    struct unetmm_request_ r = ep->request;
    uint32_t slots = 1 + (is_inline ? unetmm_inline_slots(len) : unetmm_seg_slots_(n));
    uint8_t *data;

    if (!unetmm_sq_has_room_(ep, slots)) {
        return full(ep);
    }
    if (ep->source) {
        unsigned segments = is_inline ? 0 : n;
        int ret = ep->source->queue(ep, &r, segments ? iov : NULL, segments);

        if (ret) {
            return ret == -EAGAIN ? full(ep) : ret;
        }
        unetmm_recording_sends(unetmm_ep_private(ep), &r, iov, n, len, is_inline);
    }
    data = unetmm_put_sqe_(ep, ep->sq_prod, &r, is_inline, n, len);
    if (is_inline) {
        unetmm_put_pieces(ep, ep->sq_prod, data, iov, n);
    } else {
        unetmm_put_segs_(ep, ep->sq_prod, data, iov, n);
    }
    ep->sq_prod += slots;
    unetmm_write_index(&ep->index->user.sq_prod, ep->sq_prod);
    return unetmm_kick_unless_more_(ep, r.flags & UNETMM_MORE);
}

/* The driver may refuse the last buffer, and then has not taken it. */
static int post_checked(struct unetmm_ep *ep)
{
    if (unetmm_ring_(ep) == -EINVAL) {
        ep->fq_prod--;
        unetmm_write_index(&ep->index->user.fq_prod, ep->fq_prod);
        return -EINVAL;
    }
    return 0;
}

int unetmm_post_rare(struct unetmm_ep *ep, void *buf, size_t len,
                     uint64_t user_data, unsigned flags)
{
    if (!unetmm_fq_has_room_(ep) && !ep->rare->settle(ep, 1)) {
        return full(ep);
    }
    if (ep->source) {
        struct iovec iov = { buf, len };
        int ret = ep->source->post(ep, &iov, 1, &user_data);

        if (ret) {
            return ret == -EAGAIN ? full(ep) : ret;
        }
        unetmm_recording_offers(unetmm_ep_private(ep), &iov, 1);
    }
    unetmm_put_fqe_(ep, buf, len, user_data, flags);
    if (flags & UNETMM_ZERO && ep->trap) {
        return post_checked(ep);
    }
    return unetmm_offer_(ep, flags & UNETMM_MORE);
}

static int check_parts(const struct unetmm_ep *ep, const struct iovec *iov,
                       unsigned n)
{
    uint64_t pages = 0;
    unsigned i;

    for (i = 0; i < n; i++) {
        size_t in_page = (uintptr_t)iov[i].iov_base & (UNETMM_PAGE_BYTES - 1);

        if (!iov[i].iov_len) {
            return -EINVAL;
        }
        if (iov[i].iov_len > UINT32_MAX - UNETMM_PAGE_BYTES) {
            return -EMSGSIZE;
        }
        pages += (in_page + iov[i].iov_len + UNETMM_PAGE_BYTES - 1) /
                 UNETMM_PAGE_BYTES;
    }
    return pages > ep->max_buffer_pages ? -EMSGSIZE : 0;
}

int unetmm_post_recvv(struct unetmm_ep *ep, const struct iovec *iov, unsigned n,
                      uint64_t user_data, unsigned flags)
{
    int ret;

    if (!ep->alive) {
        return -EOWNERDEAD;
    }
    if (!n || n > UNETMM_MAX_SEGS || flags & ~UNETMM_MORE ||
        (n > 1 && ep->slots)) {
        return -EINVAL;
    }
    ret = check_parts(ep, iov, n);
    if (ret) {
        return ret;
    }
    if (!unetmm_parts_fit(ep, n)) {
        return full(ep);
    }
    if (ep->source) {
        ret = ep->source->post(ep, iov, n, &user_data);
        if (ret) {
            return ret == -EAGAIN ? full(ep) : ret;
        }
        unetmm_recording_offers(unetmm_ep_private(ep), iov, n);
    }
    unetmm_put_parts(ep, iov, n, user_data);
    return unetmm_offer_(ep, flags & UNETMM_MORE);
}

int unetmm_poll_rare(struct unetmm_ep *ep, struct unetmm_completion *c, unsigned n)
{
    uint32_t index = ep->cq_cons;
    unsigned taken = 0;

    if (ep->stashed && n) {
        return ep->rare->unstash(ep, c, n);
    }
    for (; taken < n && unetmm_take_next_(ep, index, &c[taken]); index++) {
        if (!ep->source || ep->source->taken(ep, &c[taken])) {
            taken++;
        }
    }
    unetmm_taken_(ep, index);
    return unetmm_polled_(ep, taken, n);
}

int unetmm_poll_note(struct unetmm_ep *ep, uint32_t state, unsigned taken,
                     unsigned n)
{
    uint32_t index = ep->cq_cons;

    if (state & UNETMM_EP_ERROR && !taken && n) {
        int there;

        /* Completions that the card wrote before it stopped come first. */
        unetmm_from_card_barrier();
        unetmm_next_flags_(ep, index, &there);
        return there ? 0 : -EIO;
    }
    if (state & UNETMM_EP_FQ_AWAITED && ep->unlooked) {
        ep->unlooked = 0;
        unetmm_ring_(ep);
    }
    if (state & UNETMM_EP_CQ_BLOCKED && ep->blocked_rung != index) {
        /*
         * Ring once for the entries taken so far.  If the card blocks just after
         * the state was read, the next poll that finds no entry rings.
         */
        ep->blocked_rung = index;
        unetmm_ring_(ep);
    }
    return (int)taken;
}
