// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: permission to observe the kernel.
 *
 * Source `shadow` can put a probe on the page fault handler, and user-level DMA
 * start needs one on the scheduler.  Each changes code that every process of
 * the machine runs, so a process without privilege gets neither unless the
 * administrator has set the parameter `user_probes`.
 */
#include <linux/capability.h>
#include <linux/moduleparam.h>

#include "base/base.h"

static bool unetmm_user_probes;
module_param_named(user_probes, unetmm_user_probes, bool, 0644);
MODULE_PARM_DESC(user_probes,
		 "let processes without CAP_SYS_ADMIN put probes on the page fault handler (source shadow) and on the scheduler (user-level DMA start)");

/* Whether the caller may; sleeps for nothing and takes no lock. */
bool unetmm_may_probe(void)
{
	return READ_ONCE(unetmm_user_probes) || capable(CAP_SYS_ADMIN);
}
