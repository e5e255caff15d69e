/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory that changes under the card: the process unmaps it, maps it anew, shares it
 * by fork, throws it away, moves or protects it.  The papers left this open:
 * their card kept using the page that it had pinned.
 *
 * Most tests use memory whose frames can be looked at from elsewhere: pages of
 * a file in memory, all of them mapped a second time, or (anonymous memory) a
 * pipe that holds on to the old page.
 */
#include "guard.h"
#include "link.h"
#include "look.h"
#include "traffic.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Frames ---------------------------------------------------------------------- */

struct frames {
    int fd;
    unsigned n, npages;
    uint8_t *view;              /* all of them */
};

static void frames_make(struct frames *f, unsigned n, unsigned npages)
{
    f->n = n;
    f->npages = npages;
    f->fd = CHECK_SYS(memfd_create("frames", MFD_CLOEXEC));
    CHECK_SYS(ftruncate(f->fd, (off_t)(n * npages * PAGE)));
    f->view = CHECK_SYS(mmap(NULL, n * npages * PAGE, PROT_READ | PROT_WRITE,
                             MAP_SHARED, f->fd, 0));
}

static void frames_free(struct frames *f)
{
    unmap_pages(f->view, f->n * f->npages);
    close(f->fd);
}

static uint8_t *frame(const struct frames *f, unsigned i)
{
    return f->view + i % f->n * f->npages * PAGE;
}

/* From now on the memory at `at` is frame i. */
static void map_frame(uint8_t *at, const struct frames *f, unsigned i)
{
    CHECK_SYS(mmap(at, f->npages * PAGE, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_FIXED, f->fd,
                   (off_t)(i % f->n * f->npages * PAGE)));
}

static void fill_frame(const struct frames *f, unsigned i, uint64_t key)
{
    pattern_fill(frame(f, i), f->npages * PAGE, key, 0);
}

/* The other side's memory for the message with `key`. */
struct side {
    struct link link;
    uint8_t *memory;
    unsigned npages;
    struct traffic traffic;
};

static void side_open(struct side *side, unsigned npages)
{
    traffic_start(&side->traffic, 77);
    link_open(&side->link, NULL, NULL);
    side->npages = npages;
    side->memory = pages(npages);
}

static void side_close(struct side *side)
{
    unmap_pages(side->memory, side->npages);
    link_close(&side->link);
    traffic_stop(&side->traffic);
}

/* The message that `at` sends must be that of `key`. */
static void sends(struct side *side, uint8_t *at, size_t len, uint64_t key)
{
    struct iovec iov = { at, len };
    struct unetmm_completion c;

    exchange(&side->link, &iov, 1, side->memory, len, &c);
    CHECK_EQ(c.len, len);
    CHECK_PATTERN(side->memory, len, key);
}

/* The same for all bytes equal. */
static void sends_bytes(struct side *side, uint8_t *at, size_t len,
                        uint8_t value)
{
    struct iovec iov = { at, len };
    struct unetmm_completion c;

    exchange(&side->link, &iov, 1, side->memory, len, &c);
    CHECK_EQ(c.len, len);
    CHECK_BYTES(side->memory, len, value);
}

/* Message `key` goes to the buffer at `at`, which the process reads then. */
static void receives(struct side *side, uint8_t *at, size_t len, uint64_t key)
{
    exchange_pattern(&side->link, side->memory, at, len, key);
}

/* ... which has been posted already, as `cookie`. */
static void lands(struct side *side, uint8_t *at, size_t len, uint64_t key,
                  uint64_t cookie)
{
    struct iovec iov = { side->memory, len };
    uint64_t end = deadline_in(10);
    struct unetmm_completion c;

    pattern_fill(side->memory, len, key, 0);
    while (!deliver(&side->link, &iov, 1, &c)) {
        CHECK(now_ns() < end);
        while (take_now(side->link.rx, UNETMM_CQE_BUFFER, &c)) {
            CHECK_EQ(c.status, UNETMM_ST_SKIPPED);
            post(side->link.rx, at, len, cookie);
        }
    }
    CHECK_EQ(c.user_data, cookie);
    CHECK_PATTERN(at, len, key);
}

/* ---- munmap, then mmap at the same address ------------------------------------------ */

#define NPAGES          2
#define BYTES           (NPAGES * PAGE)

