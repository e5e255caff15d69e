/*
 * unetmm: reliable channels between two cards, over a wire that is not
 *
 * UNETMM_SEED chooses the run; tests/core/pair.h has the checks.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "pair.h"

static const struct unetmm_cmd_channel plain = {
    .mtu = 4000, .send_psn = 1000, .recv_psn = 2000, .retries = 60,
};

typedef struct Bad {
    const char *name;
    PairWire wire;
} Bad;

#define LATE_NS 200000

static const Bad bad_wires[] = {
    { "perfect", { .delay_ns = 10000 } },
    { "loss", { .delay_ns = 10000, .loss = 50000 } },
    { "much loss", { .delay_ns = 10000, .loss = 400000 } },
    { "dup", { .delay_ns = 10000, .dup = 300000 } },
    { "order", { .delay_ns = 10000, .late = 300000, .late_ns = LATE_NS } },
    { "corrupt", { .delay_ns = 10000, .corrupt = 50000 } },
    { "slow", { .delay_ns = 3000000, .ns_per_kb = 8000, .loss = 20000 } },
    { "all", { .delay_ns = 20000, .ns_per_kb = 1000, .loss = 50000,
               .dup = 50000, .corrupt = 20000, .late = 100000,
               .late_ns = LATE_NS } },
    { "long ago", { .delay_ns = 1000, .loss = 20000, .dup = 200000,
                    .late = 100000, .late_ns = 8000000 } },
};

/* Checksums of payloads: damage must not get through. */
static void careful(Pair *p)
{
    for (unsigned i = 0; i < 2; i++) {
        p->side[i].h.core.knobs.corrupt = p->wire.corrupt ? 1 : 0;
    }
}

static void run(const Bad *bad, PairTune *tune, uint8_t source,
                const struct unetmm_cmd_channel *how, uint32_t n)
{
    g_autofree Pair *p = g_new(Pair, 1);
    uint64_t random;

    pair_init(p, tune, source, fake_seed() ^ n, how);
    random = p->wire.random;
    p->wire = bad->wire;
    p->wire.random = random;
    careful(p);
    pair_exchange(p, n, n);
    if (!bad->wire.loss && !bad->wire.corrupt && !bad->wire.late &&
        !bad->wire.dup && !pair_count(p, UNETMM_C_rel_nacks)) {
        assert_int_equal(pair_count(p, UNETMM_C_rel_resent), 0);
    }
    if (!bad->wire.late) {
        /* Late ones may be of a window long gone. */
        assert_int_equal(pair_count(p, UNETMM_C_drop_rel_window), 0);
        assert_int_equal(pair_count(p, UNETMM_C_drop_rel_ack), 0);
    }
    assert_int_equal(pair_count(p, UNETMM_C_drop_rel_bad), 0);
    assert_int_equal(source == UNETMM_SOURCE_SHADOW,
                     pair_count(p, UNETMM_C_shadow_raced) > 0);
    assert_int_equal(source == UNETMM_SOURCE_ODP,
                     pair_count(p, UNETMM_C_odp_misses) > 0);
    pair_free(p);
}

static void each_wire(PairTune *tune, uint8_t source,
                      const struct unetmm_cmd_channel *how, uint32_t n)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(bad_wires); i++) {
        print_message("# %s\n", bad_wires[i].name);
        run(&bad_wires[i], tune, source, how, n);
    }
}

TEST(test_each_wire, cmocka_unit_test)
{
    each_wire(NULL, UNETMM_SOURCE_PINNED, &plain, 60);
}

TEST(test_small_packets, cmocka_unit_test)
{
    struct unetmm_cmd_channel how = plain;

    how.mtu = 256;
    how.flags = UNETMM_CHANNEL_F_ACK;
    each_wire(NULL, UNETMM_SOURCE_PINNED, &how, 12);
}

