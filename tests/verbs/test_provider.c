/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Our provider of libibverbs on a card that is a piece of memory: the order of completions,
 * fences, sessions, datagrams, the end of a queue pair and of the card.  The provider's own files are
 * compiled with it; the queue pair is made by hand, and the driver's part is here.
 */
#include "mw.h"
#include "send.h"
#include "srq.h"
#include "ud.h"

#include <infiniband/cmd_ioctl.h>

#include "fake_card.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define QUEUE_LOG2      6
#define QUEUE           (1u << QUEUE_LOG2)
#define REMEMBERED      (1u << 16)      /* requests; a power of 2 */
#define STEPS           200000
#define THREAD_POSTS    20000
#define OPEN_READS      32

static struct umv_context context;
static struct ibv_pd pd = { .context = &context.vctx.context };
static struct umv_cq cqs[2];
static struct umv_qp qp;
static struct fake_endpoint fake;
static struct ibv_mr *mr;
static struct fake_message message;
static uint8_t memory[1 << 20] __attribute__((aligned(4096)));
static unsigned ends;           /* how often the driver was told to end the queue pair */

/* ---- The driver's part ----------------------------------------------------- */

int ibv_cmd_reg_mr(struct ibv_pd *of, void *addr, size_t length, uint64_t iova, int access,
                   struct verbs_mr *vmr, struct ibv_reg_mr *cmd, size_t cmd_size,
                   struct ib_uverbs_reg_mr_resp *resp, size_t resp_size)
{
    (void)addr, (void)length, (void)iova, (void)access, (void)cmd, (void)cmd_size;
    (void)resp, (void)resp_size;
    vmr->ibv_mr.context = of->context;
    vmr->ibv_mr.lkey = 0x1200;
    return 0;
}

static unsigned asked;          /* changes of keys */
static bool refuses;            /* the next one */

int execute_ioctl(struct ibv_context *of, struct ibv_command_buffer *cmd)
{
    (void)of, (void)cmd;
    asked++;
    return refuses ? EINVAL : 0;
}

int ibv_cmd_dereg_mr(struct verbs_mr *vmr)
{
    (void)vmr;
    return 0;
}

int ibv_cmd_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask,
                      struct ibv_modify_qp *cmd, size_t size)
{
    (void)ibqp, (void)cmd, (void)size;
    assert_int_equal(mask, IBV_QP_STATE);
    assert_int_equal(attr->qp_state, IBV_QPS_ERR);
    __atomic_fetch_add(&ends, 1, __ATOMIC_RELAXED);
    return 0;
}

int ibv_cmd_resize_cq(struct ibv_cq *ibcq, int cqe, struct ibv_resize_cq *cmd, size_t cmd_size,
                      struct ib_uverbs_resize_cq_resp *resp, size_t resp_size)
{
    (void)cmd, (void)cmd_size, (void)resp, (void)resp_size;
    ibcq->cqe = cqe;
    return 0;
}

/* ---- A queue pair ---------------------------------------------------------- */

static void open_type(bool two, bool ud)
{
    memset(&qp, 0, sizeof(qp));
    qp.ud = qp.long_receives = ud;
    qp.srq_first = qp.srq_last = UMV_NONE;
    memset(cqs, 0, sizeof(cqs));
    memset(&context, 0, sizeof(context));
    ends = 0;
    context.max_message = 65536;
    qp.vqp.qp.context = &context.vctx.context;
    qp.vqp.qp.pd = &pd;
    qp.vqp.qp.qp_num = 300;
    qp.context = &context;
    qp.send_cq = &cqs[0];
    qp.recv_cq = &cqs[two];
    qp.two_cqs = two;
    fake_endpoint_init(&fake, QUEUE_LOG2, QUEUE_LOG2, QUEUE_LOG2 + 1, 0);
    qp.ep = fake.ep;
    qp.receive_usual = context.max_message + UNETMM_PAGE_BYTES;
    qp.cap = (struct ibv_qp_cap) { 16, QUEUE, 4, 4, UNETMM_MAX_INLINE };
    qp.sent = calloc(QUEUE, sizeof(*qp.sent));
    qp.received = calloc(QUEUE, sizeof(*qp.received));
    assert_true(qp.sent && qp.received);
    umv_set_kinds(&qp, false);
    umv_set_state(&qp, IBV_QPS_RTS);
    for (int i = 0; i <= two; i++) {
        assert_int_equal(umv_cq_add(&cqs[i], &qp), 0);
    }
    assert_int_equal(umv_wr_ops(&qp, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ),
                     ud ? EOPNOTSUPP : 0);
    assert_int_equal(umv_wr_ops(&qp, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM), 0);
    mr = umv_reg_mr(&pd, memory, sizeof(memory), (uintptr_t)memory, IBV_ACCESS_LOCAL_WRITE);
    assert_non_null(mr);
}

static void open_qp(bool two)
{
    open_type(two, false);
}

static void close_qp(void)
{
    if (mr) {
        assert_int_equal(umv_dereg_mr(container_of(mr, struct verbs_mr, ibv_mr)), 0);
    }
    for (int i = 0; i <= qp.two_cqs; i++) {
        umv_cq_remove(&cqs[i], &qp);
        free(cqs[i].qps);
    }
    for (unsigned i = 0; i < 1 << UMV_MR_LOG2; i++) {
        free(context.mrs[i]);
    }
    free(qp.sent);
    free(qp.received);
    fake_endpoint_free(&fake);
}

