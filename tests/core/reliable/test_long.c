/*
 * unetmm: reliable channels: free buffers that do not fit into the TLB together
 *
 * Endpoint a has a reliable channel to the peer on the wire, or to endpoint b on
 * the card itself.  A message needs only the pages of its buffer that a packet
 * touches, so it gets through however few pages there are at a time, at a
 * bounded number of misses.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fixture.h"

#define CH      5
#define PEER    11
#define MTU     (4u * FAKE_PAGE)
#define YOURS   0x7ffffff8u
#define US      1000

#define BUFS    4
#define PAGES   60                      /* of a buffer; the TLB has 64 + 16 */
#define LONG    (PAGES * FAKE_PAGE)
#define PACKETS (LONG / MTU)
/* None of them shares a page with another, all share sets. */
#define BUF(n)  (0x7f3300000000ull + (uint64_t)(n) * 64 * FAKE_PAGE)

static void open_channel(Fix *f)
{
    const struct unetmm_cmd_channel how = {
        .mtu = MTU, .send_psn = 1, .recv_psn = YOURS,
    };

    assert_int_equal(fake_channel_rel(&f->a, CH, fake_peer_mac, PEER, CH,
                                      &how), UNETMM_CS_OK);
}

static void open_wire(Fix *f)
{
    fake_map(f->s1, BUF(0), BUFS * 64 * FAKE_PAGE, FAKE_RW);
    open_channel(f);
}

static void post(Fix *f, unsigned n)
{
    fake_post(&f->a, BUF(n), LONG, n);
    fake_ring_bell(&f->a);
}

/* A packet of message n, which asks. */
static void give(Fix *f, uint32_t psn, uint32_t offset, uint32_t n)
{
    FakeFrame *frame = fake_datagram(&f->a, CH, PEER, MTU, 0);
    struct unetmm_frame *h = fake_header(frame);

    h->opcode = UNETMM_WIRE_SEND;
    h->psn = cpu_to_le32(psn);
    h->offset = cpu_to_le32(offset);
    h->remote = cpu_to_le64(LONG);
    h->flags = cpu_to_le32(UNETMM_WIRE_F_ASK | (offset + MTU == LONG ?
                                                UNETMM_WIRE_F_LAST : 0));
    for (uint32_t i = 0; i < MTU; i++) {
        frame->data[64 + i] = fake_pattern(n, offset + i);
    }
    fake_seal(frame);
    fake_deliver(&f->h, frame);
}

/* The card's last frame; the others are dropped. */
static struct unetmm_frame said(Fix *f)
{
    struct unetmm_frame h;

    assert_true(f->h.wire->len > 0);
    memcpy(&h, fake_wire_at(&f->h, f->h.wire->len - 1)->data, sizeof(h));
    unetmm_le_frame(&h);
    assert_int_equal(h.opcode, UNETMM_WIRE_ACK);
    fake_wire_clear(&f->h);
    return h;
}

static bool taken(Fix *f, uint32_t psn)
{
    struct unetmm_frame h = said(f);

    assert_true(h.imm == UNETMM_ACK_OK || h.imm == UNETMM_ACK_NOT_READY);
    return h.psn == psn + 1;
}

/* Comes until it is taken. */
static void give_until_taken(Fix *f, uint32_t psn, uint32_t offset, uint32_t n)
{
    for (unsigned tries = 0;; tries++) {
        assert_true(tries < 4);
        give(f, psn, offset, n);
        if (taken(f, psn)) {
            return;
        }
        fake_serve(&f->d);
    }
}

/* ---- From the wire ------------------------------------------------------ */

TEST_OF(test_several, Fix *f, fix_test)
{
    uint32_t psn = YOURS;

    open_wire(f);
    for (unsigned n = 0; n < BUFS; n++) {
        post(f, n);
    }
    for (uint32_t n = 0; n < 3 * BUFS; n++) {
        unsigned misses = f->d.misses;

        for (uint32_t at = 0; at < LONG; at += MTU) {
            give_until_taken(f, psn++, at, n);
        }
        fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, n % BUFS);
        fake_check(f->s1, BUF(n % BUFS), LONG, n);
        post(f, n % BUFS);
        fake_serve(&f->d);
        /* Each packet once; and the heads, for posted buffers. */
        assert_true(f->d.misses - misses <= PACKETS + 2 * UNETMM_HEAD_ASKS);
    }
}

