/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Transfer redirection: data that lands in an export is moved, before, while and
 * after it is written.
 *
 * Local: two endpoints on one card; written data is looked at where it has to be.
 * Remote: the other guest's echo moves parts of an export with each notification;
 * written data is read back through all moves.
 */
#include "ask.h"
#include "guard.h"
#include "link.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SERVICE         (SERVICE_FIRST - 8)
#define ID              78
#define LENGTH          ((size_t)1 << 20)
#define ALL             UNETMM_RIGHT_ALL
#define REDIRECT        UNETMM_EXPORT_REDIRECT

/* `one` imports the exports of `two`. */
struct scene {
    struct unetmm_ctx *ctx;
    struct station one, two;
    struct guard own, to;       /* the export's memory, and another place */
    uint8_t *mine, *last;       /* as many bytes, to write from and read to */
    unsigned import;
    unsigned writes;            /* how many are posted at a time */
};

static const struct unetmm_channel_attr usual = UNETMM_CHANNEL_ATTR_INIT;

static void scene_open(struct scene *s)
{
    memset(s, 0, sizeof(*s));
    s->ctx = open_card();
    station_open(&s->one, s->ctx, NULL);
    station_open(&s->two, s->ctx, NULL);
    CHECK_RET(try_join(&s->one, &s->two, &usual, 10 * NS_PER_S * run.slow), 0);
    s->mine = pages(LENGTH / PAGE);
    s->last = pages(LENGTH / PAGE);
    reach(s->ctx, s->mine, LENGTH, true);
    reach(s->ctx, s->last, LENGTH, true);
    guard_make(&s->own, LENGTH, 123);
    guard_make(&s->to, LENGTH, 3001);
    CHECK_RET(unetmm_export(s->ctx, ID, s->own.at, LENGTH, ALL, REDIRECT, 0),
              0);
    s->import = import_of(&s->one, ID, ALL);
}

static void scene_close(struct scene *s)
{
    station_close(&s->one);
    station_close(&s->two);
    CHECK_RET(unetmm_close(s->ctx), 0);
}

static void write_post(struct scene *s, uint64_t offset, const void *from,
                       size_t len)
{
    int ret = unetmm_write(s->one.ep, s->import, offset, from, len, 0, 7, 0);

    CHECK_RET(ret, 0);
}

static unsigned sent_status(struct scene *s)
{
    struct unetmm_completion c;

    take(&s->one, UNETMM_CQE_SENT, &c);
    return c.status;
}

static void write_whole(struct scene *s, uint64_t offset, const void *from,
                        size_t len)
{
    write_post(s, offset, from, len);
    CHECK_EQ(sent_status(s), UNETMM_ST_OK);
}

static void read_whole(struct scene *s, uint64_t offset, void *to, size_t len)
{
    CHECK_RET(unetmm_read(s->one.ep, s->import, offset, to, len, 8, 0), 0);
    CHECK_EQ(sent_status(s), UNETMM_ST_OK);
}

static struct unetmm_redirected redirect(struct scene *s, uint64_t offset,
                                         void *to, size_t length)
{
    struct unetmm_redirected what = { 0 };

    CHECK_RET(unetmm_redirect(s->ctx, ID, offset, to, length, &what), 0);
    return what;
}

/* ---- When ------------------------------------------------------------------------ */

TEST(before, TEST_BOTH | TEST_UTLB | TEST_SHADOW | TEST_ODP)
{
    struct unetmm_redirected what;
    struct scene s;

    scene_open(&s);
    memset(s.own.at, 0x5a, LENGTH);
    what = redirect(&s, 0, s.to.at, LENGTH);
    CHECK_EQ(what.copied, 0);
    CHECK_EQ(what.pieces, 0);
    pattern_fill(s.mine, LENGTH, 1, 0);
    write_whole(&s, 0, s.mine, LENGTH);
    CHECK_PATTERN(s.to.at, LENGTH, 1);
    CHECK_BYTES(s.own.at, LENGTH, 0x5a);
    CHECK_RET(unetmm_redirect_end(s.ctx, ID, 0), 0);
    CHECK_RET(unetmm_redirect_end(s.ctx, ID, 0), -ENOENT);
    pattern_fill(s.mine, LENGTH, 2, 0);
    write_whole(&s, 0, s.mine, LENGTH);
    CHECK_PATTERN(s.own.at, LENGTH, 2);
    CHECK_PATTERN(s.to.at, LENGTH, 1);
    guard_check(&s.own, LENGTH);
    guard_check(&s.to, LENGTH);
    scene_close(&s);
}

