/*
 * unetmm qtests: the four card rings, the commands, and running out of room
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/module.h"
#include "unetmm-lib.h"

static const struct unetmm_cmd nop = { .opcode = UNETMM_CMD_NOP };

/* ---- Registers of a ring ------------------------------------------------ */

static void check_enable(QUnetmm *c, unsigned ring, uint64_t base,
                         uint32_t log2, bool ok)
{
    qunetmm_ring_write(c, ring, UNETMM_RING_BASE_LO, base);
    qunetmm_ring_write(c, ring, UNETMM_RING_BASE_HI, base >> 32);
    qunetmm_ring_write(c, ring, UNETMM_RING_LOG2, log2);
    qunetmm_ring_write(c, ring, UNETMM_RING_ENABLE, 1);
    g_assert_cmpuint(qunetmm_ring_read(c, ring, UNETMM_RING_ENABLE), ==, ok);
    qunetmm_ring_write(c, ring, UNETMM_RING_ENABLE, 0);
    g_assert_cmpuint(qunetmm_ring_read(c, ring, UNETMM_RING_ENABLE), ==, 0);
}

static void test_ring_enable(void *obj, void *data, QGuestAllocator *alloc)
{
    static const unsigned entry_bytes[UNETMM_NUM_RINGS] = {
        [UNETMM_RING_CMD] = sizeof(struct unetmm_cmd),
        [UNETMM_RING_CMDC] = sizeof(struct unetmm_cmd_done),
        [UNETMM_RING_FAULT] = sizeof(struct unetmm_fault),
        [UNETMM_RING_NOTIFY] = sizeof(struct unetmm_notify),
        [UNETMM_RING_BACKUP] = sizeof(struct unetmm_backup),
    };
    QUnetmm *c = obj;
    uint64_t base = qunetmm_alloc(c, UNETMM_PAGE_BYTES);

    for (unsigned r = 0; r < UNETMM_NUM_RINGS; r++) {
        check_enable(c, r, base, UNETMM_MIN_RING_LOG2, true);
        check_enable(c, r, base, UNETMM_MAX_RING_LOG2, true);
        check_enable(c, r, base + entry_bytes[r], 2, true);
        check_enable(c, r, base, UNETMM_MIN_RING_LOG2 - 1, false);
        check_enable(c, r, base, UNETMM_MAX_RING_LOG2 + 1, false);
        check_enable(c, r, base, 32, false);
        check_enable(c, r, base, UINT32_MAX, false);
        check_enable(c, r, base + entry_bytes[r] / 2, 2, false);
        check_enable(c, r, base + 1, 2, false);
    }
    g_assert_cmpuint(qunetmm_counter(c, UNETMM_C_err_register), ==,
                     6 * UNETMM_NUM_RINGS);
}

static void test_ring_locked(void *obj, void *data, QGuestAllocator *alloc)
{
    QUnetmm *c = obj;

    for (unsigned r = 0; r < UNETMM_NUM_RINGS; r++) {
        qunetmm_ring_start(c, r, 2);
        for (uint32_t reg = UNETMM_RING_BASE_LO; reg <= UNETMM_RING_LOG2;
             reg += 4) {
            uint32_t value = qunetmm_ring_read(c, r, reg);

            qunetmm_ring_write(c, r, reg, value + 64);
            g_assert_cmphex(qunetmm_ring_read(c, r, reg), ==, value);
        }
        /* Enabling an enabled ring changes nothing. */
        qunetmm_ring_write(c, r, UNETMM_RING_ENABLE, 1);
        g_assert_cmphex(qunetmm_ring_read(c, r, UNETMM_RING_ENABLE), ==, 1);
        qunetmm_ring_write(c, r, UNETMM_RING_MODERATE, 17);
        g_assert_cmphex(qunetmm_ring_read(c, r, UNETMM_RING_MODERATE), ==, 17);
    }
    g_assert_cmpuint(qunetmm_counter(c, UNETMM_C_err_register), ==,
                     3 * UNETMM_NUM_RINGS);
}

