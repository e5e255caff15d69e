/*
 * unetmm: the pre-translated heads of the free queues, and the policies
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fixture.h"

#define PAGE(n) (FIX_VA + (uint64_t)(n) * FAKE_PAGE)

static void deliver(Fix *f, uint32_t len, uint32_t n)
{
    fake_deliver(&f->h, fake_datagram(&f->a, FIX_WIRE, 11, len, n));
}

static UnetmmHeadState head_state(Fix *f, unsigned n)
{
    return unetmm_head_at(&f->h.core.eps[1], n)->state;
}

static void absent(Fix *f, unsigned page, bool is)
{
    fake_vpage(f->s1, PAGE(page))->absent = is;
}

static void set_policy(Fix *f, uint8_t policy, uint8_t heads)
{
    assert_int_equal(fake_ep_destroy(&f->a), UNETMM_CS_OK);
    fake_ep_init(&f->a, &f->d, 1, f->s1);
    f->a.policy = policy;
    f->a.pretranslate = heads;
    fake_ep_create(&f->a);
    fake_connect_peer(&f->a, FIX_WIRE, 11, FIX_MTU);
}

/* As many as the setting says are asked for, with the right to write. */
TEST_OF(test_how_many_are_asked, Fix *f, fix_test)
{
    for (unsigned heads = 0; heads <= 4; heads++) {
        struct unetmm_fault fault;
        unsigned n = 0;

        set_policy(f, UNETMM_POLICY_SKIP, heads);
        for (unsigned i = 0; i < 10; i++) {
            fake_post(&f->a, PAGE(i), 4096, i);
        }
        fake_ring_bell(&f->a);
        while (fake_fault(&f->d, &fault)) {
            assert_int_equal(fault.type, UNETMM_FAULT_MISS);
            assert_int_equal(fault.flags, UNETMM_FAULT_F_WRITE |
                             UNETMM_FAULT_F_HEAD);
            assert_int_equal(fault.vaddr, PAGE(n));
            assert_int_equal(fault.npages, 1);
            assert_int_equal(fault.ep, 1);
            assert_int_equal(fault.space, 1);
            n++;
        }
        assert_int_equal(n, heads ?: 4);
    }
}

TEST_OF(test_all_pages_in_one_miss, Fix *f, fix_test)
{
    struct unetmm_fault fault;

    fake_post(&f->a, PAGE(0) + 100, 5 * 4096, 1);
    fake_ring_bell(&f->a);
    assert_true(fake_fault(&f->d, &fault));
    assert_int_equal(fault.npages, 6);
    assert_false(fake_fault(&f->d, &fault));
    assert_int_equal(head_state(f, 0), UNETMM_HEAD_ASKED);
    assert_int_equal(fake_resolve(&f->d, &fault, 6, NULL), UNETMM_CS_OK);
    assert_int_equal(head_state(f, 0), UNETMM_HEAD_READY);
    deliver(f, 5 * 4096, 3);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 1);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_tlb_evictions), 0);
}

/* A partial answer: the head asks for the rest. */
TEST_OF(test_answer_in_pieces, Fix *f, fix_test)
{
    struct unetmm_fault fault;

    fake_post(&f->a, PAGE(0), 4 * 4096, 1);
    fake_ring_bell(&f->a);
    for (unsigned i = 0; i < 4; i++) {
        assert_true(fake_fault(&f->d, &fault));
        assert_int_equal(fault.vaddr, PAGE(i));
        assert_int_equal(fault.npages, 4 - i);
        assert_int_equal(head_state(f, 0), UNETMM_HEAD_ASKED);
        assert_int_equal(fake_resolve(&f->d, &fault, 1, NULL), UNETMM_CS_OK);
    }
    assert_int_equal(head_state(f, 0), UNETMM_HEAD_READY);
}

