/*
 * unetmm: fuzzing: UD channels
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fuzz_ud.h"

struct unetmm_cmd fuzz_ud_set(uint16_t ep)
{
    return ud_cmd(ep, FUZZ_UD_KEY, UD_MTU);
}

struct unetmm_cmd fuzz_ud_flush(uint16_t ep)
{
    struct unetmm_cmd cmd = fuzz_ud_set(ep);

    cmd.opcode = UNETMM_CMD_CHANNEL_CLEAR;
    cmd.channel.flags = UNETMM_CHANNEL_F_FLUSH | UNETMM_CHANNEL_F_TELL;
    return cmd;
}

uint64_t fuzz_ud_address(const uint8_t *mac, unsigned ep)
{
    return ud_address(mac, ep == 7 ? FUZZ_UD_SCENE : ep);
}

/* Takes one of the rules of a message away; most inputs leave all of them. */
static void break_rule(struct unetmm_sqe *sqe, unsigned rule)
{
    switch (rule) {
    case 1:
        sqe->handle ^= 1;
        break;
    case 2:
        sqe->handle = UNETMM_QKEY_OWN;
        break;
    case 3:
        sqe->remote |= 1;
        break;
    case 4:
        sqe->channel = FIX_LOCAL;
        break;
    case 5:
        sqe->flags &= ~UNETMM_SQE_F_INLINE;
        break;
    case 6:
        sqe->imm = 1;
        break;
    case 7:
        sqe->opcode = UNETMM_OP_SEND;
        break;
    }
}

void fuzz_ud_send(FuzzCard *c, FuzzIn *in, FakeEp *ep)
{
    uint8_t how = fuzz_u8(in), to = fuzz_u8(in), size = fuzz_u8(in);
    const uint8_t *mac = to & 8 ? fake_peer_mac : c->h.core.params.mac;
    struct unetmm_seg segs[7];
    struct unetmm_sqe sqe = {
        .opcode = UNETMM_OP_SEND_TO, .cookie = to, .channel = UD_CH,
        .flags = UNETMM_SQE_F_INLINE |
                 (how & (UNETMM_SQE_F_QUIET | UNETMM_SQE_F_IMM)),
        /* One more than there may be, too */
        .inline_len = UD_HEAD + size % (UNETMM_MAX_INLINE - UD_HEAD + 2),
        .nsegs = how >> 2 & 7, .handle = FUZZ_UD_KEY,
        .imm = how & UNETMM_SQE_F_IMM ? size : 0,
        .remote = fuzz_ud_address(mac, to & 7),
    };

    for (unsigned i = 0; i < sqe.nsegs; i++) {
        segs[i] = (struct unetmm_seg) { .addr = fuzz_vaddr(in) };
        segs[i].len = how & 0x80 ? fuzz_len(in) : fuzz_u16(in) % 2500;
    }
    break_rule(&sqe, to >> 4);
    if (c->lenient) {
        ep->sq_prod = c->h.core.eps[ep->id].sq_prod;
    }
    ud_post(ep, sqe, to, segs);
}

FakeFrame *fuzz_ud_frame(FuzzIn *in, FakeEp *ep, uint32_t len)
{
    uint8_t how = fuzz_u8(in);
    FakeFrame *f = ud_frame(ep, 10 + (how & 7), FUZZ_UD_KEY, len, how);
    struct unetmm_frame *h = fake_header(f);

    h->src[5] ^= how & 8;
    switch (how >> 4) {
    case 1:
        h->handle ^= 1;
        break;
    case 2:
        h->dst_channel = cpu_to_le16(FIX_WIRE);
        break;
    case 3:
        h->opcode = UNETMM_WIRE_DATAGRAM;
        h->handle = 0;
        break;
    case 4:
        h->imm = 1;
        break;
    case 5: case 6: case 7:
        h->flags = cpu_to_le32(UNETMM_WIRE_F_IMM);
        h->imm = cpu_to_le32(how);
        break;
    case 8:
        h->flags = cpu_to_le32(UNETMM_WIRE_F_PAYLOAD_CRC);
        break;
    }
    fake_seal(f);
    return f;
}
