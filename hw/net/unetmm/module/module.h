/*
 * unetmm: modules: the parts of the card, and the tables that list them
 *
 * A part of the card is one file that fills a UnetmmModule.  card/tables.c
 * lists all modules, sources, policies and channel types.  Lower rooms reach
 * higher rooms through these tables alone.
 *
 * All of it runs under the host's one lock, as everything in the core does.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_MODULE_H
#define UNETMM_MODULE_H

#include "../stream/stream.h"

typedef struct UnetmmEp UnetmmEp;
typedef struct UnetmmRel UnetmmRel;
typedef struct UnetmmSourceOps UnetmmSourceOps;
typedef struct UnetmmPolicyRow UnetmmPolicyRow;
typedef struct UnetmmChannelOps UnetmmChannelOps;
typedef struct UnetmmPortOps UnetmmPortOps;
typedef struct UnetmmEpOps UnetmmEpOps;
typedef struct UnetmmFrameOps UnetmmFrameOps;
typedef struct UnetmmSqeOp UnetmmSqeOp;
typedef struct UnetmmWireOp UnetmmWireOp;
typedef struct UnetmmSlotOps UnetmmSlotOps;
typedef struct UnetmmShareOps UnetmmShareOps;
typedef struct UnetmmSavedParts UnetmmSavedParts;

/*
 * A part of the card: its operations in the life of the card, of an endpoint
 * and of an address space.  One file defines one; any operation may be NULL.
 */
typedef struct UnetmmModule {
    const char *name;
    /* Allocates the module's memory, as core->params say. */
    void (*create)(UnetmmCore *core);
    /* Makes everything as after create; counters are the card's to reset. */
    void (*reset)(UnetmmCore *core);
    void (*free)(UnetmmCore *core);

    /* The life of an endpoint.  EP_CREATE has set the endpoint up. */
    void (*ep_begin)(UnetmmCore *core, UnetmmEp *ep);
    /*
     * The endpoint is stopped: the module does nothing more for it, and
     * cancels its misses.  An endpoint may be stopped twice.
     */
    void (*ep_stop)(UnetmmCore *core, UnetmmEp *ep);
    /* EP_DESTROY has begun: nothing names the endpoint any more. */
    void (*ep_close)(UnetmmCore *core, UnetmmEp *ep);
    /* The endpoint is no more: none of its pages moves. */
    void (*ep_end)(UnetmmCore *core, UnetmmEp *ep);
    /* An import of the endpoint is no more; nothing may name the import. */
    void (*import_end)(UnetmmCore *core, UnetmmEp *ep, uint16_t import);
    /* The address space is no more. */
    void (*space_end)(UnetmmCore *core, uint16_t space);

    /*
     * The operations from here on are called often: UnetmmModules lists the
     * modules that have one.
     *
     * Called at each turn of an endpoint that runs: the module writes the
     * completions that it owes.
     */
    void (*turn)(UnetmmCore *core, UnetmmEp *ep);
    /*
     * Called if head_offset is not 0.  True: a slot's completion waits only for
     * room in the completion queue and for the endpoint's turn.
     */
    bool (*slot_completion_waits)(const UnetmmEp *ep);
    /*
     * Returns how many messages of the channel have arrived and have no
     * completion yet: they are landing, or they wait for others.
     */
    uint32_t (*unfinished_messages)(const UnetmmCore *core, const UnetmmEp *ep,
                                    uint16_t channel);
    /* The process has posted buffers to a free queue that is watched. */
    void (*posted)(UnetmmCore *core, UnetmmEp *ep);
    /* Pages of the space on which a head relied are not translated any more. */
    void (*pages_lost)(UnetmmCore *core, uint16_t space, uint64_t first,
                       uint64_t last);
    /*
     * Called when no endpoint is ready; the module does the work that it has
     * put off.  False: there was none.
     */
    bool (*deferred_work)(UnetmmCore *core);
    /* Called before the engine is left: the module reports to the driver. */
    void (*flush)(UnetmmCore *core);
    /*
     * The next moment of a timer; INT64_MAX: there is none.  Or where that
     * moment is kept, as long as the card lives.
     */
    int64_t (*deadline)(const UnetmmCore *core);
    const int64_t *(*deadline_at)(const UnetmmCore *core);
    bool deadline_of_pages;     /* there is none without x-dma-page-ns */
    /*
     * Called when the card's timer has fired: the module looks whether its own
     * deadline has passed, since the timer may have been another module's.
     */
    void (*deadline_passed)(UnetmmCore *core, int64_t now);
    /*
     * Called each time the engine has been entered from outside, before it
     * works: delayed frames (x-delay) and late replies (x-fault-delay) whose
     * time has passed take effect here.
     */
    void (*engine_entered)(UnetmmCore *core);

    /*
     * Called when a landing that took time is over: transfers that waited for
     * it go on.
     */
    void (*landing_over)(UnetmmCore *core);
    /*
     * Writes or reads the module's part of the saved state.  The parts are in
     * the order of the table.
     */
    void (*save)(UnetmmStream *st, UnetmmCore *core);
    /* All modules have been read: do their states agree? */
    void (*check)(UnetmmStream *st, UnetmmCore *core);
    /* The module never saves more bytes. */
    uint64_t (*save_limit)(const UnetmmCore *core);
} UnetmmModule;

#define UNETMM_MAX_HOOKS        8