/* Asked, no answer yet: the message is lost, the buffer stays. */
TEST(test_asked_head_drops, fix_test)
{
    for (unsigned policy = 0; policy < 2; policy++) {
        Fix *f = *state;

        set_policy(f, policy, 0);
        fake_post(&f->a, PAGE(policy), 4096, 1);
        fake_ring_bell(&f->a);
        expect_count(&f->h, drop_asked, 1, deliver(f, 100, 1));
        fake_expect_none(&f->a);
        fake_serve(&f->d);
        deliver(f, 100, 2);
        fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 1);
        fake_check(f->s1, PAGE(policy), 100, 2);
    }
}

TEST_OF(test_skip_returns_deferred, Fix *f, fix_test)
{
    absent(f, 0, true);
    absent(f, 1, true);
    for (unsigned i = 0; i < 4; i++) {
        fake_post(&f->a, PAGE(i), 4096, 10 + i);
    }
    fix_settle(f);
    assert_int_equal(head_state(f, 0), UNETMM_HEAD_DEFERRED);
    assert_int_equal(head_state(f, 1), UNETMM_HEAD_DEFERRED);
    assert_int_equal(head_state(f, 2), UNETMM_HEAD_READY);
    fake_expect_none(&f->a);
    expect_count(&f->h, bufs_skipped, 2, deliver(f, 100, 1));
    fake_expect(&f->a, UNETMM_CQE_BUFFER, UNETMM_ST_SKIPPED, 10);
    fake_expect(&f->a, UNETMM_CQE_BUFFER, UNETMM_ST_SKIPPED, 11);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 12);
    fake_check(f->s1, PAGE(2), 100, 1);
    /* The late answers name heads that are gone. */
    absent(f, 0, false);
    absent(f, 1, false);
    fake_paged_in(&f->d);
    deliver(f, 100, 2);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 13);
    assert_int_equal(fake_card(&f->a).fq_cons, 4);
}

/* Never past the pre-translated ones, even if the next would be resident. */
TEST_OF(test_skip_stays_in_the_window, Fix *f, fix_test)
{
    set_policy(f, UNETMM_POLICY_SKIP, 2);
    absent(f, 0, true);
    absent(f, 1, true);
    /* Page 2 is in the TLB already: it would do. */
    assert_int_equal(fake_insert(f->s1, PAGE(2), 1, NULL), UNETMM_CS_OK);
    for (unsigned i = 0; i < 3; i++) {
        fake_post(&f->a, PAGE(i), 4096, 10 + i);
    }
    fix_settle(f);
    expect_count(&f->h, drop_asked, 1, deliver(f, 100, 1));
    fake_expect(&f->a, UNETMM_CQE_BUFFER, UNETMM_ST_SKIPPED, 10);
    fake_expect(&f->a, UNETMM_CQE_BUFFER, UNETMM_ST_SKIPPED, 11);
    fake_expect_none(&f->a);
    deliver(f, 100, 2);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 12);
}

/* Deferred, then asked: skipped buffers return, the message is lost. */
TEST_OF(test_skip_stops_at_asked, Fix *f, fix_test)
{
    struct unetmm_fault fault[3];

    for (unsigned i = 0; i < 3; i++) {
        fake_post(&f->a, PAGE(i), 4096, 10 + i);
    }
    fake_ring_bell(&f->a);
    for (unsigned i = 0; i < 3; i++) {
        assert_true(fake_fault(&f->d, &fault[i]));
    }
    fake_reply(&f->d, &fault[0], UNETMM_REPLY_DEFERRED, 0);
    fake_resolve(&f->d, &fault[2], 1, NULL);
    expect_count(&f->h, drop_asked, 1, deliver(f, 100, 1));
    fake_expect(&f->a, UNETMM_CQE_BUFFER, UNETMM_ST_SKIPPED, 10);
    fake_expect_none(&f->a);
    fake_resolve(&f->d, &fault[1], 1, NULL);
    deliver(f, 100, 2);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 11);
}

TEST_OF(test_drop_never_returns, Fix *f, fix_test)
{
    set_policy(f, UNETMM_POLICY_DROP, 0);
    absent(f, 0, true);
    fake_post(&f->a, PAGE(0), 4096, 10);
    fake_post(&f->a, PAGE(1), 4096, 11);
    fix_settle(f);
    for (unsigned i = 0; i < 5; i++) {
        expect_count(&f->h, drop_absent, 1, deliver(f, 100, 1));
        fake_expect_none(&f->a);
    }
    absent(f, 0, false);
    fake_paged_in(&f->d);
    deliver(f, 100, 2);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 10);
    deliver(f, 100, 3);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 11);
}

