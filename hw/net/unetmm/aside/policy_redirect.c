/*
 * unetmm: policy `redirect` (NetVM): a packet that finds its page absent goes
 * to the system buffer (aside/sysbuf.c), and the driver puts it where it
 * belongs.  The sender's credits keep the buffer from overflowing: reliable
 * channels only.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "aside.h"

static UnetmmVerdict redirect_absent(UnetmmCore *core, const UnetmmAbsent *ctx)
{
    return UNETMM_VERDICT_ASIDE;
}

static bool redirect_ep_ok(const UnetmmCore *core,
                           const struct unetmm_cmd_ep *cmd)
{
    return core->sysbuf->n && !cmd->backup;
}

/* A slot for each packet that the peer may send; it has to fit. */
static bool redirect_channel_ok(const UnetmmCore *core,
                                const struct unetmm_cmd_channel *cmd)
{
    return cmd->recv_credits && cmd->recv_credits <= UNETMM_REL_WINDOW &&
           cmd->mtu <= core->sysbuf->bytes - UNETMM_SLOT_HEAD;
}

const UnetmmPolicyOps unetmm_policy_redirect = {
    .name = "redirect",
    .absent = redirect_absent,
    .ep_ok = redirect_ep_ok,
    .channel_ok = redirect_channel_ok,
};
