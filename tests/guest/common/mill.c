/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The mill: a thread that moves known pages, and one that compares tables. */
#include "mill.h"
#include "guard.h"

#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE            ((size_t)FIELD * PAGE)
#define ID              0xf1e1d
#define LONGEST         12u     /* pages of one WRITE or READ */

enum kind { MESSAGE, WRITE, READ, STORE };

uint8_t *mill_page(const struct mill *m, unsigned page)
{
    return m->field + page * PAGE;
}

/* ---- Whose pages they are --------------------------------------------------- */

static bool try_take(struct mill *m, unsigned first, unsigned n)
{
    unsigned i;

    for (i = first; i < first + n; i++) {
        if (atomic_flag_test_and_set(&m->taken[i])) {
            mill_give(m, first, i - first);
            return false;
        }
    }
    return true;
}

/* In ascending order: only the mill takes two ranges, and it never waits. */
void mill_take(struct mill *m, unsigned first, unsigned n)
{
    unsigned i;

    for (i = first; i < first + n; i++) {
        while (atomic_flag_test_and_set(&m->taken[i])) {
            sched_yield();
        }
    }
}

void mill_give(struct mill *m, unsigned first, unsigned n)
{
    unsigned i;

    for (i = first; i < first + n; i++) {
        atomic_flag_clear(&m->taken[i]);
    }
}

unsigned mill_take_some(struct mill *m, struct chance *chance, unsigned n)
{
    unsigned first = chance_below(chance, FIELD - n + 1);

    mill_take(m, first, n);
    return first;
}

/* ---- Their contents --------------------------------------------------------- */

void mill_fill(struct mill *m, unsigned first, unsigned n)
{
    unsigned i;

    for (i = first; i < first + n; i++) {
        m->keys[i] = pattern_key(run.seed, atomic_fetch_add(&m->next_key, 1));
        pattern_fill(mill_page(m, i), PAGE, m->keys[i], 0);
    }
}

void mill_fill_by_card(struct mill *m, unsigned first, unsigned n)
{
    struct iovec iov = { m->from, PAGE };
    struct unetmm_completion c;
    unsigned i;

    for (i = first; i < first + n; i++) {
        uint64_t key = pattern_key(run.seed,
                                   atomic_fetch_add(&m->next_key, 1));

        pattern_fill(m->from, PAGE, key, 0);
        exchange(&m->own, &iov, 1, mill_page(m, i), PAGE, &c);
        CHECK_EQ(c.len, PAGE);
        m->keys[i] = key;
    }
}

void mill_check(struct mill *m, unsigned first, unsigned n)
{
    unsigned i;

    for (i = first; i < first + n; i++) {
        size_t at = pattern_check(mill_page(m, i), PAGE, m->keys[i], 0);

        if (at < PAGE) {
            FAIL("byte %zu of page %u is 0x%02x, not 0x%02x", at, i,
                 mill_page(m, i)[at], pattern_byte(m->keys[i], at));
        }
    }
}

/* ---- The mill --------------------------------------------------------------- */

struct job {
    enum kind kind;
    bool back;                  /* from right to left */
    unsigned from, to, n;
};

static struct job draw(const struct mill *m, struct chance *chance)
{
    struct job job = {
        .kind = chance_below(chance, 4), .back = chance_below(chance, 2),
    };
    unsigned most = job.kind == MESSAGE ? m->link.tx->mtu / UNETMM_PAGE_BYTES :
        LONGEST;

    job.n = 1 + chance_below(chance, most);
    job.from = chance_below(chance, FIELD - job.n + 1);
    job.to = chance_below(chance, FIELD - job.n + 1);
    return job;
}

static void carry(struct mill *m, const struct job *job)
{
    struct unetmm_ep *ep = job->back ? m->right.ep : m->left.ep;
    unsigned import = m->import[job->back];
    uint8_t *from = mill_page(m, job->from), *to = mill_page(m, job->to);
    int64_t patience = (int64_t)(20 * NS_PER_S * run.slow);
    struct iovec iov = { from, job->n * PAGE };
    struct unetmm_completion c;

    switch (job->kind) {
    case MESSAGE:
        m->link.tx = job->back ? &m->link.two : &m->link.one;
        m->link.rx = job->back ? &m->link.one : &m->link.two;
        exchange(&m->link, &iov, 1, to, iov.iov_len, &c);
        CHECK_EQ(c.len, iov.iov_len);
        break;
    case WRITE:
        CHECK_RET(unetmm_write_sync(ep, import, job->to * PAGE, from,
                                    iov.iov_len, 0, 0, patience),
                  0);
        break;
    case READ:
        CHECK_RET(unetmm_read_sync(ep, import, job->from * PAGE, to,
                                   iov.iov_len, patience), 0);
        break;
    case STORE:
        mill_fill(m, job->from, job->n);
        memcpy(to, from, iov.iov_len);
    }
    memcpy(&m->keys[job->to], &m->keys[job->from],
           job->n * sizeof(m->keys[0]));
}

