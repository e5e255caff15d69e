/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory that a forked child does not share, and the clock of timeouts.
 */
#include "base.h"

/* Zeroed pages that a fork treats as `advice` says */
static int alloc_pages(size_t bytes, int advice, void **memory)
{
    int ret = sys_mmap(memory, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (ret) {
        return ret;
    }
    ret = sys_madvise(*memory, bytes, advice);
    if (ret) {
        sys_munmap(*memory, bytes);
    }
    return ret;
}

int unetmm_alloc_wiped(size_t bytes, void **memory)
{
    return alloc_pages(bytes, MADV_WIPEONFORK, memory);
}

int unetmm_alloc_unshared(size_t bytes, void **memory)
{
    return alloc_pages(bytes, MADV_DONTFORK, memory);
}

void unetmm_free_wiped(void *memory, size_t bytes)
{
    sys_munmap(memory, bytes);
}

uint64_t unetmm_deadline(int64_t timeout_ns)
{
    uint64_t end = timeout_ns ? unetmm_time_of(timeout_ns) : 0;

    return end < INT64_MAX ? end : INT64_MAX;
}

uint64_t unetmm_time_of(int64_t timeout_ns)
{
    return timeout_ns < 0 ? UINT64_MAX : sys_now_ns() + (uint64_t)timeout_ns;
}

int64_t unetmm_time_until(uint64_t deadline)
{
    uint64_t now;

    if (deadline == UINT64_MAX) {
        return -1;
    }
    now = sys_now_ns();
    return deadline > now ? (int64_t)(deadline - now) : 0;
}
