/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The examples of the manual's pages, run on the card's core with a channel of an
 * endpoint to itself.
 */
#include <stddef.h>
#include <stdint.h>

#include "../one_test.h"

#include "fake_loop.h"
#include "man_scene.h"

#define SECOND 1000000000ll
#define LAST_EXPORT 5

/* The driver has one context: these make their own. */
static bool makes_context(const char *name)
{
    return !strcmp(name, "unetmm_open_3");
}

static bool makes_endpoint(const char *name)
{
    return !strcmp(name, "unetmm_ep_create_3");
}

static void run_one(const struct example *example)
{
    const uint8_t mac[6] = { 0x52, 0x54, 0, 0, 0, 1 };
    struct unetmm_ctx *ctx = NULL;
    struct unetmm_ep *ep = NULL;
    int channel = 0;

    if (!makes_context(example->name)) {
        assert_int_equal(unetmm_open("/loop", UNETMM_SOURCE_TLB, &ctx), 0);
    }
    if (ctx && !makes_endpoint(example->name)) {
        assert_int_equal(unetmm_ep_create(ctx, NULL, &ep), 0);
        assert_int_equal(unetmm_listen(ep, 5, 4), 0);
        channel = unetmm_connect(ep, mac, 5, 5 * SECOND, NULL);
        assert_in_range(channel, 0, 15);
        assert_in_range(unetmm_accept(ep, NULL, 5 * SECOND), 0, 15);
    }
    fprintf(stderr, "%s\n", example->name);
    assert_in_range(example->run(ctx, ep, channel, mac), 0, INT32_MAX);
    if (ep) {
        assert_int_equal(unetmm_ep_destroy(ep), 0);
    }
    if (ctx) {
        /* The examples leave their exports to unetmm_close(). */
        for (uint64_t id = 1; id <= LAST_EXPORT; id++) {
            unetmm_unexport(ctx, id);
        }
        assert_int_equal(unetmm_close(ctx), 0);
    }
    assert_int_equal(loop_leaks(), 0);
}

static bool runs_here(const char *name)
{
    return !needs_a_card(name) || !strcmp(name, "unetmm_export_key_3") ||
        !strcmp(name, "unetmm_sem_home_3");
}

TEST(examples_of_the_manual, cmocka_unit_test)
{
    size_t i, run = 0;

    for (i = 0; i < EXAMPLES; i++) {
        if (runs_here(examples[i].name)) {
            run_one(&examples[i]);
        }
        run += !needs_a_card(examples[i].name);
    }
    assert_int_equal(run + NEED_A_CARD, EXAMPLES);
    assert_true(completions >= 2);
}
