/*
 * unetmm: a card in virtual time: the card, its driver, its host's processor
 *
 * A node is a card (the core, on the fake host), its driver and its process.
 * Card, processor and the node's direction of the wire are serial units: each
 * has a time until which it is busy.  While the core is on the
 * stack the node's `now` goes on by the cost of each step
 * (UnetmmHostOps.spend): frames, interrupts and completions carry that time.
 * Memory that a processor writes between the time at which the card was entered
 * and `now` is seen by at most one run of the engine too early.
 *
 * An engine drives nodes: it has the clock, in picoseconds, calls events in
 * the order of their time, those of one time in the order in which they were
 * made, and carries frames from card to card.  tests/paper has an engine of two
 * nodes, sim/ns3 one that is a part of an ns-3 simulation.  A node looks at no
 * other clock and leaves nothing to chance, so two runs are alike to the last
 * event; `trace` is a hash of them all.
 *
 * Not thread-safe.  A run ends the program if something impossible happens.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef SIM_NODE_H
#define SIM_NODE_H

#include "fake_driver.h"
#include "timing/timing.h"

/* Ends the program if an invariant is violated. */
#define must(true_) do { \
        if (!(true_)) { \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, \
                    #true_); \
            abort(); \
        } \
    } while (0)

typedef int64_t Ps;

#define PS_PER_NS       1000ll
#define PS_PER_US       1000000ll
#define PS_PER_S        1000000000000ll
#define PS_NEVER        INT64_MAX

/*
 * The values that a profile may set; zero if it does not.  Times are
 * picoseconds, those of a byte femtoseconds; the rest are numbers.
 */
#define NODE_COSTS(X) \
    /* cells that arrive; a card that waits for its host */ \
    X(multi_cell) X(cell_work) X(busy_wait) \
    /* the host's processor */ \
    X(post) X(poll) X(interrupt) X(fault) X(fault_page) X(page_in) \
    X(page_update) X(unpin) X(reply) X(service) X(copy_byte) \
    /* mechanisms of the papers, each by its value: see node.c */ \
    X(clear) X(clear_first) X(evict_report) X(others) X(tlb_limit) \
    /* the wire, and a switch on it */ \
    X(wire_byte) X(frame_least) X(frame_header) X(frame_extra) \
    X(frame_gap) \
    X(cell_payload) X(cell_bytes) X(cell_trailer) \
    X(delay) X(switch_delay) X(switch_stores) \
    /* of an experiment: see there */ \
    X(bytes) X(rounds) X(warm) X(mtu) X(log2) X(not_ready) X(early) \
    X(timeout) \
    X(ring) X(backup_bits) X(pages) X(source) X(tlb_sets) X(single) \
    X(blocks) X(cached) X(disk_byte) X(memory_byte) X(accesses) X(drop_time) \
    X(sessions) X(depth) X(interval) X(processes) X(shared) \
    X(descriptors) X(connections) X(sequential) X(stamps) X(rto_first) \
    X(rto_least) X(rto_again) X(rto_server) X(syn_wait) \
    X(receive) X(policy) X(entries) X(ways) X(victims) X(index) X(replace) \
    X(trap)

typedef struct Costs {
    UnetmmCosts card;           /* the card's steps */
#define NODE_COST(name) int64_t name;
    NODE_COSTS(NODE_COST)
#undef NODE_COST
} Costs;

#define NODE_MOST       1024    /* nodes of a run */

typedef struct Run Run;
typedef struct Node Node;

typedef void EventFn(Run *r, Node *n, void *arg);

struct Node {
    FakeHost h;                 /* first: the core's `host` */
    FakeDriver d;
    FakeSpace *s;
    FakeEp ep;
    Run *run;
    unsigned number;
    UnetmmHostOps ops;
    bool timed;                 /* steps take time */
    bool head;                  /* the next look-up is of a head */
    Ps now;                     /* the card's, while it runs */
    Ps card_free, host_free, wire_free;
    Ps firmware_free;           /* that of the bits of faults in progress */
    uint32_t tlb_limit;         /* valid entries that the kernel allows */
    uint32_t entries_most;      /* that there were after an answer */
    uint64_t timer_number;      /* of the timer that counts */
    uint64_t steps[UNETMM_NUM_STEPS];
    /* The experiment's action; NULL: none. */
    void (*completed)(Node *n);
    /* Sees a frame before the card does; true: it has taken it. */
    bool (*takes)(Node *n, FakeFrame *f);
    void (*driver_stored)(FakeHost *host, uint64_t addr);   /* the driver's */
    /* Answers an interrupt, in place of node_service(). */
    void (*service)(Node *n);
};

/* Services of an engine for its nodes. */
typedef struct RunOps {
    /* Calls fn at `at`, or now if that is over. */
    void (*at)(Run *r, Ps at, EventFn *fn, Node *n, void *arg);
    /*
     * The frame, which the callee frees, leaves the card at n->now.  The callee
     * keeps n->wire_free, and calls node_arrives() of the peer.
     */
    void (*frame)(Node *n, FakeFrame *f);
} RunOps;

struct Run {
    const RunOps *ops;
    Costs c;
    Ps now;
    bool stop;
    uint64_t trace;
    uint64_t events;
    Node **node;                /* by number; NULL: the engine keeps no list */
    void *engine;
    void *scene;                /* the experiment's */
};

void run_init(Run *r, const RunOps *ops, const Costs *c);
/* The hash of the trace has the word, too. */
void run_note(Run *r, uint64_t word);
/* An event of the engine begins: `now` is its time, and the trace has it. */
void run_begin(Run *r, Ps at, const Node *n);
static inline void run_at(Run *r, Ps at, EventFn *fn, Node *n, void *arg)
{
    r->ops->at(r, at, fn, n, arg);
}
static inline Ps per_byte(int64_t fs, uint64_t bytes)
{
    return (Ps)(bytes * (uint64_t)fs / 1000);
}

typedef void NodeTune(Run *r, UnetmmParams *p);
/* A card with its driver, one space and one endpoint, which is not made yet. */
Node *node_new(Run *r, unsigned number, NodeTune *tune, uint8_t source);
void node_free(Node *n);
/* The MAC address of a node's card. */
const uint8_t *node_mac(unsigned number);
/* Maps pages [vaddr, + npages), all to the same few host pages. */
void node_map(Node *n, uint64_t vaddr, uint64_t npages);
/* From here on steps take time, from time `at` on. */
void node_start(Node *n, Ps at);
/* The card is entered at run->now, or when it is free. */
void node_enter(Node *n);
void node_leave(Node *n);
/* The host's processor works for so long from now on; returns the end. */
Ps node_work(Node *n, Ps cost);
/* The process rings the bell when its processor is through. */
void node_bell(Node *n);
/* The driver's usual answer to faults. */
void node_service(Node *n);
/* The kernel allows so many valid entries of the TLB from now on; 0: all. */
void node_limit(Node *n, uint32_t entries);
/* Time that the frame of a message of so many bytes is on the wire. */
Ps node_wire_time(const Costs *c, uint64_t bytes);
/* From the end of that time to the arrival of the last bit. */
Ps node_wire_behind(const Costs *c, Ps time);
/* The bytes of the frame's message: the card's header is not in them. */
uint64_t node_message_bytes(const FakeFrame *f);
/*
 * The frame's last bit is at the card, which takes it now or when it can;
 * the node frees the frame.
 */
void node_arrives(Node *n, FakeFrame *f);
/* An event of a node will not come: frees the argument, if it is the node's. */
void node_forget(EventFn *fn, void *arg);

#endif /* SIM_NODE_H */
