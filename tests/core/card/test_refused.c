/*
 * unetmm: the bus refuses one access, whichever it is
 *
 * Each scene is played again and again: the bus refuses the first of its
 * accesses, then the second, until none is left.  Accesses to the driver's
 * rings are left alone (test_regs.c).  Whatever the refused memory is for, the
 * access is counted once, each message and each buffer is accounted for, an
 * endpoint that is stopped says so once, the card can be moved, the other
 * endpoint goes on, and nothing keeps the first one from being destroyed.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../peer.h"
#include "../slots.h"

#define PAGE_NS     5000
#define COOKIES     64
#define WRITE_BYTES 700
#define LAST        UNETMM_WIRE_F_LAST
#define NOTIFY      UNETMM_WIRE_F_NOTIFY

/* The access that is refused, counted from 1; those seen; was it met? */
static struct {
    FakeDriver *driver;
    uint64_t number, seen;
    bool met;
} bus;

static bool of_driver(uint64_t addr)
{
    const FakeDriver *d = bus.driver;

    for (unsigned i = 0; i < UNETMM_NUM_RINGS; i++) {
        const FakeRing *r = &d->ring[i];

        if (addr >= r->base &&
            addr - r->base < (uint64_t)r->entry_bytes << r->log2) {
            return true;
        }
    }
    return addr >= d->list && addr - d->list < FAKE_PAGE;
}

static bool may_access(FakeHost *host, uint64_t addr)
{
    if (of_driver(addr) || ++bus.seen != bus.number) {
        return true;
    }
    bus.met = true;
    return false;
}

static void bus_begin(FakeHost *h, FakeDriver *d, uint64_t number)
{
    bus.driver = d;
    bus.number = number;
    bus.seen = 0;
    bus.met = false;
    h->may_access = may_access;
}

/* ---- The process's completions ------------------------------------------ */

typedef struct Told {
    unsigned sent[COOKIES], buffers[COOKIES];
    unsigned ok, received, returned, failed, closed, notified;
} Told;

static void take_completions(FakeEp *ep, Told *t)
{
    struct unetmm_cqe cqe;

    while (fake_poll(ep, &cqe)) {
        /* After this one there is no other. */
        assert_int_equal(t->failed, 0);
        switch (cqe.opcode) {
        case UNETMM_CQE_SENT:
            assert_in_range(cqe.cookie, 1, COOKIES - 1);
            t->sent[cqe.cookie]++;
            t->ok += cqe.status == UNETMM_ST_OK;
            break;
        case UNETMM_CQE_RECEIVED:
        case UNETMM_CQE_BUFFER:
            t->received += cqe.opcode == UNETMM_CQE_RECEIVED;
            t->returned += cqe.opcode == UNETMM_CQE_BUFFER;
            assert_in_range(cqe.cookie, 0, COOKIES - 1);
            t->buffers[cqe.cookie] += cqe.cookie != 0;
            break;
        case UNETMM_CQE_NOTIFY:
            t->notified++;
            break;
        case UNETMM_CQE_CLOSED:
            t->closed++;
            break;
        default:
            assert_int_equal(cqe.opcode, UNETMM_CQE_FAILED);
            t->failed++;
        }
    }
}

