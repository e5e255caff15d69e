/*
 * unetmm: regions, imports and WRITE, packet by packet: the peer is the test
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "peer.h"
#include "reliable/reliable.h"

#define ASK     UNETMM_WIRE_F_ASK
#define LAST    UNETMM_WIRE_F_LAST
#define NOTIFY  UNETMM_WIRE_F_NOTIFY

/* ---- Commands ----------------------------------------------------------- */

TEST_OF(test_regions, Fix *f, fix_test)
{
    FakeSpace zero = { .driver = &f->d, .id = 0 };

#define SET(space, ...) fake_region(space, __VA_ARGS__)
    assert_int_equal(SET(f->s1, 16, 1, 0, 1, 1, 0), UNETMM_CS_BAD_ID);
    assert_int_equal(SET(f->s1, ~0u, 1, 0, 1, 1, 0), UNETMM_CS_BAD_ID);
    assert_int_equal(SET(&zero, 0, 1, 0, 1, 1, 0), UNETMM_CS_BAD_ID);
    zero.id = 5;
    assert_int_equal(SET(&zero, 0, 1, 0, 1, 1, 0), UNETMM_CS_BAD_ID);
    zero.id = 0xffff;
    assert_int_equal(SET(&zero, 0, 1, 0, 1, 1, 0), UNETMM_CS_BAD_ID);
    assert_int_equal(SET(f->s1, 0, 1, 0, 0, 1, 0), UNETMM_CS_BAD_ARG);
    assert_int_equal(SET(f->s1, 0, 1, 2, ~0ull, 1, 0), UNETMM_CS_BAD_ARG);
    assert_int_equal(SET(f->s1, 0, 1, 0, 1, 0, 0), UNETMM_CS_BAD_ARG);
    assert_int_equal(SET(f->s1, 0, 1, 0, 1, 8, 0), UNETMM_CS_BAD_ARG);
    assert_int_equal(SET(f->s1, 0, 1, 0, 1, 1, 64), UNETMM_CS_BAD_ARG);
    assert_int_equal(SET(f->s1, 15, 1, ~0ull, 1, 7, 1), UNETMM_CS_OK);
    assert_int_equal(SET(f->s2, 15, 1, 0, 1, 7, 1), UNETMM_CS_EXISTS);
#undef SET
    assert_int_equal(fake_region_clear(&f->d, 14), UNETMM_CS_BAD_ID);
    assert_int_equal(fake_region_clear(&f->d, 16), UNETMM_CS_BAD_ID);
    assert_int_equal(fake_region_clear(&f->d, 15), UNETMM_CS_OK);
    assert_int_equal(fake_region_clear(&f->d, 15), UNETMM_CS_BAD_ID);
}

/* A space is not destroyed under a region. */
TEST_OF(test_region_holds_space, Fix *f, fix_test)
{
    FakeSpace *s = fake_space(&f->d, 5, UNETMM_SOURCE_TLB, 0);
    struct unetmm_cmd destroy = { .opcode = UNETMM_CMD_SPACE_DESTROY,
                                  .space = 5 };

    fake_region(s, 1, 9, 0x10000, 100, 1, 0);
    fake_region(s, 2, 9, 0x10000, 100, 1, 0);
    assert_int_equal(fake_command(&f->d, destroy, NULL), UNETMM_CS_BUSY);
    fake_region_clear(&f->d, 1);
    assert_int_equal(fake_command(&f->d, destroy, NULL), UNETMM_CS_BUSY);
    fake_region_clear(&f->d, 2);
    assert_int_equal(fake_command(&f->d, destroy, NULL), UNETMM_CS_OK);
    fake_space_gone(s);
}

TEST_OF(test_imports, Fix *f, fix_test)
{
    FakeEp zero = f->a;

    peer_open(f);
    zero.id = 0;
    assert_int_equal(fake_import(&zero, 0, PEER_CH, 1, 1, 1, 1),
                     UNETMM_CS_BAD_ID);
    assert_int_equal(fake_import(&f->a, 8, PEER_CH, 1, 1, 1, 1),
                     UNETMM_CS_BAD_ID);
    assert_int_equal(fake_import(&f->a, 0, 16, 1, 1, 1, 1), UNETMM_CS_BAD_ID);
    assert_int_equal(fake_import(&f->a, 0, PEER_CH + 1, 1, 1, 1, 1),
                     UNETMM_CS_BAD_ID);
    assert_int_equal(fake_import(&f->a, 0, FIX_WIRE, 1, 1, 1, 1),
                     UNETMM_CS_BAD_ARG);
    assert_int_equal(fake_import(&f->a, 0, PEER_CH, 1, 1, 0, 1),
                     UNETMM_CS_BAD_ARG);
    assert_int_equal(fake_import(&f->a, 0, PEER_CH, 1, 1, 1, 0),
                     UNETMM_CS_BAD_ARG);
    assert_int_equal(fake_import(&f->a, 0, PEER_CH, 1, 1, 1, 8),
                     UNETMM_CS_BAD_ARG);
    assert_int_equal(fake_import(&f->a, PEER_IMPORT, PEER_CH, 1, 1, 1, 1),
                     UNETMM_CS_EXISTS);
    assert_int_equal(fake_import_clear(&f->a, 0), UNETMM_CS_BAD_ID);
    assert_int_equal(fake_import_clear(&f->a, 8), UNETMM_CS_BAD_ID);
    assert_int_equal(fake_import_clear(&f->a, PEER_IMPORT), UNETMM_CS_OK);
    assert_int_equal(fake_import_clear(&f->a, PEER_IMPORT), UNETMM_CS_BAD_ID);
}

/* ---- Descriptors -------------------------------------------------------- */

#define BAD(change, why) do { \
        struct unetmm_sqe s = peer_sqe(UNETMM_OP_WRITE, 0, 100, 0, 9); \
        change; \
        peer_post(f, s); \
        fake_expect(&f->a, UNETMM_CQE_SENT, why, 9); \
        fake_expect_none(&f->a); \
        peer_silence(f); \
    } while (0)

