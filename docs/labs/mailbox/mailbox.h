/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm lab `mailbox`: messages through exported memory
 *
 * The consumer exports SLOTS slots; the producer imports them and writes messages
 * into them.  The producer exports one word of credit, which the consumer writes.
 * The processes share nothing else.
 */
#ifndef LAB_MAILBOX_H
#define LAB_MAILBOX_H

#include <libunetmm.h>

#define SLOTS       16u
#define MESSAGE_MAX 252u

struct slot {
    uint32_t length;
    uint8_t data[MESSAGE_MAX];
};

struct producer {
    struct unetmm_ep *ep;
    unsigned import;                    /* of the consumer's slots */
    volatile uint64_t *credit;          /* exported: the consumer writes it */
    struct slot copy[SLOTS];            /* to write from */
    uint64_t put;                       /* messages so far */
};

struct consumer {
    struct unetmm_ep *ep;
    unsigned import;                    /* of the producer's credit */
    const struct slot *slots;           /* exported: the producer writes them */
    uint64_t taken;                     /* messages so far */
};

/* Yours.  Waits for a free slot; 0, or -errno. */
int mailbox_put(struct producer *p, const void *message, uint32_t length);
/* Yours.  Waits for the next message; its length, or -errno. */
int mailbox_get(struct consumer *c, void *message);

#endif /* LAB_MAILBOX_H */
