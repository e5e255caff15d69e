/*
 * unetmm: the card takes time: costs of steps, effects at their time
 *
 * The core of the usual scene has a UnetmmTiming between itself and its host.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fixture.h"
#include "timing/timing.h"

#define COSTS "fetch=10000000:gather_byte=2000000:place_byte=3000000:" \
              "complete=500000:hit_read=1000000:hit_write=1500000:" \
              "hit_head=1250000:arrive=4000000"
#define BYTES       300
/* In ns, of one message of BYTES in one page */
#define SENT_NS     (10000 + 1000 + 2 * BYTES)

typedef struct Timed {
    Fix *f;
    UnetmmTiming t;
    int64_t wake;
} Timed;

#define timed_test(fn) \
    cmocka_unit_test_setup_teardown(fn, fix_setup, timed_down)

static Timed timed;

static void wake_at(void *host, int64_t when_ns)
{
    timed.wake = when_ns;
}

static Timed *timed_up(void **state, const char *costs_text)
{
    Fix *f = *state;
    UnetmmCosts costs;

    assert_null(unetmm_costs_parse(&costs, costs_text));
    timed.f = f;
    timed.wake = INT64_MAX;
    unetmm_timing_init(&timed.t, &costs, f->h.core.ops, &f->h, wake_at);
    /* Before a write waits, memory is read to see whether it is there. */
    f->h.unchecked = true;
    f->h.core.ops = &timed.t.ops;
    f->h.core.host = &timed.t;
    return &timed;
}

/* The host's clock goes on, and the effects' timer expires. */
static void pass(Timed *m, int64_t ns)
{
    fake_advance(&m->f->h, ns);
    if (m->wake <= m->f->h.now) {
        unetmm_timing_due(&m->t);
    }
}

static int timed_down(void **state)
{
    Fix *f = *state;
    UnetmmTiming *t = &timed.t;

    unetmm_timing_catch_up(t);
    f->h.core.ops = t->inner;
    f->h.core.host = t->host;
    unetmm_timing_free(t);
    return fix_teardown(state);
}

static void send_one(Timed *m)
{
    Fix *f = m->f;

    fake_fill(f->s1, FIX_PAGE(0), BYTES, 1);
    fake_insert(f->s1, FIX_PAGE(0), 1, NULL);
    fake_send_at(&f->a, FIX_WIRE, FIX_PAGE(0), BYTES, 1);
    fake_ring_bell(&f->a);
}

TEST(test_send, timed_test)
{
    Timed *m = timed_up(state, COSTS);
    Fix *f = m->f;

    send_one(m);
    pass(m, SENT_NS - 1);
    assert_int_equal(f->h.wire->len, 0);
    pass(m, 1);
    assert_int_equal(f->h.wire->len, 1);
    fake_check_frame(fake_wire_at(&f->h, 0), BYTES, 1);
    pass(m, 499);
    fake_expect_none(&f->a);
    pass(m, 1);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    assert_int_equal(m->wake, INT64_MAX);
}

/* Picoseconds of a clock that has run for 200 days are too many for 64 bits. */
TEST(test_after_long, timed_test)
{
    const int64_t long_ns = 200ll * 24 * 3600 * 1000000000;
    Timed *m = timed_up(state, COSTS);
    Fix *f = m->f;

    for (unsigned i = 0; i < 3; i++) {
        pass(m, long_ns);
        assert_int_equal(m->t.ops.now_ns(&m->t), f->h.now);
        send_one(m);
        pass(m, SENT_NS - 1);
        assert_int_equal(f->h.wire->len, 0);
        assert_int_equal(m->wake, f->h.now + 1);
        pass(m, 1);
        assert_int_equal(f->h.wire->len, 1);
        fake_wire_clear(&f->h);
        pass(m, 500);
        fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    }
}

/* The second message is taken up when the card is through with the first. */
TEST(test_serial, timed_test)
{
    Timed *m = timed_up(state, COSTS);
    Fix *f = m->f;

    send_one(m);
    pass(m, 1000);
    fake_send_at(&f->a, FIX_WIRE, FIX_PAGE(0), BYTES, 2);
    fake_ring_bell(&f->a);
    pass(m, SENT_NS - 1000);
    assert_int_equal(f->h.wire->len, 1);
    pass(m, 500 + SENT_NS - 1);
    assert_int_equal(f->h.wire->len, 1);
    pass(m, 1);
    assert_int_equal(f->h.wire->len, 2);
}

