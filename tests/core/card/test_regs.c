/*
 * unetmm: registers, the card's rings, events and interrupts
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fixture.h"
#include "congestion/congestion.h"
#include "reliable/reliable.h"

#define NOP ((struct unetmm_cmd) { .opcode = UNETMM_CMD_NOP })

static const uint32_t read_only[] = {
    UNETMM_REG_ID, UNETMM_REG_VERSION, UNETMM_REG_CAPS, UNETMM_REG_STATUS,
    UNETMM_REG_MAC_LO, UNETMM_REG_MAC_HI, UNETMM_REG_USER_MTU,
    UNETMM_REG_DB_STRIDE, UNETMM_REG_ENDPOINTS, UNETMM_REG_SPACES,
    UNETMM_REG_CHANNELS, UNETMM_REG_MAX_LOG2, UNETMM_REG_TLB_SETS,
    UNETMM_REG_TLB_WAYS, UNETMM_REG_TLB_VICTIMS, UNETMM_REG_PRETRANSLATE,
    UNETMM_REG_MAX_FAULTS, UNETMM_REG_SOURCES, UNETMM_REG_POLICIES,
    UNETMM_REG_RELIABLE, UNETMM_REG_REGIONS, UNETMM_REG_IMPORTS,
    UNETMM_REG_WINDOW_PAGES, UNETMM_REG_PROXY_PAGES, UNETMM_REG_TEST_DMA_RES,
    UNETMM_REG_SYSBUF_SLOTS, UNETMM_REG_CLOCK_LO, UNETMM_REG_CLOCK_HI,
    UNETMM_REG_FLOWS, UNETMM_REG_BACKUP_BITS,
    UNETMM_REG_RING(UNETMM_RING_CMD) + UNETMM_RING_CONS,
    UNETMM_REG_RING(UNETMM_RING_CMDC) + UNETMM_RING_PROD,
    UNETMM_REG_RING(UNETMM_RING_FAULT) + UNETMM_RING_PROD,
    UNETMM_REG_RING(UNETMM_RING_NOTIFY) + UNETMM_RING_PROD,
    UNETMM_REG_RING(UNETMM_RING_BACKUP) + UNETMM_RING_CONS,
    UNETMM_REG_COUNTER(0), UNETMM_REG_COUNTER(0) + 4,
    UNETMM_REG_EP_COUNTER(0), UNETMM_REG_EP_COUNTER(0) + 4,
};

static const uint32_t read_write[] = {
    UNETMM_REG_TEST_DMA_LO, UNETMM_REG_TEST_DMA_HI, UNETMM_REG_TEST_DMA_LEN,
    UNETMM_REG_INV_SPACE, UNETMM_REG_INV_START_LO, UNETMM_REG_INV_START_HI,
    UNETMM_REG_INV_LAST_LO, UNETMM_REG_INV_LAST_HI, UNETMM_REG_EP_SEL,
    UNETMM_REG_RING(0) + UNETMM_RING_MODERATE,
    UNETMM_REG_RING(1) + UNETMM_RING_MODERATE,
    UNETMM_REG_RING(2) + UNETMM_RING_MODERATE,
    UNETMM_REG_RING(3) + UNETMM_RING_MODERATE,
    UNETMM_REG_RING(4) + UNETMM_RING_MODERATE,
};

static const uint32_t write_only[] = {
    UNETMM_REG_TEST_IRQ, UNETMM_REG_TEST_DMA_OP, UNETMM_REG_INV_CTRL,
    UNETMM_REG_PROXY_ABORT,
};

static bool in_list(const uint32_t *list, size_t n, uint32_t v)
{
    for (size_t i = 0; i < n; i++) {
        if (list[i] == v) {
            return true;
        }
    }
    return false;
}

static bool known(uint32_t offset)
{
    static const uint32_t rest[] = {
        UNETMM_REG_CTRL, UNETMM_REG_EVENTS, UNETMM_REG_EVENT_MASK,
        UNETMM_REG_TEST,
    };
    uint32_t first = UNETMM_REG_RING(0);

    if (offset >= first && offset < UNETMM_REG_RING(UNETMM_NUM_RINGS)) {
        return (offset - first) % 0x20 <= UNETMM_RING_MODERATE;
    }
    for (uint32_t base = UNETMM_REG_COUNTER(0);
         base <= UNETMM_REG_EP_COUNTER(0); base += 0x1000) {
        if (offset >= base && offset < base + 8 * UNETMM_NUM_COUNTERS) {
            return true;
        }
    }
    return in_list(read_only, G_N_ELEMENTS(read_only), offset) ||
           in_list(read_write, G_N_ELEMENTS(read_write), offset) ||
           in_list(write_only, G_N_ELEMENTS(write_only), offset) ||
           in_list(rest, G_N_ELEMENTS(rest), offset);
}

static void odd_limits(UnetmmParams *p)
{
    p->endpoints = 5;
    p->spaces = 6;
    p->channels = 7;
    p->tlb_sets = 128;
    p->tlb_ways = 3;
    p->tlb_victims = 9;
    p->pretranslate = 11;
    p->max_faults = 13;
    p->regions = 1234;
    p->imports = 21;
    p->window_pages = 17;
    p->proxy_pages = 19;
    p->flows = 23;
    p->backup_bits = 29;
    p->user_mtu = 1234;
}

TEST(test_identity, fix_test_bare, odd_limits)
{
    FakeHost *h = &((Fix *)*state)->h;

    assert_int_equal(fake_reg(h, UNETMM_REG_ID), 0x4d4d4e55);
    assert_int_equal(fake_reg(h, UNETMM_REG_VERSION), 0x00020000);
    assert_int_equal(fake_reg(h, UNETMM_REG_CAPS), 0x7ffff);
    assert_int_equal(fake_reg(h, UNETMM_REG_MAC_LO), 0x4d005452);
    assert_int_equal(fake_reg(h, UNETMM_REG_MAC_HI), 0x014d);
    assert_int_equal(fake_reg(h, UNETMM_REG_USER_MTU), 1234);
    assert_int_equal(fake_reg(h, UNETMM_REG_DB_STRIDE), 4096);
    assert_int_equal(fake_reg(h, UNETMM_REG_ENDPOINTS), 5);
    assert_int_equal(fake_reg(h, UNETMM_REG_SPACES), 6);
    assert_int_equal(fake_reg(h, UNETMM_REG_CHANNELS), 7);
    assert_int_equal(fake_reg(h, UNETMM_REG_MAX_LOG2), 14);
    assert_int_equal(fake_reg(h, UNETMM_REG_TLB_SETS), 128);
    assert_int_equal(fake_reg(h, UNETMM_REG_TLB_WAYS), 3);
    assert_int_equal(fake_reg(h, UNETMM_REG_TLB_VICTIMS), 9);
    assert_int_equal(fake_reg(h, UNETMM_REG_PRETRANSLATE), 11);
    assert_int_equal(fake_reg(h, UNETMM_REG_MAX_FAULTS), 13);
    assert_int_equal(fake_reg(h, UNETMM_REG_SOURCES),
                     (1u << unetmm_tables.nsources) - 1);
    assert_int_equal(fake_reg(h, UNETMM_REG_POLICIES),
                     (1u << unetmm_tables.npolicies) - 1);
    assert_int_equal(fake_reg(h, UNETMM_REG_SYSBUF_SLOTS), FAKE_SLOTS);
    assert_int_equal(fake_reg(h, UNETMM_REG_RELIABLE), 16);
    assert_int_equal(fake_reg(h, UNETMM_REG_REGIONS), 1234);
    assert_int_equal(fake_reg(h, UNETMM_REG_IMPORTS), 21);
    assert_int_equal(fake_reg(h, UNETMM_REG_WINDOW_PAGES), 17);
    assert_int_equal(fake_reg(h, UNETMM_REG_PROXY_PAGES), 19);
    assert_int_equal(fake_reg(h, UNETMM_REG_FLOWS), 23);
    assert_int_equal(fake_reg(h, UNETMM_REG_BACKUP_BITS), 29);
    assert_int_equal(fake_reg(h, UNETMM_REG_STATUS),
                     UNETMM_STATUS_LINK | UNETMM_STATUS_ENABLED);
    assert_int_equal(fake_counter(h, UNETMM_C_err_register), 0);
}

static uint64_t card_clock(FakeHost *h)
{
    return fake_reg(h, UNETMM_REG_CLOCK_LO) |
           (uint64_t)fake_reg(h, UNETMM_REG_CLOCK_HI) << 32;
}

/* The clock of the card's records. */
TEST_OF(test_clock, Fix *f, fix_test)
{
    uint64_t start = card_clock(&f->h);
    struct unetmm_fault m;

    fake_advance(&f->h, 5000000001);
    assert_int_equal(card_clock(&f->h) - start, 5000000001);
    fix_send(f, &f->a, 0, 100, 1);
    assert_true(fake_fault(&f->d, &m));
    assert_int_equal(m.time_ns, card_clock(&f->h));
    assert_int_equal(m.found_ns, m.time_ns);
}

