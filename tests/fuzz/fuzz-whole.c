/*
 * unetmm: fuzzing: everybody at once, on a card with everything
 *
 * Endpoints with each source and each policy (fuzz_scene.c): processes post,
 * send, store and start; a peer knows the numbers that the card expects; the
 * driver answers misses, slots and records of the backup ring in any order,
 * moves parts of regions, arms counters, and ends and makes objects again.  The
 * bus refuses accesses, and the card is moved, with or without changes.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fuzz_change.h"
#include "fuzz_ops.h"
#include "fuzz_scene.h"

#define LIE_RATE 300000         /* of a million completions */
#define SENDS_UD 6              /* among a process's operations */

static FuzzRecords records;
static unsigned refuse_after, refuse_for;       /* accesses */

/* ---- The bus ---- */

static bool may_access(FakeHost *host, uint64_t addr)
{
    if (refuse_after) {
        refuse_after--;
        return true;
    }
    if (refuse_for) {
        refuse_for--;
        return false;
    }
    return true;
}

/* ---- Processes ---- */

/* A descriptor that suits the operation, but for a few members. */
static struct unetmm_sqe shaped_sqe(FuzzIn *in, uint8_t op)
{
    static const uint8_t channels[] = { SCENE_PAIR, SCENE_REL, FIX_LOCAL,
                                        FIX_WIRE };
    uint8_t how = fuzz_u8(in), flags = fuzz_u8(in);
    struct unetmm_sqe sqe = {
        .opcode = op, .flags = flags & UNETMM_SQE_F_ALL, .cookie = 7,
        .channel = channels[how & 3], .handle = how & 1,
    };

    if (op == UNETMM_OP_SEND || op == UNETMM_OP_WRITE) {
        sqe.imm = sqe.flags & (UNETMM_SQE_F_IMM | UNETMM_SQE_F_NOTIFY |
                               UNETMM_SQE_F_COUNT) ? how >> 4 : 0;
    } else {
        sqe.flags &= ~(UNETMM_SQE_F_IMM | UNETMM_SQE_F_NOTIFY |
                       UNETMM_SQE_F_COUNT);
    }
    if (op == UNETMM_OP_SEND || op == UNETMM_OP_FENCE) {
        sqe.handle = 0;
        sqe.flags &= ~UNETMM_SQE_F_KEYED;
    } else {
        sqe.remote = how & 8 ? fuzz_u16(in) : (how & 0xf0) * 16;
    }
    if (op == UNETMM_OP_FETCH_ADD || op == UNETMM_OP_CMP_SWAP) {
        sqe.flags |= UNETMM_SQE_F_INLINE;
        sqe.inline_len = op == UNETMM_OP_CMP_SWAP ? 16 : 8;
        sqe.remote = (sqe.remote & ~7ull) + (how & 8 ? 0 : 4);
    } else if (sqe.flags & UNETMM_SQE_F_INLINE) {
        sqe.inline_len = fuzz_below(in, UNETMM_SQE_INLINE + 1);
    } else if (op != UNETMM_OP_FENCE) {
        sqe.nsegs = 1;
        sqe.seg[0].addr = fuzz_vaddr(in);
        sqe.seg[0].len = fuzz_u16(in) % 12000;
    }
    if (flags & 0x40) {
        sqe.nsegs = 2;
        sqe.seg[1].addr = FIX_VA + FAKE_PAGE * (how & 7);
        sqe.seg[1].len = how;
    }
    return sqe;
}

static void post_operation(FuzzIn *in, FakeEp *ep, uint8_t what)
{
    static const uint8_t ops[] = {
        UNETMM_OP_SEND, UNETMM_OP_WRITE, UNETMM_OP_READ, UNETMM_OP_FETCH_ADD,
        UNETMM_OP_CMP_SWAP, UNETMM_OP_FENCE, [SENDS_UD + 1] = UNETMM_OP_WRITE,
    };
    struct unetmm_sqe sqe = shaped_sqe(in, ops[what & 7]);

    if (sqe.flags & UNETMM_SQE_F_KEYED) {
        sqe.region = ((ep->id - 1) ^ 1) + 1;
        sqe.handle = SCENE_KEY ^ (what >> 7);
        sqe.remote += SCENE_AT;
    }
    fake_send_sqe(ep, sqe);
}

