/*
 * unetmm: fuzzing: UD channels
 *
 * Endpoints that may have a UD channel have one with the same Q_Key, so that any
 * of them reaches any other one.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef FUZZ_UD_H
#define FUZZ_UD_H

#include "fuzz.h"
#include "ud.h"

#define FUZZ_UD_KEY     0x51ce77u
#define FUZZ_UD_SCENE   13              /* endpoint of fuzz_scene.c */

/* CHANNEL_SET of an endpoint; CHANNEL_CLEAR with the flush. */
struct unetmm_cmd fuzz_ud_set(uint16_t ep);
struct unetmm_cmd fuzz_ud_flush(uint16_t ep);
/* For `remote` of SEND_TO: endpoint 0 to 6 there, or 7, the scene's. */
uint64_t fuzz_ud_address(const uint8_t *mac, unsigned ep);
/* Posts a message: to an endpoint of the card or of the peer, mostly. */
void fuzz_ud_send(FuzzCard *c, FuzzIn *in, FakeEp *ep);
/* A message from the wire, sealed, that the input may make a wrong one. */
FakeFrame *fuzz_ud_frame(FuzzIn *in, FakeEp *ep, uint32_t len);

#endif /* FUZZ_UD_H */
