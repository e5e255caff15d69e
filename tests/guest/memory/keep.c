/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory that is pinned once (source `pinned`: registered; both: exported) stays in
 * use through every change that Linux makes for itself, and through every change that
 * leaves it the process's; memory that the process gives up, and rights that it gives
 * up, are gone at once.
 *
 * Exported memory is pinned once with both sources: nobody asks for it again.
 */
#include "card.h"
#include "disk.h"
#include "guard.h"
#include "huge.h"
#include "link.h"
#include "swap.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE   25
#endif
#ifndef MADV_SOFT_OFFLINE
#define MADV_SOFT_OFFLINE 101
#endif

#define TEST_KEPT       (TEST_PINNED | TEST_UTLB)
#define ID              91
#define MOST            16u     /* pages of an export */
#define RW              (PROT_READ | PROT_WRITE)

static const struct unetmm_channel_attr usual = UNETMM_CHANNEL_ATTR_INIT;

/* `one` imports the export of `two`. */
static struct scene {
    struct unetmm_ctx *ctx;
    struct station one, two;
    uint8_t *mine;              /* MOST pages, to write from and read to */
    uint8_t *at;                /* the export */
    unsigned npages;
    unsigned import;
    uint64_t key;
    uint64_t lost;              /* utlb_lost, before */
} scene;

static void begin(void)
{
    memset(&scene, 0, sizeof(scene));
    scene.ctx = open_card();
    station_open(&scene.one, scene.ctx, NULL);
    station_open(&scene.two, scene.ctx, NULL);
    CHECK_RET(try_join(&scene.one, &scene.two, &usual,
                       10 * NS_PER_S * run.slow), 0);
    scene.mine = pages(MOST);
    reach(scene.ctx, scene.mine, MOST * PAGE, true);
}

static void end(void)
{
    station_close(&scene.one);
    station_close(&scene.two);
    unmap_pages(scene.mine, MOST);
    CHECK_RET(unetmm_close(scene.ctx), 0);
}

static int try_share(uint8_t *at, unsigned npages, unsigned rights)
{
    int ret = unetmm_export(scene.ctx, ID, at, npages * PAGE, rights, 0, 0);

    if (!ret) {
        scene.at = at;
        scene.npages = npages;
        scene.import = import_of(&scene.one, ID, rights);
        scene.lost = driver_counter(scene.ctx, UNETMM_D_utlb_lost);
    }
    return ret;
}

static void share(uint8_t *at, unsigned npages)
{
    CHECK_RET(try_share(at, npages, UNETMM_RIGHT_ALL), 0);
}

static void share_no_more(void)
{
    CHECK_RET(unetmm_unimport(scene.one.ep, scene.import), 0);
    CHECK_RET(unetmm_unexport(scene.ctx, ID), 0);
}

static unsigned status_of(int posted)
{
    struct unetmm_completion c;

    CHECK_RET(posted, 0);
    take(&scene.one, UNETMM_CQE_SENT, &c);
    return c.status;
}

static unsigned write_page(unsigned page)
{
    return status_of(unetmm_write(scene.one.ep, scene.import, page * PAGE,
                                  scene.mine, PAGE, 0, 1, 0));
}

static unsigned read_page(unsigned page)
{
    return status_of(unetmm_read(scene.one.ep, scene.import, page * PAGE,
                                 scene.mine, PAGE, 2, 0));
}

#define CHECK_STATUS(expression, wanted) \
    do { \
        unsigned status_ = (expression); \
        if (status_ != (wanted)) { \
            FAIL("%s: %s, not %s", #expression, unetmm_status_str(status_), \
                 unetmm_status_str(wanted)); \
        } \
    } while (0)

/* The card reads the bytes that the process has there. */
static void is_read(unsigned first, unsigned n)
{
    unsigned i;

    for (i = first; i < first + n; i++) {
        memset(scene.mine, 0, PAGE);
        CHECK_STATUS(read_page(i), UNETMM_ST_OK);
        CHECK(!memcmp(scene.mine, scene.at + i * PAGE, PAGE));
    }
}

/* Each page is written and read by the card, and the process sees it. */
static void is_kept(unsigned first, unsigned n)
{
    unsigned i;

    for (i = first; i < first + n; i++) {
        scene.key++;
        pattern_fill(scene.mine, PAGE, scene.key, 0);
        CHECK_STATUS(write_page(i), UNETMM_ST_OK);
        CHECK_PATTERN(scene.at + i * PAGE, PAGE, scene.key);
    }
    is_read(first, n);
}

