/*
 * unetmm: the windows of a reliable channel, packet by packet: the reference
 *
 * Packets are numbered from 0 here, and each one has a record of its own.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef WINDOWS_REF_H
#define WINDOWS_REF_H

#include <stdbool.h>
#include <stdint.h>

#define REF_PACKETS 5

typedef struct RefPacket {
    bool request, answered;     /* a request waits for its answer */
    bool has;                   /* the peer has it, as it said last */
    bool lost, unplaced, empty; /* empty: only its number is sent */
    int at;                     /* when it was sent last */
} RefPacket;

/* The sender's side. */
typedef struct Ref {
    RefPacket p[REF_PACKETS];
    int una, n, cum;            /* not over; sent; taken by the peer in order */
    int clock, heard, told;     /* the latest: sent, acknowledged, answered */
    int retries, refusals;
    bool again, paused, aside, probe;
    int rewind;                 /* -1: no answer is out of turn */
} Ref;

bool ref_waits(const Ref *r, int i);
void ref_sent(Ref *r, int i, bool request);
void ref_acked(Ref *r, int cum, unsigned bits, bool news);
void ref_set_aside(Ref *r);
void ref_refused(Ref *r);
void ref_resumed(Ref *r);
void ref_rejected(Ref *r, int i);
void ref_void(Ref *r, int i);
void ref_answered(Ref *r, int i);
void ref_unplaced(Ref *r, int i);
void ref_rewind(Ref *r, int i);
void ref_place_came(Ref *r);
void ref_timed_out(Ref *r);

#endif /* WINDOWS_REF_H */