/* A register file as it shows itself, to see that nothing moved. */
static void all_registers(FakeHost *h, uint32_t *v)
{
    for (uint32_t i = 0; i < 0x300 / 4; i++) {
        v[i] = fake_reg(h, 4 * i);
    }
}

TEST(test_unknown_offsets, fix_test)
{
    FakeHost *h = &((Fix *)*state)->h;
    uint32_t before[0x300 / 4], after[0x300 / 4];
    unsigned illegal = 0;

    all_registers(h, before);
    for (uint32_t at = 0; at < UNETMM_REGS_BYTES; at += 4) {
        if (!known(at)) {
            expect_count(h, err_register, 1,
                         assert_int_equal(fake_reg(h, at), 0));
            expect_count(h, err_register, 1, fake_set_reg(h, at, ~0u));
            illegal++;
        } else {
            expect_count(h, err_register, 0, fake_reg(h, at));
        }
    }
    assert_true(illegal > 3000);
    all_registers(h, after);
    assert_memory_equal(before, after, sizeof(before));
    /* Far out, as a wrong BAR size in the shell would show. */
    assert_int_equal(fake_reg(h, 0xfffffffc), 0);
    fake_set_reg(h, 0xfffffffc, 1);
}

TEST(test_size_and_alignment, fix_test)
{
    FakeHost *h = &((Fix *)*state)->h;
    static const unsigned sizes[] = { 1, 2, 4, 8 };

    for (uint32_t at = 0; at < 0x300; at++) {
        for (unsigned i = 0; i < 4; i++) {
            if (sizes[i] == 4 && at % 4 == 0) {
                continue;
            }
            expect_count(h, err_register, 1, assert_int_equal(
                             unetmm_core_read(&h->core, at, sizes[i]), 0));
            expect_count(h, err_register, 1,
                         unetmm_core_write(&h->core, at, 3, sizes[i]));
        }
    }
    assert_int_equal(fake_reg(h, UNETMM_REG_CTRL), UNETMM_CTRL_ENABLE);
    assert_int_equal(fake_reg(h, UNETMM_REG_TEST), 0);
}

