/*
 * unetmm: policy `redirect` (NetVM): what finds its page absent goes to the
 * system buffer (aside/sysbuf.c), and the driver puts it where it belongs.
 * Somebody has to wait until it has: reliable channels only.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../card/core.h"

/* Only what is not a channel's, of which an endpoint with it gets none. */
static UnetmmVerdict redirect_absent(UnetmmCore *core, UnetmmEp *ep)
{
    return UNETMM_VERDICT_DROP;
}

const UnetmmPolicyOps unetmm_policy_redirect = {
    .name = "redirect",
    .absent = redirect_absent,
    .waits = true,
    .slots = true,
};
