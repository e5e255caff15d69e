/*
 * unetmm: the rings that the card shares with the driver: commands and their
 * completions, reports of misses, notifications, backup buffers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_RING_H
#define UNETMM_RING_H

#include "../base/base.h"

typedef struct UnetmmRing {
    uint64_t base;
    uint32_t log2;
    uint32_t entry_bytes;
    uint32_t prod;              /* both run freely over 32 bits */
    uint32_t cons;
    uint32_t moderate_ns;
    bool enabled;
} UnetmmRing;

/* An interrupt: wanted, and when it may be sent next. */
typedef struct UnetmmVector {
    bool pending;
    int64_t not_before_ns;
} UnetmmVector;

struct UnetmmRings {
    UnetmmRing all[UNETMM_NUM_RINGS];
    UnetmmVector vectors[UNETMM_NUM_VECTORS];
    bool vectors_wait;          /* one does, since the last flush */
    uint32_t events, event_mask;
    uint32_t late;              /* commands that wait for a page to land */
};

/* ring/done.c */
/*
 * Completes a command; or promises a completion, which comes late, for a
 * command that waits for a page.
 */
void unetmm_cmd_done(UnetmmCore *core, uint16_t tag, uint8_t opcode,
                     uint8_t status, uint32_t result);
void unetmm_cmd_later(UnetmmCore *core);
void unetmm_cmd_done_late(UnetmmCore *core, uint16_t tag, uint8_t opcode,
                          uint8_t status, uint32_t result);

/* ring/irq.c */
/* Ring memory is refused by the bus: the driver can be told nothing more. */
void unetmm_core_fatal(UnetmmCore *core);
void unetmm_event(UnetmmCore *core, uint32_t events);
/* EVENTS and EVENT_MASK have been written. */
void unetmm_events_clear(UnetmmCore *core, uint32_t events);
void unetmm_events_mask(UnetmmCore *core, uint32_t mask);
void unetmm_irq_want(UnetmmCore *core, unsigned vector);
void unetmm_irq_flush(UnetmmCore *core);

/* ring/ring.c */
bool unetmm_ring_configure(UnetmmCore *core, unsigned ring, uint32_t reg,
                           uint32_t value);
uint32_t unetmm_ring_register(UnetmmCore *core, unsigned ring, uint32_t reg);
uint32_t unetmm_ring_room(const UnetmmRing *ring);
bool unetmm_ring_fetch_cmd(UnetmmCore *core, struct unetmm_cmd *cmd);
/* Leaves the buffer in the ring; unetmm_ring_take_backup() takes it. */
bool unetmm_ring_peek_backup(UnetmmCore *core, struct unetmm_backup *buffer);
void unetmm_ring_take_backup(UnetmmCore *core);
bool unetmm_ring_post_done(UnetmmCore *core, struct unetmm_cmd_done done);
bool unetmm_ring_post_fault(UnetmmCore *core, struct unetmm_fault fault);
bool unetmm_ring_post_notify(UnetmmCore *core, struct unetmm_notify notify);

#endif /* UNETMM_RING_H */
