/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One-sided operations: their descriptors, early refusals, and completions that
 * another call was waiting for.
 */
#include "../one_test.h"

#include <pthread.h>
#include <stdlib.h>

#include "fake_card.h"
#include "sys/sys.h"

#define scene_test(fn) cmocka_unit_test_setup_teardown(fn, begin, stop)

#define IMPORT          5
#define READ_ONLY       6
#define LENGTH          5000
#define SECOND          1000000000ll

static struct fake_endpoint fake;
static struct fake_message message;

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);

static bool no_memory;

void *__wrap_calloc(size_t count, size_t bytes)
{
    if (no_memory) {
        errno = ENOMEM;
        return NULL;
    }
    return __real_calloc(count, bytes);
}

static int begin(void **state)
{
    (void)state;
    fake_endpoint_init(&fake, 4, 4, 4, 0x7fffffe0);
    fake.private->imports[IMPORT] = (struct unetmm_import_record) {
        LENGTH, 1, UNETMM_RIGHT_ALL,
    };
    fake.private->imports[READ_ONLY] = (struct unetmm_import_record) {
        LENGTH, 1, UNETMM_RIGHT_READ,
    };
    return 0;
}

static int stop(void **state)
{
    (void)state;
    fake_endpoint_free(&fake);
    return 0;
}

static void expect(uint8_t opcode, uint64_t offset, uint64_t cookie)
{
    assert_true(fake_card_take(&fake.card, &message));
    assert_int_equal(message.opcode, opcode);
    assert_int_equal(message.import, IMPORT);
    assert_int_equal(message.channel, 1);
    assert_int_equal(message.offset, offset);
    assert_int_equal(message.cookie, cookie);
}

TEST(queues_each_operation, scene_test)
{
    uint64_t operands[2] = { unetmm_swap64(3), unetmm_swap64(4) };
    struct iovec iov[3];
    uint8_t data[1000];
    unsigned i;

    for (i = 0; i < sizeof(data); i++) {
        data[i] = (uint8_t)(i * 7);
    }
    for (i = 0; i < 3; i++) {
        iov[i] = (struct iovec) { data + 300 * i, 300 };
    }
    assert_int_equal(unetmm_write(fake.ep, IMPORT, 9, data, 100, 0, 1, 0), 0);
    expect(UNETMM_OP_WRITE, 9, 1);
    assert_true(message.is_inline && !message.notify && !message.imm);
    assert_memory_equal(message.data, data, 100);
    assert_int_equal(unetmm_writev(fake.ep, IMPORT, LENGTH - 900, iov, 3,
                                   0xabcdef01, 2, UNETMM_NOTIFY |
                                   UNETMM_UNSIGNALED), 0);
    expect(UNETMM_OP_WRITE, LENGTH - 900, 2);
    assert_true(!message.is_inline && message.notify && message.quiet);
    assert_int_equal(message.imm, 0xabcdef01);
    assert_int_equal(message.len, 900);
    assert_memory_equal(message.data, data, 900);
    /* Short as it is, nothing can be copied that is not there yet. */
    assert_int_equal(unetmm_read(fake.ep, IMPORT, 0, data, 8, 3, 0), 0);
    expect(UNETMM_OP_READ, 0, 3);
    assert_int_equal(message.len, 8);
    assert_ptr_equal(message.to, data);
    assert_int_equal(unetmm_fetch_add(fake.ep, IMPORT, 16, 3, 4, 0), 0);
    expect(UNETMM_OP_FETCH_ADD, 16, 4);
    assert_memory_equal(message.data, operands, 8);
    assert_int_equal(unetmm_cmp_swap(fake.ep, IMPORT, 24, 3, 4, 5, 0), 0);
    expect(UNETMM_OP_CMP_SWAP, 24, 5);
    assert_memory_equal(message.data, operands, 16);
    assert_true(fake_endpoint_rung(&fake));
    assert_int_equal(unetmm_fetch_add(fake.ep, IMPORT, 0, 1, 6, UNETMM_MORE),
                     0);
    assert_false(fake_endpoint_rung(&fake));
}

