/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Registered pages of source `pinned`: each page once, however regions lie, and none
 * when the last region has gone.
 */
#include "../one_test.h"
#include <stdlib.h>

#include "provider.h"

#define PAGE    UNETMM_PAGE_BYTES
#define PAGES   64
#define BASE    0x10000000u

/* Of the library, which is not here. */
const uint32_t unetmm_inline_1_ = 1;
struct umfi_config umfi_config = { .source = UNETMM_SOURCE_PINNED };

static uint8_t registered[PAGES];
static unsigned calls, fail_at;
static size_t constants = PAGES;        /* the page that cannot be written */
static const struct sys_lock *connections; /* the lock that guards them */

int unetmm_register(struct unetmm_ctx *ctx, void *addr, size_t length, unsigned flags)
{
    size_t first = ((uintptr_t)addr - BASE) / PAGE;

    assert_true(!connections || connections->state == SYS_LOCK_FREE);
    if (++calls == fail_at) {
        return -ENOMEM;
    }
    assert_int_equal((uintptr_t)addr % PAGE, 0);
    assert_true(length && length % PAGE == 0 && first + length / PAGE <= PAGES);
    if (flags & UNETMM_REGION_WRITE && first <= constants &&
        constants - first < length / PAGE) {
        return -EFAULT;
    }
    for (size_t i = first; i < first + length / PAGE; i++) {
        assert_int_equal(registered[i], 0);
        registered[i] = 1;
    }
    return 0;
}

int unetmm_deregister(struct unetmm_ctx *ctx, void *addr, size_t length)
{
    size_t first = ((uintptr_t)addr - BASE) / PAGE;

    assert_true(!connections || connections->state == SYS_LOCK_FREE);
    for (size_t i = first; i < first + length / PAGE; i++) {
        assert_int_equal(registered[i], 1);
        registered[i] = 0;
    }
    return 0;
}

struct region {
    uintptr_t at;
    size_t len;
    bool live;
};

static void require_covered(const struct region *r)
{
    for (uintptr_t at = r->at; at < r->at + r->len; at++) {
        assert_int_equal(registered[(at - BASE) / PAGE], 1);
    }
}

static void require_none(const struct umfi_fabric *fabric)
{
    assert_null(fabric->spans);
    for (size_t i = 0; i < PAGES; i++) {
        assert_int_equal(registered[i], 0);
    }
}

TEST(memory_ends_before_the_last_page, cmocka_unit_test)
{
    struct umfi_fabric fabric = { 0 };

    umfi_config.source = UNETMM_SOURCE_PINNED;
    assert_int_equal(umfi_pin(&fabric, (void *)(UINTPTR_MAX - 100), 4096), -FI_EINVAL);
    assert_int_equal(umfi_pin(&fabric, (void *)BASE, SIZE_MAX), -FI_EINVAL);
    require_none(&fabric);
}

TEST(neighbours_share_a_page, cmocka_unit_test)
{
    struct umfi_fabric fabric = { 0 };
    char *base = (char *)(uintptr_t)BASE;

    assert_int_equal(umfi_pin(&fabric, base + 100, PAGE), 0);
    assert_int_equal(umfi_pin(&fabric, base + 100 + PAGE, PAGE), 0);
    umfi_unpin(&fabric, base + 100, PAGE);
    assert_int_equal(registered[1], 1);
    assert_int_equal(registered[2], 1);
    umfi_unpin(&fabric, base + 100 + PAGE, PAGE);
    require_none(&fabric);
}

/* Pinning takes as long as the kernel needs for the pages: connections do not wait. */
TEST(connections_go_on, cmocka_unit_test)
{
    struct umfi_fabric fabric = { 0 };
    char *base = (char *)(uintptr_t)BASE;

    connections = &fabric.lock;
    assert_int_equal(umfi_pin(&fabric, base, PAGE), 0);
    umfi_unpin(&fabric, base, PAGE);
    connections = NULL;
    require_none(&fabric);
}

/* No bytes hold no page, nor end another's hold. */
TEST(no_bytes, cmocka_unit_test)
{
    struct umfi_fabric fabric = { 0 };
    char *base = (char *)(uintptr_t)BASE;

    assert_int_equal(umfi_pin(&fabric, base, 3 * PAGE), 0);
    assert_int_equal(umfi_pin(&fabric, base + PAGE, 0), 0);
    umfi_unpin(&fabric, base + PAGE, 0);
    assert_int_equal(registered[1], 1);
    umfi_unpin(&fabric, base, 3 * PAGE);
    require_none(&fabric);
}

TEST(constants_are_sent, cmocka_unit_test)
{
    struct umfi_fabric fabric = { 0 };
    char *base = (char *)(uintptr_t)BASE;

    constants = 3;
    assert_int_equal(umfi_pin(&fabric, base + 3 * PAGE, 10), 0);
    assert_int_equal(registered[3], 1);
    umfi_unpin(&fabric, base + 3 * PAGE, 10);
    constants = PAGES;
    require_none(&fabric);
}

TEST(any_regions, cmocka_unit_test)
{
    struct umfi_fabric fabric = { 0 };
    struct region regions[24] = { 0 };
    unsigned seed = 1;

    for (unsigned step = 0; step < 20000; step++) {
        struct region *r = &regions[(unsigned)rand_r(&seed) % 24];

        if (r->live) {
            umfi_unpin(&fabric, (void *)r->at, r->len);
            r->live = false;
        } else {
            r->at = BASE + (unsigned)rand_r(&seed) % (PAGE * PAGES / 2);
            r->len = 1 + (unsigned)rand_r(&seed) % (PAGE * PAGES / 2);
            /* Some registrations fail, and leave nothing. */
            fail_at = (unsigned)rand_r(&seed) % 8 ? 0 : calls + 1;
            r->live = !umfi_pin(&fabric, (void *)r->at, r->len);
        }
        for (unsigned i = 0; step % 64 == 0 && i < 24; i++) {
            if (regions[i].live) {
                require_covered(&regions[i]);
            }
        }
    }
    for (unsigned i = 0; i < 24; i++) {
        if (regions[i].live) {
            umfi_unpin(&fabric, (void *)regions[i].at, regions[i].len);
        }
    }
    require_none(&fabric);
}
