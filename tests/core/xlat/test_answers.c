/*
 * unetmm: the driver's answers to misses, late, failed and refused on request
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fixture.h"

#define PAGE(n) FIX_PAGE(n)
#define ALWAYS  1000000
#define LATE_NS 5000

static struct unetmm_fault take(Fix *f)
{
    struct unetmm_fault fault;

    assert_true(fake_fault(&f->d, &fault));
    assert_int_equal(fault.type, UNETMM_FAULT_MISS);
    return fault;
}

/* Another endpoint of a's process. */
static void third(Fix *f, FakeEp *c)
{
    fake_ep_open(c, &f->d, 3, f->s1);
    fake_connect_peer(c, FIX_WIRE, 13, FIX_MTU);
}

/* The miss of a short message, after it has been answered. */
static void send_and_resolve(Fix *f, FakeEp *ep, unsigned page,
                             uint64_t cookie)
{
    struct unetmm_fault m;

    fix_send(f, ep, page, 100, cookie);
    m = take(f);
    fake_resolve(&f->d, &m, 1, NULL);
}

static void late(Fix *f)
{
    f->h.core.knobs.fault_delay = ALWAYS;
    f->h.core.knobs.fault_delay_ns = LATE_NS;
}

static bool in_tlb(Fix *f, FakeSpace *s, uint64_t vpn)
{
    uint32_t id;

    return unetmm_tlb_lookup(&f->h.core.source->tlb, s->id, vpn, false, &id) !=
           UNETMM_TLB_MISS;
}

/* The driver has pinned the card's pages, neither more nor less. */
static void same_pins(Fix *f)
{
    for (unsigned i = 0; i < FIX_PAGES; i++) {
        for (unsigned k = 0; k < 2; k++) {
            FakeSpace *s = k ? f->s2 : f->s1;
            FakeVpage *page = fake_vpage(s, PAGE(i));

            assert_int_equal(page->pins > 0, in_tlb(f, s, page->vpn));
        }
    }
}

/* ---- Late --------------------------------------------------------------- */

/* The driver is done with it at once; the waiting one is told later. */
TEST_OF(test_late, Fix *f, fix_test)
{
    struct unetmm_fault m;
    uint32_t taken;

    late(f);
    fix_send(f, &f->a, 2, 3 * 4096, 1);
    m = take(f);
    assert_int_equal(fake_resolve(&f->d, &m, 3, &taken), UNETMM_CS_OK);
    assert_int_equal(taken, 3);
    assert_true(in_tlb(f, f->s1, PAGE(4) >> 12));
    assert_int_equal(fake_counter(&f->h, UNETMM_C_inj_fault_late), 1);
    assert_int_equal(f->h.core.miss->asked, 1);
    fake_ring_bell(&f->a);
    fake_expect_none(&f->a);
    fix_no_fault(f);
    /* Another answer to it is one too many. */
    assert_int_equal(fake_reply(&f->d, &m, UNETMM_REPLY_RETRY, 0),
                     UNETMM_CS_STALE);
    assert_in_range(f->h.timer, f->h.now + 1, f->h.now + LATE_NS);
    fake_advance(&f->h, f->h.timer - f->h.now - 1);
    fake_expect_none(&f->a);
    fake_advance(&f->h, 1);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    assert_int_equal(f->h.core.miss->asked, 0);
    assert_int_equal(f->h.core.miss->in_flight_used, 0);
    assert_int_equal(f->h.timer, INT64_MAX);
    same_pins(f);
}

/* Without a time it counts at once, and is counted. */
TEST_OF(test_late_without_time, Fix *f, fix_test)
{
    late(f);
    f->h.core.knobs.fault_delay_ns = 0;
    send_and_resolve(f, &f->a, 2, 1);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_inj_fault_late), 1);
}

TEST_OF(test_late_error, Fix *f, fix_test)
{
    struct unetmm_fault m;

    late(f);
    fix_send(f, &f->a, 2, 100, 1);
    m = take(f);
    assert_int_equal(fake_reply(&f->d, &m, UNETMM_REPLY_ERROR,
                                UNETMM_ST_UNSUPPORTED), UNETMM_CS_OK);
    fake_expect_none(&f->a);
    fake_advance(&f->h, LATE_NS);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_UNSUPPORTED, 1);
    assert_int_equal(fake_ep_counter(&f->h, 1, UNETMM_C_faults_error), 1);
}

