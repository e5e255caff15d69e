/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The cost of a translation that the card does not have: a message from one
 * page, always the same, and messages from pages in turn, so far apart that
 * each needs an entry of its own and so many that it is out again before its
 * turn comes.
 */
#include "local.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define BYTES       32          /* comes back in its completion: one page used */
#define STRIDE      32u         /* no fetch of the card brings so many pages */
#define COUNT       1000u
#define PASSES      3u

/* Of both kinds; a source has one of them. */
static uint64_t all_misses(void)
{
    return card(UNETMM_C_tlb_misses) + card(UNETMM_C_cache_misses);
}

static double median_us(struct unetmm_ep *ep, int channel, const uint8_t *at,
                        unsigned apart)
{
    static int64_t times[COUNT];

    for (unsigned i = 0; i < COUNT; i++) {
        const uint8_t *from = at + (size_t)i * apart * PAGE;
        int64_t start = now_ns();

        check(unetmm_send(ep, (unsigned)channel, from, BYTES, i, 0),
              UNETMM_CALL_SEND);
        await(ep, 1u << UNETMM_CQE_RECEIVED | 1u << UNETMM_CQE_SENT);
        times[i] = now_ns() - start;
    }
    qsort(times, COUNT, sizeof(*times), by_value);
    return (double)times[COUNT / 2] / 1000;
}

/* All that a process of source utlb uses here may stay pinned. */
static void raise_quota(size_t pages)
{
    struct unetmm_utlb_config config = {
        .size = sizeof(config), .quota_pages = (uint32_t)pages,
    };

    if (*source_name == 'u') {
        check(unetmm_utlb_configure(ctx, &config), UNETMM_CALL_ANY);
    }
}

static void report(double hit, double miss, uint64_t missed, uint64_t looked)
{
    printf("{\"peer\":\"unetmm, one guest\",\"mode\":\"%s\","
           "\"metric\":\"miss\",\"bytes\":%u,\"frame\":%u,"
           "\"median\":%.3f,\"p99\":null,\"n\":%u,\"unit\":\"us\","
           "\"hit\":%.3f,\"missed\":%.3f,\"misses\":%llu,\"fetches\":%llu}\n",
           source_name, BYTES, info.user_mtu, miss - hit, COUNT, hit, miss,
           (unsigned long long)missed, (unsigned long long)looked);
    fflush(stdout);
}

void miss(unsigned mib)
{
    size_t pages = ((size_t)mib << 20) / PAGE;
    struct unetmm_ep_attr attr = UNETMM_EP_ATTR_INIT;
    double hit = 1e9, missed = 1e9;
    uint64_t before, fetched;
    struct unetmm_ep *ep;
    uint8_t *at;
    int channel;

    if (pages < (size_t)STRIDE * COUNT) {
        die("125 MiB at least: else the pages are there again in their turn");
    }
    at = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (at == MAP_FAILED) {
        die("no memory: boot the guest with more");
    }
    raise_quota(pages);
    give(at, pages * PAGE);
    attr.inline_max = 0;
    check(unetmm_ep_create(ctx, &attr, &ep), UNETMM_CALL_EP_CREATE);
    channel = join(ep, ep);
    median_us(ep, channel, at, STRIDE);
    before = all_misses();
    fetched = card(UNETMM_C_utlb_fetches);
    /* Other work of the machine only adds. */
    for (unsigned i = 0; i < PASSES; i++) {
        double us = median_us(ep, channel, at, 0);

        hit = us < hit ? us : hit;
        us = median_us(ep, channel, at, STRIDE);
        missed = us < missed ? us : missed;
    }
    report(hit, missed, all_misses() - before,
           card(UNETMM_C_utlb_fetches) - fetched);
    if (all_misses() - before < PASSES * (COUNT - 1)) {
        die("the card had entries that it should not have");
    }
    check(unetmm_ep_destroy(ep), UNETMM_CALL_ANY);
    take_back(at, pages * PAGE);
    munmap(at, pages * PAGE);
}
