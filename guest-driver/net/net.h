/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm: Linux's netdev on the card.
 *
 * The netdev has a raw endpoint of space 0 while it is up, and flows that say
 * which frames are its own.  Descriptors have DMA addresses.
 *
 * LIFETIMES
 *
 *   unetmm_net    from unetmm_net_init() to unetmm_net_exit(), which are parts
 *                 of probe and remove; it lies in its net_device.
 *   its endpoint, rings and flows, from unetmm_net_up() to unetmm_net_down():
 *                 `up` says that they are there.  The interface may be running
 *                 without: the card is being reset, or there was no memory for
 *                 other rings, which the work then tries again to have.  The
 *                 queue stays stopped.
 *
 * LOCKS
 *
 *   rtnl          up and down, `up`, flows, sizes.  The work takes it for calls
 *                 that sleep, so nobody waits for the work under it.
 *   the queue's lock (__netif_tx_lock)
 *                 all of unetmm_net_tx.  Taken in xmit, by the stack, and by
 *                 NAPI to free sent frames.
 *   NAPI          all of unetmm_net_rx, cq_cons.
 *   stats_lock    `up` against readers of the card's counters; outside reg_lock.
 *   test.lock     the frame that the self-test waits for; innermost.
 *
 * unetmm_net_down() first disables NAPI, which would wake the queue, then the
 * queue (under its lock), and waits for a grace period, since a poll looks at the endpoint once more behind
 * napi_complete_done(); after that nobody uses the rings but itself.
 */
#ifndef UNETMM_NET_H
#define UNETMM_NET_H

#include <linux/bitfield.h>
#include <linux/completion.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <linux/skbuff.h>
#include <linux/timer.h>

#include "net/stats.h"
#include "ep/ep.h"

struct ethtool_test;

#define UNETMM_NET_MIN_LOG2	6
#define UNETMM_NET_MAX_LOG2	13
#define UNETMM_NET_TX_LOG2	10	/* slots */
#define UNETMM_NET_RX_LOG2	12	/* buffers: a window of TCP's */
#define UNETMM_NET_MAX_MTU	9000
/* Of a frame beside the MTU: its header and two VLAN tags. */
#define UNETMM_NET_HEADER	(UNETMM_ETH_MAX - UNETMM_NET_MAX_MTU)

/* Addresses that have flows of their own, beside the first one. */
#define UNETMM_NET_MACS		64
/* Those of before and after a change, the netdev's own, all multicast, all. */
#define UNETMM_NET_FLOWS	(2 * UNETMM_NET_MACS + 4)

struct unetmm_net_flow {
	u32 number;
	u8 kind;
	u8 flags;
	u8 mac[ETH_ALEN];
	bool wanted;
};

/* The driver's own figures; `ethtool -S` has them behind the card's. */
#define UNETMM_NET_COUNTERS(X) \
	X(polls) \
	X(interrupts) \
	X(timer) \
	X(tx_stopped) \
	X(tx_asked) \
	X(tx_failed) \
	X(tx_linearized) \
	X(tx_no_memory) \
	X(tx_timeouts) \
	X(rx_copied) \
	X(rx_no_memory) \
	X(rx_returned) \
	X(rx_bad) \
	X(flows_failed) \
	X(resets)

#define UNETMM_NET_COUNTER_ENUM(name) UNETMM_N_##name,
enum unetmm_net_counter {
	UNETMM_NET_COUNTERS(UNETMM_NET_COUNTER_ENUM)
	UNETMM_NUM_NET_COUNTERS
};

/* The frame of a descriptor; kept at the place of its first slot. */
struct unetmm_net_sent {
	struct sk_buff *skb;
	u32 nsegs;
};

/* One of its segments, kept at the same place as in the queue. */
struct unetmm_net_seg {
	dma_addr_t dma;
	u32 len;
};

struct unetmm_net_tx {
	struct unetmm_net_sent *sent;
	struct unetmm_net_seg *segs;	/* UNETMM_SLOT_SEGS of each slot */
	u32 prod;
	u32 cons;		/* frames before it are freed */
	u32 rung;		/* prod of the last doorbell */
	u32 asked;		/* prod behind the last one that is not quiet */
	struct unetmm_net_stats stats;
};

struct unetmm_net_buf {
	void *mem;		/* NULL: the card has none here */
	dma_addr_t dma;
};

