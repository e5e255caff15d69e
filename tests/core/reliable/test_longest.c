/*
 * unetmm: strict channels: messages of up to 1 GiB, and their buffers
 *
 * Endpoints a and b, each with a strict channel to the other one on the card,
 * and a with one to the peer on the wire, put no short message in a completion:
 * their buffers may have more pages than the TLB, which has 64 + 16.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "peer.h"

#define RAM         (48u << 20)
#define CH          6
#define MTU         1024
#define LONG        ((8u << 20) + 3)
#define MOST        (1u << 30)
#define REGION      4
#define KEY         0xdeed0004u
#define IMPORT      3
#define US          1000
#define FROM        0x7f3300000c00ull
#define TO          0x7f4400000801ull
#define LAST        UNETMM_WIRE_F_LAST

static int setup(void **state)
{
    FixTune *tune = (FixTune *)*state;
    Fix *f = g_new0(Fix, 1);
    FakeEp *eps[] = { &f->a, &f->b };
    UnetmmParams p;

    fake_params(&p);
    if (tune) {
        tune(&p);
    }
    fake_host_init_large(&f->h, &p, RAM);
    fake_driver_init(&f->d, &f->h);
    fake_driver_start(&f->d);
    f->s1 = fake_space(&f->d, 1, UNETMM_SOURCE_TLB, 0);
    f->s2 = fake_space(&f->d, 2, UNETMM_SOURCE_TLB, 0);
    for (unsigned i = 0; i < 2; i++) {
        fake_map(i ? f->s2 : f->s1, FIX_VA, FIX_PAGES * FAKE_PAGE, FAKE_RW);
        fake_ep_init(eps[i], &f->d, 1 + i, i ? f->s2 : f->s1);
        eps[i]->flags = UNETMM_EP_F_NO_INLINE;
        fake_ep_create(eps[i]);
    }
    *state = f;
    return 0;
}

#define long_test(fn) long_test_with(fn, NULL)
#define long_test_with(fn, tune) \
    cmocka_unit_test_prestate_setup_teardown(fn, setup, fix_teardown, \
                                             (void *)(tune))

/* ---- On the card itself -------------------------------------------------- */

typedef struct Part {
    uint64_t at;
    uint32_t len;
} Part;

static void connect(Fix *f)
{
    const uint8_t *own = f->h.core.params.mac;
    const struct unetmm_cmd_channel how = {
        .mtu = MTU, .flags = UNETMM_CHANNEL_F_STRICT,
    };

    fake_map(f->s1, FROM, LONG, FAKE_RW);
    fake_map(f->s2, TO, LONG, FAKE_RW);
    assert_int_equal(fake_channel_rel(&f->a, CH, own, 2, CH, &how),
                     UNETMM_CS_OK);
    assert_int_equal(fake_channel_rel(&f->b, CH, own, 1, CH, &how),
                     UNETMM_CS_OK);
    assert_int_equal(fake_region(f->s2, REGION, KEY, TO, LONG,
                                 UNETMM_RIGHT_ALL, 0), UNETMM_CS_OK);
    assert_int_equal(fake_import(&f->a, IMPORT, CH, REGION, KEY, LONG,
                                 UNETMM_RIGHT_ALL), UNETMM_CS_OK);
}

/* a sends, writes or reads, until that is complete. */
static void transfer(Fix *f, uint8_t opcode)
{
    struct unetmm_sqe s = {
        .opcode = opcode, .channel = CH, .nsegs = 2, .cookie = 7,
        .handle = opcode == UNETMM_OP_SEND ? 0 : IMPORT,
        .seg = { { .addr = FROM, .len = 5000 },
                 { .addr = FROM + 5000, .len = LONG - 5000 } },
    };
    struct unetmm_cqe cqe;

    fake_send_sqe(&f->a, s);
    fake_ring_bell(&f->a);
    for (unsigned rounds = 0; !fake_poll(&f->a, &cqe); rounds++) {
        assert_true(rounds < 50000);
        fake_serve(&f->d);
        fake_advance(&f->h, 100 * US);
    }
    assert_int_equal(cqe.status, UNETMM_ST_OK);
    assert_int_equal(cqe.cookie, 7);
    assert_int_equal(cqe.len, LONG);
    assert_true(fake_counter(&f->h, UNETMM_C_tlb_evictions) >= LONG / FAKE_PAGE);
}

