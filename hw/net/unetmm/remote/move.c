/*
 * unetmm: parts of regions that are somewhere else (transfer redirection)
 *
 * Where a byte of a region is, is looked up for each packet when it is placed,
 * so nothing has to follow when a part moves.  Data that landed before is
 * copied by the driver's process; the part is held meanwhile, so that no copy
 * can overwrite newer data.  The bytes to copy are kept as few intervals, in
 * each place; they may cover too much, never too little.
 *
 * A packet or an answer that is moving through the part when a command comes is
 * waited for, one page at most: the part is held by then, so it goes no further
 * and comes again.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../channel/channel.h"
#include "../ring/ring.h"
#include "remote.h"
#include "../abi/unetmm_le.h"

/* ---- Intervals ---------------------------------------------------------- */

/* The two that are nearest become one, if there are too many. */
static void spans_fit(UnetmmSpans *s)
{
    uint32_t near = 0;

    if (s->n <= UNETMM_REDIRECT_LANDED) {
        return;
    }
    for (uint32_t i = 1; i + 1 < s->n; i++) {
        if (s->at[i + 1].first - s->at[i].last <
            s->at[near + 1].first - s->at[near].last) {
            near = i;
        }
    }
    s->at[near].last = s->at[near + 1].last;
    s->n--;
    memmove(&s->at[near + 1], &s->at[near + 2],
            (s->n - near - 1) * sizeof(s->at[0]));
}

static void spans_add(UnetmmSpans *s, uint64_t first, uint64_t last)
{
    uint32_t i = 0, end;

    while (i < s->n && s->at[i].last < first && first - s->at[i].last > 1) {
        i++;
    }
    end = i;
    while (end < s->n &&
           (s->at[end].first <= last || s->at[end].first - last == 1)) {
        first = MIN(first, s->at[end].first);
        last = MAX(last, s->at[end].last);
        end++;
    }
    memmove(&s->at[i + 1], &s->at[end], (s->n - end) * sizeof(s->at[0]));
    s->n = s->n - (end - i) + 1;
    s->at[i] = (UnetmmSpan) { .first = first, .last = last };
    spans_fit(s);
}

/* Moves the intervals in [first, last] from one to another. */
static void spans_take(UnetmmSpans *s, uint64_t first, uint64_t last,
                       UnetmmSpans *taken)
{
    UnetmmSpans left = { 0 };

    taken->n = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        UnetmmSpan at = s->at[i];

        if (at.last < first || at.first > last) {
            left.at[left.n++] = at;
            continue;
        }
        if (at.first < first) {
            left.at[left.n++] = (UnetmmSpan) { at.first, first - 1 };
        }
        taken->at[taken->n++] = (UnetmmSpan) { MAX(at.first, first),
                                               MIN(at.last, last) };
        if (at.last > last) {
            left.at[left.n++] = (UnetmmSpan) { last + 1, at.last };
        }
    }
    spans_fit(&left);
    *s = left;
}

/* Intervals from `from` on go from one to the other as well. */
static void spans_join(UnetmmSpans *to, const UnetmmSpans *s, uint64_t from)
{
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->at[i].last >= from) {
            spans_add(to, MAX(s->at[i].first, from), s->at[i].last);
        }
    }
}

bool unetmm_spans_ok(const UnetmmSpans *s, uint64_t first, uint64_t last)
{
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->at[i].first < first || s->at[i].first > s->at[i].last ||
            s->at[i].last > last ||
            (i && (s->at[i].first <= s->at[i - 1].last ||
                   s->at[i].first - s->at[i - 1].last == 1))) {
            return false;
        }
    }
    return s->n <= UNETMM_REDIRECT_LANDED;
}

/* ---- Where a byte is ---------------------------------------------------- */

/* The part that has it, or NULL; *last: up to where that is so. */
static UnetmmMove *move_at(UnetmmMoved *m, uint64_t offset,
                                   uint64_t *last)
{
    *last = UINT64_MAX;
    for (unsigned i = 0; i < UNETMM_REDIRECTS; i++) {
        UnetmmMove *r = &m->moves[i];

        if (!r->state || r->last < offset) {
            continue;
        }
        if (r->first <= offset) {
            *last = r->last;
            return r;
        }
        *last = MIN(*last, r->first - 1);
    }
    return NULL;
}