/* Failed heads come back with their status, in their turn, under both. */
TEST(test_failed_heads, fix_test)
{
    for (unsigned policy = 0; policy < 2; policy++) {
        Fix *f = *state;

        set_policy(f, policy, 0);
        fake_vpage(f->s1, PAGE(1))->error = UNETMM_ST_LIMIT;
        fake_vpage(f->s1, PAGE(2))->error = UNETMM_ST_UNSUPPORTED;
        fake_vpage(f->s1, PAGE(3))->rights = FAKE_R;
        for (unsigned i = 0; i < 4; i++) {
            fake_post(&f->a, PAGE(i), 4096, 10 + i);
        }
        fix_settle(f);
        /* Not before the one ahead of them has gone. */
        fake_expect_none(&f->a);
        deliver(f, 100, 1);
        fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 10);
        fake_expect(&f->a, UNETMM_CQE_BUFFER, UNETMM_ST_LIMIT, 11);
        fake_expect(&f->a, UNETMM_CQE_BUFFER, UNETMM_ST_UNSUPPORTED, 12);
        fake_expect(&f->a, UNETMM_CQE_BUFFER, UNETMM_ST_PROTECTION, 13);
        assert_int_equal(fake_ep_counter(&f->h, 1, UNETMM_C_bufs_failed), 3);
        assert_int_equal(fake_card(&f->a).fq_cons, 4);
    }
}

static void put_fqe(FakeEp *ep, const struct unetmm_fqe *fqe)
{
    fake_post_fqes(ep, fqe, 1);
    fake_ring_bell(ep);
}

TEST_OF(test_malformed_buffers, Fix *f, fix_test)
{
    const struct unetmm_fqe good = { .addr = FIX_VA, .len = 4096,
                                     .cookie = 5 };

#define BAD(change, status) do { \
        struct unetmm_fqe q = good; \
        change; \
        put_fqe(&f->a, &q); \
        fake_expect(&f->a, UNETMM_CQE_BUFFER, status, 5); \
    } while (0)
    for (unsigned bit = 0; bit < 32; bit++) {
        if (!(UNETMM_FQE_F_ALL >> bit & 1)) {
            BAD(q.flags = 1u << bit, UNETMM_ST_BAD_DESC);
        }
    }
    /* Not a whole page, or more than one */
    BAD((q.flags = UNETMM_FQE_F_ZERO, q.len = 4095), UNETMM_ST_BAD_DESC);
    BAD((q.flags = UNETMM_FQE_F_ZERO, q.len = 4097), UNETMM_ST_BAD_DESC);
    BAD((q.flags = UNETMM_FQE_F_ZERO, q.len = 8192), UNETMM_ST_BAD_DESC);
    BAD((q.flags = UNETMM_FQE_F_ZERO, q.addr++), UNETMM_ST_BAD_DESC);
    BAD((q.flags = UNETMM_FQE_F_ZERO, q.addr += 2048), UNETMM_ST_BAD_DESC);
    BAD((q.flags = UNETMM_FQE_F_ZERO | UNETMM_FQE_F_CHAIN), UNETMM_ST_BAD_DESC);
    for (unsigned bit = 0; bit < 64; bit++) {
        BAD(q.rsvd = 1ull << bit, UNETMM_ST_BAD_DESC);
    }
    BAD(q.len = 0, UNETMM_ST_BAD_DESC);
    BAD((q.addr = UINT64_MAX, q.len = 2), UNETMM_ST_BAD_DESC);
    BAD((q.addr = UINT64_MAX - 0xfffffffd, q.len = 0xffffffff),
        UNETMM_ST_BAD_DESC);
    /* 64 + 16 entries: 80 pages fit, 81 never will. */
    BAD(q.len = 81 * 4096, UNETMM_ST_TOO_LARGE);
    BAD((q.addr += 1, q.len = 80 * 4096), UNETMM_ST_TOO_LARGE);
    BAD(q.len = 0xffffffff, UNETMM_ST_TOO_LARGE);
