/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Page faults that sleep while the driver observes them: a userfaultfd lets them
 * go when the test says so.  The probe has room for shadow_maxactive of them; of
 * others it learns nothing, and that is counted and harms nobody, for the card asks
 * for pages that the table does not have.
 */
#include "card.h"
#include "guard.h"
#include "link.h"
#include "look.h"
#include "watch.h"

#include <unetmm_hw.h>

#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MOST            64u     /* threads */
#define KEY(page)       pattern_key(run.seed, page)
#define MAXACTIVE       "/sys/module/unetmm/parameters/shadow_maxactive"

struct sleeper {
    pthread_t thread;
    const uint8_t *at;
    uint64_t key;
};

struct dormitory {
    struct watch watch;
    uint8_t *at;
    unsigned n;
    struct sleeper sleepers[MOST];
};

static void *sleep_there(void *argument)
{
    const struct sleeper *s = argument;

    CHECK_PATTERN(s->at, PAGE, s->key);
    return NULL;
}

/* Returns when n threads sleep in faults of pages that are not there. */
static void put_to_sleep(struct dormitory *d, unsigned n)
{
    unsigned i, page, seen = 0;
    pthread_attr_t attr;
    bool protect;

    d->n = n;
    d->at = pages(n);
    watch_start(&d->watch, d->at, n, UFFDIO_REGISTER_MODE_MISSING);
    CHECK_EQ(pthread_attr_init(&attr), 0);
    CHECK_EQ(pthread_attr_setstacksize(&attr, (size_t)64 * 1024), 0);
    for (i = 0; i < n; i++) {
        d->sleepers[i].at = d->at + i * PAGE;
        d->sleepers[i].key = KEY(i);
        CHECK_EQ(pthread_create(&d->sleepers[i].thread, &attr, sleep_there,
                                &d->sleepers[i]), 0);
    }
    while (seen < n) {
        CHECK(watch_wanted(&d->watch, 10000 * (int)run.slow, &page, &protect));
        seen++;
    }
}

/* Each thread finds the value that it has waited for. */
static void wake(struct dormitory *d)
{
    static uint8_t bytes[UNETMM_PAGE_BYTES] __attribute__((aligned(4096)));
    unsigned i;

    for (i = 0; i < d->n; i++) {
        pattern_fill(bytes, PAGE, KEY(i), 0);
        CHECK(watch_bring(&d->watch, i, bytes));
    }
    for (i = 0; i < d->n; i++) {
        CHECK_EQ(pthread_join(d->sleepers[i].thread, NULL), 0);
    }
    watch_end(&d->watch);
    unmap_pages(d->at, d->n);
}

/* Until the next time that the probe is set, which is when nobody uses it. */
static void set_maxactive(unsigned n)
{
    char text[20];

    snprintf(text, sizeof(text), "%u", n);
    CHECK_RET(write_file(MAXACTIVE, text), 0);
}

static uint64_t missed(struct unetmm_ctx *ctx)
{
    return driver_counter(ctx, UNETMM_D_shadow_missed);
}

/* Pages of both sides of a message, and of none: the table is right, or asked. */
static void table_is_right(struct unetmm_ctx *ctx, const struct look *look)
{
    struct tally tally = { 0 };
    uint8_t *at = pages(8);
    struct link link;
    unsigned i;

    link_open(&link, ctx, NULL);
    for (i = 0; i < 4; i++) {
        exchange_pattern(&link, at + i * PAGE, at + (4 + i) * PAGE, PAGE, i);
        CHECK(entry_at(look, at + i * PAGE) & UNETMM_PTE_VALID);
        CHECK(entry_at(look, at + (4 + i) * PAGE) & UNETMM_PTE_WRITE);
    }
    link_close(&link);
    EVENTUALLY(look_once(look, at, 8, &tally));
    CHECK_EQ(tally.both, 8);
    unmap_pages(at, 8);
    CHECK_EQ(count_entries(look, at, 8), 0);
}

/* As many as sleep at a time in a large program: all are seen. */
TEST(many, TEST_SHADOW)
{
    static struct dormitory d;
    struct look look;
    struct unetmm_ctx *ctx = look_open(&look);
    uint64_t before = missed(ctx);
    uint8_t *at = pages(4);

    put_to_sleep(&d, MOST);
    touch(at, 4, true);
    EVENTUALLY(count_entries(&look, at, 4) == 4);
    CHECK_EQ(count_entries(&look, d.at, MOST), 0);
    table_is_right(ctx, &look);
    wake(&d);
    table_is_right(ctx, &look);
    CHECK_EQ(missed(ctx), before);
    unmap_pages(at, 4);
    look_close(&look);
    CHECK_RET(unetmm_close(ctx), 0);
}

/* More than there is room for. */
TEST(too_many, TEST_SHADOW)
{
    static struct dormitory d;
    struct unetmm_ctx *ctx;
    struct look look;
    uint64_t before, after;
    uint8_t *at;

    set_maxactive(8);
    ctx = look_open(&look);
    set_maxactive(256);
    before = missed(ctx);
    put_to_sleep(&d, MOST / 2);
    CHECK(missed(ctx) >= before + MOST / 2 - 8);
    after = missed(ctx);
    at = pages(4);
    touch(at, 4, true);
    CHECK(missed(ctx) >= after + 4);
    /* Nobody has seen these come: the card asks. */
    CHECK_EQ(count_entries(&look, at, 4), 0);
    table_is_right(ctx, &look);
    wake(&d);
    /* There is room again. */
    after = missed(ctx);
    CHECK_SYS(madvise(at, 4 * PAGE, MADV_DONTNEED));
    touch(at, 4, true);
    EVENTUALLY(count_entries(&look, at, 4) == 4);
    CHECK_EQ(missed(ctx), after);
    table_is_right(ctx, &look);
    note("%llu faults were not seen", (unsigned long long)(after - before));
    unmap_pages(at, 4);
    look_close(&look);
    CHECK_RET(unetmm_close(ctx), 0);
    /* It remembers the notes that the probe before has missed. */
    ctx = look_open(&look);
    CHECK(missed(ctx) >= after);
    look_close(&look);
    CHECK_RET(unetmm_close(ctx), 0);
}

/* The probe goes, and maybe another comes, while faults that it saw begin sleep. */
TEST(outlived, TEST_SHADOW)
{
    static struct dormitory d;
    unsigned i;

    for (i = 0; i < rounds(6); i++) {
        struct look look;
        struct unetmm_ctx *ctx = look_open(&look);

        put_to_sleep(&d, 16);
        look_close(&look);
        CHECK_RET(unetmm_close(ctx), 0);
        if (i % 2) {
            wake(&d);
            continue;
        }
        ctx = look_open(&look);
        wake(&d);
        table_is_right(ctx, &look);
        look_close(&look);
        CHECK_RET(unetmm_close(ctx), 0);
    }
}

/* So does the whole module. */
TEST(unloaded, TEST_SHADOW | TEST_NO_CARD)
{
    static struct dormitory d;
    struct unetmm_ctx *ctx;
    struct look look;
    unsigned i;

    for (i = 0; i < rounds(3); i++) {
        ctx = look_open(&look);
        put_to_sleep(&d, 16);
        look_close(&look);
        CHECK_RET(unetmm_close(ctx), 0);
        EVENTUALLY(module_unload() == 0);
        CHECK(!card_present());
        if (i % 2) {
            CHECK_RET(module_load(), 0);
        }
        wake(&d);
        if (i % 2 == 0) {
            CHECK_RET(module_load(), 0);
        }
        card_check_works();
    }
}
