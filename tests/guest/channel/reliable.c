/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reliable channels: all messages arrive, once and in order, whatever
 * the wire does; and if it does not, the completion says why.
 *
 * Local: two endpoints on one card.  Remote: the other guest's echo sends messages
 * back, so that the compared bytes have been through both directions.
 */
#include "ask.h"
#include "guard.h"
#include "link.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SERVICE         (SERVICE_FIRST - 6)
#define LONGEST         ((size_t)UNETMM_MAX_MESSAGE)
#define WINDOW          8

/* A channel with buffers of one length at the far end, and places to send from. */
struct pipe {
    struct unetmm_ctx *ctx;
    struct station one, two;
    struct station *tx, *rx;
    size_t room;
    unsigned window;            /* places and buffers, 1..WINDOW */
    uint8_t *from[WINDOW];
    uint8_t *to[WINDOW];
    size_t lengths[WINDOW];
    uint64_t sent, completed, received;
};

static const struct unetmm_channel_attr usual = UNETMM_CHANNEL_ATTR_INIT;

static unsigned to_whole_pages(size_t bytes)
{
    return (unsigned)((bytes + PAGE - 1) / PAGE);
}

static void connect_to_mirror(struct pipe *p,
                              const struct unetmm_channel_attr *attr)
{
    struct unetmm_peer peer;
    int ret = unetmm_connect_ex(p->one.ep, run.peer, SERVICE_MIRROR,
                                20 * NS_PER_S * run.slow, attr, &peer);

    if (ret < 0) {
        FAIL("cannot reach the other guest: %s",
             unetmm_strerror(ret, UNETMM_CALL_CONNECT));
    }
    CHECK_EQ(peer.type, UNETMM_RELIABLE);
    CHECK_EQ(peer.mtu, LONGEST);
    p->one.channel = (unsigned)ret;
}

static void pipe_connect(struct pipe *p, const struct unetmm_channel_attr *attr)
{
    if (run.remote) {
        connect_to_mirror(p, attr);
    } else {
        CHECK_RET(try_join(&p->one, &p->two, attr, 10 * NS_PER_S * run.slow), 0);
    }
}

/* `room` bytes in each place and each buffer; nothing is posted yet. */
static void pipe_open_with(struct pipe *p, size_t room, unsigned window,
                           const struct unetmm_channel_attr *attr)
{
    unsigned i;

    memset(p, 0, sizeof(*p));
    p->ctx = open_card();
    p->room = room;
    p->window = window;
    p->tx = p->rx = &p->one;
    station_open(&p->one, p->ctx, NULL);
    if (!run.remote) {
        station_open(&p->two, p->ctx, NULL);
        p->rx = &p->two;
    }
    for (i = 0; i < window; i++) {
        p->from[i] = pages(to_whole_pages(room));
        p->to[i] = pages(to_whole_pages(room));
        reach(p->ctx, p->from[i], room, false);
        reach(p->ctx, p->to[i], room, true);
    }
    pipe_connect(p, attr);
}

static void pipe_open(struct pipe *p, size_t room,
                      const struct unetmm_channel_attr *attr)
{
    pipe_open_with(p, room, WINDOW, attr);
}

static void pipe_close(struct pipe *p)
{
    station_close(&p->one);
    if (!run.remote) {
        station_close(&p->two);
    }
    CHECK_RET(unetmm_close(p->ctx), 0);
}

static void post_place(struct pipe *p, unsigned place)
{
    post(p->rx, p->to[place], p->room, place);
}

static void post_all(struct pipe *p)
{
    unsigned i;

    for (i = 0; i < p->window; i++) {
        post_place(p, i);
    }
}

/* Message `number`, from the place that is its turn. */
static void send_next(struct pipe *p, size_t len)
{
    unsigned place = (unsigned)(p->sent % p->window);

    CHECK(len <= p->room);
    p->lengths[place] = len;
    pattern_fill(p->from[place], len, pattern_key(run.seed, p->sent), 0);
    send_pieces(p->tx, &(struct iovec) { p->from[place], len }, 1,
                0x5e0000 + p->sent, 0);
    p->sent++;
}

/* A buffer that policy skip gave back for being late is posted again. */
static void repost(struct pipe *p)
{
    struct unetmm_completion c;

    while (take_now(p->rx, UNETMM_CQE_BUFFER, &c)) {
        if (c.status != UNETMM_ST_SKIPPED) {
            FAIL("a buffer came back: %s", unetmm_status_str(c.status));
        }
        post_place(p, (unsigned)c.user_data);
    }
}

