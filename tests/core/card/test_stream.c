/*
 * unetmm: values of a stream that no card has saved, and the harm they could do
 *
 * Each lie is told to a card of its own, by a core that has been changed before
 * it saves itself; test_migrate.c and test_ops_state.c have more of them.  A
 * stream is as hostile as a peer: none may write beyond a frame, leave a
 * channel waiting for an event that never comes, or have a timer come back at
 * the same moment for ever.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "bounds.h"
#include "peer.h"
#include "reliable/reliable.h"
#include "ud.h"

#define PAGE_NS     5000
#define LAST        UNETMM_WIRE_F_LAST
#define NOTIFY      UNETMM_WIRE_F_NOTIFY

static void slow(UnetmmParams *p)
{
    p->dma_page_ns = PAGE_NS;
}

static void paced(UnetmmParams *p)
{
    p->congestion = UNETMM_CONGESTION_DELAY;
}

static void give(Fix *f, uint8_t opcode, uint32_t n, uint64_t at, uint32_t imm,
                 uint32_t flags, uint32_t len)
{
    uint8_t data[PEER_MTU] = { 1, 2, 3 };

    peer_give(f, (struct unetmm_frame) {
        .opcode = opcode, .psn = PEER_YOURS + n, .handle = PEER_REGION,
        .offset = PEER_KEY, .remote = at, .imm = imm, .flags = flags,
    }, data, len);
}

/* Of a message of `total` bytes: those from `at` on. */
static void give_send(Fix *f, uint32_t n, uint32_t at, uint32_t len,
                      uint32_t total)
{
    uint8_t data[PEER_MTU] = { 4, 5, 6 };

    peer_give(f, (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_SEND, .psn = PEER_YOURS + n, .offset = at,
        .remote = total, .flags = at + len == total ? LAST : 0,
    }, data, len);
}

/* ---- Lies --------------------------------------------------------------- */

typedef struct Lie {
    FixTune *tune;
    void (*scene)(Fix *f);
    void (*tell)(Fix *f, UnetmmCore *c, UnetmmRel *rel);
    const char *name;
    const char *expected;       /* a part of the sentence; NULL: it is true */
} Lie;

static void tell(const Lie *lie)
{
    void *state = (void *)lie->tune;
    g_autofree char *why = NULL;
    GByteArray *saved;
    FakeHost other;
    Fix *f;

    fix_setup(&state);
    f = state;
    lie->scene(f);
    lie->tell(f, &f->h.core, f->h.core.eps[1].rels);
    saved = unetmm_core_save(&f->h.core);
    fake_host_init(&other, &f->h.core.params);
    if (unetmm_core_load(&other.core, saved->data, saved->len, &why)) {
        if (lie->expected) {
            fail_msg("%s: believed", lie->name);
        }
    } else if (!lie->expected || !strstr(why, lie->expected)) {
        fail_msg("%s: \"%s\" is not in: %s", lie->name,
                 lie->expected ?: "nothing", why);
    }
    g_byte_array_unref(saved);
    fake_host_free(&other);
    unetmm_core_reset(&f->h.core);
    fix_teardown(&state);
}

/* A function for each statement. */
#define LIE(number, statement) \
    static void number(Fix *f, UnetmmCore *c, UnetmmRel *rel) \
    { \
        UnetmmTransfer *t = &c->eps[1].tx; \
        (void)t; \
        (void)rel; \
        statement; \
    }

