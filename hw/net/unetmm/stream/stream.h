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
    uint32_t depth;
    UnetmmScope scopes[UNETMM_STREAM_DEPTH];
} UnetmmStream;

static inline bool unetmm_stream_reads(const UnetmmStream *st)
{
    return !st->out;
}

/*
 * A member of a structure in the saved state: its name there, its place, and
 * the numbers that it may have.
 */
typedef struct UnetmmField {
    const char *name;
    uint16_t at;
    uint8_t bytes;              /* of the member ... */
    uint8_t saved;              /* ... and in the stream */
    UnetmmValueKind kind;
    uint64_t least, most;
} UnetmmField;

#define UNETMM_FIELD_(type, member, name, saved, kind, least, most) \
    { name, offsetof(type, member), sizeof(((type *)0)->member), saved, \
      UNETMM_VALUE_##kind, least, most }
/* Any number, in as many bytes as it has; a bool; a number of least .. most. */
#define UNETMM_FIELD(type, member) \
    UNETMM_FIELD_AS(type, member, #member)
#define UNETMM_FIELD_AS(type, member, name) \
    UNETMM_FIELD_(type, member, name, sizeof(((type *)0)->member), NUMBER, 0, \
                  UINT64_MAX)
#define UNETMM_FIELD_BOOL(type, member) \
    UNETMM_FIELD_(type, member, #member, sizeof(uint32_t), BOOL, 0, 1)
#define UNETMM_FIELD_RANGE(type, member, least, most) \
    UNETMM_FIELD_(type, member, #member, sizeof(uint32_t), NUMBER, least, most)

/* Members of one object, in this order: writes them, or reads and checks. */
void unetmm_stream_fields(UnetmmStream *st, void *object,
                          const UnetmmField *fields, unsigned n);
#define UNETMM_STREAM_FIELDS(st, object, fields) \
    unetmm_stream_fields(st, object, fields, G_N_ELEMENTS(fields))

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
 * 64 bits: a moment, as the time from `now` on; the past is now.  At most
 * `most` ns.
 */
void unetmm_stream_time(UnetmmStream *st, int64_t *when, int64_t now,
                        uint64_t most, const char *name);

/* UNETMM_NUM_COUNTERS times 64 bits, each by the counter's name. */
void unetmm_stream_counters(UnetmmStream *st, uint64_t *counters);

#endif /* UNETMM_STREAM_H */
