/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Policy backup: a packet that finds no memory waits in the driver's ring, is
 * copied when the memory is there, and is shown in its order.  Processes that
 * do not do their part harm no other.
 *
 * `one` sends to `two`, whose policy it is: frames, between raw endpoints, or
 * messages on a datagram channel.  A packet contains its number.
 */
#include "ask.h"
#include "card.h"
#include "frame.h"
#include "group.h"
#include "guard.h"
#include "inject.h"
#include "late.h"
#include "process.h"
#include "swap.h"
#include "traffic.h"

#include <libunetmm/inline.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define TEST_ASKS       (TEST_TLB | TEST_SHADOW | TEST_ODP | TEST_EVERY)
#define BACKUP_FILE     "/sys/kernel/debug/unetmm/unetmm0/backup"
#define PREFETCH        "/sys/module/unetmm/parameters/backup_prefetch"
#define BUFFERS         "/sys/module/unetmm/parameters/backup_buffers"
#define DEPTH           64              /* of the free queue */
#define ROOM            2048            /* bytes of a buffer */
#define WINDOW          32              /* packets on their way */

/* A counter of the driver about the backup ring. */
#define ring_has(what) card_value(BACKUP_FILE, what)

/* ---- The scene ------------------------------------------------------------------ */

struct scene {
    struct unetmm_ctx *ctx;
    bool raw;
    unsigned name;              /* of the addresses, two of each scene */
    struct station one, two;
    uint8_t *out;               /* WINDOW frames to send from */
    uint8_t *own;               /* DEPTH buffers */
    uint32_t sent, received;
};

static void scene_open_in(struct scene *s, struct unetmm_ctx *ctx, bool raw,
                          unsigned policy, uint32_t bits, unsigned name)
{
    struct unetmm_ep_attr attr = raw_attr(policy, bits);

    memset(s, 0, sizeof(*s));
    s->ctx = ctx;
    s->raw = raw;
    s->name = name;
    attr.free_depth = DEPTH;
    if (raw) {
        struct unetmm_ep_attr sender = raw_attr(UNETMM_POLICY_DROP, 0);

        raw_station(&s->one, ctx, &sender, name);
        raw_station(&s->two, ctx, &attr, name + 1);
    } else {
        attr.flags = 0;
        station_open(&s->one, ctx, NULL);
        station_open(&s->two, ctx, &attr);
        join(&s->one, &s->two);
    }
    s->out = pages(WINDOW);
    memset(s->out, 1, WINDOW * PAGE);
    s->own = pages(DEPTH / 2);
}

static void scene_open(struct scene *s, bool raw, unsigned policy,
                       uint32_t bits)
{
    scene_open_in(s, open_card(), raw, policy, bits, 0);
}

static void scene_close_in(struct scene *s)
{
    station_close(&s->one);
    station_close(&s->two);
    unmap_pages(s->own, DEPTH / 2);
    unmap_pages(s->out, WINDOW);
}

/* Nothing is left of it: no ring, no buffer. */
static void ring_is_gone(void)
{
    struct unetmm_ctx *ctx = NULL;

    CHECK_EQ(ring_has("ring"), 0);
    CHECK_EQ(ring_has("reserved"), 0);
    CHECK_RET(unetmm_open(NULL, UNETMM_OBSERVE, &ctx), 0);
    CHECK_EQ(driver_counter(ctx, UNETMM_D_backup_buffers), 0);
    CHECK_EQ(driver_counter(ctx, UNETMM_D_backup_bad), 0);
    CHECK_RET(unetmm_close(ctx), 0);
}

static void scene_close(struct scene *s)
{
    scene_close_in(s);
    CHECK_RET(unetmm_close(s->ctx), 0);
    ring_is_gone();
}

static size_t length_of(uint32_t number)
{
    return 64 + number * 37 % (ROOM - 64);
}

static uint8_t *buffer(const struct scene *s, uint64_t i)
{
    return s->own + i % DEPTH * ROOM;
}

static void post_buffer(struct scene *s, uint64_t i, unsigned flags)
{
    CHECK_RET(unetmm_post_recv(s->two.ep, buffer(s, i), ROOM, i, flags), 0);
}

static void post_all(struct scene *s)
{
    unsigned i;

    for (i = 0; i < DEPTH; i++) {
        post_buffer(s, i, i + 1 < DEPTH ? UNETMM_MORE : 0);
    }
}

