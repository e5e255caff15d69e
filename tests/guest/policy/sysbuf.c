/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Policy redirect: a packet for memory that is not there goes to the system
 * buffer, is copied when the memory is there, once and in order, and has arrived
 * only then.
 *
 * `one` sends to `two`, whose policy it is.  With a userfaultfd the test says when
 * a page comes; other pages come without the test.  Remote: the other guest's echo has
 * the policy, and a wire between that may misbehave.
 */
#include "ask.h"
#include "card.h"
#include "fuse.h"
#include "guard.h"
#include "late.h"
#include "link.h"
#include "process.h"
#include "swap.h"
#include "traffic.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ID              81
#define SERVICE         (SERVICE_FIRST - 12)
#define SERVICE_TOO     (SERVICE_FIRST - 13)
#define PATIENCE_NS     ((int64_t)(20 * NS_PER_S * run.slow))
#define TEST_ASKS       (TEST_TLB | TEST_SHADOW | TEST_ODP | TEST_EVERY)
#define PARAMETERS      "/sys/module/unetmm/parameters/"
#define SLOTS_FILE      "/sys/kernel/debug/unetmm/unetmm0/sysbuf"
#define SPAN            8               /* pages that are exported */
#define LENGTH          (SPAN * PAGE)
#define BLOCK           (UNETMM_EVENT_SPIN | UNETMM_EVENT_BLOCK)

static const struct unetmm_channel_attr usual = UNETMM_CHANNEL_ATTR_INIT;

static struct unetmm_ep_attr redirecting(void)
{
    struct unetmm_ep_attr attr = UNETMM_EP_ATTR_INIT;

    attr.policy = UNETMM_POLICY_REDIRECT;
    return attr;
}

/* ---- The administrator's counters and limits --------------------------------- */

/* A counter of the driver about the system buffer. */
#define buffer_has(what) card_value(SLOTS_FILE, what)

/* How many packets have been through a stage, and how long it took in all. */
static unsigned long long stage(const char *name, unsigned long long *ns)
{
    FILE *file = fopen(SLOTS_FILE, "r");
    unsigned long long count = 0;
    char line[200], word[20];
    bool found = false;

    CHECK(file);
    while (!found && fgets(line, sizeof(line), file)) {
        found = sscanf(line, "%19s count %llu ns %llu", word, &count, ns) == 3 &&
            !strcmp(word, name);
    }
    fclose(file);
    CHECK(found);
    return count;
}

/* Sets a parameter of the module for this test; the next one finds the usual. */
static void parameter(const char *name, unsigned value)
{
    char path[200], text[20];

    snprintf(path, sizeof(path), PARAMETERS "%s", name);
    snprintf(text, sizeof(text), "%u", value);
    CHECK_RET(write_file(path, text), 0);
}

static void usual_parameters(void)
{
    parameter("redirect_slots", 256);
    parameter("redirect_credits", 32);
}

/* ---- The scene ------------------------------------------------------------------ */

struct scene {
    struct unetmm_ctx *ctx;
    struct station one, two;
    uint8_t *mine;              /* to write from, LENGTH, resident */
    uint8_t *own;               /* exported */
    struct unetmm_event_counter *counter;
    unsigned import;
};

/* `own` NULL: anonymous memory. */
static void scene_open_with(struct scene *s, uint8_t *own, unsigned credits)
{
    struct unetmm_ep_attr attr = redirecting();

    memset(s, 0, sizeof(*s));
    usual_parameters();
    parameter("redirect_credits", credits);
    s->ctx = open_card();
    station_open(&s->one, s->ctx, NULL);
    station_open(&s->two, s->ctx, &attr);
    CHECK_RET(try_join(&s->one, &s->two, &usual, PATIENCE_NS), 0);
    s->mine = pages(SPAN);
    memset(s->mine, 1, LENGTH);
    s->own = own ? own : pages(SPAN);
    CHECK_RET(unetmm_event_create(s->ctx, 1, &s->counter), 0);
    CHECK_RET(unetmm_export_events(s->ctx, ID, s->own, LENGTH,
                                   UNETMM_RIGHT_ALL, 0, 0, s->counter, 1),
              0);
    s->import = import_of(&s->one, ID, UNETMM_RIGHT_ALL);
    parameter("redirect_credits", 32);
}

static void scene_open(struct scene *s, uint8_t *own)
{
    scene_open_with(s, own, 32);
}

/* Closes the endpoints; the exports may have ended. */
static void scene_end(struct scene *s)
{
    int ret = unetmm_unexport(s->ctx, ID);

    CHECK(ret == 0 || ret == -ENOENT);
    CHECK_RET(unetmm_event_destroy(s->counter), 0);
    CHECK_RET(unetmm_close(s->ctx), 0);
}

static void scene_shut(struct scene *s)
{
    station_close(&s->one);
    station_close(&s->two);
    scene_end(s);
}

/* Whatever has been redirected, the slots are all there again. */
static void scene_close(struct scene *s)
{
    scene_shut(s);
    EVENTUALLY(buffer_has("slots") == 0);
    CHECK_EQ(buffer_has("reserved"), 0);
    CHECK_EQ(buffer_has("pending"), 0);
}

static uint64_t redirected(const struct scene *s)
{
    return ep_counter(&s->two, UNETMM_C_sysbuf_packets);
}

/* A counted write. */
static void write_to(struct scene *s, size_t offset, const void *from,
                     size_t len, uint64_t cookie)
{
    CHECK_RET(unetmm_write(s->one.ep, s->import, offset, from, len, 0, cookie,
                           UNETMM_COUNT), 0);
}

static unsigned taken_status(struct scene *s, uint64_t cookie)
{
    struct unetmm_completion c;

    take(&s->one, UNETMM_CQE_SENT, &c);
    CHECK_EQ(c.user_data, cookie);
    return c.status;
}

static void count_reaches(struct scene *s, uint64_t value)
{
    CHECK_RET(unetmm_event_wait(s->counter, value, BLOCK, PATIENCE_NS), 1);
}

/* ---- Each kind of absence -------------------------------------------------------- */

static bool out_by_swap(uint8_t *at)
{
    return page_out(at, SPAN);
}

static bool out_at_once(uint8_t *at)
{
    CHECK_SYS(madvise(at, LENGTH, MADV_DONTNEED));
    return true;
}

