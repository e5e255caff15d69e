/* SPDX-License-Identifier: GPL-2.0-or-later OR BSD-2-Clause */
/*
 * unetmm: the contract between the card and everything that talks to it.
 *
 * The card (QEMU), the Linux driver and the qtests include this header, and by
 * it unetmm_user.h, which has the part for processes and the rules for all
 * members.  docs/specs/unetmm.rst is the prose to both.
 */
#ifndef UNETMM_HW_H
#define UNETMM_HW_H

#include "unetmm_user.h"

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
#define UNETMM_CMD_CHANNEL_MODIFY 26
#define UNETMM_CMD_LOW_ARM      27
#define UNETMM_NUM_CMD          28

/*
 * Each set of arguments has all bytes of its place, so that an initializer of
 * one defines all of them: the rest of a union's member is unspecified in C.
 */
#define UNETMM_CMD_BYTES        56

struct unetmm_cmd_space {
    unetmm_u8 source;           /* UNETMM_SOURCE_* */
    unetmm_u8 levels;           /* of the table; 0 for sources without */
    unetmm_u8 rsvd[6];
    unetmm_le64 table;          /* DMA address of the root page, or 0 */
    unetmm_u8 spare[UNETMM_CMD_BYTES - 16];
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
    unetmm_le32 pd;             /* peers may use regions of it, and of none */
    unetmm_le16 fq_of;          /* EP_F_SHARED; 0: its own free queue */
    unetmm_u8 spare[UNETMM_CMD_BYTES - 54];
};

/*
 * Ethernet frames as they are, by flows, and no channels.  In any space.
 */
#define UNETMM_EP_F_RAW         0x01
/* VEC_NET is raised in place of NOTIFY_CQ and _EP_ERROR.  Space 0 alone. */
#define UNETMM_EP_F_VECTOR      0x02
/* Each message takes a free buffer, however short; not with RAW. */
#define UNETMM_EP_F_NO_INLINE   0x04
/*
 * Segments and free buffers have the key of a region with REGION_F_LKEY of the
 * endpoint's space, whose number is the key's upper 24 bits, and addresses as
 * its peers name them.  Not with RAW, policy backup, `posts`, in space 0.
 */
#define UNETMM_EP_F_KEYS        0x08
/*
 * The free queue is for endpoints of the same space that name this endpoint in
 * `fq_of`; it has no channels.  EP_DESTROY is BUSY while there are such users.
 * A buffer that cannot be used comes back to the endpoint whose message takes
 * it.  Neither the flag nor `fq_of` with RAW, policy backup, `posts`, or for
 * endpoint 0.
 */
#define UNETMM_EP_F_SHARED      0x10
#define UNETMM_EP_F_ALL         0x1f

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
    unetmm_u8 denied;           /* RIGHT_* refused, whatever regions allow */
    unetmm_u8 state;            /* UNETMM_CHANNEL_RTS, _RTR, _INIT */
    unetmm_u8 rsvd[2];
    unetmm_le32 qkey;           /* UD: of messages that it takes */
    unetmm_u8 spare[UNETMM_CMD_BYTES - 52];
};

/*
 * States of a reliable channel.  MODIFY goes from a later one of these to an
 * earlier one; descriptors are taken in each, and wait.
 */
#define UNETMM_CHANNEL_RTS      0       /* receives and sends */
#define UNETMM_CHANNEL_RTR      1       /* receives, acknowledges and answers */
#define UNETMM_CHANNEL_INIT     2       /* drops all packets */

/* Changes a reliable channel, which keeps its packets and descriptors. */
struct unetmm_cmd_modify {
    unetmm_le16 channel;
    unetmm_le16 members;        /* that count: UNETMM_MODIFY_* */
    unetmm_u8 state;
    unetmm_u8 retries;          /* timeouts in a row, 0..7; 0 = none */
    unetmm_u8 not_ready_retries; /* 0..7; 0 = none, 7 = without limit */
    unetmm_u8 denied;
    unetmm_le32 timeout_us;     /* not 0, as the next one */
    unetmm_le32 not_ready_us;
    unetmm_le32 send_psn;       /* 24 bits; not in RTS */
    unetmm_le32 recv_psn;       /* 24 bits; in INIT alone */
    unetmm_u8 spare[UNETMM_CMD_BYTES - 24];
};

#define UNETMM_MODIFY_STATE     0x01
#define UNETMM_MODIFY_RETRIES   0x02
#define UNETMM_MODIFY_NOT_READY_RETRIES 0x04
#define UNETMM_MODIFY_DENIED    0x08
#define UNETMM_MODIFY_TIMEOUT   0x10
#define UNETMM_MODIFY_NOT_READY 0x20
#define UNETMM_MODIFY_SEND_PSN  0x40
#define UNETMM_MODIFY_RECV_PSN  0x80
#define UNETMM_MODIFY_ALL       0xff

#define UNETMM_MODIFY_MAX_RETRIES 7
#define UNETMM_MODIFY_MAX_PSN   0xffffffu

#define UNETMM_CHANNEL_DATAGRAM 0       /* all but channel, peer, mtu: unused */
#define UNETMM_CHANNEL_RELIABLE 1
#define UNETMM_CHANNEL_UD       2       /* channel, mtu, qkey, F_TELL; 0 else */