/* The next message; its place is posted again. */
static void receive_next(struct pipe *p)
{
    unsigned place = (unsigned)(p->received % p->window);
    uint64_t end = deadline_in(10);
    struct unetmm_completion c;
    const uint8_t *data;
    size_t at;

    while (!take_until(p->rx, UNETMM_CQE_RECEIVED, &c,
                       now_ns() + 2 * NS_PER_MS)) {
        if (now_ns() > end) {
            FAIL("message %llu does not come",
                 (unsigned long long)p->received);
        }
        repost(p);
    }
    CHECK_EQ(c.channel, p->rx->channel);
    CHECK_EQ(c.len, p->lengths[place]);
    data = c.is_inline ? c.data : p->to[c.user_data];
    at = pattern_check(data, c.len, pattern_key(run.seed, p->received), 0);
    if (at < c.len) {
        FAIL("message %llu of %u bytes is wrong at %zu",
             (unsigned long long)p->received, c.len, at);
    }
    p->received++;
    if (!c.is_inline) {
        post_place(p, (unsigned)c.user_data);
    }
}

/* Its send completes well, and those of one channel do so in order. */
static void complete_next(struct pipe *p)
{
    struct unetmm_completion c;

    take(p->tx, UNETMM_CQE_SENT, &c);
    if (c.status) {
        FAIL("send %llu failed: %s", (unsigned long long)p->completed,
             unetmm_status_str(c.status));
    }
    CHECK_EQ(c.user_data, 0x5e0000 + p->completed);
    p->completed++;
}

/* No more messages are under way than there are places. */
static void flow(struct pipe *p, size_t len)
{
    if (p->sent - p->received == p->window) {
        receive_next(p);
    }
    if (p->sent - p->completed == p->window) {
        complete_next(p);
    }
    send_next(p, len);
}

static void drain(struct pipe *p)
{
    struct unetmm_completion c;

    while (p->received < p->sent) {
        receive_next(p);
    }
    while (p->completed < p->sent) {
        complete_next(p);
    }
    /* Exactly once: nothing else comes. */
    CHECK(!take_until(p->rx, UNETMM_CQE_RECEIVED, &c, now_ns() + NS_PER_MS));
}

/* ---- Arrival ----------------------------------------------------------------- */

TEST(lengths, TEST_BOTH | TEST_SHADOW | TEST_ODP | TEST_REMOTE, 60)
{
    struct unetmm_channel_info info = { .size = sizeof(info) };
    struct pipe p;
    unsigned i;

    pipe_open_with(&p, LONGEST, 1, &usual);
    CHECK_RET(unetmm_channel_info(p.tx->ep, p.tx->channel, &info), 0);
    CHECK_EQ(info.type, UNETMM_RELIABLE);
    CHECK_EQ(info.longest, LONGEST);
    if (!run.remote) {
        CHECK_EQ(info.peer_channel, p.rx->channel);
    }
    post_all(&p);
    {
        const size_t list[] = {
            0, 1, UNETMM_CQE_INLINE, UNETMM_CQE_INLINE + 1, UNETMM_MAX_INLINE,
            UNETMM_MAX_INLINE + 1, PAGE, info.frame - 1, info.frame,
            info.frame + 1, 2 * info.frame, 64 * (size_t)info.frame + 1,
            65536, 500003, 1000003, LONGEST - 1, LONGEST,
        };

        for (i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
            flow(&p, list[i] < p.room ? list[i] : p.room);
        }
    }
    drain(&p);
    CHECK_RET(unetmm_send(p.tx->ep, p.tx->channel, p.from[0], LONGEST + 1, 0,
                          0), -EMSGSIZE);
    pipe_close(&p);
}

/* From pieces that begin and end anywhere, over the ends of frames. */
TEST(pieces, TEST_BOTH)
{
    static const size_t cuts[] = { 0, 1, 4095, 4097, 30000, 30000, 90001,
                                   123456 };
    enum { N = sizeof(cuts) / sizeof(cuts[0]) - 1 };
    size_t len = cuts[N];
    struct iovec iov[N];
    struct unetmm_completion c;
    struct pipe p;
    unsigned i;

    pipe_open(&p, len, &usual);
    post_all(&p);
    pattern_fill(p.from[0], len, pattern_key(run.seed, 0), 0);
    for (i = 0; i < N; i++) {
        iov[i] = (struct iovec) { p.from[0] + cuts[i],
                                  cuts[i + 1] - cuts[i] };
    }
    p.lengths[0] = len;
    p.sent = 1;
    send_pieces(p.tx, iov, N, 77, 0);
    receive_next(&p);
    take(p.tx, UNETMM_CQE_SENT, &c);
    CHECK_EQ(c.status, UNETMM_ST_OK);
    CHECK_EQ(c.len, len);
    pipe_close(&p);
}

