/*
 * unetmm: fuzzing: one-sided operations between endpoints of one card
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fuzz_ops.h"
#include "fuzz_ud.h"

#define PAIR            3               /* channel to the neighbour ... */
#define TO_VICTIM       5               /* ... and to the victim; there: its */
#define KEY             0x5ec4e7u
#define MTU             1000
#define PSN             0xfffffff8u     /* about to wrap */

#define VICTIM          (FUZZ_EPS + 1)  /* endpoint */
#define VICTIM_SPACE    3
#define VICTIM_PAGES    4
#define VICTIM_REGION   8
#define CREDITS         3
#define OFFSET          4000            /* of the region in its memory */
#define LENGTH          5000

#define SENDS_UD        180             /* first bytes of operations, */
#define CHANGES_UD      0x70            /* and of the driver's */

static struct {
    FakeEp ep;
    uint64_t page[VICTIM_PAGES];        /* where they lie */
    bool exported;
    uint8_t rights;
} victim;

/* ---- Accesses of the card to the victim ---- */

static void check_victim(const FakeHost *host, uint64_t addr, size_t bytes,
                         uint8_t rights)
{
    for (unsigned i = 0; i < VICTIM_PAGES && !host->lenient; i++) {
        uint64_t at = addr - victim.page[i];

        if (at >= FAKE_PAGE) {
            continue;
        }
        at += (uint64_t)i * FAKE_PAGE - OFFSET;
        if (!victim.exported || !(victim.rights & rights) || bytes > LENGTH ||
            at > LENGTH - bytes) {
            fail_msg("%zu bytes from %" PRId64 " of the region: exported %d, "
                     "rights %u", bytes, (int64_t)at, victim.exported,
                     victim.rights);
        }
    }
}

static void on_write(FakeHost *host, uint64_t addr, size_t bytes)
{
    check_victim(host, addr, bytes,
                 UNETMM_RIGHT_WRITE | UNETMM_RIGHT_ATOMIC);
}

static void on_read(FakeHost *host, uint64_t addr, size_t bytes)
{
    check_victim(host, addr, bytes,
                 UNETMM_RIGHT_READ | UNETMM_RIGHT_ATOMIC);
}

/* A driver that is sane waits for the end of its command. */
static void command(FuzzCard *c, struct unetmm_cmd cmd)
{
    struct unetmm_cmd_done done;
    unsigned rounds = 0;

    if (c->lenient) {
        fuzz_issue(c, cmd);
        return;
    }
    fake_issue(&c->d, cmd);
    while (!fake_done(&c->d, &done)) {
        assert_true(++rounds < 1000000);
        fake_advance(&c->h, 1000);
    }
}

/* Each space has a page of counters; nothing else of it is ever written. */
static void give_counters(FuzzCard *c, FakeSpace *s)
{
    fake_command(&c->d, (struct unetmm_cmd) {
        .opcode = UNETMM_CMD_COUNTERS_SET, .space = s->id,
        .counters.page = fake_alloc(&c->h, FAKE_PAGE, FAKE_PAGE, FAKE_RW) },
        NULL);
}

static void victim_exports(FuzzCard *c, uint8_t rights)
{
    const struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_REGION_SET, .space = VICTIM_SPACE,
        .region = { .region = VICTIM_REGION, .key = KEY,
                    .addr = FIX_VA + OFFSET, .length = LENGTH,
                    .cookie = 1, .rights = rights,
                    .flags = UNETMM_REGION_F_NOTIFY | UNETMM_REGION_F_KEYED,
                    .counter = 510, .ncounters = 2 },
    };

    /* It may be used before the driver has read that it is. */
    if (!victim.exported) {
        victim.exported = true;
        victim.rights = rights;
        command(c, cmd);
    }
}

