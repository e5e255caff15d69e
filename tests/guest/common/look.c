/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Compares the driver's table in debugfs with /proc/self/pagemap. */
#include "look.h"
#include "guard.h"
#include "link.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <unetmm_hw.h>

#define DEBUGFS         "/sys/kernel/debug/unetmm/unetmm0/"
#define PRESENT(entry)  ((entry) >> 63 & 1)
#define PFN(entry)      ((entry) & ((1ull << 55) - 1))

/* Calls fn for each space with a table of resident pages; `line`: in debugfs. */
static void each_space(void (*fn)(const char *line, uint64_t id, void *arg),
                       void *arg)
{
    FILE *file = fopen(DEBUGFS "spaces", "r");
    unsigned id, source;
    char line[300];

    CHECK(file);
    while (fgets(line, sizeof(line), file)) {
        if (sscanf(line, "space %u source %u", &id, &source) == 2 &&
            (source == UNETMM_SOURCE_SHADOW || source == UNETMM_SOURCE_ODP)) {
            fn(line, id, arg);
        }
    }
    fclose(file);
}

static void note_id(const char *line, uint64_t id, void *arg)
{
    (void)line;
    ((bool *)arg)[id] = true;
}

struct unetmm_ctx *look_open(struct look *look)
{
    static bool before[65536], after[65536];
    struct unetmm_ctx *ctx;
    uint64_t id;

    memset(before, 0, sizeof(before));
    memset(after, 0, sizeof(after));
    each_space(note_id, before);
    ctx = open_card();
    each_space(note_id, after);
    /* One of a process that has ended may go meanwhile. */
    for (id = 0; id < 65536 && (before[id] || !after[id]); id++) {
    }
    CHECK(id < 65536);
    look->space = id;
    look->table = CHECK_SYS(open(DEBUGFS "shadow", O_RDONLY));
    look->pagemap = CHECK_SYS(open("/proc/self/pagemap", O_RDONLY));
    look->pfns = access("/sys/class/iommu/dmar0", F_OK) != 0;
    return ctx;
}

void look_close(struct look *look)
{
    close(look->table);
    close(look->pagemap);
}

static void read_words(int fd, uint64_t offset, unsigned n, uint64_t *words)
{
    unsigned done = 0;

    while (done < n) {
        ssize_t got = CHECK_SYS(pread(fd, words + done,
                                      (n - done) * sizeof(*words),
                                      (off_t)(offset + done * 8)));

        CHECK(got > 0);
        done += (unsigned)got / sizeof(*words);
    }
}

static void entries_at(const struct look *look, const uint8_t *at, unsigned n,
                       uint64_t *words)
{
    read_words(look->table, look->space << 48 | (uintptr_t)at / PAGE * 8, n,
               words);
}

uint64_t entry_at(const struct look *look, const uint8_t *at)
{
    uint64_t word;

    entries_at(look, at, 1, &word);
    return word;
}

unsigned count_entries(const struct look *look, const uint8_t *at,
                              unsigned n)
{
    uint64_t *words = calloc(n, sizeof(*words));
    unsigned i, valid = 0;

    CHECK(words);
    entries_at(look, at, n, words);
    for (i = 0; i < n; i++) {
        valid += words[i] & UNETMM_PTE_VALID;
    }
    free(words);
    return valid;
}

struct quiet {
    uint64_t space;
    unsigned long long now, ended;
    bool found;
};

static void read_quiet(const char *line, uint64_t id, void *arg)
{
    struct quiet *q = arg;
    const char *word = strstr(line, "invalidations ");

    if (id == q->space && word &&
        sscanf(word, "invalidations %llu now, %llu ended", &q->now,
               &q->ended) == 2) {
        q->found = true;
    }
}

/* How many invalidations have ended; ~0: one is under way. */
static unsigned long long invalidations(const struct look *look)
{
    struct quiet q = { .space = look->space };

    each_space(read_quiet, &q);
    CHECK(q.found);
    return q.now ? ~0ull : q.ended;
}

bool look_once(const struct look *look, const uint8_t *at, unsigned n,
                      struct tally *tally)
{
    uint64_t words[LOOK_PAGES], again[LOOK_PAGES], map[LOOK_PAGES];
    unsigned long long before = invalidations(look);
    unsigned i;

    CHECK(n <= LOOK_PAGES);
    tally->looks++;
    entries_at(look, at, n, words);
    read_words(look->pagemap, (uintptr_t)at / PAGE * 8, n, map);
    entries_at(look, at, n, again);
    if (before == ~0ull || invalidations(look) != before) {
        return false;
    }
    tally->stable++;
    for (i = 0; i < n; i++) {
        /* A page that came meanwhile may have come after the look. */
        bool valid = words[i] & again[i] & UNETMM_PTE_VALID;

        if (valid && !PRESENT(map[i])) {
            FAIL("page %u of %p is in the table and not resident: %#" PRIx64
                 ", %#" PRIx64, i, at, words[i], map[i]);
        }
        if (valid && look->pfns && PFN(map[i]) &&
            (words[i] & UNETMM_PTE_ADDR) != PFN(map[i]) * PAGE) {
            FAIL("page %u of %p is another one in the table: %#" PRIx64
                 ", %#" PRIx64, i, at, words[i], map[i]);
        }
        tally->pages++;
        tally->valid += valid;
        tally->resident += PRESENT(map[i]);
        tally->both += valid && PRESENT(map[i]);
    }
    return true;
}

void tell(const char *what, const struct tally *t)
{
    note("%s: %llu of %llu looks undisturbed, %llu pages; resident %llu, of "
         "these in the table %llu (%.1f %%)", what, t->stable, t->looks,
         t->pages, t->resident, t->both,
         t->resident ? 100.0 * (double)t->both / (double)t->resident : 0);
}

void touch(uint8_t *at, unsigned n, bool write)
{
    unsigned i;

    for (i = 0; i < n; i++) {
        volatile uint8_t *p = at + i * PAGE;

        if (write) {
            *p = (uint8_t)i;
        } else {
            (void)*p;
        }
    }
}

uint64_t frame_of(const struct look *look, const uint8_t *at)
{
    uint64_t entry;

    read_words(look->pagemap, (uintptr_t)at / PAGE * 8, 1, &entry);
    return PRESENT(entry) ? PFN(entry) : 0;
}
