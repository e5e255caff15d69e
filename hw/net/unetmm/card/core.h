/*
 * unetmm: the card's core, as its own files and its hosts see it.
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

#include "../abi/unetmm_hw.h"
#include "../abi/unetmm_wire.h"
#include "../base/stream.h"
#include "../xlat/tlb.h"

#define UNETMM_MAX_ENDPOINTS    1024
#define UNETMM_MAX_SPACES       1024
#define UNETMM_MAX_CHANNELS     1024
#define UNETMM_MAX_HEADS        16
#define UNETMM_MAX_LOCAL        4096
#define UNETMM_MAX_BUF_PAGES    1024    /* of a free buffer */
#define UNETMM_HEAD_ASKS        4       /* of the first head in one activity */
#define UNETMM_POOL_FRAMES      64      /* frame buffers that nobody uses */
#define UNETMM_HEAD_STEP        16      /* pages looked at ahead at a time */
#define UNETMM_HOLD_NS          1000000 /* x-reorder: at most so long */
#define UNETMM_MAX_DELAYED      64      /* x-delay: frames at a time */
#define UNETMM_MAX_LATE_NS      1000000000 /* x-delay-ns, x-fault-delay-ns */
#define UNETMM_MAX_RELIABLE     4096    /* channels of the card */
#define UNETMM_MAX_KEPT         4096    /* packets before their turn */
#define UNETMM_MAX_REGIONS      65536
#define UNETMM_MAX_IMPORTS      1024    /* of an endpoint */
#define UNETMM_MAX_WINDOW_PAGES 65536
#define UNETMM_MAX_UPDATES      1048576 /* packets of stores */
#define UNETMM_MAX_COMBINE_NS   1000000000
#define UNETMM_MAX_PROXY_PAGES  65536
#define UNETMM_MAX_SYSBUF_SLOTS 4096
/* An endpoint's misses: its send, its heads.  Channels have their own. */
#define UNETMM_EP_MISSES        (1 + UNETMM_MAX_HEADS)
#define UNETMM_REL_MISSES       3
#define UNETMM_NO_EP            UINT16_MAX
#define UNETMM_EP_GONE          (UINT16_MAX - 1)
#define UNETMM_MAX_UTLB_FETCH   32      /* entries of one fetch */
#define UNETMM_NUM_CHANNEL_TYPES 2
#define UNETMM_MAX_FLOWS        4096
#define UNETMM_MAX_BACKUP_BITS  4096

typedef struct UnetmmCore UnetmmCore;
typedef struct UnetmmEp UnetmmEp;
typedef struct UnetmmRel UnetmmRel;

/* What is fixed when the card is made; unetmm_params_check() has limits. */
typedef struct UnetmmParams {
    uint8_t mac[6];
    uint32_t endpoints;
    uint32_t spaces;
    uint32_t channels;
    uint32_t tlb_sets;
    uint32_t tlb_ways;
    uint32_t tlb_victims;
    uint32_t tlb_index;         /* UnetmmTlbIndex */
    uint32_t tlb_replace;       /* UnetmmTlbReplace */
    uint32_t cache_entries;     /* of the host-memory tables */
    uint32_t utlb_fetch;        /* entries that a miss of utlb fetches */
    uint32_t pretranslate;
    uint32_t fault_batch;       /* pages asked for in one miss of a send */
    uint32_t max_faults;        /* misses reported and not replied to */
    uint32_t user_mtu;
    uint32_t local_queue;       /* frames */
    uint32_t reliable;          /* channels of that type */
    uint32_t reliable_keep;     /* packets kept before their turn */
    uint32_t regions;
    uint32_t imports;           /* of each endpoint */
    uint32_t window_pages;      /* of automatic update */
    uint32_t window_queue;      /* packets of stores that wait */
    uint32_t proxy_pages;       /* of user-level DMA start */
    uint32_t sysbuf_slots;      /* that the driver may give */
    uint32_t flows;
    uint32_t backup_bits;       /* that an endpoint may have */
    uint32_t budget_descriptors;
    uint32_t budget_bytes;
    uint64_t dma_page_ns;
} UnetmmParams;

/* What may be changed while the card runs.  Rates are parts per million. */
typedef struct UnetmmKnobs {
    uint32_t loss;
    uint32_t dup;
    uint32_t reorder;
    uint32_t corrupt;
    uint32_t force_miss;
    uint32_t force_evict;
    uint32_t delay;
    uint32_t delay_ns;          /* at most; so is the next */
    uint32_t fault_delay;
    uint32_t fault_delay_ns;
    uint32_t fault_fail;
    uint32_t fault_refuse;
    uint32_t lie;
    uint64_t seed;
} UnetmmKnobs;

/* ---- Modules and tables; base/module.c, card/tables.c ------------------- */

typedef struct UnetmmSourceOps UnetmmSourceOps;
typedef struct UnetmmPolicyOps UnetmmPolicyOps;
typedef struct UnetmmPolicyRow UnetmmPolicyRow;
typedef struct UnetmmSlotOps UnetmmSlotOps;
typedef struct UnetmmShareOps UnetmmShareOps;
typedef struct UnetmmSavedParts UnetmmSavedParts;
typedef struct UnetmmLandingOps UnetmmLandingOps;
typedef struct UnetmmChannelOps UnetmmChannelOps;
typedef struct UnetmmFrameOps UnetmmFrameOps;
typedef struct UnetmmPortOps UnetmmPortOps;

/*
 * A part of the card: what it does in the life of the card, of an endpoint and
 * of an address space.  One file defines one; any operation may be NULL.
 */
typedef struct UnetmmModule {
    const char *name;
    /* Allocates what the module needs, from core->params. */
    void (*create)(UnetmmCore *core);
    /* Makes everything as after create; counters are the card's to reset. */
    void (*reset)(UnetmmCore *core);
    void (*free)(UnetmmCore *core);

    /* The life of an endpoint.  It has been set up by EP_CREATE. */
    void (*ep_begin)(UnetmmCore *core, UnetmmEp *ep);
    /* It is stopped: nothing of it happens any more.  May come twice. */
    void (*ep_stop)(UnetmmCore *core, UnetmmEp *ep);
    /* EP_DESTROY has begun: nothing names the endpoint any more. */
    void (*ep_close)(UnetmmCore *core, UnetmmEp *ep);
    /* It is no more: no page of it moves. */
    void (*ep_end)(UnetmmCore *core, UnetmmEp *ep);
    /* The address space is no more. */
    void (*space_end)(UnetmmCore *core, uint16_t space);

    /*
     * Those below are called often: UnetmmHooks lists the modules that have
     * one.  The endpoint, which runs, has its turn: what it owes goes out.
     */
    void (*turn)(UnetmmCore *core, UnetmmEp *ep);
    /*
     * Has the endpoint, which has slots that wait for others (head_offset), a
     * completion that waits only for room and for a turn?
     */
    bool (*completes)(const UnetmmEp *ep);
    /* The process has posted buffers to a free queue that is watched. */
    void (*posted)(UnetmmCore *core, UnetmmEp *ep);
    /* Pages of the space on which a head relied are not translated any more. */
    void (*pages_lost)(UnetmmCore *core, uint16_t space, uint64_t first,
                       uint64_t last);
    /* No endpoint waits for a turn: what was put off.  False: nothing was. */
    bool (*idle)(UnetmmCore *core);
    /* The engine is about to be left: reports to the driver what is owed. */
    void (*flush)(UnetmmCore *core);
    /*
     * When something ends by itself; INT64_MAX: nothing does.  Or where in
     * UnetmmCore that moment is kept, not 0.
     */
    int64_t (*deadline)(const UnetmmCore *core);
    size_t deadline_at;
    bool deadline_of_pages;     /* there is none without x-dma-page-ns */
    /* A deadline has passed, maybe another module's. */
    void (*due)(UnetmmCore *core, int64_t now);
    /* The engine was entered: x-delay and x-fault-delay may be over. */
    void (*late)(UnetmmCore *core);

    /* A message has landed that took time: what it held up goes on. */
    void (*landed)(UnetmmCore *core);
    /*
     * Writes or reads what the module has to save.  A part of the saved state
     * belongs to each module, in the order of the table.
     */
    void (*save)(UnetmmStream *st, UnetmmCore *core);
    /* All has been read: does it agree with what others have read? */
    void (*check)(UnetmmStream *st, UnetmmCore *core);
    /* It never saves more bytes. */
    uint64_t (*save_limit)(const UnetmmCore *core);
} UnetmmModule;

/*
 * The operations of all modules that are called often, so that a module that
 * has none costs nothing.  Each list ends with NULL.  They are in the order of
 * the table; `due` and `late` in the reverse order.
 */
#define UNETMM_MAX_HOOKS        8

typedef struct UnetmmHooks {
    void (*turn[UNETMM_MAX_HOOKS])(UnetmmCore *core, UnetmmEp *ep);
    bool (*completes[UNETMM_MAX_HOOKS])(const UnetmmEp *ep);
    void (*posted[UNETMM_MAX_HOOKS])(UnetmmCore *core, UnetmmEp *ep);
    void (*pages_lost[UNETMM_MAX_HOOKS])(UnetmmCore *core, uint16_t space,
                                         uint64_t first, uint64_t last);
    bool (*idle[UNETMM_MAX_HOOKS])(UnetmmCore *core);
    void (*flush[UNETMM_MAX_HOOKS])(UnetmmCore *core);
    int64_t (*deadline[UNETMM_MAX_HOOKS])(const UnetmmCore *core);
    const int64_t *deadline_at[UNETMM_MAX_HOOKS];
    void (*due[UNETMM_MAX_HOOKS])(UnetmmCore *core, int64_t now);
    void (*late[UNETMM_MAX_HOOKS])(UnetmmCore *core);
} UnetmmHooks;

/* The tables of the card, which lower rooms reach through core->tables. */
typedef struct UnetmmTables {
    const UnetmmModule *const *modules;         /* ends with NULL */
    /* By their number in the ABI; NULL: there is none with it. */
    const UnetmmSourceOps *const *sources;
    uint32_t nsources;
    const UnetmmPolicyRow *policies;            /* and with what they may be */
    uint32_t npolicies;
    const UnetmmChannelOps *const *channels;    /* UNETMM_NUM_CHANNEL_TYPES */
    const UnetmmPortOps *port;
    const UnetmmFrameOps *frames;
    const UnetmmSlotOps *slots;
    const UnetmmShareOps *shares;               /* of the system buffer */
    const UnetmmSavedParts *saved;
} UnetmmTables;