#undef BAD
    assert_int_equal(fake_counter(&f->h, UNETMM_C_faults_head), 0);
}

/* The largest buffer that the TLB can hold really becomes ready. */
TEST_OF(test_largest_buffer, Fix *f, fix_test)
{
    fake_map(f->s1, 0x100000, 80 * 4096, FAKE_RW);
    fake_post(&f->a, 0x100000, 80 * 4096, 1);
    fix_settle(f);
    assert_int_equal(head_state(f, 0), UNETMM_HEAD_READY);
    deliver(f, 65536, 1);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 1);
    fake_check(f->s1, 0x100000, 65536, 1);
}

/* Heads are ordinary entries: evicted, they are asked for again. */
TEST_OF(test_evicted_head_is_asked_again, Fix *f, fix_test)
{
    unsigned asked;
    uint32_t id;

    fake_post(&f->a, PAGE(0), 4096, 1);
    fix_settle(f);
    asked = fake_vpage(f->s1, PAGE(0))->asked;
    unetmm_tlb_lookup(&f->h.core.source->tlb, 1, PAGE(0) >> 12, true, &id);
    assert_true(unetmm_tlb_evict_one(&f->h.core.source->tlb, id));
    assert_int_equal(head_state(f, 0), UNETMM_HEAD_CHECK);
    unetmm_core_run(&f->h.core);
    assert_int_equal(head_state(f, 0), UNETMM_HEAD_ASKED);
    fake_serve(&f->d);
    assert_int_equal(fake_vpage(f->s1, PAGE(0))->asked, asked + 1);
    deliver(f, 100, 1);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 1);
}

TEST_OF(test_invalidated_head_is_asked_again, Fix *f, fix_test)
{
    fake_post(&f->a, PAGE(0), 3 * 4096, 1);
    fix_settle(f);
    assert_false(fake_invalidate(f->s1, PAGE(1), 4096));
    assert_int_equal(head_state(f, 0), UNETMM_HEAD_ASKED);
    expect_count(&f->h, drop_asked, 1, deliver(f, 100, 1));
    fake_serve(&f->d);
    deliver(f, 9000, 2);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 1);
    fake_check(f->s1, PAGE(0), 9000, 2);
}

static void tiny_tlb(UnetmmParams *p)
{
    p->tlb_sets = 2;
    p->tlb_victims = 0;
    p->pretranslate = 16;
}

/* Heads that do not fit together: the driver is not kept busy for ever. */
TEST_OF(test_no_infinite_trade, Fix *f, fix_test_with, tiny_tlb)
{
    for (unsigned i = 0; i < 12; i++) {
        fake_post(&f->a, PAGE(i), 4096, i);
        fake_post(&f->b, PAGE(i), 4096, i);
    }
    for (unsigned round = 0; round < 5; round++) {
        unsigned before = f->d.misses;

        fix_settle(f);
        /* Each head may ask UNETMM_HEAD_ASKS times in one activity; there
         * were two bells. */
        assert_true(f->d.misses - before <= 2 * 24 * UNETMM_HEAD_ASKS);
        unetmm_core_run(&f->h.core);
        fake_serve(&f->d);
        assert_true(f->d.misses - before <= 2 * 24 * UNETMM_HEAD_ASKS);
    }
    /* And a head in its turn still gets its page. */
    for (unsigned i = 0; i < 12; i++) {
        struct unetmm_cqe cqe;
        unsigned tries = 0;

        while (!fake_poll(&f->a, &cqe)) {
            assert_true(++tries < 4);
            deliver(f, 100, i);
            fake_serve(&f->d);
        }
        assert_int_equal(cqe.opcode, UNETMM_CQE_RECEIVED);
        assert_int_equal(cqe.cookie, i);
        fake_check(f->s1, PAGE(i), 100, i);
    }
}

