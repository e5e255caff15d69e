/*
 * unetmm: two cards on one wire, and a reliable channel between them
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "pair.h"

typedef struct Flight {
    int64_t at;
    uint64_t order;
    unsigned to;
    FakeFrame *frame;
} Flight;

static const uint8_t macs[2][6] = {
    { 0x52, 0x54, 0x00, 0x4d, 0x4d, 0x01 },
    { 0x52, 0x54, 0x00, 0x4d, 0x4d, 0x02 },
};

static uint64_t source_at(uint32_t n)
{
    return PAIR_VA + (uint64_t)(n % PAIR_SLOTS) * (PAIR_BYTES + 3 * FAKE_PAGE) +
           n % 97;
}

static uint64_t buffer_at(uint32_t n)
{
    return source_at(n) + 0x10000000;
}

static uint32_t any_length(Pair *p, uint32_t n)
{
    switch (fake_random(&p->random) % 4) {
    case 0:
        return fake_random(&p->random) % 45;
    case 1:
        return fake_random(&p->random) % 1000;
    default:
        return fake_random(&p->random) % (p->most + 1);
    }
}

/* The page whose entry is there; NULL: it is none. */
static FakeVpage *page_of_entry(FakeSpace *s, uint64_t addr)
{
    GHashTableIter iter;
    FakeVpage *page = NULL;

    g_hash_table_iter_init(&iter, s->pages);
    while (g_hash_table_iter_next(&iter, NULL, (void **)&page)) {
        if (fake_table_at(s, page->vpn << 12) == addr) {
            return page;
        }
    }
    return NULL;
}

/* Source shadow: a page goes between its lookup and its lock, now and then. */
static void take_away(FakeHost *host, uint64_t addr)
{
    PairSide *s = container_of(host, PairSide, h);
    FakeVpage *page;

    /* By chance: a loss of every n-th may meet the same packet for ever. */
    s->atomics++;
    if (fake_random(&s->random) % PAIR_TAKE_AWAY) {
        return;
    }
    page = page_of_entry(s->s, addr);
    if (page && !(fake_table_get(s->s, page->vpn << 12) & UNETMM_PTE_LOCKS)) {
        fake_table_set(s->s, page->vpn << 12, 0);
    }
}

static void side_init(Pair *p, unsigned i, PairTune *tune, uint8_t source,
                      uint32_t credits)
{
    PairSide *s = &p->side[i];
    UnetmmParams params;
    uint64_t all = PAIR_SLOTS * (PAIR_BYTES + 3 * FAKE_PAGE) + FAKE_PAGE;

    fake_params(&params);
    params.tlb_sets = 1024;
    params.cache_entries = 1024;
    if (tune) {
        tune(&params);
    }
    memcpy(params.mac, macs[i], 6);
    fake_host_init(&s->h, &params);
    fake_driver_init(&s->d, &s->h);
    fake_driver_start(&s->d);
    s->s = fake_space(&s->d, 1, source,
                      source == UNETMM_SOURCE_TLB ? 0 : 4);
    fake_map(s->s, PAIR_VA, all, FAKE_RW);
    fake_map(s->s, PAIR_VA + 0x10000000, all, FAKE_RW);
    s->random = p->random + 17 * i;
    if (source == UNETMM_SOURCE_SHADOW) {
        s->h.on_atomic = take_away;
    }
    fake_ep_init(&s->ep, &s->d, 1 + i, s->s);
    s->ep.cq_log2 = 6;
    if (credits) {
        s->ep.policy = UNETMM_POLICY_REDIRECT;
        assert_int_equal(fake_sysbuf(&s->d, credits, params.user_mtu),
                         UNETMM_CS_OK);
    }
    fake_ep_create(&s->ep);
}

void pair_init(Pair *p, PairTune *tune, uint8_t source, uint64_t seed,
               const struct unetmm_cmd_channel *how)
{
    struct unetmm_cmd_channel c = *how;

    memset(p, 0, sizeof(*p));
    p->random = seed;
    p->wire.random = seed + 1;
    p->wire.delay_ns = 10000;
    p->most = PAIR_BYTES;
    p->length = any_length;
    p->flights = g_array_new(false, false, sizeof(Flight));
    for (unsigned i = 0; i < 2; i++) {
        side_init(p, i, tune, source, how->recv_credits);
        p->now = p->side[i].h.now;
    }
    for (unsigned i = 0; i < 2; i++) {
        c.send_psn = i ? how->recv_psn : how->send_psn;
        c.recv_psn = i ? how->send_psn : how->recv_psn;
        c.send_credits = c.recv_credits;
        assert_int_equal(fake_channel_rel(&p->side[i].ep, PAIR_CHANNEL + i,
                                          macs[!i], 2 - i,
                                          PAIR_CHANNEL + !i, &c),
                         UNETMM_CS_OK);
    }
}

