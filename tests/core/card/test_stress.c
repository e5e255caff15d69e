/*
 * unetmm: everything at once, with hostile processes, peers and drivers
 *
 * Random, but bounded and repeatable: UNETMM_SEED chooses the run.  Strays fail
 * at the access (fake_host.h); the sanitizers see the rest.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fixture.h"

#define PAGE(n) (FIX_VA + (uint64_t)(n) * FAKE_PAGE)
#define STEPS 6000
#define HOSTILE 4               /* endpoints 1..4; 5 and 6 are innocent */
#define BACKUP  1               /* of the hostile: has policy backup */
#define RAW     HOSTILE         /* one more of them, endpoint 7, is raw */

typedef struct Stress {
    Fix *f;
    uint64_t random;
    FakeEp ep[HOSTILE + 1];
    FakeEp c, d;                /* innocent: c sends to d, on the card */
    unsigned sent, completed, received, posted;
    uint32_t lens[64];
} Stress;

static uint32_t rnd(Stress *s, uint32_t n)
{
    return fake_random(&s->random) % n;
}

static uint64_t rnd64(Stress *s)
{
    return (uint64_t)fake_random(&s->random) << 33 ^
           (uint64_t)fake_random(&s->random) << 15 ^ fake_random(&s->random);
}

/* Mostly where something is, at times anywhere. */
static uint64_t rnd_va(Stress *s)
{
    switch (rnd(s, 8)) {
    case 0:
        return rnd64(s);
    case 1:
        return -(uint64_t)rnd(s, 20000);
    default:
        return FIX_VA + rnd(s, FIX_PAGES * FAKE_PAGE);
    }
}

static uint32_t rnd_len(Stress *s)
{
    static const uint32_t odd[] = { 0, 1, 40, 41, 4095, 4096, 4097, 65536,
                                    65537, 0x7fffffff, 0x80000000,
                                    0xffffffff };

    return rnd(s, 3) ? rnd(s, 12000) : odd[rnd(s, G_N_ELEMENTS(odd))];
}

/* ---- The innocent pair ---- */

static void innocent_post(Stress *s)
{
    while (s->posted - s->received < 8) {
        fake_post(&s->d, PAGE(s->posted % 8 * 4), 4 * FAKE_PAGE,
                  s->posted % 8);
        s->posted++;
    }
    fake_ring_bell(&s->d);
}

static void innocent_send(Stress *s)
{
    unsigned n = s->sent % 64;

    if (s->sent - s->completed >= 8) {
        return;
    }
    s->lens[n] = 41 + rnd(s, 4 * FAKE_PAGE - 41);
    fake_fill(s->c.space, PAGE(s->sent % 8 * 4), s->lens[n], s->sent);
    /* The first bytes say which message it is. */
    fake_store(s->c.space, PAGE(s->sent % 8 * 4), &s->sent, 4);
    fake_send_at(&s->c, FIX_LOCAL, PAGE(s->sent % 8 * 4), s->lens[n],
                 s->sent);
    s->sent++;
    fake_ring_bell(&s->c);
}

static void innocent_poll(Stress *s)
{
    struct unetmm_cqe cqe;

    while (fake_poll(&s->c, &cqe)) {
        assert_int_equal(cqe.opcode, UNETMM_CQE_SENT);
        assert_int_equal(cqe.status, UNETMM_ST_OK);
        assert_int_equal(cqe.cookie, s->completed);
        s->completed++;
    }
    while (fake_poll(&s->d, &cqe)) {
        uint64_t at = PAGE(cqe.cookie * 4);
        uint32_t which;

        assert_int_equal(cqe.opcode, UNETMM_CQE_RECEIVED);
        assert_int_equal(cqe.status, UNETMM_ST_OK);
        fake_load(s->d.space, at, &which, 4);
        assert_true(which < s->sent && s->sent - which <= 64);
        assert_int_equal(cqe.len, s->lens[which % 64]);
        for (uint32_t i = 4; i < cqe.len; i += 61) {
            uint8_t byte;

            fake_load(s->d.space, at + i, &byte, 1);
            assert_int_equal(byte, fake_pattern(which, i));
        }
        s->received++;
    }
}

/* ---- Hostile processes ---- */

