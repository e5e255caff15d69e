/*
 * unetmm qtests: timing=: the steps' costs on the virtual clock
 *
 * tests/core/timing/test_timing.c does the same with the core alone: same
 * costs, same message, same times.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "hw/pci/pci_regs.h"
#include "libqos/malloc-pc.h"
#include "libqos/pci-pc.h"
#include "qobject/qdict.h"
#include "unetmm-lib.c"
#include "unetmm-machine.c"

#define COSTS       ",x-dma-page-ns=0,timing=fetch=10000000:gather_byte=" \
                    "2000000:place_byte=3000000:complete=500000:hit_read=" \
                    "1000000:hit_write=1500000:hit_head=1250000:arrive=4000000"
#define BYTES       300
#define SENT_NS     (10000 + 1000 + 2 * BYTES)
#define RECEIVED_NS (4000 + 1500 + 3 * BYTES)
#define COMPLETE_NS 500

static const uint8_t peer_mac[6] = { 0x52, 0x54, 0, 0xaa, 0, 9 };

typedef struct Scene {
    QUnetmmMachine m;
    QUnetmmEp ep;
    QUnetmmBuf buf;
} Scene;

static void scene_up(Scene *s)
{
    QUnetmm *c = &s->m.card;
    uint32_t taken;

    qunetmm_machine_up(&s->m, COSTS, "");
    qunetmm_init(c, s->m.bus, QPCI_DEVFN(4, 0), &s->m.alloc);
    qunetmm_start(c, 5);
    qunetmm_space(c, 1, UNETMM_SOURCE_TLB, 0, 0);
    qunetmm_ep(&s->ep, c, 1, 1, 5, UNETMM_POLICY_SKIP);
    qunetmm_channel(&s->ep, 0, peer_mac, 5, 0, UNETMM_MAX_PAYLOAD);
    qunetmm_buf(&s->buf, c, 2, 27);
    qunetmm_resolve(c, 1, UNETMM_FAULT_NONE, QUNETMM_VA, s->buf.addr,
                    QUNETMM_RW, 2, 77, &taken);
    g_assert_cmpuint(taken, ==, 2);
    qtest_clock_step(s->m.qts, 1000000);
}

static void scene_down(Scene *s)
{
    qunetmm_buf_free(&s->buf);
    qunetmm_machine_down(&s->m);
}

static uint64_t waiting(Scene *s)
{
    return qunetmm_qom_u64(s->m.qts, "/machine/peripheral-anon/device[0]",
                           "timing-state", "waiting");
}

static void test_send(void)
{
    uint8_t frame[2048];
    Scene s;

    scene_up(&s);
    qunetmm_send(&s.ep, 0, 1, QUNETMM_VA, BYTES);
    qtest_clock_step(s.m.qts, SENT_NS - 1);
    g_assert_cmpuint(qunetmm_machine_frame(&s.m, frame, MSG_DONTWAIT), ==, 0);
    qtest_clock_step(s.m.qts, 1);
    g_assert_cmpuint(qunetmm_machine_frame(&s.m, frame, 0), ==,
                     sizeof(struct unetmm_frame) + BYTES);
    qtest_clock_step(s.m.qts, COMPLETE_NS - 1);
    qunetmm_expect_none(&s.ep);
    qtest_clock_step(s.m.qts, 1);
    qunetmm_expect(&s.ep, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    g_assert_cmpuint(waiting(&s), ==, 0);
    scene_down(&s);
}

static void test_receive(void)
{
    uint8_t frame[sizeof(struct unetmm_frame) + BYTES], payload[BYTES];
    struct unetmm_frame h = {
        .opcode = UNETMM_WIRE_DATAGRAM, .dst_ep = 1, .src_ep = 5,
        .len = BYTES,
    };
    Scene s;

    scene_up(&s);
    memcpy(h.dst, s.m.card.mac, 6);
    memcpy(h.src, peer_mac, 6);
    qunetmm_pattern(payload, BYTES, 3);
    g_assert_cmpuint(qunetmm_frame(frame, &h, payload), ==, sizeof(frame));
    qunetmm_post(&s.ep, 7, QUNETMM_VA, UNETMM_PAGE_BYTES);
    qtest_clock_step(s.m.qts, 1000000);
    g_assert_cmpint(send(s.m.wire, frame, sizeof(frame), 0), ==,
                    sizeof(frame));
    while (!waiting(&s)) {
        g_usleep(1000);         /* the frame is on its way to QEMU */
    }
    qtest_clock_step(s.m.qts, RECEIVED_NS + COMPLETE_NS - 1);
    qunetmm_expect_none(&s.ep);
    qtest_clock_step(s.m.qts, 1);
    qunetmm_expect(&s.ep, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 7);
    qunetmm_buf_expect(&s.buf, 0, payload, BYTES);
    qunetmm_buf_check(&s.buf);
    scene_down(&s);
}

