/*
 * unetmm: the engine: budget, fairness, wake-ups
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "peer.h"

#define PAGE(n) (FIX_VA + (uint64_t)(n) * FAKE_PAGE)
#define ARM(n) (UNETMM_ARM | ((n) & UNETMM_ARM_COUNT))

static void arm(FakeEp *ep, uint32_t value)
{
    fake_user_word(ep, offsetof(struct unetmm_ep_user, cq_arm), value);
}

static unsigned notified(Fix *f, uint16_t ep)
{
    struct unetmm_notify n;
    unsigned count = 0;

    while (fake_notification(&f->d, &n)) {
        assert_int_equal(n.type, UNETMM_NOTIFY_CQ);
        assert_int_equal(n.ep, ep);
        count++;
    }
    return count;
}

static void deliver(Fix *f, uint32_t n)
{
    fake_deliver(&f->h, fake_datagram(&f->a, FIX_WIRE, 11, 8, n));
}

/* ---- Budget ---- */

static void few_descriptors(UnetmmParams *p)
{
    p->budget_descriptors = 10;
}

static void open_deep(Fix *f, FakeEp *ep, uint16_t id)
{
    fake_ep_init(ep, &f->d, id, f->s1);
    ep->sq_log2 = ep->cq_log2 = 8;
    fake_ep_create(ep);
    fake_connect_peer(ep, FIX_WIRE, 13, FIX_MTU);
}

TEST_OF(test_descriptor_budget, Fix *f, fix_test_with, few_descriptors)
{
    FakeEp e;

    open_deep(f, &e, 3);
    for (unsigned i = 0; i < 95; i++) {
        fake_send_inline(&e, FIX_WIRE, i, 8, i, 0);
    }
    fake_ring_bell(&e);
    for (unsigned i = 1; i < 10; i++) {
        assert_int_equal(f->h.wire->len, 10 * i);
        assert_int_equal(f->h.later, 1);
        f->h.later = 0;
        unetmm_core_run(&f->h.core);
    }
    assert_int_equal(f->h.wire->len, 95);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_budget_stops), 9);
    /* Half of the last budget was spent, so there is to be a new one. */
    assert_int_equal(fake_run_later(&f->h), 1);
    for (unsigned i = 0; i < 95; i++) {
        fake_expect(&e, UNETMM_CQE_SENT, UNETMM_ST_OK, i);
        fake_check_frame(fake_wire_at(&f->h, i), 8, i);
    }
}

static void few_bytes(UnetmmParams *p)
{
    p->budget_bytes = 65536;
}

TEST_OF(test_byte_budget, Fix *f, fix_test_with, few_bytes)
{
    FakeEp e;

    open_deep(f, &e, 3);
    fake_insert(f->s1, PAGE(0), 16, NULL);
    for (unsigned i = 0; i < 12; i++) {
        fake_send_at(&e, FIX_WIRE, PAGE(0), 30000, i);
    }
    fake_ring_bell(&e);
    assert_int_equal(f->h.wire->len, 3);
    f->h.later = 0;
    unetmm_core_run(&f->h.core);
    assert_int_equal(f->h.wire->len, 6);
    fake_run_later(&f->h);
    assert_int_equal(f->h.wire->len, 12);
}

static void send_some(FakeEp *e, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        fake_send_inline(e, FIX_WIRE, i, 8, i, UNETMM_SQE_F_QUIET);
    }
    fake_ring_bell(e);
}

/* One budget for all doorbells, until the main loop comes round. */
TEST_OF(test_budget_is_carried, Fix *f, fix_test_with, few_descriptors)
{
    FakeEp e;

    open_deep(f, &e, 3);
    f->h.stuck = true;
    send_some(&e, 4);
    assert_int_equal(f->h.wire->len, 4);
    /* A card that does little asks for no turn. */
    assert_int_equal(f->h.later, 0);
    send_some(&e, 2);
    assert_int_equal(f->h.later, 1);
    send_some(&e, 2);
    assert_int_equal(f->h.wire->len, 8);
    assert_int_equal(f->h.later, 1);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_budget_stops), 0);
    for (unsigned i = 0; i < 5; i++) {
        send_some(&e, 4);
        assert_int_equal(f->h.wire->len, 10);
        assert_true(f->h.later);
    }
    assert_int_equal(fake_counter(&f->h, UNETMM_C_budget_stops), 1);
    /* From inside it is no turn of the main loop. */
    unetmm_engine_enter(&f->h.core);
    unetmm_core_run(&f->h.core);
    unetmm_engine_leave(&f->h.core);
    assert_int_equal(f->h.wire->len, 10);
    f->h.later = 0;
    unetmm_core_run(&f->h.core);
    assert_int_equal(f->h.wire->len, 20);
    fake_run_later(&f->h);
    assert_int_equal(f->h.wire->len, 28);
}

