/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Connection management: the types and calls that its files share, from the lowest file to the
 * highest.  Each file names the lifetimes at its top, and calls no file above it.  fabric.lock
 * guards all members.
 */
#ifndef UMFI_CM_H
#define UMFI_CM_H

#include "provider.h"

#define UMFI_CM_SERVICE     0x756d666900000000ull   /* with a port: a PEP */
#define UMFI_CM_BACKLOG     64
#define UMFI_CM_COMPLETIONS 1024u   /* that a CM port has room for */

/* ---- Messages (cm_wire.c) ---------------------------------------------------- */

enum umfi_message_type { UMFI_REQUEST = 1, UMFI_ACCEPT, UMFI_REJECT };

/* Little-endian; longer than a message that arrives inside of its completion. */
struct umfi_message {
    uint32_t magic;
    uint16_t version;
    uint16_t type;
    uint64_t service;           /* REQUEST: of the connector's data port */
    uint32_t endpoint;          /* ACCEPT: the acceptor's ... */
    uint32_t channel;           /* ... of the card, and channel of it */
    uint32_t address;           /* REQUEST: the connector's, in network order */
    uint16_t port;
    uint16_t len;
    uint8_t data[UMFI_CM_DATA];
};

/*
 * CALLED, ASIDE, REQUESTED, ORPHANED, ANSWERED: an acceptor's.  All but ORPHANED and ENDED
 * have a channel.
 */
enum umfi_conn_state {
    UMFI_CONN_NEW,
    UMFI_CONN_REQUESTING,       /* a connector's: the peer is to answer */
    UMFI_CONN_CALLED,           /* the peer is to send its REQUEST */
    UMFI_CONN_ASIDE,            /* the kernel asks for the address in `request` */
    UMFI_CONN_REQUESTED,        /* the program is to answer: it has the handle */
    UMFI_CONN_ORPHANED,         /* the same, but the channel has ended */
    UMFI_CONN_ANSWERED,         /* the peer is to end the channel, when it has the answer */
    UMFI_CONN_ENDED,            /* and is freed */
    UMFI_CONN_STATES
};

struct umfi_conn {
    struct fid fid;             /* the handle in FI_CONNREQ's info */
    struct umfi_list node;      /* port.conns */
    struct umfi_cm_port *port;
    struct umfi_ep *ep;         /* that asks, or is to answer */
    unsigned channel;
    enum umfi_conn_state state; /* umfi_conn_set_state() alone writes it */
    uint8_t mac[6];
    struct umfi_peer *counts;   /* at the EP's port (a connector's), or at the CM port */
    uint64_t service;
    int64_t until_ms;           /* the end of REQUESTING, of ASIDE, or of ANSWERED */
    struct sockaddr_in peer;
    struct umfi_message request;
};

int umfi_conn_send_message(struct umfi_conn *conn, struct umfi_message *m,
                           enum umfi_message_type type, const void *data, size_t len);
/* False: the message was logged, and its channel is to end. */
bool umfi_message_is_sound(const struct umfi_message *m, size_t len);
bool umfi_message_not_expected(const struct umfi_message *m);

/* ---- CM ports (cm_port.c) -------------------------------------------------- */

struct umfi_cm_port {
    struct umfi_list node;      /* fabric.cm_ports */
    struct umfi_list conns;
    struct umfi_fabric *fabric;
    bool listens;               /* or has listened; else it is the fabric's own */
    struct umfi_pep *pep;       /* NULL: the fabric's own, or the PEP was closed */
    struct unetmm_ep *ep;
    struct umfi_conn **by_channel;
    uint8_t *channel_ends;          /* by channel: UMFI_END_* */
    uint8_t *buffers;
    uint64_t refused;               /* buffers that the library has not taken */
    unsigned idle, idle_most;       /* conns: see umfi_conn_make_room() */
    unsigned calling;               /* calls that use it without the lock */
    bool failed;                    /* the card stopped the endpoint */
    bool told;                      /* the program knows */
};

int umfi_cm_port_open(struct umfi_fabric *fabric, struct umfi_pep *pep,
                      struct umfi_cm_port **port);
