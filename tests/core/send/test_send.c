/*
 * unetmm: sending: descriptors, segments, completions, forged indices
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fixture.h"

#define WORD(name) offsetof(struct unetmm_ep_user, name)

static const FakeFrame *last_frame(Fix *f)
{
    return fake_wire_at(&f->h, f->h.wire->len - 1);
}

TEST_OF(test_inline_all_lengths, Fix *f, fix_test)
{
    /* 0..224 in a queue of 16: the descriptors wrap at every slot. */
    for (unsigned len = 0; len <= UNETMM_MAX_INLINE; len++) {
        unsigned slots = fake_send_inline(&f->a, FIX_WIRE, len, len, len, 0);
        struct unetmm_cqe cqe;

        assert_int_equal(slots, len <= 32 ? 1 : 1 + (len - 32 + 63) / 64);
        fake_ring_bell(&f->a);
        cqe = fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, len);
        assert_int_equal(cqe.len, len);
        assert_int_equal(cqe.channel, FIX_WIRE);
        assert_int_equal(cqe.flags & ~UNETMM_PHASE, 0);
        fake_check_frame(last_frame(f), len, len);
        assert_int_equal(fake_card(&f->a).sq_cons, f->a.sq_prod);
    }
    assert_int_equal(f->h.wire->len, UNETMM_MAX_INLINE + 1);
    /* No translation was ever asked for. */
    assert_int_equal(fake_counter(&f->h, UNETMM_C_faults_send), 0);
}

TEST_OF(test_frame_header, Fix *f, fix_test)
{
    struct unetmm_frame h;

    fake_channel(&f->a, 5, fake_peer_mac, 0x1234, 0x4321, 1500);
    fake_send_inline(&f->a, 5, 9, 33, 1, 0);
    fake_ring_bell(&f->a);
    memcpy(&h, last_frame(f)->data, sizeof(h));
    assert_memory_equal(h.dst, fake_peer_mac, 6);
    assert_memory_equal(h.src, f->h.core.params.mac, 6);
    assert_int_equal(h.ethertype[0], 0x88);
    assert_int_equal(h.ethertype[1], 0xb5);
    unetmm_le_frame(&h);
    assert_int_equal(h.opcode, UNETMM_WIRE_DATAGRAM);
    assert_int_equal(h.dst_ep, 0x1234);
    assert_int_equal(h.src_ep, 1);
    assert_int_equal(h.dst_channel, 0x4321);
    assert_int_equal(h.src_channel, 5);
    assert_int_equal(h.len, 33);
    assert_int_equal(h.flags | h.psn | h.offset | h.remote | h.handle |
                     h.imm | h.payload_crc, 0);
    fake_check_frame(last_frame(f), 33, 9);
}

/* 0..16 segments of odd sizes and places, some of them empty. */
TEST_OF(test_segments, Fix *f, fix_test)
{
    uint64_t random = fake_seed();

    for (unsigned round = 0; round < 6; round++) {
        for (unsigned n = 0; n <= UNETMM_MAX_SEGS; n++) {
            struct unetmm_seg segs[UNETMM_MAX_SEGS] = { { 0 } };
            uint8_t whole[16 * 9000];
            uint32_t len = 0;

            for (unsigned i = 0; i < n; i++) {
                segs[i].len = fake_random(&random) % 5 ?
                              fake_random(&random) % 4000 : 0;
                segs[i].addr = FIX_VA + fake_random(&random) %
                               (FIX_PAGES * FAKE_PAGE - 4000);
                len += segs[i].len;
            }
            for (uint32_t i = 0; i < len; i++) {
                whole[i] = fake_pattern(n, i);
            }
            /* Overlapping segments: the later data would spoil the earlier;
             * the memory of the end has to be sent.  */
            len = 0;
            for (unsigned i = 0; i < n; i++) {
                fake_store(f->s1, segs[i].addr, whole + len, segs[i].len);
                len += segs[i].len;
            }
            len = 0;
            for (unsigned i = 0; i < n; i++) {
                fake_load(f->s1, segs[i].addr, whole + len, segs[i].len);
                len += segs[i].len;
            }
            fake_send(&f->a, FIX_WIRE, segs, n, n, 0);
            fix_settle(f);
            assert_int_equal(fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK,
                                         n).len, len);
            assert_int_equal(last_frame(f)->bytes, 64 + len);
            assert_memory_equal(last_frame(f)->data + 64, whole, len);
        }
    }
}