static void put_random_slots(Stress *s, FakeEp *ep)
{
    uint8_t raw[64];
    struct unetmm_sqe *sqe = (struct unetmm_sqe *)raw;

    for (unsigned i = 0; i < 64; i++) {
        raw[i] = rnd(s, 256);
    }
    if (rnd(s, 8)) {
        memset(raw, 0, 64);
        sqe->opcode = rnd(s, 10) ? UNETMM_OP_SEND : rnd(s, 256);
        sqe->flags = rnd(s, 4) ? rnd(s, 4) : rnd(s, 256);
        sqe->channel = cpu_to_le16(rnd(s, 4) ? 1 + rnd(s, 2) : rnd(s, 65536));
        sqe->cookie = rnd64(s);
        if (sqe->flags & UNETMM_SQE_F_INLINE) {
            sqe->inline_len = rnd(s, 256);
        } else {
            sqe->nsegs = rnd(s, 8) ? rnd(s, 17) : rnd(s, 256);
            for (unsigned i = 0; i < 2; i++) {
                sqe->seg[i].addr = cpu_to_le64(rnd_va(s));
                sqe->seg[i].len = cpu_to_le32(rnd_len(s));
            }
        }
    }
    fake_put_slots(ep, raw, 1);
}

static void put_random_buffer(Stress *s, FakeEp *ep)
{
    struct unetmm_fqe fqe = {
        .addr = rnd_va(s), .len = rnd_len(s), .cookie = rnd64(s),
        .flags = rnd(s, 4) ? 0 : UNETMM_FQE_F_CHAIN,
    };

    fake_post_fqes(ep, &fqe, 1);
    if (rnd(s, 20) == 0) {
        uint64_t at = ep->fq + 32 * rnd(s, 1u << ep->fq_log2) + rnd(s, 32);

        *(uint8_t *)fake_ptr(ep->host, at, 1) ^= 1 << rnd(s, 8);
    }
}

/* ---- The driver's part of the backup ring ---- */

/* Where the record's packet belongs, if that is anywhere. */
static uint8_t copy_backup(Stress *s, const FakeBuffer *b,
                           const struct unetmm_fault *f,
                           const struct unetmm_fqe *fqe)
{
    uint64_t end = PAGE(FIX_PAGES);

    if (fqe->addr < FIX_VA || fqe->addr > end ||
        f->npages > end - fqe->addr) {
        return UNETMM_ST_PROTECTION;
    }
    if (f->npages > fqe->len) {
        return UNETMM_ST_TOO_LONG;
    }
    if (f->npages) {
        fake_store(s->ep[BACKUP].space, fqe->addr,
                   fake_ptr(&s->f->h, b->addr, f->npages), f->npages);
    }
    return UNETMM_ST_OK;
}

/* Any of those that are reported; `late`: their endpoint is no more. */
static void answer_backup(Stress *s, bool late)
{
    FakeDriver *d = &s->f->d;
    unsigned n = d->backups->len ? rnd(s, d->backups->len) : 0;
    struct unetmm_fault f;
    struct unetmm_fqe fqe;
    uint8_t status;
    FakeBuffer b;

    if (!d->backups->len) {
        return;
    }
    f = g_array_index(d->backups, struct unetmm_fault, n);
    b = g_array_index(d->buffers, FakeBuffer, f.fault_id);
    if (!late) {
        fqe = fake_fqe(&s->ep[BACKUP], f.vaddr);
        status = fake_backup_done(d, &f, copy_backup(s, &b, &f, &fqe),
                                  fqe.cookie);
        if (status == UNETMM_CS_BAD_ARG && rnd(s, 4)) {
            return;
        }
    }
    g_array_remove_index(d->backups, n);
    fake_rights(&s->f->h, b.addr, b.len, FAKE_W);
    fake_buffer_at(d, b.addr, b.len, 0);
}

static void raw_flow(Stress *s)
{
    struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_FLOW_SET, .ep = s->ep[RAW].id,
        .flow = { .flow = 3, .kind = UNETMM_FLOW_MAC },
    };

    memcpy(cmd.flow.mac, s->f->h.core.params.mac, sizeof(cmd.flow.mac));
    assert_int_equal(fake_command(&s->f->d, cmd, NULL), UNETMM_CS_OK);
}