/* A reset drops effects that wait, like the end of the machine. */
static void test_reset(void)
{
    uint8_t frame[2048];
    Scene s;

    scene_up(&s);
    qunetmm_send(&s.ep, 0, 1, QUNETMM_VA, BYTES);
    g_assert_cmpuint(waiting(&s), >, 0);
    qunetmm_flr(&s.m.card);
    g_assert_cmpuint(waiting(&s), ==, 0);
    qtest_clock_step(s.m.qts, 1000000);
    g_assert_cmpuint(qunetmm_machine_frame(&s.m, frame, MSG_DONTWAIT), ==, 0);
    scene_down(&s);
    scene_up(&s);
    qunetmm_send(&s.ep, 0, 1, QUNETMM_VA, BYTES);
    scene_down(&s);
}

/* A machine that is saved while it runs has no effects that wait. */
static void test_saved(void)
{
    QUnetmmMachine to;
    Scene s;

    scene_up(&s);
    qunetmm_send(&s.ep, 0, 1, QUNETMM_VA, BYTES);
    qunetmm_machine_move(&s.m, &to, COSTS);
    s.ep.card = &to.card;
    qunetmm_expect(&s.ep, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    qunetmm_machine_down(&to);
    scene_down(&s);
}

/* The event of a failed migration comes before its end. */
static void await_paused(const Scene *s)
{
    bool paused = false;

    while (!paused) {
        QDict *status = qtest_qmp_assert_success_ref(
            s->m.qts, "{ 'execute': 'query-status' }");

        paused = !strcmp(qdict_get_str(status, "status"), "paused");
        qobject_unref(status);
        g_usleep(paused ? 0 : 1000);
    }
}

/* One that stands still keeps them, and is not saved until it has gone on. */
static void test_not_saved(void)
{
    Scene s;

    scene_up(&s);
    qunetmm_send(&s.ep, 0, 1, QUNETMM_VA, BYTES);
    qtest_qmp_assert_success(s.m.qts, "{ 'execute': 'stop' }");
    g_assert_cmpuint(waiting(&s), >, 0);
    qtest_qmp_assert_success(s.m.qts, "{ 'execute': 'migrate', 'arguments': "
                             "{ 'uri': 'exec:cat >/dev/null' } }");
    g_assert_false(migration_ended(&s.m));
    await_paused(&s);
    qtest_qmp_assert_success(s.m.qts, "{ 'execute': 'cont' }");
    qtest_clock_step(s.m.qts, SENT_NS + COMPLETE_NS);
    qunetmm_expect(&s.ep, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    scene_down(&s);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("/unetmm/timing/send", test_send);
    qtest_add_func("/unetmm/timing/receive", test_receive);
    qtest_add_func("/unetmm/timing/reset", test_reset);
    qtest_add_func("/unetmm/timing/saved", test_saved);
    qtest_add_func("/unetmm/timing/not-saved", test_not_saved);
    return g_test_run();
}
