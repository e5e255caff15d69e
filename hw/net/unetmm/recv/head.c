/*
 * unetmm: the heads of the free queues
 *
 * The first few buffers of each free queue are copied into the card and their
 * pages are asked for ahead, with the right to write, so that a message finds
 * them translated (U-Net/MM's pre-translation).  The pages are ordinary TLB
 * entries: evicted or invalidated, they are asked for again, a few times in
 * each activity of the endpoint (a doorbell, a datagram) and not before the
 * next one.  (Without that bound two endpoints whose heads do not fit together
 * would have the driver trade pages between them for ever.)
 *
 * A buffer may be far longer than its message.  So a datagram needs the pages
 * alone that it touches, and the card looks a few pages ahead at a time
 * (UNETMM_HEAD_STEP), the rest in later turns of the main loop: a buffer that
 * is used before has cost no more than that.  CHECK is the state until all
 * pages have been seen; to a message it is as good as READY.
 *
 * A buffer may have more pages than its source can have at a time, if its
 * endpoint puts no short message in a completion.  Then the card looks at the
 * first pages alone, as many as one frame can need.
 *
 * A message of a reliable channel comes in packets, and again until it is
 * taken.  So its packets are no activity, and need no more of a head than they
 * touch: that is asked for however often the head has asked.
 *
 * A chain of descriptors is one buffer: a head for each, each with its pages
 * and its miss.  They are fetched, used and given back together.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../abi/unetmm_le.h"
#include "../channel/channel.h"
#include "recv.h"

/* The window takes the longest chain. */
static_assert(UNETMM_MAX_HEADS >= UNETMM_MAX_SEGS, "heads of a chain");

UnetmmHead *unetmm_head_at(UnetmmEp *ep, uint32_t n)
{
    return &ep->heads[(ep->first_head + n) % UNETMM_MAX_HEADS];
}

/* How many heads at the front are followed by another of the same chain. */
static uint32_t head_lead(UnetmmEp *ep)
{
    uint32_t n = 0;

    while (n < ep->nheads && unetmm_head_at(ep, n)->chain) {
        n++;
    }
    return n;
}

uint32_t unetmm_head_run(UnetmmEp *ep)
{
    uint32_t lead = head_lead(ep);

    return lead < ep->nheads ? lead + 1 : 0;
}

uint32_t unetmm_head_chained(UnetmmEp *ep)
{
    uint32_t n = 0;

    while (n < ep->nheads && unetmm_head_at(ep, ep->nheads - 1 - n)->chain) {
        n++;
    }
    return n;
}

uint32_t unetmm_head_parts(UnetmmEp *ep, UnetmmPart *parts)
{
    uint32_t run = unetmm_head_run(ep);

    for (uint32_t i = 0; i < run; i++) {
        const UnetmmHead *head = unetmm_head_at(ep, i);

        parts[i] = (UnetmmPart) { .addr = head->addr, .len = head->len };
    }
    return run;
}

UnetmmHead *unetmm_head_failed(UnetmmEp *ep)
{
    uint32_t run = unetmm_head_run(ep);

    for (uint32_t i = 0; i < run; i++) {
        UnetmmHead *head = unetmm_head_at(ep, i);

        if (head->state == UNETMM_HEAD_FAILED) {
            return head;
        }
    }
    return NULL;
}

/* A failed buffer stays until a message comes for it, or a flush. */
static bool heads_keep_failed(const UnetmmEp *ep)
{
    return ep->shared || (!ep->flushing && ep->rels &&
                          ep->rel_ops->keeps_failed(ep));
}

const UnetmmHead *unetmm_head_to_return(UnetmmEp *ep)
{
    const UnetmmHead *failed = unetmm_head_failed(ep);

    return failed && !ep->landing && !heads_keep_failed(ep) ? failed : NULL;
}

bool unetmm_heads_settled(UnetmmEp *ep)
{
    uint32_t run = unetmm_head_run(ep);
    uint32_t n = 0;

    if (unetmm_head_failed(ep) && heads_keep_failed(ep)) {
        return true;
    }
    while (n < run && (unetmm_head_at(ep, n)->state == UNETMM_HEAD_READY ||
                       unetmm_head_at(ep, n)->state == UNETMM_HEAD_CHECK)) {
        n++;
    }
    return run && n == run;
}

