/*
 * unetmm: slots that wait for others, and the backup ring (NPF)
 *
 * Where nobody can be asked to send again, a packet whose slot is absent, or
 * not posted yet, goes to memory that the driver gives for that, and the
 * driver is told: which buffer, which slot, which bit.  The slot is taken; the
 * next packet goes on to the next slot.  So of the free queue
 *
 *   fq_cons                  is the first slot that its process has not seen;
 *   fq_cons + head_offset    the next that a packet is for;
 *   bit bm_index + n         of slot fq_cons + n, modulo the bitmap's size: 1
 *                            while its packet is in the ring.
 *
 * When the driver has copied a packet and says so, its bit is cleared, and all
 * slots up to the next bit are shown, in their order.  Only the sum of fq_cons
 * and head_offset says where packets go: it does not change by that.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../ring/ring.h"
#include "aside.h"

#define BITS            64
#define BACKUP_LEAST    64      /* bytes of a buffer */

/* Allocates the endpoint's bitmap and completions, as bm_size says. */
static void backup_ep_begin(UnetmmCore *core, UnetmmEp *ep)
{
    uint32_t n = 1u << ep->fq_log2, bits = ep->bm_size;

    if (!bits) {
        return;
    }
    /* As many slots as are posted can wait, and as many as there are bits. */
    while (n < bits) {
        n *= 2;
    }
    ep->bitmap = g_new0(uint64_t, (bits + BITS - 1) / BITS);
    ep->taken = g_new0(UnetmmTaken, n);
    ep->taken_mask = n - 1;
}

static void backup_ep_end(UnetmmCore *core, UnetmmEp *ep)
{
    g_clear_pointer(&ep->bitmap, g_free);
    g_clear_pointer(&ep->taken, g_free);
}

static bool backup_bit(const UnetmmEp *ep, uint32_t bit)
{
    return ep->bitmap[bit / BITS] >> bit % BITS & 1;
}

static void backup_set(UnetmmEp *ep, uint32_t bit, bool value)
{
    uint64_t mask = 1ull << bit % BITS;

    ep->bitmap[bit / BITS] = (ep->bitmap[bit / BITS] & ~mask) |
                             (value ? mask : 0);
}

/* The bit of slot fq_cons + offset, if it has one. */
static uint32_t backup_bit_at(const UnetmmEp *ep, uint32_t offset)
{
    return (ep->bm_index + offset) % ep->bm_size;
}

/* A slot beyond the bitmap has no bit yet. */
bool unetmm_backup_pending(const UnetmmEp *ep, uint32_t offset)
{
    return offset < ep->bm_size && backup_bit(ep, backup_bit_at(ep, offset));
}

void unetmm_backup_mark(UnetmmEp *ep, uint32_t offset)
{
    backup_set(ep, backup_bit_at(ep, offset), true);
}

/* Forgets all that waits; how many packets of these were in the ring. */
static uint32_t backup_forget(UnetmmEp *ep)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < ep->bm_size; i++) {
        n += backup_bit(ep, i);
        backup_set(ep, i, false);
    }
    ep->head_offset = 0;
    ep->slot_status = UNETMM_ST_OK;
    ep->tail_armed = ep->notify_tail = false;
    return n;
}

/* ---- A packet goes to the ring ------------------------------------------ */

/* The next buffer, if it is one that the packet fits into. */
static bool backup_buffer(UnetmmCore *core, uint32_t len,
                          struct unetmm_backup *buffer,
                          enum unetmm_counter *drop)
{
    *drop = UNETMM_C_drop_backup_ring;
    if (!unetmm_ring_peek_backup(core, buffer)) {
        return false;
    }
    if (buffer->rsvd || buffer->len < BACKUP_LEAST ||
        buffer->addr > UINT64_MAX - (buffer->len - 1)) {
        /* Nothing would ever get past it: it is used up. */
        unetmm_ring_take_backup(core);
        core->counters[UNETMM_C_err_descriptor]++;
        return false;
    }
    *drop = UNETMM_C_drop_backup_size;
    return len <= buffer->len;
}

