/*
 * unetmm: the port: local delivery, the wire's answers, re-entrancy, and
 * misbehaviour on request
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fixture.h"

#define PAGE(n) (FIX_VA + (uint64_t)(n) * FAKE_PAGE)

/* ---- On the card itself ---- */

TEST_OF(test_local, Fix *f, fix_test)
{
    fake_fill(f->s1, PAGE(3) + 7, 9000, 4);
    fake_post(&f->b, PAGE(0) + 123, 9000, 2);
    fix_settle(f);
    fake_send_at(&f->a, FIX_LOCAL, PAGE(3) + 7, 9000, 1);
    fix_settle(f);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    assert_int_equal(fake_expect(&f->b, UNETMM_CQE_RECEIVED, UNETMM_ST_OK,
                                 2).len, 9000);
    fake_check(f->s2, PAGE(0) + 123, 9000, 4);
    assert_int_equal(f->h.wire->len, 0);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_local_frames), 1);
}

TEST_OF(test_local_to_itself, Fix *f, fix_test)
{
    fake_channel(&f->a, 7, f->h.core.params.mac, 1, 8, FIX_MTU);
    fake_channel(&f->a, 8, f->h.core.params.mac, 1, 7, FIX_MTU);
    for (unsigned i = 0; i < 50; i++) {
        fake_send_inline(&f->a, 7, i, 40, i, 0);
        fake_ring_bell(&f->a);
        fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, i);
        assert_int_equal(fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK,
                                     0).channel, 8);
    }
}

/* The same checks as from the wire: no channel back, no delivery. */
TEST_OF(test_local_is_checked, Fix *f, fix_test)
{
    const uint8_t *own = f->h.core.params.mac;

    fake_channel(&f->a, 7, own, 2, 9, FIX_MTU);
    fake_send_inline(&f->a, 7, 1, 8, 1, 0);
    expect_count(&f->h, drop_channel, 1, fake_ring_bell(&f->a));
    fake_channel(&f->a, 7, own, 6, 1, FIX_MTU);
    fake_send_inline(&f->a, 7, 1, 8, 1, 0);
    expect_count(&f->h, drop_no_endpoint, 1, fake_ring_bell(&f->a));
    fake_expect_none(&f->b);
}

/* The link is no matter of local frames. */
TEST_OF(test_local_without_link, Fix *f, fix_test)
{
    unetmm_core_set_link(&f->h.core, false);
    f->h.core.port->busy = true;
    fake_send_inline(&f->a, FIX_LOCAL, 1, 8, 1, 0);
    fake_ring_bell(&f->a);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    fake_expect(&f->b, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 0);
}

static void slow_short_queue(UnetmmParams *p)
{
    p->local_queue = 2;
    p->dma_page_ns = 1000;
}

/* The queue is full: the sender waits, and nothing is lost. */
TEST_OF(test_local_queue_full, Fix *f, fix_test_with, slow_short_queue)
{
    fake_insert(f->s1, PAGE(0), 1, NULL);
    for (unsigned i = 0; i < 10; i++) {
        fake_post(&f->b, PAGE(0) + 100 * i, 100, i);
    }
    fix_settle(f);
    for (unsigned i = 0; i < 8; i++) {
        fake_send_inline(&f->a, FIX_LOCAL, i, 60, i, 0);
    }
    fake_ring_bell(&f->a);
    /* One lands, two wait in the queue, the fourth blocks the endpoint. */
    for (unsigned i = 0; i < 3; i++) {
        fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, i);
    }
    fake_expect_none(&f->a);
    assert_int_equal(f->h.core.eps[1].tx.blocked_on, UNETMM_BLOCKED_WIRE);
    for (unsigned i = 0; i < 8; i++) {
        fake_advance(&f->h, 1000);
        fake_expect(&f->b, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, i);
        fake_check(f->s2, PAGE(0) + 100 * i, 60, i);
    }
    for (unsigned i = 3; i < 8; i++) {
        fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, i);
    }
    assert_int_equal(fake_counter(&f->h, UNETMM_C_drop_local_full), 0);
}

/* ---- The wire's answers ---- */

TEST_OF(test_refused, Fix *f, fix_test)
{
    f->h.answer = UNETMM_SENT_REFUSED;
    fake_send_inline(&f->a, FIX_WIRE, 1, 8, 1, 0);
    expect_count(&f->h, drop_refused, 1, fake_ring_bell(&f->a));
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_REFUSED, 1);
}

TEST_OF(test_queued, Fix *f, fix_test)
{
    for (unsigned purged = 0; purged < 2; purged++) {
        f->h.answer = UNETMM_SENT_QUEUED;
        fake_wire_clear(&f->h);
        for (unsigned i = 0; i < 3; i++) {
            fake_send_inline(&f->a, FIX_WIRE, i, 8, i, 0);
            fake_send_inline(&f->b, FIX_WIRE, i, 8, i, 0);
        }
        fake_ring_bell(&f->a);
        fake_ring_bell(&f->b);
        assert_int_equal(f->h.wire->len, 1);
        fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 0);
        fake_expect_none(&f->a);
        fake_expect_none(&f->b);
        /* Each time one more; both endpoints get their turn. */
        for (unsigned i = 1; i < 6; i++) {
            expect_count(&f->h, drop_purged, purged,
                         unetmm_core_sent(&f->h.core, !purged));
            assert_int_equal(f->h.wire->len, 1 + i);
        }
        unetmm_core_sent(&f->h.core, true);
        assert_int_equal(f->h.wire->len, 6);
        for (unsigned i = 0; i < 3; i++) {
            if (i) {
                fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, i);
            }
            fake_expect(&f->b, UNETMM_CQE_SENT, UNETMM_ST_OK, i);
        }
    }
}

