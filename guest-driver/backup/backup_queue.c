// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: policy backup: packets of the backup ring are copied to their buffers,
 * in order, once the buffers are posted and their pages there.
 *
 * Each endpoint with the policy has a queue, which is one job of the pager, as with the
 * system buffer (redirect/redirect_queue.c); its rules for copies, for the end of a queue and for
 * the owner's death hold here.  An endpoint that waits for a page, or for its
 * process to post, delays no other.  The queue may be longer than the
 * endpoint's free queue: while a packet waits, the process sees none of those
 * behind it, and posts nothing.
 *
 * FOR EACH PACKET the job looks whether its slot is posted; if not, the card is
 * asked to say when (TAIL_ARM), and that is waited for without the process's
 * memory.  Then the descriptor is read, once, and a wrong one is the
 * packet's end.  Then the data is copied, page by page, under q->lock and without
 * faults; the pager pages in absent pages.  Then, again without a fault, the
 * buffer's pages are entered into the card's table, if the source has one, so that
 * the next packet there needs nobody; and, if the module's parameter says so,
 * those of the slots behind it, as far as nobody has to wait.  Last, the card is
 * told.
 *
 * A PACKET has the place of its bit on the card: a bit has one packet at a time.
 *
 * Locks: q->lock protects all of a queue but its job, its space and the members that
 * serve alone uses.
 */
#include <linux/ktime.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "backup/backup.h"
#include "ep/ep.h"
#include "memory/memory.h"
#include "pager/pager.h"
#include "table/table.h"
#include "space/space.h"
#include "ring/ring.h"
#include "base/base.h"
#include "param/param.h"
#include "trace/trace.h"

#define UNETMM_BACKUP_QUEUE_TRIES	1000	/* to have one page long enough */
#define UNETMM_BACKUP_QUEUE_TURN	64	/* steps of one turn */
#define UNETMM_BACKUP_QUEUE_QUICK	4	/* of these without a pause */
#define UNETMM_BACKUP_QUEUE_AHEAD	16	/* slots, at most */
#define UNETMM_BACKUP_QUEUE_PAGES	32	/* of one buffer that are entered */

struct unetmm_backup_packet {
	struct list_head node;
	struct unetmm_backup_buffer *buf;	/* NULL: it is given up */
	bool busy;			/* reported, and not answered */
	bool read;			/* its slot's descriptor has been */
	bool paged;			/* had to wait for a page */
	bool entered;			/* into the table */
	u8 status;			/* UNETMM_ST_* */
	u32 bit;
	u32 slot;
	u32 len;
	u32 done;			/* bytes that have been copied */
	u32 tries;			/* to have a page, since something was */
	u32 room;			/* the buffer's bytes */
	u64 addr;
	u64 cookie;
};

/* Pages of the process, and their use. */
struct unetmm_backup_pages {
	u64 addr;
	u32 npages;
};

struct unetmm_backup_work {
	u32 bit;			/* the packet */
	u32 tries;
	struct unetmm_backup_pages run;	/* to be paged in, or entered */
	u32 nahead;
	struct unetmm_backup_pages ahead[UNETMM_BACKUP_QUEUE_AHEAD];
};

struct unetmm_backup_queue {
	struct unetmm_job job;
	struct unetmm_aspace *space;	/* a reference */
	u64 first;			/* reports before are another's */
	u32 ep;
	u32 bits;
	struct unetmm_backup_work work;	/* serve's */
	bool rested;			/* serve's */
	bool tailing;			/* serve's: waits for a slot */

	struct mutex lock;		/* all below */
	const struct unetmm_fqe *fq;	/* the process writes there; not if dead */
	const struct unetmm_ep_index *index;
	u32 fq_mask;
	struct list_head packets;
	bool gone;			/* the process, or the card's endpoint, is */
	bool dead;			/* the endpoint is */
	bool tail;			/* the interrupt's: it has been posted */
	struct unetmm_backup_packet all[];	/* by bit */
};

static void unetmm_backup_queue_free(struct unetmm_backup_queue *q)
{
	unetmm_space_put(q->space);
	kvfree(q);
}