/* A repeated packet makes heads ask for its pages, and no others. */
TEST_OF(test_sent_again, Fix *f, fix_test)
{
    struct unetmm_fault fault;

    open_wire(f);
    for (unsigned n = 0; n < BUFS; n++) {
        post(f, n);
    }
    /* Somebody else always is faster, until the heads give up. */
    for (unsigned i = 0; i < 20; i++) {
        fake_serve(&f->d);
        fake_invalidate(f->s1, BUF(0), BUFS * 64 * FAKE_PAGE);
    }
    for (unsigned i = 0; i < 50; i++) {
        fix_no_fault(f);
        give(f, YOURS, 0, 1);
        assert_false(taken(f, YOURS));
        assert_true(fake_fault(&f->d, &fault));
        assert_int_equal(fault.flags, UNETMM_FAULT_F_WRITE |
                         UNETMM_FAULT_F_HEAD);
        assert_int_equal(fault.vaddr, BUF(0));
        assert_int_equal(fault.npages, MTU / FAKE_PAGE);
        fix_no_fault(f);
        /* Asked once, however often it comes before the answer. */
        give(f, YOURS, 0, 1);
        assert_false(taken(f, YOURS));
        fix_no_fault(f);
        assert_int_equal(fake_resolve(&f->d, &fault, fault.npages, NULL),
                         UNETMM_CS_OK);
        assert_true(i == 49 || !fake_invalidate(f->s1, BUF(0), LONG));
        fake_wire_clear(&f->h);
    }
    give(f, YOURS, 0, 1);
    assert_true(taken(f, YOURS));
}

/* The head asks no more, and is told of nothing: the packet still gets in. */
TEST_OF(test_head_has_asked_enough, Fix *f, fix_test)
{
    open_wire(f);
    post(f, 0);
    for (unsigned i = 0; i < 20; i++) {
        fake_serve(&f->d);
        fake_invalidate(f->s1, BUF(0), LONG);
    }
    fix_no_fault(f);
    assert_int_equal(unetmm_head_at(&f->h.core.eps[1], 0)->state,
                     UNETMM_HEAD_CHECK);
    fake_wire_clear(&f->h);
    give(f, YOURS, 0, 1);
    assert_int_equal(said(f).imm, UNETMM_ACK_NOT_READY);
    /* When its pages are there the peer is told, not only when all are. */
    fake_serve(&f->d);
    assert_int_equal(said(f).imm, UNETMM_ACK_OK);
    give(f, YOURS, 0, 1);
    assert_true(taken(f, YOURS));
}

/* A part of the buffer is there, the driver owes the rest: that part will do. */
TEST_OF(test_begins_before_all_is_there, Fix *f, fix_test)
{
    struct unetmm_fault fault, rest;

    open_wire(f);
    post(f, 0);
    assert_true(fake_fault(&f->d, &fault));
    assert_int_equal(fault.npages, PAGES);
    give(f, YOURS, 0, 1);
    assert_false(taken(f, YOURS));
    assert_int_equal(fake_resolve(&f->d, &fault, 4, NULL), UNETMM_CS_OK);
    assert_true(fake_fault(&f->d, &rest));
    assert_int_equal(rest.vaddr, BUF(0) + 4 * FAKE_PAGE);
    give(f, YOURS, 0, 1);
    assert_true(taken(f, YOURS));
    assert_int_equal(fake_card(&f->a).fq_cons, 1);
    /* The head has gone, and its miss belongs to nobody. */
    assert_int_equal(fake_resolve(&f->d, &rest, 56, NULL), UNETMM_CS_STALE);
    for (uint32_t i = 1; i < PACKETS; i++) {
        give_until_taken(f, YOURS + i, i * MTU, 1);
    }
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 0);
    fake_check(f->s1, BUF(0), LONG, 1);
}