/* An answer behind DEFERRED can be late; DEFERRED and RETRY cannot. */
TEST_OF(test_late_after_deferred, Fix *f, fix_test)
{
    struct unetmm_fault m;

    late(f);
    fix_send(f, &f->a, 2, 100, 1);
    m = take(f);
    fake_reply(&f->d, &m, UNETMM_REPLY_RETRY, 0);
    m = take(f);
    fake_reply(&f->d, &m, UNETMM_REPLY_DEFERRED, 0);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_inj_fault_late), 0);
    assert_int_equal(f->h.core.miss->asked, 0);
    fake_resolve(&f->d, &m, 1, NULL);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_inj_fault_late), 1);
    fake_expect_none(&f->a);
    fake_advance(&f->h, LATE_NS);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
}

/* The page has gone again when the answer counts: it is asked for anew. */
TEST_OF(test_late_invalidated, Fix *f, fix_test)
{
    struct unetmm_fault m;

    late(f);
    send_and_resolve(f, &f->a, 2, 1);
    assert_false(fake_invalidate(f->s1, PAGE(2), FAKE_PAGE));
    fix_no_fault(f);
    f->h.core.knobs.fault_delay = 0;
    fake_advance(&f->h, LATE_NS);
    m = take(f);
    assert_int_equal(m.vaddr, PAGE(2));
    fake_resolve(&f->d, &m, 1, NULL);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    same_pins(f);
}

/* A miss that joins while the answer is on its way has it, too. */
TEST_OF(test_late_joined, Fix *f, fix_test)
{
    struct unetmm_fault m;
    FakeEp c;

    late(f);
    third(f, &c);
    for (unsigned error = 0; error < 2; error++) {
        uint8_t status = error ? UNETMM_ST_LIMIT : UNETMM_ST_OK;

        fix_send(f, &f->a, 2 + error, 100, 1);
        m = take(f);
        if (error) {
            fake_reply(&f->d, &m, UNETMM_REPLY_ERROR, status);
        } else {
            fake_resolve(&f->d, &m, 1, NULL);
            fake_invalidate(f->s1, PAGE(2), FAKE_PAGE);
            fake_insert(f->s1, PAGE(2), 1, NULL);
            fake_invalidate(f->s1, PAGE(2), FAKE_PAGE);
        }
        fix_send(f, &c, 2 + error, 100, 2);
        fix_no_fault(f);
        assert_int_equal(f->h.core.miss->joined, 1);
        if (!error) {
            fake_insert(f->s1, PAGE(2), 1, NULL);
        }
        fake_expect_none(&c);
        fake_advance(&f->h, LATE_NS);
        fake_expect(&f->a, UNETMM_CQE_SENT, status, 1);
        fake_expect(&c, UNETMM_CQE_SENT, status, 2);
        assert_int_equal(f->h.core.miss->joined, 0);
    }
}

