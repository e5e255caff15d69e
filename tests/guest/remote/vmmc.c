/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Export and import: a peer's memory, written, read and changed.
 *
 * Local: two endpoints on one card.  Remote: the other guest's echo has exported
 * memory, which is read back.
 */
#include "ask.h"
#include "guard.h"
#include "huge.h"
#include "link.h"

#include <libunetmm/inline.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SERVICE         (SERVICE_FIRST - 7)
#define ID              77
#define COOKIE          0xc00c1eull
#define LENGTH          ((size_t)200001)
#define ALL             UNETMM_RIGHT_ALL
#define TEST_EXPORT     (TEST_BOTH | TEST_UTLB | TEST_SHADOW | TEST_ODP)

/* `one` imports a region of `two`, or of the other guest. */
struct scene {
    struct unetmm_ctx *ctx;
    struct station one, two;
    struct guard guard;         /* local: the exported memory */
    uint8_t *mine;              /* as many bytes, to write from and read to */
    size_t length;
    unsigned import;
};

static const struct unetmm_channel_attr usual = UNETMM_CHANNEL_ATTR_INIT;

static void scene_connect(struct scene *s)
{
    int ret;

    if (!run.remote) {
        CHECK_RET(try_join(&s->one, &s->two, &usual, 10 * NS_PER_S * run.slow), 0);
        return;
    }
    ret = unetmm_connect_ex(s->one.ep, run.peer, SERVICE_MIRROR,
                            20 * NS_PER_S * run.slow, &usual, NULL);
    if (ret < 0) {
        FAIL("cannot reach the other guest: %s",
             unetmm_strerror(ret, UNETMM_CALL_CONNECT));
    }
    s->one.channel = (unsigned)ret;
}

/* Endpoints and a channel; nothing is exported or imported. */
static void scene_base(struct scene *s)
{
    memset(s, 0, sizeof(*s));
    s->ctx = open_card();
    station_open(&s->one, s->ctx, NULL);
    if (!run.remote) {
        station_open(&s->two, s->ctx, NULL);
    }
    scene_connect(s);
    s->length = run.remote ? MIRROR_BYTES : LENGTH;
    s->mine = pages((unsigned)((s->length + PAGE - 1) / PAGE));
    reach(s->ctx, s->mine, s->length, true);
}

static void scene_open(struct scene *s)
{
    scene_base(s);
    if (run.remote) {
        s->import = import_of(&s->one, MIRROR_EXPORT, ALL);
        return;
    }
    guard_make(&s->guard, LENGTH, 123);
    CHECK_RET(unetmm_export(s->ctx, ID, s->guard.at, LENGTH, ALL,
                            UNETMM_EXPORT_NOTIFY, COOKIE), 0);
    s->import = import_of(&s->one, ID, ALL);
}

static void scene_close(struct scene *s)
{
    station_close(&s->one);
    if (!run.remote) {
        station_close(&s->two);
    }
    CHECK_RET(unetmm_close(s->ctx), 0);
}

/* The status of the operation that was posted last. */
static unsigned status_of(struct station *station, int posted, uint64_t cookie)
{
    struct unetmm_completion c;

    CHECK_RET(posted, 0);
    take(station, UNETMM_CQE_SENT, &c);
    CHECK_EQ(c.user_data, cookie);
    return c.status;
}

static unsigned write_status(struct scene *s, uint64_t offset,
                             const void *from, size_t len)
{
    static uint64_t cookie = 0x3717e;

    cookie++;
    return status_of(&s->one, unetmm_write(s->one.ep, s->import, offset, from,
                                           len, 0, cookie, 0), cookie);
}

static unsigned read_status(struct scene *s, uint64_t offset, void *to,
                            size_t len)
{
    static uint64_t cookie = 0x4ead;

    cookie++;
    return status_of(&s->one, unetmm_read(s->one.ep, s->import, offset, to,
                                          len, cookie, 0), cookie);
}

/* Writes, reads back, and compares the exported memory. */
static void there_and_back(struct scene *s, uint64_t offset, size_t len,
                           uint64_t key)
{
    unsigned status;

    pattern_fill(s->mine, len, key, 0);
    status = write_status(s, offset, s->mine, len);
    if (status) {
        FAIL("write of %zu: %s", len, unetmm_status_str(status));
    }
    if (!run.remote) {
        CHECK_PATTERN(s->guard.at + offset, len, key);
    }
    memset(s->mine, 0, len);
    if (!len) {
        CHECK_RET(unetmm_read(s->one.ep, s->import, offset, s->mine, 0, 0, 0),
                  -EINVAL);
        return;
    }
    status = read_status(s, offset, s->mine, len);
    if (status) {
        FAIL("read of %zu: %s", len, unetmm_status_str(status));
    }
    CHECK_PATTERN(s->mine, len, key);
}

/* ---- Writing and reading --------------------------------------------------------- */

TEST(write_and_read, TEST_EXPORT | TEST_REMOTE, 60)
{
    static const size_t lengths[] = { 0, 1, 7, 8, 40, 224, 225, 4096, 8999,
                                      9000, 9001, 65536, 150000 };
    struct chance chance;
    struct scene s;
    unsigned i;

    chance_init(&chance, 0);
    scene_open(&s);
    for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        there_and_back(&s, 0, lengths[i], i);
        there_and_back(&s, s.length - lengths[i], lengths[i], 100 + i);
        there_and_back(&s, chance_below(&chance, (uint32_t)(s.length -
                                                            lengths[i])),
                       lengths[i], 200 + i);
    }
    if (!run.remote) {
        guard_check(&s.guard, LENGTH);
    }
    scene_close(&s);
}

/* All written bytes are there, whatever the wire does. */
TEST(bad_wire, TEST_BOTH | TEST_ONLY_REMOTE, 60)
{
    static const char *const knobs[] = { "x-loss", "x-dup", "x-reorder",
                                         "x-corrupt", "x-delay" };
    struct chance chance;
    unsigned i, n = rounds(60);
    struct scene s;

    chance_init(&chance, 0);
    scene_open(&s);
    ask_host("set x-seed %llu", (unsigned long long)(run.seed & INT64_MAX));
    for (i = 0; i < 5; i++) {
        ask_host("set %s 20000", knobs[i]);
    }
    for (i = 0; i < n; i++) {
        size_t len = chance_below(&chance, 100000);

        there_and_back(&s, chance_below(&chance, (uint32_t)(s.length - len)),
                       len, i);
    }
    for (i = 0; i < 5; i++) {
        ask_host("set %s 0", knobs[i]);
    }
    scene_close(&s);
}

