/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Making and ending streams.
 *
 * A stream has an endpoint with one reliable channel, and a ring of its own.  A
 * listener's endpoint becomes that of the stream whose channel comes first; another
 * one listens then, and a second channel to the first is closed, and its peer tries
 * again.
 */
#include "stream.h"
#include "../src/sys/refusals.h"
#include "../src/sys/sized.h"
#include "../src/sys/sys.h"

#define BACKLOG         1
#define LINGER_NS       5000000000ll
/* Between two tries to connect */
#define PAUSE_LEAST_NS  1000000ll
#define PAUSE_MOST_NS   100000000ll

struct unetmm_stream_listener {
    struct unetmm_ctx *ctx;
    struct unetmm_ep *ep;
    struct unetmm_stream_attr attr;
    uint64_t service;
};

static const struct unetmm_stream_attr default_attr = UNETMM_STREAM_ATTR_INIT;

static const struct unetmm_channel_attr channel_attr = {
    sizeof(channel_attr), UNETMM_RELIABLE, 0, 0, UNETMM_REFUSALS, 0,
};

/* The program's attributes, or the default ones; and checks them. */
static int take_attr(struct unetmm_stream_attr *attr,
                     const struct unetmm_stream_attr *given)
{
    int ret = 0;

    *attr = default_attr;
    if (given) {
        ret = sized_read(attr, sizeof(*attr),
                         SIZED_UP_TO(struct unetmm_stream_attr, timeout_ns),
                         given);
    }
    if (ret) {
        return ret;
    }
    return attr->ring_bytes < UNETMM_STREAM_RING_LEAST ||
           attr->ring_bytes > UNETMM_STREAM_RING_MOST ||
           attr->ring_bytes & (attr->ring_bytes - 1) ? -EINVAL : 0;
}

static int endpoint_create(struct unetmm_ctx *ctx,
                           const struct unetmm_stream_attr *attr,
                           struct unetmm_ep **ep)
{
    struct unetmm_ep_attr wanted = UNETMM_EP_ATTR_INIT;

    wanted.free_depth = 8;
    wanted.spin_ns = attr->spin_ns;
    return unetmm_ep_create(ctx, &wanted, ep);
}

/* ---- Memory ------------------------------------------------------------ */

/* Not inherited by fork(): a copy on write would give the parent other pages than the card has. */
static int memory_map(size_t bytes, uint8_t **memory)
{
    int saved = errno, ret = 0;
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (map == MAP_FAILED) {
        ret = -errno;
    } else if (madvise(map, bytes, MADV_DONTFORK)) {
        ret = -errno;
        munmap(map, bytes);
    } else {
        *memory = map;
    }
    errno = saved;
    return ret;
}

static void memory_unmap(uint8_t *memory, size_t bytes)
{
    int saved = errno;

    if (memory) {
        munmap(memory, bytes);
    }
    errno = saved;
}

static int ring_export(struct unetmm_stream *s)
{
    int ret;

    if (!sys_random(&s->ring_id)) {
        return -EAGAIN;
    }
    ret = memory_map(s->attr.ring_bytes, &s->ring);
    if (!ret) {
        ret = unetmm_export(s->ctx, s->ring_id, s->ring, s->attr.ring_bytes,
                            UNETMM_RIGHT_WRITE, UNETMM_EXPORT_NOTIFY |
                            redirect_export_flags(s), 0);
    }
    if (ret == -EOPNOTSUPP && s->attr.redirect_least) {
        /* A card, or a source, that cannot redirect. */
        s->attr.redirect_least = 0;
        ret = unetmm_export(s->ctx, s->ring_id, s->ring, s->attr.ring_bytes,
                            UNETMM_RIGHT_WRITE, UNETMM_EXPORT_NOTIFY, 0);
    }
    s->exported = !ret;
    return ret;
}

/* Source pinned takes registration, the others refuse it. */
static int stage_make(struct unetmm_stream *s)
{
    size_t bytes = STAGES * STAGE_BYTES;
    int ret = memory_map(bytes, &s->stage);

    if (ret) {
        return ret;
    }
    ret = unetmm_register(s->ctx, s->stage, bytes, 0);
    s->stage_needed = !ret;
    return ret == -EOPNOTSUPP ? 0 : ret;
}

/* ---- The stream's life ------------------------------------------------- */

static void close_fds(struct unetmm_stream *s)
{
    if (s->poll_fd >= 0) {
        sys_close(s->poll_fd);
        sys_close(s->timer_fd);
    }
}

