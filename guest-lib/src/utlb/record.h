/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The record of pinned pages, for record.c and context.c.
 */
#ifndef UNETMM_UTLB_RECORD_H
#define UNETMM_UTLB_RECORD_H

#include "utlb.h"

#define LEVELS          5
#define LEVEL_BITS      9
#define FANOUT          (1u << LEVEL_BITS)
#define PAGE_SHIFT      12

#define WORD_PINNED     0x80000000u
#define WORD_WRITE      0x40000000u
#define WORD_USERS      0x3fffffffu

/* Of one PIN; the driver does no more. */
#define MOST_AT_ONCE    512u

struct page {
    atomic_uint word;
    uint32_t number;            /* while it is pinned */
};

struct node {
    union {
        _Atomic(struct node *) below[FANOUT];
        struct page page[FANOUT];
    };
};

/* By page number */
struct slot {
    uint64_t vpn;
    struct page *page;          /* NULL: free */
    uint32_t next;              /* free ones */
};

struct unetmm_utlb_ctx {
    int fd;
    const struct unetmm_utlb_log *log;
    uint32_t driver_quota;
    _Atomic(uint64_t) seen;     /* of the log */
    atomic_uint sending;
    pthread_mutex_t lock;       /* all below, but for words and last_used */
    struct node *root;
    uint32_t quota;
    uint32_t prepin;
    const struct unetmm_utlb_policy *policy;
    void *state;
    struct slot *slots;
    uint32_t first_free;
    uint32_t used;
    atomic_uint last_used;
    uint32_t taken;             /* the number that a policy was given */
    struct unetmm_utlb_stats stats;
};

/* Takes pages that the driver has unpinned out of the record.  Holds the lock. */
void unetmm_utlb_read_log(struct unetmm_utlb_ctx *u);
/* Unpins all pages but those in use, without the policy.  False: some are in use. */
bool unetmm_utlb_unpin_all(struct unetmm_utlb_ctx *u);
bool unetmm_utlb_any_in_use(const struct unetmm_utlb_ctx *u);
void unetmm_utlb_free_nodes(struct node *node, int level);

#endif /* UNETMM_UTLB_RECORD_H */