TEST(refuses_what_is_wrong, scene_test)
{
    struct iovec iov[UNETMM_MAX_SEGS + 1] = { { NULL, 0 } };
    struct iovec huge[2] = { { NULL, SIZE_MAX }, { NULL, 2 } };
    uint8_t data[LENGTH + 1];
    struct unetmm_ep *ep = fake.ep;

    errno = 12345;
    assert_int_equal(unetmm_write(ep, 0, 0, data, 1, 0, 0, 0), -ENOENT);
    assert_int_equal(unetmm_write(ep, FAKE_IMPORTS, 0, data, 1, 0, 0, 0),
                     -ENOENT);
    assert_int_equal(unetmm_read(ep, ~0u, 0, data, 1, 0, 0), -ENOENT);
    assert_int_equal(unetmm_write(ep, IMPORT, 0, data, LENGTH + 1, 0, 0, 0),
                     -ERANGE);
    assert_int_equal(unetmm_read(ep, IMPORT, 1, data, LENGTH, 0, 0), -ERANGE);
    assert_int_equal(unetmm_read(ep, IMPORT, UINT64_MAX, data, 2, 0, 0),
                     -ERANGE);
    assert_int_equal(unetmm_fetch_add(ep, IMPORT, LENGTH - 7, 1, 0, 0),
                     -ERANGE);
    assert_int_equal(unetmm_cmp_swap(ep, READ_ONLY, 0, 1, 2, 0, 0), -EACCES);
    assert_int_equal(unetmm_write(ep, READ_ONLY, 0, data, 1, 0, 0, 0),
                     -EACCES);
    assert_int_equal(unetmm_writev(ep, IMPORT, 0, huge, 2, 0, 0, 0),
                     -EMSGSIZE);
    assert_int_equal(unetmm_writev(ep, IMPORT, 0, iov, UNETMM_MAX_SEGS + 1, 0,
                                   0, 0), -EINVAL);
    assert_int_equal(unetmm_write(ep, IMPORT, 0, data, 225, 0, 0,
                                  UNETMM_INLINE), -EMSGSIZE);
    assert_int_equal(unetmm_write(ep, IMPORT, 0, data, 1, 1, 0, 0), -EINVAL);
    assert_int_equal(unetmm_write(ep, IMPORT, 0, data, 1, 0, 0, 0x40),
                     -EINVAL);
    assert_int_equal(unetmm_write(ep, IMPORT, 0, data, 1, 0, 0,
                                  UNETMM_NOTIFY | UNETMM_IMM), -EINVAL);
    assert_int_equal(unetmm_read(ep, IMPORT, 0, data, 1, 0, UNETMM_NOTIFY),
                     -EINVAL);
    assert_int_equal(unetmm_read(ep, IMPORT, 0, data, 0, 0, 0), -EINVAL);
    assert_int_equal(unetmm_fetch_add(ep, IMPORT, 0, 1, 0, UNETMM_INLINE),
                     -EINVAL);
    assert_int_equal(unetmm_write_sync(ep, IMPORT, 0, data, 1, 0,
                                       UNETMM_MORE, 0), -EINVAL);
    assert_false(fake_card_take(&fake.card, &message));
    assert_false(fake_endpoint_rung(&fake));
    assert_int_equal(errno, 12345);
}

TEST(full_queue_is_refused, scene_test)
{
    unsigned i;

    for (i = 0; i < 16; i++) {
        assert_int_equal(unetmm_fetch_add(fake.ep, IMPORT, 0, i, i, 0), 0);
    }
    assert_int_equal(unetmm_fetch_add(fake.ep, IMPORT, 0, 0, 0, 0), -EAGAIN);
    assert_int_equal(unetmm_read(fake.ep, IMPORT, 0, &i, 1, 0, 0), -EAGAIN);
}

/* ---- Waiting for one of many ------------------------------------------------ */

static void complete(unsigned type, uint64_t cookie, uint8_t status)
{
    const struct unetmm_cqe cqe = {
        .cookie = cookie, .channel = 1, .opcode = (uint8_t)type,
        .status = status,
    };

    while (!fake_card_complete(&fake.card, &cqe)) {
        sched_yield();
    }
}

struct answer {
    unsigned before, after;
    uint8_t status;
};

/* The card: other completions, the one that is waited for, others again. */
static void *answer_one(void *argument)
{
    const struct answer *answer = argument;
    unsigned i;

    while (!fake_card_take(&fake.card, &message)) {
        sched_yield();
    }
    for (i = 0; i < answer->before; i++) {
        complete(i % 2 ? UNETMM_CQE_RECEIVED : UNETMM_CQE_SENT, i, 0);
    }
    complete(UNETMM_CQE_SENT, message.cookie, answer->status);
    for (; i < answer->before + answer->after; i++) {
        complete(UNETMM_CQE_RECEIVED, i, 0);
    }
    return NULL;
}

static void expect_cookies(uint64_t from, unsigned n)
{
    struct unetmm_completion c[3];
    int got, i;

    /* Stashed completions are older than those in the queue. */
    assert_false(fake.ep->stashed && unetmm_peek(fake.ep, c));
    while (n) {
        /* By one and by several, from the stash and from the queue */
        got = unetmm_wait(fake.ep, c, n % 3 + 1 < n ? n % 3 + 1 : n, SECOND);
        assert_in_range(got, 1, 3);
        for (i = 0; i < got; i++, n--) {
            assert_int_equal(c[i].user_data, from++);
        }
    }
    assert_int_equal(unetmm_poll(fake.ep, c, 1), 0);
}