/* More segments than a slot has, or a longer message inline. */
static void post_long(FuzzIn *in, FakeEp *ep)
{
    struct unetmm_seg seg[UNETMM_MAX_SEGS];
    uint8_t how = fuzz_u8(in);
    unsigned n = 1 + (how & 15);

    if (how & 0x80) {
        fake_send_inline(ep, how & 0x40 ? SCENE_REL : SCENE_PAIR, 1, n * 14, 5,
                         0);
        return;
    }
    for (unsigned i = 0; i < n; i++) {
        seg[i] = (struct unetmm_seg) {
            .addr = FIX_VA + ((i * how) & 7) * FAKE_PAGE + 4000,
        };
        seg[i].len = fuzz_u8(in) * 5;
    }
    fake_send(ep, how & 0x40 ? SCENE_REL : how & 0x20 ? FIX_WIRE : SCENE_PAIR,
              seg, n, 4, 0);
}

static void post_buffers(FuzzIn *in, FakeEp *ep)
{
    uint8_t how = fuzz_u8(in);
    uint64_t at = FIX_VA + (how & 7) * FAKE_PAGE;

    switch (how >> 6) {
    case 0:
        fuzz_post(in, ep);
        break;
    case 1:
        fake_post_cut(ep, at, 5000, 1 + (how & 0x38) * 64, 2);
        break;
    case 2:
        fake_post_fqes(ep, &(struct unetmm_fqe) {
            .addr = at, .len = FAKE_PAGE, .flags = UNETMM_FQE_F_ZERO }, 1);
        break;
    default:
        fake_post(ep, at + 50, (how & 0x38) * 300 + 100, 3);
        break;
    }
}

/* An Ethernet frame in the process's memory, and the order to send it. */
static void post_frame(FuzzCard *c, FuzzIn *in, FakeEp *ep)
{
    static const uint8_t ports[] = { 0, 80 };
    uint8_t how = fuzz_u8(in), frame[64];
    uint32_t len = UNETMM_ETH_HEADER - 2 + fuzz_u16(in) % 9200;
    uint64_t at = ep->space->source == UNETMM_SOURCE_DIRECT ? scene_list :
                  FIX_VA;
    FakeVpage *page = fake_vpage(ep->space, at);
    uint8_t mac[6] = SCENE_MAC(ep->id), to[6] = SCENE_MAC(how & 15);

    fuzz_bytes(in, frame, how & 0x80 ? sizeof(frame) : 0);
    if (!(how & 0x80)) {
        memset(frame, 0, sizeof(frame));
        memcpy(frame, to, 6);
        frame[0] |= how >> 4 & 1;
        memcpy(frame + 6, mac, 6);
        frame[12] = 8;
        frame[14] = 0x45;
        frame[16] = len >> 8;
        frame[23] = how & 0x40 ? UNETMM_IP_TCP : UNETMM_IP_UDP;
        memcpy(frame + 36, ports, sizeof(ports));
    }
    if (page || at == scene_list) {
        fake_write(&c->h, page ? page->dma : at, frame, sizeof(frame));
    }
    c->h.offload_fails = (how & 0x6f) == 0x6f;
    fake_send_sqe(ep, (struct unetmm_sqe) {
        .opcode = UNETMM_OP_FRAME, .nsegs = 1, .cookie = 9,
        .imm = how & 0x20 ? UNETMM_TX_CSUM | (how & 0x40 ? 1000 |
               UNETMM_TX_SEGMENT : 0) : 0,
        .seg = { { .addr = at, .len = page ? len : MIN(len, FAKE_PAGE) } },
    });
}

