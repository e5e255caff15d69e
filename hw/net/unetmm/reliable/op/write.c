/*
 * unetmm: reliable channels: packets of WRITEs into regions
 *
 * Each packet says where its data belongs, so it is put there at once, also
 * before its turn; of an early one only the header is kept, for the
 * notification, which must come in order.  A packet that is placed late leaves
 * out the bytes that a later one has written already, so that of two WRITEs of
 * one channel to the same place the second one stays.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../../abi/unetmm_host.h"
#include "../packet.h"

/* ---- Where it goes ------------------------------------------------------ */

/*
 * Leaves the bytes in [addr, + len), len > 0, out of the placement.  All of
 * these are offsets in the region still: early data may have moved since.
 */
static void write_cut(UnetmmPlacement *place, uint64_t addr, uint32_t len)
{
    uint64_t last = addr + (len - 1);
    uint32_t n = place->npieces;

    for (uint32_t i = 0; i < n; i++) {
        UnetmmPiece old = place->pieces[i];
        uint64_t old_last = old.addr + (old.len - 1);

        if (last < old.addr || addr > old_last) {
            continue;
        }
        place->pieces[i].len = addr > old.addr ? addr - old.addr : 0;
        if (last < old_last) {
            uint32_t skip = last + 1 - old.addr;
            bool both = place->pieces[i].len;
            UnetmmPiece *rest = &place->pieces[both ? place->npieces++ : i];

            *rest = (UnetmmPiece) { .addr = old.addr + skip,
                                    .len = old.len - skip,
                                    .from = old.from + skip };
        }
    }
    /* Pieces of which nothing is left go. */
    n = 0;
    for (uint32_t i = 0; i < place->npieces; i++) {
        if (place->pieces[i].len) {
            place->pieces[n++] = place->pieces[i];
        }
    }
    place->npieces = n;
}

/* From offsets to where they are now. */
static void write_aim(UnetmmPlacement *place, const UnetmmRegion *region)
{
    for (uint32_t i = 0; i < place->npieces; i++) {
        UnetmmPiece all = place->pieces[i];
        UnetmmPiece *p = &place->pieces[i];

        p->len = unetmm_region_run(region, all.addr, all.len, &p->addr);
        if (p->len < all.len) {
            /* The loop reaches the rest, too. */
            place->pieces[place->npieces++] = (UnetmmPiece) {
                .addr = all.addr + p->len, .len = all.len - p->len,
                .from = all.from + p->len,
            };
        }
    }
}

/* Places the packet, without bytes that later packets have written. */
static void write_pieces(UnetmmCore *core, UnetmmEp *ep, const UnetmmRel *rel,
                         const struct unetmm_frame *f,
                         const UnetmmRegion *region, UnetmmPlacement *place)
{
    bool whole;

    unetmm_recv_whole(place, f->remote, f->len);
    for (uint32_t psn = f->psn + 1; rel->rx.have &&
         psn - rel->rx.nxt < UNETMM_REL_WINDOW; psn++) {
        const UnetmmRelEarly *e = &rel->early[psn % UNETMM_REL_WINDOW];

        if ((rel->rx.have & unetmm_rel_bit(psn)) &&
            !rel->kept[psn % UNETMM_REL_WINDOW].frame &&
            e->header.opcode == UNETMM_WIRE_WRITE && e->header.len &&
            e->header.handle == f->handle && e->header.offset == f->offset) {
            write_cut(place, e->header.remote, e->header.len);
        }
    }
    whole = !f->len || (place->npieces == 1 &&
                        place->pieces[0].len == f->len);
    unetmm_count(core, ep, UNETMM_C_rel_trimmed, !whole);
    write_aim(place, region);
}

/* For a move of the part of the region later. */
static void write_note(const UnetmmPlacement *place,
                       const struct unetmm_frame *f,
                       const UnetmmRegion *region)
{
    for (uint32_t i = 0; region->moved && i < place->npieces; i++) {
        unetmm_region_note(region, f->remote + place->pieces[i].from,
                           place->pieces[i].len);
    }
}

