/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Source shadow: the pages of the table are resident (always), and the table has the
 * resident pages (as far as Linux reports them).
 *
 * The tests look at table and residency from outside: the table by the driver's debugfs, residency
 * by /proc/self/pagemap.  A state that is equal before and after a look, with
 * no invalidation begun or ended meanwhile, held during the look.
 */
#include "card.h"
#include "guard.h"
#include "link.h"
#include "look.h"
#include "process.h"
#include "swap.h"
#include "traffic.h"

#include <errno.h>
#include <linux/capability.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <unetmm_hw.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE   25
#endif

#define AREA            LOOK_PAGES      /* that the stress is about */

/* ---- Presence and absence ---------------------------------------------------- */

static void do_nothing(void *argument)
{
    (void)argument;
}

/* Page faults are enough: the card has never asked for any of these. */
TEST(pushed, TEST_SHADOW)
{
    struct look look;
    struct unetmm_ctx *ctx = look_open(&look);
    uint64_t faults = driver_counter(ctx, UNETMM_D_faults);
    struct tally tally = { 0 };
    uint8_t *at = pages(AREA);

    CHECK_EQ(count_entries(&look, at, AREA), 0);
    touch(at, AREA, true);
    EVENTUALLY(count_entries(&look, at, AREA) == AREA);
    CHECK(entry_at(&look, at) & UNETMM_PTE_WRITE);
    CHECK_EQ(driver_counter(ctx, UNETMM_D_faults), faults);
    EVENTUALLY(look_once(&look, at, AREA, &tally));
    CHECK_EQ(tally.both, AREA);
    unmap_pages(at, AREA);
    look_close(&look);
    CHECK_RET(unetmm_close(ctx), 0);
}

/* Pages that were resident before are entered, too. */
TEST(at_first, TEST_SHADOW)
{
    uint8_t *at = pages(AREA), *huge = pages(1024);
    struct unetmm_ctx *ctx;
    struct look look;

    touch(at, AREA, true);
    CHECK_SYS(madvise(huge, 1024 * PAGE, MADV_HUGEPAGE));
    touch(huge, 1024, true);
    ctx = look_open(&look);
    EVENTUALLY(count_entries(&look, at, AREA) == AREA);
    EVENTUALLY(count_entries(&look, huge, 1024) == 1024);
    unmap_pages(at, AREA);
    CHECK_EQ(count_entries(&look, at, AREA), 0);
    unmap_pages(huge, 1024);
    CHECK_EQ(count_entries(&look, huge, 1024), 0);
    look_close(&look);
    CHECK_RET(unetmm_close(ctx), 0);
}

/* A page that is only read has no right to write until it is written. */
TEST(rights, TEST_SHADOW)
{
    struct look look;
    struct unetmm_ctx *ctx = look_open(&look);
    uint8_t *at = pages(1);

    touch(at, 1, false);
    EVENTUALLY(entry_at(&look, at) & UNETMM_PTE_VALID);
    CHECK(!(entry_at(&look, at) & UNETMM_PTE_WRITE));
    touch(at, 1, true);
    EVENTUALLY(entry_at(&look, at) & UNETMM_PTE_WRITE);
    CHECK_SYS(mprotect(at, PAGE, PROT_READ));
    CHECK(!(entry_at(&look, at) & UNETMM_PTE_WRITE));
    CHECK_SYS(mprotect(at, PAGE, PROT_NONE));
    CHECK_EQ(entry_at(&look, at), 0);
    unmap_pages(at, 1);
    look_close(&look);
    CHECK_RET(unetmm_close(ctx), 0);
}

/* Pages that a fork or mprotect() has taken out and left resident are entered again. */
TEST(comes_back, TEST_SHADOW)
{
    struct look look;
    struct unetmm_ctx *ctx = look_open(&look);
    uint8_t *at = pages(AREA);
    unsigned i;

    touch(at, AREA, true);
    EVENTUALLY(count_entries(&look, at, AREA) == AREA);
    for (i = 0; i < rounds(5); i++) {
        end_process(start_process(do_nothing, NULL));
        EVENTUALLY(count_entries(&look, at, AREA) == AREA);
        CHECK_SYS(mprotect(at, AREA * PAGE, PROT_READ));
        EVENTUALLY(count_entries(&look, at, AREA) == AREA);
        CHECK(!(entry_at(&look, at) & UNETMM_PTE_WRITE));
        CHECK_SYS(mprotect(at, AREA * PAGE, PROT_READ | PROT_WRITE));
        touch(at, AREA, true);
        EVENTUALLY(entry_at(&look, at) & UNETMM_PTE_WRITE);
    }
    unmap_pages(at, AREA);
    look_close(&look);
    CHECK_RET(unetmm_close(ctx), 0);
}