/* Has its part moved, not only begun to? */
static bool move_moved(const UnetmmMove *r)
{
    return r && r->state != UNETMM_MOVED_BEGUN;
}

uint32_t unetmm_region_run(const UnetmmRegion *region, uint64_t offset,
                           uint32_t len, uint64_t *addr)
{
    const UnetmmMove *r;
    uint64_t last;

    *addr = region->addr + offset;
    if (!region->moved || !len) {
        return len;
    }
    r = move_at(region->moved, offset, &last);
    if (move_moved(r)) {
        *addr = r->to + (offset - r->first);
    }
    return last - offset < len ? last - offset + 1 : len;
}

void unetmm_region_note(const UnetmmRegion *region, uint64_t offset,
                        uint32_t len)
{
    while (region->moved && len) {
        uint64_t last;
        UnetmmMove *r = move_at(region->moved, offset, &last);
        uint32_t n = last - offset < len ? last - offset + 1 : len;

        spans_add(move_moved(r) ? &r->spans : &region->moved->landed,
                  offset, offset + (n - 1));
        offset += n;
        len -= n;
    }
}

static bool move_meets(const UnetmmMove *r, uint64_t first,
                           uint64_t last)
{
    return r->state && r->first <= last && first <= r->last;
}

bool unetmm_region_held(const UnetmmRegion *region, uint64_t offset,
                        uint32_t len)
{
    for (unsigned i = 0; region->moved && len && i < UNETMM_REDIRECTS; i++) {
        const UnetmmMove *r = &region->moved->moves[i];

        if (move_meets(r, offset, offset + (len - 1)) &&
            (r->state != UNETMM_MOVED_GOING || r->waits)) {
            return true;
        }
    }
    return false;
}

/* Channels that wait for a part, or a page of it, look again. */
static void move_tell_channels(UnetmmCore *core, uint16_t space)
{
    for (uint16_t e = core->spaces[space].first_ep; e != UNETMM_NO_EP;
         e = core->eps[e].next_in_space) {
        UnetmmEp *ep = &core->eps[e];

        if (ep->rels && !ep->error) {
            ep->rel_ops->moved(core, ep);
        }
    }
}

/* ---- Commands ----------------------------------------------------------- */

/* Lists r->spans from `from` on for the driver. */
static bool move_tell(UnetmmCore *core, const UnetmmMove *r,
                          uint64_t from, uint32_t *result)
{
    struct unetmm_landed list[UNETMM_REDIRECT_LANDED];
    UnetmmSpans told = { 0 };

    spans_join(&told, &r->spans, from);
    for (uint32_t i = 0; i < told.n; i++) {
        list[i].offset = told.at[i].first;
        list[i].length = told.at[i].last - told.at[i].first + 1;
        unetmm_le_landed(&list[i]);
    }
    *result = told.n;
    return !told.n || unetmm_dma_write(core, NULL, r->list, list,
                                       told.n * sizeof(list[0]));
}

static uint8_t begin_done(UnetmmCore *core, UnetmmMoved *m, UnetmmMove *r,
                          uint32_t *result)
{
    spans_take(&m->landed, r->first, r->last, &r->spans);
    if (!move_tell(core, r, r->first, result)) {
        spans_join(&m->landed, &r->spans, r->first);
        r->state = UNETMM_MOVED_NOT;
        *result = 0;
        return UNETMM_CS_DMA;
    }
    if (!r->spans.n) {
        r->state = UNETMM_MOVED_GOING;
    }
    core->counters[UNETMM_C_redirects]++;
    return UNETMM_CS_OK;
}

static uint8_t back_done(UnetmmCore *core, UnetmmMove *r,
                         uint32_t *result)
{
    if (!move_tell(core, r, r->from, result)) {
        *result = 0;
        return UNETMM_CS_DMA;
    }
    r->state = UNETMM_MOVED_BACK;
    return UNETMM_CS_OK;
}

