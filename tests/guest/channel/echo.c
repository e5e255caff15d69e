/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The far side of tests with two guests: sends messages back, straight from the
 * buffers that they arrived in, or counts and checks it.  link.h has its requests.
 *
 * The work is done by children: for datagrams, for reliable channels, for those
 * with policy redirect, and for streams.  A test may have one killed; another takes
 * its place.  The first ends when it is told to, and says then whether all was well.
 */
#include "guard.h"
#include "link.h"
#include "streamer.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define BUFFERS         32

/* The endpoint that one of the two serves, and its memory. */
struct way {
    unsigned source;
    uint64_t service;
    struct unetmm_channel_attr attr;
    unsigned buffers, buffer_pages;
};

/* The longest frame there is; the longest message.  One can be found by peers. */
static const struct way datagrams = {
    UNETMM_SOURCE_TLB, SERVICE_ECHO,
    { sizeof(datagrams.attr), UNETMM_DATAGRAM | UNETMM_ANNOUNCE, 0, 0, 0, 0 },
    BUFFERS, 17,
};
static const struct way reliable = {
    UNETMM_SOURCE_PINNED, SERVICE_MIRROR, UNETMM_CHANNEL_ATTR_INIT, 10,
    UNETMM_MAX_MESSAGE / UNETMM_PAGE_BYTES,
};

/* Of which nothing is there when it is needed. */
static const struct way absent = {
    UNETMM_SOURCE_SHADOW, SERVICE_ABSENT, UNETMM_CHANNEL_ATTR_INIT, 8,
    ABSENT_BYTES / UNETMM_PAGE_BYTES,
};

struct server {
    const struct way *way;
    uint8_t *exported, *moving, *elsewhere;
    struct unetmm_sync_home *sem, *queue;
    unsigned moves;
    struct station station;
    uint8_t *buffers[BUFFERS];
    bool sink;
    uint64_t count, bad, doubles;
    bool seen[SINK_NAMES];
};

static void post_buffer(struct server *s, uint64_t number)
{
    size_t bytes = s->way->buffer_pages * PAGE;

    CHECK(number < s->way->buffers);
    post(&s->station, s->buffers[number], bytes, number);
    /* The card has looked whether it is there, and now it is not. */
    if (s->way == &absent) {
        CHECK_SYS(madvise(s->buffers[number], bytes, MADV_DONTNEED));
    }
}

/* Takes all waiting ones; a message may come on a channel before that. */
static void accept_all(struct server *s)
{
    int got;

    do {
        got = unetmm_accept(s->station.ep, NULL, 0);
    } while (got >= 0);
    CHECK_RET(got, -ETIMEDOUT);
}

/* Sends, without stashing completions that come meanwhile; false: it cannot be. */
static bool send_back(struct server *s, unsigned channel, const void *data,
                      size_t len, uint64_t cookie, unsigned flags)
{
    uint64_t end = deadline_in(10);
    int ret;

    if (unetmm_channel_mtu(s->station.ep, channel) < 0) {
        accept_all(s);
    }
    while ((ret = unetmm_send(s->station.ep, channel, data, len, cookie,
                              flags)) == -EAGAIN) {
        CHECK(now_ns() < end);
        breathe();
    }
    return ret == 0;
}

/* ---- Members of the other guest's homes -------------------------------------- */

struct guest_member {
    pid_t pid;
    uint64_t order;
    struct member_state {                       /* shared */
        enum { ASKS, HOLDS, CUT_OFF } is;
        bool go_on;
    } *state;
};
static struct guest_member members[PEER_MEMBERS_MOST];

/* Has one, and asks for another when it may. */
static int keep_one(struct guest_member *m, struct unetmm_sync *sync,
                    int64_t patience)
{
    int ret = unetmm_sem_wait(sync, patience);

    if (ret == 1) {
        __atomic_store_n(&m->state->is, HOLDS, __ATOMIC_RELEASE);
        while (!__atomic_load_n(&m->state->go_on, __ATOMIC_ACQUIRE)) {
            breathe();
        }
        ret = unetmm_sem_wait(sync, patience);
    }
    return ret;
}