/* Returns when the source may be used again; completions that come meanwhile are kept. */
TEST(synchronous, TEST_EXPORT)
{
    struct unetmm_completion c;
    uint8_t small[100];
    struct scene s;
    unsigned i;

    scene_open(&s);
    for (i = 0; i < 20; i++) {
        CHECK_RET(unetmm_write(s.one.ep, s.import, 0, "x", 1, 0, 1000 + i, 0),
                  0);
        pattern_fill(s.mine, 50000, i, 0);
        CHECK_RET(unetmm_write_sync(s.one.ep, s.import, 100, s.mine, 50000, 0,
                                    0, 10 * NS_PER_S * run.slow), 0);
        memset(s.mine, 0xee, 50000);
        CHECK_RET(unetmm_read_sync(s.one.ep, s.import, 100, s.mine, 50000,
                                   10 * NS_PER_S * run.slow), 0);
        CHECK_PATTERN(s.mine, 50000, i);
        pattern_fill(small, sizeof(small), i, 0);
        CHECK_RET(unetmm_write_sync(s.one.ep, s.import, 0, small,
                                    sizeof(small), 0, 0, 10 * NS_PER_S * run.slow),
                  0);
        memset(small, 0, sizeof(small));
    }
    for (i = 0; i < 20; i++) {
        take(&s.one, UNETMM_CQE_SENT, &c);
        CHECK_EQ(c.user_data, 1000 + i);
    }
    CHECK_RET(unetmm_read_sync(s.one.ep, s.import, 0, s.mine, 100,
                               10 * NS_PER_S * run.slow), 0);
    CHECK_PATTERN(s.mine, 100, 19);
    CHECK_RET(unetmm_write_sync(s.one.ep, s.import, s.length, "x", 1, 0, 0,
                                NS_PER_S), -ERANGE);
    scene_close(&s);
}

/* ---- Export and import ----------------------------------------------------------- */

TEST(what_can_be_exported, TEST_EXPORT)
{
    struct unetmm_ctx *ctx = open_card();
    uint8_t *at = pages(8);

#define EXPORT(id, addr, length, rights, result) \
    CHECK_RET(unetmm_export(ctx, id, addr, length, rights, 0, 0), result)
    EXPORT(1, at, 0, ALL, -EINVAL);
    EXPORT(1, at, PAGE, 0, -EINVAL);
    EXPORT(1, at, PAGE, 8, -EINVAL);
    EXPORT(1, at, SIZE_MAX, ALL, -EINVAL);
    EXPORT(1, (void *)0x7ffffffff000, 2 * PAGE, ALL, -EINVAL);
    CHECK_RET(unetmm_export(ctx, 1, at, PAGE, ALL, 0x20, 0), -EOPNOTSUPP);
    CHECK_RET(unetmm_export(ctx, 1, at, PAGE, ALL, UNETMM_EXPORT_REGISTERED |
                            UNETMM_EXPORT_REDIRECT, 0), -EINVAL);
    CHECK_RET(unetmm_export(ctx, 1, at, PAGE, ALL, UNETMM_EXPORT_REGISTERED, 0),
              run.source == UNETMM_SOURCE_PINNED ? 0 : -EINVAL);
    CHECK_RET(unetmm_unexport(ctx, 1),
              run.source == UNETMM_SOURCE_PINNED ? 0 : -ENOENT);
    EXPORT(1, at, PAGE + 1, ALL, 0);
    EXPORT(1, at + 4 * PAGE, PAGE, ALL, -EEXIST);
    EXPORT(2, at + PAGE, 1, ALL, run.source == UNETMM_SOURCE_PINNED ?
           -EEXIST : 0);
    CHECK_RET(unetmm_unexport(ctx, 2),
              run.source == UNETMM_SOURCE_PINNED ? -ENOENT : 0);
    CHECK_RET(unetmm_export(ctx, 2, at + PAGE, 1, ALL, UNETMM_EXPORT_REDIRECT,
                            0), -EEXIST);
    CHECK_RET(unetmm_export(ctx, 3, at + 6 * PAGE, PAGE, ALL,
                            UNETMM_EXPORT_REDIRECT, 0), 0);
    EXPORT(2, at + 7 * PAGE - 1, 1, ALL, -EEXIST);
    CHECK_RET(unetmm_unexport(ctx, 3), 0);
    EXPORT(2, at + 4 * PAGE, 1, ALL, 0);
    CHECK_RET(unetmm_unexport(ctx, 3), -ENOENT);
    CHECK_RET(unetmm_unexport(ctx, 1), 0);
    CHECK_RET(unetmm_unexport(ctx, 1), -ENOENT);
    EXPORT(1, at, 2 * PAGE, ALL, 0);
    CHECK_RET(unetmm_unexport(ctx, 1), 0);
    CHECK_RET(unetmm_unexport(ctx, 2), 0);
    /* The process cannot grant rights that it does not have. */
    CHECK_SYS(mprotect(at + PAGE, PAGE, PROT_READ));
    EXPORT(1, at, 3 * PAGE, UNETMM_RIGHT_WRITE, -EFAULT);
    EXPORT(1, at, 3 * PAGE, UNETMM_RIGHT_ATOMIC, -EFAULT);
    EXPORT(1, at, 3 * PAGE, UNETMM_RIGHT_READ, 0);
    CHECK_RET(unetmm_unexport(ctx, 1), 0);
    CHECK_SYS(munmap(at + PAGE, PAGE));
    EXPORT(1, at, 3 * PAGE, UNETMM_RIGHT_READ, -EFAULT);
    EXPORT(1, at, PAGE + 1, UNETMM_RIGHT_READ, -EFAULT);
    EXPORT(1, at, PAGE, UNETMM_RIGHT_READ, 0);
#undef EXPORT
    CHECK_RET(unetmm_close(ctx), 0);
}

/* Each export has its own bounds and rights, and ends alone. */
TEST(overlap, (TEST_EXPORT | TEST_TLB) & ~TEST_PINNED)
{
    unsigned inner;
    struct scene s;

    scene_open(&s);
    CHECK_RET(unetmm_export(s.ctx, ID + 1, s.guard.at + 4000, 10000,
                            UNETMM_RIGHT_READ, 0, 0), 0);
    CHECK_RET(unetmm_export(s.ctx, ID + 2, s.guard.at + 9000, 9000, ALL, 0, 0),
              0);
    inner = import_of(&s.one, ID + 2, ALL);
    pattern_fill(s.mine, 9000, 1, 0);
    CHECK_RET(unetmm_write_sync(s.one.ep, inner, 0, s.mine, 9000, 0, 0,
                                10 * NS_PER_S * run.slow), 0);
    CHECK_PATTERN(s.guard.at + 9000, 9000, 1);
    memset(s.mine, 0, 9000);
    CHECK_RET(unetmm_read_sync(s.one.ep, s.import, 9000, s.mine, 9000,
                               10 * NS_PER_S * run.slow), 0);
    CHECK_PATTERN(s.mine, 9000, 1);
    CHECK_RET(unetmm_write_sync(s.one.ep, inner, 8999, s.mine, 2, 0, 0,
                                10 * NS_PER_S * run.slow), -ERANGE);
    CHECK_RET(unetmm_import(s.one.ep, s.one.channel, ID + 1,
                            UNETMM_RIGHT_WRITE, 0, NULL), -EACCES);
    CHECK_RET(unetmm_unexport(s.ctx, ID), 0);
    CHECK_EQ(write_status(&s, 9000, s.mine, 1), UNETMM_ST_REVOKED);
    pattern_fill(s.mine, 9000, 2, 0);
    CHECK_RET(unetmm_write_sync(s.one.ep, inner, 0, s.mine, 9000, 0, 0,
                                10 * NS_PER_S * run.slow), 0);
    CHECK_PATTERN(s.guard.at + 9000, 9000, 2);
    CHECK_RET(unetmm_export(s.ctx, ID, s.guard.at, LENGTH, ALL, 0, 0), 0);
    scene_close(&s);
}

/*
 * Two exports of overlapping memory, which is registered in two parts; the exports
 * begin and end, the registrations stay.
 */
