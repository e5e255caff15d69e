/* SPDX-License-Identifier: GPL-2.0-or-later OR BSD-2-Clause */
/*
 * unetmm: the part of the card's contract that processes use.
 *
 * Queues that a process maps, descriptors, completions and their statuses,
 * sources, policies, flags and counters.  The card (QEMU), the Linux driver and
 * the qtests include this header through unetmm_hw.h, which adds registers and
 * commands; the user library includes it alone.  docs/specs/unetmm.rst is the
 * prose to both.  All values in memory are little-endian; all structures are
 * naturally aligned, have no holes and no bit-fields.  A member or bit named
 * "rsvd" must be written as zero and is ignored when read, unless the
 * specification says that the card checks it ("MBZ": the card refuses it).
 */
#ifndef UNETMM_USER_H
#define UNETMM_USER_H

#ifdef __KERNEL__
#include <linux/types.h>
#include <linux/stddef.h>
#include <linux/build_bug.h>
typedef __le16 unetmm_le16;
typedef __le32 unetmm_le32;
typedef __le64 unetmm_le64;
typedef __u8 unetmm_u8;
#else
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
typedef uint16_t unetmm_le16;
typedef uint32_t unetmm_le32;
typedef uint64_t unetmm_le64;
typedef uint8_t unetmm_u8;
#endif

/*
 * Fields are named by their mask alone; the shift follows from it.  The kernel
 * uses FIELD_GET()/FIELD_PREP() on the same masks.
 */
#define UNETMM_GET(mask, v)  (((v) & (mask)) / ((mask) & -(mask)))
#define UNETMM_PREP(mask, v) (((v) * ((mask) & -(mask))) & (mask))

/* ---- Pages and rings ---------------------------------------------------- */

#define UNETMM_PAGE_SHIFT       12      /* the card's translation granule */
#define UNETMM_PAGE_BYTES       4096

#define UNETMM_MIN_RING_LOG2    1
#define UNETMM_MAX_RING_LOG2    14

/* ---- Capabilities (INFO) ------------------------------------------------ */

#define UNETMM_VERSION_MAJOR    0xffff0000u
#define UNETMM_VERSION_MINOR    0x0000ffffu
#define UNETMM_VERSION_VALUE    0x00020000u

#define UNETMM_CAP_LOCAL        0x00000001u /* delivery on the same card */
#define UNETMM_CAP_INLINE_RECV  0x00000002u /* small messages in the CQE */
#define UNETMM_CAP_RELIABLE     0x00000004u /* channels of type RELIABLE */
#define UNETMM_CAP_ONE_SIDED    0x00000008u /* regions, imports, WRITE, READ */
#define UNETMM_CAP_WINDOWS      0x00000010u /* automatic update */
#define UNETMM_CAP_PROXIES      0x00000020u /* user-level DMA start */
#define UNETMM_CAP_EVENT_COUNTERS 0x00000040u /* named by WRITEs */
#define UNETMM_CAP_SYSBUF       0x00000080u /* policy redirect, credits */
#define UNETMM_CAP_ETHERNET     0x00000100u /* raw endpoints, flows */
#define UNETMM_CAP_BACKUP       0x00000200u /* policy backup, its ring */
#define UNETMM_CAP_KEYED        0x00000400u /* operations by key */
#define UNETMM_CAP_IMMEDIATE    0x00000800u /* SQE_F_IMM, EP_F_NO_INLINE */
#define UNETMM_CAP_ACK_ALONG    0x00001000u /* CHANNEL_F_ACK */
#define UNETMM_CAP_ACK_WRITE    0x00002000u /* CHANNEL_F_ACK_WRITE */
#define UNETMM_CAP_VERBS        0x00004000u /* CHANNEL_MODIFY and others */
#define UNETMM_CAP_UD           0x00008000u /* CHANNEL_UD, OP_SEND_TO */
#define UNETMM_CAP_SHARED       0x00010000u /* EP_F_SHARED, fq_of, LOW_ARM */
#define UNETMM_CAP_BIND         0x00020000u /* PD_EP, SQE_F_INV */
#define UNETMM_CAP_LONG         0x00040000u /* MAX_STRICT_MESSAGE */

/* ---- Phase bit ---------------------------------------------------------- */

