/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A server by handlers: a thread of the library takes connections and answers
 * messages, while the program waits for the end of its standard input.
 *
 * Try it with the example hello of another host: hello MAC
 */
#include <libunetmm.h>

#include <stdio.h>
#include <stdlib.h>

#define SERVICE 100
#define BUFFERS 16

static char buffers[BUFFERS][4096];
static unsigned answered[65536];        /* by channel */

/* A buffer that a completion has brought back is posted again. */
static void post_again(struct unetmm_ep *ep, const struct unetmm_completion *c)
{
    unetmm_post_recv(ep, buffers[c->user_data], sizeof(buffers[0]), c->user_data,
                     UNETMM_MORE);
}

static void on_message(struct unetmm_ep *ep, const struct unetmm_completion *c,
                       void *arg)
{
    unsigned *count = arg;
    char answer[40];
    int n;

    if (c->type == UNETMM_CQE_RECEIVED) {
        n = snprintf(answer, sizeof(answer), "that was number %u", ++*count);
        unetmm_send(ep, c->channel, answer, (size_t)n, 0,
                    UNETMM_UNSIGNALED | UNETMM_MORE);
        if (!c->is_inline) {
            post_again(ep, c);
        }
    }
}

/*
 * The first message of a channel comes here, since nobody has set a handler for
 * it yet.  Nobody has accepted it either: we do, with all others that wait.
 */
static void on_other(struct unetmm_ep *ep, const struct unetmm_completion *c,
                     void *arg)
{
    int channel;

    (void)arg;
    if (c->type == UNETMM_CQE_BUFFER) {
        post_again(ep, c);
    } else if (c->type == UNETMM_CQE_RECEIVED) {
        while ((channel = unetmm_accept(ep, NULL, 0)) >= 0) {
            unetmm_set_handler(ep, channel, on_message,
                               &answered[channel]);
        }
        on_message(ep, c, &answered[c->channel]);
    }
}

static void on_end(struct unetmm_ep *ep, int error, void *arg)
{
    (void)ep;
    (void)arg;
    fprintf(stderr, "no more: %s\n",
            unetmm_strerror(error, UNETMM_CALL_HANDLERS));
    exit(EXIT_FAILURE);
}

int main(void)
{
    struct unetmm_ctx *ctx;
    struct unetmm_ep *ep;
    int i, ret;

    if ((ret = unetmm_open(NULL, UNETMM_SOURCE_TLB, &ctx)) ||
        (ret = unetmm_ep_create(ctx, NULL, &ep)) ||
        (ret = unetmm_set_handler(ep, UNETMM_EVERY_CHANNEL, on_other, NULL)) ||
        (ret = unetmm_listen(ep, SERVICE, 16))) {
        fprintf(stderr, "%s\n", unetmm_strerror(ret, UNETMM_CALL_ANY));
        return EXIT_FAILURE;
    }
    for (i = 0; i < BUFFERS; i++) {
        unetmm_post_recv(ep, buffers[i], sizeof(buffers[i]), (uint64_t)i, 0);
    }
    ret = unetmm_handlers_start(ep, on_end, NULL);
    while (!ret && getchar() != EOF) {
    }
    unetmm_ep_destroy(ep);
    for (i = 0; i < 65536; i++) {
        if (answered[i]) {
            printf("channel %d: %u messages\n", i, answered[i]);
        }
    }
    return unetmm_close(ctx) || ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
