/* SPDX-License-Identifier: ((GPL-2.0-or-later WITH Linux-syscall-note) OR BSD-2-Clause) */
/*
 * unetmm: the calls of processes to the driver, through /dev/unetmmN.
 *
 * One open file is one address space of one process: SPACE binds it to the
 * caller's mm, and from then on every call and every mmap from another mm
 * (a forked child, a receiver of the descriptor) fails with EPERM, except INFO
 * and COUNTERS.  Data is sent and received without any of these calls: the
 * process maps the queues and the doorbell page that ENDPOINT describes, and
 * unetmm_user.h defines their contents.  With UNETMM_SOURCE_KTLB alone the driver
 * reads the queues, in POST, which takes the place of the doorbell.
 *
 * Each structure starts with its own size.  The kernel accepts a smaller one
 * (missing members count as zero) down to the first published size, and a larger
 * one if all members that it does not know are zero.  The results that fit are
 * written back.
 *
 * errno, the same for all calls:
 *   ENOTTY      no such call
 *   EINVAL      a value is wrong, size is below the first published size, or the file
 *               has no space (SPACE) and the call needs one
 *   E2BIG       the part that the kernel does not know is not zero
 *   EOPNOTSUPP  a reserved field or flag is set, or this card or memory can't
 *   EPERM       another process's file, or a right is missing
 *   ENOENT      no such endpoint, channel, registration
 *   ENODEV      the card is gone or was reset
 *   EFAULT      the memory of the argument cannot be used: nothing was done
 *   EINTR       a signal came; call again (deadlines are absolute); from ACCEPT, EVENT_WAIT,
 *               IMPORT and PEERS: a signal's handler ran, also one with SA_RESTART
 */
#ifndef _UAPI_LINUX_UNETMM_H
#define _UAPI_LINUX_UNETMM_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define UNETMM_IOC_MAGIC	0xd5	/* 00-3f; no other driver's */

/*
 * Numbers of the card that processes use.  unetmm_user.h has them with the same names
 * and in the same words, so that a compiler refuses them where they differ.
 */

/* Where translations come from (SPACE) */
/* gen-spec-tables: mirror SOURCE less DIRECT */
#define UNETMM_SOURCE_PINNED	1
#define UNETMM_SOURCE_TLB	2
#define UNETMM_SOURCE_KTLB	3
#define UNETMM_SOURCE_UTLB	4
#define UNETMM_SOURCE_SHADOW	5
#define UNETMM_SOURCE_ODP	6
/* gen-spec-tables: end */

/* A receive whose page is absent (ENDPOINT) */
/* gen-spec-tables: mirror POLICY */
#define UNETMM_POLICY_DROP	0
#define UNETMM_POLICY_SKIP	1
#define UNETMM_POLICY_REDIRECT	2
#define UNETMM_POLICY_RNR	3
#define UNETMM_POLICY_BACKUP	4
/* gen-spec-tables: end */

/* INFO: version and caps */
/* gen-spec-tables: mirror VERSION CAP */
#define UNETMM_VERSION_MAJOR	0xffff0000u
#define UNETMM_VERSION_MINOR	0x0000ffffu
#define UNETMM_VERSION_VALUE	0x00020000u
#define UNETMM_CAP_LOCAL	0x00000001u
#define UNETMM_CAP_INLINE_RECV	0x00000002u
#define UNETMM_CAP_RELIABLE	0x00000004u
#define UNETMM_CAP_ONE_SIDED	0x00000008u
#define UNETMM_CAP_WINDOWS	0x00000010u
#define UNETMM_CAP_PROXIES	0x00000020u
#define UNETMM_CAP_EVENT_COUNTERS	0x00000040u
#define UNETMM_CAP_SYSBUF	0x00000080u
#define UNETMM_CAP_ETHERNET	0x00000100u
#define UNETMM_CAP_BACKUP	0x00000200u
#define UNETMM_CAP_KEYED	0x00000400u
#define UNETMM_CAP_IMMEDIATE	0x00000800u
#define UNETMM_CAP_ACK_ALONG	0x00001000u
#define UNETMM_CAP_ACK_WRITE	0x00002000u
#define UNETMM_CAP_VERBS	0x00004000u
#define UNETMM_CAP_UD		0x00008000u
#define UNETMM_CAP_SHARED	0x00010000u
#define UNETMM_CAP_BIND		0x00020000u
#define UNETMM_CAP_LONG		0x00040000u
/* gen-spec-tables: end */

/* EXPORT, IMPORT */
/* gen-spec-tables: mirror RIGHT */
#define UNETMM_RIGHT_WRITE	0x01
#define UNETMM_RIGHT_READ	0x02
#define UNETMM_RIGHT_ATOMIC	0x04
#define UNETMM_RIGHT_ALL	0x07
/* gen-spec-tables: end */

/* REDIRECT, REDIRECT_GO */
/* gen-spec-tables: mirror REDIRECT less LANDED */
#define UNETMM_REDIRECT_BEGIN	1
#define UNETMM_REDIRECT_GO	2
#define UNETMM_REDIRECT_BACK	3
#define UNETMM_REDIRECT_END	4
/* gen-spec-tables: end */

/* FLOW; which frames are whose: unetmm_hw.h */
/* gen-spec-tables: mirror FLOW less F_ALL */
#define UNETMM_FLOW_MAC		1
#define UNETMM_FLOW_ETHERTYPE	2
#define UNETMM_FLOW_UDP		3
#define UNETMM_FLOW_TCP		4
#define UNETMM_FLOW_GROUP	5
#define UNETMM_FLOW_ANY		6
#define UNETMM_FLOW_F_BROADCAST	0x01
#define UNETMM_FLOW_F_SOURCE	0x02
/* gen-spec-tables: end */

/* Limits */
#define UNETMM_PAGE_BYTES	4096
#define UNETMM_MAX_MESSAGE	(4u << 20)
#define UNETMM_MAX_STRICT_MESSAGE	(1024u << 20)	/* of channels of verbs */
#define UNETMM_REL_MAX_TIMEOUT_US	1000000
#define UNETMM_EVENT_COUNTERS	512
#define UNETMM_MIN_RING_LOG2	1
#define UNETMM_MAX_RING_LOG2	14
#define UNETMM_ETH_HEADER	14
#define UNETMM_ETH_MAX		9022
#define UNETMM_ETH_MIN_MSS	64

/* Index block of an endpoint */
#define UNETMM_ARM		0x80000000u
#define UNETMM_ARM_COUNT	0x7fffffffu
#define UNETMM_EP_RUNNING	0x00000001u
#define UNETMM_EP_ERROR		0x00000002u
#define UNETMM_EP_CQ_BLOCKED	0x00000004u
#define UNETMM_EP_FQ_AWAITED	0x00000008u
#define UNETMM_PHASE		0x00000001u