TEST(after, TEST_BOTH | TEST_UTLB)
{
    struct unetmm_redirected what;
    struct scene s;

    scene_open(&s);
    pattern_fill(s.mine, LENGTH, 1, 0);
    write_whole(&s, 0, s.mine, LENGTH);
    what = redirect(&s, 0, s.to.at, LENGTH);
    CHECK_EQ(what.copied, LENGTH);
    CHECK_EQ(what.pieces, 1);
    CHECK_PATTERN(s.to.at, LENGTH, 1);
    /* It has been taken: there is nothing to take a second time. */
    CHECK_RET(unetmm_redirect_end(s.ctx, ID, 0), 0);
    guard_reset(&s.to);
    CHECK_EQ(redirect(&s, 0, s.to.at, LENGTH).copied, 0);
    guard_check(&s.to, 0);
    scene_close(&s);
}

/*
 * Several writes of all of it (s->writes), of which the last one's bytes must be
 * there in the end.  They have been posted when it returns, and most are under way.
 */
#define WRITES          8u
#define MOST_WRITES     64u

static void post_writes(struct scene *s, uint64_t key)
{
    unsigned i;

    pattern_fill(s->mine, LENGTH, key + 1, 0);
    pattern_fill(s->last, LENGTH, key, 0);
    for (i = 0; i < s->writes; i++) {
        bool last = i == s->writes - 1;

        CHECK_RET(unetmm_write(s->one.ep, s->import, 0,
                               last ? s->last : s->mine, LENGTH, 0, i,
                               last ? 0 : UNETMM_MORE), 0);
    }
}

/* True: not all of them were done by now. */
static bool take_writes(struct scene *s)
{
    struct unetmm_completion c;
    unsigned i, now = 0;

    while (take_now(&s->one, UNETMM_CQE_SENT, &c)) {
        CHECK_EQ(c.status, UNETMM_ST_OK);
        now++;
    }
    for (i = now; i < s->writes; i++) {
        CHECK_EQ(sent_status(s), UNETMM_ST_OK);
    }
    return now < s->writes;
}

/* Under way: a part of it, with its edges anywhere; and back again. */
TEST(amid, TEST_BOTH | TEST_UTLB | TEST_SHADOW | TEST_ODP, 60)
{
    unsigned i, n = rounds(15), there = 0, back = 0;
    struct chance chance;
    struct scene s;

    chance_init(&chance, 0);
    scene_open(&s);
    for (i = 0; i < n || ((!there || !back) && i < 20 * n); i++) {
        size_t at = chance_below(&chance, LENGTH);
        size_t len = 1 + chance_below(&chance, (uint32_t)(LENGTH - at));
        uint8_t *to = s.to.at + chance_below(&chance,
                                             (uint32_t)(LENGTH - len + 1));
        uint32_t pause = i < n ? 1000 : 1;

        /* A slow kernel would be at the card too late each time. */
        s.writes = WRITES << i / n < MOST_WRITES ? WRITES << i / n :
            MOST_WRITES;
        post_writes(&s, 4 * i);
        idle_ns(chance_below(&chance, pause) * NS_PER_US);
        redirect(&s, at, to, len);
        there += take_writes(&s);
        CHECK(!memcmp(to, s.last + at, len));
        CHECK(!memcmp(s.own.at, s.last, at));
        CHECK(!memcmp(s.own.at + at + len, s.last + at + len,
                      LENGTH - at - len));
        post_writes(&s, 4 * i + 2);
        idle_ns(chance_below(&chance, pause) * NS_PER_US);
        CHECK_RET(unetmm_redirect_back(s.ctx, ID, at, 0, NULL), 0);
        back += take_writes(&s);
        CHECK_PATTERN(s.own.at, LENGTH, 4 * i + 2);
        guard_check(&s.own, LENGTH);
        guard_check(&s.to, LENGTH);
        guard_reset(&s.to);
    }
    note("under way in %u and %u of %u rounds", there, back, i);
    CHECK(there && back);
    scene_close(&s);
}

