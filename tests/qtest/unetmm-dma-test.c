/*
 * unetmm qtests: addresses that are no memory: the card is told to read and
 * write its own registers, doorbells and interrupt table, another card's, and
 * those of a card of another kind, by every address that it takes
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "hw/pci/pci_regs.h"
#include "libqos/malloc-pc.h"
#include "libqos/pci-pc.h"
#include "unetmm-lib.c"

#define MAC_A       "52:54:00:aa:00:01"
#define MAC_B       "52:54:00:aa:00:02"
#define A_DEVFN     QPCI_DEVFN(4, 0)
#define B_DEVFN     QPCI_DEVFN(5, 0)
#define E1000E_DEVFN QPCI_DEVFN(6, 0)
#define CHANNEL     3
#define BAD_EP      7
#define SENTINEL    0x1111u
#define MAX_TARGETS 10
#define MODERATE_NS 1000

/* Registers of a device, and the value of their first word afterwards. */
typedef struct Target {
    const char *name;
    uint64_t addr;
    uint32_t word;
} Target;

/* Two cards on a hub, and one of Intel's beside them. */
typedef struct Scene {
    QTestState *qts;
    QGuestAllocator alloc;
    QPCIBus *bus;
    QPCIDevice *e1000e;
    QUnetmm a, b;
    QUnetmmEp tx, rx;           /* a's endpoint 1, b's endpoint 1 */
    QUnetmmBuf src, dst;
    uint64_t table_a, table_b;
    Target targets[MAX_TARGETS];
    unsigned count;
} Scene;

static void add_target(Scene *s, const char *name, uint64_t addr)
{
    Target *t = &s->targets[s->count++];

    g_assert_cmpuint(s->count, <=, MAX_TARGETS);
    *t = (Target) { name, addr, qtest_readl(s->qts, addr) };
}

static void add_card(Scene *s, QUnetmm *c)
{
    /* Registers that would remember, do something, or do DMA themselves. */
    qunetmm_write(c, UNETMM_REG_TEST, SENTINEL);
    add_target(s, "registers", c->regs.addr + UNETMM_REG_TEST);
    add_target(s, "doorbells", c->doorbells.addr);
    add_target(s, "proxy pages", c->proxies.addr);
    add_target(s, "interrupt table", c->regs.addr + UNETMM_MSIX_TABLE);
}

static void card_up(Scene *s, QUnetmm *c, QUnetmmEp *ep, uint64_t *table,
                    int devfn)
{
    qunetmm_init(c, s->bus, devfn, &s->alloc);
    qunetmm_start(c, 4);
    *table = qunetmm_space_pinned(c, 1);
    qunetmm_ep(ep, c, 1, 1, 3, UNETMM_POLICY_DROP);
}

static void scene_up(Scene *s)
{
    QPCIBar bar;

    memset(s, 0, sizeof(*s));
    s->qts = qtest_init("-machine q35 -nodefaults -m 32 "
                        "-netdev hubport,id=h0,hubid=0 "
                        "-netdev hubport,id=h1,hubid=0 "
                        "-device unetmm,netdev=h0,addr=04.0,mac=" MAC_A " "
                        "-device unetmm,netdev=h1,addr=05.0,mac=" MAC_B " "
                        "-device e1000e,addr=06.0,romfile=");
    pc_alloc_init(&s->alloc, s->qts, ALLOC_NO_FLAGS);
    s->bus = qpci_new_pc(s->qts, &s->alloc);
    card_up(s, &s->a, &s->tx, &s->table_a, A_DEVFN);
    card_up(s, &s->b, &s->rx, &s->table_b, B_DEVFN);
    qunetmm_channel(&s->tx, CHANNEL, s->b.mac, 1, CHANNEL, UNETMM_MAX_PAYLOAD);
    qunetmm_channel(&s->rx, CHANNEL, s->a.mac, 1, CHANNEL, UNETMM_MAX_PAYLOAD);
    qunetmm_buf(&s->src, &s->a, 2, 1);
    qunetmm_buf(&s->dst, &s->b, 2, 2);
    qunetmm_pin(&s->a, s->table_a, QUNETMM_VA, s->src.addr, QUNETMM_RW, 2);
    qunetmm_pin(&s->b, s->table_b, QUNETMM_VA, s->dst.addr, QUNETMM_RW, 2);
    s->e1000e = qpci_device_find(s->bus, E1000E_DEVFN);
    g_assert_nonnull(s->e1000e);
    bar = qpci_iomap(s->e1000e, 0, NULL);
    qpci_config_writew(s->e1000e, PCI_COMMAND,
                       PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER);
    add_target(s, "e1000e", bar.addr + 0x38);   /* VET: read and write */
    add_card(s, &s->a);
    add_card(s, &s->b);
}