static int post_send(uint64_t id, enum ibv_wr_opcode opcode, unsigned flags, uint32_t len, int n)
{
    struct ibv_sge sges[4];
    struct ibv_send_wr wr = {
        .wr_id = id, .sg_list = sges, .num_sge = n, .opcode = opcode, .send_flags = flags,
        .imm_data = 0x1234, .wr.rdma = { .remote_addr = 64, .rkey = 0x700 },
    }, *bad;

    for (int i = 0; i < 4; i++) {
        sges[i] = (struct ibv_sge) { (uintptr_t)memory + i * len, len, mr->lkey };
    }
    return umv_post_send(&qp.vqp.qp, &wr, &bad);
}

static int post_recv(uint64_t id, uint32_t len, int n)
{
    struct ibv_sge sges[4];
    struct ibv_recv_wr wr = { .wr_id = id, .sg_list = sges, .num_sge = n }, *bad;

    for (int i = 0; i < 4; i++) {
        sges[i] = (struct ibv_sge) { (uintptr_t)memory + 65536 + i * len, len, mr->lkey };
    }
    return umv_post_recv(&qp.vqp.qp, &wr, &bad);
}

/* One request that the card has taken */
static void take(unsigned opcode)
{
    assert_true(fake_card_take(&fake.card, &message));
    assert_int_equal(message.opcode, opcode);
}

static void expect(struct umv_cq *cq, uint64_t id, enum ibv_wc_status status)
{
    struct ibv_wc wc;

    assert_int_equal(umv_poll_cq(&cq->vcq.cq, 1, &wc), 1);
    assert_int_equal(wc.wr_id, id);
    assert_int_equal(wc.status, status);
}

static void expect_none(struct umv_cq *cq)
{
    struct ibv_wc wc;

    assert_int_equal(umv_poll_cq(&cq->vcq.cq, 1, &wc), 0);
}

/* ---- Random steps against the order that verbs promise ---------------------- */

static struct {
    bool signaled[REMEMBERED];  /* of a send, by its wr_id */
    uint64_t sends, told_sends; /* the next ones */
    uint64_t receives, told_receives;
    uint64_t reads[OPEN_READS]; /* their cookies; the card ends them later */
    unsigned first_read, end_reads;
} model;

static void random_send(void)
{
    static const enum ibv_wr_opcode opcodes[] = {
        IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND_WITH_IMM,
        IBV_WR_RDMA_WRITE_WITH_IMM,
    };
    enum ibv_wr_opcode opcode = opcodes[rand() % 5];
    bool is_inline = opcode != IBV_WR_RDMA_READ && !(rand() % 3);
    bool signaled = rand() % 3;
    int ret = post_send(model.sends, opcode, (signaled ? IBV_SEND_SIGNALED : 0) |
                        (is_inline ? IBV_SEND_INLINE : 0) |
                        (rand() % 10 ? 0 : IBV_SEND_FENCE),
                        is_inline ? rand() % 56 : rand() % 2000, rand() % 4 ? 1 : rand() % 5);

    if (ret) {
        assert_int_equal(ret, ENOMEM);
        return;
    }
    model.signaled[model.sends++ % REMEMBERED] = signaled;
}

static void random_receive(void)
{
    int ret = post_recv(model.receives, 1 + rand() % 3000, rand() % 4 ? 1 : rand() % 5);

    if (ret) {
        assert_int_equal(ret, ENOMEM);
        return;
    }
    model.receives++;
}

/* A READ may end behind later requests. */
static void card_sends(void)
{
    if (!fake_card_take(&fake.card, &message) || message.quiet) {
        return;
    }
    if (message.opcode == UNETMM_OP_READ && rand() % 2 &&
        model.end_reads - model.first_read < OPEN_READS) {
        model.reads[model.end_reads++ % OPEN_READS] = message.cookie;
    } else {
        assert_true(fake_card_sent(&fake.card, &message));
    }
}

static void card_ends_a_read(void)
{
    struct unetmm_cqe cqe = {
        .cookie = model.reads[model.first_read % OPEN_READS], .opcode = UNETMM_CQE_SENT,
    };

    if (model.first_read != model.end_reads && fake_card_complete(&fake.card, &cqe)) {
        model.first_read++;
    }
}

/* A message ends in a buffer, which may be a chain. */
static void card_receives(void)
{
    struct fake_card *card = &fake.card;
    const struct unetmm_fqe *fqe = &card->fq[card->fq_cons % QUEUE];
    struct unetmm_cqe cqe = {
        .len = 8, .opcode = rand() % 4 ? UNETMM_CQE_RECEIVED : UNETMM_CQE_WRITTEN,
        .flags = rand() % 2 ? UNETMM_CQE_F_IMM : 0, .imm = 0x77,
    };

    if (unetmm_read_word(&card->index->user.fq_prod) == card->fq_cons) {
        return;
    }
    cqe.cookie = fqe->cookie;
    if (!fake_card_complete(card, &cqe)) {
        return;
    }
    while (fqe->flags & UNETMM_FQE_F_CHAIN) {
        fqe = &card->fq[++card->fq_cons % QUEUE];
    }
    unetmm_write_index(&card->index->card.fq_cons, ++card->fq_cons);
}

