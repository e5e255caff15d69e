/*
 * unetmm: fuzzing: misses, and the replies of a driver that lies
 *
 * Processes with each source that asks the driver send and receive.  The driver
 * reads its records, or not, and replies to any of them, also twice and late:
 * with another number, space, address, list or status.  It changes tables, gives
 * pages that nobody asked for, invalidates, and ends endpoints meanwhile.  The
 * card may be moved at any time.
 *
 * In the end the driver answers each miss that is left: no lie may keep one
 * waiting for ever.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fuzz_ops.h"

#define FIRST_EP        (FUZZ_EPS + 2)  /* behind the victim of fuzz_ops.c */
#define FIRST_SPACE     4
#define ROUNDS          400             /* of honest answers, at the end */

static const struct {
    uint8_t source, levels;
} kinds[] = {
    { UNETMM_SOURCE_ODP, 4 }, { UNETMM_SOURCE_SHADOW, 4 },
};

static FakeEp eps[G_N_ELEMENTS(kinds)];
static FuzzRecords records;

static void misses_start(FuzzCard *c)
{
    fuzz_ops_start(c);
    records.n = 0;
    for (unsigned i = 0; i < G_N_ELEMENTS(kinds); i++) {
        FakeSpace *s = fake_space(&c->d, FIRST_SPACE + i, kinds[i].source,
                                  kinds[i].levels);

        fake_map(s, FIX_VA, FUZZ_PAGES * FAKE_PAGE, FAKE_RW);
        fake_invalidate(s, FIX_VA, FUZZ_PAGES * FAKE_PAGE);
        fake_ep_init(&eps[i], &c->d, FIRST_EP + i, s);
        eps[i].sq_log2 = eps[i].fq_log2 = 3;
        eps[i].cq_log2 = 4;
        fake_ep_create(&eps[i]);
        fake_channel(&eps[i], FIX_LOCAL, c->h.core.params.mac,
                     FIRST_EP + (i ^ 1), FIX_LOCAL, FIX_MTU);
        fake_connect_peer(&eps[i], FIX_WIRE, 20 + i, 9000);
    }
}

static FakeEp *any_ep(FuzzCard *c, uint8_t which)
{
    which %= FUZZ_EPS + G_N_ELEMENTS(eps);
    return which < FUZZ_EPS ? &c->ep[which] : &eps[which - FUZZ_EPS];
}

static FakeSpace *any_space(FuzzCard *c, uint8_t which)
{
    return c->d.spaces[1 + which % (FIRST_SPACE + G_N_ELEMENTS(kinds) - 1)];
}

/* ---- Processes: something misses ---- */

static void process(FuzzCard *c, FuzzIn *in)
{
    uint8_t what = fuzz_u8(in);
    FakeEp *ep = any_ep(c, what >> 4);
    const UnetmmEp *known = &c->h.core.eps[ep->id];
    FakeFrame *f;

    ep->sq_prod = known->sq_prod;
    ep->fq_prod = known->fq_prod;
    switch (what & 7) {
    case 0: case 1:
        fuzz_post(in, ep);
        break;
    case 2:
        fuzz_send16(in, ep, what & 8 ? FIX_WIRE : FIX_LOCAL, 1);
        break;
    case 3:
        f = fake_datagram(ep, FIX_WIRE, ep->id < FIRST_EP ? 10 + ep->id :
                          20 + ep->id - FIRST_EP, fuzz_u16(in) % 9001, 3);
        fake_receive(&c->h, f);
        g_free(f);
        break;
    case 4:
        fake_user_word(ep, offsetof(struct unetmm_ep_user, cq_cons),
                       known->cq_prod);
        break;
    default:
        fuzz_ops_op(c, in, ep->id < FIRST_EP ? ep : &c->ep[0]);
        break;
    }
    unetmm_core_doorbell(&c->h.core, ep->id);
}

/* ---- The driver ---- */

