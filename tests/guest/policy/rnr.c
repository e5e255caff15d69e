/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Policy rnr: a packet for memory that has gone is refused by an RNR NACK with the
 * time to wait; data of a READ that has no place is asked for again.  And how long
 * all that took, by stages.
 */
#include "guard.h"
#include "late.h"
#include "link.h"
#include "pair.h"
#include "swap.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define STAGES_FILE     "/sys/kernel/debug/unetmm/unetmm0/faults"
#define SPAN            16u             /* pages of the export */
#define LENGTH          (SPAN * PAGE)
#define ID              7u
#define FOR             (TEST_TLB | TEST_SHADOW | TEST_ODP | TEST_EVERY)

/* ---- The scene ------------------------------------------------------------------ */

struct scene {
    struct unetmm_ctx *ctx;
    struct station one, two;
    uint8_t *mine;              /* LENGTH, resident: to write from, read into */
    uint8_t *own;               /* the export of `two` */
    unsigned import;
};

static struct unetmm_ep_attr patient(void)
{
    struct unetmm_ep_attr attr = default_attr();

    attr.policy = UNETMM_POLICY_RNR;
    return attr;
}

/* Shared: memory given up leaves the process, and keeps its contents. */
static uint8_t *lasting_pages(unsigned n)
{
    int fd = (int)CHECK_SYS(memfd_create("rnr", 0));
    uint8_t *at;

    CHECK_SYS(ftruncate(fd, (off_t)(n * PAGE)));
    at = mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(at != MAP_FAILED);
    close(fd);
    return at;
}

static void away(uint8_t *at, unsigned n)
{
    CHECK_SYS(madvise(at, n * PAGE, MADV_DONTNEED));
}

static void scene_open(struct scene *s, uint8_t *own,
                       const struct unetmm_channel_attr *how)
{
    struct unetmm_ep_attr attr = patient();

    memset(s, 0, sizeof(*s));
    s->ctx = open_card();
    station_open(&s->one, s->ctx, &attr);
    station_open(&s->two, s->ctx, &attr);
    CHECK_RET(try_join(&s->one, &s->two, how, 10 * NS_PER_S * run.slow), 0);
    s->mine = lasting_pages(SPAN);
    memset(s->mine, 1, LENGTH);
    s->own = own ? own : lasting_pages(SPAN);
    CHECK_RET(unetmm_export(s->ctx, ID, s->own, LENGTH, UNETMM_RIGHT_ALL, 0,
                            0), 0);
    s->import = import_of(&s->one, ID, UNETMM_RIGHT_ALL);
}

static void scene_close(struct scene *s)
{
    CHECK_RET(unetmm_unexport(s->ctx, ID), 0);
    station_close(&s->one);
    station_close(&s->two);
    CHECK_RET(unetmm_close(s->ctx), 0);
    CHECK_SYS(munmap(s->mine, LENGTH));
    CHECK_SYS(munmap(s->own, LENGTH));
}

static unsigned taken_status(struct scene *s, uint64_t cookie)
{
    struct unetmm_completion c;

    take(&s->one, UNETMM_CQE_SENT, &c);
    CHECK_EQ(c.user_data, cookie);
    return c.status;
}

/* How often the far end was told to come again. */
static uint64_t refusals(const struct scene *s)
{
    return ep_counter(&s->two, UNETMM_C_rel_nacks_sent);
}

static const struct unetmm_channel_attr usual = UNETMM_CHANNEL_ATTR_INIT;

/* ---- Packets for memory that has gone ----------------------------------------------- */

/* A part of the export, at random. */
static size_t some_part(struct chance *chance, size_t *len)
{
    size_t at = chance_below(chance, LENGTH - 1);

    *len = 1 + chance_below(chance, (uint32_t)(LENGTH - at));
    return at;
}

static void write_once(struct scene *s, struct chance *chance, uint64_t key,
                       void (*gone)(uint8_t *at, unsigned n))
{
    size_t len, at = some_part(chance, &len);
    uint8_t around = (uint8_t)(0xa0 + key % 16);

    memset(s->own, around, LENGTH);
    pattern_fill(s->mine, len, key, 0);
    gone(s->own, SPAN);
    CHECK_RET(unetmm_write(s->one.ep, s->import, at, s->mine, len, 0, key, 0),
              0);
    CHECK_EQ(taken_status(s, key), UNETMM_ST_OK);
    CHECK_PATTERN(s->own + at, len, key);
    CHECK_BYTES(s->own, at, around);
    CHECK_BYTES(s->own + at + len, LENGTH - at - len, around);
}