static void check_end(const struct ibv_wc *wc, const struct umv_cq *cq)
{
    assert_int_equal(wc->qp_num, qp.vqp.qp.qp_num);
    if (wc->opcode & IBV_WC_RECV && cq == qp.recv_cq && wc->wr_id == model.told_receives) {
        model.told_receives++;
        return;
    }
    assert_ptr_equal(cq, qp.send_cq);
    while (!wc->status && !model.signaled[model.told_sends % REMEMBERED]) {
        model.told_sends++;
    }
    /* The card has done some sends that had no completion, before the flush. */
    assert_true(wc->status ? wc->wr_id >= model.told_sends : wc->wr_id == model.told_sends);
    model.told_sends = wc->wr_id + 1;
}

static int poll_some(enum ibv_wc_status status)
{
    struct umv_cq *cq = &cqs[qp.two_cqs && rand() % 2];
    struct ibv_wc wcs[QUEUE];
    int n = rand() % 2 ? 1 : rand() % QUEUE;
    int got = umv_poll_cq(&cq->vcq.cq, n, wcs);

    assert_in_range(got, 0, n);
    for (int i = 0; i < got; i++) {
        assert_true(!wcs[i].status || wcs[i].status == status);
        check_end(&wcs[i], cq);
    }
    return got;
}

static void random_step(void)
{
    int which = rand() % 100;

    if (which < 40) {
        random_send();
    } else if (which < 55) {
        random_receive();
    } else if (which < 75) {
        card_sends();
    } else if (which < 80) {
        card_ends_a_read();
    } else if (which < 88) {
        card_receives();
    } else {
        poll_some(IBV_WC_SUCCESS);
    }
}

static void random_steps(bool two)
{
    struct unetmm_cqe closed = { .opcode = UNETMM_CQE_CLOSED, .status = UNETMM_ST_PEER_FAILED };

    memset(&model, 0, sizeof(model));
    srand(1);
    open_qp(two);
    for (unsigned i = 0; i < STEPS; i++) {
        random_step();
    }
    while (!fake_card_complete(&fake.card, &closed)) {
        poll_some(IBV_WC_SUCCESS);
    }
    for (unsigned i = 0; i < 100 * QUEUE; i++) {
        poll_some(IBV_WC_WR_FLUSH_ERR);
    }
    assert_int_equal(model.told_sends, model.sends);
    assert_int_equal(model.told_receives, model.receives);
    assert_true(ends);
    close_qp();
}

static void test_order(void **state)
{
    (void)state;
    random_steps(false);
}

static void test_order_two_queues(void **state)
{
    (void)state;
    random_steps(true);
}

/* ---- Single rules ----------------------------------------------------------- */

/* A poll in a session, and a receive; the fence is open when the session ends. */
static void test_session(void **state)
{
    struct ibv_qp_ex *ex = &qp.vqp.qp_ex;
    struct fake_message read;

    (void)state;
    open_qp(false);
    assert_int_equal(post_send(1, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, 8, 1), 0);
    assert_int_equal(post_send(2, IBV_WR_SEND, IBV_SEND_SIGNALED | IBV_SEND_FENCE, 8, 1), 0);
    take(UNETMM_OP_READ);
    read = message;
    assert_false(fake_card_take(&fake.card, &message));
    ex->wr_start(ex);
    assert_true(fake_card_sent(&fake.card, &read));
    expect(&cqs[0], 1, IBV_WC_SUCCESS);
    assert_int_equal(post_recv(9, 8, 1), 0);
    assert_false(fake_card_take(&fake.card, &message));
    ex->wr_id = 3;
    ex->wr_flags = IBV_SEND_SIGNALED;
    ex->wr_send(ex);
    ex->wr_set_sge(ex, mr->lkey, (uintptr_t)memory, 8);
    assert_int_equal(ex->wr_complete(ex), 0);
    for (uint64_t id = 2; id < 4; id++) {
        take(UNETMM_OP_SEND);
        assert_true(fake_card_sent(&fake.card, &message));
        expect(&cqs[0], id, IBV_WC_SUCCESS);
    }
    ex->wr_start(ex);
    ex->wr_send(ex);
    ex->wr_set_sge(ex, mr->lkey, (uintptr_t)memory, 8);
    ex->wr_abort(ex);
    assert_false(fake_card_take(&fake.card, &message));
    close_qp();
}