static uint64_t drops(FakeHost *h)
{
    uint64_t n = 0;

#define COUNT(name, scope, help) \
    if (g_str_has_prefix(#name, "drop_")) { \
        n += fake_counter(h, UNETMM_C_##name); \
    }
    UNETMM_COUNTERS(COUNT)
#undef COUNT
    return n;
}

/* Until operations without an answer from the peer have been given up. */
static void settle(FakeHost *h, FakeDriver *d, FakeEp *ep, Told *told)
{
    for (unsigned i = 0; i < 12; i++) {
        fake_ring_bell(ep);
        fake_serve(d);
        fake_run_later(h);
        fake_advance(h, 2000000);
        take_completions(ep, told);
    }
}

/* Invariants, whichever access was refused. */
static void check_card(FakeHost *h, FakeEp *ep, const Told *told)
{
    const UnetmmEp *e = &h->core.eps[ep->id];

    assert_int_equal(fake_counter(h, UNETMM_C_err_dma), bus.met);
    assert_int_equal(fake_reg(h, UNETMM_REG_STATUS) & UNETMM_STATUS_FATAL, 0);
    assert_false(h->core.landing->active);
    assert_int_equal(h->core.source->tlb.moving, 0);
    assert_int_equal(h->core.lists->ready.used, 0);
    assert_true(bus.met || !e->error);
    if (!e->error) {
        assert_int_equal(told->failed, 0);
    } else if (e->failed_cqe || fake_card(ep).state != UNETMM_EP_ERROR) {
        /* Only the place itself where it is said may have been refused. */
        fail_msg("access %" PRIu64 ": the process is not told", bus.number);
    }
    for (unsigned i = 0; i < COOKIES; i++) {
        assert_true(told->sent[i] <= 1 && told->buffers[i] <= 1);
    }
}

/* ---- Scenes of two endpoints -------------------------------------------- */

typedef struct Scene {
    const char *name;
    uint8_t source;
    bool slow;
    void (*begin)(Fix *f);      /* the bus refuses nothing yet */
    void (*play)(Fix *f, Told *told);
    unsigned sends;             /* cookies 1 to this */
    unsigned datagrams;         /* that come */
    unsigned packets;           /* of the channel, that come in their order */
    /* If all goes well */
    unsigned ok, received, bytes, returned, notified, closed;
} Scene;

static void slow(UnetmmParams *p)
{
    p->dma_page_ns = PAGE_NS;
}

static void step(Fix *f, Told *told)
{
    fake_serve(&f->d);
    fake_run_later(&f->h);
    fake_advance(&f->h, 3 * PAGE_NS);
    take_completions(&f->a, told);
}

static void receive(Fix *f, Told *told, uint32_t len, uint32_t n)
{
    fake_deliver(&f->h, fake_datagram(&f->a, FIX_WIRE, 11, len, n));
    step(f, told);
}

static void post_buffers(Fix *f, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        fake_post(&f->a, PEER_PAGE(2 * i) + 100, 6000, 1 + i);
    }
    fake_ring_bell(&f->a);
}

static void nothing(Fix *f)
{
}

/* The first buffer is passed over. */
static void first_absent(Fix *f)
{
    fake_vpage(f->s1, PEER_PAGE(0))->absent = true;
}

static void open_absent(Fix *f)
{
    first_absent(f);
    peer_open(f);
}

/* The process wants to know when the channel ends. */
static void open_telling(Fix *f)
{
    const struct unetmm_cmd_channel how = {
        .mtu = PEER_MTU, .send_psn = PEER_MY, .recv_psn = PEER_YOURS,
        .retries = 1, .timeout_us = 1000, .flags = UNETMM_CHANNEL_F_TELL,
    };

    assert_int_equal(fake_channel_rel(&f->a, PEER_CH, fake_peer_mac, PEER_EP,
                                      PEER_CH, &how), UNETMM_CS_OK);
    assert_int_equal(fake_import(&f->a, PEER_IMPORT, PEER_CH, PEER_FAR,
                                 PEER_FAR_KEY, PEER_FAR_LENGTH,
                                 UNETMM_RIGHT_ALL), UNETMM_CS_OK);
    fake_wire_clear(&f->h);
}

static void play_datagrams(Fix *f, Told *told)
{
    post_buffers(f, 3);
    step(f, told);
    receive(f, told, 8, 1);
    receive(f, told, 300, 2);
    receive(f, told, 5000, 3);
    fake_send_inline(&f->a, FIX_WIRE, 1, 100, 1, 0);
    fake_send_at(&f->a, FIX_WIRE, PEER_PAGE(30) - 50, 3000, 2);
    fake_ring_bell(&f->a);
    step(f, told);
}

/* All of the channel's kinds of packets, of which one or two may be refused. */
static void give(Fix *f, Told *told, struct unetmm_frame h, uint32_t len)
{
    uint8_t data[PEER_MTU] = { 1, 2, 3 };

    uint32_t number = h.psn + PEER_YOURS;

    h.psn = number;
    if (h.opcode != UNETMM_WIRE_SEND) {
        h.handle = PEER_REGION;
        h.offset = PEER_KEY;
    }
    /* Packets not taken come again, as their sender would have it. */
    for (unsigned i = 0; i < 3; i++) {
        const UnetmmRel *rel = f->h.core.eps[1].rels;

        if (!i || (rel && rel->rx.nxt == number)) {
            peer_give(f, h, data, len);
            step(f, told);
        }
    }
}

/* Packets for absent pages go to the system buffer. */
static void open_redirecting(Fix *f)
{
    const struct unetmm_cmd_channel how = {
        .mtu = PEER_MTU, .send_psn = PEER_MY, .recv_psn = PEER_YOURS,
        .retries = 3, .timeout_us = 1000, .not_ready_retries = 4,
        .recv_credits = 8,
    };

    assert_int_equal(fake_ep_destroy(&f->a), UNETMM_CS_OK);
    assert_int_equal(fake_sysbuf(&f->d, 8, 9000), UNETMM_CS_OK);
    fake_ep_init(&f->a, &f->d, 1, f->s1);
    f->a.policy = UNETMM_POLICY_REDIRECT;
    fake_ep_create(&f->a);
    assert_int_equal(fake_channel_rel(&f->a, PEER_CH, fake_peer_mac, PEER_EP,
                                      PEER_CH, &how), UNETMM_CS_OK);
    assert_int_equal(fake_region(f->s1, PEER_REGION, PEER_KEY, PEER_AT,
                                 PEER_LENGTH, UNETMM_RIGHT_ALL,
                                 UNETMM_REGION_F_NOTIFY), UNETMM_CS_OK);
    fake_wire_clear(&f->h);
}

static void play_arriving(Fix *f, Told *told)
{
    post_buffers(f, 3);
    step(f, told);
    give(f, told, (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_SEND, .psn = 0, .remote = 8, .flags = LAST }, 8);
    give(f, told, (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_SEND, .psn = 1, .remote = 1500 }, PEER_MTU);
    give(f, told, (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_SEND, .psn = 2, .remote = 1500,
        .offset = 1000, .flags = LAST }, 500);
    give(f, told, (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_WRITE, .psn = 3, .remote = 3900,
        .flags = LAST | NOTIFY }, WRITE_BYTES);
    give(f, told, (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_READ, .psn = 4, .remote = 3900, .imm = 600 }, 0);
    give(f, told, (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_ATOMIC, .psn = 5, .remote = 8,
        .imm = UNETMM_ATOMIC_ADD }, 8);
}

/* The peer takes each packet at once. */
static void play_leaving(Fix *f, Told *told)
{
    static const uint8_t answer[300] = { 7 };
    struct unetmm_sqe add = {
        .opcode = UNETMM_OP_FETCH_ADD, .flags = UNETMM_SQE_F_INLINE,
        .channel = PEER_CH, .inline_len = 8, .cookie = 4,
        .handle = PEER_IMPORT,
    };

    peer_post(f, peer_sqe(UNETMM_OP_WRITE, 30, 500, 0, 1));
    step(f, told);
    fake_send_at(&f->a, PEER_CH, PEER_PAGE(31) - 20, 40, 2);
    fake_ring_bell(&f->a);
    step(f, told);
    peer_ack(f, PEER_MY + 2, 0);
    peer_post(f, peer_sqe(UNETMM_OP_READ, 33, 300, 0, 3));
    step(f, told);
    /* The first one finds no page. */
    for (unsigned i = 0; i < 3; i++) {
        peer_give(f, (struct unetmm_frame) {
            .opcode = UNETMM_WIRE_ANSWER, .psn = PEER_MY + 2 }, answer, 300);
        step(f, told);
    }
    fake_send_sqe(&f->a, add);
    fake_ring_bell(&f->a);
    step(f, told);
    peer_give(f, (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_ANSWER, .psn = PEER_MY + 3 }, answer, 8);
    step(f, told);
}

/* The peer takes nothing: the channel ends, and the process is told. */
static void play_unheard(Fix *f, Told *told)
{
    peer_post(f, peer_sqe(UNETMM_OP_WRITE, 30, 500, 0, 1));
    fake_send_inline(&f->a, PEER_CH, 1, 30, 2, 0);
    fake_ring_bell(&f->a);
    step(f, told);
}

#define DATAGRAMS   play_datagrams, .sends = 2, .datagrams = 3, .ok = 2, \
                    .received = 3, .bytes = 5308
#define ARRIVING    play_arriving, .packets = 6, .received = 2, \
                    .bytes = 1508, .notified = 1
#define LEAVING     play_leaving, .sends = 4, .ok = 4
#define UNHEARD     play_unheard, .sends = 2, .closed = 1

static const Scene scenes[] = {
    { "datagrams", UNETMM_SOURCE_TLB, false, nothing, DATAGRAMS },
    { "datagrams, slow", UNETMM_SOURCE_TLB, true, nothing, DATAGRAMS },
    { "datagrams, absent", UNETMM_SOURCE_TLB, false, first_absent, DATAGRAMS,
      .returned = 1 },
    { "datagrams, pinned", UNETMM_SOURCE_PINNED, false, nothing, DATAGRAMS },
    { "datagrams, utlb", UNETMM_SOURCE_UTLB, false, nothing, DATAGRAMS },
    { "datagrams, shadow", UNETMM_SOURCE_SHADOW, true, nothing, DATAGRAMS },
    { "datagrams, odp", UNETMM_SOURCE_ODP, false, nothing, DATAGRAMS },
    { "arriving", UNETMM_SOURCE_TLB, false, peer_open, ARRIVING },
    { "arriving, slow", UNETMM_SOURCE_TLB, true, peer_open, ARRIVING },
    { "arriving, absent", UNETMM_SOURCE_TLB, false, open_absent, ARRIVING,
      .returned = 1 },
    { "redirected", UNETMM_SOURCE_TLB, false, open_redirecting, ARRIVING },
    { "leaving", UNETMM_SOURCE_TLB, false, peer_open, LEAVING },
    { "leaving, slow", UNETMM_SOURCE_TLB, true, peer_open, LEAVING },
    { "unheard", UNETMM_SOURCE_TLB, false, open_telling, UNHEARD },
};

/* Endpoint a of another space than the usual. */
static void open_source(Fix *f, uint8_t source)
{
    if (source == UNETMM_SOURCE_TLB) {
        return;
    }
    assert_int_equal(fake_ep_destroy(&f->a), UNETMM_CS_OK);
    f->s1 = fake_space(&f->d, 3, source, 4);
    fake_map(f->s1, FIX_VA, FIX_PAGES * FAKE_PAGE, FAKE_RW);
    fake_ep_open(&f->a, &f->d, 1, f->s1);
    fake_connect_peer(&f->a, FIX_WIRE, 11, FIX_MTU);
}

/* The other endpoint goes on, and the first one's things can be taken away. */
static void check_rest(Fix *f)
{
    struct unetmm_cmd gone = { .opcode = UNETMM_CMD_SPACE_DESTROY,
                               .space = f->s1->id };

    f->h.may_access = NULL;
    fake_migrate(&f->h);
    fake_send_inline(&f->b, FIX_WIRE, 1, 20, 9, 0);
    fake_ring_bell(&f->b);
    fake_expect(&f->b, UNETMM_CQE_SENT, UNETMM_ST_OK, 9);
    if (f->h.core.remote->regions[PEER_REGION].live) {
        assert_int_equal(fake_region_clear(&f->d, PEER_REGION), UNETMM_CS_OK);
    }
    assert_int_equal(fake_ep_destroy(&f->a), UNETMM_CS_OK);
    assert_int_equal(fake_command(&f->d, gone, NULL), UNETMM_CS_OK);
    fake_space_gone(f->s1);
}

/* Nothing that came or went is lost without a word. */
static void check_scene(Fix *f, const Scene *s, const Told *told)
{
    uint64_t bytes = fake_counter(&f->h, UNETMM_C_rx_bytes);
    const UnetmmRel *rel = f->h.core.eps[1].rels;
    unsigned ends = 0;

    for (unsigned i = 1; i <= s->sends; i++) {
        ends += told->sent[i];
    }
    assert_true(f->h.core.eps[1].error || ends == s->sends);
    if (s->datagrams) {
        assert_int_equal(told->received + drops(&f->h), s->datagrams);
        assert_int_equal(fake_counter(&f->h, UNETMM_C_rx_frames),
                         told->received);
    }
    bytes -= WRITE_BYTES * fake_counter(&f->h, UNETMM_C_rel_writes);
    if (s->begin != open_redirecting) {
        assert_int_equal(bytes == s->bytes, told->received == s->received);
    }
    assert_int_equal(fake_counter(&f->h, UNETMM_C_bufs_skipped) +
                     fake_counter(&f->h, UNETMM_C_bufs_failed),
                     told->returned);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_notifies),
                     told->notified);
    if (s->packets && rel && rel->state == UNETMM_REL_OPEN && !rel->rx.why &&
        !f->h.core.eps[1].error) {
        assert_int_equal(rel->rx.nxt - PEER_YOURS, s->packets);
    }
}

