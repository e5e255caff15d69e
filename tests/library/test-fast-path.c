/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The inline fast path against the card's half of the rings: its writes, its
 * refusals, and that it keeps on when indices wrap.
 */
#include "../one_test.h"

#include "fake_card.h"
#include "pattern.h"

#define scene_test(fn) cmocka_unit_test_setup_teardown(fn, begin, stop)
#define late_test(fn) { #fn " (indices wrap)", fn, begin_late, stop, NULL }

#define CHANNEL 1

static struct fake_endpoint fake;
static struct fake_message message;

static void start(unsigned sq_log2, unsigned fq_log2, unsigned cq_log2,
                  uint32_t first)
{
    fake_endpoint_init(&fake, sq_log2, fq_log2, cq_log2, first);
}

static int stop(void **state)
{
    (void)state;
    fake_endpoint_free(&fake);
    return 0;
}

static int begin(void **state)
{
    (void)state;
    start(4, 4, 4, 0);
    return 0;
}

/* Two turns of the queues before the indices pass 2^32 */
static int begin_late(void **state)
{
    (void)state;
    start(4, 4, 4, 0xffffffe0u);
    return 0;
}

static void expect_message(const void *data, size_t len)
{
    assert_true(fake_card_take(&fake.card, &message));
    assert_int_equal(message.len, len);
    assert_memory_equal(message.data, data, len);
    assert_int_equal(message.channel, CHANNEL);
}

ALSO(copies_every_short_length, late_test)
TEST(copies_every_short_length, scene_test)
{
    uint8_t data[UNETMM_MAX_INLINE];
    size_t len;

    for (len = 0; len <= sizeof(data); len++) {
        pattern_fill(data, len, pattern_key(1, len), 0);
        assert_int_equal(unetmm_send(fake.ep, CHANNEL, data, len, len, 0), 0);
        expect_message(data, len);
        assert_true(message.is_inline);
        assert_int_equal(message.cookie, len);
        assert_int_equal(message.slots, len <= 32 ? 1 : 1 + (len + 31) / 64);
    }
}

TEST(gathers_short_pieces, scene_test)
{
    uint8_t data[100];
    struct iovec iov[UNETMM_MAX_SEGS];
    size_t at = 0;
    int i;

    pattern_fill(data, sizeof(data), 2, 0);
    for (i = 0; i < UNETMM_MAX_SEGS; i++) {
        /* 0, 1, 2 ... 13, 9, 0: some are empty, one crosses a slot */
        size_t len = i < 14 ? (size_t)i : i == 14 ? 9 : 0;

        iov[i] = (struct iovec) { data + at, len };
        at += len;
    }
    assert_int_equal(at, sizeof(data));
    assert_int_equal(unetmm_sendv(fake.ep, CHANNEL, iov, UNETMM_MAX_SEGS, 7,
                                  0), 0);
    expect_message(data, sizeof(data));
}

ALSO(names_every_number_of_segments, late_test)
TEST(names_every_number_of_segments, scene_test)
{
    static uint8_t data[UNETMM_MAX_SEGS * 300];
    struct iovec iov[UNETMM_MAX_SEGS];
    unsigned n, i, round;

    pattern_fill(data, sizeof(data), 3, 0);
    for (i = 0; i < UNETMM_MAX_SEGS; i++) {
        iov[i] = (struct iovec) { data + 300 * i, 300 };
    }
    /* Often enough for each length to start at each slot of the ring */
    for (round = 0; round < 32; round++) {
        for (n = 1; n <= UNETMM_MAX_SEGS; n++) {
            assert_int_equal(unetmm_sendv(fake.ep, CHANNEL, iov, n, n, 0), 0);
            expect_message(data, 300 * n);
            assert_false(message.is_inline);
            assert_int_equal(message.nsegs, n);
            assert_int_equal(message.slots, n <= 2 ? 1 : 1 + (n + 1) / 4);
        }
    }
}

