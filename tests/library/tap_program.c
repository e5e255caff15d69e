/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A program of tests as those that run in guests, for test-tap.py: the acts of its
 * tests, and the driver's words of itself, are in the environment.
 *
 * TAP_COUNTERS  "none": the driver cannot be asked; "leak": a page more is pinned
 *               each time; "later": it can be asked from the third time on
 */
#include "tap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *counters(void)
{
    const char *word = getenv("TAP_COUNTERS");

    return word ? word : "";
}

/* In the library's place */
int unetmm_open(const char *path, unsigned source, struct unetmm_ctx **ctx)
{
    static unsigned times;

    (void)path;
    (void)source;
    *ctx = NULL;
    if (!strcmp(counters(), "none") ||
        (!strcmp(counters(), "later") && ++times < 3)) {
        return -ENODEV;
    }
    return 0;
}

int unetmm_close(struct unetmm_ctx *ctx)
{
    (void)ctx;
    return 0;
}

int unetmm_stats_read(struct unetmm_ctx *ctx, unsigned scope, unsigned endpoint,
                      uint64_t *values, unsigned count)
{
    static uint64_t pinned;

    (void)ctx;
    (void)scope;
    (void)endpoint;
    memset(values, 0, count * sizeof(*values));
    pinned += !strcmp(counters(), "leak");
    values[UNETMM_D_pinned_now] = pinned;
    return (int)count;
}

int unetmm_parse_mac(const char *text, uint8_t mac[6])
{
    (void)text;
    (void)mac;
    return -EINVAL;
}

TEST(passes, TEST_SOURCES | TEST_POLICIES)
{
}
ALSO("plain", passes, 0)
ALSO("no-card", passes, TEST_NO_CARD)

TEST(fails, TEST_NO_CARD)
{
    FAIL("as it should");
}

TEST(skips, TEST_NO_CARD)
{
    test_skip("there is no %s", "such thing");
}

static unsigned looks_until_the_end(uint64_t between)
{
    struct patience p = { 10 * NS_PER_S, 500 };
    uint64_t now = 500;
    unsigned looks = 1;

    while (!patience_ends(&p, now += between)) {
        looks++;
    }
    return looks;
}

TEST(patience, TEST_NO_CARD)
{
    CHECK_EQ(looks_until_the_end(NS_PER_S / 1000), 10000);
    CHECK_EQ(looks_until_the_end(NS_PER_S / 10), 100);
    CHECK_EQ(looks_until_the_end(3600 * NS_PER_S), 100);
}
