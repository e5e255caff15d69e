/*
 * unetmm lab `policy`: write a receive policy here
 *
 * docs/labs/policy.rst has the task.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "policy.h"

static UnetmmVerdict courier_absent(UnetmmCore *core, const UnetmmAbsent *ctx)
{
    /* A message or packet has met memory that is absent: what becomes of it? */
    return UNETMM_VERDICT_DROP;
}

const UnetmmPolicyOps policy_courier = {
    .name = "courier",
    .absent = courier_absent,
};