/* An empty segment may lie anywhere, even where nothing is. */
TEST_OF(test_empty_segments_anywhere, Fix *f, fix_test)
{
    struct unetmm_seg segs[3] = {
        { .addr = UINT64_MAX }, { .addr = FIX_VA, .len = 3 }, { .addr = 1 },
    };

    fake_fill(f->s1, FIX_VA, 3, 1);
    fake_send(&f->a, FIX_WIRE, segs, 3, 1, 0);
    fix_settle(f);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    fake_check_frame(last_frame(f), 3, 1);
}

TEST_OF(test_largest_message, Fix *f, fix_test)
{
    uint64_t at = FIX_VA + 4095;

    fake_fill(f->s1, at, 65536, 3);
    fake_send_at(&f->a, FIX_WIRE, at, 65536, 3);
    fix_settle(f);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 3);
    fake_check_frame(last_frame(f), 65536, 3);
}

TEST_OF(test_mtu, Fix *f, fix_test)
{
    fake_fill(f->s1, FIX_VA, 1600, 1);
    fake_channel(&f->a, 5, fake_peer_mac, 1, 1, 1500);
    fake_send_at(&f->a, 5, FIX_VA, 1500, 1);
    fake_send_at(&f->a, 5, FIX_VA, 1501, 2);
    fake_send_at(&f->a, FIX_WIRE, FIX_VA, 1501, 3);
    fix_settle(f);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_TOO_LONG, 2);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 3);
    assert_int_equal(f->h.wire->len, 2);
    /* 65537 in two pieces, and a sum that wraps 32 bits. */
    struct unetmm_seg two[2] = { { .addr = FIX_VA, .len = 65536 },
                                 { .addr = FIX_VA, .len = 1 } };
    fake_send(&f->a, FIX_WIRE, two, 2, 4, 0);
    two[0].len = 0xffffffff;
    fake_send(&f->a, FIX_WIRE, two, 2, 5, 0);
    fix_settle(f);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_TOO_LONG, 4);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_TOO_LONG, 5);
    assert_int_equal(fake_ep_counter(&f->h, 1, UNETMM_C_err_descriptor), 3);
}

/*
 * The channel changes while its message waits for a page: the message does not go
 * to the peer of another one.
 */
TEST_OF(test_channel_changes_meanwhile, Fix *f, fix_test)
{
    struct unetmm_cmd clear = {
        .opcode = UNETMM_CMD_CHANNEL_CLEAR, .ep = 1, .channel.channel = 5,
    };
    const struct unetmm_cmd_channel how = { .mtu = 9000 };

    for (unsigned change = 0; change < 4; change++) {
        fake_channel(&f->a, 5, fake_peer_mac, 1, 1, 9000);
        fake_send_at(&f->a, 5, FIX_VA + change * 8 * FAKE_PAGE, 5000, 1);
        fake_ring_bell(&f->a);
        assert_int_equal(f->h.core.eps[1].tx.blocked_on, UNETMM_BLOCKED_FAULT);
        if (change == 0) {
            fake_channel(&f->a, 5, fake_peer_mac, 1, 1, 1500);
        } else if (change == 1) {
            assert_int_equal(fake_command(&f->d, clear, NULL), UNETMM_CS_OK);
        } else if (change == 2) {
            fake_channel(&f->a, 5, fake_peer_mac, 2, 1, 9000);
        } else {
            fake_channel_rel(&f->a, 5, fake_peer_mac, 2, 1, &how);
        }
        fix_settle(f);
        fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_BAD_CHANNEL, 1);
        fake_expect_none(&f->a);
    }
    assert_int_equal(f->h.wire->len, 0);
}

/* ---- Malformed descriptors ---- */

