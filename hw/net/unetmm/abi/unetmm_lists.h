/* SPDX-License-Identifier: GPL-2.0-or-later OR BSD-2-Clause */
/*
 * unetmm: the lists of the contract: statuses, sources, policies, opcodes.
 *
 * A row has a number, which never changes, and a name; card, driver, library
 * and tools take their tables from the rows.  scripts/gen-spec-tables makes of
 * them the #defines of the other headers, the Wireshark dissector's tables,
 * the JSON schemas and the specification's tables; the style stage compares.
 */
#ifndef UNETMM_LISTS_H
#define UNETMM_LISTS_H

/*
 * Statuses of completions: UNETMM_ST_*, the errno that the library gives for
 * one, the meaning for the specification, a sentence for people.
 * TIMEOUT is not ETIMEDOUT: that is the end of the call's own timeout.
 */
#define UNETMM_STATUSES(S) \
    S(0, OK, 0, "", "done") \
    S(1, PROTECTION, EFAULT, "no right to use the address so", \
      "the memory cannot be used for this: it is not mapped, not " \
      "writable or not registered") \
    S(2, BAD_DESC, EINVAL, "malformed descriptor", \
      "the descriptor is malformed") \
    S(3, BAD_CHANNEL, ENOTCONN, "no such channel of this endpoint", \
      "the channel is closed, here or by the peer") \
    S(4, TOO_LONG, EMSGSIZE, "too long for channel or buffer", \
      "the message is longer than the channel or the buffer allows") \
    S(5, SKIPPED, ENOBUFS, "buffer: was not resident in time", \
      "the buffer was not resident in time") \
    S(6, TOO_LARGE, EMSGSIZE, "buffer: the TLB can never hold it", \
      "the buffer has more pages than the card's TLB can hold") \
    S(7, LIMIT, EDQUOT, "the driver's pin limit is reached", \
      "the limit of pinned pages is reached: raise ulimit -l or use " \
      "less memory") \
    S(8, UNSUPPORTED, EOPNOTSUPP, "memory that Linux refuses to pin", \
      "Linux does not pin this kind of memory") \
    S(9, LINK_DOWN, ENETDOWN, "no link: the message was not sent", \
      "the card has no link") \
    S(10, BAD_INDEX, EIO, "forged ring index", \
      "a ring index is out of range") \
    S(11, DMA, EIO, "the bus refused an access", \
      "the bus refused an access of the card") \
    S(12, REFUSED, ECOMM, "the wire refused the frame", \
      "the network refused the frame") \
    S(13, TIMEOUT, EHOSTUNREACH, "reliable: the peer does not answer", \
      "the peer does not answer") \
    S(14, NOT_READY, ENOBUFS, "reliable: the peer was not ready", \
      "the peer was not ready for too long: it had no buffer, or the " \
      "page was absent") \
    S(15, PEER_BUFFER, EMSGSIZE, "reliable: its buffer was too short", \
      "the message is longer than the peer's buffer") \
    S(16, PEER_FAILED, ECONNRESET, "reliable: the peer's half failed", \
      "the channel has failed at the peer") \
    S(17, FLUSHED, ECANCELED, "reliable: the channel had failed", \
      "the channel had failed before") \
    S(18, BAD_IMPORT, ENOENT, "no such import, offset or right", \
      "the endpoint has no such import, or the import lacks this range " \
      "or right") \
    S(19, REVOKED, ESTALE, "the peer has no such region or key", \
      "the peer has ended this export") \
    S(20, REMOTE_RANGE, ERANGE, "beyond the end of the region", \
      "access beyond the end of the peer's export, or not aligned") \
    S(21, REMOTE_RIGHT, EACCES, "the region lacks the right", \
      "remote access denied: the peer's export lacks the right") \
    S(22, REMOTE_MEMORY, EREMOTEIO, "the peer's memory cannot be used", \
      "the peer's memory cannot be used") \
    S(23, OVERRUN, EOVERFLOW, "more stores than the card can keep", \
      "stores into windows came faster than the card could send them") \
    S(24, REMOTE_COUNTER, ENXIO, "the region lacks that counter", \
      "the peer's export has no such event counter") \
    S(25, BAD_KEYS, EKEYREJECTED, "reliable: too many wrong keys", \
      "the peer used wrong keys too often") \
    S(26, PEER_LACKS, EOPNOTSUPP, "reliable: its card is too old", \
      "the peer's card does not know this operation")

