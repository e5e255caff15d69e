/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * All bytes of a part of unetmm-cp's stream.  The stream's own time is counted from
 * each call; here it is the time in which no byte moves.
 */
#ifndef UNETMM_TOOLS_CP_STREAM_H
#define UNETMM_TOOLS_CP_STREAM_H

#include <stdbool.h>
#include <stddef.h>

#include <libunetmm/stream.h>

/* 0 or -errno; -ETIMEDOUT: the peer was silent for too long. */
int cp_stream_put(struct unetmm_stream *stream, const void *bytes, size_t length);

/*
 * The same; `got` gets the number of bytes, which is smaller than `length` after 0 only
 * where the stream ends.  `patient`: the peer may be silent for as long as its card
 * answers.
 */
int cp_stream_take(struct unetmm_stream *stream, void *bytes, size_t length,
                   bool patient, size_t *got);

#endif /* UNETMM_TOOLS_CP_STREAM_H */
