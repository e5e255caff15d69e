/*
 * unetmm: the receive policies by number
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../card/core.h"

const UnetmmPolicyOps *unetmm_policy_by_id(const UnetmmCore *core,
                                           unsigned id)
{
    return id < UNETMM_NUM_POLICIES ? core->tables->policies[id] : NULL;
}
