/*
 * unetmm qtests: one-sided operations, windows and proxy pages on a reliable
 * channel of the card itself
 *
 * The core's unit tests know the protocol; here is QEMU's part: guest memory,
 * and an atomic on it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qemu/module.h"
#include "hw/pci/pci_regs.h"
#include "unetmm-lib.h"
#include "hw/net/unetmm/abi/unetmm_le.h"

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
    QUnetmmEp a, b;                     /* a uses exports of b */
    QUnetmmBuf mine, theirs;
} Rig;

static void rig_channel(Rig *r, uint16_t ep, uint32_t recv_credits,
                        uint32_t send_credits)
{
    struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_CHANNEL_SET, .ep = ep,
        .channel = { .channel = CHANNEL, .peer_ep = 3 - ep,
                     .peer_channel = CHANNEL, .mtu = 1500,
                     .type = UNETMM_CHANNEL_RELIABLE,
                     .recv_credits = recv_credits,
                     .send_credits = send_credits },
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

/* The region and its import, when both endpoints have their channel. */
static void rig_import(Rig *r)
{
    struct unetmm_cmd import = {
        .opcode = UNETMM_CMD_IMPORT_SET, .ep = 1,
        .import = { .import = IMPORT, .region = REGION, .key = KEY,
                    .channel = CHANNEL, .rights = UNETMM_RIGHT_ALL,
                    .length = LENGTH },
    };

    g_assert_cmpuint(rig_export(r, REGION, QUNETMM_VA + OFFSET,
                                UNETMM_RIGHT_ALL), ==, UNETMM_CS_OK);
    g_assert_cmpuint(qunetmm_cmd(r->c, &import, NULL), ==, UNETMM_CS_OK);
}

static void rig_up(Rig *r, QUnetmm *c)
{
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
    rig_channel(r, 1, 0, 0);
    rig_channel(r, 2, 0, 0);
    rig_import(r);
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

/* ---- Windows ------------------------------------------------------------ */

#define WINDOW      1                   /* page of BAR 4 */
#define WINDOW_AT   800                 /* of the region */
#define WINDOW_NS   1000000

static QPCIBar windows_up(Rig *r, QUnetmm *c)
{
    rig_up(r, c);
    return qpci_iomap(&c->dev, UNETMM_BAR_WINDOWS, NULL);
}

static uint8_t window_cmd(Rig *r, uint8_t opcode, uint16_t combine)
{
    struct unetmm_cmd cmd = {
        .opcode = opcode, .ep = 1,
        .window = { .page = WINDOW, .npages = 1, .offset = WINDOW_AT,
                    .import = IMPORT, .combine_bytes = combine,
                    .combine_ns = combine ? WINDOW_NS : 0 },
    };

    return qunetmm_cmd(r->c, &cmd, NULL);
}

static void window_set(Rig *r, uint16_t combine)
{
    g_assert_cmpuint(window_cmd(r, UNETMM_CMD_WINDOW_SET, combine), ==,
                     UNETMM_CS_OK);
}

static void window_clear(Rig *r)
{
    g_assert_cmpuint(window_cmd(r, UNETMM_CMD_WINDOW_CLEAR, 0), ==,
                     UNETMM_CS_OK);
}

static void rig_fence(Rig *r)
{
    struct unetmm_sqe sqe = { .opcode = UNETMM_OP_FENCE, .channel = CHANNEL,
                              .cookie = 7 };
    struct unetmm_cqe cqe;
    unsigned tries = 0;

    qunetmm_put_sqe(&r->a, &sqe);
    qunetmm_doorbell(r->c, 1);
    while (!qunetmm_cqe(&r->a, &cqe)) {
        g_assert_cmpuint(++tries, <, 10000);
        qtest_clock_step(r->qts, 1);
    }
    g_assert_cmpuint(cqe.opcode, ==, UNETMM_CQE_SENT);
    g_assert_cmpuint(cqe.status, ==, UNETMM_ST_OK);
    g_assert_cmpuint(cqe.cookie, ==, 7);
}

/* Plain stores, which the processor may split as it does for any memory. */
static void store(Rig *r, QPCIBar bar, uint32_t at, const void *data,
                  size_t bytes)
{
    qtest_memwrite(r->qts, bar.addr + WINDOW * QUNETMM_PAGE + at, data, bytes);
}

static void expect_stored(Rig *r, uint32_t at, const void *data, size_t bytes)
{
    qunetmm_buf_expect(&r->theirs, OFFSET + WINDOW_AT + at, data, bytes);
    qunetmm_buf_check(&r->theirs);
}

static uint64_t window_count(Rig *r, enum unetmm_counter counter)
{
    return qunetmm_counter(r->c, counter);
}

/* Each size, aligned or not, to the last byte; loads give it back. */
static void test_stores(void *obj, void *data, QGuestAllocator *alloc)
{
    static const uint32_t places[] = { 0, 64, 129, 203, 4088 };
    static const uint8_t zero[64];
    uint8_t bytes[8], got[64];
    Rig r;
    QPCIBar bar = windows_up(&r, obj);

    window_set(&r, 0);
    qtest_memread(r.qts, bar.addr + WINDOW * QUNETMM_PAGE, got, sizeof(got));
    g_assert_cmpmem(got, sizeof(got), zero, sizeof(zero));
    for (unsigned size = 1; size <= 8; size *= 2) {
        for (unsigned i = 0; i < G_N_ELEMENTS(places); i++) {
            qunetmm_pattern(bytes, size, 10 * size + i);
            store(&r, bar, places[i], bytes, size);
            rig_fence(&r);
            expect_stored(&r, places[i], bytes, size);
            qtest_memread(r.qts, bar.addr + WINDOW * QUNETMM_PAGE + places[i],
                          got, size);
            g_assert_cmpmem(got, size, bytes, size);
        }
    }
    g_assert_cmpuint(window_count(&r, UNETMM_C_drop_window), ==, 0);
    rig_down(&r);
}

static void test_combining(void *obj, void *data, QGuestAllocator *alloc)
{
    uint8_t bytes[64];
    Rig r;
    QPCIBar bar = windows_up(&r, obj);

    qunetmm_pattern(bytes, sizeof(bytes), 21);
    g_assert_cmpuint(window_cmd(&r, UNETMM_CMD_WINDOW_SET,
                                UNETMM_MAX_INLINE + 1), ==,
                     UNETMM_CS_BAD_ARG);
    window_set(&r, 16);
    g_assert_cmpuint(window_cmd(&r, UNETMM_CMD_WINDOW_SET, 16), ==,
                     UNETMM_CS_EXISTS);
    for (unsigned i = 0; i < 3; i++) {
        store(&r, bar, 4 * i, bytes + 4 * i, 4);
        g_assert_cmpuint(window_count(&r, UNETMM_C_window_packets), ==, 0);
    }
    qunetmm_buf_check(&r.theirs);
    /* Full. */
    store(&r, bar, 12, bytes + 12, 4);
    g_assert_cmpuint(window_count(&r, UNETMM_C_window_packets), ==, 1);
    rig_fence(&r);
    expect_stored(&r, 0, bytes, 16);
    /* The fence completes a packet that is begun; time does the same. */
    store(&r, bar, 100, bytes, 8);
    g_assert_cmpuint(window_count(&r, UNETMM_C_window_packets), ==, 1);
    rig_fence(&r);
    expect_stored(&r, 100, bytes, 8);
    store(&r, bar, 200, bytes, 8);
    qtest_clock_step(r.qts, WINDOW_NS);
    g_assert_cmpuint(window_count(&r, UNETMM_C_window_packets), ==, 3);
    rig_fence(&r);
    expect_stored(&r, 200, bytes, 8);
    rig_down(&r);
}

/* Where there is no window, or none any more, a store goes nowhere. */
static void test_unmapped(void *obj, void *data, QGuestAllocator *alloc)
{
    uint8_t bytes[8], got[8];
    Rig r;
    QPCIBar bar = windows_up(&r, obj);

    qunetmm_pattern(bytes, sizeof(bytes), 31);
    store(&r, bar, 0, bytes, 8);
    g_assert_cmpuint(window_count(&r, UNETMM_C_drop_window), ==, 1);
    window_set(&r, 0);
    store(&r, bar, QUNETMM_PAGE, bytes, 8);
    g_assert_cmpuint(window_count(&r, UNETMM_C_drop_window), ==, 2);
    window_clear(&r);
    store(&r, bar, 0, bytes, 8);
    g_assert_cmpuint(window_count(&r, UNETMM_C_drop_window), ==, 3);
    rig_fence(&r);
    qunetmm_buf_check(&r.theirs);
    qtest_memread(r.qts, bar.addr + WINDOW * QUNETMM_PAGE, got, 8);
    g_assert_cmpmem(got, 8, bytes, 8);
    /* The next one does not see it. */
    window_set(&r, 0);
    qtest_memread(r.qts, bar.addr + WINDOW * QUNETMM_PAGE, got, 8);
    g_assert_cmpuint(ldq_le_p(got), ==, 0);
    rig_down(&r);
}

static void bars_again(Rig *r, QPCIBar bar)
{
    uint8_t at = PCI_BASE_ADDRESS_0 + 4 * UNETMM_BAR_WINDOWS;

    qpci_config_writel(&r->c->dev, at, bar.addr);
    qpci_config_writel(&r->c->dev, at + 4, (uint64_t)bar.addr >> 32);
    qunetmm_enable(r->c);
}

/* A reset, with stores that are being combined: they are gone. */
static void test_reset(void *obj, void *data, QGuestAllocator *alloc)
{
    uint64_t before;
    uint8_t bytes[8];
    Rig r;
    QPCIBar bar = windows_up(&r, obj);

    qunetmm_pattern(bytes, sizeof(bytes), 41);
    window_set(&r, 64);
    store(&r, bar, 0, bytes, 8);
    qunetmm_flr(r.c);
    bars_again(&r, bar);
    qtest_clock_step(r.qts, 10 * WINDOW_NS);
    g_assert_cmpuint(window_count(&r, UNETMM_C_window_packets), ==, 0);
    before = window_count(&r, UNETMM_C_drop_window);
    store(&r, bar, 8, bytes, 8);
    g_assert_cmpuint(window_count(&r, UNETMM_C_drop_window), ==, before + 1);
    rig_down(&r);
}

/* ---- Proxy pages -------------------------------------------------------- */

static void proxy_cmd(Rig *r, uint8_t opcode, uint32_t page, uint8_t kind,
                      uint64_t at, uint8_t status)
{
    struct unetmm_cmd cmd = {
        .opcode = opcode, .ep = 1,
        .proxy = { .page = page, .npages = 1, .at = at, .kind = kind,
                   .import = kind == UNETMM_PROXY_TO ? IMPORT : 0 },
    };

    g_assert_cmpuint(qunetmm_cmd(r->c, &cmd, NULL), ==, status);
}

static uint64_t proxy_at(uint32_t page, uint32_t at)
{
    return page * QUNETMM_PAGE + at;
}

static uint32_t start(Rig *r, uint32_t to, uint32_t from, uint32_t len)
{
    qpci_io_writel(&r->c->dev, r->c->proxies, proxy_at(0, to), len);
    return qpci_io_readl(&r->c->dev, r->c->proxies, proxy_at(1, from));
}

static void test_starts(void *obj, void *data, QGuestAllocator *alloc)
{
    Rig r;
    const uint8_t *mine;

    rig_up(&r, obj);
    mine = r.mine.model + UNETMM_PAGE_BYTES;
    proxy_cmd(&r, UNETMM_CMD_PROXY_SET, 0, UNETMM_PROXY_TO, 0, UNETMM_CS_OK);
    proxy_cmd(&r, UNETMM_CMD_PROXY_SET, 1, UNETMM_PROXY_FROM, QUNETMM_VA,
              UNETMM_CS_OK);
    proxy_cmd(&r, UNETMM_CMD_PROXY_SET, 1, UNETMM_PROXY_FROM, QUNETMM_VA,
              UNETMM_CS_EXISTS);
    proxy_cmd(&r, UNETMM_CMD_PROXY_SET, 2, UNETMM_PROXY_FROM, 1,
              UNETMM_CS_BAD_ARG);
    g_assert_cmpuint(start(&r, 40, 60, 200), ==, UNETMM_START_DONE);
    rig_fence(&r);
    qunetmm_buf_expect(&r.theirs, OFFSET + 40, mine + 60, 200);
    qunetmm_buf_check(&r.theirs);
    /* Sizes that are none, or cross a page here or there. */
    g_assert_cmpuint(start(&r, 0, 0, 0), ==, UNETMM_START_REFUSED);
    g_assert_cmpuint(start(&r, 0, 0, 4097), ==, UNETMM_START_REFUSED);
    g_assert_cmpuint(start(&r, 4000, 0, 97), ==, UNETMM_START_REFUSED);
    g_assert_cmpuint(start(&r, 0, 4000, 97), ==, UNETMM_START_REFUSED);
    g_assert_cmpuint(start(&r, 0, 0, 0x80000001), ==, UNETMM_START_REFUSED);
    rig_fence(&r);
    rig_down(&r);
}

/* Whatever comes between the two references: there is no transfer. */
static void test_splits(void *obj, void *data, QGuestAllocator *alloc)
{
    QPCIDevice *dev;
    QPCIBar bar;
    Rig r;

    rig_up(&r, obj);
    dev = &r.c->dev;
    bar = r.c->proxies;
    proxy_cmd(&r, UNETMM_CMD_PROXY_SET, 0, UNETMM_PROXY_TO, 0, UNETMM_CS_OK);
    proxy_cmd(&r, UNETMM_CMD_PROXY_SET, 1, UNETMM_PROXY_FROM, QUNETMM_VA,
              UNETMM_CS_OK);
    g_assert_cmpuint(qpci_io_readl(dev, bar, proxy_at(1, 0)), ==,
                     UNETMM_START_SPLIT);
    qpci_io_writel(dev, bar, proxy_at(0, 0), 8);
    qunetmm_write(r.c, UNETMM_REG_PROXY_ABORT, 0);
    g_assert_cmpuint(qpci_io_readl(dev, bar, proxy_at(1, 0)), ==,
                     UNETMM_START_SPLIT);
    qpci_io_writel(dev, bar, proxy_at(0, 0), 8);
    g_assert_cmpuint(qpci_io_readl(dev, bar, proxy_at(3, 0)), ==,
                     UNETMM_START_SPLIT);
    g_assert_cmpuint(qpci_io_readl(dev, bar, proxy_at(1, 0)), ==,
                     UNETMM_START_SPLIT);
    proxy_cmd(&r, UNETMM_CMD_PROXY_CLEAR, 1, UNETMM_PROXY_FROM, 0,
              UNETMM_CS_OK);
    g_assert_cmpuint(start(&r, 0, 0, 8), ==, UNETMM_START_SPLIT);
    g_assert_cmpuint(qunetmm_counter(r.c, UNETMM_C_proxy_starts), ==, 0);
    g_assert_cmpuint(qunetmm_counter(r.c, UNETMM_C_proxy_splits), ==, 5);
    /* All of the pages, whatever is behind them, at any width. */
    for (unsigned i = 0; i < 8; i++) {
        qpci_io_writeb(dev, bar, proxy_at(i, 4095), 1);
        qpci_io_writeq(dev, bar, proxy_at(i, 8), UINT64_MAX);
        qpci_io_readw(dev, bar, proxy_at(i, 2));
        qpci_io_readq(dev, bar, proxy_at(i, 16));
    }
    rig_fence(&r);
    rig_down(&r);
}

/* ---- The system buffer -------------------------------------------------- */

#define SLOTS       2

/* b has source shadow, policy redirect, and nothing that is resident. */
static void redirect_up(Rig *r, QUnetmm *c, uint64_t *slots)
{
    struct unetmm_cmd set = {
        .opcode = UNETMM_CMD_SYSBUF_SET,
        .sysbuf = { .slots = SLOTS, .slot_bytes = 3 * UNETMM_PAGE_BYTES },
    };
    uint64_t table[2], list;

    r->c = c;
    r->qts = c->dev.bus->qts;
    qunetmm_start(c, 5);
    list = qunetmm_alloc(c, UNETMM_PAGE_BYTES);
    for (unsigned i = 0; i < SLOTS; i++) {
        slots[i] = qunetmm_alloc(c, 3 * UNETMM_PAGE_BYTES);
        qtest_writeq(r->qts, list + 8 * i, slots[i]);
    }
    set.sysbuf.list = list;
    g_assert_cmpuint(qunetmm_cmd(c, &set, NULL), ==, UNETMM_CS_OK);
    table[0] = qunetmm_space_pinned(c, 1);
    table[1] = qunetmm_alloc(c, UNETMM_PAGE_BYTES);
    qtest_memset(r->qts, table[1], 0, UNETMM_PAGE_BYTES);
    qunetmm_space(c, 2, UNETMM_SOURCE_SHADOW, 1, table[1]);
    qunetmm_ep(&r->a, c, 1, 1, 4, UNETMM_POLICY_SKIP);
    qunetmm_ep(&r->b, c, 2, 2, 4, UNETMM_POLICY_REDIRECT);
    qunetmm_buf(&r->mine, c, 2, 7);
    qunetmm_buf(&r->theirs, c, 2, 8);
    qunetmm_pin(c, table[0], QUNETMM_VA, r->mine.addr, QUNETMM_RW, 2);
    rig_channel(r, 1, 0, SLOTS);
    rig_channel(r, 2, SLOTS, 0);
    rig_import(r);
}

/* A packet for an absent page goes to a slot, then is copied and told. */
static void test_redirect(void *obj, void *data, QGuestAllocator *alloc)
{
    struct unetmm_cmd done = { .opcode = UNETMM_CMD_SYSBUF_DONE };
    uint8_t bytes[600], mine[600];
    uint64_t slots[SLOTS];
    struct unetmm_fault fault;
    struct unetmm_slot head;
    struct unetmm_sqe sqe;
    Rig r;

    redirect_up(&r, obj, slots);
    qtest_memread(r.qts, r.mine.addr + 10, mine, sizeof(mine));
    sqe = rig_sqe(UNETMM_OP_WRITE, 10, sizeof(mine), 3700);
    sqe.flags = UNETMM_SQE_F_NOTIFY;
    unetmm_le_seg(&sqe.seg[0]);
    qunetmm_put_sqe(&r.a, &sqe);
    qunetmm_doorbell(r.c, 1);
    qunetmm_wait_counter(r.c, UNETMM_C_sysbuf_packets, 1);
    g_assert_true(qunetmm_fault(r.c, &fault));
    g_assert_cmpuint(fault.type, ==, UNETMM_FAULT_SLOT);
    g_assert_cmpuint(fault.ep, ==, 2);
    g_assert_cmpuint(fault.fault_id, <, SLOTS);
    qunetmm_expect_miss(r.c, QUNETMM_VA, 2, UNETMM_FAULT_F_WRITE);
    qtest_memread(r.qts, slots[fault.fault_id], &head, sizeof(head));
    unetmm_le_slot(&head);
    g_assert_cmpuint(head.npieces, ==, 1);
    g_assert_cmpuint(head.len, ==, sizeof(mine));
    g_assert_cmphex(head.piece[0].addr, ==, QUNETMM_VA + OFFSET + 3700);
    qtest_memread(r.qts, slots[fault.fault_id] + UNETMM_SLOT_HEAD, bytes,
                  sizeof(bytes));
    g_assert_cmpmem(bytes, sizeof(bytes), mine, sizeof(mine));
    qunetmm_expect_none(&r.a);
    qunetmm_expect_none(&r.b);
    done.slot.slot = fault.fault_id;
    g_assert_cmpuint(qunetmm_cmd(r.c, &done, NULL), ==, UNETMM_CS_OK);
    qunetmm_wait_counter(r.c, UNETMM_C_sends_done, 1);
    qunetmm_expect(&r.a, UNETMM_CQE_SENT, UNETMM_ST_OK, sqe.cookie);
    qunetmm_expect(&r.b, UNETMM_CQE_NOTIFY, UNETMM_ST_OK, 99);
    /* The card itself has not touched the absent page. */
    rig_down(&r);
}

static void unetmm_register_ops_tests(void)
{
    qos_add_test("write-read", "unetmm", test_write_read, NULL);
    qos_add_test("atomics", "unetmm", test_atomics, NULL);
    qos_add_test("one-sided-refused", "unetmm", test_refused, NULL);
    qos_add_test("window-stores", "unetmm", test_stores, NULL);
    qos_add_test("window-combining", "unetmm", test_combining, NULL);
    qos_add_test("window-unmapped", "unetmm", test_unmapped, NULL);
    qos_add_test("window-reset", "unetmm", test_reset, NULL);
    qos_add_test("proxy-starts", "unetmm", test_starts, NULL);
    qos_add_test("proxy-splits", "unetmm", test_splits, NULL);
    qos_add_test("redirect", "unetmm", test_redirect, NULL);
}

libqos_init(unetmm_register_ops_tests);