TEST_OF(test_descriptors, Fix *f, fix_test)
{
    peer_open(f);
    BAD(s.handle = 0, UNETMM_ST_BAD_IMPORT);
    BAD(s.handle = 8, UNETMM_ST_BAD_IMPORT);
    BAD(s.handle = ~0u, UNETMM_ST_BAD_IMPORT);
    BAD(s.channel = FIX_WIRE, UNETMM_ST_BAD_CHANNEL);
    BAD(s.channel = 9, UNETMM_ST_BAD_CHANNEL);
    BAD(s.remote = PEER_FAR_LENGTH - 99, UNETMM_ST_BAD_IMPORT);
    BAD(s.remote = PEER_FAR_LENGTH + 1, UNETMM_ST_BAD_IMPORT);
    BAD(s.remote = UINT64_MAX, UNETMM_ST_BAD_IMPORT);
    BAD(s.remote = UINT64_MAX - 50, UNETMM_ST_BAD_IMPORT);
    BAD(s.seg[0].len = PEER_FAR_LENGTH + 1, UNETMM_ST_BAD_IMPORT);
    BAD(s.imm = 1, UNETMM_ST_BAD_DESC);
    BAD(s.region = 1, UNETMM_ST_BAD_DESC);
    BAD(s.flags = 64, UNETMM_ST_BAD_DESC);
    BAD((s.opcode = UNETMM_OP_READ, s.flags = UNETMM_SQE_F_NOTIFY),
        UNETMM_ST_BAD_DESC);
    BAD((s.opcode = UNETMM_OP_READ, s.nsegs = 0, s.inline_len = 9,
         s.flags = UNETMM_SQE_F_INLINE), UNETMM_ST_BAD_DESC);
    BAD(s.opcode = UNETMM_OP_FETCH_ADD, UNETMM_ST_BAD_DESC);
    BAD((s.opcode = UNETMM_OP_FETCH_ADD, s.nsegs = 0, s.inline_len = 16,
         s.flags = UNETMM_SQE_F_INLINE), UNETMM_ST_BAD_DESC);
    BAD((s.opcode = UNETMM_OP_CMP_SWAP, s.nsegs = 0, s.inline_len = 8,
         s.flags = UNETMM_SQE_F_INLINE), UNETMM_ST_BAD_DESC);
    BAD((s.opcode = UNETMM_OP_FETCH_ADD, s.nsegs = 0, s.inline_len = 8,
         s.flags = UNETMM_SQE_F_INLINE, s.remote = PEER_FAR_LENGTH - 7),
        UNETMM_ST_BAD_IMPORT);
}

/* Each right stands for its operations alone. */
TEST_OF(test_import_rights, Fix *f, fix_test)
{
    peer_open(f);
    for (unsigned right = 1; right <= 4; right <<= 1) {
        fake_import(&f->a, 0, PEER_CH, 1, 1, 1000, right);
        for (uint8_t op = UNETMM_OP_WRITE; op <= UNETMM_OP_CMP_SWAP; op++) {
            uint8_t needs = op == UNETMM_OP_WRITE ? 1 :
                            op == UNETMM_OP_READ ? 2 : 4;

            if (right != needs) {
                BAD((s.handle = 0, s.opcode = op,
                     s.nsegs = needs < 4, s.inline_len = needs < 4 ? 0 :
                     op == UNETMM_OP_CMP_SWAP ? 16 : 8, s.flags = needs < 4 ?
                     0 : UNETMM_SQE_F_INLINE), UNETMM_ST_BAD_IMPORT);
            }
        }
        fake_import_clear(&f->a, 0);
    }
}

/* The channel goes, and the imports through it. */
TEST_OF(test_import_goes_with_channel, Fix *f, fix_test)
{
    struct unetmm_cmd clear = { .opcode = UNETMM_CMD_CHANNEL_CLEAR, .ep = 1,
                                .channel.channel = PEER_CH };

    peer_open(f);
    fake_command(&f->d, clear, NULL);
    BAD((void)0, UNETMM_ST_BAD_CHANNEL);
    peer_open(f);
    fake_channel(&f->a, PEER_CH, fake_peer_mac, PEER_EP, PEER_CH, 1000);
    BAD((void)0, UNETMM_ST_BAD_CHANNEL);
    peer_open(f);
    BAD(s.handle = 1, UNETMM_ST_BAD_IMPORT);
}

/* ---- Sent --------------------------------------------------------------- */

TEST_OF(test_packets, Fix *f, fix_test)
{
    struct unetmm_sqe s = peer_sqe(UNETMM_OP_WRITE, 0, 2500, 333, 7);

    peer_open(f);
    fake_fill(f->s1, PEER_PAGE(0), 2500, 3);
    s.flags = UNETMM_SQE_F_NOTIFY;
    s.imm = 0x12345678;
    peer_post(f, s);
    for (uint32_t i = 0; i < 3; i++) {
        PeerFrame p = peer_expect(f, UNETMM_WIRE_WRITE, PEER_MY + i);

        assert_int_equal(p.h.len, i < 2 ? 1000 : 500);
        assert_int_equal(p.h.handle, PEER_FAR);
        assert_int_equal(p.h.offset, PEER_FAR_KEY);
        assert_int_equal(p.h.remote, 333 + i * 1000);
        /* Before its end: the remaining bytes. */
        assert_int_equal(p.h.imm, i < 2 ? 1500 - i * 1000 : 0x12345678);
        assert_int_equal(p.h.flags, i < 2 ? 0 : LAST | NOTIFY | ASK);
        for (uint32_t j = 0; j < p.h.len; j++) {
            assert_int_equal(p.data[j], fake_pattern(3, i * 1000 + j));
        }
    }
    /* Descriptors taken before go on without the import. */
    fake_import_clear(&f->a, PEER_IMPORT);
    fake_advance(&f->h, 1000 * PEER_US);
    peer_expect(f, UNETMM_WIRE_WRITE, PEER_MY);
    peer_ack(f, PEER_MY + 3, 0);
    assert_int_equal(fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 7).len,
                     2500);
    peer_silence(f);
}

