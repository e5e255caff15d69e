/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Event counters: counted data is visible, each write is counted once, and a waiting
 * process is woken, whichever way it waits.
 *
 * Local: one endpoint of a card writes to another.  Remote: the other guest's echo
 * writes here, over a wire that may misbehave.
 */
#include "ask.h"
#include "guard.h"
#include "link.h"
#include "raw.h"

#include <libunetmm/inline.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SERVICE         (SERVICE_FIRST - 9)
#define ID              COUNTED_EXPORT
#define TEST_EXPORT     (TEST_BOTH | TEST_UTLB)
#define PATIENCE_NS     ((int64_t)(20 * NS_PER_S * run.slow))
#define BOTH            (UNETMM_EVENT_SPIN | UNETMM_EVENT_BLOCK)

/* The counters and the exports are ours, exported by `two` if it is local. */
struct scene {
    struct unetmm_ctx *ctx;
    struct station one, two;
    uint64_t *slots;
    struct unetmm_event_counter *counter[3];
    unsigned import;            /* of `one`: local */
};

static const struct unetmm_channel_attr usual = UNETMM_CHANNEL_ATTR_INIT;

static void scene_open(struct scene *s)
{
    int ret;

    memset(s, 0, sizeof(*s));
    s->ctx = open_card();
    station_open(&s->one, s->ctx, NULL);
    s->slots = (uint64_t *)(void *)pages(1);
    CHECK_RET(unetmm_event_create(s->ctx, 3, s->counter), 0);
    CHECK_RET(unetmm_export_events(s->ctx, ID, s->slots, PAGE,
                                   UNETMM_RIGHT_ALL, 0, 0, s->counter[0],
                                   2), 0);
    if (run.remote) {
        ret = unetmm_connect_ex(s->one.ep, run.peer, SERVICE_MIRROR,
                                PATIENCE_NS, &usual, NULL);
        CHECK(ret >= 0);
        s->one.channel = (unsigned)ret;
        return;
    }
    station_open(&s->two, s->ctx, NULL);
    CHECK_RET(try_join(&s->one, &s->two, &usual, PATIENCE_NS), 0);
    ret = unetmm_import(s->one.ep, s->one.channel, ID, UNETMM_RIGHT_WRITE,
                        PATIENCE_NS, NULL);
    CHECK(ret >= 0);
    s->import = (unsigned)ret;
}

static void scene_close(struct scene *s)
{
    unsigned i;

    CHECK_RET(unetmm_unexport(s->ctx, ID), 0);
    for (i = 0; i < 3; i++) {
        CHECK_RET(unetmm_event_destroy(s->counter[i]), 0);
    }
    station_close(&s->one);
    if (!run.remote) {
        station_close(&s->two);
    }
    CHECK_RET(unetmm_close(s->ctx), 0);
}

/* ---- Writers ---------------------------------------------------------------- */

struct writer {
    struct scene *s;
    uint64_t from, n;
    pthread_t thread;
};

static void *write_numbers(void *argument)
{
    struct writer *w = argument;

    count_to(w->s->one.ep, w->s->import, w->from, w->n);
    return NULL;
}

/* Numbers from+1 .. from+n, each in its slot, and counted. */
static void writer_start(struct writer *w, struct scene *s, uint64_t from,
                         uint64_t n)
{
    struct peer_message order = { PEER_MAGIC, PEER_COUNT_HERE, n, from };

    *w = (struct writer) { .s = s, .from = from, .n = n };
    if (run.remote) {
        CHECK_RET(unetmm_send(s->one.ep, s->one.channel, &order, sizeof(order),
                              0, UNETMM_UNSIGNALED | UNETMM_INLINE), 0);
    } else {
        CHECK_EQ(pthread_create(&w->thread, NULL, write_numbers, w), 0);
    }
}

static void writer_end(struct writer *w)
{
    struct unetmm_completion c;

    if (run.remote) {
        take(&w->s->one, UNETMM_CQE_RECEIVED, &c);
    } else {
        CHECK_EQ(pthread_join(w->thread, NULL), 0);
    }
}

/* All up to `now` are there: the slots show these, or later ones. */
static void check_seen(const struct scene *s, uint64_t now)
{
    uint64_t i;

    for (i = now; i && i + COUNTED_SLOTS > now; i--) {
        uint64_t there = __atomic_load_n(&s->slots[i % COUNTED_SLOTS],
                                         __ATOMIC_RELAXED);

        if (there < i || there % COUNTED_SLOTS != i % COUNTED_SLOTS) {
            FAIL("counted to %llu, and slot %llu has %llu",
                 (unsigned long long)now, (unsigned long long)i,
                 (unsigned long long)there);
        }
    }
}

