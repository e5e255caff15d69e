/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Queue pairs of type UD: address handles, and messages.
 *
 * The driver has found the MAC address of an address handle's destination, and made the network
 * header (GRH).  The number of a queue pair is that of its endpoint and UNETMM_VERBS_QPN, as with
 * RC, so MAC address and number are all that a descriptor needs.  The header is the first 40 bytes
 * of the message, inline, and data or segments follow.  The card takes the Q_Key of the request, or
 * the queue pair's own if bit 31 is set.
 */
#include "send.h"
#include "ud.h"

#include <errno.h>
#include <stdlib.h>

#define GRH         UNETMM_VERBS_GRH
#define GRH_IP4     20          /* IPv4's header is there */
#define IP4_LENGTH  (GRH_IP4 + 2)
#define IP4_SUM     (GRH_IP4 + 10)
#define IP6_LENGTH  4
/* A group, which the card refuses */
#define NOWHERE     1

struct create_ah_resp {
    struct ib_uverbs_create_ah_resp base;
    struct unetmm_verbs_ah own;
};

struct ibv_ah *umv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    struct create_ah_resp resp = {};
    struct umv_ah *ah = calloc(1, sizeof(*ah));
    int ret;

    if (!ah) {
        return NULL;
    }
    ret = ibv_cmd_create_ah(pd, &ah->ah, attr, &resp.base, sizeof(resp));
    if (ret) {
        free(ah);
        errno = ret;
        return NULL;
    }
    ah->own = resp.own;
    return &ah->ah;
}

int umv_destroy_ah(struct ibv_ah *ah)
{
    int ret = ibv_cmd_destroy_ah(ah);

    if (!ret) {
        free(container_of(ah, struct umv_ah, ah));
    }
    return ret;
}

/* ---- The network header ---------------------------------------------------- */

static uint32_t word_at(const uint8_t *at)
{
    return (uint32_t)at[0] << 8 | at[1];
}

static void set_word(uint8_t *at, uint32_t word)
{
    at[0] = (uint8_t)(word >> 8);
    at[1] = (uint8_t)word;
}

/* The driver's header is that of no bytes; the network carries words of 4 bytes. */
static void add_length(uint8_t *grh, uint32_t len)
{
    uint32_t bytes = (len + 3) & ~3u, sum;

    if (grh[0] >> 4 == 6) {
        set_word(grh + IP6_LENGTH, word_at(grh + IP6_LENGTH) + bytes);
        return;
    }
    set_word(grh + IP4_LENGTH, word_at(grh + IP4_LENGTH) + bytes);
    /* The ones' complement of the sum of all words */
    sum = (~word_at(grh + IP4_SUM) & 0xffff) + (bytes & 0xffff);
    set_word(grh + IP4_SUM, ~((sum & 0xffff) + (sum >> 16)));
}

/* ---- Messages -------------------------------------------------------------- */

/* The descriptor in slot `number` is complete but for the destination. */
void umv_address(struct umv_qp *qp, const struct ibv_send_wr *wr, uint32_t number)
{
    const struct umv_ah *ah = container_of(wr->wr.ud.ah, struct umv_ah, ah);
    uint32_t ep = wr->wr.ud.remote_qpn - UNETMM_VERBS_QPN;
    struct unetmm_sqe *sqe = umv_sqe(qp->ep, number);
    struct unetmm_verbs_ah own = ah->own;
    struct iovec iov = { own.grh, GRH };
    uint64_t mac = 0;

    memcpy(&mac, own.mac, sizeof(own.mac));
    mac = unetmm_swap64(mac);
    if (ah->ah.pd != qp->vqp.qp.pd) {
        mac = NOWHERE;
    }
    /* Endpoint 0, which takes no messages, stands for numbers that no queue pair has. */
    mac |= UNETMM_PREP(UNETMM_UD_EP, (uint64_t)(ep > UINT16_MAX ? 0 : ep));
    sqe->remote = unetmm_swap64(mac);
    sqe->handle = unetmm_swap32(wr->wr.ud.remote_qkey);
    add_length(own.grh, qp->sent[number & qp->ep->sq_mask].len);
    unetmm_put_pieces(qp->ep, number, sqe->data, &iov, 1);
}

/* The place of the header, and segments behind it at a multiple of their size */
struct segments {
    uint8_t grh[(GRH + sizeof(struct unetmm_seg) - 1) / sizeof(struct unetmm_seg) *
                sizeof(struct unetmm_seg)];
    struct unetmm_seg all[UNETMM_UD_SEGS];
};

static size_t put_segments(struct umv_qp *qp, const struct ibv_send_wr *wr, struct segments *to,
                           unsigned *n)
{
    struct iovec iov[UNETMM_MAX_SEGS];
    unsigned i;

    *n = umv_translate(qp->context, qp->vqp.qp.pd, &qp->send_mr, wr->sg_list, wr->num_sge, 0, iov);
    for (i = 0; i < *n; i++) {
        to->all[i] = (struct unetmm_seg) {
            .addr = unetmm_swap64((uintptr_t)iov[i].iov_base),
            .len = unetmm_swap32((uint32_t)iov[i].iov_len),
        };
    }
    return unetmm_iov_length_(iov, *n, UINT32_MAX - 1);
}

/* Any request; wr->wr.ud.ah is NULL if ibv_wr_set_ud_addr() comes behind. */
int umv_put_to(struct umv_qp *qp, const struct ibv_send_wr *wr)
{
    struct segments head = {};
    struct iovec iov[1 + UNETMM_MAX_SEGS] = { { &head, GRH } };
    uint32_t number = qp->ep->sq_prod, slots;
    unsigned i, n = 0, pieces = 1;
    size_t len;

    if (wr->send_flags & IBV_SEND_INLINE) {
        for (; pieces <= (unsigned)wr->num_sge; pieces++) {
            iov[pieces].iov_base = (void *)(uintptr_t)wr->sg_list[pieces - 1].addr;
            iov[pieces].iov_len = wr->sg_list[pieces - 1].length;
        }
        len = unetmm_iov_length_(iov + 1, pieces - 1, UNETMM_MAX_INLINE);
        if (len > qp->cap.max_inline_data) {
            return EINVAL;
        }
        i = GRH + (unsigned)len;
        slots = 1 + unetmm_inline_slots(i);
    } else {
        len = put_segments(qp, wr, &head, &n);
        i = GRH;
        iov[0].iov_len = offsetof(struct segments, all) + n * sizeof(head.all[0]);
        slots = 1 + unetmm_inline_slots(iov[0].iov_len);
    }
    if (!umv_has_room(qp, slots)) {
        return ENOMEM;
    }
    umv_put_head(qp, qp->ep, wr, number, (uint32_t)len, UMV_HEAD_INLINE(i) | UMV_HEAD_SEGMENTS(n));
    unetmm_put_pieces(qp->ep, number, umv_sqe(qp->ep, number)->data, iov, pieces);
    if (wr->wr.ud.ah) {
        umv_address(qp, wr, number);
    }
    return umv_queued(qp, wr, slots);
}