/* Bytes not copied, or copied back, are in the old place. */
static void end_done(UnetmmMoved *m, UnetmmMove *r)
{
    if (r->state == UNETMM_MOVED_BEGUN) {
        spans_join(&m->landed, &r->spans, r->first);
    } else if (r->state == UNETMM_MOVED_BACK) {
        spans_join(&m->landed, &r->spans, r->from);
    }
    r->state = UNETMM_MOVED_NOT;
}

static uint8_t move_done(UnetmmCore *core, UnetmmRegion *region,
                             UnetmmMove *r, uint8_t what,
                             uint32_t *result)
{
    uint8_t status = UNETMM_CS_OK;

    switch (what) {
    case UNETMM_REDIRECT_BEGIN:
        status = begin_done(core, region->moved, r, result);
        break;
    case UNETMM_REDIRECT_BACK:
        status = back_done(core, r, result);
        break;
    case UNETMM_REDIRECT_END:
        end_done(region->moved, r);
        break;
    }
    trace_unetmm_redirect(region - core->remote->regions, what, r->first,
                          r->last - r->first, r->to, status, *result);
    move_tell_channels(core, region->space);
    return status;
}

/* At once, or when nothing moves through the part any more. */
static uint8_t move_await(UnetmmCore *core, UnetmmRegion *region,
                              UnetmmMove *r, uint8_t what, uint16_t tag,
                              uint32_t *result, bool *wait)
{
    if (!unetmm_region_moving_in(core, region - core->remote->regions, r->first,
                                 r->last)) {
        return move_done(core, region, r, what, result);
    }
    r->waits = what;
    r->tag = tag;
    unetmm_cmd_later(core);
    core->remote->moves_waiting++;
    *wait = true;
    return UNETMM_CS_OK;
}

uint8_t unetmm_move_add(UnetmmRegion *region,
                            const struct unetmm_cmd_redirect *cmd,
                            UnetmmMove **added)
{
    UnetmmMove *r = NULL;

    if (!cmd->length || cmd->offset >= region->length ||
        cmd->length > region->length - cmd->offset ||
        cmd->to > UINT64_MAX - (cmd->length - 1) ||
        cmd->list % sizeof(uint64_t)) {
        return UNETMM_CS_BAD_ARG;
    }
    for (unsigned i = 0; i < UNETMM_REDIRECTS; i++) {
        UnetmmMove *other = &region->moved->moves[i];

        if (move_meets(other, cmd->offset,
                           cmd->offset + (cmd->length - 1))) {
            return UNETMM_CS_EXISTS;
        }
        r = r || other->state ? r : other;
    }
    if (!r) {
        return UNETMM_CS_FULL;
    }
    *r = (UnetmmMove) {
        .state = UNETMM_MOVED_BEGUN, .first = cmd->offset,
        .last = cmd->offset + (cmd->length - 1), .to = cmd->to,
        .list = cmd->list,
    };
    *added = r;
    return UNETMM_CS_OK;
}

static uint8_t move_go(UnetmmCore *core, UnetmmRegion *region,
                           UnetmmMove *r, uint32_t *result)
{
    if (r->state == UNETMM_MOVED_GOING) {
        return UNETMM_CS_BAD_ARG;
    }
    /* Copied bytes are in the new place as if they had landed there. */
    r->state = UNETMM_MOVED_GOING;
    return move_done(core, region, r, UNETMM_REDIRECT_GO, result);
}

static uint8_t move_back(UnetmmCore *core, UnetmmRegion *region,
                             UnetmmMove *r,
                             const struct unetmm_cmd_redirect *cmd,
                             uint16_t tag, uint32_t *result, bool *wait)
{
    if (r->state != UNETMM_MOVED_GOING || cmd->list % sizeof(uint64_t) ||
        (cmd->length && cmd->length - 1 > r->last - r->first)) {
        return UNETMM_CS_BAD_ARG;
    }
    r->from = r->first + cmd->length;
    r->list = cmd->list;
    return move_await(core, region, r, UNETMM_REDIRECT_BACK, tag, result,
                          wait);
}

