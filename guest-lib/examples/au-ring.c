/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A ring between two hosts by automatic update: one process stores words into it,
 * the other loads them, and neither calls anything.
 *
 *   au-ring [COUNT]        takes words; prints how many, and how many were wrong
 *   au-ring MAC [COUNT]    puts them
 *
 * Each side exports a page and has a window on the other's.  The producer's stores
 * arrive in their order: a word is there before the tail that counts it.  The
 * consumer's only store is the head, which says what may be overwritten.
 */
#include <libunetmm.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define SERVICE 103
#define ID      8
#define SECOND  1000000000ll
#define SLOTS   504u                    /* of a page, with the rest in between */

struct page {
    volatile uint64_t slot[SLOTS];      /* the producer's, in the consumer's page */
    volatile uint64_t tail;             /* ... words put */
    volatile uint64_t head;             /* the consumer's, in the producer's: taken */
    uint64_t rest[6];
};

static struct page mine __attribute__((aligned(4096)));

static int check(int ret, enum unetmm_call call)
{
    if (ret < 0) {
        fprintf(stderr, "au-ring: %s\n", unetmm_strerror(ret, call));
        exit(EXIT_FAILURE);
    }
    return ret;
}

/* What the n-th word is, so that one that is wrong is seen. */
static uint64_t word(uint64_t n)
{
    return (n + 1) * 0x9e3779b97f4a7c15ull;
}

static void produce(struct page *window, uint64_t count)
{
    uint64_t n;

    for (n = 0; n < count; n++) {
        while (n - mine.head >= SLOTS) {
            sched_yield();
        }
        window->slot[n % SLOTS] = word(n);
        window->tail = n + 1;
    }
}

static uint64_t consume(struct page *window, uint64_t count)
{
    uint64_t n, wrong = 0;

    for (n = 0; n < count; n++) {
        while (mine.tail <= n) {
            sched_yield();
        }
        wrong += mine.slot[n % SLOTS] != word(n);
        if (n % (SLOTS / 4) == 0 || n + 1 == count) {
            window->head = n + 1;
        }
    }
    return wrong;
}

int main(int argc, char **argv)
{
    struct unetmm_window_attr attr = UNETMM_WINDOW_ATTR_INIT;
    uint64_t count = 100000, wrong = 0;
    struct unetmm_completion c = { .type = 0 };
    struct unetmm_ctx *ctx;
    struct unetmm_ep *ep;
    int channel, import, producer;
    uint8_t mac[6];
    void *window;

    producer = argc > 1 && !unetmm_parse_mac(argv[1], mac);
    if (argc > 1 + producer) {
        count = strtoull(argv[1 + producer], NULL, 0);
    }
    check(unetmm_open(NULL, UNETMM_SOURCE_TLB, &ctx), UNETMM_CALL_OPEN);
    check(unetmm_ep_create(ctx, NULL, &ep), UNETMM_CALL_EP_CREATE);
    check(unetmm_export(ctx, ID, &mine, sizeof(mine), UNETMM_RIGHT_WRITE, 0, 0),
          UNETMM_CALL_EXPORT);
    if (producer) {
        channel = check(unetmm_connect_as(ep, mac, SERVICE, 5 * SECOND, NULL,
                                          NULL), UNETMM_CALL_CONNECT);
    } else {
        check(unetmm_listen_as(ep, SERVICE, 1, NULL), UNETMM_CALL_LISTEN);
        channel = check(unetmm_accept(ep, NULL, -1), UNETMM_CALL_ACCEPT);
    }
    import = check(unetmm_import(ep, channel, ID, UNETMM_RIGHT_WRITE,
                                 5 * SECOND, NULL), UNETMM_CALL_IMPORT);
    check(unetmm_window_open(ep, import, 0, sizeof(mine), &attr, &window),
          UNETMM_CALL_ANY);
    if (producer) {
        produce(window, count);
    } else {
        wrong = consume(window, count);
        printf("%llu words, %llu wrong\n", (unsigned long long)count,
               (unsigned long long)wrong);
    }
    /* All that was stored is there before the windows go. */
    check(unetmm_fence(ep, channel, 0, 0), UNETMM_CALL_ONE_SIDED);
    check(unetmm_wait(ep, &c, 1, 10 * SECOND), UNETMM_CALL_POLL);
    unetmm_ep_destroy(ep);
    return unetmm_close(ctx) || wrong || c.status || !c.type ? EXIT_FAILURE : 0;
}
