/*
 * unetmm: the recorder of the figures in docs/concepts.rst
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "scenes/stage.h"

#define ROUNDS  1000                    /* of a scene, at most */
#define RETRIES 3

extern int unetmm_trace;                /* the cards' events go to stderr */

static const StageSide *speaker;        /* of the last line */

static const uint8_t macs[2][6] = {
    { 0x52, 0x54, 0x00, 0x4d, 0x4d, 0x01 },
    { 0x52, 0x54, 0x00, 0x4d, 0x4d, 0x02 },
};

/* The next events are of this side. */
static void at(const StageSide *s)
{
    if (unetmm_trace && speaker != s) {
        speaker = s;
        fprintf(stderr, "side %c\n", s->ep.id == 1 ? 'a' : 'b');
    }
}

void stage_say(StageSide *s, const char *format, ...)
{
    va_list more;

    if (!unetmm_trace) {
        return;
    }
    at(s);
    va_start(more, format);
    vfprintf(stderr, format, more);
    va_end(more);
    fputc('\n', stderr);
}

/* ---- Accesses of the card ------------------------------------------------ */

/* The page with this byte (entry false), or whose entry of level 0 this is. */
static const FakeVpage *find_page(const StageSide *s, uint64_t addr, bool entry)
{
    GHashTableIter iter;
    FakeVpage *page = NULL;

    g_hash_table_iter_init(&iter, s->s->pages);
    while (g_hash_table_iter_next(&iter, NULL, (void **)&page)) {
        if (entry ? fake_table_at(s->s, page->vpn << 12) == addr :
            addr - page->dma < FAKE_PAGE) {
            return page;
        }
    }
    return NULL;
}

static void tell_access(FakeHost *host, const char *kind, uint64_t addr,
                        size_t bytes)
{
    StageSide *s = container_of(host, StageSide, h);
    const FakeVpage *page = unetmm_trace ? find_page(s, addr, false) : NULL;

    if (page) {
        stage_say(s, "%s vaddr 0x%" PRIx64 " bytes %zu", kind,
                  (page->vpn << 12) + (addr - page->dma), bytes);
    }
}

static void on_read(FakeHost *host, uint64_t addr, size_t bytes)
{
    tell_access(host, "memory_read", addr, bytes);
}

/* Is it a record of the fault ring? */
static void tell_record(StageSide *s, uint64_t addr)
{
    const FakeRing *r = &s->d.ring[UNETMM_RING_FAULT];
    struct unetmm_fault f;

    if (unetmm_trace && addr - r->base < (uint64_t)r->entry_bytes << r->log2) {
        fake_read(&s->h, addr, &f, sizeof(f));
        unetmm_le_fault(&f);
        stage_say(s, "fault_record type %u vaddr 0x%" PRIx64
                  " npages %u flags 0x%x", f.type, f.vaddr, f.npages, f.flags);
    }
}

/* Is it the data of a slot of the system buffer, or a backup buffer? */
static void tell_aside(StageSide *s, uint64_t addr, size_t bytes)
{
    for (unsigned i = 0; i < s->d.slots->len; i++) {
        if (addr == g_array_index(s->d.slots, uint64_t, i) + UNETMM_SLOT_HEAD) {
            stage_say(s, "aside_write slot %u bytes %zu", i, bytes);
        }
    }
    for (unsigned i = 0; i < s->d.buffers->len; i++) {
        if (addr == g_array_index(s->d.buffers, FakeBuffer, i).addr) {
            stage_say(s, "aside_write backup %u bytes %zu", i, bytes);
        }
    }
}

static void on_write(FakeHost *host, uint64_t addr, size_t bytes)
{
    StageSide *s = container_of(host, StageSide, h);

    tell_access(host, "memory_write", addr, bytes);
    tell_record(s, addr);
    tell_aside(s, addr, bytes);
}

