/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cp_stream.h"

#include <errno.h>
#include <stdint.h>

int cp_stream_put(struct unetmm_stream *stream, const void *bytes, size_t length)
{
    const uint8_t *at = bytes;

    while (length) {
        /* Fewer than all have left when the time has passed. */
        ssize_t n = unetmm_stream_send(stream, at, length, 0);

        if (n < 0) {
            return (int)n;
        }
        at += n;
        length -= (size_t)n;
    }
    return 0;
}

/* As unetmm_stream_recv(), of bytes that the peer may be long in sending. */
static ssize_t take_some(struct unetmm_stream *stream, void *bytes, size_t length,
                         bool patient)
{
    ssize_t n;

    do {
        n = unetmm_stream_recv(stream, bytes, length, 0);
        /* A stream that has failed, perhaps with the same error, says so again. */
        if (patient && n == -ETIMEDOUT) {
            n = unetmm_stream_recv(stream, bytes, length, UNETMM_STREAM_DONTWAIT);
        }
    } while (patient && n == -EAGAIN);
    return n;
}

int cp_stream_take(struct unetmm_stream *stream, void *bytes, size_t length,
                   bool patient, size_t *got)
{
    *got = 0;
    while (*got < length) {
        ssize_t n = take_some(stream, (uint8_t *)bytes + *got, length - *got,
                              patient);

        if (n <= 0) {
            return (int)n;
        }
        *got += (size_t)n;
    }
    return 0;
}
