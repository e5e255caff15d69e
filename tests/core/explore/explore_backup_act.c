/*
 * unetmm: exhaustive exploration of the backup ring: one world
 *
 * Each action is done to the card, by its registers, rings and frames, and to
 * the reference; then completions with their data, indices, records with their
 * data, notifications and counters of drops must be those of the reference,
 * and the card's own words, too.  To the paper's rules come those of the
 * card: a place in the completion queue for each that waits, and no packet is
 * put into the ring that cannot be reported.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "explore_backup.h"

enum {
    ACT_RECEIVE, ACT_POST, ACT_REPLENISH, ACT_READ, ACT_TAKE, ACT_ARM,
    ACT_LAND,
    ACT_GO,                             /* and the other pages */
    ACT_COME = ACT_GO + XB_PAGES,
    ACT_RESOLVE = ACT_COME + XB_PAGES,
    ACT_FAIL = ACT_RESOLVE + XB_BUFFERS,
    ACT_END = ACT_FAIL + XB_BUFFERS,
};

const char *const xb_actions[] = {
    "r", "p", "f", "i", "t", "a", "l", "g0", "g1", "g2", "g3", "b0", "b1",
    "b2", "b3", "s0", "s1", "s2", "s3", "e0", "e1", "e2", "e3",
};
const unsigned xb_actions_n = G_N_ELEMENTS(xb_actions);
G_STATIC_ASSERT(G_N_ELEMENTS(xb_actions) == ACT_END);

/* ---- The world ---- */

static uint64_t page_va(const XbWorld *w, uint32_t slot)
{
    return XB_VA + slot % w->st.ref.size * FAKE_PAGE;
}

static uint32_t packet_len(uint32_t packet)
{
    return 5 + packet * 7 % 50;
}

static uint32_t cq_depth(const XbWorld *w)
{
    return 1u << w->e.cq_log2;
}

static void set_present(XbWorld *w, uint32_t page, bool present)
{
    uint64_t va = XB_VA + page * FAKE_PAGE;

    w->st.present[page] = present;
    fake_rights(&w->h, w->pages[page], XB_BYTES, present ? FAKE_RW : 0);
    fake_table_set(w->s, va, present ? fake_pte(fake_vpage(w->s, va)) : 0);
    if (!present) {
        xb_must(!fake_invalidate(w->s, va, 1), "the card is busy with a page");
    }
}

static void give_buffer(XbWorld *w, uint8_t buffer)
{
    XbState *st = &w->st;

    fake_rights(&w->h, w->buffers[buffer], XB_BYTES, FAKE_W);
    fake_buffer_at(&w->d, w->buffers[buffer], XB_BYTES, 0);
    st->ring[st->nring++] = buffer;
    st->pool &= ~(1u << buffer);
}

static void tune(UnetmmParams *p, const XbScene *scene)
{
    fake_params(p);
    p->endpoints = p->spaces = 2;
    p->channels = 1;
    p->tlb_sets = p->tlb_victims = 1;
    p->reliable = p->reliable_keep = 0;
    p->window_pages = p->proxy_pages = p->sysbuf_slots = 0;
    p->window_queue = 1;
    p->regions = p->imports = p->flows = 0;
    p->backup_bits = scene->bits;
    p->dma_page_ns = scene->slow ? XB_PAGE_NS : 0;
}