/* A page goes through, and a short message the other way. */
static void check_traffic(Scene *s)
{
    static unsigned round;
    uint64_t cookie = ++round;

    qunetmm_post(&s->rx, cookie, QUNETMM_VA + 300, UNETMM_PAGE_BYTES);
    qunetmm_send(&s->tx, CHANNEL, cookie, QUNETMM_VA + 77, UNETMM_PAGE_BYTES);
    qunetmm_expect(&s->tx, UNETMM_CQE_SENT, UNETMM_ST_OK, cookie);
    qunetmm_expect(&s->rx, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, cookie);
    qunetmm_buf_expect(&s->dst, 300, s->src.model + UNETMM_PAGE_BYTES + 77,
                       UNETMM_PAGE_BYTES);
    qunetmm_buf_check(&s->dst);
    qunetmm_send_inline(&s->rx, CHANNEL, cookie, "back", 4);
    qunetmm_expect(&s->rx, UNETMM_CQE_SENT, UNETMM_ST_OK, cookie);
    qunetmm_expect(&s->tx, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 0);
}

/* Nobody's registers have noticed anything. */
static void check_untouched(Scene *s)
{
    for (unsigned i = 0; i < s->count; i++) {
        const Target *t = &s->targets[i];

        if (qtest_readl(s->qts, t->addr) != t->word) {
            g_error("%s have changed", t->name);
        }
    }
    g_assert_cmpuint(qunetmm_counter(&s->a, UNETMM_C_err_doorbell), ==, 0);
    g_assert_cmpuint(qunetmm_counter(&s->b, UNETMM_C_err_doorbell), ==, 0);
    g_assert_cmphex(qunetmm_read(&s->a, UNETMM_REG_CTRL), ==,
                    UNETMM_CTRL_ENABLE);
    check_traffic(s);
}

static void scene_down(Scene *s)
{
    qunetmm_buf_free(&s->src);
    qunetmm_buf_free(&s->dst);
    g_free(s->e1000e);
    qpci_free_pc(s->bus);
    alloc_destroy(&s->alloc);
    qtest_quit(s->qts);
}

/* Pages that the table says are there: to send from, and to land in. */
static void test_pages(void)
{
    uint64_t va = QUNETMM_VA + 16 * QUNETMM_PAGE;
    uint64_t refused;
    Scene s;

    scene_up(&s);
    refused = qunetmm_counter(&s.a, UNETMM_C_err_dma);
    for (unsigned i = 0; i < s.count; i++) {
        uint64_t page = s.targets[i].addr & ~(QUNETMM_PAGE - 1);
        uint32_t at = s.targets[i].addr - page;

        qunetmm_pin(&s.a, s.table_a, va, page, QUNETMM_RW, 1);
        qunetmm_pin(&s.b, s.table_b, va, page, QUNETMM_RW, 1);
        qunetmm_send(&s.tx, CHANNEL, i, va + at, 64);
        qunetmm_expect(&s.tx, UNETMM_CQE_SENT, UNETMM_ST_DMA, i);
        qunetmm_post(&s.rx, i, va + at, 64);
        qunetmm_send(&s.tx, CHANNEL, i, QUNETMM_VA, 64);
        qunetmm_expect(&s.tx, UNETMM_CQE_SENT, UNETMM_ST_OK, i);
        qunetmm_expect(&s.rx, UNETMM_CQE_BUFFER, UNETMM_ST_DMA, i);
        qunetmm_invalidate(&s.a, 1, va, va);
        qunetmm_invalidate(&s.b, 1, va, va);
        check_untouched(&s);
    }
    g_assert_cmpuint(qunetmm_counter(&s.a, UNETMM_C_err_dma), ==,
                     refused + s.count);
    scene_down(&s);
}

