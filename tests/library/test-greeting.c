/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The first words of a stream.  The accepting side asks the peer's driver for the peer's
 * ring, in a thread that may have other streams: the peer is the test's, and its driver
 * answers late, or never.
 */
#include "../one_test.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include <libunetmm/byteorder.h>
#include <libunetmm/stream.h>

#include "eventually.h"
#include "fake_loop.h"

#define scene_test(fn) cmocka_unit_test_setup_teardown(fn, start, end)

#define timed_test(fn) cmocka_unit_test_setup_teardown(fn, start_timed, end)

#define MS              1000000ll
#define SECOND          (1000 * MS)
#define SERVICE         77
#define RING_ID         5
#define RING_BYTES      UNETMM_STREAM_RING_LEAST

static const uint8_t mac[6] = { 0x52, 0x54, 0, 0, 0, 1 };

static struct unetmm_ctx *ctx;
static struct unetmm_stream_listener *listener;
static struct unetmm_stream *stream;
static struct unetmm_ep *peer;
static int channel;
static uint8_t ring[RING_BYTES] __attribute__((aligned(4096)));

static int64_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * SECOND + time.tv_nsec;
}

static int start_with(int64_t timeout_ns)
{
    struct unetmm_ep_attr attr = UNETMM_EP_ATTR_INIT;
    struct unetmm_stream_attr stream_attr = UNETMM_STREAM_ATTR_INIT;
    struct unetmm_channel_attr how = { .size = sizeof(how), .flags = UNETMM_RELIABLE };

    stream_attr.timeout_ns = timeout_ns;
    memset(ring, 0, sizeof(ring));
    assert_int_equal(unetmm_open("/loop", UNETMM_SOURCE_TLB, &ctx), 0);
    assert_int_equal(unetmm_stream_listen(ctx, SERVICE, &stream_attr, &listener), 0);
    assert_int_equal(unetmm_ep_create(ctx, &attr, &peer), 0);
    assert_int_equal(unetmm_export(ctx, RING_ID, ring, sizeof(ring),
                                   UNETMM_RIGHT_WRITE, UNETMM_EXPORT_NOTIFY, 0), 0);
    channel = unetmm_connect_ex(peer, mac, SERVICE, SECOND, &how, NULL);
    assert_true(channel >= 0);
    assert_int_equal(unetmm_stream_accept(listener, SECOND, &stream), 0);
    return 0;
}

static int start(void **state)
{
    (void)state;
    return start_with(-1);
}

static int start_timed(void **state)
{
    (void)state;
    return start_with(20 * MS);
}

static int end(void **state)
{
    (void)state;
    loop_silence_imports(0);
    unetmm_ep_destroy(peer);
    unetmm_unexport(ctx, RING_ID);
    if (stream) {
        unetmm_stream_close(stream);
        stream = NULL;
    }
    unetmm_stream_listener_close(listener);
    unetmm_close(ctx);
    assert_int_equal(loop_leaks(), 0);
    return 0;
}

static void greet(uint64_t id)
{
    const struct {
        uint64_t magic, ring_id;
        uint32_t version, ring_bytes, redirect_least, rsvd;
    } hello = {
        unetmm_swap64(0x6d616572747375), unetmm_swap64(id), unetmm_swap32(1),
        unetmm_swap32(RING_BYTES), 0, 0,
    };

    assert_int_equal(unetmm_send(peer, channel, &hello, sizeof(hello), 0,
                                 UNETMM_UNSIGNALED | UNETMM_INLINE), 0);
}

/*
 * As a server with several streams: until `events` can be done, or the stream has failed.
 * Returns which.
 */
static int serve(short events)
{
    struct pollfd fd = { .fd = unetmm_stream_fd(stream), .events = POLLIN };
    int64_t limit = now() + 120 * SECOND;
    int ready;

    do {
        ready = unetmm_stream_arm(stream, events);
        assert_true(ready >= 0);
        assert_true(now() < limit);
    } while (!ready && poll(&fd, 1, 20000) >= 0);
    return ready;
}