/* Statuses of the peer's card become InfiniBand's errors, which know words that are not aligned. */
static void test_remote_errors(void **state)
{
    static const struct {
        enum ibv_wr_opcode opcode;
        unsigned at;
        uint8_t card;
        enum ibv_wc_status status;
    } errors[] = {
        { IBV_WR_ATOMIC_FETCH_AND_ADD, 8, UNETMM_ST_REVOKED, IBV_WC_REM_ACCESS_ERR },
        { IBV_WR_ATOMIC_FETCH_AND_ADD, 4, UNETMM_ST_REMOTE_RANGE, IBV_WC_REM_INV_REQ_ERR },
        { IBV_WR_ATOMIC_CMP_AND_SWP, 1, UNETMM_ST_REVOKED, IBV_WC_REM_INV_REQ_ERR },
        { IBV_WR_RDMA_READ, 1, UNETMM_ST_REMOTE_MEMORY, IBV_WC_REM_ACCESS_ERR },
        { IBV_WR_RDMA_WRITE_WITH_IMM, 1, UNETMM_ST_REMOTE_MEMORY, IBV_WC_REM_ACCESS_ERR },
        { IBV_WR_SEND, 0, UNETMM_ST_REMOTE_MEMORY, IBV_WC_REM_OP_ERR },
        { IBV_WR_SEND_WITH_IMM, 0, UNETMM_ST_REMOTE_MEMORY, IBV_WC_REM_OP_ERR },
    };

    (void)state;
    for (unsigned i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        struct unetmm_cqe cqe = { .opcode = UNETMM_CQE_SENT, .status = errors[i].card };
        struct ibv_sge sge;
        struct ibv_send_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1,
                                  .opcode = errors[i].opcode }, *bad;

        open_qp(false);
        sge = (struct ibv_sge) { (uintptr_t)memory, 8, mr->lkey };
        if (wr.opcode >= IBV_WR_ATOMIC_CMP_AND_SWP) {
            wr.wr.atomic.remote_addr = errors[i].at;
        } else {
            wr.wr.rdma.remote_addr = errors[i].at;
        }
        assert_int_equal(umv_post_send(&qp.vqp.qp, &wr, &bad), 0);
        assert_true(fake_card_complete(&fake.card, &cqe));
        expect(&cqs[0], i, errors[i].status);
        close_qp();
    }
}

/* A window's key changes when the post is made; a wrong request fails in its turn. */
static void test_window(void **state)
{
    struct ibv_qp_ex *ex = &qp.vqp.qp_ex;
    const struct ibv_mw_bind_info info = { .length = 8 };
    struct ibv_mw mw = { .rkey = 0x5678, .pd = &pd };
    struct ibv_mw_bind bind = { 7, IBV_SEND_SIGNALED, info };

    (void)state;
    open_qp(false);
    asked = 0;
    assert_int_equal(umv_bind_mw(&qp.vqp.qp, &mw, &bind), EINVAL);
    bind.bind_info.length = 0;
    assert_int_equal(umv_bind_mw(&qp.vqp.qp, &mw, &bind), 0);
    assert_int_equal(asked, 1);
    assert_int_equal(mw.rkey, 0x5679);
    take(UNETMM_OP_FENCE);
    assert_true(fake_card_sent(&fake.card, &message));
    expect(&cqs[0], 7, IBV_WC_SUCCESS);
    for (int commit = 0; commit < 2; commit++) {
        ex->wr_start(ex);
        ex->wr_id = 8;
        ex->wr_flags = IBV_SEND_SIGNALED;
        ex->wr_bind_mw(ex, &mw, 0x1234, &info);
        ex->wr_local_inv(ex, 0x5634);
        assert_int_equal(asked, 1);
        if (commit) {
            assert_int_equal(ex->wr_complete(ex), 0);
        } else {
            ex->wr_abort(ex);
            assert_int_equal(mw.rkey, 0x5679);
        }
    }
    assert_int_equal(asked, 3);
    assert_int_equal(mw.rkey, 0x5634);
    for (int i = 0; i < 2; i++) {
        take(UNETMM_OP_FENCE);
        assert_true(fake_card_sent(&fake.card, &message));
        expect(&cqs[0], 8, IBV_WC_SUCCESS);
    }
    refuses = true;
    assert_int_equal(umv_bind_mw(&qp.vqp.qp, &mw, &bind), 0);
    refuses = false;
    assert_int_not_equal(umv_sqe(qp.ep, qp.ep->sq_prod - 1)->imm, 0);
    assert_true(fake_card_complete(&fake.card, &(struct unetmm_cqe) {
        .cookie = qp.ep->sq_prod - 1, .opcode = UNETMM_CQE_SENT, .status = UNETMM_ST_BAD_DESC,
    }));
    expect(&cqs[0], 7, IBV_WC_MW_BIND_ERR);
    close_qp();
}

/* The region that was used last has gone. */
static void test_region_removed(void **state)
{
    struct ibv_sge sge;
    struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ }, *bad;

    (void)state;
    open_qp(false);
    sge = (struct ibv_sge) { (uintptr_t)memory, 8, mr->lkey };
    for (int i = 0; i < 2; i++) {
        assert_int_equal(umv_post_send(&qp.vqp.qp, &wr, &bad), 0);
        take(UNETMM_OP_READ);
        assert_ptr_equal(message.to, i ? NULL : memory);
        if (!i) {
            assert_int_equal(umv_dereg_mr(container_of(mr, struct verbs_mr, ibv_mr)), 0);
            mr = NULL;
        }
    }
    close_qp();
}

