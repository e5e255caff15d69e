/*
 * unetmm: fuzzing: commands
 *
 * A hostile driver: every field of every command is the input's, or shaped so
 * that it gets further.  Processes and frames go on meanwhile, so that spaces
 * and endpoints come and go under traffic.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fuzz_ops.h"
#include "fuzz_ud.h"

#define NUMBERS 18              /* of channels, two of which the card lacks */
#define UD      (12 * NUMBERS)  /* bytes from here on: a UD channel */

/* An address in the driver's memory, or anywhere. */
static uint64_t dma_addr(FuzzCard *c, FuzzIn *in)
{
    uint8_t how = fuzz_u8(in);

    if (how == 0xff) {
        return fuzz_u64(in);
    }
    if (how & 0x80) {
        return c->d.list + (how & 0x7f) * 32;
    }
    return c->h.next_page + (uint64_t)(how & 0x3f) * FAKE_PAGE;
}

static void shape_ep(FuzzCard *c, FuzzIn *in, struct unetmm_cmd *cmd)
{
    const FakeEp *like = &c->ep[fuzz_below(in, FUZZ_EPS)];
    uint8_t odd = fuzz_u8(in);

    cmd->ep_create = fake_ep_cmd(like).ep_create;
    cmd->ep_create.pd = odd >> 6;
    cmd->ep_create.policy = odd & 1 ? odd >> 3 & 3 : UNETMM_POLICY_DROP;
    cmd->ep_create.pretranslate = odd >> 1 & 7;
    if ((odd & 0x0f) == 0x0e) {
        cmd->ep_create.policy = UNETMM_POLICY_BACKUP;
        cmd->ep_create.backup = fuzz_below(in, 66);
    } else if ((odd & 0x0f) == 0x0c) {
        cmd->ep_create.flags = UNETMM_EP_F_RAW;
        cmd->ep_create.pretranslate = 0;
    } else if ((odd & 0x0f) == 0x0a) {
        cmd->ep_create.flags = UNETMM_EP_F_KEYS;
        cmd->ep_create.pretranslate = 0;
    } else if ((odd & 0x0f) == 0x08) {
        cmd->ep_create.flags = UNETMM_EP_F_SHARED;
    } else if ((odd & 0x0f) == 0x06) {
        cmd->ep_create.fq_of = fuzz_below(in, 9);
        cmd->ep_create.pretranslate = 0;
    }
    if (odd & 0x10) {
        cmd->ep_create.index = dma_addr(c, in);
    }
    if (odd & 0x20) {
        cmd->ep_create.cq_base = dma_addr(c, in);
    }
    if (odd & 0x40) {
        cmd->ep_create.sq_log2 = fuzz_below(in, 20);
    }
    if (odd & 0x80) {
        memset(fake_ptr(&c->h, like->index, 128), 0, 128);
    }
}

static void shape_channel(FuzzCard *c, FuzzIn *in, struct unetmm_cmd *cmd)
{
    uint8_t number = fuzz_u8(in), how;

    cmd->channel.channel = number % NUMBERS;
    cmd->channel.peer_ep = fuzz_below(in, 9);
    cmd->channel.peer_channel = cmd->channel.channel;
    cmd->channel.mtu = fuzz_len(in);
    cmd->channel.type = number >= UD ? UNETMM_CHANNEL_UD :
                        cmd->channel.channel & 1;
    cmd->channel.recv_credits = cmd->channel.channel & 6;
    cmd->channel.qkey = FUZZ_UD_KEY;
    how = fuzz_u8(in);
    memcpy(cmd->channel.peer_mac, how & 1 ? fake_peer_mac :
           c->h.core.params.mac, 6);
    cmd->channel.denied = how >> 1 & 7;
    cmd->channel.state = how >> 4 & 3;
    cmd->channel.flags = (how & 0x40 ? UNETMM_CHANNEL_F_STRICT : 0) |
                         (how & 0x80 ? UNETMM_CHANNEL_F_TELL |
                                       UNETMM_CHANNEL_F_FLUSH : 0);
    if (number >= UD && !(how & 1) &&
        cmd->opcode == UNETMM_CMD_CHANNEL_SET) {
        /* The members that a UD channel has */
        cmd->channel = (struct unetmm_cmd_channel) {
            .channel = cmd->channel.channel, .mtu = cmd->channel.mtu,
            .type = UNETMM_CHANNEL_UD, .qkey = FUZZ_UD_KEY,
            .flags = cmd->channel.flags & UNETMM_CHANNEL_F_TELL,
        };
    }
}

