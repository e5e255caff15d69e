/*
 * unetmm: receiving: the first free buffer, whose heads take a message
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "recv.h"

/* `len` bytes are for this head: are they there?  A datagram's are held. */
static bool recv_part_ready(UnetmmCore *core, UnetmmEp *ep, UnetmmHead *head,
                            const UnetmmNeed *need, uint32_t len,
                            UnetmmPlacement *place)
{
    bool known = head->state == UNETMM_HEAD_CHECK ||
                 head->state == UNETMM_HEAD_READY;
    uint32_t n;

    if (need->begins) {
        return (known || head->state == UNETMM_HEAD_ASKED) &&
               unetmm_head_begins(core, ep, head, len);
    }
    if (!known || !unetmm_head_pages(core, ep, head, len,
                                     place->pages + place->npages, &n)) {
        return false;
    }
    place->npages += n;
    return true;
}

/* Are the pages there that the message needs now?  A datagram's are held. */
static bool recv_heads_ready(UnetmmCore *core, UnetmmEp *ep,
                             const UnetmmNeed *need, UnetmmPlacement *place)
{
    uint32_t left = need->begins ?: need->len, run = unetmm_head_run(ep);
    const UnetmmHead *first = unetmm_head_at(ep, 0);
    UnetmmPart parts[UNETMM_MAX_SEGS];

    unetmm_recv_parts(place, parts, unetmm_head_parts(ep, parts), 0, left);
    place->npages = 0;
    if (need->unfilled) {
        /* A page that the driver may still drop must not come back. */
        return !(first->zero && first->state == UNETMM_HEAD_ASKED);
    }
    for (uint32_t i = 0; !need->as_it_is && i < run && (left || !i); i++) {
        UnetmmHead *head = unetmm_head_at(ep, i);
        uint32_t len = MIN(left, head->len);

        if (!recv_part_ready(core, ep, head, need, len, place)) {
            unetmm_pages_release(core, place->pages, 0, place->npages);
            place->npages = 0;
            return false;
        }
        left -= len;
    }
    return true;
}

/*
 * Pages that the message, or its first packet, needs at the same time may be
 * such as the TLB cannot have: then the buffer fails.  (A buffer of one part
 * that is not longer than the TLB has none of these.)
 */
static void recv_buffer_fits(UnetmmCore *core, UnetmmEp *ep,
                             const UnetmmPlacement *place)
{
    const UnetmmSourceOps *source = core->spaces[ep->space].source;
    const UnetmmHead *first = unetmm_head_at(ep, 0);

    if ((unetmm_head_run(ep) > 1 ||
         unetmm_head_npages(first->addr, first->len) >
         source->max_pages(core)) &&
        !unetmm_recv_fits(core, ep, place)) {
        unetmm_count(core, ep, UNETMM_C_tlb_too_small, 1);
        unetmm_head_fail(core, ep, unetmm_head_at(ep, 0), UNETMM_ST_TOO_LARGE);
    }
}

/* The state of the first buffer that a message does not find ready. */
static UnetmmHeadState recv_heads_state(UnetmmEp *ep)
{
    UnetmmHeadState state = UNETMM_HEAD_READY;

    for (uint32_t i = 0; i < unetmm_head_run(ep); i++) {
        UnetmmHeadState here = unetmm_head_at(ep, i)->state;

        if (here == UNETMM_HEAD_ASKED || state == UNETMM_HEAD_READY) {
            state = here;
        }
    }
    return state;
}

uint64_t unetmm_recv_room(UnetmmEp *ep)
{
    uint32_t run = unetmm_head_run(ep);
    uint64_t room = 0;

    for (uint32_t i = 0; i < run; i++) {
        room += unetmm_head_at(ep, i)->len;
    }
    return room;
}

/* The head is absent: what becomes of the message? */
static UnetmmVerdict recv_absent(UnetmmCore *core, UnetmmEp *ep,
                                 const UnetmmNeed *need)
{
    const UnetmmAbsent ctx = {
        .ep = ep, .next = true, .len = need->len,
        .at = need->begins ? UNETMM_ABSENT_SEND : UNETMM_ABSENT_MESSAGE,
    };

    return ep->policy->absent(core, &ctx);
}

/*
 * Heads that failed or that the policy gives up go back on the way, never more
 * than were in the window when the message came.  For a strict channel one that
 * failed stays: its message is the channel's last.
 */
UnetmmHead *unetmm_recv_find_head(UnetmmCore *core, UnetmmEp *ep,
                                  const UnetmmNeed *need,
                                  UnetmmPlacement *place,
                                  enum unetmm_counter *drop)
{
    UnetmmEp *queue = ep->queue;
    uint32_t window = queue->nheads;

