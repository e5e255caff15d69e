/*
 * unetmm: UD channels: messages that name their destination, from anybody
 *
 * Endpoints a and b have a UD channel of number UD_CH.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "peer.h"
#include "ud.h"

#define UD_KEY      0x11111111u
#define UD_B_KEY    0x22222222u
#define UD_PEER_EP  77

static uint8_t ud_set(FakeEp *ep, uint32_t qkey, uint32_t mtu)
{
    return fake_command(ep->driver, ud_cmd(ep->id, qkey, mtu), NULL);
}

static void ud_open(Fix *f)
{
    assert_int_equal(ud_set(&f->a, UD_KEY, UD_MTU), UNETMM_CS_OK);
    assert_int_equal(ud_set(&f->b, UD_B_KEY, UD_MTU), UNETMM_CS_OK);
}

static uint64_t ud_local(Fix *f, const FakeEp *ep)
{
    return ud_address(f->h.core.params.mac, ep->id);
}

/* To b, by its Q_Key. */
static struct unetmm_sqe ud_sqe(Fix *f, uint64_t cookie)
{
    return (struct unetmm_sqe) {
        .opcode = UNETMM_OP_SEND_TO, .flags = UNETMM_SQE_F_INLINE,
        .inline_len = UD_HEAD, .channel = UD_CH, .cookie = cookie,
        .handle = UD_B_KEY, .remote = ud_local(f, &f->b),
    };
}

/* With `len` bytes of message n in a page of endpoint a, behind the head. */
static void ud_send(Fix *f, struct unetmm_sqe sqe, unsigned page, uint32_t len,
                    uint32_t n)
{
    const struct unetmm_seg seg = { .addr = FIX_PAGE(page), .len = len };
    uint8_t *data = g_malloc(len + 1);

    for (uint32_t i = 0; i < len; i++) {
        data[i] = fake_pattern(n, UD_HEAD + i);
    }
    fake_store(f->s1, FIX_PAGE(page), data, len);
    g_free(data);
    sqe.nsegs = 1;
    ud_post(&f->a, sqe, n, &seg);
}

static void ud_buffer(Fix *f, FakeEp *ep, unsigned page, uint32_t len,
                      uint64_t cookie)
{
    fake_post(ep, FIX_PAGE(page), len, cookie);
    fix_settle(f);
}

static void ud_deliver(Fix *f, FakeFrame *frame)
{
    fake_seal(frame);
    fake_deliver(&f->h, frame);
}

static struct unetmm_cqe ud_received(Fix *f, FakeEp *ep, uint64_t cookie,
                                     uint64_t source)
{
    struct unetmm_cqe cqe = fake_expect(ep, UNETMM_CQE_RECEIVED, UNETMM_ST_OK,
                                        cookie);

    assert_int_equal(cqe.source, source);
    assert_int_equal(cqe.channel, UD_CH);
    assert_false(cqe.flags & UNETMM_CQE_F_INLINE);
    return cqe;
}

/* ---- Good ones ---- */

TEST_OF(test_local, Fix *f, fix_test)
{
    struct unetmm_sqe sqe = ud_sqe(f, 1);
    struct unetmm_cqe cqe;

    ud_open(f);
    ud_buffer(f, &f->b, 3, 3000, 9);
    ud_buffer(f, &f->b, 4, 100, 10);
    ud_send(f, sqe, 1, 2000, 7);
    sqe.flags |= UNETMM_SQE_F_IMM;
    sqe.imm = 0xabcd1234;
    sqe.cookie = 2;
    ud_post(&f->a, sqe, 8, NULL);
    fix_settle(f);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
    cqe = ud_received(f, &f->b, 9, ud_local(f, &f->a));
    assert_int_equal(cqe.len, UD_HEAD + 2000);
    assert_int_equal(cqe.flags & UNETMM_CQE_F_IMM, 0);
    fake_check(f->s2, FIX_PAGE(3), UD_HEAD + 2000, 7);
    /* Not inline, however short. */
    cqe = ud_received(f, &f->b, 10, ud_local(f, &f->a));
    assert_int_equal(cqe.len, UD_HEAD);
    assert_true(cqe.flags & UNETMM_CQE_F_IMM);
    assert_int_equal(cqe.imm, 0xabcd1234);
    fake_check(f->s2, FIX_PAGE(4), UD_HEAD, 8);
    assert_int_equal(f->h.wire->len, 0);
    /* The sender is the address of an answer. */
    assert_int_equal(cqe.source, ud_local(f, &f->a));
}

TEST_OF(test_wire, Fix *f, fix_test)
{
    struct unetmm_sqe sqe = ud_sqe(f, 1);
    struct unetmm_frame h;

    ud_open(f);
    sqe.remote = ud_address(fake_peer_mac, 0xfffe);
    ud_send(f, sqe, 1, 1000, 3);
    sqe.flags |= UNETMM_SQE_F_IMM | UNETMM_SQE_F_QUIET;
    sqe.imm = 5;
    sqe.handle = UNETMM_QKEY_OWN | 1;
    ud_send(f, sqe, 1, 1000, 3);
    fix_settle(f);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    fake_expect_none(&f->a);
    for (unsigned i = 0; i < 2; i++) {
        FakeFrame *sent = fake_wire_at(&f->h, i);

        fake_check_frame(sent, UD_HEAD + 1000, 3);
        memcpy(&h, sent->data, sizeof(h));
        unetmm_le_frame(&h);
        assert_memory_equal(h.dst, fake_peer_mac, 6);
        assert_int_equal(h.opcode, UNETMM_WIRE_SEND_TO);
        assert_int_equal(h.dst_ep, 0xfffe);
        assert_int_equal(h.src_ep, 1);
        assert_int_equal(h.dst_channel, UD_CH);
        assert_int_equal(h.src_channel, UD_CH);
        assert_int_equal(h.psn | h.offset | h.remote, 0);
        assert_int_equal(h.handle, i ? UD_KEY : UD_B_KEY);
        assert_int_equal(h.imm, i ? 5 : 0);
        assert_int_equal(h.flags, i ? UNETMM_WIRE_F_IMM : 0);
    }
}

