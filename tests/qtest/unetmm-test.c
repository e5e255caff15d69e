/*
 * unetmm qtests: the PCI function, the registers, the interrupts
 *
 * Also the libqos node: one card on every machine with a "pci-bus", and on
 * q35, which libqos does not have.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/host-utils.h"
#include "hw/pci/pci_ids.h"
#include "hw/pci/pci_regs.h"
#include "libqos/malloc-pc.h"
#include "libqos/pci-pc.h"
#include "qemu/module.h"
#include "unetmm-lib.h"

#define Q35_BUS "unetmm-q35-bus"
#define EDU_DEVFN QPCI_DEVFN(5, 0)
#define EDU_LIVENESS 0x04       /* reads back the complement */

/* ---- The PCI function --------------------------------------------------- */

static void test_identity(void *obj, void *data, QGuestAllocator *alloc)
{
    QUnetmm *c = obj;
    uint8_t cap;

    g_assert_cmphex(qpci_config_readw(&c->dev, PCI_VENDOR_ID), ==,
                    UNETMM_PCI_VENDOR_ID);
    g_assert_cmphex(qpci_config_readw(&c->dev, PCI_DEVICE_ID), ==,
                    UNETMM_PCI_DEVICE_ID);
    g_assert_cmphex(qpci_config_readw(&c->dev, PCI_CLASS_DEVICE), ==,
                    PCI_CLASS_NETWORK_ETHERNET);
    g_assert_cmphex(qpci_config_readb(&c->dev, PCI_REVISION_ID), ==, 1);
    g_assert_cmphex(qpci_config_readb(&c->dev, PCI_INTERRUPT_PIN), ==, 0);
    g_assert_cmpuint(qpci_msix_table_size(&c->dev), ==, UNETMM_NUM_VECTORS);
    cap = qpci_find_capability(&c->dev, PCI_CAP_ID_MSIX, 0);
    g_assert_cmphex(qpci_config_readl(&c->dev, cap + PCI_MSIX_TABLE) &
                    PCI_MSIX_FLAGS_BIRMASK, ==, UNETMM_BAR_REGS);
    cap = qpci_find_capability(&c->dev, PCI_CAP_ID_EXP, 0);
    g_assert_cmphex(cap, !=, 0);
    g_assert_true(qpci_config_readl(&c->dev, cap + PCI_EXP_DEVCAP) &
                  PCI_EXP_DEVCAP_FLR);
}

static void check_bar(QUnetmm *c, unsigned bar, uint32_t type, uint32_t bytes)
{
    uint32_t at = PCI_BASE_ADDRESS_0 + 4 * bar;
    uint32_t old = qpci_config_readl(&c->dev, at);
    uint32_t value;

    qpci_config_writel(&c->dev, at, UINT32_MAX);
    value = qpci_config_readl(&c->dev, at);
    qpci_config_writel(&c->dev, at, old);
    g_assert_cmphex(value & ~PCI_BASE_ADDRESS_MEM_MASK, ==, type);
    g_assert_cmphex(value & PCI_BASE_ADDRESS_MEM_MASK, ==, -bytes);
}

static void test_bars(void *obj, void *data, QGuestAllocator *alloc)
{
    QUnetmm *c = obj;
    uint32_t doorbells = qunetmm_read(c, UNETMM_REG_ENDPOINTS) *
                         UNETMM_PAGE_BYTES;
    uint32_t proxies = qunetmm_read(c, UNETMM_REG_PROXY_PAGES) *
                       UNETMM_PAGE_BYTES;
    uint32_t windows = qunetmm_read(c, UNETMM_REG_WINDOW_PAGES) *
                       UNETMM_PAGE_BYTES;

    check_bar(c, UNETMM_BAR_REGS, PCI_BASE_ADDRESS_MEM_TYPE_32,
              UNETMM_BAR_REGS_BYTES);
    check_bar(c, UNETMM_BAR_PROXY, PCI_BASE_ADDRESS_MEM_TYPE_32,
              pow2ceil(proxies));
    check_bar(c, UNETMM_BAR_DOORBELL, PCI_BASE_ADDRESS_MEM_TYPE_64 |
              PCI_BASE_ADDRESS_MEM_PREFETCH, pow2ceil(doorbells));
    check_bar(c, UNETMM_BAR_WINDOWS, PCI_BASE_ADDRESS_MEM_TYPE_64 |
              PCI_BASE_ADDRESS_MEM_PREFETCH, pow2ceil(windows));
}