static void try_bad(Fix *f, const struct unetmm_sqe *bad, unsigned slots,
                    uint8_t status)
{
    uint8_t raw[5 * 64] = { 0 };
    struct unetmm_sqe sqe = *bad;
    unsigned frames = f->h.wire->len;

    unetmm_le_sqe(&sqe);
    for (unsigned i = 0; i < UNETMM_SQE_SEGS; i++) {
        unetmm_le_seg(&sqe.seg[i]);
    }
    memcpy(raw, &sqe, sizeof(sqe));
    fake_put_slots(&f->a, raw, slots);
    fake_move_sq(&f->a, slots);
    expect_count(&f->h, err_descriptor, 1, fake_ring_bell(&f->a));
    fake_expect(&f->a, UNETMM_CQE_SENT, status, bad->cookie);
    fake_expect_none(&f->a);
    assert_int_equal(f->h.wire->len, frames);
    assert_int_equal(fake_card(&f->a).sq_cons, f->a.sq_prod);
    assert_int_equal(fake_card(&f->a).state, UNETMM_EP_RUNNING);
}

static const struct unetmm_sqe good_sqe = {
    .opcode = UNETMM_OP_SEND, .nsegs = 1, .channel = FIX_WIRE,
    .cookie = 0x1122334455667788,
    .seg[0] = { .addr = FIX_VA, .len = 10 },
};

#define BAD(change, expected) do { \
        struct unetmm_sqe s = good_sqe; \
        change; \
        try_bad(f, &s, 1, expected); \
    } while (0)

TEST_OF(test_reserved_bits, Fix *f, fix_test)
{
    for (unsigned op = 0; op < 256; op++) {
        if (op == UNETMM_OP_WRITE || op == UNETMM_OP_READ) {
            BAD(s.opcode = op, UNETMM_ST_BAD_CHANNEL);
        } else if (op != UNETMM_OP_SEND) {
            BAD(s.opcode = op, UNETMM_ST_BAD_DESC);
        }
    }
    for (unsigned bit = 4; bit < 256; bit <<= 1) {
        /* The channel, of datagrams, has no immediates. */
        BAD(s.flags |= bit, bit == UNETMM_SQE_F_IMM ? UNETMM_ST_BAD_CHANNEL :
            UNETMM_ST_BAD_DESC);
    }
    for (unsigned bit = 0; bit < 32; bit++) {
        BAD(s.imm = 1u << bit, UNETMM_ST_BAD_DESC);
        BAD(s.handle = 1u << bit, UNETMM_ST_BAD_DESC);
        BAD(s.seg[0].rsvd = 1u << bit, UNETMM_ST_BAD_DESC);
    }
    for (unsigned bit = 0; bit < 64; bit++) {
        BAD(s.remote = 1ull << bit, UNETMM_ST_BAD_DESC);
    }
    for (unsigned bit = 0; bit < 16; bit++) {
        BAD(s.region = 1u << bit, UNETMM_ST_BAD_DESC);
    }
}

TEST_OF(test_malformed, Fix *f, fix_test)
{
    struct unetmm_seg segs[7] = { { 0 } };

    for (unsigned n = UNETMM_MAX_SEGS + 1; n < 256; n++) {
        BAD(s.nsegs = n, UNETMM_ST_BAD_DESC);
    }
    BAD(s.inline_len = 1, UNETMM_ST_BAD_DESC);
    BAD((s.flags = UNETMM_SQE_F_INLINE, s.inline_len = 4), UNETMM_ST_BAD_DESC);
    for (unsigned n = UNETMM_MAX_INLINE + 1; n < 256; n++) {
        BAD((s.nsegs = 0, s.flags = UNETMM_SQE_F_INLINE, s.inline_len = n),
            UNETMM_ST_BAD_DESC);
    }
    /* Inline bytes and segments both count, whatever the opcode. */
    for (unsigned n = 1; n <= UNETMM_MAX_SEGS; n++) {
        struct unetmm_sqe s = good_sqe;

        s.flags = UNETMM_SQE_F_INLINE;
        s.inline_len = UNETMM_SQE_INLINE;
        s.nsegs = n;
        try_bad(f, &s, 1 + (n + 3) / 4, UNETMM_ST_BAD_DESC);
    }
    /* Forged channel numbers: never set, just out of range, far out. */
    BAD(s.channel = 0, UNETMM_ST_BAD_CHANNEL);
    BAD(s.channel = 15, UNETMM_ST_BAD_CHANNEL);
    BAD(s.channel = 16, UNETMM_ST_BAD_CHANNEL);
    BAD(s.channel = 0xffff, UNETMM_ST_BAD_CHANNEL);
    /* Ranges that wrap 2^64. */
    BAD((s.seg[0].addr = UINT64_MAX, s.seg[0].len = 2),
        UNETMM_ST_PROTECTION);
    BAD((s.seg[0].addr = UINT64_MAX - 0xfffffffd,
         s.seg[0].len = 0xffffffff), UNETMM_ST_PROTECTION);
    BAD(s.seg[0].len = 65537, UNETMM_ST_TOO_LONG);
    /* A bad reserved word in a segment of a continuation slot. */
    segs[6].rsvd = 1;
    fake_send(&f->a, FIX_WIRE, segs, 7, 9, 0);
    fake_ring_bell(&f->a);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_BAD_DESC, 9);
    /* The endpoint is none the worse. */
    fake_send_inline(&f->a, FIX_WIRE, 1, 5, 1, 0);
    fake_ring_bell(&f->a);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
}
#undef BAD