TEST(remap_send, TEST_MISS | TEST_SHADOW | TEST_ODP | TEST_POLICIES)
{
    struct frames f;
    struct side side;
    uint8_t *at;
    unsigned i;

    side_open(&side, NPAGES);
    frames_make(&f, 2, NPAGES);
    at = pages(NPAGES);
    for (i = 0; i < rounds(100); i++) {
        fill_frame(&f, i, pattern_key(run.seed, i));
        if (i % 2) {
            unmap_pages(at, NPAGES);
        }
        map_frame(at, &f, i);
        sends(&side, at, BYTES, pattern_key(run.seed, i));
    }
    frames_free(&f);
    side_close(&side);
}

TEST(remap_receive, TEST_MISS | TEST_SHADOW | TEST_ODP | TEST_POLICIES)
{
    struct frames f;
    struct side side;
    uint8_t *at;
    unsigned i;

    side_open(&side, NPAGES);
    frames_make(&f, 2, NPAGES);
    at = pages(NPAGES);
    map_frame(at, &f, 1);
    for (i = 0; i < rounds(100); i++) {
        /* The card has the translation to the old frame, and a buffer. */
        receives(&side, at, BYTES, pattern_key(run.seed, 1000000 + i));
        fill_frame(&f, 0, i);
        fill_frame(&f, 1, ~(uint64_t)i);
        post(side.link.rx, at, BYTES, i);
        map_frame(at, &f, i);
        lands(&side, at, BYTES, pattern_key(run.seed, i), i);
        CHECK_PATTERN(frame(&f, i), BYTES, pattern_key(run.seed, i));
        CHECK_PATTERN(frame(&f, i + 1), BYTES, i % 2 ? i : ~(uint64_t)i);
    }
    frames_free(&f);
    side_close(&side);
}

/* A pipe that keeps the pages at `at`, whatever becomes of the mapping. */
static void keep_pages(int pipe_fds[2], uint8_t *at, size_t len)
{
    struct iovec iov = { at, len };

    CHECK_SYS(pipe(pipe_fds));
    CHECK_EQ(vmsplice(pipe_fds[1], &iov, 1, 0), len);
}

static void check_kept(int pipe_fds[2], size_t len, uint64_t key)
{
    uint8_t bytes[PAGE];
    size_t at = 0;

    while (at < len) {
        ssize_t got = CHECK_SYS(read(pipe_fds[0], bytes, sizeof(bytes)));

        CHECK(got > 0);
        if (pattern_check(bytes, (size_t)got, key, at) != (size_t)got) {
            FAIL("the page that was given away has been written");
        }
        at += (size_t)got;
    }
    close(pipe_fds[0]);
    close(pipe_fds[1]);
}

/* Offers messages as long as the buffer, one of whose pages is absent. */
static unsigned comes_back(struct side *side, uint8_t *at, uint64_t cookie)
{
    struct iovec whole = { side->memory, BYTES };

    return provoke_return(&side->link, &whole, at, BYTES, cookie);
}

/* Other pages in their place, with no moment in between. */
static void renew(uint8_t *at, unsigned npages)
{
    CHECK_EQ((uintptr_t)CHECK_SYS(mmap(at, npages * PAGE,
                                       PROT_READ | PROT_WRITE, MAP_PRIVATE |
                                       MAP_ANONYMOUS | MAP_FIXED, -1, 0)),
             (uintptr_t)at);
}

TEST(anonymous, TEST_MISS | TEST_SHADOW | TEST_ODP | TEST_POLICIES)
{
    struct side side;
    uint8_t *at;
    unsigned i;

    side_open(&side, NPAGES);
    at = pages(NPAGES);
    for (i = 0; i < rounds(60); i++) {
        uint64_t key = pattern_key(run.seed, 4 * i);
        int kept[2];

        pattern_fill(at, BYTES, key, 0);
        sends(&side, at, BYTES, key);
        receives(&side, at, BYTES, key + 1);
        pattern_fill(at, BYTES, key + 2, 0);
        post(side.link.rx, at, BYTES, i);
        keep_pages(kept, at, BYTES);
        renew(at, NPAGES);
        if (i % 2) {
            pattern_fill(at, BYTES, key + 1, 0);
        }
        lands(&side, at, BYTES, key + 3, i);
        check_kept(kept, BYTES, key + 2);
        pattern_fill(at, BYTES, key + 1, 0);
        sends(&side, at, BYTES, key + 1);
    }
    unmap_pages(at, NPAGES);
    side_close(&side);
}