/* As many turns of endpoints as that allows, though none has much to do. */
TEST_OF(test_turns_are_carried, Fix *f, fix_test_with, few_descriptors)
{
    f->h.stuck = true;
    for (unsigned i = 0; i < 2 * 10; i++) {
        fake_ring_bell(&f->a);
    }
    expect_count(&f->h, turns, 0, fake_ring_bell(&f->a));
    assert_true(f->h.later);
    expect_count(&f->h, turns, 1, unetmm_core_run(&f->h.core));
}

/* Frames in the net layer wait for a new budget, and are asked for then. */
TEST_OF(test_arrivals_budget, Fix *f, fix_test_with, few_bytes)
{
    FakeFrame *frame = fake_datagram(&f->a, FIX_WIRE, 11, 30000, 1);
    unsigned asked = f->h.may_receive;

    f->h.stuck = true;
    for (unsigned i = 0; i < 3; i++) {
        assert_true(fake_receive(&f->h, frame));
    }
    assert_false(fake_receive(&f->h, frame));
    assert_false(unetmm_core_can_receive(&f->h.core));
    assert_int_equal(f->h.later, 1);
    assert_int_equal(f->h.may_receive, asked);
    /* Sends have their own. */
    fix_send(f, &f->a, 0, 8, 1);
    fake_serve(&f->d);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    fake_run_later(&f->h);
    assert_int_equal(f->h.may_receive, asked + 1);
    assert_true(fake_receive(&f->h, frame));
    /* Short ones count as a little DMA. */
    fake_run_later(&f->h);
    unetmm_core_run(&f->h.core);
    g_free(frame);
    frame = fake_datagram(&f->a, FIX_WIRE, 11, 8, 1);
    for (unsigned i = 0; i < 65536 / UNETMM_LEAST_BYTES; i++) {
        if (!fake_receive(&f->h, frame)) {
            assert_true(i >= 65536 / UNETMM_LEAST_BYTES / 2);
            break;
        }
    }
    assert_false(fake_receive(&f->h, frame));
    /* A card that does not run drops all the same: it blocks no wire. */
    fake_set_reg(&f->h, UNETMM_REG_CTRL, 0);
    assert_true(fake_receive(&f->h, frame));
    g_free(frame);
}

/* Frames for a channel that is not there, until `left` bytes may arrive. */
static void spend_arrivals(Fix *f, uint32_t left)
{
    f->h.stuck = true;
    while (f->h.core.budget.arrivals > left) {
        fake_deliver(&f->h, fake_datagram(&f->a, 60, 11, 200, 0));
    }
}

/*
 * The acknowledgement is the last that may arrive in this turn: the endpoint
 * writes the completion in a turn of its own, though its next send waits for a
 * page.
 */
TEST_OF(test_completion_beside_fault, Fix *f, fix_test_with, few_bytes)
{
    peer_open(f);
    peer_post(f, peer_sqe(UNETMM_OP_WRITE, 0, 100, 0, 1));
    peer_expect(f, UNETMM_WIRE_WRITE, PEER_MY);
    fake_vpage(f->s1, PAGE(30))->absent = true;
    fix_send(f, &f->a, 30, 100, 2);
    fake_serve(&f->d);
    assert_int_equal(f->h.core.eps[1].tx.blocked_on, UNETMM_BLOCKED_FAULT);
    fake_run_later(&f->h);
    spend_arrivals(f, UNETMM_LEAST_BYTES);
    peer_ack(f, PEER_MY + 1, 0);
    assert_int_equal(f->h.core.budget.arrivals, 0);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    assert_int_equal(f->h.core.eps[1].tx.blocked_on, UNETMM_BLOCKED_FAULT);
}