/* A descriptor whose continuation lies beyond the producer. */
TEST_OF(test_cut_at_producer, Fix *f, fix_test)
{
    for (unsigned slots = 1; slots < 4; slots++) {
        struct unetmm_sqe s = {
            .opcode = UNETMM_OP_SEND, .flags = UNETMM_SQE_F_INLINE,
            .inline_len = UNETMM_MAX_INLINE, .channel = FIX_WIRE,
            .cookie = slots,
        };

        try_bad(f, &s, slots, UNETMM_ST_BAD_DESC);
        s.flags = 0;
        s.inline_len = 0;
        s.nsegs = UNETMM_MAX_SEGS;
        try_bad(f, &s, slots, UNETMM_ST_BAD_DESC);
    }
}

/* The descriptor is read once: a change meanwhile has no effect. */
static void change_length(FakeHost *host, uint64_t addr, size_t bytes)
{
    Fix *f = container_of(host, Fix, h);

    if (addr == f->a.sq && bytes == 64) {
        uint8_t *slot = fake_ptr(host, addr, 64);

        slot[2] = 255;
        slot[3] = 255;
    }
}

TEST_OF(test_descriptor_read_once, Fix *f, fix_test)
{
    f->h.on_read = change_length;
    fake_send_inline(&f->a, FIX_WIRE, 4, 200, 1, 0);
    fake_ring_bell(&f->a);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    fake_check_frame(last_frame(f), 200, 4);
}

TEST_OF(test_protection, Fix *f, fix_test)
{
    fake_map(f->s1, 0x5000, 4096, 0);
    fake_map(f->s1, 0x7000, 4096, FAKE_R);
    fake_fill(f->s1, 0x7000, 100, 6);
    fake_send_at(&f->a, FIX_WIRE, 0x5000, 100, 1);
    fake_send_at(&f->a, FIX_WIRE, 0x9000, 100, 2);
    fake_send_at(&f->a, FIX_WIRE, FIX_VA + FIX_PAGES * FAKE_PAGE - 50, 100,
                 3);
    fake_send_at(&f->a, FIX_WIRE, 0x7000, 100, 4);
    fake_send_at(&f->a, FIX_WIRE, UINT64_MAX, 1, 5);
    fix_settle(f);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_PROTECTION, 1);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_PROTECTION, 2);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_PROTECTION, 3);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 4);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_PROTECTION, 5);
    assert_int_equal(f->h.wire->len, 1);
    fake_check_frame(last_frame(f), 100, 6);
}

TEST_OF(test_bus_refuses_data, Fix *f, fix_test)
{
    uint64_t dma = fake_vpage(f->s1, FIX_VA)->dma;

    f->h.refuse_first = dma;
    f->h.refuse_last = dma + 4095;
    fake_send_at(&f->a, FIX_WIRE, FIX_VA, 100, 1);
    fake_send_inline(&f->a, FIX_WIRE, 1, 10, 2, 0);
    expect_count(&f->h, err_dma, 1, fix_settle(f));
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_DMA, 1);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
}

/* ---- Completions ---- */