/* Before the access: an entry without a lock is locked by it. */
static void on_atomic(FakeHost *host, uint64_t addr)
{
    StageSide *s = container_of(host, StageSide, h);
    const FakeVpage *page = unetmm_trace ? find_page(s, addr, true) : NULL;

    if (page) {
        uint64_t pte = fake_table_get(s->s, page->vpn << 12);

        stage_say(s, "%s vaddr 0x%" PRIx64, pte & UNETMM_PTE_LOCKS ?
                  "entry_unlock" : "entry_lock", page->vpn << 12);
    }
}

/* ---- Making -------------------------------------------------------------- */

static void side_init(StageSide *s, unsigned n, const StageHow *how)
{
    bool tables = how->source != UNETMM_SOURCE_TLB;
    UnetmmParams p;

    fake_params(&p);
    memcpy(p.mac, macs[n], 6);
    p.tlb_sets = how->tlb_sets ?: p.tlb_sets;
    p.tlb_victims = how->tlb_sets ? how->tlb_victims : p.tlb_victims;
    fake_host_init(&s->h, &p);
    fake_driver_init(&s->d, &s->h);
    fake_driver_start(&s->d);
    s->gives = how->gives;
    s->s = fake_space(&s->d, 1, how->source, tables ? 4 : 0);
    fake_ep_init(&s->ep, &s->d, 1 + n, s->s);
    s->ep.policy = how->policy;
    s->ep.backup = how->backup;
    if (how->policy == UNETMM_POLICY_REDIRECT) {
        assert_int_equal(fake_sysbuf(&s->d, 4, p.user_mtu), UNETMM_CS_OK);
    }
    fake_ep_create(&s->ep);
    s->h.on_read = on_read;
    s->h.on_write = on_write;
    if (how->source == UNETMM_SOURCE_SHADOW) {
        s->h.on_atomic = on_atomic;
    }
}

void stage_init(Stage *st, const StageHow *a, const StageHow *b)
{
    memset(st, 0, sizeof(*st));
    st->sides = b ? 2 : 1;
    side_init(&st->side[0], 0, a);
    if (b) {
        side_init(&st->side[1], 1, b);
    } else {
        fake_connect_peer(&st->side[0].ep, STAGE_CHANNEL, 2, 9000);
    }
}

void stage_free(Stage *st)
{
    for (unsigned i = 0; i < st->sides; i++) {
        fake_check_counts(&st->side[i].h.core);
        fake_driver_free(&st->side[i].d);
        fake_host_free(&st->side[i].h);
    }
}

void stage_join(Stage *st, uint32_t credits)
{
    for (unsigned i = 0; i < 2; i++) {
        const struct unetmm_cmd_channel how = {
            .mtu = 9000, .retries = RETRIES, .timeout_us = 1000,
            .not_ready_retries = RETRIES, .recv_credits = i ? 0 : credits,
            .send_credits = i ? credits : 0,
        };

        assert_int_equal(fake_channel_rel(&st->side[i].ep, STAGE_CHANNEL,
                                          macs[!i], 2 - i, STAGE_CHANNEL, &how),
                         UNETMM_CS_OK);
    }
}

void stage_record(Stage *st, const char *scene)
{
    for (unsigned i = 0; i < st->sides; i++) {
        fake_wire_clear(&st->side[i].h);
    }
    speaker = NULL;
    unetmm_trace = 1;
    fprintf(stderr, "scene %s\n", scene);
}

void stage_cut(Stage *st)
{
    unetmm_trace = 0;
}

/* ---- Acting -------------------------------------------------------------- */

void stage_ring(StageSide *s)
{
    at(s);
    fake_ring_bell(&s->ep);
}

/* A frame comes to side s. */
static void arrive(StageSide *s, const FakeFrame *frame)
{
    struct unetmm_frame h;

    memcpy(&h, frame->data, sizeof(h));
    unetmm_le_frame(&h);
    stage_say(s, "wire opcode %u psn %u flags 0x%x imm %u len %u", h.opcode,
              h.psn, h.flags, h.imm, h.len);
    assert_true(fake_receive(&s->h, frame));
}