/*
 * What stands inside of a lower room's part of the saved state, and belongs to
 * a higher room.
 */
struct UnetmmSavedParts {
    /* Behind a space: its event counters. */
    void (*counters)(UnetmmStream *st, UnetmmCore *core, uint16_t space);
    /*
     * Of an endpoint: behind its channels, its imports; behind its queues, its
     * slots that wait; behind its counters, its connections.
     */
    void (*imports)(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep);
    void (*waiting)(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep);
    void (*connections)(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep);
    /* Which one of the endpoint's (NULL: of any endpoint's), or none. */
    UnetmmRel *(*connection)(UnetmmStream *st, UnetmmCore *core,
                             const UnetmmEp *ep, UnetmmRel *rel);
    uint32_t (*credits)(const UnetmmRel *rel);
    /* The packet of one that is in ep->tx. */
    void (*packet)(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep);
};

/* ---- Rings that the card shares with the driver ------------------------- */

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

/* ---- Address spaces and translation ------------------------------------- */

/* What somebody sleeps for; the count is in memory.  remote/eventcount.c. */
typedef enum UnetmmCounterState {
    UNETMM_COUNTER_IDLE,
    UNETMM_COUNTER_ARMED,
    UNETMM_COUNTER_DUE,         /* reached; it has not been told yet */
} UnetmmCounterState;

typedef struct UnetmmCounter {
    UnetmmCounterState state;
    uint64_t value;             /* ARMED and DUE: with what */
} UnetmmCounter;

typedef struct UnetmmSpace {
    bool live;
    const UnetmmSourceOps *source;
    uint8_t levels;
    uint64_t table;
    uint32_t regions;
    uint32_t endpoints;         /* that use it, by number, from ... */
    uint16_t first_ep;          /* ... here on, by next_in_space */
    uint64_t counter_page;
    UnetmmCounter *counters;    /* UNETMM_EVENT_COUNTERS, or NULL */
    uint32_t counters_due;
    bool telling;               /* in the list of those that owe wake-ups */
} UnetmmSpace;

typedef enum UnetmmXlat {
    UNETMM_XLAT_OK,
    UNETMM_XLAT_MISS,           /* ask the driver */
    UNETMM_XLAT_ERROR,          /* protection */
} UnetmmXlat;

/*
 * A translation in use.  tlb is NULL where nothing has to be held.  Where it
 * has to be locked for each DMA, `entry` is what does that, and dma a guess
 * before.
 */
typedef struct UnetmmPage {
    uint64_t dma;               /* address of the page's first byte */
    UnetmmTlb *tlb;
    uint32_t id;
    uint64_t entry;             /* where it is, in the table */
    uint64_t pte;               /* what it was when it was looked at last */
} UnetmmPage;

/*
 * Entries of a table of source shadow as they were when they were read, in
 * this run of the engine: where a lock begins to try, and no more than that.
 */
#define UNETMM_SHADOW_LINES     4
#define UNETMM_SHADOW_LINE      8       /* entries: 64 bytes of a table */

typedef struct UnetmmShadowLine {
    uint64_t run;               /* of another run: nothing */
    uint64_t at;
    uint64_t ptes[UNETMM_SHADOW_LINE];
} UnetmmShadowLine;

/* A source: where translations come from.  One file fills one. */
struct UnetmmSourceOps {
    const char *name;
    uint8_t levels_min, levels_max;     /* what SPACE_CREATE must say */
    bool only_space_0;
    /* Traits.  What differs between sources and is no operation. */
    bool driver_brings;         /* absent pages, when it is asked for them */
    bool asks_ahead;            /* for all that follows, there or not */
    bool driver_posts;          /* producer indices are the driver's */
    bool only_copy_is_the_tlb;  /* no table has what the driver inserts */
    bool named_by_address;      /* a page in use: its entry's; no TLB's */
    bool address_is_dma;        /* there are no translations */
    /* Looks up one page; counts; no other effect the caller could see. */
    UnetmmXlat (*lookup)(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn,
                         bool write, UnetmmPage *page);
    /* only_copy_is_the_tlb: takes one translation from the driver. */
    UnetmmTlbInsert (*insert)(UnetmmCore *core, uint16_t space, uint64_t vpn,
                              uint64_t pte, uint32_t tag);
    /* The TLB or cache that holds its entries; NULL: none. */
    UnetmmTlb *(*tlb)(UnetmmCore *core);
    uint8_t tlb_shift;          /* an entry there is of 2^n pages */
    /*
     * One page's DMA begins, ends; NULL: a lookup is all that it takes.
     * False: it is not there any more, or not with that right.
     */
    bool (*lock)(UnetmmCore *core, UnetmmEp *ep, UnetmmPage *page, bool write);
    void (*unlock)(UnetmmCore *core, UnetmmEp *ep, const UnetmmPage *page);
    /* The most pages that a free buffer may span. */
    uint32_t (*max_pages)(const UnetmmCore *core);
};

/* NULL: there is none with this number. */
const UnetmmSourceOps *unetmm_source_by_id(const UnetmmCore *core,
                                           unsigned id);

/* Of a table in host memory: the entry cache, then the table. */
UnetmmXlat unetmm_table_lookup(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn,
                               bool write, UnetmmPage *page, bool *absent);
/* The two halves of it.  First: is the page in the entry cache? */
bool unetmm_table_cached(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn,
                         bool write, UnetmmPage *page);
/*
 * The table of level 0 that has the page's entry.  MISS: there is none; ERROR:
 * the bus refused the walk.
 */
UnetmmXlat unetmm_table_leaf(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn,
                             uint64_t *leaf);
/*
 * Reads the aligned group of `group` (a power of two) entries that has the
 * page's, in one access.  False: the table does not reach so far, or the bus
 * refused it; else each entry is what it was, valid or not.
 */
bool unetmm_table_read(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn,
                       unsigned group, uint64_t *ptes);
/* Puts a valid entry into the cache and uses it. */
UnetmmXlat unetmm_table_use(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn,
                            bool write, uint64_t pte, UnetmmPage *page);
/* What an entry means that is not valid, where nobody can be asked for it. */
UnetmmXlat unetmm_table_absent(uint64_t pte);
/* Has the driver the page in hand? */
bool unetmm_table_changing(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn);
UnetmmTlb *unetmm_table_cache(UnetmmCore *core);
uint32_t unetmm_table_max_pages(const UnetmmCore *core);

/* ---- Regions and imports ------------------------------------------------ */

/* Bytes first..last of a region. */
typedef struct UnetmmSpan {
    uint64_t first, last;
} UnetmmSpan;

/* In order, with gaps between them; the last place is for a moment only. */
typedef struct UnetmmSpans {
    uint32_t n;
    UnetmmSpan at[UNETMM_REDIRECT_LANDED + 1];
} UnetmmSpans;

typedef enum UnetmmMovedState {
    UNETMM_MOVED_NOT,           /* there is none */
    UNETMM_MOVED_BEGUN,         /* held until GO; `spans` are copied */
    UNETMM_MOVED_GOING,         /* `spans` are there, and what has landed */
    UNETMM_MOVED_BACK,          /* held until END */
} UnetmmMovedState;

/* A part of a region that is somewhere else; remote/redirect.c. */
typedef struct UnetmmRedirect {
    UnetmmMovedState state;
    uint8_t waits;              /* this command, for a page; then it is held */
    uint16_t tag;
    uint64_t first, last;
    uint64_t to;
    uint64_t list;
    uint64_t from;              /* BACK: where what is copied begins */
    UnetmmSpans spans;
} UnetmmRedirect;

typedef struct UnetmmMoved {
    UnetmmRedirect redirects[UNETMM_REDIRECTS];
    UnetmmSpans landed;         /* where REGION_SET said, and not taken */
} UnetmmMoved;

/* What the driver has exported; see remote/region.c. */
typedef struct UnetmmRegion {
    bool live;
    bool clearing;              /* REGION_CLEAR waits for a page to land */
    uint8_t rights, flags;
    uint16_t space;
    uint16_t clear_tag;
    uint32_t key;
    uint16_t counter, ncounters;    /* that its users may name */
    uint64_t addr, length, cookie;
    UnetmmMoved *moved;         /* F_REDIRECT; else NULL */
} UnetmmRegion;

typedef struct UnetmmImport {
    bool live;
    uint8_t rights;
    uint16_t channel;
    bool said;                  /* that its windows' stores were rejected */
    uint32_t region, key;
    uint64_t length;
} UnetmmImport;

/* A part of a region, as a peer names it. */
typedef struct UnetmmTarget {
    uint32_t region, key;
    uint32_t len;
    uint64_t offset;
} UnetmmTarget;

/* ---- Policies: something finds its memory absent ------------------------ */

typedef enum UnetmmVerdict {
    UNETMM_VERDICT_DROP,        /* the message or packet; the buffer stays */
    UNETMM_VERDICT_NEXT,        /* return the buffer unfilled, try the next */
    UNETMM_VERDICT_REFUSE,      /* the sender is to come again: RNR NACK */
    UNETMM_VERDICT_ASIDE,       /* to the system buffer */
    UNETMM_VERDICT_STORE,       /* to the backup ring */
} UnetmmVerdict;

/*
 * Where, and which verdicts can be followed there.  A packet of a reliable
 * channel's message that finds no head is refused, or tries the next.
 */
typedef enum UnetmmAbsentAt {
    UNETMM_ABSENT_MESSAGE,      /* a datagram, at a head: DROP, NEXT */
    UNETMM_ABSENT_SEND,         /* a packet of a message: REFUSE, ASIDE */
    UNETMM_ABSENT_WRITE,        /* a packet of a WRITE: REFUSE, ASIDE */
    UNETMM_ABSENT_SLOT,         /* a message, at a slot: DROP, STORE */
} UnetmmAbsentAt;

typedef struct UnetmmAbsent {
    const UnetmmEp *ep;
    UnetmmAbsentAt at;
    bool next;                  /* at a head: it may be another buffer's */
    uint32_t len;               /* of the message; of the packet */
} UnetmmAbsent;

