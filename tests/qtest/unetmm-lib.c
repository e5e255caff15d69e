/*
 * unetmm qtests: a driver small enough to break every rule on purpose
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qemu/crc32c.h"
#include "hw/pci/pci_regs.h"
#include "qobject/qdict.h"
#include "qobject/qnum.h"
#include "hw/net/unetmm/abi/unetmm_le.h"
#include "unetmm-lib.h"

#define WATCHDOG_US (120 * G_TIME_SPAN_SECOND)

/* ---- The PCI function --------------------------------------------------- */

void qunetmm_init(QUnetmm *c, QPCIBus *bus, int devfn, QGuestAllocator *alloc)
{
    QPCIAddress address = {
        .devfn = devfn,
        .vendor_id = UNETMM_PCI_VENDOR_ID,
        .device_id = UNETMM_PCI_DEVICE_ID,
    };

    qpci_device_init(&c->dev, bus, &address);
    c->alloc = alloc;
    c->regs = qpci_iomap(&c->dev, UNETMM_BAR_REGS, NULL);
    c->proxies = qpci_iomap(&c->dev, UNETMM_BAR_PROXY, NULL);
    c->doorbells = qpci_iomap(&c->dev, UNETMM_BAR_DOORBELL, NULL);
    qunetmm_enable(c);
    for (unsigned i = 0; i < sizeof(c->mac); i++) {
        c->mac[i] = qunetmm_read(c, i < 4 ? UNETMM_REG_MAC_LO :
                                 UNETMM_REG_MAC_HI) >> 8 * (i % 4);
    }
    c->msi = qunetmm_alloc(c, UNETMM_NUM_VECTORS * sizeof(uint32_t));
    c->list = qunetmm_alloc(c, UNETMM_PAGE_BYTES);
}

void qunetmm_enable(QUnetmm *c)
{
    const QPCIBar *bars[] = {
        [UNETMM_BAR_REGS] = &c->regs,
        [UNETMM_BAR_PROXY] = &c->proxies,
        [UNETMM_BAR_DOORBELL] = &c->doorbells,
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(bars); i++) {
        qpci_config_writel(&c->dev, PCI_BASE_ADDRESS_0 + 4 * i,
                           bars[i]->addr);
    }
    qpci_config_writel(&c->dev, PCI_BASE_ADDRESS_0 +
                       4 * (UNETMM_BAR_DOORBELL + 1), 0);
    qpci_config_writew(&c->dev, PCI_COMMAND,
                       PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER);
}

static uint64_t msix_entry(QUnetmm *c, unsigned vector)
{
    return c->dev.msix_table_off + vector * PCI_MSIX_ENTRY_SIZE;
}

void qunetmm_msix_mask(QUnetmm *c, unsigned vector, bool masked)
{
    qpci_io_writel(&c->dev, c->regs,
                   msix_entry(c, vector) + PCI_MSIX_ENTRY_VECTOR_CTRL,
                   masked ? PCI_MSIX_ENTRY_CTRL_MASKBIT : 0);
}

void qunetmm_msix(QUnetmm *c, bool masked)
{
    uint8_t cap = qpci_find_capability(&c->dev, PCI_CAP_ID_MSIX, 0);
    uint32_t table = qpci_config_readl(&c->dev, cap + PCI_MSIX_TABLE);
    uint32_t pba = qpci_config_readl(&c->dev, cap + PCI_MSIX_PBA);

    c->dev.msix_table_bar = c->dev.msix_pba_bar = c->regs;
    c->dev.msix_table_off = table & ~PCI_MSIX_FLAGS_BIRMASK;
    c->dev.msix_pba_off = pba & ~PCI_MSIX_FLAGS_BIRMASK;
    c->dev.msix_enabled = true;
    qtest_memset(c->dev.bus->qts, c->msi, 0,
                 UNETMM_NUM_VECTORS * sizeof(uint32_t));
    qpci_config_writew(&c->dev, cap + PCI_MSIX_FLAGS, PCI_MSIX_FLAGS_ENABLE);
    for (unsigned i = 0; i < UNETMM_NUM_VECTORS; i++) {
        uint64_t entry = msix_entry(c, i);

        qpci_io_writel(&c->dev, c->regs, entry + PCI_MSIX_ENTRY_LOWER_ADDR,
                       c->msi + i * sizeof(uint32_t));
        qpci_io_writel(&c->dev, c->regs, entry + PCI_MSIX_ENTRY_UPPER_ADDR, 0);
        qpci_io_writel(&c->dev, c->regs, entry + PCI_MSIX_ENTRY_DATA,
                       QUNETMM_MSI_DATA(i));
        qunetmm_msix_mask(c, i, masked);
    }
}