/* Writes until enough of them had to be redirected, all checked. */
static void writes_into(uint8_t *own, bool (*away)(uint8_t *at), bool keeps)
{
    unsigned i, n = rounds(20), away_times = 0;
    struct chance chance;
    struct scene s;

    chance_init(&chance, 1);
    scene_open(&s, own);
    for (i = 0; i < n || (!redirected(&s) && i < 40 * n); i++) {
        size_t at = chance_below(&chance, LENGTH - 1);
        size_t len = 1 + chance_below(&chance, (uint32_t)(LENGTH - at));
        uint8_t around = keeps ? (uint8_t)(0xa0 + i % 16) : 0;

        memset(s.own, around, LENGTH);
        away_times += away(s.own);
        pattern_fill(s.mine, len, i, 0);
        write_to(&s, at, s.mine, len, i);
        count_reaches(&s, i + 1);
        CHECK_PATTERN(s.own + at, len, i);
        CHECK_BYTES(s.own, at, around);
        CHECK_BYTES(s.own + at + len, LENGTH - at - len, around);
        CHECK_EQ(taken_status(&s, i), UNETMM_ST_OK);
    }
    note("%u of %u times away; %llu packets redirected, %llu of these behind "
         "another; %llu landed", away_times, i,
         (unsigned long long)redirected(&s),
         (unsigned long long)ep_counter(&s.two, UNETMM_C_sysbuf_follow),
         (unsigned long long)ep_counter(&s.two, UNETMM_C_sysbuf_landed));
    CHECK(redirected(&s) > 0);
    CHECK_EQ(ep_counter(&s.two, UNETMM_C_sysbuf_landed), redirected(&s));
    CHECK_EQ(ep_counter(&s.two, UNETMM_C_drop_rel_credit), 0);
    scene_close(&s);
}

/*
 * The stages of each are counted, and none of them takes no time.  All pages may
 * have been brought in for the card's misses before the copies came to them.
 */
TEST(dropped, TEST_ASKS)
{
    static const char *const names[] = { "wait", "page", "copy", "tell" };
    unsigned long long before[4], ns_before[4], ns, n;
    unsigned i;

    parameter("stages", 1);
    for (i = 0; i < 4; i++) {
        before[i] = stage(names[i], &ns_before[i]);
    }
    writes_into(NULL, out_at_once, false);
    parameter("stages", 0);
    for (i = 0; i < 4; i++) {
        n = stage(names[i], &ns) - before[i];
        ns -= ns_before[i];
        CHECK((n > 0) == (ns > 0));
        CHECK(n > 0 || !strcmp(names[i], "page"));
        note("%s: %llu packets, %llu ns in all", names[i], n, ns);
    }
}

TEST(swapped_out, TEST_ASKS)
{
    swap_on();
    writes_into(NULL, out_by_swap, true);
    swap_off();
}

static uint8_t *map_shared(int fd)
{
    uint8_t *at;

    CHECK_SYS(ftruncate(fd, LENGTH));
    at = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(at != MAP_FAILED);
    close(fd);
    return at;
}

TEST(shmem, TEST_ASKS)
{
    writes_into(map_shared((int)CHECK_SYS(memfd_create("sysbuf", 0))),
                out_at_once, true);
}

TEST(of_a_file, TEST_ASKS)
{
    int fd = (int)CHECK_SYS(open("/tests/sysbuf-file",
                                 O_RDWR | O_CREAT | O_TRUNC, 0600));

    unlink("/tests/sysbuf-file");
    writes_into(map_shared(fd), out_at_once, true);
}

/*
 * Memory that Linux does not lend to a device can be copied into, as by a system call: it
 * is the process's memory.
 */
TEST(not_lent, TEST_ASKS)
{
    int fd = (int)syscall(447 /* memfd_secret */, 0);
    unsigned i, n = rounds(40);
    struct scene s;

    if (fd < 0) {
        test_skip("this kernel has no memfd_secret()");
    }
    scene_open(&s, map_shared(fd));
    for (i = 0; i < n; i++) {
        pattern_fill(s.mine, LENGTH, i, 0);
        write_to(&s, 0, s.mine, LENGTH, i);
        CHECK_EQ(taken_status(&s, i), UNETMM_ST_OK);
        CHECK_PATTERN(s.own, LENGTH, i);
    }
    CHECK_EQ(unetmm_event_read(s.counter), n);
    CHECK(redirected(&s) >= n);
    scene_close(&s);
}

/* ---- Arrival counts after landing -------------------------------------------- */

/* The page is held back, and with it all that was sent behind. */
TEST(held_back, TEST_ASKS)
{
    struct unetmm_ep_attr attr = redirecting();
    uint8_t *from = pages(2), *to = pages(2);
    struct station one, two;
    struct unetmm_completion c;
    struct traffic traffic;
    struct late late;
    struct scene s;
    unsigned i;

    late_make(&late, SPAN);
    scene_open(&s, late.at);
    /* Others of the same space, and with the same policy. */
    station_open(&one, s.ctx, NULL);
    station_open(&two, s.ctx, &attr);
    CHECK_RET(try_join(&one, &two, &usual, PATIENCE_NS), 0);
    late_give(&late, 1, 7);
    pattern_fill(s.mine, PAGE, 8, 0);
    pattern_fill(s.mine + PAGE, PAGE, 9, 0);
    write_to(&s, 0, s.mine, PAGE, 1);
    CHECK_EQ(late_wanted(&late), 0);
    /* Its page is there, and its turn is not. */
    write_to(&s, PAGE, s.mine + PAGE, PAGE, 2);
    EVENTUALLY(redirected(&s) >= 1);
    traffic_start(&traffic, 4);
    for (i = 0; i < 20; i++) {
        struct iovec iov = { from, 2 * PAGE };

        CHECK_SYS(madvise(to, 2 * PAGE, MADV_DONTNEED));
        pattern_fill(from, 2 * PAGE, i, 0);
        post(&two, to, 2 * PAGE, i);
        send_pieces(&one, &iov, 1, i, 0);
        take(&two, UNETMM_CQE_RECEIVED, &c);
        CHECK_EQ(c.user_data, i);
        CHECK_PATTERN(to, 2 * PAGE, i);
        take(&one, UNETMM_CQE_SENT, &c);
        CHECK_EQ(c.status, UNETMM_ST_OK);
    }
    traffic_stop(&traffic);
    CHECK(!take_now(&s.one, UNETMM_CQE_SENT, &c));
    CHECK_EQ(unetmm_event_read(s.counter), 0);
    CHECK_EQ(ep_counter(&s.two, UNETMM_C_sysbuf_landed), 0);
    CHECK(buffer_has("pending") >= 1);
    late_give(&late, 0, 6);
    count_reaches(&s, 2);
    CHECK_PATTERN(late.at, PAGE, 8);
    CHECK_PATTERN(late.at + PAGE, PAGE, 9);
    CHECK_EQ(taken_status(&s, 1), UNETMM_ST_OK);
    CHECK_EQ(taken_status(&s, 2), UNETMM_ST_OK);
    station_close(&one);
    station_close(&two);
    scene_close(&s);
    close(late.fd);
}

