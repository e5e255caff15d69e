/*
 * unetmm: receiving
 *
 * A frame, from the wire or from the card itself, is copied and checked once;
 * then its endpoint and channel, then its buffer.  Nothing here ever makes the
 * wire wait for one endpoint: a frame that cannot be placed is dropped and
 * counted.
 *
 * With x-dma-page-ns one message at a time lands page by page (the receive DMA
 * engine is one); the others wait in the port's queue.  All its pages are held
 * from the lookup on, so that none is evicted under it; if one is invalidated
 * before its turn the message is dropped and the buffer stays.  A source that
 * locks its entries has one locked at a time, while that page's data moves,
 * and the message is dropped, too, if one has gone by then.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../channel/channel.h"
#include "../port/port.h"
#include "../send/send.h"
#include "recv.h"
#include "../abi/unetmm_le.h"

void unetmm_recv_drop(UnetmmCore *core, UnetmmEp *ep, enum unetmm_counter why)
{
    unetmm_count(core, ep, why, 1);
    trace_unetmm_drop(ep ? ep->id : UINT32_MAX, why);
}

const UnetmmWireOp unetmm_wire_datagram = {
    .with = UNETMM_WITH_DATAGRAM, .flags = UNETMM_WIRE_F_PAYLOAD_CRC,
    .len = true,
};
static bool recv_ud_ok(const struct unetmm_frame *f)
{
    return f->len >= UNETMM_UD_HEAD &&
           (f->flags & UNETMM_WIRE_F_IMM || !f->imm);
}

const UnetmmWireOp unetmm_wire_send_to = {
    .with = UNETMM_WITH_UD,
    .flags = UNETMM_WIRE_F_PAYLOAD_CRC | UNETMM_WIRE_F_IMM,
    .handle = true, .imm = true, .len = true, .ok = recv_ud_ok,
};
const UnetmmWireOp unetmm_wire_control = {
    .flags = UNETMM_WIRE_F_PAYLOAD_CRC, .len = true,
};

bool unetmm_recv_members_ok(const UnetmmCore *core,
                            const struct unetmm_frame *f)
{
    const UnetmmWireOp *op = unetmm_wire_op(core, f->opcode);

    return op && !(f->flags & ~op->flags) && (op->psn || !f->psn) &&
           (op->offset || !f->offset) && (op->remote || !f->remote) &&
           (op->handle || !f->handle) && (op->imm || !f->imm) &&
           (op->len || !f->len) && (!op->ok || op->ok(f));
}

/* Copies and checks a frame's header.  False: dropped. */
static bool recv_header(UnetmmCore *core, const uint8_t *frame, size_t bytes,
                        struct unetmm_frame *f)
{
    uint32_t crc;

    if (bytes < sizeof(*f)) {
        unetmm_recv_drop(core, NULL, UNETMM_C_drop_malformed);
        return false;
    }
    memcpy(f, frame, sizeof(*f));
    crc = unetmm_crc32c(0, f, offsetof(struct unetmm_frame, header_crc));
    unetmm_le_frame(f);
    if (f->header_crc != crc) {
        unetmm_recv_drop(core, NULL, UNETMM_C_drop_crc);
        return false;
    }
    if (f->version != UNETMM_WIRE_VERSION ||
        f->flags & ~UNETMM_WIRE_F_ALL || f->len > UNETMM_MAX_PAYLOAD ||
        f->len > bytes - sizeof(*f) || (f->src[0] & 1) ||
        !unetmm_recv_members_ok(core, f)) {
        unetmm_recv_drop(core, NULL, UNETMM_C_drop_malformed);
        return false;
    }
    if (f->flags & UNETMM_WIRE_F_PAYLOAD_CRC &&
        unetmm_crc32c(0, frame + sizeof(*f), f->len) != f->payload_crc) {
        unetmm_recv_drop(core, NULL, UNETMM_C_drop_crc);
        return false;
    }
    return true;
}