static void shape_modify(FuzzIn *in, struct unetmm_cmd *cmd)
{
    cmd->modify.channel = fuzz_below(in, 18);
    cmd->modify.members = fuzz_below(in, UNETMM_MODIFY_ALL + 2);
    cmd->modify.state = fuzz_below(in, 4);
    cmd->modify.retries = fuzz_below(in, 9);
    cmd->modify.not_ready_retries = fuzz_below(in, 9);
    cmd->modify.denied = fuzz_below(in, UNETMM_RIGHT_ALL + 2);
    cmd->modify.timeout_us = fuzz_u8(in);
    cmd->modify.not_ready_us = fuzz_u8(in);
    cmd->modify.send_psn = cmd->modify.recv_psn = fuzz_u8(in);
}

static void shape_region(FuzzIn *in, struct unetmm_cmd *cmd)
{
    cmd->region.region = fuzz_below(in, 18);
    cmd->region.addr = fuzz_vaddr(in);
    cmd->region.length = fuzz_len(in);
    cmd->region.rights = fuzz_below(in, 9);
    cmd->region.flags = fuzz_below(in, UNETMM_REGION_F_ALL + 2);
    cmd->region.counter = cmd->region.flags * 100;
    cmd->region.ncounters = cmd->region.region;
    cmd->region.pd = cmd->region.region & 3;
    cmd->region.iova = cmd->region.flags & UNETMM_REGION_F_IOVA ?
                       cmd->region.addr * 3 : 0;
}

static void shape_reply(FuzzCard *c, FuzzIn *in, struct unetmm_cmd *cmd)
{
    const UnetmmCore *core = &c->h.core;
    uint8_t pages = fuzz_u8(in);
    uint32_t number;
    uint64_t pte;

    /* A list of any length, where it may well lie in readable memory. */
    cmd->reply.npages = pages < 0xf0 ? pages % 16 : fuzz_u16(in);
    cmd->reply.list = pages < 0xf0 ? c->d.list : c->h.next_page + 2 * FAKE_PAGE;
    cmd->reply.vaddr = fuzz_vaddr(in) & ~4095ull;
    cmd->reply.status = fuzz_below(in, 5);
    cmd->reply.error = fuzz_below(in, 14);
    cmd->reply.fault_id = UNETMM_FAULT_NONE;
    for (unsigned i = 0; i < cmd->reply.npages && pages < 0xf0; i++) {
        pte = cpu_to_le64(dma_addr(c, in) | 7);
        fake_write(&c->h, c->d.list + i * 8, &pte, 8);
    }
    if (core->miss->in_flight_used && fuzz_u8(in) & 3) {
        number = core->miss->in_flight[
            fuzz_below(in, core->miss->in_flight_used)];
        cmd->space = core->miss->all[number].ep->space;
        cmd->reply.fault_id =
            (uint32_t)core->miss->all[number].generation << 16 |
                              number;
        cmd->reply.vaddr = core->miss->all[number].vpn << 12;
    }
}

static void shape_counters_or_slots(FuzzCard *c, FuzzIn *in,
                                    struct unetmm_cmd *cmd)
{
    switch (cmd->opcode) {
    case UNETMM_CMD_SYSBUF_SET:
        cmd->sysbuf.list = dma_addr(c, in) & ~7ull;
        cmd->sysbuf.slots = fuzz_below(in, FAKE_SLOTS + 2);
        cmd->sysbuf.slot_bytes = UNETMM_SLOT_HEAD + 9000;
        break;
    case UNETMM_CMD_SYSBUF_DONE:
        cmd->slot.slot = fuzz_below(in, FAKE_SLOTS + 2);
        cmd->slot.status = fuzz_below(in, 4);
        break;
    case UNETMM_CMD_BACKUP_DONE:
        cmd->backup.slot = fuzz_u8(in);
        cmd->backup.bit = fuzz_below(in, 66);
        cmd->backup.status = fuzz_below(in, UNETMM_NUM_ST + 1);
        break;
    case UNETMM_CMD_INVALIDATE:
        cmd->inv.start = dma_addr(c, in);
        cmd->inv.last = cmd->inv.start + fuzz_below(in, 1 << 16) - 4096;
        break;
    case UNETMM_CMD_TAIL_ARM:
        cmd->tail.slot = fuzz_u8(in);
        cmd->tail.arm = fuzz_below(in, 3);
        break;
    case UNETMM_CMD_LOW_ARM:
        cmd->low.buffers = fuzz_below(in, 18);
        break;
    case UNETMM_CMD_COUNTERS_SET:
        cmd->counters.page = dma_addr(c, in) & ~4095ull;
        break;
    case UNETMM_CMD_COUNTER_ARM:
        cmd->arm.counter = fuzz_below(in, UNETMM_EVENT_COUNTERS + 2);
        cmd->arm.value = fuzz_u8(in);
        cmd->arm.arm = fuzz_below(in, 3);
        break;
    default:
        fuzz_ops_shape(in, cmd);
        break;
    }
}

