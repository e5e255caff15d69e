/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Faults that users of other networks have reported when memory was registered,
 * cached or faulted in for a card, each shown to work here: memory that may only be
 * read, files, forks after a buffer was used, memory that is freed and allocated
 * again.
 */
#include "pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define ID              0x4e4
#define NPAGES          16u
#define BYTES           (NPAGES * PAGE)
#define PATIENCE_NS     ((int64_t)(20 * NS_PER_S * run.slow))
#define WITH_EXPORT     (TEST_TLB | TEST_SHADOW | TEST_ODP)

struct bench {
    struct unetmm_ctx *ctx;
    struct station one, two;
    uint8_t *mine;              /* to read and write elsewhere */
};

static void bench_open(struct bench *b)
{
    static const struct unetmm_channel_attr attr = UNETMM_CHANNEL_ATTR_INIT;

    b->ctx = open_card();
    station_open(&b->one, b->ctx, NULL);
    station_open(&b->two, b->ctx, NULL);
    CHECK_RET(try_join(&b->one, &b->two, &attr, PATIENCE_NS), 0);
    b->mine = pages(NPAGES);
}

static void bench_close(struct bench *b)
{
    station_close(&b->one);
    station_close(&b->two);
    unmap_pages(b->mine, NPAGES);
    CHECK_RET(unetmm_close(b->ctx), 0);
}

static unsigned export_at(struct bench *b, void *at, unsigned rights)
{
    CHECK_RET(unetmm_export(b->ctx, ID, at, BYTES, rights, 0, 0), 0);
    return import_of(&b->one, ID, rights);
}

static void unexport(struct bench *b, unsigned import)
{
    CHECK_RET(unetmm_unimport(b->one.ep, import), 0);
    CHECK_RET(unetmm_unexport(b->ctx, ID), 0);
}

static void reads(struct bench *b, unsigned import, uint64_t key)
{
    memset(b->mine, 0, BYTES);
    CHECK_RET(unetmm_read_sync(b->one.ep, import, 0, b->mine, BYTES,
                               PATIENCE_NS), 0);
    CHECK_PATTERN(b->mine, BYTES, key);
}

static void writes(struct bench *b, unsigned import, const uint8_t *at,
                   uint64_t key)
{
    pattern_fill(b->mine, BYTES, key, 0);
    CHECK_RET(unetmm_write_sync(b->one.ep, import, 0, b->mine, BYTES, 0, 0,
                                PATIENCE_NS), 0);
    CHECK_PATTERN(at, BYTES, key);
}

/* ---- Memory that may only be read ------------------------------------------------- */

/* Read by a peer, and the source of a WRITE; its owner's peers may not write there. */
TEST(read_only_mapping, WITH_EXPORT)
{
    uint8_t *at = pages(NPAGES), *to = pages(NPAGES);
    unsigned import;
    struct bench b;

    bench_open(&b);
    pattern_fill(at, BYTES, 1, 0);
    CHECK_SYS(mprotect(at, BYTES, PROT_READ));
    import = export_at(&b, at, UNETMM_RIGHT_READ);
    reads(&b, import, 1);
    unexport(&b, import);
    CHECK(unetmm_export(b.ctx, ID, at, BYTES, UNETMM_RIGHT_ALL, 0, 0) < 0);
    import = export_at(&b, to, UNETMM_RIGHT_ALL);
    CHECK_RET(unetmm_write_sync(b.one.ep, import, 0, at, BYTES, 0, 0,
                                PATIENCE_NS), 0);
    CHECK_PATTERN(to, BYTES, 1);
    unexport(&b, import);
    unmap_pages(at, NPAGES);
    unmap_pages(to, NPAGES);
    bench_close(&b);
}

/* ---- Files -------------------------------------------------------------------------- */

static int pattern_file(uint64_t key)
{
    char name[] = "/tmp/reported.XXXXXX";
    int fd = CHECK_SYS(mkstemp(name));
    uint8_t *bytes = malloc(BYTES);

    CHECK(bytes);
    CHECK_SYS(unlink(name));
    pattern_fill(bytes, BYTES, key, 0);
    CHECK_EQ(write(fd, bytes, BYTES), BYTES);
    free(bytes);
    return fd;
}

static void file_has(int fd, uint64_t key)
{
    uint8_t *bytes = malloc(BYTES);

    CHECK(bytes);
    CHECK_EQ(pread(fd, bytes, BYTES, 0), BYTES);
    CHECK_PATTERN(bytes, BYTES, key);
    free(bytes);
}

