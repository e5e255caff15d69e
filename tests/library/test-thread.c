/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Handlers called by the library's thread: no completion is slept through or
 * comes twice, and none is handled while handlers are blocked.
 */
#include "../one_test.h"

#include <signal.h>

#include "eventually.h"
#include "fake_card.h"
#include "sys/sys.h"

#define scene_test(fn) cmocka_unit_test_setup_teardown(fn, begin, end)

#define MS              1000000ll
#ifdef __SANITIZE_THREAD__
#define ROUNDS          600u    /* each takes ten times as long */
#else
#define ROUNDS          6000u
#endif
#define WINDOW          8u

static struct fake_endpoint fake;

/* By the handler in the thread, and by the main thread while it is blocked */
static struct {
    atomic_uint next;           /* number of the next completion */
    atomic_uint out_of_order;
    atomic_uint by_main;
    atomic_bool running;
    atomic_bool was_wrong;
    atomic_bool go;
    atomic_int ended;
    int (*_Atomic act)(struct unetmm_ep *ep);
} seen;

static void take(const struct unetmm_completion *c)
{
    if (c->user_data != atomic_fetch_add(&seen.next, 1)) {
        atomic_fetch_add(&seen.out_of_order, 1);
    }
}

/* No assertion here: the framework's belong to the main thread. */
static void on_completion(struct unetmm_ep *ep,
                          const struct unetmm_completion *c, void *arg)
{
    (void)arg;
    atomic_store(&seen.running, true);
    if (seen.act && seen.act(ep)) {
        atomic_store(&seen.was_wrong, true);
    }
    take(c);
    atomic_store(&seen.running, false);
}

static void on_end(struct unetmm_ep *ep, int error, void *arg)
{
    if (ep != fake.ep || arg != &seen ||
        unetmm_handlers_stop(ep) != -EDEADLK) {
        atomic_store(&seen.was_wrong, true);
    }
    atomic_store(&seen.ended, error);
}

static int begin_at(uint32_t start, uint32_t id)
{
    fake_endpoint_init(&fake, 4, 4, 4, start);
    fake.private->spin_ns = 0;
    fake.private->id = id;
    memset(&seen, 0, sizeof(seen));
    assert_int_equal(unetmm_set_handler(fake.ep, UNETMM_EVERY_CHANNEL,
                                        on_completion, NULL), 0);
    assert_int_equal(unetmm_handlers_start(fake.ep, on_end, &seen), 0);
    return 0;
}

static int begin(void **state)
{
    (void)state;
    return begin_at(0x7fffffe0, 1);
}

static int end(void **state)
{
    (void)state;
    assert_false(atomic_load(&seen.was_wrong));
    assert_int_equal(atomic_load(&seen.out_of_order), 0);
    fake_endpoint_free(&fake);
    return 0;
}

static void complete(uint64_t cookie)
{
    fake_card_send_done(&fake.card, cookie);
}

/* A different, repeatable while before each completion; few under way. */
static void *produce(void *argument)
{
    uint64_t random = 1;
    uint32_t i;

    (void)argument;
    for (i = 0; i < ROUNDS; i++) {
        uint32_t spins;

        random = random * 6364136223846793005ull + 1442695040888963407ull;
        for (spins = (uint32_t)(random >> 33) % 2000; spins; spins--) {
            unetmm_relax();
        }
        while (i - atomic_load(&seen.next) >= WINDOW) {
            sched_yield();
        }
        complete(i);
    }
    return NULL;
}

static void race(void)
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, produce, NULL), 0);
    EVENTUALLY(atomic_load(&seen.next) == ROUNDS);
    pthread_join(thread, NULL);
    assert_int_equal(unetmm_handlers_stop(fake.ep), 0);
}

TEST(loses_nothing_sleeping, scene_test)
{
    race();
}

TEST(loses_nothing_spinning, scene_test)
{
    assert_int_equal(unetmm_handlers_stop(fake.ep), 0);
    fake.private->spin_ns = 3000;
    assert_int_equal(unetmm_handlers_start(fake.ep, NULL, NULL), 0);
    race();
}