TEST_OF(test_inline_and_empty, Fix *f, fix_test)
{
    struct unetmm_sqe s = peer_sqe(UNETMM_OP_WRITE, 0, 0, PEER_FAR_LENGTH, 1);
    PeerFrame p;

    peer_open(f);
    peer_post(f, s);
    p = peer_expect(f, UNETMM_WIRE_WRITE, PEER_MY);
    assert_int_equal(p.h.len, 0);
    assert_int_equal(p.h.remote, PEER_FAR_LENGTH);
    s = peer_sqe(UNETMM_OP_WRITE, 0, 0, 8, 2);
    s.nsegs = 0;
    s.inline_len = 5;
    s.flags = UNETMM_SQE_F_INLINE | UNETMM_SQE_F_QUIET;
    memcpy(s.data, "hello", 5);
    peer_post(f, s);
    p = peer_expect(f, UNETMM_WIRE_WRITE, PEER_MY + 1);
    assert_int_equal(p.h.len, 5);
    assert_memory_equal(p.data, "hello", 5);
    peer_ack(f, PEER_MY + 2, 0);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    fake_expect_none(&f->a);
}

/* ---- Received ----------------------------------------------------------- */

static struct unetmm_frame head(uint32_t psn, uint64_t at, uint32_t flags)
{
    return (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_WRITE, .psn = psn, .handle = PEER_REGION,
        .offset = PEER_KEY, .remote = at, .flags = flags,
        .imm = flags & NOTIFY ? psn : 0,
    };
}

/* Bytes [at, + len) of the region become those of message n. */
static void write_at(Fix *f, uint32_t psn, uint64_t at, uint32_t len,
                     uint32_t n, uint32_t flags)
{
    uint8_t data[PEER_MTU];

    for (uint32_t i = 0; i < len; i++) {
        data[i] = fake_pattern(n, at + i);
    }
    peer_give(f, head(psn, at, flags), data, len);
}

/* They are, and those on both sides are zero. */
static void expect_there(Fix *f, uint64_t at, uint32_t len, uint32_t n)
{
    uint8_t *all = g_malloc(PEER_LENGTH + 208);

    fake_load(f->s1, PEER_AT - 104, all, PEER_LENGTH + 208);
    for (uint64_t i = 0; i < PEER_LENGTH + 208; i++) {
        uint64_t in = i - 104;

        assert_int_equal(all[i], in >= at && in < at + len ?
                         fake_pattern(n, in) : 0);
    }
    g_free(all);
}

static struct unetmm_cqe_notify expect_notify(Fix *f, uint32_t len)
{
    struct unetmm_cqe cqe = fake_expect(&f->a, UNETMM_CQE_NOTIFY,
                                        UNETMM_ST_OK, PEER_REGION + 0x7000);

    assert_int_equal(cqe.len, len);
    assert_int_equal(cqe.channel, PEER_CH);
    assert_int_equal(cqe.notify.region, PEER_REGION);
    return cqe.notify;
}

TEST_OF(test_placed, Fix *f, fix_test)
{
    peer_open(f);
    write_at(f, PEER_YOURS, 3950, 1000, 1, LAST | ASK);
    peer_expect_ack(f, PEER_YOURS + 1, 0, UNETMM_ACK_OK, 0);
    expect_there(f, 3950, 1000, 1);
    fake_expect_none(&f->a);
    /* Once is enough: the program may have changed it since. */
    fake_store(f->s1, PEER_AT + 3950, (uint8_t[1000]) { 0 }, 1000);
    expect_count(&f->h, drop_rel_again, 1,
                 write_at(f, PEER_YOURS, 3950, 1000, 1, LAST | ASK));
    expect_there(f, 0, 0, 0);
}

/* Placed in any order; the notification waits for all before it. */
TEST_OF(test_notify_in_order, Fix *f, fix_test)
{
    struct unetmm_cqe_notify n;

    peer_open(f);
    write_at(f, PEER_YOURS + 3, 2100, 400, 1, LAST | NOTIFY);
    write_at(f, PEER_YOURS + 1, 100, 1000, 1, 0);
    write_at(f, PEER_YOURS + 2, 1100, 1000, 1, 0);
    expect_there(f, 100, 2400, 1);
    assert_int_equal(f->h.core.rel->kept, 0);
    fake_expect_none(&f->a);
    fake_wire_clear(&f->h);
    write_at(f, PEER_YOURS, 0, 0, 1, LAST | NOTIFY);
    peer_expect_ack(f, PEER_YOURS + 4, 0, UNETMM_ACK_OK, 0);
    n = expect_notify(f, 0);
    assert_int_equal(n.offset, 0);
    assert_int_equal(n.imm, PEER_YOURS);
    n = expect_notify(f, 2400);
    assert_int_equal(n.offset, 100);
    assert_int_equal(n.imm, PEER_YOURS + 3);
    fake_expect_none(&f->a);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_notifies), 2);
}

/* A message that another one interrupts is not longer for it. */
TEST_OF(test_notify_length, Fix *f, fix_test)
{
    peer_open(f);
    write_at(f, PEER_YOURS, 0, 100, 1, 0);
    write_at(f, PEER_YOURS + 1, 500, 100, 1, LAST | NOTIFY);
    assert_int_equal(expect_notify(f, 100).offset, 500);
    /* It is over, though the next goes on where it was. */
    write_at(f, PEER_YOURS + 2, 100, 100, 1, LAST | NOTIFY);
    assert_int_equal(expect_notify(f, 100).offset, 100);
    write_at(f, PEER_YOURS + 3, 600, 100, 1, 0);
    peer_void(f, PEER_YOURS + 4, 0);
    write_at(f, PEER_YOURS + 5, 700, 100, 1, LAST | NOTIFY);
    assert_int_equal(expect_notify(f, 100).offset, 700);
}

TEST_OF(test_notify_not_wanted, Fix *f, fix_test)
{
    peer_open(f);
    fake_region_clear(&f->d, PEER_REGION);
    fake_region(f->s1, PEER_REGION, PEER_KEY, PEER_AT, PEER_LENGTH, 1, 0);
    expect_count(&f->h, rel_unnotified, 1,
                 write_at(f, PEER_YOURS, 0, 10, 1, LAST | NOTIFY | ASK));
    peer_expect_ack(f, PEER_YOURS + 1, 0, UNETMM_ACK_OK, 0);
    fake_expect_none(&f->a);
}