static void write_into(uint8_t *own, void (*gone)(uint8_t *at, unsigned n))
{
    unsigned i, n = rounds(30);
    struct chance chance;
    struct scene s;

    chance_init(&chance, 1);
    scene_open(&s, own, &usual);
    for (i = 0; i < n || (!refusals(&s) && i < 40 * n); i++) {
        write_once(&s, &chance, i, gone);
    }
    note("%u writes, %llu times told to come again", i,
         (unsigned long long)refusals(&s));
    CHECK(refusals(&s) > 0);
    CHECK_EQ(ep_counter(&s.two, UNETMM_C_bufs_skipped), 0);
    scene_close(&s);
}

TEST(writes, FOR)
{
    write_into(NULL, away);
}

static void swap_out(uint8_t *at, unsigned n)
{
    page_out(at, n);
}

TEST(writes_swapped, FOR)
{
    swap_on();
    write_into(pages(SPAN), swap_out);
    swap_off();
}

/* A buffer that has gone since it was posted stays, and nothing passes it. */
TEST(sends, FOR)
{
    unsigned i, n = rounds(30);
    struct unetmm_completion c;
    struct chance chance;
    struct scene s;

    chance_init(&chance, 2);
    scene_open(&s, NULL, &usual);
    for (i = 0; i < n || (!refusals(&s) && i < 40 * n); i++) {
        size_t len = UNETMM_CQE_INLINE + 1 +
            chance_below(&chance, LENGTH - UNETMM_CQE_INLINE - 1);
        struct iovec iov = { s.mine, len };

        pattern_fill(s.mine, len, i, 0);
        post(&s.two, s.own, LENGTH, i);
        post(&s.two, s.own, LENGTH, ~0ull);
        away(s.own, SPAN);
        send_pieces(&s.one, &iov, 1, i, 0);
        take(&s.two, UNETMM_CQE_RECEIVED, &c);
        CHECK_EQ(c.user_data, i);
        CHECK_EQ(c.len, len);
        CHECK_PATTERN(s.own, len, i);
        CHECK_EQ(taken_status(&s, i), UNETMM_ST_OK);
        /* The other one is used up. */
        send_pieces(&s.one, &iov, 1, i, 0);
        take(&s.two, UNETMM_CQE_RECEIVED, &c);
        CHECK_EQ(c.user_data, ~0ull);
        CHECK_EQ(taken_status(&s, i), UNETMM_ST_OK);
    }
    note("%u messages, %llu times told to come again", i,
         (unsigned long long)refusals(&s));
    CHECK(refusals(&s) > 0);
    CHECK_EQ(ep_counter(&s.two, UNETMM_C_bufs_skipped), 0);
    scene_close(&s);
}

/* Of memory that has gone, and into memory that has. */
TEST(reads, FOR)
{
    unsigned i, n = rounds(30);
    struct chance chance;
    struct scene s;

    chance_init(&chance, 3);
    scene_open(&s, NULL, &usual);
    for (i = 0; i < n || (!refusals(&s) && i < 40 * n); i++) {
        size_t len, at = some_part(&chance, &len);

        pattern_fill(s.own + at, len, i, 0);
        memset(s.mine, 0x77, LENGTH);
        away(s.own, SPAN);
        if (i % 2) {
            away(s.mine, SPAN);
        }
        CHECK_RET(unetmm_read(s.one.ep, s.import, at, s.mine, len, i, 0), 0);
        CHECK_EQ(taken_status(&s, i), UNETMM_ST_OK);
        CHECK_PATTERN(s.mine, len, i);
        CHECK_BYTES(s.mine + len, LENGTH - len, 0x77);
    }
    note("%u reads, %llu times told to come again", i,
         (unsigned long long)refusals(&s));
    CHECK(refusals(&s) > 0);
    scene_close(&s);
}