bool qunetmm_msix_pending(QUnetmm *c, unsigned vector)
{
    return qpci_msix_pending(&c->dev, vector);
}

bool qunetmm_msi_taken(QUnetmm *c, unsigned vector)
{
    uint64_t at = c->msi + vector * sizeof(uint32_t);
    uint32_t data = qtest_readl(c->dev.bus->qts, at);

    qtest_writel(c->dev.bus->qts, at, 0);
    g_assert_true(data == 0 || data == QUNETMM_MSI_DATA(vector));
    return data != 0;
}

void qunetmm_flr(QUnetmm *c)
{
    uint8_t cap = qpci_find_capability(&c->dev, PCI_CAP_ID_EXP, 0);

    qpci_config_writew(&c->dev, cap + PCI_EXP_DEVCTL,
                       qpci_config_readw(&c->dev, cap + PCI_EXP_DEVCTL) |
                       PCI_EXP_DEVCTL_BCR_FLR);
}

/* ---- Registers ---------------------------------------------------------- */

uint32_t qunetmm_read(QUnetmm *c, uint32_t reg)
{
    return qpci_io_readl(&c->dev, c->regs, reg);
}

void qunetmm_write(QUnetmm *c, uint32_t reg, uint32_t value)
{
    qpci_io_writel(&c->dev, c->regs, reg, value);
}

uint32_t qunetmm_ring_read(QUnetmm *c, unsigned ring, uint32_t reg)
{
    return qunetmm_read(c, UNETMM_REG_RING(ring) + reg);
}

void qunetmm_ring_write(QUnetmm *c, unsigned ring, uint32_t reg,
                        uint32_t value)
{
    qunetmm_write(c, UNETMM_REG_RING(ring) + reg, value);
}

static uint64_t read_counter(QUnetmm *c, uint32_t reg)
{
    uint64_t low = qunetmm_read(c, reg);

    return low | (uint64_t)qunetmm_read(c, reg + 4) << 32;
}

uint64_t qunetmm_counter(QUnetmm *c, enum unetmm_counter counter)
{
    return read_counter(c, UNETMM_REG_COUNTER(counter));
}

uint64_t qunetmm_ep_counter(QUnetmm *c, uint32_t ep,
                            enum unetmm_counter counter)
{
    qunetmm_write(c, UNETMM_REG_EP_SEL, ep);
    return read_counter(c, UNETMM_REG_EP_COUNTER(counter));
}

void qunetmm_doorbell(QUnetmm *c, uint32_t ep)
{
    qpci_io_writel(&c->dev, c->doorbells, ep * QUNETMM_PAGE, 0);
}

void qunetmm_wait_counter(QUnetmm *c, enum unetmm_counter counter,
                          uint64_t value)
{
    int64_t end = g_get_monotonic_time() + WATCHDOG_US;

    while (qunetmm_counter(c, counter) < value &&
           g_get_monotonic_time() < end) {
        qtest_clock_step(c->dev.bus->qts, 1);
    }
    g_assert_cmpuint(qunetmm_counter(c, counter), ==, value);
}

/* ---- Card rings --------------------------------------------------------- */

static size_t ring_entry_bytes(unsigned ring)
{
    static const size_t bytes[UNETMM_NUM_RINGS] = {
        [UNETMM_RING_CMD] = sizeof(struct unetmm_cmd),
        [UNETMM_RING_CMDC] = sizeof(struct unetmm_cmd_done),
        [UNETMM_RING_FAULT] = sizeof(struct unetmm_fault),
        [UNETMM_RING_NOTIFY] = sizeof(struct unetmm_notify),
        [UNETMM_RING_BACKUP] = sizeof(struct unetmm_backup),
    };

    return bytes[ring];
}