TEST_OF(test_notify_cq_full, Fix *f, fix_test)
{
    peer_open(f);
    for (uint32_t i = 0; i < 16; i++) {
        write_at(f, PEER_YOURS + i, 0, 10, 1, LAST | NOTIFY);
    }
    write_at(f, PEER_YOURS + 17, 20, 10, 1, LAST | NOTIFY);
    fake_wire_clear(&f->h);
    write_at(f, PEER_YOURS + 16, 10, 10, 1, LAST | NOTIFY);
    peer_expect_ack(f, PEER_YOURS + 16, 1, UNETMM_ACK_NOT_READY, 100);
    for (uint32_t i = 0; i < 16; i++) {
        assert_int_equal(expect_notify(f, 10).imm, PEER_YOURS + i);
    }
    fake_ring_bell(&f->a);
    peer_expect_ack(f, PEER_YOURS + 16, 1, UNETMM_ACK_OK, 0);
    write_at(f, PEER_YOURS + 16, 10, 10, 1, LAST | NOTIFY);
    assert_int_equal(expect_notify(f, 10).imm, PEER_YOURS + 16);
    assert_int_equal(expect_notify(f, 10).imm, PEER_YOURS + 17);
    fake_expect_none(&f->a);
}

/* Of two writes to one place the second one stays, whatever came first. */
TEST_OF(test_overlap, Fix *f, fix_test)
{
    uint8_t data[1000];

    peer_open(f);
    write_at(f, PEER_YOURS + 3, 4000, 100, 4, LAST);
    write_at(f, PEER_YOURS + 2, 4200, 100, 3, LAST);
    write_at(f, PEER_YOURS + 1, 4050, 200, 2, LAST);
    expect_count(&f->h, rel_trimmed, 1,
                 write_at(f, PEER_YOURS, 3500, 1000, 1, LAST));
    fake_load(f->s1, PEER_AT + 3500, data, 1000);
    for (unsigned i = 0; i < 1000; i++) {
        uint32_t at = 3500 + i;
        uint32_t n = at >= 4200 && at < 4300 ? 3 : at >= 4000 && at < 4100 ?
                     4 : at >= 4050 && at < 4250 ? 2 : 1;

        assert_int_equal(data[i], fake_pattern(n, at));
    }
    /* Nothing is left of it: then it is only taken. */
    write_at(f, PEER_YOURS + 5, 100, 100, 6, LAST);
    write_at(f, PEER_YOURS + 4, 120, 30, 5, LAST | ASK);
    fake_check(f->s1, PEER_AT + 0, 0, 0);
    fake_load(f->s1, PEER_AT + 100, data, 100);
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(data[i], fake_pattern(6, 100 + i));
    }
    assert_int_equal(f->h.core.eps[1].rels->rx.nxt, PEER_YOURS + 6);
}

/* ---- Rejected ----------------------------------------------------------- */

#define REJECT(change, why) do { \
        struct unetmm_frame h = head(psn, 9000, LAST | ASK); \
        change; \
        expect_count(&f->h, drop_rel_rejected, 1, \
                     peer_give(f, h, data, 1000)); \
        peer_expect_ack(f, psn, 0, UNETMM_ACK_REJECTED, why); \
        /* Permanently, even if it could be taken now; but for the number. */ \
        peer_give(f, head(psn, 0, LAST), data, 10); \
        peer_expect_ack(f, psn, 0, UNETMM_ACK_REJECTED, why); \
        expect_there(f, 0, 0, 0); \
        peer_void(f, psn++, ASK); \
        peer_expect_ack(f, psn, 0, UNETMM_ACK_OK, 0); \
        peer_silence(f); \
        fake_expect_none(&f->a); \
    } while (0)

TEST_OF(test_rejected, Fix *f, fix_test)
{
    const uint8_t data[1000] = { 1 };
    uint32_t psn = PEER_YOURS;

    peer_open(f);
    fake_region(f->s2, 4, PEER_KEY, PEER_AT, PEER_LENGTH, 7, 1);
    fake_region(f->s1, 5, PEER_KEY, PEER_AT, PEER_LENGTH, 6, 1);
    fake_region(f->s1, 6, PEER_KEY, PEER_PAGE(FIX_PAGES + 3), 4000, 7, 1);
    for (unsigned bit = 0; bit < 32; bit++) {
        REJECT(h.offset ^= 1u << bit, UNETMM_WHY_REGION);
    }
    REJECT(h.handle = 0, UNETMM_WHY_REGION);
    REJECT(h.handle = 16, UNETMM_WHY_REGION);
    REJECT(h.handle = ~0u, UNETMM_WHY_REGION);
    REJECT(h.handle = 4, UNETMM_WHY_REGION);
    REJECT(h.remote = 9001, UNETMM_WHY_RANGE);
    REJECT(h.remote = 10001, UNETMM_WHY_RANGE);
    REJECT(h.remote = UINT64_MAX, UNETMM_WHY_RANGE);
    REJECT(h.remote = -500ull, UNETMM_WHY_RANGE);
    REJECT(h.handle = 5, UNETMM_WHY_RIGHT);
    /* An early one is only dropped: its turn will come. */
    expect_count(&f->h, drop_rel_early, 1, {
        struct unetmm_frame h = head(psn + 1, 9001, LAST);

        peer_give(f, h, data, 1000);
    });
    peer_expect_ack(f, psn, 0, UNETMM_ACK_OK, 0);
    write_at(f, psn, 100, 500, 1, LAST | ASK);
    peer_expect_ack(f, psn + 1, 0, UNETMM_ACK_OK, 0);
    expect_there(f, 100, 500, 1);
}

/* The page is asked for; it will never be there. */
TEST_OF(test_rejected_memory, Fix *f, fix_test)
{
    const uint8_t data[100] = { 1 };
    struct unetmm_frame h = head(PEER_YOURS, 0, LAST | ASK);

    peer_open(f);
    fake_region(f->s1, 6, PEER_KEY, PEER_PAGE(FIX_PAGES + 3), 4000, 7, 1);
    h.handle = 6;
    peer_give(f, h, data, 100);
    peer_expect_ack(f, PEER_YOURS, 0, UNETMM_ACK_NOT_READY, 100);
    fake_serve(&f->d);
    peer_expect_ack(f, PEER_YOURS, 0, UNETMM_ACK_REJECTED, UNETMM_WHY_MEMORY);
    peer_void(f, PEER_YOURS, ASK);
    peer_expect_ack(f, PEER_YOURS + 1, 0, UNETMM_ACK_OK, 0);
    /* The bus refuses the table's address. */
    f->h.refuse_first = fake_vpage(f->s1, PEER_AT)->dma;
    f->h.refuse_last = f->h.refuse_first + 4095;
    write_at(f, PEER_YOURS + 1, 0, 100, 1, LAST);
    peer_expect_ack(f, PEER_YOURS + 1, 0, UNETMM_ACK_REJECTED,
                    UNETMM_WHY_MEMORY);
}