TEST_OF(test_from_anybody, Fix *f, fix_test)
{
    ud_open(f);
    for (uint8_t i = 1; i < 4; i++) {
        const uint8_t mac[6] = { 2, 0, 0, 0, 9, i };
        FakeFrame *frame = ud_frame(&f->a, UD_PEER_EP, UD_KEY, UD_HEAD + i, i);

        ud_buffer(f, &f->a, i, 100, i);
        memcpy(fake_header(frame)->src, mac, 6);
        fake_header(frame)->src_ep = cpu_to_le16(0x8000 + i);
        ud_deliver(f, frame);
        ud_received(f, &f->a, i, ud_address(mac, 0x8000 + i));
        fake_check(f->s1, FIX_PAGE(i), UD_HEAD + i, i);
    }
    assert_int_equal(fake_ep_counter(&f->h, 1, UNETMM_C_rx_frames), 3);
}

static void shape(Fix *f, unsigned data, unsigned nsegs)
{
    bool good = nsegs <= UNETMM_UD_SEGS && (data + 15) / 16 + nsegs <= 18;
    struct unetmm_sqe sqe = ud_sqe(f, data);
    struct unetmm_seg segs[17];
    uint8_t bytes[128];

    for (unsigned i = 0; i < nsegs; i++) {
        segs[i] = (struct unetmm_seg) { FIX_PAGE(1) + 7 * i, 7, { 0 } };
    }
    for (unsigned i = 0; i < sizeof(bytes); i++) {
        bytes[i] = fake_pattern(nsegs, data + i);
    }
    fake_store(f->s1, FIX_PAGE(1), bytes, sizeof(bytes));
    sqe.inline_len = data;
    sqe.nsegs = nsegs;
    if (!good) {
        fake_send_sqe(&f->a, sqe);
    } else {
        ud_buffer(f, &f->b, 3, 1000, nsegs);
        ud_post(&f->a, sqe, nsegs, segs);
    }
    fix_settle(f);
    fake_expect(&f->a, UNETMM_CQE_SENT,
                good ? UNETMM_ST_OK : UNETMM_ST_BAD_DESC, data);
    fake_expect_none(&f->a);
    if (good) {
        assert_int_equal(ud_received(f, &f->b, nsegs,
                                     ud_local(f, &f->a)).len,
                         data + 7 * nsegs);
        fake_check(f->s2, FIX_PAGE(3), data + 7 * nsegs, nsegs);
    }
}

/* Each number of inline bytes with each number of segments. */
TEST_OF(test_shapes, Fix *f, fix_test)
{
    ud_open(f);
    for (unsigned data = UD_HEAD; data <= UNETMM_MAX_INLINE; data++) {
        for (unsigned nsegs = 0; nsegs <= 17; nsegs++) {
            shape(f, data, nsegs);
        }
    }
}

/* ---- Bad ones ---- */

TEST_OF(test_channel_set, Fix *f, fix_test)
{
    const uint8_t policies[] = { UNETMM_POLICY_DROP, UNETMM_POLICY_SKIP,
                                 UNETMM_POLICY_RNR, UNETMM_POLICY_BACKUP };

    assert_int_equal(ud_set(&f->a, 1, UNETMM_MIN_MTU - 1), UNETMM_CS_BAD_ARG);
    assert_int_equal(ud_set(&f->a, 1, UNETMM_MAX_PAYLOAD + 1),
                     UNETMM_CS_BAD_ARG);
    for (unsigned i = 0; i < G_N_ELEMENTS(policies); i++) {
        FakeEp ep;

        fake_ep_init(&ep, &f->d, 3 + i, f->s1);
        ep.policy = policies[i];
        ep.backup = policies[i] == UNETMM_POLICY_BACKUP ? 8 : 0;
        fake_ep_create(&ep);
        assert_int_equal(ud_set(&ep, 1, UD_MTU),
                         i < 2 ? UNETMM_CS_OK : UNETMM_CS_BAD_ARG);
    }
}

/* Members that a UD channel has no use for */
#define UNUSED(X) \
    X(peer_ep = 1) X(peer_channel = 1) X(retries = 1) X(peer_mac[5] = 1) \
    X(not_ready_retries = 1) X(flags = UNETMM_CHANNEL_F_REWIND) \
    X(flags = UNETMM_CHANNEL_F_STRICT | UNETMM_CHANNEL_F_TELL) \
    X(timeout_us = 1) X(send_psn = 1) X(recv_psn = 1) X(send_credits = 1) \
    X(recv_credits = 1) X(not_ready_us = 1) X(denied = 1) \
    X(state = UNETMM_CHANNEL_RTR)

TEST_OF(test_unused, Fix *f, fix_test)
{
    const struct unetmm_cmd good = ud_cmd(1, UD_KEY, UD_MTU);
    struct unetmm_cmd cmd;

#define TRY(change, expected) do { \
        cmd = good; \
        cmd.channel.change; \
        assert_int_equal(fake_command(&f->d, cmd, NULL), expected); \
    } while (0);
#define BAD(change) TRY(change, UNETMM_CS_BAD_ARG)
    UNUSED(BAD)
    TRY(flags = UNETMM_CHANNEL_F_TELL, UNETMM_CS_OK)
