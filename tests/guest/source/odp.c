/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Source odp: nothing is in the card's table before it is asked for, all of a work
 * request is there after one fault, and the card has forgotten pages that the system
 * takes away.
 */
#include "pair.h"
#include "raw.h"

#include <libunetmm/inline.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <unetmm_hw.h>

#define MESSAGE         ((size_t)UNETMM_MAX_MESSAGE)
#define MESSAGE_PAGES   ((unsigned)(MESSAGE / PAGE))

/* ---- Faults -------------------------------------------------------------------------- */

/* Faulted in when it is used, with the right that is used; then it is known. */
TEST(first_touch, TEST_ODP)
{
    uint8_t *from = small_pages(1), *to = small_pages(1);
    struct pair p;
    uint64_t before;
    unsigned i;

    pair_open(&p);
    pattern_fill(from, PAGE, 0, 0);
    CHECK_EQ(entry_at(&p.look, from), 0);
    before = faults(&p);
    pass_pattern(&p, from, to, PAGE, 1);
    check_faults(&p, before, 2);
    CHECK(entry_at(&p.look, from) & UNETMM_PTE_READ);
    CHECK(!(entry_at(&p.look, from) & UNETMM_PTE_WRITE));
    CHECK(entry_at(&p.look, to) & UNETMM_PTE_WRITE);
    for (i = 0; i < rounds(20); i++) {
        pass_pattern(&p, from, to, PAGE, i);
    }
    check_faults(&p, before, 2);
    unmap_pages(from, 1);
    unmap_pages(to, 1);
    CHECK_EQ(entry_at(&p.look, to), 0);
    pair_close(&p);
}

/* One fault for each side of the longest message, resident or not. */
TEST(batch, TEST_ODP)
{
    uint8_t *from = small_pages(MESSAGE_PAGES), *to = small_pages(MESSAGE_PAGES);
    uint8_t *fresh = small_pages(MESSAGE_PAGES);
    struct pair p;
    uint64_t before;

    pair_open(&p);
    pattern_fill(from, MESSAGE, 5, 0);
    before = faults(&p);
    /* The process has `from`; nobody has `to`. */
    pass(&p, from, to, MESSAGE);
    CHECK_PATTERN(to, MESSAGE, 5);
    check_faults(&p, before, 2);
    CHECK_EQ(count_entries(&p.look, from, MESSAGE_PAGES), MESSAGE_PAGES);
    CHECK_EQ(count_entries(&p.look, to, MESSAGE_PAGES), MESSAGE_PAGES);
    /* Memory never written is sent as zeros. */
    pass(&p, fresh, to, MESSAGE);
    CHECK_BYTES(to, MESSAGE, 0);
    check_faults(&p, before, 3);
    unmap_pages(from, MESSAGE_PAGES);
    CHECK_EQ(count_entries(&p.look, from, MESSAGE_PAGES), 0);
    unmap_pages(fresh, MESSAGE_PAGES);
    unmap_pages(to, MESSAGE_PAGES);
    pair_close(&p);
}

/* As cards ask that know no more than an address. */
TEST(page_by_page, TEST_ODP)
{
    unsigned n = 32;
    uint8_t *from = small_pages(n), *to = small_pages(n);
    uint8_t *next = small_pages(n);
    struct pair p;
    uint64_t before;

    pair_open(&p);
    pass_pattern(&p, from, to, n * PAGE, 1);
    set_parameter("odp_batch", 1);
    pattern_fill(next, n * PAGE, 2, 0);
    before = faults(&p);
    pass(&p, next, to, n * PAGE);
    set_parameter("odp_batch", 1025);
    check_faults(&p, before, n);
    CHECK_PATTERN(to, n * PAGE, 2);
    unmap_pages(from, n);
    unmap_pages(next, n);
    unmap_pages(to, n);
    pair_close(&p);
}

#define SEGMENTS        8u
#define SEGMENT         (3 * PAGE)