/* Queues of an endpoint; that one stops, nobody else does. */
static void check_queue(Scene *s, const Target *t, unsigned which)
{
    struct unetmm_cmd cmd;
    uint64_t *base[] = {
        &cmd.ep_create.sq_base, &cmd.ep_create.fq_base,
        &cmd.ep_create.cq_base, &cmd.ep_create.index,
    };
    /* The largest alignment that any of them needs */
    uint64_t at = t->addr & ~(uint64_t)(sizeof(struct unetmm_ep_index) - 1);
    QUnetmmEp ep;

    qunetmm_ep_alloc(&ep, &s->a, BAD_EP, 1, 3);
    cmd = qunetmm_ep_cmd(&ep, UNETMM_POLICY_DROP, 0);
    *base[which] = at;
    g_assert_cmpuint(qunetmm_cmd(&s->a, &cmd, NULL), ==, UNETMM_CS_OK);
    qunetmm_channel(&ep, 0, s->a.mac, 1, CHANNEL, 256);
    qunetmm_post(&ep, 1, QUNETMM_VA, 64);
    qunetmm_send_inline(&ep, 0, 1, "x", 1);
    if (which < 3) {
        g_assert_cmphex(qunetmm_ep_card(&ep).state, ==, UNETMM_EP_ERROR);
    }
    g_assert_cmpuint(qunetmm_ep_destroy(&s->a, BAD_EP), ==, UNETMM_CS_OK);
    check_untouched(s);
}

static void test_queues(void)
{
    Scene s;

    scene_up(&s);
    for (unsigned i = 0; i < s.count; i++) {
        for (unsigned which = 0; which < 4; which++) {
            check_queue(&s, &s.targets[i], which);
        }
    }
    scene_down(&s);
}

/* Tables, and the list of an answer. */
static void test_tables(void)
{
    struct unetmm_cmd destroy = { .opcode = UNETMM_CMD_SPACE_DESTROY,
                                  .space = 2 };
    struct unetmm_cmd reply = {
        .opcode = UNETMM_CMD_FAULT_REPLY, .space = 3,
        .reply = { .fault_id = UNETMM_FAULT_NONE, .npages = 4,
                   .status = UNETMM_REPLY_RESOLVED, .vaddr = QUNETMM_VA,
                   .tag = 5 },
    };
    Scene s;

    scene_up(&s);
    qunetmm_space(&s.a, 3, UNETMM_SOURCE_TLB, 0, 0);
    for (unsigned i = 0; i < s.count; i++) {
        uint64_t page = s.targets[i].addr & ~(QUNETMM_PAGE - 1);
        QUnetmmEp ep;

        qunetmm_space(&s.a, 2, UNETMM_SOURCE_PINNED, 1, page);
        qunetmm_ep(&ep, &s.a, BAD_EP, 2, 3, UNETMM_POLICY_DROP);
        qunetmm_channel(&ep, 0, s.b.mac, 1, CHANNEL, 4096);
        qunetmm_send(&ep, 0, i, QUNETMM_VA, 64);
        qunetmm_expect(&ep, UNETMM_CQE_SENT, UNETMM_ST_PROTECTION, i);
        g_assert_cmpuint(qunetmm_ep_destroy(&s.a, BAD_EP), ==, UNETMM_CS_OK);
        g_assert_cmpuint(qunetmm_cmd(&s.a, &destroy, NULL), ==, UNETMM_CS_OK);
        reply.reply.list = s.targets[i].addr & ~7ull;
        g_assert_cmpuint(qunetmm_cmd(&s.a, &reply, NULL), !=, UNETMM_CS_OK);
        g_assert_cmpuint(qunetmm_counter(&s.a, UNETMM_C_err_dma), ==,
                         2 * (i + 1));
        check_untouched(&s);
    }
    scene_down(&s);
}

/* Rings of the driver: the card stops, and a reset makes it good again. */
static void test_rings(void)
{
    struct unetmm_cmd nop = { .opcode = UNETMM_CMD_NOP };
    Scene s;

    scene_up(&s);
    for (unsigned i = 0; i < s.count; i++) {
        for (unsigned ring = 0; ring < UNETMM_RING_FAULT; ring++) {
            QUnetmm *c = &s.a;

            qunetmm_ring_write(c, ring, UNETMM_RING_ENABLE, 0);
            qunetmm_ring_write(c, ring, UNETMM_RING_BASE_LO,
                               s.targets[i].addr & ~63u);
            qunetmm_ring_write(c, ring, UNETMM_RING_BASE_HI,
                               s.targets[i].addr >> 32);
            qunetmm_ring_write(c, ring, UNETMM_RING_ENABLE, 1);
            c->rings[ring].index = 0;
            qunetmm_submit(c, &nop);
            g_assert_cmphex(qunetmm_read(c, UNETMM_REG_STATUS) &
                            UNETMM_STATUS_FATAL, !=, 0);
            qunetmm_write(c, UNETMM_REG_CTRL, UNETMM_CTRL_RESET);
            qunetmm_start(c, 4);
            qunetmm_space(c, 1, UNETMM_SOURCE_PINNED, 1, s.table_a);
            qunetmm_ep(&s.tx, c, 1, 1, 3, UNETMM_POLICY_DROP);
            qunetmm_channel(&s.tx, CHANNEL, s.b.mac, 1, CHANNEL,
                            UNETMM_MAX_PAYLOAD);
            qunetmm_write(c, UNETMM_REG_TEST, SENTINEL);
            check_untouched(&s);
        }
    }
    scene_down(&s);
}

