/* SPDX-License-Identifier: ((GPL-2.0-or-later WITH Linux-syscall-note) OR BSD-2-Clause) */
/*
 * unetmm_ib: the driver's part of uverbs' answers to a library for verbs=own.
 *
 * A queue pair is an endpoint with channel 0, and a shared receive queue one without: the
 * process maps its queues and its doorbell, and unetmm_user.h defines their contents.  Work
 * requests are posted, and completions are taken, without a system call.  A completion queue has no memory: it is the completions of
 * its queue pairs.  REQ_NOTIFY_CQ has the driver tell of the next completion: the driver looks at
 * the endpoints' completions, and it alone writes cq_arm.
 *
 * The driver has an lkey for each region, and no use for it: the process knows the
 * addresses.  An error ends the queue pair on the card; the process tells the driver by
 * MODIFY_QP to ERR, and itself makes the completions of requests that are flushed.
 *
 * Version 3 is that of uverbs' abi_version; 2 is that of rdma_rxe.  Since 3 the driver alone
 * writes cq_arm, see verbs/event.c.  Of the requests only the extended MODIFY_QP may have a part
 * for the driver.  A mapping is of the whole object, and shared; only the process that has opened
 * the device may make it.
 */
#ifndef _UAPI_LINUX_UNETMM_VERBS_H
#define _UAPI_LINUX_UNETMM_VERBS_H

#include <linux/types.h>

#define UNETMM_VERBS_ABI	3

/* The number of a queue pair is that of its endpoint, and this one. */
#define UNETMM_VERBS_QPN	0x100
/* An rkey is the key of the card's region that has the number in these bits. */
#define UNETMM_VERBS_RKEY_REGION	0x00ffff00

/* GET_CONTEXT */
struct unetmm_verbs_context {
	__u32 max_message;		/* bytes; a longer receive buffer is cut there */
	__u32 rsvd;
};

/* CREATE_QP, CREATE_SRQ: places in the file for mmap(), and offsets in the queues' mapping */
struct unetmm_verbs_qp {
	__aligned_u64 queue_map;
	__aligned_u64 doorbell_map;
	__u32 queue_bytes;
	__u32 doorbell_bytes;
	__u32 sq_offset;
	__u32 fq_offset;
	__u32 cq_offset;
	__u32 index_offset;
	__u8 sq_log2;
	__u8 fq_log2;
	__u8 cq_log2;
	__u8 rsvd[5];
};

/*
 * MODIFY_QP, extended.  QUIET: to ERR, before the library resets or ends the queue pair: no
 * IBV_EVENT_QP_LAST_WQE_REACHED comes.
 */
#define UNETMM_VERBS_MODIFY_QUIET	1

struct unetmm_verbs_modify {
	__u32 flags;
	__u32 rsvd;			/* 0 */
};

/*
 * CREATE_AH: where messages go, and the header (GRH) with which each message begins.  The header
 * is that of a message of no bytes: the length, and the checksum of IPv4, are the library's.
 */
#define UNETMM_VERBS_GRH	40

struct unetmm_verbs_ah {
	__u8 grh[UNETMM_VERBS_GRH];
	__u8 mac[6];
	__u8 rsvd[2];
};

/*
 * A method of uverbs' ioctl(), of queue pairs of type RC: the key of a memory window changes
 * before the call returns.  BIND: ibv_bind_mw(3), IBV_WR_BIND_MW; of `new_rkey` the lowest 8
 * bits count, and of `rkey` the others.  INVALIDATE: IBV_WR_LOCAL_INV.  EINVAL: the request is
 * wrong.
 */
enum {
	UNETMM_VERBS_METHOD_KEY = 0x1000,
	/* Attributes: the handle of the queue pair; struct unetmm_verbs_key */
	UNETMM_VERBS_KEY_QP = 0x1000,
	UNETMM_VERBS_KEY_HOW,
};

#define UNETMM_VERBS_BIND	0
#define UNETMM_VERBS_INVALIDATE	1

struct unetmm_verbs_key {
	__aligned_u64 addr;		/* BIND: as requests name it in the region */
	__aligned_u64 length;		/* BIND; 0: to nothing */
	__u32 rkey;			/* of the window */
	__u32 new_rkey;			/* BIND */
	__u32 lkey;			/* BIND: of the region */
	__u32 access;			/* BIND: IBV_ACCESS_* */
	__u32 opcode;			/* UNETMM_VERBS_BIND, UNETMM_VERBS_INVALIDATE */
	__u32 rsvd;			/* 0 */
};

#endif /* _UAPI_LINUX_UNETMM_VERBS_H */