/* Send queue */
#define UNETMM_SQE_SEGS		2
#define UNETMM_SQE_RESULT	1	/* of atomics: this segment has the old value */
#define UNETMM_SQE_INLINE	32
/* gen-spec-tables: mirror SQE_F less ALL */
#define UNETMM_SQE_F_INLINE	0x01
#define UNETMM_SQE_F_QUIET	0x02
#define UNETMM_SQE_F_NOTIFY	0x04
#define UNETMM_SQE_F_COUNT	0x08
#define UNETMM_SQE_F_KEYED	0x10
#define UNETMM_SQE_F_IMM	0x20
#define UNETMM_SQE_F_INV	0x40
/* gen-spec-tables: end */
#define UNETMM_SLOT_BYTES	64
#define UNETMM_SLOT_SEGS	4
#define UNETMM_MAX_SEGS		16
#define UNETMM_MAX_INLINE	224
#define UNETMM_MAX_BUF_PAGES	1024	/* of a free buffer */
#define UNETMM_MAX_SLOTS	5
/* gen-spec-tables: mirror UD */
#define UNETMM_UD_HEAD		40
#define UNETMM_UD_SEGS		15
#define UNETMM_UD_MAC		0x0000ffffffffffffull
#define UNETMM_UD_EP		0xffff000000000000ull
/* gen-spec-tables: end */
/* gen-spec-tables: mirror OP TX less CONTROL */
#define UNETMM_OP_SEND		1
#define UNETMM_OP_WRITE		3
#define UNETMM_OP_READ		4
#define UNETMM_OP_FETCH_ADD	5
#define UNETMM_OP_CMP_SWAP	6
#define UNETMM_OP_FENCE		7
#define UNETMM_OP_FRAME		8
#define UNETMM_OP_SEND_TO	9
#define UNETMM_TX_MSS		0x0000ffffu
#define UNETMM_TX_CSUM		0x00010000u
#define UNETMM_TX_SEGMENT	0x00020000u
#define UNETMM_TX_ALL		0x0003ffffu
/* gen-spec-tables: end */

/* Free queue */
/* gen-spec-tables: mirror FQE_F less ALL */
#define UNETMM_FQE_F_ZERO	0x00000001u
#define UNETMM_FQE_F_CHAIN	0x00000002u
/* gen-spec-tables: end */

/* Completion queue */
/* gen-spec-tables: mirror CQE less CONTROL */
#define UNETMM_CQE_INLINE	40
#define UNETMM_CQE_SENT		1
#define UNETMM_CQE_RECEIVED	2
#define UNETMM_CQE_BUFFER	3
#define UNETMM_CQE_FAILED	5
#define UNETMM_CQE_NOTIFY	6
#define UNETMM_CQE_UPDATE	7
#define UNETMM_CQE_CLOSED	8
#define UNETMM_CQE_WRITTEN	9
#define UNETMM_CQE_F_INLINE	0x00000002u
#define UNETMM_CQE_F_CSUM_OK	0x00000004u
#define UNETMM_CQE_F_IMM	0x00000008u
#define UNETMM_CQE_F_INV	0x00000010u
/* gen-spec-tables: end */

/* Status of a completion */
/* gen-spec-tables: mirror ST */
#define UNETMM_ST_OK		0
#define UNETMM_ST_PROTECTION	1
#define UNETMM_ST_BAD_DESC	2
#define UNETMM_ST_BAD_CHANNEL	3
#define UNETMM_ST_TOO_LONG	4
#define UNETMM_ST_SKIPPED	5
#define UNETMM_ST_TOO_LARGE	6
#define UNETMM_ST_LIMIT		7
#define UNETMM_ST_UNSUPPORTED	8
#define UNETMM_ST_LINK_DOWN	9
#define UNETMM_ST_BAD_INDEX	10
#define UNETMM_ST_DMA		11
#define UNETMM_ST_REFUSED	12
#define UNETMM_ST_TIMEOUT	13
#define UNETMM_ST_NOT_READY	14
#define UNETMM_ST_PEER_BUFFER	15
#define UNETMM_ST_PEER_FAILED	16
#define UNETMM_ST_FLUSHED	17
#define UNETMM_ST_BAD_IMPORT	18
#define UNETMM_ST_REVOKED	19
#define UNETMM_ST_REMOTE_RANGE	20
#define UNETMM_ST_REMOTE_RIGHT	21
#define UNETMM_ST_REMOTE_MEMORY	22
#define UNETMM_ST_OVERRUN	23
#define UNETMM_ST_REMOTE_COUNTER	24
#define UNETMM_ST_BAD_KEYS	25
#define UNETMM_ST_PEER_LACKS	26
#define UNETMM_NUM_ST		27
/* gen-spec-tables: end */

/* A load from a WINDOW_FROM gives */
/* gen-spec-tables: mirror START */
#define UNETMM_START_SPLIT	1
#define UNETMM_START_BUSY	2
#define UNETMM_START_REFUSED	3
#define UNETMM_START_DONE	4
/* gen-spec-tables: end */

/**
 * struct unetmm_info - the card's properties and limits
 * @size: sizeof(struct unetmm_info)
 * @flags: in: zero; out: UNETMM_INFO_LINK if the link is up
 * @mac: out: the card's MAC address
 * @rsvd0: zero
 * @user_mtu: out: largest payload of a frame, bytes
 * @version: out: interface version of the card (UNETMM_REG_VERSION)
 * @caps: out: UNETMM_CAP_* of the card
 * @sources: out: bit n set: source n can be asked for
 * @policies: out: bit n set: policy n can be asked for
 * @endpoints: out: endpoints of the card, the kernel's own included
 * @channels: out: channels per endpoint
 * @max_ring_log2: out: log2 of the deepest ring
 * @max_pretranslate: out: most heads of a free queue asked for ahead
 * @tlb_sets: out: sets of the card's TLB
 * @tlb_ways: out: ways of a set
 * @tlb_victims: out: victims
 * @max_buffer_pages: out: pages of the largest free buffer with source tlb
 * @rsvd1: zero
 * @pin_limit_pages: out: the driver's limit of pinned pages for this card
 * @reliable: out: reliable channels of the card
 * @max_message: out: bytes of the longest message on one; 0: there are none
 * @regions: out: exports of the card; 0: it has none
 * @imports: out: imports per endpoint
 * @flows: out: flows of raw endpoints that the card has; 0: no such endpoints
 * @backup: out: packets that may wait for one endpoint in the backup ring; 0: the
 *          card, or its driver, has none
 */
struct unetmm_info {
	__u32 size;
	__u32 flags;
	__u8 mac[6];
	__u16 rsvd0;
	__u32 user_mtu;
	__u32 version;
	__u32 caps;
	__u32 sources;
	__u32 policies;
	__u32 endpoints;
	__u32 channels;
	__u32 max_ring_log2;
	__u32 max_pretranslate;
	__u32 tlb_sets;
	__u32 tlb_ways;
	__u32 tlb_victims;
	__u32 max_buffer_pages;
	__u32 rsvd1;
	__u64 pin_limit_pages;
	__u32 reliable;
	__u32 max_message;
	__u32 regions;
	__u32 imports;
	__u32 flows;
	__u32 backup;
};

