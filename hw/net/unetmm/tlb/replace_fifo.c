/*
 * unetmm: replacement `fifo`: the entry that has been in the set longest
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "replace.h"

const UnetmmTlbReplaceOps unetmm_tlb_replace_fifo = {
    .pick = unetmm_tlb_oldest,
};