static void reopen(Stress *s, FakeEp *ep)
{
    struct unetmm_cmd cmd = { .opcode = UNETMM_CMD_EP_DESTROY, .ep = ep->id };
    struct unetmm_cmd_done done;
    uint16_t id = ep->id;
    FakeSpace *space = ep->space;

    fake_serve(&s->f->d);
    fake_issue(&s->f->d, cmd);
    while (!fake_done(&s->f->d, &done)) {
        fake_advance(&s->f->h, 1000);
    }
    while (ep == &s->ep[BACKUP] && s->f->d.backups->len) {
        answer_backup(s, true);
    }
    assert_int_equal(done.opcode, UNETMM_CMD_EP_DESTROY);
    assert_int_equal(done.status, UNETMM_CS_OK);
    memset(fake_ptr(ep->host, ep->index, 128), 0, 128);
    memset(fake_ptr(ep->host, ep->cq, 64u << ep->cq_log2), 0,
           64u << ep->cq_log2);
    ep->sq_prod = ep->fq_prod = ep->cq_cons = 0;
    fake_ep_create(ep);
    assert_int_equal(ep->id, id);
    assert_ptr_equal(ep->space, space);
    if (ep == &s->ep[RAW]) {
        raw_flow(s);
        return;
    }
    fake_channel(ep, FIX_LOCAL, s->f->h.core.params.mac, 1 + rnd(s, 6),
                 FIX_LOCAL, 65536);
    fake_channel(ep, FIX_WIRE, fake_peer_mac, 10 + ep->id, FIX_WIRE, 9000);
}

static void hostile_process(Stress *s)
{
    FakeEp *ep = &s->ep[rnd(s, HOSTILE + 1)];
    struct unetmm_cqe cqe;

    switch (rnd(s, 10)) {
    case 0: case 1: case 2:
        put_random_slots(s, ep);
        fake_move_sq(ep, 1);
        break;
    case 3: case 4: case 5:
        put_random_buffer(s, ep);
        break;
    case 6:
        if (rnd(s, 10) == 0) {
            fake_user_word(ep, 4 * rnd(s, 4), rnd64(s));
        }
        break;
    default:
        while (rnd(s, 8) && fake_poll(ep, &cqe)) {
        }
        break;
    }
    if (rnd(s, 2)) {
        fake_ring_bell(ep);
    }
    if (fake_card(ep).state == UNETMM_EP_ERROR && rnd(s, 4) == 0) {
        reopen(s, ep);
    }
}

/* ---- A hostile peer ---- */

static void hostile_frame(Stress *s)
{
    FakeEp *ep = &s->ep[rnd(s, HOSTILE)];
    uint32_t len = rnd(s, 3) ? rnd(s, 6000) : rnd(s, 65);
    FakeFrame *frame = fake_datagram(ep, FIX_WIRE, 10 + ep->id, len,
                                     rnd(s, 100));

    switch (rnd(s, 6)) {
    case 0:
        frame->data[rnd(s, 64)] ^= 1 << rnd(s, 8);
        if (rnd(s, 2)) {
            fake_header(frame)->header_crc =
                cpu_to_le32(unetmm_crc32c(0, frame->data, 60));
        }
        break;
    case 1:
        frame->bytes = rnd(s, frame->bytes + 1);
        break;
    case 2:
        for (unsigned i = 14; i < frame->bytes; i++) {
            frame->data[i] = rnd(s, 256);
        }
        break;
    case 3:
        /* One of another protocol, for the raw endpoint. */
        frame->data[12] = 8;
        frame->data[13] = 0;
        break;
    default:
        break;
    }
    frame = g_realloc(frame, sizeof(*frame) + MAX(frame->bytes, 1));
    fake_receive(&s->f->h, frame);
    g_free(frame);
}

/* ---- A driver that is sane but busy ---- */

static void busy_driver(Stress *s)
{
    Fix *f = s->f;
    FakeSpace *space = f->d.spaces[1 + rnd(s, 4)];
    unsigned page = rnd(s, FIX_PAGES);
    FakeVpage *v;
    uint32_t result;

    switch (rnd(s, 10)) {
    case 0:
        if (fake_invalidate(space, PAGE(page), (1 + rnd(s, 6)) * 4096ull)) {
            while (fake_reg(&f->h, UNETMM_REG_INV_CTRL)) {
                fake_advance(&f->h, 100);
            }
        }
        break;
    case 1:
        fake_insert(space, PAGE(page), 1 + rnd(s, FIX_PAGES - page), NULL);
        break;
    case 2:
        /* Pages of the hostile come and go, those of the innocent do not. */
        if (space->id <= 2) {
            v = fake_vpage(space, PAGE(page));
            v->absent = !v->absent;
            fake_paged_in(&f->d);
        }
        break;
    case 3:
        answer_backup(s, false);
        break;
    case 4:
        fake_tail_arm(&s->ep[BACKUP], s->ep[BACKUP].fq_prod + rnd(s, 3),
                      rnd(s, 4), &result);
        break;
    default:
        fake_serve(&f->d);
        break;
    }
}

