/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The cost of translation where so many messages in a hundred come from a page
 * that the card has used just now, and the others from pages in turn, which a
 * TLB has lost by then and a shadow table has not: pins against locks.  And
 * the cost of pinning alone, with no interrupt and no command for each page.
 */
#include "local.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define BYTES       32          /* comes back in its completion: one page used */
#define PLACES      2400u       /* in turn: twice as many as the TLB has sets */
#define MESSAGES    1000u
#define PASSES      3u
#define PINS        64u         /* pages */

static int64_t stamp(void)
{
    return counts_instructions() ? (int64_t)ticks() : now_ns();
}

struct sums {
    uint64_t misses, pins, commands, interrupts;
};

static struct sums sums_now(void)
{
    return (struct sums) { misses(), driver(UNETMM_D_pins),
                           driver(UNETMM_D_commands),
                           card(UNETMM_C_interrupts) };
}

/* A pass; pages that are not the first come in their turn. */
static int64_t messages(struct unetmm_ep *ep, int channel, const uint8_t *at,
                        unsigned percent, unsigned *place)
{
    int64_t start = stamp();

    for (unsigned i = 0; i < MESSAGES; i++) {
        bool hit = (i + 1) * percent / 100 != i * percent / 100;
        const uint8_t *from = at;

        if (!hit) {
            *place = *place % (PLACES - 1) + 1;
            from += (size_t)*place * PAGE;
        }
        check(unetmm_send(ep, (unsigned)channel, from, BYTES, i, 0),
              UNETMM_CALL_SEND);
        await(ep, 1u << UNETMM_CQE_RECEIVED | 1u << UNETMM_CQE_SENT);
    }
    return stamp() - start;
}

static void report(unsigned percent, int64_t best, struct sums was)
{
    struct sums is = sums_now();
    double n = MESSAGES * PASSES, unit = counts_instructions() ? 1 : 1000;

    printf("{\"peer\":\"unetmm, one guest\",\"mode\":\"%s, %u %% found\","
           "\"metric\":\"%s\",\"bytes\":%u,\"frame\":%u,\"median\":%.3f,"
           "\"p99\":null,\"n\":%u,\"unit\":\"%s\",\"rate\":%u,"
           "\"rate_source\":\"%s\",\"statistic\":\"mean of the best pass\","
           "\"misses\":%.3f,\"pins\":%.3f,\"commands\":%.3f,"
           "\"interrupts\":%.3f}\n", source_name, percent,
           counts_instructions() ? "instructions" : "translation", BYTES, info.user_mtu,
           (double)best / MESSAGES / unit, MESSAGES,
           counts_instructions() ? "instructions" : "us", percent, source_name,
           (double)(is.misses - was.misses) / n,
           (double)(is.pins - was.pins) / n,
           (double)(is.commands - was.commands) / n,
           (double)(is.interrupts - was.interrupts) / n);
    fflush(stdout);
}

static void *area(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED || madvise(at, bytes, MADV_NOHUGEPAGE) ||
        madvise(at, bytes, MADV_POPULATE_WRITE)) {
        die("no memory: boot the guest with more");
    }
    return at;
}

void rate(unsigned percent)
{
    size_t bytes = (size_t)PLACES * PAGE;
    struct unetmm_ep_attr attr = UNETMM_EP_ATTR_INIT;
    int64_t best = INT64_MAX;
    unsigned place = 0;
    struct unetmm_ep *ep;
    struct sums was;
    uint8_t *at;
    int channel;

    if (percent > 100) {
        die("0 to 100 in a hundred");
    }
    at = area(bytes);
    give(at, bytes);
    attr.inline_max = 0;
    check(unetmm_ep_create(ctx, &attr, &ep), UNETMM_CALL_EP_CREATE);
    channel = join(ep, ep);
    /* From now on each page that comes in has one go. */
    messages(ep, channel, at, 0, &place);
    messages(ep, channel, at, percent, &place);
    was = sums_now();
    for (unsigned i = 0; i < PASSES; i++) {
        int64_t took = messages(ep, channel, at, percent, &place);

        best = took < best ? took : best;
    }
    report(percent, best, was);
    check(unetmm_ep_destroy(ep), UNETMM_CALL_ANY);
    take_back(at, bytes);
    munmap(at, bytes);
}

/* Of source pinned: PINS pages at a time less one, which is the call. */
void pin(unsigned n)
{
    int64_t best[2] = { INT64_MAX, INT64_MAX };
    uint8_t *at = area(PINS * PAGE);

    for (unsigned i = 0; i < 2 * n; i++) {
        size_t bytes = i % 2 ? PINS * PAGE : PAGE;
        int64_t took, start = stamp();

        check(unetmm_register(ctx, at, bytes, UNETMM_REGION_WRITE),
              UNETMM_CALL_REGISTER);
        check(unetmm_deregister(ctx, at, bytes), UNETMM_CALL_ANY);
        took = stamp() - start;
        best[i % 2] = took < best[i % 2] ? took : best[i % 2];
    }
    printf("{\"peer\":\"unetmm, one guest\",\"mode\":\"pin and unpin a page\","
           "\"metric\":\"%s\",\"bytes\":%zu,\"frame\":%u,\"median\":%.3f,"
           "\"p99\":null,\"n\":%u,\"unit\":\"%s\",\"pin\":1,"
           "\"statistic\":\"least\"}\n",
           counts_instructions() ? "instructions" : "translation", PAGE, info.user_mtu,
           (double)(best[1] - best[0]) / (PINS - 1) /
           (counts_instructions() ? 1 : 1000), n, counts_instructions() ? "instructions" : "us");
    munmap(at, PINS * PAGE);
}
