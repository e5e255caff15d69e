/*
 * unetmm: free queues whose buffers are looked at when they are used
 *
 * Raw endpoints, and datagrams with policy `backup`, ask for nothing ahead.
 * The next slot is fq_cons + head_offset: its descriptor is read once for each
 * packet that is for it, and only the pages that the packet touches have to be
 * there.  An absent page costs the packet, and is asked for (policy drop); or
 * the packet goes to the backup ring, and those behind it go on to the next
 * slots, but are not shown before it (aside/backup.c).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "aside.h"

#define SLOT_MISS       1       /* its UnetmmMiss in the endpoint */
#define SLOT_TRIES      16      /* buffers that one packet may send back */

static uint32_t slot_next(const UnetmmEp *ep)
{
    return ep->fq_cons + ep->head_offset;
}

static bool slot_posted(const UnetmmEp *ep)
{
    return ep->fq_prod - ep->fq_cons > ep->head_offset;
}

/*
 * The next slot has something to say: now, or when its turn comes.  False: it
 * cannot be said, and the slot stays.
 */
static bool slot_take(UnetmmCore *core, UnetmmEp *ep, const UnetmmTaken *taken)
{
    bool asked = ep->slot_asked == slot_next(ep);

    if (ep->head_offset) {
        trace_unetmm_backup_held(ep->id, slot_next(ep), ep->head_offset);
        unetmm_backup_take(ep, taken);
    } else if (!unetmm_backup_complete(core, ep, taken)) {
        return false;
    }
    /* With policy backup the miss may be of an earlier slot, which waits. */
    if (asked) {
        unetmm_miss_cancel(core, &ep->misses[SLOT_MISS]);
        ep->slot_status = UNETMM_ST_OK;
    }
    return true;
}

/* The next slot's buffer goes back unfilled. */
static bool slot_return(UnetmmCore *core, UnetmmEp *ep, uint64_t cookie,
                        uint8_t status)
{
    UnetmmTaken taken = { .cookie = cookie, .status = status };

    if (!slot_take(core, ep, &taken)) {
        return false;
    }
    unetmm_charge(core, 1, 0);
    unetmm_count(core, ep, UNETMM_C_bufs_failed, 1);
    return true;
}

/* The next slot's message has landed; or it has not, which `drop` counts. */
static void slot_landed(UnetmmCore *core, UnetmmEp *ep,
                        const struct unetmm_cqe *cqe, bool landed,
                        enum unetmm_counter drop)
{
    UnetmmTaken taken = {
        .cookie = cqe->cookie, .len = cqe->len, .channel = cqe->channel,
        .flags = cqe->flags,
    };
    bool held = ep->head_offset;

    if (!landed) {
        unetmm_recv_drop(core, ep, drop);
        if (drop == UNETMM_C_drop_dma) {
            slot_return(core, ep, cqe->cookie, UNETMM_ST_DMA);
        }
    } else if (slot_take(core, ep, &taken)) {
        unetmm_count(core, ep, UNETMM_C_backup_held, held);
        unetmm_recv_done(core, ep, taken.len);
    } else {
        unetmm_recv_drop(core, ep, ep->error ? UNETMM_C_drop_stopped :
                         UNETMM_C_drop_cq_full);
    }
}

static void slot_landed_late(UnetmmCore *core, UnetmmEp *ep,
                             UnetmmLanding *landing, bool landed,
                             enum unetmm_counter drop)
{
    slot_landed(core, ep, &landing->cqe, landed, drop);
}

static bool slot_place_ok(UnetmmCore *core, const UnetmmEp *ep)
{
    const UnetmmLanding *rx = core->landing;

    return rx->place.npieces == 1 && rx->place.pieces[0].len == rx->len &&
           rx->cqe.opcode == UNETMM_CQE_RECEIVED && unetmm_slot_landing_ok(ep);
}

static const UnetmmLandingOps slot_landing = {
    .name = "slot",
    .landed = slot_landed_late,
    .place_ok = slot_place_ok,
};

/* Lands a message in the next slot; its pages are held.  cqe: its cookie. */
static void slot_land(UnetmmCore *core, UnetmmEp *ep, UnetmmPlacement *place,
                      const struct unetmm_cqe *cqe, const uint8_t *data)
{
    UnetmmPlaced placed = unetmm_recv_place(core, ep, place,
                                            &slot_landing, cqe->len,
                                            data);

    if (placed == UNETMM_PLACED_LATER) {
        core->landing->cqe = *cqe;
    } else {
        slot_landed(core, ep, cqe, placed == UNETMM_PLACED,
                    unetmm_recv_why(placed));
    }
}

/* The driver has replied for the slot that was asked for. */
static void slot_reply(UnetmmCore *core, UnetmmMiss *miss, uint8_t reply,
                       uint8_t status)
{
    UnetmmEp *ep = miss->ep;

    if (reply == UNETMM_REPLY_DEFERRED) {
        unetmm_count(core, ep, UNETMM_C_faults_deferred, 1);
    } else if (reply == UNETMM_REPLY_ERROR) {
        /* The next packet finds it so; nobody waits for the buffer before. */
        ep->slot_status = status;
        unetmm_count(core, ep, UNETMM_C_faults_error, 1);
    }
}

