/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory that is not there when it is wanted: the page must be brought in, and
 * meanwhile a send waits, alone, and a receive follows its policy.
 *
 * With userfaultfd the test itself says when a page comes; with swap it comes
 * when it comes.
 */
#include "guard.h"
#include "late.h"
#include "link.h"
#include "swap.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A link with memory for the far side. */
struct bench {
    struct link link;
    struct late late;
    uint8_t *memory;
};

static void bench_open(struct bench *bench, unsigned npages,
                       const struct unetmm_ep_attr *attr)
{
    late_make(&bench->late, npages);
    link_open(&bench->link, NULL, attr);
    bench->memory = pages(npages);
    reach(bench->link.ctx, bench->memory, npages * PAGE, true);
}

static void bench_close(struct bench *bench)
{
    link_close(&bench->link);
    close(bench->late.fd);
}

static void send_late(struct bench *bench, size_t len, uint64_t cookie)
{
    struct iovec iov = { bench->late.at, len };

    send_pieces(bench->link.tx, &iov, 1, cookie, 0);
}

/* ---- Sending ---------------------------------------------------------------------- */

/* The endpoint waits, in order; it can receive, and others can do all. */
TEST(send_waits_alone, TEST_MISS | TEST_SHADOW | TEST_ODP)
{
    struct unetmm_completion c;
    struct bench bench;
    struct link other, back;
    char brief[] = "short";
    uint8_t *from, *to;
    unsigned i;

    bench_open(&bench, 1, NULL);
    link_open(&other, bench.link.ctx, NULL);
    from = pages(4);
    to = pages(4);
    post(bench.link.rx, bench.memory, PAGE, 1);
    send_late(&bench, PAGE, 10);
    send_pieces(bench.link.tx, &(struct iovec) { brief, 5 }, 1, 11, 0);
    EVENTUALLY(ep_counter(bench.link.tx, UNETMM_C_faults_deferred) == 1);
    CHECK_EQ(late_wanted(&bench.late), 0);
    back = bench.link;
    back.tx = bench.link.rx;
    back.rx = bench.link.tx;
    for (i = 0; i < 20; i++) {
        exchange_pattern(&other, from, to, 3 * PAGE < other.tx->mtu ?
                         3 * PAGE : other.tx->mtu, i);
        exchange_pattern(&back, from, to, PAGE, i);
    }
    CHECK(!take_now(bench.link.tx, UNETMM_CQE_SENT, &c));
    CHECK(!take_now(bench.link.rx, UNETMM_CQE_RECEIVED, &c));
    late_give(&bench.late, 0, 5);
    for (i = 10; i < 12; i++) {
        take(bench.link.tx, UNETMM_CQE_SENT, &c);
        CHECK_EQ(c.user_data, i);
        CHECK_EQ(c.status, UNETMM_ST_OK);
    }
    take(bench.link.rx, UNETMM_CQE_RECEIVED, &c);
    CHECK_EQ(c.user_data, 1);
    CHECK_PATTERN(bench.memory, PAGE, 5);
    take(bench.link.rx, UNETMM_CQE_RECEIVED, &c);
    CHECK(c.is_inline && !memcmp(c.data, brief, 5));
    link_close(&other);
    bench_close(&bench);
}

/* Page after page is missing. */
TEST(send_page_by_page, TEST_MISS | TEST_SHADOW | TEST_ODP)
{
    struct unetmm_completion c;
    struct bench bench;
    unsigned i, n = 2;
    uint64_t before;

    bench_open(&bench, n, NULL);
    before = driver_counter(bench.link.ctx, UNETMM_D_faults_resident);
    post(bench.link.rx, bench.memory, n * PAGE, 1);
    /* The message must not come before its buffer is translated. */
    EVENTUALLY(run.source == UNETMM_SOURCE_KTLB ||
               driver_counter(bench.link.ctx, UNETMM_D_faults_resident) >
               before);
    send_late(&bench, n * PAGE, 10);
    for (i = 0; i < n; i++) {
        CHECK(!take_now(bench.link.tx, UNETMM_CQE_SENT, &c));
        CHECK_EQ(late_wanted(&bench.late), i);
        late_give(&bench.late, i, 6);
    }
    take(bench.link.tx, UNETMM_CQE_SENT, &c);
    CHECK_EQ(c.status, UNETMM_ST_OK);
    take(bench.link.rx, UNETMM_CQE_RECEIVED, &c);
    CHECK_EQ(c.len, n * PAGE);
    CHECK_PATTERN(bench.memory, n * PAGE, 6);
    bench_close(&bench);
}