/* ---- Under q->lock ----------------------------------------------------------- */

/* Its bit may be another packet's from here on. */
static void unetmm_backup_queue_forget(struct unetmm_backup_queue *q,
				       struct unetmm_backup_packet *packet)
{
	lockdep_assert_held(&q->lock);
	list_del(&packet->node);
	packet->busy = false;
	if (packet->buf)
		unetmm_backup_buffer_put(q->space->dev, packet->buf);
	packet->buf = NULL;
}

static void unetmm_backup_queue_cancel_all(struct unetmm_backup_queue *q)
{
	struct unetmm_backup_packet *packet, *next;

	list_for_each_entry_safe(packet, next, &q->packets, node) {
		unetmm_count(q->space->dev, backup_cancelled);
		unetmm_backup_queue_forget(q, packet);
	}
}

/* The card has stopped the endpoint, or does not take our answers about it. */
static void unetmm_backup_queue_give_up(struct unetmm_backup_queue *q)
{
	unetmm_count(q->space->dev, backup_refused);
	q->gone = true;
	unetmm_backup_queue_cancel_all(q);
}

static void unetmm_backup_queue_finish(struct unetmm_backup_queue *q,
				       struct unetmm_backup_packet *packet, u8 status)
{
	struct unetmm_dev *dev = q->space->dev;
	struct unetmm_cmd cmd = {
		.opcode = UNETMM_CMD_BACKUP_DONE,
		.space = cpu_to_le16(q->space->id),
		.ep = cpu_to_le16(q->ep),
		.backup = {
			.slot = cpu_to_le32(packet->slot),
			.bit = cpu_to_le32(packet->bit),
			.status = status,
			.cookie = cpu_to_le64(packet->cookie),
		},
	};

	if (status != UNETMM_ST_OK) {
		unetmm_count(dev, backup_failed);
	} else {
		unetmm_count(dev, backup_copies);
		unetmm_count_add(dev, backup_copied_bytes, packet->len);
	}
	trace_unetmm_backup_done(q->ep, packet->slot, packet->bit, status);
	unetmm_backup_queue_forget(q, packet);
	if (unetmm_cmd(dev, &cmd, NULL))
		unetmm_backup_queue_give_up(q);
}

/* As far as the process says; the card looks for itself. */
static bool unetmm_backup_queue_posted(const struct unetmm_backup_queue *q, u32 slot)
{
	u32 prod = le32_to_cpu(READ_ONCE(q->index->user.fq_prod));

	return (s32)(prod - slot - 1) >= 0;
}

/* Copies the descriptor once, and checks the copy. */
static void unetmm_backup_queue_read(struct unetmm_backup_queue *q,
				     struct unetmm_backup_packet *packet)
{
	struct unetmm_fqe fqe;
	u64 last;

	/* Pairs with the process's order: the descriptor, then the index. */
	smp_rmb();
	memcpy(&fqe, &q->fq[packet->slot & q->fq_mask], sizeof(fqe));
	/* One copy is checked and used. */
	barrier();
	packet->read = true;
	packet->addr = le64_to_cpu(fqe.addr);
	packet->room = le32_to_cpu(fqe.len);
	packet->cookie = le64_to_cpu(fqe.cookie);
	/* As the card does, where a slot is one buffer. */
	if (!packet->room || fqe.rsvd ||
	    le32_to_cpu(fqe.flags) & ~UNETMM_FQE_F_ZERO)
		packet->status = UNETMM_ST_BAD_DESC;
	else if (!packet->buf)
		packet->status = UNETMM_ST_LIMIT;
	else if (packet->len > packet->room)
		packet->status = UNETMM_ST_TOO_LONG;
	else if (check_add_overflow(packet->addr, (u64)packet->room - 1, &last) ||
		 last >= TASK_SIZE_MAX)
		packet->status = UNETMM_ST_PROTECTION;
}

/*
 * Copies up to the next page boundary, as far as the page is there.  Returns how
 * much is left of that; the caller uses the process's memory.
 */