/* The entry of a page of any space, a changed one, or any value. */
static uint64_t any_pte(FuzzCard *c, FuzzIn *in)
{
    uint8_t how = fuzz_u8(in);
    FakeSpace *s = any_space(c, how & 7);
    FakeVpage *page = fake_vpage(s, FIX_VA + (how >> 3 & 3) * FAKE_PAGE);

    switch (how >> 6) {
    case 0:
        return fuzz_u64(in);
    case 1:
        return fake_pte(page) ^ (1u << (fuzz_u8(in) & 15));
    default:
        return fake_pte(page);
    }
}

/* The right reply to a record, but for those members that the input chooses. */
static void reply(FuzzCard *c, FuzzIn *in)
{
    const struct unetmm_fault *f = &records.at[fuzz_u8(in) % FUZZ_RECORDS];
    uint8_t lies = fuzz_u8(in), how = fuzz_u8(in);
    struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_FAULT_REPLY, .space = f->space,
        .reply = { .fault_id = f->fault_id, .status = how & 3,
                   .error = how & 3 ? 1 + (how >> 2) % (UNETMM_NUM_ST - 1) : 0,
                   .vaddr = f->vaddr, .list = c->d.list },
    };
    bool brings = f->space < FIRST_SPACE;
    uint64_t pte;

    cmd.reply.npages = brings && !(how & 3) ? 1 + (how >> 2) % 16 : 0;
    if (lies & 1) {
        cmd.reply.fault_id += fuzz_u32(in);
    }
    if (lies & 2) {
        cmd.space = fuzz_below(in, 9);
    }
    if (lies & 4) {
        cmd.reply.vaddr = fuzz_vaddr(in);
    }
    if (lies & 8) {
        cmd.reply.npages = fuzz_u16(in) % 600;
    }
    if (lies & 16) {
        cmd.reply.status = fuzz_u8(in);
        cmd.reply.error = fuzz_u8(in);
    }
    if (lies & 32) {
        cmd.reply.fault_id = UNETMM_FAULT_NONE;
    }
    for (unsigned i = 0; i < MIN(cmd.reply.npages, 16); i++) {
        pte = cpu_to_le64(any_pte(c, in));
        fake_write(&c->h, c->d.list + i * sizeof(pte), &pte, sizeof(pte));
    }
    if (lies & 64) {
        cmd.reply.tag = fuzz_u16(in);
    }
    fuzz_issue(c, cmd);
}

/* An entry of a table, its locks included, beneath the card. */
static void change_entry(FuzzCard *c, FuzzIn *in)
{
    FakeSpace *s = c->d.spaces[FIRST_SPACE + fuzz_below(in,
                                                        G_N_ELEMENTS(kinds))];
    uint64_t at = FIX_VA + fuzz_below(in, FUZZ_PAGES) * FAKE_PAGE;

    fake_table_set(s, at, fuzz_u8(in) & 1 ? any_pte(c, in) :
                   fake_table_get(s, at) ^ 1ull << fuzz_below(in, 16));
}

static void invalidate(FuzzCard *c, uint16_t space, uint64_t first, uint64_t last)
{
    fake_set_reg(&c->h, UNETMM_REG_INV_SPACE, space);
    fake_set_reg(&c->h, UNETMM_REG_INV_START_LO, first);
    fake_set_reg(&c->h, UNETMM_REG_INV_START_HI, first >> 32);
    fake_set_reg(&c->h, UNETMM_REG_INV_LAST_LO, last);
    fake_set_reg(&c->h, UNETMM_REG_INV_LAST_HI, last >> 32);
    fake_set_reg(&c->h, UNETMM_REG_INV_CTRL, 1);
}

/* An endpoint ends, or begins again, with misses under way. */
static void end_or_open(FuzzCard *c, FuzzIn *in)
{
    uint8_t what = fuzz_u8(in);
    FakeEp *ep = any_ep(c, what >> 4);
    struct unetmm_cmd cmd = { .opcode = UNETMM_CMD_EP_DESTROY, .ep = ep->id };

    switch (what & 3) {
    case 0:
        cmd = fake_ep_cmd(ep);
        memset(fake_ptr(&c->h, ep->index, 128), 0, 128);
        break;
    case 1:
        cmd = (struct unetmm_cmd) {
            .opcode = UNETMM_CMD_CHANNEL_CLEAR, .ep = ep->id,
            .channel.channel = fuzz_below(in, 16) };
        break;
    default:
        break;
    }
    fuzz_issue(c, cmd);
}