/* A policy.  One file fills one; card/tables.c says with what it may be. */
struct UnetmmPolicyOps {
    const char *name;
    /*
     * What becomes of something whose memory is absent.  A verdict that cannot
     * be followed is taken as DROP; on a reliable channel, as REFUSE.
     */
    UnetmmVerdict (*absent)(UnetmmCore *core, const UnetmmAbsent *ctx);
    /*
     * Does the command give an endpoint, a reliable channel what it needs with
     * this policy?  NULL: nothing, that is no bits and no credits.
     */
    bool (*ep_ok)(const UnetmmCore *core, const struct unetmm_cmd_ep *cmd);
    bool (*channel_ok)(const UnetmmCore *core,
                       const struct unetmm_cmd_channel *cmd);
};

/*
 * With what a policy may be.  FIXED: sources where absence is an error of the
 * program; BROUGHT: sources of which the driver brings absent pages.
 */
#define UNETMM_WITH_FIXED       (1u << 0)
#define UNETMM_WITH_BROUGHT     (1u << 1)
#define UNETMM_WITH_RAW         (1u << 2)   /* raw endpoints */
#define UNETMM_WITH_DATAGRAM    (1u << 3)   /* datagram channels */
#define UNETMM_WITH_RELIABLE    (1u << 4)   /* reliable channels */

/* A policy, and with what it may be. */
struct UnetmmPolicyRow {
    const UnetmmPolicyOps *ops;
    uint32_t with;
};

/* NULL: there is none with this number. */
const UnetmmPolicyOps *unetmm_policy_by_id(const UnetmmCore *core,
                                           unsigned id);
/* May it be with all of these (UNETMM_WITH_*)? */
bool unetmm_policy_allows(const UnetmmCore *core,
                          const UnetmmPolicyOps *policy, uint32_t with);

/* ---- Misses ------------------------------------------------------------- */

typedef enum UnetmmMissState {
    UNETMM_MISS_NONE,
    UNETMM_MISS_WANTED,         /* to be reported when there is room */
    UNETMM_MISS_ASKED,
    UNETMM_MISS_DEFERRED,
    UNETMM_MISS_JOINED,         /* another's report covers it */
    UNETMM_MISS_REFUSED,        /* no room for the reply; asked at release */
    UNETMM_MISS_CHANGING,       /* the table says so; looked at after INV */
} UnetmmMissState;

/* Pages that a transfer is going to need, besides those that it misses. */
typedef struct UnetmmAhead {
    uint64_t vpn;
    uint32_t npages;
} UnetmmAhead;

typedef struct UnetmmMiss UnetmmMiss;

/* What a miss is for.  Each room that has misses fills one for each kind. */
typedef struct UnetmmMissOwner {
    const char *name;
    bool write;                 /* the pages are to be written, else read */
    bool head;                  /* of a buffer that has received nothing yet */
    /*
     * The driver has replied: UNETMM_REPLY_DEFERRED, RESOLVED, or ERROR with
     * this status.  After the last two the miss is over.
     */
    void (*reply)(UnetmmCore *core, UnetmmMiss *miss, uint8_t reply,
                  uint8_t status);
    /*
     * Lists what the transfer has behind the pages that it misses: up to
     * UNETMM_MAX_SEGS - 1.  NULL: nothing.
     */
    uint32_t (*ahead)(const UnetmmCore *core, const UnetmmMiss *miss,
                      UnetmmAhead *ahead);
} UnetmmMissOwner;

/*
 * Each endpoint has one for its send and one for each head, and each reliable
 * channel one for each kind of fault.  Their places in core->misses are fixed:
 * a fault id and the saved state name them by number.
 */
struct UnetmmMiss {
    const UnetmmMissOwner *owner;   /* NULL: what owned it is no more */
    UnetmmEp *ep;               /* whose space the pages are in */
    void *of;                   /* the owner's: a head, a channel */
    UnetmmMissState state;
    bool write;
    bool zero;                  /* the old contents need not be kept */
    bool queued;                /* in core->wanted, whatever its state */
    uint16_t generation;        /* makes fault ids of old misses stale */
    uint16_t leader;            /* JOINED: number of the miss in flight */
    uint32_t npages;
    uint64_t vpn;
    int64_t found_ns;           /* WANTED: since when */
    bool late;                  /* x-fault-delay: a reply that is not told */
    uint8_t late_reply, late_status;
    int64_t due_ns;
};

/* ---- Endpoints ---------------------------------------------------------- */

typedef struct UnetmmDescriptor UnetmmDescriptor;
typedef struct UnetmmTransfer UnetmmTransfer;
typedef struct UnetmmStores UnetmmStores;
typedef struct UnetmmUpdate UnetmmUpdate;
typedef struct UnetmmStart UnetmmStart;

typedef struct UnetmmChannel {
    bool live;
    bool tell;                  /* the process wants to know of its end */
    uint8_t ended;              /* UNETMM_ST_*: owed to it; OK: nothing is */
    uint8_t mac[6];
    uint16_t peer_ep;
    uint16_t peer_channel;
    uint32_t mtu;
    uint32_t longest;           /* message */
    const UnetmmChannelOps *ops;
    UnetmmRel *rel;             /* RELIABLE: its connection */
} UnetmmChannel;

typedef enum UnetmmPosted {
    UNETMM_POSTED,              /* taken over, the descriptor is free */
    UNETMM_POST_FULL,           /* ask again when a send has completed */
    UNETMM_POST_FAILED,         /* complete it with ST_FLUSHED */
} UnetmmPosted;

/* A channel type.  One file fills one. */
struct UnetmmChannelOps {
    const char *name;
    uint32_t wire;              /* bit n: it speaks UNETMM_WIRE_n */
    uint32_t with;              /* UNETMM_WITH_*: what policies know of it */
    /* Looks at the type's own part of CHANNEL_SET; UNETMM_CS_*, or NULL. */
    uint8_t (*set)(UnetmmCore *core, UnetmmEp *ep, UnetmmChannel *channel,
                   const struct unetmm_cmd_channel *cmd);
    /*
     * The channel is no more; its number may be used again, so nothing that
     * names it may be left, imports among it.  May be NULL.
     */
    void (*clear)(UnetmmCore *core, UnetmmEp *ep, UnetmmChannel *channel);
    /*
     * Takes a message over, its inline bytes at `data`.  NULL: a message is one
     * frame, gathered and sent at once.
     */
    UnetmmPosted (*post)(UnetmmCore *core, UnetmmEp *ep,
                         UnetmmChannel *channel, const UnetmmDescriptor *d,
                         const uint8_t *data);
    /* A frame that is the channel's, checked as far as all types have it. */
    void (*receive)(UnetmmCore *core, UnetmmEp *ep, UnetmmChannel *channel,
                    const struct unetmm_frame *f, const uint8_t *payload);

    /* With `post` there are all of these, without it none. */
    /* May the one-sided operation, whose length is known, be? */
    bool (*allows)(const UnetmmCore *core, const UnetmmEp *ep,
                   const UnetmmDescriptor *d);
    /* Of all channels of this type that the endpoint has (UnetmmEp.rels): */
    /* makes *tx the next packet; false: there is none to be sent now. */
    bool (*next)(UnetmmCore *core, UnetmmEp *ep, UnetmmTransfer *tx);
    /* Is there a packet to be sent? */
    bool (*has_work)(UnetmmCore *core, UnetmmEp *ep);
    /* Is a completion due, which there is room for, or a channel over? */
    bool (*completes)(UnetmmCore *core, UnetmmEp *ep);
    /* A part of a region of its space is not where it was, or not held. */
    void (*moved)(UnetmmCore *core, UnetmmEp *ep);
    /* Of one: where what is stored for it waits; NULL: it takes none. */
    UnetmmStores *(*stores)(const UnetmmChannel *channel);
    /* Takes stores over.  False: no room for another message now. */
    bool (*update)(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                   const UnetmmUpdate *u);
    /* There is no room for another store: the channel fails. */
    void (*overrun)(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel);
    /* Takes over what proxy pages have started, from this address on. */
    UnetmmPosted (*start)(UnetmmCore *core, UnetmmEp *ep,
                          UnetmmChannel *channel, const UnetmmStart *start,
                          uint64_t addr);
    const UnetmmLandingOps *landing;    /* its packets'; NULL: none land */
};

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
    uint32_t asked_in;          /* activity in which it was asked last ... */
    uint32_t asks;              /* ... and how often in that one */
    uint32_t checked;           /* CHECK: pages from its first, found there */
    uint32_t len;
    uint64_t addr;
    uint64_t cookie;
} UnetmmHead;

typedef enum UnetmmBlocked {
    UNETMM_BLOCKED_NOT,
    UNETMM_BLOCKED_FAULT,       /* a translation */
    UNETMM_BLOCKED_TIME,        /* a page's DMA */
    UNETMM_BLOCKED_WIRE,        /* the net layer or the local queue */
    UNETMM_BLOCKED_CQ,          /* room for the completion */
} UnetmmBlocked;

typedef enum UnetmmTxState {
    UNETMM_TX_IDLE,
    UNETMM_TX_GATHER,           /* segments into the frame */
    UNETMM_TX_TRANSMIT,         /* frame complete */
    UNETMM_TX_COMPLETE,         /* status known, completion to be written */
} UnetmmTxState;

/*
 * What is to be sent, and where: a descriptor of the send queue as it was read,
 * once and for all; or what stands for it of a packet that a channel sends.
 */
struct UnetmmDescriptor {
    uint8_t opcode;
    uint8_t flags;
    uint8_t nsegs;
    uint8_t operands;           /* of an atomic, bytes */
    uint16_t channel;
    uint32_t handle, imm;
    uint32_t len;               /* of the message */
    uint64_t cookie;
    uint64_t remote;
    struct unetmm_seg segs[UNETMM_MAX_SEGS];    /* host byte order */
};

/*
 * What is different with a transfer that is no message of its own: a channel's
 * packets, its answers, and the frames of a raw endpoint.
 */
typedef struct UnetmmTransferOps {
    /* A page that is absent is not asked for: it ends with ST_NOT_READY. */
    bool never_waits;
    /* May the next page be read?  Else it ends with ST_REVOKED.  NULL: yes. */
    bool (*may_read)(const UnetmmCore *core, const UnetmmEp *ep,
                     const UnetmmTransfer *tx);
    /* A page has moved, and its translation is let go.  May be NULL. */
    void (*landed)(UnetmmCore *core);
    /* The frame is whole: sends it and finishes, or waits for room. */
    void (*transmit)(UnetmmCore *core, UnetmmEp *ep, UnetmmTransfer *tx);
    /*
     * Its status is known: TX_IDLE then, or it waits for room.  NULL: it comes
     * from the send queue, and completes there.
     */
    void (*complete)(UnetmmCore *core, UnetmmEp *ep, UnetmmTransfer *tx);
} UnetmmTransferOps;

