/*
 * unetmm: reliable channels: requests to read a region
 *
 * A request is looked at in its turn, so that it reads all earlier writes, and
 * again whenever it is repeated; the answer is gathered when it goes
 * out, and may be older or newer than another one to the same request.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../../abi/unetmm_host.h"
#include "../packet.h"

/* Are all requested bytes present?  `more` bytes are said to follow. */
static UnetmmXlat read_present(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                               uint32_t psn, const UnetmmRegion *region,
                               const UnetmmTarget *target, uint64_t more)
{
    UnetmmXlat result = UNETMM_XLAT_OK;
    uint32_t n;

    for (uint32_t at = 0; result == UNETMM_XLAT_OK && at < target->len;
         at += n) {
        uint64_t addr;
        uint32_t run = unetmm_region_run_ahead(region, target->offset + at,
                                               target->len - at, more, &addr);

        n = MIN(run, target->len - at);
        result = unetmm_rel_present(core, ep, rel, psn, addr, n, run);
    }
    return result;
}

/*
 * May the request be answered, and now?  *reason: it never may; *want: it
 * waits for this.
 */
static UnetmmXlat read_look(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                            uint32_t psn, const UnetmmTarget *target,
                            uint64_t more, uint32_t *reason,
                            UnetmmRelWant *want)
{
    const UnetmmRegion *region;
    UnetmmXlat result;

    *want = UNETMM_REL_WANT_READ;
    *reason = unetmm_region_check(core, ep, target, UNETMM_RIGHT_READ, &region);
    if (*reason) {
        return UNETMM_XLAT_ERROR;
    }
    if (unetmm_region_is_held(region, target->offset, target->len)) {
        unetmm_count(core, ep, UNETMM_C_rel_held, 1);
        *want = UNETMM_REL_WANT_PART;
        return UNETMM_XLAT_MISS;
    }
    result = read_present(core, ep, rel, psn, region, target, more);
    *reason = result == UNETMM_XLAT_ERROR ? UNETMM_WHY_MEMORY : 0;
    return result;
}

/* The READ's bytes behind this request, or as many of them as it can say. */
static uint64_t read_more(const UnetmmRel *rel, const struct unetmm_frame *f)
{
    return (uint64_t)UNETMM_GET(UNETMM_READ_MORE, f->imm) * rel->mtu;
}

static UnetmmRelTake read_take(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                               const struct unetmm_frame *f,
                               const uint8_t *payload)
{
    UnetmmTarget target = unetmm_rel_target(f, unetmm_read_bytes(f));
    UnetmmRelWant want;
    uint32_t reason;

    if (target.len > rel->mtu) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_bad);
        return UNETMM_TAKE_DROPPED;
    }
    switch (read_look(core, ep, rel, f->psn, &target, read_more(rel, f),
                      &reason, &want)) {
    case UNETMM_XLAT_OK:
        break;
    case UNETMM_XLAT_MISS:
        return unetmm_rel_refuse(rel, want);
    case UNETMM_XLAT_ERROR:
        return unetmm_rel_reject(rel, reason);
    }
    unetmm_count(core, ep, UNETMM_C_rel_reads, 1);
    unetmm_rel_owe_answer(rel, f->psn, false, &target);
    return UNETMM_TAKE_DONE;
}

/* The peer has no answer to it, or one that it could not use. */
void unetmm_rel_read_again(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                           uint32_t psn, const UnetmmTarget *target,
                           uint64_t more)
{
    UnetmmRelWant want;
    uint32_t reason;

    switch (read_look(core, ep, rel, psn, target, more, &reason, &want)) {
    case UNETMM_XLAT_OK:
        unetmm_rel_owe_answer(rel, psn, false, target);
        break;
    case UNETMM_XLAT_MISS:
        /* The request comes again when the pause is over. */
        unetmm_recvwin_tell_refusal(&rel->rx);
        unetmm_rel_owe_ack(core, rel);
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_stale);
        break;
    case UNETMM_XLAT_ERROR:
        unetmm_rel_reject_late(core, rel, psn, reason);
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_rejected);
        break;
    }
}

static void read_again(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                       const struct unetmm_frame *f)
{
    UnetmmTarget target = unetmm_rel_target(f, unetmm_read_bytes(f));

    if (target.len > rel->mtu) {
        unetmm_recv_drop(core, ep, UNETMM_C_drop_rel_bad);
        return;
    }
    unetmm_rel_read_again(core, ep, rel, f->psn, &target, read_more(rel, f));
}

static bool read_header_ok(const struct unetmm_frame *f)
{
    return unetmm_read_bytes(f) && unetmm_read_bytes(f) <= UNETMM_MAX_PAYLOAD;
}

static void read_fill(const UnetmmRelMsg *m, struct unetmm_frame *f,
                      uint32_t at, uint32_t bytes)
{
    unetmm_rel_fill_target(m, f, at);
    /* A request before another one is as long as the MTU. */
    f->imm = UNETMM_PREP(UNETMM_READ_BYTES, bytes) |
             UNETMM_PREP(UNETMM_READ_MORE, MIN((m->len - at - 1) / bytes,
                                               UNETMM_READ_MOST));
}

const UnetmmRelOp unetmm_rel_op_read = {
    .kind[0] = {
        .sqe = { .flags = UNETMM_SQE_F_QUIET | UNETMM_SQE_F_KEYED,
                 .one_sided = true },
        .opcode = UNETMM_WIRE_READ, .request = true, .fill = read_fill,
    },
    .right = UNETMM_RIGHT_READ,
    .header = { .with = UNETMM_WITH_RELIABLE,
                .flags = UNETMM_WIRE_F_PAYLOAD_CRC | UNETMM_WIRE_F_ASK |
                         UNETMM_WIRE_F_KEYED,
                .psn = true, .offset = true, .remote = true, .handle = true,
                .imm = true, .ok = read_header_ok },
    .header_is_enough = true,
    .take = read_take,
    .early = unetmm_rel_keep_header,
    .again = read_again,
};
