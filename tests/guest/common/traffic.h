/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Messages on the same card beside a test, all the while, every byte checked.
 */
#ifndef TEST_TRAFFIC_H
#define TEST_TRAFFIC_H

#include "tap.h"

#include <pthread.h>
#include <stdatomic.h>

struct traffic {
    pthread_t thread;
    atomic_bool stop;
    atomic_ullong messages;
    uint64_t stream;
};

/*
 * A thread with an address space and two endpoints of its own on the card.
 * Returns when the first message has gone through.
 */
void traffic_start(struct traffic *traffic, uint64_t stream);
void traffic_stop(struct traffic *traffic);

/*
 * The same in processes of their own, which end well or, once `hard` is set,
 * when the card is taken away from under them.
 */
struct crowd {
    unsigned n;
    pid_t pids[8];
    struct crowd_state {
        atomic_bool stop, hard;
        atomic_uint joined;
        atomic_ullong messages;
    } *state;
};

void crowd_start(struct crowd *crowd, unsigned n);
/* Until so many messages more have gone through. */
void crowd_await(struct crowd *crowd, unsigned messages);
void crowd_stop(struct crowd *crowd);

#endif /* TEST_TRAFFIC_H */
