/* SPDX-License-Identifier: GPL-2.0-or-later OR BSD-2-Clause */
/*
 * unetmm: the contract between the card and everything that talks to it.
 *
 * This one header is included by the card (QEMU), the Linux driver, the user
 * library and the qtests.  docs/specs/unetmm.rst is the prose to it.  All
 * values in memory and in registers are little-endian; all structures are
 * naturally aligned, have no holes and no bit-fields.  A member or bit named
 * "rsvd" must be written as zero and is ignored when read, unless the
 * specification says that the card checks it ("MBZ": the card refuses it).
 */
#ifndef UNETMM_HW_H
#define UNETMM_HW_H

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

/* ---- PCI identity and BARs ---------------------------------------------- */

#define UNETMM_PCI_VENDOR_ID    0x1af4
#define UNETMM_PCI_DEVICE_ID    0x10f0  /* the range for experiments */
#define UNETMM_ETHERTYPE        0x88b5  /* IEEE local experimental 1 */

#define UNETMM_BAR_REGS         0       /* 32-bit memory; MSI-X, too */
#define UNETMM_BAR_PROXY        1       /* 32-bit memory: its loads act */
#define UNETMM_BAR_DOORBELL     2       /* 64-bit memory, prefetchable */

#define UNETMM_BAR_WINDOWS      4       /* 64-bit memory, prefetchable */

#define UNETMM_REGS_BYTES       0x4000
#define UNETMM_MSIX_TABLE       0x4000  /* of BAR 0: a page of its own */
#define UNETMM_MSIX_PBA         0x4800
#define UNETMM_BAR_REGS_BYTES   0x8000

#define UNETMM_PAGE_SHIFT       12      /* the card's translation granule */
#define UNETMM_PAGE_BYTES       4096

/* MSI-X vectors */
#define UNETMM_VEC_EVENT        0       /* EVENTS and command completions */
#define UNETMM_VEC_FAULT        1       /* fault ring */
#define UNETMM_VEC_NOTIFY       2       /* notification ring */
#define UNETMM_VEC_NET          3       /* endpoints with EP_F_VECTOR */
#define UNETMM_NUM_VECTORS      4

/* ---- Registers (BAR0): 32 bits wide, 4-byte accesses only --------------- */

#define UNETMM_REG_ID           0x0000  /* R   UNETMM_ID_VALUE */
#define UNETMM_REG_VERSION      0x0004  /* R   interface version */
#define UNETMM_REG_CAPS         0x0008  /* R   UNETMM_CAP_* */
#define UNETMM_REG_STATUS       0x000c  /* R   UNETMM_STATUS_* */
#define UNETMM_REG_CTRL         0x0010  /* R/W UNETMM_CTRL_* */
#define UNETMM_REG_EVENTS       0x0014  /* R/W1C sticky UNETMM_EVENT_* */
#define UNETMM_REG_EVENT_MASK   0x0018  /* R/W 1 = raises UNETMM_VEC_EVENT */
#define UNETMM_REG_MAC_LO       0x0020  /* R   MAC bytes 0..3, byte 0 lowest */
#define UNETMM_REG_MAC_HI       0x0024  /* R   MAC bytes 4..5 */
#define UNETMM_REG_USER_MTU     0x0028  /* R   payload bytes of a user frame */
#define UNETMM_REG_DB_STRIDE    0x002c  /* R   bytes between doorbell pages */
#define UNETMM_REG_ENDPOINTS    0x0030  /* R   endpoints, endpoint 0 included */
#define UNETMM_REG_SPACES       0x0034  /* R   address spaces, 0 included */
#define UNETMM_REG_CHANNELS     0x0038  /* R   channels per endpoint */
#define UNETMM_REG_MAX_LOG2     0x003c  /* R   largest log2 of any ring */
#define UNETMM_REG_TLB_SETS     0x0040  /* R */
#define UNETMM_REG_TLB_WAYS     0x0044  /* R */
#define UNETMM_REG_TLB_VICTIMS  0x0048  /* R */
#define UNETMM_REG_PRETRANSLATE 0x004c  /* R   most heads an endpoint may ask */
#define UNETMM_REG_MAX_FAULTS   0x0050  /* R   most misses reported at a time */
#define UNETMM_REG_SOURCES      0x0054  /* R   bit n: source n exists */
#define UNETMM_REG_POLICIES     0x0058  /* R   bit n: policy n exists */
#define UNETMM_REG_RELIABLE     0x005c  /* R   reliable channels of the card */
#define UNETMM_REG_REGIONS      0x0060  /* R   exported regions of the card */
#define UNETMM_REG_IMPORTS      0x0064  /* R   imports per endpoint */
#define UNETMM_REG_WINDOW_PAGES 0x0068  /* R   pages of BAR 4; 0: no BAR */
#define UNETMM_REG_PROXY_PAGES  0x006c  /* R   pages of BAR 1; 0: no BAR */
#define UNETMM_REG_PROXY_ABORT  0x0070  /* W   forgets the store of a start */
#define UNETMM_REG_SYSBUF_SLOTS 0x0074  /* R   most slots of a system buffer */
#define UNETMM_REG_CLOCK_LO     0x0078  /* R   the card's clock, ns */
#define UNETMM_REG_CLOCK_HI     0x007c  /* R   not latched: read it twice */