TEST(test_receive, timed_test)
{
    Timed *m = timed_up(state, COSTS);
    Fix *f = m->f;
    FakeFrame *frame = fake_datagram(&f->a, FIX_WIRE, 11, BYTES, 1);
    /* The buffer's head was looked at when it was posted. */
    int64_t whole = 4000 + 1500 + 3 * BYTES;

    fake_insert(f->s1, FIX_PAGE(0), 1, NULL);
    fake_post(&f->a, FIX_PAGE(0), FAKE_PAGE, 7);
    fake_ring_bell(&f->a);
    pass(m, 1000000);
    unetmm_timing_arrives(&m->t);
    assert_true(fake_receive(&f->h, frame));
    g_free(frame);
    pass(m, whole + 499);
    fake_expect_none(&f->a);
    pass(m, 1);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 7);
}

/* Writes wait; a load of a register overtakes none. */
TEST(test_register_load, timed_test)
{
    Timed *m = timed_up(state, COSTS);
    Fix *f = m->f;

    send_one(m);
    unetmm_timing_write_all(&m->t);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    assert_int_equal(f->h.wire->len, 0);
    pass(m, SENT_NS);
    assert_int_equal(f->h.wire->len, 1);
}

TEST(test_core_reads_its_writes, timed_test)
{
    Timed *m = timed_up(state, COSTS);
    Fix *f = m->f;
    uint64_t at = fake_alloc(&f->h, 16, 16, FAKE_RW), old = 0x0807060504030201;
    const UnetmmHostOps *ops = &m->t.ops;
    uint8_t data[16] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 }, got[16];

    ops->spend(&m->t, UNETMM_STEP_FETCH, 1);
    assert_true(ops->mem_write(&m->t, at, data, 9));
    assert_true(ops->mem_store32(&m->t, at + 12, 0x11223344));
    fake_read(&f->h, at, got, 16);
    assert_int_equal(got[0], 0);
    /* The last byte that was written, and not the word behind it */
    assert_true(ops->mem_read(&m->t, at + 8, got, 4));
    assert_int_equal(got[0], 9);
    assert_int_equal(m->t.effects.length, 1);
    assert_int_equal(fake_read32(&f->h, at + 12), 0);
    assert_true(ops->mem_cmpxchg64(&m->t, at, &old, 5));
    assert_int_equal(fake_read32(&f->h, at), 5);
    assert_int_equal(m->t.effects.length, 1);
    pass(m, 10000);
    assert_int_equal(fake_read32(&f->h, at + 12), 0x11223344);
}

TEST(test_refused_at_once, timed_test)
{
    Timed *m = timed_up(state, COSTS);
    Fix *f = m->f;
    uint64_t at = fake_alloc(&f->h, 1024, 16, FAKE_RW);
    uint8_t data[1024] = { 0 };
    const UnetmmHostOps *ops = &m->t.ops;

    ops->spend(&m->t, UNETMM_STEP_FETCH, 1);
    f->h.refuse_first = f->h.refuse_last = at + 1000;
    assert_false(ops->mem_write(&m->t, at, data, 1024));
    assert_false(ops->mem_store32(&m->t, at + 1000, 1));
    assert_true(ops->mem_write(&m->t, at, data, 1000));
    /* A bus that refuses later is counted. */
    f->h.refuse_first = f->h.refuse_last = at;
    pass(m, 10000);
    assert_int_equal(m->t.refused, 1);
}

/* A guest that never stops cannot make the queue longer than its limit. */
TEST(test_overrun, timed_test)
{
    Timed *m = timed_up(state, "fetch=60000000000");
    Fix *f = m->f;
    const UnetmmHostOps *ops = &m->t.ops;

    ops->spend(&m->t, UNETMM_STEP_FETCH, 1);
    ops->interrupt(&m->t, 1);
    assert_int_equal(f->h.interrupts[1], 0);
    ops->spend(&m->t, UNETMM_STEP_FETCH, 1);
    ops->interrupt(&m->t, 1);
    assert_int_equal(f->h.interrupts[1], 2);
    assert_int_equal(m->t.overruns, 1);
    assert_int_equal(ops->now_ns(&m->t), f->h.now);
}

