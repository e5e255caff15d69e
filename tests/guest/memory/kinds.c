/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Pinning: each kind of memory in the table of kinds.h, for each source, used for
 * all that the table has a column for.
 */
#include "disk.h"
#include "guard.h"
#include "huge.h"
#include "kinds.h"
#include "link.h"

#include <libunetmm/inline.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <unistd.h>

#define LEN     1000

/* ---- Memory of each kind: one page, or NULL -------------------------------------- */

static struct link link_;       /* whose queues are two of the kinds */
static bool filled_;            /* the page has a pattern */
#define OTHERS  8
static pid_t others_[OTHERS];   /* processes that run beside the test */

static uint8_t *map(int protection, int flags, int fd, size_t bytes)
{
    void *at = mmap(NULL, bytes, protection, flags, fd, 0);

    return at == MAP_FAILED ? NULL : at;
}

static uint8_t *map_anonymous(int flags)
{
    return map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1,
               PAGE);
}

static uint8_t *filled(uint8_t *at)
{
    if (at) {
        pattern_fill(at, PAGE, 77, 0);
    }
    filled_ = at;
    return at;
}

static uint8_t *make_anonymous(void)
{
    return filled(map_anonymous(0));
}

static uint8_t *make_untouched(void)
{
    return map_anonymous(0);
}

static uint8_t *make_zeropage(void)
{
    uint8_t *at = map_anonymous(0);

    CHECK_EQ(*(volatile uint8_t *)at, 0);
    return at;
}

static uint8_t *make_readonly(void)
{
    uint8_t *at = make_anonymous();

    CHECK_SYS(mprotect(at, PAGE, PROT_READ));
    return at;
}

static uint8_t *make_noaccess(void)
{
    uint8_t *at = make_anonymous();

    CHECK_SYS(mprotect(at, PAGE, PROT_NONE));
    return at;
}

static uint8_t *make_noreserve(void)
{
    return filled(map_anonymous(MAP_NORESERVE));
}

static uint8_t *make_locked(void)
{
    uint8_t *at = make_anonymous();

    CHECK_SYS(mlock(at, PAGE));
    return at;
}

static uint8_t *make_thp(void)
{
    uint8_t *at = map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                      2 * HUGE);

    at += (HUGE - (uintptr_t)at % HUGE) % HUGE;
    if (madvise(at, HUGE, MADV_HUGEPAGE)) {
        return NULL;
    }
    return filled(at + HUGE / 2);
}

static bool set(const char *path, const char *value)
{
    int fd = open(path, O_WRONLY);
    bool good = fd >= 0 && write(fd, value, strlen(value)) > 0;

    if (fd >= 0) {
        close(fd);
    }
    return good;
}

static unsigned get(const char *path)
{
    FILE *file = fopen(path, "r");
    unsigned value = 0;

    if (file) {
        if (fscanf(file, "%u", &value) != 1) {
            value = 0;
        }
        fclose(file);
    }
    return value;
}

#define KSM "/sys/kernel/mm/ksm/"

static uint8_t *make_ksm(void)
{
    uint8_t *at = map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                      2 * PAGE);

    filled(at);
    memcpy(at + PAGE, at, PAGE);
    if (madvise(at, 2 * PAGE, MADV_MERGEABLE) ||
        !set(KSM "sleep_millisecs", "1") || !set(KSM "pages_to_scan", "1000") ||
        !set(KSM "run", "1")) {
        return NULL;
    }
    EVENTUALLY(get(KSM "pages_sharing") >= 1);
    set(KSM "run", "0");
    return at;
}

static uint8_t *make_uffd(void)
{
    struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };
    struct uffdio_api api = { .api = UFFD_API };
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    uint8_t *at = make_anonymous();

    if (fd < 0 || ioctl(fd, UFFDIO_API, &api)) {
        return NULL;
    }
    reg.range.start = (uintptr_t)at;
    reg.range.len = PAGE;
    CHECK_SYS(ioctl(fd, UFFDIO_REGISTER, &reg));
    return at;
}

static uint8_t *make_dontfork(void)
{
    uint8_t *at = make_anonymous();

    CHECK_SYS(madvise(at, PAGE, MADV_DONTFORK));
    return at;
}

/* A page of the stack far below the used ones. */
static uint8_t *make_stack(void)
{
    volatile uint8_t deep[8 * UNETMM_PAGE_BYTES];
    uintptr_t at = (uintptr_t)deep / PAGE * PAGE + PAGE;

    deep[0] = 0;
    return filled((uint8_t *)at);
}

static uint8_t *make_heap(void)
{
    return filled(aligned_alloc(PAGE, PAGE));
}