/* A huge page of which a part is given away leaves many small ones. */
TEST(split, TEST_SHADOW)
{
    struct look look;
    struct unetmm_ctx *ctx = look_open(&look);
    uint8_t *map = pages(1024), *at = map;
    unsigned i;

    at += (512 * PAGE - (uintptr_t)at % (512 * PAGE)) % (512 * PAGE);
    for (i = 0; i < rounds(5); i++) {
        touch(at, 512, true);
        EVENTUALLY(!madvise(at, 512 * PAGE, MADV_COLLAPSE) ||
                   errno == EINVAL);
        EVENTUALLY(count_entries(&look, at, 512) == 512);
        CHECK_SYS(madvise(at + (i + 1) * PAGE, PAGE, MADV_DONTNEED));
        /* Those beside it were changing when they were looked at. */
        EVENTUALLY(count_entries(&look, at, 512) >= 511 - 16);
        CHECK_SYS(madvise(at, 512 * PAGE, MADV_DONTNEED));
        CHECK_EQ(count_entries(&look, at, 512), 0);
    }
    unmap_pages(map, 1024);
    look_close(&look);
    CHECK_RET(unetmm_close(ctx), 0);
}

/* When the call is over that takes memory away, the table does not have it. */
TEST(taken_at_once, TEST_SHADOW)
{
    struct look look;
    struct unetmm_ctx *ctx = look_open(&look);
    uint8_t *at = pages(2), *to = pages(2);
    unsigned i;

    for (i = 0; i < rounds(20); i++) {
        /* Pages that mremap() has brought back have come without a fault. */
        CHECK_SYS(madvise(at, 2 * PAGE, MADV_DONTNEED));
        touch(at, 2, true);
        EVENTUALLY(count_entries(&look, at, 2) == 2);
        CHECK_SYS(madvise(at, PAGE, MADV_DONTNEED));
        CHECK_EQ(entry_at(&look, at), 0);
        touch(at, 2, true);
        CHECK_SYS(mremap(at, 2 * PAGE, 2 * PAGE,
                         MREMAP_MAYMOVE | MREMAP_FIXED, to));
        CHECK_EQ(count_entries(&look, at, 2), 0);
        CHECK_SYS(mremap(to, 2 * PAGE, 2 * PAGE,
                         MREMAP_MAYMOVE | MREMAP_FIXED, at));
        CHECK_EQ(count_entries(&look, to, 2), 0);
    }
    unmap_pages(at, 2);
    look_close(&look);
    CHECK_RET(unetmm_close(ctx), 0);
}

/* A page that is in the table can be swapped out: nothing holds it. */
TEST(not_pinned, TEST_SHADOW | TEST_ODP)
{
    struct look look;
    struct unetmm_ctx *ctx = look_open(&look);
    uint8_t *at = pages(16), *to = pages(16);
    struct iovec iov = { at, 4096 };
    struct unetmm_completion c;
    struct link link;
    uint64_t pinned;
    unsigned i;

    swap_on();
    link_open(&link, ctx, NULL);
    pinned = driver_counter(ctx, UNETMM_D_pinned_now);
    for (i = 0; i < rounds(20); i++) {
        pattern_fill(at, 4096, i, 0);
        exchange(&link, &iov, 1, to, PAGE, &c);
        CHECK_PATTERN(to, 4096, i);
        CHECK_EQ(driver_counter(ctx, UNETMM_D_pinned_now), pinned);
        EVENTUALLY(page_out(at, 1) && page_out(to, 1));
        CHECK_EQ(entry_at(&look, at), 0);
        CHECK_EQ(entry_at(&look, to), 0);
        /* The card's bytes come back. */
        CHECK_PATTERN(to, 4096, i);
    }
    link_close(&link);
    look_close(&look);
    swap_off();
    CHECK_RET(unetmm_close(ctx), 0);
}

