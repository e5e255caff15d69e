/* SPDX-License-Identifier: GPL-2.0-or-later OR BSD-2-Clause */
/*
 * unetmm on the wire: the frame header, and the control messages with which
 * two drivers set up a channel.  Shared by the card, the driver and the tests.
 */
#ifndef UNETMM_WIRE_H
#define UNETMM_WIRE_H

#include "unetmm_hw.h"

#define UNETMM_WIRE_VERSION     1
#define UNETMM_MAX_PAYLOAD      65536
#define UNETMM_MIN_MTU          256
#define UNETMM_DEFAULT_MTU      9000

/*
 * Every frame starts with these 64 bytes, so that a frame is never below
 * Ethernet's minimum and the payload is aligned.  `len` is the payload's
 * length; bytes behind it are padding and ignored.
 */
struct unetmm_frame {
    unetmm_u8 dst[6];
    unetmm_u8 src[6];
    unetmm_u8 ethertype[2];     /* big-endian, as Ethernet has it */
    unetmm_u8 version;          /* UNETMM_WIRE_VERSION */
    unetmm_u8 opcode;           /* UNETMM_WIRE_* */
    unetmm_le16 dst_ep;
    unetmm_le16 src_ep;
    unetmm_le16 dst_channel;    /* the receiver's number of the channel */
    unetmm_le16 src_channel;    /* the sender's */
    unetmm_le32 len;            /* 0..UNETMM_MAX_PAYLOAD */
    unetmm_le32 flags;          /* UNETMM_WIRE_F_*; others MBZ */
    /* The five are zero in DATAGRAM; of the others see UNETMM_WIRE_*. */
    unetmm_le32 psn;
    unetmm_le32 offset;
    unetmm_le64 remote;
    unetmm_le32 handle;
    unetmm_le32 imm;
    unetmm_le32 payload_crc;    /* CRC32C, with UNETMM_WIRE_F_PAYLOAD_CRC */
    unetmm_le32 header_crc;     /* CRC32C of the 60 bytes before it */
};

static_assert(sizeof(struct unetmm_frame) == 64, "frame header");
static_assert(offsetof(struct unetmm_frame, header_crc) == 60, "crc last");

/* gen-spec-tables: numbers WIRE */
#define UNETMM_WIRE_DATAGRAM    1
#define UNETMM_WIRE_CONTROL     2       /* endpoint 0 to endpoint 0 */
#define UNETMM_WIRE_SEND        3
#define UNETMM_WIRE_ACK         4
#define UNETMM_WIRE_WRITE       5       /* imm: see below */
#define UNETMM_WIRE_READ        6       /* imm: UNETMM_READ_* */
#define UNETMM_WIRE_ATOMIC      7       /* imm: UNETMM_ATOMIC_*; operands */
#define UNETMM_WIRE_ANSWER      8       /* psn: of the request; its data */
#define UNETMM_WIRE_VOID        9
#define UNETMM_WIRE_SEND_TO     10      /* handle: the Q_Key */
/* gen-spec-tables: end */

/*
 * Reliable channels.  SEND is one packet of a message: psn is its number,
 * offset its first byte's place in the message, remote the message's length;
 * imm is the program's, with F_IMM and F_LAST.
 * ACK: psn is the next one expected, all before it have been taken; bit i of
 * remote says that psn + 1 + i has been kept; imm is UNETMM_ACK_*.  With
 * F_CREDIT the peer may send packets up to, not with, number `handle` for the
 * first time, which never goes back; with F_ASK it is to answer with an ACK.
 */

/*
 * One-sided operations, packets of the same numbering.  `handle` is the number
 * of the region and `offset` its key; `remote` is the first byte's place in the
 * region, or with F_KEYED its address in the region's space.  A request (READ,
 * ATOMIC) is taken only in its turn, and is over for its sender when the
 * ANSWER has come, whatever an ACK says: it is sent again until then, and
 * answered again; an ANSWER is an acknowledgement of all before and of its
 * request.  VOID takes the place of a packet that is needed no more: its
 * message has ended in an error.  A packet that has been REJECTED at its turn
 * is not taken again with that number; VOID is.  (A request may be REJECTED
 * later too, when it is to be answered again.)
 */

