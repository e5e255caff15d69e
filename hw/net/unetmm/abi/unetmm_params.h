/*
 * unetmm: the parameters of a card, which QEMU's properties set, with limits
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_PARAMS_H
#define UNETMM_PARAMS_H

#define UNETMM_MAX_ENDPOINTS    1024
#define UNETMM_MAX_SPACES       1024
#define UNETMM_MAX_CHANNELS     1024
#define UNETMM_MAX_LOCAL        4096
#define UNETMM_MAX_LATE_NS      1000000000 /* x-delay-ns, x-fault-delay-ns */
#define UNETMM_MAX_RELIABLE     4096    /* channels of the card */
#define UNETMM_MAX_KEPT         4096    /* packets before their turn */
#define UNETMM_MAX_REGIONS      65536
#define UNETMM_MAX_IMPORTS      1024    /* of an endpoint */
#define UNETMM_MAX_WINDOW_PAGES 65536
#define UNETMM_MAX_UPDATES      1048576 /* packets of stores */
#define UNETMM_MAX_PROXY_PAGES  65536
#define UNETMM_MAX_SYSBUF_SLOTS 4096
#define UNETMM_MAX_UTLB_FETCH   32      /* entries of one fetch */
#define UNETMM_MAX_CACHE_WAYS   16
#define UNETMM_MAX_FLOWS        4096
#define UNETMM_MAX_BACKUP_BITS  4096

/* An enumerator: a debugger sees those, and no macros. */
enum { UNETMM_MAX_HEADS = 16 };     /* free buffers that an endpoint looks at */

/* Fixed when the card is made; unetmm_params_check() has the limits. */
typedef struct UnetmmParams {
    uint8_t mac[6];
    uint32_t endpoints;
    uint32_t spaces;
    uint32_t channels;
    uint32_t tlb_sets;
    uint32_t tlb_ways;
    uint32_t tlb_victims;
    uint32_t tlb_index;         /* UnetmmTlbIndex */
    uint32_t tlb_replace;       /* UnetmmTlbReplace */
    uint32_t cache_entries;     /* of the host-memory tables */
    uint32_t cache_ways;        /* of a set of them */
    uint32_t utlb_fetch;        /* entries that a miss of utlb fetches */
    uint32_t pretranslate;
    uint32_t fault_batch;       /* pages asked for in one miss of a send */
    uint32_t max_faults;        /* misses reported and not replied to */
    uint32_t user_mtu;
    uint32_t local_queue;       /* frames */
    uint32_t reliable;          /* channels of that type */
    uint32_t reliable_keep;     /* packets kept before their turn */
    uint32_t regions;
    uint32_t imports;           /* of each endpoint */
    uint32_t window_pages;      /* of automatic update */
    uint32_t window_queue;      /* packets of stores that wait */
    uint32_t proxy_pages;       /* of user-level DMA start */
    uint32_t sysbuf_slots;      /* that the driver may give */
    uint32_t flows;
    uint32_t backup_bits;       /* that an endpoint may have */
    uint32_t congestion;        /* UnetmmCongestionKind */
    uint32_t congestion_window; /* packets of a channel, at first */
    uint32_t congestion_trip_ns;    /* a round trip, for control `delay` */
    uint32_t budget_descriptors;
    uint32_t budget_bytes;
    uint64_t dma_page_ns;
} UnetmmParams;

/* May be changed while the card runs.  Rates are parts per million. */
typedef struct UnetmmKnobs {
    uint32_t loss;
    uint32_t dup;
    uint32_t reorder;
    uint32_t corrupt;
    uint32_t force_miss;
    uint32_t force_evict;
    uint32_t delay;
    uint32_t delay_ns;          /* at most, as the next */
    uint32_t fault_delay;
    uint32_t fault_delay_ns;
    uint32_t fault_fail;
    uint32_t fault_refuse;
    uint32_t lie;
    uint64_t seed;
} UnetmmKnobs;

#endif /* UNETMM_PARAMS_H */
