// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A consumer of verbs in the kernel, which tests memory regions and the ends of their keys.
 *
 * Two queue pairs of the first RDMA device whose second GID is a netdev's address are connected
 * with each other: `owner` has the memory regions, `peer` uses them.  The module stays loaded if
 * all tests have passed.  Posts are made with interrupts off, so that lockdep sees a sleep.
 */
#include <linux/dma-mapping.h>
#include <linux/etherdevice.h>
#include <linux/module.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_verbs.h>

#define PAGES		4
#define BYTES		(PAGES * PAGE_SIZE)
#define REQUESTS	64
#define WAIT		(120 * HZ)
#define TURNS		200

struct side {
	struct ib_cq *cq;
	struct completion event;
	struct ib_qp *qp;
};

static struct test {
	struct ib_device *dev;
	const struct ib_gid_attr *gid;
	struct ib_pd *pd;
	struct side owner, peer;
	u8 *memory[2];			/* of the owner, behind the region; of the peer */
	struct scatterlist sg[2][PAGES];
	struct ib_mr *mr;
	u32 cqe;			/* of the next completion queues */
	struct ib_wc wc;		/* the last completion */
} t;

#define check(condition) ({ \
	bool is_ = (condition); \
	if (!is_) \
		pr_err("kernel_verbs: line %d: %s (status %d, opcode %d)\n", __LINE__, \
		       #condition, t.wc.status, t.wc.opcode); \
	is_; })

/* ---- Objects ------------------------------------------------------------------ */

static void has_event(struct ib_cq *cq, void *context)
{
	struct side *side = context;

	complete(&side->event);
}

/* The next completion is t.wc. */
static bool next(struct side *side)
{
	int n;

	for (;;) {
		n = ib_poll_cq(side->cq, 1, &t.wc);
		if (n > 0)
			return true;
		if (n < 0)
			return false;
		n = ib_req_notify_cq(side->cq, IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS);
		if (n < 0 || (!n && !wait_for_completion_timeout(&side->event, WAIT)))
			return false;
	}
}

static bool to_state(struct ib_qp *qp, const struct ib_qp *other, enum ib_qp_state state)
{
	struct ib_qp_attr a = {
		.qp_state = state, .port_num = 1, .path_mtu = IB_MTU_4096,
		.qp_access_flags = IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE,
		.dest_qp_num = other->qp_num, .max_dest_rd_atomic = 1, .min_rnr_timer = 1,
		.max_rd_atomic = 1, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
	};
	int mask = IB_QP_STATE;

	if (state == IB_QPS_INIT)
		mask |= IB_QP_PKEY_INDEX | IB_QP_PORT | IB_QP_ACCESS_FLAGS;
	if (state == IB_QPS_RTR) {
		mask |= IB_QP_AV | IB_QP_PATH_MTU | IB_QP_DEST_QPN | IB_QP_RQ_PSN |
			IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER;
		a.ah_attr.type = rdma_ah_find_type(t.dev, 1);
		rdma_ah_set_port_num(&a.ah_attr, 1);
		rdma_ah_set_grh(&a.ah_attr, (union ib_gid *)&t.gid->gid, 0, t.gid->index, 64, 0);
		rcu_read_lock();
		ether_addr_copy(a.ah_attr.roce.dmac,
				rcu_dereference(t.gid->ndev)->dev_addr);
		rcu_read_unlock();
	}
	if (state == IB_QPS_RTS)
		mask |= IB_QP_TIMEOUT | IB_QP_RETRY_CNT | IB_QP_RNR_RETRY | IB_QP_SQ_PSN |
			IB_QP_MAX_QP_RD_ATOMIC;
	return check(!ib_modify_qp(qp, &a, mask));
}

static void close_side(struct side *side)
{
	if (!IS_ERR_OR_NULL(side->qp)) {
		ib_drain_qp(side->qp);
		ib_destroy_qp(side->qp);
	}
	side->qp = NULL;
	if (!IS_ERR_OR_NULL(side->cq))
		ib_free_cq(side->cq);
	side->cq = NULL;
}

