/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The machine between the card's bus and memory: the kernel's command line says
 * which machine this is, and the test that is not about it is skipped.
 *
 * With intel_iommu=on each address that the card uses is an I/O virtual one.
 * With swiotlb=force the kernel would show the card copies of our pages; the
 * driver must refuse, since a copy is not the memory of the process.
 * With slow_card=1, a word for this program alone, the card has a long x-dma-page-ns.
 */
#include "guard.h"
#include "link.h"

#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Pagemap's entries: a page that is there, and its number. */
#define PRESENT         (1ull << 63)
#define PFN_MASK        ((1ull << 55) - 1)
#define FOUR_GIB        (4ull << 30)

static void read_line(const char *path, char *line, int len)
{
    FILE *file = fopen(path, "r");

    if (!file || !fgets(line, len, file)) {
        FAIL("%s cannot be read", path);
    }
    line[strcspn(line, "\n")] = 0;
    fclose(file);
}

static void need_word(const char *word)
{
    char line[4096];

    read_line("/proc/cmdline", line, sizeof(line));
    if (!strstr(line, word)) {
        test_skip("only with %s", word);
    }
}

static uint64_t physical(const void *at)
{
    int fd = CHECK_SYS(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
    uint64_t entry;

    CHECK_EQ(pread(fd, &entry, sizeof(entry),
                   (off_t)((uintptr_t)at / PAGE * sizeof(entry))),
             sizeof(entry));
    close(fd);
    CHECK(entry & PRESENT);
    return (entry & PFN_MASK) * PAGE;
}

TEST_NAMED("iommu.translated", translated, TEST_TLB)
{
    const char *pattern = "/sys/bus/pci/drivers/unetmm/*/iommu_group/type";
    char type[32];
    glob_t found;

    need_word("intel_iommu=on");
    CHECK_EQ(glob(pattern, 0, NULL, &found), 0);
    read_line(found.gl_pathv[0], type, sizeof(type));
    globfree(&found);
    CHECK(!strcmp(type, "DMA"));
}

/* Memory whose physical addresses have more than 32 bits, both ways. */
TEST_NAMED("iommu.above-4-gib", above_4_gib, TEST_BOTH | TEST_UTLB)
{
    struct link link;
    uint8_t *from, *to;

    need_word("intel_iommu=on");
    from = pages(4);
    to = pages(4);
    memset(from, 1, 4 * PAGE);
    memset(to, 1, 4 * PAGE);
    note("from %#llx to %#llx", (unsigned long long)physical(from),
         (unsigned long long)physical(to));
    CHECK(physical(from) >= FOUR_GIB);
    CHECK(physical(to) >= FOUR_GIB);
    link_open(&link, NULL, NULL);
    reach(link.ctx, from, 4 * PAGE, false);
    reach(link.ctx, to, 4 * PAGE, true);
    exchange_pattern(&link, from + 100, to + 300, 2 * PAGE, 1);
    link_close(&link);
}
ALSO("iommu.above-4-gib-unpinned", above_4_gib, TEST_SHADOW | TEST_ODP)

/* A send and a buffer that would bounce: an error for each, and no more. */
static void bounced_completions(void)
{
    struct unetmm_completion c;
    struct link link;
    uint8_t *at;
    uint64_t before;

    link_open(&link, NULL, NULL);
    at = pages(2);
    before = driver_counter(link.ctx, UNETMM_D_bounce_refused);
    CHECK_EQ(send_status(link.tx, at, 300), UNETMM_ST_UNSUPPORTED);
    post(link.rx, at + PAGE, PAGE, 7);
    take(link.rx, UNETMM_CQE_BUFFER, &c);
    CHECK_EQ(c.status, UNETMM_ST_UNSUPPORTED);
    CHECK_EQ(c.user_data, 7);
    CHECK(driver_counter(link.ctx, UNETMM_D_bounce_refused) >= before + 2);
    /* Messages that need no DMA go on. */
    CHECK_EQ(send_status(link.tx, at, 8), UNETMM_ST_OK);
    link_close(&link);
}

TEST_NAMED("swiotlb.refused", bounced, TEST_BOTH | TEST_UTLB)
{
    struct unetmm_ctx *ctx;

    need_word("swiotlb=force");
    if (run.source != UNETMM_SOURCE_PINNED) {
        bounced_completions();
        return;
    }
    ctx = open_card();
    CHECK_RET(unetmm_register(ctx, pages(4), 4 * PAGE, 0), -EOPNOTSUPP);
    CHECK_RET(unetmm_close(ctx), 0);
}
ALSO("swiotlb.refused-unpinned", bounced, TEST_SHADOW | TEST_ODP)

/*
 * Memory is given up while the card, which takes 50 ms for a page, sends it:
 * the process waits for that, and the card is not given up.
 */
TEST_NAMED("slow.given-up", slow, TEST_TLB | TEST_SHADOW | TEST_ODP, 60)
{
    const uint64_t long_ns = 20000000;
    struct iovec iov;
    struct unetmm_completion c;
    struct link link;
    uint64_t took;
    uint8_t *at;

    need_word("slow_card=1");
    link_open(&link, NULL, NULL);
    at = pages(1);
    iov = (struct iovec) { at, PAGE / 2 };
    /* The card may not have begun, or be done. */
    EVENTUALLY(({
        memset(at, 1, PAGE);
        CHECK_EQ(send_status(link.tx, at, iov.iov_len), UNETMM_ST_OK);
        send_pieces(link.tx, &iov, 1, 1, 0);
        took = now_ns();
        CHECK_SYS(madvise(at, PAGE, MADV_DONTNEED));
        took = now_ns() - took;
        take_sent(link.tx, &c);
        CHECK_EQ(c.status, UNETMM_ST_OK);
        took >= long_ns;
    }));
    note("the process waited for %llu ms", (unsigned long long)took / 1000000);
    CHECK_EQ(driver_counter(link.ctx, UNETMM_D_invalidate_timeouts), 0);
    unmap_pages(at, 1);
    link_close(&link);
}
