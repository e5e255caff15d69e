/*
 * unetmm: some messages over a bad wire, for the model to follow
 *
 * With UNETMM_TRACE=1 the events go to stderr; tests/model/rel-trace.py checks
 * them against the rules of the model.  UNETMM_SEED chooses the run.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "pair.h"

#define WRITES      40              /* each way */
#define WRITE_MOST  5000
#define WRITE_STEP  0x2000ull
#define WRITE_AWAY  0x10000000ull   /* their place from their source */
#define REGION      5
#define KEY         0x5eed0000u

static void cramped(UnetmmParams *p)
{
    p->tlb_sets = 32;
    p->tlb_victims = 8;
    p->reliable_keep = 9;
    p->pretranslate = 1;
}

static void slow(UnetmmParams *p)
{
    p->dma_page_ns = 300;
}

static void open_pair(Pair *p, PairTune *tune, uint64_t seed)
{
    const struct unetmm_cmd_channel how = {
        .mtu = 2000, .send_psn = 0xffffffc0, .recv_psn = 0x7fffffd0,
        .retries = 100,
        .flags = UNETMM_CHANNEL_F_ACK | UNETMM_CHANNEL_F_ACK_WRITE,
    };

    pair_init(p, tune, UNETMM_SOURCE_TLB, seed, &how);
    p->wire.ns_per_kb = 500;
    p->wire.loss = p->wire.dup = 60000;
    p->wire.late = 60000;
    p->wire.late_ns = 100000;
}

TEST(run, cmocka_unit_test)
{
    static PairTune *const tunes[] = { cramped, slow };

    for (unsigned i = 0; i < G_N_ELEMENTS(tunes); i++) {
        g_autofree Pair *p = g_new(Pair, 1);

        open_pair(p, tunes[i], fake_seed() + i);
        pair_exchange(p, 4, 4);
        pair_free(p);
    }
}

/* ---- WRITEs, which have the acknowledgements ---- */

static uint64_t slot(uint32_t n)
{
    return PAIR_VA + n % PAIR_SLOTS * WRITE_STEP;
}

/* Message n, with its number behind it. */
static void write_one(Pair *p, uint32_t n, uint32_t len)
{
    PairSide *s = &p->side[n & 1];

    fake_fill(s->s, slot(n), len, n);
    fake_store(s->s, slot(n) + len, &n, sizeof(n));
    fake_send_sqe(&s->ep, (struct unetmm_sqe) {
        .opcode = UNETMM_OP_WRITE, .nsegs = 1,
        .channel = PAIR_CHANNEL + (n & 1), .flags = UNETMM_SQE_F_KEYED,
        .region = REGION, .handle = KEY, .remote = slot(n) + WRITE_AWAY,
        .cookie = n,
        .seg = { { .addr = slot(n), .len = len + sizeof(n) } } });
    fake_ring_bell(&s->ep);
}

static void take_completions(Pair *p)
{
    struct unetmm_cqe cqe;

    for (unsigned i = 0; i < 2; i++) {
        while (fake_poll(&p->side[i].ep, &cqe)) {
            assert_int_equal(cqe.status, UNETMM_ST_OK);
            p->side[i].completed++;
        }
    }
}

/* Each side writes when it sees the other's message. */
TEST(run_writes, cmocka_unit_test)
{
    g_autofree Pair *p = g_new(Pair, 1);

    open_pair(p, NULL, fake_seed());
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(fake_region(p->side[i].s, REGION, KEY,
                                     PAIR_VA + WRITE_AWAY,
                                     PAIR_SLOTS * WRITE_STEP, UNETMM_RIGHT_ALL,
                                     UNETMM_REGION_F_KEYED), UNETMM_CS_OK);
    }
    for (uint32_t n = 1; n <= 2 * WRITES; n++) {
        uint32_t len = fake_random(&p->random) % WRITE_MOST, there = 0;
        FakeSpace *to = p->side[!(n & 1)].s;

        write_one(p, n, len);
        while (there != n) {
            assert_true(pair_step(p));
            take_completions(p);
            fake_load(to, slot(n) + WRITE_AWAY + len, &there, sizeof(there));
        }
    }
    while (pair_step(p)) {
        take_completions(p);
    }
    assert_int_equal(p->side[0].completed, WRITES);
    assert_int_equal(p->side[1].completed, WRITES);
    assert_true(pair_count(p, UNETMM_C_rel_acks_along) > WRITES / 4);
    pair_free(p);
}
