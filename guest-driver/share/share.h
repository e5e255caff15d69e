/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm: the share that a user may have of the workers of a card.  It knows nothing of
 * the kernel, and a unit test runs it.
 */
#ifndef UNETMM_SHARE_H
#define UNETMM_SHARE_H

/*
 * A user has at most half of the workers that others leave, and always one.  So two users
 * cannot have all: they have three quarters at most.
 */
static inline unsigned int unetmm_share(unsigned int workers,
					unsigned int others)
{
	unsigned int left = others < workers ? workers - others : 0;

	return left > 2 ? left / 2 : 1;
}

#endif /* UNETMM_SHARE_H */
