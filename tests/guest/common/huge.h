/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Huge pages.  A test that asks for one has it, and not ordinary pages in its
 * place: where there is none the test is skipped, and tests/e2e/skips.txt says where
 * it may be.
 */
#ifndef TEST_HUGE_H
#define TEST_HUGE_H

#include "guard.h"

#define HUGE            ((size_t)2 << 20)
#define HUGE_PAGES      ((unsigned)(HUGE / PAGE))

/* A transparent one, private and anonymous, a mapping of its own. */
uint8_t *huge_page(void);

/* One of those that are set aside, private and anonymous. */
uint8_t *huge_reserved(void);

#endif /* TEST_HUGE_H */
