/*
 * unetmm: reliable channels, packet by packet: the other end is the test
 *
 * Endpoint a has a reliable channel to the peer on the wire, number CH there as
 * here.  Packets sent are numbered from MY, those expected from YOURS.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fixture.h"
#include "reliable/reliable.h"

#define PAGE(n) (FIX_VA + (uint64_t)(n) * FAKE_PAGE)
#define CH      5
#define PEER    11
#define MTU     1000
#define MY      0xfffffff0u             /* so that all tests pass the wrap */
#define YOURS   0x7ffffff8u
#define US      1000

static const struct unetmm_cmd_channel usual = {
    .mtu = MTU, .send_psn = MY, .recv_psn = YOURS, .retries = 3,
    .timeout_us = 1000, .not_ready_retries = 4,
};

static void open_channel(Fix *f, const struct unetmm_cmd_channel *how)
{
    assert_int_equal(fake_channel_rel(&f->a, CH, fake_peer_mac, PEER, CH,
                                      how), UNETMM_CS_OK);
    fake_wire_clear(&f->h);
}

/* ---- Frames, both ways ---- */

/* The oldest frame that the card has sent; then it is forgotten. */
static struct unetmm_frame take_frame(Fix *f)
{
    FakeFrame *sent = fake_wire_at(&f->h, 0);
    struct unetmm_frame h;

    memcpy(&h, sent->data, sizeof(h));
    unetmm_le_frame(&h);
    assert_int_equal(h.dst_ep, PEER);
    assert_int_equal(h.src_ep, 1);
    assert_int_equal(h.dst_channel, CH);
    assert_int_equal(h.src_channel, CH);
    assert_int_equal(h.handle, 0);
    assert_int_equal(sent->bytes, 64 + h.len);
    g_ptr_array_remove_index(f->h.wire, 0);
    return h;
}

static void expect_silence(Fix *f)
{
    assert_int_equal(f->h.wire->len, 0);
}

/* The next frame is this packet.  Returns its flags. */
static uint32_t expect_packet(Fix *f, uint32_t psn, uint32_t offset,
                              uint32_t len, uint32_t total)
{
    struct unetmm_frame h = take_frame(f);

    assert_int_equal(h.opcode, UNETMM_WIRE_SEND);
    assert_int_equal(h.psn, psn);
    assert_int_equal(h.offset, offset);
    assert_int_equal(h.len, len);
    assert_int_equal(h.remote, total);
    assert_int_equal(h.imm, 0);
    assert_int_equal(!!(h.flags & UNETMM_WIRE_F_LAST), offset + len == total);
    return h.flags;
}

static void expect_ack(Fix *f, uint32_t psn, uint64_t bits, uint32_t what,
                       uint32_t arg)
{
    struct unetmm_frame h = take_frame(f);

    assert_int_equal(h.opcode, UNETMM_WIRE_ACK);
    assert_int_equal(h.psn, psn);
    assert_int_equal(h.remote, bits);
    assert_int_equal(h.imm, what);
    assert_int_equal(h.offset, arg);
    assert_int_equal(h.flags, 0);
}

static void give_ack(Fix *f, uint32_t psn, uint64_t bits, uint32_t what,
                     uint32_t arg)
{
    FakeFrame *frame = fake_datagram(&f->a, CH, PEER, 0, 0);
    struct unetmm_frame *h = fake_header(frame);

    h->opcode = UNETMM_WIRE_ACK;
    h->psn = cpu_to_le32(psn);
    h->remote = cpu_to_le64(bits);
    h->imm = cpu_to_le32(what);
    h->offset = cpu_to_le32(arg);
    fake_seal(frame);
    fake_deliver(&f->h, frame);
}

static void ack(Fix *f, uint32_t psn, uint64_t bits)
{
    give_ack(f, psn, bits, UNETMM_ACK_OK, 0);
}

/* A packet of message n; `flags` beside LAST, which follows from the rest. */
static FakeFrame *packet_to(FakeEp *ep, uint32_t psn, uint32_t offset,
                            uint32_t len, uint32_t total, uint32_t n,
                            uint32_t flags)
{
    FakeFrame *frame = fake_datagram(ep, CH, PEER, len, 0);
    struct unetmm_frame *h = fake_header(frame);

    h->opcode = UNETMM_WIRE_SEND;
    h->psn = cpu_to_le32(psn);
    h->offset = cpu_to_le32(offset);
    h->remote = cpu_to_le64(total);
    h->flags = cpu_to_le32(flags | (offset + len == total ?
                                    UNETMM_WIRE_F_LAST : 0));
    for (uint32_t i = 0; i < len; i++) {
        frame->data[64 + i] = fake_pattern(n, offset + i);
    }
    fake_seal(frame);
    return frame;
}

static FakeFrame *packet(Fix *f, uint32_t psn, uint32_t offset, uint32_t len,
                         uint32_t total, uint32_t n, uint32_t flags)
{
    return packet_to(&f->a, psn, offset, len, total, n, flags);
}

static void give(Fix *f, uint32_t psn, uint32_t offset, uint32_t len,
                 uint32_t total, uint32_t n, uint32_t flags)
{
    fake_deliver(&f->h, packet(f, psn, offset, len, total, n, flags));
}

/* A whole message in one packet that asks. */
static void give_whole(Fix *f, uint32_t psn, uint32_t len, uint32_t n)
{
    give(f, psn, 0, len, len, n, UNETMM_WIRE_F_ASK);
}

static void send_bytes(Fix *f, uint32_t len, uint64_t cookie)
{
    fake_fill(f->s1, PAGE(0), len, cookie);
    fake_send_at(&f->a, CH, PAGE(0), len, cookie);
    fake_ring_bell(&f->a);
    fake_serve(&f->d);
}

static void send_small(Fix *f, unsigned len, uint64_t cookie)
{
    fake_send_inline(&f->a, CH, cookie, len, cookie, 0);
    fake_ring_bell(&f->a);
}

static void post(Fix *f, unsigned page, uint32_t len, uint64_t cookie)
{
    fake_post(&f->a, PAGE(page), len, cookie);
    fix_settle(f);
}

/* ---- CHANNEL_SET ---- */

TEST_OF(test_set, Fix *f, fix_test)
{
    struct unetmm_cmd_channel how = usual;
    const uint8_t *mac = fake_peer_mac;

    how.timeout_us = 1000001;
    assert_int_equal(fake_channel_rel(&f->a, CH, mac, PEER, CH, &how),
                     UNETMM_CS_BAD_ARG);
    how.timeout_us = 1000000;
    for (unsigned i = 0; i < 16; i++) {
        assert_int_equal(fake_channel_rel(i % 2 ? &f->a : &f->b, i, mac, PEER,
                                          CH, &how), UNETMM_CS_OK);
    }
    assert_int_equal(fake_channel_rel(&f->a, 0, mac, PEER, CH, &how),
                     UNETMM_CS_FULL);
    /* Refused: the channel that it would have replaced is still there. */
    assert_int_equal(fake_channel_rel(&f->a, 3, mac, PEER, CH, &how),
                     UNETMM_CS_FULL);
    assert_non_null(f->h.core.eps[1].channels[3].rel);
    /* A datagram channel in its place makes room. */
    assert_int_equal(fake_channel(&f->a, 3, mac, PEER, CH, MTU),
                     UNETMM_CS_OK);
    fix_settle(f);
    assert_int_equal(fake_channel_rel(&f->a, 0, mac, PEER, CH, &how),
                     UNETMM_CS_OK);
    assert_int_equal(fake_ep_destroy(&f->a), UNETMM_CS_OK);
    assert_int_equal(f->h.core.rel->used, 8);
    fake_set_reg(&f->h, UNETMM_REG_CTRL, UNETMM_CTRL_RESET);
    assert_int_equal(f->h.core.rel->used, 0);
}

TEST_OF(test_set_bad_type, Fix *f, fix_test)
{
    struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_CHANNEL_SET, .ep = 1, .channel = usual,
    };

    for (unsigned type = UNETMM_CHANNEL_UD + 1; type < 256; type++) {
        cmd.channel.type = type;
        assert_int_equal(fake_command(&f->d, cmd, NULL), UNETMM_CS_BAD_ARG);
    }
}

static void none(UnetmmParams *p)
{
    p->reliable = 0;
}

TEST_OF(test_none, Fix *f, fix_test_with, none)
{
    assert_int_equal(fake_reg(&f->h, UNETMM_REG_CAPS) & UNETMM_CAP_RELIABLE,
                     0);
    assert_int_equal(fake_channel_rel(&f->a, CH, fake_peer_mac, PEER, CH,
                                      &usual), UNETMM_CS_FULL);
}

/* Each type speaks its own opcodes only. */
TEST_OF(test_types_apart, Fix *f, fix_test)
{
    open_channel(f, &usual);
    expect_count(&f->h, drop_channel, 1,
                 fake_deliver(&f->h, fake_datagram(&f->a, CH, PEER, 8, 1)));
    fake_channel(&f->a, CH, fake_peer_mac, PEER, CH, MTU);
    expect_count(&f->h, drop_channel, 1, give_whole(f, YOURS, 8, 1));
    expect_count(&f->h, drop_channel, 1, ack(f, MY, 0));
    fake_expect_none(&f->a);
}

/* ---- Sending ---- */

TEST_OF(test_one_packet, Fix *f, fix_test)
{
    open_channel(f, &usual);
    send_small(f, 30, 7);
    assert_true(expect_packet(f, MY, 0, 30, 30) & UNETMM_WIRE_F_ASK);
    /* The descriptor is free, the send not complete. */
    assert_int_equal(fake_card(&f->a).sq_cons, f->a.sq_prod);
    fake_expect_none(&f->a);
    ack(f, MY + 1, 0);
    assert_int_equal(fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK,
                                 7).len, 30);
    /* And nothing more, ever. */
    fake_advance(&f->h, 10000000 * (int64_t)US);
    expect_silence(f);
    assert_int_equal(f->h.timer, INT64_MAX);
}

/*
 * The last packet of a channel asks, also with descriptors of others behind it.  The order of the
 * channels is the card's: one that was moved in between serves them in turn.
 */
