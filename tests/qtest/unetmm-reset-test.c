/*
 * unetmm qtests: resets of every kind, in the middle of everything
 *
 * Each is tried with one transfer whose page is moving, one message that is
 * landing, one send that waits for a translation, a wake-up that is owed and an
 * invalidation that waits.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "hw/pci/pci_regs.h"
#include "qemu/module.h"
#include "unetmm-lib.h"

#define PAGE_NS     1000
#define RIG_BYTES   (2 * UNETMM_PAGE_BYTES)
#define LOG2        3

typedef struct Rig {
    QUnetmm *c;
    QTestState *qts;
    QUnetmmEp eps[4];           /* 1 lands, 2 receives, 3 waits, 4 moves */
    QUnetmmBuf src, dst;
    uint32_t fault_id;
} Rig;

static void give(Rig *r, uint16_t space, const QUnetmmBuf *buf)
{
    uint32_t taken;

    qunetmm_resolve(r->c, space, UNETMM_FAULT_NONE, QUNETMM_VA, buf->addr,
                    QUNETMM_RW, 2, 0, &taken);
    g_assert_cmpuint(taken, ==, 2);
}

static void rig_up(Rig *r, QUnetmm *c)
{
    r->c = c;
    r->qts = c->dev.bus->qts;
    qunetmm_start(c, 5);
    for (unsigned i = 0; i < G_N_ELEMENTS(r->eps); i++) {
        qunetmm_space(c, 1 + i, UNETMM_SOURCE_TLB, 0, 0);
        qunetmm_ep(&r->eps[i], c, 1 + i, 1 + i, LOG2, UNETMM_POLICY_SKIP);
        qunetmm_channel(&r->eps[i], 0, c->mac, 2, 0, RIG_BYTES);
    }
    qunetmm_channel(&r->eps[1], 0, c->mac, 1, 0, RIG_BYTES);
    qunetmm_buf(&r->src, c, 2, 27);
    qunetmm_buf(&r->dst, c, 2, 28);
}

static void rig_down(Rig *r)
{
    qunetmm_buf_free(&r->src);
    qunetmm_buf_free(&r->dst);
}

