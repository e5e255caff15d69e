/*
 * unetmm: receiving: DMA of a message to its placement, at once or page by page
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
#include "../port/port.h"
#include "recv.h"

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

/* ---- Placing that takes time ----------------------------------------- */

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
        unetmm_ready_push(core, ep->queue);
    }
    unetmm_pages_release(core, rx->place.pages, rx->place.page,
                         rx->place.npages);
    unetmm_port_release(core, g_steal_pointer(&rx->frame));
    rx->active = false;
}

static void landing_finish(UnetmmCore *core, UnetmmEp *ep, bool landed,
                           enum unetmm_counter drop)
{
    landing_end(core);
    unetmm_modules_landing_over(&core->modules, core);
    core->landing->owner->landed(core, ep, core->landing, landed, drop);
    if (!ep->error) {
        unetmm_head_fetch(core, ep);
    }
    unetmm_ep_sync(core, ep);
}

static bool landing_may_go_on(const UnetmmCore *core,
                              enum unetmm_counter *drop)
{
    const UnetmmLanding *rx = core->landing;

    return !rx->owner->may_go_on || rx->owner->may_go_on(core, rx, drop);
}

/* A page's time is over: the data is there; on to the next page, if any. */
static void landing_moved(UnetmmCore *core)
{
    UnetmmLanding *rx = core->landing;
    UnetmmPlacement *place = &rx->place;
    UnetmmEp *ep = &core->eps[rx->ep];
    bool written = !ep->error && place_write(core, ep, place, rx->frame);
    enum unetmm_counter drop;

    rx->moving = false;
    unetmm_page_move(&place->pages[place->page], false);
    unetmm_page_unlock(core, ep, &place->pages[place->page]);
    unetmm_page_release(core, &place->pages[place->page]);
    place->page++;
    if (ep->error) {
        landing_end(core);
        rx->of = NULL;
        unetmm_modules_landing_over(&core->modules, core);
        unetmm_recv_drop(core, ep, UNETMM_C_drop_stopped);
        core->tables->ep->landed(core, ep);
    } else if (!written) {
        landing_finish(core, ep, false, UNETMM_C_drop_dma);
    } else if (place->page == place->npages) {
        landing_finish(core, ep, true, 0);
    } else if (!landing_may_go_on(core, &drop)) {
        landing_finish(core, ep, false, drop);
    } else if (unetmm_page_gone(&place->pages[place->page]) ||
               !landing_start_page(core, ep, place)) {
        landing_finish(core, ep, false, UNETMM_C_drop_invalidated);
    }
}

/* ---- The module ------------------------------------------------------ */

static void landing_create(UnetmmCore *core)
{
    core->landing = g_new0(UnetmmLanding, 1);
    core->landing->blank.pages = g_new0(UnetmmPage, UNETMM_MAX_BUF_PAGES);
    core->landing->place.pages = g_new0(UnetmmPage, UNETMM_MAX_BUF_PAGES);
}

static void landing_reset(UnetmmCore *core)
{
    if (core->landing->active) {
        core->counters[UNETMM_C_drop_reset]++;
        unetmm_port_release(core, g_steal_pointer(&core->landing->frame));
        core->landing->active = core->landing->moving = false;
    }
    /* Also of one that was never complete: its stream was refused. */
    core->landing->of = NULL;
}

static void landing_free(UnetmmCore *core)
{
    g_free(core->landing->blank.pages);
    g_free(core->landing->place.pages);
    g_clear_pointer(&core->landing, g_free);
}

static uint64_t landing_save_limit(const UnetmmCore *core)
{
    return UNETMM_SAVED_FRAME;
}

static int64_t landing_deadline(const UnetmmCore *core)
{
    return core->landing->active ? core->landing->deadline_ns : INT64_MAX;
}

static void landing_due(UnetmmCore *core, int64_t now)
{
    if (core->landing->active && core->landing->deadline_ns <= now) {
        landing_moved(core);
    }
}

static uint32_t landing_owed(const UnetmmCore *core, const UnetmmEp *ep,
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
    .create = landing_create,
    .reset = landing_reset,
    .free = landing_free,
    .unfinished_messages = landing_owed,
    .deadline = landing_deadline,
    .deadline_of_pages = true,
    .deadline_passed = landing_due,
    .save = unetmm_landing_save,
    .save_limit = landing_save_limit,
};
