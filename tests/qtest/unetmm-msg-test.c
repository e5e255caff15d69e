/*
 * unetmm qtests: endpoints and messages, delivered on the same card
 *
 * Two endpoints in spaces of source `pinned`.  Consecutive virtual pages lie
 * in descending order in memory, so that no test passes by accident when an
 * address is not translated page by page.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/module.h"
#include "unetmm-lib.h"

#define PAGES       4
#define RIG_BYTES   (PAGES * UNETMM_PAGE_BYTES)
#define TX_CHANNEL  3
#define RX_CHANNEL  5
#define HOLE        (1ull << 40)        /* no memory there */

typedef struct Rig {
    QUnetmm *c;
    QTestState *qts;
    QUnetmmEp tx, rx;
    QUnetmmBuf src, dst;
    uint64_t tx_table, rx_table;
    uint8_t data[RIG_BYTES];            /* contents of src, by address */
} Rig;

static void rig_pin(Rig *r, uint64_t table, const QUnetmmBuf *buf)
{
    for (unsigned i = 0; i < PAGES; i++) {
        qunetmm_pin(r->c, table, QUNETMM_VA + i * QUNETMM_PAGE,
                    buf->addr + (PAGES - 1 - i) * QUNETMM_PAGE, QUNETMM_RW, 1);
    }
}

/* From an offset in virtual addresses to one in the buffer. */
static size_t rig_at(size_t offset)
{
    return (PAGES - 1 - offset / UNETMM_PAGE_BYTES) * UNETMM_PAGE_BYTES +
           offset % UNETMM_PAGE_BYTES;
}

static void rig_up(Rig *r, QUnetmm *c, uint32_t log2)
{
    r->c = c;
    r->qts = c->dev.bus->qts;
    qunetmm_start(c, 5);
    r->tx_table = qunetmm_space_pinned(c, 1);
    r->rx_table = qunetmm_space_pinned(c, 2);
    qunetmm_ep(&r->tx, c, 1, 1, log2, UNETMM_POLICY_SKIP);
    qunetmm_ep(&r->rx, c, 2, 2, log2, UNETMM_POLICY_SKIP);
    qunetmm_channel(&r->tx, TX_CHANNEL, c->mac, 2, RX_CHANNEL, RIG_BYTES);
    qunetmm_channel(&r->rx, RX_CHANNEL, c->mac, 1, TX_CHANNEL, RIG_BYTES);
    qunetmm_buf(&r->src, c, PAGES, 7);
    qunetmm_buf(&r->dst, c, PAGES, 8);
    rig_pin(r, r->tx_table, &r->src);
    rig_pin(r, r->rx_table, &r->dst);
    qunetmm_pattern(r->data, RIG_BYTES, 9);
    for (unsigned i = 0; i < RIG_BYTES; i += UNETMM_PAGE_BYTES) {
        qtest_bufwrite(r->qts, r->src.addr + rig_at(i), r->data + i,
                       UNETMM_PAGE_BYTES);
        qunetmm_buf_expect(&r->src, rig_at(i), r->data + i,
                           UNETMM_PAGE_BYTES);
    }
}

static void rig_down(Rig *r)
{
    qunetmm_buf_check(&r->src);
    qunetmm_buf_check(&r->dst);
    qunetmm_buf_free(&r->src);
    qunetmm_buf_free(&r->dst);
}

/* The model of dst: data now lies at this virtual offset. */
static void rig_landed(Rig *r, size_t offset, const uint8_t *data, size_t n)
{
    while (n) {
        size_t part = MIN(n, UNETMM_PAGE_BYTES - offset % UNETMM_PAGE_BYTES);

        qunetmm_buf_expect(&r->dst, rig_at(offset), data, part);
        offset += part;
        data += part;
        n -= part;
    }
}

static void expect_sent(Rig *r, uint8_t status, uint64_t cookie)
{
    qunetmm_expect(&r->tx, UNETMM_CQE_SENT, status, cookie);
}

static void expect_received(Rig *r, uint64_t cookie, uint32_t len)
{
    struct unetmm_cqe cqe = qunetmm_expect(&r->rx, UNETMM_CQE_RECEIVED,
                                           UNETMM_ST_OK, cookie);

    g_assert_cmpuint(cqe.len, ==, len);
    g_assert_cmpuint(cqe.channel, ==, RX_CHANNEL);
}

/* ---- Messages that arrive ----------------------------------------------- */

static void test_inline(void *obj, void *data, QGuestAllocator *alloc)
{
    static const uint8_t lens[] = { 0, 1, 31, 32, 33, 39, UNETMM_CQE_INLINE };
    Rig r;

    rig_up(&r, obj, 3);
    qunetmm_post(&r.rx, 77, QUNETMM_VA, RIG_BYTES);
    for (unsigned i = 0; i < G_N_ELEMENTS(lens); i++) {
        struct unetmm_cqe cqe;

        qunetmm_send_inline(&r.tx, TX_CHANNEL, 100 + i, r.data + i, lens[i]);
        expect_sent(&r, UNETMM_ST_OK, 100 + i);
        g_assert_true(qunetmm_cqe(&r.rx, &cqe));
        g_assert_cmpuint(cqe.opcode, ==, UNETMM_CQE_RECEIVED);
        g_assert_true(cqe.flags & UNETMM_CQE_F_INLINE);
        g_assert_cmpmem(cqe.data, cqe.len, r.data + i, lens[i]);
    }
    g_assert_cmpuint(qunetmm_ep_counter(r.c, 2, UNETMM_C_rx_inline), ==,
                     G_N_ELEMENTS(lens));
    g_assert_cmpuint(qunetmm_ep_card(&r.rx).fq_cons, ==, 0);
    /* One byte more needs the buffer. */
    qunetmm_send_inline(&r.tx, TX_CHANNEL, 1, r.data, UNETMM_CQE_INLINE + 1);
    expect_sent(&r, UNETMM_ST_OK, 1);
    expect_received(&r, 77, UNETMM_CQE_INLINE + 1);
    rig_landed(&r, 0, r.data, UNETMM_CQE_INLINE + 1);
    rig_down(&r);
}

