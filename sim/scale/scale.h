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
#include "congestion/congestion.h"

#define SCALE_HOSTS     (NODE_MOST - 2)
#define SCALE_PORTS     998                 /* of a switch: a place in ns-3's picosecond for each */
#define SCALE_VA        0x7f5500000000ull   /* of the pages of a workload */
#define SCALE_POOL      0x7f6500000000ull   /* of its receive buffers */
#define SCALE_EP        1

/* name, default, least, most, text */
#define SCALE_PARAMS(X) \
    X(seed, 1, 0, INT64_MAX, "of all that is drawn by lot") \
    X(source, UNETMM_SOURCE_ODP, 0, 255, "the card's source of translations") \
    X(policy, UNETMM_POLICY_RNR, 0, 255, "for messages whose buffer is absent") \
    X(congestion, UNETMM_CONGESTION_NONE, 0, UNETMM_NUM_CONGESTION - 1, "the card's congestion control") \
    X(window, 16, 1, 64, "packets of a channel that fly at first, with a congestion control") \
    X(trip, 50000, 0, 1000000000, "ns of a round trip at which congestion control delay aims") \
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
    X(slots, 512, 1, 4095, "places of a receiver's system buffer (redirect) or backup ring (backup)") \
    X(again, 1000, 1, 1000000, "us without an answer after which a sender of datagrams sends again (drop, backup)") \
    X(plain, 0, 0, 1, "1: a receiver does not tell its senders when a page has come") \
    X(service, PS_PER_US, 0, PS_PER_S, "ps of a server's processor for a request") \
    X(until, 10 * PS_PER_S, 1, 9000 * PS_PER_S, "ps: the run ends then at the latest")

typedef struct Workload Workload;
typedef struct Trace Trace;     /* replay.c */

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
    Trace *trace;               /* of workload replay; NULL: none */
};

/* Pages of the host's workload, of which the kernel keeps some: memory.c */
typedef struct Memory {
    uint64_t pages, limit;
    GQueue resident;            /* numbers, the page that came first in front */
    Ps *due;                    /* of each page: the disk has read it then; 0: it was not asked */
    Ps disk_free;
    uint64_t page_ins, reclaims;
    uint64_t pinned, pinned_most;   /* pages, now (sources with `before`), at most */
    uint32_t *uses;             /* of each page, by posts that are not done with it: `before` */
    struct unetmm_ktlb *ktlb;   /* source ktlb: the kernel's, with its places and entries */
    struct unetmm_ktlb_entry **places, *entries;
    /* Records of d->backups and d->full that are in work. */
    unsigned backups, full;
    GQueue unposted;            /* Job: backups whose slot has no buffer yet */
    unsigned aside_most;
    GQueue jobs;                /* all that are not done */
} Memory;

/* Pages that have to be there for an answer of the driver. */
typedef struct Job Job;

struct Job {
    struct unetmm_fault fault;  /* the record; `vaddr` and `npages` are the pages */
    struct unetmm_fault record; /* of backup: as it came */
    /* The pages are there, and the card has been entered.  The caller frees the job. */
    void (*there)(Host *h, const Job *job);
    GList in_jobs;
};

/* The part of the driver and the library in a source of translations. */
typedef struct SourceModel {
    uint8_t source;
    bool fixed;                 /* absence is an error: no policy for it */
    /* A post brings and pins its pages; its process waits for them. */
    bool before;
    bool traps;                 /* each post is a system call */
    bool tlb_pins;              /* pages that the card's TLB has are pinned */
} SourceModel;

#define TIMES   (64 * 16)

