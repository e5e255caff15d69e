/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Ways to put bytes into a peer's memory, in turn, beside SENDs on a channel for
 * datagrams and on the same reliable one: one thread with both ends.
 *
 * A time is from before the call until the other end can see the bytes: in its
 * memory, or for a SEND the completion.  The sender's completion is taken when
 * the clock has stopped.  Instructions are those of the call alone.
 */
#include "local.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define EXPORT      1
#define COUNT       1000u
#define WARMUP      100u
#define SECOND      1000000000ll
#define COMBINE_NS  5000u

struct scene {
    struct unetmm_ep *tx, *rx;
    unsigned datagrams;         /* a channel for them */
    unsigned channel;           /* a reliable one */
    uint64_t *there;            /* a page that is exported */
    uint8_t *here;              /* a page to write from */
    unsigned import[3];         /* an import has one window */
    void *window, *combining;   /* automatic update */
    void *to, *from;            /* proxy pages */
    unsigned bytes;
};

enum way { DATAGRAM, SEND, WRITE, STORE, STORE_COMBINING, START, WAYS };

static const char *const way_names[WAYS] = {
    "send", "reliable send", "write", "au", "au, combining", "udma",
};

/* The place is the same at both ends; the last word tells one from the next. */
static size_t at(const struct scene *s)
{
    return PAGE - s->bytes;
}

static void go(struct scene *s, enum way way, unsigned i)
{
    int ret = 0;

    switch (way) {
    case DATAGRAM:
        ret = unetmm_send(s->tx, s->datagrams, s->here + at(s), s->bytes, i,
                          0);
        break;
    case SEND:
        ret = unetmm_send(s->tx, s->channel, s->here + at(s), s->bytes, i, 0);
        break;
    case WRITE:
        ret = unetmm_write(s->tx, s->import[0], at(s), s->here + at(s),
                           s->bytes, 0, i, 0);
        break;
    case STORE:
        unetmm_window_copy((uint8_t *)s->window + at(s), s->here + at(s),
                           s->bytes);
        break;
    case STORE_COMBINING:
        unetmm_window_copy((uint8_t *)s->combining + at(s), s->here + at(s),
                           s->bytes);
        break;
    default:
        ret = unetmm_udma_start((uint8_t *)s->to + at(s),
                                (uint8_t *)s->from + at(s), s->bytes);
        break;
    }
    check(ret, UNETMM_CALL_ONE_SIDED);
}

static void await_there(const struct scene *s, uint64_t value)
{
    const uint64_t *word = s->there + PAGE / sizeof(*word) - 1;
    int64_t end = now_ns() + 10 * SECOND;
    unsigned looks = 0;

    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value) {
        if (++looks % 1024 == 0 && now_ns() > end) {
            die("nothing came into memory within ten seconds");
        }
    }
}

/* Channels take turns with their acknowledgements: the next begins alone. */
static void settle(struct scene *s, enum way way)
{
    if (way > WRITE) {
        check(unetmm_fence(s->tx, s->channel, 0, 0), UNETMM_CALL_ONE_SIDED);
    }
    await(s->tx, 1u << UNETMM_CQE_SENT);
}

struct taken {
    int64_t ns, instructions;
};

static struct taken one(struct scene *s, enum way way, unsigned i)
{
    uint64_t value = (uint64_t)(way + 1) << 32 | i;
    uint64_t begun;
    struct taken took;
    int64_t start;

    memcpy(s->here + PAGE - sizeof(value), &value, sizeof(value));
    if (way <= SEND && s->bytes > UNETMM_CQE_INLINE) {
        check(unetmm_post_recv(s->rx, s->there, PAGE, 0, 0), UNETMM_CALL_POST);
    }
    start = now_ns();
    begun = ticks();
    go(s, way, i);
    took.instructions = (int64_t)(ticks() - begun);
    if (way <= SEND) {
        await(s->rx, 1u << UNETMM_CQE_RECEIVED);
    } else {
        await_there(s, value);
    }
    took.ns = now_ns() - start;
    settle(s, way);
    return took;
}

/* ---- The scene ------------------------------------------------------------------ */

static void *one_page(void)
{
    void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    if (page == MAP_FAILED) {
        die("no memory: boot the guest with more");
    }
    return page;
}