/* Kept bytes stay where they are; all others are as if never moved. */
TEST(keeping, TEST_BOTH | TEST_UTLB)
{
    struct unetmm_redirected what;
    struct scene s;

    scene_open(&s);
    memset(s.own.at, 0x5a, LENGTH);
    redirect(&s, 1000, s.to.at, 100000);
    pattern_fill(s.mine, 50000, 1, 0);
    write_whole(&s, 1000, s.mine, 50000);
    CHECK_RET(unetmm_redirect_back(s.ctx, ID, 1000, 100001, NULL), -EINVAL);
    CHECK_RET(unetmm_redirect_back(s.ctx, ID, 1001, 0, NULL), -ENOENT);
    CHECK_RET(unetmm_redirect_back(s.ctx, ID, 1000, 20000, &what), 0);
    CHECK_EQ(what.copied, 30000);
    CHECK_BYTES(s.own.at, 21000, 0x5a);
    CHECK(!memcmp(s.own.at + 21000, s.mine + 20000, 30000));
    CHECK_BYTES(s.own.at + 51000, LENGTH - 51000, 0x5a);
    CHECK(!memcmp(s.to.at, s.mine, 20000));
    /* The rest moves along when it is moved the next time. */
    what = redirect(&s, 21000, s.to.at, 100000);
    CHECK_EQ(what.copied, 30000);
    CHECK(!memcmp(s.to.at, s.mine + 20000, 30000));
    scene_close(&s);
}

/* ---- The peers' view ------------------------------------------------------------- */

TEST(peers_see_it, TEST_BOTH | TEST_UTLB | TEST_SHADOW | TEST_ODP)
{
    struct scene s;
    uint64_t word;
    uint8_t *at;

    scene_open(&s);
    pattern_fill(s.mine, LENGTH, 1, 0);
    write_whole(&s, 0, s.mine, LENGTH);
    redirect(&s, 5000, s.to.at, 100000);
    redirect(&s, 200000, s.to.at + 200000, 1);
    /* To be seen that it is read there. */
    s.to.at[10] ^= 0xff;
    s.to.at[200000] ^= 0xff;
    memset(s.mine, 0, LENGTH);
    read_whole(&s, 0, s.mine, LENGTH);
    s.mine[5010] ^= 0xff;
    s.mine[200000] ^= 0xff;
    CHECK_PATTERN(s.mine, LENGTH, 1);
    CHECK_RET(unetmm_redirect_end(s.ctx, ID, 5000), 0);
    /* A word of the export that is one in the new place, too. */
    at = s.own.at + 5000 + (-(uintptr_t)(s.own.at + 5000) & 7);
    memset(s.to.area, 0, PAGE);
    redirect(&s, (uint64_t)(at - s.own.at), s.to.area, 12);
    memset(s.to.area, 0, PAGE);
    CHECK_RET(unetmm_fetch_add(s.one.ep, s.import,
                               (uint64_t)(at - s.own.at), 5, 0, 0), 0);
    CHECK_EQ(sent_status(&s), UNETMM_ST_OK);
    memcpy(&word, s.to.area, sizeof(word));
    CHECK_EQ(word, 5);
    CHECK_RET(unetmm_fetch_add(s.one.ep, s.import,
                               (uint64_t)(at + 8 - s.own.at), 5, 0, 0), 0);
    CHECK_EQ(sent_status(&s), UNETMM_ST_REMOTE_RANGE);
    scene_close(&s);
}

/* ---- Mistakes -------------------------------------------------------------------- */