static uint8_t *make_bss(void)
{
    static uint8_t page[UNETMM_PAGE_BYTES] __attribute__((aligned(4096)));

    return page;
}

static uint8_t *make_data(void)
{
    static uint8_t page[UNETMM_PAGE_BYTES] __attribute__((aligned(4096))) =
        { 1 };

    return page;
}

static uint8_t *make_text(void)
{
    return (uint8_t *)((uintptr_t)test_main & -PAGE);
}

static uint8_t *make_devzero(void)
{
    int fd = CHECK_SYS(open("/dev/zero", O_RDWR));
    uint8_t *at = map(PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, PAGE);

    close(fd);
    return filled(at);
}

static uint8_t *make_shared(void)
{
    return filled(map(PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                      PAGE));
}

static uint8_t *map_fd(int fd, int protection, int flags, size_t bytes)
{
    uint8_t *at;

    if (fd < 0) {
        return NULL;
    }
    CHECK_SYS(ftruncate(fd, (off_t)bytes));
    at = map(protection, flags, fd, bytes);
    close(fd);
    return at;
}

static int memfd(unsigned flags)
{
    return (int)syscall(SYS_memfd_create, "kinds", flags);
}

static uint8_t *make_memfd(void)
{
    return filled(map_fd(memfd(0), PROT_READ | PROT_WRITE, MAP_SHARED, PAGE));
}

static uint8_t *make_memfdprivate(void)
{
    return filled(map_fd(memfd(0), PROT_READ | PROT_WRITE, MAP_PRIVATE, PAGE));
}

static uint8_t *make_secretmem(void)
{
    return filled(map_fd((int)syscall(447 /* memfd_secret */, 0),
                         PROT_READ | PROT_WRITE, MAP_SHARED, PAGE));
}

static uint8_t *map_hugetlb(int flags)
{
    set("/proc/sys/vm/nr_hugepages", "4");
    return filled(map(PROT_READ | PROT_WRITE,
                      MAP_ANONYMOUS | MAP_HUGETLB | flags, -1, HUGE));
}

static uint8_t *make_hugetlb(void)
{
    return map_hugetlb(MAP_PRIVATE);
}

static uint8_t *make_hugetlbshared(void)
{
    return map_hugetlb(MAP_SHARED);
}

static uint8_t *make_tmpfs(void)
{
    return filled(map_fd(new_file("/dev/shm/kind"), PROT_READ | PROT_WRITE,
                         MAP_SHARED, PAGE));
}

static uint8_t *make_tmpfsprivate(void)
{
    return filled(map_fd(new_file("/dev/shm/kind"), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE, PAGE));
}

static uint8_t *make_rootfs(void)
{
    return filled(map_fd(new_file("/kind"), PROT_READ | PROT_WRITE, MAP_SHARED,
                         PAGE));
}

static uint8_t *map_file(int fd, int protection, int flags)
{
    static uint8_t bytes[UNETMM_PAGE_BYTES];

    if (fd < 0) {
        return NULL;
    }
    pattern_fill(bytes, PAGE, 77, 0);
    CHECK_EQ(write(fd, bytes, PAGE), PAGE);
    filled_ = true;
    return map_fd(fd, protection, flags, PAGE);
}

static uint8_t *make_ext4(void)
{
    return map_file(new_file_on_ext4(), PROT_READ | PROT_WRITE, MAP_SHARED);
}

static uint8_t *make_ext4private(void)
{
    return map_file(new_file_on_ext4(), PROT_READ | PROT_WRITE, MAP_PRIVATE);
}

static uint8_t *make_ext4readonly(void)
{
    return map_file(new_file_on_ext4(), PROT_READ, MAP_SHARED);
}

static uint8_t *make_fsdax(void)
{
    return map_file(new_file_on_dax(), PROT_READ | PROT_WRITE, MAP_SHARED);
}

static void run_always(void *argument)
{
    for (;;) {
        *(volatile int *)argument = 0;
    }
}

static void start_others(void)
{
    static int nothing;
    unsigned i;

    if (others_[0]) {
        return;
    }
    for (i = 0; i < OTHERS; i++) {
        others_[i] = start_process(run_always, &nothing);
    }
}

static void end_others(void)
{
    unsigned i;

    for (i = 0; others_[0] && i < OTHERS; i++) {
        CHECK_SYS(kill(others_[i], SIGKILL));
        await_process(others_[i]);
    }
    others_[0] = 0;
}

/*
 * The file's page is mapped, and a copy takes its place when it is written.  A thread of
 * the kernel uses the page tables of the process that ran before it: mostly those of
 * one in which nothing is there.
 */
