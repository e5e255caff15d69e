/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Completion queues, on an endpoint of the library whose card is a piece of memory: the
 * usual completions, which a reader gets straight from the card, and those beside them.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fake_card.h"
#include "provider.h"

#define OPS         64
#define CHANNEL     1
#define SENDS       3

struct state {
    struct fake_endpoint fake;
    struct umfi_domain domain;
    struct umfi_port port;
    struct umfi_ep *by_channel[2], ep;
    struct fid_cq *tx, *rx;
    char memory[64], data[8];
};

static void open_queue(struct state *s, enum fi_cq_format format, struct fid_cq **cq)
{
    struct fi_cq_attr attr = { .format = format, .wait_obj = FI_WAIT_NONE };

    assert_int_equal(umfi_cq_open(&s->domain.fid, &attr, cq, NULL), 0);
    assert_int_equal(umfi_cq_attach(umfi_of(*cq, struct umfi_cq, fid), &s->port), 0);
}

/* With a queue for sends, and another for the rest. */
static int setup(void **opaque)
{
    struct state *s = calloc(1, sizeof(*s));

    *opaque = s;
    fake_endpoint_init(&s->fake, 4, 4, 4, 0);
    s->port = (struct umfi_port) {
        .domain = &s->domain, .ep = s->fake.ep, .channels = 2, .nops = OPS,
        .by_channel = s->by_channel, .ops = calloc(OPS, sizeof(struct umfi_op)),
    };
    umfi_list_init(&s->port.arrivals);
    umfi_list_init(&s->port.accepting);
    umfi_list_init(&s->port.ending);
    for (unsigned i = 0; i < OPS; i++) {
        umfi_op_free(&s->port, &s->port.ops[i]);
    }
    open_queue(s, FI_CQ_FORMAT_TAGGED, &s->tx);
    open_queue(s, FI_CQ_FORMAT_DATA, &s->rx);
    s->ep = (struct umfi_ep) {
        .fid = { .msg = &umfi_msg_ops }, .domain = &s->domain, .port = &s->port,
        .tx_cq = umfi_of(s->tx, struct umfi_cq, fid),
        .rx_cq = umfi_of(s->rx, struct umfi_cq, fid),
        .tx_completion = FI_COMPLETION, .rx_completion = FI_COMPLETION,
        .channel = CHANNEL, .state = UMFI_CONNECTED,
    };
    s->by_channel[CHANNEL] = &s->ep;
    return 0;
}

static int teardown(void **opaque)
{
    struct state *s = *opaque;

    fi_close(&s->tx->fid);
    fi_close(&s->rx->fid);
    free(s->port.ops);
    fake_endpoint_free(&s->fake);
    free(s);
    return 0;
}

static void post_send(struct state *s, void *context)
{
    assert_int_equal(fi_send(&s->ep.fid, s->data, sizeof(s->data), NULL, 0, context), 0);
}

/* The card does all sends; their completions have this status. */
static void do_sends(struct state *s, uint8_t status)
{
    static struct fake_message m;

    while (fake_card_take(&s->fake.card, &m)) {
        const struct unetmm_cqe cqe = {
            .cookie = m.cookie, .len = m.len, .channel = m.channel,
            .opcode = UNETMM_CQE_SENT, .status = status,
        };

        assert_true(fake_card_complete(&s->fake.card, &cqe));
    }
}

static void post_recv(struct state *s, size_t len, void *context)
{
    assert_int_equal(fi_recv(&s->ep.fid, s->memory, len, NULL, 0, context), 0);
}

static void deliver(struct state *s, size_t len)
{
    assert_true(fake_card_deliver(&s->fake.card, CHANNEL, s->data, (uint32_t)len, false));
}

static void sends_have_their_entries(void **opaque)
{
    struct state *s = *opaque;
    struct fi_cq_tagged_entry entry[SENDS + 1];

    for (unsigned i = 0; i < SENDS; i++) {
        post_send(s, &s->memory[i]);
    }
    assert_int_equal(fi_cq_read(s->tx, entry, 1), -FI_EAGAIN);
    do_sends(s, UNETMM_ST_OK);
    assert_int_equal(fi_cq_read(s->tx, entry, 1), 1);
    assert_int_equal(fi_cq_read(s->tx, entry + 1, SENDS), SENDS - 1);
    for (unsigned i = 0; i < SENDS; i++) {
        assert_ptr_equal(entry[i].op_context, &s->memory[i]);
        assert_int_equal(entry[i].flags, FI_MSG | FI_SEND);
        assert_int_equal(entry[i].len, sizeof(s->data));
        assert_int_equal(entry[i].tag, 0);
    }
    assert_int_equal(fi_cq_read(s->tx, entry, 1), -FI_EAGAIN);
}