/* The awaited page is unmapped: that is an answer, too. */
TEST(unmapped_while_awaited, TEST_MISS | TEST_SHADOW | TEST_ODP)
{
    struct unetmm_completion c;
    struct bench bench;

    bench_open(&bench, 1, NULL);
    post(bench.link.rx, bench.late.at, PAGE, 1);
    send_late(&bench, PAGE, 10);
    CHECK_EQ(late_wanted(&bench.late), 0);
    EVENTUALLY(ep_counter(bench.link.tx, UNETMM_C_faults_deferred) == 1);
    late_unmap(&bench.late);
    take(bench.link.tx, UNETMM_CQE_SENT, &c);
    CHECK_EQ(c.status, UNETMM_ST_PROTECTION);
    take(bench.link.rx, UNETMM_CQE_BUFFER, &c);
    CHECK_EQ(c.status, UNETMM_ST_PROTECTION);
    exchange_pattern(&bench.link, pages(1), bench.memory, PAGE, 3);
    bench_close(&bench);
}

/* Endpoints close, and with them the file, while pages are awaited. */
TEST(closed_while_awaited, TEST_MISS | TEST_SHADOW | TEST_ODP | TEST_POLICIES)
{
    struct bench bench;
    uint64_t start;

    bench_open(&bench, 3, NULL);
    post(bench.link.rx, bench.late.at + PAGE, PAGE, 1);
    post(bench.link.rx, bench.late.at + 2 * PAGE, PAGE, 1);
    send_late(&bench, PAGE, 10);
    late_wanted(&bench.late);
    EVENTUALLY(ep_counter(bench.link.tx, UNETMM_C_faults_deferred) == 1);
    EVENTUALLY(ep_counter(bench.link.rx, UNETMM_C_faults_deferred) >= 1);
    start = now_ns();
    bench_close(&bench);
    CHECK(now_ns() < start + 30 * NS_PER_S * run.slow);
}

/* ---- Receiving ----------------------------------------------------------------------- */

TEST(receive_absent, TEST_MISS | TEST_SHADOW | TEST_ODP | TEST_POLICIES)
{
    struct iovec iov;
    struct unetmm_completion c;
    struct bench bench;
    struct link *l = &bench.link;
    uint8_t *from;
    bool skip = run.policy == UNETMM_POLICY_SKIP;

    bench_open(&bench, 1, NULL);
    from = pages(1);
    pattern_fill(from, PAGE, 8, 0);
    iov = (struct iovec) { from, PAGE };
    exchange(l, &iov, 1, bench.memory, PAGE, &c);
    memset(bench.memory, 0, PAGE);
    post(l->rx, bench.late.at, PAGE, 1);
    post(l->rx, bench.memory, PAGE, 2);
    EVENTUALLY(ep_counter(l->rx, UNETMM_C_faults_deferred) == 1);
    CHECK_EQ(deliver(l, &iov, 1, &c), skip);
    if (skip) {
        CHECK_EQ(c.user_data, 2);
        CHECK_PATTERN(bench.memory, PAGE, 8);
        take(l->rx, UNETMM_CQE_BUFFER, &c);
        CHECK_EQ(c.user_data, 1);
        CHECK_EQ(c.status, UNETMM_ST_SKIPPED);
        CHECK_EQ(ep_counter(l->rx, UNETMM_C_bufs_skipped), 1);
        post(l->rx, bench.late.at, PAGE, 1);
    } else {
        CHECK_EQ(ep_counter(l->rx, UNETMM_C_drop_absent), 1);
        CHECK(!take_now(l->rx, UNETMM_CQE_BUFFER, &c));
        CHECK_BYTES(bench.memory, PAGE, 0);
    }
    late_wanted(&bench.late);
    late_give(&bench.late, 0, 1);
    if (!skip) {
        uint64_t end = deadline_in(10);

        while (!deliver(l, &iov, 1, &c)) {
            CHECK(now_ns() < end);
        }
        CHECK_EQ(c.user_data, 1);
        CHECK_PATTERN(bench.late.at, PAGE, 8);
    }
    bench_close(&bench);
}

/* Never past the buffers that are translated ahead. */
TEST(skip_within_window, TEST_MISS | TEST_SHADOW | TEST_ODP)
{
    struct unetmm_ep_attr attr = default_attr();
    struct iovec iov;
    struct unetmm_completion c;
    struct bench bench;
    struct link *l = &bench.link;
    unsigned i;

    attr.pretranslate = 2;
    bench_open(&bench, 3, &attr);
    iov = (struct iovec) { pages(1), PAGE };
    pattern_fill(iov.iov_base, PAGE, 8, 0);
    for (i = 0; i < 2; i++) {
        post(l->rx, bench.late.at + i * PAGE, PAGE, i);
    }
    EVENTUALLY(ep_counter(l->rx, UNETMM_C_faults_deferred) == 2);
    post(l->rx, bench.memory, PAGE, 2);
    CHECK(!deliver(l, &iov, 1, &c));
    for (i = 0; i < 2; i++) {
        take(l->rx, UNETMM_CQE_BUFFER, &c);
        CHECK_EQ(c.user_data, i);
        CHECK_EQ(c.status, UNETMM_ST_SKIPPED);
    }
    CHECK_EQ(ep_counter(l->rx, UNETMM_C_drop_asked), 1);
    EVENTUALLY(deliver(l, &iov, 1, &c));
    CHECK_EQ(c.user_data, 2);
    CHECK_PATTERN(bench.memory, PAGE, 8);
    bench_close(&bench);
}