/*
 * Each ring that the card produces has a phase bit in the last word of every
 * entry.  The card writes 1 there on its first pass over the ring, 0 on the
 * second, and so on; memory starts as zero.  The reader at free-running index
 * i of a ring of 2^n entries expects !((i >> n) & 1).  The card writes the
 * word with the phase last; the reader reads it first, then needs an acquire
 * barrier before the rest.
 */
#define UNETMM_PHASE            0x00000001u
#define UNETMM_PHASE_OF(index, log2) ((((index) >> (log2)) & 1u) ^ 1u)

/* ---- Sources and policies ----------------------------------------------- */

/* gen-spec-tables: numbers SOURCE */
#define UNETMM_SOURCE_DIRECT    0       /* space 0: address = DMA address */
#define UNETMM_SOURCE_PINNED    1       /* table in host memory; miss = error */
#define UNETMM_SOURCE_TLB       2       /* card TLB; miss goes to the driver */
#define UNETMM_SOURCE_KTLB      3       /* driver's rings and page lists */
#define UNETMM_SOURCE_UTLB      4       /* table of pinned pages */
#define UNETMM_SOURCE_SHADOW    5       /* table of resident pages */
#define UNETMM_SOURCE_ODP       6       /* table filled by faults */
/* gen-spec-tables: end */

/* gen-spec-tables: numbers POLICY */
#define UNETMM_POLICY_DROP      0
#define UNETMM_POLICY_SKIP      1
#define UNETMM_POLICY_REDIRECT  2
#define UNETMM_POLICY_RNR       3
#define UNETMM_POLICY_BACKUP    4
/* gen-spec-tables: end */

/* ---- Endpoint memory (written by the process that owns it) -------------- */

/*
 * The index block: 128 bytes, 128-byte aligned.  All indices run freely over
 * 32 bits; the slot is index & (depth - 1).  The card copies the user words and
 * checks the copy: a producer more than a depth ahead, or a consumer ahead of
 * the producer, stops the endpoint (UNETMM_EP_ERROR).
 */
struct unetmm_ep_user {
    unetmm_le32 sq_prod;        /* slots of the send queue filled */
    unetmm_le32 fq_prod;        /* buffers posted */
    unetmm_le32 cq_cons;        /* completions taken */
    unetmm_le32 cq_arm;         /* 0, or UNETMM_ARM | completions seen */
    unetmm_u8 rsvd[48];
};

struct unetmm_ep_card {
    unetmm_le32 sq_cons;        /* slots of the send queue free again */
    unetmm_le32 fq_cons;        /* buffers that left the free queue */
    unetmm_le32 cq_prod;        /* completions written; a hint only */
    unetmm_le32 state;          /* UNETMM_EP_* */
    unetmm_u8 rsvd[48];
};

struct unetmm_ep_index {
    struct unetmm_ep_user user;
    struct unetmm_ep_card card;
};

/*
 * Arming: a wake-up is sent once as soon as the number of completions written
 * exceeds the number in cq_arm (31 bits, compared modulo 2^31).  Order for the
 * reader: take all completions; store cq_arm; full barrier; look again; block.
 * The card: write the completion; full barrier; read cq_arm.  No doorbell.
 */
#define UNETMM_ARM              0x80000000u
#define UNETMM_ARM_COUNT        0x7fffffffu

#define UNETMM_EP_RUNNING       0x00000001u
#define UNETMM_EP_ERROR         0x00000002u /* stopped; destroy it */
#define UNETMM_EP_CQ_BLOCKED    0x00000004u /* ring the doorbell after taking */
/*
 * Somebody waits for buffers (TAIL_ARM).  Order for the process: store fq_prod;
 * full barrier; look at this; ring the doorbell.
 */
#define UNETMM_EP_FQ_AWAITED    0x00000008u

/*
 * Send queue: slots of 64 bytes.  The first slot of a descriptor is an
 * unetmm_sqe.  With more than 2 segments, slots of 4 segments follow; with more
 * than 32 inline bytes, slots of 64 raw bytes follow.  There are no pointers
 * from slot to slot, so a chain can neither loop nor be cut elsewhere than at
 * the producer index.
 */
struct unetmm_seg {
    unetmm_le64 addr;           /* virtual address in the endpoint's space */
    unetmm_le32 len;            /* bytes; 0 is allowed */
    union {
        unetmm_le32 rsvd;       /* MBZ; or ... */
        unetmm_le32 key;        /* ... with EP_F_KEYS: number << 8 | 8 bits */
    };
};