void qunetmm_ring_start(QUnetmm *c, unsigned ring, uint32_t log2)
{
    QUnetmmRing *r = &c->rings[ring];

    r->base = qunetmm_alloc(c, ring_entry_bytes(ring) << log2);
    r->log2 = log2;
    r->index = 0;
    qunetmm_ring_write(c, ring, UNETMM_RING_ENABLE, 0);
    qunetmm_ring_write(c, ring, UNETMM_RING_BASE_LO, r->base);
    qunetmm_ring_write(c, ring, UNETMM_RING_BASE_HI, r->base >> 32);
    qunetmm_ring_write(c, ring, UNETMM_RING_LOG2, log2);
    qunetmm_ring_write(c, ring, UNETMM_RING_ENABLE, 1);
    g_assert_cmpuint(qunetmm_ring_read(c, ring, UNETMM_RING_ENABLE), ==, 1);
}

void qunetmm_start(QUnetmm *c, uint32_t log2)
{
    qunetmm_msix(c, false);
    for (unsigned i = 0; i < UNETMM_NUM_RINGS; i++) {
        qunetmm_ring_start(c, i, log2);
    }
    qunetmm_write(c, UNETMM_REG_CTRL, UNETMM_CTRL_ENABLE);
}

static uint64_t ring_slot(QUnetmm *c, unsigned ring)
{
    QUnetmmRing *r = &c->rings[ring];

    return r->base + (r->index & ((1u << r->log2) - 1)) *
           ring_entry_bytes(ring);
}

void qunetmm_submit(QUnetmm *c, const struct unetmm_cmd *cmd)
{
    struct unetmm_cmd le = *cmd;

    unetmm_le_cmd(&le);
    qtest_memwrite(c->dev.bus->qts, ring_slot(c, UNETMM_RING_CMD), &le,
                   sizeof(le));
    qunetmm_ring_write(c, UNETMM_RING_CMD, UNETMM_RING_PROD,
                       ++c->rings[UNETMM_RING_CMD].index);
}

/* Takes an entry whose last word has the phase. */
static bool ring_take(QUnetmm *c, unsigned ring, void *entry)
{
    QUnetmmRing *r = &c->rings[ring];
    size_t bytes = ring_entry_bytes(ring);
    uint32_t last;

    qtest_memread(c->dev.bus->qts, ring_slot(c, ring), entry, bytes);
    memcpy(&last, (uint8_t *)entry + bytes - sizeof(last), sizeof(last));
    if ((le32_to_cpu(last) & UNETMM_PHASE) !=
        UNETMM_PHASE_OF(r->index, r->log2)) {
        return false;
    }
    qunetmm_ring_write(c, ring, UNETMM_RING_CONS, ++r->index);
    return true;
}

bool qunetmm_done(QUnetmm *c, struct unetmm_cmd_done *done)
{
    bool there = ring_take(c, UNETMM_RING_CMDC, done);

    unetmm_le_done(done);
    return there;
}

uint8_t qunetmm_cmd(QUnetmm *c, const struct unetmm_cmd *cmd,
                    uint32_t *result)
{
    struct unetmm_cmd tagged = *cmd;
    struct unetmm_cmd_done done;

    tagged.tag = ++c->tag;
    qunetmm_submit(c, &tagged);
    g_assert_true(qunetmm_done(c, &done));
    g_assert_cmpuint(done.tag, ==, tagged.tag);
    g_assert_cmpuint(done.opcode, ==, tagged.opcode);
    if (result) {
        *result = done.result;
    }
    return done.status;
}

bool qunetmm_fault(QUnetmm *c, struct unetmm_fault *fault)
{
    bool there = ring_take(c, UNETMM_RING_FAULT, fault);

    unetmm_le_fault(fault);
    return there;
}

bool qunetmm_notify(QUnetmm *c, struct unetmm_notify *notify)
{
    bool there = ring_take(c, UNETMM_RING_NOTIFY, notify);

    unetmm_le_notify(notify);
    return there;
}

struct unetmm_fault qunetmm_expect_miss(QUnetmm *c, uint64_t vaddr,
                                        uint32_t npages, uint8_t flags)
{
    struct unetmm_fault f;

    g_assert_true(qunetmm_fault(c, &f));
    g_assert_cmpuint(f.type, ==, UNETMM_FAULT_MISS);
    g_assert_cmphex(f.vaddr, ==, vaddr);
    g_assert_cmpuint(f.npages, ==, npages);
    g_assert_cmphex(f.flags, ==, flags);
    return f;
}

