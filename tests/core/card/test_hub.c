/*
 * unetmm: two cards on a hub of QEMU, in one main loop
 *
 * A hub hands a frame on at once, on the sender's stack, and a frame that had to wait
 * is delivered, and its sender told, by the card that can receive again: all
 * of that is one turn of the main loop.  Whatever two cards have to say to
 * each other, one turn must not move more than their budgets.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fixture.h"

#define PAGES   64
#define BYTES   (PAGES * FAKE_PAGE)
#define WRITES  60
#define BUDGET  65536
#define MTU     9000

/* A queue to one client: the hub's to a port, or the net layer's to a card. */
typedef struct Waiting {
    bool tell;                  /* the sender, when it has gone */
    size_t bytes;
    uint8_t data[];
} Waiting;

typedef struct Queue {
    bool delivering;
    GQueue waiting;
} Queue;

typedef struct Card {
    FakeHost h;
    FakeDriver d;
    FakeSpace *s;
    FakeEp ep;
    Queue out, in;              /* to its hub port; to the card */
    bool full;                  /* it has refused one */
    struct Hub *hub;
    unsigned number;
} Card;

typedef struct Hub {
    Card card[2];
} Hub;

static const uint8_t macs[2][6] = {
    { 0x52, 0x54, 0x00, 0x4d, 0x4d, 0x01 },
    { 0x52, 0x54, 0x00, 0x4d, 0x4d, 0x02 },
};

static Card *card_of(FakeHost *host)
{
    return container_of(host, Card, h);
}

static Card *peer_of(Card *c)
{
    return &c->hub->card[!c->number];
}

/* Can the peer take what this card sends? */
static bool passable(Card *to)
{
    return !to->full && unetmm_core_can_receive(&to->h.core);
}

static void wait_in(Queue *q, const uint8_t *data, size_t bytes, bool tell)
{
    Waiting *w = g_malloc(sizeof(*w) + bytes);

    w->tell = tell;
    w->bytes = bytes;
    memcpy(w->data, data, bytes);
    g_queue_push_tail(&q->waiting, w);
}

/* The net layer's queue in front of a card.  False: it keeps the frame. */
static bool offer(Card *to, const uint8_t *data, size_t bytes)
{
    bool taken;

    to->in.delivering = true;
    taken = unetmm_core_receive(&to->h.core, data, bytes);
    to->in.delivering = false;
    to->full |= !taken;
    return taken;
}

static void flush_in(Card *to)
{
    while (!to->in.delivering && !g_queue_is_empty(&to->in.waiting)) {
        Waiting *w = g_queue_peek_head(&to->in.waiting);

        if (!offer(to, w->data, w->bytes)) {
            return;
        }
        g_free(g_queue_pop_head(&to->in.waiting));
    }
}

static void give(Card *to, const uint8_t *data, size_t bytes)
{
    if (to->in.delivering || !passable(to) || !offer(to, data, bytes)) {
        wait_in(&to->in, data, bytes, false);
    } else {
        flush_in(to);
    }
}

/* Frames that a card's port of the hub has kept; its sender is told. */
static void flush_out(Card *from)
{
    while (!from->out.delivering && !g_queue_is_empty(&from->out.waiting)) {
        Waiting *w = g_queue_pop_head(&from->out.waiting);

        from->out.delivering = true;
        give(peer_of(from), w->data, w->bytes);
        from->out.delivering = false;
        if (w->tell) {
            unetmm_core_sent(&from->h.core, true);
        }
        g_free(w);
    }
}

static void on_send(FakeHost *host, const uint8_t *data, size_t bytes)
{
    Card *from = card_of(host);

    if (from->out.delivering || !passable(peer_of(from))) {
        wait_in(&from->out, data, bytes, true);
        host->answer = UNETMM_SENT_QUEUED;
    } else {
        from->out.delivering = true;
        give(peer_of(from), data, bytes);
        from->out.delivering = false;
        flush_out(from);
        host->answer = UNETMM_SENT_DONE;
    }
    fake_wire_clear(host);
}

static void on_may_receive(FakeHost *host)
{
    Card *c = card_of(host);

    c->full = false;
    flush_out(peer_of(c));
    flush_in(c);
}

static void card_init(Hub *hub, unsigned i)
{
    Card *c = &hub->card[i];
    UnetmmParams p;

    fake_params(&p);
    memcpy(p.mac, macs[i], 6);
    p.budget_descriptors = 64;
    p.budget_bytes = BUDGET;
    fake_host_init(&c->h, &p);
    /* Nothing but run_later is to renew a budget. */
    c->h.stuck = true;
    c->h.unchecked = true;
    c->hub = hub;
    c->number = i;
    fake_driver_init(&c->d, &c->h);
    fake_driver_start(&c->d);
    c->s = fake_space(&c->d, 1, UNETMM_SOURCE_PINNED, 4);
    fake_map(c->s, FIX_VA, BYTES, FAKE_RW);
    fake_ep_init(&c->ep, &c->d, 1, c->s);
    c->ep.sq_log2 = c->ep.fq_log2 = 6;
    c->ep.cq_log2 = 8;
    fake_ep_create(&c->ep);
    c->h.on_send = on_send;
    c->h.on_may_receive = on_may_receive;
}

