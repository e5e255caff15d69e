// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: source `shadow`: the table is filled ahead of the card.
 *
 * Linux tells a driver when a page goes, by the notifier, and never when one
 * comes.  So a kretprobe at handle_mm_fault() notes where faults have put pages,
 * and a job of the pager takes snapshots there.  The probe is armed only while there is a
 * shadow space whose process may have it (unetmm_may_probe()).  The table of any
 * other shadow space is filled by the first walk, by the notifier, and by a
 * snapshot at each miss of the card.  A note that is lost costs a miss, no more.
 *
 * The probe only records.  It runs with preemption off, with mmap_lock held or
 * (Linux 6.4 and later) the lock of one VMA alone, when the page is there but the
 * fault is not over: nothing can be looked at then.  The job is one for each
 * space, and not of the task that faulted: that one may sleep in a system call
 * for long before it comes to work of its own, it may be another process's
 * (ptrace, our own page-ins), and the close of the space would have to find its queued
 * work and wait for it.
 *
 * NOTES are slots of a ring, taken by an atomic counter.  A slot that is not 0
 * has not been read yet: the note is lost, and counted, and all of the address
 * space is looked at instead.  One that is still 0 when it is to be read is being
 * written: its writer kicks the job again.
 *
 * A PLACE WHOSE MEMORY KEEPS CHANGING, or whose mmap_lock stays taken, is given up after
 * some looks, so that the places behind it have their turn (unetmm_fill_retry()).  The
 * job remembers that it has given up a place, and walks the whole address space after a
 * pause.  Each walk that gives up a place again doubles the pause.  So memory that comes
 * to rest is entered in the end, and memory that never does costs few walks.
 */
#include <linux/hashtable.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "source/source.h"
#include "memory/memory.h"
#include "pager/pager.h"
#include "space/space.h"
#include "base/base.h"

#define UNETMM_NOTES		1024
#define UNETMM_NOTE		1UL	/* with a page's address; never 0 */
#define UNETMM_FILL_AROUND	16	/* pages; Linux maps as many around a fault */
#define UNETMM_FILL_NOTES	64	/* for one range; else all is looked at */
#define UNETMM_FILL_TRIES	3	/* while memory changes */
#define UNETMM_FILL_PATIENCE	8	/* waits for it to end, of one turn */
#define UNETMM_WALK_LEAVES	65536	/* of 2 MiB */
#define UNETMM_FILL_TURN	16	/* places that are looked at in one turn */
#define UNETMM_FILL_BITS	10	/* of the hash of an mm */
/* Jiffies until the walk after a place was given up, and at most. */
#define UNETMM_FILL_PAUSE	8
#define UNETMM_FILL_PAUSE_MOST	(4 * HZ)

struct unetmm_shadow {
	struct hlist_node node;		/* unetmm_fill_spaces */
	struct unetmm_aspace *space;
	struct mm_struct *mm;		/* compared, never used */
	struct unetmm_job job;
	atomic_t next;
	u32 read;			/* serve's */
	bool walk;			/* all of the address space is to be */
	unsigned long walk_at;		/* serve's: pages of it that have been; 0: no walk */
	u32 walk_leaves;		/* serve's */
	u32 tries;			/* serve's: of this place */
	u32 patience;			/* serve's: ticks that are left to wait */
	bool gave_up;			/* serve's: a place, since the last pause began */
	unsigned long pause;		/* serve's: jiffies until the next walk */
	struct delayed_work calm_work;	/* ends the pause */
	bool probed;			/* its page faults are observed */
	unsigned long notes[UNETMM_NOTES];
};

struct unetmm_fault_note {
	struct mm_struct *mm;
	unsigned long addr;
};

static unsigned int unetmm_shadow_maxactive = 256;
module_param_named(shadow_maxactive, unetmm_shadow_maxactive, uint, 0644);
MODULE_PARM_DESC(shadow_maxactive,
		 "page faults of processes with source shadow that can be observed at a time; others are missed");

/*
 * Each page fault of the machine looks here: by a hash, so that a process with many
 * spaces slows few others down.
 */
static DEFINE_MUTEX(unetmm_fill_lock);
static DEFINE_READ_MOSTLY_HASHTABLE(unetmm_fill_spaces, UNETMM_FILL_BITS);
static u32 unetmm_fill_count;

/* ---- The probe: preemption is off ---------------------------------------- */

static bool unetmm_fill_wanted(struct mm_struct *mm)
{
	struct unetmm_shadow *s;

	hash_for_each_possible_rcu(unetmm_fill_spaces, s, node,
				   (unsigned long)mm) {
		if (s->mm == mm)
			return true;
	}
	return false;
}
NOKPROBE_SYMBOL(unetmm_fill_wanted);