/*
 * The bytes to follow, a hint for fetching ahead: do not rely on it.  imm
 * of a WRITE without F_LAST is the number of bytes behind the packet's own, 0:
 * it is not said; with F_LAST the immediate of F_NOTIFY or F_IMM, or the
 * counter of F_COUNT, or the number of F_ACK, or 0.
 */
#define UNETMM_READ_BYTES       0x0001ffffu /* wanted, 1..MTU */
#define UNETMM_READ_MORE        0xfffe0000u /* requests of the READ behind it */
#define UNETMM_READ_MOST        0x7fff  /* READ_MORE: so many, or more */

#define UNETMM_ATOMIC_ADD       1       /* payload: the addend */
#define UNETMM_ATOMIC_SWAP      2       /* payload: compare, then swap */

#define UNETMM_WIRE_F_PAYLOAD_CRC 0x00000001u
#define UNETMM_WIRE_F_LAST      0x00000002u /* the message ends here */
#define UNETMM_WIRE_F_ASK       0x00000004u /* acknowledge at once */
#define UNETMM_WIRE_F_NOTIFY    0x00000008u /* WRITE: only with LAST */
#define UNETMM_WIRE_F_COUNT     0x00000010u /* as NOTIFY; not both */
#define UNETMM_WIRE_F_CREDIT    0x00000020u /* ACK: handle is a limit */
#define UNETMM_WIRE_F_KEYED     0x00000040u /* one-sided: by address */
/*
 * SEND, ANSWER, VOID, WRITE: an acknowledgement goes along with it.  `handle`
 * is the psn of an ACK_OK without bits; else it is 0.  A WRITE, which has a
 * region there, has the psn in imm, with LAST and no other use of imm.
 */
#define UNETMM_WIRE_F_ACK       0x00000080u
#define UNETMM_WIRE_F_IMM       0x00000100u /* SEND, WRITE with LAST; SEND_TO */
#define UNETMM_WIRE_F_INV       0x00000200u /* SEND with IMM: imm is a key */
#define UNETMM_WIRE_F_ALL       0x000003ffu

#define UNETMM_ACK_OK           0
#define UNETMM_ACK_NOT_READY    1       /* psn again after `offset` us */
#define UNETMM_ACK_FAILED       2       /* the end; offset: UNETMM_WHY_* */
#define UNETMM_ACK_REJECTED     3       /* psn never; offset: UNETMM_WHY_* */
#define UNETMM_ACK_PENDING      4       /* psn is here, and not in its place */

/* gen-spec-tables: numbers WHY */
#define UNETMM_WHY_BUFFER       1       /* longer than the buffer */
#define UNETMM_WHY_CHANNEL      2       /* the channel has failed here */
#define UNETMM_WHY_REGION       3       /* no such region, or another key */
#define UNETMM_WHY_RANGE        4       /* beyond its end, or not aligned */
#define UNETMM_WHY_RIGHT        5       /* not exported for that */
#define UNETMM_WHY_MEMORY       6       /* its memory cannot be used */
#define UNETMM_WHY_COUNTER      7       /* it gives no such event counter */
#define UNETMM_NUM_WHY          8
/* gen-spec-tables: end */

/*
 * Packets with F_KEYED and no such region, key and opt-in: the last of so many
 * of one channel ends it.
 */
#define UNETMM_REL_BAD_KEYS     8

/* Packets that may be on their way in one direction of a channel. */
#define UNETMM_REL_WINDOW       64

/* Atomics of a channel that may wait for their answer, and are kept for it. */
#define UNETMM_REL_ATOMICS      16

#define UNETMM_MAX_FRAME        (UNETMM_MAX_PAYLOAD + 64)