static void is_gone(unsigned first, unsigned n)
{
    unsigned i;

    for (i = first; i < first + n; i++) {
        CHECK_STATUS(write_page(i), UNETMM_ST_REMOTE_MEMORY);
        CHECK_STATUS(read_page(i), UNETMM_ST_REMOTE_MEMORY);
    }
}

/* All of it, and the library has not been told that it was not, for a while. */
static void all_is_kept(void)
{
    is_kept(0, scene.npages);
    CHECK_EQ(driver_counter(scene.ctx, UNETMM_D_utlb_lost), scene.lost);
}

static uint8_t *filled_pages(unsigned npages)
{
    uint8_t *at = pages(npages);

    memset(at, 0x5a, npages * PAGE);
    return at;
}

static uint8_t *map_file(int fd, unsigned npages, int protection, int flags)
{
    return CHECK_SYS(mmap(NULL, npages * PAGE, protection, flags, fd, 0));
}

/* Has the process anything there? */
static bool is_mapped(const uint8_t *at)
{
    int fd = CHECK_SYS(open("/proc/self/pagemap", O_RDONLY));
    uint64_t entry;

    CHECK_EQ(pread(fd, &entry, sizeof(entry),
                   (off_t)((uintptr_t)at / PAGE * sizeof(entry))),
             sizeof(entry));
    close(fd);
    return entry >> 63;
}

/* ---- Children ------------------------------------------------------------------- */

/* A child that looks at its memory when it is told to, and then changes it. */
static pid_t start_child(int *go, const uint8_t *at, unsigned npages,
                         uint64_t key)
{
    int ends[2];
    char byte;
    pid_t pid;

    CHECK_SYS(pipe(ends));
    pid = CHECK_SYS(fork());
    if (pid) {
        close(ends[0]);
        *go = ends[1];
        return pid;
    }
    close(ends[1]);
    CHECK_EQ(read(ends[0], &byte, 1), 1);
    CHECK_PATTERN(at, npages * PAGE, key);
    memset((uint8_t *)(uintptr_t)at, 0xcc, npages * PAGE);
    _exit(0);
}

static void end_child(int go, pid_t pid)
{
    CHECK_EQ(write(go, "", 1), 1);
    close(go);
    CHECK_EQ(await_process(pid), 0);
}

/* The card has the parent's pages, while the child lives and after; the child its own. */
static void over_fork(uint8_t *at, unsigned npages)
{
    unsigned i;
    pid_t pid;
    int go;

    share(at, npages < MOST ? npages : MOST);
    for (i = 0; i < rounds(4); i++) {
        uint64_t key = pattern_key(run.seed, i);

        pattern_fill(at, scene.npages * PAGE, key, 0);
        pid = start_child(&go, at, scene.npages, key);
        all_is_kept();
        end_child(go, pid);
        all_is_kept();
    }
    share_no_more();
}

TEST(forked, TEST_KEPT)
{
    uint8_t *at = filled_pages(MOST);

    begin();
    over_fork(at, MOST);
    end();
    unmap_pages(at, MOST);
}

TEST(forked_huge, TEST_KEPT)
{
    uint8_t *at = huge_page();

    begin();
    over_fork(at + 100 * PAGE, MOST);
    end();
    unmap_pages(at, HUGE_PAGES);
}

TEST(forked_hugetlb, TEST_KEPT)
{
    uint8_t *at;

    CHECK_RET(write_file("/proc/sys/vm/nr_hugepages", "4"), 0);
    at = mmap(NULL, HUGE, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB,
              -1, 0);
    if (at == MAP_FAILED) {
        test_skip("this kernel gives us no huge page");
    }
    memset(at, 0x5a, HUGE);
    begin();
    over_fork(at, MOST);
    /* Given up, it is gone as any other memory. */
    share(at, 4);
    if (!madvise(at, HUGE, MADV_DONTNEED)) {
        is_gone(0, 4);
    }
    share_no_more();
    end();
    CHECK_SYS(munmap(at, HUGE));
}