/* The bus has refused nothing. */
static void check_well(const Scene *s, const Told *told)
{
    assert_int_equal(told->ok, s->ok);
    assert_int_equal(told->received, s->received);
    assert_int_equal(told->returned, s->returned);
    assert_int_equal(told->notified, s->notified);
    assert_int_equal(told->closed, s->closed);
}

/* False: the scene has fewer accesses. */
static bool refuse_in(const Scene *s, uint64_t number)
{
    void *state = s->slow ? slow : NULL;
    Told told = { 0 };
    bool met;
    Fix *f;

    fix_setup(&state);
    f = state;
    open_source(f, s->source);
    s->begin(f);
    bus_begin(&f->h, &f->d, number);
    s->play(f, &told);
    settle(&f->h, &f->d, &f->a, &told);
    check_card(&f->h, &f->a, &told);
    check_scene(f, s, &told);
    met = bus.met;
    if (!met) {
        check_well(s, &told);
        assert_int_equal(fake_counter(&f->h, UNETMM_C_sysbuf_packets) != 0,
                         s->begin == open_redirecting);
    }
    check_rest(f);
    fix_teardown(&state);
    return met;
}

TEST(test_scenes, cmocka_unit_test)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(scenes); i++) {
        uint64_t n = 1;

        while (refuse_in(&scenes[i], n)) {
            n++;
        }
        assert_true(n > 20);
        print_message("# %s: %" PRIu64 " accesses\n", scenes[i].name, n - 1);
    }
}

