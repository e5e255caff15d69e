/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Network page faults (source odp): messages from memory that the card has, that only
 * the process has, and that the process has to fault in, too; with all of the work
 * request in one fault, and page by page.  Beside them the processor's own faults in
 * the same memory, and, from the driver's histograms, where the time of a fault went.
 *
 * A fault's cost is the additional time over the same message without a fault.
 * It is the sender's: nobody waits for a refusal's time.
 */
#include "local.h"

#include <unetmm_hw.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT      5
#define LONG        ((size_t)4 << 20)
#define MOST        1000u
#define TOUCHED     256u
#define SECOND      1000000000ll
#define DEBUGFS     "/sys/kernel/debug/unetmm/unetmm0/"
#define PARAMETERS  "/sys/module/unetmm/parameters/"
#define PREFETCH    16u         /* the driver's own choice */

enum state { KNOWN, UNKNOWN, ABSENT, STATES };

static const char *const state_names[STATES] = {
    "known", "resident, unknown to the card", "absent for the process, too",
};

static const struct stage stages[] = {
    { "card", "found to reported" }, { "interrupt", "to the handler" },
    { "wait", "to its turn" }, { "page", "paging in" },
    { "find", "finding pages" }, { "table", "entering them" },
    { "resume", "until the transfer had gone on" },
};

static const struct stage inv_stages[] = {
    { "table", "invalidation: the table" },
    { "card", "invalidation: the card" },
    { "free", "invalidation: pages are the system's" },
};

#define STAGES      (sizeof(stages) / sizeof(stages[0]))
#define INV_STAGES  (sizeof(inv_stages) / sizeof(inv_stages[0]))

struct scene {
    struct unetmm_ep *tx, *rx;
    uint8_t *here, *there;
    unsigned import;
};

static int64_t stamp(void)
{
    return counts_instructions() ? (int64_t)ticks() : now_ns();
}

/* Shared memory: a page taken from the page tables is there all the same. */
static uint8_t *shared(size_t bytes)
{
    int fd = memfd_create("bench", 0);
    uint8_t *at;

    if (fd < 0 || ftruncate(fd, (off_t)bytes)) {
        die("no memory for 4 MiB that are shared");
    }
    at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at == MAP_FAILED) {
        die("no memory: boot the guest with more");
    }
    memset(at, 1, bytes);
    return at;
}

