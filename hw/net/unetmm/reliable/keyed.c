/*
 * unetmm: reliable channels: operations by key
 *
 * A packet with F_KEYED has an address in the region's space in place of an
 * offset, and its process had no import.  Both are looked at here, once, when
 * the packet arrives: from then on its header is that of an import's packet.
 *
 * A key can be guessed, so a wrong one counts: once for each operation whose
 * packets come in order, also before their turn, which would else be a free
 * guess; and each time for a request that is to be answered again.  An
 * operation goes on with the next number, at the next address, with one packet
 * less to come; so its packets are no guesses of other keys, and not many.  A
 * migration forgets it: then the rest counts once more.  The last of
 * UNETMM_REL_BAD_KEYS ends the channel.  A number whose key was wrong is not
 * looked at again: only a VOID takes its place.  A key that its region had
 * until that was cleared is rejected as well, but is no guess: the peer has
 * been given it, and its operations were on their way.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "packet.h"

/* The region of number and key, if its exporter has allowed keys; or NULL. */
static const UnetmmRegion *keyed_region(const UnetmmCore *core,
                                        const UnetmmEp *ep,
                                        const struct unetmm_frame *f)
{
    const UnetmmRegion *region = unetmm_region_find(core, ep, f->handle,
                                                    f->offset);

    return region && region->flags & UNETMM_REGION_F_KEYED ? region : NULL;
}

/* Packets of the operation that follow; 0: also if they are cut wrongly. */
static uint32_t keyed_behind(const UnetmmRel *rel,
                             const struct unetmm_frame *f)
{
    uint32_t bytes = f->len, n = 0;

    if (f->opcode == UNETMM_WIRE_READ) {
        bytes = UNETMM_GET(UNETMM_READ_BYTES, f->imm);
        n = UNETMM_GET(UNETMM_READ_MORE, f->imm);
    } else if (f->opcode == UNETMM_WIRE_WRITE &&
               !(f->flags & UNETMM_WIRE_F_LAST)) {
        n = unetmm_rel_packets(f->imm, rel->mtu);
    }
    return bytes == rel->mtu && n <= unetmm_rel_longest(rel) / rel->mtu ? n : 0;
}

/*
 * Is the packet, with `behind` to follow, the next one of an operation of which
 * `left` followed at most?  Requests of a long READ say READ_MOST one after the
 * other, and then one less.
 */
static bool keyed_follows(const struct unetmm_frame *f, uint32_t left,
                          uint32_t behind)
{
    return left == behind ||
           (f->opcode == UNETMM_WIRE_READ && left > behind &&
            behind >= UNETMM_READ_MOST - 1);
}

/* Packets behind one that does not say how many; `left` were to follow. */
static uint32_t keyed_most(const UnetmmRel *rel, bool follows, uint32_t left)
{
    return follows ? left : unetmm_rel_longest(rel) / rel->mtu;
}

/* Is the packet the rest of an operation whose key has been counted? */
static bool keyed_counted(UnetmmRel *rel, const struct unetmm_frame *f)
{
    const UnetmmRelAsk last = rel->guess;
    uint32_t behind = keyed_behind(rel, f), left = last.target.len - 1;
    bool follows = last.target.len && last.psn == f->psn &&
                   last.target.region == f->handle &&
                   last.target.key == f->offset &&
                   last.target.offset == f->remote &&
                   keyed_follows(f, left, behind);

    if (f->opcode == UNETMM_WIRE_READ && behind == UNETMM_READ_MOST) {
        behind = keyed_most(rel, follows, left);
    }
    rel->guess = (UnetmmRelAsk) {
        .psn = f->psn + 1,
        .target = { .region = f->handle, .key = f->offset, .len = behind,
                    .offset = f->remote + rel->mtu },
    };
    return follows;
}

static UnetmmRelTake keyed_wrong(UnetmmCore *core, UnetmmEp *ep,
                                  UnetmmRel *rel)
{
    unetmm_count(core, ep, UNETMM_C_rel_bad_keys, 1);
    if (!unetmm_recvwin_bad_key(&rel->rx)) {
        return UNETMM_TAKE_REJECTED;
    }
    unetmm_rel_fail(core, ep, rel, NULL, UNETMM_ST_BAD_KEYS,
                    UNETMM_WHY_REGION);
    return UNETMM_TAKE_ENDED;
}

/*
 * Is it a WRITE without bytes, and without anything that it does to a region?
 * InfiniBand looks at no key for it, so a strict channel does not either.
 */
static bool keyed_of_none(const struct unetmm_frame *f)
{
    return f->opcode == UNETMM_WIRE_WRITE && !f->len &&
           !(f->flags & (UNETMM_WIRE_F_NOTIFY | UNETMM_WIRE_F_COUNT));
}

UnetmmRelTake unetmm_rel_keyed(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                                struct unetmm_frame *f)
{
    bool again = unetmm_recvwin_again(&rel->rx, f->psn);
    const UnetmmRegion *region;

    if (again && f->opcode != UNETMM_WIRE_READ) {
        /* A repeated WRITE or ATOMIC does not touch its region. */
        return UNETMM_TAKE_DONE;
    }
    if (!again && rel->rx.wrong & unetmm_rel_bit(f->psn)) {
        return UNETMM_TAKE_REJECTED;
    }
    if (rel->strict && keyed_of_none(f)) {
        f->flags &= ~UNETMM_WIRE_F_KEYED;
        return UNETMM_TAKE_DONE;
    }
    region = keyed_region(core, ep, f);
    if (!region && unetmm_region_revoked(core, ep, f->handle, f->offset)) {
        return UNETMM_TAKE_REJECTED;
    }
    if (!region && again) {
        return keyed_wrong(core, ep, rel);
    }
    if (!region) {
        unetmm_recvwin_wrong_key(&rel->rx, f->psn);
        return keyed_counted(rel, f) ? UNETMM_TAKE_REJECTED :
               keyed_wrong(core, ep, rel);
    }
    /* An address before the region wraps, and is beyond its end. */
    f->remote -= region->iova;
    f->flags &= ~UNETMM_WIRE_F_KEYED;
    return UNETMM_TAKE_DONE;
}
