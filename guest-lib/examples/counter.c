/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sleeps until a peer's writes have counted to three.
 *
 *   counter                        exports a page with an event counter
 *   counter 52:54:00:00:00:01      writes there three times
 */
#include <libunetmm.h>
#include <stdio.h>
#include <stdlib.h>

#define SERVICE 105
#define ID      1
#define SECOND  1000000000ll

static uint64_t words[512];

/* Ends the program if a call has failed, with advice. */
static int check(int ret, enum unetmm_call call)
{
    if (ret < 0) {
        fprintf(stderr, "counter: %s\n", unetmm_strerror(ret, call));
        exit(EXIT_FAILURE);
    }
    return ret;
}

int main(int argc, char **argv)
{
    struct unetmm_event_counter *counter;
    struct unetmm_ctx *ctx;
    struct unetmm_ep *ep;
    uint8_t mac[6];
    uint64_t i;
    int n;

    check(unetmm_open(NULL, UNETMM_SOURCE_TLB, &ctx), UNETMM_CALL_OPEN);
    check(unetmm_ep_create(ctx, NULL, &ep), UNETMM_CALL_EP_CREATE);
    if (argc > 1) {
        check(unetmm_resolve(argv[1], mac), UNETMM_CALL_CONNECT);
        n = check(unetmm_connect(ep, mac, SERVICE, 60 * SECOND, NULL),
                  UNETMM_CALL_CONNECT);
        n = check(unetmm_import(ep, n, ID, 0, SECOND, NULL), UNETMM_CALL_IMPORT);
        for (i = 1; i <= 3; i++) {
            /* Counts on the export's counter 0, when the bytes are there. */
            check(unetmm_write_sync(ep, n, 8 * i, &i, sizeof(i), 0, UNETMM_COUNT,
                                    SECOND), UNETMM_CALL_ONE_SIDED);
        }
        return EXIT_SUCCESS;
    }
    check(unetmm_event_create(ctx, 1, &counter), UNETMM_CALL_EVENT);
    check(unetmm_export_events(ctx, ID, words, sizeof(words), UNETMM_RIGHT_WRITE,
                               0, 0, counter, 1), UNETMM_CALL_EXPORT);
    check(unetmm_listen(ep, SERVICE, 1), UNETMM_CALL_LISTEN);
    check(unetmm_event_wait(counter, 3, UNETMM_EVENT_BLOCK, -1),
          UNETMM_CALL_EVENT);
    printf("%d %d %d\n", (int)words[1], (int)words[2], (int)words[3]);
    return check(unetmm_ep_destroy(ep), UNETMM_CALL_ANY);
}