/* A buffer that a channel had taken before goes back before them. */
bool unetmm_heads_flush_due(UnetmmEp *ep)
{
    return ep->nheads && !ep->landing &&
           unetmm_head_at(ep, 0)->state != UNETMM_HEAD_FAILED &&
           !(ep->rels && ep->rel_ops->gives_back(ep));
}

/* The window grows for the rest of a chain at its beginning. */
bool unetmm_heads_wanted(UnetmmEp *ep)
{
    return ep->fq_cons + ep->nheads != ep->fq_prod &&
           (ep->nheads < ep->max_heads ||
            (ep->nheads && ep->nheads < UNETMM_MAX_HEADS &&
             !unetmm_head_run(ep)));
}

static UnetmmMiss *head_miss(UnetmmEp *ep, const UnetmmHead *head)
{
    return &ep->misses[1 + (head - ep->heads)];
}

/* Only a whole page can lose its contents, and only where it may be absent. */
bool unetmm_head_may_zero(const UnetmmSourceOps *source, uint64_t addr,
                          uint32_t len)
{
    return source->driver_brings && len == UNETMM_PAGE_BYTES &&
           addr % UNETMM_PAGE_BYTES == 0;
}

bool unetmm_head_may_be_empty(const UnetmmEp *ep)
{
    return (ep->no_inline || ep->shared) && !unetmm_ep_slotted(ep);
}

static bool head_malformed(const UnetmmSourceOps *source, const UnetmmEp *ep,
                           const struct unetmm_fqe *fqe)
{
    if (!fqe->len) {
        return fqe->flags || fqe->rsvd || !unetmm_head_may_be_empty(ep);
    }
    return fqe->flags & ~UNETMM_FQE_F_ALL || fqe->rsvd ||
           fqe->addr > UINT64_MAX - (fqe->len - 1) ||
           (fqe->flags & UNETMM_FQE_F_ZERO &&
            (fqe->flags & UNETMM_FQE_F_CHAIN ||
             !unetmm_head_may_zero(source, fqe->addr, fqe->len)));
}

static uint8_t head_bad(UnetmmCore *core, UnetmmEp *ep,
                        const struct unetmm_fqe *fqe)
{
    unetmm_count(core, ep, UNETMM_C_err_descriptor, 1);
    UNETMM_GUEST_ERR(free_descriptor,
                     "endpoint %u: free buffer 0x%" PRIx64 " +%u refused",
                     ep->id, fqe->addr, fqe->len);
    return UNETMM_ST_BAD_DESC;
}

/*
 * May a buffer of the endpoint have so many pages?  In verbs a process posts
 * buffers of any length.  Other processes learn from the status that the TLB
 * cannot hold the buffer.
 */
bool unetmm_head_may_have(const UnetmmCore *core, const UnetmmEp *ep,
                          uint64_t pages)
{
    return unetmm_head_may_be_empty(ep) ||
           pages <= core->spaces[ep->space].source->max_pages(core);
}

/* Pages that the card looks at ahead, from the first one on. */
static uint64_t head_span(const UnetmmCore *core, const UnetmmEp *ep,
                          const UnetmmHead *head)
{
    uint64_t pages = unetmm_head_npages(head->addr, head->len);

    return pages <= core->spaces[ep->space].source->max_pages(core) ? pages :
           unetmm_head_npages(head->addr, MIN(head->len, UNETMM_MAX_PAYLOAD));
}

/* The status of a buffer of this descriptor alone; nothing is counted. */
static uint8_t head_alone_status(UnetmmCore *core, const UnetmmEp *ep,
                                 const struct unetmm_fqe *fqe)
{
    const UnetmmSourceOps *source = core->spaces[ep->space].source;

    if (head_malformed(source, ep, fqe) ||
        (fqe->flags & UNETMM_FQE_F_CHAIN && unetmm_ep_slotted(ep))) {
        return UNETMM_ST_BAD_DESC;
    }
    return unetmm_head_may_have(core, ep,
                                unetmm_head_npages(fqe->addr, fqe->len)) ?
           UNETMM_ST_OK : UNETMM_ST_TOO_LARGE;
}