/* Sends packet `number`; its memory is free again when it returns.  UNETMM_ST_*. */
static unsigned try_one(struct scene *s, uint32_t number)
{
    uint8_t *frame = s->out + number % WINDOW * PAGE;
    struct iovec iov = { frame, length_of(number) };
    struct unetmm_completion c;

    frame_fill(frame, iov.iov_len, s->name + 1, s->name, number);
    if (s->raw) {
        CHECK_RET(unetmm_send_frame(s->one.ep, &iov, 1, 0, number, 0), 0);
    } else {
        send_pieces(&s->one, &iov, 1, number, 0);
    }
    take(&s->one, UNETMM_CQE_SENT, &c);
    s->sent += c.status == UNETMM_ST_OK;
    return c.status;
}

static void send_one(struct scene *s, uint32_t number)
{
    CHECK_EQ(try_one(s, number), UNETMM_ST_OK);
}

static void check_one(struct scene *s, const struct unetmm_completion *c,
                      uint32_t number)
{
    CHECK_EQ(c->type, UNETMM_CQE_RECEIVED);
    CHECK(!c->is_inline);
    CHECK_EQ(c->len, length_of(number));
    frame_check(buffer(s, c->user_data), c->len, s->name + 1, s->name, number);
    s->received++;
}

/* The next packet is this one, in the buffer whose turn it was. */
static void take_one(struct scene *s, uint32_t number)
{
    struct unetmm_completion c;

    take(&s->two, UNETMM_CQE_RECEIVED, &c);
    CHECK_EQ(c.user_data % DEPTH, number % DEPTH);
    check_one(s, &c, number);
}

/* Each packet has been received, or dropped for a reason. */
static void adds_up(const struct scene *s)
{
    CHECK_EQ(s->sent, s->received + station_drops(&s->two));
}

static uint64_t backed_up(const struct scene *s)
{
    return ep_counter(&s->two, UNETMM_C_backup_packets);
}

/*
 * A completion SENT says that the card has the packet, not that the receiving endpoint
 * has: without a buffer of the process, each of the `n` is counted there sooner or later.
 */
static void all_arrived(const struct scene *s, uint32_t n)
{
    EVENTUALLY(backed_up(s) + station_drops(&s->two) == n);
}

/* ---- Memory that goes, in whatever way ------------------------------------------- */

typedef void (*disturb_fn)(struct scene *s, struct chance *chance);

static void cold(struct scene *s, struct chance *chance)
{
    (void)chance;
    CHECK_SYS(madvise(s->own, DEPTH * ROOM, MADV_DONTNEED));
}

static void some_pages(struct scene *s, struct chance *chance)
{
    size_t at = chance_below(chance, DEPTH / 2) * PAGE;

    CHECK_SYS(madvise(s->own + at, PAGE, MADV_DONTNEED));
}

static void to_swap(struct scene *s, struct chance *chance)
{
    (void)chance;
    madvise(s->own, DEPTH * ROOM, MADV_PAGEOUT);
}

/* A child has all of it for a moment: a page is copied before it is written next. */
static void to_child(struct scene *s, struct chance *chance)
{
    pid_t pid = fork();

    (void)s;
    (void)chance;
    if (!pid) {
        _exit(0);
    }
    CHECK_SYS(pid);
    CHECK_SYS(waitpid(pid, NULL, 0));
}

/* Other pages come to where the buffers are. */
static void moved(struct scene *s, struct chance *chance)
{
    size_t at = chance_below(chance, DEPTH / 2) * PAGE;
    uint8_t *other = pages(1);

    CHECK(mremap(other, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
                 s->own + at) == s->own + at);
}

static void rights(struct scene *s, struct chance *chance)
{
    size_t at = chance_below(chance, DEPTH / 2) * PAGE;

    CHECK_SYS(mprotect(s->own + at, PAGE, PROT_READ));
    CHECK_SYS(mprotect(s->own + at, PAGE, PROT_READ | PROT_WRITE));
}

/*
 * Packets in windows, all buffers posted, and before each window the memory is
 * taken away: every byte and the order are right, and none is lost.  A
 * packet that has landed is compared before the disturbance may change it.
 */
static void under(bool raw, disturb_fn disturb, unsigned windows)
{
    uint32_t number = 0, taken = 0;
    unsigned i, k;
    struct chance chance;
    struct scene s;

    chance_init(&chance, 1);
    scene_open(&s, raw, UNETMM_POLICY_BACKUP, 0);
    post_all(&s);
    for (i = 0; i < windows; i++) {
        disturb(&s, &chance);
        for (k = 0; k < WINDOW; k++) {
            send_one(&s, number++);
        }
        while (taken < number) {
            take_one(&s, taken);
            post_buffer(&s, taken + DEPTH, UNETMM_MORE);
            taken++;
        }
        unetmm_ring(s.two.ep);
    }
    note("%u packets, %llu by way of the ring, %llu held behind one",
         number, (unsigned long long)backed_up(&s), (unsigned long long)
         ep_counter(&s.two, UNETMM_C_backup_held));
    CHECK(backed_up(&s) > 0);
    CHECK_EQ(ep_counter(&s.two, UNETMM_C_backup_landed), backed_up(&s));
    CHECK_EQ(station_drops(&s.two), 0);
    adds_up(&s);
    scene_close(&s);
}