#define UNETMM_INFO_LINK	0x00000001

/**
 * struct unetmm_space - bind the file to the caller's address space
 * @size: sizeof(struct unetmm_space)
 * @source: UNETMM_SOURCE_PINNED, UNETMM_SOURCE_TLB, UNETMM_SOURCE_KTLB,
 *          UNETMM_SOURCE_UTLB, UNETMM_SOURCE_SHADOW or UNETMM_SOURCE_ODP
 * @flags: zero
 * @id: out: the space's number on the card
 * @quota_pages: out: source utlb: pages it may have pinned; else zero
 * @log_bytes: out: source utlb: length of struct unetmm_utlb_log; else zero
 * @log_map: out: offset to give to mmap() for it (shared, read only)
 *
 * EBUSY: the file has a space already.  ENOSPC: the card has no more.  EDQUOT: the
 * user has all that it may have; one that is closed counts until its last pin is
 * gone (of a page of a file that the file system keeps locked).  EFAULT: the file
 * may have its space all the same; close it.
 */
struct unetmm_space {
	__u32 size;
	__u32 source;
	__u32 flags;
	__u32 id;
	__u32 quota_pages;
	__u32 log_bytes;
	__u64 log_map;
};

/**
 * struct unetmm_endpoint - create an endpoint
 * @size: sizeof(struct unetmm_endpoint)
 * @flags: UNETMM_ENDPOINT_RAW: Ethernet frames as they are (see FLOW), and no
 *         channels: CAP_NET_RAW.  _NO_INLINE: every message takes a free buffer; not
 *         with _RAW
 * @sq_log2: log2 of the send queue's slots
 * @fq_log2: log2 of the free queue's entries
 * @cq_log2: log2 of the completion queue's entries
 * @policy: UNETMM_POLICY_*: the treatment of a receive whose page is absent;
 *          _REDIRECT, _RNR: sources tlb, shadow and odp, and reliable channels;
 *          _BACKUP: the same sources, and raw endpoints or datagram channels
 * @pretranslate: heads of the free queue asked for ahead; 0: the card's most;
 *                RAW, _BACKUP: zero
 * @event_fd: eventfd that is signalled when an armed completion queue fills,
 *            or -1; poll() on the file works in either case
 * @id: out: the endpoint's number
 * @sq_offset: out: send queue, from the start of the mapping
 * @fq_offset: out: free queue
 * @cq_offset: out: completion queue
 * @index_offset: out: struct unetmm_ep_index
 * @queue_map: out: offset to give to mmap() for the queues (read and write)
 * @queue_bytes: out: length of that mapping
 * @doorbell_map: out: offset to give to mmap() for the doorbell page (write)
 * @doorbell_bytes: out: length of that mapping
 * @backup: policy backup: packets that may wait for this endpoint in the backup
 *          ring, to INFO's most, 0: 256; out: how many may, which are fewer if others
 *          have many.  Else zero
 * @rsvd: zero
 *
 * ENOSPC: the card has no more endpoints, or others have all of the backup ring.
 * ENOMEM, EDQUOT: queue memory, or that of the backup ring; EDQUOT: also, the
 * user has all endpoints, places in that ring or threads of the driver that it may
 * have.  EPERM: a raw one, without the right.
 * EOPNOTSUPP: the card does not have the policy, or not with this source; a raw
 * endpoint has policy drop or backup, and not source ktlb.
 */
struct unetmm_endpoint {
	__u32 size;
	__u32 flags;
	__u32 sq_log2;
	__u32 fq_log2;
	__u32 cq_log2;
	__u32 policy;
	__u32 pretranslate;
	__s32 event_fd;
	__u32 id;
	__u32 sq_offset;
	__u32 fq_offset;
	__u32 cq_offset;
	__u32 index_offset;
	__u32 doorbell_bytes;
	__u64 queue_map;
	__u64 queue_bytes;
	__u64 doorbell_map;
	__u32 backup;
	__u32 rsvd;
};

#define UNETMM_ENDPOINT_RAW	0x00000001
#define UNETMM_ENDPOINT_NO_INLINE	0x00000002

/**
 * struct unetmm_listen - let others connect to an endpoint
 * @size: sizeof(struct unetmm_listen)
 * @endpoint: the endpoint
 * @service: number that connect names; 0 ends listening
 * @backlog: connections that may wait for accept, 1..64; half of these (rounded up)
 *           from any one other card
 * @flags: UNETMM_LISTEN_*: types of channels; none: datagram channels.  _TELL:
 *         each has one completion CQE_CLOSED, when it has ended, also by
 *         DESTROY; _REWIND, reliable: behind a READ's data that has no place
 *         all other is dropped, and asked for again with it; _ANNOUNCE: any card that
 *         asks for listeners (PEERS) gets the endpoint, the service and the process's name
 * @timeout_us: of the reliable channels: first wait for an answer; 0: 4000
 * @retries: ...: timeouts in a row that are borne, 0..255; 0: 12
 * @not_ready_retries: ...: times in a row that the peer may have no buffer,
 *                     0..255; 0: as often as it likes
 * @not_ready_us: ...: how long the peer is told to wait when there is no buffer or
 *                page for it, to 1000000; 0: 100
 *
 * EADDRINUSE: another endpoint of this card listens on that number.  EDQUOT: the user
 * may announce no more endpoints.
 * EOPNOTSUPP: this card, or a space of source ktlb, has no reliable channels.
 * EPROTOTYPE: an endpoint with policy redirect or rnr has no datagram channels, one
 * with policy backup no reliable ones, a raw one none at all.
 */
struct unetmm_listen {
	__u32 size;
	__u32 endpoint;
	__u64 service;
	__u32 backlog;
	__u32 flags;
	__u32 timeout_us;
	__u32 retries;
	__u32 not_ready_retries;
	__u32 not_ready_us;
};

#define UNETMM_LISTEN_DATAGRAM	0x00000001
#define UNETMM_LISTEN_RELIABLE	0x00000002
#define UNETMM_LISTEN_TELL	0x00000004
#define UNETMM_LISTEN_REWIND	0x00000008
#define UNETMM_LISTEN_ANNOUNCE	0x00000010