static bool recv_channel_ok(const UnetmmCore *core, const UnetmmEp *ep,
                            const struct unetmm_frame *f)
{
    const UnetmmChannel *channel;

    if (f->dst_channel >= core->params.channels) {
        return false;
    }
    channel = &ep->channels[f->dst_channel];
    return channel->live &&
           channel->ops->with == unetmm_wire_op(core, f->opcode)->with &&
           f->len <= channel->mtu &&
           (unetmm_channel_is_ud(channel) ||
            (channel->peer_ep == f->src_ep &&
             !memcmp(channel->mac, f->src, sizeof(f->src))));
}

/* The endpoint that a frame is for; NULL: dropped. */
static UnetmmEp *recv_endpoint(UnetmmCore *core, const struct unetmm_frame *f)
{
    UnetmmEp *ep = unetmm_ep_live(core, f->dst_ep);

    if (!ep) {
        unetmm_recv_drop(core, NULL, UNETMM_C_drop_no_endpoint);
        return NULL;
    }
    if (ep->error) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_stopped);
        return NULL;
    }
    if (f->opcode == UNETMM_WIRE_CONTROL) {
        if (f->dst_ep == 0 && f->src_ep == 0) {
            return ep;
        }
        unetmm_recv_drop(core, NULL, UNETMM_C_drop_malformed);
        return NULL;
    }
    if (f->dst_ep == 0 || !recv_channel_ok(core, ep, f)) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_channel);
        return NULL;
    }
    return ep;
}

void unetmm_recv_done(UnetmmCore *core, UnetmmEp *ep, uint32_t len)
{
    unetmm_count(core, ep, UNETMM_C_rx_frames, 1);
    unetmm_count(core, ep, UNETMM_C_rx_bytes, len);
    trace_unetmm_receive(ep->id, len);
}

void unetmm_recv_inline(UnetmmCore *core, UnetmmEp *ep,
                        struct unetmm_cqe *cqe, const uint8_t *payload)
{
    uint32_t len = cqe->len;

    cqe->flags |= UNETMM_CQE_F_INLINE;
    memcpy(cqe->data, payload, len);
    if (unetmm_ep_complete(core, ep, cqe)) {
        unetmm_count(core, ep, UNETMM_C_rx_inline, 1);
        unetmm_recv_done(core, ep, len);
    } else {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_stopped);
    }
}

/* Adds the pages of a piece that are not in the list yet. */
static uint32_t recv_list_pages(const UnetmmPiece *piece, uint64_t *vpns,
                                uint32_t n)
{
    uint32_t npages = unetmm_pte_pages(piece->addr, piece->len);

    for (uint32_t i = 0; i < npages; i++) {
        uint64_t vpn = (piece->addr >> UNETMM_PAGE_SHIFT) + i;
        uint32_t j = 0;

        while (j < n && vpns[j] != vpn) {
            j++;
        }
        if (j == n && n < UNETMM_MAX_BUF_PAGES) {
            vpns[n++] = vpn;
        }
    }
    return n;
}

/*
 * Can all pages be translated at the same time?  If not, the miss of each page
 * would push out the others for ever, or the card would wait for an entry that
 * it holds itself.  An entry of several pages is not held.
 */
static bool recv_fits(UnetmmCore *core, UnetmmEp *ep,
                      const UnetmmPlacement *place)
{
    const UnetmmSourceOps *source = unetmm_space_of(core, ep)->source;
    uint64_t vpns[UNETMM_MAX_BUF_PAGES];
    uint32_t n = 0;

    if (!source->tlb || source->tlb_shift) {
        return true;
    }
    for (uint32_t p = 0; p < place->npieces; p++) {
        n = recv_list_pages(&place->pieces[p], vpns, n);
    }
    return unetmm_tlb_fits(source->tlb(core), unetmm_user(ep)->space, vpns, n);
}

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
 * Pages of a chain may be such as the TLB cannot have at the same time: then
 * the buffer fails.  (A buffer of one part is not longer than that.)
 */
