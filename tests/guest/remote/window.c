/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Automatic update and user-level DMA start: a peer's memory, written without
 * descriptors.
 *
 * Local: the memory that is exported is looked at.  Remote: it is read back from
 * the other guest's echo.
 */
#include "ask.h"
#include "card.h"
#include "guard.h"
#include "link.h"
#include "process.h"

#include <linux/capability.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#define ID              78
#define WINDOW          ((size_t)4 * PAGE)
#define ALL             UNETMM_RIGHT_ALL

struct scene {
    struct unetmm_ctx *ctx;
    struct station one, two;
    uint8_t *exported;          /* local */
    uint8_t *read;              /* remote: read back from it */
    uint8_t *model;             /* its expected contents */
    unsigned import;
};

static const struct unetmm_channel_attr usual = UNETMM_CHANNEL_ATTR_INIT;

static void scene_connect(struct scene *s)
{
    int ret;

    if (!run.remote) {
        CHECK_RET(try_join(&s->one, &s->two, &usual, 10 * NS_PER_S * run.slow),
                  0);
        return;
    }
    ret = unetmm_connect_ex(s->one.ep, run.peer, SERVICE_MIRROR,
                            20 * NS_PER_S * run.slow, &usual, NULL);
    if (ret < 0) {
        FAIL("cannot reach the other guest: %s",
             unetmm_strerror(ret, UNETMM_CALL_CONNECT));
    }
    s->one.channel = (unsigned)ret;
}

static void scene_import(struct scene *s)
{
    uint64_t id = run.remote ? MIRROR_EXPORT : ID;

    CHECK((s->import = (unsigned)unetmm_import(
               s->one.ep, s->one.channel, id, ALL, 10 * NS_PER_S * run.slow,
               NULL)) < 1u << 16);
}

static void scene_open(struct scene *s)
{
    memset(s, 0, sizeof(*s));
    s->ctx = open_card();
    station_open(&s->one, s->ctx, NULL);
    s->model = pages(WINDOW / PAGE);
    s->read = pages(WINDOW / PAGE);
    reach(s->ctx, s->read, WINDOW, true);
    if (!run.remote) {
        station_open(&s->two, s->ctx, NULL);
        s->exported = pages(WINDOW / PAGE);
        CHECK_RET(unetmm_export(s->ctx, ID, s->exported, WINDOW, ALL, 0, 0),
                  0);
    }
    scene_connect(s);
    scene_import(s);
}

static void scene_close(struct scene *s)
{
    station_close(&s->one);
    if (!run.remote) {
        station_close(&s->two);
    }
    CHECK_RET(unetmm_close(s->ctx), 0);
}

/* All that was stored is there when this returns. */
static void fence(struct scene *s)
{
    struct unetmm_completion c;

    CHECK_RET(unetmm_fence(s->one.ep, s->one.channel, 0xfe, 0), 0);
    take(&s->one, UNETMM_CQE_SENT, &c);
    CHECK_EQ(c.user_data, 0xfe);
    CHECK_EQ(c.status, UNETMM_ST_OK);
}

static const uint8_t *there(struct scene *s)
{
    if (!run.remote) {
        return s->exported;
    }
    CHECK_RET(unetmm_read_sync(s->one.ep, s->import, 0, s->read, WINDOW,
                               10 * NS_PER_S * run.slow), 0);
    return s->read;
}

static void check_there(struct scene *s)
{
    const uint8_t *at = there(s);
    size_t i;

    for (i = 0; i < WINDOW; i++) {
        if (at[i] != s->model[i]) {
            FAIL("byte %zu is %#x there, not %#x", i, at[i], s->model[i]);
        }
    }
}

/* A store of 1, 2, 4 or 8 bytes anywhere, aligned or not, or a stretch. */
static void some_store(struct scene *s, struct chance *chance, uint8_t *window)
{
    uint64_t value = chance_u64(chance);
    uint32_t at = chance_below(chance, WINDOW - 256);
    uint32_t kind = chance_below(chance, 6);
    uint8_t stretch[256];

    if (kind == 4) {
        uint32_t len = 1 + chance_below(chance, sizeof(stretch));

        memset(stretch, (int)(value & 0xff), sizeof(stretch));
        unetmm_window_copy(window + at, stretch, len);
        memcpy(s->model + at, stretch, len);
        return;
    }
    if (kind < 4) {
        at &= ~((1u << kind) - 1);
        unetmm_window_copy(window + at, &value, 1u << kind);
        memcpy(s->model + at, &value, 1u << kind);
        return;
    }
    /* Over boundaries of words, and of pages. */
    at |= 5;
    *(volatile uint64_t *)(void *)(window + at) = value;
    memcpy(s->model + at, &value, sizeof(value));
}