/**
 * struct unetmm_connect - connect to, or accept from, a peer
 * @size: sizeof(struct unetmm_connect)
 * @endpoint: the endpoint
 * @service: CONNECT: the number that the peer listens on; ACCEPT: zero
 * @deadline_ns: CLOCK_MONOTONIC; 0: do not wait
 * @mac: CONNECT: the peer's card; ACCEPT: out: the same
 * @rsvd0: zero
 * @channel: out: the channel's number in this endpoint
 * @mtu: out: the smaller of both cards' user MTU
 * @peer_endpoint: out: the peer's endpoint number
 * @flags: CONNECT: UNETMM_CONNECT_RELIABLE, _TELL, _REWIND (as LISTEN's); ACCEPT:
 *         zero; out: UNETMM_CONNECT_RELIABLE or zero
 * @timeout_us: CONNECT, reliable: first wait for an answer, to 1000000; 0: 4000
 * @retries: CONNECT, reliable: timeouts in a row that are borne, 0..255; 0: 12
 * @not_ready_retries: CONNECT, reliable: times in a row that the peer may have
 *                     no buffer, 0..255; 0: as often as it likes
 * @max_message: out: bytes of the longest message on the channel
 * @not_ready_us: CONNECT, reliable: as LISTEN's
 * @peer_channel: in: zero; out: the channel's number in the peer's endpoint
 *
 * CONNECT repeats its request until the deadline.  ETIMEDOUT: nobody
 * accepted by then although the peer's driver answered; ECONNRESET: the peer
 * accepted and disconnected at once; EHOSTUNREACH: no driver with that MAC answered
 * at all; ENETDOWN: no link; EPROTOTYPE: the listening endpoint
 * takes no channels of this type, or the endpoint has none (as LISTEN).  ACCEPT:
 * EAGAIN: nobody has connected (deadline 0), ETIMEDOUT: nobody has by then.
 * ENOSPC: channels, or the card's reliable ones, or the system buffer's slots (an
 * endpoint with policy redirect), are used up, or the user's share of these two.
 * EOPNOTSUPP: as LISTEN.
 */
struct unetmm_connect {
	__u32 size;
	__u32 endpoint;
	__u64 service;
	__u64 deadline_ns;
	__u8 mac[6];
	__u16 rsvd0;
	__u32 channel;
	__u32 mtu;
	__u32 peer_endpoint;
	__u32 flags;
	__u32 timeout_us;
	__u32 retries;
	__u32 not_ready_retries;
	__u32 max_message;
	__u32 not_ready_us;
	__u32 peer_channel;
};

#define UNETMM_CONNECT_RELIABLE	0x00000001
#define UNETMM_CONNECT_TELL	0x00000004
#define UNETMM_CONNECT_REWIND	0x00000008

/**
 * struct unetmm_probe - ask whether a card's driver answers
 * @size: sizeof(struct unetmm_probe)
 * @flags: zero
 * @mac: the card
 * @rsvd0: zero
 * @deadline_ns: CLOCK_MONOTONIC
 * @mtu: out: the smaller of both cards' user MTU
 * @rsvd1: zero
 *
 * EHOSTUNREACH: no answer by the deadline.  EAGAIN: nor was the question sent, for
 * the user's limit.  ENETDOWN: no link.
 */
struct unetmm_probe {
	__u32 size;
	__u32 flags;
	__u8 mac[6];
	__u16 rsvd0;
	__u64 deadline_ns;
	__u32 mtu;
	__u32 rsvd1;
};

/**
 * struct unetmm_listener - an endpoint that listens, as its card's driver says
 * @service: the number
 * @mac: the card
 * @endpoint: the endpoint
 * @mtu: the smaller of both cards' user MTU
 * @types: UNETMM_LISTEN_DATAGRAM, _RELIABLE: channels that it takes
 * @name: of its process, at most 15 printable characters and a zero byte
 * @unused: for later versions
 */
struct unetmm_listener {
	__u64 service;
	__u8 mac[6];
	__u16 endpoint;
	__u32 mtu;
	__u32 types;
	__u8 name[16];
	__u64 unused;
};

/**
 * struct unetmm_peers - ask the cards on the wire which endpoints listen
 * @size: sizeof(struct unetmm_peers)
 * @flags: zero
 * @deadline_ns: CLOCK_MONOTONIC: until then answers are collected; those to the first
 *               question have 40 ms also behind it
 * @service: only listeners on this number; 0: on any
 * @listeners: address of an array of struct unetmm_listener
 * @mac: the card that is asked; zero: all, our own among them
 * @rsvd0: zero
 * @count: in: elements of the array, 1..256; out: how many were found
 * @rsvd1: zero
 *
 * Ends before the deadline only if the array is full.  Endpoints that listen without
 * UNETMM_LISTEN_ANNOUNCE are not found.  EAGAIN: the question was not sent, for the
 * user's limit.  ENETDOWN: no link, and one other card was asked.
 */
struct unetmm_peers {
	__u32 size;
	__u32 flags;
	__u64 deadline_ns;
	__u64 service;
	__u64 listeners;
	__u8 mac[6];
	__u16 rsvd0;
	__u32 count;
	__u32 rsvd1;
};

#define UNETMM_MAX_LISTENERS	256

/**
 * struct unetmm_region - register or deregister memory (source pinned)
 * @size: sizeof(struct unetmm_region)
 * @flags: REGISTER: UNETMM_REGION_WRITE if messages may land there
 * @addr: first byte; pages are registered whole
 * @length: bytes
 *
 * DEREGISTER takes the addr and length of one REGISTER.  ENOMEM: the pin limit
 * (RLIMIT_MEMLOCK or the card's) or memory; EEXIST: part of it is registered
 * already; EOPNOTSUPP: the space's source is not pinned, or Linux does not pin
 * such memory.
 */
struct unetmm_region {
	__u32 size;
	__u32 flags;
	__u64 addr;
	__u64 length;
};

#define UNETMM_REGION_WRITE	0x00000001

/**
 * struct unetmm_counters - read counters
 * @size: sizeof(struct unetmm_counters)
 * @scope: UNETMM_SCOPE_*
 * @endpoint: SCOPE_ENDPOINT: whose
 * @count: in: entries at @values; out: entries that exist
 * @values: user address of an array of __u64
 *
 * Entry n is counter n of unetmm_user.h (card, endpoint) or of
 * enum unetmm_driver_counter (driver).
 *
 * EPERM: the endpoint is another process's or the driver's, and the caller lacks
 * CAP_NET_ADMIN.  ENOENT: there is no such endpoint now.
 */
struct unetmm_counters {
	__u32 size;
	__u32 scope;
	__u32 endpoint;
	__u32 count;
	__u64 values;
};

/**
 * struct unetmm_post - post the descriptors in the queues (source ktlb)
 * @size: sizeof(struct unetmm_post)
 * @endpoint: the endpoint
 * @flags: zero
 * @rsvd: zero
 *
 * Takes all descriptors between the indices that the card has reached and the
 * process's producers, of the send queue and of the free queue, translates them,
 * and hands them to the card.  A wrong descriptor has a completion with its error,
 * as with the other sources; a forged index stops the endpoint.  POST
 * never waits for a page that is not resident: the card asks for that.  Call it
 * also when the card's state has UNETMM_EP_CQ_BLOCKED.
 *
 * EINVAL: a free buffer has UNETMM_FQE_F_ZERO and may not.  It and those behind it
 * are not taken, all else is; its descriptor or the producer has to be changed.
 * EOPNOTSUPP: the space's source is not ktlb.
 */
struct unetmm_post {
	__u32 size;
	__u32 endpoint;
	__u32 flags;
	__u32 rsvd;
};

