/*
 * unetmm: channel type reliable
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_RELIABLE_H
#define UNETMM_RELIABLE_H

#include "packet.h"

/* reliable/channel.c */
extern const UnetmmChannelOps unetmm_channel_reliable;
UnetmmRel *unetmm_rel_new(UnetmmCore *core, UnetmmEp *ep, uint16_t slot);

/* reliable/save.c */
/* UnetmmSavedParts.connections and .connection */
void unetmm_rels_save(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep);
UnetmmRel *unetmm_rel_save_number(UnetmmStream *st, UnetmmCore *core,
                                  const UnetmmEp *ep, UnetmmRel *rel);
uint32_t unetmm_rel_credits(const UnetmmRel *rel);
/* Of module rel. */
void unetmm_rels_check(UnetmmStream *st, UnetmmCore *core);
uint64_t unetmm_rels_save_limit(const UnetmmCore *core);

/* reliable/share.c */
/* The system buffer's calls to its channels. */
extern const UnetmmShareOps unetmm_rel_share;

/* reliable/unasked.c */
UnetmmStores *unetmm_rel_stores(const UnetmmChannel *channel);
bool unetmm_rel_update(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                       const UnetmmUpdate *u);
void unetmm_rel_overrun(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel);
UnetmmPosted unetmm_rel_start(UnetmmCore *core, UnetmmEp *ep,
                              UnetmmChannel *channel, const UnetmmStart *start,
                              uint64_t addr);

#endif /* UNETMM_RELIABLE_H */