static uint64_t misses_of(struct pipe *p)
{
    return card_counter(p->ctx, UNETMM_C_faults_head) +
        card_counter(p->ctx, UNETMM_C_faults_send);
}

/*
 * Each of them is as long as the card's TLB, and the messages are, too: a packet's pages
 * go through at a time, and are asked for a few times at most.
 */
TEST(long_buffers, TEST_BOTH | TEST_SHADOW | TEST_ODP, 60)
{
    enum { BUFFERS = 3, MESSAGES = 6 };
    struct unetmm_channel_info info = { .size = sizeof(info) };
    uint64_t before, packets;
    struct pipe p;
    unsigned i;

    pipe_open_with(&p, LONGEST, BUFFERS, &usual);
    CHECK_RET(unetmm_channel_info(p.tx->ep, p.tx->channel, &info), 0);
    packets = (LONGEST + info.frame - 1) / info.frame;
    post_all(&p);
    before = misses_of(&p);
    for (i = 0; i < MESSAGES; i++) {
        flow(&p, LONGEST - i);
    }
    drain(&p);
    note("%llu misses", (unsigned long long)(misses_of(&p) - before));
    /* 16 pages of a packet, at each end; the heads, for each doorbell. */
    CHECK(misses_of(&p) - before <= MESSAGES * (40 * packets + 100));
    pipe_close(&p);
}

static size_t some_length(struct chance *chance, size_t room)
{
    /* Short ones as often as long ones. */
    return chance_below(chance, 2) ? chance_below(chance, 100) :
        chance_below(chance, (uint32_t)room + 1);
}

TEST(in_order, TEST_BOTH | TEST_SHADOW | TEST_ODP | TEST_REMOTE, 60)
{
    struct chance chance;
    unsigned i, n = rounds(300);
    struct pipe p;

    chance_init(&chance, 0);
    pipe_open(&p, 40000, &usual);
    post_all(&p);
    for (i = 0; i < n; i++) {
        flow(&p, some_length(&chance, p.room));
    }
    drain(&p);
    pipe_close(&p);
}

/* ---- A bad wire -------------------------------------------------------------------- */

static const struct knob {
    const char *name;
    enum unetmm_counter counter;
} knobs[] = {
    { "x-loss", UNETMM_C_inj_loss },
    { "x-dup", UNETMM_C_inj_dup },
    { "x-reorder", UNETMM_C_inj_reorder },
    { "x-corrupt", UNETMM_C_inj_corrupt },
    { "x-delay", UNETMM_C_inj_delay },
};
#define KNOBS (sizeof(knobs) / sizeof(knobs[0]))

static bool all_have_happened(struct pipe *p, const uint64_t before[KNOBS],
                              const unsigned rates[KNOBS])
{
    unsigned i;

    for (i = 0; i < KNOBS; i++) {
        if (rates[i] &&
            card_counter(p->ctx, knobs[i].counter) < before[i] + 3) {
            return false;
        }
    }
    return true;
}

/* Messages of all lengths until each evil has been met, and then some. */
static void bad_wire(const unsigned rates[KNOBS])
{
    uint64_t before[KNOBS], resent;
    unsigned i, n = rounds(150), tries;
    struct chance chance;
    struct pipe p;

    chance_init(&chance, 1);
    pipe_open(&p, 100000, &usual);
    resent = card_counter(p.ctx, UNETMM_C_rel_resent);
    post_all(&p);
    ask_host("set x-seed %llu", (unsigned long long)(run.seed & INT64_MAX));
    for (i = 0; i < KNOBS; i++) {
        before[i] = card_counter(p.ctx, knobs[i].counter);
        ask_host("set %s %u", knobs[i].name, rates[i]);
    }
    for (tries = 0; tries < n || (tries < 100 * n &&
                                  !all_have_happened(&p, before, rates));
         tries++) {
        flow(&p, some_length(&chance, p.room));
    }
    drain(&p);
    for (i = 0; i < KNOBS; i++) {
        ask_host("set %s 0", knobs[i].name);
    }
    CHECK(all_have_happened(&p, before, rates));
    note("%llu messages; %llu packets sent again",
         (unsigned long long)p.sent, (unsigned long long)
         (card_counter(p.ctx, UNETMM_C_rel_resent) - resent));
    if (rates[0] || rates[3]) {
        CHECK(card_counter(p.ctx, UNETMM_C_rel_resent) > resent);
    }
    pipe_close(&p);
}

TEST(loss, TEST_TLB | TEST_ONLY_REMOTE, 60)
{
    bad_wire((unsigned[KNOBS]) { 20000 });
}

