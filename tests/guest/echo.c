/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The far side of tests with two guests: sends back what it receives, straight
 * from the buffers that it received it in, or counts and checks it.  What it
 * may be asked is in link.h.
 *
 * The work is done by a child, which a test may have killed; another takes its
 * place.  It ends when it is told to, and says then whether all was well.
 */
#include "guard.h"
#include "link.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BUFFERS         32
#define BUFFER_PAGES    17      /* the longest frame there is */

struct server {
    struct station station;
    uint8_t *buffers[BUFFERS];
    bool sink;
    uint64_t count, bad, doubles;
    bool seen[SINK_NAMES];
};

static void post_buffer(struct server *s, uint64_t number)
{
    CHECK(number < BUFFERS);
    post(&s->station, s->buffers[number], BUFFER_PAGES * PAGE, number);
}

/* Takes all who wait; a message may come on a channel before that. */
static void accept_all(struct server *s)
{
    int got;

    do {
        got = unetmm_accept(s->station.ep, NULL, 0);
    } while (got >= 0);
    CHECK_RET(got, -EAGAIN);
}

/* Sends, without stashing what completes meanwhile; false: it cannot be. */
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

/* ---- Orders ------------------------------------------------------------------------ */

static uint64_t frames_in(struct server *s)
{
    uint64_t values[UNETMM_NUM_COUNTERS];

    CHECK(unetmm_counters(s->station.ctx, UNETMM_SCOPE_CARD, 0, values,
                          UNETMM_NUM_COUNTERS) > 0);
    return frames_from_wire(values);
}

static uint64_t drops(struct server *s)
{
    uint64_t values[UNETMM_NUM_COUNTERS];

    CHECK(unetmm_counters(s->station.ctx, UNETMM_SCOPE_CARD, 0, values,
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

/* False: told to end. */
static bool received(struct server *s, const struct unetmm_completion *c)
{
    const uint8_t *data = c->is_inline ? c->data : s->buffers[c->cookie];
    struct peer_message order;

    if (is_order(c, &order)) {
        order.value = obey(s, &order);
        send_back(s, c->channel, &order, sizeof(order), BUFFERS,
                  UNETMM_QUIET | UNETMM_INLINE);
        return order.op != PEER_QUIT;
    }
    if (s->sink) {
        check_message(s, data, c->len);
    } else if (c->is_inline) {
        send_back(s, c->channel, data, c->len, BUFFERS,
                  UNETMM_QUIET | UNETMM_INLINE);
        return true;
    } else if (send_back(s, c->channel, data, c->len, c->cookie, 0)) {
        return true;
    }
    if (!c->is_inline) {
        post_buffer(s, c->cookie);
    }
    return true;
}

static bool handle(struct server *s, const struct unetmm_completion *c)
{
    switch (c->type) {
    case UNETMM_CQE_RECEIVED:
        return received(s, c);
    case UNETMM_CQE_SENT:
    case UNETMM_CQE_BUFFER:
        if (c->type == UNETMM_CQE_BUFFER &&
            c->status != UNETMM_ST_SKIPPED) {
            FAIL("a buffer came back: %s", unetmm_status_str(c->status));
        }
        /* A quiet send that failed had none: its channel has closed. */
        if (c->cookie < BUFFERS) {
            post_buffer(s, c->cookie);
        }
        return true;
    default:
        FAIL("the endpoint was stopped: %s", unetmm_status_str(c->status));
    }
}

static void serve(void *argument)
{
    static struct server s;
    struct unetmm_ep_attr attr = default_attr();
    struct unetmm_completion c;
    bool more = true;
    unsigned i;

    (void)argument;
    attr.spin_ns = 100000;
    station_open(&s.station, open_card(), &attr);
    for (i = 0; i < BUFFERS; i++) {
        s.buffers[i] = pages(BUFFER_PAGES);
        post_buffer(&s, i);
    }
    CHECK_RET(unetmm_listen(s.station.ep, SERVICE_ECHO, 16), 0);
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
    station_close(&s.station);
    CHECK_RET(unetmm_close(s.station.ctx), 0);
}

static void echo(void)
{
    int status;
    pid_t pid;

    do {
        pid = start_process(serve, NULL);
        CHECK_SYS(waitpid(pid, &status, 0));
    } while (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
}

static const struct test tests[] = {
    { "serves", echo, TEST_TLB, 1800 },
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, "echo", tests,
                     sizeof(tests) / sizeof(tests[0]));
}
