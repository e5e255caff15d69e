/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reliable channels: requests, answers, and what takes the place of what was
 * rejected, over a wire that loses, doubles and reorders.
 *
 * Each message is one packet: even numbers are writes, odd ones atomics, which
 * are executed once and answered from their result afterwards.  The receiver may
 * reject REJECTS packets at their turn: then only a VOID with that number is
 * taken.  Numbers are absolute, packets before their turn are dropped: both are
 * rel.pml's.  An atomic that ended well was executed, one that ended in an error
 * was not and never is.
 *
 * EAGER: timers may end at any moment (safety).  Without: only when nothing else
 * can happen, and then all must end (`ltl done`).
 *
 * BREAK takes a rule away, to see that the model finds out.
 */
#ifndef WINDOW
#define WINDOW 2
#endif
#ifndef TOTAL
#define TOTAL 4
#endif
#ifndef BUDGET
#define BUDGET 2
#endif
#ifndef REJECTS
#define REJECTS 1
#endif
#ifndef BREAK
#define BREAK 0
#endif

#ifdef EAGER
#define QUIET true
#else
#define QUIET timeout
#endif

#define WRITE 0
#define ATOMIC 1
#define VOID 2
#define ACK 0
#define REJECTED 1
#define ANSWER 2
#define KIND(p) ((p) % 2)
#define FLYING(p) ((p) >= una && (p) < nxt)

chan data = [WINDOW] of { byte, byte };         /* number, kind */
chan back = [2] of { byte, byte };              /* what, number */

byte una, cum, nxt;
bool pending[TOTAL], voided[TOTAL];
byte expected;
byte executed[TOTAL];
bool rejecting;
byte rejects = REJECTS;
byte budget = BUDGET;

inline tell(what, p)
{
    if
    :: nfull(back) -> back!what, p
    :: full(back) -> skip
    fi
}

inline step_on()
{
    do
    :: una < cum && !pending[una] ->
        assert(KIND(una) == WRITE ||
               (voided[una] -> executed[una] == 0 : executed[una] == 1));
        una++
    :: else -> break
    od
}

active proctype sender()
{
    byte what, p;

    do
    :: atomic { nxt < TOTAL && nxt - una < WINDOW && nfull(data) ->
        pending[nxt] = KIND(nxt) == ATOMIC;
        data!nxt, KIND(nxt);
        nxt++ }
    :: atomic { QUIET && una < nxt && nfull(data) ->
#if BREAK != 1
        data!una, (voided[una] -> VOID : KIND(una))
#else
        skip
#endif
        }
    :: atomic { back?what, p ->
        if
        :: what == ACK && p > cum ->
            cum = p
        :: what == REJECTED && FLYING(p) && (p >= cum || pending[p]) ->
            cum = (p > cum -> p : cum);
            voided[p] = true;
            pending[p] = false
        :: what == ANSWER && FLYING(p) && pending[p] ->
            pending[p] = false;
            cum = (p + 1 > cum -> p + 1 : cum)
        :: else -> skip
        fi;
        assert(cum <= expected && cum <= nxt);
#if BREAK == 2
        /* What was acknowledged is over, answered or not. */
        do
        :: una < cum -> assert(KIND(una) == WRITE || !pending[una]); una++
        :: else -> break
        od;
#else
        step_on();
#endif
        what = 0; p = 0 }
    :: una == TOTAL -> break
    od
}

inline take(p, kind)
{
    if
    :: kind == ATOMIC -> executed[p]++; assert(executed[p] == 1)
    :: else -> skip
    fi;
    expected++;
    rejecting = false;
    if
    :: kind == ATOMIC -> tell(ANSWER, p)
    :: else -> tell(ACK, expected)
    fi
}

active proctype receiver()
{
    byte p, kind;

end:
    do
    :: atomic { data?p, kind ->
        if
        :: p < expected && kind == ATOMIC && executed[p] > 0 ->
#if BREAK != 3
            tell(ANSWER, p)
#else
            executed[p]++;
            assert(executed[p] == 1)
#endif
        :: p < expected && !(kind == ATOMIC && executed[p] > 0) ->
            tell(ACK, expected)
#if BREAK != 4
        :: p == expected && rejecting && kind != VOID -> tell(REJECTED, p)
        :: p == expected && !rejecting && kind != VOID && rejects > 0 ->
            rejects--; rejecting = true; tell(REJECTED, p)
        :: p == expected && (!rejecting || kind == VOID) -> take(p, kind)
#else
        /* A rejection is forgotten: what comes late may be executed. */
        :: p == expected && kind != VOID && rejects > 0 ->
            rejects--; tell(REJECTED, p)
        :: p == expected -> take(p, kind)
#endif
        :: p > expected -> tell(ACK, expected)
        fi;
        p = 0; kind = 0 }
    od
}

/* Frames are lost, doubled, and overtaken by those behind them. */
active proctype wire()
{
    byte a, b;

end:
    do
    :: atomic { budget > 0 && nempty(data) -> budget--;
        if
        :: data?a, b
        :: nfull(data) -> data?<a, b>; data!a, b
        :: data?a, b -> data!a, b
        fi;
        a = 0; b = 0 }
    :: atomic { budget > 0 && nempty(back) -> budget--;
        if
        :: back?a, b
        :: nfull(back) -> back?<a, b>; back!a, b
        :: back?a, b -> back!a, b
        fi;
        a = 0; b = 0 }
    od
}

#ifndef EAGER
ltl done { <> (una == TOTAL) }
#endif
