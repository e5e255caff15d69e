/*
 * unetmm: operations by key: descriptors, packets both ways, wrong keys
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "peer.h"

#define REGION      7
#define KEY         0x0badcafeu
#define AT          (PEER_PAGE(20) + 40)    /* the region's first byte ... */
#define LENGTH      9000                    /* ... and how many */
#define LAST        UNETMM_WIRE_F_LAST
#define ASK         UNETMM_WIRE_F_ASK
#define KEYED       UNETMM_WIRE_F_KEYED

/* The peer's scene, with a region that has opted in. */
static void open_keyed(Fix *f)
{
    peer_open(f);
    assert_int_equal(fake_region(f->s1, REGION, KEY, AT, LENGTH,
                                 UNETMM_RIGHT_ALL, UNETMM_REGION_F_KEYED |
                                 UNETMM_REGION_F_NOTIFY), UNETMM_CS_OK);
}

/* ---- Sent ---------------------------------------------------------------- */

static struct unetmm_sqe by_key(uint8_t op, uint32_t len, uint64_t remote)
{
    struct unetmm_sqe s = peer_sqe(op, 0, len, remote, 9);

    s.flags = UNETMM_SQE_F_KEYED;
    s.region = 0xabcd;
    s.handle = 0x12345678;
    return s;
}

#define BAD(change, why) do { \
        struct unetmm_sqe s = by_key(UNETMM_OP_WRITE, 100, AT); \
        change; \
        peer_post(f, s); \
        fake_expect(&f->a, UNETMM_CQE_SENT, why, 9); \
        fake_expect_none(&f->a); \
        peer_silence(f); \
    } while (0)

TEST_OF(test_descriptors, Fix *f, fix_test)
{
    peer_open(f);
    BAD(s.channel = FIX_WIRE, UNETMM_ST_BAD_CHANNEL);
    BAD(s.channel = 9, UNETMM_ST_BAD_CHANNEL);
    BAD(s.channel = 0xffff, UNETMM_ST_BAD_CHANNEL);
    BAD(s.imm = 1, UNETMM_ST_BAD_DESC);
    BAD((s.opcode = UNETMM_OP_SEND, s.region = 0, s.handle = 0, s.remote = 0),
        UNETMM_ST_BAD_DESC);
    BAD((s.opcode = UNETMM_OP_FENCE, s.nsegs = 0, s.region = 0, s.handle = 0,
         s.remote = 0), UNETMM_ST_BAD_DESC);
    BAD((s.opcode = UNETMM_OP_READ, s.flags |= UNETMM_SQE_F_COUNT),
        UNETMM_ST_BAD_DESC);
    BAD((s.flags |= UNETMM_SQE_F_NOTIFY | UNETMM_SQE_F_COUNT),
        UNETMM_ST_BAD_DESC);
    BAD(s.opcode = UNETMM_OP_FETCH_ADD, UNETMM_ST_BAD_DESC);
    /* The number of a region without the flag is nothing's. */
    BAD((s.flags = 0, s.handle = PEER_IMPORT, s.remote = 0),
        UNETMM_ST_BAD_DESC);
}

/* A card that does not know a packet would drop it, again and again. */
TEST_OF(test_peer_lacks, Fix *f, fix_test)
{
    struct unetmm_cmd_channel how = {
        .mtu = PEER_MTU, .send_psn = PEER_MY, .recv_psn = PEER_YOURS,
        .flags = UNETMM_CHANNEL_F_KEYED,
    };

    peer_open(f);
    fake_channel_rel(&f->a, PEER_CH, fake_peer_mac, PEER_EP, PEER_CH, &how);
    BAD((void)s, UNETMM_ST_PEER_LACKS);
    BAD((s.opcode = UNETMM_OP_READ), UNETMM_ST_PEER_LACKS);
    BAD((s.imm = 1), UNETMM_ST_BAD_DESC);
    how.flags = UNETMM_CHANNEL_F_IMM;
    fake_channel_rel(&f->a, PEER_CH, fake_peer_mac, PEER_EP, PEER_CH, &how);
    BAD((s.flags |= UNETMM_SQE_F_IMM, s.imm = 1), UNETMM_ST_PEER_LACKS);
    BAD((s.opcode = UNETMM_OP_SEND, s.flags = UNETMM_SQE_F_IMM, s.region = 0,
         s.handle = 0, s.remote = 0), UNETMM_ST_PEER_LACKS);
    /* It has all others. */
    peer_post(f, by_key(UNETMM_OP_WRITE, 100, AT));
    peer_expect(f, UNETMM_WIRE_WRITE, PEER_MY);
}