TEST_OF(test_malformed, Fix *f, fix_test)
{
    struct unetmm_frame h = head(PEER_YOURS, 0, LAST);

    peer_open(f);
    h.imm = 5;
    expect_count(&f->h, drop_malformed, 1, peer_give(f, h, NULL, 0));
    h = head(PEER_YOURS, 0, NOTIFY);
    expect_count(&f->h, drop_malformed, 1, peer_give(f, h, NULL, 0));
    h = head(PEER_YOURS, 0, LAST);
    h.flags |= 0x20;
    expect_count(&f->h, drop_malformed, 1, peer_give(f, h, NULL, 0));
    for (unsigned i = 0; i < 5; i++) {
        h = (struct unetmm_frame) { .opcode = UNETMM_WIRE_VOID,
                                    .psn = PEER_YOURS, .offset = i == 0,
                                    .remote = i == 1, .handle = i == 2,
                                    .imm = i == 3 };
        expect_count(&f->h, drop_malformed, 1,
                     peer_give(f, h, "x", i == 4));
    }
    peer_silence(f);
}

/* ---- The peer rejects --------------------------------------------------- */

TEST(test_peer_rejects, fix_test)
{
    static const uint8_t status[] = {
        [UNETMM_WHY_REGION] = UNETMM_ST_REVOKED,
        [UNETMM_WHY_RANGE] = UNETMM_ST_REMOTE_RANGE,
        [UNETMM_WHY_RIGHT] = UNETMM_ST_REMOTE_RIGHT,
        [UNETMM_WHY_MEMORY] = UNETMM_ST_REMOTE_MEMORY,
        [UNETMM_WHY_COUNTER] = UNETMM_ST_REMOTE_COUNTER,
    };
    Fix *f = *state;
    uint32_t psn = PEER_MY;

    peer_open(f);
    for (unsigned why = 3; why < 8; why++, psn += 5) {
        fake_send_inline(&f->a, PEER_CH, 1, 20, 1, 0);
        peer_post(f, peer_sqe(UNETMM_OP_WRITE, 0, 3000, 0, 2));
        fake_send_inline(&f->a, PEER_CH, 3, 20, 3, 0);
        fake_ring_bell(&f->a);
        assert_int_equal(f->h.wire->len, 5);
        fake_wire_clear(&f->h);
        /* The second of its packets; the third had been kept. */
        peer_ack_as(f, psn + 2, 0x1, UNETMM_ACK_REJECTED, why);
        fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
        fake_expect(&f->a, UNETMM_CQE_SENT, status[why], 2);
        fake_expect_none(&f->a);
        peer_expect(f, UNETMM_WIRE_VOID, psn + 2);
        peer_silence(f);
        /* Said again, it goes again, and nothing else happens. */
        peer_ack_as(f, psn + 2, 0x1, UNETMM_ACK_REJECTED, why);
        peer_expect(f, UNETMM_WIRE_VOID, psn + 2);
        peer_silence(f);
        /* A kept packet is rejected at its turn. */
        peer_ack_as(f, psn + 3, 0, UNETMM_ACK_REJECTED, why);
        peer_expect(f, UNETMM_WIRE_VOID, psn + 3);
        fake_expect_none(&f->a);
        peer_ack_as(f, psn + 2, 0x1, UNETMM_ACK_REJECTED, why);
        peer_silence(f);
        peer_ack(f, psn + 5, 0);
        fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 3);
    }
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_rejects), 5);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_drop_rel_ack), 0);
}

/* Of a long one the rest is not sent. */
TEST_OF(test_peer_rejects_early, Fix *f, fix_test)
{
    peer_open(f);
    peer_post(f, peer_sqe(UNETMM_OP_WRITE, 0, 90000, 0, 1));
    assert_int_equal(f->h.wire->len, 64);
    peer_post(f, peer_sqe(UNETMM_OP_WRITE, 0, 10, 0, 2));
    fake_wire_clear(&f->h);
    peer_ack_as(f, PEER_MY, 0, UNETMM_ACK_REJECTED, UNETMM_WHY_REGION);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_REVOKED, 1);
    for (unsigned i = 0; i < 64; i++) {
        peer_expect(f, UNETMM_WIRE_VOID, PEER_MY + i);
    }
    peer_silence(f);
    peer_ack(f, PEER_MY + 64, 0);
    peer_expect(f, UNETMM_WIRE_WRITE, PEER_MY + 64);
    peer_ack(f, PEER_MY + 65, 0);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
}

#define LIE(psn, bits, why) do { \
        expect_count(&f->h, drop_rel_ack, 1, \
                     peer_ack_as(f, psn, bits, UNETMM_ACK_REJECTED, why)); \
        fake_expect_none(&f->a); \
        peer_silence(f); \
    } while (0)

TEST_OF(test_lies, Fix *f, fix_test)
{
    peer_open(f);
    fake_send_inline(&f->a, PEER_CH, 1, 20, 1, 0);
    peer_post(f, peer_sqe(UNETMM_OP_WRITE, 0, 1500, 0, 2));
    fake_wire_clear(&f->h);
    LIE(PEER_MY, 0, UNETMM_WHY_REGION);         /* a SEND */
    LIE(PEER_MY + 3, 0, UNETMM_WHY_REGION);     /* not sent */
    LIE(PEER_MY + 60, 0, UNETMM_WHY_REGION);
    LIE(PEER_MY + 1, 0x2, UNETMM_WHY_REGION);
    for (unsigned why = 0; why < 3; why++) {
        LIE(PEER_MY + 1, 0, why);
    }
    LIE(PEER_MY + 1, 0, UNETMM_WHY_COUNTER + 1);
    LIE(PEER_MY + 1, 0, ~0u);
    peer_ack(f, PEER_MY + 3, 0);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
    LIE(PEER_MY + 3, 0, UNETMM_WHY_REGION);
    expect_count(&f->h, drop_rel_ack, 0,
                 peer_ack_as(f, PEER_MY + 1, 0, UNETMM_ACK_REJECTED, 3));
}