TEST_OF(test_two_channels, Fix *f, fix_test)
{
    const uint16_t channels[] = { CH, CH, CH + 1, CH + 1, CH + 1 };
    const uint32_t most[] = { 2, 3 };
    uint32_t seen[] = { 0, 0 };

    open_channel(f, &usual);
    assert_int_equal(fake_channel_rel(&f->a, CH + 1, fake_peer_mac, PEER,
                                      CH + 1, &usual), UNETMM_CS_OK);
    fake_wire_clear(&f->h);
    for (uint32_t i = 0; i < G_N_ELEMENTS(channels); i++) {
        fake_send_inline(&f->a, channels[i], 1, 8, i, 0);
    }
    fake_ring_bell(&f->a);
    assert_int_equal(f->h.wire->len, G_N_ELEMENTS(channels));
    for (uint32_t i = 0; i < G_N_ELEMENTS(channels); i++) {
        const struct unetmm_frame *h = fake_header(fake_wire_at(&f->h, i));
        unsigned of = le16_to_cpu(h->dst_channel) - CH;

        assert_true(of < G_N_ELEMENTS(seen));
        seen[of]++;
        assert_int_equal(!!(le32_to_cpu(h->flags) & UNETMM_WIRE_F_ASK),
                         seen[of] == most[of]);
    }
    assert_memory_equal(seen, most, sizeof(seen));
}

TEST_OF(test_segmented, Fix *f, fix_test)
{
    struct unetmm_seg segs[3] = {
        { PAGE(0) + 4000, 1500 }, { PAGE(9), 0 }, { PAGE(5) + 10, 2100 },
    };
    uint32_t at = 0;

    open_channel(f, &usual);
    fake_fill(f->s1, segs[0].addr, 1500, 3);
    fake_fill(f->s1, segs[2].addr, 2100, 4);
    fake_send(&f->a, CH, segs, 3, 1, 0);
    fake_ring_bell(&f->a);
    fake_serve(&f->d);
    assert_int_equal(f->h.wire->len, 4);
    for (unsigned i = 0; i < 4; i++) {
        const FakeFrame *frame = fake_wire_at(&f->h, 0);
        uint32_t len = i < 3 ? MTU : 600;

        for (uint32_t j = 0; j < len; j++, at++) {
            assert_int_equal(frame->data[64 + j], at < 1500 ?
                             fake_pattern(3, at) : fake_pattern(4, at - 1500));
        }
        assert_int_equal(!!(expect_packet(f, MY + i, i * MTU, len, 3600) &
                            UNETMM_WIRE_F_ASK), i == 3);
    }
    ack(f, MY + 3, 0);
    fake_expect_none(&f->a);
    ack(f, MY + 4, 0);
    assert_int_equal(fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK,
                                 1).len, 3600);
}

TEST_OF(test_lengths, Fix *f, fix_test)
{
    struct unetmm_seg segs[16];

    open_channel(f, &usual);
    send_bytes(f, 0, 1);
    expect_packet(f, MY, 0, 0, 0);
    send_bytes(f, MTU, 2);
    expect_packet(f, MY + 1, 0, MTU, MTU);
    send_bytes(f, MTU + 1, 3);
    expect_packet(f, MY + 2, 0, MTU, MTU + 1);
    expect_packet(f, MY + 3, MTU, 1, MTU + 1);
    ack(f, MY + 4, 0);
    for (unsigned i = 1; i <= 3; i++) {
        fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, i);
    }
    for (unsigned i = 0; i < 16; i++) {
        segs[i] = (struct unetmm_seg) { .addr = PAGE(0), .len = 262144 };
    }
    segs[15].len++;
    fake_send(&f->a, CH, segs, 16, 4, 0);
    fake_ring_bell(&f->a);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_TOO_LONG, 4);
    expect_silence(f);
}

/* Sends of a channel complete in order; a quiet one says nothing. */
TEST_OF(test_order, Fix *f, fix_test)
{
    open_channel(f, &usual);
    send_small(f, 30, 1);
    fake_send_inline(&f->a, CH, 2, 30, 2, UNETMM_SQE_F_QUIET);
    send_small(f, 30, 3);
    /* A datagram does not wait for them. */
    fake_send_inline(&f->a, FIX_WIRE, 9, 30, 9, 0);
    fake_ring_bell(&f->a);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 9);
    ack(f, MY, 0x3);
    fake_expect_none(&f->a);
    ack(f, MY + 3, 0);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 3);
    fake_expect_none(&f->a);
    assert_int_equal(fake_ep_counter(&f->h, 1, UNETMM_C_sends_done), 4);
}

TEST_OF(test_window, Fix *f, fix_test)
{
    uint32_t asks = 0;

    open_channel(f, &usual);
    send_bytes(f, 100 * MTU, 1);
    assert_int_equal(f->h.wire->len, UNETMM_REL_WINDOW);
    for (uint32_t i = 0; i < UNETMM_REL_WINDOW; i++) {
        uint32_t flags = expect_packet(f, MY + i, i * MTU, MTU, 100 * MTU);

        asks += !!(flags & UNETMM_WIRE_F_ASK);
        assert_true(i < UNETMM_REL_WINDOW - 1 ||
                    (flags & UNETMM_WIRE_F_ASK));
    }
    assert_int_equal(asks, 4);
    ack(f, MY + 10, 0);
    fake_serve(&f->d);
    assert_int_equal(f->h.wire->len, 10);
    fake_wire_clear(&f->h);
    ack(f, MY + 74, 0);
    fake_serve(&f->d);
    assert_int_equal(f->h.wire->len, 26);
    ack(f, MY + 100, 0);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
}

/* 64 sends are out; the queue waits, and goes on when one is complete. */
TEST_OF(test_many_sends, Fix *f, fix_test)
{
    open_channel(f, &usual);
    for (unsigned i = 0; i < 70; i++) {
        if (i % 10 == 9) {
            fake_ring_bell(&f->a);
        }
        fake_send_inline(&f->a, CH, i, 30, i, 0);
    }
    fake_ring_bell(&f->a);
    assert_int_equal(fake_card(&f->a).sq_cons, 64);
    assert_int_equal(f->h.wire->len, 64);
    /* It waits for that, and not for a budget that it uses up. */
    assert_true(f->h.core.eps[1].sq_waits);
    assert_int_equal(f->h.later, 0);
    fake_wire_clear(&f->h);
    ack(f, MY + 2, 0);
    assert_int_equal(f->h.wire->len, 2);
    ack(f, MY + 66, 0);
    for (unsigned i = 0; i < 66; i++) {
        struct unetmm_cqe cqe;

        if (!fake_poll(&f->a, &cqe)) {
            /* The completion queue had been full. */
            assert_true(fake_card(&f->a).state & UNETMM_EP_CQ_BLOCKED);
            fake_ring_bell(&f->a);
            assert_true(fake_poll(&f->a, &cqe));
        }
        assert_int_equal(cqe.cookie, i);
        assert_int_equal(cqe.status, UNETMM_ST_OK);
    }
    fake_ring_bell(&f->a);
    assert_int_equal(fake_card(&f->a).sq_cons, f->a.sq_prod);
}

/* ---- Sending again ---- */

TEST_OF(test_selective, Fix *f, fix_test)
{
    open_channel(f, &usual);
    send_bytes(f, 10 * MTU, 1);
    fake_wire_clear(&f->h);
    /* 2 and 5 are missing; 7 is only two before the last. */
    ack(f, MY + 2, 0x1b);
    assert_int_equal(f->h.wire->len, 1);
    expect_packet(f, MY + 2, 2 * MTU, MTU, 10 * MTU);
    ack(f, MY + 2, 0x7b);
    expect_packet(f, MY + 5, 5 * MTU, MTU, 10 * MTU);
    expect_silence(f);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_resent), 2);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_timeouts), 0);
    ack(f, MY + 10, 0);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
}

/* Packets that overtake a little are not lost. */
TEST_OF(test_a_little_reordered, Fix *f, fix_test)
{
    open_channel(f, &usual);
    send_bytes(f, 10 * MTU, 1);
    fake_wire_clear(&f->h);
    ack(f, MY, 0x3);
    expect_silence(f);
    ack(f, MY, 0x7);
    expect_packet(f, MY, 0, MTU, 10 * MTU);
}

TEST_OF(test_timeout, Fix *f, fix_test)
{
    int64_t wait = 1000 * US;

    open_channel(f, &usual);
    send_bytes(f, 3 * MTU, 1);
    send_small(f, 20, 2);
    fake_wire_clear(&f->h);
    for (unsigned i = 0; i < 3; i++) {
        fake_advance(&f->h, wait - 1);
        expect_silence(f);
        fake_advance(&f->h, 1);
        assert_true(expect_packet(f, MY, 0, MTU, 3 * MTU) &
                    UNETMM_WIRE_F_ASK);
        expect_silence(f);
        wait *= 2;
    }
    fake_expect_none(&f->a);
    fake_advance(&f->h, wait);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_TIMEOUT, 1);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_FLUSHED, 2);
    expect_ack(f, YOURS, 0, UNETMM_ACK_FAILED, UNETMM_WHY_CHANNEL);
    expect_silence(f);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_failed), 1);
    assert_int_equal(f->h.timer, INT64_MAX);
    /* The channel is no more. */
    send_small(f, 20, 3);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_FLUSHED, 3);
    expect_count(&f->h, drop_rel_failed, 1, ack(f, MY + 1, 0));
    expect_count(&f->h, drop_rel_failed, 1, give_whole(f, YOURS, 8, 1));
    expect_ack(f, YOURS, 0, UNETMM_ACK_FAILED, UNETMM_WHY_CHANNEL);
    /* Until it is set again. */
    open_channel(f, &usual);
    send_small(f, 20, 4);
    expect_packet(f, MY, 0, 20, 20);
    ack(f, MY + 1, 0);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 4);
}

/* An answer in time, and patience begins anew; then the rest at once. */
TEST_OF(test_timeout_recovers, Fix *f, fix_test)
{
    open_channel(f, &usual);
    send_bytes(f, 4 * MTU, 1);
    fake_wire_clear(&f->h);
    for (unsigned i = 0; i < 3; i++) {
        fake_advance(&f->h, (1000 << i) * US);
    }
    fake_wire_clear(&f->h);
    ack(f, MY + 1, 0);
    for (unsigned i = 1; i < 4; i++) {
        expect_packet(f, MY + i, i * MTU, MTU, 4 * MTU);
    }
    fake_advance(&f->h, 1000 * US);
    expect_packet(f, MY + 1, MTU, MTU, 4 * MTU);
    fake_expect_none(&f->a);
    ack(f, MY + 4, 0);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
}