/* Number, key and address are in each packet; no import is needed. */
TEST_OF(test_packets, Fix *f, fix_test)
{
    peer_open(f);
    fake_import_clear(&f->a, PEER_IMPORT);
    fake_fill(f->s1, PEER_PAGE(0), 2500, 3);
    peer_post(f, by_key(UNETMM_OP_WRITE, 2500, UINT64_MAX - 1200));
    for (uint32_t i = 0; i < 3; i++) {
        PeerFrame p = peer_expect(f, UNETMM_WIRE_WRITE, PEER_MY + i);

        assert_int_equal(p.h.handle, 0xabcd);
        assert_int_equal(p.h.offset, 0x12345678);
        /* An address that wraps is the peer's to refuse. */
        assert_int_equal(p.h.remote, UINT64_MAX - 1200 + i * 1000);
        assert_int_equal(p.h.flags, i < 2 ? KEYED : KEYED | LAST | ASK);
    }
    peer_ack(f, PEER_MY + 3, 0);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 9);
    peer_post(f, by_key(UNETMM_OP_READ, 800, AT));
    assert_int_equal(peer_expect(f, UNETMM_WIRE_READ, PEER_MY + 3).h.flags,
                     KEYED);
}

/* Of no bytes: a fence, unless it tells something.  No region is looked at. */
TEST_OF(test_nothing, Fix *f, fix_test)
{
    struct unetmm_sqe s = by_key(UNETMM_OP_WRITE, 0, UINT64_MAX);
    PeerFrame p;

    peer_open(f);
    for (uint32_t i = 0; i < 2; i++) {
        s.nsegs = i;
        peer_post(f, s);
        p = peer_expect(f, UNETMM_WIRE_VOID, PEER_MY + i);
        assert_int_equal(p.h.flags, ASK);
        assert_int_equal(p.h.handle | p.h.offset | p.h.remote | p.h.imm, 0);
        fake_expect_none(&f->a);
        peer_ack(f, PEER_MY + i + 1, 0);
        fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 9);
    }
    s.flags |= UNETMM_SQE_F_NOTIFY;
    peer_post(f, s);
    p = peer_expect(f, UNETMM_WIRE_WRITE, PEER_MY + 2);
    assert_int_equal(p.h.flags, KEYED | LAST | ASK | UNETMM_WIRE_F_NOTIFY);
    peer_ack(f, PEER_MY + 3, 0);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 9);
    peer_silence(f);
}

/* ---- Received ------------------------------------------------------------ */

static struct unetmm_frame packet(uint8_t opcode, uint32_t psn, uint32_t key,
                                  uint64_t remote)
{
    return (struct unetmm_frame) {
        .opcode = opcode, .psn = PEER_YOURS + psn, .handle = REGION,
        .offset = key, .remote = remote,
        .flags = KEYED | (opcode == UNETMM_WIRE_WRITE ? LAST : 0) |
                 (opcode == UNETMM_WIRE_WRITE ? ASK : 0),
        .imm = opcode == UNETMM_WIRE_READ ? 8 :
               opcode == UNETMM_WIRE_ATOMIC ? UNETMM_ATOMIC_ADD : 0,
    };
}

static void give_write(Fix *f, uint32_t psn, uint32_t key, uint64_t remote,
                       const char *text)
{
    peer_give(f, packet(UNETMM_WIRE_WRITE, psn, key, remote), text,
              strlen(text));
}

