/*
 * unetmm qtests: the card moved to another QEMU in the middle of everything
 *
 * The machine is saved to a file and restored by a second QEMU; the driver and
 * its processes, which are this test, go on there.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/crc32c.h"
#include "hw/pci/pci_regs.h"
#include "libqos/malloc-pc.h"
#include "libqos/pci-pc.h"
#include "qobject/qdict.h"
#include "unetmm-lib.c"
#include "unetmm-machine.c"

#define PAGE_NS     QUNETMM_PAGE_NS
#define LEN         (2 * UNETMM_PAGE_BYTES)
#define LOG2        5

static const uint8_t peer_mac[6] = { 0x52, 0x54, 0, 0xaa, 0, 9 };

/* The scene: four endpoints, each in a space of its own. */
typedef struct Scene {
    QUnetmmMachine *m;
    QUnetmmEp eps[4];
    QUnetmmBuf src, dst;
    struct unetmm_fault miss;
} Scene;

static void scene_move_with(Scene *s, QUnetmmMachine *to,
                            const char *properties)
{
    qunetmm_machine_move(s->m, to, properties);
    s->m = to;
    for (unsigned i = 0; i < G_N_ELEMENTS(s->eps); i++) {
        s->eps[i].card = &to->card;
    }
    s->src.qts = s->dst.qts = to->qts;
}

static void scene_move(Scene *s, QUnetmmMachine *to)
{
    scene_move_with(s, to, "");
}

/* ---- A scene in which everything is under way --------------------------- */

static void give(Scene *s, uint16_t space, const QUnetmmBuf *buf)
{
    uint32_t taken;

    qunetmm_resolve(&s->m->card, space, UNETMM_FAULT_NONE, QUNETMM_VA,
                    buf->addr, QUNETMM_RW, 2, 77, &taken);
    g_assert_cmpuint(taken, ==, 2);
}

static void scene_up(Scene *s, QUnetmmMachine *m)
{
    QUnetmm *c = &m->card;

    memset(s, 0, sizeof(*s));
    s->m = m;
    qunetmm_init(c, m->bus, QPCI_DEVFN(4, 0), &m->alloc);
    qunetmm_start(c, 5);
    for (unsigned i = 0; i < G_N_ELEMENTS(s->eps); i++) {
        qunetmm_space(c, 1 + i, UNETMM_SOURCE_TLB, 0, 0);
        qunetmm_ep(&s->eps[i], c, 1 + i, 1 + i, LOG2, UNETMM_POLICY_SKIP);
        qunetmm_channel(&s->eps[i], 0, c->mac, 2, 0, LEN);
        qunetmm_channel(&s->eps[i], 1, peer_mac, 5, 0, UNETMM_MAX_PAYLOAD);
    }
    qunetmm_channel(&s->eps[1], 0, c->mac, 1, 0, LEN);
    qunetmm_buf(&s->src, c, 2, 27);
    qunetmm_buf(&s->dst, c, 2, 28);
}

