/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How a thread that sleeps on an endpoint is woken: by a completion, or by an event
 * counter that has a handler there.
 *
 * The card: a completion, then the word that arms the queue, which it obeys once; an
 * increment, together with what the counter is armed with.  What it owes goes into the
 * notification ring if there is room, and the interrupt is sent at once or, moderated,
 * at any later moment.  The driver: takes records, signals the eventfd, gives the ring
 * back; an interrupt that comes meanwhile is taken afterwards.  The library: takes all
 * there is, arms, looks again, and blocks until the eventfd has been signalled.
 *
 * In the end the thread has taken everything.  BREAK takes a rule away.
 */
#ifndef COMPLETIONS
#define COMPLETIONS 2
#endif
#ifndef INCREMENTS
#define INCREMENTS 2
#endif
#ifndef RING
#define RING 1
#endif
#ifndef BREAK
#define BREAK 0
#endif

#define NOBODY 15

byte cq_prod, counter;                  /* in memory that the thread can read */
byte cq_arm = NOBODY;                   /* completions seen; written by the thread */
byte arm_done = NOBODY;                 /* the word that the card has obeyed */
byte counter_arm = NOBODY;              /* the card's: the value that is waited for */
bool owe_cq, owe_counter;
byte prod, cons;                        /* of the notification ring */
bool pending;                           /* the interrupt waits for its time */
bool irr;                               /* sent, and not taken yet */
bool eventfd;
bool ended;

/* The engine leaves: what is owed goes into the ring as far as there is room. */
inline flush()
{
    d_step {
        if
        :: owe_cq && prod - cons < RING -> owe_cq = false; prod++; pending = true
        :: else -> skip
        fi;
        if
        :: owe_counter && prod - cons < RING -> owe_counter = false; prod++;
            pending = true
        :: else -> skip
        fi
    }
}

inline look_at_arm()
{
    if
    :: cq_arm != NOBODY && cq_prod > cq_arm && arm_done != cq_arm ->
        arm_done = cq_arm;
        owe_cq = true
    :: else -> skip
    fi
}

active proctype card()
{
    byte completions = COMPLETIONS, increments = INCREMENTS;

    do
#if BREAK == 1
    /* The word is read before the completion is written. */
    :: completions > 0 -> completions--;
        d_step { look_at_arm() }; cq_prod++; atomic { flush() }
#else
    :: completions > 0 -> completions--; cq_prod++;
        atomic { look_at_arm(); flush() }
#endif
    :: increments > 0 -> increments--;
        atomic {
            counter++;
            if
            :: counter_arm != NOBODY && counter >= counter_arm ->
                counter_arm = NOBODY;
                owe_counter = true
            :: else -> skip
            fi;
            flush()
        }
    :: completions == 0 && increments == 0 -> break
    od
}

/* The message is sent now, or when its moderation has run out. */
active proctype moderation()
{
end:
    do
    :: atomic { pending -> pending = false; irr = true }
    od
}

active proctype driver()
{
    byte index;

end:
    do
    :: atomic { irr -> irr = false };
        do
        :: atomic { index < prod -> index++; eventfd = true }
        :: index == prod -> break
        od;
        /* The register: the card enters and leaves. */
        atomic {
            cons = index;
#if BREAK == 2
            /* What has been added behind the last look raised its interrupt then. */
            irr = false;
#endif
#if BREAK != 3
            flush()
#endif
        }
    od
}

active proctype thread()
{
    byte taken, seen;
    bool there;

    do
    :: taken == COMPLETIONS && seen == INCREMENTS -> break
    :: else ->
        /* What there is. */
        taken = cq_prod;
        seen = counter;
        if
        :: taken == COMPLETIONS && seen == INCREMENTS -> skip
        :: else ->
#if BREAK == 4
            there = cq_prod != taken;
            cq_arm = taken;
#else
            cq_arm = taken;
            there = cq_prod != taken;
#endif
            if
            :: there -> skip
            :: else ->
                /* A command: it arms, or says that it has been reached. */
                atomic {
#if BREAK == 5
                    counter_arm = seen + 1
#else
                    if
                    :: counter > seen -> there = true; counter_arm = NOBODY
                    :: else -> counter_arm = seen + 1
                    fi
#endif
                }
            fi;
            if
            :: there -> skip
            :: else ->
                atomic { eventfd -> eventfd = false }
            fi;
            there = false
        fi
    od;
    ended = true
}

active proctype judge()
{
    atomic { timeout -> assert(ended) }
}
