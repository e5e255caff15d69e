/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Registered pages of source `pinned`.
 *
 * libunetmm registers a page once, but regions of libfabric's callers may overlap, and
 * neighbours in a heap share a page.  So the pages are kept as spans, each of them one
 * registration.  A region holds all spans that it touches, and registers only the pages
 * that are in none.  While it holds them no new span can come up in it: at its end it
 * releases those that it touches.
 *
 * The kernel may have to read the pages of a registration first, or to find memory for them.
 * So the spans have a lock of their own, and connections do not wait.
 */
#include "provider.h"

#include <stdlib.h>

#define PAGE    ((uintptr_t)UNETMM_PAGE_BYTES)

struct umfi_span {
    struct umfi_span *next;     /* in the order of addresses; they do not overlap */
    uintptr_t first, end;
    unsigned users;
};

static uintptr_t page_of(const void *addr)
{
    return (uintptr_t)addr & ~(PAGE - 1);
}

static uintptr_t end_of(const void *addr, size_t len)
{
    return ((uintptr_t)addr + len + PAGE - 1) & ~(PAGE - 1);
}

static int add_span(struct umfi_fabric *fabric, struct umfi_span **at, uintptr_t first,
                    uintptr_t end)
{
    struct umfi_span *span = malloc(sizeof(*span));
    int ret;

    sys_assert_held(&fabric->spans_lock);
    if (!span) {
        return -FI_ENOMEM;
    }
    ret = unetmm_register(fabric->ctx, (void *)first, end - first, UNETMM_REGION_WRITE);
    if (ret == -EFAULT) {
        /* Constants are sent, too: memory that the process itself cannot write. */
        ret = unetmm_register(fabric->ctx, (void *)first, end - first, 0);
    }
    if (ret) {
        free(span);
        return ret;
    }
    *span = (struct umfi_span) { .next = *at, .first = first, .end = end };
    *at = span;
    return 0;
}

static void release_spans(struct umfi_fabric *fabric, uintptr_t first, uintptr_t end)
{
    struct umfi_span **at = &fabric->spans;

    sys_assert_held(&fabric->spans_lock);
    while (*at && (*at)->first < end) {
        struct umfi_span *span = *at;

        if (span->end > first && !--span->users) {
            unetmm_deregister(fabric->ctx, (void *)span->first,
                              span->end - span->first);
            *at = span->next;
            free(span);
        } else {
            at = &span->next;
        }
    }
}

int umfi_pin(struct umfi_fabric *fabric, const void *addr, size_t len)
{
    uintptr_t first = page_of(addr), end = end_of(addr, len), next = first;
    struct umfi_span **at = &fabric->spans;
    int ret = 0;

    if (umfi_config.source != UNETMM_SOURCE_PINNED || !len) {
        return 0;
    }
    if (first > UINTPTR_MAX - 2 * PAGE || len > UINTPTR_MAX - 2 * PAGE - first) {
        /* The end of the last page has no address. */
        return -FI_EINVAL;
    }
    sys_lock_take(&fabric->spans_lock);
    while (*at && (*at)->end <= first) {
        at = &(*at)->next;
    }
    while (next < end) {
        if (!*at || (*at)->first > next) {
            uintptr_t gap = *at && (*at)->first < end ? (*at)->first : end;

            ret = add_span(fabric, at, next, gap);
            if (ret) {
                release_spans(fabric, first, next);
                break;
            }
        }
        (*at)->users++;
        next = (*at)->end;
        at = &(*at)->next;
    }
    sys_lock_drop(&fabric->spans_lock);
    return ret;
}

void umfi_unpin(struct umfi_fabric *fabric, const void *addr, size_t len)
{
    if (umfi_config.source != UNETMM_SOURCE_PINNED || !len) {
        return;
    }
    sys_lock_take(&fabric->spans_lock);
    release_spans(fabric, page_of(addr), end_of(addr, len));
    sys_lock_drop(&fabric->spans_lock);
}