/* A message's segments, apart from each other, are one fault for the sender. */
TEST(segments, TEST_ODP)
{
    size_t step = 2 * SEGMENT, len = SEGMENTS * SEGMENT;
    uint8_t *from = small_pages((unsigned)(SEGMENTS * step / PAGE));
    uint8_t *to = small_pages((unsigned)(len / PAGE));
    struct iovec iov[SEGMENTS];
    struct unetmm_completion c;
    uint64_t before, ahead;
    struct pair p;
    unsigned i;

    pair_open(&p);
    for (i = 0; i < SEGMENTS; i++) {
        iov[i] = (struct iovec) { from + i * step, SEGMENT };
        /* The process has half of them. */
        if (i % 2) {
            pattern_fill(iov[i].iov_base, SEGMENT, i, 0);
        }
    }
    before = faults(&p);
    ahead = driver_counter(p.ctx, UNETMM_D_faults_ahead);
    post(&p.two, to, len, 1);
    send_pieces(&p.one, iov, SEGMENTS, 2, 0);
    take(&p.two, UNETMM_CQE_RECEIVED, &c);
    CHECK_EQ(c.status, UNETMM_ST_OK);
    check_faults(&p, before, 2);
    CHECK_EQ(driver_counter(p.ctx, UNETMM_D_faults_ahead) - ahead, SEGMENTS - 1);
    CHECK_EQ(count_entries(&p.look, from, (unsigned)(SEGMENTS * step / PAGE)), len / PAGE);
    for (i = 0; i < SEGMENTS; i++) {
        if (i % 2) {
            CHECK_PATTERN(to + i * SEGMENT, SEGMENT, i);
        } else {
            CHECK_BYTES(to + i * SEGMENT, SEGMENT, 0);
        }
    }
    unmap_pages(from, (unsigned)(SEGMENTS * step / PAGE));
    unmap_pages(to, (unsigned)(len / PAGE));
    pair_close(&p);
}

#define EXPORT_PAGES    64u

/* A WRITE's whole target is one fault; a READ's source and target are one each. */
TEST(one_sided, TEST_ODP)
{
    size_t len = EXPORT_PAGES * PAGE;
    uint8_t *from = small_pages(EXPORT_PAGES), *own = small_pages(EXPORT_PAGES);
    uint8_t *to = small_pages(EXPORT_PAGES);
    struct pair p;
    uint64_t before;
    unsigned import;

    pair_open(&p);
    CHECK_RET(unetmm_export(p.ctx, 1, own, len, UNETMM_RIGHT_ALL, 0, 0), 0);
    import = import_of(&p.one, 1, UNETMM_RIGHT_ALL);
    pattern_fill(from, len, 3, 0);
    before = faults(&p);
    CHECK_RET(unetmm_write_sync(p.one.ep, import, 0, from, len, 0, 0,
                                10 * NS_PER_S * run.slow), 0);
    CHECK_PATTERN(own, len, 3);
    check_faults(&p, before, 2);
    CHECK_EQ(count_entries(&p.look, own, EXPORT_PAGES), EXPORT_PAGES);
    CHECK_SYS(madvise(own, len, MADV_DONTNEED));
    pattern_fill(own, len, 4, 0);
    before = faults(&p);
    CHECK_RET(unetmm_read_sync(p.one.ep, import, 0, to, len, 10 * NS_PER_S * run.slow),
              0);
    CHECK_PATTERN(to, len, 4);
    check_faults(&p, before, 2);
    CHECK_EQ(count_entries(&p.look, to, EXPORT_PAGES), EXPORT_PAGES);
    CHECK_RET(unetmm_unexport(p.ctx, 1), 0);
    unmap_pages(from, EXPORT_PAGES);
    unmap_pages(own, EXPORT_PAGES);
    unmap_pages(to, EXPORT_PAGES);
    pair_close(&p);
}

/* Pages behind it are entered as well, if they are there. */
TEST(prefetch, TEST_ODP)
{
    uint8_t *from = small_pages(2 * PREFETCH), *to = small_pages(1);
    uint8_t *other = small_pages(1);
    struct pair p;

    pair_open(&p);
    /* So that the far end is known, and asks for nothing. */
    pass_pattern(&p, other, to, PAGE, 3);
    set_parameter("odp_prefetch", PREFETCH);
    touch(from, 10, true);
    touch(from + 12 * PAGE, PREFETCH, true);
    pass_pattern(&p, from, to, PAGE, 1);
    CHECK_EQ(count_entries(&p.look, from, 12), 10);
    CHECK_EQ(count_entries(&p.look, from, 2 * PREFETCH), PREFETCH + 1 - 2);
    CHECK(!(entry_at(&p.look, from + PAGE) & UNETMM_PTE_WRITE));
    unmap_pages(from, 2 * PREFETCH);
    unmap_pages(other, 1);
    unmap_pages(to, 1);
    pair_close(&p);
}

