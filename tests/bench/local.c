/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One guest, one card, one thread that owns all endpoints: the cost of a
 * message when nobody else has to run.
 *
 *   bench-local SOURCE endpoints LIST    that many endpoints in turn, 8 bytes
 *   bench-local SOURCE memory LIST       4096 bytes from and to that many MiB
 *   bench-local SOURCE count LIST        guest instructions, that many bytes
 *   bench-local SOURCE ops LIST          ways to a peer's memory, that many bytes
 *   bench-local SOURCE count-ops LIST    their guest instructions
 *   bench-local SOURCE notify LIST       ways to be told of a write, n times each
 *   bench-local SOURCE count-notify LIST their guest instructions
 *   bench-local SOURCE sync LIST         semaphore and wait-queue, n times each
 *   bench-local SOURCE count-sync LIST   their guest instructions
 *   bench-local SOURCE rate LIST         messages of which n of 100 find their page
 *   bench-local pinned pin LIST          a page pinned and unpinned, n times
 *   bench-local shadow push LIST         n page faults, and unmaps
 *   bench-local SOURCE mix LIST          n messages of a workload, with its counts
 *   bench-local SOURCE redirect LIST     n writes into a page that is not there
 *   bench-local odp fault LIST           faults of messages, n times each
 *   bench-local SOURCE matrix LIST       every policy, n messages of each kind
 *   bench-local shadow waits LIST        n unmaps under DMA: how long they waited
 *
 * SOURCE is tlb, ktlb, pinned, utlb, shadow or odp.  `rate`, `pin` and `push` count
 * instructions where there is a counter of them.  Prints JSON, one object a line.  A time is one
 * way: from before the send until the receiver has polled its completion, with
 * the sender's taken as well.
 */
#include "local.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define SERVICE     0x10ca1
#define SECOND      1000000000ll
#define COUNT       4000
#define WARMUP      400
#define MOST        1024

struct unetmm_ctx *ctx;
struct unetmm_info info;
const char *source_name;

int check(int ret, enum unetmm_call call)
{
    if (ret < 0) {
        fprintf(stderr, "bench-local: %s\n", unetmm_strerror(ret, call));
        exit(EXIT_FAILURE);
    }
    return ret;
}

void die(const char *what)
{
    fprintf(stderr, "bench-local: %s\n", what);
    exit(EXIT_FAILURE);
}

int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* Takes completions until `ep` has had one of each type in the mask. */
void await(struct unetmm_ep *ep, unsigned types)
{
    int64_t end = now_ns() + 10 * SECOND;
    struct unetmm_completion c;

    while (types) {
        int n = check(unetmm_poll(ep, &c, 1), UNETMM_CALL_POLL);

        if (n && c.type == UNETMM_CQE_BUFFER) {
            fprintf(stderr, "bench-local: a buffer came back (%s): more memory "
                    "than the TLB can hold?\n", unetmm_status_str(c.status));
            exit(EXIT_FAILURE);
        }
        if (n && c.status) {
            die(unetmm_status_str(c.status));
        }
        if (n) {
            types &= ~(1u << c.type);
        } else if (now_ns() > end) {
            die("nothing came within ten seconds");
        }
    }
}

/* tx's channel to rx.  One thread does both sides, so it asks in turn. */
int join(struct unetmm_ep *tx, struct unetmm_ep *rx)
{
    int channel;

    check(unetmm_listen_ex(rx, SERVICE, 2, &datagram_attr), UNETMM_CALL_LISTEN);
    channel = check(unetmm_connect_ex(tx, info.mac, SERVICE, 10 * SECOND, &datagram_attr, NULL),
                    UNETMM_CALL_CONNECT);
    check(unetmm_accept(rx, NULL, 10 * SECOND), UNETMM_CALL_ACCEPT);
    check(unetmm_listen(rx, 0, 0), UNETMM_CALL_LISTEN);
    return channel;
}

int join_reliably(struct unetmm_ep *tx, struct unetmm_ep *rx)
{
    int channel;

    check(unetmm_listen_ex(rx, SERVICE, 2, NULL), UNETMM_CALL_LISTEN);
    channel = check(unetmm_connect_ex(tx, info.mac, SERVICE, 10 * SECOND, NULL,
                                      NULL), UNETMM_CALL_CONNECT);
    check(unetmm_accept(rx, NULL, 10 * SECOND), UNETMM_CALL_ACCEPT);
    check(unetmm_listen(rx, 0, 0), UNETMM_CALL_LISTEN);
    return channel;
}

