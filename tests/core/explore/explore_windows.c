/*
 * unetmm: the two windows of a reliable channel in every order of small things
 *
 * Scene "events": every event of the send window in every order, beside the
 * reference (windows_ref.c).  Scene "wire": the send window, the receive window
 * and a wire that loses, doubles and reorders packets and acknowledgements.
 * Both scenes go breadth first up to a depth, from each state once.
 *
 *   explore_windows [--depth N]
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "abi/unetmm_host.h"
#include "reliable/recv_window.h"
#include "reliable/send_window.h"
#include "windows_ref.h"

#define FIRST   0xfffffffeu             /* numbers wrap within three packets */
#define FRAMES  3                       /* on the wire at a time */

typedef struct Frame {
    enum { NONE, DATA, ACK, REFUSE } kind;
    uint32_t psn;
    uint64_t bits;
} Frame;

typedef struct State {
    UnetmmSendWindow tx;
    Ref ref;                            /* scene "events" */
    UnetmmRecvWindow rx;                /* scene "wire", as all below */
    Frame wire[FRAMES];
    uint32_t taken;                     /* by the receiving process */
} State;

typedef struct Scene {
    const char *name;
    unsigned depth, packets, actions;
    /* False: the action is not possible. */
    bool (*act)(State *s, unsigned action);
    /* NULL, or the rule that is broken. */
    const char *(*check)(const State *s);
} Scene;

static const Scene *scene;

static uint32_t psn(int i)
{
    return FIRST + i;
}

/* ---- Scene "events" ----------------------------------------------------- */

enum { SEND, REQUEST, RESEND, REFUSED, RESUMED, TIMED_OUT, SET_ASIDE,
       PLACE_CAME, ACKED, ANSWERED = ACKED + 16, UNPLACED = ANSWERED + 4,
       REWIND = UNPLACED + 4, VOIDED = REWIND + 4, REJECTED = VOIDED + 4,
       EVENTS = REJECTED + 4 };

static void both_acked(State *s, int cum, unsigned bits, bool news)
{
    unetmm_sendwin_acked(&s->tx, psn(cum), bits, news);
    ref_acked(&s->ref, cum, bits, news);
}

static void both_sent(State *s, int i, bool request)
{
    unetmm_sendwin_sent(&s->tx, psn(i), request);
    ref_sent(&s->ref, i, request);
}

static void both_void(State *s, int i)
{
    unetmm_sendwin_void(&s->tx, psn(i));
    unetmm_sendwin_rewound(&s->tx);
    ref_void(&s->ref, i);
    both_acked(s, s->ref.cum, 0, true);
}

/* An acknowledgement of all before cum + (n & 3), and of packets by 2 bits. */
static bool act_acked(State *s, unsigned n)
{
    int cum = s->ref.cum + (n & 3), beyond = s->ref.n - cum;
    unsigned bits = n >> 2;

    if (beyond < 0 || (beyond > 1 ? bits >> (beyond - 1) : bits)) {
        return false;
    }
    both_acked(s, cum, bits, false);
    return true;
}

/* One event of packet i, as receive.c and answer.c have it. */
static bool act_packet(State *s, unsigned event, int i)
{
    bool waits = i < s->ref.n && i >= s->ref.una && ref_waits(&s->ref, i);
    int cum = MAX(s->ref.cum, i + 1);

    switch (event) {
    case ANSWERED:
    case UNPLACED:
    case REWIND:
        if (!waits) {
            return false;
        }
        if (event == ANSWERED) {
            unetmm_sendwin_answered(&s->tx, psn(i));
            ref_answered(&s->ref, i);
        } else {
            if (event == REWIND) {
                unetmm_sendwin_rewind(&s->tx, psn(i));
                ref_rewind(&s->ref, i);
            }
            unetmm_sendwin_unplaced(&s->tx, psn(i));
            ref_unplaced(&s->ref, i);
        }
        both_acked(s, cum, 0, event == ANSWERED);
        return true;
    case VOIDED:
    case REJECTED:
        if (i < s->ref.una || i >= s->ref.n ||
            (event == VOIDED && s->ref.p[i].empty) ||
            (event == REJECTED && i < s->ref.cum && !waits)) {
            return false;
        }
        if (event == REJECTED && i >= s->ref.cum) {
            both_acked(s, i, 0, false);
        }
        if (!s->ref.p[i].empty) {
            both_void(s, i);
        }
        if (event == REJECTED) {
            unetmm_sendwin_rejected(&s->tx, psn(i));
            ref_rejected(&s->ref, i);
        }
        return true;
    default:
        return false;
    }
}