#define UNETMM_SQE_SEGS         2
#define UNETMM_SQE_INLINE       32
#define UNETMM_SLOT_BYTES       64
#define UNETMM_SLOT_SEGS        4
#define UNETMM_MAX_SEGS         16
#define UNETMM_MAX_INLINE       224
#define UNETMM_MAX_SLOTS        5       /* longest descriptor, in slots ... */
#define UNETMM_MAX_PLACES       18      /* ... and in segments */
#define UNETMM_SQE_RESULT       1       /* atomics: this segment, if any */

struct unetmm_sqe {
    unetmm_u8 opcode;           /* UNETMM_OP_* */
    unetmm_u8 flags;            /* UNETMM_SQE_* */
    unetmm_u8 nsegs;            /* 0..MAX_SEGS; INLINE: see below */
    unetmm_u8 inline_len;       /* 0..UNETMM_MAX_INLINE; 0 without INLINE */
    unetmm_le16 channel;        /* local channel number; 0 for CONTROL */
    unetmm_le16 region;         /* KEYED: the peer's region; else MBZ */
    unetmm_le64 cookie;         /* returned in the completion */
    unetmm_le32 imm;            /* NOTIFY, IMM: for the peer; COUNT; or MBZ */
    unetmm_le32 handle;         /* import, key or Q_Key; else MBZ */
    unetmm_le64 remote;         /* offset; CONTROL, SEND_TO: MAC; else MBZ */
    union {
        struct unetmm_seg seg[UNETMM_SQE_SEGS];
        unetmm_u8 data[UNETMM_SQE_INLINE];
    };
};

/*
 * WRITE, READ, FETCH_ADD, CMP_SWAP are one-sided, on reliable channels: on the
 * memory behind an import.  An atomic has its operands inline (FETCH_ADD: the
 * addend; CMP_SWAP: the expected value, then the new one; 8 bytes each) and an
 * offset that makes the address a multiple of 8; the completion has the old
 * value inline.  With nsegs 1, seg[SQE_RESULT], 8 bytes, has it by then, too.
 *
 * SEND_TO is sent on a UD channel to the address in `remote`, with the Q_Key in
 * `handle`; UNETMM_QKEY_OWN there: the channel's own.  At least UD_HEAD bytes
 * are inline, segments follow at the next multiple of 16.
 *
 * Raw endpoints have FRAME, and no other: a whole Ethernet frame without its
 * checksum, `imm` selects offloads (UNETMM_TX_*).
 */
#define UNETMM_UD_HEAD          40
#define UNETMM_UD_SEGS          15      /* behind it */
#define UNETMM_UD_MAC           0x0000ffffffffffffull /* byte 0 lowest */
#define UNETMM_UD_EP            0xffff000000000000ull
#define UNETMM_QKEY_OWN         0x80000000u
/* gen-spec-tables: numbers OP */
#define UNETMM_OP_SEND          1       /* datagram or message on a channel */
#define UNETMM_OP_CONTROL       2       /* endpoint 0 only */
#define UNETMM_OP_WRITE         3       /* from the segments, or inline */
#define UNETMM_OP_READ          4       /* into the segments */
#define UNETMM_OP_FETCH_ADD     5
#define UNETMM_OP_CMP_SWAP      6
#define UNETMM_OP_FENCE         7       /* completes behind all before it */
#define UNETMM_OP_FRAME         8
#define UNETMM_OP_SEND_TO       9       /* on a UD channel */
/* gen-spec-tables: end */

#define UNETMM_TX_MSS           0x0000ffffu /* SEGMENT: payload bytes of one */
#define UNETMM_TX_CSUM          0x00010000u /* TCP's or UDP's is to be made */
#define UNETMM_TX_SEGMENT       0x00020000u /* TCP: into frames of MSS; CSUM */
#define UNETMM_TX_ALL           0x0003ffffu

#define UNETMM_ETH_HEADER       14
#define UNETMM_ETH_MAX          9022    /* without SEGMENT: MTU 9000, a VLAN */
#define UNETMM_ETH_MIN_MSS      64

#define UNETMM_SQE_F_INLINE     0x01    /* data is in the slots */
#define UNETMM_SQE_F_QUIET      0x02    /* completion only if it fails */
#define UNETMM_SQE_F_NOTIFY     0x04    /* WRITE: a notification, with imm */
#define UNETMM_SQE_F_COUNT      0x08    /* WRITE: event counter imm, +1 */
/*
 * One-sided, without an import: `region` and `handle` are number and key of the
 * peer's region, which has REGION_F_KEYED, and `remote` is an address in the
 * peer's space.
 */