/* ---- Ways to wait ----------------------------------------------------------- */

struct heard {
    struct scene *s;
    atomic_ullong now;
    atomic_uint calls;
};

static void on_count(struct unetmm_ep *ep, struct unetmm_event_counter *counter,
                     uint64_t now, void *argument)
{
    struct heard *h = argument;

    (void)ep;
    CHECK(counter == h->s->counter[0]);
    CHECK(now > atomic_load(&h->now));
    check_seen(h->s, now);
    atomic_store(&h->now, now);
    atomic_fetch_add(&h->calls, 1);
}

static void on_other(struct unetmm_ep *ep, const struct unetmm_completion *c,
                     void *argument)
{
    (void)ep;
    (void)argument;
    CHECK_EQ(c->status, UNETMM_ST_OK);
}

/* An endpoint that nothing else uses: the scene's are the writer's. */
static void listener_open(struct scene *s, struct station *l, uint32_t spin_ns)
{
    struct unetmm_ep_attr attr = default_attr();

    attr.spin_ns = spin_ns;
    station_open(l, s->ctx, &attr);
    CHECK_RET(unetmm_set_handler(l->ep, UNETMM_EVERY_CHANNEL, on_other, NULL),
              0);
}

static void wait_as(struct scene *s, unsigned how)
{
    uint64_t i, now, n = rounds(400);
    struct writer w;

    writer_start(&w, s, 0, n);
    for (i = 1; i <= n; i = now + 1) {
        CHECK_RET(unetmm_event_wait(s->counter[0], i, how, PATIENCE_NS), 1);
        now = unetmm_event_read(s->counter[0]);
        CHECK(now >= i);
        check_seen(s, now);
    }
    CHECK_EQ(unetmm_event_read(s->counter[0]), n);
    CHECK_EQ(unetmm_event_read(s->counter[1]), 0);
    writer_end(&w);
}

TEST(spin, TEST_EXPORT | TEST_REMOTE)
{
    struct scene s;

    scene_open(&s);
    wait_as(&s, UNETMM_EVENT_SPIN);
    scene_close(&s);
}

TEST(block, TEST_EXPORT | TEST_REMOTE)
{
    struct scene s;

    scene_open(&s);
    wait_as(&s, UNETMM_EVENT_BLOCK);
    scene_close(&s);
}

TEST(spin_then_block, TEST_TLB | TEST_REMOTE)
{
    struct scene s;

    scene_open(&s);
    wait_as(&s, BOTH);
    scene_close(&s);
}

TEST(dispatched, TEST_TLB | TEST_REMOTE)
{
    struct heard heard = { 0 };
    uint64_t n = rounds(400);
    struct station listener;
    struct writer w;
    struct scene s;

    scene_open(&s);
    heard.s = &s;
    listener_open(&s, &listener, 0);
    CHECK_RET(unetmm_event_set_handler(listener.ep, s.counter[0], 0,
                                       on_count, &heard), 0);
    CHECK_RET(unetmm_dispatch(listener.ep, 1, 0), 0);
    CHECK_RET(unetmm_dispatch(listener.ep, 1, NS_PER_MS), 0);
    writer_start(&w, &s, 0, n);
    while (atomic_load(&heard.now) < n) {
        CHECK(unetmm_dispatch(listener.ep, 16, PATIENCE_NS) > 0);
    }
    writer_end(&w);
    CHECK_RET(unetmm_dispatch(listener.ep, 16, 0), 0);
    CHECK_RET(unetmm_event_destroy(s.counter[0]), -EBUSY);
    /* A value that was reached before is told at once. */
    CHECK_RET(unetmm_event_set_handler(listener.ep, s.counter[0], 0, NULL,
                                       NULL), 0);
    atomic_store(&heard.now, 0);
    CHECK_RET(unetmm_event_set_handler(listener.ep, s.counter[0], n - 1,
                                       on_count, &heard), 0);
    CHECK_RET(unetmm_dispatch(listener.ep, 16, PATIENCE_NS), 1);
    CHECK_EQ(atomic_load(&heard.now), n);
    station_close(&listener);
    scene_close(&s);
}

