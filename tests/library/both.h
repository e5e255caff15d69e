/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The card's side of both.c, which knows nothing of the library but its public
 * header: an endpoint on a fake card, and both.c's ways to change the card.
 */
#ifndef BOTH_H
#define BOTH_H

#include <stdbool.h>
#include <stdint.h>

struct unetmm_ep;
struct unetmm_event_counter;

/* Kinds of endpoints: all that the fast path decides by. */
enum both_kind {
    BOTH_PLAIN,
    BOTH_TRAP,                  /* rings by a call, as source ktlb does */
    BOTH_SOURCE,                /* has struct unetmm_source_ops_, as utlb */
    BOTH_RAW,                   /* frames; finds buffers itself */
    BOTH_KINDS,
};

struct unetmm_ep *both_open(enum both_kind kind);
void both_close(void);

/* An event counter, and how to add to it. */
struct unetmm_event_counter *both_counter(void);
void both_count(uint64_t n);

/* One action of the card, chosen by `number`: takes, delivers, returns, stops... */
void both_act(uint32_t number);

/* As if the process had forked: the endpoint is its parent's. */
void both_fork(bool child);

/* The queues and the doorbell as the card sees them, as one number. */
uint64_t both_look(void);

#endif /* BOTH_H */
