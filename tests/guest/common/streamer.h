/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A server of streams for tests: the first bytes of a stream name its use.
 */
#ifndef TEST_STREAMER_H
#define TEST_STREAMER_H

#include "tap.h"

#include <libunetmm/stream.h>

#define SERVICE_STREAMS 0xec43  /* of the other guest's */

enum stream_op {
    STREAM_SINK = 1,            /* takes `bytes`, answers how many were wrong */
    STREAM_SOURCE,              /* sends `bytes`, then shuts down */
    STREAM_ECHO,                /* sends back all until the end, then that, too */
    STREAM_DIE,                 /* takes `bytes`, then kill -9 */
    STREAM_ABANDON,             /* takes `bytes`, then closes */
    STREAM_RUN,                 /* runs program `key`, answers stream_ran */
};

/* Programs that the server can run, each with one that this side runs. */
enum stream_program { PROGRAM_VMMC_HELLO, PROGRAM_AU_RING, PROGRAM_CP };
#define COPY_SERVICE    "77"
#define COPY_DIRECTORY  "/tmp/copies"

struct stream_ran {
    uint64_t status;            /* as waitpid() says */
    char said[1016];
};

struct stream_order {
    uint64_t op;
    uint64_t bytes;
    uint64_t key;               /* of the pattern that they are */
    uint64_t most;              /* of one call */
};

/* Accepts and serves, one after the other; never returns. */
void streams_serve(struct unetmm_ctx *ctx, uint64_t service,
                   const struct unetmm_stream_attr *attr)
    __attribute__((noreturn));

/*
 * Sends and receives all, in calls of 1 to `most` bytes, checking every byte of the
 * pattern from `position` on.  false: it ended before.
 */
bool stream_send_pattern(struct unetmm_stream *s, uint64_t key, uint64_t bytes,
                         uint64_t most, struct chance *chance);
/* How many were wrong; `got` (may be NULL) how many there were. */
uint64_t stream_take_pattern(struct unetmm_stream *s, uint64_t key, uint64_t bytes,
                             uint64_t most, struct chance *chance,
                             uint64_t *got);

#endif /* TEST_STREAMER_H */
