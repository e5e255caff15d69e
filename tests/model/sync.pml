/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The library's semaphore: members that take tickets, give up, and are killed at any
 * step, and the home that serves, takes back, and looks for lost tickets.
 *
 * One step is one access to a word; what one write has is in one word.  All is as
 * docs/library.rst says.  Never more inside than units; in the end nobody is left
 * waiting, and all units are there.
 *
 * BREAK takes a rule away, to see that the model finds out.
 */
#ifndef MEMBERS
#define MEMBERS 2
#endif
#ifndef WAITS
#define WAITS 2
#endif
#ifndef UNITS
#define UNITS 1
#endif
#ifndef KILLS
#define KILLS 1
#endif
#ifndef IMPATIENCE
#define IMPATIENCE 1
#endif
#ifndef BREAK
#define BREAK 0
#endif

#define TICKETS (MEMBERS * WAITS)
#define GOT 0
#define WAITING 1
#define GAVE_UP 2

/* The home's words, and what it has told. */
byte tail, limit = UNITS;
byte taking[MEMBERS], given[MEMBERS];
byte op[MEMBERS], state[MEMBERS], ticket[MEMBERS];     /* one word each */
byte told[MEMBERS], acked[MEMBERS];
bool killed[MEMBERS], closed[MEMBERS], ended[MEMBERS];
byte inside;
byte impatience = IMPATIENCE;

/* What the home keeps. */
byte seen_op[MEMBERS], seen_state[MEMBERS], seen_ticket[MEMBERS];
byte seen_given[MEMBERS], gave_up[MEMBERS];
bool gone[MEMBERS], orphan[TICKETS + 1];
byte gone_ops, lost;

inline enter()
{
    inside++;
    assert(inside <= UNITS)
}

proctype member(byte me)
{
    byte waits, mine, read;
    bool holds;

    {
        do
        :: waits < WAITS ->
            waits++;
            taking[me] = waits;
            d_step { mine = tail; tail++ };
            read = limit;
            if
            :: read > mine -> atomic { enter(); holds = true }
            :: else ->
                d_step { op[me] = waits; state[me] = WAITING; ticket[me] = mine };
                if
                :: atomic { told[me] > mine -> enter(); holds = true }
                :: atomic { impatience > 0 -> impatience--;
                    state[me] = GAVE_UP };
                    acked[me] == waits
                fi
            fi;
            if
            :: holds ->
                d_step { op[me] = waits; state[me] = GOT; ticket[me] = mine };
                atomic { holds = false; inside--; given[me]++ }
            :: else -> skip
            fi;
            mine = 0; read = 0
        :: else -> break
        od;
        ended[me] = true
    } unless {
        atomic { killed[me] && !ended[me] ->
            if
            :: holds -> inside--
            :: else -> skip
            fi;
            closed[me] = true }
    }
}

/* ---- The home ---- */

inline pass_orphans()
{
    do
    :: limit < TICKETS && orphan[limit] -> orphan[limit] = false; limit++
    :: else -> break
    od
}

inline give_units()
{
    limit++;
    pass_orphans()
}

inline orphan_ticket(t)
{
    if
#if BREAK == 2
    /* Served or not, it is only forgotten. */
    :: t < limit -> skip
#else
    :: t < limit -> give_units()
#endif
    :: else -> orphan[t] = true; pass_orphans()
    fi
}

inline look_at_status(m)
{
    seen_op[m] = op[m]; seen_state[m] = state[m]; seen_ticket[m] = ticket[m];
    if
    :: seen_state[m] == GAVE_UP && acked[m] != seen_op[m] ->
        orphan_ticket(seen_ticket[m]);
        gave_up[m]++;
        acked[m] = seen_op[m]
    :: else -> skip
    fi
}

inline look(m)
{
    look_at_status(m);
    do
    :: seen_given[m] < given[m] -> seen_given[m]++; give_units()
    :: else -> break
    od
}

inline remove(m)
{
    look(m);
    units = seen_op[m] - gave_up[m] - seen_given[m] -
            (seen_state[m] == WAITING -> 1 : 0);
    do
    :: units > 0 -> units--; give_units()
    :: else -> break
    od;
    if
    :: seen_state[m] == WAITING -> orphan_ticket(seen_ticket[m])
    :: else -> skip
    fi;
    gone[m] = true;
    gone_ops = gone_ops + seen_op[m];
#if BREAK != 1
    lost = lost + (taking[m] != seen_op[m] -> 1 : 0)
#endif
}

inline is_waited_with(t)
{
    waited = false;
    k = 0;
    do
    :: k < MEMBERS ->
        waited = waited || (!gone[k] && seen_state[k] == WAITING &&
                            seen_ticket[k] == t);
        k++
    :: else -> break
    od;
    k = 0
}

inline bury_lost()
{
    units = (before - known < lost -> before - known : lost);
    gone_ops = gone_ops + units;
    lost = 0;
    j = limit;
    do
    :: units > 0 && j < before ->
        is_waited_with(j);
        if
        :: j >= limit && !orphan[j] && !waited -> orphan_ticket(j); units--
        :: else -> skip
        fi;
        j++
    :: else -> break
    od;
    do
    :: units > 0 -> units--; give_units()
    :: else -> break
    od;
    j = 0; waited = false
}

#define NEWS(m) (!gone[m] && (seen_op[m] != op[m] || seen_state[m] != state[m] || \
                              seen_given[m] != given[m]))
#define TURN(m) (!gone[m] && state[m] == WAITING && ticket[m] < limit && \
                 told[m] < limit)

#define SERVE(m) \
    :: atomic { NEWS(m) -> look(m) } \
    :: atomic { closed[m] && !gone[m] -> remove(m) } \
    :: atomic { TURN(m) -> told[m] = limit }

active proctype home()
{
    byte units, before, known, i, j, k;
    bool all, waited;

end:
    do
    SERVE(0)
    SERVE(1)
#if MEMBERS > 2
    SERVE(2)
#endif
    :: lost > 0 ->
        before = tail;
        known = gone_ops;
        all = true;
        do
        :: i < MEMBERS ->
            atomic {
                if
                :: !gone[i] ->
                    look_at_status(i);
#if BREAK != 3
                    all = all && taking[i] == seen_op[i];
#endif
                    known = known + seen_op[i]
                :: else -> skip
                fi;
                i++
            }
        :: else -> break
        od;
        atomic {
            if
            :: all && tail == before -> bury_lost()
            :: else -> skip
            fi;
            i = 0; before = 0; known = 0; all = false
        }
    od
}

active proctype killer()
{
    byte kills = KILLS;

end:
    do
    :: atomic { kills > 0 && !ended[0] && !killed[0] -> killed[0] = true;
        kills-- }
    :: atomic { kills > 0 && !ended[1] && !killed[1] -> killed[1] = true;
        kills-- }
    od
}

/* Nothing is left to be done: everybody has ended, and all units are there. */
active proctype judge()
{
    byte n;

    atomic { timeout ->
        do
        :: n < MEMBERS -> assert(ended[n] || closed[n]); n++
        :: else -> break
        od;
        assert(limit == tail + UNITS) }
}

init
{
    byte n;

    atomic {
        do
        :: n < MEMBERS -> run member(n); n++
        :: else -> break
        od
    }
}