/* A counted write is behind waiting ones, though its own memory is there. */
TEST(counts_wait, TEST_ASKS)
{
    struct unetmm_completion c;
    struct late late;
    struct scene s;

    late_make(&late, SPAN);
    scene_open(&s, late.at);
    late_give(&late, 3, 1);
    CHECK_RET(unetmm_write(s.one.ep, s.import, 0, s.mine, 100, 0, 1, 0), 0);
    CHECK_EQ(late_wanted(&late), 0);
    write_to(&s, 3 * PAGE, s.mine, 8, 2);
    CHECK_RET(unetmm_fetch_add(s.one.ep, s.import, 3 * PAGE + 8, 5, 3, 0), 0);
    EVENTUALLY(redirected(&s) >= 1);
    CHECK(!take_now(&s.one, UNETMM_CQE_SENT, &c));
    CHECK_EQ(unetmm_event_read(s.counter), 0);
    late_give(&late, 0, 2);
    count_reaches(&s, 1);
    CHECK_BYTES(late.at, 100, 1);
    CHECK_EQ(pattern_check(late.at + 100, PAGE - 100, 2, 100), PAGE - 100);
    CHECK_EQ(taken_status(&s, 1), UNETMM_ST_OK);
    CHECK_EQ(taken_status(&s, 2), UNETMM_ST_OK);
    CHECK_EQ(taken_status(&s, 3), UNETMM_ST_OK);
    scene_close(&s);
    close(late.fd);
}

/*
 * Several writes of the same bytes, while their pages go and come: the
 * last write's bytes are there in the end.
 */
TEST(in_order, TEST_ASKS)
{
    unsigned i, k, n = rounds(60), most = 6;
    struct chance chance;
    struct scene s;

    chance_init(&chance, 2);
    scene_open(&s, NULL);
    for (i = 0; i < n; i++) {
        size_t at = chance_below(&chance, LENGTH / 2);
        size_t len = 1 + chance_below(&chance, LENGTH / 2 / most);

        CHECK_SYS(madvise(s.own, LENGTH, MADV_DONTNEED));
        for (k = 0; k < most; k++) {
            pattern_fill(s.mine + k * len, len, most * i + k, 0);
            /* Every other time all are there before the first one is copied. */
            CHECK_RET(unetmm_write(s.one.ep, s.import, at, s.mine + k * len,
                                   len, 0, k, UNETMM_COUNT |
                                   (i % 2 && k < most - 1 ? UNETMM_MORE : 0)),
                      0);
        }
        count_reaches(&s, (uint64_t)(i + 1) * most);
        CHECK_PATTERN(s.own + at, len, most * i + most - 1);
        for (k = 0; k < most; k++) {
            CHECK_EQ(taken_status(&s, k), UNETMM_ST_OK);
        }
    }
    note("%llu packets redirected, %llu behind another",
         (unsigned long long)redirected(&s),
         (unsigned long long)ep_counter(&s.two, UNETMM_C_sysbuf_follow));
    CHECK(ep_counter(&s.two, UNETMM_C_sysbuf_follow) > 0);
    scene_close(&s);
}

/* ---- Messages ------------------------------------------------------------------------- */

TEST(messages, TEST_ASKS)
{
    unsigned i, n = rounds(40);
    struct unetmm_completion c;
    struct chance chance;
    struct scene s;

    chance_init(&chance, 3);
    scene_open(&s, NULL);
    for (i = 0; i < n || (!redirected(&s) && i < 40 * n); i++) {
        size_t at = chance_below(&chance, PAGE);
        size_t len = 1 + chance_below(&chance, (uint32_t)(LENGTH - at));
        struct iovec iov = { s.mine, len };

        pattern_fill(s.mine, len, i, 0);
        post(&s.two, s.own + at, LENGTH - at, i);
        /* The card has asked for it ahead: it was there, and has gone. */
        CHECK_SYS(madvise(s.own, LENGTH, MADV_DONTNEED));
        send_pieces(&s.one, &iov, 1, i, 0);
        take(&s.two, UNETMM_CQE_RECEIVED, &c);
        CHECK_EQ(c.len, len);
        if (c.is_inline) {
            CHECK_PATTERN(c.data, len, i);
            /* It has used no buffer: a longer one does. */
            iov = (struct iovec) { s.mine, LENGTH - at };
            send_pieces(&s.one, &iov, 1, i, 0);
            take(&s.two, UNETMM_CQE_RECEIVED, &c);
            CHECK_EQ(c.len, LENGTH - at);
            CHECK_EQ(taken_status(&s, i), UNETMM_ST_OK);
        } else {
            CHECK_PATTERN(s.own + at, len, i);
            CHECK_BYTES(s.own, at, 0);
            CHECK_BYTES(s.own + at + len, LENGTH - at - len, 0);
        }
        CHECK_EQ(c.user_data, i);
        CHECK_EQ(taken_status(&s, i), UNETMM_ST_OK);
    }
    note("%u messages, %llu packets redirected", i,
         (unsigned long long)redirected(&s));
    CHECK(redirected(&s) > 0);
    scene_close(&s);
}

/* A message waits for its buffer, and others do not for it. */
TEST(message_waits, TEST_ASKS)
{
    struct iovec iov;
    struct unetmm_completion c;
    struct late late;
    struct scene s;

    late_make(&late, 2);
    scene_open(&s, NULL);
    iov = (struct iovec) { s.mine, 2 * PAGE };
    pattern_fill(s.mine, 2 * PAGE, 5, 0);
    post(&s.two, late.at, 2 * PAGE, 1);
    send_pieces(&s.one, &iov, 1, 2, 0);
    EVENTUALLY(redirected(&s) == 1);
    late_wanted(&late);
    CHECK(!take_now(&s.two, UNETMM_CQE_RECEIVED, &c));
    CHECK(!take_now(&s.one, UNETMM_CQE_SENT, &c));
    late_give(&late, 0, 1);
    CHECK(!take_now(&s.two, UNETMM_CQE_RECEIVED, &c));
    late_give(&late, 1, 1);
    take(&s.two, UNETMM_CQE_RECEIVED, &c);
    CHECK_EQ(c.user_data, 1);
    CHECK_PATTERN(late.at, 2 * PAGE, 5);
    CHECK_EQ(taken_status(&s, 2), UNETMM_ST_OK);
    scene_close(&s);
    close(late.fd);
}

/* ---- Many senders ------------------------------------------------------------------------ */

#define SENDERS         4       /* processes ... */
#define ENDS            2       /* ... each with as many channels */
#define PIECE           (16 * PAGE)

struct rush {
    atomic_uint done[SENDERS];
    atomic_bool stop;
    unsigned number;
};