/* Not 0: nobody wants to know, and the return is not looked at. */
static int unetmm_fill_enter(struct kretprobe_instance *ri,
			     struct pt_regs *regs)
{
	struct unetmm_fault_note *note = (void *)ri->data;
	struct vm_area_struct *vma = (void *)regs_get_kernel_argument(regs, 0);
	bool wanted;

	note->mm = vma->vm_mm;
	note->addr = regs_get_kernel_argument(regs, 1);
	rcu_read_lock();
	wanted = unetmm_fill_wanted(note->mm);
	rcu_read_unlock();
	return !wanted;
}
NOKPROBE_SYMBOL(unetmm_fill_enter);

static void unetmm_fill_note(struct unetmm_shadow *s, unsigned long addr)
{
	u32 slot = (u32)atomic_fetch_inc(&s->next) % UNETMM_NOTES;

	unetmm_count(s->space->dev, shadow_notes);
	if (cmpxchg(&s->notes[slot], 0, (addr & PAGE_MASK) | UNETMM_NOTE)) {
		unetmm_count(s->space->dev, shadow_overruns);
		WRITE_ONCE(s->walk, true);
	}
	unetmm_job_kick(&s->job);
}

/*
 * mprotect() and fork() take rights from pages, which the notifier can only take
 * away altogether; and a huge page becomes small ones without a fault.  They are
 * looked at again when that is over.
 */
void unetmm_fill_again(struct unetmm_aspace *space, unsigned long vpn,
		       unsigned long last)
{
	struct unetmm_shadow *s = space->shadow;

	vpn = round_down(vpn, UNETMM_FILL_AROUND);
	if (last - vpn >= UNETMM_FILL_NOTES * UNETMM_FILL_AROUND) {
		WRITE_ONCE(s->walk, true);
		unetmm_job_kick(&s->job);
		return;
	}
	for (; vpn <= last; vpn += UNETMM_FILL_AROUND)
		unetmm_fill_note(s, vpn << PAGE_SHIFT);
}

static int unetmm_fill_return(struct kretprobe_instance *ri,
			      struct pt_regs *regs)
{
	struct unetmm_fault_note *note = (void *)ri->data;
	vm_fault_t ret = (__force vm_fault_t)regs_return_value(regs);
	struct unetmm_shadow *s;

	/* COMPLETED: the page has come, and the VMA may have gone since. */
	if (ret & (VM_FAULT_ERROR | VM_FAULT_RETRY | VM_FAULT_COMPLETED))
		return 0;
	rcu_read_lock();
	hash_for_each_possible_rcu(unetmm_fill_spaces, s, node,
				   (unsigned long)note->mm) {
		if (s->mm == note->mm)
			unetmm_fill_note(s, note->addr);
	}
	rcu_read_unlock();
	return 0;
}
NOKPROBE_SYMBOL(unetmm_fill_return);

static struct kretprobe unetmm_fill_probe;
static bool unetmm_fill_armed;
static u64 unetmm_fill_missed;	/* by probes that are gone */

static int unetmm_fill_arm(void)
{
	int ret;

	lockdep_assert_held(&unetmm_fill_lock);
	unetmm_fill_probe = (struct kretprobe){
		.kp.symbol_name = "handle_mm_fault",
		.entry_handler = unetmm_fill_enter,
		.handler = unetmm_fill_return,
		.data_size = sizeof(struct unetmm_fault_note),
		.maxactive = READ_ONCE(unetmm_shadow_maxactive),
	};
	ret = register_kretprobe(&unetmm_fill_probe);
	unetmm_fill_armed = !ret;
	return ret;
}

static void unetmm_fill_disarm(void)
{
	lockdep_assert_held(&unetmm_fill_lock);
	if (!unetmm_fill_armed)
		return;
	unregister_kretprobe(&unetmm_fill_probe);
	unetmm_fill_missed += unetmm_fill_probe.nmissed;
	unetmm_fill_armed = false;
}

/*
 * Brings the counter up to date that the kernel keeps: of faults, of whatever
 * process, when all that the probe has is in use by faults that sleep.
 */
void unetmm_fill_counters(struct unetmm_dev *dev)
{
	u64 missed;

	mutex_lock(&unetmm_fill_lock);
	missed = unetmm_fill_missed;
	if (unetmm_fill_armed)
		missed += READ_ONCE(unetmm_fill_probe.nmissed);
	mutex_unlock(&unetmm_fill_lock);
	atomic64_set(&dev->counters[UNETMM_D_shadow_missed], missed);
}

/* ---- The job ------------------------------------------------------------- */

/*
 * The first page from vpn on that is mapped at all.  -ENOENT: none; -EAGAIN: mmap_lock
 * is taken.
 */