/* Asked for by the process: the card asks for nothing afterwards. */
TEST(prefetch_call, TEST_ODP)
{
    const unsigned n = 600;
    uint8_t *from = small_pages(n), *to = small_pages(n);
    struct pair p;
    uint64_t before, pages_before;

    pair_open(&p);
    before = faults(&p);
    pages_before = driver_counter(p.ctx, UNETMM_D_prefetched_pages);
    CHECK_EQ(unetmm_prefetch(p.ctx, from, n * PAGE, UNETMM_PREFETCH_NO_FAULT),
             n * PAGE);
    CHECK_EQ(count_entries(&p.look, from, LOOK_PAGES), 0);
    CHECK_EQ(unetmm_prefetch(p.ctx, from + 100, PAGE, 0), PAGE);
    CHECK_EQ(count_entries(&p.look, from, LOOK_PAGES), 2);
    pattern_fill(from, n * PAGE, 3, 0);
    CHECK_EQ(unetmm_prefetch(p.ctx, from, n * PAGE, 0), n * PAGE);
    CHECK(!(entry_at(&p.look, from) & UNETMM_PTE_WRITE));
    CHECK_EQ(unetmm_prefetch(p.ctx, to, n * PAGE, UNETMM_PREFETCH_WRITE),
             n * PAGE);
    CHECK(entry_at(&p.look, to) & UNETMM_PTE_WRITE);
    CHECK_EQ(driver_counter(p.ctx, UNETMM_D_prefetched_pages) - pages_before,
             3 * n + 2);
    pass(&p, from, to, n * PAGE);
    CHECK_PATTERN(to, n * PAGE, 3);
    CHECK_EQ(faults(&p), before);
    unmap_pages(from, n);
    unmap_pages(to, n);
    pair_close(&p);
}

/* As far as it gets, and why no further. */
TEST(prefetch_refused, TEST_ODP)
{
    uint8_t *at = small_pages(8);
    const unsigned write = UNETMM_PREFETCH_WRITE;
    struct pair p;

    pair_open(&p);
    CHECK_SYS(mprotect(at + 4 * PAGE, PAGE, PROT_READ));
    CHECK_SYS(mprotect(at + 5 * PAGE, PAGE, PROT_NONE));
    CHECK_SYS(munmap(at + 6 * PAGE, PAGE));
    CHECK_RET(unetmm_prefetch(p.ctx, at, 8 * PAGE, write), 4 * PAGE);
    CHECK_RET(unetmm_prefetch(p.ctx, at + 9, 8 * PAGE, 0), 5 * PAGE - 9);
    CHECK_RET(unetmm_prefetch(p.ctx, at + 4 * PAGE, 1, write), -EFAULT);
    CHECK_RET(unetmm_prefetch(p.ctx, at + 5 * PAGE, 1, 0), -EFAULT);
    CHECK_RET(unetmm_prefetch(p.ctx, at + 6 * PAGE, 1, 0), -EFAULT);
    CHECK_RET(unetmm_prefetch(p.ctx, at + 4 * PAGE, 4 * PAGE,
                              UNETMM_PREFETCH_NO_FAULT), 4 * PAGE);
    CHECK_RET(unetmm_prefetch(p.ctx, NULL, 1, 0), -EFAULT);
    CHECK_RET(unetmm_prefetch(p.ctx, at, 0, 0), -EINVAL);
    CHECK_RET(unetmm_prefetch(p.ctx, at, SIZE_MAX, 0), -EINVAL);
    CHECK_RET(unetmm_prefetch(p.ctx, (void *)UINTPTR_MAX, 2, 0), -EINVAL);
    CHECK_RET(unetmm_prefetch(p.ctx, (void *)(1ull << 63), 1, 0), -EINVAL);
    CHECK_RET(unetmm_prefetch(p.ctx, at, 1, 4), -EOPNOTSUPP);
    CHECK_RET(unetmm_prefetch(p.ctx, at, 1, ~0u), -EOPNOTSUPP);
    /* The queues are the kernel's memory. */
    CHECK_RET(unetmm_prefetch(p.ctx, p.one.ep->index, 1, 0), -EOPNOTSUPP);
    CHECK_SYS(munmap(at, 8 * PAGE));
    pair_close(&p);
}

