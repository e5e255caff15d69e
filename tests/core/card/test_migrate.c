/*
 * unetmm: the card saved, thrown away and restored in the middle of everything
 *
 * The other test programs run a second time with that at every step
 * (UNETMM_MIGRATE, see meson.build).  Here: a run with it and one without come
 * to the same end, bit for bit; states that do not fit the card are refused;
 * and a stream that somebody has changed is refused or does no harm.
 * UNETMM_SEED chooses the run.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fixture.h"
#include "congestion/congestion.h"
#include "slots.h"
#include "ud.h"

#define PAGE(n) (FIX_VA + (uint64_t)(n) * FAKE_PAGE)
#define PAGE_NS 1000
#define STEPS   500
#define FLIPS   3000            /* damaged streams for each scene */

static void paged(UnetmmParams *p)
{
    p->dma_page_ns = PAGE_NS;
}

static void cramped(UnetmmParams *p)
{
    p->dma_page_ns = PAGE_NS;
    p->tlb_sets = 8;
    p->tlb_ways = 2;
    p->tlb_victims = 4;
    p->tlb_replace = UNETMM_TLB_REPLACE_RANDOM;
    p->max_faults = 3;
    p->local_queue = 4;
    p->budget_descriptors = 3;
}

/* ---- A run with and a run without --------------------------------------- */

typedef struct Run {
    Fix f;
    uint64_t random;
    unsigned sent, done, posted, received, returned;
} Run;

static uint32_t rnd(Run *r, uint32_t n)
{
    return fake_random(&r->random) % n;
}

static void run_send(Run *r)
{
    FakeEp *ep = rnd(r, 2) ? &r->f.a : &r->f.b;
    uint32_t len = rnd(r, 5) ? 41 + rnd(r, 2 * FAKE_PAGE) : rnd(r, 41);

    if (r->sent - r->done < 8 && !rnd(r, 4)) {
        const struct unetmm_seg seg = { PAGE(rnd(r, 16)), len, { 0 } };
        const uint8_t *mac = rnd(r, 3) ? r->f.h.core.params.mac :
                             fake_peer_mac;

        ud_post(ep, (struct unetmm_sqe) {
            .opcode = UNETMM_OP_SEND_TO, .flags = UNETMM_SQE_F_INLINE,
            .nsegs = 1, .inline_len = UD_HEAD, .channel = UD_CH, .handle = 7,
            .cookie = r->sent++,
            .remote = ud_address(mac, 1 + rnd(r, 2)) }, 1, &seg);
        fake_ring_bell(ep);
    } else if (r->sent - r->done < 8) {
        fake_send_at(ep, rnd(r, 3) ? FIX_LOCAL : FIX_WIRE,
                     PAGE(rnd(r, 16)) + rnd(r, 200), len, r->sent++);
        fake_ring_bell(ep);
    }
}

static void run_post(Run *r)
{
    if (r->posted - r->received - r->returned < 8) {
        fake_post(rnd(r, 2) ? &r->f.a : &r->f.b, PAGE(16 + rnd(r, 16)),
                  (2 + rnd(r, 2)) * FAKE_PAGE, r->posted++);
    }
}

static void run_poll(Run *r)
{
    struct unetmm_cqe cqe;
    struct unetmm_notify n;

    for (unsigned i = 0; i < 2; i++) {
        FakeEp *ep = i ? &r->f.a : &r->f.b;

        while (fake_poll(ep, &cqe)) {
            r->done += cqe.opcode == UNETMM_CQE_SENT;
            r->returned += cqe.opcode == UNETMM_CQE_BUFFER;
            r->received += cqe.opcode == UNETMM_CQE_RECEIVED &&
                           !(cqe.flags & UNETMM_CQE_F_INLINE);
        }
        fake_user_word(ep, offsetof(struct unetmm_ep_user, cq_arm),
                       (ep->cq_cons & UNETMM_ARM_COUNT) | UNETMM_ARM);
    }
    while (fake_notification(&r->f.d, &n)) {
    }
}

static void run_memory(Run *r)
{
    FakeSpace *s = rnd(r, 2) ? r->f.s1 : r->f.s2;
    FakeVpage *v = fake_vpage(s, PAGE(rnd(r, 32)));

    if (rnd(r, 2)) {
        /* Away now, back at one of the next steps. */
        v->absent = true;
    } else if (fake_invalidate(s, v->vpn << 12, FAKE_PAGE)) {
        while (fake_reg(&r->f.h, UNETMM_REG_INV_CTRL)) {
            fake_advance(&r->f.h, 100);
        }
    }
}

static void run_step(Run *r)
{
    FakeFrame *frame;

    switch (rnd(r, 10)) {
    case 0: case 1:
        run_send(r);
        break;
    case 2:
        run_post(r);
        break;
    case 3:
        run_poll(r);
        break;
    case 4:
        run_memory(r);
        break;
    case 5:
        frame = fake_datagram(&r->f.b, FIX_WIRE, 12, 41 + rnd(r, 9000),
                              rnd(r, 99));
        /* Refused, the sender would keep it; here it is lost. */
        fake_receive(&r->f.h, frame);
        g_free(frame);
        break;
    case 6:
        fake_serve(&r->f.d);
        break;
    case 7:
        for (unsigned i = 0; i < 32; i++) {
            fake_vpage(r->f.s1, PAGE(i))->absent = false;
            fake_vpage(r->f.s2, PAGE(i))->absent = false;
        }
        fake_paged_in(&r->f.d);
        fake_serve(&r->f.d);
        break;
    default:
        fake_advance(&r->f.h, rnd(r, 3 * PAGE_NS));
        fake_run_later(&r->f.h);
        break;
    }
}