static void expect_text(Fix *f, uint64_t at, const char *text)
{
    char got[16] = "";

    fake_load(f->s1, at, got, strlen(text));
    assert_string_equal(got, text);
}

static void rejected(Fix *f, uint32_t psn, uint32_t why)
{
    peer_expect_ack(f, PEER_YOURS + psn, 0, UNETMM_ACK_REJECTED, why);
    peer_silence(f);
    /* The packet has been counted as rejected, and as nothing else. */
    assert_int_equal(fake_counter(&f->h, UNETMM_C_drop_rel_failed), 0);
}

static uint64_t bad_keys(Fix *f)
{
    return fake_counter(&f->h, UNETMM_C_rel_bad_keys);
}

TEST_OF(test_placed, Fix *f, fix_test)
{
    struct unetmm_frame h;
    uint64_t one = cpu_to_le64(1);
    struct unetmm_cqe cqe;
    PeerFrame p;

    open_keyed(f);
    give_write(f, 0, KEY, AT + 100, "first");
    expect_text(f, AT + 100, "first");
    peer_expect_ack(f, PEER_YOURS + 1, 0, 0, 0);
    /* The notification has the offset. */
    h = packet(UNETMM_WIRE_WRITE, 1, KEY, AT + 200);
    h.flags |= UNETMM_WIRE_F_NOTIFY;
    h.imm = 5;
    peer_give(f, h, "second", 6);
    cqe = fake_expect(&f->a, UNETMM_CQE_NOTIFY, 0, REGION + 0x7000);
    assert_int_equal(cqe.notify.offset, 200);
    peer_expect_ack(f, PEER_YOURS + 2, 0, 0, 0);
    peer_give(f, packet(UNETMM_WIRE_READ, 2, KEY, AT + 200), NULL, 0);
    fix_settle(f);
    p = peer_expect(f, UNETMM_WIRE_ANSWER, PEER_YOURS + 2);
    assert_memory_equal(p.data, "second", 6);
    peer_give(f, packet(UNETMM_WIRE_ATOMIC, 3, KEY, PEER_PAGE(21)), &one, 8);
    peer_expect(f, UNETMM_WIRE_ANSWER, PEER_YOURS + 3);
    /* Once more: it is told, and not done. */
    peer_give(f, packet(UNETMM_WIRE_ATOMIC, 3, KEY, PEER_PAGE(21)), &one, 8);
    peer_expect(f, UNETMM_WIRE_ANSWER, PEER_YOURS + 3);
    peer_expect_ack(f, PEER_YOURS + 4, 0, 0, 0);
    peer_give(f, packet(UNETMM_WIRE_READ, 2, KEY, AT + 200), NULL, 0);
    peer_expect(f, UNETMM_WIRE_ANSWER, PEER_YOURS + 2);
    peer_expect_ack(f, PEER_YOURS + 4, 0, 0, 0);
    assert_int_equal(bad_keys(f), 0);
}

/* Before its turn, in place at once; of two to one place the second stays. */
TEST_OF(test_early, Fix *f, fix_test)
{
    open_keyed(f);
    give_write(f, 1, KEY, AT + 300, "new");
    peer_expect_ack(f, PEER_YOURS, 1, 0, 0);
    give_write(f, 0, KEY, AT + 300, "old");
    peer_expect_ack(f, PEER_YOURS + 2, 0, 0, 0);
    expect_text(f, AT + 300, "new");
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_trimmed), 1);
}

TEST_OF(test_range, Fix *f, fix_test)
{
    static const uint64_t beyond[] = {
        AT - 1, AT + LENGTH - 2, AT + LENGTH, 0, 100, UINT64_MAX - 1,
        0xffff800000000000ull,
    };

    open_keyed(f);
    for (uint32_t i = 0; i < G_N_ELEMENTS(beyond); i++) {
        give_write(f, i, KEY, beyond[i], "xyz");
        rejected(f, i, UNETMM_WHY_RANGE);
        peer_void(f, PEER_YOURS + i, 0);
    }
    give_write(f, G_N_ELEMENTS(beyond), KEY, AT + LENGTH - 3, "end");
    peer_expect_ack(f, PEER_YOURS + G_N_ELEMENTS(beyond) + 1, 0, 0, 0);
    /* An address that is nothing's is no guess. */
    assert_int_equal(bad_keys(f), 0);
}