/* The index that is the guest's moves only where it may be. */
static void test_ring_index(void *obj, void *data, QGuestAllocator *alloc)
{
    QUnetmm *c = obj;
    uint64_t errors = 0;

    for (unsigned r = 0; r < UNETMM_NUM_RINGS; r++) {
        uint32_t own = UNETMM_RING_TO_CARD(r) ? UNETMM_RING_PROD :
                       UNETMM_RING_CONS;

        qunetmm_ring_write(c, r, own, 0);
        g_assert_cmpuint(qunetmm_counter(c, UNETMM_C_err_register), ==,
                         ++errors);
        qunetmm_ring_start(c, r, 2);
        for (unsigned i = 0; i < 3; i++) {
            static const uint32_t forged[] = { 5, 0x80000000, UINT32_MAX };

            qunetmm_ring_write(c, r, own, forged[i]);
            g_assert_cmpuint(qunetmm_ring_read(c, r, own), ==, 0);
            g_assert_cmpuint(qunetmm_counter(c, UNETMM_C_err_register), ==,
                             ++errors);
        }
    }
    /* A full command ring is legal; without ENABLE nothing runs. */
    qunetmm_ring_write(c, UNETMM_RING_CMD, UNETMM_RING_PROD, 4);
    g_assert_cmpuint(qunetmm_ring_read(c, UNETMM_RING_CMD, UNETMM_RING_PROD),
                     ==, 4);
    g_assert_cmpuint(qunetmm_ring_read(c, UNETMM_RING_CMD, UNETMM_RING_CONS),
                     ==, 0);
    qunetmm_ring_write(c, UNETMM_RING_CMD, UNETMM_RING_ENABLE, 0);
    g_assert_cmpuint(qunetmm_ring_read(c, UNETMM_RING_CMD, UNETMM_RING_PROD),
                     ==, 0);
}

/* ---- Commands ----------------------------------------------------------- */

/* Smallest rings, many rounds: each command answered once, in order. */
static void test_cmd_wrap(void *obj, void *data, QGuestAllocator *alloc)
{
    QUnetmm *c = obj;

    qunetmm_start(c, UNETMM_MIN_RING_LOG2);
    for (unsigned i = 0; i < 101; i++) {
        g_assert_cmpuint(qunetmm_cmd(c, &nop, NULL), ==, UNETMM_CS_OK);
        g_assert_cmpuint(qunetmm_ring_read(c, UNETMM_RING_CMDC,
                                           UNETMM_RING_PROD), ==, i + 1);
        g_assert_cmpuint(qunetmm_ring_read(c, UNETMM_RING_CMD,
                                           UNETMM_RING_CONS), ==, i + 1);
    }
}

/* With no room for answers, commands wait; none is lost or run twice. */
static void test_cmd_backlog(void *obj, void *data, QGuestAllocator *alloc)
{
    QUnetmm *c = obj;
    struct unetmm_cmd_done done;

    qunetmm_start(c, 3);
    qunetmm_ring_start(c, UNETMM_RING_CMDC, 1);
    for (unsigned i = 0; i < 8; i++) {
        struct unetmm_cmd cmd = nop;

        cmd.tag = 100 + i;
        qunetmm_submit(c, &cmd);
    }
    g_assert_cmpuint(qunetmm_ring_read(c, UNETMM_RING_CMD, UNETMM_RING_CONS),
                     ==, 2);
    for (unsigned i = 0; i < 8; i++) {
        g_assert_true(qunetmm_done(c, &done));
        g_assert_cmpuint(done.tag, ==, 100 + i);
    }
    g_assert_false(qunetmm_done(c, &done));
}

static void check_cmd(QUnetmm *c, struct unetmm_cmd cmd, uint8_t status)
{
    uint64_t errors = qunetmm_counter(c, UNETMM_C_err_command);

    g_assert_cmpuint(qunetmm_cmd(c, &cmd, NULL), ==, status);
    g_assert_cmpuint(qunetmm_counter(c, UNETMM_C_err_command), ==,
                     errors + (status != UNETMM_CS_OK &&
                               status != UNETMM_CS_STALE &&
                               status != UNETMM_CS_PARTIAL));
}