static bool act_events(State *s, unsigned action)
{
    Ref *r = &s->ref;
    int una = r->una, i = unetmm_sendwin_pick(&s->tx) - FIRST;
    bool flies = una != r->n;

    if (action >= ANSWERED) {
        return act_packet(s, action - (action - ANSWERED) % 4,
                          (action - ANSWERED) % 4);
    }
    if (action >= ACKED) {
        return act_acked(s, action - ACKED);
    }
    if (action == SEND || action == REQUEST) {
        if (r->n == (int)scene->packets || r->paused) {
            return false;
        }
        both_sent(s, r->n, action == REQUEST);
    } else if (action == RESEND) {
        if (i == r->n || r->paused) {
            return false;
        }
        both_sent(s, i, false);
    } else if (action == REFUSED) {
        both_acked(s, r->cum, 0, false);
        if (!unetmm_sendwin_can_refuse(&s->tx) || r->refusals == 2) {
            return false;
        }
        unetmm_sendwin_refused(&s->tx);
        ref_refused(r);
    } else if (action == RESUMED) {
        if (!r->paused) {
            return false;
        }
        unetmm_sendwin_resumed(&s->tx);
        ref_resumed(r);
    } else if (action == TIMED_OUT) {
        if (!flies || r->paused || r->p[una].lost || r->retries == 2) {
            return false;
        }
        unetmm_sendwin_timed_out(&s->tx);
        ref_timed_out(r);
    } else if (action == SET_ASIDE) {
        if (r->cum == r->n) {
            return false;
        }
        both_acked(s, r->cum, 0, false);
        unetmm_sendwin_set_aside(&s->tx);
        ref_set_aside(r);
    } else {
        unetmm_sendwin_place_came(&s->tx);
        ref_place_came(r);
    }
    return true;
}

static const char *check_events(const State *s)
{
    const UnetmmSendWindow *w = &s->tx;
    const Ref *r = &s->ref;

    if (!unetmm_sendwin_ok(w, true)) {
        return "the window contradicts itself";
    }
    if (w->una != psn(r->una) || w->cum != psn(r->cum) ||
        w->nxt != psn(r->n)) {
        return "una, cum or nxt";
    }
    if (w->retries != (uint32_t)r->retries || w->paused != r->paused ||
        w->refusals != (uint32_t)r->refusals || w->again != r->again ||
        w->aside != r->aside || w->probe != r->probe ||
        w->rewinding != (r->rewind >= 0) ||
        (w->rewinding && w->rewind_psn != psn(r->rewind))) {
        return "retries, refusals, paused, again, aside, probe or rewinding";
    }
    for (int i = r->una; i < r->n; i++) {
        uint64_t bit = unetmm_rel_bit(psn(i));
        const RefPacket *p = &r->p[i];

        if (!(w->acked & bit) == p->has || !(w->lost & bit) == p->lost ||
            !(w->pending & bit) == ref_waits(r, i) ||
            !(w->unplaced & bit) == p->unplaced ||
            !(w->voids & bit) == p->empty) {
            return "acked, lost, pending, unplaced or voids";
        }
    }
    return NULL;
}

/* ---- Scene "wire" ------------------------------------------------------- */

enum { NEW, AGAIN, TIMEOUT, READY, DELIVER, DOUBLE = DELIVER + FRAMES,
       REFUSAL = DOUBLE + FRAMES, LOSE = REFUSAL + FRAMES,
       MOVES = LOSE + FRAMES };