TEST(others_are_kept_in_order, scene_test)
{
    static const struct answer answers[] = {
        { 0, 0, UNETMM_ST_OK }, { 5, 0, UNETMM_ST_REVOKED },
        { 8, 3, UNETMM_ST_OK }, { 500, 10, UNETMM_ST_OK },
    };
    static uint8_t data[1000];
    pthread_t card;
    size_t i;

    for (i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        struct answer answer = answers[i];

        assert_int_equal(pthread_create(&card, NULL, answer_one, &answer), 0);
        assert_int_equal(unetmm_write_sync(fake.ep, IMPORT, 0, data,
                                           sizeof(data), 0, 0, 10 * SECOND),
                         answer.status ? -ESTALE : 0);
        if (answer.before) {
            /* A thread that would sleep is told that there are completions. */
            assert_int_equal(unetmm_arm(fake.ep), 1);
        }
        assert_int_equal(pthread_join(card, NULL), 0);
        expect_cookies(0, answer.before + answer.after);
    }
}

/* A program that never polls is told so before the kept ones take all memory. */
TEST(kept_ones_have_a_bound, scene_test)
{
    static struct answer answer = { 1u << 16, 0, UNETMM_ST_OK };
    static uint8_t data[1000];
    struct unetmm_completion c;
    pthread_t card;
    unsigned i;

    fake.private->records[1].type = UNETMM_RELIABLE;
    assert_int_equal(pthread_create(&card, NULL, answer_one, &answer), 0);
    assert_int_equal(unetmm_read_sync(fake.ep, IMPORT, 0, data, sizeof(data), 120 * SECOND),
                     -ENOBUFS);
    assert_int_equal(pthread_join(card, NULL), 0);
    /* From now on nothing is posted, and nothing is lost. */
    assert_int_equal(unetmm_read_sync(fake.ep, IMPORT, 0, data, sizeof(data), SECOND), -ENOBUFS);
    assert_int_equal(unetmm_shutdown(fake.ep, 1, SECOND), -ENOBUFS);
    assert_int_equal(unetmm_send_pending(fake.ep), 0);
    for (i = 0; i < answer.before; i++) {
        assert_int_equal(unetmm_poll(fake.ep, &c, 1), 1);
        assert_int_equal(c.user_data, i);
    }
    assert_int_equal(unetmm_poll(fake.ep, &c, 1), 1);
    assert_true(c.user_data >= UNETMM_SYNC_USER_DATA);
    answer.before = 0;
    assert_int_equal(pthread_create(&card, NULL, answer_one, &answer), 0);
    assert_int_equal(unetmm_read_sync(fake.ep, IMPORT, 0, data, sizeof(data), 120 * SECOND), 0);
    assert_int_equal(pthread_join(card, NULL), 0);
}

/* Taken entries leave their room to the next ones: none is allocated. */
TEST(room_is_used_again, scene_test)
{
    struct answer answer = { 60, 0, UNETMM_ST_OK };
    static uint8_t data[1000];
    struct unetmm_completion c;
    pthread_t card;
    unsigned i, round;

    for (round = 0; round < 3; round++) {
        no_memory = round != 0;
        assert_int_equal(pthread_create(&card, NULL, answer_one, &answer), 0);
        assert_int_equal(unetmm_read_sync(fake.ep, IMPORT, 0, data,
                                          sizeof(data), 10 * SECOND), 0);
        no_memory = false;
        assert_int_equal(pthread_join(card, NULL), 0);
        /* Of the first ones 40 are taken, then those behind them. */
        for (i = 0; i < answer.before - (round ? 0 : 20); i++) {
            assert_int_equal(unetmm_poll(fake.ep, &c, 1), 1);
            assert_int_equal(c.user_data, round == 1 ? (i < 20 ? 40 + i : i - 20) :
                             i);
        }
        answer.before = 40;
        if (round == 1) {
            for (; i < 60; i++) {
                assert_int_equal(unetmm_poll(fake.ep, &c, 1), 1);
                assert_int_equal(c.user_data, i - 20);
            }
        }
    }
    assert_int_equal(unetmm_poll(fake.ep, &c, 1), 0);
}

