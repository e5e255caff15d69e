/*
 * unetmm: the heads of the free queues: buffers that have been fetched
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_HEAD_H
#define UNETMM_HEAD_H

#include "../ep/ep.h"

#define UNETMM_HEAD_ASKS        4       /* of the first head in one activity */
#define UNETMM_HEAD_STEP        16      /* pages looked at ahead at a time */

typedef enum UnetmmHeadState {
    UNETMM_HEAD_CHECK,          /* look whether its pages are there */
    UNETMM_HEAD_READY,
    UNETMM_HEAD_ASKED,
    UNETMM_HEAD_DEFERRED,
    UNETMM_HEAD_FAILED,         /* comes back with `status` in its turn */
} UnetmmHeadState;

typedef struct UnetmmHead {
    UnetmmHeadState state;
    uint8_t status;
    bool zero;                  /* UNETMM_FQE_F_ZERO */
    bool chain;                 /* the buffer goes on in the next head */
    uint32_t asked_in;          /* activity in which it was asked last ... */
    uint32_t asks;              /* ... and how often in that one */
    uint32_t checked;           /* CHECK: pages from its first, found there */
    uint32_t len;
    uint64_t addr;
    uint64_t cookie;
} UnetmmHead;

struct UnetmmHeads {
    UnetmmHead *all;            /* UNETMM_MAX_HEADS of each endpoint */
    bool behind;                /* some endpoint has heads to look at */
};

/* Memory of a buffer, which has as many parts as heads. */
typedef struct UnetmmPart {
    uint64_t addr;
    uint32_t len;
} UnetmmPart;

/* recv/head.c: the pre-translated heads of the free queues */
void unetmm_head_begin(UnetmmCore *core, UnetmmEp *ep);
void unetmm_head_fetch(UnetmmCore *core, UnetmmEp *ep);
UnetmmHead *unetmm_head_at(UnetmmEp *ep, uint32_t n);
/* Heads of the first buffer; 0: there is none, or its end is not here yet. */
uint32_t unetmm_head_run(UnetmmEp *ep);
/* Lists the parts of that buffer, UNETMM_MAX_SEGS at most; their number. */
uint32_t unetmm_head_parts(UnetmmEp *ep, UnetmmPart *parts);
/* The head for which the first buffer has to go back; NULL: it need not. */
UnetmmHead *unetmm_head_failed(UnetmmEp *ep);
/* The failed head whose buffer goes back without a message; or NULL. */
const UnetmmHead *unetmm_head_to_return(UnetmmEp *ep);
/* The head asks no more; its buffer goes back with `status` in its turn. */
void unetmm_head_fail(UnetmmCore *core, UnetmmEp *ep, UnetmmHead *head,
                      uint8_t status);
/* Heads before the next one that are of the same buffer. */
uint32_t unetmm_head_chained(UnetmmEp *ep);
/*
 * Is there a first buffer that waits for no reply, and has not failed?  In a
 * shared queue, or of a strict channel, it may have failed: the next message
 * takes it.
 */
bool unetmm_heads_settled(UnetmmEp *ep);
/* CHANNEL_F_FLUSH: are the buffers to go back now? */
bool unetmm_heads_flush_due(UnetmmEp *ep);
/* Is there a descriptor to be fetched? */
bool unetmm_heads_wanted(UnetmmEp *ep);
/*
 * May it have buffers without memory?  With short messages inside completions
 * no SEND is for them.
 */
bool unetmm_head_may_be_empty(const UnetmmEp *ep);
/* Pages of a buffer or head; one without memory has none. */
static inline uint64_t unetmm_head_npages(uint64_t addr, uint32_t len)
{
    return len ? unetmm_pte_pages(addr, len) : 0;
}
/* May its buffers have so many pages? */
bool unetmm_head_may_have(const UnetmmCore *core, const UnetmmEp *ep,
                          uint64_t pages);
bool unetmm_head_may_zero(const UnetmmSourceOps *source, uint64_t addr,
                          uint32_t len);
/* Later messages go on, in the main loop. */
void unetmm_heads_go_on(UnetmmCore *core);
/* The free descriptor of a slot.  False: the bus refused it; it is stopped. */
bool unetmm_head_read(UnetmmCore *core, UnetmmEp *ep, uint32_t slot,
                      struct unetmm_fqe *fqe);
/* UNETMM_ST_OK; or why it is returned. */
uint8_t unetmm_head_status(UnetmmCore *core, UnetmmEp *ep,
                           const struct unetmm_fqe *fqe);
/*
 * For a message of `len` bytes: are the pages that it touches there?  Then they
 * are held, for the caller to release.
 */
bool unetmm_head_pages(UnetmmCore *core, UnetmmEp *ep, UnetmmHead *head,
                       uint32_t len, UnetmmPage *pages, uint32_t *npages);
bool unetmm_head_begins(UnetmmCore *core, UnetmmEp *ep, UnetmmHead *head,
                        uint32_t len);
/*
 * Take all heads of the first buffer of the endpoint's queue, whose end must be
 * there.  The second one gives it back to the endpoint.
 */
void unetmm_head_pop(UnetmmCore *core, UnetmmEp *ep);
bool unetmm_head_return(UnetmmCore *core, UnetmmEp *ep, uint8_t status);

#endif /* UNETMM_HEAD_H */