/* Between munmap and mmap there is nothing that could be used. */
TEST(unmapped_meanwhile, TEST_MISS | TEST_SHADOW | TEST_ODP | TEST_POLICIES)
{
    struct frames f;
    struct side side;
    uint8_t *at;
    unsigned i;

    side_open(&side, NPAGES);
    frames_make(&f, 1, NPAGES);
    at = pages(NPAGES);
    for (i = 0; i < rounds(40); i++) {
        uint64_t key = pattern_key(run.seed, i);

        map_frame(at, &f, 0);
        receives(&side, at, BYTES, key);
        post(side.link.rx, at, BYTES, i);
        fill_frame(&f, 0, ~key);
        unmap_pages(at + i % 2 * PAGE, 1);
        CHECK_EQ(send_status(side.link.tx, at, BYTES), UNETMM_ST_PROTECTION);
        CHECK_EQ(comes_back(&side, at, i), UNETMM_ST_PROTECTION);
        CHECK_PATTERN(frame(&f, 0), BYTES, ~key);
    }
    frames_free(&f);
    side_close(&side);
}

/* ---- fork -------------------------------------------------------------------------- */

struct child {
    uint8_t *at;
    size_t len;
    uint64_t key;
    bool writes;
    struct { atomic_bool go, done; } *state;
};

/* A child sees its memory as it was at the fork, whatever its parent does. */
static void child_main(void *argument)
{
    struct child *child = argument;
    uint64_t end = deadline_in(20);

    if (child->writes) {
        CHECK_PATTERN(child->at, child->len, child->key);
        memset(child->at, 0xcc, child->len);
        atomic_store(&child->state->done, true);
    }
    while (!atomic_load(&child->state->go)) {
        CHECK(now_ns() < end);
        breathe();
    }
    if (child->writes) {
        CHECK_BYTES(child->at, child->len, 0xcc);
    } else {
        CHECK_PATTERN(child->at, child->len, child->key);
    }
}

static pid_t child_start(struct child *child)
{
    pid_t pid;

    atomic_store(&child->state->go, false);
    atomic_store(&child->state->done, false);
    pid = start_process(child_main, child);
    if (child->writes) {
        EVENTUALLY(atomic_load(&child->state->done));
    }
    return pid;
}

static void child_end(struct child *child, pid_t pid)
{
    atomic_store(&child->state->go, true);
    end_process(pid);
}

TEST(fork_send, TEST_MISS | TEST_SHADOW | TEST_ODP)
{
    struct child child = { .len = BYTES };
    struct side side;
    unsigned i;
    pid_t pid;

    side_open(&side, NPAGES);
    child.state = shared_memory(PAGE);
    child.at = pages(NPAGES);
    for (i = 0; i < rounds(24); i++) {
        uint64_t key = pattern_key(run.seed, 2 * i);

        pattern_fill(child.at, BYTES, key, 0);
        sends(&side, child.at, BYTES, key);
        child.key = key;
        child.writes = i % 3 == 1;
        pid = child_start(&child);
        if (i % 2) {
            pattern_fill(child.at, BYTES, ++key, 0);
        }
        sends(&side, child.at, BYTES, key);
        child_end(&child, pid);
        sends(&side, child.at, BYTES, key);
    }
    side_close(&side);
}

TEST(fork_receive, TEST_MISS | TEST_SHADOW | TEST_ODP | TEST_POLICIES)
{
    struct child child = { .len = BYTES };
    struct side side;
    unsigned i;
    pid_t pid;

    side_open(&side, NPAGES);
    child.state = shared_memory(PAGE);
    child.at = pages(NPAGES);
    for (i = 0; i < rounds(24); i++) {
        uint64_t key = pattern_key(run.seed, 4 * i);

        receives(&side, child.at, BYTES, key);
        pattern_fill(child.at, BYTES, key + 1, 0);
        post(side.link.rx, child.at, BYTES, i);
        child.key = key + 1;
        child.writes = i % 3 == 1;
        pid = child_start(&child);
        if (i % 2) {
            child.at[i] ^= 1;
            child.at[BYTES - 1] ^= 1;
        }
        lands(&side, child.at, BYTES, key + 2, i);
        child_end(&child, pid);
        CHECK_PATTERN(child.at, BYTES, key + 2);
        receives(&side, child.at, BYTES, key + 3);
    }
    side_close(&side);
}

