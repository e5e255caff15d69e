/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Connections: requests, calls of drivers, channels that have come.
 */
#ifndef UMFI_CONNECT_H
#define UMFI_CONNECT_H

#include "endpoint.h"

#include <stdlib.h>

/* ---- Connection management (cm.h) ---------------------------------------- */

struct umfi_pep {
    struct fid_pep fid;
    struct umfi_fabric *fabric;
    struct umfi_eq *eq;
    struct umfi_cm_port *port;  /* NULL: does not listen yet */
    bool begins;                /* umfi_cm_listen() goes on */
    struct sockaddr_in address;
    struct fi_info *info;       /* of the endpoints that accept its requests, but for addresses */
};

/* Under no lock; none waits for a peer: */

/* -FI_EOPBADSTATE: the PEP listens already. */
int umfi_cm_listen(struct umfi_pep *pep);
int umfi_cm_connect(struct umfi_ep *ep, const struct sockaddr_in *to, const void *data,
                    size_t len);
int umfi_cm_accept(struct umfi_ep *ep, const void *data, size_t len);
int umfi_cm_reject(struct umfi_pep *pep, fid_t handle, const void *data, size_t len);
/*
 * Ends the listening.  Connectors that were accepted keep the port until they have
 * taken the connection, in time.  -FI_EBUSY: another thread is in umfi_cm_listen().
 */
int umfi_cm_unlisten(struct umfi_pep *pep);
/* At the fabric's end */
void umfi_cm_close(struct umfi_fabric *fabric);
/* An EP that is to answer a request.  False: there is no such request any more. */
bool umfi_cm_assign_request(struct umfi_fabric *fabric, fid_t handle, struct umfi_ep *ep);
/* Under the fabric's lock: */
void umfi_cm_abandon_ep(struct umfi_ep *ep);
void umfi_cm_progress(struct umfi_fabric *fabric);
/* 1: there is something to do; 0: one may wait for the fabric's epoll. */
int umfi_cm_arm_ports(struct umfi_fabric *fabric);

/* ---- Peers (peer.c), under the fabric's lock ---------------------------------- */

/* The counts of one peer, at a port or among the calls of the fabric */
struct umfi_peer {
    const void *of;             /* the counts are of a data port, a CM port, or (NULL) the fabric's calls */
    uint64_t id;                /* of its card, or an address whose card is not known */
    unsigned users;             /* that count here */
    unsigned idle;              /* at a CM port: conns that only the peer could go on with */
    unsigned requests;          /* at a port for data: conns that ask the peer for a channel, ... */
    unsigned arrivals;          /* ... and its channels that no answer has named */
    unsigned threads;           /* of its calls */
    struct umfi_list node;      /* fabric.callees, or none */
    struct umfi_list ready;     /* fabric.callees_ready, or none */
    struct umfi_list waiting;   /* calls without a thread, the oldest first */
};

uint64_t umfi_card_id(const uint8_t mac[6]);
/* NULL: no memory. */
struct umfi_peer *umfi_peer_get(struct umfi_fabric *fabric, const void *of, uint64_t id);
/* A user ends. */
void umfi_peer_put(struct umfi_fabric *fabric, struct umfi_peer *peer);

/* ---- Calls of peers' drivers (cm_caller.c) ---------------------------------- */

struct umfi_call {
    struct umfi_list node;      /* fabric.calls_running, fabric.calls_ended, or the waiting calls of: */
    struct umfi_peer *callee;
    struct umfi_fabric *fabric;
    struct unetmm_ep *card_ep;  /* gets the channel */
    struct umfi_ep *ep;         /* NULL: closed, and nobody wants the channel */
    struct umfi_port *port;     /* for an answer: of `card_ep` ... */
    struct umfi_cm_port *cm_port;   /* ... for a request */
    struct in_addr to;
    /* The call has its channel, or an error of libfabric; under the fabric's lock. */
    void (*called)(struct umfi_call *call, int channel);
    bool has_mac, cancelled;
    uint8_t mac[6];
    uint64_t service;
    int64_t first_ms;           /* for a driver that says that nobody listens ... */
    int64_t most_ms;            /* ... and for one that says nothing */
    pthread_t thread;
    size_t len;                 /* of the program's data for the peer */
    uint8_t data[UMFI_CM_DATA];
};

/* Under the fabric's lock: takes the call, which ends in called(), perhaps at once. */
void umfi_call_begin(struct umfi_call *call);
/*
 * Under no lock.  No call, or none for a channel of that endpoint (not NULL), goes on; none
 * of them has an EP.
 */
void umfi_calls_cancel(struct umfi_fabric *fabric, const struct unetmm_ep *card_ep);

/* ---- Arrivals (cm_arrival.c), under the fabric's lock ----------------------- */

struct umfi_arrival {
    struct umfi_list node;      /* port.arrivals */
    struct umfi_peer *peer;
    unsigned channel;
    uint32_t endpoint;          /* the peer's ... */
    uint32_t peer_channel;      /* ... and its channel */
    int64_t until_ms;
    bool closed;                /* by the peer; domain.lock */
};

void umfi_arrivals_accept(struct umfi_port *port);
/* Ends those that nobody will name. */
void umfi_arrivals_end_unwanted(struct umfi_port *port);
/* Takes an arrival out of its list, and frees it; under the domain's lock, too. */
static inline void umfi_arrival_free(struct umfi_fabric *fabric, struct umfi_arrival *arrival)
{
    umfi_list_del(&arrival->node);
    arrival->peer->arrivals--;
    umfi_peer_put(fabric, arrival->peer);
    free(arrival);
}
/* One that has not ended; under the domain's lock, too. */
struct umfi_arrival *umfi_arrival_find(struct umfi_port *port, const uint8_t mac[6],
                                       uint32_t endpoint, uint32_t channel);

#endif /* UMFI_CONNECT_H */
