/*
 * unetmm: replacement `lru`: the entry that was used longest ago
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "replace.h"

const UnetmmTlbReplaceOps unetmm_tlb_replace_lru = {
    .pick = unetmm_tlb_oldest,
    .use = unetmm_tlb_renew,
};