static void any_knobs(Stress *s)
{
    UnetmmKnobs *k = &s->f->h.core.knobs;
    uint32_t rate = rnd(s, 2) ? 0 : 30000;

    /* Loss and the like would make the innocent pair lose too. */
    k->force_miss = rnd(s, 2) * rate;
    k->force_evict = rnd(s, 2) * rate;
    k->reorder = rnd(s, 2) * rate;
    k->delay = rnd(s, 2) * rate;
    k->fault_delay = rnd(s, 2) * rate;
    k->fault_refuse = rnd(s, 2) * rate;
    k->delay_ns = k->fault_delay_ns = 3000;
}

static void wire_event(Stress *s)
{
    FakeHost *h = &s->f->h;

    switch (rnd(s, 5)) {
    case 0:
        h->answer = rnd(s, 3);
        break;
    case 1:
        unetmm_core_sent(&h->core, rnd(s, 2));
        break;
    case 2:
        unetmm_core_set_link(&h->core, rnd(s, 4));
        break;
    default:
        unetmm_core_doorbell(&h->core, rnd(s, 20));
        break;
    }
    if (h->wire->len > 50) {
        fake_wire_clear(h);
    }
}

static void open_raw(Stress *s)
{
    FakeEp *ep = &s->ep[RAW];

    fake_ep_init(ep, &s->f->d, 7, s->f->d.spaces[1]);
    ep->policy = UNETMM_POLICY_DROP;
    ep->flags = UNETMM_EP_F_RAW;
    fake_ep_create(ep);
    raw_flow(s);
}

static void stress_open(Stress *s)
{
    Fix *f = s->f;

    f->d.hold_backups = true;

    for (unsigned i = 1; i <= 4; i++) {
        fake_space(&f->d, i, UNETMM_SOURCE_TLB, 0);
        fake_map(f->d.spaces[i], FIX_VA, FIX_PAGES * FAKE_PAGE,
                 i == 2 ? FAKE_R : FAKE_RW);
    }
    for (unsigned i = 0; i < HOSTILE; i++) {
        fake_ep_init(&s->ep[i], &f->d, 1 + i, f->d.spaces[1 + i / 2]);
        s->ep[i].policy = i == BACKUP ? UNETMM_POLICY_BACKUP : i & 1;
        s->ep[i].backup = i == BACKUP ? 5 : 0;
        s->ep[i].cq_log2 = 2 + i;
        fake_ep_create(&s->ep[i]);
        fake_channel(&s->ep[i], FIX_LOCAL, f->h.core.params.mac, 5, FIX_LOCAL,
                     65536);
        fake_connect_peer(&s->ep[i], FIX_WIRE, 11 + i, 9000);
    }
    open_raw(s);
    fake_buffers(&f->d, 4, 4096);
    fake_buffers(&f->d, 3, 700);
    fake_ep_init(&s->c, &f->d, 5, f->d.spaces[3]);
    fake_ep_init(&s->d, &f->d, 6, f->d.spaces[4]);
    s->c.cq_log2 = s->d.cq_log2 = 6;
    fake_ep_create(&s->c);
    fake_ep_create(&s->d);
    fake_connect(&s->c, &s->d, FIX_LOCAL, 65536);
}

/* Whatever the others did: each message is there, or is counted. */
static void check_innocent(Stress *s)
{
    static const enum unetmm_counter drops[] = {
        UNETMM_C_drop_asked, UNETMM_C_drop_no_buffer, UNETMM_C_drop_cq_full,
        UNETMM_C_drop_invalidated,
    };
    uint64_t dropped = 0;

    for (unsigned i = 0; i < G_N_ELEMENTS(drops); i++) {
        dropped += fake_ep_counter(&s->f->h, 6, drops[i]);
    }
    assert_int_equal(s->completed, s->sent);
    assert_int_equal(s->received + dropped, s->sent);
    print_message("# %u of %u received\n", (unsigned)s->received,
                  (unsigned)s->sent);
    assert_true(s->received > s->sent / 4);
}

static void roomy(UnetmmParams *p)
{
    p->tlb_sets = 256;
}

static void cramped(UnetmmParams *p)
{
    p->tlb_sets = 8;
    p->tlb_ways = 2;
    p->tlb_victims = 4;
    p->tlb_replace = UNETMM_TLB_REPLACE_RANDOM;
    p->max_faults = 4;
    p->local_queue = 64;
    p->budget_descriptors = 7;
}

static void slow(UnetmmParams *p)
{
    p->dma_page_ns = 700;
    p->tlb_sets = 64;
    p->local_queue = 512;
    p->tlb_index = UNETMM_TLB_INDEX_XOR;
    p->tlb_replace = UNETMM_TLB_REPLACE_LRU;
}