/**
 * struct unetmm_utlb - pin or unpin a run of pages (source utlb)
 * @size: sizeof(struct unetmm_utlb)
 * @flags: PIN: UNETMM_REGION_WRITE if messages may land there; UNPIN: zero
 * @addr: first byte, page aligned
 * @npages: pages, at least 1
 * @done: out: PIN: pages, from the first on, that are pinned now; UNPIN: pages of
 *        the range that were
 * @ahead: PIN: pages behind these that may be pinned with them; UNPIN: zero
 * @rsvd: zero
 *
 * PIN pins from addr on as far as it gets, at most 512 pages in one call, and
 * succeeds if it got the first one.  When all @npages are pinned it goes on with pages
 * @ahead, up to the first that the process has not mapped already as it is wanted, or
 * the end of the mapping: nothing is faulted in or waited for, and no error comes of
 * them.  A page that is pinned already is not pinned
 * again, but counts; PIN adds a missing right.  UNPIN passes over pages that are not
 * pinned.  When it returns, the card uses no page of the range, and their charge is
 * released; but a page of a file that another task keeps locked is unpinned, and made
 * dirty, when it is unlocked.  Pages that the process unmaps, remaps or gives up are
 * unpinned without UNPIN, and the log lists them.  Pages that it protects may be used
 * with the remaining rights; the log lists them, too.  Pages that fork() shares, or
 * that Linux changes for itself, stay pinned.
 *
 * EDQUOT: the space's quota, RLIMIT_MEMLOCK or the card's limit; ENOMEM: memory,
 * or one of these limits for the table in which pages are pinned; EAGAIN: the
 * process's memory changed each time that it was looked at; EOPNOTSUPP: the
 * space's source is not utlb, or Linux does not pin such memory.  EFAULT: also,
 * the process may not access the first page so; pages may have been pinned all
 * the same if it is the argument that cannot be written.
 */
struct unetmm_utlb {
	__u32 size;
	__u32 flags;
	__u64 addr;
	__u32 npages;
	__u32 done;
	__u32 ahead;
	__u32 rsvd;
};

/* Addresses, both inclusive, of pages of which some were unpinned. */
struct unetmm_utlb_range {
	__u64 start;
	__u64 last;
};

#define UNETMM_UTLB_LOG_RANGES	252

/*
 * The pages that were unpinned without UNPIN, for a library that keeps a record of
 * pinned pages.  Range n is in ranges[n % UNETMM_UTLB_LOG_RANGES], written before
 * `seq` becomes n + 1.  A reader that has taken all ranges up to `seen` reads seq,
 * then the ranges from `seen` on, then seq again; if by then seq - seen is
 * UNETMM_UTLB_LOG_RANGES or more, ranges have been overwritten, and any page may have
 * been unpinned.
 */
struct unetmm_utlb_log {
	__u64 seq;
	__u64 rsvd[7];
	struct unetmm_utlb_range ranges[UNETMM_UTLB_LOG_RANGES];
};

/**
 * struct unetmm_prefetch - have pages ready before the card asks (shadow, odp)
 * @size: sizeof(struct unetmm_prefetch)
 * @flags: UNETMM_PREFETCH_*
 * @addr: first byte, of any alignment; pages are entered whole
 * @length: bytes
 * @done: out: bytes, from the first on, that it has gone through
 *
 * Faults pages in as an access of the process would, for reading or (_WRITE)
 * writing, and enters them into the table that the card reads.  With _NO_FAULT
 * it enters only resident pages that have the right, and passes over the rest.
 * It is a hint: nothing is pinned, and pages may be gone again when it
 * returns.  A page that is entered for writing counts as written.
 *
 * It goes as far as it gets, at most some megabytes in one call, and succeeds if
 * it got through the first page.  EFAULT: also, the process may not access the
 * first page so.  EAGAIN: its memory changed each time that it was looked at.
 * ENOMEM: memory, or RLIMIT_MEMLOCK or the card's limit for the table.
 * EOPNOTSUPP: the source has no such table, or Linux does not lend such memory.
 * EINTR: a signal, before the first page was ready.
 */
struct unetmm_prefetch {
	__u32 size;
	__u32 flags;
	__u64 addr;
	__u64 length;
	__u64 done;
};

#define UNETMM_PREFETCH_WRITE	0x00000001
#define UNETMM_PREFETCH_NO_FAULT 0x00000002

/**
 * struct unetmm_export - let peers use memory
 * @size: sizeof(struct unetmm_export)
 * @flags: UNETMM_EXPORT_NOTIFY: writes that ask for it notify;
 *	UNETMM_EXPORT_REDIRECT: parts of it may be moved; UNETMM_EXPORT_KEYED:
 *	peers use it by its key, and cannot IMPORT it; UNETMM_EXPORT_WHOLE: all of the
 *	address space, by its key; UNETMM_EXPORT_REGISTERED: the process registers
 *	the memory itself
 * @id: by which the peers know it; no two of a file are the same
 * @addr: first byte, of any alignment; all of it is mapped.  WHOLE: zero
 * @length: bytes.  WHOLE: zero
 * @cookie: returned in notifications
 * @rights: UNETMM_RIGHT_*, one at least
 * @counter: the first event counter that its peers may name
 * @ncounters: how many, from that one on; 0: none
 *
 * Peers are those with a reliable channel to an endpoint of the file.  With source
 * pinned the pages around it are registered as long as it lasts; with source utlb
 * the process has pinned them before (UTLB_PIN) and leaves them so, or its peers
 * are refused; with source tlb the card translates them at each use, so that a later
 * mapping at these addresses takes the place of the present one.  Exports may overlap,
 * but not with source pinned, and not one that has UNETMM_EXPORT_REDIRECT with any
 * other.  With REGISTERED (source pinned, not with REDIRECT) the process has registered
 * the pages, in any number of regions; such exports may overlap, and peers are refused
 * pages that are not registered.  EEXIST: the id is in use, or part of the memory is
 * exported, and these may not overlap, or (source pinned) is registered.  ENOSPC: the card has
 * no more.  EDQUOT: the user has all that it may have.  ENOENT: no such event counters.  EFAULT: the
 * memory is not mapped, or the process itself has not these rights.  ENOMEM: as
 * REGISTER.  EOPNOTSUPP: this card, source or memory can't.
 *
 * WHOLE: source odp alone, and not with REDIRECT.  Peers reach each address that the
 * process itself could use, at the moment of the access; others fail at the peer with
 * UNETMM_ST_REMOTE_MEMORY.  Other exports may have some of the same memory.
 */
struct unetmm_export {
	__u32 size;
	__u32 flags;
	__u64 id;
	__u64 addr;
	__u64 length;
	__u64 cookie;
	__u32 rights;
	__u16 counter;
	__u16 ncounters;
};

#define UNETMM_EXPORT_NOTIFY	0x00000001
#define UNETMM_EXPORT_REDIRECT	0x00000002
#define UNETMM_EXPORT_KEYED	0x00000004
#define UNETMM_EXPORT_WHOLE	0x00000008
#define UNETMM_EXPORT_REGISTERED 0x00000010