typedef enum WritePlace {
    WRITE_PLACED,
    WRITE_LATER,
    WRITE_MISSING,              /* the driver has been asked, or will be */
    WRITE_HELD,                 /* it is being moved */
    WRITE_ASIDE,                /* in the system buffer */
    WRITE_NEVER,
} WritePlace;

/* Asks for missing pages from vpn on, and for those that will follow. */
static void write_ask(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                      const struct unetmm_frame *f,
                      const UnetmmRegion *region, uint64_t vpn,
                      uint32_t npages)
{
    uint32_t more = f->flags & UNETMM_WIRE_F_LAST ? 0 : f->imm;
    uint64_t addr;
    uint32_t run = unetmm_region_run_ahead(region, f->remote, f->len, more,
                                           &addr);

    unetmm_rel_ask(core, ep, rel, UNETMM_REL_FAULT_ARRIVE,
                   (UnetmmRelMissed) { .psn = f->psn }, vpn,
                   unetmm_space_ahead(core, ep, vpn, npages, addr, run));
}

/* A slot has data for the same page: this packet goes to a slot, too. */
static WritePlace write_follow(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                               const struct unetmm_frame *f,
                               const UnetmmRegion *region,
                               const UnetmmPlacement *place,
                               const uint8_t *payload)
{
    bool aside = !region->moved &&
                 unetmm_sysbuf_take(core, ep, &rel->share, f, place, payload);

    unetmm_count(core, ep, UNETMM_C_sysbuf_follow, aside);
    return aside ? WRITE_ASIDE : WRITE_MISSING;
}

/*
 * The packet's memory is absent.  A part of a region that may move is not the
 * driver's to look for.
 */
static WritePlace write_absent(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                               const struct unetmm_frame *f,
                               const UnetmmRegion *region,
                               const UnetmmPlacement *place,
                               const uint8_t *payload)
{
    return !region->moved &&
           unetmm_rel_aside(core, ep, rel, UNETMM_ABSENT_WRITE, f, place,
                            payload) ?
           WRITE_ASIDE : WRITE_MISSING;
}

static WritePlace write_place(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                              const struct unetmm_frame *f,
                              const UnetmmRegion *region,
                              const uint8_t *payload)
{
    UnetmmPlacement *place = unetmm_recv_blank(core);
    uint32_t npages;
    uint64_t vpn;

    if (unetmm_region_is_held(region, f->remote, f->len)) {
        unetmm_count(core, ep, UNETMM_C_rel_held, 1);
        return WRITE_HELD;
    }
    write_pieces(core, ep, rel, f, region, place);
    if (unetmm_sysbuf_follows(core, &rel->share, place)) {
        return write_follow(core, ep, rel, f, region, place, payload);
    }
    switch (unetmm_recv_hold(core, ep, place, &vpn, &npages)) {
    case UNETMM_XLAT_OK:
        break;
    case UNETMM_XLAT_MISS:
        write_ask(core, ep, rel, f, region, vpn, npages);
        return write_absent(core, ep, rel, f, region, place, payload);
    case UNETMM_XLAT_ERROR:
        return WRITE_NEVER;
    }
    write_note(place, f, region);
    switch (unetmm_rel_place(core, ep, rel, place, f, payload)) {
    case UNETMM_PLACED:
        return WRITE_PLACED;
    case UNETMM_PLACED_LATER:
        return WRITE_LATER;
    case UNETMM_PLACED_GONE:
        return write_absent(core, ep, rel, f, region, place, payload);
    case UNETMM_PLACED_NOT:
        break;
    }
    return WRITE_NEVER;
}

/* ---- At its turn -------------------------------------------------------- */

/* Bytes of the WRITE that this packet continues; 0: a new one begins. */
static uint32_t write_run(const UnetmmRelIn *in, const struct unetmm_frame *f)
{
    bool same = in->run && f->handle == in->run_next.region &&
                f->offset == in->run_next.key &&
                f->remote == in->run_next.offset;

    return same ? in->run : 0;
}

/* With this packet, is the arriving WRITE as long as it may be, at most? */
static bool write_fits(const UnetmmRel *rel, const struct unetmm_frame *f)
{
    return write_run(&rel->in, f) <= unetmm_rel_longest(rel) - f->len;
}