/* The report goes after the data, and the buffer is used up with it. */
static bool backup_report(UnetmmCore *core, UnetmmEp *ep, uint32_t len)
{
    const UnetmmRing *ring = &core->ring->all[UNETMM_RING_BACKUP];
    struct unetmm_fault f = {
        .type = UNETMM_FAULT_BACKUP, .space = ep->space, .ep = ep->id,
        .fault_id = ring->cons, .npages = len,
        .vaddr = ep->fq_cons + ep->head_offset,
        .tag = backup_bit_at(ep, ep->head_offset),
    };

    if (!unetmm_ring_post_fault(core, f)) {
        return false;
    }
    unetmm_ring_take_backup(core);
    trace_unetmm_backup_store(ep->id, f.fault_id, f.vaddr, f.tag, len);
    return true;
}

void unetmm_backup_take(UnetmmEp *ep, const UnetmmTaken *taken)
{
    ep->taken[(ep->fq_cons + ep->head_offset) & ep->taken_mask] = *taken;
    ep->head_offset++;
}

bool unetmm_backup_store(UnetmmCore *core, UnetmmEp *ep,
                         const struct unetmm_cqe *cqe, const uint8_t *data,
                         enum unetmm_counter *drop)
{
    UnetmmTaken taken = {
        .len = cqe->len, .channel = cqe->channel, .flags = cqe->flags,
    };
    struct unetmm_backup buffer;

    if (ep->head_offset >= ep->bm_size) {
        *drop = UNETMM_C_drop_backup_bits;
        return false;
    }
    if (!backup_buffer(core, cqe->len, &buffer, drop)) {
        return false;
    }
    if (!unetmm_fault_spare(core)) {
        *drop = UNETMM_C_drop_backup_report;
        return false;
    }
    if (cqe->len &&
        !unetmm_dma_write(core, ep, buffer.addr, data, cqe->len)) {
        unetmm_ring_take_backup(core);
        *drop = UNETMM_C_drop_dma;
        return false;
    }
    if (!backup_report(core, ep, cqe->len)) {
        *drop = UNETMM_C_drop_backup_report;
        return false;
    }
    unetmm_backup_mark(ep, ep->head_offset);
    unetmm_backup_take(ep, &taken);
    unetmm_count(core, ep, UNETMM_C_backup_packets, 1);
    unetmm_count(core, ep, UNETMM_C_backup_bytes, cqe->len);
    return true;
}

/* ---- Slots are shown ---------------------------------------------------- */

bool unetmm_backup_complete(UnetmmCore *core, UnetmmEp *ep,
                            const UnetmmTaken *taken)
{
    bool ok = taken->status == UNETMM_ST_OK;
    struct unetmm_cqe cqe = {
        .opcode = ok ? UNETMM_CQE_RECEIVED : UNETMM_CQE_BUFFER,
        .status = taken->status, .cookie = taken->cookie,
        .len = ok ? taken->len : 0, .channel = ok ? taken->channel : 0,
        .flags = ok ? taken->flags : 0,
    };

    if (!unetmm_ep_complete(core, ep, &cqe)) {
        return false;
    }
    ep->fq_cons++;
    return true;
}

bool unetmm_backup_waits(const UnetmmEp *ep)
{
    return ep->head_offset && !unetmm_backup_pending(ep, 0);
}

static uint32_t backup_owed(const UnetmmCore *core, const UnetmmEp *ep,
                            uint16_t channel)
{
    uint32_t owed = 0;

    for (uint32_t i = 0; i < ep->head_offset; i++) {
        const UnetmmTaken *t = &ep->taken[(ep->fq_cons + i) & ep->taken_mask];

        /* The completion of a buffer names no channel. */
        owed += t->status == UNETMM_ST_OK && t->channel == channel;
    }
    return owed;
}

void unetmm_backup_walk(UnetmmCore *core, UnetmmEp *ep)
{
    while (unetmm_backup_waits(ep)) {
        if (!unetmm_ep_cq_spare(ep)) {
            /* The process is to say when it has taken some. */
            ep->publish = true;
            return;
        }
        if (!unetmm_budget_left(core)) {
            /* The next turn completes the other slots. */
            return;
        }
        if (!unetmm_backup_complete(core, ep, &ep->taken[ep->fq_cons &
                                                         ep->taken_mask])) {
            return;
        }
        ep->head_offset--;
        ep->bm_index = (ep->bm_index + 1) % ep->bm_size;
    }
}

static UnetmmEp *backup_ep(UnetmmCore *core, uint16_t id)
{
    UnetmmEp *ep = unetmm_ep_live(core, id);

    return ep && !ep->error && ep->bm_size ? ep : NULL;
}

