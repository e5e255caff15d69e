// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: source `shadow`: the table is filled ahead of the card.
 *
 * Linux tells a driver when a page goes, by the notifier, and never when one
 * comes.  So a kretprobe at handle_mm_fault() notes where faults have put pages,
 * and a work takes snapshots there.  The probe is armed only while there is a
 * shadow space whose process may have it (unetmm_may_probe()).  The table of any
 * other shadow space is filled by the first walk, by the notifier, and by a
 * snapshot at each miss of the card.  A note that is lost costs a miss, no more.
 *
 * The probe only records.  It runs with preemption off, with mmap_lock held or
 * (Linux 6.4 and later) the lock of one VMA alone, when the page is there but the
 * fault is not over: nothing can be looked at then.  The work is one for each
 * space, and not of the task that faulted: that one may sleep in a system call
 * for long before it comes to work of its own, it may be another process's
 * (ptrace, our own page-ins), and what it has queued would have to be found and
 * waited for when the space is closed.
 *
 * NOTES are slots of a ring, taken by an atomic counter.  A slot that is not 0
 * has not been read yet: the note is lost, and counted, and all of the address
 * space is looked at instead.  One that is still 0 when it is to be read is being
 * written: whoever does that queues the work again.
 */
#include <linux/hashtable.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "unetmm_drv.h"

#define UNETMM_NOTES		1024
#define UNETMM_NOTE		1UL	/* with a page's address; never 0 */
#define UNETMM_PUSH_AROUND	16	/* pages; what Linux maps around a fault */
#define UNETMM_PUSH_NOTES	64	/* for one range; else all is looked at */
#define UNETMM_PUSH_TRIES	3	/* while memory changes */
#define UNETMM_PUSH_PATIENCE	8	/* waits for it to end, of one turn */
#define UNETMM_WALK_LEAVES	65536	/* of 2 MiB */
#define UNETMM_PUSH_BITS	10	/* of the hash of an mm */

struct unetmm_shadow {
	struct hlist_node node;		/* unetmm_push_spaces */
	struct unetmm_aspace *space;
	struct mm_struct *mm;		/* compared, never used */
	struct work_struct work;
	atomic_t next;
	u32 read;			/* the work's */
	bool walk;			/* all of the address space is to be */
	bool probed;			/* its page faults are observed */
	unsigned long notes[UNETMM_NOTES];
	struct unetmm_batch batch;
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
 * Each page fault of the machine looks here: by a hash, so that who has many
 * spaces makes few others wait.
 */
static DEFINE_MUTEX(unetmm_push_lock);
static DEFINE_READ_MOSTLY_HASHTABLE(unetmm_push_spaces, UNETMM_PUSH_BITS);
static u32 unetmm_push_count;

/* ---- The probe: preemption is off ---------------------------------------- */

static bool unetmm_push_wanted(struct mm_struct *mm)
{
	struct unetmm_shadow *s;

	hash_for_each_possible_rcu(unetmm_push_spaces, s, node,
				   (unsigned long)mm) {
		if (s->mm == mm)
			return true;
	}
	return false;
}
NOKPROBE_SYMBOL(unetmm_push_wanted);

/* Not 0: nobody wants to know, and the return is not looked at. */
static int unetmm_push_enter(struct kretprobe_instance *ri,
			     struct pt_regs *regs)
{
	struct unetmm_fault_note *note = (void *)ri->data;
	struct vm_area_struct *vma = (void *)regs_get_kernel_argument(regs, 0);
	bool wanted;

	note->mm = vma->vm_mm;
	note->addr = regs_get_kernel_argument(regs, 1);
	rcu_read_lock();
	wanted = unetmm_push_wanted(note->mm);
	rcu_read_unlock();
	return !wanted;
}
NOKPROBE_SYMBOL(unetmm_push_enter);

static void unetmm_push_note(struct unetmm_shadow *s, unsigned long addr)
{
	u32 slot = (u32)atomic_fetch_inc(&s->next) % UNETMM_NOTES;

	unetmm_count(s->space->dev, shadow_notes);
	if (cmpxchg(&s->notes[slot], 0, (addr & PAGE_MASK) | UNETMM_NOTE)) {
		unetmm_count(s->space->dev, shadow_overruns);
		WRITE_ONCE(s->walk, true);
	}
	queue_work(unetmm_wq, &s->work);
}

/*
 * mprotect() and fork() take rights from pages, which the notifier can only take
 * away altogether; and a huge page becomes small ones without a fault.  They are
 * looked at again when that is over.
 */
static void unetmm_push_again(struct unetmm_aspace *space, unsigned long vpn,
			      unsigned long last)
{
	struct unetmm_shadow *s = space->shadow;

	vpn = round_down(vpn, UNETMM_PUSH_AROUND);
	if (last - vpn >= UNETMM_PUSH_NOTES * UNETMM_PUSH_AROUND) {
		WRITE_ONCE(s->walk, true);
		queue_work(unetmm_wq, &s->work);
		return;
	}
	for (; vpn <= last; vpn += UNETMM_PUSH_AROUND)
		unetmm_push_note(s, vpn << PAGE_SHIFT);
}

static int unetmm_push_return(struct kretprobe_instance *ri,
			      struct pt_regs *regs)
{
	struct unetmm_fault_note *note = (void *)ri->data;
	vm_fault_t ret = (__force vm_fault_t)regs_return_value(regs);
	struct unetmm_shadow *s;