/*
 * A bridge or a processor may load from a prefetchable BAR without being asked
 * to, and twice: such loads have no effect, whatever is at the place.
 */
static void test_prefetch(void *obj, void *data, QGuestAllocator *alloc)
{
    QUnetmm *c = obj;
    QTestState *qts = c->dev.bus->qts;
    unsigned found = 0;

    for (unsigned bar = 0; bar < 6; bar++) {
        uint8_t at = PCI_BASE_ADDRESS_0 + 4 * bar;
        uint32_t flags = qpci_config_readl(&c->dev, at);
        QPCIBar mapped;
        uint64_t bytes;

        if (flags & PCI_BASE_ADDRESS_MEM_PREFETCH) {
            mapped = qpci_iomap(&c->dev, bar, &bytes);
            for (uint64_t i = 0; i < bytes; i += UNETMM_PAGE_BYTES) {
                qtest_readl(qts, mapped.addr + i);
            }
            found++;
        }
        bar += !!(flags & PCI_BASE_ADDRESS_MEM_TYPE_64);
    }
    g_assert_cmpuint(found, ==, 2);
    for (unsigned i = 0; i < UNETMM_NUM_COUNTERS; i++) {
        g_assert_cmpuint(qunetmm_counter(c, i), ==, 0);
    }
}

/* ---- Registers ---------------------------------------------------------- */

static void test_reset_values(void *obj, void *data, QGuestAllocator *alloc)
{
    static const struct {
        uint32_t reg, value;
    } expected[] = {
        { UNETMM_REG_ID, UNETMM_ID_VALUE },
        { UNETMM_REG_VERSION, UNETMM_VERSION_VALUE },
        { UNETMM_REG_CAPS, UNETMM_CAP_BIND | UNETMM_CAP_UD | UNETMM_CAP_LONG |
          UNETMM_CAP_BACKUP | UNETMM_CAP_KEYED | UNETMM_CAP_SHARED |
          UNETMM_CAP_ACK_WRITE | UNETMM_CAP_VERBS | UNETMM_CAP_ACK_ALONG |
          UNETMM_CAP_PROXIES | UNETMM_CAP_EVENT_COUNTERS | UNETMM_CAP_WINDOWS |
          UNETMM_CAP_LOCAL | UNETMM_CAP_INLINE_RECV | UNETMM_CAP_SYSBUF |
          UNETMM_CAP_RELIABLE | UNETMM_CAP_ETHERNET | UNETMM_CAP_IMMEDIATE |
          UNETMM_CAP_ONE_SIDED },
        { UNETMM_REG_STATUS, UNETMM_STATUS_LINK }, { UNETMM_REG_CTRL, 0 },
        { UNETMM_REG_EVENTS, 0 }, { UNETMM_REG_EVENT_MASK, 0 },
        { UNETMM_REG_USER_MTU, UNETMM_DEFAULT_MTU },
        { UNETMM_REG_DB_STRIDE, UNETMM_PAGE_BYTES },
        { UNETMM_REG_ENDPOINTS, 256 }, { UNETMM_REG_SPACES, 128 },
        { UNETMM_REG_CHANNELS, 1024 }, { UNETMM_REG_IMPORTS, 1024 },
        { UNETMM_REG_MAX_LOG2, UNETMM_MAX_RING_LOG2 },
        { UNETMM_REG_TLB_SETS, 1024 }, { UNETMM_REG_TLB_WAYS, 1 },
        { UNETMM_REG_TLB_VICTIMS, 16 }, { UNETMM_REG_PRETRANSLATE, 8 },
        { UNETMM_REG_MAX_FAULTS, 64 },
        { UNETMM_REG_SOURCES, 1u << UNETMM_SOURCE_DIRECT |
          1u << UNETMM_SOURCE_PINNED | 1u << UNETMM_SOURCE_TLB |
          1u << UNETMM_SOURCE_KTLB | 1u << UNETMM_SOURCE_UTLB |
          1u << UNETMM_SOURCE_SHADOW | 1u << UNETMM_SOURCE_ODP },
        { UNETMM_REG_POLICIES, 1u << UNETMM_POLICY_DROP |
          1u << UNETMM_POLICY_SKIP | 1u << UNETMM_POLICY_REDIRECT |
          1u << UNETMM_POLICY_RNR | 1u << UNETMM_POLICY_BACKUP },
        { UNETMM_REG_RELIABLE, 2048 }, { UNETMM_REG_REGIONS, 4096 },
        { UNETMM_REG_WINDOW_PAGES, 256 }, { UNETMM_REG_PROXY_PAGES, 256 },
        { UNETMM_REG_PROXY_ABORT, 0 }, { UNETMM_REG_SYSBUF_SLOTS, 256 },
        { UNETMM_REG_FLOWS, 256 }, { UNETMM_REG_BACKUP_BITS, 4096 },
        { UNETMM_REG_TEST, 0 }, { UNETMM_REG_TEST_IRQ, 0 },
        { UNETMM_REG_TEST_DMA_LO, 0 }, { UNETMM_REG_TEST_DMA_HI, 0 },
        { UNETMM_REG_TEST_DMA_LEN, 0 }, { UNETMM_REG_TEST_DMA_OP, 0 },
        { UNETMM_REG_TEST_DMA_RES, 0 }, { UNETMM_REG_INV_SPACE, 0 },
        { UNETMM_REG_INV_START_LO, 0 }, { UNETMM_REG_INV_START_HI, 0 },
        { UNETMM_REG_INV_LAST_LO, 0 }, { UNETMM_REG_INV_LAST_HI, 0 },
        { UNETMM_REG_INV_CTRL, 0 }, { UNETMM_REG_EP_SEL, 0 },
    };
    QUnetmm *c = obj;

    for (unsigned i = 0; i < G_N_ELEMENTS(expected); i++) {
        g_assert_cmphex(qunetmm_read(c, expected[i].reg), ==,
                        expected[i].value);
    }
    for (unsigned r = 0; r < UNETMM_NUM_RINGS; r++) {
        for (uint32_t reg = 0; reg <= UNETMM_RING_MODERATE; reg += 4) {
            g_assert_cmphex(qunetmm_ring_read(c, r, reg), ==, 0);
        }
    }
    for (unsigned i = 0; i < UNETMM_NUM_COUNTERS; i++) {
        g_assert_cmpuint(qunetmm_counter(c, i), ==, 0);
        g_assert_cmpuint(qunetmm_ep_counter(c, 0, i), ==, 0);
    }
    g_assert_cmpuint(qunetmm_counter(c, UNETMM_C_err_register), ==, 0);
}

