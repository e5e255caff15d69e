// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: event counters: a page that the process reads, and its sleeping threads.
 *
 * The card alone changes the words of the page; a process that spins on one does
 * not come here.  One that sleeps says for which value.  The card knows one value
 * of each counter, the nearest of all that somebody sleeps for; when it has been
 * reached all of them are woken, look, and the nearest of the rest is armed by the
 * first that finds nothing.  Arming and the look at the counter are one step on
 * the card, and `wakes` is read before it: so no wake-up is lost between.
 *
 * A value is reached while the counter is up to 2^63 - 1 past it.  A value once
 * reached stays so, even if the counter changes meanwhile: values are the
 * process's choice, and one may be 2^63 - 1 behind when it is asked for.
 *
 * A number is used again only after the end of the last export that gives it, hence
 * no earlier use of its number changes a counter.
 *
 * Locks: file->lock > ctl.lock > ecs->lock > command slot.  The array, eventfds and
 * `wakes` change under dev->ep_lock too, for the interrupt.  The page's contents are
 * read under rwsem alone: the memory moves when the card goes away.
 */
#include <linux/eventfd.h>
#include <linux/hrtimer.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "compat/compat.h"
#include "remote/remote.h"
#include "map/map.h"
#include "space/space.h"
#include "ring/ring.h"
#include "base/base.h"

struct unetmm_ec {
	struct kref ref;	/* the array, each waiting call */
	u32 id;
	u32 exports;		/* that give it; ecs->lock */
	bool closed;		/* ecs->lock */
	struct list_head sleepers;	/* ecs->lock */
	unsigned long wakes;	/* ep_lock */
	struct eventfd_ctx *eventfd;	/* ecs->lock and ep_lock */
	u64 fd_value;		/* ecs->lock */
	bool fd_reached;	/* ecs->lock */
	wait_queue_head_t wait;
};

struct unetmm_ecs {
	struct kref ref;	/* the space, each waiting call */
	struct unetmm_dev *dev;
	u32 space;
	struct unetmm_block *block;	/* map_lock; NULL: the space has ended */
	struct mutex lock;
	bool closed;
	struct unetmm_ec *ec[UNETMM_EVENT_COUNTERS];
};

struct unetmm_sleeper {
	struct list_head node;	/* ec->sleepers; ecs->lock */
	u64 value;
	bool reached;		/* ecs->lock */
};

static void unetmm_ec_free(struct kref *ref)
{
	kfree(container_of(ref, struct unetmm_ec, ref));
}

static void unetmm_ecs_release(struct kref *ref)
{
	struct unetmm_ecs *ecs = container_of(ref, struct unetmm_ecs, ref);

	unetmm_dev_put(ecs->dev);
	kvfree(ecs);
}

static struct unetmm_ecs *unetmm_space_ecs(const struct unetmm_aspace *space)
{
	/* Pairs with unetmm_ecs_create(). */
	return smp_load_acquire(&space->ecs);
}

static u64 unetmm_ec_value(const struct unetmm_ecs *ecs, u32 id)
{
	lockdep_assert_held(&ecs->dev->rwsem);
	return le64_to_cpu(READ_ONCE(((__le64 *)ecs->block->cpu)[id]));
}

static bool unetmm_ec_reached(u64 now, u64 value)
{
	return now - value <= S64_MAX;
}

/* ---- Waking -------------------------------------------------------------- */

/* Each woken thread reads the counter itself. */
static void unetmm_ec_wake(const struct unetmm_ecs *ecs, struct unetmm_ec *ec)
{
	lockdep_assert_held(&ecs->dev->ep_lock);
	WRITE_ONCE(ec->wakes, ec->wakes + 1);
	if (ec->eventfd)
		unetmm_eventfd_signal(ec->eventfd);
	wake_up_all(&ec->wait);
}

