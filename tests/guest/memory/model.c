/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Anything that a process may do to its memory, in any order, with messages in
 * between, against a model that predicts the result: after every step all
 * of the memory is compared.
 */
#include "guard.h"
#include "huge.h"
#include "link.h"
#include "traffic.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NPAGES          24
#define LONGEST         3       /* pages that one step is about */

enum page_state { READ_WRITE, READ_ONLY, NO_ACCESS, HOLE };

struct model {
    struct link link;
    struct traffic traffic;
    struct chance chance;
    uint8_t *at;                /* the memory */
    uint8_t *wanted;            /* its expected contents, as far as it is there */
    uint8_t *other;             /* the other side of each message */
    enum page_state state[NPAGES];
    bool was_writable[NPAGES];  /* without a break, since a buffer was posted */
    int fd;                     /* of a shared file, or -1 */
    unsigned step;
    const char *what;
    pid_t child;
    atomic_bool *child_may_end;
    uint64_t sent, received, refused;
};

#define MODEL_FAIL(m, ...) \
    do { \
        note("step %u: %s", (m)->step, (m)->what); \
        FAIL(__VA_ARGS__); \
    } while (0)

static uint8_t *page_at(const struct model *m, unsigned page)
{
    return m->at + page * PAGE;
}

static bool readable(const struct model *m, unsigned page)
{
    return m->state[page] == READ_WRITE || m->state[page] == READ_ONLY;
}

static void compare(const struct model *m)
{
    unsigned page;

    for (page = 0; page < NPAGES; page++) {
        if (readable(m, page) && memcmp(page_at(m, page), m->wanted +
                                        page * PAGE, PAGE)) {
            MODEL_FAIL(m, "page %u has wrong contents", page);
        }
    }
}

/* ---- The process's actions -------------------------------------------------------- */

static void set_state(struct model *m, unsigned page, enum page_state state)
{
    m->state[page] = state;
    m->was_writable[page] &= state == READ_WRITE;
}

static void map_page(struct model *m, unsigned page)
{
    CHECK_SYS(mmap(page_at(m, page), PAGE, PROT_READ | PROT_WRITE,
                   MAP_FIXED | (m->fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS :
                                MAP_SHARED), m->fd,
                   m->fd < 0 ? 0 : (off_t)(page * PAGE)));
    if (m->fd < 0) {
        memset(m->wanted + page * PAGE, 0, PAGE);
    }
    set_state(m, page, READ_WRITE);
}

static void fill(struct model *m, unsigned page)
{
    if (m->state[page] == READ_WRITE) {
        uint64_t key = chance_u64(&m->chance);

        pattern_fill(page_at(m, page), PAGE, key, 0);
        pattern_fill(m->wanted + page * PAGE, PAGE, key, 0);
    }
}

static void protect(struct model *m, unsigned page, enum page_state state)
{
    static const int protections[] = {
        [READ_WRITE] = PROT_READ | PROT_WRITE, [READ_ONLY] = PROT_READ,
        [NO_ACCESS] = PROT_NONE,
    };

    if (m->state[page] != HOLE) {
        CHECK_SYS(mprotect(page_at(m, page), PAGE, protections[state]));
        set_state(m, page, state);
    }
}

static void unmap(struct model *m, unsigned page)
{
    unmap_pages(page_at(m, page), 1);
    set_state(m, page, HOLE);
}

static void give_up(struct model *m, unsigned page)
{
    if (m->state[page] != HOLE) {
        CHECK_SYS(madvise(page_at(m, page), PAGE, MADV_DONTNEED));
        if (m->fd < 0) {
            memset(m->wanted + page * PAGE, 0, PAGE);
        }
    }
}