/*
 * Sources of translations: UNETMM_SOURCE_*, name, meaning.  The card and the
 * driver have a file source/NAME.c each.  C: of the driver's own memory; S: of
 * a process's.
 */
#define UNETMM_SOURCES(C, S) \
    C(0, DIRECT, direct, "space 0: address = DMA address") \
    S(2, TLB, tlb, "card TLB; miss goes to the driver") \
    S(3, KTLB, ktlb, "driver's rings and page lists") \
    S(4, UTLB, utlb, "table of pinned pages") \
    S(5, SHADOW, shadow, "table of resident pages") \
    S(6, ODP, odp, "table filled by faults") \
    S(1, PINNED, pinned, "table in host memory; miss = error")

/*
 * Policies for a message whose memory is absent: UNETMM_POLICY_*, name, and
 * where it is allowed: with sources where absence is an error of the program
 * (fixed) or of which the driver brings absent pages (brought); for raw
 * endpoints; for datagram, reliable and UD channels.
 *
 * On a reliable channel no message is lost: `drop` acts there as `rnr`.  It is
 * allowed because it is the one policy for an endpoint with channels of both
 * types and because a fixed source has no `rnr`.
 */
#define UNETMM_POLICIES(P) \
    /*              fixed, brought, raw, datagram, reliable, UD */ \
    P(1, SKIP, skip,         1, 1,   0,   1, 1, 1) \
    P(0, DROP, drop,         1, 1,   1,   1, 1, 1) \
    P(2, REDIRECT, redirect, 0, 1,   0,   0, 1, 0) \
    P(3, RNR, rnr,           0, 1,   0,   0, 1, 0) \
    P(4, BACKUP, backup,     0, 1,   1,   1, 0, 0)

/*
 * Opcodes of descriptors: UNETMM_OP_*, meaning.  R: of reliable channels, in
 * the card's file reliable/op/NAME.c, with the kind in that file's row; O: of
 * others.
 */
#define UNETMM_OPS(R, O) \
    R(1, SEND, send, 0, "datagram or message on a channel") \
    O(2, CONTROL, control, "endpoint 0 only") \
    R(3, WRITE, write, 0, "from the segments, or inline") \
    R(4, READ, read, 0, "into the segments") \
    R(5, FETCH_ADD, atomic, 0, "") \
    R(6, CMP_SWAP, atomic, 1, "") \
    R(7, FENCE, void, 0, "completes behind all before it") \
    O(8, FRAME, frame, "") \
    O(9, SEND_TO, send_to, "on a UD channel")

/*
 * Opcodes of frames: UNETMM_WIRE_*, name for people, comment.  R: of reliable
 * channels, in the card's file reliable/op/NAME.c; O: of others.
 */
#define UNETMM_WIRE_OPS(R, O) \
    O(1, DATAGRAM, datagram, "datagram", "") \
    O(2, CONTROL, control, "control", "endpoint 0 to endpoint 0") \
    R(3, SEND, send, "reliable packet", "") \
    R(4, ACK, ack, "acknowledgement", "") \
    R(5, WRITE, write, "write", "imm: see below") \
    R(6, READ, read, "read request", "imm: UNETMM_READ_*") \
    R(7, ATOMIC, atomic, "atomic request", "imm: UNETMM_ATOMIC_*; operands") \
    R(8, ANSWER, answer, "answer", "psn: of the request; its data") \
    R(9, VOID, void, "void", "") \
    O(10, SEND_TO, send_to, "unconnected datagram", "handle: the Q_Key")

/*
 * Reasons for an end or a refusal, of the peer's card: UNETMM_WHY_*, the status
 * of an operation that has been rejected for it (OK: none is), meaning.
 */
#define UNETMM_WHYS(W) \
    W(1, BUFFER, OK, "longer than the buffer") \
    W(2, CHANNEL, OK, "the channel has failed here") \
    W(3, REGION, REVOKED, "no such region, or another key") \
    W(4, RANGE, REMOTE_RANGE, "beyond its end, or not aligned") \
    W(5, RIGHT, REMOTE_RIGHT, "not exported for that") \
    W(6, MEMORY, REMOTE_MEMORY, "its memory cannot be used") \
    W(7, COUNTER, REMOTE_COUNTER, "it gives no such event counter")

#endif /* UNETMM_LISTS_H */