/* The frames that raw endpoints send; ether/raw.c. */
struct UnetmmFrameOps {
    UnetmmTransferOps transfer;
    /* May a frame's descriptor have this `imm`?  How long may it be? */
    bool (*imm_ok)(uint32_t imm);
    uint32_t (*longest)(uint32_t imm);
};

/*
 * A send in progress: everything needed to go on after any wait.  It holds
 * indices and copies, no pointers into guest memory, and no translation unless
 * a page is moving this moment (then `page`, until `deadline_ns`).
 */
struct UnetmmTransfer {
    const UnetmmTransferOps *ops;       /* NULL: a datagram, or CONTROL */
    UnetmmTxState state;
    UnetmmBlocked blocked_on;
    uint8_t status;
    uint8_t slots;              /* of the send queue */
    uint8_t seg;                /* current segment, and ... */
    uint32_t seg_off;           /* ... how far it has been gathered */
    UnetmmDescriptor desc;
    uint32_t done;              /* gathered */
    uint8_t *frame;             /* from the pool; header room, then data */
    bool moving;
    UnetmmPage page;
    uint32_t chunk;             /* bytes that are moving */
    int64_t deadline_ns;
    UnetmmRel *rel;             /* not NULL: one packet of its messages ... */
    uint32_t psn;
    bool needless;              /* ... which has ended meanwhile, */
    bool answer;                /* or an answer: `target` for request psn */
    UnetmmTarget target;
};

/*
 * A slot of the free queue that is taken, and waits for those before it: what
 * its completion will say.
 */
typedef struct UnetmmTaken {
    uint64_t cookie;
    uint32_t len;
    uint16_t channel;
    uint8_t status;             /* UNETMM_ST_*; not OK: CQE_BUFFER */
    uint8_t flags;              /* UNETMM_CQE_F_* */
} UnetmmTaken;

struct UnetmmEp {
    bool live;
    bool error;                 /* stopped by UNETMM_EP_ERROR */
    bool closing;               /* EP_DESTROY waits for a page to land */
    bool queued;                /* in the list of endpoints to serve */
    bool notify_cq;             /* a notification has to be written */
    bool notify_error;
    bool notify_tail;
    bool telling;               /* in the list of those to be notified */
    bool publish;               /* the card's index words have changed */
    bool landing;               /* a message is landing in the first head */
    uint32_t state_shown;       /* UNETMM_EP_* as last published */
    bool failed_cqe;            /* CQE_FAILED still to be written */
    uint8_t fail_status;
    uint16_t id;
    uint16_t space;
    uint16_t next_in_space;     /* UNETMM_NO_EP: the last */
    uint16_t close_tag;
    uint32_t generation;
    const UnetmmPolicyOps *policy;
    bool raw;                   /* EP_F_RAW */
    bool slotted;               /* its free queue has slots, and no heads */
    bool vector;                /* EP_F_VECTOR */
    uint64_t flow_turn;         /* of the frame that it had a copy of last */
    uint64_t sq_base, fq_base, cq_base, index;
    uint64_t posts;             /* 0: the producers are in `index` too */
    uint32_t sq_log2, fq_log2, cq_log2;
    uint32_t sq_prod, sq_cons;
    uint32_t fq_prod, fq_cons;
    uint32_t cq_prod, cq_cons;
    uint32_t arm, arm_done;
    uint32_t activity;          /* doorbells and datagrams */
    uint32_t max_heads;
    uint32_t nheads;            /* fetched; see unetmm_head_at() */
    uint32_t first_head;
    bool heads_behind;          /* their pages have not all been looked at */
    UnetmmHead heads[UNETMM_MAX_HEADS];
    UnetmmMiss *misses;         /* 0: send; 1 + n: head n, or 1: slot */
    /*
     * Endpoints without heads (unetmm_ep_slotted()): the next slot is fq_cons +
     * head_offset.  With policy backup that can be beyond 0, also beyond what
     * is posted, and there are a bitmap (1: the packet is in the backup ring)
     * and what those slots wait to say, by slot & taken_mask.
     */
    uint32_t head_offset;
    uint32_t bm_size, bm_index; /* bits; that of slot fq_cons */
    uint64_t *bitmap;
    UnetmmTaken *taken;
    uint32_t taken_mask;
    uint32_t slot_asked;        /* slot of the last miss, and ... */
    uint8_t slot_status;        /* ... if that has been answered with ERROR */
    bool tail_armed;            /* TAIL_ARM: of slot tail_slot */
    uint32_t tail_slot;
    UnetmmTransfer tx;
    UnetmmChannel *channels;
    uint32_t ends_owed;         /* channels that have `ended` */
    UnetmmImport *imports;
    UnetmmRel *rels;            /* list of its reliable channels */
    const UnetmmChannelOps *rel_ops;    /* their type, if there are any */
    bool sq_waits;              /* no room in the next message's channel */
    bool rel_turn;              /* descriptors and packets alternate */
    uint64_t counters[UNETMM_NUM_COUNTERS];
};

/* ---- Frames and the receive side ---------------------------------------- */

/* Which frames are a raw endpoint's; ether/flow.c. */
typedef struct UnetmmFlow {
    bool live;
    uint8_t kind, flags;
    uint16_t value;
    uint16_t ep;
    uint8_t mac[6];
} UnetmmFlow;

/* A frame that waits for its turn on the receive side. */
typedef struct UnetmmQueued {
    uint8_t *frame;
    uint32_t bytes;
    uint16_t from;              /* the raw endpoint it comes from, or NO_EP */
    uint16_t only;              /* the one endpoint it is for, or NO_EP */
} UnetmmQueued;

/* What is above the port. */
struct UnetmmPortOps {
    /* Takes a frame that has come to its turn; the buffer stays the port's. */
    void (*frame)(UnetmmCore *core, const UnetmmQueued *q);
    /* Is a message landing, so that no frame can be taken? */
    bool (*busy)(const UnetmmCore *core);
    /* There is room for frames, which somebody waits for (port.wanted). */
    void (*room)(UnetmmCore *core);
};

/* Where some of a message's bytes go. */
typedef struct UnetmmPiece {
    uint64_t addr;
    uint32_t len;
    uint32_t from;              /* in the message, or the packet */
} UnetmmPiece;

/*
 * A packet can have a hole for each packet that came before its turn, and be
 * cut at both ends of each part of the region that has moved.
 */
#define UNETMM_MAX_PIECES       (UNETMM_REL_WINDOW + 1 + 2 * UNETMM_REDIRECTS)

/*
 * Where a message, or a packet of one, goes.  Pages are held from the lookup
 * until they have been written.
 */
typedef struct UnetmmPlacement {
    uint32_t npieces;
    uint32_t npages;            /* that they touch, piece by piece */
    uint32_t piece, off;        /* how far it has been written */
    uint32_t page;              /* likewise */
    UnetmmPage *pages;          /* UNETMM_MAX_BUF_PAGES of them */
    UnetmmPiece pieces[UNETMM_MAX_PIECES];
} UnetmmPlacement;

typedef struct UnetmmLanding UnetmmLanding;

/* Whose message is landing: a head's, a slot's, a channel's packet. */
struct UnetmmLandingOps {
    const char *name;
    /* May the next page move?  If not, *why.  NULL: always. */
    bool (*may_go_on)(const UnetmmCore *core, const UnetmmLanding *landing,
                      enum unetmm_counter *why);
    /*
     * All its pages have moved, or (why) have not.  The landing is over: the
     * next may begin in the same place.
     */
    void (*landed)(UnetmmCore *core, UnetmmEp *ep, UnetmmLanding *landing,
                   bool landed, enum unetmm_counter why);
    /* core->rx has been restored: may it be where it is? */
    bool (*place_ok)(UnetmmCore *core, const UnetmmEp *ep);
};

/* The others are reached by UnetmmSlotOps and UnetmmChannelOps. */
extern const UnetmmLandingOps unetmm_landing_head;

/* A message that is landing page by page, with x-dma-page-ns. */
struct UnetmmLanding {
    bool active;
    bool moving;
    const UnetmmLandingOps *owner;
    void *of;                   /* a packet's: its UnetmmRel; else NULL */
    struct unetmm_frame head;   /* a packet's; else zeros */
    uint16_t ep;
    uint32_t generation;
    uint8_t *frame;
    uint32_t len;
    UnetmmPlacement place;
    struct unetmm_cqe cqe;      /* to be written when all has landed */
    int64_t deadline_ns;
};

/* ---- The system buffer; aside/sysbuf.c --------------------------------- */

typedef enum UnetmmSlotState {
    UNETMM_SLOT_FREE,
    UNETMM_SLOT_FULL,           /* to be reported */
    UNETMM_SLOT_TOLD,           /* the driver has it */
} UnetmmSlotState;

typedef struct UnetmmShare UnetmmShare;

