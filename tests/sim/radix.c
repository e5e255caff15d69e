/*
 * unetmm: TLB simulation: radix sort with large messages
 *
 * In each pass every node orders its keys by the digit, all nodes learn all
 * histograms, and then each knows which of its keys go where: those for one
 * node lie side by side, and go at once.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <stdio.h>
#include "sim.h"

#define DIGIT_BITS  11
#define DIGITS      (1u << DIGIT_BITS)

typedef struct Radix {
    Sim *sim;
    uint64_t keys, ordered, in, hists;  /* addresses, the same in all nodes */
    unsigned shift;
    uint64_t sum;
} Radix;

static uint32_t *words(SimProc *p, uint64_t addr, uint64_t n)
{
    return sim_ptr(p, addr, n * 4);
}

static uint32_t *radix_hist(const Radix *r, SimProc *me, uint32_t of)
{
    return words(me, r->hists + of * DIGITS * 4ull, DIGITS);
}

static uint32_t radix_digit(const Radix *r, uint32_t key)
{
    return key >> r->shift & (DIGITS - 1);
}

static void radix_setup(Radix *r)
{
    uint32_t n = r->sim->config.keys;

    for (uint32_t p = 0; p < r->sim->nprocs; p++) {
        SimProc *me = &r->sim->procs[p];

        r->keys = sim_alloc(me, n * 4ull);
        r->ordered = sim_alloc(me, n * 4ull);
        r->in = sim_alloc(me, n * 4ull);
        r->hists = sim_alloc(me, r->sim->nprocs * DIGITS * 4ull);
        for (uint32_t i = 0; i < n; i++) {
            words(me, r->keys, n)[i] = sim_random(r->sim);
            r->sum += words(me, r->keys, n)[i];
        }
    }
}

/* Counts, and orders the node's own keys, stably. */
static void radix_local(const Radix *r, uint32_t p)
{
    SimProc *me = &r->sim->procs[p];
    uint32_t n = r->sim->config.keys, at = 0;
    const uint32_t *keys = words(me, r->keys, n);
    uint32_t *ordered = words(me, r->ordered, n);
    uint32_t *hist = radix_hist(r, me, p);
    uint32_t next[DIGITS];

    memset(hist, 0, DIGITS * 4);
    for (uint32_t i = 0; i < n; i++) {
        hist[radix_digit(r, keys[i])]++;
    }
    for (uint32_t d = 0; d < DIGITS; d++) {
        next[d] = at;
        at += hist[d];
    }
    for (uint32_t i = 0; i < n; i++) {
        ordered[next[radix_digit(r, keys[i])]++] = keys[i];
    }
}

/* A stretch of source's ordered keys that belongs to `to`, and its place. */
typedef void RadixRun(void *opaque, uint32_t first, uint32_t place,
                      uint32_t n);

/* By the histograms that node `me` has. */
static void radix_runs(const Radix *r, SimProc *me, uint32_t source,
                       uint32_t to, RadixRun *run, void *opaque)
{
    uint32_t n = r->sim->config.keys, first = 0;
    uint64_t place = 0, low = (uint64_t)to * n, high = low + n;

    for (uint32_t d = 0; d < DIGITS; d++) {
        for (uint32_t p = 0; p < r->sim->nprocs; p++) {
            uint32_t count = radix_hist(r, me, p)[d];
            uint64_t from = MAX(place, low), end = MIN(place + count, high);

            if (p == source && from < end) {
                run(opaque, first + (from - place), from - low, end - from);
            }
            place += count;
            first += p == source ? count : 0;
        }
    }
}

typedef struct RadixSpan {
    uint32_t first, n;
} RadixSpan;

static void run_extend(void *opaque, uint32_t first, uint32_t place,
                       uint32_t n)
{
    RadixSpan *span = opaque;

    SIM_CHECK(!span->n || first == span->first + span->n);
    if (!span->n) {
        span->first = first;
    }
    span->n += n;
}

static RadixSpan radix_span(const Radix *r, SimProc *me, uint32_t source,
                            uint32_t to)
{
    RadixSpan span = { 0 };

    radix_runs(r, me, source, to, run_extend, &span);
    return span;
}

typedef struct RadixPlace {
    uint32_t *keys;
    const uint32_t *in;
} RadixPlace;

static void run_place(void *opaque, uint32_t first, uint32_t place,
                      uint32_t n)
{
    RadixPlace *to = opaque;

    memcpy(to->keys + place, to->in, n * 4ull);
    to->in += n;
}

static void radix_exchange(const Radix *r)
{
    uint32_t n = r->sim->nprocs;
    uint32_t (*at)[SIM_MAX_NODES] = g_malloc0(n * sizeof(*at));

    for (uint32_t to = 0; to < n; to++) {
        for (uint32_t p = 1; p < n; p++) {
            at[to][p] = at[to][p - 1] +
                        radix_span(r, &r->sim->procs[to], p - 1, to).n;
        }
    }
    for (uint32_t round = 0; round < n; round++) {
        for (uint32_t p = 0; p < n; p++) {
            uint32_t to = (p + round) % n;
            RadixSpan span = radix_span(r, &r->sim->procs[p], p, to);

            sim_store(&r->sim->procs[p], &r->sim->procs[to],
                      r->in + at[to][p] * 4ull, r->ordered + span.first * 4ull,
                      span.n * 4ull);
        }
    }
    g_free(at);
}

static void radix_pass(const Radix *r)
{
    uint32_t n = r->sim->nprocs, nkeys = r->sim->config.keys;

    for (uint32_t p = 0; p < n; p++) {
        radix_local(r, p);
    }
    for (uint32_t round = 1; round < n; round++) {
        for (uint32_t p = 0; p < n; p++) {
            uint64_t hist = r->hists + p * DIGITS * 4ull;

            sim_store(&r->sim->procs[p], &r->sim->procs[(p + round) % n],
                      hist, hist, DIGITS * 4);
        }
    }
    radix_exchange(r);
    for (uint32_t p = 0; p < n; p++) {
        SimProc *me = &r->sim->procs[p];
        RadixPlace place = {
            words(me, r->keys, nkeys), words(me, r->in, nkeys)
        };

        for (uint32_t source = 0; source < n; source++) {
            radix_runs(r, me, source, p, run_place, &place);
        }
    }
}

void sim_radix_sort(Sim *sim)
{
    Radix r = { .sim = sim };
    uint64_t sum = 0;
    uint32_t last = 0, n = sim->config.keys;

    radix_setup(&r);
    for (r.shift = 0; r.shift < 32; r.shift += DIGIT_BITS) {
        radix_pass(&r);
    }
    for (uint32_t p = 0; p < sim->nprocs; p++) {
        const uint32_t *keys = words(&sim->procs[p], r.keys, n);

        for (uint32_t i = 0; i < n; i++) {
            SIM_CHECK(keys[i] >= last);
            last = keys[i];
            sum += last;
        }
    }
    SIM_CHECK(sum == r.sum);
}
