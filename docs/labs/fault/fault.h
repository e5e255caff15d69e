/*
 * unetmm lab `fault`: page faults under traffic
 *
 * Endpoint a sends MESSAGES messages to endpoint b of the same card, one each
 * PERIOD_NS.  b has a buffer on a page of its own for each.  Just before each
 * EVERY-th message the page of the next buffer is paged out; the driver needs
 * PAGE_IN_NS to bring it back, from the moment at which the card asks for it.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LAB_FAULT_H
#define LAB_FAULT_H

#include "fixture.h"

#define MESSAGES    200u
#define EVERY       20u
#define PERIOD_NS   50000
#define PAGE_IN_NS  430000

typedef struct Scene Scene;

/* With policy drop on a datagram channel, or rnr on a reliable one. */
typedef struct Outcome {
    unsigned sent, delivered;
    unsigned lost;              /* by the card's counters */
    unsigned refused;           /* RNR NACKs */
    int64_t worst_ns;           /* from the send to the completion */
} Outcome;

int64_t now_ns(const Scene *s);
/* Posts message n, with its doorbell. */
void send_message(Scene *s, unsigned n);
/* Pages out the page of b's next buffer. */
void page_out(Scene *s);
/* Lets time pass, with card and driver at work. */
void pass(Scene *s, int64_t ns);
/* The next message that has arrived at b; false: there is none. */
bool receive(Scene *s, unsigned *n);
/* A counter of endpoint b. */
uint64_t counter(Scene *s, enum unetmm_counter counter);

/* Yours: runs the traffic and measures.  The scene is new. */
void measure(Scene *s, Outcome *o);
/* Yours: the delay, in microseconds, that b's RNR NACKs ask for. */
uint32_t rnr_delay_us(void);

#endif /* LAB_FAULT_H */