/*
 * Registered memory after a fork: messages go to and come from the parent's
 * pages; the child's stay as they are.
 */
TEST(fork_registered, TEST_PINNED)
{
    struct child child = { .len = BYTES };
    struct side side;
    unsigned i;

    side_open(&side, NPAGES);
    reach(side.link.ctx, side.memory, BYTES, true);
    child.state = shared_memory(PAGE);
    child.at = pages(NPAGES);
    reach(side.link.ctx, child.at, BYTES, true);
    for (i = 0; i < rounds(16); i++) {
        uint64_t key = pattern_key(run.seed, i);
        pid_t pid;

        pattern_fill(child.at, BYTES, key, 0);
        child.key = key;
        child.writes = i % 2;
        post(side.link.rx, child.at, BYTES, i);
        pid = child_start(&child);
        lands(&side, child.at, BYTES, key + 1, i);
        child_end(&child, pid);
        CHECK_PATTERN(child.at, BYTES, key + 1);
        sends(&side, child.at, BYTES, key + 1);
    }
    unreach(side.link.ctx, child.at, BYTES);
    side_close(&side);
}

/* ---- MADV_DONTNEED -------------------------------------------------------------------- */

TEST(dontneed, TEST_MISS | TEST_SHADOW | TEST_ODP | TEST_POLICIES)
{
    struct side side;
    uint8_t *at;
    unsigned i;

    side_open(&side, NPAGES);
    at = pages(NPAGES);
    for (i = 0; i < rounds(60); i++) {
        uint64_t key = pattern_key(run.seed, 4 * i);
        int kept[2];

        pattern_fill(at, BYTES, key, 0);
        sends(&side, at, BYTES, key);
        receives(&side, at, BYTES, key + 1);
        if (i % 3 == 0) {
            post(side.link.rx, at, BYTES, i);
        }
        keep_pages(kept, at, BYTES);
        CHECK_SYS(madvise(at, BYTES, MADV_DONTNEED));
        if (i % 2) {
            CHECK_BYTES(at, BYTES, 0);
        }
        if (i % 3 == 0) {
            lands(&side, at, BYTES, key + 2, i);
        } else {
            sends_bytes(&side, at, BYTES, 0);
            receives(&side, at, PAGE, key + 2);
            CHECK_BYTES(at + PAGE, BYTES - PAGE, 0);
        }
        check_kept(kept, BYTES, key + 1);
    }
    side_close(&side);
}

/* ---- mremap ------------------------------------------------------------------------- */

TEST(move, TEST_MISS | TEST_SHADOW | TEST_ODP | TEST_POLICIES)
{
    struct side side;
    uint8_t *arena, *at, *to;
    unsigned i;

    side_open(&side, NPAGES);
    arena = pages(4 * NPAGES);
    for (i = 0; i < rounds(60); i++) {
        uint64_t key = pattern_key(run.seed, 4 * i);
        bool keep = i % 3 == 2;

        at = arena + i % 2 * 2 * BYTES;
        to = arena + (1 - i % 2) * 2 * BYTES + BYTES;
        receives(&side, at, BYTES, key);
        post(side.link.rx, at, BYTES, i);
        pattern_fill(at, BYTES, key + 1, 0);
        CHECK_SYS(mremap(at, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED |
                         (keep ? MREMAP_DONTUNMAP : 0), to));
        if (keep) {
            CHECK_BYTES(at, BYTES, 0);
            lands(&side, at, BYTES, key + 2, i);
        } else {
            CHECK_EQ(send_status(side.link.tx, at, BYTES),
                     UNETMM_ST_PROTECTION);
            CHECK_EQ(comes_back(&side, at, i), UNETMM_ST_PROTECTION);
            CHECK_SYS(mmap(at, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE |
                           MAP_ANONYMOUS | MAP_FIXED, -1, 0));
        }
        CHECK_PATTERN(to, BYTES, key + 1);
        sends(&side, to, BYTES, key + 1);
        receives(&side, at, BYTES, key + 3);
        CHECK_PATTERN(to, BYTES, key + 1);
        sends(&side, to, BYTES, key + 1);
    }
    side_close(&side);
}