/* A channel that is not strict looks at the key also for no bytes. */
TEST_OF(test_no_bytes, Fix *f, fix_test)
{
    struct unetmm_frame h = packet(UNETMM_WIRE_WRITE, 0, KEY + 1, AT);

    open_keyed(f);
    h.flags |= UNETMM_WIRE_F_IMM;
    h.imm = 5;
    peer_give(f, h, NULL, 0);
    rejected(f, 0, UNETMM_WHY_REGION);
    assert_int_equal(bad_keys(f), 1);
}

static void count_to(Fix *f, uint32_t n)
{
    assert_int_equal(bad_keys(f), n);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_failed),
                     n == UNETMM_REL_BAD_KEYS);
}

/* The last of them ends the channel, for both sides. */
TEST_OF(test_guesses, Fix *f, fix_test)
{
    const struct unetmm_cmd_channel how = {
        .mtu = PEER_MTU, .send_psn = PEER_MY, .recv_psn = PEER_YOURS,
        .flags = UNETMM_CHANNEL_F_TELL,
    };
    uint32_t i;

    open_keyed(f);
    fake_channel_rel(&f->a, PEER_CH, fake_peer_mac, PEER_EP, PEER_CH, &how);
    for (i = 0; i + 1 < UNETMM_REL_BAD_KEYS; i++) {
        give_write(f, i, KEY + 1 + i, AT, "bad");
        rejected(f, i, UNETMM_WHY_REGION);
        count_to(f, i + 1);
        /* Sent again, also with the right one: it has had its try. */
        give_write(f, i, KEY, AT, "bad");
        rejected(f, i, UNETMM_WHY_REGION);
        count_to(f, i + 1);
        peer_void(f, PEER_YOURS + i, 0);
    }
    give_write(f, i, KEY ^ 1, AT, "bad");
    peer_expect_ack(f, PEER_YOURS + i, 0, UNETMM_ACK_FAILED,
                    UNETMM_WHY_REGION);
    fake_expect(&f->a, UNETMM_CQE_CLOSED, UNETMM_ST_BAD_KEYS, 0);
    count_to(f, UNETMM_REL_BAD_KEYS);
    give_write(f, i, KEY, AT, "bad");
    peer_expect_ack(f, PEER_YOURS + i, 0, UNETMM_ACK_FAILED,
                    UNETMM_WHY_REGION);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_writes), 0);
    count_to(f, UNETMM_REL_BAD_KEYS);
}

/* Many at a time are not more tries: one before its turn counts, too. */
TEST_OF(test_guesses_early, Fix *f, fix_test)
{
    open_keyed(f);
    for (uint32_t i = 1; i < UNETMM_REL_BAD_KEYS; i++) {
        give_write(f, i, KEY + i, AT, "bad");
        peer_expect_ack(f, PEER_YOURS, 0, 0, 0);
        give_write(f, i, KEY, AT, "bad");
        peer_expect_ack(f, PEER_YOURS, 0, 0, 0);
        count_to(f, i);
    }
    /* In its turn it is rejected for the same number, not counted again. */
    peer_void(f, PEER_YOURS, 0);
    give_write(f, 1, KEY + 1, AT, "bad");
    rejected(f, 1, UNETMM_WHY_REGION);
    count_to(f, UNETMM_REL_BAD_KEYS - 1);
    give_write(f, 40, KEY + 1, AT, "bad");
    count_to(f, UNETMM_REL_BAD_KEYS);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_writes), 0);
}