/* A failed first head waits for room in the completion queue, not for luck. */
static void take_when_published(FakeHost *host, uint64_t addr, size_t bytes)
{
    Fix *f = container_of(host, Fix, h);
    struct unetmm_cqe cqe;

    if (addr == f->a.index + 64 &&
        fake_card(&f->a).state & UNETMM_EP_CQ_BLOCKED) {
        while (fake_poll(&f->a, &cqe)) {
        }
    }
}

TEST_OF(test_failed_head_room_race, Fix *f, fix_test)
{
    for (unsigned i = 0; i < 16; i++) {
        deliver(f, 8, i);
    }
    f->h.on_write = take_when_published;
    fake_post(&f->a, PAGE(0), 0, 7);
    /* Publishing "blocked" makes the process look; the card then
     * looks at its word again and goes on.  */
    f->h.core.eps[1].publish = true;
    fake_ring_bell(&f->a);
    fake_expect(&f->a, UNETMM_CQE_BUFFER, UNETMM_ST_BAD_DESC, 7);
}

/* Several small buffers in one page: one report. */
TEST_OF(test_one_report_for_one_page, Fix *f, fix_test)
{
    for (unsigned i = 0; i < 4; i++) {
        fake_post(&f->a, PAGE(0) + 256 * i, 256, i);
    }
    fix_settle(f);
    assert_int_equal(f->d.misses, 1);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(head_state(f, i), UNETMM_HEAD_READY);
    }
    for (unsigned i = 0; i < 4; i++) {
        deliver(f, 200, i);
        fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, i);
        fake_check(f->s1, PAGE(0) + 256 * i, 200, i);
    }
}

#define HEAD_FLAGS  (UNETMM_FAULT_F_WRITE | UNETMM_FAULT_F_HEAD)

static void post_zero(Fix *f, unsigned page, uint64_t cookie)
{
    struct unetmm_fqe q = { .addr = PAGE(page), .len = 4096, .cookie = cookie,
                            .flags = UNETMM_FQE_F_ZERO };

    put_fqe(&f->a, &q);
}

static struct unetmm_fault expect_head_miss(Fix *f, unsigned page,
                                            uint8_t flags)
{
    struct unetmm_fault fault;

    assert_true(fake_fault(&f->d, &fault));
    assert_int_equal(fault.type, UNETMM_FAULT_MISS);
    assert_int_equal(fault.vaddr, PAGE(page));
    assert_int_equal(fault.npages, 1);
    assert_int_equal(fault.flags, HEAD_FLAGS | flags);
    return fault;
}

/* The poster's word reaches the driver, each time that the page is asked for. */
TEST_OF(test_zero_is_passed_on, Fix *f, fix_test)
{
    struct unetmm_fault fault;

    post_zero(f, 0, 7);
    fault = expect_head_miss(f, 0, UNETMM_FAULT_F_ZERO);
    assert_int_equal(fake_resolve(&f->d, &fault, 1, NULL), UNETMM_CS_OK);
    fake_invalidate(f->s1, PAGE(0), 4096);
    fault = expect_head_miss(f, 0, UNETMM_FAULT_F_ZERO);
    assert_int_equal(fake_reply(&f->d, &fault, UNETMM_REPLY_RETRY, 0),
                     UNETMM_CS_OK);
    fault = expect_head_miss(f, 0, UNETMM_FAULT_F_ZERO);
    assert_int_equal(fake_resolve(&f->d, &fault, 1, NULL), UNETMM_CS_OK);
    deliver(f, 3000, 1);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 7);
    fake_check(f->s1, PAGE(0), 3000, 1);
}

/*
 * A buffer that was deferred may be its owner's again before the answer comes:
 * a repeated miss for it does not say that it may be lost.
 */
