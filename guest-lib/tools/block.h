/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm-block: a block server on reliable channels, and its load generator.
 *
 * A client exports its buffers and says HELLO, with the key of the export.  Its
 * requests are messages; the data is the server's to move: for a READ it goes from the file into a chunk of
 * the communication buffer and is written from there to the client, for a WRITE it
 * is read from the client into a chunk and goes from there to the file.  Each
 * request has one reply, with its tag, when all that is done.  So do the targets
 * of iSER and of NVMe over RDMA.
 */
#ifndef UNETMM_TOOLS_BLOCK_H
#define UNETMM_TOOLS_BLOCK_H

#include "common.h"

#include <libunetmm/inline.h>

#define BLOCK_SERVICE   120
#define BLOCK_UNIT      512u            /* offsets and lengths */
#define BLOCK_DEPTH     16u             /* requests of a session at a time */
#define BLOCK_SESSIONS  64u
#define BLOCK_MAX_CHUNK UNETMM_MAX_MESSAGE

enum block_op { BLOCK_HELLO = 1, BLOCK_READ, BLOCK_WRITE, BLOCK_STATUS };

#define BLOCK_REPLY     0x80u

/* All little-endian, and inline in a completion. */
struct block_request {
    uint32_t op;
    uint32_t length;                    /* READ, WRITE */
    uint64_t offset;                    /* in the file */
    uint64_t remote;                    /* HELLO: key; else the client's address */
    uint64_t tag;                       /* comes back */
};

struct block_reply {
    uint32_t op;                        /* the request's, and BLOCK_REPLY */
    uint32_t error;                     /* 0, or an errno */
    uint64_t tag;
    /* HELLO: bytes of the file, of a chunk.  STATUS: see enum block_status. */
    uint64_t value[3];
};

enum block_status { STATUS_BUFFER, STATUS_RESIDENT, STATUS_SERVED };

struct block_options {
    const char *device;
    const char *file;                   /* server */
    bool listen, forever;
    bool json, verify;
    bool fill, filled;                  /* client: now; earlier */
    uint8_t mac[6];
    uint64_t service;
    unsigned source;
    uint64_t buffer;                    /* server: bytes, all chunks */
    uint32_t chunk;                     /* server: bytes of one */
    uint32_t size;                      /* client: bytes of a request */
    uint32_t count, warmup;
    uint32_t sessions, depth, writes;   /* writes: per cent */
    uint64_t seed;
    int64_t timeout_ns;
};

/* Both end the program with a sentence if they can't go on. */
int block_serve(const struct block_options *opt);
int block_load(const struct block_options *opt);

static inline uint32_t block_le32(uint32_t v)
{
    return unetmm_swap32(v);
}

static inline uint64_t block_le64(uint64_t v)
{
    return unetmm_swap64(v);
}

/* ---- The communication buffer (block_buffer.c) -------------------------- */

struct block_buffer {
    uint8_t *memory;
    size_t bytes;
    uint32_t chunk;
    unsigned chunks, unused;
    unsigned *stack;                    /* of unused ones */
};

/*
 * As large as it will ever be, as such servers have it.  Source pinned: it is
 * registered, all of it.
 */
void buffer_make(struct block_buffer *b, struct unetmm_ctx *ctx,
                 const struct block_options *opt);
void buffer_free(struct block_buffer *b, struct unetmm_ctx *ctx,
                 const struct block_options *opt);
/* -1: all are in use.  The last one given back comes first. */
int buffer_take(struct block_buffer *b);
void buffer_give(struct block_buffer *b, unsigned chunk);
uint8_t *buffer_at(const struct block_buffer *b, unsigned chunk);
/* How many bytes of it are in memory. */
uint64_t buffer_resident(const struct block_buffer *b);

#endif /* UNETMM_TOOLS_BLOCK_H */