TEST(mistakes, TEST_BOTH | TEST_UTLB)
{
    struct unetmm_redirected what;
    struct scene s;
    uint8_t *other, *bad = pages(4);

    scene_open(&s);
    other = pages(8);
#define TRY(id, offset, to, length, result) \
    CHECK_RET(unetmm_redirect(s.ctx, id, offset, to, length, &what), result)
    TRY(ID + 1, 0, s.to.at, PAGE, -ENOENT);
    TRY(ID, 0, s.to.at, 0, -EINVAL);
    TRY(ID, LENGTH, s.to.at, 1, -EINVAL);
    TRY(ID, UINT64_MAX, s.to.at, 1, -EINVAL);
    TRY(ID, 1, s.to.at, LENGTH, -EINVAL);
    TRY(ID, 0, s.to.at, SIZE_MAX, -EINVAL);
    TRY(ID, 0, (void *)UINTPTR_MAX, 2, -EINVAL);
    TRY(ID, 0, (void *)0x7ffffffff000, 2 * PAGE, -EINVAL);
    TRY(ID, 0, s.own.at, PAGE, -EEXIST);
    TRY(ID, 0, s.own.at + LENGTH - 1, 1, -EEXIST);
    CHECK_SYS(mprotect(bad, PAGE, PROT_READ));
    TRY(ID, 0, bad + PAGE - 1, 2, -EFAULT);
    CHECK_SYS(munmap(bad, PAGE));
    TRY(ID, 0, bad, 2 * PAGE, -EFAULT);
    /* Made without the flag, and with one that there is not */
    CHECK_RET(unetmm_export(s.ctx, 1, other, PAGE, ALL, 0, 0), 0);
    TRY(1, 0, s.to.at, PAGE, -EOPNOTSUPP);
    CHECK_RET(unetmm_export(s.ctx, 2, other + PAGE, PAGE, ALL, 0x20, 0),
              -EOPNOTSUPP);
    TRY(ID, 0, other + 10, 10, -EEXIST);
    /* Parts do not overlap, here or there; four at most. */
    TRY(ID, 0, s.to.at, PAGE, 0);
    TRY(ID, PAGE - 1, other + 2 * PAGE, 2, -EEXIST);
    TRY(ID, PAGE, s.to.at + PAGE - 1, 2, -EEXIST);
    CHECK_RET(unetmm_export(s.ctx, 2, s.to.at, PAGE, ALL, 0, 0), -EEXIST);
    TRY(ID, PAGE, other + 2 * PAGE, 1, 0);
    TRY(ID, PAGE + 1, other + 3 * PAGE, 1, 0);
    TRY(ID, PAGE + 2, other + 4 * PAGE, 1, 0);
    TRY(ID, PAGE + 3, other + 5 * PAGE, 1, -ENOSPC);
    CHECK_RET(unetmm_redirect_end(s.ctx, ID, PAGE + 1), 0);
    TRY(ID, PAGE + 3, other + 5 * PAGE, 1, 0);
    CHECK_RET(unetmm_redirect_end(s.ctx, ID, 1), -ENOENT);
    CHECK_RET(unetmm_redirect_end(s.ctx, ID + 1, 0), -ENOENT);
    /* They go with the export, like the pins for them. */
    CHECK_RET(unetmm_unexport(s.ctx, ID), 0);
    CHECK_RET(unetmm_redirect_end(s.ctx, ID, 0), -ENOENT);
    CHECK_RET(unetmm_export(s.ctx, 2, s.to.at, PAGE, ALL, 0, 0), 0);
#undef TRY
    scene_close(&s);
}

/* Registered by the program already, all of it or a part. */
TEST(registered, TEST_PINNED)
{
    struct scene s;
    uint8_t *at = pages(4);

    scene_open(&s);
    CHECK_RET(unetmm_register(s.ctx, at, 2 * PAGE, UNETMM_REGION_WRITE), 0);
    redirect(&s, 0, at + 100, PAGE);
    CHECK_RET(unetmm_redirect(s.ctx, ID, PAGE, at + PAGE + 100, PAGE, NULL),
              -EEXIST);
    pattern_fill(s.mine, PAGE, 1, 0);
    write_whole(&s, 0, s.mine, PAGE);
    CHECK_PATTERN(at + 100, PAGE, 1);
    CHECK_RET(unetmm_redirect_end(s.ctx, ID, 0), 0);
    CHECK_RET(unetmm_deregister(s.ctx, at, 2 * PAGE), 0);
    /* For reading only is not enough. */
    CHECK_RET(unetmm_register(s.ctx, at, PAGE, 0), 0);
    CHECK_RET(unetmm_redirect(s.ctx, ID, 0, at, PAGE, NULL), -EEXIST);
    scene_close(&s);
}