static bool wire_put(State *s, Frame f)
{
    for (int i = 0; i < FRAMES; i++) {
        if (!s->wire[i].kind) {
            s->wire[i] = f;
            return true;
        }
    }
    return false;
}

/* The receiver's acknowledgement; it is lost if the wire is full. */
static void wire_ack(State *s)
{
    wire_put(s, (Frame) { .kind = s->rx.refuse ? REFUSE : ACK,
                          .psn = s->rx.nxt,
                          .bits = unetmm_recvwin_bits(&s->rx) });
    unetmm_recvwin_told_refusal(&s->rx);
}

static void wire_take(State *s)
{
    unetmm_recvwin_taken(&s->rx);
    s->taken++;
}

static void wire_data(State *s, uint32_t n, bool refuses)
{
    if (unetmm_recvwin_again(&s->rx, n)) {
        /* It is acknowledged once more. */
    } else if (n != s->rx.nxt) {
        if (!s->rx.refused) {
            unetmm_recvwin_kept(&s->rx, n);
        }
    } else if (refuses) {
        unetmm_recvwin_refused(&s->rx, UNETMM_REL_WANT_PAGE);
        unetmm_recvwin_tell_refusal(&s->rx);
    } else {
        if (!unetmm_recvwin_has(&s->rx, n)) {
            wire_take(s);
        }
        while (unetmm_recvwin_has(&s->rx, s->rx.nxt)) {
            wire_take(s);
        }
    }
    wire_ack(s);
}

static void wire_heard(State *s, const Frame *f)
{
    if (unetmm_rel_before(f->psn, s->tx.cum)) {
        return;
    }
    unetmm_sendwin_acked(&s->tx, f->psn, f->bits, false);
    if (f->kind == REFUSE && unetmm_sendwin_can_refuse(&s->tx)) {
        unetmm_sendwin_refused(&s->tx);
    } else if (f->kind == ACK && s->tx.paused) {
        unetmm_sendwin_resumed(&s->tx);
    }
}

static bool wire_frame(State *s, unsigned how, unsigned i)
{
    Frame f = s->wire[i];

    if (!f.kind || (how == REFUSAL && (f.kind != DATA || f.psn != s->rx.nxt ||
                                       unetmm_recvwin_has(&s->rx, f.psn)))) {
        return false;
    }
    if (how != DOUBLE) {
        s->wire[i].kind = NONE;
        memset(&s->wire[i], 0, sizeof(f));
    }
    if (how != LOSE && f.kind == DATA) {
        wire_data(s, f.psn, how == REFUSAL);
    } else if (how != LOSE) {
        wire_heard(s, &f);
    }
    return true;
}

static bool act_wire(State *s, unsigned action)
{
    UnetmmSendWindow *w = &s->tx;
    uint32_t n = action == NEW ? w->nxt : unetmm_sendwin_pick(w);

    if (action >= DELIVER) {
        return wire_frame(s, action - (action - DELIVER) % FRAMES,
                          (action - DELIVER) % FRAMES);
    }
    if (action == NEW || action == AGAIN) {
        if (w->paused || (action == AGAIN) == (n == w->nxt) ||
            n - FIRST == scene->packets ||
            !wire_put(s, (Frame) { .kind = DATA, .psn = n })) {
            return false;
        }
        unetmm_sendwin_sent(w, n, false);
    } else if (action == READY) {
        if (!s->rx.refused) {
            return false;
        }
        unetmm_recvwin_ready(&s->rx);
        wire_ack(s);
    } else if (w->paused) {
        unetmm_sendwin_resumed(w);
    } else if (w->una == w->nxt || w->lost & unetmm_rel_bit(w->una) ||
               w->retries == 2) {
        return false;
    } else {
        unetmm_sendwin_timed_out(w);
    }
    return true;
}