ALSO(hostile_processes, fix_test_bare, cramped)
ALSO(hostile_processes, fix_test_bare, slow)
TEST(hostile_processes, fix_test_bare, roomy)
{
    Stress s = { .f = *state, .random = fake_seed() };

    stress_open(&s);
    for (unsigned step = 0; step < STEPS; step++) {
        switch (rnd(&s, 12)) {
        case 0: case 1: case 2: case 3:
            hostile_process(&s);
            break;
        case 4: case 5:
            hostile_frame(&s);
            break;
        case 6: case 7:
            busy_driver(&s);
            break;
        case 8:
            wire_event(&s);
            break;
        case 9:
            innocent_post(&s);
            innocent_send(&s);
            break;
        case 10:
            innocent_poll(&s);
            break;
        default:
            fake_advance(&s.f->h, rnd(&s, 2000000));
            fake_run_later(&s.f->h);
            if (rnd(&s, 50) == 0) {
                any_knobs(&s);
            }
            break;
        }
    }
    /* Quiet again: whatever the others did, the innocent are not stuck. */
    memset(&s.f->h.core.knobs, 0, sizeof(s.f->h.core.knobs));
    for (unsigned i = 0; i < 200; i++) {
        /* A frame that x-reorder kept back goes when the wire has room. */
        s.f->h.answer = UNETMM_SENT_DONE;
        if (s.f->h.core.port->busy) {
            unetmm_core_sent(&s.f->h.core, true);
        }
        innocent_post(&s);
        fake_ring_bell(&s.c);
        fake_serve(&s.f->d);
        fake_advance(&s.f->h, 2000000);
        fake_run_later(&s.f->h);
        innocent_poll(&s);
    }
    /* And they were there, each in its own way. */
    assert_true(fake_counter(&s.f->h, UNETMM_C_backup_packets) > 0);
    assert_true(fake_counter(&s.f->h, UNETMM_C_eth_rx_frames) > 0);
    check_innocent(&s);
}

/* ---- A broken driver ---- */

/* Turns the reply into one that somebody waits for, more or less right. */
static void answer_something(Stress *s, struct unetmm_cmd *cmd)
{
    UnetmmCore *core = &s->f->h.core;
    uint32_t number;

    if (!core->miss->in_flight_used) {
        return;
    }
    number = core->miss->in_flight[rnd(s, core->miss->in_flight_used)];
    cmd->space = core->miss->all[number].ep->space;
    cmd->reply.fault_id = (uint32_t)core->miss->all[number].generation << 16 |
                          number;
    cmd->reply.vaddr = core->miss->all[number].vpn << 12;
    cmd->reply.status = rnd(s, 4) ? UNETMM_REPLY_RESOLVED : rnd(s, 5);
    cmd->reply.npages = 1 + rnd(s, 20);
    for (unsigned i = 0; i < cmd->reply.npages; i++) {
        uint64_t pte = cpu_to_le64((FAKE_RAM_BASE + rnd(s, 2048) * 4096) |
                                   (rnd(s, 10) ? 7 : rnd(s, 8)));

        fake_write(&s->f->h, cmd->reply.list + 8 * i, &pte, 8);
    }
}

static struct unetmm_cmd_ep random_ep(Stress *s, uint64_t area)
{
    struct unetmm_cmd_ep ep = {
        .sq_base = area + rnd(s, 1000) * 128,
        .fq_base = area + rnd(s, 1000) * 128,
        .cq_base = area + rnd(s, 1000) * 128,
        .index = FAKE_RAM_BASE + 0xf0000 + rnd(s, 256) * 128,
        .posts = rnd(s, 4) ? 0 : FAKE_RAM_BASE + 0xf0000 + rnd(s, 256) * 128,
        .sq_log2 = 1 + rnd(s, rnd(s, 8) ? 5 : 16),
        .fq_log2 = 1 + rnd(s, rnd(s, 8) ? 5 : 16),
        .cq_log2 = 1 + rnd(s, rnd(s, 8) ? 5 : 16),
        .policy = rnd(s, 2), .pretranslate = rnd(s, 5),
    };

    if (rnd(s, 3) == 0) {
        ep.policy = UNETMM_POLICY_BACKUP;
        ep.backup = 1 + rnd(s, 64);
    } else if (rnd(s, 4) == 0) {
        ep.flags = rnd(s, 4);
        ep.pretranslate = 0;
    } else if (rnd(s, 4) == 0) {
        ep.flags = UNETMM_EP_F_SHARED;
    } else if (rnd(s, 4) == 0) {
        ep.fq_of = rnd(s, 8);
        ep.pretranslate = 0;
    }

