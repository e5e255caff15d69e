/*
 * unetmm: TLB simulation: multiplication of matrices in blocks
 *
 * Blocks are dealt to the nodes in turn; the owner of a block of C gets the
 * blocks of A and B that it needs, one pair at a time, and keeps none.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <stdio.h>
#include "sim.h"

typedef struct Mm {
    Sim *sim;
    uint32_t n, side;                   /* n * n blocks of side * side */
    uint64_t bytes;                     /* of a block */
    uint64_t a, b, c, buf_a, buf_b;     /* the same in all nodes */
} Mm;

static SimProc *mm_owner(const Mm *m, uint32_t i, uint32_t j)
{
    return &m->sim->procs[(i * m->n + j) % m->sim->nprocs];
}

static uint64_t mm_at(const Mm *m, uint64_t matrix, uint32_t i, uint32_t j)
{
    return matrix + (i * m->n + j) / m->sim->nprocs * m->bytes;
}

static double *mm_block(const Mm *m, uint64_t matrix, uint32_t i, uint32_t j)
{
    return sim_ptr(mm_owner(m, i, j), mm_at(m, matrix, i, j), m->bytes);
}

static void mm_setup(Mm *m)
{
    uint64_t most = (m->n * m->n + m->sim->nprocs - 1) / m->sim->nprocs *
                    m->bytes;

    for (uint32_t p = 0; p < m->sim->nprocs; p++) {
        SimProc *proc = &m->sim->procs[p];

        m->a = sim_alloc(proc, most);
        m->b = sim_alloc(proc, most);
        m->c = sim_alloc(proc, most);
        m->buf_a = sim_alloc(proc, m->bytes);
        m->buf_b = sim_alloc(proc, m->bytes);
    }
    for (uint32_t e = 0; e < m->n * m->n; e++) {
        double *a = mm_block(m, m->a, e / m->n, e % m->n);
        double *b = mm_block(m, m->b, e / m->n, e % m->n);

        /* Small whole numbers, so that all sums are exact. */
        for (uint32_t x = 0; x < m->side * m->side; x++) {
            a[x] = (double)(sim_random(m->sim) % 17) - 8;
            b[x] = (double)(sim_random(m->sim) % 17) - 8;
        }
    }
}

static void mm_multiply(double *restrict c, const double *restrict a,
                        const double *restrict b, uint32_t side)
{
    for (uint32_t i = 0; i < side; i++) {
        for (uint32_t k = 0; k < side; k++) {
            double v = a[i * side + k];

            for (uint32_t j = 0; j < side; j++) {
                c[i * side + j] += v * b[k * side + j];
            }
        }
    }
}

static void mm_step(Mm *m, uint32_t block, uint32_t k)
{
    uint32_t i = block / m->n, j = block % m->n;
    SimProc *me = mm_owner(m, i, j);

    sim_get(me, mm_owner(m, i, k), m->buf_a, mm_at(m, m->a, i, k), m->bytes);
    sim_get(me, mm_owner(m, k, j), m->buf_b, mm_at(m, m->b, k, j), m->bytes);
    mm_multiply(mm_block(m, m->c, i, j), sim_ptr(me, m->buf_a, m->bytes),
                sim_ptr(me, m->buf_b, m->bytes), m->side);
}

/* out = matrix * in */
static void mm_apply(const Mm *m, uint64_t matrix, const double *in,
                     double *out)
{
    uint32_t size = m->n * m->side;

    for (uint32_t r = 0; r < size; r++) {
        out[r] = 0;
        for (uint32_t s = 0; s < size; s++) {
            out[r] += in[s] * mm_block(m, matrix, r / m->side, s / m->side)
                      [r % m->side * m->side + s % m->side];
        }
    }
}

/* Freivalds: C x = A (B x), exactly, for a random x. */
static void mm_verify(const Mm *m)
{
    uint32_t size = m->n * m->side;
    double *x = g_new(double, size), *bx = g_new(double, size);
    double *abx = g_new(double, size), *cx = g_new(double, size);

    for (uint32_t i = 0; i < size; i++) {
        x[i] = sim_random(m->sim) % 1000;
    }
    mm_apply(m, m->b, x, bx);
    mm_apply(m, m->a, bx, abx);
    mm_apply(m, m->c, x, cx);
    SIM_CHECK(!memcmp(abx, cx, size * sizeof(*cx)));
    g_free(x);
    g_free(bx);
    g_free(abx);
    g_free(cx);
}

void sim_mm(Sim *sim, uint32_t blocks, uint32_t side)
{
    Mm m = { .sim = sim, .n = blocks, .side = side };

    m.bytes = (uint64_t)side * side * sizeof(double);
    mm_setup(&m);
    /* All nodes at once: a step of one, then one of the next. */
    for (uint32_t first = 0; first < blocks * blocks; first += sim->nprocs) {
        for (uint32_t k = 0; k < blocks; k++) {
            for (uint32_t p = 0; p < sim->nprocs; p++) {
                if (first + p < blocks * blocks) {
                    mm_step(&m, first + p, k);
                }
            }
        }
    }
    mm_verify(&m);
}