/* Without a link frames are lost, nothing else. */
TEST_OF(test_no_link, Fix *f, fix_test)
{
    open_channel(f, &usual);
    unetmm_core_set_link(&f->h.core, false);
    expect_count(&f->h, drop_link, 1, send_small(f, 20, 1));
    fake_expect_none(&f->a);
    unetmm_core_set_link(&f->h.core, true);
    fake_advance(&f->h, 1000 * US);
    expect_packet(f, MY, 0, 20, 20);
    ack(f, MY + 1, 0);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
}

/* The net layer pushes back: no retry is counted for an unsent packet. */
TEST_OF(test_wire_blocked, Fix *f, fix_test)
{
    open_channel(f, &usual);
    f->h.answer = UNETMM_SENT_QUEUED;
    send_bytes(f, 2 * MTU, 1);
    assert_int_equal(f->h.wire->len, 1);
    for (unsigned i = 0; i < 20; i++) {
        fake_advance(&f->h, 1000000 * (int64_t)US);
    }
    fake_expect_none(&f->a);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_timeouts), 1);
    f->h.answer = UNETMM_SENT_DONE;
    unetmm_core_sent(&f->h.core, true);
    expect_packet(f, MY, 0, MTU, 2 * MTU);
    expect_packet(f, MY + 1, MTU, MTU, 2 * MTU);
    expect_packet(f, MY, 0, MTU, 2 * MTU);
    ack(f, MY + 2, 0);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
}

/* ---- Acknowledgements that lie ---- */

static void expect_no_belief(Fix *f, uint32_t psn, uint64_t bits,
                             uint32_t what)
{
    expect_count(&f->h, drop_rel_ack, 1, give_ack(f, psn, bits, what, 0));
    fake_expect_none(&f->a);
    expect_silence(f);
}

TEST_OF(test_forged_acks, Fix *f, fix_test)
{
    open_channel(f, &usual);
    send_bytes(f, 5 * MTU, 1);
    fake_wire_clear(&f->h);
    ack(f, MY + 2, 0);
    /* 2, 3 and 4 are on their way. */
    expect_no_belief(f, MY + 6, 0, UNETMM_ACK_OK);
    expect_no_belief(f, MY + 66, 0, UNETMM_ACK_OK);
    expect_no_belief(f, MY + 2 + 0x80000000u, 0, UNETMM_ACK_OK);
    expect_no_belief(f, MY + 2 - 65, 0, UNETMM_ACK_OK);
    expect_no_belief(f, MY + 2, 0x4, UNETMM_ACK_OK);
    expect_no_belief(f, MY + 2, ~0ull, UNETMM_ACK_OK);
    expect_no_belief(f, MY + 4, 0x1, UNETMM_ACK_OK);
    expect_no_belief(f, MY + 5, 0x1, UNETMM_ACK_OK);
    expect_no_belief(f, MY + 5, 0, 3);
    expect_no_belief(f, MY + 5, 0, ~0u);
    expect_no_belief(f, MY + 6, 0, UNETMM_ACK_FAILED);
    expect_no_belief(f, MY + 6, 0, UNETMM_ACK_NOT_READY);
    /* Overtaken ones are no lie. */
    expect_count(&f->h, drop_rel_ack, 0, ack(f, MY + 1, ~0ull));
    expect_count(&f->h, drop_rel_ack, 0, ack(f, MY + 2 - 64, 0));
    expect_count(&f->h, rel_acks, 0,
                 give_ack(f, MY, 0, UNETMM_ACK_FAILED, 0));
    fake_expect_none(&f->a);
    ack(f, MY + 5, 0);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    expect_no_belief(f, MY + 6, 0, UNETMM_ACK_OK);
}

/* It says that it kept the packet that it expects: then it gets it again. */
TEST_OF(test_kept_and_expected, Fix *f, fix_test)
{
    open_channel(f, &usual);
    send_bytes(f, 3 * MTU, 1);
    fake_wire_clear(&f->h);
    ack(f, MY, 0x1);
    ack(f, MY + 1, 0);
    expect_silence(f);
    fake_advance(&f->h, 1000 * US);
    expect_packet(f, MY + 1, MTU, MTU, 3 * MTU);
    ack(f, MY + 3, 0);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
}

TEST_OF(test_ack_members, Fix *f, fix_test)
{
    FakeFrame *frame;

    open_channel(f, &usual);
    send_small(f, 20, 1);
    for (unsigned i = 0; i < 5; i++) {
        struct unetmm_frame *h;

        frame = fake_datagram(&f->a, CH, PEER, i == 0, 0);
        h = fake_header(frame);
        h->opcode = UNETMM_WIRE_ACK;
        h->psn = cpu_to_le32(MY + 1);
        h->handle = i == 1;
        h->flags = cpu_to_le32(i == 2 ? UNETMM_WIRE_F_LAST : i == 3 ?
                               UNETMM_WIRE_F_COUNT : 0);
        h->src_channel = cpu_to_le16(i == 4 ? CH + 1 : CH);
        fake_seal(frame);
        if (i < 4) {
            expect_count(&f->h, drop_malformed, 1, fake_deliver(&f->h, frame));
        } else {
            expect_count(&f->h, drop_channel, 1, fake_deliver(&f->h, frame));
        }
    }
    fake_expect_none(&f->a);
}

/* ---- Receiving ---- */

TEST_OF(test_receive, Fix *f, fix_test)
{
    open_channel(f, &usual);
    give_whole(f, YOURS, 33, 1);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 0);
    expect_ack(f, YOURS + 1, 0, UNETMM_ACK_OK, 0);
    post(f, 0, 8192, 50);
    give(f, YOURS + 1, 0, MTU, 2500, 2, 0);
    expect_silence(f);
    /* It is the message's, and out of the queue. */
    assert_int_equal(fake_card(&f->a).fq_cons, 1);
    give(f, YOURS + 2, MTU, MTU, 2500, 2, 0);
    fake_expect_none(&f->a);
    give(f, YOURS + 3, 2 * MTU, 500, 2500, 2, UNETMM_WIRE_F_ASK);
    expect_ack(f, YOURS + 4, 0, UNETMM_ACK_OK, 0);
    assert_int_equal(fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK,
                                 50).len, 2500);
    fake_check(f->s1, PAGE(0), 2500, 2);
    assert_int_equal(fake_ep_counter(&f->h, 1, UNETMM_C_rx_bytes), 2533);
}

TEST_OF(test_early, Fix *f, fix_test)
{
    open_channel(f, &usual);
    post(f, 0, 8192, 50);
    give(f, YOURS + 3, 0, 20, 20, 9, 0);
    expect_ack(f, YOURS, 0x4, UNETMM_ACK_OK, 0);
    give(f, YOURS + 1, MTU, MTU, 2500, 2, 0);
    expect_ack(f, YOURS, 0x5, UNETMM_ACK_OK, 0);
    expect_count(&f->h, drop_rel_again, 1,
                 give(f, YOURS + 1, MTU, MTU, 2500, 2, 0));
    expect_ack(f, YOURS, 0x5, UNETMM_ACK_OK, 0);
    fake_expect_none(&f->a);
    give(f, YOURS, 0, MTU, 2500, 2, 0);
    expect_ack(f, YOURS + 2, 0x1, UNETMM_ACK_OK, 0);
    give(f, YOURS + 2, 2 * MTU, 500, 2500, 2, 0);
    expect_ack(f, YOURS + 4, 0, UNETMM_ACK_OK, 0);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 50);
    fake_check(f->s1, PAGE(0), 2500, 2);
    assert_int_equal(fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK,
                                 0).len, 20);
    assert_int_equal(f->h.core.rel->kept, 0);
    expect_count(&f->h, drop_rel_again, 1, give_whole(f, YOURS + 3, 20, 9));
    expect_ack(f, YOURS + 4, 0, UNETMM_ACK_OK, 0);
}

TEST_OF(test_receive_window, Fix *f, fix_test)
{
    open_channel(f, &usual);
    expect_count(&f->h, drop_rel_window, 4, {
        give_whole(f, YOURS + 64, 20, 1);
        give_whole(f, YOURS - 65, 20, 1);
        give_whole(f, YOURS + 0x7fffffffu, 20, 1);
        give_whole(f, YOURS + 0x80000000u, 20, 1);
    });
    expect_silence(f);
    give_whole(f, YOURS + 63, 20, 1);
    expect_ack(f, YOURS, 1ull << 62, UNETMM_ACK_OK, 0);
    expect_count(&f->h, drop_rel_again, 1, give_whole(f, YOURS - 64, 20, 1));
    expect_ack(f, YOURS, 1ull << 62, UNETMM_ACK_OK, 0);
}

/* A channel may have half of these, rounded up. */
static void keep_two(UnetmmParams *p)
{
    p->reliable_keep = 3;
}

static void keep_eight(UnetmmParams *p)
{
    p->reliable_keep = 8;
}

/* Early packets until the channel keeps no more; so many are kept. */
static unsigned keep_all(Fix *f, FakeEp *ep)
{
    uint32_t before = f->h.core.rel->kept;

    for (uint32_t i = 1; i < UNETMM_REL_WINDOW; i++) {
        fake_deliver(&f->h, packet_to(ep, YOURS + i, 0, 20, 20, i, 0));
    }
    fake_wire_clear(&f->h);
    return f->h.core.rel->kept - before;
}

/* A peer that never sends the packet at its turn leaves others their share. */
TEST_OF(test_shares_of_kept, Fix *f, fix_test_with, keep_eight)
{
    open_channel(f, &usual);
    assert_int_equal(fake_channel_rel(&f->b, CH, fake_peer_mac, PEER, CH,
                                      &usual), UNETMM_CS_OK);
    assert_int_equal(keep_all(f, &f->a), 4);
    assert_int_equal(keep_all(f, &f->b), 2);
    /* With the packet at its turn the channel gives its places back. */
    give_whole(f, YOURS, 20, 0);
    assert_int_equal(f->h.core.rel->kept, 2);
    fake_channel(&f->b, CH, fake_peer_mac, PEER, CH, MTU);
    assert_int_equal(f->h.core.rel->kept, 0);
}

TEST_OF(test_no_room_to_keep, Fix *f, fix_test_with, keep_two)
{
    open_channel(f, &usual);
    give_whole(f, YOURS + 1, 20, 1);
    give_whole(f, YOURS + 5, 20, 5);
    fake_wire_clear(&f->h);
    expect_count(&f->h, drop_rel_room, 1, give_whole(f, YOURS + 2, 20, 2));
    expect_ack(f, YOURS, 0x11, UNETMM_ACK_OK, 0);
    give_whole(f, YOURS, 20, 0);
    expect_ack(f, YOURS + 2, 0x4, UNETMM_ACK_OK, 0);
    fake_channel(&f->a, CH, fake_peer_mac, PEER, CH, MTU);
    assert_int_equal(f->h.core.rel->kept, 0);
}