TEST(test_read_only, fix_test)
{
    FakeHost *h = &((Fix *)*state)->h;

    for (unsigned i = 0; i < G_N_ELEMENTS(read_only); i++) {
        uint32_t at = read_only[i];
        uint32_t before = fake_reg(h, at);

        expect_count(h, err_register, 1, fake_set_reg(h, at, ~before));
        assert_int_equal(fake_reg(h, at), before);
    }
}

TEST(test_read_write, fix_test)
{
    FakeHost *h = &((Fix *)*state)->h;
    uint32_t v = 0x12345678;

    for (unsigned i = 0; i < G_N_ELEMENTS(read_write); i++) {
        fake_set_reg(h, read_write[i], v + i);
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(read_write); i++) {
        assert_int_equal(fake_reg(h, read_write[i]), v + i);
    }
    fake_set_reg(h, UNETMM_REG_TEST, 0x40000005);
    assert_int_equal(fake_reg(h, UNETMM_REG_TEST), 0x8000000a);
    fake_set_reg(h, UNETMM_REG_EVENT_MASK, ~0u);
    assert_int_equal(fake_reg(h, UNETMM_REG_EVENT_MASK), UNETMM_EVENT_ALL);
    for (unsigned i = 0; i < G_N_ELEMENTS(write_only); i++) {
        assert_int_equal(fake_reg(h, write_only[i]), 0);
    }
    assert_int_equal(fake_counter(h, UNETMM_C_err_register), 0);
}

TEST(test_test_irq, fix_test)
{
    FakeHost *h = &((Fix *)*state)->h;

    for (unsigned i = 0; i < UNETMM_NUM_VECTORS; i++) {
        unsigned before = h->interrupts[i];

        fake_set_reg(h, UNETMM_REG_TEST_IRQ, i);
        assert_int_equal(h->interrupts[i], before + 1);
    }
    expect_count(h, err_register, 1,
                 fake_set_reg(h, UNETMM_REG_TEST_IRQ, UNETMM_NUM_VECTORS));
    expect_count(h, err_register, 1,
                 fake_set_reg(h, UNETMM_REG_TEST_IRQ, ~0u));
}

static void dma_op(FakeHost *h, uint64_t at, uint32_t bytes, uint32_t op)
{
    fake_set_reg(h, UNETMM_REG_TEST_DMA_LO, at);
    fake_set_reg(h, UNETMM_REG_TEST_DMA_HI, at >> 32);
    fake_set_reg(h, UNETMM_REG_TEST_DMA_LEN, bytes);
    fake_set_reg(h, UNETMM_REG_TEST_DMA_OP, op);
}

TEST(test_test_dma, fix_test)
{
    FakeHost *h = &((Fix *)*state)->h;
    static const uint32_t lengths[] = { 1, 255, 257, 4096 };
    uint64_t at = fake_alloc(h, 5000, 1, FAKE_RW);
    uint8_t *p = fake_ptr(h, at, 5000);

    for (unsigned i = 0; i < G_N_ELEMENTS(lengths); i++) {
        uint32_t n = lengths[i];

        fake_snapshot(h);
        dma_op(h, at, n, UNETMM_TEST_DMA_FILL);
        assert_int_equal(fake_reg(h, UNETMM_REG_TEST_DMA_RES), 0);
        fake_expect_only(h, at, n);
        for (uint32_t j = 0; j < n; j++) {
            assert_int_equal(p[j], (uint8_t)j);
        }
        dma_op(h, at, n, UNETMM_TEST_DMA_INVERT);
        assert_int_equal(fake_reg(h, UNETMM_REG_TEST_DMA_RES), 0);
        fake_expect_only(h, at, n);
        for (uint32_t j = 0; j < n; j++) {
            assert_int_equal(p[j], (uint8_t)~j);
        }
    }
}

TEST(test_test_dma_refused, fix_test)
{
    FakeHost *h = &((Fix *)*state)->h;
    uint64_t at = fake_alloc(h, 5000, 1, FAKE_RW);
    static const struct { uint32_t bytes, op; } bad[] = {
        { 0, 1 }, { 4097, 1 }, { ~0u, 1 }, { 16, 0 }, { 16, 3 }, { 16, ~0u },
    };

    fake_snapshot(h);
    for (unsigned i = 0; i < G_N_ELEMENTS(bad); i++) {
        dma_op(h, at, bad[i].bytes, bad[i].op);
        assert_int_equal(fake_reg(h, UNETMM_REG_TEST_DMA_RES),
                         UNETMM_TEST_DMA_FAILED);
    }
    for (uint32_t op = 1; op <= 2; op++) {
        expect_count(h, err_dma, 1, dma_op(h, 0x10, 16, op));
        assert_int_equal(fake_reg(h, UNETMM_REG_TEST_DMA_RES),
                         UNETMM_TEST_DMA_FAILED);
        expect_count(h, err_dma, 1, dma_op(h, UINT64_MAX - 3, 16, op));
    }
    fake_expect_only(h, at, 0);
    dma_op(h, at, 4, 1);
    assert_int_equal(fake_reg(h, UNETMM_REG_TEST_DMA_RES), 0);
}

TEST(test_counters_latch, fix_test)
{
    FakeHost *h = &((Fix *)*state)->h;
    uint32_t at = UNETMM_REG_COUNTER(UNETMM_C_doorbells);
    uint32_t other = UNETMM_REG_COUNTER(UNETMM_C_turns);

    h->core.counters[UNETMM_C_doorbells] = 0x1fffffffeull;
    h->core.counters[UNETMM_C_turns] = 0x700000000ull;
    assert_int_equal(fake_reg(h, at), 0xfffffffe);
    h->core.counters[UNETMM_C_doorbells] += 2;
    assert_int_equal(fake_reg(h, at + 4), 1);
    assert_int_equal(fake_reg(h, at), 0);
    assert_int_equal(fake_reg(h, at + 4), 2);
    assert_int_equal(fake_reg(h, other), 0);
    assert_int_equal(fake_reg(h, other + 4), 7);
}

