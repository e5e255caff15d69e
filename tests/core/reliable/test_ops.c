/*
 * unetmm: all operations of reliable channels together, between two cards, over
 * a wire that is not
 *
 * Each side writes, reads, adds and swaps in the memory of the other, and sends,
 * in an order of chance.  Invariants on any wire: completions in order; every
 * byte where it belongs and none elsewhere; of two writes to one place the
 * second one stays; reads give the bytes that are there; an addition counts
 * once; messages, notifications and immediates in their order, the data
 * visible.  Half of the operations name the memory by its key.  Some do so by a
 * wrong key, or outside of the region: these alone fail, change nothing, and
 * the guesses are counted.  UNETMM_SEED chooses the run.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "pair.h"

#define REGION      5
#define SECRET      6                   /* the same bytes, not by key */
#define KEY         0x5eed0000u
#define IMPORT      1
#define AREA        (PAIR_VA + 0x20000000)  /* the region: ... */
#define WRITTEN     40000               /* ... overwritten at random, then ... */
#define CONSTANT    20000               /* ... only read, then ... */
#define SLOT        3000                /* ... PAIR_SLOTS, announced, then ... */
#define WORDS       (WRITTEN + CONSTANT + PAIR_SLOTS * SLOT)
#define LENGTH      (WORDS + 16)        /* ... words for atomics */
#define SOURCE      (AREA + 0x1000000)
#define SOURCE_STEP 0x8000
#define SEND_MOST   UNETMM_CQE_INLINE   /* no message needs a buffer */

typedef enum Kind {
    K_SEND, K_WRITE, K_NOTIFY, K_IMM, K_READ, K_ADD, K_SWAP, K_BAD, K_NUM,
} Kind;

typedef struct Op {
    Kind kind;
    uint8_t status;             /* of its completion */
    bool imm;                   /* the other side gets its number */
    uint32_t len, at;
} Op;

typedef struct Side {
    uint32_t begun, done;
    uint32_t posted;            /* buffers */
    uint32_t adds, swaps;       /* asked for */
    uint32_t bad, guesses;      /* that fail; by a wrong key */
    uint32_t announces, announced;
    Op ops[PAIR_SLOTS];
    uint32_t want[PAIR_SLOTS];  /* the other side is told of it: which */
    uint8_t shadow[WRITTEN];    /* of the other side's memory */
} Side;

static Side sides[2];

static uint64_t source(uint32_t n)
{
    return SOURCE + (uint64_t)(n % PAIR_SLOTS) * SOURCE_STEP + n % 89;
}

static struct unetmm_sqe sqe(unsigned side, uint8_t op, uint32_t n,
                             uint32_t len, uint64_t at)
{
    return (struct unetmm_sqe) {
        .opcode = op, .nsegs = 1, .channel = PAIR_CHANNEL + side, .cookie = n,
        .handle = IMPORT, .remote = at,
        .seg = { { .addr = source(n), .len = len } },
    };
}

static uint32_t any(Pair *p, uint32_t below)
{
    return fake_random(&p->random) % below;
}

/* ---- Begin -------------------------------------------------------------- */

/* By key and address in place of the import. */
static void name_by_key(unsigned side, struct unetmm_sqe *q)
{
    q->flags |= UNETMM_SQE_F_KEYED;
    q->region = REGION;
    q->handle = KEY + !side;
    q->remote += AREA;
}

static void post_any(Pair *p, unsigned side, struct unetmm_sqe q)
{
    if (any(p, 2)) {
        name_by_key(side, &q);
    }
    fake_send_sqe(&p->side[side].ep, q);
}

/* The other side's process is told of it, in this order. */
static void announce(Side *me, uint32_t n)
{
    me->want[me->announces++ % PAIR_SLOTS] = n;
}

