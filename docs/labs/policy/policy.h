/*
 * unetmm lab `policy`: a receive policy for two classes of messages
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef LAB_POLICY_H
#define LAB_POLICY_H

#include "fixture.h"
#include "policy/policy.h"

/* The longest message of the class that is to arrive, bytes */
#define SHORT_BYTES 512u

/* Yours. */
extern const UnetmmPolicyOps policy_courier;

#endif /* LAB_POLICY_H */
