/*
 * unetmm: congestion control `window`: as many packets as the property says
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "congestion.h"

const UnetmmCongestionOps unetmm_congestion_window = {
    .fixed = true,
};
