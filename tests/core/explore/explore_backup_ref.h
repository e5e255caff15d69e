/*
 * unetmm: the backup ring, as the paper has it
 *
 * Written from the prose of NPF's section on Ethernet alone, with its names:
 * size, tail, head, head_offset, bitmap, bm_index.  (Its figure compares the
 * slots left with the ring's size; the prose says that the target must not be
 * beyond the tail, and this file does the same.)  All numbers of slots and packets
 * run freely.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef EXPLORE_BACKUP_REF_H
#define EXPLORE_BACKUP_REF_H

#include <stdbool.h>
#include <stdint.h>

#define REF_BITS        8
#define REF_SLOTS       64              /* more than can be in use */

typedef enum RefFate {
    REF_STORED,                 /* in the IOuser's buffer */
    REF_BACKED_UP,              /* in the IOprovider's ring: a report */
    REF_DROPPED,
} RefFate;

typedef struct Ref {
    uint32_t size, tail, head, head_offset;
    uint32_t bm_size, bm_index;
    bool bitmap[REF_BITS];
    uint32_t packet[REF_SLOTS]; /* that the slot was given */
    bool failed[REF_SLOTS];     /* and will never have */
} Ref;

void ref_init(Ref *r, uint32_t size, uint32_t bm_size);
/* May the IOuser post another buffer? */
bool ref_may_post(const Ref *r);
void ref_post(Ref *r);
/* Which slot the next packet is for, and whether there is one. */
uint32_t ref_target(const Ref *r);
bool ref_has_target(const Ref *r);
/*
 * A packet arrives.  present: the target's descriptor and buffer are; room: the
 * backup ring has some.  *bit: of the report, if it is one.
 */
RefFate ref_receive(Ref *r, uint32_t packet, bool present, bool room,
                    uint32_t *bit);
/* The IOprovider has resolved this one, or never will. */
void ref_resolve(Ref *r, uint32_t slot, uint32_t bit, bool failed);

#endif /* EXPLORE_BACKUP_REF_H */