static unsigned long unetmm_backup_packet_copy(struct unetmm_backup_packet *packet)
{
	u64 addr = packet->addr + packet->done;
	unsigned long n = min_t(unsigned long, packet->len - packet->done,
				PAGE_SIZE - offset_in_page(addr));
	unsigned long left;

	pagefault_disable();
	/* The range has been checked when the descriptor was read. */
	left = __copy_to_user_inatomic(u64_to_user_ptr(addr),
				       packet->buf->mem + packet->done, n);
	pagefault_enable();
	if (left < n)
		packet->tries = 0;
	packet->done += n - left;
	return left;
}

/* ---- The job ----------------------------------------------------------------- */

enum unetmm_backup_step {
	UNETMM_BACK_IDLE,
	UNETMM_BACK_MORE,
	UNETMM_BACK_TAIL,		/* to wait until a slot is posted */
	UNETMM_BACK_ABSENT,		/* to page in */
	UNETMM_BACK_ENTER,		/* to enter into the table */
};

static struct unetmm_backup_pages unetmm_backup_pages_of(u64 addr, u64 len)
{
	u64 end = PAGE_ALIGN(addr + len);

	return (struct unetmm_backup_pages) {
		.addr = addr & PAGE_MASK,
		.npages = min_t(u64, (end - (addr & PAGE_MASK)) >> PAGE_SHIFT,
				UNETMM_BACKUP_QUEUE_PAGES),
	};
}

/* The buffers of the slots behind it: a hint, so an invalid one ends it. */
static void unetmm_backup_queue_ahead(const struct unetmm_backup_queue *q, u32 slot,
				      struct unetmm_backup_work *w)
{
	u32 most = min_t(u32, unetmm_param(q->space->dev, UNETMM_P_backup_prefetch),
			 UNETMM_BACKUP_QUEUE_AHEAD);
	const struct unetmm_fqe *fqe;
	u64 addr, last;
	u32 len;

	w->nahead = 0;
	while (w->nahead < most && unetmm_backup_queue_posted(q, ++slot)) {
		/* As in unetmm_backup_queue_read(). */
		smp_rmb();
		fqe = &q->fq[slot & q->fq_mask];
		addr = le64_to_cpu(READ_ONCE(fqe->addr));
		len = le32_to_cpu(READ_ONCE(fqe->len));
		if (!len || check_add_overflow(addr, (u64)len - 1, &last) ||
		    last >= TASK_SIZE_MAX)
			break;
		w->ahead[w->nahead++] = unetmm_backup_pages_of(addr, len);
	}
}

/* Is the slot posted?  If not, the interrupt comes when it is. */
static enum unetmm_backup_step unetmm_backup_queue_await(struct unetmm_backup_queue *q,
							 struct unetmm_backup_packet *packet)
{
	struct unetmm_dev *dev = q->space->dev;
	struct unetmm_cmd cmd = {
		.opcode = UNETMM_CMD_TAIL_ARM,
		.space = cpu_to_le16(q->space->id),
		.ep = cpu_to_le16(q->ep),
		.tail = { .slot = cpu_to_le32(packet->slot), .arm = 1 },
	};
	u32 posted = 0;

	WRITE_ONCE(q->tail, false);
	if (unetmm_cmd(dev, &cmd, &posted)) {
		unetmm_backup_queue_give_up(q);
		return UNETMM_BACK_IDLE;
	}
	/* The index may say otherwise by now: that is the process's to change. */
	if (posted) {
		unetmm_backup_queue_read(q, packet);
		return UNETMM_BACK_MORE;
	}
	unetmm_count(dev, backup_waits);
	return UNETMM_BACK_TAIL;
}

