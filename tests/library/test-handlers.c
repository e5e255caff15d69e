/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Handlers called by unetmm_dispatch(): which, in which order, and when not.
 */
#include "../one_test.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake_card.h"
#include "sys/sys.h"
#include "wiped.h"

#define scene_test(fn) cmocka_unit_test_setup_teardown(fn, begin, stop)

#define MS              1000000ll
#define OTHER_CHANNEL   2

static struct fake_endpoint fake;

/* A handler's arguments, and the action that it takes. */
struct log {
    unsigned calls;
    uint64_t cookies[64];
    uint8_t types[64];
    void (*act)(struct unetmm_ep *ep);
};

static struct log every, channel;

static void record(struct unetmm_ep *ep, const struct unetmm_completion *c,
                   void *arg)
{
    struct log *log = arg;

    assert_ptr_equal(ep, fake.ep);
    log->cookies[log->calls] = c->user_data;
    log->types[log->calls++] = c->type;
    if (log->act) {
        log->act(ep);
    }
}

static int begin(void **state)
{
    (void)state;
    fake_endpoint_init(&fake, 4, 4, 4, 0x7fffffe0);
    fake.private->mtu[OTHER_CHANNEL] = 9000;
    fake.private->spin_ns = 0;
    every = channel = (struct log) { 0 };
    assert_int_equal(unetmm_set_handler(fake.ep, UNETMM_EVERY_CHANNEL, record,
                                        &every), 0);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    fake_endpoint_free(&fake);
    return 0;
}

static void complete(unsigned number, unsigned type, uint64_t cookie)
{
    const struct unetmm_cqe cqe = {
        .cookie = cookie,
        .channel = (uint16_t)number,
        .opcode = (uint8_t)type,
    };

    assert_true(fake_card_complete(&fake.card, &cqe));
}

static void complete_many(uint64_t from, unsigned n)
{
    for (; n; n--) {
        complete(1, UNETMM_CQE_RECEIVED, from++);
    }
}

static void check_log(const struct log *log, uint64_t from, unsigned n)
{
    unsigned i;

    assert_int_equal(log->calls, n);
    for (i = 0; i < n; i++) {
        assert_int_equal(log->cookies[i], from + i);
    }
}

/* ---- Which ----------------------------------------------------------------- */

TEST(channel_goes_before_endpoint, scene_test)
{
    assert_int_equal(unetmm_set_handler(fake.ep, 1, record, &channel), 0);
    complete(1, UNETMM_CQE_RECEIVED, 1);
    complete(1, UNETMM_CQE_SENT, 2);
    complete(OTHER_CHANNEL, UNETMM_CQE_RECEIVED, 3);
    /* Of no channel, whatever the field says */
    complete(1, UNETMM_CQE_BUFFER, 4);
    /* A card's number that is out of range is not looked up. */
    complete(0xffff, UNETMM_CQE_RECEIVED, 5);
    assert_int_equal(unetmm_dispatch(fake.ep, 64, 0), 5);
    check_log(&channel, 1, 2);
    assert_int_equal(channel.types[0], UNETMM_CQE_RECEIVED);
    assert_int_equal(channel.types[1], UNETMM_CQE_SENT);
    check_log(&every, 3, 3);
    assert_int_equal(every.types[1], UNETMM_CQE_BUFFER);
    assert_int_equal(unetmm_set_handler(fake.ep, 1, NULL, NULL), 0);
    complete(1, UNETMM_CQE_RECEIVED, 6);
    assert_int_equal(unetmm_dispatch(fake.ep, 64, 0), 1);
    check_log(&every, 3, 4);
}

TEST(inline_message_is_in_the_completion, scene_test)
{
    assert_true(fake_card_deliver(&fake.card, 1, "short", 6, true));
    assert_int_equal(unetmm_dispatch(fake.ep, 1, 0), 1);
    assert_int_equal(every.types[0], UNETMM_CQE_RECEIVED);
}

TEST(without_a_handler_nothing_is_taken, scene_test)
{
    struct unetmm_completion c = { 0 };

    complete_many(7, 1);
    assert_int_equal(unetmm_set_handler(fake.ep, UNETMM_EVERY_CHANNEL, NULL,
                                        NULL), 0);
    assert_int_equal(unetmm_dispatch(fake.ep, 1, 0), -ENOENT);
    assert_int_equal(unetmm_dispatch(fake.ep, 1, -1), -ENOENT);
    assert_int_equal(unetmm_handlers_start(fake.ep, NULL, NULL), -ENOENT);
    assert_int_equal(unetmm_poll(fake.ep, &c, 1), 1);
    assert_int_equal(c.user_data, 7);
    assert_int_equal(unetmm_set_handler(fake.ep, 3, record, &channel),
                     -ENOENT);
    assert_int_equal(unetmm_set_handler(fake.ep, FAKE_CHANNELS, record,
                                        &channel), -ENOENT);
}

/* ---- When ------------------------------------------------------------------ */