/* The message's bytes from `from` on are there. */
static void check_part(FakeSpace *s, const Part *part, uint32_t from)
{
    g_autofree uint8_t *got = g_malloc(part->len);

    fake_load(s, part->at, got, part->len);
    for (uint32_t i = 0; i < part->len; i++) {
        assert_int_equal(got[i], fake_pattern(3, from + i));
    }
}

/* Into a chain, of which one part is longer than the TLB. */
TEST_OF(test_send, Fix *f, long_test)
{
    static const Part parts[] = {
        { TO, (3u << 20) + 1 }, { FIX_VA + 4090, 10 },
        { TO + (3u << 20) + 1, (5u << 20) + 100 },
    };
    struct unetmm_fqe fqes[3];
    uint32_t from = 0;

    connect(f);
    fake_fill(f->s1, FROM, LONG, 3);
    for (unsigned i = 0; i < 3; i++) {
        fqes[i] = (struct unetmm_fqe) {
            .addr = parts[i].at, .len = parts[i].len, .cookie = 5,
            .flags = i < 2 ? UNETMM_FQE_F_CHAIN : 0,
        };
    }
    fake_post_fqes(&f->b, fqes, 3);
    fake_ring_bell(&f->b);
    transfer(f, UNETMM_OP_SEND);
    assert_int_equal(fake_expect(&f->b, UNETMM_CQE_RECEIVED, UNETMM_ST_OK,
                                 5).len, LONG);
    for (unsigned i = 0; i < 3; i++) {
        Part part = parts[i];

        part.len = MIN(part.len, LONG - from);
        check_part(f->s2, &part, from);
        from += part.len;
    }
}

TEST_OF(test_write, Fix *f, long_test)
{
    connect(f);
    fake_fill(f->s1, FROM, LONG, 3);
    transfer(f, UNETMM_OP_WRITE);
    fake_check(f->s2, TO, LONG, 3);
}

TEST_OF(test_read, Fix *f, long_test)
{
    connect(f);
    fake_fill(f->s2, TO, LONG, 3);
    transfer(f, UNETMM_OP_READ);
    fake_check(f->s1, FROM, LONG, 3);
}

/* ---- Limits -------------------------------------------------------------- */

/* a's channel to the peer. */
static void open_wire(Fix *f, uint8_t flags)
{
    const struct unetmm_cmd_channel how = {
        .mtu = PEER_MTU, .send_psn = PEER_MY, .recv_psn = PEER_YOURS,
        .flags = flags,
    };

    assert_int_equal(fake_channel_rel(&f->a, PEER_CH, fake_peer_mac, PEER_EP,
                                      PEER_CH, &how), UNETMM_CS_OK);
    assert_int_equal(fake_import(&f->a, IMPORT, PEER_CH, PEER_FAR,
                                 PEER_FAR_KEY, 4ull * MOST, UNETMM_RIGHT_ALL),
                     UNETMM_CS_OK);
    fake_wire_clear(&f->h);
}

static void post(Fix *f, uint8_t opcode, uint32_t first, uint32_t second)
{
    fake_send_sqe(&f->a, (struct unetmm_sqe) {
        .opcode = opcode, .channel = PEER_CH, .nsegs = 2, .cookie = 7,
        .handle = opcode == UNETMM_OP_SEND ? 0 : IMPORT,
        .seg = { { .addr = FIX_VA, .len = first },
                 { .addr = FIX_VA, .len = second } },
    });
    fix_settle(f);
}

/* The first packet of the longest message says its length. */
static void longest(Fix *f, uint8_t opcode)
{
    struct unetmm_frame h;

    open_wire(f, UNETMM_CHANNEL_F_STRICT);
    post(f, opcode, MOST - 1, 1);
    h = peer_take(f).h;
    if (opcode == UNETMM_OP_SEND) {
        assert_int_equal(h.remote, MOST);
    } else if (opcode == UNETMM_OP_WRITE) {
        assert_int_equal(h.imm, MOST - PEER_MTU);
    } else {
        assert_int_equal(h.imm, UNETMM_READ_MORE | PEER_MTU);
    }
    fake_expect_none(&f->a);
}

