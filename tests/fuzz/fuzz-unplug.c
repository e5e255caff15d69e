/*
 * unetmm: fuzzing: resets, pauses and the end of a card, among its accesses
 *
 * Registers, doorbells, stores, frames and timers come at any moment: while the
 * card is off, reset or paused, on a card that has just been made, and from
 * inside a host operation that the card itself has called.  So do the resets.
 * A card that must not run touches no memory and sends nothing, unless a register
 * is written.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fuzz_ops.h"

/* An access from inside the n-th host operation from now on. */
static struct {
    unsigned after;             /* 0: none is to come */
    uint8_t what;
    uint32_t at, value;
} inside;
static bool quiet;              /* nothing may be touched in this operation */

/* ---- From inside ---- */

static void inner_access(FakeHost *h)
{
    static const uint8_t runt[8];
    UnetmmCore *core = &h->core;

    switch (inside.what & 7) {
    case 0: case 1:
        unetmm_core_reset(core);
        break;
    case 2:
        unetmm_core_write(core, inside.at, inside.value, 4);
        break;
    case 3:
        unetmm_core_read(core, inside.at, 4);
        break;
    case 4:
        unetmm_core_doorbell(core, inside.at & 7);
        break;
    case 5:
        unetmm_core_set_link(core, inside.value & 1);
        unetmm_core_run(core);
        break;
    case 6:
        assert_false(unetmm_core_receive(core, runt, sizeof(runt)));
        unetmm_core_sent(core, inside.value & 1);
        break;
    default:
        unetmm_core_proxy_store(core, inside.at % sizeof(h->windows), 8);
        unetmm_core_proxy_load(core, inside.at % sizeof(h->windows));
        break;
    }
}

static void host_operation(FakeHost *h)
{
    assert_false(quiet);
    if (inside.after && !--inside.after) {
        inner_access(h);
    }
}

static void on_access(FakeHost *h, uint64_t addr, size_t bytes)
{
    host_operation(h);
}

static void on_word(FakeHost *h, uint64_t addr)
{
    host_operation(h);
}

static void on_send(FakeHost *h, const uint8_t *frame, size_t bytes)
{
    host_operation(h);
}

static void unplug_start(FuzzCard *c)
{
    memset(&inside, 0, sizeof(inside));
    quiet = false;
    fuzz_ops_start(c);
    c->h.on_read = c->h.on_write = on_access;
    c->h.on_store = c->h.on_atomic = on_word;
    c->h.on_send = on_send;
}

/* ---- From outside ---- */

/* The card is taken out and put in again: a new one, in the same place. */
static void plug_again(FuzzCard *c)
{
    UnetmmCore *core = &c->h.core;
    UnetmmParams params = core->params;
    const UnetmmHostOps *ops = core->ops;

    unetmm_core_pause(core, false);
    unetmm_core_reset(core);
    unetmm_core_free(core);
    c->h.timer = INT64_MAX;
    c->h.later = 0;
    unetmm_core_init(core, &params, ops, &c->h);
    unetmm_core_set_link(core, true);
}

/* The driver's first commands for a card that is empty. */
static void load_driver(FuzzCard *c, FuzzIn *in)
{
    fuzz_rings(c, 1 + fuzz_below(in, 6));
    fuzz_issue(c, (struct unetmm_cmd) {
        .opcode = UNETMM_CMD_SPACE_CREATE, .space = 1,
        .space_create.source = UNETMM_SOURCE_TLB });
    for (unsigned i = 0; i < 2; i++) {
        memset(fake_ptr(&c->h, c->ep[i].index, 128), 0, 128);
        fuzz_issue(c, fake_ep_cmd(&c->ep[i]));
    }
    fuzz_take_all(c);
}

static void traffic(FuzzCard *c, FuzzIn *in, FakeEp *ep)
{
    const UnetmmEp *known = &c->h.core.eps[ep->id];
    uint8_t what = fuzz_u8(in);
    FakeFrame *f;

    ep->sq_prod = known->sq_prod;
    ep->fq_prod = known->fq_prod;
    switch (what & 3) {
    case 0:
        fuzz_send16(in, ep, what & 4 ? FIX_WIRE : FIX_LOCAL, 1);
        break;
    case 1:
        fuzz_post(in, ep);
        break;
    case 2:
        f = fake_datagram(ep, FIX_WIRE, 10 + ep->id, fuzz_u16(in) % 5000, 3);
        fake_receive(&c->h, f);
        g_free(f);
        break;
    default:
        fuzz_ops_op(c, in, ep);
        break;
    }
    unetmm_core_doorbell(&c->h.core, fuzz_below(in, 10));
}

static void lifetime(FuzzCard *c, FuzzIn *in)
{
    uint8_t what = fuzz_u8(in);

    switch (what & 7) {
    case 0:
        unetmm_core_reset(&c->h.core);
        break;
    case 1: case 2:
        unetmm_core_pause(&c->h.core, what & 8);
        break;
    case 3:
        plug_again(c);
        break;
    case 4:
        load_driver(c, in);
        break;
    default:
        inside.after = 1 + fuzz_u8(in);
        inside.what = fuzz_u8(in);
        inside.at = fuzz_reg_offset(in);
        inside.value = fuzz_reg_value(c, in);
        break;
    }
}

static void unplug_op(FuzzCard *c, FuzzIn *in)
{
    uint8_t what = fuzz_u8(in);
    uint32_t at;

    switch (what & 7) {
    case 0: case 1:
        lifetime(c, in);
        break;
    case 2:
        at = fuzz_reg_offset(in);
        fake_set_reg(&c->h, at, fuzz_reg_value(c, in));
        break;
    case 3:
        unetmm_core_read(&c->h.core, fuzz_reg_offset(in), 4);
        break;
    case 4:
        fuzz_some_command(c, in);
        break;
    default:
        quiet = !unetmm_may_run(&c->h.core);
        if (what & 1) {
            traffic(c, in, &c->ep[what >> 6]);
        } else {
            fuzz_world_op(c, in);
        }
        quiet = false;
        break;
    }
}

static void unplug_end(FuzzCard *c)
{
    memset(&inside, 0, sizeof(inside));
    unetmm_core_pause(&c->h.core, false);
}

const FuzzTarget fuzz_target = {
    .lenient = true, .start = unplug_start, .op = unplug_op, .end = unplug_end,
};
