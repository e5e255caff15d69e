/*
 * unetmm: policy `drop`: a message that meets a buffer which is not resident is
 * lost; the buffer keeps its place and waits for its page.  On a reliable
 * channel no message is lost: there it acts as `rnr`, for an endpoint
 * that has both types of channels, or whose source brings no pages.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "policy.h"

static UnetmmVerdict drop_absent(UnetmmCore *core, const UnetmmAbsent *ctx)
{
    return ctx->at == UNETMM_ABSENT_SEND || ctx->at == UNETMM_ABSENT_WRITE ?
           UNETMM_VERDICT_REFUSE : UNETMM_VERDICT_DROP;
}

const UnetmmPolicyOps unetmm_policy_drop = {
    .name = "drop",
    .absent = drop_absent,
};
