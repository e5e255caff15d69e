/*
 * unetmm: messages of UD channels
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "ud.h"

struct unetmm_cmd ud_cmd(uint16_t ep, uint32_t qkey, uint32_t mtu)
{
    return (struct unetmm_cmd) {
        .opcode = UNETMM_CMD_CHANNEL_SET, .ep = ep,
        .channel = { .channel = UD_CH, .type = UNETMM_CHANNEL_UD, .mtu = mtu,
                     .qkey = qkey },
    };
}

uint64_t ud_address(const uint8_t *mac, uint16_t ep)
{
    uint64_t address = ep;

    for (int i = 5; i >= 0; i--) {
        address = address << 8 | mac[i];
    }
    return address;
}

void ud_post(FakeEp *ep, struct unetmm_sqe sqe, uint32_t n,
             const struct unetmm_seg *segs)
{
    uint8_t slots[8 * 64] = { 0 };
    unsigned places = sqe.flags & UNETMM_SQE_F_INLINE ?
                      (sqe.inline_len + 15) / 16 : 0;
    unsigned all = places + sqe.nsegs;
    unsigned nslots = all <= 2 ? 1 : 1 + (all - 2 + 3) / 4;

    for (unsigned i = 0; i < sqe.inline_len; i++) {
        slots[32 + i] = fake_pattern(n, i);
    }
    for (unsigned i = 0; i < sqe.nsegs && all <= 24; i++) {
        struct unetmm_seg seg = segs[i];

        unetmm_le_seg(&seg);
        memcpy(slots + 32 + (places + i) * 16, &seg, sizeof(seg));
    }
    unetmm_le_sqe(&sqe);
    memcpy(slots, &sqe, offsetof(struct unetmm_sqe, data));
    fake_put_slots(ep, slots, nslots);
    fake_move_sq(ep, nslots);
}

FakeFrame *ud_frame(FakeEp *ep, uint16_t src_ep, uint32_t qkey, uint32_t len,
                    uint32_t n)
{
    FakeFrame *frame = fake_datagram(ep, UD_CH, src_ep, len, n);

    fake_header(frame)->opcode = UNETMM_WIRE_SEND_TO;
    fake_header(frame)->handle = cpu_to_le32(qkey);
    return frame;
}