/* One channel's part of the export: written, and read back. */
static void rush_once(struct station *st, unsigned import, unsigned part,
                      uint8_t *from, uint8_t *back, uint64_t key)
{
    struct unetmm_completion c;
    uint64_t at = (uint64_t)part * PIECE;

    pattern_fill(from, PIECE, key, 0);
    memset(back, 0, PIECE);
    CHECK_RET(unetmm_write(st->ep, import, at, from, PIECE, 0, 1, 0), 0);
    CHECK_RET(unetmm_read(st->ep, import, at, back, PIECE, 2, 0), 0);
    take(st, UNETMM_CQE_SENT, &c);
    CHECK_EQ(c.status, UNETMM_ST_OK);
    take(st, UNETMM_CQE_SENT, &c);
    CHECK_EQ(c.status, UNETMM_ST_OK);
    CHECK_PATTERN(back, PIECE, key);
}

static struct rush *rush;

static void sender_main(void *argument)
{
    unsigned number = *(unsigned *)argument, i, e;
    uint8_t *from = pages(PIECE / PAGE), *back = pages(PIECE / PAGE);
    struct unetmm_ctx *ctx = open_card();
    struct station st[ENDS];
    unsigned import[ENDS];
    uint8_t mac[6];

    card_mac(mac);
    for (e = 0; e < ENDS; e++) {
        int ret;

        station_open(&st[e], ctx, NULL);
        ret = unetmm_connect_ex(st[e].ep, mac, SERVICE, PATIENCE_NS, &usual,
                                NULL);
        CHECK_RET(ret < 0 ? ret : 0, 0);
        st[e].channel = (unsigned)ret;
        import[e] = import_of(&st[e], ID, UNETMM_RIGHT_ALL);
    }
    for (i = 0; !atomic_load(&rush->stop); i++) {
        for (e = 0; e < ENDS; e++) {
            rush_once(&st[e], import[e], number * ENDS + e, from, back,
                      (uint64_t)number << 32 | i * ENDS | e);
        }
        atomic_fetch_add(&rush->done[number], 1);
    }
    for (e = 0; e < ENDS; e++) {
        CHECK_RET(unetmm_ep_destroy(st[e].ep), 0);
    }
    CHECK_RET(unetmm_close(ctx), 0);
}

static bool all_have(unsigned n)
{
    unsigned i;

    for (i = 0; i < SENDERS; i++) {
        if (atomic_load(&rush->done[i]) < n) {
            return false;
        }
    }
    return true;
}

static void fork_once(void)
{
    pid_t pid = CHECK_SYS(fork());

    if (!pid) {
        _exit(0);
    }
    CHECK_EQ(await_process(pid), 0);
}

/* The card's counters, less their values at the start. */
struct tally {
    struct unetmm_ctx *ctx;
    uint64_t drops, waits, packets;
};

static struct tally tally_now(struct unetmm_ctx *ctx)
{
    return (struct tally) {
        ctx, card_counter(ctx, UNETMM_C_drop_rel_credit),
        card_counter(ctx, UNETMM_C_credit_waits),
        card_counter(ctx, UNETMM_C_sysbuf_packets)
    };
}

static void senders_start(pid_t pids[SENDERS], struct station *two)
{
    static unsigned numbers[SENDERS];
    struct unetmm_peer peer;
    unsigned i;
    int ret;

    CHECK_RET(unetmm_listen_ex(two->ep, SERVICE, SENDERS * ENDS, &usual), 0);
    for (i = 0; i < SENDERS; i++) {
        numbers[i] = i;
        pids[i] = start_process(sender_main, &numbers[i]);
    }
    for (i = 0; i < SENDERS * ENDS; i++) {
        ret = unetmm_accept(two->ep, &peer, PATIENCE_NS);
        CHECK_RET(ret < 0 ? ret : 0, 0);
    }
}

static void senders_end(const pid_t pids[SENDERS], const struct tally *before)
{
    struct tally now;
    unsigned i;

    atomic_store(&rush->stop, true);
    for (i = 0; i < SENDERS; i++) {
        end_process(pids[i]);
    }
    now = tally_now(before->ctx);
    note("rounds %u %u %u %u; %llu packets redirected, out of credits %llu "
         "times", rush->done[0], rush->done[1], rush->done[2], rush->done[3],
         (unsigned long long)(now.packets - before->packets),
         (unsigned long long)(now.waits - before->waits));
    CHECK_EQ(now.drops, before->drops);
}

/* All pages go out again and again, and each channel has two credits. */
TEST(crowded, TEST_ASKS, 200)
{
    unsigned npages = SENDERS * ENDS * PIECE / PAGE, n = rounds(6);
    struct unetmm_ep_attr attr = redirecting();
    uint64_t end = deadline_in(180);
    uint8_t *own = pages(npages);
    struct unetmm_ctx *ctx;
    struct tally before;
    struct station two;
    pid_t pids[SENDERS];

    swap_on();
    usual_parameters();
    parameter("redirect_credits", 2);
    rush = shared_memory(sizeof(*rush));
    ctx = open_card();
    before = tally_now(ctx);
    station_open(&two, ctx, &attr);
    CHECK_RET(unetmm_export(ctx, ID, own, npages * PAGE, UNETMM_RIGHT_ALL, 0,
                            0), 0);
    senders_start(pids, &two);
    CHECK_EQ(buffer_has("reserved"), 2 * SENDERS * ENDS);
    while (!all_have(n) || tally_now(ctx).waits == before.waits ||
           tally_now(ctx).packets < before.packets + 20) {
        CHECK(now_ns() < end);
        page_out(own, npages);
        /* Pages that are pinned for the card stay, and the card still loses them. */
        fork_once();
        breathe();
    }
    senders_end(pids, &before);
    station_close(&two);
    CHECK_RET(unetmm_close(ctx), 0);
    usual_parameters();
    swap_off();
}

/* More packets are sent than there are credits; none can land while the page is absent. */
TEST(out_of_credits, TEST_ASKS)
{
    unsigned i, n = 24;
    struct late late;
    struct scene s;

    late_make(&late, SPAN);
    scene_open_with(&s, late.at, 2);
    CHECK_EQ(buffer_has("reserved"), 2);
    for (i = 0; i < n; i++) {
        pattern_fill(s.mine + i * 1000, 1000, i, 0);
        write_to(&s, i * 1000, s.mine + i * 1000, 1000, i);
    }
    late_wanted(&late);
    EVENTUALLY(ep_counter(&s.one, UNETMM_C_credit_waits) > 0);
    CHECK(buffer_has("pending") <= 2);
    CHECK_EQ(unetmm_event_read(s.counter), 0);
    for (i = 0; i < SPAN; i++) {
        late_give(&late, i, 77);
    }
    count_reaches(&s, n);
    for (i = 0; i < n; i++) {
        CHECK_EQ(taken_status(&s, i), UNETMM_ST_OK);
        CHECK_PATTERN(late.at + i * 1000, 1000, i);
    }
    CHECK_EQ(ep_counter(&s.two, UNETMM_C_drop_rel_credit), 0);
    scene_close(&s);
    close(late.fd);
}

