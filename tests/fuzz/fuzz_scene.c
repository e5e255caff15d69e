/*
 * unetmm: fuzzing: a card with an endpoint of each kind
 *
 * A space of each source; endpoints of each policy, in pairs that are joined by
 * a reliable channel; a raw endpoint of the driver, one of a process, and one
 * with a backup ring; UD channels where they may be.  Two spaces have event counters, each endpoint exports a
 * region of which parts may move.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fuzz_scene.h"

#define CREDITS         3
#define SLOTS           16
#define BUFFERS         4

FakeEp scene_eps[SCENE_EPS];
uint64_t scene_list;
const uint8_t scene_uds[SCENE_UDS] = { 1, 4, SCENE_UD };

static const struct {
    uint8_t source, levels;
} spaces[SCENE_SPACES + 1] = {
    { UNETMM_SOURCE_DIRECT, 0 }, { UNETMM_SOURCE_PINNED, 4 },
    { UNETMM_SOURCE_TLB, 0 }, { UNETMM_SOURCE_KTLB, 4 },
    { UNETMM_SOURCE_UTLB, 4 }, { UNETMM_SOURCE_SHADOW, 4 },
    { UNETMM_SOURCE_ODP, 4 },
};

static const struct {
    uint8_t space, policy, flags, bits;
} kinds[SCENE_EPS] = {
    { 0, UNETMM_POLICY_DROP, 0, 0 },
    { 1, UNETMM_POLICY_DROP, 0, 0 },
    { 2, UNETMM_POLICY_REDIRECT, 0, 0 },
    { 3, UNETMM_POLICY_SKIP, 0, 0 },
    { 4, UNETMM_POLICY_DROP, 0, 0 },
    { 5, UNETMM_POLICY_RNR, 0, 0 },
    { 6, UNETMM_POLICY_RNR, 0, 0 },
    { 2, UNETMM_POLICY_RNR, UNETMM_EP_F_NO_INLINE, 0 },
    { 6, UNETMM_POLICY_REDIRECT, 0, 0 },
    { 6, UNETMM_POLICY_BACKUP, 0, 5 },
    { 0, UNETMM_POLICY_DROP, UNETMM_EP_F_RAW | UNETMM_EP_F_VECTOR, 0 },
    { 6, UNETMM_POLICY_DROP, UNETMM_EP_F_RAW, 0 },
    { 6, UNETMM_POLICY_BACKUP, UNETMM_EP_F_RAW, 5 },
    { 6, UNETMM_POLICY_SKIP, 0, 0 },
};

void fuzz_scene_params(UnetmmParams *p)
{
    p->endpoints = 16;
    p->spaces = 9;
    p->regions = 32;
    p->reliable = 32;
    /* Pools that run out in one input */
    p->reliable_keep = 8;
    p->window_queue = 6;
    p->local_queue = MIN(p->local_queue, 8);
}

struct unetmm_cmd fuzz_scene_ep(unsigned i)
{
    return fake_ep_cmd(&scene_eps[i]);
}

/* The capabilities of the peers differ. */
struct unetmm_cmd fuzz_scene_channel(FuzzCard *c, unsigned i, bool wire)
{
    bool redirect = kinds[i].policy == UNETMM_POLICY_REDIRECT;
    unsigned other = ((i - 1) ^ 1) + 1;
    struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_CHANNEL_SET, .ep = i,
        .channel = {
            .channel = wire ? SCENE_REL : SCENE_PAIR,
            .type = UNETMM_CHANNEL_RELIABLE, .mtu = SCENE_MTU,
            .peer_channel = wire ? SCENE_REL : SCENE_PAIR,
            .peer_ep = wire ? 20 + i : other,
            .send_psn = SCENE_PSN, .recv_psn = SCENE_PSN,
            .timeout_us = 20, .retries = 3,
            .not_ready_retries = i & 1 ? 20 : 0,
            .flags = UNETMM_CHANNEL_F_PEER | (i & 3),
            .recv_credits = redirect ? CREDITS : 0,
            .send_credits = kinds[other].policy == UNETMM_POLICY_REDIRECT ?
                            CREDITS : 0,
        },
    };

    memcpy(cmd.channel.peer_mac, wire ? fake_peer_mac : c->h.core.params.mac,
           sizeof(cmd.channel.peer_mac));
    if (i == 5) {
        cmd.channel.flags |= UNETMM_CHANNEL_F_PLAIN_RNR;
    } else if (i == 3) {
        cmd.channel.flags &= UNETMM_CHANNEL_F_TELL;
    } else if (i == 6) {
        cmd.channel.flags |= UNETMM_CHANNEL_F_STRICT;
    }
    return cmd;
}