TEST_OF(test_zero_ends_with_deferred, Fix *f, fix_test)
{
    struct unetmm_fault fault, again;

    post_zero(f, 0, 7);
    fault = expect_head_miss(f, 0, UNETMM_FAULT_F_ZERO);
    assert_int_equal(fake_reply(&f->d, &fault, UNETMM_REPLY_DEFERRED, 0),
                     UNETMM_CS_OK);
    /* A buffer posted now has a miss of its own, and may lose it. */
    post_zero(f, 0, 8);
    again = expect_head_miss(f, 0, UNETMM_FAULT_F_ZERO);
    assert_int_equal(fake_reply(&f->d, &again, UNETMM_REPLY_DEFERRED, 0),
                     UNETMM_CS_OK);
    assert_int_equal(fake_reply(&f->d, &fault, UNETMM_REPLY_RETRY, 0),
                     UNETMM_CS_OK);
    assert_int_equal(head_state(f, 0), UNETMM_HEAD_DEFERRED);
    deliver(f, 3000, 1);
    fake_expect(&f->a, UNETMM_CQE_BUFFER, UNETMM_ST_SKIPPED, 7);
    fake_expect(&f->a, UNETMM_CQE_BUFFER, UNETMM_ST_SKIPPED, 8);
    assert_false(fake_fault(&f->d, &fault));
    assert_int_equal(fake_reply(&f->d, &again, UNETMM_REPLY_RETRY, 0),
                     UNETMM_CS_STALE);
}

/* In the window the retried one is asked for plainly. */
TEST_OF(test_zero_retried_after_deferred, Fix *f, fix_test)
{
    struct unetmm_fault fault;

    post_zero(f, 0, 7);
    fault = expect_head_miss(f, 0, UNETMM_FAULT_F_ZERO);
    fake_reply(&f->d, &fault, UNETMM_REPLY_DEFERRED, 0);
    fake_reply(&f->d, &fault, UNETMM_REPLY_RETRY, 0);
    fault = expect_head_miss(f, 0, 0);
    assert_int_equal(fake_resolve(&f->d, &fault, 1, NULL), UNETMM_CS_OK);
    /* Translated, it is the card's alone again. */
    fake_invalidate(f->s1, PAGE(0), 4096);
    fault = expect_head_miss(f, 0, UNETMM_FAULT_F_ZERO);
    assert_int_equal(fake_resolve(&f->d, &fault, 1, NULL), UNETMM_CS_OK);
    deliver(f, 3000, 1);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 7);
}

/* A miss that needs the contents does not join one that does not. */
TEST_OF(test_zero_joins_its_kind, Fix *f, fix_test)
{
    fake_post(&f->a, PAGE(0), 4096, 1);
    post_zero(f, 0, 2);
    post_zero(f, 0, 3);
    fake_post(&f->a, PAGE(0), 4096, 4);
    fake_ring_bell(&f->a);
    expect_head_miss(f, 0, 0);
    expect_head_miss(f, 0, UNETMM_FAULT_F_ZERO);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_faults_joined), 2);
}

/* A head returned while its answer is under way makes the answer stale. */
TEST_OF(test_closing_ends_pretranslation, Fix *f, fix_test)
{
    struct unetmm_fault fault;

    fake_post(&f->a, PAGE(0), 4096, 1);
    fake_ring_bell(&f->a);
    assert_true(fake_fault(&f->d, &fault));
    assert_int_equal(fake_ep_destroy(&f->a), UNETMM_CS_OK);
    assert_int_equal(fake_resolve(&f->d, &fault, 1, NULL), UNETMM_CS_STALE);
    assert_int_equal(f->h.core.source->tlb.used, 0);
    assert_int_equal(f->h.core.miss->in_flight_used, 0);
}

/* ---- Buffers that are far longer than their messages ---- */

#define LONG_PAGES  200

static void large_caches(UnetmmParams *p)
{
    p->tlb_sets = p->cache_entries = 1024;
}

static uint64_t looked_up(const Fix *f)
{
    const uint64_t *c = f->h.core.counters;

    return c[UNETMM_C_tlb_hits] + c[UNETMM_C_tlb_victim_hits] +
           c[UNETMM_C_tlb_misses] + c[UNETMM_C_cache_hits] +
           c[UNETMM_C_cache_misses];
}

