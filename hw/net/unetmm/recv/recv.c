/*
 * unetmm: receiving: frames and their channels
 *
 * A frame, from the wire or from the card itself, is copied and checked once;
 * then its endpoint and channel, then its buffer.  Nothing here ever makes the
 * wire wait for one endpoint: a frame that cannot be placed is dropped and
 * counted.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../abi/unetmm_le.h"
#include "../channel/channel.h"
#include "../send/send.h"
#include "recv.h"

const UnetmmWireOp unetmm_wire_datagram = {
    .with = UNETMM_WITH_DATAGRAM, .flags = UNETMM_WIRE_F_PAYLOAD_CRC,
    .len = true,
};
static bool recv_ud_ok(const struct unetmm_frame *f)
{
    return f->len >= UNETMM_UD_HEAD &&
           (f->flags & UNETMM_WIRE_F_IMM || !f->imm);
}

const UnetmmWireOp unetmm_wire_send_to = {
    .with = UNETMM_WITH_UD,
    .flags = UNETMM_WIRE_F_PAYLOAD_CRC | UNETMM_WIRE_F_IMM,
    .handle = true, .imm = true, .len = true, .ok = recv_ud_ok,
};
const UnetmmWireOp unetmm_wire_control = {
    .flags = UNETMM_WIRE_F_PAYLOAD_CRC, .len = true,
};

bool unetmm_recv_members_ok(const UnetmmCore *core,
                            const struct unetmm_frame *f)
{
    const UnetmmWireOp *op = unetmm_wire_op(core, f->opcode);

    return op && !(f->flags & ~op->flags) && (op->psn || !f->psn) &&
           (op->offset || !f->offset) && (op->remote || !f->remote) &&
           (op->handle || !f->handle) && (op->imm || !f->imm) &&
           (op->len || !f->len) && (!op->ok || op->ok(f));
}

/* Copies and checks a frame's header.  False: dropped. */
static bool recv_header(UnetmmCore *core, const uint8_t *frame, size_t bytes,
                        struct unetmm_frame *f)
{
    uint32_t crc;

    if (bytes < sizeof(*f)) {
        unetmm_recv_drop(core, NULL, UNETMM_C_drop_malformed);
        return false;
    }
    memcpy(f, frame, sizeof(*f));
    crc = unetmm_crc32c(0, f, offsetof(struct unetmm_frame, header_crc));
    unetmm_le_frame(f);
    if (f->header_crc != crc) {
        unetmm_recv_drop(core, NULL, UNETMM_C_drop_crc);
        return false;
    }
    if (f->version != UNETMM_WIRE_VERSION ||
        f->flags & ~UNETMM_WIRE_F_ALL || f->len > UNETMM_MAX_PAYLOAD ||
        f->len > bytes - sizeof(*f) || (f->src[0] & 1) ||
        !unetmm_recv_members_ok(core, f)) {
        unetmm_recv_drop(core, NULL, UNETMM_C_drop_malformed);
        return false;
    }
    if (f->flags & UNETMM_WIRE_F_PAYLOAD_CRC &&
        unetmm_crc32c(0, frame + sizeof(*f), f->len) != f->payload_crc) {
        unetmm_recv_drop(core, NULL, UNETMM_C_drop_crc);
        return false;
    }
    return true;
}

static bool recv_channel_ok(const UnetmmCore *core, const UnetmmEp *ep,
                            const struct unetmm_frame *f)
{
    const UnetmmChannel *channel;

    if (f->dst_channel >= core->params.channels) {
        return false;
    }
    channel = &ep->channels[f->dst_channel];
    return channel->live &&
           channel->ops->with == unetmm_wire_op(core, f->opcode)->with &&
           f->len <= channel->mtu &&
           (unetmm_channel_is_ud(channel) ||
            (channel->peer_ep == f->src_ep &&
             !memcmp(channel->mac, f->src, sizeof(f->src))));
}

/* The endpoint that a frame is for; NULL: dropped. */
static UnetmmEp *recv_endpoint(UnetmmCore *core, const struct unetmm_frame *f)
{
    UnetmmEp *ep = unetmm_ep_live(core, f->dst_ep);

    if (!ep) {
        unetmm_recv_drop(core, NULL, UNETMM_C_drop_no_endpoint);
        return NULL;
    }
    if (ep->error) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_stopped);
        return NULL;
    }
    if (f->opcode == UNETMM_WIRE_CONTROL) {
        if (f->dst_ep == 0 && f->src_ep == 0) {
            return ep;
        }
        unetmm_recv_drop(core, NULL, UNETMM_C_drop_malformed);
        return NULL;
    }
    if (f->dst_ep == 0 || !recv_channel_ok(core, ep, f)) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_channel);
        return NULL;
    }
    return ep;
}

void unetmm_recv_inline(UnetmmCore *core, UnetmmEp *ep,
                        struct unetmm_cqe *cqe, const uint8_t *payload)
{
    uint32_t len = cqe->len;

    cqe->flags |= UNETMM_CQE_F_INLINE;
    memcpy(cqe->data, payload, len);
    if (unetmm_ep_complete(core, ep, cqe)) {
        unetmm_count(core, ep, UNETMM_C_rx_inline, 1);
        unetmm_recv_done(core, ep, len);
    } else {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_stopped);
    }
}