TEST(registered, TEST_PINNED)
{
    const unsigned flags = UNETMM_EXPORT_REGISTERED;
    unsigned outer, inner;
    struct scene s;
    uint8_t *at;

    scene_base(&s);
    at = pages(4);
    CHECK_RET(unetmm_register(s.ctx, at, 2 * PAGE, UNETMM_REGION_WRITE), 0);
    CHECK_RET(unetmm_export(s.ctx, ID, at, 4 * PAGE, ALL, flags, 0), 0);
    CHECK_RET(unetmm_export(s.ctx, ID + 1, at + 1000, 2 * PAGE, ALL, flags, 0), 0);
    outer = import_of(&s.one, ID, ALL);
    inner = import_of(&s.one, ID + 1, ALL);
    pattern_fill(s.mine, PAGE, 1, 0);
    s.import = outer;
    CHECK_EQ(write_status(&s, PAGE + 1, s.mine, PAGE), UNETMM_ST_REMOTE_MEMORY);
    CHECK_RET(unetmm_register(s.ctx, at + 2 * PAGE, 2 * PAGE, UNETMM_REGION_WRITE), 0);
    CHECK_EQ(write_status(&s, PAGE + 1, s.mine, PAGE), UNETMM_ST_OK);
    CHECK_PATTERN(at + PAGE + 1, PAGE, 1);
    CHECK_RET(unetmm_unexport(s.ctx, ID), 0);
    CHECK_EQ(write_status(&s, 0, s.mine, 1), UNETMM_ST_REVOKED);
    pattern_fill(s.mine, PAGE, 2, 0);
    s.import = inner;
    CHECK_EQ(write_status(&s, PAGE, s.mine, PAGE), UNETMM_ST_OK);
    CHECK_PATTERN(at + 1000 + PAGE, PAGE, 2);
    CHECK_RET(unetmm_unexport(s.ctx, ID + 1), 0);
    CHECK_RET(unetmm_deregister(s.ctx, at, 2 * PAGE), 0);
    CHECK_RET(unetmm_deregister(s.ctx, at + 2 * PAGE, 2 * PAGE), 0);
    scene_close(&s);
}

TEST(as_many_as_there_are, TEST_EXPORT)
{
    struct unetmm_ctx *ctx = open_card();
    struct unetmm_info info;
    unsigned n = 0;
    uint8_t *at;
    int ret;

    card_info(&info);
    at = pages(info.regions + 1);
    while (!(ret = unetmm_export(ctx, n, at + n * PAGE, PAGE, ALL, 0, 0))) {
        CHECK(++n <= info.regions);
    }
    CHECK_RET(ret, -ENOSPC);
    CHECK_EQ(n, info.regions);
    CHECK_RET(unetmm_unexport(ctx, n / 2), 0);
    CHECK_RET(unetmm_export(ctx, n, at + n / 2 * PAGE, PAGE, ALL, 0, 0), 0);
    CHECK_RET(unetmm_close(ctx), 0);
}

struct racer {
    struct unetmm_ctx *ctx;
    pthread_barrier_t *start;
    uint64_t id;
    uint8_t *at;
    size_t length;
    unsigned flags;
    int result;
};

static void *racer_thread(void *argument)
{
    struct racer *racer = argument;

    pthread_barrier_wait(racer->start);
    racer->result = unetmm_export(racer->ctx, racer->id, racer->at,
                                  racer->length, ALL, racer->flags, 0);
    return NULL;
}

/*
 * Two at once: of one id, or of one page that may be redirected.  There is one, and
 * whole.
 */
TEST(exports_race, TEST_EXPORT)
{
    pthread_barrier_t start;
    struct racer racers[2];
    unsigned i, k, won[2] = { 0, 0 };
    pthread_t thread;
    struct scene s;
    uint64_t length;
    uint8_t *at;

    scene_base(&s);
    at = pages(8);
    CHECK_EQ(pthread_barrier_init(&start, NULL, 2), 0);
    for (i = 0; i < rounds(50); i++) {
        int import;

        for (k = 0; k < 2; k++) {
            bool same_page = i % 2;

            racers[k] = (struct racer) {
                .ctx = s.ctx, .start = &start, .id = ID + (same_page ? k : 0),
                .at = at + (same_page ? 2 * k : 4 * k) * PAGE,
                .length = (3 + k) * PAGE,
                .flags = same_page && k ? UNETMM_EXPORT_REDIRECT : 0,
            };
        }
        CHECK_EQ(pthread_create(&thread, NULL, racer_thread, &racers[1]), 0);
        racer_thread(&racers[0]);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        k = racers[1].result == 0;
        CHECK_RET(racers[k].result, 0);
        CHECK_RET(racers[!k].result, -EEXIST);
        import = unetmm_import(s.one.ep, s.one.channel, racers[k].id, ALL,
                               10 * NS_PER_S * run.slow, &length);
        CHECK(import >= 0);
        CHECK_EQ(length, racers[k].length);
        s.import = (unsigned)import;
        s.length = length;
        s.guard.at = racers[k].at;
        there_and_back(&s, 0, length, i);
        CHECK_RET(unetmm_unimport(s.one.ep, s.import), 0);
        CHECK_RET(unetmm_unexport(s.ctx, racers[k].id), 0);
        won[k]++;
    }
    note("the one won %u times, the other %u times", won[0], won[1]);
    CHECK_EQ(pthread_barrier_destroy(&start), 0);
    scene_close(&s);
}

TEST(not_with_ktlb, TEST_KTLB)
{
    struct unetmm_ctx *ctx = open_card();

    CHECK_RET(unetmm_export(ctx, 1, pages(1), PAGE, ALL, 0, 0), -EOPNOTSUPP);
    CHECK_RET(unetmm_close(ctx), 0);
}

static void *export_late(void *argument)
{
    struct scene *s = argument;

    idle_ns(60 * NS_PER_MS);
    CHECK_RET(unetmm_export(s->ctx, ID, s->guard.at, LENGTH, ALL, 0, 0), 0);
    return NULL;
}

TEST(imports, TEST_EXPORT)
{
    struct station datagram;
    struct unetmm_info info;
    uint64_t length = 0;
    pthread_t thread;
    struct scene s;
    unsigned i, channel;
    int ret;

    card_info(&info);
    scene_base(&s);
    guard_make(&s.guard, LENGTH, 0);
#define IMPORT(id, rights, timeout) \
    unetmm_import(s.one.ep, s.one.channel, id, rights, timeout, &length)
    CHECK_RET(IMPORT(ID, 0, 0), -ETIMEDOUT);
    CHECK_RET(IMPORT(ID, 0, 50 * NS_PER_MS), -ETIMEDOUT);
    CHECK_RET(IMPORT(ID, 8, 0), -EINVAL);
    CHECK_RET(unetmm_import(s.one.ep, 9, ID, 0, 0, NULL), -ENOENT);
    CHECK_RET(unetmm_import(s.one.ep, 1u << 20, ID, 0, 0, NULL), -ENOENT);
    /* It blocks until the export exists. */
    CHECK_EQ(pthread_create(&thread, NULL, export_late, &s), 0);
    ret = IMPORT(ID, 0, 10 * NS_PER_S * run.slow);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_RET(ret, 0);
    CHECK_EQ(length, LENGTH);
    CHECK_RET(IMPORT(ID, ALL, 0), 1);
    CHECK_RET(unetmm_unimport(s.one.ep, 1), 0);
    CHECK_RET(unetmm_unimport(s.one.ep, 1), -ENOENT);
    CHECK_RET(unetmm_unimport(s.one.ep, info.imports), -ENOENT);
    CHECK_RET(unetmm_unexport(s.ctx, ID), 0);
    CHECK_RET(unetmm_export(s.ctx, ID, s.guard.at, LENGTH, UNETMM_RIGHT_READ,
                            0, 0), 0);
    CHECK_RET(IMPORT(ID, UNETMM_RIGHT_WRITE, 0), -EACCES);
    for (i = 1; i < info.imports; i++) {
        CHECK_RET(IMPORT(ID, 0, 0), i);
    }
    CHECK_RET(IMPORT(ID, 0, 0), -ENOSPC);
    CHECK_RET(unetmm_write(s.one.ep, 1, 0, "x", 1, 0, 0, 0), -EACCES);
    /* Only by a reliable channel, and while it lasts */
    channel = s.two.channel;
    station_open(&datagram, s.ctx, NULL);
    join(&datagram, &s.two);
    CHECK_RET(unetmm_import(datagram.ep, datagram.channel, ID, 0, 0, NULL),
              -EPROTOTYPE);
    station_close(&datagram);
    CHECK_RET(unetmm_disconnect(s.two.ep, channel), 0);
    CHECK_RET(unetmm_unimport(s.one.ep, 7), 0);
    EVENTUALLY(IMPORT(ID, 0, 0) == -ENOTCONN);
#undef IMPORT
    scene_close(&s);
}