/**
 * struct unetmm_export_key - the key of an export, and its address
 * @size: sizeof(struct unetmm_export_key)
 * @rsvd: zero
 * @id: the export, one with UNETMM_EXPORT_KEYED or _WHOLE
 * @key: out: bits 0 to 31 are its key, 32 to 47 its region's number on the card
 * @base: out: the address of its first byte
 *
 * A peer with the key and a reliable channel to an endpoint of the file can use the
 * export; the process gives the key to its peers.  ENOENT: no such export, or not so made.
 */
struct unetmm_export_key {
	__u32 size;
	__u32 rsvd;
	__u64 id;
	__u64 key;
	__u64 base;
};

/**
 * struct unetmm_span - bytes of an export
 * @offset: of the first
 * @length: how many
 */
struct unetmm_span {
	__u64 offset;
	__u64 length;
};

#define UNETMM_REDIRECT_SPANS	8

/**
 * struct unetmm_redirect - move a part of an export, or prepare the end of a move
 * @size: sizeof(struct unetmm_redirect)
 * @what: UNETMM_REDIRECT_BEGIN or _BACK
 * @id: the export, one with UNETMM_EXPORT_REDIRECT
 * @offset: the part's first byte in the export, by which it is known later
 * @length: BEGIN: bytes of the part; BACK: of these, how many at its beginning are
 *	not to be copied
 * @to: BEGIN: the new place, of any alignment; BACK: in: zero, out: the new place
 * @from: in: zero; out: the old place of the part
 * @count: in: zero; out: how many spans there are
 * @rsvd: zero
 * @spans: out: the bytes to be copied, BEGIN: from @from to @to, BACK: back; offsets
 *	are those in the export
 *
 * BEGIN: with no spans the part has moved.  Else its peers find nothing ready there
 * until REDIRECT_GO with _GO, and the process copies meanwhile.  BACK: the same
 * until REDIRECT_GO with _END.  Spans have all that has landed in the place since
 * it was last in a span, and may have more.
 *
 * The new place must be mapped so that the process itself could use it as its peers
 * may use the export; with source pinned it is registered, unless it is already.
 * ENOENT: no such export, BACK: or part.  EINVAL: not a part of the export; BACK:
 * it is held.  EEXIST: some of the part has moved already, or some of the new place
 * is an export's or another part's.  ENOSPC: four parts of the export have moved.
 * EFAULT: not mapped, or not so.  ENOMEM: as REGISTER.  EOPNOTSUPP: the export was
 * not made so; this source or memory can't.
 */
struct unetmm_redirect {
	__u32 size;
	__u32 what;
	__u64 id;
	__u64 offset;
	__u64 length;
	__u64 to;
	__u64 from;
	__u32 count;
	__u32 rsvd;
	struct unetmm_span spans[UNETMM_REDIRECT_SPANS];
};

/**
 * struct unetmm_redirect_id - the spans have been copied; or end the move
 * @size: sizeof(struct unetmm_redirect_id)
 * @what: UNETMM_REDIRECT_GO or _END
 * @id: the export
 * @offset: the part's first byte
 *
 * GO: peers use the new place.  END: they use the old one, and when it returns the
 * new one is not read or written any more.  END in place of GO: the part has never
 * moved.  GO in place of END after BACK: it stays moved.  ENOENT: no such export
 * or part.  EINVAL: GO: it is not held.
 */
struct unetmm_redirect_id {
	__u32 size;
	__u32 what;
	__u64 id;
	__u64 offset;
};

/**
 * struct unetmm_import - get to use a peer's export
 * @size: sizeof(struct unetmm_import)
 * @endpoint: the endpoint
 * @id: that the peer has given the export
 * @deadline_ns: CLOCK_MONOTONIC: how long to wait until it is exported; 0: not
 * @channel: a reliable channel of the endpoint, to the peer
 * @rights: in: UNETMM_RIGHT_* that are needed, 0: whatever there are; out: granted
 * @import: out: its number in the endpoint
 * @rsvd: zero
 * @length: out: bytes
 *
 * The number is the endpoint's until its end; when the channel ends, posted
 * operations on it fail.  EAGAIN: there is no such export (deadline 0); ETIMEDOUT:
 * nor by the deadline; EHOSTUNREACH: the peer's driver has not answered; EACCES:
 * it is not exported for that; EPROTOTYPE: not a reliable channel; ENOTCONN: the
 * channel has ended; ENOSPC: imports are used up.
 */
struct unetmm_import {
	__u32 size;
	__u32 endpoint;
	__u64 id;
	__u64 deadline_ns;
	__u32 channel;
	__u32 rights;
	__u32 import;
	__u32 rsvd;
	__u64 length;
};

/**
 * struct unetmm_window - pages of the card for the process to map
 * @size: sizeof(struct unetmm_window)
 * @endpoint: the endpoint
 * @kind: UNETMM_WINDOW_*
 * @import: WINDOW_UPDATE, WINDOW_TO: the import's number; else zero
 * @at: offset in the import, or, WINDOW_FROM, a virtual address; page aligned
 *      but for WINDOW_UPDATE
 * @length: bytes, whole pages
 * @combine_ns: WINDOW_UPDATE: a packet of stores waits so long for more
 * @combine_bytes: WINDOW_UPDATE: and takes so many; zero: each store is one
 * @rsvd: zero
 * @flags: zero
 * @id: out: its number in the endpoint
 * @map: out: offset to give to mmap()
 * @map_bytes: out: length of that mapping
 *
 * WINDOW_UPDATE (automatic update): stores of 1 to 8 bytes there are stored in the
 * import, too; loads give back the stored bytes.
 * WINDOW_TO and WINDOW_FROM (user-level DMA start): a store of a length to the
 * former and a load from the latter post a WRITE; the load gives
 * UNETMM_START_*.
 *
 * EEXIST: the import has a window.  ENOSPC: the card has no such run of pages
 * free.  EDQUOT: the user may have no more pages.  ENOENT: no such endpoint or import.  EINVAL: the import does not reach
 * so far or gives no right to write, too.  EPERM: TO or FROM, by a process without
 * CAP_SYS_ADMIN, where the module's parameter user_probes is off.
 */
struct unetmm_window {
	__u32 size;
	__u32 endpoint;
	__u32 kind;
	__u32 import;
	__u64 at;
	__u64 length;
	__u32 combine_ns;
	__u16 combine_bytes;
	__u16 rsvd;
	__u32 flags;
	__u32 id;
	__u64 map;
	__u64 map_bytes;
};

#define UNETMM_WINDOW_UPDATE	0
#define UNETMM_WINDOW_TO	1
#define UNETMM_WINDOW_FROM	2
#define UNETMM_WINDOW_ID_PROXY	0x80000000