/* Its memory goes in mid-message: the message ends, the channel does not. */
TEST_OF(test_source_lost, Fix *f, fix_test)
{
    peer_open(f);
    peer_post(f, peer_sqe(UNETMM_OP_WRITE, FIX_PAGES - 1, 5000, 0, 1));
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_PROTECTION, 1);
    for (unsigned i = 0; i < 4; i++) {
        peer_expect(f, UNETMM_WIRE_WRITE, PEER_MY + i);
    }
    for (unsigned i = 0; i < 4; i++) {
        peer_expect(f, UNETMM_WIRE_VOID, PEER_MY + i);
    }
    peer_ack(f, PEER_MY + 4, 0);
    fake_send_inline(&f->a, PEER_CH, 1, 20, 2, 0);
    fake_ring_bell(&f->a);
    peer_expect(f, UNETMM_WIRE_SEND, PEER_MY + 4);
    peer_ack(f, PEER_MY + 5, 0);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
}

/* ---- Pages -------------------------------------------------------------- */

TEST_OF(test_page_missing, Fix *f, fix_test)
{
    struct unetmm_fault miss;

    peer_open(f);
    fake_invalidate(f->s1, PEER_PAGE(21), FAKE_PAGE);
    /* Early: dropped, and asked for ahead. */
    expect_count(&f->h, drop_rel_early, 1,
                 write_at(f, PEER_YOURS + 1, 4000, 500, 1, LAST));
    peer_expect_ack(f, PEER_YOURS, 0, UNETMM_ACK_OK, 0);
    assert_true(fake_fault(&f->d, &miss));
    assert_int_equal(miss.flags, UNETMM_FAULT_F_WRITE);
    assert_int_equal(miss.vaddr, PEER_PAGE(21));
    write_at(f, PEER_YOURS, 3900, 500, 1, LAST);
    peer_expect_ack(f, PEER_YOURS, 0, UNETMM_ACK_NOT_READY, 100);
    assert_int_equal(fake_resolve(&f->d, &miss, 1, NULL), UNETMM_CS_OK);
    peer_expect_ack(f, PEER_YOURS, 0, UNETMM_ACK_OK, 0);
    expect_there(f, 0, 0, 0);
    write_at(f, PEER_YOURS, 3900, 500, 1, LAST | ASK);
    peer_expect_ack(f, PEER_YOURS + 1, 0, UNETMM_ACK_OK, 0);
    expect_there(f, 3900, 500, 1);
}

/*
 * A peer gives two packets one number: the page of the first, which was
 * dropped, is of no interest to the second, which is kept.
 */
TEST(test_page_of_another, fix_test)
{
    static const uint8_t data[100] = "needs a buffer";
    struct unetmm_frame other = {
        .opcode = UNETMM_WIRE_SEND, .psn = PEER_YOURS + 1,
        .remote = sizeof(data), .flags = LAST,
    };
    Fix *f = *state;
    struct unetmm_fault miss;

    peer_open(f);
    fake_invalidate(f->s1, PEER_PAGE(21), FAKE_PAGE);
    write_at(f, PEER_YOURS + 1, 4000, 500, 1, LAST);
    assert_true(fake_fault(&f->d, &miss));
    peer_give(f, other, data, sizeof(data));
    assert_int_equal(f->h.core.rel->kept, 1);
    write_at(f, PEER_YOURS, 0, 500, 1, LAST);
    assert_int_equal(fake_reply(&f->d, &miss, UNETMM_REPLY_ERROR,
                                UNETMM_ST_LIMIT), UNETMM_CS_OK);
    assert_int_equal(f->h.core.rel->kept, 1);
    fake_post(&f->a, PEER_PAGE(1), 4096, 80);
    fake_ring_bell(&f->a);
    fake_serve(&f->d);
    fake_wire_clear(&f->h);
    peer_give(f, other, data, sizeof(data));
    assert_int_equal(fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK,
                                 80).len, sizeof(data));
    assert_int_equal(f->h.core.rel->kept, 0);
    peer_expect_ack(f, PEER_YOURS + 2, 0, UNETMM_ACK_OK, 0);
}

#define PAGE_NS 5000

static void slow(UnetmmParams *p)
{
    p->dma_page_ns = PAGE_NS;
}

TEST_OF(test_slow, Fix *f, fix_test_with, slow)
{
    peer_open(f);
    /* Three pieces on two pages, early; then the bytes round them. */
    write_at(f, PEER_YOURS + 1, 4000, 100, 1, LAST | NOTIFY);
    peer_expect_ack(f, PEER_YOURS, 0, UNETMM_ACK_OK, 0);
    write_at(f, PEER_YOURS, 3500, 1000, 1, LAST | NOTIFY);
    fake_advance(&f->h, 2 * PAGE_NS);
    fake_wire_clear(&f->h);
    fake_expect_none(&f->a);
    fake_advance(&f->h, 10 * PAGE_NS);
    peer_expect_ack(f, PEER_YOURS + 2, 0, UNETMM_ACK_OK, 0);
    assert_int_equal(expect_notify(f, 1000).offset, 3500);
    assert_int_equal(expect_notify(f, 100).offset, 4000);
    expect_there(f, 3500, 1000, 1);
}

static void issue_clear(Fix *f)
{
    struct unetmm_cmd clear = { .opcode = UNETMM_CMD_REGION_CLEAR,
                                .region.region = PEER_REGION };

    fake_issue(&f->d, clear);
}

