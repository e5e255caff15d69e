/*
 * unetmm: a driver and its processes for the core's tests
 *
 * The driver owns the card's rings, issues commands, and serves the fault ring
 * from a model of each process's memory: which virtual page lies where, with
 * which rights, resident or not.  A page has DMA rights in the fake host just
 * while the driver would have it pinned: from the reply that gives it to the
 * eviction record or invalidation that takes it back, revoked in the very
 * moment the record is written, as a driver on another processor could.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef FAKE_DRIVER_H
#define FAKE_DRIVER_H

#include "fake_host.h"

typedef struct FakeDriver FakeDriver;

/* One ring between card and driver, from the driver's side. */
typedef struct FakeRing {
    uint64_t base;
    uint32_t log2;
    uint32_t entry_bytes;
    uint32_t index;             /* entries written, or taken */
} FakeRing;

/* One virtual page in the driver's model. */
typedef struct FakeVpage {
    uint64_t vpn;
    uint64_t dma;
    uint8_t rights;             /* FAKE_R, FAKE_W */
    bool absent;                /* not resident: answered DEFERRED */
    uint8_t error;              /* UNETMM_ST_*: answered ERROR */
    unsigned pins;              /* not 0: the card has it, or is given it */
    unsigned asked;             /* misses reported for it */
    unsigned evicted;
    bool dirty;                 /* an eviction said so */
} FakeVpage;

typedef struct FakeSpace {
    FakeDriver *driver;
    uint16_t id;
    uint8_t source;
    uint8_t levels;
    uint64_t table;             /* pinned: root page */
    GHashTable *pages;          /* vpn -> FakeVpage */
} FakeSpace;

#define FAKE_SPACES 16
#define FAKE_EPS    64

/* A buffer of the backup ring, by the index of which the card reports it. */
typedef struct FakeBuffer {
    uint64_t addr;
    uint32_t len;
} FakeBuffer;

struct FakeDriver {
    FakeHost *host;
    FakeRing ring[UNETMM_NUM_RINGS];
    uint16_t tag;
    uint16_t asked[1 << 16];    /* by tag: the opcode of a command, and 1 */
    uint64_t list;              /* one page for FAULT_REPLY lists */
    FakeSpace *spaces[FAKE_SPACES];
    GArray *waiting;            /* of struct unetmm_fault: not answered yet */
    GArray *ahead;              /* of AHEAD, since it was emptied */
    unsigned misses, evictions; /* records taken */
    bool hold_back;             /* fake_serve() takes but does not answer */
    GArray *slots;              /* uint64_t: the system buffer */
    uint32_t slot_bytes;
    GArray *full;               /* uint32_t: of these, reported, in order */
    bool hold_slots;            /* fake_serve() does not copy them */
    GArray *buffers;            /* FakeBuffer: all that have been posted */
    GArray *backups;            /* struct unetmm_fault: reported, in order */
    bool hold_backups;          /* fake_serve() does not answer them */
    struct FakeEp *eps[FAKE_EPS];       /* those with policy backup */
    bool watch;                 /* revoke at once; off for broken drivers */
};

typedef struct FakeEp {
    FakeDriver *driver;
    FakeHost *host;
    FakeSpace *space;
    uint16_t id;
    uint8_t sq_log2, fq_log2, cq_log2;
    uint8_t policy, pretranslate, flags;
    uint16_t backup;            /* bits of its bitmap */
    uint16_t fq_of;
    uint32_t pd;
    uint64_t sq, fq, cq, index;
    uint64_t posts;             /* source ktlb: index block of the driver */
    uint32_t sq_prod, fq_prod, cq_cons;
} FakeEp;

extern const uint8_t fake_peer_mac[6];

/* ---- Driver ---- */

/* Rings of 64, notify 32; change d->ring[].log2 before fake_driver_start(). */
void fake_driver_init(FakeDriver *d, FakeHost *host);
void fake_driver_start(FakeDriver *d);
void fake_driver_free(FakeDriver *d);

/* Writes a command, its tag included; returns the tag. */
uint16_t fake_issue(FakeDriver *d, struct unetmm_cmd cmd);
/* The next completion, if there is one. */
bool fake_done(FakeDriver *d, struct unetmm_cmd_done *done);
/* Issues and expects the completion at once.  Returns its status. */
uint8_t fake_command(FakeDriver *d, struct unetmm_cmd cmd, uint32_t *result);

/* The next entry of a ring that the card writes; phase checked; CONS moves
 * only with fake_taken(). */
bool fake_next(FakeDriver *d, unsigned ring, void *entry);
void fake_taken(FakeDriver *d, unsigned ring);
/* Of slots only d->full is told, of AHEAD d->ahead, of BACKUP d->backups. */
bool fake_fault(FakeDriver *d, struct unetmm_fault *f);
bool fake_notification(FakeDriver *d, struct unetmm_notify *n);