TEST(cold_frames, TEST_ASKS)
{
    under(true, cold, rounds(10));
}

TEST(cold_messages, TEST_ASKS)
{
    under(false, cold, rounds(10));
}

TEST(pages_go, TEST_ASKS)
{
    under(true, some_pages, rounds(30));
}

TEST(pages_go_messages, TEST_ASKS)
{
    under(false, some_pages, rounds(30));
}

TEST(swapped_out, TEST_ASKS)
{
    swap_on();
    under(true, to_swap, rounds(10));
    swap_off();
}

TEST(forked, TEST_ASKS)
{
    under(true, to_child, rounds(10));
}

TEST(remapped, TEST_ASKS)
{
    under(true, moved, rounds(20));
}

TEST(protected, TEST_ASKS)
{
    under(true, rights, rounds(20));
}

/* The buffers that are posted behind are made present as well. */
TEST(prefetched, TEST_SHADOW | TEST_ODP)
{
    struct unetmm_ctx *ctx = open_card();
    uint64_t before = driver_counter(ctx, UNETMM_D_backup_ahead);

    CHECK_RET(write_file(PREFETCH, "16"), 0);
    under(true, cold, rounds(10));
    CHECK_RET(write_file(PREFETCH, "0"), 0);
    CHECK(driver_counter(ctx, UNETMM_D_backup_ahead) > before);
    CHECK_RET(unetmm_close(ctx), 0);
}

/*
 * A cold ring once more, and nothing takes its memory away: after some laps no
 * packet has to go by way of the ring.
 */
TEST(gets_warm, TEST_ASKS)
{
    uint32_t number = 0, most = rounds(20) * DEPTH, quiet = 0;
    uint64_t before = 0;
    struct scene s;

    scene_open(&s, true, UNETMM_POLICY_BACKUP, 0);
    post_all(&s);
    while (number < most && quiet < DEPTH) {
        send_one(&s, number);
        take_one(&s, number);
        post_buffer(&s, number + DEPTH, 0);
        number++;
        quiet = backed_up(&s) == before ? quiet + 1 : 0;
        before = backed_up(&s);
    }
    note("%llu of %u packets by way of the ring",
         (unsigned long long)backed_up(&s), number);
    CHECK_EQ(quiet, DEPTH);
    adds_up(&s);
    scene_close(&s);
}

/* ---- Policy drop, beside it -------------------------------------------------------- */

/* A packet whose memory is absent is lost and asks for it; the rest is in order. */
TEST(cold_drops, TEST_ASKS)
{
    struct unetmm_completion c;
    uint32_t number, last = 0;
    struct scene s;

    scene_open(&s, true, UNETMM_POLICY_DROP, 0);
    post_all(&s);
    for (number = 1; !s.received || number < 4 * WINDOW; number++) {
        CHECK(number < 100000);
        send_one(&s, number);
        while (take_now(&s.two, UNETMM_CQE_RECEIVED, &c)) {
            uint32_t got = frame_number(buffer(&s, c.user_data));

            CHECK(got > last && got <= number);
            check_one(&s, &c, got);
            last = got;
            post_buffer(&s, c.user_data + DEPTH, 0);
        }
    }
    EVENTUALLY(s.sent == ep_counter(&s.two, UNETMM_C_rx_frames) +
               station_drops(&s.two));
    while (take_now(&s.two, UNETMM_CQE_RECEIVED, &c)) {
        check_one(&s, &c, frame_number(buffer(&s, c.user_data)));
    }
    note("%u of %u frames were received", s.received, s.sent);
    CHECK_EQ(ep_counter(&s.two, UNETMM_C_eth_rx_frames), s.sent);
    CHECK(ep_counter(&s.two, UNETMM_C_drop_absent) > 0);
    adds_up(&s);
    scene_close(&s);
}

/* Source pinned, which needs no ring. */
TEST(pinned_frames, TEST_PINNED)
{
    uint32_t number;
    struct scene s;

    scene_open(&s, true, UNETMM_POLICY_DROP, 0);
    reach(s.ctx, s.own, DEPTH * ROOM, true);
    reach(s.ctx, s.out, WINDOW * PAGE, false);
    post_all(&s);
    for (number = 0; number < rounds(10) * DEPTH; number++) {
        send_one(&s, number);
        take_one(&s, number);
        post_buffer(&s, number + DEPTH, 0);
    }
    CHECK_EQ(station_drops(&s.two), 0);
    adds_up(&s);
    scene_close(&s);
}