static const char *check_wire(const State *s)
{
    if (!unetmm_sendwin_ok(&s->tx, true)) {
        return "the window contradicts itself";
    }
    if (s->rx.nxt - FIRST != s->taken || s->taken > s->tx.nxt - FIRST) {
        return "a packet was taken twice, or was never sent";
    }
    if (s->tx.cum - FIRST > s->taken) {
        return "a packet is over that was never taken";
    }
    for (uint32_t n = s->tx.cum; n != s->tx.nxt; n++) {
        if (s->tx.acked & unetmm_rel_bit(n) &&
            !unetmm_recvwin_again(&s->rx, n) &&
            !unetmm_recvwin_has(&s->rx, n)) {
            return "a packet counts as kept that is not";
        }
    }
    return NULL;
}

/* On a wire that loses nothing all packets are taken, in a few steps. */
static bool ends_well(const State *from)
{
    State s = *from;

    for (unsigned step = 0; step < 200; step++) {
        if (s.taken == scene->packets && s.tx.una == s.tx.nxt) {
            return true;
        }
        if (!act_wire(&s, DELIVER) && !act_wire(&s, DELIVER + 1) &&
            !act_wire(&s, DELIVER + 2) && !act_wire(&s, AGAIN) &&
            !act_wire(&s, NEW) && !act_wire(&s, READY)) {
            s.tx.retries = 0;
            act_wire(&s, TIMEOUT);
        }
    }
    return false;
}

/* ---- The search --------------------------------------------------------- */

static const Scene scenes[] = {
    { "events", 7, 3, EVENTS, act_events, check_events },
    { "wire", 9, 3, MOVES, act_wire, check_wire },
};

static bool explore(unsigned depth)
{
    g_autoptr(GHashTable) seen = g_hash_table_new_full(
        g_bytes_hash, g_bytes_equal, (GDestroyNotify)g_bytes_unref, g_free);
    g_autoptr(GPtrArray) now = g_ptr_array_new();
    State *first = g_new0(State, 1);
    GBytes *key = g_bytes_new_take(first, sizeof(*first));

    unetmm_sendwin_begin(&first->tx, FIRST, 0);
    unetmm_recvwin_begin(&first->rx, FIRST);
    first->ref.rewind = -1;
    g_hash_table_insert(seen, key, g_strdup(""));
    g_ptr_array_add(now, key);
    for (unsigned d = 0; d < depth && now->len; d++) {
        GPtrArray *next = g_ptr_array_new();

        for (guint i = 0; i < now->len; i++) {
            const char *way = g_hash_table_lookup(seen, now->pdata[i]);

            for (unsigned action = 0; action < scene->actions; action++) {
                State s = *(const State *)g_bytes_get_data(now->pdata[i], NULL);
                const char *wrong;

                if (!scene->act(&s, action)) {
                    continue;
                }
                wrong = scene->check(&s);
                if (!wrong && scene->act == act_wire && !ends_well(&s)) {
                    wrong = "it never ends";
                }
                if (wrong) {
                    printf("not ok - %s, after%s %u: %s\n", scene->name, way,
                           action, wrong);
                    g_ptr_array_unref(next);
                    return false;
                }
                key = g_bytes_new(&s, sizeof(s));
                if (g_hash_table_contains(seen, key)) {
                    g_bytes_unref(key);
                    continue;
                }
                g_hash_table_insert(seen, key,
                                    g_strdup_printf("%s %u", way, action));
                g_ptr_array_add(next, key);
            }
        }
        g_ptr_array_unref(now);
        now = next;
    }
    printf("ok - %s: %u states, depth %u\n", scene->name,
           g_hash_table_size(seen), depth);
    return true;
}

int main(int argc, char **argv)
{
    int more = getenv("UNETMM_LONG") ? 2 : 0;
    bool good = true;

    if (argc == 3 && !strcmp(argv[1], "--depth")) {
        more = atoi(argv[2]) - (int)scenes[0].depth;
    } else if (argc != 1) {
        fprintf(stderr, "usage: explore_windows [--depth N]\n");
        return 2;
    }
    printf("1..%zu\n", G_N_ELEMENTS(scenes));
    for (unsigned i = 0; i < G_N_ELEMENTS(scenes); i++) {
        scene = &scenes[i];
        good = explore(scene->depth + more) && good;
    }
    return !good;
}
