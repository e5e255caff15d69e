/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Source utlb: pages that the library pins ahead, under a quota; changes of memory
 * under it; and refusals of the driver's calls.
 */
#include "card.h"
#include "guard.h"
#include "link.h"
#include "pattern.h"
#include "raw.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define QUOTA_FILE      "/sys/module/unetmm/parameters/utlb_quota_pages"
#define DEFAULT_QUOTA   "65536"

static struct unetmm_utlb_stats stats_of(struct unetmm_ctx *ctx)
{
    struct unetmm_utlb_stats stats = { .size = sizeof(stats) };

    CHECK_RET(unetmm_utlb_stats(ctx, &stats), 0);
    CHECK(stats.pinned_now <= stats.quota_pages);
    CHECK_EQ(stats.pinned_pages - stats.evicted - stats.lost,
             stats.pinned_now);
    return stats;
}

static struct unetmm_ctx *open_with(const char *policy, uint32_t quota,
                                    uint32_t prepin)
{
    struct unetmm_utlb_config config = {
        .size = sizeof(config), .quota_pages = quota, .prepin = prepin,
        .policy = policy ? unetmm_utlb_policy(policy) : NULL,
    };
    struct unetmm_ctx *ctx = open_card();

    CHECK_RET(unetmm_utlb_configure(ctx, &config), 0);
    return ctx;
}

static void close_card(struct unetmm_ctx *ctx)
{
    CHECK_RET(unetmm_close(ctx), 0);
}

/* ---- A working set ------------------------------------------------------------------- */

struct set {
    struct link link;
    uint8_t *memory;            /* half to send from, half to receive in */
    unsigned npages;
    struct chance chance;
    uint64_t key;
};

static void set_open(struct set *set, struct unetmm_ctx *ctx, unsigned npages,
                     uint64_t stream)
{
    struct unetmm_ep_attr attr = default_attr();

    attr.spin_ns = UNETMM_SPIN_FOREVER;
    link_open(&set->link, ctx, &attr);
    set->memory = pages(npages);
    set->npages = npages;
    set->key = stream << 32;
    chance_init(&set->chance, stream);
}

static void set_close(struct set *set)
{
    unmap_pages(set->memory, set->npages);
    link_close(&set->link);
}

/* Somewhere in one half: room for a message of some length. */
static uint8_t *somewhere(struct set *set, bool to, size_t len)
{
    size_t half = set->npages / 2 * PAGE;

    return set->memory + (to ? half : 0) +
        chance_below(&set->chance, (uint32_t)(half - len));
}

static void exchange_one(struct set *set)
{
    size_t len = UNETMM_CQE_INLINE + 1 +
        chance_below(&set->chance, set->link.tx->mtu - UNETMM_CQE_INLINE - 1);
    uint8_t *from = somewhere(set, false, len);
    uint8_t *to = somewhere(set, true, len);

    exchange_pattern(&set->link, from, to, len, ++set->key);
}

/* There and back: each end sends from and receives into all of its memory. */
static void exchange_some(struct set *set, unsigned n)
{
    unsigned i;

    for (i = 0; i < n; i++) {
        exchange_one(set);
        if (!run.remote) {
            struct station *tx = set->link.tx;

            set->link.tx = set->link.rx;
            set->link.rx = tx;
        }
    }
}

TEST(quota, TEST_UTLB, 60)
{
    static const char *const names[] = { "lru", "mru", "fifo", "random",
                                         "lfu" };
    unsigned i;

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct unetmm_ctx *ctx = open_with(names[i], 24, 4);
        uint64_t before = driver_counter(ctx, UNETMM_D_pinned_now);
        struct unetmm_utlb_stats stats;
        struct set set;

        set_open(&set, ctx, 128, i);
        exchange_some(&set, rounds(150));
        stats = stats_of(ctx);
        CHECK_EQ(stats.quota_pages, 24);
        CHECK(stats.evicted > 100 / run.slow);
        CHECK_EQ(driver_counter(ctx, UNETMM_D_pinned_now) - before,
                 stats.pinned_now);
        CHECK_EQ(stats.lost, 0);
        CHECK_EQ(stats.repeated, 0);
        note("%s: %llu pinned, %llu evicted, %llu and %llu calls", names[i],
             (unsigned long long)stats.pinned_pages,
             (unsigned long long)stats.evicted,
             (unsigned long long)stats.pin_calls,
             (unsigned long long)stats.unpin_calls);
        set_close(&set);
        close_card(ctx);
    }
}

