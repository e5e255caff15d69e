/*
 * unetmm qtests: one-sided operations between two QEMUs, one of which moves
 *
 * Each card writes, reads and changes the other's exports.  The wire between
 * them is this test, which loses, doubles and reorders.  With operations on
 * their way in both directions one of the machines is moved to another QEMU,
 * and later once more.  Every operation completes, once and in order; each byte
 * is where it belongs, and no other has changed; atomics are executed once;
 * notifications come in order, their data in place.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/crc32c.h"
#include "hw/pci/pci_regs.h"
#include "unetmm-lib.c"
#include "unetmm-machine.c"

#define LOG2        5
#define CHANNEL     2
#define REGION      3
#define KEY         0x5ec4e7u
#define IMPORT      1
#define OPS         8                   /* at a time */
#define TOTAL       96                  /* of each side */
#define MOVES       2
#define SLOT        2048
#define LEN         1400                /* of a write, three packets */
#define THERE       (QUNETMM_VA + 16 * QUNETMM_PAGE)
#define CONSTANT    (OPS * SLOT)        /* a part that is only read, then ... */
#define WORDS       (CONSTANT + SLOT)   /* ... two words */
#define LENGTH      (WORDS + 16)
#define STEP_NS     20000
#define WATCHDOG    (300 * G_TIME_SPAN_SECOND)

typedef enum Kind {
    K_NOTIFY, K_READ, K_ADD, K_SWAP, K_NUM,
} Kind;

typedef struct Side {
    QUnetmmMachine *m;
    QUnetmmEp ep;
    QUnetmmBuf mine, exported;
    uint32_t begun, done;
    uint32_t notified;          /* of the other side's */
    uint8_t frame[UNETMM_MAX_FRAME];
    uint8_t held[UNETMM_MAX_FRAME];     /* goes behind the next */
    size_t held_bytes;
    unsigned frames;            /* that this side has sent */
} Side;

static Side sides[2];

/* ---- Cards -------------------------------------------------------------- */

static void side_up(Side *s, QUnetmmMachine *m)
{
    QUnetmm *c = &m->card;
    uint64_t table;

    memset(s, 0, sizeof(*s));
    s->m = m;
    qunetmm_init(c, m->bus, QPCI_DEVFN(4, 0), &m->alloc);
    qunetmm_start(c, 5);
    table = qunetmm_space_pinned(c, 1);
    qunetmm_ep(&s->ep, c, 1, 1, LOG2, UNETMM_POLICY_SKIP);
    qunetmm_buf(&s->mine, c, OPS * SLOT / QUNETMM_PAGE, 3);
    qunetmm_buf(&s->exported, c, LENGTH / QUNETMM_PAGE + 1, 4);
    qunetmm_pin(c, table, QUNETMM_VA, s->mine.addr, QUNETMM_RW,
                s->mine.bytes / QUNETMM_PAGE);
    qunetmm_pin(c, table, THERE, s->exported.addr, QUNETMM_RW,
                s->exported.bytes / QUNETMM_PAGE);
}

static void command(Side *s, struct unetmm_cmd cmd)
{
    g_assert_cmpuint(qunetmm_cmd(&s->m->card, &cmd, NULL), ==, UNETMM_CS_OK);
}

static void side_connect(Side *s, const Side *peer)
{
    struct unetmm_cmd channel = {
        .opcode = UNETMM_CMD_CHANNEL_SET, .ep = 1,
        .channel = { .channel = CHANNEL, .peer_ep = 1,
                     .peer_channel = CHANNEL, .mtu = 500, .retries = 200,
                     .timeout_us = 500, .type = UNETMM_CHANNEL_RELIABLE },
    };

    memcpy(channel.channel.peer_mac, peer->m->card.mac, 6);
    command(s, channel);
    command(s, (struct unetmm_cmd) {
        .opcode = UNETMM_CMD_REGION_SET, .space = 1,
        .region = { .region = REGION, .key = KEY, .addr = THERE,
                    .length = LENGTH, .cookie = 5,
                    .rights = UNETMM_RIGHT_ALL,
                    .flags = UNETMM_REGION_F_NOTIFY } });
    command(s, (struct unetmm_cmd) {
        .opcode = UNETMM_CMD_IMPORT_SET, .ep = 1,
        .import = { .import = IMPORT, .region = REGION, .key = KEY,
                    .channel = CHANNEL, .rights = UNETMM_RIGHT_ALL,
                    .length = LENGTH } });
}

static void side_move(Side *s, QUnetmmMachine *to, const char *properties)
{
    qunetmm_machine_move(s->m, to, properties);
    s->m = to;
    s->ep.card = &to->card;
    s->mine.qts = s->exported.qts = to->qts;
}

/* ---- The wire ----------------------------------------------------------- */

static void give(Side *to, const uint8_t *frame, size_t bytes)
{
    /* A full socket is one more way to lose it. */
    send(to->m->wire, frame, bytes, MSG_DONTWAIT);
}

