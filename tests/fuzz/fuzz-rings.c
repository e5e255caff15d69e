/*
 * unetmm: fuzzing: descriptors, rings, doorbells, windows and proxy pages
 *
 * Hostile processes on a card with a sane driver: send and free descriptors,
 * indices, doorbells, stores and starts are the input's.  The card may touch
 * pages that the driver has pinned at that moment, and nothing else
 * (fake_host.h); of a process that has exported some of its memory, that alone
 * (fuzz_ops.h).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fuzz_ops.h"
#include "fuzz_ud.h"

/* Fields that are mostly right: chance alone would not get past the checks. */
static void shaped_slot(FuzzIn *in, struct unetmm_sqe *sqe)
{
    uint8_t how = fuzz_u8(in);

    memset(sqe, 0, sizeof(*sqe));
    sqe->opcode = how >> 3 & 7 ?: UNETMM_OP_SEND;
    sqe->flags = how & UNETMM_SQE_F_ALL;
    sqe->channel = cpu_to_le16(fuzz_u8(in) & 3);
    sqe->cookie = fuzz_u8(in);
    if (how & 0x80) {
        sqe->opcode = UNETMM_OP_SEND_TO;
        sqe->channel = cpu_to_le16(UD_CH);
        sqe->handle = cpu_to_le32(FUZZ_UD_KEY);
        sqe->remote = cpu_to_le64(fuzz_ud_address(fake_peer_mac, 1));
    }
    if (sqe->flags & UNETMM_SQE_F_INLINE) {
        sqe->inline_len = fuzz_u8(in);
        return;
    }
    sqe->nsegs = fuzz_u8(in);
    if (sqe->nsegs < 0xf0) {
        sqe->nsegs %= UNETMM_MAX_SEGS + 2;
    }
    for (unsigned i = 0; i < UNETMM_SQE_SEGS && i < sqe->nsegs; i++) {
        sqe->seg[i].addr = cpu_to_le64(fuzz_vaddr(in));
        sqe->seg[i].len = cpu_to_le32(fuzz_len(in));
    }
}

static void shaped_segments(FuzzIn *in, FakeEp *ep)
{
    struct unetmm_seg seg[UNETMM_SLOT_SEGS];

    memset(seg, 0, sizeof(seg));
    for (unsigned i = 0; i < UNETMM_SLOT_SEGS; i++) {
        seg[i].addr = cpu_to_le64(fuzz_vaddr(in));
        seg[i].len = cpu_to_le32(fuzz_len(in) & 0xfff);
    }
    fake_put_slots(ep, seg, 1);
}

static void stop_if_failed(FuzzCard *c, FakeEp *ep)
{
    struct unetmm_cmd cmd = { .opcode = UNETMM_CMD_EP_DESTROY, .ep = ep->id };
    struct unetmm_cmd_done done;

    if (fake_card(ep).state != UNETMM_EP_ERROR) {
        return;
    }
    fake_issue(&c->d, cmd);
    while (!fake_done(&c->d, &done)) {
        fake_advance(&c->h, 1000);
    }
    assert_int_equal(done.status, UNETMM_CS_OK);
    memset(fake_ptr(&c->h, ep->index, 128), 0, 128);
    memset(fake_ptr(&c->h, ep->cq, 64u << ep->cq_log2), 0, 64u << ep->cq_log2);
    ep->sq_prod = ep->fq_prod = ep->cq_cons = 0;
    fake_ep_create(ep);
    fake_channel(ep, FIX_LOCAL, c->h.core.params.mac, 1 + ((ep->id - 1) ^ 1),
                 FIX_LOCAL, FIX_MTU);
    fake_connect_peer(ep, FIX_WIRE, 10 + ep->id, 9000);
    fuzz_ops_open(c, ep->id - 1, ep->id);
}

static void ring_op(FuzzCard *c, FuzzIn *in)
{
    uint8_t what = fuzz_u8(in);
    FakeEp *ep = &c->ep[what >> 6];
    uint8_t raw[64];
    unsigned word;

    switch (what & 15) {
    case 0: case 1: case 2:
        shaped_slot(in, (struct unetmm_sqe *)raw);
        fake_put_slots(ep, raw, 1);
        fake_move_sq(ep, 1);
        break;
    case 3:
        shaped_segments(in, ep);
        fake_move_sq(ep, 1);
        break;
    case 4:
        fuzz_bytes(in, raw, sizeof(raw));
        fake_put_slots(ep, raw, 1);
        fake_move_sq(ep, 1);
        break;
    case 5: case 6:
        fuzz_post(in, ep);
        break;
    case 7:
        fuzz_bytes(in, raw, 32);
        fake_write(&c->h, ep->fq + 32 * fuzz_below(in, 1u << ep->fq_log2), raw,
                   32);
        break;
    case 8:
        word = 4 * fuzz_below(in, 4);
        fake_user_word(ep, word, fuzz_u32(in));
        break;
    case 9:
        stop_if_failed(c, ep);
        break;
    case 10:
        unetmm_core_doorbell(&c->h.core, fuzz_u8(in));
        break;
    case 11: case 12: case 13:
        fuzz_world_op(c, in);
        break;
    case 14: case 15:
        fuzz_ops_op(c, in, ep);
        break;
    }
    if (what & 0x20) {
        fake_ring_bell(ep);
    }
}

const FuzzTarget fuzz_target = { .start = fuzz_ops_start, .op = ring_op };
