/*
 * unetmm: the recorder of the figures in docs/concepts.rst
 *
 * One or two cards with a driver and a process each.  While a scene is recorded,
 * the events of the cards (trace-events), the accesses to the processes' pages,
 * the frames on the wire, and the actions of drivers and processes go to stderr,
 * one a line, in the order in which they happen.  Nothing depends on the machine
 * or its clock, so each run gives the same text.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef STAGE_H
#define STAGE_H

#include "fake_driver.h"

#define STAGE_VA        ((uint64_t)0x10000)
#define STAGE_PAGES     8
#define STAGE_PAGE(n)   (STAGE_VA + (uint64_t)(n) * FAKE_PAGE)
#define STAGE_CHANNEL   1

typedef struct StageSide {
    FakeHost h;
    FakeDriver d;
    FakeSpace *s;
    FakeEp ep;
    const char *gives;          /* the driver's action that makes a page usable */
} StageSide;

typedef struct Stage {
    StageSide side[2];
    unsigned sides;
} Stage;

/* How to make a side; the zeros are the defaults of fake_params(). */
typedef struct StageHow {
    uint8_t source, policy;
    uint16_t backup;            /* bits of the bitmap; policy backup */
    uint32_t tlb_sets, tlb_victims;
    const char *gives;
} StageHow;

/* a is side 0, b side 1 (NULL: there is only a).  Nothing is recorded yet. */
void stage_init(Stage *st, const StageHow *a, const StageHow *b);
void stage_free(Stage *st);
/* Channel STAGE_CHANNEL of both; `credits` of a for b.  0: no limit. */
void stage_join(Stage *st, uint32_t credits);
/* From here on, or no longer. */
void stage_record(Stage *st, const char *scene);
void stage_cut(Stage *st);
/* One line of this side: an action of its process or driver. */
void stage_say(StageSide *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void stage_ring(StageSide *s);
/* A datagram or frame from a station that the scene does not show. */
void stage_arrive(StageSide *s, uint32_t len, uint32_t n);
/* Cards, drivers and wire act until nothing moves and no timer runs. */
void stage_run(Stage *st);

#endif /* STAGE_H */
