/*
 * unetmm: a peer's access to memory: exported regions, imports, transfer
 * redirection, event counters
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_REMOTE_H
#define UNETMM_REMOTE_H

#include "../ep/ep.h"

/* A value that is waited for; the count is in memory.  remote/eventcount.c. */
typedef enum UnetmmEventState {
    UNETMM_COUNTER_IDLE,
    UNETMM_COUNTER_ARMED,
    UNETMM_COUNTER_DUE,         /* reached; it has not been told yet */
} UnetmmEventState;

typedef struct UnetmmEventCounter {
    UnetmmEventState state;
    uint64_t value;             /* ARMED and DUE: the value */
} UnetmmEventCounter;

/* Bytes first..last of a region. */
typedef struct UnetmmSpan {
    uint64_t first, last;
} UnetmmSpan;

/* In order, with gaps between them; the last place is for a moment only. */
typedef struct UnetmmSpans {
    uint32_t n;
    UnetmmSpan at[UNETMM_REDIRECT_LANDED + 1];
} UnetmmSpans;

typedef enum UnetmmMoveState {
    UNETMM_MOVE_NONE,           /* there is none */
    UNETMM_MOVE_BEGUN,          /* held until GO; `spans` are copied */
    UNETMM_MOVE_DONE,           /* `spans` and landed data are there */
    UNETMM_MOVE_RETURNING,      /* held until END; the data goes back */
} UnetmmMoveState;

/* A part of a region that is somewhere else; remote/move.c. */
typedef struct UnetmmMove {
    UnetmmMoveState state;
    uint8_t waits;              /* this command, for a page; then it is held */
    uint16_t tag;
    uint64_t first, last;
    uint64_t to;
    uint64_t list;
    uint64_t from;              /* BACK: the first byte to be copied */
    UnetmmSpans spans;
} UnetmmMove;

typedef struct UnetmmRegionMoves {
    UnetmmMove moves[UNETMM_REDIRECTS];
    UnetmmSpans landed;         /* where REGION_SET said, and not taken */
} UnetmmRegionMoves;

/* An export of the driver; see remote/region.c. */
typedef struct UnetmmRegion {
    bool live;
    bool clearing;              /* REGION_CLEAR waits for a page to land */
    uint8_t rights, flags;
    uint16_t space;
    uint16_t clear_tag;
    uint32_t key;
    uint16_t counter, ncounters;    /* that its users may name */
    uint64_t addr, length, cookie;
    uint64_t iova;              /* F_IOVA; else addr */
    uint32_t pd;
    UnetmmRegionMoves *moved;   /* F_REDIRECT; else NULL */
    /* The last one of this number that was cleared, if peers had its key. */
    bool was_keyed;
    uint16_t last_space;
    uint32_t last_key, last_pd;
} UnetmmRegion;

/* A region of no domain is for the endpoints of each. */
static inline bool unetmm_region_in_pd(uint32_t pd, const UnetmmEp *ep)
{
    return !pd || pd == ep->pd || pd == (UNETMM_PD_EP | ep->id);
}

struct UnetmmRemote {
    UnetmmRegion *regions;      /* params.regions of them */
    uint32_t clearing;          /* regions whose end waits for a page */
    uint32_t moves_waiting;
    UnetmmList due;             /* spaces whose event counters owe wake-ups */
};

typedef struct UnetmmImport {
    bool live;
    uint8_t rights;
    uint16_t channel;
    bool said;                  /* that its windows' stores were rejected */
    uint32_t region, key;
    uint64_t length;
} UnetmmImport;

/* remote/eventcount.c */
uint8_t unetmm_event_counters_set(UnetmmCore *core, uint16_t id,
                                  const struct unetmm_cmd_counters *cmd);
/* *result: it has been reached already. */
uint8_t unetmm_event_counter_arm(UnetmmCore *core, uint16_t id,
                                 const struct unetmm_cmd_arm *cmd,
                                 uint32_t *result);
/*
 * May who uses the region name counter `imm` of it?  0, and *id is the space's
 * number of it; or UNETMM_WHY_*.
 */
uint32_t unetmm_event_counter_check(const UnetmmCore *core,
                                    const UnetmmRegion *region, uint32_t imm,
                                    uint32_t *id);
/* Adds 1 to a counter of the endpoint's space.  False: the bus refused it. */
bool unetmm_event_counter_add(UnetmmCore *core, UnetmmEp *ep, uint32_t id);
/* A counter of the space is DUE. */
/* UnetmmSavedParts.counters */
void unetmm_event_counters_save(UnetmmStream *st, UnetmmCore *core,
                                uint16_t id);

/* remote/import.c */
uint8_t unetmm_import_set(UnetmmCore *core, uint16_t id,
                          const struct unetmm_cmd_import *cmd);