/* One message from endpoint 1 to endpoint 2, start to end. */
static void exchange(Rig *r)
{
    struct unetmm_cqe cqe;

    give(r, 1, &r->src);
    give(r, 2, &r->dst);
    qunetmm_post(&r->eps[1], 9, QUNETMM_VA, RIG_BYTES);
    qunetmm_send(&r->eps[0], 0, 1, QUNETMM_VA, RIG_BYTES);
    for (unsigned i = 0; i < 4; i++) {
        qtest_clock_step(r->qts, PAGE_NS);
    }
    qunetmm_expect(&r->eps[0], UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    cqe = qunetmm_expect(&r->eps[1], UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 9);
    g_assert_cmpuint(cqe.len, ==, RIG_BYTES);
    qunetmm_buf_expect(&r->dst, 0, r->src.model + UNETMM_PAGE_BYTES,
                       RIG_BYTES);
    qunetmm_buf_check(&r->dst);
    qunetmm_buf_check(&r->src);
}

static void make_busy(Rig *r)
{
    struct unetmm_fault f;

    give(r, 1, &r->src);
    give(r, 2, &r->dst);
    give(r, 4, &r->src);
    qunetmm_write(r->c, UNETMM_REG_EVENT_MASK, UNETMM_EVENT_ALL);
    qunetmm_post(&r->eps[1], 9, QUNETMM_VA, RIG_BYTES);
    qunetmm_send(&r->eps[0], 0, 1, QUNETMM_VA, RIG_BYTES);
    qtest_clock_step(r->qts, PAGE_NS);
    qtest_clock_step(r->qts, PAGE_NS);          /* lands now */
    qunetmm_expect(&r->eps[0], UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    qunetmm_arm(&r->eps[1]);
    qunetmm_send(&r->eps[0], 0, 2, QUNETMM_VA, RIG_BYTES);
    qunetmm_send(&r->eps[2], 0, 3, QUNETMM_VA, RIG_BYTES);
    f = qunetmm_expect_miss(r->c, QUNETMM_VA, 2, 0);
    r->fault_id = f.fault_id;
    qunetmm_send(&r->eps[3], 0, 4, QUNETMM_VA, RIG_BYTES);
    qunetmm_invalidate(r->c, 4, 0, UINT64_MAX);
    g_assert_true(qunetmm_invalidate_busy(r->c));
}

/* All that the card could still write to. */
static GByteArray *snapshot(Rig *r)
{
    GByteArray *all = g_byte_array_new();
    uint8_t page[UNETMM_PAGE_BYTES];
    uint64_t at[4 * G_N_ELEMENTS(r->eps) + UNETMM_NUM_RINGS + 1];
    unsigned n = 0;

    for (unsigned i = 0; i < G_N_ELEMENTS(r->eps); i++) {
        at[n++] = r->eps[i].sq;
        at[n++] = r->eps[i].fq;
        at[n++] = r->eps[i].cq;
        at[n++] = r->eps[i].index;
    }
    for (unsigned i = 0; i < UNETMM_NUM_RINGS; i++) {
        at[n++] = r->c->rings[i].base;
    }
    at[n++] = r->c->msi;
    for (unsigned i = 0; i < n; i++) {
        qtest_bufread(r->qts, at[i], page, sizeof(page));
        g_byte_array_append(all, page, sizeof(page));
    }
    return all;
}

static void check_quiet(Rig *r, GByteArray *before)
{
    GByteArray *after;

    for (unsigned i = 0; i < 10; i++) {
        qtest_clock_step(r->qts, PAGE_NS);
    }
    after = snapshot(r);
    g_assert_cmpmem(after->data, after->len, before->data, before->len);
    g_byte_array_unref(after);
    g_byte_array_unref(before);
    qunetmm_buf_check(&r->src);
    qunetmm_buf_check(&r->dst);
}

static void check_reset_registers(QUnetmm *c)
{
    static const uint32_t zero[] = {
        UNETMM_REG_CTRL, UNETMM_REG_EVENTS, UNETMM_REG_EVENT_MASK,
        UNETMM_REG_TEST, UNETMM_REG_INV_SPACE, UNETMM_REG_INV_LAST_HI,
        UNETMM_REG_INV_CTRL, UNETMM_REG_EP_SEL,
    };

    g_assert_cmphex(qunetmm_read(c, UNETMM_REG_ID), ==, UNETMM_ID_VALUE);
    g_assert_cmphex(qunetmm_read(c, UNETMM_REG_STATUS), ==,
                    UNETMM_STATUS_LINK);
    for (unsigned i = 0; i < G_N_ELEMENTS(zero); i++) {
        g_assert_cmphex(qunetmm_read(c, zero[i]), ==, 0);
    }
    for (unsigned r = 0; r < UNETMM_NUM_RINGS; r++) {
        for (uint32_t reg = 0; reg <= UNETMM_RING_MODERATE; reg += 4) {
            g_assert_cmphex(qunetmm_ring_read(c, r, reg), ==, 0);
        }
    }
    for (unsigned i = 0; i < UNETMM_NUM_COUNTERS; i++) {
        /* Only the counter of work ended by resets remains. */
        if (i != UNETMM_C_drop_reset) {
            g_assert_cmpuint(qunetmm_counter(c, i), ==, 0);
        }
    }
    qunetmm_doorbell(c, 1);             /* no endpoint is left */
    g_assert_cmpuint(qunetmm_counter(c, UNETMM_C_err_doorbell), ==, 1);
}

/* The card works as new, and answers for its former life are stale. */
static void check_new_life(Rig *r)
{
    QUnetmm *c = r->c;

    rig_down(r);
    rig_up(r, c);
    g_assert_cmpuint(qunetmm_reply(c, 3, r->fault_id, UNETMM_REPLY_RETRY, 0),
                     ==, UNETMM_CS_STALE);
    exchange(r);
    rig_down(r);
}

static void test_ctrl_reset(void *obj, void *data, QGuestAllocator *alloc)
{
    GByteArray *before;
    Rig r;

    rig_up(&r, obj);
    make_busy(&r);
    before = snapshot(&r);
    qunetmm_write(r.c, UNETMM_REG_CTRL, UNETMM_CTRL_RESET);
    check_reset_registers(r.c);
    check_quiet(&r, before);
    /* All but PCI: memory and bus master are on. */
    g_assert_cmphex(qpci_config_readw(&r.c->dev, PCI_COMMAND), ==,
                    PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER);
    check_new_life(&r);
}

/* Reset asked for together with ENABLE: the card is off afterwards. */
static void test_ctrl_reset_enable(void *obj, void *data,
                                   QGuestAllocator *alloc)
{
    QUnetmm *c = obj;

    qunetmm_start(c, 3);
    qunetmm_write(c, UNETMM_REG_CTRL, UNETMM_CTRL_RESET | UNETMM_CTRL_ENABLE);
    check_reset_registers(c);
}

static void test_flr(void *obj, void *data, QGuestAllocator *alloc)
{
    GByteArray *before;
    Rig r;

    rig_up(&r, obj);
    make_busy(&r);
    before = snapshot(&r);
    qunetmm_flr(r.c);
    g_assert_cmphex(qpci_config_readw(&r.c->dev, PCI_COMMAND), ==, 0);
    g_assert_cmphex(qpci_config_readl(&r.c->dev, PCI_BASE_ADDRESS_0), ==, 0);
    check_quiet(&r, before);
    qunetmm_enable(r.c);
    check_reset_registers(r.c);
    check_new_life(&r);
}

static void test_system_reset(void *obj, void *data, QGuestAllocator *alloc)
{
    GByteArray *before;
    Rig r;

    rig_up(&r, obj);
    make_busy(&r);
    before = snapshot(&r);
    qtest_system_reset(r.qts);
    check_quiet(&r, before);
    qunetmm_enable(r.c);
    check_reset_registers(r.c);
    check_new_life(&r);
}

/* CTRL_ENABLE off in mid-transfer: it lands, and goes on when on again. */
static void test_disable_busy(void *obj, void *data, QGuestAllocator *alloc)
{
    Rig r;

    rig_up(&r, obj);
    give(&r, 1, &r.src);
    give(&r, 2, &r.dst);
    qunetmm_post(&r.eps[1], 9, QUNETMM_VA, RIG_BYTES);
    qunetmm_send(&r.eps[0], 0, 1, QUNETMM_VA, RIG_BYTES);
    qunetmm_write(r.c, UNETMM_REG_CTRL, 0);
    qtest_clock_step(r.qts, 10 * PAGE_NS);
    qunetmm_expect_none(&r.eps[0]);
    qunetmm_write(r.c, UNETMM_REG_CTRL, UNETMM_CTRL_ENABLE);
    for (unsigned i = 0; i < 4; i++) {
        qtest_clock_step(r.qts, PAGE_NS);
    }
    qunetmm_expect(&r.eps[0], UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    qunetmm_expect(&r.eps[1], UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 9);
    qunetmm_buf_expect(&r.dst, 0, r.src.model + UNETMM_PAGE_BYTES, RIG_BYTES);
    qunetmm_buf_check(&r.dst);
    rig_down(&r);
}

static void unetmm_register_reset_tests(void)
{
    QOSGraphTestOptions slow = {
        .edge.extra_device_opts = "x-dma-page-ns=" stringify(PAGE_NS)
    };

    qos_add_test("ctrl-reset", "unetmm", test_ctrl_reset, &slow);
    qos_add_test("ctrl-reset-enable", "unetmm", test_ctrl_reset_enable, &slow);
    qos_add_test("flr", "unetmm", test_flr, &slow);
    qos_add_test("system-reset", "unetmm", test_system_reset, &slow);
    qos_add_test("disable-busy", "unetmm", test_disable_busy, &slow);
}

libqos_init(unetmm_register_reset_tests);
