/*
 * unetmm: fuzzing: saved states that are changed
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef FUZZ_CHANGE_H
#define FUZZ_CHANGE_H

#include "fuzz.h"

/* Has the card been loaded from a changed stream?  Then nobody is sane. */
extern bool fuzz_loaded;

/* At the start of each input; event counters and misses are not changed. */
void fuzz_change_reset(void);
/* The same; any value is changed, also to one of the card's first state. */
void fuzz_change_start(FuzzCard *c);
/* Saves the card, and loads the stream with the changes of the input. */
void fuzz_load_changed(FuzzCard *c, FuzzIn *in);
/* A move without a change, unless a frame is in the net layer. */
void fuzz_move(FuzzCard *c);

#endif /* FUZZ_CHANGE_H */