/* A card that has gone leaves a page of zeros: on each pass of the ring the requests come back. */
static void test_card_removed(void **state)
{
    (void)state;
    for (unsigned before = 0; before < 8 * QUEUE; before += QUEUE / 2) {
        open_qp(false);
        for (unsigned i = 0; i < before; i++) {
            assert_int_equal(post_send(i, IBV_WR_SEND, IBV_SEND_SIGNALED, 8, 1), 0);
            take(UNETMM_OP_SEND);
            assert_true(fake_card_sent(&fake.card, &message));
            expect(&cqs[0], i, IBV_WC_SUCCESS);
        }
        assert_int_equal(post_send(1000, IBV_WR_SEND, IBV_SEND_SIGNALED, 8, 1), 0);
        memset(qp.ep->cq, 0, (qp.ep->cq_mask + 1) * sizeof(*qp.ep->cq));
        fake_card_state(&fake.card, 0);
        expect(&cqs[0], 1000, IBV_WC_WR_FLUSH_ERR);
        expect_none(&cqs[0]);
        assert_int_equal(ends, 1);
        close_qp();
    }
}

/* A post in ERR comes back, and the driver wakes the threads that wait for events. */
static void test_post_in_error(void **state)
{
    (void)state;
    open_qp(false);
    umv_set_state(&qp, IBV_QPS_ERR);
    assert_int_equal(post_send(1, IBV_WR_SEND, 0, 8, 1), 0);
    assert_int_equal(ends, 1);
    assert_int_equal(post_recv(2, 8, 1), 0);
    assert_int_equal(ends, 2);
    expect(&cqs[0], 1, IBV_WC_WR_FLUSH_ERR);
    expect(&cqs[0], 2, IBV_WC_WR_FLUSH_ERR);
    expect_none(&cqs[0]);
    close_qp();
}

/* The oldest send has ended, and its completion is told. */
static void end_send(uint64_t id)
{
    take(UNETMM_OP_SEND);
    assert_true(fake_card_sent(&fake.card, &message));
    expect(&cqs[0], id, IBV_WC_SUCCESS);
}

static void end_receive(uint64_t id)
{
    struct fake_card *card = &fake.card;
    struct unetmm_cqe cqe = {
        .opcode = UNETMM_CQE_RECEIVED, .cookie = card->fq[card->fq_cons % QUEUE].cookie,
    };

    while (card->fq[card->fq_cons++ % QUEUE].flags & UNETMM_FQE_F_CHAIN) {
    }
    assert_true(fake_card_complete(card, &cqe));
    expect(&cqs[0], id, IBV_WC_SUCCESS);
}

/* A receive request without segments, or of empty ones, is a buffer without memory. */
static void test_no_segments(void **state)
{
    (void)state;
    open_qp(false);
    for (int n = 0; n < 3; n++) {
        const struct unetmm_fqe *fqe = &fake.card.fq[n];

        assert_int_equal(post_recv((uint64_t)n, 0, n), 0);
        assert_int_equal(fqe->len, 0);
        assert_int_equal(fqe->flags, 0);
    }
    for (uint64_t id = 0; id < 3; id++) {
        end_receive(id);
    }
    close_qp();
}

/* A queue takes as many requests as the program was told, whatever their number of slots. */
static void test_limits(void **state)
{
    struct ibv_qp_ex *ex = &qp.vqp.qp_ex;
    uint64_t sent = 0, received = 0;

    (void)state;
    open_qp(false);
    qp.cap.max_send_wr = qp.cap.max_recv_wr = 3;
    umv_set_state(&qp, IBV_QPS_RTS);
    for (uint64_t i = 0; i < 4 * QUEUE; i++) {
        while (sent < i + 3) {
            assert_int_equal(post_send(sent, IBV_WR_SEND, IBV_SEND_SIGNALED, 8,
                                       1 + (int)(sent / 5 % 4)), 0);
            sent++;
        }
        while (received < i + 3) {
            assert_int_equal(post_recv(received, 8, 1 + (int)(received / 5 % 4)), 0);
            received++;
        }
        assert_int_equal(post_send(99, IBV_WR_SEND, IBV_SEND_SIGNALED, 8, 1), ENOMEM);
        assert_int_equal(post_send(99, IBV_WR_SEND, IBV_SEND_INLINE, 8, 1), ENOMEM);
        assert_int_equal(post_recv(99, 8, 1), ENOMEM);
        assert_int_equal(post_recv(99, 8, 4), ENOMEM);
        end_send(i);
        end_receive(i);
        /* Requests that are given up count no more. */
        ex->wr_start(ex);
        ex->wr_send(ex);
        ex->wr_set_sge_list(ex, 4, (struct ibv_sge[4]) {
            { (uintptr_t)memory, 8, mr->lkey }, { (uintptr_t)memory, 8, mr->lkey },
            { (uintptr_t)memory, 8, mr->lkey }, { (uintptr_t)memory, 8, mr->lkey },
        });
        ex->wr_abort(ex);
    }
    close_qp();
}

/* A completion queue is not smaller than its completions, and those that sends will have. */
static void check_smallest(struct umv_cq *cq, int n)
{
    if (n > 1) {
        assert_int_equal(umv_resize_cq(&cq->vcq.cq, n - 1), EINVAL);
    }
    assert_int_equal(umv_resize_cq(&cq->vcq.cq, 0), EINVAL);
    assert_int_equal(umv_resize_cq(&cq->vcq.cq, n), 0);
    assert_int_equal(cq->vcq.cq.cqe, n);
}