TEST(stores, TEST_BOTH | TEST_UTLB | TEST_REMOTE, 60)
{
    static const uint32_t combine[] = { 0, 8, 64, UNETMM_MAX_INLINE };
    struct unetmm_window_attr attr = { .size = sizeof(attr) };
    struct chance chance;
    struct scene s;
    unsigned i, k;
    void *window;

    scene_open(&s);
    chance_init(&chance, 0);
    for (i = 0; i < sizeof(combine) / sizeof(combine[0]); i++) {
        attr.combine_bytes = combine[i];
        attr.combine_ns = combine[i] ? 20000 : 0;
        CHECK_RET(unetmm_window_open(s.one.ep, s.import, 0, WINDOW, &attr,
                                     &window), 0);
        CHECK_BYTES(window, WINDOW, 0);
        memset(s.model, 0, WINDOW);
        unetmm_window_copy(window, s.model, WINDOW);
        for (k = 0; k < rounds(300); k++) {
            some_store(&s, &chance, window);
            if (k % 16 == 15) {
                fence(&s);
            }
        }
        fence(&s);
        check_there(&s);
        CHECK(!memcmp(window, s.model, WINDOW));
        CHECK_RET(unetmm_window_open(s.one.ep, s.import, 0, WINDOW, &attr,
                                     &window), -EEXIST);
        CHECK_RET(unetmm_window_close(s.one.ep, window), 0);
        CHECK_RET(unetmm_window_close(s.one.ep, window), -ENOENT);
    }
    CHECK(ep_counter(&s.one, UNETMM_C_window_packets) <
          ep_counter(&s.one, UNETMM_C_window_stores));
    scene_close(&s);
}

/* Without a fence: a packet that may still grow goes after a time. */
TEST(in_time, TEST_BOTH)
{
    struct unetmm_window_attr attr = { sizeof(attr), 64, 1000000 };
    struct scene s;
    void *window;

    scene_open(&s);
    CHECK_RET(unetmm_window_open(s.one.ep, s.import, PAGE, PAGE, &attr,
                                 &window), 0);
    *(volatile uint64_t *)window = 0x1122334455667788;
    EVENTUALLY(*(volatile uint64_t *)(void *)(s.exported + PAGE) ==
               0x1122334455667788);
    scene_close(&s);
}

/* A reader that sees a store sees all before it. */
struct order {
    uint8_t *at;
    _Atomic uint64_t seen;
    atomic_bool stop;
};

static void *watch_order(void *argument)
{
    struct order *o = argument;
    volatile uint64_t *data = (void *)o->at, *count = data + 512;
    uint64_t n;

    while (!atomic_load(&o->stop)) {
        n = *count;
        atomic_thread_fence(memory_order_acquire);
        /* They go up together, data first. */
        if (n && data[(n * 7) % 512] < n) {
            return (void *)1;
        }
        atomic_store(&o->seen, n);
    }
    return NULL;
}

TEST(order, TEST_BOTH, 60)
{
    struct unetmm_window_attr attr = { sizeof(attr), 64, 5000 };
    uint64_t n, most = rounds(2000);
    volatile uint64_t *window;
    struct order o = { 0 };
    pthread_t watcher;
    struct scene s;
    void *result, *at;

    scene_open(&s);
    o.at = s.exported;
    CHECK_RET(unetmm_window_open(s.one.ep, s.import, 0, WINDOW, &attr, &at),
              0);
    window = at;
    CHECK_EQ(pthread_create(&watcher, NULL, watch_order, &o), 0);
    for (n = 1; n <= most; n++) {
        window[(n * 7) % 512] = n;
        window[512] = n;
        if (n % 64 == 0) {
            fence(&s);
        }
    }
    fence(&s);
    EVENTUALLY(atomic_load(&o.seen) == most);
    atomic_store(&o.stop, true);
    CHECK_EQ(pthread_join(watcher, &result), 0);
    CHECK(!result);
    scene_close(&s);
}