/* Is its packet in the ring, and has it a place by now? */
static bool backup_done_ok(const UnetmmEp *ep,
                           const struct unetmm_cmd_backup *cmd)
{
    uint32_t offset = cmd->slot - ep->fq_cons;

    return offset < ep->head_offset && unetmm_backup_pending(ep, offset) &&
           backup_bit_at(ep, offset) == cmd->bit &&
           offset < ep->fq_prod - ep->fq_cons;
}

uint8_t unetmm_backup_done(UnetmmCore *core, uint16_t id,
                           const struct unetmm_cmd_backup *cmd)
{
    UnetmmEp *ep = backup_ep(core, id);
    UnetmmTaken *taken;

    if (!ep || !unetmm_ep_read_user(core, ep)) {
        return UNETMM_CS_BAD_ID;
    }
    if (cmd->status >= UNETMM_NUM_ST || !backup_done_ok(ep, cmd) ||
        !unetmm_all_zero(cmd->rsvd, sizeof(cmd->rsvd))) {
        return UNETMM_CS_BAD_ARG;
    }
    trace_unetmm_backup_done(id, cmd->slot, cmd->bit, cmd->status);
    taken = &ep->taken[cmd->slot & ep->taken_mask];
    taken->status = cmd->status;
    taken->cookie = cmd->cookie;
    backup_set(ep, cmd->bit, false);
    if (cmd->status == UNETMM_ST_OK) {
        unetmm_count(core, ep, UNETMM_C_backup_landed, 1);
        unetmm_recv_done(core, ep, taken->len);
    } else {
        unetmm_count(core, ep, UNETMM_C_backup_failed, 1);
    }
    unetmm_backup_walk(core, ep);
    unetmm_ep_sync(core, ep);
    return UNETMM_CS_OK;
}

/* ---- The tail ----------------------------------------------------------- */

/* Modulo 2^32: slots behind it are posted, or were. */
static bool tail_posted(const UnetmmEp *ep, uint32_t slot)
{
    return ep->fq_prod - slot - 1 <= INT32_MAX;
}

/* Has the armed slot been posted? */
static void backup_posted(UnetmmCore *core, UnetmmEp *ep)
{
    if (ep->tail_armed && tail_posted(ep, ep->tail_slot)) {
        ep->tail_armed = false;
        unetmm_notify_tail(core, ep);
    }
}

uint8_t unetmm_tail_arm(UnetmmCore *core, uint16_t id,
                        const struct unetmm_cmd_tail *cmd, uint32_t *result)
{
    UnetmmEp *ep = backup_ep(core, id);

    if (!ep || !unetmm_ep_read_user(core, ep)) {
        return UNETMM_CS_BAD_ID;
    }
    if (cmd->arm > 1 || !unetmm_all_zero(cmd->rsvd, sizeof(cmd->rsvd))) {
        return UNETMM_CS_BAD_ARG;
    }
    ep->tail_armed = cmd->arm && !tail_posted(ep, cmd->slot);
    ep->tail_slot = cmd->slot;
    /* The card shows its indices, and then reads the process's once more. */
    ep->publish = true;
    unetmm_ep_sync(core, ep);
    /* A notification that was owed for this slot or an earlier one is void. */
    ep->notify_tail = false;
    if (ep->error) {
        return UNETMM_CS_BAD_ID;
    }
    if (cmd->arm) {
        *result = !ep->tail_armed;
        unetmm_count(core, ep, UNETMM_C_tail_arms, ep->tail_armed);
        trace_unetmm_tail_arm(id, cmd->slot, *result);
    }
    return UNETMM_CS_OK;
}

/* ---- Saved state -------------------------------------------------------- */

static const UnetmmField taken_fields[] = {
    UNETMM_FIELD_RANGE(UnetmmTaken, len, 0, UNETMM_MAX_PAYLOAD),
    UNETMM_FIELD_RANGE(UnetmmTaken, channel, 0, UNETMM_MAX_CHANNELS - 1),
    UNETMM_FIELD_RANGE(UnetmmTaken, flags, 0, UNETMM_CQE_F_CSUM_OK),
    UNETMM_FIELD_RANGE(UnetmmTaken, status, 0, UNETMM_NUM_ST - 1),
    UNETMM_FIELD(UnetmmTaken, cookie),
};