TEST(test_too_many_bytes, timed_test)
{
    Timed *m = timed_up(state, "fetch=1000000");
    g_autofree uint8_t *frame = g_malloc0(60000);
    const UnetmmHostOps *ops = &m->t.ops;
    unsigned n = UNETMM_TIMING_MOST_BYTES / 60000;

    ops->spend(&m->t, UNETMM_STEP_FETCH, 1);
    for (unsigned i = 0; i < n; i++) {
        assert_int_equal(ops->send(&m->t, frame, 60000), UNETMM_SENT_DONE);
    }
    assert_int_equal(m->t.overruns, 0);
    assert_int_equal(m->f->h.wire->len, 0);
    ops->send(&m->t, frame, 60000);
    assert_int_equal(m->t.overruns, 1);
    assert_int_equal(m->f->h.wire->len, n + 1);
}

/* Effects without bytes count, too. */
TEST(test_too_many_effects, timed_test)
{
    Timed *m = timed_up(state, "fetch=1000000");
    const UnetmmHostOps *ops = &m->t.ops;

    ops->spend(&m->t, UNETMM_STEP_FETCH, 1);
    for (unsigned i = 0; i < UNETMM_TIMING_MOST_EFFECTS; i++) {
        ops->interrupt(&m->t, 1);
    }
    assert_int_equal(m->t.overruns, 0);
    assert_int_equal(m->f->h.interrupts[1], 0);
    ops->run_later(&m->t);
    assert_int_equal(m->t.overruns, 1);
    assert_int_equal(m->t.effects.length, 0);
    assert_int_equal(m->f->h.interrupts[1], UNETMM_TIMING_MOST_EFFECTS);
}

/* A read looks at the writes to its own pages, and at no other effect. */
TEST(test_read_looks_at_its_page, timed_test)
{
    Timed *m = timed_up(state, COSTS);
    Fix *f = m->f;
    uint64_t at = fake_alloc(&f->h, 4 * FAKE_PAGE, FAKE_PAGE, FAKE_RW);
    const UnetmmHostOps *ops = &m->t.ops;
    uint32_t word, two[2];

    ops->spend(&m->t, UNETMM_STEP_FETCH, 1);
    for (unsigned i = 0; i < 1000; i++) {
        ops->interrupt(&m->t, 1);
        assert_true(ops->mem_store32(&m->t, at, i));
        assert_true(ops->mem_store32(&m->t, at + 2 * FAKE_PAGE, i));
    }
    assert_true(ops->mem_read(&m->t, at + FAKE_PAGE, &word, 4));
    assert_int_equal(m->t.looks, 0);
    assert_true(ops->mem_read(&m->t, at + FAKE_PAGE - 4, two, 8));
    assert_int_equal(m->t.looks, 1000);
    assert_int_equal(m->t.effects.length, 3000);
    assert_true(ops->mem_read(&m->t, at + 2 * FAKE_PAGE, &word, 4));
    assert_int_equal(word, 999);
    assert_int_equal(m->t.looks, 2000);
    assert_int_equal(m->t.effects.length, 2000);
}

/* So many writes to one page wait that a read has them all take place. */
TEST(test_read_looks_are_bounded, timed_test)
{
    Timed *m = timed_up(state, COSTS);
    Fix *f = m->f;
    uint64_t at = fake_alloc(&f->h, 2 * FAKE_PAGE, FAKE_PAGE, FAKE_RW);
    const UnetmmHostOps *ops = &m->t.ops;
    unsigned n = UNETMM_TIMING_MOST_LOOKS;
    uint32_t word;

    ops->spend(&m->t, UNETMM_STEP_FETCH, 1);
    for (unsigned i = 0; i < n; i++) {
        assert_true(ops->mem_store32(&m->t, at, i));
    }
    assert_true(ops->mem_read(&m->t, at + 8, &word, 4));
    assert_int_equal(m->t.effects.length, n);
    assert_true(ops->mem_store32(&m->t, at, n));
    assert_true(ops->mem_store32(&m->t, at + FAKE_PAGE, 1));
    assert_true(ops->mem_read(&m->t, at + 8, &word, 4));
    assert_int_equal(m->t.effects.length, 1);
    assert_int_equal(m->t.looks, 2 * n + 1);
    assert_int_equal(fake_read32(&f->h, at), n);
}

