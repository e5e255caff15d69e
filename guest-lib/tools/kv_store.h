/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Keys and values in a piece of memory that is given once.  The least recently used
 * item makes room for a new one.
 *
 * The memory has nothing but keys and values, in chunks; their links are elsewhere.
 * So a value that nobody asks for may be paged out and stay there.
 */
#ifndef UNETMM_TOOLS_KV_STORE_H
#define UNETMM_TOOLS_KV_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KV_CHUNK        512u
#define KV_MAX_KEY      250u
#define KV_MAX_VALUE    (1u << 20)
#define KV_NONE         UINT32_MAX

struct kv_item {
    uint64_t expires;           /* seconds, as the caller counts; 0: never */
    uint32_t hash;
    uint32_t same;              /* next item of the bucket */
    uint32_t newer, older;
    uint32_t first;             /* chunk: the key, and the value behind it */
    uint32_t length;            /* of the value */
    uint32_t flags;             /* the client's */
    uint32_t uses;              /* by kv_find() and kv_begin() */
    uint8_t key_length;
    bool in_table;
};

struct kv_stats {
    uint64_t items, chunks_used, evicted;
};

struct kv_store {
    uint8_t *memory;
    uint32_t chunks;
    uint32_t *next;             /* chunk, by chunk */
    uint32_t free;              /* first of the free ones */
    struct kv_item *items;      /* by first chunk */
    uint32_t *buckets, mask;
    uint32_t newest, oldest;
    uint64_t seed[2];
    struct kv_stats stats;
};

/* `memory` stays the caller's.  false: no memory for the tables, or too little. */
bool kv_store_make(struct kv_store *s, void *memory, size_t bytes);
void kv_store_free(struct kv_store *s);

/*
 * The item of a key, which is in use then until kv_release(): it keeps its value,
 * even if it is replaced or has to make room.  NULL: there is none.
 */
struct kv_item *kv_find(struct kv_store *s, const void *key, size_t key_length,
                        uint64_t now);
void kv_release(struct kv_store *s, struct kv_item *item);

/*
 * A new item that nobody finds yet, in use.  Its value is to be filled in, then
 * kv_publish() replaces the key's old item by it.  NULL: no room can be made.
 */
struct kv_item *kv_begin(struct kv_store *s, const void *key, size_t key_length,
                         uint32_t length);
void kv_publish(struct kv_store *s, struct kv_item *item);

/* false: there is no such key. */
bool kv_delete(struct kv_store *s, const void *key, size_t key_length,
               uint64_t now);
void kv_delete_all(struct kv_store *s);

/* The key, of item->key_length bytes. */
const uint8_t *kv_key(const struct kv_store *s, const struct kv_item *item);

/*
 * A place in a value: where the next bytes are, and, set by kv_next(), how many
 * of them in a row.
 */
struct kv_place {
    uint32_t chunk;
    uint32_t in_chunk;
    uint32_t left;              /* of the value */
};

void kv_start(const struct kv_store *s, const struct kv_item *item,
              struct kv_place *at);
uint8_t *kv_next(const struct kv_store *s, const struct kv_place *at,
                 size_t *length);
void kv_skip(const struct kv_store *s, struct kv_place *at, size_t length);

#endif /* UNETMM_TOOLS_KV_STORE_H */