/* Reads as zero, changes nothing, and is counted: once for each access. */
static void check_illegal(QUnetmm *c, uint64_t *errors)
{
    *errors += 1;
    g_assert_cmpuint(qunetmm_counter(c, UNETMM_C_err_register), ==, *errors);
}

static void test_access_sizes(void *obj, void *data, QGuestAllocator *alloc)
{
    QUnetmm *c = obj;
    QTestState *qts = c->dev.bus->qts;
    uint64_t at = c->regs.addr + UNETMM_REG_TEST;
    uint64_t errors = 0;

    qunetmm_write(c, UNETMM_REG_TEST, 0x12345678);
    g_assert_cmphex(qunetmm_read(c, UNETMM_REG_TEST), ==, 0x2468acf0);
    g_assert_cmphex(qtest_readb(qts, at), ==, 0);
    check_illegal(c, &errors);
    g_assert_cmphex(qtest_readw(qts, at), ==, 0);
    check_illegal(c, &errors);
    g_assert_cmphex(qtest_readq(qts, at), ==, 0);
    check_illegal(c, &errors);
    for (unsigned i = 1; i < 4; i++) {
        g_assert_cmphex(qtest_readl(qts, at + i), ==, 0);
        check_illegal(c, &errors);
        qtest_writel(qts, at + i, UINT32_MAX);
        check_illegal(c, &errors);
    }
    qtest_writeb(qts, at, 0xff);
    check_illegal(c, &errors);
    qtest_writew(qts, at, 0xffff);
    check_illegal(c, &errors);
    qtest_writeq(qts, at, UINT64_MAX);
    check_illegal(c, &errors);
    g_assert_cmphex(qunetmm_read(c, UNETMM_REG_TEST), ==, 0x2468acf0);
    /* A wide access to the end of one register does not reach the next. */
    qtest_writeq(qts, c->regs.addr + UNETMM_REG_TEST_DMA_LO, UINT64_MAX);
    check_illegal(c, &errors);
    g_assert_cmphex(qunetmm_read(c, UNETMM_REG_TEST_DMA_LO), ==, 0);
    g_assert_cmphex(qunetmm_read(c, UNETMM_REG_TEST_DMA_HI), ==, 0);
}

