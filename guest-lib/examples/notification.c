/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A function that is called for each write into exported memory.
 *
 *   notification                        exports a page, and waits for a write
 *   notification 52:54:00:00:00:01      writes there
 */
#include <libunetmm.h>
#include <stdio.h>
#include <stdlib.h>

#define SERVICE 104
#define ID      1
#define SECOND  1000000000ll

static char page[4096];

/* Ends the program if a call has failed, with advice. */
static int check(int ret, enum unetmm_call call)
{
    if (ret < 0) {
        fprintf(stderr, "notification: %s\n", unetmm_strerror(ret, call));
        exit(EXIT_FAILURE);
    }
    return ret;
}

static void on_write(struct unetmm_ep *ep, const struct unetmm_completion *c,
                     void *arg)
{
    (void)ep, (void)arg;
    printf("%u: %s\n", unetmm_notify_imm(c), page + unetmm_notify_offset(c));
}

int main(int argc, char **argv)
{
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
        return check(unetmm_write_sync(ep, n, 100, "written", 8, 42, UNETMM_NOTIFY,
                                       SECOND), UNETMM_CALL_ONE_SIDED);
    }
    check(unetmm_export(ctx, ID, page, sizeof(page), UNETMM_RIGHT_WRITE,
                        UNETMM_EXPORT_NOTIFY, 0), UNETMM_CALL_EXPORT);
    check(unetmm_set_handler(ep, UNETMM_EVERY_CHANNEL, on_write, NULL),
          UNETMM_CALL_HANDLERS);
    check(unetmm_listen(ep, SERVICE, 1), UNETMM_CALL_LISTEN);
    check(unetmm_dispatch(ep, 1, -1), UNETMM_CALL_HANDLERS);
    return check(unetmm_ep_destroy(ep), UNETMM_CALL_ANY);
}