#define WRONG(...) do { \
        expect_count(&f->h, drop_rel_bad, 1, give(f, __VA_ARGS__)); \
        fake_expect_none(&f->a); \
    } while (0)

TEST_OF(test_wrong_packets, Fix *f, fix_test)
{
    FakeFrame *frame;

    open_channel(f, &usual);
    post(f, 0, 8192, 50);
    WRONG(YOURS, 1, 20, 21, 1, 0);
    WRONG(YOURS, 0, 500, 1500, 1, 0);
    WRONG(YOURS, 0, 0, 1500, 1, 0);
    WRONG(YOURS, 0, 600, 500, 1, 0);
    give(f, YOURS, 0, MTU, 2500, 1, 0);
    WRONG(YOURS + 1, 0, MTU, 2500, 1, 0);
    WRONG(YOURS + 1, MTU, MTU, 2501, 1, 0);
    WRONG(YOURS + 1, 2 * MTU, 500, 2500, 1, 0);
    WRONG(YOURS + 1, 0, 20, 20, 1, 0);
    frame = packet(f, YOURS + 1, MTU, MTU, 2500, 1, UNETMM_WIRE_F_LAST);
    expect_count(&f->h, drop_rel_bad, 1, fake_deliver(&f->h, frame));
    frame = packet(f, YOURS + 1, MTU, MTU, 2500, 1, 0);
    fake_header(frame)->remote = cpu_to_le64(1ull << 32 | 2500);
    fake_seal(frame);
    expect_count(&f->h, drop_rel_bad, 1, fake_deliver(&f->h, frame));
    frame = packet(f, YOURS + 1, MTU, MTU, 2500, 1, 0);
    fake_header(frame)->src_channel = cpu_to_le16(CH + 1);
    fake_seal(frame);
    expect_count(&f->h, drop_channel, 1, fake_deliver(&f->h, frame));
    give(f, YOURS + 1, MTU, MTU, 2500, 1, 0);
    give(f, YOURS + 2, 2 * MTU, 500, 2500, 1, 0);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 50);
    fake_check(f->s1, PAGE(0), 2500, 1);
}

/* Kept, then found to be wrong at its turn: asked for again. */
TEST_OF(test_wrong_and_kept, Fix *f, fix_test)
{
    open_channel(f, &usual);
    give(f, YOURS + 1, 5, 20, 25, 1, 0);
    fake_wire_clear(&f->h);
    expect_count(&f->h, drop_rel_bad, 1, give_whole(f, YOURS, 20, 0));
    expect_ack(f, YOURS + 1, 0, UNETMM_ACK_OK, 0);
    assert_int_equal(f->h.core.rel->kept, 0);
    give_whole(f, YOURS + 1, 20, 1);
    expect_ack(f, YOURS + 2, 0, UNETMM_ACK_OK, 0);
}

/* ---- Not ready: the receiver ---- */

TEST_OF(test_no_buffer, Fix *f, fix_test)
{
    open_channel(f, &usual);
    expect_count(&f->h, drop_rel_refused, 1, give_whole(f, YOURS, 500, 1));
    expect_ack(f, YOURS, 0, UNETMM_ACK_NOT_READY, 100);
    /* Those behind it are not kept, and not answered. */
    expect_count(&f->h, drop_rel_refused, 1,
                 give_whole(f, YOURS + 1, 500, 2));
    expect_silence(f);
    /* A buffer is posted: the peer need not wait any longer. */
    post(f, 0, 4096, 50);
    expect_ack(f, YOURS, 0, UNETMM_ACK_OK, 0);
    fix_settle(f);
    expect_silence(f);
    give_whole(f, YOURS, 500, 1);
    expect_ack(f, YOURS + 1, 0, UNETMM_ACK_OK, 0);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 50);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_drop_no_buffer), 0);
}

/* A kept packet that is refused at its turn stays, and is taken later. */
TEST_OF(test_kept_and_refused, Fix *f, fix_test)
{
    open_channel(f, &usual);
    give_whole(f, YOURS + 1, 500, 2);
    fake_wire_clear(&f->h);
    give_whole(f, YOURS, 20, 1);
    expect_ack(f, YOURS + 1, 0, UNETMM_ACK_NOT_READY, 100);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 0);
    assert_int_equal(f->h.core.rel->kept, 1);
    give_whole(f, YOURS + 1, 500, 2);
    expect_ack(f, YOURS + 1, 0, UNETMM_ACK_NOT_READY, 100);
    post(f, 0, 4096, 50);
    fake_wire_clear(&f->h);
    give_whole(f, YOURS + 1, 500, 2);
    expect_ack(f, YOURS + 2, 0, UNETMM_ACK_OK, 0);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 50);
    fake_check(f->s1, PAGE(0), 500, 2);
    assert_int_equal(f->h.core.rel->kept, 0);
}

/* The completion queue is full: nothing is lost. */
TEST_OF(test_cq_full, Fix *f, fix_test)
{
    open_channel(f, &usual);
    for (unsigned i = 0; i < 16; i++) {
        give_whole(f, YOURS + i, 20, i);
    }
    fake_wire_clear(&f->h);
    give_whole(f, YOURS + 16, 20, 16);
    expect_ack(f, YOURS + 16, 0, UNETMM_ACK_NOT_READY, 100);
    for (unsigned i = 0; i < 16; i++) {
        fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 0);
    }
    fake_ring_bell(&f->a);
    expect_ack(f, YOURS + 16, 0, UNETMM_ACK_OK, 0);
    give_whole(f, YOURS + 16, 20, 16);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 0);
}

/* Absent: `drop` makes the peer wait, `skip` takes the next buffer. */
TEST_OF(test_absent_buffer, Fix *f, fix_test)
{
    open_channel(f, &usual);
    fake_vpage(f->s1, PAGE(0))->absent = true;
    fake_post(&f->a, PAGE(0), 4096, 50);
    fake_post(&f->a, PAGE(4), 4096, 51);
    fix_settle(f);
    f->h.core.eps[1].policy = unetmm_policy_by_id(&f->h.core,
                                                  UNETMM_POLICY_DROP);
    give_whole(f, YOURS, 500, 1);
    expect_ack(f, YOURS, 0, UNETMM_ACK_NOT_READY, 100);
    f->h.core.eps[1].policy = unetmm_policy_by_id(&f->h.core,
                                                  UNETMM_POLICY_SKIP);
    give_whole(f, YOURS, 500, 1);
    expect_ack(f, YOURS + 1, 0, UNETMM_ACK_OK, 0);
    fake_expect(&f->a, UNETMM_CQE_BUFFER, UNETMM_ST_SKIPPED, 50);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 51);
}

TEST_OF(test_short_buffer, Fix *f, fix_test)
{
    open_channel(f, &usual);
    post(f, 0, 499, 50);
    send_small(f, 20, 1);
    fake_wire_clear(&f->h);
    give_whole(f, YOURS, 500, 1);
    expect_ack(f, YOURS, 0, UNETMM_ACK_FAILED, UNETMM_WHY_BUFFER);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_FLUSHED, 1);
    fake_expect_none(&f->a);
    assert_int_equal(fake_card(&f->a).fq_cons, 0);
}

/* A page of a buffer in use goes: asked for, without the mark of a head. */
TEST_OF(test_page_gone, Fix *f, fix_test)
{
    struct unetmm_fault miss;

    open_channel(f, &usual);
    post(f, 0, 8192, 50);
    give(f, YOURS, 0, MTU, 5500, 2, 0);
    assert_false(fake_invalidate(f->s1, PAGE(0), FAKE_PAGE));
    give(f, YOURS + 1, MTU, MTU, 5500, 2, 0);
    expect_ack(f, YOURS + 1, 0, UNETMM_ACK_NOT_READY, 100);
    assert_true(fake_fault(&f->d, &miss));
    assert_int_equal(miss.flags, UNETMM_FAULT_F_WRITE);
    assert_int_equal(miss.vaddr, PAGE(0));
    assert_int_equal(miss.npages, 1);
    /* It is asked for once. */
    give(f, YOURS + 1, MTU, MTU, 5500, 2, 0);
    expect_ack(f, YOURS + 1, 0, UNETMM_ACK_NOT_READY, 100);
    assert_int_equal(fake_reply(&f->d, &miss, UNETMM_REPLY_DEFERRED, 0),
                     UNETMM_CS_OK);
    expect_silence(f);
    assert_int_equal(fake_resolve(&f->d, &miss, 1, NULL), UNETMM_CS_OK);
    expect_ack(f, YOURS + 1, 0, UNETMM_ACK_OK, 0);
    for (unsigned i = 1; i < 6; i++) {
        give(f, YOURS + i, i * MTU, i < 5 ? MTU : 500, 5500, 2, 0);
    }
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 50);
    fake_check(f->s1, PAGE(0), 5500, 2);
}

TEST_OF(test_page_lost_for_good, Fix *f, fix_test)
{
    struct unetmm_fault miss;

    open_channel(f, &usual);
    post(f, 0, 4096, 50);
    give(f, YOURS, 0, MTU, 2500, 2, 0);
    fake_invalidate(f->s1, PAGE(0), FAKE_PAGE);
    give(f, YOURS + 1, MTU, MTU, 2500, 2, 0);
    fake_wire_clear(&f->h);
    assert_true(fake_fault(&f->d, &miss));
    assert_int_equal(fake_reply(&f->d, &miss, UNETMM_REPLY_ERROR,
                                UNETMM_ST_LIMIT), UNETMM_CS_OK);
    expect_ack(f, YOURS + 1, 0, UNETMM_ACK_FAILED, UNETMM_WHY_MEMORY);
    fake_expect(&f->a, UNETMM_CQE_BUFFER, UNETMM_ST_LIMIT, 50);
    fake_expect_none(&f->a);
}

