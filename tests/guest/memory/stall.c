/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Processes whose memory never comes: a userfaultfd that nobody answers, a file in
 * FUSE whose daemon keeps each READ, or swap on a disk that stalls.  The first ends with a
 * signal; the second does not, for the daemon has read the request, and a thread that
 * waits for the page waits until the daemon ends.  A thread that waits for swap cannot be
 * killed in tmpfs; in a process's own memory it depends on the kernel.
 *
 * The card has misses there, or has lost pins, whose pages the driver has mapped again: the
 * file has them still, but to map the page is to read ahead, which the daemon keeps.  A
 * neighbour's misses go on as fast as before.  Neither the end of the process nor that of
 * the card waits for the page.
 */
#include "ask.h"
#include "card.h"
#include "fuse.h"
#include "group.h"
#include "guard.h"
#include "late.h"
#include "link.h"
#include "raw.h"
#include "swap.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#define STALLED_FILE    "/tmp/stalled"
#define SPACES          "/sys/kernel/debug/unetmm/unetmm0/spaces"
#define VICTIMS         4u
#define SAMPLES         200u
#define ATTEMPTS        6u
/* Of seconds: the driver gives a lost pin up after 4; other stalls do not end at all. */
#define SOON            3u
#define READ_AHEAD      (4 * UNETMM_PAGE_BYTES)
#define KEPT            1024u           /* KIND_LIMIT: pages that fill its group, */
#define FRESH           512u            /* ... and that it has never touched */

enum kind {
    KIND_USERFAULTFD,
    KIND_FUSE,
    KIND_LOST,                  /* pins of pages in FUSE */
    KIND_SWAP,                  /* memory of its own */
    KIND_TMPFS,                 /* in swap, too */
    KIND_LIMIT,                 /* fresh memory of a full group, which has to swap */
    NUM_KINDS,
};

static const char *const kind_names[NUM_KINDS] = {
    "userfaultfd", "FUSE", "lost pins", "swap", "tmpfs", "full group",
};

/* Shared by all. */
struct stage {
    enum kind kind;
    atomic_bool mounted, go, let_go;
    atomic_bool keeps;          /* KIND_LOST: READs, from now on */
    atomic_uint ready, stalled; /* victims; and those whose page is waited for */
};

struct victim {
    struct stage *stage;
    unsigned number;
};

static bool in_swap(enum kind kind)
{
    return kind == KIND_SWAP || kind == KIND_TMPFS || kind == KIND_LIMIT;
}

static bool in_fuse(enum kind kind)
{
    return kind == KIND_FUSE || kind == KIND_LOST;
}

/* ---- Those whose memory does not come ------------------------------------------- */

static void keep_read(int fd, const struct fuse_in_header *in, void *argument)
{
    static const uint8_t zeros[READ_AHEAD];
    const struct fuse_read_in *body = (const void *)(in + 1);
    struct stage *stage = argument;

    if (stage->kind == KIND_LOST && !atomic_load(&stage->keeps)) {
        CHECK(body->size <= sizeof(zeros));
        fuse_answer(fd, in, 0, zeros, body->size);
        return;
    }
    atomic_fetch_add(&stage->stalled, 1);
}

static void refuse_write(int fd, const struct fuse_in_header *in, void *argument)
{
    (void)argument;
    fuse_answer(fd, in, -EIO, NULL, 0);
}

/* Its end answers all that waits. */
static void daemon_main(void *argument)
{
    struct stage *stage = argument;
    struct fuse_hooks hooks = {
        .read = keep_read, .write = refuse_write, .argument = stage,
        .max_readahead = stage->kind == KIND_LOST ? READ_AHEAD : 0,
    };
    int fd = fuse_mount(STALLED_FILE);

    atomic_store(&stage->mounted, true);
    while (fuse_serve(fd, &hooks)) {
    }
    close(fd);
}

static void *page_of_file(unsigned number)
{
    int fd = CHECK_SYS(open(STALLED_FILE, O_RDONLY | O_CLOEXEC));

    /* Its length comes with its attributes. */
    CHECK_EQ(lseek(fd, 0, SEEK_END), FUSE_FILE_BYTES);
    return CHECK_SYS(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd,
                          (off_t)(number * 64 * PAGE)));
}

/* Returns when somebody tells it to go. */
static void be_ready(struct stage *stage)
{
    atomic_fetch_add(&stage->ready, 1);
    while (!atomic_load(&stage->go)) {
        breathe();
    }
}

