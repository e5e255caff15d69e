/*
 * unetmm: source ktlb: the driver's queues and page lists
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fixture.h"

#define LIST    0x40000ull      /* the "address" in descriptors */

static void open_ktlb(Fix *f, FakeSpace **s, FakeEp *ep)
{
    *s = fake_space(&f->d, 3, UNETMM_SOURCE_KTLB, 4);
    fake_ep_open(ep, &f->d, 3, *s);
    fake_connect_peer(ep, FIX_WIRE, 13, FIX_MTU);
}

static void send(FakeEp *ep, uint64_t at, uint32_t len)
{
    fake_send_at(ep, FIX_WIRE, at, len, at);
    fake_ring_bell(ep);
}

/* The one record that is there: a miss of so many pages. */
static struct unetmm_fault expect_miss(Fix *f, uint64_t at, uint32_t npages,
                                       bool write)
{
    struct unetmm_fault fault, other;

    assert_true(fake_fault(&f->d, &fault));
    assert_int_equal(fault.type, UNETMM_FAULT_MISS);
    assert_int_equal(fault.space, 3);
    assert_int_equal(fault.vaddr, at);
    assert_int_equal(fault.npages, npages);
    assert_int_equal(!!(fault.flags & UNETMM_FAULT_F_WRITE), write);
    assert_false(fake_fault(&f->d, &other));
    return fault;
}

/* With its lists filled the card asks for nothing. */
TEST_OF(test_filled, Fix *f, fix_test)
{
    FakeSpace *s;
    FakeEp e;

    open_ktlb(f, &s, &e);
    fake_map(s, LIST, 3 * 4096, FAKE_RW);
    fake_fill(s, LIST + 100, 8000, 1);
    send(&e, LIST + 100, 8000);
    fake_expect(&e, UNETMM_CQE_SENT, UNETMM_ST_OK, LIST + 100);
    fake_check_frame(fake_wire_at(&f->h, 0), 8000, 1);
    fake_post(&e, LIST, 9000, 4);
    fake_ring_bell(&e);
    fix_receive(f, &e, 8888, 5);
    fake_expect(&e, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 4);
    fake_check(s, LIST, 8888, 5);
    assert_int_equal(f->d.ring[UNETMM_RING_FAULT].index, 0);
}

/* The producers are the driver's; the process's words for them mean nothing. */
TEST_OF(test_posts, Fix *f, fix_test)
{
    struct unetmm_ep_card card;
    FakeSpace *s;
    FakeEp e;

    open_ktlb(f, &s, &e);
    fake_map(s, LIST, 4096, FAKE_RW);
    fake_write32(&f->h, e.index, 5);
    fake_write32(&f->h, e.index + 4, 0xffffff00);
    fake_ring_bell(&e);
    fake_expect_none(&e);
    assert_int_equal(fake_card(&e).state, UNETMM_EP_RUNNING);
    send(&e, LIST, 100);
    fake_expect(&e, UNETMM_CQE_SENT, UNETMM_ST_OK, LIST);
    /* Both are told how far the card is. */
    fake_read(&f->h, e.posts + 64, &card, sizeof(card));
    unetmm_le_card(&card);
    assert_int_equal(card.sq_cons, 1);
    assert_int_equal(fake_card(&e).sq_cons, 1);
    /* The driver's own words are checked like a process's. */
    fake_user_word(&e, offsetof(struct unetmm_ep_user, sq_prod), 1000);
    fake_ring_bell(&e);
    fake_expect(&e, UNETMM_CQE_FAILED, UNETMM_ST_BAD_INDEX, 0);
}

/* Source and posts go together, and posts is aligned. */
TEST_OF(test_create, Fix *f, fix_test)
{
    struct unetmm_cmd cmd;
    FakeSpace *s, *p;
    FakeEp e;

    s = fake_space(&f->d, 3, UNETMM_SOURCE_KTLB, 4);
    p = fake_space(&f->d, 4, UNETMM_SOURCE_PINNED, 4);
    fake_ep_init(&e, &f->d, 3, s);
    fake_ep_alloc(&e);
    cmd = fake_ep_cmd(&e);
    cmd.ep_create.posts = 0;
    assert_int_equal(fake_command(&f->d, cmd, NULL), UNETMM_CS_BAD_ARG);
    cmd.ep_create.posts = e.posts + 64;
    assert_int_equal(fake_command(&f->d, cmd, NULL), UNETMM_CS_BAD_ARG);
    cmd = fake_ep_cmd(&e);
    cmd.space = p->id;
    assert_int_equal(fake_command(&f->d, cmd, NULL), UNETMM_CS_BAD_ARG);
    fake_ep_create(&e);
}