static void messages_have_theirs(void **opaque)
{
    struct state *s = *opaque;
    struct fi_cq_data_entry entry;

    memset(&entry, 0xff, sizeof(entry));
    post_recv(s, sizeof(s->memory), s);
    deliver(s, 8);
    assert_int_equal(fi_cq_read(s->rx, &entry, 1), 1);
    assert_ptr_equal(entry.op_context, s);
    assert_int_equal(entry.flags, FI_MSG | FI_RECV);
    assert_int_equal(entry.len, 8);
    assert_ptr_equal(entry.buf, s->memory);
    assert_int_equal(entry.data, 0);
}

/* A reader of one queue puts aside those of the other, in their order. */
static void other_queue_keeps_its_entries(void **opaque)
{
    struct state *s = *opaque;
    struct fi_cq_tagged_entry sent;
    struct fi_cq_data_entry got;

    post_recv(s, sizeof(s->memory), s);
    post_send(s, &s->memory[0]);
    do_sends(s, UNETMM_ST_OK);
    deliver(s, 8);
    post_send(s, &s->memory[1]);
    assert_int_equal(fi_cq_read(s->rx, &got, 1), 1);
    assert_ptr_equal(got.op_context, s);
    do_sends(s, UNETMM_ST_OK);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(fi_cq_read(s->tx, &sent, 1), 1);
        assert_ptr_equal(sent.op_context, &s->memory[i]);
    }
}

static void failures_are_errors(void **opaque)
{
    struct state *s = *opaque;
    struct fi_cq_err_entry error = { 0 };
    struct fi_cq_tagged_entry entry;

    post_send(s, s);
    do_sends(s, UNETMM_ST_TIMEOUT);
    assert_int_equal(fi_cq_read(s->tx, &entry, 1), -FI_EAVAIL);
    assert_int_equal(fi_cq_readerr(s->tx, &error, 0), 1);
    assert_ptr_equal(error.op_context, s);
    assert_int_equal(error.err, FI_ETIMEDOUT);
}

/* No larger than the operation's, although the card's buffer was. */
static void long_messages_are_errors(void **opaque)
{
    struct state *s = *opaque;
    struct fi_cq_err_entry error = { 0 };
    struct fi_cq_data_entry entry;

    post_recv(s, 0, s);
    deliver(s, 1);
    assert_int_equal(fi_cq_read(s->rx, &entry, 1), -FI_EAVAIL);
    assert_int_equal(fi_cq_readerr(s->rx, &error, 0), 1);
    assert_int_equal(error.err, FI_ETRUNC);
    assert_int_equal(error.olen, 1);
}

/* On a channel that nobody has: the buffer is the card's again. */
static void strangers_use_up_no_buffer(void **opaque)
{
    struct state *s = *opaque;
    struct fi_cq_data_entry entry;

    s->by_channel[CHANNEL] = NULL;
    post_recv(s, sizeof(s->memory), s);
    deliver(s, 8);
    assert_int_equal(fi_cq_read(s->rx, &entry, 1), -FI_EAGAIN);
    umfi_port_claim(&s->port, &s->ep);
    assert_int_equal(fi_cq_read(s->rx, &entry, 1), -FI_EAGAIN);
    deliver(s, 8);
    assert_int_equal(fi_cq_read(s->rx, &entry, 1), 1);
    assert_ptr_equal(entry.op_context, s);
}

static void cancelled_ones_come_once(void **opaque)
{
    struct state *s = *opaque;
    struct fi_cq_err_entry error = { 0 };
    struct fi_cq_tagged_entry entry;

    post_send(s, s);
    umfi_port_cancel(&s->port, &s->ep, false);
    assert_int_equal(fi_cq_readerr(s->tx, &error, 0), 1);
    assert_int_equal(error.err, FI_ECANCELED);
    do_sends(s, UNETMM_ST_OK);
    assert_int_equal(fi_cq_read(s->tx, &entry, 1), -FI_EAGAIN);
}

