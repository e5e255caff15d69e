/*
 * unetmm: papers' figures: two nodes in virtual time, on one heap of events
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef PAPER_RUN_H
#define PAPER_RUN_H

#include "node.h"

/* run.c: the engine, with a wire between two nodes, and a switch on it */
/* `r` is a run of two nodes from here to run_free(). */
void run_new(Run *r, const Costs *c);
void run_free(Run *r);
/* The next event.  There has to be one. */
void run_one(Run *r);
/* True: an event is left. */
bool run_more(const Run *r);
/* Until `stop` is set or nothing is left to happen. */
void run_all(Run *r);

/* experiments: print "name<TAB>value" lines */
typedef struct Experiment {
    const char *name;
    void (*run)(Run *r);
} Experiment;

void result(const char *name, int64_t value);
void paper_pingpong(Run *r);
void paper_stream(Run *r);
void paper_fault(Run *r);
void paper_resume(Run *r);
void paper_wait(Run *r);
void paper_limit(Run *r);
void paper_rnr(Run *r);
void paper_backup(Run *r);
void paper_drop(Run *r);
void paper_store(Run *r);
void paper_touch(Run *r);
void paper_ktlb(Run *r);
void paper_cold(Run *r);
void paper_replay(Run *r);
/* The file of paper_replay(). */
extern const char *paper_references;

#endif /* PAPER_RUN_H */