/*
 * A page of the file that is marked: to map it is to read ahead.  Two reads in a row make
 * Linux read ahead, and mark the page that it has not been asked for; it is mapped as one
 * of memory that is accessed at random, which leaves the mark.
 */
static uint8_t *marked_page(unsigned number)
{
    int fd = CHECK_SYS(open(STALLED_FILE, O_RDONLY | O_CLOEXEC));
    off_t at = (off_t)((number * 64 + 1) * PAGE);
    uint8_t bytes[PAGE], *page;
    unsigned i;

    for (i = 0; i < 2; i++, at += PAGE) {
        CHECK_EQ(pread(fd, bytes, PAGE, at), PAGE);
    }
    page = CHECK_SYS(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, at));
    CHECK_SYS(madvise(page, PAGE, MADV_RANDOM));
    CHECK_EQ(*(volatile uint8_t *)page, 0);
    close(fd);
    return page;
}

static void pin_page(int fd, uint8_t *page)
{
    struct unetmm_region region = {
        .size = sizeof(region), .addr = (uintptr_t)page, .length = PAGE,
    };
    struct unetmm_utlb utlb = {
        .size = sizeof(utlb), .addr = (uintptr_t)page, .npages = 1,
    };

    if (run.source == UNETMM_SOURCE_UTLB) {
        CHECK_RET(raw_ioctl(fd, UNETMM_IOC_UTLB_PIN, &utlb), 0);
    } else {
        CHECK_RET(raw_ioctl(fd, UNETMM_IOC_REGISTER, &region), 0);
    }
}

static void loser_main(const struct victim *v)
{
    struct stage *stage = v->stage;
    uint8_t *page = marked_page(v->number);
    int fd = raw_open_space();

    pin_page(fd, page);
    CHECK_SYS(madvise(page, PAGE, MADV_NORMAL));
    be_ready(stage);
    CHECK_SYS(madvise(page, PAGE, MADV_DONTNEED));
    while (!atomic_load(&stage->let_go)) {
        breathe();
    }
    close(fd);
}

/* Is the page in memory, if only because it has been written to swap just now? */
static bool in_memory(void *page)
{
    unsigned char there;

    CHECK_SYS(mincore(page, PAGE, &there));
    return there & 1;
}

static void *page_in_swap(bool tmpfs)
{
    uint8_t *at = CHECK_SYS(mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
                                 (tmpfs ? MAP_SHARED : MAP_PRIVATE) |
                                 MAP_ANONYMOUS, -1, 0));
    uint64_t end = deadline_in(20);

    group_enter("stall");
    memset(at, 0x5a, PAGE);
    while (in_memory(at)) {
        CHECK(now_ns() < end);
        CHECK_SYS(madvise(at, PAGE, MADV_PAGEOUT));
        /* It says EAGAIN if it has reclaimed less. */
        group_reclaim(1 << 20);
        breathe();
    }
    return at;
}

/* Do most misses since then wait for a worker that may sleep? */
static bool most_are_deferred(struct unetmm_ctx *ctx, const uint64_t was[2])
{
    uint64_t faults = driver_counter(ctx, UNETMM_D_faults) - was[0];
    uint64_t deferred = driver_counter(ctx, UNETMM_D_faults_deferred) - was[1];

    return deferred > faults / 2;
}

/*
 * A write to each of its fresh pages, one after the other.  Each page that comes has
 * the group write another one to swap.
 */
static void spend(const struct victim *v, struct station *from, unsigned import)
{
    uint64_t was[2] = { driver_counter(from->ctx, UNETMM_D_faults),
                        driver_counter(from->ctx, UNETMM_D_faults_deferred) };
    uint8_t *source = pages(1);
    struct unetmm_completion c;
    bool told = false;
    unsigned i;

    for (i = 0; i < FRESH; i++) {
        /* A page that is used now is not the one that goes. */
        memset(source, (int)i, PAGE);
        CHECK_RET(unetmm_write(from->ep, import, i * PAGE, source, PAGE, 0, i,
                               0), 0);
        CHECK_RET(unetmm_ring(from->ep), 0);
        while (!take_now(from, UNETMM_CQE_SENT, &c)) {
            breathe();
        }
        CHECK_EQ(c.status, UNETMM_ST_OK);
        /* The first pages may come out of the processors' own charges. */
        if (!told && i >= FRESH / 64 && most_are_deferred(from->ctx, was)) {
            told = true;
            atomic_fetch_add(&v->stage->stalled, 1);
        }
    }
}

