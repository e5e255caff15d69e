/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Which page is unpinned first: least or most recently used, longest pinned, or
 * any.  The first three are a list each, of page numbers, in an array.
 */
#include "internal.h"
#include "sys.h"

struct order {
    uint32_t quota;             /* also the list's end, as a page number */
    uint64_t random;
    struct {
        uint32_t before, after; /* quota: the end; itself: not in the list */
    } page[];
};

static void *order_create(uint32_t quota)
{
    struct order *o = sys_calloc(1, sizeof(*o) +
                                 (quota + 1ull) * sizeof(o->page[0]));
    uint32_t i;

    if (!o) {
        return NULL;
    }
    o->quota = quota;
    o->random = 88172645463325252ull;
    for (i = 0; i <= quota; i++) {
        o->page[i].before = o->page[i].after = i;
    }
    return o;
}

static void order_remove(void *state, uint32_t page)
{
    struct order *o = state;
    uint32_t before = o->page[page].before, after = o->page[page].after;

    o->page[before].after = after;
    o->page[after].before = before;
    o->page[page].before = o->page[page].after = page;
}

/* To the end at which the youngest are. */
static void order_append(void *state, uint32_t page)
{
    struct order *o = state;
    uint32_t last = o->page[o->quota].before;

    o->page[page].before = last;
    o->page[page].after = o->quota;
    o->page[last].after = page;
    o->page[o->quota].before = page;
}

static void order_used(void *state, uint32_t page)
{
    order_remove(state, page);
    order_append(state, page);
}

static uint32_t choose_oldest(void *state, unetmm_utlb_take take, void *arg)
{
    struct order *o = state;
    uint32_t page = o->page[o->quota].after;

    while (page != o->quota && !take(arg, page)) {
        page = o->page[page].after;
    }
    return page == o->quota ? UNETMM_UTLB_NONE : page;
}

static uint32_t choose_youngest(void *state, unetmm_utlb_take take, void *arg)
{
    struct order *o = state;
    uint32_t page = o->page[o->quota].before;

    while (page != o->quota && !take(arg, page)) {
        page = o->page[page].before;
    }
    return page == o->quota ? UNETMM_UTLB_NONE : page;
}

/* From a random number on, the first that is pinned and may go. */
static uint32_t choose_any(void *state, unetmm_utlb_take take, void *arg)
{
    struct order *o = state;
    uint32_t i, start;

    o->random ^= o->random << 13;
    o->random ^= o->random >> 7;
    o->random ^= o->random << 17;
    start = (uint32_t)(o->random % o->quota);
    for (i = 0; i < o->quota; i++) {
        uint32_t page = (start + i) % o->quota;

        if (o->page[page].after != page && take(arg, page)) {
            return page;
        }
    }
    return UNETMM_UTLB_NONE;
}

static const struct unetmm_utlb_policy policies[] = {
    { .size = sizeof(policies[0]), .name = "lru", .create = order_create,
      .destroy = free, .pinned = order_append, .used = order_used,
      .unpinned = order_remove, .choose = choose_oldest },
    { .size = sizeof(policies[0]), .name = "mru", .create = order_create,
      .destroy = free, .pinned = order_append, .used = order_used,
      .unpinned = order_remove, .choose = choose_youngest },
    { .size = sizeof(policies[0]), .name = "fifo", .create = order_create,
      .destroy = free, .pinned = order_append,
      .unpinned = order_remove, .choose = choose_oldest },
    { .size = sizeof(policies[0]), .name = "random", .create = order_create,
      .destroy = free, .pinned = order_append,
      .unpinned = order_remove, .choose = choose_any },
};

const struct unetmm_utlb_policy *unetmm_utlb_policy(const char *name)
{
    size_t i;

    for (i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
        if (!strcmp(name, policies[i].name)) {
            return &policies[i];
        }
    }
    return NULL;
}
