/*
 * unetmm: TLB simulation: sample sort
 *
 * Node 0 chooses splitters from a sample; each key goes to the node of its
 * range, two keys a message (small) or all of a node's at once (large).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <stdio.h>
#include "sim.h"

#define SAMPLES     64                  /* a node's */
#define SMALL_KEYS  2

enum { OP_COUNT = SIM_OP_USER, OP_KEYS };

typedef struct Sample {
    uint64_t keys, ordered, in;         /* addresses, the same in all nodes */
    uint64_t samples, splitters;
    uint32_t to[SIM_MAX_NODES][SIM_MAX_NODES];
    uint32_t got[SIM_MAX_NODES];
    uint64_t sum;
} Sample;

static Sample state;                    /* of handlers; reset by each run */

static uint32_t *words(SimProc *p, uint64_t addr, uint64_t n)
{
    return sim_ptr(p, addr, n * 4);
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static void sample_handler(SimProc *to, SimProc *from, const SimHeader *h)
{
    uint32_t me = to - to->sim->procs, peer = from - to->sim->procs;

    if (h->op == OP_COUNT) {
        state.to[peer][me] = h->arg[0];
        return;
    }
    SIM_CHECK(h->op == OP_KEYS);
    for (uint32_t i = 0; i < h->arg[0]; i++) {
        words(to, state.in, state.got[me] + 1)[state.got[me]] =
            h->arg[1 + i];
        state.got[me]++;
    }
}

static void sample_setup(Sim *sim)
{
    uint32_t n = sim->config.keys;

    memset(&state, 0, sizeof(state));
    for (uint32_t p = 0; p < sim->nprocs; p++) {
        SimProc *proc = &sim->procs[p];

        state.keys = sim_alloc(proc, n * 4ull);
        state.ordered = sim_alloc(proc, n * 4ull);
        state.in = sim_alloc(proc, n * 8ull);
        state.samples = sim_alloc(proc, SAMPLES * SIM_MAX_NODES * 4);
        state.splitters = sim_alloc(proc, SIM_MAX_NODES * 4);
        for (uint32_t i = 0; i < n; i++) {
            words(proc, state.keys, n)[i] = sim_random(sim);
            state.sum += words(proc, state.keys, n)[i];
        }
    }
}

static void sample_splitters(Sim *sim)
{
    SimProc *first = &sim->procs[0];
    uint32_t all = SAMPLES * sim->nprocs;

    for (uint32_t p = 0; p < sim->nprocs; p++) {
        SimProc *me = &sim->procs[p];
        uint32_t *mine = words(me, state.samples, SAMPLES);

        for (uint32_t i = 0; i < SAMPLES; i++) {
            mine[i] = words(me, state.keys, sim->config.keys)
                      [sim_random(sim) % sim->config.keys];
        }
        sim_store(me, first, state.samples + p * SAMPLES * 4, state.samples,
                  SAMPLES * 4);
    }
    qsort(words(first, state.samples, all), all, 4, by_value);
    for (uint32_t p = 1; p < sim->nprocs; p++) {
        words(first, state.splitters, p)[p - 1] =
            words(first, state.samples, all)[p * SAMPLES];
    }
    for (uint32_t p = 1; p < sim->nprocs; p++) {
        sim_store(first, &sim->procs[p], state.splitters, state.splitters,
                  (sim->nprocs - 1) * 4);
    }
}

static uint32_t sample_node(SimProc *me, uint32_t key)
{
    uint32_t n = me->sim->nprocs, p = 0;
    const uint32_t *splitters = words(me, state.splitters, n);

    while (p < n - 1 && key >= splitters[p]) {
        p++;
    }
    return p;
}

static void send_keys(SimProc *me, uint32_t peer, uint64_t n,
                      const uint32_t *keys)
{
    SimHeader h = { .op = OP_KEYS, .arg = { n, keys[0], keys[1] } };
    SimProc *to = &me->sim->procs[peer];

    if (to == me) {
        sample_handler(me, me, &h);
    } else if (n) {
        sim_call(me, to, &h);
    }
}

/* Keys are sent as they are met.  Nodes take turns. */
static void sample_small(Sim *sim)
{
    uint32_t n = sim->nprocs;
    uint32_t (*wait)[SIM_MAX_NODES][SMALL_KEYS] = g_malloc0(n *
                                                            sizeof(*wait));
    uint32_t (*have)[SIM_MAX_NODES] = g_malloc0(n * sizeof(*have));

    for (uint32_t i = 0; i < sim->config.keys; i++) {
        for (uint32_t p = 0; p < n; p++) {
            SimProc *me = &sim->procs[p];
            uint32_t key = words(me, state.keys, i + 1)[i];
            uint32_t to = sample_node(me, key);

            wait[p][to][have[p][to]++] = key;
            if (have[p][to] == SMALL_KEYS) {
                send_keys(me, to, SMALL_KEYS, wait[p][to]);
                have[p][to] = 0;
            }
        }
    }
    for (uint32_t p = 0; p < n; p++) {
        for (uint32_t to = 0; to < n; to++) {
            send_keys(&sim->procs[p], to, have[p][to], wait[p][to]);
        }
    }
    g_free(wait);
    g_free(have);
}

/* Arranges a node's keys by destination and tells each how many will come. */
static void sample_arrange(SimProc *me)
{
    Sim *sim = me->sim;
    uint32_t p = me - sim->procs, n = sim->config.keys;
    uint32_t next[SIM_MAX_NODES] = { 0 };
    const uint32_t *keys = words(me, state.keys, n);

    for (uint32_t i = 0; i < n; i++) {
        state.to[p][sample_node(me, keys[i])]++;
    }
    for (uint32_t to = 1; to < sim->nprocs; to++) {
        next[to] = next[to - 1] + state.to[p][to - 1];
    }
    for (uint32_t i = 0; i < n; i++) {
        words(me, state.ordered, n)[next[sample_node(me, keys[i])]++] =
            keys[i];
    }
    for (uint32_t r = 1; r < sim->nprocs; r++) {
        uint32_t to = (p + r) % sim->nprocs;
        SimHeader h = { .op = OP_COUNT, .arg = { state.to[p][to] } };

        sim_call(me, &sim->procs[to], &h);
    }
}

static void sample_large(Sim *sim)
{
    uint32_t n = sim->nprocs;

    for (uint32_t p = 0; p < n; p++) {
        sample_arrange(&sim->procs[p]);
    }
    for (uint32_t r = 0; r < n; r++) {
        for (uint32_t p = 0; p < n; p++) {
            uint32_t to = (p + r) % n, from_at = 0, to_at = 0;

            for (uint32_t q = 0; q < to; q++) {
                from_at += state.to[p][q];
            }
            for (uint32_t q = 0; q < p; q++) {
                to_at += state.to[q][to];
            }
            sim_store(&sim->procs[p], &sim->procs[to],
                      state.in + to_at * 4ull, state.ordered + from_at * 4ull,
                      state.to[p][to] * 4ull);
            state.got[to] += state.to[p][to];
        }
    }
}

static void sample_verify(Sim *sim)
{
    uint64_t sum = 0, all = 0;
    uint32_t last = 0;

    for (uint32_t p = 0; p < sim->nprocs; p++) {
        uint32_t *keys = words(&sim->procs[p], state.in, state.got[p]);

        qsort(keys, state.got[p], 4, by_value);
        for (uint32_t i = 0; i < state.got[p]; i++) {
            SIM_CHECK(keys[i] >= last);
            last = keys[i];
            sum += last;
        }
        all += state.got[p];
    }
    SIM_CHECK(sum == state.sum);
    SIM_CHECK(all == (uint64_t)sim->config.keys * sim->nprocs);
}

void sim_sample_sort(Sim *sim, bool large)
{
    sim->user = sample_handler;
    sample_setup(sim);
    sample_splitters(sim);
    if (large) {
        sample_large(sim);
    } else {
        sample_small(sim);
    }
    sample_verify(sim);
}
