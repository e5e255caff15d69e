/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm-cp's bytes over a slow stream: the time is that in which no byte moves.
 */
#include <stddef.h>
#include <stdint.h>

#include "../one_test.h"
#include <errno.h>
#include <string.h>

#include "cp_stream.h"

#define BYTES   100u

/*
 * The stream: each entry is the result of a call that waits, until the first 0.  Then
 * `rest` is the result, and of a call that does not wait it always is where nothing has
 * come.
 */
static struct {
    int steps[8];
    int rest;
    unsigned step, calls;
    uint8_t bytes[BYTES];
    size_t moved;
} line;

ssize_t __wrap_unetmm_stream_send(struct unetmm_stream *s, const void *bytes,
                                  size_t len, unsigned flags);
ssize_t __wrap_unetmm_stream_recv(struct unetmm_stream *s, void *bytes, size_t len,
                                  unsigned flags);

static ssize_t next_step(size_t len, unsigned flags)
{
    int n = line.steps[line.step];

    assert_true(++line.calls < 50);
    if (flags & UNETMM_STREAM_DONTWAIT) {
        return n ? -EAGAIN : line.rest;
    }
    line.step += n != 0;
    n = n ? n : line.rest;
    assert_true(n <= (int)len);
    return n;
}

ssize_t __wrap_unetmm_stream_send(struct unetmm_stream *s, const void *bytes,
                                  size_t len, unsigned flags)
{
    ssize_t n = next_step(len, flags);

    (void)s;
    if (n > 0) {
        memcpy(line.bytes + line.moved, bytes, (size_t)n);
        line.moved += (size_t)n;
    }
    return n;
}

ssize_t __wrap_unetmm_stream_recv(struct unetmm_stream *s, void *bytes, size_t len,
                                  unsigned flags)
{
    ssize_t n = next_step(len, flags);

    (void)s;
    if (n > 0) {
        memcpy(bytes, line.bytes + line.moved, (size_t)n);
        line.moved += (size_t)n;
    }
    return n;
}

static void line_set(const int steps[8], int rest)
{
    unsigned i;

    memset(&line, 0, sizeof(line));
    memcpy(line.steps, steps, sizeof(line.steps));
    line.rest = rest;
    for (i = 0; i < BYTES; i++) {
        line.bytes[i] = (uint8_t)(i + 1);
    }
}

/* Each call ends after its time, with as much as went until then. */
TEST(a_slow_link_is_no_silent_peer, cmocka_unit_test)
{
    static const int slow[8] = { 30, 1, 60, 9 };
    uint8_t bytes[BYTES], copy[BYTES];
    size_t got;

    line_set(slow, -ETIMEDOUT);
    assert_int_equal(cp_stream_take(NULL, bytes, BYTES, false, &got), 0);
    assert_int_equal(got, BYTES);
    assert_memory_equal(bytes, line.bytes, BYTES);
    memcpy(copy, bytes, BYTES);
    line_set(slow, -ETIMEDOUT);
    memset(line.bytes, 0, BYTES);
    assert_int_equal(cp_stream_put(NULL, copy, BYTES), 0);
    assert_memory_equal(line.bytes, copy, BYTES);
}

TEST(a_silent_peer_is_named_as_such, cmocka_unit_test)
{
    static const int part[8] = { 30 };
    uint8_t bytes[BYTES] = { 0 };
    size_t got;

    line_set(part, -ETIMEDOUT);
    assert_int_equal(cp_stream_take(NULL, bytes, BYTES, false, &got), -ETIMEDOUT);
    line_set(part, -ETIMEDOUT);
    assert_int_equal(cp_stream_put(NULL, bytes, BYTES), -ETIMEDOUT);
    line_set(part, -ECONNRESET);
    assert_int_equal(cp_stream_take(NULL, bytes, BYTES, false, &got), -ECONNRESET);
    /* An end is none of them: the caller sees that bytes are missing. */
    line_set(part, 0);
    assert_int_equal(cp_stream_take(NULL, bytes, BYTES, false, &got), 0);
    assert_int_equal(got, 30);
}

/* A peer that stores a file; one whose card has gone, which has the same error */
TEST(patience_ends_with_the_stream, cmocka_unit_test)
{
    static const int late[8] = {
        -ETIMEDOUT, -ETIMEDOUT, 8, -ETIMEDOUT, -ETIMEDOUT, BYTES - 8,
    };
    static const int never[8] = { -ETIMEDOUT, -ETIMEDOUT };
    uint8_t bytes[BYTES];
    size_t got;

    line_set(late, -ETIMEDOUT);
    assert_int_equal(cp_stream_take(NULL, bytes, BYTES, true, &got), 0);
    assert_int_equal(got, BYTES);
    assert_memory_equal(bytes, line.bytes, BYTES);
    line_set(late, -ETIMEDOUT);
    assert_int_equal(cp_stream_take(NULL, bytes, BYTES, false, &got), -ETIMEDOUT);
    line_set(never, -ETIMEDOUT);
    assert_int_equal(cp_stream_take(NULL, bytes, BYTES, true, &got), -ETIMEDOUT);
    line_set(never, -ECONNRESET);
    assert_int_equal(cp_stream_take(NULL, bytes, BYTES, true, &got), -ECONNRESET);
    line_set(never, 0);
    assert_int_equal(cp_stream_take(NULL, bytes, BYTES, true, &got), 0);
    assert_int_equal(got, 0);
}