TEST_OF(test_endpoint_counters, Fix *f, fix_test)
{
    uint64_t card = fake_counter(&f->h, UNETMM_C_doorbells);

    fake_ring_bell(&f->a);
    fake_ring_bell(&f->a);
    fake_ring_bell(&f->b);
    assert_int_equal(fake_ep_counter(&f->h, 1, UNETMM_C_doorbells), 2);
    assert_int_equal(fake_ep_counter(&f->h, 2, UNETMM_C_doorbells), 1);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_doorbells), card + 3);
    /* Of no endpoint: zeros, not an error. */
    assert_int_equal(fake_ep_counter(&f->h, 3, UNETMM_C_doorbells), 0);
    assert_int_equal(fake_ep_counter(&f->h, ~0u, UNETMM_C_doorbells), 0);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_err_register), 0);
}

TEST(test_doorbell_of_nobody, fix_test)
{
    FakeHost *h = &((Fix *)*state)->h;

    expect_count(h, err_doorbell, 1, unetmm_core_doorbell(&h->core, 0));
    expect_count(h, err_doorbell, 1, unetmm_core_doorbell(&h->core, 7));
    expect_count(h, err_doorbell, 1, unetmm_core_doorbell(&h->core, 8));
    expect_count(h, err_doorbell, 1, unetmm_core_doorbell(&h->core, ~0u));
}

/* ---- Rings ---- */

TEST(test_ring_locked_while_enabled, fix_test)
{
    FakeHost *h = &((Fix *)*state)->h;

    for (unsigned i = 0; i < UNETMM_NUM_RINGS; i++) {
        for (uint32_t reg = UNETMM_RING_BASE_LO; reg <= UNETMM_RING_LOG2;
             reg += 4) {
            uint32_t at = UNETMM_REG_RING(i) + reg;
            uint32_t before = fake_reg(h, at);

            expect_count(h, err_register, 1, fake_set_reg(h, at, before + 64));
            assert_int_equal(fake_reg(h, at), before);
        }
        fake_set_reg(h, UNETMM_REG_RING(i) + UNETMM_RING_ENABLE, 0);
        assert_int_equal(fake_reg(h, UNETMM_REG_RING(i) + UNETMM_RING_ENABLE),
                         0);
        expect_count(h, err_register, 0,
                     fake_set_reg(h, UNETMM_REG_RING(i) + UNETMM_RING_LOG2,
                                  3));
        assert_int_equal(fake_reg(h, UNETMM_REG_RING(i) + UNETMM_RING_LOG2),
                         3);
    }
}

TEST(test_ring_bad_geometry, fix_test)
{
    FakeHost *h = &((Fix *)*state)->h;
    static const uint32_t align[] = { 64, 16, 64, 32, 16 };
    static const uint32_t bad_log2[] = { 0, 15, 32, 64, ~0u };

    for (unsigned i = 0; i < UNETMM_NUM_RINGS; i++) {
        uint32_t at = UNETMM_REG_RING(i);
        uint32_t base = fake_reg(h, at + UNETMM_RING_BASE_LO);

        fake_set_reg(h, at + UNETMM_RING_ENABLE, 0);
        for (unsigned j = 0; j < G_N_ELEMENTS(bad_log2); j++) {
            fake_set_reg(h, at + UNETMM_RING_LOG2, bad_log2[j]);
            expect_count(h, err_register, 1,
                         fake_set_reg(h, at + UNETMM_RING_ENABLE, 1));
            assert_int_equal(fake_reg(h, at + UNETMM_RING_ENABLE), 0);
        }
        fake_set_reg(h, at + UNETMM_RING_LOG2, 14);
        for (uint32_t off = 1; off < align[i]; off++) {
            fake_set_reg(h, at + UNETMM_RING_BASE_LO, base + off);
            expect_count(h, err_register, 1,
                         fake_set_reg(h, at + UNETMM_RING_ENABLE, 1));
        }
        fake_set_reg(h, at + UNETMM_RING_BASE_LO, base);
        expect_count(h, err_register, 0,
                     fake_set_reg(h, at + UNETMM_RING_ENABLE, 1));
        assert_int_equal(fake_reg(h, at + UNETMM_RING_ENABLE), 1);
    }
}

TEST_OF(test_ring_index_rules, Fix *f, fix_test)
{
    FakeHost *h = &f->h;
    uint32_t cmd = UNETMM_REG_RING(UNETMM_RING_CMD);
    uint32_t cmdc = UNETMM_REG_RING(UNETMM_RING_CMDC);
    uint32_t prod = fake_reg(h, cmd + UNETMM_RING_PROD);

    assert_int_equal(fake_reg(h, cmd + UNETMM_RING_CONS), prod);
    expect_count(h, err_register, 1,
                 fake_set_reg(h, cmd + UNETMM_RING_PROD, prod + 65));
    expect_count(h, err_register, 1,
                 fake_set_reg(h, cmd + UNETMM_RING_PROD, prod - 1));
    assert_int_equal(fake_reg(h, cmd + UNETMM_RING_PROD), prod);
    prod = fake_reg(h, cmdc + UNETMM_RING_PROD);
    assert_int_equal(fake_command(&f->d, NOP, NULL), UNETMM_CS_OK);
    expect_count(h, err_register, 1,
                 fake_set_reg(h, cmdc + UNETMM_RING_CONS, prod + 2));
    expect_count(h, err_register, 1,
                 fake_set_reg(h, cmdc + UNETMM_RING_CONS, prod));
    assert_int_equal(fake_reg(h, cmdc + UNETMM_RING_CONS), prod + 1);
    /* Disabled: no index at all. */
    fake_set_reg(h, cmd + UNETMM_RING_ENABLE, 0);
    assert_int_equal(fake_reg(h, cmd + UNETMM_RING_CONS), 0);
    expect_count(h, err_register, 1,
                 fake_set_reg(h, cmd + UNETMM_RING_PROD, 1));
    assert_int_equal(fake_reg(h, cmd + UNETMM_RING_PROD), 0);
}