/* Not its memory's any more when the command has ended, not before. */
static void victim_takes_back(FuzzCard *c)
{
    command(c, (struct unetmm_cmd) {
        .opcode = UNETMM_CMD_REGION_CLEAR,
        .region.region = VICTIM_REGION });
    victim.exported = false;
}

/* ---- The scene ---- */

static void connect(FakeEp *ep, uint16_t channel, const FakeEp *to,
                    uint16_t there, uint32_t psn)
{
    const struct unetmm_cmd_channel how = {
        .mtu = MTU, .send_psn = psn, .recv_psn = psn, .retries = 3,
        .timeout_us = 20, .not_ready_retries = 20,
        .recv_credits = ep == &victim.ep ? CREDITS : 0,
        .send_credits = to == &victim.ep ? CREDITS : 0,
        /* One pair at one end, the other one at both ends and for WRITEs */
        .flags = (ep->id != 2 ? UNETMM_CHANNEL_F_ACK : 0) |
                 (ep->id > 2 ? UNETMM_CHANNEL_F_ACK_WRITE : 0),
    };

    /* No room for one more, or not a live endpoint: it has none, then. */
    fake_channel_rel(ep, channel, ep->host->core.params.mac, to->id, there,
                     &how);
}

/* The true values, and a false key and length. */
static void import_all(FuzzCard *c, unsigned i)
{
    FakeEp *ep = &c->ep[i];

    fake_import(ep, 0, PAIR, i ^ 1, KEY, FUZZ_PAGES * FAKE_PAGE,
                UNETMM_RIGHT_ALL);
    fake_import(ep, 1, TO_VICTIM, VICTIM_REGION, KEY, LENGTH,
                UNETMM_RIGHT_ALL);
    fake_import(ep, 2, TO_VICTIM, VICTIM_REGION, KEY ^ 1 << i, LENGTH,
                UNETMM_RIGHT_ALL);
    fake_import(ep, 3, TO_VICTIM, VICTIM_REGION, KEY, 1ull << 40,
                UNETMM_RIGHT_ALL);
}

static void open_pages(FuzzCard *c, unsigned i)
{
    struct unetmm_cmd window = {
        .opcode = UNETMM_CMD_WINDOW_SET, .ep = c->ep[i].id,
        .window = { .page = i, .npages = 1, .import = i & 1 ? 0 : 3,
                    .combine_bytes = i & 2 ? 64 : 0,
                    .combine_ns = i & 2 ? 700 : 0 },
    };
    struct unetmm_cmd proxy = {
        .opcode = UNETMM_CMD_PROXY_SET, .ep = c->ep[i & 2].id,
        .proxy = { .page = i, .npages = 1, .import = i & 1 ? 0 : 3,
                   .kind = i & 1 ? UNETMM_PROXY_FROM : UNETMM_PROXY_TO,
                   .at = i & 1 ? FIX_VA : 0 },
    };

    fake_command(&c->d, window, NULL);
    fake_command(&c->d, proxy, NULL);
}

void fuzz_ops_open(FuzzCard *c, unsigned i, uint32_t psn)
{
    FakeEp *ep = &c->ep[i];

    connect(ep, PAIR, &c->ep[i ^ 1], PAIR, psn);
    connect(&c->ep[i ^ 1], PAIR, ep, PAIR, psn);
    connect(ep, TO_VICTIM, &victim.ep, TO_VICTIM + i, psn);
    connect(&victim.ep, TO_VICTIM + i, ep, TO_VICTIM, psn);
    fake_command(&c->d, fuzz_ud_set(ep->id), NULL);
    import_all(c, i);
    import_all(c, i ^ 1);
    open_pages(c, i);
}