void xb_make(XbWorld *w, const XbScene *scene)
{
    UnetmmParams p;

    memset(w, 0, sizeof(*w));
    w->scene = scene;
    tune(&p, scene);
    fake_host_init(&w->h, &p);
    fake_driver_init(&w->d, &w->h);
    for (unsigned i = 0; i < UNETMM_NUM_RINGS; i++) {
        w->d.ring[i].log2 = 2;
    }
    w->d.ring[UNETMM_RING_FAULT].log2 = scene->lazy_driver ? 1 : 4;
    w->d.watch = false;
    fake_driver_start(&w->d);
    w->s = fake_space(&w->d, 1, UNETMM_SOURCE_ODP, 1);
    ref_init(&w->st.ref, 1u << scene->size_log2, scene->bits);
    fake_map(w->s, XB_VA, w->st.ref.size * FAKE_PAGE, FAKE_RW);
    fake_ep_init(&w->e, &w->d, 1, w->s);
    w->e.sq_log2 = 1;
    w->e.fq_log2 = scene->size_log2;
    w->e.cq_log2 = scene->lazy_process ? 1 : 4;
    w->e.policy = UNETMM_POLICY_BACKUP;
    w->e.backup = scene->bits;
    fake_ep_create(&w->e);
    fake_connect_peer(&w->e, 0, 11, 1000);
    for (unsigned i = 0; i < w->st.ref.size; i++) {
        w->pages[i] = fake_vpage(w->s, XB_VA + i * FAKE_PAGE)->dma;
        set_present(w, i, false);
    }
    for (unsigned i = 0; i < scene->buffers; i++) {
        w->buffers[i] = fake_alloc(&w->h, XB_BYTES, 64, 0);
        give_buffer(w, i);
    }
}

void xb_free(XbWorld *w)
{
    fake_driver_free(&w->d);
    fake_host_free(&w->h);
}

/* ---- Observations ---- */

static void check_data(XbWorld *w, uint64_t dma, uint32_t packet,
                       const char *where)
{
    const uint8_t *data = fake_ptr(&w->h, dma, XB_BYTES);

    for (uint32_t i = 0; i < packet_len(packet); i++) {
        xb_must(data[i] == fake_pattern(packet, i),
                "packet %u is not in its %s", packet, where);
    }
}

static void take(XbWorld *w)
{
    uint32_t slot = w->st.taken;
    uint32_t at = slot % REF_SLOTS;
    const Ref *r = &w->st.ref;
    bool failed = r->failed[at];
    struct unetmm_cqe cqe;

    xb_must(fake_poll(&w->e, &cqe), "slot %u is not shown", slot);
    xb_must(cqe.cookie == 0x100 + slot, "the completion is of another slot");
    xb_must(cqe.opcode == (failed ? UNETMM_CQE_BUFFER : UNETMM_CQE_RECEIVED) &&
            cqe.status == (failed ? UNETMM_ST_LIMIT : UNETMM_ST_OK),
            "slot %u: opcode %u, status %u", slot, cqe.opcode, cqe.status);
    if (!failed) {
        xb_must(cqe.len == packet_len(r->packet[at]),
                "slot %u has another packet than %u", slot, r->packet[at]);
        check_data(w, w->pages[slot % r->size], r->packet[at], "buffer");
    }
    w->st.taken++;
}

/* Records that the reference has made must be there, and no others. */
static void read_records(XbWorld *w)
{
    XbState *st = &w->st;
    struct unetmm_fault f;

    while (fake_next(&w->d, UNETMM_RING_FAULT, &f)) {
        const XbRecord *x = &st->records[st->nread];

        unetmm_le_fault(&f);
        fake_taken(&w->d, UNETMM_RING_FAULT);
        xb_must(f.type == UNETMM_FAULT_BACKUP, "a record of type %u", f.type);
        xb_must(st->nread < st->nrecords, "a record of nothing");
        xb_must(f.ep == 1 && f.space == 1 && f.vaddr == x->slot &&
                f.tag == x->bit && f.fault_id == x->index &&
                f.npages == packet_len(x->packet),
                "a record of slot %u, bit %u, %u bytes",
                (unsigned)f.vaddr, f.tag, f.npages);
        check_data(w, w->buffers[x->buffer], x->packet, "backup buffer");
        st->nread++;
    }
    xb_must(st->nread == st->nrecords, "a record is missing");
}

static void check_told(XbWorld *w)
{
    struct unetmm_notify n;
    bool told = fake_notification(&w->d, &n);

    xb_must(told == w->st.told, told ? "told of the tail for nothing" :
            "not told of the tail");
    if (told) {
        xb_must(n.type == UNETMM_NOTIFY_TAIL && n.data == w->st.armed_slot,
                "told of slot %u", n.data);
    }
    w->st.told = false;
}