/* It has come in another way, and is another message's business when the error comes. */
TEST_OF(test_page_lost_too_late, Fix *f, fix_test)
{
    struct unetmm_fault miss;

    open_channel(f, &usual);
    post(f, 0, 4096, 50);
    post(f, 2, 4096, 51);
    give(f, YOURS, 0, MTU, 2500, 2, 0);
    fake_invalidate(f->s1, PAGE(0), FAKE_PAGE);
    give(f, YOURS + 1, MTU, MTU, 2500, 2, 0);
    assert_true(fake_fault(&f->d, &miss));
    assert_int_equal(fake_reply(&f->d, &miss, UNETMM_REPLY_DEFERRED, 0),
                     UNETMM_CS_OK);
    assert_int_equal(fake_insert(f->s1, PAGE(0), 1, NULL), UNETMM_CS_OK);
    give(f, YOURS + 1, MTU, MTU, 2500, 2, 0);
    give(f, YOURS + 2, 2 * MTU, 500, 2500, 2, 0);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 50);
    fake_check(f->s1, PAGE(0), 2500, 2);
    /* The next message has begun in the other buffer. */
    give(f, YOURS + 3, 0, MTU, 2500, 3, 0);
    assert_int_equal(fake_reply(&f->d, &miss, UNETMM_REPLY_ERROR,
                                UNETMM_ST_PROTECTION), UNETMM_CS_OK);
    fake_expect_none(&f->a);
    give(f, YOURS + 4, MTU, MTU, 2500, 3, 0);
    give(f, YOURS + 5, 2 * MTU, 500, 2500, 3, 0);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 51);
    fake_check(f->s1, PAGE(2), 2500, 3);
}

TEST_OF(test_bus_refuses_buffer, Fix *f, fix_test)
{
    open_channel(f, &usual);
    post(f, 0, 4096, 50);
    give(f, YOURS, 0, MTU, 2500, 2, 0);
    f->h.refuse_first = fake_vpage(f->s1, PAGE(0))->dma;
    f->h.refuse_last = f->h.refuse_first + 4095;
    expect_count(&f->h, drop_dma, 1, give(f, YOURS + 1, MTU, MTU, 2500, 2,
                                          0));
    expect_ack(f, YOURS + 1, 0, UNETMM_ACK_FAILED, UNETMM_WHY_MEMORY);
    fake_expect(&f->a, UNETMM_CQE_BUFFER, UNETMM_ST_DMA, 50);
}

/* A message that never ends is in nobody's way. */
TEST_OF(test_unfinished, Fix *f, fix_test)
{
    open_channel(f, &usual);
    fake_post(&f->a, PAGE(0), 4096, 50);
    fake_post(&f->a, PAGE(1), 4096, 51);
    fix_settle(f);
    give(f, YOURS, 0, MTU, 2500, 2, 0);
    fake_deliver(&f->h, fake_datagram(&f->a, FIX_WIRE, 11, 300, 7));
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 51);
    fake_check(f->s1, PAGE(1), 300, 7);
}

/* ---- Not ready: the sender ---- */

TEST_OF(test_refused, Fix *f, fix_test)
{
    int64_t wait = 100 * US;

    open_channel(f, &usual);
    send_bytes(f, 3 * MTU, 1);
    fake_wire_clear(&f->h);
    for (unsigned i = 0; i < 4; i++) {
        give_ack(f, MY, 0, UNETMM_ACK_NOT_READY, 100);
        /* Said twice, waited for once. */
        give_ack(f, MY, 0, UNETMM_ACK_NOT_READY, 100);
        fake_advance(&f->h, wait - 1);
        expect_silence(f);
        fake_advance(&f->h, 1);
        expect_packet(f, MY, 0, MTU, 3 * MTU);
        expect_silence(f);
        wait *= 2;
    }
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_timeouts), 0);
    give_ack(f, MY, 0, UNETMM_ACK_NOT_READY, 100);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_NOT_READY, 1);
    expect_ack(f, YOURS, 0, UNETMM_ACK_FAILED, UNETMM_WHY_CHANNEL);
}

TEST_OF(test_refused_then_ready, Fix *f, fix_test)
{
    open_channel(f, &usual);
    send_bytes(f, 3 * MTU, 1);
    fake_wire_clear(&f->h);
    give_ack(f, MY + 1, 0, UNETMM_ACK_NOT_READY, 100);
    expect_silence(f);
    ack(f, MY + 1, 0);
    expect_packet(f, MY + 1, MTU, MTU, 3 * MTU);
    expect_silence(f);
    ack(f, MY + 2, 0);
    expect_packet(f, MY + 2, 2 * MTU, MTU, 3 * MTU);
    ack(f, MY + 3, 0);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
}

/* Long waits and hostile ones are bounded. */
TEST_OF(test_refused_for_long, Fix *f, fix_test)
{
    open_channel(f, &usual);
    send_small(f, 20, 1);
    fake_wire_clear(&f->h);
    give_ack(f, MY, 0, UNETMM_ACK_NOT_READY, ~0u);
    fake_advance(&f->h, 1000000 * (int64_t)US);
    expect_packet(f, MY, 0, 20, 20);
    ack(f, MY + 1, 0);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
}

TEST_OF(test_peer_fails, Fix *f, fix_test)
{
    for (unsigned why = 0; why < 4; why++) {
        open_channel(f, &usual);
        post(f, 0, 4096, 50);
        give(f, YOURS, 0, MTU, 2500, 2, 0);
        send_bytes(f, 3 * MTU, 1);
        send_small(f, 20, 2);
        fake_wire_clear(&f->h);
        give_ack(f, MY + 1, 0, UNETMM_ACK_FAILED, why);
        fake_expect(&f->a, UNETMM_CQE_SENT, why == UNETMM_WHY_BUFFER ?
                    UNETMM_ST_PEER_BUFFER : UNETMM_ST_PEER_FAILED, 1);
        fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_FLUSHED, 2);
        fake_expect(&f->a, UNETMM_CQE_BUFFER, UNETMM_ST_FLUSHED, 50);
        /* No answer to that: two channels would tell each other for ever. */
        expect_silence(f);
        fake_advance(&f->h, 10000000 * (int64_t)US);
        expect_silence(f);
    }
}

/* ---- Memory of sends ---- */

/* Sent again, the page is asked for again. */
TEST_OF(test_source_goes_between, Fix *f, fix_test)
{
    struct unetmm_fault miss;

    open_channel(f, &usual);
    send_bytes(f, 2 * MTU, 1);
    fake_wire_clear(&f->h);
    assert_false(fake_invalidate(f->s1, PAGE(0), FAKE_PAGE));
    fake_advance(&f->h, 1000 * US);
    expect_silence(f);
    assert_true(fake_fault(&f->d, &miss));
    assert_int_equal(miss.flags, 0);
    /* It takes long to come; that is no reason to give up. */
    fake_reply(&f->d, &miss, UNETMM_REPLY_DEFERRED, 0);
    fake_advance(&f->h, 100000000 * (int64_t)US);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_timeouts), 1);
    assert_int_equal(fake_resolve(&f->d, &miss, 1, NULL), UNETMM_CS_OK);
    expect_packet(f, MY, 0, MTU, 2 * MTU);
    ack(f, MY + 2, 0);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
}

/* Acknowledged while it waits for its page: it is not needed any more. */
TEST_OF(test_needless_while_waiting, Fix *f, fix_test)
{
    struct unetmm_fault miss;

    open_channel(f, &usual);
    send_bytes(f, MTU, 1);
    fake_wire_clear(&f->h);
    fake_invalidate(f->s1, PAGE(0), FAKE_PAGE);
    fake_advance(&f->h, 1000 * US);
    assert_true(fake_fault(&f->d, &miss));
    ack(f, MY + 1, 0);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    assert_int_equal(fake_resolve(&f->d, &miss, 1, NULL), UNETMM_CS_STALE);
    expect_silence(f);
    send_small(f, 20, 2);
    expect_packet(f, MY + 1, 0, 20, 20);
}

TEST_OF(test_source_lost, Fix *f, fix_test)
{
    open_channel(f, &usual);
    send_small(f, 20, 1);
    /* Nothing of it has been sent: the others go on. */
    fake_send_at(&f->a, CH, PAGE(FIX_PAGES + 5), 100, 2);
    send_small(f, 20, 3);
    fake_serve(&f->d);
    expect_packet(f, MY, 0, 20, 20);
    expect_packet(f, MY + 1, 0, 20, 20);
    ack(f, MY + 2, 0);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_PROTECTION, 2);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 3);
    /* In the middle of a message: the peer waits for the rest of it. */
    fake_send_at(&f->a, CH, PAGE(FIX_PAGES - 1), 5000, 4);
    send_small(f, 20, 5);
    fake_serve(&f->d);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_PROTECTION, 4);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_FLUSHED, 5);
    for (unsigned i = 0; i < 4; i++) {
        expect_packet(f, MY + 2 + i, i * MTU, MTU, 5000);
    }
    expect_ack(f, YOURS, 0, UNETMM_ACK_FAILED, UNETMM_WHY_CHANNEL);
}

/* ---- Pages that take time ---- */

#define PAGE_NS 5000

static void slow(UnetmmParams *p)
{
    p->dma_page_ns = PAGE_NS;
}

/* The memory is the card's until its last page has landed. */
TEST_OF(test_acked_while_moving, Fix *f, fix_test_with, slow)
{
    open_channel(f, &usual);
    send_bytes(f, MTU, 1);
    fake_advance(&f->h, PAGE_NS);
    expect_packet(f, MY, 0, MTU, MTU);
    fake_advance(&f->h, 1000 * US);
    assert_true(f->h.core.eps[1].tx.moving);
    ack(f, MY + 1, 0);
    fake_expect_none(&f->a);
    assert_true(fake_invalidate(f->s1, PAGE(0), FAKE_PAGE));
    fake_advance(&f->h, PAGE_NS);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    assert_false(fake_reg(&f->h, UNETMM_REG_INV_CTRL));
    expect_silence(f);
}

/*
 * The packet that was being gathered when a refusal came goes out; nothing else
 * does, but the packet that was refused.
 */
TEST_OF(test_refused_while_gathering, Fix *f, fix_test_with, slow)
{
    open_channel(f, &usual);
    send_bytes(f, MTU, 1);
    fake_advance(&f->h, PAGE_NS);
    expect_packet(f, MY, 0, MTU, MTU);
    send_bytes(f, 2 * MTU, 2);
    fake_advance(&f->h, PAGE_NS / 2);
    give_ack(f, MY, 0, UNETMM_ACK_NOT_READY, 100);
    expect_silence(f);
    fake_advance(&f->h, PAGE_NS / 2);
    expect_packet(f, MY + 1, 0, MTU, 2 * MTU);
    fake_advance(&f->h, 100 * US - PAGE_NS / 2 - 1);
    expect_silence(f);
    fake_advance(&f->h, 1 + PAGE_NS);
    expect_packet(f, MY, 0, MTU, MTU);
    fake_advance(&f->h, 2 * PAGE_NS);
    expect_silence(f);
    ack(f, MY + 1, 0);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    fake_advance(&f->h, 2 * PAGE_NS);
    /* Probably lost with the one before it. */
    expect_packet(f, MY + 1, 0, MTU, 2 * MTU);
    expect_packet(f, MY + 2, MTU, MTU, 2 * MTU);
}