/* SET: CQE_CLOSED when the peer ends it, or it fails.  CLEAR: the peer did. */
#define UNETMM_CHANNEL_F_TELL   0x01
/*
 * CLEAR, reliable: the channel stays, as one that has failed.  Its sends end
 * FLUSHED.  CLEAR, reliable or UD: all free buffers and all SEND_TO of the
 * endpoint end FLUSHED as well, later ones too, until a SET of its channels.
 */
#define UNETMM_CHANNEL_F_FLUSH  0x02
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
/*
 * SET, reliable, at both ends: the first error of any operation is the end of
 * the channel at both, and nothing behind that operation is done.
 */
#define UNETMM_CHANNEL_F_STRICT 0x80

#define UNETMM_REL_RETRIES      12
#define UNETMM_REL_TIMEOUT_US   4000
#define UNETMM_REL_MAX_TIMEOUT_US 1000000
#define UNETMM_REL_NOT_READY_US 100

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
    unetmm_u8 spare[UNETMM_CMD_BYTES - 32];
};

#define UNETMM_FAULT_NONE       0xffffffffu
#define UNETMM_REPLY_RESOLVED   0
#define UNETMM_REPLY_DEFERRED   1       /* being paged in; RESOLVED follows */
#define UNETMM_REPLY_ERROR      2       /* will never be there */
#define UNETMM_REPLY_RETRY      3       /* ask again */
#define UNETMM_REPLY_MAX_PAGES  512
#define UNETMM_MISS_MAX_PAGES  1025    /* of one of source odp: 4 MiB */

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
    unetmm_le64 iova;           /* F_IOVA: peers by key name it so; else 0 */
    unetmm_le32 pd;             /* not 0: by endpoints of this pd alone, or */
    unetmm_u8 spare[UNETMM_CMD_BYTES - 52];     /* PD_EP and one endpoint */
};

#define UNETMM_PD_EP            0x80000000u /* not in an endpoint's pd */

#define UNETMM_REGION_F_NOTIFY  0x01    /* writes that ask for it notify */
#define UNETMM_REGION_F_REDIRECT 0x02   /* parts of it may be moved */
#define UNETMM_REGION_F_KEYED   0x04    /* peers with its key need no import */
#define UNETMM_REGION_F_IOVA    0x08    /* to these it begins at `iova` */
#define UNETMM_REGION_F_LKEY    0x10    /* EP_F_KEYS; `rights` may be 0 */
#define UNETMM_REGION_F_LKEY_WRITE 0x20 /* LKEY: to be written, too */
#define UNETMM_REGION_F_ALL     0x3f

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
    unetmm_u8 spare[UNETMM_CMD_BYTES - 40];
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
    unetmm_u8 spare[UNETMM_CMD_BYTES - 24];
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
    unetmm_u8 spare[UNETMM_CMD_BYTES - 28];
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
    unetmm_u8 spare[UNETMM_CMD_BYTES - 24];
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
    unetmm_u8 spare[UNETMM_CMD_BYTES - 8];
};

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
    unetmm_u8 spare[UNETMM_CMD_BYTES - 16];
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
    unetmm_u8 spare[UNETMM_CMD_BYTES - 16];
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
    unetmm_u8 spare[UNETMM_CMD_BYTES - 8];
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
    unetmm_u8 spare[UNETMM_CMD_BYTES - 16];
};

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
    unetmm_u8 spare[UNETMM_CMD_BYTES - 24];
};

/*
 * One NOTIFY_TAIL as soon as slot `slot` of the free queue has been posted.
 * The result is 1 if it has been: then none is to come.
 */
struct unetmm_cmd_tail {
    unetmm_le32 slot;
    unetmm_u8 arm;              /* 1; 0: disarm */
    unetmm_u8 rsvd[3];          /* MBZ */
    unetmm_u8 spare[UNETMM_CMD_BYTES - 8];
};

/*
 * EP_F_SHARED: one NOTIFY_LOW as soon as fewer buffers than `buffers` are left
 * in the free queue; 0: none.  The result is 1 if it is so now: then none is to
 * come.
 */
struct unetmm_cmd_low {
    unetmm_le32 buffers;
    unetmm_u8 spare[UNETMM_CMD_BYTES - 4];
};

struct unetmm_cmd_inv {
    unetmm_le64 start;          /* first byte */
    unetmm_le64 last;           /* last byte, inclusive */
    unetmm_u8 spare[UNETMM_CMD_BYTES - 16];
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
        struct unetmm_cmd_modify modify;
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
        struct unetmm_cmd_low low;
        struct unetmm_cmd_inv inv;
        unetmm_u8 raw[UNETMM_CMD_BYTES];
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
    unetmm_le32 data;           /* completions so far; counter; slot; ST_* */
    unetmm_le64 value;          /* COUNTER: its armed value */
    unetmm_le64 time_ns;
    unetmm_le32 rsvd2;
    unetmm_le32 phase;          /* UNETMM_PHASE */
};

#define UNETMM_NOTIFY_CQ        1       /* an armed completion queue */
#define UNETMM_NOTIFY_EP_ERROR  2       /* the endpoint was stopped */
#define UNETMM_NOTIFY_COUNTER   3       /* an armed event counter */
#define UNETMM_NOTIFY_TAIL      4       /* an armed slot has been posted */
#define UNETMM_NOTIFY_LOW       5       /* fewer buffers than LOW_ARM said */
#define UNETMM_NOTIFY_END       6       /* a strict channel; no send says why */

/* ---- Sizes that all sides rely on --------------------------------------- */

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