static void scene_open(struct scene *s)
{
    int channel;

    s->here = shared(LONG);
    s->there = shared(LONG);
    check(unetmm_ep_create(ctx, NULL, &s->tx), UNETMM_CALL_EP_CREATE);
    check(unetmm_ep_create(ctx, NULL, &s->rx), UNETMM_CALL_EP_CREATE);
    channel = join_reliably(s->tx, s->rx);
    check(unetmm_export(ctx, EXPORT, s->there, LONG, UNETMM_RIGHT_WRITE, 0, 0),
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
    munmap(s->here, LONG);
    munmap(s->there, LONG);
}

static void bring_about(const struct scene *s, enum state state, size_t bytes)
{
    bool failed = false;

    if (state == UNKNOWN) {
        /* The page tables keep it, and the notifier is called. */
        failed = mprotect(s->here, bytes, PROT_READ) ||
            mprotect(s->here, bytes, PROT_READ | PROT_WRITE);
    } else if (state == ABSENT) {
        failed = madvise(s->here, bytes, MADV_DONTNEED);
    }
    if (failed) {
        die("the memory cannot be taken from the card");
    }
}

static int64_t one(struct scene *s, enum state state, size_t bytes)
{
    int64_t start;

    bring_about(s, state, bytes);
    start = stamp();
    check(unetmm_write(s->tx, s->import, 0, s->here, bytes, 0, 0, 0),
          UNETMM_CALL_ONE_SIDED);
    await(s->tx, 1u << UNETMM_CQE_SENT);
    return stamp() - start;
}

static void set_parameter(const char *name, unsigned pages)
{
    FILE *file;
    char path[100];

    snprintf(path, sizeof(path), PARAMETERS "%s", name);
    file = fopen(path, "w");
    if (!file || fprintf(file, "%u\n", pages) < 0 || fclose(file)) {
        die("the driver's odp_batch and odp_prefetch cannot be set");
    }
}

/* As the paper has it; and as cards ask that know no more than an address. */
static void set_batched(bool batched)
{
    set_parameter("odp_batch", batched ? UNETMM_MISS_MAX_PAGES : 1);
    set_parameter("odp_prefetch", batched ? PREFETCH : 0);
}

static void report(const char *mode, size_t bytes, double cost, unsigned n,
                   const char *key, const char *value, uint64_t faults)
{
    bool counted = counts_instructions();

    printf("{\"peer\":\"unetmm, one guest\",\"mode\":\"%s\",\"metric\":\"%s\","
           "\"bytes\":%zu,\"frame\":%u,\"median\":%.3f,\"p99\":null,\"n\":%u,"
           "\"unit\":\"%s\",\"%s\":\"%s\",\"faults\":%llu}\n", mode,
           counted ? "instructions" : "fault", bytes, info.user_mtu,
           cost / (counted ? 1 : 1000), n, counted ? "instructions" : "us",
           key, value, (unsigned long long)faults);
    fflush(stdout);
}

/* The median of n, and how many faults all of them took. */
static int64_t many(struct scene *s, enum state state, size_t bytes, unsigned n,
                    uint64_t *faults)
{
    static int64_t took[MOST];
    uint64_t was;

    one(s, KNOWN, bytes);
    was = driver(UNETMM_D_faults);
    for (unsigned i = 0; i < n; i++) {
        took[i] = one(s, state, bytes);
    }
    *faults = driver(UNETMM_D_faults) - was;
    qsort(took, n, sizeof(*took), by_value);
    return took[n / 2];
}

static void faults_of(struct scene *s, size_t bytes, unsigned n, bool batched)
{
    uint64_t faults, none;
    char mode[120], name[40];
    int64_t known;

    set_batched(batched);
    /* So that all of it is known, however it was left. */
    one(s, KNOWN, LONG);
    known = many(s, KNOWN, bytes, n, &none);
    if (none) {
        die("there was a fault where there should be none");
    }
    for (enum state state = UNKNOWN; state < STATES; state++) {
        int64_t cold = many(s, state, bytes, n, &faults);

        if (faults < n) {
            die("the card had entries that it should not have");
        }
        snprintf(mode, sizeof(mode), "fault%s, %s",
                 batched ? "" : " page by page", state_names[state]);
        snprintf(name, sizeof(name), "%s%s", state == ABSENT ? "absent" :
                 "unknown", batched ? "" : ", page by page");
        report(mode, bytes, (double)(cold - known), n, "npf", name, faults);
    }
    set_batched(true);
}

/* The processor's own: a write to a page that is there, and to one that is not. */
static void own_faults(uint8_t *at, const char *what, const char *name)
{
    int64_t best = INT64_MAX, start;

    for (unsigned pass = 0; pass < 5; pass++) {
        if (madvise(at, TOUCHED * PAGE, MADV_DONTNEED)) {
            die("madvise() fails");
        }
        start = stamp();
        for (unsigned i = 0; i < TOUCHED; i++) {
            ((volatile uint8_t *)at)[i * PAGE] = 1;
        }
        start = stamp() - start;
        best = start < best ? start : best;
    }
    report(what, PAGE, (double)best / TOUCHED, TOUCHED, "npf", name, 0);
}

static void own(const struct scene *s)
{
    uint8_t *at = mmap(NULL, TOUCHED * PAGE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED || madvise(at, TOUCHED * PAGE, MADV_NOHUGEPAGE)) {
        die("no memory: boot the guest with more");
    }
    own_faults(at, "the processor's fault, anonymous", "cpu");
    munmap(at, TOUCHED * PAGE);
    own_faults(s->here, "the processor's fault, shared", "cpu, shared");
}

/* The events between two looks, each time and on average. */
static void report_stages(const struct stage *names, unsigned n, size_t bytes,
                          const char *key, const struct stage_sum *was,
                          const struct stage_sum *is)
{
    for (unsigned i = 0; i < n; i++) {
        uint64_t count = is[i].count - was[i].count;

        if (count) {
            report(names[i].what, bytes,
                   (double)(is[i].ns - was[i].ns) / (double)count,
                   (unsigned)count, key, names[i].word, count);
        }
    }
}

/* Faults of pages that the process has, and invalidations of them. */
static void by_stage(struct scene *s, size_t bytes, unsigned n)
{
    struct stage_sum was[STAGES], is[STAGES];
    struct stage_sum inv_was[INV_STAGES], inv_is[INV_STAGES];
    uint64_t faults;

    one(s, UNKNOWN, bytes);
    stages_read(DEBUGFS "faults", stages, STAGES, was);
    stages_read(DEBUGFS "invalidations", inv_stages, INV_STAGES, inv_was);
    many(s, UNKNOWN, bytes, n, &faults);
    stages_read(DEBUGFS "faults", stages, STAGES, is);
    stages_read(DEBUGFS "invalidations", inv_stages, INV_STAGES, inv_is);
    report_stages(stages, STAGES, bytes, "fault_stage", was, is);
    report_stages(inv_stages, INV_STAGES, bytes, "inv_stage", inv_was, inv_is);
}

void fault(unsigned n)
{
    struct scene s = { 0 };

    if (!n || n > MOST || *source_name != 'o') {
        die("source odp, 1 to 1000 times");
    }
    scene_open(&s);
    own(&s);
    faults_of(&s, PAGE, n, true);
    faults_of(&s, LONG, n, true);
    /* A thousand faults each */
    faults_of(&s, LONG, n / 20 + 1, false);
    by_stage(&s, PAGE, n);
    by_stage(&s, LONG, n);
    scene_close(&s);
}
