/*
 * unetmm: steps of the card that cost time, for a host that counts them
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "base.h"

void unetmm_spend_now(UnetmmCore *core, UnetmmStep step, uint32_t n)
{
    core->ops->spend(core->host, step, n);
}