static void begin_send(Pair *p, unsigned side, uint32_t n, Op *op)
{
    PairSide *s = &p->side[side];
    struct unetmm_sqe q;

    op->len = any(p, SEND_MOST + 1);
    op->imm = any(p, 2);
    announce(&sides[side], n);
    if (!op->imm) {
        fake_send_inline(&s->ep, PAIR_CHANNEL + side, n, op->len, n, 0);
        return;
    }
    fake_fill(s->s, source(n), op->len, n);
    q = sqe(side, UNETMM_OP_SEND, n, op->len, 0);
    q.handle = 0;
    q.flags = UNETMM_SQE_F_IMM;
    q.imm = n;
    fake_send_sqe(&s->ep, q);
}

static void begin_write(Pair *p, unsigned side, uint32_t n, Op *op)
{
    PairSide *s = &p->side[side];

    /* Mostly where others go, so that they overlap. */
    op->len = any(p, 4) ? any(p, 2000) : any(p, 20000);
    op->at = any(p, 2) ? any(p, 3000) : any(p, WRITTEN - op->len);
    fake_fill(s->s, source(n), op->len, n);
    for (uint32_t i = 0; i < op->len; i++) {
        sides[side].shadow[op->at + i] = fake_pattern(n, i);
    }
    post_any(p, side, sqe(side, UNETMM_OP_WRITE, n, op->len, op->at));
}

/* With a notification or an immediate. */
static void begin_announced(Pair *p, unsigned side, uint32_t n, Op *op)
{
    PairSide *s = &p->side[side];
    struct unetmm_sqe q;
    uint32_t slot = n % PAIR_SLOTS;

    op->len = any(p, SLOT + 1);
    op->at = WRITTEN + CONSTANT + slot * SLOT;
    fake_fill(s->s, source(n), op->len, n);
    q = sqe(side, UNETMM_OP_WRITE, n, op->len, op->at);
    op->imm = op->kind == K_IMM;
    q.flags = op->imm ? UNETMM_SQE_F_IMM : UNETMM_SQE_F_NOTIFY;
    q.imm = n;
    announce(&sides[side], n);
    post_any(p, side, q);
}

static void begin_read(Pair *p, unsigned side, uint32_t n, Op *op)
{
    PairSide *s = &p->side[side];

    op->len = 1 + any(p, 15000);
    op->at = any(p, CONSTANT - op->len + 1);
    fake_fill(s->s, source(n), op->len, ~n);
    post_any(p, side, sqe(side, UNETMM_OP_READ, n, op->len,
                          WRITTEN + op->at));
}

/* A key that is wrong by a bit, or that of a region which has not opted in. */
static void guess(Pair *p, struct unetmm_sqe *q)
{
    if (any(p, 2)) {
        q->handle ^= 1u << any(p, 32);
    } else {
        q->region = SECRET;
    }
}

/* One packet each, so that each is one guess. */
static void begin_bad(Pair *p, unsigned side, uint32_t n, Op *op)
{
    Side *me = &sides[side];
    struct unetmm_sqe q;
    bool read = any(p, 2);

    op->len = 1 + any(p, 200);
    q = sqe(side, read ? UNETMM_OP_READ : UNETMM_OP_WRITE, n, op->len, 0);
    name_by_key(side, &q);
    fake_fill(p->side[side].s, source(n), op->len, n);
    me->bad++;
    /* A READ that arrives again is one more guess. */
    if (!read && me->guesses + 1 < UNETMM_REL_BAD_KEYS && any(p, 2)) {
        me->guesses++;
        guess(p, &q);
        op->status = UNETMM_ST_REVOKED;
    } else {
        q.remote += any(p, 2) ? LENGTH - any(p, op->len) : -1 - any(p, 5000);
        op->status = UNETMM_ST_REMOTE_RANGE;
    }
    fake_send_sqe(&p->side[side].ep, q);
}