static void test_lengths(void *obj, void *data, QGuestAllocator *alloc)
{
    static const struct {
        uint32_t from, to, len;
    } cases[] = {
        { 0, 0, 41 }, { 4095, 1, 64 }, { 1, 4090, UNETMM_PAGE_BYTES },
        { 0, 0, RIG_BYTES }, { 4000, 13, 3 * UNETMM_PAGE_BYTES },
        { 8191, 4095, 2 },
    };
    Rig r;

    rig_up(&r, obj, 3);
    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        uint32_t len = cases[i].len;
        bool small = len <= UNETMM_CQE_INLINE;

        qunetmm_post(&r.rx, 50 + i, QUNETMM_VA + cases[i].to,
                     RIG_BYTES - cases[i].to);
        qunetmm_send(&r.tx, TX_CHANNEL, i, QUNETMM_VA + cases[i].from, len);
        expect_sent(&r, UNETMM_ST_OK, i);
        expect_received(&r, small ? 0 : 50 + i, len);
        if (!small) {
            rig_landed(&r, cases[i].to, r.data + cases[i].from, len);
        }
        qunetmm_buf_check(&r.dst);
    }
    g_assert_cmpuint(qunetmm_counter(r.c, UNETMM_C_local_frames), ==,
                     G_N_ELEMENTS(cases));
    rig_down(&r);
}

/* As many segments as there may be, some of them empty, out of order. */
static void test_segments(void *obj, void *data, QGuestAllocator *alloc)
{
    struct unetmm_seg segs[UNETMM_MAX_SEGS];
    uint8_t message[RIG_BYTES];
    Rig r;

    rig_up(&r, obj, 3);
    for (unsigned n = 0; n <= UNETMM_MAX_SEGS; n++) {
        uint32_t len = 0;

        for (unsigned i = 0; i < n; i++) {
            uint32_t from = (i * 5003) % (RIG_BYTES - 1000);
            uint32_t part = i % 3 == 2 ? 0 : 50 + 37 * i;

            segs[i] = (struct unetmm_seg) { .addr = QUNETMM_VA + from,
                                            .len = part };
            memcpy(message + len, r.data + from, part);
            len += part;
        }
        qunetmm_post(&r.rx, n, QUNETMM_VA + n, RIG_BYTES - n);
        qunetmm_put_segs(&r.tx, TX_CHANNEL, n, segs, n);
        qunetmm_doorbell(r.c, 1);
        expect_sent(&r, UNETMM_ST_OK, n);
        /* The empty message leaves buffer 0 for the next, and so on. */
        expect_received(&r, n ? n - 1 : 0, len);
        if (n) {
            rig_landed(&r, n - 1, message, len);
        }
        qunetmm_buf_check(&r.dst);
    }
    rig_down(&r);
}

/* Small queues, descriptors of every length, many times around. */
static void test_wrap(void *obj, void *data, QGuestAllocator *alloc)
{
    static const uint8_t lens[] = { 0, 32, 33, 96, 97, 160, 161, 224 };
    Rig r;

    rig_up(&r, obj, 3);
    for (unsigned i = 0; i < 200; i++) {
        uint8_t len = lens[i % G_N_ELEMENTS(lens)];
        bool small = len <= UNETMM_CQE_INLINE;

        if (!small) {
            qunetmm_post(&r.rx, 1000 + i, QUNETMM_VA + i, 2 * len);
        }
        qunetmm_send_inline(&r.tx, TX_CHANNEL, i, r.data + i, len);
        expect_sent(&r, UNETMM_ST_OK, i);
        expect_received(&r, small ? 0 : 1000 + i, len);
        if (!small) {
            rig_landed(&r, i, r.data + i, len);
            qunetmm_buf_check(&r.dst);  /* before the next lies over it */
        }
        g_assert_cmpuint(qunetmm_ep_card(&r.tx).sq_cons, ==, r.tx.sq_prod);
        g_assert_cmpuint(qunetmm_ep_card(&r.tx).cq_prod, ==, i + 1);
    }
    g_assert_cmpuint(r.tx.sq_prod, >, 8 * 20);
    rig_down(&r);
}

/* More than one budget: the rest runs later, in order. */
static void test_budget(void *obj, void *data, QGuestAllocator *alloc)
{
    Rig r;

    rig_up(&r, obj, 9);
    for (unsigned i = 0; i < 300; i++) {
        qunetmm_put_inline(&r.tx, TX_CHANNEL, i, &i, sizeof(i), 0);
    }
    qunetmm_doorbell(r.c, 1);
    qunetmm_wait_counter(r.c, UNETMM_C_rx_inline, 300);
    g_assert_cmpuint(qunetmm_counter(r.c, UNETMM_C_budget_stops), >=, 4);
    for (unsigned i = 0; i < 300; i++) {
        struct unetmm_cqe cqe;

        expect_sent(&r, UNETMM_ST_OK, i);
        g_assert_true(qunetmm_cqe(&r.rx, &cqe));
        g_assert_cmpmem(cqe.data, cqe.len, &i, sizeof(i));
    }
    rig_down(&r);
}

