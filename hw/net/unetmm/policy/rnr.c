/*
 * unetmm: policy `rnr` (NPF): a sender whose packet hits an absent page
 * receives an RNR NACK and sends again after a time.  Somebody has to send
 * again: reliable channels only; and the page has to come: sources that bring
 * absent pages only.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "policy.h"

static UnetmmVerdict rnr_absent(UnetmmCore *core, const UnetmmAbsent *ctx)
{
    return UNETMM_VERDICT_REFUSE;
}

const UnetmmPolicyOps unetmm_policy_rnr = {
    .name = "rnr",
    .absent = rnr_absent,
};