/* To another place; of a file, the place would be wrong in the model. */
static void move(struct model *m, unsigned page)
{
    unsigned to = chance_below(&m->chance, NPAGES);

    if (m->state[page] == HOLE || to == page || m->fd >= 0) {
        return;
    }
    CHECK_SYS(mremap(page_at(m, page), PAGE, PAGE,
                     MREMAP_MAYMOVE | MREMAP_FIXED, page_at(m, to)));
    memcpy(m->wanted + to * PAGE, m->wanted + page * PAGE, PAGE);
    set_state(m, to, m->state[page]);
    set_state(m, page, HOLE);
    /* The old contents are gone, even if the new page is writable. */
    m->was_writable[to] = false;
}

/* A child has the memory as it was; private memory stays so. */
static void child_main(void *argument)
{
    struct model *m = argument;

    /* As long as the test takes: it ends its children with itself. */
    while (!atomic_load(m->child_may_end)) {
        breathe();
    }
    if (m->fd < 0) {
        compare(m);
    }
}

static void end_child(struct model *m)
{
    if (m->child) {
        atomic_store(m->child_may_end, true);
        end_process(m->child);
        m->child = 0;
    }
}

static void fork_child(struct model *m)
{
    end_child(m);
    atomic_store(m->child_may_end, false);
    m->child = start_process(child_main, m);
}

static void change(struct model *m)
{
    static const char *const names[] = {
        "fill", "fill", "protect", "protect", "unmap", "map", "map",
        "MADV_DONTNEED", "move", "fork",
    };
    unsigned op = chance_below(&m->chance, 10);
    unsigned first = chance_below(&m->chance, NPAGES - LONGEST);
    unsigned n = 1 + chance_below(&m->chance, LONGEST), i;

    m->what = names[op];
    if (op == 9) {
        fork_child(m);
        return;
    }
    for (i = first; i < first + n; i++) {
        switch (op) {
        case 0: case 1:
            fill(m, i);
            break;
        case 2: case 3:
            protect(m, i, chance_below(&m->chance, 3));
            break;
        case 4:
            unmap(m, i);
            break;
        case 5: case 6:
            map_page(m, i);
            break;
        case 7:
            give_up(m, i);
            break;
        default:
            move(m, i);
            break;
        }
    }
}

/* ---- Messages ------------------------------------------------------------------------ */

struct span {
    size_t offset, len;
    unsigned first, last;
};

static struct span random_span(struct model *m)
{
    size_t most = LONGEST * PAGE < m->link.tx->mtu ? LONGEST * PAGE :
        m->link.tx->mtu;
    struct span s;

    s.len = UNETMM_MAX_INLINE + 1 +
        chance_below(&m->chance, (uint32_t)(most - UNETMM_MAX_INLINE));
    s.offset = chance_below(&m->chance, (uint32_t)(NPAGES * PAGE - s.len));
    s.first = (unsigned)(s.offset / PAGE);
    s.last = (unsigned)((s.offset + s.len - 1) / PAGE);
    return s;
}

static bool all_readable(const struct model *m, const struct span *s)
{
    unsigned i;

    for (i = s->first; i <= s->last; i++) {
        if (!readable(m, i)) {
            return false;
        }
    }
    return true;
}

static bool all_writable(const struct model *m, const struct span *s)
{
    unsigned i;

    for (i = s->first; i <= s->last; i++) {
        if (m->state[i] != READ_WRITE) {
            return false;
        }
    }
    return true;
}

static void send_some(struct model *m)
{
    struct span s = random_span(m);
    struct iovec iov = { m->at + s.offset, s.len };
    struct unetmm_completion c;

    m->what = "send";
    if (!all_readable(m, &s)) {
        CHECK_EQ(send_status(m->link.tx, iov.iov_base, s.len),
                 UNETMM_ST_PROTECTION);
        m->refused++;
        return;
    }
    exchange(&m->link, &iov, 1, m->other, s.len, &c);
    if (c.len != s.len || memcmp(m->other, m->wanted + s.offset, s.len)) {
        MODEL_FAIL(m, "%zu bytes from %zu on were sent wrong", s.len,
                   s.offset);
    }
    m->sent++;
}