static void be_member(void *argument)
{
    struct guest_member *m = argument;
    bool queue = (m->order & 0xff) >= PEER_QUEUE;
    int64_t patience = (int64_t)(600 * NS_PER_S);
    struct unetmm_sync *sync;
    struct unetmm_ctx *ctx;
    uint8_t mac[6];
    unsigned i;
    int ret;

    for (i = 0; i < sizeof(mac); i++) {
        mac[i] = (uint8_t)(m->order >> (48 - 8 * i));
    }
    run.source = UNETMM_SOURCE_TLB;
    ctx = open_card();
    CHECK_RET(unetmm_sync_open(ctx, mac, queue ? QUEUE_AT_HOME :
                               SERVICE_AT_HOME, patience, &sync), 0);
    /* It finds messages that came while it stood still when it goes on. */
    do {
        ret = queue ? unetmm_waitq_wait(sync, patience) :
            keep_one(m, sync, patience);
    } while (ret == 1);
    CHECK_RET(ret, -ENOTCONN);
    __atomic_store_n(&m->state->is, CUT_OFF, __ATOMIC_RELEASE);
    CHECK_RET(unetmm_sync_close(sync), 0);
    CHECK_RET(unetmm_close(ctx), 0);
}

static void join_member(uint64_t order)
{
    unsigned i;

    for (i = 0; i < PEER_MEMBERS_MOST && members[i].pid; i++) {
        if (members[i].order == order) {
            return;
        }
    }
    CHECK(i < PEER_MEMBERS_MOST);
    members[i].order = order;
    members[i].state = shared_memory(sizeof(*members[i].state));
    members[i].pid = start_process(be_member, &members[i]);
}

static uint64_t look_at_members(bool go_on)
{
    unsigned i, count[CUT_OFF + 1] = { 0 };

    for (i = 0; i < PEER_MEMBERS_MOST && members[i].pid; i++) {
        count[__atomic_load_n(&members[i].state->is, __ATOMIC_ACQUIRE)]++;
        if (go_on) {
            __atomic_store_n(&members[i].state->go_on, true, __ATOMIC_RELEASE);
        }
    }
    return peer_members(count[HOLDS], count[CUT_OFF]);
}

static void part_members(void)
{
    unsigned i;

    for (i = 0; i < PEER_MEMBERS_MOST && members[i].pid; i++) {
        CHECK_SYS(kill(members[i].pid, SIGKILL));
        (void)await_process(members[i].pid);
        munmap(members[i].state, sizeof(*members[i].state));
        members[i] = (struct guest_member) { 0 };
    }
}

/* ---- Orders ------------------------------------------------------------------------ */

static uint64_t frames_in(struct server *s)
{
    uint64_t values[UNETMM_NUM_COUNTERS];

    CHECK(unetmm_stats_read(s->station.ctx, UNETMM_SCOPE_CARD, 0, values,
                            UNETMM_NUM_COUNTERS) > 0);
    return frames_from_wire(values);
}

static uint64_t drops(struct server *s)
{
    uint64_t values[UNETMM_NUM_COUNTERS];

    CHECK(unetmm_stats_read(s->station.ctx, UNETMM_SCOPE_CARD, 0, values,
                            UNETMM_NUM_COUNTERS) > 0);
    return sum_of_drops(values);
}

static uint64_t obey(struct server *s, const struct peer_message *order)
{
    switch (order->op) {
    case PEER_ECHO:
    case PEER_SINK:
        s->sink = order->op == PEER_SINK;
        s->count = s->bad = s->doubles = 0;
        memset(s->seen, 0, sizeof(s->seen));
        return 0;
    case PEER_COUNT:
        return s->count;
    case PEER_BAD:
        return s->bad;
    case PEER_FRAMES_IN:
        return frames_in(s);
    case PEER_DOUBLES:
        return s->doubles;
    case PEER_DROPS:
        return drops(s);
    case PEER_AWAY:
        CHECK(s->way == &absent);
        CHECK_SYS(madvise(s->exported, ABSENT_BYTES, MADV_DONTNEED));
        return ep_counter(&s->station, UNETMM_C_sysbuf_packets);
    case PEER_JOIN:
        join_member(order->value);
        return 0;
    case PEER_MEMBERS:
        return look_at_members(order->value);
    case PEER_LEAVE:
        part_members();
        return 0;
    case PEER_DIE:
        raise(SIGKILL);
        return 0;
    default:
        return 0;
    }
}

static bool is_order(const struct unetmm_completion *c,
                     struct peer_message *order)
{
    if (!c->is_inline || c->len != sizeof(*order)) {
        return false;
    }
    memcpy(order, c->data, sizeof(*order));
    return order->magic == PEER_MAGIC;
}

/* ---- Messages ------------------------------------------------------------------------ */