/* Registering absent pages waits in the call. */
static void *register_thread(void *argument)
{
    struct bench *bench = argument;

    CHECK_RET(unetmm_register(bench->link.ctx, bench->late.at,
                              bench->late.npages * PAGE,
                              UNETMM_REGION_WRITE), 0);
    return NULL;
}

TEST(register_waits, TEST_PINNED)
{
    struct bench bench;
    pthread_t thread;
    struct link other;
    unsigned i;

    bench_open(&bench, 2, NULL);
    CHECK_EQ(pthread_create(&thread, NULL, register_thread, &bench), 0);
    CHECK_EQ(late_wanted(&bench.late), 0);
    /* Others are not held up. */
    link_open(&other, NULL, NULL);
    link_close(&other);
    for (i = 0; i < 2; i++) {
        late_give(&bench.late, i, 4);
    }
    CHECK_EQ(pthread_join(thread, NULL), 0);
    exchange_pattern(&bench.link, bench.memory, bench.late.at, PAGE, 2);
    CHECK_RET(unetmm_deregister(bench.link.ctx, bench.late.at, 2 * PAGE), 0);
    bench_close(&bench);
}

/* ---- Swap -------------------------------------------------------------------------------- */

#define SWAP_PAGES      2
#define MOST_TRIES      400     /* for the kernel to take pages at our word */

TEST(swap_send, TEST_MISS | TEST_SHADOW | TEST_ODP)
{
    unsigned i, out = 0;
    struct link link;
    uint8_t *at, *to;

    swap_on();
    link_open(&link, NULL, NULL);
    to = pages(SWAP_PAGES);
    for (i = 0; i < rounds(40) || (!out && i < MOST_TRIES); i++) {
        uint64_t key = pattern_key(run.seed, i);
        struct iovec iov;
        struct unetmm_completion c;

        at = pages(SWAP_PAGES);
        iov = (struct iovec) { at, SWAP_PAGES * PAGE };
        pattern_fill(at, SWAP_PAGES * PAGE, key, 0);
        out += page_out(at, SWAP_PAGES);
        exchange(&link, &iov, 1, to, SWAP_PAGES * PAGE, &c);
        CHECK_PATTERN(to, SWAP_PAGES * PAGE, key);
        /* Pages that the card has pinned stay in their place. */
        page_out(at, SWAP_PAGES);
        CHECK_PATTERN(at, SWAP_PAGES * PAGE, key);
        unmap_pages(at, SWAP_PAGES);
    }
    note("%u of %u paged out; %llu sends deferred", out, i,
         (unsigned long long)ep_counter(link.tx, UNETMM_C_faults_deferred));
    CHECK(out > 0);
    link_close(&link);
    swap_off();
}

TEST(swap_receive, TEST_MISS | TEST_SHADOW | TEST_ODP | TEST_POLICIES)
{
    unsigned i, out = 0, skipped = 0;
    struct link link;
    uint8_t *at, *from;

    swap_on();
    link_open(&link, NULL, NULL);
    from = pages(SWAP_PAGES);
    for (i = 0; i < rounds(40) || (!out && i < MOST_TRIES); i++) {
        struct iovec iov = { from, SWAP_PAGES * PAGE - 100 };
        uint64_t end = deadline_in(10);
        struct unetmm_completion c;

        at = pages(SWAP_PAGES);
        pattern_fill(at, SWAP_PAGES * PAGE, ~(uint64_t)i, 0);
        pattern_fill(from, iov.iov_len, i, 0);
        out += page_out(at, SWAP_PAGES);
        post(link.rx, at, SWAP_PAGES * PAGE, i);
        while (!deliver(&link, &iov, 1, &c)) {
            CHECK(now_ns() < end);
            while (take_now(link.rx, UNETMM_CQE_BUFFER, &c)) {
                CHECK_EQ(c.status, UNETMM_ST_SKIPPED);
                skipped++;
                post(link.rx, at, SWAP_PAGES * PAGE, i);
            }
        }
        CHECK_EQ(c.user_data, i);
        CHECK_PATTERN(at, iov.iov_len, i);
        CHECK_EQ(pattern_check(at + iov.iov_len, 100, ~(uint64_t)i,
                               iov.iov_len), 100);
        unmap_pages(at, SWAP_PAGES);
    }
    note("%u of %u paged out; %llu deferred, %u skipped", out, i,
         (unsigned long long)ep_counter(link.rx, UNETMM_C_faults_deferred),
         skipped);
    CHECK_EQ(skipped, ep_counter(link.rx, UNETMM_C_bufs_skipped));
    CHECK(run.policy == UNETMM_POLICY_SKIP || !skipped);
    CHECK(out > 0);
    link_close(&link);
    swap_off();
}