/* Stores to a revoked export: reported once, and nothing moves. */
TEST(revoked, TEST_BOTH | TEST_UTLB)
{
    struct unetmm_completion c;
    volatile uint32_t *window;
    struct scene s;
    void *at;

    scene_open(&s);
    CHECK_RET(unetmm_window_open(s.one.ep, s.import, 0, PAGE, NULL, &at), 0);
    window = at;
    window[3] = 5;
    fence(&s);
    CHECK_EQ(((uint32_t *)(void *)s.exported)[3], 5);
    CHECK_RET(unetmm_unexport(s.ctx, ID), 0);
    memset(s.exported, 0x5a, WINDOW);
    window[0] = 6;
    window[100] = 7;
    take(&s.one, UNETMM_CQE_UPDATE, &c);
    CHECK_EQ(c.status, UNETMM_ST_REVOKED);
    fence(&s);
    window[200] = 8;
    fence(&s);
    CHECK(!take_now(&s.one, UNETMM_CQE_UPDATE, &c));
    CHECK_BYTES(s.exported, WINDOW, 0x5a);
    CHECK_EQ(window[200], 8);
    scene_close(&s);
}

/* The import goes under a window that is in use. */
TEST(unimported, TEST_BOTH)
{
    volatile uint64_t *window;
    struct scene s;
    unsigned i;
    void *at;

    scene_open(&s);
    CHECK_RET(unetmm_window_open(s.one.ep, s.import, 0, PAGE, NULL, &at), 0);
    window = at;
    for (i = 0; i < 10; i++) {
        window[i] = 1 + i;
    }
    CHECK_RET(unetmm_unimport(s.one.ep, s.import), 0);
    fence(&s);
    for (i = 0; i < 10; i++) {
        CHECK_EQ(((uint64_t *)(void *)s.exported)[i], 1 + i);
        window[i] = 100;
    }
    fence(&s);
    CHECK_EQ(((uint64_t *)(void *)s.exported)[5], 6);
    /* Another import, of the same number, has a window of its own. */
    scene_import(&s);
    CHECK_RET(unetmm_window_open(s.one.ep, s.import, 0, PAGE, NULL, &at), 0);
    window[5] = 200;
    ((volatile uint64_t *)at)[6] = 300;
    fence(&s);
    CHECK_EQ(((uint64_t *)(void *)s.exported)[5], 6);
    CHECK_EQ(((uint64_t *)(void *)s.exported)[6], 300);
    scene_close(&s);
}

struct storer {
    volatile uint64_t *window;
    _Atomic uint64_t stored;
};

static _Thread_local sigjmp_buf on_fault;

static void fault_handler(int signal_number)
{
    (void)signal_number;
    siglongjmp(on_fault, 1);
}

/* Stores numbers until it cannot any more. */
static void *store_until_fault(void *argument)
{
    struct storer *storer = argument;
    uint64_t n;

    if (!sigsetjmp(on_fault, 1)) {
        for (n = 1;; n++) {
            storer->window[n % 512] = n;
            atomic_store(&storer->stored, n);
        }
    }
    return NULL;
}

/*
 * A window goes while a thread stores in it, by a call or by munmap(): that thread
 * has a fault, its stores before are there and nothing more, and the next window
 * is as good as the first.
 */
