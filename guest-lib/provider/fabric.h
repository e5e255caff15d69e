/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Fabrics, event queues, domains and their memory.
 */
#ifndef UMFI_FABRIC_H
#define UMFI_FABRIC_H

#include "config.h"

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
    struct umfi_list callees, callees_ready, calls_running, calls_ended;    /* see cm_caller.c */
    unsigned threads;           /* those of `calls_running` */
    struct sys_lock spans_lock;
    struct umfi_span *spans;    /* see pin.c */
    uint64_t next_export;       /* the number of the next export */
    unsigned users;
};

/* The caller uses the API before 1.5: its error entries have no err_data_size, or leave it unset. */
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

#endif /* UMFI_FABRIC_H */