void fuzz_ops_start(FuzzCard *c)
{
    FakeSpace *s = fake_space(&c->d, VICTIM_SPACE, UNETMM_SOURCE_TLB, 0);

    fake_map(s, FIX_VA, VICTIM_PAGES * FAKE_PAGE, FAKE_RW);
    for (unsigned i = 0; i < VICTIM_PAGES; i++) {
        victim.page[i] = fake_vpage(s, FIX_VA + i * FAKE_PAGE)->dma;
    }
    give_counters(c, s);
    fake_sysbuf(&c->d, FUZZ_EPS * CREDITS, 9000);
    c->d.hold_slots = true;
    fake_ep_init(&victim.ep, &c->d, VICTIM, s);
    victim.ep.policy = UNETMM_POLICY_REDIRECT;
    fake_ep_create(&victim.ep);
    c->h.on_write = on_write;
    c->h.on_read = on_read;
    for (unsigned i = 0; i < FUZZ_EPS; i++) {
        fake_region(c->ep[i].space, i, KEY, FIX_VA, FUZZ_PAGES * FAKE_PAGE,
                    UNETMM_RIGHT_ALL, UNETMM_REGION_F_NOTIFY |
                    (i & 1 ? UNETMM_REGION_F_KEYED : 0));
    }
    victim.exported = false;
    victim_exports(c, UNETMM_RIGHT_ALL);
    for (unsigned i = 0; i < FUZZ_EPS; i++) {
        fuzz_ops_open(c, i, PSN);
    }
}

/* ---- Processes ---- */

/*
 * Number, key and address in place of an import: the victim's, a neighbour's
 * or others; wrong keys, and addresses outside of the region among them.
 */
static void post_by_key(FuzzIn *in, struct unetmm_sqe *sqe)
{
    uint8_t which = fuzz_u8(in);

    sqe->flags |= UNETMM_SQE_F_KEYED;
    sqe->region = which & 1 ? VICTIM_REGION : which >> 1 & 15;
    sqe->handle = KEY ^ (which & 0x20 ? 1u << (which >> 1 & 15) : 0);
    sqe->remote += which & 0x40 ? 0 : FIX_VA + (which & 0x80 ? 0 : OFFSET);
}

static void post(FuzzCard *c, FuzzIn *in, FakeEp *ep)
{
    uint8_t how = fuzz_u8(in), what = fuzz_u8(in);
    struct unetmm_sqe sqe = {
        .opcode = UNETMM_OP_WRITE + how % 5, .cookie = 3,
        .channel = what & 3 ? TO_VICTIM : PAIR, .handle = what & 3,
        .flags = (what >> 4 & 15) | (what & 4 ? UNETMM_SQE_F_IMM : 0),
        .remote = fuzz_u16(in) % 6000,
        .imm = what & 4 || what >> 4 & UNETMM_SQE_F_COUNT ? how & 3 : 0,
    };

    if (sqe.opcode == UNETMM_OP_FENCE) {
        sqe.handle = sqe.remote = 0;
    } else if (sqe.opcode >= UNETMM_OP_FETCH_ADD) {
        sqe.flags |= UNETMM_SQE_F_INLINE;
        sqe.remote &= ~7u;
        sqe.inline_len = sqe.opcode == UNETMM_OP_CMP_SWAP ? 16 : 8;
        sqe.nsegs = how >> 7;
        if (sqe.nsegs) {
            sqe.seg[UNETMM_SQE_RESULT].addr = cpu_to_le64(fuzz_vaddr(in));
            sqe.seg[UNETMM_SQE_RESULT].len = cpu_to_le32(8);
        }
    } else if (sqe.flags & UNETMM_SQE_F_INLINE) {
        sqe.inline_len = fuzz_below(in, UNETMM_SQE_INLINE + 1);
    } else {
        sqe.nsegs = 1 + (how >> 7);
        sqe.seg[0].addr = fuzz_vaddr(in);
        sqe.seg[0].len = fuzz_u16(in) % 6000;
        sqe.seg[1].addr = FIX_VA;
        sqe.seg[1].len = sqe.nsegs == 2 ? how : 0;
    }
    if (what & 8) {
        post_by_key(in, &sqe);
    }
    if (c->lenient) {
        ep->sq_prod = c->h.core.eps[ep->id].sq_prod;
    }
    fake_send_sqe(ep, sqe);
    fake_ring_bell(ep);
}