static void test_resize(void **state)
{
    (void)state;
    for (unsigned two = 0; two < 2; two++) {
        open_qp(two);
        check_smallest(&cqs[0], 1);
        for (uint64_t i = 0; i < 4; i++) {
            assert_int_equal(post_recv(i, 8, 1 + (int)i), 0);
            assert_int_equal(post_send(i, IBV_WR_SEND, i ? IBV_SEND_SIGNALED : 0, 8,
                                       1 + (int)i), 0);
        }
        check_smallest(&cqs[0], 3);
        check_smallest(&cqs[two], two ? 1 : 3);
        card_receives();
        card_receives();
        check_smallest(&cqs[0], two ? 3 : 5);
        check_smallest(&cqs[two], two ? 2 : 5);
        umv_set_state(&qp, IBV_QPS_ERR);
        check_smallest(&cqs[0], two ? 4 : 8);
        check_smallest(&cqs[two], two ? 4 : 8);
        close_qp();
    }
}

/* ---- Datagrams --------------------------------------------------------------- */

#define IP4     20              /* in the network header */

/* The sum of the header's words; 0xffff if the checksum is right */
static unsigned ip4_sum(const uint8_t *ip)
{
    unsigned sum = 0;

    for (unsigned i = 0; i < 20; i += 2) {
        sum += (unsigned)ip[i] << 8 | ip[i + 1];
    }
    return (sum & 0xffff) + (sum >> 16);
}

/* As the driver makes them: `v6`, or else IPv4, of a message of no bytes */
static struct umv_ah make_ah(bool v6)
{
    struct umv_ah ah = { .ah.pd = &pd, .own.mac = { 2, 3, 4, 5, 6, 7 } };
    static const uint8_t ip4[] = {
        0x45, 0, 0, 52, 0, 0, 0, 0, 64, 17, 0, 0, 10, 7, 0, 1, 10, 7, 0, 2,
    };
    uint8_t *ip = ah.own.grh + IP4;
    unsigned sum;

    if (v6) {
        ah.own.grh[0] = 0x60;
        ah.own.grh[5] = 32;
        return ah;
    }
    memcpy(ip, ip4, sizeof(ip4));
    sum = ~ip4_sum(ip);
    ip[10] = (uint8_t)(sum >> 8);
    ip[11] = (uint8_t)sum;
    return ah;
}

/* By ibv_post_send(), or by ibv_wr_*() with the address before or behind the data */
static void send_to(struct umv_ah *ah, unsigned how, bool is_inline, unsigned n, uint32_t len)
{
    struct ibv_qp_ex *ex = &qp.vqp.qp_ex;
    struct ibv_sge sges[UNETMM_UD_SEGS];
    struct ibv_data_buf bufs[UNETMM_UD_SEGS];
    struct ibv_send_wr wr = {
        .wr_id = 5, .sg_list = sges, .num_sge = (int)n, .opcode = IBV_WR_SEND_WITH_IMM,
        .send_flags = IBV_SEND_SIGNALED | (is_inline ? IBV_SEND_INLINE : 0), .imm_data = 0x1234,
        .wr.ud = { &ah->ah, 600, 0x8111 },
    }, *bad;

    for (unsigned i = 0; i < n; i++) {
        sges[i] = (struct ibv_sge) { (uintptr_t)memory + i * len, len, mr->lkey };
        bufs[i] = (struct ibv_data_buf) { memory + i * len, len };
    }
    if (!how) {
        assert_int_equal(umv_post_send(&qp.vqp.qp, &wr, &bad), 0);
        return;
    }
    ex->wr_start(ex);
    ex->wr_id = 5;
    ex->wr_flags = IBV_SEND_SIGNALED;
    ex->wr_send_imm(ex, 0x1234);
    if (how == 1) {
        ex->wr_set_ud_addr(ex, &ah->ah, 600, 0x8111);
    }
    if (is_inline) {
        ex->wr_set_inline_data_list(ex, n, bufs);
    } else {
        ex->wr_set_sge_list(ex, n, sges);
    }
    if (how == 2) {
        ex->wr_set_ud_addr(ex, &ah->ah, 600, 0x8111);
    }
    assert_int_equal(ex->wr_complete(ex), 0);
}

static void check_sent_to(const struct umv_ah *ah, uint32_t len)
{
    uint32_t words = (len + 3) & ~3u;
    const uint8_t *grh = message.data;

    take(UNETMM_OP_SEND_TO);
    assert_int_equal(message.len, UNETMM_VERBS_GRH + len);
    assert_memory_equal(message.data + UNETMM_VERBS_GRH, memory, len);
    assert_int_equal(message.import, 0x8111);
    assert_int_equal(message.offset, (uint64_t)(600 - UNETMM_VERBS_QPN) << 48 | 0x070605040302);
    assert_int_equal(message.imm, 0x1234);
    if (ah->own.grh[0]) {
        assert_int_equal(grh[4] << 8 | grh[5], 32 + words);
    } else {
        assert_int_equal(grh[IP4 + 2] << 8 | grh[IP4 + 3], 52 + words);
        assert_int_equal(ip4_sum(grh + IP4), 0xffff);
    }
    assert_true(fake_card_sent(&fake.card, &message));
    expect(&cqs[0], 5, IBV_WC_SUCCESS);
}