/* A send meets an entry that was withdrawn: it waits, and goes on. */
TEST_OF(test_send_asks, Fix *f, fix_test)
{
    struct unetmm_fault fault;
    FakeSpace *s;
    FakeEp e;

    open_ktlb(f, &s, &e);
    fake_map(s, LIST, 2 * 4096, FAKE_RW);
    fake_fill(s, LIST, 8192, 7);
    fake_table_set(s, LIST + 4096, 0);
    send(&e, LIST, 8192);
    fake_expect_none(&e);
    fault = expect_miss(f, LIST + 4096, 1, false);
    /* Deferred, then still not there: asked again. */
    assert_int_equal(fake_reply(&f->d, &fault, UNETMM_REPLY_DEFERRED, 0),
                     UNETMM_CS_OK);
    assert_int_equal(fake_reply(&f->d, &fault, UNETMM_REPLY_RESOLVED, 0),
                     UNETMM_CS_OK);
    assert_int_equal(fake_reply(&f->d, &fault, UNETMM_REPLY_RESOLVED, 0),
                     UNETMM_CS_STALE);
    fault = expect_miss(f, LIST + 4096, 1, false);
    fake_table_set(s, LIST + 4096, fake_vpage(s, LIST + 4096)->dma | 7);
    assert_int_equal(fake_reply(&f->d, &fault, UNETMM_REPLY_RESOLVED, 0),
                     UNETMM_CS_OK);
    fake_expect(&e, UNETMM_CQE_SENT, UNETMM_ST_OK, LIST);
    fake_check_frame(fake_wire_at(&f->h, 0), 8192, 7);
    /* A reply brings no pages of its own. */
    assert_int_equal(fake_insert(s, LIST, 1, NULL), UNETMM_CS_BAD_ARG);
}

TEST_OF(test_send_refused, Fix *f, fix_test)
{
    struct unetmm_fault fault;
    FakeSpace *s;
    FakeEp e;

    open_ktlb(f, &s, &e);
    send(&e, LIST, 100);
    fault = expect_miss(f, LIST, 1, false);
    fake_reply(&f->d, &fault, UNETMM_REPLY_ERROR, UNETMM_ST_LIMIT);
    fake_expect(&e, UNETMM_CQE_SENT, UNETMM_ST_LIMIT, LIST);
}

/*
 * A posted buffer's entry is withdrawn, another page takes its place: the card
 * asks for it, and never writes where the old entry led.
 */
TEST_OF(test_withdrawn, Fix *f, fix_test)
{
    struct unetmm_fault fault;
    FakeSpace *s;
    FakeEp e;
    uint64_t other;

    open_ktlb(f, &s, &e);
    fake_map(s, LIST, 4096, FAKE_RW);
    fake_post(&e, LIST, 4096, 1);
    fake_ring_bell(&e);
    fake_table_set(s, LIST, 0);
    assert_false(fake_invalidate(s, LIST, 4096));
    fake_rights(&f->h, fake_vpage(s, LIST)->dma, 4096, 0);
    fault = expect_miss(f, LIST, 1, true);
    expect_count(&f->h, drop_asked, 1, fix_receive(f, &e, 500, 3));
    fake_expect_none(&e);
    other = fake_page(&f->h);
    fake_vpage(s, LIST)->dma = other;
    fake_rights(&f->h, other, 4096, FAKE_RW);
    fake_table_set(s, LIST, other | 7);
    fake_reply(&f->d, &fault, UNETMM_REPLY_RESOLVED, 0);
    fix_receive(f, &e, 500, 4);
    fake_expect(&e, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 1);
    fake_check(s, LIST, 500, 4);
}

/* Entries without the right are no way round it, and are not asked for. */
TEST_OF(test_rights, Fix *f, fix_test)
{
    FakeSpace *s;
    FakeEp e;

    open_ktlb(f, &s, &e);
    fake_map(s, LIST, 4096, FAKE_R);
    fake_post(&e, LIST, 100, 1);
    fake_ring_bell(&e);
    fake_expect(&e, UNETMM_CQE_BUFFER, UNETMM_ST_PROTECTION, 1);
}