static void run_start(Run *r, FixTune *tune, uint64_t seed)
{
    UnetmmParams p;

    memset(r, 0, sizeof(*r));
    r->random = seed;
    fake_params(&p);
    tune(&p);
    fake_host_init(&r->f.h, &p);
    fake_driver_init(&r->f.d, &r->f.h);
    fake_driver_start(&r->f.d);
    r->f.s1 = fake_space(&r->f.d, 1, UNETMM_SOURCE_TLB, 0);
    r->f.s2 = fake_space(&r->f.d, 2, UNETMM_SOURCE_TLB, 0);
    fake_map(r->f.s1, FIX_VA, FIX_PAGES * FAKE_PAGE, FAKE_RW);
    fake_map(r->f.s2, FIX_VA, FIX_PAGES * FAKE_PAGE, FAKE_RW);
    fake_ep_open(&r->f.a, &r->f.d, 1, r->f.s1);
    fake_ep_open(&r->f.b, &r->f.d, 2, r->f.s2);
    fake_connect(&r->f.a, &r->f.b, FIX_LOCAL, FIX_MTU);
    fake_connect_peer(&r->f.a, FIX_WIRE, 11, FIX_MTU);
    fake_connect_peer(&r->f.b, FIX_WIRE, 12, FIX_MTU);
    fake_command(&r->f.d, ud_cmd(1, 7, 9000), NULL);
    fake_command(&r->f.d, ud_cmd(2, 7, 9000), NULL);
    fake_set_reg(&r->f.h, UNETMM_REG_RING(UNETMM_RING_NOTIFY) +
                 UNETMM_RING_MODERATE, 2500);
    fake_fill(r->f.s1, FIX_VA, 24 * FAKE_PAGE, 7);
    fake_fill(r->f.s2, FIX_VA, 24 * FAKE_PAGE, 8);
    r->f.h.core.knobs = (UnetmmKnobs) {
        .loss = 20000, .dup = 20000, .reorder = 90000, .corrupt = 20000,
        .force_miss = 20000, .force_evict = 20000, .delay = 90000,
        .delay_ns = 3 * PAGE_NS, .fault_delay = 200000,
        .fault_delay_ns = 3 * PAGE_NS, .fault_fail = 20000,
        .fault_refuse = 20000,
    };
    unetmm_core_set_seed(&r->f.h.core, seed);
}

static void run_end(Run *r)
{
    fake_driver_free(&r->f.d);
    fake_host_free(&r->f.h);
}

static void same_end(Run *with, Run *without)
{
    GByteArray *a = unetmm_core_save(&with->f.h.core);
    GByteArray *b = unetmm_core_save(&without->f.h.core);

    assert_int_equal(a->len, b->len);
    assert_memory_equal(a->data, b->data, a->len);
    assert_memory_equal(with->f.h.ram, without->f.h.ram, FAKE_RAM_BYTES);
    assert_memory_equal(with->f.h.rights, without->f.h.rights,
                        FAKE_RAM_BYTES);
    assert_memory_equal(with->f.h.interrupts, without->f.h.interrupts,
                        sizeof(with->f.h.interrupts));
    assert_int_equal(with->f.h.wire->len, without->f.h.wire->len);
    assert_int_equal(with->done, without->done);
    assert_int_equal(with->received, without->received);
    g_byte_array_unref(a);
    g_byte_array_unref(b);
}

/* A test that runs alone makes the checks that it makes behind others. */
TEST(test_first_migration_is_checked, cmocka_unit_test)
{
    g_autofree FakeHost *one = g_new(FakeHost, 1);
    g_autofree FakeHost *two = g_new(FakeHost, 1);

    fake_host_init(one, NULL);
    fake_host_init(two, NULL);
    fake_migrate(one);
    fake_migrate(two);
    assert_int_equal(one->bounds_checked, 1);
    assert_int_equal(two->bounds_checked, 1);
    fake_host_free(one);
    fake_host_free(two);
}

/* The same run twice, once with the card moved after every single step. */
static void compare_runs(FixTune *tune)
{
    g_autofree Run *with = g_new(Run, 1);
    g_autofree Run *without = g_new(Run, 1);

    run_start(with, tune, fake_seed());
    run_start(without, tune, fake_seed());
    for (unsigned i = 0; i < STEPS; i++) {
        run_step(without);
        run_step(with);
        fake_migrate(&with->f.h);
    }
    same_end(with, without);
    assert_true(with->done > 10 && with->received > 3);
    run_end(with);
    run_end(without);
}

TEST(test_run_paged, cmocka_unit_test)
{
    compare_runs(paged);
}

TEST(test_run_cramped, cmocka_unit_test)
{
    compare_runs(cramped);
}

/* ---- In the middle of each kind of transfer ----------------------------- */

/*
 * Endpoint a: a page is moving; b: a message lands in its buffer, its second
 * page invalidated and the first one waited for; both owe and wait for things.
 */
static void busy_scene(Fix *f)
{
    struct unetmm_fault miss;

    fake_insert(f->s1, PAGE(0), 3, NULL);
    fake_insert(f->s2, PAGE(0), 3, NULL);
    fake_fill(f->s1, PAGE(0), 3 * FAKE_PAGE, 5);
    fake_post(&f->b, PAGE(0), 2 * FAKE_PAGE, 50);
    fake_post(&f->b, PAGE(8), 2 * FAKE_PAGE, 51);
    fake_ring_bell(&f->b);
    /* The second buffer is asked for, taken and not answered. */
    assert_true(fake_fault(&f->d, &miss));
    fake_send_at(&f->a, FIX_LOCAL, PAGE(0), 2 * FAKE_PAGE, 1);
    fake_ring_bell(&f->a);
    fake_advance(&f->h, 2 * PAGE_NS);
    assert_true(f->h.core.landing->active);
    fake_send_at(&f->a, FIX_LOCAL, PAGE(1), FAKE_PAGE + 5, 2);
    fake_send_inline(&f->a, FIX_WIRE, 3, 30, 3, 0);
    fake_ring_bell(&f->a);
    fake_send_at(&f->b, FIX_WIRE, PAGE(20), 500, 4);
    fake_ring_bell(&f->b);
    assert_int_equal(f->h.core.eps[1].tx.blocked_on, UNETMM_BLOCKED_TIME);
    assert_int_equal(f->h.core.eps[2].tx.blocked_on, UNETMM_BLOCKED_FAULT);
    /* A datagram waits behind the one that lands. */
    fake_deliver(&f->h, fake_datagram(&f->b, FIX_WIRE, 12, 20, 6));
    assert_int_equal(f->h.core.port->fifo_used, 1);
}

