/*
 * unetmm: policy `backup` (NPF): a message that finds its buffer absent, or
 * none posted, goes to a ring of memory that stays (aside/backup.c), and the
 * driver copies it to where it belongs.  For senders that cannot be asked to
 * wait: raw Ethernet endpoints and datagrams.  The page has to come: sources
 * that bring absent pages only.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "aside.h"

static UnetmmVerdict backup_absent(UnetmmCore *core, const UnetmmAbsent *ctx)
{
    return UNETMM_VERDICT_STORE;
}

static bool backup_ep_ok(const UnetmmCore *core,
                         const struct unetmm_cmd_ep *cmd)
{
    return cmd->backup && cmd->backup <= core->params.backup_bits;
}

const UnetmmPolicyOps unetmm_policy_backup = {
    .name = "backup",
    .absent = backup_absent,
    .ep_ok = backup_ep_ok,
};
