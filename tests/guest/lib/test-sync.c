/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Semaphores and wait-queues: units, order, who gives up, who dies between any two of
 * its operations, and a home that does not answer.  Home and members are in one
 * process, on a card that carries their posts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include "fake_loop.h"
#include "internal.h"
#include "sync.h"
#include "sys.h"

#define MS              1000000ll
#define SECOND          (1000 * MS)
#define SERVICE         77
#define MEMBERS         3u
#define ALL             UINT64_MAX

/* What a wait posts until it knows its place, and then if it has to wait */
#define OPS_TO_TICKET   2u
#define OPS_TO_WAIT     4u

static const uint8_t mac[6] = { 0x52, 0x54, 0, 0, 0, 1 };

static struct unetmm_ctx *ctx;
static struct unetmm_sync_home *home;
static unsigned home_endpoint;

static struct member_test {
    struct unetmm_sync *sync;
    unsigned endpoint;
    pthread_t thread;
    int64_t timeout;
    bool queue;
    atomic_int result;          /* of its wait; BUSY: it goes on */
} members[MEMBERS];

#define BUSY    1000

/* Fails instead of waiting for ever. */
#define EVENTUALLY(condition) \
    do { \
        uint64_t end_ = sys_now_ns() + 20 * SECOND; \
        while (!(condition)) { \
            assert_true(sys_now_ns() < end_); \
            sched_yield(); \
        } \
    } while (0)

static void join(unsigned i)
{
    assert_int_equal(unetmm_sync_open(ctx, mac, SERVICE, SECOND,
                                      &members[i].sync), 0);
    members[i].endpoint = loop_newest();
}

static int begin(bool semaphore, uint32_t units)
{
    unsigned i;

    errno = 12345;
    loop_fail(0, 0);
    loop_hide_connections(false);
    assert_int_equal(unetmm_open("/loop", UNETMM_SOURCE_TLB, &ctx), 0);
    assert_int_equal(semaphore ?
                     unetmm_sem_home(ctx, SERVICE, units, &home) :
                     unetmm_queue_home(ctx, SERVICE, &home), 0);
    home_endpoint = loop_newest();
    for (i = 0; i < MEMBERS; i++) {
        join(i);
        members[i].queue = !semaphore;
    }
    return 0;
}

static int begin_sem(void **state)
{
    (void)state;
    return begin(true, 2);
}

static int begin_queue(void **state)
{
    (void)state;
    return begin(false, 0);
}

static int end(void **state)
{
    unsigned i;

    (void)state;
    for (i = 0; i < MEMBERS; i++) {
        if (members[i].sync) {
            assert_int_equal(unetmm_sync_close(members[i].sync), 0);
            members[i].sync = NULL;
        }
    }
    if (home) {
        assert_int_equal(unetmm_sync_home_close(home), 0);
        home = NULL;
    }
    assert_int_equal(unetmm_close(ctx), 0);
    assert_int_equal(errno, 12345);
    assert_int_equal(loop_leaks(), 0);
    return 0;
}

static int take(unsigned i, int64_t timeout)
{
    return unetmm_sem_wait(members[i].sync, timeout);
}

static int give(unsigned i)
{
    return unetmm_sem_post(members[i].sync);
}

/* ---- Waits in threads of their own --------------------------------------- */

static void *wait_thread(void *argument)
{
    struct member_test *m = argument;

    atomic_store(&m->result, m->queue ?
                 unetmm_queue_wait(m->sync, m->timeout) :
                 unetmm_sem_wait(m->sync, m->timeout));
    return NULL;
}

static void start_wait(unsigned i, int64_t timeout)
{
    struct member_test *m = &members[i];

    m->timeout = timeout;
    atomic_store(&m->result, BUSY);
    assert_int_equal(pthread_create(&m->thread, NULL, wait_thread, m), 0);
}

/* ... and has its place in the queue, and has said so. */
static void start_waiting(unsigned i, int64_t timeout)
{
    uint64_t before = loop_carried(members[i].endpoint);

    start_wait(i, timeout);
    EVENTUALLY(loop_carried(members[i].endpoint) >= before + OPS_TO_WAIT);
}

static int end_wait(unsigned i)
{
    EVENTUALLY(atomic_load(&members[i].result) != BUSY);
    pthread_join(members[i].thread, NULL);
    return atomic_load(&members[i].result);
}

