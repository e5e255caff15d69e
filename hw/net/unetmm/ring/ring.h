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

/* ring/done.c */
/* Completes a command; and one that has had to wait (UnetmmCore.closing). */
void unetmm_cmd_done(UnetmmCore *core, uint16_t tag, uint8_t opcode,
                     uint8_t status, uint32_t result);
void unetmm_cmd_done_late(UnetmmCore *core, uint16_t tag, uint8_t opcode,
                          uint8_t status, uint32_t result);

/* ring/irq.c */
/* Ring memory is refused by the bus: the driver can be told nothing more. */
void unetmm_core_fatal(UnetmmCore *core);
void unetmm_event(UnetmmCore *core, uint32_t events);
void unetmm_irq_want(UnetmmCore *core, unsigned vector);
void unetmm_irq_flush(UnetmmCore *core);

/* ring/ring.c */
bool unetmm_ring_configure(UnetmmCore *core, unsigned ring, uint32_t reg,
                           uint32_t value);
uint32_t unetmm_ring_register(UnetmmCore *core, unsigned ring, uint32_t reg);
uint32_t unetmm_ring_room(const UnetmmRing *ring);
bool unetmm_ring_fetch_cmd(UnetmmCore *core, struct unetmm_cmd *cmd);
/* Leaves it there; rings[UNETMM_RING_BACKUP].cons is the caller's to move. */
bool unetmm_ring_peek_backup(UnetmmCore *core, struct unetmm_backup *buffer);
bool unetmm_ring_post_done(UnetmmCore *core, struct unetmm_cmd_done done);
bool unetmm_ring_post_fault(UnetmmCore *core, struct unetmm_fault fault);
bool unetmm_ring_post_notify(UnetmmCore *core, struct unetmm_notify notify);

#endif /* UNETMM_RING_H */
