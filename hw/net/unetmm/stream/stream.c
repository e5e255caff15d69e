/*
 * unetmm: a stream of values that have names, to be written or to be read
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../abi/unetmm_hw.h"
#include "stream.h"

/* ---- Names -------------------------------------------------------------- */

void unetmm_stream_enter(UnetmmStream *st, const char *name, uint32_t index)
{
    assert(st->depth < UNETMM_STREAM_DEPTH);
    st->scopes[st->depth++] = (UnetmmScope) { .name = name, .index = index };
}

void unetmm_stream_leave(UnetmmStream *st)
{
    assert(st->depth);
    st->depth--;
}

static void stream_path(const UnetmmStream *st, const char *name,
                        char path[UNETMM_STREAM_PATH])
{
    size_t n = 0;

    path[0] = '\0';
    for (uint32_t i = 0; i < st->depth && n < UNETMM_STREAM_PATH; i++) {
        const UnetmmScope *scope = &st->scopes[i];

        n += g_snprintf(path + n, UNETMM_STREAM_PATH - n, "%s%s",
                        i ? "." : "", scope->name);
        if (scope->index != UNETMM_STREAM_ONE && n < UNETMM_STREAM_PATH) {
            n += g_snprintf(path + n, UNETMM_STREAM_PATH - n, "[%u]",
                            scope->index);
        }
    }
    if (name && n < UNETMM_STREAM_PATH) {
        g_snprintf(path + n, UNETMM_STREAM_PATH - n, "%s%s", n ? "." : "",
                   name);
    }
}

/* The value that ends here has been read or written. */
static void stream_observe(UnetmmStream *st, const char *name,
                           UnetmmValue value)
{
    char path[UNETMM_STREAM_PATH];

    if (!st->observer || st->wrong) {
        return;
    }
    stream_path(st, name, path);
    value.path = path;
    value.at = st->at - value.bytes;
    st->observer->value(st->observer->opaque, &value);
}

/* ---- Values ------------------------------------------------------------- */

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

static void stream_raw(UnetmmStream *st, void *data, size_t bytes)
{
    if (!unetmm_stream_reads(st)) {
        g_byte_array_append(st->out, data, bytes);
        st->at += bytes;
        return;
    }
    if (st->left < bytes) {
        unetmm_stream_refuse(st, "the saved state ends too early");
    }
    if (st->wrong) {
        memset(data, 0, bytes);
        return;
    }
    memcpy(data, st->in, bytes);
    st->in += bytes;
    st->left -= bytes;
    st->at += bytes;
}

static uint64_t stream_number(UnetmmStream *st, uint64_t v, unsigned bytes,
                              UnetmmValueKind kind, uint64_t least,
                              uint64_t most, const char *name)
{
    uint8_t le[sizeof(v)];

    for (unsigned i = 0; i < bytes; i++) {
        le[i] = v >> (8 * i);
    }
    stream_raw(st, le, bytes);
    v = 0;
    for (unsigned i = bytes; i-- > 0;) {
        v = v << 8 | le[i];
    }
    stream_observe(st, name, (UnetmmValue) {
        .kind = kind, .bytes = bytes, .number = v, .least = least,
        .most = most,
    });
    return v;
}

static uint64_t stream_any(UnetmmStream *st, uint64_t v, unsigned bytes,
                           const char *name)
{
    return stream_number(st, v, bytes, UNETMM_VALUE_NUMBER, 0, UINT64_MAX,
                         name);
}

void unetmm_stream_bytes(UnetmmStream *st, void *data, size_t bytes,
                         const char *name)
{
    stream_raw(st, data, bytes);
    stream_observe(st, name, (UnetmmValue) {
        .kind = UNETMM_VALUE_BYTES, .bytes = bytes, .data = data,
    });
}

void unetmm_stream_u8(UnetmmStream *st, uint8_t *v, const char *name)
{
    *v = stream_any(st, *v, sizeof(*v), name);
}

void unetmm_stream_u16(UnetmmStream *st, uint16_t *v, const char *name)
{
    *v = stream_any(st, *v, sizeof(*v), name);
}

void unetmm_stream_u32(UnetmmStream *st, uint32_t *v, const char *name)
{
    *v = stream_any(st, *v, sizeof(*v), name);
}

void unetmm_stream_u64(UnetmmStream *st, uint64_t *v, const char *name)
{
    *v = stream_any(st, *v, sizeof(*v), name);
}

static uint64_t stream_range(UnetmmStream *st, uint64_t v, unsigned bytes,
                             UnetmmValueKind kind, uint64_t least,
                             uint64_t most, const char *name)
{
    v = stream_number(st, v, bytes, kind, least, most, name);
    if ((v < least || v > most) && unetmm_stream_reads(st)) {
        char path[UNETMM_STREAM_PATH];

        stream_path(st, name, path);
        unetmm_stream_refuse(st, "%s is %" PRIu64 ", which is out of range",
                             path, v);
    }
    return st->wrong ? 0 : v;
}

/* A number of 0 .. limit - 1. */
static uint32_t stream_below(UnetmmStream *st, uint32_t value, unsigned bytes,
                             uint32_t limit, UnetmmValueKind kind,
                             const char *name)
{
    /* A limit of 0 allows no value: the range 1..0 refuses all. */
    return stream_range(st, value, bytes, kind, !limit, limit ? limit - 1 : 0,
                        name);
}