/* Each is done once, however often it was sent. */
TEST(atomics, FOR)
{
    unsigned i, n = rounds(60);
    struct unetmm_completion c;
    struct scene s;

    scene_open(&s, NULL, &usual);
    for (i = 0; i < n || (!refusals(&s) && i < 40 * n); i++) {
        away(s.own, SPAN);
        CHECK_RET(unetmm_fetch_add(s.one.ep, s.import, 8, 3, i, 0), 0);
        take(&s.one, UNETMM_CQE_SENT, &c);
        CHECK_EQ(c.status, UNETMM_ST_OK);
        CHECK_EQ(c.user_data, i);
        CHECK_EQ(unetmm_old_value(&c), 3ull * i);
    }
    CHECK_EQ(((uint64_t *)s.own)[1], 3ull * i);
    note("%u atomics, %llu times told to come again", i,
         (unsigned long long)refusals(&s));
    CHECK(refusals(&s) > 0);
    scene_close(&s);
}

/* ---- Memory that goes all the time -------------------------------------------------- */

struct taker {
    uint8_t *at[2];
    atomic_bool stop;
    atomic_ullong times, most;
};

/* For each operation, or none might ever find all of its pages at once. */
#define TAKEN_AWAY      24

static void *take_away(void *argument)
{
    struct taker *taker = argument;

    while (!taker->stop) {
        if (taker->times < taker->most) {
            away(taker->at[taker->times % 2], SPAN);
            taker->times++;
        }
        sched_yield();
    }
    return NULL;
}

TEST(storm, FOR)
{
    unsigned i, n = rounds(15);
    struct chance chance;
    struct taker taker = { 0 };
    pthread_t thread;
    struct scene s;

    chance_init(&chance, 4);
    scene_open(&s, NULL, &usual);
    taker.at[0] = s.own;
    taker.at[1] = s.mine;
    taker.most = 1;
    CHECK_EQ(pthread_create(&thread, NULL, take_away, &taker), 0);
    EVENTUALLY(taker.times > 0);
    for (i = 0; i < n; i++) {
        size_t len, at = some_part(&chance, &len);

        pattern_fill(s.mine, len, i, 0);
        taker.most = taker.times + TAKEN_AWAY;
        CHECK_RET(unetmm_write(s.one.ep, s.import, at, s.mine, len, 0, 1, 0),
                  0);
        CHECK_EQ(taken_status(&s, 1), UNETMM_ST_OK);
        CHECK_PATTERN(s.own + at, len, i);
        memset(s.mine, 0, len);
        taker.most = taker.times + TAKEN_AWAY;
        CHECK_RET(unetmm_read(s.one.ep, s.import, at, s.mine, len, 2, 0), 0);
        CHECK_EQ(taken_status(&s, 2), UNETMM_ST_OK);
        CHECK_PATTERN(s.mine, len, i);
    }
    taker.stop = true;
    pthread_join(thread, NULL);
    note("%u writes and reads; memory taken away %llu times, %llu times told to "
         "come again", i, (unsigned long long)taker.times,
         (unsigned long long)refusals(&s));
    CHECK(taker.times > 0);
    scene_close(&s);
}

/* ---- Limits ------------------------------------------------------------------------- */

/* The page does not come: the channel fails, clearly, and others go on. */
TEST(limit, FOR)
{
    struct unetmm_channel_attr attr = UNETMM_CHANNEL_ATTR_INIT;
    struct unetmm_completion c;
    struct late late;
    struct scene s;

    late_make(&late, SPAN);
    attr.rnr_retries = 2;
    attr.rnr_us = 1000;
    scene_open(&s, late.at, &attr);
    CHECK_RET(unetmm_write(s.one.ep, s.import, 0, s.mine, 100, 0, 1, 0), 0);
    CHECK_RET(unetmm_write(s.one.ep, s.import, PAGE, s.mine, 100, 0, 2, 0), 0);
    take(&s.one, UNETMM_CQE_SENT, &c);
    CHECK_EQ(c.user_data, 1);
    CHECK_EQ(c.status, UNETMM_ST_NOT_READY);
    take(&s.one, UNETMM_CQE_SENT, &c);
    CHECK_EQ(c.user_data, 2);
    CHECK_EQ(c.status, UNETMM_ST_FLUSHED);
    CHECK(refusals(&s) >= 3);
    /* A wait for the page does not delay another channel. */
    CHECK_RET(unetmm_disconnect(s.one.ep, s.one.channel), 0);
    CHECK_RET(unetmm_disconnect(s.two.ep, s.two.channel), 0);
    CHECK_RET(try_join(&s.one, &s.two, &usual, 10 * NS_PER_S * run.slow), 0);
    s.import = import_of(&s.one, ID, UNETMM_RIGHT_ALL);
    late_give(&late, 2, 5);
    pattern_fill(s.mine, 100, 3, 0);
    CHECK_RET(unetmm_write(s.one.ep, s.import, 2 * PAGE, s.mine, 100, 0, 3,
                           0), 0);
    CHECK_EQ(taken_status(&s, 3), UNETMM_ST_OK);
    CHECK_PATTERN(late.at + 2 * PAGE, 100, 3);
    late_give(&late, 0, 5);
    late_give(&late, 1, 5);
    scene_close(&s);
    close(late.fd);
}