/*
 * Control messages.  A request is repeated until it is answered or its deadline
 * passes; a repeated CONNECT (same MAC, endpoint, channel, nonce) is answered
 * again from the record, so that a lost answer does no harm.  A CONNECT with
 * another nonce from the same (MAC, endpoint, channel) replaces the old
 * channel: the peer has restarted.
 *
 * A reliable channel is one if both say so; each says the number of the first
 * packet that it will send, and in `request` how many the other may send before
 * it has heard more (credits; 0: as many as the window has).
 *
 * A card drops packets that it does not know.  So CONNECT has in `status` the
 * UNETMM_FEATURE_* that its sender's card takes, and CONNECT_ACK has in
 * `rights` those that both cards take, of a reliable channel.  A driver that
 * knows of no features ignores the first, and gets 0 as the second, which it
 * wants there.
 *
 * CLOSE is repeated until it is answered, too, or a number of times.  It is
 * answered also by a driver without such a channel.
 *
 * IMPORT asks, on behalf of the endpoint at one end of a reliable channel, for
 * an export of the process that has the other end.  While it is not there it is
 * asked for again.  The answer has the region's number in `mtu`, its key in
 * `psn` and its length in `service`.
 *
 * PEERS, which may be broadcast, asks for endpoints that listen: on `service`,
 * or on any number (0); besides it has a nonce.  The answer is a PEER for each
 * that may be announced, a struct unetmm_control_named: endpoint, service,
 * `mtu`, and in `rights` the types of channels that it takes (UNETMM_PEER_*).
 */
struct unetmm_control {
    unetmm_u8 type;             /* UNETMM_CTL_* */
    unetmm_u8 status;           /* answers: UNETMM_CTL_ST_*; CONNECT: above */
    unetmm_le16 src_ep;         /* the sender's endpoint for the channel */
    unetmm_le16 src_channel;
    unetmm_le16 dst_ep;         /* answers, CLOSE, PROBE of a channel; else 0 */
    unetmm_le16 dst_channel;
    unetmm_u8 channel_type;     /* CONNECT, _ACK: UNETMM_CHANNEL_*; else 0 */
    unetmm_u8 rights;           /* IMPORT, _ACK: UNETMM_RIGHT_*; or above */
    unetmm_le32 mtu;            /* the sender's offer; in answers, the agreed */
    unetmm_le64 service;        /* CONNECT; IMPORT: the export's number */
    unetmm_le64 nonce;          /* chosen by the requester, the channel's */
    unetmm_le32 psn;            /* reliable: of the sender's first packet */
    unetmm_le32 request;        /* IMPORT, echoed; CONNECT: credits */
};

static_assert(sizeof(struct unetmm_control) == 40, "control message");

/* PEER alone: with the name of the process that listens. */
struct unetmm_control_named {
    struct unetmm_control head;
    unetmm_u8 name[16];         /* zeros behind it; not trusted */
};

static_assert(sizeof(struct unetmm_control_named) == 56, "control message");

#define UNETMM_CTL_PROBE        1       /* is there a driver, or a channel? */
#define UNETMM_CTL_PROBE_ACK    2
#define UNETMM_CTL_CONNECT      3
#define UNETMM_CTL_CONNECT_ACK  4
#define UNETMM_CTL_CLOSE        5       /* the sender's half is gone */
#define UNETMM_CTL_IMPORT       6
#define UNETMM_CTL_IMPORT_ACK   7
#define UNETMM_CTL_PEERS        8       /* which endpoints listen? */
#define UNETMM_CTL_PEER         9
#define UNETMM_CTL_CLOSE_ACK    10      /* so is the other one */

#define UNETMM_PEER_DATAGRAM    0x01    /* datagram channels */
#define UNETMM_PEER_RELIABLE    0x02    /* reliable channels */

#define UNETMM_FEATURE_KEYED    0x01    /* packets with F_KEYED */
#define UNETMM_FEATURE_IMM      0x02    /* packets with F_IMM */
#define UNETMM_FEATURE_ACK      0x04    /* packets with F_ACK, */
#define UNETMM_FEATURE_ACK_WRITE 0x08   /* and with that WRITEs, too */

#define UNETMM_CTL_ST_OK        0
#define UNETMM_CTL_ST_NO_SERVICE 1      /* nobody listens; try again */
#define UNETMM_CTL_ST_FULL      2       /* backlog or channels used up */
#define UNETMM_CTL_ST_TYPE      3       /* no channels of that type there */
#define UNETMM_CTL_ST_NO_EXPORT 4       /* not exported; try again */
#define UNETMM_CTL_ST_RIGHTS    5       /* exported, but not for that */

#endif /* UNETMM_WIRE_H */
