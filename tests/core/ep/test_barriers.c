/*
 * unetmm: the barriers between the card's accesses to memory
 *
 * One thread cannot see that a barrier is missing.  So the order is looked at
 * in which the core accesses memory and makes barriers, as its host sees both.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fixture.h"

#define MOST_STEPS 4096

typedef struct Step {
    char what;                  /* R, W, S (32-bit store); m, r, w: barriers */
    uint64_t addr;
    size_t bytes;
} Step;

static Step steps[MOST_STEPS];
static unsigned step_count;

static void step(char what, uint64_t addr, size_t bytes)
{
    assert_true(step_count < MOST_STEPS);
    steps[step_count++] = (Step) { what, addr, bytes };
}

/* unetmm_host.h calls it. */
void unetmm_barrier(char which)
{
    step(which, 0, 0);
}

static void on_read(FakeHost *host, uint64_t addr, size_t bytes)
{
    step('R', addr, bytes);
}

static void on_write(FakeHost *host, uint64_t addr, size_t bytes)
{
    step('W', addr, bytes);
}

static void on_store(FakeHost *host, uint64_t addr)
{
    step('S', addr, sizeof(uint32_t));
}

static bool step_in(const Step *s, char what, uint64_t addr, uint64_t bytes)
{
    return s->what == what && s->addr >= addr && s->addr - addr < bytes;
}

/* Is there one of these barriers in steps [from, to)? */
static bool barrier(unsigned from, unsigned to, const char *which)
{
    for (unsigned i = from; i < to; i++) {
        if (strchr(which, steps[i].what)) {
            return true;
        }
    }
    return false;
}

/* Sends three messages, one after the other. */
static void record(Fix *f, unsigned flags)
{
    step_count = 0;
    f->h.on_read = on_read;
    f->h.on_write = on_write;
    f->h.on_store = on_store;
    for (unsigned i = 0; i < 3; i++) {
        fake_send_inline(&f->a, FIX_WIRE, i, 8, i, flags);
        fake_ring_bell(&f->a);
        fake_run_later(&f->h);
    }
    f->h.on_read = NULL;
    f->h.on_write = NULL;
    f->h.on_store = NULL;
}

/* An index first, then a read barrier, then the entries that it covers. */
TEST_OF(test_entries_after_index, Fix *f, fix_test)
{
    unsigned index = 0, entries = 0;
    bool seen = false;

    record(f, 0);
    for (unsigned i = 0; i < step_count; i++) {
        if (step_in(&steps[i], 'R', f->a.index, 64)) {
            index = i;
            seen = true;
        }
        if (step_in(&steps[i], 'R', f->a.sq,
                    sizeof(struct unetmm_sqe) << f->a.sq_log2)) {
            assert_true(seen);
            assert_true(barrier(index, i, "mr"));
            entries++;
        }
    }
    assert_true(entries >= 3);
}

/* An entry's body, then a write barrier, then the word with the phase. */
TEST_OF(test_phase_after_body, Fix *f, fix_test)
{
    uint64_t bytes = sizeof(struct unetmm_cqe) << f->a.cq_log2;
    unsigned body = 0, entries = 0;

    record(f, 0);
    for (unsigned i = 0; i < step_count; i++) {
        if (step_in(&steps[i], 'W', f->a.cq, bytes)) {
            body = i;
        }
        if (step_in(&steps[i], 'S', f->a.cq, bytes)) {
            assert_int_equal(steps[body].what, 'W');
            assert_int_equal(steps[body].addr + steps[body].bytes,
                             steps[i].addr);
            assert_true(barrier(body, i, "mw"));
            entries++;
        }
    }
    assert_int_equal(entries, 3);
}

/* After the last completion a full barrier, and then a look at cq_arm. */
TEST_OF(test_look_after_completion, Fix *f, fix_test)
{
    uint64_t bytes = sizeof(struct unetmm_cqe) << f->a.cq_log2;
    unsigned completion = 0;
    bool looked = false;

    record(f, 0);
    for (unsigned i = 0; i < step_count; i++) {
        if (step_in(&steps[i], 'S', f->a.cq, bytes)) {
            completion = i;
            looked = false;
        }
        if (completion && step_in(&steps[i], 'R', f->a.index, 64) &&
            barrier(completion, i, "m")) {
            looked = true;
        }
    }
    assert_true(completion > 0);
    assert_true(looked);
}

/* The slots, then a barrier, and then the index that gives them back. */
TEST_OF(test_index_after_slots, Fix *f, fix_test)
{
    uint64_t card = offsetof(struct unetmm_ep_index, card);
    unsigned slot = 0, indices = 0;

    /* A completion has a barrier of its own. */
    record(f, UNETMM_SQE_F_QUIET);
    for (unsigned i = 0; i < step_count; i++) {
        if (step_in(&steps[i], 'R', f->a.sq,
                    sizeof(struct unetmm_sqe) << f->a.sq_log2)) {
            slot = i;
        }
        if (slot && step_in(&steps[i], 'W', f->a.index + card, 64)) {
            assert_true(barrier(slot, i, "mw"));
            indices++;
        }
    }
    assert_true(indices > 0);
}