static enum unetmm_backup_step unetmm_backup_queue_copy(struct unetmm_backup_queue *q,
							struct unetmm_backup_packet *packet,
							struct unetmm_backup_work *w)
{
	w->bit = packet->bit;
	if (packet->done < packet->len && unetmm_backup_packet_copy(packet)) {
		w->tries = ++packet->tries;
		w->run = unetmm_backup_pages_of(packet->addr + packet->done,
						packet->len - packet->done);
		return UNETMM_BACK_ABSENT;
	}
	if (packet->done < packet->len)
		return UNETMM_BACK_MORE;
	if (!packet->entered && q->space->ops->enter) {
		packet->entered = true;
		w->run = unetmm_backup_pages_of(packet->addr, packet->room);
		unetmm_backup_queue_ahead(q, packet->slot, w);
		return UNETMM_BACK_ENTER;
	}
	unetmm_backup_queue_finish(q, packet, UNETMM_ST_OK);
	return UNETMM_BACK_MORE;
}

static enum unetmm_backup_step unetmm_backup_queue_step(struct unetmm_backup_queue *q,
							struct unetmm_backup_work *w)
{
	enum unetmm_backup_step step = UNETMM_BACK_MORE;
	struct unetmm_backup_packet *packet;

	mutex_lock(&q->lock);
	if (q->gone || q->dead || READ_ONCE(q->space->closing))
		unetmm_backup_queue_cancel_all(q);
	packet = list_first_entry_or_null(&q->packets, struct unetmm_backup_packet, node);
	if (!packet) {
		step = UNETMM_BACK_IDLE;
	} else if (!packet->read && !unetmm_backup_queue_posted(q, packet->slot)) {
		step = unetmm_backup_queue_await(q, packet);
	} else {
		if (!packet->read)
			unetmm_backup_queue_read(q, packet);
		if (packet->status)
			unetmm_backup_queue_finish(q, packet, packet->status);
		else
			step = unetmm_backup_queue_copy(q, packet, w);
	}
	mutex_unlock(&q->lock);
	return step;
}

/* The packet may have been taken away meanwhile. */
static void unetmm_backup_queue_paged(struct unetmm_backup_queue *q,
				      const struct unetmm_backup_work *w, int err)
{
	struct unetmm_backup_packet *packet = &q->all[w->bit];

	unetmm_count(q->space->dev, backup_page_ins);
	mutex_lock(&q->lock);
	/* It is this packet's: only this thread ends one that is not cancelled. */
	if (packet->busy && packet->read && !packet->status) {
		packet->paged = true;
		/* A signal or a shortage: to be tried again. */
		if (err && err != -EINTR && err != -ENOMEM)
			packet->status = unetmm_refusal(err);
		else if (packet->tries >= UNETMM_BACKUP_QUEUE_TRIES)
			packet->status = UNETMM_ST_LIMIT;
	}
	mutex_unlock(&q->lock);
}

static enum unetmm_job_next unetmm_backup_queue_page_in(struct unetmm_backup_queue *q)
{
	/* It was there, and has gone again: other users of the page must get on. */
	q->rested = q->work.tries > UNETMM_BACKUP_QUEUE_QUICK && !q->rested;
	if (q->rested)
		return UNETMM_JOB_DELAY;
	q->job.want = (struct unetmm_page_in) {
		.vaddr = q->work.run.addr,
		.npages = q->work.run.npages,
		.write = true,
	};
	return UNETMM_JOB_PAGE;
}

/*
 * Enters the run's resident pages for writing.  A page that is not writable costs a miss when the
 * card writes to it.
 */
static void unetmm_backup_queue_enter(struct unetmm_backup_queue *q,
				      const struct unetmm_backup_pages *run,
				      struct unetmm_batch *batch)
{
	unsigned long vpn = run->addr >> PAGE_SHIFT;
	unsigned long last = vpn + run->npages - 1, end;
	struct unetmm_aspace *space = q->space;

	for (; vpn <= last; vpn = end + 1) {
		end = min(last, vpn | (UNETMM_TABLE_ENTRIES - 1));
		if (unetmm_table_run(space, vpn, end - vpn + 1, true) ==
		    end - vpn + 1)
			continue;
		batch->write = true;
		batch->asked = end;
		/* Once more if memory has changed; a second change leaves the pages to a miss. */
		if (unetmm_snapshot_enter(space, batch, vpn, end, vpn, false) == -EAGAIN)
			unetmm_snapshot_enter(space, batch, vpn, end, vpn, false);
	}
}