/*
 * A card's modules, and those of their operations that are called often, so
 * that a module that has none costs nothing.  Each list ends with NULL.  The
 * lists are in the order of the table; deadline_passed and engine_entered are
 * in the reverse order.
 */
typedef struct UnetmmModules {
    const UnetmmModule *const *table;
    bool pages_take_time;       /* x-dma-page-ns */
    void (*turn[UNETMM_MAX_HOOKS])(UnetmmCore *core, UnetmmEp *ep);
    bool (*slot_completion_waits[UNETMM_MAX_HOOKS])(const UnetmmEp *ep);
    uint32_t (*unfinished_messages[UNETMM_MAX_HOOKS])(const UnetmmCore *core,
                                                      const UnetmmEp *ep,
                                                      uint16_t channel);
    void (*posted[UNETMM_MAX_HOOKS])(UnetmmCore *core, UnetmmEp *ep);
    void (*pages_lost[UNETMM_MAX_HOOKS])(UnetmmCore *core, uint16_t space,
                                         uint64_t first, uint64_t last);
    bool (*deferred_work[UNETMM_MAX_HOOKS])(UnetmmCore *core);
    void (*flush[UNETMM_MAX_HOOKS])(UnetmmCore *core);
    int64_t (*deadline[UNETMM_MAX_HOOKS])(const UnetmmCore *core);
    const int64_t *deadline_at[UNETMM_MAX_HOOKS];
    void (*deadline_passed[UNETMM_MAX_HOOKS])(UnetmmCore *core, int64_t now);
    void (*engine_entered[UNETMM_MAX_HOOKS])(UnetmmCore *core);
} UnetmmModules;

/*
 * Saved state of a higher room that stands inside of a lower room's part.
 */
struct UnetmmSavedParts {
    /* Behind a space: its event counters. */
    void (*counters)(UnetmmStream *st, UnetmmCore *core, uint16_t space);
    /*
     * Parts of an endpoint: behind its channels, its imports; behind its
     * queues, its slots that wait; behind its counters, its connections.
     */
    void (*imports)(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep);
    void (*waiting)(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep);
    void (*connections)(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep);
    /* Names one of the endpoint's (NULL: of any endpoint's), or none. */
    UnetmmRel *(*connection)(UnetmmStream *st, UnetmmCore *core,
                             const UnetmmEp *ep, UnetmmRel *rel);
    uint32_t (*credits)(const UnetmmRel *rel);
    /* The packet of one that is in ep->tx. */
    void (*packet)(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep);
};

/* The tables of the card, which lower rooms reach through core->tables. */
typedef struct UnetmmTables {
    const UnetmmModule *const *modules;         /* ends with NULL */
    /* By their number in the ABI; NULL: there is none with it. */
    const UnetmmSourceOps *const *sources;
    uint32_t nsources;
    const UnetmmPolicyRow *policies;            /* and where they are allowed */
    uint32_t npolicies;
    const UnetmmChannelOps *const *channels;    /* UNETMM_NUM_CHANNEL_TYPES */
    const UnetmmSqeOp *const *sqes;             /* opcodes of descriptors */
    uint32_t nsqes;
    const UnetmmWireOp *const *wires;           /* opcodes of frames */
    uint32_t nwires;
    const UnetmmPortOps *port;
    const UnetmmEpOps *ep;
    const UnetmmFrameOps *frames;
    const UnetmmSlotOps *slots;
    const UnetmmShareOps *shares;               /* of the system buffer */
    const UnetmmSavedParts *saved;
    /* EP_F_KEYS: to the address in the space.  False: the key is wrong. */
    bool (*local)(const UnetmmCore *core, const UnetmmEp *ep, uint64_t key,
                  bool write, uint64_t *addr, uint32_t len);
} UnetmmTables;

/* module/module.c */
void unetmm_modules_create(UnetmmModules *modules, UnetmmCore *core,
                           const UnetmmModule *const *table,
                           bool pages_take_time);
void unetmm_modules_reset(UnetmmModules *modules, UnetmmCore *core);
void unetmm_modules_free(UnetmmModules *modules, UnetmmCore *core);
void unetmm_modules_ep_begin(UnetmmModules *modules, UnetmmCore *core,
                             UnetmmEp *ep);
void unetmm_modules_ep_stop(UnetmmModules *modules, UnetmmCore *core,
                            UnetmmEp *ep);
void unetmm_modules_ep_close(UnetmmModules *modules, UnetmmCore *core,
                             UnetmmEp *ep);
void unetmm_modules_ep_end(UnetmmModules *modules, UnetmmCore *core,
                           UnetmmEp *ep);
void unetmm_modules_import_end(UnetmmModules *modules, UnetmmCore *core,
                               UnetmmEp *ep, uint16_t import);
void unetmm_modules_space_end(UnetmmModules *modules, UnetmmCore *core,
                              uint16_t space);
void unetmm_modules_pages_lost(UnetmmModules *modules, UnetmmCore *core,
                               uint16_t space, uint64_t first, uint64_t last);
uint32_t unetmm_modules_unfinished(const UnetmmModules *modules,
                                   const UnetmmCore *core, const UnetmmEp *ep,
                                   uint16_t channel);
void unetmm_modules_landing_over(UnetmmModules *modules, UnetmmCore *core);

#endif /* UNETMM_MODULE_H */
