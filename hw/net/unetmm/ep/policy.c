/*
 * unetmm: the receive policies by number
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../card/core.h"

static const UnetmmPolicyOps *const policies[UNETMM_NUM_POLICIES] = {
    [UNETMM_POLICY_DROP] = &unetmm_policy_drop,
    [UNETMM_POLICY_SKIP] = &unetmm_policy_skip,
    [UNETMM_POLICY_REDIRECT] = &unetmm_policy_redirect,
    [UNETMM_POLICY_RNR] = &unetmm_policy_rnr,
    [UNETMM_POLICY_BACKUP] = &unetmm_policy_backup,
};

const UnetmmPolicyOps *unetmm_policy_by_id(unsigned id)
{
    return id < UNETMM_NUM_POLICIES ? policies[id] : NULL;
}