static void check_drops(XbWorld *w)
{
    const XbState *st = &w->st;

    xb_must(fake_counter(&w->h, UNETMM_C_drop_backup_bits) == st->no_bit &&
            fake_counter(&w->h, UNETMM_C_drop_backup_ring) == st->no_buffer &&
            fake_counter(&w->h, UNETMM_C_drop_backup_report) ==
            st->no_report &&
            fake_counter(&w->h, UNETMM_C_drop_cq_full) == st->no_place,
            "drops are counted otherwise");
}

/* The card's own words for where it is. */
static void check_inside(XbWorld *w)
{
    const UnetmmEp *ep = &w->h.core.eps[1];
    const XbState *st = &w->st;
    const Ref *r = &st->ref;

    xb_must(!ep->error, "the endpoint has been stopped");
    xb_must(ep->fq_cons == r->head && ep->head_offset == r->head_offset,
            "head %u and %u, not %u and %u", ep->fq_cons, ep->head_offset,
            r->head, r->head_offset);
    xb_must(ep->bm_index == r->bm_index, "bm_index %u", ep->bm_index);
    for (uint32_t i = 0; i < r->bm_size; i++) {
        unsigned of = 0;

        for (unsigned j = 0; j < st->nrecords; j++) {
            of += st->records[j].bit == i;
        }
        xb_must((ep->bitmap[0] >> i & 1) == r->bitmap[i],
                "bit %u is another", i);
        xb_must(of == r->bitmap[i], "bit %u is of %u packets", i, of);
    }
    for (unsigned j = 0; j < st->nrecords; j++) {
        xb_must((int32_t)(st->records[j].slot - r->head) >= 0,
                "slot %u is shown, and its packet in the ring",
                st->records[j].slot);
    }
}

static void check(XbWorld *w)
{
    struct unetmm_ep_card card;
    struct unetmm_cqe cqe;

    if (!w->scene->lazy_driver) {
        read_records(w);
    }
    card = fake_card(&w->e);
    xb_must(card.fq_cons == w->st.ref.head && card.cq_prod == w->st.ref.head,
            "%u slots and %u completions are shown, not %u", card.fq_cons,
            card.cq_prod, w->st.ref.head);
    while (!w->scene->lazy_process && w->st.taken != w->st.ref.head) {
        take(w);
    }
    if (w->st.taken == w->st.ref.head) {
        xb_must(!fake_poll(&w->e, &cqe), "something is shown too early");
    }
    check_told(w);
    check_drops(w);
    check_inside(w);
}

/* ---- Actions ---- */

/* The card has looked at the tail. */
static void looked(XbWorld *w)
{
    XbState *st = &w->st;

    if (st->armed && (int32_t)(st->ref.tail - st->armed_slot) > 0) {
        st->armed = false;
        st->told = true;
    }
}

/* The reference's part of the ring's packets. */
static void ref_arrives(XbWorld *w)
{
    XbState *st = &w->st;
    Ref *r = &st->ref;
    uint32_t slot = ref_target(r), bit;
    bool report = !w->scene->lazy_driver || st->nrecords - st->nread < 2;

    switch (ref_receive(r, st->packets, st->present[slot % r->size],
                        st->nring && report, &bit)) {
    case REF_STORED:
        break;
    case REF_BACKED_UP:
        st->records[st->nrecords++] = (XbRecord) {
            .slot = slot, .bit = bit, .packet = st->packets,
            .buffer = st->ring[0], .index = st->used,
        };
        fake_rights(&w->h, w->buffers[st->ring[0]], XB_BYTES, 0);
        memmove(st->ring, st->ring + 1, --st->nring);
        st->used++;
        break;
    default:
        st->no_bit += r->head_offset >= r->bm_size;
        st->no_buffer += r->head_offset < r->bm_size && !st->nring;
        st->no_report += r->head_offset < r->bm_size && st->nring;
    }
}

static void do_receive(XbWorld *w)
{
    XbState *st = &w->st;
    Ref *r = &st->ref;
    uint32_t room = cq_depth(w) - (r->head - st->taken);

    st->packets++;
    fake_deliver(&w->h, fake_datagram(&w->e, 0, 11, packet_len(st->packets),
                                      st->packets));
    looked(w);
    if (room <= r->head_offset) {
        st->no_place++;
    } else if (w->scene->slow && ref_has_target(r) &&
               st->present[ref_target(r) % r->size]) {
        st->flying = true;
    } else {
        ref_arrives(w);
    }
}

