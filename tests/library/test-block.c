/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The server of unetmm-block, on an endpoint that is the test. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Before cmocka's macro fail() */
#include "block.h"

#include "../one_test.h"

#define CHANNELS    (BLOCK_SESSIONS + 4)
#define PENDING     8192
#define QUEUE       4096            /* the server's */
#define KEY         0x700000009ull      /* region 7, key 9 */
#define ADDRESS     0x5000u

static uint32_t mtu[CHANNELS];      /* 0: the number is free, or rests ... */
static bool rests[CHANNELS];        /* ... until the channel's CLOSED was taken */
static bool told[CHANNELS], heard[CHANNELS];    /* CLOSED is there; was taken */
static struct unetmm_completion pending[PENDING];
static unsigned first, npending, callers, disconnects, replies, step, chunks;
static struct unetmm_request_ moved;            /* the last operation on a client */
static uint8_t chunk[BLOCK_UNIT];
static void (*turn)(void);
static void go_on_flooding(void);

static int card_queue(struct unetmm_ep *ep, const struct iovec *iov, unsigned n,
                      size_t len, int is_inline)
{
    if (is_inline) {
        assert_int_equal(len, sizeof(struct block_reply));
        replies++;
    } else {
        assert_ptr_equal(iov->iov_base, chunk);
        moved = ep->request;
    }
    return 0;
}

static int card_poll(struct unetmm_ep *ep, struct unetmm_completion *c, unsigned n)
{
    if (first == npending) {
        first = npending = 0;
        return 0;
    }
    *c = pending[first++];
    if (c->type == UNETMM_CQE_CLOSED) {
        heard[c->channel] = mtu[c->channel];
        told[c->channel] = rests[c->channel] = false;
    }
    return 1;
}

static void arrive(uint8_t type, unsigned channel, const struct block_request *request)
{
    struct unetmm_completion *c = &pending[npending++];

    assert_true(npending <= PENDING);
    *c = (struct unetmm_completion) { .type = type, .channel = (uint16_t)channel };
    told[channel] |= type == UNETMM_CQE_CLOSED;
    if (request) {
        c->is_inline = 1;
        c->len = sizeof(*request);
        memcpy(c->data, request, sizeof(*request));
    }
}

static const struct unetmm_rare_ops_ rare = { .queue = card_queue, .poll = card_poll };
static struct unetmm_ep card_ep = {
    .alive = 1,
    .source = (const struct unetmm_source_ops_ *)&rare,
    .rare = &rare,
    .inline_max = 256,
    .channels = CHANNELS,
    .channel_mtu = mtu,
};

int __wrap_unetmm_open(const char *device, unsigned source, struct unetmm_ctx **ctx);
int __wrap_unetmm_open(const char *device, unsigned source, struct unetmm_ctx **ctx)
{
    return 0;
}

int __wrap_unetmm_close(struct unetmm_ctx *ctx);
int __wrap_unetmm_close(struct unetmm_ctx *ctx)
{
    return 0;
}

int __wrap_unetmm_info(struct unetmm_ctx *ctx, struct unetmm_info *info);
int __wrap_unetmm_info(struct unetmm_ctx *ctx, struct unetmm_info *info)
{
    info->channels = CHANNELS;
    return 0;
}

int __wrap_unetmm_ep_create(struct unetmm_ctx *ctx, const struct unetmm_ep_attr *attr,
                            struct unetmm_ep **ep);
int __wrap_unetmm_ep_create(struct unetmm_ctx *ctx, const struct unetmm_ep_attr *attr,
                            struct unetmm_ep **ep)
{
    *ep = &card_ep;
    return 0;
}

int __wrap_unetmm_ep_destroy(struct unetmm_ep *ep);
int __wrap_unetmm_ep_destroy(struct unetmm_ep *ep)
{
    return 0;
}

