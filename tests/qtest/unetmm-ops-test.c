/*
 * unetmm qtests: one-sided operations on a reliable channel of the card itself
 *
 * The core's unit tests know the protocol; here is what only QEMU has: guest
 * memory, and an atomic on it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qemu/module.h"
#include "unetmm-lib.h"
#include "hw/net/unetmm/unetmm_le.h"

#define CHANNEL     3
#define REGION      7
#define KEY         0x600dcafeu
#define IMPORT      4
#define LENGTH      6000
#define OFFSET      100                 /* of the region, on its first page */
#define HOLE        (1ull << 40)        /* no memory there */

typedef struct Rig {
    QUnetmm *c;
    QTestState *qts;
    QUnetmmEp a, b;                     /* a uses what b exports */
    QUnetmmBuf mine, theirs;
} Rig;

static void rig_channel(Rig *r, uint16_t ep)
{
    struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_CHANNEL_SET, .ep = ep,
        .channel = { .channel = CHANNEL, .peer_ep = 3 - ep,
                     .peer_channel = CHANNEL, .mtu = 1500,
                     .type = UNETMM_CHANNEL_RELIABLE },
    };

    memcpy(cmd.channel.peer_mac, r->c->mac, 6);
    g_assert_cmpuint(qunetmm_cmd(r->c, &cmd, NULL), ==, UNETMM_CS_OK);
}

static uint8_t rig_export(Rig *r, uint32_t region, uint64_t at, uint8_t rights)
{
    struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_REGION_SET, .space = 2,
        .region = { .region = region, .key = KEY, .addr = at,
                    .length = LENGTH, .cookie = 99, .rights = rights,
                    .flags = UNETMM_REGION_F_NOTIFY },
    };

    return qunetmm_cmd(r->c, &cmd, NULL);
}

static void rig_up(Rig *r, QUnetmm *c)
{
    struct unetmm_cmd import = {
        .opcode = UNETMM_CMD_IMPORT_SET, .ep = 1,
        .import = { .import = IMPORT, .region = REGION, .key = KEY,
                    .channel = CHANNEL, .rights = UNETMM_RIGHT_ALL,
                    .length = LENGTH },
    };
    uint64_t table[2];

    r->c = c;
    r->qts = c->dev.bus->qts;
    qunetmm_start(c, 5);
    table[0] = qunetmm_space_pinned(c, 1);
    table[1] = qunetmm_space_pinned(c, 2);
    qunetmm_ep(&r->a, c, 1, 1, 4, UNETMM_POLICY_SKIP);
    qunetmm_ep(&r->b, c, 2, 2, 4, UNETMM_POLICY_SKIP);
    qunetmm_buf(&r->mine, c, 2, 7);
    qunetmm_buf(&r->theirs, c, 2, 8);
    qunetmm_pin(c, table[0], QUNETMM_VA, r->mine.addr, QUNETMM_RW, 2);
    qunetmm_pin(c, table[1], QUNETMM_VA, r->theirs.addr, QUNETMM_RW, 2);
    qunetmm_pin(c, table[1], QUNETMM_VA + 4 * QUNETMM_PAGE, HOLE, QUNETMM_RW,
                2);
    rig_channel(r, 1);
    rig_channel(r, 2);
    g_assert_cmpuint(rig_export(r, REGION, QUNETMM_VA + OFFSET,
                                UNETMM_RIGHT_ALL), ==, UNETMM_CS_OK);
    g_assert_cmpuint(qunetmm_cmd(c, &import, NULL), ==, UNETMM_CS_OK);
}

static void rig_down(Rig *r)
{
    qunetmm_buf_check(&r->mine);
    qunetmm_buf_check(&r->theirs);
    qunetmm_buf_free(&r->mine);
    qunetmm_buf_free(&r->theirs);
}

static struct unetmm_sqe rig_sqe(uint8_t op, uint64_t at, uint32_t len,
                                 uint64_t offset)
{
    return (struct unetmm_sqe) {
        .opcode = op, .nsegs = 1, .channel = CHANNEL, .cookie = op,
        .handle = IMPORT, .remote = offset,
        .seg = { { .addr = QUNETMM_VA + at, .len = len } },
    };
}

static struct unetmm_cqe rig_do(Rig *r, const struct unetmm_sqe *sqe,
                                uint8_t status)
{
    enum unetmm_counter which = status == UNETMM_ST_OK ? UNETMM_C_sends_done :
                                UNETMM_C_sends_failed;
    uint64_t before = qunetmm_counter(r->c, which);
    struct unetmm_sqe le = *sqe;

    if (le.nsegs) {
        unetmm_le_seg(&le.seg[0]);
    }
    qunetmm_put_sqe(&r->a, &le);
    qunetmm_doorbell(r->c, 1);
    qunetmm_wait_counter(r->c, which, before + 1);
    return qunetmm_expect(&r->a, UNETMM_CQE_SENT, status, sqe->cookie);
}