TEST(doubling, TEST_TLB | TEST_ONLY_REMOTE, 60)
{
    bad_wire((unsigned[KNOBS]) { 0, 50000 });
}

TEST(reordering, TEST_TLB | TEST_ONLY_REMOTE, 60)
{
    bad_wire((unsigned[KNOBS]) { 0, 0, 50000 });
}

TEST(damage, TEST_TLB | TEST_ONLY_REMOTE, 60)
{
    bad_wire((unsigned[KNOBS]) { 0, 0, 0, 20000 });
}

TEST(delay, TEST_TLB | TEST_ONLY_REMOTE, 60)
{
    bad_wire((unsigned[KNOBS]) { 0, 0, 0, 0, 50000 });
}

TEST(everything, TEST_BOTH | TEST_ONLY_REMOTE, 60)
{
    bad_wire((unsigned[KNOBS]) { 20000, 20000, 20000, 20000, 20000 });
}

/* ---- How it ends ------------------------------------------------------------------- */

/* The statuses of a channel's end by the other side. */
static bool is_end(unsigned status)
{
    return status == UNETMM_ST_BAD_CHANNEL || status == UNETMM_ST_FLUSHED ||
        status == UNETMM_ST_PEER_FAILED || status == UNETMM_ST_TIMEOUT;
}

/* Kills the mirror, and waits until the channel has ended. */
static void await_end(struct pipe *p)
{
    struct peer_message order = { PEER_MAGIC, PEER_DIE, 0, 1 };
    struct iovec iov = { &order, sizeof(order) };
    struct unetmm_completion c;
    unsigned status = UNETMM_ST_OK;

    send_pieces(p->tx, &iov, 1, 0xd1e, UNETMM_INLINE);
    for (unsigned k = 0; k < 6; k++) {
        send_next(p, p->room);
    }
    /* Each send completes, in order, and none well after one that did not. */
    for (unsigned k = 0; k < 7; k++) {
        take(p->tx, UNETMM_CQE_SENT, &c);
        CHECK_EQ(c.user_data, k ? 0x5e0000 + p->completed++ : 0xd1e);
        CHECK(c.status ? is_end(c.status) : !status);
        status = c.status;
    }
    EVENTUALLY(is_end(send_status(p->tx, "x", 1)));
    CHECK_RET(unetmm_disconnect(p->tx->ep, p->tx->channel), 0);
}

TEST(peer_killed, TEST_TLB | TEST_ONLY_REMOTE, 60)
{
    struct unetmm_completion c;
    struct pipe p;
    unsigned i;

    pipe_open(&p, 60000, &usual);
    for (i = 0; i < rounds(3); i++) {
        post_all(&p);
        flow(&p, p.room);
        drain(&p);
        await_end(&p);
        /* The buffers are ours again with the endpoint. */
        station_close(&p.one);
        station_open(&p.one, p.ctx, NULL);
        p.sent = p.completed = p.received = 0;
        pipe_connect(&p, &usual);
        while (take_now(p.rx, UNETMM_CQE_RECEIVED, &c)) {
        }
    }
    pipe_close(&p);
}

static bool link_is_up(void)
{
    struct unetmm_info info;

    card_info(&info);
    return info.flags & UNETMM_INFO_LINK;
}

/* Out of patience while the link is down: the sends say so, and all others. */
TEST(link_down, TEST_TLB | TEST_ONLY_REMOTE, 60)
{
    struct unetmm_channel_attr attr = usual;
    struct unetmm_completion c;
    struct pipe p;
    unsigned i;

    /* Two and a half seconds: as long as it is up it has to hold. */
    attr.timeout_us = 20000;
    attr.retries = 6;
    pipe_open(&p, 60000, &attr);
    post_all(&p);
    flow(&p, 100);
    drain(&p);
    ask_host("link off");
    EVENTUALLY(!link_is_up());
    for (i = 0; i < 4; i++) {
        send_next(&p, p.room);
    }
    for (i = 0; i < 4; i++) {
        take(p.tx, UNETMM_CQE_SENT, &c);
        CHECK_EQ(c.status, i ? UNETMM_ST_FLUSHED : UNETMM_ST_TIMEOUT);
    }
    CHECK_EQ(send_status(p.tx, "x", 1), UNETMM_ST_FLUSHED);
    ask_host("link on");
    EVENTUALLY(link_is_up());
    CHECK_EQ(send_status(p.tx, "x", 1), UNETMM_ST_FLUSHED);
    CHECK_RET(unetmm_disconnect(p.tx->ep, p.tx->channel), 0);
    p.received = p.completed = p.sent;
    pipe_connect(&p, &usual);
    flow(&p, p.room);
    drain(&p);
    pipe_close(&p);
}

