/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Semaphores and wait-queues: units, order, members that give up or die between any two
 * of their operations, and a home that does not answer.  Home and members are in one
 * process, on a card that carries their posts.
 */
#include "../one_test.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "eventually.h"
#include "fake_loop.h"
#include "real_card.h"
#include "base/base.h"
#include "sync/sync.h"
#include "sys/sys.h"
#include "wiped.h"

#define sem_test(fn) cmocka_unit_test_setup_teardown(fn, begin_sem, end)
#define many_test(fn) cmocka_unit_test_setup_teardown(fn, begin_many, end)
#define light_test(fn) cmocka_unit_test_setup_teardown(fn, begin_light, end)
#define queue_test(fn) cmocka_unit_test_setup_teardown(fn, begin_queue, end)

#define MS              1000000ll
#define SECOND          (1000 * MS)
#define SERVICE         77
#define MEMBERS         3u
#define ALL             UINT64_MAX

/* Operations of a wait until it knows its place, and then if it has to wait */
#define OPS_TO_TICKET   2u
#define OPS_TO_WAIT     4u

static const uint8_t mac[6] = { 0x52, 0x54, 0, 0, 0, 1 };

static struct unetmm_ctx *ctx;
static struct unetmm_sync_home *home;
static unsigned home_endpoint;
static bool light;

static struct member_test {
    struct unetmm_sync *sync;
    unsigned endpoint;
    pthread_t thread;
    int64_t timeout;
    bool queue;
    atomic_int result;          /* of its wait; BUSY: it goes on */
} members[MEMBERS];

#define BUSY    1000

/* ---- The clock, the scheduler and the heap ------------------------------- */

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __real_sched_yield(void);
int __wrap_sched_yield(void);
void __real_free(void *memory);
void __wrap_free(void *memory);
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
ssize_t __real_getrandom(void *bytes, size_t length, unsigned flags);
ssize_t __wrap_getrandom(void *bytes, size_t length, unsigned flags);

static _Thread_local bool is_test;      /* the thread that runs the tests */
static _Thread_local bool yields_jump;  /* 20 seconds pass when it gives way */
static atomic_int seconds_ahead;
static atomic_bool stands_still;        /* for the threads of the library */
static struct timespec stood_at;
static const void *watched;
static bool watched_is_free;

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    if (!is_test && atomic_load(&stands_still)) {
        *now = stood_at;
        return 0;
    }
    if (__real_clock_gettime(clock, now)) {
        return -1;
    }
    now->tv_sec += atomic_load(&seconds_ahead);
    return 0;
}

static void time_stands_still(void)
{
    __real_clock_gettime(CLOCK_MONOTONIC, &stood_at);
    stood_at.tv_sec += atomic_load(&seconds_ahead);
    atomic_store(&stands_still, true);
}

int __wrap_sched_yield(void)
{
    if (yields_jump) {
        atomic_fetch_add(&seconds_ahead, 20);
    }
    return __real_sched_yield();
}

void __wrap_free(void *memory)
{
    if (memory && memory == watched) {
        watched_is_free = true;
    }
    __real_free(memory);
}

/* The allocation, or the random number, of this number fails, once; 0: none does. */
static unsigned memory_ends, numbers_end;

static bool ends_now(unsigned *left)
{
    return is_test && *left && !--*left;
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    if (ends_now(&memory_ends)) {
        errno = ENOMEM;
        return NULL;
    }
    return __real_calloc(count, bytes);
}

ssize_t __wrap_getrandom(void *bytes, size_t length, unsigned flags)
{
    if (ends_now(&numbers_end)) {
        errno = EINTR;
        return -1;
    }
    return __real_getrandom(bytes, length, flags);
}

/* ---- Members ------------------------------------------------------------- */

static void __attribute__((constructor)) mark_test_thread(void)
{
    is_test = true;
}

