/*
 * unetmm: faults that other devices have had (docs/security.rst)
 *
 * Only cases that no other test has: each rule has its place beside the code
 * that it is about.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "peer.h"
#include "reliable/reliable.h"

#define PAGE(n) (FIX_VA + (uint64_t)(n) * FAKE_PAGE)
#define LAST    UNETMM_WIRE_F_LAST
#define OLD     0xea                    /* must never be seen again */

/* ---- Memory that changes behind the card's back ---------------------------------- */

static bool within(uint64_t addr, uint64_t base, size_t bytes)
{
    return addr >= base && addr - base < bytes;
}

/* Overwrites bytes of a queue, a ring or a list that the card has read. */
static void forget(FakeHost *host, uint64_t addr, size_t bytes)
{
    Fix *f = container_of(host, Fix, h);
    const FakeEp *eps[] = { &f->a, &f->b };
    bool queue = within(addr, f->d.list, FAKE_PAGE) ||
                 within(addr, f->d.ring[UNETMM_RING_CMD].base,
                        sizeof(struct unetmm_cmd) <<
                        f->d.ring[UNETMM_RING_CMD].log2);

    for (unsigned i = 0; i < G_N_ELEMENTS(eps); i++) {
        queue = queue ||
                within(addr, eps[i]->sq, UNETMM_SLOT_BYTES << eps[i]->sq_log2) ||
                within(addr, eps[i]->fq,
                       sizeof(struct unetmm_fqe) << eps[i]->fq_log2);
    }
    if (queue) {
        memset(fake_ptr(host, addr, bytes), 0xff, bytes);
    }
}

/* One of each kind: short, long, of many pieces, inline in several slots. */
static void one_of_each(Fix *f, unsigned round)
{
    struct unetmm_seg segs[UNETMM_MAX_SEGS];
    uint32_t n = round * 4, len = 0;

    for (unsigned i = 0; i < UNETMM_MAX_SEGS; i++) {
        segs[i] = (struct unetmm_seg) {
            .addr = PAGE(i) + 100 + round, .len = 3 * i,
        };
        for (uint32_t j = 0; j < segs[i].len; j++) {
            uint8_t byte = fake_pattern(n, len++);

            fake_store(f->s1, segs[i].addr + j, &byte, 1);
        }
    }
    fake_post(&f->b, PAGE(20), 2 * FAKE_PAGE, 1);
    fake_ring_bell(&f->b);
    fake_send(&f->a, FIX_LOCAL, segs, UNETMM_MAX_SEGS, 1, 0);
    fix_settle(f);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    assert_int_equal(fake_expect(&f->b, UNETMM_CQE_RECEIVED, UNETMM_ST_OK,
                                 1).len, len);
    fake_check(f->s2, PAGE(20), len, n);

    fake_post(&f->b, PAGE(23), UNETMM_MAX_INLINE, 2);
    fake_ring_bell(&f->b);
    fake_send_inline(&f->a, FIX_LOCAL, n + 1, UNETMM_MAX_INLINE, 2, 0);
    fix_settle(f);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
    fake_expect(&f->b, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 2);
    fake_check(f->s2, PAGE(23), UNETMM_MAX_INLINE, n + 1);
}

/*
 * Descriptors, free buffers, commands and lists are copied once: the messages
 * are right although each is destroyed in the moment in which it has been read.
 */
TEST_OF(test_each_is_read_once, Fix *f, fix_test)
{
    f->h.on_read = forget;
    for (unsigned round = 0; round < 20; round++) {
        /* The first message waits for its buffer's pages. */
        fake_insert(f->s2, PAGE(20), 5, NULL);
        one_of_each(f, round);
        fake_invalidate(f->s1, PAGE(0), 16 * FAKE_PAGE);
        fake_invalidate(f->s2, PAGE(20), 5 * FAKE_PAGE);
    }
    assert_int_equal(fake_counter(&f->h, UNETMM_C_err_descriptor), 0);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_err_command), 0);
}

/* ---- Sums ------------------------------------------------------------------------- */

