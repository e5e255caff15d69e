/*
 * unetmm: fuzzing: registers
 *
 * Reads and writes of any register at any width, with rings set up again now
 * and then and traffic between, so that they meet a card at work.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fuzz.h"

/* Offsets that are registers come more often than others. */
static uint32_t reg_offset(FuzzIn *in)
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

static uint32_t reg_value(FuzzCard *c, FuzzIn *in)
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

static void some_command(FuzzCard *c, FuzzIn *in)
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

static void register_op(FuzzCard *c, FuzzIn *in)
{
    uint8_t what = fuzz_u8(in);
    FakeEp *ep = &c->ep[what >> 6];
    uint32_t at;

    switch (what & 15) {
    case 0: case 1: case 2:
        unetmm_core_read(&c->h.core, reg_offset(in), 4);
        break;
    case 3:
        unetmm_core_read(&c->h.core, fuzz_u32(in), 1u << (what >> 4 & 3));
        break;
    case 4: case 5: case 6: case 7:
        at = reg_offset(in);
        fake_set_reg(&c->h, at, reg_value(c, in));
        break;
    case 8:
        at = fuzz_u32(in);
        unetmm_core_write(&c->h.core, at, fuzz_u32(in), 1u << (what >> 4 & 3));
        break;
    case 9:
        fuzz_rings(c, 1 + fuzz_below(in, 5));
        break;
    case 10:
        some_command(c, in);
        break;
    case 11:
        ep->sq_prod = c->h.core.eps[ep->id].sq_prod;
        fuzz_send16(in, ep, FIX_WIRE, 1);
        unetmm_core_doorbell(&c->h.core, fuzz_below(in, 10));
        break;
    case 12:
        ep->fq_prod = c->h.core.eps[ep->id].fq_prod;
        fuzz_post16(in, ep, 1);
        unetmm_core_doorbell(&c->h.core, ep->id);
        break;
    default:
        fuzz_world_op(c, in);
        break;
    }
}

const FuzzTarget fuzz_target = { .lenient = true, .op = register_op };
