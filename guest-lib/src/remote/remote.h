/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory of peers.
 */
#ifndef UNETMM_REMOTE_H
#define UNETMM_REMOTE_H

#include "../queue/queue.h"
#include "../utlb/utlb.h"

/* Closes the mappings of unetmm_window_open() and the like. */
void unetmm_windows_end(struct unetmm_ep_private *ep);

#endif /* UNETMM_REMOTE_H */
