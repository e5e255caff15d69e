/*
 * unetmm: receiving
 *
 * A frame, from the wire or from the card itself, is copied and checked once;
 * then its endpoint and channel, then its buffer.  Nothing here ever makes the
 * wire wait for one endpoint: what cannot be placed is dropped and counted.
 *
 * With x-dma-page-ns one message at a time lands page by page (the receive DMA
 * engine is one); the others wait in the port's queue.  All its pages are held
 * from the lookup on, so that none is evicted under it; if one is invalidated
 * before its turn the message is dropped and the buffer stays.  A source that
 * locks its entries has one locked at a time, while that page's data moves, and
 * the message is dropped likewise if one has gone by then.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../card/core.h"
#include "../abi/unetmm_le.h"

void unetmm_recv_drop(UnetmmCore *core, UnetmmEp *ep, enum unetmm_counter why)
{
    unetmm_count(core, ep, why, 1);
    trace_unetmm_drop(ep ? ep->id : UINT32_MAX, why);
}

#define CRC     UNETMM_WIRE_F_PAYLOAD_CRC
#define LAST    UNETMM_WIRE_F_LAST
#define ASK     UNETMM_WIRE_F_ASK
#define NOTIFY  UNETMM_WIRE_F_NOTIFY
#define COUNT   UNETMM_WIRE_F_COUNT
#define CREDIT  UNETMM_WIRE_F_CREDIT

/* What of a frame may be other than zero, by its opcode; 0: there is none. */
static const struct {
    uint32_t flags;
    bool psn, offset, remote, handle, imm, len;
} recv_members[] = {
    [UNETMM_WIRE_DATAGRAM] = { CRC, .len = true },
    [UNETMM_WIRE_CONTROL] = { CRC, .len = true },
    [UNETMM_WIRE_SEND] = { CRC | LAST | ASK, .psn = true, .offset = true,
                           .remote = true, .len = true },
    [UNETMM_WIRE_ACK] = { CRC | ASK | CREDIT, .psn = true, .offset = true,
                          .remote = true, .handle = true, .imm = true },
    [UNETMM_WIRE_WRITE] = { CRC | LAST | ASK | NOTIFY | COUNT, true, true,
                            true, true, true, true },
    [UNETMM_WIRE_READ] = { CRC | ASK, true, true, true, true, true },
    [UNETMM_WIRE_ATOMIC] = { CRC | ASK, true, true, true, true, true, true },
    [UNETMM_WIRE_ANSWER] = { CRC, .psn = true, .len = true },
    [UNETMM_WIRE_VOID] = { CRC | ASK, .psn = true },
};

#undef CRC
#undef LAST
#undef ASK
#undef NOTIFY
#undef COUNT
#undef CREDIT

/* The end of a message, and one of the two; or what is to follow. */
static bool recv_write_ok(const struct unetmm_frame *f)
{
    uint32_t both = UNETMM_WIRE_F_NOTIFY | UNETMM_WIRE_F_COUNT;

    if (!(f->flags & UNETMM_WIRE_F_LAST)) {
        return !(f->flags & both) && f->imm <= UNETMM_MAX_MESSAGE;
    }
    if (!(f->flags & both)) {
        return !f->imm;
    }
    return (f->flags & both) != both;
}

/* What goes beyond zero or not. */
static bool recv_opcode_ok(const struct unetmm_frame *f)
{
    switch (f->opcode) {
    case UNETMM_WIRE_ACK:
        return !f->handle || f->flags & UNETMM_WIRE_F_CREDIT;
    case UNETMM_WIRE_WRITE:
        return recv_write_ok(f);
    case UNETMM_WIRE_READ:
        return unetmm_read_bytes(f) &&
               unetmm_read_bytes(f) <= UNETMM_MAX_PAYLOAD;
    case UNETMM_WIRE_ATOMIC:
        return (f->imm == UNETMM_ATOMIC_ADD && f->len == 8) ||
               (f->imm == UNETMM_ATOMIC_SWAP && f->len == 16);
    case UNETMM_WIRE_ANSWER:
        return f->len;
    default:
        return true;
    }
}