/* It never arms, as it never sleeps. */
TEST(spins_for_ever_and_stops, scene_test)
{
    uint32_t armed;

    assert_int_equal(unetmm_handlers_stop(fake.ep), 0);
    armed = unetmm_read_word(&fake.card.index->user.cq_arm);
    fake.private->spin_ns = UNETMM_SPIN_FOREVER;
    assert_int_equal(unetmm_handlers_start(fake.ep, NULL, NULL), 0);
    complete(0);
    EVENTUALLY(atomic_load(&seen.next) == 1);
    assert_int_equal(unetmm_handlers_block(fake.ep), 0);
    assert_int_equal(unetmm_handlers_unblock(fake.ep), 1);
    complete(1);
    EVENTUALLY(atomic_load(&seen.next) == 2);
    assert_int_equal(unetmm_handlers_stop(fake.ep), 0);
    assert_int_equal(unetmm_read_word(&fake.card.index->user.cq_arm), armed);
}

/* ---- Blocking -------------------------------------------------------------- */

/*
 * The main thread uses the endpoint as its owner: in one round it takes
 * completions, in another it waits, arms, or only looks.  Once it waits until
 * there is something, so that it has taken one in any case.
 */
static void use_blocked(unsigned round)
{
    struct unetmm_completion c[2] = { 0 };
    int i, n = 0;

    switch (round % 4) {
    case 0:
        n = unetmm_poll(fake.ep, c, 2);
        break;
    case 1:
        n = unetmm_wait(fake.ep, c, 2, round == 1 ? 20000 * MS :
                         round % 8 == 1 ? 20000 : 0);
        break;
    case 2:
        assert_in_range(unetmm_arm(fake.ep), 0, 1);
        break;
    }
    assert_in_range(n, 0, 2);
    for (i = 0; i < n; i++) {
        take(&c[i]);
        atomic_fetch_add(&seen.by_main, 1);
    }
}

TEST(blocked_endpoint_is_ours, scene_test)
{
    unsigned round = 0, before;
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, produce, NULL), 0);
    while (atomic_load(&seen.next) < ROUNDS) {
        assert_int_equal(unetmm_handlers_block(fake.ep), 0);
        assert_false(atomic_load(&seen.running));
        before = atomic_load(&seen.next);
        sched_yield();
        assert_int_equal(atomic_load(&seen.next), before);
        use_blocked(round++);
        assert_int_equal(unetmm_handlers_unblock(fake.ep), 1);
        /* A wake-up that was lost here would leave the producer waiting. */
        if (round % 16 == 0) {
            before = atomic_load(&seen.next);
            EVENTUALLY(atomic_load(&seen.next) != before ||
                       before == ROUNDS);
        }
    }
    pthread_join(thread, NULL);
    assert_int_equal(unetmm_handlers_stop(fake.ep), 0);
    assert_true(atomic_load(&seen.by_main) > 0);
    assert_true(atomic_load(&seen.by_main) < ROUNDS);
}

static bool asleep(void)
{
    struct unetmm_handlers *h = &fake.private->handlers;
    bool yes;

    pthread_mutex_lock(&h->lock);
    yes = h->asleep;
    pthread_mutex_unlock(&h->lock);
    return yes;
}

/*
 * A completion whose wake-up is used before the thread has seen it, as
 * unetmm_wait() may.
 */
static void complete_unseen(uint64_t cookie)
{
    int own = fake.card.event_fd;

    fake.card.event_fd = sys_eventfd();
    assert_true(fake.card.event_fd >= 0);
    complete(cookie);
    sys_close(fake.card.event_fd);
    fake.card.event_fd = own;
}

