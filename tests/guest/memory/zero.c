/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Buffers whose contents need not be kept: absent pages are not read back
 * from swap, resident ones are used, and no other contents are ever lost.
 *
 * The table of kinds.c says which memory may be used so.
 */
#include "guard.h"
#include "link.h"
#include "swap.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEN     1000            /* of a message: most of the page is not in it */

struct zero {
    struct link link;
    uint8_t *from;
};

static void zero_open(struct zero *z)
{
    swap_on();
    link_open(&z->link, NULL, NULL);
    z->from = pages(1);
}

static void zero_close(struct zero *z)
{
    link_close(&z->link);
    swap_off();
}

static uint64_t zero_maps(struct zero *z)
{
    return driver_counter(z->link.ctx, UNETMM_D_zero_maps);
}

static void post_zero(struct zero *z, uint8_t *at, uint64_t cookie)
{
    CHECK_RET(unetmm_post_recv(z->link.rx->ep, at, PAGE, cookie, UNETMM_ZERO), 0);
}

/* Delivers message `key` into the page that is posted. */
static void land(struct zero *z, uint8_t *at, uint64_t key)
{
    struct iovec iov = { z->from, LEN };
    uint64_t end = deadline_in(10);
    struct unetmm_completion c;

    pattern_fill(z->from, LEN, key, 0);
    while (!deliver(&z->link, &iov, 1, &c)) {
        CHECK(now_ns() < end);
        while (take_now(z->link.rx, UNETMM_CQE_BUFFER, &c)) {
            CHECK_EQ(c.status, UNETMM_ST_SKIPPED);
            post_zero(z, at, 3);
        }
    }
    CHECK_EQ(c.user_data, 3);
    CHECK_EQ(c.len, LEN);
    CHECK_PATTERN(at, LEN, key);
}

/* A page that has pattern `key` and is in swap. */
static uint8_t *swapped_page(uint64_t key)
{
    uint8_t *at = pages(1);

    pattern_fill(at, PAGE, key, 0);
    EVENTUALLY(page_out(at, 1));
    return at;
}

static bool tail_has(const uint8_t *at, uint64_t key)
{
    return pattern_check(at + LEN, PAGE - LEN, key, LEN) == PAGE - LEN;
}

/* ---- The page's contents ----------------------------------------------------- */

static void warm_up(struct zero *z)
{
    uint8_t *at = pages(1);

    post_zero(z, at, 3);
    land(z, at, 1);
    unmap_pages(at, 1);
}

/*
 * A page fault of ours at the same moment may be in the way of mapping a page
 * anew, and then it is paged in instead: so many rounds more, at most, for n that
 * are to succeed.
 */
static unsigned spare(unsigned n)
{
    return n / 8 + 8;
}

TEST(absent, TEST_MISS | TEST_POLICIES)
{
    struct zero z;
    unsigned i, anew = 0, wanted = rounds(30);

    zero_open(&z);
    warm_up(&z);
    for (i = 0; anew < wanted && i < wanted + spare(wanted); i++) {
        uint8_t *at = swapped_page(2 * i);
        unsigned long long reads = swap_reads();
        uint64_t before = zero_maps(&z);

        post_zero(&z, at, 3);
        land(&z, at, 2 * i + 1);
        if (zero_maps(&z) > before) {
            anew++;
            CHECK_BYTES(at + LEN, PAGE - LEN, 0);
            CHECK_EQ(swap_reads(), reads);
        } else {
            CHECK(tail_has(at, 2 * i));
        }
        unmap_pages(at, 1);
    }
    note("%u of %u mapped anew", anew, i);
    CHECK_EQ(anew, wanted);
    zero_close(&z);
}

/* The same without the flag reads the page back: the test above can fail. */
TEST(absent_and_kept, TEST_MISS)
{
    struct zero z;
    uint64_t before;
    uint8_t *at;

    zero_open(&z);
    before = zero_maps(&z);
    at = swapped_page(5);
    post(z.link.rx, at, PAGE, 3);
    land(&z, at, 6);
    CHECK(tail_has(at, 5));
    CHECK_EQ(zero_maps(&z), before);
    unmap_pages(at, 1);
    zero_close(&z);
}