/* Of endpoint 0, to the station that the input says. */
static void post_control(FuzzIn *in, FakeEp *ep)
{
    struct unetmm_sqe sqe = {
        .opcode = UNETMM_OP_CONTROL, .flags = UNETMM_SQE_F_INLINE,
        .inline_len = fuzz_below(in, 33),
    };

    sqe.remote = fuzz_u8(in) & 1 ? 0xffffffffffffull : 0x024d4d005452ull;
    fake_send_sqe(ep, sqe);
}

static void process(FuzzCard *c, FuzzIn *in)
{
    uint8_t which = fuzz_u8(in), what = fuzz_u8(in);
    FakeEp *ep = &scene_eps[which % SCENE_EPS];
    const UnetmmEp *known = &c->h.core.eps[ep->id];

    ep->sq_prod = known->sq_prod;
    ep->fq_prod = known->fq_prod;
    switch (what >> 3 & 7) {
    case 0:
        post_buffers(in, ep);
        break;
    case 1:
        fake_user_word(ep, offsetof(struct unetmm_ep_user, cq_cons),
                       known->cq_prod);
        break;
    case 2:
        post_long(in, ep);
        break;
    case 3:
        fake_user_word(ep, 4 * (what & 3), what & 4 ? fuzz_u32(in) :
                       UNETMM_ARM | known->cq_prod);
        break;
    default:
        if (ep->id == SCENE_UD || (what & 7) == SENDS_UD) {
            fuzz_ud_send(c, in, ep);
        } else if (ep->id >= SCENE_RAW) {
            post_frame(c, in, ep);
        } else if (!ep->id) {
            post_control(in, ep);
        } else {
            post_operation(in, ep, what);
        }
        break;
    }
    if (!(which & 0x80)) {
        unetmm_core_doorbell(&c->h.core, ep->id);
    }
}

/* ---- The peer ---- */

/* One-sided: the region, and a place in it. */
static void shape_one_sided(FuzzIn *in, struct unetmm_frame *h, uint8_t how)
{
    uint32_t uses[] = { 0, UNETMM_WIRE_F_NOTIFY, UNETMM_WIRE_F_COUNT,
                        UNETMM_WIRE_F_IMM, UNETMM_WIRE_F_ACK };
    uint8_t where = fuzz_u8(in), use = where % G_N_ELEMENTS(uses);

    h->handle = h->dst_ep;
    h->offset = SCENE_KEY ^ (where == 0xff);
    h->remote = (where & 0x7f) * 160;
    if (where & 0x80) {
        h->flags |= UNETMM_WIRE_F_KEYED;
        h->remote += SCENE_AT;
    }
    switch (h->opcode) {
    case UNETMM_WIRE_READ:
        h->imm = 1 + how * 3 + UNETMM_PREP(UNETMM_READ_MORE, how & 3);
        break;
    case UNETMM_WIRE_ATOMIC:
        h->imm = h->len / 8;
        h->remote += h->remote & 4;
        break;
    default:
        if (h->flags & UNETMM_WIRE_F_LAST) {
            h->flags |= uses[use];
            h->imm = uses[use] == UNETMM_WIRE_F_ACK ? h->psn :
                     uses[use] ? where & 7 : 0;
        } else {
            h->imm = where * 16;
        }
        break;
    }
}