void umfi_cm_port_free(struct umfi_cm_port *port);
/* The next completion, if there is one. */
bool umfi_cm_port_poll(struct umfi_cm_port *port, struct unetmm_completion *c);
/* NULL: the channel has been left, or no conn has it yet. */
struct umfi_conn *umfi_cm_port_find_conn(const struct umfi_cm_port *port, unsigned channel);
/* The CLOSED of a channel has been taken. */
void umfi_cm_port_take_end(struct umfi_cm_port *port, unsigned channel);
/* A channel that no conn has is to end, or has ended already. */
bool umfi_cm_port_knows_end(const struct umfi_cm_port *port, unsigned channel);
/* The message in the completion's buffer, if the latter has one, which is the card's again. */
void umfi_cm_port_copy_message(struct umfi_cm_port *port, const struct unetmm_completion *c,
                               struct umfi_message *m);
void umfi_cm_port_post_refused(struct umfi_cm_port *port);
void umfi_cm_port_end_channel(struct umfi_cm_port *port, unsigned channel);

/* ---- Conns, and the EP of one (cm_conn.c) -------------------------------------- */

/* `ep` NULL: a caller.  NULL: no memory, or the peer has ended the channel, which ends. */
struct umfi_conn *umfi_conn_open(struct umfi_cm_port *port, unsigned channel,
                                 const uint8_t mac[6], struct umfi_ep *ep);
void umfi_conn_set_state(struct umfi_conn *conn, enum umfi_conn_state state);
/* `error`: for an EP that waits for its connection; 0: the connection is there, or refused. */
void umfi_conn_free(struct umfi_conn *conn, int error);
void umfi_conn_make_room(struct umfi_cm_port *port, const uint8_t mac[6]);
/* ACCEPT or REJECT is the last message: the peer is to end the channel. */
void umfi_conn_send_answer(struct umfi_conn *conn, struct umfi_message *m,
                           enum umfi_message_type type, const void *data, size_t len);
struct umfi_conn *umfi_conn_find(struct umfi_fabric *fabric, fid_t handle);
/* The EP connects: it asks, or it `accepts`.  -FI_EISCONN; -FI_EIO: its port has failed */
int umfi_ep_begin_connecting(struct umfi_ep *ep, bool accepts);
/* The request was refused, or has failed. */
void umfi_ep_fail_connecting(struct umfi_ep *ep, int error, const void *data, size_t len);
/* The caller names the peer. */
struct umfi_call *umfi_call_create(struct umfi_ep *ep, const void *data, size_t len,
                                   void (*called)(struct umfi_call *call, int channel));
/* The call has ended.  Its EP, or NULL. */
struct umfi_ep *umfi_call_release_ep(struct umfi_call *call);

/* ---- Ends (cm_ending.c) ------------------------------------------------------- */

/* The channel has ended, or says nonsense.  `error`: as that of umfi_conn_free() */
void umfi_conn_drop(struct umfi_conn *conn, int error);
void umfi_cm_port_drop_conns(struct umfi_cm_port *port);
void umfi_cm_port_end_late_conns(struct umfi_cm_port *port);
void umfi_cm_port_end_unneeded_conns(struct umfi_cm_port *port);
/* Ends all conns of the port, and the port. */
void umfi_cm_port_end(struct umfi_cm_port *port);

/* ---- Messages of peers (cm_connector.c, cm_acceptor.c).  False: the channel is to end. --- */

bool umfi_cm_handle_accept(struct umfi_conn *conn, const struct umfi_message *m);
bool umfi_cm_handle_reject(struct umfi_conn *conn, const struct umfi_message *m);
bool umfi_cm_handle_request(struct umfi_conn *conn, const struct umfi_message *m);
/* How many; no more than can wait at a time. */
unsigned umfi_cm_accept_callers(struct umfi_cm_port *port);
/* The kernel may know the card that has the address: of the requests that were put aside for it. */
void umfi_cm_check_aside(struct umfi_fabric *fabric, struct in_addr address);

/* ---- Progress (cm_progress.c) -------------------------------------------------- */

void umfi_cm_port_progress(struct umfi_cm_port *port);

#endif /* UMFI_CM_H */
