/*
 * unetmm: all modules, sources, policies, channel types, opcodes
 *
 * A new source, policy or opcode needs its file, a row here, its number in
 * abi/, its path in sources.txt, and its name in the tables of
 * docs/specs/unetmm.rst.  A new module needs its file, its path in sources.txt,
 * and its name here.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../reliable/reliable.h"
#include "core.h"

/*
 * In the order in which they are created and saved; reset and free go from the
 * last to the first.
 */
#define MODULES(M) \
    M(random) M(regs) M(ring) M(irq) M(space) M(region) M(tlb) M(table) \
    M(sysbuf) M(ep) M(head) M(send) M(slots) M(import) M(flow) M(window) \
    M(proxy) M(miss) M(ready) M(notify) M(eventcount) M(backup) M(rel) \
    M(port) M(recv) M(delay)

#define DECLARE(name) \
    extern const UnetmmModule unetmm_module_##name;
#define ENTRY(name) &unetmm_module_##name,
MODULES(DECLARE)
static const UnetmmModule *const modules[] = { MODULES(ENTRY) NULL };
#undef DECLARE
#undef ENTRY

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

/*
 * Opcodes of reliable channels: number, file reliable/op/NAME.c.  S: that of a
 * descriptor, and its kind in the file's row; W: that of a frame.
 */
#define OPCODES(S, W) \
    S(SEND, send, 0) W(SEND, send) \
    S(WRITE, write, 0) W(WRITE, write) \
    S(READ, read, 0) W(READ, read) \
    S(FETCH_ADD, atomic, 0) S(CMP_SWAP, atomic, 1) W(ATOMIC, atomic) \
    S(FENCE, void, 0) W(VOID, void) \
    W(ACK, ack) \
    W(ANSWER, answer) \
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

extern const UnetmmSqeOp unetmm_sqe_control;
extern const UnetmmSqeOp unetmm_sqe_frame;
extern const UnetmmWireOp unetmm_wire_datagram;
extern const UnetmmWireOp unetmm_wire_control;
#define NO_SQE(number, name, kind)
#define NO_WIRE(number, name)
#define DECLARE(number, name) \
    extern const UnetmmRelOp unetmm_rel_op_##name;
OPCODES(NO_SQE, DECLARE)
#undef DECLARE
#define ENTRY(number, name, n) \
    [UNETMM_OP_##number] = &unetmm_rel_op_##name.kind[n].sqe,
static const UnetmmSqeOp *const sqes[] = {
    [UNETMM_OP_CONTROL] = &unetmm_sqe_control,
    [UNETMM_OP_FRAME] = &unetmm_sqe_frame,
    OPCODES(ENTRY, NO_WIRE)
};
#undef ENTRY
#define ENTRY(number, name) \
    [UNETMM_WIRE_##number] = &unetmm_rel_op_##name.header,
static const UnetmmWireOp *const wires[] = {
    [UNETMM_WIRE_DATAGRAM] = &unetmm_wire_datagram,
    [UNETMM_WIRE_CONTROL] = &unetmm_wire_control,
    OPCODES(NO_SQE, ENTRY)
};
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
};
