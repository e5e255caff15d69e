/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The provider "unetmm" of libfabric: FI_EP_MSG endpoints on reliable channels.
 *
 * Objects and lifetimes.  libfabric's caller closes each object before the object
 * that it was opened from; fi_close() returns -FI_EBUSY otherwise.
 *
 *   fabric    the context of libunetmm, and all that makes connections
 *     EQ      events of connections
 *     PEP     a listening CM port
 *   domain    of a fabric: memory regions, completion queues, endpoints
 *     CQ      a ring of completions, and the ports that fill it
 *     SRX     a port that several endpoints share
 *     EP      a channel of a port: its own port, or that of its SRX
 *   port      an endpoint of the card for data; lives as long as its EP or SRX
 *   CM port   an endpoint of the card for messages of connection management; a
 *             fabric has one for requests that it makes, each PEP one for those
 *             that it receives
 *   conn      a channel of a CM port: one request for a connection.  It ends with
 *             the answer, with its channel, or with its CM port.
 *   call      a thread that opens a channel for an EP, since the peer's driver has to
 *             answer; of the fabric, at whose end it is cancelled
 *
 * Locks, outermost first, and the members that each lock guards.  A function that is called
 * under a lock asserts that the lock is held, unless the function belongs to the data path.
 *
 *   fabric.lock   fabric: cm_ports, ports, request_port, peers, callees, ready, calls_running,
 *                 calls_ended, threads.  All members of CM ports, conns and peers.
 *                 port.arrivals.  pep.port, pep.begins, pep.address.  ep.conn, ep.call, ep.dst.
 *                 A call: node, callee, ep, cancelled; its thread alone has the others.  Not held
 *                 in calls that wait for a peer, nor while pages are pinned; the work under it is
 *                 limited (docs/provider.rst, "Locks").
 *   domain.lock   domain: whole, whole_key, eps, closed, nclosed.  All members of ports,
 *                 operations and CQs.  An EP: port, channel, open, state, node, in_domain,
 *                 sends and the members about fences.  arrival.closed.  The only lock of the
 *                 data path.
 *   eq.lock       an EQ's events, err_data, overrun; nothing else is locked under it.
 *   spans_lock    the fabric's spans; taken under no lock, and nothing else is locked under it.
 *
 * No lock: `users`, `channels` and next_export are atomic.  All other members are set when the
 * object is opened or bound, before another thread has it.  Both port.arrivals and port.node
 * change under fabric.lock; the first also under domain.lock, so each of the two suffices to read.
 *
 * libunetmm allows unetmm_connect_ex(), _accept() and _listen_ex() beside calls on
 * the queues of the same endpoint, so these need no lock of a port.
 */
#ifndef UNETMM_PROVIDER_H
#define UNETMM_PROVIDER_H

#include "../src/sys/lock.h"
#include "list.h"

#include <libunetmm/inline.h>

#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

#define UMFI_NAME           "unetmm"
#define UMFI_PROTOCOL       0x80000756u /* high bit: a provider's own */
#define UMFI_PROTOCOL_VERSION   2u      /* of the messages of cm.h */
#define UMFI_CM_DATA        128u    /* most bytes that go with a request or answer */
/* A buffer of the card that begins within a page takes less than the card's longest message. */
#define UMFI_MAX_MESSAGE    (UNETMM_MAX_MESSAGE - (UNETMM_PAGE_BYTES - 1))
#define UMFI_MAX_RMA        (1ull << 30)
/* Slots of the send queue for the longest one: a message of the card takes two. */
#define UMFI_IOV            4u
#define UMFI_CQ_DATA        4u      /* bytes of immediate data */
/* FI_MR_BASIC, FI_MR_SCALABLE and FI_LOCAL_MR, whose names newer headers warn of */
#define UMFI_MR_BASIC       (1 << 0)
#define UMFI_MR_SCALABLE    (1 << 1)
#define UMFI_LOCAL_MR       (1ull << 55)
#define UMFI_INJECT         UNETMM_MAX_INLINE
/* Slots of the send queue: of the longest copied message, of UMFI_IOV segments, of an RMA */
#define UMFI_COPY_SLOTS     (1 + (UMFI_INJECT - UNETMM_SQE_INLINE + UNETMM_SLOT_BYTES - 1) / \
                             UNETMM_SLOT_BYTES)
#define UMFI_IOV_SLOTS      (1 + (UMFI_IOV - UNETMM_SQE_SEGS + UNETMM_SLOT_SEGS - 1) / \
                             UNETMM_SLOT_SEGS)
#define UMFI_RMA_SLOTS      (UMFI_IOV_SLOTS * (UMFI_MAX_RMA / UNETMM_MAX_MESSAGE))
static_assert(UMFI_COPY_SLOTS >= UMFI_IOV_SLOTS, "the slots of any operation");
#define UMFI_TX_SIZE        256u    /* operations of an EP, unless it says so */
#define UMFI_RX_SIZE        256u

#define UMFI_WARN(subsys, ...)  FI_WARN(&umfi_provider, subsys, __VA_ARGS__)
#define UMFI_INFO(subsys, ...)  FI_INFO(&umfi_provider, subsys, __VA_ARGS__)

/* Of functions that would only lengthen their callers */
#define UMFI_RARE   static __attribute__((__noinline__))

/* Of the clock that deadlines are of. */
static inline int64_t umfi_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

struct umfi_fabric;
struct umfi_domain;
struct umfi_ep;
struct umfi_port;

#include "absent.h"
#include "config.h"