static void step(struct mill *m, struct chance *chance)
{
    struct job job = draw(m, chance);

    if (!try_take(m, job.from, job.n)) {
        return;
    }
    if (try_take(m, job.to, job.n)) {
        carry(m, &job);
        /* Else the process touches it later, or nobody before the end. */
        if (chance_below(chance, 2)) {
            mill_check(m, job.to, job.n);
        }
        mill_give(m, job.to, job.n);
        atomic_fetch_add(&m->moved[job.kind], job.n);
        atomic_fetch_add(&m->steps, 1);
    }
    mill_give(m, job.from, job.n);
}

static void *mill_thread(void *argument)
{
    struct mill *m = argument;
    struct chance chance;

    chance_init(&chance, 500);
    while (!atomic_load(&m->stop)) {
        step(m, &chance);
    }
    return NULL;
}

static void *look_thread(void *argument)
{
    struct mill *m = argument;
    unsigned i;

    for (i = 0; !atomic_load(&m->stop); i++) {
        look_once(&m->look, m->field + i % 2 * LOOK_PAGES * PAGE, LOOK_PAGES,
                  &m->running);
        breathe();
    }
    return NULL;
}

/* ---- From beginning to end -------------------------------------------------- */

static void export_field(struct mill *m)
{
    const struct unetmm_channel_attr usual = UNETMM_CHANNEL_ATTR_INIT;

    station_open(&m->left, m->ctx, NULL);
    station_open(&m->right, m->ctx, NULL);
    CHECK_RET(try_join(&m->left, &m->right, &usual,
                       10 * NS_PER_S * run.slow), 0);
    CHECK_RET(unetmm_export(m->ctx, ID, m->field, FIELD * PAGE,
                            UNETMM_RIGHT_ALL, 0, 0), 0);
    m->import[0] = import_of(&m->left, ID, UNETMM_RIGHT_ALL);
    m->import[1] = import_of(&m->right, ID, UNETMM_RIGHT_ALL);
}

void mill_start(struct mill *m)
{
    unsigned i;

    memset(m, 0, sizeof(*m));
    m->ctx = look_open(&m->look);
    m->map = pages(2 * FIELD);
    m->field = m->map + (HUGE - (uintptr_t)m->map % HUGE) % HUGE;
    m->from = pages(1);
    for (i = 0; i < FIELD; i++) {
        atomic_flag_clear(&m->taken[i]);
    }
    mill_fill(m, 0, FIELD);
    export_field(m);
    link_open(&m->link, m->ctx, NULL);
    link_open(&m->own, m->ctx, NULL);
    CHECK_EQ(pthread_create(&m->miller, NULL, mill_thread, m), 0);
    CHECK_EQ(pthread_create(&m->looker, NULL, look_thread, m), 0);
    mill_await(m, 1);
}

void mill_await(struct mill *m, unsigned more)
{
    unsigned long long until = atomic_load(&m->steps) + more;

    EVENTUALLY(atomic_load(&m->steps) >= until);
}

/* Nothing changes now: resident pages come into the table, or have come. */
static void look_at_rest(struct mill *m)
{
    unsigned i;

    for (i = 0; i < FIELD; i += LOOK_PAGES) {
        EVENTUALLY(look_once(&m->look, mill_page(m, i), LOOK_PAGES, &m->rest));
    }
}

void mill_rest(struct mill *m)
{
    mill_await(m, rounds(20));
    atomic_store(&m->stop, true);
    CHECK_EQ(pthread_join(m->miller, NULL), 0);
    CHECK_EQ(pthread_join(m->looker, NULL), 0);
    look_at_rest(m);
    mill_check(m, 0, FIELD);
    note("%llu rounds; pages moved by messages %llu, WRITE %llu, READ %llu, "
         "stores %llu", (unsigned long long)atomic_load(&m->steps),
         (unsigned long long)atomic_load(&m->moved[MESSAGE]),
         (unsigned long long)atomic_load(&m->moved[WRITE]),
         (unsigned long long)atomic_load(&m->moved[READ]),
         (unsigned long long)atomic_load(&m->moved[STORE]));
    tell("under traffic", &m->running);
    tell("at rest", &m->rest);
}

void mill_end(struct mill *m)
{
    if (!atomic_load(&m->stop)) {
        mill_rest(m);
    }
    station_close(&m->left);
    station_close(&m->right);
    m->link.tx = &m->link.one;
    m->link.rx = &m->link.two;
    link_close(&m->link);
    link_close(&m->own);
    look_close(&m->look);
    unmap_pages(m->map, 2 * FIELD);
    CHECK_RET(unetmm_close(m->ctx), 0);
}