static void check_space(QUnetmm *c, uint16_t id, uint8_t source,
                        uint8_t levels, uint64_t table, uint8_t status)
{
    struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_SPACE_CREATE, .space = id,
        .space_create = { .source = source, .levels = levels,
                          .table = table },
    };

    check_cmd(c, cmd, status);
}

static void test_cmd_space(void *obj, void *data, QGuestAllocator *alloc)
{
    struct unetmm_cmd destroy = { .opcode = UNETMM_CMD_SPACE_DESTROY };
    QUnetmm *c = obj;
    uint16_t spaces = qunetmm_read(c, UNETMM_REG_SPACES);

    qunetmm_start(c, 3);
    check_cmd(c, (struct unetmm_cmd){ .opcode = UNETMM_NUM_CMD },
              UNETMM_CS_BAD_OPCODE);
    check_cmd(c, (struct unetmm_cmd){ .opcode = 0xff }, UNETMM_CS_BAD_OPCODE);
    check_space(c, spaces, UNETMM_SOURCE_TLB, 0, 0, UNETMM_CS_BAD_ID);
    check_space(c, 0xffff, UNETMM_SOURCE_TLB, 0, 0, UNETMM_CS_BAD_ID);
    check_space(c, 1, UNETMM_SOURCE_DIRECT, 0, 0, UNETMM_CS_BAD_ARG);
    check_space(c, 0, UNETMM_SOURCE_TLB, 0, 0, UNETMM_CS_BAD_ARG);
    check_space(c, 1, UNETMM_SOURCE_TLB + 1, 0, 0, UNETMM_CS_BAD_ARG);
    check_space(c, 1, UNETMM_SOURCE_TLB, 1, 0, UNETMM_CS_BAD_ARG);
    check_space(c, 1, UNETMM_SOURCE_TLB, 0, QUNETMM_PAGE, UNETMM_CS_BAD_ARG);
    check_space(c, 1, UNETMM_SOURCE_PINNED, 0, 0, UNETMM_CS_BAD_ARG);
    check_space(c, 1, UNETMM_SOURCE_PINNED, UNETMM_TABLE_LEVELS + 1, 0,
                UNETMM_CS_BAD_ARG);
    check_space(c, 1, UNETMM_SOURCE_UTLB, 0, 0, UNETMM_CS_BAD_ARG);
    check_space(c, 1, UNETMM_SOURCE_PINNED, 1, QUNETMM_PAGE + 8,
                UNETMM_CS_BAD_ARG);
    check_space(c, 1, UNETMM_SOURCE_PINNED, 6, 0, UNETMM_CS_OK);
    check_space(c, 1, UNETMM_SOURCE_TLB, 0, 0, UNETMM_CS_EXISTS);
    check_space(c, 0, UNETMM_SOURCE_DIRECT, 0, 0, UNETMM_CS_OK);
    check_space(c, spaces - 1, UNETMM_SOURCE_TLB, 0, 0, UNETMM_CS_OK);
    for (unsigned i = 0; i < 2; i++) {
        destroy.space = spaces - 1;
        check_cmd(c, destroy, i ? UNETMM_CS_BAD_ID : UNETMM_CS_OK);
    }
    destroy.space = spaces;
    check_cmd(c, destroy, UNETMM_CS_BAD_ID);
}