static bool waits(unsigned i)
{
    return atomic_load(&members[i].result) == BUSY;
}

/* ---- Semaphores ----------------------------------------------------------- */

static void units_are_taken_and_given(void **state)
{
    (void)state;
    assert_int_equal(give(0), -EPERM);
    assert_int_equal(take(0, 0), 1);
    assert_int_equal(take(1, -1), 1);
    assert_int_equal(take(2, 0), 0);
    assert_int_equal(take(2, 5 * MS), 0);
    assert_int_equal(give(2), -EPERM);
    assert_int_equal(give(0), 0);
    assert_int_equal(give(0), -EPERM);
    assert_int_equal(take(2, 20 * SECOND), 1);
    assert_int_equal(take(0, 0), 0);
    assert_int_equal(give(1), 0);
    assert_int_equal(give(2), 0);
    /* None was lost, and none was made. */
    assert_int_equal(take(0, 20 * SECOND), 1);
    assert_int_equal(take(0, 20 * SECOND), 1);
    assert_int_equal(take(0, 5 * MS), 0);
    assert_int_equal(unetmm_queue_wait(members[0].sync, 0), -EPROTOTYPE);
    assert_int_equal(unetmm_queue_wake(members[0].sync, 1), -EPROTOTYPE);
}

/* Many rounds, so that each word is used again and again. */
static void units_go_round(void **state)
{
    unsigned i;

    (void)state;
    assert_int_equal(take(2, 0), 1);
    for (i = 0; i < 200; i++) {
        assert_int_equal(take(i % 2, 20 * SECOND), 1);
        assert_int_equal(give(i % 2), 0);
    }
    assert_int_equal(give(2), 0);
    assert_int_equal(take(0, 20 * SECOND), 1);
    assert_int_equal(take(1, 20 * SECOND), 1);
    assert_int_equal(take(2, 5 * MS), 0);
}

static void who_asked_first_is_served_first(void **state)
{
    (void)state;
    assert_int_equal(take(0, 0), 1);
    assert_int_equal(take(0, 0), 1);
    start_waiting(1, -1);
    start_waiting(2, -1);
    assert_int_equal(give(0), 0);
    assert_int_equal(end_wait(1), 1);
    assert_true(waits(2));
    assert_int_equal(give(1), 0);
    assert_int_equal(end_wait(2), 1);
}

static void who_gives_up_is_passed_over(void **state)
{
    (void)state;
    assert_int_equal(take(0, 0), 1);
    assert_int_equal(take(0, 0), 1);
    start_waiting(1, 20 * MS);
    start_waiting(2, -1);
    assert_int_equal(end_wait(1), 0);
    assert_true(waits(2));
    assert_int_equal(give(0), 0);
    assert_int_equal(end_wait(2), 1);
    /* It may ask again, and waits behind nobody. */
    start_waiting(1, -1);
    assert_int_equal(give(0), 0);
    assert_int_equal(end_wait(1), 1);
}

/* The unit was on its way to whoever has given up: it goes on to the next. */
static void unit_of_who_gave_up_goes_on(void **state)
{
    (void)state;
    assert_int_equal(take(0, 0), 1);
    assert_int_equal(take(0, 0), 1);
    start_waiting(1, 100 * MS);
    /* The home cannot tell it. */
    loop_allow(home_endpoint, 0);
    assert_int_equal(give(0), 0);
    assert_int_equal(end_wait(1), 0);
    loop_allow(home_endpoint, ALL);
    assert_int_equal(take(2, 20 * SECOND), 1);
    assert_int_equal(take(2, 5 * MS), 0);
    assert_int_equal(give(0), 0);
    assert_int_equal(take(1, 20 * SECOND), 1);
}

static void who_leaves_gives_back(void **state)
{
    (void)state;
    assert_int_equal(take(0, 0), 1);
    assert_int_equal(take(0, 0), 1);
    assert_int_equal(unetmm_sync_close(members[0].sync), 0);
    members[0].sync = NULL;
    assert_int_equal(take(1, 20 * SECOND), 1);
    assert_int_equal(take(2, 20 * SECOND), 1);
    assert_int_equal(take(1, 5 * MS), 0);
    join(0);
    assert_int_equal(give(2), 0);
    assert_int_equal(take(0, 20 * SECOND), 1);
}

