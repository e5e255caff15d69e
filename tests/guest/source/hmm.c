/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Source odp: the kernel's own tests of device page tables (hmm-tests of its
 * selftests), as far as they apply to a device without memory of its own.  The
 * table in docs/testing.rst says which test stands for which of theirs.
 */
#include "huge.h"
#include "pair.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <unetmm_hw.h>

#define NPAGES          64u
#define BYTES           (NPAGES * PAGE)

static bool writable(const struct pair *p, const uint8_t *at)
{
    return entry_at(&p->look, at) & UNETMM_PTE_WRITE;
}

/* It must not arrive; the buffer comes back as it was. */
static void refused_for_writing(struct pair *p, uint8_t *at, size_t len)
{
    struct unetmm_completion c;

    post(&p->two, at, len, 9);
    take(&p->two, UNETMM_CQE_BUFFER, &c);
    CHECK_EQ(c.status, UNETMM_ST_PROTECTION);
    CHECK_EQ(c.user_data, 9);
}

/* ---- Rights ---------------------------------------------------------------------------- */

/* Nothing, the zero page, and pages: one fault for all. */
TEST(anon_read, TEST_ODP)
{
    uint8_t *from = small_pages(NPAGES), *to = small_pages(NPAGES);
    struct pair p;
    uint64_t before;

    pair_open(&p);
    pass_pattern(&p, to, to, PAGE, 1);
    pattern_fill(from + 2 * PAGE, BYTES - 2 * PAGE, 5, 2 * PAGE);
    CHECK_SYS(mprotect(from, BYTES, PROT_READ));
    CHECK_EQ(*(volatile uint8_t *)(from + PAGE), 0);
    pattern_fill(to, BYTES, 6, 0);
    CHECK_EQ(unetmm_prefetch(p.ctx, to, BYTES, UNETMM_PREFETCH_WRITE), BYTES);
    before = faults(&p);
    pass(&p, from, to, BYTES);
    check_faults(&p, before, 1);
    CHECK_BYTES(to, 2 * PAGE, 0);
    CHECK_EQ(pattern_check(to + 2 * PAGE, BYTES - 2 * PAGE, 5, 2 * PAGE),
             BYTES - 2 * PAGE);
    CHECK(!writable(&p, from + 2 * PAGE));
    unmap_pages(from, NPAGES);
    unmap_pages(to, NPAGES);
    pair_close(&p);
}

TEST(anon_read_prot, TEST_ODP)
{
    uint8_t *from = small_pages(NPAGES), *to = small_pages(NPAGES);
    struct pair p;

    pair_open(&p);
    pattern_fill(from, BYTES, 5, 0);
    pattern_fill(to, BYTES, 6, 0);
    CHECK_SYS(mprotect(from, BYTES, PROT_NONE));
    CHECK_EQ(send_status(&p.one, from, BYTES), UNETMM_ST_PROTECTION);
    CHECK_EQ(count_entries(&p.look, from, NPAGES), 0);
    CHECK_SYS(mprotect(from, BYTES, PROT_READ));
    CHECK_PATTERN(from, BYTES, 5);
    CHECK_PATTERN(to, BYTES, 6);
    pass(&p, from, to, BYTES);
    CHECK_PATTERN(to, BYTES, 5);
    unmap_pages(from, NPAGES);
    unmap_pages(to, NPAGES);
    pair_close(&p);
}

/* The zero page is lent for reading; written, another one takes its place. */
TEST(anon_write_prot, TEST_ODP)
{
    uint8_t *at = small_pages(NPAGES), *other = small_pages(NPAGES);
    struct pair p;
    uint64_t before;

    pair_open(&p);
    CHECK_SYS(mprotect(at, BYTES, PROT_READ));
    pass(&p, at, other, PAGE);
    CHECK_BYTES(other, PAGE, 0);
    refused_for_writing(&p, at, BYTES);
    CHECK_BYTES(at, BYTES, 0);
    CHECK_SYS(mprotect(at, BYTES, PROT_READ | PROT_WRITE));
    pattern_fill(other, BYTES, 8, 0);
    CHECK_EQ(unetmm_prefetch(p.ctx, other, BYTES, 0), BYTES);
    before = faults(&p);
    pass(&p, other, at, BYTES);
    check_faults(&p, before, 1);
    CHECK_PATTERN(at, BYTES, 8);
    CHECK(writable(&p, at));
    unmap_pages(at, NPAGES);
    unmap_pages(other, NPAGES);
    pair_close(&p);
}

/* ---- Children ---------------------------------------------------------------------------- */

struct heir {
    uint8_t *at;
    size_t len;
};