/* Longer than the card's longest message */
static void too_long_message(void **opaque)
{
    struct state *s = *opaque;

    assert_int_equal(fi_send(&s->ep.fid, s->data, UNETMM_MAX_MESSAGE + 1, NULL, 0, s),
                     -FI_EMSGSIZE);
    post_send(s, s);
}

/* The card waits until it is told that entries were taken. */
static void blocked_card_is_told(void **opaque)
{
    struct state *s = *opaque;
    struct fi_cq_tagged_entry entry;

    post_send(s, s);
    do_sends(s, UNETMM_ST_OK);
    fake_endpoint_rung(&s->fake);
    fake_card_state(&s->fake.card, UNETMM_EP_CQ_BLOCKED);
    assert_int_equal(fi_cq_read(s->tx, &entry, 1), 1);
    assert_true(fake_endpoint_rung(&s->fake));
}

/* As ofi_rxm does with the buffers of completions that it reads afterwards */
static void closed_endpoint_takes_no_buffers(void **opaque)
{
    struct umfi_fabric fabric = { .lock = PTHREAD_MUTEX_INITIALIZER };
    struct umfi_domain *domain = calloc(1, sizeof(*domain));
    struct fi_info info = { .caps = FI_MSG };
    struct fid_ep *ep;

    domain->fabric = &fabric;
    umfi_list_init(&domain->eps);
    assert_int_equal(umfi_ep_open(&domain->fid, &info, &ep, NULL), 0);
    assert_int_equal(fi_close(&ep->fid), 0);
    assert_int_equal(fi_recv(ep, domain, 1, NULL, 0, NULL), -FI_EOPBADSTATE);
    assert_int_equal(fi_send(ep, domain, 1, NULL, 0, NULL), -FI_ENOTCONN);
    /* The oldest of too many goes: nothing leaks, and nothing grows. */
    for (unsigned i = 0; i < UMFI_CLOSED_KEPT; i++) {
        assert_int_equal(umfi_ep_open(&domain->fid, &info, &ep, NULL), 0);
        assert_int_equal(fi_close(&ep->fid), 0);
    }
    umfi_ep_free_closed(domain);
    free(domain);
}

#define THREADS     4
#define TURNS       100000

static struct umfi_domain shared;
static unsigned turns;

static void *take_turns(void *opaque)
{
    for (unsigned i = 0; i < TURNS; i++) {
        umfi_lock(&shared);
        turns++;
        umfi_unlock(&shared);
    }
    return NULL;
}

static void lock_excludes(void **opaque)
{
    pthread_t threads[THREADS];

    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, take_turns, NULL), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(turns, THREADS * TURNS);
    assert_int_equal(shared.lock.state, UMFI_FREE);
}

static void *wait_for_lock(void *opaque)
{
    umfi_lock(&shared);
    umfi_unlock(&shared);
    return NULL;
}

/* One that sleeps is woken. */
static void lock_wakes(void **opaque)
{
    pthread_t thread;

    umfi_lock(&shared);
    assert_false(umfi_lock_try(&shared.lock));
    assert_int_equal(pthread_create(&thread, NULL, wait_for_lock, NULL), 0);
    while (__atomic_load_n(&shared.lock.state, __ATOMIC_RELAXED) != UMFI_AWAITED) {
        sched_yield();
    }
    umfi_unlock(&shared);
    pthread_join(thread, NULL);
    assert_int_equal(shared.lock.state, UMFI_FREE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sends_have_their_entries, setup, teardown),
        cmocka_unit_test_setup_teardown(messages_have_theirs, setup, teardown),
        cmocka_unit_test_setup_teardown(other_queue_keeps_its_entries, setup, teardown),
        cmocka_unit_test_setup_teardown(failures_are_errors, setup, teardown),
        cmocka_unit_test_setup_teardown(long_messages_are_errors, setup, teardown),
        cmocka_unit_test_setup_teardown(strangers_use_up_no_buffer, setup, teardown),
        cmocka_unit_test_setup_teardown(cancelled_ones_come_once, setup, teardown),
        cmocka_unit_test_setup_teardown(too_long_message, setup, teardown),
        cmocka_unit_test_setup_teardown(blocked_card_is_told, setup, teardown),
        cmocka_unit_test(closed_endpoint_takes_no_buffers),
        cmocka_unit_test(lock_excludes),
        cmocka_unit_test(lock_wakes),
    };

    return cmocka_run_group_tests_name("cq", tests, NULL, NULL);
}
