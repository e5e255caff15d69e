/*
 * unetmm: fuzzing: one-sided operations between endpoints of one card
 *
 * Neighbours have a reliable channel to each other, export all of their space
 * and import the other's.  Each has one to the victim, too: a process that does
 * nothing but export a piece of its memory, which others know and lie about.
 * Whatever they do, the card touches that piece alone of the victim's memory,
 * while it is exported and as far as its rights go.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef FUZZ_OPS_H
#define FUZZ_OPS_H

#include "fuzz.h"

/* The victim, the regions, and all that fuzz_ops_open() does. */
void fuzz_ops_start(FuzzCard *c);
/* Channels, imports, windows and proxy pages of an endpoint, made anew. */
void fuzz_ops_open(FuzzCard *c, unsigned i, uint32_t psn);
/* Posts, stores, starts; the driver changes its mind. */
void fuzz_ops_op(FuzzCard *c, FuzzIn *in, FakeEp *ep);
/* The rest of a command for windows, proxy pages or imports. */
void fuzz_ops_shape(FuzzIn *in, struct unetmm_cmd *cmd);

#endif /* FUZZ_OPS_H */