    if (rnd(s, 8)) {
        memset(fake_ptr(&s->f->h, ep.index, 128), 0, 128);
    }
    return ep;
}

/* About slots of an endpoint, more or less as it has them. */
static void random_slots(Stress *s, struct unetmm_cmd *cmd)
{
    const UnetmmEp *ep = &s->f->h.core.eps[cmd->ep % 8];

    if (cmd->opcode == UNETMM_CMD_BACKUP_DONE) {
        uint32_t n = rnd(s, 4);

        cmd->backup = (struct unetmm_cmd_backup) {
            .slot = ep->fq_cons + n, .status = rnd(s, UNETMM_NUM_ST + 1),
            .bit = rnd(s, 8) && ep->bm_size ?
                   (ep->bm_index + n) % ep->bm_size : rnd(s, 70),
        };
    } else if (cmd->opcode == UNETMM_CMD_TAIL_ARM) {
        cmd->tail = (struct unetmm_cmd_tail) {
            .slot = ep->fq_prod + rnd(s, 3), .arm = rnd(s, 3),
        };
    } else if (cmd->opcode == UNETMM_CMD_LOW_ARM) {
        cmd->low.buffers = rnd(s, 20);
    } else if (cmd->opcode == UNETMM_CMD_FLOW_SET && rnd(s, 4)) {
        cmd->flow = (struct unetmm_cmd_flow) {
            .flow = rnd(s, 18), .kind = 1 + rnd(s, 6), .flags = rnd(s, 4),
            .value = rnd(s, 2) * 80,
        };
        memcpy(cmd->flow.mac, rnd(s, 2) ? s->f->h.core.params.mac :
               fake_peer_mac, 6);
    }
}

static struct unetmm_cmd random_command(Stress *s)
{
    struct unetmm_cmd cmd;
    uint64_t area = FAKE_RAM_BASE + 0x100000;

    for (unsigned i = 0; i < sizeof(cmd); i++) {
        ((uint8_t *)&cmd)[i] = rnd(s, 256);
    }
    cmd.opcode = rnd(s, 20) ? rnd(s, UNETMM_NUM_CMD) : rnd(s, 256);
    cmd.space = rnd(s, 20) ? rnd(s, 8) : rnd(s, 65536);
    cmd.ep = rnd(s, 20) ? rnd(s, 8) : rnd(s, 65536);
    switch (cmd.opcode) {
    case UNETMM_CMD_SPACE_CREATE:
        cmd.space_create.source = rnd(s, unetmm_tables.nsources);
        cmd.space_create.source = cmd.space ? cmd.space_create.source : 0;
        cmd.space_create.levels =
            cmd.space_create.source == UNETMM_SOURCE_PINNED ||
            cmd.space_create.source == UNETMM_SOURCE_KTLB ||
            cmd.space_create.source == UNETMM_SOURCE_UTLB ||
            cmd.space_create.source == UNETMM_SOURCE_SHADOW ||
            cmd.space_create.source == UNETMM_SOURCE_ODP ? 1 + rnd(s, 6) :
            rnd(s, 8) ? 0 : rnd(s, 8);
        cmd.space_create.table = cmd.space_create.levels ?
                                 area + rnd(s, 64) * 4096 : 0;
        break;
    case UNETMM_CMD_EP_CREATE:
        cmd.ep_create = random_ep(s, area);
        cmd.space = cmd.ep ? cmd.space : 0;
        break;
    case UNETMM_CMD_CHANNEL_SET:
        cmd.channel.channel = rnd(s, 8) ? 1 + rnd(s, 2) : rnd(s, 18);
        cmd.channel.peer_ep = cmd.channel.channel == FIX_LOCAL ? rnd(s, 8) :
                              10u + cmd.ep;
        cmd.channel.mtu = rnd(s, 8) ? 256 + rnd(s, 65280) : rnd(s, 70000);
        memcpy(cmd.channel.peer_mac, cmd.channel.channel == FIX_LOCAL ?
               s->f->h.core.params.mac : fake_peer_mac, 6);
        break;
    case UNETMM_CMD_FAULT_REPLY:
        cmd.reply.fault_id = rnd(s, 2) ? UNETMM_FAULT_NONE :
            rnd(s, 4) << 16 | rnd(s, 8 * UNETMM_EP_MISSES + 2);
        cmd.reply.status = rnd(s, 5);
        cmd.reply.error = rnd(s, 14);
        cmd.reply.npages = rnd(s, 8) ? rnd(s, 20) : rnd(s, 600);
        cmd.reply.vaddr = rnd_va(s) & ~4095ull;
        cmd.reply.list = area + rnd(s, 1000) * 64;
        if (rnd(s, 8)) {
            answer_something(s, &cmd);
        }
        break;
    default:
        random_slots(s, &cmd);
        break;
    }
    return cmd;
}