static void link_again(struct set *set, struct unetmm_ctx *ctx)
{
    struct unetmm_ep_attr attr = default_attr();

    link_close(&set->link);
    attr.spin_ns = UNETMM_SPIN_FOREVER;
    link_open(&set->link, ctx, &attr);
}

/*
 * Without an endpoint nothing is pinned, and the library knows: the first
 * message of the next one finds its pages, or it would be lost.
 */
TEST(last_endpoint, TEST_UTLB)
{
    struct unetmm_ctx *ctx = open_with(NULL, 64, 16);
    uint64_t before = driver_counter(ctx, UNETMM_D_pinned_now);
    struct set set;
    unsigned i;

    set_open(&set, ctx, 16, 5);
    for (i = 0; i < 3; i++) {
        exchange_some(&set, rounds(10));
        link_again(&set, ctx);
        EVENTUALLY(driver_counter(ctx, UNETMM_D_pinned_now) == before);
    }
    exchange_some(&set, rounds(10));
    CHECK_EQ(stats_of(ctx).repeated, 0);
    set_close(&set);
    close_card(ctx);
}

/* All is pinned: no call, no miss that anybody is asked for, no interrupt. */
TEST(steady, TEST_UTLB)
{
    struct unetmm_ctx *ctx = open_with(NULL, 0, 0);
    uint64_t calls, faults, heads, served, interrupts, fetched;
    struct unetmm_utlb_stats before, after;
    struct set set;
    unsigned i;

    set_open(&set, ctx, 256, 1);
    for (i = 0; i < 256; i++) {
        exchange_pattern(&set.link, set.memory + i % 128 * PAGE,
                         set.memory + (128 + i % 128) * PAGE, PAGE, i);
    }
    before = stats_of(ctx);
    calls = driver_counter(ctx, UNETMM_D_utlb_calls);
    faults = card_counter(ctx, UNETMM_C_faults_send);
    heads = card_counter(ctx, UNETMM_C_faults_head);
    served = driver_counter(ctx, UNETMM_D_faults);
    interrupts = card_counter(ctx, UNETMM_C_interrupts);
    fetched = card_counter(ctx, UNETMM_C_utlb_fetched);
    exchange_some(&set, rounds(400));
    after = stats_of(ctx);
    CHECK_EQ(after.pin_calls, before.pin_calls);
    CHECK_EQ(after.unpin_calls, before.unpin_calls);
    CHECK_EQ(driver_counter(ctx, UNETMM_D_utlb_calls), calls);
    CHECK_EQ(card_counter(ctx, UNETMM_C_faults_send), faults);
    CHECK_EQ(card_counter(ctx, UNETMM_C_faults_head), heads);
    CHECK_EQ(driver_counter(ctx, UNETMM_D_faults), served);
    CHECK_EQ(card_counter(ctx, UNETMM_C_interrupts), interrupts);
    note("%llu entries fetched meanwhile",
         (unsigned long long)(card_counter(ctx, UNETMM_C_utlb_fetched) -
                              fetched));
    set_close(&set);
    close_card(ctx);
}

/* The driver's limit is below the library's quota, and changes. */
TEST(lower_limit, TEST_UTLB)
{
    struct unetmm_ctx *ctx = open_with(NULL, 64, 8);
    struct set set;

    set_open(&set, ctx, 128, 2);
    exchange_some(&set, rounds(50));
    CHECK_RET(write_file(QUOTA_FILE, "12"), 0);
    exchange_some(&set, rounds(50));
    CHECK(stats_of(ctx).pinned_now <= 12);
    CHECK_RET(write_file(QUOTA_FILE, DEFAULT_QUOTA), 0);
    exchange_some(&set, rounds(50));
    CHECK(stats_of(ctx).pinned_now > 12);
    set_close(&set);
    close_card(ctx);
}

