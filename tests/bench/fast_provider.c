/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The instructions of the provider's data path, as fast.c those of the library: the
 * same messages by libfabric's calls.  Its objects are those of libunetmm-fi.so; the
 * endpoint is connected by hand, and the card is a piece of memory.
 */
#include "provider.h"

#include "fast.h"
#include "steps.h"

#include <stdio.h>
#include <stdlib.h>

#define OPS     1024
/* As ofi_rxm opens its queues */
#define FORMAT  FI_CQ_FORMAT_DATA

static struct umfi_domain domain;
static struct umfi_port port = { .domain = &domain };
static struct umfi_ep *by_channel[2], ep = {
    .fid = { .msg = &umfi_msg_ops, .rma = &umfi_rma_ops },
    .domain = &domain, .port = &port, .channel = 1, .state = UMFI_CONNECTED,
    .tx_completion = FI_COMPLETION, .rx_completion = FI_COMPLETION,
};
static struct umfi_op ops[2 * OPS];
static struct fid_cq *cq;
static uint8_t memory[8192] __attribute__((aligned(4096)));
static volatile size_t bytes;

struct fast_case {
    const char *name;
    size_t bytes;
    ssize_t (*before)(uint64_t i);      /* each call, uncounted; NULL: nothing */
    enum fast_turn turn;                /* of the card, after that */
    ssize_t result;
    ssize_t (*call)(uint64_t i);
};

static ssize_t call_send(uint64_t i)
{
    return fi_send(&ep.fid, memory, bytes, NULL, 0, memory + i);
}

static ssize_t call_recv(uint64_t i)
{
    return fi_recv(&ep.fid, memory, bytes, NULL, 0, memory + i);
}

static ssize_t call_cq(uint64_t i)
{
    struct fi_cq_data_entry entry;

    (void)i;
    return fi_cq_read(cq, &entry, 1);
}

static ssize_t call_write(uint64_t i)
{
    return fi_write(&ep.fid, memory, bytes, NULL, 0, 64, 7, memory + i);
}

static ssize_t call_read(uint64_t i)
{
    return fi_read(&ep.fid, memory, bytes, NULL, 0, 64, 7, memory + i);
}

static struct fast_case cases[] = {
    { "send-8", 8, NULL, FAST_TAKE, 0, call_send },
    { "sent-8", 8, call_send, FAST_SENT, 1, call_cq },
    { "recv", 4096, NULL, FAST_RETURN, 0, call_recv },
    { "received-8", 4096, call_recv, FAST_FILL, 1, call_cq },
    { "cq-empty", 0, NULL, FAST_TAKE, -FI_EAGAIN, call_cq },
    { "write-8", 8, NULL, FAST_TAKE, 0, call_write },
    { "read-4096", 4096, NULL, FAST_TAKE, 0, call_read },
};

static void require(int ret, const char *what)
{
    if (ret) {
        fprintf(stderr, "%s: error %d\n", what, ret);
        exit(EXIT_FAILURE);
    }
}

static void open_endpoint(void)
{
    struct fi_cq_attr attr = { .format = FORMAT, .wait_obj = FI_WAIT_NONE };

    port.ep = fast_open();
    port.channels = 2;
    umfi_list_init(&port.ending);
    port.slots = 256;
    port.by_channel = by_channel;
    by_channel[1] = &ep;
    umfi_pool_fill(&port.tx, ops, OPS);
    umfi_pool_fill(&port.rx, ops + OPS, OPS);
    require(umfi_cq_open(&domain.fid, &attr, &cq, NULL), "fi_cq_open");
    ep.tx_cq = ep.rx_cq = umfi_of(cq, struct umfi_cq, fid);
    umfi_lock(&domain);
    require(umfi_cq_attach(ep.tx_cq, &port), "attaching the queue");
    umfi_unlock(&domain);
}

/* In the child whose steps are counted: an endpoint belongs to one process. */
static void run(void *opaque)
{
    const struct fast_case *which = opaque;

    open_endpoint();
    bytes = which->bytes;
    steps_mark();
    steps_mark();
    for (uint64_t i = 0; i < FAST_CALLS; i++) {
        ssize_t ret;

        if (which->before) {
            require((int)which->before(i), which->name);
        }
        fast_turn(which->turn);
        steps_mark();
        ret = which->call(i);
        steps_mark();
        if (ret != which->result) {
            require((int)ret - (int)which->result, which->name);
        }
    }
}

int main(void)
{
    return fast_main(run, cases, sizeof(cases[0]), sizeof(cases) / sizeof(cases[0]));
}