#undef BAD
#undef TRY
}

/* The driver of ktlb has not translated the segments behind inline bytes. */
TEST_OF(test_ktlb_has_none, Fix *f, fix_test)
{
    FakeEp ep;

    fake_ep_open(&ep, &f->d, 3, fake_space(&f->d, 3, UNETMM_SOURCE_KTLB, 4));
    assert_int_equal(ud_set(&ep, 1, UD_MTU), UNETMM_CS_BAD_ARG);
}

/* The descriptor is refused, and the next one goes. */
static void refused(Fix *f, struct unetmm_sqe sqe, uint8_t status)
{
    const struct unetmm_seg seg = { UINT64_MAX - 3, 8, { 0 } };

    expect_count(&f->h, err_descriptor, 1, {
        ud_post(&f->a, sqe, 1, &seg);
        fix_settle(f);
    });
    fake_expect(&f->a, UNETMM_CQE_SENT, status, sqe.cookie);
    fake_expect_none(&f->a);
    assert_int_equal(f->h.wire->len, 0);
    assert_int_equal(fake_card(&f->a).sq_cons, f->a.sq_prod);
}

#define REFUSED(change, status) do { \
        struct unetmm_sqe s = ud_sqe(f, 5); \
        change; \
        refused(f, s, status); \
    } while (0)

TEST_OF(test_descriptors, Fix *f, fix_test)
{
    const struct unetmm_seg long_one = { FIX_PAGE(1), UD_MTU - UD_HEAD + 1,
                                         { 0 } };

    ud_open(f);
    REFUSED(s.flags = 0, UNETMM_ST_BAD_DESC);
    REFUSED(s.flags = 0; s.inline_len = 0, UNETMM_ST_BAD_DESC);
    REFUSED(s.flags |= UNETMM_SQE_F_KEYED, UNETMM_ST_BAD_DESC);
    REFUSED(s.flags |= UNETMM_SQE_F_NOTIFY, UNETMM_ST_BAD_DESC);
    REFUSED(s.inline_len = UD_HEAD - 1, UNETMM_ST_BAD_DESC);
    REFUSED(s.imm = 1, UNETMM_ST_BAD_DESC);
    REFUSED(s.region = 1, UNETMM_ST_BAD_DESC);
    REFUSED(s.remote |= 1, UNETMM_ST_BAD_DESC);
    REFUSED(s.nsegs = 1, UNETMM_ST_PROTECTION);
    REFUSED(s.channel = 0xffff, UNETMM_ST_BAD_CHANNEL);
    REFUSED(s.channel = UD_CH + 1, UNETMM_ST_BAD_CHANNEL);
    REFUSED(s.channel = FIX_WIRE, UNETMM_ST_BAD_CHANNEL);
    REFUSED(s.opcode = UNETMM_OP_SEND; s.handle = s.remote = 0,
            UNETMM_ST_BAD_CHANNEL);
    REFUSED(s.opcode = UNETMM_OP_WRITE, UNETMM_ST_BAD_CHANNEL);
    struct unetmm_sqe s = ud_sqe(f, 6);
    s.nsegs = 1;
    ud_post(&f->a, s, 1, &long_one);
    fix_settle(f);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_TOO_LONG, 6);
    ud_send(f, ud_sqe(f, 7), 1, UD_MTU - UD_HEAD, 1);
    /* Cut by the producer: the second slot has the end of the head. */
    s = ud_sqe(f, 8);
    unetmm_le_sqe(&s);
    fix_settle(f);
    fake_put_slots(&f->a, &s, 1);
    fake_move_sq(&f->a, 1);
    fix_settle(f);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 7);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_BAD_DESC, 8);
}

/* The message is lost, and the buffer goes back, since none fits into it. */
static void no_room(Fix *f, FakeEp *to, uint64_t buffer)
{
    struct unetmm_sqe sqe = ud_sqe(f, 2);

    sqe.remote = ud_local(f, to);
    expect_count(&f->h, drop_too_long, 1, {
        ud_post(&f->a, sqe, 7, NULL);
        fix_settle(f);
    });
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
    fake_expect(to, UNETMM_CQE_BUFFER, UNETMM_ST_TOO_LONG, buffer);
    fake_expect_none(to);
}

/* A buffer for the shortest message stays for that when a longer one comes. */
TEST_OF(test_short_buffers, Fix *f, fix_test)
{
    struct unetmm_sqe sqe = ud_sqe(f, 2);
    FakeEp ep;

    ud_open(f);
    ud_buffer(f, &f->b, 3, UD_HEAD - 1, 9);
    ud_buffer(f, &f->b, 4, UD_HEAD, 10);
    fake_expect_none(&f->b);
    no_room(f, &f->b, 9);
    expect_count(&f->h, drop_too_long, 1, ud_send(f, sqe, 1, 1, 7);
                 fix_settle(f););
    fake_expect_none(&f->b);
    ud_post(&f->a, sqe, 8, NULL);
    fix_settle(f);
    ud_received(f, &f->b, 10, ud_local(f, &f->a));
    /* Without memory */
    fake_ep_init(&ep, &f->d, 3, f->s1);
    ep.flags = UNETMM_EP_F_NO_INLINE;
    fake_ep_create(&ep);
    assert_int_equal(ud_set(&ep, UD_B_KEY, UD_MTU), UNETMM_CS_OK);
    fake_post(&ep, 0, 0, 11);
    fake_ring_bell(&ep);
    fix_settle(f);
    fake_expect_none(&ep);
    no_room(f, &ep, 11);
}