static int unetmm_fill_next_vma(struct unetmm_aspace *space, unsigned long *vpn)
{
	struct vm_area_struct *vma;

	if (!unetmm_mmap_lock(space, false))
		return -EAGAIN;
	vma = find_vma(space->mm, *vpn << PAGE_SHIFT);
	if (vma)
		*vpn = max(*vpn, vma->vm_start >> PAGE_SHIFT);
	mmap_read_unlock(space->mm);
	return vma ? 0 : -ENOENT;
}

/*
 * An invalidation of the range makes the look fail with -EAGAIN, and may stay in
 * progress for long, for the thread that changes the memory can be preempted or sleep;
 * so may the holder of mmap_lock.  After some tries at once the look is repeated once a
 * tick, as often as s->patience allows for the whole turn; ranges that were noted
 * meanwhile wait behind this one.  Then the range is left to a later walk.  Returns true
 * if the look is to be repeated.
 */
static bool unetmm_fill_retry(struct unetmm_shadow *s, int ret)
{
	if (ret != -EAGAIN) {
		s->tries = 0;
		return false;
	}
	if (++s->tries < UNETMM_FILL_TRIES)
		return true;
	if (s->patience) {
		s->patience--;
		return true;
	}
	s->tries = 0;
	s->gave_up = true;
	unetmm_count(s->space->dev, shadow_put_off);
	return false;
}

/* After an attempt that is to be repeated. */
static enum unetmm_job_next unetmm_fill_when(const struct unetmm_shadow *s)
{
	return s->tries < UNETMM_FILL_TRIES ? UNETMM_JOB_AGAIN :
	       UNETMM_JOB_DELAY;
}

/* Notes of faults before the walk need not be read. */
static void unetmm_fill_begin_walk(struct unetmm_shadow *s)
{
	u32 end = atomic_read(&s->next);

	if (end - s->read > UNETMM_NOTES)
		s->read = end - UNETMM_NOTES;
	for (; s->read != end; s->read++)
		xchg(&s->notes[s->read % UNETMM_NOTES], 0);
	s->walk_at = 1;
	s->walk_leaves = 0;
}

/*
 * All that is resident, as far as the walk goes; the rest are misses.  DONE: the walk
 * is over.
 */
static enum unetmm_job_next unetmm_fill_walk(struct unetmm_shadow *s,
					     struct unetmm_batch *batch)
{
	unsigned long vpn, last;
	int turn, ret;

	for (turn = 0; turn < UNETMM_FILL_TURN; turn++) {
		vpn = s->walk_at;
		ret = unetmm_fill_next_vma(s->space, &vpn);
		if (ret == -ENOENT || s->walk_leaves == UNETMM_WALK_LEAVES) {
			s->walk_at = 0;
			if (!s->gave_up)
				s->pause = UNETMM_FILL_PAUSE;
			return UNETMM_JOB_DONE;
		}
		last = vpn | (UNETMM_TABLE_ENTRIES - 1);
		if (!ret)
			ret = unetmm_snapshot_enter(s->space, batch, vpn, last, vpn,
						    false);
		if (unetmm_fill_retry(s, ret))
			return unetmm_fill_when(s);
		s->walk_at = last + 1;
		s->walk_leaves++;
	}
	return UNETMM_JOB_AGAIN;
}

/* Around one page, or (*huge) all of the huge one that it is in. */
static int unetmm_fill_around(struct unetmm_shadow *s, unsigned long vpn,
			      struct unetmm_batch *batch, bool *huge)
{
	unsigned long first = round_down(vpn, UNETMM_FILL_AROUND);
	int ret;

	ret = unetmm_snapshot_enter(s->space, batch, first,
				    first + UNETMM_FILL_AROUND - 1, vpn, false);
	*huge = ret != -EAGAIN && batch->huge;
	if (*huge)
		ret = unetmm_snapshot_enter(s->space, batch,
					    round_down(vpn, UNETMM_TABLE_ENTRIES),
					    vpn | (UNETMM_TABLE_ENTRIES - 1), vpn, false);
	return ret;
}

static enum unetmm_job_next unetmm_fill_notes(struct unetmm_shadow *s,
					      struct unetmm_batch *batch)
{
	unsigned long note, vpn, seen = 0, *slot;
	u32 end = atomic_read(&s->next);
	bool huge = false;
	int turn = 0;