static void too_long(Fix *f, uint8_t opcode, uint8_t flags, uint32_t first,
                     uint32_t second)
{
    open_wire(f, flags);
    post(f, opcode, first, second);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_TOO_LONG, 7);
    fake_wire_clear(&f->h);
}

TEST_OF(test_posts, Fix *f, long_test)
{
    static const uint8_t opcodes[] = {
        UNETMM_OP_SEND, UNETMM_OP_WRITE, UNETMM_OP_READ,
    };
    const uint8_t strict = UNETMM_CHANNEL_F_STRICT;

    for (unsigned i = 0; i < G_N_ELEMENTS(opcodes); i++) {
        longest(f, opcodes[i]);
        fake_channel_clear(&f->a, PEER_CH, 0);
        fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_BAD_CHANNEL, 7);
        too_long(f, opcodes[i], strict, MOST, 1);
        too_long(f, opcodes[i], strict, UINT32_MAX, UINT32_MAX);
        too_long(f, opcodes[i], strict, UINT32_MAX, MOST + 1);
        too_long(f, opcodes[i], 0, UNETMM_MAX_MESSAGE, 1);
    }
}

/* Requests say how many follow them, as far as the member goes. */
TEST_OF(test_requests, Fix *f, long_test)
{
    static const uint32_t behind[] = {
        UNETMM_READ_MOST, UNETMM_READ_MOST, UNETMM_READ_MOST,
        UNETMM_READ_MOST - 1, UNETMM_READ_MOST - 2,
    };

    open_wire(f, UNETMM_CHANNEL_F_STRICT);
    post(f, UNETMM_OP_READ, (UNETMM_READ_MOST + 2) * PEER_MTU, 1);
    for (unsigned i = 0; i < G_N_ELEMENTS(behind); i++) {
        assert_int_equal(UNETMM_GET(UNETMM_READ_MORE,
                                    peer_expect(f, UNETMM_WIRE_READ,
                                                PEER_MY + i).h.imm),
                         behind[i]);
    }
}

/* From the peer: the first packet of a message of `len` bytes. */
static void give_send(Fix *f, uint64_t len)
{
    static const uint8_t data[PEER_MTU];

    peer_give(f, (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_SEND, .psn = PEER_YOURS, .remote = len,
        .flags = UNETMM_WIRE_F_ASK }, data, PEER_MTU);
}

static void drops(Fix *f, uint64_t len, uint8_t flags)
{
    open_wire(f, flags);
    expect_count(&f->h, drop_rel_bad, 1, give_send(f, len));
    peer_silence(f);
}

TEST_OF(test_arriving_send, Fix *f, long_test)
{
    const uint8_t strict = UNETMM_CHANNEL_F_STRICT;

    fake_post(&f->a, FIX_VA + 100, MOST, 1);
    fix_settle(f);
    drops(f, MOST + 1, strict);
    drops(f, UINT64_MAX, strict);
    drops(f, UNETMM_MAX_MESSAGE + 1, 0);
    open_wire(f, strict);
    give_send(f, MOST);
    peer_expect_ack(f, PEER_YOURS + 1, 0, UNETMM_ACK_OK, 0);
    assert_int_equal(fake_card(&f->a).fq_cons, 1);
    fake_check_counts(&f->h.core);
}

/* The region is long enough; the bytes before this packet have come. */
static void give_write(Fix *f, uint32_t psn, uint32_t before)
{
    static const uint8_t data[PEER_MTU];
    UnetmmRelIn *in = &f->h.core.eps[1].channels[PEER_CH].rel->in;

    in->run = before;
    in->run_next = (UnetmmTarget) { .region = REGION, .key = KEY };
    peer_give(f, (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_WRITE, .psn = PEER_YOURS + psn, .handle = REGION,
        .offset = KEY, .flags = UNETMM_WIRE_F_ASK }, data, PEER_MTU);
}

TEST_OF(test_arriving_write, Fix *f, long_test)
{
    fake_insert(f->s1, FIX_VA, 1, NULL);
    fake_region(f->s1, REGION, KEY, FIX_VA, PEER_MTU, UNETMM_RIGHT_ALL, 0);
    open_wire(f, UNETMM_CHANNEL_F_STRICT);
    give_write(f, 0, MOST - PEER_MTU);
    peer_expect_ack(f, PEER_YOURS + 1, 0, UNETMM_ACK_OK, 0);
    expect_count(&f->h, drop_rel_bad, 1,
                 give_write(f, 1, MOST - PEER_MTU + 1));
    peer_silence(f);
    open_wire(f, 0);
    expect_count(&f->h, drop_rel_bad, 1,
                 give_write(f, 0, UNETMM_MAX_MESSAGE - PEER_MTU + 1));
    peer_silence(f);
}

