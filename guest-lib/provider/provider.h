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
 * Locks, outermost first:
 *
 *   fabric.lock   CM ports, conns, calls, the lists of ports, registered pages.  Not
 *                 held in calls that wait for a peer.
 *   domain.lock   ports and their queues, CQs, the channel and the state of each
 *                 EP.  The only lock of the data path.
 *   eq.lock       an EQ's list of events; nothing else is locked under it.
 *
 * libunetmm allows unetmm_connect_ex(), _accept() and _listen_ex() beside calls on
 * the queues of the same endpoint, so these need no lock of a port.
 */
#ifndef UNETMM_PROVIDER_H
#define UNETMM_PROVIDER_H

#include "lock.h"

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
#define UMFI_PROTOCOL_VERSION   2u      /* of the messages of cm.c */
#define UMFI_CM_DATA        128u    /* most bytes that go with a request or answer */
#define UMFI_MAX_RMA        (1ull << 30)
/* Slots of the send queue for the longest one: a message of the card takes two. */
#define UMFI_RMA_SLOTS      (2 * (UMFI_MAX_RMA / UNETMM_MAX_MESSAGE))
#define UMFI_IOV            4u
#define UMFI_CQ_DATA        4u      /* bytes of immediate data */
/* FI_MR_BASIC, FI_MR_SCALABLE and FI_LOCAL_MR, whose names newer headers warn of */
#define UMFI_MR_BASIC       (1 << 0)
#define UMFI_MR_SCALABLE    (1 << 1)
#define UMFI_LOCAL_MR       (1ull << 55)
#define UMFI_INJECT         UNETMM_MAX_INLINE
#define UMFI_TX_SIZE        256u    /* operations of an EP, unless it says so */
#define UMFI_RX_SIZE        256u

#define UMFI_WARN(subsys, ...)  FI_WARN(&umfi_provider, subsys, __VA_ARGS__)
#define UMFI_INFO(subsys, ...)  FI_INFO(&umfi_provider, subsys, __VA_ARGS__)

/* The structure that has `pointer` as its `member`. */
#define umfi_of(pointer, type, member) \
    ((type *)(void *)((char *)(pointer) - offsetof(type, member)))

/* Of functions that would only lengthen their callers */
#define UMFI_RARE   static __attribute__((__noinline__))

/* Of the clock that deadlines are of. */
static inline int64_t umfi_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

struct umfi_domain;
struct umfi_ep;
struct umfi_port;

/* ---- Configuration (init.c) ------------------------------------------------ */

struct umfi_config {
    char *device;
    unsigned source;            /* UNETMM_SOURCE_* */
    bool unknown_source;        /* the user wants another one: there is nothing */
    unsigned policy;            /* UNETMM_POLICY_* of endpoints, with that source */
    bool whole;                 /* all regions of a domain have the key of one export */
    int connect_ms;
    int close_ms;
    int timeout_us;             /* of channels, before the first repetition */
};

struct fi_provider *fi_prov_ini(void);  /* newer headers do not declare it */
extern struct fi_provider umfi_provider;
extern struct umfi_config umfi_config;

static inline struct unetmm_channel_attr umfi_channel_attr(void)
{
    return (struct unetmm_channel_attr) {
        .size = sizeof(struct unetmm_channel_attr),
        .flags = UNETMM_RELIABLE | UNETMM_NOTIFY_CLOSE,
        .timeout_us = (uint32_t)umfi_config.timeout_us,
    };
}

/* ---- Addresses (address.c) ------------------------------------------------- */

struct umfi_netdev {
    char name[16];
    unsigned index;
    struct in_addr address;
    struct in_addr mask;
    uint8_t mac[6];
    struct unetmm_info card;
};