/* Cleared while its first page moves: the second one never does. */
TEST_OF(test_revoked, Fix *f, fix_test_with, slow)
{
    struct unetmm_cmd_done done;

    peer_open(f);
    write_at(f, PEER_YOURS, 3500, 1000, 1, LAST | NOTIFY);
    fake_advance(&f->h, PAGE_NS / 2);
    issue_clear(f);
    assert_false(fake_done(&f->d, &done));
    assert_int_equal(fake_region(f->s1, PEER_REGION, PEER_KEY, PEER_AT,
                                 PEER_LENGTH, 7, 1), UNETMM_CS_EXISTS);
    assert_int_equal(fake_region_clear(&f->d, PEER_REGION), UNETMM_CS_BAD_ID);
    expect_count(&f->h, drop_revoked, 1, fake_advance(&f->h, PAGE_NS));
    assert_true(fake_done(&f->d, &done));
    assert_int_equal(done.opcode, UNETMM_CMD_REGION_CLEAR);
    assert_int_equal(done.status, UNETMM_CS_OK);
    expect_there(f, 3500, FAKE_PAGE - 104 - 3500, 1);
    peer_expect_ack(f, PEER_YOURS, 0, UNETMM_ACK_REJECTED, UNETMM_WHY_REGION);
    /* And nothing is written through it any more. */
    fake_snapshot(&f->h);
    fake_advance(&f->h, 100 * PAGE_NS);
    fake_expect_only(&f->h, FAKE_RAM_BASE, 0);
    fake_expect_none(&f->a);
    assert_int_equal(f->h.core.ring->late, 0);
}

/* The same for one before its turn: it is not kept. */
TEST_OF(test_revoked_early, Fix *f, fix_test_with, slow)
{
    struct unetmm_cmd_done done;

    peer_open(f);
    write_at(f, PEER_YOURS + 1, 0, 100, 1, LAST | NOTIFY);
    issue_clear(f);
    expect_count(&f->h, drop_revoked, 1, fake_advance(&f->h, PAGE_NS));
    assert_true(fake_done(&f->d, &done));
    peer_expect_ack(f, PEER_YOURS, 0, UNETMM_ACK_OK, 0);
}

/* The endpoint or the channel goes at that moment. */
TEST_OF(test_revoked_and_gone, Fix *f, fix_test_with, slow)
{
    struct unetmm_cmd gone[] = {
        { .opcode = UNETMM_CMD_CHANNEL_CLEAR, .ep = 1,
          .channel.channel = PEER_CH },
        { .opcode = UNETMM_CMD_EP_DESTROY, .ep = 1 },
    };
    struct unetmm_cmd_done done;

    for (unsigned i = 0; i < 2; i++) {
        unsigned n = 0;

        peer_open(f);
        write_at(f, PEER_YOURS, 0, 100, 1, LAST | NOTIFY);
        issue_clear(f);
        fake_issue(&f->d, gone[i]);
        fake_advance(&f->h, PAGE_NS);
        while (fake_done(&f->d, &done)) {
            assert_int_equal(done.status, UNETMM_CS_OK);
            n++;
        }
        assert_int_equal(n, 2);
        assert_false(f->h.core.remote->regions[PEER_REGION].live);
        assert_int_equal(f->h.core.ring->late, 0);
    }
}

/* Kept, and at its turn the region is gone: the data was in time. */
TEST_OF(test_revoked_between, Fix *f, fix_test)
{
    peer_open(f);
    write_at(f, PEER_YOURS + 1, 0, 100, 1, LAST | NOTIFY);
    fake_region_clear(&f->d, PEER_REGION);
    fake_wire_clear(&f->h);
    expect_count(&f->h, rel_unnotified, 1, peer_void(f, PEER_YOURS, ASK));
    peer_expect_ack(f, PEER_YOURS + 2, 0, UNETMM_ACK_OK, 0);
    fake_expect_none(&f->a);
}

/* ---- Immediates --------------------------------------------------------- */

#define IMM     UNETMM_WIRE_F_IMM

static struct unetmm_frame imm_head(uint8_t opcode, uint32_t psn)
{
    struct unetmm_frame h = head(psn, 0, LAST | IMM | ASK);

    h.opcode = opcode;
    h.imm = 0xcafe0000u + psn % 16;
    if (opcode == UNETMM_WIRE_SEND) {
        h.handle = h.offset = 0;
    }
    return h;
}

static struct unetmm_cqe expect_imm(Fix *f, uint8_t opcode, uint64_t cookie,
                                    uint32_t psn)
{
    struct unetmm_cqe cqe = fake_expect(&f->a, opcode, UNETMM_ST_OK, cookie);

    assert_true(cqe.flags & UNETMM_CQE_F_IMM);
    assert_int_equal(cqe.imm, 0xcafe0000u + psn % 16);
    assert_int_equal(cqe.channel, PEER_CH);
    return cqe;
}

/* Each takes one buffer, in order with the messages. */
TEST_OF(test_imm_in_order, Fix *f, fix_test)
{
    struct unetmm_frame send = imm_head(UNETMM_WIRE_SEND, PEER_YOURS + 1);
    uint8_t data[100] = { 1 };

    peer_open(f);
    for (unsigned i = 0; i < 3; i++) {
        fake_post(&f->a, PEER_PAGE(i), 4096, 70 + i);
    }
    fix_settle(f);
    /* Early: the data is in place, and the buffer is not taken. */
    peer_give(f, imm_head(UNETMM_WIRE_WRITE, PEER_YOURS + 2), data, 100);
    fake_expect_none(&f->a);
    peer_give(f, imm_head(UNETMM_WIRE_WRITE, PEER_YOURS), NULL, 0);
    assert_int_equal(expect_imm(f, UNETMM_CQE_WRITTEN, 70, PEER_YOURS).len, 0);
    fake_expect_none(&f->a);
    send.remote = 100;
    peer_give(f, send, data, 100);
    expect_imm(f, UNETMM_CQE_RECEIVED, 71, PEER_YOURS + 1);
    assert_int_equal(expect_imm(f, UNETMM_CQE_WRITTEN, 72,
                                PEER_YOURS + 2).len, 100);
    fake_expect_none(&f->a);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_imms), 2);
}