void unetmm_stream_bool(UnetmmStream *st, bool *v, const char *name)
{
    *v = stream_below(st, *v, sizeof(uint32_t), 2, UNETMM_VALUE_BOOL, name);
}

uint32_t unetmm_stream_choice(UnetmmStream *st, uint32_t value, uint32_t limit,
                              const char *name)
{
    return stream_below(st, value, sizeof(value), limit, UNETMM_VALUE_NUMBER,
                        name);
}

uint16_t unetmm_stream_choice16(UnetmmStream *st, uint16_t value,
                                uint32_t limit, const char *name)
{
    return stream_below(st, value, sizeof(value), limit, UNETMM_VALUE_NUMBER,
                        name);
}

uint32_t unetmm_stream_member(UnetmmStream *st, uint32_t value, uint32_t limit,
                              const char *name, uint32_t index)
{
    unetmm_stream_enter(st, name, index);
    value = unetmm_stream_choice(st, value, limit, NULL);
    unetmm_stream_leave(st);
    return value;
}

void unetmm_stream_time(UnetmmStream *st, int64_t *when, uint64_t most,
                        const char *name)
{
    uint64_t ahead = *when > st->now ? *when - st->now : 0;

    ahead = stream_number(st, ahead, sizeof(ahead), UNETMM_VALUE_TIME, 0, most,
                          name);
    if (ahead > most) {
        char path[UNETMM_STREAM_PATH];

        stream_path(st, name, path);
        unetmm_stream_refuse(st, "%s is too far ahead", path);
        ahead = 0;
    }
    if (unetmm_stream_reads(st)) {
        *when = st->now + ahead;
    }
}

/* The member's number, whatever its type. */
static uint64_t field_get(const void *at, unsigned bytes)
{
    switch (bytes) {
    case sizeof(uint8_t):
        return *(const uint8_t *)at;
    case sizeof(uint16_t):
        return *(const uint16_t *)at;
    case sizeof(uint32_t):
        return *(const uint32_t *)at;
    default:
        return *(const uint64_t *)at;
    }
}

static void field_set(void *at, unsigned bytes, uint64_t v)
{
    switch (bytes) {
    case sizeof(uint8_t):
        *(uint8_t *)at = v;
        break;
    case sizeof(uint16_t):
        *(uint16_t *)at = v;
        break;
    case sizeof(uint32_t):
        *(uint32_t *)at = v;
        break;
    default:
        *(uint64_t *)at = v;
        break;
    }
}

static void field_number(UnetmmStream *st, void *at, const UnetmmField *f)
{
    uint64_t least = f->least, most = f->most;

    if (f->by_param) {
        uint32_t limit;

        memcpy(&limit, (const char *)st->params + f->param, sizeof(limit));
        most += limit;
        /* A limit of 0 allows no number: the range 1..0 refuses all. */
        least = !most;
        most -= most != 0;
    }
    field_set(at, f->bytes, stream_range(st, field_get(at, f->bytes), f->saved,
                                         f->kind, least, most, f->name));
}

static void field_table(UnetmmStream *st, char *object, const UnetmmField *f)
{
    uint32_t n = field_get(object + f->count, f->count_bytes);

    for (uint32_t i = 0; i < n && !st->wrong; i++) {
        unetmm_stream_enter(st, f->name, i);
        unetmm_stream_fields(st, object + f->at + i * f->stride, f->of,
                             f->nof);
        unetmm_stream_leave(st);
    }
}

bool unetmm_stream_fields(UnetmmStream *st, void *object,
                          const UnetmmField *fields, unsigned n)
{
    for (const UnetmmField *f = fields; f < fields + n; f++) {
        char *at = (char *)object + f->at;

        switch (f->kind) {
        case UNETMM_FIELD_TABLE:
            field_table(st, object, f);
            break;
        case UNETMM_VALUE_BYTES:
            unetmm_stream_bytes(st, at, f->bytes, f->name);
            break;
        case UNETMM_VALUE_TIME:
            unetmm_stream_time(st, (int64_t *)at, f->most, f->name);
            break;
        default:
            field_number(st, at, f);
            break;
        }
        if (f->gate && !field_get(at, f->bytes)) {
            return false;
        }
    }
    return !st->wrong;
}

void unetmm_stream_each(UnetmmStream *st, UnetmmCore *core, const char *name,
                        uint32_t n, void (*one)(UnetmmStream *st,
                                                UnetmmCore *core, uint32_t i))
{
    for (uint32_t i = 0; i < n && !st->wrong; i++) {
        unetmm_stream_enter(st, name, i);
        one(st, core, i);
        unetmm_stream_leave(st);
    }
}

void unetmm_stream_counters(UnetmmStream *st, uint64_t *counters)
{
#define COUNTER_NAME(name, scope, help) #name,
    static const char *const names[] = { UNETMM_COUNTERS(COUNTER_NAME) };
#undef COUNTER_NAME

    unetmm_stream_enter(st, "counters", UNETMM_STREAM_ONE);
    for (unsigned i = 0; i < UNETMM_NUM_COUNTERS; i++) {
        unetmm_stream_u64(st, &counters[i], names[i]);
    }
    unetmm_stream_leave(st);
}