/* ---- No slot left ---------------------------------------------------------------------------- */

#define FEW     3

/* The side with the policy connects: it is told at once. */
TEST(no_slots, TEST_ASKS)
{
    struct unetmm_ep_attr attr = redirecting();
    struct station one, two, three;
    struct unetmm_ctx *ctx = open_card();
    int64_t wait_ns = 200 * NS_PER_MS;
    unsigned channels[FEW], i;
    uint8_t mac[6];
    int ret;

    card_mac(mac);
    parameter("redirect_slots", FEW);
    station_open(&one, ctx, &attr);
    usual_parameters();
    CHECK_EQ(buffer_has("slots"), FEW);
    station_open(&two, ctx, NULL);
    station_open(&three, ctx, NULL);
    CHECK_RET(unetmm_listen_ex(two.ep, SERVICE, 8, &usual), 0);
    for (i = 0; i < FEW; i++) {
        ret = unetmm_connect_ex(one.ep, mac, SERVICE, PATIENCE_NS, &usual,
                                NULL);
        CHECK_RET(ret < 0 ? ret : 0, 0);
        channels[i] = (unsigned)ret;
    }
    CHECK_RET(unetmm_connect_ex(one.ep, mac, SERVICE, PATIENCE_NS, &usual,
                                NULL), -ENOSPC);
    /* A listener with the policy has no room, either. */
    CHECK_RET(unetmm_listen_ex(one.ep, SERVICE_TOO, 8, &usual), 0);
    /* In so short a time the driver may not have been told that there is no room. */
    do {
        ret = unetmm_connect_ex(three.ep, mac, SERVICE_TOO, wait_ns, &usual, NULL);
        wait_ns *= 4;
    } while (ret == -EHOSTUNREACH && wait_ns < PATIENCE_NS);
    CHECK_RET(ret, -ETIMEDOUT);
    CHECK_RET(unetmm_disconnect(one.ep, channels[1]), 0);
    ret = unetmm_connect_ex(three.ep, mac, SERVICE_TOO, PATIENCE_NS,
                            &usual, NULL);
    CHECK_RET(ret < 0 ? ret : 0, 0);
    CHECK_RET(unetmm_disconnect(one.ep, channels[0]), 0);
    ret = unetmm_connect_ex(one.ep, mac, SERVICE, PATIENCE_NS, &usual, NULL);
    CHECK_RET(ret < 0 ? ret : 0, 0);
    CHECK_EQ(buffer_has("reserved"), FEW);
    CHECK_EQ(buffer_has("pending"), 0);
    station_close(&three);
    station_close(&two);
    station_close(&one);
    CHECK_EQ(buffer_has("slots"), 0);
    CHECK_RET(unetmm_close(ctx), 0);
}

/* ---- Ends, with something pending ---------------------------------------------------------- */

/* Some packets wait for page 0, which somebody wants. */
static void pending_open(struct scene *s, struct late *late)
{
    unsigned i;

    late_make(late, SPAN);
    scene_open(s, late->at);
    for (i = 0; i < 4; i++) {
        write_to(s, i * 100, s->mine, 100, i);
    }
    CHECK_EQ(late_wanted(late), 0);
    EVENTUALLY(redirected(s) == 4 && buffer_has("pending") == 4);
}

/* Is a thread of the driver asleep for a page of somebody's? */
static bool copiers(void)
{
    return !system("grep -qs 'asleep [1-9]' /sys/kernel/debug/unetmm/*/spaces");
}

/* The page comes at last, and nobody writes to it. */
static void pending_untouched(struct late *late)
{
    CHECK_EQ(buffer_has("pending"), 0);
    late_give(late, 0, 3);
    CHECK_PATTERN(late->at, PAGE, 3);
}

/* No thread that could still copy is left. */
static void still_untouched(struct late *late)
{
    EVENTUALLY(!copiers());
    CHECK_PATTERN(late->at, PAGE, 3);
    close(late->fd);
}

TEST(unexported, TEST_ASKS)
{
    uint64_t start;
    struct late late;
    struct scene s;
    unsigned i;

    pending_open(&s, &late);
    start = now_ns();
    CHECK_RET(unetmm_unexport(s.ctx, ID), 0);
    CHECK(now_ns() < start + 20 * NS_PER_S * run.slow);
    CHECK_EQ(buffer_has("pending"), 0);
    pending_untouched(&late);
    for (i = 0; i < 4; i++) {
        CHECK(taken_status(&s, i) != UNETMM_ST_OK);
    }
    CHECK_EQ(unetmm_event_read(s.counter), 0);
    scene_close(&s);
    still_untouched(&late);
}

/* Packets that waited behind it for another reason go on. */
TEST(unexported_before, TEST_ASKS)
{
    struct unetmm_completion c;
    struct station third;
    unsigned import;
    struct late late;
    uint8_t *more;
    struct scene s;

    pending_open(&s, &late);
    more = pages(1);
    CHECK_RET(unetmm_export(s.ctx, ID + 1, more, PAGE, UNETMM_RIGHT_ALL, 0, 0),
              0);
    station_open(&third, s.ctx, NULL);
    CHECK_RET(try_join(&third, &s.two, &usual, PATIENCE_NS), 0);
    import = import_of(&third, ID + 1, UNETMM_RIGHT_ALL);
    CHECK_SYS(madvise(more, PAGE, MADV_DONTNEED));
    pattern_fill(s.mine, PAGE, 9, 0);
    CHECK_RET(unetmm_write(third.ep, import, 0, s.mine, PAGE, 0, 1, 0), 0);
    EVENTUALLY(redirected(&s) == 5);
    CHECK(!take_now(&third, UNETMM_CQE_SENT, &c));
    CHECK_RET(unetmm_unexport(s.ctx, ID), 0);
    take(&third, UNETMM_CQE_SENT, &c);
    CHECK_EQ(c.status, UNETMM_ST_OK);
    CHECK_PATTERN(more, PAGE, 9);
    pending_untouched(&late);
    station_close(&third);
    scene_close(&s);
    still_untouched(&late);
}

TEST(closed, TEST_ASKS)
{
    uint64_t start;
    struct late late;
    struct scene s;

    pending_open(&s, &late);
    start = now_ns();
    station_close(&s.two);
    CHECK(now_ns() < start + 20 * NS_PER_S * run.slow);
    EVENTUALLY(buffer_has("slots") == 0);
    pending_untouched(&late);
    CHECK(taken_status(&s, 0) != UNETMM_ST_OK);
    station_close(&s.one);
    scene_end(&s);
    still_untouched(&late);
}

