/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One connection's talk: memcached's text protocol (get, set, add, replace,
 * delete, flush_all, stats, version, quit).
 *
 * Input may come in pieces of any size, and output may go in pieces of any size:
 * input is taken only as far as its answers have found room, so a client that does
 * not read is not read either.
 */
#ifndef UNETMM_TOOLS_KV_PROTOCOL_H
#define UNETMM_TOOLS_KV_PROTOCOL_H

#include "kv_store.h"

#define KV_LINE     2048u       /* the longest command, with its end */
#define KV_OUT      1024u       /* the longest line of an answer is shorter */

/* Shared by all connections of a server. */
struct kv_server {
    struct kv_store store;
    uint64_t now;               /* seconds; the caller keeps it up to date */
    uint64_t gets, hits, sets, deletes, errors;
    /* Further line `n` of the answer to "stats"; 0: there are no more. */
    size_t (*more_stats)(void *arg, unsigned n, char *line, size_t size);
    void *arg;
};

struct kv_talk {
    struct kv_server *server;
    /* Takes up to `length` bytes and returns how many. */
    size_t (*write)(void *arg, const void *data, size_t length);
    void *arg;

    enum { KV_TALK_LINE, KV_TALK_VALUE, KV_TALK_PASS, KV_TALK_END } state;
    bool quiet;                 /* noreply */
    uint16_t line_length;
    uint16_t keys;              /* get: where in the line the next key is; or 0 */
    uint16_t stats;             /* stats: the next line's number and 1; or 0 */
    uint16_t out_start, out_end;
    struct kv_item *filling;    /* set: the item to fill */
    struct kv_item *sending;    /* get: the item to send */
    struct kv_place at;         /* in either */
    uint64_t pass;              /* bytes of a value that nobody wants */
    uint8_t tail;               /* bytes of a value's end that have come */
    char line[KV_LINE];
    char out[KV_OUT];
};

void kv_talk_start(struct kv_talk *t, struct kv_server *server,
                   size_t (*write)(void *, const void *, size_t), void *arg);

/* Releases the items of the store that it uses. */
void kv_talk_stop(struct kv_talk *t);

/* Returns how much was taken: all of it, unless answers wait for room. */
size_t kv_talk_input(struct kv_talk *t, const void *data, size_t length);

/* Goes on with answers; true: none waits, input is welcome. */
bool kv_talk_run(struct kv_talk *t);

/* All is said, and the connection is to be closed. */
bool kv_talk_ended(const struct kv_talk *t);

#endif /* UNETMM_TOOLS_KV_PROTOCOL_H */