/* A table of all levels reaches the ends of the address space. */
static void test_six_levels(void *obj, void *data, QGuestAllocator *alloc)
{
    QUnetmm *c = obj;
    QTestState *qts = c->dev.bus->qts;
    uint64_t root, table;
    Rig r;

    rig_up(&r, c, 3);
    root = table = qunetmm_alloc(c, UNETMM_PAGE_BYTES);
    for (int level = UNETMM_TABLE_LEVELS - 1; level > 0; level--) {
        uint64_t next = qunetmm_alloc(c, UNETMM_PAGE_BYTES);
        unsigned index = level == UNETMM_TABLE_LEVELS - 1 ? 127 : 511;

        qtest_writeq(qts, table + index * 8, next | UNETMM_PTE_VALID);
        table = next;
    }
    qtest_writeq(qts, table + 511 * 8, r.src.addr | QUNETMM_RW);
    qunetmm_space(c, 3, UNETMM_SOURCE_PINNED, UNETMM_TABLE_LEVELS, root);
    g_assert_cmpuint(qunetmm_ep_destroy(c, 1), ==, UNETMM_CS_OK);
    qunetmm_ep(&r.tx, c, 1, 3, 3, UNETMM_POLICY_SKIP);
    qunetmm_channel(&r.tx, TX_CHANNEL, c->mac, 2, RX_CHANNEL, RIG_BYTES);
    qunetmm_post(&r.rx, 5, QUNETMM_VA, RIG_BYTES);
    qunetmm_send(&r.tx, TX_CHANNEL, 1, -100ull, 100);
    expect_sent(&r, UNETMM_ST_OK, 1);
    expect_received(&r, 5, 100);
    /* The first page of src holds the last of data. */
    rig_landed(&r, 0, r.data + RIG_BYTES - 100, 100);
    qunetmm_send(&r.tx, TX_CHANNEL, 2, -5000ull, 100);
    expect_sent(&r, UNETMM_ST_PROTECTION, 2);
    qunetmm_send(&r.tx, TX_CHANNEL, 3, -100ull, 101);   /* wraps */
    expect_sent(&r, UNETMM_ST_PROTECTION, 3);
    rig_down(&r);
}

/* ---- Descriptors that are refused --------------------------------------- */

static void check_sqe(Rig *r, struct unetmm_sqe sqe, uint8_t status)
{
    uint64_t errors = qunetmm_counter(r->c, UNETMM_C_err_descriptor);

    sqe.cookie = 0x1000 + r->tx.sq_prod;
    qunetmm_put_sqe(&r->tx, &sqe);
    qunetmm_doorbell(r->c, 1);
    expect_sent(r, status, sqe.cookie);
    qunetmm_expect_none(&r->tx);
    qunetmm_expect_none(&r->rx);
    g_assert_cmpuint(qunetmm_counter(r->c, UNETMM_C_err_descriptor), ==,
                     errors + 1);
    g_assert_cmpuint(qunetmm_counter(r->c, UNETMM_C_tx_frames), ==, 0);
}

static void test_bad_sqe(void *obj, void *data, QGuestAllocator *alloc)
{
    const struct unetmm_sqe good = {
        .opcode = UNETMM_OP_SEND, .nsegs = 1, .channel = TX_CHANNEL,
        .seg[0] = { .addr = QUNETMM_VA, .len = 8 },
    };
    struct unetmm_sqe bad;
    Rig r;

    rig_up(&r, obj, 3);
#define BAD(expected, member, value) \
    do { \
        bad = good; \
        bad.member = value; \
        check_sqe(&r, bad, expected); \
    } while (0)
    BAD(UNETMM_ST_BAD_DESC, opcode, 0);
    BAD(UNETMM_ST_BAD_DESC, opcode, UNETMM_OP_CMP_SWAP + 1);
    BAD(UNETMM_ST_BAD_DESC, opcode, UNETMM_OP_CONTROL);
    BAD(UNETMM_ST_BAD_DESC, flags, UNETMM_SQE_F_ALL + 1);
    BAD(UNETMM_ST_BAD_DESC, flags, 0xfc);
    BAD(UNETMM_ST_BAD_DESC, flags, UNETMM_SQE_F_INLINE);    /* with nsegs */
    BAD(UNETMM_ST_BAD_DESC, inline_len, 1);                 /* without */
    BAD(UNETMM_ST_BAD_DESC, nsegs, UNETMM_MAX_SEGS + 1);
    BAD(UNETMM_ST_BAD_DESC, nsegs, 0xff);
    BAD(UNETMM_ST_BAD_DESC, region, 1);
    BAD(UNETMM_ST_BAD_DESC, imm, 1);
    BAD(UNETMM_ST_BAD_DESC, handle, 1);
    BAD(UNETMM_ST_BAD_DESC, remote, 1);
    BAD(UNETMM_ST_BAD_DESC, seg[0].rsvd, 1);
    BAD(UNETMM_ST_BAD_CHANNEL, channel, TX_CHANNEL + 1);
    BAD(UNETMM_ST_BAD_CHANNEL, channel, 0xffff);
    BAD(UNETMM_ST_TOO_LONG, seg[0].len, RIG_BYTES + 1);
    BAD(UNETMM_ST_TOO_LONG, seg[0].len, UINT32_MAX);
    BAD(UNETMM_ST_PROTECTION, seg[0].addr, UINT64_MAX);     /* wraps */
#undef BAD
    bad = (struct unetmm_sqe) {
        .opcode = UNETMM_OP_SEND, .flags = UNETMM_SQE_F_INLINE,
        .inline_len = UNETMM_MAX_INLINE + 1, .channel = TX_CHANNEL,
    };
    check_sqe(&r, bad, UNETMM_ST_BAD_DESC);
    rig_down(&r);
}

