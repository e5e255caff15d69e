/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Channels of the library's own objects: a peer without room or memory does not stop them.
 */
#ifndef UNETMM_REFUSALS_H
#define UNETMM_REFUSALS_H

/* Such a channel fails after this many refusals in a row, which take several seconds. */
#define UNETMM_REFUSALS     250

#endif /* UNETMM_REFUSALS_H */