/* What has a share of the slots: a reliable channel. */
struct UnetmmShareOps {
    /* The packet is in a slot: its head is kept until its turn. */
    void (*keep)(UnetmmCore *core, UnetmmShare *share,
                 const struct unetmm_frame *f);
    /* It has been copied, or (UNETMM_SLOT_*) never will be. */
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

typedef struct UnetmmSlot {
    UnetmmSlotState state;
    uint64_t addr;              /* DMA address */
    UnetmmShare *share;         /* whose packet it is; NULL: that is gone */
    uint32_t psn;
    uint16_t ep, space;
    uint32_t npieces;
    UnetmmPiece pieces[UNETMM_SLOT_PIECES];
} UnetmmSlot;

typedef struct UnetmmSysbuf {
    UnetmmSlot *slots;          /* params.sysbuf_slots of them */
    uint32_t n;                 /* that the driver has given */
    uint32_t bytes;             /* of each */
    uint32_t promised;          /* to channels, or used by those gone */
    uint16_t *free;             /* numbers: a stack */
    uint32_t nfree;
    uint16_t *full;             /* numbers, in order: circular */
    uint32_t full_first, full_used;
} UnetmmSysbuf;

/* x-delay: a frame and the moment at which it goes. */
typedef struct UnetmmDelayed {
    uint8_t *frame;
    uint32_t bytes;
    int64_t due_ns;
} UnetmmDelayed;

typedef struct UnetmmPort {
    bool link;
    uint32_t busy;              /* frames that the net layer owns */
    bool wanted;                /* an endpoint is BLOCKED_WIRE */
    bool warned_self;
    UnetmmQueued *fifo;         /* local_queue of them */
    uint32_t fifo_first, fifo_used;
    uint8_t *held;              /* x-reorder: goes after the next frame */
    uint32_t held_bytes;
    int64_t held_until_ns;
    UnetmmDelayed delayed[UNETMM_MAX_DELAYED];  /* circular, in order */
    uint32_t delayed_first, delayed_used;
    GPtrArray *pool;            /* UNETMM_POOL_FRAMES buffers at most */
} UnetmmPort;

/* Stores that go together: a packet to be; remote/window.c. */
struct UnetmmUpdate {
    UnetmmUpdate *next;
    uint32_t region, key;       /* what the import was at that time */
    uint64_t remote;
    uint16_t import;
    uint16_t len;
    uint8_t data[UNETMM_MAX_INLINE];
};

/* What was stored in windows and its channel has not taken over. */
struct UnetmmStores {
    UnetmmRel *rel;             /* the channel that they go to */
    uint16_t ep;                /* whose that is */
    bool open;                  /* the last one may get more, until ... */
    int64_t due_ns;
    UnetmmUpdate *first, *last;
};

/* A page of the windows' BAR; remote/window.c. */
typedef struct UnetmmWindow {
    bool live;
    uint16_t ep;
    uint16_t import;            /* of that endpoint */
    uint16_t combine_bytes;
    uint32_t combine_ns;
    uint64_t offset;            /* in the import, of its first byte */
} UnetmmWindow;

/* A proxy page; remote/proxy.c. */
typedef struct UnetmmProxy {
    uint8_t kind;               /* 0: none */
    uint16_t ep;
    uint16_t import;
    uint64_t at;
} UnetmmProxy;

/* Half a start: where to, and how much.  The card has one, as SHRIMP's. */
struct UnetmmStart {
    bool live;
    uint16_t ep;
    uint16_t import;
    uint64_t offset;
    uint64_t len;
};

/*
 * What may be done before the host's main loop has been round: all entry points
 * spend of it together, and unetmm_core_run() alone renews it.  See
 * card/engine.c.
 */
typedef struct UnetmmBudget {
    uint32_t descriptors;
    uint32_t bytes;
    uint32_t turns;             /* of endpoints */
    uint32_t arrivals;          /* bytes, for what comes from the wire */
    bool arriving;              /* that is being paid for now */
    bool asked;                 /* run_later was called since it was renewed */
    bool stopped;               /* counted: work was left for want of it */
} UnetmmBudget;

struct UnetmmCore {
    const UnetmmHostOps *ops;
    const UnetmmTables *tables;
    void *host;
    UnetmmParams params;
    UnetmmKnobs knobs;
    uint64_t random;
    const UnetmmObserver *observer;     /* of saving and restoring, or NULL */

    /* registers */
    uint32_t ctrl, events, event_mask, status;
    uint32_t test, test_dma_len, test_dma_res, ep_sel, latch_hi;
    uint64_t test_dma;
    uint32_t inv_space;
    uint64_t inv_start, inv_last;
    uint16_t inv_going_space;   /* what the last go was for */
    uint64_t inv_going_first, inv_going_last;
    bool inv_busy;
    UnetmmRing rings[UNETMM_NUM_RINGS];
    UnetmmVector vectors[UNETMM_NUM_VECTORS];
    bool vectors_wait;          /* one does, since the last flush */

    UnetmmTlb tlb;              /* source tlb */
    UnetmmTlb cache;            /* sources with a table */
    UnetmmSpace *spaces;
    UnetmmEp *eps;
    UnetmmMiss *misses;         /* unetmm_misses() of them */
    uint16_t *in_flight;        /* numbers of misses ASKED or DEFERRED */
    uint32_t in_flight_used;
    uint32_t misses_asked;      /* of these: ASKED, at most max_faults */
    uint16_t *wanted;           /* circular: numbers of misses to report */
    uint32_t wanted_first, wanted_used;
    uint32_t misses_joined;
    uint32_t misses_refused;
    uint32_t misses_changing;
    uint32_t misses_late;
    bool evict_waits;           /* an entry could not leave: ring full */
    uint32_t closing;           /* commands that wait for a page to land */
    UnetmmRegion *regions;
    uint32_t regions_clearing;
    uint32_t redirects_waiting;
    uint16_t *tell;             /* circular list of endpoints to notify */
    uint32_t tell_first, tell_used;
    uint16_t *due;              /* likewise of spaces, for their counters */
    uint32_t due_first, due_used;
    uint32_t wire_turn;         /* who is looked at first for the wire */
    bool heads_behind;          /* of some endpoint, they are */

    uint16_t *ready;            /* circular list of endpoints to serve */
    uint32_t ready_first, ready_used;
    uint32_t depth;             /* entry points on the stack */
    uint64_t run;               /* how often the engine was entered */
    UnetmmShadowLine shadow_lines[UNETMM_SHADOW_LINES];
    bool again;                 /* work was left for run_later */
    UnetmmBudget budget;
    bool reset_wanted;          /* asked for while the engine was running */
    bool paused;                /* unetmm_core_pause() */
    bool was_closed;            /* may_receive owed to the host */
    int64_t timer_ns;

    UnetmmRel **rels;           /* params.reliable of them, or NULL each */
    uint32_t rels_used;
    uint32_t kept;              /* packets before their turn, in all */
    bool rels_held_up;          /* one goes on after the landing */
    uint64_t *acks;             /* bit n: rels[n] owes an acknowledgement */
    uint32_t acks_owed;
    int64_t rel_due_ns;         /* no reliable channel's time ends before */

    UnetmmWindow *windows;      /* params.window_pages of them */
    UnetmmStores **stores;      /* as `rels`: what is stored for each */
    uint32_t updates;           /* packets of stores that wait */
    int64_t window_due_ns;      /* no packet of stores has to go before */
    UnetmmProxy *proxies;       /* params.proxy_pages of them */
    UnetmmStart start;
    UnetmmSysbuf sysbuf;
    UnetmmFlow *flows;          /* params.flows of them */
    uint32_t flows_end;         /* none is live from here on */
    uint64_t flow_turn;         /* frames that were copied */

