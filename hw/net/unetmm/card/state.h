/*
 * unetmm: what is saved and restored, between the files that do it
 *
 * card/save.c       the order of all, and the card itself
 * xlat/save_tlb.c   translations
 * remote/save_region.c regions and imports
 * ep/save.c    endpoints, sends and misses
 * rel/save.c   reliable channels
 * rel/save_ops.c   what arrives on them of one-sided operations
 * remote/save_window.c windows, and what was stored in them
 * remote/save_eventcount.c event counters that somebody sleeps for
 * aside/save_sysbuf.c the system buffer and what is in its slots
 * ether/save_flow.c  flows of raw endpoints
 * aside/save_backup.c slots that wait for others
 * base/save_port.c  frames, and the message that is landing
 * card/check.c what must hold between them
 *
 * Each function writes or reads, by the stream.  Numbers that follow from
 * others are not saved: counts, holds on translations, addresses of pages.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_STATE_H
#define UNETMM_STATE_H

#include "core.h"
#include "../base/stream.h"

void unetmm_state_tlb(UnetmmStream *st, UnetmmCore *core, UnetmmTlb *tlb);
/* Holds the entry of one page of a transfer; `write`: the right it needs. */
void unetmm_state_page(UnetmmStream *st, UnetmmCore *core, const UnetmmEp *ep,
                       UnetmmPage *page, uint64_t vpn, bool write);
void unetmm_state_eps(UnetmmStream *st, UnetmmCore *core);
void unetmm_state_regions(UnetmmStream *st, UnetmmCore *core);
void unetmm_state_event_counters(UnetmmStream *st, UnetmmCore *core,
                                 uint16_t id);
void unetmm_state_counters_due(UnetmmStream *st, UnetmmCore *core);
void unetmm_state_imports(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep);
/* The reliable channels of an endpoint; then a packet that it sends. */
void unetmm_state_rels(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep);
void unetmm_state_packet(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep);
/* One of an endpoint's, or NULL, by its slot. */
UnetmmRel *unetmm_state_rel(UnetmmStream *st, UnetmmCore *core,
                            const UnetmmEp *ep, UnetmmRel *rel);
/* The header of a packet that is not kept whole; its psn and len are known. */
void unetmm_state_head(UnetmmStream *st, struct unetmm_frame *f);
/* The number of the packet that is kept in this place. */
uint32_t unetmm_state_psn(const UnetmmRel *rel, uint32_t slot);
/* What is left of a packet before its turn. */
void unetmm_state_early(UnetmmStream *st, UnetmmRel *rel, uint32_t slot);
/* What is rejected, the WRITE that arrives, answers, results. */
void unetmm_state_one_sided(UnetmmStream *st, UnetmmRel *rel);
void unetmm_state_target(UnetmmStream *st, UnetmmTarget *target);
/* May core->rx.head, one of its packets, go where core->rx has it go? */
bool unetmm_state_landing_ok(UnetmmCore *core, UnetmmRel *rel);
/* Of one channel, without the packets that it keeps. */
uint64_t unetmm_state_rel_limit(void);
/* Bytes of a send's frame, the page that moves; for both kinds of sends. */
void unetmm_state_gathered(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep);
bool unetmm_state_blocked_ok(const UnetmmTransfer *tx);
void unetmm_state_misses(UnetmmStream *st, UnetmmCore *core);
void unetmm_state_windows(UnetmmStream *st, UnetmmCore *core);
void unetmm_state_sysbuf(UnetmmStream *st, UnetmmCore *core);
void unetmm_state_slots(UnetmmStream *st, UnetmmCore *core);
/* A message lands: do channels wait for its end to look at their slots? */
void unetmm_state_held_up(UnetmmCore *core);
void unetmm_state_flows(UnetmmStream *st, UnetmmCore *core);
/* Slots of an endpoint that wait, and the tail; the bytes that they take. */
void unetmm_state_waiting(UnetmmStream *st, UnetmmEp *ep);
uint64_t unetmm_state_waiting_limit(const UnetmmCore *core);
/* May a message land in the next slot? */
bool unetmm_state_slot_ok(const UnetmmEp *ep);
void unetmm_state_proxies(UnetmmStream *st, UnetmmCore *core);
/* Of one channel. */
void unetmm_state_stores(UnetmmStream *st, UnetmmCore *core, UnetmmStores *s);
void unetmm_state_port(UnetmmStream *st, UnetmmCore *core);
void unetmm_state_landing(UnetmmStream *st, UnetmmCore *core);
/* A frame or a part of one; allocates when it is read. */
void unetmm_state_frame(UnetmmStream *st, UnetmmCore *core, uint8_t **frame,
                        uint32_t from, uint32_t to);

void unetmm_state_check(UnetmmStream *st, UnetmmCore *core);

#endif /* UNETMM_STATE_H */