uint8_t unetmm_head_status(UnetmmCore *core, UnetmmEp *ep,
                           const struct unetmm_fqe *fqe)
{
    uint8_t status = head_alone_status(core, ep, fqe);

    return status == UNETMM_ST_BAD_DESC ? head_bad(core, ep, fqe) : status;
}

bool unetmm_head_read(UnetmmCore *core, UnetmmEp *ep, uint32_t slot,
                      struct unetmm_fqe *fqe)
{
    uint64_t at = slot & ((1u << ep->fq_log2) - 1);

    if (!unetmm_dma_read(core, ep, ep->fq_base + at * sizeof(*fqe), fqe,
                         sizeof(*fqe))) {
        unetmm_ep_fail(core, ep, UNETMM_ST_DMA);
        return false;
    }
    unetmm_le_fqe(fqe);
    return true;
}

/*
 * The next part of a buffer of several: is it one, does the buffer end in time,
 * and may it have so many pages?
 */
static uint8_t head_part_status(UnetmmCore *core, UnetmmEp *ep, uint32_t before,
                                UnetmmHead *head)
{
    uint64_t pages = unetmm_head_npages(head->addr, head->len);

    if (head->chain && (before == UNETMM_MAX_SEGS - 1 ||
                        ep->fq_cons + ep->nheads + 1 == ep->fq_prod)) {
        head->chain = false;
        return UNETMM_ST_BAD_DESC;
    }
    if (before && (head->zero || !head->len)) {
        return UNETMM_ST_BAD_DESC;
    }
    for (uint32_t i = 0; i < before; i++) {
        const UnetmmHead *part = unetmm_head_at(ep, ep->nheads - 1 - i);

        if (part->state == UNETMM_HEAD_FAILED) {
            return part->status;
        }
        pages += unetmm_pte_pages(part->addr, part->len);
    }
    return unetmm_head_may_have(core, ep, pages) ? UNETMM_ST_OK :
           UNETMM_ST_TOO_LARGE;
}

/* Was the buffer counted as bad, for a part that was posted before? */
static bool head_counted(UnetmmEp *ep, uint32_t before)
{
    for (uint32_t i = 0; i < before; i++) {
        if (unetmm_head_at(ep, ep->nheads - 1 - i)->status ==
            UNETMM_ST_BAD_DESC) {
            return true;
        }
    }
    return false;
}

/* EP_F_KEYS: from the region's addresses to those of the space, if any. */
static uint8_t head_by_key(UnetmmCore *core, UnetmmEp *ep,
                           struct unetmm_fqe *fqe)
{
    if (ep->keys && fqe->len &&
        !core->tables->local(core, ep, fqe->key, true, &fqe->addr, fqe->len)) {
        unetmm_count(core, ep, UNETMM_C_err_key, 1);
        return UNETMM_ST_PROTECTION;
    }
    fqe->key = ep->keys ? 0 : fqe->key;
    return UNETMM_ST_OK;
}

/* The head behind those that there are. */
static void head_load(UnetmmCore *core, UnetmmEp *ep, struct unetmm_fqe *fqe)
{
    uint8_t status = head_by_key(core, ep, fqe);
    UnetmmHead *head = unetmm_head_at(ep, ep->nheads);
    uint32_t before = unetmm_head_chained(ep);
    uint8_t part;

    *head = (UnetmmHead) {
        .state = UNETMM_HEAD_CHECK,
        .addr = fqe->addr, .len = fqe->len, .cookie = fqe->cookie,
        .zero = fqe->flags & UNETMM_FQE_F_ZERO,
        .chain = fqe->flags & UNETMM_FQE_F_CHAIN,
    };
    head->status = status ?: head_alone_status(core, ep, fqe);
    if (before || head->chain) {
        part = head_part_status(core, ep, before, head);
        head->status = head->status ?: part;
    }
    if (head->status == UNETMM_ST_BAD_DESC && !head_counted(ep, before)) {
        head_bad(core, ep, fqe);
    }
    if (head->status != UNETMM_ST_OK) {
        head->state = UNETMM_HEAD_FAILED;
    }
    ep->nheads++;
}