/* The region, if this packet is to make a notification. */
static const UnetmmRegion *write_notifies(const UnetmmCore *core,
                                          const UnetmmEp *ep,
                                          const struct unetmm_frame *f)
{
    const UnetmmRegion *region;

    if (!(f->flags & UNETMM_WIRE_F_NOTIFY)) {
        return NULL;
    }
    region = unetmm_region_find(core, ep, f->handle, f->offset);
    return region && (region->flags & UNETMM_REGION_F_NOTIFY) ? region : NULL;
}

/* False: the endpoint was stopped. */
static bool write_notify(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                         const struct unetmm_frame *f, uint32_t len)
{
    const UnetmmRegion *region = write_notifies(core, ep, f);
    struct unetmm_cqe cqe = {
        .opcode = UNETMM_CQE_NOTIFY, .channel = rel->channel, .len = len,
    };

    if (!region) {
        unetmm_count(core, ep, UNETMM_C_rel_unnotified,
                     !!(f->flags & UNETMM_WIRE_F_NOTIFY));
        return true;
    }
    cqe.cookie = region->cookie;
    cqe.notify.offset = f->remote + f->len - len;
    cqe.notify.imm = f->imm;
    cqe.notify.region = f->handle;
    if (!unetmm_ep_complete(core, ep, &cqe)) {
        return false;
    }
    unetmm_count(core, ep, UNETMM_C_rel_notifies, 1);
    trace_unetmm_rel_notify(ep->id, rel->channel, f->psn, f->handle, f->imm);
    return true;
}

/* The event counter that it names, if it does; 0 or UNETMM_WHY_*. */
static uint32_t write_counter_check(const UnetmmCore *core, const UnetmmEp *ep,
                                    const struct unetmm_frame *f, uint32_t *id)
{
    const UnetmmRegion *region;

    if (!(f->flags & UNETMM_WIRE_F_COUNT)) {
        return 0;
    }
    region = unetmm_region_find(core, ep, f->handle, f->offset);
    return region ? unetmm_event_counter_check(core, region, f->imm, id) :
           UNETMM_WHY_REGION;
}

/* Counts the WRITE, all of which can be seen. */
static uint32_t write_counter_add(UnetmmCore *core, UnetmmEp *ep,
                                  const struct unetmm_frame *f)
{
    uint32_t id, reason = write_counter_check(core, ep, f, &id);

    if (reason || !(f->flags & UNETMM_WIRE_F_COUNT)) {
        return reason;
    }
    return unetmm_event_counter_add(core, ep, id) ? 0 : UNETMM_WHY_MEMORY;
}

/*
 * A WRITE with an immediate: the next free buffer goes with it, as if a
 * message of no bytes had come.  Without a buffer the packet is refused; its
 * data may be in place by then, and is written again when it comes again.
 */
static UnetmmRelTake write_imm(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                               const struct unetmm_frame *f, uint32_t len)
{
    static const UnetmmNeed need = { .unfilled = true };
    enum unetmm_counter drop;
    UnetmmHead *head = unetmm_recv_find_head(core, ep, &need,
                                             unetmm_recv_blank(core), &drop);
    struct unetmm_cqe cqe = {
        .opcode = UNETMM_CQE_WRITTEN, .channel = rel->channel, .len = len,
    };

    if (ep->error) {
        return UNETMM_TAKE_ENDED;
    }
    if (!head) {
        return unetmm_rel_no_head(ep, rel, drop);
    }
    cqe.cookie = head->cookie;
    unetmm_recv_imm(&cqe, f);
    if (!unetmm_ep_complete(core, ep, &cqe)) {
        return UNETMM_TAKE_ENDED;
    }
    unetmm_head_pop(core, ep);
    unetmm_count(core, ep, UNETMM_C_rel_imms, 1);
    return UNETMM_TAKE_DONE;
}