static void report(const char *what, unsigned n, unsigned bytes,
                   int64_t *times, uint64_t misses)
{
    qsort(times, COUNT, sizeof(*times), by_value);
    printf("{\"peer\":\"unetmm, one guest\",\"mode\":\"one thread%s%s\","
           "\"metric\":\"latency\",\"bytes\":%u,\"frame\":%u,"
           "\"median\":%.3f,\"p99\":%.3f,\"n\":%u,\"unit\":\"us\","
           "\"min\":%.3f,\"%s\":%u,\"tlb_misses\":%llu}\n",
           *source_name == 't' ? "" : ", ", *source_name == 't' ? "" :
           source_name, bytes,
           info.user_mtu, (double)times[COUNT / 2] / 1000,
           (double)times[COUNT * 99 / 100] / 1000, COUNT,
           (double)times[0] / 1000, what, n, (unsigned long long)misses);
    fflush(stdout);
}

uint64_t card(enum unetmm_counter n)
{
    uint64_t values[UNETMM_NUM_COUNTERS];

    check(unetmm_stats_read(ctx, UNETMM_SCOPE_CARD, 0, values,
                            UNETMM_NUM_COUNTERS), UNETMM_CALL_STATS);
    return values[n];
}

uint64_t driver(enum unetmm_driver_counter n)
{
    uint64_t values[UNETMM_NUM_DRIVER_COUNTERS];

    check(unetmm_stats_read(ctx, UNETMM_SCOPE_DRIVER, 0, values,
                            UNETMM_NUM_DRIVER_COUNTERS), UNETMM_CALL_STATS);
    return values[n];
}

uint64_t misses(void)
{
    return card(UNETMM_C_tlb_misses) + card(UNETMM_C_shadow_misses) +
        card(UNETMM_C_odp_misses);
}

/*
 * A message that comes before its page is in the table is a miss; a send from
 * a page waits until it is.
 */
static void send_from_all(const uint8_t *at, size_t bytes)
{
    struct unetmm_ep_attr attr = UNETMM_EP_ATTR_INIT;
    struct unetmm_ep *ep;
    int channel;

    attr.inline_max = 0;
    check(unetmm_ep_create(ctx, &attr, &ep), UNETMM_CALL_EP_CREATE);
    channel = join(ep, ep);
    for (size_t i = 0; i < bytes; i += PAGE) {
        check(unetmm_send(ep, (unsigned)channel, at + i, 8, 0, 0),
              UNETMM_CALL_SEND);
        await(ep, 1u << UNETMM_CQE_RECEIVED | 1u << UNETMM_CQE_SENT);
    }
    check(unetmm_ep_destroy(ep), UNETMM_CALL_ANY);
}

/*
 * `pinned` wants to be told of memory; `shadow` and `odp` find it unasked,
 * `odp` page by page, and for reading where it is read.
 */
void give(void *at, size_t bytes)
{
    if (!strcmp(source_name, "shadow")) {
        send_from_all(at, bytes);
    }
    if (*source_name == 'o') {
        ssize_t done = unetmm_prefetch(ctx, at, bytes, UNETMM_PREFETCH_WRITE);

        if (done < 0 || (size_t)done < bytes) {
            die("the memory cannot be faulted in");
        }
    }
    if (*source_name == 'p') {
        check(unetmm_register(ctx, at, bytes, UNETMM_REGION_WRITE),
              UNETMM_CALL_REGISTER);
    }
}

void take_back(void *at, size_t bytes)
{
    if (*source_name == 'p') {
        check(unetmm_deregister(ctx, at, bytes), UNETMM_CALL_ANY);
    }
}

static void send_one(struct unetmm_ep *tx, struct unetmm_ep *rx, int channel,
                     const void *from, size_t bytes)
{
    check(unetmm_send(tx, (unsigned)channel, from, bytes, 0, 0),
          UNETMM_CALL_SEND);
    if (tx == rx) {
        await(tx, 1u << UNETMM_CQE_RECEIVED | 1u << UNETMM_CQE_SENT);
    } else {
        await(rx, 1u << UNETMM_CQE_RECEIVED);
        await(tx, 1u << UNETMM_CQE_SENT);
    }
}

/* ---- Endpoints ------------------------------------------------------------------ */

/* n endpoints: one receives, the others send in turn; 1: it sends to itself. */
static void endpoints(unsigned n)
{
    static struct unetmm_ep *ep[MOST];
    static int channel[MOST];
    static int64_t times[COUNT];
    struct unetmm_ep_attr attr = UNETMM_EP_ATTR_INIT;
    uint8_t text[8] = "8 bytes";
    uint64_t before;
    unsigned i;

    if (n < 1 || n > MOST || n >= info.endpoints) {
        die("the card has not so many endpoints: -device unetmm,endpoints=N");
    }
    attr.send_slots = attr.free_depth = 8;
    attr.completion_depth = 32;
    for (i = 0; i < n; i++) {
        check(unetmm_ep_create(ctx, &attr, &ep[i]), UNETMM_CALL_EP_CREATE);
    }
    /* An endpoint has so many channels; each sender needs one there. */
    for (i = 0; i < n; i++) {
        unsigned to = i / info.channels * info.channels;

        channel[i] = join(ep[i], ep[to == i && n > i + 1 ? i + 1 : to]);
    }
    before = misses();
    for (i = 0; i < WARMUP + COUNT; i++) {
        unsigned k = i % n, to = k / info.channels * info.channels;
        int64_t start = now_ns();

        send_one(ep[k], ep[to == k && n > k + 1 ? k + 1 : to], channel[k],
                 text, sizeof(text));
        if (i >= WARMUP) {
            times[i - WARMUP] = now_ns() - start;
        }
    }
    report("endpoints", n, sizeof(text), times, misses() - before);
    for (i = 0; i < n; i++) {
        check(unetmm_ep_destroy(ep[i]), UNETMM_CALL_ANY);
    }
}

