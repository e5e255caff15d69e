/*
 * unetmm: the core's interface to the program around it.
 *
 * The core knows neither PCI nor QOM.  QEMU is one host (shell/pci.c); the unit
 * tests, the state explorer and the fuzzers are another, built with
 * UNETMM_STANDALONE.  Core files include this header first and nothing else
 * from outside, which brings QEMU's osdep.h and the trace points, or the few
 * equivalents.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_HOST_H
#define UNETMM_HOST_H

#ifdef UNETMM_STANDALONE
#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <glib.h>
#include "trace-unetmm.h"       /* generated from trace-events */
/* Functions, as QEMU's are: GLib's macros look at their argument twice. */
#define UNETMM_SWAPS(bits) \
    static inline uint##bits##_t le##bits##_to_cpu(uint##bits##_t v) \
    { \
        return GUINT##bits##_FROM_LE(v); \
    } \
    static inline uint##bits##_t cpu_to_le##bits(uint##bits##_t v) \
    { \
        return GUINT##bits##_TO_LE(v); \
    }
UNETMM_SWAPS(16)
UNETMM_SWAPS(32)
UNETMM_SWAPS(64)
#undef UNETMM_SWAPS
/*
 * QEMU's barriers, by the compiler's.  Built for tests, a program that defines
 * unetmm_barrier() is told of each, by the letter of its name.
 */
#ifdef UNETMM_TELL_BARRIERS
void unetmm_barrier(char which) __attribute__((weak));
#endif

static inline void unetmm_barrier_seen(char which)
{
#ifdef UNETMM_TELL_BARRIERS
    if (unetmm_barrier) {
        unetmm_barrier(which);
    }
#endif
}

#define smp_mb() (__atomic_thread_fence(__ATOMIC_SEQ_CST), \
                  unetmm_barrier_seen('m'))
#define smp_rmb() (__atomic_thread_fence(__ATOMIC_ACQUIRE), \
                   unetmm_barrier_seen('r'))
#define smp_wmb() (__atomic_thread_fence(__ATOMIC_RELEASE), \
                   unetmm_barrier_seen('w'))
#define unetmm_log_guest_error(...) do { } while (0)
#ifndef MIN
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#endif
#ifndef container_of
#define container_of(ptr, type, member) \
    ((type *)((char *)(ptr) - offsetof(type, member)))
#endif
#else
#include "qemu/osdep.h"
#include "qemu/atomic.h"
#include "qemu/bswap.h"
#include "qemu/log.h"
#include "../trace.h"
#define unetmm_log_guest_error(...) \
    qemu_log_mask(LOG_GUEST_ERROR, "unetmm: " __VA_ARGS__)
#endif

/* A guest's mistake: a trace event of its own and QEMU's guest-error log. */
#define UNETMM_GUEST_ERR(event, fmt, ...) do { \
        trace_unetmm_err_##event(__VA_ARGS__); \
        unetmm_log_guest_error(fmt "\n", __VA_ARGS__); \
    } while (0)

/* The wire's answer to a frame. */
typedef enum UnetmmSent {
    UNETMM_SENT_DONE,       /* gone */
    UNETMM_SENT_QUEUED,     /* copied; no more until unetmm_core_sent() */
    UNETMM_SENT_REFUSED,    /* will never go */
} UnetmmSent;

/*
 * Steps of the card that take time in hardware, with the meaning of `n`.  An
 * action that the host sees is no step: an entry of the card, a DMA, an
 * interrupt, a frame that is sent.  docs/specs/unetmm.rst has the same list, in
 * "Time".
 */
#define UNETMM_STEPS(X) \
    X(FETCH, "fetch")           /* a descriptor was read: slots */ \
    X(GATHER, "gather")         /* a part of a message was read: bytes */ \
    X(PLACE, "place")           /* a part of a message was written: bytes */ \
    X(PACKET, "packet")         /* a reliable packet goes out: bytes */ \
    X(ACK, "ack")               /* an acknowledgement goes out: 0 */ \
    X(LOCAL, "local")           /* a frame for the card itself: bytes */ \
    X(HEAD, "head")             /* the next look-up is of a head: 0 */ \
    X(HIT, "hit")               /* a translation was found: 1 to write */ \
    X(MISS, "miss")             /* one was not found: 1 to write */ \
    X(ENTRY, "entry")           /* entries of a table were read: how many */ \
    X(LOCK, "lock")             /* an entry was locked: 1, or unlocked: 0 */ \
    X(INSERT, "insert")         /* pages entered the TLB: how many */ \
    X(EVICT, "evict")           /* a page left it: 1 */ \
    X(REPORT, "report")         /* a record for the driver: its type */ \
    X(COMMAND, "command")       /* a command was read: its opcode */ \
    X(COMPLETE, "complete")     /* a completion goes out: its len */

typedef enum UnetmmStep {
#define UNETMM_STEP(name, text) UNETMM_STEP_##name,
    UNETMM_STEPS(UNETMM_STEP)
#undef UNETMM_STEP
    UNETMM_NUM_STEPS
} UnetmmStep;

/*
 * All are called with the host's one lock held (QEMU: the BQL) and may be
 * called from inside any unetmm_core_*() call.  Addresses are the device's DMA
 * addresses.  Memory operations return false if the bus refuses any part; they
 * reach RAM only, never a device's registers.
 */
typedef struct UnetmmHostOps {
    bool (*mem_read)(void *host, uint64_t addr, void *buf, size_t bytes);
    bool (*mem_write)(void *host, uint64_t addr, const void *buf,
                      size_t bytes);
    /* One aligned 32-bit store, not torn, little-endian in memory. */
    bool (*mem_store32)(void *host, uint64_t addr, uint32_t value);
    /*
     * If the aligned 64-bit word is *old, makes it `value`, at once for every
     * processor; *old becomes the word that was there.  The word is little-
     * endian in memory.
     */
    bool (*mem_cmpxchg64)(void *host, uint64_t addr, uint64_t *old,
                          uint64_t value);
    void (*interrupt)(void *host, unsigned vector);
    int64_t (*now_ns)(void *host);
    /* One timer; a new time replaces the old one; INT64_MAX cancels. */
    void (*timer_at)(void *host, int64_t when_ns);
    /* Call unetmm_core_run() soon, from a clean stack. */
    void (*run_later)(void *host);
    UnetmmSent (*send)(void *host, const uint8_t *frame, size_t bytes);
    /*
     * A frame whose TCP or UDP header is all there: makes its checksum, and
     * (mss not 0, TCP) cuts it into frames of so much payload; each is given to
     * out().  The frame may be changed.  False: it cannot be, none was given.
     */
    bool (*offload)(void *host, uint8_t *frame, size_t bytes, uint32_t mss,
                    void (*out)(void *opaque, const uint8_t *frame,
                                size_t bytes), void *opaque);
    /* Has the frame a TCP or UDP checksum that is right? */
    bool (*checksum_ok)(void *host, const uint8_t *frame, size_t bytes);
    /* unetmm_core_can_receive() may have become true. */
    void (*may_receive)(void *host);
    /* Pages of the windows' memory get zeros: they are somebody else's now. */
    void (*clear_windows)(void *host, uint32_t page, uint32_t npages);
    /* The wire carries our own source address: said once to the user. */
    void (*warn_self)(void *host);
    /*
     * NULL: no step takes time.  Else the card is at this step now, and the
     * host may let its clock, which now_ns() shows, go on.  It must not call
     * the card.  QEMU has one with the property `timing`.
     */
    void (*spend)(void *host, UnetmmStep step, uint32_t n);
} UnetmmHostOps;

#endif /* UNETMM_HOST_H */
