/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm: channels: how they begin and end, and the protocol between drivers.
 */
#ifndef UNETMM_CHANNEL_H
#define UNETMM_CHANNEL_H

#include <linux/hashtable.h>
#include <linux/ratelimit.h>
#include <linux/slab.h>

#include "unetmm_wire.h"
#include "ep/ep.h"

enum unetmm_chan_state {
	UNETMM_CHAN_CONNECTING,
	UNETMM_CHAN_OPEN,
	UNETMM_CHAN_FAILED,	/* its answer came, and was no or of no use */
	UNETMM_CHAN_CLOSED,	/* the peer's half is gone; number still ours */
};

/* All of it: ctl.lock.  Waiters read `state` without the lock: its writer wakes them. */
struct unetmm_chan {
	struct kref ref;
	struct unetmm_ep *ep;		/* NULL once the endpoint is closed */
	struct list_head node;		/* ep->chans; then ctl.closes */
	struct list_head accept_node;	/* ep->accepts */
	struct hlist_node hash;		/* ctl.chans, by peer; then ctl.closing */
	enum unetmm_chan_state state;
	bool passive;			/* the peer asked for it */
	bool confirmed;			/* ... and its card has a driver */
	u8 probes;			/* asked so often whether it has */
	u32 probe_key;			/* its answers have to name it */
	u64 probed_ns;
	u8 mac[ETH_ALEN];
	bool answered, given;		/* by the peer; the number, to the process */
	u16 ep_id;			/* also when `ep` is NULL */
	u16 number;
	u16 peer_ep;
	u16 peer_channel;
	u32 mtu;
	u64 nonce;
	struct unetmm_chan_params params;
	u32 send_psn;
	u32 recv_psn;
	u32 send_credits;		/* slots that the peer has for us; 0: no limit */
	u32 recv_credits;		/* slots of the system buffer, reserved */
	bool reserved;			/* counted in its user's share of channels */
	u8 features;			/* UNETMM_FEATURE_*: of both cards */
	int error;			/* FAILED: why */
	struct unetmm_user *closer;	/* has a place in ctl.closes for it */
	struct list_head rest;		/* ep->resting: its number is not free yet */
	u32 sq_end;			/* its process had filled so many slots */
	u32 cq_begin;			/* completions written when it was opened */
	u32 cq_end;			/* ... when all of its own were; if `written` */
	bool owes, written;		/* some wait for room; none does */
	u8 closes;			/* CLOSE messages sent */
	unsigned long close_at;		/* jiffies: the next one */
};

static inline void unetmm_chan_free(struct kref *ref)
{
	kfree(container_of(ref, struct unetmm_chan, ref));
}

static inline void unetmm_chan_put(struct unetmm_chan *chan)
{
	kref_put(&chan->ref, unetmm_chan_free);
}

/* A thread waits for the answer; channel/question.c. */
struct unetmm_question {
	struct rb_node node;		/* ctl.probes, .asks or .imports; ctl.lock */
	u64 key;			/* its nonce or number, set once */
	wait_queue_head_t wait;
};

struct unetmm_probe_wait {
	struct unetmm_question q;
	u8 mac[ETH_ALEN];
	bool answered;
	u32 mtu;
};

#define UNETMM_SERVICE_BITS	6
#define UNETMM_CHAN_BITS	10
#define UNETMM_CLOSE_TRIES	10	/* CLOSEs of a channel whose peer is silent */

/*
 * Limits of a second.  Of a user, or a card, which shares them with those whose hash is
 * the same in that second; a card asks as often as all users of a peer and its search for
 * channels without a peer do, and these questions are answered.
 */
#define UNETMM_LIMIT_GROUPS	16
#define UNETMM_USER_PROBES	64
#define UNETMM_PEER_PROBES	4000
#define UNETMM_PEER_CLOSES	4000
/* Questions for listeners, of a user and of a card */
#define UNETMM_PEER_ASKS	8