/* Source utlb: the new place is pinned, under the quota, until the part ends. */
TEST(limited, TEST_UTLB)
{
    const struct unetmm_utlb_config config = {
        .size = sizeof(config), .quota_pages = 2 * LENGTH / PAGE + 20,
    };
    struct unetmm_utlb_stats stats = { .size = sizeof(stats) };
    struct unetmm_ctx *ctx = open_card();
    uint8_t *own = pages(LENGTH / PAGE), *to = pages(LENGTH / PAGE);
    uint64_t before;

    CHECK_RET(unetmm_utlb_configure(ctx, &config), 0);
    CHECK_RET(unetmm_export(ctx, ID, own, LENGTH, ALL, REDIRECT, 0), 0);
    CHECK_RET(unetmm_utlb_stats(ctx, &stats), 0);
    before = stats.pinned_now;
    CHECK_RET(unetmm_redirect(ctx, ID, 0, to, LENGTH, NULL), 0);
    CHECK_RET(unetmm_redirect(ctx, ID, 0, own, PAGE, NULL), -EEXIST);
    CHECK_RET(unetmm_utlb_stats(ctx, &stats), 0);
    CHECK_EQ(stats.pinned_now - before, LENGTH / PAGE);
    /* As much again does not fit before a part has ended. */
    CHECK_RET(unetmm_export(ctx, ID + 1, pages(LENGTH / PAGE), LENGTH, ALL, 0,
                            0), -ENOMEM);
    CHECK_RET(unetmm_redirect_end(ctx, ID, 0), 0);
    CHECK_RET(unetmm_redirect(ctx, ID, PAGE, pages(LENGTH / PAGE),
                              LENGTH - PAGE, NULL), 0);
    /* The export takes its parts' pages along. */
    CHECK_RET(unetmm_unexport(ctx, ID), 0);
    CHECK_RET(unetmm_export(ctx, ID + 1, pages(2 * LENGTH / PAGE), 2 * LENGTH,
                            ALL, 0, 0), 0);
    CHECK_RET(unetmm_close(ctx), 0);
}

/* ---- The end of the process ------------------------------------------------------ */

/* Moves its export to and fro, for as long as it lives. */
static void mover(void *argument)
{
    atomic_uint *moves = argument;
    struct unetmm_ctx *ctx = open_card();
    uint8_t *at = pages(64), *to = pages(64);
    struct station s;

    station_open(&s, ctx, NULL);
    CHECK_RET(unetmm_export(ctx, ID, at, 64 * PAGE, ALL, REDIRECT, 0), 0);
    CHECK_RET(unetmm_listen_ex(s.ep, SERVICE, 4, NULL), 0);
    for (;;) {
        int ret = unetmm_accept(s.ep, &(struct unetmm_peer) { 0 }, 0);

        CHECK(ret >= 0 || ret == -ETIMEDOUT);
        CHECK_RET(unetmm_redirect(ctx, ID, 5, to + 1, 60 * PAGE, NULL), 0);
        CHECK_RET(unetmm_redirect_back(ctx, ID, 5, 0, NULL), 0);
        atomic_fetch_add(moves, 1);
    }
}

/* Killed in any state: no writer hangs. */
TEST(killed, TEST_BOTH | TEST_UTLB, 60)
{
    atomic_uint *moves = shared_memory(sizeof(*moves));
    struct unetmm_ctx *ctx = open_card();
    uint8_t *at = pages(64), mac[6];
    struct chance chance;
    struct station s;
    unsigned i, n;
    pid_t pid;

    CHECK_SYS(madvise(at, 64 * PAGE, MADV_DONTFORK));
    chance_init(&chance, 0);
    card_mac(mac);
    reach(ctx, at, 64 * PAGE, true);
    station_open(&s, ctx, NULL);
    for (i = 0; i < rounds(6); i++) {
        unsigned seen = atomic_load(moves), import;
        struct unetmm_completion c;
        int ret;

        pid = start_process(mover, moves);
        ret = unetmm_connect_ex(s.ep, mac, SERVICE, 20 * NS_PER_S * run.slow,
                                NULL, NULL);
        CHECK(ret >= 0);
        s.channel = (unsigned)ret;
        import = import_of(&s, ID, ALL);
        for (n = 0; n < 20; n++) {
            CHECK_RET(unetmm_write(s.ep, import, 0, at, 64 * PAGE, 0, n, 0),
                      0);
            if (n == 10) {
                EVENTUALLY(atomic_load(moves) > seen + 2);
                idle_ns(chance_below(&chance, 2000) * NS_PER_US);
                CHECK_SYS(kill(pid, SIGKILL));
            }
        }
        for (n = 0; n < 20; n++) {
            take(&s, UNETMM_CQE_SENT, &c);
            CHECK_EQ(c.user_data, n);
        }
        CHECK(WIFSIGNALED(await_process(pid)));
        CHECK_RET(unetmm_unimport(s.ep, import), 0);
        CHECK_RET(unetmm_disconnect(s.ep, s.channel), 0);
    }
    station_close(&s);
    CHECK_RET(unetmm_close(ctx), 0);
}