/* Test registers, usable before anything is enabled */
#define UNETMM_REG_TEST         0x0080  /* R/W reads back twice the value */
#define UNETMM_REG_TEST_IRQ     0x0084  /* W   raises the vector written */
#define UNETMM_REG_TEST_DMA_LO  0x0088  /* R/W buffer address */
#define UNETMM_REG_TEST_DMA_HI  0x008c  /* R/W */
#define UNETMM_REG_TEST_DMA_LEN 0x0090  /* R/W bytes, 1..4096 */
#define UNETMM_REG_TEST_DMA_OP  0x0094  /* W   UNETMM_TEST_DMA_* */
#define UNETMM_REG_TEST_DMA_RES 0x0098  /* R   0 or UNETMM_TEST_DMA_FAILED */

#define UNETMM_REG_FLOWS        0x009c  /* R   flows of the card */
#define UNETMM_REG_BACKUP_BITS  0x00a0  /* R   most bits of an endpoint's map */

/* Card rings: one block of registers each */
#define UNETMM_RING_CMD         0       /* driver to card */
#define UNETMM_RING_CMDC        1       /* command completions */
#define UNETMM_RING_FAULT       2       /* misses and evictions */
#define UNETMM_RING_NOTIFY      3       /* wake-ups */
#define UNETMM_RING_BACKUP      4       /* driver to card: pinned buffers */
#define UNETMM_NUM_RINGS        5
/* Does the driver produce what is in it? */
#define UNETMM_RING_TO_CARD(r)  ((r) == UNETMM_RING_CMD || \
                                 (r) == UNETMM_RING_BACKUP)
#define UNETMM_REG_RING(r)      (0x0100 + 0x20 * (r))
#define UNETMM_RING_BASE_LO     0x00    /* R/W while disabled */
#define UNETMM_RING_BASE_HI     0x04    /* R/W while disabled */
#define UNETMM_RING_LOG2        0x08    /* R/W while disabled; ENABLE checks */
#define UNETMM_RING_ENABLE      0x0c    /* R/W 1 = on; off clears PROD, CONS */
#define UNETMM_RING_PROD        0x10    /* R/W on CMD, BACKUP; else R */
#define UNETMM_RING_CONS        0x14    /* R on CMD, BACKUP; else R/W */
#define UNETMM_RING_MODERATE    0x18    /* R/W least ns between interrupts */

/* Synchronous invalidation */
#define UNETMM_REG_INV_SPACE    0x0200  /* R/W */
#define UNETMM_REG_INV_START_LO 0x0204  /* R/W first byte */
#define UNETMM_REG_INV_START_HI 0x0208
#define UNETMM_REG_INV_LAST_LO  0x020c  /* R/W last byte, inclusive */
#define UNETMM_REG_INV_LAST_HI  0x0210
#define UNETMM_REG_INV_CTRL     0x0214  /* W 1 = go; R bit 0 = still busy */
#define UNETMM_INV_BUSY         0x00000001u

/* Counters: 64 bits as a low and a high word; reading LO latches HI */
#define UNETMM_REG_EP_SEL       0x0220  /* R/W endpoint shown at EP_COUNTER */
#define UNETMM_REG_COUNTER(n)   (0x1000 + 8 * (n))
#define UNETMM_REG_EP_COUNTER(n) (0x2000 + 8 * (n))

#define UNETMM_ID_VALUE         0x4d4d4e55u /* "UNMM" */
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

#define UNETMM_STATUS_LINK      0x00000001u
#define UNETMM_STATUS_ENABLED   0x00000002u
#define UNETMM_STATUS_FATAL     0x00000004u /* a card ring failed; reset */

#define UNETMM_CTRL_ENABLE      0x00000001u
#define UNETMM_CTRL_RESET       0x00000002u /* reads 0; resets all but PCI */

#define UNETMM_EVENT_LINK       0x00000001u /* link state changed */
#define UNETMM_EVENT_CMD        0x00000002u /* a command completed */
#define UNETMM_EVENT_FAULT_FULL 0x00000004u /* a fault report had to wait */
#define UNETMM_EVENT_NOTIFY_FULL 0x00000008u /* a notification had to wait */
#define UNETMM_EVENT_FATAL      0x00000010u /* STATUS_FATAL was set */
#define UNETMM_EVENT_EP_ERROR   0x00000020u /* an endpoint was stopped */
#define UNETMM_EVENT_ALL        0x0000003fu

#define UNETMM_TEST_DMA_FILL    1       /* byte i becomes (uint8_t)i */
#define UNETMM_TEST_DMA_INVERT  2       /* every byte is complemented */
#define UNETMM_TEST_DMA_FAILED  0x80000000u

#define UNETMM_MIN_RING_LOG2    1
#define UNETMM_MAX_RING_LOG2    14

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

/* ---- Translation entry -------------------------------------------------- */

/*
 * One 64-bit format for FAULT_REPLY lists and for the tables in host memory
 * (sources pinned, ktlb, utlb, shadow and odp).  A table is a radix
 * tree: the root and each further table are one 4096-byte page of 512 entries,
 * `levels` deep (1..6); a directory entry has VALID and the next one's address.
 * Level 0 is indexed by address bits 12..20.  The sixth level uses 7 bits only.
 */