TEST(unmapped_under_stores, TEST_BOTH)
{
    struct sigaction action = { .sa_handler = fault_handler };
    struct storer storer;
    pthread_t thread;
    uint64_t last, *data;
    struct scene s;
    unsigned i, k;
    void *at;

    CHECK_SYS(sigaction(SIGSEGV, &action, NULL));
    scene_open(&s);
    data = (uint64_t *)(void *)s.exported;
    for (i = 0; i < rounds(20); i++) {
        memset(s.exported, 0, PAGE);
        CHECK_RET(unetmm_window_open(s.one.ep, s.import, 0, PAGE, NULL, &at),
                  0);
        storer.window = at;
        atomic_store(&storer.stored, 0);
        CHECK_EQ(pthread_create(&thread, NULL, store_until_fault, &storer), 0);
        EVENTUALLY(atomic_load(&storer.stored) > 100);
        if (i % 2) {
            CHECK_SYS(munmap(at, PAGE));
        } else {
            CHECK_RET(unetmm_window_close(s.one.ep, at), 0);
        }
        CHECK_EQ(pthread_join(thread, NULL), 0);
        if (i % 2) {
            /* Only the mapping has gone. */
            CHECK_RET(unetmm_window_close(s.one.ep, at), 0);
        }
        fence(&s);
        /* The last of its places; its last store may have come before it said so. */
        last = atomic_load(&storer.stored);
        CHECK(data[last % 512] == last);
        CHECK(data[(last + 1) % 512] == last + 1 ||
              data[(last + 1) % 512] <= last);
        for (k = 2; k < 512; k++) {
            CHECK(data[(last + k) % 512] <= last);
        }
    }
    scene_close(&s);
}

TEST(refused, TEST_BOTH)
{
    struct unetmm_window_attr attr = UNETMM_WINDOW_ATTR_INIT;
    struct scene s;
    void *at;

    scene_open(&s);
#define BAD(import, offset, len, why) \
    CHECK_RET(unetmm_window_open(s.one.ep, import, offset, len, &attr, &at), \
              why)
    BAD(s.import + 1, 0, PAGE, -ENOENT);
    BAD(70000, 0, PAGE, -EINVAL);
    BAD(s.import, 0, 0, -EINVAL);
    BAD(s.import, 0, PAGE + 1, -EINVAL);
    BAD(s.import, 0, WINDOW + PAGE, -EINVAL);
    BAD(s.import, 1, WINDOW, -EINVAL);
    BAD(s.import, UINT64_MAX - PAGE + 1, PAGE, -EINVAL);
    attr.combine_bytes = UNETMM_MAX_INLINE + 1;
    BAD(s.import, 0, PAGE, -EINVAL);
    attr.combine_bytes = 1 << 16;
    BAD(s.import, 0, PAGE, -EINVAL);
    attr.combine_bytes = 0;
    BAD(s.import, 0, PAGE, -EINVAL);
#undef BAD
    CHECK_RET(unetmm_udma_to(s.one.ep, s.import, 1, PAGE, &at), -EINVAL);
    CHECK_RET(unetmm_udma_to(s.one.ep, s.import, 0, 0, &at), -EINVAL);
    CHECK_RET(unetmm_udma_to(s.one.ep, s.import, WINDOW, PAGE, &at), -EINVAL);
    CHECK_RET(unetmm_udma_to(s.one.ep, s.import + 1, 0, PAGE, &at), -ENOENT);
    CHECK_RET(unetmm_udma_from(s.one.ep, s.model + 1, PAGE, &at), -EINVAL);
    CHECK_RET(unetmm_udma_from(s.one.ep, s.model, 0, &at), -EINVAL);
    CHECK_RET(unetmm_udma_from(s.one.ep, s.model, 1ull << 40, &at), -ENOSPC);
    CHECK_RET(unetmm_fence(s.one.ep, s.one.channel + 1, 0, 0), -ENOENT);
    scene_close(&s);
}

/* ---- User-level DMA start ------------------------------------------------ */

static void start_one(void *to, const void *from, uint32_t bytes)
{
    uint64_t end = deadline_in(10);
    int ret;

    do {
        ret = unetmm_udma_start(to, from, bytes);
        CHECK(now_ns() < end);
    } while (ret == -EAGAIN);
    CHECK_RET(ret, 0);
}