/* A chain that ends at the producer index is an error, its slots are taken. */
static void test_cut_chain(void *obj, void *data, QGuestAllocator *alloc)
{
    struct unetmm_sqe sqe = {
        .opcode = UNETMM_OP_SEND, .channel = TX_CHANNEL, .cookie = 1,
        .nsegs = UNETMM_MAX_SEGS,
    };
    uint8_t slot[UNETMM_SLOT_BYTES];
    Rig r;

    rig_up(&r, obj, 3);
    memset(slot, 0xff, sizeof(slot));
    for (unsigned n = 1; n < UNETMM_MAX_SLOTS; n++) {
        qunetmm_put_sqe(&r.tx, &sqe);
        for (unsigned i = 1; i < n; i++) {
            qunetmm_put_slot(&r.tx, slot);
        }
        qunetmm_doorbell(r.c, 1);
        expect_sent(&r, UNETMM_ST_BAD_DESC, 1);
        g_assert_cmpuint(qunetmm_ep_card(&r.tx).sq_cons, ==, r.tx.sq_prod);
    }
    qunetmm_send_inline(&r.tx, TX_CHANNEL, 2, "x", 1);
    expect_sent(&r, UNETMM_ST_OK, 2);
    expect_received(&r, 0, 1);
    rig_down(&r);
}

static void check_fqe(Rig *r, struct unetmm_fqe fqe, uint8_t status)
{
    fqe.cookie = 0x2000 + r->rx.fq_prod;
    qunetmm_put_fqe(&r->rx, &fqe);
    qunetmm_doorbell(r->c, 2);
    qunetmm_expect(&r->rx, UNETMM_CQE_BUFFER, status, fqe.cookie);
    qunetmm_expect_none(&r->rx);
    g_assert_cmpuint(qunetmm_ep_card(&r->rx).fq_cons, ==, r->rx.fq_prod);
}

static void test_bad_fqe(void *obj, void *data, QGuestAllocator *alloc)
{
    const struct unetmm_fqe good = { .addr = QUNETMM_VA, .len = 64 };
    struct unetmm_fqe bad;
    Rig r;

    rig_up(&r, obj, 3);
#define BAD(expected, member, value) \
    do { \
        bad = good; \
        bad.member = value; \
        check_fqe(&r, bad, expected); \
    } while (0)
    BAD(UNETMM_ST_BAD_DESC, len, 0);
    BAD(UNETMM_ST_BAD_DESC, flags, 1);
    BAD(UNETMM_ST_BAD_DESC, rsvd, 1);
    BAD(UNETMM_ST_BAD_DESC, addr, UINT64_MAX - 62);         /* wraps */
    BAD(UNETMM_ST_TOO_LARGE, len, UINT32_MAX);
    BAD(UNETMM_ST_PROTECTION, addr, 0);
    BAD(UNETMM_ST_PROTECTION, len, RIG_BYTES + 1);
#undef BAD
    qunetmm_pin(r.c, r.rx_table, 0, r.dst.addr,
                UNETMM_PTE_VALID | UNETMM_PTE_READ, 1);
    bad = good;
    bad.addr = 0;
    check_fqe(&r, bad, UNETMM_ST_PROTECTION);
    g_assert_cmpuint(qunetmm_counter(r.c, UNETMM_C_bufs_failed), ==, 8);
    rig_down(&r);
}

/* ---- Messages that do not arrive ---------------------------------------- */

static void check_dropped(Rig *r, uint32_t len, enum unetmm_counter why)
{
    uint64_t dropped = qunetmm_counter(r->c, why);

    qunetmm_send(&r->tx, TX_CHANNEL, 1, QUNETMM_VA, len);
    expect_sent(r, UNETMM_ST_OK, 1);
    g_assert_cmpuint(qunetmm_counter(r->c, why), ==, dropped + 1);
}

static void test_drops(void *obj, void *data, QGuestAllocator *alloc)
{
    struct unetmm_cmd clear = {
        .opcode = UNETMM_CMD_CHANNEL_CLEAR, .ep = 2,
        .channel.channel = RX_CHANNEL,
    };
    Rig r;

    rig_up(&r, obj, 3);
    check_dropped(&r, 100, UNETMM_C_drop_no_buffer);
    qunetmm_post(&r.rx, 5, QUNETMM_VA, 99);
    check_dropped(&r, 100, UNETMM_C_drop_too_long);
    qunetmm_expect_none(&r.rx);
    /* The buffer is still there. */
    qunetmm_send(&r.tx, TX_CHANNEL, 1, QUNETMM_VA, 99);
    expect_sent(&r, UNETMM_ST_OK, 1);
    expect_received(&r, 5, 99);
    rig_landed(&r, 0, r.data, 99);
    /* Wrong peer endpoint, then no channel, then no endpoint. */
    qunetmm_channel(&r.rx, RX_CHANNEL, r.c->mac, 9, TX_CHANNEL, RIG_BYTES);
    check_dropped(&r, 8, UNETMM_C_drop_channel);
    qunetmm_channel(&r.rx, RX_CHANNEL, r.c->mac, 1, TX_CHANNEL, 256);
    check_dropped(&r, 257, UNETMM_C_drop_channel);
    g_assert_cmpuint(qunetmm_cmd(r.c, &clear, NULL), ==, UNETMM_CS_OK);
    check_dropped(&r, 8, UNETMM_C_drop_channel);
    g_assert_cmpuint(qunetmm_ep_destroy(r.c, 2), ==, UNETMM_CS_OK);
    check_dropped(&r, 8, UNETMM_C_drop_no_endpoint);
    qunetmm_doorbell(r.c, 2);
    g_assert_cmpuint(qunetmm_counter(r.c, UNETMM_C_err_doorbell), ==, 1);
    rig_down(&r);
}