/* ---- Processes that misbehave ------------------------------------------------ */

/*
 * Nothing is posted: as many wait as there are bits, the rest is dropped, and
 * others are not disturbed.  Waiting packets are delivered once buffers come.
 */
TEST(never_posts, TEST_ASKS)
{
    const uint32_t bits = 16, n = 100;
    struct unetmm_completion c;
    struct traffic traffic;
    struct scene s, t;
    uint32_t i;

    scene_open(&s, true, UNETMM_POLICY_BACKUP, bits);
    scene_open_in(&t, s.ctx, true, UNETMM_POLICY_BACKUP, 0, 2);
    traffic_start(&traffic, 7);
    for (i = 0; i < n; i++) {
        send_one(&s, i);
    }
    all_arrived(&s, n);
    CHECK_EQ(backed_up(&s), bits);
    CHECK_EQ(ep_counter(&s.two, UNETMM_C_drop_backup_bits), n - bits);
    CHECK(!take_now(&s.two, UNETMM_CQE_RECEIVED, &c));
    post_all(&t);
    for (i = 0; i < rounds(4) * DEPTH; i++) {
        if (i % DEPTH == 0) {
            cold(&t, NULL);
        }
        send_one(&t, i);
        take_one(&t, i);
        post_buffer(&t, i + DEPTH, 0);
    }
    CHECK_EQ(station_drops(&t.two), 0);
    EVENTUALLY(ep_counter(&s.two, UNETMM_C_tail_arms) > 0);
    /* One after the other: each is waited for. */
    for (i = 0; i < bits; i++) {
        post_buffer(&s, i, 0);
        take_one(&s, i);
    }
    CHECK_EQ(ep_counter(&s.two, UNETMM_C_backup_landed), bits);
    CHECK(ep_counter(&s.two, UNETMM_C_tail_wakeups) > 0);
    adds_up(&s);
    traffic_stop(&traffic);
    scene_close_in(&t);
    scene_close(&s);
}

/* The same, and the endpoint is closed with them. */
TEST(closed, TEST_ASKS)
{
    struct scene s;
    unsigned i, k;

    for (k = 0; k < rounds(10); k++) {
        scene_open(&s, k % 2, UNETMM_POLICY_BACKUP, 0);
        for (i = 0; i < 40; i++) {
            send_one(&s, i);
        }
        all_arrived(&s, 40);
        CHECK_EQ(backed_up(&s), 40);
        if (k % 3 == 0) {
            post_all(&s);
        }
        scene_close(&s);
    }
}

/* Buffers that are none, with packets waiting for them. */
TEST(posts_garbage, TEST_ASKS)
{
    static const struct {
        uint64_t addr;
        uint32_t len, flags, status;
    } wrong[] = {
        { 0, 2048, 0, UNETMM_ST_PROTECTION },
        { 0xffff800000000000ull, 2048, 0, UNETMM_ST_PROTECTION },
        { 0x7ffffffff000ull, 4096, 0, UNETMM_ST_PROTECTION },
        { UINT64_MAX - 100, 2048, 0, UNETMM_ST_PROTECTION },
        { 0x10000, 0, 0, UNETMM_ST_BAD_DESC },
        { 0x10000, 2048, 0x80000000u, UNETMM_ST_BAD_DESC },
        { 0, 1, 0, UNETMM_ST_TOO_LONG },
    };
    const unsigned n = sizeof(wrong) / sizeof(wrong[0]);
    struct unetmm_completion c;
    struct unetmm_ep *ep;
    struct scene s;
    unsigned i;

    scene_open(&s, true, UNETMM_POLICY_BACKUP, 0);
    for (i = 0; i <= n; i++) {
        send_one(&s, i);
    }
    ep = s.two.ep;
    for (i = 0; i < n; i++) {
        struct unetmm_fqe *fqe = &ep->fq[ep->fq_prod & ep->fq_mask];

        unetmm_put_fqe_(ep, (void *)(uintptr_t)wrong[i].addr, wrong[i].len, i,
                        0);
        fqe->flags = unetmm_swap32(wrong[i].flags);
    }
    post_buffer(&s, n, 0);
    for (i = 0; i < n; i++) {
        take(&s.two, UNETMM_CQE_BUFFER, &c);
        CHECK_EQ(c.user_data, i);
        CHECK_EQ(c.status, wrong[i].status);
    }
    take_one(&s, n);
    CHECK_EQ(ep_counter(&s.two, UNETMM_C_backup_failed), n);
    CHECK_EQ(ep_counter(&s.two, UNETMM_C_backup_landed), 1);
    /* It goes on. */
    post_buffer(&s, n + 1, 0);
    send_one(&s, n + 1);
    take_one(&s, n + 1);
    CHECK_EQ(s.sent, s.received + n);
    scene_close(&s);
}