static void check_message(struct server *s, const uint8_t *data, size_t len)
{
    uint64_t number;

    s->count++;
    if (len < sizeof(number)) {
        s->bad++;
        return;
    }
    memcpy(&number, data, sizeof(number));
    if (pattern_check(data + sizeof(number), len - sizeof(number),
                      pattern_key(SINK_SEED, number), sizeof(number)) !=
        len - sizeof(number)) {
        s->bad++;
    }
    if (number < SINK_NAMES) {
        s->doubles += s->seen[number];
        s->seen[number] = true;
    }
}

/* The asking peer has exported it, or has gone. */
static void count_here(struct server *s, unsigned channel,
                       const struct peer_message *order)
{
    int import;

    /* Its channel may not have been taken yet. */
    if (unetmm_channel_mtu(s->station.ep, channel) < 0) {
        accept_all(s);
    }
    import = unetmm_import(s->station.ep, channel, COUNTED_EXPORT,
                           UNETMM_RIGHT_WRITE, 10 * NS_PER_S * run.slow, NULL);
    if (import >= 0) {
        count_to(s->station.ep, (unsigned)import, order->number, order->value);
        CHECK_RET(unetmm_unimport(s->station.ep, (unsigned)import), 0);
    }
}

/* False: told to end. */
static bool received(struct server *s, const struct unetmm_completion *c)
{
    const uint8_t *data = c->is_inline ? c->data : s->buffers[c->user_data];
    struct peer_message order;

    if (is_order(c, &order)) {
        if (order.op == PEER_COUNT_HERE) {
            count_here(s, c->channel, &order);
        }
        order.value = obey(s, &order);
        send_back(s, c->channel, &order, sizeof(order), BUFFERS,
                  UNETMM_UNSIGNALED | UNETMM_INLINE);
        return order.op != PEER_QUIT;
    }
    if (s->sink) {
        check_message(s, data, c->len);
    } else if (c->is_inline) {
        send_back(s, c->channel, data, c->len, BUFFERS,
                  UNETMM_UNSIGNALED | UNETMM_INLINE);
        return true;
    } else if (send_back(s, c->channel, data, c->len, c->user_data, 0)) {
        return true;
    }
    if (!c->is_inline) {
        post_buffer(s, c->user_data);
    }
    return true;
}

/* Came back unfilled: the policy, or a message whose channel has ended. */
static bool is_returned(const struct unetmm_completion *c)
{
    return c->status == UNETMM_ST_SKIPPED ||
        c->status == UNETMM_ST_BAD_CHANNEL || c->status == UNETMM_ST_FLUSHED;
}

#define MOVING_COOKIE   1

/* Two parts of different sizes come and go, each in its turn. */
static void move_on(struct server *s)
{
    static const struct part {
        uint64_t offset;
        size_t length;
    } parts[] = { { 777, 100001 }, { 100778, 70003 } };
    uint64_t *moved = (void *)(s->exported + MIRROR_MOVED);
    const struct part *part = &parts[s->moves / 2 % 2];
    struct unetmm_redirected what;

    if (s->moves++ % 2) {
        CHECK_RET(unetmm_redirect_back(s->station.ctx, MOVING_EXPORT,
                                       part->offset, 0, &what), 0);
    } else {
        CHECK_RET(unetmm_redirect(s->station.ctx, MOVING_EXPORT, part->offset,
                                  s->elsewhere + 1, part->length, &what), 0);
    }
    moved[0]++;
    moved[1] += what.copied;
}

static void notified(struct server *s, const struct unetmm_completion *c)
{
    uint64_t *seen = (void *)(s->exported + MIRROR_SEEN);
    uint64_t next = seen[0];

    if (c->user_data == MOVING_COOKIE) {
        move_on(s);
        return;
    }
    seen[1] += unetmm_notify_imm(c) != (uint32_t)next;
    __atomic_store_n(&seen[0], next + 1, __ATOMIC_RELEASE);
}

static bool handle(struct server *s, const struct unetmm_completion *c)
{
    switch (c->type) {
    case UNETMM_CQE_RECEIVED:
        return received(s, c);
    case UNETMM_CQE_NOTIFY:
        notified(s, c);
        return true;
    case UNETMM_CQE_SENT:
    case UNETMM_CQE_BUFFER:
        if (c->type == UNETMM_CQE_BUFFER && !is_returned(c)) {
            FAIL("a buffer came back: %s", unetmm_status_str(c->status));
        }
        /* A quiet send that failed had none: its channel has closed. */
        if (c->user_data < BUFFERS) {
            post_buffer(s, c->user_data);
        }
        return true;
    default:
        FAIL("the endpoint was stopped: %s", unetmm_status_str(c->status));
    }
}