/* No room in the receiver's completion queue: dropped, the sender goes on. */
static void test_cq_full(void *obj, void *data, QGuestAllocator *alloc)
{
    Rig r;

    rig_up(&r, obj, 2);
    for (unsigned i = 0; i < 4; i++) {
        qunetmm_send_inline(&r.tx, TX_CHANNEL, i, "x", 1);
        expect_sent(&r, UNETMM_ST_OK, i);
    }
    check_dropped(&r, 1, UNETMM_C_drop_cq_full);
    qunetmm_post(&r.rx, 9, QUNETMM_VA, 100);
    check_dropped(&r, 100, UNETMM_C_drop_cq_full);
    g_assert_cmphex(qunetmm_ep_card(&r.rx).state, ==,
                    UNETMM_EP_RUNNING | UNETMM_EP_CQ_BLOCKED);
    /* Taking one makes room for one, without a doorbell. */
    expect_received(&r, 0, 1);
    qunetmm_send(&r.tx, TX_CHANNEL, 1, QUNETMM_VA, 100);
    expect_sent(&r, UNETMM_ST_OK, 1);
    rig_landed(&r, 0, r.data, 100);
    for (unsigned i = 0; i < 3; i++) {
        expect_received(&r, 0, 1);
    }
    expect_received(&r, 9, 100);
    rig_down(&r);
}

/* A send waits for room in its completion queue; the doorbell resumes it. */
static void test_cq_blocked(void *obj, void *data, QGuestAllocator *alloc)
{
    Rig r;

    rig_up(&r, obj, 2);
    for (unsigned i = 0; i < 4; i++) {
        qunetmm_put_inline(&r.tx, TX_CHANNEL, i, "", 0, 0);
    }
    qunetmm_doorbell(r.c, 1);
    g_assert_cmphex(qunetmm_ep_card(&r.tx).state, ==,
                    UNETMM_EP_RUNNING | UNETMM_EP_CQ_BLOCKED);
    for (unsigned i = 4; i < 8; i++) {
        qunetmm_put_inline(&r.tx, TX_CHANNEL, i, "", 0, 0);
    }
    qunetmm_doorbell(r.c, 1);
    g_assert_cmpuint(qunetmm_ep_card(&r.tx).cq_prod, ==, 4);
    g_assert_cmpuint(qunetmm_counter(r.c, UNETMM_C_cq_waits), ==, 1);
    for (unsigned i = 0; i < 4; i++) {
        expect_sent(&r, UNETMM_ST_OK, i);
    }
    qunetmm_doorbell(r.c, 1);
    for (unsigned i = 4; i < 8; i++) {
        expect_sent(&r, UNETMM_ST_OK, i);
    }
    qunetmm_expect_none(&r.tx);
    rig_down(&r);
}

static void test_quiet(void *obj, void *data, QGuestAllocator *alloc)
{
    Rig r;

    rig_up(&r, obj, 3);
    qunetmm_put_inline(&r.tx, TX_CHANNEL, 1, "a", 1, UNETMM_SQE_F_QUIET);
    qunetmm_put_inline(&r.tx, TX_CHANNEL + 1, 2, "b", 1, UNETMM_SQE_F_QUIET);
    qunetmm_put_inline(&r.tx, TX_CHANNEL, 3, "c", 1, UNETMM_SQE_F_QUIET);
    qunetmm_put_inline(&r.tx, TX_CHANNEL, 4, "d", 1, 0);
    qunetmm_doorbell(r.c, 1);
    expect_sent(&r, UNETMM_ST_BAD_CHANNEL, 2);
    expect_sent(&r, UNETMM_ST_OK, 4);
    qunetmm_expect_none(&r.tx);
    g_assert_cmpuint(qunetmm_ep_card(&r.tx).sq_cons, ==, 4);
    g_assert_cmpuint(qunetmm_counter(r.c, UNETMM_C_sends_done), ==, 3);
    g_assert_cmpuint(qunetmm_counter(r.c, UNETMM_C_sends_failed), ==, 1);
    rig_down(&r);
}

/* ---- Memory that the bus refuses ---------------------------------------- */

