/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sources shadow and odp while Linux does to memory all that it may do: nothing is pinned,
 * so that everything succeeds, under traffic, and no byte is lost.
 *
 * Each test does one family of things to the mill's field (mill.h) until they are
 * seen to have happened, by the kernel's numbers or by the pages' frames, however
 * fast the machine is: the number of tries bounds it.
 */
#include "card.h"
#include "group.h"
#include "guard.h"
#include "mill.h"
#include "swap.h"
#include "watch.h"

#include <unetmm_hw.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE   25
#endif
#ifndef MADV_SOFT_OFFLINE
#define MADV_SOFT_OFFLINE 101
#endif

#define MOST            24u     /* pages that one thing is done to */
#define SWAPPED(entry)  ((entry) >> 62 & 1)

static struct mill mill;

/*
 * Does something, as often as `n` in an ordinary run, and goes on until `proof`
 * holds, which has to be after eight times as many. The proof is asked for once a try:
 * its answer about huge pages, say, khugepaged can change at any time.
 */
#define PROVOKE(n, act, proof) \
    do { \
        unsigned done_ = 0, least_ = rounds(n); \
        bool seen_ = false; \
        while (done_ < least_ || (!seen_ && done_ < 8 * least_ + 64)) { \
            act; \
            done_++; \
            seen_ = (proof); \
        } \
        if (!seen_) { \
            FAIL("not once in %u tries: %s", done_, #proof); \
        } \
    } while (0)

/* ---- Swap -------------------------------------------------------------------- */

static unsigned in_swap(unsigned first, unsigned n)
{
    uint64_t map[FIELD];
    unsigned i, count = 0;

    CHECK_EQ(pread(mill.look.pagemap, map, n * sizeof(map[0]),
                   (off_t)((uintptr_t)mill_page(&mill, first) / PAGE *
                           sizeof(map[0]))), n * sizeof(map[0]));
    for (i = 0; i < n; i++) {
        count += SWAPPED(map[i]);
    }
    return count;
}

/* Users of the pages at that moment do not matter: they come back as they were. */
static unsigned send_away(struct chance *chance)
{
    unsigned n = 1 + chance_below(chance, MOST);
    unsigned first = chance_below(chance, FIELD - n + 1);

    CHECK_SYS(madvise(mill_page(&mill, first), n * PAGE, MADV_PAGEOUT));
    return in_swap(first, n);
}

static void swap_in_and_out(void (*on)(void))
{
    unsigned gone = 0, left;
    struct chance chance;

    chance_init(&chance, 1);
    on();
    mill_start(&mill);
    PROVOKE(60, gone += send_away(&chance), gone >= rounds(60));
    mill_await(&mill, rounds(20));
    /* All at once; then some of it is there when swap is taken away. */
    CHECK_SYS(madvise(mill.field, FIELD * PAGE, MADV_PAGEOUT));
    PROVOKE(1, (void)send_away(&chance), (left = in_swap(0, FIELD)) > 0);
    swap_off();
    CHECK_EQ(in_swap(0, FIELD), 0);
    note("%u pages sent to swap, %u brought back by swapoff", gone, left);
    mill_end(&mill);
}

TEST(zram, TEST_SHADOW | TEST_ODP)
{
    swap_in_and_out(swap_on_zram);
}

TEST(disk, TEST_SHADOW | TEST_ODP)
{
    swap_in_and_out(swap_on_disk);
}

/* ---- A limit ------------------------------------------------------------------ */

struct group {
    const char *file, *word;
    long long bytes;
    unsigned long long seen;
    unsigned swaps;
};

/* Processes that sleep to the end make room: then there are fewer of them. */
static void group_squeeze(struct group *g)
{
    unsigned long long now;

    mill_await(&mill, rounds(5));
    now = group_event(g->word);
    if (now == g->seen) {
        g->bytes -= 16 * (long long)PAGE;
        group_limit(g->file, g->bytes);
    }
    g->seen = now;
    g->swaps += in_swap(0, FIELD);
}

static void group_press(const char *file, const char *word, long long bytes)
{
    struct group g = { file, word, bytes, group_event(word), 0 };
    unsigned long long before = g.seen;

    group_limit(file, bytes);
    PROVOKE(3, group_squeeze(&g), g.seen > before + 5 && g.swaps);
    note("%s: reached %llu times", word, g.seen - before);
    group_limit(file, 0);
}

TEST(limit, TEST_SHADOW | TEST_ODP)
{
    long long now;

    swap_on_zram();
    /* A huge page that is in use cannot make room: Linux would kill us instead. */
    CHECK_SYS(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0));
    group_enter("press");
    mill_start(&mill);
    /* All that we have but for a part of the field. */
    now = group_now("memory.current") - (long long)(FIELD / 4 * PAGE);
    group_press("memory.max", "max", now);
    group_press("memory.high", "high", now);
    CHECK_EQ(group_event("oom_kill"), 0);
    mill_end(&mill);
    swap_off();
}