static void store(FuzzCard *c, FuzzIn *in)
{
    uint8_t data[8], how = fuzz_u8(in);
    uint32_t at = how & 0x80 ? fuzz_u16(in) % sizeof(c->h.windows) :
                  (how >> 4 & 3) * FAKE_PAGE + 8 * fuzz_below(in, 255);
    unsigned bytes = 1 + (how & 7);

    fuzz_bytes(in, data, sizeof(data));
    if (at <= sizeof(c->h.windows) - bytes) {
        memcpy(c->h.windows + at, data, bytes);
    }
    unetmm_core_store(&c->h.core, at, data, bytes);
}

static void start(FuzzCard *c, FuzzIn *in)
{
    uint8_t how = fuzz_u8(in);
    uint64_t page = (uint64_t)(how & 7) * FAKE_PAGE, at;
    uint32_t result;

    if (how & 0x80) {
        at = page + fuzz_u16(in) % FAKE_PAGE;
        unetmm_core_proxy_store(&c->h.core, at,
                                how & 0x40 ? fuzz_len(in) : fuzz_u8(in));
    }
    if (how & 0x20) {
        fake_set_reg(&c->h, UNETMM_REG_PROXY_ABORT, 0);
    }
    if (how & 0x10) {
        result = unetmm_core_proxy_load(&c->h.core,
                                        (page ^ FAKE_PAGE) + fuzz_u8(in));
        assert_in_range(result, UNETMM_START_SPLIT, UNETMM_START_DONE);
    }
}

/* ---- The driver ---- */

static const uint8_t shaped[] = {
    UNETMM_CMD_WINDOW_SET, UNETMM_CMD_WINDOW_CLEAR, UNETMM_CMD_PROXY_SET,
    UNETMM_CMD_PROXY_CLEAR, UNETMM_CMD_IMPORT_SET, UNETMM_CMD_IMPORT_CLEAR,
};

static uint64_t whole_pages(FuzzIn *in, uint8_t how)
{
    return how & 0x80 ? -(uint64_t)fuzz_u16(in) : fuzz_u8(in) * FAKE_PAGE;
}

void fuzz_ops_shape(FuzzIn *in, struct unetmm_cmd *cmd)
{
    uint8_t how = fuzz_u8(in);

    switch (cmd->opcode) {
    case UNETMM_CMD_WINDOW_SET:
    case UNETMM_CMD_WINDOW_CLEAR:
        cmd->window.page = how & 7;
        cmd->window.npages = 1 + (how >> 3 & 3);
        cmd->window.offset = whole_pages(in, how);
        cmd->window.import = fuzz_below(in, 10);
        cmd->window.combine_bytes = fuzz_u8(in);
        cmd->window.combine_ns = how & 0x20 ? fuzz_u16(in) :
                                 cmd->window.combine_bytes ? 700 : 0;
        break;
    case UNETMM_CMD_PROXY_SET:
    case UNETMM_CMD_PROXY_CLEAR:
        cmd->proxy.page = how & 7;
        cmd->proxy.npages = 1 + (how >> 3 & 3);
        cmd->proxy.kind = fuzz_below(in, 4);
        cmd->proxy.import = cmd->proxy.kind == UNETMM_PROXY_TO ?
                            fuzz_below(in, 10) : 0;
        cmd->proxy.at = whole_pages(in, how) + (how & 0x40 ? FIX_VA : 0);
        break;
    case UNETMM_CMD_IMPORT_SET:
    case UNETMM_CMD_IMPORT_CLEAR:
        cmd->import.import = how & 7;
        cmd->import.channel = how & 8 ? PAIR : TO_VICTIM;
        cmd->import.region = how & 0x10 ? fuzz_u8(in) : VICTIM_REGION;
        cmd->import.key = KEY ^ (how & 0x20 ? fuzz_u32(in) : 0);
        cmd->import.length = how & 0x40 ? fuzz_u64(in) : LENGTH;
        cmd->import.rights = how & 0x80 ? fuzz_u8(in) : UNETMM_RIGHT_ALL;
        break;
    }
}