static void recv_chain_fits(UnetmmCore *core, UnetmmEp *ep,
                            const UnetmmNeed *need,
                            const UnetmmPlacement *place)
{
    if (unetmm_head_run(ep) > 1 && !need->begins &&
        !recv_fits(core, ep, place)) {
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

static uint64_t recv_room(UnetmmEp *ep)
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
 * than were in the window when the message came.
 */
UnetmmHead *unetmm_recv_find_head(UnetmmCore *core, UnetmmEp *ep,
                                  const UnetmmNeed *need,
                                  UnetmmPlacement *place,
                                  enum unetmm_counter *why)
{
    UnetmmEp *queue = ep->queue;
    uint32_t window = queue->nheads;

    /* A chain of which the end is not here yet is as if it were asked for. */
    for (uint32_t i = 0; i < window && unetmm_head_run(queue); i++) {
        const UnetmmHead *failed = unetmm_head_failed(queue);
        uint8_t status = UNETMM_ST_SKIPPED;

        /* A buffer that went back may have taken the message's own place. */
        if (!unetmm_ep_cq_spare(ep)) {
            *why = UNETMM_C_drop_cq_full;
            return NULL;
        }
        if (!failed && recv_heads_ready(core, queue, need, place)) {
            if (need->len <= recv_room(queue)) {
                return unetmm_head_at(queue, 0);
            }
            unetmm_pages_release(core, place->pages, 0, place->npages);
            *why = UNETMM_C_drop_too_long;
            return NULL;
        }
        if (!failed) {
            recv_chain_fits(core, queue, need, place);
            failed = unetmm_head_failed(queue);
        }
        if (failed) {
            status = failed->status;
        } else if (recv_heads_state(queue) != UNETMM_HEAD_DEFERRED) {
            *why = UNETMM_C_drop_asked;
            return NULL;
        } else if (recv_absent(core, ep, need) != UNETMM_VERDICT_NEXT) {
            *why = UNETMM_C_drop_absent;
            return NULL;
        }
        if (!unetmm_head_return(core, ep, status)) {
            *why = UNETMM_C_drop_cq_full;
            return NULL;
        }
    }
    *why = queue->fq_cons == queue->fq_prod ? UNETMM_C_drop_no_buffer :
           UNETMM_C_drop_asked;
    return NULL;
}

/* ---- Placing ------------------------------------------------------------ */

void unetmm_recv_whole(UnetmmPlacement *place, uint64_t addr, uint32_t len)
{
    place->npieces = len ? 1 : 0;
    place->pieces[0] = (UnetmmPiece) { .addr = addr, .len = len };
}

void unetmm_recv_parts(UnetmmPlacement *place, const UnetmmPart *parts,
                       uint32_t nparts, uint32_t at, uint32_t len)
{
    uint32_t from = 0;

    place->npieces = 0;
    for (uint32_t i = 0; i < nparts && from < len; i++) {
        uint32_t skip = MIN(at, parts[i].len);
        uint32_t n = MIN(parts[i].len - skip, len - from);

        at -= skip;
        if (n) {
            place->pieces[place->npieces++] = (UnetmmPiece) {
                .addr = parts[i].addr + skip, .len = n, .from = from,
            };
        }
        from += n;
    }
}

/* Pages from vpn on, up to `limit`, that are not translated. */
static uint32_t recv_missing(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn,
                             uint32_t limit)
{
    UnetmmPage page;
    uint32_t n = 1;

    while (n < limit && unetmm_space_lookup(core, ep, vpn + n, true, &page) ==
           UNETMM_XLAT_MISS) {
        n++;
    }
    return n;
}

UnetmmXlat unetmm_recv_hold(UnetmmCore *core, UnetmmEp *ep,
                            UnetmmPlacement *place, uint64_t *vpn,
                            uint32_t *npages)
{
    uint32_t held = 0;

    for (uint32_t p = 0; p < place->npieces; p++) {
        const UnetmmPiece *piece = &place->pieces[p];
        uint32_t n = unetmm_pte_pages(piece->addr, piece->len);

        for (uint32_t i = 0; i < n; i++, held++) {
            UnetmmXlat result;

            *vpn = (piece->addr >> UNETMM_PAGE_SHIFT) + i;
            result = unetmm_space_lookup(core, ep, *vpn, true,
                                         &place->pages[held]);
            if (result != UNETMM_XLAT_OK) {
                unetmm_pages_release(core, place->pages, 0, held);
                if (result == UNETMM_XLAT_MISS &&
                    !recv_fits(core, ep, place)) {
                    unetmm_count(core, ep, UNETMM_C_tlb_too_small, 1);
                    return UNETMM_XLAT_ERROR;
                }
                *npages = result == UNETMM_XLAT_MISS ?
                          recv_missing(core, ep, *vpn, n - i) : 0;
                return result;
            }
            unetmm_page_hold(&place->pages[held]);
        }
    }
    place->npages = held;
    return UNETMM_XLAT_OK;
}

/* Writes the current page's part.  False: the bus refused it. */
static bool place_write(UnetmmCore *core, UnetmmEp *ep, UnetmmPlacement *place,
                        const uint8_t *payload)
{
    const UnetmmPage *page = &place->pages[place->page];
    const UnetmmPiece *piece = &place->pieces[place->piece];
    uint64_t offset = (piece->addr + place->off) % UNETMM_PAGE_BYTES;
    uint32_t n = MIN(UNETMM_PAGE_BYTES - offset, piece->len - place->off);

    if (!unetmm_dma_write(core, ep, page->dma + offset,
                          payload + piece->from + place->off, n)) {
        return false;
    }
    unetmm_spend(core, UNETMM_STEP_PLACE, n);
    unetmm_page_dirty(page);
    place->off += n;
    if (place->off == piece->len) {
        place->piece++;
        place->off = 0;
    }
    return true;
}

/* Writes all pages of the message now. */
static UnetmmPlaced place_at_once(UnetmmCore *core, UnetmmEp *ep,
                                  UnetmmPlacement *place,
                                  const uint8_t *payload)
{
    UnetmmPlaced placed = UNETMM_PLACED;

    for (; placed == UNETMM_PLACED && place->page < place->npages;
         place->page++) {
        UnetmmPage *page = &place->pages[place->page];

        if (!unetmm_page_lock(core, ep, page, true)) {
            placed = UNETMM_PLACED_GONE;
            break;
        }
        if (!place_write(core, ep, place, payload)) {
            placed = UNETMM_PLACED_NOT;
        }
        unetmm_page_unlock(core, ep, page);
    }
    unetmm_pages_release(core, place->pages, 0, place->npages);
    return placed;
}

/* ---- Landing: placing that takes time ----------------------------------- */

/* False: the page has gone. */
static bool landing_start_page(UnetmmCore *core, UnetmmEp *ep,
                               UnetmmPlacement *place)
{
    UnetmmLanding *rx = core->landing;

    if (!unetmm_page_lock(core, ep, &place->pages[place->page], true)) {
        return false;
    }
    unetmm_page_move(&place->pages[place->page], true);
    rx->moving = true;
    rx->deadline_ns = core->ops->now_ns(core->host) + core->params.dma_page_ns;
    return true;
}

/* The landing has the placement from now on. */
static void landing_keep(UnetmmLanding *rx, UnetmmPlacement *place)
{
    UnetmmPage *pages = rx->place.pages;

    rx->place = *place;
    place->pages = pages;
}

/* With the first page, which has to be there. */
static UnetmmPlaced landing_start(UnetmmCore *core, UnetmmEp *ep,
                                  UnetmmPlacement *place,
                                  const UnetmmLandingOps *owner, uint32_t len,
                                  const uint8_t *payload)
{
    UnetmmLanding *rx = core->landing;

    if (!landing_start_page(core, ep, place)) {
        unetmm_pages_release(core, place->pages, 0, place->npages);
        return UNETMM_PLACED_GONE;
    }
    landing_keep(rx, place);
    rx->owner = owner;
    rx->of = NULL;
    memset(&rx->header, 0, sizeof(rx->header));
    rx->cqe = (struct unetmm_cqe) { .opcode = UNETMM_CQE_RECEIVED };
    rx->ep = ep->id;
    rx->generation = ep->generation;
    rx->len = len;
    rx->frame = unetmm_port_buffer(core);
    memcpy(unetmm_frame_at(rx->frame, 0, len), payload, len);
    rx->active = true;
    ep->landing = ep->queue->landing = true;
    return UNETMM_PLACED_LATER;
}

UnetmmPlaced unetmm_recv_place(UnetmmCore *core, UnetmmEp *ep,
                               UnetmmPlacement *place,
                               const UnetmmLandingOps *owner, uint32_t len,
                               const uint8_t *payload)
{
    place->piece = place->off = place->page = 0;
    return core->params.dma_page_ns && place->npages ?
           landing_start(core, ep, place, owner, len, payload) :
           place_at_once(core, ep, place, payload);
}

/* Releases the pages that the landing message still holds. */
static void landing_end(UnetmmCore *core)
{
    UnetmmLanding *rx = core->landing;
    UnetmmEp *ep = &core->eps[rx->ep];

    ep->landing = ep->queue->landing = false;
    if (ep->queue != ep) {
        /* The queue's heads may have waited for the end of the landing. */
        unetmm_engine_queue(core, ep->queue);
    }
    unetmm_pages_release(core, rx->place.pages, rx->place.page,
                         rx->place.npages);
    unetmm_port_release(core, g_steal_pointer(&rx->frame));
    rx->active = false;
}

static void landing_finish(UnetmmCore *core, UnetmmEp *ep, bool landed,
                           enum unetmm_counter why)
{
    landing_end(core);
    unetmm_modules_landed(&core->modules, core);
    core->landing->owner->landed(core, ep, core->landing, landed, why);
    if (!ep->error) {
        unetmm_head_fetch(core, ep);
    }
    unetmm_ep_sync(core, ep);
}

static bool landing_may_go_on(const UnetmmCore *core,
                              enum unetmm_counter *why)
{
    const UnetmmLanding *rx = core->landing;

    return !rx->owner->may_go_on || rx->owner->may_go_on(core, rx, why);
}

/* A page's time is over: the data is there; on to the next page, if any. */
static void recv_landed(UnetmmCore *core)
{
    UnetmmLanding *rx = core->landing;
    UnetmmPlacement *place = &rx->place;
    UnetmmEp *ep = &core->eps[rx->ep];
    bool written = !ep->error && place_write(core, ep, place, rx->frame);
    enum unetmm_counter why;

    rx->moving = false;
    unetmm_page_move(&place->pages[place->page], false);
    unetmm_page_unlock(core, ep, &place->pages[place->page]);
    unetmm_page_release(core, &place->pages[place->page]);
    place->page++;
    if (ep->error) {
        landing_end(core);
        rx->of = NULL;
        unetmm_modules_landed(&core->modules, core);
        unetmm_recv_drop(core, ep, UNETMM_C_drop_stopped);
        core->tables->ep->landed(core, ep);
    } else if (!written) {
        landing_finish(core, ep, false, UNETMM_C_drop_dma);
    } else if (place->page == place->npages) {
        landing_finish(core, ep, true, 0);
    } else if (!landing_may_go_on(core, &why)) {
        landing_finish(core, ep, false, why);
    } else if (unetmm_page_gone(&place->pages[place->page]) ||
               !landing_start_page(core, ep, place)) {
        landing_finish(core, ep, false, UNETMM_C_drop_invalidated);
    }
}

static void recv_reset(UnetmmCore *core)
{
    if (core->landing->active) {
        core->counters[UNETMM_C_drop_reset]++;
        unetmm_port_release(core, g_steal_pointer(&core->landing->frame));
        core->landing->active = core->landing->moving = false;
    }
    /* Also of one that was never complete: its stream was refused. */
    core->landing->of = NULL;
}

/* ---- Messages into heads ------------------------------------------------ */

/* The first head's message has landed, or (why) has not. */
static void head_landed(UnetmmCore *core, UnetmmEp *ep, struct unetmm_cqe *cqe,
                        bool landed, enum unetmm_counter why)
{
    uint32_t len = cqe->len;

    if (!landed) {
        unetmm_recv_drop(core, ep, why);
        if (why == UNETMM_C_drop_dma) {
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
                             enum unetmm_counter why)
{
    head_landed(core, ep, &landing->cqe, landed, why);
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
    return rx->len && rx->len <= recv_room(of) && !unetmm_head_failed(of) &&
           unetmm_recv_same_pieces(&place, &rx->place) &&
           unetmm_head_at(of, 0)->cookie == rx->cqe.cookie;
}

const UnetmmLandingOps unetmm_landing_head = {
    .name = "head",
    .landed = head_landed_late,
    .place_ok = head_place_ok,
};

/* Lands a message in a buffer, of which the pages are held that it touches. */
static void recv_land(UnetmmCore *core, UnetmmEp *ep, const UnetmmHead *head,
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

static void recv_message(UnetmmCore *core, UnetmmEp *ep,
                         const struct unetmm_frame *f, const uint8_t *payload)
{
    struct unetmm_cqe cqe = {
        .opcode = UNETMM_CQE_RECEIVED, .len = f->len,
        .channel = f->dst_channel,
    };
    UnetmmPlacement *place = unetmm_recv_blank(core);
    enum unetmm_counter why;
    UnetmmHead *head;

    if (unetmm_ep_slotted(ep)) {
        core->tables->slots->receive(core, ep, &cqe, payload);
        return;
    }
    ep->queue->activity++;
    if (!unetmm_ep_cq_spare(ep)) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_cq_full);
        ep->publish = true;
        return;
    }
    if (f->opcode == UNETMM_WIRE_CONTROL) {
        cqe.opcode = UNETMM_CQE_CONTROL;
        cqe.source = unetmm_mac_to_u64(f->src);
        cqe.channel = 0;
    } else if (f->opcode == UNETMM_WIRE_SEND_TO) {
        cqe.source = unetmm_mac_to_u64(f->src) |
                     UNETMM_PREP(UNETMM_UD_EP, (uint64_t)f->src_ep);
        unetmm_recv_imm(&cqe, f);
    } else if (f->len <= UNETMM_CQE_INLINE && !ep->no_inline) {
        unetmm_recv_inline(core, ep, &cqe, payload);
        return;
    }
    head = unetmm_recv_find_head(core, ep, &(UnetmmNeed) { .len = f->len },
                                 place, &why);
    if (head) {
        recv_land(core, ep, head, place, &cqe, payload);
    } else {
        unetmm_recv_drop(core, ep, why);
    }
}

static void recv_datagram(UnetmmCore *core, UnetmmEp *ep,
                          UnetmmChannel *channel, const struct unetmm_frame *f,
                          const uint8_t *payload)
{
    recv_message(core, ep, f, payload);
}

/* The number's next channel may lead to another peer. */
static void recv_clear(UnetmmCore *core, UnetmmEp *ep, UnetmmChannel *channel)
{
    unetmm_send_end(core, ep, channel - ep->channels);
}

const UnetmmChannelOps unetmm_channel_datagram = {
    .name = "datagram",
    .with = UNETMM_WITH_DATAGRAM,
    .clear = recv_clear,
    .receive = recv_datagram,
};

static void recv_ud(UnetmmCore *core, UnetmmEp *ep, UnetmmChannel *channel,
                    const struct unetmm_frame *f, const uint8_t *payload)
{
    if (ep->flushing) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_stopped);
    } else if (f->handle != channel->qkey) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_qkey);
    } else {
        recv_message(core, ep, f, payload);
    }
}

