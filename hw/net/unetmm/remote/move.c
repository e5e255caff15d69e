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
#include "../abi/unetmm_le.h"
#include "../channel/channel.h"
#include "../ring/ring.h"
#include "remote.h"

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
static UnetmmMove *move_at(UnetmmRegionMoves *m, uint64_t offset,
                           uint64_t *last)
{
    *last = UINT64_MAX;
    for (unsigned i = 0; i < UNETMM_REDIRECTS; i++) {
        UnetmmMove *move = &m->moves[i];

        if (!move->state || move->last < offset) {
            continue;
        }
        if (move->first <= offset) {
            *last = move->last;
            return move;
        }
        *last = MIN(*last, move->first - 1);
    }
    return NULL;
}

/* Has its part moved, not only begun to? */
static bool move_moved(const UnetmmMove *move)
{
    return move && move->state != UNETMM_MOVE_BEGUN;
}

uint32_t unetmm_region_run(const UnetmmRegion *region, uint64_t offset,
                           uint32_t len, uint64_t *addr)
{
    const UnetmmMove *move;
    uint64_t last;

    *addr = region->addr + offset;
    if (!region->moved || !len) {
        return len;
    }
    move = move_at(region->moved, offset, &last);
    if (move_moved(move)) {
        *addr = move->to + (offset - move->first);
    }
    return last - offset < len ? last - offset + 1 : len;
}

void unetmm_region_note(const UnetmmRegion *region, uint64_t offset,
                        uint32_t len)
{
    while (region->moved && len) {
        uint64_t last;
        UnetmmMove *move = move_at(region->moved, offset, &last);
        uint32_t n = last - offset < len ? last - offset + 1 : len;

        spans_add(move_moved(move) ? &move->spans : &region->moved->landed,
                  offset, offset + (n - 1));
        offset += n;
        len -= n;
    }
}

static bool move_meets(const UnetmmMove *move, uint64_t first,
                       uint64_t last)
{
    return move->state && move->first <= last && first <= move->last;
}