/* A link that comes back in time is a wire that has lost something. */
TEST(link_blinks, TEST_TLB | TEST_ONLY_REMOTE, 60)
{
    struct pipe p;
    unsigned i;

    pipe_open(&p, 60000, &usual);
    post_all(&p);
    ask_host("link off");
    EVENTUALLY(!link_is_up());
    for (i = 0; i < WINDOW; i++) {
        send_next(&p, p.room);
    }
    EVENTUALLY(ep_counter(p.tx, UNETMM_C_drop_link) >= 3);
    ask_host("link on");
    drain(&p);
    pipe_close(&p);
}

/* Closed here: unacknowledged messages complete with BAD_CHANNEL. */
TEST(closed_with_messages, TEST_BOTH)
{
    struct unetmm_completion c;
    struct pipe p;
    unsigned i;

    pipe_open(&p, 60000, &usual);
    for (i = 0; i < WINDOW; i++) {
        send_next(&p, p.room);
    }
    CHECK_RET(unetmm_disconnect(p.tx->ep, p.tx->channel), 0);
    for (i = 0; i < WINDOW; i++) {
        take(p.tx, UNETMM_CQE_SENT, &c);
        CHECK_EQ(c.user_data, 0x5e0000 + i);
        CHECK_EQ(c.status, UNETMM_ST_BAD_CHANNEL);
    }
    CHECK_RET(unetmm_send(p.tx->ep, p.tx->channel, "x", 1, 0, 0), -ENOENT);
    pipe_close(&p);
}

/* Closed by the peer's process: a channel made anew in its place works. */
TEST(closed_by_peer, TEST_TLB)
{
    struct pipe p;

    pipe_open(&p, 60000, &usual);
    post_all(&p);
    flow(&p, 100);
    drain(&p);
    CHECK_RET(unetmm_disconnect(p.rx->ep, p.rx->channel), 0);
    EVENTUALLY(send_status(p.tx, "x", 1) == UNETMM_ST_BAD_CHANNEL);
    CHECK_RET(unetmm_disconnect(p.tx->ep, p.tx->channel), 0);
    pipe_connect(&p, &usual);
    flow(&p, p.room);
    drain(&p);
    pipe_close(&p);
}

/* A process that only receives is woken, once, by the end of the channel. */
TEST(told_of_the_end, TEST_BOTH)
{
    struct unetmm_channel_attr attr = usual;
    struct unetmm_completion c;
    struct pipe p;
    unsigned i;

    attr.flags |= UNETMM_NOTIFY_CLOSE;
    pipe_open(&p, 60000, &attr);
    for (i = 0; i < 2; i++) {
        post_all(&p);
        flow(&p, p.room);
        drain(&p);
        CHECK_RET(unetmm_disconnect(p.tx->ep, p.tx->channel), 0);
        do {
            CHECK_RET(unetmm_wait(p.rx->ep, &c, 1, 10 * NS_PER_S * run.slow),
                      1);
        } while (c.type == UNETMM_CQE_BUFFER);
        CHECK_EQ(c.type, UNETMM_CQE_CLOSED);
        CHECK_EQ(c.channel, p.rx->channel);
        CHECK_EQ(c.status, UNETMM_ST_BAD_CHANNEL);
        CHECK_RET(unetmm_disconnect(p.rx->ep, p.rx->channel), 0);
        CHECK(!take_now(p.rx, UNETMM_CQE_CLOSED, &c));
        /* Also the side that has ended the channel has one. */
        take(p.tx, UNETMM_CQE_CLOSED, &c);
        CHECK_EQ(c.channel, p.tx->channel);
        CHECK(!take_now(p.tx, UNETMM_CQE_CLOSED, &c));
        station_close(&p.one);
        station_close(&p.two);
        station_open(&p.one, p.ctx, NULL);
        station_open(&p.two, p.ctx, NULL);
        p.sent = p.completed = p.received = 0;
        pipe_connect(&p, &attr);
    }
    pipe_close(&p);
}

/* The peer has no buffer: for as long as it likes, or not. */
TEST(not_ready, TEST_BOTH | TEST_SHADOW | TEST_ODP)
{
    struct unetmm_channel_attr attr = usual;
    struct unetmm_completion c;
    struct pipe p;

    pipe_open(&p, 60000, &usual);
    send_next(&p, 60000);
    EVENTUALLY(ep_counter(p.tx, UNETMM_C_rel_nacks) >= 3);
    CHECK(!take_now(p.tx, UNETMM_CQE_SENT, &c));
    post_all(&p);
    drain(&p);
    pipe_close(&p);

    attr.rnr_retries = 2;
    pipe_open(&p, 60000, &attr);
    send_next(&p, 60000);
    send_next(&p, 60000);
    take(p.tx, UNETMM_CQE_SENT, &c);
    CHECK_EQ(c.status, UNETMM_ST_NOT_READY);
    take(p.tx, UNETMM_CQE_SENT, &c);
    CHECK_EQ(c.status, UNETMM_ST_FLUSHED);
    pipe_close(&p);
}