uint8_t unetmm_import_clear(UnetmmCore *core, uint16_t id, uint32_t number);
/* The channel is no more, or another one. */
void unetmm_import_drop(UnetmmCore *core, UnetmmEp *ep, uint16_t channel);
/* May the operation, whose length is known, use what its handle names? */
bool unetmm_import_allows(const UnetmmCore *core, const UnetmmEp *ep,
                          const UnetmmDescriptor *d);
/* NULL: there is none with this number. */
const UnetmmImport *unetmm_import_at(const UnetmmCore *core,
                                     const UnetmmEp *ep, uint32_t number);
/* NULL: the import is no longer that of this region and key. */
UnetmmImport *unetmm_import_of(const UnetmmCore *core, UnetmmEp *ep,
                               uint32_t number, uint32_t region, uint32_t key);
/* UnetmmSavedParts.imports */
void unetmm_imports_save(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep);

/* remote/move.c */
uint8_t unetmm_move(UnetmmCore *core,
                    const struct unetmm_cmd_redirect *cmd, uint16_t tag,
                    uint32_t *result, bool *wait);
/*
 * Bytes from `offset` on that are in one place, from *addr of the space on:
 * `len` at most.  All of them are the region's.
 */
uint32_t unetmm_region_run(const UnetmmRegion *region, uint64_t offset,
                           uint32_t len, uint64_t *addr);
/*
 * The same, of a packet's part of the region, which has been checked, and of
 * the bytes that the packet announces, as far as the region has them.
 */
uint32_t unetmm_region_run_ahead(const UnetmmRegion *region, uint64_t offset,
                                 uint32_t len, uint64_t more, uint64_t *addr);
/* Records that these bytes are about to be written: a move lists them. */
void unetmm_region_note(const UnetmmRegion *region, uint64_t offset,
                        uint32_t len);
/* A move of these bytes begins or ends: a packet for them must come again. */
bool unetmm_region_is_held(const UnetmmRegion *region, uint64_t offset,
                           uint32_t len);
/* A page has landed, which a command may have waited for. */
void unetmm_move_landed(UnetmmCore *core, uint32_t number);
/* The region goes. */
void unetmm_moves_forget(UnetmmCore *core, UnetmmRegion *region);
/* The part of BEGIN that does not depend on landed data. */
uint8_t unetmm_move_add(UnetmmRegion *region,
                        const struct unetmm_cmd_redirect *cmd,
                        UnetmmMove **added);
/* Are they as they must be, and all in first..last? */
bool unetmm_spans_ok(const UnetmmSpans *s, uint64_t first, uint64_t last);
/* The parts of one region that are somewhere else. */
void unetmm_moves_save(UnetmmStream *st, UnetmmCore *core,
                       UnetmmRegion *region);
bool unetmm_moves_ok(const UnetmmCore *core, uint32_t number);

/* remote/region.c */
uint8_t unetmm_region_set(UnetmmCore *core, uint16_t space,
                          const struct unetmm_cmd_region *cmd);
/* *wait: a page is moving; unetmm_cmd_done_late() will follow. */
uint8_t unetmm_region_clear(UnetmmCore *core, uint32_t number, uint16_t tag,
                            bool *wait);
/* The region, if the endpoint's peers may know it and it stays; or NULL. */
const UnetmmRegion *unetmm_region_find(const UnetmmCore *core,
                                       const UnetmmEp *ep, uint32_t number,
                                       uint32_t key);
/* Is the key right, and only the protection domain another one? */
bool unetmm_region_foreign(const UnetmmCore *core, const UnetmmEp *ep,
                           uint32_t number, uint32_t key);
/* UnetmmTables.local */
bool unetmm_region_local(const UnetmmCore *core, const UnetmmEp *ep,
                         uint64_t key, bool write, uint64_t *addr,
                         uint32_t len);
/* Was the key right until the region was cleared?  Then it is no guess. */
bool unetmm_region_revoked(const UnetmmCore *core, const UnetmmEp *ep,
                           uint32_t number, uint32_t key);
/*
 * May a peer of the endpoint use this part of a region for `right`?  0, and
 * *region is which; or UNETMM_WHY_*.
 */
uint32_t unetmm_region_check(const UnetmmCore *core, const UnetmmEp *ep,
                             const UnetmmTarget *target, uint8_t right,
                             const UnetmmRegion **region);
/* Does a page of it move now?  Between two pages nothing is done through it. */
bool unetmm_region_moving(const UnetmmCore *core, uint32_t number);
/* Does a page move of a packet that is about any of these bytes? */
bool unetmm_region_moving_in(const UnetmmCore *core, uint32_t number,
                             uint64_t first, uint64_t last);
/* A page has landed: is it what a command waits for? */
void unetmm_region_landed(UnetmmCore *core);
void unetmm_target_save(UnetmmStream *st, UnetmmTarget *target,
                        const char *name);

#endif /* UNETMM_REMOTE_H */