/* ---- Memory --------------------------------------------------------------------- */

static void memory(unsigned mib)
{
    static int64_t times[COUNT];
    size_t pages = ((size_t)mib << 20) / PAGE, half = pages / 2, i;
    uint8_t *at = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    struct unetmm_ep *tx, *rx;
    uint64_t before = 0;
    int channel;

    if (at == MAP_FAILED || !half) {
        die("no memory: boot the guest with more");
    }
    give(at, pages * PAGE);
    check(unetmm_ep_create(ctx, NULL, &tx), UNETMM_CALL_EP_CREATE);
    check(unetmm_ep_create(ctx, NULL, &rx), UNETMM_CALL_EP_CREATE);
    channel = join(tx, rx);
    /* Once through all of it, so that the TLB has it if it can hold it. */
    for (i = 0; i < half + COUNT; i++) {
        size_t page = i < half ? i : i * 7919 % half;
        int64_t start;

        if (i == half) {
            before = misses();
        }
        check(unetmm_post_recv(rx, at + (half + page) * PAGE, PAGE, 0, 0),
              UNETMM_CALL_POST);
        start = now_ns();
        send_one(tx, rx, channel, at + page * PAGE, PAGE);
        if (i >= half) {
            times[i - half] = now_ns() - start;
        }
    }
    report("mib", mib, PAGE, times, misses() - before);
    check(unetmm_ep_destroy(tx), UNETMM_CALL_ANY);
    check(unetmm_ep_destroy(rx), UNETMM_CALL_ANY);
    take_back(at, pages * PAGE);
    munmap(at, pages * PAGE);
}

static const struct {
    const char *name;
    void (*run)(unsigned n);
} parts[] = {
    { "endpoints", endpoints }, { "memory", memory }, { "count", count },
    { "miss", miss }, { "ops", ops }, { "count-ops", count_ops },
    { "notify", notify }, { "count-notify", count_notify },
    { "sync", sync_ops }, { "count-sync", count_sync_ops },
    { "rate", rate }, { "pin", pin }, { "push", push }, { "waits", waits },
    { "mix", mix }, { "redirect", redirect },
    { "fault", fault }, { "matrix", matrix },
};

#define PARTS   (sizeof(parts) / sizeof(parts[0]))

static void usage(void)
{
    fprintf(stderr, "usage: bench-local tlb|ktlb|pinned|utlb|shadow|odp PART "
            "N,N,...\nPART is one of");
    for (size_t i = 0; i < PARTS; i++) {
        fprintf(stderr, " %s", parts[i].name);
    }
    fprintf(stderr, ".\n");
    exit(2);
}

static unsigned source_by_name(const char *name)
{
    static const struct {
        const char *name;
        unsigned source;
    } sources[] = {
        { "tlb", UNETMM_SOURCE_TLB }, { "ktlb", UNETMM_SOURCE_KTLB },
        { "pinned", UNETMM_SOURCE_PINNED },
        { "utlb", UNETMM_SOURCE_UTLB },
        { "shadow", UNETMM_SOURCE_SHADOW }, { "odp", UNETMM_SOURCE_ODP },
    };

    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
        if (!strcmp(name, sources[i].name)) {
            return sources[i].source;
        }
    }
    usage();
    return 0;
}

int main(int argc, char **argv)
{
    size_t part = 0;
    char *word;

    while (argc == 4 && part < PARTS && strcmp(argv[2], parts[part].name)) {
        part++;
    }
    if (argc != 4 || part == PARTS) {
        usage();
    }
    source_name = argv[1];
    check(unetmm_open(NULL, source_by_name(source_name), &ctx),
          UNETMM_CALL_OPEN);
    info.size = sizeof(info);
    check(unetmm_info(ctx, &info), UNETMM_CALL_ANY);
    for (word = strtok(argv[3], ","); word; word = strtok(NULL, ",")) {
        parts[part].run((unsigned)strtoul(word, NULL, 10));
    }
    return check(unetmm_close(ctx), UNETMM_CALL_ANY) ? EXIT_FAILURE : 0;
}
