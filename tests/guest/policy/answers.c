/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The driver's answers to misses come late, fail, or are taken in part only, and
 * frames are late: whatever the card makes of it, messages are right to the
 * byte, errors are told by the ordinary means, and no page stays pinned.
 */
#include "ask.h"
#include "guard.h"
#include "link.h"
#include "pattern.h"

#include <sched.h>
#include <sys/mman.h>

#define AREA 8                  /* pages to send from, and to receive in */

struct wish {
    const char *knob;
    unsigned value;
    enum unetmm_counter counter;        /* must have moved; 0: has none */
    unsigned off;                       /* the knob's value afterwards */
};

#define DELAY_NS 1000000        /* the default of both */

/* Statuses of buffers and sends that are no error of the test. */
static unsigned failed_sends, failed_buffers;

/* False: the buffer is still posted. */
static bool came_back(struct link *link)
{
    struct unetmm_completion c;

    if (!take_now(link->rx, UNETMM_CQE_BUFFER, &c)) {
        return false;
    }
    if (c.status == UNETMM_ST_LIMIT) {
        failed_buffers++;
    } else {
        CHECK_EQ(c.status, UNETMM_ST_SKIPPED);
    }
    return true;
}

/* Sends once; true: it was received. */
static bool offer(struct link *link, const uint8_t *from, size_t len,
                  struct unetmm_completion *c)
{
    uint64_t handled = ep_handled(link->rx), end = deadline_in(10);
    unsigned status = send_status(link->tx, from, len);

    if (status == UNETMM_ST_LIMIT) {
        failed_sends++;
        return false;
    }
    CHECK_EQ(status, UNETMM_ST_OK);
    while (!take_now(link->rx, UNETMM_CQE_RECEIVED, c)) {
        if (ep_handled(link->rx) > handled) {
            /* Counted after it was written: it is there now, or was not. */
            return take_now(link->rx, UNETMM_CQE_RECEIVED, c);
        }
        CHECK(now_ns() < end);
        sched_yield();
    }
    return true;
}

/* A message into a buffer whose pages are taken away after it was posted. */
static void through(struct link *link, uint8_t *from, uint8_t *to, size_t len,
                    uint64_t key)
{
    uint64_t end = deadline_in(15);
    struct unetmm_completion c;
    bool posted = false;

    pattern_fill(from, len, key, 0);
    do {
        CHECK(now_ns() < end);
        if (!posted) {
            post(link->rx, to, len, key);
            CHECK_SYS(madvise(to, AREA * PAGE, MADV_DONTNEED));
        }
        posted = true;
        if (offer(link, from, len, &c)) {
            CHECK_EQ(c.user_data, key);
            CHECK_EQ(c.len, len);
            CHECK_PATTERN(to, len, key);
            return;
        }
        posted = !came_back(link);
    } while (true);
}

static void read_counters(struct link *link,
                          uint64_t values[UNETMM_NUM_COUNTERS])
{
    CHECK(unetmm_stats_read(link->ctx, UNETMM_SCOPE_CARD, 0, values,
                            UNETMM_NUM_COUNTERS) > 0);
}

static bool all_seen(struct link *link, const struct wish *wishes, unsigned n,
                     const uint64_t *before)
{
    uint64_t now[UNETMM_NUM_COUNTERS];
    unsigned i;

    read_counters(link, now);
    for (i = 0; i < n; i++) {
        enum unetmm_counter k = wishes[i].counter;

        if (k && now[k] == before[k]) {
            return false;
        }
    }
    return true;
}

/*
 * Messages until all that is wished for has happened.  Each message has a miss,
 * of its buffer, and a frame; the rarest wish is for a tenth of them.  That
 * MOST_MORE messages do not meet it has a chance below 1e-45.
 */
#define MOST_MORE 1000

static void with(const struct wish *wishes, unsigned n, unsigned messages)
{
    uint64_t before[UNETMM_NUM_COUNTERS], after[UNETMM_NUM_COUNTERS];
    unsigned i, least = rounds(messages), most = least + MOST_MORE;
    struct chance chance;
    uint8_t *from, *to;
    struct link link;

    chance_init(&chance, 0);
    link_open(&link, NULL, NULL);
    from = pages(AREA);
    to = pages(AREA);
    read_counters(&link, before);
    ask_host("set x-seed %llu", (unsigned long long)(run.seed & INT64_MAX));
    for (i = 0; i < n; i++) {
        ask_host("set %s %u", wishes[i].knob, wishes[i].value);
    }
    for (i = 0; i < least ||
         (i < most && !all_seen(&link, wishes, n, before)); i++) {
        size_t len = 1000 + chance_below(&chance, link.tx->mtu - 1000);

        through(&link, from + chance_below(&chance, PAGE), to, len, i);
    }
    for (i = 0; i < n; i++) {
        ask_host("set %s %u", wishes[i].knob, wishes[i].off);
    }
    read_counters(&link, after);
    for (i = 0; i < n; i++) {
        enum unetmm_counter k = wishes[i].counter;

        if (k) {
            note("%s: %llu times", wishes[i].knob,
                 (unsigned long long)(after[k] - before[k]));
            CHECK(after[k] > before[k]);
        }
    }
    link_close(&link);
}

static const struct wish missing = { "x-force-miss", 100000, 0 };

TEST(late, TEST_MISS | TEST_POLICIES, 60)
{
    const struct wish wishes[] = {
        missing, { "x-fault-delay-ns", 2000000, 0, DELAY_NS },
        { "x-fault-delay", 500000, UNETMM_C_inj_fault_late },
    };

    with(wishes, 3, 60);
}

TEST(failed, TEST_MISS | TEST_POLICIES, 60)
{
    const struct wish wishes[] = {
        missing, { "x-fault-fail", 300000, UNETMM_C_inj_fault_fail },
    };

    with(wishes, 2, 60);
    note("%u sends and %u buffers came back", failed_sends, failed_buffers);
    CHECK(failed_sends + failed_buffers > 0);
}

TEST(refused, TEST_MISS | TEST_POLICIES, 60)
{
    const struct wish wishes[] = {
        missing, { "x-fault-refuse", 500000, UNETMM_C_inj_fault_refuse },
    };

    with(wishes, 2, 60);
    CHECK_EQ(failed_sends + failed_buffers, 0);
}

TEST(delayed, TEST_MISS, 60)
{
    const struct wish wishes[] = {
        { "x-delay-ns", 2000000, 0, DELAY_NS },
        { "x-delay", 500000, UNETMM_C_inj_delay },
    };

    with(wishes, 2, 60);
    CHECK_EQ(failed_sends + failed_buffers, 0);
}

TEST(everything, TEST_MISS, 60)
{
    const struct wish wishes[] = {
        missing, { "x-fault-delay-ns", 1000000, 0, DELAY_NS },
        { "x-delay-ns", 1000000, 0, DELAY_NS },
        { "x-fault-delay", 200000, UNETMM_C_inj_fault_late },
        { "x-fault-fail", 100000, UNETMM_C_inj_fault_fail },
        { "x-fault-refuse", 200000, UNETMM_C_inj_fault_refuse },
        { "x-delay", 200000, UNETMM_C_inj_delay },
    };

    with(wishes, 7, 100);
}