/* Lengths that are nothing, or little, in 32 bits. */
TEST(test_lengths_that_wrap, fix_test)
{
    static const uint32_t lengths[][4] = {
        { 0x80000000, 0x80000000 },
        { 0xffffffff, 1 },
        { 0xffffffff, 0xffffffff, 2 },
        { 0x40000000, 0x40000000, 0x40000000, 0x40000000 },
        { 0xfffffff0, 100 },
    };
    Fix *f = *state;

    for (unsigned i = 0; i < G_N_ELEMENTS(lengths); i++) {
        struct unetmm_seg segs[4];

        for (unsigned j = 0; j < 4; j++) {
            segs[j] = (struct unetmm_seg) { .addr = FIX_VA,
                                            .len = lengths[i][j] };
        }
        fake_send(&f->a, FIX_WIRE, segs, 4, i, 0);
        fake_ring_bell(&f->a);
        fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_TOO_LONG, i);
    }
    assert_int_equal(f->h.wire->len, 0);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_faults_send), 0);
}

/* ---- Free buffers that go back -------------------------------------------------- */

#define FEW 16                          /* descriptors of a budget */

static void few(UnetmmParams *p)
{
    p->budget_descriptors = FEW;
}

static FakeEp *reposts;

/* Another processor takes completions and posts again, as soon as it can. */
static void repost(FakeHost *host, uint64_t addr, size_t bytes)
{
    struct unetmm_ep_card card;

    if (addr == reposts->index + offsetof(struct unetmm_ep_index, card)) {
        card = fake_card(reposts);
        reposts->fq_prod = card.fq_cons + (1u << reposts->fq_log2);
        fake_user_word(reposts, offsetof(struct unetmm_ep_user, fq_prod),
                       reposts->fq_prod);
        fake_user_word(reposts, offsetof(struct unetmm_ep_user, cq_cons),
                       card.cq_prod);
    }
}

/* Its free queue is full of zeros: buffers of no bytes. */
static void open_bad(Fix *f, FakeEp *e)
{
    fake_ep_init(e, &f->d, 3, f->s1);
    e->fq_log2 = e->cq_log2 = 10;
    fake_ep_create(e);
    fake_connect_peer(e, FIX_WIRE, 13, FIX_MTU);
    e->fq_prod = 1u << e->fq_log2;
    fake_user_word(e, offsetof(struct unetmm_ep_user, fq_prod), e->fq_prod);
    f->h.stuck = true;
}

static uint64_t returned(Fix *f)
{
    return f->h.core.counters[UNETMM_C_bufs_failed];
}

/* Each that goes back is charged; the others go on in the main loop. */
TEST_OF(test_bad_buffers_budget, Fix *f, fix_test_with, few)
{
    FakeEp e;

    open_bad(f, &e);
    for (unsigned i = 0; i < 5; i++) {
        fake_ring_bell(&e);
        assert_int_equal(returned(f), FEW);
        assert_true(f->h.later);
    }
    for (unsigned n = 2 * FEW; n <= 1024; n += FEW) {
        assert_true(f->h.later);
        f->h.later = 0;
        unetmm_core_run(&f->h.core);
        assert_int_equal(returned(f), n);
    }
    fake_run_later(&f->h);
    assert_int_equal(returned(f), 1024);
}

/* However fast they are posted again; and others are served, and receive. */
TEST_OF(test_bad_buffers_without_end, Fix *f, fix_test_with, few)
{
    unsigned runs = 0;
    FakeEp e;

    open_bad(f, &e);
    reposts = &e;
    f->h.on_write = repost;
    fake_ring_bell(&e);
    assert_int_equal(returned(f), FEW);
    fake_send_inline(&f->a, FIX_WIRE, 1, 8, 9, 0);
    fake_ring_bell(&f->a);
    for (; !f->h.wire->len; runs++) {
        uint64_t before = returned(f);

        assert_true(f->h.later && runs < 3);
        f->h.later = 0;
        unetmm_core_run(&f->h.core);
        assert_true(returned(f) - before <= FEW);
    }
    fake_deliver(&f->h, fake_datagram(&f->a, FIX_WIRE, 11, 8, 1));
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 9);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 0);
    f->h.on_write = NULL;
}