TEST(takes_no_more_than_it_is_told, scene_test)
{
    complete_many(0, 10);
    assert_int_equal(unetmm_dispatch(fake.ep, 0, 0), -EINVAL);
    assert_int_equal(unetmm_dispatch(fake.ep, 4, 0), 4);
    assert_int_equal(unetmm_dispatch(fake.ep, 5, 0), 5);
    assert_int_equal(unetmm_dispatch(fake.ep, UINT32_MAX, -1), 1);
    assert_int_equal(unetmm_dispatch(fake.ep, UINT32_MAX, 0), 0);
    check_log(&every, 0, 10);
}

TEST(waits_for_the_first, scene_test)
{
    uint64_t start = sys_now_ns();

    assert_int_equal(unetmm_dispatch(fake.ep, 1, 5 * MS), 0);
    assert_in_range(sys_now_ns() - start, 5 * MS, 60000 * MS);
}

static void on_signal(int number)
{
    (void)number;
}

TEST(signal_ends_the_wait, scene_test)
{
    struct sigaction action = { .sa_handler = on_signal };
    struct itimerspec when = { .it_value.tv_nsec = 10 * MS };
    timer_t timer;

    sigaction(SIGALRM, &action, NULL);
    assert_int_equal(timer_create(CLOCK_MONOTONIC, NULL, &timer), 0);
    assert_int_equal(timer_settime(timer, 0, &when, NULL), 0);
    assert_int_equal(unetmm_dispatch(fake.ep, 1, 10000 * MS), -EINTR);
    timer_delete(timer);
}

TEST(stopped_endpoint_is_told_last, scene_test)
{
    complete_many(0, 3);
    fake_card_state(&fake.card, UNETMM_EP_ERROR);
    assert_int_equal(unetmm_dispatch(fake.ep, 64, -1), 3);
    assert_int_equal(unetmm_dispatch(fake.ep, 64, -1), -EIO);
    check_log(&every, 0, 3);
}

static void send_more(struct unetmm_ep *ep)
{
    assert_int_equal(unetmm_send(ep, 1, "x", 1, 0, UNETMM_MORE), 0);
    assert_false(fake_endpoint_rung(&fake));
}

TEST(rings_once_for_all, scene_test)
{
    every.act = send_more;
    complete_many(0, 5);
    assert_int_equal(unetmm_dispatch(fake.ep, 64, 0), 5);
    assert_true(fake_endpoint_rung(&fake));
    assert_int_equal(unetmm_dispatch(fake.ep, 64, 0), 0);
    assert_false(fake_endpoint_rung(&fake));
}

/* ---- Blocking -------------------------------------------------------------- */

TEST(blocking_nests_and_loses_nothing, scene_test)
{
    assert_int_equal(unetmm_handlers_unblock(fake.ep), -EPERM);
    assert_int_equal(unetmm_handlers_block(fake.ep), 0);
    assert_int_equal(unetmm_handlers_block(fake.ep), 0);
    complete_many(0, 10);
    assert_int_equal(unetmm_dispatch(fake.ep, 64, 0), -EDEADLK);
    assert_int_equal(unetmm_dispatch(fake.ep, 64, -1), -EDEADLK);
    assert_int_equal(unetmm_handlers_unblock(fake.ep), 0);
    assert_int_equal(unetmm_dispatch(fake.ep, 64, 0), -EDEADLK);
    assert_int_equal(unetmm_handlers_unblock(fake.ep), 1);
    assert_int_equal(unetmm_handlers_unblock(fake.ep), -EPERM);
    assert_int_equal(every.calls, 0);
    assert_int_equal(unetmm_dispatch(fake.ep, 64, 0), 10);
    check_log(&every, 0, 10);
}

static void inside(struct unetmm_ep *ep)
{
    assert_int_equal(unetmm_dispatch(ep, 1, 0), -EDEADLK);
    assert_int_equal(unetmm_handlers_start(ep, NULL, NULL), -EDEADLK);
    assert_int_equal(unetmm_handlers_stop(ep), -EDEADLK);
    assert_int_equal(unetmm_handlers_unblock(ep), -EPERM);
    assert_int_equal(unetmm_handlers_block(ep), 0);
    assert_int_equal(unetmm_handlers_block(ep), 0);
    assert_int_equal(unetmm_handlers_unblock(ep), 0);
    assert_int_equal(unetmm_handlers_unblock(ep), 0);
    assert_int_equal(unetmm_handlers_unblock(ep), -EPERM);
}

TEST(a_handler_blocks_handlers, scene_test)
{
    every.act = inside;
    complete_many(0, 3);
    assert_int_equal(unetmm_dispatch(fake.ep, 64, 0), 3);
    check_log(&every, 0, 3);
}

static void stay_blocked(struct unetmm_ep *ep)
{
    /* Messages that the last endpoint has left are not this one's. */
    assert_int_equal(unetmm_handlers_unblock(ep), -EPERM);
    assert_int_equal(unetmm_handlers_block(ep), 0);
}