/* A reliable channel, and endpoint 0, have no such messages. */
TEST_OF(test_other_endpoints, Fix *f, fix_test)
{
    struct unetmm_sqe sqe = ud_sqe(f, 5);

    ud_open(f);
    assert_int_equal(fake_channel_rel(&f->a, UD_CH + 1, fake_peer_mac, 9, 9,
                                      &(struct unetmm_cmd_channel) {
                                          .mtu = 1000 }), UNETMM_CS_OK);
    sqe.channel = UD_CH + 1;
    refused(f, sqe, UNETMM_ST_BAD_CHANNEL);
}

#define DROPPED(counter, change) do { \
        FakeFrame *x = ud_frame(&f->a, UD_PEER_EP, UD_KEY, 200, 1); \
        struct unetmm_frame *h = fake_header(x); \
        change; \
        (void)h; \
        expect_count(&f->h, counter, 1, ud_deliver(f, x)); \
        fake_expect_none(&f->a); \
    } while (0)

TEST_OF(test_frames, Fix *f, fix_test)
{
    ud_open(f);
    DROPPED(drop_no_buffer, );
    ud_buffer(f, &f->a, 3, 200, 9);
    DROPPED(drop_qkey, h->handle = 0);
    DROPPED(drop_qkey, h->handle = cpu_to_le32(UNETMM_QKEY_OWN));
    DROPPED(drop_no_endpoint, h->dst_ep = cpu_to_le16(63));
    DROPPED(drop_no_endpoint, h->dst_ep = 0xffff);
    DROPPED(drop_no_endpoint, h->dst_ep = 0);
    DROPPED(drop_channel, h->dst_channel = cpu_to_le16(FIX_WIRE));
    DROPPED(drop_channel, h->dst_channel = cpu_to_le16(UD_CH + 1));
    DROPPED(drop_channel, h->dst_channel = 0xffff);
    DROPPED(drop_channel, h->opcode = UNETMM_WIRE_DATAGRAM; h->handle = 0);
    DROPPED(drop_malformed, h->len = cpu_to_le32(UD_HEAD - 1));
    DROPPED(drop_malformed, h->len = cpu_to_le32(201));
    DROPPED(drop_malformed, h->imm = 1);
    DROPPED(drop_malformed, h->psn = 1);
    DROPPED(drop_malformed, h->offset = 1);
    DROPPED(drop_malformed, h->remote = 1);
    DROPPED(drop_malformed, h->flags = cpu_to_le32(UNETMM_WIRE_F_LAST));
    DROPPED(drop_malformed, h->src[0] |= 1);
    expect_count(&f->h, drop_channel, 1,
                 ud_deliver(f, ud_frame(&f->a, UD_PEER_EP, UD_KEY, UD_MTU + 1, 1)));
    expect_count(&f->h, drop_too_long, 1,
                 ud_deliver(f, ud_frame(&f->a, UD_PEER_EP, UD_KEY, 201, 1)));
    fake_expect_none(&f->a);
    ud_deliver(f, ud_frame(&f->a, UD_PEER_EP, UD_KEY, 200, 2));
    ud_received(f, &f->a, 9, ud_address(fake_peer_mac, UD_PEER_EP));
    fake_check(f->s1, FIX_PAGE(3), 200, 2);
}

/* ---- Waiting, changing, ending ---- */

/* The head is kept while a page is missing. */
TEST_OF(test_miss, Fix *f, fix_test)
{
    ud_open(f);
    ud_buffer(f, &f->b, 3, 9000, 9);
    f->d.hold_back = true;
    ud_send(f, ud_sqe(f, 1), 1, 4090, 7);
    fake_ring_bell(&f->a);
    assert_int_equal(f->h.core.eps[1].tx.blocked_on, UNETMM_BLOCKED_FAULT);
    fake_migrate(&f->h);
    f->d.hold_back = false;
    fix_settle(f);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    ud_received(f, &f->b, 9, ud_local(f, &f->a));
    fake_check(f->s2, FIX_PAGE(3), UD_HEAD + 4090, 7);
}

static void time_of_a_page(UnetmmParams *p)
{
    p->dma_page_ns = 1000;
}

/* A message waits for its page, which moves or not, and its channel changes. */
static void changes_meanwhile(Fix *f, bool moves)
{
    for (unsigned i = 0; i < 4; i++) {
        ud_open(f);
        f->d.hold_back = !moves;
        ud_send(f, ud_sqe(f, i), 1 + 4 * i, 300, 7);
        if (moves) {
            fix_settle(f);
        }
        fake_ring_bell(&f->a);
        assert_int_equal(f->h.core.eps[1].tx.moving, moves);
        if (i == 0) {
            fake_connect_peer(&f->a, UD_CH, 1, 9000);
        } else if (i == 1) {
            assert_int_equal(ud_set(&f->a, 1, 256), UNETMM_CS_OK);
        } else {
            fake_channel_clear(&f->a, UD_CH, 0);
        }
        if (i == 3) {
            assert_int_equal(ud_set(&f->a, 2, UD_MTU), UNETMM_CS_OK);
        }
        fake_migrate(&f->h);
        f->d.hold_back = false;
        fake_advance(&f->h, 1000);
        fix_settle(f);
        fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_BAD_CHANNEL, i);
        fake_expect_none(&f->a);
    }
    assert_int_equal(f->h.wire->len, 0);
}

TEST(test_channel_changes_meanwhile, fix_test)
{
    changes_meanwhile(*state, false);
}

TEST(test_channel_changes_moving, fix_test_with, time_of_a_page)
{
    changes_meanwhile(*state, true);
}