#define UNETMM_PTE_VALID        0x0000000000000001ull
#define UNETMM_PTE_READ         0x0000000000000002ull
#define UNETMM_PTE_WRITE        0x0000000000000004ull
#define UNETMM_PTE_ADDR         0xfffffffffffff000ull
/*
 * In a table of source shadow, where both sides change an entry of level 0, by
 * compare-and-swap alone; elsewhere 0.  The card may use the page's address
 * only while it has added PTE_LOCK to an entry that was VALID; it sets DIRTY
 * with that if it is to write.  A driver that clears VALID leaves LOCKS alone
 * and waits until it is 0.
 */
#define UNETMM_PTE_DIRTY        0x0000000000000008ull
#define UNETMM_PTE_LOCKS        0x0000000000000ff0ull /* DMAs under way */
#define UNETMM_PTE_LOCK         0x0000000000000010ull /* one of them */
/*
 * All of an entry of level 0 in a table of source pinned or utlb: the driver is
 * finding out where the page is now.  A transfer that needs the entry waits
 * until the driver has invalidated it once more, and reads it again.
 */
#define UNETMM_PTE_CHANGING     0x0000000000000008ull
#define UNETMM_TABLE_BITS       9
#define UNETMM_TABLE_ENTRIES    512
#define UNETMM_TABLE_LEVELS     6

/* ---- Sources and policies ----------------------------------------------- */

#define UNETMM_SOURCE_DIRECT    0       /* space 0: address = DMA address */
#define UNETMM_SOURCE_PINNED    1       /* table in host memory; miss = error */
#define UNETMM_SOURCE_TLB       2       /* card TLB; miss goes to the driver */
#define UNETMM_SOURCE_KTLB      3       /* driver's rings and page lists */
#define UNETMM_SOURCE_UTLB      4       /* table of pinned pages */
#define UNETMM_SOURCE_SHADOW    5       /* table of resident pages */
#define UNETMM_SOURCE_ODP       6       /* table filled by faults */

#define UNETMM_POLICY_DROP      0
#define UNETMM_POLICY_SKIP      1
#define UNETMM_POLICY_REDIRECT  2       /* reliable channels only */
#define UNETMM_POLICY_RNR       3       /* reliable channels only */
#define UNETMM_POLICY_BACKUP    4       /* raw endpoints and datagrams */

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
    unetmm_le32 rsvd;           /* MBZ */
};

#define UNETMM_SQE_SEGS         2
#define UNETMM_SQE_INLINE       32
#define UNETMM_SLOT_BYTES       64
#define UNETMM_SLOT_SEGS        4
#define UNETMM_MAX_SEGS         16
#define UNETMM_MAX_INLINE       224
#define UNETMM_MAX_SLOTS        5       /* longest descriptor, in slots */

struct unetmm_sqe {
    unetmm_u8 opcode;           /* UNETMM_OP_* */
    unetmm_u8 flags;            /* UNETMM_SQE_* */
    unetmm_u8 nsegs;            /* 0..UNETMM_MAX_SEGS; 0 with INLINE */
    unetmm_u8 inline_len;       /* 0..UNETMM_MAX_INLINE; 0 without INLINE */
    unetmm_le16 channel;        /* local channel number; 0 for CONTROL */
    unetmm_le16 region;         /* KEYED: the peer's region; else MBZ */
    unetmm_le64 cookie;         /* returned in the completion */
    unetmm_le32 imm;            /* NOTIFY, IMM: for the peer; COUNT; or MBZ */
    unetmm_le32 handle;         /* one-sided: import or key; else MBZ */
    unetmm_le64 remote;         /* one-sided: offset; CONTROL: MAC; else MBZ */
    union {
        struct unetmm_seg seg[UNETMM_SQE_SEGS];
        unetmm_u8 data[UNETMM_SQE_INLINE];
    };
};

#define UNETMM_OP_SEND          1       /* datagram or message on a channel */
#define UNETMM_OP_CONTROL       2       /* endpoint 0 only */
/*
 * One-sided, on reliable channels: on the memory behind an import.  An atomic
 * has its operands inline (FETCH_ADD: the addend; CMP_SWAP: the expected
 * value, then the new one; 8 bytes each) and an offset that makes the address
 * a multiple of 8; the completion has the old value inline.
 */
#define UNETMM_OP_WRITE         3       /* from the segments, or inline */
#define UNETMM_OP_READ          4       /* into the segments */
#define UNETMM_OP_FETCH_ADD     5
#define UNETMM_OP_CMP_SWAP      6
#define UNETMM_OP_FENCE         7       /* completes behind all before it */
/*
 * Of raw endpoints, which have no other: a whole Ethernet frame without its
 * checksum, `imm` selects offloads (UNETMM_TX_*).
 */
#define UNETMM_OP_FRAME         8

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
#define UNETMM_SQE_F_ALL        0x3f