/* ---- mprotect --------------------------------------------------------------------------- */

TEST(protect, TEST_MISS | TEST_SHADOW | TEST_ODP | TEST_POLICIES)
{
    struct side side;
    uint8_t *at;
    unsigned i;

    side_open(&side, NPAGES);
    at = pages(NPAGES);
    for (i = 0; i < rounds(40); i++) {
        uint64_t key = pattern_key(run.seed, 4 * i);

        receives(&side, at, BYTES, key);
        post(side.link.rx, at, BYTES, i);
        CHECK_SYS(mprotect(at + i % 2 * PAGE, PAGE,
                           i % 3 ? PROT_READ : PROT_NONE));
        CHECK_EQ(comes_back(&side, at, i), UNETMM_ST_PROTECTION);
        if (i % 3) {
            sends(&side, at, BYTES, key);
        } else {
            CHECK_EQ(send_status(side.link.tx, at, BYTES),
                     UNETMM_ST_PROTECTION);
        }
        CHECK_SYS(mprotect(at, BYTES, PROT_READ | PROT_WRITE));
        CHECK_PATTERN(at, BYTES, key);
        receives(&side, at, BYTES, key + 1);
        sends(&side, at, BYTES, key + 1);
    }
    side_close(&side);
}

/* ---- A file that gets shorter --------------------------------------------------------------- */

TEST(truncated, TEST_MISS | TEST_SHADOW | TEST_ODP)
{
    struct frames f;
    struct side side;
    uint8_t *at;
    unsigned i;

    side_open(&side, NPAGES);
    frames_make(&f, 1, NPAGES);
    at = pages(NPAGES);
    map_frame(at, &f, 0);
    for (i = 0; i < rounds(40); i++) {
        uint64_t key = pattern_key(run.seed, 4 * i);

        receives(&side, at, BYTES, key);
        sends(&side, at, BYTES, key);
        post(side.link.rx, at, BYTES, i);
        if (i % 2) {
            CHECK_SYS(ftruncate(f.fd, (off_t)PAGE));
            CHECK_EQ(send_status(side.link.tx, at, BYTES),
                     UNETMM_ST_PROTECTION);
            CHECK_EQ(comes_back(&side, at, i), UNETMM_ST_PROTECTION);
            CHECK_PATTERN(at, PAGE, key);
            CHECK_SYS(ftruncate(f.fd, (off_t)BYTES));
            CHECK_BYTES(at + PAGE, PAGE, 0);
        } else {
            CHECK_SYS(fallocate(f.fd, FALLOC_FL_PUNCH_HOLE |
                                FALLOC_FL_KEEP_SIZE, 0, (off_t)PAGE));
            CHECK_BYTES(at, PAGE, 0);
            lands(&side, at, BYTES, key + 1, i);
            CHECK_PATTERN(frame(&f, 0), BYTES, key + 1);
        }
    }
    frames_free(&f);
    side_close(&side);
}

/* ---- Registered memory (source pinned) -------------------------------------------------------- */

/* A page that leaves the process leaves the card, and returns only on request. */
TEST(registered, TEST_PINNED)
{
    struct frames f;
    struct side side;
    uint8_t *at;
    unsigned i;

    side_open(&side, NPAGES);
    reach(side.link.ctx, side.memory, BYTES, true);
    frames_make(&f, 2, NPAGES);
    at = pages(NPAGES);
    for (i = 0; i < rounds(30); i++) {
        uint64_t key = pattern_key(run.seed, 4 * i);

        map_frame(at, &f, 0);
        reach(side.link.ctx, at, BYTES, true);
        receives(&side, at, BYTES, key);
        sends(&side, at, BYTES, key);
        post(side.link.rx, at, BYTES, i);
        fill_frame(&f, 0, key + 1);
        fill_frame(&f, 1, key + 2);
        map_frame(at, &f, 1);
        CHECK_EQ(comes_back(&side, at, i), UNETMM_ST_PROTECTION);
        CHECK_EQ(send_status(side.link.tx, at, BYTES), UNETMM_ST_PROTECTION);
        CHECK_PATTERN(frame(&f, 0), BYTES, key + 1);
        CHECK_PATTERN(frame(&f, 1), BYTES, key + 2);
        unreach(side.link.ctx, at, BYTES);
        reach(side.link.ctx, at, BYTES, true);
        sends(&side, at, BYTES, key + 2);
        unreach(side.link.ctx, at, BYTES);
    }
    frames_free(&f);
    side_close(&side);
}