	/* COMPLETED: the page has come, and the VMA may have gone since. */
	if (ret & (VM_FAULT_ERROR | VM_FAULT_RETRY | VM_FAULT_COMPLETED))
		return 0;
	rcu_read_lock();
	hash_for_each_possible_rcu(unetmm_push_spaces, s, node,
				   (unsigned long)note->mm) {
		if (s->mm == note->mm)
			unetmm_push_note(s, note->addr);
	}
	rcu_read_unlock();
	return 0;
}
NOKPROBE_SYMBOL(unetmm_push_return);

static struct kretprobe unetmm_push_probe;
static bool unetmm_push_armed;
static u64 unetmm_push_missed;	/* by probes that are gone */

static int unetmm_push_arm(void)
{
	int ret;

	lockdep_assert_held(&unetmm_push_lock);
	unetmm_push_probe = (struct kretprobe){
		.kp.symbol_name = "handle_mm_fault",
		.entry_handler = unetmm_push_enter,
		.handler = unetmm_push_return,
		.data_size = sizeof(struct unetmm_fault_note),
		.maxactive = READ_ONCE(unetmm_shadow_maxactive),
	};
	ret = register_kretprobe(&unetmm_push_probe);
	unetmm_push_armed = !ret;
	return ret;
}

static void unetmm_push_disarm(void)
{
	lockdep_assert_held(&unetmm_push_lock);
	if (!unetmm_push_armed)
		return;
	unregister_kretprobe(&unetmm_push_probe);
	unetmm_push_missed += unetmm_push_probe.nmissed;
	unetmm_push_armed = false;
}

/*
 * Brings the counter up to date that the kernel keeps: of faults, of whatever
 * process, when all that the probe has is in use by faults that sleep.
 */
void unetmm_push_counters(struct unetmm_dev *dev)
{
	u64 missed;

	mutex_lock(&unetmm_push_lock);
	missed = unetmm_push_missed;
	if (unetmm_push_armed)
		missed += READ_ONCE(unetmm_push_probe.nmissed);
	mutex_unlock(&unetmm_push_lock);
	atomic64_set(&dev->counters[UNETMM_D_shadow_missed], missed);
}

/* ---- The work ------------------------------------------------------------ */

static bool unetmm_push_ends(const struct unetmm_shadow *s)
{
	return READ_ONCE(s->space->closing);
}

/* The first page from vpn on that is mapped at all; 0: none. */
static unsigned long unetmm_push_next_vma(struct unetmm_aspace *space,
					  unsigned long vpn)
{
	struct vm_area_struct *vma;

	if (!unetmm_snap_lock(space, true))
		return 0;
	vma = find_vma(space->mm, vpn << PAGE_SHIFT);
	vpn = vma ? max(vpn, vma->vm_start >> PAGE_SHIFT) : 0;
	mmap_read_unlock(space->mm);
	return vpn;
}

/*
 * An invalidation of the range makes the look fail with -EAGAIN, and may stay in
 * progress for long, for the thread that changes the memory can be preempted or sleep.
 * After some tries at once the look is repeated once a tick, as often as *patience
 * allows for the whole turn; ranges that were noted meanwhile wait behind this one.
 */
static void unetmm_push_snap(struct unetmm_shadow *s, unsigned long first,
			     unsigned long last, unsigned long vpn,
			     u32 *patience)
{
	int tries;

	for (tries = 1; unetmm_snap(s->space, &s->batch, first, last, vpn,
				    true) == -EAGAIN; tries++) {
		if (unetmm_push_ends(s) ||
		    (tries >= UNETMM_PUSH_TRIES && !*patience))
			return;
		if (tries < UNETMM_PUSH_TRIES) {
			cond_resched();
		} else {
			--*patience;
			schedule_timeout_uninterruptible(1);
		}
	}
}

/*
 * All that is resident, as far as the walk goes; the rest are misses.  So notes of
 * what has come before need not be read.
 */
static void unetmm_push_walk(struct unetmm_shadow *s)
{
	u32 leaves, end = atomic_read(&s->next), patience = UNETMM_PUSH_PATIENCE;
	unsigned long vpn = 0, last;

	if (end - s->read > UNETMM_NOTES)
		s->read = end - UNETMM_NOTES;
	for (; s->read != end; s->read++)
		xchg(&s->notes[s->read % UNETMM_NOTES], 0);
	for (leaves = 0; leaves < UNETMM_WALK_LEAVES; leaves++) {
		if (unetmm_push_ends(s))
			return;
		vpn = unetmm_push_next_vma(s->space, vpn);
		if (!vpn)
			return;
		last = vpn | (UNETMM_TABLE_ENTRIES - 1);
		unetmm_push_snap(s, vpn, last, vpn, &patience);
		vpn = last + 1;
		cond_resched();
	}
}

/* Around one page, or (true) all of the huge one that it is in. */
static bool unetmm_push_around(struct unetmm_shadow *s, unsigned long vpn,
			       u32 *patience)
{
	unsigned long first = round_down(vpn, UNETMM_PUSH_AROUND);

	unetmm_push_snap(s, first, first + UNETMM_PUSH_AROUND - 1, vpn,
			 patience);
	if (!s->batch.huge)
		return false;
	unetmm_push_snap(s, round_down(vpn, UNETMM_TABLE_ENTRIES),
			 vpn | (UNETMM_TABLE_ENTRIES - 1), vpn, patience);
	return true;
}

static void unetmm_push_notes(struct unetmm_shadow *s)
{
	unsigned long note, vpn, seen = 0;
	u32 end = atomic_read(&s->next), patience = UNETMM_PUSH_PATIENCE;
	bool huge = false;

	for (; s->read != end && !unetmm_push_ends(s); s->read++) {
		note = xchg(&s->notes[s->read % UNETMM_NOTES], 0);
		if (!note)
			break;
		vpn = note >> PAGE_SHIFT;
		/* Two threads, or spaces, on one page, or several notes of one. */
		if (vpn == seen || (huge && vpn >> UNETMM_TABLE_BITS ==
				    seen >> UNETMM_TABLE_BITS))
			continue;
		seen = vpn;
		huge = unetmm_push_around(s, vpn, &patience);
		cond_resched();
	}
}

static void unetmm_push_work(struct work_struct *work)
{
	struct unetmm_shadow *s = container_of(work, struct unetmm_shadow,
					       work);

	if (unetmm_push_ends(s) || !mmget_not_zero(s->mm))
		return;
	if (xchg(&s->walk, false))
		unetmm_push_walk(s);
	unetmm_push_notes(s);
	/* The last reference must not be given up here: it calls our notifier. */
	mmput_async(s->mm);
}

/* ---- Spaces -------------------------------------------------------------- */

static int unetmm_push_open(struct unetmm_aspace *space)
{
	struct unetmm_shadow *s = kvzalloc(sizeof(*s), GFP_KERNEL_ACCOUNT);

	if (!s)
		return -ENOMEM;
	s->space = space;
	s->mm = space->mm;
	s->walk = true;
	s->probed = unetmm_may_probe();
	s->batch.write = true;
	INIT_WORK(&s->work, unetmm_push_work);
	space->shadow = s;
	return 0;
}

/* With the space's last reference. */
void unetmm_push_free(struct unetmm_aspace *space)
{
	kvfree(space->shadow);
}

/* The notifier is registered: what is entered from now on will leave. */
static void unetmm_push_start(struct unetmm_aspace *space)
{
	struct unetmm_shadow *s = space->shadow;

	if (s->probed) {
		mutex_lock(&unetmm_push_lock);
		/* A kernel that has no probes, or lends none, has more misses. */
		if (!unetmm_push_count++ && unetmm_push_arm())
			pr_warn_once("unetmm: page faults cannot be observed\n");
		hash_add_rcu(unetmm_push_spaces, &s->node,
			     (unsigned long)s->mm);
		mutex_unlock(&unetmm_push_lock);
	}
	queue_work(unetmm_wq, &s->work);
}

static void unetmm_push_unprobe(struct unetmm_shadow *s)
{
	mutex_lock(&unetmm_push_lock);
	hash_del_rcu(&s->node);
	if (!--unetmm_push_count)
		unetmm_push_disarm();
	mutex_unlock(&unetmm_push_lock);
	/* The probe may have found it before. */
	synchronize_rcu();
}

/*
 * `closing` is set, the notifier is unregistered: the work, if it runs, ends
 * soon, enters nothing, and is not queued any more.
 */
static void unetmm_push_stop(struct unetmm_aspace *space)
{
	struct unetmm_shadow *s = space->shadow;

	if (s->probed)
		unetmm_push_unprobe(s);
	cancel_work_sync(&s->work);
	unetmm_snap_settle(space);
}

const struct unetmm_source unetmm_shadow_source = {
	.table = true,
	.stays = true,
	.open = unetmm_push_open,
	.start = unetmm_push_start,
	.stop = unetmm_push_stop,
	.drop = unetmm_shadow_drop,
	.again = unetmm_push_again,
	.enter = unetmm_shadow_set,
	.resolve = unetmm_shadow_resolve,
};
