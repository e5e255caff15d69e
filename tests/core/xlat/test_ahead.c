/*
 * unetmm: source odp: a miss names all that its work request has left
 *
 * Of a send and a READ's place that is the rest of the segment, and records of
 * further segments before it; a peer's announcement is cut off at the region.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "peer.h"

#define VA      0x40000000ull
#define PAGE(n) (VA + (uint64_t)(n) * FAKE_PAGE)
#define RW      UNETMM_FAULT_F_WRITE
#define ASK     UNETMM_WIRE_F_ASK
#define LAST    UNETMM_WIRE_F_LAST
#define CH      3
#define REGION  9
#define PAGES   40

/* ---- Helpers ------------------------------------------------------------ */

/* Memory that the process has, and the card does not know. */
static FakeSpace *space(Fix *f)
{
    FakeSpace *s = fake_space(&f->d, 3, UNETMM_SOURCE_ODP, 4);

    fake_map(s, VA, PAGES * FAKE_PAGE, FAKE_RW);
    assert_false(fake_invalidate(s, VA, PAGES * FAKE_PAGE));
    fake_fill(s, VA, PAGES * FAKE_PAGE, 1);
    return s;
}

static void open_ep(Fix *f, FakeSpace *s, FakeEp *ep, uint16_t id)
{
    fake_ep_open(ep, &f->d, id, s);
    fake_connect_peer(ep, FIX_WIRE, 10 + id, FIX_MTU);
}

/* Endpoint a is of source odp, with the channel of peer_open(). */
static FakeSpace *open_peer(Fix *f, uint64_t length)
{
    const struct unetmm_cmd_channel how = {
        .mtu = PEER_MTU, .send_psn = PEER_MY, .recv_psn = PEER_YOURS,
        .retries = 3, .timeout_us = 1000, .not_ready_retries = 4,
    };
    FakeSpace *s = space(f);

    assert_int_equal(fake_ep_destroy(&f->a), UNETMM_CS_OK);
    fake_ep_init(&f->a, &f->d, 1, s);
    fake_ep_create(&f->a);
    assert_int_equal(fake_channel_rel(&f->a, PEER_CH, fake_peer_mac, PEER_EP,
                                      PEER_CH, &how), UNETMM_CS_OK);
    assert_int_equal(fake_region(s, REGION, PEER_KEY, PAGE(10) + 100, length,
                                 UNETMM_RIGHT_ALL, 0), UNETMM_CS_OK);
    assert_int_equal(fake_import(&f->a, PEER_IMPORT, PEER_CH, PEER_FAR,
                                 PEER_FAR_KEY, PEER_FAR_LENGTH,
                                 UNETMM_RIGHT_ALL), UNETMM_CS_OK);
    fake_wire_clear(&f->h);
    return s;
}

static struct unetmm_fault expect_miss(Fix *f, uint64_t at, uint32_t npages,
                                       uint8_t flags)
{
    struct unetmm_fault m;

    assert_true(fake_fault(&f->d, &m));
    assert_int_equal(m.type, UNETMM_FAULT_MISS);
    assert_int_equal(m.vaddr, at);
    assert_int_equal(m.npages, npages);
    assert_int_equal(m.flags, flags);
    return m;
}

/* The n-th that was named since f->d.ahead was emptied. */
static void expect_ahead(Fix *f, const struct unetmm_fault *m, unsigned n,
                         uint64_t at, uint32_t npages)
{
    const struct unetmm_fault *a;

    assert_true(n < f->d.ahead->len);
    a = &g_array_index(f->d.ahead, struct unetmm_fault, n);
    assert_int_equal(a->vaddr, at);
    assert_int_equal(a->npages, npages);
    assert_int_equal(a->fault_id, m->fault_id);
    assert_int_equal(a->space, m->space);
    assert_int_equal(a->ep, m->ep);
    assert_int_equal(a->flags, m->flags);
}

static void send_segs(FakeEp *ep, const struct unetmm_seg *segs, unsigned n)
{
    fake_send(ep, FIX_WIRE, segs, n, 7, 0);
    fake_ring_bell(ep);
}

