/*
 * unetmm: reliable channels: the window of packets that were sent
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "send_window.h"

uint32_t unetmm_sendwin_pick(const UnetmmSendWindow *w)
{
    uint32_t psn = w->una;

    while (psn != w->nxt && !(w->lost & unetmm_rel_bit(psn))) {
        psn++;
    }
    return psn;
}

/* ---- Its life ----------------------------------------------------------- */

void unetmm_sendwin_begin(UnetmmSendWindow *w, uint32_t psn, uint32_t credits)
{
    w->una = w->cum = w->nxt = psn;
    w->most = UNETMM_REL_WINDOW;
    w->asked = psn - 1;
    w->limited = credits;
    w->limit = psn + credits;
    w->deadline_ns = INT64_MAX;
}

void unetmm_sendwin_end(UnetmmSendWindow *w)
{
    w->lost = w->pending = w->unplaced = w->voids = 0;
    w->paused = w->again = w->rewinding = w->probe = false;
    w->deadline_ns = INT64_MAX;
}

bool unetmm_sendwin_sent(UnetmmSendWindow *w, uint32_t psn, bool request)
{
    uint64_t bit = unetmm_rel_bit(psn);
    bool again = psn != w->nxt;

    if (!again) {
        w->acked &= ~bit;
        w->pending = (w->pending & ~bit) | (request ? bit : 0);
        w->nxt++;
    }
    w->stamps[psn % UNETMM_REL_WINDOW] = ++w->stamp;
    w->lost &= ~bit;
    w->unplaced &= ~bit;
    return again;
}

/* ---- Acknowledgements --------------------------------------------------- */

static void sendwin_later(uint32_t *stamp, uint32_t now)
{
    if ((int32_t)(now - *stamp) > 0) {
        *stamp = now;
    }
}

/* The peer has the packet.  False: it had said so before. */
static bool acked_one(UnetmmSendWindow *w, uint32_t psn)
{
    uint64_t bit = unetmm_rel_bit(psn);

    if (w->acked & bit) {
        return false;
    }
    sendwin_later(&w->acked_stamp, w->stamps[psn % UNETMM_REL_WINDOW]);
    w->acked |= bit;
    w->lost &= ~bit;
    return true;
}

/* Packets are over that the peer has taken, if no answer is missing. */
static void acked_step_on(UnetmmSendWindow *w)
{
    while (w->una != w->cum && !(w->pending & unetmm_rel_bit(w->una))) {
        uint64_t over = ~unetmm_rel_bit(w->una);

        w->acked &= over;
        w->lost &= over;
        w->voids &= over;
        w->una++;
    }
}

/* Takes over the peer's news.  True: there is some. */
static bool acked_news(UnetmmSendWindow *w, uint32_t cum, uint64_t bits)
{
    bool news = cum != w->cum;

    for (; w->cum != cum; w->cum++) {
        acked_one(w, w->cum);
    }
    for (uint32_t i = 0; bits >> i && i < UNETMM_REL_WINDOW - 1; i++) {
        if (bits >> i & 1) {
            news |= acked_one(w, cum + 1 + i);
        }
    }
    /* The peer expects packet cum, contrary to earlier acknowledgements. */
    w->aside = false;
    if (w->cum != w->nxt) {
        w->acked &= ~unetmm_rel_bit(w->cum);
    }
    return news;
}

/*
 * A packet after which enough others were sent that arrived is lost: some, as
 * frames may overtake each other a little; but one, when all before it were
 * probably lost, by a silence or a refusal, or a fault took its time.  Of a
 * request that the peer has the answer is lost, if enough others have theirs.
 */
static void acked_find_lost(UnetmmSendWindow *w)
{
    int32_t enough = w->retries || w->refusals || w->again ? 1 :
                     UNETMM_REL_OVERTAKEN;

    for (uint32_t psn = w->una; psn != w->nxt; psn++) {
        uint64_t bit = unetmm_rel_bit(psn);
        uint32_t stamp = w->acked & bit ? w->answered_stamp : w->acked_stamp;
        int32_t later = stamp - w->stamps[psn % UNETMM_REL_WINDOW];

        if ((!(w->acked & bit) || (w->pending & bit & ~w->unplaced)) &&
            later >= enough) {
            w->lost |= bit;
        }
    }
}