/* A member dies behind each of the operations of a wait. */
static void who_dies_gives_back(void **state)
{
    unsigned ops, held;

    (void)state;
    for (held = 0; held < 2; held++) {
        for (ops = 0; ops <= OPS_TO_WAIT; ops++) {
            assert_int_equal(take(0, 20 * SECOND), 1);
            if (held) {
                assert_int_equal(take(1, 20 * SECOND), 1);
            }
            loop_allow(members[1].endpoint, ops);
            start_wait(1, 50 * MS);
            end_wait(1);
            loop_kill(members[1].endpoint);
            unetmm_sync_close(members[1].sync);
            join(1);
            /* What it had, and its place, are free again: but member 0's unit. */
            assert_int_equal(take(2, 20 * SECOND), 1);
            assert_int_equal(take(2, 5 * MS), 0);
            assert_int_equal(give(2), 0);
            assert_int_equal(give(0), 0);
        }
    }
}

/* Its place was in the middle of the queue. */
static void who_dies_waiting_is_passed_over(void **state)
{
    (void)state;
    assert_int_equal(take(0, 0), 1);
    assert_int_equal(take(0, 0), 1);
    start_waiting(1, -1);
    start_waiting(2, -1);
    loop_kill(members[1].endpoint);
    assert_int_equal(give(0), 0);
    assert_int_equal(end_wait(2), 1);
    assert_true(waits(1));
    /* For itself it learns that the home does not answer: we end it by hand. */
    loop_allow(members[1].endpoint, ALL);
    assert_int_equal(end_wait(1), -ENOTCONN);
}

static void home_that_ends_is_told(void **state)
{
    (void)state;
    assert_int_equal(take(0, 0), 1);
    assert_int_equal(take(0, 0), 1);
    start_waiting(1, -1);
    assert_int_equal(unetmm_sync_home_close(home), 0);
    home = NULL;
    assert_int_equal(end_wait(1), -ENOTCONN);
    assert_int_equal(take(1, 0), -ENOTCONN);
    assert_int_equal(take(2, 0), -ENOTCONN);
    EVENTUALLY(give(0) == -ENOTCONN || give(0) == -EPERM);
}

/* ---- Time and signals ------------------------------------------------------ */

static void on_signal(int number)
{
    (void)number;
}

/* The home's card answers nothing: the wait ends all the same, and goes on later. */
static void wait_ends_without_an_answer(void **state)
{
    unsigned i;

    (void)state;
    assert_int_equal(take(0, 0), 1);
    for (i = 0; i < OPS_TO_TICKET; i++) {
        loop_allow(members[1].endpoint, i);
        start_wait(1, 10 * MS);
        assert_int_equal(end_wait(1), 0);
        start_wait(1, 0);
        assert_int_equal(end_wait(1), 0);
        loop_allow(members[1].endpoint, ALL);
        /* It goes on with the place that it has: one unit is taken, not two. */
        start_wait(1, 20 * SECOND);
        assert_int_equal(end_wait(1), 1);
        assert_int_equal(take(2, 5 * MS), 0);
        assert_int_equal(give(1), 0);
        assert_int_equal(give(1), -EPERM);
    }
}

static void wait_is_interrupted(unsigned allowed)
{
    struct sigaction action = { .sa_handler = on_signal };
    uint64_t end_by = sys_now_ns() + 20 * SECOND;

    sigaction(SIGUSR1, &action, NULL);
    loop_allow(members[1].endpoint, allowed);
    start_wait(1, -1);
    /* The signal may come before it sleeps, too: then comes another. */
    while (waits(1)) {
        assert_true(sys_now_ns() < end_by);
        pthread_kill(members[1].thread, SIGUSR1);
        nanosleep(&(struct timespec) { .tv_nsec = MS }, NULL);
    }
    assert_int_equal(end_wait(1), -EINTR);
    loop_allow(members[1].endpoint, ALL);
}

static void signal_ends_a_wait(void **state)
{
    (void)state;
    assert_int_equal(take(0, 0), 1);
    /* Before it knows its place, which it keeps ... */
    wait_is_interrupted(1);
    assert_int_equal(take(1, 20 * SECOND), 1);
    assert_int_equal(take(2, 5 * MS), 0);
    /* ... and behind that, when it loses it. */
    wait_is_interrupted(OPS_TO_WAIT);
    start_waiting(2, -1);
    assert_int_equal(give(0), 0);
    assert_int_equal(end_wait(2), 1);
    assert_int_equal(take(0, 5 * MS), 0);
    assert_int_equal(give(1), 0);
    assert_int_equal(take(1, 20 * SECOND), 1);
}