/* The packet that the channel waits for, or one near it. */
static void shape_packet(FuzzIn *in, struct unetmm_frame *h,
                         const UnetmmRel *rel, uint8_t how)
{
    int8_t near = how & 0x80 ? fuzz_u8(in) : 0;

    switch (h->opcode) {
    case UNETMM_WIRE_ACK:
        h->psn = rel->tx.una + (how & 7) + near;
        h->imm = how >> 3 & 7;
        h->remote = how & 0x40 ? fuzz_u8(in) : 0;
        h->offset = h->imm == UNETMM_ACK_NOT_READY ? 10 : how & 7;
        if (how & 8 && !h->imm) {
            h->flags |= UNETMM_WIRE_F_CREDIT;
            h->handle = rel->tx.nxt + (how & 7);
        }
        break;
    case UNETMM_WIRE_ANSWER:
        h->psn = rel->tx.una + (how & 7) + near;
        break;
    default:
        h->psn = rel->rx.nxt + near;
        break;
    }
    if (h->opcode == UNETMM_WIRE_SEND) {
        h->offset = rel->in.in_message ? rel->in.done : 0;
        h->remote = rel->in.in_message ? rel->in.len : h->offset + h->len +
                    (h->flags & UNETMM_WIRE_F_LAST ? 0 : how * 8);
        if (h->offset + h->len >= h->remote) {
            h->flags |= UNETMM_WIRE_F_LAST | (how & 4 ? UNETMM_WIRE_F_IMM : 0);
            h->imm = how & 4;
        }
    } else if (h->opcode >= UNETMM_WIRE_WRITE &&
               h->opcode < UNETMM_WIRE_ANSWER) {
        shape_one_sided(in, h, how);
    }
    if (how & 0x20 && (h->opcode == UNETMM_WIRE_SEND ||
                       h->opcode >= UNETMM_WIRE_ANSWER)) {
        h->flags |= UNETMM_WIRE_F_ACK;
        h->handle = rel->tx.una + (how & 7);
    }
}

static uint32_t packet_bytes(FuzzIn *in, uint8_t opcode, uint8_t how)
{
    switch (opcode) {
    case UNETMM_WIRE_ACK: case UNETMM_WIRE_READ: case UNETMM_WIRE_VOID:
        return 0;
    case UNETMM_WIRE_ATOMIC:
        return how & 1 ? 8 : 16;
    case UNETMM_WIRE_DATAGRAM:
        return fuzz_u16(in) % 9000;
    default:
        return how & 0x10 ? SCENE_MTU : fuzz_u8(in) * 3;
    }
}

static void deliver(FuzzCard *c, FuzzIn *in, FakeFrame *f, uint8_t damage)
{
    for (unsigned n = damage & 3; damage & 0x80 && n; n--) {
        unsigned at = fuzz_below(in, 64);

        f->data[at] ^= fuzz_u8(in);
    }
    if (le32_to_cpu(fake_header(f)->len) <= f->bytes - 64) {
        fake_seal(f);
    }
    fake_receive(&c->h, f);
    g_free(f);
}

/* For endpoint 0 and all stations, or for another one. */
static void control(FuzzCard *c, FuzzIn *in)
{
    uint8_t how = fuzz_u8(in);
    FakeFrame *f = fake_datagram(&scene_eps[how & 1], 0, 0, how >> 2, how);

    fake_header(f)->opcode = UNETMM_WIRE_CONTROL;
    if (how & 2) {
        memset(fake_header(f)->dst, 0xff, sizeof(fake_header(f)->dst));
    }
    deliver(c, in, f, 0);
}