/* Longer than the buffer: the sender learns it, the buffer stays. */
TEST(too_long_for_the_buffer, TEST_BOTH)
{
    struct unetmm_completion c;
    struct pipe p;

    pipe_open(&p, 60000, &usual);
    post(p.rx, p.to[0], 50000, 7);
    send_next(&p, 50001);
    send_next(&p, 10);
    take(p.tx, UNETMM_CQE_SENT, &c);
    CHECK_EQ(c.status, UNETMM_ST_PEER_BUFFER);
    take(p.tx, UNETMM_CQE_SENT, &c);
    CHECK_EQ(c.status, UNETMM_ST_FLUSHED);
    /* The other half has failed with it, and the next channel works. */
    p.rx->stashed = 0;
    EVENTUALLY(send_status(p.rx, "x", 1) != UNETMM_ST_OK);
    CHECK_RET(unetmm_disconnect(p.tx->ep, p.tx->channel), 0);
    CHECK_RET(unetmm_disconnect(p.rx->ep, p.rx->channel), 0);
    pipe_connect(&p, &usual);
    p.received = p.completed = p.sent;
    send_next(&p, 50000);
    take(p.rx, UNETMM_CQE_RECEIVED, &c);
    CHECK_EQ(c.user_data, 7);
    CHECK_EQ(c.len, 50000);
    CHECK_EQ(pattern_check(p.to[0], 50000, pattern_key(run.seed, 2), 0),
             50000);
    complete_next(&p);
    pipe_close(&p);
}

/* Sends as fast as it can until it is killed. */
static void flood(void *argument)
{
    atomic_uint *count = argument;
    struct unetmm_ctx *ctx = open_card();
    uint8_t *at = pages(15), mac[6];
    struct unetmm_completion c;
    struct station s;
    int channel;

    card_mac(mac);
    station_open(&s, ctx, NULL);
    reach(ctx, at, 15 * PAGE, false);
    channel = unetmm_connect_ex(s.ep, mac, SERVICE, 10 * NS_PER_S * run.slow, NULL, NULL);
    CHECK(channel >= 0);
    s.channel = (unsigned)channel;
    pattern_fill(at, 15 * PAGE, 5, 0);
    for (;;) {
        send_pieces(&s, &(struct iovec) { at, 15 * PAGE }, 1, 0, 0);
        while (take_now(&s, UNETMM_CQE_SENT, &c)) {
        }
        atomic_fetch_add(count, 1);
    }
}

/* Messages are whole or not there; their buffer comes back. */
TEST(sender_killed, TEST_BOTH, 60)
{
    atomic_uint *count = shared_memory(sizeof(*count));
    struct unetmm_ctx *ctx = open_card();
    struct unetmm_completion c;
    uint8_t *at = pages(15);
    struct station s;
    unsigned i, n;
    pid_t pid;

    /* Memory that a fork makes copy-on-write is registered no more. */
    CHECK_SYS(madvise(at, 15 * PAGE, MADV_DONTFORK));
    reach(ctx, at, 15 * PAGE, true);
    station_open(&s, ctx, NULL);
    CHECK_RET(unetmm_listen_ex(s.ep, SERVICE, 4, NULL), 0);
    post(&s, at, 15 * PAGE, 1);
    for (i = 0; i < rounds(5); i++) {
        pid = start_process(flood, count);
        s.channel = (unsigned)unetmm_accept(s.ep, NULL, 10 * NS_PER_S *
                                            run.slow);
        CHECK(s.channel < 1u << 16);
        for (n = 0; n < 5; n++) {
            /* Skipped buffers are the policy's; the message comes again. */
            while (!take_until(&s, UNETMM_CQE_RECEIVED, &c,
                               now_ns() + 2 * NS_PER_MS)) {
                while (take_now(&s, UNETMM_CQE_BUFFER, &c)) {
                    CHECK_EQ(c.status, UNETMM_ST_SKIPPED);
                    post(&s, at, 15 * PAGE, 1);
                }
            }
            CHECK_EQ(c.len, 15 * PAGE);
            CHECK_PATTERN(at, 15 * PAGE, 5);
            memset(at, 0, 15 * PAGE);
            post(&s, at, 15 * PAGE, 1);
        }
        CHECK_SYS(kill(pid, SIGKILL));
        CHECK(WIFSIGNALED(await_process(pid)));
        EVENTUALLY(send_status(&s, "x", 1) == UNETMM_ST_BAD_CHANNEL);
        while (take_now(&s, UNETMM_CQE_RECEIVED, &c)) {
            CHECK_EQ(c.len, 15 * PAGE);
            CHECK_PATTERN(at, 15 * PAGE, 5);
            post(&s, at, 15 * PAGE, 1);
        }
        while (take_now(&s, UNETMM_CQE_BUFFER, &c)) {
            CHECK(c.status == UNETMM_ST_BAD_CHANNEL ||
                  c.status == UNETMM_ST_SKIPPED);
            post(&s, at, 15 * PAGE, 1);
        }
        CHECK_RET(unetmm_disconnect(s.ep, s.channel), 0);
    }
    station_close(&s);
    CHECK_RET(unetmm_close(ctx), 0);
}