/* Invalid indices: the endpoint is stopped, and waiting packets are given up. */
TEST(forges, TEST_ASKS)
{
    struct scene s, t;
    unsigned i, k;

    for (k = 0; k < 3; k++) {
        scene_open(&s, true, UNETMM_POLICY_BACKUP, 0);
        scene_open_in(&t, s.ctx, true, UNETMM_POLICY_BACKUP, 0, 2);
        for (i = 0; i < 8; i++) {
            send_one(&s, i);
        }
        EVENTUALLY(ep_counter(&s.two, UNETMM_C_tail_arms) > 0);
        unetmm_write_index(&s.two.ep->index->user.fq_prod,
                           k == 0 ? 0x7fffffff : k == 1 ? DEPTH + 1 :
                           0xffffff00);
        unetmm_ring(s.two.ep);
        EVENTUALLY(unetmm_read_word(&s.two.ep->index->card.state) &
                   UNETMM_EP_ERROR);
        post_all(&t);
        for (i = 0; i < DEPTH; i++) {
            send_one(&t, i);
            take_one(&t, i);
        }
        scene_close_in(&t);
        scene_close(&s);
    }
}

static atomic_bool enough;

static void *flood(void *argument)
{
    struct scene *s = argument;
    struct iovec iov = { s->out, 64 };
    struct unetmm_completion c;
    int ret;

    frame_fill(s->out, 64, s->name + 1, s->name, 0);
    while (!atomic_load(&enough)) {
        ret = unetmm_send_frame(s->one.ep, &iov, 1, 0, 0, UNETMM_UNSIGNALED);
        CHECK(!ret || ret == -EAGAIN);
        CHECK_RET(unetmm_poll(s->one.ep, &c, 1), 0);
    }
    return NULL;
}

/*
 * The queue is as long as there are buffers, and frames come as fast as they can:
 * a process that has taken a completion has room for a buffer.
 */
TEST(room_for_all, TEST_ASKS)
{
    struct unetmm_completion c[16];
    pthread_t thread;
    struct scene s;
    unsigned i;
    int k, n;
    /* The card cannot be between two writes where it has to wait for us. */
    unsigned many = rounds(sysconf(_SC_NPROCESSORS_ONLN) > 1 ? 20000 : 2000);

    scene_open(&s, true, UNETMM_POLICY_BACKUP, 0);
    post_all(&s);
    atomic_store(&enough, false);
    CHECK_EQ(pthread_create(&thread, NULL, flood, &s), 0);
    for (i = 0; i < many; ) {
        n = unetmm_wait(s.two.ep, c, 16, NS_PER_S);
        CHECK(n >= 0);
        for (k = 0; k < n; k++) {
            post_buffer(&s, c[k].user_data, UNETMM_MORE);
        }
        i += (unsigned)n;
        if (i % 64 < (unsigned)n) {
            /* Cold again. */
            CHECK_SYS(madvise(s.own, DEPTH * ROOM, MADV_DONTNEED));
        }
    }
    atomic_store(&enough, true);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    scene_close(&s);
}

/* A page that somebody else is to bring: it holds back its own endpoint alone. */
TEST(held_back, TEST_ASKS)
{
    struct unetmm_completion c;
    uint8_t *kept;
    struct late late;
    struct scene s, t;
    unsigned i;

    late_make(&late, 2);
    scene_open(&s, true, UNETMM_POLICY_BACKUP, 0);
    scene_open_in(&t, s.ctx, true, UNETMM_POLICY_BACKUP, 0, 2);
    memset(s.own, 1, DEPTH * ROOM);
    kept = s.own;
    CHECK_RET(unetmm_post_recv(s.two.ep, late.at, ROOM, 0, UNETMM_MORE), 0);
    for (i = 1; i < 8; i++) {
        post_buffer(&s, i, 0);
    }
    for (i = 0; i < 8; i++) {
        send_one(&s, i);
    }
    CHECK_EQ(late_wanted(&late), 0);
    post_all(&t);
    for (i = 0; i < 4 * DEPTH; i++) {
        send_one(&t, i);
        take_one(&t, i);
        post_buffer(&t, i + DEPTH, 0);
    }
    CHECK(!take_now(&s.two, UNETMM_CQE_RECEIVED, &c));
    late_give(&late, 0, 3);
    take(&s.two, UNETMM_CQE_RECEIVED, &c);
    CHECK_EQ(c.user_data, 0);
    frame_check(late.at, length_of(0), 1, 0, 0);
    s.received++;
    for (i = 1; i < 8; i++) {
        take_one(&s, i);
    }
    CHECK(s.own == kept);
    adds_up(&s);
    scene_close_in(&t);
    scene_close(&s);
    late_unmap(&late);
    close(late.fd);
}