TEST(a_handler_leaves_them_blocked, scene_test)
{
    every.act = stay_blocked;
    complete_many(0, 3);
    assert_int_equal(unetmm_dispatch(fake.ep, 64, 0), 1);
    assert_int_equal(unetmm_dispatch(fake.ep, 64, 0), -EDEADLK);
    assert_int_equal(unetmm_handlers_unblock(fake.ep), 1);
    assert_int_equal(unetmm_dispatch(fake.ep, 64, 0), 1);
    assert_int_equal(unetmm_handlers_unblock(fake.ep), 1);
    every.act = NULL;
    assert_int_equal(unetmm_dispatch(fake.ep, 64, 0), 1);
    check_log(&every, 0, 3);
}

/* ---- From inside ----------------------------------------------------------- */

static void take_two(struct unetmm_ep *ep)
{
    struct unetmm_completion c[2] = { 0 };

    assert_int_equal(unetmm_wait(ep, c, 2, -1), 2);
    assert_int_equal(c[0].user_data, every.cookies[every.calls - 1] + 1);
    assert_int_equal(c[1].user_data, c[0].user_data + 1);
}

TEST(a_handler_takes_the_next, scene_test)
{
    every.act = take_two;
    complete_many(0, 6);
    assert_int_equal(unetmm_dispatch(fake.ep, 64, 0), 2);
    assert_int_equal(every.cookies[0], 0);
    assert_int_equal(every.cookies[1], 3);
}

static void hand_over(struct unetmm_ep *ep)
{
    assert_int_equal(unetmm_set_handler(ep, UNETMM_EVERY_CHANNEL, record,
                                        &channel), 0);
}

static void retire(struct unetmm_ep *ep)
{
    assert_int_equal(unetmm_set_handler(ep, UNETMM_EVERY_CHANNEL, NULL, NULL),
                     0);
}

TEST(a_handler_is_replaced_by_itself, scene_test)
{
    every.act = hand_over;
    channel.act = retire;
    complete_many(0, 3);
    assert_int_equal(unetmm_dispatch(fake.ep, 64, 0), 2);
    check_log(&every, 0, 1);
    check_log(&channel, 1, 1);
    assert_int_equal(unetmm_dispatch(fake.ep, 64, 0), -ENOENT);
}

static pid_t forked;

static void fork_inside(struct unetmm_ep *ep)
{
    forked = fork();
    if (!forked && unetmm_handlers_unblock(ep) != -EOWNERDEAD) {
        _exit(1);
    }
}

/* The child comes back into unetmm_dispatch(), which must keep off. */
TEST(child_is_told, scene_test)
{
    int ret, status;

    if (!wipes_on_fork()) {
        return;
    }
    assert_int_equal(sys_madvise(fake.card.queues,
                                 fake.card.layout.queue_bytes,
                                 MADV_DONTFORK), 0);
    every.act = fork_inside;
    complete_many(0, 1);
    ret = unetmm_dispatch(fake.ep, 64, 0);
    if (!forked) {
        _exit(ret == -EOWNERDEAD ? 0 : 2);
    }
    assert_int_equal(ret, 1);
    assert_int_equal(waitpid(forked, &status, 0), forked);
    assert_int_equal(status, 0);
    every.act = NULL;
    complete_many(1, 1);
    assert_int_equal(unetmm_dispatch(fake.ep, 64, 0), 1);
    check_log(&every, 0, 2);
}

/* A handler of one endpoint dispatches another, whose handler asks for ours. */
static struct fake_endpoint second;

static void innermost(struct unetmm_ep *ep, const struct unetmm_completion *c,
                      void *arg)
{
    (void)c;
    assert_ptr_equal(ep, second.ep);
    assert_int_equal(unetmm_dispatch(ep, 1, 0), -EDEADLK);
    assert_int_equal(unetmm_dispatch(fake.ep, 1, 0), -EDEADLK);
    ++*(int *)arg;
}

static void dispatch_second(struct unetmm_ep *ep)
{
    (void)ep;
    assert_int_equal(unetmm_dispatch(second.ep, 1, 0), 1);
    assert_int_equal(unetmm_dispatch(second.ep, 1, 0), 0);
    /* Still inside of ours */
    assert_int_equal(unetmm_dispatch(fake.ep, 1, 0), -EDEADLK);
}

TEST(endpoints_are_independent, scene_test)
{
    const struct unetmm_cqe cqe = { .opcode = UNETMM_CQE_SENT };
    int calls = 0;

    fake_endpoint_init(&second, 4, 4, 4, 0);
    assert_int_equal(unetmm_set_handler(second.ep, UNETMM_EVERY_CHANNEL,
                                        innermost, &calls), 0);
    assert_true(fake_card_complete(&second.card, &cqe));
    every.act = dispatch_second;
    complete_many(0, 1);
    assert_int_equal(unetmm_dispatch(fake.ep, 64, 0), 1);
    assert_int_equal(calls, 1);
    fake_endpoint_free(&second);
}