static void test_refused_pages(void *obj, void *data, QGuestAllocator *alloc)
{
    Rig r;

    rig_up(&r, obj, 3);
    qunetmm_write(r.c, UNETMM_REG_TEST, 5);
    /* Translations that point into our own registers, and nowhere. */
    qunetmm_pin(r.c, r.tx_table, 0, r.c->regs.addr, QUNETMM_RW, 1);
    qunetmm_pin(r.c, r.tx_table, QUNETMM_PAGE, HOLE, QUNETMM_RW, 1);
    qunetmm_pin(r.c, r.rx_table, 0, r.c->regs.addr, QUNETMM_RW, 1);
    qunetmm_send(&r.tx, TX_CHANNEL, 1, UNETMM_REG_TEST, 4);
    expect_sent(&r, UNETMM_ST_DMA, 1);
    qunetmm_send(&r.tx, TX_CHANNEL, 2, QUNETMM_PAGE, 4);
    expect_sent(&r, UNETMM_ST_DMA, 2);
    qunetmm_post(&r.rx, 9, 0, UNETMM_PAGE_BYTES);
    check_dropped(&r, UNETMM_PAGE_BYTES, UNETMM_C_drop_dma);
    qunetmm_expect(&r.rx, UNETMM_CQE_BUFFER, UNETMM_ST_DMA, 9);
    g_assert_cmphex(qunetmm_read(r.c, UNETMM_REG_TEST), ==, 10);
    g_assert_cmphex(qunetmm_read(r.c, UNETMM_REG_CTRL), ==,
                    UNETMM_CTRL_ENABLE);
    g_assert_cmpuint(qunetmm_counter(r.c, UNETMM_C_err_dma), ==, 3);
    rig_down(&r);
}

static void expect_stopped(Rig *r, QUnetmmEp *ep)
{
    struct unetmm_notify n;

    g_assert_true(qunetmm_read(r->c, UNETMM_REG_EVENTS) &
                  UNETMM_EVENT_EP_ERROR);
    qunetmm_write(r->c, UNETMM_REG_EVENTS, UNETMM_EVENT_EP_ERROR);
    g_assert_true(qunetmm_notify(r->c, &n));
    g_assert_cmpuint(n.type, ==, UNETMM_NOTIFY_EP_ERROR);
    g_assert_cmpuint(n.ep, ==, ep->id);
    g_assert_false(qunetmm_notify(r->c, &n));
}

/* Queue memory that is not there stops that endpoint and nothing else. */
static void check_refused_queue(Rig *r, unsigned which)
{
    struct unetmm_cmd cmd;
    uint64_t *base[] = {
        &cmd.ep_create.sq_base, &cmd.ep_create.fq_base,
        &cmd.ep_create.cq_base, &cmd.ep_create.index,
    };
    QUnetmmEp ep;

    qunetmm_ep_alloc(&ep, r->c, 7, 1, 3);
    cmd = qunetmm_ep_cmd(&ep, UNETMM_POLICY_DROP, 0);
    *base[which] = HOLE;
    g_assert_cmpuint(qunetmm_cmd(r->c, &cmd, NULL), ==, UNETMM_CS_OK);
    if (which < 3) {                    /* else EP_CREATE has found it out */
        g_assert_cmphex(qunetmm_ep_card(&ep).state, ==, UNETMM_EP_RUNNING);
        qunetmm_channel(&ep, 0, r->c->mac, 2, RX_CHANNEL, 256);
        qunetmm_post(&ep, 1, QUNETMM_VA, 64);
        qunetmm_send_inline(&ep, 0, 1, "x", 1);
        g_assert_cmphex(qunetmm_ep_card(&ep).state, ==, UNETMM_EP_ERROR);
    }
    expect_stopped(r, &ep);
    if (which < 2) {
        qunetmm_expect(&ep, UNETMM_CQE_FAILED, UNETMM_ST_DMA, 0);
    }
    g_assert_cmpuint(qunetmm_ep_destroy(r->c, 7), ==, UNETMM_CS_OK);
}

static void test_refused_queues(void *obj, void *data, QGuestAllocator *alloc)
{
    Rig r;

    rig_up(&r, obj, 3);
    for (unsigned i = 0; i < 4; i++) {
        check_refused_queue(&r, i);
    }
    g_assert_cmphex(qunetmm_read(r.c, UNETMM_REG_STATUS) &
                    UNETMM_STATUS_FATAL, ==, 0);
    qunetmm_send_inline(&r.tx, TX_CHANNEL, 1, "y", 1);
    expect_sent(&r, UNETMM_ST_OK, 1);
    expect_received(&r, 0, 1);
    rig_down(&r);
}

/* ---- Forged indices ----------------------------------------------------- */

static void check_forged(Rig *r, size_t member, uint32_t value)
{
    uint64_t errors = qunetmm_counter(r->c, UNETMM_C_err_index);
    QUnetmmEp ep;

    qunetmm_ep(&ep, r->c, 7, 1, 3, UNETMM_POLICY_DROP);
    qtest_writel(r->qts, ep.index + member, value);
    qunetmm_doorbell(r->c, 7);
    g_assert_cmpuint(qunetmm_counter(r->c, UNETMM_C_err_index), ==,
                     errors + 1);
    expect_stopped(r, &ep);
    g_assert_cmphex(qunetmm_ep_card(&ep).state, ==, UNETMM_EP_ERROR);
    qunetmm_expect(&ep, UNETMM_CQE_FAILED, UNETMM_ST_BAD_INDEX, 0);
    /* It stays stopped, whatever is written. */
    qtest_memset(r->qts, ep.index, 0, sizeof(struct unetmm_ep_user));
    qunetmm_send_inline(&ep, 0, 1, "x", 1);
    g_assert_cmpuint(qunetmm_ep_card(&ep).sq_cons, ==, 0);
    g_assert_cmpuint(qunetmm_ep_destroy(r->c, 7), ==, UNETMM_CS_OK);
}