/* Free queue: one buffer an entry, or a part of one (UNETMM_FQE_F_CHAIN) */
struct unetmm_fqe {
    unetmm_le64 addr;
    unetmm_le32 len;            /* 1..the TLB's reach */
    unetmm_le32 flags;          /* UNETMM_FQE_F_* */
    unetmm_le64 cookie;
    unetmm_le64 rsvd;           /* MBZ */
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
        unetmm_le64 source;     /* CONTROL: sender's MAC, byte 0 lowest */
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

#define UNETMM_ST_OK            0
#define UNETMM_ST_PROTECTION    1       /* no right to use the address so */
#define UNETMM_ST_BAD_DESC      2       /* malformed descriptor */
#define UNETMM_ST_BAD_CHANNEL   3       /* no such channel of this endpoint */
#define UNETMM_ST_TOO_LONG      4       /* longer than the channel's MTU */
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

/* ---- Commands ----------------------------------------------------------- */

#define UNETMM_CMD_NOP          0
#define UNETMM_CMD_SPACE_CREATE 1
#define UNETMM_CMD_SPACE_DESTROY 2      /* endpoints, regions must be gone */
#define UNETMM_CMD_EP_CREATE    3
#define UNETMM_CMD_EP_DESTROY   4       /* completes when its DMA has ended */
#define UNETMM_CMD_CHANNEL_SET  5
#define UNETMM_CMD_CHANNEL_CLEAR 6
#define UNETMM_CMD_FAULT_REPLY  7
#define UNETMM_CMD_REGION_SET   8
#define UNETMM_CMD_REGION_CLEAR 9       /* completes when its DMA has ended */
#define UNETMM_CMD_IMPORT_SET   10
#define UNETMM_CMD_IMPORT_CLEAR 11
#define UNETMM_CMD_WINDOW_SET   12
#define UNETMM_CMD_WINDOW_CLEAR 13
#define UNETMM_CMD_PROXY_SET    14
#define UNETMM_CMD_PROXY_CLEAR  15
#define UNETMM_CMD_REGION_REDIRECT 16   /* completes when its DMA has ended */
#define UNETMM_CMD_COUNTERS_SET 17
#define UNETMM_CMD_COUNTER_ARM  18
#define UNETMM_CMD_SYSBUF_SET   19
#define UNETMM_CMD_SYSBUF_DONE  20
#define UNETMM_CMD_FLOW_SET     21
#define UNETMM_CMD_FLOW_CLEAR   22
#define UNETMM_CMD_BACKUP_DONE  23
#define UNETMM_CMD_TAIL_ARM     24
#define UNETMM_CMD_INVALIDATE   25      /* as INV_CTRL */
#define UNETMM_NUM_CMD          26

struct unetmm_cmd_space {
    unetmm_u8 source;           /* UNETMM_SOURCE_* */
    unetmm_u8 levels;           /* of the table; 0 for sources without */
    unetmm_u8 rsvd[6];
    unetmm_le64 table;          /* DMA address of the root page, or 0 */
};

struct unetmm_cmd_ep {
    unetmm_le64 sq_base;        /* 64-byte aligned */
    unetmm_le64 fq_base;
    unetmm_le64 cq_base;
    unetmm_le64 index;          /* 128-byte aligned */
    unetmm_u8 sq_log2;          /* slots */
    unetmm_u8 fq_log2;
    unetmm_u8 cq_log2;
    unetmm_u8 policy;           /* UNETMM_POLICY_* */
    unetmm_u8 pretranslate;     /* heads; 0 = the card's most; RAW: 0 */
    unetmm_u8 flags;            /* UNETMM_EP_F_* */
    unetmm_le16 backup;         /* policy backup: bits 1..BACKUP_BITS; else 0 */
    unetmm_le64 posts;          /* ktlb: the driver's index block; else 0 */
};

/*
 * Ethernet frames as they are, by flows, and no channels.  In any space.
 */
#define UNETMM_EP_F_RAW         0x01
/* VEC_NET is raised in place of NOTIFY_CQ and _EP_ERROR.  Space 0 alone. */
#define UNETMM_EP_F_VECTOR      0x02
/* Each message takes a free buffer, however short; not with RAW. */
#define UNETMM_EP_F_NO_INLINE   0x04
#define UNETMM_EP_F_ALL         0x07

struct unetmm_cmd_channel {
    unetmm_le16 channel;
    unetmm_le16 peer_ep;
    unetmm_le16 peer_channel;   /* put in frames as a hint, checked there */
    unetmm_u8 type;             /* UNETMM_CHANNEL_* */
    unetmm_u8 retries;          /* timeouts in a row; 0 = 12 */
    unetmm_le32 mtu;            /* payload bytes of a frame */
    unetmm_u8 peer_mac[6];
    unetmm_u8 not_ready_retries; /* in a row; 0 = without limit */
    unetmm_u8 flags;            /* UNETMM_CHANNEL_F_* */
    unetmm_le32 timeout_us;     /* first wait for an answer; 0 = 4000 */
    unetmm_le32 send_psn;       /* of the first packet sent ... */
    unetmm_le32 recv_psn;       /* ... and of the first one expected */
    unetmm_le32 send_credits;   /* the peer's, at first; 0 = without limit */
    unetmm_le32 recv_credits;   /* with policy redirect 1..64; else 0 */
    unetmm_le32 not_ready_us;   /* delay in its RNR NACKs; 0 = 100 */
};

#define UNETMM_CHANNEL_DATAGRAM 0       /* all but channel, peer, mtu: unused */
#define UNETMM_CHANNEL_RELIABLE 1

/* SET: CQE_CLOSED when the peer ends it, or it fails.  CLEAR: the peer did. */
#define UNETMM_CHANNEL_F_TELL   0x01
/*
 * SET, reliable: behind an answer that has no place all others are dropped, and
 * asked for again with it.  Else only those that have none themselves.
 */
#define UNETMM_CHANNEL_F_REWIND 0x02
/*
 * SET, reliable: a refused sender waits as long as it was told, no longer, and
 * is not told that the page is there: RNR NACKs as in NPF's paper.
 */
#define UNETMM_CHANNEL_F_PLAIN_RNR 0x04
/*
 * SET, reliable: the peer's card takes packets by key, packets with an
 * immediate, packets with an acknowledgement, and (with F_ACK) WRITEs with one.
 * Descriptors that would make others are refused (PEER_LACKS); acknowledgements
 * are frames of their own.
 */
#define UNETMM_CHANNEL_F_KEYED  0x08
#define UNETMM_CHANNEL_F_IMM    0x10
#define UNETMM_CHANNEL_F_ACK    0x20
#define UNETMM_CHANNEL_F_ACK_WRITE 0x40
#define UNETMM_CHANNEL_F_PEER   0x78
#define UNETMM_CHANNEL_F_ALL    0x7f

#define UNETMM_REL_RETRIES      12
#define UNETMM_REL_TIMEOUT_US   4000
#define UNETMM_REL_MAX_TIMEOUT_US 1000000
#define UNETMM_REL_NOT_READY_US 100
#define UNETMM_MAX_MESSAGE      (4u << 20)  /* of a reliable channel */

/*
 * The answer to a miss, or a translation given unasked (fault_id NONE).
 * RESOLVED: `npages` entries at `list` are inserted for consecutive pages from
 * vaddr; the completion's result says how many were taken, and the driver
 * unpins those not taken.  The card asks again for pages it still needs.
 * Pages of one reply never push each other out.
 */
struct unetmm_cmd_reply {
    unetmm_le32 fault_id;       /* of the record, or UNETMM_FAULT_NONE */
    unetmm_u8 status;           /* UNETMM_REPLY_* */
    unetmm_u8 error;            /* ERROR: the UNETMM_ST_* to complete with */
    unetmm_le16 npages;         /* 0..512 */
    unetmm_le64 vaddr;          /* page aligned */
    unetmm_le64 list;           /* DMA address of npages translation entries */
    unetmm_le32 tag;            /* given back when an entry is evicted */
    unetmm_le32 rsvd;
};

#define UNETMM_FAULT_NONE       0xffffffffu
#define UNETMM_REPLY_RESOLVED   0
#define UNETMM_REPLY_DEFERRED   1       /* being paged in; RESOLVED follows */
#define UNETMM_REPLY_ERROR      2       /* will never be there */
#define UNETMM_REPLY_RETRY      3       /* ask again */
#define UNETMM_REPLY_MAX_PAGES  512
#define UNETMM_MISS_MAX_PAGES  1025    /* of one of source odp: a message */
#define UNETMM_MAX_BUF_PAGES    1024    /* of a free buffer */

#define UNETMM_RIGHT_WRITE      0x01
#define UNETMM_RIGHT_READ       0x02
#define UNETMM_RIGHT_ATOMIC     0x04
#define UNETMM_RIGHT_ALL        0x07

/*
 * Memory of a space that peers of its endpoints may use, once they know the
 * number and the key.  REGION_CLEAR: after its completion nothing is written or
 * read through it any more, whatever is still under way.
 */
struct unetmm_cmd_region {
    unetmm_le32 region;         /* its number on the card */
    unetmm_le32 key;            /* chosen by the driver, hard to guess */
    unetmm_le64 addr;           /* in the space */
    unetmm_le64 length;         /* 1.. */
    unetmm_le64 cookie;         /* of the notifications */
    unetmm_u8 rights;           /* UNETMM_RIGHT_* */
    unetmm_u8 flags;            /* UNETMM_REGION_F_* */
    unetmm_le16 counter;        /* the first event counter that WRITEs ... */
    unetmm_le16 ncounters;      /* ... may name, and how many; 0: none */
    unetmm_u8 rsvd[2];
};

#define UNETMM_REGION_F_NOTIFY  0x01    /* writes that ask for it notify */
#define UNETMM_REGION_F_REDIRECT 0x02   /* parts of it may be moved */
#define UNETMM_REGION_F_KEYED   0x04    /* peers with its key need no import */
#define UNETMM_REGION_F_ALL     0x07

/*
 * Moves a part of a region to another place of the space, or back.  BEGIN: the
 * ranges of the part that were written since the last list go to `list`, in
 * order; the result is their number.  0: the part has moved.  Else it is
 * held: no packet finds it ready until GO, and the driver copies the listed
 * ranges meanwhile; the rest was never written, or is listed all the same.
 * END: packets from now on are for the old place again; before GO: as if BEGIN
 * had never been.  BACK: the part is held until END (or GO), and the ranges
 * from `length` on that were copied to the new place or written there are
 * listed, to be copied to the old one, as if they had been written there.
 */
struct unetmm_cmd_redirect {
    unetmm_le32 region;         /* one with F_REDIRECT */
    unetmm_u8 what;             /* UNETMM_REDIRECT_* */
    unetmm_u8 rsvd[3];
    unetmm_le64 offset;         /* first byte, by which it is known later */
    unetmm_le64 length;         /* BEGIN: of the part; BACK: see above */
    unetmm_le64 to;             /* BEGIN: in the space */
    unetmm_le64 list;           /* BEGIN, BACK: DMA address, a multiple of 8 */
};

#define UNETMM_REDIRECT_BEGIN   1
#define UNETMM_REDIRECT_GO      2
#define UNETMM_REDIRECT_BACK    3
#define UNETMM_REDIRECT_END     4

#define UNETMM_REDIRECTS        4       /* of a region at a time */
#define UNETMM_REDIRECT_LANDED  8       /* entries of a list, at most */

/* Bytes of a region that have landed. */
struct unetmm_landed {
    unetmm_le64 offset;
    unetmm_le64 length;
};

/*
 * An endpoint's right to a peer's memory, through one of its reliable
 * channels.  It is no more when the channel is cleared or set anew.
 * Descriptors already taken from the send queue go on without it.
 */
struct unetmm_cmd_import {
    unetmm_le32 import;         /* its number in the endpoint */
    unetmm_le32 region;         /* number and key as the peer's driver said */
    unetmm_le32 key;
    unetmm_le16 channel;
    unetmm_u8 rights;
    unetmm_u8 rsvd;
    unetmm_le64 length;
};

/*
 * Pages of the windows' BAR whose stores go to an import, too (automatic
 * update).  Stores of one page to addresses that follow each other make one
 * packet, of at most combine_bytes, which goes when it is full, when another
 * store does not follow, when combine_ns have passed since its first, or when
 * something else is posted on the channel; 0 bytes: each store is a packet.
 * An import has one window at most.
 */
struct unetmm_cmd_window {
    unetmm_le32 page;           /* the first, of BAR 4 */
    unetmm_le32 npages;         /* 1.. */
    unetmm_le64 offset;         /* in the import, of the first byte */
    unetmm_le32 combine_ns;     /* 0 with 0 bytes; else 1..1000000000 */
    unetmm_le16 combine_bytes;  /* 0..UNETMM_MAX_INLINE */
    unetmm_le16 import;
    unetmm_u8 rsvd[4];          /* MBZ */
};

/*
 * Proxy pages (user-level DMA start): a store of a length to a page of an
 * import, then a load from a page of the process's memory, by the same
 * endpoint's pages, post a WRITE from one place to the other.  The load
 * returns the outcome, UNETMM_START_*.
 */
struct unetmm_cmd_proxy {
    unetmm_le32 page;           /* the first; 0 is the first behind ENDPOINTS */
    unetmm_le32 npages;         /* 1.. */
    unetmm_le64 at;             /* offset in the import, or virtual address */
    unetmm_le16 import;         /* TO */
    unetmm_u8 kind;             /* UNETMM_PROXY_* */
    unetmm_u8 rsvd[5];          /* MBZ */
};

#define UNETMM_PROXY_TO         1       /* an import */
#define UNETMM_PROXY_FROM       2       /* the process's memory */

/*
 * A space's event counters: a page of 64-bit words that only the card changes,
 * each the number of WRITEs that have named it, modulo 2^64.  The driver zeroes
 * the page before, and it stays until the space is destroyed.
 */
struct unetmm_cmd_counters {
    unetmm_le64 page;           /* DMA address, page aligned */
};

#define UNETMM_EVENT_COUNTERS   512     /* of a space */

/*
 * One NOTIFY_COUNTER as soon as the counter has reached `value`.  The result is
 * 1 if it has already: then none is to come.  A counter has reached each value
 * up to 2^63 - 1 behind it, modulo 2^64.
 */
struct unetmm_cmd_arm {
    unetmm_le64 value;
    unetmm_le16 counter;
    unetmm_u8 arm;              /* 1; 0: disarm */
    unetmm_u8 rsvd[5];          /* MBZ */
};

/*
 * The system buffer (policy redirect): slots, into which a packet goes whose
 * memory is absent.  Each channel of an endpoint with that policy has
 * `recv_credits` of them for itself, and its peer never has more packets on
 * their way than these: so there always is one.  SET: `slots` addresses at
 * `list` replace the earlier ones; 0 takes them back.  BUSY: a channel has
 * some, or one has not been answered.
 */
struct unetmm_cmd_sysbuf {
    unetmm_le64 list;           /* DMA address, a multiple of 8 */
    unetmm_le32 slots;          /* 0..SYSBUF_SLOTS */
    unetmm_le32 slot_bytes;     /* UNETMM_SLOT_HEAD + USER_MTU, or more */
};

/*
 * The card writes this header at the beginning of a slot: the destination of
 * the data, which is UNETMM_SLOT_HEAD bytes behind it.  It is written before
 * FAULT_SLOT.
 */
#define UNETMM_SLOT_HEAD        256
#define UNETMM_SLOT_PIECES      8

struct unetmm_piece {
    unetmm_le64 addr;           /* in the space; the range does not wrap */
    unetmm_le32 len;            /* 1.. */
    unetmm_le32 from;           /* in the data */
};

struct unetmm_slot {
    unetmm_le16 space;
    unetmm_le16 ep;
    unetmm_le16 channel;
    unetmm_u8 opcode;           /* UNETMM_OP_SEND or UNETMM_OP_WRITE */
    unetmm_u8 npieces;          /* 1..UNETMM_SLOT_PIECES */
    unetmm_le32 region;         /* WRITE; else 0 */
    unetmm_le32 len;            /* bytes of data */
    unetmm_le64 time_ns;        /* when it was written, the card's clock */
    struct unetmm_piece piece[UNETMM_SLOT_PIECES];
};

/*
 * The answer to a FAULT_SLOT: the outcome for the data.  The slot is the
 * card's again.  Slots of one endpoint that have the same byte are answered in
 * the order in which they were reported.
 */
struct unetmm_cmd_slot {
    unetmm_le32 slot;
    unetmm_u8 status;           /* UNETMM_SLOT_* */
    unetmm_u8 rsvd[3];          /* MBZ */
};

#define UNETMM_SLOT_LANDED      0       /* copied, and visible */
#define UNETMM_SLOT_FAILED      1       /* its memory cannot be had */
#define UNETMM_SLOT_GONE        2       /* its region or endpoint is no more */

/*
 * Which frames are a raw endpoint's.  One that comes from the wire, or from
 * another endpoint of this card, goes to the first of these that there is: the
 * UDP or TCP flow of its destination port (not of fragments) with its
 * destination address; the ETHERTYPE flow with its destination address; the
 * MAC flow; if it is for nobody, all ANY flows.  One to a group address goes
 * to each endpoint that has a MAC flow of that address, a GROUP flow, or (to
 * all stations) a flow with F_BROADCAST.  Frames of the card's own EtherType
 * are never any flow's.  No two flows are equal in kind, value and address; of
 * GROUP, ANY, and MAC of a group address: and in endpoint.
 */
struct unetmm_cmd_flow {
    unetmm_le32 flow;           /* its number on the card */
    unetmm_u8 kind;             /* UNETMM_FLOW_* */
    unetmm_u8 flags;            /* UNETMM_FLOW_F_* */
    unetmm_le16 value;          /* ETHERTYPE, UDP, TCP: which; else 0 */
    unetmm_u8 mac[6];           /* destination; GROUP, ANY: 0 */
    unetmm_u8 rsvd[2];          /* MBZ */
};

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

/*
 * A buffer of the backup ring: memory that stays, for packets whose own is
 * absent.  The card takes them in order; FAULT_BACKUP names the packet in
 * each.
 */
struct unetmm_backup {
    unetmm_le64 addr;           /* DMA address */
    unetmm_le32 len;            /* 64.. */
    unetmm_le32 rsvd;           /* MBZ */
};

/*
 * The answer to a FAULT_BACKUP: the packet has been copied to the buffer that
 * its slot of the free queue names, or (status) never will be.  The slot must
 * have been posted.  Its completion is written when those of all slots before
 * it are.
 */
struct unetmm_cmd_backup {
    unetmm_le32 slot;           /* of the record ... */
    unetmm_le32 bit;            /* ... and this one */
    unetmm_u8 status;           /* UNETMM_ST_*; not OK: CQE_BUFFER */
    unetmm_u8 rsvd[7];          /* MBZ */
    unetmm_le64 cookie;         /* the slot's, for the completion */
};

/*
 * One NOTIFY_TAIL as soon as slot `slot` of the free queue has been posted.
 * The result is 1 if it has been: then none is to come.
 */
struct unetmm_cmd_tail {
    unetmm_le32 slot;
    unetmm_u8 arm;              /* 1; 0: disarm */
    unetmm_u8 rsvd[3];          /* MBZ */
};

/* 0 is not among them: memory that is not the card's any more reads so. */
#define UNETMM_START_SPLIT      1       /* no store before it: do both again */
#define UNETMM_START_BUSY       2       /* the channel is full: do both again */
#define UNETMM_START_REFUSED    3       /* length, channel or import wrong */
#define UNETMM_START_DONE       4       /* posted */

struct unetmm_cmd_inv {
    unetmm_le64 start;          /* first byte */
    unetmm_le64 last;           /* last byte, inclusive */
};

struct unetmm_cmd {
    unetmm_u8 opcode;
    unetmm_u8 rsvd;
    unetmm_le16 tag;            /* echoed in the completion */
    unetmm_le16 space;
    unetmm_le16 ep;
    union {
        struct unetmm_cmd_space space_create;
        struct unetmm_cmd_ep ep_create;
        struct unetmm_cmd_channel channel;
        struct unetmm_cmd_reply reply;
        struct unetmm_cmd_region region;
        struct unetmm_cmd_import import;
        struct unetmm_cmd_window window;
        struct unetmm_cmd_proxy proxy;
        struct unetmm_cmd_redirect redirect;
        struct unetmm_cmd_counters counters;
        struct unetmm_cmd_arm arm;
        struct unetmm_cmd_sysbuf sysbuf;
        struct unetmm_cmd_slot slot;
        struct unetmm_cmd_flow flow;
        struct unetmm_cmd_backup backup;
        struct unetmm_cmd_tail tail;
        struct unetmm_cmd_inv inv;
        unetmm_u8 raw[56];
    };
};

struct unetmm_cmd_done {
    unetmm_le16 tag;
    unetmm_u8 opcode;
    unetmm_u8 status;           /* UNETMM_CS_* */
    unetmm_le32 result;         /* of some commands */
    unetmm_le32 rsvd;
    unetmm_le32 flags;          /* UNETMM_PHASE */
};

#define UNETMM_CS_OK            0
#define UNETMM_CS_BAD_OPCODE    1
#define UNETMM_CS_BAD_ARG       2       /* a field is out of range */
#define UNETMM_CS_BAD_ID        3       /* no such space, endpoint, channel */
#define UNETMM_CS_EXISTS        4       /* the id is in use */
#define UNETMM_CS_BUSY          5       /* it is in use */
#define UNETMM_CS_DMA           6       /* the bus refused an access */
#define UNETMM_CS_PARTIAL       7       /* FAULT_REPLY: not all pages taken */
#define UNETMM_CS_STALE         8       /* FAULT_REPLY: no such miss waits */
#define UNETMM_CS_FULL          9       /* none of them is left */

/* ---- Fault ring --------------------------------------------------------- */

struct unetmm_fault {
    unetmm_u8 type;             /* UNETMM_FAULT_* */
    unetmm_u8 flags;            /* UNETMM_FAULT_F_* */
    unetmm_le16 space;
    unetmm_le16 ep;             /* MISS: the first that waits */
    unetmm_le16 rsvd0;
    unetmm_le32 fault_id;       /* for FAULT_REPLY; SLOT, BACKUP: number */
    unetmm_le32 npages;         /* consecutive, 1..1025; BACKUP: its bytes */
    unetmm_le64 vaddr;          /* page aligned; BACKUP: slot */
    unetmm_le64 pte;            /* EVICT: the entry that was given */
    unetmm_le32 tag;            /* EVICT: the tag that was given; BACKUP: bit */
    unetmm_le32 rsvd1;
    unetmm_le64 time_ns;        /* when the card wrote it, its own clock */
    unetmm_le64 found_ns;       /* MISS: when it was found */
    unetmm_u8 rsvd2[4];
    unetmm_le32 phase;          /* UNETMM_PHASE */
};

#define UNETMM_FAULT_MISS       1
#define UNETMM_FAULT_EVICT      2
#define UNETMM_FAULT_SLOT       3       /* of the system buffer, to be copied */
/*
 * Source odp: a further segment that the work request of the next MISS is
 * going to need.  It is not answered.
 */
#define UNETMM_FAULT_AHEAD      4
/*
 * A packet is in the backup ring: its slot's memory is absent, or the slot (its
 * free-running index in the endpoint's free queue) is not posted yet.
 */
#define UNETMM_FAULT_BACKUP     5

#define UNETMM_FAULT_F_WRITE    0x01    /* MISS: the right to write is wanted */
#define UNETMM_FAULT_F_HEAD     0x02    /* MISS: a free buffer, not a send */
#define UNETMM_FAULT_F_DIRTY    0x04    /* EVICT: data was written through it */
#define UNETMM_FAULT_F_ZERO     0x08    /* MISS: old contents may be dropped */

/*
 * The number of a miss, in the lower half of its fault_id.  Of two misses that
 * are not over, each has its own: an endpoint has EP_MISSES of them, a reliable
 * channel REL_MISSES, and all are below the sum for ENDPOINTS and RELIABLE.
 */
#define UNETMM_FAULT_NUMBER     0xffff
#define UNETMM_EP_MISSES        17      /* its send, its heads */
#define UNETMM_REL_MISSES       3

/* ---- Notification ring -------------------------------------------------- */

struct unetmm_notify {
    unetmm_u8 type;             /* UNETMM_NOTIFY_* */
    unetmm_u8 rsvd0;
    unetmm_le16 ep;             /* COUNTER: the space */
    unetmm_le32 data;           /* completions written so far; the counter */
    unetmm_le64 value;          /* COUNTER: its armed value */
    unetmm_le64 time_ns;
    unetmm_le32 rsvd2;
    unetmm_le32 phase;          /* UNETMM_PHASE */
};

#define UNETMM_NOTIFY_CQ        1       /* an armed completion queue */
#define UNETMM_NOTIFY_EP_ERROR  2       /* the endpoint was stopped */
#define UNETMM_NOTIFY_COUNTER   3       /* an armed event counter */
#define UNETMM_NOTIFY_TAIL      4       /* an armed slot has been posted */

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
    X(faults_send,      E, "misses reported for a send") \
    X(faults_head,      E, "misses reported for free buffers") \
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
    X(rel_acks_late,    E, "acknowledgements that waited in vain for a packet")

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
static_assert(sizeof(struct unetmm_cmd) == 64, "command");
static_assert(sizeof(struct unetmm_landed) == 16, "list of a redirect");
static_assert(sizeof(struct unetmm_piece) == 16, "piece of a slot");
static_assert(sizeof(struct unetmm_slot) == 152, "head of a slot");
static_assert(sizeof(struct unetmm_slot) <= UNETMM_SLOT_HEAD, "slot");
static_assert(sizeof(struct unetmm_backup) == 16, "backup buffer");
static_assert(sizeof(struct unetmm_cmd_done) == 16, "command completion");
static_assert(offsetof(struct unetmm_cmd_done, flags) == 12, "phase last");
static_assert(sizeof(struct unetmm_fault) == 64, "fault record");
static_assert(offsetof(struct unetmm_fault, phase) == 60, "phase last");
static_assert(sizeof(struct unetmm_notify) == 32, "notification");
static_assert(offsetof(struct unetmm_notify, phase) == 28, "phase last");
static_assert(UNETMM_NUM_COUNTERS * 8 <= 0x1000, "counter window");

#endif /* UNETMM_HW_H */