/* However much is asked for, a call ends soon. */
TEST(prefetch_bounded, TEST_ODP)
{
    const size_t vast = (size_t)64 << 30;
    struct unetmm_prefetch prefetch = {
        .size = sizeof(prefetch), .flags = UNETMM_PREFETCH_NO_FAULT,
        .length = vast,
    };
    struct raw raw;
    uint8_t *at;

    raw_open(&raw);
    at = CHECK_SYS(mmap(NULL, vast, PROT_READ | PROT_WRITE, MAP_PRIVATE |
                        MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    prefetch.addr = (uintptr_t)at;
    CHECK_RET(raw_ioctl(raw.fd, UNETMM_IOC_PREFETCH, &prefetch), 0);
    CHECK(prefetch.done && prefetch.done <= (64u << 20));
    CHECK_SYS(munmap(at, vast));
    raw_close(&raw);
}

/* Lent for reading first; a message that comes for it is a fault, and no more. */
TEST(upgraded, TEST_ODP)
{
    uint8_t *from = small_pages(4), *to = small_pages(4);
    struct pair p;
    uint64_t before;

    pair_open(&p);
    pattern_fill(to, 4 * PAGE, 7, 0);
    pass_pattern(&p, to, from, 4 * PAGE, 7);
    CHECK(!(entry_at(&p.look, to) & UNETMM_PTE_WRITE));
    before = driver_counter(p.ctx, UNETMM_D_odp_upgraded);
    pass_pattern(&p, from, to, 4 * PAGE, 8);
    CHECK(entry_at(&p.look, to) & UNETMM_PTE_WRITE);
    CHECK_EQ(driver_counter(p.ctx, UNETMM_D_odp_upgraded) - before, 4);
    unmap_pages(from, 4);
    unmap_pages(to, 4);
    pair_close(&p);
}

/* Memory that may only be read is sent from, and not received into. */
TEST(read_only, TEST_ODP)
{
    uint8_t *from = small_pages(2), *to = small_pages(2);
    struct unetmm_completion c;
    struct pair p;

    pair_open(&p);
    pattern_fill(from, 2 * PAGE, 3, 0);
    CHECK_SYS(mprotect(from, 2 * PAGE, PROT_READ));
    pass(&p, from, to, 2 * PAGE);
    CHECK_PATTERN(to, 2 * PAGE, 3);
    post(&p.two, from, PAGE, 9);
    take(&p.two, UNETMM_CQE_BUFFER, &c);
    CHECK_EQ(c.status, UNETMM_ST_PROTECTION);
    CHECK_EQ(c.user_data, 9);
    CHECK_PATTERN(from, 2 * PAGE, 3);
    unmap_pages(from, 2);
    unmap_pages(to, 2);
    pair_close(&p);
}

/* ---- Invalidation -------------------------------------------------------------------- */

/* When the call is over that takes memory away, the table does not have it. */
TEST(taken_at_once, TEST_ODP)
{
    uint8_t *from = small_pages(2), *at = small_pages(2), *to = small_pages(2);
    struct pair p;
    unsigned i;

    pair_open(&p);
    for (i = 0; i < rounds(20); i++) {
        pass_pattern(&p, from, at, 2 * PAGE, i);
        CHECK_EQ(count_entries(&p.look, at, 2), 2);
        CHECK_SYS(madvise(at, PAGE, MADV_DONTNEED));
        CHECK_EQ(entry_at(&p.look, at), 0);
        pass_pattern(&p, from, at, 2 * PAGE, ~(uint64_t)i);
        CHECK_SYS(mremap(at, 2 * PAGE, 2 * PAGE,
                         MREMAP_MAYMOVE | MREMAP_FIXED, to));
        CHECK_EQ(count_entries(&p.look, at, 2), 0);
        pass_pattern(&p, from, to, 2 * PAGE, i);
        CHECK_SYS(mremap(to, 2 * PAGE, 2 * PAGE,
                         MREMAP_MAYMOVE | MREMAP_FIXED, at));
        CHECK_EQ(count_entries(&p.look, to, 2), 0);
    }
    unmap_pages(at, 2);
    unmap_pages(from, 2);
    pair_close(&p);
}

#define POISONED        16u     /* pages */

/* How many of the frames have gone to `at`. */
static unsigned reused(const struct look *look, const uint64_t *frames,
                       const uint8_t *at)
{
    unsigned i, j, n = 0;

    for (i = 0; i < POISONED; i++) {
        uint64_t frame = frame_of(look, at + i * PAGE);

        for (j = 0; frame && j < POISONED; j++) {
            n += frames[j] == frame;
        }
    }
    return n;
}

/*
 * The buffer's old page is somebody else's now: the card has written there before,
 * and is to write to the buffer again.
 */
static unsigned poison_once(struct pair *p, uint8_t *from, uint8_t *to,
                            uint64_t key)
{
    uint8_t *poison = small_pages(POISONED);
    uint64_t frames[POISONED];
    unsigned i, n;

    pass_pattern(p, from, to, POISONED * PAGE, key);
    for (i = 0; i < POISONED; i++) {
        frames[i] = frame_of(&p->look, to + i * PAGE);
    }
    CHECK_SYS(madvise(to, POISONED * PAGE, MADV_DONTNEED));
    memset(poison, 0x5a, POISONED * PAGE);
    n = reused(&p->look, frames, poison);
    pass_pattern(p, from, to, POISONED * PAGE, ~key);
    CHECK_BYTES(poison, POISONED * PAGE, 0x5a);
    unmap_pages(poison, POISONED);
    return n;
}

TEST(poisoned, TEST_ODP)
{
    uint8_t *from = small_pages(POISONED), *to = small_pages(POISONED);
    unsigned i, n = 0;
    struct pair p;

    pair_open(&p);
    for (i = 0; i < rounds(20) || (!n && i < 10 * rounds(20)); i++) {
        n += poison_once(&p, from, to, i);
    }
    note("%u frames were somebody else's afterwards", n);
    CHECK(n);
    unmap_pages(from, POISONED);
    unmap_pages(to, POISONED);
    pair_close(&p);
}

/* ---- Files --------------------------------------------------------------------------- */

/* The card's writes are in the file, and it sends the file's bytes. */
static void file_both_ways(int fd, unsigned n)
{
    uint8_t *from = small_pages(n), *map, *copy = small_pages(n);
    struct pair p;

    CHECK_SYS(ftruncate(fd, (off_t)(n * PAGE)));
    map = mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(map != MAP_FAILED);
    pair_open(&p);
    pass_pattern(&p, from, map, n * PAGE, 21);
    CHECK_EQ(pread(fd, copy, n * PAGE, 0), n * PAGE);
    CHECK_PATTERN(copy, n * PAGE, 21);
    pattern_fill(from, n * PAGE, 22, 0);
    CHECK_EQ(pwrite(fd, from, n * PAGE, 0), n * PAGE);
    pass(&p, map, copy, n * PAGE);
    CHECK_PATTERN(copy, n * PAGE, 22);
    /* Cut off under the card: beyond the end there is no memory any more. */
    CHECK_SYS(ftruncate(fd, (off_t)PAGE));
    CHECK_EQ(count_entries(&p.look, map + PAGE, n - 1), 0);
    pass(&p, map, copy, PAGE);
    CHECK_EQ(send_status(&p.one, map + PAGE, PAGE), UNETMM_ST_PROTECTION);
    CHECK_SYS(munmap(map, n * PAGE));
    unmap_pages(from, n);
    unmap_pages(copy, n);
    pair_close(&p);
    close(fd);
}

TEST(shmem, TEST_ODP)
{
    file_both_ways(CHECK_SYS(memfd_create("odp", 0)), 8);
}

TEST(file, TEST_ODP)
{
    char name[] = "/tmp/odp.XXXXXX";
    int fd = CHECK_SYS(mkstemp(name));

    CHECK_SYS(unlink(name));
    file_both_ways(fd, 8);
}