void unetmm_head_fail(UnetmmCore *core, UnetmmEp *ep, UnetmmHead *head,
                      uint8_t status)
{
    unetmm_miss_cancel(core, head_miss(ep, head));
    head->state = UNETMM_HEAD_FAILED;
    head->status = status;
}

static void heads_flush(UnetmmCore *core, UnetmmEp *ep)
{
    for (uint32_t i = 0; i < ep->nheads; i++) {
        UnetmmHead *head = unetmm_head_at(ep, i);

        if (head->state != UNETMM_HEAD_FAILED) {
            unetmm_head_fail(core, ep, head, UNETMM_ST_FLUSHED);
        }
    }
}

/* Is it a head of the first buffer? */
static bool head_is_first(UnetmmEp *ep, const UnetmmHead *head)
{
    uint32_t at = (head - ep->heads) + UNETMM_MAX_HEADS - ep->first_head;

    return at % UNETMM_MAX_HEADS <= head_lead(ep);
}

/* Pages from vpn on, up to `limit`, that are not translated. */
static uint32_t head_missing(UnetmmCore *core, UnetmmEp *ep, uint64_t vpn,
                             uint64_t limit)
{
    return unetmm_space_missing(core, ep, vpn, true, limit,
                                UNETMM_REPLY_MAX_PAGES);
}

/*
 * May the head ask now?  Large ones need several replies.  Those of the first
 * buffer may ask more often than those behind it: where they do not fit
 * together it is the one that stays, and messages get through.
 */
static bool head_may_ask(const UnetmmCore *core, UnetmmEp *ep,
                         const UnetmmHead *head)
{
    uint32_t asks = head_is_first(ep, head) ? UNETMM_HEAD_ASKS :
                    UNETMM_HEAD_ASKS / 2;

    return head->asked_in != ep->activity || head->asks < asks +
           head_span(core, ep, head) / UNETMM_REPLY_MAX_PAGES;
}

static void head_ask(UnetmmCore *core, UnetmmEp *ep, UnetmmHead *head,
                     uint64_t vpn, uint64_t limit)
{
    if (!head_may_ask(core, ep, head)) {
        head->state = UNETMM_HEAD_CHECK;
        head->checked = 0;
        return;
    }
    if (head->asked_in != ep->activity) {
        head->asked_in = ep->activity;
        head->asks = 0;
    }
    head->asks++;
    head->state = UNETMM_HEAD_ASKED;
    head->checked = 0;
    unetmm_miss_want(core, head_miss(ep, head), vpn,
                     head_missing(core, ep, vpn, limit), head->zero);
}

/*
 * A page of the head could not be had: it becomes ASKED for that page and for
 * absent ones behind it, or FAILED.
 */
static void head_lacks(UnetmmCore *core, UnetmmEp *ep, UnetmmHead *head,
                       UnetmmXlat result, uint64_t i)
{
    if (result == UNETMM_XLAT_MISS) {
        head_ask(core, ep, head, (head->addr >> UNETMM_PAGE_SHIFT) + i,
                 head_span(core, ep, head) - i);
    } else {
        head->state = UNETMM_HEAD_FAILED;
        head->status = UNETMM_ST_PROTECTION;
    }
}

/* A page that the head relies on from now on. */
static UnetmmXlat head_lookup(UnetmmCore *core, UnetmmEp *ep,
                              const UnetmmHead *head, uint64_t i,
                              UnetmmPage *page)
{
    uint64_t first = head->addr >> UNETMM_PAGE_SHIFT;
    UnetmmXlat result = unetmm_space_lookup(core, ep, first + i, true, page);

    if (result == UNETMM_XLAT_OK) {
        unetmm_page_head(page);
    }
    return result;
}

/*
 * Looks at the head's pages from where it was left, *most of them at most; when
 * all are translated it is READY.
 */