static void test_holes(void *obj, void *data, QGuestAllocator *alloc)
{
    static const uint32_t holes[] = {
        0x001c, 0x00a4, 0x00fc,
        UNETMM_REG_RING(0) + UNETMM_RING_MODERATE + 4,
        UNETMM_REG_RING(UNETMM_NUM_RINGS), 0x0218, 0x0224, 0x0ffc,
        UNETMM_REG_COUNTER(UNETMM_NUM_COUNTERS),
        UNETMM_REG_EP_COUNTER(UNETMM_NUM_COUNTERS), 0x3000,
        UNETMM_REGS_BYTES - 4,
    };
    QUnetmm *c = obj;
    uint64_t errors = 0;

    for (unsigned i = 0; i < G_N_ELEMENTS(holes); i++) {
        g_assert_cmphex(qunetmm_read(c, holes[i]), ==, 0);
        check_illegal(c, &errors);
        qunetmm_write(c, holes[i], UINT32_MAX);
        check_illegal(c, &errors);
        g_assert_cmphex(qunetmm_read(c, holes[i]), ==, 0);
        check_illegal(c, &errors);
    }
}

static void test_read_only(void *obj, void *data, QGuestAllocator *alloc)
{
    static const uint32_t regs[] = {
        UNETMM_REG_ID, UNETMM_REG_VERSION, UNETMM_REG_CAPS,
        UNETMM_REG_STATUS, UNETMM_REG_MAC_LO, UNETMM_REG_MAC_HI,
        UNETMM_REG_USER_MTU, UNETMM_REG_DB_STRIDE, UNETMM_REG_ENDPOINTS,
        UNETMM_REG_SPACES, UNETMM_REG_CHANNELS, UNETMM_REG_MAX_LOG2,
        UNETMM_REG_TLB_SETS, UNETMM_REG_TLB_WAYS, UNETMM_REG_TLB_VICTIMS,
        UNETMM_REG_PRETRANSLATE, UNETMM_REG_MAX_FAULTS, UNETMM_REG_SOURCES,
        UNETMM_REG_POLICIES, UNETMM_REG_RELIABLE, UNETMM_REG_REGIONS,
        UNETMM_REG_IMPORTS, UNETMM_REG_TEST_DMA_RES,
        UNETMM_REG_FLOWS, UNETMM_REG_BACKUP_BITS,
        UNETMM_REG_COUNTER(UNETMM_C_tx_frames),
        UNETMM_REG_EP_COUNTER(UNETMM_C_tx_frames),
        UNETMM_REG_RING(UNETMM_RING_CMD) + UNETMM_RING_CONS,
        UNETMM_REG_RING(UNETMM_RING_CMDC) + UNETMM_RING_PROD,
        UNETMM_REG_RING(UNETMM_RING_FAULT) + UNETMM_RING_PROD,
        UNETMM_REG_RING(UNETMM_RING_NOTIFY) + UNETMM_RING_PROD,
        UNETMM_REG_RING(UNETMM_RING_BACKUP) + UNETMM_RING_CONS,
    };
    QUnetmm *c = obj;
    uint64_t errors = 0;

    for (unsigned i = 0; i < G_N_ELEMENTS(regs); i++) {
        uint32_t value = qunetmm_read(c, regs[i]);

        qunetmm_write(c, regs[i], ~value);
        check_illegal(c, &errors);
        g_assert_cmphex(qunetmm_read(c, regs[i]), ==, value);
    }
}

