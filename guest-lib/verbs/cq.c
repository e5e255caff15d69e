/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Completion queues: the queue pairs that have one are asked in turn.  The completion of a queue
 * pair's oldest request goes from the card to the program, without the request's record
 * in between, unless others wait for their turn.
 */
#include "verbs.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

#define WC_FLAGS    (IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM | \
                     IBV_WC_EX_WITH_SRC_QP | IBV_WC_EX_WITH_SLID | IBV_WC_EX_WITH_SL | \
                     IBV_WC_EX_WITH_DLID_PATH_BITS)

/* ---- Locks ----------------------------------------------------------------- */

/*
 * False: the thread has the lock since its ibv_start_poll().  So between that and ibv_end_poll() a
 * program may ask for an event, and change, query and destroy queue pairs.
 */
bool umv_cq_lock(struct umv_cq *cq)
{
    if (__atomic_load_n(&cq->poller, __ATOMIC_RELAXED) == (uintptr_t)pthread_self()) {
        return false;
    }
    sys_lock_take(&cq->lock);
    return true;
}

void umv_cq_unlock(struct umv_cq *cq, bool locked)
{
    if (locked) {
        sys_lock_drop(&cq->lock);
    }
}

/* The lock of the queue pair's completions */
bool umv_lock(struct umv_qp *qp)
{
    if (!qp->two_cqs) {
        return umv_cq_lock(qp->send_cq);
    }
    sys_lock_take(&qp->lock);
    return true;
}

void umv_unlock(struct umv_qp *qp, bool locked)
{
    if (locked) {
        sys_lock_drop(qp->two_cqs ? &qp->lock : &qp->send_cq->lock);
    }
}

/* The lock of completions of a queue pair with two queues; cq->lock is held. */
static void lock_second(struct umv_qp *qp)
{
    if (qp->two_cqs) {
        sys_lock_take(&qp->lock);
    }
}

static void unlock_second(struct umv_qp *qp)
{
    if (qp->two_cqs) {
        sys_lock_drop(&qp->lock);
    }
}

/* ---- Queue pairs ----------------------------------------------------------- */

static void find_only(struct umv_cq *cq)
{
    cq->next = 0;
    cq->only = cq->nqps == 1 && !cq->qps[0]->two_cqs && !cq->qps[0]->long_receives ?
        cq->qps[0] : NULL;
}

int umv_cq_add(struct umv_cq *cq, struct umv_qp *qp)
{
    bool locked = umv_cq_lock(cq);
    struct umv_qp **qps = realloc(cq->qps, (cq->nqps + 1) * sizeof(struct umv_qp *));

    if (qps) {
        cq->qps = qps;
        qps[cq->nqps++] = qp;
        find_only(cq);
    }
    umv_cq_unlock(cq, locked);
    return qps ? 0 : ENOMEM;
}

void umv_cq_remove(struct umv_cq *cq, struct umv_qp *qp)
{
    bool locked = umv_cq_lock(cq);
    unsigned i;

    for (i = 0; i < cq->nqps; i++) {
        if (cq->qps[i] == qp) {
            cq->qps[i] = cq->qps[--cq->nqps];
            break;
        }
    }
    find_only(cq);
    umv_cq_unlock(cq, locked);
}

/* ---- ibv_poll_cq() --------------------------------------------------------- */

/* FETCHED: one, of a READ or an atomic */
enum taken { NOTHING, ONE, FETCHED, REST };

SYS_INLINE enum taken take_sent(struct umv_qp *qp, const struct unetmm_cqe *cqe,
                                struct ibv_wc *wc)
{
    struct unetmm_ep *ep = qp->ep;
    uint32_t number = (uint32_t)unetmm_swap64(cqe->cookie);
    const struct umv_sent *s = &qp->sent[number & ep->sq_mask];

