/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm_ib: records and descriptors of send requests.
 */
#ifndef UNETMM_VERBS_BUILD_H
#define UNETMM_VERBS_BUILD_H

#include "verbs/verbs.h"

/* A send request that the card has, or that has ended and waits for those before it. */
struct unetmm_ib_sent {
	u64 wr_id;
	u32 len;
	u8 opcode;			/* IB_WC_* */
	u8 status;			/* IB_WC_*, if it has ended */
	bool done;
	bool signaled;
	bool fetches;			/* a READ or an atomic */
};

/* A descriptor that is being made, in slots. */
struct unetmm_ib_desc {
	union {
		struct unetmm_sqe sqe;
		u8 raw[UNETMM_MAX_SLOTS * UNETMM_SLOT_BYTES];
	};
	u32 nslots;			/* 0: not the card's */
	u32 head;			/* UD: bytes in front of the message */
	bool read;			/* its segments are written to */
	bool atomic;
};

/*
 * Makes the descriptor of a copy of a request, and its record.  Returns IB_WC_*: the fault of the
 * request.
 */
u8 unetmm_ib_build(struct unetmm_ib_qp *qp, struct unetmm_ib_desc *d, struct unetmm_ib_sent *s,
		   const struct rxe_send_wqe *w);

#endif /* UNETMM_VERBS_BUILD_H */