/* Mapped as a program is, and as data are; private, the file stays as it was. */
TEST(file_mapping, TEST_SHADOW | TEST_ODP)
{
    static const struct { int protection, flags; } ways[] = {
        { PROT_READ, MAP_PRIVATE }, { PROT_READ, MAP_SHARED },
        { PROT_READ | PROT_WRITE, MAP_PRIVATE },
        { PROT_READ | PROT_WRITE, MAP_SHARED },
    };
    unsigned import, i;
    struct bench b;

    bench_open(&b);
    for (i = 0; i < 4; i++) {
        bool can_write = ways[i].protection & PROT_WRITE;
        int fd = pattern_file(i);
        uint8_t *at = CHECK_SYS(mmap(NULL, BYTES, ways[i].protection,
                                     ways[i].flags, fd, 0));

        import = export_at(&b, at, can_write ? UNETMM_RIGHT_ALL :
                           UNETMM_RIGHT_READ);
        reads(&b, import, i);
        if (can_write) {
            writes(&b, import, at, i + 9);
            file_has(fd, ways[i].flags & MAP_SHARED ? i + 9 : i);
        }
        unexport(&b, import);
        CHECK_SYS(munmap(at, BYTES));
        close(fd);
    }
    bench_close(&b);
}

/* ---- Forks ---------------------------------------------------------------------------- */

struct child {
    uint8_t *at;
    uint64_t key;
};

/* It has the memory as it was at the fork, and changes its own. */
static void child_main(void *argument)
{
    const struct child *child = argument;

    CHECK_PATTERN(child->at, BYTES, child->key);
    memset(child->at, 0xee, BYTES);
}

/*
 * The card has used the memory: a peer's accesses after a fork go to the parent's
 * memory, whichever of the two has written first, and while the child is there.
 */
TEST(fork_after_use, WITH_EXPORT)
{
    uint8_t *at = pages(NPAGES);
    unsigned i, import;
    struct bench b;

    bench_open(&b);
    import = export_at(&b, at, UNETMM_RIGHT_ALL);
    for (i = 0; i < rounds(12); i++) {
        struct child child = { at, i };
        pid_t pid;

        writes(&b, import, at, i);
        pid = start_process(child_main, &child);
        if (i % 3 == 1) {
            pattern_fill(at, BYTES, i + 500, 0);
            reads(&b, import, i + 500);
        } else if (i % 3 == 2) {
            reads(&b, import, i);
        }
        writes(&b, import, at, i + 1000);
        end_process(pid);
        CHECK_PATTERN(at, BYTES, i + 1000);
        reads(&b, import, i + 1000);
    }
    unexport(&b, import);
    unmap_pages(at, NPAGES);
    bench_close(&b);
}

/* ---- The same address, other memory ------------------------------------------------------ */

/*
 * An error of registration caches: memory freed, and allocated again in the same
 * place.  An export stays, and is of the present memory.
 */
TEST(mapped_again, WITH_EXPORT)
{
    uint8_t *at = pages(NPAGES), *again;
    unsigned i, import;
    struct bench b;

    bench_open(&b);
    import = export_at(&b, at, UNETMM_RIGHT_ALL);
    for (i = 0; i < rounds(20); i++) {
        writes(&b, import, at, i);
        CHECK_SYS(munmap(at, BYTES));
        if (i % 2) {
            CHECK_RET(unetmm_read_sync(b.one.ep, import, 0, b.mine, BYTES,
                                       PATIENCE_NS), -EREMOTEIO);
        }
        again = CHECK_SYS(mmap(at, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE |
                               MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
        CHECK(again == at);
        CHECK_BYTES(at, BYTES, 0);
        pattern_fill(at, BYTES, ~(uint64_t)i, 0);
        reads(&b, import, ~(uint64_t)i);
    }
    unexport(&b, import);
    unmap_pages(at, NPAGES);
    bench_close(&b);
}

/* Buffers of the C library's: mostly the same address, each time other frames. */
TEST(allocated_again, TEST_ODP)
{
    const size_t len = (size_t)1 << 20;
    uintptr_t last = 0;
    unsigned i, same = 0;
    struct pair p;

    pair_open(&p);
    for (i = 0; i < rounds(20) || (!same && i < 1000); i++) {
        uint8_t *from = malloc(len), *to = malloc(len);

        CHECK(from && to);
        same += (uintptr_t)from == last;
        last = (uintptr_t)from;
        pass_pattern(&p, from, to, len, i);
        free(to);
        free(from);
    }
    note("%u of %u buffers where the last one was", same, i);
    CHECK(same);
    pair_close(&p);
}