static void interrupted_member_leaves_nothing(void **state)
{
    (void)state;
    assert_int_equal(take(0, 0), 1);
    wait_is_interrupted(1);
    assert_int_equal(unetmm_sync_close(members[1].sync), 0);
    members[1].sync = NULL;
    assert_int_equal(take(2, 20 * SECOND), 1);
    assert_int_equal(take(2, 5 * MS), 0);
}

/* ---- Wait-queues ----------------------------------------------------------- */

static int wake(unsigned i, uint32_t n)
{
    return unetmm_queue_wake(members[i].sync, n);
}

static void wakes_who_waits(void **state)
{
    (void)state;
    assert_int_equal(wake(0, 0), 0);
    assert_int_equal(wake(0, 5), 0);
    /* Nobody has waited: they wake nobody later. */
    assert_int_equal(unetmm_queue_wait(members[1].sync, 5 * MS), 0);
    start_waiting(1, -1);
    start_waiting(2, -1);
    assert_int_equal(wake(0, 1), 0);
    assert_int_equal(end_wait(1), 1);
    assert_true(waits(2));
    start_waiting(1, -1);
    assert_int_equal(wake(0, 0), 0);
    assert_int_equal(end_wait(1), 1);
    assert_int_equal(end_wait(2), 1);
    start_waiting(1, -1);
    start_waiting(2, -1);
    assert_int_equal(wake(0, 2), 0);
    assert_int_equal(end_wait(2), 1);
    assert_int_equal(end_wait(1), 1);
    assert_int_equal(unetmm_queue_wait(members[0].sync, 5 * MS), 0);
    assert_int_equal(unetmm_sem_wait(members[0].sync, 0), -EPROTOTYPE);
    assert_int_equal(unetmm_sem_post(members[0].sync), -EPROTOTYPE);
}

/* A wake-up that comes at home later is not for members that came since. */
static void wake_up_is_for_who_waited(void **state)
{
    uint64_t before;

    (void)state;
    start_waiting(1, -1);
    before = loop_carried(members[0].endpoint);
    /* Its look at the queue goes, its word does not. */
    loop_allow(members[0].endpoint, 1);
    assert_int_equal(wake(0, 0), 0);
    assert_int_equal(loop_carried(members[0].endpoint), before + 1);
    start_waiting(2, -1);
    assert_true(waits(1));
    loop_allow(members[0].endpoint, ALL);
    assert_int_equal(end_wait(1), 1);
    assert_true(waits(2));
    assert_int_equal(wake(0, 0), 0);
    assert_int_equal(end_wait(2), 1);
}

/* Who was meant has given up meanwhile: it is still not for who came since. */
static void wake_up_is_for_nobody_else(void **state)
{
    (void)state;
    /* Long enough for the wake-up to be on its way before, on a busy machine. */
    start_waiting(1, 500 * MS);
    loop_allow(members[0].endpoint, 1);
    assert_int_equal(wake(0, 0), 0);
    assert_int_equal(end_wait(1), 0);
    start_waiting(2, 50 * MS);
    loop_allow(members[0].endpoint, ALL);
    assert_int_equal(end_wait(2), 0);
}

static void wake_up_of_who_gave_up_goes_on(void **state)
{
    (void)state;
    start_waiting(1, 20 * MS);
    start_waiting(2, -1);
    assert_int_equal(end_wait(1), 0);
    assert_int_equal(wake(0, 1), 0);
    assert_int_equal(end_wait(2), 1);
}

/* ---- Strangers ------------------------------------------------------------- */

static struct unetmm_ep *stranger;
static uint64_t stranger_export;
static uint8_t stranger_page[4096] __attribute__((aligned(4096)));

static unsigned stranger_connects(void)
{
    const struct unetmm_channel_attr attr = {
        .size = sizeof(attr), .types = UNETMM_RELIABLE | UNETMM_TELL_CLOSED,
    };
    int ret = unetmm_connect_as(stranger, mac, SERVICE, SECOND, &attr, NULL);

    assert_in_range(ret, 0, LOOP_CHANNELS - 1);
    return (unsigned)ret;
}