/* A packet's page can never be had: the buffer goes back, the next one serves. */
TEST_OF(test_bad_page, Fix *f, fix_test)
{
    open_wire(f);
    fake_vpage(f->s1, BUF(0) + FAKE_PAGE)->error = UNETMM_ST_LIMIT;
    post(f, 0);
    post(f, 1);
    give_until_taken(f, YOURS, 0, 1);
    fake_expect(&f->a, UNETMM_CQE_BUFFER, UNETMM_ST_LIMIT, 0);
    for (uint32_t i = 1; i < PACKETS; i++) {
        give_until_taken(f, YOURS + i, i * MTU, 1);
    }
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 1);
}

/* A message may be as long as the largest one, and no longer. */
TEST_OF(test_longest, Fix *f, fix_test)
{
    open_wire(f);
    post(f, 0);
    fake_serve(&f->d);
    for (unsigned i = 0; i < 2; i++) {
        FakeFrame *frame = fake_datagram(&f->a, CH, PEER, MTU, 0);
        struct unetmm_frame *h = fake_header(frame);

        h->opcode = UNETMM_WIRE_SEND;
        h->psn = cpu_to_le32(YOURS);
        h->remote = cpu_to_le64(UNETMM_MAX_MESSAGE + !i);
        fake_seal(frame);
        expect_count(&f->h, drop_rel_bad, !i,
                     expect_count(&f->h, rel_failed, i,
                                  fake_deliver(&f->h, frame)));
        fake_check_counts(&f->h.core);
    }
    fake_wire_clear(&f->h);
}

/* The heads that are asked for fit into the TLB together: to the last page. */
TEST(test_heads_that_fit, fix_test)
{
    static const unsigned pages[][3] = {
        { 40, 40, 1 }, { 40, 41, 1 }, { 1, 79, 1 }, { 60, 20, 1 },
        { 60, 21, 1 },
    };
    Fix *f = *state;

    open_wire(f);
    assert_int_equal(unetmm_tlb_capacity(&f->h.core.source->tlb), 80);
    for (unsigned i = 0; i < G_N_ELEMENTS(pages); i++) {
        unsigned all = 0, asked = 0;
        struct unetmm_fault fault;

        for (unsigned n = 0; n < 3; n++) {
            fake_post(&f->a, BUF(n), pages[i][n] * FAKE_PAGE, n);
        }
        fake_ring_bell(&f->a);
        for (; fake_fault(&f->d, &fault); asked++) {
            assert_int_equal(fault.vaddr, BUF(asked));
            assert_int_equal(fault.npages, pages[i][asked]);
            all += fault.npages;
        }
        assert_true(all <= 80);
        assert_int_equal(asked, pages[i][0] + pages[i][1] <= 80 ? 2 : 1);
        fake_ep_destroy(&f->a);
        fake_ep_open(&f->a, &f->d, 1, f->s1);
        open_channel(f);
    }
}

/*
 * A page of the message's buffer may not be written any more: the buffer comes
 * back, and no packet lands in it.
 */
TEST_OF(test_right_is_lost, Fix *f, fix_test)
{
    FakeSpace *s = fake_space(&f->d, 3, UNETMM_SOURCE_PINNED, 4);
    FakeVpage *page;

    fake_ep_destroy(&f->a);
    fake_map(s, BUF(0), LONG, FAKE_RW);
    fake_ep_open(&f->a, &f->d, 1, s);
    open_channel(f);
    post(f, 0);
    give(f, YOURS, 0, 1);
    assert_true(taken(f, YOURS));
    page = fake_vpage(s, BUF(0) + MTU);
    page->rights = FAKE_R;
    fake_table_set(s, BUF(0) + MTU, fake_pte(page));
    fake_invalidate(s, BUF(0) + MTU, FAKE_PAGE);
    expect_count(&f->h, rel_failed, 1, give(f, YOURS + 1, MTU, 1));
    fake_expect(&f->a, UNETMM_CQE_BUFFER, UNETMM_ST_PROTECTION, 0);
    assert_int_equal(said(f).imm, UNETMM_ACK_FAILED);
    fake_check(s, BUF(0), MTU, 1);
}

