/*
 * unetmm: a stream of numbers, to be written or to be read
 *
 * One description of what the card saves serves both ways: every call either
 * appends the value or replaces it by what the stream says.  Little-endian, no
 * padding.  A stream that is read is hostile: it ends where it ends, and the
 * first thing that is wrong with it is remembered; from then on every value is
 * zero and nothing has to be checked in between for safety's sake.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_STREAM_H
#define UNETMM_STREAM_H

typedef struct UnetmmStream {
    GByteArray *out;            /* NULL: the stream is read */
    const uint8_t *in;
    size_t left;
    bool wrong;
    char why[160];              /* one sentence, if wrong */
} UnetmmStream;

static inline bool unetmm_stream_reads(const UnetmmStream *st)
{
    return !st->out;
}

void unetmm_stream_refuse(UnetmmStream *st, const char *format, ...)
    G_GNUC_PRINTF(2, 3);
void unetmm_stream_bytes(UnetmmStream *st, void *data, size_t bytes);
void unetmm_stream_u8(UnetmmStream *st, uint8_t *v);
void unetmm_stream_u16(UnetmmStream *st, uint16_t *v);
void unetmm_stream_u32(UnetmmStream *st, uint32_t *v);
void unetmm_stream_u64(UnetmmStream *st, uint64_t *v);
void unetmm_stream_bool(UnetmmStream *st, bool *v, const char *what);
/* A number of 0 .. limit - 1; `value` is what is written. */
uint32_t unetmm_stream_choice(UnetmmStream *st, uint32_t value, uint32_t limit,
                              const char *what);
/* A moment, as the time from `now` on; the past is now.  At most `most` ns. */
void unetmm_stream_time(UnetmmStream *st, int64_t *when, int64_t now,
                        uint64_t most, const char *what);

#endif /* UNETMM_STREAM_H */
