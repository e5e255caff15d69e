/*
 * unetmm: the papers' experiments on ns-3's scheduler and sim/ns3's cables
 *
 * engine.c has tests/paper/run.h's engine for them, in C; engine.cc gives it ns-3,
 * by these functions.  Times are picoseconds.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef SCALE_ENGINE_H
#define SCALE_ENGINE_H

#include "sim.h"

#ifdef __cplusplus
extern "C" {
#endif

/* engine.cc */
/* Two cards, 0 and 1, at the ends of the description's one link. */
void ns3_new(const Config *c);
void ns3_free(void);
void ns3_at(int64_t when, void *event);
void ns3_frame(unsigned card, int64_t when, const void *frame, size_t bytes);
/* Calls events until ns3_stop() or none is left. */
void ns3_run(void);
void ns3_stop(void);

/* engine.c */
void engine_event(void *event);
void engine_arrives(unsigned card, int64_t now, const void *frame,
                    size_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* SCALE_ENGINE_H */