/* A frame for it is charged for those that it sends back. */
TEST_OF(test_bad_buffers_by_frames, Fix *f, fix_test_with, few)
{
    FakeFrame *frame;
    unsigned taken = 0;
    FakeEp e;

    open_bad(f, &e);
    reposts = &e;
    f->h.on_write = repost;
    fake_ring_bell(&e);
    frame = fake_datagram(&e, FIX_WIRE, 13, 100, 1);
    while (fake_receive(&f->h, frame)) {
        taken++;
    }
    assert_true(taken > 0);
    assert_true(returned(f) - FEW <=
                f->h.core.params.budget_bytes / UNETMM_LEAST_BYTES);
    f->h.on_write = NULL;
    g_free(frame);
}

/* ---- A queue of lies --------------------------------------------------------------- */

static void deepest(UnetmmParams *p)
{
    p->budget_descriptors = 65536;
}

/*
 * The longest queue, full of noise, at one doorbell: each slot is looked at
 * once at most, nobody waits for ever, and nothing is left to be done.
 */
TEST_OF(test_queue_of_noise, Fix *f, fix_test_with, deepest)
{
    uint64_t seed = fake_seed();
    uint32_t slots = 1u << UNETMM_MAX_RING_LOG2;
    struct unetmm_cqe cqe;
    unsigned got = 0;
    uint64_t before;
    FakeEp e;

    fake_ep_init(&e, &f->d, 3, f->s1);
    e.sq_log2 = e.cq_log2 = UNETMM_MAX_RING_LOG2;
    fake_ep_alloc(&e);
    fake_ep_create(&e);
    for (uint32_t i = 0; i < slots * UNETMM_SLOT_BYTES; i += 4) {
        fake_write32(&f->h, e.sq + i, fake_random(&seed) * 2);
    }
    f->d.hold_back = true;
    fake_move_sq(&e, slots);
    before = f->h.reads;
    fake_ring_bell(&e);
    assert_true(fake_run_later(&f->h) < 100);
    assert_true(f->h.reads - before < 2 * slots);
    while (fake_poll(&e, &cqe)) {
        assert_int_equal(cqe.opcode, UNETMM_CQE_SENT);
        assert_int_not_equal(cqe.status, UNETMM_ST_OK);
        got++;
    }
    assert_int_equal(fake_card(&e).sq_cons, slots);
    assert_true(got > slots / 8);
    assert_int_equal(f->h.wire->len, 0);
}

/* ---- Short frames that do not go the short way ---------------------------------------- */

static void slow(UnetmmParams *p)
{
    p->dma_page_ns = 1000;
}

/* A frame that waits behind one that is landing is cut as it would be at once. */
TEST_OF(test_short_in_the_queue, Fix *f, fix_test_with, slow)
{
    FakeFrame *long_one;

    fake_post(&f->a, PAGE(0), 2 * FAKE_PAGE, 1);
    fix_settle(f);
    for (size_t bytes = 14; bytes < 64 + 50; bytes++) {
        FakeFrame *cut = fake_datagram(&f->a, FIX_WIRE, 11, 50, 1);

        long_one = fake_datagram(&f->a, FIX_WIRE, 11, 100, bytes);
        fake_deliver(&f->h, long_one);
        assert_true(f->h.core.landing->active);
        cut->bytes = bytes;
        fake_deliver(&f->h, cut);
        assert_int_equal(f->h.core.port->fifo_used, 1);
        expect_count(&f->h, drop_malformed, 1, fake_advance(&f->h, 2000));
        fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 1);
        fake_expect_none(&f->a);
        fake_check(f->s1, PAGE(0), 100, bytes);
        fake_post(&f->a, PAGE(0), 2 * FAKE_PAGE, 1);
        fix_settle(f);
    }
}

/* ---- Nothing old comes out -------------------------------------------------------------- */

static void all_zero(const void *data, size_t bytes, const char *what)
{
    for (size_t i = 0; i < bytes; i++) {
        if (((const uint8_t *)data)[i]) {
            fail_msg("byte %zu of %s is 0x%02x", i, what,
                     ((const uint8_t *)data)[i]);
        }
    }
}

static void soil(Fix *f, uint64_t addr, size_t bytes)
{
    memset(fake_ptr(&f->h, addr, bytes), OLD, bytes);
}

