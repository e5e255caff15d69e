/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Event queues: events of the program's own, and its wait for those of connections. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "provider.h"

/* ---- The rest of the provider, without any connection ------------------------ */

const uint32_t unetmm_inline_1_ = 1;
struct fi_provider umfi_provider = { .name = UMFI_NAME };

static struct umfi_eq *ending;      /* it has the only connection, which has ended */

void umfi_cm_progress(struct umfi_fabric *fabric)
{
    if (ending) {
        ending->channels--;
        umfi_eq_push(ending, FI_SHUTDOWN, &ending->fid.fid, 0, NULL, NULL, 0);
        ending = NULL;
    }
}

int umfi_cm_arm(struct umfi_fabric *fabric)
{
    return 0;
}

/* ---- Tests ------------------------------------------------------------------- */

/* The program gets the entry that it has written, and a waiter learns of it. */
static void own_event(void **state)
{
    struct umfi_fabric fabric = { .lock = PTHREAD_MUTEX_INITIALIZER };
    struct fi_eq_attr attr = { .wait_obj = FI_WAIT_FD };
    struct fi_eq_entry written = { .context = &attr, .data = 7 }, entry = { 0 };
    struct fid_eq *eq;
    uint32_t type = 0;

    fabric.epoll = epoll_create1(0);
    assert_true(fabric.epoll >= 0);
    assert_int_equal(umfi_eq_open(&fabric.fid, &attr, &eq, NULL), 0);
    written.fid = &eq->fid;
    assert_int_equal(fi_eq_write(eq, FI_NOTIFY, &written, sizeof(written), 0),
                     sizeof(written));
    assert_int_equal(fi_eq_read(eq, &type, &entry, sizeof(entry) - 1, 0),
                     -FI_ETOOSMALL);
    assert_int_equal(fi_eq_sread(eq, &type, &entry, sizeof(entry), -1, 0),
                     sizeof(entry));
    assert_int_equal(type, FI_NOTIFY);
    assert_ptr_equal(entry.fid, &eq->fid);
    assert_ptr_equal(entry.context, &attr);
    assert_int_equal(entry.data, 7);
    assert_int_equal(fi_eq_read(eq, &type, &entry, sizeof(entry), 0), -FI_EAGAIN);
    assert_int_equal(fi_close(&eq->fid), 0);
    close(fabric.epoll);
}

/*
 * A program that polls the descriptor, and reads no completion queue, learns of the end of
 * a connection: nothing but a look at the connection's port can tell it.
 */
static void end_of_a_connection(void **state)
{
    struct umfi_fabric fabric = { .lock = PTHREAD_MUTEX_INITIALIZER };
    struct fi_eq_attr attr = { .wait_obj = FI_WAIT_FD };
    struct pollfd poll_eq = { .events = POLLIN };
    struct fi_eq_cm_entry entry;
    struct itimerspec timer;
    struct fid_eq *fid;
    struct umfi_eq *eq;
    uint32_t type = 0;

    fabric.epoll = epoll_create1(0);
    assert_true(fabric.epoll >= 0);
    assert_int_equal(umfi_eq_open(&fabric.fid, &attr, &fid, NULL), 0);
    assert_int_equal(fi_control(&fid->fid, FI_GETWAIT, &poll_eq.fd), 0);
    eq = umfi_of(fid, struct umfi_eq, fid);
    /* Without connections nobody is woken. */
    assert_int_equal(umfi_eq_trywait(eq), 0);
    assert_int_equal(timerfd_gettime(eq->timer, &timer), 0);
    assert_int_equal(timer.it_value.tv_sec + timer.it_value.tv_nsec, 0);
    eq->channels = 1;
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(umfi_eq_trywait(eq), 0);
        assert_int_equal(poll(&poll_eq, 1, 0), 0);
        ending = i ? eq : NULL;
        assert_int_equal(poll(&poll_eq, 1, 10000), 1);
        assert_int_equal(fi_eq_read(fid, &type, &entry, sizeof(entry), 0),
                         i ? (ssize_t)sizeof(entry) : -FI_EAGAIN);
    }
    assert_int_equal(type, FI_SHUTDOWN);
    assert_int_equal(fi_close(&fid->fid), 0);
    close(fabric.epoll);
}

/* Of three requests: one that nobody has seen can be withdrawn, with its memory. */
static void withdrawn(void **state)
{
    struct umfi_fabric fabric = { .lock = PTHREAD_MUTEX_INITIALIZER };
    struct fi_eq_attr attr = { .wait_obj = FI_WAIT_FD };
    struct fid handles[3];
    struct fi_eq_cm_entry entry;
    struct fid_eq *fid;
    struct umfi_eq *eq;
    uint32_t type;

    fabric.epoll = epoll_create1(0);
    assert_true(fabric.epoll >= 0);
    assert_int_equal(umfi_eq_open(&fabric.fid, &attr, &fid, NULL), 0);
    eq = umfi_of(fid, struct umfi_eq, fid);
    for (unsigned i = 0; i < 3; i++) {
        struct fi_info *info = fi_allocinfo();

        info->handle = &handles[i];
        umfi_eq_push(eq, FI_CONNREQ, &fid->fid, 0, info, NULL, 0);
    }
    assert_true(umfi_eq_withdraw(eq, &handles[2]));
    assert_false(umfi_eq_withdraw(eq, &handles[2]));
    assert_int_equal(fi_eq_read(fid, &type, &entry, sizeof(entry), FI_PEEK),
                     sizeof(entry));
    /* The program may use the information until it reads the event. */
    assert_false(umfi_eq_withdraw(eq, &handles[0]));
    assert_true(umfi_eq_withdraw(eq, &handles[1]));
    assert_int_equal(fi_eq_read(fid, &type, &entry, sizeof(entry), 0), sizeof(entry));
    assert_ptr_equal(entry.info->handle, &handles[0]);
    fi_freeinfo(entry.info);
    assert_int_equal(fi_eq_read(fid, &type, &entry, sizeof(entry), 0), -FI_EAGAIN);
    assert_false(umfi_eq_withdraw(eq, &handles[0]));
    umfi_eq_push(eq, FI_SHUTDOWN, &fid->fid, 0, NULL, NULL, 0);
    assert_int_equal(fi_eq_read(fid, &type, &entry, sizeof(entry), 0), sizeof(entry));
    assert_int_equal(fi_close(&fid->fid), 0);
    close(fabric.epoll);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_event),
        cmocka_unit_test(end_of_a_connection),
        cmocka_unit_test(withdrawn),
    };

    return cmocka_run_group_tests_name("eq", tests, NULL, NULL);
}