/* Messages of each length and number of pieces, at each place of the queue */
static void test_datagrams(void **state)
{
    struct umv_ah ahs[] = { make_ah(false), make_ah(true) };

    (void)state;
    for (unsigned i = 0; i < 4096; i++) {
        memory[i] = (uint8_t)(i * 7 + i / 256);
    }
    open_type(false, true);
    qp.cap.max_send_sge = UNETMM_UD_SEGS;
    qp.cap.max_inline_data = UNETMM_MAX_INLINE - UNETMM_VERBS_GRH;
    for (unsigned i = 0; i < 8 * QUEUE; i++) {
        unsigned n = i % (UNETMM_UD_SEGS + 1);
        uint32_t len = i % 2 ? 1 + i % (qp.cap.max_inline_data / UNETMM_UD_SEGS) : 1 + i % 200;

        send_to(&ahs[i / 8 % 2], i % 3, i % 2, n, len);
        check_sent_to(&ahs[i / 8 % 2], n * len);
    }
    close_qp();
}

/* An address handle of another protection domain, other opcodes, and posts in ERR */
static void test_datagram_errors(void **state)
{
    struct umv_ah ah = make_ah(false);
    struct ibv_pd other;

    (void)state;
    open_type(false, true);
    assert_int_equal(post_send(1, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 8, 1), EINVAL);
    ah.ah.pd = &other;
    send_to(&ah, 0, false, 1, 8);
    take(UNETMM_OP_SEND_TO);
    /* A group: the card refuses it. */
    assert_true(message.offset & 1);
    ah.ah.pd = &pd;
    umv_set_state(&qp, IBV_QPS_ERR);
    for (unsigned how = 0; how < 3; how++) {
        send_to(&ah, how, false, 1, 8);
    }
    for (unsigned i = 0; i < 4; i++) {
        expect(&cqs[0], 5, IBV_WC_WR_FLUSH_ERR);
    }
    expect_none(&cqs[0]);
    close_qp();
}

/* The completion has the sender's number, as the card says. */
static void test_datagram_source(void **state)
{
    struct unetmm_cqe cqe = {
        .opcode = UNETMM_CQE_RECEIVED, .len = 48, .source = (uint64_t)44 << 48 | 0x070605040302,
        .flags = UNETMM_CQE_F_IMM, .imm = 0x1234,
    };
    struct ibv_wc wc;

    (void)state;
    open_type(false, true);
    assert_int_equal(post_recv(9, 64, 1), 0);
    assert_true(fake_card_complete(&fake.card, &cqe));
    assert_int_equal(umv_poll_cq(&cqs[0].vcq.cq, 1, &wc), 1);
    assert_int_equal(wc.wr_id, 9);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.byte_len, 48);
    assert_int_equal(wc.src_qp, 44 + UNETMM_VERBS_QPN);
    assert_int_equal(wc.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
    close_qp();
}

/* ---- Threads ----------------------------------------------------------------- */

static unsigned told;
static bool over;

static void *thread_of_polls(void *wanted)
{
    struct ibv_wc wcs[2];

    while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
        int got = umv_poll_cq(&cqs[0].vcq.cq, *(int *)wanted, wcs);

        __atomic_fetch_add(&told, got, __ATOMIC_RELEASE);
        sched_yield();
    }
    return NULL;
}

static void *thread_of_card(void *unused)
{
    (void)unused;
    while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
        if (fake_card_take(&fake.card, &message)) {
            while (!fake_card_sent(&fake.card, &message)) {
                sched_yield();
            }
        } else {
            sched_yield();
        }
    }
    return NULL;
}

/* Two threads poll, and open the fences of one that posts. */
static void test_threads(void **state)
{
    pthread_t threads[3];
    int wanted[] = { 1, 2 };

    (void)state;
    open_qp(false);
    assert_int_equal(pthread_create(&threads[0], NULL, thread_of_polls, &wanted[0]), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, thread_of_polls, &wanted[1]), 0);
    assert_int_equal(pthread_create(&threads[2], NULL, thread_of_card, NULL), 0);
    for (unsigned i = 0; i < THREAD_POSTS;) {
        int ret = post_send(i, i % 3 ? IBV_WR_SEND : IBV_WR_RDMA_READ, IBV_SEND_SIGNALED |
                            (i % 5 ? 0 : IBV_SEND_FENCE), 8, 1);

        if (ret) {
            assert_int_equal(ret, ENOMEM);
            sched_yield();
        } else {
            i++;
        }
    }
    /* A completion that is lost never comes: the runner's limit ends the test. */
    while (__atomic_load_n(&told, __ATOMIC_ACQUIRE) < THREAD_POSTS) {
        sched_yield();
    }
    __atomic_store_n(&over, true, __ATOMIC_RELEASE);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(told, THREAD_POSTS);
    close_qp();
}

/* ---- A shared receive queue ------------------------------------------------- */

#define SHARED  3               /* requests */

static struct umv_srq srq;
static struct fake_endpoint shared;