static void begin_atomic(Pair *p, unsigned side, uint32_t n, Op *op)
{
    PairSide *s = &p->side[side];
    Side *me = &sides[side];
    bool add = op->kind == K_ADD;
    uint64_t v[2] = { cpu_to_le64(add ? 3 : me->swaps),
                      cpu_to_le64(me->swaps + 1) };
    struct unetmm_sqe q = sqe(side, add ? UNETMM_OP_FETCH_ADD :
                              UNETMM_OP_CMP_SWAP, n, 0,
                              WORDS + (add ? 0 : 8));

    q.nsegs = 0;
    q.flags = UNETMM_SQE_F_INLINE;
    q.inline_len = add ? 8 : 16;
    if (any(p, 2)) {
        name_by_key(side, &q);
    }
    unetmm_le_sqe(&q);
    memcpy(q.data, v, q.inline_len);
    op->at = add ? me->adds++ : me->swaps++;
    fake_put_slots(&s->ep, &q, 1);
    fake_move_sq(&s->ep, 1);
}

static void begin(Pair *p, unsigned side)
{
    uint32_t n = sides[side].begun++;
    Op *op = &sides[side].ops[n % PAIR_SLOTS];

    *op = (Op) { .kind = any(p, K_NUM) };
    switch (op->kind) {
    case K_SEND:
        begin_send(p, side, n, op);
        break;
    case K_WRITE:
        begin_write(p, side, n, op);
        break;
    case K_NOTIFY:
    case K_IMM:
        begin_announced(p, side, n, op);
        break;
    case K_READ:
        begin_read(p, side, n, op);
        break;
    case K_BAD:
        begin_bad(p, side, n, op);
        break;
    default:
        begin_atomic(p, side, n, op);
        break;
    }
}

/* ---- End ---------------------------------------------------------------- */

static void expect_read(PairSide *s, uint32_t n, const Op *op)
{
    g_autofree uint8_t *got = g_malloc(op->len);

    fake_load(s->s, source(n), got, op->len);
    for (uint32_t i = 0; i < op->len; i++) {
        assert_int_equal(got[i], fake_pattern(77, op->at + i));
    }
}

static void completed(Pair *p, unsigned side, uint32_t n,
                      const struct unetmm_cqe *cqe)
{
    Side *me = &sides[side];
    const Op *op = &me->ops[n % PAIR_SLOTS];

    assert_int_equal(cqe->status, op->status);
    assert_int_equal(cqe->cookie, n);
    if (op->kind == K_READ) {
        expect_read(&p->side[side], n, op);
    } else if (op->kind == K_ADD) {
        assert_int_equal(le64_to_cpu(cqe->old), 3 * op->at);
    } else if (op->kind == K_SWAP) {
        assert_int_equal(le64_to_cpu(cqe->old), op->at);
    }
    /* Its memory is ours again. */
    if (op->kind != K_ADD && op->kind != K_SWAP) {
        fake_fill(p->side[side].s, source(n), op->len, ~0u);
    }
}

/* For the immediates of the other side. */
static void post_buffer(Pair *p, unsigned side)
{
    PairSide *s = &p->side[side];
    uint32_t n = sides[side].posted++;

    fake_post_cut(&s->ep, source(n), 2, n % 2, n);
}

static void expect_message(const struct unetmm_cqe *cqe, uint32_t n)
{
    assert_int_equal(cqe->opcode, UNETMM_CQE_RECEIVED);
    for (uint32_t i = 0; i < cqe->len; i++) {
        assert_int_equal(cqe->data[i], fake_pattern(n, i));
    }
}

static void expect_notified(const struct unetmm_cqe *cqe, uint32_t n,
                            const Op *op)
{
    assert_int_equal(cqe->opcode, UNETMM_CQE_NOTIFY);
    assert_int_equal(cqe->cookie, REGION + 0x7000);
    assert_int_equal(cqe->notify.region, REGION);
    assert_int_equal(cqe->notify.offset, op->at);
    assert_int_equal(cqe->notify.imm, n);
}