static void threaded_with(uint32_t spin_ns)
{
    struct heard heard = { 0 };
    uint64_t n = rounds(400);
    struct station listener;
    struct writer w;
    struct scene s;

    scene_open(&s);
    heard.s = &s;
    listener_open(&s, &listener, spin_ns);
    CHECK_RET(unetmm_handlers_start(listener.ep, NULL, NULL), 0);
    /* The thread sleeps, maybe, and learns of it. */
    CHECK_RET(unetmm_event_set_handler(listener.ep, s.counter[0], 0,
                                       on_count, &heard), 0);
    writer_start(&w, &s, 0, n);
    EVENTUALLY(atomic_load(&heard.now) == n);
    writer_end(&w);
    note("%u calls for %llu writes", atomic_load(&heard.calls),
         (unsigned long long)n);
    CHECK_RET(unetmm_handlers_block(listener.ep), 0);
    writer_start(&w, &s, n, 10);
    writer_end(&w);
    CHECK_RET(unetmm_event_wait(s.counter[0], n + 10, BOTH, PATIENCE_NS), 1);
    CHECK_EQ(atomic_load(&heard.now), n);
    CHECK_RET(unetmm_handlers_unblock(listener.ep), 1);
    EVENTUALLY(atomic_load(&heard.now) == n + 10);
    station_close(&listener);
    scene_close(&s);
}

TEST(threaded, TEST_TLB | TEST_REMOTE)
{
    threaded_with(0);
    threaded_with(1000000);
}

/* Each time another way, a handler coming and going besides. */
TEST(switching, TEST_BOTH | TEST_REMOTE)
{
    static const unsigned ways[] = { UNETMM_EVENT_SPIN, UNETMM_EVENT_BLOCK,
                                     BOTH };
    uint64_t i = 0, n = rounds(300);
    struct heard heard = { 0 };
    struct station listener;
    struct chance chance;
    struct writer w;
    struct scene s;

    chance_init(&chance, 0);
    scene_open(&s);
    heard.s = &s;
    listener_open(&s, &listener, 0);
    CHECK_RET(unetmm_handlers_start(listener.ep, NULL, NULL), 0);
    writer_start(&w, &s, 0, n);
    while (i < n) {
        uint64_t to = i + 1 + chance_below(&chance, 5);

        to = to < n ? to : n;
        if (chance_below(&chance, 2)) {
            CHECK_RET(unetmm_event_wait(s.counter[0], to,
                                        ways[chance_below(&chance, 3)],
                                        PATIENCE_NS), 1);
            i = to;
            check_seen(&s, i);
            continue;
        }
        CHECK_RET(unetmm_event_set_handler(listener.ep, s.counter[0], i,
                                           on_count, &heard), 0);
        EVENTUALLY(atomic_load(&heard.now) >= to);
        CHECK_RET(unetmm_event_set_handler(listener.ep, s.counter[0], 0,
                                           NULL, NULL), 0);
        i = atomic_load(&heard.now);
    }
    writer_end(&w);
    CHECK_EQ(unetmm_event_read(s.counter[0]), n);
    station_close(&listener);
    scene_close(&s);
}

/* ---- Many at a time --------------------------------------------------------- */

#define SLEEPERS 6

struct sleeper {
    struct scene *s;
    unsigned number;
    uint64_t n;
    pthread_t thread;
};

/* Each waits for values of its own, of one counter. */
static void *sleep_often(void *argument)
{
    struct sleeper *z = argument;
    uint64_t i;

    for (i = z->number + 1; i <= z->n; i += 1 + z->number) {
        CHECK_RET(unetmm_event_wait(z->s->counter[0], i,
                                    UNETMM_EVENT_BLOCK, PATIENCE_NS), 1);
        CHECK(unetmm_event_read(z->s->counter[0]) >= i);
    }
    return NULL;
}

TEST(sleepers, TEST_TLB | TEST_REMOTE)
{
    struct sleeper z[SLEEPERS];
    uint64_t n = rounds(200);
    struct writer w;
    struct scene s;
    unsigned i;

    scene_open(&s);
    for (i = 0; i < SLEEPERS; i++) {
        z[i] = (struct sleeper) { .s = &s, .number = i, .n = n };
        CHECK_EQ(pthread_create(&z[i].thread, NULL, sleep_often, &z[i]), 0);
    }
    writer_start(&w, &s, 0, n);
    for (i = 0; i < SLEEPERS; i++) {
        CHECK_EQ(pthread_join(z[i].thread, NULL), 0);
    }
    writer_end(&w);
    scene_close(&s);
}