/* Frames wait in the card itself, as many bytes as a turn's and more. */
static void fill_queue(Fix *f)
{
    fake_insert(f->s2, PAGE(0), 5, NULL);
    f->h.stuck = true;
    for (unsigned i = 0; i < 4; i++) {
        fake_send_at(&f->b, FIX_LOCAL, PAGE(0), 20000, i);
    }
    fake_ring_bell(&f->b);
    assert_int_equal(f->h.core.port->fifo_used, 4);
    assert_int_equal(f->h.core.budget.bytes, 0);
}

/* They are delivered in one turn, for nobody else wants to have it. */
TEST_OF(test_queue_in_one_turn, Fix *f, fix_test_with, few_bytes)
{
    fill_queue(f);
    f->h.later = 0;
    unetmm_core_run(&f->h.core);
    assert_int_equal(f->h.core.port->fifo_used, 0);
}

/* The wire fills the queue up again and again: an endpoint sends all the same. */
TEST_OF(test_flood_beside_send, Fix *f, fix_test_with, few_bytes)
{
    FakeFrame *frame = fake_datagram(&f->a, 60, 11, 9000, 0);

    fill_queue(f);
    for (unsigned i = 0; i < 10; i++) {
        fake_send_inline(&f->a, FIX_WIRE, i, 8, i, UNETMM_SQE_F_QUIET);
        fake_ring_bell(&f->a);
        assert_int_equal(f->h.wire->len, i);
        while (fake_receive(&f->h, frame)) {
        }
        assert_true(f->h.core.port->fifo_used);
        f->h.later = 0;
        unetmm_core_run(&f->h.core);
        assert_int_equal(f->h.wire->len, i + 1);
    }
    g_free(frame);
}

/* Queues of very different depth: nobody waits for another's queue. */
TEST_OF(test_round_robin, Fix *f, fix_test)
{
    unsigned place[3] = { 0, 0, 0 };
    FakeEp e[3];

    for (unsigned i = 0; i < 3; i++) {
        open_deep(f, &e[i], 3 + i);
    }
    fake_set_reg(&f->h, UNETMM_REG_CTRL, 0);
    for (unsigned i = 0; i < 200; i++) {
        fake_send_inline(&e[0], FIX_WIRE, i, 8, i, UNETMM_SQE_F_QUIET);
        fake_send_inline(&e[1], FIX_WIRE, i, 8, i, UNETMM_SQE_F_QUIET);
    }
    fake_send_inline(&e[2], FIX_WIRE, 0, 8, 0, 0);
    for (unsigned i = 0; i < 3; i++) {
        fake_ring_bell(&e[i]);
    }
    fake_set_reg(&f->h, UNETMM_REG_CTRL, 1);
    fake_run_later(&f->h);
    assert_int_equal(f->h.wire->len, 401);
    for (unsigned i = 0; i < f->h.wire->len; i++) {
        struct unetmm_frame *h = fake_header(fake_wire_at(&f->h, i));
        unsigned who = le16_to_cpu(h->src_ep) - 3;

        /* The short one is served after one turn of each of the others. */
        if (who == 2) {
            assert_true(i <= 2 * 16);
        }
        place[who]++;
        if (i > 40 && i < 400) {
            assert_true(place[0] + 17 >= place[1] &&
                        place[1] + 17 >= place[0]);
        }
    }
}

/* An endless supplier of work does not keep a run of the engine for ever. */
static void refill(FakeHost *host, const uint8_t *data, size_t bytes)
{
    Fix *f = container_of(host, Fix, h);

    if (f->a.sq_prod - fake_card(&f->a).sq_cons < 10) {
        fake_send_inline(&f->a, FIX_WIRE, 1, 8, 1, UNETMM_SQE_F_QUIET);
    }
}

TEST_OF(test_endless_supply, Fix *f, fix_test)
{
    f->h.on_send = refill;
    fake_send_inline(&f->a, FIX_WIRE, 1, 8, 1, UNETMM_SQE_F_QUIET);
    fake_ring_bell(&f->a);
    assert_int_equal(f->h.wire->len, 1024);
    assert_true(f->h.later);
    /* Others are served in the next one. */
    fake_send_inline(&f->b, FIX_WIRE, 1, 8, 9, 0);
    fake_ring_bell(&f->b);
    fake_expect_none(&f->b);
    unetmm_core_run(&f->h.core);
    fake_expect(&f->b, UNETMM_CQE_SENT, UNETMM_ST_OK, 9);
    assert_int_equal(f->h.wire->len, 2 * 1024);
    /* And frames are taken all the time. */
    deliver(f, 3);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 0);
}