    if (!umv_usual(number == qp->sent_done && s->what.flags & UMV_SIGNALED)) {
        return REST;
    }
    *wc = (struct ibv_wc) {
        .wr_id = s->wr_id, .opcode = s->what.opcode, .byte_len = s->len,
        .qp_num = qp->vqp.qp.qp_num,
    };
    unetmm_take(ep);
    number += s->what.slots;
    if (s->what.flags & UMV_FETCHES) {
        umv_store(&qp->sent_done, number);
        return FETCHED;
    }
    umv_store(&qp->sent_done, number);
    return ONE;
}

SYS_INLINE enum taken take_received(struct umv_qp *qp, const struct unetmm_cqe *cqe,
                                    struct ibv_wc *wc)
{
    struct unetmm_ep *ep = qp->ep;
    uint32_t number = (uint32_t)unetmm_swap64(cqe->cookie);
    const struct umv_received *r = &qp->received[number & ep->fq_mask];

    if (!umv_usual(number == qp->received_done)) {
        return REST;
    }
    *wc = (struct ibv_wc) {
        .wr_id = r->wr_id, .opcode = IBV_WC_RECV, .byte_len = unetmm_swap32(cqe->len),
        .qp_num = qp->vqp.qp.qp_num, .src_qp = qp->peer,
    };
    if (unetmm_read_word(&cqe->flags) & UNETMM_CQE_F_IMM) {
        if (unetmm_read_word(&cqe->flags) & UNETMM_CQE_F_INV) {
            return REST;
        }
        wc->imm_data = unetmm_swap32(cqe->imm);
        wc->wc_flags = IBV_WC_WITH_IMM;
    }
    umv_store(&qp->received_done, number + r->what.slots);
    unetmm_take(ep);
    return ONE;
}

enum { NEXT_EMPTY = 1u << 16, NEXT_UNUSUAL = 1u << 17 };

/*
 * The next completion's type and status.  NEXT_EMPTY: there is none.  NEXT_UNUSUAL: umv_take() has
 * to be asked, also for completions of type 0: a card that was removed leaves a page of zeros, which
 * look so on each second pass of the ring.
 */
SYS_INLINE unsigned next_of(const struct umv_qp *qp, const struct unetmm_cqe **cqe)
{
    const struct unetmm_ep *ep = qp->ep;
    uint32_t index = ep->cq_cons;
    int there;

    *cqe = &ep->cq[index & ep->cq_mask];
    if (!umv_usual(!qp->kept)) {
        return NEXT_UNUSUAL;
    }
    unetmm_flags_at_(ep, index, *cqe, &there);
    if (!there) {
        return umv_runs(ep) ? NEXT_EMPTY : NEXT_UNUSUAL;
    }
    unetmm_from_card_barrier();
    return (*cqe)->opcode | (unsigned)(*cqe)->status << 8;
}

static enum taken take_usual(const struct umv_cq *cq, struct umv_qp *qp, struct ibv_wc *wc)
{
    const struct unetmm_cqe *cqe;
    unsigned what = next_of(qp, &cqe);

    return what == NEXT_EMPTY ? NOTHING :
        what == UNETMM_CQE_SENT && cq == qp->send_cq ? take_sent(qp, cqe, wc) :
        what == UNETMM_CQE_RECEIVED && cq == qp->recv_cq && !qp->long_receives ?
        take_received(qp, cqe, wc) : REST;
}

static int poll_qp(struct umv_cq *cq, struct umv_qp *qp, int n, struct ibv_wc *wc)
{
    enum taken taken = ONE;
    int got;

    for (got = 0; got < n; got++) {
        taken = take_usual(cq, qp, &wc[got]);
        if (taken == FETCHED) {
            umv_fetched(qp);
        } else if (taken != ONE) {
            break;
        }
    }
    return taken == REST ? got + umv_take(cq, qp, n - got, &wc[got]) : got;
}

static int poll_all(struct umv_cq *cq, int n, struct ibv_wc *wc)
{
    unsigned i = cq->next, left;
    int got = 0;

    for (left = cq->nqps; left && got < n; left--) {
        struct umv_qp *qp = cq->qps[i];

        lock_second(qp);
        got += poll_qp(cq, qp, n - got, &wc[got]);
        unlock_second(qp);
        i = i + 1 < cq->nqps ? i + 1 : 0;
    }
    cq->next = i;
    return got;
}

