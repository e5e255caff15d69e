/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A server with one epoll loop: it accepts connections, echoes each message, and
 * sees channels end.  The end of standard input ends it.
 */
#include <libunetmm.h>

#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

#define SERVICE 100
#define BUFFERS 16
#define NO_BUFFER BUFFERS

static char buffers[BUFFERS][16384];

/* Answers from the buffer itself; it is posted again once it has been sent. */
static int on_completion(struct unetmm_ep *ep, struct unetmm_completion *c)
{
    if (c->type == UNETMM_CQE_CLOSED) {
        printf("channel %u: %s\n", c->channel,
               c->status == UNETMM_ST_BAD_CHANNEL ? "the peer has finished" :
               unetmm_status_str(c->status));
        return unetmm_disconnect(ep, c->channel);
    }
    if (c->type == UNETMM_CQE_RECEIVED && c->is_inline) {
        return unetmm_send(ep, c->channel, c->data, c->len, NO_BUFFER,
                           UNETMM_INLINE | UNETMM_UNSIGNALED);
    }
    if (c->type == UNETMM_CQE_RECEIVED) {
        return unetmm_send(ep, c->channel, buffers[c->user_data], c->len,
                           c->user_data, 0);
    }
    if (c->user_data == NO_BUFFER) {
        return 0;               /* that answer has failed: its peer has left */
    }
    return unetmm_post_recv(ep, buffers[c->user_data], sizeof(buffers[0]),
                            c->user_data, 0);
}

static int watch(int set, int fd, uint32_t events)
{
    struct epoll_event event = { .events = events, .data.fd = fd };

    return epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

/* Until standard input ends or a call fails. */
static int serve(struct unetmm_ep *ep, int set)
{
    struct unetmm_completion c[8];
    struct epoll_event event = { .data.fd = -1 };
    char byte;
    int ret, n, i;

    for (;;) {
        /* 1: completions are there already: do not sleep. */
        ret = unetmm_arm(ep);
        if (ret < 0) {
            return ret;
        }
        if (epoll_wait(set, &event, 1, ret ? 0 : -1) > 0 && !event.data.fd &&
            read(0, &byte, 1) <= 0) {
            return 0;
        }
        while ((ret = unetmm_accept(ep, NULL, 0)) >= 0) {
            printf("channel %d: connected\n", ret);
        }
        for (n = unetmm_poll(ep, c, 8), i = 0; i < n; i++) {
            int error = on_completion(ep, &c[i]);

            if (error) {
                return error;
            }
        }
        if (ret != -ETIMEDOUT || n < 0) {
            return n < 0 ? n : ret;
        }
    }
}

int main(void)
{
    struct unetmm_channel_attr attr = UNETMM_CHANNEL_ATTR_INIT;
    int i, ret, set = epoll_create1(EPOLL_CLOEXEC);
    struct unetmm_ctx *ctx;
    struct unetmm_ep *ep;

    attr.flags |= UNETMM_NOTIFY_CLOSE;
    if ((ret = unetmm_open(NULL, UNETMM_SOURCE_TLB, &ctx)) ||
        (ret = unetmm_ep_create(ctx, NULL, &ep)) ||
        (ret = unetmm_listen_ex(ep, SERVICE, 16, &attr))) {
        fprintf(stderr, "%s\n", unetmm_strerror(ret, UNETMM_CALL_ANY));
        return 1;
    }
    for (i = 0; i < BUFFERS && !ret; i++) {
        ret = unetmm_post_recv(ep, buffers[i], sizeof(buffers[i]), (uint64_t)i,
                               0);
    }
    ret = ret ? ret : watch(set, 0, EPOLLIN);
    ret = ret ? ret : watch(set, unetmm_ctx_fd(ctx), EPOLLPRI);
    ret = ret ? ret : watch(set, unetmm_fd(ep), EPOLLIN);
    ret = ret ? ret : serve(ep, set);
    if (ret) {
        fprintf(stderr, "%s\n", unetmm_strerror(ret, UNETMM_CALL_ANY));
    }
    unetmm_ep_destroy(ep);
    unetmm_close(ctx);
    return ret != 0;
}
