/*
 * unetmm: reliable channels: the window of packets that are to be taken
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "recv_window.h"

uint64_t unetmm_recvwin_bits(const UnetmmRecvWindow *w)
{
    uint64_t bits = 0;

    for (uint32_t i = 0; w->have && i < UNETMM_REL_WINDOW - 1; i++) {
        if (unetmm_recvwin_has(w, w->nxt + 1 + i)) {
            bits |= 1ull << i;
        }
    }
    return bits;
}

void unetmm_recvwin_drop(UnetmmRecvWindow *w)
{
    w->have = w->spoilt = 0;
    w->landed = false;
}

void unetmm_recvwin_end(UnetmmRecvWindow *w)
{
    w->refused = UNETMM_REL_WANT_NOTHING;
    w->refuse = false;
    w->wrong = 0;
    w->why = w->late_why = 0;
}

void unetmm_recvwin_lost(UnetmmRecvWindow *w)
{
    w->have &= ~unetmm_rel_bit(w->nxt);
    w->spoilt &= ~unetmm_rel_bit(w->nxt);
}

void unetmm_recvwin_landed(UnetmmRecvWindow *w, uint32_t psn, bool in_place)
{
    w->spoilt |= in_place ? 0 : unetmm_rel_bit(psn);
    w->landed = true;
}

void unetmm_recvwin_rejected_late(UnetmmRecvWindow *w, uint32_t psn,
                                  uint8_t reason)
{
    /* One packet at a time: the peer asks for the others again. */
    w->late_why = reason;
    w->late_psn = psn;
}

bool unetmm_recvwin_bad_key(UnetmmRecvWindow *w)
{
    return ++w->bad_keys >= UNETMM_REL_BAD_KEYS;
}

/* ---- Saved state -------------------------------------------------------- */

static const UnetmmField recvwin_have[] = {
    UNETMM_FIELDS(UnetmmRecvWindow, nxt, have),
};

static const UnetmmField recvwin_packets[] = {
    UNETMM_FIELD(UnetmmRecvWindow, spoilt),
    UNETMM_FIELD_BOOL(UnetmmRecvWindow, landed),
    UNETMM_FIELDS(UnetmmRecvWindow, wrong, bad_keys),
};

static const UnetmmField recvwin_refused[] = {
    UNETMM_FIELD_RANGE(UnetmmRecvWindow, refused, 0, UNETMM_REL_WANT_READ),
    UNETMM_FIELD_BOOL(UnetmmRecvWindow, refuse),
};

static const UnetmmField recvwin_rejects[] = {
    UNETMM_FIELDS(UnetmmRecvWindow, why, late_why, late_psn),
};

void unetmm_recvwin_save(UnetmmStream *st, UnetmmRecvWindow *w,
                         uint64_t *unlanded, bool open)
{
    UNETMM_STREAM_FIELDS(st, w, recvwin_have);
    unetmm_stream_u64(st, unlanded, "unlanded");
    UNETMM_STREAM_FIELDS(st, w, recvwin_packets);
    if (open ? w->bad_keys >= UNETMM_REL_BAD_KEYS ||
        (w->wrong && !w->bad_keys) : w->wrong) {
        unetmm_stream_refuse(st, "a channel with so many wrong keys has ended");
    }
    if ((*unlanded | w->spoilt) & ~w->have || *unlanded & w->spoilt) {
        unetmm_stream_refuse(st, "a packet is in a slot that is not here");
    }
    UNETMM_STREAM_FIELDS(st, w, recvwin_refused);
}

/* Nothing, or a reason that a send of the peer can complete with. */
static bool recvwin_why_ok(uint8_t reason)
{
    return !reason || (reason >= UNETMM_WHY_REGION && reason < UNETMM_NUM_WHY);
}

void unetmm_recvwin_save_rejects(UnetmmStream *st, UnetmmRecvWindow *w)
{
    UNETMM_STREAM_FIELDS(st, w, recvwin_rejects);
    if (!recvwin_why_ok(w->why) || !recvwin_why_ok(w->late_why) ||
        (w->why && unetmm_recvwin_has(w, w->nxt))) {
        unetmm_stream_refuse(st, "a packet is rejected for no reason");
    }
}