static void random_register(Stress *s)
{
    FakeHost *h = &s->f->h;
    uint32_t at = rnd(s, 4) ? 4 * rnd(s, 0x240 / 4) : rnd(s, 0x4000);
    static const uint32_t base = 0x100000;

    /* Most accesses leave the card running, or there would be little to see. */
    if (rnd(s, 20) && (at == UNETMM_REG_CTRL ||
                       (at >= UNETMM_REG_RING(0) &&
                        at < UNETMM_REG_RING(UNETMM_NUM_RINGS)))) {
        return;
    }
    switch (rnd(s, 4)) {
    case 0:
        unetmm_core_read(&h->core, at, 1u << rnd(s, 4));
        break;
    case 1:
        fake_set_reg(h, at & ~3u, rnd64(s));
        break;
    case 2:
        fake_set_reg(h, at & ~3u, rnd(s, 32));
        break;
    default:
        fake_set_reg(h, at & ~3u, (uint32_t)FAKE_RAM_BASE + base +
                     rnd(s, 1024) * 64);
        break;
    }
}

/* The rings, put up again where a sane driver would have them. */
static void restart_rings(Stress *s)
{
    FakeHost *h = &s->f->h;

    bool fatal = fake_reg(h, UNETMM_REG_STATUS) & UNETMM_STATUS_FATAL;

    fake_set_reg(h, UNETMM_REG_CTRL, rnd(s, 4) && !fatal ? 0 :
                 UNETMM_CTRL_RESET);
    for (unsigned i = 0; i < UNETMM_NUM_RINGS; i++) {
        uint32_t reg = UNETMM_REG_RING(i);
        uint64_t base = FAKE_RAM_BASE + 0x80000 + 0x10000 * i;
        uint32_t log2 = 1 + rnd(s, 8);

        fake_set_reg(h, reg + UNETMM_RING_ENABLE, 0);
        fake_set_reg(h, reg + UNETMM_RING_BASE_LO, base);
        fake_set_reg(h, reg + UNETMM_RING_BASE_HI, base >> 32);
        fake_set_reg(h, reg + UNETMM_RING_LOG2, log2);
        fake_set_reg(h, reg + UNETMM_RING_ENABLE, 1);
    }
    fake_set_reg(h, UNETMM_REG_CTRL, UNETMM_CTRL_ENABLE);
}

static void issue_random(Stress *s)
{
    FakeHost *h = &s->f->h;
    uint32_t reg = UNETMM_REG_RING(UNETMM_RING_CMD);
    uint64_t base = fake_reg(h, reg + UNETMM_RING_BASE_LO) |
                    (uint64_t)fake_reg(h, reg + UNETMM_RING_BASE_HI) << 32;
    uint32_t prod = fake_reg(h, reg + UNETMM_RING_PROD);
    uint32_t mask = (1u << (fake_reg(h, reg + UNETMM_RING_LOG2) & 15)) - 1;
    struct unetmm_cmd cmd = random_command(s);
    uint64_t at = base + (uint64_t)(prod & mask) * sizeof(cmd);

    if (at >= FAKE_RAM_BASE &&
        at <= FAKE_RAM_BASE + FAKE_RAM_BYTES - sizeof(cmd)) {
        unetmm_le_cmd(&cmd);
        fake_write(h, at, &cmd, sizeof(cmd));
    }
    fake_set_reg(h, reg + UNETMM_RING_PROD, prod + 1);
}

/* One more for the backup ring, where restart_rings() has put it. */
static void random_buffer(Stress *s)
{
    FakeHost *h = &s->f->h;
    uint32_t reg = UNETMM_REG_RING(UNETMM_RING_BACKUP);
    uint32_t prod = fake_reg(h, reg + UNETMM_RING_PROD);
    uint32_t mask = (1u << (fake_reg(h, reg + UNETMM_RING_LOG2) & 7)) - 1;
    uint64_t base = FAKE_RAM_BASE + 0x80000 + 0x10000 * UNETMM_RING_BACKUP;
    struct unetmm_backup b = {
        .addr = rnd(s, 8) ? FAKE_RAM_BASE + 0x200000 + rnd(s, 0x100000) :
                rnd64(s),
        .len = rnd(s, 8) ? 64 + rnd(s, 5000) : rnd64(s),
        .rsvd = rnd(s, 20) == 0,
    };

    unetmm_le_backup(&b);
    fake_write(h, base + (prod & mask) * sizeof(b), &b, sizeof(b));
    fake_set_reg(h, reg + UNETMM_RING_PROD, prod + 1);
}

