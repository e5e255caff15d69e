/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * lockstep: links between machines that share one virtual time
 *
 * One node is in each machine, with a port for each -device lockstep.  A port
 * is the end of a link, to a port of another machine or to a switch.  At a
 * boundary of a link both ends exchange the frames sent since the last, and a
 * promise: the earliest moment at which the end may send again if it receives
 * nothing.  Both then know the next boundary, before which no frame can arrive.
 * This is conservative synchronisation as of Chandy, Misra and Bryant, with
 * promises that skip idle time.  docs/lockstep.rst has the rules.
 *
 * Locks: all state is under the BQL.  An exchange waits for peers without it,
 * in the thread that executes the CPUs; icount_busy is set meanwhile, so that
 * no other thread moves the clock.  The main thread may look at the state, stop
 * the machine, and end it: a wait looks again each time it has the BQL.
 *
 * Lifetimes: the node is made with the first port and is never freed.  A port
 * is a device that cannot be unplugged.
 */
#ifndef HW_NET_UNETMM_LOCKSTEP_H
#define HW_NET_UNETMM_LOCKSTEP_H

#include "qemu/queue.h"
#include "qemu/units.h"
#include "qemu/timer.h"
#include "net/net.h"
#include "hw/qdev-core.h"
#include "system/cpu-timers.h"
#include "system/runstate.h"
#include "../abi/lockstep_wire.h"

#define TYPE_LOCKSTEP "lockstep"
OBJECT_DECLARE_SIMPLE_TYPE(LockstepPort, LOCKSTEP)

/* With the mend of QEMU's icount a wait does not hold the BQL. */
#ifdef HAVE_ICOUNT_BUSY
#define LOCKSTEP_WAITS_UNLOCKED 1
#else
#define LOCKSTEP_WAITS_UNLOCKED 0
#endif

/* A frame's header in the saved state is less than its gap on the line. */
#define LOCKSTEP_MAX_SAVED      LOCKSTEP_MAX_FLIGHT

/* The life of a link.  It goes forward only. */
typedef enum LockstepState {
    LOCKSTEP_APART,             /* no connection yet */
    LOCKSTEP_GREETING,          /* HELLO sent, the peer's not received */
    LOCKSTEP_UP,
    LOCKSTEP_ENDED,             /* the peer said BYE */
    LOCKSTEP_FAILED,            /* broken; the machine has been stopped */
} LockstepState;

/* A frame on its way to this machine. */
typedef struct LockstepArrival {
    QTAILQ_ENTRY(LockstepArrival) next;
    int64_t time;
    uint32_t bytes;
    uint8_t data[];
} LockstepArrival;

/* By time */
typedef QTAILQ_HEAD(LockstepFrames, LockstepArrival) LockstepFrames;

/* A socket's two directions.  link.c */
typedef struct LockstepLink {
    int listen_fd;
    int fd;
    GByteArray *out;            /* from out_sent on, not yet with the kernel */
    size_t out_sent;
    uint8_t *in;                /* in_first to in_used: not yet read */
    size_t in_first, in_used;
    bool over;                  /* the peer sends nothing more */
} LockstepLink;

struct LockstepPort {
    DeviceState parent_obj;
    QTAILQ_ENTRY(LockstepPort) next;
    NICState *nic;
    NICConf conf;

    /* Properties */
    char *path;
    bool server;
    uint32_t index;
    uint64_t latency_ns;
    uint64_t bps;
    uint32_t queue;
    uint64_t start_ns;
    uint64_t stop_ns;
    uint32_t patience_ms;
    uint32_t timeout_s;
    bool skip_idle;
    char *log_path;
    uint64_t print_ns;

    LockstepState state;
    LockstepLink link;
    int64_t boundary;           /* the next one of this link */
    int64_t last;               /* the one before was held at that time */
    int64_t line_free;          /* when the transmitter is ready again */
    uint64_t burst;             /* bytes sent since the mark */
    /* A frame of the connection may overtake those of the saved state. */
    LockstepFrames restored;
    LockstepFrames arrivals;
    uint64_t flight;            /* their bytes */
    int64_t first_sent;         /* arrival of the first frame since the mark */
    int64_t promise;            /* ours, of this boundary */
    bool mark_sent;             /* ours, of this boundary */
    bool mark_due;              /* the peer's, of this boundary, is missing */
    int64_t peer_promise;
    FILE *log;
    QEMUTimer *print;
    GByteArray *saved;          /* arrivals, while the state is saved */
    uint32_t saved_bytes;
    uint8_t *saved_data;