/* ---- Death ------------------------------------------------------------------------------ */

struct doomed {
    atomic_uint ready;
    atomic_uint how;
};

static struct doomed *doomed;

static void doomed_main(void *argument)
{
    struct late late;
    struct scene s;
    unsigned i;

    (void)argument;
    late_make(&late, 2);
    scene_open(&s, true, UNETMM_POLICY_BACKUP, 0);
    if (atomic_load(&doomed->how)) {
        CHECK_RET(unetmm_post_recv(s.two.ep, late.at, ROOM, 0, 0), 0);
    }
    for (i = 0; i < 20; i++) {
        send_one(&s, i);
    }
    if (atomic_load(&doomed->how)) {
        CHECK_EQ(late_wanted(&late), 0);
    }
    atomic_store(&doomed->ready, 1);
    for (;;) {
        pause();
    }
}

/* With packets that wait for a buffer, or for a page; another one goes on. */
TEST(killed, TEST_ASKS)
{
    struct scene t;
    unsigned i, k, n = rounds(6);

    doomed = shared_memory(sizeof(*doomed));
    scene_open(&t, true, UNETMM_POLICY_BACKUP, 0);
    post_all(&t);
    for (k = 0; k < n; k++) {
        pid_t pid;

        atomic_store(&doomed->ready, 0);
        atomic_store(&doomed->how, k % 2);
        pid = start_process(doomed_main, NULL);
        EVENTUALLY(atomic_load(&doomed->ready));
        CHECK_EQ(ring_has("endpoints"), 2);
        CHECK_SYS(kill(pid, SIGKILL));
        for (i = k * DEPTH; i < (k + 1) * DEPTH; i++) {
            send_one(&t, i);
            take_one(&t, i);
            post_buffer(&t, i + DEPTH, 0);
        }
        await_process(pid);
        EVENTUALLY(ring_has("endpoints") == 1);
    }
    CHECK_EQ(station_drops(&t.two), 0);
    adds_up(&t);
    scene_close(&t);
}

/* The card is taken away, or reset, with packets in the ring. */
static void pending(struct scene *s)
{
    unsigned i;

    scene_open(s, true, UNETMM_POLICY_BACKUP, 0);
    for (i = 0; i < 20; i++) {
        send_one(s, i);
    }
}

TEST(reset, TEST_ASKS | TEST_NO_CARD)
{
    struct scene s;

    card_find();
    pending(&s);
    card_write("reset", "1");
    CHECK_RET(unetmm_ep_destroy(s.one.ep), -ENODEV);
    CHECK_RET(unetmm_ep_destroy(s.two.ep), -ENODEV);
    unetmm_close(s.ctx);
    cold_frames();
}

TEST(removed, TEST_TLB | TEST_NO_CARD)
{
    struct scene s;

    card_find();
    pending(&s);
    card_write("remove", "1");
    CHECK(!card_present());
    CHECK(unetmm_ep_destroy(s.one.ep) < 0);
    CHECK(unetmm_ep_destroy(s.two.ep) < 0);
    unetmm_close(s.ctx);
    CHECK_RET(write_file("/sys/bus/pci/rescan", "1"), 0);
    card_find();
    cold_frames();
}

/* ---- How many ---------------------------------------------------------------------------- */

/* A process has a quarter of all at most, however many endpoints it has. */
TEST(shared, TEST_ASKS)
{
    struct unetmm_ep_attr attr = raw_attr(UNETMM_POLICY_BACKUP, 12);
    struct unetmm_ctx *ctx = open_card();
    struct station stations[8];
    unsigned i, before = 0, all = 0;
    int ret = 0;

    CHECK_RET(write_file(BUFFERS, "64"), 0);
    for (i = 0; i < 8 && !ret; i++) {
        ret = unetmm_ep_create(ctx, &attr, &stations[i].ep);
        if (!ret) {
            unsigned got = ring_has("reserved") - all;

            CHECK(got > 0 && (!before || got <= before));
            before = got;
            all += got;
        }
    }
    CHECK_RET(ret, -ENOSPC);
    CHECK_EQ(all, 16);
    for (i--; i-- > 0;) {
        CHECK_RET(unetmm_ep_destroy(stations[i].ep), 0);
    }
    CHECK_RET(write_file(BUFFERS, "2048"), 0);
    CHECK_RET(unetmm_close(ctx), 0);
    ring_is_gone();
}