static void peer(FuzzCard *c, FuzzIn *in)
{
    uint8_t which = fuzz_u8(in), how = fuzz_u8(in), flags = fuzz_u8(in);
    FakeEp *ep = &scene_eps[1 + (which & 15) % SCENE_BACKUP];
    uint8_t opcode = UNETMM_WIRE_DATAGRAM + (which >> 4) % UNETMM_WIRE_SEND_TO;
    const UnetmmRel *rel = fuzz_scene_rel(c, ep->id);
    uint32_t len;
    FakeFrame *f;

    if (opcode == UNETMM_WIRE_CONTROL) {
        control(c, in);
        return;
    }
    if (opcode == UNETMM_WIRE_SEND_TO) {
        ep = &scene_eps[scene_uds[which % SCENE_UDS]];
        f = fuzz_ud_frame(in, ep, how * 20);
        deliver(c, in, f, flags);
        return;
    }
    if (ep->id == SCENE_BACKUP) {
        opcode = UNETMM_WIRE_DATAGRAM;
    }
    len = packet_bytes(in, opcode, flags);
    f = fake_datagram(ep, opcode == UNETMM_WIRE_DATAGRAM ? FIX_WIRE : SCENE_REL,
                      20 + ep->id, len, how);
    if (opcode != UNETMM_WIRE_DATAGRAM && rel) {
        struct unetmm_frame h;

        memcpy(&h, f->data, sizeof(h));
        unetmm_le_frame(&h);
        h.opcode = opcode;
        h.flags = flags & (UNETMM_WIRE_F_ASK | UNETMM_WIRE_F_LAST);
        shape_packet(in, &h, rel, how);
        unetmm_le_frame(&h);
        memcpy(f->data, &h, sizeof(h));
    }
    deliver(c, in, f, flags);
}

/* A plain Ethernet frame, IP or not, with and without a tag. */
static void ethernet(FuzzCard *c, FuzzIn *in)
{
    uint8_t how = fuzz_u8(in), to[6] = SCENE_MAC(how & 15);
    uint32_t bytes = fuzz_below(in, 256) + (how & 0x80 ? 1500 : 0);
    uint8_t *raw = g_malloc0(bytes + 64), *at = raw + 12;

    memcpy(raw, how & 0x10 ? fake_peer_mac : to, 6);
    raw[0] |= how >> 6 & 1;
    if ((how & 0x50) == 0x50) {
        memset(raw, 0xff, 6);
    }
    if (how & 0x20) {
        at[0] = 0x81;
        at += 4;
    }
    fuzz_bytes(in, at, 26);
    if (at[1] & 1) {
        at[0] = 0x86;
        at[1] = 0xdd;
    } else if (at[1] & 2) {
        at[0] = 8;
        at[1] = 0;
    }
    c->h.checksums_ok = bytes & 1;
    /* Of its exact size, so that the sanitizer sees a byte too far. */
    raw = g_realloc(raw, bytes + !bytes);
    unetmm_core_receive(&c->h.core, raw, bytes);
    g_free(raw);
}

/* ---- The driver ---- */

/* All pages that there are, by the reply's list or by the table. */
static uint32_t give_pages(FuzzCard *c, const struct unetmm_fault *f)
{
    FakeSpace *s = f->space < FAKE_SPACES ? c->d.spaces[f->space] : NULL;
    uint32_t n = MIN(f->npages, FUZZ_PAGES);

    for (uint32_t i = 0; s && i < n; i++) {
        uint64_t at = f->vaddr + (uint64_t)i * FAKE_PAGE, pte;
        FakeVpage *page = fake_vpage(s, at);

        if (!page) {
            return i;
        }
        pte = cpu_to_le64(fake_pte(page));
        if (s->levels) {
            fake_table_set(s, at, fake_pte(page));
        } else {
            fake_write(&c->h, c->d.list + i * sizeof(pte), &pte, sizeof(pte));
        }
    }
    return s && !s->levels ? n : 0;
}