/* n segments, of a page each, with a page between them. */
static void send_pages(FakeEp *ep, unsigned n)
{
    struct unetmm_seg segs[UNETMM_MAX_SEGS];

    for (unsigned i = 0; i < n; i++) {
        segs[i] = (struct unetmm_seg) { .addr = PAGE(2 * i), .len = 100 };
    }
    send_segs(ep, segs, n);
}

static void give(Fix *f, uint8_t opcode, uint64_t at, uint32_t imm,
                 uint32_t flags, uint32_t len)
{
    peer_give(f, (struct unetmm_frame) {
        .opcode = opcode, .psn = PEER_YOURS, .handle = REGION,
        .offset = PEER_KEY, .remote = at, .imm = imm, .flags = flags },
        fake_ptr(&f->h, f->d.list, FAKE_PAGE), len);
}

/* ---- Sends -------------------------------------------------------------- */

/* Those before have been read; an empty one has nothing to bring. */
TEST_OF(test_segments, Fix *f, fix_test)
{
    const struct unetmm_seg segs[] = {
        { .addr = PAGE(0), .len = 100 },
        { .addr = PAGE(2) + 4000, .len = 5000 },
        { .addr = PAGE(8), .len = 0 },
        { .addr = PAGE(10) + 4095, .len = 2 },
        { .addr = PAGE(20), .len = 4096 },
    };
    FakeSpace *s = space(f);
    struct unetmm_fault m;
    FakeEp e;

    open_ep(f, s, &e, 3);
    assert_int_equal(fake_insert(s, PAGE(0), 1, NULL), UNETMM_CS_OK);
    expect_count(&f->h, faults_ahead, 2,
                 send_segs(&e, segs, G_N_ELEMENTS(segs)));
    m = expect_miss(f, PAGE(2), 3, 0);
    assert_int_equal(f->d.ahead->len, 2);
    expect_ahead(f, &m, 0, PAGE(10), 2);
    expect_ahead(f, &m, 1, PAGE(20), 1);
    /* Pages that have been brought are not asked for. */
    assert_int_equal(fake_insert(s, PAGE(10), 2, NULL), UNETMM_CS_OK);
    assert_int_equal(fake_insert(s, PAGE(20), 1, NULL), UNETMM_CS_OK);
    assert_int_equal(fake_resolve(&f->d, &m, 3, NULL), UNETMM_CS_OK);
    fake_expect(&e, UNETMM_CQE_SENT, UNETMM_ST_OK, 7);
    fix_no_fault(f);
}

/* The driver may leave them: each is missed when its turn comes. */
TEST_OF(test_left, Fix *f, fix_test)
{
    FakeSpace *s = space(f);
    struct unetmm_fault m;
    FakeEp e;

    open_ep(f, s, &e, 3);
    send_pages(&e, 3);
    for (unsigned i = 0; i < 3; i++) {
        m = expect_miss(f, PAGE(2 * i), 1, 0);
        assert_int_equal(f->d.ahead->len, 2 - i);
        for (unsigned n = 0; n < 2 - i; n++) {
            expect_ahead(f, &m, n, PAGE(2 * (i + 1 + n)), 1);
        }
        g_array_set_size(f->d.ahead, 0);
        assert_int_equal(fake_resolve(&f->d, &m, 1, NULL), UNETMM_CS_OK);
    }
    fake_expect(&e, UNETMM_CQE_SENT, UNETMM_ST_OK, 7);
}

