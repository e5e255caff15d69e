/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Event counters: which system calls are made, and when handlers are called.  The
 * driver is the calls below, the card the code that adds to the page.
 */
#include "../one_test.h"

#include "eventually.h"
#include "fake_calls.h"
#include "fake_card.h"
#include "sys/sys.h"

#define scene_test(fn) cmocka_unit_test_setup_teardown(fn, begin, stop)

#define FD              777
#define MAP             0x20000000ull
#define FIRST           10
#define MS              1000000ll

static uint64_t page[512];
static uint32_t alive;
static struct unetmm_ctx ctx;
static struct fake_endpoint fake;

/* The calls to the driver. */
static struct {
    unsigned creates, closes, closed, waits, arms, exports, maps;
    struct unetmm_event_wait wait;
    struct unetmm_event_arm arm;
    struct unetmm_export export;
    int fail;                   /* the next call */
    bool fail_map, far;         /* far: more counters than there are */
    bool block;                 /* handlers, while arming: another thread does */
    unsigned arrive;            /* counts while arming, or asleep */
} driver;

static int failure(void)
{
    int error = driver.fail;

    driver.fail = 0;
    errno = error;
    return error ? -1 : 0;
}

static void add(unsigned number, unsigned n)
{
    uint64_t old = page[number];

    while (!__atomic_compare_exchange_n(&page[number], &old,
                                        unetmm_swap64(unetmm_swap64(old) + n), false,
                                        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    }
}

static int do_wait(struct unetmm_event_wait *wait)
{
    driver.waits++;
    driver.wait = *wait;
    add(wait->id, driver.arrive);
    wait->now = unetmm_swap64(page[wait->id]);
    if (unetmm_swap64(page[wait->id]) - wait->value <= INT64_MAX) {
        return 0;
    }
    errno = ETIMEDOUT;
    return -1;
}

static int do_arm(struct unetmm_event_arm *arm)
{
    driver.arms++;
    driver.arm = *arm;
    arm->now = unetmm_swap64(page[arm->id]);
    add(arm->id, driver.arrive);
    driver.arrive = 0;
    if (driver.block) {
        assert_int_equal(unetmm_handlers_block(fake.ep), 0);
    }
    return 0;
}

int __wrap_ioctl(int fd, unsigned long request, void *argument)
{
    const struct unetmm_destroy *destroy = argument;
    struct unetmm_event *event = argument;

    if (fd != FD) {
        return __real_ioctl(fd, request, argument);
    }
    if (driver.fail) {
        return failure();
    }
    switch (request) {
    case UNETMM_IOC_EVENT:
        driver.creates++;
        event->id = driver.far ? UNETMM_EVENT_COUNTERS - 1 : FIRST;
        event->map = MAP;
        return 0;
    case UNETMM_IOC_DESTROY:
        assert_int_equal(destroy->type, UNETMM_OBJECT_EVENT);
        driver.closes++;
        driver.closed += destroy->count;
        return 0;
    case UNETMM_IOC_EVENT_WAIT: return do_wait(argument);
    case UNETMM_IOC_EVENT_ARM: return do_arm(argument);
    case UNETMM_IOC_EXPORT:
        driver.exports++;
        driver.export = *(struct unetmm_export *)argument;
        return 0;
    default:
        fail_msg("call 0x%lx", request);
        return -1;
    }
}

void *__wrap_mmap(void *address, size_t bytes, int protection, int flags,
                  int fd, off_t offset)
{
    if (fd != FD) {
        return __real_mmap(address, bytes, protection, flags, fd, offset);
    }
    assert_int_equal(offset, MAP);
    assert_int_equal(protection, PROT_READ);
    if (driver.fail_map) {
        driver.fail_map = false;
        errno = ENOMEM;
        return MAP_FAILED;
    }
    driver.maps++;
    return page;
}

int __wrap_munmap(void *address, size_t bytes)
{
    if (address == (void *)page) {
        driver.maps--;
        return 0;
    }
    return __real_munmap(address, bytes);
}

static struct unetmm_event_counter *counter[3];

static int begin(void **state)
{
    (void)state;
    memset(&driver, 0, sizeof(driver));
    memset(page, 0, sizeof(page));
    alive = 1;
    ctx = (struct unetmm_ctx) { .fd = FD, .source = UNETMM_SOURCE_TLB,
                                .alive = &alive };
    pthread_mutex_init(&ctx.counter_lock, NULL);
    fake_endpoint_init(&fake, 4, 4, 4, 0x7fffffe0);
    fake.private->ctx = &ctx;
    fake.private->spin_ns = 0;
    return unetmm_event_create(&ctx, 3, counter);
}

static int stop(void **state)
{
    unsigned i;

    (void)state;
    unetmm_watch_end_all(fake.private);
    for (i = 0; i < 3; i++) {
        assert_int_equal(unetmm_event_destroy(counter[i]), 0);
    }
    assert_int_equal(driver.closed, 3);
    unetmm_events_unmap(&ctx, false);
    assert_int_equal(driver.maps, 0);
    fake_endpoint_free(&fake);
    return 0;
}

/* ---- Making ------------------------------------------------------------ */

TEST(test_numbers, scene_test)
{
    unsigned i;

    for (i = 0; i < 3; i++) {
        add(FIRST + i, i + 5);
        assert_int_equal(unetmm_event_read(counter[i]), i + 5);
    }
    assert_int_equal(atomic_load(&ctx.counters), 3);
    assert_int_equal(driver.maps, 1);
    alive = 0;
    assert_int_equal(unetmm_event_read(counter[0]), 0);
    assert_int_equal(unetmm_event_wait(counter[0], 0, 3, 0), -EOWNERDEAD);
    alive = 1;
}

TEST(test_cannot_be_made, scene_test)
{
    struct unetmm_event_counter *more[2];
    unsigned closed = driver.closed;

    driver.fail = ENOSPC;
    assert_int_equal(unetmm_event_create(&ctx, 2, more), -ENOSPC);
    assert_int_equal(driver.closed, closed);
    driver.far = true;
    assert_int_equal(unetmm_event_create(&ctx, 2, more), -EPROTO);
    assert_int_equal(driver.closed, closed + 2);
    driver.far = false;
    driver.closed = closed;
    unetmm_events_unmap(&ctx, false);
    pthread_mutex_init(&ctx.counter_lock, NULL);
    ctx.counter_page = NULL;
    driver.fail_map = true;
    assert_int_equal(unetmm_event_create(&ctx, 2, more), -ENOMEM);
    assert_int_equal(driver.closed, closed + 2);
    assert_int_equal(atomic_load(&ctx.counters), 3);
    ctx.counter_page = page;
    driver.maps = 1;
    driver.closed = closed;
    ctx.source = UNETMM_OBSERVE;
    assert_int_equal(unetmm_event_create(&ctx, 2, more), -EINVAL);
}

TEST(test_export, scene_test)
{
    assert_int_equal(unetmm_export_events(&ctx, 9, page, 100, 3, 1, 77,
                                          counter[1], 2), 0);
    assert_int_equal(driver.export.counter, FIRST + 1);
    assert_int_equal(driver.export.ncounters, 2);
    assert_int_equal(driver.export.id, 9);
    assert_int_equal(driver.export.cookie, 77);
    assert_int_equal(unetmm_export_events(&ctx, 9, page, 100, 3, 1, 77,
                                          counter[1], 513), -EINVAL);
    assert_int_equal(driver.exports, 1);
}

/* ---- Waiting ----------------------------------------------------------- */

TEST(test_spin_calls_nobody, scene_test)
{
    assert_int_equal(unetmm_event_wait(counter[0], 1, UNETMM_EVENT_SPIN,
                                       MS), 0);
    add(FIRST, 1);
    assert_int_equal(unetmm_event_wait(counter[0], 1, UNETMM_EVENT_SPIN,
                                       -1), 1);
    assert_int_equal(unetmm_event_wait(counter[0], 1, UNETMM_EVENT_BLOCK,
                                       -1), 1);
    assert_int_equal(unetmm_event_wait(counter[0], 2, 3, 0), 0);
    assert_int_equal(driver.waits + driver.arms, 0);
}

TEST(test_block_calls_once, scene_test)
{
    driver.arrive = 1;
    assert_int_equal(unetmm_event_wait(counter[2], 1, UNETMM_EVENT_BLOCK,
                                       -1), 1);
    assert_int_equal(driver.waits, 1);
    assert_int_equal(driver.wait.id, FIRST + 2);
    assert_int_equal(driver.wait.value, 1);
    assert_int_equal(driver.wait.deadline_ns, INT64_MAX);
    driver.arrive = 0;
    assert_int_equal(unetmm_event_wait(counter[2], 2, 3, MS), 0);
    assert_int_equal(driver.waits, 2);
    assert_true(driver.wait.deadline_ns < INT64_MAX);
    driver.fail = EINTR;
    assert_int_equal(unetmm_event_wait(counter[2], 2, 2, MS), -EINTR);
    assert_int_equal(unetmm_event_wait(counter[2], 2, 4, MS), -EINVAL);
    assert_int_equal(unetmm_event_wait(counter[2], 2, 0, MS), -EINVAL);
}

TEST(test_goes_round, scene_test)
{
    page[FIRST] = UINT64_MAX;
    assert_int_equal(unetmm_event_wait(counter[0], 1, 1, 0), 0);
    assert_int_equal(unetmm_event_wait(counter[0], UINT64_MAX, 1, 0), 1);
    add(FIRST, 2);
    assert_int_equal(unetmm_event_wait(counter[0], 1, 1, 0), 1);
    assert_int_equal(unetmm_event_wait(counter[0], UINT64_MAX, 1, 0), 1);
    assert_true(unetmm_event_reached(INT64_MAX, 0));
    assert_false(unetmm_event_reached((uint64_t)INT64_MAX + 1, 0));
}

/* ---- Handlers ---------------------------------------------------------- */

static struct {
    unsigned calls, by[3];
    uint64_t now;
    bool leave;
    bool block;                 /* handlers, in on_count() */
    unsigned completions;
} heard;

static void on_count(struct unetmm_ep *ep, struct unetmm_event_counter *c,
                     uint64_t now, void *arg)
{
    assert_ptr_equal(ep, fake.ep);
    heard.by[(uintptr_t)arg]++;
    heard.now = now;
    if (heard.block) {
        assert_int_equal(unetmm_handlers_block(fake.ep), 0);
    }
    if (heard.leave) {
        assert_int_equal(unetmm_event_set_handler(ep, c, 0, NULL, NULL), 0);
    }
    /* The main thread reads the rest when it has seen the call. */
    __atomic_add_fetch(&heard.calls, 1, __ATOMIC_RELEASE);
}

static void on_completion(struct unetmm_ep *ep,
                          const struct unetmm_completion *c, void *arg)
{
    (void)ep;
    (void)c;
    (void)arg;
    __atomic_add_fetch(&heard.completions, 1, __ATOMIC_RELEASE);
}

static void listen_to(unsigned i, uint64_t seen)
{
    memset(&heard, 0, sizeof(heard));
    assert_int_equal(unetmm_set_handler(fake.ep, UNETMM_EVERY_CHANNEL,
                                        on_completion, NULL), 0);
    assert_int_equal(unetmm_event_set_handler(fake.ep, counter[i], seen,
                                              on_count,
                                              (void *)(uintptr_t)i), 0);
}

TEST(test_dispatched, scene_test)
{
    listen_to(0, 0);
    assert_int_equal(unetmm_dispatch(fake.ep, 9, 0), 0);
    add(FIRST, 3);
    assert_int_equal(unetmm_dispatch(fake.ep, 9, 0), 1);
    assert_int_equal(heard.now, 3);
    assert_int_equal(unetmm_dispatch(fake.ep, 9, 0), 0);
    assert_int_equal(driver.arms, 0);
    /* It sleeps, armed for the next one, and the time passes. */
    assert_int_equal(unetmm_dispatch(fake.ep, 9, MS), 0);
    assert_true(driver.arms > 0);
    assert_int_equal(driver.arm.id, FIRST);
    assert_int_equal(driver.arm.value, 4);
    assert_int_equal(driver.arm.event_fd, fake.private->event_fd);
    /* It comes just as it is armed. */
    driver.arrive = 1;
    assert_int_equal(unetmm_dispatch(fake.ep, 9, -1), 1);
    assert_int_equal(heard.now, 4);
    assert_int_equal(heard.calls, 2);
}

/* Another thread blocks handlers while the caller waits: it calls none, and does not spin on. */
TEST(test_blocked_meanwhile, scene_test)
{
    listen_to(0, 0);
    driver.arrive = 1;
    driver.block = true;
    assert_int_equal(unetmm_dispatch(fake.ep, 9, -1), 0);
    assert_int_equal(heard.calls, 0);
    assert_int_equal(unetmm_handlers_unblock(fake.ep), 1);
    assert_int_equal(unetmm_dispatch(fake.ep, 9, 0), 1);
}

/* An earlier value is told, if it was not seen. */
TEST(test_seen, scene_test)
{
    page[FIRST + 1] = unetmm_swap64(7);
    listen_to(1, 7);
    assert_int_equal(unetmm_dispatch(fake.ep, 9, 0), 0);
    listen_to(1, 6);
    assert_int_equal(unetmm_dispatch(fake.ep, 9, 0), 1);
    assert_int_equal(heard.now, 7);
}

/* One that never rests is called once, and lets the others have their turn. */
TEST(test_fair, scene_test)
{
    const struct unetmm_cqe cqe = { .channel = 1,
                                    .opcode = UNETMM_CQE_RECEIVED };

    listen_to(0, 0);
    listen_to(1, 0);
    listen_to(2, 0);
    add(FIRST, 1);
    add(FIRST + 2, 1);
    assert_true(fake_card_complete(&fake.card, &cqe));
    assert_int_equal(unetmm_dispatch(fake.ep, 1, 0), 1);
    assert_int_equal(heard.calls, 1);
    assert_int_equal(unetmm_dispatch(fake.ep, 9, 0), 2);
    assert_int_equal(heard.by[0], 1);
    assert_int_equal(heard.by[1], 0);
    assert_int_equal(heard.by[2], 1);
}

TEST(test_leaves, scene_test)
{
    listen_to(0, 0);
    listen_to(1, 0);
    heard.leave = true;
    add(FIRST, 1);
    add(FIRST + 1, 1);
    /* Values behind one that has gone are left for the next time. */
    assert_int_equal(unetmm_dispatch(fake.ep, 9, 0), 1);
    assert_int_equal(unetmm_dispatch(fake.ep, 9, 0), 1);
    assert_int_equal(driver.arm.event_fd, -1);
    add(FIRST, 1);
    add(FIRST + 1, 1);
    assert_int_equal(unetmm_dispatch(fake.ep, 9, 0), 0);
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

static void start_thread(void)
{
    assert_int_equal(unetmm_set_handler(fake.ep, UNETMM_EVERY_CHANNEL,
                                        on_completion, NULL), 0);
    assert_int_equal(unetmm_handlers_start(fake.ep, NULL, NULL), 0);
    EVENTUALLY(asleep());
}

/* An earlier value is told to a sleeping thread as well. */
TEST(test_wakes_the_thread, scene_test)
{
    page[FIRST] = unetmm_swap64(7);
    start_thread();
    listen_to(0, 6);
    EVENTUALLY(__atomic_load_n(&heard.calls, __ATOMIC_ACQUIRE));
    assert_int_equal(unetmm_handlers_stop(fake.ep), 0);
    assert_int_equal(heard.now, 7);
}

/*
 * While another thread has the endpoint the counter changes, and unetmm_wait() there uses the
 * wake-up: the sleeping thread is told when handlers run again.
 */
TEST(test_used_wake_up, scene_test)
{
    listen_to(0, 0);
    start_thread();
    assert_int_equal(unetmm_handlers_block(fake.ep), 0);
    add(FIRST, 3);
    assert_int_equal(unetmm_handlers_unblock(fake.ep), 1);
    EVENTUALLY(__atomic_load_n(&heard.calls, __ATOMIC_ACQUIRE));
    assert_int_equal(unetmm_handlers_stop(fake.ep), 0);
    assert_int_equal(heard.now, 3);
}

/* A counter's handler blocks handlers: the completion behind it waits until they run again. */
TEST(test_counter_leaves_them_blocked, scene_test)
{
    const struct unetmm_cqe cqe = { .opcode = UNETMM_CQE_RECEIVED };

    listen_to(0, 0);
    heard.block = true;
    start_thread();
    assert_int_equal(unetmm_handlers_block(fake.ep), 0);
    add(FIRST, 1);
    assert_true(fake_card_complete(&fake.card, &cqe));
    assert_int_equal(unetmm_handlers_unblock(fake.ep), 1);
    EVENTUALLY(__atomic_load_n(&heard.calls, __ATOMIC_ACQUIRE));
    /* This call waits for a handler that runs. */
    assert_int_equal(unetmm_handlers_block(fake.ep), 0);
    assert_int_equal(__atomic_load_n(&heard.completions, __ATOMIC_ACQUIRE), 0);
    unetmm_handlers_unblock(fake.ep);
    assert_int_equal(unetmm_handlers_unblock(fake.ep), 1);
    EVENTUALLY(__atomic_load_n(&heard.completions, __ATOMIC_ACQUIRE));
    assert_int_equal(unetmm_handlers_stop(fake.ep), 0);
}

TEST(test_mistakes, scene_test)
{
    struct unetmm_ctx other = ctx;

    listen_to(0, 0);
    assert_int_equal(unetmm_event_destroy(counter[0]), -EBUSY);
    fake.private->ctx = &other;
    assert_int_equal(unetmm_event_set_handler(fake.ep, counter[1], 0,
                                              on_count, NULL), -EINVAL);
    fake.private->ctx = &ctx;
}
