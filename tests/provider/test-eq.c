/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Event queues: events of the program's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cmocka.h>

#include "provider.h"

/* ---- The rest of the provider, without any connection ------------------------ */

const uint32_t unetmm_inline_1_ = 1;
struct fi_provider umfi_provider = { .name = UMFI_NAME };

void umfi_cm_progress(struct umfi_fabric *fabric)
{
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_event),
    };

    return cmocka_run_group_tests_name("eq", tests, NULL, NULL);
}
