/*
 * unetmm lab `pin`: write the driver's answer to a miss here
 *
 * docs/labs/pin.rst has the task.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "pin.h"

void driver_fault(Driver *d, const struct unetmm_fault *f)
{
    /* A MISS waits for an answer; an EVICT gives a page back. */
}