/* Called by the interrupt. */
void unetmm_ec_notified(struct unetmm_dev *dev, u32 space, u32 id)
{
	struct unetmm_ecs *ecs;

	lockdep_assert_held(&dev->ep_lock);
	if (!dev->remote->ecs || space >= dev->hw.spaces ||
	    id >= UNETMM_EVENT_COUNTERS)
		return;
	ecs = dev->remote->ecs[space];
	if (!ecs || !ecs->ec[id])
		return;
	unetmm_ec_wake(ecs, ecs->ec[id]);
	unetmm_count(dev, wakeups);
}

static int unetmm_ec_command(struct unetmm_ecs *ecs, u32 id, bool arm,
			     u64 value, u32 *reached)
{
	struct unetmm_cmd cmd = {
		.opcode = UNETMM_CMD_COUNTER_ARM,
		.space = cpu_to_le16(ecs->space),
		.arm = {
			.value = cpu_to_le64(value),
			.counter = cpu_to_le16(id),
			.arm = arm,
		},
	};

	return unetmm_cmd(ecs->dev, &cmd, reached);
}

/*
 * The counter has been `now`, or more than that but less than 2^63 more.  True: a
 * value is reached that was not known to be.
 */
static bool unetmm_ec_mark(struct unetmm_ec *ec, u64 now)
{
	struct unetmm_sleeper *s;
	bool any = false;

	if (ec->eventfd && !ec->fd_reached) {
		ec->fd_reached = unetmm_ec_reached(now, ec->fd_value);
		any = ec->fd_reached;
	}
	list_for_each_entry(s, &ec->sleepers, node) {
		if (s->reached || !unetmm_ec_reached(now, s->value))
			continue;
		s->reached = true;
		any = true;
	}
	return any;
}

/* The nearest of all that is waited for and has not been reached, if any is. */
static bool unetmm_ec_nearest(const struct unetmm_ec *ec, u64 now, u64 *value)
{
	const struct unetmm_sleeper *s;
	bool any = ec->eventfd && !ec->fd_reached;

	if (any)
		*value = ec->fd_value;
	list_for_each_entry(s, &ec->sleepers, node) {
		if (s->reached)
			continue;
		if (!any || s->value - now < *value - now)
			*value = s->value;
		any = true;
	}
	return any;
}

static void unetmm_ec_wake_now(struct unetmm_ecs *ecs, struct unetmm_ec *ec)
{
	spin_lock_irq(&ecs->dev->ep_lock);
	unetmm_ec_wake(ecs, ec);
	spin_unlock_irq(&ecs->dev->ep_lock);
}

/*
 * Each turn arms a value that has not been reached, or marks it as reached: there
 * are as many turns as values at most, even with a wrong card.  Marked sleepers are
 * woken here: arming another value takes back a notification that the card has not
 * written yet.  *now is the counter's value before the card's last look at it.
 */
static int unetmm_ec_arm(struct unetmm_ecs *ecs, struct unetmm_ec *ec, u64 *now)
{
	u32 reached;
	u64 value;
	int ret;

	lockdep_assert_held(&ecs->lock);
	for (;;) {
		*now = unetmm_ec_value(ecs, ec->id);
		if (unetmm_ec_mark(ec, *now))
			unetmm_ec_wake_now(ecs, ec);
		if (!unetmm_ec_nearest(ec, *now, &value))
			return 0;
		ret = unetmm_ec_command(ecs, ec->id, true, value, &reached);
		if (ret || !reached)
			return ret;
		unetmm_ec_mark(ec, value);
		unetmm_ec_wake_now(ecs, ec);
	}
}

/* ---- The page of a space ------------------------------------------------- */

static int unetmm_ecs_command(struct unetmm_ecs *ecs)
{
	struct unetmm_cmd cmd = {
		.opcode = UNETMM_CMD_COUNTERS_SET,
		.space = cpu_to_le16(ecs->space),
		.counters.page = cpu_to_le64(ecs->block->dma),
	};

	return unetmm_cmd(ecs->dev, &cmd, NULL);
}

