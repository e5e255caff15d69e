/*
 * unetmm: the registers
 *
 * Every access is 4 bytes at a multiple of 4.  Anything else, and any offset
 * that is not in the specification, reads as zero and is ignored when written;
 * it is counted and logged as the guest's error.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "../port/port.h"
#include "../ring/ring.h"
#include "../store/store.h"
#include "core.h"

/* The registers that no other room knows */
struct UnetmmRegs {
    uint32_t test, test_dma_len, test_dma_res, ep_sel, latch_hi, inv_space;
    uint64_t test_dma, inv_start, inv_last;
};

static uint32_t reg_status(const UnetmmCore *core)
{
    return core->engine.status | (core->port->link ? UNETMM_STATUS_LINK : 0) |
           (core->engine.ctrl & UNETMM_CTRL_ENABLE ? UNETMM_STATUS_ENABLED : 0);
}

static uint32_t reg_sources(const UnetmmCore *core)
{
    uint32_t bits = 0;

    for (unsigned i = 0; i < 32; i++) {
        bits |= unetmm_source_by_id(core, i) ? 1u << i : 0;
    }
    return bits;
}

static uint32_t reg_policies(const UnetmmCore *core)
{
    uint32_t bits = 0;

    for (unsigned i = 0; i < 32; i++) {
        bits |= unetmm_policy_by_id(core, i) ? 1u << i : 0;
    }
    return bits;
}

static uint32_t reg_caps(const UnetmmParams *p)
{
    return UNETMM_CAP_LOCAL | UNETMM_CAP_INLINE_RECV | UNETMM_CAP_UD |
           UNETMM_CAP_SHARED |
           (p->reliable ? UNETMM_CAP_RELIABLE | UNETMM_CAP_ONE_SIDED |
            UNETMM_CAP_EVENT_COUNTERS | UNETMM_CAP_IMMEDIATE |
            UNETMM_CAP_KEYED | UNETMM_CAP_ACK_ALONG |
            UNETMM_CAP_ACK_WRITE | UNETMM_CAP_VERBS | UNETMM_CAP_BIND |
            UNETMM_CAP_LONG : 0) |
           (p->window_pages ? UNETMM_CAP_WINDOWS : 0) |
           (p->proxy_pages ? UNETMM_CAP_PROXIES : 0) |
           (p->reliable && p->sysbuf_slots ? UNETMM_CAP_SYSBUF : 0) |
           (p->flows ? UNETMM_CAP_ETHERNET : 0) |
           (p->backup_bits ? UNETMM_CAP_BACKUP : 0);
}