/* The card's network interface.  -FI_ENODATA: no card, or no IPv4 address. */
int umfi_netdev_find(struct umfi_netdev *dev);
bool umfi_netdev_reaches(const struct umfi_netdev *dev, struct in_addr to);
/* The address of the card of `to`, by ARP.  -FI_EHOSTUNREACH. */
int umfi_resolve(const struct umfi_netdev *dev, struct in_addr to, uint8_t mac[6]);
/*
 * 0: the card `mac` has that address.  -FI_EACCES: another card has the address.
 * -FI_EAGAIN: the kernel asks for the card; ask again when the neighbour table has changed.
 */
int umfi_has_address(const struct umfi_netdev *dev, const uint8_t mac[6],
                     struct in_addr address);
/* A descriptor that is readable when the neighbour table has changed; -1: see errno. */
int umfi_neighbours_open(void);
/* Empties the descriptor. */
bool umfi_neighbours_changed(int fd);

/* ---- Descriptions for fi_getinfo() (info.c) -------------------------------- */

int umfi_getinfo(uint32_t version, const char *node, const char *service,
                 uint64_t flags, const struct fi_info *hints,
                 struct fi_info **info);
/* One description, without any hints; NULL: no memory. */
struct fi_info *umfi_info_alloc(const struct umfi_netdev *dev,
                                const struct sockaddr_in *src,
                                const struct sockaddr_in *dst);

/* ---- Fabric (fabric.c) ----------------------------------------------------- */

struct umfi_list {
    struct umfi_list *next, *prev;
};

struct umfi_fabric {
    struct fid_fabric fid;
    pthread_mutex_t lock;
    struct unetmm_ctx *ctx;
    struct umfi_netdev dev;
    int epoll;                  /* ctx, for channels to accept; neighbours; the CM ports */
    int neighbours;             /* changes of the kernel's neighbour table */
    struct umfi_list cm_ports;
    struct umfi_list ports;     /* those for data */
    struct umfi_cm_port *active;    /* requests that we make; NULL: none yet */
    struct umfi_list to_call, calling, called;  /* see caller.c */
    struct umfi_span *spans;    /* see pin.c */
    uint64_t next_export;       /* the number of the next export */
    unsigned users;
};

int umfi_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric,
                     void *context);
int umfi_trywait(struct fid_fabric *fabric, struct fid **fids, int count);

/* ---- Registered pages of source `pinned` (pin.c), under no lock ------------- */

/* With other sources these do nothing. */
int umfi_pin(struct umfi_fabric *fabric, const void *addr, size_t len);
void umfi_unpin(struct umfi_fabric *fabric, const void *addr, size_t len);

/* ---- Event queue (eq.c) ---------------------------------------------------- */

struct umfi_eq {
    struct fid_eq fid;
    pthread_mutex_t lock;
    struct umfi_fabric *fabric;
    struct umfi_event *head, **tail;
    void *err_data;             /* of the last error read */
    int epoll;                  /* the fabric's, and: */
    int event_fd;               /* readable while there are events */
    int timer;                  /* readable when the ports are to be looked at */
    unsigned channels;          /* EPs that are neither idle nor ended */
    unsigned users;
};

int umfi_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr,
                 struct fid_eq **eq, void *context);
/* Takes `info`.  `err` not 0: an event of failure. */
void umfi_eq_push(struct umfi_eq *eq, uint32_t event, fid_t fid, int err,
                  struct fi_info *info, const void *data, size_t len);
/* Removes the events of a closed object. */
void umfi_eq_forget(struct umfi_eq *eq, fid_t fid);
/* Removes the FI_CONNREQ with that handle.  False: the program has seen the event. */
bool umfi_eq_withdraw(struct umfi_eq *eq, fid_t handle);
int umfi_eq_trywait(struct umfi_eq *eq);

/* ---- Domain and memory (domain.c, mr.c) ------------------------------------ */

/* Closed endpoints whose memory a domain keeps: the channels of an endpoint of the card */
#define UMFI_CLOSED_KEPT    1024

struct umfi_domain {
    struct fid_domain fid;
    struct umfi_lock lock;
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
    umfi_lock_take(&domain->lock);
}

