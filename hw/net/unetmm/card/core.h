/*
 * unetmm: the card's core, as its hosts see it
 *
 * All of it runs under the host's one lock.  Every unetmm_core_*() function is
 * an entry point and may be called at any time, also from inside a host
 * operation that the core itself called: it then only leaves a note, which the
 * outer call works off (see card/engine.c).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_CORE_H
#define UNETMM_CORE_H

#include "../base/base.h"

/* card/card.c */
/* Returns NULL if all is in range, or one sentence for the user. */
const char *unetmm_params_check(const UnetmmParams *params);
/* Params must have passed unetmm_params_check(). */
void unetmm_core_init(UnetmmCore *core, const UnetmmParams *params,
                      const UnetmmHostOps *ops, void *host);
void unetmm_core_free(UnetmmCore *core);
/* Power-on, FLR: everything but params, knobs and link. */
void unetmm_core_reset(UnetmmCore *core);
void unetmm_core_set_seed(UnetmmCore *core, uint64_t seed);
void unetmm_engine_reset(UnetmmCore *core);

/* card/cmd.c */
void unetmm_cmd_run(UnetmmCore *core, uint32_t *budget);

/* card/endpoint.c */
/* All of EP_CREATE that does not touch memory. */
uint8_t unetmm_ep_setup(UnetmmCore *core, uint16_t id, uint16_t space,
                        const struct unetmm_cmd_ep *cmd);
uint8_t unetmm_ep_create(UnetmmCore *core, uint16_t id, uint16_t space,
                         const struct unetmm_cmd_ep *cmd);
/* *wait: a page is moving; unetmm_cmd_done_late() will follow. */
uint8_t unetmm_ep_destroy(UnetmmCore *core, uint16_t id, uint16_t tag,
                          bool *wait);
/* Serves the endpoint: all that it owes, and its share of its sends. */
void unetmm_ep_turn(UnetmmCore *core, UnetmmEp *ep);
/* There is room for frames: endpoints whose sends wait for it go on. */
void unetmm_ep_wire_room(UnetmmCore *core);

/* card/endpoint_save.c */
void unetmm_eps_save(UnetmmStream *st, UnetmmCore *core);
void unetmm_eps_check(UnetmmStream *st, UnetmmCore *core);

/* card/engine.c */
void unetmm_core_run(UnetmmCore *core);
void unetmm_core_timer(UnetmmCore *core);
/* The machine stands still: no work, no frame either way, until it goes on. */
void unetmm_core_pause(UnetmmCore *core, bool pause);
void unetmm_engine_enter(UnetmmCore *core);
void unetmm_engine_leave(UnetmmCore *core);

/* card/entry.c */
void unetmm_core_doorbell(UnetmmCore *core, uint32_t page);
/* A store to a proxy page, its first byte at `offset` of them, and a load. */
void unetmm_core_proxy_store(UnetmmCore *core, uint64_t offset,
                             uint64_t value);
uint32_t unetmm_core_proxy_load(UnetmmCore *core, uint64_t offset);
/* 1..8 bytes have been stored in the windows, from this byte of theirs on. */
void unetmm_core_store(UnetmmCore *core, uint32_t offset, const uint8_t *data,
                       unsigned bytes);
void unetmm_core_set_link(UnetmmCore *core, bool up);
bool unetmm_core_can_receive(UnetmmCore *core);
/* False: not taken, offer it again after may_receive(). */
bool unetmm_core_receive(UnetmmCore *core, const uint8_t *frame, size_t bytes);
/* The queued frame has gone (or was purged: sent false). */
void unetmm_core_sent(UnetmmCore *core, bool sent);

/* card/regs.c */
uint32_t unetmm_core_read(UnetmmCore *core, uint32_t offset, unsigned bytes);
void unetmm_core_write(UnetmmCore *core, uint32_t offset, uint32_t value,
                       unsigned bytes);

/* card/save.c */
/*
 * The card's whole state as one stream, and back.  Not from inside another
 * call.  Params must be the same in both places; paused and the link stay those
 * of the place.  Load checks every value: false leaves the card as after a
 * reset, and *why is one sentence, to be freed.
 */
GByteArray *unetmm_core_save(UnetmmCore *core);
bool unetmm_core_load(UnetmmCore *core, const void *buf, size_t bytes,
                      char **why);
/* No card with these params saves more bytes. */
uint64_t unetmm_core_save_limit(const UnetmmCore *core);
/*
 * The parameters of the card that saved these bytes, without the budgets.
 * NULL; or one sentence if the bytes are of no card.
 */
const char *unetmm_core_saved_params(const void *buf, size_t bytes,
                                     UnetmmParams *params);
/* Each save and load from now on is shown to it; NULL: to none. */
void unetmm_core_observe(UnetmmCore *core, const UnetmmObserver *observer);

/* card/tables.c */
extern const UnetmmTables unetmm_tables;

#endif /* UNETMM_CORE_H */
