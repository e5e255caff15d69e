/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Threads and processes that exchange messages with themselves and check each byte. */
#include "traffic.h"
#include "guard.h"
#include "link.h"

#define TRAFFIC_PAGES   16

static void *traffic_thread(void *argument)
{
    struct traffic *traffic = argument;
    struct chance chance;
    struct link link;
    uint8_t *from, *to;

    chance_init(&chance, traffic->stream);
    link_open(&link, NULL, NULL);
    from = pages(TRAFFIC_PAGES);
    to = pages(TRAFFIC_PAGES);
    reach(link.ctx, from, TRAFFIC_PAGES * PAGE, true);
    reach(link.ctx, to, TRAFFIC_PAGES * PAGE, true);
    while (!atomic_load(&traffic->stop)) {
        uint32_t room = TRAFFIC_PAGES * UNETMM_PAGE_BYTES - link.tx->mtu;

        exchange_pattern(&link, from + chance_below(&chance, room),
                         to + chance_below(&chance, room),
                         1 + chance_below(&chance, link.tx->mtu),
                         chance_u64(&chance));
        atomic_fetch_add(&traffic->messages, 1);
    }
    link_close(&link);
    return NULL;
}

void traffic_start(struct traffic *traffic, uint64_t stream)
{
    atomic_init(&traffic->stop, false);
    atomic_init(&traffic->messages, 0);
    traffic->stream = stream;
    CHECK_EQ(pthread_create(&traffic->thread, NULL, traffic_thread, traffic),
             0);
    /* It has made all its mappings: holes that others leave stay holes. */
    EVENTUALLY(atomic_load(&traffic->messages) > 0);
}

void traffic_stop(struct traffic *traffic)
{
    atomic_store(&traffic->stop, true);
    CHECK_EQ(pthread_join(traffic->thread, NULL), 0);
}

/* ---- In processes ---------------------------------------------------------------- */

static bool card_lives(struct link *link)
{
    struct unetmm_info info = { .size = sizeof(info) };

    return unetmm_info(link->ctx, &info) == 0;
}

/* Has the n-th message to the endpoint been received or dropped?  */
static bool is_settled(struct link *link, uint64_t n)
{
    uint64_t values[UNETMM_NUM_COUNTERS];

    if (unetmm_stats_read(link->ctx, UNETMM_SCOPE_ENDPOINT,
                          (unsigned)unetmm_ep_id(link->rx->ep), values,
                          UNETMM_NUM_COUNTERS) <= 0) {
        return false;
    }
    return values[UNETMM_C_rx_frames] + sum_of_drops(values) >= n;
}

/* The card may have to page in first; until then `from` has to stay. */
static int await_sent(struct link *link, struct unetmm_completion *c)
{
    uint64_t end = deadline_in(10);
    int ret;

    do {
        ret = unetmm_wait(link->tx->ep, c, 1, 100 * NS_PER_MS);
    } while (!ret && card_lives(link) && now_ns() < end);
    return ret;
}

/*
 * Takes messages until message `key`, the key-th, has come or is known to have been
 * dropped: none is under way when the next one is sent.
 */
static bool settle(struct link *link, const uint8_t *to, uint64_t key,
                   bool *came)
{
    uint64_t end = deadline_in(10);
    struct unetmm_completion c;
    bool settled;
    int ret;

    do {
        settled = is_settled(link, key);
        while ((ret = unetmm_wait(link->rx->ep, &c, 1,
                                  settled ? 0 : NS_PER_MS)) > 0) {
            if (c.type == UNETMM_CQE_RECEIVED) {
                CHECK_PATTERN(to, PAGE, key);
                *came = true;
                return true;
            }
        }
    } while (ret == 0 && !settled && card_lives(link) && now_ns() < end);
    return ret >= 0 && card_lives(link);
}

/* One message, received (*came) or not; false: the card has gone. */
static bool one_round(struct link *link, uint8_t *from, uint8_t *to,
                      uint64_t key, bool *came)
{
    struct unetmm_completion c;
    int ret;

    pattern_fill(from, PAGE, key, 0);
    ret = unetmm_post_recv(link->rx->ep, to, PAGE, 1, 0);
    if (!ret || ret == -EAGAIN) {
        ret = unetmm_send(link->tx->ep, link->tx->channel, from, PAGE, 2, 0);
    }
    if (ret && ret != -EAGAIN) {
        return false;
    }
    ret = await_sent(link, &c);
    if (ret <= 0 || c.status) {
        return false;
    }
    return settle(link, to, key, came);
}

static void crowd_member(void *argument)
{
    struct crowd_state *state = argument;
    bool came = false, joined = false;
    struct link link;
    uint8_t *from, *to;
    uint64_t key;

    link_open(&link, NULL, NULL);
    from = pages(1);
    to = pages(1);
    reach(link.ctx, from, PAGE, true);
    reach(link.ctx, to, PAGE, true);
    for (key = 1; !atomic_load(&state->stop); key++) {
        bool lives = one_round(&link, from, to, key, &came);

        if (!lives && atomic_load(&state->hard)) {
            break;
        }
        CHECK(lives);
        /* From the first that has come it has all that it will have. */
        if (came && !joined) {
            joined = true;
            atomic_fetch_add(&state->joined, 1);
        }
        atomic_fetch_add(&state->messages, 1);
    }
    /* Whatever has become of the card, these must return. */
    unetmm_ep_destroy(link.one.ep);
    unetmm_ep_destroy(link.two.ep);
    unetmm_close(link.ctx);
}

void crowd_start(struct crowd *crowd, unsigned n)
{
    unsigned i;

    crowd->n = n;
    crowd->state = shared_memory(sizeof(*crowd->state));
    for (i = 0; i < n; i++) {
        crowd->pids[i] = start_process(crowd_member, crowd->state);
    }
    EVENTUALLY(atomic_load(&crowd->state->joined) == n);
}

void crowd_await(struct crowd *crowd, unsigned messages)
{
    uint64_t until = atomic_load(&crowd->state->messages) + messages;

    EVENTUALLY(atomic_load(&crowd->state->messages) >= until);
}

void crowd_stop(struct crowd *crowd)
{
    unsigned i;

    atomic_store(&crowd->state->stop, true);
    for (i = 0; i < crowd->n; i++) {
        end_process(crowd->pids[i]);
    }
}