/* Where there is room for the miss and not for all of them, there is none. */
TEST_OF(test_no_room, Fix *f, fix_test)
{
    uint32_t depth = 1u << f->d.ring[UNETMM_RING_FAULT].log2;
    uint32_t room = depth - depth / 4, used = 0, full;
    FakeSpace *s = space(f);
    FakeEp e[5];

    full = room / UNETMM_MAX_SEGS;
    assert_in_range(full, 2, 3);
    for (unsigned i = 0; i <= full; i++) {
        unsigned n = i == full - 1 ? UNETMM_MAX_SEGS - 1 : UNETMM_MAX_SEGS;

        open_ep(f, s, &e[i], 3 + i);
        /* Of a place of its own, so that none joins another. */
        fake_send(&e[i], FIX_WIRE, (struct unetmm_seg[UNETMM_MAX_SEGS]) {
            { .addr = PAGE(30 + i), .len = 10 },
            [1 ... UNETMM_MAX_SEGS - 1] = { .addr = PAGE(0), .len = 1 } },
            n, i, 0);
        fake_ring_bell(&e[i]);
        used += i < full ? n : 1;
        assert_int_equal(f->h.core.ring->all[UNETMM_RING_FAULT].prod, used);
    }
    fake_serve(&f->d);
    for (unsigned i = 0; i <= full; i++) {
        fake_expect(&e[i], UNETMM_CQE_SENT, UNETMM_ST_OK, i);
    }
}

/* A card that was restored: a send that waits has whatever the stream says. */
TEST_OF(test_no_segment, Fix *f, fix_test)
{
    UnetmmAhead ahead[UNETMM_MAX_SEGS];
    UnetmmEp *ep = &f->h.core.eps[1];
    const UnetmmMiss *miss = &ep->misses[0];

    ep->tx.blocked_on = UNETMM_BLOCKED_FAULT;
    for (unsigned seg = 0; seg < UNETMM_MAX_SEGS; seg++) {
        for (unsigned nsegs = 0; nsegs <= UNETMM_MAX_SEGS; nsegs++) {
            ep->tx.seg = seg;
            ep->tx.desc.nsegs = nsegs;
            assert_int_equal(miss->owner->ahead(&f->h.core, miss, ahead), 0);
        }
    }
    for (unsigned i = 0; i < UNETMM_MAX_SEGS; i++) {
        ep->tx.desc.segs[i] = (struct unetmm_seg) { .addr = PAGE(i), .len = 1 };
    }
    ep->tx.seg = 0;
    assert_int_equal(miss->owner->ahead(&f->h.core, miss, ahead),
                     UNETMM_MAX_SEGS - 1);
    memset(&ep->tx, 0, sizeof(ep->tx));
}

/* Other sources ask for one segment at a time. */
TEST_OF(test_only_odp, Fix *f, fix_test)
{
    const struct unetmm_seg segs[] = {
        { .addr = FIX_PAGE(0), .len = 100 },
        { .addr = FIX_PAGE(4), .len = 100 },
    };
    struct unetmm_fault m;

    send_segs(&f->a, segs, 2);
    m = expect_miss(f, FIX_PAGE(0), 1, 0);
    fake_resolve(&f->d, &m, 1, NULL);
    expect_miss(f, FIX_PAGE(4), 1, 0);
    assert_int_equal(f->d.ahead->len, 0);
}

/* ---- Where answers go --------------------------------------------------- */

TEST_OF(test_answer, Fix *f, fix_test)
{
    struct unetmm_sqe sqe = peer_sqe(UNETMM_OP_READ, 0, 9000, 500, 1);
    FakeSpace *s = open_peer(f, 1000);
    struct unetmm_fault m;
    uint8_t data[PEER_MTU] = { 0 };

    sqe.nsegs = 2;
    sqe.seg[0].addr = PAGE(0) + 4000;
    sqe.seg[1] = (struct unetmm_seg) { .addr = PAGE(20), .len = 8192 };
    fake_send_sqe(&f->a, sqe);
    fake_ring_bell(&f->a);
    /* Each says how many come behind it. */
    for (unsigned i = 0; i < 18; i++) {
        PeerFrame p = peer_expect(f, UNETMM_WIRE_READ, PEER_MY + i);

        assert_int_equal(UNETMM_GET(UNETMM_READ_BYTES, p.h.imm),
                         i < 17 ? 1000 : 192);
        assert_int_equal(UNETMM_GET(UNETMM_READ_MORE, p.h.imm), 17 - i);
    }
    /* From the second packet on: its first page is that of the first one. */
    peer_give(f, (struct unetmm_frame) { .opcode = UNETMM_WIRE_ANSWER,
                                         .psn = PEER_MY + 1 }, data, 1000);
    m = expect_miss(f, PAGE(1), 3, RW);
    assert_int_equal(f->d.ahead->len, 1);
    expect_ahead(f, &m, 0, PAGE(20), 2);
    g_array_set_size(f->d.ahead, 0);
    fake_insert(s, PAGE(20), 2, NULL);
    assert_int_equal(fake_resolve(&f->d, &m, 3, NULL), UNETMM_CS_OK);
    /* The rest, which was missed as well, has a place: but its first page. */
    for (unsigned i = 1; i < 18; i++) {
        peer_give(f, (struct unetmm_frame) { .opcode = UNETMM_WIRE_ANSWER,
                  .psn = PEER_MY + i }, data, i < 17 ? 1000 : 192);
    }
    fix_no_fault(f);
    peer_give(f, (struct unetmm_frame) { .opcode = UNETMM_WIRE_ANSWER,
                                         .psn = PEER_MY }, data, 1000);
    m = expect_miss(f, PAGE(0), 4, RW);
}