/* ---- Spaces and translations -------------------------------------------- */

void qunetmm_space(QUnetmm *c, uint16_t space, uint8_t source,
                   uint8_t levels, uint64_t table)
{
    struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_SPACE_CREATE, .space = space,
        .space_create = { .source = source, .levels = levels,
                          .table = table },
    };

    g_assert_cmpuint(qunetmm_cmd(c, &cmd, NULL), ==, UNETMM_CS_OK);
}

uint64_t qunetmm_space_pinned(QUnetmm *c, uint16_t space)
{
    uint64_t table = qunetmm_alloc(c, UNETMM_PAGE_BYTES);

    qunetmm_space(c, space, UNETMM_SOURCE_PINNED, 1, table);
    return table;
}

void qunetmm_pin(QUnetmm *c, uint64_t table, uint64_t vaddr, uint64_t dma,
                 uint64_t rights, unsigned npages)
{
    for (unsigned i = 0; i < npages; i++) {
        uint64_t vpn = (vaddr >> UNETMM_PAGE_SHIFT) + i;

        g_assert_cmpuint(vpn, <, UNETMM_TABLE_ENTRIES);
        qtest_writeq(c->dev.bus->qts, table + vpn * sizeof(uint64_t),
                     (dma + i * QUNETMM_PAGE) | rights);
    }
}

uint8_t qunetmm_resolve(QUnetmm *c, uint16_t space, uint32_t fault_id,
                        uint64_t vaddr, uint64_t dma, uint64_t rights,
                        unsigned npages, uint32_t tag, uint32_t *taken)
{
    struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_FAULT_REPLY, .space = space,
        .reply = { .fault_id = fault_id, .status = UNETMM_REPLY_RESOLVED,
                   .npages = npages, .vaddr = vaddr, .list = c->list,
                   .tag = tag },
    };

    for (unsigned i = 0; i < npages; i++) {
        qtest_writeq(c->dev.bus->qts, c->list + i * sizeof(uint64_t),
                     (dma + i * QUNETMM_PAGE) | rights);
    }
    return qunetmm_cmd(c, &cmd, taken);
}

uint8_t qunetmm_reply(QUnetmm *c, uint16_t space, uint32_t fault_id,
                      uint8_t status, uint8_t error)
{
    struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_FAULT_REPLY, .space = space,
        .reply = { .fault_id = fault_id, .status = status, .error = error },
    };

    return qunetmm_cmd(c, &cmd, NULL);
}

void qunetmm_invalidate(QUnetmm *c, uint16_t space, uint64_t first,
                        uint64_t last)
{
    qunetmm_write(c, UNETMM_REG_INV_SPACE, space);
    qunetmm_write(c, UNETMM_REG_INV_START_LO, first);
    qunetmm_write(c, UNETMM_REG_INV_START_HI, first >> 32);
    qunetmm_write(c, UNETMM_REG_INV_LAST_LO, last);
    qunetmm_write(c, UNETMM_REG_INV_LAST_HI, last >> 32);
    qunetmm_write(c, UNETMM_REG_INV_CTRL, 1);
}

bool qunetmm_invalidate_busy(QUnetmm *c)
{
    return qunetmm_read(c, UNETMM_REG_INV_CTRL) & UNETMM_INV_BUSY;
}

/* ---- Endpoints ---------------------------------------------------------- */

void qunetmm_ep_alloc(QUnetmmEp *ep, QUnetmm *c, uint16_t id, uint16_t space,
                      uint32_t log2)
{
    *ep = (QUnetmmEp) {
        .card = c, .id = id, .space = space, .log2 = log2,
        .sq = qunetmm_alloc(c, (size_t)UNETMM_SLOT_BYTES << log2),
        .fq = qunetmm_alloc(c, sizeof(struct unetmm_fqe) << log2),
        .cq = qunetmm_alloc(c, sizeof(struct unetmm_cqe) << log2),
        .index = qunetmm_alloc(c, sizeof(struct unetmm_ep_index)),
    };
}

