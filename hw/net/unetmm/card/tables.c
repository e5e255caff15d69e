/*
 * unetmm: all modules, sources, policies, channel types, opcodes
 *
 * A new source, policy or opcode needs its file, its path in sources.txt, and a
 * row in abi/unetmm_lists.h.  A new module needs its file, its path, and its
 * name here.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../abi/unetmm_lists.h"
#include "../reliable/reliable.h"
#include "core.h"

/*
 * In the order in which they are created and saved; reset and free go from the
 * last to the first.
 */
#define MODULES(M) \
    M(random) M(regs) M(ring) M(irq) M(space) M(region) M(tlb) M(table) \
    M(sysbuf) M(ep) M(shared) M(head) M(send) M(slots) M(import) M(flow) \
    M(window) M(proxy) M(miss) M(ready) M(notify) M(eventcount) M(backup) \
    M(rel) M(port) M(recv) M(delay)

#define DECLARE(name) \
    extern const UnetmmModule unetmm_module_##name;
#define ENTRY(name) &unetmm_module_##name,
MODULES(DECLARE)
static const UnetmmModule *const modules[] = { MODULES(ENTRY) NULL };
#undef DECLARE
#undef ENTRY

#define DECLARE(number, upper, source, meaning) \
    extern const UnetmmSourceOps unetmm_source_##source;
#define ENTRY(number, upper, source, meaning) \
    [number] = &unetmm_source_##source,
UNETMM_SOURCES(DECLARE, DECLARE)
static const UnetmmSourceOps *const sources[] = {
    UNETMM_SOURCES(ENTRY, ENTRY)
};
#undef DECLARE
#undef ENTRY

#define DECLARE(number, upper, policy, ...) \
    extern const UnetmmPolicyOps unetmm_policy_##policy;
#define ENTRY(number, upper, policy, fixed, brought, raw, datagram, reliable, \
              ud) \
    [number] = { &unetmm_policy_##policy, \
                 fixed * UNETMM_WITH_FIXED | brought * UNETMM_WITH_BROUGHT | \
                 raw * UNETMM_WITH_RAW | datagram * UNETMM_WITH_DATAGRAM | \
                 reliable * UNETMM_WITH_RELIABLE | ud * UNETMM_WITH_UD },
UNETMM_POLICIES(DECLARE)
static const UnetmmPolicyRow policies[] = { UNETMM_POLICIES(ENTRY) };
#undef DECLARE
#undef ENTRY

#define REL_DECLARE(number, upper, name, says, comment) \
    extern const UnetmmRelOp unetmm_rel_op_##name;
#define DECLARE(number, upper, name, says, comment) \
    extern const UnetmmWireOp unetmm_wire_##name;
#define REL_ENTRY(number, upper, name, says, comment) \
    [number] = &unetmm_rel_op_##name.header,
#define ENTRY(number, upper, name, says, comment) \
    [number] = &unetmm_wire_##name,
UNETMM_WIRE_OPS(REL_DECLARE, DECLARE)
static const UnetmmWireOp *const wires[] = {
    UNETMM_WIRE_OPS(REL_ENTRY, ENTRY)
};
#undef REL_DECLARE
#undef DECLARE
#undef REL_ENTRY
#undef ENTRY

/* A file of reliable channels has a row for frames, which declares it. */
#define NONE(number, upper, name, n, meaning)
#define DECLARE(number, upper, name, meaning) \
    extern const UnetmmSqeOp unetmm_sqe_##name;
#define REL_ENTRY(number, upper, name, n, meaning) \
    [number] = &unetmm_rel_op_##name.kind[n].sqe,
#define ENTRY(number, upper, name, meaning) [number] = &unetmm_sqe_##name,
UNETMM_OPS(NONE, DECLARE)
static const UnetmmSqeOp *const sqes[] = { UNETMM_OPS(REL_ENTRY, ENTRY) };
#undef NONE
#undef DECLARE
#undef REL_ENTRY
#undef ENTRY

extern const UnetmmChannelOps unetmm_channel_datagram, unetmm_channel_ud;

static const UnetmmChannelOps *const channels[UNETMM_NUM_CHANNEL_TYPES] = {
    [UNETMM_CHANNEL_DATAGRAM] = &unetmm_channel_datagram,
    [UNETMM_CHANNEL_RELIABLE] = &unetmm_channel_reliable,
    [UNETMM_CHANNEL_UD] = &unetmm_channel_ud,
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
    .sqes = sqes,
    .nsqes = G_N_ELEMENTS(sqes),
    .wires = wires,
    .nwires = G_N_ELEMENTS(wires),
    .port = &unetmm_entry_port,
    .ep = &unetmm_ep_ops,
    .frames = &unetmm_raw_frames,
    .slots = &unetmm_slots,
    .shares = &unetmm_rel_share,
    .saved = &saved,
    .local = unetmm_region_local,
};