static void move_consumers(Stress *s)
{
    FakeHost *h = &s->f->h;

    random_buffer(s);
    for (unsigned i = UNETMM_RING_CMDC; i < UNETMM_RING_BACKUP; i++) {
        uint32_t reg = UNETMM_REG_RING(i);

        fake_set_reg(h, reg + UNETMM_RING_CONS,
                     fake_reg(h, reg + UNETMM_RING_PROD));
    }
}

static void scribble(Stress *s)
{
    uint64_t at = FAKE_RAM_BASE + 0x100000 + rnd(s, 270000) / 8 * 8;
    uint64_t v = rnd(s, 2) ? rnd(s, 32) :
                 (FAKE_RAM_BASE + rnd(s, 2048) * 4096) | rnd(s, 8);

    v = cpu_to_le64(v);
    fake_write(&s->f->h, at, &v, 8);
}

/* A living endpoint's process writes: a descriptor, an index. */
static void scribble_well(Stress *s)
{
    UnetmmEp *live = &s->f->h.core.eps[rnd(s, 8)];
    FakeEp ep = {
        .host = &s->f->h, .sq = live->sq_base, .fq = live->fq_base,
        .cq = live->cq_base, .index = live->index, .sq_log2 = live->sq_log2,
        .fq_log2 = live->fq_log2, .sq_prod = live->sq_prod,
        .fq_prod = live->fq_prod,
    };

    if (!live->live) {
        return;
    }
    fake_user_word(&ep, offsetof(struct unetmm_ep_user, cq_cons),
                   live->cq_prod);
    fake_user_word(&ep, offsetof(struct unetmm_ep_user, fq_prod), ep.fq_prod);
    fake_user_word(&ep, offsetof(struct unetmm_ep_user, sq_prod), ep.sq_prod);
    for (unsigned i = rnd(s, 4); i; i--) {
        put_random_slots(s, &ep);
        fake_move_sq(&ep, 1);
    }
    if (rnd(s, 2)) {
        put_random_buffer(s, &ep);
    }
    unetmm_core_doorbell(&s->f->h.core, live->id);
}

ALSO(broken_driver, fix_test_bare, cramped)
ALSO(broken_driver, fix_test_bare, slow)
TEST(broken_driver, fix_test_bare, NULL)
{
    Stress s = { .f = *state, .random = fake_seed() * 7 + 1 };
    FakeHost *h = &s.f->h;
    FakeEp anyone = { .host = h, .id = 1 };

    s.f->d.watch = false;
    h->lenient = true;
    /* A quarter of RAM is nobody's: the card must leave it alone even if the
     * driver names it (the bus refuses). */
    fake_rights(h, FAKE_RAM_BASE, FAKE_RAM_BYTES / 4 * 3, FAKE_RW);
    fake_rights(h, FAKE_RAM_BASE + FAKE_RAM_BYTES / 4 * 3,
                FAKE_RAM_BYTES / 4, 0);
    memset(h->ram, 0, FAKE_RAM_BYTES);
    for (unsigned step = 0; step < 20000; step++) {
        if (step % 500 == 0) {
            restart_rings(&s);
        }
        switch (rnd(&s, 14)) {
        case 0: case 1: case 2: case 3:
            issue_random(&s);
            break;
        case 4:
            random_register(&s);
            break;
        case 5: case 6:
            scribble(&s);
            break;
        case 7:
            anyone.id = rnd(&s, 8);
            s.ep[0] = s.ep[1] = s.ep[2] = s.ep[3] = anyone;
            hostile_frame(&s);
            break;
        case 8:
            wire_event(&s);
            break;
        case 9:
            any_knobs(&s);
            fake_advance(h, rnd(&s, 100000));
            fake_run_later(h);
            break;
        case 10: case 11:
            scribble_well(&s);
            break;
        default:
            move_consumers(&s);
            unetmm_core_doorbell(&h->core, rnd(&s, 8));
            break;
        }
        assert_int_equal(h->core.engine.depth, 0);
    }
    for (size_t i = FAKE_RAM_BYTES / 4 * 3; i < FAKE_RAM_BYTES; i++) {
        assert_int_equal(h->ram[i], 0);
    }
    unetmm_core_reset(&h->core);
    assert_int_equal(h->core.source->tlb.used, 0);
}