/* Without a buffer it is refused as not ready, and comes when there is one. */
TEST_OF(test_imm_not_ready, Fix *f, fix_test)
{
    uint8_t data[8] = { 7 };

    peer_open(f);
    for (unsigned early = 0; early < 2; early++) {
        uint32_t psn = PEER_YOURS + early * 2;

        if (early) {
            peer_give(f, imm_head(UNETMM_WIRE_WRITE, psn + 1), data, 8);
            peer_void(f, psn, 0);
        } else {
            peer_give(f, imm_head(UNETMM_WIRE_WRITE, psn), data, 8);
        }
        fake_expect_none(&f->a);
        fake_wire_clear(&f->h);
        fake_post(&f->a, PEER_PAGE(1), 4096, 80 + early);
        fix_settle(f);
        fake_wire_clear(&f->h);
        peer_give(f, imm_head(UNETMM_WIRE_WRITE, psn + early), data, 8);
        assert_int_equal(expect_imm(f, UNETMM_CQE_WRITTEN, 80 + early,
                                    psn + early).len, 8);
        fake_expect_none(&f->a);
        psn++;
        if (!early) {
            peer_void(f, psn, 0);
        }
    }
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_imms), 2);
}

/* An immediate is said once, at the end, and by a flag. */
TEST_OF(test_imm_malformed, Fix *f, fix_test)
{
    struct unetmm_frame bad;

    peer_open(f);
#define BAD_FRAME(op, change) do { \
        bad = imm_head(op, PEER_YOURS); \
        change; \
        expect_count(&f->h, drop_malformed, 1, peer_give(f, bad, NULL, 0)); \
        fake_expect_none(&f->a); \
        peer_silence(f); \
    } while (0)
    BAD_FRAME(UNETMM_WIRE_WRITE, bad.flags &= ~LAST);
    BAD_FRAME(UNETMM_WIRE_WRITE, bad.flags |= NOTIFY);
    BAD_FRAME(UNETMM_WIRE_WRITE, bad.flags |= UNETMM_WIRE_F_COUNT);
    BAD_FRAME(UNETMM_WIRE_SEND, bad.flags &= ~LAST);
    BAD_FRAME(UNETMM_WIRE_SEND, bad.flags &= ~IMM);
    BAD_FRAME(UNETMM_WIRE_READ, bad.imm = 1);
    BAD_FRAME(UNETMM_WIRE_VOID, bad.imm = bad.handle = bad.offset = 0);
#undef BAD_FRAME
    BAD(s.flags = UNETMM_SQE_F_IMM | UNETMM_SQE_F_NOTIFY, UNETMM_ST_BAD_DESC);
    BAD(s.flags = UNETMM_SQE_F_IMM | UNETMM_SQE_F_COUNT, UNETMM_ST_BAD_DESC);
    BAD((s.opcode = UNETMM_OP_READ, s.flags = UNETMM_SQE_F_IMM),
        UNETMM_ST_BAD_DESC);
    BAD((s.opcode = UNETMM_OP_SEND, s.handle = 0, s.remote = 0,
         s.channel = FIX_WIRE, s.flags = UNETMM_SQE_F_IMM),
        UNETMM_ST_BAD_CHANNEL);
}

/* It goes with the last packet, and with every repetition of that. */
TEST_OF(test_imm_sent, Fix *f, fix_test)
{
    peer_open(f);
    for (unsigned op = UNETMM_OP_SEND; op <= UNETMM_OP_WRITE; op += 2) {
        struct unetmm_sqe s = peer_sqe(op, 0, 1500, 0, op);
        uint32_t psn = PEER_MY + (op == UNETMM_OP_WRITE ? 2 : 0);
        PeerFrame p;

        s.flags = UNETMM_SQE_F_IMM;
        s.imm = 0x89abcdef;
        s.handle = op == UNETMM_OP_WRITE ? s.handle : 0;
        peer_post(f, s);
        p = peer_take(f);
        assert_int_equal(p.h.psn, psn);
        assert_int_equal(p.h.flags & IMM, 0);
        for (unsigned i = 0; i < 2; i++) {
            p = peer_take(f);
            assert_int_equal(p.h.psn, psn + 1);
            assert_true(p.h.flags & IMM);
            assert_int_equal(p.h.imm, 0x89abcdef);
            if (!i) {
                peer_ack(f, psn + 1, 0);
                fake_wire_clear(&f->h);
                fake_advance(&f->h, 1000 * PEER_US);
            }
        }
        fake_wire_clear(&f->h);
        peer_ack(f, psn + 2, 0);
        fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, op);
    }
}

/* Datagrams and messages, of no bytes too: each takes a buffer. */
TEST_OF(test_no_inline, Fix *f, fix_test)
{
    static const struct unetmm_cmd_channel usual = { .mtu = 1000 };
    static const uint32_t lengths[] = { 0, 8, 40, 41 };
    const uint8_t *mac = f->h.core.params.mac;
    struct unetmm_cmd bad;
    uint64_t cookie = 500;
    FakeEp c;

    fake_ep_init(&c, &f->d, 3, f->s1);
    c.flags = UNETMM_EP_F_NO_INLINE;
    fake_ep_alloc(&c);
    bad = fake_ep_cmd(&c);
    bad.ep_create.flags |= UNETMM_EP_F_RAW;
    assert_int_equal(fake_command(&f->d, bad, NULL), UNETMM_CS_BAD_ARG);
    fake_ep_create(&c);
    fake_connect(&f->a, &c, 7, 1000);
    assert_int_equal(fake_channel_rel(&f->a, 8, mac, 3, 8, &usual), 0);
    assert_int_equal(fake_channel_rel(&c, 8, mac, 1, 8, &usual), 0);
    for (unsigned channel = 7; channel <= 8; channel++) {
        for (unsigned i = 0; i < G_N_ELEMENTS(lengths); i++) {
            struct unetmm_cqe cqe;

            fake_post(&c, PEER_PAGE(2), 4096, ++cookie);
            fake_ring_bell(&c);
            fix_settle(f);
            fake_send_inline(&f->a, channel, i, lengths[i], 9, 0);
            fix_settle(f);
            fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 9);
            cqe = fake_expect(&c, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, cookie);
            assert_int_equal(cqe.len, lengths[i]);
            assert_int_equal(cqe.flags & UNETMM_CQE_F_INLINE, 0);
            fake_check(f->s1, PEER_PAGE(2), lengths[i], i);
        }
    }
    fake_expect_none(&c);
}