TEST_OF(test_quiet, Fix *f, fix_test)
{
    fake_send_inline(&f->a, FIX_WIRE, 1, 8, 1, UNETMM_SQE_F_QUIET);
    fake_send_inline(&f->a, 9, 2, 8, 2, UNETMM_SQE_F_QUIET);
    fake_send_inline(&f->a, FIX_WIRE, 3, 8, 3, UNETMM_SQE_F_QUIET);
    fake_ring_bell(&f->a);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_BAD_CHANNEL, 2);
    fake_expect_none(&f->a);
    assert_int_equal(f->h.wire->len, 2);
    assert_int_equal(fake_card(&f->a).sq_cons, 3);
    assert_int_equal(fake_ep_counter(&f->h, 1, UNETMM_C_sends_done), 2);
    assert_int_equal(fake_ep_counter(&f->h, 1, UNETMM_C_sends_failed), 1);
}

static void small_queues(Fix *f, FakeEp *e)
{
    fake_ep_init(e, &f->d, 3, f->s1);
    e->sq_log2 = 3;
    e->cq_log2 = 2;
    e->fq_log2 = 1;
    fake_ep_create(e);
    fake_connect_peer(e, FIX_WIRE, 13, FIX_MTU);
}

TEST_OF(test_completion_queue_full, Fix *f, fix_test)
{
    FakeEp e;

    small_queues(f, &e);
    for (unsigned round = 0; round < 10; round++) {
        for (unsigned i = 0; i < 8; i++) {
            fake_send_inline(&e, FIX_WIRE, i, 8, i, 0);
        }
        expect_count(&f->h, cq_waits, 1, fake_ring_bell(&e));
        /* Four completed; the fifth is sent and waits with its completion. */
        assert_int_equal(fake_card(&e).cq_prod, 4 + 8 * round);
        assert_int_equal(fake_card(&e).sq_cons, 4 + 8 * round);
        assert_int_equal(fake_card(&e).state,
                         UNETMM_EP_RUNNING | UNETMM_EP_CQ_BLOCKED);
        fake_ring_bell(&e);
        assert_int_equal(fake_card(&e).sq_cons, 4 + 8 * round);
        for (unsigned i = 0; i < 8; i++) {
            if (i == 4) {
                fake_ring_bell(&e);
                assert_int_equal(fake_card(&e).sq_cons, 8 + 8 * round);
            }
            fake_expect(&e, UNETMM_CQE_SENT, UNETMM_ST_OK, i);
        }
        fake_expect_none(&e);
        fake_ring_bell(&e);
    }
    assert_int_equal(f->h.wire->len, 80);
}

/*
 * An operation that its channel did not take may be longer than a packet while
 * it waits for its completion.  One being gathered may not.
 */
TEST(test_long_saved, fix_test)
{
    static const uint32_t lens[] = { UNETMM_MAX_PAYLOAD,
                                     UNETMM_MAX_PAYLOAD + 1 };
    const struct unetmm_cmd_channel how = { .mtu = 1000 };
    Fix *f = *state;
    UnetmmTransfer *tx;
    FakeEp e;

    small_queues(f, &e);
    for (unsigned i = 0; i < 4; i++) {
        fake_send_inline(&e, FIX_WIRE, i, 8, i, 0);
    }
    assert_int_equal(fake_channel_rel(&e, 5, fake_peer_mac, 13, 5, &how),
                     UNETMM_CS_OK);
    fake_send_sqe(&e, (struct unetmm_sqe) {
        .opcode = UNETMM_OP_WRITE, .channel = 5, .nsegs = 1, .cookie = 4,
        .seg = { { .addr = FIX_VA, .len = UNETMM_MAX_PAYLOAD + 1 } } });
    fake_ring_bell(&e);
    tx = &f->h.core.eps[3].tx;
    assert_int_equal(tx->state, UNETMM_TX_COMPLETE);
    assert_int_equal(tx->desc.len, UNETMM_MAX_PAYLOAD + 1);
    fake_migrate(&f->h);
    for (unsigned i = 0; i < 4; i++) {
        fake_expect(&e, UNETMM_CQE_SENT, UNETMM_ST_OK, i);
    }
    fake_ring_bell(&e);
    fake_expect(&e, UNETMM_CQE_SENT, UNETMM_ST_BAD_IMPORT, 4);
    fake_send_at(&e, FIX_WIRE, FIX_VA, 100, 5);
    fake_ring_bell(&e);
    tx = &f->h.core.eps[3].tx;
    assert_int_equal(tx->state, UNETMM_TX_GATHER);
    for (unsigned i = 0; i < G_N_ELEMENTS(lens); i++) {
        g_autofree char *why = NULL;
        GByteArray *saved;
        FakeHost other;

        tx->desc.len = lens[i];
        saved = unetmm_core_save(&f->h.core);
        tx->desc.len = 100;
        fake_host_init(&other, &f->h.core.params);
        assert_false(unetmm_core_load(&other.core, saved->data, saved->len,
                                      &why));
        assert_int_equal(strstr(why, "len is 65537, which is out of range") !=
                         NULL, i);
        fake_host_free(&other);
        g_byte_array_unref(saved);
    }
}