static void recv_ud_flush(UnetmmCore *core, UnetmmEp *ep,
                          UnetmmChannel *channel)
{
    unetmm_send_flush(core, ep);
}

/* A driver that posts does not translate segments behind inline bytes. */
static uint8_t recv_ud_set(UnetmmCore *core, UnetmmEp *ep,
                           UnetmmChannel *channel,
                           const struct unetmm_cmd_channel *cmd)
{
    struct unetmm_cmd_channel rest = *cmd;

    rest.channel = rest.mtu = rest.type = 0;
    rest.flags &= ~UNETMM_CHANNEL_F_TELL;
    return ep->posts ||
           !unetmm_all_zero(&rest, offsetof(struct unetmm_cmd_channel, rsvd)) ?
           UNETMM_CS_BAD_ARG : UNETMM_CS_OK;
}

const UnetmmChannelOps unetmm_channel_ud = {
    .name = "ud",
    .with = UNETMM_WITH_UD,
    .set = recv_ud_set,
    .clear = recv_clear,
    .receive = recv_ud,
    .flush = recv_ud_flush,
};

/* card/entry.c has checked the frame's Ethernet addresses and length. */
void unetmm_recv_frame(UnetmmCore *core, const uint8_t *frame, size_t bytes)
{
    struct unetmm_frame f;
    UnetmmEp *ep;

    if (!recv_header(core, frame, bytes, &f)) {
        return;
    }
    ep = recv_endpoint(core, &f);
    if (!ep) {
        return;
    }
    /* Room that the process has made since the last look counts. */
    if (!unetmm_ep_read_user(core, ep)) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_stopped);
        return;
    }
    if (f.opcode == UNETMM_WIRE_CONTROL) {
        recv_message(core, ep, &f, frame + sizeof(f));
    } else {
        UnetmmChannel *channel = &ep->channels[f.dst_channel];

        channel->ops->receive(core, ep, channel, &f, frame + sizeof(f));
    }
    if (!ep->error) {
        unetmm_head_fetch(core, ep);
    }
    unetmm_ep_sync(core, ep);
}