TEST_OF(test_busy, Fix *f, fix_test_with, paged)
{
    struct unetmm_cqe cqe;

    busy_scene(f);
    assert_true(fake_invalidate(f->s1, PAGE(1), FAKE_PAGE));
    fake_migrate(&f->h);
    assert_int_equal(fake_reg(&f->h, UNETMM_REG_INV_CTRL), UNETMM_INV_BUSY);
    assert_int_equal(f->h.core.source->tlb.moving, 2);
    fake_advance(&f->h, PAGE_NS);
    assert_int_equal(fake_reg(&f->h, UNETMM_REG_INV_CTRL), 0);
    fake_paged_in(&f->d);
    for (unsigned i = 0; i < 8; i++) {
        fake_migrate(&f->h);
        fake_serve(&f->d);
        fake_advance(&f->h, PAGE_NS);
    }
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 3);
    fake_expect_none(&f->a);
    cqe = fake_expect(&f->b, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 50);
    assert_int_equal(cqe.len, 2 * FAKE_PAGE);
    fake_check(f->s2, PAGE(0), 2 * FAKE_PAGE, 5);
}

TEST_OF(test_closing, Fix *f, fix_test_with, paged)
{
    struct unetmm_cmd cmd = { .opcode = UNETMM_CMD_EP_DESTROY, .ep = 1 };
    struct unetmm_cmd_done done;
    uint16_t tag;

    busy_scene(f);
    tag = fake_issue(&f->d, cmd);
    cmd.ep = 2;
    fake_issue(&f->d, cmd);
    assert_false(fake_done(&f->d, &done));
    fake_migrate(&f->h);
    assert_int_equal(f->h.core.ring->late, 2);
    fake_advance(&f->h, PAGE_NS);
    assert_true(fake_done(&f->d, &done));
    assert_true(fake_done(&f->d, &done));
    assert_true(done.tag == tag || done.tag == tag + 1);
    fake_migrate(&f->h);
    assert_int_equal(f->h.core.ring->late, 0);
    assert_int_equal(f->h.core.source->tlb.used, 0);
}

/* The frame that the net layer had stays there: lost, counted, not waited for. */
TEST_OF(test_left_behind, Fix *f, fix_test)
{
    f->h.answer = UNETMM_SENT_QUEUED;
    fake_send_inline(&f->a, FIX_WIRE, 1, 30, 1, 0);
    fake_send_inline(&f->a, FIX_WIRE, 2, 30, 2, 0);
    fake_ring_bell(&f->a);
    assert_int_equal(f->h.core.eps[1].tx.blocked_on, UNETMM_BLOCKED_WIRE);
    assert_int_equal(f->h.wire->len, 1);
    f->h.answer = UNETMM_SENT_DONE;
    {
        GByteArray *saved = unetmm_core_save(&f->h.core);
        g_autofree char *why = NULL;

        f->h.core.port->busy = false;    /* the new place's wire is free */
        assert_true(unetmm_core_load(&f->h.core, saved->data, saved->len,
                                     &why));
        g_byte_array_unref(saved);
    }
    assert_int_equal(fake_counter(&f->h, UNETMM_C_drop_purged), 1);
    fake_run_later(&f->h);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
    assert_int_equal(f->h.wire->len, 2);
}

/* A card that stands still does nothing, takes nothing and forgets nothing. */
TEST_OF(test_pause, Fix *f, fix_test)
{
    FakeFrame *frame = fake_datagram(&f->a, FIX_WIRE, 11, 30, 6);
    uint64_t writes;

    unetmm_core_pause(&f->h.core, true);
    writes = f->h.writes;
    fake_send_inline(&f->a, FIX_WIRE, 1, 30, 1, 0);
    fake_ring_bell(&f->a);
    assert_false(fake_receive(&f->h, frame));
    fake_run_later(&f->h);
    assert_int_equal(f->h.wire->len, 0);
    assert_int_equal(f->h.writes, writes);
    fake_migrate(&f->h);
    unetmm_core_pause(&f->h.core, false);
    fake_run_later(&f->h);
    assert_int_equal(f->h.may_receive, 1);
    assert_true(fake_receive(&f->h, frame));
    g_free(frame);
    assert_int_equal(f->h.wire->len, 1);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 0);
}

/* Another card, in a machine that a stream is being read into. */
static void move_to_paused(Fix *f)
{
    UnetmmCore *core = &f->h.core;
    UnetmmParams params = core->params;
    const UnetmmHostOps *ops = core->ops;
    GByteArray *saved = unetmm_core_save(core);
    g_autofree char *why = NULL;

    unetmm_core_free(core);
    unetmm_core_init(core, &params, ops, &f->h);
    core->port->link = core->engine.paused = true;
    f->h.timer = INT64_MAX;
    f->h.later = 0;
    assert_true(unetmm_core_load(core, saved->data, saved->len, &why));
    g_byte_array_unref(saved);
}

/* The main loop turns while the machine stands still: nobody hears of it. */
TEST_OF(test_paused_interrupt, Fix *f, fix_test)
{
    unsigned *sent = &f->h.interrupts[UNETMM_VEC_FAULT];

    fake_set_reg(&f->h, UNETMM_REG_RING(UNETMM_RING_FAULT) +
                 UNETMM_RING_MODERATE, 1000000);
    fix_send(f, &f->a, 0, 100, 1);
    fix_send(f, &f->b, 1, 100, 2);
    assert_int_equal(*sent, 1);
    /* The time of the second one is over before its timer has run. */
    f->h.now += 2000000;
    unetmm_core_pause(&f->h.core, true);
    unetmm_core_run(&f->h.core);
    unetmm_core_timer(&f->h.core);
    assert_int_equal(*sent, 1);
    move_to_paused(f);
    fake_run_later(&f->h);
    unetmm_core_set_link(&f->h.core, false);
    assert_int_equal(*sent, 1);
    assert_int_equal(f->h.timer, INT64_MAX);
    unetmm_core_pause(&f->h.core, false);
    assert_int_equal(*sent, 1);
    fake_run_later(&f->h);
    assert_int_equal(*sent, 2);
}