/* An acknowledgement of something else does not delay packets on their way. */
TEST_OF(test_acked_beside, Fix *f, fix_test_with, slow)
{
    struct unetmm_cmd_channel other = usual;
    FakeFrame *frame;

    /* Of the packet before it, of the same channel. */
    open_channel(f, &usual);
    send_bytes(f, MTU, 1);
    fake_advance(&f->h, PAGE_NS);
    expect_packet(f, MY, 0, MTU, MTU);
    send_bytes(f, MTU, 2);
    fake_advance(&f->h, PAGE_NS / 2);
    expect_silence(f);
    ack(f, MY + 1, 0);
    assert_false(f->h.core.eps[1].tx.needless);
    fake_advance(&f->h, PAGE_NS / 2);
    expect_packet(f, MY + 1, 0, MTU, MTU);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    ack(f, MY + 2, 0);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
    /* Of another channel. */
    other.send_psn = MY + 1000;
    assert_int_equal(fake_channel_rel(&f->a, CH + 1, fake_peer_mac, PEER,
                                      CH + 1, &other), UNETMM_CS_OK);
    send_small(f, 30, 3);
    expect_packet(f, MY + 2, 0, 30, 30);
    fake_send_at(&f->a, CH + 1, PAGE(0), MTU, 4);
    fake_ring_bell(&f->a);
    fake_advance(&f->h, PAGE_NS / 2);
    assert_true(f->h.core.eps[1].tx.moving);
    ack(f, MY + 3, 0);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 3);
    assert_false(f->h.core.eps[1].tx.needless);
    fake_advance(&f->h, PAGE_NS / 2);
    frame = fake_wire_at(&f->h, 0);
    assert_int_equal(fake_header(frame)->src_channel, cpu_to_le16(CH + 1));
    assert_int_equal(fake_header(frame)->psn, cpu_to_le32(MY + 1000));
}

/* An equal card refuses this one's saved state, for that reason. */
static void expect_no_load(Fix *f, const char *reason)
{
    GByteArray *saved = unetmm_core_save(&f->h.core);
    g_autofree char *why = NULL;
    FakeHost other;

    fake_host_init(&other, &f->h.core.params);
    assert_false(unetmm_core_load(&other.core, saved->data, saved->len, &why));
    if (!strstr(why, reason)) {
        fail_msg("\"%s\" is not in: %s", reason, why);
    }
    fake_host_free(&other);
    g_byte_array_unref(saved);
}

/* A restored packet on its way ends where addresses end, or before. */
TEST(test_saved_wraps, fix_test_with, slow)
{
    static const struct {
        uint64_t addr;
        const char *why;
    } lies[] = {
        { -(uint64_t)MTU, "of something else" },
        { -(uint64_t)MTU + 1, "a segment wraps round" },
        { UINT64_MAX, "a segment wraps round" },
    };
    Fix *f = *state;

    open_channel(f, &usual);
    send_bytes(f, MTU, 1);
    assert_true(f->h.core.eps[1].tx.moving);
    f->h.spoilt = true;
    for (unsigned i = 0; i < G_N_ELEMENTS(lies); i++) {
        f->h.core.eps[1].tx.desc.segs[0].addr = lies[i].addr;
        expect_no_load(f, lies[i].why);
    }
}

/* A send that has begun ends between two packets, and not before or behind. */
TEST_OF(test_saved_beyond, Fix *f, fix_test)
{
    static const uint32_t lies[] = { 0, 1, MTU + 1, 3 * MTU, 4 * MTU };
    UnetmmRelMsg *m;

    open_channel(f, &usual);
    fake_insert(f->s1, PAGE(0), 1, NULL);
    f->h.answer = UNETMM_SENT_QUEUED;
    send_bytes(f, 3 * MTU, 1);
    f->h.spoilt = true;
    m = unetmm_rel_msg(f->h.core.eps[1].rels,
                       f->h.core.eps[1].rels->msgs.first);
    assert_true(m->started);
    assert_int_equal(m->sent, MTU);
    for (unsigned i = 0; i < G_N_ELEMENTS(lies); i++) {
        m->sent = lies[i];
        expect_no_load(f, "a send");
    }
}

TEST_OF(test_lands_slowly, Fix *f, fix_test_with, slow)
{
    open_channel(f, &usual);
    fake_post(&f->a, PAGE(0) + 3500, 8192, 50);
    fix_settle(f);
    give(f, YOURS, 0, MTU, 1500, 2, 0);
    give(f, YOURS + 1, MTU, 500, 1500, 2, UNETMM_WIRE_F_ASK);
    expect_silence(f);
    fake_advance(&f->h, PAGE_NS);
    expect_silence(f);
    fake_advance(&f->h, PAGE_NS);
    expect_ack(f, YOURS + 1, 0, UNETMM_ACK_OK, 0);
    fake_expect_none(&f->a);
    fake_advance(&f->h, PAGE_NS);
    expect_ack(f, YOURS + 2, 0, UNETMM_ACK_OK, 0);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 50);
    fake_check(f->s1, PAGE(0) + 3500, 1500, 2);
}

/* Its second page is invalidated while the first one moves: once more. */
TEST_OF(test_invalidated_landing, Fix *f, fix_test_with, slow)
{
    open_channel(f, &usual);
    fake_post(&f->a, PAGE(0) + 3500, 8192, 50);
    fix_settle(f);
    give_whole(f, YOURS, MTU, 2);
    fake_invalidate(f->s1, PAGE(1), FAKE_PAGE);
    expect_count(&f->h, drop_invalidated, 1,
                 fake_advance(&f->h, PAGE_NS));
    expect_ack(f, YOURS, 0, UNETMM_ACK_NOT_READY, 100);
    give_whole(f, YOURS, MTU, 2);
    fake_wire_clear(&f->h);
    fake_serve(&f->d);
    give_whole(f, YOURS, MTU, 2);
    fake_advance(&f->h, 2 * PAGE_NS);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 50);
    fake_check(f->s1, PAGE(0) + 3500, MTU, 2);
}

/* ---- Ends ---- */

/* Sends out, a message arriving, a packet kept, a page asked for, all owed. */
static void busy_channel(Fix *f)
{
    open_channel(f, &usual);
    post(f, 8, 8192, 50);
    fake_insert(f->s1, PAGE(0), 2, NULL);
    give(f, YOURS, 0, MTU, 5000, 2, 0);
    fake_advance(&f->h, PAGE_NS);
    give(f, YOURS + 2, 2 * MTU, MTU, 5000, 2, 0);
    send_bytes(f, 6 * MTU, 1);
    send_small(f, 20, 2);
    fake_advance(&f->h, PAGE_NS);
    fake_wire_clear(&f->h);
    fake_invalidate(f->s1, PAGE(8), FAKE_PAGE);
    give(f, YOURS + 1, MTU, MTU, 5000, 2, 0);
    assert_int_equal(f->h.core.rel->kept, 1);
    assert_int_not_equal(
        f->h.core.eps[1].rels->misses[UNETMM_REL_FAULT_ARRIVE].state,
        UNETMM_MISS_NONE);
}

static void expect_no_trace(Fix *f)
{
    assert_int_equal(f->h.core.rel->used, 0);
    assert_int_equal(f->h.core.rel->kept, 0);
    assert_int_equal(f->h.core.rel->acks_owed, 0);
    fake_wire_clear(&f->h);
    fake_advance(&f->h, 100000000 * (int64_t)US);
    expect_silence(f);
}

static void clear(Fix *f)
{
    struct unetmm_cmd cmd = { .opcode = UNETMM_CMD_CHANNEL_CLEAR, .ep = 1,
                              .channel.channel = CH };

    assert_int_equal(fake_command(&f->d, cmd, NULL), UNETMM_CS_OK);
}

/* The buffer, and `n` sends in their order. */
static void expect_ended(Fix *f, unsigned n)
{
    unsigned sends = 0, buffers = 0;
    struct unetmm_cqe cqe;

    while (fake_poll(&f->a, &cqe)) {
        assert_int_equal(cqe.status, UNETMM_ST_BAD_CHANNEL);
        if (cqe.opcode == UNETMM_CQE_BUFFER) {
            assert_int_equal(cqe.cookie, 50);
            buffers++;
        } else {
            assert_int_equal(cqe.opcode, UNETMM_CQE_SENT);
            assert_int_equal(cqe.cookie, ++sends);
        }
    }
    assert_int_equal(sends, n);
    assert_int_equal(buffers, 1);
}

/* One that is closed waits for its page; it has nothing to say any more. */
TEST_OF(test_saved_closed, Fix *f, fix_test_with, slow)
{
    UnetmmRel *rel;

    open_channel(f, &usual);
    send_bytes(f, MTU, 1);
    clear(f);
    rel = f->h.core.eps[1].rels;
    assert_int_equal(rel->state, UNETMM_REL_CLOSED);
    f->h.spoilt = true;
    for (unsigned lie = 0; lie < 2; lie++) {
        GByteArray *saved = unetmm_core_save(&f->h.core);
        g_autofree char *why = NULL;
        FakeHost other;

        fake_host_init(&other, &f->h.core.params);
        assert_int_equal(unetmm_core_load(&other.core, saved->data, saved->len,
                                          &why), !lie);
        assert_true(!lie || strstr(why, "a channel that is closed owes"));
        fake_host_free(&other);
        g_byte_array_unref(saved);
        unetmm_rel_owe_ack(&f->h.core, rel);
    }
    unetmm_rel_no_ack(&f->h.core, rel);
}

ALSO(test_clear, fix_test_with, slow)
TEST_OF(test_clear, Fix *f, fix_test)
{
    busy_channel(f);
    clear(f);
    fake_wire_clear(&f->h);
    fake_advance(&f->h, 10 * PAGE_NS);
    fake_run_later(&f->h);
    expect_ended(f, 2);
    expect_no_trace(f);
    expect_count(&f->h, drop_channel, 1, give_whole(f, YOURS + 1, 20, 1));
}