    /* A chain of which the end is not here yet is as if it were asked for. */
    for (uint32_t i = 0; i < window && unetmm_head_run(queue); i++) {
        const UnetmmHead *failed = need->unfilled ? NULL :
                                   unetmm_head_failed(queue);
        uint8_t status = UNETMM_ST_SKIPPED;

        /* A buffer that went back may have taken the message's own place. */
        if (!unetmm_ep_cq_spare(ep)) {
            *drop = UNETMM_C_drop_cq_full;
            return NULL;
        }
        if (!failed && recv_heads_ready(core, queue, need, place)) {
            if (need->len <= unetmm_recv_room(queue)) {
                return unetmm_head_at(queue, 0);
            }
            unetmm_pages_release(core, place->pages, 0, place->npages);
            *drop = UNETMM_C_drop_too_long;
            return NULL;
        }
        if (!failed) {
            recv_buffer_fits(core, queue, place);
            failed = unetmm_head_failed(queue);
        }
        if (failed && need->strict) {
            *drop = UNETMM_C_drop_asked;
            return NULL;
        }
        if (failed) {
            status = failed->status;
        } else if (recv_heads_state(queue) != UNETMM_HEAD_DEFERRED) {
            *drop = UNETMM_C_drop_asked;
            return NULL;
        } else if (recv_absent(core, ep, need) != UNETMM_VERDICT_NEXT) {
            *drop = UNETMM_C_drop_absent;
            return NULL;
        }
        if (!unetmm_head_return(core, ep, status)) {
            *drop = UNETMM_C_drop_cq_full;
            return NULL;
        }
    }
    *drop = queue->fq_cons == queue->fq_prod ? UNETMM_C_drop_no_buffer :
           UNETMM_C_drop_asked;
    return NULL;
}

/* ---- Landing in it --------------------------------------------------- */

/* The first head's message has landed; or it has not, which `drop` counts. */
static void head_landed(UnetmmCore *core, UnetmmEp *ep, struct unetmm_cqe *cqe,
                        bool landed, enum unetmm_counter drop)
{
    uint32_t len = cqe->len;

    if (!landed) {
        unetmm_recv_drop(core, ep, drop);
        if (drop == UNETMM_C_drop_dma) {
            unetmm_head_return(core, ep, UNETMM_ST_DMA);
        }
    } else if (unetmm_ep_complete(core, ep, cqe)) {
        unetmm_head_pop(core, ep);
        unetmm_recv_done(core, ep, len);
    } else {
        unetmm_recv_drop(core, ep, ep->error ? UNETMM_C_drop_stopped :
                         UNETMM_C_drop_cq_full);
    }
}

static void head_landed_late(UnetmmCore *core, UnetmmEp *ep,
                             UnetmmLanding *landing, bool landed,
                             enum unetmm_counter drop)
{
    head_landed(core, ep, &landing->cqe, landed, drop);
}

/* A stopped endpoint has no buffers any more; its message ends here. */
static bool head_place_ok(UnetmmCore *core, const UnetmmEp *ep)
{
    UnetmmEp *of = ep->queue;
    const UnetmmLanding *rx = core->landing;
    UnetmmPart parts[UNETMM_MAX_SEGS];
    UnetmmPlacement place;

    if (ep->error || of->error) {
        return true;
    }
    unetmm_recv_parts(&place, parts, unetmm_head_parts(of, parts), 0, rx->len);
    for (uint32_t i = 0; i < place.npieces; i++) {
        UnetmmHeadState state = unetmm_head_at(of, i)->state;

        if (state != UNETMM_HEAD_CHECK && state != UNETMM_HEAD_READY) {
            return false;
        }
    }
    return rx->len && rx->len <= unetmm_recv_room(of) &&
           !unetmm_head_failed(of) &&
           unetmm_recv_same_pieces(&place, &rx->place) &&
           unetmm_head_at(of, 0)->cookie == rx->cqe.cookie;
}

const UnetmmLandingOps unetmm_landing_head = {
    .name = "head",
    .landed = head_landed_late,
    .place_ok = head_place_ok,
};

void unetmm_recv_land(UnetmmCore *core, UnetmmEp *ep, const UnetmmHead *head,
                      UnetmmPlacement *place, struct unetmm_cqe *cqe,
                      const uint8_t *payload)
{
    UnetmmPlaced placed;

    if (!cqe->len) {
        /* A message of no bytes touches none. */
        unetmm_pages_release(core, place->pages, 0, place->npages);
        place->npages = 0;
    }
    cqe->cookie = head->cookie;
    placed = unetmm_recv_place(core, ep, place, &unetmm_landing_head, cqe->len,
                               payload);
    if (placed == UNETMM_PLACED_LATER) {
        core->landing->cqe = *cqe;
    } else {
        head_landed(core, ep, cqe, placed == UNETMM_PLACED,
                    unetmm_recv_why(placed));
    }
}