static void test_cmd_ep(void *obj, void *data, QGuestAllocator *alloc)
{
    QUnetmm *c = obj;
    struct unetmm_cmd good, bad;
    QUnetmmEp ep;

    qunetmm_start(c, 3);
    qunetmm_ep_alloc(&ep, c, 1, 1, 3);
    good = qunetmm_ep_cmd(&ep, UNETMM_POLICY_SKIP, 0);
    check_cmd(c, good, UNETMM_CS_BAD_ID);               /* no space yet */
    qunetmm_space(c, 0, UNETMM_SOURCE_DIRECT, 0, 0);
    qunetmm_space(c, 1, UNETMM_SOURCE_TLB, 0, 0);

#define BAD(expected, member, value) \
    do { \
        bad = good; \
        bad.member = value; \
        check_cmd(c, bad, expected); \
    } while (0)
    BAD(UNETMM_CS_BAD_ID, ep, qunetmm_read(c, UNETMM_REG_ENDPOINTS));
    BAD(UNETMM_CS_BAD_ID, ep, 0xffff);
    BAD(UNETMM_CS_BAD_ID, space, 2);
    BAD(UNETMM_CS_BAD_ID, space, 0xffff);
    BAD(UNETMM_CS_BAD_ARG, ep, 0);                      /* in space 1 */
    BAD(UNETMM_CS_BAD_ARG, space, 0);                   /* not endpoint 0 */
    BAD(UNETMM_CS_BAD_ARG, ep_create.sq_base, ep.sq + 32);
    BAD(UNETMM_CS_BAD_ARG, ep_create.fq_base, ep.fq + 16);
    BAD(UNETMM_CS_BAD_ARG, ep_create.cq_base, ep.cq + 32);
    BAD(UNETMM_CS_BAD_ARG, ep_create.index, ep.index + 64);
    BAD(UNETMM_CS_BAD_ARG, ep_create.sq_log2, 0);
    BAD(UNETMM_CS_BAD_ARG, ep_create.sq_log2, UNETMM_MAX_RING_LOG2 + 1);
    BAD(UNETMM_CS_BAD_ARG, ep_create.fq_log2, 0);
    BAD(UNETMM_CS_BAD_ARG, ep_create.fq_log2, 0xff);
    BAD(UNETMM_CS_BAD_ARG, ep_create.cq_log2, 0);
    BAD(UNETMM_CS_BAD_ARG, ep_create.cq_log2, 32);
    BAD(UNETMM_CS_BAD_ARG, ep_create.policy, UNETMM_POLICY_SKIP + 1);
    BAD(UNETMM_CS_BAD_ARG, ep_create.pretranslate, 9);
#undef BAD
    check_cmd(c, good, UNETMM_CS_OK);
    check_cmd(c, good, UNETMM_CS_EXISTS);
    check_cmd(c, (struct unetmm_cmd){ .opcode = UNETMM_CMD_SPACE_DESTROY,
                                      .space = 1 }, UNETMM_CS_BUSY);
    g_assert_cmpuint(qunetmm_ep_destroy(c, 1), ==, UNETMM_CS_OK);
    g_assert_cmpuint(qunetmm_ep_destroy(c, 1), ==, UNETMM_CS_BAD_ID);
    g_assert_cmpuint(qunetmm_ep_destroy(c, 0xffff), ==, UNETMM_CS_BAD_ID);
    check_cmd(c, (struct unetmm_cmd){ .opcode = UNETMM_CMD_SPACE_DESTROY,
                                      .space = 1 }, UNETMM_CS_OK);
}