/* Another program. */
TEST(execed, TEST_KEPT)
{
    uint8_t *at = filled_pages(MOST);
    unsigned i;

    begin();
    share(at, MOST);
    for (i = 0; i < rounds(4); i++) {
        int status = system("exit 3");

        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
        all_is_kept();
    }
    share_no_more();
    end();
    unmap_pages(at, MOST);
}

/* ---- mprotect() ------------------------------------------------------------------- */

TEST(protected, TEST_KEPT)
{
    uint8_t *at = filled_pages(MOST);

    begin();
    share(at, MOST);
    CHECK_SYS(mprotect(at, MOST * PAGE, RW | PROT_EXEC));
    CHECK_SYS(mprotect(at + PAGE, 2 * PAGE, RW));
    all_is_kept();
    /* Read-only is read-only for the card, too ... */
    CHECK_SYS(mprotect(at + 4 * PAGE, 4 * PAGE, PROT_READ));
    scene.key++;
    pattern_fill(scene.mine, PAGE, scene.key, 0);
    CHECK_STATUS(write_page(5), UNETMM_ST_REMOTE_MEMORY);
    CHECK(memcmp(at + 5 * PAGE, scene.mine, PAGE));
    is_read(4, 4);
    is_kept(0, 4);
    is_kept(8, 8);
    /* ... and nothing is nothing, until it is given back. */
    CHECK_SYS(mprotect(at + 4 * PAGE, 4 * PAGE, PROT_NONE));
    is_gone(4, 4);
    CHECK_SYS(mprotect(at + 4 * PAGE, 2 * PAGE, PROT_READ));
    is_read(4, 2);
    is_gone(6, 2);
    CHECK_SYS(mprotect(at, MOST * PAGE, RW));
    is_kept(0, MOST);
    /* A fork in between, and a page that is written then. */
    CHECK_SYS(mprotect(at, MOST * PAGE, PROT_READ));
    CHECK_EQ(system("true"), 0);
    CHECK_SYS(mprotect(at, MOST * PAGE, RW));
    memset(at, 0x11, MOST * PAGE);
    is_kept(0, MOST);
    share_no_more();
    end();
    unmap_pages(at, MOST);
}

/* A hidden page is looked for when it is mapped again. */
TEST(protected_and_cleared, TEST_KEPT)
{
    int fd = new_memory_file(0);
    uint8_t *at;

    CHECK_SYS(ftruncate(fd, MOST * PAGE));
    at = map_file(fd, MOST, RW, MAP_SHARED);
    memset(at, 0x5a, MOST * PAGE);
    begin();
    share(at, MOST);
    CHECK_SYS(mprotect(at, MOST * PAGE, PROT_NONE));
    CHECK_SYS(madvise(at, 2 * PAGE, MADV_DONTNEED));
    is_gone(0, MOST);
    CHECK_SYS(mprotect(at, MOST * PAGE, PROT_READ));
    is_read(0, MOST);
    CHECK_SYS(mprotect(at, MOST * PAGE, RW));
    is_kept(0, MOST);
    share_no_more();
    end();
    close(fd);
    unmap_pages(at, MOST);
}

/* ---- Files ------------------------------------------------------------------------- */

