/*
 * unetmm: cards in virtual time: one heap of events, serial units, costs
 *
 * A run has one clock, in picoseconds, and one heap of events in the order of
 * their time; events of one time run in the order in which they were made.
 * Nothing looks at the real clock and nothing is left to chance, so two runs
 * are alike to the last event; `trace` is a hash of them all.
 *
 * A node is a card (the core, on the fake host), its driver and its process.
 * Its card, its host's processor and its direction of the wire are serial
 * units: each has a time until which it is busy.  While the core is on the
 * stack the node's `now` goes on by the cost of each step
 * (UnetmmHostOps.spend): frames, interrupts and completions carry that time.
 * Memory that a processor writes between the time at which the card was entered
 * and `now` is seen by at most one run of the engine too early.
 *
 * Not thread-safe.  A run ends the program if something impossible happens.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef PAPER_RUN_H
#define PAPER_RUN_H

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
#define PAPER_COSTS(X) \
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
#define PAPER_COST(name) int64_t name;
    PAPER_COSTS(PAPER_COST)
#undef PAPER_COST
} Costs;

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
    /* Answers an interrupt, in place of node_service(). */
    void (*service)(Node *n);
};

struct Run {
    Costs c;
    GArray *heap;
    uint64_t order;
    Ps now;
    bool stop;
    uint64_t trace;
    uint64_t events;
    Node *node[2];
    void *scene;                /* the experiment's */
};

/* run.c */
void run_init(Run *r, const Costs *c);
void run_free(Run *r);
/* Calls fn at `at`, or now if that is over. */
void run_at(Run *r, Ps at, EventFn *fn, Node *n, void *arg);
/* The next event.  There has to be one. */
void run_one(Run *r);
/* Until `stop` is set or nothing is left to happen. */
void run_all(Run *r);
void run_note(Run *r, uint64_t word);
static inline Ps per_byte(int64_t fs, uint64_t bytes)
{
    return (Ps)(bytes * (uint64_t)fs / 1000);
}

/* node.c */
typedef void NodeTune(Run *r, UnetmmParams *p);
/* A card with its driver, one space and one endpoint, which is not made yet. */
Node *node_new(Run *r, unsigned number, NodeTune *tune, uint8_t source);
void node_free(Node *n);
/* Maps pages [vaddr, + npages), all to the same few host pages. */
void node_map(Node *n, uint64_t vaddr, uint64_t npages);
extern const uint8_t node_macs[2][6];
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
/* Time that so many bytes of a message are on the wire. */
Ps node_wire_time(const Costs *c, uint64_t bytes);

/* experiments: print "name<TAB>value" lines */
typedef struct Experiment {
    const char *name;
    void (*run)(Run *r);
} Experiment;

void result(const char *name, int64_t value);
void paper_pingpong(Run *r);
void paper_stream(Run *r);
void paper_fault(Run *r);
void paper_resume(Run *r);
void paper_wait(Run *r);
void paper_limit(Run *r);
void paper_rnr(Run *r);
void paper_backup(Run *r);
void paper_drop(Run *r);
void paper_store(Run *r);
void paper_touch(Run *r);
void paper_ktlb(Run *r);
void paper_cold(Run *r);
void paper_replay(Run *r);
/* The file of paper_replay(). */
extern const char *paper_references;

#endif /* PAPER_RUN_H */