static void test_masked_bits(void *obj, void *data, QGuestAllocator *alloc)
{
    QUnetmm *c = obj;

    qunetmm_write(c, UNETMM_REG_EVENT_MASK, UINT32_MAX);
    g_assert_cmphex(qunetmm_read(c, UNETMM_REG_EVENT_MASK), ==,
                    UNETMM_EVENT_ALL);
    qunetmm_write(c, UNETMM_REG_CTRL, ~UNETMM_CTRL_RESET);
    g_assert_cmphex(qunetmm_read(c, UNETMM_REG_CTRL), ==, UNETMM_CTRL_ENABLE);
    g_assert_cmphex(qunetmm_read(c, UNETMM_REG_STATUS), ==,
                    UNETMM_STATUS_LINK | UNETMM_STATUS_ENABLED);
    for (uint32_t reg = UNETMM_REG_INV_SPACE; reg <= UNETMM_REG_INV_LAST_HI;
         reg += 4) {
        qunetmm_write(c, reg, 0x9e370000 + reg);
    }
    for (uint32_t reg = UNETMM_REG_INV_SPACE; reg <= UNETMM_REG_INV_LAST_HI;
         reg += 4) {
        g_assert_cmphex(qunetmm_read(c, reg), ==, 0x9e370000 + reg);
    }
}

static void test_doorbell_page(void *obj, void *data, QGuestAllocator *alloc)
{
    QUnetmm *c = obj;
    QTestState *qts = c->dev.bus->qts;
    uint32_t endpoints = qunetmm_read(c, UNETMM_REG_ENDPOINTS);

    g_assert_cmphex(qtest_readl(qts, c->doorbells.addr), ==, 0);
    g_assert_cmphex(qtest_readq(qts, c->doorbells.addr + 0x123), ==, 0);
    for (uint32_t i = 0; i < endpoints; i += 17) {
        qunetmm_doorbell(c, i);
        g_assert_cmpuint(qunetmm_counter(c, UNETMM_C_err_doorbell), ==,
                         i / 17 + 1);
    }
    g_assert_cmpuint(qunetmm_counter(c, UNETMM_C_doorbells), ==, 0);
}

/* ---- Interrupts --------------------------------------------------------- */

static void test_irq(void *obj, void *data, QGuestAllocator *alloc)
{
    QUnetmm *c = obj;

    qunetmm_msix(c, true);
    for (unsigned v = 0; v < UNETMM_NUM_VECTORS; v++) {
        qunetmm_write(c, UNETMM_REG_TEST_IRQ, v);
        for (unsigned i = 0; i < UNETMM_NUM_VECTORS; i++) {
            g_assert_cmpint(qunetmm_msix_pending(c, i), ==, i == v);
            g_assert_false(qunetmm_msi_taken(c, i));
        }
        qunetmm_msix_mask(c, v, false);
        g_assert_true(qunetmm_msi_taken(c, v));
        g_assert_false(qunetmm_msix_pending(c, v));
        qunetmm_write(c, UNETMM_REG_TEST_IRQ, v);
        g_assert_true(qunetmm_msi_taken(c, v));
        g_assert_false(qunetmm_msix_pending(c, v));
    }
    qunetmm_write(c, UNETMM_REG_TEST_IRQ, UNETMM_NUM_VECTORS);
    g_assert_cmpuint(qunetmm_counter(c, UNETMM_C_err_register), ==, 1);
    for (unsigned v = 0; v < UNETMM_NUM_VECTORS; v++) {
        g_assert_false(qunetmm_msi_taken(c, v));
    }
}

/* An event that is masked raises nothing until it is unmasked. */
static void test_event_mask(void *obj, void *data, QGuestAllocator *alloc)
{
    struct unetmm_cmd nop = { .opcode = UNETMM_CMD_NOP };
    QUnetmm *c = obj;

    qunetmm_start(c, 3);
    g_assert_cmpuint(qunetmm_cmd(c, &nop, NULL), ==, UNETMM_CS_OK);
    g_assert_cmphex(qunetmm_read(c, UNETMM_REG_EVENTS), ==, UNETMM_EVENT_CMD);
    g_assert_false(qunetmm_msi_taken(c, UNETMM_VEC_EVENT));
    qunetmm_write(c, UNETMM_REG_EVENT_MASK, UNETMM_EVENT_CMD);
    g_assert_true(qunetmm_msi_taken(c, UNETMM_VEC_EVENT));
    qunetmm_write(c, UNETMM_REG_EVENTS, ~UNETMM_EVENT_CMD);
    g_assert_cmphex(qunetmm_read(c, UNETMM_REG_EVENTS), ==, UNETMM_EVENT_CMD);
    g_assert_true(qunetmm_msi_taken(c, UNETMM_VEC_EVENT));
    qunetmm_write(c, UNETMM_REG_EVENTS, UNETMM_EVENT_CMD);
    g_assert_cmphex(qunetmm_read(c, UNETMM_REG_EVENTS), ==, 0);
    g_assert_false(qunetmm_msi_taken(c, UNETMM_VEC_EVENT));
    g_assert_cmpuint(qunetmm_cmd(c, &nop, NULL), ==, UNETMM_CS_OK);
    g_assert_true(qunetmm_msi_taken(c, UNETMM_VEC_EVENT));
}