/* A request that has been answered may not be used to guess, either. */
TEST_OF(test_guesses_again, Fix *f, fix_test)
{
    uint32_t i;

    open_keyed(f);
    peer_give(f, packet(UNETMM_WIRE_READ, 0, KEY, AT), NULL, 0);
    fix_settle(f);
    peer_expect(f, UNETMM_WIRE_ANSWER, PEER_YOURS);
    for (i = 1; i < UNETMM_REL_BAD_KEYS; i++) {
        peer_give(f, packet(UNETMM_WIRE_READ, 0, KEY + i, AT), NULL, 0);
        peer_expect_ack(f, PEER_YOURS, 0, UNETMM_ACK_REJECTED,
                        UNETMM_WHY_REGION);
        peer_expect_ack(f, PEER_YOURS + 1, 0, 0, 0);
        count_to(f, i);
    }
    peer_give(f, packet(UNETMM_WIRE_READ, 0, KEY + i, AT), NULL, 0);
    count_to(f, UNETMM_REL_BAD_KEYS);
}

static void write_revoked(Fix *f, uint32_t from, uint32_t n, uint32_t key)
{
    for (uint32_t i = from; i < from + n; i++) {
        give_write(f, i, key, AT, "late");
        rejected(f, i, UNETMM_WHY_REGION);
        peer_void(f, PEER_YOURS + i, 0);
    }
}

/* Operations on their way when the region is cleared are no guesses. */
TEST_OF(test_revoked, Fix *f, fix_test)
{
    const uint32_t many = 2 * UNETMM_REL_BAD_KEYS;

    open_keyed(f);
    fake_region_clear(&f->d, REGION);
    /* Before its turn, and a request that was answered before. */
    give_write(f, 3, KEY, AT, "late");
    peer_expect_ack(f, PEER_YOURS, 0, 0, 0);
    write_revoked(f, 0, many, KEY);
    count_to(f, 0);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_writes), 0);
    /* The number has another region now; its key is no guess, either. */
    assert_int_equal(fake_region(f->s1, REGION, KEY + 1, AT, LENGTH,
                                 UNETMM_RIGHT_ALL, UNETMM_REGION_F_KEYED),
                     UNETMM_CS_OK);
    write_revoked(f, many, many, KEY);
    give_write(f, 2 * many, KEY + 1, AT, "right");
    peer_expect_ack(f, PEER_YOURS + 2 * many + 1, 0, 0, 0);
    expect_text(f, AT, "right");
    count_to(f, 0);
    /* The last one is remembered, and no other. */
    fake_region_clear(&f->d, REGION);
    write_revoked(f, 2 * many + 1, many, KEY + 1);
    count_to(f, 0);
    write_revoked(f, 3 * many + 1, 1, KEY);
    count_to(f, 1);
}

/* Neither of a region that had not opted in, nor in another space. */
TEST_OF(test_never_given, Fix *f, fix_test)
{
    open_keyed(f);
    fake_region_clear(&f->d, PEER_REGION);
    fake_region_clear(&f->d, REGION);
    assert_int_equal(fake_region(f->s2, REGION, KEY + 1, AT, LENGTH,
                                 UNETMM_RIGHT_ALL, UNETMM_REGION_F_KEYED),
                     UNETMM_CS_OK);
    fake_region_clear(&f->d, REGION);
    write_revoked(f, 0, 1, KEY + 1);
    count_to(f, 1);
    write_revoked(f, 1, 1, KEY + 2);
    count_to(f, 2);
}