/* Source tlb: `present` pages of the buffers are there from the start. */
static void open_long(Fix *f, uint8_t source, unsigned present)
{
    f->s1 = fake_space(&f->d, 1, source, source == UNETMM_SOURCE_TLB ? 0 : 4);
    fake_map(f->s1, FIX_VA, LONG_PAGES * FAKE_PAGE, FAKE_RW);
    for (unsigned i = 0; i < present && source == UNETMM_SOURCE_TLB; i++) {
        fake_insert(f->s1, PAGE(i), 1, NULL);
    }
    fake_ep_init(&f->a, &f->d, 1, f->s1);
    f->a.fq_log2 = f->a.cq_log2 = 7;
    f->a.pretranslate = 1;
    fake_ep_create(&f->a);
    fake_connect_peer(&f->a, FIX_WIRE, 11, FIX_MTU);
    f->h.stuck = true;
}

/* The cost of receiving n messages, whatever else is to be looked at. */
static uint64_t cost(Fix *f, unsigned n, uint32_t len)
{
    uint64_t before = looked_up(f);

    for (unsigned i = 0; i < n; i++) {
        deliver(f, len, i);
        fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, i);
    }
    return looked_up(f) - before;
}

/* The cost follows the message, however long the buffer. */
TEST(test_cost_follows_message, fix_test_bare, large_caches)
{
    static const uint8_t sources[] = {
        UNETMM_SOURCE_PINNED, UNETMM_SOURCE_TLB, UNETMM_SOURCE_UTLB,
        UNETMM_SOURCE_SHADOW, UNETMM_SOURCE_ODP,
    };
    static const uint32_t lens[] = { 100, 9000, 65536 };
    UnetmmParams p;
    Fix *f = *state;

    fake_params(&p);
    large_caches(&p);
    for (unsigned s = 0; s < G_N_ELEMENTS(sources); s++) {
        for (unsigned l = 0; l < G_N_ELEMENTS(lens); l++) {
            uint64_t pages = unetmm_pte_pages(FIX_VA, lens[l]);

            fake_driver_free(&f->d);
            fake_host_again(&f->h, &p);
            fake_driver_init(&f->d, &f->h);
            fake_driver_start(&f->d);
            open_long(f, sources[s], LONG_PAGES);
            for (unsigned i = 0; i < 8; i++) {
                fake_post(&f->a, FIX_VA, LONG_PAGES * FAKE_PAGE, i);
            }
            fake_ring_bell(&f->a);
            fake_run_later(&f->h);
            assert_int_equal(head_state(f, 0), UNETMM_HEAD_READY);
            /* Source shadow looks once more at each page that it locks. */
            assert_in_range(cost(f, 4, lens[l]), 4 * pages,
                            4 * (2 * pages + UNETMM_HEAD_STEP));
        }
    }
}

/* Pages ahead are looked at in the end, a few at a time. */
TEST_OF(test_long_head_is_looked_at_in_turns, Fix *f, fix_test_bare, large_caches)
{
    unsigned runs = 0;
    struct unetmm_fault fault;

    open_long(f, UNETMM_SOURCE_TLB, LONG_PAGES - 10);
    fake_post(&f->a, FIX_VA, LONG_PAGES * FAKE_PAGE, 7);
    fake_ring_bell(&f->a);
    while (head_state(f, 0) == UNETMM_HEAD_CHECK) {
        uint64_t before = looked_up(f);

        assert_false(fake_fault(&f->d, &fault));
        assert_true(f->h.later);
        f->h.later = 0;
        unetmm_core_run(&f->h.core);
        assert_true(looked_up(f) - before <= 2 * UNETMM_HEAD_STEP);
        runs++;
    }
    assert_true(runs >= (LONG_PAGES - 10) / UNETMM_HEAD_STEP - 1);
    assert_true(fake_fault(&f->d, &fault));
    assert_int_equal(fault.vaddr, PAGE(LONG_PAGES - 10));
    assert_int_equal(fault.npages, 10);
    assert_int_equal(fake_resolve(&f->d, &fault, 10, NULL), UNETMM_CS_OK);
    assert_true(fake_run_later(&f->h) < 2 * LONG_PAGES / UNETMM_HEAD_STEP);
    assert_int_equal(head_state(f, 0), UNETMM_HEAD_READY);
    /* And it is known when one of them goes. */
    fake_invalidate(f->s1, PAGE(150), 4096);
    fake_run_later(&f->h);
    assert_true(fake_fault(&f->d, &fault));
    assert_int_equal(fault.vaddr, PAGE(150));
}