/* ---- Errors for programs (error.c), of libfabric and positive ------------ */

/* The errno of a card's status, UNETMM_ST_*: of an operation, 0 for success ... */
int umfi_operation_error(unsigned status);
/* ... and of a connection that there is not yet, never 0. */
int umfi_connection_error(unsigned status);
/* The errno that a program gets for an error of unetmm_connect_ex() */
int umfi_call_error(int ret);

/* ---- Fabric (fabric.c) --------------------------------------------------- */

struct umfi_fabric {
    struct fid_fabric fid;
    struct sys_lock lock;
    struct unetmm_ctx *ctx;
    struct umfi_netdev dev;
    int epoll;                  /* ctx, for channels to accept; neighbours; the CM ports */
    int neighbours;             /* changes of the kernel's neighbour table */
    struct umfi_list cm_ports;
    struct umfi_list ports;     /* those for data */
    struct umfi_cm_port *request_port;  /* for our own requests; NULL: none yet */
    void *peers;                /* see peer.c */
    struct umfi_list callees, ready, calls_running, calls_ended;    /* see cm_caller.c */
    unsigned threads;           /* those of `calls_running` */
    struct sys_lock spans_lock;
    struct umfi_span *spans;    /* see pin.c */
    uint64_t next_export;       /* the number of the next export */
    unsigned users;
};

/* Of libfabric before 1.5: it does not set the data of an error's entry, or has no size of them. */
static inline bool umfi_is_old_caller(const struct umfi_fabric *fabric)
{
    return FI_VERSION_LT(fabric->fid.api_version, FI_VERSION(1, 5));
}

int umfi_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric,
                     void *context);
int umfi_trywait(struct fid_fabric *fabric, struct fid **fids, int count);

/* ---- Registered pages of source `pinned` (pin.c), under no lock ---------- */

/* With other sources these do nothing. */
int umfi_pin(struct umfi_fabric *fabric, const void *addr, size_t len);
void umfi_unpin(struct umfi_fabric *fabric, const void *addr, size_t len);

/* ---- Event queue (eq.c, eq_event.c) ----------------------------------------- */

struct umfi_event {
    struct umfi_event *next;
    uint32_t event;
    int err;
    fid_t fid;
    struct fi_info *info;
    size_t len;
    bool peeked;                /* the program knows `info`, and will read the event */
    char data[];
};

#define UMFI_LOOK_MS    100     /* between looks at the ports, while somebody sleeps */

struct umfi_eq {
    struct fid_eq fid;
    struct sys_lock lock;
    struct umfi_fabric *fabric;
    struct umfi_event *head, **tail;
    void *err_data;             /* of the last error read */
    bool overrun;               /* an event was lost: after the others reads fail */
    int epoll;                  /* the fabric's, and: */
    int event_fd;               /* readable while there are events */
    int timer;                  /* readable when the ports are to be looked at */
    unsigned channels;          /* EPs that are neither idle nor ended */
    unsigned users;
};

int umfi_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr,
                 struct fid_eq **eq, void *context);
/*
 * Takes `info`.  `err` not 0: an event of failure.  -FI_ENOMEM or -FI_EOVERRUN: there is no event,
 * and the caller undoes its cause, or tries again.
 */
int umfi_eq_push_event(struct umfi_eq *eq, uint32_t event, fid_t fid, int err,
                       struct fi_info *info, const void *data, size_t len);
/* Tells of a step of an EP, which is not undone: without memory the queue is overrun. */
void umfi_ep_push_event(struct umfi_ep *ep, uint32_t event, int err, const void *data, size_t len);
/* Takes an event out of the list, under eq.lock; the descriptor is readable while there is one. */
struct umfi_event *umfi_event_unlink(struct umfi_eq *eq, struct umfi_event **at);
/* Removes the events of a closed object. */
void umfi_eq_remove_events(struct umfi_eq *eq, fid_t fid);
/* Removes the FI_CONNREQ with that handle.  False: the program has seen the event. */
bool umfi_eq_withdraw_request(struct umfi_eq *eq, fid_t handle);
int umfi_eq_trywait(struct umfi_eq *eq);
/* The next look at the ports, for a program that sleeps at the queue; or none. */
void umfi_eq_set_timer(struct umfi_eq *eq);

/* ---- Domain and memory (domain.c, mr.c) ---------------------------------- */

/* Closed endpoints whose memory a domain keeps: the channels of an endpoint of the card */
#define UMFI_CLOSED_KEPT    1024

struct umfi_domain {
    struct fid_domain fid;
    struct sys_lock lock;
    struct umfi_fabric *fabric;
    uint64_t whole, whole_key;  /* the export of everything, its key; 0: none yet */
    struct umfi_list eps;
    struct umfi_ep *closed[UMFI_CLOSED_KEPT];   /* see keep_closed() */
    unsigned nclosed;
    unsigned users;
};

int umfi_domain_open(struct fid_fabric *fabric, struct fi_info *info,
                     struct fid_domain **domain, void *context);

extern struct fi_ops_mr umfi_mr_ops;
/* Ends the export of everything. */
void umfi_mr_end_whole(struct umfi_domain *domain);

static inline void umfi_lock(struct umfi_domain *domain)
{
    sys_lock_take(&domain->lock);
}

static inline void umfi_unlock(struct umfi_domain *domain)
{
    sys_lock_drop(&domain->lock);
}

#include "endpoint.h"
#include "data.h"
#include "connect.h"

#endif /* UNETMM_PROVIDER_H */