/* ---- Saved state --------------------------------------------------------- */

/* The lies are the lengths of a message that arrives, and of a send that has not begun. */
TEST_OF(test_lies, Fix *f, long_test)
{
    UnetmmCore *c = &f->h.core;
    UnetmmRelMsg *m;
    UnetmmRel *rel;

    fake_post(&f->a, FIX_VA, MOST, 1);
    fix_settle(f);
    open_wire(f, 0);
    rel = c->eps[1].channels[PEER_CH].rel;
    give_send(f, UNETMM_MAX_MESSAGE);
    post(f, UNETMM_OP_SEND, 1u << 20, 0);
    post(f, UNETMM_OP_SEND, UNETMM_MAX_MESSAGE - 1, 1);
    m = unetmm_rel_msg(rel, rel->msgs.first + 1);
    assert_false(m->started);
    fix_check_lie(c, 0, false, NULL);
    rel->in.len++;
    fix_check_lie(c, 1, true, "receives an impossible message");
    rel->in.len--;
    m->segs[1].len++;
    m->len++;
    fix_check_lie(c, 2, true, "a send is further than its channel");
    m->segs[1].len--;
    m->len--;
}

/* The completion of the send waits for room. */
TEST_OF(test_failed_send, Fix *f, long_test)
{
    open_wire(f, UNETMM_CHANNEL_F_STRICT);
    post(f, UNETMM_OP_SEND, MOST, 1);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_TOO_LONG, 7);
    for (unsigned i = 0; i < 20; i++) {
        post(f, UNETMM_OP_SEND, MOST, 0);
    }
    assert_int_equal(f->h.core.eps[1].tx.blocked_on, UNETMM_BLOCKED_CQ);
    fake_migrate(&f->h);
    for (unsigned i = 0; i < 20; i++) {
        fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_FLUSHED, 7);
        fix_settle(f);
    }
}

/* ---- Wrong keys ---------------------------------------------------------- */

static void give_read(Fix *f, uint32_t n, uint32_t behind)
{
    peer_give(f, (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_READ, .psn = PEER_YOURS + n, .handle = REGION,
        .offset = KEY, .remote = n * PEER_MTU, .flags = UNETMM_WIRE_F_KEYED,
        .imm = UNETMM_PREP(UNETMM_READ_BYTES, PEER_MTU) |
               UNETMM_PREP(UNETMM_READ_MORE, behind) }, NULL, 0);
}

#define counts(n, behind, guess) \
    expect_count(&f->h, rel_bad_keys, guess, give_read(f, n, behind))

/* Requests of one READ are one guess; those of an endless one are more. */
TEST_OF(test_guesses, Fix *f, long_test)
{
    const uint32_t most = UNETMM_READ_MOST;
    UnetmmRel *rel;

    open_wire(f, UNETMM_CHANNEL_F_STRICT);
    rel = f->h.core.eps[1].channels[PEER_CH].rel;
    counts(0, most, 1);
    counts(1, most, 0);
    counts(2, most, 0);
    counts(3, most - 1, 0);
    counts(4, most - 2, 0);
    counts(5, most, 1);
    /* One less of the longest message each time, and that is so long. */
    assert_int_equal(rel->guess.target.len, MOST / PEER_MTU);
    counts(6, most, 0);
    assert_int_equal(rel->guess.target.len, MOST / PEER_MTU - 1);
    rel->guess.target.len = most + 1;
    counts(7, most, 0);
    counts(8, most, 1);
    counts(9, most - 2, 1);
}

/* ---- Buffers with more pages than the TLB -------------------------------- */

static UnetmmHead *head(Fix *f, unsigned n)
{
    return unetmm_head_at(&f->h.core.eps[1], n);
}