/* ---- The hole, opened ---------------------------------------------------------------------------- */

#define HOLE "/sys/module/unetmm/parameters/hole"

static bool set_hole(const char *value)
{
    int fd = open(HOLE, O_WRONLY);
    bool good = fd >= 0 && write(fd, value, 1) == 1;

    if (fd >= 0) {
        close(fd);
    }
    return good;
}

/* With the papers' rule the card goes on using pages that the process gave away. */
static void stale(void *argument)
{
    struct unetmm_completion c;
    struct iovec iov = { NULL, BYTES };
    struct frames f;
    struct link link;
    uint8_t *at, *to;

    (void)argument;
    link_open(&link, NULL, NULL);
    frames_make(&f, 2, NPAGES);
    at = pages(NPAGES);
    to = pages(NPAGES);
    fill_frame(&f, 0, 1);
    fill_frame(&f, 1, 2);
    map_frame(at, &f, 0);
    iov.iov_base = at;
    exchange(&link, &iov, 1, to, BYTES, &c);
    CHECK_PATTERN(to, BYTES, 1);
    map_frame(at, &f, 1);
    exchange(&link, &iov, 1, to, BYTES, &c);
    CHECK_PATTERN(to, BYTES, 1);
    link_close(&link);
}

/* Nothing keeps pages that are not pinned: those must go all the same. */
static void fresh(void *argument)
{
    struct unetmm_completion c;
    struct iovec iov = { NULL, BYTES };
    struct frames f;
    struct link link;
    uint8_t *at, *to;
    unsigned i;

    (void)argument;
    link_open(&link, NULL, NULL);
    frames_make(&f, 2, NPAGES);
    at = pages(NPAGES);
    to = pages(NPAGES);
    fill_frame(&f, 0, 1);
    fill_frame(&f, 1, 2);
    iov.iov_base = at;
    for (i = 0; i < rounds(20); i++) {
        map_frame(at, &f, i % 2);
        exchange(&link, &iov, 1, to, BYTES, &c);
        CHECK_PATTERN(to, BYTES, 1 + i % 2);
        CHECK_SYS(madvise(to, BYTES, MADV_DONTNEED));
    }
    link_close(&link);
}

static void with_hole(void (*what)(void *argument))
{
    int status;
    pid_t pid;

    if (!set_hole("1")) {
        test_skip("the driver has no parameter to open the hole");
    }
    pid = start_process(what, NULL);
    status = await_process(pid);
    CHECK(set_hole("0"));
    CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
}

TEST(hole_open, TEST_MISS)
{
    with_hole(stale);
}

TEST(hole_closed, TEST_SHADOW | TEST_ODP)
{
    with_hole(fresh);
}

/* ---- Races ---------------------------------------------------------------------------------------- */

#define RACE_FRAMES     8

/* A thread that maps one frame after the other at `at`. */
struct mutator {
    pthread_t thread;
    pthread_mutex_t lock;
    struct frames frames;
    uint8_t *at;
    bool fills;
    atomic_bool stop;
    atomic_ullong mapped;       /* steps that are complete */
};

static void *mutate(void *argument)
{
    struct mutator *m = argument;
    struct chance chance;
    uint64_t step;

    chance_init(&chance, 5);
    for (step = 1; !atomic_load(&m->stop); step++) {
        pthread_mutex_lock(&m->lock);
        if (m->fills) {
            fill_frame(&m->frames, (unsigned)step, step);
        }
        map_frame(m->at, &m->frames, (unsigned)step);
        atomic_store(&m->mapped, step);
        pthread_mutex_unlock(&m->lock);
        idle_ns(chance_below(&chance, 400) * NS_PER_US);
    }
    return NULL;
}

static void mutator_start(struct mutator *m, bool fills)
{
    frames_make(&m->frames, RACE_FRAMES, NPAGES);
    m->at = pages(NPAGES);
    m->fills = fills;
    fill_frame(&m->frames, 0, 0);
    map_frame(m->at, &m->frames, 0);
    atomic_init(&m->stop, false);
    atomic_init(&m->mapped, 0);
    pthread_mutex_init(&m->lock, NULL);
    CHECK_EQ(pthread_create(&m->thread, NULL, mutate, m), 0);
}

