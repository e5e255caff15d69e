/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Operations on imports, and event counters, inline.  Part of inline.h,
 * which has the rules for inline functions.
 */
#ifndef LIBUNETMM_INLINE_H
#include <libunetmm/inline.h>   /* includes this file in its turn */
#endif

#ifndef LIBUNETMM_INLINE_REMOTE_H
#define LIBUNETMM_INLINE_REMOTE_H

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Write, read, atomics -------------------------------------------------- */

/*
 * Checks a request against this side's record; the card and the peer check again.
 * `channel` gets the channel of the import.
 */
UNETMM_HELPER_ int unetmm_op_check_(const struct unetmm_ep *ep,
                                    const struct unetmm_request_ *r,
                                    unsigned right, size_t len,
                                    uint16_t *channel)
{
    const struct unetmm_import_record *record;
    uint64_t length;

    if (r->import >= ep->nimports) {
        return -ENOENT;
    }
    record = &ep->imports[r->import];
    length = __atomic_load_n(&record->length, __ATOMIC_ACQUIRE);
    if (!length) {
        return -ENOENT;
    }
    if (!(record->rights & right)) {
        return -EACCES;
    }
    if (r->offset > length || len > length - r->offset) {
        return -ERANGE;
    }
    *channel = record->channel;
    return 0;
}

/*
 * WRITE and READ; only the data of a write can be copied into the queue.  `right` 0: by
 * key, which the peer checks.
 */
UNETMM_HELPER_ int unetmm_move_(struct unetmm_ep *ep, struct unetmm_request_ r, unsigned right,
                                const struct iovec *iov, unsigned n)
{
    size_t limit = r.opcode == UNETMM_OP_WRITE ?
        unetmm_inline_limit_(ep, r.flags) : 0;
    size_t len;
    int ret;

    if (n > UNETMM_MAX_SEGS) {
        return -EINVAL;
    }
    len = unetmm_iov_length_(iov, n, UNETMM_MAX_MESSAGE);
    if (len > UNETMM_MAX_MESSAGE || (r.flags & UNETMM_INLINE && len > limit)) {
        return -EMSGSIZE;
    }
    if (!len && r.opcode != UNETMM_OP_WRITE) {
        return -EINVAL;
    }
    ret = right ? unetmm_op_check_(ep, &r, right, len, &r.channel) : 0;
    if (ret) {
        return ret;
    }
    return unetmm_queue_(ep, r, iov, n, len,
                         r.opcode == UNETMM_OP_WRITE && len <= limit);
}

/* `imm` has one use at most. */
UNETMM_HELPER_ int unetmm_write_flags_ok_(unsigned flags, uint32_t imm)
{
    const unsigned all = UNETMM_NOTIFY | UNETMM_COUNT | UNETMM_IMM;
    unsigned use = flags & all;

    return !(flags & ~(UNETMM_SEND_FLAGS | all)) && !(use & (use - 1)) &&
        (!imm || use);
}

UNETMM_FAST_ int unetmm_writev(struct unetmm_ep *ep, int import,
                               uint64_t offset, const struct iovec *iov,
                               unsigned n, uint32_t imm, uint64_t user_data,
                               unsigned flags)
{
    const struct unetmm_request_ request = {
        user_data, offset, flags, (unsigned)import, imm, 0, UNETMM_OP_WRITE,
    };

    if (!ep->alive) {
        return -EOWNERDEAD;
    }
    if (!unetmm_write_flags_ok_(flags, imm)) {
        return -EINVAL;
    }
    return unetmm_move_(ep, request, UNETMM_RIGHT_WRITE, iov, n);
}

UNETMM_FAST_ int unetmm_write(struct unetmm_ep *ep, int import,
                              uint64_t offset, const void *buf, size_t len,
                              uint32_t imm, uint64_t user_data, unsigned flags)
{
    struct iovec iov;

    iov.iov_base = (void *)(uintptr_t)buf;
    iov.iov_len = len;
    return unetmm_writev(ep, import, offset, &iov, 1, imm, user_data, flags);
}

UNETMM_FAST_ int unetmm_readv(struct unetmm_ep *ep, int import,
                              uint64_t offset, const struct iovec *iov,
                              unsigned n, uint64_t user_data, unsigned flags)
{
    const struct unetmm_request_ request = {
        user_data, offset, flags, (unsigned)import, 0, 0, UNETMM_OP_READ,
    };

    if (!ep->alive) {
        return -EOWNERDEAD;
    }
    if (flags & ~(UNETMM_MORE | UNETMM_UNSIGNALED)) {
        return -EINVAL;
    }
    return unetmm_move_(ep, request, UNETMM_RIGHT_READ, iov, n);
}

UNETMM_FAST_ int unetmm_read(struct unetmm_ep *ep, int import,
                             uint64_t offset, void *buf, size_t len,
                             uint64_t user_data, unsigned flags)
{
    struct iovec iov;

    iov.iov_base = buf;
    iov.iov_len = len;
    return unetmm_readv(ep, import, offset, &iov, 1, user_data, flags);
}