static void test_write_read(void *obj, void *data, QGuestAllocator *alloc)
{
    g_autofree uint8_t *bytes = g_malloc(2 * QUNETMM_PAGE);
    struct unetmm_cqe cqe;
    struct unetmm_sqe sqe;
    Rig r;

    rig_up(&r, obj);
    qtest_memread(r.qts, r.mine.addr, bytes, 2 * QUNETMM_PAGE);
    sqe = rig_sqe(UNETMM_OP_WRITE, 10, 5000, 700);
    sqe.flags = UNETMM_SQE_F_NOTIFY;
    sqe.imm = 0xabcd;
    qunetmm_buf_expect(&r.theirs, OFFSET + 700, bytes + 10, 5000);
    rig_do(&r, &sqe, UNETMM_ST_OK);
    cqe = qunetmm_expect(&r.b, UNETMM_CQE_NOTIFY, UNETMM_ST_OK, 99);
    g_assert_cmpuint(cqe.len, ==, 5000);
    g_assert_cmpuint(cqe.notify.offset, ==, 700);
    g_assert_cmpuint(cqe.notify.imm, ==, 0xabcd);
    g_assert_cmpuint(cqe.notify.region, ==, REGION);
    qtest_memread(r.qts, r.theirs.addr, bytes, 2 * QUNETMM_PAGE);
    sqe = rig_sqe(UNETMM_OP_READ, 2000, 4000, 300);
    qunetmm_buf_expect(&r.mine, 2000, bytes + OFFSET + 300, 4000);
    rig_do(&r, &sqe, UNETMM_ST_OK);
    rig_down(&r);
}

static uint64_t rig_atomic(Rig *r, uint8_t op, uint64_t x, uint64_t y)
{
    struct unetmm_sqe sqe = rig_sqe(op, 0, 0, 28);
    struct unetmm_cqe cqe;

    sqe.nsegs = 0;
    sqe.flags = UNETMM_SQE_F_INLINE;
    sqe.inline_len = op == UNETMM_OP_CMP_SWAP ? 16 : 8;
    x = cpu_to_le64(x);
    y = cpu_to_le64(y);
    memcpy(sqe.data, &x, 8);
    memcpy(sqe.data + 8, &y, sqe.inline_len - 8);
    cqe = rig_do(r, &sqe, UNETMM_ST_OK);
    return le64_to_cpu(cqe.old);
}

static void test_atomics(void *obj, void *data, QGuestAllocator *alloc)
{
    uint64_t old, want;
    Rig r;

    rig_up(&r, obj);
    qtest_memread(r.qts, r.theirs.addr + OFFSET + 28, &old, 8);
    old = le64_to_cpu(old);
    g_assert_cmpuint(rig_atomic(&r, UNETMM_OP_FETCH_ADD, 5, 0), ==, old);
    g_assert_cmpuint(rig_atomic(&r, UNETMM_OP_CMP_SWAP, old, 9), ==, old + 5);
    g_assert_cmpuint(rig_atomic(&r, UNETMM_OP_CMP_SWAP, old + 5, 9), ==,
                     old + 5);
    want = cpu_to_le64(9);
    qunetmm_buf_expect(&r.theirs, OFFSET + 28, &want, 8);
    rig_down(&r);
}

static void test_refused(void *obj, void *data, QGuestAllocator *alloc)
{
    struct unetmm_cmd clear = { .opcode = UNETMM_CMD_REGION_CLEAR,
                                .region.region = REGION };
    struct unetmm_sqe sqe = rig_sqe(UNETMM_OP_WRITE, 0, 3000, 0);
    Rig r;

    rig_up(&r, obj);
    sqe.remote = LENGTH - 2999;
    rig_do(&r, &sqe, UNETMM_ST_BAD_IMPORT);
    g_assert_cmpuint(qunetmm_cmd(r.c, &clear, NULL), ==, UNETMM_CS_OK);
    sqe.remote = 0;
    rig_do(&r, &sqe, UNETMM_ST_REVOKED);
    g_assert_cmpuint(rig_export(&r, REGION, QUNETMM_VA + OFFSET,
                                UNETMM_RIGHT_READ), ==, UNETMM_CS_OK);
    rig_do(&r, &sqe, UNETMM_ST_REMOTE_RIGHT);
    /* The table has it, the bus has not; for each operation. */
    g_assert_cmpuint(qunetmm_cmd(r.c, &clear, NULL), ==, UNETMM_CS_OK);
    g_assert_cmpuint(rig_export(&r, REGION, QUNETMM_VA + 4 * QUNETMM_PAGE,
                                UNETMM_RIGHT_ALL), ==, UNETMM_CS_OK);
    for (uint8_t op = UNETMM_OP_WRITE; op <= UNETMM_OP_FETCH_ADD; op++) {
        sqe = rig_sqe(op, 0, 8, 0);
        if (op == UNETMM_OP_FETCH_ADD) {
            sqe.nsegs = 0;
            sqe.flags = UNETMM_SQE_F_INLINE;
            sqe.inline_len = 8;
            memset(sqe.data, 0, sizeof(sqe.data));
        }
        rig_do(&r, &sqe, UNETMM_ST_REMOTE_MEMORY);
    }
    rig_down(&r);
}

static void unetmm_register_ops_tests(void)
{
    qos_add_test("write-read", "unetmm", test_write_read, NULL);
    qos_add_test("atomics", "unetmm", test_atomics, NULL);
    qos_add_test("one-sided-refused", "unetmm", test_refused, NULL);
}

libqos_init(unetmm_register_ops_tests);