/* Endpoint 1 sends, 2 receives, 3 waits for a page, 4 moves one. */
static void scene_busy(Scene *s)
{
    QUnetmm *c = &s->m->card;

    give(s, 1, &s->src);
    give(s, 2, &s->dst);
    give(s, 4, &s->src);
    qunetmm_write(c, UNETMM_REG_EVENT_MASK, UNETMM_EVENT_EP_ERROR);
    qunetmm_ring_write(c, UNETMM_RING_NOTIFY, UNETMM_RING_MODERATE,
                       100 * PAGE_NS);
    qunetmm_post(&s->eps[1], 9, QUNETMM_VA, LEN);
    qunetmm_send(&s->eps[0], 0, 1, QUNETMM_VA, LEN);
    for (unsigned i = 0; i < 2; i++) {
        qtest_clock_step(s->m->qts, PAGE_NS);
    }
    qunetmm_expect(&s->eps[0], UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    qunetmm_arm(&s->eps[1]);
    qunetmm_send(&s->eps[2], 1, 3, QUNETMM_VA, LEN);
    s->miss = qunetmm_expect_miss(c, QUNETMM_VA, 2, 0);
    qunetmm_send(&s->eps[3], 1, 4, QUNETMM_VA, LEN);
    qunetmm_invalidate(c, 4, 0, UINT64_MAX);
    g_assert_true(qunetmm_invalidate_busy(c));
}

static void expect_frame(QUnetmmMachine *m, const uint8_t *data, uint32_t bytes)
{
    static uint8_t frame[UNETMM_MAX_FRAME];

    g_assert_cmpint(qunetmm_machine_frame(m, frame, 0), ==,
                    sizeof(struct unetmm_frame) + bytes);
    g_assert_cmpmem(frame + sizeof(struct unetmm_frame), bytes, data, bytes);
}

static void scene_finish(Scene *s)
{
    QUnetmm *c = &s->m->card;
    const uint8_t *data = s->src.model + UNETMM_PAGE_BYTES;
    struct unetmm_fault again;
    struct unetmm_cqe cqe;
    uint32_t taken;

    g_assert_true(qunetmm_invalidate_busy(c));
    qunetmm_expect_none(&s->eps[1]);
    qtest_clock_step(s->m->qts, PAGE_NS);
    g_assert_false(qunetmm_invalidate_busy(c));
    /* The answer to the other machine's miss. */
    g_assert_cmpuint(qunetmm_resolve(c, 3, s->miss.fault_id, QUNETMM_VA,
                                     s->src.addr, QUNETMM_RW, 2, 78, &taken),
                     ==, UNETMM_CS_OK);
    g_assert_cmpuint(taken, ==, 2);
    again = qunetmm_expect_miss(c, QUNETMM_VA + QUNETMM_PAGE, 1, 0);
    g_assert_cmpuint(again.space, ==, 4);
    qunetmm_resolve(c, 4, again.fault_id, QUNETMM_VA + QUNETMM_PAGE,
                    s->src.addr + QUNETMM_PAGE, QUNETMM_RW, 1, 79, &taken);
    for (unsigned i = 0; i < 4; i++) {
        qtest_clock_step(s->m->qts, PAGE_NS);
    }
    expect_frame(s->m, data, LEN);
    expect_frame(s->m, data, LEN);
    cqe = qunetmm_expect(&s->eps[1], UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 9);
    g_assert_cmpuint(cqe.len, ==, LEN);
    qunetmm_expect(&s->eps[2], UNETMM_CQE_SENT, UNETMM_ST_OK, 3);
    qunetmm_expect(&s->eps[3], UNETMM_CQE_SENT, UNETMM_ST_OK, 4);
    for (unsigned i = 0; i < G_N_ELEMENTS(s->eps); i++) {
        qunetmm_expect_none(&s->eps[i]);
    }
    qunetmm_buf_expect(&s->dst, 0, data, LEN);
    qunetmm_buf_check(&s->dst);
    qunetmm_buf_check(&s->src);
}

static void scene_woken(Scene *s)
{
    struct unetmm_notify n;

    g_assert_true(qunetmm_notify(&s->m->card, &n));
    g_assert_cmpuint(n.ep, ==, 2);
    g_assert_false(qunetmm_notify(&s->m->card, &n));
    qtest_clock_step(s->m->qts, 100 * PAGE_NS);
    g_assert_true(qunetmm_msi_taken(&s->m->card, UNETMM_VEC_NOTIFY));
    qtest_clock_step(s->m->qts, 100 * PAGE_NS);
    g_assert_false(qunetmm_msi_taken(&s->m->card, UNETMM_VEC_NOTIFY));
}

static void scene_down(Scene *s)
{
    qunetmm_buf_free(&s->src);
    qunetmm_buf_free(&s->dst);
}

/* ---- Tests -------------------------------------------------------------- */

static void test_busy(void)
{
    QUnetmmMachine from, to, third;
    Scene s;

    qunetmm_machine_up(&from, "", "");
    scene_up(&s, &from);
    scene_busy(&s);
    scene_move(&s, &to);
    /* Once more, before anything has moved on. */
    scene_move(&s, &third);
    scene_finish(&s);
    scene_woken(&s);
    /* The last machine's card can be reset and used as any other. */
    qunetmm_flr(&s.m->card);
    qunetmm_enable(&s.m->card);
    g_assert_cmphex(qunetmm_read(&s.m->card, UNETMM_REG_STATUS), ==,
                    UNETMM_STATUS_LINK);
    scene_down(&s);
    qunetmm_machine_down(&from);
    qunetmm_machine_down(&to);
    qunetmm_machine_down(&third);
}

/* Frames that a machine has sent and nobody has read. */
static unsigned frames_there(QUnetmmMachine *m)
{
    static uint8_t frame[UNETMM_MAX_FRAME];
    unsigned n = 0;

    while (qunetmm_machine_frame(m, frame, MSG_DONTWAIT)) {
        n++;
    }
    return n;
}

/*
 * Nobody reads: the net layer keeps a frame, and sends wait behind it.  Where
 * it goes on, each send completes once, and missing frames are counted.
 */
static void test_wire_full(void)
{
    unsigned sent = 0, first, second, lost;
    QUnetmmMachine from, to;
    Scene s;

    qunetmm_machine_up(&from, "", "");
    scene_up(&s, &from);
    while (!qunetmm_counter(&from.card, UNETMM_C_wire_waits)) {
        g_assert_cmpuint(sent, <, 1000);
        qunetmm_send_inline(&s.eps[0], 1, sent, "01234567", 8);
        if (sent && !qunetmm_counter(&from.card, UNETMM_C_wire_waits)) {
            qunetmm_expect(&s.eps[0], UNETMM_CQE_SENT, UNETMM_ST_OK, sent - 1);
        }
        sent++;
    }
    g_assert_cmpuint(qunetmm_counter(&from.card, UNETMM_C_drop_purged), ==, 0);
    scene_move(&s, &to);
    qunetmm_wait_counter(&to.card, UNETMM_C_sends_done, sent);
    lost = qunetmm_counter(&to.card, UNETMM_C_drop_purged);
    g_assert_cmpuint(lost, ==, 1);
    first = frames_there(&from);
    second = frames_there(&to);
    g_assert_cmpuint(second, >, 0);
    g_assert_cmpuint(first + second + lost, ==, sent);
    scene_down(&s);
    qunetmm_machine_down(&from);
    qunetmm_machine_down(&to);
}

/* Properties that can be set at run time go with the card. */
static void test_knobs(void)
{
    const char *path = "/machine/peripheral/c";
    QUnetmmMachine from, to;

    qunetmm_machine_up(&from, ",id=c", "");
    qunetmm_init(&from.card, from.bus, QPCI_DEVFN(4, 0), &from.alloc);
    qunetmm_qom_set(from.qts, path, "x-loss", 1234);
    qunetmm_qom_set(from.qts, path, "x-seed", 99);
    qunetmm_machine_move(&from, &to, ",id=c");
    g_assert_cmpuint(qunetmm_qom_u64(to.qts, path, "x-loss", NULL), ==, 1234);
    g_assert_cmpuint(qunetmm_qom_u64(to.qts, path, "x-seed", NULL), ==, 99);
    qunetmm_machine_down(&from);
    qunetmm_machine_down(&to);
}

/* Late answers go with the card, and are late there. */
static void test_late(void)
{
    const char *path = "/machine/peripheral/c";
    struct unetmm_fault miss;
    QUnetmmMachine from, to;
    uint32_t taken;
    Scene s;

    qunetmm_machine_up(&from, ",id=c", "");
    scene_up(&s, &from);
    qunetmm_qom_set(from.qts, path, "x-delay-ns", 7000);
    qunetmm_qom_set(from.qts, path, "x-delay", 1000000);
    qunetmm_qom_set(from.qts, path, "x-fault-delay-ns", 7000);
    qunetmm_qom_set(from.qts, path, "x-fault-delay", 1000000);
    for (unsigned i = 0; i < 3; i++) {
        qunetmm_send_inline(&s.eps[0], 1, i, "01234567", 8);
        qunetmm_expect(&s.eps[0], UNETMM_CQE_SENT, UNETMM_ST_OK, i);
    }
    qunetmm_send(&s.eps[2], 1, 3, QUNETMM_VA, 500);
    miss = qunetmm_expect_miss(&from.card, QUNETMM_VA, 1, 0);
    qunetmm_resolve(&from.card, 3, miss.fault_id, QUNETMM_VA, s.src.addr,
                    QUNETMM_RW, 1, 78, &taken);
    g_assert_cmpuint(taken, ==, 1);
    scene_move_with(&s, &to, ",id=c");
    g_assert_cmpuint(frames_there(&from), ==, 0);
    g_assert_cmpuint(frames_there(&to), ==, 0);
    qunetmm_expect_none(&s.eps[2]);
    qunetmm_qom_set(to.qts, path, "x-delay", 0);
    /* The answer, and the page that it was for. */
    qtest_clock_step(to.qts, 7000);
    qtest_clock_step(to.qts, PAGE_NS);
    qunetmm_expect(&s.eps[2], UNETMM_CQE_SENT, UNETMM_ST_OK, 3);
    for (unsigned i = 0; i < 3; i++) {
        expect_frame(&to, (const uint8_t *)"01234567", 8);
    }
    expect_frame(&to, s.src.model + UNETMM_PAGE_BYTES, 500);
    g_assert_cmpuint(frames_there(&to), ==, 0);
    g_assert_cmpuint(qunetmm_counter(&to.card, UNETMM_C_inj_delay), ==, 3);
    g_assert_cmpuint(qunetmm_counter(&to.card, UNETMM_C_inj_fault_late), ==,
                     1);
    scene_down(&s);
    qunetmm_machine_down(&from);
    qunetmm_machine_down(&to);
}

/* ---- Snapshots ---------------------------------------------------------- */

/* Waits for the end of a job that has just been started; it must be good. */
static void job_done(QUnetmmMachine *m, const char *id)
{
    QDict *jobs, *job;
    bool concluded = false;

    while (!concluded) {
        QDict *event = qtest_qmp_eventwait_ref(m->qts, "JOB_STATUS_CHANGE");
        QDict *data = qdict_get_qdict(event, "data");

        concluded = !strcmp(qdict_get_str(data, "id"), id) &&
                    !strcmp(qdict_get_str(data, "status"), "concluded");
        qobject_unref(event);
    }
    jobs = qtest_qmp(m->qts, "{ 'execute': 'query-jobs' }");
    job = qobject_to(QDict, qlist_peek(qdict_get_qlist(jobs, "return")));
    g_assert_cmpstr(qdict_get_try_str(job, "error"), ==, NULL);
    qobject_unref(jobs);
    qtest_qmp_assert_success(m->qts, "{ 'execute': 'job-dismiss', "
                             "'arguments': { 'id': %s } }", id);
}

/* A disk of no use but that snapshots can be kept in it. */
static void snapshot_disk(QUnetmmMachine *m, const char *path)
{
    qtest_qmp_assert_success(
        m->qts, "{ 'execute': 'blockdev-add', 'arguments': "
        "{ 'driver': 'file', 'node-name': 'image', 'filename': %s } }", path);
    qtest_qmp_assert_success(
        m->qts, "{ 'execute': 'blockdev-create', 'arguments': "
        "{ 'job-id': 'make', 'options': { 'driver': 'qcow2', "
        "'file': 'image', 'size': 1048576 } } }");
    job_done(m, "make");
    qtest_qmp_assert_success(
        m->qts, "{ 'execute': 'blockdev-add', 'arguments': "
        "{ 'driver': 'qcow2', 'node-name': 'disk', 'file': 'image' } }");
}

static void snapshot(QUnetmmMachine *m, const char *what)
{
    qtest_qmp_assert_success(
        m->qts, "{ 'execute': %s, 'arguments': { 'job-id': 'snap', "
        "'tag': 'busy', 'vmstate': 'disk', 'devices': [ 'disk' ] } }", what);
    job_done(m, "snap");
}

/* savevm and loadvm: the same machine goes back to where it was, twice. */
static void test_snapshot(void)
{
    g_autofree char *path = NULL;
    int fd = g_file_open_tmp("unetmm-disk.XXXXXX", &path, NULL);
    QUnetmmMachine m;
    QUnetmm card;
    Scene s, then;

    g_assert_cmpint(fd, >=, 0);
    close(fd);
    qunetmm_machine_up(&m, "", "");
    snapshot_disk(&m, path);
    scene_up(&s, &m);
    scene_busy(&s);
    /* The driver's state at that moment. */
    then = s;
    card = m.card;
    snapshot(&m, "snapshot-save");
    scene_finish(&s);
    for (unsigned i = 0; i < 2; i++) {
        snapshot(&m, "snapshot-load");
        s = then;
        m.card = card;
        scene_finish(&s);
        scene_woken(&s);
    }
    scene_down(&s);
    qunetmm_machine_down(&m);
    unlink(path);
}

static void expect_refused(const char *path, const char *properties,
                           const char *sentence)
{
    g_autofree char *said = NULL;
    QUnetmmMachine to;

    g_assert_false(qunetmm_machine_restore(&to, properties, path));
    g_assert_true(g_file_get_contents(to.said, &said, NULL, NULL));
    if (!strstr(said, sentence)) {
        g_error("\"%s\" is not in: %s", sentence, said);
    }
    qunetmm_machine_down(&to);
}

static void test_mismatch(void)
{
    g_autofree char *path = NULL;
    QUnetmmMachine from;
    Scene s;

    qunetmm_machine_up(&from, "", "");
    scene_up(&s, &from);
    scene_busy(&s);
    path = qunetmm_machine_save(&from);
    expect_refused(path, ",tlb-sets=512",
                   "unetmm: the card cannot go on here: tlb-sets is 512 here "
                   "and was 1024 there\n");
    expect_refused(path, ",mac=52:54:00:00:00:33", "mac is another one");
    scene_down(&s);
    qunetmm_machine_down(&from);
    unlink(path);
}

/* The block's length, which is before the mark that it begins with. */
static size_t find_block(const char *data, size_t bytes)
{
    uint64_t mark = cpu_to_le64(UNETMM_ID_VALUE);

    for (size_t i = 4; i + sizeof(mark) < bytes; i++) {
        if (!memcmp(data + i, &mark, sizeof(mark))) {
            return i - 4;
        }
    }
    g_assert_not_reached();
}

static void test_damaged(void)
{
    g_autofree char *path = NULL;
    g_autofree char *data = NULL;
    QUnetmmMachine from;
    size_t bytes, at;

    qunetmm_machine_up(&from, "", "");
    path = qunetmm_machine_save(&from);
    g_assert_true(g_file_get_contents(path, &data, &bytes, NULL));
    at = find_block(data, bytes);
    g_assert_true(g_file_set_contents(path, data, at + 1000, NULL));
    expect_refused(path, "", "unetmm: the state of the card ends too early");
    data[at + 4] ^= 1;
    g_assert_true(g_file_set_contents(path, data, bytes, NULL));
    expect_refused(path, "", "mark is");
    memset(data + at, 0xff, 4);
    g_assert_true(g_file_set_contents(path, data, bytes, NULL));
    expect_refused(path, "", "unetmm: 4294967295 bytes are more than");
    qunetmm_machine_down(&from);
    unlink(path);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    qtest_add_func("/unetmm/migrate/busy", test_busy);
    qtest_add_func("/unetmm/migrate/wire-full", test_wire_full);
    qtest_add_func("/unetmm/migrate/knobs", test_knobs);
    qtest_add_func("/unetmm/migrate/late", test_late);
    qtest_add_func("/unetmm/migrate/snapshot", test_snapshot);
    qtest_add_func("/unetmm/migrate/mismatch", test_mismatch);
    qtest_add_func("/unetmm/migrate/damaged", test_damaged);
    return g_test_run();
}
