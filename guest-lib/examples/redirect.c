/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A peer writes into an export; its owner says where the bytes land, before or after.
 *
 *   redirect                        has the bytes land in a buffer of its own
 *   redirect 52:54:00:00:00:01      writes there
 */
#include <libunetmm.h>
#include <stdio.h>
#include <stdlib.h>

#define SERVICE 106
#define ID      1
#define SECOND  1000000000ll

static char mailbox[4096], letter[100];

/* Ends the program if a call has failed, with advice. */
static int check(int ret, enum unetmm_call call)
{
    if (ret < 0) {
        fprintf(stderr, "redirect: %s\n", unetmm_strerror(ret, call));
        exit(EXIT_FAILURE);
    }
    return ret;
}

int main(int argc, char **argv)
{
    struct unetmm_completion c;
    struct unetmm_ctx *ctx;
    struct unetmm_ep *ep;
    uint8_t mac[6];
    int n;

    check(unetmm_open(NULL, UNETMM_SOURCE_TLB, &ctx), UNETMM_CALL_OPEN);
    check(unetmm_ep_create(ctx, NULL, &ep), UNETMM_CALL_EP_CREATE);
    if (argc > 1) {
        check(unetmm_resolve(argv[1], mac), UNETMM_CALL_CONNECT);
        n = check(unetmm_connect(ep, mac, SERVICE, 5 * SECOND, NULL),
                  UNETMM_CALL_CONNECT);
        n = check(unetmm_import(ep, n, ID, 0, SECOND, NULL), UNETMM_CALL_IMPORT);
        return check(unetmm_write_sync(ep, n, 0, "no copy", 8, 0, UNETMM_NOTIFY,
                                       SECOND), UNETMM_CALL_ONE_SIDED);
    }
    check(unetmm_export(ctx, ID, mailbox, sizeof(mailbox), UNETMM_RIGHT_WRITE,
                        UNETMM_EXPORT_NOTIFY | UNETMM_EXPORT_REDIRECT, 0),
          UNETMM_CALL_EXPORT);
    /* Bytes that had landed in the mailbox already would be copied; later ones land here. */
    check(unetmm_redirect(ctx, ID, 0, letter, sizeof(letter), NULL),
          UNETMM_CALL_REDIRECT);
    check(unetmm_listen(ep, SERVICE, 1), UNETMM_CALL_LISTEN);
    check(unetmm_wait(ep, &c, 1, -1), UNETMM_CALL_POLL);
    check(unetmm_redirect_end(ctx, ID, 0), UNETMM_CALL_REDIRECT);
    /* From here on the peer's writes land in the mailbox again. */
    printf("letter: %s, mailbox: %s\n", letter, mailbox);
    return check(unetmm_ep_destroy(ep), UNETMM_CALL_ANY);
}
