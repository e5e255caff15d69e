/*
 * unetmm: raw endpoints: Ethernet frames out, Ethernet frames in
 *
 * A frame goes out as it is, or (UNETMM_TX_*) after the host has cut it or has
 * made its checksum; then it goes where its address says: to the wire, to an
 * endpoint of this card, or, to a group, to both.  A frame that comes in is a
 * message in the endpoint's next slot.
 *
 * An endpoint of a process sends from addresses of its own only, and no
 * endpoint sends frames with the EtherType of the card's own protocol.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../aside/aside.h"
#include "../port/port.h"
#include "../send/send.h"
#include "ether.h"

/* Is the immediate of a frame's descriptor valid? */
static bool raw_imm_ok(uint32_t imm)
{
    uint32_t mss = UNETMM_GET(UNETMM_TX_MSS, imm);

    return !(imm & ~UNETMM_TX_ALL) &&
           (imm & UNETMM_TX_SEGMENT ? imm & UNETMM_TX_CSUM &&
            mss >= UNETMM_ETH_MIN_MSS && mss <= UNETMM_ETH_MAX : !mss);
}

static uint32_t raw_longest(uint32_t imm)
{
    return imm & UNETMM_TX_SEGMENT ? UNETMM_MAX_PAYLOAD : UNETMM_ETH_MAX;
}

/* UNETMM_ST_*; the counter of why not. */
static uint8_t raw_check(const UnetmmCore *core, const UnetmmEp *ep,
                         const UnetmmTransfer *tx, enum unetmm_counter *why)
{
    uint32_t offload = tx->desc.imm & (UNETMM_TX_CSUM | UNETMM_TX_SEGMENT);
    UnetmmEth eth;

    if (tx->desc.len < UNETMM_ETH_HEADER) {
        *why = UNETMM_C_drop_runt;
        return UNETMM_ST_BAD_DESC;
    }
    if (unetmm_eth_ours(tx->frame)) {
        *why = UNETMM_C_drop_forged;
        return UNETMM_ST_PROTECTION;
    }
    if (!unetmm_flow_source(core, ep, tx->frame + 6)) {
        *why = UNETMM_C_drop_source;
        return UNETMM_ST_PROTECTION;
    }
    if (offload) {
        unetmm_eth_parse(tx->frame, tx->desc.len, &eth);
        *why = UNETMM_C_drop_offload;
        if (offload & UNETMM_TX_SEGMENT ? eth.proto != UNETMM_IP_TCP :
            !eth.proto) {
            return UNETMM_ST_BAD_DESC;
        }
    }
    return UNETMM_ST_OK;
}

static uint8_t *raw_copy(UnetmmCore *core, const uint8_t *frame,
                         uint32_t bytes)
{
    uint8_t *copy = unetmm_port_buffer(core);

    memcpy(unetmm_frame_at(copy, 0, bytes), frame, bytes);
    return copy;
}

/* For the endpoints of this card; takes the frame. */
static void raw_keep(UnetmmCore *core, const UnetmmEp *ep, uint8_t *frame,
                     uint32_t bytes)
{
    core->counters[UNETMM_C_local_frames]++;
    unetmm_port_keep(core, frame, bytes, ep->id, UNETMM_NO_EP);
}

/* Sends one finished frame; takes the buffer. */
static UnetmmSent raw_out(UnetmmCore *core, const UnetmmEp *ep, uint8_t *frame,
                          uint32_t bytes)
{
    if (unetmm_eth_group(frame)) {
        raw_keep(core, ep, raw_copy(core, frame, bytes), bytes);
    } else if (unetmm_flow_local(core, frame)) {
        raw_keep(core, ep, frame, bytes);
        return UNETMM_SENT_DONE;
    }
    return unetmm_port_forward(core, frame, bytes);
}

typedef struct RawPieces {
    UnetmmCore *core;
    const UnetmmEp *ep;
    UnetmmSent sent;            /* the worst of them */
} RawPieces;

static void raw_piece(void *opaque, const uint8_t *frame, size_t bytes)
{
    RawPieces *pieces = opaque;
    UnetmmSent sent;

    if (bytes < UNETMM_ETH_HEADER || bytes > UNETMM_MAX_FRAME) {
        return;
    }
    /* The message's bytes are charged already; a frame costs the least. */
    unetmm_charge(pieces->core, 0, UNETMM_LEAST_BYTES);
    sent = raw_out(pieces->core, pieces->ep,
                   raw_copy(pieces->core, frame, bytes), bytes);
    if (sent == UNETMM_SENT_REFUSED) {
        pieces->sent = sent;
    }
}

/* A frame to be summed or cut loses its padding, which is no data. */
static bool raw_offload(UnetmmCore *core, UnetmmTransfer *tx, uint32_t mss,
                        RawPieces *pieces)
{
    UnetmmEth eth;

    unetmm_eth_parse(tx->frame, tx->desc.len, &eth);
    return core->ops->offload(core->host, tx->frame, tx->desc.len - eth.padding,
                              mss, raw_piece, pieces);
}

