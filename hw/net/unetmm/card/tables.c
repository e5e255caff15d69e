/*
 * unetmm: all modules, sources, policies and channel types
 *
 * A new one is one file and one line here.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
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

extern const UnetmmSourceOps unetmm_source_direct;
extern const UnetmmSourceOps unetmm_source_pinned;
extern const UnetmmSourceOps unetmm_source_tlb;
extern const UnetmmSourceOps unetmm_source_ktlb;
extern const UnetmmSourceOps unetmm_source_utlb;
extern const UnetmmSourceOps unetmm_source_shadow;
extern const UnetmmSourceOps unetmm_source_odp;

static const UnetmmSourceOps *const sources[UNETMM_NUM_SOURCES] = {
    [UNETMM_SOURCE_DIRECT] = &unetmm_source_direct,
    [UNETMM_SOURCE_PINNED] = &unetmm_source_pinned,
    [UNETMM_SOURCE_TLB] = &unetmm_source_tlb,
    [UNETMM_SOURCE_KTLB] = &unetmm_source_ktlb,
    [UNETMM_SOURCE_UTLB] = &unetmm_source_utlb,
    [UNETMM_SOURCE_SHADOW] = &unetmm_source_shadow,
    [UNETMM_SOURCE_ODP] = &unetmm_source_odp,
};

extern const UnetmmPolicyOps unetmm_policy_drop;
extern const UnetmmPolicyOps unetmm_policy_skip;
extern const UnetmmPolicyOps unetmm_policy_redirect;
extern const UnetmmPolicyOps unetmm_policy_rnr;
extern const UnetmmPolicyOps unetmm_policy_backup;

static const UnetmmPolicyOps *const policies[UNETMM_NUM_POLICIES] = {
    [UNETMM_POLICY_DROP] = &unetmm_policy_drop,
    [UNETMM_POLICY_SKIP] = &unetmm_policy_skip,
    [UNETMM_POLICY_REDIRECT] = &unetmm_policy_redirect,
    [UNETMM_POLICY_RNR] = &unetmm_policy_rnr,
    [UNETMM_POLICY_BACKUP] = &unetmm_policy_backup,
};

extern const UnetmmChannelOps unetmm_channel_datagram;
extern const UnetmmChannelOps unetmm_channel_reliable;

static const UnetmmChannelOps *const channels[UNETMM_NUM_CHANNEL_TYPES] = {
    [UNETMM_CHANNEL_DATAGRAM] = &unetmm_channel_datagram,
    [UNETMM_CHANNEL_RELIABLE] = &unetmm_channel_reliable,
};

const UnetmmTables unetmm_tables = {
    .modules = modules,
    .sources = sources,
    .policies = policies,
    .channels = channels,
};