static int hub_setup(void **state)
{
    struct unetmm_cmd_channel how = {
        .mtu = MTU, .send_psn = 100, .recv_psn = 100,
    };
    Hub *hub = g_new0(Hub, 1);

    for (unsigned i = 0; i < 2; i++) {
        card_init(hub, i);
    }
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(fake_channel_rel(&hub->card[i].ep, 1, macs[!i], 1, 1,
                                          &how), UNETMM_CS_OK);
        assert_int_equal(fake_channel(&hub->card[i].ep, 2, macs[!i], 1, 2,
                                      MTU), UNETMM_CS_OK);
        assert_int_equal(fake_region(hub->card[i].s, 3, 77, FIX_VA, BYTES,
                                     UNETMM_RIGHT_WRITE, 0), UNETMM_CS_OK);
        assert_int_equal(fake_import(&hub->card[i].ep, 0, 1, 3, 77, BYTES,
                                     UNETMM_RIGHT_WRITE), UNETMM_CS_OK);
    }
    *state = hub;
    return 0;
}

static int hub_teardown(void **state)
{
    Hub *hub = *state;

    for (unsigned i = 0; i < 2; i++) {
        Card *c = &hub->card[i];

        fake_driver_free(&c->d);
        fake_host_free(&c->h);
        g_queue_clear_full(&c->in.waiting, g_free);
        g_queue_clear_full(&c->out.waiting, g_free);
    }
    g_free(hub);
    return 0;
}

static uint64_t counted(Hub *hub, enum unetmm_counter which)
{
    return hub->card[0].h.core.counters[which] +
           hub->card[1].h.core.counters[which];
}

/*
 * One turn of the main loop runs the work that each card has left for later.  Of each
 * budget the last frame may go beyond; a completion is not as much as it is
 * charged for.
 */
#define TURN_MOST   (2 * (BUDGET + MTU))

static void loop_until_done(Hub *hub, uint64_t *most)
{
    unsigned turns = 0;

    while (hub->card[0].h.later || hub->card[1].h.later) {
        for (unsigned i = 0; i < 2; i++) {
            FakeHost *h = &hub->card[i].h;
            uint64_t before = counted(hub, UNETMM_C_rx_bytes);

            if (h->later) {
                h->later = 0;
                unetmm_core_run(&h->core);
            }
            *most = MAX(*most, counted(hub, UNETMM_C_rx_bytes) - before);
        }
        assert_true(++turns < 100000);
    }
}

static void post_writes(Card *c, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        struct unetmm_sqe sqe = {
            .opcode = UNETMM_OP_WRITE, .nsegs = 1, .channel = 1, .cookie = i,
            .seg = { { .addr = FIX_VA, .len = BYTES } },
        };

        fake_send_sqe(&c->ep, sqe);
    }
}

/* Posting takes no bytes of the budget, so the first packets go at once. */
static void expect_some(Hub *hub)
{
    assert_true(counted(hub, UNETMM_C_rx_bytes) > 0);
    assert_true(counted(hub, UNETMM_C_rx_bytes) <= TURN_MOST);
}

#define HUB(fn) cmocka_unit_test_setup_teardown(fn, hub_setup, hub_teardown)

/* No entry of either card, however often the hub comes back, moves more. */
TEST_OF(test_writes_in_one_turn, Hub *hub, HUB)
{
    Card *a = &hub->card[0];
    uint64_t most = 0;

    post_writes(a, WRITES);
    fake_ring_bell(&a->ep);
    expect_some(hub);
    /* And no more of them in the same turn. */
    for (unsigned i = 0; i < 20; i++) {
        fake_ring_bell(&a->ep);
        unetmm_core_sent(&a->h.core, true);
    }
    expect_some(hub);
    loop_until_done(hub, &most);
    assert_int_equal(a->h.core.counters[UNETMM_C_sends_done], WRITES);
    assert_int_equal(counted(hub, UNETMM_C_rx_bytes), WRITES * BYTES);
    assert_true(most <= TURN_MOST);
}

/* Its packets are charged, and not the message besides. */
TEST_OF(test_long_message_is_charged_once, Hub *hub, HUB)
{
    Card *a = &hub->card[0];
    uint64_t most = 0;

    post_writes(a, 1);
    fake_ring_bell(&a->ep);
    assert_true(a->h.core.counters[UNETMM_C_tx_bytes] >= BUDGET);
    loop_until_done(hub, &most);
    assert_int_equal(a->h.core.counters[UNETMM_C_sends_done], 1);
}

/* Both at once: neither direction stops the other. */
TEST_OF(test_writes_both_ways, Hub *hub, HUB)
{
    uint64_t most = 0;

    for (unsigned i = 0; i < 2; i++) {
        post_writes(&hub->card[i], WRITES);
    }
    for (unsigned i = 0; i < 2; i++) {
        fake_ring_bell(&hub->card[i].ep);
    }
    loop_until_done(hub, &most);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(hub->card[i].h.core.counters[UNETMM_C_sends_done],
                         WRITES);
    }
    assert_int_equal(counted(hub, UNETMM_C_rx_bytes), 2 * WRITES * BYTES);
    assert_true(most <= 2 * TURN_MOST);
}

/* Datagrams that nobody acknowledges. */
TEST_OF(test_datagrams_in_one_turn, Hub *hub, HUB)
{
    Card *a = &hub->card[0], *b = &hub->card[1];
    uint64_t most = 0;

    for (unsigned i = 0; i < 60; i++) {
        fake_post(&b->ep, FIX_VA, MTU, i);
        fake_send_at(&a->ep, 2, FIX_VA, MTU, i);
    }
    fake_ring_bell(&b->ep);
    loop_until_done(hub, &most);
    most = 0;
    fake_ring_bell(&a->ep);
    assert_true(counted(hub, UNETMM_C_rx_bytes) <= TURN_MOST);
    loop_until_done(hub, &most);
    assert_int_equal(counted(hub, UNETMM_C_rx_frames), 60);
    assert_true(most <= TURN_MOST);
}