static volatile sig_atomic_t signals;

static void count_signal(int number)
{
    (void)number;
    signals++;
}

/* The program's timer ticks while the last words wait for the driver of the peer. */
TEST(signals_do_not_cut_a_close_short, scene_test)
{
    const struct sigaction action = { .sa_handler = count_signal };
    struct itimerval tick = { { 0, 5000 }, { 0, 5000 } };
    struct sigaction before;
    int ret;

    signals = 0;
    loop_silence_imports(3);
    greet(RING_ID);
    assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &tick, NULL), 0);
    ret = unetmm_stream_close(stream);
    stream = NULL;
    assert_int_equal(ret, 0);
    tick = (struct itimerval) { 0 };
    assert_int_equal(setitimer(ITIMER_REAL, &tick, NULL), 0);
    assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
    assert_true(signals > 0);
}

TEST(silent_driver_delays_no_other_stream, scene_test)
{
    int64_t begun = now();
    char byte;

    loop_silence_imports(UINT_MAX);
    greet(RING_ID);
    assert_true(serve(POLLOUT) & POLLERR);
    assert_int_equal(unetmm_stream_recv(stream, &byte, 1, 0), -ECONNRESET);
    assert_true(now() - begun >= 3 * SECOND);
    /* A call that waited for all would ask once, for 3 s. */
    assert_in_range(loop_questions().longest_ns, 1, 160 * MS);
}

TEST(late_answer_is_taken, scene_test)
{
    loop_silence_imports(2);
    greet(RING_ID);
    assert_int_equal(serve(POLLOUT), POLLOUT);
    assert_int_equal(unetmm_stream_send(stream, "hello", 5, 0), 5);
    EVENTUALLY(!memcmp(ring, "hello", 5));
}

TEST(blocking_send_waits_for_the_answer, scene_test)
{
    loop_silence_imports(2);
    greet(RING_ID);
    assert_int_equal(unetmm_stream_send(stream, "hello", 5, 0), 5);
    EVENTUALLY(!memcmp(ring, "hello", 5));
}

TEST(ring_that_is_not_there, scene_test)
{
    greet(RING_ID + 1);
    assert_true(serve(POLLOUT) & POLLERR);
    assert_int_equal(unetmm_stream_send(stream, "hello", 5, 0), -ECONNRESET);
    assert_int_equal(loop_questions().number, 1);
}

TEST(second_greeting_before_the_answer, scene_test)
{
    loop_silence_imports(UINT_MAX);
    greet(RING_ID);
    greet(RING_ID);
    assert_true(serve(POLLOUT) & POLLERR);
    assert_int_equal(unetmm_stream_send(stream, "hello", 5, 0), -EPROTO);
}

static unsigned ends;

static void count_ends(unsigned long request)
{
    ends += request == UNETMM_IOC_DESTROY;
}

/*
 * The peer's ring never comes.  A send has its own time, which is less than the time after
 * which the card gives up; its memory is the caller's again, as the send ends the channel.
 */
TEST(time_of_a_send_ends_the_stream, timed_test)
{
    static uint8_t bytes[RING_BYTES / 2];
    int ret;

    assert_int_equal(unetmm_unexport(ctx, RING_ID), 0);
    loop_hide_export(true);
    assert_int_equal(unetmm_export(ctx, RING_ID, ring, sizeof(ring),
                                   UNETMM_RIGHT_WRITE, UNETMM_EXPORT_NOTIFY, 0), 0);
    greet(RING_ID);
    assert_int_equal(serve(POLLOUT), POLLOUT);
    ends = 0;
    loop_hook = count_ends;
    ret = unetmm_stream_send(stream, bytes, sizeof(bytes), 0);
    loop_hook = NULL;
    assert_int_equal(ret, -ETIMEDOUT);
    assert_int_equal(ends, 1);
    assert_int_equal(unetmm_stream_send(stream, bytes, 1, 0), -ETIMEDOUT);
    loop_hide_export(false);
}