/* ---- Two guests ------------------------------------------------------------------ */

#define KNOBS 5
static const char *const knobs[KNOBS] = { "x-loss", "x-dup", "x-reorder",
                                          "x-corrupt", "x-delay" };

static void far_write(struct scene *s, struct chance *chance, uint8_t *model,
                      unsigned key)
{
    size_t len = 1 + chance_below(chance, 60000);
    size_t at = chance_below(chance, (uint32_t)(MOVING_BYTES - len));

    /* The source and the model stay as they are until the completion. */
    pattern_fill(model + at, len, key, at);
    write_post(s, at, model + at, len);
    CHECK_EQ(sent_status(s), UNETMM_ST_OK);
}

/* Three writes under way at once, to places of their own. */
static void far_burst(struct scene *s, struct chance *chance, uint8_t *model,
                      unsigned key)
{
    size_t third = MOVING_BYTES / 3;
    unsigned i;

    for (i = 0; i < 3; i++) {
        size_t len = 1 + chance_below(chance, (uint32_t)third);
        size_t at = i * third + chance_below(chance,
                                             (uint32_t)(third - len + 1));

        pattern_fill(model + at, len, key + i, at);
        CHECK_RET(unetmm_write(s->one.ep, s->import, at, model + at, len, 1,
                               i, UNETMM_NOTIFY), 0);
    }
    for (i = 0; i < 3; i++) {
        CHECK_EQ(sent_status(s), UNETMM_ST_OK);
    }
}

/* Read back through whatever has moved: each byte, and how often that was. */
TEST(far, TEST_BOTH | TEST_UTLB | TEST_ONLY_REMOTE, 60)
{
    unsigned i, n = rounds(40);
    struct scene s = { .ctx = open_card() };
    uint64_t moved[2] = { 0 };
    struct chance chance;
    uint8_t *model;
    unsigned mirror;
    int ret;

    chance_init(&chance, 0);
    station_open(&s.one, s.ctx, NULL);
    ret = unetmm_connect_ex(s.one.ep, run.peer, SERVICE_MIRROR,
                            20 * NS_PER_S * run.slow, &usual, NULL);
    CHECK(ret >= 0);
    s.one.channel = (unsigned)ret;
    mirror = import_of(&s.one, MIRROR_EXPORT, ALL);
    s.import = import_of(&s.one, MOVING_EXPORT, ALL);
    model = pages(MOVING_BYTES / PAGE);
    s.mine = pages(MOVING_BYTES / PAGE);
    reach(s.ctx, model, MOVING_BYTES, true);
    reach(s.ctx, s.mine, MOVING_BYTES, true);
    write_whole(&s, 0, model, MOVING_BYTES);
    CHECK_RET(unetmm_write_sync(s.one.ep, mirror, MIRROR_MOVED, moved,
                                sizeof(moved), 0, 0, 10 * NS_PER_S * run.slow),
              0);
    ask_host("set x-seed %llu", (unsigned long long)(run.seed & INT64_MAX));
    for (i = 0; i < KNOBS; i++) {
        ask_host("set %s 20000", knobs[i]);
    }
    for (i = 0; i < n; i++) {
        far_burst(&s, &chance, model, 10 * i);
        far_write(&s, &chance, model, 10 * i + 5);
        read_whole(&s, 0, s.mine, MOVING_BYTES);
        CHECK(!memcmp(s.mine, model, MOVING_BYTES));
    }
    for (i = 0; i < KNOBS; i++) {
        ask_host("set %s 0", knobs[i]);
    }
    s.import = mirror;
    read_whole(&s, MIRROR_MOVED, s.mine, sizeof(moved));
    memcpy(moved, s.mine, sizeof(moved));
    note("%llu times moved, %llu bytes copied for it",
         (unsigned long long)moved[0], (unsigned long long)moved[1]);
    CHECK(moved[0] >= n);
    station_close(&s.one);
    CHECK_RET(unetmm_close(s.ctx), 0);
}