/* Numbers pass 2^32 and 2^31 in mid-message. */
TEST(test_wrap, cmocka_unit_test)
{
    struct unetmm_cmd_channel how = plain;

    how.mtu = 500;
    how.send_psn = 0xffffffe0;
    how.recv_psn = 0x7fffffe0;
    how.flags = UNETMM_CHANNEL_F_ACK;
    each_wire(NULL, UNETMM_SOURCE_PINNED, &how, 16);
}

static void slow_pages(UnetmmParams *p)
{
    p->dma_page_ns = 300;
}

TEST(test_pages_take_time, cmocka_unit_test)
{
    each_wire(slow_pages, UNETMM_SOURCE_PINNED, &plain, 30);
}

/* Translations go all the time: each transmission may have to ask again. */
static void cramped(UnetmmParams *p)
{
    p->tlb_sets = 32;
    p->tlb_victims = 8;
    p->fault_batch = 3;
    p->reliable_keep = 5;
    p->budget_descriptors = 3;
    p->pretranslate = 1;
}

TEST(test_cramped, cmocka_unit_test)
{
    each_wire(cramped, UNETMM_SOURCE_TLB, &plain, 30);
}

/* The same with a table: entries are fetched in groups, and pushed out. */
static void cramped_cache(UnetmmParams *p)
{
    p->cache_entries = 64;
    p->utlb_fetch = 16;
    p->reliable_keep = 5;
    p->dma_page_ns = 300;
}

TEST(test_cramped_cache, cmocka_unit_test)
{
    each_wire(cramped_cache, UNETMM_SOURCE_UTLB, &plain, 20);
}

/* Pages go between their lookup and their lock. */
TEST(test_shadow, cmocka_unit_test)
{
    each_wire(NULL, UNETMM_SOURCE_SHADOW, &plain, 20);
    each_wire(slow_pages, UNETMM_SOURCE_SHADOW, &plain, 20);
}

/* Pages go, and come again when they are asked for. */
TEST(test_odp, cmocka_unit_test)
{
    each_wire(NULL, UNETMM_SOURCE_ODP, &plain, 20);
    each_wire(cramped_cache, UNETMM_SOURCE_ODP, &plain, 20);
}

/* ---- Speed, in simulated time ------------------------------------------- */

static uint32_t whole(Pair *p, uint32_t n)
{
    return p->most;
}

/* Seconds for n messages one way, 1 Gbit/s, 50 us there and 50 back. */
static double seconds_for(uint64_t seed, uint32_t loss, uint32_t most,
                          uint32_t n)
{
    g_autofree Pair *p = g_new(Pair, 1);
    double seconds;
    int64_t start;

    pair_init(p, NULL, UNETMM_SOURCE_PINNED, seed, &plain);
    p->wire.ns_per_kb = 8192;
    p->wire.delay_ns = 50000;
    p->wire.loss = loss;
    p->length = whole;
    p->most = most;
    start = p->now;
    pair_exchange(p, n, 0);
    seconds = (p->now - start) / 1e9;
    pair_free(p);
    return seconds;
}

/*
 * Bytes a second.  It is a measurement: a seed that chance chooses would now and
 * then (1 in 400) be below the required rate, the mean of a few is far above.
 */
#define SEEDS 3

static double goodput(uint32_t loss, uint32_t most, uint32_t n)
{
    double seconds = 0;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        seconds += seconds_for(seed, loss, most, n);
    }
    return (double)SEEDS * n * most / seconds;
}

TEST(test_goodput, cmocka_unit_test)
{
    static const uint32_t lengths[] = { 48u << 10, 4000, 1000 };

    for (unsigned i = 0; i < G_N_ELEMENTS(lengths); i++) {
        uint32_t n = 6000000 / SEEDS / (lengths[i] + 2000);
        double clean = goodput(0, lengths[i], n);
        double lossy = goodput(10000, lengths[i], n);

        print_message("# %u bytes: %.1f MB/s, with 1 %% loss %.1f MB/s, "
                      "%.0f %%\n", lengths[i], clean / 1e6, lossy / 1e6,
                      100 * lossy / clean);
        assert_true(lossy >= 0.7 * clean);
    }
}