/* Its endpoint is closed: only the miss that joined is told. */
TEST_OF(test_late_closed, Fix *f, fix_test)
{
    FakeEp c;

    late(f);
    third(f, &c);
    send_and_resolve(f, &f->a, 2, 1);
    fake_invalidate(f->s1, PAGE(2), FAKE_PAGE);
    fix_send(f, &c, 2, 100, 2);
    assert_int_equal(f->h.core.miss->joined, 1);
    assert_int_equal(fake_ep_destroy(&f->a), UNETMM_CS_OK);
    assert_int_equal(f->h.core.miss->late, 0);
    f->h.core.knobs.fault_delay = 0;
    fake_serve(&f->d);
    fake_expect(&c, UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
    fake_advance(&f->h, LATE_NS);
    assert_int_equal(f->h.timer, INT64_MAX);
    same_pins(f);
}

static void two_faults(UnetmmParams *p)
{
    p->max_faults = 2;
}

/* Like a slow driver: unanswered misses keep others from asking. */
TEST_OF(test_late_holds_others, Fix *f, fix_test_with, two_faults)
{
    struct unetmm_fault m;
    FakeEp c;

    late(f);
    third(f, &c);
    send_and_resolve(f, &f->a, 2, 1);
    send_and_resolve(f, &f->b, 2, 2);
    fix_send(f, &c, 5, 100, 3);
    fix_no_fault(f);
    f->h.core.knobs.fault_delay = 0;
    fake_advance(&f->h, LATE_NS);
    m = take(f);
    fake_resolve(&f->d, &m, 1, NULL);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    fake_expect(&f->b, UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
    fake_expect(&c, UNETMM_CQE_SENT, UNETMM_ST_OK, 3);
}

/* A buffer is not ready before its answer counts. */
TEST_OF(test_late_head, Fix *f, fix_test)
{
    struct unetmm_fault m;

    late(f);
    fake_post(&f->b, PAGE(1), FAKE_PAGE, 7);
    fake_ring_bell(&f->b);
    m = take(f);
    fake_resolve(&f->d, &m, 1, NULL);
    expect_count(&f->h, drop_asked, 1,
                 fake_deliver(&f->h, fake_datagram(&f->b, FIX_WIRE, 12, 500,
                                                   3)));
    fake_advance(&f->h, LATE_NS);
    fake_deliver(&f->h, fake_datagram(&f->b, FIX_WIRE, 12, 500, 4));
    fake_expect(&f->b, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 7);
    fake_check(f->s2, PAGE(1), 500, 4);
}

TEST_OF(test_late_at_reset, Fix *f, fix_test)
{
    late(f);
    send_and_resolve(f, &f->a, 2, 1);
    fake_set_reg(&f->h, UNETMM_REG_CTRL, UNETMM_CTRL_RESET);
    assert_int_equal(f->h.core.miss->late, 0);
    assert_int_equal(f->h.timer, INT64_MAX);
    fake_advance(&f->h, LATE_NS);
}

/* ---- Failed ------------------------------------------------------------- */

/* No page is taken, the driver unpins them all, and the send is told why. */
TEST_OF(test_failed_send, Fix *f, fix_test)
{
    struct unetmm_fault m;
    uint32_t taken = 9;

    f->h.core.knobs.fault_fail = ALWAYS;
    fix_send(f, &f->a, 2, 3 * 4096, 1);
    m = take(f);
    assert_int_equal(fake_resolve(&f->d, &m, 3, &taken), UNETMM_CS_PARTIAL);
    assert_int_equal(taken, 0);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_LIMIT, 1);
    fix_no_fault(f);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_inj_fault_fail), 1);
    assert_int_equal(f->h.core.source->tlb.used, 0);
    same_pins(f);
    /* An answer that is an error already, and a gift, stay the same. */
    fix_send(f, &f->a, 2, 100, 2);
    m = take(f);
    fake_reply(&f->d, &m, UNETMM_REPLY_ERROR, UNETMM_ST_PROTECTION);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_PROTECTION, 2);
    assert_int_equal(fake_insert(f->s1, PAGE(2), 1, &taken), UNETMM_CS_OK);
    fix_send(f, &f->a, 2, 100, 3);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 3);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_inj_fault_fail), 1);
}

TEST_OF(test_failed_head, Fix *f, fix_test)
{
    struct unetmm_fault m;

    f->h.core.knobs.fault_fail = ALWAYS;
    fake_post(&f->b, PAGE(1), FAKE_PAGE, 7);
    fake_ring_bell(&f->b);
    m = take(f);
    assert_int_equal(fake_resolve(&f->d, &m, 1, NULL), UNETMM_CS_PARTIAL);
    fake_expect(&f->b, UNETMM_CQE_BUFFER, UNETMM_ST_LIMIT, 7);
    assert_int_equal(fake_ep_counter(&f->h, 2, UNETMM_C_bufs_failed), 1);
    same_pins(f);
}

/* Failed, and that late. */
TEST_OF(test_failed_late, Fix *f, fix_test)
{
    struct unetmm_fault m;

    late(f);
    f->h.core.knobs.fault_fail = ALWAYS;
    fix_send(f, &f->a, 2, 100, 1);
    m = take(f);
    assert_int_equal(fake_resolve(&f->d, &m, 1, NULL), UNETMM_CS_PARTIAL);
    same_pins(f);
    fake_expect_none(&f->a);
    fake_advance(&f->h, LATE_NS);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_LIMIT, 1);
}

/* ---- Refused ------------------------------------------------------------ */

/* Of three pages fewer are taken, also none; the rest is asked for again. */
TEST_OF(test_refused, Fix *f, fix_test)
{
    unsigned seen = 0;

    for (unsigned i = 0; i < 200 && seen != 7; i++) {
        struct unetmm_fault m;
        uint32_t taken = 9;

        f->h.core.knobs.fault_refuse = ALWAYS;
        fix_send(f, &f->a, 2, 3 * 4096, i);
        m = take(f);
        assert_int_equal(m.npages, 3);
        assert_int_equal(fake_resolve(&f->d, &m, 3, &taken),
                         UNETMM_CS_PARTIAL);
        assert_in_range(taken, 0, 2);
        same_pins(f);
        seen |= 1 << taken;
        f->h.core.knobs.fault_refuse = 0;
        m = take(f);
        assert_int_equal(m.vaddr, PAGE(2 + taken));
        assert_int_equal(m.npages, 3 - taken);
        fake_resolve(&f->d, &m, m.npages, NULL);
        fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, i);
        assert_int_equal(fake_counter(&f->h, UNETMM_C_inj_fault_refuse),
                         i + 1);
        fake_invalidate(f->s1, PAGE(0), FIX_PAGES * FAKE_PAGE);
    }
    assert_int_equal(seen, 7);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_tlb_refused), 0);
}