/* An answer that was late, and is due: those that wait for it wait on. */
TEST_OF(test_paused_miss, Fix *f, fix_test)
{
    struct unetmm_fault miss;
    uint64_t writes;

    f->h.core.knobs.fault_delay = 1000000;
    f->h.core.knobs.fault_delay_ns = 1;
    fix_send(f, &f->a, 0, 100, 1);
    assert_true(fake_fault(&f->d, &miss));
    fake_resolve(&f->d, &miss, 1, NULL);
    assert_int_equal(f->h.core.miss->late, 1);
    f->h.now += 1000;
    unetmm_core_pause(&f->h.core, true);
    writes = f->h.writes;
    move_to_paused(f);
    fake_run_later(&f->h);
    unetmm_core_timer(&f->h.core);
    assert_int_equal(f->h.core.miss->late, 1);
    assert_int_equal(f->h.core.eps[1].tx.blocked_on, UNETMM_BLOCKED_FAULT);
    assert_int_equal(f->h.writes, writes);
    unetmm_core_pause(&f->h.core, false);
    fake_run_later(&f->h);
    assert_int_equal(f->h.core.miss->late, 0);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
}

/* A page that moves, a channel's time: a timer that comes changes nothing. */
TEST_OF(test_paused_timer, Fix *f, fix_test_with, paged)
{
    uint64_t reads;

    busy_scene(f);
    f->h.now += 10 * PAGE_NS;
    unetmm_core_pause(&f->h.core, true);
    reads = f->h.reads;
    unetmm_core_timer(&f->h.core);
    assert_int_equal(f->h.reads, reads);
    assert_true(f->h.core.landing->moving && f->h.core.eps[1].tx.moving);
    unetmm_core_pause(&f->h.core, false);
    fake_run_later(&f->h);
    assert_true(f->h.timer <= f->h.now);
    fake_advance(&f->h, 0);
    assert_true(f->h.reads > reads);
}

/* The link is the new place's; a change is an event. */
TEST_OF(test_link, Fix *f, fix_test)
{
    GByteArray *saved = unetmm_core_save(&f->h.core);
    g_autofree char *why = NULL;

    f->h.core.port->link = false;
    assert_true(unetmm_core_load(&f->h.core, saved->data, saved->len, &why));
    assert_false(fake_reg(&f->h, UNETMM_REG_STATUS) & UNETMM_STATUS_LINK);
    assert_true(fake_reg(&f->h, UNETMM_REG_EVENTS) & UNETMM_EVENT_LINK);
    g_byte_array_unref(saved);
}

/* A snapshot is loaded into a card that has gone on, and goes back in time. */
TEST_OF(test_snapshot, Fix *f, fix_test_with, paged)
{
    GByteArray *saved, *again;
    g_autofree uint8_t *ram = NULL;
    g_autofree char *why = NULL;

    busy_scene(f);
    saved = unetmm_core_save(&f->h.core);
    ram = g_memdup2(f->h.ram, FAKE_RAM_BYTES);
    fake_advance(&f->h, PAGE_NS);
    fake_advance(&f->h, PAGE_NS);
    fake_serve(&f->d);
    memcpy(f->h.ram, ram, FAKE_RAM_BYTES);
    assert_true(unetmm_core_load(&f->h.core, saved->data, saved->len, &why));
    again = unetmm_core_save(&f->h.core);
    assert_int_equal(saved->len, again->len);
    assert_memory_equal(saved->data, again->data, saved->len);
    assert_true(unetmm_core_load(&f->h.core, saved->data, saved->len, &why));
    assert_int_equal(f->h.core.source->tlb.moving, 2);
    g_byte_array_unref(saved);
    g_byte_array_unref(again);
}

/* ---- States of another card --------------------------------------------- */

#define OTHERS(X) \
    X("endpoints", endpoints, 9) \
    X("spaces", spaces, 9) \
    X("channels", channels, 17) \
    X("tlb-sets", tlb_sets, 128) \
    X("tlb-ways", tlb_ways, 2) \
    X("tlb-victims", tlb_victims, 17) \
    X("tlb-index", tlb_index, 1) \
    X("tlb-replace", tlb_replace, 1) \
    X("cache-entries", cache_entries, 128) \
    X("cache-ways", cache_ways, 8) \
    X("utlb-fetch", utlb_fetch, 16) \
    X("pretranslate", pretranslate, 5) \
    X("fault-batch", fault_batch, 17) \
    X("max-faults", max_faults, 65) \
    X("user-mtu", user_mtu, 9001) \
    X("local-queue", local_queue, 65) \
    X("flows", flows, 17) \
    X("backup-bits", backup_bits, 65) \
    X("congestion", congestion, UNETMM_CONGESTION_DELAY) \
    X("congestion-window", congestion_window, 17) \
    X("congestion-trip-ns", congestion_trip_ns, 1) \
    X("x-dma-page-ns", dma_page_ns, 1) \
    X("mac", mac[5], 0x77)

static void other_params(unsigned n, UnetmmParams *p, const char **name)
{
    unsigned i = 0;

#define CASE(property, field, v) \
    if (i++ == n) { \
        p->field = v; \
        *name = property; \
    }
    OTHERS(CASE)
#undef CASE
}

/* A sentence that begins with the property, and a card that works as new. */
TEST_OF(test_mismatch, Fix *f, fix_test_with, paged)
{
    GByteArray *saved;

    busy_scene(f);
    saved = unetmm_core_save(&f->h.core);
    for (unsigned n = 0; ; n++) {
        g_autofree char *why = NULL;
        const char *name = NULL;
        UnetmmParams p = f->h.core.params;
        FakeHost other;

        other_params(n, &p, &name);
        if (!name) {
            assert_true(n > 10);
            break;
        }
        fake_host_init(&other, &p);
        assert_false(unetmm_core_load(&other.core, saved->data, saved->len,
                                      &why));
        assert_int_equal(strncmp(why, name, strlen(name)), 0);
        assert_int_equal(fake_reg(&other, UNETMM_REG_CTRL), 0);
        fake_host_free(&other);
    }
    g_byte_array_unref(saved);
}

TEST_OF(test_truncated, Fix *f, fix_test_with, paged)
{
    GByteArray *saved;
    FakeHost other;

    busy_scene(f);
    saved = unetmm_core_save(&f->h.core);
    fake_host_init(&other, &f->h.core.params);
    for (unsigned n = 0; n < saved->len; n += n < 400 ? 1 : 13) {
        g_autofree char *why = NULL;
        /* Memory of just that size, so that the sanitizer sees one too far. */
        g_autofree uint8_t *cut = g_memdup2(saved->data, n);

        assert_false(unetmm_core_load(&other.core, cut, n, &why));
        assert_non_null(strstr(why, "too early"));
    }
    g_byte_array_set_size(saved, saved->len + 1);
    {
        g_autofree char *why = NULL;

        assert_false(unetmm_core_load(&other.core, saved->data, saved->len,
                                      &why));
    }
    fake_host_free(&other);
    g_byte_array_unref(saved);
}

