/*
 * unetmm: policy `skip` (U-Net/MM): a head that is not resident when its turn
 * comes goes back to the program unfilled, and the message tries the next.
 * A message without a next place waits, on a reliable channel.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "policy.h"

static UnetmmVerdict skip_absent(UnetmmCore *core, const UnetmmAbsent *ctx)
{
    return ctx->next ? UNETMM_VERDICT_NEXT : UNETMM_VERDICT_REFUSE;
}

const UnetmmPolicyOps unetmm_policy_skip = {
    .name = "skip",
    .absent = skip_absent,
};