TEST(starts, TEST_BOTH | TEST_REMOTE, 60)
{
    uint8_t *source = pages(WINDOW / PAGE);
    struct chance chance;
    uint8_t *to, *from;
    struct scene s;
    void *at;
    unsigned i;

    scene_open(&s);
    reach(s.ctx, source, WINDOW, false);
    pattern_fill(source, WINDOW, 5, 0);
    CHECK_RET(unetmm_udma_to(s.one.ep, s.import, 0, WINDOW, &at), 0);
    to = at;
    CHECK_RET(unetmm_udma_from(s.one.ep, source, WINDOW, &at), 0);
    from = at;
    memset(s.model, 0, WINDOW);
    for (i = 0; i < WINDOW / PAGE; i++) {
        start_one(to + i * PAGE, from + i * PAGE, PAGE);
        memcpy(s.model + i * PAGE, source + i * PAGE, PAGE);
    }
    chance_init(&chance, 1);
    for (i = 0; i < rounds(200); i++) {
        uint32_t a = chance_below(&chance, WINDOW) & ~3u;
        uint32_t b = chance_below(&chance, WINDOW) & ~3u;
        uint32_t most = PAGE - (a % PAGE > b % PAGE ? a % PAGE : b % PAGE);
        uint32_t len = 1 + chance_below(&chance, most);

        start_one(to + a, from + b, len);
        memcpy(s.model + a, source + b, len);
        CHECK_RET(unetmm_udma_start(to + a, from + b, most + 1), -EINVAL);
    }
    fence(&s);
    check_there(&s);
    CHECK_RET(unetmm_window_close(s.one.ep, from), 0);
    scene_close(&s);
}

/*
 * Two threads of one endpoint, each from its own page to its own: whatever
 * comes between a store and its load, nobody's data goes to the other's place.
 */
struct starter {
    void *to, *from;
    unsigned count;
};

static void *start_many(void *argument)
{
    const struct starter *t = argument;
    unsigned i;

    for (i = 0; i < t->count; i++) {
        start_one(t->to, t->from, 64 + i % 1000);
    }
    return NULL;
}

TEST(starts_of_two, TEST_BOTH, 60)
{
    struct starter starter[2];
    pthread_t threads[2];
    uint8_t *source = pages(2);
    struct scene s;
    unsigned i;
    void *to, *from;

    scene_open(&s);
    reach(s.ctx, source, 2 * PAGE, false);
    memset(source, 0xa1, PAGE);
    memset(source + PAGE, 0xb2, PAGE);
    CHECK_RET(unetmm_udma_to(s.one.ep, s.import, 0, 2 * PAGE, &to), 0);
    CHECK_RET(unetmm_udma_from(s.one.ep, source, 2 * PAGE, &from), 0);
    for (i = 0; i < 2; i++) {
        starter[i] = (struct starter) {
            (uint8_t *)to + i * PAGE, (uint8_t *)from + i * PAGE,
            rounds(500) + 1064,
        };
        CHECK_EQ(pthread_create(&threads[i], NULL, start_many, &starter[i]),
                 0);
    }
    for (i = 0; i < 2; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    fence(&s);
    CHECK_BYTES(s.exported, 1063, 0xa1);
    CHECK_BYTES(s.exported + PAGE, 1063, 0xb2);
    CHECK_BYTES(s.exported + 1063, PAGE - 1063, 0);
    CHECK_BYTES(s.exported + PAGE + 1063, PAGE - 1063, 0);
    scene_close(&s);
}

/* Nobody would pin for a transfer that a store and a load start. */
TEST(no_starts_with_utlb, TEST_UTLB)
{
    struct scene s;
    void *at;

    scene_open(&s);
    CHECK_RET(unetmm_udma_to(s.one.ep, s.import, 0, PAGE, &at), -EOPNOTSUPP);
    CHECK_RET(unetmm_udma_from(s.one.ep, s.read, PAGE, &at), -EOPNOTSUPP);
    scene_close(&s);
}

/* A process that may not have the scheduler observed has no proxy pages. */
static void starts_without_right(void *argument)
{
    bool allowed = *(const bool *)argument;
    struct scene s;
    void *at;

    scene_open(&s);
    drop_capability(CAP_SYS_ADMIN);
    CHECK_RET(unetmm_udma_to(s.one.ep, s.import, 0, PAGE, &at),
              allowed ? 0 : -EPERM);
    CHECK_RET(unetmm_udma_from(s.one.ep, s.read, PAGE, &at),
              allowed ? 0 : -EPERM);
    scene_close(&s);
}

TEST(unprivileged_starts, TEST_BOTH)
{
    bool allowed = false;

    end_process(start_process(starts_without_right, &allowed));
    allowed = true;
    user_probes(true);
    end_process(start_process(starts_without_right, &allowed));
    user_probes(false);
}
