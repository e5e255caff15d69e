/*
 * unetmm: the receive policies by number
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "policy.h"

const UnetmmPolicyOps *unetmm_policy_by_id(const UnetmmCore *core,
                                           unsigned id)
{
    const UnetmmTables *tables = core->tables;

    return id < tables->npolicies ? tables->policies[id].ops : NULL;
}

bool unetmm_policy_allows(const UnetmmCore *core,
                          const UnetmmPolicyOps *policy, uint32_t with)
{
    const UnetmmPolicyRow *row = core->tables->policies;

    while (row->ops != policy) {
        row++;
    }
    return !(with & ~row->with);
}
