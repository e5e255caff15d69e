/*
 * unetmm: computers for the TLB simulation: memory, messages, and the card's
 * TLB in several sizes at once
 *
 * A program runs as one or more processes; messages are really copied, out of
 * its memory and into its receive buffers.  Each page that a transfer touches
 * is one reference to the TLB of the process's computer, by the card's own
 * tlb/tlb.c; after a miss the page is inserted.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef SIM_H
#define SIM_H

#include "abi/unetmm_host.h"
#include "abi/unetmm_hw.h"
#include "tlb/tlb.h"

#define SIM_MAX_NODES   64
#define SIM_SIZES       2               /* TLBs that see the same references */
#define SIM_SMALL       64              /* bytes of a small send buffer */

typedef enum SimDir { SIM_TX, SIM_RX, SIM_DIRS } SimDir;

typedef struct SimConfig {
    uint64_t seed;
    uint32_t entries[SIM_SIZES];        /* without the victims */
    uint32_t ways;                      /* of a set */
    UnetmmTlbReplace replace;
    uint32_t victims;
    uint32_t nodes;                     /* computers of a parallel program */
    uint32_t buffers;                   /* a process's receive buffers */
    uint32_t payload;                   /* largest fragment, bytes */
    uint32_t header;                    /* 1: each message has a header
                                           segment in a small buffer */
    uint32_t keys;                      /* a node's, of the sorts */
    uint32_t active;                    /* socket sessions at a time */
} SimConfig;

typedef struct SimCount {
    uint64_t refs[SIM_DIRS];
    uint64_t compulsory[SIM_DIRS];      /* misses of a page never seen before */
    uint64_t other[SIM_DIRS];
    uint64_t victim_hits;
} SimCount;

typedef struct SimComputer {
    UnetmmTlb tlb[SIM_SIZES];
    GHashTable *seen;                   /* pages that were ever missed */
} SimComputer;

typedef struct Sim Sim;
typedef struct UtlbRun UtlbRun;

typedef struct SimProc {
    Sim *sim;
    SimComputer *computer;              /* NULL: not observed */
    uint16_t space;
    uint8_t *mem;
    uint64_t used;                      /* of mem, bytes */
    uint64_t rx, small;                 /* addresses */
    uint32_t rx_next, small_next;
} SimProc;

/* The header of a message of a parallel program: an active message. */
typedef struct SimHeader {
    uint32_t op, len;
    uint64_t arg[4];
} SimHeader;

enum { SIM_OP_STORE = 1, SIM_OP_GET, SIM_OP_DONE, SIM_OP_USER };

typedef void SimHandler(SimProc *to, SimProc *from, const SimHeader *header);

struct Sim {
    SimConfig config;
    SimComputer computers[SIM_MAX_NODES];
    uint32_t ncomputers;
    SimProc *procs;
    uint32_t nprocs;
    SimHandler *user;                   /* for SIM_OP_USER and above */
    SimCount count[SIM_SIZES];
    uint64_t messages;
    uint64_t random;
    bool references;            /* print each one */
    UtlbRun *utlb;              /* gets each one, too; NULL: none */
};

#define SIM_CHECK(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, \
                    #what); \
            exit(1); \
        } \
    } while (0)

/* Processes 0..n-1 of parallel programs are each on a computer of their own. */
void sim_init(Sim *sim, const SimConfig *config, uint32_t ncomputers,
              uint32_t nprocs);
void sim_free(Sim *sim);
/* computer NULL: a peer, whose translations are not counted. */
void sim_proc_init(Sim *sim, SimProc *p, SimComputer *computer,
                   uint16_t space);
uint32_t sim_random(Sim *sim);

/* Memory of a process, as its malloc() would give it: not page-aligned. */
uint64_t sim_alloc(SimProc *p, uint64_t bytes);
void *sim_ptr(const SimProc *p, uint64_t addr, uint64_t bytes);

/* One message out of [addr, addr + bytes); returns where it has landed. */
uint64_t sim_message(SimProc *from, SimProc *to, uint64_t addr,
                     uint32_t bytes);
/* An active message without data, up to the header's arguments. */
void sim_call(SimProc *from, SimProc *to, const SimHeader *header);
/* Copies memory to (from) another process, in fragments. */
void sim_store(SimProc *from, SimProc *to, uint64_t dst, uint64_t src,
               uint64_t bytes);
void sim_get(SimProc *p, SimProc *owner, uint64_t dst, uint64_t src,
             uint64_t bytes);

/* The programs.  Each verifies its result. */
void sim_mm(Sim *sim, uint32_t blocks, uint32_t side);
void sim_sample_sort(Sim *sim, bool large);
void sim_radix_sort(Sim *sim);
void sim_sockets(Sim *sim);

#endif /* SIM_H */