bool unetmm_recv_members_ok(const struct unetmm_frame *f)
{
    uint8_t opcode = f->opcode < G_N_ELEMENTS(recv_members) ? f->opcode : 0;

    return recv_members[opcode].flags &&
           !(f->flags & ~recv_members[opcode].flags) &&
           (recv_members[opcode].psn || !f->psn) &&
           (recv_members[opcode].offset || !f->offset) &&
           (recv_members[opcode].remote || !f->remote) &&
           (recv_members[opcode].handle || !f->handle) &&
           (recv_members[opcode].imm || !f->imm) &&
           (recv_members[opcode].len || !f->len) && recv_opcode_ok(f);
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
        !unetmm_recv_members_ok(f)) {
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
    return channel->live && (channel->ops->wire & 1u << f->opcode) &&
           channel->peer_ep == f->src_ep &&
           f->len <= channel->mtu &&
           !memcmp(channel->mac, f->src, sizeof(f->src));
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

    cqe->flags = UNETMM_CQE_F_INLINE;
    memcpy(cqe->data, payload, len);
    if (unetmm_ep_complete(core, ep, cqe)) {
        unetmm_count(core, ep, UNETMM_C_rx_inline, 1);
        unetmm_recv_done(core, ep, len);
    } else {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_stopped);
    }
}

/* Are the pages there that the message needs now?  A datagram's are held. */
static bool recv_head_ready(UnetmmCore *core, UnetmmEp *ep, UnetmmHead *head,
                            uint32_t len, uint32_t begins, uint32_t *npages)
{
    bool known = head->state == UNETMM_HEAD_CHECK ||
                 head->state == UNETMM_HEAD_READY;

    *npages = 0;
    if (begins && ep->policy->slots) {
        return head->state != UNETMM_HEAD_FAILED;
    }
    if (begins) {
        return (known || head->state == UNETMM_HEAD_ASKED) &&
               unetmm_head_begins(core, ep, head, begins);
    }
    return known && unetmm_head_pages(core, ep, head, len, core->rx.pages,
                                      npages);
}

/*
 * Heads that failed or that the policy gives up go back on the way, never more
 * than were in the window when the message came.
 */
UnetmmHead *unetmm_recv_find_head(UnetmmCore *core, UnetmmEp *ep, uint32_t len,
                                  uint32_t begins, enum unetmm_counter *why)
{
    uint32_t window = ep->nheads;
    uint32_t npages;

    for (uint32_t i = 0; i < window; i++) {
        UnetmmHead *head = unetmm_head_at(ep, 0);
        uint8_t status = UNETMM_ST_SKIPPED;

        /* A buffer that went back may have taken the message's own place. */
        if (!unetmm_ep_cq_spare(ep)) {
            *why = UNETMM_C_drop_cq_full;
            return NULL;
        }
        if (recv_head_ready(core, ep, head, len, begins, &npages)) {
            if (len <= head->len) {
                core->rx.npages = npages;
                return head;
            }
            unetmm_pages_release(core, core->rx.pages, 0, npages);
            *why = UNETMM_C_drop_too_long;
            return NULL;
        }
        if (head->state == UNETMM_HEAD_FAILED) {
            status = head->status;
        } else if (head->state != UNETMM_HEAD_DEFERRED) {
            *why = UNETMM_C_drop_asked;
            return NULL;
        } else if (ep->policy->absent(core, ep) == UNETMM_VERDICT_DROP) {
            *why = UNETMM_C_drop_absent;
            return NULL;
        }
        if (!unetmm_head_return(core, ep, status)) {
            *why = UNETMM_C_drop_cq_full;
            return NULL;
        }
    }
    *why = ep->fq_cons == ep->fq_prod ? UNETMM_C_drop_no_buffer :
           UNETMM_C_drop_asked;
    return NULL;
}

/* Writes the current page's part.  False: the bus refused it. */
static bool landing_write(UnetmmCore *core, UnetmmEp *ep,
                          const uint8_t *payload)
{
    UnetmmLanding *rx = &core->rx;
    const UnetmmPage *page = &rx->pages[rx->page];
    const UnetmmPiece *piece = &rx->pieces[rx->piece];
    uint64_t offset = (piece->addr + rx->off) % UNETMM_PAGE_BYTES;
    uint32_t n = MIN(UNETMM_PAGE_BYTES - offset, piece->len - rx->off);

    if (!unetmm_dma_write(core, ep, page->dma + offset,
                          payload + piece->from + rx->off, n)) {
        return false;
    }
    unetmm_page_dirty(page);
    rx->off += n;
    if (rx->off == piece->len) {
        rx->piece++;
        rx->off = 0;
    }
    return true;
}