static void open_shared(void)
{
    open_qp(false);
    fake_endpoint_init(&shared, QUEUE_LOG2, QUEUE_LOG2, QUEUE_LOG2, 0);
    srq = (struct umv_srq) {
        .context = &context, .ep = shared.ep, .max_wr = SHARED, .max_sge = 2,
        .records = calloc(SHARED, sizeof(*srq.records)),
    };
    assert_non_null(srq.records);
    srq.vsrq.srq.pd = &pd;
    for (uint32_t i = 0; i < SHARED; i++) {
        srq.records[i].next = i + 1 < SHARED ? i + 1 : UMV_NONE;
    }
    umv_cq_remove(&cqs[0], &qp);
    qp.srq = &srq;
    qp.long_receives = true;
    qp.cap.max_recv_wr = qp.cap.max_recv_sge = 0;
    umv_set_state(&qp, IBV_QPS_RTS);
    assert_int_equal(umv_cq_add(&cqs[0], &qp), 0);
}

static void close_shared(void)
{
    free(srq.records);
    fake_endpoint_free(&shared);
    close_qp();
}

static int post_shared(uint64_t id, int n)
{
    struct ibv_sge sges[3] = {
        { (uintptr_t)memory, 64, mr->lkey }, { (uintptr_t)memory + 64, 64, mr->lkey },
        { (uintptr_t)memory + 128, 64, mr->lkey },
    };
    struct ibv_recv_wr wr = { .wr_id = id, .sg_list = sges, .num_sge = n }, *bad = NULL;
    int ret = umv_post_srq_recv(&srq.vsrq.srq, &wr, &bad);

    assert_true(bad == (ret ? &wr : NULL));
    return ret;
}

/* The card has a message for the queue pair in the request of this record. */
static void complete_shared(uint64_t cookie, uint8_t opcode, uint8_t status)
{
    struct unetmm_cqe cqe = {
        .opcode = opcode, .status = status, .cookie = unetmm_swap64(cookie),
        .len = unetmm_swap32(10),
    };

    assert_true(fake_card_complete(&fake.card, &cqe));
}

static void test_shared_queue(void **state)
{
    (void)state;
    open_shared();
    assert_int_equal(post_shared(99, 3), EINVAL);
    assert_int_equal(post_recv(98, 10, 1), EINVAL);
    for (uint64_t i = 0; i < SHARED; i++) {
        assert_int_equal(post_shared(100 + i, 1 + i % 2), 0);
    }
    assert_int_equal(shared.ep->fq_prod, SHARED + 1);
    assert_int_equal(post_shared(99, 1), ENOMEM);
    /* In the order of the completions; a record is free when its completion is told. */
    complete_shared(2, UNETMM_CQE_RECEIVED, UNETMM_ST_OK);
    complete_shared(0, UNETMM_CQE_RECEIVED, UNETMM_ST_OK);
    check_smallest(&cqs[0], 2);
    assert_int_equal(post_shared(99, 1), ENOMEM);
    expect(&cqs[0], 102, IBV_WC_SUCCESS);
    assert_int_equal(post_shared(103, 1), 0);
    expect(&cqs[0], 100, IBV_WC_SUCCESS);
    expect_none(&cqs[0]);
    /* Records that the card has not, and one of record 1, twice */
    complete_shared(0, UNETMM_CQE_RECEIVED, UNETMM_ST_OK);
    complete_shared(SHARED, UNETMM_CQE_RECEIVED, UNETMM_ST_OK);
    complete_shared(1, UNETMM_CQE_WRITTEN, UNETMM_ST_OK);
    complete_shared(1, UNETMM_CQE_RECEIVED, UNETMM_ST_OK);
    expect(&cqs[0], 101, IBV_WC_SUCCESS);
    expect_none(&cqs[0]);
    close_shared();
}

/* An error of the queue pair leaves the other requests with the card. */
static void test_shared_error(void **state)
{
    (void)state;
    open_shared();
    for (uint64_t i = 0; i < SHARED; i++) {
        assert_int_equal(post_shared(100 + i, 1), 0);
    }
    complete_shared(1, UNETMM_CQE_BUFFER, UNETMM_ST_PROTECTION);
    expect(&cqs[0], 101, IBV_WC_LOC_PROT_ERR);
    assert_int_equal(ends, 1);
    expect_none(&cqs[0]);
    assert_int_equal(post_shared(103, 1), 0);
    assert_int_equal(post_shared(104, 1), ENOMEM);
    /* The queue pair goes with a message that it has not told of. */
    complete_shared(0, UNETMM_CQE_BUFFER, UNETMM_ST_FLUSHED);
    umv_collect(&qp);
    umv_srq_told(&qp);
    assert_int_equal(post_shared(105, 1), 0);
    assert_int_equal(post_shared(106, 1), ENOMEM);
    close_shared();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_order_two_queues),
        cmocka_unit_test(test_session),
        cmocka_unit_test(test_remote_errors),
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_region_removed),
        cmocka_unit_test(test_card_removed),
        cmocka_unit_test(test_post_in_error),
        cmocka_unit_test(test_no_segments),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_resize),
        cmocka_unit_test(test_datagrams),
        cmocka_unit_test(test_datagram_errors),
        cmocka_unit_test(test_datagram_source),
        cmocka_unit_test(test_shared_queue),
        cmocka_unit_test(test_shared_error),
        cmocka_unit_test(test_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
