/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A ring between two hosts by automatic update: one process stores words into it,
 * the other loads them, and neither calls anything.
 *
 *   au-ring                        takes words, and says how many were wrong
 *   au-ring 52:54:00:00:00:01      puts them there
 *
 * Each side exports a page and has a window on the other's.  Stores are sent in their
 * order, but a packet that the wire loses, or that the peer's card refuses since a page is
 * absent, may be seen behind the next ones.  So each word has its own number, by which the
 * consumer knows that it is there, and there is no tail.  The head comes back the same way,
 * so no more words are on their way than the ring has room for.
 */
#include <libunetmm.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define SERVICE 103
#define ID      8
#define SECOND  1000000000ll
#define COUNT   20000u
#define SLOTS   504u

struct page {
    volatile uint64_t slot[SLOTS];      /* in the consumer's page */
    volatile uint64_t head;             /* in the producer's page: words taken */
    uint64_t rest[7];
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

/* The lower half is the word's number, the upper half a pattern. */
static uint64_t word(uint32_t n)
{
    return (uint64_t)((n + 1) * 0x9e3779b9u) << 32 | (n + 1);
}

static void produce(struct page *window)
{
    uint32_t n;

    for (n = 0; n < COUNT; n++) {
        while (n - mine.head >= SLOTS) {
            sched_yield();
        }
        window->slot[n % SLOTS] = word(n);
    }
    while (mine.head < COUNT) {
        sched_yield();
    }
}

static void consume(struct page *window)
{
    uint64_t got, wrong = 0;
    uint32_t n;

    for (n = 0; n < COUNT; n++) {
        while ((uint32_t)(got = mine.slot[n % SLOTS]) != n + 1) {
            sched_yield();
        }
        wrong += got != word(n);
        if (n % 64 == 63 || n + 1 == COUNT) {
            window->head = n + 1;
        }
    }
    printf("%u words, %llu wrong\n", COUNT, (unsigned long long)wrong);
}

int main(int argc, char **argv)
{
    struct unetmm_completion c;
    struct unetmm_ctx *ctx;
    struct unetmm_ep *ep;
    int channel, import;
    uint8_t mac[6];
    void *window;

    check(unetmm_open(NULL, UNETMM_SOURCE_TLB, &ctx), UNETMM_CALL_OPEN);
    check(unetmm_ep_create(ctx, NULL, &ep), UNETMM_CALL_EP_CREATE);
    check(unetmm_export(ctx, ID, &mine, sizeof(mine), UNETMM_RIGHT_WRITE, 0, 0),
          UNETMM_CALL_EXPORT);
    if (argc > 1) {
        check(unetmm_resolve(argv[1], mac), UNETMM_CALL_CONNECT);
        channel = check(unetmm_connect_ex(ep, mac, SERVICE, 5 * SECOND, NULL,
                                          NULL), UNETMM_CALL_CONNECT);
    } else {
        check(unetmm_listen_ex(ep, SERVICE, 1, NULL), UNETMM_CALL_LISTEN);
        channel = check(unetmm_accept(ep, NULL, -1), UNETMM_CALL_ACCEPT);
    }
    import = check(unetmm_import(ep, channel, ID, UNETMM_RIGHT_WRITE,
                                 5 * SECOND, NULL), UNETMM_CALL_IMPORT);
    check(unetmm_window_open(ep, import, 0, sizeof(mine), NULL, &window),
          UNETMM_CALL_ANY);
    if (argc > 1) {
        produce(window);
    } else {
        consume(window);
        /* The last head is there before the window goes.  Then the peer may go. */
        check(unetmm_fence(ep, channel, 0, 0), UNETMM_CALL_ONE_SIDED);
        check(unetmm_wait(ep, &c, 1, 10 * SECOND), UNETMM_CALL_POLL);
    }
    unetmm_ep_destroy(ep);
    return check(unetmm_close(ctx), UNETMM_CALL_ANY);
}