static void head_check(UnetmmCore *core, UnetmmEp *ep, UnetmmHead *head,
                       uint32_t *most)
{
    uint64_t n = head_span(core, ep, head);
    UnetmmPage page;

    while (head->checked < n && *most) {
        uint32_t i = head->checked;
        UnetmmXlat result;

        unetmm_spend(core, UNETMM_STEP_HEAD, 0);
        result = head_lookup(core, ep, head, i, &page);
        (*most)--;
        if (result != UNETMM_XLAT_OK) {
            head_lacks(core, ep, head, result, i);
            return;
        }
        /* The lookup may have cost one of those before (x-force-evict). */
        head->checked += head->checked == i;
    }
    if (head->checked == n) {
        head->state = UNETMM_HEAD_READY;
    }
}

bool unetmm_head_pages(UnetmmCore *core, UnetmmEp *ep, UnetmmHead *head,
                       uint32_t len, UnetmmPage *pages, uint32_t *npages)
{
    /* For a message of no bytes one page must be present, if there is one. */
    uint32_t n = unetmm_head_npages(head->addr, MIN(MAX(len, 1), head->len));

    *npages = n;
    for (uint32_t i = 0; i < n; i++) {
        UnetmmXlat result = head_lookup(core, ep, head, i, &pages[i]);

        if (result != UNETMM_XLAT_OK) {
            head_lacks(core, ep, head, result, i);
            unetmm_pages_release(core, pages, 0, i);
            return false;
        }
        /* So that looking up one page never costs another. */
        unetmm_page_hold(&pages[i]);
    }
    return true;
}

/*
 * For a packet of a reliable channel that begins a message: are the pages of
 * the head's first `len` bytes there?  If not, the head asks for those alone,
 * unless it has asked for pages already.
 */
bool unetmm_head_begins(UnetmmCore *core, UnetmmEp *ep, UnetmmHead *head,
                        uint32_t len)
{
    uint64_t vpn = head->addr >> UNETMM_PAGE_SHIFT;
    uint64_t n = unetmm_head_npages(head->addr, MIN(len, head->len));
    UnetmmXlat result = UNETMM_XLAT_OK;
    UnetmmPage page;
    uint64_t i;

    /* A page that the driver may still drop must not get data. */
    if (head->state == UNETMM_HEAD_ASKED && head->zero) {
        return false;
    }
    for (i = 0; i < n; i++) {
        result = unetmm_space_lookup(core, ep, vpn + i, true, &page);
        if (result != UNETMM_XLAT_OK) {
            break;
        }
    }
    if (result == UNETMM_XLAT_ERROR) {
        head->state = UNETMM_HEAD_FAILED;
        head->status = UNETMM_ST_PROTECTION;
    } else if (result == UNETMM_XLAT_MISS && head->state != UNETMM_HEAD_ASKED) {
        head->state = UNETMM_HEAD_ASKED;
        unetmm_miss_want(core, head_miss(ep, head), vpn + i,
                         head_missing(core, ep, vpn + i, n - i), head->zero);
    }
    return result == UNETMM_XLAT_OK;
}

void unetmm_head_pop(UnetmmCore *core, UnetmmEp *ep)
{
    UnetmmEp *queue = ep->queue;

    for (uint32_t run = unetmm_head_run(queue); run; run--) {
        unetmm_miss_cancel(core, head_miss(queue, unetmm_head_at(queue, 0)));
        queue->first_head = (queue->first_head + 1) % UNETMM_MAX_HEADS;
        queue->nheads--;
        queue->fq_cons++;
    }
    queue->publish = true;
    if (queue != ep) {
        unetmm_ready_push(core, queue);
    }
}

/* Gives the first buffer back unfilled.  False: no room for the completion. */
bool unetmm_head_return(UnetmmCore *core, UnetmmEp *ep, uint8_t status)
{
    UnetmmHead *head = unetmm_head_at(ep->queue, 0);
    struct unetmm_cqe cqe = {
        .opcode = UNETMM_CQE_BUFFER, .status = status,
        .cookie = head->cookie,
    };

    if (!unetmm_ep_cq_spare(ep) || !unetmm_ep_complete(core, ep, &cqe)) {
        return false;
    }
    unetmm_charge(core, unetmm_head_run(ep->queue), 0);
    unetmm_count(core, ep, status == UNETMM_ST_SKIPPED ?
                 UNETMM_C_bufs_skipped : UNETMM_C_bufs_failed, 1);
    trace_unetmm_buffer_returned(ep->id, head->addr, head->len, status);
    unetmm_head_pop(core, ep);
    return true;
}