/* Late values are not forgotten for early ones. */
TEST(late_and_early, TEST_TLB)
{
    struct sleeper z = { .number = 9, .n = 10 };
    struct writer w;
    struct scene s;
    uint64_t i;

    scene_open(&s);
    z.s = &s;
    CHECK_EQ(pthread_create(&z.thread, NULL, sleep_often, &z), 0);
    for (i = 1; i <= 10; i++) {
        CHECK_RET(unetmm_event_wait(s.counter[0], i, UNETMM_EVENT_BLOCK,
                                    (int64_t)NS_PER_MS), 0);
        writer_start(&w, &s, i - 1, 1);
        CHECK_RET(unetmm_event_wait(s.counter[0], i, UNETMM_EVENT_BLOCK,
                                    PATIENCE_NS), 1);
        writer_end(&w);
    }
    CHECK_EQ(pthread_join(z.thread, NULL), 0);
    scene_close(&s);
}

/* The descriptor that the library has of the card. */
static int card_descriptor(void)
{
    char path[64], target[64];
    int fd;

    for (fd = 3; fd < 64; fd++) {
        ssize_t n;

        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        n = readlink(path, target, sizeof(target) - 1);
        if (n > 0 && !strncmp(target, "/dev/unetmm", 11)) {
            return fd;
        }
    }
    FAIL("the library has no descriptor of the card");
}

/*
 * A value is reached while the counter is up to 2^63 - 1 past it, so one that the
 * counter leaves further behind is a value still to come.  A reached value stays
 * reached, and the card serves on: at each step the counter passes both the
 * value that somebody waits for and the end of the range of another one.
 */
TEST(far_behind, TEST_TLB | TEST_REMOTE)
{
    uint64_t value, n = rounds(30000), steps = 0;
    struct writer w;
    struct scene s;
    int fd;

    scene_open(&s);
    fd = card_descriptor();
    writer_start(&w, &s, 0, n);
    while ((value = unetmm_event_read(s.counter[0]) + 2) < n) {
        struct unetmm_event_arm arm = {
            .size = sizeof(arm), .value = value - 1 - INT64_MAX,
            .event_fd = unetmm_fd(s.one.ep),
        };
        struct unetmm_event_wait wait = {
            .size = sizeof(wait), .value = value,
        };
        int ret;

        CHECK_RET(raw_ioctl(fd, UNETMM_IOC_EVENT_ARM, &arm), 0);
        do {
            ret = raw_ioctl(fd, UNETMM_IOC_EVENT_WAIT, &wait);
        } while (ret == -EAGAIN);
        CHECK_RET(ret, 0);
        CHECK(wait.now >= value);
        steps++;
    }
    writer_end(&w);
    note("%llu steps", (unsigned long long)steps);
    CHECK(steps > 0);
    CHECK_EQ(unetmm_event_read(s.counter[0]), n);
    scene_close(&s);
}

/* ---- Limits, rights, ends --------------------------------------------------- */

