/*
 * unetmm: reliable channels: requests to change one word of a region
 *
 * An atomic is executed at its turn, which comes once, by a compare-and-swap of
 * the host on the word as the processors see it.  The old value is kept for as
 * long as it may be asked for: the peer has no more atomics without an
 * answer than there are results kept.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../../abi/unetmm_host.h"
#include "../../abi/unetmm_le.h"
#include "../packet.h"

#define ATOMIC_TRIES    64              /* against the processors */

const UnetmmRelResult *unetmm_rel_result(const UnetmmRel *rel, uint32_t psn)
{
    uint32_t kept = MIN(rel->answers.nresults, UNETMM_REL_ATOMICS);

    for (uint32_t i = 0; i < kept; i++) {
        if (rel->answers.results[i].psn == psn) {
            return &rel->answers.results[i];
        }
    }
    return NULL;
}

static uint64_t operand(const uint8_t *payload, unsigned n)
{
    uint64_t v;

    memcpy(&v, payload + n * sizeof(v), sizeof(v));
    unetmm_le_u64(&v);
    return v;
}

/*
 * Executes it on one word; *old is the previous value.  MISS: the processors
 * were faster each time; ERROR: the bus refuses the address.
 */
static UnetmmXlat atomic_execute(UnetmmCore *core, UnetmmEp *ep,
                                 const struct unetmm_frame *f,
                                 const uint8_t *payload, uint64_t dma,
                                 uint64_t *old)
{
    bool add = f->imm == UNETMM_ATOMIC_ADD;
    uint64_t expected = add ? 0 : operand(payload, 0);

    for (unsigned i = 0; i < ATOMIC_TRIES; i++) {
        uint64_t value = add ? expected + operand(payload, 0) :
                         operand(payload, 1);

        *old = expected;
        if (!unetmm_dma_cmpxchg(core, ep, dma, old, value)) {
            return UNETMM_XLAT_ERROR;
        }
        if (*old == expected || !add) {
            return UNETMM_XLAT_OK;
        }
        expected = *old;
    }
    return UNETMM_XLAT_MISS;
}

/* Executes it on a page; MISS: also if the page has gone since. */
static UnetmmXlat atomic_on_page(UnetmmCore *core, UnetmmEp *ep,
                                 const struct unetmm_frame *f,
                                 const uint8_t *payload, UnetmmPage *page,
                                 uint64_t addr, uint64_t *old)
{
    UnetmmXlat result;

    if (!unetmm_page_lock(core, ep, page, true)) {
        return UNETMM_XLAT_MISS;
    }
    result = atomic_execute(core, ep, f, payload,
                            page->dma + addr % UNETMM_PAGE_BYTES, old);
    unetmm_page_unlock(core, ep, page);
    return result;
}

static void atomic_done(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                        const struct unetmm_frame *f, uint64_t old)
{
    UnetmmRelAnswers *answers = &rel->answers;
    UnetmmRelResult *result;

    result = &answers->results[answers->nresults++ % UNETMM_REL_ATOMICS];
    if (answers->nresults == 2 * UNETMM_REL_ATOMICS) {
        answers->nresults = UNETMM_REL_ATOMICS;
    }
    result->psn = f->psn;
    unetmm_le_u64(&old);
    memcpy(result->old, &old, sizeof(old));
    unetmm_count(core, ep, UNETMM_C_rel_atomics, 1);
    trace_unetmm_rel_atomic(ep->id, rel->channel, f->psn, f->imm);
    unetmm_rel_owe_answer(rel, f->psn, true, NULL);
}

/* The word is at *addr now.  UNETMM_WHY_*, or 0; *held: not now. */
static uint32_t atomic_aim(UnetmmCore *core, const UnetmmEp *ep,
                           const UnetmmTarget *target, uint64_t *addr,
                           bool *held)
{
    const UnetmmRegion *region;
    uint32_t reason = unetmm_region_check(core, ep, target, UNETMM_RIGHT_ATOMIC,
                                          &region);

    *held = !reason && unetmm_region_is_held(region, target->offset,
                                             target->len);
    if (reason || *held) {
        return reason;
    }
    /* The word must be one piece, at a multiple of 8, where it is now. */
    if (unetmm_region_run(region, target->offset, target->len, addr) <
        target->len || *addr % sizeof(uint64_t)) {
        return UNETMM_WHY_RANGE;
    }
    unetmm_region_note(region, target->offset, target->len);
    return 0;
}

