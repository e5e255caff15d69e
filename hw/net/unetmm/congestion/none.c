/*
 * unetmm: congestion control `none`: the window of the protocol alone
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "congestion.h"

const UnetmmCongestionOps unetmm_congestion_none = {
    .fixed = true,
};