/* A page that goes while the others are looked at is not taken for seen. */
TEST_OF(test_lost_while_looked_at, Fix *f, fix_test_bare, large_caches)
{
    struct unetmm_fault fault;

    open_long(f, UNETMM_SOURCE_TLB, LONG_PAGES);
    fake_post(&f->a, FIX_VA, LONG_PAGES * FAKE_PAGE, 7);
    fake_ring_bell(&f->a);
    assert_int_equal(head_state(f, 0), UNETMM_HEAD_CHECK);
    fake_invalidate(f->s1, PAGE(2), 4096);
    fake_run_later(&f->h);
    assert_true(fake_fault(&f->d, &fault));
    assert_int_equal(fault.vaddr, PAGE(2));
}

/* Heads that may not ask any more do not keep the main loop going. */
TEST_OF(test_given_up_heads_end, Fix *f, fix_test_bare, large_caches)
{
    struct unetmm_fault fault;

    open_long(f, UNETMM_SOURCE_TLB, 20);
    for (unsigned i = 0; i < 4; i++) {
        fake_post(&f->a, FIX_VA, 30 * FAKE_PAGE, i);
    }
    fake_ring_bell(&f->a);
    for (unsigned i = 0; i < 20; i++) {
        assert_true(fake_run_later(&f->h) < 100);
        while (fake_fault(&f->d, &fault)) {
            /* One page each time: it gives up before it has them all. */
            fake_resolve(&f->d, &fault, 1, NULL);
        }
    }
    assert_int_equal(head_state(f, 0), UNETMM_HEAD_CHECK);
    assert_int_equal(f->h.later, 0);
    /* To a message that needs no missing page it is as good as any. */
    deliver(f, 100, 1);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 0);
}

static void slow_and_large(UnetmmParams *p)
{
    large_caches(p);
    p->dma_page_ns = 1000;
}

/* Only pages that the message touches are busy while it lands. */
TEST_OF(test_only_touched_pages_are_held, Fix *f, fix_test_bare, slow_and_large)
{
    open_long(f, UNETMM_SOURCE_TLB, LONG_PAGES);
    fake_post(&f->a, FIX_VA, LONG_PAGES * FAKE_PAGE, 7);
    fake_ring_bell(&f->a);
    fake_run_later(&f->h);
    deliver(f, 9000, 1);
    for (unsigned i = 0, busy = 0; i < unetmm_tlb_capacity(&f->h.core.source->tlb);
         i++) {
        busy += f->h.core.source->tlb.entries[i].busy != 0;
        assert_true(busy <= 3);
    }
    /* A page that it does not touch goes meanwhile, to nobody's harm. */
    fake_invalidate(f->s1, PAGE(100), 4096);
    fake_advance(&f->h, 5000);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 7);
    fake_check(f->s1, FIX_VA, 9000, 1);
}

/* The end of a channel comes behind a message of it that still lands. */
TEST_OF(test_end_waits_for_a_landing, Fix *f, fix_test_bare, slow_and_large)
{
    open_long(f, UNETMM_SOURCE_TLB, LONG_PAGES);
    f->h.core.eps[1].channels[FIX_WIRE].tells_end = true;
    fake_post(&f->a, FIX_VA, LONG_PAGES * FAKE_PAGE, 7);
    fake_ring_bell(&f->a);
    fake_run_later(&f->h);
    deliver(f, 9000, 1);
    assert_int_equal(fake_channel_clear(&f->a, FIX_WIRE,
                                        UNETMM_CHANNEL_F_TELL), 2);
    fake_ring_bell(&f->a);
    fake_expect_none(&f->a);
    fake_advance(&f->h, 5000);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 7);
    fake_expect(&f->a, UNETMM_CQE_CLOSED, UNETMM_ST_BAD_CHANNEL, 0);
    assert_int_equal(fake_channel_clear(&f->a, FIX_WIRE,
                                        UNETMM_CHANNEL_F_TELL), 0);
    fake_expect_none(&f->a);
}