TEST(used_wake_up_is_made_good, scene_test)
{
    struct unetmm_completion c = { 0 };

    EVENTUALLY(asleep());
    assert_int_equal(unetmm_handlers_block(fake.ep), 0);
    complete_unseen(0);
    assert_int_equal(unetmm_poll(fake.ep, &c, 1), 1);
    take(&c);
    assert_int_equal(unetmm_handlers_unblock(fake.ep), 1);
    complete(1);
    EVENTUALLY(atomic_load(&seen.next) == 2);
    EVENTUALLY(asleep());
    assert_int_equal(unetmm_handlers_block(fake.ep), 0);
    complete_unseen(2);
    assert_int_equal(unetmm_handlers_unblock(fake.ep), 1);
    EVENTUALLY(atomic_load(&seen.next) == 3);
    assert_int_equal(unetmm_handlers_stop(fake.ep), 0);
}

/* The same at each count of completions, 0 among them. */
TEST(used_wake_up_at_any_count, scene_test)
{
    struct unetmm_completion c = { 0 };
    uint64_t next;
    bool at_zero = false;

    /* Its thread may not even have begun. */
    assert_int_equal(unetmm_handlers_stop(fake.ep), 0);
    end(state);
    begin_at(-(uint32_t)32, 1);
    complete(0);
    EVENTUALLY(atomic_load(&seen.next) == 1);
    for (next = 1; next < 40; next += 2) {
        EVENTUALLY(asleep());
        assert_int_equal(unetmm_handlers_block(fake.ep), 0);
        complete_unseen(next);
        assert_int_equal(unetmm_poll(fake.ep, &c, 1), 1);
        at_zero |= !fake.ep->cq_cons;
        take(&c);
        assert_int_equal(unetmm_handlers_unblock(fake.ep), 1);
        complete(next + 1);
        EVENTUALLY(atomic_load(&seen.next) == next + 2);
    }
    assert_true(at_zero);
    assert_int_equal(unetmm_handlers_stop(fake.ep), 0);
}

static int await_go(struct unetmm_ep *ep)
{
    (void)ep;
    while (!atomic_load(&seen.go)) {
        sched_yield();
    }
    return 0;
}

static void *let_go(void *argument)
{
    struct timespec pause = { .tv_nsec = 10 * MS };

    nanosleep(&pause, NULL);
    atomic_store(&seen.go, true);
    return argument;
}

TEST(blocking_waits_for_the_handler, scene_test)
{
    pthread_t thread;

    seen.act = await_go;
    complete(0);
    EVENTUALLY(atomic_load(&seen.running));
    assert_int_equal(pthread_create(&thread, NULL, let_go, NULL), 0);
    assert_int_equal(unetmm_handlers_block(fake.ep), 0);
    assert_true(atomic_load(&seen.go));
    assert_int_equal(atomic_load(&seen.next), 1);
    pthread_join(thread, NULL);
    /* Messages that come now wait, also over the end of the thread. */
    complete(1);
    complete(2);
    assert_int_equal(unetmm_handlers_block(fake.ep), 0);
    assert_int_equal(unetmm_handlers_stop(fake.ep), 0);
    assert_int_equal(unetmm_handlers_unblock(fake.ep), 0);
    assert_int_equal(unetmm_dispatch(fake.ep, 9, 0), -EDEADLK);
    assert_int_equal(unetmm_handlers_unblock(fake.ep), 1);
    assert_int_equal(atomic_load(&seen.next), 1);
    assert_int_equal(unetmm_dispatch(fake.ep, 9, 0), 2);
}

static atomic_int cancelled_step;

/* Is cancelled while it waits for the handler, and has to go on to its own end. */
static void *block_cancelled(void *argument)
{
    atomic_store(&cancelled_step, 1);
    if (!unetmm_handlers_block(fake.ep)) {
        atomic_store(&cancelled_step, 2);
    }
    pthread_testcancel();
    return argument;
}