/* A write is cut at the ends of pages: a read has the pieces that it meets. */
TEST(test_write_of_two_pages, timed_test)
{
    Timed *m = timed_up(state, COSTS);
    Fix *f = m->f;
    uint64_t at = fake_alloc(&f->h, 3 * FAKE_PAGE, FAKE_PAGE, FAKE_RW);
    const UnetmmHostOps *ops = &m->t.ops;
    uint8_t data[2 * FAKE_PAGE], got[4];

    memset(data, 7, sizeof(data));
    ops->spend(&m->t, UNETMM_STEP_FETCH, 1);
    assert_true(ops->mem_write(&m->t, at + 100, data, sizeof(data)));
    assert_int_equal(m->t.bytes, sizeof(data));
    assert_true(ops->mem_read(&m->t, at + FAKE_PAGE - 2, got, 4));
    assert_memory_equal(got, data, 4);
    fake_read(&f->h, at + 2 * FAKE_PAGE + 96, got, 4);
    assert_int_equal(got[3], 0);
    pass(m, 10000);
    fake_read(&f->h, at + 2 * FAKE_PAGE + 96, got, 4);
    assert_memory_equal(got, data, 4);
    fake_read(&f->h, at + 2 * FAKE_PAGE + 100, got, 4);
    assert_int_equal(got[0], 0);
    assert_int_equal(m->t.bytes, 0);
}

/*
 * A process posts descriptors that the card refuses, and rings as fast as it
 * can: the queue stays short, and each doorbell's work has a limit.
 */
TEST(test_doorbell_storm, timed_test)
{
    Timed *m = timed_up(state, "complete=1");
    Fix *f = m->f;
    FakeEp *ep = &f->a;
    const UnetmmEp *card = &f->h.core.eps[ep->id];
    struct unetmm_sqe bad = { .opcode = 0x77 };
    unsigned depth = 1u << ep->sq_log2, most = 0;
    uint64_t worst = 0;

    for (unsigned round = 0; round < 4000; round++) {
        uint64_t looks = m->t.looks;

        for (unsigned i = 0; i < depth; i++) {
            fake_put_slots(ep, &bad, 1);
            ep->sq_prod++;
        }
        fake_user_word(ep, offsetof(struct unetmm_ep_user, sq_prod),
                       ep->sq_prod);
        unetmm_core_doorbell(&f->h.core, ep->id);
        while (f->h.later) {
            f->h.later--;
            unetmm_core_run(&f->h.core);
        }
        fake_user_word(ep, offsetof(struct unetmm_ep_user, cq_cons),
                       card->cq_prod);
        most = MAX(most, m->t.effects.length);
        worst = MAX(worst, m->t.looks - looks);
        assert_false(card->error);
    }
    assert_true(most > UNETMM_TIMING_MOST_LOOKS);
    assert_true(most <= UNETMM_TIMING_MOST_EFFECTS);
    /* Reads of the queue, and of the process's words, of each descriptor */
    assert_true(worst <= 4 * depth * UNETMM_TIMING_MOST_LOOKS);
    ep->cq_cons = card->cq_prod;
}

/* The wire keeps a frame: the core has been told of it, the next is refused. */
TEST(test_wire_keeps, timed_test)
{
    Timed *m = timed_up(state, "fetch=1000000");
    const UnetmmHostOps *ops = &m->t.ops;
    uint8_t frame[60] = { 0 };

    assert_false(unetmm_timing_sent(&m->t));
    m->f->h.answer = UNETMM_SENT_QUEUED;
    assert_int_equal(ops->send(&m->t, frame, 60), UNETMM_SENT_DONE);
    assert_int_equal(ops->send(&m->t, frame, 60), UNETMM_SENT_REFUSED);
    assert_true(unetmm_timing_sent(&m->t));
    assert_false(unetmm_timing_sent(&m->t));
    m->f->h.answer = UNETMM_SENT_REFUSED;
    assert_int_equal(ops->send(&m->t, frame, 60), UNETMM_SENT_DONE);
    assert_int_equal(m->t.refused, 1);
    m->f->h.answer = UNETMM_SENT_DONE;
}