#define UNETMM_SQE_F_KEYED      0x10
/*
 * SEND on a reliable channel: the completion there has imm.  WRITE: when it has
 * been placed, there is a CQE_WRITTEN, which takes a free buffer with it.
 */
#define UNETMM_SQE_F_IMM        0x20
/* SEND with IMM on a strict channel: `imm` is a key that the receiver ends. */
#define UNETMM_SQE_F_INV        0x40
#define UNETMM_SQE_F_ALL        0x7f

/* Free queue: one buffer an entry, or a part of one (UNETMM_FQE_F_CHAIN) */
struct unetmm_fqe {
    unetmm_le64 addr;
    unetmm_le32 len;            /* 1..the TLB's reach; 0: without memory */
    unetmm_le32 flags;          /* UNETMM_FQE_F_* */
    unetmm_le64 cookie;
    union {
        unetmm_le64 rsvd;       /* MBZ; or ... */
        unetmm_le64 key;        /* ... as that of a segment */
    };
};

/*
 * The old contents need not be kept: where the page is not resident, the driver
 * maps a fresh page of zeros instead of paging in.  Sources tlb, ktlb, shadow
 * and odp; the buffer is exactly one page, and private anonymous memory.
 */
#define UNETMM_FQE_F_ZERO       0x00000001u
/*
 * The buffer goes on in the next entry: UNETMM_MAX_SEGS of them at most, posted
 * together.  The completion has the cookie of the first one.  Not with ZERO, in
 * any of them, and not on endpoints with policy backup or of kind raw.
 */
#define UNETMM_FQE_F_CHAIN      0x00000002u
#define UNETMM_FQE_F_ALL        0x00000003u

/* Completion queue */
#define UNETMM_CQE_INLINE       40

/* NOTIFY: the bytes written.  The data is visible before it. */
struct unetmm_cqe_notify {
    unetmm_le64 offset;         /* in the region */
    unetmm_le32 imm;
    unetmm_le32 region;
};

struct unetmm_cqe {
    unetmm_le64 cookie;
    unetmm_le32 len;            /* message bytes */
    unetmm_le16 channel;        /* local channel number */
    unetmm_u8 opcode;           /* UNETMM_CQE_* */
    unetmm_u8 status;           /* UNETMM_ST_* */
    union {
        unetmm_u8 data[UNETMM_CQE_INLINE];
        unetmm_le64 source;     /* CONTROL: sender's MAC; UD: UNETMM_UD_* */
        unetmm_le64 old;        /* atomics: the previous value */
        struct unetmm_cqe_notify notify;
    };
    unetmm_le32 imm;            /* with CQE_F_IMM; else 0 */
    unetmm_le32 flags;          /* UNETMM_CQE_F_* and UNETMM_PHASE */
};

#define UNETMM_CQE_SENT         1       /* of a send descriptor */
#define UNETMM_CQE_RECEIVED     2       /* a message; buffer or inline */
#define UNETMM_CQE_BUFFER       3       /* a free buffer came back unfilled */
#define UNETMM_CQE_CONTROL      4       /* a control message (endpoint 0) */
#define UNETMM_CQE_FAILED       5       /* the endpoint was stopped */
#define UNETMM_CQE_NOTIFY       6       /* a region was written; its cookie */
#define UNETMM_CQE_UPDATE       7       /* a store or a start has failed */
#define UNETMM_CQE_CLOSED       8       /* the end of a channel; status: why */
#define UNETMM_CQE_WRITTEN      9       /* a WRITE with IMM; buffer unfilled */

#define UNETMM_CQE_F_INLINE     0x00000002u /* message is in data[] */
#define UNETMM_CQE_F_CSUM_OK    0x00000004u /* frame: TCP's or UDP's is right */
#define UNETMM_CQE_F_IMM        0x00000008u /* the sender's imm is in imm */
#define UNETMM_CQE_F_INV        0x00000010u /* it is a key that is to end */