void stage_arrive(StageSide *s, uint32_t len, uint32_t n)
{
    g_autofree FakeFrame *frame = fake_datagram(&s->ep, STAGE_CHANNEL, 2, len,
                                                n);

    arrive(s, frame);
}

/* The oldest frame of side i gets to the other side. */
static bool fly(Stage *st, unsigned i)
{
    FakeHost *h = &st->side[i].h;
    FakeFrame *frame;

    if (!h->wire->len) {
        return false;
    }
    frame = g_ptr_array_steal_index(h->wire, 0);
    if (st->sides == 2) {
        arrive(&st->side[!i], frame);
    }
    g_free(frame);
    return true;
}

static void serve_miss(StageSide *s, const struct unetmm_fault *f)
{
    if (fake_vpage(s->s, f->vaddr)->absent) {
        stage_say(s, "driver_wait vaddr 0x%" PRIx64, f->vaddr);
        assert_int_equal(fake_reply(&s->d, f, UNETMM_REPLY_DEFERRED, 0),
                         UNETMM_CS_OK);
        return;
    }
    stage_say(s, "driver_%s vaddr 0x%" PRIx64 " npages %u", s->gives, f->vaddr,
              f->npages);
    assert_int_equal(fake_resolve(&s->d, f, f->npages, NULL), UNETMM_CS_OK);
}

/* The driver's look into the ring is not recorded. */
static bool next_fault(StageSide *s, struct unetmm_fault *f)
{
    int trace = unetmm_trace;
    bool found;

    unetmm_trace = 0;
    found = fake_fault(&s->d, f);
    unetmm_trace = trace;
    return found;
}

/* One action of the driver.  False: there is nothing to do. */
static bool serve(StageSide *s)
{
    struct unetmm_fault f;

    if (next_fault(s, &f)) {
        if (f.type == UNETMM_FAULT_MISS) {
            serve_miss(s, &f);
        } else if (f.type == UNETMM_FAULT_EVICT) {
            assert_int_equal(fake_vpage(s->s, f.vaddr)->pins, 0);
            stage_say(s, "driver_unpin vaddr 0x%" PRIx64, f.vaddr);
        }
        return true;
    }
    if (s->d.full->len) {
        stage_say(s, "driver_copy slot %u",
                  g_array_index(s->d.full, uint32_t, 0));
        fake_slot_serve(&s->d, 0);
        return true;
    }
    if (s->d.backups->len) {
        stage_say(s, "driver_copy backup %u",
                  g_array_index(s->d.backups, struct unetmm_fault, 0).fault_id);
        fake_backup_serve(&s->d, 0);
        return true;
    }
    return false;
}

/* The clock moves to the next timer. */
static bool pass(Stage *st)
{
    int64_t next = INT64_MAX;

    for (unsigned i = 0; i < st->sides; i++) {
        next = MIN(next, st->side[i].h.timer);
    }
    for (unsigned i = 0; i < st->sides && next != INT64_MAX; i++) {
        if (st->side[i].h.timer == next) {
            at(&st->side[i]);
        }
        fake_advance(&st->side[i].h, next - st->side[i].h.now);
    }
    return next != INT64_MAX;
}

void stage_run(Stage *st)
{
    for (unsigned rounds = 0; ; rounds++) {
        bool moved = false;

        assert_true(rounds < ROUNDS);
        for (unsigned i = 0; i < st->sides && !moved; i++) {
            moved = fly(st, i);
        }
        for (unsigned i = 0; i < st->sides && !moved; i++) {
            if (st->side[i].h.later) {
                at(&st->side[i]);
                moved = fake_run_later(&st->side[i].h);
            }
        }
        for (unsigned i = 0; i < st->sides && !moved; i++) {
            moved = serve(&st->side[i]);
        }
        if (!moved && !pass(st)) {
            return;
        }
    }
}
