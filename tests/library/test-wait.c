/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Waiting: bounded spins, blocking, and no wake-up lost between the two.
 */
#include "../one_test.h"
#include <stdatomic.h>

#include <pthread.h>
#include <signal.h>

#include "fake_card.h"
#include "sys/sys.h"

#define scene_test(fn) cmocka_unit_test_setup_teardown(fn, begin, stop)

#define MS              1000000ll
#define RACE_ROUNDS     20000

static struct fake_endpoint fake;

static int begin(void **state)
{
    (void)state;
    fake_endpoint_init(&fake, 4, 4, 4, 0);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    fake_endpoint_free(&fake);
    return 0;
}

static void complete(uint64_t cookie)
{
    fake_card_send_done(&fake.card, cookie);
}

static void timeout_is_kept(uint32_t spin_ns)
{
    struct unetmm_completion c = { 0 };
    uint64_t start = sys_now_ns();

    fake.private->spin_ns = spin_ns;
    assert_int_equal(unetmm_wait(fake.ep, &c, 1, 0), 0);
    assert_int_equal(unetmm_wait(fake.ep, &c, 1, 5 * MS), 0);
    assert_in_range(sys_now_ns() - start, 5 * MS, 60000 * MS);
}

TEST(times_out_blocking, scene_test)
{
    timeout_is_kept(0);
}

TEST(times_out_spinning, scene_test)
{
    timeout_is_kept(1000 * MS);
    timeout_is_kept(UNETMM_SPIN_FOREVER);
}

TEST(times_out_in_both, scene_test)
{
    timeout_is_kept(1 * MS);
}

TEST(takes_what_is_there, scene_test)
{
    struct unetmm_completion c[4];

    complete(1);
    complete(2);
    assert_int_equal(unetmm_wait(fake.ep, c, 4, -1), 2);
    assert_int_equal(c[1].user_data, 2);
    assert_int_equal(unetmm_wait(fake.ep, c, 0, -1), -EINVAL);
}

TEST(arms_for_an_event_loop, scene_test)
{
    struct pollfd fd = { .fd = unetmm_fd(fake.ep), .events = POLLIN };
    struct unetmm_completion c = { 0 };

    assert_int_equal(unetmm_arm(fake.ep), 0);
    assert_int_equal(poll(&fd, 1, 0), 0);
    complete(1);
    assert_int_equal(poll(&fd, 1, 0), 1);
    /* Nothing is lost by arming before taking. */
    assert_int_equal(unetmm_arm(fake.ep), 1);
    assert_int_equal(unetmm_poll(fake.ep, &c, 1), 1);
    assert_int_equal(unetmm_arm(fake.ep), 0);
    assert_int_equal(poll(&fd, 1, 0), 0);
    complete(2);
    complete(3);
    assert_int_equal(poll(&fd, 1, 0), 1);
}

TEST(arms_over_the_wrap_of_the_count, scene_test)
{
    struct pollfd fd = { .fd = unetmm_fd(fake.ep), .events = POLLIN };
    struct unetmm_completion c = { 0 };
    int i;

    fake_endpoint_free(&fake);
    fake_endpoint_init(&fake, 4, 4, 4, 0x7fffffe0);
    fd.fd = unetmm_fd(fake.ep);
    for (i = 0; i < 64; i++) {
        assert_int_equal(unetmm_arm(fake.ep), 0);
        assert_int_equal(poll(&fd, 1, 0), 0);
        complete(1);
        assert_int_equal(poll(&fd, 1, 0), 1);
        assert_int_equal(unetmm_poll(fake.ep, &c, 1), 1);
    }
}

TEST(old_wake_up_is_harmless, scene_test)
{
    struct unetmm_completion c = { 0 };

    fake.private->spin_ns = 0;
    assert_int_equal(unetmm_arm(fake.ep), 0);
    complete(1);
    /* Taken without looking at the descriptor, which stays readable. */
    assert_int_equal(unetmm_poll(fake.ep, &c, 1), 1);
    timeout_is_kept(0);
}