/* Room that comes between the publication of "blocked" and sleeping. */
static void take_when_published(FakeHost *host, uint64_t addr, size_t bytes)
{
    Fix *f = container_of(host, Fix, h);
    struct unetmm_cqe cqe;
    FakeEp *e = &f->b;

    if (addr == e->index + 64 &&
        fake_card(e).state & UNETMM_EP_CQ_BLOCKED) {
        /* The process took all and saw the old state: it rings no bell. */
        while (fake_poll(e, &cqe)) {
        }
    }
}

TEST_OF(test_completion_room_race, Fix *f, fix_test)
{
    fake_ep_destroy(&f->b);
    fake_ep_init(&f->b, &f->d, 3, f->s1);
    f->b.cq_log2 = 2;
    fake_ep_create(&f->b);
    fake_connect_peer(&f->b, FIX_WIRE, 13, FIX_MTU);
    for (unsigned i = 0; i < 16; i++) {
        fake_send_inline(&f->b, FIX_WIRE, i, 8, i, 0);
    }
    f->h.on_write = take_when_published;
    fake_ring_bell(&f->b);
    assert_int_equal(f->h.wire->len, 16);
    assert_int_equal(fake_card(&f->b).sq_cons, 16);
}

TEST_OF(test_completion_memory_refused, Fix *f, fix_test)
{
    f->h.refuse_first = f->a.cq;
    f->h.refuse_last = f->a.cq + 63;
    fake_send_inline(&f->a, FIX_WIRE, 1, 8, 1, 0);
    fake_ring_bell(&f->a);
    assert_int_equal(fake_card(&f->a).state, UNETMM_EP_ERROR);
    /* The other one goes on. */
    fake_send_inline(&f->b, FIX_WIRE, 1, 8, 2, 0);
    fake_ring_bell(&f->b);
    fake_expect(&f->b, UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
}

TEST_OF(test_queue_memory_refused, Fix *f, fix_test)
{
    struct unetmm_notify n;

    f->h.refuse_first = f->a.sq + 64;
    f->h.refuse_last = f->a.sq + 127;
    fake_send_inline(&f->a, FIX_WIRE, 1, 100, 1, 0);
    fake_ring_bell(&f->a);
    assert_int_equal(fake_expect(&f->a, UNETMM_CQE_FAILED, UNETMM_ST_DMA,
                                 0).len, 0);
    assert_int_equal(fake_card(&f->a).state, UNETMM_EP_ERROR);
    assert_true(fake_notification(&f->d, &n));
    assert_int_equal(n.type, UNETMM_NOTIFY_EP_ERROR);
    assert_int_equal(n.ep, 1);
    assert_false(fake_notification(&f->d, &n));
}

/* ---- Forged indices ---- */

TEST(test_forged_indices, cmocka_unit_test_teardown, fix_teardown)
{
    static const struct { size_t word; uint32_t value; } forged[] = {
        { WORD(sq_prod), 17 }, { WORD(sq_prod), 0x80000000 },
        { WORD(sq_prod), UINT32_MAX }, { WORD(fq_prod), 17 },
        { WORD(fq_prod), 0x80000000 }, { WORD(fq_prod), UINT32_MAX },
        { WORD(cq_cons), 1 }, { WORD(cq_cons), 0x80000000 },
        { WORD(cq_cons), UINT32_MAX },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(forged); i++) {
        struct unetmm_notify n;
        Fix *f;

        *state = NULL;
        fix_setup(state);
        f = *state;
        fake_user_word(&f->a, forged[i].word, forged[i].value);
        expect_count(&f->h, err_index, 1, fake_ring_bell(&f->a));
        assert_int_equal(fake_card(&f->a).state, UNETMM_EP_ERROR);
        fake_expect(&f->a, UNETMM_CQE_FAILED, UNETMM_ST_BAD_INDEX, 0);
        assert_true(fake_notification(&f->d, &n));
        assert_int_equal(n.type, UNETMM_NOTIFY_EP_ERROR);
        assert_true(fake_reg(&f->h, UNETMM_REG_EVENTS) &
                    UNETMM_EVENT_EP_ERROR);
        /* Dead until it is closed, and only it. */
        fake_user_word(&f->a, forged[i].word, 0);
        fake_send_inline(&f->a, FIX_WIRE, 1, 8, 1, 0);
        fake_ring_bell(&f->a);
        assert_int_equal(f->h.wire->len, 0);
        expect_count(&f->h, drop_stopped, 1, fake_deliver(
                         &f->h, fake_datagram(&f->a, FIX_WIRE, 11, 8, 1)));
        fake_send_inline(&f->b, FIX_WIRE, 1, 8, 2, 0);
        fake_ring_bell(&f->b);
        fake_expect(&f->b, UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
        assert_int_equal(fake_ep_destroy(&f->a), UNETMM_CS_OK);
        if (i + 1 < G_N_ELEMENTS(forged)) {
            fix_teardown(state);
        }
    }
}

/* Going back below taken slots is forged too, even in mid-transfer. */
TEST_OF(test_producer_goes_back, Fix *f, fix_test)
{
    struct unetmm_seg segs[16];

    for (unsigned i = 0; i < 16; i++) {
        segs[i] = (struct unetmm_seg) { .addr = FIX_VA, .len = 10 };
    }
    fake_send(&f->a, FIX_WIRE, segs, 16, 1, 0);
    fake_ring_bell(&f->a);
    fake_user_word(&f->a, WORD(sq_prod), 1);
    fix_settle(f);
    assert_int_equal(fake_card(&f->a).state, UNETMM_EP_ERROR);
}

/* CQE_FAILED is not lost because the queue was full at that moment. */
TEST_OF(test_failed_waits_for_room, Fix *f, fix_test)
{
    FakeEp e;

    small_queues(f, &e);
    for (unsigned i = 0; i < 4; i++) {
        fake_send_inline(&e, FIX_WIRE, i, 8, i, 0);
    }
    fake_ring_bell(&e);
    fake_user_word(&e, WORD(sq_prod), 100);
    fake_ring_bell(&e);
    assert_int_equal(fake_card(&e).state, UNETMM_EP_ERROR);
    for (unsigned i = 0; i < 4; i++) {
        fake_expect(&e, UNETMM_CQE_SENT, UNETMM_ST_OK, i);
    }
    fake_expect_none(&e);
    fake_ring_bell(&e);
    fake_expect(&e, UNETMM_CQE_FAILED, UNETMM_ST_BAD_INDEX, 0);
    fake_ring_bell(&e);
    fake_expect_none(&e);
}

TEST_OF(test_indices_wrap_32_bits, Fix *f, fix_test)
{
    UnetmmEp *ep = &f->h.core.eps[1];
    uint32_t start = 0xffffffe0;

    ep->sq_prod = ep->sq_cons = ep->cq_prod = ep->cq_cons = start;
    ep->fq_prod = ep->fq_cons = start;
    f->a.sq_prod = f->a.fq_prod = f->a.cq_cons = start;
    fake_user_word(&f->a, WORD(sq_prod), start);
    fake_user_word(&f->a, WORD(fq_prod), start);
    fake_user_word(&f->a, WORD(cq_cons), start);
    /* The phase of the slots as the passes before would have left it. */
    for (unsigned i = 0; i < 16; i++) {
        fake_write32(&f->h, f->a.cq + 64 * i + 60,
                     UNETMM_PHASE_OF(start - 16, 4));
    }
    for (unsigned i = 0; i < 100; i++) {
        fake_post(&f->a, FIX_VA, 100, i);
        fake_send_inline(&f->a, FIX_WIRE, i, 40, i, 0);
        fix_settle(f);
        fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, i);
        fake_deliver(&f->h, fake_datagram(&f->a, FIX_WIRE, 11, 60, i));
        fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, i);
        fake_check(f->s1, FIX_VA, 60, i);
    }
    assert_int_equal(fake_card(&f->a).state, UNETMM_EP_RUNNING);
}