/* However long the peer is told to wait, it is told when the page is there. */
TEST(told_early, FOR)
{
    struct unetmm_channel_attr attr = UNETMM_CHANNEL_ATTR_INIT;
    uint64_t given, took;
    unsigned page = 0;
    struct late late;
    struct scene s;

    late_make(&late, SPAN);
    attr.rnr_us = UNETMM_REL_MAX_TIMEOUT_US;
    attr.rnr_retries = 20;
    scene_open(&s, late.at, &attr);
    pattern_fill(s.mine, 100, 4, 0);
    /* A machine that stands still in between shows nothing: then once more. */
    do {
        CHECK(page < SPAN);
        CHECK_RET(unetmm_write(s.one.ep, s.import, page * PAGE, s.mine, 100,
                               0, page, 0), 0);
        CHECK_EQ(late_wanted(&late), page);
        given = now_ns();
        late_give(&late, page, 9);
        CHECK_EQ(taken_status(&s, page), UNETMM_ST_OK);
        took = now_ns() - given;
        CHECK_PATTERN(late.at + page * PAGE, 100, 4);
        page++;
    } while (took >= NS_PER_S / 2);
    CHECK_EQ(ep_counter(&s.one, UNETMM_C_rel_timeouts), 0);
    scene_close(&s);
    close(late.fd);
}

/* ---- Data of a READ that has no place --------------------------------------------------- */

struct way {
    uint64_t resent, unplaced, behind, rewinds;
};

/* READs into memory that has gone, of which each has many packets. */
static struct way read_by(bool rewind)
{
    struct unetmm_channel_attr attr = UNETMM_CHANNEL_ATTR_INIT;
    unsigned i, n = rounds(20);
    struct scene s;
    struct way way;

    attr.flags |= rewind ? UNETMM_GO_BACK_N : 0;
    scene_open(&s, NULL, &attr);
    for (i = 0; i < n; i++) {
        pattern_fill(s.own, LENGTH, i, 0);
        away(s.mine, SPAN);
        CHECK_RET(unetmm_read(s.one.ep, s.import, 0, s.mine, LENGTH, i, 0), 0);
        CHECK_EQ(taken_status(&s, i), UNETMM_ST_OK);
        CHECK_PATTERN(s.mine, LENGTH, i);
    }
    way = (struct way) {
        .resent = ep_counter(&s.one, UNETMM_C_rel_resent),
        .unplaced = ep_counter(&s.one, UNETMM_C_drop_rel_unplaced),
        .behind = ep_counter(&s.one, UNETMM_C_drop_rel_rewind),
        .rewinds = ep_counter(&s.one, UNETMM_C_rel_rewinds),
    };
    note("%s: %u reads, requests sent again %llu; answers without a place %llu, "
         "behind one %llu, %llu rewinds", rewind ? "rewind" : "again", n,
         (unsigned long long)way.resent, (unsigned long long)way.unplaced,
         (unsigned long long)way.behind, (unsigned long long)way.rewinds);
    scene_close(&s);
    return way;
}

TEST(two_ways, FOR)
{
    struct way again = read_by(false), rewind = read_by(true);

    CHECK(again.unplaced > 0 && rewind.unplaced > 0);
    CHECK(again.resent > 0 && rewind.resent > 0);
    CHECK_EQ(again.rewinds, 0);
    CHECK_EQ(again.behind, 0);
    CHECK(rewind.rewinds > 0);
    CHECK(rewind.behind > 0);
}

/* ---- Stages ------------------------------------------------------------------------------- */

#define STAGES  7u

static const char *const stages[STAGES] = {
    "card", "interrupt", "wait", "page", "find", "table", "resume"
};