/* Its own key does not open a region whose exporter has not opted in. */
TEST_OF(test_not_opted_in, Fix *f, fix_test)
{
    struct unetmm_frame h = packet(UNETMM_WIRE_WRITE, 0, PEER_KEY, PEER_AT);

    open_keyed(f);
    h.handle = PEER_REGION;
    peer_give(f, h, "bad", 3);
    rejected(f, 0, UNETMM_WHY_REGION);
    count_to(f, 1);
    peer_void(f, PEER_YOURS, 0);
    /* By its offset, as an import has it, it can be used; so can ours. */
    h.psn++;
    h.flags &= ~KEYED;
    h.remote = 10;
    peer_give(f, h, "by offset", 9);
    peer_expect_ack(f, PEER_YOURS + 2, 0, 0, 0);
    expect_text(f, PEER_AT + 10, "by offset");
    h.psn++;
    h.handle = REGION;
    h.offset = KEY;
    peer_give(f, h, "ours", 4);
    peer_expect_ack(f, PEER_YOURS + 3, 0, 0, 0);
    expect_text(f, AT + 10, "ours");
}

/* A region at an address of its driver's choice, 0 and the last one too. */
TEST_OF(test_iova, Fix *f, fix_test)
{
    static const uint64_t at[] = { 0, 4711, UINT64_MAX - (LENGTH - 1) };
    uint32_t psn = 0;

    peer_open(f);
    for (uint32_t i = 0; i < G_N_ELEMENTS(at); i++) {
        struct unetmm_cmd cmd = fake_region_cmd(f->s1, REGION, KEY, AT, LENGTH);

        cmd.region.flags |= UNETMM_REGION_F_KEYED | UNETMM_REGION_F_IOVA;
        cmd.region.iova = at[i] + (i == 2);
        assert_int_equal(fake_command(&f->d, cmd, NULL),
                         i == 2 ? UNETMM_CS_BAD_ARG : UNETMM_CS_OK);
        cmd.region.iova = at[i];
        assert_int_equal(fake_command(&f->d, cmd, NULL),
                         i == 2 ? UNETMM_CS_OK : UNETMM_CS_EXISTS);
        give_write(f, psn++, KEY, at[i] + LENGTH - 3, "end");
        peer_expect_ack(f, PEER_YOURS + psn, 0, 0, 0);
        expect_text(f, AT + LENGTH - 3, "end");
        fake_fill(f->s1, AT + LENGTH - 3, 3, 0);
        give_write(f, psn, KEY, at[i] + LENGTH - 2, "end");
        rejected(f, psn, UNETMM_WHY_RANGE);
        peer_void(f, PEER_YOURS + psn++, 0);
        give_write(f, psn, KEY, at[i] - 1, "end");
        rejected(f, psn, UNETMM_WHY_RANGE);
        peer_void(f, PEER_YOURS + psn++, 0);
        fake_region_clear(&f->d, REGION);
        cmd.region.flags &= ~UNETMM_REGION_F_IOVA;
        assert_int_equal(fake_command(&f->d, cmd, NULL),
                         at[i] ? UNETMM_CS_BAD_ARG : UNETMM_CS_OK);
        fake_region_clear(&f->d, REGION);
    }
}

static void open_domain(Fix *f, uint32_t ep, uint32_t region)
{
    struct unetmm_cmd cmd = fake_region_cmd(f->s1, REGION, KEY, AT, LENGTH);

    fake_ep_destroy(&f->a);
    f->a.pd = ep;
    fake_ep_create(&f->a);
    peer_open(f);
    fake_region_clear(&f->d, REGION);
    cmd.region.flags |= UNETMM_REGION_F_KEYED;
    cmd.region.pd = region;
    assert_int_equal(fake_command(&f->d, cmd, NULL), UNETMM_CS_OK);
}

