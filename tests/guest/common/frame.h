/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Raw endpoints for tests: addresses of their own, and frames whose every byte
 * says which one it is.
 */
#ifndef TEST_FRAME_H
#define TEST_FRAME_H

#include "link.h"

#define FRAME_TYPE      0x88b6          /* for experiments; not the card's own */
#define FRAME_HEAD      (UNETMM_ETH_HEADER + 4)

/* Address number n of this test's process, nobody else's. */
void frame_mac(unsigned n, uint8_t mac[6]);

struct unetmm_ep_attr raw_attr(unsigned policy, uint32_t backup);

int flow_add(struct station *station, uint32_t kind, uint32_t flags,
             uint16_t value, const uint8_t *mac);

/* A raw endpoint that sends and receives with address n. */
void raw_station(struct station *station, struct unetmm_ctx *ctx,
                 const struct unetmm_ep_attr *attr, unsigned n);

/* Fills a frame of `len` bytes, FRAME_HEAD at least, with its number in it. */
void frame_fill(uint8_t *frame, size_t len, unsigned to, unsigned from,
                uint32_t number);
uint32_t frame_number(const uint8_t *frame);
/* Fails unless all of it is as frame_fill() has made it. */
void frame_check(const uint8_t *frame, size_t len, unsigned to, unsigned from,
                 uint32_t number);

/* Sends one and takes its completion; returns that one's status. */
unsigned frame_send(struct station *station, const void *frame, size_t len,
                    uint32_t offload);

/* The sum of an endpoint's drops in receiving. */
uint64_t station_drops(const struct station *station);

#endif /* TEST_FRAME_H */
