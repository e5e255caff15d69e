/*
 * unetmm: fuzzing the card's core: input, card, and one run
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fuzz.h"

static FuzzCard card;

/* ---- The input ---- */

uint64_t fuzz_vaddr(FuzzIn *in)
{
    uint8_t how = fuzz_u8(in);

    switch (how >> 5) {
    case 7:
        return fuzz_u64(in);
    case 6:
        return -(uint64_t)fuzz_u16(in);
    case 5:
        return FIX_VA + (uint64_t)(how & 15) * FAKE_PAGE;
    default:
        return FIX_VA + fuzz_u16(in) % (FUZZ_PAGES * FAKE_PAGE);
    }
}

uint32_t fuzz_len(FuzzIn *in)
{
    static const uint32_t edges[] = {
        0, 1, UNETMM_CQE_INLINE, UNETMM_CQE_INLINE + 1, 4095, 4096, 4097,
        9000, 9001, 65535, 65536, 65537, 0x7fffffff, 0x80000000, 0xfffff001,
        0xffffffff,
    };
    uint8_t how = fuzz_u8(in);

    return how & 0xf0 ? fuzz_u16(in) : edges[how];
}

void fuzz_post(FuzzIn *in, FakeEp *ep)
{
    struct unetmm_fqe fqe = { .addr = fuzz_vaddr(in) };

    fqe.len = fuzz_len(in);
    fqe.cookie = fuzz_u8(in);
    /* Those posted before the bell rings are a chain, or its beginning. */
    fqe.flags = fqe.cookie >= 0xc0 ? UNETMM_FQE_F_CHAIN : 0;
    fake_post_fqes(ep, &fqe, 1);
}

void fuzz_post16(FuzzIn *in, FakeEp *ep, uint64_t cookie)
{
    uint64_t at = fuzz_vaddr(in);

    fake_post(ep, at, fuzz_u16(in), cookie);
}

void fuzz_send16(FuzzIn *in, FakeEp *ep, uint16_t channel, uint64_t cookie)
{
    uint64_t at = fuzz_vaddr(in);

    fake_send_at(ep, channel, at, fuzz_u16(in), cookie);
}

/* ---- The card ---- */

/* The kinds of card that the first byte of an input chooses from. */
static void fuzz_params(UnetmmParams *p, uint8_t kind)
{
    fake_params(p);
    p->tlb_sets = kind & 1 ? 2 : 16;
    p->tlb_ways = kind & 2 ? 2 : 1;
    p->tlb_victims = kind & 4 ? 2 : 0;
    p->tlb_index = kind >> 3 & 1;
    _Static_assert(UNETMM_TLB_NUM_REPLACE <= 4, "two bits draw a replacement");
    p->tlb_replace = kind >> 4 & 3;
    p->tlb_replace = MIN(p->tlb_replace, UNETMM_TLB_NUM_REPLACE - 1);
    p->congestion = kind % UNETMM_NUM_CONGESTION;
    p->dma_page_ns = kind & 0x40 ? 700 : 0;
    if (kind & 0x80) {
        p->max_faults = 2;
        p->local_queue = 2;
        p->budget_descriptors = 3;
    }
}

/* Some cards have a space whose misses name all that follows. */
static FakeSpace *fuzz_space(FuzzCard *c, uint16_t id, uint8_t kind)
{
    bool odp = id == 2 && (kind & 0x28) == 0x28;

    return fake_space(&c->d, id, odp ? UNETMM_SOURCE_ODP : UNETMM_SOURCE_TLB,
                      odp ? 4 : 0);
}

