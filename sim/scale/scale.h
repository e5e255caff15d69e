/*
 * unetmm: hosts with cards in a simulated network: memory and programs
 *
 * A workload is a file that fills a Workload and has a line in config.c's list.
 * The program runs in host_start() and in `completed`, which the node calls
 * after each completion, and sets `done` when it has nothing left to do.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef SIM_SCALE_SCALE_H
#define SIM_SCALE_SCALE_H

#include "sim.h"
#include "node.h"

#define SCALE_HOSTS     (NODE_MOST - 2)
#define SCALE_VA        0x7f5500000000ull   /* of the pages of a workload */
#define SCALE_POOL      0x7f6500000000ull   /* of its receive buffers */
#define SCALE_EP        1

/* name, default, least, most, text */
#define SCALE_PARAMS(X) \
    X(seed, 1, 0, INT64_MAX, "of all that is drawn by lot") \
    X(source, UNETMM_SOURCE_ODP, 0, 255, "the card's source of translations") \
    X(requests, 200, 1, 1 << 30, "of a client, messages of a sender, or rounds") \
    X(depth, 4, 1, 1024, "requests of a client, or messages of a sender, that are under way (kv, incast)") \
    X(bytes, 4096, 1, 1 << 20, "of a value, a message or a chunk") \
    X(pages, 1024, 1, 1 << 18, "of memory that the workload uses on a server") \
    X(memory, 512, 1, 1 << 18, "pages of these that the server's kernel keeps") \
    X(writes, 0, 0, 100, "percent of the requests that store a value (kv)") \
    X(hot, 20, 0, 100, "percent of the values that are asked for more often (kv)") \
    X(hot_share, 80, 0, 100, "percent of the requests that go to them (kv)") \
    X(servers, 1, 1, SCALE_HOSTS, "hosts that serve; the others are clients (kv)") \
    X(buffers, 64, 1, 8192, "receive buffers that a host has posted (kv, incast)") \
    X(tlb_sets, 1024, 1, 65536, "sets of the card's TLB") \
    X(mtu, 4096, 256, 9000, "payload bytes of a frame, at most") \
    X(timeout, 4000, 1, 1000000, "us of a reliable channel's first timer") \
    X(not_ready, 100, 1, 1000000, "us that an RNR NACK asks for") \
    X(plain, 0, 0, 1, "1: a receiver does not tell its senders when a page has come") \
    X(service, PS_PER_US, 0, PS_PER_S, "ps of a server's processor for a request") \
    X(until, 10 * PS_PER_S, 1, 1000000 * PS_PER_S, "ps: the run ends then at the latest")

typedef struct Workload Workload;

typedef struct Link {
    unsigned end[2];
    int64_t byte;               /* fs */
    int64_t delay;              /* ps */
    int64_t queue;              /* bytes that may wait */
    int64_t loss;               /* of a million frames */
} Link;

/* Links by which a switch reaches a host: one is taken by the frame's hash. */
typedef struct Route {
    uint32_t first, used;       /* of Config.ways */
} Route;

struct Config {
    Costs costs;
#define SCALE_PARAM(name, ...) int64_t name;
    SCALE_PARAMS(SCALE_PARAM)
#undef SCALE_PARAM
    const Workload *workload;
    unsigned hosts, switches;
    GArray *links;              /* Link */
    GArray *ways;               /* uint32_t: a link */
    Route *routes;              /* [switch][host] */
};

/* Pages of the host's workload, of which the kernel keeps some: memory.c */
typedef struct Memory {
    uint64_t pages, limit;
    GQueue resident;            /* numbers, the page that came first in front */
    Ps disk_free;
    uint64_t page_ins, reclaims;
    uint64_t pinned_most;       /* pages that the card's TLB had, at most */
} Memory;

#define TIMES   (64 * 16)

struct Host {
    Run run;                    /* first: RunOps get it */
    const Config *config;
    const HostOps *ops;
    void *port;
    Node *node;
    unsigned number;
    uint64_t random;
    Memory memory;
    bool done;
    uint64_t sent, sends_ended, received, failed;
    uint64_t bytes;             /* of the workload's data that have come */
    uint64_t frames_out, bytes_out, frames_in, bytes_in;
    Ps began, ended;            /* of the first and the last operation */
    uint64_t faults;
    uint32_t times[TIMES];      /* of operations: host_took() */
    void *work;                 /* the workload's, freed with g_free() */
};

struct Workload {
    const char *name, *text;
    /* Channels that the host's endpoint has. */
    unsigned (*channels)(const Config *c, unsigned number);
    /* Pages of the workload that the host uses, from SCALE_VA on. */
    uint64_t (*pages)(const Config *c, unsigned number);
    /* Queues of n->ep, before the endpoint is made. */
    void (*tune)(Host *h);
    void (*connect)(Host *h);   /* and posts buffers */
    void (*start)(Host *h);
    void (*completed)(Node *n);
};

extern const Workload workload_alltoall, workload_incast, workload_kv,
    workload_ring;

static inline Host *host_of(Node *n)
{
    return (Host *)n->run;
}

/* host.c, for workloads */
/* Channel `mine` of this host to channel `theirs` of another one. */
void host_connect(Host *h, unsigned mine, unsigned other, unsigned theirs);
/* Sends: from a page of the workload, or so many bytes of `data` (at most 32). */
void host_send(Host *h, unsigned channel, uint64_t offset, uint32_t bytes,
               uint64_t cookie);
void host_send_inline(Host *h, unsigned channel, const void *data,
                      uint32_t bytes, uint64_t cookie);
static inline uint64_t pages_of(int64_t bytes)
{
    return (bytes + FAKE_PAGE - 1) / FAKE_PAGE;
}

/* The least size of a queue, as a power of two, that has so many places. */
uint8_t host_log2(uint64_t least);
/* Queues for `depth` sends and `buffers` receives under way. */
void host_tune(Host *h);
/* Free places of the send queue, by the completions that have been taken. */
uint32_t host_room(const Host *h);
void host_post(Host *h, uint64_t vaddr, uint32_t bytes);
/* Posts a place for a message of the workload's pages, drawn by lot. */
void host_post_place(Host *h);
/* The next completion; one that is no success counts as failed. */
bool host_poll(Host *h, struct unetmm_cqe *cqe);
/* An operation has ended that began then. */
void host_took(Host *h, Ps began);
uint32_t host_random(Host *h, uint32_t below);

/* memory.c */
/* `vaddr` on are the workload's pages: `limit` of them are resident. */
void memory_init(Host *h);
void memory_free(Host *h);
void memory_service(Node *n);

#endif /* SIM_SCALE_SCALE_H */