/*
 * Set again: the send that was taken goes back; a page is still moving, so
 * that the second one was not taken, and goes over the new channel.
 */
TEST_OF(test_replace, Fix *f, fix_test_with, slow)
{
    busy_channel(f);
    assert_int_equal(fake_channel_rel(&f->a, CH, fake_peer_mac, PEER, CH,
                                      &usual), UNETMM_CS_OK);
    assert_int_equal(f->h.core.rel->used, 2);
    fake_wire_clear(&f->h);
    fake_advance(&f->h, 10 * PAGE_NS);
    expect_packet(f, MY, 0, 20, 20);
    expect_ended(f, 1);
    assert_int_equal(f->h.core.rel->used, 1);
    ack(f, MY + 1, 0);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
}

/* ---- Buffers of several parts ---- */

/* Parts of 700, 1 and 9300 bytes; the last on the pages 10 to 12. */
static void post_unserved(Fix *f, uint64_t cookie)
{
    const struct unetmm_fqe chain[] = {
        { .addr = PAGE(8) + 50, .len = 700, .flags = UNETMM_FQE_F_CHAIN,
          .cookie = cookie },
        { .addr = PAGE(9), .len = 1, .flags = UNETMM_FQE_F_CHAIN },
        { .addr = PAGE(10) + 9, .len = 9300 },
    };

    fake_post_fqes(&f->a, chain, 3);
    fake_ring_bell(&f->a);
}

static void post_chain(Fix *f, uint64_t cookie)
{
    post_unserved(f, cookie);
    fix_settle(f);
}

static void expect_chain(Fix *f, uint32_t pattern)
{
    static const struct {
        uint32_t page, in_page, len;
    } parts[] = { { 8, 50, 700 }, { 9, 0, 1 }, { 10, 9, 9300 } };
    uint32_t done = 0;

    for (unsigned i = 0; i < 3; i++) {
        g_autofree uint8_t *got = g_malloc(parts[i].len);

        fake_load(f->s1, PAGE(parts[i].page) + parts[i].in_page, got,
                  parts[i].len);
        for (uint32_t at = 0; at < parts[i].len; at++) {
            assert_int_equal(got[at], fake_pattern(pattern, done++));
        }
    }
}

/* Each packet goes where the message goes on, to another card meanwhile. */
TEST_OF(test_into_parts, Fix *f, fix_test)
{
    open_channel(f, &usual);
    post_chain(f, 50);
    for (unsigned i = 0; i * MTU < 10001; i++) {
        uint32_t len = MIN(MTU, 10001 - i * MTU);

        fake_expect_none(&f->a);
        give(f, YOURS + i, i * MTU, len, 10001, 2,
             i * MTU + len == 10001 ? UNETMM_WIRE_F_LAST : 0);
        fake_migrate(&f->h);
    }
    assert_int_equal(fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK,
                                 50).len, 10001);
    fake_expect_none(&f->a);
    expect_chain(f, 2);
    assert_int_equal(fake_card(&f->a).fq_cons, 3);
}

/* The peer is told early only when no part is asked for any more. */
TEST_OF(test_waits_for_all_parts, Fix *f, fix_test)
{
    struct unetmm_fault fault[3];

    open_channel(f, &usual);
    post_unserved(f, 50);
    for (unsigned i = 0; i < 3; i++) {
        assert_true(fake_fault(&f->d, &fault[i]));
    }
    assert_int_equal(fake_resolve(&f->d, &fault[0], 1, NULL), UNETMM_CS_OK);
    give(f, YOURS, 0, MTU, 10001, 2, UNETMM_WIRE_F_ASK);
    expect_ack(f, YOURS, 0, UNETMM_ACK_NOT_READY, 100);
    fake_run_later(&f->h);
    expect_silence(f);
    assert_int_equal(fake_resolve(&f->d, &fault[1], 1, NULL), UNETMM_CS_OK);
    fake_run_later(&f->h);
    expect_silence(f);
    assert_int_equal(fake_resolve(&f->d, &fault[2], 3, NULL), UNETMM_CS_OK);
    fake_run_later(&f->h);
    expect_ack(f, YOURS, 0, 0, 0);
    give(f, YOURS, 0, MTU, 10001, 2, UNETMM_WIRE_F_ASK);
    expect_ack(f, YOURS + 1, 0, 0, 0);
}

/* The channel ends in the middle: one completion for all parts. */
TEST_OF(test_parts_go_back_once, Fix *f, fix_test)
{
    open_channel(f, &usual);
    post_chain(f, 50);
    give(f, YOURS, 0, MTU, 10001, 2, 0);
    clear(f);
    fake_run_later(&f->h);
    fake_expect(&f->a, UNETMM_CQE_BUFFER, UNETMM_ST_BAD_CHANNEL, 50);
    fake_expect_none(&f->a);
    assert_int_equal(fake_ep_counter(&f->h, 1, UNETMM_C_bufs_failed), 1);
}

/* Longer than all parts together: the channel fails, the buffer stays. */
TEST_OF(test_longer_than_parts, Fix *f, fix_test)
{
    open_channel(f, &usual);
    post_chain(f, 50);
    give(f, YOURS, 0, MTU, 10002, 2, UNETMM_WIRE_F_ASK);
    expect_ack(f, YOURS, 0, UNETMM_ACK_FAILED, UNETMM_WHY_BUFFER);
    fake_expect_none(&f->a);
    assert_int_equal(fake_card(&f->a).fq_cons, 0);
}

/* A buffer that is to go back waits for a place in the completion queue. */
TEST_OF(test_buffer_behind_cq_full, Fix *f, fix_test)
{
    struct unetmm_cqe cqe;
    unsigned n = 0;

    open_channel(f, &usual);
    post(f, 8, 8192, 50);
    give(f, YOURS, 0, MTU, 5000, 2, 0);
    assert_true(f->h.core.eps[1].channels[CH].rel->in.claimed);
    for (unsigned i = 0; i < 16; i++) {
        fake_send_inline(&f->a, FIX_WIRE, i, 8, i, 0);
    }
    fake_ring_bell(&f->a);
    clear(f);
    fake_run_later(&f->h);
    assert_int_equal(f->h.core.rel->used, 1);
    while (fake_poll(&f->a, &cqe) && cqe.opcode == UNETMM_CQE_SENT) {
        n++;
        fake_ring_bell(&f->a);
    }
    assert_int_equal(n, 16);
    assert_int_equal(cqe.opcode, UNETMM_CQE_BUFFER);
    assert_int_equal(cqe.status, UNETMM_ST_BAD_CHANNEL);
    assert_int_equal(cqe.cookie, 50);
    fake_expect_none(&f->a);
    assert_int_equal(f->h.core.rel->used, 0);
}

/* No room for completions: they wait, and the channel's number does not. */
TEST_OF(test_clear_cq_full, Fix *f, fix_test)
{
    open_channel(f, &usual);
    for (unsigned i = 0; i < 30; i++) {
        fake_send_inline(&f->a, CH, i, 20, i, 0);
        fake_ring_bell(&f->a);
    }
    clear(f);
    for (unsigned i = 0; i < 30; i++) {
        if (i == 16) {
            fake_expect_none(&f->a);
            assert_int_equal(f->h.core.rel->used, 1);
            assert_true(fake_card(&f->a).state & UNETMM_EP_CQ_BLOCKED);
            fake_ring_bell(&f->a);
        }
        fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_BAD_CHANNEL, i);
    }
    expect_no_trace(f);
}

/* One behind it that is over does not wait for its room. */
TEST_OF(test_clear_behind_cq_full, Fix *f, fix_test)
{
    open_channel(f, &usual);
    for (unsigned i = 0; i < 30; i++) {
        fake_send_inline(&f->a, CH, i, 20, i, 0);
        fake_ring_bell(&f->a);
    }
    assert_int_equal(fake_channel_rel(&f->a, CH + 1, fake_peer_mac, PEER,
                                      CH + 1, &usual), UNETMM_CS_OK);
    clear(f);
    assert_int_equal(f->h.core.rel->used, 2);
    fake_command(&f->d, (struct unetmm_cmd) {
        .opcode = UNETMM_CMD_CHANNEL_CLEAR, .ep = 1,
        .channel.channel = CH + 1 }, NULL);
    assert_true(fake_run_later(&f->h) < 10);
    assert_int_equal(f->h.core.rel->used, 1);
}

ALSO(test_destroy, fix_test_with, slow)
TEST_OF(test_destroy, Fix *f, fix_test)
{
    struct unetmm_cmd cmd = { .opcode = UNETMM_CMD_EP_DESTROY, .ep = 1 };
    struct unetmm_cmd_done done;

    busy_channel(f);
    fake_issue(&f->d, cmd);
    fake_advance(&f->h, 10 * PAGE_NS);
    assert_true(fake_done(&f->d, &done));
    assert_int_equal(done.status, UNETMM_CS_OK);
    fake_expect_none(&f->a);
    expect_no_trace(f);
}

TEST_OF(test_stop, Fix *f, fix_test_with, slow)
{
    busy_channel(f);
    fake_user_word(&f->a, 0, 0x12345);
    fake_ring_bell(&f->a);
    fake_advance(&f->h, 10 * PAGE_NS);
    fake_expect(&f->a, UNETMM_CQE_FAILED, UNETMM_ST_BAD_INDEX, 0);
    fake_expect_none(&f->a);
    fake_wire_clear(&f->h);
    expect_count(&f->h, drop_stopped, 1, give_whole(f, YOURS + 1, 20, 1));
    fake_advance(&f->h, 100000000 * (int64_t)US);
    expect_silence(f);
    assert_int_equal(f->h.core.rel->kept, 0);
    clear(f);
    assert_int_equal(fake_ep_destroy(&f->a), UNETMM_CS_OK);
    expect_no_trace(f);
}

TEST_OF(test_reset, Fix *f, fix_test_with, slow)
{
    busy_channel(f);
    fake_set_reg(&f->h, UNETMM_REG_CTRL, UNETMM_CTRL_RESET);
    expect_no_trace(f);
    assert_int_equal(f->h.timer, INT64_MAX);
}

/* ---- Its end is told ---- */

static void clear_as(Fix *f, uint8_t flags)
{
    struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_CHANNEL_CLEAR, .ep = 1,
        .channel = { .channel = CH, .flags = flags },
    };

    assert_int_equal(fake_command(&f->d, cmd, NULL), UNETMM_CS_OK);
}