/* Twice in a row: completions kept by the first are older than the second's. */
TEST(kept_ones_stay_older, scene_test)
{
    struct answer answer = { 70, 0, UNETMM_ST_OK };
    static uint8_t data[1000];
    struct unetmm_completion c;
    pthread_t card;
    unsigned i;

    for (i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&card, NULL, answer_one, &answer), 0);
        assert_int_equal(unetmm_read_sync(fake.ep, IMPORT, 0, data,
                                          sizeof(data), 10 * SECOND), 0);
        assert_int_equal(pthread_join(card, NULL), 0);
    }
    for (i = 0; i < 140; i++) {
        assert_int_equal(unetmm_poll(fake.ep, &c, 1), 1);
        assert_int_equal(c.user_data, i % 70);
    }
    assert_int_equal(unetmm_poll(fake.ep, &c, 1), 0);
}

/* Without memory to keep it nothing is taken: it stays where it was. */
TEST(nothing_is_taken_without_memory, scene_test)
{
    static uint8_t data[1000];
    struct unetmm_completion c;

    complete(UNETMM_CQE_RECEIVED, 1, 0);
    no_memory = true;
    assert_int_equal(unetmm_read_sync(fake.ep, IMPORT, 0, data, 1000, SECOND),
                     -ENOMEM);
    no_memory = false;
    assert_int_equal(unetmm_poll(fake.ep, &c, 1), 1);
    assert_int_equal(c.user_data, 1);
}

TEST(short_writes_do_not_wait, scene_test)
{
    assert_int_equal(unetmm_write_sync(fake.ep, IMPORT, 3, "abc", 3, 9,
                                       UNETMM_NOTIFY, 0), 0);
    assert_true(fake_card_take(&fake.card, &message));
    assert_true(message.is_inline && message.quiet && message.notify);
    assert_true(message.cookie >= UNETMM_SYNC_USER_DATA);
    assert_int_equal(message.imm, 9);
    assert_memory_equal(message.data, "abc", 3);
}

TEST(waiting_ends_in_time, scene_test)
{
    static uint8_t data[1000];
    struct unetmm_completion c;

    complete(UNETMM_CQE_RECEIVED, 1, 0);
    assert_int_equal(unetmm_read_sync(fake.ep, IMPORT, 0, data, 1000,
                                      1000000), -ETIMEDOUT);
    assert_int_equal(unetmm_poll(fake.ep, &c, 1), 1);
    assert_int_equal(c.user_data, 1);
    assert_int_equal(unetmm_poll(fake.ep, &c, 1), 0);
}

/* ---- Notifications ---------------------------------------------------------- */

static unsigned calls[2];

static void hear(struct unetmm_ep *ep, const struct unetmm_completion *c,
                 void *arg)
{
    unsigned *count = arg;

    (void)ep;
    ++*count;
    if (c->type == UNETMM_CQE_NOTIFY) {
        assert_int_equal(unetmm_notify_offset(c), 0x123456789a);
        assert_int_equal(unetmm_notify_imm(c), 0xfedcba98);
        assert_int_equal(c->len, 77);
    }
}

static void notify(uint64_t cookie)
{
    const struct unetmm_cqe cqe = {
        .cookie = cookie, .len = 77, .channel = 1,
        .opcode = UNETMM_CQE_NOTIFY,
        .notify = { .offset = 0x123456789a, .imm = 0xfedcba98, .region = 3 },
    };

    assert_true(fake_card_complete(&fake.card, &cqe));
}

TEST(exports_have_handlers, scene_test)
{
    struct unetmm_ep *ep = fake.ep;
    uint64_t cookie;

    calls[0] = calls[1] = 0;
    assert_int_equal(unetmm_set_handler(ep, UNETMM_EVERY_CHANNEL, hear,
                                        &calls[0]), 0);
    for (cookie = 0; cookie < 5; cookie++) {
        assert_int_equal(unetmm_set_notify_handler(ep, cookie, hear,
                                                   &calls[1]), 0);
    }
    assert_int_equal(unetmm_set_notify_handler(ep, 1, NULL, NULL), 0);
    assert_int_equal(unetmm_set_notify_handler(ep, 1, NULL, NULL), 0);
    for (cookie = 0; cookie < 6; cookie++) {
        notify(cookie);
        complete(UNETMM_CQE_SENT, cookie, 0);
    }
    assert_int_equal(unetmm_dispatch(ep, 64, 0), 12);
    assert_int_equal(calls[0], 6 + 2);
    assert_int_equal(calls[1], 4);
    /* Blocked ones wait. */
    assert_int_equal(unetmm_handlers_block(ep), 0);
    notify(0);
    assert_int_equal(unetmm_dispatch(ep, 64, 0), -EDEADLK);
    assert_int_equal(unetmm_handlers_unblock(ep), 1);
    assert_int_equal(unetmm_dispatch(ep, 64, 0), 1);
    assert_int_equal(calls[1], 5);
}