static bool open_side(struct side *side)
{
	struct ib_qp_init_attr init = {
		.qp_type = IB_QPT_RC, .sq_sig_type = IB_SIGNAL_REQ_WR,
		/* A queue pair has room for a power of two. */
		.cap = { .max_send_wr = REQUESTS - 1, .max_recv_wr = REQUESTS - 1,
			 .max_send_sge = 2, .max_recv_sge = 2 },
	};

	init_completion(&side->event);
	/* ib_drain_qp() wants one of these; events are taken from them. */
	side->cq = ib_alloc_cq(t.dev, side, t.cqe, 0, IB_POLL_DIRECT);
	if (!check(!IS_ERR(side->cq)))
		return false;
	side->cq->comp_handler = has_event;
	init.send_cq = side->cq;
	init.recv_cq = side->cq;
	side->qp = ib_create_qp(t.pd, &init);
	return check(!IS_ERR(side->qp));
}

/* A fresh pair of queue pairs: an error has ended the last one. */
static bool connect(void)
{
	static const enum ib_qp_state states[] = { IB_QPS_INIT, IB_QPS_RTR, IB_QPS_RTS };
	unsigned int i;

	close_side(&t.peer);
	close_side(&t.owner);
	if (!open_side(&t.owner) || !open_side(&t.peer))
		return false;
	for (i = 0; i < ARRAY_SIZE(states); i++) {
		if (!to_state(t.owner.qp, t.peer.qp, states[i]) ||
		    !to_state(t.peer.qp, t.owner.qp, states[i]))
			return false;
	}
	return true;
}

/* ---- Requests ----------------------------------------------------------------- */

static bool post(struct side *side, const struct ib_send_wr *wr)
{
	const struct ib_send_wr *bad;
	unsigned long flags;
	int ret;

	local_irq_save(flags);
	ret = ib_post_send(side->qp, wr, &bad);
	local_irq_restore(flags);
	return check(!ret);
}

/* One request that ends so. */
static bool ends(struct side *side, const struct ib_send_wr *wr, enum ib_wc_status status)
{
	return post(side, wr) && check(next(side)) && check(t.wc.status == status);
}

static struct ib_sge sge_of(int whose, u32 bytes)
{
	return (struct ib_sge) {
		.addr = sg_dma_address(&t.sg[whose][0]), .length = bytes,
		.lkey = t.pd->local_dma_lkey,
	};
}

/* The peer moves `bytes` bytes between its memory and the owner's region. */
static bool moves(enum ib_wr_opcode opcode, u32 rkey, u32 bytes, enum ib_wc_status status)
{
	struct ib_sge sge = sge_of(1, bytes);
	struct ib_rdma_wr wr = {
		.wr = { .opcode = opcode, .send_flags = IB_SEND_SIGNALED, .sg_list = &sge,
			.num_sge = 1 },
		.remote_addr = t.mr->iova, .rkey = rkey,
	};

	return ends(&t.peer, &wr.wr, status);
}

/* A key that was not used before. */
static bool fill_register(struct ib_reg_wr *wr)
{
	ib_update_fast_reg_key(t.mr, ib_inc_rkey(t.mr->rkey) & 0xff);
	*wr = (struct ib_reg_wr) {
		.wr = { .opcode = IB_WR_REG_MR, .send_flags = IB_SEND_SIGNALED },
		.mr = t.mr, .key = t.mr->rkey,
		.access = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE,
	};
	return check(ib_map_mr_sg(t.mr, t.sg[0], PAGES, NULL, PAGE_SIZE) == PAGES);
}

static bool registers(void)
{
	struct ib_reg_wr wr;

	return fill_register(&wr) && ends(&t.owner, &wr.wr, IB_WC_SUCCESS) &&
	       check(t.wc.opcode == IB_WC_REG_MR);
}

static bool invalidates(u32 rkey, enum ib_wc_status status)
{
	struct ib_send_wr wr = {
		.opcode = IB_WR_LOCAL_INV, .send_flags = IB_SEND_SIGNALED,
		.ex.invalidate_rkey = rkey,
	};

	return ends(&t.owner, &wr, status) &&
	       (status || check(t.wc.opcode == IB_WC_LOCAL_INV));
}