/* From the middle of a segment on: no page behind its end. */
TEST_OF(test_answer_middle, Fix *f, fix_test)
{
    struct unetmm_sqe sqe = peer_sqe(UNETMM_OP_READ, 0, 9000, 500, 1);
    uint8_t data[PEER_MTU] = { 0 };

    open_peer(f, 1000);
    sqe.seg[0].addr = PAGE(0) + 4000;
    fake_send_sqe(&f->a, sqe);
    fake_ring_bell(&f->a);
    peer_give(f, (struct unetmm_frame) { .opcode = UNETMM_WIRE_ANSWER,
                                         .psn = PEER_MY + 5 }, data, 1000);
    /* Bytes 9000 to 13000 of the memory. */
    expect_miss(f, PAGE(2), 2, RW);
}

/* In the second segment: bytes of the first are not counted. */
TEST_OF(test_answer_second, Fix *f, fix_test)
{
    struct unetmm_sqe sqe = peer_sqe(UNETMM_OP_READ, 0, 3000, 500, 1);
    uint8_t data[PEER_MTU] = { 0 };

    open_peer(f, 1000);
    sqe.nsegs = 2;
    sqe.seg[0].addr = PAGE(0);
    sqe.seg[1] = (struct unetmm_seg) { .addr = PAGE(20) + 4000, .len = 9000 };
    fake_send_sqe(&f->a, sqe);
    fake_ring_bell(&f->a);
    peer_give(f, (struct unetmm_frame) { .opcode = UNETMM_WIRE_ANSWER,
                                         .psn = PEER_MY + 3 }, data, 1000);
    expect_miss(f, PAGE(20), 4, RW);
}

/* Of each packet: the pages behind its own segment, and no others. */
TEST_OF(test_answer_behind, Fix *f, fix_test)
{
    struct unetmm_sqe sqe = peer_sqe(UNETMM_OP_READ, 0, 1000, 500, 1);
    struct unetmm_seg segs[5];
    uint8_t data[PEER_MTU] = { 0 };
    FakeSpace *s = open_peer(f, 1000);

    for (unsigned i = 0; i < G_N_ELEMENTS(segs); i++) {
        segs[i] = (struct unetmm_seg) { .addr = PAGE(3 * i), .len = 1000 };
    }
    sqe.nsegs = 2;
    for (unsigned i = 0; i + 1 < G_N_ELEMENTS(segs); i++) {
        struct unetmm_fault m;

        sqe.seg[0] = segs[i];
        sqe.seg[1] = segs[i + 1];
        fake_send_sqe(&f->a, sqe);
        fake_ring_bell(&f->a);
        for (unsigned k = 0; k < 2; k++) {
            PeerFrame p = peer_take(f);

            assert_int_equal(p.h.psn, PEER_MY + 2 * i + k);
        }
        g_array_set_size(f->d.ahead, 0);
        for (unsigned k = 0; k < 2; k++) {
            uint32_t psn = PEER_MY + 2 * i + (i & 1 ? k : 1 - k);
            bool first = psn == PEER_MY + 2 * i;

            fake_take_away(s, PAGE(0), 16 * FAKE_PAGE);
            peer_give(f, (struct unetmm_frame) {
                .opcode = UNETMM_WIRE_ANSWER, .psn = psn }, data, 1000);
            m = expect_miss(f, segs[first ? i : i + 1].addr, 1, RW);
            assert_int_equal(f->d.ahead->len, first);
            if (first) {
                expect_ahead(f, &m, 0, segs[i + 1].addr, 1);
            }
            g_array_set_size(f->d.ahead, 0);
            assert_int_equal(fake_resolve(&f->d, &m, 1, NULL), UNETMM_CS_OK);
            fake_wire_clear(&f->h);
        }
        fake_insert(s, segs[i].addr, 1, NULL);
        fake_insert(s, segs[i + 1].addr, 1, NULL);
        for (unsigned k = 0; k < 2; k++) {
            peer_give(f, (struct unetmm_frame) {
                .opcode = UNETMM_WIRE_ANSWER, .psn = PEER_MY + 2 * i + k },
                data, 1000);
        }
        fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
        fake_wire_clear(&f->h);
    }
}

