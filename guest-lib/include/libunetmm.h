/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * libunetmm: messages between processes on different hosts, straight from and
 * into any part of their memory, without copying and without registering it.
 *
 * The objects, from the outside in:
 *
 *   context   an open card and this process's address space on it
 *   endpoint  a send queue, a free queue and a completion queue, mapped into
 *             the process; everything below happens on an endpoint
 *   channel   a small number that stands for "that endpoint of that card";
 *             connect() or accept() makes one
 *
 * A program posts free buffers, sends messages, and takes completions.  A message
 * of up to 4 MiB arrives once and in order; a send completes when the peer's card
 * has all of it, and if the channel fails, its completion says why.  Received data
 * is in the buffer that the completion names or, if it is short, in the completion
 * itself.
 *
 * On a channel for datagrams (UNETMM_CHANNEL_ATTR_DATAGRAM) a message is of at most
 * one frame (the channel's MTU), and arrives whole, once, or not at all.
 *
 * Conventions:
 *
 * - A call returns 0 or a number that is not negative, or -errno.  It neither
 *   reads nor changes errno.
 * - The calls on a context may be made by any thread at any time, except that
 *   unetmm_close() must be the last one.
 * - An endpoint belongs to one thread at a time: two threads must not be in
 *   calls on one endpoint together.  Different endpoints are independent.
 *   Exceptions are unetmm_listen(), _accept() and _connect(), which do not use
 *   the queues, and the calls that unetmm_handlers_start() lists.
 * - In a forked child every call on a handle of its parent returns
 *   -EOWNERDEAD.  A child that wants to send opens the card itself.
 * - Times are in nanoseconds.  A timeout of 0 does not wait, a negative one has no
 *   end.  When it has passed, a call that returns a number of things returns 0, and
 *   every other call -ETIMEDOUT.
 * - A structure with a member `size` may be of an older or a newer library.  The
 *   caller sets it.  Members that an older structure lacks have their defaults, or
 *   are not returned.  Of a newer one, the members that this library does not know
 *   must be 0 (-E2BIG), and are returned as 0.
 *
 * unetmm_send(), unetmm_sendv(), unetmm_post_recv(), unetmm_ring() and unetmm_poll()
 * make no system call, with two exceptions.  With source ktlb, the system call
 * UNETMM_IOC_POST takes the place of the doorbell.  With source utlb, a page that
 * is not pinned yet is pinned.
 *
 * Every function is a symbol of the library.  A program that includes
 * <libunetmm/inline.h> has the same functions inline, and then depends on the
 * layout of struct unetmm_ep, which is otherwise opaque.
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

/*
 * For unetmm_open(): no address space.  Such a context can be asked for
 * information, counters and probes; it cannot have endpoints.
 */
#define UNETMM_OBSERVE          0xffffffffu

/*
 * Opens the card at `path` (NULL: UNETMM_DEFAULT_DEVICE).  `source` says where
 * the card gets its translations from: UNETMM_SOURCE_TLB (any memory, at any
 * time), UNETMM_SOURCE_KTLB (the same, but posted by system call and translated
 * by the driver), UNETMM_SOURCE_PINNED (registered memory only),
 * UNETMM_SOURCE_UTLB (memory that the library pins before the card uses it, see
 * unetmm_utlb_configure()), UNETMM_SOURCE_SHADOW (any memory, at any time, and
 * nothing is pinned: the card locks a page while it moves its data),
 * UNETMM_SOURCE_ODP (any memory, at any time, and nothing is pinned: the driver
 * faults in absent pages when the card asks for them) or UNETMM_OBSERVE.
 */
int unetmm_open(const char *path, unsigned source, struct unetmm_ctx **ctx);

/*
 * Closes the card.  -EBUSY: the context still has endpoints or event counters.  In a
 * forked child it releases the inherited resources and returns -EOWNERDEAD.
 */
int unetmm_close(struct unetmm_ctx *ctx);

/*
 * Reads the card's identity, features and limits: struct unetmm_info of
 * linux/unetmm.h.  The caller sets info->size to sizeof(*info) first.
 */
int unetmm_info(struct unetmm_ctx *ctx, struct unetmm_info *info);

/*
 * Asks whether the driver of the card `mac` answers.  If so, `mtu` (may be
 * NULL) is the largest message that both cards can carry.
 * -EHOSTUNREACH: no answer in time.  -EAGAIN: nor was the question sent, since the
 * user has sent too many.  -ENETDOWN: no link.
 */
int unetmm_probe(struct unetmm_ctx *ctx, const uint8_t mac[6],
                 int64_t timeout_ns, uint32_t *mtu);

/*
 * Asks the cards on the wire, and our own, which endpoints listen and may be announced
 * (UNETMM_ANNOUNCE), and collects answers until the timeout, or until the array is
 * full.  The caller sets in struct unetmm_peers of linux/unetmm.h: `size`, the array
 * `listeners` and its length in `count`; and, unless 0 is meant, `mac` (one card) and
 * `service`.  Returns how many were found.  Any station may answer anything: `mac` is
 * as true as the network is, `name` is printable.  -EAGAIN: the user has asked too
 * often in this second.
 */
int unetmm_peers(struct unetmm_ctx *ctx, struct unetmm_peers *peers,
                 int64_t timeout_ns);

/* ---- Endpoint ---------------------------------------------------------- */

/*
 * The default is about the cost of blocking, and a little above the round trip
 * of a short message between two idle guests.  A spin just shorter than that
 * round trip would cost the spin and the blocking.
 */
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

/*
 * A message takes one slot of the send queue if it is at most 32 bytes inline
 * or at most two segments long, and one more for each further 64 bytes or four
 * segments: at most UNETMM_MAX_SLOTS.
 *
 * A short message is copied into the queue, which saves the card a translation
 * and a DMA, and the caller a wait: its buffer may be reused at once.
 */
#define UNETMM_EP_ATTR_INIT \
    { sizeof(struct unetmm_ep_attr), 256, 256, 1024, UNETMM_POLICY_SKIP, 0, \
      UNETMM_MAX_INLINE, UNETMM_SPIN_DEFAULT_NS, 0, 0 }

/*
 * Creates an endpoint; `attr` NULL stands for UNETMM_EP_ATTR_INIT.
 */
int unetmm_ep_create(struct unetmm_ctx *ctx, const struct unetmm_ep_attr *attr,
                     struct unetmm_ep **ep);

/*
 * Ends the endpoint's transfers and channels and frees it.  When it returns,
 * the card uses none of the buffers any more.
 */
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
 * Lets others connect to this endpoint, by reliable channels, under the number
 * `service` (not 0; 0 ends listening).  -EADDRINUSE: another endpoint of the card has it.
 */
int unetmm_listen(struct unetmm_ep *ep, uint64_t service, unsigned backlog);

/*
 * Takes the next connection.  Returns the channel's number; `peer` (may be NULL)
 * gets the peer's address.  -ETIMEDOUT: no connection came.
 */
int unetmm_accept(struct unetmm_ep *ep, struct unetmm_peer *peer,
                  int64_t timeout_ns);

/*
 * The context's descriptor, to be polled for POLLPRI: a connection to any of its
 * endpoints waits to be accepted.
 */
int unetmm_ctx_fd(const struct unetmm_ctx *ctx);

/*
 * Connects, by a reliable channel, to the endpoint that listens on `service` at the
 * card `mac`, asking again until the timeout.  Returns the channel's number.
 * -ETIMEDOUT: the card's driver answered, but nobody listened.  -ECONNRESET: the peer
 * accepted and disconnected at once.  -EHOSTUNREACH: no answer at all.
 */
int unetmm_connect(struct unetmm_ep *ep, const uint8_t mac[6],
                   uint64_t service, int64_t timeout_ns,
                   struct unetmm_peer *peer);

/* Types of channels */
#define UNETMM_DATAGRAM         UNETMM_LISTEN_DATAGRAM
#define UNETMM_RELIABLE         UNETMM_LISTEN_RELIABLE
/*
 * Beside them: a completion of type UNETMM_CQE_CLOSED, with the channel's number,
 * when it ends by the peer (status UNETMM_ST_BAD_CHANNEL) or has failed (another),
 * behind all that it has received.  It comes once and is not lost, and not for
 * unetmm_disconnect(), after which one may still be in the queue.
 */
#define UNETMM_NOTIFY_CLOSE      UNETMM_LISTEN_TELL
/*
 * Only with RELIABLE.  When the page for a read's data is absent, the card drops that
 * data and all data behind it, and requests both again (go-back-N).  Without this
 * flag it drops and requests again only the data whose own page is absent.
 */
#define UNETMM_GO_BACK_N        UNETMM_LISTEN_REWIND
/*
 * Only to listen: unetmm_peers() on any card of the wire finds the endpoint, and gets
 * the service and the name of the calling thread.  Without it nobody finds it.
 */
#define UNETMM_ANNOUNCE         UNETMM_LISTEN_ANNOUNCE

/* Attributes of a new channel.  All but the flags are for reliable ones; 0: usual. */
struct unetmm_channel_attr {
    uint32_t size;              /* sizeof(struct unetmm_channel_attr) */
    uint32_t flags;             /* to connect: one; to listen: any of them;
                                 * and UNETMM_NOTIFY_CLOSE, _GO_BACK_N, and to
                                 * listen UNETMM_ANNOUNCE */
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

/*
 * As unetmm_listen() and unetmm_connect(), with attributes; `attr` NULL stands for
 * UNETMM_CHANNEL_ATTR_INIT, as there.  -EPROTOTYPE: the listener accepts no channels
 * of this type.  -EOPNOTSUPP: the card has no reliable channels, or source ktlb.
 */
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
 * Waits until the peer's card has all that was sent, written and stored on a reliable
 * channel, then closes it.  A peer that asked for UNETMM_NOTIFY_CLOSE takes the
 * completion of type UNETMM_CQE_CLOSED with status UNETMM_ST_BAD_CHANNEL when it has
 * taken all of that: the other side has finished.  Completions that come meanwhile
 * are kept.  -ETIMEDOUT, -EINTR, -ENOMEM: the channel is still open.  Other errors,
 * those of unetmm_status_errno() among them: it is closed, and the peer may not have
 * all.  -ENOENT: no such channel.  -EPROTOTYPE: it is one for datagrams.
 */
int unetmm_shutdown(struct unetmm_ep *ep, int channel, int64_t timeout_ns);

/*
 * Closes a channel.  Messages still queued on it complete with an error, also
 * those of a reliable channel that the peer has not acknowledged.
 */
int unetmm_disconnect(struct unetmm_ep *ep, int channel);

/* ---- Memory (source pinned) -------------------------------------------- */

/*
 * Pins whole pages around [addr, addr + length) and gives the card their
 * translations; with UNETMM_REGION_WRITE in `flags`, messages may land there.
 * Not needed, and refused with -EOPNOTSUPP, where the source is tlb.
 */
int unetmm_register(struct unetmm_ctx *ctx, void *addr, size_t length,
                    unsigned flags);

/* Takes the addr and length of one unetmm_register(). */
int unetmm_deregister(struct unetmm_ctx *ctx, void *addr, size_t length);

/* ---- Memory (sources shadow and odp) ----------------------------------- */

/*
 * Has the pages around [addr, addr + length) ready before the card asks for them:
 * faults them in and tells the card's table, without pinning anything.  Returns
 * how many bytes, from addr on, it has gone through: fewer than length if the next
 * page cannot be had, and perhaps after a signal; -errno if not even the first can.
 * -EFAULT: it is not mapped, or not so.  -EOPNOTSUPP: another source, or memory
 * that Linux does not lend.  `flags`: UNETMM_PREFETCH_WRITE for receive buffers;
 * UNETMM_PREFETCH_NO_FAULT skips each page that would need a page fault.
 */
ssize_t unetmm_prefetch(struct unetmm_ctx *ctx, const void *addr, size_t length,
                        unsigned flags);

/* ---- Memory (source utlb) ---------------------------------------------- */

/*
 * With UNETMM_SOURCE_UTLB the library has pages pinned before it names them to
 * the card, keeps them pinned for the next time, and unpins others when there
 * are too many.  The calls for messages are the same as with the other sources,
 * and make no system call while they name pages that are pinned.  Pages that
 * messages on their way and posted buffers use stay pinned.
 */

#define UNETMM_UTLB_NONE        0xffffffffu

/* Not 0: the page is the caller's to unpin.  0: it is in use; another one. */
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
     * It was used, not for the first time; may be NULL.  A page that is used
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

/*
 * How a context of source utlb, which has no endpoint yet, pins and unpins.  The
 * driver's quota (utlb_quota_pages) bounds ours.  -EBUSY: it has endpoints.
 * -EINVAL: another source, or a value.  -EDQUOT: the driver's quota is 0.
 */
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

/*
 * Reads counters: `scope` is UNETMM_SCOPE_CARD, _ENDPOINT or _DRIVER.  At most
 * `count` values are stored.  Returns how many counters the scope has.
 */
int unetmm_stats_read(struct unetmm_ctx *ctx, unsigned scope, unsigned endpoint,
                      uint64_t *values, unsigned count);

/*
 * The name of counter n of a scope, or NULL if there is none; a counter of the
 * card that is not kept per endpoint has no name in UNETMM_SCOPE_ENDPOINT.
 * `help` (may be NULL) gets a phrase that describes the counted event.
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
    UNETMM_CALL_EVENT,        /* event counters: unetmm_event_*() */
    UNETMM_CALL_SYNC,           /* unetmm_sem_*(), _waitq_*(), _sync_*() */
    UNETMM_CALL_PREFETCH,
    UNETMM_CALL_FLOW,
    UNETMM_CALL_PEERS,
};

/*
 * One sentence with the cause and the remedy of an error (negative or positive
 * errno) that `call` returned.  Never NULL, never freed.
 */
const char *unetmm_strerror(int error, enum unetmm_call call);

/* A sentence for the `status` of a completion. */
const char *unetmm_status_str(unsigned status);

/*
 * The `status` of a completion as -errno, 0 for UNETMM_ST_OK: the result of a call
 * that waits for the completion itself.  Several can have the same one.  -EIO: also a
 * status that this library does not know.
 */
int unetmm_status_errno(unsigned status);

/*
 * "52:54:00:12:34:56" to bytes.  -EINVAL if it is not six hexadecimal bytes
 * with colons or dashes, or names no single station.
 */
int unetmm_parse_mac(const char *text, uint8_t mac[6]);

/*
 * The address of a card by name: a text that unetmm_parse_mac() accepts, or the
 * name of a host in ethers(5).  -ENOENT: there is no such name.  -EINVAL: the host's
 * address in ethers(5) names no single station.
 */
int unetmm_resolve(const char *name, uint8_t mac[6]);

#define UNETMM_MAC_CHARS        18

/* The reverse; returns `text`. */
char *unetmm_format_mac(const uint8_t mac[6], char text[UNETMM_MAC_CHARS]);

/* ---- Fast path: the doorbell ------------------------------------------- */

/* The longest message of a channel; -ENOENT if it is not open. */
int64_t unetmm_channel_mtu(const struct unetmm_ep *ep,
                           int channel);

/*
 * Tells the card to look at the queues.  Needed only after calls that were
 * given UNETMM_MORE.
 */
int unetmm_ring(struct unetmm_ep *ep);

/* ---- Fast path: sending ------------------------------------------------ */

/* Flags of unetmm_send(), unetmm_sendv() and unetmm_post_recv() */
#define UNETMM_MORE             0x01u   /* more follows: do not ring yet */
/* Flags of unetmm_send() and unetmm_sendv() */
#define UNETMM_UNSIGNALED            0x02u   /* a completion only if it fails */
#define UNETMM_INLINE           0x04u   /* copy it now; 224 bytes at most */
#define UNETMM_SEND_FLAGS       0x07u
/* Flag of unetmm_post_recv(): the page's present content need not be kept */
#define UNETMM_ZERO             0x08u

/*
 * Sends one message gathered from `n` pieces of memory, 0..UNETMM_MAX_SEGS.
 * The pieces must stay as they are until the completion (type
 * UNETMM_CQE_SENT, with `user_data`) says that the message was sent, unless the
 * message is not longer than the endpoint's inline_max or UNETMM_INLINE is set.
 *
 * -EAGAIN: the queue is full; take completions and try again.
 * -EMSGSIZE: longer than the channel's MTU.  -ENOENT: no such channel.
 * -EINVAL: too many pieces, unknown flag.  -EIO: the endpoint was stopped.
 */
int unetmm_sendv(struct unetmm_ep *ep, int channel,
                 const struct iovec *iov, unsigned n,
                 uint64_t user_data, unsigned flags);

/* Sends one message from one piece of memory. */
int unetmm_send(struct unetmm_ep *ep, int channel,
                const void *buf, size_t len, uint64_t user_data,
                unsigned flags);

/*
 * The same on a reliable channel, with 32 bits beside the message, which may be of no
 * bytes.  The receiver's completion has UNETMM_CQE_F_IMM in `flags`, and `imm`.  On a
 * channel for datagrams the send completes with UNETMM_ST_BAD_CHANNEL.
 */
int unetmm_sendv_imm(struct unetmm_ep *ep, int channel,
                     const struct iovec *iov, unsigned n, uint32_t imm,
                     uint64_t user_data, unsigned flags);
int unetmm_send_imm(struct unetmm_ep *ep, int channel,
                    const void *buf, size_t len, uint32_t imm,
                    uint64_t user_data, unsigned flags);

/*
 * Slots of the send queue that the card has not done with.  0 means that all
 * messages have been sent or have failed, those sent with UNETMM_UNSIGNALED too.
 */
int unetmm_send_pending(struct unetmm_ep *ep);

/* ---- Fast path: free buffers ------------------------------------------- */

/*
 * Posts a free buffer; messages fill them in the order of posting.  It belongs
 * to the card until a completion with `user_data` gives it back, filled
 * (UNETMM_CQE_RECEIVED) or not (UNETMM_CQE_BUFFER).  `flags`: UNETMM_MORE and
 * UNETMM_ZERO.
 *
 * With UNETMM_ZERO a page that is not resident when the card needs it is not paged
 * in: it is replaced by one of zeros.  The bytes after the message are then zeros,
 * or still the process's own.  The buffer is exactly one page of
 * private anonymous memory, writable, neither mlock()ed nor registered with
 * userfaultfd, nor of huge pages that were set aside (MAP_HUGETLB).  Other
 * memory: source ktlb says -EINVAL (and posts at once, UNETMM_MORE or not); with
 * sources tlb, shadow and odp the buffer comes back with UNETMM_ST_UNSUPPORTED (or PROTECTION, as
 * without the flag) when the card asks for it.
 *
 * -EAGAIN: the queue is full.  -EMSGSIZE: the card's TLB can never hold so
 * many pages at once.  -EINVAL: length 0, unknown flag; UNETMM_ZERO and not a
 * whole page, source pinned or utlb, or (source ktlb) memory that may not be
 * used so.
 */
int unetmm_post_recv(struct unetmm_ep *ep, void *buf, size_t len,
                     uint64_t user_data, unsigned flags);

/*
 * The same with a buffer of `n` pieces of memory, 1..UNETMM_MAX_SEGS, which takes
 * as many places of the queue.  A message fills one piece after the other; one
 * completion gives all of them back.  `flags`: UNETMM_MORE.
 *
 * -EAGAIN: the queue has fewer places.  -EINVAL: no piece, too many, or one of
 * length 0; unknown flag; more than one with policy backup or on an endpoint for
 * frames.
 */
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
 * Takes up to `n` completions, oldest first.  Returns how many, 0 if there are
 * none.  -EIO: the endpoint was stopped and all its completions are taken.
 *
 * The message of an inline completion is in data[] and no buffer was used.
 */
int unetmm_poll(struct unetmm_ep *ep,
                struct unetmm_completion *c, unsigned n);

/*
 * For providers and runtimes: reads the next completion from the card's queue and
 * leaves it there, 1; or 0: there is none, or unetmm_poll() has to look.  Then
 * unetmm_take() takes it, and unetmm_card_waits() says whether the card waits for
 * unetmm_poll(ep, NULL, 0).  One thread at a time, as for unetmm_poll().
 */
int unetmm_peek(const struct unetmm_ep *ep, struct unetmm_completion *c);
void unetmm_take(struct unetmm_ep *ep);
int unetmm_card_waits(const struct unetmm_ep *ep);

/* ---- Waiting ----------------------------------------------------------- */

/*
 * Like unetmm_poll(), but if there is nothing it waits: it spins for the
 * endpoint's spin_ns, then blocks.  Returns 0 when the timeout has passed.
 * -EINTR: a signal handler ran.
 */
int unetmm_wait(struct unetmm_ep *ep, struct unetmm_completion *c, unsigned n,
                int64_t timeout_ns);

/*
 * A file descriptor that becomes readable when a completion arrives after
 * unetmm_arm(), or a counter with a handler changes.  Only poll it: the library
 * reads it.
 */
int unetmm_fd(const struct unetmm_ep *ep);

/*
 * Asks for one wake-up on unetmm_fd().  Returns 0: armed, nothing is there, one
 * may block.  Returns 1: completions are there already, poll them; or a counter
 * that has a handler here has changed, dispatch.
 */
int unetmm_arm(struct unetmm_ep *ep);

/* ---- Handlers ---------------------------------------------------------- */

/*
 * The third way to receive: the library calls a function for each completion.
 * `c` is valid until the handler returns.  A handler may make every call on
 * its endpoint and on others, unetmm_ep_destroy() included, but not
 * unetmm_dispatch(), _handlers_start() and _handlers_stop() on its endpoint.
 * It must return: no longjmp(), no exception, no pthread_exit().
 */
typedef void (*unetmm_handler)(struct unetmm_ep *ep,
                               const struct unetmm_completion *c, void *arg);

#define UNETMM_EVERY_CHANNEL    (-1)

/*
 * Sets the handler of the endpoint (`channel` UNETMM_EVERY_CHANNEL), or one for
 * the messages of an open channel, sent and received, that goes before it; NULL
 * for none.  When it returns, the handler before is not running, unless it is
 * the caller, and will not be called again.
 *
 * -ENOENT: no such channel.  -EBUSY: the library's thread needs the handler of
 * the endpoint.  -ENOMEM.
 */
int unetmm_set_handler(struct unetmm_ep *ep, int channel,
                       unetmm_handler handler, void *arg);

/*
 * Calls the handlers for the completions in the queue, `most` at most.  If there is
 * none, waits as unetmm_wait() does (0: not at all).  Rings the doorbell at the end
 * if handlers have posted with UNETMM_MORE.  Returns the number of completions
 * handled: 0 when the timeout has passed.
 *
 * -ENOENT: the endpoint has no handler.  -EDEADLK: handlers are blocked, or the
 * caller is one.  -EBUSY: the library's thread does it.  -ESHUTDOWN: a handler
 * has destroyed the endpoint.  -EIO, -EINTR: as unetmm_wait().
 */
int unetmm_dispatch(struct unetmm_ep *ep, unsigned most, int64_t timeout_ns);

/*
 * From now on no handler of the endpoint is called; one that the library's
 * thread is running has returned, unless it is the caller.  Nests.  New
 * completions wait in the completion queue.
 */
int unetmm_handlers_block(struct unetmm_ep *ep);

/*
 * Takes one unetmm_handlers_block() back, in whichever thread.  1: handlers may
 * be called again.  0: they are still blocked.  -EPERM: they are not, or only
 * because the caller is one: that ends when it returns.
 */
int unetmm_handlers_unblock(struct unetmm_ep *ep);

/* The thread has ended because of an error: -EIO, the card stopped the endpoint. */
typedef void (*unetmm_end)(struct unetmm_ep *ep, int error, void *arg);

/*
 * Has a thread of the library call the handlers.  The endpoint is that thread's
 * then, and another's between unetmm_handlers_block() and _unblock(), which any
 * thread may call, as well as unetmm_set_handler() and unetmm_disconnect().
 * `end` (may be NULL) is called as a handler if an error ends the thread.
 *
 * -ENOENT: the endpoint has no handler.  -EBUSY: there is a thread already.
 * -EAGAIN: the system has no thread left.
 */
int unetmm_handlers_start(struct unetmm_ep *ep, unetmm_end end, void *arg);

/*
 * Ends the thread when the handler that it runs has returned.  Returns 0, or
 * why it had ended before.  -ESRCH: there is none.  -EDEADLK: the caller is a
 * handler.
 */
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