static void join(unsigned i)
{
    assert_int_equal(unetmm_sync_open(ctx, mac, SERVICE, 20 * SECOND,
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
    assert_int_equal(light ?
                     unetmm_sem_home_light(ctx, SERVICE, units, &home) :
                     semaphore ?
                     unetmm_sem_home(ctx, SERVICE, units, &home) :
                     unetmm_waitq_home(ctx, SERVICE, &home), 0);
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

static int begin_light(void **state)
{
    (void)state;
    light = true;
    return begin(true, 2);
}

#define MANY    600u

static int begin_many(void **state)
{
    (void)state;
    return begin(true, MANY);
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
    light = false;
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
                 unetmm_waitq_wait(m->sync, m->timeout) :
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
    EVENTUALLY(loop_carried(members[i].endpoint) >=
               before + OPS_TO_WAIT + light);
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

/* The first one: others let the clock of the library jump. */
TEST(nobody_is_home, cmocka_unit_test)
{
    struct unetmm_sync *sync;

    assert_int_equal(unetmm_open("/loop", UNETMM_SOURCE_TLB, &ctx), 0);
    assert_int_equal(unetmm_sync_open(ctx, mac, SERVICE, MS, &sync),
                     -ETIMEDOUT);
    assert_int_equal(unetmm_close(ctx), 0);
    assert_int_equal(loop_leaks(), 0);
}

/* ---- Semaphores ----------------------------------------------------------- */

ALSO(units_are_taken_and_given, light_test)
TEST(units_are_taken_and_given, sem_test)
{
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
    assert_int_equal(unetmm_waitq_wait(members[0].sync, 0), -EPROTOTYPE);
    assert_int_equal(unetmm_waitq_wake(members[0].sync, 1), -EPROTOTYPE);
}

/* Many rounds, so that each word is used again and again. */
ALSO(units_go_round, light_test)
TEST(units_go_round, sem_test)
{
    unsigned i;

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

ALSO(who_asked_first_is_served_first, light_test)
TEST(who_asked_first_is_served_first, sem_test)
{
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

ALSO(who_gives_up_is_passed_over, light_test)
TEST(who_gives_up_is_passed_over, sem_test)
{
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

/* The unit was on its way to a member that has given up: it goes on to the next. */
TEST(unit_of_who_gave_up_goes_on, sem_test)
{
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

ALSO(who_leaves_gives_back, light_test)
TEST(who_leaves_gives_back, sem_test)
{
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

/* A member that dies behind so many operations of a wait; another one has its place. */
static void dies_behind(unsigned i, unsigned ops)
{
    loop_allow(members[i].endpoint, ops);
    start_wait(i, 50 * MS);
    end_wait(i);
    loop_kill(members[i].endpoint);
    unetmm_sync_close(members[i].sync);
    join(i);
}

/* A member dies behind each of the operations of a wait. */
TEST(who_dies_gives_back, sem_test)
{
    unsigned ops, held;

    for (held = 0; held < 2; held++) {
        for (ops = 0; ops <= OPS_TO_WAIT; ops++) {
            assert_int_equal(take(0, 20 * SECOND), 1);
            if (held) {
                assert_int_equal(take(1, 20 * SECOND), 1);
            }
            dies_behind(1, ops);
            /* Its units and its place are free again: but member 0's unit. */
            assert_int_equal(take(2, 20 * SECOND), 1);
            assert_int_equal(take(2, 5 * MS), 0);
            assert_int_equal(give(2), 0);
            assert_int_equal(give(0), 0);
        }
    }
}

/* As before, behind a member that waits: that one gets no unit for it. */
TEST(who_dies_behind_others_makes_no_unit, sem_test)
{
    unsigned ops;

    for (ops = 0; ops <= OPS_TO_WAIT; ops++) {
        assert_int_equal(take(0, 20 * SECOND), 1);
        assert_int_equal(take(0, 20 * SECOND), 1);
        start_waiting(1, -1);
        dies_behind(2, ops);
        assert_true(waits(1));
        assert_int_equal(give(0), 0);
        assert_int_equal(end_wait(1), 1);
        assert_int_equal(take(2, 5 * MS), 0);
        assert_int_equal(give(0), 0);
        assert_int_equal(give(1), 0);
    }
}

/* Its place was in the middle of the queue. */
ALSO(who_dies_waiting_is_passed_over, light_test)
TEST(who_dies_waiting_is_passed_over, sem_test)
{
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

ALSO(home_that_ends_is_told, light_test)
TEST(home_that_ends_is_told, sem_test)
{
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

/* The card stops the home's endpoint, for an index that cannot be. */
TEST(home_that_failed_says_so, sem_test)
{
    const struct real_endpoint *at = &real_endpoints[home_endpoint];
    int ret;

    unetmm_write_word(&at->index->user.fq_prod, 1u << 30);
    __atomic_store_n(at->doorbell, 1, __ATOMIC_SEQ_CST);
    EVENTUALLY(unetmm_read_word(&at->index->card.state) & UNETMM_EP_ERROR);
    ret = unetmm_sync_home_close(home);
    home = NULL;
    assert_int_equal(ret, -EIO);
}

/*
 * The page for the home's answers to a member never comes.  Others get their units all the
 * same, and the member's channel ends.
 */
TEST(member_without_memory_stops_nobody, sem_test)
{
    unsigned i;

    assert_int_equal(unetmm_sync_close(members[1].sync), 0);
    loop_hide_export(true);
    join(1);
    assert_int_equal(take(0, 20 * SECOND), 1);
    assert_int_equal(take(0, 20 * SECOND), 1);
    for (i = 0; i < 100; i++) {
        /* Time for the home to ask whether its members are there */
        atomic_fetch_add(&seconds_ahead, 1);
        start_waiting(2, -1);
        assert_int_equal(give(0), 0);
        assert_int_equal(end_wait(2), 1);
        assert_int_equal(give(2), 0);
        assert_int_equal(take(0, 20 * SECOND), 1);
    }
    EVENTUALLY(take(1, 0) == -ENOTCONN);
    loop_hide_export(false);
}

/* ---- Light semaphores ------------------------------------------------------- */

TEST(free_units_are_one_operation_each, light_test)
{
    uint64_t before = loop_carried(members[0].endpoint);

    assert_int_equal(take(0, 0), 1);
    assert_int_equal(give(0), 0);
    assert_int_equal(loop_carried(members[0].endpoint), before + 2);
    assert_int_equal(loop_operation(members[0].endpoint, before).opcode,
                     UNETMM_OP_FETCH_ADD);
    assert_int_equal(loop_operation(members[0].endpoint, before + 1).opcode,
                     UNETMM_OP_FETCH_ADD);
}

/* The member's time is over when the unit is on its way: it has that unit. */
TEST(unit_meets_a_member_that_leaves, light_test)
{
    uint64_t before;

    assert_int_equal(take(0, 0), 1);
    assert_int_equal(take(0, 0), 1);
    start_waiting(1, 20 * SECOND);
    loop_allow(home_endpoint, 0);
    assert_int_equal(give(0), 0);
    before = loop_carried(members[1].endpoint);
    atomic_fetch_add(&seconds_ahead, 30);
    /* However long the answers to its operations take */
    time_stands_still();
    /* It gives its ticket up, and finds itself out of the queue already. */
    EVENTUALLY(loop_carried(members[1].endpoint) >= before + 2);
    assert_true(waits(1));
    loop_allow(home_endpoint, ALL);
    assert_int_equal(end_wait(1), 1);
    atomic_store(&stands_still, false);
    assert_int_equal(take(2, 5 * MS), 0);
    assert_int_equal(give(1), 0);
    assert_int_equal(take(2, 20 * SECOND), 1);
    assert_int_equal(take(1, 5 * MS), 0);
}

/*
 * A wait has ended without the answer to its step out of the queue.  The next wait has
 * to know the answer first, and waits for it as long as it was told.
 */
TEST(next_wait_has_its_own_time, light_test)
{
    uint64_t begun = sys_now_ns();

    assert_int_equal(take(0, 0), 1);
    assert_int_equal(take(0, 0), 1);
    /* Up to the word that it has given its ticket up */
    loop_allow(members[1].endpoint, OPS_TO_WAIT + light + 1);
    assert_int_equal(take(1, 20 * MS), 0);
    start_wait(1, -1);
    EVENTUALLY(!waits(1) || sys_now_ns() - begun > SECOND);
    assert_true(waits(1));
    loop_allow(members[1].endpoint, ALL);
    assert_int_equal(give(0), 0);
    assert_int_equal(end_wait(1), 1);
    assert_int_equal(take(2, 5 * MS), 0);
}

/* The answer to a wait comes when the next call of the member is a post. */
TEST(post_beside_an_open_wait, light_test)
{
    assert_int_equal(take(0, 0), 1);
    loop_allow(members[0].endpoint, 0);
    assert_int_equal(take(0, 0), 0);
    loop_allow(members[0].endpoint, ALL);
    assert_int_equal(give(0), 0);
    assert_int_equal(give(0), -EPERM);
    /* The open wait has its unit. */
    assert_int_equal(take(0, 0), 1);
    assert_int_equal(take(1, 20 * SECOND), 1);
    assert_int_equal(take(2, 5 * MS), 0);
}

/* A member is closed before its wait was answered: the unit goes back. */
TEST(open_wait_is_closed, light_test)
{
    loop_allow(members[0].endpoint, 0);
    assert_int_equal(take(0, 0), 0);
    loop_allow(members[0].endpoint, ALL);
    assert_int_equal(unetmm_sync_close(members[0].sync), 0);
    join(0);
    assert_int_equal(take(1, 20 * SECOND), 1);
    assert_int_equal(take(2, 20 * SECOND), 1);
    assert_int_equal(take(0, 5 * MS), 0);
}

#define ROUNDS  150u

static atomic_uint inside, most_inside, taken;

static void *crowd_thread(void *argument)
{
    struct member_test *m = argument;
    unsigned i, now, most;

    for (i = 0; i < ROUNDS; i++) {
        int ret = unetmm_sem_wait(m->sync, i % 3 ? MS * (i % 5) : SECOND);

        if (ret != 1) {
            continue;
        }
        now = atomic_fetch_add(&inside, 1) + 1;
        most = atomic_load(&most_inside);
        while (now > most &&
               !atomic_compare_exchange_weak(&most_inside, &most, now)) {
        }
        atomic_fetch_add(&taken, 1);
        sched_yield();
        atomic_fetch_sub(&inside, 1);
        if (unetmm_sem_post(m->sync)) {
            break;
        }
    }
    atomic_store(&m->result, (int)i);
    return NULL;
}

/* Members wait, leave and give in any order: no unit is lost, and none is made. */
TEST(light_crowd, light_test)
{
    unsigned i;

    atomic_store(&most_inside, 0);
    atomic_store(&taken, 0);
    for (i = 0; i < MEMBERS; i++) {
        atomic_store(&members[i].result, BUSY);
        assert_int_equal(pthread_create(&members[i].thread, NULL, crowd_thread,
                                        &members[i]), 0);
    }
    for (i = 0; i < MEMBERS; i++) {
        assert_int_equal(end_wait(i), ROUNDS);
    }
    assert_true(atomic_load(&most_inside) <= 2);
    assert_true(atomic_load(&taken) > ROUNDS / 2);
    assert_int_equal(take(0, 20 * SECOND), 1);
    assert_int_equal(take(1, 20 * SECOND), 1);
    assert_int_equal(take(2, 5 * MS), 0);
}

/* ---- Posted operations ------------------------------------------------------- */

#define RECORD(member)  offsetof(struct sync_record, member)

/* The operation of this number is a write to this word of the member's record. */
static void expect_put(unsigned endpoint, uint64_t number, size_t member,
                       bool count)
{
    struct loop_operation op;

    EVENTUALLY(loop_carried(endpoint) > number);
    op = loop_operation(endpoint, number);
    assert_int_equal(op.opcode, UNETMM_OP_WRITE);
    assert_int_equal((op.offset - offsetof(struct sync_words, records)) %
                     sizeof(struct sync_record), member);
    assert_int_equal(op.len, 8);
    assert_true(op.quiet && op.is_inline);
    assert_int_equal(op.count, count);
}

/* A wait takes a ticket and reads how far has been served: from this number on. */
static void expect_ticket(unsigned endpoint, uint64_t number)
{
    expect_put(endpoint, number, RECORD(taking), false);
    EVENTUALLY(loop_carried(endpoint) > number + 2);
    assert_int_equal(loop_operation(endpoint, number + 1).opcode,
                     UNETMM_OP_FETCH_ADD);
    assert_int_equal(loop_operation(endpoint, number + 1).offset,
                     offsetof(struct sync_words, tail));
    assert_int_equal(loop_operation(endpoint, number + 2).opcode,
                     UNETMM_OP_READ);
    assert_int_equal(loop_operation(endpoint, number + 2).len, 16);
}

/* The first number from this on that is no question whether the home is there. */
static uint64_t behind_questions(unsigned endpoint, uint64_t number)
{
    for (;; number++) {
        EVENTUALLY(loop_carried(endpoint) > number);
        if ((loop_operation(endpoint, number).offset -
             offsetof(struct sync_words, records)) %
            sizeof(struct sync_record) != RECORD(alive)) {
            return number;
        }
        expect_put(endpoint, number, RECORD(alive), false);
    }
}

/* Only writes that the other side has to act on count, and wake it. */
TEST(writes_that_count, sem_test)
{
    unsigned m = members[0].endpoint, tells = 0, asks = 0;
    uint64_t n = loop_carried(m), at = loop_carried(home_endpoint);

    assert_int_equal(take(0, 0), 1);
    expect_ticket(m, n);
    expect_put(m, n + 3, RECORD(status), false);
    assert_int_equal(give(0), 0);
    expect_put(m, n + 4, RECORD(given), true);
    assert_int_equal(take(1, 20 * SECOND), 1);
    assert_int_equal(take(1, 20 * SECOND), 1);
    /* It says that it waits, asks whether the home is there, and is served. */
    start_waiting(0, -1);
    expect_ticket(m, n + 5);
    expect_put(m, n + 8, RECORD(status), true);
    expect_put(m, n + 9, RECORD(alive), false);
    assert_int_equal(give(1), 0);
    assert_int_equal(end_wait(0), 1);
    n = behind_questions(m, n + 9);
    expect_put(m, n, RECORD(status), false);
    /* It says that it waits, and that it has given up. */
    assert_int_equal(take(0, 300 * MS), 0);
    expect_ticket(m, n + 1);
    expect_put(m, n + 4, RECORD(status), true);
    expect_put(m, behind_questions(m, n + 5), RECORD(status), true);
    /* The home answers that, and asks as well. */
    while (!tells || !asks) {
        struct loop_operation op;

        EVENTUALLY(loop_carried(home_endpoint) > at);
        op = loop_operation(home_endpoint, at++);
        if (op.opcode != UNETMM_OP_WRITE) {
            continue;
        }
        assert_true(op.is_inline);
        assert_int_equal(op.quiet, op.count);
        tells += op.count;
        asks += !op.count;
        assert_int_equal(op.offset, op.count ?
                         offsetof(struct sync_answer, limit) :
                         offsetof(struct sync_answer, alive));
        assert_int_equal(op.len, op.count ? 16 : 8);
    }
}

static void take_many(unsigned i, unsigned n)
{
    while (n--) {
        assert_int_equal(take(i, 20 * SECOND), 1);
    }
}

/* It has failed, and does not try again although it could. */
static void expect_broken(unsigned i)
{
    unsigned n = loop_room(members[i].endpoint);

    assert_int_equal(take(i, 0), -ENOTCONN);
    assert_int_equal(take(i, -1), -ENOTCONN);
    assert_int_equal(give(i), -ENOTCONN);
    assert_in_range(loop_room(members[i].endpoint), n, UINT32_MAX);
    loop_allow(members[i].endpoint, ALL);
    assert_int_equal(take(i, 20 * SECOND), -ENOTCONN);
    assert_int_equal(unetmm_sync_close(members[i].sync), 0);
    join(i);
}

/* How many units a member can give back before its queue is full and stays so. */
static unsigned give_until_full(unsigned i)
{
    unsigned n = 0;
    int ret;

    EVENTUALLY(loop_room(members[i].endpoint) == 256);
    loop_allow(members[i].endpoint, 0);
    yields_jump = true;
    while (!(ret = give(i))) {
        n++;
    }
    yields_jump = false;
    assert_int_equal(ret, -ENOTCONN);
    return n;
}

static void give_some(unsigned i, unsigned n)
{
    EVENTUALLY(loop_room(members[i].endpoint) == 256);
    loop_allow(members[i].endpoint, 0);
    while (n--) {
        assert_int_equal(give(i), 0);
    }
}

/* Each post of a wait in turn finds no room, for longer than a queue stays full. */
TEST(posts_fail_in_turn, many_test)
{
    unsigned full, room;
    int ret;

    take_many(0, 300);
    full = give_until_full(0);
    assert_in_range(full, 100, 299);
    expect_broken(0);
    for (room = 0; room < 20; room++) {
        take_many(0, full);
        give_some(0, full - room);
        yields_jump = true;
        ret = take(0, 0);
        yields_jump = false;
        if (!ret) {
            break;
        }
        assert_int_equal(ret, -ENOTCONN);
        expect_broken(0);
    }
    /* There is room for all three: it goes on when they are answered. */
    assert_in_range(room, 3, 6);
    loop_allow(members[0].endpoint, ALL);
    assert_int_equal(take(0, 20 * SECOND), 1);
    assert_int_equal(give(0), 0);
    assert_int_equal(unetmm_sync_close(members[0].sync), 0);
    members[0].sync = NULL;
    /* Whatever it had come to, its units are there again. */
    take_many(2, MANY);
    assert_int_equal(take(2, 5 * MS), 0);
}

/* It asks whether the home is there, which has not yet let it give up. */
TEST(question_finds_no_room, many_test)
{
    unsigned full;

    take_many(0, 300);
    full = give_until_full(0);
    expect_broken(0);
    take_many(1, full);
    take_many(0, MANY - full);
    loop_allow(home_endpoint, 0);
    assert_int_equal(take(1, 5 * MS), 0);
    give_some(1, full);
    yields_jump = true;
    assert_int_equal(take(1, -1), -ENOTCONN);
    yields_jump = false;
    loop_allow(home_endpoint, ALL);
    expect_broken(1);
}

/* ---- Time and signals ------------------------------------------------------ */

static void on_signal(int number)
{
    (void)number;
}

/* The home's card answers nothing: the wait ends all the same, and goes on later. */
TEST(wait_ends_without_an_answer, sem_test)
{
    unsigned i;

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
    uint64_t before = loop_carried(members[1].endpoint);

    sigaction(SIGUSR1, &action, NULL);
    loop_allow(members[1].endpoint, allowed);
    start_wait(1, -1);
    EVENTUALLY(loop_carried(members[1].endpoint) >= before + allowed);
    /* The signal may come before it sleeps, too: then comes another. */
    while (waits(1)) {
        assert_true(sys_now_ns() < end_by);
        pthread_kill(members[1].thread, SIGUSR1);
        nanosleep(&(struct timespec) { .tv_nsec = MS }, NULL);
    }
    assert_int_equal(end_wait(1), -EINTR);
    loop_allow(members[1].endpoint, ALL);
}

TEST(signal_ends_a_wait, sem_test)
{
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

TEST(interrupted_member_leaves_nothing, sem_test)
{
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
    return unetmm_waitq_wake(members[i].sync, n);
}

TEST(wakes_who_waits, queue_test)
{
    assert_int_equal(wake(0, 0), 0);
    assert_int_equal(wake(0, 5), 0);
    /* Nobody has waited: they wake nobody later. */
    assert_int_equal(unetmm_waitq_wait(members[1].sync, 5 * MS), 0);
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
    assert_int_equal(unetmm_waitq_wait(members[0].sync, 5 * MS), 0);
    assert_int_equal(unetmm_sem_wait(members[0].sync, 0), -EPROTOTYPE);
    assert_int_equal(unetmm_sem_post(members[0].sync), -EPROTOTYPE);
}

/* A wake-up that comes at home later is not for members that came since. */
TEST(wake_up_is_for_who_waited, queue_test)
{
    uint64_t before;

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

/* The home has told a member something since its operation `from`. */
static bool home_has_told(uint64_t from)
{
    for (; from < loop_carried(home_endpoint); from++) {
        if (loop_operation(home_endpoint, from).count) {
            return true;
        }
    }
    return false;
}

/* Its member has given up meanwhile: the wake-up is still not for a later one. */
TEST(wake_up_is_for_nobody_else, queue_test)
{
    uint64_t before = loop_carried(home_endpoint);

    /* Long enough for the wake-up to be on its way before, on a busy machine. */
    start_waiting(1, 500 * MS);
    loop_allow(members[0].endpoint, 1);
    assert_int_equal(wake(0, 0), 0);
    assert_int_equal(end_wait(1), 0);
    /* If the home saw both at once, the wake-up would go on to the next one. */
    EVENTUALLY(home_has_told(before));
    start_waiting(2, 50 * MS);
    loop_allow(members[0].endpoint, ALL);
    assert_int_equal(end_wait(2), 0);
}

TEST(wake_up_of_who_gave_up_goes_on, queue_test)
{
    start_waiting(1, 20 * MS);
    start_waiting(2, -1);
    assert_int_equal(end_wait(1), 0);
    assert_int_equal(wake(0, 1), 0);
    assert_int_equal(end_wait(2), 1);
}

/* ---- Strangers ------------------------------------------------------------- */

static struct unetmm_ep *stranger;
static struct unetmm_event_counter *stranger_told;
static uint64_t stranger_export, home_export;
static uint8_t stranger_page[4096] __attribute__((aligned(4096)));

static unsigned stranger_connects(void)
{
    const struct unetmm_channel_attr attr = {
        .size = sizeof(attr), .flags = UNETMM_RELIABLE | UNETMM_NOTIFY_CLOSE,
    };
    int ret = unetmm_connect_ex(stranger, mac, SERVICE, SECOND, &attr, NULL);

    assert_in_range(ret, 0, LOOP_CHANNELS - 1);
    return (unsigned)ret;
}

/* ... and goes when its own card has said so: the number is free again. */
static void stranger_disconnects(unsigned channel)
{
    struct unetmm_completion c;

    assert_int_equal(unetmm_disconnect(stranger, (int)channel), 0);
    assert_int_equal(unetmm_wait(stranger, &c, 1, 20 * SECOND), 1);
    assert_int_equal(c.type, UNETMM_CQE_CLOSED);
    assert_int_equal(c.channel, channel);
}

/* The home's answer to these words. */
static int greet_with(unsigned channel, uint64_t magic, size_t length)
{
    struct sync_hello hello = {
        .magic = unetmm_swap64(magic),
        .export = unetmm_swap64(stranger_export),
    };
    struct unetmm_completion c = { 0 };

    assert_int_equal(unetmm_send(stranger, channel, &hello, length, 0,
                                 UNETMM_UNSIGNALED | UNETMM_INLINE), 0);
    assert_int_equal(unetmm_wait(stranger, &c, 1, 20 * SECOND), 1);
    assert_int_equal(c.type, UNETMM_CQE_RECEIVED);
    assert_int_equal(c.channel, channel);
    assert_int_equal(c.len, sizeof(hello));
    memcpy(&hello, c.data, sizeof(hello));
    assert_int_equal(unetmm_swap64(hello.magic), SYNC_MAGIC);
    home_export = unetmm_swap64(hello.export);
    return hello.error ? (int32_t)unetmm_swap32((uint32_t)hello.error) :
        (int)unetmm_swap32(hello.slot);
}

static void stranger_comes(void)
{
    stranger_export = 4711;
    assert_int_equal(unetmm_event_create(ctx, 1, &stranger_told), 0);
    assert_int_equal(unetmm_export_events(ctx, stranger_export, stranger_page,
                                          sizeof(stranger_page), UNETMM_RIGHT_ALL, 0, 0,
                                          stranger_told, 1), 0);
    assert_int_equal(unetmm_ep_create(ctx, NULL, &stranger), 0);
}

static void stranger_goes(void)
{
    assert_int_equal(unetmm_ep_destroy(stranger), 0);
    assert_int_equal(unetmm_unexport(ctx, stranger_export), 0);
    unetmm_event_destroy(stranger_told);
}

TEST(strangers_are_refused, sem_test)
{
    unsigned channel, i;

    stranger_comes();
    channel = stranger_connects();
    assert_int_equal(greet_with(channel, 5, sizeof(struct sync_hello)),
                     -EPROTO);
    assert_int_equal(greet_with(channel, SYNC_MAGIC, 8), -EPROTO);
    stranger_export++;
    assert_int_equal(greet_with(channel, SYNC_MAGIC,
                                sizeof(struct sync_hello)), -ETIMEDOUT);
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
    stranger_disconnects(channel);
    EVENTUALLY(greet_with(stranger_connects(), SYNC_MAGIC,
                          sizeof(struct sync_hello)) == MEMBERS);
    stranger_goes();
    assert_int_equal(take(0, 20 * SECOND), 1);
}

static void say_nonsense(unsigned channel)
{
    const struct sync_hello hello = { .magic = 5 };
    int ret;

    while ((ret = unetmm_send(stranger, channel, &hello, sizeof(hello), 0,
                              UNETMM_UNSIGNALED | UNETMM_INLINE)) == -EAGAIN) {
        sched_yield();
    }
    assert_int_equal(ret, 0);
}

static atomic_uint imports_tried;

static void count_imports(unsigned long request)
{
    atomic_fetch_add(&imports_tried, request == UNETMM_IOC_IMPORT);
}

/* The home has handled all that was sent before, too: the queues keep the order. */
static void say_hello(unsigned channel)
{
    const struct sync_hello hello = {
        .magic = unetmm_swap64(SYNC_MAGIC), .export = unetmm_swap64(stranger_export),
    };

    atomic_store(&imports_tried, 0);
    loop_hook = count_imports;
    assert_int_equal(unetmm_send(stranger, channel, &hello, sizeof(hello), 0,
                                 UNETMM_UNSIGNALED | UNETMM_INLINE), 0);
    EVENTUALLY(atomic_load(&imports_tried) == 1);
    loop_hook = NULL;
}

static unsigned next_answered_channel(void)
{
    struct unetmm_completion c;

    assert_int_equal(unetmm_wait(stranger, &c, 1, 20 * SECOND), 1);
    assert_int_equal(c.type, UNETMM_CQE_RECEIVED);
    return c.channel;
}

/* A peer that takes no answers has one slot of the home's queue, and its last hello counts. */
TEST(one_answer_at_a_time_for_each_channel, sem_test)
{
    unsigned channel, other, i, answers = 0;

    stranger_comes();
    channel = stranger_connects();
    other = stranger_connects();
    loop_allow(home_endpoint, 0);
    for (i = 0; i < 20; i++) {
        say_nonsense(channel);
    }
    say_hello(other);
    loop_allow(home_endpoint, ALL);
    for (i = 0; i < 3; i++) {
        answers += next_answered_channel() == channel;
    }
    assert_int_equal(answers, 2);
    assert_int_equal(greet_with(channel, SYNC_MAGIC, sizeof(struct sync_hello)), MEMBERS + 1);
    assert_int_equal(greet_with(channel, SYNC_MAGIC, sizeof(struct sync_hello)), -EEXIST);
    stranger_goes();
}

/* A member that comes and goes without a word takes nothing with it, however often. */
TEST(silent_ones_leave_nothing, sem_test)
{
    unsigned i;

    stranger_comes();
    for (i = 0; i < 3 * LOOP_CHANNELS; i++) {
        const struct unetmm_channel_attr attr = {
            .size = sizeof(attr),
            .flags = UNETMM_RELIABLE | UNETMM_NOTIFY_CLOSE,
        };
        int ret;

        EVENTUALLY((ret = unetmm_connect_ex(stranger, mac, SERVICE, SECOND,
                                            &attr, NULL)) >= 0);
        stranger_disconnects((unsigned)ret);
    }
    stranger_goes();
    assert_int_equal(take(0, 20 * SECOND), 1);
}

static void write_record(int import, size_t offset, uint64_t word)
{
    const uint64_t value = unetmm_swap64(word);

    assert_int_equal(unetmm_write(stranger, import, offsetof(struct sync_words, records) +
                                  MEMBERS * sizeof(struct sync_record) + offset, &value,
                                  sizeof(value), 0, 0,
                                  UNETMM_UNSIGNALED | UNETMM_INLINE | UNETMM_COUNT), 0);
}

/*
 * A member claims units that it has not, beside a wait that it has not begun: no other member
 * loses or gets a unit for that, also when the liar goes.
 */
TEST(units_that_are_not_there_are_not_given, sem_test)
{
    unsigned channel;
    int import;

    stranger_comes();
    channel = stranger_connects();
    assert_int_equal(greet_with(channel, SYNC_MAGIC, sizeof(struct sync_hello)), MEMBERS);
    import = unetmm_import(stranger, (int)channel, home_export, 0, 0, NULL);
    assert_in_range(import, 0, LOOP_IMPORTS - 1);
    write_record(import, offsetof(struct sync_record, status),
                 sync_status(0, SYNC_WAITING, 1ull << 40));
    write_record(import, offsetof(struct sync_record, given), 1000);
    assert_int_equal(take(0, 20 * SECOND), 1);
    assert_int_equal(take(0, 20 * SECOND), 1);
    assert_int_equal(take(1, 5 * MS), 0);
    stranger_goes();
    assert_int_equal(take(1, 5 * MS), 0);
}

/* The home has answered that the member gave up its wait `op`. */
static bool is_answered(uint64_t op)
{
    const struct sync_answer *answer = (const void *)stranger_page;

    return unetmm_swap64(__atomic_load_n(&answer->acked, __ATOMIC_ACQUIRE)) == op;
}

static void give_up_ticket(int import, uint64_t op, uint64_t ticket)
{
    write_record(import, offsetof(struct sync_record, status),
                 sync_status(op, SYNC_GAVE_UP, ticket));
}

/*
 * A member gives up tickets that nobody has.  The home remembers no more runs of them than it has
 * room for: then the member waits for its answer, and others go on.
 */
TEST(lost_tickets_are_bounded, sem_test)
{
    const uint64_t base = 1ull << 30;
    unsigned channel, i;
    uint64_t op = 0;
    int import;

    stranger_comes();
    channel = stranger_connects();
    assert_int_equal(greet_with(channel, SYNC_MAGIC, sizeof(struct sync_hello)), MEMBERS);
    import = unetmm_import(stranger, (int)channel, home_export, 0, 0, NULL);
    assert_in_range(import, 0, LOOP_IMPORTS - 1);
    for (i = 0; i < SYNC_RUNS; i++) {
        give_up_ticket(import, ++op, base + 2 * i);
        EVENTUALLY(is_answered(op));
    }
    give_up_ticket(import, ++op, base + 2 * i);
    for (i = 0; i < 10; i++) {
        assert_int_equal(take(0, 20 * SECOND), 1);
        assert_int_equal(give(0), 0);
    }
    assert_false(is_answered(op));
    /* Two runs become one, which leaves room for another. */
    give_up_ticket(import, ++op, base + 1);
    EVENTUALLY(is_answered(op));
    give_up_ticket(import, ++op, base + 2 * SYNC_RUNS);
    EVENTUALLY(is_answered(op));
    stranger_goes();
    assert_int_equal(take(0, 20 * SECOND), 1);
}

/* The home's queue is full: an answer waits for room, and the home serves others meanwhile. */
TEST(answers_wait_for_room, sem_test)
{
    unsigned channel, slots;
    uint64_t op = 0;
    uint32_t room;
    int import;

    stranger_comes();
    channel = stranger_connects();
    assert_int_equal(greet_with(channel, SYNC_MAGIC, sizeof(struct sync_hello)), MEMBERS);
    slots = loop_operation(home_endpoint, loop_carried(home_endpoint) - 1).slots;
    import = unetmm_import(stranger, (int)channel, home_export, 0, 0, NULL);
    assert_in_range(import, 0, LOOP_IMPORTS - 1);
    loop_allow(home_endpoint, 0);
    while ((room = loop_room(home_endpoint)) >= slots) {
        op++;
        give_up_ticket(import, op, (1ull << 30) + op);
        EVENTUALLY(loop_room(home_endpoint) < room);
    }
    time_stands_still();
    say_nonsense(channel);
    say_hello(stranger_connects());
    atomic_store(&stands_still, false);
    loop_allow(home_endpoint, ALL);
    assert_int_equal(next_answered_channel() + next_answered_channel(), 2 * channel + 1);
    stranger_goes();
}

static void write_word(int import, size_t offset, uint64_t word)
{
    const uint64_t value = unetmm_swap64(word);

    assert_int_equal(unetmm_write(stranger, import, offset, &value, sizeof(value), 0, 0,
                                  UNETMM_UNSIGNALED | UNETMM_INLINE | UNETMM_COUNT), 0);
}

static uint64_t limit_at_home(int import)
{
    uint64_t limit;

    assert_int_equal(unetmm_read_sync(stranger, import, offsetof(struct sync_words, limit),
                                      &limit, sizeof(limit), 20 * SECOND), 0);
    return unetmm_swap64(limit);
}

/*
 * A member says that millions of tickets were taken, and wakes them: the home passes them in
 * one step up to a ticket without an owner, and not past the end of the wake-up.
 */
TEST(wake_up_of_millions_is_one_step, queue_test)
{
    const uint64_t orphan = 100, most = SYNC_WAKES;
    unsigned channel, i;
    int import;

    stranger_comes();
    channel = stranger_connects();
    assert_int_equal(greet_with(channel, SYNC_MAGIC, sizeof(struct sync_hello)), MEMBERS);
    import = unetmm_import(stranger, (int)channel, home_export, 0, 0, NULL);
    assert_in_range(import, 0, LOOP_IMPORTS - 1);
    write_word(import, offsetof(struct sync_words, tail), 1ull << 39);
    give_up_ticket(import, 1, orphan);
    EVENTUALLY(is_answered(1));
    write_record(import, offsetof(struct sync_record, wakes), sync_wakes(200, 150));
    EVENTUALLY(limit_at_home(import) == 150);
    for (i = 1; i <= 64; i++) {
        write_record(import, offsetof(struct sync_record, wakes),
                     sync_wakes(200 + i * most, 1ull << 39));
        EVENTUALLY(limit_at_home(import) == 150 + i * most);
    }
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

/* The program's own faults are reported to it, in each thread. */
TEST(thread_blocks_no_fault, sem_test)
{
    main_thread = pthread_self();
    loop_hook = look_at_mask;
    EVENTUALLY(atomic_load(&wrong_masks) || atomic_load(&right_masks));
    loop_hook = NULL;
    assert_int_equal(atomic_load(&wrong_masks), 0);
}

/* The first sign of a member may come before its connection can be accepted. */
TEST(member_is_accepted_late, sem_test)
{
    struct unetmm_sync *sync;

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
TEST(failures_leave_nothing, cmocka_unit_test)
{
    unsigned i, failed = 0;
    int ret;

    for (i = 0; i < 20; i++) {
        assert_int_equal(unetmm_open("/loop", UNETMM_SOURCE_TLB, &ctx), 0);
        loop_fail(i, ENOMEM);
        ret = unetmm_sem_home(ctx, SERVICE, 1, &home);
        if (!ret) {
            ret = unetmm_sync_open(ctx, mac, SERVICE, 20 * SECOND,
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

/* Makes a home with a member, and ends both; returns the first error. */
static int home_and_member(void)
{
    struct unetmm_sync *sync = NULL;
    int ret;

    home = NULL;
    ret = unetmm_sem_home(ctx, SERVICE, 1, &home);
    if (ret) {
        assert_null(home);
        return ret;
    }
    ret = unetmm_sync_open(ctx, mac, SERVICE, 20 * SECOND, &sync);
    if (ret) {
        assert_null(sync);
    } else {
        assert_int_equal(unetmm_sync_close(sync), 0);
    }
    assert_int_equal(unetmm_sync_home_close(home), 0);
    home = NULL;
    return ret;
}

/* Returns how many of them there are to be refused. */
static unsigned refuse_each(unsigned *which, int error)
{
    unsigned i;
    int ret;

    assert_int_equal(unetmm_open("/loop", UNETMM_SOURCE_TLB, &ctx), 0);
    for (i = 1; ; i++) {
        assert_in_range(i, 1, 100);
        *which = i;
        ret = home_and_member();
        if (*which) {
            break;
        }
        assert_int_equal(ret, error);
    }
    *which = 0;
    assert_int_equal(ret, 0);
    assert_int_equal(unetmm_close(ctx), 0);
    assert_int_equal(loop_leaks(), 0);
    return i - 1;
}

/* So is each allocation refused, and each random number. */
TEST(neither_memory_nor_numbers, cmocka_unit_test)
{
    assert_in_range(refuse_each(&memory_ends, -ENOMEM), 4, 50);
    assert_in_range(refuse_each(&numbers_end, -EIO), 2, 10);
}

/* A child has only memory of its own to give back. */
TEST(child_lets_go, sem_test)
{
    int status;
    pid_t pid;

    if (!wipes_on_fork()) {
        return;
    }
    watched = members[0].sync;
    pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        _exit(take(0, 0) != -EOWNERDEAD || give(0) != -EOWNERDEAD ||
              unetmm_sync_home_close(home) != -EOWNERDEAD || watched_is_free ||
              unetmm_sync_close(members[0].sync) != -EOWNERDEAD ||
              !watched_is_free);
    }
    watched = NULL;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(take(0, 20 * SECOND), 1);
}

static struct unetmm_sync *refused_sync;
static atomic_int refused_with;

static void *open_thread(void *argument)
{
    (void)argument;
    atomic_store(&refused_with,
                 unetmm_sync_open(ctx, mac, SERVICE, 20 * SECOND,
                                  &refused_sync));
    return NULL;
}

/* The result of a member whose home answers so. */
static int home_answers(uint32_t slot, uint64_t kind, int32_t error)
{
    const struct unetmm_channel_attr attr = {
        .size = sizeof(attr), .flags = UNETMM_RELIABLE,
    };
    struct sync_hello hello;
    struct unetmm_completion c;
    pthread_t thread;
    int channel;

    assert_int_equal(unetmm_listen_ex(stranger, SERVICE, 1, &attr), 0);
    assert_int_equal(pthread_create(&thread, NULL, open_thread, NULL), 0);
    EVENTUALLY((channel = unetmm_accept(stranger, NULL, 0)) >= 0);
    assert_int_equal(unetmm_wait(stranger, &c, 1, 20 * SECOND), 1);
    assert_int_equal(c.type, UNETMM_CQE_RECEIVED);
    hello = (struct sync_hello) {
        .magic = unetmm_swap64(SYNC_MAGIC), .slot = unetmm_swap32(slot),
        .export = unetmm_swap64(stranger_export), .kind = unetmm_swap64(kind),
        .error = (int32_t)unetmm_swap32((uint32_t)error),
    };
    assert_int_equal(unetmm_send(stranger, (unsigned)channel, &hello,
                                 sizeof(hello), 0, UNETMM_UNSIGNALED |
                                 UNETMM_INLINE), 0);
    pthread_join(thread, NULL);
    assert_int_equal(unetmm_disconnect(stranger, channel), 0);
    return atomic_load(&refused_with);
}

/* A member trusts no record, no kind and no error that it does not know. */
TEST(homes_answer_is_checked, cmocka_unit_test)
{
    assert_int_equal(unetmm_open("/loop", UNETMM_SOURCE_TLB, &ctx), 0);
    stranger_comes();
    assert_int_equal(home_answers(UNETMM_SYNC_MEMBERS, SYNC_LIGHT, 0), -EPROTO);
    assert_int_equal(home_answers(0, SYNC_LIGHT + 1, 0), -EPROTO);
    assert_int_equal(home_answers(0, SYNC_LIGHT, 5), -EPROTO);
    assert_int_equal(home_answers(0, SYNC_LIGHT, -4096), -EPROTO);
    assert_int_equal(home_answers(0, SYNC_LIGHT, -ENOSPC), -ENOSPC);
    assert_int_equal(home_answers(UNETMM_SYNC_MEMBERS - 1, SYNC_LIGHT, 0), 0);
    assert_int_equal(unetmm_sync_close(refused_sync), 0);
    stranger_goes();
    assert_int_equal(unetmm_close(ctx), 0);
    assert_int_equal(loop_leaks(), 0);
}