/* The READ has ended before the miss could be reported. */
TEST_OF(test_answer_ended, Fix *f, fix_test)
{
    struct unetmm_sqe sqe = peer_sqe(UNETMM_OP_READ, 0, 100, 500, 1);
    uint8_t data[200] = { 0 };
    FakeEp e[3];
    FakeSpace *s = open_peer(f, 1000);

    sqe.nsegs = 2;
    sqe.seg[0].addr = PAGE(0);
    sqe.seg[1] = (struct unetmm_seg) { .addr = PAGE(20), .len = 100 };
    fake_send_sqe(&f->a, sqe);
    fake_ring_bell(&f->a);
    for (unsigned i = 0; i < 3; i++) {
        open_ep(f, s, &e[i], 3 + i);
        fake_send(&e[i], FIX_WIRE, (struct unetmm_seg[UNETMM_MAX_SEGS]) {
            { .addr = PAGE(30 + i), .len = 10 },
            [1 ... UNETMM_MAX_SEGS - 1] = { .addr = PAGE(5), .len = 1 } },
            UNETMM_MAX_SEGS, i, 0);
        fake_ring_bell(&e[i]);
    }
    peer_give(f, (struct unetmm_frame) { .opcode = UNETMM_WIRE_ANSWER,
                                         .psn = PEER_MY }, data, 200);
    /* The ring is full: it waits.  The peer refuses the READ meanwhile. */
    assert_int_equal(f->h.core.miss->wanted.used, 1);
    peer_ack_as(f, PEER_MY, 0, UNETMM_ACK_REJECTED, UNETMM_WHY_MEMORY);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_REMOTE_MEMORY, 1);
    g_array_set_size(f->d.ahead, 0);
    fake_serve(&f->d);
    for (unsigned i = 0; i < f->d.ahead->len; i++) {
        assert_int_not_equal(g_array_index(f->d.ahead, struct unetmm_fault,
                                           i).vaddr, PAGE(20));
    }
}

/* ---- A peer's reads and writes ------------------------------------------ */

