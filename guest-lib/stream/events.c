/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Events of a stream: completions, the peer's words, its end; and waiting
 * for them.
 */
#include "internal.h"
#include "../src/base/sys.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define BATCH   16u

int64_t stream_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t stream_deadline(int64_t timeout_ns)
{
    int64_t now = stream_now();

    return timeout_ns < 0 || timeout_ns > INT64_MAX - now ? INT64_MAX :
           now + timeout_ns;
}

int stream_check(const struct unetmm_stream *s)
{
    return unetmm_fd(s->ep) == -EOWNERDEAD ? -EOWNERDEAD : 0;
}

void stream_fail(struct unetmm_stream *s, int error)
{
    if (!s->error) {
        s->error = error;
    }
}

/*
 * A peer that has announced the end of its data, and has had all our bytes, may go
 * before a credit or a question of ours has reached it: -EPIPE, see error_of().
 */
int stream_error(const struct unetmm_stream *s)
{
    return s->error == -EPIPE && s->failed > s->last_data ? 0 : s->error;
}

/* ---- Completions ------------------------------------------------------- */

/* Why an operation on the peer's memory failed, in a word of POSIX. */
static int error_of(const struct unetmm_stream *s, unsigned status)
{
    switch (status) {
    case UNETMM_ST_TIMEOUT:
    case UNETMM_ST_NOT_READY:
        return -ETIMEDOUT;
    case UNETMM_ST_PROTECTION:
    case UNETMM_ST_UNSUPPORTED:
    case UNETMM_ST_TOO_LARGE:
        return -EFAULT;
    case UNETMM_ST_LIMIT:
        return -ENOMEM;
    case UNETMM_ST_REMOTE_RANGE:
    case UNETMM_ST_REMOTE_RIGHT:
        return -EPROTO;
    default:
        /* Its channel or ring is no more; did it say that it would go? */
        return s->flow.fin_in ? -EPIPE : -ECONNRESET;
    }
}

static void on_sent(struct unetmm_stream *s, const struct unetmm_completion *c)
{
    /* Operations end in their order. */
    if (c->user_data > s->done && c->user_data <= s->posted) {
        s->done = c->user_data;
    }
    if (c->status) {
        if (!s->failed) {
            s->failed = c->user_data;
        }
        stream_fail(s, error_of(s, c->status));
    }
}

static void on_notify(struct unetmm_stream *s, const struct unetmm_completion *c)
{
    if (!flow_take(&s->flow, unetmm_notify_imm(c), unetmm_notify_offset(c),
                   c->len)) {
        stream_fail(s, -EPROTO);
    }
}

/*
 * An endpoint that was made for the first caller may have had a second one; the
 * second channel was closed at once.
 */
static void on_completion(struct unetmm_stream *s, const struct unetmm_completion *c)
{
    if (c->type == UNETMM_CQE_FAILED) {
        stream_fail(s, -EIO);
        return;
    }
    if (s->channel < 0 || c->channel != s->channel) {
        return;
    }
    if (c->type == UNETMM_CQE_SENT) {
        on_sent(s, c);
    } else if (c->type == UNETMM_CQE_RECEIVED) {
        stream_greeting(s, c);
    } else if (c->type == UNETMM_CQE_NOTIFY && s->error != -EPROTO) {
        on_notify(s, c);
    }
}

static int take(struct unetmm_stream *s, const struct unetmm_completion *c, int n)
{
    int i;

    if (n == -EIO) {
        stream_fail(s, -EIO);
        return 0;
    }
    for (i = 0; i < n; i++) {
        on_completion(s, &c[i]);
    }
    return n < 0 ? n : 0;
}

int stream_look(struct unetmm_stream *s)
{
    struct unetmm_completion c[BATCH];
    int n;

    do {
        n = unetmm_poll(s->ep, c, BATCH);
        if (n == -EOWNERDEAD) {
            return n;
        }
        take(s, c, n);
    } while (n == (int)BATCH);
    stream_import(s);
    return 0;
}