void pair_free(Pair *p)
{
    for (unsigned i = 0; i < p->flights->len; i++) {
        g_free(g_array_index(p->flights, Flight, i).frame);
    }
    g_array_unref(p->flights);
    for (unsigned i = 0; i < 2; i++) {
        fake_driver_free(&p->side[i].d);
        fake_host_free(&p->side[i].h);
    }
}

/* ---- The wire ---- */

static bool happens(Pair *p, uint32_t ppm)
{
    return ppm && fake_random(&p->wire.random) % 1000000 < ppm;
}

static void fly(Pair *p, unsigned from, int64_t at, const FakeFrame *f)
{
    Flight flight = { .at = at, .order = p->order++, .to = !from };

    if (happens(p, p->wire.late)) {
        flight.at += fake_random(&p->wire.random) % p->wire.late_ns;
    }
    flight.frame = g_malloc(sizeof(*f) + f->bytes);
    memcpy(flight.frame, f, sizeof(*f) + f->bytes);
    if (happens(p, p->wire.corrupt)) {
        uint32_t bit = fake_random(&p->wire.random) % (8 * (f->bytes - 14));

        flight.frame->data[14 + bit / 8] ^= 1 << bit % 8;
    }
    g_array_append_val(p->flights, flight);
}

/* Takes the frames that a card has given to the wire since. */
static void collect(Pair *p, unsigned from)
{
    PairSide *s = &p->side[from];

    for (unsigned i = 0; i < s->h.wire->len; i++) {
        const FakeFrame *f = s->h.wire->pdata[i];

        s->wire_free_ns = MAX(s->wire_free_ns, p->now) +
                          (int64_t)f->bytes * p->wire.ns_per_kb / 1024;
        if (happens(p, p->wire.loss)) {
            continue;
        }
        fly(p, from, s->wire_free_ns + p->wire.delay_ns, f);
        if (happens(p, p->wire.dup)) {
            fly(p, from, s->wire_free_ns + p->wire.delay_ns, f);
        }
    }
    fake_wire_clear(&s->h);
}

static Flight *next_flight(Pair *p)
{
    Flight *next = NULL;

    for (unsigned i = 0; i < p->flights->len; i++) {
        Flight *f = &g_array_index(p->flights, Flight, i);

        if (!next || f->at < next->at ||
            (f->at == next->at && f->order < next->order)) {
            next = f;
        }
    }
    return next;
}

static void settle(Pair *p)
{
    for (unsigned i = 0; i < 2; i++) {
        PairSide *s = &p->side[i];

        do {
            fake_serve(&s->d);
        } while (fake_run_later(&s->h));
        collect(p, i);
    }
}

static void pass_time(Pair *p, int64_t to)
{
    p->now = MAX(p->now, to);
    for (unsigned i = 0; i < 2; i++) {
        fake_advance(&p->side[i].h, p->now - p->side[i].h.now);
    }
}

/* Source odp: some page goes, in use or not. */
static void vanish(PairSide *s)
{
    uint32_t n = fake_random(&s->random) % g_hash_table_size(s->s->pages);
    GHashTableIter iter;
    FakeVpage *page = NULL;

    g_hash_table_iter_init(&iter, s->s->pages);
    do {
        assert_true(g_hash_table_iter_next(&iter, NULL, (void **)&page));
    } while (n--);
    /* If it is in DMA the driver would wait, and it stays the card's so long. */
    fake_invalidate(s->s, page->vpn << 12, FAKE_PAGE);
}

bool pair_step(Pair *p)
{
    int64_t timer = MIN(p->side[0].h.timer, p->side[1].h.timer);
    Flight *next, f;

    for (unsigned i = 0; i < 2; i++) {
        if (p->side[i].s->source == UNETMM_SOURCE_ODP) {
            vanish(&p->side[i]);
        }
    }
    settle(p);
    timer = MIN(p->side[0].h.timer, p->side[1].h.timer);
    next = next_flight(p);
    if (!next && timer == INT64_MAX) {
        return false;
    }
    if (!next || timer < next->at) {
        pass_time(p, timer);
    } else {
        f = *next;
        g_array_remove_index(p->flights, next - &g_array_index(p->flights,
                                                               Flight, 0));
        pass_time(p, f.at);
        if (!fake_receive(&p->side[f.to].h, f.frame)) {
            /* The net layer keeps it until there is room. */
            f.at = p->now + 1000;
            g_array_append_val(p->flights, f);
        } else {
            g_free(f.frame);
        }
    }
    settle(p);
    return true;
}

