/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * libunetmm: messages between processes on different hosts, straight from and
 * into any part of their memory, without copying and without registering it.
 *
 * libunetmm(7) explains contexts, endpoints and channels.  The manual page of a
 * function has its flags, its errors and an example; this header names the page where
 * it is not called like the function.
 *
 * Conventions: a call returns 0 or a number that is not negative, or -errno, and leaves
 * errno alone.  Times are in nanoseconds; a timeout of 0 does not wait, a negative one
 * has no end.  When it has passed, a call that returns a number of things returns 0, and
 * every other call -ETIMEDOUT.  Any thread may make calls on a context; an endpoint
 * belongs to one thread at a time.  In a forked child every call on a handle of its
 * parent returns -EOWNERDEAD.  The caller sets the member `size` of a structure.
 */
#ifndef LIBUNETMM_H
#define LIBUNETMM_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

#include <linux/unetmm.h>
#include <unetmm_user.h>

#ifdef __cplusplus
extern "C" {
#endif

#define UNETMM_DEFAULT_DEVICE   "/dev/unetmm0"

struct unetmm_ctx;
struct unetmm_ep;

/* ---- Context ----------------------------------------------------------- */

/* For unetmm_open(): information, counters and probes, but no endpoints */
#define UNETMM_OBSERVE          0xffffffffu

/* Opens the card at `path` (NULL: UNETMM_DEFAULT_DEVICE); `source`: UNETMM_SOURCE_*. */
int unetmm_open(const char *path, unsigned source, struct unetmm_ctx **ctx);

/*
 * Closes the card.  The caller ensures that no other thread uses the context.  -EBUSY: endpoints or
 * event counters are left.
 */
int unetmm_close(struct unetmm_ctx *ctx);

/* Reads the card's identity, features and limits (linux/unetmm.h). */
int unetmm_info(struct unetmm_ctx *ctx, struct unetmm_info *info);

/*
 * Asks whether the driver of the card `mac` answers; `mtu` (or NULL): longest message, bytes.
 * unetmm_info(3)
 */
int unetmm_probe(struct unetmm_ctx *ctx, const uint8_t mac[6],
                 int64_t timeout_ns, uint32_t *mtu);

/* Collects the endpoints that listen with UNETMM_ANNOUNCE on all cards; returns how many. */
int unetmm_peers(struct unetmm_ctx *ctx, struct unetmm_peers *peers,
                 int64_t timeout_ns);

/* ---- Endpoint ---------------------------------------------------------- */

/* The default is about the cost of blocking, and a little above a short round trip. */
#define UNETMM_SPIN_DEFAULT_NS  400000u
#define UNETMM_SPIN_FOREVER     0xffffffffu

struct unetmm_ep_attr {
    uint32_t size;              /* sizeof(struct unetmm_ep_attr) */
    uint32_t send_slots;        /* a power of two, 8 or more; see below */
    uint32_t free_depth;        /* buffers that can be posted; a power of two */
    uint32_t completion_depth;  /* a power of two */
    uint32_t policy;            /* UNETMM_POLICY_* for absent receive pages */
    uint32_t pretranslate;      /* buffers translated ahead; 0: card's most */
    uint32_t inline_max;        /* messages up to this are copied, 0..224 */
    uint32_t spin_ns;           /* unetmm_wait() spins so long, then blocks */
    uint32_t flags;             /* UNETMM_EP_RAW, see libunetmm/frame.h; _NO_INLINE */
    uint32_t backup;            /* policy backup: packets that may wait; 0: usual */
};

#define UNETMM_EP_RAW           UNETMM_ENDPOINT_RAW
/* Every message takes a free buffer; none arrives inside its completion. */
#define UNETMM_EP_NO_INLINE     UNETMM_ENDPOINT_NO_INLINE

/* The default attributes; unetmm_ep_create(3) explains each member. */
#define UNETMM_EP_ATTR_INIT \
    { sizeof(struct unetmm_ep_attr), 256, 256, 1024, UNETMM_POLICY_SKIP, 0, \
      UNETMM_MAX_INLINE, UNETMM_SPIN_DEFAULT_NS, 0, 0 }

/* Creates an endpoint; `attr` NULL stands for UNETMM_EP_ATTR_INIT. */
int unetmm_ep_create(struct unetmm_ctx *ctx, const struct unetmm_ep_attr *attr,
                     struct unetmm_ep **ep);

/* Ends transfers and channels: the card then uses none of the buffers any more. */
int unetmm_ep_destroy(struct unetmm_ep *ep);

/* The endpoint's number on the card, as unetmm_stats_read() takes it. */
int unetmm_ep_id(const struct unetmm_ep *ep);

/* ---- Channels ---------------------------------------------------------- */

struct unetmm_peer {
    uint8_t mac[6];             /* its card */
    uint16_t channel;           /* our number for the channel */
    uint32_t endpoint;          /* its endpoint */
    uint32_t mtu;               /* longest message, bytes */
    uint32_t type;              /* UNETMM_DATAGRAM or UNETMM_RELIABLE */
};

/*
 * Lets others connect, by reliable channels, under the number `service`; 0 ends listening.
 * unetmm_connect(3) has the functions on channels.  Any thread may listen, accept, connect.
 */
int unetmm_listen(struct unetmm_ep *ep, uint64_t service, unsigned backlog);

/* Takes the next connection: the number of its channel. */
int unetmm_accept(struct unetmm_ep *ep, struct unetmm_peer *peer,
                  int64_t timeout_ns);

/* For poll(2), POLLPRI: a connection to an endpoint of the context waits to be accepted. */
int unetmm_ctx_fd(const struct unetmm_ctx *ctx);

/* Connects to the listener of `service` at the card `mac`: the number of the channel. */
int unetmm_connect(struct unetmm_ep *ep, const uint8_t mac[6],
                   uint64_t service, int64_t timeout_ns,
                   struct unetmm_peer *peer);

/* Types of channels */
#define UNETMM_DATAGRAM         UNETMM_LISTEN_DATAGRAM
#define UNETMM_RELIABLE         UNETMM_LISTEN_RELIABLE
/* Beside them: one completion of type UNETMM_CQE_CLOSED when the channel has ended */
#define UNETMM_NOTIFY_CLOSE      UNETMM_LISTEN_TELL
/* Only with RELIABLE: go-back-N when the page for data of a read is absent */
#define UNETMM_GO_BACK_N        UNETMM_LISTEN_REWIND
/* Only to listen: unetmm_peers() on any card of the wire finds the endpoint */
#define UNETMM_ANNOUNCE         UNETMM_LISTEN_ANNOUNCE

/* Attributes of a new channel.  All but the flags are for reliable ones; 0: usual. */
struct unetmm_channel_attr {
    uint32_t size;              /* sizeof(struct unetmm_channel_attr) */
    /*
     * To connect: UNETMM_DATAGRAM or UNETMM_RELIABLE; to listen: one or both, and UNETMM_ANNOUNCE.
     * In each case also UNETMM_NOTIFY_CLOSE and UNETMM_GO_BACK_N.
     */
    uint32_t flags;
    uint32_t timeout_us;        /* first wait for an answer (4000) */
    uint32_t retries;           /* such waits in a row before it fails (12) */
    uint32_t rnr_retries;       /* refusals in a row: the peer has no buffer */
    uint32_t rnr_us;            /* the peer is to wait when we have none (100) */
};

#define UNETMM_CHANNEL_ATTR_INIT \
    { sizeof(struct unetmm_channel_attr), UNETMM_RELIABLE, 0, 0, 0, 0 }
/* A channel for datagrams: each message is one frame, and may be lost. */
#define UNETMM_CHANNEL_ATTR_DATAGRAM \
    { sizeof(struct unetmm_channel_attr), UNETMM_DATAGRAM, 0, 0, 0, 0 }

/* The same with attributes; `attr` NULL stands for UNETMM_CHANNEL_ATTR_INIT. */
int unetmm_listen_ex(struct unetmm_ep *ep, uint64_t service, unsigned backlog,
                     const struct unetmm_channel_attr *attr);
int unetmm_connect_ex(struct unetmm_ep *ep, const uint8_t mac[6],
                      uint64_t service, int64_t timeout_ns,
                      const struct unetmm_channel_attr *attr,
                      struct unetmm_peer *peer);

struct unetmm_channel_info {
    uint32_t size;              /* sizeof(struct unetmm_channel_info) */
    uint32_t type;              /* UNETMM_DATAGRAM or UNETMM_RELIABLE */
    uint32_t longest;           /* message, bytes */
    uint32_t frame;             /* bytes of a message in one frame */
    uint8_t mac[6];             /* the peer's card, */
    uint16_t peer_channel;      /* its number for the channel, */
    uint32_t endpoint;          /* and its endpoint */
};

/* Reads a channel's attributes.  The caller sets info->size first. */
int unetmm_channel_info(struct unetmm_ep *ep, int channel,
                        struct unetmm_channel_info *info);

/*
 * Closes a reliable channel when the peer's card has everything.  -ETIMEDOUT, -EINTR,
 * -ENOMEM, -ENOBUFS: the channel is still open.
 */
int unetmm_shutdown(struct unetmm_ep *ep, int channel, int64_t timeout_ns);

/* Closes a channel at once: its queued messages fail. */
int unetmm_disconnect(struct unetmm_ep *ep, int channel);

/* ---- Memory (source pinned) -------------------------------------------- */

/* Pins the pages of [addr, addr + length); UNETMM_REGION_WRITE: messages may land there. */
int unetmm_register(struct unetmm_ctx *ctx, void *addr, size_t length,
                    unsigned flags);

/* Takes the addr and length of one unetmm_register(). */
int unetmm_deregister(struct unetmm_ctx *ctx, void *addr, size_t length);

/* ---- Memory (sources shadow and odp) ----------------------------------- */

/* Has the pages of [addr, addr + length) ready for the card: how many bytes, or -errno. */
ssize_t unetmm_prefetch(struct unetmm_ctx *ctx, const void *addr, size_t length,
                        unsigned flags);

/* ---- Memory (source utlb) ---------------------------------------------- */

/* unetmm_utlb_configure(3) has this source, its policies and its figures. */

#define UNETMM_UTLB_NONE        0xffffffffu

/* Returns 0 if the page is in use: offer another page.  Else the caller unpins the page. */
typedef int (*unetmm_utlb_take)(void *arg, uint32_t page);

/*
 * Which page goes first.  Pinned pages have numbers below the quota, each its
 * own; a number is used again when its page has been unpinned.  No two functions
 * are called at the same time for one context, and none of them may call the
 * library, or fail.
 */
struct unetmm_utlb_policy {
    uint32_t size;              /* sizeof(struct unetmm_utlb_policy) */
    const char *name;
    /* Allocates the policy's state for up to `quota` pages; NULL: no memory. */
    void *(*create)(uint32_t quota);
    void (*destroy)(void *state);
    /* From now on the page is pinned, or not any more. */
    void (*pinned)(void *state, uint32_t page);
    void (*unpinned)(void *state, uint32_t page);
    /*
     * The page was used again; may be NULL.  A page that is used
     * over and over may be told once; and while another thread is in one of
     * these functions, not at all.
     */
    void (*used)(void *state, uint32_t page);
    /*
     * Offers pages to take(arg, page), the first to go first, until one is
     * taken, and returns that; UNETMM_UTLB_NONE: none was.  It counts as pinned
     * until unpinned() says otherwise.
     */
    uint32_t (*choose)(void *state, unetmm_utlb_take take, void *arg);
};

/* "lru", "mru", "fifo", "random" or "lfu"; NULL: there is none of that name. */
const struct unetmm_utlb_policy *unetmm_utlb_policy(const char *name);

struct unetmm_utlb_config {
    uint32_t size;              /* sizeof(struct unetmm_utlb_config) */
    uint32_t quota_pages;       /* most pages pinned; 0: 8192 */
    uint32_t prepin;            /* pages pinned together, 1..512; 0: 16 */
    const struct unetmm_utlb_policy *policy;    /* NULL: lru */
};

/* Before the context has endpoints: -EBUSY. */
int unetmm_utlb_configure(struct unetmm_ctx *ctx,
                          const struct unetmm_utlb_config *config);

struct unetmm_utlb_stats {
    uint32_t size;              /* sizeof(struct unetmm_utlb_stats) */
    uint32_t quota_pages;
    uint32_t pinned_now;
    uint32_t rsvd;
    uint64_t pin_calls;         /* system calls */
    uint64_t unpin_calls;
    uint64_t pinned_pages;      /* since the context was opened */
    uint64_t evicted;           /* of these: unpinned for others */
    uint64_t lost;              /* ...: unpinned because memory changed */
    uint64_t repeated;          /* descriptors that had to be posted again */
};

/* The caller sets stats->size first.  -EINVAL: another source. */
int unetmm_utlb_stats(struct unetmm_ctx *ctx, struct unetmm_utlb_stats *stats);

/* ---- Statistics -------------------------------------------------------- */

/* Reads at most `count` counters of UNETMM_SCOPE_*; returns how many the scope has. */
int unetmm_stats_read(struct unetmm_ctx *ctx, unsigned scope, unsigned endpoint,
                      uint64_t *values, unsigned count);

/*
 * The name of counter n of a scope, or NULL; `help` (or NULL) gets a phrase.
 * unetmm_stats_read(3)
 */
const char *unetmm_stats_name(unsigned scope, unsigned n, const char **help);

/* ---- Words for people -------------------------------------------------- */

/* The call that returned an error, for unetmm_strerror(). */
enum unetmm_call {
    UNETMM_CALL_ANY,
    UNETMM_CALL_OPEN,
    UNETMM_CALL_EP_CREATE,
    UNETMM_CALL_LISTEN,
    UNETMM_CALL_ACCEPT,
    UNETMM_CALL_CONNECT,
    UNETMM_CALL_PROBE,
    UNETMM_CALL_REGISTER,
    UNETMM_CALL_SEND,
    UNETMM_CALL_POST,
    UNETMM_CALL_POLL,
    UNETMM_CALL_STATS,
    UNETMM_CALL_HANDLERS,       /* dispatch, and unetmm_handlers_*() */
    UNETMM_CALL_EXPORT,
    UNETMM_CALL_IMPORT,
    UNETMM_CALL_ONE_SIDED,      /* write, read, atomics */
    UNETMM_CALL_REDIRECT,
    UNETMM_CALL_EVENT,          /* event counters: unetmm_event_*() */
    UNETMM_CALL_SYNC,           /* unetmm_sem_*(), _waitq_*(), _sync_*() */
    UNETMM_CALL_PREFETCH,
    UNETMM_CALL_FLOW,
    UNETMM_CALL_PEERS,
};

/* The cause and the remedy of an error of `call` in one sentence, which nobody frees */
const char *unetmm_strerror(int error, enum unetmm_call call);

/* A sentence for the `status` of a completion. */
const char *unetmm_status_str(unsigned status);

/* The `status` of a completion as -errno, 0 for UNETMM_ST_OK; unetmm_strerror(3) */
int unetmm_status_errno(unsigned status);

/* "52:54:00:12:34:56" to bytes; -EINVAL: no address of a single station */
int unetmm_parse_mac(const char *text, uint8_t mac[6]);

/* The same, or the name of a host in ethers(5): -ENOENT; unetmm_parse_mac(3) */
int unetmm_resolve(const char *name, uint8_t mac[6]);

#define UNETMM_MAC_CHARS        18

/* The reverse; returns `text`. */
char *unetmm_format_mac(const uint8_t mac[6], char text[UNETMM_MAC_CHARS]);

/* ---- Fast path: the doorbell ------------------------------------------- */

/* The longest message of a channel; -ENOENT if it is not open. */
int64_t unetmm_channel_mtu(const struct unetmm_ep *ep,
                           int channel);

/* Rings the doorbell, after calls with UNETMM_MORE. */
int unetmm_ring(struct unetmm_ep *ep);

/* ---- Fast path: sending ------------------------------------------------ */

/* Flags of unetmm_send(), unetmm_sendv() and unetmm_post_recv() */
#define UNETMM_MORE             0x01u   /* more follows: do not ring yet */
/* Flags of unetmm_send() and unetmm_sendv() */
#define UNETMM_UNSIGNALED       0x02u   /* a completion only if it fails */
#define UNETMM_INLINE           0x04u   /* copy it now; 224 bytes at most */
#define UNETMM_SEND_FLAGS       0x07u
/* Flag of unetmm_post_recv(): the page's present content need not be kept */
#define UNETMM_ZERO             0x08u

/*
 * Sends one message gathered from `n` pieces, which stay as they are until the completion
 * (UNETMM_CQE_SENT, `user_data`).  -EAGAIN: the queue is full, take completions.
 * unetmm_send(3)
 */
int unetmm_sendv(struct unetmm_ep *ep, int channel,
                 const struct iovec *iov, unsigned n,
                 uint64_t user_data, unsigned flags);

/* Sends one message from one piece of memory. */
int unetmm_send(struct unetmm_ep *ep, int channel,
                const void *buf, size_t len, uint64_t user_data,
                unsigned flags);

/* The same on a reliable channel, with 32 bits beside the message. */
int unetmm_sendv_imm(struct unetmm_ep *ep, int channel,
                     const struct iovec *iov, unsigned n, uint32_t imm,
                     uint64_t user_data, unsigned flags);
int unetmm_send_imm(struct unetmm_ep *ep, int channel,
                    const void *buf, size_t len, uint32_t imm,
                    uint64_t user_data, unsigned flags);

/*
 * Slots of the send queue in use; 0: the card has taken all messages.  On a reliable channel
 * the peer's card may not have them: a completion says that, or unetmm_shutdown().
 */
int unetmm_send_pending(struct unetmm_ep *ep);

/* ---- Fast path: free buffers ------------------------------------------- */

/*
 * Posts a free buffer, the card's until a completion with `user_data` gives it back.
 * -EAGAIN: the queue is full.
 */
int unetmm_post_recv(struct unetmm_ep *ep, void *buf, size_t len,
                     uint64_t user_data, unsigned flags);

/* The same with a buffer of `n` pieces, 1..UNETMM_MAX_SEGS; unetmm_post_recv(3) */
int unetmm_post_recvv(struct unetmm_ep *ep, const struct iovec *iov, unsigned n,
                      uint64_t user_data, unsigned flags);

/* ---- Fast path: completions -------------------------------------------- */

struct unetmm_completion {
    uint64_t user_data;         /* of the send, buffer or export; else 0 */
    uint32_t len;               /* message bytes */
    uint16_t channel;           /* our number for the channel */
    uint8_t type;               /* UNETMM_CQE_* */
    uint8_t status;             /* UNETMM_ST_*; 0 is good */
    uint32_t is_inline;         /* RECEIVED: the message is in data[] */
    uint8_t data[UNETMM_CQE_INLINE];
    uint32_t imm;               /* with UNETMM_CQE_F_IMM in flags */
    uint32_t flags;             /* UNETMM_CQE_F_IMM; _CSUM_OK, of frames; others */
};

/*
 * Takes up to `n` completions, oldest first, and returns how many.  -EIO: the endpoint was
 * stopped and all its completions are taken.
 */
int unetmm_poll(struct unetmm_ep *ep,
                struct unetmm_completion *c, unsigned n);

/*
 * For providers and runtimes: reads the next completion and leaves it, 1, or 0; then takes
 * it; and asks whether the card waits for unetmm_poll(ep, NULL, 0).  unetmm_peek(3)
 */
int unetmm_peek(const struct unetmm_ep *ep, struct unetmm_completion *c);
void unetmm_take(struct unetmm_ep *ep);
int unetmm_card_waits(const struct unetmm_ep *ep);

/* ---- Waiting ----------------------------------------------------------- */

/* Like unetmm_poll(), but spins for spin_ns and then blocks if there is nothing. */
int unetmm_wait(struct unetmm_ep *ep, struct unetmm_completion *c, unsigned n,
                int64_t timeout_ns);

/* For poll(2): readable when a completion comes after unetmm_arm(). */
int unetmm_fd(const struct unetmm_ep *ep);

/* Asks for one wake-up.  0: armed.  1: there is something to take or to dispatch. */
int unetmm_arm(struct unetmm_ep *ep);

/* ---- Handlers ---------------------------------------------------------- */

/* `c` is valid until the handler returns.  unetmm_dispatch(3) has the rules of handlers. */
typedef void (*unetmm_handler)(struct unetmm_ep *ep,
                               const struct unetmm_completion *c, void *arg);

#define UNETMM_EVERY_CHANNEL    (-1)

/*
 * Sets the handler of a channel, or of all (UNETMM_EVERY_CHANNEL); NULL: none.
 * unetmm_dispatch(3)
 */
int unetmm_set_handler(struct unetmm_ep *ep, int channel,
                       unetmm_handler handler, void *arg);

/* Calls handlers for `most` completions at most, and waits as unetmm_wait(): how many. */
int unetmm_dispatch(struct unetmm_ep *ep, unsigned most, int64_t timeout_ns);

/* From now on no handler of the endpoint runs; nests.  unetmm_handlers_block(3) */
int unetmm_handlers_block(struct unetmm_ep *ep);

/* Takes one of these back.  1: handlers run again.  unetmm_handlers_block(3) */
int unetmm_handlers_unblock(struct unetmm_ep *ep);

/* The thread has ended because of an error: -EIO, the card stopped the endpoint. */
typedef void (*unetmm_end)(struct unetmm_ep *ep, int error, void *arg);

/*
 * Has a thread of the library call the handlers.  The endpoint is another thread's between
 * unetmm_handlers_block() and _unblock().  `end` (or NULL): an error has ended the thread.
 */
int unetmm_handlers_start(struct unetmm_ep *ep, unetmm_end end, void *arg);

/* Ends the thread: 0, or why it had ended before.  unetmm_handlers_start(3) */
int unetmm_handlers_stop(struct unetmm_ep *ep);

#ifdef __cplusplus
}
#endif

#include <libunetmm/vmmc.h>
#include <libunetmm/key.h>
#include <libunetmm/window.h>
#include <libunetmm/counter.h>
#include <libunetmm/sync.h>
#include <libunetmm/frame.h>

#endif /* LIBUNETMM_H */
