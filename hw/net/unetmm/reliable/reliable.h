/*
 * unetmm: channel type reliable
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_RELIABLE_H
#define UNETMM_RELIABLE_H

#include "packet.h"

/* channel.c */
extern const UnetmmChannelOps unetmm_channel_reliable;

/* misses.c */
UnetmmRel *unetmm_rel_new(UnetmmCore *core, UnetmmEp *ep, uint16_t slot);
/* Gives the connection a place in rel->all, and the misses of that place. */
void unetmm_rel_attach(UnetmmCore *core, UnetmmRel *rel, uint16_t slot);
void unetmm_rel_moved(UnetmmCore *core, UnetmmEp *ep);

/* receive.c */
extern const UnetmmLandingOps unetmm_landing_packet;
void unetmm_rel_receive(UnetmmCore *core, UnetmmEp *ep, UnetmmChannel *channel,
                        const struct unetmm_frame *f, const uint8_t *payload);
void unetmm_rel_landing_over(UnetmmCore *core);
/* Goes on behind slots; refused peers hear when they can come again. */
void unetmm_rel_look_again(UnetmmCore *core, UnetmmEp *ep);

/* save.c */
/* UnetmmSavedParts.connections and .connection */
void unetmm_rels_save(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep);
UnetmmRel *unetmm_rel_save_number(UnetmmStream *st, UnetmmCore *core,
                                  const UnetmmEp *ep, UnetmmRel *rel);
uint32_t unetmm_rel_credits(const UnetmmRel *rel);
void unetmm_rels_check(UnetmmStream *st, UnetmmCore *core);
uint64_t unetmm_rels_save_limit(const UnetmmCore *core);

/* save_packet.c */
/* UnetmmSavedParts.packet */
void unetmm_rel_save_packet(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep);
/*
 * May core->landing->header, one of its packets, go where core->landing has it
 * go?
 */
bool unetmm_rel_landing_ok(UnetmmCore *core, UnetmmRel *rel);
/* The number of the packet that is kept in this place. */
uint32_t unetmm_rel_kept_psn(const UnetmmRel *rel, uint32_t slot);
/* The kept part of a packet that came before its turn. */
void unetmm_rel_save_early(UnetmmStream *st, const UnetmmCore *core,
                           UnetmmRel *rel, uint32_t slot);
/* Rejections, the WRITE that arrives, answers, results. */
void unetmm_rel_save_one_sided(UnetmmStream *st, UnetmmRel *rel);

/* share.c */
/* The system buffer's calls to its channels. */
extern const UnetmmShareOps unetmm_rel_share;

/* timer.c */
void unetmm_rel_timer(UnetmmCore *core, int64_t now);

/* turn.c */
/* The channel whose turn it is to send a packet or an answer, or NULL. */
UnetmmRel *unetmm_rel_first(const UnetmmEp *ep);
bool unetmm_rel_next(UnetmmCore *core, UnetmmEp *ep, UnetmmTransfer *t);

/* complete.c */
/* Writes the completions that are due, as far as there is room. */
void unetmm_rel_complete(UnetmmCore *core, UnetmmEp *ep);
/* UnetmmChannelOps.completes */
bool unetmm_rel_completes(UnetmmCore *core, UnetmmEp *ep);
/* Has it nothing to do before one of its own events? */
bool unetmm_rel_quiet(UnetmmRel *rel);

/* unasked.c */
UnetmmStores *unetmm_rel_stores(const UnetmmChannel *channel);
bool unetmm_rel_update(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                       const UnetmmUpdate *u);
void unetmm_rel_overrun(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel);
UnetmmPosted unetmm_rel_start(UnetmmCore *core, UnetmmEp *ep,
                              UnetmmChannel *channel, const UnetmmStart *start,
                              uint64_t addr);

#endif /* UNETMM_RELIABLE_H */