/* Opens the card itself, and has it write to inherited memory. */
static void heir_main(void *argument)
{
    const struct heir *heir = argument;
    uint8_t *from = small_pages((unsigned)(heir->len / PAGE));
    struct pair p;
    uint64_t before;

    CHECK_PATTERN(heir->at, heir->len, 1);
    pair_open(&p);
    pattern_fill(from, heir->len, 2, 0);
    CHECK_EQ(unetmm_prefetch(p.ctx, from, heir->len, 0), heir->len);
    before = faults(&p);
    pass(&p, from, heir->at, heir->len);
    check_faults(&p, before, 1);
    CHECK_PATTERN(heir->at, heir->len, 2);
    pair_close(&p);
}

/* The card has them in the parent's table when the child is made. */
static void inherited(struct heir heir, bool shared)
{
    uint8_t *to = small_pages((unsigned)(heir.len / PAGE));
    struct pair p;

    pair_open(&p);
    pattern_fill(heir.at, heir.len, 1, 0);
    pass(&p, heir.at, to, heir.len);
    end_process(start_process(heir_main, &heir));
    CHECK_PATTERN(heir.at, heir.len, shared ? 2 : 1);
    pass(&p, heir.at, to, heir.len);
    CHECK_PATTERN(to, heir.len, shared ? 2 : 1);
    pass_pattern(&p, to, heir.at, heir.len, 3);
    munmap(to, heir.len);
    pair_close(&p);
}

static uint8_t *map(int flags, size_t len)
{
    return CHECK_SYS(mmap(NULL, len, PROT_READ | PROT_WRITE,
                          MAP_ANONYMOUS | flags, -1, 0));
}

TEST(anon_write_child, TEST_ODP)
{
    inherited((struct heir) { map(MAP_PRIVATE, BYTES), BYTES }, false);
}

TEST(anon_write_child_huge, TEST_ODP)
{
    inherited((struct heir) { huge_page(), HUGE }, false);
}

TEST(anon_write_child_shared, TEST_ODP)
{
    inherited((struct heir) { map(MAP_SHARED, BYTES), BYTES }, true);
}

/* ---- Huge pages ---------------------------------------------------------------------------- */

/* One fault; when the process may write no more, the card may not, either. */
static void whole_page(uint8_t *at)
{
    uint8_t *other = small_pages(HUGE_PAGES);
    struct pair p;
    uint64_t before;

    pair_open(&p);
    pattern_fill(other, HUGE, 4, 0);
    CHECK_EQ(unetmm_prefetch(p.ctx, other, HUGE, UNETMM_PREFETCH_WRITE), HUGE);
    before = faults(&p);
    pass(&p, other, at, HUGE);
    check_faults(&p, before, 1);
    CHECK_PATTERN(at, HUGE, 4);
    CHECK_EQ(count_entries(&p.look, at, LOOK_PAGES), LOOK_PAGES);
    CHECK(writable(&p, at) && writable(&p, at + HUGE - PAGE));
    CHECK_SYS(mprotect(at, HUGE, PROT_READ));
    CHECK(!writable(&p, at) && !writable(&p, at + HUGE - PAGE));
    refused_for_writing(&p, at + PAGE, PAGE);
    before = faults(&p);
    memset(other, 0, HUGE);
    pass(&p, at, other, HUGE);
    check_faults(&p, before, 1);
    CHECK_PATTERN(other, HUGE, 4);
    CHECK_SYS(munmap(at, HUGE));
    CHECK_EQ(count_entries(&p.look, at, LOOK_PAGES), 0);
    unmap_pages(other, HUGE_PAGES);
    pair_close(&p);
}

TEST(anon_write_huge, TEST_ODP)
{
    whole_page(huge_page());
}

TEST(hugetlbfs, TEST_ODP)
{
    whole_page(huge_reserved());
}

/* ---- Again and again ------------------------------------------------------------------------ */

TEST(anon_read_multiple, TEST_ODP)
{
    uint8_t *to = small_pages(NPAGES);
    struct pair p;
    unsigned i;

    pair_open(&p);
    pass_pattern(&p, to, to, BYTES, 1);
    CHECK_EQ(unetmm_prefetch(p.ctx, to, BYTES, UNETMM_PREFETCH_WRITE), BYTES);
    for (i = 0; i < rounds(10); i++) {
        uint8_t *from = small_pages(NPAGES);
        uint64_t before = faults(&p);

        pass_pattern(&p, from, to, BYTES, i);
        check_faults(&p, before, 1);
        unmap_pages(from, NPAGES);
        CHECK_EQ(count_entries(&p.look, from, NPAGES), 0);
    }
    unmap_pages(to, NPAGES);
    pair_close(&p);
}

struct teardown {
    uint8_t *at;
    uint32_t most_us;           /* until it goes */
    atomic_bool go;
};

static void *tear_down(void *argument)
{
    struct teardown *t = argument;
    struct chance chance;

    chance_init(&chance, (uintptr_t)t->at);
    while (!atomic_load(&t->go)) {
    }
    idle_ns(chance_below(&chance, t->most_us) * NS_PER_US);
    unmap_pages(t->at, NPAGES);
    return NULL;
}