/* No fresh buffer can be had: packets are given up, slots come back, no leak. */
TEST(out_of_memory, TEST_ASKS)
{
    unsigned i, status, failed = 0;
    struct unetmm_completion c;
    uint32_t numbers[40];
    struct scene s;

    inject_need();
    scene_open(&s, true, UNETMM_POLICY_BACKUP, 0);
    inject_into_workers(50, 1000000);
    for (i = 0; i < 40; i++) {
        numbers[s.sent] = i;
        status = try_one(&s, i);
        /* A send may also fail for want of memory. */
        if (status != UNETMM_ST_OK && status != UNETMM_ST_LIMIT) {
            inject_stop();
            FAIL("%s", unetmm_status_str(status));
        }
    }
    inject_stop();
    post_all(&s);
    for (i = 0; i < s.sent; i++) {
        CHECK_EQ(unetmm_wait(s.two.ep, &c, 1, 10 * NS_PER_S * run.slow), 1);
        CHECK_EQ(c.user_data, i);
        if (c.type == UNETMM_CQE_BUFFER) {
            CHECK_EQ(c.status, UNETMM_ST_LIMIT);
            failed++;
        } else {
            check_one(&s, &c, numbers[i]);
        }
    }
    note("%u of %u were given up", failed, (unsigned)s.sent);
    CHECK_EQ(s.sent, s.received + failed);
    scene_close(&s);
}

static void refused_source(unsigned source)
{
    struct unetmm_ep_attr attr = raw_attr(UNETMM_POLICY_BACKUP, 0);
    struct unetmm_ctx *ctx;
    struct unetmm_ep *ep;

    CHECK_RET(unetmm_open(NULL, source, &ctx), 0);
    CHECK_RET(unetmm_ep_create(ctx, &attr, &ep), -EOPNOTSUPP);
    attr.flags = 0;
    CHECK_RET(unetmm_ep_create(ctx, &attr, &ep), -EOPNOTSUPP);
    CHECK_RET(unetmm_close(ctx), 0);
}

TEST(refused, TEST_ASKS)
{
    static const struct unetmm_channel_attr usual = UNETMM_CHANNEL_ATTR_INIT;
    struct unetmm_ep_attr attr = raw_attr(UNETMM_POLICY_BACKUP, 0);
    struct unetmm_ctx *ctx = open_card();
    struct unetmm_info info;
    struct station two;
    struct unetmm_ep *ep;
    uint8_t mac[6];

    refused_source(UNETMM_SOURCE_PINNED);
    refused_source(UNETMM_SOURCE_UTLB);
    refused_source(UNETMM_SOURCE_KTLB);
    card_info(&info);
    card_mac(mac);
    CHECK(info.backup > 0);
    attr.backup = 65536;
    CHECK_RET(unetmm_ep_create(ctx, &attr, &ep), -EINVAL);
    attr.backup = 0;
    attr.pretranslate = 1;
    CHECK_RET(unetmm_ep_create(ctx, &attr, &ep), -EINVAL);
    attr.pretranslate = 0;
    attr.policy = UNETMM_POLICY_DROP;
    attr.backup = 1;
    CHECK_RET(unetmm_ep_create(ctx, &attr, &ep), -EINVAL);
    attr.policy = UNETMM_POLICY_BACKUP;
    attr.flags = 0;
    station_open(&two, ctx, &attr);
    CHECK_RET(unetmm_listen_ex(two.ep, 0x77, 1, &usual), -EPROTOTYPE);
    CHECK_RET(unetmm_connect_ex(two.ep, mac, 0x77, NS_PER_S, &usual, NULL),
              -EPROTOTYPE);
    station_close(&two);
    CHECK_RET(unetmm_close(ctx), 0);
}

/* ---- Accounting -------------------------------------------------------------- */

/* The ring's buffers are the group's that has caused them, as long as they are there. */
TEST(charged, TEST_TLB)
{
    long long before, during, ring;
    struct scene s;

    group_enter("charged");
    before = group_now("memory.current");
    scene_open(&s, true, UNETMM_POLICY_BACKUP, 0);
    during = group_now("memory.current") - before;
    ring = (long long)(driver_counter(s.ctx, UNETMM_D_backup_buffers) * 2 *
                       PAGE);
    note("%lld bytes charged, buffers of at least %lld", during, ring);
    CHECK(ring > 0 && during >= ring);
    before += during;
    scene_close(&s);
    EVENTUALLY(before - group_now("memory.current") >= ring);
}

#define HELD_UP_NS      (NS_PER_S / 2 * run.slow)