/**
 * struct unetmm_event - make event counters
 * @size: sizeof(struct unetmm_event)
 * @count: how many, 1..512
 * @id: out: the number of the first; the others follow
 * @rsvd: zero
 * @map: out: offset to give to mmap() for the page of all of the file's (one page,
 *       shared, read only); counter n is the __u64 number n of it
 *
 * They are zero.  1 is added when a peer's WRITE names one (UNETMM_WIRE_F_COUNT),
 * modulo 2^64; which peers may is said by EXPORT.  A space has 512.  ENOSPC: there
 * are not so many in a row.  ENOMEM, EDQUOT: the page.  EOPNOTSUPP: this card can't.
 */
struct unetmm_event {
	__u32 size;
	__u32 count;
	__u32 id;
	__u32 rsvd;
	__u64 map;
};

/**
 * struct unetmm_event_wait - sleep until an event counter has reached a value
 * @size: sizeof(struct unetmm_event_wait)
 * @id: the counter
 * @value: the counter has reached each value up to 2^63 - 1 behind it, modulo 2^64
 * @deadline_ns: CLOCK_MONOTONIC; 0: do not wait
 * @now: out: its value at the last look
 *
 * EAGAIN: it has not (deadline 0); ETIMEDOUT: nor by the deadline.
 */
struct unetmm_event_wait {
	__u32 size;
	__u32 id;
	__u64 value;
	__u64 deadline_ns;
	__u64 now;
};

/**
 * struct unetmm_event_arm - have an eventfd signalled when it has reached a value
 * @size: sizeof(struct unetmm_event_arm)
 * @id: the counter
 * @value: as EVENT_WAIT has it
 * @event_fd: eventfd, or -1: none any more
 * @rsvd: zero
 * @now: out: its value before it was armed
 *
 * A counter has one such eventfd and value; others are forgotten.  It may be
 * signalled when the value has not been reached, and then has to be armed again;
 * it is not if @now has reached it.
 */
struct unetmm_event_arm {
	__u32 size;
	__u32 id;
	__u64 value;
	__s32 event_fd;
	__u32 rsvd;
	__u64 now;
};

/**
 * struct unetmm_flow - have frames given to a raw endpoint
 * @size: sizeof(struct unetmm_flow)
 * @endpoint: the endpoint
 * @kind: UNETMM_FLOW_* (unetmm_hw.h has the rules)
 * @flags: UNETMM_FLOW_F_*: MAC, not of a group address; else zero
 * @value: ETHERTYPE: which; UDP, TCP: the destination port; else zero
 * @mac: destination address; GROUP, ANY: zero
 * @flow: out: its number on the card
 * @rsvd: zero
 *
 * The endpoint has the flow until DESTROY, or until its own end.  MAC of a group
 * address needs no right but that to have the endpoint.  A flow that takes, or
 * copies, frames of others needs CAP_NET_ADMIN: MAC of a station's address,
 * ETHERTYPE, UDP and TCP, GROUP, ANY.
 *
 * EADDRINUSE: another endpoint has it, or this one.  EPERM: a right is missing; or
 * it is the EtherType of the card's own frames, which is nobody's.  EPROTOTYPE: not
 * a raw endpoint.  ENOSPC: the card has no more flows.  EDQUOT: the user may have no
 * more.  EINVAL: no such kind, or an
 * EtherType below 0x0600, or port 0, or an address that the kind cannot have.
 * EOPNOTSUPP: this card has no flows.
 */
struct unetmm_flow {
	__u32 size;
	__u32 endpoint;
	__u32 kind;
	__u32 flags;
	__u16 value;
	__u8 mac[6];
	__u32 flow;
	__u32 rsvd;
};

/**
 * struct unetmm_destroy - end an object
 * @size: sizeof(struct unetmm_destroy)
 * @endpoint: ENDPOINT: which; CHANNEL, IMPORT, WINDOW, FLOW: whose; else zero
 * @type: UNETMM_OBJECT_*
 * @count: EVENT: how many; else zero
 * @id: its number; EVENT: the first's; ENDPOINT: zero
 *
 * ENDPOINT: mappings may stay; stores to them have no effect.
 * EXPORT: when the call returns, nothing is read or written through it any more; an
 * operation that is under way fails at the peer with UNETMM_ST_REVOKED.
 * IMPORT: operations that were posted on it before and have not begun fail.
 * WINDOW: earlier stores are still sent.  A mapping stays, and maps unused memory from
 * then on.
 * EVENT: a process that waits for one gets ENOENT.  EBUSY: an export gives one of them.
 * FLOW: when the call returns, no more frames come by it.
 * EINVAL: no such type.  ENOENT: there is no such object.
 */
struct unetmm_destroy {
	__u32 size;
	__u32 endpoint;
	__u32 type;
	__u32 count;
	__u64 id;
};

#define UNETMM_OBJECT_ENDPOINT	1
#define UNETMM_OBJECT_CHANNEL	2
#define UNETMM_OBJECT_EXPORT	3
#define UNETMM_OBJECT_IMPORT	4
#define UNETMM_OBJECT_WINDOW	5
#define UNETMM_OBJECT_EVENT	6
#define UNETMM_OBJECT_FLOW	7

#define UNETMM_SCOPE_CARD	0
#define UNETMM_SCOPE_ENDPOINT	1
#define UNETMM_SCOPE_DRIVER	2