TEST(blocking_is_not_cancelled, scene_test)
{
    pthread_t thread;
    void *result;

    seen.act = await_go;
    complete(0);
    EVENTUALLY(atomic_load(&seen.running));
    assert_int_equal(pthread_create(&thread, NULL, block_cancelled, NULL), 0);
    EVENTUALLY(atomic_load(&fake.private->handlers.blocked) == 1);
    pthread_cancel(thread);
    atomic_store(&seen.go, true);
    pthread_join(thread, &result);
    assert_int_equal(atomic_load(&cancelled_step), 2);
    assert_ptr_equal(result, PTHREAD_CANCELED);
    assert_int_equal(pthread_mutex_trylock(&fake.private->handlers.lock), 0);
    pthread_mutex_unlock(&fake.private->handlers.lock);
    assert_int_equal(unetmm_handlers_unblock(fake.ep), 1);
    assert_int_equal(unetmm_handlers_stop(fake.ep), 0);
}

static int stay_blocked(struct unetmm_ep *ep)
{
    return unetmm_handlers_block(ep);
}

TEST(handler_leaves_them_blocked, scene_test)
{
    unsigned i;

    seen.act = stay_blocked;
    for (i = 0; i < 5; i++) {
        complete(i);
    }
    for (i = 1; i <= 5; i++) {
        EVENTUALLY(atomic_load(&seen.next) == i);
        /* The handler may not have returned yet. */
        EVENTUALLY(unetmm_handlers_unblock(fake.ep) == 1);
    }
    assert_int_equal(unetmm_handlers_stop(fake.ep), 0);
}

static int inside(struct unetmm_ep *ep)
{
    return unetmm_dispatch(ep, 1, 0) != -EDEADLK ||
           unetmm_handlers_start(ep, NULL, NULL) != -EDEADLK ||
           unetmm_handlers_stop(ep) != -EDEADLK ||
           unetmm_handlers_unblock(ep) != -EPERM ||
           unetmm_handlers_block(ep) || unetmm_handlers_unblock(ep) ||
           unetmm_handlers_unblock(ep) != -EPERM;
}

TEST(handler_may_not_wait_for_itself, scene_test)
{
    seen.act = inside;
    complete(0);
    EVENTUALLY(atomic_load(&seen.next) == 1);
    assert_int_equal(unetmm_handlers_stop(fake.ep), 0);
}

/* ---- The thread's life ----------------------------------------------------- */

TEST(misuse_is_refused, scene_test)
{
    assert_int_equal(unetmm_handlers_start(fake.ep, NULL, NULL), -EBUSY);
    assert_int_equal(unetmm_dispatch(fake.ep, 1, 0), -EBUSY);
    assert_int_equal(unetmm_handlers_unblock(fake.ep), -EPERM);
    assert_int_equal(unetmm_set_handler(fake.ep, UNETMM_EVERY_CHANNEL, NULL,
                                        NULL), -EBUSY);
    assert_int_equal(unetmm_handlers_stop(fake.ep), 0);
    assert_int_equal(unetmm_handlers_stop(fake.ep), -ESRCH);
    complete(0);
    assert_int_equal(unetmm_dispatch(fake.ep, 1, 0), 1);
}

TEST(starts_and_stops, scene_test)
{
    unsigned i;

    for (i = 0; i < 200; i++) {
        complete(i);
        if (i % 2) {
            EVENTUALLY(atomic_load(&seen.next) == i + 1);
        }
        assert_int_equal(unetmm_handlers_stop(fake.ep), 0);
        assert_int_equal(unetmm_handlers_start(fake.ep, NULL, NULL), 0);
    }
    EVENTUALLY(atomic_load(&seen.next) == 200);
    assert_int_equal(unetmm_handlers_stop(fake.ep), 0);
}

#if defined(__SANITIZE_THREAD__) || !defined(__x86_64__)
#define STOPS           200     /* each takes ten times as long, as under qemu-user */
#else
#define STOPS           3000
#endif

static atomic_uint stops, blocks;

static void *start_and_stop(void *argument)
{
    unsigned i;

    for (i = 0; i < STOPS; i++) {
        if (unetmm_handlers_stop(fake.ep) ||
            unetmm_handlers_start(fake.ep, NULL, NULL)) {
            atomic_store(&seen.was_wrong, true);
        }
        atomic_fetch_add(&stops, 1);
    }
    return argument;
}

