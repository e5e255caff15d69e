/*
 * unetmm: a stream of numbers, to be written or to be read
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../abi/unetmm_le.h"
#include "stream.h"

/* Only a stream that is read can be wrong; the first reason is the one. */
void unetmm_stream_refuse(UnetmmStream *st, const char *format, ...)
{
    va_list ap;

    if (st->wrong || !unetmm_stream_reads(st)) {
        return;
    }
    st->wrong = true;
    va_start(ap, format);
    g_vsnprintf(st->why, sizeof(st->why), format, ap);
    va_end(ap);
}

void unetmm_stream_bytes(UnetmmStream *st, void *data, size_t bytes)
{
    if (!unetmm_stream_reads(st)) {
        g_byte_array_append(st->out, data, bytes);
        return;
    }
    if (st->left < bytes) {
        unetmm_stream_refuse(st, "what was saved ends too early");
    }
    if (st->wrong) {
        memset(data, 0, bytes);
        return;
    }
    memcpy(data, st->in, bytes);
    st->in += bytes;
    st->left -= bytes;
}

void unetmm_stream_u8(UnetmmStream *st, uint8_t *v)
{
    unetmm_stream_bytes(st, v, sizeof(*v));
}

void unetmm_stream_u16(UnetmmStream *st, uint16_t *v)
{
    uint16_t le = *v;

    unetmm_le_u16(&le);
    unetmm_stream_bytes(st, &le, sizeof(le));
    unetmm_le_u16(&le);
    *v = le;
}

void unetmm_stream_u32(UnetmmStream *st, uint32_t *v)
{
    uint32_t le = *v;

    unetmm_le_u32(&le);
    unetmm_stream_bytes(st, &le, sizeof(le));
    unetmm_le_u32(&le);
    *v = le;
}

void unetmm_stream_u64(UnetmmStream *st, uint64_t *v)
{
    uint64_t le = *v;

    unetmm_le_u64(&le);
    unetmm_stream_bytes(st, &le, sizeof(le));
    unetmm_le_u64(&le);
    *v = le;
}

void unetmm_stream_bool(UnetmmStream *st, bool *v, const char *what)
{
    *v = unetmm_stream_choice(st, *v, 2, what);
}

uint32_t unetmm_stream_choice(UnetmmStream *st, uint32_t value, uint32_t limit,
                              const char *what)
{
    unetmm_stream_u32(st, &value);
    if (value >= limit) {
        unetmm_stream_refuse(st, "%s is %u, which is out of range", what,
                             value);
    }
    return st->wrong ? 0 : value;
}

void unetmm_stream_time(UnetmmStream *st, int64_t *when, int64_t now,
                        uint64_t most, const char *what)
{
    uint64_t ahead = *when > now ? *when - now : 0;

    unetmm_stream_u64(st, &ahead);
    if (ahead > most) {
        unetmm_stream_refuse(st, "%s is too far ahead", what);
        ahead = 0;
    }
    if (unetmm_stream_reads(st)) {
        *when = now + ahead;
    }
}