    UnetmmPort port;
    UnetmmPlacement place;      /* of what is being taken; it is passed on */
    UnetmmLanding rx;
    uint64_t counters[UNETMM_NUM_COUNTERS];
    UnetmmHooks hooks;
};

/*
 * Entry points: card/card.c (life), card/entry.c (frames, doorbells, windows,
 * proxy pages), card/engine.c (run, timer, pause), card/regs.c (registers),
 * card/save.c (saved state)
 */

/* Returns NULL if all is in range, or one sentence for the user. */
const char *unetmm_params_check(const UnetmmParams *params);
/* Params must have passed unetmm_params_check(). */
void unetmm_core_init(UnetmmCore *core, const UnetmmParams *params,
                      const UnetmmHostOps *ops, void *host);
void unetmm_core_free(UnetmmCore *core);
/* Power-on, FLR: everything but params, knobs and link. */
void unetmm_core_reset(UnetmmCore *core);
void unetmm_core_set_seed(UnetmmCore *core, uint64_t seed);

uint32_t unetmm_core_read(UnetmmCore *core, uint32_t offset, unsigned bytes);
void unetmm_core_write(UnetmmCore *core, uint32_t offset, uint32_t value,
                       unsigned bytes);
void unetmm_core_doorbell(UnetmmCore *core, uint32_t page);
/* A store to a proxy page, its first byte at `offset` of them, and a load. */
void unetmm_core_proxy_store(UnetmmCore *core, uint64_t offset,
                             uint64_t value);
uint32_t unetmm_core_proxy_load(UnetmmCore *core, uint64_t offset);
/* 1..8 bytes have been stored in the windows, from this byte of theirs on. */
void unetmm_core_store(UnetmmCore *core, uint32_t offset, const uint8_t *data,
                       unsigned bytes);
void unetmm_core_run(UnetmmCore *core);
void unetmm_core_timer(UnetmmCore *core);
void unetmm_core_set_link(UnetmmCore *core, bool up);
bool unetmm_core_can_receive(UnetmmCore *core);
/* False: not taken, offer it again after may_receive(). */
bool unetmm_core_receive(UnetmmCore *core, const uint8_t *frame, size_t bytes);
/* The queued frame has gone (or was purged: sent false). */
void unetmm_core_sent(UnetmmCore *core, bool sent);
/* The machine stands still: no work, no frame either way, until it goes on. */
void unetmm_core_pause(UnetmmCore *core, bool pause);

/*
 * All that the card is, in one stream, and back (card/save.c).  Not from
 * inside another call.  Params must be the same in both places; paused and the
 * link stay those of the place.  Load believes nothing: false leaves the card
 * as after a reset, and *why is one sentence, to be freed.
 */
GByteArray *unetmm_core_save(UnetmmCore *core);
bool unetmm_core_load(UnetmmCore *core, const void *buf, size_t bytes,
                      char **why);
/* No card with these params saves more bytes. */
uint64_t unetmm_core_save_limit(const UnetmmCore *core);
/*
 * What a card was made with that saved these bytes: all params but the budgets.
 * NULL; or one sentence if the bytes are of no card.
 */
const char *unetmm_core_saved_params(const void *buf, size_t bytes,
                                     UnetmmParams *params);
/* Each save and load from now on is shown to it; NULL: to none. */
void unetmm_core_observe(UnetmmCore *core, const UnetmmObserver *observer);

/* ---- Inside the core ---------------------------------------------------- */

static inline void unetmm_count(UnetmmCore *core, UnetmmEp *ep,
                                enum unetmm_counter counter, uint64_t n)
{
    core->counters[counter] += n;
    if (ep) {
        ep->counters[counter] += n;
    }
}

/* All misses that there can be: those of endpoints, then of channels. */
static inline uint32_t unetmm_misses(const UnetmmCore *core)
{
    return core->params.endpoints * UNETMM_EP_MISSES +
           core->params.reliable * UNETMM_REL_MISSES;
}

static inline uint64_t unetmm_mac_to_u64(const uint8_t *mac)
{
    uint64_t v = 0;

    for (int i = 5; i >= 0; i--) {
        v = v << 8 | mac[i];
    }
    return v;
}

static inline void unetmm_mac_from_u64(uint8_t *mac, uint64_t v)
{
    for (int i = 0; i < 6; i++) {
        mac[i] = v >> (8 * i);
    }
}

/* card/card.c */
void unetmm_engine_reset(UnetmmCore *core);

/* card/tables.c */
extern const UnetmmTables unetmm_tables;

/* base/module.c */
void unetmm_modules_create(UnetmmCore *core);
void unetmm_modules_reset(UnetmmCore *core);
void unetmm_modules_free(UnetmmCore *core);
void unetmm_modules_ep_begin(UnetmmCore *core, UnetmmEp *ep);
void unetmm_modules_ep_stop(UnetmmCore *core, UnetmmEp *ep);
void unetmm_modules_ep_close(UnetmmCore *core, UnetmmEp *ep);
void unetmm_modules_ep_end(UnetmmCore *core, UnetmmEp *ep);
void unetmm_modules_space_end(UnetmmCore *core, uint16_t space);
void unetmm_modules_pages_lost(UnetmmCore *core, uint16_t space,
                               uint64_t first, uint64_t last);
void unetmm_modules_landed(UnetmmCore *core);

/* base/random.c */
uint32_t unetmm_random(UnetmmCore *core);
void unetmm_random_seed(UnetmmCore *core, uint64_t seed);
bool unetmm_chance(UnetmmCore *core, uint32_t ppm);
int64_t unetmm_some_time(UnetmmCore *core, uint32_t most_ns);

/* base/dma.c: the only caller of the host's memory operations */
bool unetmm_dma_read(UnetmmCore *core, UnetmmEp *ep, uint64_t addr, void *buf,
                     size_t bytes);
bool unetmm_dma_write(UnetmmCore *core, UnetmmEp *ep, uint64_t addr,
                      const void *buf, size_t bytes);
/* Of UnetmmHostOps; false: the bus refused it. */
bool unetmm_dma_cmpxchg(UnetmmCore *core, UnetmmEp *ep, uint64_t addr,
                        uint64_t *old, uint64_t value);
/* Writes an entry whose last word has the phase: that word goes last. */
bool unetmm_dma_post(UnetmmCore *core, UnetmmEp *ep, uint64_t addr,
                     const void *entry, size_t bytes);
uint32_t unetmm_dma_test(UnetmmCore *core, uint32_t op);

/* base/ring.c */
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

/* base/irq.c */
/* Ring memory is refused by the bus: the driver can be told nothing more. */
void unetmm_core_fatal(UnetmmCore *core);
void unetmm_event(UnetmmCore *core, uint32_t events);
void unetmm_irq_want(UnetmmCore *core, unsigned vector);
void unetmm_irq_flush(UnetmmCore *core);

/* base/done.c */
/* Completes a command; and one that has had to wait (UnetmmCore.closing). */
void unetmm_cmd_done(UnetmmCore *core, uint16_t tag, uint8_t opcode,
                     uint8_t status, uint32_t result);
void unetmm_cmd_done_late(UnetmmCore *core, uint16_t tag, uint8_t opcode,
                          uint8_t status, uint32_t result);

/* card/cmd.c */
void unetmm_cmd_run(UnetmmCore *core, uint32_t *budget);

/* xlat/space.c */
uint8_t unetmm_space_create(UnetmmCore *core, uint16_t id,
                            const struct unetmm_cmd_space *cmd);
uint8_t unetmm_space_destroy(UnetmmCore *core, uint16_t id);
void unetmm_space_drop(UnetmmCore *core, uint16_t id);
/* An endpoint is, or is no longer, among those of its space. */
void unetmm_space_join(UnetmmCore *core, UnetmmEp *ep);
void unetmm_space_part(UnetmmCore *core, UnetmmEp *ep);
UnetmmXlat unetmm_space_lookup(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn,
                               bool write, UnetmmPage *page);
/*
 * How many pages to ask for, from vpn on, which is missing: of `limit`, those
 * that are missing without a gap, up to `most`; or as the source says.
 */
uint32_t unetmm_space_missing(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn,
                              bool write, uint64_t limit, uint32_t most);
void unetmm_page_hold(const UnetmmPage *page);
void unetmm_pages_release(UnetmmCore *core, const UnetmmPage *pages,
                          uint32_t first, uint32_t end);
void unetmm_page_release(UnetmmCore *core, const UnetmmPage *page);
void unetmm_page_move(const UnetmmPage *page, bool start);
/* Round each page's DMA.  False: look it up again. */
bool unetmm_page_lock(UnetmmCore *core, UnetmmEp *ep, UnetmmPage *page,
                      bool write);
void unetmm_page_unlock(UnetmmCore *core, UnetmmEp *ep,
                        const UnetmmPage *page);
bool unetmm_page_gone(const UnetmmPage *page);
void unetmm_page_dirty(const UnetmmPage *page);
void unetmm_page_head(const UnetmmPage *page);
void unetmm_invalidate(UnetmmCore *core);
bool unetmm_invalidate_busy(UnetmmCore *core);
uint64_t unetmm_pte_pages(uint64_t addr, uint64_t len);
/* A TLB or cache of the card's: `name`, and bytes that it takes. */
void unetmm_space_save_tlb(UnetmmStream *st, UnetmmCore *core, UnetmmTlb *tlb,
                           const char *name);
void unetmm_space_check_tlb(UnetmmStream *st, const UnetmmTlb *tlb);
uint64_t unetmm_tlb_save_limit(const UnetmmTlb *tlb);
/*
 * One page of a transfer: when it is restored its entry is held.  `write`: the
 * right that the transfer needs.
 */
void unetmm_page_save(UnetmmStream *st, UnetmmCore *core, const UnetmmEp *ep,
                      UnetmmPage *page, uint64_t vpn, bool write);

/* remote/region.c */
uint8_t unetmm_region_set(UnetmmCore *core, uint16_t space,
                          const struct unetmm_cmd_region *cmd);
/* *wait: a page is moving; unetmm_cmd_done_late() will follow. */
uint8_t unetmm_region_clear(UnetmmCore *core, uint32_t number, uint16_t tag,
                            bool *wait);
/* The region, if it is one of this space and not being cleared; or NULL. */
const UnetmmRegion *unetmm_region_find(const UnetmmCore *core, uint16_t space,
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
/* The same for a packet that is about any of these bytes. */
bool unetmm_region_moving_in(const UnetmmCore *core, uint32_t number,
                             uint64_t first, uint64_t last);
/* A page has landed: is it what a command waits for? */
void unetmm_region_landed(UnetmmCore *core);
void unetmm_target_save(UnetmmStream *st, UnetmmTarget *target,
                        const char *name);

/* remote/redirect.c */
uint8_t unetmm_redirect(UnetmmCore *core,
                        const struct unetmm_cmd_redirect *cmd, uint16_t tag,
                        uint32_t *result, bool *wait);
/*
 * Bytes from `offset` on that are in one place, from *addr of the space on:
 * `len` at most.  All of them are the region's.
 */
uint32_t unetmm_region_run(const UnetmmRegion *region, uint64_t offset,
                           uint32_t len, uint64_t *addr);
/* They are about to be written. */
void unetmm_region_note(const UnetmmRegion *region, uint64_t offset,
                        uint32_t len);
/* May none be read or written now, though there is nothing wrong with it? */
bool unetmm_region_held(const UnetmmRegion *region, uint64_t offset,
                        uint32_t len);
/* A page has landed, which a command may have waited for. */
void unetmm_redirect_landed(UnetmmCore *core, uint32_t number);
/* The region goes. */
void unetmm_redirect_forget(UnetmmCore *core, UnetmmRegion *region);
/* All of BEGIN that does not ask what has landed. */
uint8_t unetmm_redirect_add(UnetmmRegion *region,
                            const struct unetmm_cmd_redirect *cmd,
                            UnetmmRedirect **added);
/* Are they as they must be, and all in first..last? */
bool unetmm_spans_ok(const UnetmmSpans *s, uint64_t first, uint64_t last);
/* The parts of one region that are somewhere else. */
void unetmm_redirects_save(UnetmmStream *st, UnetmmCore *core,
                           UnetmmRegion *region);
bool unetmm_redirects_ok(const UnetmmCore *core, uint32_t number);

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
/* UnetmmSavedParts.imports */
void unetmm_imports_save(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep);

/* xlat/ahead.c */
/*
 * Pages from vpn on, npages of which are needed now, up to the end of
 * [addr, + len) if it is in there and the source asks ahead.
 */
uint32_t unetmm_space_ahead(const UnetmmCore *core, const UnetmmEp *ep,
                            uint64_t vpn, uint32_t npages, uint64_t addr,
                            uint64_t len);
/* Lists segs[first .. nsegs - 1], but for those that are empty. */
uint32_t unetmm_segments_ahead(const struct unetmm_seg *segs, uint32_t first,
                               uint32_t nsegs, UnetmmAhead *ahead);

/* xlat/miss.c */
bool unetmm_tlb_evicted(void *opaque, const UnetmmTlbEntry *entry);
/* Gives an unused miss to its owner, or (NULL) takes it back. */
void unetmm_miss_own(UnetmmMiss *miss, const UnetmmMissOwner *owner,
                     UnetmmEp *ep, void *of);
/* Asks for pages, in place of what was asked for before. */
void unetmm_miss_want(UnetmmCore *core, UnetmmMiss *miss, uint64_t vpn,
                      uint32_t npages, bool zero);
void unetmm_miss_cancel(UnetmmCore *core, UnetmmMiss *miss);
/* Is there room in the fault ring for what may wait?  If not, it is said. */
bool unetmm_fault_room(UnetmmCore *core);
/* The same, of what will not wait. */
bool unetmm_fault_spare(const UnetmmCore *core);
void unetmm_miss_room(UnetmmCore *core);
/* The driver has changed entries of a space's table. */
void unetmm_miss_changed(UnetmmCore *core, uint16_t space);
uint8_t unetmm_fault_reply(UnetmmCore *core, uint16_t space,
                           const struct unetmm_cmd_reply *reply,
                           uint32_t *taken);

/* xlat/save.c */
/* Of module miss. */
void unetmm_misses_save(UnetmmStream *st, UnetmmCore *core);
void unetmm_misses_check(UnetmmStream *st, UnetmmCore *core);

/* ep/notify.c */
void unetmm_notify_want(UnetmmCore *core, UnetmmEp *ep, bool error);
void unetmm_notify_tail(UnetmmCore *core, UnetmmEp *ep);
/* The notification ring has no room: says so, once. */
void unetmm_notify_full(UnetmmCore *core);

/* remote/eventcount.c */
uint8_t unetmm_counters_set(UnetmmCore *core, uint16_t id,
                            const struct unetmm_cmd_counters *cmd);
/* *result: it has been reached already. */
uint8_t unetmm_counter_arm(UnetmmCore *core, uint16_t id,
                           const struct unetmm_cmd_arm *cmd, uint32_t *result);
/*
 * May who uses the region name counter `imm` of it?  0, and *id is the space's
 * number of it; or UNETMM_WHY_*.
 */
uint32_t unetmm_counter_check(const UnetmmCore *core,
                              const UnetmmRegion *region, uint32_t imm,
                              uint32_t *id);
/* Adds 1 to a counter of the endpoint's space.  False: the bus refused it. */
bool unetmm_counter_add(UnetmmCore *core, UnetmmEp *ep, uint32_t id);
/* A counter of the space is DUE. */
void unetmm_counters_list(UnetmmCore *core, uint16_t id);
/* UnetmmSavedParts.counters */
void unetmm_counters_save(UnetmmStream *st, UnetmmCore *core, uint16_t id);

/* ep/ep.c */
/* All of EP_CREATE that does not touch memory. */
uint8_t unetmm_ep_setup(UnetmmCore *core, uint16_t id, uint16_t space,
                        const struct unetmm_cmd_ep *cmd);
uint8_t unetmm_ep_create(UnetmmCore *core, uint16_t id, uint16_t space,
                         const struct unetmm_cmd_ep *cmd);
/* *wait: a page is moving; unetmm_cmd_done_late() will follow. */
uint8_t unetmm_ep_destroy(UnetmmCore *core, uint16_t id, uint16_t tag,
                          bool *wait);
void unetmm_ep_close_check(UnetmmCore *core, UnetmmEp *ep);
UnetmmEp *unetmm_ep_live(UnetmmCore *core, uint32_t id);
void unetmm_ep_fail(UnetmmCore *core, UnetmmEp *ep, uint8_t status);
uint32_t unetmm_ep_cq_room(const UnetmmEp *ep);
uint32_t unetmm_ep_cq_spare(const UnetmmEp *ep);
bool unetmm_ep_complete(UnetmmCore *core, UnetmmEp *ep,
                        struct unetmm_cqe *cqe);
void unetmm_ep_sync(UnetmmCore *core, UnetmmEp *ep);
bool unetmm_ep_read_user(UnetmmCore *core, UnetmmEp *ep);
/* Serves the endpoint: all that it owes, and its share of its sends. */
void unetmm_ep_turn(UnetmmCore *core, UnetmmEp *ep);
/* There is room for frames: endpoints whose sends wait for it go on. */
void unetmm_ep_wire_room(UnetmmCore *core);

/* ep/save.c: of modules ep and recv */
void unetmm_eps_save(UnetmmStream *st, UnetmmCore *core);
void unetmm_eps_check(UnetmmStream *st, UnetmmCore *core);
/* Bytes of a send's frame, the page that moves; for both kinds of sends. */
void unetmm_send_save_gathered(UnetmmStream *st, UnetmmCore *core,
                               UnetmmEp *ep);
/* Could it have stopped in its state for what it waits for? */
bool unetmm_send_blocked_ok(const UnetmmTransfer *tx);
/* The header of a packet that is not kept whole; its psn and len are known. */
void unetmm_recv_save_head(UnetmmStream *st, struct unetmm_frame *f);
void unetmm_landing_save(UnetmmStream *st, UnetmmCore *core);

/* ep/channel.c */
uint8_t unetmm_channel_set(UnetmmCore *core, uint16_t id,
                           const struct unetmm_cmd_channel *cmd);
uint8_t unetmm_channel_clear(UnetmmCore *core, uint16_t id,
                             const struct unetmm_cmd_channel *cmd);
/* Not by its process: that is told once, as soon as there is room for it. */
void unetmm_channel_ended(UnetmmCore *core, UnetmmEp *ep, uint16_t number,
                          uint8_t status);
void unetmm_channel_tell(UnetmmCore *core, UnetmmEp *ep);
uint8_t unetmm_channel_type(const UnetmmCore *core,
                            const UnetmmChannel *channel);

/* rel/rel.c */
/* Writes the completions that are due, as far as there is room. */
void unetmm_rel_complete(UnetmmCore *core, UnetmmEp *ep);

/* rel/rx.c */
/*
 * Goes on where slots were waited for, and tells peers that were refused when
 * their packets can be taken now.
 */
void unetmm_rel_look_again(UnetmmCore *core, UnetmmEp *ep);

/* rel/ack.c */
void unetmm_rel_flush_acks(UnetmmCore *core);

/* rel/timer.c */
void unetmm_rel_timer(UnetmmCore *core, int64_t now);

/* aside/sysbuf.c */
uint8_t unetmm_sysbuf_set(UnetmmCore *core,
                          const struct unetmm_cmd_sysbuf *cmd);
/* All of SYSBUF_SET that neither waits nor touches memory.  False: BAD_ARG. */
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

/* remote/window.c */
/* All of WINDOW_SET but that the pages and the import are free. */
uint8_t unetmm_window_check(UnetmmCore *core, uint16_t id,
                            const struct unetmm_cmd_window *cmd);
uint8_t unetmm_window_set(UnetmmCore *core, uint16_t id,
                          const struct unetmm_cmd_window *cmd);
uint8_t unetmm_window_clear(UnetmmCore *core,
                            const struct unetmm_cmd_window *cmd);
/* True: there were some. */
bool unetmm_window_drop_import(UnetmmCore *core, const UnetmmEp *ep,
                               uint16_t import);
/* 1..8 bytes have been stored in the windows, from this byte of theirs on. */
void unetmm_window_store(UnetmmCore *core, uint32_t offset,
                         const uint8_t *data, unsigned bytes);
/*
 * All that was stored goes before what comes next.  False: the channel has no
 * room for all of it now.
 */
bool unetmm_window_flush(UnetmmCore *core, UnetmmEp *ep, UnetmmStores *s);
/* There is room for messages. */
void unetmm_window_go_on(UnetmmCore *core, UnetmmEp *ep, UnetmmStores *s);
void unetmm_window_forget(UnetmmCore *core, UnetmmEp *ep, UnetmmStores *s);
/* The stores of one channel that wait. */
void unetmm_stores_save(UnetmmStream *st, UnetmmCore *core, UnetmmStores *s);

/* remote/proxy.c */
/* All of PROXY_SET but that the pages are free. */
uint8_t unetmm_proxy_check(UnetmmCore *core, uint16_t id,
                           const struct unetmm_cmd_proxy *cmd);
uint8_t unetmm_proxy_set(UnetmmCore *core, uint16_t id,
                         const struct unetmm_cmd_proxy *cmd);
uint8_t unetmm_proxy_clear(UnetmmCore *core,
                           const struct unetmm_cmd_proxy *cmd);
void unetmm_proxy_drop_import(UnetmmCore *core, const UnetmmEp *ep,
                              uint16_t import);
/* A store to a proxy page, its first byte at `offset` of them, and a load. */
void unetmm_proxy_store(UnetmmCore *core, uint64_t offset, uint64_t value);
uint32_t unetmm_proxy_load(UnetmmCore *core, uint64_t offset);

/* ep/head.c: the pre-translated heads of the free queues */
void unetmm_head_own_misses(UnetmmEp *ep);
void unetmm_head_fetch(UnetmmCore *core, UnetmmEp *ep);
UnetmmHead *unetmm_head_at(UnetmmEp *ep, uint32_t n);
bool unetmm_head_may_zero(const UnetmmSourceOps *source, uint64_t addr,
                          uint32_t len);
/* What is behind goes on, in the main loop. */
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
void unetmm_head_pop(UnetmmCore *core, UnetmmEp *ep);
bool unetmm_head_return(UnetmmCore *core, UnetmmEp *ep, uint8_t status);
/* UnetmmModule.pages_lost */
void unetmm_head_lost_page(UnetmmCore *core, uint16_t space, uint64_t first,
                           uint64_t last);
void unetmm_head_cancel_all(UnetmmCore *core, UnetmmEp *ep);

/* ep/send.c */
void unetmm_send_turn(UnetmmCore *core, UnetmmEp *ep);
/* The endpoint gets its misses: the send's, the heads'. */
void unetmm_send_own_misses(UnetmmEp *ep);
void unetmm_send_abort(UnetmmCore *core, UnetmmEp *ep);
/* Of a message on a channel: may it have these flags?  Bytes of operands. */
bool unetmm_send_flags_ok(uint8_t op, uint8_t flags);
uint32_t unetmm_send_operands(uint8_t op);
void unetmm_send_landed(UnetmmCore *core, UnetmmEp *ep);
/*
 * Is there room for a frame to this address, its first bytes?  If not, the
 * transfer waits for it.
 */
bool unetmm_send_room(UnetmmCore *core, UnetmmTransfer *tx, const uint8_t *to);
/* Where the data of this opcode begins in a frame's buffer. */
static inline uint32_t unetmm_send_headroom(uint8_t op)
{
    return op == UNETMM_OP_FRAME ? 0 : sizeof(struct unetmm_frame);
}
/* The transfer waits for the wire, or the local queue. */
void unetmm_send_wait(UnetmmCore *core, UnetmmTransfer *tx);
/* Of what comes from the endpoint's send queue. */
static inline const UnetmmTransferOps *unetmm_send_ops(const UnetmmCore *core,
                                                       const UnetmmEp *ep)
{
    return ep->raw ? &core->tables->frames->transfer : NULL;
}
static inline void unetmm_send_finish(UnetmmTransfer *tx, uint8_t status)
{
    tx->status = status;
    tx->state = UNETMM_TX_COMPLETE;
}

/* ep/recv.c */
void unetmm_recv_frame(UnetmmCore *core, const uint8_t *frame, size_t bytes);
void unetmm_recv_drop(UnetmmCore *core, UnetmmEp *ep, enum unetmm_counter why);
/* Is what must be zero in a header of this opcode zero? */
bool unetmm_recv_members_ok(const struct unetmm_frame *f);
static inline uint32_t unetmm_read_bytes(const struct unetmm_frame *f)
{
    return UNETMM_GET(UNETMM_READ_BYTES, f->imm);
}
/* What a message needs of a head. */
typedef struct UnetmmNeed {
    uint32_t len;               /* it must be as long as that */
    uint32_t begins;            /* not 0: its first bytes will do, not held */
    bool as_it_is;              /* and they may be absent */
} UnetmmNeed;

/*
 * The first head that can take a message, its pages held in `place` unless the
 * need is less; NULL: *why says for what the message would be dropped.
 */
UnetmmHead *unetmm_recv_find_head(UnetmmCore *core, UnetmmEp *ep,
                                  const UnetmmNeed *need,
                                  UnetmmPlacement *place,
                                  enum unetmm_counter *why);
void unetmm_recv_inline(UnetmmCore *core, UnetmmEp *ep,
                        struct unetmm_cqe *cqe, const uint8_t *payload);
typedef enum UnetmmPlaced {
    UNETMM_PLACED,
    UNETMM_PLACED_NOT,          /* the bus refused it */
    UNETMM_PLACED_GONE,         /* a page went before its DMA began */
    UNETMM_PLACED_LATER,        /* its owner will be told */
} UnetmmPlaced;

/* Makes [addr, + len) all of a placement. */
void unetmm_recv_whole(UnetmmPlacement *place, uint64_t addr, uint32_t len);
/*
 * Holds the pages of the pieces; or holds none, and *vpn is the first that is
 * missing, *npages how many are from there on.
 */
UnetmmXlat unetmm_recv_hold(UnetmmCore *core, UnetmmEp *ep,
                            UnetmmPlacement *place, uint64_t *vpn,
                            uint32_t *npages);
/*
 * Writes `len` bytes to the pieces, whose pages are held; lets them go.  LATER:
 * core->rx is this landing, and `owner` adds to it what it needs to know.
 */
UnetmmPlaced unetmm_recv_place(UnetmmCore *core, UnetmmEp *ep,
                               UnetmmPlacement *place,
                               const UnetmmLandingOps *owner, uint32_t len,
                               const uint8_t *payload);
static inline enum unetmm_counter unetmm_recv_why(UnetmmPlaced placed)
{
    return placed == UNETMM_PLACED_GONE ? UNETMM_C_drop_invalidated :
           UNETMM_C_drop_dma;
}
/* Counts what is in its place. */
void unetmm_recv_done(UnetmmCore *core, UnetmmEp *ep, uint32_t len);

/* aside/slot.c: free queues whose buffers are looked at when they are used */
/*
 * Gives a frame or message (cqe: opcode RECEIVED, len, flags, channel) to the
 * endpoint's next slot, or to the backup ring, or drops and counts it.
 */
void unetmm_slot_receive(UnetmmCore *core, UnetmmEp *ep,
                         const struct unetmm_cqe *cqe, const uint8_t *data);
/* What ep/ does with them, by core->tables. */
struct UnetmmSlotOps {
    /* The endpoint has slots, and one miss, in place of heads. */
    void (*begin)(UnetmmEp *ep);
    void (*receive)(UnetmmCore *core, UnetmmEp *ep,
                    const struct unetmm_cqe *cqe, const uint8_t *data);
    const UnetmmLandingOps *landing;
};

/* Has its free queue slots, that is: no heads? */
static inline bool unetmm_ep_slotted(const UnetmmEp *ep)
{
    return ep->slotted;
}

/* aside/backup.c: slots that wait for others, and the backup ring */
/*
 * Puts the packet of the next slot into the ring.  False: *why says for what it
 * is to be dropped.
 */
bool unetmm_backup_store(UnetmmCore *core, UnetmmEp *ep,
                         const struct unetmm_cqe *cqe, const uint8_t *data,
                         enum unetmm_counter *why);
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

/* ether/flow.c; more in ether/eth.h */
uint8_t unetmm_flow_set(UnetmmCore *core, uint16_t id,
                        const struct unetmm_cmd_flow *cmd);
uint8_t unetmm_flow_clear(UnetmmCore *core,
                          const struct unetmm_cmd_flow *cmd);

/* ether/raw.c */
/*
 * A frame of one of its flows, UNETMM_ETH_HEADER bytes long at least.  *sums:
 * of this frame; looked at when the first endpoint wants to know.
 */
typedef enum UnetmmSums {
    UNETMM_SUMS_UNKNOWN,
    UNETMM_SUMS_RIGHT,
    UNETMM_SUMS_NOT,
} UnetmmSums;
void unetmm_raw_receive(UnetmmCore *core, UnetmmEp *ep, const uint8_t *frame,
                        size_t bytes, UnetmmSums *sums);
void unetmm_raw_check(UnetmmStream *st, UnetmmCore *core);

/* base/port.c */
uint8_t *unetmm_port_buffer(UnetmmCore *core);
/*
 * Where bytes [at, + n) of a buffer of unetmm_port_buffer() are, to be written:
 * it has them, or the program ends here, in every build: behind a buffer is
 * somebody else's memory.  Whoever writes a number of bytes that is not a
 * constant into such a buffer takes the place from here.
 */
static inline uint8_t *unetmm_frame_at(uint8_t *frame, uint32_t at, uint32_t n)
{
    assert(at <= UNETMM_MAX_FRAME && n <= UNETMM_MAX_FRAME - at);
    return frame + at;
}
void unetmm_port_release(UnetmmCore *core, uint8_t *frame);
bool unetmm_port_ready(const UnetmmCore *core);
/* Has this frame's way out room now: the wire, or the card's own queue? */
bool unetmm_port_open(const UnetmmCore *core, const uint8_t *frame);
/* Takes the frame: where it belongs, without more ado. */
UnetmmSent unetmm_port_emit(UnetmmCore *core, uint8_t *frame, uint32_t bytes);
/* Takes the frame; it must have come from unetmm_port_buffer(). */
UnetmmSent unetmm_port_transmit(UnetmmCore *core, uint8_t *frame,
                                uint32_t bytes);
/* The same for a frame that is not of the card's own protocol: to the wire. */
UnetmmSent unetmm_port_forward(UnetmmCore *core, uint8_t *frame,
                               uint32_t bytes);
/* Queues a frame for the receive side (UnetmmQueued); takes it. */
void unetmm_port_keep(UnetmmCore *core, uint8_t *frame, uint32_t bytes,
                      uint16_t from, uint16_t only);
bool unetmm_port_local(const UnetmmCore *core, const uint8_t *frame);
/* Is the frame of the card's own protocol? */
static inline bool unetmm_eth_ours(const uint8_t *frame)
{
    const uint8_t *type = frame + 2 * sizeof(((UnetmmParams *)NULL)->mac);

    return type[0] == UNETMM_ETHERTYPE >> 8 &&
           type[1] == (UNETMM_ETHERTYPE & 0xff);
}
/* Are there frames that could be given to the receive side now? */
static inline bool unetmm_port_waits(const UnetmmCore *core)
{
    return core->port.fifo_used && !core->tables->port->busy(core);
}
/* Gives the queued frames to the receive side, as far as the budget goes. */
void unetmm_port_drain(UnetmmCore *core);
/* The wire or the local queue has room. */
void unetmm_port_room(UnetmmCore *core);
void unetmm_port_flush_held(UnetmmCore *core, bool due);
/* A frame that is saved takes so many bytes at most. */
#define UNETMM_SAVED_FRAME      (UNETMM_MAX_FRAME + 64)
/* Bytes [from, to) of a frame; allocates when it is read. */
void unetmm_port_save_frame(UnetmmStream *st, UnetmmCore *core,
                            uint8_t **frame, uint32_t from, uint32_t to);
/* A frame that is complete, and is sent as it is. */
void unetmm_port_save_sealed(UnetmmStream *st, UnetmmCore *core,
                             uint8_t **frame, uint32_t *bytes);

/* base/delay.c */
bool unetmm_delay_room(const UnetmmCore *core);
bool unetmm_delay_take(UnetmmCore *core, uint8_t *frame, uint32_t bytes);
void unetmm_delay_save(UnetmmStream *st, UnetmmCore *core);

/* base/budget.c */
/* Enabled, not fatal, and no reset to come first. */
static inline bool unetmm_may_run(const UnetmmCore *core)
{
    return (core->ctrl & UNETMM_CTRL_ENABLE) && !core->reset_wanted &&
           !core->paused && !(core->status & UNETMM_STATUS_FATAL);
}
/* Queues the endpoint for a turn, and takes the first of the queue, or NULL. */
void unetmm_engine_queue(UnetmmCore *core, UnetmmEp *ep);
UnetmmEp *unetmm_ready_pop(UnetmmCore *core);
/*
 * The budget.  A little DMA and an index (a completion, a short frame, a buffer
 * that goes back) take as much as so many bytes.
 */
#define UNETMM_LEAST_BYTES      1024
/* An endpoint's share in one turn. */
#define UNETMM_TURN_DESCRIPTORS 16
#define UNETMM_TURN_BYTES       131072
void unetmm_budget_renew(UnetmmCore *core);
static inline void unetmm_charge(UnetmmCore *core, uint32_t descriptors,
                                 uint32_t bytes)
{
    UnetmmBudget *b = &core->budget;

    if (b->arriving) {
        bytes += descriptors * UNETMM_LEAST_BYTES;
        b->arrivals -= MIN(b->arrivals, bytes);
        return;
    }
    b->descriptors -= MIN(b->descriptors, descriptors);
    b->bytes -= MIN(b->bytes, bytes);
}
static inline bool unetmm_budget_left(const UnetmmCore *core)
{
    const UnetmmBudget *b = &core->budget;

    return b->arriving ? b->arrivals : b->descriptors && b->bytes && b->turns;
}

/* card/engine.c */
void unetmm_enter(UnetmmCore *core);
void unetmm_leave(UnetmmCore *core);

/* base/crc.c: CRC32C (Castagnoli), start with 0 */
uint32_t unetmm_crc32c(uint32_t crc, const void *data, size_t bytes);

#endif /* UNETMM_CORE_H */