/* A message waits for its page, which moves or not, and goes by the new Q_Key. */
static void qkey_changes_meanwhile(Fix *f, bool moves)
{
    struct unetmm_sqe sqe = ud_sqe(f, 1);

    ud_open(f);
    ud_buffer(f, &f->b, 3, 3000, 9);
    sqe.handle = UNETMM_QKEY_OWN;
    f->d.hold_back = !moves;
    ud_send(f, sqe, 1, 300, 7);
    if (moves) {
        fix_settle(f);
    }
    fake_ring_bell(&f->a);
    assert_int_equal(f->h.core.eps[1].tx.moving, moves);
    assert_int_equal(ud_set(&f->a, UD_B_KEY, UD_MTU), UNETMM_CS_OK);
    fake_migrate(&f->h);
    f->d.hold_back = false;
    fake_advance(&f->h, 1000);
    fix_settle(f);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    fake_advance(&f->h, 1000);
    ud_received(f, &f->b, 9, ud_local(f, &f->a));
    fake_check(f->s2, FIX_PAGE(3), UD_HEAD + 300, 7);
}

TEST(test_qkey_changes_meanwhile, fix_test)
{
    qkey_changes_meanwhile(*state, false);
}

TEST(test_qkey_changes_moving, fix_test_with, time_of_a_page)
{
    qkey_changes_meanwhile(*state, true);
}

/* Sender and immediate are kept while the message lands. */
TEST_OF(test_landing, Fix *f, fix_test_with, time_of_a_page)
{
    FakeFrame *frame = ud_frame(&f->a, UD_PEER_EP, UD_KEY, 3000, 5);
    struct unetmm_cqe cqe;

    ud_open(f);
    ud_buffer(f, &f->a, 3, 3000, 9);
    fake_header(frame)->flags = cpu_to_le32(UNETMM_WIRE_F_IMM);
    fake_header(frame)->imm = cpu_to_le32(0x12345678);
    ud_deliver(f, frame);
    assert_true(f->h.core.landing->active);
    fake_migrate(&f->h);
    fake_expect_none(&f->a);
    fake_advance(&f->h, 1000);
    cqe = ud_received(f, &f->a, 9, ud_address(fake_peer_mac, UD_PEER_EP));
    assert_int_equal(cqe.imm, 0x12345678);
    fake_check(f->s1, FIX_PAGE(3), 3000, 5);
}

static void flush(Fix *f, FakeEp *ep)
{
    fake_channel_clear(ep, UD_CH,
                       UNETMM_CHANNEL_F_FLUSH | UNETMM_CHANNEL_F_TELL);
}

/* One that waits for a page, others behind it, and buffers; then the end. */
TEST_OF(test_flush, Fix *f, fix_test)
{
    ud_open(f);
    ud_buffer(f, &f->a, 3, 100, 20);
    ud_buffer(f, &f->a, 4, 100, 21);
    f->d.hold_back = true;
    for (unsigned i = 0; i < 3; i++) {
        ud_send(f, ud_sqe(f, i), 8 + i, 300, 7);
    }
    fake_ring_bell(&f->a);
    assert_int_equal(f->h.core.eps[1].tx.blocked_on, UNETMM_BLOCKED_FAULT);
    flush(f, &f->a);
    f->d.hold_back = false;
    fix_settle(f);
    for (unsigned sent = 0, back = 20; sent < 3 || back < 22; ) {
        struct unetmm_cqe cqe;

        assert_true(fake_poll(&f->a, &cqe));
        assert_int_equal(cqe.status, UNETMM_ST_FLUSHED);
        assert_int_equal(cqe.cookie, cqe.opcode == UNETMM_CQE_SENT ? sent++ :
                         back++);
    }
    fake_expect(&f->a, UNETMM_CQE_CLOSED, UNETMM_ST_FLUSHED, 0);
    expect_count(&f->h, drop_stopped, 1, ud_deliver(f, ud_frame(&f->a, UD_PEER_EP, UD_KEY, 100, 1)));
    /* Later ones, too. */
    ud_send(f, ud_sqe(f, 4), 8, 300, 7);
    fix_settle(f);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_FLUSHED, 4);
    assert_int_equal(f->h.wire->len, 0);
    ud_open(f);
    ud_send(f, ud_sqe(f, 5), 8, 300, 7);
    fix_settle(f);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 5);
    fake_expect_none(&f->a);
}

/* A page that is moving, and the wire, end the wait in their time. */
TEST_OF(test_flush_moving, Fix *f, fix_test_with, time_of_a_page)
{
    struct unetmm_sqe sqe = ud_sqe(f, 1);

    ud_open(f);
    ud_send(f, sqe, 1, 300, 7);
    fix_settle(f);
    assert_true(f->h.core.eps[1].tx.moving);
    flush(f, &f->a);
    fake_expect_none(&f->a);
    fake_advance(&f->h, 1000);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_FLUSHED, 1);
    fake_expect(&f->a, UNETMM_CQE_CLOSED, UNETMM_ST_FLUSHED, 0);
}

/* A flush without a report, and another channel that is set at once. */
TEST_OF(test_flush_untold, Fix *f, fix_test_with, time_of_a_page)
{
    struct unetmm_cmd other = ud_cmd(1, UD_KEY, UD_MTU);

    other.channel.channel = UD_CH + 1;
    ud_open(f);
    ud_send(f, ud_sqe(f, 1), 1, 300, 7);
    fix_settle(f);
    assert_true(f->h.core.eps[1].tx.moving);
    fake_channel_clear(&f->a, UD_CH, UNETMM_CHANNEL_F_FLUSH);
    assert_int_equal(fake_command(&f->d, other, NULL), UNETMM_CS_OK);
    fake_migrate(&f->h);
    fake_advance(&f->h, 1000);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_FLUSHED, 1);
    fake_expect_none(&f->a);
}

