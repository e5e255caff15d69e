/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * libunetmm-stream: streams of bytes, as sockets have them, between processes with a card;
 * unetmm_stream(3).  A stream, and a listener, belongs to one thread at a time.
 */
#ifndef LIBUNETMM_STREAM_H
#define LIBUNETMM_STREAM_H

#include <libunetmm.h>

#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct unetmm_stream;
struct unetmm_stream_listener;

#define UNETMM_STREAM_RING_DEFAULT    (256u << 10)
#define UNETMM_STREAM_RING_LEAST      4096u
#define UNETMM_STREAM_RING_MOST       (64u << 20)

/* redirect_least is an eighth of the ring at most; 0 where that is less than a page. */
struct unetmm_stream_attr {
    uint32_t size;              /* sizeof(struct unetmm_stream_attr) */
    uint32_t ring_bytes;        /* of the receive ring; a power of two */
    uint32_t redirect_least;    /* bytes worth redirecting; 0: none */
    uint32_t spin_ns;           /* as unetmm_ep_attr */
    int64_t timeout_ns;         /* of send and recv; negative: none */
};

#define UNETMM_STREAM_ATTR_INIT \
    { sizeof(struct unetmm_stream_attr), UNETMM_STREAM_RING_DEFAULT, 32768, \
      UNETMM_SPIN_DEFAULT_NS, -1 }

/* ---- Making streams ---------------------------------------------------- */

/* Connects to the listener of `service` at the card `mac`; `attr` NULL: the default. */
int unetmm_stream_connect(struct unetmm_ctx *ctx, const uint8_t mac[6],
                          uint64_t service, const struct unetmm_stream_attr *attr,
                          int64_t timeout_ns, struct unetmm_stream **stream);

/* Streams that come get `attr`.  Errors: those of unetmm_listen_ex(). */
int unetmm_stream_listen(struct unetmm_ctx *ctx, uint64_t service,
                         const struct unetmm_stream_attr *attr,
                         struct unetmm_stream_listener **listener);

/* Takes the next stream. */
int unetmm_stream_accept(struct unetmm_stream_listener *listener, int64_t timeout_ns,
                         struct unetmm_stream **stream);

/* For poll(2), POLLPRI: a peer waits to be accepted. */
int unetmm_stream_listener_fd(struct unetmm_stream_listener *listener);
int unetmm_stream_listener_close(struct unetmm_stream_listener *listener);

/* The card at the other end. */
int unetmm_stream_peer(const struct unetmm_stream *stream, uint8_t mac[6]);

/* ---- Bytes ------------------------------------------------------------- */

#define UNETMM_STREAM_DONTWAIT        0x01u   /* as if non-blocking, this time */
#define UNETMM_STREAM_WAITALL         0x02u   /* recv: all that was asked for */

/*
 * Sends up to `len` bytes, whose source may be reused then, and returns how many.
 * -ETIMEDOUT may mean that the stream has failed: unetmm_stream(3).
 */
ssize_t unetmm_stream_send(struct unetmm_stream *stream, const void *bytes, size_t len,
                           unsigned flags);

/* Receives up to `len` bytes and returns how many; 0: the peer has shut down its side. */
ssize_t unetmm_stream_recv(struct unetmm_stream *stream, void *bytes, size_t len,
                           unsigned flags);

/* Nothing more will be sent: the peer receives the rest, then 0. */
int unetmm_stream_shutdown(struct unetmm_stream *stream);

/* Ends the stream, after five seconds at most.  0, or the error that it had. */
int unetmm_stream_close(struct unetmm_stream *stream);

/* ---- Waiting ----------------------------------------------------------- */

/* Enables (1) or disables (0) non-blocking mode, in which sends copy their data first. */
int unetmm_stream_set_nonblocking(struct unetmm_stream *stream, int on);

/* Which of POLLIN, POLLOUT and POLLERR there is; 0: the descriptor becomes readable. */
int unetmm_stream_fd(struct unetmm_stream *stream);
int unetmm_stream_arm(struct unetmm_stream *stream, short events);

/* ---- Statistics -------------------------------------------------------- */

struct unetmm_stream_stats {
    uint32_t size;              /* sizeof(struct unetmm_stream_stats) */
    uint32_t rsvd;
    uint64_t sent;              /* bytes */
    uint64_t staged;            /* of these: copied by the sender */
    uint64_t received;          /* bytes */
    uint64_t copied;            /* of these: out of the ring, or from there */
    uint64_t redirected;        /* ...: put where they were to go by the card */
    uint64_t redirections;
    uint64_t writes;            /* to the peer's ring */
    uint64_t credits;           /* words about room that were sent back */
    uint64_t probes;            /* whether the peer is still there */
};

/* The caller sets stats->size first. */
int unetmm_stream_stats(const struct unetmm_stream *stream, struct unetmm_stream_stats *stats);

/* One sentence for an error of these calls.  Never NULL, never freed. */
const char *unetmm_stream_strerror(int error);

#ifdef __cplusplus
}
#endif

#endif /* LIBUNETMM_STREAM_H */
