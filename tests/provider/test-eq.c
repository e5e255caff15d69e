/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Event queues: events of the program's own, and its wait for those of connections. */
#include "../one_test.h"
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "provider.h"

/* ---- The rest of the provider, without any connection ------------------------ */

const uint32_t unetmm_inline_1_ = 1;
struct fi_provider umfi_provider = { .name = UMFI_NAME };

static struct umfi_eq *ending;      /* it has the only connection, which has ended */

void umfi_cm_progress(struct umfi_fabric *fabric)
{
    if (ending) {
        ending->channels--;
        umfi_eq_push_event(ending, FI_SHUTDOWN, &ending->fid.fid, 0, NULL, NULL, 0);
        ending = NULL;
    }
}

int umfi_cm_arm_ports(struct umfi_fabric *fabric)
{
    return 0;
}

static bool no_memory;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

void *__wrap_malloc(size_t size)
{
    return no_memory ? NULL : __real_malloc(size);
}

/* ---- Tests ------------------------------------------------------------------- */

/* The program gets the entry that it has written, and a waiter learns of it. */
TEST(own_event, cmocka_unit_test)
{
    struct umfi_fabric fabric = { 0 };
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
TEST(end_of_a_connection, cmocka_unit_test)
{
    struct umfi_fabric fabric = { 0 };
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
TEST(withdrawn, cmocka_unit_test)
{
    struct umfi_fabric fabric = { 0 };
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
        umfi_eq_push_event(eq, FI_CONNREQ, &fid->fid, 0, info, NULL, 0);
    }
    assert_true(umfi_eq_withdraw_request(eq, &handles[2]));
    assert_false(umfi_eq_withdraw_request(eq, &handles[2]));
    assert_int_equal(fi_eq_read(fid, &type, &entry, sizeof(entry), FI_PEEK),
                     sizeof(entry));
    /* The program may use the information until it reads the event. */
    assert_false(umfi_eq_withdraw_request(eq, &handles[0]));
    assert_true(umfi_eq_withdraw_request(eq, &handles[1]));
    assert_int_equal(fi_eq_read(fid, &type, &entry, sizeof(entry), 0), sizeof(entry));
    assert_ptr_equal(entry.info->handle, &handles[0]);
    fi_freeinfo(entry.info);
    assert_int_equal(fi_eq_read(fid, &type, &entry, sizeof(entry), 0), -FI_EAGAIN);
    assert_false(umfi_eq_withdraw_request(eq, &handles[0]));
    umfi_eq_push_event(eq, FI_SHUTDOWN, &fid->fid, 0, NULL, NULL, 0);
    assert_int_equal(fi_eq_read(fid, &type, &entry, sizeof(entry), 0), sizeof(entry));
    assert_int_equal(fi_close(&fid->fid), 0);
    close(fabric.epoll);
}

static struct umfi_fabric alone = { .fid.api_version = FI_VERSION(1, 17) };

static struct umfi_eq *open_alone(void)
{
    struct fid_eq *fid;

    alone.epoll = epoll_create1(0);
    assert_true(alone.epoll >= 0);
    assert_int_equal(umfi_eq_open(&alone.fid, NULL, &fid, NULL), 0);
    assert_int_equal(alone.users, 1);
    return umfi_of(fid, struct umfi_eq, fid);
}

static void close_alone(struct umfi_eq *eq)
{
    assert_int_equal(fi_close(&eq->fid.fid), 0);
    assert_int_equal(alone.users, 0);
    close(alone.epoll);
}

/* The peer's data, of which the reader gets as much as it has room for */
TEST(data_of_events, cmocka_unit_test)
{
    static const struct { size_t room, got; } rows[] = { { 3, 3 }, { 4, 4 }, { 9, 4 } };
    struct umfi_eq *eq = open_alone();
    union { struct fi_eq_cm_entry entry; char bytes[sizeof(struct fi_eq_cm_entry) + 16]; } e;
    struct fid_eq *fid = &eq->fid;
    uint32_t type;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t bytes = sizeof(e.entry) + rows[i].room;

        umfi_eq_push_event(eq, FI_CONNECTED, &fid->fid, 0, NULL, "data", 4);
        memset(&e, 0, sizeof(e));
        assert_int_equal(fi_eq_read(fid, &type, &e, sizeof(e.entry) - 1, 0), -FI_ETOOSMALL);
        assert_int_equal(fi_eq_read(fid, &type, &e, bytes, FI_PEEK),
                         sizeof(e.entry) + rows[i].got);
        assert_int_equal(fi_eq_read(fid, &type, &e, bytes, 0),
                         sizeof(e.entry) + rows[i].got);
        assert_int_equal(type, FI_CONNECTED);
        assert_ptr_equal(e.entry.fid, &fid->fid);
        assert_memory_equal(e.entry.data, "data\0\0", rows[i].got);
        assert_int_equal(e.entry.data[rows[i].got], 0);
        assert_int_equal(fi_eq_read(fid, &type, &e, bytes, 0), -FI_EAGAIN);
    }
    close_alone(eq);
}

