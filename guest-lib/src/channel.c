/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Channels: who may talk to whom is between the two drivers; the library keeps
 * the MTU of each, so that a message that is too long is refused at once.
 */
#include "internal.h"
#include "sys.h"

int unetmm_listen(struct unetmm_ep *ep, uint64_t service, unsigned backlog)
{
    struct unetmm_listen listen;
    int ret;

    if (!ep->alive) {
        return -EOWNERDEAD;
    }
    listen = (struct unetmm_listen) {
        .size = sizeof(listen),
        .endpoint = unetmm_ep_private(ep)->id,
        .service = service,
        .backlog = backlog,
    };
    ret = sys_ioctl(unetmm_ep_private(ep)->ctx->fd, UNETMM_IOC_LISTEN,
                    &listen);
    return ret < 0 ? ret : 0;
}

/* CONNECT and ACCEPT take and give the same things. */
static int open_channel(struct unetmm_ep_private *ep, unsigned long request,
                        struct unetmm_connect *connect,
                        struct unetmm_peer *peer)
{
    int ret;

    connect->size = sizeof(*connect);
    connect->endpoint = ep->id;
    ret = sys_ioctl(ep->ctx->fd, request, connect);
    if (ret < 0) {
        return ret;
    }
    if (connect->channel >= ep->pub.channels) {
        return -EPROTO;
    }
    __atomic_store_n(&ep->mtu[connect->channel], connect->mtu,
                     __ATOMIC_RELAXED);
    if (peer) {
        memcpy(peer->mac, connect->mac, sizeof(peer->mac));
        peer->channel = (uint16_t)connect->channel;
        peer->endpoint = connect->peer_endpoint;
        peer->mtu = connect->mtu;
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
    return open_channel(unetmm_ep_private(ep), UNETMM_IOC_ACCEPT, &connect,
                        peer);
}

int unetmm_connect(struct unetmm_ep *ep, const uint8_t mac[6],
                   uint64_t service, int64_t timeout_ns,
                   struct unetmm_peer *peer)
{
    struct unetmm_connect connect = {
        .service = service,
        .deadline_ns = unetmm_deadline(timeout_ns),
    };

    if (!ep->alive) {
        return -EOWNERDEAD;
    }
    memcpy(connect.mac, mac, sizeof(connect.mac));
    return open_channel(unetmm_ep_private(ep), UNETMM_IOC_CONNECT, &connect,
                        peer);
}

int unetmm_disconnect(struct unetmm_ep *ep, unsigned channel)
{
    struct unetmm_channel request;
    int ret;

    if (!ep->alive) {
        return -EOWNERDEAD;
    }
    if (!unetmm_mtu_(ep, channel)) {
        return -ENOENT;
    }
    request = (struct unetmm_channel) {
        .size = sizeof(request),
        .endpoint = unetmm_ep_private(ep)->id,
        .channel = channel,
    };
    /* The number may soon be another's. */
    unetmm_set_handler(ep, channel, NULL, NULL);
    __atomic_store_n(&unetmm_ep_private(ep)->mtu[channel], 0,
                     __ATOMIC_RELAXED);
    ret = sys_ioctl(unetmm_ep_private(ep)->ctx->fd, UNETMM_IOC_CHANNEL_CLOSE,
                    &request);
    return ret < 0 ? ret : 0;
}