/* The table stays meanwhile. */
static void unetmm_backup_queue_present(struct unetmm_backup_queue *q,
					struct unetmm_batch *batch)
{
	const struct unetmm_backup_work *w = &q->work;
	struct unetmm_miss miss = { .write = true };
	u32 i;

	if (!unetmm_snapshot_get(q->space))
		return;
	unetmm_backup_queue_enter(q, &w->run, batch);
	for (i = 0; i < w->nahead; i++) {
		miss.vaddr = w->ahead[i].addr;
		miss.user = w->ahead[i].addr;
		miss.npages = w->ahead[i].npages;
		/* Faults in the pages that need no waiting. */
		if (unetmm_snapshot_touch(q->space, &miss))
			break;
		unetmm_backup_queue_enter(q, &w->ahead[i], batch);
	}
	unetmm_snapshot_put(q->space);
	unetmm_count_add(q->space->dev, backup_ahead, i);
}

/* Is there anything to be done now? */
static bool unetmm_backup_queue_due(const struct unetmm_backup_queue *q)
{
	return !q->tailing || READ_ONCE(q->tail) || READ_ONCE(q->gone);
}

static enum unetmm_job_next unetmm_backup_queue_serve(struct unetmm_job *job,
						      struct unetmm_batch *batch)
{
	struct unetmm_backup_queue *q = container_of(job, struct unetmm_backup_queue, job);
	int i;

	if (!unetmm_backup_queue_due(q))
		return UNETMM_JOB_DONE;
	q->tailing = false;
	if (job->paged)
		unetmm_backup_queue_paged(q, &q->work, job->err);
	for (i = 0; i < UNETMM_BACKUP_QUEUE_TURN; i++) {
		switch (unetmm_backup_queue_step(q, &q->work)) {
		case UNETMM_BACK_TAIL:
			q->tailing = true;
			/* The interrupt may have been faster. */
			return READ_ONCE(q->tail) ? UNETMM_JOB_AGAIN :
			       UNETMM_JOB_DONE;
		case UNETMM_BACK_IDLE:
			return UNETMM_JOB_DONE;
		case UNETMM_BACK_ABSENT:
			return unetmm_backup_queue_page_in(q);
		case UNETMM_BACK_ENTER:
			unetmm_backup_queue_present(q, batch);
			break;
		case UNETMM_BACK_MORE:
			break;
		}
	}
	return UNETMM_JOB_AGAIN;
}

/* The owner has gone, or executes another program. */
static void unetmm_backup_queue_cancel(struct unetmm_job *job)
{
	struct unetmm_backup_queue *q = container_of(job, struct unetmm_backup_queue, job);

	mutex_lock(&q->lock);
	q->gone = true;
	unetmm_backup_queue_cancel_all(q);
	mutex_unlock(&q->lock);
}

static const struct unetmm_job_ops unetmm_backup_queue_ops = {
	.serve = unetmm_backup_queue_serve,
	.cancel = unetmm_backup_queue_cancel,
	.copies = true,
};

/* The interrupt: ep_lock, which keeps the queue. */
void unetmm_backup_queue_tail(struct unetmm_backup_queue *q)
{
	lockdep_assert_held(&q->space->dev->ep_lock);
	WRITE_ONCE(q->tail, true);
	unetmm_job_kick(&q->job);
}

/* ---- backup->lock ------------------------------------------------------------ */

/*
 * A packet that was reported.  False: its endpoint has gone, or it is invalid;
 * the buffer stays the caller's.
 */