/* With data in the reader's memory, or in the queue's until the next error */
TEST(errors, cmocka_unit_test)
{
    struct umfi_eq *eq = open_alone();
    struct fid_eq *fid = &eq->fid;
    struct fid object = { .context = &object };
    struct fi_eq_err_entry error;
    struct fi_eq_cm_entry entry;
    char room[3];
    uint32_t type;

    memset(&error, 0, sizeof(error));
    assert_int_equal(fi_eq_readerr(fid, &error, 0), -FI_EAGAIN);
    for (unsigned i = 0; i < 4; i++) {
        umfi_eq_push_event(eq, 0, &object, FI_ECONNREFUSED, NULL, "data", 4);
    }
    assert_int_equal(fi_eq_read(fid, &type, &entry, sizeof(entry), 0), -FI_EAVAIL);
    for (unsigned i = 0; i < 5; i++) {
        bool given = i == 2, small = i == 3;

        error = (struct fi_eq_err_entry) {
            .data = 1,
            .err_data = given || small ? room : NULL,
            .err_data_size = given ? sizeof(room) : 0,
        };
        assert_int_equal(fi_eq_readerr(fid, &error, i ? 0 : FI_PEEK), sizeof(error));
        assert_ptr_equal(error.fid, &object);
        assert_ptr_equal(error.context, &object);
        assert_int_equal(error.data, 0);
        assert_int_equal(error.err, FI_ECONNREFUSED);
        assert_int_equal(error.prov_errno, FI_ECONNREFUSED);
        assert_int_equal(error.err_data_size, given ? sizeof(room) : 4);
        assert_int_equal(error.err_data == room, given);
        assert_memory_equal(error.err_data, "data", error.err_data_size);
    }
    assert_int_equal(fi_eq_readerr(fid, &error, 0), -FI_EAGAIN);
    umfi_eq_push_event(eq, FI_SHUTDOWN, &object, 0, NULL, NULL, 0);
    assert_int_equal(fi_eq_readerr(fid, &error, 0), -FI_EAGAIN);
    close_alone(eq);
}

/* Callers older than 1.5 do not set the members for data of theirs: the memory is not theirs. */
TEST(errors_of_old_callers, cmocka_unit_test)
{
    struct umfi_eq *eq = open_alone();
    struct fi_eq_err_entry error = { .err_data = &error, .err_data_size = 4 };

    alone.fid.api_version = FI_VERSION(1, 4);
    umfi_eq_push_event(eq, 0, &eq->fid.fid, FI_ECONNREFUSED, NULL, "data", 4);
    assert_int_equal(fi_eq_readerr(&eq->fid, &error, 0), sizeof(error));
    assert_ptr_not_equal(error.err_data, &error);
    assert_memory_equal(error.err_data, "data", error.err_data_size);
    alone.fid.api_version = FI_VERSION(1, 17);
    close_alone(eq);
}

/* The events of a closed object go; the descriptor is readable while others are there. */
TEST(forgotten, cmocka_unit_test)
{
    struct fid gone = { .context = NULL }, stays = { .context = NULL };
    struct umfi_eq *eq = open_alone();
    struct pollfd readable = { .fd = eq->event_fd, .events = POLLIN };
    struct fi_eq_cm_entry entry;
    uint32_t type;

    for (unsigned at = 0; at < 3; at++) {
        for (unsigned i = 0; i < 3; i++) {
            umfi_eq_push_event(eq, FI_CONNREQ, i == at ? &stays : &gone, 0, fi_allocinfo(), NULL,
                               0);
        }
        umfi_eq_remove_events(eq, &gone);
        assert_int_equal(poll(&readable, 1, 0), 1);
        assert_int_equal(fi_eq_read(&eq->fid, &type, &entry, sizeof(entry), 0),
                         sizeof(entry));
        assert_ptr_equal(entry.fid, &stays);
        fi_freeinfo(entry.info);
        assert_int_equal(poll(&readable, 1, 0), 0);
        assert_int_equal(fi_eq_read(&eq->fid, &type, &entry, sizeof(entry), 0), -FI_EAGAIN);
    }
    umfi_eq_push_event(eq, FI_SHUTDOWN, &stays, 0, NULL, NULL, 0);
    umfi_eq_push_event(eq, FI_CONNREQ, &stays, 0, fi_allocinfo(), NULL, 0);
    close_alone(eq);
}