/* As far as it says, and the region goes. */
TEST_OF(test_write, Fix *f, fix_test)
{
    const struct {
        uint64_t at;
        uint32_t more, flags, npages;
    } cases[] = {
        { 0, 0, 0, 1 }, { 0, 3000, 0, 2 }, { 0, 4096 * 3, 0, 4 },
        { 0, 4096 * 3, LAST, 1 },
        /* Bytes 100.. of page 10; the last page of the region is 14. */
        { 0, UNETMM_MAX_MESSAGE, 0, 5 }, { 17000, UNETMM_MAX_MESSAGE, 0, 1 },
        { 19000, UNETMM_MAX_MESSAGE, 0, 1 },
    };
    FakeSpace *s = open_peer(f, 20000);

    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        uint32_t imm = cases[i].flags & LAST ? 0 : cases[i].more;
        uint64_t page = PAGE(10) + ((cases[i].at + 100) & ~4095ull);
        struct unetmm_fault m;

        give(f, UNETMM_WIRE_WRITE, cases[i].at, imm, cases[i].flags, 1000);
        m = expect_miss(f, page, cases[i].npages, RW);
        assert_int_equal(fake_reply(&f->d, &m, UNETMM_REPLY_RESOLVED, 0),
                         UNETMM_CS_OK);
    }
    /* More than any message has, or beside LAST: no such packet. */
    expect_count(&f->h, drop_malformed, 2, {
        give(f, UNETMM_WIRE_WRITE, 0, UNETMM_MAX_STRICT_MESSAGE + 1, 0, 1000);
        give(f, UNETMM_WIRE_WRITE, 0, 1, LAST, 1000);
    });
    fake_insert(s, PAGE(10), 1, NULL);
    give(f, UNETMM_WIRE_WRITE, 0, 19000, 0, 1000);
    fix_no_fault(f);
}

TEST_OF(test_read, Fix *f, fix_test)
{
    const struct {
        uint64_t at;
        uint32_t more, npages;
    } cases[] = {
        { 0, 0, 1 }, { 0, 2, 1 }, { 0, 3, 2 }, { 8000, 4, 3 },
        { 0, 0x7fff, 5 }, { 19000, 0x7fff, 1 },
    };

    open_peer(f, 20000);
    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        uint64_t page = PAGE(10) + ((cases[i].at + 100) & ~4095ull);
        struct unetmm_fault m;

        give(f, UNETMM_WIRE_READ, cases[i].at, 1000 |
             UNETMM_PREP(UNETMM_READ_MORE, cases[i].more), ASK, 0);
        m = expect_miss(f, page, cases[i].npages, 0);
        assert_int_equal(fake_reply(&f->d, &m, UNETMM_REPLY_RESOLVED, 0),
                         UNETMM_CS_OK);
    }
    /* The wanted bytes are checked as ever. */
    expect_count(&f->h, drop_malformed, 1,
                 give(f, UNETMM_WIRE_READ, 0, UNETMM_READ_MORE, ASK, 0));
    expect_count(&f->h, drop_rel_bad, 1,
                 give(f, UNETMM_WIRE_READ, 0, UNETMM_READ_MORE | 1001, ASK,
                      0));
}

/* The buffer of a message that goes on is named up to the message's end. */
TEST_OF(test_buffer, Fix *f, fix_test)
{
    uint8_t data[PEER_MTU] = { 0 };
    FakeSpace *s = open_peer(f, 1000);
    struct unetmm_fault m;

    fake_post(&f->a, PAGE(0), 20 * FAKE_PAGE, 50);
    fake_ring_bell(&f->a);
    fake_serve(&f->d);
    peer_give(f, (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_SEND, .psn = PEER_YOURS, .offset = 0,
        .remote = 30000, .flags = ASK }, data, 1000);
    fake_invalidate(s, PAGE(0), 20 * FAKE_PAGE);
    peer_give(f, (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_SEND, .psn = PEER_YOURS + 1, .offset = 1000,
        .remote = 30000, .flags = ASK }, data, 1000);
    m = expect_miss(f, PAGE(0), 8, RW);
    assert_int_equal(fake_resolve(&f->d, &m, 8, NULL), UNETMM_CS_OK);
}

/* How many bytes of a WRITE follow is said by each packet. */
TEST_OF(test_said, Fix *f, fix_test)
{
    FakeSpace *s = open_peer(f, 1000);
    struct unetmm_sqe sqe = peer_sqe(UNETMM_OP_WRITE, 0, 2500, 500, 1);

    sqe.seg[0].addr = PAGE(0);
    fake_insert(s, PAGE(0), 1, NULL);
    fake_send_sqe(&f->a, sqe);
    fake_ring_bell(&f->a);
    for (unsigned i = 0; i < 3; i++) {
        PeerFrame p = peer_expect(f, UNETMM_WIRE_WRITE, PEER_MY + i);

        assert_int_equal(p.h.imm, i == 0 ? 1500 : i == 1 ? 500 : 0);
    }
}
