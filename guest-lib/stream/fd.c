/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A stream by its file descriptor, for programs that poll.
 */
#include "stream.h"
#include "../src/sys/sys.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

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
        stream_probe(s, stream_now());
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