struct unetmm_rates {
	unsigned long begin;		/* of this second, in jiffies */
	u32 salt;			/* of its hash */
	u32 burst;
	u32 left[UNETMM_LIMIT_GROUPS];
};

/*
 * A call that asks for listeners, here or on another card: its questions have one nonce,
 * and the answers to each go on where those to the one before have ended.  A place is
 * kept for a second at least, by the limit of questions.
 */
struct unetmm_asker {
	u8 mac[ETH_ALEN];
	u64 nonce;
	u32 next;			/* endpoint */
};

#define UNETMM_ASKERS		(2 * UNETMM_LIMIT_GROUPS * UNETMM_PEER_ASKS)

/* The control protocol over the driver's own endpoint. */
struct unetmm_ctl {
	struct mutex lock;		/* all of this structure */
	struct unetmm_dev *dev;
	/* channel/protocol.c has the effects of a message */
	void (*got)(struct unetmm_dev *dev, const u8 *mac,
		    const struct unetmm_control_named *msg);
	struct unetmm_ep *ep;
	struct work_struct work;
	void *bufs;
	dma_addr_t bufs_dma;
	u32 sq_prod;
	u32 fq_prod;
	u32 cq_cons;
	DECLARE_HASHTABLE(services, UNETMM_SERVICE_BITS);
	DECLARE_HASHTABLE(chans, UNETMM_CHAN_BITS);
	struct rb_root probes;		/* questions of threads that PROBE */
	struct rb_root asks;		/* ... of those that collect listeners */
	struct rb_root imports;		/* ... of those that wait for an export */
	struct unetmm_asker askers[UNETMM_ASKERS];
	u32 asker_next;			/* whose place the next new one gets */
	struct delayed_work liveness;	/* looks for channels without a peer: */
	struct list_head hunts;		/* of these listeners */
	u32 hunt_left;			/* of all: buckets left to look at */
	bool hunt_link;			/* there was a link in this run */
	u32 hunt_bucket;		/* ... and which is next */
	struct delayed_work close_work;	/* channel/close.c: repeats CLOSEs */
	struct list_head closes[UNETMM_CLOSE_TRIES + 1]; /* by how many were sent */
	DECLARE_HASHTABLE(closing, UNETMM_CHAN_BITS);	/* the same, by our half */
	u32 nclosing;
	u32 closes_of[UNETMM_LIMIT_GROUPS];	/* peers with the same hash */
	u32 seed;			/* of the hashes of `chans` and of the limits */
	unsigned long *region_map;	/* numbers in use */
	u32 region_next;		/* where to look for a free one */
	struct ratelimit_state refusals;
	struct unetmm_rates probes_sent;	/* by IOC_PROBE, of a user */
	struct unetmm_rates probe_acks;	/* to a card */
	struct unetmm_rates close_acks;	/* to a card */
	struct unetmm_rates peers_sent;	/* by IOC_PEERS, of a user */
	struct unetmm_rates peer_answers;	/* to a card */
};

/* channel/rates.c */
u32 unetmm_mac_key(const struct unetmm_ctl *ctl, const u8 *mac, u32 more);
/* The key of the calling user. */
u32 unetmm_asker_key(const struct unetmm_ctl *ctl);
void unetmm_rates_init(struct unetmm_rates *rates, u32 burst);
bool unetmm_may_now(struct unetmm_rates *rates, u32 key);

/* channel/mailbox.c */
int unetmm_mailbox_init(struct unetmm_dev *dev);
void unetmm_mailbox_exit(struct unetmm_dev *dev);
bool unetmm_mailbox_send(struct unetmm_dev *dev, const u8 *mac,
			 const struct unetmm_control *msg);
bool unetmm_mailbox_send_named(struct unetmm_dev *dev, const u8 *mac,
			       const struct unetmm_control_named *msg);
void unetmm_mailbox_work(struct work_struct *work);

/* channel/question.c; ctl.lock is taken by these, but for the look-up, which needs it. */
/* With a key of its own: a random number, not 0, with no bits but those of `most`. */
void unetmm_question_add(struct unetmm_ctl *ctl, struct rb_root *questions,
			 struct unetmm_question *q, u64 most);
