/*
 * unetmm: fuzzing: saved states that are changed
 *
 * Streams have neither checksums nor lengths that would have to be put right
 * after a change, so the changes are operations of the input like all others,
 * and libFuzzer's own mutations do.
 *
 * A refused stream must leave a card as after a reset, one that takes the true
 * stream.  An accepted stream must be a state that a card can have: it is
 * saved again and loaded without a change, at once and at any time later.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fuzz_change.h"

#define STREAM_MOST 200000
#define FIELDS_MOST 16384
#define PACKET_MOST 24
#define RELS_MOST   64

bool fuzz_loaded;
static GByteArray *earlier;     /* an earlier state, to take parts from */

/* ---- Where the values of a stream are ---- */

/* Most bytes of a stream are payload, on which nothing depends. */
static uint32_t fields[FIELDS_MOST];    /* offsets in the stream, ascending */
static uint32_t mosts[FIELDS_MOST];     /* the largest number of each */
static unsigned nfields;
static bool all_fields;         /* or without those of large, equal tables */
static unsigned rels[RELS_MOST], nrels; /* the first of reliable channels */
static unsigned packet;                 /* the first of one on its way, or 0 */

static void note_field(void *opaque, const UnetmmValue *value)
{
    if (value->kind == UNETMM_VALUE_BYTES || nfields == FIELDS_MOST ||
        (!all_fields && (strstr(value->path, ".counter[") ||
                         g_str_has_prefix(value->path, "miss[")))) {
        return;
    }
    if (!all_fields && nrels < RELS_MOST && strstr(value->path, ".rel[") &&
        g_str_has_suffix(value->path, "].slot")) {
        rels[nrels++] = nfields;
    }
    /* The values of one packet among thousands: chance would not meet them. */
    if (g_str_has_suffix(value->path, ".send.psn")) {
        packet = nfields;
    }
    mosts[nfields] = MIN(value->most, UINT32_MAX);
    fields[nfields++] = value->at;
}

static const UnetmmObserver fields_observer = { .value = note_field };

/* A byte of the stream: mostly the first of a value. */
static uint32_t where(const GByteArray *s, FuzzIn *in, uint8_t how)
{
    uint16_t at = fuzz_u16(in);

    /* The last are the rarest: packets on their way through the card. */
    if (how & 0x10 && nrels) {
        at = rels[(at >> 8) % nrels] + (at & 0xff);
    } else if (how & 0x20 && packet) {
        at = packet + at % PACKET_MOST;
    } else if (how & 0x40) {
        at = nfields - 1 - at % nfields;
    }
    return (how & 0x80 ? at : fields[at % nfields]) % s->len;
}

/* ---- Changes ---- */