/* The packet's data, and all before it, is in its place. */
static UnetmmRelTake write_taken(UnetmmCore *core, UnetmmEp *ep,
                                 UnetmmRel *rel, const struct unetmm_frame *f)
{
    uint32_t len = write_run(&rel->in, f) + f->len;
    uint32_t reason = write_counter_add(core, ep, f);
    UnetmmRelTake take;

    if (reason) {
        return unetmm_rel_reject(rel, reason);
    }
    if (f->flags & UNETMM_WIRE_F_IMM) {
        take = write_imm(core, ep, rel, f, len);
        if (take != UNETMM_TAKE_DONE) {
            return take;
        }
    }
    unetmm_count(core, ep, UNETMM_C_rx_frames, 1);
    unetmm_count(core, ep, UNETMM_C_rx_bytes, f->len);
    if (f->flags & UNETMM_WIRE_F_LAST) {
        rel->in.run = 0;
        return write_notify(core, ep, rel, f, len) ? UNETMM_TAKE_DONE :
               UNETMM_TAKE_ENDED;
    }
    rel->in.run = len;
    rel->in.run_next = unetmm_rel_target(f, 0);
    rel->in.run_next.offset += f->len;
    return UNETMM_TAKE_DONE;
}

static void write_statistics(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                             const struct unetmm_frame *f)
{
    unetmm_count(core, ep, UNETMM_C_rel_writes, 1);
    trace_unetmm_rel_placed(ep->id, rel->channel, f->psn, f->handle,
                            f->remote, f->len);
}

/* The data of a packet at its turn, which is not in place yet. */
static UnetmmRelTake write_data_in_turn(UnetmmCore *core, UnetmmEp *ep,
                                        UnetmmRel *rel,
                                        const struct unetmm_frame *f,
                                        const uint8_t *payload)
{
    UnetmmTarget target = unetmm_rel_target(f, f->len);
    const UnetmmRegion *region;
    uint32_t reason;

    /* InfiniBand looks at no key for a request without bytes. */
    if (rel->strict && !f->len) {
        write_statistics(core, ep, rel, f);
        return UNETMM_TAKE_DONE;
    }
    reason = unetmm_region_check(core, ep, &target, UNETMM_RIGHT_WRITE,
                                 &region);
    if (reason) {
        return unetmm_rel_reject(rel, reason);
    }
    switch (write_place(core, ep, rel, f, region, payload)) {
    case WRITE_PLACED:
        write_statistics(core, ep, rel, f);
        return UNETMM_TAKE_DONE;
    case WRITE_LATER:
        return UNETMM_TAKE_LATER;
    case WRITE_MISSING:
        return unetmm_rel_refuse(rel, UNETMM_REL_WANT_PAGE);
    case WRITE_HELD:
        return unetmm_rel_refuse(rel, UNETMM_REL_WANT_PART);
    case WRITE_ASIDE:
        return UNETMM_TAKE_ASIDE;
    case WRITE_NEVER:
        break;
    }
    return unetmm_rel_reject(rel, UNETMM_WHY_MEMORY);
}

static UnetmmRelTake write_take(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                                const struct unetmm_frame *f,
                                const uint8_t *payload)
{
    UnetmmRelTake take = UNETMM_TAKE_DONE;
    uint32_t reason, id;

    if (!write_fits(rel, f)) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_bad);
        return UNETMM_TAKE_DROPPED;
    }
    reason = write_counter_check(core, ep, f, &id);
    if (reason) {
        return unetmm_rel_reject(rel, reason);
    }
    if (write_notifies(core, ep, f) && !unetmm_ep_cq_spare(ep)) {
        ep->publish = true;
        return unetmm_rel_refuse(rel, UNETMM_REL_WANT_CQ);
    }
    if (payload) {
        take = write_data_in_turn(core, ep, rel, f, payload);
    } else if (rel->rx.spoilt & unetmm_rel_bit(f->psn)) {
        take = unetmm_rel_reject(rel, unetmm_region_find(core, ep,
                                 f->handle, f->offset) ? UNETMM_WHY_MEMORY :
                                 UNETMM_WHY_REGION);
    }
    return take == UNETMM_TAKE_DONE ? write_taken(core, ep, rel, f) : take;
}

/* ---- Before its turn ---------------------------------------------------- */

static void write_keep(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                       const struct unetmm_frame *f)
{
    write_statistics(core, ep, rel, f);
    unetmm_rel_keep_header(core, ep, rel, f, NULL);
}