bool unetmm_region_is_held(const UnetmmRegion *region, uint64_t offset,
                           uint32_t len)
{
    for (unsigned i = 0; region->moved && len && i < UNETMM_REDIRECTS; i++) {
        const UnetmmMove *move = &region->moved->moves[i];

        if (move_meets(move, offset, offset + (len - 1)) &&
            (move->state != UNETMM_MOVE_DONE || move->waits)) {
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

/* Lists move->spans from `from` on for the driver. */
static bool move_tell(UnetmmCore *core, const UnetmmMove *move,
                      uint64_t from, uint32_t *result)
{
    struct unetmm_landed list[UNETMM_REDIRECT_LANDED];
    UnetmmSpans told = { 0 };

    spans_join(&told, &move->spans, from);
    for (uint32_t i = 0; i < told.n; i++) {
        list[i].offset = told.at[i].first;
        list[i].length = told.at[i].last - told.at[i].first + 1;
        unetmm_le_landed(&list[i]);
    }
    *result = told.n;
    return !told.n || unetmm_dma_write(core, NULL, move->list, list,
                                       told.n * sizeof(list[0]));
}

static uint8_t begin_done(UnetmmCore *core, UnetmmRegionMoves *m,
                          UnetmmMove *move, uint32_t *result)
{
    spans_take(&m->landed, move->first, move->last, &move->spans);
    if (!move_tell(core, move, move->first, result)) {
        spans_join(&m->landed, &move->spans, move->first);
        move->state = UNETMM_MOVE_NONE;
        *result = 0;
        return UNETMM_CS_DMA;
    }
    if (!move->spans.n) {
        move->state = UNETMM_MOVE_DONE;
    }
    core->counters[UNETMM_C_redirects]++;
    return UNETMM_CS_OK;
}

static uint8_t back_done(UnetmmCore *core, UnetmmMove *move,
                         uint32_t *result)
{
    if (!move_tell(core, move, move->from, result)) {
        *result = 0;
        return UNETMM_CS_DMA;
    }
    move->state = UNETMM_MOVE_RETURNING;
    return UNETMM_CS_OK;
}

/* Bytes not copied, or copied back, are in the old place. */
static void end_done(UnetmmRegionMoves *m, UnetmmMove *move)
{
    if (move->state == UNETMM_MOVE_BEGUN) {
        spans_join(&m->landed, &move->spans, move->first);
    } else if (move->state == UNETMM_MOVE_RETURNING) {
        spans_join(&m->landed, &move->spans, move->from);
    }
    move->state = UNETMM_MOVE_NONE;
}

static uint8_t move_done(UnetmmCore *core, UnetmmRegion *region,
                         UnetmmMove *move, uint8_t what,
                         uint32_t *result)
{
    uint8_t status = UNETMM_CS_OK;

    switch (what) {
    case UNETMM_REDIRECT_BEGIN:
        status = begin_done(core, region->moved, move, result);
        break;
    case UNETMM_REDIRECT_BACK:
        status = back_done(core, move, result);
        break;
    case UNETMM_REDIRECT_END:
        end_done(region->moved, move);
        break;
    }
    trace_unetmm_redirect(region - core->remote->regions, what, move->first,
                          move->last - move->first, move->to, status, *result);
    move_tell_channels(core, region->space);
    return status;
}

/* At once, or when nothing moves through the part any more. */
static uint8_t move_await(UnetmmCore *core, UnetmmRegion *region,
                          UnetmmMove *move, uint8_t what, uint16_t tag,
                          uint32_t *result, bool *wait)
{
    if (!unetmm_region_moving_in(core, region - core->remote->regions,
                                 move->first, move->last)) {
        return move_done(core, region, move, what, result);
    }
    move->waits = what;
    move->tag = tag;
    unetmm_cmd_later(core);
    core->remote->moves_waiting++;
    *wait = true;
    return UNETMM_CS_OK;
}

uint8_t unetmm_move_add(UnetmmRegion *region,
                        const struct unetmm_cmd_redirect *cmd,
                        UnetmmMove **added)
{
    UnetmmMove *move = NULL;

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
        move = move || other->state ? move : other;
    }
    if (!move) {
        return UNETMM_CS_FULL;
    }
    *move = (UnetmmMove) {
        .state = UNETMM_MOVE_BEGUN, .first = cmd->offset,
        .last = cmd->offset + (cmd->length - 1), .to = cmd->to,
        .list = cmd->list,
    };
    *added = move;
    return UNETMM_CS_OK;
}

static uint8_t move_go(UnetmmCore *core, UnetmmRegion *region,
                       UnetmmMove *move, uint32_t *result)
{
    if (move->state == UNETMM_MOVE_DONE) {
        return UNETMM_CS_BAD_ARG;
    }
    /* Copied bytes are in the new place as if they had landed there. */
    move->state = UNETMM_MOVE_DONE;
    return move_done(core, region, move, UNETMM_REDIRECT_GO, result);
}

static uint8_t move_back(UnetmmCore *core, UnetmmRegion *region,
                         UnetmmMove *move,
                         const struct unetmm_cmd_redirect *cmd,
                         uint16_t tag, uint32_t *result, bool *wait)
{
    if (move->state != UNETMM_MOVE_DONE || cmd->list % sizeof(uint64_t) ||
        (cmd->length && cmd->length - 1 > move->last - move->first)) {
        return UNETMM_CS_BAD_ARG;
    }
    move->from = move->first + cmd->length;
    move->list = cmd->list;
    return move_await(core, region, move, UNETMM_REDIRECT_BACK, tag, result,
                      wait);
}

/* The part that begins there and is not about to change; or NULL. */
static UnetmmMove *move_find(const UnetmmRegion *region,
                             uint64_t offset, uint8_t *status)
{
    uint64_t last;
    UnetmmMove *move = move_at(region->moved, offset, &last);

    *status = !move || move->first != offset ? UNETMM_CS_BAD_ID :
              move->waits ? UNETMM_CS_BUSY : UNETMM_CS_OK;
    return *status == UNETMM_CS_OK ? move : NULL;
}

uint8_t unetmm_move(UnetmmCore *core,
                    const struct unetmm_cmd_redirect *cmd, uint16_t tag,
                    uint32_t *result, bool *wait)
{
    UnetmmRegion *region;
    UnetmmMove *move;
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
        status = unetmm_move_add(region, cmd, &move);
        return status != UNETMM_CS_OK ? status :
               move_await(core, region, move, cmd->what, tag, result, wait);
    }
    move = move_find(region, cmd->offset, &status);
    if (!move) {
        return status;
    }
    switch (cmd->what) {
    case UNETMM_REDIRECT_GO:
        return move_go(core, region, move, result);
    case UNETMM_REDIRECT_BACK:
        return move_back(core, region, move, cmd, tag, result, wait);
    case UNETMM_REDIRECT_END:
        return move_await(core, region, move, cmd->what, tag, result, wait);
    default:
        return UNETMM_CS_BAD_ARG;
    }
}

/* ---- The end of transfers ----------------------------------------------- */

static void move_done_late(UnetmmCore *core, UnetmmMove *move,
                           uint8_t status, uint32_t result)
{
    move->waits = 0;
    core->remote->moves_waiting--;
    unetmm_cmd_done_late(core, move->tag, UNETMM_CMD_REGION_REDIRECT, status,
                         result);
}

void unetmm_move_landed(UnetmmCore *core, uint32_t number)
{
    UnetmmRegion *region = &core->remote->regions[number];

    for (unsigned i = 0; region->moved && i < UNETMM_REDIRECTS; i++) {
        UnetmmMove *move = &region->moved->moves[i];
        uint32_t result = 0;
        uint8_t status;

        if (move->waits && !unetmm_region_moving_in(core, number, move->first,
                                                    move->last)) {
            status = move_done(core, region, move, move->waits, &result);
            move_done_late(core, move, status, result);
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
static bool move_waits_ok(const UnetmmMove *move)
{
    switch (move->waits) {
    case 0:
        return true;
    case UNETMM_REDIRECT_BEGIN:
        return move->state == UNETMM_MOVE_BEGUN && !move->spans.n;
    case UNETMM_REDIRECT_BACK:
    case UNETMM_REDIRECT_END:
        return move->state == UNETMM_MOVE_DONE;
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
                      UnetmmRegion *region, UnetmmMove *move)
{
    struct unetmm_cmd_redirect cmd = {
        .offset = move->first, .length = move->last - move->first + 1,
        .to = move->to, .list = move->list,
    };
    uint8_t state = move->state;
    UnetmmMove *made = move;

    unetmm_stream_u8(st, &state, "state");
    UNETMM_STREAM_FIELDS(st, &cmd, redirect_fields);
    if (unetmm_stream_reads(st) &&
        (st->wrong || state > UNETMM_MOVE_RETURNING || !state ||
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
        n += region->moved->moves[i].state != UNETMM_MOVE_NONE;
    }
    n = unetmm_stream_choice(st, n, UNETMM_REDIRECTS + 1, "redirects");
    for (unsigned i = 0; n && i < UNETMM_REDIRECTS && !st->wrong; i++) {
        UnetmmMove *move = &region->moved->moves[i];

        if (unetmm_stream_reads(st) ? i < n : move->state != UNETMM_MOVE_NONE) {
            unetmm_stream_enter(st, "redirect", i);
            move_save(st, core, region, move);
            unetmm_stream_leave(st);
        }
    }
    spans_save(st, &region->moved->landed, 0, region->length - 1, "landed");
}

/* Does each of its parts that is to move wait for a page that moves? */
bool unetmm_moves_ok(const UnetmmCore *core, uint32_t number)
{
    const UnetmmRegionMoves *m = core->remote->regions[number].moved;

    for (unsigned i = 0; m && i < UNETMM_REDIRECTS; i++) {
        const UnetmmMove *move = &m->moves[i];

        if (move->waits && !unetmm_region_moving_in(core, number, move->first,
                                                    move->last)) {
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
