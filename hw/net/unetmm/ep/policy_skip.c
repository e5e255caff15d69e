/*
 * unetmm: policy `skip` (U-Net/MM): a head that is not resident when its turn
 * comes goes back to the program unfilled, and the message tries the next.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../card/core.h"

static UnetmmVerdict skip_absent(UnetmmCore *core, UnetmmEp *ep)
{
    return UNETMM_VERDICT_NEXT;
}

const UnetmmPolicyOps unetmm_policy_skip = {
    .name = "skip",
    .absent = skip_absent,
};
