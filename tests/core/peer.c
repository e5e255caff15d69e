/*
 * unetmm: the other end of a reliable channel, packet by packet
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "peer.h"

void peer_open(Fix *f)
{
    const struct unetmm_cmd_channel how = {
        .mtu = PEER_MTU, .send_psn = PEER_MY, .recv_psn = PEER_YOURS,
        .retries = 3, .timeout_us = 1000, .not_ready_retries = 4,
    };

    assert_int_equal(fake_channel_rel(&f->a, PEER_CH, fake_peer_mac, PEER_EP,
                                      PEER_CH, &how), UNETMM_CS_OK);
    if (!f->h.core.remote->regions[PEER_REGION].live) {
        assert_int_equal(fake_region(f->s1, PEER_REGION, PEER_KEY, PEER_AT,
                                     PEER_LENGTH, UNETMM_RIGHT_ALL,
                                     UNETMM_REGION_F_NOTIFY), UNETMM_CS_OK);
    }
    assert_int_equal(fake_import(&f->a, PEER_IMPORT, PEER_CH, PEER_FAR,
                                 PEER_FAR_KEY, PEER_FAR_LENGTH,
                                 UNETMM_RIGHT_ALL), UNETMM_CS_OK);
    /* The pages of the region are there, unless a test takes them away. */
    fake_insert(f->s1, PEER_PAGE(20), 4, NULL);
    fake_wire_clear(&f->h);
}

PeerFrame peer_take(Fix *f)
{
    FakeFrame *sent = fake_wire_at(&f->h, 0);
    PeerFrame frame;

    memcpy(&frame.h, sent->data, sizeof(frame.h));
    unetmm_le_frame(&frame.h);
    assert_int_equal(frame.h.dst_ep, PEER_EP);
    assert_int_equal(frame.h.src_ep, 1);
    assert_int_equal(frame.h.dst_channel, PEER_CH);
    assert_int_equal(frame.h.src_channel, PEER_CH);
    assert_true(frame.h.len <= PEER_MTU);
    assert_int_equal(sent->bytes, 64 + frame.h.len);
    memcpy(frame.data, sent->data + 64, frame.h.len);
    g_ptr_array_remove_index(f->h.wire, 0);
    return frame;
}

void peer_silence(Fix *f)
{
    assert_int_equal(f->h.wire->len, 0);
}

PeerFrame peer_expect(Fix *f, uint8_t opcode, uint32_t psn)
{
    PeerFrame frame = peer_take(f);

    assert_int_equal(frame.h.opcode, opcode);
    assert_int_equal(frame.h.psn, psn);
    return frame;
}

void peer_expect_ack(Fix *f, uint32_t psn, uint64_t bits, uint32_t what,
                     uint32_t arg)
{
    PeerFrame frame = peer_expect(f, UNETMM_WIRE_ACK, psn);

    assert_int_equal(frame.h.remote, bits);
    assert_int_equal(frame.h.imm, what);
    assert_int_equal(frame.h.offset, arg);
    assert_int_equal(frame.h.flags, 0);
}

void peer_give(Fix *f, struct unetmm_frame h, const void *data, uint32_t len)
{
    FakeFrame *frame = fake_datagram(&f->a, PEER_CH, PEER_EP, len, 0);
    struct unetmm_frame *to = fake_header(frame);

    to->opcode = h.opcode;
    to->flags = cpu_to_le32(h.flags);
    to->psn = cpu_to_le32(h.psn);
    to->offset = cpu_to_le32(h.offset);
    to->remote = cpu_to_le64(h.remote);
    to->handle = cpu_to_le32(h.handle);
    to->imm = cpu_to_le32(h.imm);
    memcpy(frame->data + 64, data ?: "", len);
    fake_seal(frame);
    fake_deliver(&f->h, frame);
}

void peer_ack_as(Fix *f, uint32_t psn, uint64_t bits, uint32_t what,
                 uint32_t arg)
{
    peer_give(f, (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_ACK, .psn = psn, .remote = bits, .imm = what,
        .offset = arg }, NULL, 0);
}

void peer_ack(Fix *f, uint32_t psn, uint64_t bits)
{
    peer_ack_as(f, psn, bits, UNETMM_ACK_OK, 0);
}

void peer_void(Fix *f, uint32_t psn, uint32_t flags)
{
    peer_give(f, (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_VOID, .psn = psn, .flags = flags }, NULL, 0);
}

struct unetmm_sqe peer_sqe(uint8_t opcode, unsigned page, uint32_t len,
                           uint64_t offset, uint64_t cookie)
{
    return (struct unetmm_sqe) {
        .opcode = opcode, .nsegs = 1, .channel = PEER_CH, .cookie = cookie,
        .handle = PEER_IMPORT, .remote = offset,
        .seg = { { .addr = PEER_PAGE(page), .len = len } },
    };
}

void peer_post(Fix *f, struct unetmm_sqe sqe)
{
    fake_send_sqe(&f->a, sqe);
    fake_ring_bell(&f->a);
    fake_serve(&f->d);
}
