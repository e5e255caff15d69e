/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Channels: the two drivers agree on an endpoint's peers; the library keeps a record
 * of each channel: the longest message, so that a longer one is refused at once, and
 * the values that a program may ask for.
 */
#include "../queue/queue.h"
#include "../utlb/utlb.h"

static const struct unetmm_channel_attr reliable_attr =
    UNETMM_CHANNEL_ATTR_INIT;
/* To end listening: it needs no reliable channels. */
static const struct unetmm_channel_attr datagram_attr =
    UNETMM_CHANNEL_ATTR_DATAGRAM;

/* The program's attributes, or those of a reliable channel; and checks them. */
static int take_attr(struct unetmm_channel_attr *attr,
                     const struct unetmm_channel_attr *given)
{
    int ret = 0;

    *attr = reliable_attr;
    if (given) {
        ret = sized_read(attr, sizeof(*attr),
                         SIZED_UP_TO(struct unetmm_channel_attr, flags), given);
    }
    if (ret) {
        return ret;
    }
    if (!(attr->flags & (UNETMM_DATAGRAM | UNETMM_RELIABLE)) ||
        attr->flags & ~(UNETMM_DATAGRAM | UNETMM_RELIABLE |
                        UNETMM_NOTIFY_CLOSE | UNETMM_GO_BACK_N |
                        UNETMM_ANNOUNCE)) {
        return -EINVAL;
    }
    return 0;
}

int unetmm_listen_ex(struct unetmm_ep *ep, uint64_t service, unsigned backlog,
                     const struct unetmm_channel_attr *given)
{
    struct unetmm_channel_attr attr;
    struct unetmm_listen listen;
    int ret;

    if (!ep->alive) {
        return -EOWNERDEAD;
    }
    ret = take_attr(&attr, given);
    if (ret) {
        return ret;
    }
    listen = (struct unetmm_listen) {
        .size = sizeof(listen),
        .endpoint = unetmm_ep_private(ep)->id,
        .service = service,
        .backlog = backlog,
        .flags = attr.flags,
        .timeout_us = attr.timeout_us,
        .retries = attr.retries,
        .not_ready_retries = attr.rnr_retries,
        .not_ready_us = attr.rnr_us,
    };
    ret = sys_ioctl(unetmm_ep_private(ep)->ctx->fd, UNETMM_IOC_LISTEN,
                    &listen);
    return ret < 0 ? ret : 0;
}

int unetmm_listen(struct unetmm_ep *ep, uint64_t service, unsigned backlog)
{
    return unetmm_listen_ex(ep, service, backlog,
                            service ? NULL : &datagram_attr);
}

/* CONNECT and ACCEPT take and give the same things. */
static int open_channel(struct unetmm_ep_private *ep, unsigned long request,
                        struct unetmm_connect *connect,
                        struct unetmm_peer *peer)
{
    struct unetmm_channel_record *record;
    int ret;

    connect->size = sizeof(*connect);
    connect->endpoint = ep->id;
    ret = sys_ioctl(ep->ctx->fd, request, connect);
    if (ret < 0) {
        return ret;
    }
    if (connect->channel >= ep->pub.channels || !connect->max_message) {
        unetmm_object_end(ep->ctx, UNETMM_OBJECT_CHANNEL, ep->id, connect->channel, 0);
        return -EPROTO;
    }
    record = &ep->records[connect->channel];
    record->type = connect->flags & UNETMM_CONNECT_RELIABLE ?
        UNETMM_RELIABLE : UNETMM_DATAGRAM;
    record->frame = connect->mtu;
    record->endpoint = connect->peer_endpoint;
    record->peer_channel = (uint16_t)connect->peer_channel;
    memcpy(record->mac, connect->mac, sizeof(record->mac));
    /* A reader that finds the channel open finds the rest of the record. */
    __atomic_store_n(&ep->mtu[connect->channel], connect->max_message,
                     __ATOMIC_RELEASE);
    if (peer) {
        memcpy(peer->mac, connect->mac, sizeof(peer->mac));
        peer->channel = (uint16_t)connect->channel;
        peer->endpoint = connect->peer_endpoint;
        peer->mtu = connect->max_message;
        peer->type = record->type;
    }
    return (int)connect->channel;
}

int unetmm_accept(struct unetmm_ep *ep, struct unetmm_peer *peer,
                  int64_t timeout_ns)
{
    struct unetmm_connect connect = {
        .deadline_ns = unetmm_deadline(timeout_ns),
    };

    if (!ep->alive) {
        return -EOWNERDEAD;
    }
    return unetmm_timed(open_channel(unetmm_ep_private(ep), UNETMM_IOC_ACCEPT,
                                     &connect, peer), timeout_ns);
}

int unetmm_connect_ex(struct unetmm_ep *ep, const uint8_t mac[6],
                      uint64_t service, int64_t timeout_ns,
                      const struct unetmm_channel_attr *given,
                      struct unetmm_peer *peer)
{
    struct unetmm_channel_attr attr;
    struct unetmm_connect connect = {
        .service = service,
        .deadline_ns = unetmm_deadline(timeout_ns),
    };
    int ret;

