/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * For how long the library spins, and how often it gives way meanwhile.  The
 * library reads the test's clock, which goes on by a microsecond at each look.
 */
#include "../one_test.h"
#include <stdatomic.h>

#include <sched.h>
#include <time.h>

#include "eventually.h"
#include "fake_card.h"
#include "card/card.h"
#include "sys/sys.h"

#define scene_test(fn) cmocka_unit_test_setup_teardown(fn, begin, end)

#define MS      1000000ll
#define STEP    1000                    /* ns for each look */
#define SLICE   (UNETMM_YIELD_NS / STEP)

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __real_sched_yield(void);
int __wrap_sched_yield(void);

static _Thread_local bool real_clock;   /* of the thread that only looks on */
static atomic_ulong looks, yields;

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    unsigned long n;

    if (real_clock) {
        return __real_clock_gettime(clock, now);
    }
    n = atomic_fetch_add(&looks, 1);
    *now = (struct timespec) {
        .tv_sec = 1000 + (time_t)(n * STEP / 1000000000),
        .tv_nsec = (long)(n * STEP % 1000000000),
    };
    return 0;
}

int __wrap_sched_yield(void)
{
    if (!real_clock) {
        atomic_fetch_add(&yields, 1);
    }
    return __real_sched_yield();
}

static struct fake_endpoint fake;

static int begin(void **state)
{
    (void)state;
    fake_endpoint_init(&fake, 4, 4, 4, 0);
    real_clock = false;
    atomic_store(&looks, 0);
    atomic_store(&yields, 0);
    return 0;
}

static int end(void **state)
{
    (void)state;
    real_clock = true;
    fake_endpoint_free(&fake);
    return 0;
}

/* Spins for so long, for ever or less, where nothing comes. */
static void wait_for(uint32_t spin_ns, int64_t timeout)
{
    struct unetmm_completion c = { 0 };

    fake.private->spin_ns = spin_ns;
    assert_int_equal(unetmm_wait(fake.ep, &c, 1, timeout), 0);
}

TEST(wait_gives_way, scene_test)
{
    const unsigned n = 2 * MS / STEP;

    wait_for(UNETMM_SPIN_FOREVER, 2 * MS);
    assert_in_range(atomic_load(&looks), n, n + 10);
    assert_in_range(atomic_load(&yields), n / SLICE - n / SLICE / 10,
                    n / SLICE);
}

TEST(short_wait_does_not, scene_test)
{
    wait_for(2 * MS, MS);
    assert_in_range(atomic_load(&looks), MS / STEP, MS / STEP + 10);
    assert_int_equal(atomic_load(&yields), 0);
}

/* The caller does not wait for the counter that is due. */
TEST(wait_beside_a_counter, scene_test)
{
    static const uint32_t alive = 1;
    static const uint64_t word = 1;
    struct unetmm_event_private counter = { .pub = { &alive, &word } };

    fake.private->counters = &counter;
    wait_for(2 * MS, MS);
    fake.private->counters = NULL;
    assert_in_range(atomic_load(&looks), MS / STEP, MS / STEP + 10);
}

/* ---- The thread that calls handlers ---------------------------------------- */

static void on_completion(struct unetmm_ep *ep,
                          const struct unetmm_completion *c, void *arg)
{
    (void)ep;
    (void)c;
    (void)arg;
}

static void start_thread(uint32_t spin_ns)
{
    real_clock = true;
    fake.private->spin_ns = spin_ns;
    assert_int_equal(unetmm_set_handler(fake.ep, UNETMM_EVERY_CHANNEL,
                                        on_completion, NULL), 0);
    assert_int_equal(unetmm_handlers_start(fake.ep, NULL, NULL), 0);
}

TEST(thread_gives_way, scene_test)
{
    unsigned long looked, yielded;

    start_thread(UNETMM_SPIN_FOREVER);
    EVENTUALLY(atomic_load(&yields) >= 100);
    assert_int_equal(unetmm_handlers_stop(fake.ep), 0);
    looked = atomic_load(&looks);
    yielded = atomic_load(&yields);
    assert_in_range(looked / yielded, SLICE - SLICE / 10, SLICE + SLICE / 10);
}

/* Then it arms, and sleeps. */
TEST(thread_spins_as_long_as_it_is_told, scene_test)
{
    start_thread(MS);
    EVENTUALLY(unetmm_read_word(&fake.card.index->user.cq_arm) & UNETMM_ARM);
    assert_in_range(atomic_load(&looks), MS / STEP, MS / STEP + MS / STEP / 10);
    assert_int_equal(atomic_load(&yields), 0);
    assert_int_equal(unetmm_handlers_stop(fake.ep), 0);
}
