/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The store: chunks of one size, so that whatever goes makes room for whatever
 * comes.  An item is a chain of them; the item's own words are in a table, at the
 * number of its first chunk.
 */
#include "kv_store.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define ROTATE(v, n)    ((v) << (n) | (v) >> (64 - (n)))

static void mix(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = ROTATE(v[1], 13) ^ v[0];
    v[3] = ROTATE(v[3], 16) ^ v[2];
    v[0] = ROTATE(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = ROTATE(v[1], 17) ^ v[2];
    v[3] = ROTATE(v[3], 21) ^ v[0];
    v[2] = ROTATE(v[2], 32);
}

/*
 * SipHash, with a seed of this process's own: a client that chooses the keys must
 * not be able to choose their buckets.
 */
static uint32_t hash_key(const struct kv_store *s, const uint8_t *key,
                         size_t length)
{
    uint64_t v[4] = {
        s->seed[0] ^ 0x736f6d6570736575ull, s->seed[1] ^ 0x646f72616e646f6dull,
        s->seed[0] ^ 0x6c7967656e657261ull, s->seed[1] ^ 0x7465646279746573ull,
    };
    size_t at = 0;

    do {
        size_t n = length - at < 8 ? length - at : 8;
        uint64_t word = n < 8 ? (uint64_t)length << 56 : 0;

        memcpy(&word, key + at, n);
        v[3] ^= word;
        mix(v);
        v[0] ^= word;
        at += 8;
    } while (at <= length);
    v[2] ^= 0xff;
    mix(v);
    mix(v);
    mix(v);
    return (uint32_t)(v[0] ^ v[1] ^ v[2] ^ v[3]);
}

bool kv_store_make(struct kv_store *s, void *memory, size_t bytes)
{
    uint32_t i, buckets = 16;

    memset(s, 0, sizeof(*s));
    if (bytes / KV_CHUNK < 1 || bytes / KV_CHUNK >= KV_NONE / 2) {
        return false;
    }
    s->memory = memory;
    s->chunks = (uint32_t)(bytes / KV_CHUNK);
    while (buckets < s->chunks / 2) {
        buckets *= 2;
    }
    s->mask = buckets - 1;
    s->next = calloc(s->chunks, sizeof(*s->next));
    s->items = calloc(s->chunks, sizeof(*s->items));
    s->buckets = malloc(buckets * sizeof(*s->buckets));
    if (!s->next || !s->items || !s->buckets ||
        getrandom(s->seed, sizeof(s->seed), 0) != sizeof(s->seed)) {
        kv_store_free(s);
        return false;
    }
    memset(s->buckets, 0xff, buckets * sizeof(*s->buckets));
    for (i = 0; i < s->chunks; i++) {
        s->next[i] = i + 1 < s->chunks ? i + 1 : KV_NONE;
    }
    s->newest = KV_NONE;
    s->oldest = KV_NONE;
    return true;
}

void kv_store_free(struct kv_store *s)
{
    free(s->next);
    free(s->items);
    free(s->buckets);
    memset(s, 0, sizeof(*s));
}

/* ---- From the newest to the oldest --------------------------------------- */

static void order_add(struct kv_store *s, uint32_t n)
{
    s->items[n].newer = KV_NONE;
    s->items[n].older = s->newest;
    if (s->newest == KV_NONE) {
        s->oldest = n;
    } else {
        s->items[s->newest].newer = n;
    }
    s->newest = n;
}

static void order_remove(struct kv_store *s, uint32_t n)
{
    const struct kv_item *item = &s->items[n];

    if (item->newer == KV_NONE) {
        s->newest = item->older;
    } else {
        s->items[item->newer].older = item->older;
    }
    if (item->older == KV_NONE) {
        s->oldest = item->newer;
    } else {
        s->items[item->older].newer = item->newer;
    }
}

/* ---- Chunks -------------------------------------------------------------- */

static uint32_t chunks_of(size_t key_length, size_t length)
{
    size_t bytes = key_length + length;

    return bytes ? (uint32_t)((bytes - 1) / KV_CHUNK + 1) : 1;
}

static void chunks_give(struct kv_store *s, uint32_t first)
{
    uint32_t n = first, used = 1;

    while (s->next[n] != KV_NONE) {
        n = s->next[n];
        used++;
    }
    s->next[n] = s->free;
    s->free = first;
    s->stats.chunks_used -= used;
}

/* The caller knows that there are so many. */
static uint32_t chunks_take(struct kv_store *s, uint32_t count)
{
    uint32_t first = s->free, last = first, i;

    for (i = 1; i < count; i++) {
        last = s->next[last];
    }
    s->free = s->next[last];
    s->next[last] = KV_NONE;
    s->stats.chunks_used += count;
    return first;
}

/* ---- Items --------------------------------------------------------------- */

/* Nobody finds it any more; it goes when nobody uses it either. */
static void unlink_item(struct kv_store *s, uint32_t n)
{
    struct kv_item *item = &s->items[n];
    uint32_t *from = &s->buckets[item->hash & s->mask];

    while (*from != n) {
        from = &s->items[*from].same;
    }
    *from = item->same;
    order_remove(s, n);
    item->in_table = false;
    s->stats.items--;
    if (!item->uses) {
        chunks_give(s, item->first);
    }
}

static uint32_t find(const struct kv_store *s, const void *key, size_t length,
                     uint32_t hash)
{
    uint32_t n = s->buckets[hash & s->mask];

    while (n != KV_NONE) {
        const struct kv_item *item = &s->items[n];

        /* The key may be paged out: it is looked at last. */
        if (item->hash == hash && item->key_length == length &&
            !memcmp(kv_key(s, item), key, length)) {
            break;
        }
        n = item->same;
    }
    return n;
}

/* The same; frees an item that has expired. */
static uint32_t find_live(struct kv_store *s, const void *key, size_t length,
                          uint64_t now)
{
    uint32_t n = find(s, key, length, hash_key(s, key, length));

    if (n != KV_NONE && s->items[n].expires && s->items[n].expires <= now) {
        unlink_item(s, n);
        n = KV_NONE;
    }
    return n;
}

struct kv_item *kv_find(struct kv_store *s, const void *key, size_t key_length,
                        uint64_t now)
{
    uint32_t n = find_live(s, key, key_length, now);

    if (n == KV_NONE) {
        return NULL;
    }
    order_remove(s, n);
    order_add(s, n);
    s->items[n].uses++;
    return &s->items[n];
}

void kv_release(struct kv_store *s, struct kv_item *item)
{
    if (!--item->uses && !item->in_table) {
        chunks_give(s, item->first);
    }
}

/* Items in use keep their chunks, so this may go through all and be in vain. */
static bool make_room(struct kv_store *s, uint32_t count)
{
    uint32_t n = s->oldest;

    while (s->chunks - s->stats.chunks_used < count && n != KV_NONE) {
        uint32_t newer = s->items[n].newer;

        if (!s->items[n].uses) {
            unlink_item(s, n);
            s->stats.evicted++;
        }
        n = newer;
    }
    return s->chunks - s->stats.chunks_used >= count;
}

struct kv_item *kv_begin(struct kv_store *s, const void *key, size_t key_length,
                         uint32_t length)
{
    uint32_t count = chunks_of(key_length, length), n;
    struct kv_item *item;

    if (!key_length || key_length > KV_MAX_KEY || length > KV_MAX_VALUE ||
        count > s->chunks || !make_room(s, count)) {
        return NULL;
    }
    n = chunks_take(s, count);
    item = &s->items[n];
    *item = (struct kv_item) {
        .hash = hash_key(s, key, key_length),
        .first = n,
        .length = length,
        .uses = 1,
        .key_length = (uint8_t)key_length,
    };
    memcpy(s->memory + (size_t)n * KV_CHUNK, key, key_length);
    return item;
}

void kv_publish(struct kv_store *s, struct kv_item *item)
{
    uint32_t old = find(s, kv_key(s, item), item->key_length, item->hash);
    uint32_t *bucket = &s->buckets[item->hash & s->mask];

    if (old != KV_NONE) {
        unlink_item(s, old);
    }
    item->same = *bucket;
    *bucket = item->first;
    order_add(s, item->first);
    item->in_table = true;
    s->stats.items++;
}

bool kv_delete(struct kv_store *s, const void *key, size_t key_length,
               uint64_t now)
{
    uint32_t n = find_live(s, key, key_length, now);

    if (n != KV_NONE) {
        unlink_item(s, n);
    }
    return n != KV_NONE;
}

void kv_delete_all(struct kv_store *s)
{
    while (s->oldest != KV_NONE) {
        unlink_item(s, s->oldest);
    }
}

const uint8_t *kv_key(const struct kv_store *s, const struct kv_item *item)
{
    return s->memory + (size_t)item->first * KV_CHUNK;
}

/* ---- Values -------------------------------------------------------------- */

void kv_start(const struct kv_store *s, const struct kv_item *item,
              struct kv_place *at)
{
    (void)s;
    *at = (struct kv_place) { item->first, item->key_length, item->length };
}

/* Chunks that follow each other are one piece. */
uint8_t *kv_next(const struct kv_store *s, const struct kv_place *at,
                 size_t *length)
{
    uint32_t chunk = at->chunk;
    size_t n = KV_CHUNK - at->in_chunk;

    while (n < at->left && s->next[chunk] == chunk + 1) {
        chunk++;
        n += KV_CHUNK;
    }
    *length = n < at->left ? n : at->left;
    return s->memory + (size_t)at->chunk * KV_CHUNK + at->in_chunk;
}

void kv_skip(const struct kv_store *s, struct kv_place *at, size_t length)
{
    at->left -= (uint32_t)length;
    while (length >= KV_CHUNK - at->in_chunk && s->next[at->chunk] != KV_NONE) {
        length -= KV_CHUNK - at->in_chunk;
        at->chunk = s->next[at->chunk];
        at->in_chunk = 0;
    }
    at->in_chunk += (uint32_t)length;
}
