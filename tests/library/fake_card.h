/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The card's half of one endpoint, over plain memory: it takes descriptors,
 * fills buffers and writes completions as unetmm_user.h says, and complains
 * about whatever the library may not write.
 */
#ifndef FAKE_CARD_H
#define FAKE_CARD_H

#include "queue/queue.h"

#include <stdbool.h>

#define FAKE_CHANNELS   16
#define FAKE_IMPORTS    8

struct fake_card {
    struct unetmm_endpoint layout;
    struct unetmm_ep_index *index;
    uint8_t *sq;
    struct unetmm_fqe *fq;
    struct unetmm_cqe *cq;
    uint32_t sq_cons;
    uint32_t fq_cons;
    uint32_t cq_prod;
    uint32_t woken_for;         /* cq_arm that was answered */
    int event_fd;
    void *queues;
};

struct fake_message {
    uint64_t cookie;
    uint32_t len;
    uint32_t slots;
    unsigned nsegs;
    uint16_t channel;
    bool is_inline;
    bool quiet;
    bool notify;
    bool count;
    bool has_imm;               /* for the peer's completion */
    bool keyed;                 /* `import` is a key, of this region */
    uint16_t region;
    uint8_t opcode;
    uint32_t imm;
    uint32_t import;
    uint64_t offset;
    void *to;                   /* READ: its first segment */
    uint8_t data[65536];
};

/*
 * Allocates queue memory, in pages of its own.  All indices start at `start`,
 * which must be even in units of the completion queue's depth: the phase bit
 * of zeroed memory says "not written" then.
 */
void fake_card_init(struct fake_card *card, unsigned sq_log2, unsigned fq_log2,
                    unsigned cq_log2, int event_fd);
void fake_card_free(struct fake_card *card);

/*
 * The next descriptor; false: there is none.  A malformed one aborts.  For a READ
 * nothing is taken from its segments but the length.
 */
bool fake_card_take(struct fake_card *card, struct fake_message *message);

/* False: the completion queue is full. */
bool fake_card_complete(struct fake_card *card, const struct unetmm_cqe *cqe);

/* A send is done: its completion, unless it is quiet. */
bool fake_card_sent(struct fake_card *card,
                    const struct fake_message *message);

/* Says that a send is complete, as soon as there is room for that. */
void fake_card_send_done(struct fake_card *card, uint64_t cookie);

/*
 * A message arrives; with `allow_inline`, a short one goes into the completion.
 * False: it is dropped, for want of a buffer or of room for the completion.
 */
bool fake_card_deliver(struct fake_card *card, unsigned channel,
                       const void *data, uint32_t len, bool allow_inline);

/* Gives the next free buffer back with this type and status. */
bool fake_card_return(struct fake_card *card, uint8_t status);

/* A peer has written so many bytes with `imm`: takes a buffer, and returns it unfilled. */
bool fake_card_written(struct fake_card *card, unsigned channel, uint32_t len,
                       uint32_t imm);

void fake_card_state(struct fake_card *card, uint32_t state);

/* ---- For tests without a driver ---------------------------------------- */

struct fake_endpoint {
    struct fake_card card;
    struct unetmm_ep_private *private;
    struct unetmm_ep *ep;
    uint32_t *doorbell;
    size_t doorbell_bytes;
};

/* An endpoint of the library on a fake card, with channel 1 of MTU 65536. */
void fake_endpoint_init(struct fake_endpoint *fake, unsigned sq_log2,
                        unsigned fq_log2, unsigned cq_log2, uint32_t start);
void fake_endpoint_free(struct fake_endpoint *fake);

/* True once after each doorbell. */
bool fake_endpoint_rung(struct fake_endpoint *fake);

#endif /* FAKE_CARD_H */