/* A channel's end takes nothing back: its packets still land. */
TEST(disconnected, TEST_ASKS)
{
    struct late late;
    struct scene s;

    pending_open(&s, &late);
    CHECK_RET(unetmm_disconnect(s.one.ep, s.one.channel), 0);
    EVENTUALLY(buffer_has("reserved") == 0);
    CHECK_EQ(buffer_has("pending"), 4);
    late_give(&late, 0, 3);
    EVENTUALLY(buffer_has("pending") == 0);
    CHECK_BYTES(late.at, 400, 1);
    scene_close(&s);
    close(late.fd);
}

TEST(unmapped, TEST_ASKS)
{
    struct late late;
    struct scene s;

    pending_open(&s, &late);
    late_unmap(&late);
    CHECK_EQ(taken_status(&s, 0), UNETMM_ST_REMOTE_MEMORY);
    EVENTUALLY(buffer_has("pending") == 0);
    CHECK(ep_counter(&s.two, UNETMM_C_sysbuf_failed) > 0);
    scene_close(&s);
    close(late.fd);
}

/* Page 0 is there, and may only be read by now. */
TEST(read_only, TEST_ASKS)
{
    struct scene s;

    scene_open(&s, NULL);
    CHECK_SYS(mprotect(s.own, PAGE, PROT_READ));
    write_to(&s, 0, s.mine, 100, 0);
    CHECK_EQ(taken_status(&s, 0), UNETMM_ST_REMOTE_MEMORY);
    CHECK_BYTES(s.own, PAGE, 0);
    scene_close(&s);
}

/* ---- Death ------------------------------------------------------------------------------- */

struct doomed {
    atomic_uint ready;
    atomic_int watcher;
};

static struct doomed *doomed;

static void doomed_main(void *argument)
{
    struct late late;
    struct scene s;

    (void)argument;
    pending_open(&s, &late);
    atomic_store(&doomed->watcher, late.fd);
    atomic_store(&doomed->ready, 1);
    for (;;) {
        pause();
    }
}

/* Its userfaultfd outlives it, and never answers. */
TEST(killed, TEST_ASKS)
{
    unsigned i, n = rounds(5);

    doomed = shared_memory(sizeof(*doomed));
    for (i = 0; i < n; i++) {
        pid_t pid = start_process(doomed_main, NULL);
        int process, fd;

        EVENTUALLY(atomic_load(&doomed->ready));
        process = (int)CHECK_SYS(syscall(SYS_pidfd_open, pid, 0));
        fd = (int)CHECK_SYS(syscall(SYS_pidfd_getfd, process,
                                    atomic_load(&doomed->watcher), 0));
        close(process);
        CHECK_SYS(kill(pid, SIGKILL));
        await_process(pid);
        EVENTUALLY(buffer_has("slots") == 0);
        CHECK_EQ(buffer_has("pending"), 0);
        CHECK_EQ(buffer_has("reserved"), 0);
        close(fd);
        atomic_store(&doomed->ready, 0);
    }
}

/* The card is reset under it. */
TEST(reset, TEST_ASKS | TEST_NO_CARD)
{
    struct late late;
    struct scene s;

    card_find();
    pending_open(&s, &late);
    card_write("reset", "1");
    pending_untouched(&late);
    CHECK_RET(unetmm_ep_destroy(s.one.ep), -ENODEV);
    CHECK_RET(unetmm_ep_destroy(s.two.ep), -ENODEV);
    unetmm_close(s.ctx);
    still_untouched(&late);
    dropped();
}

/* The card is taken out under it, and comes back. */
TEST(removed, TEST_TLB | TEST_NO_CARD)
{
    struct late late;
    struct scene s;

    card_find();
    pending_open(&s, &late);
    card_write("remove", "1");
    CHECK(!card_present());
    late_give(&late, 0, 3);
    CHECK(unetmm_ep_destroy(s.one.ep) < 0);
    CHECK(unetmm_ep_destroy(s.two.ep) < 0);
    unetmm_close(s.ctx);
    still_untouched(&late);
    CHECK_RET(write_file("/sys/bus/pci/rescan", "1"), 0);
    card_find();
    dropped();
}

/* ---- A page that no signal brings -------------------------------------------------------- */

#define FUSE_FILE       "/tmp/unanswered"

struct unanswered {
    atomic_bool mounted;
    atomic_uint reads;
};

static void keep_read(int fd, const struct fuse_in_header *in, void *argument)
{
    struct unanswered *u = argument;

    (void)fd;
    (void)in;
    atomic_fetch_add(&u->reads, 1);
}

static void refuse_write(int fd, const struct fuse_in_header *in, void *argument)
{
    (void)argument;
    fuse_answer(fd, in, -EIO, NULL, 0);
}

static void daemon_main(void *argument)
{
    struct unanswered *u = argument;
    struct fuse_hooks hooks = { keep_read, refuse_write, u };
    int fd = fuse_mount(FUSE_FILE);

    atomic_store(&u->mounted, true);
    while (fuse_serve(fd, &hooks)) {
    }
    close(fd);
}

/* Four packets wait for a page that the daemon has been asked for. */
static pid_t unanswered_open(struct scene *s)
{
    struct unanswered *u = shared_memory(sizeof(*u));
    unsigned i;
    pid_t pid;
    int fd;

    fuse_needed();
    pid = start_process(daemon_main, u);
    EVENTUALLY(atomic_load(&u->mounted));
    fd = CHECK_SYS(open(FUSE_FILE, O_RDWR | O_CLOEXEC));
    CHECK_EQ(lseek(fd, 0, SEEK_END), FUSE_FILE_BYTES);
    scene_open(s, CHECK_SYS(mmap(NULL, SPAN * PAGE, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE, fd, 0)));
    for (i = 0; i < 4; i++) {
        write_to(s, i * 100, s->mine, 100, i);
    }
    EVENTUALLY(atomic_load(&u->reads));
    EVENTUALLY(redirected(s) == 4 && buffer_has("pending") == 4);
    return pid;
}

/* Its end answers; until then somebody is asleep. */
static void unanswered_close(pid_t pid)
{
    CHECK(copiers());
    CHECK_SYS(kill(pid, SIGKILL));
    CHECK_EQ(await_process(pid), SIGKILL);
    CHECK_SYS(umount2(FUSE_FILE, MNT_DETACH));
    EVENTUALLY(!copiers());
}

/* The end of an export, or of an endpoint, does not wait for the daemon. */
TEST(unanswered, TEST_ASKS)
{
    uint64_t start;
    struct scene s;
    unsigned i;
    pid_t pid;

    pid = unanswered_open(&s);
    start = now_ns();
    CHECK_RET(unetmm_unexport(s.ctx, ID), 0);
    CHECK(now_ns() < start + 20 * NS_PER_S * run.slow);
    CHECK_EQ(buffer_has("pending"), 0);
    for (i = 0; i < 4; i++) {
        CHECK(taken_status(&s, i) != UNETMM_ST_OK);
    }
    unanswered_close(pid);
    scene_close(&s);
    pid = unanswered_open(&s);
    start = now_ns();
    station_close(&s.two);
    CHECK(now_ns() < start + 20 * NS_PER_S * run.slow);
    EVENTUALLY(buffer_has("slots") == 0);
    CHECK(taken_status(&s, 0) != UNETMM_ST_OK);
    unanswered_close(pid);
    station_close(&s.one);
    scene_end(&s);
}

