/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Common to the tools: options, samples, output.
 */
#ifndef UNETMM_TOOLS_COMMON_H
#define UNETMM_TOOLS_COMMON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <libunetmm.h>

#define EXIT_USAGE      2

#define MAX_SIZES       32
#define NS_PER_S        1000000000ull
#define NS_PER_MS       1000000ull

/* Numbers of messages stay below this, so that control messages differ. */
#define MAX_MESSAGES    1000000000u

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
 * Parses the command line of pingpong and bw over the defaults in `opt`.
 * A mistake ends the program with one sentence and EXIT_USAGE.
 */
void parse_options(struct options *opt, int argc, char **argv,
                   const char *usage);

/* The line of --version, then the end. */
void print_version(void) __attribute__((noreturn));

/* One sentence on stderr, then the end with EXIT_USAGE. */
void usage_error(const char *format, ...)
    __attribute__((noreturn, format(printf, 1, 2)));

/* One sentence on stderr, then the end with EXIT_FAILURE. */
void fail(const char *format, ...)
    __attribute__((noreturn, format(printf, 1, 2)));

/* One sentence on stderr, and on. */
void complain(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* As fail(), for an error of the library: "<call>: <advice>". */
void fail_call(int error, enum unetmm_call call, const char *what)
    __attribute__((noreturn));

/* "12", "64k", "1M" (powers of 1024). */
bool parse_number(const char *text, uint64_t most, uint64_t *value);

/* The same of option --name; a mistake ends the program. */
uint64_t number_option(const char *name, const char *text, uint64_t least,
                       uint64_t most);

uint64_t now_ns(void);

const char *source_name(unsigned source);
const char *policy_name(unsigned policy);
/* "poll", "block" or "spin", as the rows of a table name it. */
const char *mode_name(const struct options *opt);

/* The sample at `share` of all (0.5: the median); they must be sorted. */
uint64_t percentile(const uint64_t *sorted, size_t count, double share);
void sort_samples(uint64_t *samples, size_t count);

/* The name for messages; set once by main(). */
extern const char *tool_name;

#endif /* UNETMM_TOOLS_COMMON_H */
