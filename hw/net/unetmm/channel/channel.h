/*
 * unetmm: channels, and the operations of a type of channel
 *
 * One file fills one UnetmmChannelOps; card/tables.c lists the types.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_CHANNEL_H
#define UNETMM_CHANNEL_H

#include "../ep/ep.h"

typedef struct UnetmmUpdate UnetmmUpdate;
typedef struct UnetmmLandingOps UnetmmLandingOps;

typedef struct UnetmmChannel {
    bool live;
    bool tells_end;             /* the process wants to know of its end */
    bool strict;                /* UNETMM_CHANNEL_F_STRICT */
    uint8_t end_owed;           /* UNETMM_ST_* of a CLOSED to come; OK: none */
    uint8_t mac[6];
    uint16_t peer_ep;
    uint16_t peer_channel;
    uint32_t mtu;
    uint32_t longest;           /* message */
    uint8_t peer_takes;         /* UNETMM_CHANNEL_F_PEER: its card's packets */
    uint32_t qkey;              /* UD */
    const UnetmmChannelOps *ops;
    UnetmmRel *rel;             /* RELIABLE: its connection */
} UnetmmChannel;

typedef enum UnetmmPosted {
    UNETMM_POSTED,              /* taken over, the descriptor is free */
    UNETMM_POST_FULL,           /* ask again when a send has completed */
    UNETMM_POST_FAILED,         /* complete it with ST_FLUSHED */
} UnetmmPosted;

/*
 * A frame's opcode: the members that may be nonzero.  card/tables.c lists the
 * rows.
 */
struct UnetmmWireOp {
    uint32_t with;              /* UNETMM_WITH_*: channels that have it; or 0 */
    uint32_t flags;             /* UNETMM_WIRE_F_* */
    bool psn, offset, remote, handle, imm, len;
    bool (*ok)(const struct unetmm_frame *f);   /* further checks; or NULL */
};

/* NULL: there is no such opcode. */
static inline const UnetmmWireOp *unetmm_wire_op(const UnetmmCore *core,
                                                 uint8_t opcode)
{
    return opcode < core->tables->nwires ? core->tables->wires[opcode] : NULL;
}

/* A channel type.  One file fills one. */
struct UnetmmChannelOps {
    const char *name;
    uint32_t with;              /* UNETMM_WITH_*: for policies and frames */
    /*
     * Looks at the type's own part of CHANNEL_SET.  Returns UNETMM_CS_*; may be
     * NULL.
     */
    uint8_t (*set)(UnetmmCore *core, UnetmmEp *ep, UnetmmChannel *channel,
                   const struct unetmm_cmd_channel *cmd);
    /* Checks all of CHANNEL_MODIFY, and does it.  NULL: there is none. */
    uint8_t (*modify)(UnetmmCore *core, UnetmmEp *ep, UnetmmChannel *channel,
                      const struct unetmm_cmd_modify *cmd);
    /*
     * The channel is no more; its number may be used again, so nothing that
     * names it may be left, imports among it.  May be NULL.
     */
    void (*clear)(UnetmmCore *core, UnetmmEp *ep, UnetmmChannel *channel);
    /*
     * Takes a message over, its inline bytes at `data`.  NULL: a message is one
     * frame, gathered and sent at once.
     */
    UnetmmPosted (*post)(UnetmmCore *core, UnetmmEp *ep,
                         UnetmmChannel *channel, const UnetmmDescriptor *d,
                         const uint8_t *data);
    /* A frame that is the channel's, checked as far as all types have it. */
    void (*receive)(UnetmmCore *core, UnetmmEp *ep, UnetmmChannel *channel,
                    const struct unetmm_frame *f, const uint8_t *payload);

    /* The channel fails with ST_FLUSHED; NULL: it has no such end. */
    void (*flush)(UnetmmCore *core, UnetmmEp *ep, UnetmmChannel *channel);

    /* With `post` there are all of these, without it none. */
    /* May the one-sided operation, whose length is known, be? */
    bool (*allows)(const UnetmmCore *core, const UnetmmEp *ep,
                   const UnetmmDescriptor *d);
    /* Of all channels of this type that the endpoint has (UnetmmEp.rels): */
    /* makes *tx the next packet; false: there is none to be sent now. */
    bool (*next)(UnetmmCore *core, UnetmmEp *ep, UnetmmTransfer *tx);
    /* Is there a packet to be sent? */
    bool (*has_work)(UnetmmCore *core, UnetmmEp *ep);
    /* Is a completion due, which there is room for, or a channel over? */
    bool (*completes)(UnetmmCore *core, UnetmmEp *ep);
    /* Is a send of it, or a buffer, still to come back? */
    bool (*busy)(const UnetmmChannel *channel);
    /* Is a buffer that some channel has taken to go back first? */
    bool (*gives_back)(const UnetmmEp *ep);
    /* Does a buffer that failed stay until a message or a flush comes? */
    bool (*keeps_failed)(const UnetmmEp *ep);
    /* Sends of cleared channels of the number that have no completion yet. */
    uint32_t (*owed)(const UnetmmEp *ep, uint16_t number);
    /* A part of a region of its space is not where it was, or not held. */
    void (*moved)(UnetmmCore *core, UnetmmEp *ep);
    /* The channel's queue of window stores; NULL: it takes none. */
    UnetmmStores *(*stores)(const UnetmmChannel *channel);
    /* Takes stores over.  False: no room for another message now. */
    bool (*update)(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                   const UnetmmUpdate *u);
    /* There is no room for another store: the channel fails. */
    void (*overrun)(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel);
    /* Takes over a DMA start of proxy pages, from this address on. */
    UnetmmPosted (*start)(UnetmmCore *core, UnetmmEp *ep,
                          UnetmmChannel *channel, const UnetmmStart *start,
                          uint64_t addr);
    const UnetmmLandingOps *landing;    /* its packets'; NULL: none land */
};

/* Has it no peer, but messages that name theirs? */
static inline bool unetmm_channel_is_ud(const UnetmmChannel *channel)
{
    return channel->ops->with == UNETMM_WITH_UD;
}

/* channel/channel.c */
uint8_t unetmm_channel_set(UnetmmCore *core, uint16_t id,
                           const struct unetmm_cmd_channel *cmd);
uint8_t unetmm_channel_modify(UnetmmCore *core, uint16_t id,
                              const struct unetmm_cmd_modify *cmd);
/* *result: completions of ended channels of the number that wait for room. */
uint8_t unetmm_channel_clear(UnetmmCore *core, uint16_t id,
                             const struct unetmm_cmd_channel *cmd,
                             uint32_t *result);
/*
 * Ends a channel that its process has not ended: it gets one completion, when
 * there is room.
 */
void unetmm_channel_ended(UnetmmCore *core, UnetmmEp *ep, uint16_t number,
                          uint8_t status);
/* Is one due: have all messages of its channel their completions? */
bool unetmm_channel_tells(const UnetmmCore *core, const UnetmmEp *ep);
void unetmm_channel_tell(UnetmmCore *core, UnetmmEp *ep);
uint8_t unetmm_channel_type(const UnetmmCore *core,
                            const UnetmmChannel *channel);

#endif /* UNETMM_CHANNEL_H */