/*
 * Most programs take one completion at a time, of one queue pair.  Each of the functions below
 * has the lock, drops it, and is the end of its caller, which thus saves no registers.
 */
UMV_TAIL poll_rest(struct umv_cq *cq, int n, struct ibv_wc *wc)
{
    int got = poll_all(cq, n, wc);

    sys_lock_drop(&cq->lock);
    return got;
}

/* Another thread waits for the lock. */
UMV_TAIL poll_wake(struct umv_cq *cq, int got)
{
    sys_lock_wake(&cq->lock);
    return got;
}

UMV_TAIL poll_fetched(struct umv_cq *cq)
{
    umv_fetched(cq->only);
    sys_lock_drop(&cq->lock);
    return 1;
}

SYS_INLINE int poll_end(struct umv_cq *cq, int got)
{
    return sys_lock_release(&cq->lock) ? poll_wake(cq, got) : got;
}

UMV_TAIL poll_sent(struct umv_cq *cq, const struct unetmm_cqe *cqe, struct ibv_wc *wc)
{
    enum taken taken = take_sent(cq->only, cqe, wc);

    return umv_usual(taken == ONE) ? poll_end(cq, 1) :
        taken == FETCHED ? poll_fetched(cq) : poll_rest(cq, 1, wc);
}

UMV_TAIL poll_received(struct umv_cq *cq, const struct unetmm_cqe *cqe, struct ibv_wc *wc)
{
    return umv_usual(take_received(cq->only, cqe, wc) == ONE) ? poll_end(cq, 1) :
        poll_rest(cq, 1, wc);
}

/* The other way round: another thread has the lock. */
UMV_TAIL poll_later(struct umv_cq *cq, int n, struct ibv_wc *wc)
{
    sys_lock_take(&cq->lock);
    return poll_rest(cq, n, wc);
}

int umv_poll_cq(struct ibv_cq *ibcq, int n, struct ibv_wc *wc)
{
    struct umv_cq *cq = umv_cq(ibcq);
    const struct unetmm_cqe *cqe;

    if (!umv_usual(sys_lock_try(&cq->lock))) {
        return poll_later(cq, n, wc);
    }
    if (!umv_usual(n == 1 && cq->only)) {
        return poll_rest(cq, n, wc);
    }
    switch (next_of(cq->only, &cqe)) {
    case NEXT_EMPTY:
        return poll_end(cq, 0);
    case UNETMM_CQE_SENT:
        return poll_sent(cq, cqe, wc);
    case UNETMM_CQE_RECEIVED:
        return poll_received(cq, cqe, wc);
    default:
        return poll_rest(cq, 1, wc);
    }
}

/* The queue has no memory: only the number changes, unless it is smaller than the completions. */
int umv_resize_cq(struct ibv_cq *ibcq, int cqe)
{
    struct ib_uverbs_resize_cq_resp resp = {};
    struct umv_cq *cq = umv_cq(ibcq);
    bool locked = umv_cq_lock(cq);
    struct ibv_resize_cq cmd = {};
    unsigned i, waiting = 0;
    int ret = EINVAL;

    for (i = 0; i < cq->nqps; i++) {
        lock_second(cq->qps[i]);
        waiting += umv_waiting(cq, cq->qps[i]);
        unlock_second(cq->qps[i]);
    }
    if (cqe > 0 && (unsigned)cqe >= waiting) {
        ret = ibv_cmd_resize_cq(ibcq, cqe, &cmd, sizeof(cmd), &resp, sizeof(resp));
    }
    umv_cq_unlock(cq, locked);
    return ret;
}

/* ---- ibv_start_poll(): the lock is held until ibv_end_poll() --------------- */

