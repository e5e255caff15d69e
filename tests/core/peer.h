/*
 * unetmm: the other end of a reliable channel, packet by packet
 *
 * Endpoint a has a reliable channel to the peer on the wire, number PEER_CH
 * there as here.  Packets that the card sends are numbered from PEER_MY, those
 * that it expects from PEER_YOURS.  a exports region PEER_REGION and imports
 * the peer's region PEER_FAR.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef PEER_H
#define PEER_H

#include "fixture.h"

#define PEER_PAGE(n)    (FIX_VA + (uint64_t)(n) * FAKE_PAGE)
#define PEER_CH         5
#define PEER_EP         11
#define PEER_MTU        1000
#define PEER_MY         0xfffffff0u     /* so that all tests pass the wrap */
#define PEER_YOURS      0x7ffffff8u
#define PEER_US         1000

#define PEER_REGION     3
#define PEER_KEY        0xc0ffee11u
#define PEER_AT         (PEER_PAGE(20) + 104)
#define PEER_LENGTH     10000
#define PEER_IMPORT     2
#define PEER_FAR        77
#define PEER_FAR_KEY    0xfade0009u
#define PEER_FAR_LENGTH 100000

/* A frame that the card has sent. */
typedef struct PeerFrame {
    struct unetmm_frame h;
    uint8_t data[PEER_MTU];
} PeerFrame;

/* Channel, region (all rights, notifying) and import (all rights). */
void peer_open(Fix *f);
/* The oldest frame that the card has sent; then it is forgotten. */
PeerFrame peer_take(Fix *f);
void peer_silence(Fix *f);
/* The next frame is this packet.  Returns it. */
PeerFrame peer_expect(Fix *f, uint8_t opcode, uint32_t psn);
void peer_expect_ack(Fix *f, uint32_t psn, uint64_t bits, uint32_t what,
                     uint32_t arg);
/* From the peer; dst, src, len and checksums follow. */
void peer_give(Fix *f, struct unetmm_frame h, const void *data, uint32_t len);
void peer_ack(Fix *f, uint32_t psn, uint64_t bits);
void peer_ack_as(Fix *f, uint32_t psn, uint64_t bits, uint32_t what,
                 uint32_t arg);
void peer_void(Fix *f, uint32_t psn, uint32_t flags);
/* Posts a one-sided descriptor on a, with a doorbell. */
void peer_post(Fix *f, struct unetmm_sqe sqe);
/* A segment of a at page n. */
struct unetmm_sqe peer_sqe(uint8_t opcode, unsigned page, uint32_t len,
                           uint64_t offset, uint64_t cookie);

#endif /* PEER_H */