TEST(limits, TEST_SOURCES)
{
    struct unetmm_event_counter *all[UNETMM_EVENT_COUNTERS], *more;
    struct unetmm_ctx *ctx = open_card(), *other = open_card();
    uint8_t *memory = pages(1);
    unsigned i;

    CHECK_RET(unetmm_event_create(ctx, 0, all), -EINVAL);
    CHECK_RET(unetmm_event_create(ctx, UNETMM_EVENT_COUNTERS + 1, all),
              -EINVAL);
    CHECK_RET(unetmm_event_create(ctx, UNETMM_EVENT_COUNTERS, all), 0);
    CHECK_RET(unetmm_event_create(ctx, 1, &more), -ENOSPC);
    for (i = 0; i < UNETMM_EVENT_COUNTERS; i++) {
        CHECK_EQ(unetmm_event_read(all[i]), 0);
    }
    CHECK_RET(unetmm_event_wait(all[7], 0, BOTH, 0), 1);
    CHECK_RET(unetmm_event_wait(all[7], UINT64_MAX, BOTH, 0), 1);
    CHECK_RET(unetmm_event_wait(all[7], 1, BOTH, 0), 0);
    CHECK_RET(unetmm_event_wait(all[7], 1, 0, 0), -EINVAL);
    CHECK_RET(unetmm_event_wait(all[7], 1, 4, 0), -EINVAL);
    CHECK_RET(unetmm_event_wait(all[7], 1, UNETMM_EVENT_SPIN, 1000), 0);
    CHECK_RET(unetmm_event_wait(all[7], 1, UNETMM_EVENT_BLOCK, 1000), 0);
    CHECK_RET(unetmm_event_wait(all[7], 1, BOTH, 100000), 0);
    CHECK_RET(unetmm_export_events(ctx, 1, memory, PAGE, 1, 0, 0, all[0],
                                   0), -EINVAL);
    CHECK_RET(unetmm_export_events(other, 1, memory, PAGE, 1, 0, 0, all[0],
                                   1), -EINVAL);
    CHECK_RET(unetmm_close(ctx), -EBUSY);
    if (run.source != UNETMM_SOURCE_KTLB) {
        CHECK_RET(unetmm_export_events(ctx, 1, memory, PAGE, 1, 0, 0,
                                       all[511], 2), -ENOENT);
        CHECK_RET(unetmm_export_events(ctx, 1, memory, PAGE, 1, 0, 0,
                                       all[510], 2), 0);
        CHECK_RET(unetmm_event_destroy(all[510]), -EBUSY);
        CHECK_RET(unetmm_unexport(ctx, 1), 0);
    }
    /* Two of which one is between others make no two in a row. */
    CHECK_RET(unetmm_event_destroy(all[3]), 0);
    CHECK_RET(unetmm_event_destroy(all[5]), 0);
    CHECK_RET(unetmm_event_create(ctx, 2, all), -ENOSPC);
    CHECK_RET(unetmm_event_create(ctx, 1, &all[3]), 0);
    CHECK_RET(unetmm_event_create(ctx, 1, &all[5]), 0);
    for (i = 0; i < UNETMM_EVENT_COUNTERS; i++) {
        CHECK_RET(unetmm_event_destroy(all[i]), 0);
    }
    CHECK_RET(unetmm_close(ctx), 0);
    CHECK_RET(unetmm_close(other), 0);
}

/* A counter that was not given is not changed; the write fails, the channel does not. */
TEST(not_given, TEST_EXPORT)
{
    static const uint32_t bad[] = { 2, 3, 511, 512, 0x10000, UINT32_MAX };
    struct unetmm_completion c;
    struct scene s;
    unsigned i;

    scene_open(&s);
    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        CHECK_RET(unetmm_write(s.one.ep, s.import, 0, "x", 1, bad[i], i,
                               UNETMM_COUNT), 0);
        take(&s.one, UNETMM_CQE_SENT, &c);
        CHECK_EQ(c.user_data, i);
        CHECK_EQ(c.status, UNETMM_ST_REMOTE_COUNTER);
    }
    CHECK_RET(unetmm_write(s.one.ep, s.import, 0, "x", 1, 0, 0,
                           UNETMM_COUNT | UNETMM_NOTIFY), -EINVAL);
    CHECK_EQ(s.slots[0], 0);
    for (i = 0; i < 3; i++) {
        CHECK_EQ(unetmm_event_read(s.counter[i]), 0);
    }
    CHECK_RET(unetmm_write_sync(s.one.ep, s.import, 0, "x", 1, 1, UNETMM_COUNT,
                                PATIENCE_NS), 0);
    CHECK_RET(unetmm_event_wait(s.counter[1], 1, BOTH, PATIENCE_NS), 1);
    CHECK_EQ(unetmm_event_read(s.counter[0]), 0);
    /* A number that was another's begins with nothing. */
    CHECK_RET(unetmm_unexport(s.ctx, ID), 0);
    CHECK_RET(unetmm_event_destroy(s.counter[1]), 0);
    CHECK_RET(unetmm_event_create(s.ctx, 1, &s.counter[1]), 0);
    CHECK_EQ(unetmm_event_read(s.counter[1]), 0);
    CHECK_RET(unetmm_write(s.one.ep, s.import, 0, "x", 1, 1, 8, UNETMM_COUNT),
              0);
    take(&s.one, UNETMM_CQE_SENT, &c);
    CHECK_EQ(c.status, UNETMM_ST_REVOKED);
    CHECK_EQ(unetmm_event_read(s.counter[1]), 0);
    CHECK_RET(unetmm_export_events(s.ctx, ID, s.slots, PAGE,
                                   UNETMM_RIGHT_ALL, 0, 0, s.counter[0],
                                   2), 0);
    scene_close(&s);
}

struct waiting {
    int fd;
    struct unetmm_event_wait wait;
};

static void *wait_for_end(void *argument)
{
    struct waiting *w = argument;

    CHECK_RET(raw_ioctl(w->fd, UNETMM_IOC_EVENT_WAIT, &w->wait), -ENOENT);
    return NULL;
}