static void mutator_stop(struct mutator *m)
{
    atomic_store(&m->stop, true);
    CHECK_EQ(pthread_join(m->thread, NULL), 0);
    note("%llu remaps", (unsigned long long)atomic_load(&m->mapped));
    frames_free(&m->frames);
}

/* The page is as frame `step` was, for a step in between. */
static bool is_of_step(const uint8_t *got, unsigned page, uint64_t low,
                       uint64_t high)
{
    uint64_t step;

    for (step = low; step <= high; step++) {
        if (pattern_check(got + page * PAGE, PAGE, step, page * PAGE) ==
            PAGE) {
            return true;
        }
    }
    return false;
}

TEST(race_send, TEST_MISS | TEST_SHADOW | TEST_ODP | TEST_POLICIES)
{
    struct mutator m;
    struct side side;
    unsigned i, p;

    side_open(&side, NPAGES);
    mutator_start(&m, true);
    for (i = 0; i < rounds(200) || atomic_load(&m.mapped) < 20; i++) {
        struct iovec iov = { m.at, BYTES };
        uint64_t low = atomic_load(&m.mapped), high;
        struct unetmm_completion c;

        exchange(&side.link, &iov, 1, side.memory, BYTES, &c);
        high = atomic_load(&m.mapped) + 1;
        CHECK_EQ(c.len, BYTES);
        for (p = 0; p < NPAGES; p++) {
            if (!is_of_step(side.memory, p, low, high)) {
                FAIL("message %u: page %u is of no step from %llu to %llu", i,
                     p, (unsigned long long)low, (unsigned long long)high);
            }
        }
    }
    mutator_stop(&m);
    side_close(&side);
}

/*
 * One frame has the page, and it was mapped while the message was under way;
 * all others are as they were.
 */
static void check_landing(const struct mutator *m, unsigned page,
                          uint64_t low, uint64_t high, uint64_t key)
{
    bool shadow = run.source == UNETMM_SOURCE_SHADOW;
    unsigned i, found = 0;
    uint64_t step;

    for (i = 0; i < RACE_FRAMES; i++) {
        const uint8_t *at = frame(&m->frames, i) + page * PAGE;
        bool allowed = false;

        if (pattern_check(at, PAGE, ~(uint64_t)i, page * PAGE) == PAGE) {
            continue;
        }
        for (step = low; step <= high; step++) {
            allowed |= step % RACE_FRAMES == i;
        }
        if (pattern_check(at, PAGE, key, page * PAGE) != PAGE) {
            FAIL("page %u of frame %u has neither message nor canary", page,
                 i);
        }
        if (!allowed) {
            FAIL("page %u landed in frame %u, mapped neither at step %llu nor "
                 "up to %llu", page, i, (unsigned long long)low,
                 (unsigned long long)high);
        }
        found++;
    }
    /* A message that was dropped half way has left its first pages behind. */
    CHECK(shadow ? found >= 1 : found == 1);
}

/*
 * On one CPU messages and changes of the mapping can go in step for ever: each
 * message asks for pages that are gone when the answer comes.  So memory stands
 * still for a message that has been tried so often.
 */
#define RACE_TRIES      200

