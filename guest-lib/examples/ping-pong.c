/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Round trips of a short message.  Its bytes come in the completion: no side needs
 * a buffer.
 *
 *   ping-pong                        answers until the other side has finished
 *   ping-pong 52:54:00:00:00:01      asks there a thousand times
 */
#include <libunetmm.h>
#include <stdio.h>
#include <stdlib.h>

#define SERVICE 103
#define TURNS   1000u
#define SECOND  1000000000ll

/* Ends the program if a call has failed, with advice. */
static int check(int ret, enum unetmm_call call)
{
    if (ret < 0) {
        fprintf(stderr, "ping-pong: %s\n", unetmm_strerror(ret, call));
        exit(EXIT_FAILURE);
    }
    return ret;
}

int main(int argc, char **argv)
{
    struct unetmm_channel_attr attr = UNETMM_CHANNEL_ATTR_INIT;
    struct unetmm_completion c;
    struct unetmm_ctx *ctx;
    struct unetmm_ep *ep;
    uint32_t turn = 0;
    uint8_t mac[6];
    int channel;

    check(unetmm_open(NULL, UNETMM_SOURCE_TLB, &ctx), UNETMM_CALL_OPEN);
    check(unetmm_ep_create(ctx, NULL, &ep), UNETMM_CALL_EP_CREATE);
    if (argc > 1) {
        check(unetmm_resolve(argv[1], mac), UNETMM_CALL_CONNECT);
        channel = check(unetmm_connect(ep, mac, SERVICE, 60 * SECOND, NULL),
                        UNETMM_CALL_CONNECT);
        check(unetmm_send(ep, channel, &turn, 4, 0, UNETMM_UNSIGNALED),
              UNETMM_CALL_SEND);
    } else {
        attr.flags |= UNETMM_NOTIFY_CLOSE;
        check(unetmm_listen_ex(ep, SERVICE, 1, &attr), UNETMM_CALL_LISTEN);
        channel = check(unetmm_accept(ep, NULL, -1), UNETMM_CALL_ACCEPT);
    }
    while (check(unetmm_wait(ep, &c, 1, 60 * SECOND), UNETMM_CALL_POLL) &&
           c.type == UNETMM_CQE_RECEIVED && (++turn < TURNS || argc == 1)) {
        check(unetmm_send(ep, channel, c.data, c.len, 0, UNETMM_UNSIGNALED),
              UNETMM_CALL_SEND);
    }
    printf("%u turns\n", turn);
    check(unetmm_ep_destroy(ep), UNETMM_CALL_ANY);
    return check(unetmm_close(ctx), UNETMM_CALL_ANY) || turn != TURNS;
}