/* Identity and features.  False: not one of these registers. */
static bool reg_read_identity(const UnetmmCore *core, uint32_t offset,
                              uint32_t *value)
{
    static const struct {
        uint32_t offset;
        size_t param;
    } limits[] = {
        { UNETMM_REG_USER_MTU, offsetof(UnetmmParams, user_mtu) },
        { UNETMM_REG_ENDPOINTS, offsetof(UnetmmParams, endpoints) },
        { UNETMM_REG_SPACES, offsetof(UnetmmParams, spaces) },
        { UNETMM_REG_CHANNELS, offsetof(UnetmmParams, channels) },
        { UNETMM_REG_TLB_SETS, offsetof(UnetmmParams, tlb_sets) },
        { UNETMM_REG_TLB_WAYS, offsetof(UnetmmParams, tlb_ways) },
        { UNETMM_REG_TLB_VICTIMS, offsetof(UnetmmParams, tlb_victims) },
        { UNETMM_REG_PRETRANSLATE, offsetof(UnetmmParams, pretranslate) },
        { UNETMM_REG_MAX_FAULTS, offsetof(UnetmmParams, max_faults) },
        { UNETMM_REG_REGIONS, offsetof(UnetmmParams, regions) },
        { UNETMM_REG_IMPORTS, offsetof(UnetmmParams, imports) },
        { UNETMM_REG_FLOWS, offsetof(UnetmmParams, flows) },
        { UNETMM_REG_BACKUP_BITS, offsetof(UnetmmParams, backup_bits) },
    };
    uint64_t mac = unetmm_mac_to_u64(core->params.mac);
    const struct {
        uint32_t offset;
        uint32_t value;
    } fixed[] = {
        { UNETMM_REG_ID, UNETMM_ID_VALUE },
        { UNETMM_REG_VERSION, UNETMM_VERSION_VALUE },
        { UNETMM_REG_CAPS, reg_caps(&core->params) },
        { UNETMM_REG_MAC_LO, mac },
        { UNETMM_REG_MAC_HI, mac >> 32 },
        { UNETMM_REG_DB_STRIDE, UNETMM_PAGE_BYTES },
        { UNETMM_REG_MAX_LOG2, UNETMM_MAX_RING_LOG2 },
        { UNETMM_REG_SOURCES, reg_sources(core) },
        { UNETMM_REG_POLICIES, reg_policies(core) },
        { UNETMM_REG_RELIABLE, core->params.reliable },
        { UNETMM_REG_WINDOW_PAGES, core->params.window_pages },
        { UNETMM_REG_PROXY_PAGES, core->params.proxy_pages },
        { UNETMM_REG_SYSBUF_SLOTS, core->params.sysbuf_slots },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(limits); i++) {
        if (limits[i].offset == offset) {
            memcpy(value, (const char *)&core->params + limits[i].param,
                   sizeof(*value));
            return true;
        }
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(fixed); i++) {
        if (fixed[i].offset == offset) {
            *value = fixed[i].value;
            return true;
        }
    }
    return false;
}

/* A register that is a plain word; NULL: it is not one. */
static uint32_t *reg_word(UnetmmCore *core, uint32_t offset)
{
    switch (offset) {
    case UNETMM_REG_TEST_DMA_LEN:
        return &core->regs->test_dma_len;
    case UNETMM_REG_INV_SPACE:
        return &core->regs->inv_space;
    case UNETMM_REG_EP_SEL:
        return &core->regs->ep_sel;
    default:
        return NULL;
    }
}

/* The 64-bit value of which a register is one half; NULL: it is not one. */
static uint64_t *reg_half(UnetmmCore *core, uint32_t offset, bool *high)
{
    *high = offset == UNETMM_REG_TEST_DMA_HI ||
            offset == UNETMM_REG_INV_START_HI ||
            offset == UNETMM_REG_INV_LAST_HI;
    switch (offset) {
    case UNETMM_REG_TEST_DMA_LO:
    case UNETMM_REG_TEST_DMA_HI:
        return &core->regs->test_dma;
    case UNETMM_REG_INV_START_LO:
    case UNETMM_REG_INV_START_HI:
        return &core->regs->inv_start;
    case UNETMM_REG_INV_LAST_LO:
    case UNETMM_REG_INV_LAST_HI:
        return &core->regs->inv_last;
    default:
        return NULL;
    }
}

static bool reg_read_state(UnetmmCore *core, uint32_t offset, uint32_t *value)
{
    const uint32_t *word = reg_word(core, offset);
    bool high;
    const uint64_t *half = reg_half(core, offset, &high);

    if (word) {
        *value = *word;
        return true;
    }
    if (half) {
        *value = high ? *half >> 32 : *half;
        return true;
    }
    switch (offset) {
    case UNETMM_REG_STATUS:
        *value = reg_status(core);
        return true;
    case UNETMM_REG_CTRL:
        *value = core->engine.ctrl;
        return true;
    case UNETMM_REG_EVENTS:
        *value = core->ring->events;
        return true;
    case UNETMM_REG_EVENT_MASK:
        *value = core->ring->event_mask;
        return true;
    case UNETMM_REG_TEST:
        *value = core->regs->test * 2;
        return true;
    case UNETMM_REG_CLOCK_LO:
        *value = core->ops->now_ns(core->host);
        return true;
    case UNETMM_REG_CLOCK_HI:
        *value = (uint64_t)core->ops->now_ns(core->host) >> 32;
        return true;
    case UNETMM_REG_TEST_DMA_RES:
        *value = core->regs->test_dma_res;
        return true;
    case UNETMM_REG_INV_CTRL:
        *value = unetmm_invalidate_busy(core) ? UNETMM_INV_BUSY : 0;
        return true;
    case UNETMM_REG_PROXY_ABORT:
    case UNETMM_REG_TEST_IRQ:
    case UNETMM_REG_TEST_DMA_OP:
        *value = 0;
        return true;
    default:
        return false;
    }
}

