/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * In a forked child every call on an endpoint answers -EOWNERDEAD, and none
 * touches the queues: the driver leaves them out of the child, so that a touch
 * would kill it.
 */
#include <stddef.h>
#include <stdint.h>

#include "../one_test.h"
#include <sys/wait.h>

#include "fake_card.h"
#include "sys/sys.h"
#include "wiped.h"

static struct fake_endpoint fake;
static int calls_made;

/* In the child no assertion of the framework can be used: count, and exit. */
static void expect_dead(int64_t result)
{
    calls_made++;
    if (result != -EOWNERDEAD) {
        _exit(calls_made);
    }
}

static void make_every_call(void)
{
    struct iovec iov = { &fake, 8 };
    struct unetmm_completion c;
    struct unetmm_ep *ep = fake.ep;
    uint8_t mac[6] = { 0 };

    expect_dead(unetmm_send(ep, 1, &fake, 8, 0, 0));
    expect_dead(unetmm_sendv(ep, 1, &iov, 1, 0, 0));
    expect_dead(unetmm_send_imm(ep, 1, "x", 1, 2, 0, 0));
    expect_dead(unetmm_send_pending(ep));
    expect_dead(unetmm_post_recv(ep, &fake, 8, 0, 0));
    expect_dead(unetmm_ring(ep));
    expect_dead(unetmm_poll(ep, &c, 1));
    expect_dead(unetmm_peek(ep, &c) || unetmm_card_waits(ep) ? 0 : -EOWNERDEAD);
    expect_dead(unetmm_wait(ep, &c, 1, -1));
    expect_dead(unetmm_arm(ep));
    expect_dead(unetmm_fd(ep));
    expect_dead(unetmm_channel_mtu(ep, 1));
    expect_dead(unetmm_ep_id(ep));
    expect_dead(unetmm_listen(ep, 1, 1));
    expect_dead(unetmm_accept(ep, NULL, 0));
    expect_dead(unetmm_connect(ep, mac, 1, 0, NULL));
    expect_dead(unetmm_shutdown(ep, 1, 0));
    expect_dead(unetmm_listen_ex(ep, 1, 1, NULL));
    expect_dead(unetmm_connect_ex(ep, mac, 1, 0, NULL, NULL));
    expect_dead(unetmm_channel_info(ep, 1, NULL));
    expect_dead(unetmm_disconnect(ep, 1));
    expect_dead(unetmm_import(ep, 1, 1, 0, 0, NULL));
    expect_dead(unetmm_unimport(ep, 1));
    expect_dead(unetmm_write(ep, 1, 0, &fake, 8, 0, 0, 0));
    expect_dead(unetmm_read(ep, 1, 0, &fake, 8, 0, 0));
    expect_dead(unetmm_fetch_add(ep, 1, 0, 1, 0, 0));
    expect_dead(unetmm_cmp_swap(ep, 1, 0, 1, 2, 0, 0));
    expect_dead(unetmm_write_sync(ep, 1, 0, &fake, 8, 0, 0, 0));
    expect_dead(unetmm_read_sync(ep, 1, 0, &fake, 8, 0));
    expect_dead(unetmm_set_notify_handler(ep, 1, NULL, NULL));
    expect_dead(unetmm_set_handler(ep, 1, NULL, NULL));
    expect_dead(unetmm_dispatch(ep, 1, 0));
    expect_dead(unetmm_handlers_start(ep, NULL, NULL));
    expect_dead(unetmm_handlers_block(ep));
    expect_dead(unetmm_handlers_unblock(ep));
    expect_dead(unetmm_handlers_stop(ep));
    expect_dead(unetmm_ep_destroy(ep));
}

TEST(child_is_told, cmocka_unit_test)
{
    struct unetmm_completion c;
    pid_t pid;
    int status;

    if (!wipes_on_fork()) {
        return;
    }
    fake_endpoint_init(&fake, 4, 4, 4, 0);
    assert_int_equal(sys_madvise(fake.card.queues,
                                 fake.card.layout.queue_bytes,
                                 MADV_DONTFORK), 0);
    assert_int_equal(sys_madvise(fake.doorbell, fake.doorbell_bytes,
                                 MADV_DONTFORK), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        make_every_call();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    /* The owner goes on. */
    assert_int_equal(unetmm_send(fake.ep, 1, &c, 8, 0, 0), 0);
    assert_int_equal(unetmm_poll(fake.ep, &c, 1), 0);
    fake_endpoint_free(&fake);
}
