/*
 * unetmm: fuzzing: registers
 *
 * Reads and writes of any register at any width, with rings set up again now
 * and then and traffic between, so that they meet a card at work.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fuzz.h"

static void register_op(FuzzCard *c, FuzzIn *in)
{
    uint8_t what = fuzz_u8(in);
    FakeEp *ep = &c->ep[what >> 6];
    uint32_t at;

    switch (what & 15) {
    case 0: case 1: case 2:
        unetmm_core_read(&c->h.core, fuzz_reg_offset(in), 4);
        break;
    case 3:
        unetmm_core_read(&c->h.core, fuzz_u32(in), 1u << (what >> 4 & 3));
        break;
    case 4: case 5: case 6: case 7:
        at = fuzz_reg_offset(in);
        fake_set_reg(&c->h, at, fuzz_reg_value(c, in));
        break;
    case 8:
        at = fuzz_u32(in);
        unetmm_core_write(&c->h.core, at, fuzz_u32(in), 1u << (what >> 4 & 3));
        break;
    case 9:
        fuzz_rings(c, 1 + fuzz_below(in, 5));
        break;
    case 10:
        fuzz_some_command(c, in);
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
