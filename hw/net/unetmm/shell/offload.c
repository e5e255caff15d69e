/*
 * unetmm: offloads of Ethernet frames, by QEMU's own net_tx_pkt and net_rx_pkt
 *
 * They are told of one frame in our memory at a time.  The core has checked
 * their assumptions before (there is a TCP or UDP header, TCP's where the
 * frame is to be cut).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "hw/pci/pci_device.h"
#include "hw/net/net_rx_pkt.h"
#include "hw/net/net_tx_pkt.h"
#include "net/eth.h"
#include "qemu/iov.h"
#include "standard-headers/linux/virtio_net.h"
#include "shell.h"

/* Headers as long as they can be, and a segment. */
#define UNETMM_PIECE_BYTES      (UNETMM_ETH_MAX + 256)

typedef struct UnetmmPieces {
    void (*out)(void *opaque, const uint8_t *frame, size_t bytes);
    void *opaque;
    size_t tcp;                 /* where its header is; 0: nothing is cut */
    uint8_t last_flags;         /* of the whole: FIN, PSH */
    size_t left;                /* payload that has not come yet */
} UnetmmPieces;

void unetmm_offload_init(UnetmmState *s)
{
    net_tx_pkt_init(&s->tx_pkt, 1);
    net_rx_pkt_init(&s->rx_pkt);
}

void unetmm_offload_exit(UnetmmState *s)
{
    net_tx_pkt_uninit(s->tx_pkt);
    net_rx_pkt_uninit(s->rx_pkt);
}

/*
 * A frame that net_tx_pkt cuts has lost FIN and PSH, which the last piece has
 * to have: its peer would wait for a FIN until it is sent again.  The checksum
 * follows (RFC 1624).
 */
static void offload_last(const UnetmmPieces *pieces, uint8_t *frame)
{
    struct tcp_hdr *tcp = (struct tcp_hdr *)(frame + pieces->tcp);
    uint32_t sum = (uint16_t)~be16_to_cpu(tcp->th_sum) + pieces->last_flags;

    tcp->th_flags |= pieces->last_flags;
    sum = (sum & 0xffff) + (sum >> 16);
    tcp->th_sum = cpu_to_be16(~sum);
}

/* Of a frame that is to be cut, which has a whole TCP header. */
static void offload_look(UnetmmPieces *pieces, const struct virtio_net_hdr *vh,
                         const uint8_t *frame, size_t bytes)
{
    const struct tcp_hdr *tcp;

    pieces->tcp = vh->csum_start;
    tcp = (const struct tcp_hdr *)(frame + pieces->tcp);
    pieces->last_flags = tcp->th_flags & (TH_FIN | TH_PUSH);
    pieces->left = bytes - MIN(bytes, vh->hdr_len);
}

static void offload_piece(void *opaque, const struct iovec *iov,
                          int iov_count, const struct iovec *virt_iov,
                          int virt_iov_count)
{
    UnetmmPieces *pieces = opaque;
    uint8_t frame[UNETMM_PIECE_BYTES];
    size_t bytes = iov_to_buf(iov, iov_count, 0, frame, sizeof(frame));

    if (pieces->tcp) {
        size_t header = pieces->tcp +
            ((struct tcp_hdr *)(frame + pieces->tcp))->th_off * 4;

        pieces->left -= MIN(pieces->left, bytes - MIN(bytes, header));
        if (!pieces->left) {
            offload_last(pieces, frame);
        }
    }
    pieces->out(pieces->opaque, frame, bytes);
}

/* The frame is the core's. */
static void offload_keep(void *context, void *base, size_t len)
{
}

bool unetmm_offload(void *host, uint8_t *frame, size_t bytes, uint32_t mss,
                    void (*out)(void *opaque, const uint8_t *frame,
                                size_t bytes), void *opaque)
{
    UnetmmPieces pieces = { .out = out, .opaque = opaque };
    UnetmmState *s = host;
    bool done;

    net_tx_pkt_add_raw_fragment(s->tx_pkt, frame, bytes);
    done = net_tx_pkt_parse(s->tx_pkt) &&
           net_tx_pkt_build_vheader(s->tx_pkt, mss, true, mss) &&
           (!mss || net_tx_pkt_get_vhdr(s->tx_pkt)->gso_type !=
            VIRTIO_NET_HDR_GSO_NONE);
    if (done && mss) {
        offload_look(&pieces, net_tx_pkt_get_vhdr(s->tx_pkt), frame, bytes);
        /* Without payload there is no piece to send. */
        done = pieces.left > 0;
    }
    if (done) {
        net_tx_pkt_update_ip_checksums(s->tx_pkt);
        done = net_tx_pkt_send_custom(s->tx_pkt, false, offload_piece,
                                      &pieces);
    }
    net_tx_pkt_reset(s->tx_pkt, offload_keep, NULL);
    return done;
}

bool unetmm_offload_checksum_ok(void *host, const uint8_t *frame,
                                size_t bytes)
{
    UnetmmState *s = host;
    bool ip4, ip6, valid = false;
    EthL4HdrProto l4;

    net_rx_pkt_attach_data(s->rx_pkt, frame, bytes, false);
    net_rx_pkt_get_protocols(s->rx_pkt, &ip4, &ip6, &l4);
    /* Of SCTP it takes for granted that the header is in the frame. */
    return (l4 == ETH_L4_HDR_PROTO_TCP || l4 == ETH_L4_HDR_PROTO_UDP) &&
           net_rx_pkt_validate_l4_csum(s->rx_pkt, &valid) && valid;
}
