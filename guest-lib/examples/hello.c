/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sends a line from the stack to a peer, and prints the peer's answer.
 *
 *   hello                        waits for a line and answers it
 *   hello 52:54:00:00:00:01      sends one there
 */
#include <libunetmm.h>
#include <stdio.h>
#include <stdlib.h>

#define SERVICE 100
#define SECOND  1000000000ll

/* Ends the program if a call has failed, with advice. */
static int check(int ret, enum unetmm_call call)
{
    if (ret < 0) {
        fprintf(stderr, "hello: %s\n", unetmm_strerror(ret, call));
        exit(EXIT_FAILURE);
    }
    return ret;
}

int main(int argc, char **argv)
{
    char line[] = "hello, out of ordinary memory", answer[4096];
    struct unetmm_completion c;
    struct unetmm_ctx *ctx;
    struct unetmm_ep *ep;
    uint8_t mac[6];
    int channel;

    check(unetmm_open(NULL, UNETMM_SOURCE_TLB, &ctx), UNETMM_CALL_OPEN);
    check(unetmm_ep_create(ctx, NULL, &ep), UNETMM_CALL_EP_CREATE);
    check(unetmm_post_recv(ep, answer, sizeof(answer), 0, 0), UNETMM_CALL_POST);
    if (argc > 1) {
        check(unetmm_resolve(argv[1], mac), UNETMM_CALL_CONNECT);
        channel = check(unetmm_connect(ep, mac, SERVICE, 5 * SECOND, NULL),
                        UNETMM_CALL_CONNECT);
        check(unetmm_send(ep, channel, line, sizeof(line), 0, UNETMM_UNSIGNALED),
              UNETMM_CALL_SEND);
    } else {
        check(unetmm_listen(ep, SERVICE, 1), UNETMM_CALL_LISTEN);
        channel = check(unetmm_accept(ep, NULL, -1), UNETMM_CALL_ACCEPT);
    }
    if (!check(unetmm_wait(ep, &c, 1, 10 * SECOND), UNETMM_CALL_POLL) ||
        c.type != UNETMM_CQE_RECEIVED) {
        fprintf(stderr, "hello: nothing came within ten seconds\n");
        return EXIT_FAILURE;
    }
    printf("%.*s\n", (int)c.len, c.is_inline ? (char *)c.data : answer);
    if (argc == 1) {
        check(unetmm_send(ep, channel, "well received", 14, 0, 0), UNETMM_CALL_SEND);
        check(unetmm_wait(ep, &c, 1, SECOND), UNETMM_CALL_POLL);
    }
    check(unetmm_ep_destroy(ep), UNETMM_CALL_ANY);
    return check(unetmm_close(ctx), UNETMM_CALL_ANY);
}