/* Nothing is copied elsewhere than where the card itself might have written. */
static void expect_exported(const struct unetmm_slot *head)
{
    assert_int_equal(head->space, VICTIM_SPACE);
    assert_int_equal(head->region, VICTIM_REGION);
    for (unsigned i = 0; i < head->npieces; i++) {
        uint64_t at = head->piece[i].addr - FIX_VA - OFFSET;

        assert_true(at <= LENGTH && head->piece[i].len <= LENGTH - at);
    }
}

/* The driver of the victim answers for the oldest slot. */
static void serve_slot(FuzzCard *c, uint8_t how)
{
    struct unetmm_cmd cmd = { .opcode = UNETMM_CMD_SYSBUF_DONE };
    struct unetmm_slot head;

    if (!c->d.full->len) {
        return;
    }
    cmd.slot.slot = g_array_index(c->d.full, uint32_t, 0);
    cmd.slot.status = how & 7 ? UNETMM_SLOT_LANDED : UNETMM_SLOT_FAILED;
    g_array_remove_index(c->d.full, 0);
    if (!c->lenient) {
        head = fake_slot(&c->d, cmd.slot.slot);
        expect_exported(&head);
        if (!victim.exported || !(victim.rights & UNETMM_RIGHT_WRITE)) {
            cmd.slot.status = UNETMM_SLOT_GONE;
        } else if (cmd.slot.status == UNETMM_SLOT_LANDED) {
            fake_slot_copy(&c->d, cmd.slot.slot);
        }
    }
    command(c, cmd);
}

static void driver(FuzzCard *c, FuzzIn *in, FakeEp *ep)
{
    uint8_t what = fuzz_u8(in);
    struct unetmm_cmd cmd = { .ep = ep->id };

    if (what & 0x80) {
        victim_takes_back(c);
        if (what & 0x40) {
            victim_exports(c, what & 7 ?: UNETMM_RIGHT_WRITE);
        }
        return;
    }
    if (what >= CHANGES_UD) {
        command(c, what & 1 ? fuzz_ud_flush(ep->id) : fuzz_ud_set(ep->id));
        return;
    }
    cmd.opcode = shaped[what % G_N_ELEMENTS(shaped)];
    fuzz_ops_shape(in, &cmd);
    command(c, cmd);
}

/* One that is sane and whose channel has failed closes it, and tells the peer. */
static void reopen(FuzzCard *c, FuzzIn *in, FakeEp *ep)
{
    uint32_t psn = fuzz_u8(in) * 0x01000000u + 0x00fffff0u;

    if (!c->lenient) {
        fuzz_ops_open(c, ep->id - 1, psn);
    }
}

void fuzz_ops_op(FuzzCard *c, FuzzIn *in, FakeEp *ep)
{
    uint8_t how = fuzz_u8(in);
    struct unetmm_cqe cqe;

    if (how >= SENDS_UD) {
        fuzz_ud_send(c, in, ep);
        fake_ring_bell(ep);
        return;
    }
    switch (how % 10) {
    case 0: case 1: case 2:
        post(c, in, ep);
        break;
    case 3: case 4:
        store(c, in);
        break;
    case 5: case 6:
        start(c, in);
        break;
    case 7:
        driver(c, in, ep);
        break;
    case 8:
        reopen(c, in, ep);
        break;
    default:
        while (!c->lenient && fake_poll(&victim.ep, &cqe)) {
            assert_int_equal(cqe.opcode, UNETMM_CQE_NOTIFY);
        }
        fake_ring_bell(&victim.ep);
        serve_slot(c, how / 10);
        break;
    }
}