static inline void umfi_unlock(struct umfi_domain *domain)
{
    umfi_lock_drop(&domain->lock);
}

/* ---- Completion queue (cq.c) ----------------------------------------------- */

struct umfi_entry {
    struct fi_cq_tagged_entry e;    /* the other formats are its first members */
    size_t olen;
    int err;
    int status;                 /* UNETMM_ST_*, if the card said so */
};

struct umfi_cq {
    struct fid_cq fid;
    struct fi_ops_cq ops;       /* with the functions for its format */
    struct umfi_domain *domain;
    struct umfi_entry *ring;
    uint32_t mask, prod, cons;
    size_t entry_bytes;
    struct umfi_port **ports;
    unsigned *port_users;
    unsigned nports;
    struct umfi_port *only;     /* the port, if there is one and the ring is empty */
    int epoll;                  /* -1: no wait object */
    int event_fd;
    bool armed;                 /* a waiter is to be told of new entries */
    bool signaled;
    unsigned users;
};

int umfi_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr,
                 struct fid_cq **cq, void *context);
/* All under the domain's lock. */
void umfi_cq_push(struct umfi_cq *cq, const struct umfi_entry *entry);
int umfi_cq_attach(struct umfi_cq *cq, struct umfi_port *port);
void umfi_cq_detach(struct umfi_cq *cq, struct umfi_port *port);
int umfi_cq_trywait(struct umfi_cq *cq);

/* ---- Ports (port.c) -------------------------------------------------------- */

/* An operation in progress; the card has its address as user_data. */
struct umfi_op {
    void *context;
    uint64_t flags;             /* of the completion; FI_COMPLETION: there is one */
    size_t len;
    void *buf;
    struct umfi_ep *ep;         /* NULL: of an SRX, or the EP was closed */
    /*
     * If it has one part, and its success is to be an entry: the queue of a send, the port
     * of a receive, whose queue is that of the EP that it comes to.  Else NULL.
     */
    const void *usual;
    struct umfi_op *next;       /* free */
    uint32_t parts;             /* descriptors that the card still has */
    uint8_t status;
    bool busy;
    bool done;                  /* completed here: the card's answer is not awaited */
    bool kept;                  /* it is ep.fence */
};

struct umfi_port {
    struct umfi_list node;      /* fabric.ports */
    struct umfi_list arrivals;  /* see arrival.c; changed under fabric.lock, too */
    struct umfi_list accepting; /* EPs whose connector has not taken the channel yet */
    struct umfi_list ending;    /* EPs that fi_shutdown() was called for */
    struct umfi_domain *domain;
    struct unetmm_ep *ep;
    struct umfi_ep **by_channel;
    struct umfi_op *ops, *free;
    uint64_t service;           /* acceptors connect to it; hard to guess */
    uint64_t *ended;            /* by channel: see umfi_port_mark() */
    uint64_t nended;
    uint32_t nops, channels, slots, depth;
    bool failed;                /* the card stopped the endpoint */
    char scratch;               /* the buffer of an empty receive */
};

int umfi_port_open(struct umfi_domain *domain, size_t tx_size, size_t rx_size,
                   struct umfi_port **port);
void umfi_port_close(struct umfi_port *port);

/* Under the domain's lock: */
void umfi_port_progress(struct umfi_port *port);
/*
 * Before a channel is opened: the ends, of channels that no EP has, which have come until
 * then.  A later one is the new channel's, though it comes before an EP has the channel;
 * an earlier one was that of a channel with the same number.
 */
uint64_t umfi_port_mark(struct umfi_port *port);
static inline bool umfi_port_has_ended(const struct umfi_port *port, unsigned channel,
                                       uint64_t mark)
{
    return port->failed || (channel < port->channels && port->ended[channel] > mark);
}
void umfi_port_claim(struct umfi_port *port, struct umfi_ep *ep);
void umfi_port_release(struct umfi_port *port, struct umfi_ep *ep);
/*
 * Completes with FI_ECANCELED the operations of an EP, or of all EPs (NULL): its
 * receives, or all.
 */