/* A forked child frees memory and descriptors alone: endpoint and exports are the parent's. */
static void stream_free(struct unetmm_stream *s)
{
    bool owner = !s->ep || !stream_check(s);

    close_fds(s);
    if (s->ep) {
        if (s->channel >= 0) {
            unetmm_disconnect(s->ep, s->channel);
        }
        unetmm_ep_destroy(s->ep);
    }
    if (s->exported) {
        unetmm_unexport(s->ctx, s->ring_id);
    }
    if (s->stage_needed) {
        unetmm_deregister(s->ctx, s->stage, STAGES * STAGE_BYTES);
    }
    if (owner) {
        memory_unmap(s->ring, s->attr.ring_bytes);
        memory_unmap(s->stage, STAGES * STAGE_BYTES);
    }
    free(s);
}

/* A stream around an endpoint, which is its own from here on, also on error. */
static int stream_new(struct unetmm_ctx *ctx, const struct unetmm_stream_attr *attr,
                      struct unetmm_ep *ep, struct unetmm_stream **stream)
{
    int saved = errno, ret;
    struct unetmm_stream *s = calloc(1, sizeof(*s));

    errno = saved;
    if (!s) {
        unetmm_ep_destroy(ep);
        return -ENOMEM;
    }
    s->ctx = ctx;
    s->ep = ep;
    s->attr = *attr;
    /* Of a small ring no part is worth the calls. */
    if (attr->ring_bytes / 8 < UNETMM_PAGE_BYTES) {
        s->attr.redirect_least = 0;
    } else if (s->attr.redirect_least > attr->ring_bytes / 8) {
        s->attr.redirect_least = attr->ring_bytes / 8;
    }
    s->channel = s->import = s->poll_fd = s->timer_fd = -1;
    flow_init(&s->flow, attr->ring_bytes);
    ret = ring_export(s);
    if (!ret) {
        ret = stage_make(s);
    }
    if (ret) {
        stream_free(s);
        return ret;
    }
    *stream = s;
    return 0;
}

static void set_channel(struct unetmm_stream *s, int channel,
                        const struct unetmm_peer *peer)
{
    s->channel = channel;
    memcpy(s->peer_mac, peer->mac, sizeof(s->peer_mac));
}

/* ---- Connecting -------------------------------------------------------- */

static int64_t time_left(int64_t deadline_ns)
{
    int64_t left;

    if (deadline_ns == INT64_MAX) {
        return -1;
    }
    left = deadline_ns - stream_now();
    return left > 0 ? left : 0;
}

/*
 * Longer each time: a listener that ends each stream at once does not keep a processor busy.
 */
static void pause_before_next(int64_t *pause_ns, int64_t deadline)
{
    int64_t left = deadline - stream_now(), ns = *pause_ns < left ? *pause_ns : left;
    const struct timespec time = { .tv_nsec = ns > 0 ? (long)ns : 0 };

    sys_ppoll(NULL, 0, &time);
    *pause_ns = *pause_ns < PAUSE_MOST_NS ? 2 * *pause_ns : PAUSE_MOST_NS;
}

static int connect_once(struct unetmm_stream *s, const uint8_t mac[6],
                        uint64_t service, int64_t deadline)
{
    struct unetmm_peer peer;
    int ret = unetmm_connect_ex(s->ep, mac, service, time_left(deadline),
                                &channel_attr, &peer);

    if (ret < 0) {
        return ret;
    }
    set_channel(s, ret, &peer);
    ret = stream_greet(s);
    while (!ret && s->import < 0 && !s->error) {
        ret = stream_wait(s, deadline);
    }
    return ret ? ret : s->error;
}

int unetmm_stream_connect(struct unetmm_ctx *ctx, const uint8_t mac[6],
                          uint64_t service, const struct unetmm_stream_attr *given,
                          int64_t timeout_ns, struct unetmm_stream **stream)
{
    int64_t deadline = stream_deadline(timeout_ns), pause = PAUSE_LEAST_NS;
    struct unetmm_stream_attr attr;
    struct unetmm_ep *ep;
    struct unetmm_stream *s;
    int ret;

    ret = take_attr(&attr, given);
    while (!ret) {
        ret = endpoint_create(ctx, &attr, &ep);
        ret = ret ? ret : stream_new(ctx, &attr, ep, &s);
        if (ret) {
            break;
        }
        ret = connect_once(s, mac, service, deadline);
        if (!ret) {
            *stream = s;
            break;
        }
        stream_free(s);
        /* Another one was before us, or the listener has just ended. */
        if (ret == -ECONNRESET && time_left(deadline)) {
            pause_before_next(&pause, deadline);
            ret = 0;
        }
    }
    return ret;
}

/* ---- Accepting --------------------------------------------------------- */

static int listener_endpoint(struct unetmm_stream_listener *l)
{
    int ret;

    if (l->ep) {
        return 0;
    }
    ret = endpoint_create(l->ctx, &l->attr, &l->ep);
    if (ret) {
        return ret;
    }
    ret = unetmm_listen_ex(l->ep, l->service, BACKLOG, &channel_attr);
    if (ret) {
        unetmm_ep_destroy(l->ep);
        l->ep = NULL;
    }
    return ret;
}

