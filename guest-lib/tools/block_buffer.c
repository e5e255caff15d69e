/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The block server's communication buffer: chunks of one size.
 *
 * The last chunk that came back is the first to go out again, so a server with
 * little to do touches few of them, and of these only the lengths of its requests.
 */
#include "block.h"

#include <stdlib.h>
#include <sys/mman.h>

void buffer_make(struct block_buffer *b, struct unetmm_ctx *ctx,
                 const struct block_options *opt)
{
    unsigned i;
    int ret;

    b->chunk = opt->chunk;
    b->chunks = (unsigned)(opt->buffer / opt->chunk);
    b->bytes = (size_t)b->chunks * b->chunk;
    b->stack = calloc(b->chunks, sizeof(*b->stack));
    b->memory = mmap(NULL, b->bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!b->stack || b->memory == MAP_FAILED) {
        fail("no memory for a buffer of %zu bytes: use a smaller --buffer",
             b->bytes);
    }
    /*
     * EINVAL: a kernel without huge pages.  They would blur the count of pages in
     * use.
     */
    (void)madvise(b->memory, b->bytes, MADV_NOHUGEPAGE);
    for (i = 0; i < b->chunks; i++) {
        b->stack[i] = b->chunks - 1 - i;
    }
    b->unused = b->chunks;
    if (opt->source == UNETMM_SOURCE_PINNED) {
        ret = unetmm_register(ctx, b->memory, b->bytes, UNETMM_REGION_WRITE);
        if (ret) {
            fail_call(ret, UNETMM_CALL_REGISTER,
                      "the buffer cannot be pinned");
        }
    }
}

void buffer_free(struct block_buffer *b, struct unetmm_ctx *ctx,
                 const struct block_options *opt)
{
    if (opt->source == UNETMM_SOURCE_PINNED) {
        unetmm_deregister(ctx, b->memory, b->bytes);
    }
    munmap(b->memory, b->bytes);
    free(b->stack);
}

int buffer_take(struct block_buffer *b)
{
    return b->unused ? (int)b->stack[--b->unused] : -1;
}

void buffer_give(struct block_buffer *b, unsigned chunk)
{
    b->stack[b->unused++] = chunk;
}

uint8_t *buffer_at(const struct block_buffer *b, unsigned chunk)
{
    return b->memory + (size_t)chunk * b->chunk;
}

uint64_t buffer_resident(const struct block_buffer *b)
{
    size_t i, pages = b->bytes / UNETMM_PAGE_BYTES;
    unsigned char *there = malloc(pages);
    uint64_t n = 0;

    if (!there || mincore(b->memory, b->bytes, there)) {
        fail("the kernel does not report which pages are resident");
    }
    for (i = 0; i < pages; i++) {
        n += there[i] & 1;
    }
    free(there);
    return n * UNETMM_PAGE_BYTES;
}