TEST_OF(test_link_down, Fix *f, fix_test)
{
    fake_set_reg(&f->h, UNETMM_REG_EVENT_MASK, UNETMM_EVENT_LINK);
    unetmm_core_set_link(&f->h.core, false);
    assert_int_equal(f->h.interrupts[UNETMM_VEC_EVENT], 1);
    assert_false(fake_reg(&f->h, UNETMM_REG_STATUS) & UNETMM_STATUS_LINK);
    fake_send_inline(&f->a, FIX_WIRE, 1, 8, 1, 0);
    expect_count(&f->h, drop_link, 1, fake_ring_bell(&f->a));
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_LINK_DOWN, 1);
    /* The same again is no event. */
    fake_set_reg(&f->h, UNETMM_REG_EVENTS, UNETMM_EVENT_LINK);
    unetmm_core_set_link(&f->h.core, false);
    assert_int_equal(fake_reg(&f->h, UNETMM_REG_EVENTS) & UNETMM_EVENT_LINK,
                     0);
    unetmm_core_set_link(&f->h.core, true);
    assert_int_equal(f->h.interrupts[UNETMM_VEC_EVENT], 2);
    fake_send_inline(&f->a, FIX_WIRE, 1, 8, 2, 0);
    fake_ring_bell(&f->a);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
}

/* A wire that takes one frame at a time takes them from all in turn. */
TEST_OF(test_wire_in_turn, Fix *f, fix_test)
{
    unsigned sent[3] = { 0 };

    f->h.answer = UNETMM_SENT_QUEUED;
    for (unsigned i = 0; i < 6; i++) {
        fake_send_inline(&f->a, FIX_WIRE, i, 8, i, 0);
        fake_send_inline(&f->b, FIX_WIRE, i, 8, i, 0);
    }
    fake_ring_bell(&f->a);
    fake_ring_bell(&f->b);
    for (unsigned i = 0; i < 12; i++) {
        struct unetmm_frame frame;

        assert_int_equal(f->h.wire->len, i + 1);
        memcpy(&frame, fake_wire_at(&f->h, i)->data, sizeof(frame));
        unetmm_le_frame(&frame);
        sent[frame.src_ep]++;
        assert_true(sent[1] <= sent[2] + 1 && sent[2] <= sent[1] + 1);
        unetmm_core_sent(&f->h.core, true);
    }
}

/* Blocked on the wire when the link goes: told, not left waiting. */
TEST_OF(test_link_goes_while_blocked, Fix *f, fix_test)
{
    f->h.answer = UNETMM_SENT_QUEUED;
    fake_send_inline(&f->a, FIX_WIRE, 1, 8, 1, 0);
    fake_send_inline(&f->a, FIX_WIRE, 2, 8, 2, 0);
    fake_ring_bell(&f->a);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    fake_expect_none(&f->a);
    unetmm_core_set_link(&f->h.core, false);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_LINK_DOWN, 2);
}

/* The frame that the net layer owns outlives a reset. */
TEST_OF(test_reset_while_queued, Fix *f, fix_test)
{
    f->h.answer = UNETMM_SENT_QUEUED;
    fake_send_inline(&f->a, FIX_WIRE, 1, 8, 1, 0);
    fake_ring_bell(&f->a);
    fake_set_reg(&f->h, UNETMM_REG_CTRL, UNETMM_CTRL_RESET);
    assert_true(f->h.core.port->busy);
    unetmm_core_sent(&f->h.core, true);
    assert_false(f->h.core.port->busy);
}

/* ---- Re-entrancy: an answer that comes from inside our own send ---- */

typedef struct Echo {
    Fix *f;
    FakeFrame *answer;
    GPtrArray *queue;           /* of frames that were not taken */
    unsigned taken, deepest, depth;
    unsigned limit;
} Echo;

static Echo echo;

static void echo_offer(FakeHost *host)
{
    while (echo.queue->len) {
        FakeFrame *frame = echo.queue->pdata[0];

        if (!fake_receive(host, frame)) {
            return;
        }
        echo.taken++;
        g_ptr_array_remove_index(echo.queue, 0);
    }
}

/* As libslirp does: no matter whether the card wants it. */
static void echo_in_send(FakeHost *host, const uint8_t *data, size_t bytes)
{
    echo.depth++;
    echo.deepest = MAX(echo.deepest, echo.depth);
    assert_false(unetmm_core_can_receive(&host->core));
    if (echo.limit) {
        echo.limit--;
        assert_false(fake_receive(host, echo.answer));
        g_ptr_array_add(echo.queue, echo.answer);
    }
    echo.depth--;
}