/* The number at this place of the stream, in numbers of eight bytes. */
static void put_u64(GByteArray *saved, unsigned at, uint64_t value)
{
    value = cpu_to_le64(value);
    memcpy(saved->data + at * sizeof(value), &value, sizeof(value));
}

/* A card of the parameters that a stream begins with takes it. */
TEST_OF(test_saved_params, Fix *f, fix_test_with, paged)
{
    const UnetmmParams *mine = &f->h.core.params;
    UnetmmParams p = { .budget_descriptors = 77, .budget_bytes = 1 << 17 };
    g_autofree char *why = NULL;
    GByteArray *saved;
    FakeHost other;

    busy_scene(f);
    saved = unetmm_core_save(&f->h.core);
    assert_null(unetmm_core_saved_params(saved->data, saved->len, &p));
    assert_int_equal(p.budget_descriptors, 77);
    assert_int_equal(p.budget_bytes, 1 << 17);
    assert_int_equal(p.endpoints, mine->endpoints);
    assert_int_equal(p.backup_bits, mine->backup_bits);
    assert_int_equal(p.dma_page_ns, mine->dma_page_ns);
    assert_memory_equal(p.mac, mine->mac, sizeof(p.mac));
    fake_host_init(&other, &p);
    assert_true(unetmm_core_load(&other.core, saved->data, saved->len, &why));
    fake_host_free(&other);
    g_byte_array_unref(saved);
}

static void expect_params(GByteArray *saved, size_t bytes, const char *part)
{
    UnetmmParams p = { .budget_descriptors = 77, .budget_bytes = 1 << 17 };
    /* Memory of just that size, so that the sanitizer sees one too far. */
    g_autofree uint8_t *cut = g_memdup2(saved->data, bytes);
    const char *wrong = unetmm_core_saved_params(cut, bytes, &p);

    if (!wrong || !strstr(wrong, part)) {
        fail_msg("%zu bytes: \"%s\" is not in: %s", bytes, part,
                 wrong ?: "nothing");
    }
}

TEST_OF(test_saved_params_wrong, Fix *f, fix_test)
{
    enum { MARK, VERSION, ENDPOINTS };
    GByteArray *saved = unetmm_core_save(&f->h.core);
    UnetmmParams p = f->h.core.params;
    size_t bytes = 0;

    while (unetmm_core_saved_params(saved->data, bytes, &p)) {
        bytes++;
    }
    assert_in_range(bytes, 20 * 8, 40 * 8);
    for (size_t n = 0; n < bytes; n++) {
        expect_params(saved, n, n < 8 ? "that a card has saved" :
                      n < 16 ? "another version" : "ends too early");
    }
    /* As a number of 32 bits, that would be the one before. */
    put_u64(saved, ENDPOINTS, (1ull << 32) + p.endpoints);
    expect_params(saved, bytes, "endpoints");
    put_u64(saved, VERSION, 1);
    expect_params(saved, bytes, "another version");
    put_u64(saved, MARK, 1);
    expect_params(saved, bytes, "that a card has saved");
    g_byte_array_unref(saved);
}

/* ---- Streams that somebody has changed ---------------------------------- */

/* More than its window, and they are no chain. */
static void more_heads(UnetmmEp *ep)
{
    for (uint32_t i = 0; i <= ep->max_heads; i++) {
        ep->heads[i] = ep->heads[0];
    }
    ep->first_head = 0;
    ep->nheads = ep->max_heads + 1;
}