static void answer_record(FuzzCard *c, const struct unetmm_fault *f,
                          uint8_t how)
{
    struct unetmm_cmd cmd = { .space = f->space, .ep = f->ep };

    switch (f->type) {
    case UNETMM_FAULT_MISS:
        cmd.opcode = UNETMM_CMD_FAULT_REPLY;
        cmd.reply.fault_id = f->fault_id;
        cmd.reply.vaddr = f->vaddr;
        cmd.reply.list = c->d.list;
        cmd.reply.status = how & 0x10 ? how & 3 : UNETMM_REPLY_RESOLVED;
        if (cmd.reply.status == UNETMM_REPLY_RESOLVED) {
            cmd.reply.npages = give_pages(c, f);
        } else if (cmd.reply.status == UNETMM_REPLY_ERROR) {
            cmd.reply.error = UNETMM_ST_PROTECTION + (how >> 2 & 3);
        }
        break;
    case UNETMM_FAULT_SLOT:
        cmd.opcode = UNETMM_CMD_SYSBUF_DONE;
        cmd.slot.slot = f->fault_id;
        cmd.slot.status = how & 0x10 ? how & 3 : UNETMM_SLOT_LANDED;
        break;
    case UNETMM_FAULT_BACKUP:
        cmd.opcode = UNETMM_CMD_BACKUP_DONE;
        cmd.backup.slot = f->vaddr;
        cmd.backup.bit = f->tag;
        cmd.backup.status = how & 0x10 ? how & 3 : UNETMM_ST_OK;
        cmd.backup.cookie = how;
        break;
    default:
        return;
    }
    fuzz_issue(c, cmd);
}

/* Those that have come, each once; or one of the earlier ones again. */
static void answer(FuzzCard *c, FuzzIn *in)
{
    uint8_t how = fuzz_u8(in);
    unsigned first = records.n;

    if (how & 0x80) {
        answer_record(c, &records.at[fuzz_u8(in) % FUZZ_RECORDS], how);
        return;
    }
    fuzz_read_records(c, &records, 1 + (how & 15));
    for (unsigned i = first; i < records.n && how & 0x40; i++) {
        answer_record(c, &records.at[i % FUZZ_RECORDS], how);
    }
}

static void redirect(FuzzCard *c, FuzzIn *in)
{
    uint8_t which = fuzz_u8(in), where = fuzz_u8(in);
    struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_REGION_REDIRECT,
        .redirect = { .region = 1 + (which & 15) % SCENE_BACKUP,
                      .what = 1 + (which >> 4 & 3),
                      .offset = (where & 7) * 500, .list = scene_list },
    };

    if (cmd.redirect.what == UNETMM_REDIRECT_BEGIN) {
        cmd.redirect.length = 1 + (where >> 3) * 100;
        cmd.redirect.to = FIX_VA + 9 * FAKE_PAGE + (where & 15) * 100;
    } else if (cmd.redirect.what == UNETMM_REDIRECT_BACK) {
        cmd.redirect.length = where >> 3;
    }
    if (which & 0x80) {
        cmd.redirect.length = fuzz_u64(in);
    } else if (which & 0x40) {
        cmd.redirect.offset = fuzz_u16(in);
        cmd.redirect.list += fuzz_u8(in);
    }
    fuzz_issue(c, cmd);
}

/* Event counters, slots of free queues, flows, buffers of the backup ring. */
static void arm(FuzzCard *c, FuzzIn *in)
{
    uint8_t what = fuzz_u8(in);
    unsigned i = 1 + (what & 15) % (SCENE_EPS - 1);
    struct unetmm_cmd cmd = { .space = i & 1 ? 2 : 4, .ep = i };

    switch (what >> 5) {
    case 0: case 1:
        cmd.opcode = UNETMM_CMD_COUNTER_ARM;
        cmd.arm.counter = 8 + fuzz_below(in, 9);
        cmd.arm.value = fuzz_u8(in) & 7;
        cmd.arm.arm = !(what & 0x10);
        break;
    case 2: case 3:
        cmd.opcode = UNETMM_CMD_TAIL_ARM;
        cmd.tail.slot = c->h.core.eps[i].fq_prod + fuzz_below(in, 8);
        cmd.tail.arm = what & 0x10 ? fuzz_u8(in) : 1;
        break;
    case 4: case 5:
        cmd = fuzz_scene_flow(SCENE_RAW + i % 3, 1 + fuzz_below(in, 6));
        cmd.flow.flow = what & 15;
        cmd.flow.value = cmd.flow.kind == UNETMM_FLOW_ETHERTYPE ? 0x800 :
                         cmd.flow.kind < UNETMM_FLOW_GROUP &&
                         cmd.flow.kind > UNETMM_FLOW_MAC ? 80 : 0;
        if (what & 0x10) {
            cmd.opcode = UNETMM_CMD_FLOW_CLEAR;
        }
        break;
    default:
        fake_buffer_at(&c->d, scene_list + 64 * (what & 7), fuzz_u16(in),
                       what & 8);
        return;
    }
    fuzz_issue(c, cmd);
}