#define TELL(tune, scene, number, sentence) \
    tell(&(Lie) { tune, scene, number, #number, sentence })

LIE(the_truth, (void)f)

/* ---- An answer that is being sent --------------------------------------- */

#define CANNOT "sends a packet that it cannot"

/* Its first page is moving, the second one is to follow. */
static void answering(Fix *f)
{
    const UnetmmTransfer *t = &f->h.core.eps[1].tx;

    peer_open(f);
    give(f, UNETMM_WIRE_READ, 0, 3900, 1000, 0, 0);
    assert_true(t->answer && t->moving && t->rel);
    assert_int_equal(t->target.len, 1000);
    assert_true(t->chunk < 1000);
}

/* An atomic's, which waits for the wire. */
static void answering_atomic(Fix *f)
{
    const UnetmmTransfer *t = &f->h.core.eps[1].tx;

    peer_open(f);
    f->h.answer = UNETMM_SENT_QUEUED;
    fake_send_inline(&f->a, FIX_WIRE, 1, 30, 1, 0);
    fake_ring_bell(&f->a);
    give(f, UNETMM_WIRE_ATOMIC, 0, 0, UNETMM_ATOMIC_ADD, 0, 8);
    assert_true(t->answer && t->blocked_on == UNETMM_BLOCKED_WIRE);
    assert_int_equal(t->target.len, 0);
}

LIE(longer_than_a_frame, t->target.len = 1 << 20)
LIE(longer_by_one, t->target.len++)
LIE(shorter, t->target.len--)
LIE(of_nothing, t->target.len = 0)
LIE(no_segments, t->desc.nsegs = 0; t->blocked_on = UNETMM_BLOCKED_NOT;
    t->done = t->desc.len; t->state = UNETMM_TX_TRANSMIT)
LIE(longer_than_the_mtu, t->target.len = t->desc.len = PEER_MTU + 1;
    t->desc.segs[0].len = t->desc.len)
LIE(waits_for_a_page, t->blocked_on = UNETMM_BLOCKED_FAULT)
LIE(with_a_target, t->target.len = 8)
LIE(atomic_of_seven, t->desc.len = t->done = 7)

TEST(test_answer, cmocka_unit_test)
{
    TELL(slow, answering, the_truth, NULL);
    TELL(slow, answering, longer_than_a_frame, CANNOT);
    TELL(slow, answering, longer_by_one, CANNOT);
    TELL(slow, answering, shorter, CANNOT);
    TELL(slow, answering, of_nothing, CANNOT);
    TELL(slow, answering, no_segments, CANNOT);
    TELL(slow, answering, longer_than_the_mtu, CANNOT);
    TELL(slow, answering, waits_for_a_page, CANNOT);
    TELL(slow, answering_atomic, the_truth, NULL);
    TELL(slow, answering_atomic, with_a_target, CANNOT);
    TELL(slow, answering_atomic, atomic_of_seven, CANNOT);
}

#define BIG_PAGES   256
#define BIG_KEY     77

/*
 * The memory that it names is all there, so nothing but the length of the frame
 * would end it: were it believed, the sanitizer would see.
 */
TEST(test_answer_overflow, fix_test_bare, NULL)
{
    const struct unetmm_cmd_channel how = {
        .mtu = 9000, .send_psn = 100, .recv_psn = 100,
    };
    Fix *f = *state;
    FakeSpace *s = fake_space(&f->d, 1, UNETMM_SOURCE_PINNED, 4);
    g_autofree char *why = NULL;
    GByteArray *saved;
    UnetmmTransfer *t;

    fake_map(s, FIX_VA, BIG_PAGES * FAKE_PAGE, FAKE_RW);
    fake_ep_open(&f->a, &f->d, 1, s);
    assert_int_equal(fake_channel_rel(&f->a, 3, fake_peer_mac, 11, 3, &how),
                     UNETMM_CS_OK);
    assert_int_equal(fake_region(s, 3, BIG_KEY, FIX_VA, BIG_PAGES * FAKE_PAGE,
                                 UNETMM_RIGHT_READ, 0), UNETMM_CS_OK);
    f->h.unchecked = true;
    t = &f->h.core.eps[1].tx;
    *t = (UnetmmTransfer) {
        .state = UNETMM_TX_GATHER, .rel = f->h.core.eps[1].rels,
        .answer = true, .psn = 99,
        .desc = { .opcode = UNETMM_OP_SEND, .channel = 3, .len = 4096,
                  .nsegs = 1, .segs = { { .addr = FIX_VA, .len = 4096 } } },
        .target = { .region = 3, .key = BIG_KEY,
                    .len = BIG_PAGES * FAKE_PAGE },
        .frame = unetmm_port_buffer(&f->h.core),
    };
    saved = unetmm_core_save(&f->h.core);
    if (unetmm_core_load(&f->h.core, saved->data, saved->len, &why)) {
        fake_ring_bell(&f->a);
        fake_run_later(&f->h);
        fail_msg("an answer is longer than any frame");
    }
    assert_non_null(strstr(why, CANNOT));
    g_byte_array_unref(saved);
}

/* ---- Packets that are kept ---------------------------------------------- */

#define KEPT "a packet is kept that cannot be"

static UnetmmQueued *kept(UnetmmRel *rel, uint32_t n)
{
    return &rel->kept[(PEER_YOURS + n) % UNETMM_REL_WINDOW];
}

static struct unetmm_frame *kept_head(UnetmmRel *rel, uint32_t n)
{
    return (struct unetmm_frame *)kept(rel, n)->frame;
}

static UnetmmRelEarly *early(UnetmmRel *rel, uint32_t n)
{
    return &rel->early[(PEER_YOURS + n) % UNETMM_REL_WINDOW];
}

/* A part of a SEND, whole, and a WRITE's header, both before their turn. */
static void keeping(Fix *f)
{
    peer_open(f);
    give_send(f, 2, 1000, 500, 1500);
    give(f, UNETMM_WIRE_WRITE, 3, 0, 0, LAST, 100);
    assert_non_null(kept(f->h.core.eps[1].rels, 2)->frame);
}

LIE(another_number, kept_head(rel, 2)->psn++)
LIE(a_window_later, kept_head(rel, 2)->psn += UNETMM_REL_WINDOW)
LIE(rejected_for_buffer, rel->rx.why = UNETMM_WHY_BUFFER)
LIE(rejected_late_for_end, rel->rx.late_why = UNETMM_WHY_CHANNEL)
LIE(flags_of_a_write, kept_head(rel, 2)->flags |= NOTIFY)
LIE(beyond_all_memory, early(rel, 3)->header.remote = -50ull)

static void keep_one(UnetmmParams *p)
{
    p->reliable_keep = 1;
}

/* One more than the card keeps. */
static void kept_twice(Fix *f, UnetmmCore *c, UnetmmRel *rel)
{
    UnetmmQueued *q = kept(rel, 4), *other = kept(rel, 2);

    q->frame = unetmm_port_buffer(c);
    q->bytes = other->bytes;
    memcpy(q->frame, other->frame, q->bytes);
    kept_head(rel, 4)->psn += 2;
    rel->rx.have |= unetmm_rel_bit(PEER_YOURS + 4);
    c->rel->kept++;
}

TEST(test_kept, cmocka_unit_test)
{
    TELL(NULL, keeping, the_truth, NULL);
    TELL(NULL, keeping, rejected_for_buffer, "rejected for no reason");
    TELL(NULL, keeping, rejected_late_for_end, "rejected for no reason");
    TELL(NULL, keeping, another_number, KEPT);
    TELL(NULL, keeping, a_window_later, KEPT);
    TELL(NULL, keeping, flags_of_a_write, KEPT);
    TELL(NULL, keeping, beyond_all_memory, KEPT);
    TELL(keep_one, keeping, the_truth, NULL);
    TELL(keep_one, keeping, kept_twice, "than there is room for");
}

/* ---- Sends -------------------------------------------------------------- */

/* Of a long SEND one packet has gone, and the second is held up by a page. */
static void half_sent(Fix *f)
{
    UnetmmRel *rel;

    peer_open(f);
    fake_insert(f->s1, PEER_PAGE(0), 1, NULL);
    fake_send_at(&f->a, PEER_CH, PEER_PAGE(1) - 1000, 4000, 1);
    fake_ring_bell(&f->a);
    rel = f->h.core.eps[1].rels;
    assert_int_equal(rel->tx.nxt - rel->tx.una, 1);
    assert_int_equal(f->h.core.eps[1].tx.blocked_on, UNETMM_BLOCKED_FAULT);
}

/* Its next packet would begin behind its end. */
static void voids_follow(Fix *f, UnetmmCore *c, UnetmmRel *rel)
{
    for (unsigned i = 0; i < 6; i++) {
        rel->tx.voids |= unetmm_rel_bit(rel->tx.nxt++);
    }
    c->eps[1].tx.psn = rel->tx.una;
}

LIE(all_gathered, t->done = t->desc.len)
LIE(no_window, rel->congestion.window = UNETMM_CONGESTION_ONE - 1)
LIE(message_wraps,
    unetmm_rel_msg(rel, rel->msgs.first)->segs[0].addr = -50ull)

TEST(test_sends, cmocka_unit_test)
{
    TELL(NULL, half_sent, the_truth, NULL);
    TELL(NULL, half_sent, voids_follow, "packets are of no message");
    TELL(NULL, half_sent, all_gathered, CANNOT);
    TELL(NULL, half_sent, message_wraps, "a segment wraps round");
    TELL(paced, half_sent, the_truth, NULL);
    TELL(paced, half_sent, no_window, "ep[1].rel[0].tx.congestion.window is "
         "255, which is out of range");
}

static void datagram_waits(Fix *f)
{
    fix_send(f, &f->a, 0, 100, 1);
    assert_int_equal(f->h.core.eps[1].tx.blocked_on, UNETMM_BLOCKED_FAULT);
}

static void datagram_moves_of(Fix *f, FakeSpace *s)
{
    fake_make_present(s, FIX_PAGE(0), 1);
    fix_send(f, &f->a, 0, 100, 1);
    assert_int_equal(f->h.core.eps[1].tx.blocked_on, UNETMM_BLOCKED_TIME);
}

static void datagram_moves(Fix *f)
{
    datagram_moves_of(f, f->s1);
}

LIE(needs_no_page, t->done = t->seg_off = t->desc.len)
LIE(part_of_it, t->state = UNETMM_TX_TRANSMIT;
    t->blocked_on = UNETMM_BLOCKED_NOT)

TEST(test_datagram, cmocka_unit_test)
{
    TELL(NULL, datagram_waits, the_truth, NULL);
    TELL(NULL, datagram_waits, needs_no_page, "a page that it does not need");
    TELL(NULL, datagram_waits, part_of_it, "sends a part of a message");
    TELL(slow, datagram_moves, the_truth, NULL);
    TELL(slow, datagram_moves, needs_no_page,
         "moves a page that it does not need");
}

#define MAY_NOT "endpoint 1 may not send this"

/* A copied message waits for the wire. */
static void inline_waits(Fix *f)
{
    f->h.answer = UNETMM_SENT_QUEUED;
    fake_send_inline(&f->a, FIX_WIRE, 1, 30, 1, 0);
    fake_send_inline(&f->a, FIX_WIRE, 1, 40, 2, 0);
    fake_ring_bell(&f->a);
    assert_int_equal(f->h.core.eps[1].tx.blocked_on, UNETMM_BLOCKED_WIRE);
    assert_true(f->h.core.eps[1].tx.desc.flags & UNETMM_SQE_F_INLINE);
}

LIE(one_segment, t->desc.nsegs = 1)
LIE(at_a_segment, t->seg = 1)
LIE(within_a_segment, t->seg_off = 1)

TEST(test_inline, cmocka_unit_test)
{
    TELL(NULL, inline_waits, the_truth, NULL);
    TELL(NULL, inline_waits, one_segment, MAY_NOT);
    TELL(NULL, inline_waits, at_a_segment, "its segments do not agree");
    TELL(NULL, inline_waits, within_a_segment, "its segments do not agree");
}

/* A message of a UD channel waits for its second page. */
static void ud_waits(Fix *f)
{
    const struct unetmm_seg segs[] = {
        { FIX_PAGE(0), 10, { 0 } }, { FIX_PAGE(1), 100, { 0 } },
    };

    assert_int_equal(fake_command(&f->d, ud_cmd(1, 7, UD_MTU), NULL),
                     UNETMM_CS_OK);
    fake_insert(f->s1, FIX_PAGE(0), 1, NULL);
    ud_post(&f->a, (struct unetmm_sqe) {
        .opcode = UNETMM_OP_SEND_TO, .nsegs = 2, .inline_len = 60,
        .flags = UNETMM_SQE_F_INLINE | UNETMM_SQE_F_IMM, .imm = 5,
        .channel = UD_CH, .cookie = 1, .handle = 7,
        .remote = ud_address(fake_peer_mac, 3) }, 1, segs);
    fake_ring_bell(&f->a);
    assert_int_equal(f->h.core.eps[1].tx.blocked_on, UNETMM_BLOCKED_FAULT);
    assert_int_equal(f->h.core.eps[1].tx.done, 70);
}

/* More inline bytes, or fewer. */
static void longer_head(UnetmmTransfer *t, int32_t by)
{
    t->desc.len += by;
    t->done += by;
}

LIE(shortest_head, longer_head(t, UD_HEAD - 60))
LIE(short_head, longer_head(t, UD_HEAD - 61))
LIE(longest_head, longer_head(t, UNETMM_MAX_INLINE - 60))
LIE(long_head, longer_head(t, UNETMM_MAX_INLINE - 59))
LIE(all_places, longer_head(t, UNETMM_MAX_INLINE - 60); t->desc.nsegs = 4)
LIE(no_place, longer_head(t, UNETMM_MAX_INLINE - 60); t->desc.nsegs = 5)
LIE(most_segments, longer_head(t, -12); t->desc.nsegs = UNETMM_UD_SEGS)
LIE(many_segments, longer_head(t, -20); t->desc.nsegs = UNETMM_UD_SEGS + 1)
LIE(not_inline, t->desc.flags &= ~UNETMM_SQE_F_INLINE)
LIE(of_no_key, t->desc.flags |= UNETMM_SQE_F_KEYED)
LIE(notifies, t->desc.flags |= UNETMM_SQE_F_NOTIFY)
LIE(no_immediate, t->desc.flags &= ~UNETMM_SQE_F_IMM)
LIE(for_a_group, t->desc.remote |= 1)
LIE(sends_of_no_wire, t->desc.opcode = UNETMM_OP_WRITE)
LIE(ud_needs_no_page, t->done = t->desc.len; t->seg_off = 100)

TEST(test_ud, cmocka_unit_test)
{
    TELL(NULL, ud_waits, the_truth, NULL);
    TELL(NULL, ud_waits, shortest_head, NULL);
    TELL(NULL, ud_waits, short_head, MAY_NOT);
    TELL(NULL, ud_waits, longest_head, NULL);
    TELL(NULL, ud_waits, long_head, MAY_NOT);
    TELL(NULL, ud_waits, all_places, NULL);
    TELL(NULL, ud_waits, no_place, MAY_NOT);
    TELL(NULL, ud_waits, most_segments, NULL);
    TELL(NULL, ud_waits, many_segments, MAY_NOT);
    TELL(NULL, ud_waits, not_inline, MAY_NOT);
    TELL(NULL, ud_waits, of_no_key, MAY_NOT);
    TELL(NULL, ud_waits, notifies, MAY_NOT);
    TELL(NULL, ud_waits, no_immediate, MAY_NOT);
    TELL(NULL, ud_waits, for_a_group, MAY_NOT);
    TELL(NULL, ud_waits, sends_of_no_wire, MAY_NOT);
    TELL(NULL, datagram_waits, sends_of_no_wire, MAY_NOT);
    TELL(NULL, datagram_waits, for_a_group, MAY_NOT);
    TELL(NULL, ud_waits, ud_needs_no_page, "a page that it does not need");
    TELL(NULL, ud_waits, within_a_segment, "its segments do not agree");
}

/* Its page's entry in the driver's table is locked. */
static void shadow_moves(Fix *f)
{
    FakeSpace *s = fake_space(&f->d, 3, UNETMM_SOURCE_SHADOW, 4);

    assert_int_equal(fake_ep_destroy(&f->a), UNETMM_CS_OK);
    fake_map(s, FIX_VA, FAKE_PAGE, FAKE_RW);
    fake_ep_open(&f->a, &f->d, 1, s);
    fake_connect_peer(&f->a, FIX_WIRE, 11, FIX_MTU);
    datagram_moves_of(f, s);
}

LIE(odd_entry, t->page.entry++)
LIE(invalid_entry, t->page.pte &= ~UNETMM_PTE_VALID)
LIE(forbidden_entry, t->page.pte &= ~UNETMM_PTE_READ)

TEST(test_shadow, cmocka_unit_test)
{
    TELL(slow, shadow_moves, the_truth, NULL);
    TELL(slow, shadow_moves, odd_entry, "could not have found");
    TELL(slow, shadow_moves, invalid_entry, "could not have found");
    TELL(slow, shadow_moves, forbidden_entry, "could not have found");
}

/* Of a WRITE the first packet has landed, and number `n` from it on lands. */
static void landing_at(Fix *f, uint32_t n)
{
    peer_open(f);
    give(f, UNETMM_WIRE_WRITE, 0, 0, 500, 0, 1000);
    fake_advance(&f->h, PAGE_NS);
    give(f, UNETMM_WIRE_WRITE, n, 1000, 0, LAST, 500);
    assert_true(f->h.core.landing->active);
    assert_int_equal(f->h.core.landing->header.psn, PEER_YOURS + n);
    assert_int_equal(f->h.core.eps[1].rels->rx.nxt, PEER_YOURS + 1);
}

/* The WRITE would be longer than any message with this packet. */
static void landing(Fix *f)
{
    landing_at(f, 1);
    assert_int_equal(f->h.core.eps[1].rels->in.run, 1000);
}

/* Of a packet before its turn it is not known yet: one is missing between. */
static void landing_early(Fix *f)
{
    landing_at(f, 2);
}

LIE(endless_write, rel->in.run = UNETMM_MAX_MESSAGE)

/* The opcode is none of reliable channels. */
static void header_of(struct unetmm_frame *f, uint8_t opcode)
{
    *f = (struct unetmm_frame) { .opcode = opcode, .len = f->len };
}

LIE(message_of_ud, header_of(&c->landing->header, UNETMM_WIRE_SEND_TO))
LIE(message_of_datagram, header_of(&c->landing->header, UNETMM_WIRE_DATAGRAM))

static void refused_miss(UnetmmMiss *miss)
{
    miss->state = UNETMM_MISS_REFUSED;
    miss->npages = 1;
}

/* Endpoint 3 and the last reliable channel do not exist. */
LIE(miss_of_nobody, refused_miss(&c->miss->all[3 * UNETMM_EP_MISSES]))
LIE(miss_of_no_channel, refused_miss(&c->miss->all[unetmm_misses(c) - 1]))

TEST(test_landing, cmocka_unit_test)
{
    TELL(slow, landing, the_truth, NULL);
    TELL(slow, landing, endless_write, "lands where it cannot");
    TELL(slow, landing, message_of_ud, "lands where it cannot");
    TELL(slow, landing, message_of_datagram, "lands where it cannot");
    /* The missing page may end the long one, and this one be the next. */
    TELL(slow, landing, miss_of_nobody, "is of no endpoint");
    TELL(slow, landing, miss_of_no_channel, "is of no endpoint");
    TELL(slow, landing_early, the_truth, NULL);
    TELL(slow, landing_early, endless_write, NULL);
}

/* A SEND lands, and its endpoint has been stopped meanwhile. */
static void landing_stopped(Fix *f)
{
    peer_open(f);
    fake_post(&f->a, PEER_PAGE(0), 2000, 7);
    fake_ring_bell(&f->a);
    fake_serve(&f->d);
    give_send(f, 0, 0, 500, 500);
    assert_true(f->h.core.landing->active);
    fake_user_word(&f->a, offsetof(struct unetmm_ep_user, sq_prod), 999);
    fake_ring_bell(&f->a);
    assert_true(f->h.core.eps[1].error && f->h.core.landing->active);
}

TEST(test_stopped, cmocka_unit_test)
{
    TELL(slow, landing_stopped, the_truth, NULL);
    TELL(slow, landing_stopped, message_of_ud, "lands where it cannot");
}

/* The peer has not answered, and the channel has ended; so has a region. */
static void ended(Fix *f)
{
    peer_open(f);
    fake_region(f->s1, PEER_REGION + 1, PEER_KEY, PEER_AT, 100,
                UNETMM_RIGHT_ALL, UNETMM_REGION_F_KEYED);
    fake_region_clear(&f->d, PEER_REGION + 1);
    fake_send_inline(&f->a, PEER_CH, 1, 30, 1, 0);
    fake_ring_bell(&f->a);
    for (unsigned i = 0; i < 20; i++) {
        fake_advance(&f->h, 1000000);
    }
    assert_int_equal(f->h.core.eps[1].rels->state, UNETMM_REL_FAILED);
}

#define GOES_ON "a channel that has ended goes on"

LIE(ended_rejects, rel->rx.why = UNETMM_WHY_MEMORY)
LIE(ended_rejects_late, rel->rx.late_why = UNETMM_WHY_MEMORY)
LIE(ended_answers, rel->answers.owed = 1; rel->answers.asks[0].target.len = 8)
LIE(no_state, rel->state = UNETMM_REL_CLOSED + 1)
LIE(of_no_space, c->remote->regions[PEER_REGION + 1].last_space = 0)
LIE(beyond_spaces, c->remote->regions[PEER_REGION + 1].last_space = c->params.spaces)

TEST(test_ended, cmocka_unit_test)
{
    TELL(NULL, ended, the_truth, NULL);
    TELL(NULL, ended, ended_rejects, GOES_ON);
    TELL(NULL, ended, ended_rejects_late, GOES_ON);
    TELL(NULL, ended, ended_answers, GOES_ON);
    TELL(NULL, ended, no_state, "has no such state");
    TELL(NULL, ended, of_no_space, "a cleared region was of no space");
    TELL(NULL, ended, beyond_spaces, "a cleared region was of no space");
}

static void opened_as(Fix *f, uint8_t flags, uint8_t state)
{
    const struct unetmm_cmd_channel how = {
        .mtu = PEER_MTU, .send_psn = PEER_MY, .recv_psn = PEER_YOURS,
        .flags = flags, .state = state,
    };

    peer_open(f);
    fake_channel_rel(&f->a, PEER_CH, fake_peer_mac, PEER_EP, PEER_CH, &how);
}

/* A send has failed and waits for those before it. */
static void ending(Fix *f)
{
    struct unetmm_sqe s = peer_sqe(UNETMM_OP_SEND, 0, 1, 0, 1);

    opened_as(f, UNETMM_CHANNEL_F_STRICT, UNETMM_CHANNEL_RTS);
    s.handle = 0;
    peer_post(f, s);
    s.imm = 1;
    peer_post(f, s);
    assert_true(f->h.core.eps[1].rels->ending.due);
}

static void flushing(Fix *f)
{
    const struct unetmm_cmd flush = {
        .opcode = UNETMM_CMD_CHANNEL_CLEAR, .ep = f->a.id,
        .channel = { .channel = PEER_CH, .flags = UNETMM_CHANNEL_F_FLUSH },
    };

    peer_open(f);
    assert_int_equal(fake_command(&f->d, flush, NULL), UNETMM_CS_OK);
    assert_true(f->h.core.eps[1].flushing);
}

static void initial(Fix *f)
{
    opened_as(f, 0, UNETMM_CHANNEL_INIT);
}

LIE(ends_behind_all, rel->ending.msg += 2)
LIE(ends_well, rel->ending.status = UNETMM_ST_OK)
LIE(flushes_none, c->eps[1].flush_sq--; c->eps[1].flush_fq--)
LIE(flushes_long_ago, c->eps[1].flush_sq ^= 1u << 31;
    c->eps[1].flush_fq ^= 1u << 31)
LIE(flushes_slots, c->eps[1].flushing = true)

/* An endpoint without heads, which cannot be flushed. */
static void slotted(Fix *f)
{
    assert_int_equal(fake_ep_destroy(&f->a), UNETMM_CS_OK);
    fake_ep_init(&f->a, &f->d, 1, f->s1);
    f->a.policy = UNETMM_POLICY_BACKUP;
    f->a.backup = 8;
    fake_ep_create(&f->a);
}

LIE(rejects_too_soon, rel->rx.late_why = UNETMM_WHY_MEMORY)
LIE(keys_too_soon, rel->rx.bad_keys = 1)

TEST(test_ending, cmocka_unit_test)
{
    TELL(NULL, ending, the_truth, NULL);
    TELL(NULL, ending, ends_behind_all, "ending_msg is 3");
    TELL(NULL, ending, ends_well, "ends for no send of it");
    TELL(NULL, flushing, the_truth, NULL);
    TELL(NULL, flushing, flushes_none, NULL);
    TELL(NULL, flushing, flushes_long_ago, NULL);
    TELL(NULL, slotted, the_truth, NULL);
    TELL(NULL, slotted, flushes_slots, "cannot be flushed so");
    TELL(NULL, initial, the_truth, NULL);
    TELL(NULL, initial, rejects_too_soon, "too soon");
    TELL(NULL, initial, keys_too_soon, "too soon");
}

/* The answer to a question waits for a packet. */
static void asked(Fix *f)
{
    const struct unetmm_frame h = {
        .opcode = UNETMM_WIRE_VOID, .psn = PEER_YOURS,
        .flags = UNETMM_WIRE_F_ASK,
    };

    opened_as(f, UNETMM_CHANNEL_F_ACK, UNETMM_CHANNEL_RTS);
    f->h.core.eps[1].rels->along.likely = UNETMM_REL_ALONG_LIKELY;
    peer_give(f, h, NULL, 0);
    assert_int_equal(f->h.core.eps[1].rels->along.question, UNETMM_REL_WAITS);
}

#define IN_VAIN "was asked for an acknowledgement in vain"

LIE(too_likely, rel->along.likely = UNETMM_REL_ALONG_LIKELY + 1)
LIE(no_question, rel->along.question = UNETMM_REL_WAITS + 1)
LIE(nobody_takes, c->eps[1].channels[PEER_CH].peer_takes = 0)
LIE(waits_too_long, rel->along.question_ns += 1000)

TEST(test_asked, cmocka_unit_test)
{
    TELL(NULL, asked, the_truth, NULL);
    TELL(NULL, asked, too_likely, "along is 17, which is out of range");
    TELL(NULL, asked, no_question, "question is 3, which is out of range");
    TELL(NULL, asked, nobody_takes, IN_VAIN);
    TELL(NULL, asked, waits_too_long, "question_ns is too far ahead");
}

/* A part of the region has begun to move. */
static void moved_part(Fix *f)
{
    struct unetmm_cmd c = {
        .opcode = UNETMM_CMD_REGION_REDIRECT,
        .redirect = {
            .region = PEER_REGION, .what = UNETMM_REDIRECT_BEGIN,
            .offset = 1000, .length = 500, .to = PEER_PAGE(30),
        },
    };

    peer_open(f);
    fake_region_clear(&f->d, PEER_REGION);
    assert_int_equal(fake_region(f->s1, PEER_REGION, PEER_KEY, PEER_AT,
                                 PEER_LENGTH, UNETMM_RIGHT_ALL,
                                 FAKE_REGION_PEERS), UNETMM_CS_OK);
    c.redirect.list = fake_alloc(&f->h, UNETMM_REDIRECT_LANDED *
                                 sizeof(struct unetmm_landed), 8, FAKE_RW);
    assert_int_equal(fake_command(&f->d, c, NULL), UNETMM_CS_OK);
}

static UnetmmMove *part(UnetmmCore *c)
{
    return &c->remote->regions[PEER_REGION].moved->moves[0];
}

#define FOR_NOTHING "a part of a region waits for nothing"

LIE(waits_for_back, part(c)->waits = UNETMM_REDIRECT_BACK;
    part(c)->state = UNETMM_MOVE_BEGUN)
LIE(waits_for_end, part(c)->waits = UNETMM_REDIRECT_END;
    part(c)->state = UNETMM_MOVE_BEGUN)
LIE(waits_for_begin, part(c)->waits = UNETMM_REDIRECT_BEGIN;
    part(c)->state = UNETMM_MOVE_DONE)
LIE(waits_for_go, part(c)->waits = UNETMM_REDIRECT_GO)
LIE(copied_beyond, part(c)->from = part(c)->last + 2)
LIE(copied_all, part(c)->from = part(c)->last + 1)
LIE(copied_before, part(c)->from = part(c)->first - 1)
LIE(copied_none, part(c)->from = part(c)->first)
LIE(never_moved, part(c)->state = UNETMM_MOVE_RETURNING + 1)
LIE(beyond_region, part(c)->last = PEER_LENGTH)

TEST(test_moved, cmocka_unit_test)
{
    TELL(NULL, moved_part, the_truth, NULL);
    TELL(NULL, moved_part, copied_all, NULL);
    TELL(NULL, moved_part, copied_none, NULL);
    TELL(NULL, moved_part, waits_for_back, FOR_NOTHING);
    TELL(NULL, moved_part, waits_for_end, FOR_NOTHING);
    TELL(NULL, moved_part, waits_for_begin, FOR_NOTHING);
    TELL(NULL, moved_part, waits_for_go, FOR_NOTHING);
    TELL(NULL, moved_part, copied_beyond, FOR_NOTHING);
    TELL(NULL, moved_part, copied_before, FOR_NOTHING);
    TELL(NULL, moved_part, never_moved, "could not have moved");
    TELL(NULL, moved_part, beyond_region, "could not have moved");
}

/* ---- Times -------------------------------------------------------------- */

#define NO_TIME "a channel's time is none, or too long"

static void open_only(Fix *f)
{
    peer_open(f);
}

LIE(no_timeout, rel->timeout_us = 0)
LIE(no_pause, rel->not_ready_us = 0)
LIE(too_long, rel->timeout_us = UNETMM_REL_MAX_TIMEOUT_US + 1)
LIE(pause_too_long, rel->not_ready_us = UNETMM_REL_MAX_TIMEOUT_US + 1)
LIE(longest, rel->timeout_us = rel->not_ready_us = UNETMM_REL_MAX_TIMEOUT_US)
LIE(shortest, rel->timeout_us = rel->not_ready_us = 1)
LIE(no_retries, rel->retries = 0)
LIE(of_no_stage, rel->stage = UNETMM_CHANNEL_INIT)
LIE(ended_for_nothing, rel->why = UNETMM_WHY_COUNTER + 1)

TEST(test_times, cmocka_unit_test)
{
    TELL(NULL, open_only, shortest, NULL);
    TELL(NULL, open_only, longest, NULL);
    TELL(NULL, open_only, no_timeout, NO_TIME);
    TELL(NULL, open_only, no_pause, NO_TIME);
    TELL(NULL, open_only, too_long, NO_TIME);
    TELL(NULL, open_only, pause_too_long, NO_TIME);
    TELL(NULL, open_only, no_retries, NULL);
    TELL(NULL, open_only, of_no_stage, NULL);
    TELL(NULL, open_only, ended_for_nothing, "ended for no reason");
}

/* The first packet of a SEND is refused, with no pause: the card makes one. */
TEST_OF(test_no_pause, Fix *f, fix_test)
{
    int64_t was;

    peer_open(f);
    fake_send_inline(&f->a, PEER_CH, 1, 30, 1, 0);
    fake_ring_bell(&f->a);
    peer_expect(f, UNETMM_WIRE_SEND, PEER_MY);
    was = f->h.now;
    peer_ack_as(f, PEER_MY, 0, UNETMM_ACK_NOT_READY, 0);
    assert_int_equal(f->h.timer, was + 1000);
    fake_advance(&f->h, 999);
    peer_silence(f);
    fake_advance(&f->h, 1);
    peer_expect(f, UNETMM_WIRE_SEND, PEER_MY);
}

/* ---- Slots of the system buffer ----------------------------------------- */

#define CREDITS 5

/* Endpoint a moves; nothing of its region is there but page 22. */
static void redirecting(Fix *f)
{
    const struct unetmm_cmd_channel how = {
        .mtu = PEER_MTU, .send_psn = PEER_MY, .recv_psn = PEER_YOURS,
        .retries = 3, .timeout_us = 1000, .not_ready_retries = 4,
        .recv_credits = CREDITS,
    };

    assert_int_equal(fake_ep_destroy(&f->a), UNETMM_CS_OK);
    assert_int_equal(fake_sysbuf(&f->d, 8, 9000), UNETMM_CS_OK);
    fake_ep_init(&f->a, &f->d, 1, f->s1);
    f->a.policy = UNETMM_POLICY_REDIRECT;
    fake_ep_create(&f->a);
    f->d.hold_slots = f->d.hold_back = true;
    assert_int_equal(fake_channel_rel(&f->a, PEER_CH, fake_peer_mac, PEER_EP,
                                      PEER_CH, &how), UNETMM_CS_OK);
    assert_int_equal(fake_region(f->s1, PEER_REGION, PEER_KEY, PEER_AT,
                                 PEER_LENGTH, UNETMM_RIGHT_ALL,
                                 UNETMM_REGION_F_NOTIFY), UNETMM_CS_OK);
    fake_insert(f->s1, PEER_PAGE(22), 1, NULL);
    fake_wire_clear(&f->h);
}

/* Two packets are in slots, and the driver has been told. */
static void redirected(Fix *f)
{
    redirecting(f);
    give(f, UNETMM_WIRE_WRITE, 0, 0, 0, LAST, 100);
    give(f, UNETMM_WIRE_WRITE, 1, 500, 0, LAST, 100);
    fake_serve(&f->d);
    assert_int_equal(f->d.full->len, 2);
}

static UnetmmSysbufSlot *slot_of(UnetmmCore *c, unsigned n)
{
    UnetmmRel *rel = c->eps[1].rels;

    return &c->sysbuf->slots[rel->share.slot_of[(PEER_YOURS + n) %
                                               UNETMM_REL_WINDOW]];
}

LIE(two_of_one_packet, slot_of(c, 1)->psn = PEER_YOURS)
LIE(of_nobody, slot_of(c, 1)->psn = PEER_YOURS + 9)
LIE(one_too_few, slot_of(c, 1)->share = NULL)
LIE(one_too_many, rel->share.credits = 1)
LIE(reported_twice, twice(&c->sysbuf->full, 3))

TEST(test_slots, cmocka_unit_test)
{
    TELL(NULL, redirected, the_truth, NULL);
    TELL(NULL, redirected, two_of_one_packet, "a slot that it has not");
    TELL(NULL, redirected, of_nobody, "that none waits for");
    TELL(NULL, redirected, one_too_few, "a slot that it has not");
    TELL(NULL, redirected, one_too_many, "more slots than it has");
    TELL(NULL, redirected, reported_twice, "to be reported twice");
}

/*
 * The driver has copied a packet while another one lands: the channel goes on
 * when that has ended, also in the place that the card has moved to by then.
 */
static void held_up(Fix *f, bool move)
{
    redirecting(f);
    give(f, UNETMM_WIRE_WRITE, 0, 0, 0, LAST | NOTIFY, 100);
    fake_serve(&f->d);
    give(f, UNETMM_WIRE_WRITE, 1, 2 * FAKE_PAGE, 0, LAST, 100);
    assert_true(f->h.core.landing->active);
    fake_slot_serve(&f->d, 0);
    assert_true(f->h.core.eps[1].rels->rx.landed);
    assert_int_equal(f->h.core.lists->ready.used, 0);
    fake_expect_none(&f->a);
    if (move) {
        fake_migrate(&f->h);
    }
    fake_advance(&f->h, PAGE_NS);
    assert_false(f->h.core.landing->active);
    fake_expect(&f->a, UNETMM_CQE_NOTIFY, UNETMM_ST_OK, PEER_REGION + 0x7000);
    assert_int_equal(f->h.core.eps[1].rels->rx.nxt, PEER_YOURS + 2);
}

TEST(test_held_up, fix_test_with, slow)
{
    held_up(*state, false);
}

TEST(test_held_up_moved, fix_test_with, slow)
{
    held_up(*state, true);
}

/* ---- The layout --------------------------------------------------------- */

/*
 * All values of the scenes below, by path without numbers, with their sizes: a
 * card that reads another one's state relies on each of them.  A change of a
 * line raises STATE_VERSION (card/save.c).  With UNETMM_LAYOUT in the
 * environment the test prints the lines as they are now.  A new number has a
 * row in bounds.c, or its line says that it may be any.
 */
static const char *const layout[] = {
#include "saved_layout.h"
};

typedef struct Noted {
    GHashTable *found;
    const UnetmmCore *core;
} Noted;

/* "ep.channel.mtu 4"; the part in brackets is left out. */
static void note_value(void *opaque, const UnetmmValue *value)
{
    Noted *noted = opaque;
    GString *line;
    bool inside = false, any;

    /* These follow from their table. */
    if (strstr(value->path, "counters.")) {
        return;
    }
    line = g_string_new(NULL);
    for (const char *c = value->path; *c; c++) {
        inside = *c == '[' || (inside && *c != ']');
        if (!inside && *c != ']') {
            g_string_append_c(line, *c);
        }
    }
    if (value->kind != UNETMM_VALUE_BYTES) {
        any = value->kind != UNETMM_VALUE_BOOL &&
              !bounds_has_row(noted->core, line->str);
        g_string_append_printf(line, " %zu%s", value->bytes,
                               any ? " any" : "");
    }
    g_hash_table_add(noted->found, g_string_free(line, false));
}

static void note_scene(GHashTable *found, FixTune *tune, void (*scene)(Fix *f))
{
    Noted noted = { .found = found };
    const UnetmmObserver observer = { .value = note_value, .opaque = &noted };
    void *state = (void *)tune;
    GByteArray *saved;
    Fix *f;

    fix_setup(&state);
    f = state;
    scene(f);
    noted.core = &f->h.core;
    unetmm_core_observe(&f->h.core, &observer);
    saved = unetmm_core_save(&f->h.core);
    unetmm_core_observe(&f->h.core, NULL);
    g_byte_array_unref(saved);
    unetmm_core_reset(&f->h.core);
    fix_teardown(&state);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* An atomic without an answer, whose old value has a segment. */
static void with_result(Fix *f)
{
    struct unetmm_sqe s = {
        .opcode = UNETMM_OP_FETCH_ADD, .flags = UNETMM_SQE_F_INLINE,
        .inline_len = 8, .nsegs = 1, .channel = PEER_CH,
        .handle = PEER_IMPORT,
    };

    s.seg[UNETMM_SQE_RESULT].addr = cpu_to_le64(PEER_AT);
    s.seg[UNETMM_SQE_RESULT].len = cpu_to_le32(8);
    peer_open(f);
    peer_post(f, s);
    assert_int_equal(f->h.core.eps[1].rels->msgs.msg[0].nsegs, 1);
}

TEST(test_layout, cmocka_unit_test)
{
    GHashTable *found = g_hash_table_new_full(g_str_hash, g_str_equal, g_free,
                                              NULL);
    g_autofree const char **lines = NULL;
    unsigned n = 0;

    note_scene(found, slow, answering);
    note_scene(found, slow, answering_atomic);
    note_scene(found, NULL, keeping);
    note_scene(found, NULL, half_sent);
    note_scene(found, paced, half_sent);
    note_scene(found, slow, datagram_moves);
    note_scene(found, slow, shadow_moves);
    note_scene(found, slow, landing);
    note_scene(found, slow, landing_stopped);
    note_scene(found, NULL, redirected);
    note_scene(found, NULL, ended);
    note_scene(found, NULL, asked);
    note_scene(found, NULL, with_result);
    note_scene(found, NULL, ending);
    note_scene(found, NULL, flushing);
    note_scene(found, NULL, moved_part);
    lines = (const char **)g_hash_table_get_keys_as_array(found, &n);
    qsort(lines, n, sizeof(*lines), by_name);
    for (unsigned i = 0; i < n && getenv("UNETMM_LAYOUT"); i++) {
        printf("\"%s\",\n", lines[i]);
    }
    fflush(stdout);
    for (unsigned i = 0; i < MAX(n, G_N_ELEMENTS(layout)); i++) {
        if (i == n || i == G_N_ELEMENTS(layout) ||
            strcmp(lines[i], layout[i])) {
            fail_msg("value %u is %s, and should be %s", i,
                     i < n ? lines[i] : "none",
                     i < G_N_ELEMENTS(layout) ? layout[i] : "none");
        }
    }
    g_hash_table_unref(found);
}
