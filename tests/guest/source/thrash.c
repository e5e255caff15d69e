/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A TLB that is far too small for the messages (the guest's card has few sets and
 * victims): every byte checked, and never more pages pinned than the TLB can hold
 * and one answer brings.
 */
#include "guard.h"
#include "link.h"

#include <libunetmm/inline.h>

#include <string.h>
#include <sys/mman.h>

static struct unetmm_info info;

static unsigned tlb_pages(void)
{
    return info.tlb_sets * info.tlb_ways + info.tlb_victims;
}

static void need_small_tlb(void)
{
    card_info(&info);
    if (tlb_pages() > 100) {
        test_skip("the card's TLB has %u entries: run it with fewer",
                  tlb_pages());
    }
}

/* Messages between random places of an area far larger than the TLB. */
TEST(random_places, TEST_TLB | TEST_POLICIES, 60)
{
    const unsigned npages = 256;
    struct chance chance;
    uint8_t *from, *to;
    struct link link;
    size_t longest;
    unsigned i;

    need_small_tlb();
    chance_init(&chance, 0);
    link_open(&link, NULL, NULL);
    from = pages(npages);
    to = pages(npages);
    longest = (size_t)(tlb_pages() / 6) * PAGE;
    longest = longest < link.tx->mtu ? longest : link.tx->mtu;
    for (i = 0; i < rounds(300); i++) {
        uint32_t room = (uint32_t)(npages * PAGE - longest);
        size_t len = 1 + chance_below(&chance, (uint32_t)longest);

        exchange_pattern(&link, from + chance_below(&chance, room),
                         to + chance_below(&chance, room), len,
                         chance_u64(&chance));
    }
    note("%llu evictions", (unsigned long long)
         card_counter(link.ctx, UNETMM_C_tlb_evictions));
    CHECK(card_counter(link.ctx, UNETMM_C_tlb_evictions) > rounds(100));
    link_close(&link);
}

/* More buffers posted than the TLB can hold; all are filled, in order. */
TEST(many_buffers, TEST_TLB | TEST_POLICIES)
{
    const unsigned n = 96;
    struct unetmm_completion c;
    uint64_t end = deadline_in(20);
    struct iovec iov;
    uint8_t *from, *to;
    unsigned i, next = 0, skipped = 0;
    struct link link;

    need_small_tlb();
    link_open(&link, NULL, NULL);
    from = pages(n);
    to = pages(n);
    for (i = 0; i < n; i++) {
        post(link.rx, to + i * PAGE, PAGE, i);
    }
    while (next < n) {
        CHECK(now_ns() < end);
        iov = (struct iovec) { from + next * PAGE, PAGE };
        pattern_fill(iov.iov_base, PAGE, next, 0);
        if (deliver(&link, &iov, 1, &c)) {
            CHECK_PATTERN(to + c.user_data * PAGE, PAGE, next);
            next++;
        }
        while (take_now(link.rx, UNETMM_CQE_BUFFER, &c)) {
            CHECK_EQ(c.status, UNETMM_ST_SKIPPED);
            skipped++;
            post(link.rx, to + c.user_data * PAGE, PAGE, c.user_data);
        }
    }
    note("%u skipped", skipped);
    link_close(&link);
}

/* As large as the TLB can hold, and larger. */
TEST(large_buffers, TEST_TLB)
{
    struct unetmm_completion c;
    struct link link;
    uint8_t *from, *to;
    size_t most;

    need_small_tlb();
    most = (size_t)info.max_buffer_pages * PAGE;
    link_open(&link, NULL, NULL);
    from = pages(3);
    to = pages(info.max_buffer_pages + 1);
    CHECK_RET(unetmm_post_recv(link.rx->ep, to, most + 1, 1, 0), -EMSGSIZE);
    CHECK_RET(unetmm_post_recv(link.rx->ep, to + 1, most, 1, 0), -EMSGSIZE);
    /* The card gives back a buffer that the library lets through. */
    link.rx->ep->max_buffer_pages = UINT32_MAX;
    post(link.rx, to, most + 1, 7);
    link.rx->ep->max_buffer_pages = info.max_buffer_pages;
    take(link.rx, UNETMM_CQE_BUFFER, &c);
    CHECK_EQ(c.user_data, 7);
    CHECK_EQ(c.status, UNETMM_ST_TOO_LARGE);
    /* Two pages fit any TLB; as many as it holds fit if they do not clash. */
    exchange_pattern(&link, from, to, 2 * PAGE, 1);
    link_close(&link);
}

/* Two endpoints whose buffers cannot be held together still get messages. */
TEST(two_endpoints, TEST_TLB)
{
    struct link one, two;
    struct chance chance;
    uint8_t *area;
    unsigned i;

    need_small_tlb();
    chance_init(&chance, 0);
    link_open(&one, NULL, NULL);
    link_open(&two, one.ctx, NULL);
    area = pages(64);
    for (i = 0; i < rounds(100); i++) {
        struct link *link = i % 2 ? &one : &two;

        exchange_pattern(link, area + chance_below(&chance, 30) * PAGE,
                         area + (32 + chance_below(&chance, 28)) * PAGE,
                         1 + chance_below(&chance, 2 * UNETMM_PAGE_BYTES),
                         chance_u64(&chance));
    }
    link_close(&two);
    link_close(&one);
}

/* Last: over all that was done since the driver was loaded. */
TEST(pins_bounded, TEST_TLB)
{
    struct unetmm_ctx *ctx;
    uint64_t most;

    need_small_tlb();
    ctx = open_card();
    most = driver_counter(ctx, UNETMM_D_pinned_max);
    note("at most %llu pages pinned; the TLB has %u entries",
         (unsigned long long)most, tlb_pages());
    /* One answer's pages, and those that they have pushed out meanwhile */
    CHECK(most <= tlb_pages() + 2 * 16);
    CHECK_RET(unetmm_close(ctx), 0);
}
