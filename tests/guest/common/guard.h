/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Buffers between guard pages, with canary bytes wherever the card has no
 * business: a byte too many is found out.
 */
#ifndef TEST_GUARD_H
#define TEST_GUARD_H

#include "tap.h"
#include "pattern.h"

#define PAGE ((size_t)UNETMM_PAGE_BYTES)

struct guard {
    uint8_t *area;              /* whole pages, a PROT_NONE page on each side */
    size_t bytes;
    uint8_t *at;                /* the buffer in them */
    size_t len;
};

/* A buffer that begins `offset` bytes into its first page; all canaries. */
void guard_make(struct guard *guard, size_t len, size_t offset);
/* One that ends where its last page ends. */
void guard_make_at_end(struct guard *guard, size_t len);
void guard_free(struct guard *guard);

void guard_reset(struct guard *guard);
/* All but the buffer's first `used` bytes must still be canaries. */
void guard_check(const struct guard *guard, size_t used);

/* Whole pages, anonymous and private. */
uint8_t *pages(unsigned count);
void unmap_pages(void *at, unsigned count);
/* Kilobytes of huge pages in the mappings that have some of these bytes. */
unsigned huge_kilobytes(const void *at, size_t bytes);

/* Fails unless the bytes are those of message `key`. */
#define CHECK_PATTERN(buffer, len, key) \
    check_pattern(__FILE__, __LINE__, buffer, len, key)
void check_pattern(const char *file, int line, const void *buffer, size_t len,
                   uint64_t key);

/* Fails unless all bytes are `value`. */
#define CHECK_BYTES(buffer, len, value) \
    check_bytes(__FILE__, __LINE__, buffer, len, value)
void check_bytes(const char *file, int line, const void *buffer, size_t len,
                 uint8_t value);

#endif /* TEST_GUARD_H */
