/*
 * unetmm: CHANNEL_CLEAR with F_FLUSH: sends and free buffers come back in order
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "peer.h"

#define BUFFER  100                     /* cookies from here on are buffers */

static uint8_t clear(Fix *f, uint16_t channel, uint8_t flags)
{
    struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_CHANNEL_CLEAR, .ep = f->a.id,
        .channel = { .channel = channel, .flags = flags },
    };

    return fake_command(&f->d, cmd, NULL);
}

static void flush(Fix *f)
{
    assert_int_equal(clear(f, PEER_CH, UNETMM_CHANNEL_F_FLUSH |
                                       UNETMM_CHANNEL_F_TELL), UNETMM_CS_OK);
}

static void post(Fix *f, uint64_t cookie)
{
    fake_send_sqe(&f->a, peer_sqe(UNETMM_OP_WRITE, 1, 100, 0, cookie));
}

static void post_buffer(Fix *f, uint64_t cookie)
{
    fake_post(&f->a, PEER_PAGE(300 + cookie), 100, cookie);
}

/* n sends from `send` on, m buffers from `buffer` on, each kind in order. */
static void flushed(Fix *f, uint64_t send, uint32_t n, uint64_t buffer,
                    uint32_t m)
{
    struct unetmm_cqe cqe;

    while (n || m) {
        assert_true(fake_poll(&f->a, &cqe));
        assert_int_equal(cqe.status, UNETMM_ST_FLUSHED);
        if (cqe.opcode == UNETMM_CQE_SENT) {
            assert_true(n--);
            assert_int_equal(cqe.cookie, send++);
        } else {
            assert_int_equal(cqe.opcode, UNETMM_CQE_BUFFER);
            assert_true(m--);
            assert_int_equal(cqe.cookie, buffer++);
        }
        fake_ring_bell(&f->a);
    }
}

static void last(Fix *f)
{
    fake_expect(&f->a, UNETMM_CQE_CLOSED, UNETMM_ST_FLUSHED, 0);
    fake_expect_none(&f->a);
    assert_int_equal(f->a.sq_prod, f->h.core.eps[1].sq_cons);
    assert_int_equal(f->a.fq_prod, f->h.core.eps[1].fq_cons);
}

TEST_OF(test_refused, Fix *f, fix_test)
{
    peer_open(f);
    assert_int_equal(clear(f, PEER_CH + 1, UNETMM_CHANNEL_F_FLUSH),
                     UNETMM_CS_BAD_ARG);
    assert_int_equal(clear(f, 0xffff, UNETMM_CHANNEL_F_FLUSH),
                     UNETMM_CS_BAD_ID);
    assert_int_equal(clear(f, FIX_WIRE, UNETMM_CHANNEL_F_FLUSH),
                     UNETMM_CS_BAD_ARG);
    post_buffer(f, BUFFER);
    fake_ring_bell(&f->a);
    fake_expect_none(&f->a);
}

/* On their way, taken, in the queue; and more buffers than heads. */
TEST_OF(test_all, Fix *f, fix_test)
{
    peer_open(f);
    fake_insert(f->s1, PEER_PAGE(1), 1, NULL);
    for (uint32_t i = 0; i < 4; i++) {
        post(f, i);
    }
    fake_ring_bell(&f->a);
    fake_wire_clear(&f->h);
    for (uint32_t i = 4; i < 6; i++) {
        post(f, i);
    }
    for (uint32_t i = 0; i < 9; i++) {
        post_buffer(f, BUFFER + i);
    }
    flush(f);
    flushed(f, 0, 6, BUFFER, 9);
    last(f);
    peer_expect_ack(f, PEER_YOURS, 0, UNETMM_ACK_OK, 0);
    peer_silence(f);
    /* Later ones, too, and without another report. */
    post(f, 7);
    post_buffer(f, BUFFER + 9);
    fake_ring_bell(&f->a);
    flushed(f, 7, 1, BUFFER + 9, 1);
    fake_expect_none(&f->a);
    expect_count(&f->h, drop_rel_failed, 1, peer_void(f, PEER_YOURS, 0));
    peer_silence(f);
    /* A SET is a new beginning. */
    fake_import_clear(&f->a, PEER_IMPORT);
    peer_open(f);
    post_buffer(f, BUFFER);
    post(f, 8);
    fake_ring_bell(&f->a);
    peer_expect(f, UNETMM_WIRE_WRITE, PEER_MY);
    fake_expect_none(&f->a);
}

/* More than the completion queue has room for: none is lost or early. */
TEST_OF(test_no_room, Fix *f, fix_test)
{
    peer_open(f);
    fake_insert(f->s1, PEER_PAGE(1), 1, NULL);
    for (uint32_t i = 0; i < 15; i++) {
        post(f, i);
        post_buffer(f, BUFFER + i);
    }
    fake_ring_bell(&f->a);
    flush(f);
    flushed(f, 0, 15, BUFFER, 15);
    last(f);
}

/* The buffer of a message that arrives is older than those that are free. */
TEST_OF(test_arriving, Fix *f, fix_test)
{
    uint8_t data[PEER_MTU] = { 0 };

    peer_open(f);
    fake_insert(f->s1, PEER_PAGE(8), 1, NULL);
    fake_post(&f->a, PEER_PAGE(8), 3 * PEER_MTU, BUFFER);
    fake_ring_bell(&f->a);
    for (uint32_t i = 1; i < 13; i++) {
        post_buffer(f, BUFFER + i);
    }
    fake_ring_bell(&f->a);
    peer_give(f, (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_SEND, .psn = PEER_YOURS,
        .remote = 2 * PEER_MTU }, data, PEER_MTU);
    assert_true(f->h.core.eps[1].rels->in.claimed);
    for (uint32_t i = 0; i < 15; i++) {
        post(f, i);
    }
    flush(f);
    flushed(f, 0, 15, BUFFER, 13);
    last(f);
}

/* A channel that has failed before is flushed as well, and goes on to say so. */
TEST_OF(test_failed, Fix *f, fix_test)
{
    peer_open(f);
    post_buffer(f, BUFFER);
    fake_ring_bell(&f->a);
    peer_ack_as(f, PEER_MY, 0, UNETMM_ACK_FAILED, UNETMM_WHY_CHANNEL);
    fake_expect_none(&f->a);
    post(f, 1);
    flush(f);
    flushed(f, 1, 1, BUFFER, 1);
    last(f);
    peer_void(f, PEER_YOURS, 0);
    peer_expect_ack(f, PEER_YOURS, 0, UNETMM_ACK_FAILED, UNETMM_WHY_CHANNEL);
}