TEST_OF(test_answer_inside_send, Fix *f, fix_test)
{
    echo = (Echo) { .f = f, .queue = g_ptr_array_new(), .limit = 5 };
    echo.answer = fake_datagram(&f->a, FIX_WIRE, 11, 30, 3);
    f->h.on_send = echo_in_send;
    f->h.on_may_receive = echo_offer;
    for (unsigned i = 0; i < 5; i++) {
        fake_send_inline(&f->a, FIX_WIRE, i, 8, i, 0);
    }
    fake_ring_bell(&f->a);
    assert_int_equal(echo.taken, 5);
    assert_int_equal(echo.queue->len, 0);
    assert_int_equal(echo.deepest, 1);
    for (unsigned i = 0; i < 5; i++) {
        fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, i);
    }
    for (unsigned i = 0; i < 5; i++) {
        fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 0);
    }
    g_free(echo.answer);
    g_ptr_array_unref(echo.queue);
}

/* Every entry point from inside a send: a note is left, nothing recurses. */
static void enter_everything(FakeHost *host, const uint8_t *data,
                             size_t bytes)
{
    Fix *f = container_of(host, Fix, h);
    unsigned frames = host->wire->len;

    unetmm_core_doorbell(&host->core, 1);
    unetmm_core_doorbell(&host->core, 2);
    unetmm_core_doorbell(&host->core, 99);
    unetmm_core_run(&host->core);
    unetmm_core_timer(&host->core);
    unetmm_core_sent(&host->core, true);
    unetmm_core_set_link(&host->core, false);
    unetmm_core_set_link(&host->core, true);
    fake_set_reg(host, UNETMM_REG_CTRL, UNETMM_CTRL_ENABLE);
    fake_reg(host, UNETMM_REG_STATUS);
    fake_issue(&f->d, (struct unetmm_cmd) { .opcode = UNETMM_CMD_NOP });
    assert_int_equal(host->wire->len, frames);
    assert_true(host->core.engine.depth >= 1);
}

TEST_OF(test_entry_points_inside_send, Fix *f, fix_test)
{
    struct unetmm_cmd_done done;
    unsigned n = 0;

    f->h.on_send = enter_everything;
    for (unsigned i = 0; i < 3; i++) {
        fake_send_inline(&f->a, FIX_WIRE, i, 8, i, 0);
        fake_send_inline(&f->b, FIX_WIRE, i, 8, i, 0);
    }
    fake_ring_bell(&f->a);
    for (unsigned i = 0; i < 3; i++) {
        fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, i);
        fake_expect(&f->b, UNETMM_CQE_SENT, UNETMM_ST_OK, i);
    }
    while (fake_done(&f->d, &done)) {
        n++;
    }
    assert_int_equal(n, 6);
    assert_int_equal(f->h.core.engine.depth, 0);
}

/* A reset asked for in the middle of a send ends the work at once. */
static void reset_in_send(FakeHost *host, const uint8_t *data, size_t bytes)
{
    unetmm_core_reset(&host->core);
}

TEST_OF(test_reset_inside_send, Fix *f, fix_test)
{
    f->h.on_send = reset_in_send;
    for (unsigned i = 0; i < 3; i++) {
        fake_send_inline(&f->a, FIX_WIRE, i, 8, i, 0);
    }
    fake_ring_bell(&f->a);
    assert_int_equal(fake_reg(&f->h, UNETMM_REG_CTRL), 0);
    assert_null(unetmm_ep_live(&f->h.core, 1));
    assert_true(f->h.wire->len <= 3);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_doorbells), 0);
}

/* ---- Misbehaviour on request ---- */

/* Frames of the wire come back to b: the hub of one card's own. */
static void loop_frames(Fix *f, unsigned from)
{
    for (unsigned i = from; i < f->h.wire->len; i++) {
        FakeFrame *sent = fake_wire_at(&f->h, i);
        FakeFrame *frame = g_malloc(sizeof(*frame) + sent->bytes);
        struct unetmm_frame *h = fake_header(frame);

        memcpy(frame, sent, sizeof(*frame) + sent->bytes);
        /* Only the addresses change; a damaged frame stays damaged. */
        if (le32_to_cpu(h->header_crc) == unetmm_crc32c(0, h, 60)) {
            memcpy(h->dst, f->h.core.params.mac, 6);
            memcpy(h->src, fake_peer_mac, 6);
            h->dst_ep = cpu_to_le16(2);
            h->src_ep = cpu_to_le16(12);
            h->header_crc = cpu_to_le32(unetmm_crc32c(0, h, 60));
        } else {
            memcpy(h->dst, f->h.core.params.mac, 6);
            memcpy(h->src, fake_peer_mac, 6);
        }
        fake_deliver(&f->h, frame);
    }
}

static unsigned drain(FakeEp *ep)
{
    struct unetmm_cqe cqe;
    unsigned n = 0;

    while (fake_poll(ep, &cqe)) {
        n++;
    }
    return n;
}

/* The send queue has 16 slots, and a burst takes 14: it is empty before. */
static void let_go(Fix *f, unsigned sent)
{
    while (fake_counter(&f->h, UNETMM_C_tx_frames) < sent) {
        fake_advance(&f->h, 1000000);
        drain(&f->a);
    }
}

