/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The options of unetmm-pingpong and unetmm-bw.
 */
#ifndef UNETMM_TOOLS_MEASURE_H
#define UNETMM_TOOLS_MEASURE_H

#include "common.h"

#define MAX_SIZES       32

/* Numbers of messages stay below this, so that control messages differ. */
#define MAX_MESSAGES    1000000000u
/* Of --size, and of --count and --warmup each */
#define MOST_SIZE       (1u << 30)
#define MOST_COUNT      (MAX_MESSAGES / 100)

struct op;                      /* op.h */

struct options {
    const char *tool;
    bool is_bw;                 /* of the two that have these options */
    const struct op *op;
    const char *device;
    bool listen;
    bool forever;
    bool bidir;
    bool reliable;
    bool go_back_n;
    bool verify;
    bool json;
    bool histogram;
    const char *samples;        /* NULL: samples are not written */
    uint8_t mac[6];
    uint64_t service;
    unsigned source;
    unsigned policy;
    uint32_t rnr_us;            /* 0: the card's */
    uint32_t spin_ns;
    uint32_t buffers;           /* 0: as many as suit the card's TLB */
    uint32_t frame;             /* 0: the channel's, or RELIABLE_FRAME */
    uint32_t combine;           /* --op au: bytes of a packet; 0: each store */
    uint64_t memory;            /* 0: as much as the buffers need */
    uint64_t seed;
    uint64_t timeout_ns;
    uint64_t duration_ns;       /* of each size, in rounds of `count`; 0: one round */
    uint32_t count;
    uint32_t warmup;
    unsigned nsizes;
    uint64_t sizes[MAX_SIZES];
};

/*
 * Parses the command line of pingpong and bw over the defaults in `opt`, with the tool's
 * options beside those that both have.
 */
void parse_options(struct options *opt, const struct argp_option *own,
                   const char *doc, int argc, char **argv);

/* Options of one of them without a short form; the shared ones have greater keys. */
enum { OPT_BIDIR = 256, OPT_COMBINE, OPT_HISTOGRAM, OPT_SAMPLES, OPT_OP, OPT_WARMUP,
       OPT_JSON, OPT_SHARED };

/* The groups of their options */
enum { GROUP_SIDES = 1, GROUP_MESSAGES, GROUP_MEMORY, GROUP_WAIT, GROUP_OUTPUT,
       GROUP_OPS, GROUP_SOURCES };

/* "poll", "block" or "spin", as the rows of a table name it. */
const char *mode_name(const struct options *opt);

#endif /* UNETMM_TOOLS_MEASURE_H */