/* Pages that the card has written are dirty, even if the process gave them up before. */
TEST(lazily_freed, TEST_MISS | TEST_SHADOW | TEST_ODP)
{
    struct link link;
    uint8_t *at, *from;
    unsigned i;

    swap_on();
    from = pages(SWAP_PAGES);
    for (i = 0; i < rounds(10); i++) {
        at = pages(SWAP_PAGES);
        memset(at, 0x5a, SWAP_PAGES * PAGE);
        link_open(&link, NULL, NULL);
        if (i % 2) {
            exchange_pattern(&link, from, at, SWAP_PAGES * PAGE, ~i);
        }
        CHECK_SYS(madvise(at, SWAP_PAGES * PAGE, MADV_FREE));
        exchange_pattern(&link, from, at, SWAP_PAGES * PAGE, i);
        /* Closing unpins; then nothing but the dirty bit keeps the data. */
        link_close(&link);
        page_out(at, SWAP_PAGES);
        CHECK_PATTERN(at, SWAP_PAGES * PAGE, i);
        unmap_pages(at, SWAP_PAGES);
    }
    swap_off();
}

/* ---- Pages that nobody has named ---------------------------------------------------------- */

#define OWN             8u      /* pages before those that a userfaultfd watches */

/* Gives each page that somebody wants, so that nobody waits for long. */
struct giver {
    struct late *late;
    pthread_t thread;
    atomic_bool stop;
    unsigned given;
};

static void *giver_main(void *argument)
{
    struct giver *giver = argument;

    while (!atomic_load(&giver->stop)) {
        struct pollfd entry = { .fd = giver->late->fd, .events = POLLIN };

        if (poll(&entry, 1, 10) == 1) {
            late_give(giver->late, late_wanted(giver->late), 1);
            giver->given++;
        }
    }
    return NULL;
}

static bool is_there(uint8_t *at)
{
    unsigned char there;

    CHECK_SYS(mincore(at, PAGE, &there));
    return there & 1;
}

/* From and to one page, alone. */
static void use_page(struct link *link, uint8_t *at, uint8_t *other)
{
    reach(link->ctx, at, PAGE, true);
    exchange_pattern(link, at, other, 1000, 1);
    exchange_pattern(link, other, at, 1000, 2);
    unreach(link->ctx, at, PAGE);
}

/*
 * Messages in some pages fault in no other page of the same mapping, whether somebody
 * would have to wait for it or not.
 */
TEST(beside, TEST_SOURCES)
{
    uint8_t *at = CHECK_SYS(mmap(NULL, 2 * OWN * PAGE, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    uint8_t *other = pages(1);
    struct giver giver = { .given = 0 };
    struct late late;
    struct link link;
    unsigned i;

    late_watch(&late, at + OWN * PAGE, OWN);
    giver.late = &late;
    CHECK_EQ(pthread_create(&giver.thread, NULL, giver_main, &giver), 0);
    link_open(&link, NULL, NULL);
    reach(link.ctx, other, PAGE, true);
    for (i = 1; i < OWN; i += 2) {
        use_page(&link, at + i * PAGE, other);
    }
    for (i = 0; i < 2 * OWN; i++) {
        if (is_there(at + i * PAGE) != (i % 2 && i < OWN)) {
            FAIL("page %u of %u was faulted in", i, 2 * OWN);
        }
    }
    atomic_store(&giver.stop, true);
    CHECK_EQ(pthread_join(giver.thread, NULL), 0);
    CHECK_EQ(giver.given, 0);
    link_close(&link);
    close(late.fd);
}

/* Behind the last page that a process can have there is nothing to have ready. */
TEST(last_page, TEST_SOURCES)
{
    uint8_t *at = CHECK_SYS(mmap((void *)0x7fffffffe000, PAGE,
                                 PROT_READ | PROT_WRITE, MAP_PRIVATE |
                                 MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
    uint8_t *other = pages(1);
    struct link link;

    link_open(&link, NULL, NULL);
    reach(link.ctx, other, PAGE, true);
    use_page(&link, at, other);
    link_close(&link);
    CHECK_SYS(munmap(at, PAGE));
}
