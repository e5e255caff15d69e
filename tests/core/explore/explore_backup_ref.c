/*
 * unetmm: the backup ring, as the paper has it
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <string.h>
#include "explore_backup_ref.h"

void ref_init(Ref *r, uint32_t size, uint32_t bm_size)
{
    memset(r, 0, sizeof(*r));
    r->size = size;
    r->bm_size = bm_size;
}

bool ref_may_post(const Ref *r)
{
    return r->tail - r->head < r->size;
}

void ref_post(Ref *r)
{
    r->tail++;
}

uint32_t ref_target(const Ref *r)
{
    return r->head + r->head_offset;
}

bool ref_has_target(const Ref *r)
{
    return r->head_offset < r->tail - r->head;
}

static void ref_assign(Ref *r, uint32_t packet)
{
    r->packet[ref_target(r) % REF_SLOTS] = packet;
    r->failed[ref_target(r) % REF_SLOTS] = false;
}

RefFate ref_receive(Ref *r, uint32_t packet, bool present, bool room,
                    uint32_t *bit)
{
    if (ref_has_target(r) && present) {
        ref_assign(r, packet);
        if (r->head_offset != 0) {
            r->head_offset++;
        } else {
            r->head++;
        }
        return REF_STORED;
    }
    if (r->head_offset < r->bm_size && room) {
        ref_assign(r, packet);
        *bit = (r->bm_index + r->head_offset) % r->bm_size;
        r->bitmap[*bit] = true;
        r->head_offset++;
        return REF_BACKED_UP;
    }
    return REF_DROPPED;
}

void ref_resolve(Ref *r, uint32_t slot, uint32_t bit, bool failed)
{
    r->failed[slot % REF_SLOTS] = failed;
    r->bitmap[bit] = false;
    while (r->head_offset > 0 && !r->bitmap[r->bm_index]) {
        r->head_offset--;
        r->head++;
        r->bm_index = (r->bm_index + 1) % r->bm_size;
    }
}
