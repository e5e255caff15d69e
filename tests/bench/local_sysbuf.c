/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Policy redirect: a write of one page into memory that is there, and into memory
 * that has just been given back to the system; and, from the driver's histograms,
 * where the time of the second kind went.
 *
 * Where instructions are counted each takes a nanosecond, by the kernel's clock,
 * too: times are their numbers.
 */
#include "local.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define EXPORT      4
#define MOST        10000u
#define WARMUP      20u
#define SECOND      1000000000ll
#define STAGES_FILE "/sys/kernel/debug/unetmm/unetmm0/sysbuf"

enum { WAIT, PAGE_IN, COPY, TELL, STAGES };

/* The file's words, and their meanings. */
static const struct stage stages[STAGES] = {
    { "wait", "report to worker" }, { "page", "until the page was there" },
    { "copy", "the copy" }, { "tell", "telling the card" },
};

struct scene {
    struct unetmm_ep *tx, *rx;
    uint8_t *here, *there;
    unsigned import;
};

static uint8_t *one_page(void)
{
    uint8_t *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    if (page == MAP_FAILED) {
        die("no memory: boot the guest with more");
    }
    return page;
}

static void scene_open(struct scene *s)
{
    struct unetmm_ep_attr attr = UNETMM_EP_ATTR_INIT;
    int channel;

    attr.policy = UNETMM_POLICY_REDIRECT;
    s->here = one_page();
    s->there = one_page();
    check(unetmm_ep_create(ctx, NULL, &s->tx), UNETMM_CALL_EP_CREATE);
    check(unetmm_ep_create(ctx, &attr, &s->rx), UNETMM_CALL_EP_CREATE);
    channel = join_reliably(s->tx, s->rx);
    check(unetmm_export(ctx, EXPORT, s->there, PAGE, UNETMM_RIGHT_WRITE, 0, 0),
          UNETMM_CALL_EXPORT);
    s->import = (unsigned)check(unetmm_import(s->tx, (unsigned)channel, EXPORT,
                                              UNETMM_RIGHT_WRITE, 10 * SECOND,
                                              NULL), UNETMM_CALL_IMPORT);
}

static void scene_close(struct scene *s)
{
    check(unetmm_unexport(ctx, EXPORT), UNETMM_CALL_EXPORT);
    check(unetmm_ep_destroy(s->tx), UNETMM_CALL_ANY);
    check(unetmm_ep_destroy(s->rx), UNETMM_CALL_ANY);
    munmap(s->here, PAGE);
    munmap(s->there, PAGE);
}

/* The next one finds the page as this one has left it. */
static int64_t one(struct scene *s, bool away, unsigned i)
{
    int64_t start;

    if (away && madvise(s->there, PAGE, MADV_DONTNEED)) {
        die("madvise() fails");
    }
    memset(s->here, (int)(i % 251 + 1), PAGE);
    start = now_ns();
    check(unetmm_write(s->tx, s->import, 0, s->here, PAGE, 0, i, 0),
          UNETMM_CALL_ONE_SIDED);
    await(s->tx, 1u << UNETMM_CQE_SENT);
    start = now_ns() - start;
    if (memcmp(s->here, s->there, PAGE)) {
        die("a write is complete and not there");
    }
    return start;
}

static void report(const char *what, const char *stage, double ns, int64_t p99,
                   unsigned n)
{
    bool counted = counts_instructions();
    double unit = counted ? 1 : 1000;

    printf("{\"peer\":\"unetmm, one guest\",\"mode\":\"redirect, %s, %s\","
           "\"metric\":\"%s\",\"bytes\":%zu,\"frame\":%u,"
           "\"median\":%.3f,\"p99\":", what, source_name,
           counted ? "instructions" : "redirect", PAGE, info.user_mtu,
           ns / unit);
    if (p99) {
        printf("%.3f", (double)p99 / unit);
    } else {
        printf("null");
    }
    printf(",\"n\":%u,\"unit\":\"%s\",\"stage\":\"%s\"%s}\n", n,
           counted ? "instructions" : "us", stage,
           p99 ? "" : ",\"statistic\":\"mean\"");
    fflush(stdout);
}

void redirect(unsigned n)
{
    static int64_t took[2][MOST];
    struct stage_sum was[STAGES], is[STAGES];
    struct scene s = { 0 };

    if (!n || n > MOST || !(info.policies & 1u << UNETMM_POLICY_REDIRECT)) {
        die("1 to 10000 times, on a card with policy redirect");
    }
    scene_open(&s);
    stages_read(STAGES_FILE, stages, STAGES, was);
    for (unsigned i = 0; i < WARMUP + n; i++) {
        if (i == WARMUP) {
            stages_read(STAGES_FILE, stages, STAGES, was);
        }
        for (unsigned away = 0; away < 2; away++) {
            int64_t ns = one(&s, away, 2 * i + away);

            if (i >= WARMUP) {
                took[away][i - WARMUP] = ns;
            }
        }
    }
    stages_read(STAGES_FILE, stages, STAGES, is);
    for (unsigned away = 0; away < 2; away++) {
        qsort(took[away], n, sizeof(took[away][0]), by_value);
        report(away ? "page absent" : "page there", away ? "absent" : "there",
               (double)took[away][n / 2], took[away][n * 99 / 100], n);
    }
    for (unsigned i = 0; i < STAGES; i++) {
        uint64_t count = is[i].count - was[i].count;

        if (!count && i == WAIT) {
            die("nothing was redirected");
        }
        /* The page may have come unasked, or with another. */
        if (!count) {
            continue;
        }
        report(stages[i].what, stages[i].word,
               (double)(is[i].ns - was[i].ns) / (double)count, 0,
               (unsigned)count);
    }
    scene_close(&s);
}