static void spender_main(const struct victim *v)
{
    static const struct unetmm_channel_attr attr = UNETMM_CHANNEL_ATTR_INIT;
    struct unetmm_ctx *ctx = open_card();
    struct station from = { 0 }, to = { 0 };
    uint8_t *fresh;
    unsigned import;

    station_open(&from, ctx, NULL);
    station_open(&to, ctx, NULL);
    CHECK_RET(try_join(&from, &to, &attr, 10 * NS_PER_S), 0);
    group_enter("stall");
    memset(pages(KEPT), 0x5a, KEPT * PAGE);
    fresh = pages(FRESH);
    CHECK_SYS(madvise(fresh, FRESH * PAGE, MADV_NOHUGEPAGE));
    CHECK_RET(unetmm_export(ctx, v->number, fresh, FRESH * PAGE,
                            UNETMM_RIGHT_ALL, 0, 0), 0);
    import = import_of(&from, v->number, UNETMM_RIGHT_ALL);
    be_ready(v->stage);
    spend(v, &from, import);
    while (!atomic_load(&v->stage->let_go)) {
        breathe();
    }
}

static void victim_main(void *argument)
{
    const struct victim *v = argument;
    struct stage *stage = v->stage;
    struct iovec iov = { .iov_len = PAGE };
    struct late late;
    struct link link;

    if (stage->kind == KIND_LOST) {
        loser_main(v);
        return;
    }
    if (stage->kind == KIND_LIMIT) {
        spender_main(v);
        return;
    }
    link_open(&link, NULL, NULL);
    if (stage->kind == KIND_FUSE) {
        iov.iov_base = page_of_file(v->number);
    } else if (in_swap(stage->kind)) {
        iov.iov_base = page_in_swap(stage->kind == KIND_TMPFS);
    } else {
        late_make(&late, 1);
        iov.iov_base = late.at;
    }
    be_ready(stage);
    send_pieces(link.tx, &iov, 1, 1, 0);
    if (stage->kind == KIND_USERFAULTFD) {
        CHECK_EQ(late_wanted(&late), 0);
        atomic_fetch_add(&stage->stalled, 1);
    }
    while (!atomic_load(&stage->let_go)) {
        breathe();
    }
}

struct scene {
    struct stage *stage;
    pid_t daemon;
    struct victim victims[VICTIMS];
    pid_t pids[VICTIMS];
};

static void scene_begin(struct scene *s, enum kind kind)
{
    unsigned i;

    s->stage = shared_memory(sizeof(*s->stage));
    s->stage->kind = kind;
    s->daemon = 0;
    if (in_swap(kind)) {
        /* A test that failed may have left it stalled. */
        ask_host("disk go");
        swap_on_disk();
        /* One page at a time. */
        CHECK_RET(write_file("/proc/sys/vm/page-cluster", "0"), 0);
    }
    if (in_fuse(kind)) {
        fuse_needed();
        s->daemon = start_process(daemon_main, s->stage);
        EVENTUALLY(atomic_load(&s->stage->mounted));
    }
    for (i = 0; i < VICTIMS; i++) {
        s->victims[i] = (struct victim) { s->stage, i };
        s->pids[i] = start_process(victim_main, &s->victims[i]);
    }
    EVENTUALLY(atomic_load(&s->stage->ready) == VICTIMS);
}

/* The first request after that goes through. */
static void stall_disk(enum kind kind)
{
    static uint8_t bytes[16 * UNETMM_PAGE_BYTES] __attribute__((aligned(4096)));
    int fd = CHECK_SYS(open("/dev/vda", O_RDONLY | O_DIRECT | O_CLOEXEC));

    /* A full group whose pages never reach the disk has its owner killed. */
    ask_host(kind == KIND_LIMIT ? "disk slow" : "disk stall");
    CHECK_EQ(read(fd, bytes, sizeof(bytes)), sizeof(bytes));
    close(fd);
}

/* Workers of the driver that are asleep, for all spaces. */
static unsigned asleep(void)
{
    FILE *file = fopen(SPACES, "r");
    unsigned all = 0, n;
    char line[400];

    CHECK(file);
    while (fgets(line, sizeof(line), file)) {
        const char *word = strstr(line, "asleep ");

        if (word && sscanf(word, "asleep %u", &n) == 1) {
            all += n;
        }
    }
    fclose(file);
    return all;
}

