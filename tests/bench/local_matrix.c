/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One source with every policy, the same messages for all: one page, on a reliable
 * channel, to memory that the card knows and to memory that the process has given up
 * just before.  A pair that is not allowed is a row that says so.
 */
#include "local.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SERVICE     0x10caa
#define EXPORT      6
#define MOST        10000u
#define WARMUP      20u
#define SECOND      1000000000ll

struct cell {
    struct unetmm_ep *tx, *rx;
    unsigned channel, import;
    uint8_t *here, *there, *buffer;
};

enum way { SEND, WRITE, READ, WRITE_ABSENT, READ_ABSENT, WAYS };

static const char *const way_names[WAYS] = {
    "send", "write", "read", "write, absent there", "read, absent here",
};

static const char *const policy_names[] = { "drop", "skip", "redirect", "rnr" };

static uint8_t *one_page(void)
{
    uint8_t *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    if (page == MAP_FAILED) {
        die("no memory: boot the guest with more");
    }
    give(page, PAGE);
    return page;
}

static void no_page(uint8_t *page)
{
    take_back(page, PAGE);
    munmap(page, PAGE);
}

/* A source without misses needs its memory to stay. */
static bool may_be_absent(void)
{
    return !strcmp(source_name, "tlb") || !strcmp(source_name, "shadow") ||
        !strcmp(source_name, "odp");
}

/* 0, or why there is no such cell. */
static int cell_open(struct cell *c, unsigned policy)
{
    struct unetmm_ep_attr attr = UNETMM_EP_ATTR_INIT;
    int ret;

    attr.policy = policy;
    ret = unetmm_ep_create(ctx, &attr, &c->rx);
    if (ret) {
        return ret;
    }
    ret = unetmm_listen_ex(c->rx, SERVICE, 2, NULL);
    if (ret) {
        check(unetmm_ep_destroy(c->rx), UNETMM_CALL_ANY);
        return ret;
    }
    check(unetmm_ep_create(ctx, NULL, &c->tx), UNETMM_CALL_EP_CREATE);
    c->channel = (unsigned)check(unetmm_connect_ex(c->tx, info.mac, SERVICE,
                                                   10 * SECOND, NULL, NULL),
                                 UNETMM_CALL_CONNECT);
    check(unetmm_accept(c->rx, NULL, 10 * SECOND), UNETMM_CALL_ACCEPT);
    check(unetmm_listen(c->rx, 0, 0), UNETMM_CALL_LISTEN);
    c->here = one_page();
    c->buffer = one_page();
    /* An export is registered by being exported. */
    c->there = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (c->there == MAP_FAILED) {
        die("no memory: boot the guest with more");
    }
    check(unetmm_export(ctx, EXPORT, c->there, PAGE, UNETMM_RIGHT_READ |
                        UNETMM_RIGHT_WRITE, 0, 0), UNETMM_CALL_EXPORT);
    c->import = (unsigned)check(unetmm_import(c->tx, c->channel, EXPORT, 0,
                                              10 * SECOND, NULL),
                                UNETMM_CALL_IMPORT);
    return 0;
}

static void cell_close(struct cell *c)
{
    check(unetmm_unexport(ctx, EXPORT), UNETMM_CALL_EXPORT);
    check(unetmm_ep_destroy(c->tx), UNETMM_CALL_ANY);
    check(unetmm_ep_destroy(c->rx), UNETMM_CALL_ANY);
    no_page(c->here);
    no_page(c->buffer);
    munmap(c->there, PAGE);
}

static void prepare(struct cell *c, enum way way, unsigned i)
{
    uint8_t *away = way == WRITE_ABSENT ? c->there : way == READ_ABSENT ?
        c->here : NULL;

    if (way == SEND) {
        check(unetmm_post_recv(c->rx, c->buffer, PAGE, i, 0), UNETMM_CALL_POST);
    }
    memset(way == READ || way == READ_ABSENT ? c->there : c->here,
           (int)(i % 251 + 1), PAGE);
    if (away && madvise(away, PAGE, MADV_DONTNEED)) {
        die("madvise() fails");
    }
}

static int64_t one(struct cell *c, enum way way, unsigned i)
{
    const uint8_t *from, *to;
    int64_t start;

    prepare(c, way, i);
    start = now_ns();
    if (way == SEND) {
        check(unetmm_send(c->tx, c->channel, c->here, PAGE, i, 0),
              UNETMM_CALL_SEND);
        await(c->rx, 1u << UNETMM_CQE_RECEIVED);
    } else if (way == WRITE || way == WRITE_ABSENT) {
        check(unetmm_write(c->tx, c->import, 0, c->here, PAGE, 0, i, 0),
              UNETMM_CALL_ONE_SIDED);
    } else {
        check(unetmm_read(c->tx, c->import, 0, c->here, PAGE, i, 0),
              UNETMM_CALL_ONE_SIDED);
    }
    await(c->tx, 1u << UNETMM_CQE_SENT);
    start = now_ns() - start;
    from = way == READ || way == READ_ABSENT ? c->there : c->here;
    to = way == SEND ? c->buffer : from == c->here ? c->there : c->here;
    if (memcmp(from, to, PAGE)) {
        die("a completed message has not moved its bytes");
    }
    return start;
}

static void report(unsigned policy, enum way way, double us, unsigned n,
                   const char *why)
{
    printf("{\"peer\":\"unetmm, one guest\",\"mode\":\"%s, %s, %s\","
           "\"metric\":\"cell\",\"bytes\":%zu,\"frame\":%u,\"median\":%.3f,"
           "\"p99\":null,\"n\":%u,\"unit\":\"us\",\"cell_source\":\"%s\","
           "\"cell_policy\":\"%s\",\"cell_way\":\"%s\",\"refused\":\"%s\"}\n",
           source_name, policy_names[policy], way_names[way], PAGE,
           info.user_mtu, us, n, source_name, policy_names[policy],
           way_names[way], why);
    fflush(stdout);
}

void matrix(unsigned n)
{
    static int64_t took[MOST];
    struct cell c;
    int ret;

    if (!n || n > MOST) {
        die("1 to 10000 times");
    }
    for (unsigned policy = 0; policy <= UNETMM_POLICY_RNR; policy++) {
        ret = cell_open(&c, policy);
        for (enum way way = SEND; way < WAYS; way++) {
            if (ret) {
                report(policy, way, 0, 0, strerror(-ret));
                continue;
            }
            if (way >= WRITE_ABSENT && !may_be_absent()) {
                continue;
            }
            for (unsigned i = 0; i < WARMUP + n; i++) {
                int64_t ns = one(&c, way, i);

                if (i >= WARMUP) {
                    took[i - WARMUP] = ns;
                }
            }
            qsort(took, n, sizeof(*took), by_value);
            report(policy, way, (double)took[n / 2] / 1000, n, "");
        }
        if (!ret) {
            cell_close(&c);
        }
    }
}