/* A number that was taken over by hand, past the library's checks. */
static unsigned forged_status(struct scene *s, unsigned handle,
                              uint64_t offset, size_t len, uint8_t opcode)
{
    const struct unetmm_request_ request = {
        .user_data = 0xf0, .offset = offset, .flags = UNETMM_MORE,
        .import = s->import, .opcode = opcode,
        .channel = s->one.ep->imports[s->import].channel,
    };
    struct iovec iov = { s->mine, len };
    struct unetmm_sqe *sqe;
    uint32_t at = s->one.ep->sq_prod;
    struct unetmm_completion c;

    /* Posted with the right number, and changed before the doorbell. */
    CHECK_RET(unetmm_queue_(s->one.ep, request, &iov, 1, len, 0), 0);
    sqe = (void *)unetmm_slot_(s->one.ep, at);
    sqe->handle = unetmm_swap32(handle);
    unetmm_ring(s->one.ep);
    take(&s->one, UNETMM_CQE_SENT, &c);
    CHECK_EQ(c.user_data, 0xf0);
    return c.status;
}

TEST(forged, TEST_EXPORT)
{
    struct unetmm_info info;
    struct scene s;
    unsigned i;

    card_info(&info);
    scene_open(&s);
    for (i = 1; i < info.imports; i++) {
        CHECK_EQ(forged_status(&s, i, 0, 100, UNETMM_OP_WRITE),
                 UNETMM_ST_BAD_IMPORT);
    }
    CHECK_EQ(forged_status(&s, info.imports, 0, 100, UNETMM_OP_WRITE),
             UNETMM_ST_BAD_IMPORT);
    CHECK_EQ(forged_status(&s, UINT32_MAX, 0, 100, UNETMM_OP_READ),
             UNETMM_ST_BAD_IMPORT);
    CHECK_EQ(forged_status(&s, s.import, s.length, 1, UNETMM_OP_WRITE),
             UNETMM_ST_BAD_IMPORT);
    CHECK_EQ(forged_status(&s, s.import, s.length - 99, 100, UNETMM_OP_WRITE),
             UNETMM_ST_BAD_IMPORT);
    CHECK_EQ(forged_status(&s, s.import, UINT64_MAX, 2, UNETMM_OP_WRITE),
             UNETMM_ST_BAD_IMPORT);
    CHECK_EQ(forged_status(&s, s.import, UINT64_MAX - 50, 100,
                           UNETMM_OP_READ), UNETMM_ST_BAD_IMPORT);
    CHECK_EQ(forged_status(&s, s.import, 0, 100, UNETMM_OP_WRITE),
             UNETMM_ST_OK);
    guard_check(&s.guard, LENGTH);
    scene_close(&s);
}

/* ---- The end of an export -------------------------------------------------------- */

/* Revoked under way: nothing is written after that, and the writer learns it. */
TEST(revoked, TEST_EXPORT, 60)
{
    unsigned i, k, good = 0, bad = 0;
    struct unetmm_completion c;
    struct scene s;

    scene_open(&s);
    for (i = 0; i < rounds(10); i++) {
        memset(s.mine, 0x11, LENGTH);
        for (k = 0; k < 4; k++) {
            CHECK_RET(unetmm_write(s.one.ep, s.import, 0, s.mine, LENGTH, 0,
                                   k, 0), 0);
        }
        CHECK_RET(unetmm_unexport(s.ctx, ID), 0);
        /* It is ours alone again. */
        memset(s.guard.at, 0x5a, LENGTH);
        for (k = 0; k < 4; k++) {
            take(&s.one, UNETMM_CQE_SENT, &c);
            CHECK_EQ(c.user_data, k);
            CHECK(c.status == UNETMM_ST_OK || c.status == UNETMM_ST_REVOKED);
            *(c.status ? &bad : &good) += 1;
        }
        CHECK_EQ(write_status(&s, 0, s.mine, 100), UNETMM_ST_REVOKED);
        CHECK_EQ(read_status(&s, 0, s.mine, LENGTH), UNETMM_ST_REVOKED);
        CHECK_BYTES(s.guard.at, LENGTH, 0x5a);
        guard_check(&s.guard, LENGTH);
        /* The same memory under the same number is another export. */
        CHECK_RET(unetmm_export(s.ctx, ID, s.guard.at, LENGTH, ALL,
                                UNETMM_EXPORT_NOTIFY, COOKIE), 0);
        CHECK_EQ(write_status(&s, 0, s.mine, 100), UNETMM_ST_REVOKED);
        CHECK_RET(unetmm_unimport(s.one.ep, s.import), 0);
        s.import = import_of(&s.one, ID, ALL);
        there_and_back(&s, 0, LENGTH, i);
    }
    note("%u writes came before, %u after", good, bad);
    scene_close(&s);
}