/* The file's space has no event counters yet. */
static int unetmm_ecs_create(struct unetmm_file *file)
{
	struct unetmm_aspace *space = file->space;
	struct unetmm_dev *dev = space->dev;
	struct unetmm_block *block;
	struct unetmm_ecs *ecs;
	int ret;

	lockdep_assert_held(&file->lock);
	ecs = kvzalloc(sizeof(*ecs), GFP_KERNEL_ACCOUNT);
	if (!ecs)
		return -ENOMEM;
	block = unetmm_block_alloc(dev, space, PAGE_SIZE);
	if (IS_ERR(block)) {
		kvfree(ecs);
		return PTR_ERR(block);
	}
	kref_init(&ecs->ref);
	mutex_init(&ecs->lock);
	kref_get(&dev->ref);
	ecs->dev = dev;
	ecs->space = space->id;
	ecs->block = block;
	ret = unetmm_ecs_command(ecs);
	if (ret) {
		unetmm_block_put(block);
		kref_put(&ecs->ref, unetmm_ecs_release);
		return ret;
	}
	spin_lock_irq(&dev->ep_lock);
	dev->remote->ecs[space->id] = ecs;
	spin_unlock_irq(&dev->ep_lock);
	/* Pairs with those who look for it without file->lock. */
	smp_store_release(&space->ecs, ecs);
	return 0;
}

/* Returns the counter's eventfd. */
static struct eventfd_ctx *unetmm_ec_take(struct unetmm_ecs *ecs, u32 id)
{
	struct unetmm_ec *ec = ecs->ec[id];
	struct eventfd_ctx *eventfd;

	lockdep_assert_held(&ecs->lock);
	spin_lock_irq(&ecs->dev->ep_lock);
	ecs->ec[id] = NULL;
	WRITE_ONCE(ec->closed, true);
	eventfd = ec->eventfd;
	ec->eventfd = NULL;
	WRITE_ONCE(ec->wakes, ec->wakes + 1);
	wake_up_all(&ec->wait);
	spin_unlock_irq(&ecs->dev->ep_lock);
	kref_put(&ec->ref, unetmm_ec_free);
	return eventfd;
}

/*
 * The space is off the card, and its exports before it.  Only an empty table is left:
 * calls that began before that may still come.
 */
void unetmm_ecs_close(struct unetmm_aspace *space)
{
	struct unetmm_ecs *ecs = space->ecs;
	struct unetmm_dev *dev = space->dev;
	struct unetmm_block *block;
	struct eventfd_ctx *eventfd;
	u32 id;

	if (!ecs)
		return;
	spin_lock_irq(&dev->ep_lock);
	if (dev->remote->ecs)
		dev->remote->ecs[space->id] = NULL;
	spin_unlock_irq(&dev->ep_lock);
	mutex_lock(&ecs->lock);
	ecs->closed = true;
	for (id = 0; id < UNETMM_EVENT_COUNTERS; id++) {
		eventfd = ecs->ec[id] ? unetmm_ec_take(ecs, id) : NULL;
		if (eventfd)
			eventfd_ctx_put(eventfd);
	}
	mutex_unlock(&ecs->lock);
	mutex_lock(&dev->map_lock);
	block = ecs->block;
	ecs->block = NULL;
	mutex_unlock(&dev->map_lock);
	unetmm_block_put(block);
}

/* With the space's last reference. */
void unetmm_ecs_free(struct unetmm_aspace *space)
{
	if (space->ecs)
		kref_put(&space->ecs->ref, unetmm_ecs_release);
}

/* Returns a reference, or NULL. */
struct unetmm_block *unetmm_ecs_block(struct unetmm_aspace *space)
{
	struct unetmm_ecs *ecs = unetmm_space_ecs(space);

	lockdep_assert_held(&space->dev->map_lock);
	if (!ecs || !ecs->block)
		return NULL;
	kref_get(&ecs->block->ref);
	return ecs->block;
}

/* ---- Exports; ctl.lock --------------------------------------------------- */

static bool unetmm_ecs_all(const struct unetmm_ecs *ecs, u64 first, u32 n)
{
	u32 i;

	if (first >= UNETMM_EVENT_COUNTERS || n > UNETMM_EVENT_COUNTERS - first)
		return false;
	for (i = first; i < first + n; i++) {
		if (!ecs->ec[i])
			return false;
	}
	return true;
}

