/*
 * unetmm: policy `rnr` (NPF): who sends to what is absent is told to come again
 * after a time.  Somebody has to send again: reliable channels only; and the
 * page has to come: sources that bring absent pages only.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../card/core.h"

/* The buffer keeps its place; a channel does not drop, it refuses. */
static UnetmmVerdict rnr_absent(UnetmmCore *core, UnetmmEp *ep)
{
    return UNETMM_VERDICT_DROP;
}

const UnetmmPolicyOps unetmm_policy_rnr = {
    .name = "rnr",
    .absent = rnr_absent,
    .waits = true,
};