/* ---- Is the peer still there? ------------------------------------------ */

/*
 * A write of nothing is acknowledged by a card that still has the ring; before we
 * know the ring, a message of one byte.
 */
static int ask(struct unetmm_stream *s)
{
    return s->import < 0 ?
        unetmm_send(s->ep, s->channel, "?", 1, s->posted + 1, 0) :
        unetmm_write(s->ep, s->import, 0, NULL, 0, 0,
                     s->posted + 1, 0);
}

static void probe(struct unetmm_stream *s, int64_t now)
{
    if (s->channel < 0 || s->error || s->last_probe > s->done ||
        now - s->probed_ns < PROBE_NS) {
        return;
    }
    s->probed_ns = now;
    if (!ask(s)) {
        s->last_probe = ++s->posted;
        s->stats.probes++;
    }
}

int stream_wait(struct unetmm_stream *s, int64_t deadline_ns)
{
    struct unetmm_completion c[BATCH];
    int64_t now = stream_now(), left = deadline_ns - now, nap = stream_nap(s, now);
    int n;

    if (left <= 0) {
        n = stream_look(s);
        return n ? n : -ETIMEDOUT;
    }
    n = unetmm_wait(s->ep, c, BATCH, left < nap ? left : nap);
    stream_import(s);
    if (!n) {
        probe(s, stream_now());
        return 0;
    }
    return take(s, c, n);
}

/* ---- By file descriptor ------------------------------------------------ */

static bool add_to_poll(int poll_fd, int fd)
{
    struct epoll_event event = { .events = EPOLLIN };

    return !epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &event);
}

/* One descriptor for both: something has come; it is time to ask the peer. */
int unetmm_stream_fd(struct unetmm_stream *s)
{
    int ret = stream_check(s), saved = errno;

    if (ret || s->poll_fd >= 0) {
        return ret ? ret : s->poll_fd;
    }
    s->poll_fd = epoll_create1(EPOLL_CLOEXEC);
    s->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (s->poll_fd < 0 || s->timer_fd < 0 ||
        !add_to_poll(s->poll_fd, unetmm_fd(s->ep)) ||
        !add_to_poll(s->poll_fd, s->timer_fd)) {
        ret = -errno;
        sys_close(s->poll_fd);
        sys_close(s->timer_fd);
        s->poll_fd = s->timer_fd = -1;
    }
    errno = saved;
    return ret ? ret : s->poll_fd;
}

static bool stage_free(const struct unetmm_stream *s)
{
    return s->stage_used[s->next_stage] <= s->done;
}

static int ready(const struct unetmm_stream *s, short events)
{
    int ready = stream_error(s) ? POLLERR : 0;

    if (events & POLLIN &&
        (s->error || s->flow.fin_in || flow_there(&s->flow))) {
        ready |= POLLIN;
    }
    if (events & POLLOUT &&
        (s->error || s->flow.fin_out ||
         (flow_room(&s->flow) && stage_free(s)))) {
        ready |= POLLOUT;
    }
    return ready;
}

int unetmm_stream_arm(struct unetmm_stream *s, short events)
{
    struct itimerspec soon = { 0 };
    int ret = stream_check(s), saved = errno;

    if (ret || (ret = unetmm_stream_fd(s)) < 0) {
        return ret;
    }
    do {
        ret = stream_look(s);
        if (ret) {
            return ret;
        }
        stream_credit(s);
        ret = ready(s, events);
        if (ret) {
            return ret;
        }
        probe(s, stream_now());
        ret = unetmm_arm(s->ep);
    } while (ret == 1);
    if (!ret) {
        /* Set anew, it is no longer readable. */
        soon.it_value.tv_nsec = (long)stream_nap(s, stream_now());
        timerfd_settime(s->timer_fd, 0, &soon, NULL);
        errno = saved;
    }
    return ret;
}