TEST(inline_is_a_choice, scene_test)
{
    uint8_t data[225] = { 1 };

    fake.ep->inline_max = 0;
    assert_int_equal(unetmm_send(fake.ep, CHANNEL, data, 8, 0, 0), 0);
    expect_message(data, 8);
    assert_false(message.is_inline);
    assert_int_equal(unetmm_send(fake.ep, CHANNEL, data, 224, 0,
                                 UNETMM_INLINE | UNETMM_UNSIGNALED), 0);
    expect_message(data, 224);
    assert_true(message.is_inline);
    assert_true(message.quiet);
    assert_int_equal(unetmm_send(fake.ep, CHANNEL, data, 225, 0,
                                 UNETMM_INLINE), -EMSGSIZE);
    assert_int_equal(unetmm_send(fake.ep, CHANNEL, data, 0, 0, 0), 0);
    expect_message(data, 0);
}

TEST(refuses_what_is_wrong, scene_test)
{
    struct iovec iov[UNETMM_MAX_SEGS + 1] = { { NULL, 0 } };
    struct iovec huge[2] = { { NULL, SIZE_MAX }, { NULL, 2 } };
    uint8_t data[256];

    errno = 12345;
    fake.private->mtu[1] = 255;
    assert_int_equal(unetmm_send(fake.ep, CHANNEL, data, 256, 0, 0),
                     -EMSGSIZE);
    assert_int_equal(unetmm_sendv(fake.ep, CHANNEL, huge, 2, 0, 0),
                     -EMSGSIZE);
    assert_int_equal(unetmm_sendv(fake.ep, CHANNEL, iov, UNETMM_MAX_SEGS + 1,
                                  0, 0), -EINVAL);
    assert_int_equal(unetmm_send(fake.ep, CHANNEL, data, 8, 0, 0x80),
                     -EINVAL);
    assert_int_equal(unetmm_send(fake.ep, 0, data, 8, 0, 0), -ENOENT);
    assert_int_equal(unetmm_send(fake.ep, FAKE_CHANNELS, data, 8, 0, 0),
                     -ENOENT);
    assert_int_equal(unetmm_channel_mtu(fake.ep, CHANNEL), 255);
    assert_int_equal(unetmm_channel_mtu(fake.ep, 99), -ENOENT);
    assert_int_equal(unetmm_post_recv(fake.ep, data, 0, 0, 0), -EINVAL);
    assert_int_equal(unetmm_post_recv(fake.ep, data, 8, 0, UNETMM_UNSIGNALED), -EINVAL);
    assert_false(fake_card_take(&fake.card, &message));
    assert_false(fake_endpoint_rung(&fake));
    assert_int_equal(errno, 12345);
}

TEST(only_whole_pages_are_zeroed, scene_test)
{
    static uint8_t area[3 * 4096] __attribute__((aligned(4096)));
    const struct unetmm_fqe *fqe = fake.ep->fq;

    assert_int_equal(unetmm_post_recv(fake.ep, area, 4096, 1, UNETMM_ZERO),
                     -EINVAL);      /* the source is not one that may */
    fake.ep->may_zero = 1;
    assert_int_equal(unetmm_post_recv(fake.ep, area, 4095, 1, UNETMM_ZERO),
                     -EINVAL);
    assert_int_equal(unetmm_post_recv(fake.ep, area, 8192, 1, UNETMM_ZERO),
                     -EINVAL);
    assert_int_equal(unetmm_post_recv(fake.ep, area + 1, 4096, 1, UNETMM_ZERO),
                     -EINVAL);
    assert_false(fake_endpoint_rung(&fake));
    assert_int_equal(unetmm_post_recv(fake.ep, area, 4096, 1, UNETMM_ZERO), 0);
    assert_true(fake_endpoint_rung(&fake));
    assert_int_equal(unetmm_swap32(fqe[0].flags), UNETMM_FQE_F_ZERO);
    assert_int_equal(unetmm_post_recv(fake.ep, area, 4096, 1, 0), 0);
    assert_int_equal(unetmm_swap32(fqe[1].flags), 0);
    assert_int_equal(unetmm_post_recv(fake.ep, area, 4096, 1,
                                      UNETMM_ZERO | UNETMM_MORE), 0);
    assert_int_equal(unetmm_swap32(fqe[2].flags), UNETMM_FQE_F_ZERO);
}