/* Exports that peers may import, and homes that they may open. */
static void publish(struct server *s)
{
    if (s->way == &reliable) {
        s->exported = pages((unsigned)(MIRROR_BYTES / PAGE));
        CHECK_RET(unetmm_export(s->station.ctx, MIRROR_EXPORT, s->exported,
                                MIRROR_BYTES, UNETMM_RIGHT_ALL,
                                UNETMM_EXPORT_NOTIFY, 0), 0);
        s->moving = pages((unsigned)(MOVING_BYTES / PAGE));
        s->elsewhere = pages((unsigned)(MOVING_BYTES / PAGE));
        CHECK_RET(unetmm_export(s->station.ctx, MOVING_EXPORT, s->moving,
                                MOVING_BYTES, UNETMM_RIGHT_ALL,
                                UNETMM_EXPORT_NOTIFY |
                                UNETMM_EXPORT_REDIRECT, MOVING_COOKIE), 0);
        CHECK_RET(unetmm_sem_home(s->station.ctx, SERVICE_SEM, SEM_UNITS,
                                  &s->sem), 0);
        CHECK_RET(unetmm_waitq_home(s->station.ctx, SERVICE_QUEUE, &s->queue),
                  0);
    }
    if (s->way == &absent) {
        s->exported = pages((unsigned)(ABSENT_BYTES / PAGE));
        CHECK_RET(unetmm_export(s->station.ctx, ABSENT_EXPORT, s->exported,
                                ABSENT_BYTES, UNETMM_RIGHT_ALL, 0, 0), 0);
    }
}

static void serve(void *argument)
{
    static struct server s;
    struct unetmm_ep_attr attr = default_attr();
    struct unetmm_completion c;
    bool more = true;
    unsigned i;
    int ret;

    s.way = argument;
    run.source = s.way->source;
    attr.spin_ns = 100000;
    if (s.way == &absent) {
        attr.policy = UNETMM_POLICY_REDIRECT;
    }
    station_open(&s.station, open_card(), &attr);
    for (i = 0; i < s.way->buffers; i++) {
        s.buffers[i] = pages(s.way->buffer_pages);
        reach(s.station.ctx, s.buffers[i], s.way->buffer_pages * PAGE, true);
        post_buffer(&s, i);
    }
    publish(&s);
    /* One that was killed may not be quite dead. */
    EVENTUALLY((ret = unetmm_listen_ex(s.station.ep, s.way->service, 16,
                                       &s.way->attr)) != -EADDRINUSE);
    CHECK_RET(ret, 0);
    while (more) {
        int got = unetmm_wait(s.station.ep, &c, 1, 2 * NS_PER_MS);

        if (got > 0) {
            more = handle(&s, &c);
        } else {
            CHECK_RET(got, 0);
            accept_all(&s);
        }
    }
    EVENTUALLY(unetmm_send_pending(s.station.ep) == 0);
    if (s.sem) {
        CHECK_RET(unetmm_sync_home_close(s.sem), 0);
        CHECK_RET(unetmm_sync_home_close(s.queue), 0);
    }
    station_close(&s.station);
    CHECK_RET(unetmm_close(s.station.ctx), 0);
}

static void serve_streams(void *argument)
{
    (void)argument;
    run.source = UNETMM_SOURCE_TLB;
    streams_serve(open_card(), SERVICE_STREAMS, NULL);
}

static const struct child {
    void (*serve)(void *argument);
    const struct way *way;
} children[] = {
    { serve, &datagrams },
    { serve, &reliable },
    { serve, &absent },
    { serve_streams, NULL },
};
#define CHILDREN (sizeof(children) / sizeof(children[0]))

static pid_t start_child(const struct child *child)
{
    return start_process(child->serve, (void *)(uintptr_t)child->way);
}

static bool was_killed(int status)
{
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

static void kill_server(pid_t pid)
{
    CHECK_SYS(kill(pid, SIGKILL));
    CHECK(was_killed(await_process(pid)));
}

TEST_NAMED("serves", echo, TEST_TLB, 1800)
{
    pid_t pids[CHILDREN], ended;
    unsigned i;
    int status;

    for (i = 0; i < CHILDREN; i++) {
        pids[i] = start_child(&children[i]);
    }
    for (;;) {
        ended = CHECK_SYS(waitpid(-1, &status, 0));
        for (i = 0; i < CHILDREN && pids[i] != ended; i++) {
        }
        if (i < CHILDREN && was_killed(status)) {
            pids[i] = start_child(&children[i]);
        } else if (i < CHILDREN) {
            CHECK_EQ(i, 0);
            break;
        }
    }
    CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
    for (i = 1; i < CHILDREN; i++) {
        kill_server(pids[i]);
    }
}