static void fuzz_open_all(FuzzCard *c, uint8_t kind)
{
    for (unsigned i = 0; i < FUZZ_EPS; i++) {
        uint16_t space = 1 + i / 2;
        FakeEp *ep = &c->ep[i];

        if (!c->d.spaces[space]) {
            fuzz_space(c, space, kind);
            fake_map(c->d.spaces[space], FIX_VA, FUZZ_PAGES * FAKE_PAGE,
                     space == 2 ? FAKE_R : FAKE_RW);
        }
        fake_ep_init(ep, &c->d, 1 + i, c->d.spaces[space]);
        ep->policy = i & 1;
        ep->sq_log2 = ep->fq_log2 = 3;
        ep->cq_log2 = 1 + i;
        fake_ep_create(ep);
        fake_channel(ep, FIX_LOCAL, c->h.core.params.mac, 1 + (i ^ 1),
                     FIX_LOCAL, FIX_MTU);
        fake_connect_peer(ep, FIX_WIRE, 11 + i, 9000);
    }
}

/*
 * A hostile driver may name any address.  Only its own memory and its
 * processes' has rights, and is cleared for the next input: a stray is refused
 * like any address that is not there.
 */
void fuzz_be_lenient(FuzzCard *c)
{
    uint64_t first = c->h.next_page + 2 * FAKE_PAGE;

    c->lenient = c->h.lenient = true;
    c->d.watch = false;
    fake_rights(&c->h, first, FAKE_RAM_BASE + FAKE_RAM_BYTES - first, FAKE_RW);
}

static void fuzz_make(FuzzCard *c, uint8_t kind)
{
    UnetmmParams p;

    fuzz_params(&p, kind);
    if (fuzz_target.params) {
        fuzz_target.params(&p);
    }
    if (c->h.made) {
        fake_driver_free(&c->d);
        fake_host_again(&c->h, &p);
    } else {
        fake_host_init(&c->h, &p);
    }
    memset(c->ep, 0, sizeof(c->ep));
    fake_driver_init(&c->d, &c->h);
    fake_driver_start(&c->d);
    if (!fuzz_target.bare) {
        fuzz_open_all(c, kind);
    }
    c->lenient = c->h.lenient = false;
    c->d.watch = true;
    if (fuzz_target.start) {
        fuzz_target.start(c);
    }
    if (fuzz_target.lenient) {
        fuzz_be_lenient(c);
    }
}

/* ---- The rest of the world ---- */

void fuzz_rings(FuzzCard *c, uint32_t log2)
{
    for (unsigned i = 0; i < UNETMM_NUM_RINGS; i++) {
        uint32_t reg = UNETMM_REG_RING(i);

        fake_set_reg(&c->h, reg + UNETMM_RING_ENABLE, 0);
        fake_set_reg(&c->h, reg + UNETMM_RING_BASE_LO, c->d.ring[i].base);
        fake_set_reg(&c->h, reg + UNETMM_RING_BASE_HI,
                     c->d.ring[i].base >> 32);
        fake_set_reg(&c->h, reg + UNETMM_RING_LOG2, log2);
        fake_set_reg(&c->h, reg + UNETMM_RING_ENABLE, 1);
    }
    fake_set_reg(&c->h, UNETMM_REG_CTRL, UNETMM_CTRL_ENABLE);
}

void fuzz_issue(FuzzCard *c, struct unetmm_cmd cmd)
{
    uint32_t reg = UNETMM_REG_RING(UNETMM_RING_CMD);
    uint64_t base = fake_reg(&c->h, reg + UNETMM_RING_BASE_LO) |
                    (uint64_t)fake_reg(&c->h, reg + UNETMM_RING_BASE_HI) << 32;
    uint32_t prod = fake_reg(&c->h, reg + UNETMM_RING_PROD);
    uint32_t mask = (1u << (fake_reg(&c->h, reg + UNETMM_RING_LOG2) & 15)) - 1;
    uint64_t at = base + (uint64_t)(prod & mask) * sizeof(cmd);

    /* Nothing may be left behind for the next input: see fake_host_again(). */
    if (at >= FAKE_RAM_BASE && at <= c->h.next - sizeof(cmd)) {
        unetmm_le_cmd(&cmd);
        fake_write(&c->h, at, &cmd, sizeof(cmd));
    }
    fake_set_reg(&c->h, reg + UNETMM_RING_PROD, prod + 1);
}