TEST(buffers_of_parts_are_chains, scene_test)
{
    static uint8_t area[4096];
    struct iovec iov[UNETMM_MAX_SEGS + 1];
    const struct unetmm_fqe *fqe = fake.ep->fq;
    unsigned i;

    for (i = 0; i <= UNETMM_MAX_SEGS; i++) {
        iov[i] = (struct iovec) { area + 8 * i, 1 + i };
    }
    assert_int_equal(unetmm_post_recvv(fake.ep, iov, 0, 1, 0), -EINVAL);
    assert_int_equal(unetmm_post_recvv(fake.ep, iov, UNETMM_MAX_SEGS + 1, 1, 0),
                     -EINVAL);
    assert_int_equal(unetmm_post_recvv(fake.ep, iov, 3, 1, UNETMM_ZERO), -EINVAL);
    iov[2].iov_len = 0;
    assert_int_equal(unetmm_post_recvv(fake.ep, iov, 3, 1, 0), -EINVAL);
    iov[2].iov_len = (size_t)UNETMM_PAGE_BYTES * fake.ep->max_buffer_pages;
    assert_int_equal(unetmm_post_recvv(fake.ep, iov, 3, 1, 0), -EMSGSIZE);
    iov[2].iov_len = 3;
    assert_int_equal(fake.ep->fq_prod, 0);
    assert_int_equal(unetmm_post_recvv(fake.ep, iov, 3, 77, UNETMM_MORE), 0);
    assert_false(fake_endpoint_rung(&fake));
    assert_int_equal(unetmm_read_word(&fake.ep->index->user.fq_prod), 3);
    for (i = 0; i < 3; i++) {
        assert_int_equal(unetmm_swap64(fqe[i].addr), (uintptr_t)area + 8 * i);
        assert_int_equal(unetmm_swap32(fqe[i].len), 1 + i);
        assert_int_equal(unetmm_swap32(fqe[i].flags), i < 2 ? UNETMM_FQE_F_CHAIN : 0);
        assert_int_equal(unetmm_swap64(fqe[i].cookie), 77);
    }
    /* Not in part: 16 places, of which 3 and then 15 are in use. */
    assert_int_equal(unetmm_post_recvv(fake.ep, iov, 14, 2, 0), -EAGAIN);
    assert_int_equal(fake.ep->fq_prod, 3);
    assert_int_equal(unetmm_post_recvv(fake.ep, iov, 12, 2, 0), 0);
    assert_int_equal(unetmm_post_recvv(fake.ep, iov, 2, 3, 0), -EAGAIN);
    assert_int_equal(unetmm_post_recvv(fake.ep, iov, 1, 3, 0), 0);
    assert_int_equal(fqe[15].flags, 0);
}

ALSO(send_queue_fills_and_empties, late_test)
TEST(send_queue_fills_and_empties, scene_test)
{
    uint8_t data[UNETMM_MAX_INLINE] = { 0 };
    unsigned round, i;

    for (round = 0; round < 100; round++) {
        /* 16 slots: three descriptors of 4, one of 3, one of 1 */
        for (i = 0; i < 3; i++) {
            assert_int_equal(unetmm_send(fake.ep, CHANNEL, data, 224, i, 0),
                             0);
        }
        assert_int_equal(unetmm_send(fake.ep, CHANNEL, data, 160, 3, 0), 0);
        assert_int_equal(unetmm_send(fake.ep, CHANNEL, data, 33, 4, 0),
                         -EAGAIN);
        assert_int_equal(unetmm_send(fake.ep, CHANNEL, data, 32, 4, 0), 0);
        assert_int_equal(unetmm_send(fake.ep, CHANNEL, data, 0, 5, 0),
                         -EAGAIN);
        assert_int_equal(unetmm_send_pending(fake.ep), 16);
        for (i = 0; i < 5; i++) {
            assert_true(fake_card_take(&fake.card, &message));
            assert_int_equal(message.cookie, i);
        }
        assert_int_equal(unetmm_send_pending(fake.ep), 0);
        /* Move the descriptors to other slots in the next round. */
        assert_int_equal(unetmm_send(fake.ep, CHANNEL, data, 0, 0, 0), 0);
        assert_true(fake_card_take(&fake.card, &message));
    }
}