static bool scene_stalled(const struct scene *s)
{
    return in_swap(s->stage->kind) && s->stage->kind != KIND_LIMIT ?
           asleep() >= VICTIMS : atomic_load(&s->stage->stalled) >= VICTIMS;
}

static void scene_stall(struct scene *s)
{
    if (in_swap(s->stage->kind)) {
        stall_disk(s->stage->kind);
    }
    if (s->stage->kind == KIND_LIMIT) {
        group_name("stall");
        group_limit("memory.max", group_now("memory.current"));
    }
    atomic_store(&s->stage->keeps, true);
    atomic_store(&s->stage->go, true);
    EVENTUALLY(scene_stalled(s));
}

static void kill_within(pid_t pid, double seconds)
{
    uint64_t start = now_ns();

    CHECK_SYS(kill(pid, SIGKILL));
    CHECK_EQ(await_process(pid), SIGKILL);
    CHECK(now_ns() - start < (uint64_t)(seconds * NS_PER_S * run.slow));
}

/* Their processes end at once, although their memory is still waited for. */
static void scene_kill(struct scene *s)
{
    unsigned i;

    for (i = 0; i < VICTIMS; i++) {
        if (s->pids[i]) {
            kill_within(s->pids[i], SOON);
            s->pids[i] = 0;
        }
    }
}

static void scene_end(struct scene *s)
{
    scene_kill(s);
    if (s->stage->kind == KIND_LIMIT) {
        group_limit("memory.max", 0);
    }
    if (in_swap(s->stage->kind)) {
        ask_host("disk go");
        swap_off();
        CHECK_RET(write_file("/proc/sys/vm/page-cluster", "3"), 0);
    }
    if (s->daemon) {
        CHECK_SYS(kill(s->daemon, SIGKILL));
        CHECK_EQ(await_process(s->daemon), SIGKILL);
        CHECK_SYS(umount2(STALLED_FILE, MNT_DETACH));
    }
}

/* ---- Their neighbour ---------------------------------------------------------------- */

static int compare_times(const void *one, const void *two)
{
    uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)two;

    return a < b ? -1 : a > b;
}

/* How long the message takes, of 100, that takes longest but one; each has a miss. */
static uint64_t slowest(struct link *link, uint8_t *from, uint8_t *to)
{
    static uint64_t times[SAMPLES];
    uint64_t start;
    unsigned i;

    for (i = 0; i < SAMPLES; i++) {
        CHECK_SYS(madvise(to, PAGE, MADV_DONTNEED));
        start = now_ns();
        exchange_pattern(link, from, to, PAGE, i);
        times[i] = now_ns() - start;
    }
    qsort(times, SAMPLES, sizeof(times[0]), compare_times);
    return times[SAMPLES - 1 - SAMPLES / 100];
}

/*
 * The host may be busy just while the neighbour of the stalled processes is measured:
 * then the neighbour is measured again, and once more behind the stall, in case the host
 * stays busy.
 */
static void neighbour_of(enum kind kind)
{
    uint64_t quiet, stalled = 0;
    uint8_t *from, *to;
    struct link link;
    struct scene s;
    unsigned i;

    if (in_fuse(kind)) {
        fuse_needed();
    }
    link_open(&link, NULL, NULL);
    from = pages(1);
    to = pages(1);
    slowest(&link, from, to);
    scene_begin(&s, kind);
    quiet = slowest(&link, from, to);
    scene_stall(&s);
    for (i = 0; i < ATTEMPTS; i++) {
        stalled = slowest(&link, from, to);
        if (stalled <= 3 * quiet) {
            break;
        }
    }
    CHECK(!waitpid(s.pids[0], NULL, WNOHANG));
    scene_end(&s);
    if (stalled > 3 * quiet) {
        uint64_t later = slowest(&link, from, to);

        quiet = later > quiet ? later : quiet;
    }
    note("%s: 99 of 100 misses within %llu us, quiet %llu us", kind_names[kind],
         (unsigned long long)(stalled / 1000),
         (unsigned long long)(quiet / 1000));
    CHECK(stalled <= 3 * quiet);
    link_close(&link);
    unmap_pages(from, 1);
    unmap_pages(to, 1);
}

TEST(neighbour, TEST_MISS | TEST_SHADOW | TEST_ODP, 60)
{
    neighbour_of(KIND_USERFAULTFD);
}