/* The process's indices cannot be read: it is stopped, and told. */
TEST_OF(test_indices_refused, Fix *f, fix_test)
{
    f->h.refuse_first = f->a.index;
    f->h.refuse_last = f->a.index + 63;
    fake_send_inline(&f->a, FIX_WIRE, 1, 8, 1, 0);
    fake_ring_bell(&f->a);
    assert_int_equal(f->h.wire->len, 0);
    assert_true(f->h.core.eps[1].error);
    assert_int_equal(f->h.core.eps[1].fail_status, UNETMM_ST_DMA);
    fake_expect(&f->a, UNETMM_CQE_FAILED, UNETMM_ST_DMA, 0);
}

/* ---- Endpoint 0 ---- */

static void put_control(FakeEp *e, uint64_t mac, uint16_t channel,
                        uint64_t at, uint32_t len, uint64_t cookie)
{
    struct unetmm_sqe sqe = {
        .opcode = UNETMM_OP_CONTROL, .nsegs = 1, .channel = channel,
        .cookie = cookie, .remote = mac,
    };
    struct unetmm_seg seg = { .addr = at, .len = len };

    unetmm_le_sqe(&sqe);
    unetmm_le_seg(&seg);
    sqe.seg[0] = seg;
    fake_put_slots(e, &sqe, 1);
    fake_move_sq(e, 1);
}