TEST_OF(test_flush_wire, Fix *f, fix_test)
{
    struct unetmm_sqe sqe = ud_sqe(f, 1);

    ud_open(f);
    sqe.remote = ud_address(fake_peer_mac, 3);
    f->h.answer = UNETMM_SENT_QUEUED;
    ud_post(&f->a, sqe, 1, NULL);
    sqe.cookie = 2;
    ud_post(&f->a, sqe, 2, NULL);
    fix_settle(f);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    assert_int_equal(f->h.core.eps[1].tx.blocked_on, UNETMM_BLOCKED_WIRE);
    flush(f, &f->a);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_FLUSHED, 2);
    fake_expect(&f->a, UNETMM_CQE_CLOSED, UNETMM_ST_FLUSHED, 0);
    unetmm_core_sent(&f->h.core, true);
    assert_int_equal(f->h.wire->len, 1);
}

/* A flush gives 15 buffers and 5 sends back, more than the queue has room for. */
static void flush_full(Fix *f)
{
    ud_open(f);
    f->d.hold_back = true;
    for (unsigned i = 0; i < 15; i++) {
        fake_post(&f->a, FIX_PAGE(20 + i), 100, i);
    }
    for (unsigned i = 0; i < 5; i++) {
        ud_send(f, ud_sqe(f, i), 8 + i, 300, 7);
    }
    fake_ring_bell(&f->a);
    flush(f, &f->a);
}

/* Completions that wait for room in the queue come later, in order. */
TEST_OF(test_flush_no_room, Fix *f, fix_test)
{
    unsigned sent = 0, back = 0;
    struct unetmm_cqe cqe;

    flush_full(f);
    while (sent < 5 || back < 15) {
        assert_true(fake_poll(&f->a, &cqe));
        fake_ring_bell(&f->a);
        assert_int_equal(cqe.status, UNETMM_ST_FLUSHED);
        assert_int_equal(cqe.cookie, cqe.opcode == UNETMM_CQE_SENT ? sent++ :
                         back++);
    }
    fake_expect(&f->a, UNETMM_CQE_CLOSED, UNETMM_ST_FLUSHED, 0);
    fake_expect_none(&f->a);
}

/* A message that lands has come before the end. */
TEST_OF(test_flush_landing, Fix *f, fix_test_with, time_of_a_page)
{
    ud_open(f);
    ud_buffer(f, &f->a, 3, 3000, 9);
    ud_buffer(f, &f->a, 4, 3000, 10);
    ud_deliver(f, ud_frame(&f->a, UD_PEER_EP, UD_KEY, 3000, 5));
    assert_true(f->h.core.landing->active);
    flush(f, &f->a);
    fake_advance(&f->h, 1000);
    ud_received(f, &f->a, 9, ud_address(fake_peer_mac, UD_PEER_EP));
    fake_check(f->s1, FIX_PAGE(3), 3000, 5);
    fake_expect(&f->a, UNETMM_CQE_BUFFER, UNETMM_ST_FLUSHED, 10);
    fake_expect(&f->a, UNETMM_CQE_CLOSED, UNETMM_ST_FLUSHED, 0);
    fake_expect_none(&f->a);
}

/*
 * No other channel is set while the report waits: all that it follows comes
 * back.  Then a SET ends the flush.
 */
TEST_OF(test_set_meanwhile, Fix *f, fix_test)
{
    struct unetmm_cmd other = ud_cmd(1, UD_KEY, UD_MTU);
    unsigned sent = 0, back = 0, busy = 0;
    struct unetmm_cqe cqe;

    other.channel.channel = UD_CH + 1;
    flush_full(f);
    while (sent < 5 || back < 15) {
        const UnetmmEp *ep = &f->h.core.eps[1];

        if (ep->sq_cons != f->a.sq_prod || ep->fq_cons != f->a.fq_prod) {
            assert_int_equal(fake_command(&f->d, other, NULL), UNETMM_CS_BUSY);
            busy++;
        }
        assert_true(fake_poll(&f->a, &cqe));
        assert_int_equal(cqe.status, UNETMM_ST_FLUSHED);
        assert_int_equal(cqe.cookie, cqe.opcode == UNETMM_CQE_SENT ? sent++ :
                         back++);
        fake_ring_bell(&f->a);
    }
    assert_true(busy);
    f->d.hold_back = false;
    fake_expect(&f->a, UNETMM_CQE_CLOSED, UNETMM_ST_FLUSHED, 0);
    assert_int_equal(fake_command(&f->d, other, NULL), UNETMM_CS_OK);
    ud_buffer(f, &f->a, 3, 100, 9);
    ud_deliver(f, ud_frame(&f->a, UD_PEER_EP, UD_KEY, 100, 1));
    ud_received(f, &f->a, 9, ud_address(fake_peer_mac, UD_PEER_EP));
    fake_expect_none(&f->a);
}