/* ---- The process's own calls ------------------------------------------------- */

static void throw_away(struct chance *chance)
{
    unsigned n = 1 + chance_below(chance, MOST);
    unsigned i, first = mill_take_some(&mill, chance, n);
    uint8_t *at = mill_page(&mill, first);

    CHECK_SYS(madvise(at, n * PAGE, MADV_DONTNEED));
    CHECK_EQ(count_entries(&mill.look, at, n), 0);
    for (i = 0; i < n; i++) {
        CHECK_EQ(frame_of(&mill.look, at + i * PAGE), 0);
    }
    if (chance_below(chance, 2)) {
        CHECK_BYTES(at, n * PAGE, 0);
    }
    mill_fill_by_card(&mill, first, n);
    mill_give(&mill, first, n);
}

static struct {
    unsigned dropped, kept, through_swap;
} freed;

/*
 * Pages that the process has given up and the card has written then must survive
 * reclaim; the other pages are dropped, which shows that reclaim ran.
 */
static void give_up(struct chance *chance)
{
    unsigned n = 8, half = n / 2, i, first = mill_take_some(&mill, chance, n);
    uint8_t *at = mill_page(&mill, first);

    mill_fill(&mill, first, n);
    CHECK_SYS(madvise(at, n * PAGE, MADV_FREE));
    /* The second call makes this processor's batch of the first one take effect. */
    CHECK_SYS(madvise(at, n * PAGE, MADV_FREE));
    mill_fill_by_card(&mill, first, half);
    /* At first it is found out that they are wanted, then they are sent away. */
    for (i = 0; i < 4; i++) {
        CHECK_SYS(madvise(at, n * PAGE, MADV_PAGEOUT));
    }
    freed.through_swap += in_swap(first, half);
    mill_check(&mill, first, half);
    for (i = half; i < n; i++) {
        if (!frame_of(&mill.look, at + i * PAGE) && !in_swap(first + i, 1)) {
            CHECK_BYTES(at + i * PAGE, PAGE, 0);
            freed.dropped++;
        } else {
            freed.kept++;
        }
    }
    mill_fill(&mill, first + half, half);
    mill_give(&mill, first, n);
}

static void lock_up(struct chance *chance)
{
    unsigned n = 1 + chance_below(chance, MOST);
    unsigned first = mill_take_some(&mill, chance, n);
    uint8_t *at = mill_page(&mill, first);

    CHECK_SYS(mprotect(at, n * PAGE, PROT_READ));
    CHECK(!(entry_at(&mill.look, at) & UNETMM_PTE_WRITE));
    post(mill.own.rx, at, PAGE, 7);
    CHECK_EQ(provoke_return(&mill.own, NULL, at, PAGE, 7), UNETMM_ST_PROTECTION);
    CHECK_SYS(mprotect(at, n * PAGE, PROT_NONE));
    CHECK_EQ(count_entries(&mill.look, at, n), 0);
    CHECK_EQ(send_status(mill.own.tx, at, PAGE), UNETMM_ST_PROTECTION);
    CHECK_SYS(mprotect(at, n * PAGE, PROT_READ | PROT_WRITE));
    mill_check(&mill, first, n);
    mill_fill_by_card(&mill, first, 1);
    mill_give(&mill, first, n);
}

/* To another address and back; nothing else can come where it was. */
static void move_about(struct chance *chance)
{
    unsigned n = 1 + chance_below(chance, MOST);
    unsigned first = mill_take_some(&mill, chance, n);
    uint8_t *at = mill_page(&mill, first), *aside = pages(n);
    struct iovec iov = { aside, PAGE };
    struct unetmm_completion c;

    CHECK_SYS(mremap(at, n * PAGE, n * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED |
                     MREMAP_DONTUNMAP, aside));
    CHECK_EQ(count_entries(&mill.look, at, n), 0);
    exchange(&mill.own, &iov, 1, mill.from, PAGE, &c);
    CHECK_PATTERN(mill.from, PAGE, mill.keys[first]);
    CHECK_SYS(mremap(aside, n * PAGE, n * PAGE,
                     MREMAP_MAYMOVE | MREMAP_FIXED, at));
    CHECK_EQ(count_entries(&mill.look, aside, n), 0);
    mill_check(&mill, first, n);
    mill_give(&mill, first, n);
}