static void write_early(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                        const struct unetmm_frame *f, const uint8_t *payload)
{
    UnetmmTarget target = unetmm_rel_target(f, f->len);
    WritePlace place = WRITE_NEVER;
    const UnetmmRegion *region;
    uint32_t id;

    if (!unetmm_region_check(core, ep, &target, UNETMM_RIGHT_WRITE,
                             &region) &&
        !write_counter_check(core, ep, f, &id)) {
        place = write_place(core, ep, rel, f, region, payload);
    }
    if (place == WRITE_PLACED) {
        write_keep(core, ep, rel, f);
    } else if (place != WRITE_LATER && place != WRITE_ASIDE) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_early);
    }
}

static UnetmmRelTake write_early_landed(UnetmmCore *core, UnetmmEp *ep,
                                        UnetmmRel *rel,
                                        const struct unetmm_frame *f,
                                        bool landed, enum unetmm_counter drop)
{
    UnetmmTarget target = unetmm_rel_target(f, f->len);
    const UnetmmRegion *region;

    /* The region may have been cleared while the last page moved. */
    if (!landed || unetmm_region_check(core, ep, &target, UNETMM_RIGHT_WRITE,
                                       &region)) {
        unetmm_recv_drop(core, ep, landed ? UNETMM_C_drop_revoked : drop);
    } else {
        write_keep(core, ep, rel, f);
    }
    return UNETMM_TAKE_KEPT;
}

static UnetmmRelTake write_landed(UnetmmCore *core, UnetmmEp *ep,
                                  UnetmmRel *rel, const struct unetmm_frame *f,
                                  bool landed, enum unetmm_counter drop)
{
    UnetmmRelTake take;

    if (f->psn != rel->rx.nxt) {
        return write_early_landed(core, ep, rel, f, landed, drop);
    }
    if (landed) {
        write_statistics(core, ep, rel, f);
        take = write_taken(core, ep, rel, f);
        if (take == UNETMM_TAKE_REJECTED || take == UNETMM_TAKE_REFUSED) {
            unetmm_recv_drop(core, ep, take == UNETMM_TAKE_REJECTED ?
                             UNETMM_C_drop_rel_rejected :
                             UNETMM_C_drop_rel_refused);
        }
        return take;
    }
    unetmm_recv_drop(core, ep, drop);
    if (drop == UNETMM_C_drop_dma || drop == UNETMM_C_drop_revoked) {
        return unetmm_rel_reject(rel, drop == UNETMM_C_drop_dma ?
                                 UNETMM_WHY_MEMORY : UNETMM_WHY_REGION);
    }
    return unetmm_rel_refuse(rel, UNETMM_REL_WANT_PAGE);
}

/*
 * May the packet go on through its region?  If not, that has been cleared
 * meanwhile, or the packet's part of it is being moved.
 */
static bool write_may_go_on(const UnetmmCore *core,
                            const UnetmmLanding *landing,
                            enum unetmm_counter *drop)
{
    const struct unetmm_frame *f = &landing->header;
    const UnetmmRegion *region =
        unetmm_region_find(core, &core->eps[landing->ep], f->handle,
                           f->offset);

    *drop = region ? UNETMM_C_drop_moved : UNETMM_C_drop_revoked;
    return region && !unetmm_region_is_held(region, f->remote, f->len);
}

/* Is the piece where that part of the region is? */
static bool write_piece_ok(const UnetmmRegion *region,
                           const UnetmmPiece *piece, uint64_t remote)
{
    uint32_t n;

    for (uint32_t at = 0; at < piece->len; at += n) {
        uint64_t addr;

        n = unetmm_region_run(region, remote + piece->from + at,
                              piece->len - at, &addr);
        if (addr != piece->addr + at) {
            return false;
        }
    }
    return true;
}

/*
 * Each piece is the part of the region that the header says.  Of a packet
 * before its turn the length of its WRITE is looked at when it is its turn.
 */