struct unetmm_cmd qunetmm_ep_cmd(const QUnetmmEp *ep, uint8_t policy,
                                 uint8_t pretranslate)
{
    return (struct unetmm_cmd) {
        .opcode = UNETMM_CMD_EP_CREATE, .space = ep->space, .ep = ep->id,
        .ep_create = {
            .sq_base = ep->sq, .fq_base = ep->fq, .cq_base = ep->cq,
            .index = ep->index, .sq_log2 = ep->log2, .fq_log2 = ep->log2,
            .cq_log2 = ep->log2, .policy = policy,
            .pretranslate = pretranslate,
        },
    };
}

void qunetmm_ep(QUnetmmEp *ep, QUnetmm *c, uint16_t id, uint16_t space,
                uint32_t log2, uint8_t policy)
{
    struct unetmm_cmd cmd;

    qunetmm_ep_alloc(ep, c, id, space, log2);
    cmd = qunetmm_ep_cmd(ep, policy, 0);
    g_assert_cmpuint(qunetmm_cmd(c, &cmd, NULL), ==, UNETMM_CS_OK);
    g_assert_cmphex(qunetmm_ep_card(ep).state, ==, UNETMM_EP_RUNNING);
}

uint8_t qunetmm_ep_destroy(QUnetmm *c, uint16_t id)
{
    struct unetmm_cmd cmd = { .opcode = UNETMM_CMD_EP_DESTROY, .ep = id };

    return qunetmm_cmd(c, &cmd, NULL);
}

void qunetmm_channel(QUnetmmEp *ep, uint16_t channel, const uint8_t *mac,
                     uint16_t peer_ep, uint16_t peer_channel, uint32_t mtu)
{
    struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_CHANNEL_SET, .ep = ep->id,
        .channel = { .channel = channel, .peer_ep = peer_ep,
                     .peer_channel = peer_channel, .mtu = mtu },
    };

    memcpy(cmd.channel.peer_mac, mac, sizeof(cmd.channel.peer_mac));
    g_assert_cmpuint(qunetmm_cmd(ep->card, &cmd, NULL), ==, UNETMM_CS_OK);
}

static void ep_write_user(QUnetmmEp *ep, size_t member, uint32_t value)
{
    qtest_writel(ep->card->dev.bus->qts, ep->index + member, value);
}

void qunetmm_put_slot(QUnetmmEp *ep, const void *slot)
{
    uint32_t at = ep->sq_prod++ & ((1u << ep->log2) - 1);

    qtest_memwrite(ep->card->dev.bus->qts, ep->sq + at * UNETMM_SLOT_BYTES,
                   slot, UNETMM_SLOT_BYTES);
    ep_write_user(ep, offsetof(struct unetmm_ep_user, sq_prod), ep->sq_prod);
}

void qunetmm_put_sqe(QUnetmmEp *ep, const struct unetmm_sqe *sqe)
{
    struct unetmm_sqe le = *sqe;

    unetmm_le_sqe(&le);
    qunetmm_put_slot(ep, &le);
}

void qunetmm_put_segs(QUnetmmEp *ep, uint16_t channel, uint64_t cookie,
                      const struct unetmm_seg *segs, unsigned nsegs)
{
    struct unetmm_sqe sqe = {
        .opcode = UNETMM_OP_SEND, .nsegs = nsegs, .channel = channel,
        .cookie = cookie,
    };
    uint32_t first = ep->sq_prod;

    for (unsigned i = 0; i < nsegs && i < UNETMM_SQE_SEGS; i++) {
        sqe.seg[i] = segs[i];
        unetmm_le_seg(&sqe.seg[i]);
    }
    qunetmm_put_sqe(ep, &sqe);
    for (unsigned i = UNETMM_SQE_SEGS; i < nsegs; i += UNETMM_SLOT_SEGS) {
        struct unetmm_seg slot[UNETMM_SLOT_SEGS] = { };

        for (unsigned j = 0; j < UNETMM_SLOT_SEGS && i + j < nsegs; j++) {
            slot[j] = segs[i + j];
            unetmm_le_seg(&slot[j]);
        }
        qunetmm_put_slot(ep, slot);
    }
    g_assert_cmpuint(ep->sq_prod - first, <=, UNETMM_MAX_SLOTS);
}