/* Atomics: their operands are copied into the queue. */
UNETMM_HELPER_ int unetmm_atomic_(struct unetmm_ep *ep, struct unetmm_request_ r,
                                  const uint64_t *operands, unsigned n)
{
    struct iovec iov;
    int ret;

    if (!ep->alive) {
        return -EOWNERDEAD;
    }
    if (r.flags & ~(UNETMM_MORE | UNETMM_UNSIGNALED)) {
        return -EINVAL;
    }
    ret = unetmm_op_check_(ep, &r, UNETMM_RIGHT_ATOMIC, sizeof(*operands),
                           &r.channel);
    if (ret) {
        return ret;
    }
    iov.iov_base = (void *)(uintptr_t)operands;
    iov.iov_len = n * sizeof(*operands);
    return unetmm_queue_(ep, r, &iov, 1, iov.iov_len, 1);
}

UNETMM_FAST_ int unetmm_fetch_add(struct unetmm_ep *ep, int import,
                                  uint64_t offset, uint64_t add,
                                  uint64_t user_data, unsigned flags)
{
    const struct unetmm_request_ request = {
        user_data, offset, flags, (unsigned)import, 0, 0, UNETMM_OP_FETCH_ADD,
    };
    const uint64_t operands[1] = { unetmm_swap64(add) };

    return unetmm_atomic_(ep, request, operands, 1);
}

UNETMM_FAST_ int unetmm_cmp_swap(struct unetmm_ep *ep, int import,
                                 uint64_t offset, uint64_t compare,
                                 uint64_t swap, uint64_t user_data,
                                 unsigned flags)
{
    const struct unetmm_request_ request = {
        user_data, offset, flags, (unsigned)import, 0, 0, UNETMM_OP_CMP_SWAP,
    };
    const uint64_t operands[2] = { unetmm_swap64(compare),
                                   unetmm_swap64(swap) };

    return unetmm_atomic_(ep, request, operands, 2);
}

/* ---- Results in completions ------------------------------------------------ */

UNETMM_FAST_ uint64_t unetmm_old_value(const struct unetmm_completion *c)
{
    uint64_t old;

    memcpy(&old, c->data, sizeof(old));
    return unetmm_swap64(old);
}

UNETMM_FAST_ uint64_t unetmm_notify_offset(const struct unetmm_completion *c)
{
    struct unetmm_cqe_notify notify;

    memcpy(&notify, c->data, sizeof(notify));
    return unetmm_swap64(notify.offset);
}

UNETMM_FAST_ uint32_t unetmm_notify_imm(const struct unetmm_completion *c)
{
    struct unetmm_cqe_notify notify;

    memcpy(&notify, c->data, sizeof(notify));
    return unetmm_swap32(notify.imm);
}

/* ---- Fences, user-level DMA start ------------------------------------------ */

UNETMM_FAST_ int unetmm_fence(struct unetmm_ep *ep, int channel,
                              uint64_t user_data, unsigned flags)
{
    const struct unetmm_request_ request = {
        user_data, 0, flags, 0, 0, (uint16_t)channel, UNETMM_OP_FENCE,
    };

    if (!ep->alive) {
        return -EOWNERDEAD;
    }
    if (flags & ~(UNETMM_MORE | UNETMM_UNSIGNALED)) {
        return -EINVAL;
    }
    if (!unetmm_mtu_(ep, channel)) {
        return -ENOENT;
    }
    return unetmm_queue_(ep, request, NULL, 0, 0, 0);
}

UNETMM_FAST_ int unetmm_udma_start(void *to, const void *from, uint32_t bytes)
{
    volatile uint32_t *store = (volatile uint32_t *)to;
    const volatile uint32_t *load = (const volatile uint32_t *)from;
    uint32_t result = UNETMM_START_SPLIT;
    unsigned tries;

    for (tries = 0; result == UNETMM_START_SPLIT && tries < 1000; tries++) {
        *store = unetmm_swap32(bytes);
        unetmm_doorbell_barrier();
        result = unetmm_swap32(*load);
    }
    return result == UNETMM_START_DONE ? 0 :
           result == UNETMM_START_BUSY || result == UNETMM_START_SPLIT ?
           -EAGAIN : -EINVAL;
}

/* ---- Event counters -------------------------------------------------------- */

UNETMM_FAST_ uint64_t unetmm_event_read(const struct unetmm_event_counter *counter)
{
    uint64_t now;

    if (!*counter->alive) {
        return 0;
    }
    now = __atomic_load_n(counter->word, __ATOMIC_ACQUIRE);
    return unetmm_swap64(now);
}

UNETMM_FAST_ int unetmm_event_reached(uint64_t now, uint64_t value)
{
    return now - value <= INT64_MAX;
}

#ifdef __cplusplus
}
#endif

#endif /* LIBUNETMM_INLINE_REMOTE_H */