static void small_rings(Fix *f, uint32_t log2)
{
    for (unsigned i = 0; i < UNETMM_NUM_RINGS; i++) {
        f->d.ring[i].log2 = log2;
    }
    for (unsigned i = 0; i < UNETMM_NUM_RINGS; i++) {
        fake_set_reg(&f->h, UNETMM_REG_RING(i) + UNETMM_RING_ENABLE, 0);
        f->d.ring[i].index = 0;
    }
    fake_driver_start(&f->d);
}

/* Several times round each size of ring: every slot, both phases. */
TEST_OF(test_command_ring_wraps, Fix *f, fix_test_bare, NULL)
{
    for (uint32_t log2 = 1; log2 <= 5; log2++) {
        small_rings(f, log2);
        for (unsigned i = 0; i < (5u << log2) + 1; i++) {
            assert_int_equal(fake_command(&f->d, NOP, NULL), UNETMM_CS_OK);
        }
    }
}

/* More commands than the completion ring has room for: none is lost. */
TEST_OF(test_completion_ring_full, Fix *f, fix_test_bare, NULL)
{
    struct unetmm_cmd_done done;
    uint16_t first;

    f->d.ring[UNETMM_RING_CMDC].log2 = 2;
    fake_set_reg(&f->h, UNETMM_REG_RING(UNETMM_RING_CMDC) +
                 UNETMM_RING_ENABLE, 0);
    fake_set_reg(&f->h, UNETMM_REG_RING(UNETMM_RING_CMDC) + UNETMM_RING_LOG2,
                 2);
    fake_set_reg(&f->h, UNETMM_REG_RING(UNETMM_RING_CMDC) +
                 UNETMM_RING_ENABLE, 1);
    first = f->d.tag;
    for (unsigned i = 0; i < 64; i++) {
        fake_issue(&f->d, NOP);
    }
    assert_int_equal(fake_reg(&f->h, UNETMM_REG_RING(UNETMM_RING_CMD) +
                              UNETMM_RING_CONS), 4);
    for (unsigned i = 0; i < 64; i++) {
        assert_true(fake_done(&f->d, &done));
        assert_int_equal(done.tag, (uint16_t)(first + i));
    }
    assert_false(fake_done(&f->d, &done));
}

TEST_OF(test_index_wraps_32_bits, Fix *f, fix_test_bare, NULL)
{
    for (unsigned i = 0; i < 2; i++) {
        f->h.core.ring->all[i].prod = f->h.core.ring->all[i].cons = 0xfffffff0;
        f->d.ring[i].index = 0xfffffff0;
    }
    for (unsigned i = 0; i < 200; i++) {
        assert_int_equal(fake_command(&f->d, NOP, NULL), UNETMM_CS_OK);
    }
}

TEST(test_bad_ring_memory_is_fatal, cmocka_unit_test_teardown, fix_teardown)
{
    for (unsigned ring = 0; ring < 2; ring++) {
        Fix *f;
        FakeRing *r;

        *state = NULL;
        fix_setup(state);
        f = *state;
        r = &f->d.ring[ring];
        fake_set_reg(&f->h, UNETMM_REG_EVENT_MASK, UNETMM_EVENT_FATAL);
        f->h.refuse_first = r->base;
        f->h.refuse_last = r->base + ((uint64_t)r->entry_bytes << r->log2) - 1;
        fake_issue(&f->d, NOP);
        assert_true(fake_reg(&f->h, UNETMM_REG_STATUS) & UNETMM_STATUS_FATAL);
        assert_true(fake_reg(&f->h, UNETMM_REG_EVENTS) & UNETMM_EVENT_FATAL);
        assert_int_equal(f->h.interrupts[UNETMM_VEC_EVENT], 1);
        /* Dead until reset: no command, no doorbell, no frame. */
        f->h.refuse_last = 0;
        fake_send_inline(&f->a, FIX_WIRE, 1, 8, 1, 0);
        fake_ring_bell(&f->a);
        assert_int_equal(f->h.wire->len, 0);
        expect_count(&f->h, drop_disabled, 1,
                     fake_deliver(&f->h, fake_datagram(&f->a, FIX_WIRE, 11, 8,
                                                       1)));
        fake_expect_none(&f->a);
        fake_set_reg(&f->h, UNETMM_REG_CTRL, UNETMM_CTRL_RESET);
        assert_int_equal(fake_reg(&f->h, UNETMM_REG_STATUS),
                         UNETMM_STATUS_LINK);
        if (ring == 0) {
            fix_teardown(state);
        }
    }
}

TEST_OF(test_bad_fault_ring_is_fatal, Fix *f, fix_test)
{
    FakeRing *r = &f->d.ring[UNETMM_RING_FAULT];

    f->h.refuse_first = r->base;
    f->h.refuse_last = r->base + 63;
    fake_send_at(&f->a, FIX_WIRE, FIX_VA, 100, 1);
    fake_ring_bell(&f->a);
    assert_true(fake_reg(&f->h, UNETMM_REG_STATUS) & UNETMM_STATUS_FATAL);
    /* A record not written has not been asked, and is not counted. */
    assert_int_equal(f->h.core.miss->asked, 0);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_faults_send), 0);
}