/* The part that begins there and is not about to change; or NULL. */
static UnetmmMove *move_find(const UnetmmRegion *region,
                                     uint64_t offset, uint8_t *status)
{
    uint64_t last;
    UnetmmMove *r = move_at(region->moved, offset, &last);

    *status = !r || r->first != offset ? UNETMM_CS_BAD_ID :
              r->waits ? UNETMM_CS_BUSY : UNETMM_CS_OK;
    return *status == UNETMM_CS_OK ? r : NULL;
}

uint8_t unetmm_move(UnetmmCore *core,
                        const struct unetmm_cmd_redirect *cmd, uint16_t tag,
                        uint32_t *result, bool *wait)
{
    UnetmmRegion *region;
    UnetmmMove *r;
    uint8_t status;

    if (cmd->region >= core->params.regions ||
        !core->remote->regions[cmd->region].live ||
        core->remote->regions[cmd->region].clearing) {
        return UNETMM_CS_BAD_ID;
    }
    region = &core->remote->regions[cmd->region];
    if (!region->moved) {
        return UNETMM_CS_BAD_ARG;
    }
    if (cmd->what == UNETMM_REDIRECT_BEGIN) {
        status = unetmm_move_add(region, cmd, &r);
        return status != UNETMM_CS_OK ? status :
               move_await(core, region, r, cmd->what, tag, result, wait);
    }
    r = move_find(region, cmd->offset, &status);
    if (!r) {
        return status;
    }
    switch (cmd->what) {
    case UNETMM_REDIRECT_GO:
        return move_go(core, region, r, result);
    case UNETMM_REDIRECT_BACK:
        return move_back(core, region, r, cmd, tag, result, wait);
    case UNETMM_REDIRECT_END:
        return move_await(core, region, r, cmd->what, tag, result, wait);
    default:
        return UNETMM_CS_BAD_ARG;
    }
}

/* ---- The end of transfers ----------------------------------------------- */

static void move_done_late(UnetmmCore *core, UnetmmMove *r,
                               uint8_t status, uint32_t result)
{
    r->waits = 0;
    core->remote->moves_waiting--;
    unetmm_cmd_done_late(core, r->tag, UNETMM_CMD_REGION_REDIRECT, status,
                         result);
}

void unetmm_move_landed(UnetmmCore *core, uint32_t number)
{
    UnetmmRegion *region = &core->remote->regions[number];

    for (unsigned i = 0; region->moved && i < UNETMM_REDIRECTS; i++) {
        UnetmmMove *r = &region->moved->moves[i];
        uint32_t result = 0;
        uint8_t status;

        if (r->waits && !unetmm_region_moving_in(core, number, r->first,
                                                 r->last)) {
            status = move_done(core, region, r, r->waits, &result);
            move_done_late(core, r, status, result);
        }
    }
}

void unetmm_moves_forget(UnetmmCore *core, UnetmmRegion *region)
{
    for (unsigned i = 0; region->moved && i < UNETMM_REDIRECTS; i++) {
        if (region->moved->moves[i].waits) {
            move_done_late(core, &region->moved->moves[i],
                               UNETMM_CS_BAD_ID, 0);
        }
    }
    if (region->moved) {
        g_clear_pointer(&region->moved, g_free);
        move_tell_channels(core, region->space);
    }
}

/* ---- Saved state -------------------------------------------------------- */

static const UnetmmField span_fields[] = {
    UNETMM_FIELDS(UnetmmSpan, first, last),
};

static const UnetmmField spans_fields[] = {
    UNETMM_FIELD_RANGE(UnetmmSpans, n, 0, UNETMM_REDIRECT_LANDED),
    UNETMM_FIELD_LIST(UnetmmSpans, n, at, "at", span_fields),
};

static void spans_save(UnetmmStream *st, UnetmmSpans *s, uint64_t first,
                       uint64_t last, const char *name)
{
    unetmm_stream_enter(st, name, UNETMM_STREAM_ONE);
    UNETMM_STREAM_FIELDS(st, s, spans_fields);
    unetmm_stream_leave(st);
    if (!st->wrong && !unetmm_spans_ok(s, first, last)) {
        unetmm_stream_refuse(st, "impossible spans of a region");
    }
}

