/*
 * unetmm: saving and restoring the slots that wait, and who waits for the tail
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../card/state.h"

/* What a slot is going to say; a packet in the ring has nothing to say yet. */
static void state_taken(UnetmmStream *st, UnetmmEp *ep, uint32_t offset)
{
    uint32_t at = (ep->fq_cons + offset) & ep->taken_mask;
    UnetmmTaken *taken = &ep->taken[at];
    bool bit = unetmm_backup_pending(ep, offset);

    unetmm_stream_bool(st, &bit, "whether a packet is in the backup ring");
    taken->len = unetmm_stream_choice(st, taken->len, UNETMM_MAX_PAYLOAD + 1,
                                      "the length of a packet that waits");
    taken->channel = unetmm_stream_choice(st, taken->channel,
                                          UNETMM_MAX_CHANNELS,
                                          "the channel of a packet that "
                                          "waits");
    taken->flags = unetmm_stream_choice(st, taken->flags,
                                        UNETMM_CQE_F_CSUM_OK + 1,
                                        "the flags of a packet that waits");
    taken->status = unetmm_stream_choice(st, taken->status, UNETMM_NUM_ST,
                                         "the status of a slot that waits");
    unetmm_stream_u64(st, &taken->cookie);
    if (taken->flags & ~UNETMM_CQE_F_CSUM_OK ||
        (bit && (offset >= ep->bm_size || taken->status || taken->cookie)) ||
        (!bit && offset >= 1u << ep->fq_log2)) {
        unetmm_stream_refuse(st, "endpoint %u has a slot that cannot wait so",
                             ep->id);
    } else if (unetmm_stream_reads(st) && bit) {
        unetmm_backup_mark(ep, offset);
    }
}

static void state_waiting(UnetmmStream *st, UnetmmEp *ep)
{
    uint32_t n = unetmm_stream_choice(st, ep->head_offset, ep->taken_mask + 2,
                                      "the slots that wait");

    if (ep->error && n) {
        unetmm_stream_refuse(st, "endpoint %u is stopped and has slots that "
                             "wait", ep->id);
    }
    ep->bm_index = unetmm_stream_choice(st, ep->bm_index, ep->bm_size,
                                        "the first bit of a bitmap");
    for (uint32_t i = 0; i < n && !st->wrong; i++) {
        state_taken(st, ep, i);
    }
    ep->head_offset = n;
    unetmm_stream_bool(st, &ep->tail_armed, "whether a slot is armed");
    unetmm_stream_bool(st, &ep->notify_tail, "whether a slot is to be told");
    unetmm_stream_u32(st, &ep->tail_slot);
    if (ep->error && (ep->tail_armed || ep->notify_tail)) {
        unetmm_stream_refuse(st, "endpoint %u is stopped and somebody waits "
                             "for a slot of it", ep->id);
    }
}

void unetmm_state_waiting(UnetmmStream *st, UnetmmEp *ep)
{
    if (!unetmm_ep_slotted(ep)) {
        return;
    }
    unetmm_stream_u32(st, &ep->slot_asked);
    ep->slot_status = unetmm_stream_choice(st, ep->slot_status, UNETMM_NUM_ST,
                                           "the status of a slot");
    if (ep->bm_size) {
        state_waiting(st, ep);
    }
}

/* A message of a stopped endpoint ends here; another needs a place to wait. */
bool unetmm_state_slot_ok(const UnetmmEp *ep)
{
    const uint32_t most = ep->bm_size ? ep->taken_mask : 0;

    return ep->error || ep->head_offset <= most;
}

uint64_t unetmm_state_waiting_limit(const UnetmmCore *core)
{
    return 32 + (core->params.backup_bits ?
                 (1u << UNETMM_MAX_RING_LOG2) * 32ull : 0);
}