void umfi_port_cancel(struct umfi_port *port, struct umfi_ep *ep, bool receives);

/*
 * Fills the next free operation, of one descriptor; it stays free until umfi_op_begin(), for
 * which the caller then has to remember nothing.  NULL: all are in progress.
 */
static inline struct umfi_op *umfi_op_fill(const struct umfi_port *port,
                                           struct umfi_ep *ep, void *buf, size_t len,
                                           void *context, uint64_t flags,
                                           const void *usual)
{
    struct umfi_op *op = port->free;

    if (op) {
        op->context = context;
        op->flags = flags;
        op->len = len;
        op->buf = buf;
        op->ep = ep;
        op->usual = usual;
        op->parts = 1;
        op->status = 0;
        op->done = false;
    }
    return op;
}

/* The operation that was filled is in progress. */
static inline void umfi_op_begin(struct umfi_port *port)
{
    struct umfi_op *op = port->free;

    op->busy = true;
    port->free = op->next;
}

static inline void umfi_op_free(struct umfi_port *port, struct umfi_op *op)
{
    op->busy = false;
    op->next = port->free;
    port->free = op;
}

/* The entry of an operation of this side. */
UMFI_INLINE void umfi_fill_done(struct fi_cq_tagged_entry *entry,
                                const struct umfi_op *op, size_t len)
{
    entry->op_context = op->context;
    /* The flag of a write says how it was posted. */
    entry->flags = op->flags & ~(FI_COMPLETION | FI_REMOTE_CQ_DATA);
    entry->len = len;
    entry->buf = op->buf;
    entry->data = 0;
    entry->tag = 0;
}

/* Of a message, or of data that have used up a buffer without filling it. */
UMFI_INLINE void umfi_fill_received(struct fi_cq_tagged_entry *entry,
                                    const struct umfi_op *op,
                                    const struct unetmm_completion *c)
{
    bool written = c->type == UNETMM_CQE_WRITTEN, imm = c->flags & UNETMM_CQE_F_IMM;

    entry->op_context = op->context;
    entry->flags = (written ? FI_RMA | FI_REMOTE_WRITE : FI_MSG | FI_RECV) |
        (imm ? FI_REMOTE_CQ_DATA : 0);
    entry->len = c->len;
    entry->buf = written ? NULL : op->buf;
    entry->data = imm ? c->imm : 0;
    entry->tag = 0;
}

static inline unsigned umfi_card_flags(uint64_t flags)
{
    return (flags & FI_INJECT ? UNETMM_INLINE : 0) |
           (flags & FI_MORE ? UNETMM_MORE : 0);
}

/* An errno of libunetmm as libfabric's. */
static inline ssize_t umfi_error(int ret)
{
    return ret == -ENOENT ? -FI_ENOTCONN : ret;
}

/* ---- Endpoints (ep.c, srx.c, pep.c) ---------------------------------------- */

/*
 * CONNECTING: without a channel.  ACCEPTING: with a channel, which the connector has not
 * taken yet.  ENDING: the peer's card has not yet all that was sent.
 */
enum umfi_state {
    UMFI_IDLE, UMFI_CONNECTING, UMFI_ACCEPTING, UMFI_CONNECTED, UMFI_ENDING, UMFI_ENDED,
};

struct umfi_ep {
    struct fid_ep fid;
    struct umfi_domain *domain;
    struct umfi_port *port;     /* NULL: not enabled */
    struct umfi_srx *srx;       /* NULL: the port is its own */
    struct umfi_cq *tx_cq, *rx_cq;
    uint64_t tx_completion;     /* FI_COMPLETION, or 0: selective */
    uint64_t rx_completion;
    uint64_t tx_flags, rx_flags;    /* of calls without flags */
    unsigned channel;
    bool open;                  /* the channel's number is ours */
    enum umfi_state state;
    struct umfi_list node;      /* port.accepting, port.ending */
    struct umfi_list in_domain; /* domain.eps */
    struct umfi_op *fence;      /* that has not completed; NULL: none */
    bool fenced;                /* behind all that was sent: then none is needed any more */
    int64_t fence_ms, until_ms; /* the peer's time for the fence, and that of ENDING */
    struct umfi_eq *eq;
    struct umfi_conn *conn;     /* the request it makes or answers */
    struct umfi_call *call;     /* for the channel of its request, or of its answer */
    size_t tx_size, rx_size;
    struct sockaddr_in src, dst;
};