/* ---- Interrupts that are accesses to the card --------------------------- */

static void msi_to(QUnetmm *c, unsigned vector, uint64_t addr, uint32_t data)
{
    uint64_t entry = c->dev.msix_table_off + vector * PCI_MSIX_ENTRY_SIZE;

    qpci_io_writel(&c->dev, c->regs, entry + PCI_MSIX_ENTRY_LOWER_ADDR, addr);
    qpci_io_writel(&c->dev, c->regs, entry + PCI_MSIX_ENTRY_UPPER_ADDR,
                   addr >> 32);
    qpci_io_writel(&c->dev, c->regs, entry + PCI_MSIX_ENTRY_DATA, data);
}

/* A message from a to b, which then interrupts: at once, and when told to. */
static void wake_b(Scene *s, uint64_t cookie)
{
    struct unetmm_notify n;

    for (unsigned i = 0; i < 2; i++) {
        qunetmm_arm(&s->rx);
        qunetmm_send_inline(&s->tx, CHANNEL, cookie, "wake", 4);
        qunetmm_expect(&s->tx, UNETMM_CQE_SENT, UNETMM_ST_OK, cookie);
        qunetmm_expect(&s->rx, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 0);
        g_assert_true(qunetmm_notify(&s->b, &n));
    }
    qtest_clock_step(s->qts, MODERATE_NS);
}

/*
 * The address of an interrupt is the guest's to choose, too: b's notifications
 * ring a doorbell, raise another interrupt, invalidate, reset.  They come while
 * a sends and b receives, when QEMU lets neither be accessed, and from b's
 * timer, when nothing protects b but itself.
 */
static void test_interrupts(void)
{
    Scene s;

    scene_up(&s);
    qunetmm_ring_write(&s.b, UNETMM_RING_NOTIFY, UNETMM_RING_MODERATE,
                       MODERATE_NS);
    for (unsigned i = 0; i < 2; i++) {
        QUnetmm *c = i ? &s.a : &s.b;
        const uint64_t where[] = {
            c->doorbells.addr + QUNETMM_PAGE,       /* endpoint 1 */
            c->doorbells.addr + 200 * QUNETMM_PAGE, /* of nobody */
            c->regs.addr + UNETMM_REG_TEST_IRQ,
            c->regs.addr + UNETMM_REG_INV_CTRL,
        };

        for (unsigned j = 0; j < G_N_ELEMENTS(where); j++) {
            msi_to(&s.b, UNETMM_VEC_NOTIFY, where[j], UNETMM_VEC_NOTIFY);
            wake_b(&s, 10 * i + j);
        }
        g_assert_cmpuint(qunetmm_counter(c, UNETMM_C_err_doorbell), >, 0);
    }
    msi_to(&s.b, UNETMM_VEC_NOTIFY, s.b.msi + 4 * UNETMM_VEC_NOTIFY,
           QUNETMM_MSI_DATA(UNETMM_VEC_NOTIFY));
    check_traffic(&s);
    msi_to(&s.b, UNETMM_VEC_NOTIFY, s.b.regs.addr + UNETMM_REG_CTRL,
           UNETMM_CTRL_RESET);
    wake_b(&s, 99);
    /* As soon as nothing of b's is on the stack; a watchdog ends the test. */
    while (qunetmm_read(&s.b, UNETMM_REG_CTRL)) {
        qtest_clock_step(s.qts, 1);
    }
    scene_down(&s);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("/unetmm/dma/pages", test_pages);
    qtest_add_func("/unetmm/dma/queues", test_queues);
    qtest_add_func("/unetmm/dma/tables", test_tables);
    qtest_add_func("/unetmm/dma/rings", test_rings);
    qtest_add_func("/unetmm/dma/interrupts", test_interrupts);
    return g_test_run();
}