/*
 * No message fits into a buffer that is shorter than the shortest one.  The
 * process learns the reason from the buffer, which would else stay the first.
 */
static void recv_too_long(UnetmmCore *core, UnetmmEp *ep,
                          const struct unetmm_frame *f)
{
    if (f->opcode == UNETMM_WIRE_SEND_TO &&
        unetmm_recv_room(ep->queue) < UNETMM_UD_HEAD) {
        unetmm_head_return(core, ep, UNETMM_ST_TOO_LONG);
    }
}

static void recv_message(UnetmmCore *core, UnetmmEp *ep,
                         const struct unetmm_frame *f, const uint8_t *payload)
{
    struct unetmm_cqe cqe = {
        .opcode = UNETMM_CQE_RECEIVED, .len = f->len,
        .channel = f->dst_channel,
    };
    UnetmmPlacement *place = unetmm_recv_blank(core);
    enum unetmm_counter drop;
    UnetmmHead *head;

    if (unetmm_ep_slotted(ep)) {
        core->tables->slots->receive(core, ep, &cqe, payload);
        return;
    }
    ep->queue->activity++;
    if (!unetmm_ep_cq_spare(ep)) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_cq_full);
        ep->publish = true;
        return;
    }
    if (f->opcode == UNETMM_WIRE_CONTROL) {
        cqe.opcode = UNETMM_CQE_CONTROL;
        cqe.source = unetmm_mac_to_u64(f->src);
        cqe.channel = 0;
    } else if (f->opcode == UNETMM_WIRE_SEND_TO) {
        cqe.source = unetmm_mac_to_u64(f->src) |
                     UNETMM_PREP(UNETMM_UD_EP, (uint64_t)f->src_ep);
        unetmm_recv_imm(&cqe, f);
    } else if (f->len <= UNETMM_CQE_INLINE && !ep->no_inline) {
        unetmm_recv_inline(core, ep, &cqe, payload);
        return;
    }
    head = unetmm_recv_find_head(core, ep, &(UnetmmNeed) { .len = f->len },
                                 place, &drop);
    if (head) {
        unetmm_recv_land(core, ep, head, place, &cqe, payload);
    } else {
        unetmm_recv_drop(core, ep, drop);
    }
    if (!head && drop == UNETMM_C_drop_too_long) {
        recv_too_long(core, ep, f);
    }
}

static void recv_datagram(UnetmmCore *core, UnetmmEp *ep,
                          UnetmmChannel *channel, const struct unetmm_frame *f,
                          const uint8_t *payload)
{
    recv_message(core, ep, f, payload);
}

/* The number's next channel may lead to another peer. */
static void recv_clear(UnetmmCore *core, UnetmmEp *ep, UnetmmChannel *channel)
{
    unetmm_send_end(core, ep, channel - ep->channels);
}

const UnetmmChannelOps unetmm_channel_datagram = {
    .name = "datagram",
    .with = UNETMM_WITH_DATAGRAM,
    .clear = recv_clear,
    .receive = recv_datagram,
};

static void recv_ud(UnetmmCore *core, UnetmmEp *ep, UnetmmChannel *channel,
                    const struct unetmm_frame *f, const uint8_t *payload)
{
    if (ep->flushing) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_stopped);
    } else if (f->handle != channel->qkey) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_qkey);
    } else {
        recv_message(core, ep, f, payload);
    }
}

static void recv_ud_flush(UnetmmCore *core, UnetmmEp *ep,
                          UnetmmChannel *channel)
{
    unetmm_send_flush(core, ep);
}

/* A driver that posts does not translate segments behind inline bytes. */
static uint8_t recv_ud_set(UnetmmCore *core, UnetmmEp *ep,
                           UnetmmChannel *channel,
                           const struct unetmm_cmd_channel *cmd)
{
    struct unetmm_cmd_channel rest = *cmd;

    rest.channel = rest.mtu = rest.type = 0;
    rest.flags &= ~UNETMM_CHANNEL_F_TELL;
    return ep->posts ||
           !unetmm_all_zero(&rest, offsetof(struct unetmm_cmd_channel, rsvd)) ?
           UNETMM_CS_BAD_ARG : UNETMM_CS_OK;
}

const UnetmmChannelOps unetmm_channel_ud = {
    .name = "ud",
    .with = UNETMM_WITH_UD,
    .set = recv_ud_set,
    .clear = recv_clear,
    .receive = recv_ud,
    .flush = recv_ud_flush,
};

/* card/entry.c has checked the frame's Ethernet addresses and length. */
void unetmm_recv_frame(UnetmmCore *core, const uint8_t *frame, size_t bytes)
{
    struct unetmm_frame f;
    UnetmmEp *ep;

    if (!recv_header(core, frame, bytes, &f)) {
        return;
    }
    ep = recv_endpoint(core, &f);
    if (!ep) {
        return;
    }
    /* Room that the process has made since the last look counts. */
    if (!unetmm_ep_read_user(core, ep)) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_stopped);
        return;
    }
    if (f.opcode == UNETMM_WIRE_CONTROL) {
        recv_message(core, ep, &f, frame + sizeof(f));
    } else {
        UnetmmChannel *channel = &ep->channels[f.dst_channel];

        channel->ops->receive(core, ep, channel, &f, frame + sizeof(f));
    }
    if (!ep->error) {
        unetmm_head_fetch(core, ep);
    }
    unetmm_ep_sync(core, ep);
}