/* A miss that joined a refused report asks, too. */
TEST_OF(test_refused_joined, Fix *f, fix_test)
{
    struct unetmm_fault m;
    FakeEp c;

    third(f, &c);
    f->h.core.knobs.fault_refuse = ALWAYS;
    fix_send(f, &f->a, 2, 100, 1);
    m = take(f);
    fix_send(f, &c, 2, 100, 2);
    assert_int_equal(fake_resolve(&f->d, &m, 1, NULL), UNETMM_CS_PARTIAL);
    f->h.core.knobs.fault_refuse = 0;
    fake_serve(&f->d);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    fake_expect(&c, UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
    same_pins(f);
}

/* ---- Source ktlb: an answer brings no pages, the driver's table does ---- */

static void ktlb_answer(Fix *f, FakeSpace *s, FakeEp *ep, uint8_t status)
{
    struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_FAULT_REPLY, .space = s->id,
        .reply = { .status = UNETMM_REPLY_RESOLVED },
    };
    struct unetmm_fault m = take(f);

    fake_rights(&f->h, fake_vpage(s, m.vaddr)->dma, FAKE_PAGE, FAKE_R);
    fake_table_set(s, m.vaddr, fake_vpage(s, m.vaddr)->dma |
                   UNETMM_PTE_VALID | UNETMM_PTE_READ);
    cmd.reply.fault_id = m.fault_id;
    cmd.reply.vaddr = m.vaddr;
    assert_int_equal(fake_command(&f->d, cmd, NULL), UNETMM_CS_OK);
    if (status != UNETMM_NUM_ST) {
        fake_expect(ep, UNETMM_CQE_SENT, status, 1);
    } else {
        fake_expect_none(ep);
    }
    fake_table_set(s, m.vaddr, 0);
    fake_invalidate(s, m.vaddr, FAKE_PAGE);
}

TEST_OF(test_ktlb, Fix *f, fix_test)
{
    FakeSpace *s = fake_space(&f->d, 3, UNETMM_SOURCE_KTLB, 4);
    FakeEp ep;

    fake_map(s, FIX_VA, 4 * FAKE_PAGE, FAKE_RW);
    fake_table_set(s, PAGE(1), 0);
    fake_ep_open(&ep, &f->d, 4, s);
    fake_connect_peer(&ep, FIX_WIRE, 14, FIX_MTU);
    fix_send(f, &ep, 1, 100, 1);
    ktlb_answer(f, s, &ep, UNETMM_ST_OK);
    f->h.core.knobs.fault_fail = ALWAYS;
    fix_send(f, &ep, 1, 100, 1);
    ktlb_answer(f, s, &ep, UNETMM_ST_LIMIT);
    f->h.core.knobs.fault_fail = 0;
    f->h.core.knobs.fault_refuse = ALWAYS;
    fix_send(f, &ep, 1, 100, 1);
    ktlb_answer(f, s, &ep, UNETMM_NUM_ST);
    f->h.core.knobs.fault_refuse = 0;
    ktlb_answer(f, s, &ep, UNETMM_ST_OK);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_inj_fault_refuse), 1);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_inj_fault_fail), 1);
}

/* ---- Traffic ------------------------------------------------------------ */

typedef struct Traffic {
    Fix *f;
    uint64_t random;
    unsigned got, limited, returned;
} Traffic;

#define BUFFERS 4
#define BUFFER_PAGES 4

static uint64_t buffer_at(uint64_t n)
{
    return PAGE(2 + n * BUFFER_PAGES);
}

/* All that b was told: a message is right, a buffer that came back is posted. */
static void traffic_take(Traffic *t, uint32_t len, uint32_t number)
{
    Fix *f = t->f;
    struct unetmm_cqe cqe;

    while (fake_poll(&f->b, &cqe)) {
        if (cqe.opcode == UNETMM_CQE_RECEIVED) {
            assert_int_equal(cqe.len, len);
            fake_check(f->s2, buffer_at(cqe.cookie), len, number);
            t->got++;
        } else {
            assert_int_equal(cqe.opcode, UNETMM_CQE_BUFFER);
            assert_true(cqe.status == UNETMM_ST_LIMIT ||
                        cqe.status == UNETMM_ST_SKIPPED);
            t->returned += cqe.status == UNETMM_ST_LIMIT;
        }
        fake_post(&f->b, buffer_at(cqe.cookie), BUFFER_PAGES * FAKE_PAGE,
                  cqe.cookie);
    }
}