    if (!ep->alive) {
        return -EOWNERDEAD;
    }
    ret = take_attr(&attr, given);
    if (ret) {
        return ret;
    }
    if ((attr.flags & UNETMM_DATAGRAM && attr.flags & UNETMM_RELIABLE) ||
        attr.flags & UNETMM_ANNOUNCE) {
        return -EINVAL;
    }
    connect.flags = attr.flags & UNETMM_RELIABLE ? UNETMM_CONNECT_RELIABLE :
        0;
    connect.flags |= attr.flags & UNETMM_NOTIFY_CLOSE ? UNETMM_CONNECT_TELL :
        0;
    connect.flags |= attr.flags & UNETMM_GO_BACK_N ? UNETMM_CONNECT_REWIND : 0;
    connect.timeout_us = attr.timeout_us;
    connect.retries = attr.retries;
    connect.not_ready_retries = attr.rnr_retries;
    connect.not_ready_us = attr.rnr_us;
    memcpy(connect.mac, mac, sizeof(connect.mac));
    return open_channel(unetmm_ep_private(ep), UNETMM_IOC_CONNECT, &connect,
                        peer);
}

int unetmm_connect(struct unetmm_ep *ep, const uint8_t mac[6],
                   uint64_t service, int64_t timeout_ns,
                   struct unetmm_peer *peer)
{
    return unetmm_connect_ex(ep, mac, service, timeout_ns, NULL, peer);
}

int unetmm_channel_info(struct unetmm_ep *pub, int channel,
                        struct unetmm_channel_info *info)
{
    const struct unetmm_ep_private *ep = unetmm_ep_private(pub);
    const struct unetmm_channel_record *record;
    struct unetmm_channel_info result;
    uint32_t longest;

    if (!pub->alive) {
        return -EOWNERDEAD;
    }
    longest = (unsigned)channel < pub->channels ?
        __atomic_load_n(&ep->mtu[channel], __ATOMIC_ACQUIRE) : 0;
    if (!longest) {
        return -ENOENT;
    }
    record = &ep->records[channel];
    result = (struct unetmm_channel_info) {
        .type = record->type,
        .longest = longest,
        .frame = record->frame,
        .peer_channel = record->peer_channel,
        .endpoint = record->endpoint,
    };
    memcpy(result.mac, record->mac, sizeof(result.mac));
    return sized_write(info, &result, sizeof(result),
                       SIZED_UP_TO(struct unetmm_channel_info, frame));
}

int unetmm_disconnect(struct unetmm_ep *ep, int channel)
{
    int ret;

    if (!ep->alive) {
        return -EOWNERDEAD;
    }
    if (!unetmm_mtu_(ep, channel)) {
        return -ENOENT;
    }
    /* Until the end of the call no handler destroys the endpoint. */
    unetmm_handlers_block(ep);
    /* The number may soon be another's. */
    unetmm_set_handler(ep, channel, NULL, NULL);
    __atomic_store_n(&unetmm_ep_private(ep)->mtu[channel], 0,
                     __ATOMIC_RELAXED);
    unetmm_utlb_disconnect(unetmm_ep_private(ep), channel);
    ret = unetmm_object_end(unetmm_ep_private(ep)->ctx, UNETMM_OBJECT_CHANNEL,
                            unetmm_ep_private(ep)->id, (uint32_t)channel, 0);
    unetmm_handlers_unblock(ep);
    return ret;
}

/* The fence is behind all that is on the channel, so its completion is the last. */
int unetmm_shutdown(struct unetmm_ep *pub, int channel, int64_t timeout_ns)
{
    struct unetmm_ep_private *ep = unetmm_ep_private(pub);
    uint64_t user_data, deadline = unetmm_time_of(timeout_ns);
    struct unetmm_completion c;
    int ret, closed;

    if (!pub->alive) {
        return -EOWNERDEAD;
    }
    if (!unetmm_mtu_(pub, channel)) {
        return -ENOENT;
    }
    if (ep->records[channel].type != UNETMM_RELIABLE) {
        return -EPROTOTYPE;
    }
    ret = unetmm_stash_check(ep);
    if (ret) {
        return ret;
    }
    user_data = UNETMM_SYNC_USER_DATA | ++ep->sync_number;
    while ((ret = unetmm_fence(pub, channel, user_data, 0)) == -EAGAIN) {
        ret = unetmm_take_until(ep, 0, &c, deadline);
        if (ret < 0) {
            return ret;
        }
    }
    if (!ret) {
        ret = unetmm_take_until(ep, user_data, &c, deadline);
        if (ret == -ETIMEDOUT || ret == -EINTR || ret == -ENOMEM || ret == -ENOBUFS) {
            return ret;
        }
        ret = ret < 0 ? ret : unetmm_status_errno(c.status);
    }
    closed = unetmm_disconnect(pub, channel);
    return ret ? ret : closed;
}