/* The message has landed, or (why) has not: what its endpoint is told. */
static void landing_report(UnetmmCore *core, UnetmmEp *ep, bool landed,
                           enum unetmm_counter why)
{
    UnetmmLanding *rx = &core->rx;

    if (rx->rel) {
        unetmm_rel_landed(core, ep, g_steal_pointer(&rx->rel), landed, why);
    } else if (unetmm_ep_slotted(ep)) {
        unetmm_slot_landed(core, ep, landed, why);
    } else if (!landed) {
        unetmm_recv_drop(core, ep, why);
        if (why == UNETMM_C_drop_dma) {
            unetmm_head_return(core, ep, UNETMM_ST_DMA);
        }
    } else if (unetmm_ep_complete(core, ep, &rx->cqe)) {
        unetmm_head_pop(core, ep);
        unetmm_recv_done(core, ep, rx->len);
    } else {
        unetmm_recv_drop(core, ep, ep->error ? UNETMM_C_drop_stopped :
                  UNETMM_C_drop_cq_full);
    }
}

/* False: the page has gone. */
static bool landing_start_page(UnetmmCore *core, UnetmmEp *ep)
{
    UnetmmLanding *rx = &core->rx;

    if (!unetmm_page_lock(core, ep, &rx->pages[rx->page], true)) {
        return false;
    }
    unetmm_page_move(&rx->pages[rx->page], true);
    rx->moving = true;
    rx->deadline_ns = core->ops->now_ns(core->host) + core->params.dma_page_ns;
    return true;
}

/* All pages of the message, now. */
static UnetmmPlaced landing_at_once(UnetmmCore *core, UnetmmEp *ep,
                                    const uint8_t *payload)
{
    UnetmmLanding *rx = &core->rx;
    UnetmmPlaced placed = UNETMM_PLACED;

    for (; placed == UNETMM_PLACED && rx->page < rx->npages; rx->page++) {
        UnetmmPage *page = &rx->pages[rx->page];

        if (!unetmm_page_lock(core, ep, page, true)) {
            placed = UNETMM_PLACED_GONE;
            break;
        }
        if (!landing_write(core, ep, payload)) {
            placed = UNETMM_PLACED_NOT;
        }
        unetmm_page_unlock(core, ep, page);
    }
    unetmm_pages_release(core, rx->pages, 0, rx->npages);
    return placed;
}

/* With the first page, which has to be there. */
static UnetmmPlaced landing_start(UnetmmCore *core, UnetmmEp *ep,
                                  const uint8_t *payload)
{
    UnetmmLanding *rx = &core->rx;

    if (!landing_start_page(core, ep)) {
        unetmm_pages_release(core, rx->pages, 0, rx->npages);
        return UNETMM_PLACED_GONE;
    }
    rx->frame = unetmm_port_buffer(core);
    memcpy(unetmm_frame_at(rx->frame, 0, rx->len), payload, rx->len);
    rx->active = true;
    ep->landing = true;
    return UNETMM_PLACED_LATER;
}

static UnetmmPlaced landing_begin(UnetmmCore *core, UnetmmEp *ep,
                                  const uint8_t *payload)
{
    return core->params.dma_page_ns && core->rx.npages ?
           landing_start(core, ep, payload) :
           landing_at_once(core, ep, payload);
}

void unetmm_recv_whole(UnetmmCore *core, uint64_t addr, uint32_t len)
{
    core->rx.npieces = len ? 1 : 0;
    core->rx.pieces[0] = (UnetmmPiece) { .addr = addr, .len = len };
}

/* The pieces' pages are held, or are those of a head that is. */
static void landing_set(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                        uint32_t len)
{
    UnetmmLanding *rx = &core->rx;

    rx->rel = rel;
    rx->ep = ep->id;
    rx->generation = ep->generation;
    rx->len = len;
    rx->piece = rx->off = rx->page = rx->npages = 0;
    for (uint32_t i = 0; i < rx->npieces; i++) {
        rx->npages += unetmm_pte_pages(rx->pieces[i].addr, rx->pieces[i].len);
    }
}