/* It is used as it is, and used again. */
TEST(resident, TEST_MISS)
{
    struct zero z;
    uint8_t *at;
    unsigned i;

    zero_open(&z);
    at = pages(1);
    for (i = 0; i < rounds(20); i++) {
        uint64_t before = zero_maps(&z);

        pattern_fill(at, PAGE, 2 * i, 0);
        post_zero(&z, at, 3);
        land(&z, at, 2 * i + 1);
        CHECK(tail_has(at, 2 * i));
        CHECK_EQ(zero_maps(&z), before);
    }
    zero_close(&z);
}

TEST(never_touched, TEST_MISS | TEST_SHADOW | TEST_ODP)
{
    struct zero z;
    uint8_t *at;

    zero_open(&z);
    at = pages(1);
    post_zero(&z, at, 3);
    land(&z, at, 7);
    CHECK_BYTES(at + LEN, PAGE - LEN, 0);
    zero_close(&z);
}

/* A child that has the page by fork keeps its contents. */
struct child {
    atomic_int go;
    uint8_t *at;
    uint64_t key;
};

static void child_main(void *argument)
{
    struct child *child = argument;
    uint64_t end = deadline_in(20);

    while (!atomic_load(&child->go)) {
        CHECK(now_ns() < end);
        breathe();
    }
    CHECK_PATTERN(child->at, PAGE, child->key);
}

TEST(shared_with_child, TEST_MISS | TEST_SHADOW | TEST_ODP)
{
    struct child *child = shared_memory(sizeof(*child));
    unsigned i, anew = 0, wanted = rounds(3);
    struct zero z;

    zero_open(&z);
    /* In every second round, the first being one, the page is in swap. */
    for (i = 0; i < 2 * wanted ||
         (anew < wanted && i < 2 * (wanted + spare(wanted))); i++) {
        uint64_t before = zero_maps(&z), now;
        bool out = i % 2 == 0;
        pid_t pid;

        child->key = 3 * i;
        child->at = swapped_page(child->key);
        if (!out) {
            CHECK(tail_has(child->at, child->key));
        }
        atomic_store(&child->go, 0);
        pid = start_process(child_main, child);
        post_zero(&z, child->at, 3);
        land(&z, child->at, 3 * i + 1);
        now = zero_maps(&z) - before;
        CHECK(now <= out);
        anew += now;
        atomic_store(&child->go, 1);
        end_process(pid);
        CHECK_PATTERN(child->at, LEN, 3 * i + 1);
        unmap_pages(child->at, 1);
    }
    note("%u of %u mapped anew", anew, (i + 1) / 2);
    CHECK_EQ(anew, wanted);
    zero_close(&z);
}

/* A page that is pinned by somebody else, too, stays one page for all. */
TEST(pinned_elsewhere, TEST_MISS)
{
    struct unetmm_completion c;
    struct unetmm_ctx *other;
    struct link far;
    struct zero z;
    uint64_t before;
    uint8_t *at, *to;
    struct iovec iov;

    zero_open(&z);
    before = zero_maps(&z);
    at = swapped_page(1);
    to = pages(1);
    CHECK_RET(unetmm_open(NULL, UNETMM_SOURCE_PINNED, &other), 0);
    CHECK_RET(unetmm_register(other, at, PAGE, UNETMM_REGION_WRITE), 0);
    CHECK_RET(unetmm_register(other, to, PAGE, UNETMM_REGION_WRITE), 0);
    link_open(&far, other, NULL);
    post_zero(&z, at, 3);
    land(&z, at, 2);
    CHECK(tail_has(at, 1));
    CHECK_EQ(zero_maps(&z), before);
    /* The region still is the process's memory. */
    pattern_fill(at, PAGE, 9, 0);
    iov = (struct iovec) { at, PAGE };
    exchange(&far, &iov, 1, to, PAGE, &c);
    CHECK_PATTERN(to, PAGE, 9);
    link_close(&far);
    CHECK_RET(unetmm_deregister(other, at, PAGE), 0);
    CHECK_RET(unetmm_deregister(other, to, PAGE), 0);
    CHECK_RET(unetmm_close(other), 0);
    zero_close(&z);
}