TEST(neighbour_fuse, TEST_MISS | TEST_SHADOW | TEST_ODP, 60)
{
    neighbour_of(KIND_FUSE);
}

TEST(neighbour_swap, TEST_MISS | TEST_SHADOW | TEST_ODP, 60)
{
    neighbour_of(KIND_SWAP);
}

TEST(neighbour_tmpfs, TEST_MISS | TEST_SHADOW | TEST_ODP, 60)
{
    neighbour_of(KIND_TMPFS);
}

TEST(neighbour_limit, TEST_TLB | TEST_ODP, 60)
{
    neighbour_of(KIND_LIMIT);
}

/* ---- Ends -------------------------------------------------------------------------------- */

static void ends_soon(const char *what, void (*end)(void))
{
    uint64_t start = now_ns();

    end();
    note("%s: %llu ms", what,
         (unsigned long long)((now_ns() - start) / NS_PER_MS));
    CHECK(now_ns() - start < (uint64_t)(SOON * NS_PER_S * run.slow));
}

static void do_reset(void)
{
    card_write("reset", "1");
}

static void do_unbind(void)
{
    CHECK_RET(card_unbind(), 0);
}

static void do_unload(void)
{
    EVENTUALLY(module_unload() == 0);
}

/* Somebody is inside of the module until the daemon ends, or the disk goes on. */
static void do_unload_in_vain(void)
{
    CHECK_RET(module_unload(), -EAGAIN);
}

/* Up to Linux 6.1 a thread that reads one page from swap cannot be killed. */
static void do_unload_or_not(void)
{
    int ret = module_unload();

    CHECK(!ret || ret == -EAGAIN);
}

static void ends_of(enum kind kind)
{
    struct scene s;

    card_find();
    scene_begin(&s, kind);
    scene_stall(&s);
    ends_soon("a neighbour", card_check_works);
    ends_soon("reset", do_reset);
    card_check_works();
    scene_kill(&s);
    atomic_store(&s.stage->stalled, 0);
    scene_end(&s);
    scene_begin(&s, kind);
    scene_stall(&s);
    ends_soon("unbind", do_unbind);
    CHECK_RET(card_bind(), 0);
    card_check_works();
    scene_end(&s);
    scene_begin(&s, kind);
    scene_stall(&s);
    scene_kill(&s);
    card_check_works();
    ends_soon("rmmod", kind == KIND_USERFAULTFD ? do_unload :
              kind == KIND_SWAP ? do_unload_or_not : do_unload_in_vain);
    scene_end(&s);
    if (card_present()) {
        do_unload();
    }
    CHECK_RET(module_load(), 0);
    card_check_works();
}

TEST(ends, TEST_TLB | TEST_SHADOW | TEST_ODP | TEST_NO_CARD, 60)
{
    ends_of(KIND_USERFAULTFD);
}

TEST(ends_fuse, TEST_TLB | TEST_SHADOW | TEST_ODP | TEST_NO_CARD, 60)
{
    ends_of(KIND_FUSE);
}

TEST(ends_swap, TEST_TLB | TEST_SHADOW | TEST_ODP | TEST_NO_CARD, 60)
{
    ends_of(KIND_SWAP);
}

TEST(ends_tmpfs, TEST_TLB | TEST_SHADOW | TEST_ODP | TEST_NO_CARD, 60)
{
    ends_of(KIND_TMPFS);
}

TEST(ends_lost, TEST_PINNED | TEST_UTLB | TEST_NO_CARD, 60)
{
    ends_of(KIND_LOST);
}

/* Linux may wait for 5 s first, in case the button is pressed again. */
static void unplug_from(enum kind kind)
{
    uint64_t start;
    struct scene s;

    card_find();
    scene_begin(&s, kind);
    scene_stall(&s);
    start = now_ns();
    ask_host("unplug");
    EVENTUALLY(!card_present());
    CHECK(now_ns() - start < (uint64_t)((5 + SOON) * NS_PER_S * run.slow));
    scene_kill(&s);
    ask_host("plug");
    card_check_works();
    scene_end(&s);
    card_check_works();
}

TEST(unplug, TEST_TLB | TEST_NO_CARD, 60)
{
    unplug_from(KIND_FUSE);
}

TEST(unplug_lost, TEST_PINNED | TEST_NO_CARD, 60)
{
    unplug_from(KIND_LOST);
}

TEST(unplug_tmpfs, TEST_TLB | TEST_NO_CARD, 60)
{
    unplug_from(KIND_TMPFS);
}