/* ---- How it begins ----------------------------------------------------------------- */

TEST(types, TEST_BOTH)
{
    struct unetmm_channel_attr attr = usual;
    struct unetmm_channel_info info = { .size = sizeof(info) };
    struct unetmm_ctx *ctx = open_card();
    struct station s;
    uint8_t mac[6];
    int ret;

    card_mac(mac);
    station_open(&s, ctx, NULL);
    CHECK_RET(unetmm_listen_ex(s.ep, SERVICE, 4, &datagram_attr), 0);
    CHECK_RET(unetmm_connect_ex(s.ep, mac, SERVICE, 10 * NS_PER_S * run.slow, NULL,
                                NULL), -EPROTOTYPE);
    CHECK_RET(unetmm_listen_ex(s.ep, SERVICE, 4, NULL), 0);
    CHECK_RET(unetmm_connect_ex(s.ep, mac, SERVICE, 10 * NS_PER_S * run.slow, &datagram_attr, NULL),
              -EPROTOTYPE);
    attr.flags = UNETMM_DATAGRAM | UNETMM_RELIABLE;
    CHECK_RET(unetmm_listen_ex(s.ep, SERVICE, 4, &attr), 0);
    CHECK((ret = unetmm_connect_ex(s.ep, mac, SERVICE, 10 * NS_PER_S, &datagram_attr,
                                NULL)) >= 0);
    CHECK_RET(unetmm_channel_info(s.ep, (unsigned)ret, &info), 0);
    CHECK_EQ(info.type, UNETMM_DATAGRAM);
    CHECK_EQ(info.longest, info.frame);
    CHECK((ret = unetmm_accept(s.ep, NULL, 0)) >= 0);
    CHECK_RET(unetmm_channel_info(s.ep, (unsigned)ret, &info), 0);
    CHECK_EQ(info.type, UNETMM_DATAGRAM);
    CHECK((ret = unetmm_connect_ex(s.ep, mac, SERVICE, 10 * NS_PER_S * run.slow, NULL,
                                   NULL)) >= 0);
    CHECK_RET(unetmm_channel_info(s.ep, (unsigned)ret, &info), 0);
    CHECK_EQ(info.type, UNETMM_RELIABLE);
    CHECK_EQ(info.longest, LONGEST);
    CHECK((ret = unetmm_accept(s.ep, NULL, 0)) >= 0);
    CHECK_RET(unetmm_channel_info(s.ep, (unsigned)ret, &info), 0);
    CHECK_EQ(info.type, UNETMM_RELIABLE);
    station_close(&s);
    CHECK_RET(unetmm_close(ctx), 0);
}

/* Source ktlb has none: its posted buffers would have to stay translated. */
TEST(not_with_ktlb, TEST_KTLB)
{
    struct unetmm_ctx *ctx = open_card();
    struct station s;
    uint8_t mac[6];

    card_mac(mac);
    station_open(&s, ctx, NULL);
    CHECK_RET(unetmm_listen_ex(s.ep, SERVICE, 4, NULL), -EOPNOTSUPP);
    CHECK_RET(unetmm_connect_ex(s.ep, mac, SERVICE, 10 * NS_PER_S * run.slow, NULL,
                                NULL), -EOPNOTSUPP);
    station_close(&s);
    CHECK_RET(unetmm_close(ctx), 0);
}