	for (; s->read != end; s->read++) {
		slot = &s->notes[s->read % UNETMM_NOTES];
		note = READ_ONCE(*slot);
		if (!note)
			break;
		vpn = note >> PAGE_SHIFT;
		/* Two threads, or spaces, on one page, or several notes of one. */
		if (vpn != seen && (!huge || vpn >> UNETMM_TABLE_BITS !=
				    seen >> UNETMM_TABLE_BITS)) {
			if (turn++ == UNETMM_FILL_TURN)
				return UNETMM_JOB_AGAIN;
			if (unetmm_fill_retry(s, unetmm_fill_around(s, vpn,
								    batch,
								    &huge)))
				return unetmm_fill_when(s);
			seen = vpn;
		}
		xchg(slot, 0);
	}
	return UNETMM_JOB_DONE;
}

static void unetmm_fill_calm_work(struct work_struct *work)
{
	struct unetmm_shadow *s = container_of(to_delayed_work(work),
					       struct unetmm_shadow, calm_work);

	WRITE_ONCE(s->walk, true);
	unetmm_job_kick(&s->job);
}

/* All that was noted has been looked at, or given up. */
static void unetmm_fill_rest(struct unetmm_shadow *s)
{
	s->patience = UNETMM_FILL_PATIENCE;
	/* A pause that has begun already ends in a walk of everything, too. */
	if (s->gave_up && queue_delayed_work(unetmm_wq, &s->calm_work, s->pause))
		s->pause = min_t(unsigned long, 2 * s->pause,
				 UNETMM_FILL_PAUSE_MOST);
	s->gave_up = false;
}

static enum unetmm_job_next unetmm_fill_serve(struct unetmm_job *job,
					      struct unetmm_batch *batch)
{
	struct unetmm_shadow *s = container_of(job, struct unetmm_shadow, job);
	enum unetmm_job_next next = UNETMM_JOB_DONE;

	batch->write = true;
	if (xchg(&s->walk, false))
		unetmm_fill_begin_walk(s);
	if (s->walk_at)
		next = unetmm_fill_walk(s, batch);
	if (next == UNETMM_JOB_DONE)
		next = unetmm_fill_notes(s, batch);
	if (next == UNETMM_JOB_DONE)
		unetmm_fill_rest(s);
	return next;
}

/* Pages that have not been entered yet cannot miss: the space ends. */
static void unetmm_fill_cancel(struct unetmm_job *job)
{
}

static const struct unetmm_job_ops unetmm_fill_ops = {
	.serve = unetmm_fill_serve,
	.cancel = unetmm_fill_cancel,
};

/* ---- Spaces -------------------------------------------------------------- */

int unetmm_fill_open(struct unetmm_aspace *space)
{
	struct unetmm_shadow *s = kvzalloc(sizeof(*s), GFP_KERNEL_ACCOUNT);

	if (!s)
		return -ENOMEM;
	s->space = space;
	s->mm = space->mm;
	s->walk = true;
	s->probed = unetmm_may_probe();
	s->patience = UNETMM_FILL_PATIENCE;
	s->pause = UNETMM_FILL_PAUSE;
	INIT_DELAYED_WORK(&s->calm_work, unetmm_fill_calm_work);
	unetmm_job_init(&s->job, space, &unetmm_fill_ops);
	space->shadow = s;
	return 0;
}

/* With the space's last reference. */
void unetmm_fill_free(struct unetmm_aspace *space)
{
	kvfree(space->shadow);
}

/* The notifier is registered: it removes each page that is entered from now on. */
void unetmm_fill_start(struct unetmm_aspace *space)
{
	struct unetmm_shadow *s = space->shadow;

	if (s->probed) {
		mutex_lock(&unetmm_fill_lock);
		/* A kernel that has no probes, or lends none, has more misses. */
		if (!unetmm_fill_count++ && unetmm_fill_arm())
			pr_warn_once("unetmm: cannot observe page faults: no pages are entered ahead\n");
		hash_add_rcu(unetmm_fill_spaces, &s->node,
			     (unsigned long)s->mm);
		mutex_unlock(&unetmm_fill_lock);
	}
	unetmm_job_kick(&s->job);
}

static void unetmm_fill_unprobe(struct unetmm_shadow *s)
{
	mutex_lock(&unetmm_fill_lock);
	hash_del_rcu(&s->node);
	if (!--unetmm_fill_count)
		unetmm_fill_disarm();
	mutex_unlock(&unetmm_fill_lock);
	/* The probe may have found it before. */
	synchronize_rcu();
}

/* The pager has closed the space, the notifier is unregistered: nothing is entered. */
void unetmm_fill_stop(struct unetmm_aspace *space)
{
	struct unetmm_shadow *s = space->shadow;

	if (s->probed)
		unetmm_fill_unprobe(s);
	/* The job has been served for the last time, and begins no pause. */
	cancel_delayed_work_sync(&s->calm_work);
	unetmm_snapshot_settle(space);
}
