/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Source ktlb: the call that posts, by processes that do not keep to its rules.
 * Errors of a descriptor are in its completion (hostile.c); errors of the call
 * itself, and failures half-way, are here.
 */
#include "link.h"
#include "raw.h"

#include <libunetmm/inline.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static int post_call(int fd, uint32_t endpoint)
{
    struct unetmm_post request = { sizeof(request), endpoint, 0, 0 };

    return raw_ioctl(fd, UNETMM_IOC_POST, &request);
}

/* ---- Rights to call ---------------------------------------------------------------- */

TEST(other_sources, TEST_ALL)
{
    struct raw raw;
    int fd = raw_open_file();

    CHECK_RET(post_call(fd, 1), -EINVAL);
    close(fd);
    raw_open(&raw);
    CHECK_RET(post_call(raw.fd, raw.ep.id), run.source == UNETMM_SOURCE_KTLB ?
              0 : -EOPNOTSUPP);
    raw_close(&raw);
}

static void stranger_main(void *argument)
{
    const struct raw *raw = argument;

    CHECK_RET(post_call(raw->fd, raw->ep.id), -EPERM);
    CHECK_RET(post_call(raw->fd, UINT32_MAX), -EPERM);
}

TEST(whose_endpoint, TEST_KTLB)
{
    struct raw mine, other;

    raw_open(&mine);
    raw_open(&other);
    CHECK_RET(post_call(mine.fd, mine.ep.id), 0);
    CHECK_RET(post_call(mine.fd, other.ep.id), -ENOENT);
    CHECK_RET(post_call(mine.fd, 0), -ENOENT);
    CHECK_RET(post_call(mine.fd, UINT32_MAX), -ENOENT);
    CHECK_RET(post_call(mine.fd, mine.ep.id | 0x10000), -ENOENT);
    end_process(start_process(stranger_main, &mine));
    raw_close_endpoint(&mine);
    CHECK_RET(post_call(mine.fd, mine.ep.id), -ENOENT);
    raw_unmap(&mine);
    /* The driver reads queue memory of its own: none need be mapped. */
    raw_unmap(&other);
    CHECK_RET(post_call(other.fd, other.ep.id), 0);
    raw_close_endpoint(&other);
    close(mine.fd);
    close(other.fd);
}

/* ---- Buffers that may not be zeroed ------------------------------------------------- */

static struct unetmm_fqe *put_buffer(struct raw *raw, const void *at,
                                     uint32_t len, uint32_t flags)
{
    struct unetmm_fqe *fqe = raw_fqe(raw, raw->fq_prod++);

    memset(fqe, 0, sizeof(*fqe));
    fqe->addr = (uintptr_t)at;
    fqe->len = len;
    fqe->flags = flags;
    fqe->cookie = raw->fq_prod;
    unetmm_write_index(&raw->index->user.fq_prod, raw->fq_prod);
    return fqe;
}

static uint64_t pinned(int fd)
{
    uint64_t values[UNETMM_NUM_DRIVER_COUNTERS];
    struct unetmm_counters request = {
        .size = sizeof(request), .scope = UNETMM_SCOPE_DRIVER,
        .count = UNETMM_NUM_DRIVER_COUNTERS, .values = (uintptr_t)values,
    };

    CHECK_RET(raw_ioctl(fd, UNETMM_IOC_COUNTERS, &request), 0);
    return values[UNETMM_D_pinned_now];
}

