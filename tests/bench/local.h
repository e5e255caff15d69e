/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Shared by the parts of bench-local.
 */
#ifndef BENCH_LOCAL_H
#define BENCH_LOCAL_H

#include <libunetmm/inline.h>

static const struct unetmm_channel_attr datagram_attr __attribute__((unused)) =
    UNETMM_CHANNEL_ATTR_DATAGRAM;

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAGE        ((size_t)UNETMM_PAGE_BYTES)

extern struct unetmm_ctx *ctx;
extern struct unetmm_info info;
extern const char *source_name;

/* Each of these ends the program with a sentence if something is wrong. */
int check(int ret, enum unetmm_call call);
void die(const char *what);

/* tx's channel to rx.  One thread does both sides, so it asks in turn. */
int join(struct unetmm_ep *tx, struct unetmm_ep *rx);
/* The same, reliable. */
int join_reliably(struct unetmm_ep *tx, struct unetmm_ep *rx);
/* Takes completions until `ep` has had one of each type in the mask. */
void await(struct unetmm_ep *ep, unsigned types);
/* Memory for messages, as far as the source wants to be told of it. */
void give(void *at, size_t bytes);
void take_back(void *at, size_t bytes);
/* Of the card, by whichever source. */
uint64_t misses(void);
uint64_t card(enum unetmm_counter n);
uint64_t driver(enum unetmm_driver_counter n);
/* For qsort(): int64_t, the smallest first. */
int by_value(const void *a, const void *b);

/* CLOCK_MONOTONIC */
int64_t now_ns(void);

/* local_miss.c: the cost of a miss, with so many MiB of memory. */
void miss(unsigned mib);

/* local_count.c: the guest instructions of messages of so many bytes. */
void count(unsigned bytes);
/* The guest's instructions so far; the difference of two readings in a row. */
uint64_t ticks(void);
uint64_t calibrate(void);
/* Does ticks() count them, or what else? */
bool counts_instructions(void);

/* local_ops.c: ways into a peer's memory: times, and guest instructions. */
void ops(unsigned bytes);
void count_ops(unsigned bytes);

/* local_notify.c: how a reader learns of a write. */
void notify(unsigned n);
void count_notify(unsigned n);

/* local_sync.c: semaphores and wait-queues, and the same with bare atomics. */
void sync_ops(unsigned n);
void count_sync_ops(unsigned n);

/* local_rate.c: messages of which so many in 100 find their page; pins alone. */
void rate(unsigned percent);
void pin(unsigned n);

/* local_push.c: page faults and unmaps; waiting for the card's lock. */
void push(unsigned pages);
void waits(unsigned n);

/* local_mix.c: messages from everywhere, and the source's work for them. */
void mix(unsigned n);

/* local_sysbuf.c: policy redirect by stage. */
void redirect(unsigned n);

/* local_fault.c: faults of source odp: batched and page by page, by stage. */
void fault(unsigned n);

/* local_matrix.c: one source with every policy. */
void matrix(unsigned n);

/* local_stages.c: a stage's name in the driver's file, and in words. */
struct stage {
    const char *word, *what;
};

struct stage_sum {
    uint64_t count, ns;
};

void stages_read(const char *path, const struct stage *stages, unsigned n,
                 struct stage_sum *sums);

#endif /* BENCH_LOCAL_H */