/* With moderation the first goes at once, the next in time, none is lost. */
static void test_moderation(void *obj, void *data, QGuestAllocator *alloc)
{
    struct unetmm_cmd nop = { .opcode = UNETMM_CMD_NOP };
    QUnetmm *c = obj;
    QTestState *qts = c->dev.bus->qts;

    qunetmm_start(c, 4);
    qunetmm_write(c, UNETMM_REG_EVENT_MASK, UNETMM_EVENT_CMD);
    qtest_clock_step(qts, 5000);
    qunetmm_ring_write(c, UNETMM_RING_CMDC, UNETMM_RING_MODERATE, 1000);
    qunetmm_cmd(c, &nop, NULL);
    g_assert_true(qunetmm_msi_taken(c, UNETMM_VEC_EVENT));
    qunetmm_cmd(c, &nop, NULL);
    qunetmm_cmd(c, &nop, NULL);
    g_assert_false(qunetmm_msi_taken(c, UNETMM_VEC_EVENT));
    qtest_clock_step(qts, 999);
    g_assert_false(qunetmm_msi_taken(c, UNETMM_VEC_EVENT));
    qtest_clock_step(qts, 1);
    g_assert_true(qunetmm_msi_taken(c, UNETMM_VEC_EVENT));
    qtest_clock_step(qts, 5000);
    g_assert_false(qunetmm_msi_taken(c, UNETMM_VEC_EVENT));
    g_assert_cmpuint(qunetmm_counter(c, UNETMM_C_interrupts), ==, 2);
}

/* ---- DMA test ----------------------------------------------------------- */

static uint32_t dma_test(QUnetmm *c, uint64_t addr, uint32_t len, uint32_t op)
{
    qunetmm_write(c, UNETMM_REG_TEST_DMA_LO, addr);
    qunetmm_write(c, UNETMM_REG_TEST_DMA_HI, addr >> 32);
    qunetmm_write(c, UNETMM_REG_TEST_DMA_LEN, len);
    qunetmm_write(c, UNETMM_REG_TEST_DMA_OP, op);
    return qunetmm_read(c, UNETMM_REG_TEST_DMA_RES);
}

static void test_dma(void *obj, void *data, QGuestAllocator *alloc)
{
    static const struct {
        uint32_t offset, len;
    } cases[] = {
        { 0, 1 }, { 0, UNETMM_PAGE_BYTES }, { 3, 5 }, { 4093, 7 },
        { 1, UNETMM_PAGE_BYTES },
    };
    uint8_t bytes[UNETMM_PAGE_BYTES];
    QUnetmm *c = obj;
    QUnetmmBuf buf;

    qunetmm_buf(&buf, c, 2, 1);
    for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
        uint64_t at = buf.addr + cases[i].offset;
        uint32_t n = cases[i].len;

        for (uint32_t j = 0; j < n; j++) {
            bytes[j] = j;
        }
        g_assert_cmphex(dma_test(c, at, n, UNETMM_TEST_DMA_FILL), ==, 0);
        qunetmm_buf_expect(&buf, cases[i].offset, bytes, n);
        qunetmm_buf_check(&buf);
        for (uint32_t j = 0; j < n; j++) {
            bytes[j] = ~bytes[j];
        }
        g_assert_cmphex(dma_test(c, at, n, UNETMM_TEST_DMA_INVERT), ==, 0);
        qunetmm_buf_expect(&buf, cases[i].offset, bytes, n);
        qunetmm_buf_check(&buf);
    }
    g_assert_cmphex(dma_test(c, buf.addr, 0, UNETMM_TEST_DMA_FILL), ==,
                    UNETMM_TEST_DMA_FAILED);
    g_assert_cmphex(dma_test(c, buf.addr, UNETMM_PAGE_BYTES + 1,
                             UNETMM_TEST_DMA_FILL), ==,
                    UNETMM_TEST_DMA_FAILED);
    g_assert_cmphex(dma_test(c, buf.addr, 4, 0), ==, UNETMM_TEST_DMA_FAILED);
    g_assert_cmphex(dma_test(c, buf.addr, 4, UNETMM_TEST_DMA_INVERT + 1), ==,
                    UNETMM_TEST_DMA_FAILED);
    qunetmm_buf_check(&buf);
    qunetmm_buf_free(&buf);
}