static bool receives(struct side *side, u32 bytes)
{
	struct ib_sge sge = sge_of(side == &t.peer, bytes);
	struct ib_recv_wr wr = { .sg_list = &sge, .num_sge = 1 };
	const struct ib_recv_wr *bad;
	unsigned long flags;
	int ret;

	local_irq_save(flags);
	ret = ib_post_recv(side->qp, &wr, &bad);
	local_irq_restore(flags);
	return check(!ret);
}

static void fill(int whose, u8 byte)
{
	memset(t.memory[whose], byte, BYTES);
}

static bool has(int whose, u8 byte)
{
	return !memchr_inv(t.memory[whose], byte, BYTES);
}

/* ---- Tests -------------------------------------------------------------------- */

/* The peer writes and reads by the key, in the whole region and not behind it. */
static bool test_region(void)
{
	fill(0, 1);
	fill(1, 2);
	if (!connect() || !registers() ||
	    !moves(IB_WR_RDMA_WRITE, t.mr->rkey, BYTES, IB_WC_SUCCESS) || !check(has(0, 2)))
		return false;
	fill(0, 3);
	return moves(IB_WR_RDMA_READ, t.mr->rkey, BYTES, IB_WC_SUCCESS) && check(has(1, 3)) &&
	       invalidates(t.mr->rkey, IB_WC_SUCCESS);
}

/* After LOCAL_INV nobody writes by the key, and a request cannot end it for a second owner. */
static bool test_local_invalidate(void)
{
	fill(0, 4);
	fill(1, 5);
	return connect() && registers() && invalidates(t.mr->rkey, IB_WC_SUCCESS) &&
	       moves(IB_WR_RDMA_WRITE, t.mr->rkey, 8, IB_WC_REM_ACCESS_ERR) && check(has(0, 4));
}

static bool test_read_after_invalidate(void)
{
	fill(0, 4);
	fill(1, 5);
	return connect() && registers() && invalidates(t.mr->rkey, IB_WC_SUCCESS) &&
	       moves(IB_WR_RDMA_READ, t.mr->rkey, 8, IB_WC_REM_ACCESS_ERR) && check(has(1, 5));
}

/* A new key of the same region does not bring the old one back. */
static bool test_old_key(void)
{
	u32 old;

	fill(0, 6);
	if (!connect() || !registers())
		return false;
	old = t.mr->rkey;
	return invalidates(old, IB_WC_SUCCESS) && registers() &&
	       moves(IB_WR_RDMA_WRITE, old, 8, IB_WC_REM_ACCESS_ERR) && check(has(0, 6)) &&
	       connect() && moves(IB_WR_RDMA_WRITE, t.mr->rkey, 8, IB_WC_SUCCESS) &&
	       invalidates(t.mr->rkey, IB_WC_SUCCESS);
}

static bool send_invalidates(u32 rkey)
{
	struct ib_send_wr wr = {
		.opcode = IB_WR_SEND_WITH_INV, .send_flags = IB_SEND_SIGNALED,
		.ex.invalidate_rkey = rkey,
	};

	return post(&t.peer, &wr);
}

static bool test_remote_invalidate(void)
{
	u32 rkey;

	fill(0, 7);
	fill(1, 8);
	if (!connect() || !registers() || !receives(&t.owner, 8))
		return false;
	rkey = t.mr->rkey;
	return send_invalidates(rkey) && check(next(&t.owner)) && check(!t.wc.status) &&
	       check(t.wc.wc_flags & IB_WC_WITH_INVALIDATE) &&
	       check(t.wc.ex.invalidate_rkey == rkey) && check(next(&t.peer)) &&
	       check(!t.wc.status) &&
	       moves(IB_WR_RDMA_WRITE, rkey, 8, IB_WC_REM_ACCESS_ERR) && check(has(0, 7));
}