/* ---- Whose page it is --------------------------------------------------------------- */

#define MANY    12

/*
 * The endpoint is closed while the card's questions are under way.  From then on
 * the pages are the process's, and its stores there stay, in swap too.
 */
TEST(closed_meanwhile, TEST_MISS)
{
    struct zero z;
    unsigned i, k;
    uint64_t before;

    zero_open(&z);
    before = zero_maps(&z);
    for (i = 0; i < rounds(25); i++) {
        struct station brief, next;
        uint8_t *at = pages(MANY);

        pattern_fill(at, MANY * PAGE, i, 0);
        page_out(at, MANY);
        station_open(&brief, z.link.ctx, NULL);
        for (k = 0; k < MANY; k++) {
            CHECK_RET(unetmm_post_recv(brief.ep, at + k * PAGE, PAGE, k,
                                       UNETMM_ZERO |
                                       (k + 1 < MANY ? UNETMM_MORE : 0)), 0);
        }
        station_close(&brief);
        /* Another with the same number asks for the same pages. */
        station_open(&next, z.link.ctx, NULL);
        pattern_fill(at, MANY * PAGE, ~(uint64_t)i, 0);
        page_out(at, MANY);
        CHECK_PATTERN(at, MANY * PAGE, ~(uint64_t)i);
        station_close(&next);
        unmap_pages(at, MANY);
    }
    note("%llu pages mapped anew", (unsigned long long)zero_maps(&z) - before);
    zero_close(&z);
}

/* A buffer that goes back unfilled: later stores there stay. */
TEST(given_back, TEST_MISS)
{
    struct unetmm_completion c;
    struct zero z;
    uint8_t *at;
    unsigned i;

    zero_open(&z);
    for (i = 0; i < rounds(20); i++) {
        struct iovec iov = { z.from, LEN };

        at = swapped_page(i);
        post_zero(&z, at, 3);
        while (!deliver(&z.link, &iov, 1, &c)) {
            if (take_now(z.link.rx, UNETMM_CQE_BUFFER, &c)) {
                break;
            }
        }
        pattern_fill(at, PAGE, i + 100, 0);
        page_out(at, 1);
        CHECK_PATTERN(at, PAGE, i + 100);
        unmap_pages(at, 1);
    }
    zero_close(&z);
}

/* ---- Refused ------------------------------------------------------------------------ */