int __wrap_unetmm_listen_ex(struct unetmm_ep *ep, uint64_t service, unsigned backlog,
                            const struct unetmm_channel_attr *attr);
int __wrap_unetmm_listen_ex(struct unetmm_ep *ep, uint64_t service, unsigned backlog,
                            const struct unetmm_channel_attr *attr)
{
    return 0;
}

/* Each caller gets the lowest number that does not rest, as from the driver. */
int __wrap_unetmm_accept(struct unetmm_ep *ep, struct unetmm_peer *peer, int64_t ns);
int __wrap_unetmm_accept(struct unetmm_ep *ep, struct unetmm_peer *peer, int64_t ns)
{
    unsigned i = 0;

    if (!callers) {
        return -ETIMEDOUT;
    }
    callers--;
    while (mtu[i] || rests[i]) {
        i++;
    }
    mtu[i] = UNETMM_MAX_MESSAGE;
    peer->channel = (uint16_t)i;
    return (int)i;
}

/* The next caller comes at once.  The channel's end is told, if that has not been. */
int __wrap_unetmm_disconnect(struct unetmm_ep *ep, int channel);
int __wrap_unetmm_disconnect(struct unetmm_ep *ep, int channel)
{
    mtu[channel] = 0;
    rests[channel] = !heard[channel];
    if (!told[channel] && !heard[channel]) {
        arrive(UNETMM_CQE_CLOSED, (unsigned)channel, NULL);
    }
    heard[channel] = false;
    disconnects++;
    callers += disconnects == 1 || (turn == go_on_flooding && disconnects <= 3);
    return 0;
}

/* It would wait for the client's driver, and all clients for it. */
int __wrap_unetmm_import(struct unetmm_ep *ep, int channel, uint64_t id, unsigned rights,
                         int64_t ns, uint64_t *length);
int __wrap_unetmm_import(struct unetmm_ep *ep, int channel, uint64_t id, unsigned rights,
                         int64_t ns, uint64_t *length)
{
    fail_msg("the server waits for a client");
    return -EIO;
}

static void greet(unsigned channel)
{
    const struct block_request hello = {
        .op = block_le32(BLOCK_HELLO), .remote = block_le64(KEY),
    };

    arrive(UNETMM_CQE_RECEIVED, channel, &hello);
}

static void go_on(void)
{
    step++;
    if (step == 1) {
        callers = 1;
        arrive(UNETMM_CQE_RECEIVED, 0, NULL);       /* no request at all */
        arrive(UNETMM_CQE_CLOSED, 0, NULL);
    } else if (step == 2) {
        greet(0);
    } else {
        assert_int_equal(step, 3);
        assert_int_equal(replies, 1);
        arrive(UNETMM_CQE_CLOSED, 0, NULL);
    }
}

/* Each session ends, and the next caller with the number of the third one is greeted. */
static void go_on_flooding(void)
{
    step++;
    if (step == 1) {
        callers = 3;
        arrive(UNETMM_CQE_RECEIVED, 0, NULL);
        arrive(UNETMM_CQE_RECEIVED, 2, NULL);
        while (npending < QUEUE - 8) {
            arrive(UNETMM_CQE_RECEIVED, 1, NULL);
        }
    } else if (step == 2) {
        assert_int_equal(disconnects, 3);
        greet(2);
    } else {
        assert_int_equal(step, 3);
        assert_int_equal(replies, 1);
        for (unsigned i = 0; i < 3; i++) {
            arrive(UNETMM_CQE_CLOSED, i, NULL);
        }
    }
}

/* The two sides take turns; the test fails if the server waits for more. */
int __wrap_unetmm_wait(struct unetmm_ep *ep, struct unetmm_completion *c, unsigned n,
                       int64_t ns);
int __wrap_unetmm_wait(struct unetmm_ep *ep, struct unetmm_completion *c, unsigned n,
                       int64_t ns)
{
    if (first == npending) {
        first = npending = 0;
        turn();
    }
    return card_poll(ep, c, n);
}