TEST_OF(test_control, Fix *f, fix_test)
{
    FakeSpace *s0 = fake_space(&f->d, 0, UNETMM_SOURCE_DIRECT, 0);
    uint64_t out = fake_alloc(&f->h, 300, 1, FAKE_R);
    uint64_t in = fake_alloc(&f->h, 300, 1, FAKE_W);
    uint64_t peer = unetmm_mac_to_u64(fake_peer_mac);
    uint64_t own = unetmm_mac_to_u64(f->h.core.params.mac);
    struct unetmm_frame h;
    struct unetmm_cqe cqe;
    FakeEp e;

    fake_ep_open(&e, &f->d, 0, s0);
    fake_fill(s0, out, 300, 8);
    put_control(&e, peer, 0, out, 256, 1);
    put_control(&e, peer, 0, out, 257, 2);
    put_control(&e, peer, 1, out, 32, 3);
    fake_ring_bell(&e);
    fake_expect(&e, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    fake_expect(&e, UNETMM_CQE_SENT, UNETMM_ST_TOO_LONG, 2);
    fake_expect(&e, UNETMM_CQE_SENT, UNETMM_ST_BAD_DESC, 3);
    assert_int_equal(f->h.wire->len, 1);
    fake_check_frame(last_frame(f), 256, 8);
    memcpy(&h, last_frame(f)->data, sizeof(h));
    unetmm_le_frame(&h);
    assert_int_equal(h.opcode, UNETMM_WIRE_CONTROL);
    assert_int_equal(h.dst_ep | h.src_ep | h.dst_channel | h.src_channel, 0);
    assert_memory_equal(h.dst, fake_peer_mac, 6);
    /* To itself: a control completion with the source's address. */
    fake_post(&e, in, 300, 77);
    put_control(&e, own, 0, out, 32, 4);
    fake_snapshot(&f->h);
    fake_ring_bell(&e);
    fake_expect(&e, UNETMM_CQE_SENT, UNETMM_ST_OK, 4);
    cqe = fake_expect(&e, UNETMM_CQE_CONTROL, UNETMM_ST_OK, 77);
    assert_int_equal(cqe.source, own);
    assert_int_equal(cqe.len, 32);
    fake_check(s0, in, 32, 8);
    assert_int_equal(fake_read32(&f->h, in + 32), 0);
    /* SEND has no meaning on endpoint 0: it has no channels. */
    fake_send_at(&e, 0, out, 10, 5);
    fake_ring_bell(&e);
    fake_expect(&e, UNETMM_CQE_SENT, UNETMM_ST_BAD_CHANNEL, 5);
}