static UnetmmRelTake atomic_take(UnetmmCore *core, UnetmmEp *ep,
                                 UnetmmRel *rel, const struct unetmm_frame *f,
                                 const uint8_t *payload)
{
    UnetmmTarget target = unetmm_rel_target(f, sizeof(uint64_t));
    UnetmmXlat result;
    uint64_t addr, old;
    UnetmmPage page;
    bool held;
    uint32_t reason = atomic_aim(core, ep, &target, &addr, &held);

    if (reason) {
        return unetmm_rel_reject(rel, reason);
    }
    if (held) {
        unetmm_count(core, ep, UNETMM_C_rel_held, 1);
        return unetmm_rel_refuse(rel, UNETMM_REL_WANT_PART);
    }
    result = unetmm_space_lookup(core, ep, addr >> UNETMM_PAGE_SHIFT, true,
                                 &page);
    if (result == UNETMM_XLAT_MISS) {
        unetmm_rel_ask(core, ep, rel, UNETMM_REL_FAULT_ARRIVE,
                       (UnetmmRelMissed) { .psn = f->psn },
                       addr >> UNETMM_PAGE_SHIFT, 1);
        return unetmm_rel_refuse(rel, UNETMM_REL_WANT_PAGE);
    }
    if (result == UNETMM_XLAT_OK) {
        result = atomic_on_page(core, ep, f, payload, &page, addr, &old);
    }
    if (result == UNETMM_XLAT_ERROR) {
        return unetmm_rel_reject(rel, UNETMM_WHY_MEMORY);
    }
    if (result == UNETMM_XLAT_MISS) {
        return unetmm_rel_refuse(rel, UNETMM_REL_WANT_PAGE);
    }
    unetmm_page_dirty(&page);
    atomic_done(core, ep, rel, f, old);
    return UNETMM_TAKE_DONE;
}

/* Never executed again: the old value is sent once more. */
static void atomic_again(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                         const struct unetmm_frame *f)
{
    if (unetmm_rel_result(rel, f->psn)) {
        unetmm_rel_owe_answer(rel, f->psn, true, NULL);
    } else {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_stale);
    }
}

static bool atomic_header_ok(const struct unetmm_frame *f)
{
    return (f->imm == UNETMM_ATOMIC_ADD && f->len == 8) ||
           (f->imm == UNETMM_ATOMIC_SWAP && f->len == 16);
}

static void atomic_fill(const UnetmmRelMsg *m, struct unetmm_frame *f,
                        uint32_t at, uint32_t bytes)
{
    unetmm_rel_fill_target(m, f, at);
    f->imm = m->op == UNETMM_OP_FETCH_ADD ? UNETMM_ATOMIC_ADD :
             UNETMM_ATOMIC_SWAP;
}

#define ATOMIC_KIND(bytes) { \
        .sqe = { .flags = UNETMM_SQE_F_INLINE | UNETMM_SQE_F_QUIET | \
                          UNETMM_SQE_F_KEYED, \
                 .must = UNETMM_SQE_F_INLINE, .operands = bytes, \
                 .segs_behind = 1, .one_sided = true }, \
        .opcode = UNETMM_WIRE_ATOMIC, .request = true, .fill = atomic_fill, \
    }

const UnetmmRelOp unetmm_rel_op_atomic = {
    .kind = { ATOMIC_KIND(8), ATOMIC_KIND(16) },
    .right = UNETMM_RIGHT_ATOMIC,
    .header = { .with = UNETMM_WITH_RELIABLE,
                .flags = UNETMM_WIRE_F_PAYLOAD_CRC | UNETMM_WIRE_F_ASK |
                         UNETMM_WIRE_F_KEYED,
                .psn = true, .offset = true, .remote = true, .handle = true,
                .imm = true, .len = true, .ok = atomic_header_ok },
    .header_is_enough = true,
    .take = atomic_take,
    .early = unetmm_rel_keep_header,
    .again = atomic_again,
};