static void test_forged_index(void *obj, void *data, QGuestAllocator *alloc)
{
    static const uint32_t values[] = { 9, 0x80000000, UINT32_MAX };
    Rig r;

    rig_up(&r, obj, 3);
    for (unsigned i = 0; i < G_N_ELEMENTS(values); i++) {
        check_forged(&r, offsetof(struct unetmm_ep_user, sq_prod), values[i]);
        check_forged(&r, offsetof(struct unetmm_ep_user, fq_prod), values[i]);
        check_forged(&r, offsetof(struct unetmm_ep_user, cq_cons), values[i]);
    }
    /* An arm word that makes no sense is no error. */
    qtest_writel(r.qts, r.tx.index +
                 offsetof(struct unetmm_ep_user, cq_arm), UINT32_MAX);
    qunetmm_send_inline(&r.tx, TX_CHANNEL, 1, "y", 1);
    expect_sent(&r, UNETMM_ST_OK, 1);
    expect_received(&r, 0, 1);
    rig_down(&r);
}

/* ---- Waking ------------------------------------------------------------- */

static void test_arm(void *obj, void *data, QGuestAllocator *alloc)
{
    struct unetmm_notify n;
    Rig r;

    rig_up(&r, obj, 3);
    for (unsigned i = 0; i < 20; i++) {
        qunetmm_arm(&r.rx);
        g_assert_false(qunetmm_notify(r.c, &n));
        g_assert_false(qunetmm_msi_taken(r.c, UNETMM_VEC_NOTIFY));
        qunetmm_send_inline(&r.tx, TX_CHANNEL, 1, "x", 1);
        g_assert_true(qunetmm_msi_taken(r.c, UNETMM_VEC_NOTIFY));
        g_assert_true(qunetmm_notify(r.c, &n));
        g_assert_cmpuint(n.type, ==, UNETMM_NOTIFY_CQ);
        g_assert_cmpuint(n.ep, ==, 2);
        g_assert_cmpuint(n.data, ==, 2 * i + 1);
        /* Once for each arming. */
        qunetmm_send_inline(&r.tx, TX_CHANNEL, 2, "x", 1);
        g_assert_false(qunetmm_notify(r.c, &n));
        expect_received(&r, 0, 1);
        expect_received(&r, 0, 1);
        expect_sent(&r, UNETMM_ST_OK, 1);
        expect_sent(&r, UNETMM_ST_OK, 2);
    }
    /* Armed with completions not yet taken: wakes at once, at the doorbell. */
    qunetmm_send_inline(&r.tx, TX_CHANNEL, 1, "x", 1);
    qunetmm_arm(&r.rx);
    qunetmm_doorbell(r.c, 2);
    g_assert_true(qunetmm_notify(r.c, &n));
    g_assert_cmpuint(qunetmm_counter(r.c, UNETMM_C_notifications), ==, 21);
    rig_down(&r);
}

#define MANY 7

/* A full notification ring delays wake-ups, says so once, and loses none. */
static void test_notify_full(void *obj, void *data, QGuestAllocator *alloc)
{
    QUnetmmEp eps[MANY];
    struct unetmm_notify n;
    uint32_t seen = 0;
    Rig r;

    rig_up(&r, obj, 3);
    qunetmm_ring_start(r.c, UNETMM_RING_NOTIFY, 1);
    qunetmm_write(r.c, UNETMM_REG_EVENT_MASK, UNETMM_EVENT_NOTIFY_FULL);
    for (unsigned i = 0; i < MANY; i++) {
        qunetmm_ep(&eps[i], r.c, 10 + i, 1, 3, UNETMM_POLICY_DROP);
        qunetmm_channel(&eps[i], 0, r.c->mac, 2, 40, 256);
        qunetmm_arm(&eps[i]);
        qunetmm_send_inline(&eps[i], 0, i, "x", 1);
        qunetmm_expect(&eps[i], UNETMM_CQE_SENT, UNETMM_ST_OK, i);
    }
    g_assert_true(qunetmm_read(r.c, UNETMM_REG_EVENTS) &
                  UNETMM_EVENT_NOTIFY_FULL);
    g_assert_true(qunetmm_msi_taken(r.c, UNETMM_VEC_EVENT));
    g_assert_cmpuint(qunetmm_counter(r.c, UNETMM_C_notify_waited), ==, 1);
    g_assert_cmpuint(qunetmm_counter(r.c, UNETMM_C_notifications), ==, 2);
    for (unsigned i = 0; i < MANY; i++) {
        g_assert_true(qunetmm_notify(r.c, &n));
        g_assert_cmpuint(n.data, ==, 1);
        seen |= 1u << (n.ep - 10);
    }
    g_assert_cmphex(seen, ==, (1u << MANY) - 1);
    g_assert_false(qunetmm_notify(r.c, &n));
    /* Sticky until it is acknowledged, then it can be raised again. */
    g_assert_true(qunetmm_read(r.c, UNETMM_REG_EVENTS) &
                  UNETMM_EVENT_NOTIFY_FULL);
    qunetmm_write(r.c, UNETMM_REG_EVENTS, UNETMM_EVENT_NOTIFY_FULL);
    g_assert_false(qunetmm_read(r.c, UNETMM_REG_EVENTS) &
                   UNETMM_EVENT_NOTIFY_FULL);
    rig_down(&r);
}

