/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reliable channels: one half, over a wire that loses, doubles and reorders.
 *
 * TOTAL packets are sent.  The wire may misbehave BUDGET times; frames carry the
 * absolute number beside what the protocol knows (that modulo SEQ), to see that
 * each is taken once and in order.  A frame that is older than the numbers can
 * tell is gone: real numbers have 32 bits.
 *
 * EAGER: timers may end at any moment (safety: nothing is lost or doubled,
 * nothing gets stuck).  Without: only when nothing else can happen, and then all
 * must arrive, however the wire misbehaves (`ltl done`).
 *
 * BREAK takes a rule away, to see that the model finds out.
 */
#ifndef WINDOW
#define WINDOW 2
#endif
#ifndef TOTAL
#define TOTAL (SEQ + 1)
#endif
#ifndef BUDGET
#define BUDGET 3
#endif
#ifndef BREAK
#define BREAK 0
#endif
#define BITS (WINDOW - 1)

#include "rel-rules.pml"

#ifdef EAGER
#define QUIET true
#else
#define QUIET timeout
#endif

chan data = [WINDOW] of { byte };
chan acks = [2] of { byte, byte, byte };
byte una_abs, sent_abs, taken_abs;
byte kept_abs[SEQ];
byte budget = BUDGET;
byte refusals = 1;

inline acknowledge(kind)
{
    r_bits = 0;
    r_j = 1;
    do
    :: r_j <= BITS ->
        r_bits = r_bits | ((have[(expected + r_j) % SEQ] -> 1 : 0) << (r_j - 1));
        r_j++
    :: else -> break
    od;
    if
    :: nfull(acks) -> acks!taken_abs, r_bits, kind
    :: full(acks) -> skip
    fi
}

inline send_again(p)
{
    tx_again(p);
    data!una_abs + DIFF(p, una)
}

active proctype sender()
{
    byte cum, bits, kind, s_j, before;

    do
    :: atomic { sent_abs < TOTAL && CAN_SEND && nfull(data) ->
        data!sent_abs; sent_abs++; tx_first() }
    :: atomic { CAN_AGAIN(una) && nfull(data) -> send_again(una) }
    :: atomic { CAN_AGAIN(NEXT(una)) && nfull(data) ->
        send_again(NEXT(una)) }
    :: atomic { acks?cum, bits, kind ->
        do
        :: s_j < BITS ->
            abit[(cum + 1 + s_j) % SEQ] = (bits >> s_j) & 1;
            s_j++
        :: else -> break
        od;
        if
        :: una_abs >= cum + SEQ - WINDOW -> skip    /* too old */
        :: else ->
            before = una;
            tx_ack(cum % SEQ, kind);
            /* Nobody lies here; but some come very late. */
            assert(!refused_ack || una_abs > cum + WINDOW);
            una_abs = una_abs + DIFF(una, before)
        fi;
        assert(una_abs <= taken_abs);
        /* What is over must not tell states apart. */
        s_j = 0;
        do
        :: s_j < SEQ -> abit[s_j] = false; s_j++
        :: else -> break
        od;
        cum = 0; bits = 0; kind = 0; s_j = 0; before = 0; news = false;
        r_i = 0 }
    :: atomic { QUIET && CAN_TIME_OUT && !may[una] ->
#if BREAK != 1
        tx_timeout()
#else
        skip
#endif
        }
    :: atomic { QUIET && paused -> tx_resume() }
    :: una_abs == TOTAL -> break
    od
}

inline take(abs)
{
    assert(abs == taken_abs);
    taken_abs++;
    rx_take()
}

active proctype receiver()
{
    byte abs, r_j, r_bits;
    short p;

end:
    do
    :: atomic { data?abs ->
        p = abs % SEQ;
        if
        :: taken_abs > abs && taken_abs - abs > SEQ - WINDOW -> skip
        :: else ->
            if
            :: IS_EXPECTED(p) && refusals > 0 ->
                refusals--; refusing = true; acknowledge(ACK_NOT_READY)
            :: IS_EXPECTED(p) ->
                if
                :: have[p] -> take(kept_abs[p])
                :: else -> take(abs)
                fi;
                do
                :: have[expected] -> take(kept_abs[expected])
                :: else -> break
                od;
                acknowledge(ACK_OK)
            :: IS_EARLY(p) && !refusing && !have[p] ->
                rx_keep(p); kept_abs[p] = abs; acknowledge(ACK_OK)
            :: IS_EARLY(p) && !have[p] -> skip      /* no room to keep it */
            :: IS_AGAIN(p) || (IS_EARLY(p) && have[p]) ->
#if BREAK == 2
                if
                :: IS_AGAIN(p) -> take(abs)
                :: else -> skip
                fi;
#endif
#if BREAK != 3
                acknowledge(ACK_OK)
#else
                skip
#endif
            :: else -> skip
            fi
        fi;
        abs = 0; p = 0; r_j = 0; r_bits = 0 }
    :: atomic { refusing && nfull(acks) -> refusing = false;
        acknowledge(ACK_OK); r_j = 0; r_bits = 0 }
    od
}

/* Frames are lost, doubled, and overtaken by those behind them. */
active proctype wire()
{
    byte abs, cum, bits, kind;

end:
    do
    :: atomic { budget > 0 && nempty(data) -> budget--;
        if
        :: data?abs
        :: nfull(data) -> data?<abs>; data!abs
        :: data?abs -> data!abs
        fi;
        abs = 0 }
    :: atomic { budget > 0 && nempty(acks) -> budget--;
        if
        :: acks?cum, bits, kind
        :: nfull(acks) -> acks?<cum, bits, kind>; acks!cum, bits, kind
        :: acks?cum, bits, kind -> acks!cum, bits, kind
        fi;
        cum = 0; bits = 0; kind = 0 }
    od
}

#ifndef EAGER
ltl done { <> (una_abs == TOTAL && taken_abs == TOTAL) }
#endif