/* Ends an object, or makes it again. */
static void end_or_make(FuzzCard *c, FuzzIn *in)
{
    uint8_t what = fuzz_u8(in);
    unsigned i = 1 + (what & 15) % (SCENE_EPS - 1);
    bool rel = i <= SCENE_RELS, ends = what & 0x10;
    struct unetmm_cmd cmd = { .opcode = UNETMM_CMD_EP_DESTROY, .ep = i };

    switch (what >> 5) {
    case 0:
        if (!ends) {
            cmd = fuzz_scene_ep(i);
            memset(fake_ptr(&c->h, scene_eps[i].index, 128), 0, 128);
        }
        break;
    case 1: case 2:
        cmd = fuzz_scene_channel(c, rel ? i : 1, what >> 5 & 1);
        cmd.opcode = ends ? UNETMM_CMD_CHANNEL_CLEAR : cmd.opcode;
        if (i >= SCENE_RAW) {
            i = scene_uds[i % SCENE_UDS];
            cmd = ends ? fuzz_ud_flush(i) : fuzz_ud_set(i);
        }
        break;
    case 3:
        cmd = fuzz_scene_region(1 + i % SCENE_BACKUP);
        cmd.opcode = ends ? UNETMM_CMD_REGION_CLEAR : cmd.opcode;
        break;
    case 4:
        cmd = fuzz_scene_import(rel ? i : 1, fuzz_below(in, 3));
        cmd.opcode = ends ? UNETMM_CMD_IMPORT_CLEAR : cmd.opcode;
        break;
    case 5:
        cmd.opcode = UNETMM_CMD_SPACE_DESTROY;
        cmd.space = 1 + i % (SCENE_SPACES + 2);
        break;
    case 6:
        cmd.opcode = ends ? UNETMM_CMD_WINDOW_SET : UNETMM_CMD_PROXY_SET;
        fuzz_ops_shape(in, &cmd);
        break;
    default:
        cmd.opcode = ends ? UNETMM_CMD_WINDOW_CLEAR : UNETMM_CMD_PROXY_CLEAR;
        fuzz_ops_shape(in, &cmd);
        break;
    }
    fuzz_issue(c, cmd);
}

/* Pages go and come. */
static void change_pages(FuzzCard *c, FuzzIn *in)
{
    uint8_t what = fuzz_u8(in);
    FakeSpace *s = c->d.spaces[1 + (what & 15) % SCENE_SPACES];
    uint64_t at = FIX_VA + fuzz_below(in, FUZZ_PAGES) * FAKE_PAGE;
    uint64_t last = at + (1 + (what >> 6)) * FAKE_PAGE - 1;
    static const uint64_t others[] = {
        0, UNETMM_PTE_CHANGING, UNETMM_PTE_VALID, UNETMM_PTE_VALID |
        UNETMM_PTE_READ,
    };
    FakeVpage *page = fake_vpage(s, at);

    if (s->levels) {
        fake_table_set(s, at, what & 0x20 ? fake_pte(page) :
                       others[what >> 6] | (what & 0x80 ? page->dma : 0));
    }
    if (what & 0x10) {
        fuzz_issue(c, (struct unetmm_cmd) {
            .opcode = UNETMM_CMD_INVALIDATE, .space = s->id,
            .inv = { .start = at, .last = last } });
        return;
    }
    fake_set_reg(&c->h, UNETMM_REG_INV_SPACE, s->id);
    fake_set_reg(&c->h, UNETMM_REG_INV_START_LO, at);
    fake_set_reg(&c->h, UNETMM_REG_INV_START_HI, at >> 32);
    fake_set_reg(&c->h, UNETMM_REG_INV_LAST_LO, last);
    fake_set_reg(&c->h, UNETMM_REG_INV_LAST_HI, last >> 32);
    fake_set_reg(&c->h, UNETMM_REG_INV_CTRL, 1);
}