/* All of it or the refusal; the bytes that arrived are those that were sent. */
static bool torn_down(uint32_t most_us)
{
    uint8_t *to = small_pages(NPAGES);
    struct teardown t = { .at = small_pages(NPAGES), .most_us = most_us };
    struct unetmm_completion c;
    struct iovec iov = { t.at, BYTES };
    pthread_t thread;
    struct pair p;
    bool good;
    size_t n;

    pair_open(&p);
    pattern_fill(t.at, BYTES, 3, 0);
    CHECK_EQ(pthread_create(&thread, NULL, tear_down, &t), 0);
    post(&p.two, to, BYTES, 1);
    atomic_store(&t.go, true);
    send_pieces(&p.one, &iov, 1, 2, 0);
    take(&p.one, UNETMM_CQE_SENT, &c);
    good = c.status == UNETMM_ST_OK;
    if (good) {
        take(&p.two, UNETMM_CQE_RECEIVED, &c);
        CHECK_PATTERN(to, BYTES, 3);
    } else {
        CHECK_EQ(c.status, UNETMM_ST_PROTECTION);
    }
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(count_entries(&p.look, t.at, NPAGES), 0);
    pair_close(&p);
    n = pattern_check(to, BYTES, 3, 0);
    CHECK_BYTES(to + n, BYTES - n, 0);
    unmap_pages(to, NPAGES);
    return good;
}

TEST(anon_teardown, TEST_ODP)
{
    unsigned i, good = 0, n = rounds(10);

    /* Some have to arrive: later and later, on a machine that is slow. */
    for (i = 0; i < n || (!good && i < 100 * n); i++) {
        good += torn_down(400 * (1 + i / n));
    }
    note("%u of %u messages got through", good, i);
    CHECK(good);
}

/* ---- Snapshots ------------------------------------------------------------------------------ */

/* Resident pages are entered, with their rights; others are not. */
TEST(snapshot, TEST_ODP)
{
    uint8_t *at = small_pages(6);
    struct pair p;
    uint64_t before;

    pair_open(&p);
    CHECK_SYS(mprotect(at, PAGE, PROT_NONE));
    CHECK_SYS(munmap(at + PAGE, PAGE));
    CHECK_EQ(*(volatile uint8_t *)(at + 2 * PAGE), 0);
    CHECK_SYS(mprotect(at + 2 * PAGE, PAGE, PROT_READ));
    memset(at + 3 * PAGE, 3, PAGE);
    CHECK_SYS(mprotect(at + 3 * PAGE, PAGE, PROT_READ));
    memset(at + 4 * PAGE, 4, PAGE);
    before = faults(&p);
    CHECK_EQ(unetmm_prefetch(p.ctx, at, 6 * PAGE, UNETMM_PREFETCH_NO_FAULT),
             6 * PAGE);
    CHECK_EQ(entry_at(&p.look, at), 0);
    CHECK_EQ(entry_at(&p.look, at + PAGE), 0);
    CHECK(entry_at(&p.look, at + 2 * PAGE));
    CHECK(entry_at(&p.look, at + 3 * PAGE));
    CHECK(entry_at(&p.look, at + 4 * PAGE));
    CHECK_EQ(entry_at(&p.look, at + 5 * PAGE), 0);
    CHECK_EQ(unetmm_prefetch(p.ctx, at, 6 * PAGE, UNETMM_PREFETCH_NO_FAULT |
                             UNETMM_PREFETCH_WRITE), 6 * PAGE);
    CHECK(!writable(&p, at + 2 * PAGE));
    CHECK(!writable(&p, at + 3 * PAGE));
    CHECK(writable(&p, at + 4 * PAGE));
    CHECK_EQ(entry_at(&p.look, at + 5 * PAGE), 0);
    CHECK_EQ(faults(&p), before);
    CHECK_SYS(munmap(at, 6 * PAGE));
    pair_close(&p);
}

/* Two spaces of the card have the same pages, and both lose them. */
TEST(double_map, TEST_ODP)
{
    uint8_t *from = small_pages(6), *to = small_pages(6);
    struct pair p, q;

    pair_open(&p);
    pair_open(&q);
    CHECK(p.look.space != q.look.space);
    pattern_fill(from, 6 * PAGE, 1, 0);
    CHECK_SYS(mprotect(from, 6 * PAGE, PROT_READ));
    pass(&p, from, to, 6 * PAGE);
    CHECK_PATTERN(to, 6 * PAGE, 1);
    memset(to, 0, 6 * PAGE);
    pass(&q, from, to, 6 * PAGE);
    CHECK_PATTERN(to, 6 * PAGE, 1);
    CHECK_EQ(count_entries(&p.look, from, 6), 6);
    CHECK_EQ(count_entries(&q.look, from, 6), 6);
    unmap_pages(from, 6);
    CHECK_EQ(count_entries(&p.look, from, 6), 0);
    CHECK_EQ(count_entries(&q.look, from, 6), 0);
    unmap_pages(to, 6);
    pair_close(&q);
    pair_close(&p);
}