/* Linux cleans a page, and maps it read-only, to hear of the next write. */
TEST(written_back, TEST_KEPT)
{
    static uint8_t bytes[MOST * UNETMM_PAGE_BYTES];
    int fd = new_file_on_ext4(), ret;
    unsigned i;
    uint8_t *at;

    if (fd < 0) {
        test_skip("no ext4");
    }
    memset(bytes, 0x5a, sizeof(bytes));
    CHECK_EQ(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
    at = map_file(fd, MOST, RW, MAP_SHARED);
    begin();
    ret = try_share(at, MOST, UNETMM_RIGHT_ALL);
    note("to be written: %s", ret ? error_name(ret) : "yes");
    if (ret) {
        CHECK_RET(ret, -EOPNOTSUPP);
        CHECK_RET(try_share(at, MOST, UNETMM_RIGHT_READ), 0);
    }
    for (i = 0; i < rounds(4); i++) {
        memset(at, 0x60 + (int)i, MOST * PAGE);
        CHECK_SYS(msync(at, MOST * PAGE, MS_SYNC));
        if (ret) {
            is_read(0, MOST);
        } else {
            all_is_kept();
        }
    }
    CHECK_EQ(driver_counter(scene.ctx, UNETMM_D_utlb_lost), scene.lost);
    share_no_more();
    end();
    /* The card's writes since the last writeback are not lost either. */
    memcpy(bytes, at, sizeof(bytes));
    CHECK_SYS(fsync(fd));
    unmap_pages(at, MOST);
    drop_caches();
    for (i = 0; i < MOST; i++) {
        uint8_t page[UNETMM_PAGE_BYTES];

        CHECK_EQ(pread(fd, page, PAGE, (off_t)(i * PAGE)), PAGE);
        CHECK(!memcmp(page, bytes + i * PAGE, PAGE));
    }
    close(fd);
}

/* Pages of a file that are mapped no more are the file's still. */
TEST(unmapped_by_linux, TEST_KEPT)
{
    int fd = new_memory_file(0);
    uint64_t repins;
    uint8_t *at;

    CHECK_SYS(ftruncate(fd, MOST * PAGE));
    at = map_file(fd, MOST, RW, MAP_SHARED);
    memset(at, 0x5a, MOST * PAGE);
    swap_on();
    begin();
    share(at, MOST);
    repins = driver_counter(scene.ctx, UNETMM_D_repins);
    CHECK_SYS(madvise(at, MOST * PAGE, MADV_PAGEOUT));
    all_is_kept();
    CHECK_SYS(madvise(at, MOST * PAGE, MADV_DONTNEED));
    all_is_kept();
    CHECK(driver_counter(scene.ctx, UNETMM_D_repins) - repins >= MOST);
    share_no_more();
    end();
    swap_off();
    close(fd);
    unmap_pages(at, MOST);
}

TEST(truncated, TEST_KEPT)
{
    int fd = new_memory_file(0);
    uint8_t *at;

    CHECK_SYS(ftruncate(fd, MOST * PAGE));
    at = map_file(fd, MOST, RW, MAP_SHARED);
    memset(at, 0x5a, MOST * PAGE);
    begin();
    share(at, MOST);
    CHECK_SYS(ftruncate(fd, MOST / 2 * PAGE));
    is_gone(MOST / 2, MOST / 2);
    is_kept(0, MOST / 2);
    CHECK_SYS(ftruncate(fd, MOST * PAGE));
    is_gone(MOST / 2, MOST / 2);
    /* A hole, which is not filled for it. */
    CHECK_SYS(madvise(at, PAGE, MADV_REMOVE));
    is_gone(0, 1);
    is_kept(1, MOST / 2 - 1);
    share_no_more();
    end();
    close(fd);
    unmap_pages(at, MOST);
}

#define HOLED   4096u           /* pages of a file, the last MOST of which are exported */

/*
 * A hole stays one, though the driver looks for pages of a file that Linux has
 * unmapped: it does so while most of the hole is still to be made.
 */
TEST(punched, TEST_KEPT)
{
    int fd = new_memory_file(0);
    struct stat status;
    unsigned i, k;
    uint8_t *at;

    CHECK_SYS(ftruncate(fd, HOLED * PAGE));
    at = map_file(fd, HOLED, RW, MAP_SHARED);
    begin();
    for (i = 0; i < rounds(8); i++) {
        memset(at, 0x5a, HOLED * PAGE);
        share(at + (HOLED - MOST) * PAGE, MOST);
        CHECK_SYS(madvise(at, HOLED * PAGE, MADV_REMOVE));
        is_gone(0, MOST);
        for (k = 0; k < MOST; k++) {
            CHECK(!is_mapped(scene.at + k * PAGE));
        }
        CHECK_SYS(fstat(fd, &status));
        CHECK_EQ(status.st_blocks, 0);
        share_no_more();
    }
    end();
    close(fd);
    unmap_pages(at, HOLED);
}

#define WRITERS 3

struct writer {
    pthread_t threads[WRITERS];
    atomic_bool stop;
    int fd;
};

/* Beside the pages of the export: the lock of the file's inode is hardly ever free. */
static void *writer_thread(void *argument)
{
    static const uint8_t bytes[256 * UNETMM_PAGE_BYTES];
    struct writer *writer = argument;

    while (!atomic_load(&writer->stop)) {
        CHECK_EQ(pwrite(writer->fd, bytes, sizeof(bytes), MOST * PAGE),
                 sizeof(bytes));
    }
    return NULL;
}

/* A file's pages are found again, though the file is being written all the time. */
TEST(written_beside, TEST_KEPT)
{
    struct writer writer = { .fd = new_memory_file(0) };
    uint64_t repins;
    unsigned i, n = rounds(16);
    uint8_t *at;

    CHECK_SYS(ftruncate(writer.fd, MOST * PAGE));
    at = map_file(writer.fd, MOST, RW, MAP_SHARED);
    memset(at, 0x5a, MOST * PAGE);
    begin();
    share(at, MOST);
    repins = driver_counter(scene.ctx, UNETMM_D_repins);
    for (i = 0; i < WRITERS; i++) {
        CHECK_EQ(pthread_create(&writer.threads[i], NULL, writer_thread,
                                &writer), 0);
    }
    for (i = 0; i < n; i++) {
        CHECK_SYS(madvise(at, MOST * PAGE, MADV_DONTNEED));
        all_is_kept();
    }
    atomic_store(&writer.stop, true);
    for (i = 0; i < WRITERS; i++) {
        CHECK_EQ(pthread_join(writer.threads[i], NULL), 0);
    }
    CHECK(driver_counter(scene.ctx, UNETMM_D_repins) - repins >= n * MOST);
    share_no_more();
    end();
    close(writer.fd);
    unmap_pages(at, MOST);
}

/* A private page of a file is the process's own as soon as it is written. */
TEST(copied_on_write, TEST_KEPT)
{
    int fd = new_memory_file(0);
    uint8_t *at;

    CHECK_SYS(ftruncate(fd, MOST * PAGE));
    at = map_file(fd, MOST, PROT_READ, MAP_PRIVATE);
    begin();
    CHECK_RET(try_share(at, MOST, UNETMM_RIGHT_READ), 0);
    is_read(0, MOST);
    CHECK_SYS(mprotect(at, MOST * PAGE, RW));
    memset(at, 0x33, MOST * PAGE);
    is_read(0, MOST);
    share_no_more();
    end();
    close(fd);
    unmap_pages(at, MOST);
}

/* ---- Changes that Linux makes for itself --------------------------------------------- */

TEST(soft_dirty, TEST_KEPT)
{
    uint8_t *at = filled_pages(MOST);
    unsigned i;

    begin();
    share(at, MOST);
    for (i = 0; i < rounds(4); i++) {
        if (write_file("/proc/self/clear_refs", "4")) {
            test_skip("this kernel has no soft-dirty bits");
        }
        memset(at, (int)i, MOST * PAGE);
        all_is_kept();
    }
    share_no_more();
    end();
    unmap_pages(at, MOST);
}

/* Holes everywhere, for pages to be moved to. */
TEST(compacted, TEST_KEPT)
{
    unsigned i, k, holes = 1024;
    uint8_t *at = filled_pages(MOST), *around = pages(holes);

    CHECK_SYS(madvise(around, holes * PAGE, MADV_NOHUGEPAGE));
    begin();
    share(at, MOST);
    for (i = 0; i < rounds(4); i++) {
        memset(around, 1, holes * PAGE);
        for (k = i % 2; k < holes; k += 2) {
            CHECK_SYS(madvise(around + k * PAGE, PAGE, MADV_DONTNEED));
        }
        if (write_file("/proc/sys/vm/compact_memory", "1")) {
            test_skip("this kernel does not compact memory");
        }
        all_is_kept();
    }
    share_no_more();
    end();
    unmap_pages(at, MOST);
    unmap_pages(around, holes);
}

/* khugepaged's work, on order; and the opposite. */
TEST(collapsed, TEST_KEPT)
{
    uint8_t *at = huge_page();
    uint64_t repins;
    unsigned i;
    int ret;

    begin();
    repins = driver_counter(scene.ctx, UNETMM_D_repins);
    for (i = 0; i < rounds(4); i++) {
        share(at + 100 * PAGE, MOST);
        CHECK_SYS(madvise(at, PAGE, MADV_DONTNEED));
        all_is_kept();
        at[0] = 1;
        ret = madvise(at, HUGE, MADV_COLLAPSE);
        if (ret && errno == EINVAL) {
            test_skip("this kernel collapses nothing on order");
        }
        /* Pinned pages stay in their place. */
        CHECK(ret);
        all_is_kept();
        share_no_more();
    }
    CHECK(driver_counter(scene.ctx, UNETMM_D_repins) - repins >= MOST);
    end();
    unmap_pages(at, HUGE_PAGES);
}

#define KSM "/sys/kernel/mm/ksm/"

static unsigned long long full_scans(void)
{
    FILE *file = fopen(KSM "full_scans", "r");
    unsigned long long value = 0;

    CHECK(file && fscanf(file, "%llu", &value) == 1);
    fclose(file);
    return value;
}

/* The same bytes twice elsewhere, and here. */
TEST(merged, TEST_KEPT)
{
    uint8_t *at = pages(MOST), *twins = pages(2);
    unsigned long long until;

    memset(at, 0x44, MOST * PAGE);
    memset(twins, 0x44, 2 * PAGE);
    begin();
    share(at, MOST);
    if (madvise(at, MOST * PAGE, MADV_MERGEABLE) ||
        madvise(twins, 2 * PAGE, MADV_MERGEABLE) ||
        write_file(KSM "sleep_millisecs", "1") ||
        write_file(KSM "pages_to_scan", "1000") || write_file(KSM "run", "1")) {
        test_skip("this kernel merges no pages");
    }
    until = full_scans() + 4;
    EVENTUALLY(full_scans() >= until);
    is_read(0, MOST);
    all_is_kept();
    CHECK_RET(write_file(KSM "run", "2"), 0);
    CHECK_RET(write_file(KSM "run", "0"), 0);
    CHECK_BYTES(twins, 2 * PAGE, 0x44);
    all_is_kept();
    share_no_more();
    end();
    unmap_pages(at, MOST);
    unmap_pages(twins, 2);
}

/* The administrator has pages replaced before they fail: not such. */
TEST(soft_offlined, TEST_KEPT)
{
    uint8_t *at = filled_pages(MOST);

    begin();
    share(at, MOST);
    if (!madvise(at, PAGE, MADV_SOFT_OFFLINE)) {
        FAIL("a pinned page was replaced");
    }
    if (errno == EINVAL) {
        test_skip("this kernel replaces no pages");
    }
    all_is_kept();
    share_no_more();
    end();
    unmap_pages(at, MOST);
}

/* After MADV_FREE the process has the memory still, and data that comes. */
TEST(freed_lazily, TEST_KEPT)
{
    uint8_t *at = filled_pages(MOST);

    swap_on();
    begin();
    share(at, MOST);
    CHECK_SYS(madvise(at, MOST * PAGE, MADV_FREE));
    is_kept(0, MOST);
    CHECK_SYS(madvise(at, MOST * PAGE, MADV_PAGEOUT));
    is_read(0, MOST);
    CHECK_PATTERN(at + (MOST - 1) * PAGE, PAGE, scene.key);
    all_is_kept();
    share_no_more();
    end();
    swap_off();
    unmap_pages(at, MOST);
}

/* ---- Memory that the process gives up ------------------------------------------------- */

TEST(given_up, TEST_KEPT)
{
    uint8_t *at = filled_pages(MOST), *other;

    begin();
    share(at, MOST);
    CHECK_SYS(madvise(at, 2 * PAGE, MADV_DONTNEED));
    is_gone(0, 2);
    /* Nothing has been put in its place. */
    CHECK(!is_mapped(at) && !is_mapped(at + PAGE));
    is_kept(2, MOST - 2);
    CHECK_SYS(munmap(at + 2 * PAGE, 2 * PAGE));
    is_gone(2, 2);
    other = CHECK_SYS(mremap(at + 4 * PAGE, 2 * PAGE, 4 * PAGE,
                             MREMAP_MAYMOVE));
    is_gone(4, 2);
    CHECK(mmap(at + 6 * PAGE, 2 * PAGE, RW,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
          at + 6 * PAGE);
    is_gone(6, 2);
    is_kept(8, MOST - 8);
    share_no_more();
    end();
    unmap_pages(other, 4);
    unmap_pages(at, MOST);
}

/* ---- At a limit ------------------------------------------------------------------------- */

#define LIMIT "/sys/module/unetmm/parameters/pin_limit_pages"

static void set_limit(uint64_t npages)
{
    char text[24];

    snprintf(text, sizeof(text), "%llu", (unsigned long long)npages);
    CHECK_RET(write_file(LIMIT, text), 0);
}

/* A pinned page is charged once, however often it is looked for. */
static void limited(void *argument)
{
    uint8_t *huge = huge_page(), *at;
    int fd = new_memory_file(0);
    const struct unetmm_info *info = argument;

    CHECK_SYS(ftruncate(fd, MOST * PAGE));
    at = map_file(fd, MOST, PROT_READ, MAP_PRIVATE);
    begin();
    share(huge + 100 * PAGE, MOST);
    is_kept(0, MOST);
    set_limit(1);
    CHECK_SYS(madvise(huge, PAGE, MADV_DONTNEED));
    is_kept(0, MOST);
    set_limit(info->pin_limit_pages);
    share_no_more();
    /* Other pages than before. */
    CHECK_RET(try_share(at, MOST, UNETMM_RIGHT_READ), 0);
    is_read(0, MOST);
    set_limit(1);
    CHECK_SYS(mprotect(at, MOST * PAGE, RW));
    memset(at, 0x33, MOST * PAGE);
    is_read(0, MOST);
    set_limit(info->pin_limit_pages);
    share_no_more();
    end();
    close(fd);
    unmap_pages(at, MOST);
    unmap_pages(huge, HUGE_PAGES);
}

TEST(at_the_limit, TEST_KEPT)
{
    struct unetmm_info info;
    int status;

    card_info(&info);
    status = await_process(start_process(limited, &info));
    set_limit(info.pin_limit_pages);
    CHECK_EQ(status, 0);
}

/* ---- All of it at once --------------------------------------------------------------------- */

struct rival {
    pthread_t thread;
    atomic_bool stop;
    atomic_uint rounds;
    unsigned what;
    uint8_t *huge;              /* of which MOST pages from 100 on are exported */
};

static void beside(struct rival *rival, unsigned i)
{
    uint8_t *at = rival->huge;

    switch (rival->what) {
    case 0:
        CHECK_EQ(system("true"), 0);
        break;
    case 1:
        CHECK_SYS(mprotect(at + 100 * PAGE, MOST * PAGE,
                           i % 2 ? RW : RW | PROT_EXEC));
        CHECK_SYS(mprotect(at + (110 + i % 20) * PAGE, PAGE,
                           i / 20 % 2 ? RW : RW | PROT_EXEC));
        break;
    case 2:
        CHECK_SYS(madvise(at + i % 100 * PAGE, PAGE, MADV_DONTNEED));
        at[i % 100 * PAGE] = 1;
        if (i % 16 == 0) {
            (void)madvise(at, HUGE, MADV_COLLAPSE);
        }
        break;
    default:
        unmap_pages(filled_pages(4), 4);
        break;
    }
}

static void *rival_thread(void *argument)
{
    struct rival *rival = argument;
    unsigned i;

    for (i = 0; !atomic_load(&rival->stop); i++) {
        beside(rival, i);
        atomic_fetch_add(&rival->rounds, 1);
    }
    return NULL;
}

#define RIVALS  4

/* Not one transfer fails, and no pin stays lost. */
TEST(all_at_once, TEST_KEPT, 120)
{
    static struct rival rivals[RIVALS];
    uint8_t *huge = huge_page();
    unsigned i, k;

    memset(rivals, 0, sizeof(rivals));
    begin();
    share(huge + 100 * PAGE, MOST);
    for (i = 0; i < RIVALS; i++) {
        rivals[i].what = i;
        rivals[i].huge = huge;
        CHECK_EQ(pthread_create(&rivals[i].thread, NULL, rival_thread,
                                &rivals[i]), 0);
    }
    for (i = 0; i < rounds(8); i++) {
        unsigned start[RIVALS];

        for (k = 0; k < RIVALS; k++) {
            start[k] = atomic_load(&rivals[k].rounds);
        }
        is_kept(0, MOST);
        for (k = 0; k < RIVALS; k++) {
            EVENTUALLY(atomic_load(&rivals[k].rounds) != start[k]);
        }
    }
    for (i = 0; i < RIVALS; i++) {
        atomic_store(&rivals[i].stop, true);
        CHECK_EQ(pthread_join(rivals[i].thread, NULL), 0);
    }
    all_is_kept();
    note("%llu looked for and found",
         (unsigned long long)driver_counter(scene.ctx, UNETMM_D_repins));
    share_no_more();
    end();
    unmap_pages(huge, HUGE_PAGES);
}