/* The next of which the other side has something to say: its data is here. */
static void announced(Pair *p, unsigned side, const struct unetmm_cqe *cqe)
{
    Side *from = &sides[!side];
    uint32_t n = from->want[from->announced++ % PAIR_SLOTS];
    const Op *op = &from->ops[n % PAIR_SLOTS];

    assert_int_equal(cqe->status, UNETMM_ST_OK);
    assert_int_equal(cqe->len, op->len);
    assert_int_equal(!!(cqe->flags & UNETMM_CQE_F_IMM), op->imm);
    assert_int_equal(cqe->imm, op->imm ? n : 0);
    if (op->kind == K_SEND) {
        expect_message(cqe, n);
        return;
    }
    if (op->kind == K_NOTIFY) {
        expect_notified(cqe, n, op);
    } else {
        assert_int_equal(cqe->opcode, UNETMM_CQE_WRITTEN);
        post_buffer(p, side);
    }
    fake_check(p->side[side].s, AREA + op->at, cqe->len, n);
}

static void take_all(Pair *p, unsigned side)
{
    struct unetmm_cqe cqe;

    while (fake_poll(&p->side[side].ep, &cqe)) {
        if (cqe.opcode == UNETMM_CQE_SENT) {
            uint32_t n = sides[side].done++;

            /* The other side has been told of it before. */
            take_all(p, !side);
            completed(p, side, n, &cqe);
        } else {
            announced(p, side, &cqe);
        }
    }
}

/* The driver copies when it comes to it; meanwhile pages come and go. */
static void redirect(Pair *p, unsigned side)
{
    PairSide *s = &p->side[side];

    while (s->d.full->len && any(p, 3)) {
        fake_slot_serve(&s->d, 0);
        fake_serve(&s->d);
    }
    for (unsigned i = 0; i < 4; i++) {
        uint64_t at = AREA + (uint64_t)any(p, LENGTH / FAKE_PAGE) * FAKE_PAGE;

        if (s->s->source != UNETMM_SOURCE_SHADOW) {
            if (!fake_invalidate(s->s, at, FAKE_PAGE)) {
                continue;
            }
            fake_invalidate(s->s, at, 1);
        } else if (!(fake_table_get(s->s, at) & UNETMM_PTE_LOCKS)) {
            fake_table_set(s->s, at, 0);
        }
    }
}

static void work(Pair *p, unsigned side, uint32_t n)
{
    PairSide *s = &p->side[side];
    uint32_t before = sides[side].begun + sides[side].posted;

    if (s->d.hold_slots) {
        redirect(p, side);
    }
    take_all(p, side);
    while (sides[side].posted < PAIR_SLOTS) {
        post_buffer(p, side);
    }
    while (sides[side].begun < n &&
           sides[side].begun - sides[side].done < PAIR_SLOTS) {
        begin(p, side);
    }
    if (sides[side].begun + sides[side].posted != before ||
        fake_card(&s->ep).state & UNETMM_EP_CQ_BLOCKED) {
        fake_ring_bell(&s->ep);
    }
}

/* ---- Runs --------------------------------------------------------------- */

static void fill_constant(FakeSpace *s)
{
    g_autofree uint8_t *bytes = g_malloc(CONSTANT);

    for (uint32_t i = 0; i < CONSTANT; i++) {
        bytes[i] = fake_pattern(77, i);
    }
    fake_store(s, AREA + WRITTEN, bytes, CONSTANT);
}

/* A region for peers that know its key, and one for importers alone. */
static void open_memory(PairSide *s, unsigned i)
{
    fake_map(s->s, AREA - FAKE_PAGE, LENGTH + 3 * FAKE_PAGE, FAKE_RW);
    fake_map(s->s, SOURCE, PAIR_SLOTS * SOURCE_STEP + FAKE_PAGE, FAKE_RW);
    fill_constant(s->s);
    assert_int_equal(fake_region(s->s, REGION, KEY + i, AREA, LENGTH,
                                 UNETMM_RIGHT_ALL, UNETMM_REGION_F_NOTIFY |
                                 UNETMM_REGION_F_KEYED),
                     UNETMM_CS_OK);
    assert_int_equal(fake_region(s->s, SECRET, KEY + i, AREA, LENGTH,
                                 UNETMM_RIGHT_ALL, 0), UNETMM_CS_OK);
    assert_int_equal(fake_import(&s->ep, IMPORT, PAIR_CHANNEL + i, REGION,
                                 KEY + !i, LENGTH, UNETMM_RIGHT_ALL),
                     UNETMM_CS_OK);
}