/* NULL: the channel is nobody's, or not yet. */
static inline struct umfi_ep *umfi_port_owner(const struct umfi_port *port,
                                              unsigned channel)
{
    return channel < port->channels ? port->by_channel[channel] : NULL;
}

struct umfi_srx {
    struct fid_ep fid;
    struct umfi_domain *domain;
    struct umfi_port *port;
    unsigned users;
};

int umfi_ep_open(struct fid_domain *domain, struct fi_info *info,
                 struct fid_ep **ep, void *context);
int umfi_ep_enable(struct umfi_ep *ep);
/* Under the domain's lock: */
/*
 * The EP has that channel, which was opened after the mark.  From its peer nothing has come
 * yet but the end, perhaps: false.
 */
bool umfi_ep_expect(struct umfi_ep *ep, unsigned channel, uint64_t mark);
/* Both sides have it; the program gets `data`. */
void umfi_ep_connected(struct umfi_ep *ep, const void *data, size_t len);
/* The channel has ended, by the peer or by failure. */
void umfi_ep_ended(struct umfi_ep *ep, int status);
/* The connector did not take it, as far as is known. */
void umfi_ep_abort(struct umfi_ep *ep);
/* There is no channel to the connector: the program learns of an end at once. */
void umfi_ep_unreached(struct umfi_ep *ep);
/* Ends those of port.ending whose peer's card has all that was sent, or had its time. */
void umfi_ep_end_drained(struct umfi_port *port);
/* At the domain's end */
void umfi_ep_free_closed(struct umfi_domain *domain);
int umfi_srx_open(struct fid_domain *domain, struct fi_rx_attr *attr,
                  struct fid_ep **ep, void *context);
int umfi_pep_open(struct fid_fabric *fabric, struct fi_info *info,
                  struct fid_pep **pep, void *context);
int umfi_copy_address(const struct sockaddr_in *from, void *to, size_t *len);

int umfi_getopt(fid_t fid, int level, int name, void *value, size_t *len);
int umfi_setopt(fid_t fid, int level, int name, const void *value, size_t len);

extern struct fi_ops_ep umfi_ep_ops;
extern struct fi_ops_msg umfi_msg_ops, umfi_srx_msg_ops;
/* Under the domain's lock: a receive buffer that the card has filled for nobody. */
int umfi_post_again(struct umfi_port *port, struct umfi_op *op);
extern struct fi_ops_rma umfi_rma_ops;

/* ---- Connection management (cm.c) ------------------------------------------ */

struct umfi_pep {
    struct fid_pep fid;
    struct umfi_fabric *fabric;
    struct umfi_eq *eq;
    struct umfi_cm_port *port;  /* NULL: does not listen yet */
    struct sockaddr_in address;
    size_t max_msg_size;        /* of the caller's fi_getinfo() */
};

/* Not under any lock.  None waits for a peer. */
/* -FI_EOPBADSTATE: it listens. */
int umfi_cm_listen(struct umfi_pep *pep);
int umfi_cm_connect(struct umfi_ep *ep, const struct sockaddr_in *to, const void *data,
                    size_t len);
int umfi_cm_accept(struct umfi_ep *ep, const void *data, size_t len);
int umfi_cm_reject(struct umfi_pep *pep, fid_t handle, const void *data, size_t len);
/*
 * Nobody listens any more.  Connectors that have their answer keep the port until they have
 * taken the connection, in time.
 */
