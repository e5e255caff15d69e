/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The order in which pages are unpinned: least or most recently used, longest
 * pinned, least frequently used, or any.  The first three are one list each, of
 * page numbers, in an array.  The fourth is a list for each number of uses, so that
 * a use costs the same however many pages there are.
 */
#include "../base/base.h"

/*
 * Uses are counted up to this number less one.  Pages that have reached it are
 * ordered by their last use, so that pages of the past do not stay for ever.
 */
#define USES 64u

struct order {
    uint32_t quota;             /* also the first list's end, as a page number */
    uint64_t random;
    struct {
        uint32_t before, after; /* an end, from quota on; itself: in no list */
        uint32_t uses;          /* of lfu */
    } page[];
};

static void *order_of(uint32_t quota, uint32_t lists)
{
    struct order *o = sys_calloc(1, sizeof(*o) + ((uint64_t)quota + lists) *
                                                 sizeof(o->page[0]));
    uint32_t i;

    if (!o) {
        return NULL;
    }
    o->quota = quota;
    o->random = 88172645463325252ull;
    for (i = 0; i < quota + lists; i++) {
        o->page[i].before = o->page[i].after = i;
    }
    return o;
}

static void *order_create(uint32_t quota)
{
    return order_of(quota, 1);
}

static void *uses_create(uint32_t quota)
{
    return order_of(quota, USES);
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
static void append_to(struct order *o, uint32_t end, uint32_t page)
{
    uint32_t last = o->page[end].before;

    o->page[page].before = last;
    o->page[page].after = end;
    o->page[last].after = page;
    o->page[end].before = page;
}

static void order_append(void *state, uint32_t page)
{
    struct order *o = state;

    append_to(o, o->quota, page);
}

static void uses_append(void *state, uint32_t page)
{
    struct order *o = state;

    o->page[page].uses = 0;
    append_to(o, o->quota, page);
}

static void uses_used(void *state, uint32_t page)
{
    struct order *o = state;

    order_remove(o, page);
    if (o->page[page].uses < USES - 1) {
        o->page[page].uses++;
    }
    append_to(o, o->quota + o->page[page].uses, page);
}

static void order_used(void *state, uint32_t page)
{
    order_remove(state, page);
    order_append(state, page);
}

static uint32_t oldest_of(struct order *o, uint32_t end, unetmm_utlb_take take,
                          void *arg)
{
    uint32_t page = o->page[end].after;

    while (page != end && !take(arg, page)) {
        page = o->page[page].after;
    }
    return page == end ? UNETMM_UTLB_NONE : page;
}

static uint32_t choose_oldest(void *state, unetmm_utlb_take take, void *arg)
{
    struct order *o = state;

    return oldest_of(o, o->quota, take, arg);
}

/* Of the pages with the fewest uses, the one whose last use was first. */
static uint32_t choose_rarest(void *state, unetmm_utlb_take take, void *arg)
{
    struct order *o = state;
    uint32_t page = UNETMM_UTLB_NONE, uses;

    for (uses = 0; uses < USES && page == UNETMM_UTLB_NONE; uses++) {
        page = oldest_of(o, o->quota + uses, take, arg);
    }
    return page;
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
    { .size = sizeof(policies[0]), .name = "lfu", .create = uses_create,
      .destroy = free, .pinned = uses_append, .used = uses_used,
      .unpinned = order_remove, .choose = choose_rarest },
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