bool unetmm_backup_queue_add(struct unetmm_backup_queue *q, const struct unetmm_fault *rec,
			     u64 index, struct unetmm_backup_buffer *buf)
{
	struct unetmm_dev *dev = q->space->dev;
	u32 bit = le32_to_cpu(rec->tag);
	bool taken = false;

	lockdep_assert_held(&dev->backup->lock);
	mutex_lock(&q->lock);
	if (index < q->first || q->gone || q->dead) {
		unetmm_count(dev, backup_cancelled);
	} else if (le16_to_cpu(rec->space) != q->space->id ||
		   bit >= q->bits || q->all[bit].busy) {
		unetmm_count(dev, backup_bad);
	} else {
		q->all[bit] = (struct unetmm_backup_packet) {
			.buf = buf,
			.busy = true,
			.bit = bit,
			.slot = le64_to_cpu(rec->vaddr),
			.len = le32_to_cpu(rec->npages),
		};
		list_add_tail(&q->all[bit].node, &q->packets);
		taken = true;
	}
	mutex_unlock(&q->lock);
	if (taken)
		unetmm_job_kick(&q->job);
	return taken;
}

/* ---- Endpoints --------------------------------------------------------------- */

static struct unetmm_backup_queue *unetmm_backup_queue_new(struct unetmm_ep *ep, u32 bits)
{
	struct unetmm_backup_queue *q;

	q = kvzalloc(struct_size(q, all, bits), GFP_KERNEL_ACCOUNT);
	if (!q)
		return NULL;
	unetmm_job_init(&q->job, ep->space, &unetmm_backup_queue_ops);
	mutex_init(&q->lock);
	INIT_LIST_HEAD(&q->packets);
	q->bits = bits;
	kref_get(&ep->space->ref);
	q->space = ep->space;
	q->ep = ep->id;
	q->index = ep->index;
	q->fq = ep->block->cpu + ep->fq_offset;
	q->fq_mask = BIT(ep->fq_log2) - 1;
	return q;
}

/* As long as the endpoint has the queue, or backup.lock is held. */
struct unetmm_aspace *unetmm_backup_queue_space(const struct unetmm_backup_queue *q)
{
	return q->space;
}

static void unetmm_backup_queue_show_to_irq(struct unetmm_ep *ep,
					    struct unetmm_backup_queue *q)
{
	unsigned long flags;

	spin_lock_irqsave(&ep->dev->ep_lock, flags);
	ep->backup_queue = q;
	spin_unlock_irqrestore(&ep->dev->ep_lock, flags);
}

/* For an endpoint that has its number, before the card knows of it. */
static int unetmm_backup_queue_open(struct unetmm_ep *ep,
				    const struct unetmm_endpoint *a)
{
	struct unetmm_backup_ring *b = ep->dev->backup;
	struct unetmm_backup_queue *q;
	int bits;

	mutex_lock(&b->lock);
	bits = unetmm_backup_get(ep->space, a->backup);
	mutex_unlock(&b->lock);
	if (bits < 0)
		return bits;
	q = unetmm_backup_queue_new(ep, bits);
	mutex_lock(&b->lock);
	if (q) {
		q->first = unetmm_reports_now(ep->dev);
		b->queues[ep->id] = q;
		unetmm_backup_queue_show_to_irq(ep, q);
		ep->backup = bits;
	} else {
		unetmm_backup_put(ep->space, bits);
	}
	mutex_unlock(&b->lock);
	return q ? 0 : -ENOMEM;
}

/* The endpoint is no longer on the card, and still has its number. */
static void unetmm_backup_queue_close(struct unetmm_ep *ep)
{
	struct unetmm_backup_ring *b = ep->dev->backup;
	struct unetmm_backup_queue *q = ep->backup_queue;

	if (!q)
		return;
	mutex_lock(&b->lock);
	unetmm_backup_queue_show_to_irq(ep, NULL);
	b->queues[ep->id] = NULL;
	mutex_lock(&q->lock);
	q->dead = true;
	unetmm_backup_queue_cancel_all(q);
	mutex_unlock(&q->lock);
	mutex_unlock(&b->lock);
	/* Nothing of it is served any more, and its queue memory may go. */
	unetmm_job_cancel(&q->job);
	mutex_lock(&b->lock);
	unetmm_backup_put(ep->space, q->bits);
	mutex_unlock(&b->lock);
	unetmm_backup_queue_free(q);
}

const struct unetmm_policy_ops unetmm_backup_policy = {
	.late = true,
	.bits = true,
	.open = unetmm_backup_queue_open,
	.close = unetmm_backup_queue_close,
};
