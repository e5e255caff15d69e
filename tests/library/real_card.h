/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The card's core in the process of a test.  DMA addresses are the process's addresses,
 * so that the card uses the queues of the library; every page of the process is there.
 * The caller is the driver: it gives commands, and is called for notifications.
 *
 * There is one card a process, and the caller has the lock that all calls need.
 */
#ifndef REAL_CARD_H
#define REAL_CARD_H

#include "unetmm_hw.h"

#include <linux/unetmm.h>
#include <stdbool.h>

#define REAL_ENDPOINTS  8u      /* at a time, by index from 0 on */
#define REAL_CHANNELS   80u
#define REAL_IMPORTS    80u
#define REAL_REGIONS    16u
#define REAL_MTU        9000u
#define REAL_SPACE      1

/* Memory that an endpoint's process and its card share */
struct real_endpoint {
    bool live;                  /* the card has it */
    struct unetmm_endpoint layout;
    void *queues;               /* NULL: this index is free */
    uint32_t *doorbell;
    struct unetmm_ep_index *index;
    bool rung;                  /* its doorbell, since it was last allowed to send */
};

extern struct real_endpoint real_endpoints[REAL_ENDPOINTS];

struct real_card_driver {
    /* Completions and counters that were armed; an endpoint that was stopped */
    void (*notified)(const struct unetmm_notify *notify);
    /*
     * The fault in front of the card, which reads this value as the producer index of
     * the endpoint's send queue.  The value never goes back.
     */
    uint32_t (*shown)(unsigned endpoint, uint32_t sq_prod);
};

/* A card with one space; `counters`: the page of its event counters. */
void real_card_start(const uint8_t mac[6], void *counters,
                     const struct real_card_driver *driver);
void real_card_stop(void);

/* Gives a command and waits for its end.  Returns its status, UNETMM_CS_*. */
uint8_t real_card_command(struct unetmm_cmd cmd, uint32_t *result);

/* Reads a counter of the card. */
uint64_t real_card_counter(unsigned n);

/*
 * From now on this page does not come, as one of a userfaultfd whose program stands still;
 * NULL: all pages do.  One page at a time.
 */
void real_card_hide(const void *page);

/* Works off all that the card can do now.  True: it did something. */
bool real_card_turn(void);

/* Makes an endpoint, and completes the request but for its places; -1: no room. */
int real_endpoint_open(struct unetmm_endpoint *request);
void real_endpoint_close(unsigned endpoint);
/* The process has unmapped it. */
void real_endpoint_free(unsigned endpoint);

/* One end of a reliable channel on this card.  `how`: flags, timeouts and retries. */
void real_channel_set(unsigned endpoint, unsigned channel, struct unetmm_cmd_channel how,
                      unsigned peer, unsigned peer_channel);
void real_channel_clear(unsigned endpoint, unsigned channel, uint8_t flags);

#endif /* REAL_CARD_H */