static void recv_create(UnetmmCore *core)
{
    core->landing = g_new0(UnetmmLanding, 1);
    core->landing->blank.pages = g_new0(UnetmmPage, UNETMM_MAX_BUF_PAGES);
    core->landing->place.pages = g_new0(UnetmmPage, UNETMM_MAX_BUF_PAGES);
}

static void recv_free(UnetmmCore *core)
{
    g_free(core->landing->blank.pages);
    g_free(core->landing->place.pages);
    g_clear_pointer(&core->landing, g_free);
}

static uint64_t landing_save_limit(const UnetmmCore *core)
{
    return UNETMM_SAVED_FRAME;
}

static int64_t recv_deadline(const UnetmmCore *core)
{
    return core->landing->active ? core->landing->deadline_ns : INT64_MAX;
}

static void recv_due(UnetmmCore *core, int64_t now)
{
    if (core->landing->active && core->landing->deadline_ns <= now) {
        recv_landed(core);
    }
}

static uint32_t recv_owed(const UnetmmCore *core, const UnetmmEp *ep,
                          uint16_t channel)
{
    const UnetmmLanding *rx = core->landing;

    /* A packet has its connection, which ends with the channel. */
    return rx->active && rx->ep == ep->id &&
           rx->generation == ep->generation && !rx->of &&
           rx->cqe.channel == channel;
}

const UnetmmModule unetmm_module_recv = {
    .name = "recv",
    .create = recv_create,
    .reset = recv_reset,
    .free = recv_free,
    .owed = recv_owed,
    .deadline = recv_deadline,
    .deadline_of_pages = true,
    .due = recv_due,
    .save = unetmm_landing_save,
    .save_limit = landing_save_limit,
};