/* Counter windows.  The low word latches the high one. */
static bool reg_read_counter(UnetmmCore *core, uint32_t offset,
                             uint32_t *value)
{
    const uint64_t *counters = core->counters;
    uint32_t base = UNETMM_REG_COUNTER(0);
    static const uint64_t none[UNETMM_NUM_COUNTERS];

    if (offset >= UNETMM_REG_EP_COUNTER(0)) {
        UnetmmEp *ep = unetmm_ep_live(core, core->regs->ep_sel);

        base = UNETMM_REG_EP_COUNTER(0);
        counters = ep ? ep->counters : none;
    }
    if (offset < base || (offset - base) / 8 >= UNETMM_NUM_COUNTERS) {
        return false;
    }
    if (offset & 4) {
        *value = core->regs->latch_hi;
    } else {
        uint64_t v = counters[(offset - base) / 8];

        *value = v;
        core->regs->latch_hi = v >> 32;
    }
    return true;
}

/* The ring and the register in its block; false: not a ring's register. */
static bool reg_ring(uint32_t offset, unsigned *ring, uint32_t *reg)
{
    uint32_t first = UNETMM_REG_RING(0);
    uint32_t stride = UNETMM_REG_RING(1) - first;

    if (offset < first || offset >= UNETMM_REG_RING(UNETMM_NUM_RINGS)) {
        return false;
    }
    *ring = (offset - first) / stride;
    *reg = (offset - first) % stride;
    return *reg <= UNETMM_RING_MODERATE;
}

static void reg_illegal(UnetmmCore *core, const char *what, uint32_t offset,
                        uint32_t value, unsigned bytes)
{
    core->counters[UNETMM_C_err_register]++;
    UNETMM_GUEST_ERR(register, "illegal register access: %s 0x%x, value 0x%x, "
                     "%u bytes", what, offset, value, bytes);
}

uint32_t unetmm_core_read(UnetmmCore *core, uint32_t offset, unsigned bytes)
{
    uint32_t value = 0, reg;
    unsigned ring;

    if (bytes != 4 || offset % 4) {
        reg_illegal(core, "read", offset, 0, bytes);
        return 0;
    }
    if (reg_ring(offset, &ring, &reg)) {
        value = unetmm_ring_register(core, ring, reg);
    } else if (!reg_read_identity(core, offset, &value) &&
               !reg_read_state(core, offset, &value) &&
               !reg_read_counter(core, offset, &value)) {
        reg_illegal(core, "read", offset, 0, bytes);
    }
    trace_unetmm_reg_read(offset, value);
    return value;
}

static void reg_write_ctrl(UnetmmCore *core, uint32_t value)
{
    if (value & UNETMM_CTRL_RESET) {
        core->engine.reset_wanted = true;
        return;
    }
    core->engine.ctrl = value & UNETMM_CTRL_ENABLE;
}