TEST(race_receive, TEST_MISS | TEST_SHADOW | TEST_ODP | TEST_POLICIES)
{
    struct mutator m;
    struct side side;
    unsigned i, p, tries;

    side_open(&side, NPAGES);
    mutator_start(&m, false);
    for (i = 0; i < rounds(120) || atomic_load(&m.mapped) < 20; i++) {
        struct iovec iov = { side.memory, BYTES };
        uint64_t first = atomic_load(&m.mapped), low, high;
        uint64_t end = deadline_in(10);
        uint64_t key = pattern_key(run.seed, i);
        struct unetmm_completion c;

        pthread_mutex_lock(&m.lock);
        for (p = 0; p < RACE_FRAMES; p++) {
            fill_frame(&m.frames, p, ~(uint64_t)p);
        }
        pthread_mutex_unlock(&m.lock);
        pattern_fill(side.memory, BYTES, key, 0);
        post(side.link.rx, m.at, BYTES, i);
        tries = 0;
        do {
            CHECK(now_ns() < end);
            if (tries++ == RACE_TRIES) {
                pthread_mutex_lock(&m.lock);
            }
            while (take_now(side.link.rx, UNETMM_CQE_BUFFER, &c)) {
                CHECK_EQ(c.status, UNETMM_ST_SKIPPED);
                post(side.link.rx, m.at, BYTES, i);
            }
            low = atomic_load(&m.mapped);
        } while (!deliver(&side.link, &iov, 1, &c));
        high = atomic_load(&m.mapped) + 1;
        if (tries <= RACE_TRIES) {
            pthread_mutex_lock(&m.lock);
        }
        for (p = 0; p < NPAGES; p++) {
            check_landing(&m, p, run.source == UNETMM_SOURCE_SHADOW ? first :
                          low, high, key);
        }
        pthread_mutex_unlock(&m.lock);
    }
    mutator_stop(&m);
    side_close(&side);
}

/* A file that loses pages, gets shorter and longer, and is touched in between. */
struct resizer {
    pthread_t thread;
    struct frames frames;
    uint8_t *at;
    atomic_bool stop;
    atomic_uint steps;
};

static void *resize(void *argument)
{
    struct resizer *r = argument;
    unsigned step;

    for (step = 0; !atomic_load(&r->stop); step++) {
        if (step % 2) {
            CHECK_SYS(ftruncate(r->frames.fd, (off_t)PAGE));
            CHECK_SYS(ftruncate(r->frames.fd, (off_t)BYTES));
        } else {
            CHECK_SYS(fallocate(r->frames.fd, FALLOC_FL_PUNCH_HOLE |
                                FALLOC_FL_KEEP_SIZE, 0, (off_t)BYTES));
        }
        touch(r->at, NPAGES, step % 3);
        atomic_store(&r->steps, step);
    }
    return NULL;
}

/*
 * Linux lends this memory at all times, and the process may not use a page while the
 * file is short: each refusal is a PROTECTION.
 */
TEST(race_truncate, TEST_MISS | TEST_SHADOW | TEST_ODP)
{
    struct resizer r = { .stop = false };
    struct unetmm_completion c;
    struct side side;
    bool posted = false;
    unsigned i;

    side_open(&side, NPAGES);
    frames_make(&r.frames, 1, NPAGES);
    r.at = pages(NPAGES);
    map_frame(r.at, &r.frames, 0);
    CHECK_EQ(pthread_create(&r.thread, NULL, resize, &r), 0);
    for (i = 0; i < rounds(400) || atomic_load(&r.steps) < 200; i++) {
        unsigned status = send_status(side.link.tx, r.at, BYTES);

        CHECK(status == UNETMM_ST_OK || status == UNETMM_ST_PROTECTION);
        while (take_now(side.link.rx, UNETMM_CQE_RECEIVED, &c)) {
            posted = false;
        }
        while (take_now(side.link.rx, UNETMM_CQE_BUFFER, &c)) {
            CHECK(c.status == UNETMM_ST_PROTECTION ||
                  c.status == UNETMM_ST_SKIPPED);
            posted = false;
        }
        if (!posted) {
            post(side.link.rx, r.at, BYTES, i);
            posted = true;
        }
    }
    atomic_store(&r.stop, true);
    CHECK_EQ(pthread_join(r.thread, NULL), 0);
    note("%u steps", atomic_load(&r.steps));
    frames_free(&r.frames);
    side_close(&side);
}

/* Children come and go while messages do. */
TEST(race_fork, TEST_MISS | TEST_UTLB | TEST_SHADOW | TEST_ODP)
{
    struct traffic traffic[2];
    struct child child = { .len = BYTES };
    unsigned i;
    pid_t pid;

    traffic_start(&traffic[0], 1);
    traffic_start(&traffic[1], 2);
    child.state = shared_memory(PAGE);
    child.at = pages(NPAGES);
    for (i = 0; i < rounds(15); i++) {
        child.key = i;
        child.writes = i % 2;
        pattern_fill(child.at, BYTES, i, 0);
        pid = child_start(&child);
        memset(child.at, 0xdd, BYTES);
        child_end(&child, pid);
    }
    traffic_stop(&traffic[0]);
    traffic_stop(&traffic[1]);
}