static void check_dma_refused(QUnetmm *c, uint64_t addr, uint32_t len)
{
    uint64_t errors = qunetmm_counter(c, UNETMM_C_err_dma);

    g_assert_cmphex(dma_test(c, addr, len, UNETMM_TEST_DMA_FILL), ==,
                    UNETMM_TEST_DMA_FAILED);
    g_assert_cmphex(dma_test(c, addr, len, UNETMM_TEST_DMA_INVERT), ==,
                    UNETMM_TEST_DMA_FAILED);
    g_assert_cmpuint(qunetmm_counter(c, UNETMM_C_err_dma), ==, errors + 2);
}

/* DMA reaches RAM: no BAR, our own or another's, no ROM, no hole. */
static void test_dma_refused(void *obj, void *data, QGuestAllocator *alloc)
{
    QUnetmm *c = obj;
    QTestState *qts = c->dev.bus->qts;
    QPCIDevice *edu = qpci_device_find(c->dev.bus, EDU_DEVFN);
    QPCIBar other;

    g_assert_nonnull(edu);
    other = qpci_iomap(edu, 0, NULL);
    qpci_config_writew(edu, PCI_COMMAND, PCI_COMMAND_MEMORY);
    qpci_io_writel(edu, other, EDU_LIVENESS, 0x01234567);
    qunetmm_msix(c, true);
    qunetmm_write(c, UNETMM_REG_TEST, 0x1111);

    check_dma_refused(c, c->regs.addr + UNETMM_REG_TEST, 4);
    check_dma_refused(c, c->regs.addr + UNETMM_REG_CTRL, 4);
    check_dma_refused(c, c->regs.addr + UNETMM_REG_TEST_DMA_OP, 4);
    check_dma_refused(c, c->regs.addr + UNETMM_MSIX_TABLE, 16);
    check_dma_refused(c, c->doorbells.addr, 4);
    check_dma_refused(c, other.addr + EDU_LIVENESS, 4);
    check_dma_refused(c, 0xfffff000, 4096);     /* firmware */
    check_dma_refused(c, 1ull << 40, 1);
    check_dma_refused(c, UINT64_MAX - 1, 2);
    check_dma_refused(c, UINT64_MAX - 1, 4);    /* wraps */

    g_assert_cmphex(qunetmm_read(c, UNETMM_REG_TEST), ==, 0x2222);
    g_assert_cmphex(qunetmm_read(c, UNETMM_REG_CTRL), ==, 0);
    g_assert_cmphex(qtest_readl(qts, c->regs.addr + UNETMM_MSIX_TABLE), ==,
                    c->msi);
    g_assert_cmpuint(qunetmm_counter(c, UNETMM_C_err_doorbell), ==, 0);
    g_assert_cmphex(qpci_io_readl(edu, other, EDU_LIVENESS), ==,
                    (uint32_t)~0x01234567);
    g_free(edu);
}

static void test_bus_master_off(void *obj, void *data, QGuestAllocator *alloc)
{
    QUnetmm *c = obj;
    QUnetmmBuf buf;

    qunetmm_buf(&buf, c, 1, 2);
    qunetmm_msix(c, false);
    qpci_config_writew(&c->dev, PCI_COMMAND, PCI_COMMAND_MEMORY);
    check_dma_refused(c, buf.addr, 16);
    qunetmm_buf_check(&buf);
    qunetmm_write(c, UNETMM_REG_TEST_IRQ, 0);
    g_assert_false(qunetmm_msi_taken(c, 0));
    qpci_config_writew(&c->dev, PCI_COMMAND,
                       PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER);
    g_assert_cmphex(dma_test(c, buf.addr, 16, UNETMM_TEST_DMA_FILL), ==, 0);
    qunetmm_buf_free(&buf);
}

/* ---- The libqos node ---------------------------------------------------- */

typedef struct QUnetmmQ35 {
    QOSGraphObject obj;
    QGuestAllocator alloc;
    QPCIBusPC pci;
} QUnetmmQ35;

static void *q35_get_driver(void *obj, const char *interface)
{
    QUnetmmQ35 *machine = obj;

    g_assert_cmpstr(interface, ==, "memory");
    return &machine->alloc;
}