static void *block_and_unblock(void *argument)
{
    while (atomic_load(&stops) < STOPS) {
        if (unetmm_handlers_block(fake.ep) ||
            unetmm_handlers_unblock(fake.ep) != 1) {
            atomic_store(&seen.was_wrong, true);
        }
        atomic_fetch_add(&blocks, 1);
    }
    return argument;
}

/* The thread may end between any two steps of unetmm_handlers_block(). */
TEST(stops_while_another_blocks, scene_test)
{
    pthread_t stopper, blocker;

    atomic_store(&stops, 0);
    assert_int_equal(pthread_create(&blocker, NULL, block_and_unblock, NULL),
                     0);
    EVENTUALLY(atomic_load(&blocks));
    assert_int_equal(pthread_create(&stopper, NULL, start_and_stop, NULL), 0);
    EVENTUALLY(atomic_load(&stops) == STOPS);
    pthread_join(stopper, NULL);
    pthread_join(blocker, NULL);
    assert_int_equal(pthread_mutex_trylock(&fake.private->handlers.lock), 0);
    pthread_mutex_unlock(&fake.private->handlers.lock);
    assert_int_equal(atomic_load(&fake.private->handlers.blocked), 0);
    assert_int_equal(unetmm_handlers_stop(fake.ep), 0);
}

static void stop_card(void)
{
    fake_card_state(&fake.card, UNETMM_EP_ERROR);
    sys_eventfd_add(fake.card.event_fd);
}

TEST(stopped_endpoint_ends_it, scene_test)
{
    complete(0);
    stop_card();
    EVENTUALLY(atomic_load(&seen.ended));
    assert_int_equal(atomic_load(&seen.ended), -EIO);
    assert_int_equal(atomic_load(&seen.next), 1);
    assert_int_equal(unetmm_handlers_block(fake.ep), 0);
    assert_int_equal(unetmm_handlers_unblock(fake.ep), 1);
    assert_int_equal(unetmm_dispatch(fake.ep, 1, 0), -EBUSY);
    assert_int_equal(unetmm_handlers_stop(fake.ep), -EIO);
    assert_int_equal(unetmm_dispatch(fake.ep, 1, 0), -EIO);
}

/* The owner of the moment sees it, and uses the wake-up. */
TEST(stopped_while_blocked, scene_test)
{
    struct unetmm_completion c;

    EVENTUALLY(asleep());
    assert_int_equal(unetmm_handlers_block(fake.ep), 0);
    fake_card_state(&fake.card, UNETMM_EP_ERROR);
    assert_int_equal(unetmm_wait(fake.ep, &c, 1, -1), -EIO);
    assert_int_equal(unetmm_arm(fake.ep), 1);
    assert_int_equal(atomic_load(&seen.ended), 0);
    assert_int_equal(unetmm_handlers_unblock(fake.ep), 1);
    EVENTUALLY(atomic_load(&seen.ended) == -EIO);
    assert_int_equal(unetmm_handlers_stop(fake.ep), -EIO);
}

static int look_at_signals(struct unetmm_ep *ep)
{
    sigset_t set;

    (void)ep;
    return pthread_sigmask(SIG_BLOCK, NULL, &set) ||
           !sigismember(&set, SIGUSR1) || !sigismember(&set, SIGINT) ||
           sigismember(&set, SIGSEGV);
}

TEST(takes_no_signal, scene_test)
{
    sigset_t before, after;

    seen.act = look_at_signals;
    complete(0);
    EVENTUALLY(atomic_load(&seen.next) == 1);
    assert_int_equal(unetmm_handlers_stop(fake.ep), 0);
    /* Ours are as they were. */
    pthread_sigmask(SIG_BLOCK, NULL, &before);
    assert_int_equal(unetmm_handlers_start(fake.ep, NULL, NULL), 0);
    pthread_sigmask(SIG_BLOCK, NULL, &after);
    assert_int_equal(sigismember(&after, SIGUSR1),
                     sigismember(&before, SIGUSR1));
    assert_int_equal(unetmm_handlers_stop(fake.ep), 0);
}