/* One that is refused holds up neither those before it nor those behind. */
TEST(refused_among_good, TEST_MISS)
{
    const bool trap = run.source == UNETMM_SOURCE_KTLB;
    struct unetmm_completion c;
    struct iovec iov;
    uint8_t *good, *bad;
    struct zero z;
    unsigned k;

    zero_open(&z);
    iov = (struct iovec) { z.from, LEN };
    good = pages(2);
    bad = CHECK_SYS(mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    memset(bad, 0x77, PAGE);
    pattern_fill(z.from, LEN, 4, 0);
    CHECK_RET(unetmm_post_recv(z.link.rx->ep, good, PAGE, 1, UNETMM_MORE), 0);
    CHECK_RET(unetmm_post_recv(z.link.rx->ep, bad, PAGE, 2,
                               UNETMM_ZERO | UNETMM_MORE), trap ? -EINVAL : 0);
    CHECK_RET(unetmm_post_recv(z.link.rx->ep, good + PAGE, PAGE, 3, UNETMM_ZERO),
              0);
    for (k = 1; k <= 3; k += 2) {
        EVENTUALLY(deliver(&z.link, &iov, 1, &c));
        CHECK_EQ(c.user_data, k);
        CHECK_PATTERN(good + k / 2 * PAGE, LEN, 4);
    }
    if (!trap) {
        take(z.link.rx, UNETMM_CQE_BUFFER, &c);
        CHECK_EQ(c.user_data, 2);
        CHECK_EQ(c.status, UNETMM_ST_UNSUPPORTED);
    }
    CHECK(!take_now(z.link.rx, UNETMM_CQE_BUFFER, &c));
    CHECK_BYTES(bad, PAGE, 0x77);
    zero_close(&z);
}

/* ---- Races ----------------------------------------------------------------------------- */

#define POOL    8
#define MOST_ROUNDS 20000

struct race {
    struct zero z;
    uint8_t *pool;
    bool remaps;                /* the pool's contents may be lost */
    atomic_bool stop;
    atomic_ullong steps;
};

/* Swaps the pool out, forks, and if it may gives pages of it away. */
static void *disturb(void *argument)
{
    struct race *race = argument;
    struct chance chance;
    uint8_t *at;
    pid_t pid;

    chance_init(&chance, 6);
    for (; !atomic_load(&race->stop); atomic_fetch_add(&race->steps, 1)) {
        at = race->pool + chance_below(&chance, POOL) * PAGE;
        switch (chance_below(&chance, race->remaps ? 4 : 2)) {
        case 0:
            CHECK_SYS(madvise(race->pool, POOL * PAGE, MADV_PAGEOUT));
            break;
        case 1:
            pid = CHECK_SYS(fork());
            if (!pid) {
                _exit(0);
            }
            CHECK_EQ(waitpid(pid, NULL, 0), pid);
            break;
        case 2:
            CHECK_SYS(madvise(at, PAGE, MADV_DONTNEED));
            break;
        default:
            CHECK_SYS(mmap(at, PAGE, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
            break;
        }
        idle_ns(chance_below(&chance, 300) * NS_PER_US);
    }
    return NULL;
}

/* The message, or where that was given away zeros; nobody else's bytes. */
static void check_landed(const struct race *race, const uint8_t *at,
                         uint64_t key)
{
    uint8_t want[LEN];
    unsigned i;

    if (!race->remaps) {
        CHECK_PATTERN(at, LEN, key);
        return;
    }
    pattern_fill(want, LEN, key, 0);
    for (i = 0; i < LEN; i++) {
        uint8_t byte = *(const volatile uint8_t *)&at[i];

        CHECK(byte == want[i] || !byte);
    }
}

static void race_round(struct race *race, uint8_t *at, uint64_t key)
{
    struct iovec iov = { race->z.from, LEN };
    uint64_t end = deadline_in(10);
    struct unetmm_completion c;

    pattern_fill(race->z.from, LEN, key, 0);
    post_zero(&race->z, at, key);
    while (!deliver(&race->z.link, &iov, 1, &c)) {
        CHECK(now_ns() < end);
        while (take_now(race->z.link.rx, UNETMM_CQE_BUFFER, &c)) {
            CHECK_EQ(c.status, UNETMM_ST_SKIPPED);
            /* Ours again: stores there must stay. */
            pattern_fill(at, PAGE, ~key, 0);
            if (!race->remaps) {
                CHECK_PATTERN(at, PAGE, ~key);
            }
            post_zero(&race->z, at, key);
        }
    }
    CHECK_EQ(c.user_data, key);
    check_landed(race, at, key);
}

static void run_race(bool remaps)
{
    struct race race = { .remaps = remaps };
    struct chance chance;
    pthread_t thread;
    unsigned i;

    chance_init(&chance, 0);
    zero_open(&race.z);
    race.pool = pages(POOL);
    CHECK_EQ(pthread_create(&thread, NULL, disturb, &race), 0);
    /* The disturbing thread has to have had its turns, too. */
    for (i = 0; i < rounds(200) ||
         (i < MOST_ROUNDS && atomic_load(&race.steps) < 20); i++) {
        race_round(&race, race.pool + chance_below(&chance, POOL) * PAGE,
                   i + 1);
    }
    atomic_store(&race.stop, true);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    note("%u messages, %llu disturbances, %llu mapped anew", i,
         atomic_load(&race.steps), (unsigned long long)zero_maps(&race.z));
    CHECK(atomic_load(&race.steps) > 0);
    zero_close(&race.z);
}

TEST(race_swap, TEST_MISS | TEST_SHADOW | TEST_ODP, 60)
{
    run_race(false);
}

TEST(race_remap, TEST_MISS | TEST_SHADOW | TEST_ODP, 60)
{
    run_race(true);
}