/* More than may be pinned at all: said by the completion. */
TEST(too_much, TEST_UTLB)
{
    struct unetmm_ctx *ctx = open_with(NULL, 3, 1);
    uint8_t *at = pages(8);
    struct unetmm_completion c;
    struct link link;

    link_open(&link, ctx, NULL);
    CHECK_EQ(send_status(link.tx, at + 1, 2 * PAGE + 2), UNETMM_ST_OK);
    CHECK(link.tx->mtu > 2 * PAGE + 100);
    CHECK_EQ(send_status(link.tx, at + PAGE - 1, 2 * PAGE + 2),
             UNETMM_ST_LIMIT);
    /* A posted buffer has its pages, and leaves the rest to the others. */
    post(link.rx, at, 2 * PAGE, 7);
    CHECK_EQ(send_status(link.tx, at + 5 * PAGE, 100 + PAGE),
             UNETMM_ST_LIMIT);
    CHECK_EQ(send_status(link.tx, at + 5 * PAGE, 100), UNETMM_ST_OK);
    CHECK_EQ(send_status(link.tx, at + PAGE + 1, 300), UNETMM_ST_OK);
    post(link.rx, at + 4 * PAGE, 4 * PAGE, 8);
    while (!take_now(link.rx, UNETMM_CQE_BUFFER, &c)) {
        struct iovec iov = { at, 300 };

        deliver(&link, &iov, 1, &c);
    }
    CHECK_EQ(c.user_data, 8);
    CHECK_EQ(c.status, UNETMM_ST_LIMIT);
    unmap_pages(at, 8);
    link_close(&link);
    close_card(ctx);
}

/* ---- Memory changes -------------------------------------------------------------------- */

static void in_child(uint8_t *at, size_t bytes)
{
    pid_t pid = fork();

    CHECK(pid >= 0);
    if (!pid) {
        memset(at, 0xcc, bytes);
        _exit(0);
    }
    CHECK_EQ(await_process(pid), 0);
}

/* Each way in which [at, + n pages) becomes other memory, or is looked at. */
static void change(unsigned way, uint8_t *at, unsigned n)
{
    const int rw = PROT_READ | PROT_WRITE;
    const int fixed = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    void *other;

    switch (way) {
    case 0:
        CHECK_SYS(munmap(at, n * PAGE));
        /* Fall through: the same address, other memory. */
        __attribute__((fallthrough));
    case 1:
        CHECK(mmap(at, n * PAGE, rw, fixed, -1, 0) == at);
        break;
    case 2:
        CHECK_SYS(madvise(at, n * PAGE, MADV_DONTNEED));
        break;
    case 3:
        CHECK_SYS(mprotect(at, n * PAGE, PROT_READ));
        CHECK_SYS(mprotect(at, n * PAGE, rw));
        break;
    case 4:
        in_child(at, n * PAGE);
        break;
    default:
        other = pages(n);
        memset(other, 0x77, n * PAGE);
        CHECK(mremap(other, n * PAGE, n * PAGE,
                     MREMAP_MAYMOVE | MREMAP_FIXED, at) == at);
        break;
    }
}
#define WAYS    6

TEST(changes, TEST_UTLB, 60)
{
    struct unetmm_ctx *ctx = open_with(NULL, 48, 4);
    struct unetmm_utlb_stats stats;
    struct set set;
    unsigned i;

    set_open(&set, ctx, 64, 3);
    for (i = 0; i < rounds(120); i++) {
        unsigned first = chance_below(&set.chance, 56);

        exchange_some(&set, 2);
        change(i % WAYS, set.memory + first * PAGE,
               1 + chance_below(&set.chance, 8));
    }
    stats = stats_of(ctx);
    CHECK(stats.lost > 0);
    note("%llu lost, %llu repeated", (unsigned long long)stats.lost,
         (unsigned long long)stats.repeated);
    set_close(&set);
    close_card(ctx);
}

/* A buffer that is posted already, in each way; the message must land in the
 * present memory, and no completion be seen but its own. */
TEST(changes_under_posted, TEST_UTLB)
{
    struct unetmm_ctx *ctx = open_with(NULL, 48, 4);
    uint8_t *from = pages(2), *to = pages(3);
    struct unetmm_completion c;
    struct iovec iov = { from, 2 * PAGE };
    uint64_t repeated = 0;
    struct link link;
    unsigned way;

    link_open(&link, ctx, NULL);
    for (way = 0; way < 2 * WAYS; way++) {
        unsigned tries = 0;

        pattern_fill(from, 2 * PAGE, way, 0);
        memset(to, 1, 3 * PAGE);
        post(link.rx, to + 10, 2 * PAGE, way);
        change(way % WAYS, to + way / WAYS * PAGE, 1);
        while (!deliver(&link, &iov, 1, &c)) {
            CHECK(++tries < 1000);
        }
        CHECK_EQ(c.user_data, way);
        CHECK_PATTERN(to + 10, 2 * PAGE, way);
        CHECK(!take_now(link.rx, UNETMM_CQE_BUFFER, &c));
    }
    repeated = stats_of(ctx).repeated;
    CHECK(repeated > 0);
    unmap_pages(from, 2);
    unmap_pages(to, 3);
    link_close(&link);
    close_card(ctx);
}