/* All that is in a ring: without this the card stops at some time. */
static void take(FuzzCard *c, unsigned ring)
{
    uint32_t reg = UNETMM_REG_RING(ring);

    fake_set_reg(&c->h, reg + UNETMM_RING_CONS,
                 fake_reg(&c->h, reg + UNETMM_RING_PROD));
}

static void driver(FuzzCard *c, FuzzIn *in)
{
    uint8_t what = fuzz_u8(in);
    uint32_t at;

    if (!(what & 0x80)) {
        take(c, UNETMM_RING_CMDC);
    }
    if (!(what & 0x40)) {
        take(c, UNETMM_RING_NOTIFY);
    }
    switch (what & 15) {
    case 0: case 1: case 2: case 3: case 4: case 5:
        answer(c, in);
        break;
    case 6: case 7:
        redirect(c, in);
        break;
    case 8: case 9:
        arm(c, in);
        break;
    case 10: case 11:
        end_or_make(c, in);
        break;
    case 12: case 13:
        change_pages(c, in);
        break;
    case 14:
        at = fuzz_reg_offset(in);
        fake_set_reg(&c->h, at, fuzz_reg_value(c, in));
        break;
    default:
        fuzz_some_command(c, in);
        break;
    }
}

/* ---- One operation ---- */

static void store(FuzzCard *c, FuzzIn *in)
{
    uint8_t how = fuzz_u8(in), data[8] = { how };
    uint32_t at = (how & 3) * FAKE_PAGE + 8 * fuzz_u8(in);

    if (how & 0x80) {
        unetmm_core_proxy_store(&c->h.core, at, fuzz_u16(in));
        unetmm_core_proxy_load(&c->h.core, (at ^ FAKE_PAGE));
    } else {
        unetmm_core_store(&c->h.core, at, data, 1u << (how >> 4 & 3));
    }
}

static void whole_op(FuzzCard *c, FuzzIn *in)
{
    uint8_t what = fuzz_u8(in);

    switch (what & 15) {
    case 0: case 1: case 2: case 3:
        process(c, in);
        break;
    case 4: case 5: case 6:
        peer(c, in);
        break;
    case 7: case 8: case 9:
        driver(c, in);
        break;
    case 10:
        store(c, in);
        break;
    case 11:
        ethernet(c, in);
        break;
    case 12:
        refuse_after = fuzz_u8(in);
        refuse_for = what >> 4 & 7;
        c->h.core.knobs.lie = what & 0x80 ? LIE_RATE : 0;
        break;
    case 13:
        if (what & 0x80) {
            fuzz_load_changed(c, in);
        } else {
            fuzz_move(c);
        }
        break;
    case 14:
        fuzz_world_op(c, in);
        break;
    default:
        fake_advance(&c->h, fuzz_u16(in));
        fake_run_later(&c->h);
        break;
    }
}

static void whole_start(FuzzCard *c)
{
    refuse_after = refuse_for = 0;
    memset(&records, 0, sizeof(records));
    fuzz_scene_start(c);
    fuzz_change_reset();
    c->h.may_access = may_access;
}

static void whole_end(FuzzCard *c)
{
    refuse_after = refuse_for = 0;
}

const FuzzTarget fuzz_target = {
    .lenient = true, .bare = true, .params = fuzz_scene_params,
    .start = whole_start, .op = whole_op, .end = whole_end,
};
