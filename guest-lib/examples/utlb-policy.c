/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Source utlb with a policy of its own: when too many pages are pinned, the one with
 * the highest number goes.  Sends 64 pages to itself, with a quota of 16.
 */
#include <libunetmm.h>
#include <stdio.h>

#define SERVICE 107
#define PAGES   64u
#define SECOND  1000000000ll

static char pages[PAGES + 1][4096] __attribute__((aligned(4096)));
static uint32_t most;

static void *create(uint32_t quota) { most = quota; return &most; }
static void destroy(void *state) { (void)state; }
static void changed(void *state, uint32_t page) { (void)state, (void)page; }

/* take() refuses a number whose page is in use, or that has no page. */
static uint32_t choose(void *state, unetmm_utlb_take take, void *arg)
{
    uint32_t page = *(uint32_t *)state;

    while (page-- && !take(arg, page)) {
    }
    return page;                /* below 0 is UNETMM_UTLB_NONE */
}

int main(void)
{
    const struct unetmm_utlb_policy policy = {
        sizeof(policy), "highest", create, destroy, changed, changed, NULL, choose
    };
    const struct unetmm_utlb_config config = { sizeof(config), 16, 1, &policy };
    struct unetmm_utlb_stats stats = { sizeof(stats), 0, 0, 0, 0, 0, 0, 0, 0, 0 };
    struct unetmm_info info;
    struct unetmm_completion c;
    struct unetmm_ctx *ctx;
    struct unetmm_ep *ep;
    unsigned i;
    int ret, n;

    info.size = sizeof(info);
    ret = unetmm_open(NULL, UNETMM_SOURCE_UTLB, &ctx);
    ret = ret ? ret : unetmm_utlb_configure(ctx, &config);
    ret = ret ? ret : unetmm_ep_create(ctx, NULL, &ep);
    ret = ret ? ret : unetmm_info(ctx, &info);
    ret = ret ? ret : unetmm_listen(ep, SERVICE, 1);
    n = ret = ret ? ret : unetmm_connect(ep, info.mac, SERVICE, SECOND, NULL);
    for (i = 0; i < PAGES && ret >= 0; i++) {
        ret = unetmm_post_recv(ep, pages[PAGES], 4096, 0, 0);
        ret = ret ? ret : unetmm_send(ep, n, pages[i], 4096, 0, UNETMM_UNSIGNALED);
        ret = ret ? ret : unetmm_wait(ep, &c, 1, SECOND);
    }
    ret = ret < 0 ? ret : unetmm_utlb_stats(ctx, &stats);
    printf("%u pinned, of %u\n", stats.pinned_now, (unsigned)stats.pinned_pages);
    return ret < 0;
}
