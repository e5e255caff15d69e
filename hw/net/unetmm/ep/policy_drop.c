/*
 * unetmm: policy `drop`: a message that meets a head which is not resident is
 * lost; the buffer keeps its place and waits for its page.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../card/core.h"

static UnetmmVerdict drop_absent(UnetmmCore *core, UnetmmEp *ep)
{
    return UNETMM_VERDICT_DROP;
}

const UnetmmPolicyOps unetmm_policy_drop = {
    .name = "drop",
    .absent = drop_absent,
};