/* Lands a whole message; then its endpoint is told. */
static void landing_whole(UnetmmCore *core, UnetmmEp *ep,
                          const uint8_t *payload)
{
    UnetmmPlaced placed = landing_begin(core, ep, payload);

    if (placed != UNETMM_PLACED_LATER) {
        landing_report(core, ep, placed == UNETMM_PLACED,
                       placed == UNETMM_PLACED_GONE ?
                       UNETMM_C_drop_invalidated : UNETMM_C_drop_dma);
    }
}

void unetmm_recv_slot(UnetmmCore *core, UnetmmEp *ep,
                      const struct unetmm_cqe *cqe, const uint8_t *payload)
{
    landing_set(core, ep, NULL, cqe->len);
    core->rx.cqe = *cqe;
    landing_whole(core, ep, payload);
}

/* Lands a message in a head, of which the pages are held that it touches. */
static void recv_land(UnetmmCore *core, UnetmmEp *ep, UnetmmHead *head,
                      const struct unetmm_cqe *cqe, const uint8_t *payload)
{
    UnetmmLanding *rx = &core->rx;
    uint32_t held = rx->npages;

    unetmm_recv_whole(core, head->addr, cqe->len);
    landing_set(core, ep, NULL, cqe->len);
    rx->cqe = *cqe;
    rx->cqe.cookie = head->cookie;
    unetmm_pages_release(core, rx->pages, rx->npages, held);
    landing_whole(core, ep, payload);
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

UnetmmXlat unetmm_recv_hold(UnetmmCore *core, UnetmmEp *ep, uint64_t *vpn,
                            uint32_t *npages)
{
    const UnetmmLanding *rx = &core->rx;
    uint32_t held = 0;

    for (uint32_t p = 0; p < rx->npieces; p++) {
        uint32_t n = unetmm_pte_pages(rx->pieces[p].addr, rx->pieces[p].len);

        for (uint32_t i = 0; i < n; i++, held++) {
            UnetmmXlat result;

            *vpn = (rx->pieces[p].addr >> UNETMM_PAGE_SHIFT) + i;
            result = unetmm_space_lookup(core, ep, *vpn, true,
                                         &rx->pages[held]);
            if (result != UNETMM_XLAT_OK) {
                unetmm_pages_release(core, rx->pages, 0, held);
                *npages = result == UNETMM_XLAT_MISS ?
                          recv_missing(core, ep, *vpn, n - i) : 0;
                return result;
            }
            unetmm_page_hold(&rx->pages[held]);
        }
    }
    return UNETMM_XLAT_OK;
}

UnetmmPlaced unetmm_recv_place(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                               const struct unetmm_frame *f,
                               const uint8_t *payload)
{
    UnetmmPlaced placed;

    landing_set(core, ep, rel, f->len);
    core->rx.head = *f;
    core->rx.cqe = (struct unetmm_cqe) { .opcode = UNETMM_CQE_RECEIVED };
    placed = landing_begin(core, ep, payload);
    if (placed != UNETMM_PLACED_LATER) {
        core->rx.rel = NULL;
    }
    return placed;
}

/* Lets go of what the landing message still holds. */
static void landing_end(UnetmmCore *core)
{
    UnetmmLanding *rx = &core->rx;

    core->eps[rx->ep].landing = false;
    unetmm_pages_release(core, rx->pages, rx->page, rx->npages);
    unetmm_port_release(core, g_steal_pointer(&rx->frame));
    rx->active = false;
    unetmm_sysbuf_go_on(core);
}

static void landing_finish(UnetmmCore *core, UnetmmEp *ep, bool landed,
                           enum unetmm_counter why)
{
    landing_end(core);
    unetmm_region_landed(core);
    landing_report(core, ep, landed, why);
    if (!ep->error) {
        unetmm_head_fetch(core, ep);
    }
    unetmm_ep_sync(core, ep);
}

/*
 * May the packet go on through its region?  If not, that has been cleared
 * meanwhile, or the packet's part of it is being moved.
 */
static bool landing_may_go_on(const UnetmmCore *core,
                              enum unetmm_counter *why)
{
    const UnetmmLanding *rx = &core->rx;
    const UnetmmRegion *region;

    if (!rx->rel || rx->head.opcode != UNETMM_WIRE_WRITE) {
        return true;
    }
    region = unetmm_region_find(core, core->eps[rx->ep].space,
                                rx->head.handle, rx->head.offset);
    *why = region ? UNETMM_C_drop_moved : UNETMM_C_drop_revoked;
    return region && !unetmm_region_held(region, rx->head.remote,
                                         rx->head.len);
}

/* A page's time is over: the data is there; on to the next page, if any. */
void unetmm_recv_landed(UnetmmCore *core)
{
    UnetmmLanding *rx = &core->rx;
    UnetmmEp *ep = &core->eps[rx->ep];
    bool written = !ep->error && landing_write(core, ep, rx->frame);
    enum unetmm_counter why;

    rx->moving = false;
    unetmm_page_move(&rx->pages[rx->page], false);
    unetmm_page_unlock(core, ep, &rx->pages[rx->page]);
    unetmm_page_release(core, &rx->pages[rx->page]);
    rx->page++;
    if (ep->error) {
        landing_end(core);
        rx->rel = NULL;
        unetmm_region_landed(core);
        unetmm_recv_drop(core, ep, UNETMM_C_drop_stopped);
        unetmm_ep_close_check(core, ep);
    } else if (!written) {
        landing_finish(core, ep, false, UNETMM_C_drop_dma);
    } else if (rx->page == rx->npages) {
        landing_finish(core, ep, true, 0);
    } else if (!landing_may_go_on(core, &why)) {
        landing_finish(core, ep, false, why);
    } else if (unetmm_page_gone(&rx->pages[rx->page]) ||
               !landing_start_page(core, ep)) {
        landing_finish(core, ep, false, UNETMM_C_drop_invalidated);
    }
}

static void recv_reset(UnetmmCore *core)
{
    if (core->rx.active) {
        core->counters[UNETMM_C_drop_reset]++;
        unetmm_port_release(core, g_steal_pointer(&core->rx.frame));
        core->rx.active = core->rx.moving = false;
    }
    /* Also of one that was never complete: its stream was refused. */
    core->rx.rel = NULL;
}

static void recv_message(UnetmmCore *core, UnetmmEp *ep,
                         const struct unetmm_frame *f, const uint8_t *payload)
{
    struct unetmm_cqe cqe = {
        .opcode = UNETMM_CQE_RECEIVED, .len = f->len,
        .channel = f->dst_channel,
    };
    enum unetmm_counter why;
    UnetmmHead *head;

    if (unetmm_ep_slotted(ep)) {
        unetmm_slot_receive(core, ep, &cqe, payload);
        return;
    }
    ep->activity++;
    if (!unetmm_ep_cq_spare(ep)) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_cq_full);
        ep->publish = true;
        return;
    }
    if (f->opcode == UNETMM_WIRE_CONTROL) {
        cqe.opcode = UNETMM_CQE_CONTROL;
        cqe.source = unetmm_mac_to_u64(f->src);
        cqe.channel = 0;
    } else if (f->len <= UNETMM_CQE_INLINE) {
        unetmm_recv_inline(core, ep, &cqe, payload);
        return;
    }
    head = unetmm_recv_find_head(core, ep, f->len, 0, &why);
    if (head) {
        recv_land(core, ep, head, &cqe, payload);
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

const UnetmmChannelOps unetmm_channel_datagram = {
    .name = "datagram",
    .wire = 1u << UNETMM_WIRE_DATAGRAM,
    .receive = recv_datagram,
};

/* The Ethernet addresses have been checked by the port. */
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
    core->rx.pages = g_new0(UnetmmPage, UNETMM_MAX_BUF_PAGES);
}

static void recv_free(UnetmmCore *core)
{
    g_clear_pointer(&core->rx.pages, g_free);
}

const UnetmmModule unetmm_module_recv = {
    .name = "recv",
    .create = recv_create,
    .reset = recv_reset,
    .free = recv_free,
};
