/*
 * unetmm: the port: frames to the wire and to the card itself, and back
 *
 * Frames stand in buffers of unetmm_port_buffer().  A frame that is given to
 * the port belongs to it.  Frames for the card wait in one queue, and go up
 * through UnetmmPortOps while the budget lasts.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_PORT_H
#define UNETMM_PORT_H

#include "../base/base.h"

#define UNETMM_POOL_FRAMES      64      /* frame buffers that nobody uses */
#define UNETMM_HOLD_NS          1000000 /* x-reorder: at most so long */
#define UNETMM_MAX_DELAYED      64      /* x-delay: frames at a time */

/* A frame that waits for its turn on the receive side. */
typedef struct UnetmmQueued {
    uint8_t *frame;
    uint32_t bytes;
    uint16_t from;              /* the raw endpoint it comes from, or NO_EP */
    uint16_t only;              /* the one endpoint it is for, or NO_EP */
} UnetmmQueued;

/* Operations of the rooms above the port. */
struct UnetmmPortOps {
    /* Takes a frame that has come to its turn; the buffer stays the port's. */
    void (*frame)(UnetmmCore *core, const UnetmmQueued *q);
    /* Is a message landing, so that no frame can be taken? */
    bool (*busy)(const UnetmmCore *core);
    /* There is room for frames, which somebody waits for (port.wanted). */
    void (*room)(UnetmmCore *core);
};

/* x-delay: a frame and the moment at which it goes. */
typedef struct UnetmmDelayed {
    uint8_t *frame;
    uint32_t bytes;
    int64_t due_ns;
} UnetmmDelayed;

typedef struct UnetmmPort {
    bool link;
    uint32_t busy;              /* frames that the net layer owns */
    bool wanted;                /* an endpoint is BLOCKED_WIRE */
    bool warned_self;
    UnetmmQueued *fifo;         /* local_queue of them */
    uint32_t fifo_first, fifo_used;
    uint8_t *reordered;              /* x-reorder: goes after the next frame */
    uint32_t reordered_bytes;
    int64_t reordered_until_ns;
    UnetmmDelayed delayed[UNETMM_MAX_DELAYED];  /* circular, in order */
    uint32_t delayed_first, delayed_used;
    uint32_t wire_turn;         /* the first to be looked at for the wire */
    GPtrArray *pool;            /* UNETMM_POOL_FRAMES buffers at most */
} UnetmmPort;

/* The endpoint has used the wire: the next one is looked at first. */
static inline void unetmm_port_turn_over(UnetmmCore *core, uint16_t ep)
{
    core->port->wire_turn = (ep + 1) % core->params.endpoints;
}

static inline uint64_t unetmm_mac_to_u64(const uint8_t *mac)
{
    uint64_t v = 0;

    for (int i = 5; i >= 0; i--) {
        v = v << 8 | mac[i];
    }
    return v;
}

static inline void unetmm_mac_from_u64(uint8_t *mac, uint64_t v)
{
    for (int i = 0; i < 6; i++) {
        mac[i] = v >> (8 * i);
    }
}

/*
 * Where bytes [at, + n) of a buffer of unetmm_port_buffer() are, to be written:
 * it has them, or the program ends here, in every build: behind a buffer is
 * other memory.  Code that writes a variable number of bytes into such a buffer
 * takes the place from here.
 */
static inline uint8_t *unetmm_frame_at(uint8_t *frame, uint32_t at, uint32_t n)
{
    assert(at <= UNETMM_MAX_FRAME && n <= UNETMM_MAX_FRAME - at);
    return frame + at;
}

/* Is the frame of the card's own protocol? */
static inline bool unetmm_eth_ours(const uint8_t *frame)
{
    const uint8_t *type = frame + 2 * sizeof(((UnetmmParams *)NULL)->mac);

    return type[0] == UNETMM_ETHERTYPE >> 8 &&
           type[1] == (UNETMM_ETHERTYPE & 0xff);
}

/* Are there frames that could be given to the receive side now? */
static inline bool unetmm_port_waits(const UnetmmCore *core)
{
    return core->port->fifo_used && !core->tables->port->busy(core);
}

/* A frame that is saved takes so many bytes at most. */
#define UNETMM_SAVED_FRAME      (UNETMM_MAX_FRAME + 64)

/* port/delay.c */
bool unetmm_delay_room(const UnetmmCore *core);
bool unetmm_delay_take(UnetmmCore *core, uint8_t *frame, uint32_t bytes);
void unetmm_delay_save(UnetmmStream *st, UnetmmCore *core);

/* port/port.c */
uint8_t *unetmm_port_buffer(UnetmmCore *core);
void unetmm_port_release(UnetmmCore *core, uint8_t *frame);
bool unetmm_port_ready(const UnetmmCore *core);
/* Has this frame's way out room now: the wire, or the card's own queue? */
bool unetmm_port_open(const UnetmmCore *core, const uint8_t *frame);
/* Takes the frame, and sends it without a check or a delay. */
UnetmmSent unetmm_port_emit(UnetmmCore *core, uint8_t *frame, uint32_t bytes);
/* Takes the frame; it must have come from unetmm_port_buffer(). */
UnetmmSent unetmm_port_transmit(UnetmmCore *core, uint8_t *frame,
                                uint32_t bytes);
/* The same for a frame that is not of the card's own protocol: to the wire. */
UnetmmSent unetmm_port_forward(UnetmmCore *core, uint8_t *frame,
                               uint32_t bytes);
/* Queues a frame for the receive side (UnetmmQueued); takes it. */
void unetmm_port_keep(UnetmmCore *core, uint8_t *frame, uint32_t bytes,
                      uint16_t from, uint16_t only);
bool unetmm_port_local(const UnetmmCore *core, const uint8_t *frame);
/* Gives the queued frames to the receive side, as far as the budget goes. */
void unetmm_port_drain(UnetmmCore *core);
/* The wire or the local queue has room. */
void unetmm_port_room(UnetmmCore *core);
void unetmm_port_flush_reordered(UnetmmCore *core, bool due);
/* Bytes [from, to) of a frame; allocates when it is read. */
void unetmm_port_save_frame(UnetmmStream *st, UnetmmCore *core,
                            uint8_t **frame, uint32_t from, uint32_t to);
/* A frame that is complete, and is sent as it is. */
void unetmm_port_save_sealed(UnetmmStream *st, UnetmmCore *core,
                             uint8_t **frame, uint32_t *bytes);

#endif /* UNETMM_PORT_H */