/* Every message sent is received or counted in exactly one counter. */
static void conservation(Fix *f, bool local)
{
    uint64_t random = fake_seed();
    unsigned sent = 0, received = 0;
    uint64_t lost, extra;
    unsigned wire = 0;

    for (unsigned i = 0; i < 2000; i++) {
        if (local) {
            fake_send_inline(&f->a, FIX_LOCAL, i, i % 41, i, 0);
        } else {
            fake_send_inline(&f->a, FIX_WIRE, i, i % 41, i, 0);
        }
        sent++;
        fake_ring_bell(&f->a);
        drain(&f->a);
        loop_frames(f, wire);
        fake_wire_clear(&f->h);
        received += drain(&f->b);
        if (fake_random(&random) % 10 == 0 ||
            f->h.core.eps[1].tx.blocked_on == UNETMM_BLOCKED_WIRE) {
            fake_advance(&f->h, fake_random(&random) % 3000000);
        }
        let_go(f, sent);
        if (fake_random(&random) % 50 == 0) {
            /* The process looks away: its completion queue fills up. */
            for (unsigned j = 0; j < 14; j++) {
                fake_send_inline(&f->a, local ? FIX_LOCAL : FIX_WIRE, j, 8, j,
                                 UNETMM_SQE_F_QUIET);
                sent++;
            }
            fake_ring_bell(&f->a);
            loop_frames(f, wire);
            fake_wire_clear(&f->h);
        }
    }
    fake_advance(&f->h, 10000000);
    loop_frames(f, wire);
    received += drain(&f->b);
    lost = fake_counter(&f->h, UNETMM_C_inj_loss) +
           fake_counter(&f->h, UNETMM_C_drop_crc) +
           fake_counter(&f->h, UNETMM_C_drop_cq_full) +
           fake_counter(&f->h, UNETMM_C_drop_malformed);
    extra = fake_counter(&f->h, UNETMM_C_inj_dup);
    assert_int_equal(received + lost, sent + extra);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_drop_malformed), 0);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_tx_frames), sent);
    if (f->h.core.knobs.corrupt && !f->h.core.knobs.dup) {
        assert_int_equal(fake_counter(&f->h, UNETMM_C_drop_crc),
                         fake_counter(&f->h, UNETMM_C_inj_corrupt));
    }
}

static void misbehave(void **state, UnetmmKnobs knobs)
{
    for (unsigned local = 0; local < 2; local++) {
        Fix *f;

        *state = NULL;
        fix_setup(state);
        f = *state;
        f->h.core.knobs = knobs;
        unetmm_core_set_seed(&f->h.core, fake_seed());
        conservation(f, local);
        if (knobs.loss) {
            assert_true(fake_counter(&f->h, UNETMM_C_inj_loss) > 0);
        }
        if (knobs.dup) {
            assert_true(fake_counter(&f->h, UNETMM_C_inj_dup) > 0);
        }
        if (knobs.reorder) {
            assert_true(fake_counter(&f->h, UNETMM_C_inj_reorder) > 0);
        }
        if (knobs.corrupt) {
            assert_true(fake_counter(&f->h, UNETMM_C_inj_corrupt) > 0);
        }
        if (knobs.delay) {
            assert_true(fake_counter(&f->h, UNETMM_C_inj_delay) > 0);
        }
        if (!local) {
            fix_teardown(state);
        }
    }
}

TEST(test_loss, cmocka_unit_test_teardown, fix_teardown)
{
    misbehave(state, (UnetmmKnobs) { .loss = 200000 });
}

TEST(test_dup, cmocka_unit_test_teardown, fix_teardown)
{
    misbehave(state, (UnetmmKnobs) { .dup = 200000 });
}

TEST(test_reorder, cmocka_unit_test_teardown, fix_teardown)
{
    misbehave(state, (UnetmmKnobs) { .reorder = 200000 });
}

TEST(test_corrupt, cmocka_unit_test_teardown, fix_teardown)
{
    misbehave(state, (UnetmmKnobs) { .corrupt = 200000 });
}

TEST(test_delay, cmocka_unit_test_teardown, fix_teardown)
{
    misbehave(state, (UnetmmKnobs) { .delay = 200000, .delay_ns = 1000000 });
}

TEST(test_all_misbehaviour, cmocka_unit_test_teardown, fix_teardown)
{
    misbehave(state, (UnetmmKnobs) {
        .loss = 100000, .dup = 100000, .reorder = 100000, .corrupt = 100000,
        .delay = 100000, .delay_ns = 1000000,
    });
}

/* Off means off: no random number is drawn, no payload checksum written. */
TEST_OF(test_knobs_off, Fix *f, fix_test)
{
    uint64_t random = f->h.core.random;
    struct unetmm_frame h;

    for (unsigned i = 0; i < 100; i++) {
        fake_send_inline(&f->a, FIX_WIRE, i, 8, i, 0);
        fake_ring_bell(&f->a);
        drain(&f->a);
    }
    assert_int_equal(f->h.core.random, random);
    memcpy(&h, fake_wire_at(&f->h, 99)->data, sizeof(h));
    assert_int_equal(h.flags, 0);
    f->h.core.knobs.corrupt = 1;
    fake_send_inline(&f->a, FIX_WIRE, 1, 8, 1, 0);
    fake_ring_bell(&f->a);
    memcpy(&h, fake_wire_at(&f->h, 100)->data, sizeof(h));
    assert_int_equal(le32_to_cpu(h.flags), UNETMM_WIRE_F_PAYLOAD_CRC);
}