/* ---- The processes ---- */

static void post_one(PairSide *s)
{
    uint32_t n = s->posted++;

    fake_fill(s->s, buffer_at(n), PAIR_BYTES, ~n);
    /* Each second one is a chain of two. */
    fake_post_cut(&s->ep, buffer_at(n), PAIR_BYTES,
                  n % 2 ? 1 + n * 7919 % (PAIR_BYTES - 1) : 0, n);
}

static void send_one(Pair *p, PairSide *s, unsigned side)
{
    uint32_t n = s->sent++;
    uint32_t len = p->length(p, n);

    s->len[n % PAIR_SLOTS] = len;
    if (len <= UNETMM_MAX_INLINE && fake_random(&p->random) % 2) {
        fake_send_inline(&s->ep, PAIR_CHANNEL + side, n, len, n, 0);
        return;
    }
    fake_fill(s->s, source_at(n), len, n);
    fake_send_at(&s->ep, PAIR_CHANNEL + side, source_at(n), len, n);
}

static void take_message(PairSide *s, PairSide *from,
                         const struct unetmm_cqe *cqe)
{
    uint32_t n = s->got++;
    uint32_t len = from->len[n % PAIR_SLOTS];

    assert_int_equal(cqe->status, UNETMM_ST_OK);
    assert_int_equal(cqe->len, len);
    s->bytes += len;
    if (cqe->flags & UNETMM_CQE_F_INLINE) {
        for (uint32_t i = 0; i < len; i++) {
            assert_int_equal(cqe->data[i], fake_pattern(n, i));
        }
        return;
    }
    fake_check(s->s, buffer_at(cqe->cookie), len, n);
}

static void take_all(Pair *p, unsigned side)
{
    PairSide *s = &p->side[side];
    struct unetmm_cqe cqe;

    while (fake_poll(&s->ep, &cqe)) {
        if (cqe.opcode == UNETMM_CQE_SENT) {
            assert_int_equal(cqe.status, UNETMM_ST_OK);
            uint32_t n = s->completed++;

            assert_int_equal(cqe.cookie, n);
            /* It had arrived before it was complete. */
            take_all(p, !side);
            assert_true(p->side[!side].got > n);
            fake_fill(s->s, source_at(n), PAIR_BYTES, ~0u);
        } else if (cqe.opcode == UNETMM_CQE_BUFFER) {
            assert_int_equal(cqe.status, UNETMM_ST_SKIPPED);
            post_one(s);
        } else {
            assert_int_equal(cqe.opcode, UNETMM_CQE_RECEIVED);
            take_message(s, &p->side[!side], &cqe);
            if (!(cqe.flags & UNETMM_CQE_F_INLINE) && !s->lazy) {
                post_one(s);
            }
        }
    }
}

void pair_work(Pair *p, unsigned side, uint32_t n)
{
    PairSide *s = &p->side[side];
    uint32_t before = s->sent + s->posted;

    take_all(p, side);
    while (s->posted < PAIR_SLOTS && !s->lazy) {
        post_one(s);
    }
    while (s->sent < n && s->sent - s->completed < PAIR_SLOTS) {
        send_one(p, s, side);
    }
    if (s->sent + s->posted != before ||
        fake_card(&s->ep).state & UNETMM_EP_CQ_BLOCKED) {
        fake_ring_bell(&s->ep);
    }
}

void pair_exchange(Pair *p, uint32_t n0, uint32_t n1)
{
    unsigned steps = 0;

    do {
        pair_work(p, 0, n0);
        pair_work(p, 1, n1);
        /* A protocol that has stopped would run timers for ever. */
        assert_true(++steps < 2000000);
    } while ((p->side[0].completed < n0 || p->side[1].completed < n1) &&
             pair_step(p));
    take_all(p, 0);
    take_all(p, 1);
    assert_int_equal(p->side[0].completed, n0);
    assert_int_equal(p->side[1].completed, n1);
    assert_int_equal(p->side[0].got, n1);
    assert_int_equal(p->side[1].got, n0);
}

uint64_t pair_count(Pair *p, enum unetmm_counter counter)
{
    return p->side[0].h.core.counters[counter] +
           p->side[1].h.core.counters[counter];
}
