/*
 * unetmm: the bounds of saved values
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef BOUNDS_H
#define BOUNDS_H

#include "fake_host.h"

/*
 * Each number of the stream that has a bound and was not met before: the card
 * takes the largest, and refuses the next.  The card, which is as good as new,
 * is left in any state that it can be restored over.
 */
void bounds_check(UnetmmCore *core, GByteArray *saved);

/* Is the largest number known, of the value with that path (without numbers)? */
bool bounds_has_row(const UnetmmCore *core, const char *path);

#endif /* BOUNDS_H */