static void test_cmd_channel(void *obj, void *data, QGuestAllocator *alloc)
{
    QUnetmm *c = obj;
    struct unetmm_cmd good = {
        .opcode = UNETMM_CMD_CHANNEL_SET, .ep = 1,
        .channel = { .channel = 1, .mtu = UNETMM_MIN_MTU,
                     .peer_mac = { 0x52, 0x54, 0, 1, 2, 3 } },
    };
    struct unetmm_cmd bad;
    QUnetmmEp ep0, ep1;

    qunetmm_start(c, 3);
    check_cmd(c, good, UNETMM_CS_BAD_ID);
    qunetmm_space(c, 0, UNETMM_SOURCE_DIRECT, 0, 0);
    qunetmm_space(c, 1, UNETMM_SOURCE_TLB, 0, 0);
    qunetmm_ep(&ep0, c, 0, 0, 3, UNETMM_POLICY_DROP);
    qunetmm_ep(&ep1, c, 1, 1, 3, UNETMM_POLICY_DROP);

#define BAD(expected, member, value) \
    do { \
        bad = good; \
        bad.member = value; \
        check_cmd(c, bad, expected); \
    } while (0)
    BAD(UNETMM_CS_BAD_ID, ep, 0);
    BAD(UNETMM_CS_BAD_ID, ep, 2);
    BAD(UNETMM_CS_BAD_ID, channel.channel,
        qunetmm_read(c, UNETMM_REG_CHANNELS));
    BAD(UNETMM_CS_BAD_ARG, channel.mtu, UNETMM_MIN_MTU - 1);
    BAD(UNETMM_CS_BAD_ARG, channel.mtu, UNETMM_MAX_PAYLOAD + 1);
    BAD(UNETMM_CS_BAD_ARG, channel.mtu, 0);
    BAD(UNETMM_CS_BAD_ARG, channel.peer_mac[0], 0x01);
#undef BAD
    check_cmd(c, good, UNETMM_CS_OK);
    check_cmd(c, good, UNETMM_CS_OK);
    good.opcode = UNETMM_CMD_CHANNEL_CLEAR;
    check_cmd(c, good, UNETMM_CS_OK);
}

static void test_cmd_reply(void *obj, void *data, QGuestAllocator *alloc)
{
    QUnetmm *c = obj;
    struct unetmm_cmd good = {
        .opcode = UNETMM_CMD_FAULT_REPLY, .space = 1,
        .reply = { .fault_id = UNETMM_FAULT_NONE, .npages = 1,
                   .vaddr = QUNETMM_VA, .list = c->list },
    };
    struct unetmm_cmd bad;
    uint32_t taken;

    qtest_writeq(c->dev.bus->qts, c->list, QUNETMM_RW);
    qtest_writeq(c->dev.bus->qts, c->list + 8, QUNETMM_RW);
    qunetmm_start(c, 3);
    check_cmd(c, good, UNETMM_CS_BAD_ID);
    qunetmm_space(c, 0, UNETMM_SOURCE_DIRECT, 0, 0);
    qunetmm_space(c, 1, UNETMM_SOURCE_TLB, 0, 0);
    qunetmm_space(c, 2, UNETMM_SOURCE_PINNED, 1, c->list);

#define BAD(expected, member, value) \
    do { \
        bad = good; \
        bad.member = value; \
        check_cmd(c, bad, expected); \
    } while (0)
    BAD(UNETMM_CS_BAD_ARG, space, 0);
    BAD(UNETMM_CS_BAD_ARG, space, 2);
    BAD(UNETMM_CS_BAD_ID, space, 3);
    BAD(UNETMM_CS_BAD_ID, space, 0xffff);
    BAD(UNETMM_CS_BAD_ARG, reply.status, UNETMM_REPLY_RETRY + 1);
    BAD(UNETMM_CS_BAD_ARG, reply.status, UNETMM_REPLY_DEFERRED);
    BAD(UNETMM_CS_BAD_ARG, reply.status, UNETMM_REPLY_RETRY);
    BAD(UNETMM_CS_BAD_ARG, reply.status, UNETMM_REPLY_ERROR);
    BAD(UNETMM_CS_BAD_ARG, reply.npages, UNETMM_REPLY_MAX_PAGES + 1);
    BAD(UNETMM_CS_BAD_ARG, reply.npages, 0xffff);
    BAD(UNETMM_CS_BAD_ARG, reply.vaddr, QUNETMM_VA + 1);
    BAD(UNETMM_CS_BAD_ARG, reply.list, c->list + 16);   /* not VALID */
    BAD(UNETMM_CS_DMA, reply.list, c->regs.addr);
    BAD(UNETMM_CS_STALE, reply.fault_id, 0);
    BAD(UNETMM_CS_STALE, reply.fault_id, 0xfffffffe);
    bad = good;
    bad.reply.npages = 2;
    bad.reply.vaddr = -QUNETMM_PAGE;                    /* wraps */
    check_cmd(c, bad, UNETMM_CS_BAD_ARG);
#undef BAD
    g_assert_cmpuint(qunetmm_counter(c, UNETMM_C_tlb_inserts), ==, 0);
    /* The last page of all addresses is a page like any other. */
    g_assert_cmpuint(qunetmm_resolve(c, 1, UNETMM_FAULT_NONE, -QUNETMM_PAGE,
                                     c->list, QUNETMM_RW, 1, 0, &taken), ==,
                     UNETMM_CS_OK);
    g_assert_cmpuint(taken, ==, 1);
    g_assert_cmpuint(qunetmm_counter(c, UNETMM_C_tlb_inserts), ==, 1);
}