/* What the home says to these words. */
static int greet_with(unsigned channel, uint64_t magic, size_t length)
{
    struct sync_hello hello = {
        .magic = unetmm_swap64(magic),
        .export = unetmm_swap64(stranger_export),
    };
    struct unetmm_completion c = { 0 };

    assert_int_equal(unetmm_send(stranger, channel, &hello, length, 0,
                                 UNETMM_QUIET | UNETMM_INLINE), 0);
    assert_int_equal(unetmm_wait(stranger, &c, 1, 20 * SECOND), 1);
    assert_int_equal(c.type, UNETMM_CQE_RECEIVED);
    assert_int_equal(c.channel, channel);
    assert_int_equal(c.len, sizeof(hello));
    memcpy(&hello, c.data, sizeof(hello));
    assert_int_equal(unetmm_swap64(hello.magic), SYNC_MAGIC);
    return hello.error ? (int32_t)unetmm_swap32((uint32_t)hello.error) :
        (int)unetmm_swap32(hello.slot);
}

static void stranger_comes(void)
{
    stranger_export = 4711;
    assert_int_equal(unetmm_export(ctx, stranger_export, stranger_page,
                                   sizeof(stranger_page), UNETMM_RIGHT_ALL, 0,
                                   0), 0);
    assert_int_equal(unetmm_ep_create(ctx, NULL, &stranger), 0);
}

static void stranger_goes(void)
{
    assert_int_equal(unetmm_ep_destroy(stranger), 0);
    assert_int_equal(unetmm_unexport(ctx, stranger_export), 0);
}

static void strangers_are_refused(void **state)
{
    unsigned channel, i;

    (void)state;
    stranger_comes();
    channel = stranger_connects();
    assert_int_equal(greet_with(channel, 5, sizeof(struct sync_hello)),
                     -EPROTO);
    assert_int_equal(greet_with(channel, SYNC_MAGIC, 8), -EPROTO);
    stranger_export++;
    assert_int_equal(greet_with(channel, SYNC_MAGIC,
                                sizeof(struct sync_hello)), -EAGAIN);
    stranger_export--;
    assert_int_equal(greet_with(channel, SYNC_MAGIC,
                                sizeof(struct sync_hello)), MEMBERS);
    assert_int_equal(greet_with(channel, SYNC_MAGIC,
                                sizeof(struct sync_hello)), -EEXIST);
    for (i = MEMBERS + 1; i < UNETMM_SYNC_MEMBERS; i++) {
        assert_int_equal(greet_with(stranger_connects(), SYNC_MAGIC,
                                    sizeof(struct sync_hello)), i);
    }
    assert_int_equal(greet_with(stranger_connects(), SYNC_MAGIC,
                                sizeof(struct sync_hello)), -ENOSPC);
    /* Whose place is free is another's. */
    assert_int_equal(unetmm_disconnect(stranger, channel), 0);
    EVENTUALLY(greet_with(stranger_connects(), SYNC_MAGIC,
                          sizeof(struct sync_hello)) == MEMBERS);
    stranger_goes();
    assert_int_equal(take(0, 20 * SECOND), 1);
}

/* It claims a unit that it has not: nobody loses or gets one for that. */
static void units_that_are_not_there_are_not_given(void **state)
{
    const uint64_t claim = unetmm_swap64(1000);
    unsigned channel, slot;
    int import;

    (void)state;
    stranger_comes();
    channel = stranger_connects();
    slot = (unsigned)greet_with(channel, SYNC_MAGIC,
                                sizeof(struct sync_hello));
    import = -1;
    /* The home's export is random: its answer says which. */
    EVENTUALLY(slot == MEMBERS);
    import = unetmm_import(stranger, channel, stranger_export, 0, 0, NULL);
    assert_in_range(import, 0, LOOP_IMPORTS - 1);
    assert_int_equal(unetmm_write(stranger, (unsigned)import, 0, &claim,
                                  sizeof(claim), 0, 0, UNETMM_QUIET), 0);
    assert_int_equal(take(0, 20 * SECOND), 1);
    assert_int_equal(take(0, 20 * SECOND), 1);
    assert_int_equal(take(1, 5 * MS), 0);
    stranger_goes();
}

/* ---- The home's thread, making, failing ------------------------------------ */

static pthread_t main_thread;
static atomic_uint wrong_masks, right_masks;

