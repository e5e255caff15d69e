/*
 * unetmm qtests: machines with a card on a wire that the test holds, and their
 * migration by a file
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "libqos/malloc-pc.h"
#include "libqos/pci-pc.h"
#include "qobject/qdict.h"
#include "unetmm-machine.h"

#define CARD        "-netdev dgram,id=n0,local.type=fd,local.str=%d " \
                    "-device unetmm,netdev=n0,addr=04.0," \
                    "mac=52:54:00:aa:00:01,x-dma-page-ns=1000%s"

void qunetmm_machine_up(QUnetmmMachine *m, const char *properties,
                        const char *more)
{
    struct timeval limit = { .tv_sec = 30 };
    int fds[2], said;

    memset(m, 0, sizeof(*m));
    g_assert_cmpint(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds), ==, 0);
    fcntl(fds[0], F_SETFD, FD_CLOEXEC);
    setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    said = g_file_open_tmp("unetmm-said.XXXXXX", &m->said, NULL);
    g_assert_cmpint(said, >=, 0);
    close(said);
    m->qts = qtest_initf("-machine q35 -nodefaults -m 32 " CARD " %s 2>%s",
                         fds[1], properties, more, m->said);
    close(fds[1]);
    m->wire = fds[0];
    pc_alloc_init(&m->alloc, m->qts, ALLOC_NO_FLAGS);
    m->bus = qpci_new_pc(m->qts, &m->alloc);
    qtest_qmp_assert_success(
        m->qts, "{ 'execute': 'migrate-set-capabilities', 'arguments': "
        "{ 'capabilities': [ { 'capability': 'events', 'state': true } ] } }");
}

void qunetmm_machine_down(QUnetmmMachine *m)
{
    qpci_free_pc(m->bus);
    alloc_destroy(&m->alloc);
    qtest_quit(m->qts);
    close(m->wire);
    unlink(m->said);
    g_free(m->said);
}

/* Waits until the migration has ended; did it end well? */
static bool migration_ended(QUnetmmMachine *m)
{
    for (;;) {
        QDict *event = qtest_qmp_eventwait_ref(m->qts, "MIGRATION");
        const char *status = qdict_get_str(qdict_get_qdict(event, "data"),
                                           "status");
        bool good = !strcmp(status, "completed");
        bool bad = !strcmp(status, "failed");

        qobject_unref(event);
        if (good || bad) {
            return good;
        }
    }
}

char *qunetmm_machine_save(QUnetmmMachine *m)
{
    char *path = NULL;
    int fd = g_file_open_tmp("unetmm-saved.XXXXXX", &path, NULL);
    g_autofree char *uri = g_strdup_printf("file:%s", path);

    g_assert_cmpint(fd, >=, 0);
    close(fd);
    qtest_qmp_assert_success(m->qts, "{ 'execute': 'migrate', 'arguments': "
                             "{ 'uri': %s } }", uri);
    g_assert_true(migration_ended(m));
    return path;
}

bool qunetmm_machine_restore(QUnetmmMachine *to, const char *properties,
                             const char *path)
{
    g_autofree char *uri = g_strdup_printf("file:%s", path);

    qunetmm_machine_up(to, properties, "-incoming defer");
    qtest_qmp_assert_success(
        to->qts, "{ 'execute': 'migrate-incoming', 'arguments': "
        "{ 'uri': %s, 'exit-on-error': false } }", uri);
    return migration_ended(to);
}

void qunetmm_machine_move(QUnetmmMachine *from, QUnetmmMachine *to,
                          const char *properties)
{
    g_autofree char *path = qunetmm_machine_save(from);
    g_autofree char *said = NULL;

    if (!qunetmm_machine_restore(to, properties, path)) {
        g_file_get_contents(to->said, &said, NULL, NULL);
        g_error("not restored: %s", said);
    }
    unlink(path);
    /* It runs: that comes before the migration is said to have ended. */
    to->card = from->card;
    to->card.dev.bus = to->bus;
    to->card.alloc = &to->alloc;
}

size_t qunetmm_machine_frame(QUnetmmMachine *m, uint8_t *frame, int flags)
{
    const struct unetmm_frame *f = (const struct unetmm_frame *)frame;
    ssize_t n;

    do {
        n = recv(m->wire, frame, UNETMM_MAX_FRAME, flags);
    } while (n > 0 && (f->ethertype[0] != UNETMM_ETHERTYPE >> 8 ||
                       f->ethertype[1] != (UNETMM_ETHERTYPE & 0xff)));
    return MAX(n, 0);
}