static void driver(FuzzCard *c, FuzzIn *in)
{
    uint8_t what = fuzz_u8(in);
    uint64_t first;

    switch (what & 15) {
    case 0: case 1: case 2:
        fuzz_read_records(c, &records, 1 + (what >> 4));
        break;
    case 3:
        change_entry(c, in);
        break;
    case 4:
        first = fuzz_vaddr(in);
        invalidate(c, what >> 4, first, first + fuzz_len(in));
        break;
    case 5:
        end_or_open(c, in);
        break;
    case 6:
        fake_reg(&c->h, UNETMM_REG_INV_CTRL);
        break;
    case 7:
        /* A frame in the net layer stays behind, and is counted. */
        if (!c->h.core.port->busy) {
            fake_migrate(&c->h);
        }
        break;
    case 8:
        fake_set_reg(&c->h, UNETMM_REG_RING(UNETMM_RING_FAULT) +
                     UNETMM_RING_MODERATE, fuzz_u16(in));
        break;
    default:
        reply(c, in);
        break;
    }
}

/* ---- The end ---- */

/* Errors for all that is asked; entries that change have changed. */
static void answer_all(FuzzCard *c)
{
    UnetmmCore *core = &c->h.core;

    for (unsigned i = core->miss->in_flight_used; i-- > 0; ) {
        const UnetmmMiss *miss;

        if (i >= core->miss->in_flight_used) {
            continue;
        }
        miss = &core->miss->all[core->miss->in_flight[i]];
        fuzz_issue(c, (struct unetmm_cmd) {
            .opcode = UNETMM_CMD_FAULT_REPLY, .space = miss->ep->space,
            .reply = { .fault_id = (uint32_t)miss->generation << 16 |
                       core->miss->in_flight[i], .status = UNETMM_REPLY_ERROR,
                       .error = UNETMM_ST_PROTECTION,
                       .vaddr = miss->vpn << UNETMM_PAGE_SHIFT } });
        fuzz_take_all(c);
    }
    for (unsigned s = 1; s < FIRST_SPACE + G_N_ELEMENTS(kinds); s++) {
        invalidate(c, s, 0, UINT64_MAX);
        for (unsigned i = 0; i < 100 && fake_reg(&c->h, UNETMM_REG_INV_CTRL);
             i++) {
            fake_advance(&c->h, 1000);
        }
    }
}

static bool misses_left(const UnetmmCore *core)
{
    return core->miss->asked || core->miss->joined || core->miss->wanted.used ||
           core->miss->late;
}

static void misses_end(FuzzCard *c)
{
    UnetmmCore *core = &c->h.core;
    unsigned rounds = 0;

    memset(&core->knobs, 0, sizeof(core->knobs));
    fuzz_read_records(c, &records, UINT32_MAX);
    do {
        for (unsigned i = 0; i < core->params.endpoints; i++) {
            FakeEp *ep = any_ep(c, i);

            fake_user_word(ep, offsetof(struct unetmm_ep_user, cq_cons),
                           core->eps[ep->id].cq_prod);
        }
        fuzz_take_all(c);
        answer_all(c);
        fake_advance(&c->h, 100000);
        fake_run_later(&c->h);
        if (++rounds == ROUNDS) {
            fail_msg("misses are left: %u asked, %u joined, %u wanted, %u late",
                     core->miss->asked, core->miss->joined,
                     core->miss->wanted.used, core->miss->late);
        }
    } while (misses_left(core));
}

static void misses_op(FuzzCard *c, FuzzIn *in)
{
    switch (fuzz_below(in, 8)) {
    case 0: case 1: case 2:
        process(c, in);
        break;
    case 3:
        fuzz_world_op(c, in);
        break;
    default:
        driver(c, in);
        break;
    }
}

const FuzzTarget fuzz_target = {
    .lenient = true, .start = misses_start, .op = misses_op, .end = misses_end,
};