/* The peers of an export may name these from now on. */
int unetmm_ecs_give(struct unetmm_aspace *space, u32 first, u32 n)
{
	struct unetmm_ecs *ecs = unetmm_space_ecs(space);
	int ret = -ENOENT;
	u32 i;

	if (!n)
		return 0;
	if (!ecs)
		return ret;
	mutex_lock(&ecs->lock);
	if (unetmm_ecs_all(ecs, first, n)) {
		for (i = first; i < first + n; i++)
			ecs->ec[i]->exports++;
		ret = 0;
	}
	mutex_unlock(&ecs->lock);
	return ret;
}

void unetmm_ecs_take_back(struct unetmm_aspace *space, u32 first, u32 n)
{
	struct unetmm_ecs *ecs = unetmm_space_ecs(space);
	u32 i;

	if (!n)
		return;
	mutex_lock(&ecs->lock);
	for (i = first; i < first + n; i++)
		ecs->ec[i]->exports--;
	mutex_unlock(&ecs->lock);
}

/* ---- The process's side -------------------------------------------------- */

static struct unetmm_ec *unetmm_ec_new(struct unetmm_ecs *ecs, u32 id)
{
	struct unetmm_ec *ec = kzalloc(sizeof(*ec), GFP_KERNEL_ACCOUNT);

	if (!ec)
		return NULL;
	kref_init(&ec->ref);
	ec->id = id;
	INIT_LIST_HEAD(&ec->sleepers);
	init_waitqueue_head(&ec->wait);
	/* No other thread may name the counter now. */
	WRITE_ONCE(((__le64 *)ecs->block->cpu)[id], 0);
	return ec;
}

/* The first of n numbers that follow each other. */
static int unetmm_ecs_room(const struct unetmm_ecs *ecs, u32 n, u32 *first)
{
	u32 i, run = 0;

	for (i = 0; i < UNETMM_EVENT_COUNTERS; i++) {
		run = ecs->ec[i] ? 0 : run + 1;
		if (run == n) {
			*first = i + 1 - n;
			return 0;
		}
	}
	return -ENOSPC;
}

static void unetmm_ecs_drop(struct unetmm_ecs *ecs, u32 first, u32 n)
{
	struct eventfd_ctx *eventfd;
	u32 i;

	lockdep_assert_held(&ecs->lock);
	for (i = first; i < first + n; i++) {
		unetmm_ec_command(ecs, i, false, 0, NULL);
		eventfd = unetmm_ec_take(ecs, i);
		if (eventfd)
			eventfd_ctx_put(eventfd);
	}
}

static int unetmm_ecs_add(struct unetmm_ecs *ecs, u32 n, u32 *first)
{
	struct unetmm_ec *ec;
	int ret;
	u32 i;

	ret = unetmm_ecs_room(ecs, n, first);
	for (i = 0; !ret && i < n; i++) {
		ec = unetmm_ec_new(ecs, *first + i);
		if (!ec) {
			unetmm_ecs_drop(ecs, *first, i);
			return -ENOMEM;
		}
		spin_lock_irq(&ecs->dev->ep_lock);
		ecs->ec[*first + i] = ec;
		spin_unlock_irq(&ecs->dev->ep_lock);
	}
	return ret;
}

int unetmm_op_event(struct unetmm_file *file, void *arg)
{
	struct unetmm_event *a = arg;
	struct unetmm_aspace *space = file->space;
	unsigned int noio;
	int ret = 0;

	if (a->rsvd)
		return -EOPNOTSUPP;
	if (!a->count || a->count > UNETMM_EVENT_COUNTERS)
		return -EINVAL;
	if (!(file->dev->hw.caps & UNETMM_CAP_EVENT_COUNTERS))
		return -EOPNOTSUPP;
	mutex_lock(&file->lock);
	if (!space->ecs)
		ret = unetmm_ecs_create(file);
	if (!ret) {
		/* Control messages wait for the lock, and a disk of verbs for these. */
		noio = memalloc_noio_save();
		mutex_lock(&space->ecs->lock);
		ret = unetmm_ecs_add(space->ecs, a->count, &a->id);
		mutex_unlock(&space->ecs->lock);
		memalloc_noio_restore(noio);
	}
	mutex_unlock(&file->lock);
	if (ret)
		return ret;
	unetmm_count_add(file->dev, event_counters, a->count);
	a->map = unetmm_map_event_counters();
	return 0;
}