/* xorshift64*, worked out elsewhere: a seed means the same on every host. */
TEST(test_random_numbers, fix_test)
{
    static const uint32_t expected[] = {
        0xea84212b, 0xd4bb33ba, 0x5c1bab3c, 0xa6050b2e, 0x684f1686, 0xc6fb8dfc,
    };
    Fix *f = *state;

    unetmm_core_set_seed(&f->h.core, 5);
    for (unsigned i = 0; i < G_N_ELEMENTS(expected); i++) {
        assert_int_equal(unetmm_random(&f->h.core), expected[i]);
    }
}

/* Any bit behind the Ethernet header, and one bit only. */
TEST_OF(test_corrupt_anywhere, Fix *f, fix_test)
{
    uint8_t seen[64 + 8 - UNETMM_ETH_HEADER] = { 0 };
    uint8_t truth[64 + 8], differs;

    unetmm_core_set_seed(&f->h.core, fake_seed());
    for (unsigned i = 0; i < 20000; i++) {
        FakeFrame *frame;
        unsigned bits = 0;

        f->h.core.knobs.corrupt = i ? 1000000 : 1;
        fake_send_inline(&f->a, FIX_WIRE, 1, 8, 1, 0);
        fake_ring_bell(&f->a);
        drain(&f->a);
        frame = fake_wire_at(&f->h, 0);
        assert_int_equal(frame->bytes, sizeof(truth));
        for (unsigned at = 0; at < sizeof(truth); at++) {
            if (!i) {
                truth[at] = frame->data[at];
                continue;
            }
            differs = frame->data[at] ^ truth[at];
            bits += __builtin_popcount(differs);
            assert_true(!differs || at >= UNETMM_ETH_HEADER);
            if (differs) {
                seen[at - UNETMM_ETH_HEADER] |= differs;
            }
        }
        assert_int_equal(bits, i ? 1 : 0);
        fake_wire_clear(&f->h);
    }
    for (unsigned at = 0; at < sizeof(seen); at++) {
        assert_int_equal(seen[at], 0xff);
    }
}

/* The same seed, the same run. */
TEST(test_seed_repeats, cmocka_unit_test_teardown, fix_teardown)
{
    uint64_t counts[2][UNETMM_NUM_COUNTERS];

    for (unsigned run = 0; run < 2; run++) {
        Fix *f;

        *state = NULL;
        fix_setup(state);
        f = *state;
        f->h.core.knobs = (UnetmmKnobs) { .loss = 300000, .dup = 300000,
                                          .reorder = 300000, .delay = 300000,
                                          .delay_ns = 1 };
        unetmm_core_set_seed(&f->h.core, 42);
        for (unsigned i = 0; i < 300; i++) {
            fake_send_inline(&f->a, FIX_WIRE, i, 8, i, 0);
            fake_ring_bell(&f->a);
            drain(&f->a);
        }
        memcpy(counts[run], f->h.core.counters, sizeof(counts[run]));
        if (!run) {
            fix_teardown(state);
        }
    }
    assert_memory_equal(counts[0], counts[1], sizeof(counts[0]));
}

TEST_OF(test_reorder_swaps_neighbours, Fix *f, fix_test)
{
    f->h.core.knobs.reorder = 1000000;
    fake_send_inline(&f->a, FIX_WIRE, 1, 8, 1, 0);
    fake_ring_bell(&f->a);
    assert_int_equal(f->h.wire->len, 0);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    f->h.core.knobs.reorder = 0;
    fake_send_inline(&f->a, FIX_WIRE, 2, 8, 2, 0);
    fake_ring_bell(&f->a);
    assert_int_equal(f->h.wire->len, 2);
    fake_check_frame(fake_wire_at(&f->h, 0), 8, 2);
    fake_check_frame(fake_wire_at(&f->h, 1), 8, 1);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_inj_reorder), 1);
    assert_int_equal(f->h.timer, INT64_MAX);
    /* Alone, it goes after its time. */
    f->h.core.knobs.reorder = 1000000;
    fake_send_inline(&f->a, FIX_WIRE, 3, 8, 3, 0);
    fake_ring_bell(&f->a);
    fake_advance(&f->h, 999999);
    assert_int_equal(f->h.wire->len, 2);
    fake_advance(&f->h, 1);
    assert_int_equal(f->h.wire->len, 3);
    fake_check_frame(fake_wire_at(&f->h, 2), 8, 3);
}

/* The timer is for others too: a frame held back goes at its own time. */
TEST_OF(test_held_until_its_time, Fix *f, fix_test)
{
    f->h.core.knobs.reorder = 1000000;
    fake_send_inline(&f->a, FIX_WIRE, 1, 8, 1, 0);
    fake_ring_bell(&f->a);
    fake_advance(&f->h, 500000);
    unetmm_core_timer(&f->h.core);
    assert_int_equal(f->h.wire->len, 0);
    fake_advance(&f->h, 500000);
    assert_int_equal(f->h.wire->len, 1);
}