/* A channel that was cleared, and whose sends still complete, says nothing. */
TEST_OF(test_no_ack_of_a_cleared_channel, Fix *f, fix_test)
{
    open_channel(f, &usual);
    for (unsigned i = 0; i < 16; i++) {
        fake_send_inline(&f->a, FIX_WIRE, 1, 8, i, 0);
        fake_ring_bell(&f->a);
    }
    fake_wire_clear(&f->h);
    f->h.answer = UNETMM_SENT_QUEUED;
    send_small(f, 20, 99);
    assert_int_equal(f->h.wire->len, 1);
    give_whole(f, YOURS, 20, 1);
    assert_int_equal(f->h.core.rel->acks_owed, 1);
    clear_as(f, 0);
    assert_int_equal(f->h.core.rel->used, 1);
    assert_int_equal(f->h.core.rel->acks_owed, 0);
    f->h.answer = UNETMM_SENT_DONE;
    fake_wire_clear(&f->h);
    unetmm_core_sent(&f->h.core, true);
    expect_silence(f);
    for (unsigned i = 0; i < 16; i++) {
        fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, i);
    }
    fake_ring_bell(&f->a);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_BAD_CHANNEL, 99);
    assert_int_equal(f->h.core.rel->used, 0);
}

/* A CLEAR says how many completions wait for room: a send's, and its report. */
TEST_OF(test_clear_says_what_waits, Fix *f, fix_test)
{
    struct unetmm_cmd_channel telling = usual;

    telling.flags |= UNETMM_CHANNEL_F_TELL;
    open_channel(f, &telling);
    for (unsigned i = 0; i < 16; i++) {
        fake_send_inline(&f->a, FIX_WIRE, 1, 8, i, 0);
        fake_ring_bell(&f->a);
    }
    send_small(f, 20, 99);
    assert_int_equal(fake_channel_clear(&f->a, CH, UNETMM_CHANNEL_F_TELL), 2);
    assert_int_equal(fake_channel_clear(&f->a, CH, UNETMM_CHANNEL_F_TELL), 2);
    for (unsigned i = 0; i < 16; i++) {
        fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, i);
    }
    fake_ring_bell(&f->a);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_BAD_CHANNEL, 99);
    fake_expect(&f->a, UNETMM_CQE_CLOSED, UNETMM_ST_BAD_CHANNEL, 0);
    assert_int_equal(fake_channel_clear(&f->a, CH, UNETMM_CHANNEL_F_TELL), 0);
    fake_expect_none(&f->a);
}

static void expect_told(Fix *f, uint8_t status)
{
    struct unetmm_cqe cqe = fake_expect(&f->a, UNETMM_CQE_CLOSED, status, 0);

    assert_int_equal(cqe.channel, CH);
    assert_int_equal(cqe.len, 0);
    fake_expect_none(&f->a);
}

/* Once, if it was asked for, and not on the side that ended it. */
TEST_OF(test_told, Fix *f, fix_test)
{
    struct unetmm_cmd_channel how = usual;

    open_channel(f, &usual);
    clear_as(f, UNETMM_CHANNEL_F_TELL);
    fake_expect_none(&f->a);
    how.flags = UNETMM_CHANNEL_F_TELL;
    open_channel(f, &how);
    clear_as(f, 0);
    clear_as(f, UNETMM_CHANNEL_F_TELL);
    fake_expect_none(&f->a);
    open_channel(f, &how);
    give_whole(f, YOURS, 20, 1);
    clear_as(f, UNETMM_CHANNEL_F_TELL);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 0);
    expect_told(f, UNETMM_ST_BAD_CHANNEL);
    clear_as(f, UNETMM_CHANNEL_F_TELL);
    fake_expect_none(&f->a);
    /* Failed: a process that only receives would not know. */
    open_channel(f, &how);
    give_ack(f, MY, 0, UNETMM_ACK_FAILED, UNETMM_WHY_CHANNEL);
    expect_told(f, UNETMM_ST_PEER_FAILED);
    clear_as(f, UNETMM_CHANNEL_F_TELL);
    fake_expect_none(&f->a);
}

/* Of the first and the last channel that there may be. */
TEST_OF(test_told_of_all, Fix *f, fix_test)
{
    uint16_t numbers[] = { 0, f->h.core.params.channels - 1 };
    struct unetmm_cmd_channel how = usual;

    how.flags = UNETMM_CHANNEL_F_TELL;
    for (unsigned i = 0; i < G_N_ELEMENTS(numbers); i++) {
        struct unetmm_cmd cmd = {
            .opcode = UNETMM_CMD_CHANNEL_CLEAR, .ep = 1,
            .channel = { .channel = numbers[i],
                         .flags = UNETMM_CHANNEL_F_TELL },
        };

        assert_int_equal(fake_channel_rel(&f->a, numbers[i], fake_peer_mac,
                                          PEER, CH, &how), UNETMM_CS_OK);
        assert_int_equal(fake_command(&f->d, cmd, NULL), UNETMM_CS_OK);
        assert_int_equal(fake_expect(&f->a, UNETMM_CQE_CLOSED,
                                     UNETMM_ST_BAD_CHANNEL, 0).channel,
                         numbers[i]);
        fake_expect_none(&f->a);
    }
}

/* Not lost for want of room; and forgotten with its channel. */
TEST_OF(test_told_later, Fix *f, fix_test)
{
    struct unetmm_cmd_channel how = usual;
    struct unetmm_cqe cqe;

    how.flags = UNETMM_CHANNEL_F_TELL;
    for (unsigned round = 0; round < 2; round++) {
        open_channel(f, &how);
        for (unsigned i = 0; i < 16; i++) {
            give_whole(f, YOURS + i, 20, i);
        }
        clear_as(f, UNETMM_CHANNEL_F_TELL);
        fake_ring_bell(&f->a);
        if (round) {
            open_channel(f, &usual);
        }
        for (unsigned i = 0; i < 16; i++) {
            assert_true(fake_poll(&f->a, &cqe));
            assert_int_equal(cqe.opcode, UNETMM_CQE_RECEIVED);
            fake_ring_bell(&f->a);
        }
        if (round) {
            fake_expect_none(&f->a);
        } else {
            expect_told(f, UNETMM_ST_BAD_CHANNEL);
        }
    }
}

/* Beyond the budget: told when that is renewed, without a doorbell. */
TEST_OF(test_told_without_budget, Fix *f, fix_test)
{
    struct unetmm_cmd_channel how = usual;
    struct unetmm_cqe cqe;

    how.flags = UNETMM_CHANNEL_F_TELL;
    open_channel(f, &how);
    for (unsigned i = 0; i < 16; i++) {
        give_whole(f, YOURS + i, 20, i);
    }
    clear_as(f, UNETMM_CHANNEL_F_TELL);
    for (unsigned i = 0; i < 16; i++) {
        assert_true(fake_poll(&f->a, &cqe));
        assert_int_equal(cqe.opcode, UNETMM_CQE_RECEIVED);
    }
    /* An endpoint that rings all the time has all of it but the last turn. */
    f->h.stuck = true;
    assert_true(f->h.core.budget.turns > 1);
    for (unsigned n = f->h.core.budget.turns; n > 1; n--) {
        fake_ring_bell(&f->b);
    }
    fake_ring_bell(&f->a);
    fake_expect_none(&f->a);
    f->h.stuck = false;
    fake_run_later(&f->h);
    expect_told(f, UNETMM_ST_BAD_CHANNEL);
}

/* ---- On the card itself ---- */

/* Frames that stay on the card are under the same protocol. */
static void local_run(Fix *f, UnetmmKnobs knobs, uint8_t retries)
{
    struct unetmm_cmd_channel how = { .mtu = 700, .send_psn = 1,
                                      .recv_psn = 1, .retries = retries };
    const uint8_t *own = f->h.core.params.mac;
    uint32_t got = 0, done = 0;
    struct unetmm_cqe cqe;
    unsigned rounds = 0;

    fake_channel_rel(&f->a, CH, own, 2, CH, &how);
    fake_channel_rel(&f->b, CH, own, 1, CH, &how);
    f->h.core.knobs = knobs;
    unetmm_core_set_seed(&f->h.core, fake_seed());
    for (unsigned i = 0; i < 4; i++) {
        fake_post(&f->b, PAGE(4 * i), 3 * FAKE_PAGE, i);
    }
    for (unsigned i = 0; done < 60 || got < 60; ) {
        if (i < 60 && i - done < 4) {
            fake_fill(f->s1, PAGE(4 * (i % 4)), 200 * i, i);
            fake_send_at(&f->a, CH, PAGE(4 * (i % 4)), 200 * i, i);
            i++;
        }
        fix_settle(f);
        fake_advance(&f->h, 300 * US);
        while (fake_poll(&f->a, &cqe)) {
            assert_int_equal(cqe.status, UNETMM_ST_OK);
            assert_int_equal(cqe.cookie, done++);
        }
        while (fake_poll(&f->b, &cqe)) {
            if (cqe.opcode == UNETMM_CQE_BUFFER) {
                fake_post(&f->b, PAGE(4 * cqe.cookie), 3 * FAKE_PAGE,
                          cqe.cookie);
                continue;
            }
            assert_int_equal(cqe.len, 200 * got);
            if (got) {
                fake_check(f->s2, PAGE(4 * cqe.cookie), cqe.len, got);
                fake_post(&f->b, PAGE(4 * cqe.cookie), 3 * FAKE_PAGE,
                          cqe.cookie);
            }
            got++;
        }
        assert_true(++rounds < 200000);
    }
    assert_int_equal(f->h.wire->len, 0);
}

TEST(test_local, fix_test)
{
    local_run(*state, (UnetmmKnobs) { 0 }, 0);
    assert_int_equal(fake_counter(&((Fix *)*state)->h,
                                  UNETMM_C_rel_resent), 0);
}

TEST(test_local_misbehaving, fix_test)
{
    local_run(*state, (UnetmmKnobs) {
        .loss = 50000, .dup = 50000, .reorder = 100000, .corrupt = 50000,
        .force_miss = 20000, .force_evict = 20000,
    }, 100);
}

static void short_queue(UnetmmParams *p)
{
    p->local_queue = 2;
    p->dma_page_ns = 1000;
    p->budget_descriptors = 2;
}

ALSO(test_local, fix_test_with, short_queue)
ALSO(test_local_misbehaving, fix_test_with, short_queue)