/* The driver's own counters, for the whole card. */
#define UNETMM_DRIVER_COUNTERS(X) \
	X(pins, "pages pinned since load") \
	X(unpins, "pages unpinned since load") \
	X(pinned_now, "pages pinned at this moment") \
	X(pinned_max, "most pages pinned at one time") \
	X(faults, "misses served") \
	X(faults_resident, "of these: answered at once") \
	X(faults_deferred, "of these: had to be paged in") \
	X(faults_error, "of these: refused") \
	X(faults_retried, "of these: raced with an invalidation") \
	X(evictions, "entries that the card gave back") \
	X(stale_evictions, "of these: dropped by an invalidation before") \
	X(refused_inserts, "entries that the card had no room for") \
	X(invalidations, "ranges dropped for the notifier") \
	X(invalidate_timeouts, "invalidations the card did not finish") \
	X(pages_dirtied, "pages marked dirty") \
	X(pin_limited, "pins refused by a limit") \
	X(bounce_refused, "mappings refused because they would bounce") \
	X(wakeups, "eventfd and poll wake-ups") \
	X(connects, "channels opened by connect") \
	X(accepts, "channels opened for a listener") \
	X(control_bad, "control messages not understood") \
	X(commands, "commands given to the card") \
	X(command_timeouts, "commands the card did not finish") \
	X(ktlb_posts, "posting calls (source ktlb)") \
	X(ktlb_hits, "pages that the driver's TLB had") \
	X(ktlb_victim_hits, "of its victims: pages found there") \
	X(ktlb_misses, "pages that entered it") \
	X(ktlb_evictions, "pages that it gave up") \
	X(zero_maps, "absent pages mapped anew, as zeros, not paged in") \
	X(utlb_calls, "pinning and unpinning calls (source utlb)") \
	X(utlb_lost, "of its pages: unpinned because memory changed") \
	X(exports, "exports made") \
	X(imports, "imports made") \
	X(redirects, "parts of exports moved") \
	X(shadow_set, "pages entered into tables of source shadow") \
	X(shadow_cleared, "pages taken out of them") \
	X(shadow_snaps, "snapshots of resident pages") \
	X(shadow_raced, "of these: in vain, memory was changing") \
	X(shadow_notes, "page faults and changes of rights noted there") \
	X(shadow_overruns, "of these: lost, the notes were not read in time") \
	X(shadow_missed, "page faults, of any process, that could not be seen") \
	X(shadow_waits, "times that pages were waited for: the card had them") \
	X(shadow_wait_ns, "how long in all, nanoseconds") \
	X(shadow_wait_max_ns, "the longest of these waits") \
	X(event_counters, "event counters made") \
	X(sysbuf_copies, "packets copied out of the system buffer") \
	X(sysbuf_copied_bytes, "bytes of data in these") \
	X(sysbuf_page_ins, "times that an absent page was waited for there") \
	X(sysbuf_unmapped, "packets there whose memory could not be had") \
	X(sysbuf_cancelled, "packets there whose export or endpoint ended") \
	X(sysbuf_bad, "reports of slots that make no sense") \
	X(sysbuf_no_credits, "channels refused: no slot left for them") \
	X(odp_set, "pages entered into tables of source odp") \
	X(odp_cleared, "pages taken out of them") \
	X(odp_upgraded, "of these: to be entered again, for writing") \
	X(odp_faulted, "pages that misses of source odp were given") \
	X(odp_ahead, "pages of further segments entered before their miss") \
	X(faults_ahead, "reports of further segments") \
	X(faults_over, "misses and copies that waited for others of their process") \
	X(prefetches, "prefetching calls (sources shadow and odp)") \
	X(prefetched_pages, "pages that these have gone through") \
	X(repins, "pinned pages that Linux took and that were still there") \
	X(backup_buffers, "buffers of the backup ring at this moment") \
	X(backup_copies, "packets copied out of it") \
	X(backup_copied_bytes, "bytes of these") \
	X(backup_page_ins, "times that an absent page was waited for there") \
	X(backup_waits, "times that a buffer was waited for until it was posted") \
	X(backup_ahead, "posted buffers made present before their packet came") \
	X(backup_failed, "packets there whose buffer could not be used") \
	X(backup_cancelled, "packets there whose endpoint or process ended") \
	X(backup_no_memory, "packets there given up: no fresh buffer for the ring") \
	X(backup_refused, "answers that the card did not take: it was stopped") \
	X(backup_bad, "reports of packets there that make no sense") \
	X(refused_full, "CONNECTs refused: no place in the backlog, or no channel") \
	X(refused_share, "CONNECTs refused: their card has its share of the backlog") \
	X(ghosts, "channels ended: their card did not answer") \
	X(user_limited, "requests refused: the user has its limit") \
	X(confirmed, "channels whose card has answered that it is there") \
	X(shadow_put_off, "places left to a later walk: their memory kept changing") \
	X(peers_answered, "listeners named to cards that asked for them") \
	X(peers_limited, "questions for listeners not answered: the card has its limit") \
	X(peers_dropped, "listeners not taken: not asked for, late, or no place left") \
	X(faults_bad, "reports of misses or evictions that make no sense") \
	X(pins_given_up, "pages unpinned at a limit for others of their process") \
	X(closes_repeated, "CLOSE messages sent again: their peer has not answered") \
	X(closes_given_up, "channels whose peer perhaps does not know of their end") \
	X(closes_waiting, "channels whose CLOSE waits for its answer at this moment")

#define UNETMM_DRIVER_COUNTER_ENUM_(name, help) UNETMM_D_##name,
enum unetmm_driver_counter {
	UNETMM_DRIVER_COUNTERS(UNETMM_DRIVER_COUNTER_ENUM_)
	UNETMM_NUM_DRIVER_COUNTERS
};

#define UNETMM_IOC_INFO		_IO(UNETMM_IOC_MAGIC, 0x00)
#define UNETMM_IOC_SPACE	_IO(UNETMM_IOC_MAGIC, 0x01)
#define UNETMM_IOC_ENDPOINT	_IO(UNETMM_IOC_MAGIC, 0x02)
#define UNETMM_IOC_DESTROY	_IO(UNETMM_IOC_MAGIC, 0x03)
#define UNETMM_IOC_LISTEN	_IO(UNETMM_IOC_MAGIC, 0x04)
#define UNETMM_IOC_ACCEPT	_IO(UNETMM_IOC_MAGIC, 0x05)
#define UNETMM_IOC_CONNECT	_IO(UNETMM_IOC_MAGIC, 0x06)
#define UNETMM_IOC_PROBE	_IO(UNETMM_IOC_MAGIC, 0x08)
#define UNETMM_IOC_REGISTER	_IO(UNETMM_IOC_MAGIC, 0x09)
#define UNETMM_IOC_DEREGISTER	_IO(UNETMM_IOC_MAGIC, 0x0a)
#define UNETMM_IOC_COUNTERS	_IO(UNETMM_IOC_MAGIC, 0x0b)
#define UNETMM_IOC_POST		_IO(UNETMM_IOC_MAGIC, 0x0c)
#define UNETMM_IOC_UTLB_PIN	_IO(UNETMM_IOC_MAGIC, 0x0d)
#define UNETMM_IOC_UTLB_UNPIN	_IO(UNETMM_IOC_MAGIC, 0x0e)
#define UNETMM_IOC_PREFETCH	_IO(UNETMM_IOC_MAGIC, 0x0f)
#define UNETMM_IOC_EXPORT	_IO(UNETMM_IOC_MAGIC, 0x10)
#define UNETMM_IOC_REDIRECT	_IO(UNETMM_IOC_MAGIC, 0x14)
#define UNETMM_IOC_REDIRECT_GO	_IO(UNETMM_IOC_MAGIC, 0x15)
#define UNETMM_IOC_IMPORT	_IO(UNETMM_IOC_MAGIC, 0x12)
#define UNETMM_IOC_EXPORT_KEY	_IO(UNETMM_IOC_MAGIC, 0x16)
#define UNETMM_IOC_WINDOW	_IO(UNETMM_IOC_MAGIC, 0x18)
#define UNETMM_IOC_EVENT	_IO(UNETMM_IOC_MAGIC, 0x1a)
#define UNETMM_IOC_EVENT_WAIT	_IO(UNETMM_IOC_MAGIC, 0x1c)
#define UNETMM_IOC_EVENT_ARM	_IO(UNETMM_IOC_MAGIC, 0x1d)
#define UNETMM_IOC_FLOW		_IO(UNETMM_IOC_MAGIC, 0x1e)
#define UNETMM_IOC_PEERS	_IO(UNETMM_IOC_MAGIC, 0x20)

#endif /* _UAPI_LINUX_UNETMM_H */
