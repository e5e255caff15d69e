/*
 * unetmm: the registers
 *
 * Every access is 4 bytes at a multiple of 4.  Anything else, and any offset
 * that is not in the specification, reads as zero and is ignored when written;
 * it is counted and logged as the guest's error.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "unetmm_host.h"
#include "unetmm_core.h"

static uint32_t reg_status(const UnetmmCore *core)
{
    return core->status | (core->port.link ? UNETMM_STATUS_LINK : 0) |
           (core->ctrl & UNETMM_CTRL_ENABLE ? UNETMM_STATUS_ENABLED : 0);
}

static uint32_t reg_sources(void)
{
    uint32_t bits = 0;

    for (unsigned i = 0; i < 32; i++) {
        bits |= unetmm_source_by_id(i) ? 1u << i : 0;
    }
    return bits;
}

static uint32_t reg_policies(void)
{
    uint32_t bits = 0;

    for (unsigned i = 0; i < 32; i++) {
        bits |= unetmm_policy_by_id(i) ? 1u << i : 0;
    }
    return bits;
}

/* What the card is and can do.  False: not one of these registers. */
static bool reg_read_identity(const UnetmmCore *core, uint32_t offset,
                              uint32_t *value)
{
    const UnetmmParams *p = &core->params;
    uint64_t mac = unetmm_mac_to_u64(p->mac);

    switch (offset) {
    case UNETMM_REG_ID:           *value = UNETMM_ID_VALUE; break;
    case UNETMM_REG_VERSION:      *value = UNETMM_VERSION_VALUE; break;
    case UNETMM_REG_CAPS:
        *value = UNETMM_CAP_LOCAL | UNETMM_CAP_INLINE_RECV;
        break;
    case UNETMM_REG_MAC_LO:       *value = mac; break;
    case UNETMM_REG_MAC_HI:       *value = mac >> 32; break;
    case UNETMM_REG_USER_MTU:     *value = p->user_mtu; break;
    case UNETMM_REG_DB_STRIDE:    *value = UNETMM_PAGE_BYTES; break;
    case UNETMM_REG_ENDPOINTS:    *value = p->endpoints; break;
    case UNETMM_REG_SPACES:       *value = p->spaces; break;
    case UNETMM_REG_CHANNELS:     *value = p->channels; break;
    case UNETMM_REG_MAX_LOG2:     *value = UNETMM_MAX_RING_LOG2; break;
    case UNETMM_REG_TLB_SETS:     *value = p->tlb_sets; break;
    case UNETMM_REG_TLB_WAYS:     *value = p->tlb_ways; break;
    case UNETMM_REG_TLB_VICTIMS:  *value = p->tlb_victims; break;
    case UNETMM_REG_PRETRANSLATE: *value = p->pretranslate; break;
    case UNETMM_REG_MAX_FAULTS:   *value = p->max_faults; break;
    case UNETMM_REG_SOURCES:      *value = reg_sources(); break;
    case UNETMM_REG_POLICIES:     *value = reg_policies(); break;
    default:
        return false;
    }
    return true;
}

static bool reg_read_state(UnetmmCore *core, uint32_t offset, uint32_t *value)
{
    switch (offset) {
    case UNETMM_REG_STATUS:       *value = reg_status(core); break;
    case UNETMM_REG_CTRL:         *value = core->ctrl; break;
    case UNETMM_REG_EVENTS:       *value = core->events; break;
    case UNETMM_REG_EVENT_MASK:   *value = core->event_mask; break;
    case UNETMM_REG_TEST:         *value = core->test * 2; break;
    case UNETMM_REG_TEST_DMA_LO:  *value = core->test_dma; break;
    case UNETMM_REG_TEST_DMA_HI:  *value = core->test_dma >> 32; break;
    case UNETMM_REG_TEST_DMA_LEN: *value = core->test_dma_len; break;
    case UNETMM_REG_TEST_DMA_RES: *value = core->test_dma_res; break;
    case UNETMM_REG_INV_SPACE:    *value = core->inv_space; break;
    case UNETMM_REG_INV_START_LO: *value = core->inv_start; break;
    case UNETMM_REG_INV_START_HI: *value = core->inv_start >> 32; break;
    case UNETMM_REG_INV_LAST_LO:  *value = core->inv_last; break;
    case UNETMM_REG_INV_LAST_HI:  *value = core->inv_last >> 32; break;
    case UNETMM_REG_INV_CTRL:
        *value = unetmm_invalidate_busy(core) ? UNETMM_INV_BUSY : 0;
        break;
    case UNETMM_REG_EP_SEL:       *value = core->ep_sel; break;
    case UNETMM_REG_TEST_IRQ:
    case UNETMM_REG_TEST_DMA_OP:  *value = 0; break;
    default:
        return false;
    }
    return true;
}

