/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The protocol of -device lockstep: docs/lockstep.rst
 *
 * Two machines, or a machine and lockstep-switch, exchange messages over a UNIX
 * stream socket.  Each message is a header and `bytes` of payload.  All
 * integers are little-endian; all times are nanoseconds of the virtual clock,
 * which both sides share.
 *
 * Each side sends one HELLO, and then, for each boundary, any number of FRAMEs
 * and one MARK.  The first boundary is in the HELLO.  The boundary after a MARK
 * is the smaller of both sides' promises plus the latency.  BYE ends a side's
 * messages; frames may precede it.  No frame of a side overtakes another.
 */
#ifndef UNETMM_LOCKSTEP_WIRE_H
#define UNETMM_LOCKSTEP_WIRE_H

#include <stdint.h>

#define LOCKSTEP_MAGIC          0x3150534cu     /* "LSP1" */
#define LOCKSTEP_MAX_FRAME      69632u          /* QEMU's NET_BUFSIZE */
/* Times beyond are refused, so that sums of two do not overflow. */
#define LOCKSTEP_MAX_TIME       (INT64_MAX / 4)

/*
 * Limits of memory, in bytes on the line.  A sender drops the frames that are
 * too many: those that find more than its queue, at most MAX_QUEUE, before its
 * transmitter, and those beyond MAX_BURST since its last MARK.  Frames of two
 * bursts and of the queue at most are then on their way to a receiver, which
 * ends the link if there are more than MAX_FLIGHT.
 */
#define LOCKSTEP_MAX_QUEUE      (16u << 20)
#define LOCKSTEP_MAX_BURST      (48u << 20)     /* 10 ms of 40 Gb/s */
#define LOCKSTEP_MAX_FLIGHT     (128u << 20)

enum {
    LOCKSTEP_HELLO = 1,
    LOCKSTEP_FRAME = 2,
    LOCKSTEP_MARK = 3,
    LOCKSTEP_BYE = 4,
};

/*
 * time     FRAME: the moment at which its last bit arrives, not before the
 *          boundary of the next MARK.  MARK: the boundary that it is for.
 *          HELLO: the first boundary.  BYE: the end of the sender.
 * promise  MARK: the sender transmits nothing before that moment unless a
 *          frame reaches it earlier.  At least `time`.
 */
typedef struct LockstepHead {
    uint32_t type;
    uint32_t bytes;
    int64_t time;
    int64_t promise;
} LockstepHead;

/* The payload of HELLO.  Both sides must have equal values but for `port`. */
typedef struct LockstepHello {
    uint32_t magic;
    uint32_t port;              /* of a switch; 0 to another machine */
    int64_t latency_ns;         /* at least 1 */
    int64_t stop_ns;            /* a common last boundary, or 0 */
} LockstepHello;

/* With padding, preamble, FCS and gap */
static inline uint64_t lockstep_line_bytes(uint32_t bytes)
{
    return (bytes < 60 ? 60 : bytes) + 24;
}

#endif