/* All bytes without a meaning in this completion are zero. */
static void check_cqe(Fix *f, uint64_t at)
{
    struct unetmm_cqe cqe;
    size_t used = 0;

    fake_read(&f->h, at, &cqe, sizeof(cqe));
    unetmm_le_cqe(&cqe);
    if (cqe.opcode == UNETMM_CQE_RECEIVED &&
        cqe.flags & UNETMM_CQE_F_INLINE) {
        used = cqe.len;
    }
    all_zero(cqe.data + used, sizeof(cqe.data) - used, "a completion's data");
    assert_int_equal(cqe.imm, 0);
    assert_int_equal(cqe.flags & ~(UNETMM_CQE_F_INLINE | UNETMM_PHASE), 0);
}

/*
 * Where the card writes lies a secret, and its frames have carried one: none of
 * it reaches processes, the driver or the wire.
 */
TEST_OF(test_nothing_old_is_written, Fix *f, fix_test)
{
    struct unetmm_fault fault;
    struct unetmm_frame *h;
    struct unetmm_notify n;
    FakeFrame *frame;
    uint8_t byte;

    soil(f, f->a.cq, sizeof(struct unetmm_cqe) << f->a.cq_log2);
    soil(f, f->d.ring[UNETMM_RING_FAULT].base, 8 * sizeof(fault));
    soil(f, f->d.ring[UNETMM_RING_NOTIFY].base, 8 * sizeof(n));
    /* A whole frame of secrets, whose buffer is used again after it */
    for (unsigned i = 0; i < 16 * FAKE_PAGE; i++) {
        byte = OLD;
        fake_store(f->s1, PAGE(0) + i, &byte, 1);
    }
    fake_send_at(&f->a, FIX_WIRE, PAGE(0), 16 * FAKE_PAGE, 1);
    fake_ring_bell(&f->a);
    fake_read(&f->h, f->d.ring[UNETMM_RING_FAULT].base, &fault, sizeof(fault));
    assert_int_equal(fault.rsvd0, 0);
    assert_int_equal(fault.rsvd1, 0);
    all_zero(fault.rsvd2, sizeof(fault.rsvd2), "a fault record");
    fix_settle(f);
    check_cqe(f, f->a.cq);
    fake_wire_clear(&f->h);
    for (unsigned len = 0; len < UNETMM_MAX_INLINE; len++) {
        fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, len ? 7 : 1);
        fake_send_inline(&f->a, FIX_WIRE, len, len, 7, 0);
        fake_ring_bell(&f->a);
        check_cqe(f, f->a.cq + (f->a.cq_cons & 15) * sizeof(struct unetmm_cqe));
        frame = fake_wire_at(&f->h, len);
        fake_check_frame(frame, len, len);
        assert_int_equal(frame->bytes, sizeof(*h) + len);
        h = fake_header(frame);
        assert_int_equal(h->flags, 0);
        assert_int_equal(h->payload_crc | h->psn | h->offset | h->handle |
                         h->imm, 0);
        assert_true(!h->remote);
    }
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 7);
    /* The completion has no more inline bytes than the message. */
    for (unsigned len = 0; len <= UNETMM_CQE_INLINE; len++) {
        uint64_t at = f->a.cq + (f->a.cq_cons & 15) * sizeof(struct unetmm_cqe);

        soil(f, at, offsetof(struct unetmm_cqe, flags));
        fake_user_word(&f->a, offsetof(struct unetmm_ep_user, cq_arm),
                       UNETMM_ARM | f->a.cq_cons);
        fake_ring_bell(&f->a);
        fake_deliver(&f->h, fake_datagram(&f->a, FIX_WIRE, 11, len, 1));
        check_cqe(f, at);
        fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 0);
        assert_true(fake_notification(&f->d, &n));
        assert_int_equal(n.rsvd0 | n.rsvd2, 0);
        assert_true(!n.value);
    }
}

/* ---- One endpoint has the fault ring ---------------------------------------------------- */

static void few_faults(UnetmmParams *p)
{
    p->max_faults = 4;
}

/*
 * All misses that may be out are one process's, and the driver does not answer:
 * endpoints that need no translation, or have theirs, go on as before.
 */