TEST(test_reset_drops, timed_test)
{
    Timed *m = timed_up(state, COSTS);

    send_one(m);
    unetmm_timing_drop(&m->t);
    assert_int_equal(m->wake, INT64_MAX);
    pass(m, 1000000);
    assert_int_equal(m->f->h.wire->len, 0);
    fake_expect_none(&m->f->a);
}

TEST(test_costs, cmocka_unit_test)
{
    static const struct {
        const char *text, *why;
    } bad[] = {
        { "fetsch=1", "no cost 'fetsch'" }, { "fetch", "write fetch=N" },
        { "fetch=", "write fetch=N" }, { "fetch=-1", "write fetch=N" },
        { "fetch=1x", "must be a number" }, { ":", "no cost ''" },
        { "fetch=1000000000001", "must be a number up to 1000000000000" },
        { "fetch=99999999999999999999", "must be a number up to" },
    };
    UnetmmCosts costs;

    for (unsigned i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autofree char *why = unetmm_costs_parse(&costs, bad[i].text);

        assert_non_null(why);
        assert_non_null(strstr(why, bad[i].why));
    }
    assert_null(unetmm_costs_parse(&costs, ""));
    assert_int_equal(costs.fetch, 0);
    assert_null(unetmm_costs_parse(&costs, "arrive=0:fetch=1000000000000"));
    assert_int_equal(costs.fetch, UNETMM_COST_MOST);
}

TEST(test_step_costs, cmocka_unit_test)
{
    static const UnetmmCosts c = {
        .fetch = 1, .gather_byte = 2000, .place_byte = 3000, .packet = 4,
        .ack = 5, .complete = 6, .hit_read = 7, .hit_write = 8,
        .hit_head = 9, .miss = 10, .entry = 11, .lock = 12, .insert = 13,
        .evict = 14, .report = 15, .resume = 16, .arrive = 17,
    };
    static const struct {
        UnetmmStep step;
        uint32_t n;
        int64_t cost;
    } steps[] = {
        { UNETMM_STEP_FETCH, 3, 1 }, { UNETMM_STEP_GATHER, 10, 20 },
        { UNETMM_STEP_PLACE, 10, 30 }, { UNETMM_STEP_PACKET, 10, 4 },
        { UNETMM_STEP_ACK, 0, 5 }, { UNETMM_STEP_COMPLETE, 9, 6 },
        { UNETMM_STEP_HIT, 0, 7 }, { UNETMM_STEP_HIT, 1, 8 },
        { UNETMM_STEP_HEAD, 0, 0 }, { UNETMM_STEP_HIT, 1, 9 },
        { UNETMM_STEP_HIT, 1, 8 }, { UNETMM_STEP_HEAD, 0, 0 },
        { UNETMM_STEP_MISS, 1, 10 }, { UNETMM_STEP_HIT, 1, 8 },
        { UNETMM_STEP_ENTRY, 4, 11 }, { UNETMM_STEP_LOCK, 1, 12 },
        { UNETMM_STEP_INSERT, 3, 39 }, { UNETMM_STEP_EVICT, 1, 14 },
        { UNETMM_STEP_REPORT, UNETMM_FAULT_MISS, 15 },
        { UNETMM_STEP_REPORT, UNETMM_FAULT_MISS + 1, 0 },
        { UNETMM_STEP_COMMAND, UNETMM_CMD_FAULT_REPLY, 16 },
        { UNETMM_STEP_COMMAND, UNETMM_CMD_FAULT_REPLY + 1, 0 },
        { UNETMM_STEP_LOCAL, 60, 0 },
    };
    bool head = false;

    for (unsigned i = 0; i < G_N_ELEMENTS(steps); i++) {
        assert_int_equal(unetmm_step_cost(&c, &head, steps[i].step,
                                          steps[i].n), steps[i].cost);
    }
    /* 4 GB at the greatest cost of a byte */
    assert_int_equal(unetmm_step_cost(
        &(UnetmmCosts) { .gather_byte = 1000000000 }, &head,
        UNETMM_STEP_GATHER, UINT32_MAX), 4294967295000000);
}