static struct umv_cq *cq_of(struct ibv_cq_ex *current)
{
    return container_of(current, struct umv_cq, vcq.cq_ex);
}

static int next_poll(struct ibv_cq_ex *current)
{
    struct umv_cq *cq = cq_of(current);

    if (!poll_all(cq, 1, &cq->wc)) {
        return ENOENT;
    }
    current->status = cq->wc.status;
    current->wr_id = cq->wc.wr_id;
    return 0;
}

static void end_poll(struct ibv_cq_ex *current)
{
    __atomic_store_n(&cq_of(current)->poller, 0, __ATOMIC_RELAXED);
    sys_lock_drop(&cq_of(current)->lock);
}

static int start_poll(struct ibv_cq_ex *current, struct ibv_poll_cq_attr *attr)
{
    int ret;

    if (attr->comp_mask) {
        return EINVAL;
    }
    sys_lock_take(&cq_of(current)->lock);
    __atomic_store_n(&cq_of(current)->poller, (uintptr_t)pthread_self(), __ATOMIC_RELAXED);
    ret = next_poll(current);
    if (ret) {
        end_poll(current);
    }
    return ret;
}

#define READER(_type, _member) \
    static _type read_##_member(struct ibv_cq_ex *current) \
    { \
        return cq_of(current)->wc._member; \
    }

READER(enum ibv_wc_opcode, opcode)
READER(uint32_t, vendor_err)
READER(uint32_t, byte_len)
READER(__be32, imm_data)
READER(uint32_t, qp_num)
READER(uint32_t, src_qp)
READER(unsigned, wc_flags)
READER(uint32_t, slid)
READER(uint8_t, sl)
READER(uint8_t, dlid_path_bits)

static void set_readers(struct ibv_cq_ex *cq)
{
    cq->start_poll = start_poll;
    cq->next_poll = next_poll;
    cq->end_poll = end_poll;
    cq->read_opcode = read_opcode;
    cq->read_vendor_err = read_vendor_err;
    cq->read_byte_len = read_byte_len;
    cq->read_imm_data = read_imm_data;
    cq->read_qp_num = read_qp_num;
    cq->read_src_qp = read_src_qp;
    cq->read_wc_flags = read_wc_flags;
    cq->read_slid = read_slid;
    cq->read_sl = read_sl;
    cq->read_dlid_path_bits = read_dlid_path_bits;
}

/* ---- Life ------------------------------------------------------------------ */

struct ibv_cq_ex *umv_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
    struct ib_uverbs_ex_create_cq_resp resp = {};
    struct umv_cq *cq;
    int ret;

    /* ibv_create_cq_ex() takes 0 for those of ibv_poll_cq(). */
    if (attr->wc_flags & ~(uint64_t)WC_FLAGS) {
        errno = EOPNOTSUPP;
        return NULL;
    }
    cq = calloc(1, sizeof(*cq));
    if (!cq) {
        return NULL;
    }
    ret = ibv_cmd_create_cq_ex(context, attr, &cq->vcq, NULL, 0, &resp, sizeof(resp), 0);
    if (ret) {
        free(cq);
        errno = ret;
        return NULL;
    }
    set_readers(&cq->vcq.cq_ex);
    return &cq->vcq.cq_ex;
}

struct ibv_cq *umv_create_cq(struct ibv_context *context, int cqe,
                             struct ibv_comp_channel *channel, int vector)
{
    struct ibv_cq_init_attr_ex attr = {
        .cqe = (uint32_t)cqe, .channel = channel, .comp_vector = (uint32_t)vector,
    };
    struct ibv_cq_ex *cq = umv_create_cq_ex(context, &attr);

    return cq ? ibv_cq_ex_to_cq(cq) : NULL;
}

int umv_destroy_cq(struct ibv_cq *ibcq)
{
    struct umv_cq *cq = umv_cq(ibcq);
    int ret = ibv_cmd_destroy_cq(ibcq);

    if (!ret) {
        free(cq->qps);
        free(cq);
    }
    return ret;
}