/* ---- Guards ------------------------------------------------------------------------------- */

/* Long packets, which leave all that they were in their slots. */
static void secret_main(void *argument)
{
    struct scene s;
    unsigned i;

    (void)argument;
    scene_open(&s, NULL);
    memset(s.mine, 0xa5, LENGTH);
    for (i = 0; i < 50; i++) {
        CHECK_SYS(madvise(s.own, LENGTH, MADV_DONTNEED));
        write_to(&s, 0, s.mine, LENGTH, i);
        CHECK_EQ(taken_status(&s, i), UNETMM_ST_OK);
    }
    CHECK(redirected(&s) > 0);
    scene_shut(&s);
}

/* A short packet of another process, in the same slot, brings nothing of it along. */
TEST(no_leak, TEST_ASKS)
{
    struct unetmm_ep_attr attr = redirecting();
    struct unetmm_ctx *ctx = open_card();
    unsigned i, n = rounds(100);
    struct station keeper;
    struct scene s;

    /* The buffer does not change between the two. */
    station_open(&keeper, ctx, &attr);
    end_process(start_process(secret_main, NULL));
    scene_open(&s, NULL);
    memset(s.mine, 0x11, LENGTH);
    for (i = 0; i < n || (!redirected(&s) && i < 40 * n); i++) {
        size_t len = 1 + i % 40, at = (i * 37) % (PAGE - 64);

        CHECK_SYS(madvise(s.own, LENGTH, MADV_DONTNEED));
        write_to(&s, at, s.mine, len, i);
        count_reaches(&s, i + 1);
        CHECK_EQ(taken_status(&s, i), UNETMM_ST_OK);
        CHECK_BYTES(s.own + at, len, 0x11);
        CHECK_BYTES(s.own, at, 0);
        CHECK_BYTES(s.own + at + len, LENGTH - at - len, 0);
    }
    CHECK(redirected(&s) > 0);
    station_close(&keeper);
    scene_close(&s);
    CHECK_RET(unetmm_close(ctx), 0);
}

/* ---- Elsewhere ------------------------------------------------------------------------ */

/* The machine moves to another QEMU, with packets pending. */
TEST(moved, TEST_SHADOW | TEST_ODP)
{
    struct late late;
    struct scene s;
    unsigned i;

    pending_open(&s, &late);
    ask_host("move");
    CHECK_EQ(buffer_has("pending"), 4);
    late_give(&late, 0, 3);
    count_reaches(&s, 4);
    for (i = 0; i < 4; i++) {
        CHECK_EQ(taken_status(&s, i), UNETMM_ST_OK);
    }
    CHECK_BYTES(late.at, 400, 1);
    CHECK_EQ(pattern_check(late.at + 400, PAGE - 400, 3, 400), PAGE - 400);
    scene_close(&s);
    close(late.fd);
}

struct far {
    struct unetmm_ctx *ctx;
    struct station station;
    uint8_t *from, *back;
    unsigned import;
};

static void far_open(struct far *f)
{
    int ret;

    f->ctx = open_card();
    station_open(&f->station, f->ctx, NULL);
    ret = unetmm_connect_ex(f->station.ep, run.peer, SERVICE_ABSENT,
                            PATIENCE_NS, &usual, NULL);
    CHECK_RET(ret < 0 ? ret : 0, 0);
    f->station.channel = (unsigned)ret;
    f->import = import_of(&f->station, ABSENT_EXPORT, UNETMM_RIGHT_ALL);
    f->from = pages(ABSENT_BYTES / PAGE);
    f->back = pages(ABSENT_BYTES / PAGE);
}

/* A write into absent memory, read back, and a message that comes back. */
static void far_once(struct far *f, size_t at, size_t len, uint64_t key)
{
    struct unetmm_completion c;
    unsigned i;

    pattern_fill(f->from, len, key, 0);
    memset(f->back, 0, len);
    CHECK_RET(unetmm_write(f->station.ep, f->import, at, f->from, len, 0, 1,
                           0), 0);
    CHECK_RET(unetmm_read(f->station.ep, f->import, at, f->back, len, 2, 0),
              0);
    for (i = 1; i <= 2; i++) {
        take(&f->station, UNETMM_CQE_SENT, &c);
        CHECK_EQ(c.status, UNETMM_ST_OK);
    }
    CHECK_PATTERN(f->back, len, key);
    memset(f->back, 0, len);
    post(&f->station, f->back, ABSENT_BYTES, 3);
    send_pieces(&f->station, &(struct iovec) { f->from, len }, 1, 4, 0);
    take(&f->station, UNETMM_CQE_RECEIVED, &c);
    CHECK_EQ(c.len, len);
    CHECK_PATTERN(f->back, len, key);
    take(&f->station, UNETMM_CQE_SENT, &c);
    CHECK_EQ(c.status, UNETMM_ST_OK);
}

static void far_rounds(struct far *f, unsigned n)
{
    uint64_t before = peer_ask(&f->station, PEER_AWAY), now = before;
    struct chance chance;
    unsigned i;

    chance_init(&chance, 5);
    for (i = 0; i < n || (now == before && i < 20 * n); i++) {
        size_t at = chance_below(&chance, ABSENT_BYTES - UNETMM_CQE_INLINE - 1);
        size_t most = ABSENT_BYTES - at - UNETMM_CQE_INLINE;

        far_once(f, at, UNETMM_CQE_INLINE + 1 +
                 chance_below(&chance, (uint32_t)most), i);
        now = peer_ask(&f->station, PEER_AWAY);
    }
    note("%u rounds, %llu packets redirected there", i,
         (unsigned long long)(now - before));
    CHECK(now > before);
}

TEST(far_away, TEST_TLB | TEST_ONLY_REMOTE)
{
    struct far f;

    far_open(&f);
    far_rounds(&f, rounds(30));
    station_close(&f.station);
    CHECK_RET(unetmm_close(f.ctx), 0);
}

TEST(bad_wire, TEST_TLB | TEST_ONLY_REMOTE)
{
    static const char *const knobs[] = { "x-loss", "x-dup", "x-reorder" };
    uint64_t lost, tries = 0;
    struct far f;
    unsigned i;

    far_open(&f);
    lost = card_counter(f.ctx, UNETMM_C_inj_loss);
    for (i = 0; i < 3; i++) {
        ask_host("set %s 30000", knobs[i]);
    }
    do {
        far_rounds(&f, rounds(30));
    } while (card_counter(f.ctx, UNETMM_C_inj_loss) < lost + 3 &&
             ++tries < 100);
    for (i = 0; i < 3; i++) {
        ask_host("set %s 0", knobs[i]);
    }
    CHECK(card_counter(f.ctx, UNETMM_C_inj_loss) >= lost + 3);
    station_close(&f.station);
    CHECK_RET(unetmm_close(f.ctx), 0);
}