bool unetmm_sendwin_acked(UnetmmSendWindow *w, uint32_t cum, uint64_t bits,
                          bool news)
{
    uint32_t una = w->una;

    if (!acked_news(w, cum, bits) && !news) {
        return false;
    }
    acked_step_on(w);
    acked_find_lost(w);
    w->retries = 0;
    if (w->una != una) {
        w->refusals = 0;
        w->again = false;
        w->paused = false;
    }
    if (w->una == w->nxt) {
        w->deadline_ns = INT64_MAX;
    }
    return true;
}

void unetmm_sendwin_set_aside(UnetmmSendWindow *w)
{
    w->aside = true;
    w->acked |= unetmm_rel_bit(w->cum);
    w->lost &= ~unetmm_rel_bit(w->cum);
    w->paused = false;
    w->retries = w->refusals = 0;
}

bool unetmm_sendwin_can_refuse(const UnetmmSendWindow *w)
{
    /* A refusal of the same pause, or without packets, is no news. */
    return !w->paused && w->una != w->nxt &&
           !(w->refusals && (w->lost & unetmm_rel_bit(w->una)));
}

void unetmm_sendwin_refused(UnetmmSendWindow *w)
{
    w->refusals++;
    w->paused = true;
}

void unetmm_sendwin_resumed(UnetmmSendWindow *w)
{
    w->paused = false;
    w->lost |= unetmm_rel_bit(w->una);
}

void unetmm_sendwin_rejected(UnetmmSendWindow *w, uint32_t psn)
{
    if (unetmm_sendwin_flies(w, psn) && psn == w->cum) {
        w->acked &= ~unetmm_rel_bit(psn);
        w->lost |= unetmm_rel_bit(psn);
    }
}

void unetmm_sendwin_void(UnetmmSendWindow *w, uint32_t psn)
{
    uint64_t bit = unetmm_rel_bit(psn);

    w->voids |= bit;
    w->pending &= ~bit;
    w->unplaced &= ~bit;
    /* The peer waits for the number: it goes out at once. */
    w->lost = (w->lost & ~bit) | (w->acked & bit ? 0 : bit);
}

void unetmm_sendwin_lost(UnetmmSendWindow *w, uint32_t psn)
{
    w->lost |= unetmm_rel_bit(psn);
}

/* ---- Answers ------------------------------------------------------------ */

void unetmm_sendwin_answered(UnetmmSendWindow *w, uint32_t psn)
{
    uint64_t over = ~unetmm_rel_bit(psn);
    uint32_t stamp = w->stamps[psn % UNETMM_REL_WINDOW];

    w->pending &= over;
    w->unplaced &= over;
    w->lost &= over;
    sendwin_later(&w->answered_stamp, stamp);
    /* The request may have gone again since it was acknowledged. */
    sendwin_later(&w->acked_stamp, stamp);
    unetmm_sendwin_rewound(w);
}

void unetmm_sendwin_unplaced(UnetmmSendWindow *w, uint32_t psn)
{
    w->unplaced |= unetmm_rel_bit(psn);
    w->lost &= ~unetmm_rel_bit(psn);
    w->retries = 0;
}

bool unetmm_sendwin_rewind(UnetmmSendWindow *w, uint32_t psn)
{
    bool first = !w->rewinding;

    if (first || w->rewind_psn - psn < UNETMM_REL_WINDOW) {
        w->rewinding = true;
        w->rewind_psn = psn;
    }
    return first;
}

static void sendwin_ask_again(UnetmmSendWindow *w)
{
    w->again |= w->unplaced != 0;
    w->lost |= w->unplaced;
    w->unplaced = 0;
}

void unetmm_sendwin_rewound(UnetmmSendWindow *w)
{
    if (w->rewinding && !unetmm_sendwin_is_pending(w, w->rewind_psn)) {
        w->rewinding = false;
        sendwin_ask_again(w);
    }
}

void unetmm_sendwin_place_came(UnetmmSendWindow *w)
{
    /* From there on all go, whether an answer has come or is on its way. */
    for (uint32_t psn = w->rewind_psn;
         w->rewinding && unetmm_sendwin_flies(w, psn); psn++) {
        w->unplaced |= w->pending & unetmm_rel_bit(psn);
    }
    sendwin_ask_again(w);
}

/* ---- Times and credits -------------------------------------------------- */

bool unetmm_sendwin_stuck(UnetmmSendWindow *w)
{
    uint32_t last = w->nxt - 1;

    if (unetmm_sendwin_within(w, unetmm_sendwin_pick(w)) || w->asked == last ||
        (w->pending & unetmm_rel_bit(last))) {
        return false;
    }
    w->asked = last;
    w->probe = true;
    return true;
}