/* A frame held back whose time comes while the wire is blocked: its timer must
 * not fire for ever, and it goes when the wire does. */
TEST_OF(test_held_while_blocked, Fix *f, fix_test)
{
    f->h.core.knobs.reorder = 1000000;
    fake_send_inline(&f->a, FIX_WIRE, 1, 8, 1, 0);
    fake_ring_bell(&f->a);
    f->h.answer = UNETMM_SENT_QUEUED;
    fake_send_inline(&f->a, FIX_WIRE, 2, 8, 2, 0);
    fake_ring_bell(&f->a);
    assert_int_equal(f->h.wire->len, 1);
    assert_true(f->h.core.port->busy);
    assert_true(fake_advance(&f->h, 5000000) < 5);
    assert_int_equal(f->h.wire->len, 1);
    f->h.answer = UNETMM_SENT_DONE;
    unetmm_core_sent(&f->h.core, true);
    assert_int_equal(f->h.wire->len, 2);
    fake_check_frame(fake_wire_at(&f->h, 1), 8, 1);
}

/* ---- Late frames ---- */

static void all_late(Fix *f, uint32_t most_ns)
{
    f->h.core.knobs.delay = 1000000;
    f->h.core.knobs.delay_ns = most_ns;
}

/* Each late by no more than was said, and none before another. */
TEST_OF(test_delay_keeps_order, Fix *f, fix_test)
{
    unsigned seen = 0;
    int64_t last = 0;

    all_late(f, 1000);
    for (unsigned i = 0; i < 200; i++) {
        fake_send_inline(&f->a, FIX_WIRE, i, 8, i, 0);
        fake_ring_bell(&f->a);
        fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, i);
        assert_true(f->h.core.port->delayed_used > 0);
        assert_true(f->h.timer > f->h.now && f->h.timer <= f->h.now + 1000);
        last = f->h.now;
        fake_advance(&f->h, 100);
        while (seen < f->h.wire->len) {
            fake_check_frame(fake_wire_at(&f->h, seen), 8, seen);
            seen++;
        }
    }
    assert_true(seen > 150 && seen < 200);
    fake_advance(&f->h, last + 1000 - f->h.now);
    assert_int_equal(f->h.wire->len, 200);
    fake_check_frame(fake_wire_at(&f->h, 199), 8, 199);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_inj_delay), 200);
    assert_int_equal(f->h.timer, INT64_MAX);
}

/* One that is not late goes at once, unless one before it is. */
TEST_OF(test_delay_is_passed_on, Fix *f, fix_test)
{
    all_late(f, 1000);
    fake_send_inline(&f->a, FIX_WIRE, 1, 8, 1, 0);
    fake_ring_bell(&f->a);
    f->h.core.knobs.delay = 0;
    fake_send_inline(&f->b, FIX_WIRE, 2, 8, 2, 0);
    fake_ring_bell(&f->b);
    assert_int_equal(f->h.wire->len, 0);
    fake_advance(&f->h, 1000);
    assert_int_equal(f->h.wire->len, 2);
    fake_check_frame(fake_wire_at(&f->h, 0), 8, 1);
    fake_check_frame(fake_wire_at(&f->h, 1), 8, 2);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_inj_delay), 1);
    fake_send_inline(&f->b, FIX_WIRE, 3, 8, 3, 0);
    fake_ring_bell(&f->b);
    assert_int_equal(f->h.wire->len, 3);
}

/* No place: the sender waits as for any wire, and nothing is lost. */
static void delay_full(Fix *f, uint16_t channel)
{
    unsigned sent = 0, done = 0, received = 0;
    struct unetmm_cqe cqe;

    all_late(f, 1000000);
    /* Those with the same time come in one go, which a queue may not hold. */
    while (received + fake_counter(&f->h, UNETMM_C_drop_cq_full) <
           3 * UNETMM_MAX_DELAYED) {
        while (sent - done < 8 && sent < 3 * UNETMM_MAX_DELAYED) {
            fake_send_inline(&f->a, channel, sent, 8, sent, 0);
            sent++;
        }
        fake_ring_bell(&f->a);
        while (fake_poll(&f->a, &cqe)) {
            assert_int_equal(cqe.status, UNETMM_ST_OK);
            assert_int_equal(cqe.cookie, done++);
        }
        if (f->h.core.eps[1].tx.blocked_on == UNETMM_BLOCKED_WIRE ||
            done == 3 * UNETMM_MAX_DELAYED) {
            fake_run_later(&f->h);
            fake_advance(&f->h, 10000);
        }
        if (channel == FIX_WIRE) {
            received = f->h.wire->len;
        }
        while (fake_poll(&f->b, &cqe)) {
            received++;
        }
    }
    assert_int_equal(sent, done);
    assert_true(fake_counter(&f->h, UNETMM_C_wire_waits) > 0);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_drop_local_full), 0);
    for (unsigned i = 0; channel == FIX_WIRE && i < received; i++) {
        fake_check_frame(fake_wire_at(&f->h, i), 8, i);
    }
}