/* An export whose parts may move is not redirected by policy. */
TEST(movable, TEST_ASKS)
{
    uint8_t *more = pages(SPAN);
    struct unetmm_completion c;
    unsigned import, i;
    struct scene s;

    scene_open(&s, NULL);
    CHECK_RET(unetmm_export(s.ctx, ID + 1, more, LENGTH, UNETMM_RIGHT_ALL,
                            UNETMM_EXPORT_REDIRECT, 0), 0);
    import = import_of(&s.one, ID + 1, UNETMM_RIGHT_ALL);
    for (i = 0; i < rounds(10); i++) {
        CHECK_SYS(madvise(more, LENGTH, MADV_DONTNEED));
        pattern_fill(s.mine, LENGTH, i, 0);
        CHECK_RET(unetmm_write(s.one.ep, import, 0, s.mine, LENGTH, 0, 1, 0),
                  0);
        take(&s.one, UNETMM_CQE_SENT, &c);
        CHECK_EQ(c.status, UNETMM_ST_OK);
        CHECK_PATTERN(more, LENGTH, i);
    }
    CHECK_EQ(redirected(&s), 0);
    scene_close(&s);
}

/* ---- A user's share of slots ------------------------------------------------- */

struct user {
    unsigned uid, channels;     /* its id, and how many channels it gets */
    atomic_uint *state;         /* 1: it has them, and holds them until 2 */
};

static int connect_more(struct station *station)
{
    uint8_t mac[6];

    card_mac(mac);
    return unetmm_connect_ex(station->ep, mac, SERVICE_TOO, PATIENCE_NS, &usual,
                             NULL);
}

/* So many channels with slots, and then none; one that ends makes room. */
static void has_slots(void *argument)
{
    const struct user *user = argument;
    struct unetmm_ep_attr attr = redirecting();
    struct station station;
    struct unetmm_ctx *ctx;
    uint64_t limited;
    unsigned i;
    int first = -1;

    be_user(user->uid);
    ctx = open_card();
    station_open(&station, ctx, &attr);
    for (i = 0; i < user->channels; i++) {
        int channel = connect_more(&station);

        CHECK(channel >= 0);
        first = i ? first : channel;
    }
    limited = driver_counter(ctx, UNETMM_D_user_limited);
    CHECK_RET(connect_more(&station), -ENOSPC);
    CHECK_EQ(driver_counter(ctx, UNETMM_D_user_limited), limited + 1);
    if (user->channels) {
        CHECK_RET(unetmm_disconnect(station.ep, first), 0);
        CHECK(connect_more(&station) >= 0);
    }
    if (user->state) {
        atomic_store(user->state, 1);
        EVENTUALLY(atomic_load(user->state) == 2);
    }
    station_close(&station);
    CHECK_RET(unetmm_close(ctx), 0);
}

static void users_have_slots(void *argument)
{
    struct user one = { 4242, 2, argument }, other = { 4243, 2, NULL };
    struct station listener;
    struct unetmm_ctx *ctx = open_card();
    pid_t pid;

    station_open(&listener, ctx, NULL);
    CHECK_RET(unetmm_listen_ex(listener.ep, SERVICE_TOO, 16, &usual), 0);
    pid = start_process(has_slots, &one);
    EVENTUALLY(atomic_load(one.state) == 1);
    CHECK_EQ(buffer_has("reserved"), 8);
    end_process(start_process(has_slots, &(struct user){ 4242, 0, NULL }));
    end_process(start_process(has_slots, &other));
    atomic_store(one.state, 2);
    end_process(pid);
    one.state = NULL;
    end_process(start_process(has_slots, &one));
    station_close(&listener);
    CHECK_RET(unetmm_close(ctx), 0);
}

/* A user's processes share its part of the slots; other users have theirs. */
TEST(shares, TEST_TLB)
{
    int result;

    usual_parameters();
    parameter("redirect_credits", 4);
    parameter("user_redirect_slots", 8);
    result = await_process(start_process(users_have_slots,
                                         shared_memory(PAGE)));
    parameter("user_redirect_slots", 0);
    usual_parameters();
    CHECK_EQ(result, 0);
}

/* ---- Combinations that are refused ------------------------------------------- */

static void refused_source(unsigned source)
{
    struct unetmm_ep_attr attr = redirecting();
    struct unetmm_ctx *ctx;
    struct unetmm_ep *ep;

    CHECK_RET(unetmm_open(NULL, source, &ctx), 0);
    CHECK_RET(unetmm_ep_create(ctx, &attr, &ep), -EOPNOTSUPP);
    CHECK_RET(unetmm_close(ctx), 0);
}

TEST(refused, TEST_ASKS)
{
    const struct unetmm_channel_attr datagram = {
        sizeof(datagram), UNETMM_DATAGRAM, 0, 0, 0, 0
    };
    const struct unetmm_channel_attr either = {
        sizeof(either), UNETMM_DATAGRAM | UNETMM_RELIABLE, 0, 0, 0, 0
    };
    struct unetmm_ep_attr attr = redirecting();
    struct station two, three;
    struct unetmm_ctx *ctx;
    uint8_t mac[6];

    refused_source(UNETMM_SOURCE_PINNED);
    refused_source(UNETMM_SOURCE_UTLB);
    refused_source(UNETMM_SOURCE_KTLB);
    card_mac(mac);
    ctx = open_card();
    station_open(&two, ctx, &attr);
    station_open(&three, ctx, NULL);
    CHECK_RET(unetmm_listen_ex(two.ep, SERVICE, 1, &datagram_attr), -EPROTOTYPE);
    CHECK_RET(unetmm_listen_ex(two.ep, SERVICE, 1, &either), -EPROTOTYPE);
    CHECK_RET(unetmm_listen_ex(three.ep, SERVICE, 1, &datagram_attr), 0);
    CHECK_RET(unetmm_connect_ex(two.ep, mac, SERVICE, PATIENCE_NS, &datagram,
                                NULL), -EPROTOTYPE);
    CHECK_RET(unetmm_listen_ex(two.ep, SERVICE_TOO, 1, &usual), 0);
    CHECK_RET(unetmm_connect_ex(three.ep, mac, SERVICE_TOO, PATIENCE_NS,
                                &datagram, NULL), -EPROTOTYPE);
    CHECK_EQ(buffer_has("reserved"), 0);
    station_close(&three);
    station_close(&two);
    CHECK_RET(unetmm_close(ctx), 0);
}