/* Pages that are gone are the program's error, until they are there again. */
TEST(gone, TEST_UTLB)
{
    struct unetmm_ctx *ctx = open_with(NULL, 0, 0);
    uint8_t *at = pages(4);
    struct link link;

    link_open(&link, ctx, NULL);
    CHECK_EQ(send_status(link.tx, at, 3 * PAGE / 2), UNETMM_ST_OK);
    CHECK_SYS(munmap(at + PAGE, PAGE));
    CHECK_EQ(send_status(link.tx, at, 3 * PAGE / 2), UNETMM_ST_PROTECTION);
    post(link.rx, at + 100, PAGE, 5);
    CHECK_EQ(provoke_return(&link, NULL, at + 100, PAGE, 5), UNETMM_ST_PROTECTION);
    CHECK_EQ(send_status(link.tx, at, PAGE), UNETMM_ST_OK);
    change(1, at + PAGE, 1);
    CHECK_EQ(send_status(link.tx, at, 3 * PAGE / 2), UNETMM_ST_OK);
    CHECK_SYS(mprotect(at, PAGE, PROT_READ));
    CHECK_EQ(send_status(link.tx, at, PAGE), UNETMM_ST_OK);
    post(link.rx, at, PAGE, 6);
    CHECK_EQ(provoke_return(&link, NULL, at, PAGE, 6), UNETMM_ST_PROTECTION);
    unmap_pages(at, 4);
    link_close(&link);
    close_card(ctx);
}

/* ---- Races ------------------------------------------------------------------------------ */

struct rival {
    pthread_t thread;
    atomic_bool stop;
    atomic_uint rounds;
    uint8_t *at;                /* NULL: forks */
};

/* Forks, which take no pin away, whatever uses it just then. */
static void *rival_thread(void *argument)
{
    struct rival *rival = argument;

    while (!atomic_load(&rival->stop)) {
        if (rival->at) {
            change(3, rival->at, 4);
            change(2, rival->at + 4 * PAGE, 4);
        } else {
            pid_t pid = fork();

            CHECK(pid >= 0);
            if (!pid) {
                _exit(0);
            }
            CHECK_EQ(await_process(pid), 0);
        }
        atomic_fetch_add(&rival->rounds, 1);
    }
    return NULL;
}

/* Until it has met pages in use, once at least; but for forks. */
static void race_with(struct rival *rival, struct unetmm_ctx *ctx,
                      struct set *set)
{
    unsigned i, n = rounds(8), start, enough = run.slow > 1 ? 1 : 3;

    CHECK_EQ(pthread_create(&rival->thread, NULL, rival_thread, rival), 0);
    for (i = 0; i < n || (rival->at && !stats_of(ctx).lost && i < 100 * n);
         i++) {
        start = atomic_load(&rival->rounds);
        do {
            exchange_some(set, 5);
            /* The pages that it takes away have been pinned. */
            if (rival->at) {
                CHECK_EQ(send_status(set->link.tx, rival->at + i % 8 * PAGE,
                                     300), UNETMM_ST_OK);
            }
        } while (atomic_load(&rival->rounds) - start < enough);
    }
    atomic_store(&rival->stop, true);
    CHECK_EQ(pthread_join(rival->thread, NULL), 0);
}

TEST(race_fork, TEST_UTLB, 60)
{
    struct unetmm_ctx *ctx = open_with(NULL, 48, 4);
    struct rival rival = { .at = NULL };
    struct unetmm_utlb_stats stats;
    struct set set;

    set_open(&set, ctx, 64, 4);
    race_with(&rival, ctx, &set);
    stats = stats_of(ctx);
    note("%u forks", atomic_load(&rival.rounds));
    CHECK_EQ(stats.lost, 0);
    CHECK_EQ(stats.repeated, 0);
    set_close(&set);
    close_card(ctx);
}