static void do_land(XbWorld *w)
{
    fake_advance(&w->h, XB_PAGE_NS);
    w->st.flying = false;
    ref_arrives(w);
}

/* As the process does it: it looks whether somebody waits for this. */
static void do_post(XbWorld *w)
{
    uint32_t slot = w->st.ref.tail;

    fake_post(&w->e, page_va(w, slot), XB_BYTES, 0x100 + slot);
    ref_post(&w->st.ref);
    if (fake_card(&w->e).state & UNETMM_EP_FQ_AWAITED) {
        fake_ring_bell(&w->e);
        looked(w);
    }
}

static void do_arm(XbWorld *w)
{
    uint32_t result;

    xb_must(fake_tail_arm(&w->e, w->st.ref.tail, true, &result) ==
            UNETMM_CS_OK && !result, "the tail cannot be armed");
    w->st.armed = true;
    w->st.armed_slot = w->st.ref.tail;
}

static void do_resolve(XbWorld *w, unsigned n, bool fail)
{
    XbState *st = &w->st;
    XbRecord x = st->records[n];
    uint32_t page = x.slot % st->ref.size;
    struct unetmm_fault f = { .ep = 1, .vaddr = x.slot, .tag = x.bit };

    if (!fail) {
        if (!st->present[page]) {
            set_present(w, page, true);
        }
        fake_write(&w->h, w->pages[page], fake_ptr(&w->h, w->buffers[x.buffer],
                   XB_BYTES), packet_len(x.packet));
    }
    memmove(&st->records[n], &st->records[n + 1],
            (--st->nrecords - n) * sizeof(x));
    st->nread--;
    st->pool |= 1u << x.buffer;
    xb_must(fake_backup_done(&w->d, &f, fail ? UNETMM_ST_LIMIT : 0,
                             0x100 + x.slot) == UNETMM_CS_OK,
            "an answer for slot %u is refused", x.slot);
    ref_resolve(&st->ref, x.slot, x.bit, fail);
    looked(w);
}

static bool may_resolve(const XbWorld *w, unsigned n)
{
    const XbState *st = &w->st;

    return n < st->nread &&
           (int32_t)(st->ref.tail - st->records[n].slot) > 0;
}

bool xb_may(const XbWorld *w, unsigned action)
{
    const XbState *st = &w->st;
    uint32_t size = st->ref.size;

    switch (action) {
    case ACT_RECEIVE:
        return !st->flying;
    case ACT_POST:
        /* A shown packet is taken from its buffer first. */
        return ref_may_post(&st->ref) && st->ref.tail - st->taken < size;
    case ACT_REPLENISH:
        return st->pool;
    case ACT_READ:
        return w->scene->lazy_driver && st->nread < st->nrecords;
    case ACT_TAKE:
        return w->scene->lazy_process && st->taken != st->ref.head;
    case ACT_ARM:
        return w->scene->tail && !st->armed;
    case ACT_LAND:
        return st->flying;
    default:
        break;
    }
    if (action < ACT_COME) {
        action -= ACT_GO;
        /* A page that moves makes the driver wait. */
        return action < size && st->present[action] &&
               !(st->flying && ref_target(&st->ref) % size == action);
    }
    if (action < ACT_RESOLVE) {
        return action - ACT_COME < size && !st->present[action - ACT_COME];
    }
    if (action < ACT_FAIL) {
        return may_resolve(w, action - ACT_RESOLVE);
    }
    return w->scene->failures && may_resolve(w, action - ACT_FAIL);
}