/* The main loop runs inside a call of the card: once more after it, then. */
static void run_inside(FakeHost *host, const uint8_t *data, size_t bytes)
{
    host->later = 0;
    unetmm_core_run(&host->core);
}

TEST_OF(test_run_inside, Fix *f, fix_test_with, few_bytes)
{
    unsigned asked;

    fake_insert(f->s1, PAGE(0), 1, NULL);
    fake_run_later(&f->h);
    spend_arrivals(f, 0);
    assert_int_equal(f->h.later, 1);
    asked = f->h.may_receive;
    f->h.on_send = run_inside;
    fix_send(f, &f->a, 0, 100, 1);
    f->h.on_send = NULL;
    /* It renewed nothing, and so did not stand for the one that was asked. */
    assert_int_equal(f->h.wire->len, 1);
    assert_int_equal(f->h.core.budget.arrivals, 0);
    assert_int_equal(f->h.later, 1);
    assert_false(unetmm_core_can_receive(&f->h.core));
    fake_run_later(&f->h);
    assert_true(unetmm_core_can_receive(&f->h.core));
    assert_int_equal(f->h.may_receive, asked + 1);
}

/* A flood of commands is worked off in several runs, all of it. */
TEST_OF(test_command_flood, Fix *f, fix_test_bare, NULL)
{
    struct unetmm_cmd nop = { .opcode = UNETMM_CMD_NOP };
    struct unetmm_cmd_done done;
    uint16_t first = f->d.tag;

    for (unsigned i = 0; i < UNETMM_NUM_RINGS; i++) {
        fake_set_reg(&f->h, UNETMM_REG_RING(i) + UNETMM_RING_ENABLE, 0);
        f->d.ring[i].log2 = 8;
    }
    fake_driver_start(&f->d);
    fake_set_reg(&f->h, UNETMM_REG_CTRL, 0);
    for (unsigned i = 0; i < 200; i++) {
        fake_issue(&f->d, nop);
    }
    fake_set_reg(&f->h, UNETMM_REG_CTRL, 1);
    assert_true(fake_reg(&f->h, UNETMM_REG_RING(UNETMM_RING_CMD) +
                         UNETMM_RING_CONS) < 200);
    fake_run_later(&f->h);
    assert_int_equal(fake_reg(&f->h, UNETMM_REG_RING(UNETMM_RING_CMD) +
                              UNETMM_RING_CONS), 200);
    for (unsigned i = 0; i < 200; i++) {
        assert_true(fake_done(&f->d, &done));
        assert_int_equal(done.tag, (uint16_t)(first + i));
    }
}

/* ---- Wake-ups ---- */

TEST_OF(test_armed_once, Fix *f, fix_test)
{
    deliver(f, 0);
    assert_int_equal(notified(f, 1), 0);
    arm(&f->a, ARM(1));
    fake_ring_bell(&f->a);
    assert_int_equal(notified(f, 1), 0);
    deliver(f, 1);
    assert_int_equal(f->h.interrupts[UNETMM_VEC_NOTIFY], 1);
    assert_int_equal(notified(f, 1), 1);
    deliver(f, 2);
    deliver(f, 3);
    assert_int_equal(notified(f, 1), 0);
    arm(&f->a, ARM(4));
    deliver(f, 4);
    assert_int_equal(notified(f, 1), 1);
    arm(&f->a, 0);
    deliver(f, 5);
    assert_int_equal(notified(f, 1), 0);
    /* Armed for completions that are there: at once, by any turn. */
    arm(&f->a, ARM(2));
    fake_ring_bell(&f->a);
    assert_int_equal(notified(f, 1), 1);
    /* For more than one to come. */
    arm(&f->a, ARM(8));
    for (unsigned i = 6; i < 8; i++) {
        deliver(f, i);
        assert_int_equal(notified(f, 1), 0);
    }
    deliver(f, 8);
    assert_int_equal(notified(f, 1), 1);
}

TEST_OF(test_arm_wraps, Fix *f, fix_test)
{
    static const uint32_t start[] = { 0x7ffffffe, 0xfffffffe, 0xffffffff };

    for (unsigned i = 0; i < G_N_ELEMENTS(start); i++) {
        UnetmmEp *ep = &f->h.core.eps[1];

        ep->cq_prod = ep->cq_cons = start[i];
        fake_user_word(&f->a, offsetof(struct unetmm_ep_user, cq_cons),
                       start[i]);
        arm(&f->a, ARM(start[i] + 2));
        fake_ring_bell(&f->a);
        deliver(f, 0);
        deliver(f, 1);
        assert_int_equal(notified(f, 1), 0);
        deliver(f, 2);
        assert_int_equal(notified(f, 1), 1);
    }
}