/* The other side's memory is as this side wrote it, to the last byte. */
static void check_memory(Pair *p, unsigned side)
{
    FakeSpace *s = p->side[!side].s;
    g_autofree uint8_t *there = g_malloc(WRITTEN);
    uint8_t guard[2][64], zero[64] = { 0 };
    uint64_t words[2];

    fake_load(s, AREA, there, WRITTEN);
    assert_memory_equal(there, sides[side].shadow, WRITTEN);
    fake_load(s, AREA + WORDS, words, sizeof(words));
    assert_int_equal(le64_to_cpu(words[0]), 3 * sides[side].adds);
    assert_int_equal(le64_to_cpu(words[1]), sides[side].swaps);
    fake_load(s, AREA - 64, guard[0], 64);
    fake_load(s, AREA + LENGTH, guard[1], 64);
    assert_memory_equal(guard[0], zero, 64);
    assert_memory_equal(guard[1], zero, 64);
    assert_int_equal(sides[side].announced, sides[side].announces);
}

/* Each that was bad was rejected once; a guess counts once. */
static void check_bad(Pair *p)
{
    assert_int_equal(pair_count(p, UNETMM_C_rel_failed), 0);
    assert_int_equal(pair_count(p, UNETMM_C_rel_rejects),
                     sides[0].bad + sides[1].bad);
    assert_int_equal(pair_count(p, UNETMM_C_rel_bad_keys),
                     sides[0].guesses + sides[1].guesses);
    assert_int_equal(pair_count(p, UNETMM_C_drop_rel_bad), 0);
}

static void run_pair(Pair *p, uint32_t n)
{
    unsigned steps = 0;

    memset(sides, 0, sizeof(sides));
    for (unsigned i = 0; i < 2; i++) {
        open_memory(&p->side[i], i);
    }
    do {
        work(p, 0, n);
        work(p, 1, n);
        assert_true(++steps < 2000000);
    } while ((sides[0].done < n || sides[1].done < n) && pair_step(p));
    for (unsigned i = 0; i < 2; i++) {
        take_all(p, i);
        assert_int_equal(sides[i].done, n);
        check_memory(p, i);
        assert_int_equal(p->side[i].h.core.counters[UNETMM_C_rel_atomics],
                         sides[!i].adds + sides[!i].swaps);
    }
    check_bad(p);
}

typedef struct Bad {
    const char *name;
    PairWire wire;
} Bad;

#define LATE_NS 200000

static const Bad bad_wires[] = {
    { "perfect", { .delay_ns = 10000 } },
    { "loss", { .delay_ns = 10000, .loss = 50000 } },
    { "much loss", { .delay_ns = 10000, .loss = 300000 } },
    { "dup", { .delay_ns = 10000, .dup = 300000 } },
    { "order", { .delay_ns = 10000, .late = 300000, .late_ns = LATE_NS } },
    { "corrupt", { .delay_ns = 10000, .corrupt = 50000 } },
    { "all", { .delay_ns = 20000, .ns_per_kb = 1000, .loss = 50000,
               .dup = 50000, .corrupt = 20000, .late = 100000,
               .late_ns = LATE_NS } },
    { "long ago", { .delay_ns = 1000, .loss = 20000, .dup = 200000,
                    .late = 100000, .late_ns = 8000000 } },
};

/* Acknowledgements that go along with packets: none, but for WRITEs, all */
static const uint8_t along_flags[] = {
    0, UNETMM_CHANNEL_F_ACK, UNETMM_CHANNEL_F_ACK | UNETMM_CHANNEL_F_ACK_WRITE,
    UNETMM_CHANNEL_F_ACK | UNETMM_CHANNEL_F_ACK_WRITE,
};