TEST_OF(test_faults_of_one_stop_nobody, Fix *f, fix_test_with, few_faults)
{
    FakeEp greedy[4];

    fake_insert(f->s1, PAGE(0), 2, NULL);
    fake_insert(f->s2, PAGE(0), 2, NULL);
    fake_post(&f->b, PAGE(0), 2 * FAKE_PAGE, 1);
    fake_ring_bell(&f->b);
    for (unsigned i = 0; i < 4; i++) {
        fake_ep_open(&greedy[i], &f->d, 3 + i, f->s1);
        fake_connect_peer(&greedy[i], FIX_WIRE, 13, FIX_MTU);
        for (unsigned j = 0; j < 4; j++) {
            fake_post(&greedy[i], PAGE(8 + 4 * i + j), 100, j);
        }
        fake_send_at(&greedy[i], FIX_WIRE, PAGE(30 + i), 100, 1);
        fake_ring_bell(&greedy[i]);
    }
    assert_int_equal(f->h.core.miss->asked, 4);
    for (unsigned i = 0; i < 50; i++) {
        fake_fill(f->s1, PAGE(0), 5000, i);
        fake_send_at(&f->a, FIX_LOCAL, PAGE(0), 5000, 1);
        fake_ring_bell(&f->a);
        fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
        fake_expect(&f->b, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 1);
        fake_check(f->s2, PAGE(0), 5000, i);
        fake_post(&f->b, PAGE(0), 2 * FAKE_PAGE, 1);
        fake_ring_bell(&f->b);
    }
    /* Once they are answered, all that was asked for is had. */
    fix_settle(f);
    for (unsigned i = 0; i < 4; i++) {
        fake_expect(&greedy[i], UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    }
}

/* ---- A peer that lies ------------------------------------------------------------------ */

#define LIES        4000
#define ASKED       4                   /* operations at a time */
#define PLACE       (PAGE(2) + 50)      /* where the answers go */
#define PLACE_BYTES 3000

typedef struct Liar {
    uint64_t random;
    uint32_t asked, done;
    unsigned failed;            /* channels */
} Liar;

/* A peer may have this memory written: the region, and the answers' place. */
static void only_what_is_open(FakeHost *host, uint64_t addr, size_t bytes)
{
    Fix *f = container_of(host, Fix, h);

    for (unsigned i = 0; i < FIX_PAGES; i++) {
        uint64_t at = addr - fake_vpage(f->s1, PAGE(i))->dma;

        if (at < FAKE_PAGE) {
            at += PAGE(i);
            assert_true((within(at, PEER_AT, PEER_LENGTH) &&
                         within(at + bytes - 1, PEER_AT, PEER_LENGTH)) ||
                        (within(at, PLACE, PLACE_BYTES) &&
                         within(at + bytes - 1, PLACE, PLACE_BYTES)));
            return;
        }
    }
}

/* One of these, or anything. */
static uint64_t one_of(Liar *l, uint64_t a, uint64_t b, uint64_t c)
{
    switch (fake_random(&l->random) % 8) {
    case 0:
        return (uint64_t)fake_random(&l->random) << 32 |
               fake_random(&l->random);
    case 1:
        return b;
    case 2:
        return c;
    default:
        return a;
    }
}

/* Right in most members, so that it gets as far as a lie can. */
static void lie(Fix *f, Liar *l)
{
    UnetmmRel *rel = f->h.core.eps[1].channels[PEER_CH].rel;
    uint8_t opcode = UNETMM_WIRE_SEND + fake_random(&l->random) % 7;
    bool theirs = opcode == UNETMM_WIRE_ACK || opcode == UNETMM_WIRE_ANSWER;
    uint32_t base = theirs ? rel->tx.una : rel->rx.nxt;
    uint32_t near = base + fake_random(&l->random) % 9 - 3;
    struct unetmm_frame h = {
        .opcode = opcode, .psn = one_of(l, base, near, near + 70),
        .handle = one_of(l, PEER_REGION, PEER_REGION + 1, ~0u),
        .offset = one_of(l, PEER_KEY, PEER_KEY + 1, 0),
        .remote = one_of(l, fake_random(&l->random) % PEER_LENGTH,
                         PEER_LENGTH - 3, UINT64_MAX - 8),
        .imm = one_of(l, fake_random(&l->random) % 4, PEER_MTU, 0),
        .flags = one_of(l, LAST, 0, LAST | UNETMM_WIRE_F_NOTIFY),
    };
    uint32_t len = one_of(l, 8, 0, fake_random(&l->random) % PEER_MTU) %
                   (PEER_MTU + 9);

    if (opcode == UNETMM_WIRE_ACK) {
        h.offset = one_of(l, 0, 3, 6);
        h.remote = one_of(l, 0, 1, 7);
        h.flags = h.handle = len = 0;
    } else if (opcode == UNETMM_WIRE_WRITE) {
        h.imm = h.flags == LAST ? 0 : one_of(l, h.imm, 4 * PEER_MTU,
                                             UNETMM_MAX_MESSAGE);
    } else if (opcode == UNETMM_WIRE_READ) {
        h.imm |= one_of(l, 0, 1 << 17, UNETMM_READ_MORE);
    } else if (opcode == UNETMM_WIRE_ANSWER || opcode > UNETMM_WIRE_ANSWER) {
        h.handle = h.offset = h.imm = h.remote = 0;
    }
    for (unsigned n = 1 + fake_random(&l->random) % 2; n; n--) {
        peer_give(f, h, fake_ptr(&f->h, f->d.list, FAKE_PAGE), len);
    }
}

/* The oldest packet of the card's is over. */
static void true_answer(Fix *f, UnetmmRel *rel)
{
    uint32_t psn = rel->tx.una, offset, bytes;
    struct unetmm_frame h = { .opcode = UNETMM_WIRE_ANSWER, .psn = psn };

    if (psn == rel->tx.nxt) {
        return;
    }
    if (!(rel->tx.pending & unetmm_rel_bit(psn))) {
        peer_ack(f, psn + 1, 0);
        return;
    }
    bytes = unetmm_rel_packet_bytes(rel, psn, &offset);
    peer_give(f, h, fake_ptr(&f->h, f->d.list, FAKE_PAGE),
              unetmm_rel_msg_of(rel, psn)->operands ? 8 : bytes);
}

/* Or the channel would stand still after the first lie that is believed. */
static void tell_the_truth(Fix *f, Liar *l)
{
    UnetmmRel *rel = f->h.core.eps[1].channels[PEER_CH].rel;
    struct unetmm_frame h = {
        .psn = rel->rx.nxt, .handle = PEER_REGION, .offset = PEER_KEY,
        .remote = 8 * (fake_random(&l->random) % 100),
    };
    uint64_t word = 0;

    switch (fake_random(&l->random) % 4) {
    case 0:
        h.opcode = UNETMM_WIRE_WRITE;
        h.flags = LAST | UNETMM_WIRE_F_NOTIFY;
        peer_give(f, h, &word, sizeof(word));
        break;
    case 1:
        h.opcode = UNETMM_WIRE_ATOMIC;
        h.imm = UNETMM_ATOMIC_ADD;
        peer_give(f, h, &word, sizeof(word));
        break;
    case 2:
        peer_void(f, h.psn, 0);
        break;
    default:
        true_answer(f, rel);
        break;
    }
}

static void ask(Fix *f, Liar *l)
{
    static const uint8_t ops[] = { UNETMM_OP_READ, UNETMM_OP_FETCH_ADD,
                                   UNETMM_OP_WRITE, UNETMM_OP_CMP_SWAP };
    uint8_t op = ops[l->asked % G_N_ELEMENTS(ops)];
    struct unetmm_sqe sqe = peer_sqe(op, 0, 2500, 64, l->asked++);

    sqe.seg[0].addr = PLACE;
    if (op == UNETMM_OP_FETCH_ADD || op == UNETMM_OP_CMP_SWAP) {
        sqe.nsegs = 0;
        sqe.flags = UNETMM_SQE_F_INLINE;
        sqe.inline_len = op == UNETMM_OP_CMP_SWAP ? 16 : 8;
        memset(sqe.data, 0, sizeof(sqe.data));
    }
    peer_post(f, sqe);
}

/* Each request completes once, in order; nothing else does. */
static void listen(Fix *f, Liar *l)
{
    struct unetmm_cqe cqe;

    while (fake_poll(&f->a, &cqe)) {
        if (cqe.opcode == UNETMM_CQE_SENT) {
            assert_true(l->done != l->asked);
            assert_int_equal(cqe.cookie, l->done++);
        } else {
            assert_int_equal(cqe.opcode, UNETMM_CQE_NOTIFY);
            assert_true(cqe.notify.offset <= PEER_LENGTH &&
                        cqe.len <= PEER_LENGTH - cqe.notify.offset);
        }
    }
}

/*
 * Packets with one or two members that are not true, acknowledgements of
 * packets that were not sent, answers without a request, or twice: only the
 * memory that is open is written.
 */
TEST_OF(test_liar, Fix *f, fix_test)
{
    Liar l = { .random = fake_seed() };

    peer_open(f);
    fake_insert(f->s1, PAGE(2), 1, NULL);
    f->h.on_write = only_what_is_open;
    for (unsigned i = 0; i < LIES; i++) {
        const UnetmmRel *rel = f->h.core.eps[1].channels[PEER_CH].rel;

        if (rel->state != UNETMM_REL_OPEN) {
            l.failed++;
            peer_open(f);
        }
        while (l.asked - l.done < ASKED) {
            ask(f, &l);
        }
        lie(f, &l);
        if (i % 2) {
            tell_the_truth(f, &l);
        }
        fake_serve(&f->d);
        fake_run_later(&f->h);
        fake_wire_clear(&f->h);
        listen(f, &l);
        fake_ring_bell(&f->a);
    }
    assert_true(l.done > 20 && l.failed > 5);
    assert_true(fake_counter(&f->h, UNETMM_C_rel_writes) > 20);
    assert_true(fake_counter(&f->h, UNETMM_C_rel_atomics) > 20);
    assert_true(fake_counter(&f->h, UNETMM_C_drop_rel_answer) > 20);
    assert_true(fake_counter(&f->h, UNETMM_C_drop_rel_rejected) > 20);
}

/* ---- The end, with everything under way --------------------------------------------------- */

/* Messages moving out and in, queued, missing a page, and unread wake-ups. */
static void all_under_way(Fix *f)
{
    fake_insert(f->s1, PAGE(0), 4, NULL);
    fake_insert(f->s2, PAGE(0), 4, NULL);
    fake_post(&f->b, PAGE(0), 4 * FAKE_PAGE, 1);
    fake_user_word(&f->a, offsetof(struct unetmm_ep_user, cq_arm), UNETMM_ARM);
    fake_send_inline(&f->a, FIX_WIRE, 1, 8, 1, 0);
    fake_send_at(&f->a, FIX_LOCAL, PAGE(0), 4 * FAKE_PAGE, 2);
    fake_ring_bell(&f->b);
    fake_ring_bell(&f->a);
    fake_advance(&f->h, 4000);
    for (unsigned i = 0; i < 3; i++) {
        fake_deliver(&f->h, fake_datagram(&f->b, FIX_WIRE, 12, 8, i));
    }
    fake_send_at(&f->a, FIX_LOCAL, PAGE(0), 4 * FAKE_PAGE, 3);
    fake_send_at(&f->b, FIX_WIRE, PAGE(20), 100, 4);
    fake_ring_bell(&f->a);
    fake_ring_bell(&f->b);
    assert_true(f->h.core.landing->moving);
    assert_true(f->a.sq_prod && f->h.core.eps[1].tx.moving);
    assert_true(f->h.core.port->fifo_used >= 3);
    assert_true(f->h.core.miss->in_flight_used > 0);
    assert_true(f->h.timer != INT64_MAX);
}

/* After a reset no timer is left, and not one access more is made. */
TEST_OF(test_reset_cancels_all, Fix *f, fix_test_with, slow)
{
    uint64_t accesses;

    all_under_way(f);
    unetmm_core_reset(&f->h.core);
    assert_int_equal(f->h.timer, INT64_MAX);
    accesses = f->h.reads + f->h.writes;
    assert_int_equal(fake_advance(&f->h, 1000000000), 0);
    fake_run_later(&f->h);
    assert_int_equal(f->h.reads + f->h.writes, accesses);
    assert_int_equal(f->h.core.port->fifo_used, 0);
}

/* The card is unplugged just then: the sanitizer's findings are the test. */
TEST(test_free_with_all_pending, fix_test_with, slow)
{
    all_under_way(*state);
}