struct heir {
    unsigned first, n;
    uint64_t keys[MOST];
    atomic_bool *go;
};

/* It has the pages as they were, whatever the card does to its parent's. */
static void heir_main(void *argument)
{
    const struct heir *heir = argument;
    uint64_t end = deadline_in(20);
    unsigned i;

    while (!atomic_load(heir->go)) {
        CHECK(now_ns() < end);
        breathe();
    }
    for (i = 0; i < heir->n; i++) {
        CHECK_PATTERN(mill_page(&mill, heir->first + i), PAGE, heir->keys[i]);
    }
}

static void inherit(struct chance *chance)
{
    static atomic_bool *go;
    struct heir heir = { .n = 1 + chance_below(chance, MOST) };
    pid_t pid;

    go = go ? go : shared_memory(sizeof(*go));
    atomic_store(go, false);
    heir.go = go;
    heir.first = mill_take_some(&mill, chance, heir.n);
    memcpy(heir.keys, &mill.keys[heir.first], heir.n * sizeof(heir.keys[0]));
    pid = start_process(heir_main, &heir);
    mill_fill_by_card(&mill, heir.first, heir.n);
    mill_check(&mill, heir.first, heir.n);
    atomic_store(go, true);
    mill_give(&mill, heir.first, heir.n);
    end_process(pid);
}

TEST(own_doing, TEST_SHADOW | TEST_ODP)
{
    struct chance chance;

    chance_init(&chance, 2);
    memset(&freed, 0, sizeof(freed));
    swap_on_zram();
    mill_start(&mill);
    PROVOKE(12, throw_away(&chance), true);
    PROVOKE(12, give_up(&chance), freed.dropped && freed.through_swap);
    note("given up: %u pages dropped, %u not; %u that the card had written went "
         "to swap", freed.dropped, freed.kept, freed.through_swap);
    PROVOKE(12, lock_up(&chance), true);
    PROVOKE(12, move_about(&chance), true);
    PROVOKE(4, inherit(&chance), true);
    mill_end(&mill);
    swap_off();
}

/* ---- Prefetches -------------------------------------------------------------- */

/* Of pages that are in use, and that others take away meanwhile. */
static unsigned ahead(struct chance *chance)
{
    unsigned n = 1 + chance_below(chance, 4 * MOST);
    unsigned first = chance_below(chance, FIELD - n + 1);
    ssize_t ret = unetmm_prefetch(mill.ctx, mill_page(&mill, first), n * PAGE,
                                  chance_below(chance, 4));

    /* Memory that changes all the time may have to be left at that. */
    CHECK(ret > 0 || ret == -EAGAIN);
    if (chance_below(chance, 2)) {
        throw_away(chance);
    } else {
        (void)send_away(chance);
    }
    return ret > 0 ? (unsigned)(ret / (ssize_t)PAGE) : 0;
}

TEST(prefetched, TEST_SHADOW | TEST_ODP)
{
    unsigned got = 0;
    struct chance chance;

    chance_init(&chance, 7);
    swap_on_zram();
    mill_start(&mill);
    PROVOKE(24, got += ahead(&chance), got);
    note("%u pages asked for ahead", got);
    mill_end(&mill);
    swap_off();
}

/* ---- Huge pages --------------------------------------------------------------- */

static unsigned field_kilobytes(void)
{
    return huge_kilobytes(mill.field, FIELD * PAGE);
}

static void collapse(void)
{
    int error = madvise(mill.field, FIELD * PAGE, MADV_COLLAPSE) ? errno : 0;

    if (error == EINVAL) {
        test_skip("this kernel makes no huge page when it is asked to");
    }
    /* Others: somebody has a page just now. */
    CHECK(!error || error == EAGAIN || error == EBUSY || error == ENOMEM);
}