/* Can a part that is in this state wait for this command? */
static bool move_waits_ok(const UnetmmMove *r)
{
    switch (r->waits) {
    case 0:
        return true;
    case UNETMM_REDIRECT_BEGIN:
        return r->state == UNETMM_MOVED_BEGUN && !r->spans.n;
    case UNETMM_REDIRECT_BACK:
    case UNETMM_REDIRECT_END:
        return r->state == UNETMM_MOVED_GOING;
    default:
        return false;
    }
}

static const UnetmmField redirect_fields[] = {
    UNETMM_FIELDS(struct unetmm_cmd_redirect, offset, length, to, list),
};

static const UnetmmField move_fields[] = {
    UNETMM_FIELDS(UnetmmMove, waits, tag, from),
};

static void move_save(UnetmmStream *st, UnetmmCore *core,
                          UnetmmRegion *region, UnetmmMove *r)
{
    struct unetmm_cmd_redirect cmd = {
        .offset = r->first, .length = r->last - r->first + 1, .to = r->to,
        .list = r->list,
    };
    uint8_t state = r->state;
    UnetmmMove *made = r;

    unetmm_stream_u8(st, &state, "state");
    UNETMM_STREAM_FIELDS(st, &cmd, redirect_fields);
    if (unetmm_stream_reads(st) &&
        (st->wrong || state > UNETMM_MOVED_BACK || !state ||
         unetmm_move_add(region, &cmd, &made) != UNETMM_CS_OK)) {
        unetmm_stream_refuse(st, "a part of a region could not have moved");
        return;
    }
    made->state = state;
    UNETMM_STREAM_FIELDS(st, made, move_fields);
    spans_save(st, &made->spans, made->first, made->last, "spans");
    if (!move_waits_ok(made) || made->from > made->last + 1 ||
        (made->from && made->from < made->first)) {
        unetmm_stream_refuse(st, "a part of a region waits for nothing");
    }
    if (st->wrong) {
        made->waits = 0;
    } else if (made->waits && unetmm_stream_reads(st)) {
        core->remote->moves_waiting++;
        unetmm_cmd_later(core);
    }
}

/* Each saved redirect is checked as by REGION_REDIRECT. */
void unetmm_moves_save(UnetmmStream *st, UnetmmCore *core,
                           UnetmmRegion *region)
{
    uint32_t n = 0;

    if (!region->moved || st->wrong) {
        return;
    }
    for (unsigned i = 0; i < UNETMM_REDIRECTS; i++) {
        n += region->moved->moves[i].state != UNETMM_MOVED_NOT;
    }
    n = unetmm_stream_choice(st, n, UNETMM_REDIRECTS + 1, "redirects");
    for (unsigned i = 0; n && i < UNETMM_REDIRECTS && !st->wrong; i++) {
        UnetmmMove *r = &region->moved->moves[i];

        if (unetmm_stream_reads(st) ? i < n : r->state != UNETMM_MOVED_NOT) {
            unetmm_stream_enter(st, "redirect", i);
            move_save(st, core, region, r);
            unetmm_stream_leave(st);
        }
    }
    spans_save(st, &region->moved->landed, 0, region->length - 1, "landed");
}

/* Does each of its parts that is to move wait for a page that moves? */
bool unetmm_moves_ok(const UnetmmCore *core, uint32_t number)
{
    const UnetmmMoved *m = core->remote->regions[number].moved;

    for (unsigned i = 0; m && i < UNETMM_REDIRECTS; i++) {
        const UnetmmMove *r = &m->moves[i];

        if (r->waits && !unetmm_region_moving_in(core, number, r->first,
                                                 r->last)) {
            return false;
        }
    }
    return true;
}

uint32_t unetmm_region_run_ahead(const UnetmmRegion *region, uint64_t offset,
                                 uint32_t len, uint64_t more, uint64_t *addr)
{
    uint64_t most = MIN((uint64_t)len + more, region->length - offset);

    return unetmm_region_run(region, offset, MIN(most, UNETMM_MAX_MESSAGE),
                             addr);
}