/*
 * How many heads are asked for ahead.  With reliable channels, which users of a
 * shared queue may have, buffers may be longer than the TLB: then those are,
 * from the first on, that fit into it together.  The others would push out
 * pages in which a message is landing.
 */
static uint32_t head_ahead(UnetmmCore *core, UnetmmEp *ep)
{
    const UnetmmSourceOps *source = core->spaces[ep->space].source;
    uint64_t room, pages = 0;

    if (!(ep->rels || ep->shared) || !source->only_copy_is_the_tlb) {
        return ep->nheads;
    }
    room = unetmm_tlb_capacity(source->tlb(core));
    for (uint32_t i = 0; i < ep->nheads; i++) {
        UnetmmHead *head = unetmm_head_at(ep, i);

        if (head->state != UNETMM_HEAD_FAILED) {
            pages += head_span(core, ep, head);
        }
        if (pages > room) {
            return i;
        }
    }
    return ep->nheads;
}

/* The first head in which no message is landing. */
static uint32_t head_first_free(UnetmmEp *ep)
{
    return ep->landing ? unetmm_head_run(ep) : 0;
}

/* Is there a head whose pages have not all been looked at? */
static bool heads_unseen(UnetmmEp *ep, uint32_t ahead)
{
    for (uint32_t i = head_first_free(ep); i < ahead; i++) {
        if (unetmm_head_at(ep, i)->state == UNETMM_HEAD_CHECK) {
            return true;
        }
    }
    return false;
}

/* Checks the heads that may ask, or those that may not. */
static void heads_check_if(UnetmmCore *core, UnetmmEp *ep, uint32_t ahead,
                           bool may_ask, uint32_t *most)
{
    for (uint32_t i = head_first_free(ep); i < ahead; i++) {
        UnetmmHead *head = unetmm_head_at(ep, i);

        if (head->state == UNETMM_HEAD_CHECK &&
            head_may_ask(core, ep, head) == may_ask) {
            head_check(core, ep, head, most);
        }
    }
}

/*
 * Looks at the heads, but for one in which a message is landing.  Heads that
 * may ask come first and go on without a turn, since they come to an end;
 * those that may not are looked at again and again, possibly for ever.
 */
static void heads_check(UnetmmCore *core, UnetmmEp *ep, uint32_t *most)
{
    uint32_t ahead = head_ahead(core, ep);

    if (!heads_unseen(ep, ahead)) {
        return;
    }
    heads_check_if(core, ep, ahead, true, most);
    for (uint32_t i = head_first_free(ep); !*most && i < ahead; i++) {
        UnetmmHead *head = unetmm_head_at(ep, i);

        if (head->state == UNETMM_HEAD_CHECK && head_may_ask(core, ep, head)) {
            ep->heads_behind = core->heads->behind = true;
        }
    }
    if (heads_unseen(ep, ahead)) {
        heads_check_if(core, ep, ahead, false, most);
    }
}

/*
 * Fills the window of heads, asks for their pages, returns those that failed:
 * as many as an endpoint may send in its turn, if the budget has as many.  The
 * others are work for another turn (ep_has_work()): a process can post them as
 * fast as they come back.
 */
void unetmm_head_fetch(UnetmmCore *core, UnetmmEp *ep)
{
    uint32_t most = UNETMM_HEAD_STEP;
    const UnetmmHead *failed;

    for (unsigned n = 0; ; n++) {
        while (unetmm_heads_wanted(ep)) {
            struct unetmm_fqe fqe;

            if (!unetmm_head_read(core, ep, ep->fq_cons + ep->nheads, &fqe)) {
                return;
            }
            head_load(core, ep, &fqe);
        }
        if (ep->flushing && unetmm_heads_flush_due(ep)) {
            heads_flush(core, ep);
        }
        heads_check(core, ep, &most);
        failed = unetmm_head_to_return(ep);
        if (!failed || n == UNETMM_TURN_DESCRIPTORS ||
            !unetmm_budget_left(core) ||
            !unetmm_head_return(core, ep, ep->flushing ? UNETMM_ST_FLUSHED :
                                failed->status)) {
            return;
        }
    }
}