/* gen-spec-tables: numbers ST */
#define UNETMM_ST_OK            0
#define UNETMM_ST_PROTECTION    1       /* no right to use the address so */
#define UNETMM_ST_BAD_DESC      2       /* malformed descriptor */
#define UNETMM_ST_BAD_CHANNEL   3       /* no such channel of this endpoint */
#define UNETMM_ST_TOO_LONG      4       /* too long for channel or buffer */
#define UNETMM_ST_SKIPPED       5       /* buffer: was not resident in time */
#define UNETMM_ST_TOO_LARGE     6       /* buffer: the TLB can never hold it */
#define UNETMM_ST_LIMIT         7       /* the driver's pin limit is reached */
#define UNETMM_ST_UNSUPPORTED   8       /* memory that Linux refuses to pin */
#define UNETMM_ST_LINK_DOWN     9       /* no link: the message was not sent */
#define UNETMM_ST_BAD_INDEX     10      /* forged ring index */
#define UNETMM_ST_DMA           11      /* the bus refused an access */
#define UNETMM_ST_REFUSED       12      /* the wire refused the frame */
#define UNETMM_ST_TIMEOUT       13      /* reliable: the peer does not answer */
#define UNETMM_ST_NOT_READY     14      /* reliable: the peer was not ready */
#define UNETMM_ST_PEER_BUFFER   15      /* reliable: its buffer was too short */
#define UNETMM_ST_PEER_FAILED   16      /* reliable: the peer's half failed */
#define UNETMM_ST_FLUSHED       17      /* reliable: the channel had failed */
#define UNETMM_ST_BAD_IMPORT    18      /* no such import, offset or right */
#define UNETMM_ST_REVOKED       19      /* the peer has no such region or key */
#define UNETMM_ST_REMOTE_RANGE  20      /* beyond the end of the region */
#define UNETMM_ST_REMOTE_RIGHT  21      /* the region lacks the right */
#define UNETMM_ST_REMOTE_MEMORY 22      /* the peer's memory cannot be used */
#define UNETMM_ST_OVERRUN       23      /* more stores than the card can keep */
#define UNETMM_ST_REMOTE_COUNTER 24     /* the region lacks that counter */
#define UNETMM_ST_BAD_KEYS      25      /* reliable: too many wrong keys */
#define UNETMM_ST_PEER_LACKS    26      /* reliable: its card is too old */
#define UNETMM_NUM_ST           27
/* gen-spec-tables: end */

/* ---- Channels and memory of peers --------------------------------------- */

#define UNETMM_MAX_MESSAGE      (4u << 20)  /* of a reliable channel */
#define UNETMM_MAX_STRICT_MESSAGE (1024u << 20) /* of a strict one */

#define UNETMM_MAX_BUF_PAGES    1024    /* of a free buffer */

#define UNETMM_RIGHT_WRITE      0x01
#define UNETMM_RIGHT_READ       0x02
#define UNETMM_RIGHT_ATOMIC     0x04
#define UNETMM_RIGHT_ALL        0x07

#define UNETMM_EVENT_COUNTERS   512     /* of a space */

#define UNETMM_FLOW_MAC         1
#define UNETMM_FLOW_ETHERTYPE   2
#define UNETMM_FLOW_UDP         3
#define UNETMM_FLOW_TCP         4
#define UNETMM_FLOW_GROUP       5       /* all multicast */
#define UNETMM_FLOW_ANY         6       /* promiscuous */

#define UNETMM_FLOW_F_BROADCAST 0x01    /* MAC, not of a group address */
/*
 * MAC, not of a group address: the endpoint may send with this source address.
 * An endpoint of space 0 may send with any.
 */
#define UNETMM_FLOW_F_SOURCE    0x02
#define UNETMM_FLOW_F_ALL       0x03

/* 0 is not among them: memory that is not the card's any more reads so. */
#define UNETMM_START_SPLIT      1       /* no store before it: do both again */
#define UNETMM_START_BUSY       2       /* the channel is full: do both again */
#define UNETMM_START_REFUSED    3       /* length, channel or import wrong */
#define UNETMM_START_DONE       4       /* posted */

/* ---- Counters ----------------------------------------------------------- */

/*
 * One list makes the registers, the names in unetmm-stat, the QOM properties
 * and the specification's table.  X(identifier, scope, help): scope C counts
 * on the card only, E on the card and on the endpoint concerned.
 */