/* ---- The probe is there only while somebody wants it ------------------------------- */

static bool probe_is_there(void)
{
    FILE *file = fopen("/sys/kernel/debug/kprobes/list", "r");
    bool there = false;
    char line[200];

    if (!file) {
        test_skip("this kernel does not list its probes");
    }
    while (fgets(line, sizeof(line), file)) {
        there |= strstr(line, "handle_mm_fault") != NULL;
    }
    fclose(file);
    return there;
}

TEST(armed, TEST_SHADOW)
{
    struct unetmm_ctx *one, *two;

    CHECK(!probe_is_there());
    one = open_card();
    CHECK(probe_is_there());
    two = open_card();
    CHECK_RET(unetmm_close(one), 0);
    CHECK(probe_is_there());
    CHECK_RET(unetmm_close(two), 0);
    CHECK(!probe_is_there());
    CHECK_RET(unetmm_open(NULL, UNETMM_SOURCE_TLB, &one), 0);
    CHECK(!probe_is_there());
    CHECK_RET(unetmm_close(one), 0);
}

/*
 * A process without privilege has no kernel code changed for it: its table is filled
 * when the card asks, and messages go through all the same.
 */
static void unobserved(void *argument)
{
    struct look look;
    struct unetmm_ctx *ctx;
    struct link link;
    uint64_t faults, notes;
    uint8_t *at = pages(8);

    (void)argument;
    drop_capability(CAP_SYS_ADMIN);
    ctx = look_open(&look);
    CHECK(!probe_is_there());
    link_open(&link, ctx, NULL);
    faults = driver_counter(ctx, UNETMM_D_faults);
    notes = driver_counter(ctx, UNETMM_D_shadow_notes);
    touch(at, 8, true);
    exchange_pattern(&link, at, at + 4 * PAGE, 2 * PAGE, 1);
    CHECK(driver_counter(ctx, UNETMM_D_faults) > faults);
    CHECK_EQ(driver_counter(ctx, UNETMM_D_shadow_notes), notes);
    CHECK_EQ(count_entries(&look, at, 2), 2);
    CHECK_EQ(count_entries(&look, at + 4 * PAGE, 2), 2);
    unmap_pages(at, 8);
    link_close(&link);
    look_close(&look);
    CHECK_RET(unetmm_close(ctx), 0);
}

/* The same process, where the administrator allows it. */
static void observed(void *argument)
{
    struct unetmm_ctx *ctx;

    (void)argument;
    drop_capability(CAP_SYS_ADMIN);
    ctx = open_card();
    CHECK(probe_is_there());
    CHECK_RET(unetmm_close(ctx), 0);
    CHECK(!probe_is_there());
}

TEST(unprivileged, TEST_SHADOW)
{
    end_process(start_process(unobserved, NULL));
    user_probes(true);
    end_process(start_process(observed, NULL));
    user_probes(false);
}

/* ---- Under stress -------------------------------------------------------------------- */

struct stress {
    uint8_t *at;                /* AREA pages, and as many to move them to */
    pthread_rwlock_t gate;      /* held for writing: nobody changes anything */
    atomic_bool stop;
    atomic_ullong steps;
};

struct changer {
    struct stress *s;
    unsigned number;
    pthread_t thread;
};

static void fork_once(void)
{
    pid_t pid = CHECK_SYS(fork());

    if (!pid) {
        _exit(0);
    }
    CHECK_EQ(await_process(pid), 0);
}

/* At once, or where Linux has not joined their mappings again, one by one. */
static void move(uint8_t *from, uint8_t *to, unsigned n)
{
    unsigned i;

    if (mremap(from, n * PAGE, n * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
               to) != MAP_FAILED) {
        return;
    }
    CHECK_EQ(errno, EFAULT);
    for (i = 0; i < n; i++) {
        CHECK_SYS(mremap(from + i * PAGE, PAGE, PAGE,
                         MREMAP_MAYMOVE | MREMAP_FIXED, to + i * PAGE));
    }
}

