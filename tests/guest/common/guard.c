/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Guarded buffers: maps them, fills the canaries, checks each byte. */
#include "guard.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE   25
#endif

/* The canaries' key depends on where they are: copied ones are wrong. */
static uint64_t canary_key(const struct guard *guard)
{
    return pattern_key(run.seed ^ 0xca9a91e5, (uintptr_t)guard->area);
}

static void make(struct guard *guard, size_t len, size_t offset)
{
    size_t bytes = (offset + len + PAGE - 1) / PAGE * PAGE;
    uint8_t *map;

    bytes = bytes ? bytes : PAGE;
    map = CHECK_SYS(mmap(NULL, bytes + 2 * PAGE, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    CHECK_SYS(mprotect(map + PAGE, bytes, PROT_READ | PROT_WRITE));
    guard->area = map + PAGE;
    guard->bytes = bytes;
    guard->at = guard->area + offset;
    guard->len = len;
    guard_reset(guard);
}

void guard_make(struct guard *guard, size_t len, size_t offset)
{
    make(guard, len, offset % PAGE);
}

void guard_make_at_end(struct guard *guard, size_t len)
{
    make(guard, len, (PAGE - len % PAGE) % PAGE);
}

void guard_free(struct guard *guard)
{
    CHECK_SYS(munmap(guard->area - PAGE, guard->bytes + 2 * PAGE));
}

void guard_reset(struct guard *guard)
{
    pattern_fill(guard->area, guard->bytes, canary_key(guard), 0);
}

void guard_check(const struct guard *guard, size_t used)
{
    uint64_t key = canary_key(guard);
    size_t before = (size_t)(guard->at - guard->area);
    size_t after = guard->bytes - before - used;
    size_t at = pattern_check(guard->area, before, key, 0);

    if (at < before) {
        FAIL("the byte %zu before the buffer was changed", before - at);
    }
    at = pattern_check(guard->at + used, after, key, before + used);
    if (at < after) {
        FAIL("byte %zu of the buffer was changed: %zu beyond the message",
             used + at, at);
    }
}

uint8_t *pages(unsigned count)
{
    return CHECK_SYS(mmap(NULL, count * PAGE, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

void unmap_pages(void *at, unsigned count)
{
    CHECK_SYS(munmap(at, count * PAGE));
}

unsigned huge_kilobytes(const void *at, size_t bytes)
{
    unsigned long start, end, first = (unsigned long)at;
    FILE *file = fopen("/proc/self/smaps", "r");
    unsigned kilobytes = 0, value;
    bool ours = false;
    char line[300];

    CHECK(file);
    while (fgets(line, sizeof(line), file)) {
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2) {
            ours = start < first + bytes && end > first;
        } else if (ours && sscanf(line, "AnonHugePages: %u", &value) == 1) {
            kilobytes += value;
        }
    }
    fclose(file);
    return kilobytes;
}

void check_pattern(const char *file, int line, const void *buffer, size_t len,
                   uint64_t key)
{
    const uint8_t *bytes = buffer;
    size_t at = pattern_check(bytes, len, key, 0);

    if (at < len) {
        test_fail(file, line, "byte %zu of %zu is 0x%02x, not 0x%02x", at,
                  len, bytes[at], pattern_byte(key, at));
    }
}

void check_bytes(const char *file, int line, const void *buffer, size_t len,
                 uint8_t value)
{
    const uint8_t *bytes = buffer;
    size_t at;

    for (at = 0; at < len; at++) {
        if (bytes[at] != value) {
            test_fail(file, line, "byte %zu of %zu is 0x%02x, not 0x%02x", at,
                      len, bytes[at], value);
        }
    }
}