static uint8_t *make_fsdaxprivate(void)
{
    int fd = new_file_on_dax();
    uint8_t *at;

    if (fd < 0) {
        return NULL;
    }
    start_others();
    at = map_file(fd, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    CHECK_PATTERN(at, PAGE, 77);
    return at;
}

static uint8_t *make_devdax(void)
{
    int fd = open_dax_device();

    return fd < 0 ? NULL :
        filled(map(PROT_READ | PROT_WRITE, MAP_SHARED, fd, PAGE));
}

static uint8_t *make_beyond(void)
{
    return map(PROT_READ | PROT_WRITE, MAP_SHARED, new_file("/dev/shm/kind"),
               PAGE);
}

/* The start of a mapping that Linux itself has made. */
static uint8_t *find_mapping(const char *name)
{
    FILE *file = fopen("/proc/self/maps", "r");
    unsigned long start, found = 0;
    char line[300];

    CHECK(file);
    while (!found && fgets(line, sizeof(line), file)) {
        if (strstr(line, name) && sscanf(line, "%lx-", &start) == 1) {
            found = start;
        }
    }
    fclose(file);
    return (uint8_t *)found;
}

static uint8_t *make_vdso(void)
{
    return find_mapping("[vdso]");
}

static uint8_t *make_vvar(void)
{
    return find_mapping("[vvar]");
}

static uint8_t *make_devmem(void)
{
    int fd = open("/dev/mem", O_RDWR);
    void *at;

    if (fd < 0 && !mknod("/tmp/mem", S_IFCHR | 0600, makedev(1, 1))) {
        fd = open("/tmp/mem", O_RDWR);
    }
    at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0xf0000);
    return at == MAP_FAILED ? NULL : at;
}

static uint8_t *make_queues(void)
{
    return (uint8_t *)link_.tx->ep->index;
}

static uint8_t *make_doorbell(void)
{
    return (uint8_t *)(uintptr_t)link_.tx->ep->doorbell;
}

/* Below the lowest address for mmap(), so that it stays unmapped. */
static uint8_t *make_unmapped(void)
{
    return (uint8_t *)PAGE;
}

/* ---- The table ------------------------------------------------------------------------ */

enum outcome {
    YES = UNETMM_ST_OK,
    PROT = UNETMM_ST_PROTECTION,
    UNSUP = UNETMM_ST_UNSUPPORTED,
    OLD = 100,
    DAX,
    FRAMES,
    ELSE,
};

struct kind {
    const char *name;
    uint8_t *(*make)(void);
    enum outcome send, receive, read, write, zero;
};