void qunetmm_put_inline(QUnetmmEp *ep, uint16_t channel, uint64_t cookie,
                        const void *data, uint8_t len, uint8_t flags)
{
    struct unetmm_sqe sqe = {
        .opcode = UNETMM_OP_SEND, .flags = flags | UNETMM_SQE_F_INLINE,
        .inline_len = len, .channel = channel, .cookie = cookie,
    };

    memcpy(sqe.data, data, MIN(len, UNETMM_SQE_INLINE));
    qunetmm_put_sqe(ep, &sqe);
    for (unsigned i = UNETMM_SQE_INLINE; i < len; i += UNETMM_SLOT_BYTES) {
        uint8_t slot[UNETMM_SLOT_BYTES] = { };

        memcpy(slot, (const uint8_t *)data + i,
               MIN(len - i, UNETMM_SLOT_BYTES));
        qunetmm_put_slot(ep, slot);
    }
}

void qunetmm_put_fqe(QUnetmmEp *ep, const struct unetmm_fqe *fqe)
{
    uint32_t at = ep->fq_prod++ & ((1u << ep->log2) - 1);
    struct unetmm_fqe le = *fqe;

    unetmm_le_fqe(&le);
    qtest_memwrite(ep->card->dev.bus->qts, ep->fq + at * sizeof(le), &le,
                   sizeof(le));
    ep_write_user(ep, offsetof(struct unetmm_ep_user, fq_prod), ep->fq_prod);
}

void qunetmm_send(QUnetmmEp *ep, uint16_t channel, uint64_t cookie,
                  uint64_t vaddr, uint32_t len)
{
    struct unetmm_seg seg = { .addr = vaddr, .len = len };

    qunetmm_put_segs(ep, channel, cookie, &seg, 1);
    qunetmm_doorbell(ep->card, ep->id);
}

void qunetmm_send_inline(QUnetmmEp *ep, uint16_t channel, uint64_t cookie,
                         const void *data, uint8_t len)
{
    qunetmm_put_inline(ep, channel, cookie, data, len, 0);
    qunetmm_doorbell(ep->card, ep->id);
}

void qunetmm_post(QUnetmmEp *ep, uint64_t cookie, uint64_t vaddr,
                  uint32_t len)
{
    struct unetmm_fqe fqe = { .addr = vaddr, .len = len, .cookie = cookie };

    qunetmm_put_fqe(ep, &fqe);
    qunetmm_doorbell(ep->card, ep->id);
}

bool qunetmm_cqe(QUnetmmEp *ep, struct unetmm_cqe *cqe)
{
    uint32_t at = ep->cq_cons & ((1u << ep->log2) - 1);

    qtest_memread(ep->card->dev.bus->qts, ep->cq + at * sizeof(*cqe), cqe,
                  sizeof(*cqe));
    unetmm_le_cqe(cqe);
    if ((cqe->flags & UNETMM_PHASE) !=
        UNETMM_PHASE_OF(ep->cq_cons, ep->log2)) {
        return false;
    }
    ep->cq_cons++;
    ep_write_user(ep, offsetof(struct unetmm_ep_user, cq_cons), ep->cq_cons);
    return true;
}

struct unetmm_cqe qunetmm_expect(QUnetmmEp *ep, uint8_t opcode, uint8_t status,
                                 uint64_t cookie)
{
    struct unetmm_cqe cqe;

    g_assert_true(qunetmm_cqe(ep, &cqe));
    g_assert_cmpuint(cqe.opcode, ==, opcode);
    g_assert_cmpuint(cqe.status, ==, status);
    g_assert_cmphex(cqe.cookie, ==, cookie);
    return cqe;
}

void qunetmm_expect_none(QUnetmmEp *ep)
{
    struct unetmm_cqe cqe;

    g_assert_false(qunetmm_cqe(ep, &cqe));
}

void qunetmm_arm(QUnetmmEp *ep)
{
    ep_write_user(ep, offsetof(struct unetmm_ep_user, cq_arm),
                  UNETMM_ARM | (ep->cq_cons & UNETMM_ARM_COUNT));
}

struct unetmm_ep_card qunetmm_ep_card(QUnetmmEp *ep)
{
    struct unetmm_ep_card card;

    qtest_memread(ep->card->dev.bus->qts,
                  ep->index + offsetof(struct unetmm_ep_index, card), &card,
                  sizeof(card));
    unetmm_le_card(&card);
    return card;
}