void umfi_cm_unlisten(struct umfi_pep *pep);
/* At the fabric's end */
void umfi_cm_close(struct umfi_fabric *fabric);
/* An EP that is to answer a request.  False: there is no such request any more. */
bool umfi_cm_take(struct umfi_fabric *fabric, fid_t handle, struct umfi_ep *ep);
/* Under the fabric's lock: */
/* The call has its channel, or an error. */
void umfi_cm_called(struct umfi_call *call, int channel);
void umfi_cm_abandon(struct umfi_ep *ep);
/* Requests for a channel to that port which the card is to answer */
unsigned umfi_cm_requests(const struct umfi_port *port, const uint8_t mac[6]);
void umfi_cm_progress(struct umfi_fabric *fabric);
/* 1: there is something to do; 0: one may wait for the fabric's epoll. */
int umfi_cm_arm(struct umfi_fabric *fabric);

/* ---- Calls of peers' drivers (caller.c) ------------------------------------ */

struct umfi_call {
    struct umfi_list node;      /* of one of the fabric's three lists */
    struct umfi_fabric *fabric;
    struct unetmm_ep *card;     /* the channel is to be one of it */
    struct umfi_ep *ep;         /* NULL: closed, and nobody wants the channel */
    struct umfi_port *port;     /* for an answer: of `card`.  NULL: for a request */
    uint64_t mark;              /* of that port: umfi_port_mark() */
    struct in_addr to;
    bool has_mac, cancelled;
    uint8_t mac[6];
    uint64_t service;
    int64_t first_ms;           /* for a driver that says that nobody listens ... */
    int64_t most_ms;            /* ... and for one that says nothing */
    pthread_t thread;
    size_t len;                 /* of the program's data for the peer */
    uint8_t data[UMFI_CM_DATA];
};

/* Under the fabric's lock: takes the call, which ends in umfi_cm_called(), perhaps at once. */
void umfi_call_begin(struct umfi_call *call);
/*
 * Under no lock.  No call, or none for a channel of that endpoint (not NULL), goes on; none
 * of them has an EP.
 */
void umfi_calls_cancel(struct umfi_fabric *fabric, const struct unetmm_ep *card);

/* ---- Arrivals (arrival.c), under the fabric's lock ------------------------- */

struct umfi_arrival {
    struct umfi_list node;      /* port.arrivals */
    unsigned channel;
    uint8_t mac[6];
    uint32_t endpoint;          /* the peer's ... */
    uint32_t peer_channel;      /* ... and its channel */
    int64_t until_ms;
    bool closed;                /* by the peer; domain.lock */
};

void umfi_arrivals_take(struct umfi_port *port);
/* Ends those that nobody will name. */
void umfi_arrivals_sweep(struct umfi_port *port);
struct umfi_arrival *umfi_arrival_find(struct umfi_port *port, const uint8_t mac[6],
                                       uint32_t endpoint, uint32_t channel);
/* At the port's end */
void umfi_arrivals_drop(struct umfi_port *port);
/* Under the domain's lock: the channel, which no EP has, was closed by its peer. */
void umfi_arrival_closed(struct umfi_port *port, unsigned channel);

/* ---- Lists, and operations that are not supported (absent.c) --------------- */

static inline void umfi_list_init(struct umfi_list *list)
{
    list->next = list->prev = list;
}

static inline void umfi_list_add(struct umfi_list *list, struct umfi_list *node)
{
    node->next = list;
    node->prev = list->prev;
    list->prev->next = node;
    list->prev = node;
}

static inline void umfi_list_del(struct umfi_list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    umfi_list_init(node);
}

int umfi_no_bind(fid_t fid, fid_t to, uint64_t flags);
int umfi_no_control(fid_t fid, int command, void *arg);
int umfi_no_ops_open(fid_t fid, const char *name, uint64_t flags, void **ops,
                     void *context);
int umfi_no_join(struct fid_ep *ep, const void *addr, uint64_t flags,
                 struct fid_mc **mc, void *context);

#endif /* UNETMM_PROVIDER_H */