/* A page that the driver may be dropping takes no data until it says so. */
TEST(test_contents_may_go, fix_test)
{
    struct unetmm_fqe fqe = { .addr = BUF(0), .len = FAKE_PAGE, .cookie = 9,
                              .flags = UNETMM_FQE_F_ZERO };
    FakeFrame *frame;
    Fix *f = *state;
    struct unetmm_fault fault;

    open_wire(f);
    unetmm_le_fqe(&fqe);
    fake_write(&f->h, f->a.fq, &fqe, sizeof(fqe));
    f->a.fq_prod++;
    fake_user_word(&f->a, offsetof(struct unetmm_ep_user, fq_prod),
                   f->a.fq_prod);
    fake_ring_bell(&f->a);
    assert_true(fake_fault(&f->d, &fault));
    assert_true(fault.flags & UNETMM_FAULT_F_ZERO);
    /* For some other use of the same page. */
    assert_int_equal(fake_insert(f->s1, BUF(0), 1, NULL), UNETMM_CS_OK);
    for (unsigned i = 0; i < 2; i++) {
        struct unetmm_frame *h;

        frame = fake_datagram(&f->a, CH, PEER, FAKE_PAGE, 3);
        h = fake_header(frame);
        h->opcode = UNETMM_WIRE_SEND;
        h->psn = cpu_to_le32(YOURS);
        h->remote = cpu_to_le64(FAKE_PAGE);
        h->flags = cpu_to_le32(UNETMM_WIRE_F_ASK | UNETMM_WIRE_F_LAST);
        fake_seal(frame);
        fake_deliver(&f->h, frame);
        assert_int_equal(taken(f, YOURS), i);
        if (!i) {
            fake_resolve(&f->d, &fault, 1, NULL);
        }
    }
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 9);
}

/* ---- On the card itself: the source is in the same TLB ------------------- */

static void local_run(Fix *f, uint64_t skew)
{
    const uint8_t *own = f->h.core.params.mac;
    uint32_t len = LONG - FAKE_PAGE, sent = 0, got = 0, done = 0;
    const struct unetmm_cmd_channel how = {
        .mtu = MTU, .send_psn = 1, .recv_psn = 1,
    };
    unsigned rounds = 0, misses;
    struct unetmm_cqe cqe;

    fake_map(f->s1, BUF(0), BUFS * 64 * FAKE_PAGE, FAKE_RW);
    fake_map(f->s2, BUF(0), BUFS * 64 * FAKE_PAGE, FAKE_RW);
    fake_channel_rel(&f->a, CH, own, 2, CH, &how);
    fake_channel_rel(&f->b, CH, own, 1, CH, &how);
    for (unsigned i = 0; i < BUFS; i++) {
        fake_post(&f->b, BUF(i) + skew, len, i);
    }
    misses = f->d.misses;
    while (done < 8 || got < 8) {
        if (sent < 8 && sent - done < BUFS) {
            uint64_t at = BUF(sent % BUFS) + skew;

            fake_fill(f->s1, at, len, sent);
            fake_send_at(&f->a, CH, at, len, sent++);
            fake_ring_bell(&f->a);
        }
        fake_serve(&f->d);
        fake_advance(&f->h, 100 * US);
        while (fake_poll(&f->a, &cqe)) {
            assert_int_equal(cqe.status, UNETMM_ST_OK);
            assert_int_equal(cqe.cookie, done++);
        }
        while (fake_poll(&f->b, &cqe)) {
            assert_int_equal(cqe.opcode, UNETMM_CQE_RECEIVED);
            assert_int_equal(cqe.cookie, got % BUFS);
            fake_check(f->s2, BUF(got % BUFS) + skew, len, got);
            fake_post(&f->b, BUF(got++ % BUFS) + skew, len, cqe.cookie);
            fake_ring_bell(&f->b);
        }
        assert_true(++rounds < 2000);
    }
    /* Both ends of a packet, a few times; the heads, for posted buffers. */
    assert_true(f->d.misses - misses <=
                8 * (8 * PACKETS + 2 * UNETMM_HEAD_ASKS));
}

TEST(test_local, fix_test)
{
    local_run(*state, 0);
}

TEST(test_local_skewed, fix_test)
{
    local_run(*state, 100);
}

static void few_victims(UnetmmParams *p)
{
    p->tlb_victims = 2;
}

ALSO(test_local, fix_test_with, few_victims)
ALSO(test_local_skewed, fix_test_with, few_victims)