static void open_windows(struct scene *s)
{
    struct unetmm_window_attr attr = { sizeof(attr), 0, 0 };

    for (unsigned i = 0; i < 3; i++) {
        s->import[i] = (unsigned)check(
            unetmm_import(s->tx, s->channel, EXPORT, UNETMM_RIGHT_WRITE,
                          10 * SECOND, NULL), UNETMM_CALL_IMPORT);
    }
    check(unetmm_window_open(s->tx, s->import[1], 0, PAGE, &attr, &s->window),
          UNETMM_CALL_ONE_SIDED);
    attr.combine_bytes = UNETMM_MAX_INLINE;
    attr.combine_ns = COMBINE_NS;
    check(unetmm_window_open(s->tx, s->import[2], 0, PAGE, &attr,
                             &s->combining), UNETMM_CALL_ONE_SIDED);
    check(unetmm_udma_to(s->tx, s->import[0], 0, PAGE, &s->to),
          UNETMM_CALL_ONE_SIDED);
    check(unetmm_udma_from(s->tx, s->here, PAGE, &s->from),
          UNETMM_CALL_ONE_SIDED);
}

static void scene_open(struct scene *s, unsigned bytes)
{
    if (bytes < sizeof(uint64_t) || bytes > PAGE || bytes % 8) {
        die("8 to 4096 bytes, a multiple of 8");
    }
    s->bytes = bytes;
    check(unetmm_ep_create(ctx, NULL, &s->tx), UNETMM_CALL_EP_CREATE);
    check(unetmm_ep_create(ctx, NULL, &s->rx), UNETMM_CALL_EP_CREATE);
    s->there = one_page();
    s->here = one_page();
    give(s->here, PAGE);
    s->datagrams = (unsigned)join(s->tx, s->rx);
    s->channel = (unsigned)join_reliably(s->tx, s->rx);
    check(unetmm_export(ctx, EXPORT, s->there, PAGE, UNETMM_RIGHT_WRITE, 0, 0),
          UNETMM_CALL_EXPORT);
    open_windows(s);
}

static void scene_close(struct scene *s)
{
    check(unetmm_unexport(ctx, EXPORT), UNETMM_CALL_EXPORT);
    check(unetmm_ep_destroy(s->tx), UNETMM_CALL_ANY);
    check(unetmm_ep_destroy(s->rx), UNETMM_CALL_ANY);
    take_back(s->here, PAGE);
    munmap(s->here, PAGE);
    munmap(s->there, PAGE);
}

static void report(const char *what, const struct scene *s, enum way way,
                   int64_t *took, double unit, const char *metric)
{
    qsort(took, COUNT, sizeof(*took), by_value);
    printf("{\"peer\":\"unetmm, one guest\",\"mode\":\"%s, %s\","
           "\"metric\":\"%s\",\"bytes\":%u,\"frame\":%u,\"median\":%.3f,"
           "\"p99\":%.3f,\"n\":%u,\"unit\":\"%s\",\"op\":\"%s\"}\n",
           what, way_names[way], metric, s->bytes, info.user_mtu, (double)took[COUNT / 2] / unit,
           (double)took[COUNT * 99 / 100] / unit, COUNT,
           unit > 1 ? "us" : metric, way_names[way]);
    fflush(stdout);
}

static void measure(unsigned bytes, bool counted)
{
    static int64_t times[WAYS][COUNT];
    int64_t nothing = counted ? (int64_t)calibrate() : 0;
    struct scene s = { 0 };

    scene_open(&s, bytes);
    for (unsigned i = 0; i < WARMUP + COUNT; i++) {
        for (unsigned way = 0; way < WAYS; way++) {
            struct taken took = one(&s, way, i + 1);

            if (i >= WARMUP) {
                times[way][i - WARMUP] = counted ?
                    took.instructions - nothing : took.ns;
            }
        }
    }
    for (unsigned way = 0; way < WAYS; way++) {
        report(counted ? source_name : "one thread", &s, way, times[way],
               counted ? 1 : 1000, counted ? "instructions" : "latency");
    }
    scene_close(&s);
}

void ops(unsigned bytes)
{
    measure(bytes, false);
}

void count_ops(unsigned bytes)
{
    measure(bytes, true);
}