/* A sleeping thread is told of the end, whenever it comes. */
TEST(destroyed, TEST_TLB)
{
    struct waiting w = { .fd = raw_open_space() };
    pthread_t thread;
    unsigned i;

    for (i = 0; i < rounds(50); i++) {
        struct unetmm_event event = { .size = sizeof(event), .count = 1 };

        CHECK_RET(raw_ioctl(w.fd, UNETMM_IOC_EVENT, &event), 0);
        w.wait = (struct unetmm_event_wait) {
            .size = sizeof(w.wait), .id = event.id, .value = 1,
            .deadline_ns = deadline_in(60),
        };
        CHECK_EQ(pthread_create(&thread, NULL, wait_for_end, &w), 0);
        idle_ns(i * 20000);
        CHECK_RET(raw_destroy(w.fd, UNETMM_OBJECT_EVENT, 0, event.id), 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
    }
    close(w.fd);
}

static void sleep_for_ever(void *argument)
{
    struct unetmm_event_counter *counter;
    struct unetmm_ctx *ctx = open_card();
    atomic_uint *ready = argument;

    CHECK_RET(unetmm_event_create(ctx, 1, &counter), 0);
    atomic_store(ready, 1);
    unetmm_event_wait(counter, 1, UNETMM_EVENT_BLOCK, -1);
    FAIL("it has been woken");
}

TEST(killed, TEST_TLB)
{
    atomic_uint *ready = shared_memory(sizeof(*ready));
    unsigned i;

    for (i = 0; i < rounds(10); i++) {
        pid_t pid = start_process(sleep_for_ever, ready);
        int status;

        EVENTUALLY(atomic_load(ready));
        idle_ns(i * 100000);
        CHECK_SYS(kill(pid, SIGKILL));
        status = await_process(pid);
        CHECK(WIFSIGNALED(status));
        atomic_store(ready, 0);
    }
}

/* A child has none of it, and does no harm. */
TEST(forked, TEST_TLB)
{
    struct unetmm_event_counter *more;
    struct writer w;
    struct scene s;
    pid_t pid;

    scene_open(&s);
    pid = fork();
    CHECK(pid >= 0);
    if (!pid) {
        CHECK_EQ(unetmm_event_read(s.counter[0]), 0);
        CHECK_RET(unetmm_event_wait(s.counter[0], 1, BOTH, 0), -EOWNERDEAD);
        CHECK_RET(unetmm_event_create(s.ctx, 1, &more), -EOWNERDEAD);
        CHECK_RET(unetmm_event_destroy(s.counter[2]), -EOWNERDEAD);
        CHECK_RET(unetmm_close(s.ctx), -EOWNERDEAD);
        _exit(0);
    }
    CHECK_EQ(await_process(pid), 0);
    writer_start(&w, &s, 0, 5);
    CHECK_RET(unetmm_event_wait(s.counter[0], 5, BOTH, PATIENCE_NS), 1);
    writer_end(&w);
    scene_close(&s);
}

/* The page is the card's: nobody here can write to it. */
TEST(read_only, TEST_TLB)
{
    struct unetmm_ctx *ctx = open_card();
    struct unetmm_event_counter *counter;
    uintptr_t page;

    CHECK_RET(unetmm_event_create(ctx, 1, &counter), 0);
    page = (uintptr_t)counter->word & ~(uintptr_t)(PAGE - 1);
    CHECK(mprotect((void *)page, PAGE, PROT_READ | PROT_WRITE) < 0);
    CHECK(mprotect((void *)page, PAGE, PROT_READ | PROT_EXEC) < 0);
    CHECK_RET(unetmm_event_destroy(counter), 0);
    CHECK_RET(unetmm_close(ctx), 0);
}

/* ---- A wire that misbehaves ------------------------------------------------- */

TEST(bad_wire, TEST_TLB | TEST_ONLY_REMOTE, 60)
{
    static const char *const knobs[] = { "x-loss", "x-dup", "x-reorder",
                                         "x-corrupt", "x-delay" };
    struct scene s;
    unsigned i;

    scene_open(&s);
    ask_host("set x-seed %llu", (unsigned long long)(run.seed & INT64_MAX));
    for (i = 0; i < 5; i++) {
        ask_host("set %s 30000", knobs[i]);
    }
    wait_as(&s, BOTH);
    for (i = 0; i < 5; i++) {
        ask_host("set %s 0", knobs[i]);
    }
    scene_close(&s);
}
