/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The library's objects, as its files know them.  Nothing here is exported; the unit
 * tests link it statically.
 */
#ifndef UNETMM_BASE_H
#define UNETMM_BASE_H

#include <libunetmm/inline.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "../sys/sized.h"
#include "../sys/sys.h"

struct unetmm_utlb_ctx;
struct unetmm_utlb_ep;
struct unetmm_utlb_exported;
struct unetmm_event_private;

struct unetmm_ctx {
    int fd;
    unsigned source;
    struct unetmm_info info;
    atomic_uint endpoints;
    const uint32_t *alive;      /* in a page that is wiped in a child */
    struct unetmm_utlb_ctx *utlb; /* source utlb */
    struct unetmm_utlb_exported *exported; /* source utlb; utlb/export.c */
    pthread_mutex_t exported_lock; /* guards `exported` and the driver's list */
    atomic_uint counters;       /* event_counter.c */
    pthread_mutex_t counter_lock; /* guards counter_page */
    void *counter_page;         /* NULL: there was none yet */
};

/* Ends an object; `count` event counters from the first on, else 0.  0, or -errno. */
static inline int unetmm_object_end(const struct unetmm_ctx *ctx, uint32_t type,
                                    uint32_t endpoint, uint64_t id, uint32_t count)
{
    struct unetmm_destroy request = {
        .size = sizeof(request), .endpoint = endpoint, .type = type,
        .count = count, .id = id,
    };
    int ret = sys_ioctl(ctx->fd, UNETMM_IOC_DESTROY, &request);

    return ret < 0 ? ret : 0;
}

struct unetmm_upcall {
    unetmm_handler handler;
    void *arg;
};

struct unetmm_notify_upcall {
    uint64_t user_data;
    struct unetmm_upcall upcall;
};

/*
 * The caller of handlers: the program's thread in unetmm_dispatch() or, if there is
 * one, the library's.  handler/thread.c explains the lock.
 */
struct unetmm_handlers {
    struct unetmm_upcall every;
    struct unetmm_notify_upcall *notify;    /* by user_data; few */
    size_t nnotify;
    struct unetmm_upcall *channel;  /* by number; NULL: none was ever set */
    atomic_uint blocked;        /* by the program; running blocks, too */
    atomic_uintptr_t runner;    /* the thread that a handler runs in, or 0 */
    uint32_t inner;             /* of `blocked`: by the handler that runs */
    bool ep_destroyed;          /* by the handler that runs */
    atomic_bool has_thread;     /* of the library */
    bool busy;                  /* the thread uses the endpoint */
    bool asleep;                /* the thread has armed the endpoint */
    atomic_bool stop;           /* the thread is to end */
    uint32_t armed_at;
    int error;                  /* that ended the thread, or 0 */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t change;
    unetmm_end end;
    void *end_arg;
};

/* The record of a channel; its number is open if its MTU is not 0. */
struct unetmm_channel_record {
    uint32_t type;              /* UNETMM_DATAGRAM or UNETMM_RELIABLE */
    uint32_t frame;
    uint32_t endpoint;
    uint16_t peer_channel;
    uint8_t mac[6];
};

/* Completions taken during a wait for another one; oldest first. */
struct unetmm_stash {
    struct unetmm_completion *all;
    size_t room;
    size_t first;
    size_t count;
};

struct unetmm_ep_private {
    struct unetmm_ep pub;       /* first: the handle points here */
    struct unetmm_ctx *ctx;
    struct unetmm_utlb_ep *utlb; /* source utlb */
    uint32_t id;
    uint32_t recorded;          /* its number in the recording, and 1; 0: it is in none */
    int event_fd;
    uint32_t spin_ns;
    uint32_t *mtu;              /* shown as pub.channel_mtu */
    struct unetmm_channel_record *records;
    struct unetmm_import_record *imports;   /* shown as pub.imports */
    struct unetmm_stash stash;
    uint32_t sync_number;
    void *queues;
    size_t queue_bytes;
    void *doorbell;
    size_t doorbell_bytes;
    struct unetmm_mapped *windows;
    struct unetmm_handlers handlers;
    struct unetmm_event_private *counters;    /* that have a handler here */
};

static inline struct unetmm_ep_private *unetmm_ep_private(
    const struct unetmm_ep *ep)
{
    return (struct unetmm_ep_private *)(uintptr_t)ep;
}

/* After a change of alive, source or stashed */
static inline void unetmm_ep_set_direct(struct unetmm_ep *ep)
{
    ep->direct = ep->alive && !ep->source && !ep->stashed;
}

/* Zeroed memory that reads as zero again in a forked child; or -errno. */
int unetmm_alloc_wiped(size_t bytes, void **memory);
void unetmm_free_wiped(void *memory, size_t bytes);

/*
 * Zeroed pages that a child does not get: a fork, which copies pages, would take them
 * from the card.
 */
int unetmm_alloc_unshared(size_t bytes, void **memory);

/* 0, or -EOWNERDEAD in a forked child. */
static inline int unetmm_ctx_check(const struct unetmm_ctx *ctx)
{
    return *ctx->alive ? 0 : -EOWNERDEAD;
}

/* A timeout as the driver's calls want it. */
uint64_t unetmm_deadline(int64_t timeout_ns);

/*
 * The result of such a call.  The driver's -EAGAIN says that a timeout of 0 has
 * passed; here a timeout of 0 is one like any other.
 */
static inline int unetmm_timed(int ret, int64_t timeout_ns)
{
    return ret == -EAGAIN && !timeout_ns ? -ETIMEDOUT : ret;
}

/* The end of a wait, UINT64_MAX: none; and the time left until then. */
uint64_t unetmm_time_of(int64_t timeout_ns);
int64_t unetmm_time_until(uint64_t deadline);

/* May a free buffer of n parts, n places of the queue, be put?  Then puts it. */
bool unetmm_parts_fit(struct unetmm_ep *ep, unsigned n);
void unetmm_put_parts(struct unetmm_ep *ep, const struct iovec *iov, unsigned n,
                      uint64_t user_data);

/* A spin without end lets others run after each stretch of this length. */
#define UNETMM_YIELD_NS 50000u

/*
 * Is the caller inside a handler of the endpoint?  Only the thread itself
 * writes or clears its own name there.
 */
static inline bool unetmm_in_handler(const struct unetmm_ep_private *ep)
{
    return atomic_load_explicit(&ep->handlers.runner, memory_order_relaxed) ==
           (uintptr_t)pthread_self();
}

#endif /* UNETMM_BASE_H */