/* Pages right beside those that are used, pinned with them. */
TEST(race_beside, TEST_UTLB, 60)
{
    struct unetmm_ctx *ctx = open_with(NULL, 40, 32);
    struct rival rival = { .at = NULL };
    struct set set;

    set_open(&set, ctx, 72, 5);
    set.npages = 64;
    rival.at = set.memory + 64 * PAGE;
    race_with(&rival, ctx, &set);
    CHECK(stats_of(ctx).lost > 0);
    set.npages = 72;
    set_close(&set);
    close_card(ctx);
}

struct worker {
    pthread_t thread;
    struct unetmm_ctx *ctx;
    unsigned number;
};

static void *worker_thread(void *argument)
{
    struct worker *worker = argument;
    struct set set;

    set_open(&set, worker->ctx, 48, 10 + worker->number);
    exchange_some(&set, rounds(60));
    set_close(&set);
    return NULL;
}

/* Endpoints of several threads under one quota. */
TEST(threads, TEST_UTLB, 60)
{
    struct unetmm_ctx *ctx = open_with("lru", 40, 4);
    struct worker workers[3];
    unsigned i;

    for (i = 0; i < 3; i++) {
        workers[i] = (struct worker) { .ctx = ctx, .number = i };
        CHECK_EQ(pthread_create(&workers[i].thread, NULL, worker_thread,
                                &workers[i]), 0);
    }
    for (i = 0; i < 3; i++) {
        CHECK_EQ(pthread_join(workers[i].thread, NULL), 0);
    }
    CHECK(stats_of(ctx).evicted > 0);
    close_card(ctx);
}

/* ---- The end of a process ------------------------------------------------------------- */

static void pin_and_leave(void *argument)
{
    struct unetmm_ctx *ctx = open_with(NULL, 0, 64);
    unsigned *pinned = argument;
    uint8_t *from = pages(64);
    struct link link;

    /* Only pages that the process uses are pinned ahead. */
    memset(from, 1, 64 * PAGE);
    link_open(&link, ctx, NULL);
    post(link.rx, pages(4), 4 * PAGE, 1);
    CHECK_EQ(send_status(link.tx, from, 1000), UNETMM_ST_OK);
    *pinned = stats_of(ctx).pinned_now;
    _exit(0);
}

TEST(exits, TEST_UTLB)
{
    unsigned *pinned = shared_memory(sizeof(*pinned));
    struct unetmm_ctx *ctx = NULL;
    uint64_t before;

    CHECK_RET(unetmm_open(NULL, UNETMM_OBSERVE, &ctx), 0);
    before = driver_counter(ctx, UNETMM_D_pinned_now);
    end_process(start_process(pin_and_leave, pinned));
    CHECK(*pinned >= 64);
    EVENTUALLY(driver_counter(ctx, UNETMM_D_pinned_now) == before);
    CHECK_RET(unetmm_close(ctx), 0);
}

/* ---- The driver's calls ------------------------------------------------------------------ */

static int pin_call(int fd, const void *at, uint32_t npages, unsigned flags,
                    uint32_t *done)
{
    struct unetmm_utlb arg = {
        .size = sizeof(arg), .flags = flags, .addr = (uintptr_t)at,
        .npages = npages,
    };
    int ret = raw_ioctl(fd, UNETMM_IOC_UTLB_PIN, &arg);

    *done = arg.done;
    return ret;
}

static int unpin_call(int fd, const void *at, uint32_t npages, uint32_t *done)
{
    struct unetmm_utlb arg = {
        .size = sizeof(arg), .addr = (uintptr_t)at, .npages = npages,
    };
    int ret = raw_ioctl(fd, UNETMM_IOC_UTLB_UNPIN, &arg);

    *done = arg.done;
    return ret;
}

/* One page that is named, and pages ahead of it. */
static uint32_t pin_ahead(int fd, const void *at, uint32_t ahead, unsigned flags)
{
    struct unetmm_utlb arg = {
        .size = sizeof(arg), .flags = flags, .addr = (uintptr_t)at,
        .npages = 1, .ahead = ahead,
    };

    CHECK_RET(raw_ioctl(fd, UNETMM_IOC_UTLB_PIN, &arg), 0);
    return arg.done;
}