/*
 * The process arms at one access of the card to memory and looks again at a
 * later one; for every pair of places it either sees the completion or is
 * woken, and never more than once.
 */
typedef struct Race {
    Fix *f;
    unsigned access, arm_at, look_at;
    bool seen;
    void (*store)(FakeHost *host, uint64_t addr);
} Race;

static Race race;

static void race_step(void)
{
    unsigned at = race.access++;
    struct unetmm_cqe cqe;

    if (at == race.arm_at) {
        arm(&race.f->a, ARM(race.f->a.cq_cons));
    }
    if (at == race.look_at) {
        race.seen = fake_poll(&race.f->a, &cqe);
    }
}

static void race_read(FakeHost *host, uint64_t addr, size_t bytes)
{
    race_step();
}

static void race_store(FakeHost *host, uint64_t addr)
{
    race.store(host, addr);
    race_step();
}

static unsigned race_run(Fix *f, unsigned kind)
{
    unsigned accesses;

    race.access = 0;
    race.seen = false;
    f->h.on_read = f->h.on_write = race_read;
    race.store = f->h.on_store;
    f->h.on_store = race_store;
    race_step();
    if (kind == 0) {
        deliver(f, 1);
    } else {
        fake_send_inline(&f->a, FIX_WIRE, 1, 8, 1, 0);
        fake_ring_bell(&f->a);
    }
    f->h.on_read = f->h.on_write = NULL;
    f->h.on_store = race.store;
    accesses = race.access;
    /* This run had fewer accesses: the process does the rest after it. */
    while (race.access <= race.look_at && race.look_at < 1000) {
        race_step();
    }
    return accesses;
}

TEST_OF(test_no_lost_wakeup, Fix *f, fix_test)
{
    unsigned pairs = 0;

    for (unsigned kind = 0; kind < 2; kind++) {
        unsigned accesses;

        race = (Race) { .f = f, .arm_at = 1000, .look_at = 1000 };
        accesses = race_run(f, kind);
        assert_true(accesses >= 4 && accesses < 20);
        for (unsigned i = 0; i < accesses; i++) {
            for (unsigned j = i; j < accesses; j++) {
                struct unetmm_cqe cqe;
                unsigned woken;

                while (fake_poll(&f->a, &cqe)) {
                }
                arm(&f->a, 0);
                fake_ring_bell(&f->a);
                notified(f, 1);
                race.arm_at = i;
                race.look_at = j;
                race_run(f, kind);
                woken = notified(f, 1);
                assert_true(woken <= 1);
                if (!race.seen && !woken) {
                    fail_msg("kind %u: armed at %u, looked at %u of %u", kind,
                             i, j, accesses);
                }
                pairs++;
            }
        }
    }
    assert_true(pairs > 30);
}

static void small_notify_ring(Fix *f, uint32_t log2)
{
    uint32_t reg = UNETMM_REG_RING(UNETMM_RING_NOTIFY);
    FakeRing *r = &f->d.ring[UNETMM_RING_NOTIFY];

    fake_set_reg(&f->h, reg + UNETMM_RING_ENABLE, 0);
    fake_set_reg(&f->h, reg + UNETMM_RING_LOG2, log2);
    fake_set_reg(&f->h, reg + UNETMM_RING_ENABLE, 1);
    r->log2 = log2;
    r->index = 0;
    memset(fake_ptr(&f->h, r->base, 32 << log2), 0, 32 << log2);
}