/* ---- Memory ------------------------------------------------------------- */

void qunetmm_pattern(uint8_t *data, size_t bytes, uint32_t seed)
{
    for (size_t i = 0; i < bytes; i++) {
        uint32_t v = (i + seed * 0x10001u) * 0x9e3779b1u;

        data[i] = v >> 24;
    }
}

uint64_t qunetmm_alloc(QUnetmm *c, size_t bytes)
{
    uint64_t addr = guest_alloc(c->alloc, ROUND_UP(bytes, UNETMM_PAGE_BYTES));

    qtest_memset(c->dev.bus->qts, addr, 0,
                 ROUND_UP(bytes, UNETMM_PAGE_BYTES));
    return addr;
}

static size_t buf_all(const QUnetmmBuf *buf)
{
    return buf->bytes + 2 * UNETMM_PAGE_BYTES;
}

void qunetmm_buf(QUnetmmBuf *buf, QUnetmm *c, unsigned pages, uint32_t seed)
{
    buf->qts = c->dev.bus->qts;
    buf->bytes = pages * UNETMM_PAGE_BYTES;
    buf->addr = qunetmm_alloc(c, buf_all(buf)) + UNETMM_PAGE_BYTES;
    buf->model = g_malloc(buf_all(buf));
    qunetmm_pattern(buf->model, buf_all(buf), seed);
    qtest_bufwrite(buf->qts, buf->addr - UNETMM_PAGE_BYTES, buf->model,
                   buf_all(buf));
}

void qunetmm_buf_expect(QUnetmmBuf *buf, size_t offset, const void *data,
                        size_t bytes)
{
    g_assert_cmpuint(offset + bytes, <=, buf->bytes);
    memcpy(buf->model + UNETMM_PAGE_BYTES + offset, data, bytes);
}

void qunetmm_buf_check(QUnetmmBuf *buf)
{
    g_autofree uint8_t *now = g_malloc(buf_all(buf));

    qtest_bufread(buf->qts, buf->addr - UNETMM_PAGE_BYTES, now, buf_all(buf));
    g_assert_cmpmem(now, buf_all(buf), buf->model, buf_all(buf));
}

void qunetmm_buf_free(QUnetmmBuf *buf)
{
    g_clear_pointer(&buf->model, g_free);
}

/* ---- Frames, and the monitor -------------------------------------------- */

void qunetmm_frame_seal(uint8_t *frame)
{
    size_t n = offsetof(struct unetmm_frame, header_crc);
    uint32_t crc = cpu_to_le32(crc32c(0xffffffff, frame, n));

    memcpy(frame + n, &crc, sizeof(crc));
}

size_t qunetmm_frame(uint8_t *frame, const struct unetmm_frame *header,
                     const void *payload)
{
    struct unetmm_frame f = *header;

    f.ethertype[0] = UNETMM_ETHERTYPE >> 8;
    f.ethertype[1] = UNETMM_ETHERTYPE & 0xff;
    f.version = UNETMM_WIRE_VERSION;
    unetmm_le_frame(&f);
    memcpy(frame, &f, sizeof(f));
    memcpy(frame + sizeof(f), payload, header->len);
    qunetmm_frame_seal(frame);
    return sizeof(f) + header->len;
}

uint64_t qunetmm_qom_u64(QTestState *qts, const char *path,
                         const char *property, const char *member)
{
    QDict *answer = qtest_qmp(qts, "{ 'execute': 'qom-get', 'arguments': "
                              "{ 'path': %s, 'property': %s } }",
                              path, property);
    const char *key = member ?: "return";
    QDict *in = member ? qdict_get_qdict(answer, "return") : answer;
    uint64_t value;

    g_assert_nonnull(in);
    g_assert_true(qdict_haskey(in, key));
    value = qnum_get_uint(qobject_to(QNum, qdict_get(in, key)));
    qobject_unref(answer);
    return value;
}

void qunetmm_qom_set(QTestState *qts, const char *path, const char *property,
                     uint64_t value)
{
    qtest_qmp_assert_success(qts, "{ 'execute': 'qom-set', 'arguments': "
                             "{ 'path': %s, 'property': %s, "
                             "'value': %" PRIu64 " } }",
                             path, property, value);
}