void buffer_make(struct block_buffer *b, struct unetmm_ctx *ctx,
                 const struct block_options *opt)
{
    b->chunks = 1;
    b->chunk = BLOCK_UNIT;
}

void buffer_free(struct block_buffer *b, struct unetmm_ctx *ctx,
                 const struct block_options *opt)
{
}

int buffer_take(struct block_buffer *b)
{
    return chunks ? (int)--chunks : -1;
}

void buffer_give(struct block_buffer *b, unsigned n)
{
    chunks++;
}

uint8_t *buffer_at(const struct block_buffer *b, unsigned n)
{
    return chunk;
}

uint64_t buffer_resident(const struct block_buffer *b)
{
    return 0;
}

/* Runs the server until all sessions have ended; `turn` is the clients' side. */
static void serve(void (*clients)(void), unsigned expected)
{
    char name[] = "test-block-XXXXXX";
    struct block_options opt = { .file = name, .json = true, .service = 1 };
    int fd = mkstemp(name);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, BLOCK_UNIT), 0);
    close(fd);
    memset(mtu, 0, sizeof(mtu));
    memset(rests, 0, sizeof(rests));
    memset(told, 0, sizeof(told));
    memset(heard, 0, sizeof(heard));
    first = npending = callers = disconnects = replies = step = chunks = 0;
    turn = clients;
    assert_int_equal(block_serve(&opt), EXIT_SUCCESS);
    unlink(name);
    assert_int_equal(replies, expected);
}

/*
 * A caller sends nonsense and closes; the next one has the number of its channel.  The end
 * of the first is not that of the second.
 */
TEST(end_of_the_caller_before, cmocka_unit_test)
{
    serve(go_on, 1);
    assert_int_equal(disconnects, 2);
}

/* A session ends while many messages of ended ones wait. */
TEST(end_in_a_flood, cmocka_unit_test)
{
    serve(go_on_flooding, 1);
    assert_int_equal(disconnects, 6);
}

static void go_on_reading(void)
{
    const struct block_request want = {
        .op = block_le32(BLOCK_READ), .length = block_le32(BLOCK_UNIT),
        .remote = block_le64(ADDRESS),
    };

    step++;
    if (step == 1) {
        callers = chunks = 1;
        greet(0);
        arrive(UNETMM_CQE_RECEIVED, 0, &want);
    } else if (step == 2) {
        assert_int_equal(moved.channel, 0);
        assert_int_equal(moved.offset, ADDRESS);
        assert_int_equal(moved.import, (uint32_t)KEY);
        assert_int_equal(moved.flags >> UNETMM_REGION_SHIFT_, KEY >> 32);
        arrive(UNETMM_CQE_SENT, 0, NULL);
    } else {
        assert_int_equal(step, 3);
        arrive(UNETMM_CQE_CLOSED, 0, NULL);
    }
}

/* Data moves by the key that the client gave away, and nobody is asked for it. */
TEST(data_moves_by_key, cmocka_unit_test)
{
    serve(go_on_reading, 2);
}

static void go_on_idly(void)
{
    unsigned i;

    step++;
    if (step == 1) {
        callers = BLOCK_SESSIONS + 1;
        for (i = 0; i <= BLOCK_SESSIONS; i++) {
            greet(i);
            arrive(UNETMM_CQE_SENT, 0, NULL);
            pending[npending - 1].user_data = 0x100000000ull | i;
        }
        return;
    }
    assert_int_equal(step, 2);
    for (i = 0; i <= BLOCK_SESSIONS; i++) {
        arrive(UNETMM_CQE_CLOSED, i, NULL);
    }
}

/* All sessions are taken, by clients that ask for nothing: the oldest makes room. */
TEST(idle_sessions_make_room, cmocka_unit_test)
{
    serve(go_on_idly, BLOCK_SESSIONS + 1);
}
