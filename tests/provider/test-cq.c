/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Completion queues, on an endpoint of the library whose card is a piece of memory: the
 * usual completions, which a reader gets straight from the card, and those beside them.
 */
#include <pthread.h>
#include "../one_test.h"
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "fake_card.h"
#include "provider.h"

#define scene_test(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

#define OPS         64
#define CHANNEL     1
#define SENDS       3

struct state {
    struct fake_endpoint fake;
    struct umfi_fabric fabric;
    struct umfi_domain domain;
    struct umfi_port port;
    struct umfi_op sends[OPS], receives[OPS];
    struct umfi_ep *by_channel[2], ep;
    struct fid_cq *tx, *rx;
    char memory[64], data[8];
};

static void open_queue(struct state *s, enum fi_cq_format format, struct fid_cq **cq)
{
    struct fi_cq_attr attr = { .format = format, .wait_obj = FI_WAIT_NONE };

    assert_int_equal(umfi_cq_open(&s->domain.fid, &attr, cq, NULL), 0);
    umfi_lock(&s->domain);
    assert_int_equal(umfi_cq_attach(umfi_of(*cq, struct umfi_cq, fid), &s->port), 0);
    umfi_unlock(&s->domain);
}

/* With a queue for sends, and another for the rest. */
static int setup(void **opaque)
{
    struct state *s = calloc(1, sizeof(*s));

    *opaque = s;
    s->fabric.fid.api_version = FI_VERSION(1, 17);
    s->domain.fabric = &s->fabric;
    fake_endpoint_init(&s->fake, 4, 4, 4, 0);
    s->port = (struct umfi_port) {
        .domain = &s->domain, .ep = s->fake.ep, .channels = 2, .slots = 16,
        .events = &umfi_channel_events,
        .by_channel = s->by_channel,
    };
    umfi_list_init(&s->port.arrivals);
    umfi_list_init(&s->port.accepting);
    umfi_list_init(&s->port.ending);
    umfi_pool_fill(&s->port.tx, s->sends, OPS);
    umfi_pool_fill(&s->port.rx, s->receives, OPS);
    open_queue(s, FI_CQ_FORMAT_TAGGED, &s->tx);
    open_queue(s, FI_CQ_FORMAT_DATA, &s->rx);
    s->ep = (struct umfi_ep) {
        .fid = { .msg = &umfi_msg_ops, .rma = &umfi_rma_ops },
        .domain = &s->domain, .port = &s->port,
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

TEST_OF(sends_have_their_entries, struct state *s, scene_test)
{
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

TEST_OF(messages_have_theirs, struct state *s, scene_test)
{
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
TEST_OF(other_queue_keeps_its_entries, struct state *s, scene_test)
{
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

TEST(failures_are_errors, scene_test)
{
    static const struct { uint8_t status; int err; } rows[] = {
        { UNETMM_ST_PEER_BUFFER, FI_ETRUNC }, { UNETMM_ST_TIMEOUT, FI_ETIMEDOUT },
        { UNETMM_ST_PROTECTION, FI_EFAULT }, { UNETMM_ST_REVOKED, FI_EACCES },
        { UNETMM_ST_REMOTE_RANGE, FI_EACCES }, { UNETMM_ST_REMOTE_RIGHT, FI_EACCES },
        { UNETMM_ST_BAD_IMPORT, FI_EACCES }, { UNETMM_ST_BAD_CHANNEL, FI_ECANCELED },
        { UNETMM_ST_FLUSHED, FI_ECANCELED }, { UNETMM_ST_PEER_FAILED, FI_ECANCELED },
        { UNETMM_ST_BAD_DESC, FI_EIO },
    };
    struct state *s = *state;
    struct fi_cq_err_entry error = { 0 };
    struct fi_cq_tagged_entry entry;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        post_send(s, s);
        do_sends(s, rows[i].status);
        assert_int_equal(fi_cq_read(s->tx, &entry, 1), -FI_EAVAIL);
        error.err_data_size = 1;
        assert_int_equal(fi_cq_readerr(s->tx, &error, FI_PEEK), 1);
        assert_int_equal(fi_cq_readerr(s->tx, &error, 0), 1);
        assert_ptr_equal(error.op_context, s);
        assert_int_equal(error.flags, FI_MSG | FI_SEND);
        assert_int_equal(error.len, 0);
        assert_int_equal(error.err, rows[i].err);
        assert_int_equal(error.prov_errno, rows[i].status);
        assert_int_equal(error.err_data_size, 0);
        assert_int_equal(fi_cq_readerr(s->tx, &error, 0), -FI_EAGAIN);
        assert_int_equal(fi_cq_read(s->tx, &entry, 1), -FI_EAGAIN);
    }
}

/* No larger than the operation's, although the card's buffer was. */
TEST_OF(long_messages_are_errors, struct state *s, scene_test)
{
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
TEST_OF(strangers_use_up_no_buffer, struct state *s, scene_test)
{
    struct fi_cq_data_entry entry;

    s->by_channel[CHANNEL] = NULL;
    post_recv(s, sizeof(s->memory), s);
    deliver(s, 8);
    assert_int_equal(fi_cq_read(s->rx, &entry, 1), -FI_EAGAIN);
    umfi_lock(&s->domain);
    umfi_port_claim_channel(&s->port, &s->ep);
    umfi_unlock(&s->domain);
    assert_int_equal(fi_cq_read(s->rx, &entry, 1), -FI_EAGAIN);
    deliver(s, 8);
    assert_int_equal(fi_cq_read(s->rx, &entry, 1), 1);
    assert_ptr_equal(entry.op_context, s);
}

TEST_OF(cancelled_ones_come_once, struct state *s, scene_test)
{
    struct fi_cq_err_entry error = { 0 };
    struct fi_cq_tagged_entry entry;

    post_send(s, s);
    umfi_lock(&s->domain);
    umfi_pool_cancel_ops(&s->port.tx, &s->ep, false);
    umfi_unlock(&s->domain);
    assert_int_equal(fi_cq_readerr(s->tx, &error, 0), 1);
    assert_int_equal(error.err, FI_ECANCELED);
    do_sends(s, UNETMM_ST_OK);
    assert_int_equal(fi_cq_read(s->tx, &entry, 1), -FI_EAGAIN);
}

/* Callers older than 1.5 have an entry without the size of their data at its end. */
TEST_OF(errors_of_old_callers, struct state *s, scene_test)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error;

    for (unsigned minor = 4; minor <= 5; minor++) {
        s->fabric.fid.api_version = FI_VERSION(1, minor);
        post_send(s, s);
        do_sends(s, UNETMM_ST_TIMEOUT);
        assert_int_equal(fi_cq_read(s->tx, &entry, 1), -FI_EAVAIL);
        error.err_data_size = 7;
        assert_int_equal(fi_cq_readerr(s->tx, &error, 0), 1);
        assert_ptr_equal(error.op_context, s);
        assert_int_equal(error.err_data_size, minor < 5 ? 7 : 0);
    }
}

/* Longer than the card's longest message */
TEST_OF(too_long_message, struct state *s, scene_test)
{
    assert_int_equal(fi_send(&s->ep.fid, s->data, UNETMM_MAX_MESSAGE + 1, NULL, 0, s),
                     -FI_EMSGSIZE);
    post_send(s, s);
}

/* The card waits until it is told that entries were taken. */
TEST_OF(blocked_card_is_told, struct state *s, scene_test)
{
    struct fi_cq_tagged_entry entry;

    post_send(s, s);
    do_sends(s, UNETMM_ST_OK);
    fake_endpoint_rung(&s->fake);
    fake_card_state(&s->fake.card, UNETMM_EP_CQ_BLOCKED);
    assert_int_equal(fi_cq_read(s->tx, &entry, 1), 1);
    assert_true(fake_endpoint_rung(&s->fake));
}

/* ---- Entries ------------------------------------------------------------------- */

static struct umfi_cq *queue_of(struct fid_cq *cq)
{
    return umfi_of(cq, struct umfi_cq, fid);
}

static void push(struct fid_cq *cq, const struct umfi_entry *entry)
{
    umfi_lock(queue_of(cq)->domain);
    umfi_cq_push_entry(queue_of(cq), entry);
    umfi_unlock(queue_of(cq)->domain);
}

/* Each format has the first members of the longest, and no byte more is written. */
TEST(formats, scene_test)
{
    static const struct { enum fi_cq_format format; size_t bytes; } rows[] = {
        { FI_CQ_FORMAT_UNSPEC, sizeof(struct fi_cq_entry) },
        { FI_CQ_FORMAT_CONTEXT, sizeof(struct fi_cq_entry) },
        { FI_CQ_FORMAT_MSG, sizeof(struct fi_cq_msg_entry) },
        { FI_CQ_FORMAT_DATA, sizeof(struct fi_cq_data_entry) },
        { FI_CQ_FORMAT_TAGGED, sizeof(struct fi_cq_tagged_entry) },
    };
    const struct umfi_entry full = { .e = { (void *)1, 2, 3, (void *)4, 5, 6 } };
    struct state *s = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fi_cq_tagged_entry got[4];
        char *at = (char *)got, past = 0x55;
        fi_addr_t from[4] = { 0 };
        struct fid_cq *cq;

        open_queue(s, rows[i].format, &cq);
        memset(got, past, sizeof(got));
        push(cq, &full);
        push(cq, &full);
        assert_int_equal(fi_cq_readfrom(cq, got, 3, from), 2);
        assert_memory_equal(at, &full.e, rows[i].bytes);
        assert_memory_equal(at + rows[i].bytes, &full.e, rows[i].bytes);
        assert_int_equal(at[2 * rows[i].bytes], past);
        assert_true(from[0] == FI_ADDR_NOTAVAIL && from[1] == FI_ADDR_NOTAVAIL && !from[2]);
        push(cq, &full);
        assert_int_equal(fi_cq_readfrom(cq, got, 3, NULL), 1);
        assert_int_equal(fi_close(&cq->fid), 0);
    }
}

/* A queue that is not read has room for all. */
TEST_OF(queue_grows, struct state *s, scene_test)
{
    struct fi_cq_tagged_entry got;
    struct umfi_entry entry = { .err = 0 };
    uintptr_t read = 0;

    for (uintptr_t i = 0; i < 1000; i++) {
        entry.e.op_context = (void *)i;
        push(s->tx, &entry);
        if (i < 100) {
            assert_int_equal(fi_cq_read(s->tx, &got, 1), 1);
            assert_ptr_equal(got.op_context, read++);
        }
    }
    while (fi_cq_read(s->tx, &got, 1) == 1) {
        assert_ptr_equal(got.op_context, read++);
    }
    assert_int_equal(read, 1000);
}

/* Successes before an error are read first. */
TEST(error_behind_others, scene_test)
{
    struct umfi_entry good = { .e.op_context = state }, bad = {
        .e = { (void *)1, 2, 3, (void *)4, 5, 6 }, .err = FI_ETRUNC, .olen = 7,
    };
    struct fi_cq_tagged_entry got[3];
    struct fi_cq_err_entry error;
    struct state *s = *state;
    char text[4];

    push(s->tx, &good);
    push(s->tx, &bad);
    push(s->tx, &good);
    assert_int_equal(fi_cq_readerr(s->tx, &error, 0), -FI_EAGAIN);
    assert_int_equal(fi_cq_read(s->tx, got, 3), 1);
    assert_int_equal(fi_cq_read(s->tx, got, 3), -FI_EAVAIL);
    memset(&error, 0xff, sizeof(error));
    assert_int_equal(fi_cq_readerr(s->tx, &error, 0), 1);
    assert_memory_equal(&error, &bad.e, offsetof(struct fi_cq_tagged_entry, tag));
    assert_int_equal(error.tag, 0);
    assert_int_equal(error.olen, 7);
    assert_int_equal(error.prov_errno, 0);
    assert_int_equal(fi_cq_read(s->tx, got, 3), 1);
    assert_string_equal(fi_cq_strerror(s->tx, 0, NULL, text, sizeof(text)),
                        "the operation was cancelled, or its buffer was too short");
    assert_string_equal(text, "the");
    assert_string_equal(fi_cq_strerror(s->tx, UNETMM_ST_TIMEOUT, NULL, NULL, 9),
                        unetmm_status_str(UNETMM_ST_TIMEOUT));
    assert_non_null(fi_cq_strerror(s->tx, 0, NULL, text, 0));
    assert_string_equal(text, "the");
}

TEST(wait_objects, scene_test)
{
    static const struct {
        enum fi_cq_format format;
        enum fi_wait_obj wait;
        enum fi_cq_wait_cond cond;
        int ret;
    } rows[] = {
        { FI_CQ_FORMAT_TAGGED + 1, FI_WAIT_NONE, FI_CQ_COND_NONE, -FI_ENOSYS },
        { FI_CQ_FORMAT_TAGGED, FI_WAIT_SET, FI_CQ_COND_NONE, -FI_ENOSYS },
        { FI_CQ_FORMAT_TAGGED, FI_WAIT_FD, FI_CQ_COND_THRESHOLD, -FI_ENOSYS },
        { FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE, FI_CQ_COND_NONE, 0 },
        { FI_CQ_FORMAT_TAGGED, FI_WAIT_UNSPEC, FI_CQ_COND_NONE, 0 },
        { FI_CQ_FORMAT_TAGGED, FI_WAIT_FD, FI_CQ_COND_NONE, 0 },
    };
    struct state *s = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fi_cq_attr attr = {
            .format = rows[i].format, .wait_obj = rows[i].wait, .wait_cond = rows[i].cond,
        };
        bool none = rows[i].wait == FI_WAIT_NONE;
        struct fi_cq_tagged_entry entry;
        enum fi_wait_obj wait;
        struct fid_cq *cq;
        eventfd_t count;
        int fd = -1;

        assert_int_equal(umfi_cq_open(&s->domain.fid, &attr, &cq, NULL), rows[i].ret);
        if (rows[i].ret) {
            continue;
        }
        assert_int_equal(fi_control(&cq->fid, FI_GETWAIT, &fd), none ? -FI_ENODATA : 0);
        assert_int_equal(fd >= 0, !none);
        assert_int_equal(fi_control(&cq->fid, FI_GETWAITOBJ, &wait), 0);
        assert_int_equal(wait, none ? FI_WAIT_NONE : FI_WAIT_FD);
        assert_int_equal(fi_control(&cq->fid, FI_ENABLE, NULL), -FI_ENOSYS);
        assert_int_equal(fi_cq_sread(cq, &entry, 1, NULL, 0), none ? -FI_EINVAL : -FI_EAGAIN);
        assert_int_equal(umfi_cq_trywait(queue_of(cq)), none ? -FI_EINVAL : 0);
        assert_int_equal(fi_cq_signal(cq), none ? -FI_EINVAL : 0);
        if (!none) {
            /* A signal ends one wait. */
            assert_int_equal(umfi_cq_trywait(queue_of(cq)), -FI_EAGAIN);
            assert_int_equal(umfi_cq_trywait(queue_of(cq)), 0);
            assert_int_equal(fi_cq_signal(cq), 0);
            assert_int_equal(fi_cq_sread(cq, &entry, 1, NULL, -1), -FI_EAGAIN);
            assert_int_equal(umfi_cq_trywait(queue_of(cq)), 0);
            /* A sleeper is woken once. */
            for (unsigned n = 0; n < 2; n++) {
                push(cq, &(struct umfi_entry) { .err = 0 });
            }
            assert_int_equal(eventfd_read(queue_of(cq)->event_fd, &count), 0);
            assert_int_equal(count, 1);
        }
        assert_int_equal(fi_close(&cq->fid), 0);
    }
}

/* A queue has each port as long as anybody uses it for that queue. */
TEST_OF(ports_of_a_queue, struct state *s, scene_test)
{
    struct umfi_port ports[2] = { { .ep = NULL } };
    struct umfi_cq *cq = queue_of(s->tx);

    umfi_lock(&s->domain);
    umfi_cq_detach(cq, &s->port);
    assert_int_equal(cq->nports, 0);
    assert_null(cq->only);
    for (unsigned i = 0; i < 2; i++) {
        ports[i] = s->port;
        assert_int_equal(umfi_cq_attach(cq, &ports[i]), 0);
        assert_ptr_equal(cq->only, i ? NULL : &ports[0]);
    }
    assert_int_equal(umfi_cq_attach(cq, &ports[0]), 0);
    assert_int_equal(cq->nports, 2);
    umfi_cq_detach(cq, &ports[0]);
    assert_int_equal(cq->nports, 2);
    umfi_cq_detach(cq, &ports[0]);
    assert_int_equal(cq->nports, 1);
    assert_ptr_equal(cq->only, &ports[1]);
    umfi_cq_detach(cq, &ports[1]);
    assert_int_equal(cq->nports, 0);
    umfi_unlock(&s->domain);
}

/* ---- Calls, and the descriptor of each ------------------------------------------- */

#define SHORT       8
#define KEY         0x334455667788
#define ADDRESS     0x1000
#define IMM         0x12345678

static char bytes[SHORT];

static const struct iovec pieces[5] = {
    { bytes, 2 }, { bytes + 2, SHORT - 2 }, { NULL, 0 }, { NULL, 0 }, { NULL, 0 },
};

static ssize_t message(struct fid_ep *ep, uint64_t flags)
{
    const struct fi_msg msg = {
        .msg_iov = pieces, .iov_count = 2, .data = IMM, .context = bytes,
    };

    return fi_sendmsg(ep, &msg, flags);
}

static ssize_t rma_message(struct fid_ep *ep, uint64_t flags, bool reads)
{
    struct fi_rma_iov far = { ADDRESS, SHORT, KEY };
    const struct fi_msg_rma msg = {
        .msg_iov = pieces, .iov_count = 2, .rma_iov = &far, .rma_iov_count = 1,
        .data = IMM, .context = bytes,
    };

    return reads ? fi_readmsg(ep, &msg, flags) : fi_writemsg(ep, &msg, flags);
}

#define CALL(name, expression) \
    static ssize_t do_##name(struct fid_ep *ep) { return expression; }

CALL(send, fi_send(ep, bytes, SHORT, NULL, 0, bytes))
CALL(sendv, fi_sendv(ep, pieces, NULL, 2, 0, bytes))
CALL(senddata, fi_senddata(ep, bytes, SHORT, NULL, IMM, 0, bytes))
CALL(inject, fi_inject(ep, bytes, SHORT, 0))
CALL(injectdata, fi_injectdata(ep, bytes, SHORT, IMM, 0))
CALL(sendmsg, message(ep, 0))
CALL(sendmsg_all, message(ep, FI_COMPLETION | FI_INJECT | FI_REMOTE_CQ_DATA))
CALL(write, fi_write(ep, bytes, SHORT, NULL, 0, ADDRESS, KEY, bytes))
CALL(writev, fi_writev(ep, pieces, NULL, 2, 0, ADDRESS, KEY, bytes))
CALL(writedata, fi_writedata(ep, bytes, SHORT, NULL, IMM, 0, ADDRESS, KEY, bytes))
CALL(inject_write, fi_inject_write(ep, bytes, SHORT, 0, ADDRESS, KEY))
CALL(inject_writedata, fi_inject_writedata(ep, bytes, SHORT, IMM, 0, ADDRESS, KEY))
CALL(writemsg, rma_message(ep, 0, false))
CALL(writemsg_all, rma_message(ep, FI_COMPLETION | FI_INJECT | FI_REMOTE_CQ_DATA, false))
CALL(read, fi_read(ep, bytes, SHORT, NULL, 0, ADDRESS, KEY, bytes))
CALL(readv, fi_readv(ep, pieces, NULL, 2, 0, ADDRESS, KEY, bytes))
CALL(readmsg, rma_message(ep, 0, true))
CALL(readmsg_all, rma_message(ep, FI_COMPLETION, true))

enum { COPIED = 1, DATA = 2, NEVER = 4, ALWAYS = 8 };

static const struct call {
    const char *name;
    ssize_t (*make)(struct fid_ep *ep);
    uint64_t flags;             /* of the entry */
    unsigned segments, how;
} calls[] = {
#define ROW(name, flags, segments, how) { #name, do_##name, flags, segments, how }
    ROW(send, FI_MSG | FI_SEND, 1, 0), ROW(sendv, FI_MSG | FI_SEND, 2, 0),
    ROW(senddata, FI_MSG | FI_SEND, 1, DATA), ROW(inject, 0, 1, COPIED | NEVER),
    ROW(injectdata, 0, 1, COPIED | DATA | NEVER), ROW(sendmsg, FI_MSG | FI_SEND, 2, 0),
    ROW(sendmsg_all, FI_MSG | FI_SEND, 2, COPIED | DATA | ALWAYS),
    ROW(write, FI_RMA | FI_WRITE, 1, 0), ROW(writev, FI_RMA | FI_WRITE, 2, 0),
    ROW(writedata, FI_RMA | FI_WRITE, 1, DATA),
    ROW(inject_write, 0, 1, COPIED | NEVER),
    ROW(inject_writedata, 0, 1, COPIED | DATA | NEVER),
    ROW(writemsg, FI_RMA | FI_WRITE, 2, 0),
    ROW(writemsg_all, FI_RMA | FI_WRITE, 2, COPIED | DATA | ALWAYS),
    ROW(read, FI_RMA | FI_READ, 1, 0), ROW(readv, FI_RMA | FI_READ, 2, 0),
    ROW(readmsg, FI_RMA | FI_READ, 2, 0), ROW(readmsg_all, FI_RMA | FI_READ, 2, ALWAYS),
};

static void require_done(struct state *s, const struct call *call, bool selective)
{
    bool entry_wanted = !(call->how & NEVER) && (!selective || call->how & ALWAYS);
    static struct fake_message m;
    struct fi_cq_tagged_entry entry;
    bool read = call->flags & FI_READ;

    assert_int_equal(call->make(&s->ep.fid), 0);
    assert_true(fake_card_take(&s->fake.card, &m));
    assert_int_equal(m.len, SHORT);
    assert_int_equal(m.channel, CHANNEL);
    assert_int_equal(m.is_inline, !!(call->how & COPIED));
    assert_int_equal(m.has_imm, !!(call->how & DATA));
    assert_int_equal(m.imm, call->how & DATA ? IMM : 0);
    if (!m.is_inline) {
        assert_int_equal(m.nsegs, call->segments);
    }
    assert_int_equal(m.opcode == UNETMM_OP_READ, read);
    assert_int_equal(m.keyed, m.opcode != UNETMM_OP_SEND);
    if (m.keyed) {
        assert_int_equal(m.offset, ADDRESS);
        assert_int_equal(m.import, (uint32_t)KEY);
        assert_int_equal(m.region, KEY >> 32);
    }
    if (!read) {
        assert_memory_equal(m.data, bytes, SHORT);
    }
    assert_true(fake_card_sent(&s->fake.card, &m));
    assert_int_equal(fi_cq_read(s->tx, &entry, 1), entry_wanted ? 1 : -FI_EAGAIN);
    if (entry_wanted) {
        assert_ptr_equal(entry.op_context, bytes);
        assert_int_equal(entry.flags, call->flags);
        assert_int_equal(entry.len, SHORT);
    }
}

TEST_OF(operations, struct state *s, scene_test)
{
    /* The library copies short messages unasked. */
    s->fake.ep->inline_max = 0;
    memcpy(bytes, "payload", SHORT);
    for (unsigned selective = 0; selective < 2; selective++) {
        s->ep.tx_completion = selective ? 0 : FI_COMPLETION;
        for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
            print_message("# %s\n", calls[i].name);
            require_done(s, &calls[i], selective);
        }
    }
    /* Flags of the endpoint are those of calls without flags. */
    s->ep.tx_flags = FI_INJECT;
    require_done(s, &(struct call) { "send", do_send, FI_MSG | FI_SEND, 1, COPIED | NEVER }, true);
    require_done(s, &(struct call) { "sendv", do_sendv, FI_MSG | FI_SEND, 2, COPIED | NEVER },
                 true);
    require_done(s, &(struct call) { "write", do_write, FI_RMA | FI_WRITE, 1, COPIED | NEVER },
                 true);
}

/* Too many pieces, too many bytes; and a read of none */
TEST_OF(refused_operations, struct state *s, scene_test)
{
    struct fi_rma_iov far[2] = { { ADDRESS, SHORT, KEY }, { ADDRESS, SHORT, KEY } };
    struct fi_msg_rma rma = { .msg_iov = pieces, .iov_count = 5, .rma_iov = far };
    struct fi_msg msg = { .msg_iov = pieces, .iov_count = 5 };
    static char more[UMFI_INJECT + 1];
    struct fid_ep *ep = &s->ep.fid;
    struct fi_cq_tagged_entry entry;

    assert_int_equal(fi_sendv(ep, pieces, NULL, 5, 0, NULL), -FI_EINVAL);
    assert_int_equal(fi_sendmsg(ep, &msg, 0), -FI_EINVAL);
    assert_int_equal(fi_recvv(ep, pieces, NULL, 2, 0, NULL), -FI_EINVAL);
    assert_int_equal(fi_recvmsg(ep, &msg, 0), -FI_EINVAL);
    assert_int_equal(fi_writev(ep, pieces, NULL, 5, 0, ADDRESS, KEY, NULL), -FI_EINVAL);
    for (rma.rma_iov_count = 0; rma.rma_iov_count <= 2; rma.rma_iov_count++) {
        rma.iov_count = rma.rma_iov_count == 1 ? 5 : 2;
        assert_int_equal(fi_writemsg(ep, &rma, 0), -FI_EINVAL);
        assert_int_equal(fi_readmsg(ep, &rma, 0), -FI_EINVAL);
    }
    assert_int_equal(fi_inject_write(ep, more, UMFI_INJECT + 1, 0, ADDRESS, KEY), -FI_EINVAL);
    assert_int_equal(fi_inject_write(ep, more, UMFI_INJECT, 0, ADDRESS, KEY), 0);
    do_sends(s, UNETMM_ST_OK);
    assert_int_equal(fi_cq_read(s->tx, &entry, 1), -FI_EAGAIN);
    /* A read of nothing is done at once, by an endpoint that could. */
    assert_int_equal(fi_read(ep, more, 0, NULL, 0, ADDRESS, KEY, more), 0);
    assert_int_equal(fi_cq_read(s->tx, &entry, 1), 1);
    assert_ptr_equal(entry.op_context, more);
    assert_int_equal(entry.flags, FI_RMA | FI_READ);
    assert_int_equal(entry.len, 0);
    s->ep.tx_completion = 0;
    assert_int_equal(fi_read(ep, more, 0, NULL, 0, ADDRESS, KEY, more), 0);
    assert_int_equal(fi_cq_read(s->tx, &entry, 1), -FI_EAGAIN);
    s->ep.state = UMFI_ENDED;
    assert_int_equal(fi_read(ep, more, 0, NULL, 0, ADDRESS, KEY, more), -FI_ENOTCONN);
}

/* An entry for each buffer, or for those that ask; its length is the message's. */
TEST(receives, scene_test)
{
    const struct iovec iov = { (*(struct state **)state)->memory, SHORT };
    struct fi_msg msg = { .msg_iov = &iov, .iov_count = 1, .context = bytes };
    struct state *s = *state;
    struct fi_cq_data_entry entry;

    for (unsigned selective = 0; selective < 2; selective++) {
        s->ep.rx_completion = selective ? 0 : FI_COMPLETION;
        for (unsigned call = 0; call < 5; call++) {
            bool has_entry = !selective || call == 3;

            s->ep.rx_flags = call == 4 ? FI_MORE : 0;
            assert_int_equal(call == 0 || call == 4 ?
                             fi_recv(&s->ep.fid, iov.iov_base, SHORT, NULL, 0, bytes) :
                             call == 1 ? fi_recvv(&s->ep.fid, &iov, NULL, 1, 0, bytes) :
                             fi_recvmsg(&s->ep.fid, &msg, call == 3 ? FI_COMPLETION : 0), 0);
            deliver(s, 5);
            assert_int_equal(fi_cq_read(s->rx, &entry, 1), has_entry ? 1 : -FI_EAGAIN);
            if (has_entry) {
                assert_ptr_equal(entry.op_context, bytes);
                assert_int_equal(entry.len, 5);
                assert_ptr_equal(entry.buf, iov.iov_base);
            }
        }
    }
}

/* Data of a write uses up a buffer, whose entry comes in any case. */
TEST_OF(data_of_a_write, struct state *s, scene_test)
{
    struct fi_cq_data_entry entry;

    s->ep.rx_completion = 0;
    post_recv(s, SHORT, bytes);
    assert_true(fake_card_written(&s->fake.card, CHANNEL, 1000, IMM));
    assert_int_equal(fi_cq_read(s->rx, &entry, 1), 1);
    assert_ptr_equal(entry.op_context, bytes);
    assert_int_equal(entry.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
    assert_int_equal(entry.len, 1000);
    assert_null(entry.buf);
    assert_int_equal(entry.data, IMM);
    /* A buffer that the card gives back */
    post_recv(s, SHORT, bytes);
    assert_true(fake_card_return(&s->fake.card, UNETMM_ST_PROTECTION));
    assert_int_equal(fi_cq_read(s->rx, &entry, 1), -FI_EAVAIL);
}

/* As ofi_rxm does with the buffers of completions that it reads afterwards */
TEST(closed_endpoint_takes_no_buffers, cmocka_unit_test)
{
    struct umfi_fabric fabric = { 0 };
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

TEST(lock_excludes, cmocka_unit_test)
{
    pthread_t threads[THREADS];

    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, take_turns, NULL), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(turns, THREADS * TURNS);
    assert_int_equal(shared.lock.state, SYS_LOCK_FREE);
}

static void *wait_for_lock(void *opaque)
{
    umfi_lock(&shared);
    umfi_unlock(&shared);
    return NULL;
}

/* One that sleeps is woken. */
TEST(lock_wakes, cmocka_unit_test)
{
    pthread_t thread;

    umfi_lock(&shared);
    assert_false(sys_lock_try(&shared.lock));
    assert_int_equal(pthread_create(&thread, NULL, wait_for_lock, NULL), 0);
    while (__atomic_load_n(&shared.lock.state, __ATOMIC_RELAXED) != SYS_LOCK_AWAITED) {
        sched_yield();
    }
    umfi_unlock(&shared);
    pthread_join(thread, NULL);
    assert_int_equal(shared.lock.state, SYS_LOCK_FREE);
}
