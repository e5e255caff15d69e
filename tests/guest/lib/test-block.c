/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The server of unetmm-block, on an endpoint that is the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Before cmocka's macro fail() */
#include "block.h"

#include <cmocka.h>

#define CHANNELS    4
#define PENDING     4
#define EXPORT      7

static uint32_t mtu[CHANNELS];      /* 0: the number is free */
static struct unetmm_completion pending[PENDING];
static unsigned npending, callers, disconnects, replies, step;

static int card_queue(struct unetmm_ep *ep, const struct iovec *iov, unsigned n,
                      size_t len, int is_inline)
{
    assert_int_equal(len, sizeof(struct block_reply));
    replies++;
    return 0;
}

static int card_poll(struct unetmm_ep *ep, struct unetmm_completion *c, unsigned n)
{
    if (!npending) {
        return 0;
    }
    *c = pending[0];
    memmove(pending, pending + 1, --npending * sizeof(*c));
    return 1;
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

/* Each caller gets the lowest number, as from the driver. */
int __wrap_unetmm_accept(struct unetmm_ep *ep, struct unetmm_peer *peer, int64_t ns);
int __wrap_unetmm_accept(struct unetmm_ep *ep, struct unetmm_peer *peer, int64_t ns)
{
    unsigned i = 0;

    if (!callers) {
        return -ETIMEDOUT;
    }
    callers--;
    while (mtu[i]) {
        i++;
    }
    mtu[i] = UNETMM_MAX_MESSAGE;
    peer->channel = (uint16_t)i;
    return (int)i;
}

/* The next caller comes at once. */
int __wrap_unetmm_disconnect(struct unetmm_ep *ep, int channel);
int __wrap_unetmm_disconnect(struct unetmm_ep *ep, int channel)
{
    mtu[channel] = 0;
    disconnects++;
    callers += disconnects == 1;
    return 0;
}

int __wrap_unetmm_import(struct unetmm_ep *ep, int channel, uint64_t id, unsigned rights,
                         int64_t ns, uint64_t *length);
int __wrap_unetmm_import(struct unetmm_ep *ep, int channel, uint64_t id, unsigned rights,
                         int64_t ns, uint64_t *length)
{
    assert_int_equal(id, EXPORT);
    *length = BLOCK_UNIT;
    return 0;
}

int __wrap_unetmm_unimport(struct unetmm_ep *ep, int import);
int __wrap_unetmm_unimport(struct unetmm_ep *ep, int import)
{
    return 0;
}

static void arrive(uint8_t type, const struct block_request *request)
{
    struct unetmm_completion *c = &pending[npending++];

    *c = (struct unetmm_completion) { .type = type };
    if (request) {
        c->is_inline = 1;
        c->len = sizeof(*request);
        memcpy(c->data, request, sizeof(*request));
    }
}

/* The two sides take turns; the test fails if the server waits for more. */
int __wrap_unetmm_wait(struct unetmm_ep *ep, struct unetmm_completion *c, unsigned n,
                       int64_t ns);
int __wrap_unetmm_wait(struct unetmm_ep *ep, struct unetmm_completion *c, unsigned n,
                       int64_t ns)
{
    const struct block_request hello = {
        .op = block_le32(BLOCK_HELLO), .remote = block_le64(EXPORT),
    };

    if (!npending) {
        step++;
        if (step == 1) {
            callers = 1;
            arrive(UNETMM_CQE_RECEIVED, NULL);      /* no request at all */
            arrive(UNETMM_CQE_CLOSED, NULL);
        } else if (step == 2) {
            arrive(UNETMM_CQE_RECEIVED, &hello);
        } else {
            assert_int_equal(step, 3);
            assert_int_equal(replies, 1);
            arrive(UNETMM_CQE_CLOSED, NULL);
        }
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
    return -1;
}

void buffer_give(struct block_buffer *b, unsigned chunk)
{
}

uint8_t *buffer_at(const struct block_buffer *b, unsigned chunk)
{
    return NULL;
}

uint64_t buffer_resident(const struct block_buffer *b)
{
    return 0;
}

/*
 * A caller sends nonsense and closes; the next one has the number of its channel.  The end
 * of the first is not that of the second.
 */
static void end_of_the_caller_before(void **state)
{
    char name[] = "test-block-XXXXXX";
    struct block_options opt = { .file = name, .json = true, .service = 1 };
    int fd = mkstemp(name);

    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(block_serve(&opt), EXIT_SUCCESS);
    unlink(name);
    assert_int_equal(disconnects, 2);
    assert_int_equal(replies, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(end_of_the_caller_before),
    };

    return cmocka_run_group_tests_name("block", tests, NULL, NULL);
}