TEST(rings_before_it_blocks, scene_test)
{
    struct unetmm_completion c = { 0 };

    assert_int_equal(unetmm_send(fake.ep, 1, &c, 8, 0, UNETMM_MORE), 0);
    assert_false(fake_endpoint_rung(&fake));
    assert_int_equal(unetmm_wait(fake.ep, &c, 1, 0), 0);
    assert_true(fake_endpoint_rung(&fake));
    assert_int_equal(unetmm_send(fake.ep, 1, &c, 8, 0, UNETMM_MORE), 0);
    assert_int_equal(unetmm_arm(fake.ep), 0);
    assert_true(fake_endpoint_rung(&fake));
}

/*
 * A blocking call rings for a card that has stopped for want of room, or that waits
 * for free buffers of which some were posted without a doorbell; and for no other.
 */
TEST(rings_a_card_that_waits, scene_test)
{
    unsigned i;

    for (i = 0; i < 8; i++) {
        bool blocked = i & 1, awaited = i & 2, unlooked = i & 4;
        bool rings = blocked || (awaited && unlooked);

        fake_card_state(&fake.card, (blocked ? UNETMM_EP_CQ_BLOCKED : 0) |
                        (awaited ? UNETMM_EP_FQ_AWAITED : 0));
        fake.ep->unlooked = unlooked ? 3 : 0;
        fake_endpoint_rung(&fake);
        assert_int_equal(unetmm_arm(fake.ep), 0);
        assert_int_equal(fake_endpoint_rung(&fake), rings);
        assert_int_equal(fake.ep->unlooked, unlooked && !rings ? 3 : 0);
    }
}

TEST(stopped_endpoint_ends_the_wait, scene_test)
{
    struct unetmm_completion c = { 0 };

    fake_card_state(&fake.card, UNETMM_EP_ERROR);
    fake.private->spin_ns = 0;
    assert_int_equal(unetmm_wait(fake.ep, &c, 1, -1), -EIO);
    assert_int_equal(unetmm_arm(fake.ep), 1);
}

static void on_signal(int number)
{
    (void)number;
}

static atomic_bool interrupted;

/* Again and again: the first may come before the other waits. */
static void *interrupt(void *thread)
{
    struct timespec pause = { .tv_nsec = 20 * MS };

    while (!atomic_load(&interrupted)) {
        nanosleep(&pause, NULL);
        pthread_kill(*(pthread_t *)thread, SIGUSR1);
    }
    return NULL;
}

TEST(signal_ends_the_wait, scene_test)
{
    struct sigaction action = { .sa_handler = on_signal };
    pthread_t self = pthread_self(), thread;
    struct unetmm_completion c = { 0 };

    sigaction(SIGUSR1, &action, NULL);
    fake.private->spin_ns = 0;
    atomic_store(&interrupted, false);
    errno = 12345;
    assert_int_equal(pthread_create(&thread, NULL, interrupt, &self), 0);
    assert_int_equal(unetmm_wait(fake.ep, &c, 1, -1), -EINTR);
    assert_int_equal(errno, 12345);
    atomic_store(&interrupted, true);
    pthread_join(thread, NULL);
}

/* Waits a different, repeatable while before each completion. */
static void *produce(void *argument)
{
    uint64_t random = 1;
    uint32_t i;

    (void)argument;
    for (i = 0; i < RACE_ROUNDS; i++) {
        uint32_t spins;

        random = random * 6364136223846793005ull + 1442695040888963407ull;
        for (spins = (uint32_t)(random >> 33) % 2000; spins; spins--) {
            unetmm_relax();
        }
        complete(i);
    }
    return NULL;
}

/*
 * A lost wake-up would leave the wait blocked although a completion is there:
 * the timeout makes that a failure instead of a hang.
 */
static void race(uint32_t spin_ns)
{
    struct unetmm_completion c[3];
    pthread_t thread;
    uint64_t next = 0;

    fake.private->spin_ns = spin_ns;
    assert_int_equal(pthread_create(&thread, NULL, produce, NULL), 0);
    while (next < RACE_ROUNDS) {
        int i, n = unetmm_wait(fake.ep, c, 3, 20000 * MS);

        assert_in_range(n, 1, 3);
        for (i = 0; i < n; i++) {
            assert_int_equal(c[i].user_data, next++);
        }
    }
    pthread_join(thread, NULL);
}

TEST(loses_no_wake_up_blocking, scene_test)
{
    race(0);
}

TEST(loses_no_wake_up_spinning, scene_test)
{
    race(2000);
}
