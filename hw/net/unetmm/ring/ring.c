/*
 * unetmm: the rings that the card shares with the driver
 *
 * One type, one fetch, one post.  An index runs freely over 32 bits and is
 * masked at each use; a guest's write to an index register is checked before
 * it is taken.  A ring whose memory the bus refuses makes the card
 * fatal: there is nobody left to tell.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../abi/unetmm_le.h"
#include "ring.h"

static void ring_reset(UnetmmCore *core)
{
    static const uint32_t bytes[UNETMM_NUM_RINGS] = {
        [UNETMM_RING_CMD] = sizeof(struct unetmm_cmd),
        [UNETMM_RING_CMDC] = sizeof(struct unetmm_cmd_done),
        [UNETMM_RING_FAULT] = sizeof(struct unetmm_fault),
        [UNETMM_RING_NOTIFY] = sizeof(struct unetmm_notify),
        [UNETMM_RING_BACKUP] = sizeof(struct unetmm_backup),
    };

    memset(core->ring, 0, sizeof(*core->ring));
    for (unsigned i = 0; i < UNETMM_NUM_RINGS; i++) {
        core->ring->all[i].entry_bytes = bytes[i];
    }
}

static uint64_t ring_addr(const UnetmmRing *ring, uint32_t index)
{
    uint32_t slot = index & ((1u << ring->log2) - 1);

    return ring->base + (uint64_t)slot * ring->entry_bytes;
}

uint32_t unetmm_ring_room(const UnetmmRing *ring)
{
    if (!ring->enabled) {
        return 0;
    }
    return (1u << ring->log2) - (ring->prod - ring->cons);
}

static bool ring_enable(UnetmmRing *ring, uint32_t value)
{
    if (!(value & 1)) {
        ring->enabled = false;
        ring->prod = ring->cons = 0;
        return true;
    }
    if (ring->enabled) {
        return true;
    }
    if (ring->log2 < UNETMM_MIN_RING_LOG2 ||
        ring->log2 > UNETMM_MAX_RING_LOG2 ||
        ring->base % ring->entry_bytes) {
        return false;
    }
    ring->enabled = true;
    return true;
}

/* The guest's side of the indices: producer or consumer. */
static bool ring_index(UnetmmRing *ring, unsigned number, uint32_t reg,
                       uint32_t value)
{
    bool producer = reg == UNETMM_RING_PROD;

    if (!ring->enabled || producer != UNETMM_RING_TO_CARD(number)) {
        return false;
    }
    if (producer) {
        if (value - ring->cons > 1u << ring->log2) {
            return false;
        }
        ring->prod = value;
    } else {
        if (ring->prod - value > ring->prod - ring->cons) {
            return false;
        }
        ring->cons = value;
    }
    return true;
}

/* Is there an entry of which no interrupt may have told? */
static void ring_taken(UnetmmCore *core, const UnetmmRing *ring)
{
    if (ring == &core->ring->all[UNETMM_RING_FAULT] &&
        ring->prod != ring->cons) {
        unetmm_irq_want(core, UNETMM_VEC_FAULT);
    }
}

/* A write to a ring's register.  False: it is ignored. */
bool unetmm_ring_configure(UnetmmCore *core, unsigned number, uint32_t reg,
                           uint32_t value)
{
    UnetmmRing *ring = &core->ring->all[number];

    switch (reg) {
    case UNETMM_RING_BASE_LO:
        if (!ring->enabled) {
            ring->base = (ring->base & ~0xffffffffull) | value;
        }
        return !ring->enabled;
    case UNETMM_RING_BASE_HI:
        if (!ring->enabled) {
            ring->base = (ring->base & 0xffffffffull) | (uint64_t)value << 32;
        }
        return !ring->enabled;
    case UNETMM_RING_LOG2:
        if (!ring->enabled) {
            ring->log2 = value;
        }
        return !ring->enabled;
    case UNETMM_RING_MODERATE:
        ring->moderate_ns = value;
        return true;
    case UNETMM_RING_ENABLE:
        return ring_enable(ring, value);
    case UNETMM_RING_PROD:
        return ring_index(ring, number, reg, value);
    case UNETMM_RING_CONS:
        if (!ring_index(ring, number, reg, value)) {
            return false;
        }
        ring_taken(core, ring);
        return true;
    default:
        return false;
    }
}

uint32_t unetmm_ring_register(UnetmmCore *core, unsigned number, uint32_t reg)
{
    const UnetmmRing *ring = &core->ring->all[number];

    switch (reg) {
    case UNETMM_RING_BASE_LO:
        return ring->base;
    case UNETMM_RING_BASE_HI:
        return ring->base >> 32;
    case UNETMM_RING_LOG2:
        return ring->log2;
    case UNETMM_RING_ENABLE:
        return ring->enabled;
    case UNETMM_RING_PROD:
        return ring->prod;
    case UNETMM_RING_CONS:
        return ring->cons;
    case UNETMM_RING_MODERATE:
        return ring->moderate_ns;
    default:
        return 0;
    }
}

