/*
 * unetmm: TLB simulation: 32 processes with a socket each on one computer
 *
 * telnet, rlogin, ftp and X clients in equal parts, each with a peer elsewhere
 * that answers.  Sessions begin one after another, some at a time.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <stdio.h>
#include "sim.h"

#define SESSIONS    32
#define STEPS       500                 /* exchanges of a session */
#define SEND_BYTES  4096                /* a write of ftp, at most */
#define X_BUFFER    16384               /* an X client collects requests */

typedef enum Kind { TELNET, RLOGIN, FTP, X11, KINDS } Kind;

typedef struct Session {
    SimProc *me;
    SimProc peer;
    Kind kind;
    uint32_t steps;
    uint64_t out, peer_out;             /* send buffers */
    uint32_t ring;                      /* telnet: how far in its ring */
} Session;

/* To the peer; the bytes that arrive there are the sent ones. */
static void session_send(Session *s, uint64_t addr, uint32_t bytes)
{
    uint64_t at = sim_message(s->me, &s->peer, addr, bytes);

    SIM_CHECK(!memcmp(sim_ptr(&s->peer, at, bytes),
                      sim_ptr(s->me, addr, bytes), bytes));
}

static void session_reply(Session *s, uint32_t bytes)
{
    uint8_t *out = sim_ptr(&s->peer, s->peer_out, bytes);
    uint64_t at;

    for (uint32_t i = 0; i < bytes; i += 61) {
        out[i] = sim_random(s->me->sim);
    }
    at = sim_message(&s->peer, s->me, s->peer_out, bytes);
    SIM_CHECK(!memcmp(sim_ptr(s->me, at, bytes), out, bytes));
}

/* A key and its echo; at times the output of a command. */
static void session_type(Session *s)
{
    Sim *sim = s->me->sim;
    uint64_t at = s->out;

    if (s->kind == TELNET) {            /* it has a ring, rlogin a variable */
        at += s->ring++ % 2048;
    }
    *(uint8_t *)sim_ptr(s->me, at, 1) = sim_random(sim);
    session_send(s, at, 1);
    session_reply(s, 1);
    if (sim_random(sim) % 8 == 0) {
        uint32_t left = 60 * (1 + sim_random(sim) % 40);

        while (left) {
            uint32_t n = MIN(left, 1024);

            session_reply(s, n);
            left -= n;
        }
    }
}

/* A command, its answer, and now and then a file in either direction. */
static void session_ftp(Session *s)
{
    Sim *sim = s->me->sim;
    uint32_t pieces;

    session_send(s, s->out, 5 + sim_random(sim) % 40);
    session_reply(s, 30 + sim_random(sim) % 50);
    if (sim_random(sim) % 16) {
        return;
    }
    pieces = 1 + sim_random(sim) % 32;
    if (sim_random(sim) % 2) {
        while (pieces--) {
            session_reply(s, SEND_BYTES);
        }
    } else {
        while (pieces--) {
            session_send(s, s->out + SEND_BYTES, SEND_BYTES);
        }
    }
}

/* The buffer of requests is flushed; events come. */
static void session_x(Session *s)
{
    Sim *sim = s->me->sim;
    uint32_t bytes = 32 + sim_random(sim) % 2000;

    if (sim_random(sim) % 32 == 0) {
        bytes = X_BUFFER;               /* an image */
    }
    for (uint32_t done = 0; done < bytes; done += SEND_BYTES) {
        session_send(s, s->out + done, MIN(bytes - done, SEND_BYTES));
    }
    session_reply(s, 32 * (1 + sim_random(sim) % 4));
}

static void session_step(Session *s)
{
    switch (s->kind) {
    case TELNET:
    case RLOGIN:
        session_type(s);
        break;
    case FTP:
        session_ftp(s);
        break;
    default:
        session_x(s);
    }
    s->steps++;
}

static void sessions_run(Sim *sim, Session *sessions)
{
    uint32_t live[SESSIONS], nlive = 0, begun = 0;

    while (begun < SESSIONS || nlive) {
        uint32_t n;

        while (nlive < sim->config.active && begun < SESSIONS) {
            live[nlive++] = begun++;
        }
        n = sim_random(sim) % nlive;
        session_step(&sessions[live[n]]);
        if (sessions[live[n]].steps == STEPS) {
            live[n] = live[--nlive];
        }
    }
}

void sim_sockets(Sim *sim)
{
    Session *sessions = g_new0(Session, SESSIONS);

    SIM_CHECK(sim->nprocs == SESSIONS && sim->ncomputers == 1);
    SIM_CHECK(sim->config.active >= 1 && sim->config.active <= SESSIONS);
    for (uint32_t i = 0; i < SESSIONS; i++) {
        Session *s = &sessions[i];

        s->me = &sim->procs[i];
        s->kind = i % KINDS;
        s->out = sim_alloc(s->me, X_BUFFER);
        sim_proc_init(sim, &s->peer, NULL, 0);
        s->peer_out = sim_alloc(&s->peer, X_BUFFER);
    }
    sessions_run(sim, sessions);
    for (uint32_t i = 0; i < SESSIONS; i++) {
        g_free(sessions[i].peer.mem);
    }
    g_free(sessions);
}