/* Counter windows.  The low word latches the high one. */
static bool reg_read_counter(UnetmmCore *core, uint32_t offset,
                             uint32_t *value)
{
    const uint64_t *counters = core->counters;
    uint32_t base = UNETMM_REG_COUNTER(0);
    static const uint64_t none[UNETMM_NUM_COUNTERS];

    if (offset >= UNETMM_REG_EP_COUNTER(0)) {
        UnetmmEp *ep = unetmm_ep_live(core, core->ep_sel);

        base = UNETMM_REG_EP_COUNTER(0);
        counters = ep ? ep->counters : none;
    }
    if (offset < base || (offset - base) / 8 >= UNETMM_NUM_COUNTERS) {
        return false;
    }
    if (offset & 4) {
        *value = core->latch_hi;
    } else {
        uint64_t v = counters[(offset - base) / 8];

        *value = v;
        core->latch_hi = v >> 32;
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

static void reg_set_half(uint64_t *v, bool high, uint32_t value)
{
    if (high) {
        *v = (*v & 0xffffffffull) | (uint64_t)value << 32;
    } else {
        *v = (*v & ~0xffffffffull) | value;
    }
}

static void reg_write_events(UnetmmCore *core, uint32_t value)
{
    core->events &= ~value;
    /* What is still there must not wait for the next event to be seen. */
    if (core->events & core->event_mask) {
        unetmm_irq_want(core, UNETMM_VEC_EVENT);
    }
}

static void reg_write_ctrl(UnetmmCore *core, uint32_t value)
{
    if (value & UNETMM_CTRL_RESET) {
        core->reset_wanted = true;
        return;
    }
    core->ctrl = value & UNETMM_CTRL_ENABLE;
}

/* False: not a register that can be written, or not with this value. */
static bool reg_write_state(UnetmmCore *core, uint32_t offset, uint32_t value)
{
    switch (offset) {
    case UNETMM_REG_CTRL:
        reg_write_ctrl(core, value);
        break;
    case UNETMM_REG_EVENTS:
        reg_write_events(core, value);
        break;
    case UNETMM_REG_EVENT_MASK:
        core->event_mask = value & UNETMM_EVENT_ALL;
        reg_write_events(core, 0);
        break;
    case UNETMM_REG_TEST:         core->test = value; break;
    case UNETMM_REG_TEST_IRQ:
        if (value >= UNETMM_NUM_VECTORS) {
            return false;
        }
        core->ops->interrupt(core->host, value);
        break;
    case UNETMM_REG_TEST_DMA_LO:
    case UNETMM_REG_TEST_DMA_HI:
        reg_set_half(&core->test_dma, offset == UNETMM_REG_TEST_DMA_HI, value);
        break;
    case UNETMM_REG_TEST_DMA_LEN: core->test_dma_len = value; break;
    case UNETMM_REG_TEST_DMA_OP:
        core->test_dma_res = unetmm_dma_test(core, value);
        break;
    case UNETMM_REG_INV_SPACE:    core->inv_space = value; break;
    case UNETMM_REG_INV_START_LO:
    case UNETMM_REG_INV_START_HI:
        reg_set_half(&core->inv_start, offset == UNETMM_REG_INV_START_HI,
                     value);
        break;
    case UNETMM_REG_INV_LAST_LO:
    case UNETMM_REG_INV_LAST_HI:
        reg_set_half(&core->inv_last, offset == UNETMM_REG_INV_LAST_HI, value);
        break;
    case UNETMM_REG_INV_CTRL:
        if (value & 1) {
            unetmm_invalidate(core);
        }
        break;
    case UNETMM_REG_EP_SEL:       core->ep_sel = value; break;
    default:
        return false;
    }
    return true;
}

/* A ring has moved: what waited for room may go on. */
static void reg_ring_written(UnetmmCore *core, unsigned ring, uint32_t reg)
{
    if (ring == UNETMM_RING_FAULT && reg == UNETMM_RING_CONS) {
        unetmm_miss_room(core);
    }
}

void unetmm_core_write(UnetmmCore *core, uint32_t offset, uint32_t value,
                       unsigned bytes)
{
    unsigned ring;
    uint32_t reg;
    bool ok;

    unetmm_enter(core);
    trace_unetmm_reg_write(offset, value);
    if (bytes != 4 || offset % 4) {
        ok = false;
    } else if (reg_ring(offset, &ring, &reg)) {
        ok = unetmm_ring_configure(core, ring, reg, value);
        reg_ring_written(core, ring, reg);
    } else {
        ok = reg_write_state(core, offset, value);
    }
    if (!ok) {
        reg_illegal(core, "write", offset, value, bytes);
    }
    unetmm_leave(core);
}