uint8_t fake_reply(FakeDriver *d, const struct unetmm_fault *f, uint8_t status,
                   uint8_t error);
/* RESOLVED with the first `npages` of the fault's pages, from the model. */
uint8_t fake_resolve(FakeDriver *d, const struct unetmm_fault *f,
                     uint32_t npages, uint32_t *taken);
/* Gives pages unasked. */
uint8_t fake_insert(FakeSpace *s, uint64_t vaddr, uint32_t npages,
                    uint32_t *taken);
/* Empties the fault ring and answers all from the model, until it is quiet. */
void fake_serve(FakeDriver *d);
/* Answers deferred misses whose pages have become resident. */
void fake_paged_in(FakeDriver *d);
/* Gives a system buffer of n slots, for packets of up to `mtu` bytes. */
uint8_t fake_sysbuf(FakeDriver *d, uint32_t n, uint32_t mtu);
/* The head of a slot. */
struct unetmm_slot fake_slot(FakeDriver *d, uint32_t slot);
/* Copies a slot's data to its place, all of which is mapped. */
void fake_slot_copy(FakeDriver *d, uint32_t slot);
uint8_t fake_slot_done(FakeDriver *d, uint32_t slot, uint8_t status);
/* Copies and answers the n-th of those that were reported, as it can be. */
void fake_slot_serve(FakeDriver *d, unsigned n);
/* Posts n more buffers to the backup ring. */
void fake_buffers(FakeDriver *d, unsigned n, uint32_t len);
/* Posts this memory, with all rights: a used buffer again, or none. */
void fake_buffer_at(FakeDriver *d, uint64_t addr, uint32_t len, uint32_t rsvd);
/* Checks the contents of a record's buffer: message n. */
void fake_backup_check(FakeDriver *d, const struct unetmm_fault *f,
                       uint32_t n);
uint8_t fake_backup_done(FakeDriver *d, const struct unetmm_fault *f,
                         uint8_t status, uint64_t cookie);
/*
 * Copies the n-th of those that were reported to where its slot says, which has
 * to be posted, answers, and posts its buffer again.
 */
void fake_backup_serve(FakeDriver *d, unsigned n);
uint8_t fake_low_arm(FakeEp *ep, uint32_t buffers, uint32_t *result);
uint8_t fake_tail_arm(FakeEp *ep, uint32_t slot, bool arm, uint32_t *result);
/* The free descriptor of a slot, and the buffers posted. */
struct unetmm_fqe fake_fqe(FakeEp *ep, uint32_t slot);
/* Takes the pages away from the card: the next lookup misses. */
void fake_take_away(FakeSpace *s, uint64_t vaddr, uint64_t bytes);
/* Takes the pages away.  False: the card uses one of them, and is told to end that. */
bool fake_try_take(FakeSpace *s, uint64_t vaddr, uint64_t bytes);
/* Makes them present, unasked. */
void fake_make_present(FakeSpace *s, uint64_t vaddr, uint64_t bytes);
/* The driver's invalidation; true: the card says busy. */
bool fake_invalidate(FakeSpace *s, uint64_t vaddr, uint64_t bytes);

/* ---- Processes ---- */

FakeSpace *fake_space(FakeDriver *d, uint16_t id, uint8_t source,
                      uint8_t levels);
void fake_space_gone(FakeSpace *s);
/* Backs [vaddr, vaddr + bytes) with scattered pages. */
void fake_map(FakeSpace *s, uint64_t vaddr, uint64_t bytes, uint8_t rights);
FakeVpage *fake_vpage(FakeSpace *s, uint64_t vaddr);
/* The address of the page's entry of level 0; makes the tables above it. */
uint64_t fake_table_at(FakeSpace *s, uint64_t vaddr);
void fake_table_set(FakeSpace *s, uint64_t vaddr, uint64_t pte);
uint64_t fake_table_get(FakeSpace *s, uint64_t vaddr);
/* The entry that gives the page as far as the process has it. */
uint64_t fake_pte(const FakeVpage *page);
void fake_fill(FakeSpace *s, uint64_t vaddr, uint64_t bytes, uint32_t n);
void fake_store(FakeSpace *s, uint64_t vaddr, const void *buf, size_t bytes);
void fake_load(FakeSpace *s, uint64_t vaddr, void *buf, size_t bytes);
/* [vaddr, +bytes) holds bytes from.. of message n. */
void fake_check(FakeSpace *s, uint64_t vaddr, uint64_t bytes, uint32_t n);

/* Depths of 16, policy skip, all heads; change before fake_ep_create(). */
void fake_ep_init(FakeEp *ep, FakeDriver *d, uint16_t id, FakeSpace *s);
void fake_ep_alloc(FakeEp *ep);
struct unetmm_cmd fake_ep_cmd(const FakeEp *ep);
void fake_ep_create(FakeEp *ep);
void fake_ep_open(FakeEp *ep, FakeDriver *d, uint16_t id, FakeSpace *s);
uint8_t fake_ep_destroy(FakeEp *ep);
uint8_t fake_channel(FakeEp *ep, uint16_t channel, const uint8_t *mac,
                     uint16_t peer_ep, uint16_t peer_channel, uint32_t mtu);