/* Of another domain: as if the key were wrong, with an import as without. */
TEST(test_domain, fix_test)
{
    static const struct {
        uint32_t ep, region;
    } all[] = { { 0, 0 }, { 7, 7 }, { 7, 0 }, { 0, 7 }, { 7, 1u << 31 | 7 } };
    Fix *f = *state;

    fake_region(f->s1, REGION, KEY, AT, LENGTH, UNETMM_RIGHT_ALL, 0);
    for (uint32_t i = 0; i < G_N_ELEMENTS(all); i++) {
        bool ok = i < 3;
        struct unetmm_frame h;

        open_domain(f, all[i].ep, all[i].region);
        give_write(f, 1, KEY, AT, "early");
        peer_expect_ack(f, PEER_YOURS, ok, 0, 0);
        h = packet(UNETMM_WIRE_WRITE, 0, KEY, 0);
        h.flags &= ~KEYED;
        peer_give(f, h, "by offset", 9);
        if (ok) {
            peer_expect_ack(f, PEER_YOURS + 2, 0, 0, 0);
            continue;
        }
        rejected(f, 0, UNETMM_WHY_REGION);
        peer_void(f, PEER_YOURS, 0);
        give_write(f, 1, KEY, AT, "by key");
        rejected(f, 1, UNETMM_WHY_REGION);
        peer_void(f, PEER_YOURS + 1, 0);
        for (uint32_t psn = 2; psn < 4; psn++) {
            h = packet(psn == 2 ? UNETMM_WIRE_READ : UNETMM_WIRE_ATOMIC, psn,
                       KEY, 0);
            h.flags &= ~KEYED;
            peer_give(f, h, "operands", psn == 2 ? 0 : 8);
            rejected(f, psn, UNETMM_WHY_REGION);
            peer_void(f, PEER_YOURS + psn, 0);
        }
        assert_int_equal(fake_counter(&f->h, UNETMM_C_drop_rel_pd),
                         4 * (i - 2));
    }
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_writes), 6);
}

/* Of one endpoint: another one of the same domain is as one of another domain. */
TEST_OF(test_one_endpoint, Fix *f, fix_test)
{
    fake_region(f->s1, REGION, KEY, AT, LENGTH, UNETMM_RIGHT_ALL, 0);
    for (uint32_t i = 0; i < 2; i++) {
        open_domain(f, 7, UNETMM_PD_EP | (f->a.id + i));
        give_write(f, 0, KEY, AT, "bound");
        if (i) {
            rejected(f, 0, UNETMM_WHY_REGION);
        } else {
            peer_expect_ack(f, PEER_YOURS + 1, 0, 0, 0);
        }
        assert_int_equal(fake_counter(&f->h, UNETMM_C_drop_rel_pd), i);
    }
}

/* Also of one that is cleared: only its own domain knows the key. */
TEST_OF(test_domain_revoked, Fix *f, fix_test)
{
    fake_region(f->s1, REGION, KEY, AT, LENGTH, UNETMM_RIGHT_ALL, 0);
    for (uint32_t i = 0; i < 3; i++) {
        open_domain(f, 7, (uint32_t[]) { 7, 0, 8 }[i]);
        fake_region_clear(&f->d, REGION);
        write_revoked(f, 0, 1, KEY);
        count_to(f, i / 2);
        /* The number's next region carries the memory of the last one over. */
        fake_region(f->s1, REGION, KEY + 1, AT, LENGTH, UNETMM_RIGHT_ALL, 0);
        write_revoked(f, 1, 1, KEY);
        count_to(f, i / 2 * 2);
    }
}

/* The rights are the export's. */
TEST_OF(test_rights, Fix *f, fix_test)
{
    peer_open(f);
    fake_region(f->s1, REGION, KEY, AT, LENGTH, UNETMM_RIGHT_READ,
                UNETMM_REGION_F_KEYED);
    give_write(f, 0, KEY, AT, "bad");
    rejected(f, 0, UNETMM_WHY_RIGHT);
    count_to(f, 0);
}

static void open_denied(Fix *f, uint8_t denied)
{
    const struct unetmm_cmd_channel how = {
        .mtu = PEER_MTU, .send_psn = PEER_MY, .recv_psn = PEER_YOURS,
        .denied = denied,
    };

    assert_int_equal(fake_channel_rel(&f->a, PEER_CH, fake_peer_mac, PEER_EP,
                                      PEER_CH, &how),
                     denied > UNETMM_RIGHT_ALL ? UNETMM_CS_BAD_ARG :
                     UNETMM_CS_OK);
}