static uint8_t raw_emit(UnetmmCore *core, UnetmmEp *ep, UnetmmTransfer *tx)
{
    RawPieces pieces = { .core = core, .ep = ep, .sent = UNETMM_SENT_DONE };
    uint32_t mss = UNETMM_GET(UNETMM_TX_MSS, tx->desc.imm);

    if (!(tx->desc.imm & UNETMM_TX_CSUM)) {
        pieces.sent = raw_out(core, ep, g_steal_pointer(&tx->frame),
                              tx->desc.len);
    } else if (raw_offload(core, tx, mss, &pieces)) {
        unetmm_count(core, ep, mss ? UNETMM_C_eth_segmented :
                     UNETMM_C_eth_csums, 1);
    } else {
        unetmm_count(core, ep, UNETMM_C_drop_offload, 1);
        return UNETMM_ST_BAD_DESC;
    }
    unetmm_count(core, ep, UNETMM_C_eth_tx_frames, 1);
    unetmm_count(core, ep, UNETMM_C_eth_tx_bytes, tx->desc.len);
    return pieces.sent == UNETMM_SENT_REFUSED ? UNETMM_ST_REFUSED :
           UNETMM_ST_OK;
}

/*
 * Has the way that the frame goes room for all that is made of it?  If there
 * are more pieces than the local queue holds, its being empty will do.
 */
static bool raw_room(UnetmmCore *core, UnetmmTransfer *tx, bool local)
{
    uint32_t mss = UNETMM_GET(UNETMM_TX_MSS, tx->desc.imm);
    uint32_t pieces = mss ? (tx->desc.len + mss - 1) / mss : 1;
    uint32_t room = core->params.local_queue - core->port->fifo_used;

    if (local ? !core->engine.paused &&
                room >= MIN(pieces, core->params.local_queue) :
                unetmm_port_ready(core)) {
        return true;
    }
    unetmm_send_wait(core, tx);
    return false;
}

static void raw_transmit(UnetmmCore *core, UnetmmEp *ep, UnetmmTransfer *tx)
{
    enum unetmm_counter why;
    uint8_t status = raw_check(core, ep, tx, &why);
    bool local;

    if (status != UNETMM_ST_OK) {
        unetmm_count(core, ep, why, 1);
        trace_unetmm_drop(ep->id, why);
        unetmm_send_finish(tx, status);
        return;
    }
    local = !unetmm_eth_group(tx->frame) &&
            unetmm_flow_local(core, tx->frame);
    if (!local && !core->port->link) {
        unetmm_count(core, ep, UNETMM_C_drop_link, 1);
        unetmm_send_finish(tx, UNETMM_ST_LINK_DOWN);
    } else if (raw_room(core, tx, local)) {
        unetmm_port_turn_over(core, ep->id);
        unetmm_send_finish(tx, raw_emit(core, ep, tx));
    }
}

const UnetmmSqeOp unetmm_sqe_frame = {
    .flags = UNETMM_SQE_F_INLINE | UNETMM_SQE_F_QUIET, .raw = true,
};

const UnetmmFrameOps unetmm_raw_frames = {
    .transfer = { .transmit = raw_transmit },
    .imm_ok = raw_imm_ok,
    .longest = raw_longest,
};

/*
 * Two messages cannot land at the same time: one for a second endpoint waits
 * its turn meanwhile.
 */
void unetmm_raw_receive(UnetmmCore *core, UnetmmEp *ep, const uint8_t *frame,
                        size_t bytes, UnetmmSums *sums)
{
    struct unetmm_cqe cqe = {
        .opcode = UNETMM_CQE_RECEIVED, .len = bytes,
    };

    if (core->landing->active) {
        unetmm_port_keep(core, raw_copy(core, frame, bytes), bytes,
                         UNETMM_NO_EP, ep->id);
        return;
    }
    if (ep->error || !unetmm_ep_read_user(core, ep)) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_stopped);
        return;
    }
    if (*sums == UNETMM_SUMS_UNKNOWN) {
        *sums = core->ops->checksum_ok(core->host, frame, bytes) ?
                UNETMM_SUMS_RIGHT : UNETMM_SUMS_NOT;
    }
    if (*sums == UNETMM_SUMS_RIGHT) {
        cqe.flags = UNETMM_CQE_F_CSUM_OK;
    }
    unetmm_count(core, ep, UNETMM_C_eth_rx_frames, 1);
    unetmm_count(core, ep, UNETMM_C_eth_rx_bytes, bytes);
    ep->activity++;
    unetmm_slot_receive(core, ep, &cqe, frame);
    unetmm_ep_sync(core, ep);
}

/* ---- Saved state -------------------------------------------------------- */

/* A raw one, or none. */
static bool queued_ep_ok(const UnetmmCore *core, uint16_t id)
{
    return id == UNETMM_NO_EP || id == UNETMM_EP_GONE ||
           (id < core->params.endpoints && core->eps[id].live &&
            core->eps[id].raw);
}

/* Could each frame of the local queue have been put there? */
void unetmm_raw_check(UnetmmStream *st, UnetmmCore *core)
{
    const UnetmmPort *port = core->port;

    for (uint32_t i = 0; i < port->fifo_used; i++) {
        const UnetmmQueued *q = &port->fifo[(port->fifo_first + i) %
                                            core->params.local_queue];

        if (q->bytes > UNETMM_MAX_PAYLOAD && !unetmm_eth_ours(q->frame)) {
            unetmm_stream_refuse(st, "a frame is longer than any that is "
                                 "taken");
        }
        if (!queued_ep_ok(core, q->from) || !queued_ep_ok(core, q->only)) {
            unetmm_stream_refuse(st, "a frame is of an endpoint that there "
                                 "is not");
        }
    }
}