TEST_OF(test_bad_notify_ring_is_fatal, Fix *f, fix_test)
{
    FakeRing *r = &f->d.ring[UNETMM_RING_NOTIFY];

    f->h.refuse_first = r->base;
    f->h.refuse_last = r->base + 31;
    fake_user_word(&f->a, offsetof(struct unetmm_ep_user, cq_arm), UNETMM_ARM);
    fake_send_inline(&f->a, FIX_WIRE, 1, 8, 1, 0);
    fake_ring_bell(&f->a);
    assert_true(fake_reg(&f->h, UNETMM_REG_STATUS) & UNETMM_STATUS_FATAL);
}

TEST_OF(test_nothing_runs_while_disabled, Fix *f, fix_test)
{
    struct unetmm_cmd_done done;

    fake_set_reg(&f->h, UNETMM_REG_CTRL, 0);
    assert_int_equal(fake_reg(&f->h, UNETMM_REG_STATUS), UNETMM_STATUS_LINK);
    fake_issue(&f->d, NOP);
    assert_false(fake_done(&f->d, &done));
    fake_send_inline(&f->a, FIX_WIRE, 1, 8, 1, 0);
    fake_ring_bell(&f->a);
    assert_int_equal(f->h.wire->len, 0);
    fake_set_reg(&f->h, UNETMM_REG_CTRL, 1);
    assert_true(fake_done(&f->d, &done));
    assert_int_equal(f->h.wire->len, 1);
}

/* ---- Events and interrupts ---- */

TEST_OF(test_events, Fix *f, fix_test)
{
    FakeHost *h = &f->h;

    fake_set_reg(h, UNETMM_REG_EVENTS, UNETMM_EVENT_ALL);
    assert_int_equal(fake_reg(h, UNETMM_REG_EVENTS), 0);
    /* Masked: seen in the register, no interrupt. */
    fake_command(&f->d, NOP, NULL);
    unetmm_core_set_link(&h->core, false);
    assert_int_equal(fake_reg(h, UNETMM_REG_EVENTS),
                     UNETMM_EVENT_CMD | UNETMM_EVENT_LINK);
    assert_int_equal(h->interrupts[UNETMM_VEC_EVENT], 0);
    /* Unmasking raises pending events. */
    fake_set_reg(h, UNETMM_REG_EVENT_MASK, UNETMM_EVENT_LINK);
    assert_int_equal(h->interrupts[UNETMM_VEC_EVENT], 1);
    /* W1C: zeros clear nothing; remaining events are raised again. */
    fake_set_reg(h, UNETMM_REG_EVENTS, UNETMM_EVENT_CMD);
    assert_int_equal(fake_reg(h, UNETMM_REG_EVENTS), UNETMM_EVENT_LINK);
    assert_int_equal(h->interrupts[UNETMM_VEC_EVENT], 2);
    fake_set_reg(h, UNETMM_REG_EVENTS, UNETMM_EVENT_LINK);
    assert_int_equal(fake_reg(h, UNETMM_REG_EVENTS), 0);
    assert_int_equal(h->interrupts[UNETMM_VEC_EVENT], 2);
    fake_command(&f->d, NOP, NULL);
    assert_int_equal(h->interrupts[UNETMM_VEC_EVENT], 2);
    fake_set_reg(h, UNETMM_REG_EVENT_MASK, UNETMM_EVENT_CMD);
    fake_command(&f->d, NOP, NULL);
    assert_int_equal(h->interrupts[UNETMM_VEC_EVENT], 4);
}

TEST_OF(test_moderation, Fix *f, fix_test)
{
    FakeHost *h = &f->h;
    unsigned *n = &h->interrupts[UNETMM_VEC_EVENT];

    fake_set_reg(h, UNETMM_REG_RING(UNETMM_RING_CMDC) + UNETMM_RING_MODERATE,
                 1000);
    fake_set_reg(h, UNETMM_REG_EVENT_MASK, UNETMM_EVENT_CMD);
    *n = 0;
    fake_advance(h, 5000);
    *n = 0;
    fake_command(&f->d, NOP, NULL);
    assert_int_equal(*n, 1);
    for (unsigned i = 0; i < 10; i++) {
        fake_command(&f->d, NOP, NULL);
    }
    assert_int_equal(*n, 1);
    fake_advance(h, 999);
    assert_int_equal(*n, 1);
    fake_advance(h, 1);
    assert_int_equal(*n, 2);
    fake_advance(h, 10000);
    assert_int_equal(*n, 2);
    fake_command(&f->d, NOP, NULL);
    assert_int_equal(*n, 3);
    /* Turned off while one waits: it goes at once. */
    fake_command(&f->d, NOP, NULL);
    fake_set_reg(h, UNETMM_REG_RING(UNETMM_RING_CMDC) + UNETMM_RING_MODERATE,
                 0);
    assert_int_equal(*n, 4);
    assert_int_equal(h->timer, INT64_MAX);
}