/* One side's frames, all of them; some are lost, doubled, late. */
static void carry(Side *from, Side *to)
{
    size_t n;

    while ((n = qunetmm_machine_frame(from->m, from->frame, MSG_DONTWAIT))) {
        unsigned number = ++from->frames;

        if (number % 11 == 0 && !from->held_bytes) {
            memcpy(from->held, from->frame, n);
            from->held_bytes = n;
            continue;
        }
        if (number % 7) {
            give(to, from->frame, n);
        }
        if (number % 5 == 0) {
            give(to, from->frame, n);
        }
        if (from->held_bytes) {
            give(to, from->held, from->held_bytes);
            from->held_bytes = 0;
        }
    }
}

/* ---- Operations --------------------------------------------------------- */

static uint64_t slot_of(uint32_t n)
{
    return n % OPS * SLOT;
}

static void put(Side *s, uint32_t n, uint8_t op, uint64_t offset)
{
    struct unetmm_sqe sqe = {
        .opcode = op, .nsegs = 1, .channel = CHANNEL, .cookie = n,
        .handle = IMPORT, .remote = offset,
        .seg = { { .addr = QUNETMM_VA + slot_of(n), .len = LEN } },
    };

    if (op == UNETMM_OP_WRITE) {
        sqe.flags = UNETMM_SQE_F_NOTIFY;
        sqe.imm = n;
    }
    unetmm_le_seg(&sqe.seg[0]);
    qunetmm_put_sqe(&s->ep, &sqe);
}

static void put_atomic(Side *s, uint32_t n, uint8_t op, uint64_t offset,
                       uint64_t x, uint64_t y)
{
    struct unetmm_sqe sqe = {
        .opcode = op, .channel = CHANNEL, .cookie = n, .handle = IMPORT,
        .remote = offset, .flags = UNETMM_SQE_F_INLINE,
        .inline_len = op == UNETMM_OP_CMP_SWAP ? 16 : 8,
    };

    stq_le_p(sqe.data, x);
    stq_le_p(sqe.data + 8, op == UNETMM_OP_CMP_SWAP ? y : 0);
    qunetmm_put_sqe(&s->ep, &sqe);
}

/* Operations of one kind before n. */
static uint32_t earlier(uint32_t n)
{
    return n / K_NUM;
}

static void begin(Side *s, Side *peer)
{
    uint8_t data[LEN], word[8];
    uint32_t n = s->begun++;

    switch (n % K_NUM) {
    case K_NOTIFY:
        qunetmm_pattern(data, LEN, n + 1);
        qtest_memwrite(s->m->qts, s->mine.addr + slot_of(n), data, LEN);
        qunetmm_buf_expect(&s->mine, slot_of(n), data, LEN);
        qunetmm_buf_expect(&peer->exported, slot_of(n), data, LEN);
        put(s, n, UNETMM_OP_WRITE, slot_of(n));
        break;
    case K_READ:
        put(s, n, UNETMM_OP_READ, CONSTANT + n);
        break;
    case K_ADD:
        stq_le_p(word, 3 * (earlier(n) + 1));
        qunetmm_buf_expect(&peer->exported, WORDS, word, 8);
        put_atomic(s, n, UNETMM_OP_FETCH_ADD, WORDS, 3, 0);
        break;
    default:
        stq_le_p(word, earlier(n) + 1);
        qunetmm_buf_expect(&peer->exported, WORDS + 8, word, 8);
        put_atomic(s, n, UNETMM_OP_CMP_SWAP, WORDS + 8, earlier(n),
                   earlier(n) + 1);
        break;
    }
    qunetmm_doorbell(&s->m->card, 1);
}

static void completed(Side *s, const Side *peer, uint32_t n,
                      const struct unetmm_cqe *cqe)
{
    const uint8_t *constant = peer->exported.model + UNETMM_PAGE_BYTES +
                              CONSTANT;
    uint8_t got[LEN];

    g_assert_cmpuint(cqe->status, ==, UNETMM_ST_OK);
    g_assert_cmpuint(cqe->cookie, ==, n);
    switch (n % K_NUM) {
    case K_READ:
        qtest_memread(s->m->qts, s->mine.addr + slot_of(n), got, LEN);
        g_assert_cmpmem(got, LEN, constant + n, LEN);
        qunetmm_buf_expect(&s->mine, slot_of(n), got, LEN);
        break;
    case K_ADD:
        g_assert_cmpuint(le64_to_cpu(cqe->old), ==, 3 * earlier(n));
        break;
    case K_SWAP:
        g_assert_cmpuint(le64_to_cpu(cqe->old), ==, earlier(n));
        break;
    }
}