TEST(more_defers_the_doorbell, scene_test)
{
    uint8_t data[8] = { 0 };
    int i;

    assert_int_equal(unetmm_send(fake.ep, CHANNEL, data, 8, 0, UNETMM_MORE),
                     0);
    assert_int_equal(unetmm_post_recv(fake.ep, data, 8, 0, UNETMM_MORE), 0);
    assert_false(fake_endpoint_rung(&fake));
    assert_int_equal(unetmm_ring(fake.ep), 0);
    assert_true(fake_endpoint_rung(&fake));
    assert_int_equal(unetmm_send(fake.ep, CHANNEL, data, 8, 0, 0), 0);
    assert_true(fake_endpoint_rung(&fake));
    /* A full queue must not wait for a doorbell that nobody will write. */
    for (i = 2; i < 16; i++) {
        assert_int_equal(unetmm_send(fake.ep, CHANNEL, data, 8, 0,
                                     UNETMM_MORE), 0);
    }
    assert_false(fake_endpoint_rung(&fake));
    assert_int_equal(unetmm_send(fake.ep, CHANNEL, data, 8, 0, UNETMM_MORE),
                     -EAGAIN);
    assert_true(fake_endpoint_rung(&fake));
}

ALSO(free_queue_fills_and_empties, late_test)
TEST(free_queue_fills_and_empties, scene_test)
{
    uint8_t buffers[16][64];
    struct unetmm_completion c = { 0 };
    uint8_t data[64];
    unsigned i;

    for (i = 0; i < 16; i++) {
        assert_int_equal(unetmm_post_recv(fake.ep, buffers[i], 64, i, 0), 0);
    }
    assert_int_equal(unetmm_post_recv(fake.ep, data, 64, 0, 0), -EAGAIN);
    for (i = 0; i < 100; i++) {
        pattern_fill(data, sizeof(data), pattern_key(4, i), 0);
        assert_true(fake_card_deliver(&fake.card, CHANNEL, data, 64, true));
        assert_int_equal(unetmm_poll(fake.ep, &c, 1), 1);
        assert_int_equal(c.type, UNETMM_CQE_RECEIVED);
        assert_int_equal(c.user_data, i % 16);
        assert_memory_equal(buffers[c.user_data], data, 64);
        assert_int_equal(unetmm_post_recv(fake.ep, buffers[c.user_data], 64, c.user_data,
                                          0), 0);
    }
    assert_true(fake_card_return(&fake.card, UNETMM_ST_SKIPPED));
    assert_int_equal(unetmm_poll(fake.ep, &c, 1), 1);
    assert_int_equal(c.type, UNETMM_CQE_BUFFER);
    assert_int_equal(c.status, UNETMM_ST_SKIPPED);
}

TEST(refuses_buffers_that_never_fit, scene_test)
{
    uint8_t *page = (uint8_t *)(uintptr_t)0x10000;

    /* 20 pages are the limit: touched pages count. */
    assert_int_equal(unetmm_post_recv(fake.ep, page, 20 * 4096, 0, 0), 0);
    assert_int_equal(unetmm_post_recv(fake.ep, page + 1, 20 * 4096, 0, 0),
                     -EMSGSIZE);
    assert_int_equal(unetmm_post_recv(fake.ep, page + 1, 20 * 4096 - 1, 0, 0), 0);
    assert_int_equal(unetmm_post_recv(fake.ep, page, SIZE_MAX, 0, 0), -EMSGSIZE);
    fake.ep->max_buffer_pages = UINT32_MAX;
    assert_int_equal(unetmm_post_recv(fake.ep, page, 1ull << 32, 0, 0),
                     -EMSGSIZE);
}

ALSO(takes_completions_over_many_wraps, late_test)
TEST(takes_completions_over_many_wraps, scene_test)
{
    struct unetmm_completion c[5];
    uint64_t written = 0, taken = 0;
    unsigned batch = 1;

    while (taken < 1000) {
        int i, n;

        for (i = 0; i < 7; i++) {
            struct unetmm_cqe cqe = {
                .cookie = written,
                .opcode = UNETMM_CQE_SENT,
                .len = (uint32_t)written,
            };

            if (!fake_card_complete(&fake.card, &cqe)) {
                break;
            }
            written++;
        }
        batch = batch % 5 + 1;
        n = unetmm_poll(fake.ep, c, batch);
        assert_in_range(n, 1, batch);
        for (i = 0; i < n; i++) {
            assert_int_equal(c[i].user_data, taken++);
        }
    }
    while (taken < written) {
        assert_int_equal(unetmm_poll(fake.ep, c, 1), 1);
        assert_int_equal(c[0].user_data, taken++);
    }
    assert_int_equal(unetmm_poll(fake.ep, c, 5), 0);
    assert_int_equal(unetmm_poll(fake.ep, c, 0), 0);
}

