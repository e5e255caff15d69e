/*
 * unetmm: all modules, sources, policies, channel types, frames
 *
 * A new source or policy needs its file, a row here, its number in
 * abi/unetmm_hw.h, its path in two lists of source files (meson.build here and
 * in tests/core), and its name in the tables of docs/specs/unetmm.rst.  A new
 * module needs its file and its path there, and two lines here.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../reliable/reliable.h"
#include "core.h"

extern const UnetmmModule unetmm_module_random;
extern const UnetmmModule unetmm_module_regs;
extern const UnetmmModule unetmm_module_ring;
extern const UnetmmModule unetmm_module_irq;
extern const UnetmmModule unetmm_module_space;
extern const UnetmmModule unetmm_module_region;
extern const UnetmmModule unetmm_module_tlb;
extern const UnetmmModule unetmm_module_table;
extern const UnetmmModule unetmm_module_sysbuf;
extern const UnetmmModule unetmm_module_ep;
extern const UnetmmModule unetmm_module_head;
extern const UnetmmModule unetmm_module_send;
extern const UnetmmModule unetmm_module_slots;
extern const UnetmmModule unetmm_module_import;
extern const UnetmmModule unetmm_module_flow;
extern const UnetmmModule unetmm_module_window;
extern const UnetmmModule unetmm_module_proxy;
extern const UnetmmModule unetmm_module_miss;
extern const UnetmmModule unetmm_module_ready;
extern const UnetmmModule unetmm_module_notify;
extern const UnetmmModule unetmm_module_eventcount;
extern const UnetmmModule unetmm_module_backup;
extern const UnetmmModule unetmm_module_rel;
extern const UnetmmModule unetmm_module_port;
extern const UnetmmModule unetmm_module_recv;
extern const UnetmmModule unetmm_module_delay;

/*
 * In the order in which they are created and saved; reset and free go from the
 * last to the first.
 */
static const UnetmmModule *const modules[] = {
    &unetmm_module_random,
    &unetmm_module_regs,
    &unetmm_module_ring,
    &unetmm_module_irq,
    &unetmm_module_space,
    &unetmm_module_region,
    &unetmm_module_tlb,
    &unetmm_module_table,
    &unetmm_module_sysbuf,
    &unetmm_module_ep,
    &unetmm_module_head,
    &unetmm_module_send,
    &unetmm_module_slots,
    &unetmm_module_import,
    &unetmm_module_flow,
    &unetmm_module_window,
    &unetmm_module_proxy,
    &unetmm_module_miss,
    &unetmm_module_ready,
    &unetmm_module_notify,
    &unetmm_module_eventcount,
    &unetmm_module_backup,
    &unetmm_module_rel,
    &unetmm_module_port,
    &unetmm_module_recv,
    &unetmm_module_delay,
    NULL,
};

/* Number in the ABI, name. */
#define SOURCES(S) \
    S(DIRECT, direct) \
    S(PINNED, pinned) \
    S(TLB, tlb) \
    S(KTLB, ktlb) \
    S(UTLB, utlb) \
    S(SHADOW, shadow) \
    S(ODP, odp) \
    /* a new one goes here */

/*
 * Number in the ABI, name, and where it is allowed: sources where absence is an
 * error of the program (FIXED) or of which the driver brings absent pages
 * (BROUGHT); raw endpoints; channels by their types.  EP_CREATE and CHANNEL_SET
 * refuse all else.  docs/specs/unetmm.rst has the same
 * table; a style check compares them.
 *
 * On a reliable channel no message is lost: `drop` acts there as `rnr`.  It is
 * allowed because it is the one policy for an endpoint with channels
 * of both types and because a source of the first kind has no `rnr`.
 */
#define POLICIES(P) \
    P(DROP, drop, FIXED | BROUGHT | RAW | DATAGRAM | RELIABLE) \
    P(SKIP, skip, FIXED | BROUGHT | DATAGRAM | RELIABLE) \
    P(REDIRECT, redirect, BROUGHT | RELIABLE) \
    P(RNR, rnr, BROUGHT | RELIABLE) \
    P(BACKUP, backup, BROUGHT | RAW | DATAGRAM) \
    /* a new one goes here */

#define FIXED       UNETMM_WITH_FIXED
#define BROUGHT     UNETMM_WITH_BROUGHT
#define RAW         UNETMM_WITH_RAW
#define DATAGRAM    UNETMM_WITH_DATAGRAM
#define RELIABLE    UNETMM_WITH_RELIABLE

#define DECLARE(number, source) \
    extern const UnetmmSourceOps unetmm_source_##source;
#define ENTRY(number, source) \
    [UNETMM_SOURCE_##number] = &unetmm_source_##source,
SOURCES(DECLARE)
static const UnetmmSourceOps *const sources[] = { SOURCES(ENTRY) };
#undef DECLARE
#undef ENTRY

#define DECLARE(number, policy, with) \
    extern const UnetmmPolicyOps unetmm_policy_##policy;
#define ENTRY(number, policy, with) \
    [UNETMM_POLICY_##number] = { &unetmm_policy_##policy, with },
POLICIES(DECLARE)
static const UnetmmPolicyRow policies[] = { POLICIES(ENTRY) };
#undef DECLARE
#undef ENTRY

extern const UnetmmChannelOps unetmm_channel_datagram;

static const UnetmmChannelOps *const channels[UNETMM_NUM_CHANNEL_TYPES] = {
    [UNETMM_CHANNEL_DATAGRAM] = &unetmm_channel_datagram,
    [UNETMM_CHANNEL_RELIABLE] = &unetmm_channel_reliable,
};

extern const UnetmmFrameOps unetmm_raw_frames;
extern const UnetmmSlotOps unetmm_slots;

static const UnetmmSavedParts saved = {
    .counters = unetmm_event_counters_save,
    .imports = unetmm_imports_save,
    .waiting = unetmm_waiting_save,
    .connections = unetmm_rels_save,
    .connection = unetmm_rel_save_number,
    .credits = unetmm_rel_credits,
    .packet = unetmm_rel_save_packet,
};

extern const UnetmmPortOps unetmm_entry_port;
extern const UnetmmEpOps unetmm_ep_ops;

const UnetmmTables unetmm_tables = {
    .modules = modules,
    .sources = sources,
    .nsources = G_N_ELEMENTS(sources),
    .policies = policies,
    .npolicies = G_N_ELEMENTS(policies),
    .channels = channels,
    .port = &unetmm_entry_port,
    .ep = &unetmm_ep_ops,
    .frames = &unetmm_raw_frames,
    .slots = &unetmm_slots,
    .shares = &unetmm_rel_share,
    .saved = &saved,
};
