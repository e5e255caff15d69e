/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm: the share that a user may have of a pool of all users of a card, and doubts of
 * the card's answers.  This knows nothing of the kernel, and unit tests run it.
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

/*
 * How many more of a pool of `all` a user may take that has `mine`, while other users
 * have `others`.
 *
 * A user has at most half of the rest that others leave: k users leave the 2^k-th part.
 * For many users that is nothing, so an eighth of the pool is for those that have
 * next to nothing: each may take a 256th, and one at least.  Half of that eighth
 * is left to users without a limit.
 */
static inline unsigned int unetmm_share_more(unsigned int all,
					     unsigned int mine,
					     unsigned int others)
{
	unsigned int half, left, least = all / 256 ? all / 256 : 1, more = 0;

	left = others < all ? all - others : 0;
	half = left - left / 2;
	left -= mine < left ? mine : left;
	if (half > mine && left > all / 8) {
		more = half - mine;
		more = more < left - all / 8 ? more : left - all / 8;
	}
	if (least > mine + more && left > all / 16) {
		more = least - mine;
		more = more < left - all / 16 ? more : left - all / 16;
	}
	return more;
}

/*
 * Is an answer of the card within what it was asked for?  Has [offset, offset + length)
 * a byte, and all of them in [start, start + bytes)?
 */
static inline int unetmm_within(unsigned long long offset,
				unsigned long long length,
				unsigned long long start,
				unsigned long long bytes)
{
	return length && offset >= start && offset - start < bytes &&
	       length <= bytes - (offset - start);
}

#endif /* UNETMM_SHARE_H */