TEST(test_delay_full, fix_test)
{
    delay_full(*state, FIX_WIRE);
}

TEST(test_delay_full_local, fix_test)
{
    delay_full(*state, FIX_LOCAL);
}

/* The wire, or the local queue, has no room when their time comes. */
TEST_OF(test_delayed_while_blocked, Fix *f, fix_test)
{
    all_late(f, 1000);
    for (unsigned i = 0; i < 3; i++) {
        fake_send_inline(&f->a, FIX_WIRE, i, 8, i, 0);
    }
    fake_ring_bell(&f->a);
    f->h.answer = UNETMM_SENT_QUEUED;
    assert_true(fake_advance(&f->h, 10000) < 5);
    assert_int_equal(f->h.wire->len, 1);
    assert_int_equal(f->h.timer, INT64_MAX);
    f->h.answer = UNETMM_SENT_DONE;
    unetmm_core_sent(&f->h.core, true);
    assert_int_equal(f->h.wire->len, 3);
    fake_check_frame(fake_wire_at(&f->h, 2), 8, 2);
}

TEST_OF(test_delayed_local_full, Fix *f, fix_test_with, slow_short_queue)
{
    fake_insert(f->s1, PAGE(0), 1, NULL);
    for (unsigned i = 0; i < 8; i++) {
        fake_post(&f->b, PAGE(0) + 100 * i, 100, i);
    }
    fix_settle(f);
    all_late(f, 10);
    for (unsigned i = 0; i < 8; i++) {
        fake_send_inline(&f->a, FIX_LOCAL, i, 60, i, 0);
    }
    fake_ring_bell(&f->a);
    fake_advance(&f->h, 10);
    assert_int_equal(f->h.core.port->fifo_used, 2);
    assert_int_equal(f->h.core.port->delayed_used, 5);
    for (unsigned i = 0; i < 8; i++) {
        assert_true(fake_advance(&f->h, 1000) < 10);
        fake_expect(&f->b, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, i);
        fake_check(f->s2, PAGE(0) + 100 * i, 60, i);
    }
    assert_int_equal(fake_counter(&f->h, UNETMM_C_drop_local_full), 0);
}

TEST_OF(test_delayed_at_reset, Fix *f, fix_test)
{
    all_late(f, 1000);
    fake_send_inline(&f->a, FIX_WIRE, 1, 8, 1, 0);
    fake_send_inline(&f->a, FIX_WIRE, 2, 8, 2, 0);
    fake_ring_bell(&f->a);
    fake_set_reg(&f->h, UNETMM_REG_CTRL, UNETMM_CTRL_RESET);
    assert_int_equal(f->h.timer, INT64_MAX);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_drop_reset), 2);
    fake_advance(&f->h, 5000);
    assert_int_equal(f->h.wire->len, 0);
}

/* Nobody sends while the machine stands still. */
TEST_OF(test_delayed_while_paused, Fix *f, fix_test)
{
    all_late(f, 1000);
    fake_send_inline(&f->a, FIX_WIRE, 1, 8, 1, 0);
    fake_ring_bell(&f->a);
    unetmm_core_pause(&f->h.core, true);
    fake_advance(&f->h, 5000);
    assert_int_equal(f->h.wire->len, 0);
    unetmm_core_pause(&f->h.core, false);
    fake_run_later(&f->h);
    assert_int_equal(f->h.wire->len, 1);
}

TEST_OF(test_held_at_reset, Fix *f, fix_test)
{
    f->h.core.knobs.reorder = 1000000;
    fake_send_inline(&f->a, FIX_WIRE, 1, 8, 1, 0);
    fake_ring_bell(&f->a);
    fake_set_reg(&f->h, UNETMM_REG_CTRL, UNETMM_CTRL_RESET);
    assert_int_equal(f->h.timer, INT64_MAX);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_drop_reset), 1);
    fake_advance(&f->h, 5000000);
    assert_int_equal(f->h.wire->len, 0);
}

/* Forced misses and evictions: slower, never wrong.  The fake driver takes
 * each page away in the moment its eviction is reported. */
static void forced(void **state, UnetmmKnobs knobs)
{
    Fix *f = *state;
    uint64_t random = fake_seed();
    unsigned got = 0;

    f->h.core.knobs = knobs;
    for (unsigned i = 0; got < 100; i++) {
        uint32_t len = 41 + fake_random(&random) % 12000;
        uint64_t at = PAGE(20) + fake_random(&random) % 4096;
        struct unetmm_cqe cqe;

        assert_true(i < 20000);
        if (f->b.fq_prod == fake_card(&f->b).fq_cons) {
            fake_post(&f->b, PAGE(5) + 100, 14000, i);
        }
        fake_fill(f->s1, at, len, i);
        fake_send_at(&f->a, FIX_LOCAL, at, len, i);
        fix_settle(f);
        fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, i);
        while (fake_poll(&f->b, &cqe)) {
            assert_int_equal(cqe.opcode, UNETMM_CQE_RECEIVED);
            assert_int_equal(cqe.len, len);
            fake_check(f->s2, PAGE(5) + 100, len, i);
            /* A written page is dirty or still held. */
            for (uint32_t off = 0; off < len; off += 4096) {
                FakeVpage *page = fake_vpage(f->s2, PAGE(5) + 100 + off);
                uint32_t id;

                if (page->dirty) {
                    continue;
                }
                assert_int_not_equal(unetmm_tlb_lookup(
                    &f->h.core.source->tlb, 2, page->vpn, true, &id),
                    UNETMM_TLB_MISS);
                assert_true(f->h.core.source->tlb.entries[id].dirty);
            }
            got++;
        }
    }
}