static const UnetmmMissOwner slot_owner = {
    .name = "slot", .write = true, .head = true, .reply = slot_reply,
};

static void slot_begin(UnetmmEp *ep)
{
    unetmm_miss_own(&ep->misses[SLOT_MISS], &slot_owner, ep, NULL);
}

/* Asks for the buffer's pages from vpn on, if nothing is asked for. */
static void slot_ask(UnetmmCore *core, UnetmmEp *ep,
                     const struct unetmm_fqe *fqe, uint64_t vpn)
{
    uint64_t end = (fqe->addr + (fqe->len - 1)) >> UNETMM_PAGE_SHIFT;

    if (ep->misses[SLOT_MISS].state != UNETMM_MISS_NONE) {
        return;
    }
    ep->slot_asked = slot_next(ep);
    ep->slot_status = UNETMM_ST_OK;
    unetmm_miss_want(core, &ep->misses[SLOT_MISS], vpn,
                     unetmm_space_missing(core, ep, vpn, true, end - vpn + 1,
                                          UNETMM_REPLY_MAX_PAGES), false);
}

/* The packet's memory is absent (fqe), or it has none at all. */
static void slot_absent(UnetmmCore *core, UnetmmEp *ep,
                        const struct unetmm_fqe *fqe, uint64_t vpn,
                        const struct unetmm_cqe *cqe, const uint8_t *data)
{
    const UnetmmSourceOps *source = core->spaces[ep->space].source;
    enum unetmm_counter drop = fqe ? UNETMM_C_drop_absent :
                              UNETMM_C_drop_no_buffer;
    const UnetmmAbsent ctx = {
        .ep = ep, .at = UNETMM_ABSENT_SLOT, .len = cqe->len,
    };
    bool store = ep->policy->absent(core, &ctx) == UNETMM_VERDICT_STORE &&
                 ep->bm_size;

    /*
     * When the packet is stored, the driver enters the page into the table
     * unasked.  A translation that only the TLB has is asked for.
     */
    if (fqe && (!store || source->only_copy_is_the_tlb)) {
        slot_ask(core, ep, fqe, vpn);
    }
    if (!store || !unetmm_backup_store(core, ep, cqe, data, &drop)) {
        unetmm_recv_drop(core, ep, drop);
    }
}

/* The error of the next slot for any packet; UNETMM_ST_OK: none. */
static uint8_t slot_wrong(UnetmmCore *core, UnetmmEp *ep,
                          const struct unetmm_fqe *fqe)
{
    if (ep->slot_status != UNETMM_ST_OK && ep->slot_asked == slot_next(ep)) {
        return ep->slot_status;
    }
    return unetmm_head_status(core, ep, fqe);
}

/*
 * Tries the next slot, which is posted.  False: its buffer has gone back, and
 * the packet is for the one behind.
 */
static bool slot_try(UnetmmCore *core, UnetmmEp *ep,
                     const struct unetmm_cqe *cqe, const uint8_t *data)
{
    UnetmmPlacement *place = unetmm_recv_blank(core);
    struct unetmm_cqe full = *cqe;
    struct unetmm_fqe fqe;
    uint32_t npages;
    uint8_t status;
    uint64_t vpn;

    if (!unetmm_head_read(core, ep, slot_next(ep), &fqe)) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_stopped);
        return true;
    }
    status = slot_wrong(core, ep, &fqe);
    if (status == UNETMM_ST_OK && cqe->len > fqe.len) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_too_long);
        return true;
    }
    if (status == UNETMM_ST_OK) {
        unetmm_recv_whole(place, fqe.addr, cqe->len);
        switch (unetmm_recv_hold(core, ep, place, &vpn, &npages)) {
        case UNETMM_XLAT_OK:
            full.cookie = fqe.cookie;
            slot_land(core, ep, place, &full, data);
            return true;
        case UNETMM_XLAT_MISS:
            slot_absent(core, ep, &fqe, vpn, cqe, data);
            return true;
        default:
            status = UNETMM_ST_PROTECTION;
        }
    }
    if (!slot_return(core, ep, fqe.cookie, status)) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_stopped);
        return true;
    }
    return false;
}

/*
 * A packet needs a place of its own in the completion queue, besides those of
 * all that wait before it.
 */
void unetmm_slot_receive(UnetmmCore *core, UnetmmEp *ep,
                         const struct unetmm_cqe *cqe, const uint8_t *data)
{
    for (unsigned i = 0; i < SLOT_TRIES; i++) {
        if (unetmm_ep_cq_spare(ep) <= ep->head_offset) {
            unetmm_recv_drop(core, ep, UNETMM_C_drop_cq_full);
            ep->publish = true;
            return;
        }
        if (!slot_posted(ep)) {
            slot_absent(core, ep, NULL, 0, cqe, data);
            return;
        }
        if (slot_try(core, ep, cqe, data)) {
            return;
        }
    }
    unetmm_recv_drop(core, ep, UNETMM_C_drop_no_buffer);
}

const UnetmmSlotOps unetmm_slots = {
    .begin = slot_begin,
    .receive = unetmm_slot_receive,
    .landing = &slot_landing,
};