static void look_at_mask(unsigned long request)
{
    static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP,
                               SIGABRT };
    sigset_t set;
    size_t i;
    bool wrong;

    if (request != UNETMM_IOC_EVENT_ARM ||
        pthread_equal(pthread_self(), main_thread)) {
        return;
    }
    pthread_sigmask(SIG_BLOCK, NULL, &set);
    wrong = !sigismember(&set, SIGUSR1) || !sigismember(&set, SIGINT) ||
        !sigismember(&set, SIGALRM);
    for (i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        wrong |= sigismember(&set, own[i]);
    }
    atomic_fetch_add(wrong ? &wrong_masks : &right_masks, 1);
}

/* What the program does wrong itself is told to it, in whatever thread. */
static void thread_blocks_no_fault(void **state)
{
    (void)state;
    main_thread = pthread_self();
    loop_hook = look_at_mask;
    EVENTUALLY(atomic_load(&wrong_masks) || atomic_load(&right_masks));
    loop_hook = NULL;
    assert_int_equal(atomic_load(&wrong_masks), 0);
}

/* The first sign of a member may come before its connection can be accepted. */
static void member_is_accepted_late(void **state)
{
    struct unetmm_sync *sync;

    (void)state;
    loop_hide_connections(true);
    assert_int_equal(unetmm_sync_close(members[0].sync), 0);
    members[0].sync = NULL;
    assert_int_not_equal(unetmm_sync_open(ctx, mac, SERVICE, SECOND, &sync),
                         0);
    loop_hide_connections(false);
    join(0);
    assert_int_equal(take(0, 20 * SECOND), 1);
}

/* Each call of making a home or a member fails in turn. */
static void failures_leave_nothing(void **state)
{
    unsigned i, failed = 0;
    int ret;

    (void)state;
    for (i = 0; i < 20; i++) {
        assert_int_equal(unetmm_open("/loop", UNETMM_SOURCE_TLB, &ctx), 0);
        loop_fail(i, ENOMEM);
        ret = unetmm_sem_home(ctx, SERVICE, 1, &home);
        if (!ret) {
            ret = unetmm_sync_open(ctx, mac, SERVICE, SECOND,
                                   &members[0].sync);
            if (!ret) {
                assert_int_equal(unetmm_sync_close(members[0].sync), 0);
            }
            members[0].sync = NULL;
            assert_int_equal(unetmm_sync_home_close(home), 0);
        }
        home = NULL;
        failed += ret != 0;
        assert_true(!ret || loop_has_failed());
        loop_fail(0, 0);
        assert_int_equal(unetmm_close(ctx), 0);
        assert_int_equal(loop_leaks(), 0);
    }
    assert_in_range(failed, 7, 19);
}

static void nobody_is_home(void **state)
{
    struct unetmm_sync *sync;

    (void)state;
    assert_int_equal(unetmm_open("/loop", UNETMM_SOURCE_TLB, &ctx), 0);
    assert_int_equal(unetmm_sync_open(ctx, mac, SERVICE, MS, &sync),
                     -ETIMEDOUT);
    assert_int_equal(unetmm_close(ctx), 0);
    assert_int_equal(loop_leaks(), 0);
}

#define SEM(name) cmocka_unit_test_setup_teardown(name, begin_sem, end)
#define QUEUE(name) cmocka_unit_test_setup_teardown(name, begin_queue, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_is_home),
        cmocka_unit_test(failures_leave_nothing),
        SEM(units_are_taken_and_given),
        SEM(units_go_round),
        SEM(who_asked_first_is_served_first),
        SEM(who_gives_up_is_passed_over),
        SEM(unit_of_who_gave_up_goes_on),
        SEM(who_leaves_gives_back),
        SEM(who_dies_gives_back),
        SEM(who_dies_waiting_is_passed_over),
        SEM(home_that_ends_is_told),
        SEM(strangers_are_refused),
        SEM(units_that_are_not_there_are_not_given),
        SEM(member_is_accepted_late),
        SEM(thread_blocks_no_fault),
        QUEUE(wakes_who_waits),
        QUEUE(wake_up_is_for_who_waited),
        QUEUE(wake_up_is_for_nobody_else),
        QUEUE(wake_up_of_who_gave_up_goes_on),
        SEM(wait_ends_without_an_answer),
        SEM(signal_ends_a_wait),
        SEM(interrupted_member_leaves_nothing),
    };

    return cmocka_run_group_tests_name("sync", tests, NULL, NULL);
}