/* ---- Slots --------------------------------------------------------------- */

/* The driver copies packets of the backup ring, unless nobody wants them. */
static void serve_backups(Slots *t)
{
    fake_serve(&t->d);
    while (t->d.backups->len) {
        struct unetmm_fault f = g_array_index(t->d.backups,
                                              struct unetmm_fault, 0);
        struct unetmm_fqe fqe = fake_fqe(&t->e, f.vaddr);
        bool over = t->h.core.eps[1].error;
        uint8_t status;

        g_array_remove_index(t->d.backups, 0);
        status = fake_backup_done(&t->d, &f, UNETMM_ST_OK, fqe.cookie);
        if (!over && !t->h.core.eps[1].error) {
            assert_int_equal(status, UNETMM_CS_OK);
        }
    }
}

static void give_slot(Slots *t, Told *told, uint32_t len, uint32_t n)
{
    slots_give(t, len, n);
    fake_advance(&t->h, 3 * PAGE_NS);
    take_completions(&t->e, told);
}

/*
 * The first buffer is none, the second is there, the third is not, so that the
 * fourth and the fifth wait for it: the fifth goes back, too.
 */
static void play_slots(Slots *t, Told *told)
{
    uint32_t posted;

    for (unsigned i = 1; i <= 8; i++) {
        fake_post(&t->e, SLOTS_PAGE(i), i == 1 || i == 5 ? 0 : SLOTS_LEN, i);
    }
    fake_ring_bell(&t->e);
    if (t->e.backup) {
        uint8_t status = fake_tail_arm(&t->e, 7, true, &posted);

        assert_int_equal(status, t->h.core.eps[1].error ? UNETMM_CS_BAD_ID :
                         UNETMM_CS_OK);
    }
    give_slot(t, told, 100, 1);
    give_slot(t, told, 200, 2);
    give_slot(t, told, 300, 3);
    give_slot(t, told, 400, 4);
    for (unsigned i = 0; i < 4; i++) {
        serve_backups(t);
        take_completions(&t->e, told);
    }
}