/* ---- Ring memory that the bus refuses ----------------------------------- */

static void check_fatal(QUnetmm *c, unsigned ring)
{
    QTestState *qts = c->dev.bus->qts;
    uint64_t hole = 1ull << 40;

    qunetmm_start(c, 2);
    qunetmm_write(c, UNETMM_REG_EVENT_MASK, UNETMM_EVENT_FATAL);
    qunetmm_ring_write(c, ring, UNETMM_RING_ENABLE, 0);
    qunetmm_ring_write(c, ring, UNETMM_RING_BASE_LO, hole);
    qunetmm_ring_write(c, ring, UNETMM_RING_BASE_HI, hole >> 32);
    qunetmm_ring_write(c, ring, UNETMM_RING_ENABLE, 1);
    qunetmm_ring_write(c, UNETMM_RING_CMD, UNETMM_RING_PROD, 1);
    g_assert_cmphex(qunetmm_read(c, UNETMM_REG_STATUS), ==,
                    UNETMM_STATUS_LINK | UNETMM_STATUS_ENABLED |
                    UNETMM_STATUS_FATAL);
    g_assert_true(qunetmm_read(c, UNETMM_REG_EVENTS) & UNETMM_EVENT_FATAL);
    g_assert_true(qunetmm_msi_taken(c, UNETMM_VEC_EVENT));
    /* It does nothing more, and says so once. */
    qunetmm_ring_write(c, UNETMM_RING_CMD, UNETMM_RING_PROD, 2);
    qtest_clock_step(qts, 1000000);
    g_assert_cmpuint(qunetmm_counter(c, UNETMM_C_err_dma), ==, 1);
    qunetmm_write(c, UNETMM_REG_CTRL, UNETMM_CTRL_RESET);
    g_assert_cmphex(qunetmm_read(c, UNETMM_REG_STATUS), ==,
                    UNETMM_STATUS_LINK);
    g_assert_cmphex(qunetmm_read(c, UNETMM_REG_CTRL), ==, 0);
    g_assert_cmphex(qunetmm_read(c, UNETMM_REG_EVENTS), ==, 0);
}

static void test_fatal(void *obj, void *data, QGuestAllocator *alloc)
{
    QUnetmm *c = obj;

    check_fatal(c, UNETMM_RING_CMD);
    check_fatal(c, UNETMM_RING_CMDC);
    qunetmm_start(c, 2);
    g_assert_cmpuint(qunetmm_cmd(c, &nop, NULL), ==, UNETMM_CS_OK);
}

static void unetmm_register_ring_tests(void)
{
    qos_add_test("ring-enable", "unetmm", test_ring_enable, NULL);
    qos_add_test("ring-locked", "unetmm", test_ring_locked, NULL);
    qos_add_test("ring-index", "unetmm", test_ring_index, NULL);
    qos_add_test("cmd-wrap", "unetmm", test_cmd_wrap, NULL);
    qos_add_test("cmd-backlog", "unetmm", test_cmd_backlog, NULL);
    qos_add_test("cmd-space", "unetmm", test_cmd_space, NULL);
    qos_add_test("cmd-ep", "unetmm", test_cmd_ep, NULL);
    qos_add_test("cmd-channel", "unetmm", test_cmd_channel, NULL);
    qos_add_test("cmd-reply", "unetmm", test_cmd_reply, NULL);
    qos_add_test("fatal", "unetmm", test_fatal, NULL);
}

libqos_init(unetmm_register_ring_tests);
