/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A recording of a program's run: a line of text for each descriptor that it posts, in the
 * file of the environment variable UNETMM_RECORD (docs/scale.rst, "Record and replay").
 *
 * The fast path knows nothing of it: an endpoint that is recorded has a source (struct
 * unetmm_source_ops_), so that its calls take their rare way, which calls these functions.
 */
#ifndef UNETMM_RECORDING_H
#define UNETMM_RECORDING_H

#include "../base/base.h"

/* A new endpoint is recorded from now on, if the variable is set. */
void unetmm_recording_open(struct unetmm_ep_private *ep);
void unetmm_recording_close(struct unetmm_ep_private *ep);

/* The descriptor goes into the send queue; a buffer goes into the free queue. */
void unetmm_recording_sends(const struct unetmm_ep_private *ep,
                            const struct unetmm_request_ *r, const struct iovec *iov,
                            unsigned n, size_t len, bool is_inline);
void unetmm_recording_offers(const struct unetmm_ep_private *ep, const struct iovec *iov,
                             unsigned n);

/* ---- The file -------------------------------------------------------------- */

/* The number of one more endpoint of the process, from 1 on; 0: nothing is recorded. */
uint32_t unetmm_recording_begin(void);
/* Nanoseconds since the process's recording began */
uint64_t unetmm_recording_now(void);
/* Adds whole lines.  A signal handler may call it, at any time. */
void unetmm_recording_add(const char *text, size_t bytes);
/* All lines so far are in the file. */
void unetmm_recording_flush(void);

#endif /* UNETMM_RECORDING_H */