static int unetmm_event_end(struct unetmm_ecs *ecs, u64 first, u32 n)
{
	int ret = 0;
	u32 i;

	mutex_lock(&ecs->lock);
	if (!n || !unetmm_ecs_all(ecs, first, n))
		ret = -ENOENT;
	for (i = first; !ret && i < first + n; i++) {
		if (ecs->ec[i]->exports)
			ret = -EBUSY;
	}
	if (!ret)
		unetmm_ecs_drop(ecs, first, n);
	mutex_unlock(&ecs->lock);
	return ret;
}

int unetmm_event_destroy(struct unetmm_file *file, struct unetmm_ep *ep,
			 const struct unetmm_destroy *a)
{
	struct unetmm_ecs *ecs = unetmm_space_ecs(file->space);

	return ecs ? unetmm_event_end(ecs, a->id, a->count) : -ENOENT;
}

/* ---- Sleeping ------------------------------------------------------------ */

/* References to both, for a call that sleeps. */
static struct unetmm_ec *unetmm_ec_get(struct unetmm_file *file, u32 id,
				       struct unetmm_ecs **result)
{
	struct unetmm_ecs *ecs = unetmm_space_ecs(file->space);
	struct unetmm_ec *ec = NULL;

	if (!ecs || id >= UNETMM_EVENT_COUNTERS)
		return NULL;
	mutex_lock(&ecs->lock);
	ec = ecs->ec[id];
	if (ec) {
		kref_get(&ec->ref);
		kref_get(&ecs->ref);
		*result = ecs;
	}
	mutex_unlock(&ecs->lock);
	return ec;
}

static void unetmm_ec_put(struct unetmm_ecs *ecs, struct unetmm_ec *ec)
{
	kref_put(&ec->ref, unetmm_ec_free);
	kref_put(&ecs->ref, unetmm_ecs_release);
}

/* Checks to be made before each wait. */
static int unetmm_ec_alive(struct unetmm_file *file, struct unetmm_ecs *ecs,
			   struct unetmm_ec *ec)
{
	lockdep_assert_held(&file->dev->rwsem);
	lockdep_assert_held(&ecs->lock);
	if (!unetmm_running(file->dev) || file->dead || ecs->closed)
		return -ENODEV;
	return ec->closed ? -ENOENT : 0;
}

/* 1: reached; 0: armed, sleep while `wakes` is *seen; or -errno. */
static int unetmm_ec_look(struct unetmm_file *file, struct unetmm_ecs *ecs,
			  struct unetmm_ec *ec, struct unetmm_sleeper *s,
			  u64 *now, unsigned long *seen)
{
	int ret;

	down_read(&file->dev->rwsem);
	mutex_lock(&ecs->lock);
	*seen = READ_ONCE(ec->wakes);
	ret = unetmm_ec_alive(file, ecs, ec);
	if (!ret) {
		/* Before the others are looked at: this one is awake. */
		s->reached |= unetmm_ec_reached(unetmm_ec_value(ecs, ec->id),
						s->value);
		ret = unetmm_ec_arm(ecs, ec, now);
	}
	if (!ret)
		ret = s->reached;
	mutex_unlock(&ecs->lock);
	up_read(&file->dev->rwsem);
	return ret;
}

static int unetmm_ec_sleep(struct unetmm_ec *ec, u64 deadline_ns,
			   unsigned long seen)
{
	u64 now = ktime_get_ns();

	if (now >= deadline_ns)
		return -ETIMEDOUT;
	if (deadline_ns > S64_MAX)
		deadline_ns = S64_MAX;
	if (wait_event_interruptible_hrtimeout(ec->wait,
			READ_ONCE(ec->wakes) != seen,
			ns_to_ktime(deadline_ns - now)) == -ERESTARTSYS)
		return UNETMM_INTERRUPTED;
	return 0;
}