void unetmm_question_drop(struct unetmm_ctl *ctl, struct rb_root *questions,
			  struct unetmm_question *q);
struct unetmm_question *unetmm_question_find(struct rb_root *questions, u64 key);
void unetmm_questions_wake(struct unetmm_ctl *ctl);

/* channel/object.c */
u8 unetmm_features(const struct unetmm_dev *dev);
struct unetmm_chan *unetmm_chan_new(struct unetmm_ep *ep, const u8 *mac,
				    const struct unetmm_chan_params *params);
void unetmm_chan_end(struct unetmm_chan *chan, bool tell);
void unetmm_chan_hangup(struct unetmm_chan *chan);
u32 unetmm_chan_backlog(const struct unetmm_ep *ep, bool ended);
struct unetmm_ep *unetmm_chan_ep(struct unetmm_dev *dev, u16 id);
int unetmm_chan_open(struct unetmm_chan *chan, u16 peer_ep, u16 peer_channel, u32 mtu);
struct unetmm_chan *unetmm_chan_find(struct unetmm_ctl *ctl, const u8 *mac, u16 ep,
				     u16 channel);
struct unetmm_chan *unetmm_chan_of_peer(struct unetmm_dev *dev, const u8 *mac,
					const struct unetmm_control *msg);

/* channel/protocol.c */
void unetmm_ctl_init(struct unetmm_dev *dev);

/* channel/close.c */
bool unetmm_tell_close(struct unetmm_dev *dev, const struct unetmm_chan *chan);
bool unetmm_close_keep(struct unetmm_aspace *space, struct unetmm_chan *chan,
		       bool sent);
void unetmm_got_close_ack(struct unetmm_dev *dev, const u8 *mac,
			  const struct unetmm_control *msg);
void unetmm_close_start(struct unetmm_ctl *ctl);
void unetmm_close_init(struct unetmm_ctl *ctl);
void unetmm_close_exit(struct unetmm_dev *dev);

/* channel/liveness.c */
enum unetmm_want {
	UNETMM_WANT_PLACE,		/* in a backlog */
	UNETMM_WANT_NUMBER,		/* of the endpoint's channels */
	UNETMM_WANT_USER,		/* shared by the user's endpoints */
	UNETMM_WANT_CARD,		/* shared by all endpoints */
};

void unetmm_chan_confirm(struct unetmm_dev *dev, const u8 *mac, u64 nonce);
void unetmm_liveness_restart(struct unetmm_chan *chan);
void unetmm_liveness_hunt(struct unetmm_ep *ep, enum unetmm_want want);
void unetmm_liveness_forget(struct unetmm_ep *ep);
void unetmm_liveness_work(struct work_struct *work);

/* channel/peers.c */
bool unetmm_announce(struct unetmm_ep *ep, bool announce);
void unetmm_got_peers(struct unetmm_dev *dev, const u8 *mac,
		      const struct unetmm_control *msg);
void unetmm_got_peer(struct unetmm_dev *dev, const u8 *mac,
		     const struct unetmm_control_named *msg);
int unetmm_op_peers(struct unetmm_file *file, void *arg);

/* channel/connect.c */
u64 unetmm_nonce(void);
u64 unetmm_time_left(u64 deadline_ns, u32 attempt);
int unetmm_pause(u64 ns);
int unetmm_op_listen(struct unetmm_file *file, void *arg);
int unetmm_op_accept(struct unetmm_file *file, void *arg);
void unetmm_undo_accept(struct unetmm_file *file, const void *arg);
int unetmm_op_connect(struct unetmm_file *file, void *arg);
int unetmm_channel_destroy(struct unetmm_file *file, struct unetmm_ep *ep,
			   const struct unetmm_destroy *a);
int unetmm_op_probe(struct unetmm_file *file, void *arg);
void unetmm_chan_close_all(struct unetmm_ep *ep);

#endif /* UNETMM_CHANNEL_H */