/*
 * A lost event that has no other effect is its caller's.  After one of an EP the program gets
 * the events before it, then learns of the loss, and a waiter does not sleep.
 */
TEST(lost_event, cmocka_unit_test)
{
    struct umfi_eq *eq = open_alone();
    struct umfi_ep ep = { .eq = eq };
    struct pollfd readable = { .fd = eq->event_fd, .events = POLLIN };
    struct fi_eq_entry entry = { .fid = &eq->fid.fid };
    uint32_t type;

    no_memory = true;
    assert_int_equal(fi_eq_write(&eq->fid, FI_NOTIFY, &entry, sizeof(entry), 0), -FI_ENOMEM);
    no_memory = false;
    assert_int_equal(fi_eq_read(&eq->fid, &type, &entry, sizeof(entry), 0), -FI_EAGAIN);
    assert_int_equal(fi_eq_write(&eq->fid, FI_NOTIFY, &entry, sizeof(entry), 0), sizeof(entry));
    no_memory = true;
    umfi_ep_push_event(&ep, FI_SHUTDOWN, 0, NULL, 0);
    no_memory = false;
    assert_int_equal(umfi_eq_push_event(eq, FI_CONNREQ, &eq->fid.fid, 0, fi_allocinfo(), NULL, 0),
                     -FI_EOVERRUN);
    assert_int_equal(fi_eq_read(&eq->fid, &type, &entry, sizeof(entry), 0), sizeof(entry));
    assert_int_equal(umfi_eq_trywait(eq), -FI_EAGAIN);
    assert_int_equal(poll(&readable, 1, 0), 1);
    assert_int_equal(fi_eq_sread(&eq->fid, &type, &entry, sizeof(entry), -1, 0), -FI_EOVERRUN);
    assert_int_equal(fi_eq_write(&eq->fid, FI_NOTIFY, &entry, sizeof(entry), 0), -FI_EOVERRUN);
    close_alone(eq);
}

TEST(small_calls, cmocka_unit_test)
{
    static const struct { enum fi_wait_obj wait; int ret; } rows[] = {
        { FI_WAIT_NONE, 0 }, { FI_WAIT_UNSPEC, 0 }, { FI_WAIT_FD, 0 },
        { FI_WAIT_SET, -FI_ENOSYS }, { FI_WAIT_MUTEX_COND, -FI_ENOSYS },
    };
    struct umfi_eq *eq = open_alone();
    struct fi_eq_entry entry = { .fid = &eq->fid.fid };
    enum fi_wait_obj wait = FI_WAIT_NONE;
    char text[4];
    int fd = -1;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fi_eq_attr attr = { .wait_obj = rows[i].wait };
        struct fid_eq *other;

        assert_int_equal(umfi_eq_open(&alone.fid, &attr, &other, NULL), rows[i].ret);
        if (!rows[i].ret) {
            assert_int_equal(fi_close(&other->fid), 0);
        }
    }
    assert_int_equal(fi_control(&eq->fid.fid, FI_GETWAIT, &fd), 0);
    assert_int_equal(fd, eq->epoll);
    assert_int_equal(fi_control(&eq->fid.fid, FI_GETWAITOBJ, &wait), 0);
    assert_int_equal(wait, FI_WAIT_FD);
    assert_int_equal(fi_control(&eq->fid.fid, FI_ENABLE, NULL), -FI_ENOSYS);
    assert_int_equal(fi_eq_write(&eq->fid, FI_SHUTDOWN, &entry, sizeof(entry), 0),
                     -FI_EINVAL);
    assert_int_equal(fi_eq_write(&eq->fid, FI_NOTIFY, &entry, sizeof(entry) - 1, 0),
                     -FI_EINVAL);
    assert_string_equal(fi_eq_strerror(&eq->fid, FI_ECONNREFUSED, NULL, text, sizeof(text)),
                        fi_strerror(FI_ECONNREFUSED));
    assert_int_equal(strlen(text), sizeof(text) - 1);
    assert_non_null(fi_eq_strerror(&eq->fid, FI_EIO, NULL, NULL, 0));
    text[0] = 'x';
    assert_non_null(fi_eq_strerror(&eq->fid, FI_EIO, NULL, text, 0));
    assert_int_equal(text[0], 'x');
    eq->users = 1;
    assert_int_equal(fi_close(&eq->fid.fid), -FI_EBUSY);
    eq->users = 0;
    close_alone(eq);
}