/*
 * One of type RELIABLE; zeros in `how` mean the card's defaults.  Its flags
 * CHANNEL_F_KEYED and _IMM say that the peer's card lacks these.
 */
/* How many completions the card has still to write for the number. */
uint32_t fake_channel_clear(FakeEp *ep, uint16_t channel, uint8_t flags);
uint8_t fake_channel_rel(FakeEp *ep, uint16_t channel, const uint8_t *mac,
                         uint16_t peer_ep, uint16_t peer_channel,
                         const struct unetmm_cmd_channel *how);
/* Regions and imports.  `cookie` of a region is its number + 0x7000. */
/* Flags of one that peers use in each way. */
#define FAKE_REGION_PEERS (UNETMM_REGION_F_NOTIFY | UNETMM_REGION_F_KEYED | \
                           UNETMM_REGION_F_REDIRECT)
/* All rights, no flags. */
struct unetmm_cmd fake_region_cmd(const FakeSpace *s, uint32_t region,
                                  uint32_t key, uint64_t vaddr,
                                  uint64_t length);
uint8_t fake_region(FakeSpace *s, uint32_t region, uint32_t key, uint64_t vaddr,
                    uint64_t length, uint8_t rights, uint8_t flags);
uint8_t fake_region_clear(FakeDriver *d, uint32_t region);
uint8_t fake_import(FakeEp *ep, uint32_t import, uint16_t channel,
                    uint32_t region, uint32_t key, uint64_t length,
                    uint8_t rights);
uint8_t fake_import_clear(FakeEp *ep, uint32_t import);
/* Channel `channel` of both, on the same card. */
void fake_connect(FakeEp *a, FakeEp *b, uint16_t channel, uint32_t mtu);
/* A channel to endpoint `peer_ep` of the card at fake_peer_mac. */
void fake_connect_peer(FakeEp *ep, uint16_t channel, uint16_t peer_ep,
                       uint32_t mtu);

void fake_user_word(FakeEp *ep, size_t offset, uint32_t value);
struct unetmm_ep_card fake_card(FakeEp *ep);
void fake_ring_bell(FakeEp *ep);
/* Raw: `nslots` slots at the producer; does not move it. */
void fake_put_slots(FakeEp *ep, const void *slots, unsigned nslots);
void fake_move_sq(FakeEp *ep, unsigned nslots);
/* Descriptor, producer index, no doorbell.  Returns slots used. */
unsigned fake_send(FakeEp *ep, uint16_t channel, const struct unetmm_seg *segs,
                   unsigned nsegs, uint64_t cookie, uint8_t flags);
unsigned fake_send_inline(FakeEp *ep, uint16_t channel, uint32_t n,
                          unsigned len, uint64_t cookie, uint8_t flags);
/* Any descriptor in one slot: up to two segments, or 32 bytes inline. */
void fake_send_sqe(FakeEp *ep, struct unetmm_sqe sqe);
/* One segment. */
unsigned fake_send_at(FakeEp *ep, uint16_t channel, uint64_t vaddr,
                      uint32_t len, uint64_t cookie);
void fake_post(FakeEp *ep, uint64_t vaddr, uint32_t len, uint64_t cookie);
/* Descriptors, posted together as they are. */
void fake_post_fqes(FakeEp *ep, const struct unetmm_fqe *fqes, unsigned n);
/* As two parts, one behind the other; cut 0: as one. */
void fake_post_cut(FakeEp *ep, uint64_t vaddr, uint32_t len, uint32_t cut,
                   uint64_t cookie);
bool fake_poll(FakeEp *ep, struct unetmm_cqe *cqe);
struct unetmm_cqe fake_expect(FakeEp *ep, uint8_t opcode, uint8_t status,
                              uint64_t cookie);
void fake_expect_none(FakeEp *ep);

/* ---- Frames ---- */

/* A datagram from the peer to `ep`, payload pattern n. */
FakeFrame *fake_datagram(FakeEp *ep, uint16_t channel, uint16_t src_ep,
                         uint32_t len, uint32_t n);
struct unetmm_frame *fake_header(FakeFrame *f);
/* Header CRC (and payload CRC where the flag says so), after changes. */
void fake_seal(FakeFrame *f);
/* The bytes of a frame of the wire are a datagram with this payload. */
void fake_check_frame(const FakeFrame *f, uint32_t len, uint32_t n);
bool fake_receive(FakeHost *host, const FakeFrame *f);
/* Delivers and frees. */
void fake_deliver(FakeHost *host, FakeFrame *f);

#endif /* FAKE_DRIVER_H */