/* As far as the pages are mapped as wanted, in the same mapping. */
TEST(ahead, TEST_UTLB)
{
    int fd = raw_open_space();
    uint8_t *at = CHECK_SYS(mmap(NULL, 600 * PAGE, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    uint8_t *last = CHECK_SYS(mmap((void *)0x7fffffffe000, PAGE,
                                   PROT_READ | PROT_WRITE, MAP_PRIVATE |
                                   MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
    uint32_t done;

    memset(at, 1, 5 * PAGE);
    CHECK_EQ(pin_ahead(fd, at, 15, UNETMM_REGION_WRITE), 5);
    /* Pinned pages count, and the page behind them is still not there. */
    CHECK_EQ(pin_ahead(fd, at, 15, UNETMM_REGION_WRITE), 5);
    CHECK_EQ(pin_ahead(fd, at + 5 * PAGE, 15, UNETMM_REGION_WRITE), 1);
    memset(at, 1, 600 * PAGE);
    CHECK_SYS(mprotect(at + 20 * PAGE, PAGE, PROT_READ));
    CHECK_EQ(pin_ahead(fd, at + 12 * PAGE, 15, UNETMM_REGION_WRITE), 8);
    CHECK_EQ(pin_ahead(fd, at + 20 * PAGE, 15, 0), 1);
    CHECK_EQ(pin_ahead(fd, at + 21 * PAGE, UINT32_MAX, 0), 512);
    CHECK_EQ(pin_ahead(fd, last, UINT32_MAX, 0), 1);
    /* Limits are those of the named pages. */
    CHECK_RET(write_file(QUOTA_FILE, "3"), 0);
    CHECK_RET(unpin_call(fd, at, 600, &done), 0);
    CHECK_RET(unpin_call(fd, last, 1, &done), 0);
    CHECK_EQ(pin_ahead(fd, at, 15, 0), 3);
    CHECK_RET(write_file(QUOTA_FILE, DEFAULT_QUOTA), 0);
    close(fd);
    CHECK_SYS(munmap(at, 600 * PAGE));
    CHECK_SYS(munmap(last, PAGE));
}

TEST(pinning, TEST_UTLB)
{
    int fd = raw_open_space();
    struct unetmm_ctx *ctx = NULL;
    uint8_t *at = pages(600);
    uint64_t before;
    uint32_t done;

    CHECK_RET(unetmm_open(NULL, UNETMM_OBSERVE, &ctx), 0);
    before = driver_counter(ctx, UNETMM_D_pinned_now);
#define PINNED() (driver_counter(ctx, UNETMM_D_pinned_now) - before)
    CHECK_RET(pin_call(fd, at, 4, 0, &done), 0);
    CHECK_EQ(done, 4);
    CHECK_EQ(PINNED(), 4);
    /* Overlapping ones, and again: nothing is pinned twice. */
    CHECK_RET(pin_call(fd, at + 2 * PAGE, 4, UNETMM_REGION_WRITE, &done), 0);
    CHECK_EQ(done, 4);
    CHECK_RET(pin_call(fd, at, 6, 0, &done), 0);
    CHECK_EQ(done, 6);
    EVENTUALLY(PINNED() == 6);
    CHECK_RET(unpin_call(fd, at + PAGE, 2, &done), 0);
    CHECK_EQ(done, 2);
    CHECK_EQ(PINNED(), 4);
    CHECK_RET(unpin_call(fd, at + PAGE, 2, &done), 0);
    CHECK_EQ(done, 0);
    /* As many as possible, and no more than 512 at a time. */
    CHECK_RET(pin_call(fd, at, 600, 0, &done), 0);
    CHECK_EQ(done, 512);
    CHECK_EQ(PINNED(), 512);
    CHECK_RET(unpin_call(fd, at, 600, &done), 0);
    CHECK_EQ(done, 512);
    CHECK_EQ(PINNED(), 0);
    /* As many pages as can be said, from where there is nothing. */
    CHECK_RET(unpin_call(fd, NULL, UINT32_MAX, &done), 0);
    CHECK_EQ(done, 0);
    CHECK_RET(pin_call(fd, NULL, UINT32_MAX, 0, &done), -EFAULT);
    /* Up to where memory ends. */
    CHECK_SYS(munmap(at + 9 * PAGE, PAGE));
    CHECK_RET(pin_call(fd, at, 100, 0, &done), 0);
    CHECK_EQ(done, 9);
    CHECK_RET(pin_call(fd, at + 9 * PAGE, 1, 0, &done), -EFAULT);
    CHECK_SYS(mprotect(at, PAGE, PROT_READ));
    CHECK_RET(pin_call(fd, at, 1, UNETMM_REGION_WRITE, &done), -EFAULT);
    CHECK_RET(pin_call(fd, at, 1, 0, &done), 0);
    close(fd);
    EVENTUALLY(PINNED() == 0);
#undef PINNED
    CHECK_RET(unetmm_close(ctx), 0);
}

TEST(refused_calls, TEST_UTLB)
{
    /* The first page that is no process's */
#ifdef __x86_64__
    void *const beyond = (void *)0x7ffffffff000;
#else
    void *const beyond = (void *)(1ul << 48);
#endif
    int fd = raw_open_space(), other;
    uint8_t *at = pages(8);
    uint32_t done;

    CHECK_RET(pin_call(fd, at, 0, 0, &done), -EINVAL);
    CHECK_RET(pin_call(fd, at + 1, 1, 0, &done), -EINVAL);
    CHECK_RET(pin_call(fd, at + 8, 1, 0, &done), -EINVAL);
    CHECK_RET(pin_call(fd, (void *)-PAGE, 1, 0, &done), -EINVAL);
    CHECK_RET(pin_call(fd, (void *)-PAGE, 2, 0, &done), -EINVAL);
    CHECK_RET(pin_call(fd, beyond, 1, 0, &done), -EINVAL);
    CHECK_RET(pin_call(fd, (void *)0xffff888000000000, 1, 0, &done), -EINVAL);
    CHECK_RET(pin_call(fd, NULL, 1, 0, &done), -EFAULT);
    CHECK_RET(unpin_call(fd, at, 0, &done), -EINVAL);
    CHECK_RET(unpin_call(fd, at + 1, 1, &done), -EINVAL);
    CHECK_RET(unpin_call(fd, (void *)-PAGE, 2, &done), -EINVAL);
    other = raw_open_file();
    CHECK_RET(pin_call(other, at, 1, 0, &done), -EINVAL);
    close(other);
    run.source = UNETMM_SOURCE_TLB;
    other = raw_open_space();
    run.source = UNETMM_SOURCE_UTLB;
    CHECK_RET(pin_call(other, at, 1, 0, &done), -EOPNOTSUPP);
    CHECK_RET(unpin_call(other, at, 1, &done), -EOPNOTSUPP);
    close(other);
    /* The driver's quota */
    CHECK_RET(write_file(QUOTA_FILE, "3"), 0);
    CHECK_RET(pin_call(fd, at, 8, 0, &done), 0);
    CHECK_EQ(done, 3);
    CHECK_RET(pin_call(fd, at + 3 * PAGE, 1, 0, &done), -EDQUOT);
    /* A right is added to a page that has its place. */
    CHECK_RET(pin_call(fd, at, 1, UNETMM_REGION_WRITE, &done), 0);
    CHECK_RET(write_file(QUOTA_FILE, DEFAULT_QUOTA), 0);
    close(fd);
}

/* Ranges that the notifier takes away are in the log, and no others. */
TEST_NAMED("log", the_log, TEST_UTLB)
{
    struct unetmm_space space = { .size = sizeof(space), .source = run.source };
    const struct unetmm_utlb_log *log;
    uint8_t *at = pages(16);
    int fd = raw_open_file();
    uint64_t seq;
    uint32_t done;
    unsigned i;

    CHECK_RET(raw_ioctl(fd, UNETMM_IOC_SPACE, &space), 0);
    CHECK_EQ(space.log_bytes, sizeof(*log));
    CHECK(space.quota_pages > 0);
    CHECK(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
               (off_t)space.log_map) == MAP_FAILED);
    CHECK(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd,
               (off_t)space.log_map) == MAP_FAILED);
    CHECK(mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, fd,
               (off_t)space.log_map) == MAP_FAILED);
    log = CHECK_SYS(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd,
                         (off_t)space.log_map));
    CHECK(mprotect((void *)(uintptr_t)log, PAGE, PROT_READ | PROT_WRITE) < 0);
    seq = __atomic_load_n(&log->seq, __ATOMIC_ACQUIRE);
    CHECK_EQ(seq, 0);
    CHECK_RET(pin_call(fd, at, 8, UNETMM_REGION_WRITE, &done), 0);
    CHECK_RET(unpin_call(fd, at, 2, &done), 0);
    /* Memory that is not pinned */
    CHECK_SYS(madvise(at, 2 * PAGE, MADV_DONTNEED));
    unmap_pages(at + 12 * PAGE, 4);
    CHECK_EQ(__atomic_load_n(&log->seq, __ATOMIC_ACQUIRE), 0);
    /* Pages that may be there again are looked for, before they are logged. */
    CHECK_SYS(madvise(at + PAGE, 3 * PAGE, MADV_DONTNEED));
    EVENTUALLY(__atomic_load_n(&log->seq, __ATOMIC_ACQUIRE) == 1);
    CHECK_EQ(log->ranges[0].start, (uintptr_t)at + 2 * PAGE);
    CHECK_EQ(log->ranges[0].last, (uintptr_t)at + 4 * PAGE - 1);
    for (i = 1; i < 2 * UNETMM_UTLB_LOG_RANGES; i++) {
        CHECK_RET(pin_call(fd, at + PAGE, 1, 0, &done), 0);
        if (i % 8) {
            unmap_pages(at + PAGE, 1);
            CHECK_EQ(__atomic_load_n(&log->seq, __ATOMIC_ACQUIRE), i + 1);
            CHECK(mmap(at + PAGE, PAGE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
                  at + PAGE);
        } else {
            CHECK_SYS(madvise(at + PAGE, PAGE, MADV_DONTNEED));
            EVENTUALLY(__atomic_load_n(&log->seq, __ATOMIC_ACQUIRE) == i + 1);
        }
        CHECK_EQ(log->ranges[i % UNETMM_UTLB_LOG_RANGES].last,
                 (uintptr_t)at + 2 * PAGE - 1);
    }
    close(fd);
    /* It outlives the space. */
    CHECK_EQ(log->seq, i);
    CHECK_SYS(munmap((void *)(uintptr_t)log, PAGE));
}

/* ---- Addresses that are not pinned --------------------------------------------------- */

static void send_raw(struct raw *raw, unsigned channel, uint64_t addr,
                     uint32_t len, uint8_t status)
{
    struct unetmm_sqe *sqe = raw_sqe(raw, raw->sq_prod);
    struct unetmm_cqe cqe;

    *sqe = (struct unetmm_sqe) {
        .opcode = UNETMM_OP_SEND, .nsegs = 1, .channel = (uint16_t)channel,
        .cookie = addr,
    };
    sqe->seg[0] = (struct unetmm_seg) { .addr = addr, .len = len };
    raw->sq_prod++;
    raw_submit(raw);
    do {
        raw_await(raw, &cqe);
    } while (cqe.opcode != UNETMM_CQE_SENT);
    CHECK_EQ(cqe.cookie, addr);
    CHECK_EQ(cqe.status, status);
}

/*
 * Addresses of another space, where they are pinned and cached with their
 * neighbours; of nobody; of the kernel; at random.
 */
TEST(forged, TEST_UTLB)
{
    unsigned out, in, other_out, other_in, i;
    uint8_t *at = pages(16);
    struct raw mine, others;
    struct chance chance;
    uint32_t done;

    raw_open(&mine);
    raw_join_itself(&mine, &out, &in);
    raw_open(&others);
    raw_join_itself(&others, &other_out, &other_in);
    chance_init(&chance, 1);
    memset(at, 5, 16 * PAGE);
    CHECK_RET(pin_call(others.fd, at, 16, UNETMM_REGION_WRITE, &done), 0);
    CHECK_RET(pin_call(mine.fd, at + 7 * PAGE, 1, 0, &done), 0);
    for (i = 0; i < 16; i++) {
        uint64_t addr = (uintptr_t)at + i * PAGE;

        send_raw(&others, other_out, addr, 1000, UNETMM_ST_OK);
        send_raw(&mine, out, addr, 1000, i == 7 ? UNETMM_ST_OK :
                 UNETMM_ST_PROTECTION);
    }
    send_raw(&mine, out, (uintptr_t)at + 7 * PAGE + 4000, 100,
             UNETMM_ST_PROTECTION);
    for (i = 0; i < rounds(500); i++) {
        uint64_t addr = chance_u64(&chance) >> chance_below(&chance, 64);

        if (addr - ((uintptr_t)at + 6 * PAGE) > 2 * PAGE) {
            send_raw(&mine, out, addr, 500, UNETMM_ST_PROTECTION);
        }
    }
    raw_close(&mine);
    raw_close(&others);
}