static void traffic_message(Traffic *t, uint32_t number)
{
    Fix *f = t->f;
    uint32_t len = 41 + fake_random(&t->random) % 12000;
    uint64_t at = PAGE(20) + fake_random(&t->random) % 4096;
    struct unetmm_cqe cqe;

    fake_fill(f->s1, at, len, number);
    fake_send_at(&f->a, FIX_LOCAL, at, len, number);
    for (unsigned i = 0; ; i++) {
        assert_true(i < 1000);
        fix_settle(f);
        if (fake_poll(&f->a, &cqe)) {
            break;
        }
        fake_advance(&f->h, LATE_NS / 3);
    }
    assert_int_equal(cqe.opcode, UNETMM_CQE_SENT);
    assert_int_equal(cqe.cookie, number);
    if (cqe.status != UNETMM_ST_OK) {
        assert_int_equal(cqe.status, UNETMM_ST_LIMIT);
        t->limited++;
    }
    traffic_take(t, len, number);
    /* Now and then the process takes pages away. */
    if (!(fake_random(&t->random) % 4)) {
        fake_invalidate(f->s1, PAGE(18), 10 * FAKE_PAGE);
        fake_invalidate(f->s2, PAGE(2), BUFFERS * BUFFER_PAGES * FAKE_PAGE);
    }
}

/* For each of the answers that may go wrong: how often it did. */
static const struct {
    enum unetmm_counter counter;
    size_t rate;                /* where in the knobs */
} mishaps[] = {
    { UNETMM_C_inj_fault_late, offsetof(UnetmmKnobs, fault_delay) },
    { UNETMM_C_inj_fault_fail, offsetof(UnetmmKnobs, fault_fail) },
    { UNETMM_C_inj_fault_refuse, offsetof(UnetmmKnobs, fault_refuse) },
};

static bool mishap_is_as_asked(Fix *f, const UnetmmKnobs *knobs, unsigned i)
{
    const void *rate = (const char *)knobs + mishaps[i].rate;

    return (fake_counter(&f->h, mishaps[i].counter) > 0) ==
           (*(const uint32_t *)rate > 0);
}

/* Has all that was asked for happened? */
static bool traffic_had_all(const Traffic *t, const UnetmmKnobs *knobs)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(mishaps); i++) {
        if (!mishap_is_as_asked(t->f, knobs, i)) {
            return false;
        }
    }
    return (t->limited + t->returned > 0) == (knobs->fault_fail > 0);
}

static void traffic(Fix *f, UnetmmKnobs knobs)
{
    Traffic t = { .f = f, .random = fake_seed() };

    knobs.force_miss = 50000;
    knobs.fault_delay_ns = LATE_NS;
    f->h.core.knobs = knobs;
    unetmm_core_set_seed(&f->h.core, t.random);
    for (unsigned i = 0; i < BUFFERS; i++) {
        fake_post(&f->b, buffer_at(i), BUFFER_PAGES * FAKE_PAGE, i);
    }
    for (unsigned i = 0; t.got < 200 || !traffic_had_all(&t, &knobs); i++) {
        assert_true(i < 20000);
        traffic_message(&t, i);
    }
    assert_int_equal(t.limited + t.returned > 0, knobs.fault_fail > 0);
    f->h.core.knobs.fault_delay = 0;
    fake_advance(&f->h, LATE_NS);
    fix_settle(f);
    assert_int_equal(f->h.core.miss->late, 0);
    same_pins(f);
    for (unsigned i = 0; i < G_N_ELEMENTS(mishaps); i++) {
        assert_true(mishap_is_as_asked(f, &knobs, i));
    }
}

TEST(test_traffic_late, fix_test)
{
    traffic(*state, (UnetmmKnobs) { .fault_delay = 300000 });
}

TEST(test_traffic_failed, fix_test)
{
    traffic(*state, (UnetmmKnobs) { .fault_fail = 200000 });
}

TEST(test_traffic_refused, fix_test)
{
    traffic(*state, (UnetmmKnobs) { .fault_refuse = 300000 });
}

TEST(test_traffic_all, fix_test)
{
    traffic(*state, (UnetmmKnobs) {
        .fault_delay = 200000, .fault_fail = 100000, .fault_refuse = 200000,
        .force_evict = 50000,
    });
}

static void small_tlb(UnetmmParams *p)
{
    p->tlb_sets = 8;
    p->tlb_ways = 2;
    p->tlb_victims = 4;
}

ALSO(test_traffic_all, fix_test_with, small_tlb)