    /* Counters, read-only properties of these names */
    uint64_t frames_sent;
    uint64_t frames_received;
    uint64_t dropped_down;      /* the link was not up, or no more */
    uint64_t dropped_queue;     /* more than queue= were before it */
    uint64_t dropped_burst;     /* LOCKSTEP_MAX_BURST between two marks */
    uint64_t boundaries;
    uint64_t idle_boundaries;
    uint64_t waited_ns;         /* of the host's time, in boundaries */
};

typedef struct LockstepNode {
    QTAILQ_HEAD(, LockstepPort) ports;
    QEMUTimer *sync;            /* at the first boundary of all ports */
    QEMUTimer *deliver;         /* at the first arrival */
    bool begun;                 /* the machine has run, boundaries are set */
    int64_t began;
    bool called;                /* work for the CPUs is queued */
    bool stopped;               /* at stop-ns */
} LockstepNode;

/* ---- link.c: the socket, and whole messages ---- */

/* Creates the server's socket.  False, with errp set: it cannot be. */
bool lockstep_link_init(LockstepPort *port, Error **errp);
void lockstep_link_close(LockstepPort *port);
/* Appends a message to those that are to be sent. */
void lockstep_link_put(LockstepPort *port, uint32_t type, int64_t time,
                       int64_t promise, const void *data, uint32_t bytes);
/*
 * Accepts or connects, sends, and receives, as far as all that goes without
 * waiting.  NULL, or a reason why the link is broken.
 */
const char *lockstep_link_move(LockstepPort *port);
/* The events to poll for; -1: there is no descriptor yet, try again later. */
int lockstep_link_poll(const LockstepPort *port, short *events);
/*
 * The next whole message, with its payload; NULL if there is none.  Valid until
 * the next lockstep_link_move().  `why` is set if the bytes are no message.
 */
const uint8_t *lockstep_link_get(LockstepPort *port, LockstepHead *head,
                                 const char **why);

/* ---- node.c: virtual time ---- */

void lockstep_node_add(LockstepPort *port);
int64_t lockstep_now(void);
/* A frame of this machine leaves by the port. */
void lockstep_node_send(LockstepPort *port, const uint8_t *data,
                        uint32_t bytes);
/* Takes up a wait that was left because the CPUs were to stop. */
void lockstep_node_again(void);
/*
 * A frame that is on its way to this machine, received or of a saved state.
 * NULL, or a reason why it is refused.
 */
const char *lockstep_node_arrives(LockstepPort *port, int64_t time,
                                  const uint8_t *data, uint32_t bytes);
const char *lockstep_node_restores(LockstepPort *port, int64_t time,
                                   const uint8_t *data, uint32_t bytes);
/* Those on their way, as LockstepHead and data, one behind the other. */
GByteArray *lockstep_node_on_the_way(LockstepPort *port);

/* ---- wait.c: exchanges with the peers ---- */

/* Says BYE, and gives the kernel all that was sent. */
void lockstep_bye(LockstepPort *port);
/* Waits until no port is without its mark; false: the CPUs are to stop. */
bool lockstep_wait(LockstepNode *node);
/* Breaks the link and stops the machine, with a sentence on stderr. */
void lockstep_fail(LockstepPort *port, const char *format, ...)
    G_GNUC_PRINTF(2, 3);
/* Has all CPUs stop at this instruction, and the machine soon after. */
void lockstep_stop_machine(RunState state);

/* ---- print.c: a log of frames and states, to compare runs ---- */

bool lockstep_print_init(LockstepPort *port, Error **errp);
void lockstep_print_frame(LockstepPort *port, const char *event, int64_t time,
                          const uint8_t *data, uint32_t bytes);
void lockstep_print_begin(LockstepPort *port);

#endif