/* A key that is nobody's ends the queue pair. */
static bool test_wrong_invalidate(void)
{
	return connect() && receives(&t.owner, 8) && send_invalidates(t.mr->rkey ^ 1) &&
	       check(next(&t.owner)) && check(t.wc.status == IB_WC_REM_INV_REQ_ERR) &&
	       check(next(&t.peer)) && connect() && invalidates(t.mr->rkey ^ 1, IB_WC_LOC_QP_OP_ERR);
}

/* A peer that guesses the key of a region without remote access does not end it. */
static bool test_local_region(void)
{
	struct ib_reg_wr wr, again;

	if (!connect() || !fill_register(&wr))
		return false;
	wr.access = IB_ACCESS_LOCAL_WRITE;
	return ends(&t.owner, &wr.wr, IB_WC_SUCCESS) && receives(&t.owner, 8) &&
	       send_invalidates(wr.key) && check(next(&t.owner)) &&
	       check(t.wc.status == IB_WC_REM_INV_REQ_ERR) && check(next(&t.peer)) &&
	       /* The region is registered still. */
	       connect() && fill_register(&again) &&
	       ends(&t.owner, &again.wr, IB_WC_MW_BIND_ERR) && connect() &&
	       invalidates(wr.key, IB_WC_SUCCESS);
}

/* A region is registered once, until its key ends. */
static bool test_register_twice(void)
{
	struct ib_reg_wr wr;

	return connect() && registers() && fill_register(&wr) &&
	       ends(&t.owner, &wr.wr, IB_WC_MW_BIND_ERR) && connect() &&
	       /* The key that failed is not the region's. */
	       invalidates(wr.key, IB_WC_LOC_QP_OP_ERR) && connect() &&
	       invalidates((wr.key & ~0xff) | ((wr.key - 1) & 0xff), IB_WC_SUCCESS);
}

/* The SEND behind REG_MR tells the peer, which writes at once. */
static bool test_order(void)
{
	struct ib_send_wr send = { .opcode = IB_WR_SEND };
	struct ib_reg_wr wr;
	int i;

	if (!connect())
		return false;
	for (i = 0; i < TURNS; i++) {
		fill(0, 0);
		fill(1, i);
		if (!receives(&t.peer, 8) || !fill_register(&wr))
			return false;
		wr.wr.send_flags = 0;
		wr.wr.next = &send;
		if (!post(&t.owner, &wr.wr) || !check(next(&t.peer)) || !check(!t.wc.status) ||
		    !moves(IB_WR_RDMA_WRITE, t.mr->rkey, BYTES, IB_WC_SUCCESS) ||
		    !check(has(0, i)) || !invalidates(t.mr->rkey, IB_WC_SUCCESS))
			return false;
	}
	return true;
}

/* The key ends between the peer's writes: none of them comes later. */
static bool test_invalidate_in_flight(void)
{
	struct ib_sge sge = sge_of(1, BYTES);
	struct ib_rdma_wr wr = {
		.wr = { .opcode = IB_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1 },
	};
	int turn, i;

	for (turn = 0; turn < TURNS / 10; turn++) {
		fill(1, turn);
		if (!connect() || !registers())
			return false;
		wr.remote_addr = t.mr->iova;
		wr.rkey = t.mr->rkey;
		for (i = 0; i < REQUESTS / 2; i++) {
			if (!post(&t.peer, &wr.wr))
				return false;
		}
		/* If the peer has failed before, the request is flushed, and the key is there. */
		if (!invalidates(t.mr->rkey, IB_WC_SUCCESS))
			return false;
		fill(0, 0xff);
		ib_drain_qp(t.peer.qp);
		if (!check(has(0, 0xff)))
			return false;
	}
	return true;
}

static int post_receive(struct side *side)
{
	struct ib_sge sge = sge_of(side == &t.peer, 8);
	const struct ib_recv_wr wr = { .sg_list = &sge, .num_sge = 1 };
	const struct ib_recv_wr *bad = NULL;
	int ret = ib_post_recv(side->qp, &wr, &bad);

	return ret && bad != &wr ? -EINVAL : ret;
}

static int post_send(struct side *side)
{
	const struct ib_send_wr wr = { .opcode = IB_WR_SEND, .send_flags = IB_SEND_SIGNALED };
	const struct ib_send_wr *bad = NULL;
	int ret = ib_post_send(side->qp, &wr, &bad);

	return ret && bad != &wr ? -EINVAL : ret;
}