int unetmm_stream_listen(struct unetmm_ctx *ctx, uint64_t service,
                         const struct unetmm_stream_attr *given,
                         struct unetmm_stream_listener **listener)
{
    struct unetmm_stream_attr attr;
    struct unetmm_stream_listener *l;
    int saved = errno, ret;

    ret = take_attr(&attr, given);
    if (ret || !service) {
        return ret ? ret : -EINVAL;
    }
    l = calloc(1, sizeof(*l));
    errno = saved;
    if (!l) {
        return -ENOMEM;
    }
    l->ctx = ctx;
    l->attr = attr;
    l->service = service;
    ret = listener_endpoint(l);
    if (ret) {
        free(l);
        return ret;
    }
    *listener = l;
    return 0;
}

/* The endpoint is the stream's now; nobody else is to have a channel to it. */
static void take_alone(struct unetmm_stream_listener *l, struct unetmm_ep *ep)
{
    int other;

    unetmm_listen(ep, 0, 0);
    while ((other = unetmm_accept(ep, NULL, 0)) >= 0) {
        unetmm_disconnect(ep, other);
    }
    l->ep = NULL;
}

int unetmm_stream_accept(struct unetmm_stream_listener *l, int64_t timeout_ns,
                         struct unetmm_stream **stream)
{
    struct unetmm_peer peer;
    struct unetmm_ep *ep;
    struct unetmm_stream *s;
    int channel, ret = listener_endpoint(l);

    if (ret) {
        return ret;
    }
    ep = l->ep;
    channel = unetmm_accept(ep, &peer, timeout_ns);
    if (channel < 0) {
        return channel;
    }
    take_alone(l, ep);
    /* Without it nobody can come until the next call, which tries again. */
    listener_endpoint(l);
    ret = stream_new(l->ctx, &l->attr, ep, &s);
    if (ret) {
        return ret;
    }
    set_channel(s, channel, &peer);
    ret = stream_greet(s);
    if (ret) {
        stream_free(s);
        return ret;
    }
    *stream = s;
    return 0;
}

int unetmm_stream_listener_fd(struct unetmm_stream_listener *l)
{
    int ret = unetmm_ctx_fd(l->ctx);

    /* Without an endpoint nobody can come, and nothing would be told. */
    if (ret >= 0) {
        int made = listener_endpoint(l);

        ret = made ? made : ret;
    }
    return ret;
}

int unetmm_stream_listener_close(struct unetmm_stream_listener *l)
{
    int ret = l->ep ? unetmm_ep_destroy(l->ep) : 0;

    free(l);
    return ret;
}

/* ---- The rest ---------------------------------------------------------- */

static int error_at_end(const struct unetmm_stream *s)
{
    return !s->error && (!s->fin || s->done < s->fin) ? -ETIMEDOUT : stream_error(s);
}

int unetmm_stream_close(struct unetmm_stream *s)
{
    int64_t deadline = stream_deadline(LINGER_NS);
    int ret = stream_check(s);

    if (!ret && !s->error) {
        /* A signal does not end the time for which the peer has the last bytes. */
        while (stream_finish(s, deadline) == -EINTR) {
        }
        /* Credits behind the end have no completion, and a peer that ends needs none. */
        while (s->done < s->fin && !s->error &&
               stream_wait(s, deadline) != -ETIMEDOUT) {
        }
    }
    ret = ret ? ret : error_at_end(s);
    stream_free(s);
    return ret;
}

int unetmm_stream_set_nonblocking(struct unetmm_stream *s, int on)
{
    s->nonblocking = on;
    return stream_check(s);
}

int unetmm_stream_peer(const struct unetmm_stream *s, uint8_t mac[6])
{
    memcpy(mac, s->peer_mac, sizeof(s->peer_mac));
    return stream_check(s);
}

int unetmm_stream_stats(const struct unetmm_stream *s, struct unetmm_stream_stats *stats)
{
    int ret = sized_write(stats, &s->stats, sizeof(s->stats),
                          SIZED_UP_TO(struct unetmm_stream_stats, probes));

    return ret ? ret : stream_check(s);
}

const char *unetmm_stream_strerror(int error)
{
    switch (error < 0 ? -error : error) {
    case EPIPE:
        return "the stream was closed, so nothing more can be sent";
    case ECONNRESET:
        return "the peer has ended without closing the stream";
    case ETIMEDOUT:
        return "the peer does not answer in time";
    case EPROTO:
        return "the peer breaks the protocol of streams: is it another program?";
    case EFAULT:
        return "the card cannot use the memory that was to be sent";
    case EAGAIN:
        return "nothing can be done now without waiting";
    default:
        return unetmm_strerror(error, UNETMM_CALL_CONNECT);
    }
}
