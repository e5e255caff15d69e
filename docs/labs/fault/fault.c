/*
 * unetmm lab `fault`: measure page faults under traffic here
 *
 * docs/labs/fault.rst has the task.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fault.h"

uint32_t rnr_delay_us(void)
{
    return 10;
}

void measure(Scene *s, Outcome *o)
{
    for (unsigned n = 0; n < MESSAGES; n++) {
        send_message(s, n);
        o->sent++;
        pass(s, PERIOD_NS);
    }
}