#define UNETMM_COUNTERS(X) \
    X(tx_frames,        E, "frames handed to the wire or to the local queue") \
    X(tx_bytes,         E, "payload bytes in those frames") \
    X(rx_frames,        E, "user frames accepted for an endpoint") \
    X(rx_bytes,         E, "payload bytes delivered") \
    X(rx_inline,        E, "messages delivered inside a completion") \
    X(local_frames,     C, "frames that stayed on the card") \
    X(doorbells,        E, "doorbell writes") \
    X(turns,            C, "times the engine ran") \
    X(budget_stops,     C, "times the engine gave up its budget") \
    X(tlb_hits,         E, "translations found in the sets") \
    X(tlb_victim_hits,  E, "translations found among the victims") \
    X(tlb_misses,       E, "translations not found or without the right") \
    X(tlb_inserts,      C, "translations taken from the driver") \
    X(tlb_refused,      C, "translations refused: set and victims busy") \
    X(tlb_evictions,    C, "translations handed back to the driver") \
    X(tlb_invalidated,  C, "translations dropped by an invalidation") \
    X(invalidations,    C, "invalidations asked by the driver") \
    X(inv_waits,        C, "invalidations that waited for a page in flight") \
    X(cache_hits,       E, "table entries found in the entry cache") \
    X(cache_misses,     E, "table entries fetched by DMA") \
    X(faults_send,      E, "misses of memory to be read: sends, READs") \
    X(faults_head,      E, "misses of memory to be written: buffers, WRITEs") \
    X(faults_joined,    C, "misses that joined one already in flight") \
    X(faults_deferred,  E, "answers: not resident") \
    X(faults_error,     E, "answers: never") \
    X(faults_waited,    C, "times that reports had to wait: ring full") \
    X(notifications,    E, "wake-ups written to the notification ring") \
    X(notify_waited,    C, "times that wake-ups had to wait: ring full") \
    X(interrupts,       C, "MSI-X messages sent, TEST_IRQ aside") \
    X(sends_done,       E, "send descriptors completed well") \
    X(sends_failed,     E, "send descriptors completed with an error") \
    X(send_waits,       E, "times a send waited for a translation") \
    X(wire_waits,       C, "times the wire pushed back") \
    X(cq_waits,         E, "times a send waited for its completion queue") \
    X(bufs_skipped,     E, "free buffers returned: not resident in time") \
    X(bufs_failed,      E, "free buffers returned: protection, size, limit") \
    X(drop_no_buffer,   E, "messages dropped: free queue empty") \
    X(drop_asked,       E, "messages dropped: no head translated yet") \
    X(drop_absent,      E, "messages dropped: head not resident") \
    X(drop_too_long,    E, "messages dropped: longer than the buffer") \
    X(drop_cq_full,     E, "messages dropped: completion queue full") \
    X(drop_stopped,     E, "messages dropped: endpoint stopped or closed") \
    X(drop_invalidated, E, "messages dropped: buffer invalidated under them") \
    X(drop_dma,         E, "messages dropped: the bus refused the buffer") \
    X(drop_channel,     E, "frames dropped: not a channel of the endpoint") \
    X(drop_no_endpoint, C, "frames dropped: no such endpoint") \
    X(drop_malformed,   C, "frames dropped: header or length wrong") \
    X(drop_crc,         C, "frames dropped: checksum") \
    X(drop_ethertype,   C, "frames dropped: other EtherType") \
    X(drop_other_mac,   C, "frames dropped: for another station") \
    X(drop_self,        C, "frames dropped: own source address from the wire") \
    X(drop_disabled,    C, "frames dropped: card not enabled") \
    X(drop_local_full,  C, "frames dropped: local queue full") \
    X(drop_link,        C, "frames not sent: no link") \
    X(drop_refused,     C, "frames not sent: refused by the net layer") \
    X(drop_purged,      C, "frames lost in the net layer's queue") \
    X(drop_reset,       C, "frames and transfers ended by a reset") \
    X(inj_loss,         C, "frames lost on request") \
    X(inj_dup,          C, "frames doubled on request") \
    X(inj_reorder,      C, "frames reordered on request") \
    X(inj_corrupt,      C, "frames corrupted on request") \
    X(inj_miss,         C, "misses forced on request") \
    X(inj_evict,        C, "evictions forced on request") \
    X(inj_delay,        C, "frames delayed on request") \
    X(inj_fault_late,   C, "answers to misses that came late on request") \
    X(inj_fault_fail,   C, "answers to misses that failed on request") \
    X(inj_fault_refuse, C, "answers to misses not all taken, on request") \
    X(inj_lie,          C, "completions falsified on request") \
    X(err_register,     C, "illegal register accesses") \
    X(err_doorbell,     C, "doorbells of no endpoint") \
    X(err_command,      C, "commands refused") \
    X(err_descriptor,   E, "descriptors refused") \
    X(err_index,        E, "forged ring indices") \
    X(err_dma,          E, "accesses refused by the bus") \
    X(rel_packets,      E, "packets of reliable channels sent") \
    X(rel_resent,       E, "of these: sent before") \
    X(rel_timeouts,     E, "times that no answer came in time") \
    X(rel_acks_sent,    E, "acknowledgements sent") \
    X(rel_acks,         E, "acknowledgements accepted") \
    X(rel_nacks_sent,   E, "of those sent: not ready") \
    X(rel_nacks,        E, "of those accepted: not ready") \
    X(rel_kept,         E, "packets kept that came before their turn") \
    X(rel_failed,       E, "reliable channels that failed") \
    X(drop_rel_again,   E, "packets dropped: taken or kept before") \
    X(drop_rel_window,  E, "packets dropped: number out of the window") \
    X(drop_rel_room,    E, "packets dropped: early, and no room to keep them") \
    X(drop_rel_refused, E, "packets dropped: not ready for them") \
    X(drop_rel_bad,     E, "packets dropped: not a packet of the message") \
    X(drop_rel_failed,  E, "packets dropped: the channel has failed") \
    X(drop_rel_ack,     E, "acknowledgements dropped: of packets not sent") \
    X(utlb_fetches,     E, "groups of table entries fetched by one DMA read") \
    X(utlb_fetched,     E, "entries taken from those groups") \
    X(utlb_neighbours,  E, "of these: neighbours that were needed later") \
    X(rel_writes,       E, "packets of WRITEs placed") \
    X(rel_reads,        E, "requests of READs taken") \
    X(rel_atomics,      E, "atomics executed") \
    X(rel_answers_sent, E, "answers to requests sent") \
    X(rel_answers,      E, "answers to requests accepted") \
    X(rel_rejects_sent, E, "packets rejected") \
    X(rel_rejects,      E, "one-sided messages that the peer rejected") \
    X(rel_voids,        E, "packets sent in place of rejected ones") \
    X(rel_notifies,     E, "notifications delivered") \
    X(rel_unnotified,   E, "notifications not delivered: not wanted") \
    X(rel_trimmed,      E, "packets of WRITEs placed round later ones") \
    X(drop_rel_early,   E, "packets dropped: early, their memory not ready") \
    X(drop_rel_answer,  E, "answers dropped: not of an open request") \
    X(drop_rel_unplaced, E, "answers dropped: not ready for them") \
    X(drop_rel_rejected, E, "packets dropped: rejected") \
    X(drop_rel_stale,   E, "answers not sent: memory or result gone") \
    X(drop_revoked,     E, "packets dropped: region cleared under them") \
    X(window_stores,    E, "stores in windows of automatic update") \
    X(window_packets,   E, "packets made of them") \
    X(drop_window,      E, "stores dropped: no window, channel or room there") \
    X(proxy_starts,     E, "transfers started by proxy pages") \
    X(proxy_splits,     C, "loads of proxy pages without a store before") \
    X(proxy_refusals,   E, "starts by proxy pages refused, or to be repeated") \
    X(redirects,        C, "parts of regions moved") \
    X(rel_held,         E, "packets not taken: their place is being moved") \
    X(drop_moved,       E, "packets dropped: their place moved under them") \
    X(shadow_hits,      E, "lookups that a shadow table answered") \
    X(shadow_misses,    E, "lookups for which it had no entry, or no right") \
    X(shadow_locks,     E, "entries locked for a page's DMA") \
    X(shadow_raced,     E, "entries gone between lookup and lock") \
    X(err_lock,         E, "locks that somebody else had taken away") \
    X(rel_counts,       E, "increments of event counters") \
    X(counter_arms,     C, "event counters armed") \
    X(counter_wakeups,  C, "of these: told that they have been reached") \
    X(sysbuf_packets,   E, "packets put into the system buffer") \
    X(sysbuf_bytes,     E, "bytes of data in these") \
    X(sysbuf_follow,    E, "of these packets: behind another for their page") \
    X(sysbuf_landed,    E, "of these: copied by the driver") \
    X(sysbuf_failed,    E, "of these: their memory could not be had") \
    X(sysbuf_refused,   E, "packets that could not go there: too many parts") \
    X(credit_waits,     E, "times that a channel was out of credits") \
    X(credit_probes,    E, "times that it asked for more of them") \
    X(drop_rel_credit,  E, "packets dropped: sent without a credit") \
    X(odp_misses,       E, "lookups that an odp table could not answer") \
    X(faults_behind,    E, "misses not reported: one of the kind waits") \
    X(rel_rewinds,      E, "answers without a place that made a rewind") \
    X(drop_rel_rewind,  E, "answers dropped: behind one without a place") \
    X(faults_ahead,     E, "further segments named with a miss") \
    X(changing_waits,   E, "waits for an entry that the driver had in hand") \
    X(eth_tx_frames,    E, "Ethernet frames given by raw endpoints") \
    X(eth_tx_bytes,     E, "bytes of these") \
    X(eth_segmented,    E, "of these: cut into several by the card") \
    X(eth_csums,        E, "of these: checksummed by the card, not cut") \
    X(eth_rx_frames,    E, "Ethernet frames that were of some flow") \
    X(eth_rx_bytes,     E, "bytes of these") \
    X(eth_copies,       C, "of these: further copies of one frame") \
    X(drop_no_flow,     C, "frames dropped: no flow for them") \
    X(drop_runt,        E, "frames dropped: shorter than a header") \
    X(drop_source,      E, "frames not sent: another station's address") \
    X(drop_forged,      E, "frames not sent: the card's own EtherType") \
    X(drop_offload,     E, "frames not sent: no TCP or UDP to cut or sum") \
    X(backup_packets,   E, "packets put into the backup ring") \
    X(backup_bytes,     E, "bytes of these") \
    X(backup_landed,    E, "of these: copied by the driver") \
    X(backup_failed,    E, "of these: their memory could not be had") \
    X(backup_held,      E, "packets landed that had to wait for one of these") \
    X(tail_arms,        E, "slots of free queues armed, not posted then") \
    X(tail_wakeups,     E, "times told that an armed slot had been posted") \
    X(drop_backup_bits, E, "packets dropped: bitmap of the ring used up") \
    X(drop_backup_ring, E, "packets dropped: no buffer in the backup ring") \
    X(drop_backup_size, E, "packets dropped: longer than that buffer") \
    X(drop_backup_report, E, "packets dropped: fault ring full") \
    X(tlb_too_small, E, "transfers ended: more pages than the TLB has room") \
    X(rel_imms,         E, "WRITEs with an immediate that took a buffer") \
    X(rel_bad_keys,     E, "operations by key rejected: no such region, key") \
    X(rel_acks_along,   E, "acknowledgements that went along with a packet") \
    X(rel_acks_late,    E, "acknowledgements that waited in vain") \
    X(drop_rel_pd,      E, "packets rejected: region of another domain") \
    X(drop_rel_denied,  E, "packets rejected: the channel denies the right") \
    X(rel_strict,       E, "sends whose error ended a strict channel") \
    X(drop_rel_init,    E, "packets dropped: the channel takes none yet") \
    X(err_key,          E, "segments and free buffers refused for their key") \
    X(drop_qkey,        E, "messages dropped: not the Q_Key of the channel") \
    X(rel_cuts,         E, "windows that the congestion control made smaller")

#define UNETMM_COUNTER_ENUM_(name, scope, help) UNETMM_C_##name,
enum unetmm_counter {
    UNETMM_COUNTERS(UNETMM_COUNTER_ENUM_)
    UNETMM_NUM_COUNTERS
};

/* ---- Sizes that all sides rely on --------------------------------------- */

static_assert(sizeof(struct unetmm_ep_index) == 128, "index block");
static_assert(offsetof(struct unetmm_ep_index, card) == 64, "card's half");
static_assert(sizeof(struct unetmm_seg) == 16, "segment");
static_assert(sizeof(struct unetmm_sqe) == 64, "send descriptor");
static_assert(offsetof(struct unetmm_sqe, seg) == 32, "segments");
static_assert(sizeof(struct unetmm_fqe) == 32, "free descriptor");
static_assert(sizeof(struct unetmm_cqe) == 64, "completion");
static_assert(offsetof(struct unetmm_cqe, flags) == 60, "phase last");

#endif /* UNETMM_USER_H */