/* Two spaces only: counters are most of the saved state. */
static bool has_counters(unsigned space)
{
    return space == 2 || space == 4;
}

struct unetmm_cmd fuzz_scene_region(unsigned i)
{
    bool counts = has_counters(kinds[i].space);

    return (struct unetmm_cmd) {
        .opcode = UNETMM_CMD_REGION_SET, .space = kinds[i].space,
        .region = { .region = i, .key = SCENE_KEY, .addr = SCENE_AT,
                    .length = SCENE_LENGTH, .cookie = i,
                    .rights = UNETMM_RIGHT_ALL, .flags = FAKE_REGION_PEERS,
                    .counter = counts ? 8 : 0, .ncounters = counts ? 8 : 0 },
    };
}

struct unetmm_cmd fuzz_scene_import(unsigned i, unsigned import)
{
    return (struct unetmm_cmd) {
        .opcode = UNETMM_CMD_IMPORT_SET, .ep = i,
        .import = { .import = import, .key = SCENE_KEY,
                    .region = ((i - 1) ^ 1) + 1,
                    .channel = import & 1 ? SCENE_REL : SCENE_PAIR,
                    .length = SCENE_LENGTH, .rights = UNETMM_RIGHT_ALL },
    };
}

struct unetmm_cmd fuzz_scene_flow(unsigned i, uint8_t kind)
{
    struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_FLOW_SET, .ep = i,
        .flow = { .flow = i, .kind = kind,
                  .mac = SCENE_MAC(i) },
    };

    if (kind == UNETMM_FLOW_MAC) {
        cmd.flow.flags = UNETMM_FLOW_F_ALL;
    } else if (kind > UNETMM_FLOW_TCP) {
        memset(cmd.flow.mac, 0, sizeof(cmd.flow.mac));
    }
    return cmd;
}

const UnetmmRel *fuzz_scene_rel(const FuzzCard *c, unsigned i)
{
    const UnetmmRel *rel = c->h.core.eps[i].rels;

    while (rel && rel->channel != SCENE_REL) {
        rel = rel->next;
    }
    return rel;
}

/* ---- Start ---- */

static void command(FuzzCard *c, struct unetmm_cmd cmd)
{
    assert_int_equal(fake_command(&c->d, cmd, NULL), UNETMM_CS_OK);
}

static void open_spaces(FuzzCard *c)
{
    for (unsigned i = 0; i <= SCENE_SPACES; i++) {
        FakeSpace *s = fake_space(&c->d, i, spaces[i].source,
                                  spaces[i].levels);

        if (has_counters(i)) {
            uint64_t page = fake_alloc(&c->h, FAKE_PAGE, FAKE_PAGE, FAKE_RW);

            command(c, (struct unetmm_cmd) {
                .opcode = UNETMM_CMD_COUNTERS_SET, .space = i,
                .counters.page = page });
        }
        if (i) {
            fake_map(s, FIX_VA, FUZZ_PAGES * FAKE_PAGE, FAKE_RW);
        }
    }
    /* Those whose pages come by misses. */
    for (unsigned i = 5; i <= SCENE_SPACES; i++) {
        fake_invalidate(c->d.spaces[i], FIX_VA, FUZZ_PAGES * FAKE_PAGE);
    }
}

static void open_ep(FuzzCard *c, unsigned i)
{
    FakeEp *ep = &scene_eps[i];

    fake_ep_init(ep, &c->d, i, c->d.spaces[kinds[i].space]);
    ep->policy = kinds[i].policy;
    ep->flags = kinds[i].flags;
    ep->backup = kinds[i].bits;
    ep->sq_log2 = ep->fq_log2 = 3;
    ep->cq_log2 = i & 1 ? 2 : 4;
    fake_ep_alloc(ep);
    c->d.eps[i] = ep;
    command(c, fake_ep_cmd(ep));
}