/* False: not a register that can be written, or not with this value. */
static bool reg_write_state(UnetmmCore *core, uint32_t offset, uint32_t value)
{
    UnetmmRegs *regs = core->regs;
    uint32_t *word = reg_word(core, offset);
    bool high;
    uint64_t *half = reg_half(core, offset, &high);

    if (word) {
        *word = value;
        return true;
    }
    if (half) {
        *half = high ? (*half & 0xffffffffull) | (uint64_t)value << 32 :
                       (*half & ~0xffffffffull) | value;
        return true;
    }
    switch (offset) {
    case UNETMM_REG_CTRL:
        reg_write_ctrl(core, value);
        return true;
    case UNETMM_REG_EVENTS:
        unetmm_events_clear(core, value);
        return true;
    case UNETMM_REG_EVENT_MASK:
        unetmm_events_mask(core, value);
        return true;
    case UNETMM_REG_TEST:
        regs->test = value;
        return true;
    case UNETMM_REG_TEST_IRQ:
        if (value >= UNETMM_NUM_VECTORS) {
            return false;
        }
        core->ops->interrupt(core->host, value);
        return true;
    case UNETMM_REG_TEST_DMA_OP:
        regs->test_dma_res = unetmm_dma_test(core, value, regs->test_dma,
                                             regs->test_dma_len);
        return true;
    case UNETMM_REG_PROXY_ABORT:
        unetmm_proxy_abort(core);
        return true;
    case UNETMM_REG_INV_CTRL:
        if (value & 1) {
            unetmm_invalidate(core, regs->inv_space, regs->inv_start,
                              regs->inv_last);
        }
        return true;
    default:
        return false;
    }
}

void unetmm_core_write(UnetmmCore *core, uint32_t offset, uint32_t value,
                       unsigned bytes)
{
    unsigned ring;
    uint32_t reg;
    bool ok;

    unetmm_engine_enter(core);
    trace_unetmm_reg_write(offset, value);
    if (bytes != 4 || offset % 4) {
        ok = false;
    } else if (reg_ring(offset, &ring, &reg)) {
        ok = unetmm_ring_configure(core, ring, reg, value);
        if (ring == UNETMM_RING_FAULT &&
            (reg == UNETMM_RING_CONS || reg == UNETMM_RING_ENABLE)) {
            unetmm_miss_ring_moved(core);
        }
    } else {
        ok = reg_write_state(core, offset, value);
    }
    if (!ok) {
        reg_illegal(core, "write", offset, value, bytes);
    }
    unetmm_engine_leave(core);
}

static void regs_create(UnetmmCore *core)
{
    core->regs = g_new0(UnetmmRegs, 1);
}

static void regs_reset(UnetmmCore *core)
{
    core->engine.ctrl = core->engine.status = 0;
    memset(core->regs, 0, sizeof(*core->regs));
}

static void regs_free(UnetmmCore *core)
{
    g_clear_pointer(&core->regs, g_free);
}

static const UnetmmField engine_fields[] = {
    UNETMM_FIELD_RANGE(UnetmmEngine, ctrl, 0, UNETMM_CTRL_ENABLE),
};

static const UnetmmField event_fields[] = {
    UNETMM_FIELD_RANGE(UnetmmRings, events, 0, UNETMM_EVENT_ALL),
    UNETMM_FIELD_RANGE(UnetmmRings, event_mask, 0, UNETMM_EVENT_ALL),
};

static const UnetmmField status_fields[] = {
    UNETMM_FIELD_RANGE(UnetmmEngine, status, 0, UNETMM_STATUS_FATAL),
};

static const UnetmmField regs_fields[] = {
    UNETMM_FIELDS(UnetmmRegs, test, test_dma_len, test_dma_res, ep_sel,
                  latch_hi, inv_space, test_dma, inv_start, inv_last),
};

static void registers_save(UnetmmStream *st, UnetmmCore *core)
{
    unetmm_stream_enter(st, "registers", UNETMM_STREAM_ONE);
    UNETMM_STREAM_FIELDS(st, &core->engine, engine_fields);
    UNETMM_STREAM_FIELDS(st, core->ring, event_fields);
    UNETMM_STREAM_FIELDS(st, &core->engine, status_fields);
    if (core->engine.status & ~UNETMM_STATUS_FATAL) {
        unetmm_stream_refuse(st, "STATUS has bits that are not kept in it");
    }
    UNETMM_STREAM_FIELDS(st, core->regs, regs_fields);
    unetmm_invalidate_save(st, core);
    unetmm_stream_leave(st);
}

const UnetmmModule unetmm_module_regs = {
    .name = "regs",
    .create = regs_create,
    .reset = regs_reset,
    .free = regs_free,
    .save = registers_save,
};
