/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writes a line into a peer's memory, and has the peer notified when it is there.
 *
 *   vmmc-hello                        exports a page and waits for a line
 *   vmmc-hello 52:54:00:00:00:01      imports that page and writes a line into it
 */
#include <libunetmm.h>
#include <stdio.h>
#include <stdlib.h>

#define SERVICE 102
#define ID      7
#define SECOND  1000000000ll

static char page[4096];

/* Ends the program if a call has failed, with advice. */
static int check(int ret, enum unetmm_call call)
{
    if (ret < 0) {
        fprintf(stderr, "vmmc-hello: %s\n", unetmm_strerror(ret, call));
        exit(EXIT_FAILURE);
    }
    return ret;
}

int main(int argc, char **argv)
{
    static const char line[] = "hello, straight into your memory";
    struct unetmm_completion c;
    struct unetmm_ctx *ctx;
    struct unetmm_ep *ep;
    uint8_t mac[6];
    int channel, import, n;

    check(unetmm_open(NULL, UNETMM_SOURCE_TLB, &ctx), UNETMM_CALL_OPEN);
    check(unetmm_ep_create(ctx, NULL, &ep), UNETMM_CALL_EP_CREATE);
    if (argc > 1) {
        check(unetmm_resolve(argv[1], mac), UNETMM_CALL_CONNECT);
        channel = check(unetmm_connect_ex(ep, mac, SERVICE, 60 * SECOND, NULL,
                                          NULL), UNETMM_CALL_CONNECT);
        import = check(unetmm_import(ep, channel, ID, UNETMM_RIGHT_WRITE,
                                     60 * SECOND, NULL), UNETMM_CALL_IMPORT);
        check(unetmm_write(ep, import, 100, line, sizeof(line), 42, 0,
                           UNETMM_NOTIFY), UNETMM_CALL_ONE_SIDED);
    } else {
        check(unetmm_export(ctx, ID, page, sizeof(page), UNETMM_RIGHT_WRITE,
                            UNETMM_EXPORT_NOTIFY, 0), UNETMM_CALL_EXPORT);
        check(unetmm_listen_ex(ep, SERVICE, 1, NULL), UNETMM_CALL_LISTEN);
    }
    n = check(unetmm_wait(ep, &c, 1, 60 * SECOND), UNETMM_CALL_POLL);
    if (n && c.type == UNETMM_CQE_NOTIFY) {
        printf("%u: %s\n", unetmm_notify_imm(&c),
               page + unetmm_notify_offset(&c));
    }
    unetmm_ep_destroy(ep);
    return unetmm_close(ctx) || !n || c.status ? EXIT_FAILURE : EXIT_SUCCESS;
}
