/*
 * unetmm: packets that wait because their memory is absent: in the system
 * buffer (policy redirect) or the backup ring (policy backup)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_ASIDE_H
#define UNETMM_ASIDE_H

#include "../recv/recv.h"

typedef struct UnetmmShare UnetmmShare;

/*
 * A slot of the free queue that is taken, and waits for those before it: the
 * values of its completion.
 */
typedef struct UnetmmTaken {
    uint64_t cookie;
    uint32_t len;
    uint16_t channel;
    uint8_t status;             /* UNETMM_ST_*; not OK: CQE_BUFFER */
    uint8_t flags;              /* UNETMM_CQE_F_* */
} UnetmmTaken;

typedef enum UnetmmSysbufState {
    UNETMM_SLOT_FREE,
    UNETMM_SLOT_FULL,           /* to be reported */
    UNETMM_SLOT_TOLD,           /* the driver has it */
} UnetmmSysbufState;

/* The holder of a share of the slots: a reliable channel. */
struct UnetmmShareOps {
    /* The packet is in a slot: its head is kept until its turn. */
    void (*keep)(UnetmmCore *core, UnetmmShare *share,
                 const struct unetmm_frame *f);
    /* The packet has been copied, or (UNETMM_SLOT_*) never will be. */
    void (*done)(UnetmmCore *core, UnetmmShare *share, uint32_t psn,
                 uint8_t status);
    /* The saved state: which share it is, or NULL; a slot of it is back. */
    UnetmmShare *(*save)(UnetmmStream *st, UnetmmCore *core,
                         UnetmmShare *share);
    void (*restored)(UnetmmStream *st, UnetmmCore *core, UnetmmShare *share,
                     uint16_t number);
};

struct UnetmmShare {
    const UnetmmShareOps *ops;
    uint16_t ep;
    uint16_t channel;           /* local number */
    uint32_t credits;           /* slots of its own; 0: it needs none */
    uint32_t used;              /* and not answered */
    uint64_t unlanded;          /* bit: the packet is in slot_of[] */
    uint16_t slot_of[UNETMM_REL_WINDOW];
};

typedef struct UnetmmSysbufSlot {
    UnetmmSysbufState state;
    uint64_t addr;              /* DMA address */
    UnetmmShare *share;         /* whose packet it is; NULL: that is gone */
    uint32_t psn;
    uint16_t ep, space;
    uint32_t npieces;
    UnetmmPiece pieces[UNETMM_SLOT_PIECES];
} UnetmmSysbufSlot;

typedef struct UnetmmSysbuf {
    UnetmmSysbufSlot *slots;          /* params.sysbuf_slots of them */
    uint32_t n;                 /* that the driver has given */
    uint32_t bytes;             /* of each */
    uint32_t promised;          /* to channels, or used by those gone */
    uint16_t *free;             /* numbers: a stack */
    uint32_t nfree;
    UnetmmList full;            /* to be reported */
} UnetmmSysbuf;

/* aside/backup.c */
/*
 * Puts the packet of the next slot into the ring.  False: it is to be dropped,
 * and *drop is the counter.
 */
bool unetmm_backup_store(UnetmmCore *core, UnetmmEp *ep,
                         const struct unetmm_cqe *cqe, const uint8_t *data,
                         enum unetmm_counter *drop);
/* The next slot is taken: it has something to say when its turn comes. */
void unetmm_backup_take(UnetmmEp *ep, const UnetmmTaken *taken);
/* Completes a slot whose turn it is.  False: no room, or the bus refused it. */
bool unetmm_backup_complete(UnetmmCore *core, UnetmmEp *ep,
                            const UnetmmTaken *taken);
/* Is it the turn of one that has something to say? */
bool unetmm_backup_waits(const UnetmmEp *ep);
/* Is the packet of slot fq_cons + offset in the ring?  It is now. */
bool unetmm_backup_pending(const UnetmmEp *ep, uint32_t offset);
void unetmm_backup_mark(UnetmmEp *ep, uint32_t offset);
/* Completes those whose turn it is, as far as there is room. */
void unetmm_backup_walk(UnetmmCore *core, UnetmmEp *ep);
uint8_t unetmm_backup_done(UnetmmCore *core, uint16_t id,
                           const struct unetmm_cmd_backup *cmd);
/* *result: it is posted already. */
uint8_t unetmm_tail_arm(UnetmmCore *core, uint16_t id,
                        const struct unetmm_cmd_tail *cmd, uint32_t *result);
/* UnetmmSavedParts.waiting */
void unetmm_waiting_save(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep);
/* May a message land in the next slot? */
bool unetmm_slot_landing_ok(const UnetmmEp *ep);

/* aside/slot.c */
/*
 * Gives a frame or message (cqe: opcode RECEIVED, len, flags, channel) to the
 * endpoint's next slot, or to the backup ring, or drops and counts it.
 */
void unetmm_slot_receive(UnetmmCore *core, UnetmmEp *ep,
                         const struct unetmm_cqe *cqe, const uint8_t *data);

/* aside/sysbuf.c */
uint8_t unetmm_sysbuf_set(UnetmmCore *core,
                          const struct unetmm_cmd_sysbuf *cmd);
/*
 * The part of SYSBUF_SET that neither waits nor touches memory.  False:
 * BAD_ARG.
 */
bool unetmm_sysbuf_give(UnetmmCore *core, const uint64_t *addrs, uint32_t n,
                        uint32_t bytes);
/* False: so many are not there. */
bool unetmm_sysbuf_promise(UnetmmCore *core, uint32_t n);
/* The channel is no more: its slots are others', when the driver has none. */
void unetmm_sysbuf_forget(UnetmmCore *core, UnetmmShare *share);
/* Has the placement a page for which the channel has something in a slot? */
bool unetmm_sysbuf_follows(const UnetmmCore *core, const UnetmmShare *share,
                           const UnetmmPlacement *place);
/*
 * Puts a packet into a slot, with where it belongs, and has its head kept.
 * False: it cannot be.
 */
bool unetmm_sysbuf_take(UnetmmCore *core, UnetmmEp *ep, UnetmmShare *share,
                        const struct unetmm_frame *f,
                        const UnetmmPlacement *place, const uint8_t *payload);
uint8_t unetmm_sysbuf_done(UnetmmCore *core,
                           const struct unetmm_cmd_slot *cmd);

#endif /* UNETMM_ASIDE_H */