/* The ends of other channels are told, however long ago the flush was. */
TEST(test_flush_long_ago, fix_test)
{
    static const uint32_t later[] = {
        1, 0x7fffffff, 0x80000000, 0x80000001, 0xfffffff0, 0xffffffff,
    };
    Fix *f = *state;
    UnetmmEp *ep;
    struct unetmm_cmd other = ud_cmd(1, UD_KEY, UD_MTU);

    other.channel.channel = UD_CH + 1;
    other.channel.flags = UNETMM_CHANNEL_F_TELL;
    for (unsigned i = 0; i < G_N_ELEMENTS(later); i++) {
        ud_open(f);
        assert_int_equal(fake_command(&f->d, other, NULL), UNETMM_CS_OK);
        flush(f, &f->a);
        fake_expect(&f->a, UNETMM_CQE_CLOSED, UNETMM_ST_FLUSHED, 0);
        ep = &f->h.core.eps[1];
        f->a.sq_prod = ep->sq_cons = ep->sq_prod += later[i];
        f->a.fq_prod = ep->fq_cons = ep->fq_prod += later[i];
        fake_user_word(&f->a, offsetof(struct unetmm_ep_user, sq_prod),
                       f->a.sq_prod);
        fake_user_word(&f->a, offsetof(struct unetmm_ep_user, fq_prod),
                       f->a.fq_prod);
        fake_migrate(&f->h);
        fake_channel_clear(&f->a, UD_CH + 1, UNETMM_CHANNEL_F_TELL);
        fake_expect(&f->a, UNETMM_CQE_CLOSED, UNETMM_ST_BAD_CHANNEL, 0);
        fake_expect_none(&f->a);
    }
}

/* The flush is the endpoint's: its other UD channels neither send nor receive. */
TEST_OF(test_flush_of_another, Fix *f, fix_test)
{
    struct unetmm_cmd other = ud_cmd(1, UD_KEY, UD_MTU);
    struct unetmm_sqe sqe = ud_sqe(f, 3);
    FakeFrame *frame = ud_frame(&f->a, UD_PEER_EP, UD_KEY, 100, 1);

    other.channel.channel = sqe.channel = UD_CH + 1;
    other.channel.flags = UNETMM_CHANNEL_F_TELL;
    fake_header(frame)->dst_channel = cpu_to_le16(UD_CH + 1);
    ud_open(f);
    assert_int_equal(fake_command(&f->d, other, NULL), UNETMM_CS_OK);
    flush(f, &f->a);
    fake_expect(&f->a, UNETMM_CQE_CLOSED, UNETMM_ST_FLUSHED, 0);
    ud_post(&f->a, sqe, 1, NULL);
    fix_settle(f);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_FLUSHED, 3);
    expect_count(&f->h, drop_stopped, 1, ud_deliver(f, frame));
    fake_expect_none(&f->a);
}

/* ---- Beside a reliable channel ---- */

/* Messages of both go at once, and take the endpoint's buffers in turn. */
TEST_OF(test_beside_reliable, Fix *f, fix_test)
{
    const uint8_t data[100] = { 0 };
    struct unetmm_sqe sqe = ud_sqe(f, 0);
    unsigned ud = 0, rel = 0;

    ud_open(f);
    peer_open(f);
    fake_insert(f->s1, FIX_PAGE(1), 1, NULL);
    sqe.remote = ud_address(fake_peer_mac, 3);
    for (unsigned i = 0; i < 4; i++) {
        sqe.cookie = 100 + i;
        fake_send_sqe(&f->a, peer_sqe(UNETMM_OP_WRITE, 1, 100, 0, i));
        ud_post(&f->a, sqe, i, NULL);
    }
    fake_ring_bell(&f->a);
    assert_int_equal(f->h.wire->len, 8);
    for (unsigned i = 0; i < 8; i++) {
        FakeFrame *frame = fake_wire_at(&f->h, i);

        if (fake_header(frame)->opcode == UNETMM_WIRE_SEND_TO) {
            fake_check_frame(frame, UD_HEAD, ud++);
        } else {
            assert_int_equal(fake_header(frame)->psn,
                             cpu_to_le32(PEER_MY + rel++));
        }
    }
    assert_int_equal(rel, 4);
    for (unsigned i = 0; i < 4; i++) {
        fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 100 + i);
    }
    fake_expect_none(&f->a);
    peer_ack(f, PEER_MY + 4, 0);
    for (unsigned i = 0; i < 4; i++) {
        fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, i);
    }
    ud_buffer(f, &f->a, 3, 100, 9);
    ud_buffer(f, &f->a, 4, 100, 10);
    ud_deliver(f, ud_frame(&f->a, UD_PEER_EP, UD_KEY, 100, 1));
    ud_received(f, &f->a, 9, ud_address(fake_peer_mac, UD_PEER_EP));
    peer_give(f, (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_SEND, .psn = PEER_YOURS, .remote = 100,
        .flags = UNETMM_WIRE_F_LAST }, data, 100);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 10);
    fake_expect_none(&f->a);
}

/* The flush of a reliable channel does not wait for a UD message. */
TEST_OF(test_flush_reliable, Fix *f, fix_test)
{
    struct unetmm_sqe sqe = ud_sqe(f, 1);

    for (unsigned wire = 0; wire < 2; wire++) {
        ud_open(f);
        peer_open(f);
        f->d.hold_back = true;
        if (wire) {
            f->h.answer = UNETMM_SENT_QUEUED;
            sqe.remote = ud_address(fake_peer_mac, 3);
            ud_post(&f->a, sqe, 1, NULL);
            fake_ring_bell(&f->a);
            fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
            ud_post(&f->a, sqe, 1, NULL);
        } else {
            ud_send(f, sqe, 8, 300, 7);
        }
        fake_send_sqe(&f->a, peer_sqe(UNETMM_OP_WRITE, 1, 100, 0, 2));
        fake_ring_bell(&f->a);
        assert_int_equal(f->h.core.eps[1].tx.blocked_on,
                         wire ? UNETMM_BLOCKED_WIRE : UNETMM_BLOCKED_FAULT);
        fake_channel_clear(&f->a, PEER_CH, UNETMM_CHANNEL_F_FLUSH |
                           UNETMM_CHANNEL_F_TELL);
        fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_FLUSHED, 1);
        fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_FLUSHED, 2);
        fake_expect(&f->a, UNETMM_CQE_CLOSED, UNETMM_ST_FLUSHED, 0);
        f->d.hold_back = false;
        fix_settle(f);
        fake_expect_none(&f->a);
        fake_import_clear(&f->a, PEER_IMPORT);
    }
}

