/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An event loop: echoes a peer's messages, hello's for example; a line of input ends it.
 */
#include <libunetmm.h>
#include <poll.h>
#include <stdio.h>

#define SERVICE 100
#define BUFFERS 16

static char buffers[BUFFERS][16384];

/* Answers from the buffer itself; it is posted again once it has been sent. */
static int on_completion(struct unetmm_ep *ep, struct unetmm_completion *c)
{
    if (c->type == UNETMM_CQE_RECEIVED && c->is_inline) {
        return unetmm_send(ep, c->channel, c->data, c->len, 0,
                           UNETMM_INLINE | UNETMM_UNSIGNALED);
    }
    if (c->type == UNETMM_CQE_RECEIVED) {
        return unetmm_send(ep, c->channel, buffers[c->user_data], c->len,
                           c->user_data, 0);
    }
    return unetmm_post_recv(ep, buffers[c->user_data], 16384, c->user_data, 0);
}

int main(void)
{
    struct pollfd fds[2] = { { 0, POLLIN, 0 }, { -1, POLLIN, 0 } };
    struct unetmm_completion c[8];
    struct unetmm_ctx *ctx;
    struct unetmm_ep *ep;
    int i, n, ret;
    unsigned b;

    if ((ret = unetmm_open(NULL, UNETMM_SOURCE_TLB, &ctx)) ||
        (ret = unetmm_ep_create(ctx, NULL, &ep)) ||
        (ret = unetmm_listen(ep, SERVICE, 4))) {
        fprintf(stderr, "%s\n", unetmm_strerror(ret, UNETMM_CALL_ANY));
        return 1;
    }
    for (b = 0; b < BUFFERS && !ret; b++) {
        ret = unetmm_post_recv(ep, buffers[b], sizeof(buffers[b]), b, 0);
    }
    ret = ret ? ret : unetmm_accept(ep, NULL, -1);
    fds[1].fd = unetmm_fd(ep);
    while (ret >= 0 && !fds[0].revents) {
        ret = unetmm_arm(ep);
        for (n = unetmm_poll(ep, c, 8), i = 0; i < n && ret >= 0; i++) {
            ret = on_completion(ep, &c[i]);
        }
        ret = n < 0 ? n : ret;
        poll(fds, 2, n ? 0 : -1);
    }
    unetmm_ep_destroy(ep);
    unetmm_close(ctx);
    return ret < 0;
}