struct Host {
    Run run;                    /* first: RunOps get it */
    const Config *config;
    const SourceModel *source;
    const HostOps *ops;
    void *port;
    Node *node;
    unsigned number;
    uint64_t random;
    GQueue events, late;        /* that are still to come: see host.c */
    Memory memory;
    bool done;
    uint64_t sent, sends_ended, received, failed;
    uint64_t bytes;             /* of the workload's data that have come */
    uint64_t again;             /* datagrams that the program sent again */
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
    /* Has the host buffers in its pages?  The policy is for these. */
    bool (*receives)(const Config *c, unsigned number);
    bool datagrams;             /* it can do with channels that lose messages */
    /* Pages of the workload that the host uses, from SCALE_VA on. */
    uint64_t (*pages)(const Config *c, unsigned number);
    /* Queues of n->ep, before the endpoint is made. */
    void (*tune)(Host *h);
    void (*connect)(Host *h);   /* and posts buffers */
    void (*start)(Host *h);
    void (*completed)(Node *n);
    void (*free)(Host *h);      /* the members of `work`; NULL: there are none */
};

extern const Workload workload_alltoall, workload_incast, workload_kv,
    workload_replay, workload_ring;

/* replay.c */
/* NULL, or one sentence with the number of a line, to be freed. */
char *trace_read(Trace **out, FILE *from);
void trace_free(Trace *t);
/* NULL, or why the run cannot have its trace, or none. */
const char *trace_refuses(const Config *c);

static inline Host *host_of(Node *n)
{
    return (Host *)n->run;
}

/* host.c, for workloads */
/* Channel `mine` of this host to channel `theirs` of another one. */
void host_connect(Host *h, unsigned mine, unsigned other, unsigned theirs);
/* Sends: from a page of the workload, or so many bytes of `data` (at most 32). */
void host_send(Host *h, unsigned channel, uint64_t offset, uint32_t bytes);
void host_send_inline(Host *h, unsigned channel, const void *data,
                      uint32_t bytes);
/* Are the channels those of datagrams? */
static inline bool lossy(const Config *c)
{
    return c->policy == UNETMM_POLICY_DROP || c->policy == UNETMM_POLICY_BACKUP;
}

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
/* The offset of a place for a message in the workload's pages, drawn by lot. */
uint64_t host_place(Host *h);
/* Posts such a place. */
void host_post_place(Host *h);
/* Posts as many as the configuration has buffers. */
void host_post_places(Host *h);
/* A message has come: if it took a buffer, another place is posted. */
void host_repost(Host *h, const struct unetmm_cqe *cqe);
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
/* The driver begins at `from` to bring the job's pages, and takes the job. */
void memory_bring(Host *h, const Job *job, Ps from);
/* The page has come; a table has its entry if the source has one. */
void memory_came(Host *h, uint64_t number);
/* The page's entry goes.  False: the card uses it. */
bool memory_take(Host *h, uint64_t number);
/* The time at which the disk has the absent page, which it begins at `from`. */
Ps memory_read(Host *h, uint64_t number, Ps from);
/* Pages beyond the limit go, the oldest first. */
void memory_reclaim(Host *h);

/* source.c */
/* NULL: hosts cannot have this source. */
const SourceModel *source_model(int64_t source);
void source_init(Host *h);
void source_free(Host *h);
/* The memory is to be posted: with `before` its pages come, and stay. */
void source_before(Host *h, uint64_t vaddr, uint64_t bytes);
/* The card is done with it. */
void source_after(Host *h, uint64_t vaddr, uint64_t bytes);
/* The page may go for another one, as far as the source is asked. */
bool source_lets_go(const Host *h, uint64_t number);
void source_unpin(Host *h, uint64_t number);
uint64_t source_pinned(const Host *h);

/* aside.c: packets in the system buffer or the backup ring */
/* NULL, or why the host cannot have the policy. */
const char *aside_refuses(const Config *c, unsigned number);
/* The card's numbers; the driver's rings, and the endpoint before it is made. */
void aside_params(const Host *h, UnetmmParams *p);
void aside_init(Host *h);
/* Slots of the system buffer that the host has for each channel; 0: none. */
uint32_t aside_credits(const Config *c, unsigned number);
/* Takes the new records. */
void aside_service(Host *h);
/* The process has posted a buffer. */
void aside_posted(Host *h);

#endif /* SIM_SCALE_SCALE_H */