static uint64_t redirected, followed;   /* packets, over all wires */

/* All that went to the buffer was copied, and nobody had to be told to stop. */
static void expect_redirected(Pair *p, uint32_t credits)
{
    redirected += pair_count(p, UNETMM_C_sysbuf_packets);
    followed += pair_count(p, UNETMM_C_sysbuf_follow);
    assert_int_equal(pair_count(p, UNETMM_C_sysbuf_packets),
                     pair_count(p, UNETMM_C_sysbuf_landed));
    assert_int_equal(pair_count(p, UNETMM_C_drop_rel_credit), 0);
    for (unsigned i = 0; credits && i < 2; i++) {
        const UnetmmSysbuf *sb = p->side[i].h.core.sysbuf;

        assert_int_equal(sb->nfree, sb->n);
        assert_int_equal(sb->promised, credits);
    }
}

/* The packets that waited behind another one. */
static uint64_t each_wire_with(PairTune *tune, uint8_t source, uint32_t mtu,
                               uint32_t credits, uint32_t n)
{
    struct unetmm_cmd_channel how = {
        .mtu = mtu, .send_psn = 0xffffffe0, .recv_psn = 0x7fffffe0,
        .retries = 100, .recv_credits = credits,
    };
    uint64_t along = 0;

    redirected = followed = 0;
    for (unsigned i = 0; i < G_N_ELEMENTS(bad_wires); i++) {
        g_autofree Pair *p = g_new(Pair, 1);
        uint64_t random;

        print_message("# %s\n", bad_wires[i].name);
        how.flags = along_flags[(i + n) % G_N_ELEMENTS(along_flags)];
        pair_init(p, tune, source, fake_seed() ^ i ^ n, &how);
        random = p->wire.random;
        p->wire = bad_wires[i].wire;
        p->wire.random = random;
        for (unsigned j = 0; j < 2; j++) {
            p->side[j].h.core.knobs.corrupt = !!p->wire.corrupt;
            p->side[j].d.hold_slots = credits;
        }
        run_pair(p, n);
        assert_int_equal(source == UNETMM_SOURCE_SHADOW,
                         pair_count(p, UNETMM_C_shadow_raced) > 0);
        assert_int_equal(source == UNETMM_SOURCE_ODP,
                         pair_count(p, UNETMM_C_odp_misses) > 0);
        expect_redirected(p, credits);
        along += pair_count(p, UNETMM_C_rel_acks_along);
        pair_free(p);
    }
    assert_int_equal(!credits, along > 0);
    assert_int_equal(!!credits, redirected > 0);
    assert_true(credits > 1 || !followed);
    print_message("# %" PRIu64 " packets redirected, %" PRIu64 " of them "
                  "behind another\n", redirected, followed);
    return followed;
}

static void each_wire(PairTune *tune, uint8_t source, uint32_t mtu, uint32_t n)
{
    each_wire_with(tune, source, mtu, 0, n);
}

TEST(test_each_wire, cmocka_unit_test)
{
    each_wire(NULL, UNETMM_SOURCE_PINNED, 1500, 80);
}

TEST(test_small_packets, cmocka_unit_test)
{
    each_wire(NULL, UNETMM_SOURCE_PINNED, 256, 30);
}

static void slow_pages(UnetmmParams *p)
{
    p->dma_page_ns = 300;
}

TEST(test_pages_take_time, cmocka_unit_test)
{
    each_wire(slow_pages, UNETMM_SOURCE_PINNED, 4000, 50);
}

/* Translations go all the time: each placement may have to ask again. */
static void cramped(UnetmmParams *p)
{
    p->tlb_sets = 64;
    p->tlb_victims = 8;
    p->fault_batch = 3;
    p->reliable_keep = 5;
    p->budget_descriptors = 3;
}

/* The same of a table's entries. */
static void cramped_cache(UnetmmParams *p)
{
    p->cache_entries = 64;
    p->reliable_keep = 5;
    p->budget_descriptors = 3;
    p->dma_page_ns = 300;
}