/* One change of a few pages that are this thread's own. */
static void change(struct stress *s, unsigned number, struct chance *chance)
{
    unsigned own = AREA / 2;
    unsigned first = number * own + chance_below(chance, own - 16);
    unsigned n = 1 + chance_below(chance, 16);
    uint8_t *at = s->at + first * PAGE;

    switch (chance_below(chance, 9)) {
    case 0:
        CHECK_SYS(madvise(at, n * PAGE, MADV_DONTNEED));
        break;
    case 1:
        CHECK_SYS(madvise(at, n * PAGE, MADV_PAGEOUT));
        break;
    case 2:
        CHECK_SYS(mprotect(at, n * PAGE, PROT_READ));
        touch(at, n, false);
        CHECK_SYS(mprotect(at, n * PAGE, PROT_READ | PROT_WRITE));
        break;
    case 3:
        move(at, at + AREA * PAGE, n);
        move(at + AREA * PAGE, at, n);
        break;
    case 4:
        CHECK_SYS(madvise(at, n * PAGE, MADV_FREE));
        break;
    case 5:
        if (!chance_below(chance, 8)) {
            fork_once();
        }
        break;
    case 6:
        touch(at, n, false);
        break;
    default:
        touch(at, n, true);
    }
}

static void *change_for_ever(void *argument)
{
    struct changer *c = argument;
    struct chance chance;

    chance_init(&chance, 10 + c->number);
    while (!atomic_load(&c->s->stop)) {
        pthread_rwlock_rdlock(&c->s->gate);
        change(c->s, c->number, &chance);
        pthread_rwlock_unlock(&c->s->gate);
        atomic_fetch_add(&c->s->steps, 1);
        /* A thread that waits to write must get its turn. */
        idle_ns(chance_below(&chance, 100) * NS_PER_US);
    }
    return NULL;
}

/* The gate is shut: touched pages come into the table. */
static void look_at_rest(const struct look *look, struct stress *s,
                         struct tally *running, struct tally *rest)
{
    (void)look_once(look, s->at, AREA, running);
    pthread_rwlock_wrlock(&s->gate);
    (void)look_once(look, s->at, AREA, rest);
    pthread_rwlock_unlock(&s->gate);
}

TEST(stress, TEST_SHADOW, 60)
{
    struct tally running = { 0 }, rest = { 0 };
    struct changer changers[2];
    struct traffic traffic;
    struct stress s = { 0 };
    struct unetmm_ctx *ctx;
    struct look look;
    unsigned i;

    swap_on();
    ctx = look_open(&look);
    s.at = pages(2 * AREA);
    pthread_rwlock_init(&s.gate, NULL);
    traffic_start(&traffic, 3);
    for (i = 0; i < 2; i++) {
        changers[i] = (struct changer){ .s = &s, .number = i };
        CHECK_EQ(pthread_create(&changers[i].thread, NULL, change_for_ever,
                                &changers[i]), 0);
    }
    for (i = 0; i < rounds(2000) && (atomic_load(&s.steps) < rounds(600) ||
         rest.stable < rounds(20) || !rest.both); i++) {
        look_at_rest(&look, &s, &running, &rest);
    }
    atomic_store(&s.stop, true);
    for (i = 0; i < 2; i++) {
        CHECK_EQ(pthread_join(changers[i].thread, NULL), 0);
    }
    traffic_stop(&traffic);
    note("%llu changes", (unsigned long long)atomic_load(&s.steps));
    tell("while memory changes", &running);
    tell("while it does not", &rest);
    CHECK(rest.stable >= rounds(20) && rest.both);
    note("snapshots %llu, in vain %llu; faults noted %llu, lost %llu, unseen "
         "%llu; waits %llu, the longest %llu ns",
         (unsigned long long)driver_counter(ctx, UNETMM_D_shadow_snaps),
         (unsigned long long)driver_counter(ctx, UNETMM_D_shadow_raced),
         (unsigned long long)driver_counter(ctx, UNETMM_D_shadow_notes),
         (unsigned long long)driver_counter(ctx, UNETMM_D_shadow_overruns),
         (unsigned long long)driver_counter(ctx, UNETMM_D_shadow_missed),
         (unsigned long long)driver_counter(ctx, UNETMM_D_shadow_waits),
         (unsigned long long)driver_counter(ctx, UNETMM_D_shadow_wait_max_ns));
    unmap_pages(s.at, 2 * AREA);
    look_close(&look);
    swap_off();
    CHECK_RET(unetmm_close(ctx), 0);
}