/* Unmapped memory is written no more, and its replacement is not written, either. */
TEST(unmapped, TEST_EXPORT)
{
    struct scene s;
    uint8_t *at = pages(4), *again;
    uint64_t length;
    int ret;

    scene_base(&s);
    CHECK_RET(unetmm_export(s.ctx, ID, at, 4 * PAGE, ALL, 0, 0), 0);
    ret = unetmm_import(s.one.ep, s.one.channel, ID, ALL, NS_PER_S * 10,
                        &length);
    CHECK_RET(ret, 0);
    s.import = 0;
    CHECK_EQ(length, 4 * PAGE);
    CHECK_EQ(write_status(&s, 0, s.mine, 4 * PAGE), UNETMM_ST_OK);
    CHECK_SYS(munmap(at, 4 * PAGE));
    CHECK_EQ(write_status(&s, 0, s.mine, 4 * PAGE), UNETMM_ST_REMOTE_MEMORY);
    CHECK_EQ(read_status(&s, 0, s.mine, 4 * PAGE), UNETMM_ST_REMOTE_MEMORY);
    if (run.source != UNETMM_SOURCE_TLB &&
        run.source != UNETMM_SOURCE_SHADOW &&
        run.source != UNETMM_SOURCE_ODP) {
        again = mmap(at, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE |
                     MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        CHECK(again == at);
        memset(at, 0x5a, 4 * PAGE);
        CHECK_EQ(write_status(&s, 0, s.mine, 4 * PAGE),
                 UNETMM_ST_REMOTE_MEMORY);
        CHECK_BYTES(at, 4 * PAGE, 0x5a);
    }
    CHECK_RET(unetmm_unexport(s.ctx, ID), 0);
    scene_close(&s);
}

/* ---- Processes ------------------------------------------------------------------- */

struct shared {
    atomic_uint ready, count;
};

/* Exports, and lets its peers do. */
static void exporter(void *argument)
{
    struct shared *shared = argument;
    struct unetmm_ctx *ctx = open_card();
    uint8_t *at = pages(64);
    struct station s;

    station_open(&s, ctx, NULL);
    CHECK_RET(unetmm_export(ctx, ID, at, 64 * PAGE, ALL, 0, 0), 0);
    CHECK_RET(unetmm_listen_ex(s.ep, SERVICE, 4, NULL), 0);
    atomic_fetch_add(&shared->ready, 1);
    for (;;) {
        pause();
    }
}

TEST(exporter_killed, TEST_EXPORT, 60)
{
    struct shared *shared = shared_memory(sizeof(*shared));
    struct unetmm_ctx *ctx = open_card();
    struct unetmm_completion c;
    unsigned i, k, n, import;
    uint8_t *at = pages(64), mac[6];
    struct station s;
    pid_t pid;

    card_mac(mac);
    reach(ctx, at, 64 * PAGE, true);
    station_open(&s, ctx, NULL);
    for (i = 0; i < rounds(4); i++) {
        pid = start_process(exporter, shared);
        k = (unsigned)unetmm_connect_ex(s.ep, mac, SERVICE,
                                        20 * NS_PER_S * run.slow, NULL, NULL);
        CHECK(k < 1u << 16);
        s.channel = k;
        import = import_of(&s, ID, ALL);
        for (n = 0; n < 30; n++) {
            CHECK_RET(unetmm_write(s.ep, import, 0, at, 64 * PAGE, 0, n, 0),
                      0);
            if (n == 10) {
                CHECK_SYS(kill(pid, SIGKILL));
            }
        }
        for (n = 0; n < 30; n++) {
            take(&s, UNETMM_CQE_SENT, &c);
            CHECK_EQ(c.user_data, n);
        }
        CHECK(WIFSIGNALED(await_process(pid)));
        EVENTUALLY(send_status(&s, "x", 1) == UNETMM_ST_BAD_CHANNEL);
        /* The import has ended with the channel; its number is still ours. */
        CHECK_RET(unetmm_write(s.ep, import, 0, at, 100, 0, 99, 0), 0);
        take(&s, UNETMM_CQE_SENT, &c);
        CHECK(c.status == UNETMM_ST_BAD_CHANNEL ||
              c.status == UNETMM_ST_BAD_IMPORT);
        CHECK_RET(unetmm_unimport(s.ep, import), 0);
        CHECK_RET(unetmm_disconnect(s.ep, s.channel), 0);
    }
    station_close(&s);
    CHECK_RET(unetmm_close(ctx), 0);
}

/* Writes ones, or adds ones, to the parent's memory. */
static void importer(void *argument)
{
    struct shared *shared = argument;
    struct unetmm_ctx *ctx = open_card();
    struct unetmm_completion c;
    uint8_t *at = pages(16), mac[6];
    unsigned import;
    struct station s;
    int ret;

    card_mac(mac);
    reach(ctx, at, 16 * PAGE, false);
    memset(at, 1, 16 * PAGE);
    station_open(&s, ctx, NULL);
    ret = unetmm_connect_ex(s.ep, mac, SERVICE, 20 * NS_PER_S * run.slow, NULL, NULL);
    CHECK(ret >= 0);
    s.channel = (unsigned)ret;
    import = import_of(&s, ID, ALL);
    for (;;) {
        ret = unetmm_write(s.ep, import, 0, at, 16 * PAGE, 0, 0, 0);
        CHECK(!ret || ret == -EAGAIN);
        while (take_now(&s, UNETMM_CQE_SENT, &c)) {
            atomic_fetch_add(&shared->count, 1);
        }
    }
}

TEST(importer_killed, TEST_EXPORT, 60)
{
    struct shared *shared = shared_memory(sizeof(*shared));
    struct guard guard;
    struct unetmm_ctx *ctx;
    struct station s;
    unsigned i, count;
    pid_t pid;

    guard_make(&guard, 16 * PAGE, 0);
    ctx = open_card();
    station_open(&s, ctx, NULL);
    CHECK_RET(unetmm_listen_ex(s.ep, SERVICE, 4, NULL), 0);
    for (i = 0; i < rounds(4); i++) {
        CHECK_RET(unetmm_export(ctx, ID, guard.at, 16 * PAGE, ALL, 0, 0), 0);
        count = atomic_load(&shared->count);
        pid = start_process(importer, shared);
        CHECK(unetmm_accept(s.ep, &(struct unetmm_peer) { 0 }, 20 * NS_PER_S *
                            run.slow) >= 0);
        EVENTUALLY(atomic_load(&shared->count) > count + 3);
        CHECK_SYS(kill(pid, SIGKILL));
        CHECK(WIFSIGNALED(await_process(pid)));
        CHECK_BYTES(guard.at, 16 * PAGE, 1);
        CHECK_RET(unetmm_unexport(ctx, ID), 0);
        guard_reset(&guard);
        guard_check(&guard, 0);
    }
    station_close(&s);
    CHECK_RET(unetmm_close(ctx), 0);
}

/* ---- Atomics --------------------------------------------------------------------- */

static uint64_t atomic_old(struct scene *s, int posted)
{
    struct unetmm_completion c;

    CHECK_RET(posted, 0);
    take(&s->one, UNETMM_CQE_SENT, &c);
    if (c.status) {
        FAIL("an atomic failed: %s", unetmm_status_str(c.status));
    }
    return unetmm_old_value(&c);
}

/* Local: the first offset at which the address is a multiple of 8. */
static uint64_t aligned(const struct scene *s)
{
    return run.remote ? 0 : -(uintptr_t)s->guard.at % 8;
}

TEST(atomics, TEST_EXPORT | TEST_REMOTE)
{
    struct unetmm_completion c;
    uint64_t at, zero = 0, value = 0;
    struct scene s;

    scene_open(&s);
    at = aligned(&s);
    CHECK_EQ(write_status(&s, at, &zero, 8), UNETMM_ST_OK);
#define ADD(n) atomic_old(&s, unetmm_fetch_add(s.one.ep, s.import, at, n, 0, 0))
#define SWAP(a, b) \
    atomic_old(&s, unetmm_cmp_swap(s.one.ep, s.import, at, a, b, 0, 0))
    CHECK_EQ(ADD(5), 0);
    CHECK_EQ(ADD(UINT64_MAX), 5);
    CHECK_EQ(SWAP(3, 9), 4);
    CHECK_EQ(SWAP(4, 0x123456789abcdef0), 4);
    CHECK_EQ(ADD(0), 0x123456789abcdef0);
#undef SWAP
#undef ADD
    CHECK_EQ(read_status(&s, at, s.mine, 8), UNETMM_ST_OK);
    memcpy(&value, s.mine, 8);
    CHECK_EQ(value, 0x123456789abcdef0);
    /* Elsewhere than at a multiple of 8: the peer says so. */
    CHECK_RET(unetmm_fetch_add(s.one.ep, s.import, at + 4, 1, 0, 0), 0);
    take(&s.one, UNETMM_CQE_SENT, &c);
    CHECK_EQ(c.status, UNETMM_ST_REMOTE_RANGE);
    CHECK_RET(unetmm_fetch_add(s.one.ep, s.import, s.length - 7, 1, 0, 0),
              -ERANGE);
    scene_close(&s);
}

/* Exactly once, though packets are lost and doubled. */
TEST(atomics_once, TEST_TLB | TEST_ONLY_REMOTE, 60)
{
    uint64_t i, n = rounds(300), zero = 0, before, dup;
    struct scene s;

    scene_open(&s);
    CHECK_EQ(write_status(&s, 0, &zero, 8), UNETMM_ST_OK);
    before = card_counter(s.ctx, UNETMM_C_inj_dup);
    ask_host("set x-seed %llu", (unsigned long long)(run.seed & INT64_MAX));
    ask_host("set x-loss 30000");
    ask_host("set x-dup 100000");
    ask_host("set x-reorder 50000");
    for (i = 0; i < n || (i < 100 * n &&
                          card_counter(s.ctx, UNETMM_C_inj_dup) <
                          before + 5); i++) {
        CHECK_EQ(atomic_old(&s, unetmm_fetch_add(s.one.ep, s.import, 0, 1, 0,
                                                 0)), i);
    }
    ask_host("set x-loss 0");
    ask_host("set x-dup 0");
    ask_host("set x-reorder 0");
    dup = card_counter(s.ctx, UNETMM_C_inj_dup);
    CHECK(dup >= before + 5);
    CHECK_EQ(read_status(&s, 0, s.mine, 8), UNETMM_ST_OK);
    CHECK(!memcmp(s.mine, &i, 8));
    scene_close(&s);
}

#define ADDS 200

static void adder(void *argument)
{
    struct unetmm_ctx *ctx = open_card();
    struct scene s = { .ctx = ctx };
    uint8_t mac[6];
    unsigned i;
    int ret;

    (void)argument;
    card_mac(mac);
    station_open(&s.one, ctx, NULL);
    ret = unetmm_connect_ex(s.one.ep, mac, SERVICE, 20 * NS_PER_S * run.slow, NULL, NULL);
    CHECK(ret >= 0);
    s.one.channel = (unsigned)ret;
    s.import = import_of(&s.one, ID, UNETMM_RIGHT_ATOMIC);
    for (i = 0; i < ADDS; i++) {
        atomic_old(&s, unetmm_fetch_add(s.one.ep, s.import, 0, 1, 0, 0));
    }
    station_close(&s.one);
    CHECK_RET(unetmm_close(ctx), 0);
}

/* Two processes and the one that has the word: none of them loses any. */
TEST(atomics_of_two, TEST_EXPORT, 60)
{
    struct unetmm_ctx *ctx = open_card();
    uint64_t *word = (void *)pages(1);
    struct station s;
    pid_t pids[2];
    unsigned i;

    CHECK_SYS(madvise(word, PAGE, MADV_DONTFORK));
    station_open(&s, ctx, NULL);
    CHECK_RET(unetmm_export(ctx, ID, word, 8, UNETMM_RIGHT_ATOMIC, 0, 0), 0);
    CHECK_RET(unetmm_listen_ex(s.ep, SERVICE, 4, NULL), 0);
    for (i = 0; i < 2; i++) {
        pids[i] = start_process(adder, NULL);
    }
    for (i = 0; i < ADDS; i++) {
        __atomic_fetch_add(word, 1, __ATOMIC_SEQ_CST);
        breathe();
    }
    end_process(pids[0]);
    end_process(pids[1]);
    CHECK_EQ(__atomic_load_n(word, __ATOMIC_SEQ_CST), 3 * ADDS);
    station_close(&s);
    CHECK_RET(unetmm_close(ctx), 0);
}

/* ---- Notifications --------------------------------------------------------------- */

/* They come in order, each after its data, and only if asked for. */
TEST(notifications, TEST_EXPORT)
{
    struct unetmm_completion c;
    struct scene s;
    unsigned i;

    scene_open(&s);
    for (i = 0; i < 100; i++) {
        pattern_fill(s.mine, 1000, i, 0);
        CHECK_RET(unetmm_write_sync(s.one.ep, s.import, i * 1000, s.mine,
                                    1000, i % 2 ? i : 0,
                                    i % 2 ? UNETMM_NOTIFY : 0,
                                    10 * NS_PER_S * run.slow), 0);
    }
    for (i = 1; i < 100; i += 2) {
        take(&s.two, UNETMM_CQE_NOTIFY, &c);
        CHECK_EQ(c.user_data, COOKIE);
        CHECK_EQ(c.channel, s.two.channel);
        CHECK_EQ(c.len, 1000);
        CHECK_EQ(unetmm_notify_imm(&c), i);
        CHECK_EQ(unetmm_notify_offset(&c), i * 1000);
        CHECK_PATTERN(s.guard.at + i * 1000, 1000, i);
    }
    CHECK(!take_now(&s.two, UNETMM_CQE_NOTIFY, &c));
    /* The descriptor wakes for them, too. */
    while (unetmm_arm(s.two.ep)) {
        take_now(&s.two, UNETMM_CQE_SENT, &c);
    }
    CHECK_EQ(write_status(&s, 0, "x", 1), UNETMM_ST_OK);
    CHECK_RET(unetmm_write(s.one.ep, s.import, 0, "x", 1, 7, 0,
                           UNETMM_NOTIFY), 0);
    CHECK_RET(unetmm_wait(s.two.ep, &c, 1, 10 * NS_PER_S * run.slow), 1);
    CHECK_EQ(c.type, UNETMM_CQE_NOTIFY);
    CHECK_EQ(unetmm_notify_imm(&c), 7);
    scene_close(&s);
}

/* The other guest looks at their order while the wire does its worst. */
TEST(notifications_far, TEST_TLB | TEST_ONLY_REMOTE, 60)
{
    uint64_t seen[2] = { 0 };
    unsigned i, n = rounds(200);
    struct scene s;

    scene_open(&s);
    CHECK_EQ(write_status(&s, MIRROR_SEEN, seen, 16), UNETMM_ST_OK);
    ask_host("set x-seed %llu", (unsigned long long)(run.seed & INT64_MAX));
    ask_host("set x-reorder 100000");
    ask_host("set x-loss 20000");
    ask_host("set x-dup 50000");
    for (i = 0; i < n; i++) {
        CHECK_RET(unetmm_write_sync(s.one.ep, s.import, 64 + 1000 * (i % 50),
                                    s.mine, 1000, i,
                                    UNETMM_NOTIFY, 10 * NS_PER_S * run.slow), 0);
    }
    ask_host("set x-reorder 0");
    ask_host("set x-loss 0");
    ask_host("set x-dup 0");
    do {
        CHECK_EQ(read_status(&s, MIRROR_SEEN, s.mine, 16), UNETMM_ST_OK);
        memcpy(seen, s.mine, 16);
    } while (seen[0] < n);
    CHECK_EQ(seen[0], n);
    CHECK_EQ(seen[1], 0);
    scene_close(&s);
}

struct heard {
    struct scene *s;
    atomic_uint count, wrong, other;
};

static void hear(struct unetmm_ep *ep, const struct unetmm_completion *c,
                 void *argument)
{
    struct heard *heard = argument;
    unsigned n = atomic_load(&heard->count);

    atomic_fetch_add(&heard->wrong, c->user_data != COOKIE ||
                     unetmm_notify_imm(c) != n);
    /* Blocked while it runs, and not to be unblocked by the handler */
    atomic_fetch_add(&heard->wrong, unetmm_handlers_unblock(ep) != -EPERM);
    atomic_fetch_add(&heard->count, 1);
}

static void hear_other(struct unetmm_ep *ep,
                       const struct unetmm_completion *c, void *argument)
{
    struct heard *heard = argument;

    (void)ep;
    (void)c;
    atomic_fetch_add(&heard->other, 1);
}

/* A handler for an export; blocked ones wait, and none is lost. */
TEST(handlers, TEST_EXPORT)
{
    struct scene s;
    struct heard heard = { .s = &s };
    unsigned i;

    scene_open(&s);
    CHECK_RET(unetmm_set_handler(s.two.ep, UNETMM_EVERY_CHANNEL, hear_other,
                                 &heard), 0);
    CHECK_RET(unetmm_set_notify_handler(s.two.ep, COOKIE, hear, &heard), 0);
    CHECK_RET(unetmm_handlers_start(s.two.ep, NULL, NULL), 0);
#define NOTIFY(n) \
    CHECK_RET(unetmm_write_sync(s.one.ep, s.import, 0, "x", 1, n, \
                                UNETMM_NOTIFY, 10 * NS_PER_S * run.slow), 0)
    for (i = 0; i < 50; i++) {
        NOTIFY(i);
    }
    EVENTUALLY(atomic_load(&heard.count) == 50);
    CHECK_RET(unetmm_handlers_block(s.two.ep), 0);
    CHECK_RET(unetmm_handlers_block(s.two.ep), 0);
    for (; i < 100; i++) {
        NOTIFY(i);
    }
    CHECK_EQ(write_status(&s, 0, "x", 1), UNETMM_ST_OK);
    CHECK_EQ(atomic_load(&heard.count), 50);
    CHECK_RET(unetmm_handlers_unblock(s.two.ep), 0);
    CHECK_EQ(atomic_load(&heard.count), 50);
    CHECK_RET(unetmm_handlers_unblock(s.two.ep), 1);
    EVENTUALLY(atomic_load(&heard.count) == 100);
    CHECK_RET(unetmm_handlers_stop(s.two.ep), 0);
    CHECK_EQ(atomic_load(&heard.wrong), 0);
    CHECK_EQ(atomic_load(&heard.other), 0);
    /* Without one, they are the endpoint's. */
    CHECK_RET(unetmm_set_notify_handler(s.two.ep, COOKIE, NULL, NULL), 0);
    NOTIFY(7);
#undef NOTIFY
    CHECK_RET(unetmm_dispatch(s.two.ep, 1, 10 * NS_PER_S * run.slow), 1);
    CHECK_EQ(atomic_load(&heard.other), 1);
    scene_close(&s);
}

/* ---- Source utlb: used pages are pinned, under a quota ----------------------- */

static struct unetmm_utlb_stats stats_of(const struct scene *s)
{
    struct unetmm_utlb_stats stats = { .size = sizeof(stats) };

    CHECK_RET(unetmm_utlb_stats(s->ctx, &stats), 0);
    CHECK(stats.pinned_now <= stats.quota_pages);
    return stats;
}

/* Exported memory has its pages; all other memory shares the rest. */
TEST(limited, TEST_UTLB, 60)
{
    enum { QUOTA = 40, EXPORTED = 16, PLACES = 96 };
    const struct unetmm_utlb_config config = {
        .size = sizeof(config), .quota_pages = QUOTA, .prepin = 4,
    };
    struct chance chance;
    struct scene s = { .length = EXPORTED * PAGE };
    unsigned i, status;
    uint8_t *area = pages(PLACES);

    chance_init(&chance, 0);
    s.ctx = open_card();
    CHECK_RET(unetmm_utlb_configure(s.ctx, &config), 0);
    station_open(&s.one, s.ctx, NULL);
    station_open(&s.two, s.ctx, NULL);
    scene_connect(&s);
    guard_make(&s.guard, s.length, 0);
    CHECK_RET(unetmm_export(s.ctx, ID, s.guard.at, s.length, ALL, 0, 0), 0);
    s.import = import_of(&s.one, ID, ALL);
    CHECK_RET(unetmm_export(s.ctx, ID + 1, area, QUOTA * PAGE, ALL, 0, 0),
              -ENOMEM);
    CHECK_RET(unetmm_export(s.ctx, ID + 1, area, (QUOTA + 1) * PAGE, ALL, 0,
                            0), -ENOMEM);
    CHECK_RET(unetmm_utlb_configure(s.ctx, &config), -EBUSY);
    for (i = 0; i < rounds(100); i++) {
        size_t len = chance_below(&chance, 8 * PAGE);

        s.mine = area + chance_below(&chance, PLACES * PAGE - 8 * PAGE);
        there_and_back(&s, chance_below(&chance, (uint32_t)(s.length - len)),
                       len, i);
    }
    CHECK(stats_of(&s).evicted > 0);
    CHECK_EQ(stats_of(&s).lost, 0);
    /* More than there is room for is said by the completion. */
    CHECK_RET(unetmm_export(s.ctx, ID + 1, area, (QUOTA - EXPORTED - 6) *
                            PAGE, UNETMM_RIGHT_READ, 0, 0), 0);
    status = write_status(&s, 0, area + (PLACES - 8) * PAGE, 8 * PAGE);
    CHECK_EQ(status, UNETMM_ST_LIMIT);
    status = read_status(&s, 0, area + (PLACES - 8) * PAGE, 8 * PAGE);
    CHECK_EQ(status, UNETMM_ST_LIMIT);
    s.mine = area + (PLACES - 4) * PAGE;
    there_and_back(&s, 0, 4 * PAGE, 1234);
    CHECK_RET(unetmm_unexport(s.ctx, ID + 1), 0);
    s.mine = area + (PLACES - 8) * PAGE;
    there_and_back(&s, 0, 8 * PAGE, 1235);
    guard_check(&s.guard, s.length);
    scene_close(&s);
}

/* The memory is the same afterwards, but no pin of it is left. */
static void take_pins(uint8_t *at, unsigned n)
{
    uint8_t *other = pages(n);

    CHECK(mremap(at, n * PAGE, n * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
                 other) == other);
    CHECK(mremap(other, n * PAGE, n * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
                 at) == at);
}

/* Between the library's look and the card's: posted again, unchanged. */
TEST(memory_changes, TEST_UTLB)
{
    struct unetmm_completion c;
    uint64_t before;
    struct scene s;
    unsigned i;

    scene_open(&s);
    before = stats_of(&s).repeated;
    for (i = 0; i < 4; i++) {
        pattern_fill(s.mine, 5 * PAGE, i, 0);
        CHECK_RET(unetmm_write(s.one.ep, s.import, 77, s.mine, 5 * PAGE,
                               i & 2 ? 1000 + i : 0, 50 + i, UNETMM_MORE |
                               (i & 2 ? UNETMM_NOTIFY : 0)), 0);
        take_pins(s.mine + PAGE, 2);
        unetmm_ring(s.one.ep);
        take(&s.one, UNETMM_CQE_SENT, &c);
        CHECK_EQ(c.user_data, 50 + i);
        CHECK_EQ(c.status, UNETMM_ST_OK);
        CHECK_PATTERN(s.guard.at + 77, 5 * PAGE, i);
        if (i & 2) {
            take(&s.two, UNETMM_CQE_NOTIFY, &c);
            CHECK_EQ(unetmm_notify_imm(&c), 1000 + i);
            CHECK_EQ(unetmm_notify_offset(&c), 77);
            CHECK_EQ(c.len, 5 * PAGE);
        }
        memset(s.mine, 0, 5 * PAGE);
        CHECK_RET(unetmm_read(s.one.ep, s.import, 77, s.mine, 5 * PAGE,
                              60 + i, UNETMM_MORE), 0);
        take_pins(s.mine + 3 * PAGE, 1);
        unetmm_ring(s.one.ep);
        take(&s.one, UNETMM_CQE_SENT, &c);
        CHECK_EQ(c.user_data, 60 + i);
        CHECK_EQ(c.status, UNETMM_ST_OK);
        CHECK_PATTERN(s.mine, 5 * PAGE, i);
    }
    CHECK(!take_now(&s.two, UNETMM_CQE_NOTIFY, &c));
    CHECK_EQ(stats_of(&s).repeated - before, 8);
    /* Not if a later one promises that it has come before. */
    CHECK_RET(unetmm_write(s.one.ep, s.import, 0, s.mine, PAGE, 0, 70,
                           UNETMM_MORE), 0);
    CHECK_RET(unetmm_write(s.one.ep, s.import, 0, "x", 1, 7, 71,
                           UNETMM_MORE | UNETMM_NOTIFY), 0);
    take_pins(s.mine, 1);
    unetmm_ring(s.one.ep);
    take(&s.one, UNETMM_CQE_SENT, &c);
    CHECK_EQ(c.user_data, 70);
    CHECK_EQ(c.status, UNETMM_ST_PROTECTION);
    take(&s.one, UNETMM_CQE_SENT, &c);
    CHECK_EQ(c.user_data, 71);
    CHECK_EQ(c.status, UNETMM_ST_OK);
    guard_check(&s.guard, LENGTH);
    scene_close(&s);
}

struct forker {
    atomic_bool stop;
    atomic_uint count;
};

static void *forker_thread(void *argument)
{
    struct forker *forker = argument;

    while (!atomic_load(&forker->stop)) {
        pid_t pid = fork();

        CHECK(pid >= 0);
        if (!pid) {
            _exit(0);
        }
        CHECK_EQ(await_process(pid), 0);
        atomic_fetch_add(&forker->count, 1);
    }
    return NULL;
}

/* No fork takes a pin. */
TEST(forks, TEST_UTLB, 60)
{
    struct forker forker = { 0 };
    unsigned i, start;
    pthread_t thread;
    struct scene s;

    scene_base(&s);
    guard_make(&s.guard, LENGTH, 9);
    CHECK_RET(unetmm_export(s.ctx, ID, s.guard.at, LENGTH, ALL, 0, 0), 0);
    s.import = import_of(&s.one, ID, ALL);
    CHECK_EQ(pthread_create(&thread, NULL, forker_thread, &forker), 0);
    for (i = 0; i < rounds(10); i++) {
        start = atomic_load(&forker.count);
        do {
            there_and_back(&s, 1000, 30000, i);
        } while (atomic_load(&forker.count) == start);
    }
    atomic_store(&forker.stop, true);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    note("%u forks", atomic_load(&forker.count));
    CHECK_EQ(stats_of(&s).lost, 0);
    CHECK_EQ(stats_of(&s).repeated, 0);
    guard_check(&s.guard, LENGTH);
    scene_close(&s);
}

/* ---- In a huge page ---------------------------------------------------------------- */

#define SHARE           (16 * PAGE)

static void beside_given_up(uint8_t *at)
{
    CHECK_SYS(madvise(at + 300 * PAGE, PAGE, MADV_DONTNEED));
}

static void beside_unmapped(uint8_t *at)
{
    unmap_pages(at + 400 * PAGE, 3);
}

static void beside_protected(uint8_t *at)
{
    CHECK_SYS(mprotect(at + 20 * PAGE, PAGE, PROT_READ));
}

static void share(struct scene *s, uint8_t *at)
{
    s->guard.at = at + 100 * PAGE;
    s->length = SHARE;
    CHECK_RET(unetmm_export(s->ctx, ID, s->guard.at, SHARE, ALL, 0, 0), 0);
    s->import = import_of(&s->one, ID, ALL);
}

static void share_no_more(struct scene *s)
{
    CHECK_RET(unetmm_unimport(s->one.ep, s->import), 0);
    CHECK_RET(unetmm_unexport(s->ctx, ID), 0);
}

/*
 * Memory that is exported, and memory that is sent from, are the process's in
 * spite of changes of other pages of the same huge one.
 */
TEST(neighbours, TEST_EXPORT)
{
    static void (*const beside[])(uint8_t *at) = {
        beside_given_up, beside_unmapped, beside_protected,
    };
    uint64_t before;
    unsigned i, k;
    struct scene s;

    scene_base(&s);
    before = driver_counter(s.ctx, UNETMM_D_repins);
    for (i = 0; i < 3; i++) {
        for (k = 0; k < rounds(10); k++) {
            uint8_t *at = huge_page();

            s.mine = at + 200 * PAGE;
            reach(s.ctx, s.mine, SHARE, true);
            share(&s, at);
            there_and_back(&s, 0, SHARE, k);
            CHECK(huge_kilobytes(at, HUGE) >= HUGE / 1024);
            beside[i](at);
            there_and_back(&s, 0, SHARE, 1000 + k);
            CHECK_BYTES(at + 99 * PAGE, PAGE, 0x77);
            there_and_back(&s, 8, SHARE - 8, 2000 + k);
            share_no_more(&s);
            unreach(s.ctx, s.mine, SHARE);
            unmap_pages(at, HUGE / PAGE);
        }
    }
    if (run.source == UNETMM_SOURCE_PINNED ||
        run.source == UNETMM_SOURCE_UTLB) {
        CHECK(driver_counter(s.ctx, UNETMM_D_repins) - before >=
              3 * k * SHARE / PAGE);
    }
    scene_close(&s);
}

/* But if all of it is given up, it is gone, and nobody waits for it. */
TEST(huge_given_up, TEST_EXPORT)
{
    bool asks = run.source == UNETMM_SOURCE_TLB ||
                run.source == UNETMM_SOURCE_SHADOW ||
                run.source == UNETMM_SOURCE_ODP;
    struct scene s;
    unsigned i;

    scene_base(&s);
    for (i = 0; i < rounds(10); i++) {
        uint8_t *at = huge_page();

        share(&s, at);
        there_and_back(&s, 0, SHARE, i);
        CHECK_SYS(madvise(at, HUGE, MADV_DONTNEED));
        if (asks) {
            there_and_back(&s, 0, SHARE, 1000 + i);
        } else {
            CHECK_EQ(write_status(&s, 0, s.mine, SHARE),
                     UNETMM_ST_REMOTE_MEMORY);
            CHECK_EQ(read_status(&s, 0, s.mine, SHARE),
                     UNETMM_ST_REMOTE_MEMORY);
        }
        share_no_more(&s);
        unmap_pages(at, HUGE / PAGE);
    }
    scene_close(&s);
}
