// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: the tables by which lower rooms reach higher ones: sources of translations,
 * policies, and calls upward.  docs/driver.rst lists the parts of a new source or policy
 * ("How a lower room reaches a higher one").
 */
#include "card/card.h"
#include "remote/remote.h"
#include "channel/channel.h"
#include "backup/backup.h"
#include "redirect/redirect.h"
#include "ep/ep.h"
#include "source/source.h"
#include "memory/memory.h"
#include "pager/pager.h"
#include "space/space.h"
#include "base/base.h"
#include "unetmm_lists.h"

#define UNETMM_SOURCE_ROW(number, upper, name, meaning) [number] = &unetmm_##name##_source,
static const struct unetmm_source *const unetmm_sources[] = {
	UNETMM_SOURCES(UNETMM_SOURCE_NONE, UNETMM_SOURCE_ROW)
};

#define UNETMM_POLICY_ROW(number, upper, name, fixed, brought, is_raw, datagram, ...) \
	[number] = { .waits = !(datagram), .absent = !(fixed), .raw = is_raw },
static const struct unetmm_policy unetmm_policies[] = {
	UNETMM_POLICIES(UNETMM_POLICY_ROW)
};

/* Of policies that need memory of the driver */
static const struct unetmm_policy_ops *const
unetmm_policy_ops[ARRAY_SIZE(unetmm_policies)] = {
	[UNETMM_POLICY_REDIRECT] = &unetmm_redirect_policy,
	[UNETMM_POLICY_BACKUP] = &unetmm_backup_policy,
};

static void unetmm_space_unused(struct unetmm_aspace *space)
{
	unetmm_ecs_free(space);
	unetmm_space_free(space);
}

static void unetmm_ep_closing(struct unetmm_ep *ep)
{
	unetmm_windows_close(ep);
	unetmm_chan_close_all(ep);
}

static const struct unetmm_upcalls unetmm_upcalls = {
	.dev_unused = unetmm_pager_free,
	.sort = unetmm_fault_sort,
	.slot_report = unetmm_sysbuf_report,
	.backup_report = unetmm_backup_report,
	.ep_reported = unetmm_ep_reported,
	.ep_closing = unetmm_ep_closing,
	.space_closed = unetmm_ecs_close,
	.space_unused = unetmm_space_unused,
	.got_import = unetmm_got_import,
	.got_import_ack = unetmm_got_import_ack,
};

void unetmm_tables_set(struct unetmm_dev *dev)
{
	dev->up = &unetmm_upcalls;
	dev->sources = unetmm_sources;
	dev->nsources = ARRAY_SIZE(unetmm_sources);
	dev->policies = unetmm_policies;
	dev->policy_ops = unetmm_policy_ops;
	dev->npolicies = ARRAY_SIZE(unetmm_policies);
}