static void split_by_debugfs(struct chance *chance)
{
    char text[100];
    int ret;

    (void)chance;
    snprintf(text, sizeof(text), "%d,%#lx,%#lx", getpid(),
             (unsigned long)mill.field,
             (unsigned long)(mill.field + FIELD * PAGE));
    ret = write_file("/sys/kernel/debug/split_huge_pages", text);
    CHECK(!ret || ret == -ENOENT || ret == -EAGAIN);
    if (ret == -ENOENT) {
        throw_away(chance);
    }
}

static void split_by_unmapping(struct chance *chance)
{
    unsigned n = 1 + chance_below(chance, MOST);
    unsigned first = mill_take_some(&mill, chance, n);
    uint8_t *at = mill_page(&mill, first);

    CHECK_SYS(mmap(at, n * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE |
                   MAP_ANONYMOUS | MAP_FIXED, -1, 0));
    CHECK_EQ(count_entries(&mill.look, at, n), 0);
    mill_fill_by_card(&mill, first, n);
    mill_give(&mill, first, n);
}

static void split_by_swapping(struct chance *chance)
{
    (void)send_away(chance);
}

TEST(huge, TEST_SHADOW | TEST_ODP)
{
    static void (*const split[])(struct chance *chance) = {
        split_by_debugfs, split_by_unmapping, lock_up, throw_away,
        split_by_swapping,
    };
    unsigned i, n = rounds(10) < 5 ? 5 : rounds(10);
    struct chance chance;

    chance_init(&chance, 3);
    swap_on_zram();
    mill_start(&mill);
    for (i = 0; i < n; i++) {
        PROVOKE(1, collapse(), field_kilobytes() == FIELD * 4);
        mill_await(&mill, 2);
        PROVOKE(1, split[i % 5](&chance), field_kilobytes() == 0);
        mill_await(&mill, 2);
    }
    note("%u times one huge page, and small ones again", n);
    mill_end(&mill);
    swap_off();
}

/* ---- Other frames --------------------------------------------------------------- */

static void frames(uint64_t *frame)
{
    unsigned i;

    for (i = 0; i < FIELD; i++) {
        frame[i] = frame_of(&mill.look, mill_page(&mill, i));
    }
}

/* Leaves holes everywhere, for pages to be moved to. */
static void compact(void)
{
    const unsigned npages = 1024;
    uint8_t *at = pages(npages);
    unsigned i;

    CHECK_SYS(madvise(at, npages * PAGE, MADV_NOHUGEPAGE));
    touch(at, npages, true);
    for (i = 0; i < npages; i += 2) {
        CHECK_SYS(madvise(at + i * PAGE, PAGE, MADV_DONTNEED));
    }
    if (write_file("/proc/sys/vm/compact_memory", "1")) {
        test_skip("this kernel does not compact memory");
    }
    unmap_pages(at, npages);
}

static unsigned compacted(void)
{
    static uint64_t before[FIELD], after[FIELD];
    unsigned i, changed = 0;

    frames(before);
    compact();
    frames(after);
    for (i = 0; i < FIELD; i++) {
        changed += before[i] && after[i] && before[i] != after[i];
    }
    return changed;
}

/* One page that is given up as if it were about to fail. */
static unsigned replaced(struct chance *chance)
{
    unsigned page = chance_below(chance, FIELD);
    uint8_t *at = mill_page(&mill, page);
    uint64_t before;

    (void)*(volatile uint8_t *)at;
    before = frame_of(&mill.look, at);
    /* Others have it: it stays where it is. */
    if (!before || madvise(at, PAGE, MADV_SOFT_OFFLINE)) {
        return 0;
    }
    return frame_of(&mill.look, at) != before;
}

TEST(migrated, TEST_SHADOW | TEST_ODP)
{
    unsigned moved = 0;

    mill_start(&mill);
    PROVOKE(1, moved += compacted(), moved);
    note("compaction has moved %u pages", moved);
    mill_end(&mill);
}

/* One after another, each as if it were about to fail. */
TEST(given_up, TEST_SHADOW | TEST_ODP)
{
    unsigned new = 0;
    struct chance chance;

    chance_init(&chance, 4);
    mill_start(&mill);
    if (madvise(mill.field, PAGE, MADV_SOFT_OFFLINE) && errno == EINVAL) {
        test_skip("this kernel gives up no page (CONFIG_MEMORY_FAILURE)");
    }
    PROVOKE(8, new += replaced(&chance), new);
    note("%u pages were replaced", new);
    mill_end(&mill);
}

/* ---- Pages that are the same ------------------------------------------------------ */