TEST(delivers_inline, scene_test)
{
    struct unetmm_completion c = { 0 };
    uint8_t data[UNETMM_CQE_INLINE];

    pattern_fill(data, sizeof(data), 5, 0);
    assert_true(fake_card_deliver(&fake.card, CHANNEL, data, sizeof(data),
                                  true));
    assert_int_equal(unetmm_poll(fake.ep, &c, 1), 1);
    assert_true(c.is_inline);
    assert_int_equal(c.len, sizeof(data));
    assert_int_equal(c.channel, CHANNEL);
    assert_memory_equal(c.data, data, sizeof(data));
}

TEST(rings_when_the_card_waits_for_room, scene_test)
{
    const struct unetmm_cqe cqe = { .opcode = UNETMM_CQE_SENT };
    struct unetmm_completion c[16];

    while (fake_card_complete(&fake.card, &cqe)) {
        continue;
    }
    fake_card_state(&fake.card, UNETMM_EP_RUNNING | UNETMM_EP_CQ_BLOCKED);
    assert_int_equal(unetmm_poll(fake.ep, c, 1), 1);
    assert_true(fake_endpoint_rung(&fake));
    fake_card_state(&fake.card, UNETMM_EP_RUNNING);
    assert_int_equal(unetmm_poll(fake.ep, c, 16), 15);
    assert_false(fake_endpoint_rung(&fake));
    /* Set late: the poll that finds nothing must see it, and ring once. */
    fake_card_state(&fake.card, UNETMM_EP_RUNNING | UNETMM_EP_CQ_BLOCKED);
    assert_int_equal(unetmm_poll(fake.ep, c, 16), 0);
    assert_true(fake_endpoint_rung(&fake));
    assert_int_equal(unetmm_poll(fake.ep, c, 16), 0);
    assert_false(fake_endpoint_rung(&fake));
    assert_true(fake_card_complete(&fake.card, &cqe));
    assert_int_equal(unetmm_poll(fake.ep, c, 16), 1);
    assert_true(fake_endpoint_rung(&fake));
}

TEST(peek_leaves_a_completion_and_take_takes_it, scene_test)
{
    const struct unetmm_source_ops_ none = { 0 };
    struct unetmm_cqe cqe = { .opcode = UNETMM_CQE_SENT, .cookie = 1 };
    struct unetmm_completion c = { 0 };

    assert_int_equal(unetmm_peek(fake.ep, &c), 0);
    for (; fake_card_complete(&fake.card, &cqe); cqe.cookie++) {
        continue;
    }
    fake_card_state(&fake.card, UNETMM_EP_RUNNING | UNETMM_EP_CQ_BLOCKED);
    assert_int_equal(unetmm_peek(fake.ep, &c), 1);
    assert_int_equal(unetmm_peek(fake.ep, &c), 1);
    assert_int_equal(c.user_data, 1);
    assert_int_equal(c.type, UNETMM_CQE_SENT);
    unetmm_take(fake.ep);
    assert_int_equal(unetmm_peek(fake.ep, &c), 1);
    assert_int_equal(c.user_data, 2);
    /* The card has the place of the taken one, when it is told. */
    assert_int_equal(unetmm_card_waits(fake.ep), 1);
    assert_int_equal(unetmm_poll(fake.ep, NULL, 0), 0);
    assert_true(fake_endpoint_rung(&fake));
    fake_card_state(&fake.card, UNETMM_EP_RUNNING);
    assert_int_equal(unetmm_card_waits(fake.ep), 0);
    assert_true(fake_card_complete(&fake.card, &cqe));
    assert_false(fake_card_complete(&fake.card, &cqe));
    /* The completions of such a source are no program's before the source has seen them. */
    fake.ep->source = &none;
    unetmm_ep_set_direct(fake.ep);
    assert_int_equal(unetmm_peek(fake.ep, &c), 0);
    fake.ep->source = NULL;
    unetmm_ep_set_direct(fake.ep);
    assert_int_equal(unetmm_poll(fake.ep, &c, 1), 1);
    assert_int_equal(c.user_data, 2);
}