/* A queue takes as many requests as were asked for, and one more for each that has ended. */
static bool test_most_requests(void)
{
	int i;

	if (!connect())
		return false;
	/* The peer has no buffers: the sends wait. */
	for (i = 0; i < REQUESTS; i++) {
		if (!check(!post_receive(&t.owner)) || !check(!post_send(&t.owner)))
			return false;
	}
	if (!check(post_receive(&t.owner) == -ENOMEM) || !check(post_send(&t.owner) == -ENOMEM))
		return false;
	for (i = 0; i < 2 * REQUESTS; i++) {
		if (!check(!post_receive(&t.peer)) || !check(next(&t.owner)) ||
		    !check(!t.wc.status) || !check(next(&t.peer)) ||
		    !check(!post_send(&t.owner)) || !check(post_send(&t.owner) == -ENOMEM) ||
		    !check(!post_send(&t.peer)) || !check(next(&t.peer)) ||
		    !check(!t.wc.status) || !check(next(&t.owner)) ||
		    !check(!post_receive(&t.owner)) ||
		    !check(post_receive(&t.owner) == -ENOMEM))
			return false;
	}
	/* ib_drain_qp() posts one of each. */
	return check(!post_receive(&t.peer)) && check(next(&t.owner)) && check(next(&t.peer)) &&
	       check(!post_send(&t.peer)) && check(next(&t.peer)) && check(next(&t.owner));
}

/* Requests of a queue pair that has ended come back in order, receives too. */
static bool test_flush(void)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	struct ib_send_wr wr = { .opcode = IB_WR_SEND, .send_flags = IB_SEND_SIGNALED };
	int i;

	if (!connect() || !receives(&t.owner, 8) ||
	    !check(!ib_modify_qp(t.owner.qp, &attr, IB_QP_STATE)))
		return false;
	if (!check(next(&t.owner)) || !check(t.wc.status == IB_WC_WR_FLUSH_ERR))
		return false;
	for (i = 0; i < REQUESTS; i++) {
		wr.wr_id = i;
		if (!post(&t.owner, &wr))
			return false;
	}
	for (i = 0; i < REQUESTS; i++) {
		if (!check(next(&t.owner)) || !check(t.wc.status == IB_WC_WR_FLUSH_ERR) ||
		    !check(t.wc.wr_id == i))
			return false;
	}
	return true;
}

/* A flush ends more requests than the consumer has made places for, as not all are signaled. */
static bool test_small_queue(void)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	struct ib_send_wr wr = { .opcode = IB_WR_SEND };
	bool good;
	int i;

	t.cqe = 4;
	good = connect();
	t.cqe = 4 * REQUESTS;
	if (!good || !check(!ib_modify_qp(t.owner.qp, &attr, IB_QP_STATE)))
		return false;
	for (i = 0; i < REQUESTS; i++) {
		wr.wr_id = i;
		if (!post(&t.owner, &wr))
			return false;
	}
	for (i = 0; i < REQUESTS; i++) {
		if (!check(next(&t.owner)) || !check(t.wc.wr_id == i))
			return false;
	}
	return true;
}

/* A queue pair ends with a completion that nobody has polled. */
static bool leaves_completion(void)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };

	return connect() && receives(&t.owner, 8) &&
	       check(!ib_req_notify_cq(t.owner.cq, IB_CQ_NEXT_COMP)) &&
	       check(!ib_modify_qp(t.owner.qp, &attr, IB_QP_STATE)) &&
	       check(wait_for_completion_timeout(&t.owner.event, WAIT));
}

/* Completions go at RESET, and a new life of the queue pair begins without them ... */
static bool test_reset(void)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_RESET };

	if (!leaves_completion() || !check(!ib_modify_qp(t.owner.qp, &attr, IB_QP_STATE)) ||
	    !check(!ib_poll_cq(t.owner.cq, 1, &t.wc)))
		return false;
	/* A queue pair in RESET cannot be drained. */
	ib_destroy_qp(t.owner.qp);
	t.owner.qp = NULL;
	return true;
}

