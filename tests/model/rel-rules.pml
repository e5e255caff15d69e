/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reliable channels: the rules of one half, for the model (rel.pml) and for
 * traces of the card (rel-trace.py).
 *
 * WINDOW packets may be on their way; numbers are modulo SEQ.  What the card does
 * when it has a choice (which packet it takes for lost, whether it has a buffer,
 * or room to keep a packet) is left open here: `may` says what it may send again.
 */
#ifndef SEQ
#define SEQ (4 * WINDOW)
#endif
#define DIFF(a, b) (((a) + SEQ - (b)) % SEQ)
#define NEXT(a) (((a) + 1) % SEQ)

#define ACK_OK 0
#define ACK_NOT_READY 1

/* ---- The sender ---- */

short una, nxt;
bool acked[SEQ], may[SEQ];
bool paused, probing;
/*
 * A packet is chosen before its bytes are gathered.  The one that was being
 * gathered when a refusal came still goes out, before any other.
 */
bool chosen;

#define FLYING(p) (DIFF(p, una) < DIFF(nxt, una))
#define CAN_SEND (((!paused && !probing) || chosen) && DIFF(nxt, una) < WINDOW)
#define CAN_AGAIN(p) (FLYING(p) && may[p] && !acked[p] && \
                      ((!paused && (!probing || (p) == una)) || chosen))
#define CAN_TIME_OUT (!paused && una != nxt)

inline tx_first()
{
    acked[nxt] = false;
    may[nxt] = false;
    chosen = false;
    nxt = NEXT(nxt)
}

inline tx_again(p)
{
    chosen = false;
    may[p] = false
}

inline tx_timeout()
{
    may[una] = true
}

inline tx_resume()
{
    paused = false;
    may[una] = true
}

/*
 * An acknowledgement: `cum`, the bits in abit[], its kind.  What is older than
 * the last one is ignored; what speaks of packets that were not sent is refused.
 */
bool abit[SEQ];
bool refused_ack, news;
short r_i;

inline tx_ack(cum, kind)
{
    news = false;
    refused_ack = false;
    if
    :: DIFF(una, cum) >= 1 && DIFF(una, cum) <= WINDOW && !FLYING(cum) &&
       cum != nxt -> skip
    :: else ->
        refused_ack = DIFF(cum, una) > DIFF(nxt, una);
        r_i = 1;
        do
        :: r_i < WINDOW ->
            if
            :: abit[(cum + r_i) % SEQ] && r_i >= DIFF(nxt, cum) ->
                refused_ack = true
            :: else -> skip
            fi;
            r_i++
        :: else -> break
        od;
        if
        :: !refused_ack -> tx_believe(cum, kind)
        :: else -> skip
        fi
    fi
}

inline tx_believe(cum, kind)
{
    news = una != cum;
    if
    :: news -> probing = false; paused = false; chosen = false
    :: else -> skip
    fi;
    do
    :: una != cum -> acked[una] = false; may[una] = false; una = NEXT(una)
    :: else -> break
    od;
    r_i = 1;
    do
    :: r_i < WINDOW ->
        if
        :: abit[(cum + r_i) % SEQ] && !acked[(cum + r_i) % SEQ] ->
            news = true;
            acked[(cum + r_i) % SEQ] = true
        :: else -> skip
        fi;
        r_i++
    :: else -> break
    od;
    acked[una] = false;
    r_i = una;
    do
    :: r_i != nxt ->
        may[r_i] = !acked[r_i] && (may[r_i] || news);
        r_i = NEXT(r_i)
    :: else -> break
    od;
    if
    :: kind == ACK_NOT_READY && una != nxt && !paused &&
       !(probing && may[una]) ->
        chosen = chosen || !probing;
        paused = true;
        probing = true
    :: kind == ACK_OK && paused -> tx_resume()
    :: else -> skip
    fi
}

/* ---- The receiver ---- */

short expected;
bool have[SEQ];
bool refusing;                  /* the packet expected came, in vain */

#define IS_AGAIN(p) (DIFF(expected, p) >= 1 && DIFF(expected, p) <= WINDOW)
#define IS_EXPECTED(p) ((p) == expected)
#define IS_EARLY(p) (DIFF(p, expected) >= 1 && DIFF(p, expected) < WINDOW)

inline rx_take()
{
    have[expected] = false;
    expected = NEXT(expected);
    refusing = false
}

inline rx_keep(p)
{
    have[p] = true
}
