/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The instructions of our provider of libibverbs, as fast.c those of the library: posts and
 * polls by the calls of verbs.  The provider's own files are compiled with it; the queue pair
 * is made by hand, and the card is a piece of memory.
 */
#include "verbs.h"

#include "fast.h"
#include "steps.h"

#include <stdio.h>
#include <stdlib.h>

#define REQUESTS    256
#define LKEY        0x1200

static struct umv_context context;
static struct ibv_pd pd = { .context = &context.vctx.context };
static struct umv_cq cq;
static struct umv_qp qp;
static struct ibv_mr *mr;
static uint8_t memory[8192] __attribute__((aligned(4096)));
static volatile uint32_t bytes;
static bool counted;

struct fast_case {
    const char *name;
    uint32_t bytes;
    int (*before)(uint64_t i);  /* each call, uncounted; NULL: nothing */
    enum fast_turn turn;        /* of the card, after that */
    int result;
    int (*call)(uint64_t i);
};

/* The requests are the program's. */
static void mark(void)
{
    if (counted) {
        steps_mark();
    }
}

static int post_send(uint64_t i, enum ibv_wr_opcode opcode, unsigned flags)
{
    struct ibv_sge sge = { (uintptr_t)memory, bytes, mr->lkey };
    struct ibv_send_wr wr = {
        .wr_id = i, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = flags,
        .wr.rdma = { .remote_addr = 64, .rkey = 0x700 },
    }, *bad;

    mark();
    return ibv_post_send(&qp.vqp.qp, &wr, &bad);
}

static int call_send(uint64_t i)
{
    return post_send(i, IBV_WR_SEND, IBV_SEND_SIGNALED);
}

static int call_inline(uint64_t i)
{
    return post_send(i, IBV_WR_SEND, IBV_SEND_SIGNALED | IBV_SEND_INLINE);
}

static int call_write(uint64_t i)
{
    return post_send(i, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED);
}

static int call_write_inline(uint64_t i)
{
    return post_send(i, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED | IBV_SEND_INLINE);
}

static int call_read(uint64_t i)
{
    return post_send(i, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED);
}

static int call_recv(uint64_t i)
{
    struct ibv_sge sge = { (uintptr_t)memory, bytes, mr->lkey };
    struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 }, *bad;

    mark();
    return ibv_post_recv(&qp.vqp.qp, &wr, &bad);
}

static int call_session(uint64_t i)
{
    struct ibv_qp_ex *ex = &qp.vqp.qp_ex;

    mark();
    ibv_wr_start(ex);
    ex->wr_id = i;
    ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(ex);
    ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)memory, bytes);
    return ibv_wr_complete(ex);
}

static int call_poll(uint64_t i)
{
    struct ibv_wc wc;

    (void)i;
    mark();
    return ibv_poll_cq(&cq.vcq.cq, 1, &wc);
}

static struct fast_case cases[] = {
    { "send-8", 8, NULL, FAST_SENT, 0, call_inline },
    { "send-200", 200, NULL, FAST_SENT, 0, call_inline },
    { "send-4096", 4096, NULL, FAST_SENT, 0, call_send },
    { "session-4096", 4096, NULL, FAST_SENT, 0, call_session },
    { "post", 4096, NULL, FAST_RETURN, 0, call_recv },
    { "poll-sent", 4096, call_send, FAST_SENT, 1, call_poll },
    { "poll-received", 4096, call_recv, FAST_FILL, 1, call_poll },
    { "poll-none", 0, NULL, FAST_TAKE, 0, call_poll },
    { "write-key-8", 8, NULL, FAST_SENT, 0, call_write_inline },
    { "write-key-4096", 4096, NULL, FAST_SENT, 0, call_write },
    { "read-key-4096", 4096, NULL, FAST_SENT, 0, call_read },
};

static void require(int ret, const char *what)
{
    if (ret) {
        fprintf(stderr, "%s: error %d\n", what, ret);
        exit(EXIT_FAILURE);
    }
}

/* The driver's part of a region */
int ibv_cmd_reg_mr(struct ibv_pd *of, void *addr, size_t length, uint64_t iova, int access,
                   struct verbs_mr *vmr, struct ibv_reg_mr *cmd, size_t cmd_size,
                   struct ib_uverbs_reg_mr_resp *resp, size_t resp_size)
{
    (void)of, (void)addr, (void)length, (void)iova, (void)access, (void)cmd, (void)cmd_size;
    (void)resp, (void)resp_size;
    vmr->ibv_mr.lkey = LKEY;
    return 0;
}

static void open_queue_pair(void)
{
    context.max_message = 65536;
    context.vctx.context.ops.post_send = umv_post_send;
    context.vctx.context.ops.post_recv = umv_post_recv;
    context.vctx.context.ops.poll_cq = umv_poll_cq;
    cq.vcq.cq.context = &context.vctx.context;
    qp.vqp.qp.context = &context.vctx.context;
    qp.vqp.qp.pd = &pd;
    qp.context = &context;
    qp.send_cq = qp.recv_cq = &cq;
    qp.ep = fast_open();
    qp.receive_usual = 65536;
    qp.cap = (struct ibv_qp_cap) { REQUESTS, REQUESTS, 4, 4, UNETMM_MAX_INLINE };
    qp.sent = calloc(REQUESTS, sizeof(*qp.sent));
    qp.received = calloc(REQUESTS, sizeof(*qp.received));
    umv_set_kinds(&qp, false);
    require(!qp.sent || !qp.received, "no memory");
    umv_set_state(&qp, IBV_QPS_RTS);
    require(umv_cq_add(&cq, &qp), "the completion queue");
    require(umv_wr_ops(&qp, IBV_QP_EX_WITH_SEND), "ibv_wr_send()");
    mr = umv_reg_mr(&pd, memory, sizeof(memory), (uintptr_t)memory, IBV_ACCESS_LOCAL_WRITE);
    require(!mr, "a memory region");
}

/* In the child whose steps are counted: an endpoint belongs to one process. */
static void run(void *opaque)
{
    const struct fast_case *which = opaque;
    struct ibv_wc wc;

    open_queue_pair();
    bytes = which->bytes;
    steps_mark();
    steps_mark();
    for (uint64_t i = 0; i < FAST_CALLS; i++) {
        int ret;

        if (which->before) {
            require(which->before(i), which->name);
        }
        fast_turn(which->turn);
        counted = true;
        ret = which->call(i);
        steps_mark();
        counted = false;
        if (ret != which->result) {
            require(ret - which->result, which->name);
        }
        while (umv_poll_cq(&cq.vcq.cq, 1, &wc) > 0) {
        }
    }
}

int main(void)
{
    return fast_main(run, cases, sizeof(cases[0]), sizeof(cases) / sizeof(cases[0]));
}