/* ... and with their queue pair: the consumer may have freed all that they name. */
static bool test_gone(void)
{
	if (!leaves_completion())
		return false;
	ib_destroy_qp(t.owner.qp);
	t.owner.qp = NULL;
	return check(!ib_poll_cq(t.owner.cq, 1, &t.wc));
}

/* ---- The module --------------------------------------------------------------- */

static bool map_memory(int whose)
{
	int i;

	t.memory[whose] = kzalloc(BYTES, GFP_KERNEL);
	if (!t.memory[whose])
		return false;
	sg_init_table(t.sg[whose], PAGES);
	for (i = 0; i < PAGES; i++)
		sg_set_buf(&t.sg[whose][i], t.memory[whose] + i * PAGE_SIZE, PAGE_SIZE);
	return check(ib_dma_map_sg(t.dev, t.sg[whose], PAGES, DMA_BIDIRECTIONAL) == PAGES);
}

static void unmap_memory(int whose)
{
	if (!t.memory[whose])
		return;
	ib_dma_unmap_sg(t.dev, t.sg[whose], PAGES, DMA_BIDIRECTIONAL);
	kfree(t.memory[whose]);
	t.memory[whose] = NULL;
}

static bool run(void)
{
	static const struct {
		const char *name;
		bool (*test)(void);
	} tests[] = {
		{ "region", test_region },
		{ "local_invalidate", test_local_invalidate },
		{ "read_after_invalidate", test_read_after_invalidate },
		{ "old_key", test_old_key },
		{ "remote_invalidate", test_remote_invalidate },
		{ "wrong_invalidate", test_wrong_invalidate },
		{ "local_region", test_local_region },
		{ "register_twice", test_register_twice },
		{ "order", test_order },
		{ "invalidate_in_flight", test_invalidate_in_flight },
		{ "most_requests", test_most_requests },
		{ "flush", test_flush },
		{ "small_queue", test_small_queue },
		{ "reset", test_reset },
		{ "gone", test_gone },
	};
	unsigned int i;
	bool all = true;

	t.pd = ib_alloc_pd(t.dev, 0);
	if (!check(!IS_ERR(t.pd)))
		return false;
	t.cqe = 4 * REQUESTS;
	t.mr = ib_alloc_mr(t.pd, IB_MR_TYPE_MEM_REG, PAGES);
	if (check(!IS_ERR(t.mr)) && map_memory(0) && map_memory(1)) {
		for (i = 0; i < ARRAY_SIZE(tests); i++) {
			bool ok = tests[i].test();

			pr_info("kernel_verbs: %s %s\n", ok ? "ok" : "not ok", tests[i].name);
			all &= ok;
		}
	} else {
		all = false;
	}
	close_side(&t.peer);
	close_side(&t.owner);
	unmap_memory(1);
	unmap_memory(0);
	if (!IS_ERR(t.mr))
		ib_dereg_mr(t.mr);
	ib_dealloc_pd(t.pd);
	return all;
}

static bool done;

static int add_device(struct ib_device *dev)
{
	if (done)
		return -EOPNOTSUPP;
	t.dev = dev;
	t.gid = rdma_get_gid_attr(dev, 1, 1);
	if (IS_ERR(t.gid))
		return PTR_ERR(t.gid);
	done = run();
	rdma_put_gid_attr(t.gid);
	return 0;
}

static void remove_device(struct ib_device *dev, void *data)
{
}

static struct ib_client client = {
	.name = "kernel_verbs", .add = add_device, .remove = remove_device,
};

static int __init kernel_verbs_init(void)
{
	int ret = ib_register_client(&client);

	if (!ret && !done) {
		ib_unregister_client(&client);
		ret = -EIO;
	}
	return ret;
}

static void __exit kernel_verbs_exit(void)
{
	ib_unregister_client(&client);
}

module_init(kernel_verbs_init);
module_exit(kernel_verbs_exit);
MODULE_DESCRIPTION("unetmm: tests of verbs in the kernel");
MODULE_LICENSE("GPL");