/* Impossible states, each with a part of the sentence that refuses it. */
#define LIES(X) \
    X(c->eps[2].heads[1].len = 0, "a free buffer that it would have refused") \
    X(c->eps[2].heads[1].addr = -5, "a free buffer that it would have") \
    X(c->eps[2].heads[1].len = 1 << 30, "a free buffer that it would have") \
    X(c->eps[2].heads[1].state = UNETMM_HEAD_READY, "the reverse") \
    X(c->eps[2].heads[1].state = 77, "head[1].state is 77") \
    X(c->eps[2].nheads = 17, "nheads is 17") \
    X(more_heads(&c->eps[2]), "a free buffer of too many parts") \
    X(c->eps[2].tx.blocked_on = UNETMM_BLOCKED_NOT, "the reverse") \
    X(c->eps[2].tx.blocked_on = UNETMM_BLOCKED_CQ, "waits for nothing") \
    X(c->eps[1].tx.seg_off++, "do not agree") \
    X(c->eps[1].tx.done++, "do not agree") \
    X(c->eps[1].tx.desc.segs[0].addr += FAKE_PAGE, "of something else") \
    X(c->eps[1].tx.desc.segs[0].addr = -1, "wraps round") \
    X(c->eps[1].tx.slots = 0, "fits no queue") \
    X(c->eps[1].tx.desc.opcode = UNETMM_OP_CONTROL, "may not send this") \
    X(c->eps[1].tx.deadline_ns += 5 * PAGE_NS, "too far ahead") \
    X(c->eps[1].tx.page.id = 7, "of something else") \
    X(c->eps[2].error = true, "stopped and goes on") \
    X(c->eps[1].closing = true, "stopped and not stopped") \
    X(c->eps[1].cq_prod += 40, "out of its queue") \
    X(c->eps[1].fq_log2 = 15, "could not have been created") \
    X(c->spaces[1].live = false, "of a space that has none") \
    X(c->spaces[2].table = 5, "could not have been created") \
    X(c->eps[1].channels[1].mtu = 1, "could not have been set") \
    X(c->miss->all[UNETMM_EP_MISSES * 2 + 2].state = UNETMM_MISS_NONE, \
      "not in flight") \
    X(c->miss->all[UNETMM_EP_MISSES * 2 + 2].npages = 0, "there cannot be") \
    X(c->miss->all[UNETMM_EP_MISSES * 2 + 2].write = false, "in vain") \
    X(c->miss->all[UNETMM_EP_MISSES * 3].state = UNETMM_MISS_WANTED; \
      c->miss->all[UNETMM_EP_MISSES * 3].npages = 1, \
      "of no endpoint") \
    X(c->miss->in_flight[c->miss->in_flight_used] = c->miss->in_flight[0]; \
      c->miss->in_flight_used++, \
      "not in flight") \
    X(c->miss->in_flight_used = 0, "not those asked") \
    X(twice(&c->lists->ready, 1), "served twice") \
    X(twice(&c->miss->wanted, 1), "reported twice") \
    X(c->source->tlb.slot[0] = c->source->tlb.slot[1], "in two slots") \
    X(idle(c)->valid = false; idle_dying(c), "kept for nobody") \
    X(idle(c)->vpn += 1, "cannot be found") \
    X(idle(c)->space = 5, "of a space that has none") \
    X(idle(c)->pte = 0, "of a space that has none") \
    X(c->landing->place.off += 5, "lands where it cannot") \
    X(c->landing->place.pieces[0].addr += FAKE_PAGE, "lands where it cannot") \
    X(c->landing->len = 0, "lands where it cannot") \
    X(c->landing->ep = 1, "lands where it cannot") \
    X(c->landing->cqe.cookie = 3, "lands where it cannot") \
    X(c->ring->all[UNETMM_RING_FAULT].log2 = 40, "no driver could have set") \
    X(c->ring->all[UNETMM_RING_CMD].prod += 70, "no driver could have set") \
    X(c->ring->all[UNETMM_RING_NOTIFY].enabled = false; \
      c->ring->all[UNETMM_RING_NOTIFY].prod = 1, "off has indices") \
    X(c->random = 0, "have no state") \
    X(c->knobs.loss = 2000000, "knobs.x-loss is 2000000") \
    X(c->knobs.delay_ns = 2000000000, "knobs.x-delay-ns is") \
    X(late_miss(c, UNETMM_REPLY_DEFERRED, 0, 1), "says nothing") \
    X(late_miss(c, UNETMM_REPLY_RESOLVED, 1, 1), "says nothing") \
    X(late_miss(c, UNETMM_REPLY_ERROR, 0, 1), "says nothing") \
    X(late_miss(c, UNETMM_REPLY_RETRY, 0, 1), "late_reply is 3") \
    X(late_miss(c, UNETMM_REPLY_RESOLVED, 0, INT64_MAX / 2), "too far ahead") \
    X(late_frames(c, 500, 499), "before its turn") \
    X(late_frames(c, 500, INT64_MAX / 2), "too far ahead") \
    X(c->port->delayed_used = 65, "port.delayed_used is 65") \
    X(c->engine.ctrl = UNETMM_CTRL_RESET, "registers.ctrl is 2") \
    X(c->engine.status = UNETMM_STATUS_LINK, "STATUS has bits") \
    X(c->inv->space = 8, "inv_going_space is 8") \
    X(c->ring->vectors[0].not_before_ns = INT64_MAX, "too far ahead")

/* A translation that nothing uses. */
static UnetmmTlbEntry *idle(UnetmmCore *core)
{
    for (uint32_t i = 0; i < unetmm_tlb_capacity(&core->source->tlb); i++) {
        UnetmmTlbEntry *e = &core->source->tlb.entries[i];

        if ((e->valid || e->stamp) && !e->busy) {
            return e;
        }
    }
    fail();
    return NULL;
}

static void idle_dying(UnetmmCore *core)
{
    idle(core)->dying = true;
}

/* The second buffer's miss, answered but not yet told. */
static void late_miss(UnetmmCore *core, uint8_t reply, uint8_t status,
                      int64_t ns)
{
    UnetmmMiss *miss = &core->miss->all[UNETMM_EP_MISSES * 2 + 2];

    miss->late = true;
    miss->late_reply = reply;
    miss->late_status = status;
    miss->due_ns = core->ops->now_ns(core->host) + ns;
    core->miss->late++;
}

static void late_frames(UnetmmCore *core, int64_t first, int64_t second)
{
    int64_t after[] = { first, second };

    for (unsigned i = 0; i < 2; i++) {
        UnetmmDelayed *d = &core->port->delayed[core->port->delayed_used++];

        d->frame = unetmm_port_buffer(core);
        d->bytes = sizeof(struct unetmm_frame);
        memset(d->frame, 0, d->bytes);
        d->due_ns = core->ops->now_ns(core->host) + after[i];
    }
}

/* Each in a scene of its own, for a core that is wrong is of no more use. */
static void tell_lie(unsigned number, const char **expected, bool *told)
{
    void *state = (void *)paged;
    unsigned n = 0;
    UnetmmCore *c;
    Fix *f;

    fix_setup(&state);
    f = state;
    busy_scene(f);
    c = &f->h.core;
#define LIE(statement, sentence) \
    if (n++ == number) { \
        *expected = sentence; \
        statement; \
    }
    LIES(LIE)
    *told = number < n;
    f->h.spoilt = true;
    fix_check_lie(c, number, *told, *expected);
    fix_teardown(&state);
}

TEST(test_lies, cmocka_unit_test)
{
    bool told = true;

    for (unsigned i = 0; told; i++) {
        const char *expected = NULL;

        tell_lie(i, &expected, &told);
    }
}

/* ---- A miss that waits for another's answer ----------------------------- */

