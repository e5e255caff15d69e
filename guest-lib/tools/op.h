/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Ways in which a message gets to the peer, named by --op.
 *
 * Each is a row of a table, and those but "send" a few functions; the measurements
 * (op_latency.c, op_bandwidth.c) know none by name.
 */
#ifndef UNETMM_TOOLS_OP_H
#define UNETMM_TOOLS_OP_H

#include "measure.h"

#include <libunetmm/inline.h>

struct one_sided;

/* As a START carries them: append. */
enum { OP_SEND, OP_WRITE, OP_AU, OP_READ, OP_ATOMIC, OP_UDMA, NUM_OPS };

struct op {
    unsigned number;            /* OP_* */
    bool one_way;               /* a latency is half of a round trip */
    bool is_for_bw;
    bool notifies;              /* the receiver need not look all the time */
    unsigned rights;            /* of the exports; 0: messages */
    uint64_t most;              /* bytes */
    uint32_t multiple;          /* of so many bytes */
    /* Maps all that it needs beside the import; -errno.  NULL: nothing. */
    int (*open)(struct one_sided *o);
    /* Starts message `seq`, from its local place.  False: take events. */
    bool (*start)(struct one_sided *o, uint32_t seq, bool more);
    /* Is what it brought right?  NULL: it brings nothing. */
    bool (*check)(struct one_sided *o, uint32_t seq);
};

/* As --op names it; NULL: there is none. */
const struct op *op_named(const char *name);

/* The name of a number, which may be a newer version's. */
const char *op_name(unsigned number);

/* Ends the program with a sentence if the options do not go together. */
void op_check_options(struct options *opt);

/* op_put.c, op_window.c, op_get.c: the rows' functions */
bool op_put(struct one_sided *o, uint32_t seq, bool more);
int op_window_open(struct one_sided *o);
bool op_store(struct one_sided *o, uint32_t seq, bool more);
int op_proxy_open(struct one_sided *o);
bool op_dma_start(struct one_sided *o, uint32_t seq, bool more);
bool op_get(struct one_sided *o, uint32_t seq, bool more);
bool op_got(struct one_sided *o, uint32_t seq);
bool op_add(struct one_sided *o, uint32_t seq, bool more);
bool op_added(struct one_sided *o, uint32_t seq);

#endif /* UNETMM_TOOLS_OP_H */