/* Those with datagrams are in pairs, too. */
static unsigned datagrams_to(unsigned i)
{
    return i == 1 ? SCENE_BACKUP : i == SCENE_BACKUP ? 1 : ((i - 1) ^ 1) + 1;
}

static void open_channels(FuzzCard *c, unsigned i)
{
    for (unsigned wire = 0; i <= SCENE_RELS && wire < 2; wire++) {
        command(c, fuzz_scene_channel(c, i, wire));
        command(c, fuzz_scene_import(i, wire));
    }
    command(c, fuzz_scene_region(i));
    if (kinds[i].policy < UNETMM_POLICY_REDIRECT ||
        kinds[i].policy == UNETMM_POLICY_BACKUP) {
        fake_channel(&scene_eps[i], FIX_LOCAL, c->h.core.params.mac,
                     datagrams_to(i), FIX_LOCAL, FIX_MTU);
        fake_connect_peer(&scene_eps[i], FIX_WIRE, 20 + i, 9000);
    }
}

static void open_pages(FuzzCard *c)
{
    for (unsigned page = 0; page < FAKE_WINDOWS; page++) {
        unsigned i = 1 + page / 2;

        command(c, (struct unetmm_cmd) {
            .opcode = UNETMM_CMD_WINDOW_SET, .ep = i,
            .window = { .page = page, .npages = 1, .import = page & 1,
                        .combine_bytes = page & 1 ? 64 : 0,
                        .combine_ns = page & 1 ? 700 : 0 } });
        command(c, (struct unetmm_cmd) {
            .opcode = UNETMM_CMD_PROXY_SET, .ep = i,
            .proxy = { .page = page, .npages = 1,
                       .kind = page & 1 ? UNETMM_PROXY_FROM : UNETMM_PROXY_TO,
                       .at = page & 1 ? FIX_VA : 0 } });
    }
}

/* Rings that are full soon; nothing is in them yet. */
static void shrink_ring(FuzzCard *c, unsigned ring, uint32_t log2)
{
    uint32_t reg = UNETMM_REG_RING(ring);

    c->d.ring[ring].log2 = log2;
    c->d.ring[ring].index = 0;
    fake_set_reg(&c->h, reg + UNETMM_RING_ENABLE, 0);
    fake_set_reg(&c->h, reg + UNETMM_RING_LOG2, log2);
    fake_set_reg(&c->h, reg + UNETMM_RING_ENABLE, 1);
    assert_int_equal(fake_reg(&c->h, reg + UNETMM_RING_ENABLE), 1);
}

void fuzz_scene_start(FuzzCard *c)
{
    static const uint8_t flows[] = { UNETMM_FLOW_ANY, UNETMM_FLOW_MAC,
                                     UNETMM_FLOW_MAC };

    c->d.hold_slots = c->d.hold_backups = true;
    scene_list = fake_alloc(&c->h, FAKE_PAGE, FAKE_PAGE, FAKE_RW);
    open_spaces(c);
    fake_sysbuf(&c->d, SLOTS, 9000);
    fake_buffers(&c->d, BUFFERS / 2, 9100);
    fake_buffers(&c->d, BUFFERS / 2, 300);
    for (unsigned i = 0; i < SCENE_EPS; i++) {
        open_ep(c, i);
    }
    for (unsigned i = 1; i < SCENE_RAW; i++) {
        open_channels(c, i);
    }
    open_pages(c);
    for (unsigned i = 0; i < SCENE_UDS; i++) {
        command(c, fuzz_ud_set(scene_uds[i]));
    }
    for (unsigned i = SCENE_RAW; i < SCENE_UD; i++) {
        command(c, fuzz_scene_flow(i, flows[i - SCENE_RAW]));
    }
    shrink_ring(c, UNETMM_RING_FAULT, 3);
    shrink_ring(c, UNETMM_RING_NOTIFY, 2);
}