/* ---- Migration ---- */

static struct unetmm_sqe ud_out(Fix *f, uint64_t cookie)
{
    struct unetmm_sqe sqe = ud_sqe(f, cookie);

    sqe.remote = ud_address(fake_peer_mac, 3);
    sqe.handle = UNETMM_QKEY_OWN;
    sqe.flags |= UNETMM_SQE_F_IMM;
    sqe.imm = 0x1234;
    return sqe;
}

/* Frame i of the wire is message n as ud_out() has it. */
static void ud_is_out(Fix *f, unsigned i, uint32_t len, uint32_t n)
{
    FakeFrame *frame = fake_wire_at(&f->h, i);

    fake_check_frame(frame, len, n);
    assert_int_equal(fake_header(frame)->opcode, UNETMM_WIRE_SEND_TO);
    assert_int_equal(fake_header(frame)->handle, cpu_to_le32(UD_KEY));
    assert_int_equal(fake_header(frame)->imm, cpu_to_le32(0x1234));
}

TEST_OF(test_migrate_moving, Fix *f, fix_test_with, time_of_a_page)
{
    ud_open(f);
    ud_send(f, ud_out(f, 1), 1, 4000, 7);
    fix_settle(f);
    assert_true(f->h.core.eps[1].tx.moving);
    fake_migrate(&f->h);
    fake_expect_none(&f->a);
    fake_advance(&f->h, 1000);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    ud_is_out(f, 0, UD_HEAD + 4000, 7);
}

/* One lands, the next waits for that. */
TEST_OF(test_migrate_local, Fix *f, fix_test_with, time_of_a_page)
{
    ud_open(f);
    ud_buffer(f, &f->b, 3, 100, 9);
    ud_buffer(f, &f->b, 4, 100, 10);
    ud_post(&f->a, ud_sqe(f, 1), 1, NULL);
    ud_post(&f->a, ud_sqe(f, 2), 2, NULL);
    fake_ring_bell(&f->a);
    assert_true(f->h.core.landing->active);
    assert_int_equal(f->h.core.port->fifo_used, 1);
    fake_migrate(&f->h);
    for (unsigned i = 1; i < 3; i++) {
        fake_advance(&f->h, 1000);
        ud_received(f, &f->b, 8 + i, ud_local(f, &f->a));
        fake_check(f->s2, FIX_PAGE(2 + i), UD_HEAD, i);
        fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, i);
    }
}

/* The card keeps the one frame for some time, then the other one. */
TEST_OF(test_migrate_kept, Fix *f, fix_test)
{
    ud_open(f);
    f->h.core.knobs.delay = 1000000;
    f->h.core.knobs.delay_ns = 2000;
    ud_post(&f->a, ud_out(f, 1), 1, NULL);
    fix_settle(f);
    fake_migrate(&f->h);
    assert_int_equal(f->h.wire->len, 0);
    f->h.core.knobs.delay = 0;
    fake_advance(&f->h, 2000);
    ud_is_out(f, 0, UD_HEAD, 1);
    f->h.core.knobs.reorder = 1000000;
    ud_post(&f->a, ud_out(f, 2), 2, NULL);
    fix_settle(f);
    assert_int_equal(f->h.wire->len, 1);
    fake_migrate(&f->h);
    f->h.core.knobs.reorder = 0;
    ud_post(&f->a, ud_out(f, 3), 3, NULL);
    fix_settle(f);
    ud_is_out(f, 1, UD_HEAD, 3);
    ud_is_out(f, 2, UD_HEAD, 2);
    for (unsigned i = 1; i < 4; i++) {
        fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, i);
    }
}

/* The message has gone, and its completion has no room. */
TEST_OF(test_migrate_done, Fix *f, fix_test)
{
    ud_open(f);
    for (unsigned i = 0; i < 17; i++) {
        ud_post(&f->a, ud_out(f, i), i, NULL);
        fake_ring_bell(&f->a);
    }
    assert_int_equal(f->h.core.eps[1].tx.blocked_on, UNETMM_BLOCKED_CQ);
    fake_migrate(&f->h);
    for (unsigned i = 0; i < 17; i++) {
        fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, i);
        fake_ring_bell(&f->a);
        ud_is_out(f, i, UD_HEAD, i);
    }
    assert_int_equal(f->h.wire->len, 17);
}

/* The frame before it stays behind with the net layer, and is lost. */
TEST_OF(test_migrate_wire, Fix *f, fix_test)
{
    g_autofree char *why = NULL;
    GByteArray *saved;

    ud_open(f);
    f->h.answer = UNETMM_SENT_QUEUED;
    ud_post(&f->a, ud_out(f, 1), 1, NULL);
    ud_post(&f->a, ud_out(f, 2), 2, NULL);
    fake_ring_bell(&f->a);
    assert_int_equal(f->h.core.eps[1].tx.blocked_on, UNETMM_BLOCKED_WIRE);
    f->h.answer = UNETMM_SENT_DONE;
    saved = unetmm_core_save(&f->h.core);
    f->h.core.port->busy = false;
    assert_true(unetmm_core_load(&f->h.core, saved->data, saved->len, &why));
    g_byte_array_unref(saved);
    fake_run_later(&f->h);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
    ud_is_out(f, 1, UD_HEAD, 2);
}