/* The largest number that the value there may be. */
static uint32_t most_at(uint32_t at)
{
    unsigned low = 0, high = nfields;

    while (low < high) {
        unsigned middle = (low + high) / 2;

        if (fields[middle] < at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < nfields && fields[low] == at ? mosts[low] : 0;
}

static uint32_t edge(FuzzIn *in, uint32_t at)
{
    const uint32_t most = most_at(at);
    const uint32_t edges[] = {
        0, 1, 2, 3, 4, 5, 7, 8, 16, 17, 0xfff, 0x1000, 0x10000, 0x10001,
        0x7fffffff, 0xffffffff, 0x10041, 0x14000, 0x20000, 0x80000000,
        most, most + 1,
    };
    uint8_t how = fuzz_u8(in);

    return how & 0x80 ? fuzz_u32(in) : edges[how % G_N_ELEMENTS(edges)];
}

/* Lengths change, too: the stream has no other sign of where a thing ends. */
static void resize(GByteArray *s, uint32_t at, uint8_t by)
{
    static const uint8_t zero[64];
    uint32_t n = 1 + by % 64;

    if (by & 0x80) {
        g_byte_array_remove_range(s, at, MIN(n, s->len - at));
    } else if (by & 0x40) {
        g_byte_array_set_size(s, at);
    } else if (s->len < STREAM_MOST) {
        g_byte_array_append(s, zero, n);
        memmove(s->data + at + n, s->data + at, s->len - n - at);
        memset(s->data + at, 0, n);
    }
}

static void overwrite(GByteArray *s, uint32_t at, const void *with, uint32_t n)
{
    memmove(s->data + at, with, MIN(n, s->len - at));
}

static void change(GByteArray *s, FuzzIn *in)
{
    uint8_t how = fuzz_u8(in);
    uint32_t at, from, n, v;

    if (!s->len) {
        return;
    }
    at = where(s, in, how);
    switch (how & 7) {
    case 0:
        s->data[at] = fuzz_u8(in);
        break;
    case 1:
        s->data[at] ^= 1u << fuzz_below(in, 8);
        break;
    case 2:
        s->data[at] += how & 8 ? 1 : -1;
        break;
    case 3: case 4:
        v = cpu_to_le32(edge(in, at));
        overwrite(s, at, &v, sizeof(v));
        break;
    case 5:
        from = where(s, in, how);
        n = fuzz_u8(in);        /* once: MIN() may look twice */
        overwrite(s, at, s->data + from, MIN(n, s->len - from));
        break;
    case 6:
        n = fuzz_u16(in);
        if (earlier && at < earlier->len) {
            overwrite(s, at, earlier->data + at, MIN(n, earlier->len - at));
        }
        break;
    default:
        resize(s, at, fuzz_u8(in));
        break;
    }
}

/* ---- Saving and loading ---- */

static GByteArray *save(FuzzCard *c)
{
    GByteArray *saved;

    nfields = nrels = packet = 0;
    unetmm_core_observe(&c->h.core, &fields_observer);
    saved = unetmm_core_save(&c->h.core);
    unetmm_core_observe(&c->h.core, NULL);
    return saved;
}

static void load_true(FuzzCard *c, const GByteArray *s)
{
    g_autofree char *why = NULL;

    if (!unetmm_core_load(&c->h.core, s->data, s->len, &why)) {
        fail_msg("a card's saved state is refused: %s", why);
    }
}

/* A frame in the net layer stays behind, and is counted: not the same again. */
void fuzz_move(FuzzCard *c)
{
    if (!c->h.core.port->busy) {
        fake_migrate(&c->h);
    }
}

void fuzz_load_changed(FuzzCard *c, FuzzIn *in)
{
    GByteArray *saved = save(c);
    g_autofree uint8_t *exact = NULL;
    g_autofree char *why = NULL;
    GByteArray *s = g_byte_array_new();

    g_byte_array_append(s, saved->data, saved->len);
    for (unsigned n = fuzz_below(in, 9); n; n--) {
        change(s, in);
    }
    if (!fuzz_loaded) {
        fuzz_be_lenient(c);
        fuzz_loaded = true;
    }
    c->h.core.port->busy = false;        /* the new place's wire is free */
    /* Memory of just that size, so that the sanitizer sees one too far. */
    exact = g_memdup2(s->data, s->len);
    if (unetmm_core_load(&c->h.core, exact, s->len, &why)) {
        fuzz_move(c);
    } else {
        assert_true(strlen(why) > 10);
        assert_int_equal(c->h.core.engine.ctrl, 0);
        assert_int_equal(c->h.core.source->tlb.used + c->h.core.source->cache.used, 0);
        assert_int_equal(c->h.core.port->fifo_used, 0);
        load_true(c, saved);
    }
    g_byte_array_unref(s);
    g_clear_pointer(&earlier, g_byte_array_unref);
    earlier = saved;
}

void fuzz_change_reset(void)
{
    fuzz_loaded = all_fields = false;
    g_clear_pointer(&earlier, g_byte_array_unref);
}

void fuzz_change_start(FuzzCard *c)
{
    fuzz_change_reset();
    all_fields = true;
    /* Without an observer: names of 20,000 values take time. */
    earlier = unetmm_core_save(&c->h.core);
}