#define SLOT_FRAMES 4

static bool refuse_in_slots(uint16_t bits, bool is_slow, uint64_t number)
{
    Told told = { 0 };
    void *state;
    Slots *t;
    bool met;

    slots_setup(&state);
    t = state;
    t->p.dma_page_ns = is_slow ? PAGE_NS : 0;
    slots_open(t, UNETMM_SOURCE_ODP, bits);
    if (bits) {
        fake_buffers(&t->d, 3, 2048);
    }
    slots_present(t, 2, 1);
    slots_present(t, 4, 5);
    bus_begin(&t->h, &t->d, number);
    play_slots(t, &told);
    settle(&t->h, &t->d, &t->e, &told);
    serve_backups(t);
    take_completions(&t->e, &told);
    check_card(&t->h, &t->e, &told);
    if (bits) {
        uint64_t landed = fake_counter(&t->h, UNETMM_C_rx_frames);

        /* Packets behind one in the ring may never be shown. */
        assert_int_equal(landed + drops(&t->h), SLOT_FRAMES);
        assert_true(t->h.core.eps[1].error ? told.received <= landed :
                    told.received == landed);
    } else {
        assert_int_equal(fake_counter(&t->h, UNETMM_C_bufs_failed),
                         told.returned);
    }
    if (!bus.met) {
        assert_int_equal(told.received, bits ? SLOT_FRAMES : 1);
        assert_int_equal(fake_counter(&t->h, UNETMM_C_bufs_failed),
                         bits ? 2 : 1);
    }
    met = bus.met;
    t->h.may_access = NULL;
    fake_migrate(&t->h);
    assert_int_equal(fake_ep_destroy(&t->e), UNETMM_CS_OK);
    fake_check_counts(&t->h.core);
    fake_check_reset(&t->h);
    slots_teardown(&state);
    return met;
}

TEST(test_slots, cmocka_unit_test)
{
    for (unsigned i = 0; i < 4; i++) {
        uint64_t n = 1;

        while (refuse_in_slots(i & 2 ? 6 : 0, i & 1, n)) {
            n++;
        }
        assert_true(n > 15);
        print_message("# slots, %s: %" PRIu64 " accesses\n",
                      i & 2 ? "backup" : "raw", n - 1);
    }
}
