/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A peer asks unetmm-bw and unetmm-pingpong for runs, and numbers the frames of them:
 * no number of its choice makes a listener wrong or slow.
 */
#include <stddef.h>
#include <stdint.h>

/* First: both have a fail(), and only the macro gives way. */
#include "seen.h"
#include "session.h"

#include "../one_test.h"
#include <stdio.h>
#include <stdlib.h>

/* ---- Plans ------------------------------------------------------------- */

/* START with these words; true: the plan is taken, and nothing is said of it. */
static bool taken(const uint32_t w[4], uint64_t first, struct plan *plan)
{
    const struct control start = {
        .type = CONTROL_START, .run = 1,
        .w = { w[0], w[1], w[2], w[3] }, .q = { 1, first },
    };
    FILE *saved = stderr;
    size_t bytes;
    char *said;
    bool good;

    stderr = open_memstream(&said, &bytes);
    assert_non_null(stderr);
    good = plan_from_control(plan, &start);
    fclose(stderr);
    stderr = saved;
    assert_int_equal(good, !bytes);
    assert_true(good || strstr(said, "impossible"));
    free(said);
    return good;
}

/* Size, count, warmup and frame */
TEST(possible_plans_are_taken, cmocka_unit_test)
{
    static const struct {
        uint32_t w[4], nframes;
    } runs[] = {
        { { 8, 1, 0, 9000 }, 1 },
        { { 9001, 2000, 200, 9000 }, 2 },
        { { MOST_SIZE, MOST_COUNT, MOST_COUNT, 256 }, MOST_SIZE / 256 },
        { { MOST_SIZE, 1, 0, UNETMM_MAX_MESSAGE }, MOST_SIZE / UNETMM_MAX_MESSAGE },
    };
    struct plan plan;
    unsigned i;

    for (i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
        assert_true(taken(runs[i].w, 0, &plan));
        assert_int_equal(plan.nframes, runs[i].nframes);
    }
    assert_true(taken(runs[0].w, MAX_MESSAGES - MAX_MESSAGES / 25, &plan));
}

TEST(impossible_plans_are_refused, cmocka_unit_test)
{
    static const uint32_t runs[][4] = {
        { 0, 1, 0, 9000 },                      /* no frames */
        { UINT32_MAX, 0x7fffffff, 0, 1 },       /* 2^63 of them */
        { UINT32_MAX, 1, 0, 2 },                /* size and frame beyond 32 bits */
        { MOST_SIZE + 1, 1, 0, 9000 },
        { 8, 1, 0, UINT32_MAX },
        { 8, 0, 0, 9000 },
        { 8, MOST_COUNT + 1, 0, 9000 },
        { 8, 1, MOST_COUNT + 1, 9000 },
        { 8, UINT32_MAX, 1, 9000 },             /* their sum is 0 */
    };
    static const uint32_t good[4] = { 8, 1, 0, 9000 };
    struct plan plan;
    unsigned i;

    for (i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
        assert_false(taken(runs[i], 0, &plan));
    }
    assert_false(taken(good, UINT32_MAX, &plan));
}

/* ---- Frames ------------------------------------------------------------ */

TEST(each_frame_is_new_once, cmocka_unit_test)
{
    static struct seen seen;

    assert_true(seen_is_new(&seen, 0));
    assert_false(seen_is_new(&seen, 0));
    assert_true(seen_is_new(&seen, 5));
    assert_true(seen_is_new(&seen, 3));
    assert_false(seen_is_new(&seen, 3));
    assert_int_equal(seen.high, 6);
    seen_advance(&seen, 4);
    assert_int_equal(seen.high, 6);
    /* The oldest that still counts, and the one before it */
    seen_advance(&seen, 6 + SEEN_FRAMES);
    assert_true(seen_is_new(&seen, 6));
    assert_false(seen_is_new(&seen, 5));
}

/* In steps of one frame this would take years. */
TEST(jumps_take_no_time, cmocka_unit_test)
{
    static struct seen seen;
    uint64_t far = 9000000000000000000ull, i;

    for (i = 0; i < SEEN_FRAMES; i++) {
        assert_true(seen_is_new(&seen, i));
    }
    seen_advance(&seen, far);
    assert_int_equal(seen.high, far);
    for (i = 1; i <= SEEN_FRAMES; i++) {
        assert_true(seen_is_new(&seen, far - i));
    }
    assert_false(seen_is_new(&seen, far - SEEN_FRAMES - 1));
    assert_true(seen_is_new(&seen, UINT64_MAX - 1));
}
