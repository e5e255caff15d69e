/*
 * unetmm: fuzzing: migration streams
 *
 * A card gets to work, is saved, and the saved state is changed before it is
 * loaded (fuzz_change.c); then driver, processes and wire use the card, and
 * none of them is sane any more.
 *
 * Beside the scene that all targets have there is a giver, whose memory is all
 * there and longer than any frame: a length that is too long has to be able to
 * go as far as it wants.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fuzz_change.h"
#include "fuzz_ops.h"
#include "fuzz_ud.h"

#define GIVER       (FUZZ_EPS + 2)  /* endpoint */
#define GIVER_SPACE 4
#define GIVER_PAGES 40
#define GIVER_KEY   0x91fe5u
#define GIVER_REGION 9
#define TO_GIVER    7               /* channel of the first endpoint, and its */
#define FROM_GIVER  4               /* import there */

static FakeEp giver;

/* ---- A card at work, before and after ---- */

static void arrives(FuzzCard *c, FuzzIn *in, FakeEp *ep)
{
    uint16_t n = fuzz_u16(in);
    FakeFrame *f = n >= 0xc000 ? fuzz_ud_frame(in, ep, n % 5000) :
                   fake_datagram(ep, FIX_WIRE, 10 + ep->id, n % 9001, 3);

    fake_receive(&c->h, f);
    g_free(f);
}

/* The process goes on where the card believes that it is. */
static void process_op(FuzzCard *c, FuzzIn *in, FakeEp *ep, uint8_t what)
{
    const UnetmmEp *known = &c->h.core.eps[ep->id];
    uint64_t at = fuzz_vaddr(in);
    uint32_t n = fuzz_u16(in);

    if (fuzz_loaded) {
        ep->sq_prod = known->sq_prod;
        ep->fq_prod = known->fq_prod;
    }
    if (what & 1) {
        fake_post(ep, at, n, 5);
    } else {
        fake_send_at(ep, what & 2 ? FIX_WIRE : FIX_LOCAL, at, n, 6);
    }
    fake_ring_bell(ep);
}

/* The first endpoint reads the giver's memory. */
static void read_op(FuzzCard *c, FuzzIn *in)
{
    FakeEp *ep = &c->ep[0];
    struct unetmm_sqe sqe = {
        .opcode = UNETMM_OP_READ, .cookie = 8, .channel = TO_GIVER,
        .handle = FROM_GIVER, .nsegs = 1,
    };

    sqe.remote = fuzz_u16(in);
    sqe.seg[0].addr = fuzz_vaddr(in);
    sqe.seg[0].len = fuzz_u16(in);
    if (fuzz_loaded) {
        ep->sq_prod = c->h.core.eps[ep->id].sq_prod;
    }
    fake_send_sqe(ep, sqe);
    fake_ring_bell(ep);
}

/* An answer to one of the misses that the card believes it has asked. */
static void answer(FuzzCard *c, FuzzIn *in)
{
    UnetmmCore *core = &c->h.core;
    uint8_t which = fuzz_u8(in), how = fuzz_u8(in);
    struct unetmm_cmd cmd = { .opcode = UNETMM_CMD_FAULT_REPLY };
    const UnetmmMiss *miss;
    uint32_t number;
    uint64_t pte[2];

    if (!core->miss->in_flight_used) {
        return;
    }
    number = core->miss->in_flight[which % core->miss->in_flight_used];
    miss = &core->miss->all[number];
    for (unsigned i = 0; i < G_N_ELEMENTS(pte); i++) {
        pte[i] = cpu_to_le64((c->h.next_page + (2 + i) * FAKE_PAGE) |
                             UNETMM_PTE_VALID | UNETMM_PTE_READ |
                             UNETMM_PTE_WRITE);
    }
    fake_write(&c->h, c->d.list, pte, sizeof(pte));
    cmd.space = core->miss->all[number].ep->space;
    cmd.reply.fault_id = (uint32_t)miss->generation << 16 | number;
    cmd.reply.status = how & 3;
    cmd.reply.error = how >> 2 & 15;
    cmd.reply.npages = how >> 6 & 2;
    cmd.reply.vaddr = miss->vpn << UNETMM_PAGE_SHIFT;
    cmd.reply.list = c->d.list;
    fuzz_issue(c, cmd);
}

static void invalidate(FuzzCard *c, FuzzIn *in)
{
    fake_set_reg(&c->h, UNETMM_REG_INV_SPACE, fuzz_below(in, 4));
    fake_set_reg(&c->h, UNETMM_REG_INV_LAST_HI, UINT32_MAX);
    fake_set_reg(&c->h, UNETMM_REG_INV_CTRL, 1);
    fake_reg(&c->h, UNETMM_REG_INV_CTRL);
}

static void close_one(FuzzCard *c, FakeEp *ep)
{
    fuzz_issue(c, (struct unetmm_cmd) { .opcode = UNETMM_CMD_EP_DESTROY,
                                        .ep = ep->id });
}

static void stream_op(FuzzCard *c, FuzzIn *in)
{
    uint8_t what = fuzz_u8(in);
    FakeEp *ep = &c->ep[what >> 6];

    switch (what & 15) {
    case 0: case 1: case 2: case 3:
        process_op(c, in, ep, what);
        break;
    case 4:
        arrives(c, in, ep);
        break;
    case 5:
        fuzz_load_changed(c, in);
        break;
    case 6:
        if (fuzz_loaded) {
            fuzz_move(c);
        }
        break;
    case 7: case 8:
        if (fuzz_loaded) {
            answer(c, in);
        } else {
            fake_serve(&c->d);
        }
        break;
    case 9:
        if (fuzz_loaded) {
            invalidate(c, in);
        }
        break;
    case 10:
        if (fuzz_loaded) {
            close_one(c, ep);
        }
        break;
    case 11:
        unetmm_core_doorbell(&c->h.core, fuzz_below(in, 10));
        break;
    case 13:
        read_op(c, in);
        break;
    case 14: case 15:
        fuzz_ops_op(c, in, ep);
        break;
    default:
        fuzz_world_op(c, in);
        break;
    }
}

static void connect_giver(FuzzCard *c, FakeEp *ep, const FakeEp *to)
{
    const struct unetmm_cmd_channel how = {
        .mtu = 9000, .send_psn = 7, .recv_psn = 7, .retries = 3,
        .timeout_us = 20, .not_ready_retries = 20,
    };

    fake_channel_rel(ep, TO_GIVER, c->h.core.params.mac, to->id, TO_GIVER,
                     &how);
}

static void start_giver(FuzzCard *c)
{
    FakeSpace *s = fake_space(&c->d, GIVER_SPACE, UNETMM_SOURCE_PINNED, 4);

    fake_map(s, FIX_VA, GIVER_PAGES * FAKE_PAGE, FAKE_R);
    fake_ep_init(&giver, &c->d, GIVER, s);
    fake_ep_create(&giver);
    fake_region(s, GIVER_REGION, GIVER_KEY, FIX_VA, GIVER_PAGES * FAKE_PAGE,
                UNETMM_RIGHT_READ, 0);
    connect_giver(c, &giver, &c->ep[0]);
    connect_giver(c, &c->ep[0], &giver);
    fake_import(&c->ep[0], FROM_GIVER, TO_GIVER, GIVER_REGION, GIVER_KEY,
                GIVER_PAGES * FAKE_PAGE, UNETMM_RIGHT_READ);
}

static void stream_start(FuzzCard *c)
{
    fuzz_ops_start(c);
    start_giver(c);
    fuzz_change_start(c);
}

const FuzzTarget fuzz_target = { .start = stream_start, .op = stream_op };