/* ---- Control messages, and a card that is off --------------------------- */

static void test_control(void *obj, void *data, QGuestAllocator *alloc)
{
    struct unetmm_sqe sqe = {
        .opcode = UNETMM_OP_CONTROL, .nsegs = 1, .cookie = 1,
        .seg[0].len = sizeof(struct unetmm_control),
    };
    QUnetmm *c = obj;
    struct unetmm_cqe cqe;
    uint64_t mac = 0;
    QUnetmmBuf buf;
    QUnetmmEp ep;

    qunetmm_start(c, 4);
    qunetmm_space(c, 0, UNETMM_SOURCE_DIRECT, 0, 0);
    qunetmm_ep(&ep, c, 0, 0, 3, UNETMM_POLICY_DROP);
    qunetmm_buf(&buf, c, 1, 3);
    memcpy(&mac, c->mac, sizeof(c->mac));
    sqe.seg[0].addr = buf.addr + 100;
    sqe.remote = mac;
    qunetmm_post(&ep, 2, buf.addr + 2000, 64);
    qunetmm_put_sqe(&ep, &sqe);
    qunetmm_doorbell(c, 0);
    qunetmm_expect(&ep, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    cqe = qunetmm_expect(&ep, UNETMM_CQE_CONTROL, UNETMM_ST_OK, 2);
    g_assert_cmpuint(cqe.len, ==, sizeof(struct unetmm_control));
    g_assert_cmphex(cqe.source, ==, mac);
    qunetmm_buf_expect(&buf, 2000, buf.model + UNETMM_PAGE_BYTES + 100,
                       sizeof(struct unetmm_control));
    qunetmm_buf_check(&buf);
    sqe.seg[0].len = UNETMM_MIN_MTU + 1;
    qunetmm_put_sqe(&ep, &sqe);
    qunetmm_doorbell(c, 0);
    qunetmm_expect(&ep, UNETMM_CQE_SENT, UNETMM_ST_TOO_LONG, 1);
    qunetmm_buf_check(&buf);
    qunetmm_buf_free(&buf);
}

/* Nobody has a wire here: frames that leave are refused, not just lost. */
static void test_no_wire(void *obj, void *data, QGuestAllocator *alloc)
{
    static const uint8_t other[] = { 0x52, 0x54, 0, 9, 9, 9 };
    Rig r;

    rig_up(&r, obj, 3);
    qunetmm_channel(&r.tx, TX_CHANNEL, other, 2, RX_CHANNEL, 256);
    qunetmm_send_inline(&r.tx, TX_CHANNEL, 1, "x", 1);
    expect_sent(&r, UNETMM_ST_REFUSED, 1);
    g_assert_cmpuint(qunetmm_counter(r.c, UNETMM_C_drop_refused), ==, 1);
    rig_down(&r);
}

/* CTRL_ENABLE off: doorbells and commands wait until it is on again. */
static void test_disabled(void *obj, void *data, QGuestAllocator *alloc)
{
    struct unetmm_cmd nop = { .opcode = UNETMM_CMD_NOP };
    struct unetmm_cmd_done done;
    Rig r;

    rig_up(&r, obj, 3);
    qunetmm_write(r.c, UNETMM_REG_CTRL, 0);
    qunetmm_send_inline(&r.tx, TX_CHANNEL, 1, "x", 1);
    qunetmm_submit(r.c, &nop);
    qunetmm_expect_none(&r.tx);
    g_assert_false(qunetmm_done(r.c, &done));
    qunetmm_write(r.c, UNETMM_REG_CTRL, UNETMM_CTRL_ENABLE);
    expect_sent(&r, UNETMM_ST_OK, 1);
    expect_received(&r, 0, 1);
    g_assert_true(qunetmm_done(r.c, &done));
    rig_down(&r);
}

static void unetmm_register_msg_tests(void)
{
    qos_add_test("inline", "unetmm", test_inline, NULL);
    qos_add_test("lengths", "unetmm", test_lengths, NULL);
    qos_add_test("segments", "unetmm", test_segments, NULL);
    qos_add_test("wrap", "unetmm", test_wrap, NULL);
    qos_add_test("budget", "unetmm", test_budget, NULL);
    qos_add_test("six-levels", "unetmm", test_six_levels, NULL);
    qos_add_test("bad-sqe", "unetmm", test_bad_sqe, NULL);
    qos_add_test("cut-chain", "unetmm", test_cut_chain, NULL);
    qos_add_test("bad-fqe", "unetmm", test_bad_fqe, NULL);
    qos_add_test("drops", "unetmm", test_drops, NULL);
    qos_add_test("cq-full", "unetmm", test_cq_full, NULL);
    qos_add_test("cq-blocked", "unetmm", test_cq_blocked, NULL);
    qos_add_test("quiet", "unetmm", test_quiet, NULL);
    qos_add_test("refused-pages", "unetmm", test_refused_pages, NULL);
    qos_add_test("refused-queues", "unetmm", test_refused_queues, NULL);
    qos_add_test("forged-index", "unetmm", test_forged_index, NULL);
    qos_add_test("arm", "unetmm", test_arm, NULL);
    qos_add_test("notify-full", "unetmm", test_notify_full, NULL);
    qos_add_test("control", "unetmm", test_control, NULL);
    qos_add_test("no-wire", "unetmm", test_no_wire, NULL);
    qos_add_test("disabled", "unetmm", test_disabled, NULL);
}

libqos_init(unetmm_register_msg_tests);