/* The next entry of a ring that the driver fills. */
static bool ring_fetch(UnetmmCore *core, UnetmmRing *ring, void *entry)
{
    if (!ring->enabled || ring->prod == ring->cons) {
        return false;
    }
    if (!unetmm_dma_read(core, NULL, ring_addr(ring, ring->cons), entry,
                         ring->entry_bytes)) {
        unetmm_core_fatal(core);
        return false;
    }
    return true;
}

bool unetmm_ring_fetch_cmd(UnetmmCore *core, struct unetmm_cmd *cmd)
{
    UnetmmRing *ring = &core->ring->all[UNETMM_RING_CMD];

    if (ring->prod == ring->cons || !ring_fetch(core, ring, cmd)) {
        return false;
    }
    unetmm_le_cmd(cmd);
    ring->cons++;
    return true;
}

bool unetmm_ring_peek_backup(UnetmmCore *core, struct unetmm_backup *buffer)
{
    if (!ring_fetch(core, &core->ring->all[UNETMM_RING_BACKUP], buffer)) {
        return false;
    }
    unetmm_le_backup(buffer);
    return true;
}

void unetmm_ring_take_backup(UnetmmCore *core)
{
    core->ring->all[UNETMM_RING_BACKUP].cons++;
}

static bool ring_post(UnetmmCore *core, UnetmmRing *ring, const void *entry)
{
    if (!unetmm_dma_post(core, NULL, ring_addr(ring, ring->prod), entry,
                         ring->entry_bytes)) {
        unetmm_core_fatal(core);
        return false;
    }
    ring->prod++;
    return true;
}

static uint32_t ring_phase(const UnetmmRing *ring)
{
    return UNETMM_PHASE_OF(ring->prod, ring->log2);
}

bool unetmm_ring_post_done(UnetmmCore *core, struct unetmm_cmd_done done)
{
    UnetmmRing *ring = &core->ring->all[UNETMM_RING_CMDC];

    if (!unetmm_ring_room(ring)) {
        return false;
    }
    done.flags = ring_phase(ring);
    unetmm_le_done(&done);
    if (!ring_post(core, ring, &done)) {
        return false;
    }
    unetmm_event(core, UNETMM_EVENT_CMD);
    return true;
}

bool unetmm_ring_post_fault(UnetmmCore *core, struct unetmm_fault fault)
{
    UnetmmRing *ring = &core->ring->all[UNETMM_RING_FAULT];
    /* The driver is going to look at the ring before it gives places back. */
    bool quiet = fault.type == UNETMM_FAULT_EVICT && ring->prod != ring->cons;

    if (!unetmm_ring_room(ring)) {
        return false;
    }
    unetmm_spend(core, UNETMM_STEP_REPORT, fault.type);
    fault.time_ns = core->ops->now_ns(core->host);
    fault.phase = ring_phase(ring);
    unetmm_le_fault(&fault);
    if (!ring_post(core, ring, &fault)) {
        return false;
    }
    if (!quiet) {
        unetmm_irq_want(core, UNETMM_VEC_FAULT);
    }
    return true;
}

bool unetmm_ring_post_notify(UnetmmCore *core, struct unetmm_notify notify)
{
    UnetmmRing *ring = &core->ring->all[UNETMM_RING_NOTIFY];

    if (!unetmm_ring_room(ring)) {
        return false;
    }
    notify.time_ns = core->ops->now_ns(core->host);
    notify.phase = ring_phase(ring);
    unetmm_le_notify(&notify);
    if (!ring_post(core, ring, &notify)) {
        return false;
    }
    unetmm_irq_want(core, UNETMM_VEC_NOTIFY);
    return true;
}

/* ---- Saved state -------------------------------------------------------- */

static const UnetmmField ring_fields[] = {
    UNETMM_FIELDS(UnetmmRing, base, log2, prod, cons, moderate_ns),
    UNETMM_FIELD_BOOL(UnetmmRing, enabled),
};

static void ring_save(UnetmmStream *st, UnetmmCore *core, uint32_t i)
{
    UnetmmRing *ring = &core->ring->all[i];

    UNETMM_STREAM_FIELDS(st, ring, ring_fields);
    if (!ring->enabled) {
        if (ring->prod || ring->cons) {
            unetmm_stream_refuse(st, "a ring that is off has indices");
        }
    } else if (ring->log2 < UNETMM_MIN_RING_LOG2 ||
               ring->log2 > UNETMM_MAX_RING_LOG2 ||
               ring->base % ring->entry_bytes ||
               ring->prod - ring->cons > 1u << ring->log2) {
        unetmm_stream_refuse(st, "a ring has a base, size or index that no "
                             "driver could have set");
        ring->enabled = false;
    }
}

static void rings_save(UnetmmStream *st, UnetmmCore *core)
{
    unetmm_stream_each(st, core, "ring", UNETMM_NUM_RINGS, ring_save);
}

static void ring_create(UnetmmCore *core)
{
    core->ring = g_new0(UnetmmRings, 1);
    ring_reset(core);
}

static void ring_free(UnetmmCore *core)
{
    g_clear_pointer(&core->ring, g_free);
}

const UnetmmModule unetmm_module_ring = {
    .name = "ring",
    .create = ring_create,
    .reset = ring_reset,
    .free = ring_free,
    .save = rings_save,
};