/* The ring is full: a sticky event, and nobody's wake-up is lost. */
TEST_OF(test_notify_ring_full, Fix *f, fix_test)
{
    bool woken[8] = { false };
    struct unetmm_notify n;
    FakeEp e[5];

    small_notify_ring(f, 1);
    fake_set_reg(&f->h, UNETMM_REG_EVENT_MASK, UNETMM_EVENT_NOTIFY_FULL);
    for (unsigned i = 0; i < 5; i++) {
        fake_ep_open(&e[i], &f->d, 3 + i, f->s1);
        fake_connect_peer(&e[i], FIX_WIRE, 13, FIX_MTU);
        arm(&e[i], ARM(0));
        fake_deliver(&f->h, fake_datagram(&e[i], FIX_WIRE, 13, 8, i));
    }
    assert_true(fake_reg(&f->h, UNETMM_REG_EVENTS) &
                UNETMM_EVENT_NOTIFY_FULL);
    assert_int_equal(f->h.interrupts[UNETMM_VEC_EVENT], 1);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_notify_waited), 1);
    for (unsigned i = 0; i < 5; i++) {
        assert_true(fake_notification(&f->d, &n));
        assert_int_equal(n.type, UNETMM_NOTIFY_CQ);
        assert_int_equal(n.data, 1);
        assert_false(woken[n.ep]);
        woken[n.ep] = true;
    }
    assert_false(fake_notification(&f->d, &n));
    assert_true(fake_reg(&f->h, UNETMM_REG_EVENTS) &
                UNETMM_EVENT_NOTIFY_FULL);
}

TEST_OF(test_notify_ring_wraps, Fix *f, fix_test)
{
    for (uint32_t log2 = 1; log2 < 5; log2++) {
        small_notify_ring(f, log2);
        for (unsigned i = 0; i < 100; i++) {
            struct unetmm_cqe cqe;

            arm(&f->a, ARM(f->a.cq_cons));
            deliver(f, i);
            assert_int_equal(notified(f, 1), 1);
            assert_true(fake_poll(&f->a, &cqe));
        }
    }
}

/* A wake-up that waits for a closed endpoint waits for nothing. */
TEST_OF(test_notify_of_closed_endpoint, Fix *f, fix_test)
{
    struct unetmm_notify n;

    fake_set_reg(&f->h, UNETMM_REG_RING(UNETMM_RING_NOTIFY) +
                 UNETMM_RING_ENABLE, 0);
    arm(&f->a, ARM(0));
    arm(&f->b, ARM(0));
    deliver(f, 1);
    fake_deliver(&f->h, fake_datagram(&f->b, FIX_WIRE, 12, 8, 1));
    fake_ep_destroy(&f->a);
    assert_int_equal(f->h.core.lists->tell.used, 1);
    fake_set_reg(&f->h, UNETMM_REG_RING(UNETMM_RING_NOTIFY) +
                 UNETMM_RING_ENABLE, 1);
    assert_true(fake_notification(&f->d, &n));
    assert_int_equal(n.ep, 2);
    assert_false(fake_notification(&f->d, &n));
}

TEST_OF(test_notify_moderation, Fix *f, fix_test)
{
    unsigned *n = &f->h.interrupts[UNETMM_VEC_NOTIFY];

    fake_set_reg(&f->h, UNETMM_REG_RING(UNETMM_RING_NOTIFY) +
                 UNETMM_RING_MODERATE, 50000);
    fake_advance(&f->h, 100000);
    for (unsigned i = 0; i < 10; i++) {
        struct unetmm_cqe cqe;

        arm(&f->a, ARM(i));
        deliver(f, i);
        assert_true(fake_poll(&f->a, &cqe));
    }
    assert_int_equal(*n, 1);
    assert_int_equal(notified(f, 1), 10);
    fake_advance(&f->h, 49999);
    assert_int_equal(*n, 1);
    fake_advance(&f->h, 1);
    assert_int_equal(*n, 2);
    fake_advance(&f->h, 1000000);
    assert_int_equal(*n, 2);
}

/* One run of the engine costs at most one message a vector. */
TEST_OF(test_interrupts_are_batched, Fix *f, fix_test)
{
    FakeEp e[4];

    for (unsigned i = 0; i < 4; i++) {
        fake_ep_open(&e[i], &f->d, 3 + i, f->s1);
        fake_connect_peer(&e[i], FIX_WIRE, 13, FIX_MTU);
        fake_send_at(&e[i], FIX_WIRE, PAGE(i), 100, i);
    }
    fake_set_reg(&f->h, UNETMM_REG_CTRL, 0);
    for (unsigned i = 0; i < 4; i++) {
        fake_ring_bell(&e[i]);
    }
    f->h.interrupts[UNETMM_VEC_FAULT] = 0;
    fake_set_reg(&f->h, UNETMM_REG_CTRL, 1);
    assert_int_equal(f->h.interrupts[UNETMM_VEC_FAULT], 1);
    fake_serve(&f->d);
    assert_int_equal(f->d.misses, 4);
}
