/*
 * unetmm: fuzzing: a card with an endpoint of each kind
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef FUZZ_SCENE_H
#define FUZZ_SCENE_H

#include "fuzz_ud.h"

#define SCENE_EPS       14              /* 0 sends control messages ... */
#define SCENE_RELS      8               /* ... 1.. have reliable channels */
#define SCENE_BACKUP    9               /* policy backup, datagrams */
#define SCENE_RAW       10              /* the first raw endpoint */
#define SCENE_UD        FUZZ_UD_SCENE   /* with no other channel */
#define SCENE_SPACES    6               /* spaces 1.., one of each source */
#define SCENE_PAIR      3               /* channel to the neighbour ... */
#define SCENE_REL       4               /* ... and to the peer, reliable */
#define SCENE_KEY       0x5ec4e7u
#define SCENE_LENGTH    20000           /* of each region, which is whole */
#define SCENE_AT        (FIX_VA + 100)
#define SCENE_MTU       1000
#define SCENE_PSN       0xfffffff8u     /* about to wrap */
#define SCENE_MAC(n)    { 0x02, 0, 0, 0, 0, (n) }
#define SCENE_UDS       3               /* endpoints with a UD channel */

extern FakeEp scene_eps[SCENE_EPS];
extern const uint8_t scene_uds[SCENE_UDS];
extern uint64_t scene_list;             /* a page that card and driver write */

/* More objects than the usual card has. */
void fuzz_scene_params(UnetmmParams *p);
void fuzz_scene_start(FuzzCard *c);
/* The commands that make endpoint i and its objects. */
struct unetmm_cmd fuzz_scene_ep(unsigned i);
struct unetmm_cmd fuzz_scene_channel(FuzzCard *c, unsigned i, bool wire);
struct unetmm_cmd fuzz_scene_region(unsigned i);
struct unetmm_cmd fuzz_scene_import(unsigned i, unsigned import);
struct unetmm_cmd fuzz_scene_flow(unsigned i, uint8_t kind);
/* The reliable channel of endpoint i to the peer, if it has it. */
const UnetmmRel *fuzz_scene_rel(const FuzzCard *c, unsigned i);

#endif /* FUZZ_SCENE_H */