static void shaped_command(FuzzCard *c, FuzzIn *in)
{
    struct unetmm_cmd cmd = { .opcode = fuzz_below(in, UNETMM_NUM_CMD) };

    cmd.space = fuzz_below(in, 9);
    cmd.ep = fuzz_below(in, 9);
    switch (cmd.opcode) {
    case UNETMM_CMD_SPACE_CREATE:
        cmd.space_create.source = fuzz_below(in, unetmm_tables.nsources);
        cmd.space_create.levels = fuzz_below(in, 8);
        cmd.space_create.table = cmd.space_create.levels ?
                                 dma_addr(c, in) & ~4095ull : 0;
        break;
    case UNETMM_CMD_EP_CREATE:
        shape_ep(c, in, &cmd);
        break;
    case UNETMM_CMD_CHANNEL_SET:
    case UNETMM_CMD_CHANNEL_CLEAR:
        shape_channel(c, in, &cmd);
        break;
    case UNETMM_CMD_CHANNEL_MODIFY:
        shape_modify(in, &cmd);
        break;
    case UNETMM_CMD_FAULT_REPLY:
        shape_reply(c, in, &cmd);
        break;
    case UNETMM_CMD_REGION_REDIRECT:
        cmd.redirect.region = fuzz_below(in, 18);
        cmd.redirect.what = fuzz_below(in, 6);
        cmd.redirect.offset = fuzz_len(in);
        cmd.redirect.length = fuzz_len(in);
        cmd.redirect.to = fuzz_vaddr(in);
        cmd.redirect.list = dma_addr(c, in) & ~7ull;
        break;
    case UNETMM_CMD_REGION_SET:
    case UNETMM_CMD_REGION_CLEAR:
        shape_region(in, &cmd);
        break;
    default:
        shape_counters_or_slots(c, in, &cmd);
        break;
    }
    fuzz_issue(c, cmd);
}

static void traffic(FuzzCard *c, FuzzIn *in)
{
    FakeEp *ep = &c->ep[fuzz_below(in, FUZZ_EPS)];
    UnetmmEp *live = &c->h.core.eps[ep->id];
    FakeFrame *f;
    uint16_t n;

    /* The process follows whatever the driver has made of its endpoint. */
    ep->sq_prod = live->sq_prod;
    ep->fq_prod = live->fq_prod;
    switch (fuzz_below(in, 6)) {
    case 0:
        fuzz_send16(in, ep, fuzz_u8(in) & 1 ? FIX_WIRE : FIX_LOCAL, 1);
        break;
    case 1:
        fuzz_post(in, ep);
        break;
    case 2:
        fake_user_word(ep, offsetof(struct unetmm_ep_user, cq_cons),
                       live->cq_prod);
        break;
    case 3: case 4:
        fuzz_ops_op(c, in, ep);
        break;
    default:
        n = fuzz_u16(in);
        f = n >= 0xc000 ? fuzz_ud_frame(in, ep, n % 5000) :
            fake_datagram(ep, FIX_WIRE, 10 + ep->id, n % 5000, 3);
        fake_receive(&c->h, f);
        g_free(f);
        break;
    }
    unetmm_core_doorbell(&c->h.core, ep->id);
}

static void command_op(FuzzCard *c, FuzzIn *in)
{
    struct unetmm_cmd cmd;

    switch (fuzz_below(in, 8)) {
    case 0: case 1: case 2:
        shaped_command(c, in);
        break;
    case 3:
        fuzz_bytes(in, &cmd, sizeof(cmd));
        fuzz_issue(c, cmd);
        break;
    case 4: case 5:
        traffic(c, in);
        break;
    case 6:
        fuzz_take_all(c);
        break;
    default:
        fuzz_world_op(c, in);
        break;
    }
}

const FuzzTarget fuzz_target = {
    .lenient = true, .start = fuzz_ops_start, .op = command_op,
};