bool unetmm_sendwin_timed_out(UnetmmSendWindow *w)
{
    uint64_t oldest = unetmm_rel_bit(w->una);

    w->retries += !w->early;
    w->again |= w->early;
    if (w->una == w->nxt || (w->acked & ~w->pending & oldest)) {
        w->probe = true;
        return true;
    }
    /*
     * The oldest packet may be a request that the peer has, and whose answer
     * waits for a page of ours: then the one that it does not have is another.
     */
    w->lost |= oldest;
    if (w->cum != w->nxt) {
        w->lost |= unetmm_rel_bit(w->cum) & ~w->acked;
    }
    return false;
}

bool unetmm_sendwin_credit(UnetmmSendWindow *w, uint32_t limit)
{
    if (!w->limited || (int32_t)(limit - w->limit) <= 0) {
        return false;
    }
    w->limit = limit;
    if (w->starves) {
        w->starves = false;
        w->retries = 0;
        if (w->una == w->nxt) {
            w->deadline_ns = INT64_MAX;
        }
    }
    return true;
}

/* ---- Saved state -------------------------------------------------------- */

static uint64_t window_bits(uint32_t first, uint32_t end)
{
    uint64_t bits = 0;

    for (; first != end; first++) {
        bits |= unetmm_rel_bit(first);
    }
    return bits;
}

bool unetmm_sendwin_ok(const UnetmmSendWindow *w, bool open)
{
    uint64_t window = window_bits(w->una, w->nxt);
    uint64_t taken = window_bits(w->una, w->cum);

    if (!open) {
        return !(w->lost | w->pending | w->unplaced | w->voids) &&
               !w->again && !w->rewinding;
    }
    if (w->cum != w->nxt &&
        w->aside != !!(w->acked & unetmm_rel_bit(w->cum))) {
        return false;
    }
    return !((w->acked | w->lost | w->pending | w->voids) & ~window) &&
           !(w->acked & w->lost & ~w->pending) && !(taken & ~w->acked) &&
           !(w->pending & w->voids) && !(w->unplaced & ~w->pending) &&
           (w->una == w->cum || (w->pending & unetmm_rel_bit(w->una)));
}

static const UnetmmField sendwin_packets[] = {
    UNETMM_FIELDS(UnetmmSendWindow, asked, stamp, acked_stamp, acked, lost,
                  answered_stamp, pending, unplaced, voids),
};

static const UnetmmField sendwin_state[] = {
    UNETMM_FIELD_RANGE(UnetmmSendWindow, retries, 0, 255),
    UNETMM_FIELD(UnetmmSendWindow, refusals),
    UNETMM_BOOLS(UnetmmSendWindow, again, rewinding),
    UNETMM_FIELD(UnetmmSendWindow, rewind_psn),
    UNETMM_FIELD_BOOL(UnetmmSendWindow, limited),
    UNETMM_FIELD(UnetmmSendWindow, limit),
    UNETMM_BOOLS(UnetmmSendWindow, starves, probe, aside),
};

void unetmm_sendwin_save(UnetmmStream *st, UnetmmSendWindow *w, bool open)
{
    uint32_t flying = w->nxt - w->una;
    uint32_t taken = w->cum - w->una;

    unetmm_stream_u32(st, &w->una, "una");
    flying = unetmm_stream_choice(st, flying, UNETMM_REL_WINDOW + 1, "flying");
    w->nxt = w->una + flying;
    taken = unetmm_stream_choice(st, taken, flying + 1, "taken");
    w->cum = w->una + taken;
    UNETMM_STREAM_FIELDS(st, w, sendwin_packets);
    for (uint32_t psn = w->una; psn != w->nxt; psn++) {
        unetmm_stream_enter(st, "stamps", psn - w->una);
        unetmm_stream_u32(st, &w->stamps[psn % UNETMM_REL_WINDOW], NULL);
        unetmm_stream_leave(st);
    }
    UNETMM_STREAM_FIELDS(st, w, sendwin_state);
    if (!unetmm_sendwin_ok(w, open)) {
        unetmm_stream_refuse(st, "a packet is on its way and is not");
    }
}

void unetmm_sendwin_save_deadline(UnetmmStream *st, UnetmmSendWindow *w,
                                  bool *armed, int64_t *when)
{
    *when = w->deadline_ns;
    *armed = *when != INT64_MAX;
    unetmm_stream_bool(st, armed, "armed");
    unetmm_stream_bool(st, &w->paused, "paused");
    if (*armed) {
        unetmm_stream_time(st, when, UNETMM_REL_MAX_TIMEOUT_US * 1000ull,
                           "when");
    }
}
