/* SPDX-License-Identifier: GPL-2.0-or-later */
/* In place of cm_caller.c: calls of peers' drivers without threads. */
#ifndef UNETMM_TESTS_PROVIDER_FAKE_CALLER_H
#define UNETMM_TESTS_PROVIDER_FAKE_CALLER_H

#include <stdbool.h>

struct umfi_fabric;

/* Drivers are silent: a call ends in fake_calls_end().  Else it ends at once. */
extern bool fake_calls_wait;

/* Ends so many of the calls, the oldest first, under the fabric's lock; how many are left */
unsigned fake_calls_end(struct umfi_fabric *fabric, unsigned n);

#endif