#define KSM             "/sys/kernel/mm/ksm/"
#define SAME            8u

static bool all_one(unsigned first)
{
    uint64_t frame = frame_of(&mill.look, mill_page(&mill, first));
    unsigned i;

    for (i = 1; i < SAME; i++) {
        if (frame_of(&mill.look, mill_page(&mill, first + i)) != frame) {
            return false;
        }
    }
    return frame != 0;
}

/* Makes some pages the same until they are one; then the card parts them. */
static void merge(struct chance *chance)
{
    unsigned i, first = mill_take_some(&mill, chance, SAME);

    mill_fill(&mill, first, 1);
    for (i = 1; i < SAME; i++) {
        memcpy(mill_page(&mill, first + i), mill_page(&mill, first), PAGE);
        mill.keys[first + i] = mill.keys[first];
    }
    EVENTUALLY(all_one(first));
    for (i = 0; i < SAME; i++) {
        CHECK(!(entry_at(&mill.look, mill_page(&mill, first + i)) &
                UNETMM_PTE_WRITE));
    }
    mill_fill_by_card(&mill, first, SAME / 2);
    mill_check(&mill, first, SAME);
    mill_give(&mill, first, SAME);
}

TEST(merged, TEST_SHADOW | TEST_ODP)
{
    struct chance chance;

    chance_init(&chance, 5);
    mill_start(&mill);
    if (madvise(mill.field, FIELD * PAGE, MADV_MERGEABLE) ||
        write_file(KSM "sleep_millisecs", "1") ||
        write_file(KSM "pages_to_scan", "1000") ||
        write_file(KSM "run", "1")) {
        test_skip("this kernel merges no pages");
    }
    PROVOKE(4, merge(&chance), true);
    note("%u pages made one, %u times", SAME, rounds(4));
    /* All are parted again. */
    CHECK_RET(write_file(KSM "run", "2"), 0);
    CHECK_RET(write_file(KSM "run", "0"), 0);
    mill_end(&mill);
}

/* ---- Faults that others answer ------------------------------------------------------ */

struct answerer {
    struct watch watch;
    pthread_t thread;
    atomic_bool stop;
    atomic_uint brought, allowed;
};

/* Answers with the contents that the mill remembers. */
static void *answer(void *argument)
{
    static uint8_t bytes[UNETMM_PAGE_BYTES] __attribute__((aligned(4096)));
    struct answerer *a = argument;
    unsigned page;
    bool protect;

    while (!atomic_load(&a->stop)) {
        if (!watch_wanted(&a->watch, 10, &page, &protect)) {
            continue;
        }
        if (protect) {
            watch_protect(&a->watch, page, 1, false);
            atomic_fetch_add(&a->allowed, 1);
        } else {
            pattern_fill(bytes, PAGE, mill.keys[page], 0);
            atomic_fetch_add(&a->brought, watch_bring(&a->watch, page, bytes));
        }
    }
    return NULL;
}

static void hide(struct answerer *a, struct chance *chance)
{
    unsigned n = 1 + chance_below(chance, MOST);
    unsigned first = mill_take_some(&mill, chance, n);

    CHECK_SYS(madvise(mill_page(&mill, first), n * PAGE, MADV_DONTNEED));
    mill_give(&mill, first, n);
    /* Of pages that are in use, too. */
    n = 1 + chance_below(chance, MOST);
    watch_protect(&a->watch, chance_below(chance, FIELD - n + 1), n, true);
    mill_await(&mill, 1);
}

TEST(watched, TEST_SHADOW | TEST_ODP)
{
    static struct answerer a;
    struct chance chance;

    chance_init(&chance, 6);
    memset(&a, 0, sizeof(a));
    mill_start(&mill);
    watch_start(&a.watch, mill.field, FIELD, UFFDIO_REGISTER_MODE_MISSING |
                UFFDIO_REGISTER_MODE_WP);
    CHECK_EQ(pthread_create(&a.thread, NULL, answer, &a), 0);
    PROVOKE(40, hide(&a, &chance), atomic_load(&a.brought) >= rounds(40) &&
            atomic_load(&a.allowed) >= rounds(40));
    mill_rest(&mill);
    atomic_store(&a.stop, true);
    CHECK_EQ(pthread_join(a.thread, NULL), 0);
    note("%u pages brought, %u given back the right to be written",
         atomic_load(&a.brought), atomic_load(&a.allowed));
    watch_end(&a.watch);
    mill_end(&mill);
}