/* How many misses have been through each stage, and how long that took in all. */
static void look_at_stages(unsigned long long count[STAGES],
                           unsigned long long ns[STAGES])
{
    FILE *file = fopen(STAGES_FILE, "r");
    unsigned long long n, t;
    unsigned i, found = 0;
    char line[200], word[20];

    CHECK(file);
    while (fgets(line, sizeof(line), file)) {
        if (sscanf(line, "%19s count %llu ns %llu", word, &n, &t) != 3) {
            continue;
        }
        for (i = 0; i < STAGES; i++) {
            if (!strcmp(word, stages[i])) {
                count[i] = n;
                ns[i] = t;
                found++;
            }
        }
    }
    fclose(file);
    CHECK_EQ(found, STAGES);
}

TEST_NAMED("stages", by_stages, FOR)
{
    unsigned long long before[STAGES], ns_before[STAGES], n[STAGES], ns[STAGES];
    uint64_t faults, start, took;
    struct chance chance;
    struct scene s;
    unsigned i;

    chance_init(&chance, 5);
    set_parameter("stages", 0);
    scene_open(&s, NULL, &usual);
    look_at_stages(before, ns_before);
    for (i = 0; i < rounds(5); i++) {
        write_once(&s, &chance, i, away);
    }
    look_at_stages(n, ns);
    /* Nobody has asked for it. */
    CHECK(!memcmp(n, before, sizeof(n)) && !memcmp(ns, ns_before, sizeof(ns)));
    set_parameter("stages", 1);
    faults = driver_counter(s.ctx, UNETMM_D_faults);
    look_at_stages(before, ns_before);
    start = now_ns();
    for (i = 0; i < rounds(20); i++) {
        write_once(&s, &chance, i, away);
    }
    scene_close(&s);
    took = now_ns() - start;
    look_at_stages(n, ns);
    set_parameter("stages", 0);
    s.ctx = open_card();
    faults = driver_counter(s.ctx, UNETMM_D_faults) - faults;
    CHECK_RET(unetmm_close(s.ctx), 0);
    for (i = 0; i < STAGES; i++) {
        n[i] -= before[i];
        ns[i] -= ns_before[i];
        note("%s: %llu misses, %llu ns each", stages[i], n[i],
             n[i] ? ns[i] / n[i] : 0);
        CHECK(n[i] <= faults);
        /* A clock that was taken for the other one is seconds off. */
        CHECK(ns[i] <= took * faults);
    }
    /* All that the driver has taken up have a beginning. */
    CHECK(n[0] > 0 && n[0] == n[1] && n[1] == n[2]);
    CHECK(n[6] > 0 && n[4] == n[6] && n[5] == n[6]);
    CHECK(ns[1] > 0 && ns[2] > 0 && ns[4] > 0 && ns[6] > 0);
    /*
     * tlb has no table.  With shadow a page that is faulted in is entered by its push,
     * too, and if that came first the miss finds it there.
     */
    CHECK(run.source != UNETMM_SOURCE_ODP || ns[5] > 0);
}

/* ---- Refused -------------------------------------------------------------------------------- */

TEST(wrong, FOR)
{
    struct unetmm_channel_attr attr = UNETMM_CHANNEL_ATTR_INIT;
    struct unetmm_ep_attr how = patient();
    struct station one, two;
    struct unetmm_ctx *ctx = open_card();

    station_open(&one, ctx, &how);
    station_open(&two, ctx, NULL);
    attr.flags = UNETMM_DATAGRAM;
    CHECK_RET(unetmm_listen_ex(one.ep, SERVICE_FIRST, 1, &attr), -EPROTOTYPE);
    attr.flags = UNETMM_DATAGRAM | UNETMM_GO_BACK_N;
    CHECK_RET(unetmm_listen_ex(two.ep, SERVICE_FIRST, 1, &attr), -EINVAL);
    attr.flags = UNETMM_DATAGRAM;
    attr.rnr_us = 1;
    CHECK_RET(unetmm_listen_ex(two.ep, SERVICE_FIRST, 1, &attr), -EINVAL);
    attr.flags = UNETMM_RELIABLE;
    attr.rnr_us = 1000001;
    CHECK_RET(unetmm_listen_ex(two.ep, SERVICE_FIRST, 1, &attr), -EINVAL);
    attr.rnr_us = 1000000;
    CHECK_RET(unetmm_listen_ex(two.ep, SERVICE_FIRST, 1, &attr), 0);
    station_close(&one);
    station_close(&two);
    CHECK_RET(unetmm_close(ctx), 0);
}