uint32_t fuzz_reg_offset(FuzzIn *in)
{
    uint16_t v = fuzz_u16(in);

    switch (v >> 14) {
    case 0:
        return (v & 0x8f) * 4;
    case 1:
        return UNETMM_REG_RING((v & 7) % UNETMM_NUM_RINGS) + (v >> 3 & 7) * 4;
    case 2:
        return UNETMM_REG_INV_SPACE + (v & 15) * 4;
    default:
        return v & 0x3fff;
    }
}

uint32_t fuzz_reg_value(FuzzCard *c, FuzzIn *in)
{
    uint8_t how = fuzz_u8(in);

    switch (how >> 6) {
    case 0:
        return how & 0x3f;
    case 1:
        return (uint32_t)c->d.ring[(how & 7) % UNETMM_NUM_RINGS].base;
    case 2:
        return (uint32_t)(FIX_VA + (how & 15) * FAKE_PAGE);
    default:
        return fuzz_u32(in);
    }
}

void fuzz_some_command(FuzzCard *c, FuzzIn *in)
{
    struct unetmm_cmd cmd = { .opcode = fuzz_below(in, UNETMM_NUM_CMD) };

    cmd.space = fuzz_below(in, 3);
    cmd.ep = fuzz_below(in, 6);
    if (cmd.opcode == UNETMM_CMD_SPACE_CREATE) {
        cmd.space_create.source = UNETMM_SOURCE_TLB;
    } else if (cmd.opcode == UNETMM_CMD_EP_CREATE) {
        FakeEp *ep = &c->ep[fuzz_below(in, FUZZ_EPS)];

        cmd.ep_create = fake_ep_cmd(ep).ep_create;
        memset(fake_ptr(&c->h, ep->index, 128), 0, 128);
    }
    fuzz_issue(c, cmd);
}

void fuzz_read_records(FuzzCard *c, FuzzRecords *records, unsigned n)
{
    uint32_t reg = UNETMM_REG_RING(UNETMM_RING_FAULT);
    FakeRing *r = &c->d.ring[UNETMM_RING_FAULT];
    uint32_t prod = fake_reg(&c->h, reg + UNETMM_RING_PROD);

    r->index = fake_reg(&c->h, reg + UNETMM_RING_CONS);
    for (; n && r->index != prod; n--, r->index++) {
        uint32_t slot = r->index & ((1u << r->log2) - 1);
        struct unetmm_fault *f = &records->at[records->n++ % FUZZ_RECORDS];

        fake_read(&c->h, r->base + (uint64_t)slot * r->entry_bytes, f,
                  sizeof(*f));
        unetmm_le_fault(f);
    }
    fake_set_reg(&c->h, reg + UNETMM_RING_CONS, r->index);
}

void fuzz_take_all(FuzzCard *c)
{
    for (unsigned i = UNETMM_RING_CMDC; i < UNETMM_NUM_RINGS; i++) {
        uint32_t reg = UNETMM_REG_RING(i);

        if (UNETMM_RING_TO_CARD(i)) {
            continue;
        }
        fake_set_reg(&c->h, reg + UNETMM_RING_CONS,
                     fake_reg(&c->h, reg + UNETMM_RING_PROD));
    }
}

/* A driver that is sane: its record of each page stays true. */
static void sane_driver(FuzzCard *c, FuzzIn *in)
{
    FakeSpace *space = c->d.spaces[1 + fuzz_below(in, 2)];
    unsigned page = fuzz_below(in, FUZZ_PAGES);
    uint64_t at = FIX_VA + (uint64_t)page * FAKE_PAGE;
    struct unetmm_notify n;

    switch (fuzz_below(in, 8)) {
    case 0:
        if (fake_invalidate(space, at, (1 + fuzz_below(in, 3)) * 4096ull)) {
            while (fake_reg(&c->h, UNETMM_REG_INV_CTRL)) {
                fake_advance(&c->h, 100);
            }
        }
        break;
    case 1:
        fake_insert(space, at, 1 + fuzz_below(in, FUZZ_PAGES - page), NULL);
        break;
    case 2:
        fake_vpage(space, at)->absent ^= true;
        fake_paged_in(&c->d);
        break;
    case 3:
        while (fake_notification(&c->d, &n)) {
        }
        break;
    default:
        fake_serve(&c->d);
        break;
    }
}