static int unetmm_ec_wait(struct unetmm_file *file, struct unetmm_ecs *ecs,
			  struct unetmm_ec *ec, struct unetmm_sleeper *s,
			  struct unetmm_event_wait *a)
{
	unsigned long seen;
	bool late = false;
	int ret;

	for (;;) {
		ret = unetmm_ec_look(file, ecs, ec, s, &a->now, &seen);
		if (ret)
			return min(ret, 0);
		if (!a->deadline_ns)
			return -EAGAIN;
		if (late)
			return -ETIMEDOUT;
		ret = unetmm_ec_sleep(ec, a->deadline_ns, seen);
		if (ret == -ETIMEDOUT)
			late = true;
		else if (ret)
			return ret;
	}
}

/* Takes rwsem itself: it is not held while somebody sleeps. */
int unetmm_op_event_wait(struct unetmm_file *file, void *arg)
{
	struct unetmm_event_wait *a = arg;
	struct unetmm_sleeper sleeper = { .value = a->value };
	struct unetmm_ecs *ecs;
	struct unetmm_ec *ec;
	int ret;

	ec = unetmm_ec_get(file, a->id, &ecs);
	if (!ec)
		return READ_ONCE(file->dead) ? -ENODEV : -ENOENT;
	mutex_lock(&ecs->lock);
	list_add(&sleeper.node, &ec->sleepers);
	mutex_unlock(&ecs->lock);
	ret = unetmm_ec_wait(file, ecs, ec, &sleeper, a);
	mutex_lock(&ecs->lock);
	list_del(&sleeper.node);
	mutex_unlock(&ecs->lock);
	unetmm_ec_put(ecs, ec);
	return ret;
}

static struct eventfd_ctx *unetmm_ec_fd(struct unetmm_ecs *ecs,
					struct unetmm_ec *ec,
					struct eventfd_ctx *new, u64 value)
{
	struct eventfd_ctx *old;

	lockdep_assert_held(&ecs->lock);
	spin_lock_irq(&ecs->dev->ep_lock);
	old = ec->eventfd;
	ec->eventfd = new;
	spin_unlock_irq(&ecs->dev->ep_lock);
	ec->fd_value = value;
	ec->fd_reached = unetmm_ec_reached(unetmm_ec_value(ecs, ec->id), value);
	return old;
}

/* The caller puts *eventfd afterwards. */
static int unetmm_ec_arm_fd(struct unetmm_file *file, struct unetmm_event_arm *a,
			    struct eventfd_ctx **eventfd)
{
	struct unetmm_ecs *ecs;
	struct unetmm_ec *ec;
	int ret;

	ec = unetmm_ec_get(file, a->id, &ecs);
	if (!ec)
		return -ENOENT;
	mutex_lock(&ecs->lock);
	ret = unetmm_ec_alive(file, ecs, ec);
	if (!ret) {
		*eventfd = unetmm_ec_fd(ecs, ec, *eventfd, a->value);
		ret = unetmm_ec_arm(ecs, ec, &a->now);
	}
	mutex_unlock(&ecs->lock);
	unetmm_ec_put(ecs, ec);
	return ret;
}

int unetmm_op_event_arm(struct unetmm_file *file, void *arg)
{
	struct unetmm_event_arm *a = arg;
	struct eventfd_ctx *eventfd = NULL;
	int ret;

	if (a->rsvd)
		return -EOPNOTSUPP;
	if (a->event_fd != -1) {
		eventfd = eventfd_ctx_fdget(a->event_fd);
		if (IS_ERR(eventfd))
			return -EINVAL;
	}
	ret = unetmm_ec_arm_fd(file, a, &eventfd);
	if (eventfd)
		eventfd_ctx_put(eventfd);
	return ret;
}