TEST(test_cramped, cmocka_unit_test)
{
    each_wire(cramped, UNETMM_SOURCE_TLB, 1500, 40);
}

/* Pages go between their lookup and their lock. */
TEST(test_shadow, cmocka_unit_test)
{
    each_wire(NULL, UNETMM_SOURCE_SHADOW, 1500, 30);
    each_wire(slow_pages, UNETMM_SOURCE_SHADOW, 4000, 20);
}

/* The cache is too small for the pages in use; each may be absent. */
TEST(test_odp, cmocka_unit_test)
{
    each_wire(cramped_cache, UNETMM_SOURCE_ODP, 1500, 30);
    each_wire(slow_pages, UNETMM_SOURCE_ODP, 4000, 20);
}

/*
 * Packets go to the system buffer, in any order, and wait there; some of them,
 * with some seeds of the slow pages none, behind another one.
 */
TEST(test_redirect, cmocka_unit_test)
{
    uint64_t n = each_wire_with(NULL, UNETMM_SOURCE_SHADOW, 1500, 32, 40);

    n += each_wire_with(slow_pages, UNETMM_SOURCE_SHADOW, 4000, 7, 20);
    assert_true(n > 0);
}

TEST(test_redirect_tlb, cmocka_unit_test)
{
    assert_true(each_wire_with(cramped, UNETMM_SOURCE_TLB, 1500, 3, 30) > 0);
    each_wire_with(NULL, UNETMM_SOURCE_TLB, 256, 1, 10);
}

TEST(test_redirect_odp, cmocka_unit_test)
{
    assert_true(each_wire_with(cramped_cache, UNETMM_SOURCE_ODP, 1500, 32,
                               40) > 0);
}

#define ROUNDS 40

/* Each side writes when it sees the other's message; the number of frames. */
static uint64_t write_in_turn(uint8_t flags)
{
    const struct unetmm_cmd_channel how = { .mtu = 1500, .flags = flags };
    g_autofree Pair *p = g_new(Pair, 1);
    uint64_t frames;

    pair_init(p, NULL, UNETMM_SOURCE_PINNED, fake_seed(), &how);
    p->wire.delay_ns = 1000;
    open_memory(&p->side[0], 0);
    open_memory(&p->side[1], 1);
    for (uint32_t n = 1; n <= 2 * ROUNDS; n++) {
        PairSide *from = &p->side[n & 1], *to = &p->side[!(n & 1)];
        uint32_t there = 0;

        fake_store(from->s, source(n), &n, sizeof(n));
        fake_send_sqe(&from->ep, sqe(n & 1, UNETMM_OP_WRITE, n, sizeof(n), 8));
        fake_ring_bell(&from->ep);
        while (there != n) {
            assert_true(pair_step(p));
            fake_load(to->s, AREA + 8, &there, sizeof(there));
        }
    }
    while (pair_step(p)) {
        continue;
    }
    for (uint32_t n = 1; n <= 2 * ROUNDS; n++) {
        fake_expect(&p->side[n & 1].ep, UNETMM_CQE_SENT, UNETMM_ST_OK, n);
    }
    frames = pair_count(p, UNETMM_C_rel_packets) +
             pair_count(p, UNETMM_C_rel_acks_sent);
    pair_free(p);
    return frames;
}

/* Two that write at each other: a frame a message, and the first and last. */
TEST(test_frames, cmocka_unit_test)
{
    uint64_t apart = write_in_turn(UNETMM_CHANNEL_F_ACK);
    uint64_t along = write_in_turn(UNETMM_CHANNEL_F_ACK |
                                   UNETMM_CHANNEL_F_ACK_WRITE);

    print_message("# %d writes: %" PRIu64 " frames, %" PRIu64 " with "
                  "acknowledgements in them\n", 2 * ROUNDS, apart, along);
    assert_int_equal(apart, 4 * ROUNDS);
    assert_in_range(along, 2 * ROUNDS, 2 * ROUNDS + 6);
}