static QOSGraphObject *q35_get_device(void *obj, const char *device)
{
    QUnetmmQ35 *machine = obj;

    g_assert_cmpstr(device, ==, Q35_BUS);
    return &machine->pci.obj;
}

static void *q35_bus_get_driver(void *obj, const char *interface)
{
    QPCIBusPC *pci = obj;

    g_assert_cmpstr(interface, ==, Q35_BUS "-if");
    return &pci->bus;
}

static void q35_destructor(QOSGraphObject *obj)
{
    QUnetmmQ35 *machine = (QUnetmmQ35 *)obj;

    alloc_destroy(&machine->alloc);
}

static void *q35_create(QTestState *qts)
{
    QUnetmmQ35 *machine = g_new0(QUnetmmQ35, 1);

    machine->obj.get_device = q35_get_device;
    machine->obj.get_driver = q35_get_driver;
    machine->obj.destructor = q35_destructor;
    pc_alloc_init(&machine->alloc, qts, ALLOC_NO_FLAGS);
    qpci_init_pc(&machine->pci, qts, &machine->alloc);
    machine->pci.obj.get_driver = q35_bus_get_driver;
    return &machine->obj;
}

static void *unetmm_get_driver(void *obj, const char *interface)
{
    QUnetmm *c = obj;

    g_assert_cmpstr(interface, ==, "pci-device");
    return &c->dev;
}

static void unetmm_start_hw(QOSGraphObject *obj)
{
    QUnetmm *c = (QUnetmm *)obj;

    qunetmm_init(c, c->dev.bus, c->dev.devfn, c->alloc);
}

static void *unetmm_create(void *pci_bus, QGuestAllocator *alloc, void *addr)
{
    QUnetmm *c = g_new0(QUnetmm, 1);
    QPCIAddress *address = addr;

    c->dev.bus = pci_bus;
    c->dev.devfn = address->devfn;
    c->alloc = alloc;
    c->obj.get_driver = unetmm_get_driver;
    c->obj.start_hw = unetmm_start_hw;
    return &c->obj;
}

static void unetmm_register_nodes(void)
{
    QOSGraphEdgeOptions edge = {
        .extra_device_opts = "addr=04.0,id=unetmm0"
    };

    add_qpci_address(&edge, &(QPCIAddress){ .devfn = QPCI_DEVFN(4, 0) });
    qos_node_create_machine("x86_64/q35", q35_create);
    qos_node_create_driver(Q35_BUS, NULL);
    qos_node_contains("x86_64/q35", Q35_BUS, NULL);
    qos_node_produces(Q35_BUS, Q35_BUS "-if");
    qos_node_create_driver("unetmm", unetmm_create);
    qos_node_consumes("unetmm", "pci-bus", &edge);
    qos_node_consumes("unetmm", Q35_BUS "-if", &edge);
    qos_node_produces("unetmm", "pci-device");
}

libqos_init(unetmm_register_nodes);

static void unetmm_register_tests(void)
{
    QOSGraphTestOptions edu = {
        .edge.after_cmd_line = "-device edu,addr=05.0",
    };

    qos_add_test("identity", "unetmm", test_identity, NULL);
    qos_add_test("bars", "unetmm", test_bars, NULL);
    qos_add_test("prefetch", "unetmm", test_prefetch, NULL);
    qos_add_test("reset-values", "unetmm", test_reset_values, NULL);
    qos_add_test("access-sizes", "unetmm", test_access_sizes, NULL);
    qos_add_test("holes", "unetmm", test_holes, NULL);
    qos_add_test("read-only", "unetmm", test_read_only, NULL);
    qos_add_test("masked-bits", "unetmm", test_masked_bits, NULL);
    qos_add_test("doorbell-page", "unetmm", test_doorbell_page, NULL);
    qos_add_test("irq", "unetmm", test_irq, NULL);
    qos_add_test("event-mask", "unetmm", test_event_mask, NULL);
    qos_add_test("moderation", "unetmm", test_moderation, NULL);
    qos_add_test("dma", "unetmm", test_dma, NULL);
    qos_add_test("dma-refused", "unetmm", test_dma_refused, &edu);
    qos_add_test("bus-master-off", "unetmm", test_bus_master_off, NULL);
}

libqos_init(unetmm_register_tests);
