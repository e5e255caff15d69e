/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * kv_netif.c's place in tests: unetmm-kv without a card, on a UNIX socket with
 * frames as QEMU's -netdev stream has them, each behind its length.  The server is
 * then an ordinary process, and the rest of the network is libslirp's.
 *
 * UNETMM_KV_COLD=N in the environment: of the first 2 * N frames every other one is
 * lost, as in a ring of N cold buffers with policy drop.
 */
#include "kv_port.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <lwip/etharp.h>

static struct {
    struct netif *netif;
    uint8_t mac[6];
    int fd;
    unsigned cold;
    unsigned long received, sent, lost;
    size_t have;
    uint8_t buffer[65536];
} wire;

static err_t send_frame(struct netif *netif, struct pbuf *p)
{
    uint8_t frame[4 + KV_FRAME];
    uint32_t length = htonl(p->tot_len);

    (void)netif;
    if (p->tot_len > KV_FRAME) {
        return ERR_BUF;
    }
    memcpy(frame, &length, 4);
    pbuf_copy_partial(p, frame + 4, p->tot_len, 0);
    if (write(wire.fd, frame, 4u + p->tot_len) != 4 + p->tot_len) {
        fail("the wire takes no frame: %s", strerror(errno));
    }
    wire.sent++;
    return ERR_OK;
}

err_t kv_port_netif(struct netif *netif)
{
    wire.netif = netif;
    netif->name[0] = 'w';
    netif->name[1] = 'i';
    netif->mtu = 1500;
    netif->hwaddr_len = sizeof(wire.mac);
    memcpy(netif->hwaddr, wire.mac, sizeof(wire.mac));
    netif->flags = NETIF_FLAG_BROADCAST | NETIF_FLAG_ETHARP |
                   NETIF_FLAG_ETHERNET | NETIF_FLAG_LINK_UP;
    netif->output = etharp_output;
    netif->linkoutput = send_frame;
    return ERR_OK;
}

static void give(const uint8_t *frame, uint32_t length)
{
    struct pbuf *p;

    if (wire.cold && wire.cold-- % 2 == 0) {
        wire.lost++;
        return;
    }
    p = pbuf_alloc(PBUF_RAW, (u16_t)length, PBUF_RAM);
    if (!p) {
        fail("lwIP has no memory for a frame");
    }
    wire.received++;
    pbuf_take(p, frame, (u16_t)length);
    if (wire.netif->input(p, wire.netif) != ERR_OK) {
        pbuf_free(p);
    }
}

int kv_port_wait(int64_t timeout_ns)
{
    struct pollfd pfd = { wire.fd, POLLIN, 0 };
    size_t at = 0;
    uint32_t length;
    ssize_t n;

    if (poll(&pfd, 1, (int)(timeout_ns / (int64_t)NS_PER_MS)) <= 0) {
        return 0;
    }
    n = read(wire.fd, wire.buffer + wire.have, sizeof(wire.buffer) - wire.have);
    if (n <= 0) {
        return -EIO;
    }
    wire.have += (size_t)n;
    while (wire.have - at >= 4) {
        memcpy(&length, wire.buffer + at, 4);
        length = ntohl(length);
        if (length > UINT16_MAX / 2) {
            return -EPROTO;
        }
        if (wire.have - at - 4 < length) {
            break;
        }
        give(wire.buffer + at + 4, length);
        at += 4 + length;
    }
    wire.have -= at;
    memmove(wire.buffer, wire.buffer + at, wire.have);
    return 0;
}

void kv_port_open(const struct kv_options *opt, void *store, size_t bytes)
{
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    const char *cold = getenv("UNETMM_KV_COLD");

    (void)store;
    (void)bytes;
    if (!opt->device || strlen(opt->device) >= sizeof(to.sun_path)) {
        fail("name the wire's socket by --device");
    }
    strcpy(to.sun_path, opt->device);
    memcpy(wire.mac, opt->mac, sizeof(wire.mac));
    wire.cold = cold ? 2 * (unsigned)atoi(cold) : 0;
    wire.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (wire.fd < 0 || connect(wire.fd, (struct sockaddr *)&to, sizeof(to))) {
        fail("%s: %s", opt->device, strerror(errno));
    }
}

void kv_port_close(void)
{
    close(wire.fd);
}

const char *kv_port_counter(unsigned n, uint64_t *value)
{
    switch (n) {
    case 0: *value = wire.received; return "received";
    case 1: *value = wire.sent; return "sent";
    case 2: *value = wire.lost; return "lost";
    default: return NULL;
    }
}
