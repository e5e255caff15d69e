/*
 * unetmm: a stream of values that have names, to be written or to be read
 *
 * One description of the saved state serves both ways: every call either
 * appends the value to the stream or replaces it by the stream's.  The stream
 * is little-endian, without padding and without names: these are for the
 * observer (scripts/migration-dump) and for the sentence that refuses a value.
 *
 * A stream that is read is hostile: it ends where it ends, and the first thing
 * that is wrong with it is remembered; from then on every value is zero and
 * nothing has to be checked in between for safety's sake.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_STREAM_H
#define UNETMM_STREAM_H

#include "../abi/unetmm_params.h"

typedef struct UnetmmCore UnetmmCore;

#define UNETMM_STREAM_DEPTH     8
#define UNETMM_STREAM_PATH      128     /* bytes that every path has room in */
#define UNETMM_STREAM_ONE       UINT32_MAX

typedef enum UnetmmValueKind {
    UNETMM_VALUE_NUMBER,
    UNETMM_VALUE_BOOL,
    UNETMM_VALUE_TIME,          /* nanoseconds from the moment of saving on */
    UNETMM_VALUE_BYTES,
} UnetmmValueKind;

typedef struct UnetmmValue {
    const char *path;           /* "ep[3].send.segs[0].addr" */
    UnetmmValueKind kind;
    size_t at;                  /* its first byte in the stream */
    size_t bytes;
    uint64_t number;            /* of all kinds but BYTES */
    uint64_t least, most;       /* that it may be */
    const uint8_t *data;        /* of BYTES */
} UnetmmValue;

/* Is shown each value, in the order of the stream, until one is refused. */
typedef struct UnetmmObserver {
    void (*value)(void *opaque, const UnetmmValue *value);
    void *opaque;
} UnetmmObserver;

typedef struct UnetmmScope {
    const char *name;
    uint32_t index;             /* UNETMM_STREAM_ONE: it has none */
} UnetmmScope;

typedef struct UnetmmStream {
    GByteArray *out;            /* NULL: the stream is read */
    const uint8_t *in;
    size_t left;
    size_t at;                  /* bytes that were read or written */
    bool wrong;
    char why[160];              /* one sentence, if wrong */
    const UnetmmObserver *observer;     /* or NULL */
    const UnetmmParams *params; /* of the card */
    int64_t now;                /* moments are saved as the time from here on */
    uint32_t depth;
    UnetmmScope scopes[UNETMM_STREAM_DEPTH];
} UnetmmStream;

static inline bool unetmm_stream_reads(const UnetmmStream *st)
{
    return !st->out;
}

/* Is a value read, and all so far right?  Then it may be used. */
static inline bool unetmm_stream_takes(const UnetmmStream *st)
{
    return !st->out && !st->wrong;
}

/*
 * A member of a structure in the saved state: its name there, its place, and
 * the numbers that it may have.  Saving, loading, the check of the bounds and
 * the observer's values follow from the table.
 */
typedef struct UnetmmField UnetmmField;
struct UnetmmField {
    const char *name;
    uint16_t at;
    uint16_t bytes;             /* of the member ... */
    uint8_t saved;              /* ... and in the stream */
    uint8_t kind;               /* UnetmmValueKind, or UNETMM_FIELD_TABLE */
    bool gate;                  /* if it is zero the table ends here */
    /* The relation to a parameter: a number below limit + (parameter). */
    bool by_param;
    uint16_t param;
    uint64_t least, most;
    /* UNETMM_FIELD_TABLE: structures, as many as a member says */
    const UnetmmField *of;
    uint16_t nof, stride, count, count_bytes;
};

#define UNETMM_FIELD_TABLE      0xff

#define UNETMM_FIELD_(type, member, text, in, what, low, high) \
    .name = text, .at = offsetof(type, member), \
    .bytes = sizeof(((type *)0)->member), .saved = in, \
    .kind = UNETMM_VALUE_##what, .least = low, .most = high
/* Any number, in as many bytes as it has. */
#define UNETMM_FIELD_AS(type, member, name) \
    { UNETMM_FIELD_(type, member, name, sizeof(((type *)0)->member), NUMBER, \
                    0, UINT64_MAX) }
