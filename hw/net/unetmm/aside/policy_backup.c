/*
 * unetmm: policy `backup` (NPF): what finds its buffer absent, or none posted,
 * goes to a ring of memory that stays (aside/backup.c), and the driver copies
 * it to where it belongs.  For whom nobody can be asked to wait: raw Ethernet
 * endpoints and datagrams.  The page has to come: sources that bring absent
 * pages only.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../card/core.h"

/* Heads are not asked for ahead with it: only what is not a message's. */
static UnetmmVerdict backup_absent(UnetmmCore *core, UnetmmEp *ep)
{
    return UNETMM_VERDICT_DROP;
}

const UnetmmPolicyOps unetmm_policy_backup = {
    .name = "backup",
    .absent = backup_absent,
    .backup = true,
};