static bool write_landing_ok(UnetmmCore *core, UnetmmRel *rel)
{
    const UnetmmLanding *rx = core->landing;
    const UnetmmRegion *region = &core->remote->regions[0];

    if (rx->header.handle >= core->params.regions ||
        rx->header.psn - rel->rx.nxt >= UNETMM_REL_WINDOW ||
        (rel->rx.have & unetmm_rel_bit(rx->header.psn)) ||
        rx->len > rel->mtu ||
        (rx->header.psn == rel->rx.nxt &&
         !write_fits(rel, &rx->header))) {
        return false;
    }
    region += rx->header.handle;
    if (!region->live || rx->header.flags & UNETMM_WIRE_F_KEYED ||
        region->key != rx->header.offset ||
        region->space != core->eps[rel->ep].space ||
        !unetmm_region_in_pd(region->pd, &core->eps[rel->ep]) ||
        rx->header.remote > region->length ||
        rx->len > region->length - rx->header.remote ||
        !(region->rights & UNETMM_RIGHT_WRITE)) {
        return false;
    }
    for (uint32_t i = 0; i < rx->place.npieces; i++) {
        if (!write_piece_ok(region, &rx->place.pieces[i],
                            rx->header.remote)) {
            return false;
        }
    }
    return true;
}

/* The end of a message, and one of the four; or the bytes to follow. */
static bool write_header_ok(const struct unetmm_frame *f)
{
    uint32_t use = f->flags & (UNETMM_WIRE_F_NOTIFY | UNETMM_WIRE_F_COUNT |
                               UNETMM_WIRE_F_IMM | UNETMM_WIRE_F_ACK);

    if (!(f->flags & UNETMM_WIRE_F_LAST)) {
        return !use && f->imm <= UNETMM_MAX_STRICT_MESSAGE;
    }
    return use ? !(use & (use - 1)) : !f->imm;
}

/* The end of a WRITE has room for an acknowledgement, if `imm` is not used. */
static bool write_has_room(const struct unetmm_frame *f, uint8_t peer_takes)
{
    return peer_takes & UNETMM_CHANNEL_F_ACK_WRITE &&
           f->flags & UNETMM_WIRE_F_LAST &&
           !(f->flags & (UNETMM_WIRE_F_NOTIFY | UNETMM_WIRE_F_COUNT |
                         UNETMM_WIRE_F_IMM));
}

static void write_fill(const UnetmmRelMsg *m, struct unetmm_frame *f,
                       uint32_t at, uint32_t bytes)
{
    unetmm_rel_fill_target(m, f, at);
    if (at + bytes != m->len) {
        f->imm = m->len - at - bytes;
        return;
    }
    f->flags |= UNETMM_WIRE_F_LAST;
    if (m->flags & UNETMM_SQE_F_NOTIFY) {
        f->flags |= UNETMM_WIRE_F_NOTIFY;
        f->imm = m->imm;
    } else if (m->flags & UNETMM_SQE_F_COUNT) {
        f->flags |= UNETMM_WIRE_F_COUNT;
        f->imm = m->imm;
    } else if (m->flags & UNETMM_SQE_F_IMM) {
        f->flags |= UNETMM_WIRE_F_IMM;
        f->imm = m->imm;
    }
}

const UnetmmRelOp unetmm_rel_op_write = {
    .kind[0] = {
        .sqe = { .flags = UNETMM_SQE_F_INLINE | UNETMM_SQE_F_QUIET |
                          UNETMM_SQE_F_NOTIFY | UNETMM_SQE_F_COUNT |
                          UNETMM_SQE_F_IMM | UNETMM_SQE_F_KEYED,
                 .one_sided = true },
        .opcode = UNETMM_WIRE_WRITE, .gathers = true, .fill = write_fill,
    },
    .right = UNETMM_RIGHT_WRITE,
    .header = { .with = UNETMM_WITH_RELIABLE,
                .flags = UNETMM_WIRE_F_PAYLOAD_CRC | UNETMM_WIRE_F_LAST |
                         UNETMM_WIRE_F_ASK | UNETMM_WIRE_F_NOTIFY |
                         UNETMM_WIRE_F_COUNT | UNETMM_WIRE_F_IMM |
                         UNETMM_WIRE_F_KEYED | UNETMM_WIRE_F_ACK,
                .psn = true, .offset = true, .remote = true, .handle = true,
                .imm = true, .len = true, .ok = write_header_ok },
    .along = offsetof(struct unetmm_frame, imm),
    .has_room = write_has_room,
    .header_is_enough = true,
    .take = write_take,
    .early = write_early,
    .landed = write_landed,
    .may_go_on = write_may_go_on,
    .landing_ok = write_landing_ok,
};