/* A frame's pages are looked at ahead, and no others. */
TEST_OF(test_ahead, Fix *f, long_test)
{
    struct unetmm_fault fault;

    fake_post(&f->a, FIX_VA + 1, UINT32_MAX - 1, 1);
    fake_ring_bell(&f->a);
    assert_true(fake_fault(&f->d, &fault));
    assert_int_equal(fault.vaddr, FIX_VA);
    assert_int_equal(fault.npages, 17);
    fix_no_fault(f);
    assert_int_equal(fake_resolve(&f->d, &fault, 17, NULL), UNETMM_CS_OK);
    fix_settle(f);
    assert_int_equal(head(f, 0)->state, UNETMM_HEAD_READY);
    fake_migrate(&f->h);
    /* The pages behind them do not count. */
    fake_insert(f->s1, FIX_PAGE(17), 1, NULL);
    assert_false(fake_invalidate(f->s1, FIX_PAGE(17), FAKE_PAGE));
    assert_int_equal(head(f, 0)->state, UNETMM_HEAD_READY);
    fake_invalidate(f->s1, FIX_PAGE(16), FAKE_PAGE);
    assert_int_equal(head(f, 0)->state, UNETMM_HEAD_CHECK);
}

/* A few times in an activity, as each head. */
TEST_OF(test_asks, Fix *f, long_test)
{
    struct unetmm_fault fault;
    unsigned n = 0;

    fake_post(&f->a, FIX_VA, MOST, 1);
    fake_ring_bell(&f->a);
    while (fake_fault(&f->d, &fault)) {
        assert_true(++n < 20);
        fake_resolve(&f->d, &fault, fault.npages, NULL);
        fake_invalidate(f->s1, FIX_VA, FAKE_PAGE);
        fake_run_later(&f->h);
    }
    assert_int_equal(n, UNETMM_HEAD_ASKS);
}

/* Others learn from the status that the TLB cannot hold the buffer. */
TEST_OF(test_others, Fix *f, long_test)
{
    FakeEp ep;

    fake_ep_open(&ep, &f->d, 3, f->s1);
    fake_post(&ep, FIX_VA, 81 * FAKE_PAGE, 1);
    fake_ring_bell(&ep);
    fake_expect(&ep, UNETMM_CQE_BUFFER, UNETMM_ST_TOO_LARGE, 1);
}

TEST_OF(test_datagram, Fix *f, long_test)
{
    fake_connect_peer(&f->a, FIX_WIRE, 13, FIX_MTU);
    fake_post(&f->a, FIX_VA + 1, MOST, 1);
    fix_settle(f);
    fix_receive(f, &f->a, 65536, 2);
    assert_int_equal(fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK,
                                 1).len, 65536);
    fake_check(f->s1, FIX_VA + 1, 65536, 2);
}

static void small_tlb(UnetmmParams *p)
{
    p->tlb_sets = 8;
    p->tlb_victims = 8;
}

/* The TLB has one entry less than there are pages in the datagram. */
TEST(test_datagram_too_large, long_test_with, small_tlb)
{
    Fix *f = *state;

    fake_connect_peer(&f->a, FIX_WIRE, 13, FIX_MTU);
    fake_post(&f->a, FIX_VA + 1, MOST, 1);
    fake_post(&f->a, FIX_VA, MOST, 2);
    fix_settle(f);
    expect_count(&f->h, tlb_too_small, 1, fix_receive(f, &f->a, 65536, 2));
    fake_expect(&f->a, UNETMM_CQE_BUFFER, UNETMM_ST_TOO_LARGE, 1);
    for (unsigned i = 0; i < 4; i++) {
        fix_settle(f);
        fix_receive(f, &f->a, 65536, 2);
    }
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 2);
}

static void one_entry(UnetmmParams *p)
{
    p->tlb_sets = 1;
    p->tlb_victims = 0;
}

/* A message whose first packet is in two pages ends its channel, and waits for none. */
TEST(test_send_too_large, long_test_with, one_entry)
{
    Fix *f = *state;

    fake_post(&f->a, FIX_VA + FAKE_PAGE - 100, MOST, 1);
    fix_settle(f);
    open_wire(f, UNETMM_CHANNEL_F_STRICT);
    expect_count(&f->h, tlb_too_small, 1, give_send(f, MOST));
    fake_expect(&f->a, UNETMM_CQE_BUFFER, UNETMM_ST_TOO_LARGE, 1);
    fake_check_counts(&f->h.core);
}