TEST(test_forced_misses, fix_test)
{
    Fix *f = *state;

    forced(state, (UnetmmKnobs) { .force_miss = 100000 });
    assert_true(fake_counter(&f->h, UNETMM_C_inj_miss) > 0);
}

static void small_tlb(UnetmmParams *p)
{
    p->tlb_sets = 8;
    p->tlb_victims = 4;
}

TEST(test_forced_evictions, fix_test_with, small_tlb)
{
    Fix *f = *state;

    forced(state, (UnetmmKnobs) { .force_evict = 300000 });
    assert_true(fake_counter(&f->h, UNETMM_C_inj_evict) > 0);
}

/* As often as the rate says; and at 0 nothing is drawn for it. */
TEST_OF(test_forced_rate, Fix *f, fix_test_with, small_tlb)
{
    UnetmmCore draws = { .random = 0 };
    uint64_t hits;

    for (unsigned knob = 0; knob < 2; knob++) {
        f->h.core.knobs = knob ? (UnetmmKnobs) { .force_miss = 1 } :
                          (UnetmmKnobs) { .force_evict = 100000 };
        unetmm_core_set_seed(&f->h.core, 42);
        draws.random = f->h.core.random;
        hits = fake_counter(&f->h, UNETMM_C_tlb_hits);
        for (unsigned i = 0; i < 1000; i++) {
            fake_send_at(&f->a, FIX_WIRE, PAGE(i % 8), 64, i);
            fix_settle(f);
            fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, i);
            fake_wire_clear(&f->h);
        }
        hits = fake_counter(&f->h, UNETMM_C_tlb_hits) - hits;
        assert_true(hits >= 1000);
        if (knob) {
            for (uint64_t i = 0; i < hits; i++) {
                unetmm_random(&draws);
            }
            assert_int_equal(f->h.core.random, draws.random);
        } else {
            uint64_t n = fake_counter(&f->h, UNETMM_C_inj_evict);

            assert_true(n > hits / 50 && n < hits / 7);
        }
    }
}

/* ---- Memory of frames --------------------------------------------------- */

#define CROWD   300

static void slow_long_queue(UnetmmParams *p)
{
    p->local_queue = CROWD;
    p->dma_page_ns = 1000;
}

/* A message lands, and all that arrives meanwhile waits, a frame each. */
static void crowd(Fix *f)
{
    fake_insert(f->s1, FIX_PAGE(0), 2, NULL);
    fake_post(&f->a, FIX_PAGE(0), 2 * FAKE_PAGE, 1);
    fake_ring_bell(&f->a);
    fake_deliver(&f->h, fake_datagram(&f->a, FIX_WIRE, 11, 5000, 1));
    assert_true(f->h.core.landing->active);
    for (unsigned i = 0; i < CROWD; i++) {
        fake_deliver(&f->h, fake_datagram(&f->b, FIX_WIRE, 12, 41, i));
    }
    assert_int_equal(f->h.core.port->fifo_used, CROWD);
}

/* Buffers of a moment's need are not kept; those that are kept are used again. */
TEST_OF(test_pool, Fix *f, fix_test_with, slow_long_queue)
{
    for (unsigned round = 0; round < 2; round++) {
        crowd(f);
        assert_int_equal(f->h.core.port->pool->len, 0);
        fake_advance(&f->h, 1000 * CROWD);
        fake_run_later(&f->h);
        assert_int_equal(f->h.core.port->fifo_used, 0);
        assert_int_equal(f->h.core.port->pool->len, UNETMM_POOL_FRAMES);
        fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 1);
    }
}

/* Waiting frames have their share of a turn, to the byte; then others. */
static void crowd_left(FakeHost *host, const uint8_t *frame, size_t bytes)
{
    assert_int_equal(CROWD - host->core.port->fifo_used,
                     UNETMM_TURN_BYTES / UNETMM_LEAST_BYTES);
    host->on_send = NULL;
}

TEST_OF(test_share_of_a_turn, Fix *f, fix_test_with, slow_long_queue)
{
    crowd(f);
    /* Looked at when the message has landed. */
    fake_send_inline(&f->a, FIX_WIRE, 1, 8, 5, 0);
    f->h.on_send = crowd_left;
    fake_advance(&f->h, 2000);
    assert_null(f->h.on_send);
    fake_run_later(&f->h);
    assert_int_equal(f->h.core.port->fifo_used, 0);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 1);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 5);
}

TEST_OF(test_pool_at_reset, Fix *f, fix_test_with, slow_long_queue)
{
    crowd(f);
    unetmm_core_reset(&f->h.core);
    assert_int_equal(f->h.core.port->pool->len, UNETMM_POOL_FRAMES);
}