TEST(stopped_endpoint_says_so_last, scene_test)
{
    const struct unetmm_cqe cqe = {
        .opcode = UNETMM_CQE_FAILED,
        .status = UNETMM_ST_BAD_INDEX,
    };
    struct unetmm_completion c = { 0 };
    int i, ret;

    assert_true(fake_card_complete(&fake.card, &cqe));
    fake_card_state(&fake.card, UNETMM_EP_ERROR);
    assert_int_equal(unetmm_poll(fake.ep, &c, 1), 1);
    assert_int_equal(c.type, UNETMM_CQE_FAILED);
    assert_int_equal(c.status, UNETMM_ST_BAD_INDEX);
    assert_int_equal(unetmm_poll(fake.ep, &c, 1), -EIO);
    for (i = 0, ret = 0; !ret; i++) {
        ret = unetmm_send(fake.ep, CHANNEL, &c, 8, 0, 0);
    }
    assert_int_equal(ret, -EIO);
    assert_in_range(i, 1, 17);
}

/* ---- Raw endpoints -------------------------------------------------------- */

ALSO(frames_of_every_kind, late_test)
TEST(frames_of_every_kind, scene_test)
{
    static uint8_t data[UNETMM_ETH_MAX + 1];
    struct iovec iov = { data, 0 };
    size_t len;

    assert_int_equal(unetmm_send_frame(fake.ep, &iov, 1, 0, 0, 0), -EPROTOTYPE);
    fake.ep->raw = 1;
    for (len = 0; len <= sizeof(data); len = len < 400 ? len + 1 : len + 97) {
        uint32_t offload = len % 3 ? 0 : UNETMM_TX_CSUM;
        int wanted = len < UNETMM_ETH_HEADER ? -EINVAL :
            len > UNETMM_ETH_MAX ? -EMSGSIZE : 0;

        iov.iov_len = len;
        pattern_fill(data, len, pattern_key(9, len), 0);
        assert_int_equal(unetmm_send_frame(fake.ep, &iov, 1, offload, len, 0),
                         wanted);
        assert_int_equal(fake_card_take(&fake.card, &message), !wanted);
        if (!wanted) {
            assert_int_equal(message.opcode, UNETMM_OP_FRAME);
            assert_int_equal(message.imm, offload);
            assert_int_equal(message.cookie, len);
            assert_int_equal(message.len, len);
            assert_memory_equal(message.data, data, len);
            assert_int_equal(message.is_inline, len <= UNETMM_MAX_INLINE);
        }
    }
    iov.iov_len = sizeof(data);
    assert_int_equal(unetmm_send_frame(fake.ep, &iov, 1, UNETMM_TX_CSUM |
                                       UNETMM_TX_SEGMENT | 1460, 0, 0), 0);
    assert_int_equal(unetmm_send_frame(fake.ep, &iov, 1, UNETMM_TX_ALL + 1, 0,
                                       0), -EINVAL);
}

/* Nobody is told of a buffer, unless somebody waits for one. */
TEST(buffers_are_looked_at_later, scene_test)
{
    static uint8_t data[64];
    struct unetmm_completion c;

    fake.ep->slots = 1;
    fake_endpoint_rung(&fake);
    assert_int_equal(unetmm_post_recv(fake.ep, data, 64, 0, 0), 0);
    assert_false(fake_endpoint_rung(&fake));
    fake_card_state(&fake.card, UNETMM_EP_RUNNING | UNETMM_EP_FQ_AWAITED);
    assert_int_equal(unetmm_post_recv(fake.ep, data, 64, 1, 0), 0);
    assert_true(fake_endpoint_rung(&fake));
    /* With MORE the next call that looks rings. */
    assert_int_equal(unetmm_post_recv(fake.ep, data, 64, 2, UNETMM_MORE), 0);
    assert_false(fake_endpoint_rung(&fake));
    assert_int_equal(unetmm_poll(fake.ep, &c, 1), 0);
    assert_true(fake_endpoint_rung(&fake));
    assert_int_equal(unetmm_poll(fake.ep, &c, 1), 0);
    assert_false(fake_endpoint_rung(&fake));
    assert_int_equal(unetmm_post_recv(fake.ep, data, 64, 3, UNETMM_MORE), 0);
    assert_true(unetmm_arm(fake.ep) >= 0);
    assert_true(fake_endpoint_rung(&fake));
}