TEST_OF(test_reset_is_power_on, Fix *f, fix_test)
{
    FakeHost *h = &f->h;
    uint32_t fresh[0x300 / 4], after[0x300 / 4];
    FakeHost other;
    UnetmmParams p;

    fake_params(&p);
    fake_host_init(&other, &p);
    all_registers(&other, fresh);
    fake_host_free(&other);

    fake_post(&f->a, FIX_VA, 5000, 1);
    fake_send_at(&f->a, FIX_LOCAL, FIX_VA, 5000, 1);
    fake_ring_bell(&f->a);
    fake_set_reg(h, UNETMM_REG_TEST, 5);
    fake_set_reg(h, UNETMM_REG_EVENT_MASK, 63);
    fake_set_reg(h, UNETMM_REG_INV_SPACE, 1);
    fake_set_reg(h, UNETMM_REG_EP_SEL, 1);
    fake_set_reg(h, UNETMM_REG_CTRL, UNETMM_CTRL_RESET);
    /* All counters but the one of work that resets have ended. */
    for (unsigned i = 0; i < UNETMM_NUM_COUNTERS; i++) {
        assert_int_equal(fake_counter(h, i), i == UNETMM_C_drop_reset);
    }
    all_registers(h, after);
    assert_memory_equal(fresh, after, sizeof(fresh));
    assert_int_equal(h->core.source->tlb.used, 0);
    assert_int_equal(h->timer, INT64_MAX);
    /* It says nothing more to the old driver. */
    memset(h->interrupts, 0, sizeof(h->interrupts));
    expect_count(h, err_doorbell, 1, fake_ring_bell(&f->a));
    assert_int_equal(h->interrupts[UNETMM_VEC_EVENT], 0);
}

/* A reset ends work that was left for later; it does not do it first. */
static void one_descriptor(UnetmmParams *p)
{
    p->budget_descriptors = 1;
}

TEST_OF(test_reset_stops_at_once, Fix *f, fix_test_with, one_descriptor)
{
    for (unsigned i = 0; i < 8; i++) {
        fake_send_inline(&f->a, FIX_WIRE, i, 8, i, 0);
    }
    fake_ring_bell(&f->a);
    assert_int_equal(f->h.wire->len, 1);
    assert_int_equal(f->h.later, 1);
    fake_set_reg(&f->h, UNETMM_REG_CTRL, UNETMM_CTRL_RESET);
    fake_run_later(&f->h);
    assert_int_equal(f->h.wire->len, 1);
}

/* ---- Parameters ---- */

typedef struct Limit {
    size_t offset;
    uint64_t good[3];
    uint64_t bad[3];
} Limit;

#define LIMIT(field, g0, g1, b0, b1, b2) \
    { offsetof(UnetmmParams, field), { g0, g1, g1 }, { b0, b1, b2 } }

static const Limit limits[] = {
    LIMIT(endpoints, 2, 1024, 0, 1, 1025),
    LIMIT(spaces, 2, 1024, 0, 1, 1025),
    LIMIT(channels, 1, 1024, 0, 1025, 0xffffffff),
    LIMIT(tlb_sets, 1, 1 << 20, 0, 3, 1 << 21),
    LIMIT(tlb_ways, 1, 64, 0, 65, 0x80000000),
    LIMIT(tlb_victims, 0, 1024, 1025, 1 << 20, 0xffffffff),
    LIMIT(tlb_index, 0, 1, 2, 3, 0xffffffff),
    LIMIT(tlb_replace, 0, UNETMM_TLB_NUM_REPLACE - 1,
          UNETMM_TLB_NUM_REPLACE, UNETMM_TLB_NUM_REPLACE + 1, 0xffffffff),
    LIMIT(cache_entries, 64, 1 << 20, 32, 100, 1 << 21),
    LIMIT(cache_ways, 1, 16, 0, 3, 32),
    LIMIT(utlb_fetch, 1, 32, 0, 12, 64),
    LIMIT(pretranslate, 1, 16, 0, 17, 0xffffffff),
    LIMIT(fault_batch, 1, 512, 0, 513, 0xffffffff),
    LIMIT(max_faults, 1, 16384, 0, 16385, 0xffffffff),
    LIMIT(user_mtu, 256, 65536, 0, 255, 65537),
    LIMIT(local_queue, 1, 4096, 0, 4097, 0xffffffff),
    LIMIT(regions, 0, 65536, 65537, 1 << 20, 0xffffffff),
    LIMIT(imports, 0, 1024, 1025, 65536, 0xffffffff),
    LIMIT(reliable, 0, 4096, 4097, 65536, 0xffffffff),
    LIMIT(reliable_keep, 0, 4096, 4097, 65536, 0xffffffff),
    LIMIT(window_pages, 0, 65536, 65537, 1 << 20, 0xffffffff),
    LIMIT(window_queue, 1, 1 << 20, 0, (1 << 20) + 1, 0xffffffff),
    LIMIT(proxy_pages, 0, 65536, 65537, 1 << 20, 0xffffffff),
    LIMIT(flows, 0, 4096, 4097, 65536, 0xffffffff),
    LIMIT(backup_bits, 0, 4096, 4097, 65536, 0xffffffff),
    LIMIT(congestion, 0, UNETMM_NUM_CONGESTION - 1, UNETMM_NUM_CONGESTION,
          UNETMM_NUM_CONGESTION + 1, 0xffffffff),
    LIMIT(congestion_window, 1, 64, 0, 65, 0xffffffff),
    LIMIT(congestion_trip_ns, 0, 1000000000, 1000000001, 1u << 31,
          0xffffffff),
    LIMIT(sysbuf_slots, 0, 4096, 4097, 65536, 0xffffffff),
    LIMIT(budget_descriptors, 1, 65536, 0, 65537, 0xffffffff),
    LIMIT(budget_bytes, 65536, 1 << 30, 0, 65535, (1 << 30) + 1),
};

TEST(test_params_check, cmocka_unit_test)
{
    UnetmmParams p;

    for (unsigned i = 0; i < G_N_ELEMENTS(limits); i++) {
        for (unsigned j = 0; j < 3; j++) {
            uint32_t *field;

            fake_params(&p);
            field = (uint32_t *)((char *)&p + limits[i].offset);
            *field = limits[i].good[j];
            assert_null(unetmm_params_check(&p));
            *field = limits[i].bad[j];
            assert_non_null(unetmm_params_check(&p));
        }
    }
    fake_params(&p);
    p.tlb_sets = 1 << 20;
    p.tlb_ways = 2;
    assert_non_null(unetmm_params_check(&p));
    fake_params(&p);
    p.dma_page_ns = 1000000000;
    assert_null(unetmm_params_check(&p));
    p.dma_page_ns++;
    assert_non_null(unetmm_params_check(&p));
    fake_params(&p);
    p.mac[0] |= 1;
    assert_non_null(unetmm_params_check(&p));
}