static void wire_op(FuzzCard *c, FuzzIn *in)
{
    switch (fuzz_below(in, 4)) {
    case 0:
        c->h.answer = fuzz_below(in, 3);
        break;
    case 1:
        unetmm_core_sent(&c->h.core, fuzz_u8(in) & 1);
        break;
    case 2:
        unetmm_core_set_link(&c->h.core, fuzz_u8(in) & 3);
        break;
    default:
        fake_wire_clear(&c->h);
        break;
    }
}

static void knob_op(FuzzCard *c, FuzzIn *in)
{
    UnetmmKnobs *k = &c->h.core.knobs;
    uint8_t which = fuzz_u8(in);
    uint32_t rate = fuzz_u8(in) * 2000;

    k->loss = which & 1 ? rate : 0;
    k->dup = which & 2 ? rate : 0;
    k->reorder = which & 4 ? rate : 0;
    k->corrupt = which & 8 ? rate : 0;
    k->force_miss = which & 16 ? rate : 0;
    k->force_evict = which & 32 ? rate : 0;
    k->delay = k->fault_delay = which & 64 ? rate : 0;
    k->fault_fail = k->fault_refuse = which & 128 ? rate : 0;
    k->delay_ns = k->fault_delay_ns = 3000;
}

void fuzz_world_op(FuzzCard *c, FuzzIn *in)
{
    FakeEp *ep = &c->ep[fuzz_below(in, FUZZ_EPS)];
    struct unetmm_cqe cqe;

    switch (fuzz_below(in, 8)) {
    case 0:
        wire_op(c, in);
        break;
    case 1:
        knob_op(c, in);
        break;
    case 2:
        while (!c->lenient && fake_poll(ep, &cqe)) {
        }
        break;
    case 3:
    case 4:
        fake_advance(&c->h, fuzz_u16(in));
        fake_run_later(&c->h);
        break;
    default:
        if (c->lenient) {
            fuzz_take_all(c);
        } else {
            sane_driver(c, in);
        }
        break;
    }
}

/* ---- One input ---- */

/*
 * Time goes on until no timer runs, or for long enough.  A peer that never
 * answers keeps timers running: an input costs as much as their turns.
 */
static void rest(FakeHost *h)
{
    int64_t end = h->now + FUZZ_REST_NS;

    for (unsigned i = 0; i < FUZZ_REST_TIMERS && h->timer <= end; i++) {
        fake_advance(h, MAX(h->timer - h->now, 0));
        fake_run_later(h);
    }
    fake_run_later(h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    FuzzIn in = { data, size };
    FuzzCard *c = &card;

    fuzz_make(c, fuzz_u8(&in));
    for (unsigned i = 0; in.left && i < FUZZ_MAX_OPS; i++) {
        fuzz_target.op(c, &in);
        assert_int_equal(c->h.core.engine.depth, 0);
    }
    if (fuzz_target.end) {
        fuzz_target.end(c);
    }
    /* The numbers that the card keeps of its objects are right ... */
    rest(&c->h);
    fake_check_counts(&c->h.core);
    /* ... and a reset ends all. */
    if (size % FUZZ_CHECK_RESET == 0) {
        fake_check_reset(&c->h);
    }
    unetmm_core_reset(&c->h.core);
    assert_int_equal(c->h.core.source->tlb.used + c->h.core.source->cache.used, 0);
    assert_int_equal(c->h.core.source->tlb.moving + c->h.core.source->cache.moving, 0);
    assert_int_equal(c->h.core.port->fifo_used, 0);
    fake_wire_clear(&c->h);
    return 0;
}
