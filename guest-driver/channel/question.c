// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: questions of threads that wait for an answer of another driver, by their key.
 *
 * Any user can have thousands of threads that ask, and each message that answers is
 * looked up under ctl.lock: in a tree, whose depth alone grows with their number.  A
 * question is on the stack of the thread that asks.  It is in a tree, which is under
 * ctl.lock, from unetmm_question_add() to unetmm_question_drop(), and is woken alone.
 */
#include <linux/random.h>

#include "channel/channel.h"
#include "base/base.h"

static struct unetmm_question *unetmm_question_of(const struct rb_node *node)
{
	return rb_entry_safe(node, struct unetmm_question, node);
}

static int unetmm_question_cmp_key(const void *key, const struct rb_node *node)
{
	u64 wanted = *(const u64 *)key, has = unetmm_question_of(node)->key;

	return wanted < has ? -1 : wanted > has;
}

static int unetmm_question_cmp(struct rb_node *new, const struct rb_node *node)
{
	return unetmm_question_cmp_key(&unetmm_question_of(new)->key, node);
}

void unetmm_question_add(struct unetmm_ctl *ctl, struct rb_root *questions,
			 struct unetmm_question *q, u64 most)
{
	init_waitqueue_head(&q->wait);
	mutex_lock(&ctl->lock);
	do {
		q->key = get_random_u64() & most;
	} while (!q->key || rb_find_add(&q->node, questions,
					unetmm_question_cmp));
	mutex_unlock(&ctl->lock);
}

void unetmm_question_drop(struct unetmm_ctl *ctl, struct rb_root *questions,
			  struct unetmm_question *q)
{
	mutex_lock(&ctl->lock);
	rb_erase(&q->node, questions);
	mutex_unlock(&ctl->lock);
}

struct unetmm_question *unetmm_question_find(struct rb_root *questions, u64 key)
{
	return unetmm_question_of(rb_find(&key, questions,
					  unetmm_question_cmp_key));
}

static void unetmm_questions_wake_tree(struct rb_root *questions)
{
	struct rb_node *node;

	for (node = rb_first(questions); node; node = rb_next(node))
		wake_up_all(&unetmm_question_of(node)->wait);
}

/* The card has gone: each thread looks. */
void unetmm_questions_wake(struct unetmm_ctl *ctl)
{
	mutex_lock(&ctl->lock);
	unetmm_questions_wake_tree(&ctl->probes);
	unetmm_questions_wake_tree(&ctl->asks);
	mutex_unlock(&ctl->lock);
}