/* A number that was taken as a VOID is no READ that was answered. */
static void denied_behind_void(Fix *f, struct unetmm_frame h,
                               const uint64_t *data, uint32_t len)
{
    bool read = h.opcode == UNETMM_WIRE_READ;

    peer_void(f, PEER_YOURS, 0);
    fake_wire_clear(&f->h);
    for (uint32_t i = 0; i < 2; i++, h.flags &= ~KEYED) {
        expect_count(&f->h, drop_rel_denied, read,
                     peer_give(f, h, data, len));
        fix_settle(f);
        if (read) {
            peer_expect_ack(f, PEER_YOURS, 0, UNETMM_ACK_REJECTED,
                            UNETMM_WHY_RIGHT);
        }
        peer_expect_ack(f, PEER_YOURS + 1, 0, 0, 0);
        peer_silence(f);
    }
}

/* The channel's come first, also before the key: it is not to be guessed. */
TEST(test_denied, fix_test)
{
    static const struct {
        uint8_t opcode, right;
    } all[] = {
        { UNETMM_WIRE_WRITE, UNETMM_RIGHT_WRITE },
        { UNETMM_WIRE_READ, UNETMM_RIGHT_READ },
        { UNETMM_WIRE_ATOMIC, UNETMM_RIGHT_ATOMIC },
    };
    uint64_t one = cpu_to_le64(1);
    Fix *f = *state;

    open_keyed(f);
    open_denied(f, UNETMM_RIGHT_ALL + 1);
    for (uint32_t i = 0; i < G_N_ELEMENTS(all); i++) {
        struct unetmm_frame h = packet(all[i].opcode, 0, KEY, PEER_PAGE(21));
        uint32_t len = all[i].opcode == UNETMM_WIRE_READ ? 0 : 8;

        open_denied(f, all[i].right);
        h.psn++;
        peer_give(f, h, &one, len);
        peer_expect_ack(f, PEER_YOURS, 0, 0, 0);
        h.psn--;
        peer_give(f, h, &one, len);
        rejected(f, 0, UNETMM_WHY_RIGHT);
        h.offset++;
        peer_give(f, h, &one, len);
        rejected(f, 0, UNETMM_WHY_RIGHT);
        h.flags &= ~KEYED;
        peer_give(f, h, &one, len);
        rejected(f, 0, UNETMM_WHY_RIGHT);
        assert_int_equal(fake_counter(&f->h, UNETMM_C_drop_rel_denied),
                         3 * (i + 1) + 2 * (i == 2));
        denied_behind_void(f, packet(all[i].opcode, 0, KEY, PEER_PAGE(21)),
                           &one, len);
        /* The others are there. */
        open_denied(f, UNETMM_RIGHT_ALL & ~all[i].right);
        h = packet(all[i].opcode, 0, KEY, PEER_PAGE(21));
        peer_give(f, h, &one, len);
        fix_settle(f);
        if (all[i].opcode == UNETMM_WIRE_WRITE) {
            peer_expect_ack(f, PEER_YOURS + 1, 0, 0, 0);
        } else {
            peer_expect(f, UNETMM_WIRE_ANSWER, PEER_YOURS);
        }
        fake_wire_clear(&f->h);
    }
    assert_int_equal(bad_keys(f), 0);
}

/* Other packets have no region. */
TEST_OF(test_malformed, Fix *f, fix_test)
{
    static const uint8_t others[] = {
        UNETMM_WIRE_SEND, UNETMM_WIRE_ACK, UNETMM_WIRE_ANSWER,
        UNETMM_WIRE_VOID, UNETMM_WIRE_DATAGRAM,
    };

    open_keyed(f);
    for (uint32_t i = 0; i < G_N_ELEMENTS(others); i++) {
        struct unetmm_frame h = { .opcode = others[i], .flags = KEYED,
                                  .psn = i < 4 ? PEER_YOURS : 0 };

        peer_give(f, h, NULL, 0);
        assert_int_equal(fake_counter(&f->h, UNETMM_C_drop_malformed), i + 1);
    }
    peer_silence(f);
}