#define KIND_ROW(id, text, send, receive, read, write, zero) \
    { #id, make_##id, send, receive, read, write, zero },
static const struct kind kinds[] = { KINDS(KIND_ROW) };

#define KIND_NUMBER(id, ...) KIND_##id,
enum { KINDS(KIND_NUMBER) };

static bool since_6_5(void)
{
    struct utsname name;
    unsigned major, minor;

    CHECK_SYS(uname(&name));
    CHECK_EQ(sscanf(name.release, "%u.%u", &major, &minor), 2);
    return major > 6 || (major == 6 && minor >= 5);
}

static bool never_pins(void)
{
    return run.source == UNETMM_SOURCE_SHADOW ||
           run.source == UNETMM_SOURCE_ODP;
}

/* Has the kernel's data page for the vdso no struct page, as up to Linux 6.12? */
static bool vvar_is_pfnmap(void)
{
    FILE *file = fopen("/proc/self/smaps", "r");
    bool ours = false, pfnmap = false;
    char line[300];

    CHECK(file);
    while (fgets(line, sizeof(line), file)) {
        if (strchr(line, '[')) {
            ours = strstr(line, "[vvar]");
        } else if (ours && !strncmp(line, "VmFlags:", 8)) {
            pfnmap = strstr(line, " pf");
            ours = false;
        }
    }
    fclose(file);
    return pfnmap;
}

/* Without pins, memory of any file can be used. */
static enum outcome wanted(enum outcome cell)
{
    if (cell == FRAMES) {
        return vvar_is_pfnmap() ? UNSUP : YES;
    }
    if (cell != OLD && cell != DAX) {
        return cell;
    }
    return never_pins() || (cell == OLD && !since_6_5()) ? YES : UNSUP;
}

/* ---- One use ------------------------------------------------------------------------------ */

static enum outcome try_send(uint8_t *at)
{
    struct iovec iov = { at, LEN };
    struct unetmm_completion c;
    unsigned status = send_status(link_.tx, at, LEN);
    uint8_t *to;

    if (status != UNETMM_ST_OK) {
        return status;
    }
    to = pages(1);
    reach(link_.ctx, to, PAGE, true);
    exchange(&link_, &iov, 1, to, PAGE, &c);
    CHECK(!memcmp(to, at, LEN));
    unreach(link_.ctx, to, PAGE);
    unmap_pages(to, 1);
    return YES;
}

/* Messages are sent until one has landed or the buffer has come back. */
static enum outcome try_receive(uint8_t *at, unsigned flags)
{
    uint8_t *from = pages(1);
    struct iovec iov = { from, LEN };
    uint64_t end = deadline_in(10);
    struct unetmm_completion c;
    int ret = unetmm_post_recv(link_.rx->ep, at, PAGE, 5, flags);

    if (ret == -EINVAL && flags && run.source == UNETMM_SOURCE_KTLB) {
        return UNSUP;
    }
    CHECK_RET(ret, 0);
    reach(link_.ctx, from, PAGE, false);
    pattern_fill(from, LEN, flags + 1, 0);
    while (!deliver(&link_, &iov, 1, &c)) {
        CHECK(now_ns() < end);
        if (!take_now(link_.rx, UNETMM_CQE_BUFFER, &c)) {
            continue;
        }
        if (c.status != UNETMM_ST_SKIPPED) {
            unreach(link_.ctx, from, PAGE);
            return c.status;
        }
        CHECK_RET(unetmm_post_recv(link_.rx->ep, at, PAGE, 5, flags), 0);
    }
    CHECK_EQ(c.user_data, 5);
    CHECK_PATTERN(at, LEN, flags + 1);
    if (filled_ && !flags) {
        CHECK_EQ(pattern_check(at + LEN, PAGE - LEN, 77, LEN), PAGE - LEN);
    }
    unreach(link_.ctx, from, PAGE);
    return YES;
}

static enum outcome try_register(uint8_t *at, bool write)
{
    int ret = unetmm_register(link_.ctx, at, PAGE,
                              write ? UNETMM_REGION_WRITE : 0);
    enum outcome outcome;

    if (ret) {
        return ret == -EFAULT ? PROT : ret == -EOPNOTSUPP ? UNSUP : ELSE;
    }
    outcome = write ? try_receive(at, 0) : try_send(at);
    CHECK_RET(unetmm_deregister(link_.ctx, at, PAGE), 0);
    return outcome;
}

static unsigned compare(const char *use, enum outcome got, enum outcome cell)
{
    if (got == wanted(cell)) {
        return 0;
    }
    note("%s: status %d, not %d", use, got, wanted(cell));
    return 1;
}

/* ktlb does not say why. */
static enum outcome zero_cell(const struct kind *kind)
{
    return run.source == UNETMM_SOURCE_KTLB && kind->zero != YES ? UNSUP :
        kind->zero;
}

static void run_kind(const struct kind *kind)
{
    unsigned wrong = 0;
    uint8_t *at;

    link_open(&link_, NULL, NULL);
    filled_ = false;
    at = kind->make();
    if (!at) {
        test_skip("this kernel has none");
    }
    if (run.source == UNETMM_SOURCE_PINNED) {
        wrong += compare("read", try_register(at, false), kind->read);
        wrong += compare("write", try_register(at, true), kind->write);
        CHECK_RET(unetmm_post_recv(link_.rx->ep, at, PAGE, 1, UNETMM_ZERO),
                  -EINVAL);
    } else {
        wrong += compare("send", try_send(at), kind->send);
        wrong += compare("receive", try_receive(at, 0), kind->receive);
    }
    if (run.source == UNETMM_SOURCE_UTLB) {
        CHECK_RET(unetmm_post_recv(link_.rx->ep, at, PAGE, 1, UNETMM_ZERO),
                  -EINVAL);
    } else if (never_pins() && kind->zero != YES) {
        /* A resident page is used as it is, without a miss. */
        note("as it is, or not at all");
    } else if (run.source != UNETMM_SOURCE_PINNED) {
        /* The card does not ask for a translation that it has. */
        link_close(&link_);
        link_open(&link_, NULL, NULL);
        if (kind->make == make_queues || kind->make == make_doorbell) {
            at = kind->make();
        }
        wrong += compare("zero", try_receive(at, UNETMM_ZERO),
                         zero_cell(kind));
    }
    end_others();
    link_close(&link_);
    CHECK_EQ(wrong, 0);
}

#define KIND_TEST(id, ...) \
    TEST_NAMED(#id, test_##id, TEST_ALL | TEST_UTLB | TEST_SHADOW | TEST_ODP) \
    { \
        run_kind(&kinds[KIND_##id]); \
    }
KINDS(KIND_TEST)