/* An answer without a page: both look again, and one asks for both. */
TEST_OF(test_joined_anew, Fix *f, fix_test)
{
    struct unetmm_fault miss;
    FakeEp third;

    fake_ep_open(&third, &f->d, 3, f->s1);
    fake_connect_peer(&third, FIX_WIRE, 13, FIX_MTU);
    fix_send(f, &f->a, 20, 100, 1);
    fix_send(f, &third, 20, 100, 2);
    assert_int_equal(f->h.core.miss->joined, 1);
    assert_true(fake_fault(&f->d, &miss));
    expect_count(&f->h, faults_joined, 1, {
        assert_int_equal(fake_resolve(&f->d, &miss, 0, NULL), UNETMM_CS_OK);
        fake_run_later(&f->h);
    });
    fake_migrate(&f->h);
    fake_serve(&f->d);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    fake_expect(&third, UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
}

/* Each lie about it, told to a card that takes the truth. */
TEST_OF(test_joined_lies, Fix *f, fix_test)
{
    UnetmmCore *c = &f->h.core;
    UnetmmMiss *joined = NULL;
    uint16_t leader;
    FakeEp third;

    fake_ep_open(&third, &f->d, 3, f->s1);
    fake_connect_peer(&third, FIX_WIRE, 13, FIX_MTU);
    fix_send(f, &f->a, 20, 100, 1);
    fix_send(f, &third, 20, 100, 2);
    fake_send_at(&f->b, FIX_WIRE, PAGE(20), 100, 3);
    fake_ring_bell(&f->b);
    assert_int_equal(c->miss->joined, 1);
    for (uint32_t i = 0; i < unetmm_misses(c); i++) {
        if (c->miss->all[i].state == UNETMM_MISS_JOINED) {
            joined = &c->miss->all[i];
        }
    }
    leader = joined->leader;
    f->h.spoilt = true;
    for (unsigned lie = 0; lie < 5; lie++) {
        /* The truth; nobody's; its own; one of another space; no miss at all */
        const uint32_t leaders[] = {
            leader, UNETMM_EP_MISSES * 4, joined - c->miss->all,
            UNETMM_EP_MISSES * 2, 0xffff,
        };
        g_autofree char *why = NULL;
        GByteArray *saved;
        FakeHost other;

        joined->leader = leaders[lie];
        saved = unetmm_core_save(c);
        fake_host_init(&other, &c->params);
        if (unetmm_core_load(&other.core, saved->data, saved->len, &why) !=
            !lie) {
            fail_msg("lie %u: %s", lie, why);
        }
        fake_host_free(&other);
        g_byte_array_unref(saved);
    }
}

/* ---- The same of slots that wait ---------------------------------------- */

/*
 * Packets 0 and 2 are in the ring, 1 has landed, 3 is landing; 4 is for a slot
 * that is not posted yet.
 */
static void waiting_scene(Slots *t)
{
    uint32_t posted;

    t->p.dma_page_ns = PAGE_NS;
    slots_open(t, UNETMM_SOURCE_ODP, 6);
    fake_buffers(&t->d, 4, 2048);
    slots_post(t, 0, 4);
    slots_present(t, 1, 1);
    slots_present(t, 3, 1);
    slots_give(t, 100, 0);
    slots_give(t, 101, 1);
    fake_advance(&t->h, PAGE_NS);
    slots_give(t, 102, 2);
    assert_int_equal(fake_tail_arm(&t->e, 4, true, &posted), UNETMM_CS_OK);
    slots_give(t, 103, 3);
    assert_true(t->h.core.landing->active);
    assert_int_equal(t->h.core.eps[1].head_offset, 3);
}

#define WAITING_LIES(X) \
    X(e->head_offset = 17, "head_offset is 17") \
    X(e->bm_index = 6, "bm_index is 6") \
    X(e->bm_size = 65, "could not have been created") \
    X(e->bm_size = 0, "could not have been created") \
    X(e->taken[0].cookie = 5, "cannot wait so") \
    X(e->taken[2].status = UNETMM_ST_LIMIT, "cannot wait so") \
    X(e->taken[1].status = UNETMM_NUM_ST, "taken[1].status is") \
    X(e->taken[1].flags = UNETMM_CQE_F_INLINE, "cannot wait so") \
    X(e->taken[1].flags = 8, "taken[1].flags is 8") \
    X(e->taken[1].len = 65537, "taken[1].len is 65537") \
    X(e->taken[1].channel = 1024, "taken[1].channel is 1024") \
    X(e->slot_status = UNETMM_NUM_ST, "slot_status is") \
    X(e->fq_log2 = 1; e->fq_prod = 2; e->bitmap[0] = 1, "cannot wait so") \
    X(e->error = true, "stopped and has slots that wait") \
    X(e->error = true; e->head_offset = 0, "somebody waits for a slot") \
    X(e->notify_tail = true, "a notification that will not come") \
    X(e->end_status = UNETMM_ST_TIMEOUT, "a notification that will not come") \
    X(e->raw = true, "could not have been") \
    X(c->landing->cqe.flags = UNETMM_CQE_F_INLINE, "lands in its completion") \
    X(c->landing->cqe.opcode = UNETMM_CQE_CONTROL, "lands where it cannot") \
    X(c->landing->place.pieces[0].len--, "lands where it cannot") \
    X(e->misses[2].state = UNETMM_MISS_WANTED; e->misses[2].npages = 1, \
      "the reverse") \
    X(c->ring->all[UNETMM_RING_BACKUP].prod += 70, "no driver could have set")

static void tell_waiting_lie(unsigned number, const char **expected,
                             bool *told)
{
    unsigned n = 0;
    UnetmmCore *c;
    UnetmmEp *e;
    void *state;
    Slots *t;

    slots_setup(&state);
    t = state;
    waiting_scene(t);
    c = &t->h.core;
    e = &c->eps[1];
    WAITING_LIES(LIE)
    *told = number < n;
    fix_check_lie(c, number, *told, *expected);
    /* It may not be fit to be taken apart in the ordinary way. */
    e->bm_size = 6;
    slots_teardown(&state);
}

TEST(test_waiting_lies, cmocka_unit_test)
{
    bool told = true;

    for (unsigned i = 0; told; i++) {
        const char *expected = NULL;

        tell_waiting_lie(i, &expected, &told);
    }
}

/* All that waits goes on, from the card that it has been moved to. */
TEST_OF(test_waiting, Slots *t, slots_test)
{
    struct unetmm_notify n;

    waiting_scene(t);
    fake_migrate(&t->h);
    fake_advance(&t->h, PAGE_NS);
    slots_give(t, 104, 4);
    fake_migrate(&t->h);
    fake_serve(&t->d);
    assert_int_equal(t->d.backups->len, 3);
    fake_backup_serve(&t->d, 1);
    fake_migrate(&t->h);
    fake_expect_none(&t->e);
    fake_backup_serve(&t->d, 0);
    for (unsigned i = 0; i < 4; i++) {
        slots_got(t, i, 100 + i, i);
    }
    fake_migrate(&t->h);
    assert_false(fake_notification(&t->d, &n));
    slots_post(t, 4, 1);
    fake_ring_bell(&t->e);
    assert_true(fake_notification(&t->d, &n));
    assert_int_equal(n.data, 4);
    fake_backup_serve(&t->d, 0);
    slots_got(t, 4, 104, 4);
}

/* Answers for packets in the ring, and tails, true ones and others. */
static void answer_backups(UnetmmCore *core)
{
    for (uint32_t i = 1; i < core->params.endpoints; i++) {
        UnetmmEp *ep = &core->eps[i];
        struct unetmm_cmd_tail tail = { .slot = ep->fq_prod + i % 3,
                                        .arm = i % 2 };
        uint32_t result;

        for (uint32_t n = 0; n < MIN(ep->head_offset, 40u); n++) {
            struct unetmm_cmd_backup b = {
                .slot = ep->fq_cons + n,
                .bit = ep->bm_size ? (ep->bm_index + n) % ep->bm_size : n,
                .status = n % 2,
            };

            unetmm_engine_enter(core);
            unetmm_backup_done(core, i, &b);
            unetmm_engine_leave(core);
        }
        unetmm_engine_enter(core);
        unetmm_tail_arm(core, i, &tail, &result);
        unetmm_engine_leave(core);
    }
}

static void answer_all(UnetmmCore *core, uint64_t list)
{
    for (unsigned i = 0; i < 64 && core->miss->in_flight_used; i++) {
        uint32_t number = core->miss->in_flight[i % core->miss->in_flight_used];
        struct unetmm_cmd_reply reply = {
            .fault_id = (uint32_t)core->miss->all[number].generation << 16 |
                        number,
            .status = i % 4, .error = i % UNETMM_NUM_ST, .npages = i % 3,
            .vaddr = core->miss->all[number].vpn << UNETMM_PAGE_SHIFT,
            .list = list,
        };
        uint32_t taken;

        unetmm_engine_enter(core);
        unetmm_fault_reply(core, core->miss->all[number].ep->space,
                           &reply, &taken);
        unetmm_engine_leave(core);
    }
}

/* Everything that a card can be asked to do, whatever it believes it is. */
static void use_hard(FakeHost *h, FakeEp *ep, uint64_t list)
{
    UnetmmCore *core = &h->core;
    FakeFrame *frame;

    unetmm_core_set_link(core, true);
    for (unsigned round = 0; round < 4; round++) {
        for (uint32_t i = 0; i < core->params.endpoints; i++) {
            unetmm_core_doorbell(core, i);
        }
        for (unsigned i = UNETMM_RING_CMDC; i < UNETMM_RING_BACKUP; i++) {
            uint32_t reg = UNETMM_REG_RING(i);

            fake_set_reg(h, reg + UNETMM_RING_CONS,
                         fake_reg(h, reg + UNETMM_RING_PROD));
        }
        answer_all(core, list);
        answer_backups(core);
        frame = fake_datagram(ep, FIX_WIRE, 10 + ep->id, 20 + round * 3000, 9);
        fake_receive(h, frame);
        g_free(frame);
        unetmm_core_sent(core, round & 1);
        h->now = MAX(h->now, MIN(h->timer, h->now + 10 * PAGE_NS));
        unetmm_core_timer(core);
        for (unsigned i = 0; h->later && i < 10; i++) {
            h->later--;
            unetmm_core_run(core);
        }
        fake_set_reg(h, UNETMM_REG_INV_SPACE, round);
        fake_set_reg(h, UNETMM_REG_INV_LAST_HI, UINT32_MAX);
        fake_set_reg(h, UNETMM_REG_INV_CTRL, 1);
        if (round == 1) {
            fake_migrate(h);
        }
    }
}

/* 1 to 4 changes of a kind that finds its way past simple checks. */
static void damage(uint64_t *random, GByteArray *stream)
{
    for (unsigned n = 1 + fake_random(random) % 4; n; n--) {
        uint32_t at = fake_random(random) % stream->len;

        switch (fake_random(random) % 4) {
        case 0:
            stream->data[at] = fake_random(random) % 6;
            break;
        case 1:
            stream->data[at] += fake_random(random) & 1 ? 1 : -1;
            break;
        case 2:
            stream->data[at] = stream->data[fake_random(random) %
                                            stream->len];
            break;
        default:
            stream->data[at] ^= 1u << fake_random(random) % 8;
            break;
        }
    }
}

static void flips_of(FakeHost *h, FakeDriver *d, FakeEp *ep, unsigned salt)
{
    GByteArray *saved = unetmm_core_save(&h->core);
    uint64_t random = fake_seed() + salt;
    unsigned taken = 0, refused = 0;
    unsigned times = getenv("UNETMM_LONG") ? 100 * FLIPS : FLIPS;

    h->lenient = true;
    d->watch = false;
    fake_rights(h, FAKE_RAM_BASE, FAKE_RAM_BYTES, FAKE_RW);
    for (unsigned i = 0; i < times; i++) {
        GByteArray *bad = g_byte_array_new();
        g_autofree char *why = NULL;

        g_byte_array_append(bad, saved->data, saved->len);
        damage(&random, bad);
        if (unetmm_core_load(&h->core, bad->data, bad->len, &why)) {
            taken++;
            use_hard(h, ep, d->list);
        } else {
            refused++;
            assert_true(strlen(why) > 10);
            assert_int_equal(h->core.source->tlb.used, 0);
        }
        unetmm_core_reset(&h->core);
        fake_wire_clear(h);
        assert_int_equal(h->core.source->tlb.moving, 0);
        g_byte_array_unref(bad);
    }
    print_message("# %u damaged streams taken, %u refused\n", taken, refused);
    assert_true(taken > times / 50 && refused > times / 50);
    g_byte_array_unref(saved);
}

static void flips(Fix *f, unsigned salt)
{
    flips_of(&f->h, &f->d, &f->b, salt);
}

TEST_OF(test_flips_busy, Fix *f, fix_test_with, paged)
{
    busy_scene(f);
    fake_invalidate(f->s1, PAGE(1), FAKE_PAGE);
    flips(f, 1);
}

TEST(test_flips_run, cmocka_unit_test)
{
    g_autofree Run *r = g_new(Run, 1);

    run_start(r, cramped, fake_seed() + 2);
    for (unsigned i = 0; i < 60; i++) {
        run_step(r);
    }
    flips(&r->f, 3);
    run_end(r);
}

TEST_OF(test_flips_waiting, Slots *t, slots_test)
{
    waiting_scene(t);
    flips_of(&t->h, &t->d, &t->e, 5);
}