static const UnetmmField slot_fields[] = {
    UNETMM_FIELD(UnetmmEp, slot_asked),
    UNETMM_FIELD_RANGE(UnetmmEp, slot_status, 0, UNETMM_NUM_ST - 1),
};

static const UnetmmField tail_fields[] = {
    UNETMM_BOOLS(UnetmmEp, tail_armed, notify_tail),
    UNETMM_FIELD(UnetmmEp, tail_slot),
};

/* A slot's future completion; a packet in the ring has nothing to say yet. */
static void taken_save(UnetmmStream *st, UnetmmEp *ep, uint32_t offset)
{
    uint32_t at = (ep->fq_cons + offset) & ep->taken_mask;
    UnetmmTaken *taken = &ep->taken[at];
    bool bit = unetmm_backup_pending(ep, offset);

    unetmm_stream_bool(st, &bit, "in_backup_ring");
    UNETMM_STREAM_FIELDS(st, taken, taken_fields);
    if (taken->flags & ~UNETMM_CQE_F_CSUM_OK ||
        (bit && (offset >= ep->bm_size || taken->status || taken->cookie)) ||
        (!bit && offset >= 1u << ep->fq_log2)) {
        unetmm_stream_refuse(st, "endpoint %u has a slot that cannot wait so",
                             ep->id);
    } else if (unetmm_stream_reads(st) && bit) {
        unetmm_backup_mark(ep, offset);
    }
}

static void waiting_save(UnetmmStream *st, UnetmmEp *ep)
{
    uint32_t n = unetmm_stream_choice(st, ep->head_offset, ep->taken_mask + 2,
                                      "head_offset");

    if (ep->error && n) {
        unetmm_stream_refuse(st, "endpoint %u is stopped and has slots that "
                             "wait", ep->id);
    }
    ep->bm_index = unetmm_stream_choice(st, ep->bm_index, ep->bm_size,
                                        "bm_index");
    for (uint32_t i = 0; i < n && !st->wrong; i++) {
        unetmm_stream_enter(st, "taken", i);
        taken_save(st, ep, i);
        unetmm_stream_leave(st);
    }
    ep->head_offset = n;
    UNETMM_STREAM_FIELDS(st, ep, tail_fields);
    if (ep->error && (ep->tail_armed || ep->notify_tail)) {
        unetmm_stream_refuse(st, "endpoint %u is stopped and somebody waits "
                             "for a slot of it", ep->id);
    }
}

void unetmm_waiting_save(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep)
{
    if (!unetmm_ep_slotted(ep)) {
        return;
    }
    UNETMM_STREAM_FIELDS(st, ep, slot_fields);
    if (ep->bm_size) {
        waiting_save(st, ep);
    }
}

/* A message of a stopped endpoint ends here; another needs a place to wait. */
bool unetmm_slot_landing_ok(const UnetmmEp *ep)
{
    const uint32_t most = ep->bm_size ? ep->taken_mask : 0;

    return ep->error || ep->head_offset <= most;
}

static uint64_t waiting_save_limit(const UnetmmCore *core)
{
    uint64_t ep = 32 + (core->params.backup_bits ?
                        (1u << UNETMM_MAX_RING_LOG2) * 32ull : 0);

    return core->params.endpoints * ep;
}

static void backup_reset(UnetmmCore *core)
{
    for (uint32_t i = 0; i < core->params.endpoints; i++) {
        UnetmmEp *ep = &core->eps[i];

        if (ep->live) {
            core->counters[UNETMM_C_drop_reset] += backup_forget(ep);
            backup_ep_end(core, ep);
        }
    }
}

/* The completions that wait for their turn will not be written any more. */
static void backup_ep_stop(UnetmmCore *core, UnetmmEp *ep)
{
    unetmm_count(core, ep, UNETMM_C_drop_stopped, backup_forget(ep));
}

const UnetmmModule unetmm_module_backup = {
    .name = "backup",
    .reset = backup_reset,
    .ep_begin = backup_ep_begin,
    .ep_stop = backup_ep_stop,
    .ep_end = backup_ep_end,
    .turn = unetmm_backup_walk,
    .slot_completion_waits = unetmm_backup_waits,
    .unfinished_messages = backup_owed,
    .posted = backup_posted,
    .save_limit = waiting_save_limit,
};