/* Refused as often as it is tried, and not taken: then put right, or taken back. */
TEST(refused_buffers, TEST_KTLB)
{
    const uintptr_t addresses[] = {
        0, 0x1000, 0x7ffffffff000, 0x800000000000, 0xffff888000000000,
        0xfffffffffffff000, 0x00ff000000000000,
    };
    uint8_t *page = pages(2), *shared;
    struct unetmm_fqe *fqe;
    struct raw raw;
    uint64_t before;
    unsigned i, k;

    raw_open(&raw);
    before = pinned(raw.fd);
    shared = CHECK_SYS(mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    for (i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
        put_buffer(&raw, (void *)addresses[i], UNETMM_PAGE_BYTES,
                   UNETMM_FQE_F_ZERO);
        for (k = 0; k < 3; k++) {
            CHECK_RET(post_call(raw.fd, raw.ep.id), -EINVAL);
        }
        raw.fq_prod--;
        unetmm_write_index(&raw.index->user.fq_prod, raw.fq_prod);
        CHECK_RET(post_call(raw.fd, raw.ep.id), 0);
    }
#define REFUSED(where, bytes) \
    do { \
        fqe = put_buffer(&raw, where, bytes, UNETMM_FQE_F_ZERO); \
        CHECK_RET(post_call(raw.fd, raw.ep.id), -EINVAL); \
        CHECK_EQ(pinned(raw.fd), before); \
        fqe->addr = (uintptr_t)page; \
        fqe->len = UNETMM_PAGE_BYTES; \
        CHECK_RET(post_call(raw.fd, raw.ep.id), 0); \
        before = pinned(raw.fd); \
    } while (0)
    REFUSED(shared, UNETMM_PAGE_BYTES);
    REFUSED(page, 0);
    REFUSED(page, 1);
    REFUSED(page, UNETMM_PAGE_BYTES - 1);
    REFUSED(page, UNETMM_PAGE_BYTES + 1);
    REFUSED(page, 2 * UNETMM_PAGE_BYTES);
    REFUSED(page, UINT32_MAX);
    REFUSED(page + 1, UNETMM_PAGE_BYTES);
    REFUSED(page + 2048, UNETMM_PAGE_BYTES);
#undef REFUSED
    CHECK(!(raw_state(&raw) & UNETMM_EP_ERROR));
    raw_close(&raw);
}

/* Malformed buffers go to the card, which refuses them. */
TEST(malformed_buffers, TEST_KTLB)
{
    struct unetmm_cqe cqe;
    uint8_t *page = pages(1);
    struct raw raw;
    unsigned bit;

    raw_open(&raw);
    for (bit = 1; bit < 32; bit++) {
        put_buffer(&raw, page, UNETMM_PAGE_BYTES, 1u << bit);
        CHECK_RET(post_call(raw.fd, raw.ep.id), 0);
        raw_await(&raw, &cqe);
        CHECK_EQ(cqe.opcode, UNETMM_CQE_BUFFER);
        CHECK_EQ(cqe.status, UNETMM_ST_BAD_DESC);
    }
    put_buffer(&raw, (void *)0xffff888000000000, UNETMM_PAGE_BYTES,
               UNETMM_FQE_F_ZERO | 2);
    CHECK_RET(post_call(raw.fd, raw.ep.id), 0);
    raw_await(&raw, &cqe);
    CHECK_EQ(cqe.status, UNETMM_ST_BAD_DESC);
    put_buffer(&raw, page, UNETMM_PAGE_BYTES, UNETMM_FQE_F_ZERO)->rsvd = 1;
    CHECK_RET(post_call(raw.fd, raw.ep.id), 0);
    raw_await(&raw, &cqe);
    CHECK_EQ(cqe.status, UNETMM_ST_BAD_DESC);
    raw_close(&raw);
}

/* ---- Several at once ------------------------------------------------------------------ */

#define ARENA   8
#define CALLERS 2
#define MOST_ROUNDS 2000

struct crowd {
    struct raw raw;
    int fd;                     /* raw's, which comes and goes */
    atomic_uint id;             /* of the endpoint that is called for */
    atomic_bool stop;
    uint8_t *arena;
    atomic_ullong done, missed, refused;
};

static void *call_on(void *argument)
{
    struct crowd *crowd = argument;

    while (!atomic_load(&crowd->stop)) {
        int ret = post_call(crowd->fd, atomic_load(&crowd->id));

        if (ret == -ENOENT) {
            atomic_fetch_add(&crowd->missed, 1);
        } else if (ret == -EINVAL) {
            atomic_fetch_add(&crowd->refused, 1);
        } else {
            CHECK_RET(ret, 0);
            atomic_fetch_add(&crowd->done, 1);
        }
    }
    return NULL;
}

static void random_buffer(struct crowd *crowd, struct chance *chance,
                          struct unetmm_fqe *fqe)
{
    fqe->addr = (uintptr_t)crowd->arena +
        chance_below(chance, ARENA - 2) * PAGE +
        (chance_below(chance, 3) ? 0 : chance_below(chance, PAGE));
    fqe->len = chance_below(chance, 3) ? UNETMM_PAGE_BYTES :
        chance_below(chance, 2 * UNETMM_PAGE_BYTES);
    fqe->flags = chance_below(chance, 4);
    fqe->rsvd = !chance_below(chance, 8);
}

static void drain(struct raw *raw)
{
    struct unetmm_cqe cqe;

    while (raw_take(raw, &cqe)) {
        CHECK(cqe.opcode == UNETMM_CQE_BUFFER);
        CHECK(cqe.status < UNETMM_NUM_ST);
    }
}

/* Descriptors change while they are copied, and the endpoint comes and goes. */
TEST(concurrent, TEST_KTLB, 60)
{
    uint8_t *others = pages(4);
    pthread_t threads[CALLERS];
    struct crowd crowd = { 0 };
    struct chance chance;
    unsigned i, k;

    chance_init(&chance, 0);
    pattern_fill(others, 4 * PAGE, 5, 0);
    crowd.arena = pages(ARENA);
    raw_open(&crowd.raw);
    crowd.fd = crowd.raw.fd;
    atomic_store(&crowd.id, crowd.raw.ep.id);
    for (k = 0; k < CALLERS; k++) {
        CHECK_EQ(pthread_create(&threads[k], NULL, call_on, &crowd), 0);
    }
    /* Until the callers have had their turn, which is up to the scheduler. */
    for (i = 0; i < rounds(60) || (i < MOST_ROUNDS &&
                                   !atomic_load(&crowd.done)); i++) {
        for (k = 0; k < 50; k++) {
            struct raw *raw = &crowd.raw;

            random_buffer(&crowd, &chance,
                          raw_fqe(raw, chance_below(&chance, 64)));
            if (raw->fq_prod - raw->index->card.fq_cons < 64) {
                raw->fq_prod++;
                unetmm_write_index(&raw->index->user.fq_prod, raw->fq_prod);
            }
            drain(raw);
        }
        CHECK(!(raw_state(&crowd.raw) & UNETMM_EP_ERROR));
        raw_close_endpoint(&crowd.raw);
        raw_unmap(&crowd.raw);
        raw_endpoint(&crowd.raw, crowd.fd);
        atomic_store(&crowd.id, crowd.raw.ep.id);
    }
    atomic_store(&crowd.stop, true);
    for (k = 0; k < CALLERS; k++) {
        CHECK_EQ(pthread_join(threads[k], NULL), 0);
    }
    note("%llu calls, %llu found no endpoint, %llu refused",
         atomic_load(&crowd.done), atomic_load(&crowd.missed),
         atomic_load(&crowd.refused));
    CHECK(atomic_load(&crowd.done) > 0);
    CHECK_PATTERN(others, 4 * PAGE, 5);
    raw_close(&crowd.raw);
}

/* ---- The end of the caller --------------------------------------------------------------- */

static void victim_main(void *argument)
{
    atomic_uint *ready = argument;
    struct chance chance;
    uint8_t *arena = pages(64);
    unsigned out, in, k;
    struct raw raw;

    chance_init(&chance, (uint64_t)getpid());
    raw_open(&raw);
    raw_join_itself(&raw, &out, &in);
    for (;;) {
        while (raw.fq_prod - raw.index->card.fq_cons < 64) {
            put_buffer(&raw, arena + chance_below(&chance, 32) * PAGE,
                       UNETMM_PAGE_BYTES, raw.fq_prod % 2);
        }
        for (k = 0; k < 8 && raw.sq_prod - raw.index->card.sq_cons < 64; k++) {
            struct unetmm_sqe *sqe = raw_sqe(&raw, raw.sq_prod++);

            memset(sqe, 0, sizeof(*sqe));
            sqe->opcode = UNETMM_OP_SEND;
            sqe->nsegs = 1;
            sqe->channel = (uint16_t)out;
            sqe->seg[0].addr = (uintptr_t)arena + chance_below(&chance, 40) *
                PAGE;
            sqe->seg[0].len = UNETMM_PAGE_BYTES;
        }
        raw_submit(&raw);
        madvise(arena + chance_below(&chance, 64) * PAGE, PAGE, MADV_DONTNEED);
        while (raw_take(&raw, &(struct unetmm_cqe) { 0 })) {
        }
        atomic_fetch_add(ready, 1);
    }
}

/* Killed in the call, or between two. */
TEST(killed, TEST_KTLB, 60)
{
    atomic_uint *ready = shared_memory(sizeof(*ready));
    struct chance chance;
    uint8_t *from, *to;
    struct link link;
    unsigned i;

    chance_init(&chance, 1);
    link_open(&link, NULL, NULL);
    from = pages(1);
    to = pages(1);
    for (i = 0; i < rounds(12); i++) {
        unsigned rounds_seen;
        pid_t pid;

        atomic_store(ready, 0);
        pid = start_process(victim_main, ready);
        rounds_seen = 1 + chance_below(&chance, 4);
        EVENTUALLY(atomic_load(ready) >= rounds_seen);
        idle_ns(chance_below(&chance, 2000) * NS_PER_US);
        CHECK_SYS(kill(pid, SIGKILL));
        CHECK(WIFSIGNALED(await_process(pid)));
        exchange_pattern(&link, from, to, PAGE, i);
    }
    link_close(&link);
}