struct unetmm_net_rx {
	struct unetmm_net_buf *bufs;	/* by slot of the free queue */
	u32 prod;
	u32 held;		/* by the card */
	u32 len;		/* of a buffer, as posted */
	u32 bytes;		/* of its memory */
	struct page *chunk;	/* that buffers are cut from, or NULL */
	u32 cut;		/* bytes of it */
	struct page **idle;	/* cut up; one reference of each is ours */
	u32 idle_first;
	u32 nidle;
	struct unetmm_net_stats stats;
};

/* A frame to itself; see net/test.c. */
struct unetmm_net_loop {
	spinlock_t lock;
	bool waits;
	u32 nonce;
	struct completion came;
};

/* Tasks of the work, as bits. */
#define UNETMM_NET_LINK		0
#define UNETMM_NET_RESET	1
#define UNETMM_NET_FILTER	2

struct unetmm_net {
	struct unetmm_dev *dev;
	struct net_device *netdev;
	struct napi_struct napi;
	bool up;
	struct unetmm_ep *ep;
	void __iomem *doorbell;
	u32 cq_cons;
	struct unetmm_net_tx tx;
	struct unetmm_net_rx rx;
	u32 tx_log2;
	u32 rx_log2;
	struct timer_list timer;
	struct delayed_work work;
	unsigned long todo;
	struct unetmm_net_flow flows[UNETMM_NET_FLOWS];
	u32 nflows;
	spinlock_t stats_lock;
	u64 missed;		/* by endpoints before this one */
	u64 most_missed;	/* a card that has gone says 0 */
	struct unetmm_net_loop test;
	atomic64_t counters[UNETMM_NUM_NET_COUNTERS];
};

#define unetmm_net_count(net, name) \
	atomic64_inc(&(net)->counters[UNETMM_N_##name])

/* Has the work do it, UNETMM_NET_*.  From anywhere. */
static inline void unetmm_net_ask(struct unetmm_net *net, u32 what)
{
	if (!test_and_set_bit(what, &net->todo))
		mod_delayed_work(unetmm_wq, &net->work, 0);
}

/* net/life.c */
int unetmm_net_up(struct unetmm_net *net);
void unetmm_net_down(struct unetmm_net *net);
/* Down and up again. */
int unetmm_net_restart(struct unetmm_net *net);
void unetmm_net_retry(struct unetmm_net *net);
int unetmm_net_resize(struct unetmm_net *net, u32 tx_log2, u32 rx_log2);
void unetmm_net_link(struct unetmm_net *net);
u64 unetmm_net_card_counter(struct unetmm_net *net, u32 n);
u64 unetmm_net_missed(struct unetmm_net *net);

/* net/tx.c */
int unetmm_net_tx_alloc(struct unetmm_net *net);
void unetmm_net_tx_free(struct unetmm_net *net);
void unetmm_net_tx_poll(struct unetmm_net *net, int budget);
netdev_tx_t unetmm_net_xmit(struct sk_buff *skb, struct net_device *netdev);
netdev_features_t unetmm_net_features(struct sk_buff *skb,
				      struct net_device *netdev,
				      netdev_features_t features);

/* net/rx.c */
int unetmm_net_rx_alloc(struct unetmm_net *net);
void unetmm_net_rx_free(struct unetmm_net *net);
u32 unetmm_net_rx_len(u32 mtu);
int unetmm_net_poll(struct napi_struct *napi, int budget);

/* net/filter.c */
int unetmm_net_filter(struct unetmm_net *net);
void unetmm_net_filter_clear(struct unetmm_net *net);

/* net/ethtool.c */
extern const struct ethtool_ops unetmm_net_ethtool_ops;

/* net/test.c */
int unetmm_net_test_count(void);
void unetmm_net_test_names(u8 *names);
void unetmm_net_test(struct net_device *netdev, struct ethtool_test *test,
		     u64 *results);

/* net/test_frame.c */
struct sk_buff *unetmm_net_test_frame(struct unetmm_net *net, u32 nonce);
/* The frame is one of the self-test's. */
bool unetmm_net_test_took(struct unetmm_net *net, const void *frame, u32 len);

/* net/net.c */
int unetmm_net_init(struct unetmm_dev *dev);
void unetmm_net_exit(struct unetmm_dev *dev);
/* The card is about to be stopped, and has been started again. */
void unetmm_net_suspend(struct unetmm_dev *dev);
void unetmm_net_resume(struct unetmm_dev *dev);
/* The link may have changed, or the card have failed.  From anywhere. */
void unetmm_net_event(struct unetmm_dev *dev);
void unetmm_net_interrupt(struct unetmm_dev *dev);

#endif /* UNETMM_NET_H */