/* Its group may have no more memory: a thread that charges it sleeps. */
static void above_its_high(void *argument)
{
    struct scene s;
    unsigned i;

    (void)argument;
    group_enter("high");
    scene_open(&s, true, UNETMM_POLICY_BACKUP, 256);
    group_limit("memory.high", PAGE);
    for (i = 0; i < 200; i++) {
        send_one(&s, i);
    }
    CHECK(backed_up(&s) > 0);
    CHECK(group_now("memory.current") > (long long)PAGE);
    group_limit("memory.high", 0);
    scene_close(&s);
}

/* A group's missing memory delays no other process's misses. */
TEST(group_is_high, TEST_TLB)
{
    struct scene s;
    uint64_t worst = 0;
    unsigned i = 0, held_up = 0;
    pid_t pid;

    group_enter("other");
    scene_open_in(&s, open_card(), true, UNETMM_POLICY_DROP, 0, 2);
    pid = start_process(above_its_high, NULL);
    do {
        uint64_t start = now_ns(), took;

        CHECK_SYS(madvise(s.out, WINDOW * PAGE, MADV_DONTNEED));
        send_one(&s, i++);
        took = now_ns() - start;
        worst = took > worst ? took : worst;
        held_up += took >= HELD_UP_NS;
    } while (!has_ended(pid));
    end_process(pid);
    note("%u misses, the longest in %llu us", i,
         (unsigned long long)worst / 1000);
    /* The host may stand still once or twice; missing memory would be missed again and again. */
    CHECK(held_up < 3 && worst < 10 * HELD_UP_NS);
    scene_close_in(&s);
    CHECK_RET(unetmm_close(s.ctx), 0);
}

struct user {
    unsigned uid, eps;          /* its id, and how many endpoints it gets */
};

/* So many endpoints, and then none; those that end make room. */
static void has_a_share(void *argument)
{
    const struct user *user = argument;
    struct unetmm_ep_attr attr = raw_attr(UNETMM_POLICY_BACKUP, 8);
    struct unetmm_ep *ep, *eps[8];
    struct unetmm_ctx *ctx;
    uint64_t limited;
    unsigned i, round;

    attr.flags = 0;
    be_user(user->uid);
    ctx = open_card();
    for (round = 0; round < 2; round++) {
        limited = driver_counter(ctx, UNETMM_D_user_limited);
        for (i = 0; i < user->eps; i++) {
            CHECK_RET(unetmm_ep_create(ctx, &attr, &eps[i]), 0);
        }
        CHECK_RET(unetmm_ep_create(ctx, &attr, &ep), -EDQUOT);
        CHECK_EQ(driver_counter(ctx, UNETMM_D_user_limited), limited + 1);
        for (i = 0; i < user->eps; i++) {
            CHECK_RET(unetmm_ep_destroy(eps[i]), 0);
        }
    }
    CHECK_RET(unetmm_close(ctx), 0);
}

static void holds_its_share(void *argument)
{
    atomic_uint *state = argument;
    struct unetmm_ep_attr attr = raw_attr(UNETMM_POLICY_BACKUP, 8);
    struct unetmm_ep *eps[2];
    struct unetmm_ctx *ctx;

    attr.flags = 0;
    be_user(4242);
    ctx = open_card();
    CHECK_RET(unetmm_ep_create(ctx, &attr, &eps[0]), 0);
    CHECK_RET(unetmm_ep_create(ctx, &attr, &eps[1]), 0);
    end_process(start_process(has_a_share, &(struct user){ 4242, 0 }));
    atomic_store(state, 1);
    EVENTUALLY(atomic_load(state) == 2);
    /* Its endpoints end with it. */
}

#define PARAMETERS "/sys/module/unetmm/parameters/"

static void limit_users(const char *parameter, const char *few,
                        const char *usual)
{
    atomic_uint *state = shared_memory(PAGE);
    pid_t pid, other, again;
    int result[3];

    CHECK_RET(write_file(parameter, few), 0);
    pid = start_process(holds_its_share, state);
    EVENTUALLY(atomic_load(state) == 1);
    other = start_process(has_a_share, &(struct user){ 4243, 2 });
    result[0] = await_process(other);
    atomic_store(state, 2);
    result[1] = await_process(pid);
    again = start_process(has_a_share, &(struct user){ 4242, 2 });
    result[2] = await_process(again);
    CHECK_RET(write_file(parameter, usual), 0);
    CHECK_EQ(result[0], 0);
    CHECK_EQ(result[1], 0);
    CHECK_EQ(result[2], 0);
}

/* A user's processes share its limit; other users have limits of their own. */
TEST(shares, TEST_ASKS)
{
    limit_users(PARAMETERS "user_backup_buffers", "16", "0");
}