static const char *expected_name;

static int look_at_name(struct unetmm_ep *ep)
{
    char name[16] = "";

    (void)ep;
    return pthread_getname_np(pthread_self(), name, sizeof(name)) ||
           strcmp(name, expected_name);
}

/* A thread's name has 15 characters at most: a longer one is cut off. */
TEST(has_a_name, scene_test)
{
    static const struct {
        uint32_t id;
        const char *name;
    } names[] = {
        { 1, "unetmm-ep1" },
        { 12345, "unetmm-ep12345" },
        { 123456, "unetmm-ep123456" },
        { 1234567, "unetmm-ep123456" },
        { UINT32_MAX, "unetmm-ep429496" },
    };
    unsigned i;

    assert_int_equal(unetmm_handlers_stop(fake.ep), 0);
    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        end(state);
        begin_at(0, names[i].id);
        expected_name = names[i].name;
        seen.act = look_at_name;
        complete(0);
        EVENTUALLY(atomic_load(&seen.next) == 1);
        assert_int_equal(unetmm_handlers_stop(fake.ep), 0);
    }
}

/* ---- Handlers that send ---------------------------------------------------- */

static int send_more(struct unetmm_ep *ep)
{
    return unetmm_send(ep, 1, "x", 1, 0, UNETMM_MORE);
}

TEST(rings_before_it_sleeps, scene_test)
{
    seen.act = send_more;
    complete(0);
    EVENTUALLY(fake_endpoint_rung(&fake));
    EVENTUALLY(asleep());
    assert_int_equal(unetmm_handlers_block(fake.ep), 0);
    /* And for our queued messages, in their place. */
    assert_int_equal(unetmm_send(fake.ep, 1, "x", 1, 0, UNETMM_MORE), 0);
    assert_false(fake_endpoint_rung(&fake));
    assert_int_equal(unetmm_handlers_unblock(fake.ep), 1);
    EVENTUALLY(fake_endpoint_rung(&fake));
    assert_int_equal(unetmm_handlers_stop(fake.ep), 0);
}

/* A spinning thread may not sleep for long: it rings before it looks again. */
TEST(rings_before_it_spins, scene_test)
{
    assert_int_equal(unetmm_handlers_stop(fake.ep), 0);
    fake.private->spin_ns = UNETMM_SPIN_FOREVER;
    seen.act = send_more;
    assert_int_equal(unetmm_handlers_start(fake.ep, NULL, NULL), 0);
    complete(0);
    EVENTUALLY(fake_endpoint_rung(&fake));
    assert_int_equal(unetmm_handlers_stop(fake.ep), 0);
}

/* ---- Setting while it runs ------------------------------------------------- */

static void count(struct unetmm_ep *ep, const struct unetmm_completion *c,
                  void *arg)
{
    (void)ep;
    ++*(unsigned *)arg;
    take(c);
}

/* Memory of the last handler may be freed at once. */
TEST(handlers_are_replaced, scene_test)
{
    unsigned total = 0, i, *calls = NULL;
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, produce, NULL), 0);
    for (i = 0; i < 500; i++) {
        unsigned *last = calls;

        calls = calloc(1, sizeof(*calls));
        assert_int_equal(unetmm_set_handler(fake.ep, UNETMM_EVERY_CHANNEL,
                                            count, calls), 0);
        if (last) {
            total += *last;
            memset(last, 0xff, sizeof(*last));
            free(last);
        }
    }
    EVENTUALLY(atomic_load(&seen.next) == ROUNDS);
    pthread_join(thread, NULL);
    assert_int_equal(unetmm_handlers_stop(fake.ep), 0);
    total += *calls;
    free(calls);
    assert_in_range(total, 1, ROUNDS);
}