void xb_do(XbWorld *w, unsigned action)
{
    switch (action) {
    case ACT_RECEIVE:
        do_receive(w);
        break;
    case ACT_POST:
        do_post(w);
        break;
    case ACT_REPLENISH:
        give_buffer(w, __builtin_ctz(w->st.pool));
        break;
    case ACT_READ:
        read_records(w);
        break;
    case ACT_TAKE:
        take(w);
        break;
    case ACT_ARM:
        do_arm(w);
        break;
    case ACT_LAND:
        do_land(w);
        break;
    default:
        if (action < ACT_COME) {
            set_present(w, action - ACT_GO, false);
        } else if (action < ACT_RESOLVE) {
            set_present(w, action - ACT_COME, true);
        } else if (action < ACT_FAIL) {
            do_resolve(w, action - ACT_RESOLVE, false);
        } else {
            do_resolve(w, action - ACT_FAIL, true);
        }
    }
    check(w);
}

/* ---- Forged answers, and the end ---- */

static bool is_answer(const XbWorld *w, uint32_t slot, uint32_t bit)
{
    const XbState *st = &w->st;

    for (unsigned i = 0; i < st->nrecords; i++) {
        if (st->records[i].slot == slot && st->records[i].bit == bit) {
            return (int32_t)(st->ref.tail - slot) > 0;
        }
    }
    return false;
}

void xb_forge(XbWorld *w)
{
    const Ref *r = &w->st.ref;

    for (uint32_t slot = r->head - 1; slot != ref_target(r) + 2; slot++) {
        for (uint32_t bit = 0; bit <= r->bm_size; bit++) {
            struct unetmm_fault f = { .ep = 1, .vaddr = slot, .tag = bit };

            if (!is_answer(w, slot, bit)) {
                xb_must(fake_backup_done(&w->d, &f, 0, 1) ==
                        UNETMM_CS_BAD_ARG, "slot %u, bit %u is answered for "
                        "nothing", slot, bit);
                looked(w);
            }
        }
    }
    check(w);
}

void xb_settle(XbWorld *w)
{
    const XbState *st = &w->st;

    if (st->flying) {
        xb_do(w, ACT_LAND);
    }
    for (unsigned i = 0; st->ref.head_offset; i++) {
        xb_must(i < 1000, "it comes to no end");
        if (xb_may(w, ACT_READ)) {
            xb_do(w, ACT_READ);
        }
        while (xb_may(w, ACT_TAKE)) {
            xb_do(w, ACT_TAKE);
        }
        if (xb_may(w, ACT_POST)) {
            xb_do(w, ACT_POST);
        }
        for (unsigned n = st->nread; n-- > 0;) {
            if (may_resolve(w, n)) {
                do_resolve(w, n, false);
                check(w);
            }
        }
    }
    xb_must(!st->nrecords, "a packet is in the ring for ever");
}

/* ---- Which are the same ---- */

static void mix(uint64_t *hash, uint64_t v)
{
    *hash = (*hash ^ v) * 0x9e3779b97f4a7c15ull;
    *hash ^= *hash >> 29;
}

/*
 * Packets have no names here, and numbers count from the head on; but for where
 * the rings of the card begin.  So there is an end to the states although there
 * is none to the packets.
 */
uint64_t xb_hash(const XbWorld *w)
{
    const UnetmmEp *ep = &w->h.core.eps[1];
    const XbState *st = &w->st;
    const Ref *r = &st->ref;
    uint64_t hash = 1;

    mix(&hash, r->head & ep->taken_mask);
    mix(&hash, r->tail - r->head);
    mix(&hash, r->head_offset);
    mix(&hash, r->bm_index);
    mix(&hash, r->head - st->taken);
    for (uint32_t i = 0; i < r->head_offset; i++) {
        mix(&hash, r->failed[(r->head + i) % REF_SLOTS]);
    }
    for (uint32_t i = 0; i < r->size; i++) {
        mix(&hash, st->present[i]);
    }
    for (unsigned i = 0; i < st->nrecords; i++) {
        mix(&hash, st->records[i].slot - r->head);
        mix(&hash, st->records[i].bit);
    }
    mix(&hash, st->nread);
    mix(&hash, st->nrecords);
    mix(&hash, st->nring);
    mix(&hash, __builtin_popcount(st->pool));
    mix(&hash, st->flying);
    mix(&hash, st->armed ? 1 + st->armed_slot - r->head : 0);
    return hash;
}