/* The smallest and the largest card can be made, used and freed. */
TEST(test_extreme_cards, cmocka_unit_test)
{
    UnetmmParams p;
    FakeHost h;

    fake_params(&p);
    p.endpoints = p.spaces = 2;
    p.channels = p.tlb_sets = p.tlb_ways = p.pretranslate = 1;
    p.tlb_victims = 0;
    p.max_faults = p.local_queue = p.budget_descriptors = p.fault_batch = 1;
    fake_host_init(&h, &p);
    unetmm_core_reset(&h.core);
    fake_host_free(&h);
    p.endpoints = p.spaces = p.channels = 1024;
    p.tlb_sets = 1 << 14;
    p.tlb_ways = 64;
    p.tlb_victims = 1024;
    p.max_faults = 16384;
    p.pretranslate = 16;
    p.local_queue = 4096;
    fake_host_init(&h, &p);
    unetmm_core_reset(&h.core);
    fake_host_free(&h);
    /* Freed twice, or never made, is harmless. */
    unetmm_core_free(&h.core);
}

typedef struct Grows {
    const char *name;
    size_t at;
    uint64_t least;             /* bytes, of one that is in use */
} Grows;

/* The most that a host takes for a card's saved state. */
TEST(test_save_limit, cmocka_unit_test)
{
#define GROWS(name, least) { #name, offsetof(UnetmmParams, name), least }
    static const Grows grows[] = {
        GROWS(endpoints, UNETMM_SAVED_FRAME + UNETMM_EP_MISSES * 40 +
              UNETMM_NUM_COUNTERS * 8),
        GROWS(spaces, UNETMM_EVENT_COUNTERS * 9 + 24),
        GROWS(tlb_sets, 44),
        GROWS(cache_entries, 44),
        GROWS(regions, 64 + UNETMM_REDIRECT_LANDED * 16),
        GROWS(reliable, UNETMM_REL_MSGS * 80),
        GROWS(window_pages, 20),
        GROWS(window_queue, UNETMM_MAX_INLINE),
        GROWS(proxy_pages, 12),
        GROWS(flows, 12),
        GROWS(sysbuf_slots, UNETMM_SLOT_PIECES * 16 + 20),
        GROWS(local_queue, UNETMM_SAVED_FRAME),
    };
#undef GROWS
    FakeHost host;

    for (unsigned i = 0; i < G_N_ELEMENTS(grows); i++) {
        UnetmmParams p;
        uint32_t *count = (void *)((char *)&p + grows[i].at);
        uint64_t limits[2];
        uint32_t n;

        fake_params(&p);
        p.reliable = p.window_pages = p.proxy_pages = p.flows = 4;
        p.sysbuf_slots = 4;
        n = *count;
        for (unsigned j = 0; j < 2; j++) {
            GByteArray *saved;

            *count = n << j;
            fake_host_init(&host, &p);
            limits[j] = unetmm_core_save_limit(&host.core);
            saved = unetmm_core_save(&host.core);
            assert_true(saved->len <= limits[j]);
            g_byte_array_unref(saved);
            fake_host_free(&host);
        }
        if (limits[1] < limits[0] + n * grows[i].least ||
            limits[1] > limits[0] + n * grows[i].least * 10) {
            fail_msg("%s: one more adds %" PRIu64 " bytes, not %" PRIu64,
                     grows[i].name, (limits[1] - limits[0]) / n,
                     grows[i].least);
        }
    }
}

/* Every place for a miss is in use, in the longest state, and in both lists. */
static void use_all_misses(UnetmmCore *core)
{
    uint32_t n = unetmm_misses(core);

    for (uint32_t i = 0; i < n; i++) {
        core->miss->all[i].state = UNETMM_MISS_ASKED;
        core->miss->all[i].npages = 1;
        core->miss->all[i].late = true;
        core->miss->in_flight[i] = i;
        unetmm_list_add(&core->miss->wanted, i);
    }
    core->miss->in_flight_used = n;
}

/*
 * No module saves more than it says.  Parts of other modules stand inside of
 * the parts of endpoints and spaces.
 */
TEST(test_save_limit_of_module, cmocka_unit_test)
{
    FakeHost host;
    UnetmmParams p;
    unsigned compared = 0;

    fake_params(&p);
    p.endpoints = 2;
    p.reliable = 64;
    fake_host_init(&host, &p);
    use_all_misses(&host.core);
    for (unsigned i = 0; host.core.tables->modules[i]; i++) {
        const UnetmmModule *module = host.core.tables->modules[i];
        UnetmmStream st = { .params = &p };

        if (!module->save_limit || !module->save ||
            g_str_equal(module->name, "ep") ||
            g_str_equal(module->name, "space")) {
            continue;
        }
        st.out = g_byte_array_new();
        module->save(&st, &host.core);
        assert_false(st.wrong);
        if (st.out->len > module->save_limit(&host.core)) {
            fail_msg("%s saves %u bytes of %" PRIu64, module->name,
                     st.out->len, module->save_limit(&host.core));
        }
        compared++;
        g_byte_array_unref(st.out);
    }
    assert_true(compared >= 8);
    unetmm_core_reset(&host.core);
    fake_host_free(&host);
}