/* All that the card has; one that is given back can be had again. */
TEST(all_there_are, TEST_TLB)
{
    struct unetmm_ctx *ctx = open_card();
    struct station s[9];
    struct unetmm_info info;
    unsigned n, i, each, count = 0;
    uint8_t mac[6];
    int ret = 0;

    card_info(&info);
    card_mac(mac);
    each = info.channels;
    n = info.reliable / each + 1;
    if (n > sizeof(s) / sizeof(s[0])) {
        test_skip("the card has %u reliable channels", info.reliable);
    }
    for (i = 0; i < n; i++) {
        station_open(&s[i], ctx, NULL);
        CHECK_RET(unetmm_listen_ex(s[i].ep, SERVICE + 0x100 + i, 64, NULL),
                  0);
    }
    /* Each is two halves on this card. */
    for (i = 0; i < n && ret >= 0; i++) {
        for (;;) {
            ret = unetmm_connect_ex(s[i].ep, mac, SERVICE + 0x100 + i,
                                    (count < info.reliable ? 20 : 1) *
                                    NS_PER_S * run.slow, NULL, NULL);
            if (ret < 0) {
                break;
            }
            CHECK(unetmm_accept(s[i].ep, NULL, 0) >= 0);
            count += 2;
            if (count % each == 0) {
                break;
            }
        }
    }
    CHECK_EQ(count, info.reliable);
    /* The peer has none: it may have one later. */
    CHECK_RET(ret, -ETIMEDOUT);
    CHECK_RET(unetmm_disconnect(s[0].ep, 0), 0);
    CHECK_RET(unetmm_disconnect(s[0].ep, 1), 0);
    EVENTUALLY(unetmm_connect_ex(s[0].ep, mac, SERVICE + 0x100,
                                 500 * NS_PER_MS * run.slow, NULL,
                                 NULL) >= 0);
    for (i = 0; i < n; i++) {
        station_close(&s[i]);
    }
    CHECK_RET(unetmm_close(ctx), 0);
}

/* The completion with a buffer's cookie, and with an immediate. */
static void take_imm(struct station *station, unsigned type, uint64_t cookie,
                     uint32_t imm, uint32_t len)
{
    struct unetmm_completion c;

    take(station, type, &c);
    CHECK_EQ(c.status, UNETMM_ST_OK);
    CHECK_EQ(c.user_data, cookie);
    CHECK_EQ(c.len, len);
    CHECK_EQ(c.is_inline, 0);
    CHECK(c.flags & UNETMM_CQE_F_IMM);
    CHECK_EQ(c.imm, imm);
}

/* Messages and writes with 32 bits, in order; each takes the next buffer. */
TEST(immediates, TEST_BOTH | TEST_UTLB | TEST_SHADOW | TEST_ODP)
{
    struct unetmm_ep_attr attr = default_attr();
    struct unetmm_ctx *ctx = open_card();
    struct station one, two;
    uint8_t *at = pages(8);
    unsigned i, import, n = 3 * WINDOW;

    attr.flags = UNETMM_EP_NO_INLINE;
    station_open(&one, ctx, &attr);
    station_open(&two, ctx, &attr);
    CHECK_RET(try_join(&one, &two, &usual, 10 * NS_PER_S * run.slow), 0);
    CHECK_RET(unetmm_export(ctx, 5, at, 2 * PAGE, UNETMM_RIGHT_WRITE, 0, 0), 0);
    import = import_of(&one, 5, UNETMM_RIGHT_WRITE);
    reach(ctx, at + 2 * PAGE, 6 * PAGE, true);
    pattern_fill(at + 2 * PAGE, PAGE, 3, 0);
    /* The first is refused until there is a buffer. */
    for (i = 0; i < n; i++) {
        size_t len = i % 3 == 2 ? PAGE : i % 3 * 40;

        CHECK_RET(i % 2 ? unetmm_write(one.ep, import, 0, at + 2 * PAGE, len,
                                       ~i, i, UNETMM_IMM) :
                  unetmm_send_imm(one.ep, one.channel, at + 2 * PAGE, len, ~i,
                                  i, 0), 0);
    }
    for (i = 0; i < n; i++) {
        post(&two, at + 4 * PAGE, PAGE, 900 + i);
        take_imm(&two, i % 2 ? UNETMM_CQE_WRITTEN : UNETMM_CQE_RECEIVED,
                 900 + i, ~i, i % 3 == 2 ? PAGE : i % 3 * 40);
    }
    CHECK_PATTERN(at, PAGE, 3);
    CHECK_RET(unetmm_write(one.ep, import, 0, at, 1, 0, 0,
                           UNETMM_IMM | UNETMM_NOTIFY), -EINVAL);
    CHECK_RET(unetmm_send_imm(one.ep, one.channel, at, 1, 0, 0, UNETMM_IMM),
              -EINVAL);
    station_close(&one);
    station_close(&two);
    CHECK_RET(unetmm_close(ctx), 0);
}