#define UNETMM_FIELD(type, member) UNETMM_FIELD_AS(type, member, #member)
/* 32 bits: a bool; a number of low .. high. */
#define UNETMM_FIELD_BOOL(type, member) \
    { UNETMM_FIELD_(type, member, #member, sizeof(uint32_t), BOOL, 0, 1) }
#define UNETMM_FIELD_RANGE(type, member, low, high) \
    { UNETMM_FIELD_(type, member, #member, sizeof(uint32_t), NUMBER, low, \
                    high) }
/* Several members of the two kinds, one behind the other */
#define UNETMM_FIELDS(type, ...) unetmm_each(UNETMM_FIELD, type, __VA_ARGS__)
#define UNETMM_BOOLS(type, ...) \
    unetmm_each(UNETMM_FIELD_BOOL, type, __VA_ARGS__)
#define unetmm_each(f, type, ...) \
    unetmm_each_n(__VA_ARGS__, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2) \
    (f, type, __VA_ARGS__)
#define unetmm_each_n(a, b, c, d, e, f, g, h, i, j, k, l, n, ...) \
    unetmm_each_##n
#define unetmm_each_1(f, t, m) f(t, m)
#define unetmm_each_2(f, t, m, ...) f(t, m), unetmm_each_1(f, t, __VA_ARGS__)
#define unetmm_each_3(f, t, m, ...) f(t, m), unetmm_each_2(f, t, __VA_ARGS__)
#define unetmm_each_4(f, t, m, ...) f(t, m), unetmm_each_3(f, t, __VA_ARGS__)
#define unetmm_each_5(f, t, m, ...) f(t, m), unetmm_each_4(f, t, __VA_ARGS__)
#define unetmm_each_6(f, t, m, ...) f(t, m), unetmm_each_5(f, t, __VA_ARGS__)
#define unetmm_each_7(f, t, m, ...) f(t, m), unetmm_each_6(f, t, __VA_ARGS__)
#define unetmm_each_8(f, t, m, ...) f(t, m), unetmm_each_7(f, t, __VA_ARGS__)
#define unetmm_each_9(f, t, m, ...) f(t, m), unetmm_each_8(f, t, __VA_ARGS__)
#define unetmm_each_10(f, t, m, ...) f(t, m), unetmm_each_9(f, t, __VA_ARGS__)
#define unetmm_each_11(f, t, m, ...) f(t, m), unetmm_each_10(f, t, __VA_ARGS__)
#define unetmm_each_12(f, t, m, ...) f(t, m), unetmm_each_11(f, t, __VA_ARGS__)
/* 32 bits: a number below a parameter, or below that and `more`. */
#define UNETMM_FIELD_BELOW(type, member, name, parameter, more) \
    { UNETMM_FIELD_(type, member, name, sizeof(uint32_t), NUMBER, 0, more), \
      .by_param = true, .param = offsetof(UnetmmParams, parameter) }
/* A gate: the rest of the table is saved only if this member is not zero. */
#define UNETMM_FIELD_IF(type, member) \
    { UNETMM_FIELD_(type, member, #member, sizeof(uint32_t), BOOL, 0, 1), \
      .gate = true }
#define UNETMM_FIELD_IF_RANGE(type, member, low, high) \
    { UNETMM_FIELD_(type, member, #member, sizeof(uint32_t), NUMBER, low, \
                    high), .gate = true }
/* 64 bits: a moment, at most so many nanoseconds ahead. */
#define UNETMM_FIELD_TIME(type, member, high) \
    { UNETMM_FIELD_(type, member, #member, sizeof(uint64_t), TIME, 0, high) }
#define UNETMM_FIELD_BYTES(type, member) \
    { UNETMM_FIELD_(type, member, #member, 0, BYTES, 0, 0) }
/* A list of structures, as many as the member `n` says. */
#define UNETMM_FIELD_LIST(type, n, member, text, table) \
    { .name = text, .at = offsetof(type, member), \
      .kind = UNETMM_FIELD_TABLE, .of = table, .nof = G_N_ELEMENTS(table), \
      .stride = sizeof(((type *)0)->member[0]), .count = offsetof(type, n), \
      .count_bytes = sizeof(((type *)0)->n) }

/*
 * Members of one object, in this order: writes them, or reads and checks.
 * False: a gate was zero, or the stream is wrong.
 */
bool unetmm_stream_fields(UnetmmStream *st, void *object,
                          const UnetmmField *fields, unsigned n);
#define UNETMM_STREAM_FIELDS(st, object, fields) \
    unetmm_stream_fields(st, object, fields, G_N_ELEMENTS(fields))

/* Saves name[0] .. name[n - 1]; ends at the first wrong value. */
void unetmm_stream_each(UnetmmStream *st, UnetmmCore *core, const char *name,
                        uint32_t n, void (*one)(UnetmmStream *st,
                                                UnetmmCore *core,
                                                uint32_t i));

void unetmm_stream_refuse(UnetmmStream *st, const char *format, ...)
    G_GNUC_PRINTF(2, 3);

/*
 * The values up to the matching leave() belong to `name`, or to one of several:
 * name[index].  Names are not copied.
 */
void unetmm_stream_enter(UnetmmStream *st, const char *name, uint32_t index);
void unetmm_stream_leave(UnetmmStream *st);

/* The name of a value is that in its scope; NULL: the scope is the value. */
void unetmm_stream_bytes(UnetmmStream *st, void *data, size_t bytes,
                         const char *name);
void unetmm_stream_u8(UnetmmStream *st, uint8_t *v, const char *name);
void unetmm_stream_u16(UnetmmStream *st, uint16_t *v, const char *name);
void unetmm_stream_u32(UnetmmStream *st, uint32_t *v, const char *name);
void unetmm_stream_u64(UnetmmStream *st, uint64_t *v, const char *name);
/* 32 bits, 0 or 1. */
void unetmm_stream_bool(UnetmmStream *st, bool *v, const char *name);
/* 32 bits, a number of 0 .. limit - 1; `value` is saved. */
uint32_t unetmm_stream_choice(UnetmmStream *st, uint32_t value, uint32_t limit,
                              const char *name);
/* The same of 16 bits. */
uint16_t unetmm_stream_choice16(UnetmmStream *st, uint16_t value,
                                uint32_t limit, const char *name);
/* A choice of 32 bits that is a member of a list: name[index]. */
uint32_t unetmm_stream_member(UnetmmStream *st, uint32_t value, uint32_t limit,
                              const char *name, uint32_t index);
/*
 * 64 bits: a moment, as the time from now on; the past is now.  At most
 * `most` ns.
 */
void unetmm_stream_time(UnetmmStream *st, int64_t *when, uint64_t most,
                        const char *name);

/* UNETMM_NUM_COUNTERS times 64 bits, each by the counter's name. */
void unetmm_stream_counters(UnetmmStream *st, uint64_t *counters);

#endif /* UNETMM_STREAM_H */