/* The other side's next one, and its data is here. */
static void notified(Side *s, const struct unetmm_cqe *cqe)
{
    uint32_t n = s->notified++ * K_NUM + K_NOTIFY;
    uint8_t data[LEN], got[LEN];

    g_assert_cmpuint(cqe->notify.imm, ==, n);
    g_assert_cmpuint(cqe->notify.offset, ==, slot_of(n));
    g_assert_cmpuint(cqe->len, ==, LEN);
    g_assert_cmpuint(cqe->cookie, ==, 5);
    qunetmm_pattern(data, LEN, n + 1);
    qtest_memread(s->m->qts, s->exported.addr + slot_of(n), got, LEN);
    g_assert_cmpmem(got, LEN, data, LEN);
}

static void take(Side *s, Side *peer)
{
    struct unetmm_cqe cqe;

    while (qunetmm_cqe(&s->ep, &cqe)) {
        if (cqe.opcode == UNETMM_CQE_NOTIFY) {
            notified(s, &cqe);
        } else {
            uint32_t n = s->done++;

            g_assert_cmpuint(cqe.opcode, ==, UNETMM_CQE_SENT);
            /* The peer's notification comes before. */
            take(peer, s);
            completed(s, peer, n, &cqe);
        }
    }
}

/* As many as may be on their way at a time, up to the n-th. */
static void begin_some(unsigned side, uint32_t n)
{
    Side *s = &sides[side];

    while (s->begun < n && s->begun - s->done < OPS) {
        begin(s, &sides[!side]);
    }
}

/* Until both have completed n. */
static void work(uint32_t n)
{
    int64_t end = g_get_monotonic_time() + WATCHDOG;

    while (sides[0].done < n || sides[1].done < n) {
        g_assert_cmpint(g_get_monotonic_time(), <, end);
        for (unsigned i = 0; i < 2; i++) {
            Side *s = &sides[i], *peer = &sides[!i];

            take(s, peer);
            begin_some(i, n);
            carry(s, peer);
            qtest_clock_step(s->m->qts, STEP_NS);
        }
    }
}

/* Some of the next ones are on the wire, some have arrived. */
static void work_begun(void)
{
    for (unsigned i = 0; i < 2; i++) {
        begin_some(i, TOTAL);
        carry(&sides[i], &sides[!i]);
    }
    for (unsigned i = 0; i < 2; i++) {
        g_assert_cmpuint(sides[i].begun - sides[i].done, ==, OPS);
    }
}

/* ---- Tests -------------------------------------------------------------- */

static uint64_t both(enum unetmm_counter counter)
{
    return qunetmm_counter(&sides[0].m->card, counter) +
           qunetmm_counter(&sides[1].m->card, counter);
}

static void finish(void)
{
    work(TOTAL);
    g_assert_cmpuint(both(UNETMM_C_rel_notifies), ==, 2 * TOTAL / K_NUM);
    g_assert_cmpuint(both(UNETMM_C_rel_atomics), ==, 4 * TOTAL / K_NUM);
    g_assert_cmpuint(both(UNETMM_C_rel_failed), ==, 0);
    g_assert_cmpuint(both(UNETMM_C_rel_rejects), ==, 0);
    /* The wire was as bad as it was meant to be. */
    g_assert_cmpuint(both(UNETMM_C_rel_resent), >, 20);
    g_assert_cmpuint(both(UNETMM_C_drop_rel_again), >, 0);
    for (unsigned i = 0; i < 2; i++) {
        g_assert_cmpuint(sides[i].notified, ==, TOTAL / K_NUM);
        qunetmm_expect_none(&sides[i].ep);
        qunetmm_buf_check(&sides[i].mine);
        qunetmm_buf_check(&sides[i].exported);
        qunetmm_buf_free(&sides[i].mine);
        qunetmm_buf_free(&sides[i].exported);
    }
}

/* The words start at zero; the pattern that is there has no place in them. */
static void clear_words(Side *s)
{
    static const uint8_t zero[16];

    qtest_memwrite(s->m->qts, s->exported.addr + WORDS, zero, sizeof(zero));
    qunetmm_buf_expect(&s->exported, WORDS, zero, sizeof(zero));
}

static void test_one_sided(void)
{
    QUnetmmMachine here[1 + MOVES], there;

    qunetmm_machine_up(&here[0], "", "");
    qunetmm_machine_up(&there, ",mac=52:54:00:aa:00:02", "");
    side_up(&sides[0], &here[0]);
    side_up(&sides[1], &there);
    for (unsigned i = 0; i < 2; i++) {
        side_connect(&sides[i], &sides[!i]);
        clear_words(&sides[i]);
    }
    for (unsigned i = 1; i <= MOVES; i++) {
        work(i * TOTAL / (MOVES + 1));
        work_begun();
        side_move(&sides[0], &here[i], "");
    }
    finish();
    for (unsigned i = 0; i <= MOVES; i++) {
        qunetmm_machine_down(&here[i]);
    }
    qunetmm_machine_down(&there);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("/unetmm/move/one-sided", test_one_sided);
    return g_test_run();
}