void unetmm_heads_go_on(UnetmmCore *core)
{
    if (!core->heads->behind) {
        return;
    }
    core->heads->behind = false;
    for (uint32_t i = 0; i < core->params.endpoints; i++) {
        UnetmmEp *ep = &core->eps[i];

        if (ep->heads_behind) {
            ep->heads_behind = false;
            unetmm_ready_push(core, ep);
        }
    }
}

static void head_lost(UnetmmCore *core, UnetmmEp *ep, uint64_t first,
                      uint64_t last)
{
    for (uint32_t i = 0; i < ep->nheads; i++) {
        UnetmmHead *head = unetmm_head_at(ep, i);
        uint64_t low = head->addr >> UNETMM_PAGE_SHIFT;
        uint64_t high = low + head_span(core, ep, head) - 1;

        if (!head->len || high < first || low > last) {
            continue;
        }
        head->checked = 0;
        if (head->state != UNETMM_HEAD_READY) {
            continue;
        }
        head->state = UNETMM_HEAD_CHECK;
        if (head_may_ask(core, ep, head)) {
            unetmm_ready_push(core, ep);
        }
    }
}

/*
 * Pages on which heads relied were evicted or invalidated: the heads' next
 * states.  A page on which none did (UnetmmTlbEntry.head) needs no look.
 */
static void head_lost_page(UnetmmCore *core, uint16_t space, uint64_t first,
                           uint64_t last)
{
    for (uint16_t e = core->spaces[space].first_ep; e != UNETMM_NO_EP;
         e = core->eps[e].next_in_space) {
        if (!core->eps[e].error) {
            head_lost(core, &core->eps[e], first, last);
        }
    }
}

static void head_reply(UnetmmCore *core, UnetmmMiss *miss, uint8_t reply,
                       uint8_t status)
{
    UnetmmHead *head = miss->of;
    UnetmmEp *ep = miss->ep;

    switch (reply) {
    case UNETMM_REPLY_DEFERRED:
        head->state = UNETMM_HEAD_DEFERRED;
        unetmm_count(core, ep, UNETMM_C_faults_deferred, 1);
        return;
    case UNETMM_REPLY_ERROR:
        head->state = UNETMM_HEAD_FAILED;
        head->status = status;
        unetmm_count(core, ep, UNETMM_C_faults_error, 1);
        break;
    default:
        head->state = UNETMM_HEAD_CHECK;
        head->checked = 0;
        break;
    }
    unetmm_ready_push(core, ep);
}

static const UnetmmMissOwner head_owner = {
    .name = "head", .write = true, .head = true, .reply = head_reply,
};

/* The endpoint, which is new, gets its heads and their misses. */
void unetmm_head_begin(UnetmmCore *core, UnetmmEp *ep)
{
    ep->heads = &core->heads->all[ep->id * UNETMM_MAX_HEADS];
    memset(ep->heads, 0, UNETMM_MAX_HEADS * sizeof(*ep->heads));
    for (unsigned i = 0; i < UNETMM_MAX_HEADS; i++) {
        unetmm_miss_own(&ep->misses[1 + i], &head_owner, ep, &ep->heads[i]);
    }
}

static void head_stop(UnetmmCore *core, UnetmmEp *ep)
{
    for (unsigned i = 0; i < UNETMM_MAX_HEADS; i++) {
        unetmm_miss_cancel(core, &ep->misses[1 + i]);
    }
    ep->nheads = 0;
}

static void head_create(UnetmmCore *core)
{
    core->heads = g_new0(UnetmmHeads, 1);
    core->heads->all = g_new0(UnetmmHead,
                              core->params.endpoints * UNETMM_MAX_HEADS);
}

static void head_free(UnetmmCore *core)
{
    g_free(core->heads->all);
    g_clear_pointer(&core->heads, g_free);
}

const UnetmmModule unetmm_module_head = {
    .name = "head",
    .create = head_create,
    .free = head_free,
    .ep_stop = head_stop,
    .pages_lost = head_lost_page,
};