/* A posted buffer comes back, filled or refused, and the model with it. */
static void await_buffer(struct model *m, const struct span *s,
                         bool never_refused)
{
    struct iovec iov = { m->other, s->len };
    uint64_t key = chance_u64(&m->chance), end = deadline_in(10);
    struct unetmm_completion c;

    pattern_fill(m->other, s->len, key, 0);
    while (!deliver(&m->link, &iov, 1, &c)) {
        CHECK(now_ns() < end);
        if (!take_now(m->link.rx, UNETMM_CQE_BUFFER, &c)) {
            continue;
        }
        if (c.status == UNETMM_ST_PROTECTION && !never_refused) {
            m->refused++;
            return;
        }
        if (c.status != UNETMM_ST_SKIPPED) {
            MODEL_FAIL(m, "%zu bytes from %zu on came back: %s", s->len,
                       s->offset, unetmm_status_str(c.status));
        }
        post(m->link.rx, m->at + s->offset, s->len, 1);
    }
    if (!all_writable(m, s)) {
        MODEL_FAIL(m, "a message landed where the process may not write");
    }
    memcpy(m->wanted + s->offset, m->other, s->len);
    m->received++;
}

static void receive_some(struct model *m)
{
    struct span s = random_span(m);

    m->what = "receive";
    post(m->link.rx, m->at + s.offset, s.len, 1);
    await_buffer(m, &s, all_writable(m, &s));
}

/* The buffer is posted and translated; then its memory changes. */
static void receive_later(struct model *m)
{
    struct span s = random_span(m);
    bool steady = all_writable(m, &s);
    unsigned i, n = 1 + chance_below(&m->chance, 4);

    for (i = 0; i < NPAGES; i++) {
        m->was_writable[i] = true;
    }
    post(m->link.rx, m->at + s.offset, s.len, 1);
    for (i = 0; i < n; i++) {
        change(m);
    }
    for (i = s.first; i <= s.last; i++) {
        steady &= m->was_writable[i];
    }
    m->what = "receive later";
    await_buffer(m, &s, steady);
}

/* ---- All of it -------------------------------------------------------------------------- */

static void run_model(struct model *m)
{
    unsigned page;

    chance_init(&m->chance, 1);
    m->wanted = pages(NPAGES);
    m->other = pages(LONGEST);
    m->child_may_end = shared_memory(PAGE);
    traffic_start(&m->traffic, 3);
    link_open(&m->link, NULL, NULL);
    for (page = 0; page < NPAGES; page++) {
        fill(m, page);
    }
    for (m->step = 0; m->step < rounds(200); m->step++) {
        switch (chance_below(&m->chance, 6)) {
        case 0:
            send_some(m);
            break;
        case 1:
            receive_some(m);
            break;
        case 2:
            receive_later(m);
            break;
        default:
            change(m);
            break;
        }
        compare(m);
    }
    end_child(m);
    note("%llu sent, %llu received, %llu refused",
         (unsigned long long)m->sent, (unsigned long long)m->received,
         (unsigned long long)m->refused);
    link_close(&m->link);
    traffic_stop(&m->traffic);
}

TEST(anonymous, TEST_TLB | TEST_POLICIES, 60)
{
    struct model m = { .fd = -1, .at = pages(NPAGES) };

    run_model(&m);
}

TEST(shared, TEST_TLB | TEST_POLICIES, 60)
{
    struct model m = { .fd = CHECK_SYS(memfd_create("model", MFD_CLOEXEC)) };

    CHECK_SYS(ftruncate(m.fd, (off_t)(NPAGES * PAGE)));
    m.at = CHECK_SYS(mmap(NULL, NPAGES * PAGE, PROT_READ | PROT_WRITE,
                          MAP_SHARED, m.fd, 0));
    run_model(&m);
}

/* The memory begins as part of a huge page, which has to be split. */
TEST(huge, TEST_TLB | TEST_POLICIES, 60)
{
    struct model m = { .fd = -1 };

    m.at = huge_page() + HUGE / 2;
    memset(m.at, 0, NPAGES * PAGE);
    CHECK(huge_kilobytes(m.at, PAGE) >= HUGE / 1024);
    run_model(&m);
}
