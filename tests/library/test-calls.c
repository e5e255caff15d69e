/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The calls that go to the driver: their arguments, their handling of its
 * refusals, and that a failure leaves nothing behind.
 */
#include "../one_test.h"

#include <stdatomic.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fake_driver.h"
#include "fake_memory.h"

#include "queue/queue.h"
#include "wiped.h"

#define scene_test(fn) cmocka_unit_test_setup_teardown(fn, begin, stop)
#define ktlb_test(fn) cmocka_unit_test_setup_teardown(fn, begin_ktlb, stop)

static struct unetmm_ctx *ctx;
static struct unetmm_ep *ep;

static int begin_with(unsigned source)
{
    errno = 12345;
    assert_int_equal(unetmm_open("/fake/1", source, &ctx), 0);
    assert_int_equal(unetmm_ep_create(ctx, NULL, &ep), 0);
    return 0;
}

static int begin(void **state)
{
    (void)state;
    return begin_with(UNETMM_SOURCE_TLB);
}

static int begin_ktlb(void **state)
{
    (void)state;
    return begin_with(UNETMM_SOURCE_KTLB);
}

static int stop(void **state)
{
    (void)state;
    /* A handler may have done it. */
    if (ep) {
        assert_int_equal(unetmm_ep_destroy(ep), 0);
    }
    assert_int_equal(unetmm_close(ctx), 0);
    assert_int_equal(errno, 12345);
    assert_int_equal(fake_driver_leaks(), 0);
    return 0;
}

#define SECOND 1000000000ll

static const uint8_t own_mac[6] = { 0x52, 0x54, 0, 0, 0, 1 };
static const struct unetmm_channel_attr datagram_attr =
    UNETMM_CHANNEL_ATTR_DATAGRAM;

/* A channel of the endpoint to itself; both its numbers. */
static void loop_back(unsigned *from, unsigned *to)
{
    int ret;

    assert_int_equal(unetmm_listen_ex(ep, 5, 1, &datagram_attr), 0);
    ret = unetmm_connect_ex(ep, own_mac, 5, SECOND, &datagram_attr, NULL);
    assert_in_range(ret, 0, 15);
    *from = (unsigned)ret;
    ret = unetmm_accept(ep, NULL, SECOND);
    assert_in_range(ret, 0, 15);
    *to = (unsigned)ret;
}

TEST(failed_open_leaves_nothing, cmocka_unit_test)
{
    static const unsigned long requests[] = {
        UNETMM_IOC_INFO, UNETMM_IOC_SPACE
    };
    size_t i;

    errno = 12345;
    assert_int_equal(unetmm_open("/no/such/device", UNETMM_SOURCE_TLB, &ctx),
                     -ENOENT);
    assert_int_equal(unetmm_open("/fake/1", UNETMM_SOURCE_DIRECT, &ctx),
                     -EINVAL);
    for (i = 0; i < 2; i++) {
        fake_failures.request = requests[i];
        fake_failures.error = ENOSPC;
        assert_int_equal(unetmm_open("/fake/1", UNETMM_SOURCE_TLB, &ctx),
                         -ENOSPC);
        assert_int_equal(fake_driver_leaks(), 0);
    }
    assert_int_equal(errno, 12345);
}

static void long_queue(void *answer)
{
    ((struct unetmm_endpoint *)answer)->cq_log2++;
}

static void far_queue(void *answer)
{
    struct unetmm_endpoint *layout = answer;

    layout->fq_offset = (uint32_t)layout->queue_bytes;
}

static void odd_index(void *answer)
{
    ((struct unetmm_endpoint *)answer)->index_offset++;
}

static void no_doorbell(void *answer)
{
    ((struct unetmm_endpoint *)answer)->doorbell_bytes = 0;
}

TEST(failed_create_leaves_nothing, cmocka_unit_test)
{
    void (*const wrong[])(void *answer) = {
        long_queue, far_queue, odd_index, no_doorbell,
    };
    struct unetmm_ep_attr attr = UNETMM_EP_ATTR_INIT;
    struct unetmm_ep *other;
    unsigned i;

    assert_int_equal(unetmm_open("/fake/1", UNETMM_SOURCE_TLB, &ctx), 0);
    fake_failures.request = UNETMM_IOC_ENDPOINT;
    fake_failures.error = ENOMEM;
    assert_int_equal(unetmm_ep_create(ctx, &attr, &other), -ENOMEM);
    for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        fake_failures.change = wrong[i];
        assert_int_equal(unetmm_ep_create(ctx, &attr, &other), -EPROTO);
    }
    fake_failures.queue_map = true;
    assert_int_equal(unetmm_ep_create(ctx, &attr, &other), -ENOMEM);
    fake_failures.doorbell_map = true;
    assert_int_equal(unetmm_ep_create(ctx, &attr, &other), -ENOMEM);
    assert_int_equal(unetmm_close(ctx), 0);
    assert_int_equal(fake_driver_leaks(), 0);
}

static void no_handler(struct unetmm_ep *of, const struct unetmm_completion *c,
                       void *arg)
{
    (void)of;
    (void)c;
    (void)arg;
}

/* The first error; all that is made is ended. */
static int open_and_handle(void)
{
    int ret = unetmm_open("/fake/1", UNETMM_SOURCE_TLB, &ctx);

    if (ret) {
        return ret;
    }
    ret = unetmm_ep_create(ctx, NULL, &ep);
    if (!ret) {
        ret = unetmm_set_notify_handler(ep, 7, no_handler, NULL);
        ret = ret ? ret : unetmm_set_notify_handler(ep, 8, no_handler, NULL);
        assert_int_equal(unetmm_ep_destroy(ep), 0);
    }
    assert_int_equal(unetmm_close(ctx), 0);
    return ret;
}

/* Each allocation is refused in turn. */
TEST(without_memory_nothing_stays, cmocka_unit_test)
{
    unsigned i;
    int ret;

    for (i = 1; memory_ends = i, ret = open_and_handle(), !memory_ends; i++) {
        assert_in_range(i, 1, 20);
        assert_int_equal(ret, -ENOMEM);
        assert_int_equal(fake_driver_leaks(), 0);
    }
    memory_ends = 0;
    assert_int_equal(ret, 0);
    /* A context, three tables of an endpoint, and those of its handlers */
    assert_int_equal(i, 1 + 3 + 2 + 1);
}

TEST(attributes_are_checked, scene_test)
{
    static const struct unetmm_ep_attr good = UNETMM_EP_ATTR_INIT;
    struct unetmm_ep_attr attrs[8];
    struct unetmm_ep *other;
    int i;

    for (i = 0; i < 8; i++) {
        attrs[i] = good;
    }
    attrs[0].size = 4;
    attrs[1].send_slots = 4;
    attrs[2].send_slots = 100;
    attrs[3].free_depth = 0;
    attrs[4].completion_depth = 1u << 31;
    attrs[5].inline_max = 225;
    attrs[6].policy = 77;
    attrs[7].free_depth = 1;
    for (i = 0; i < 8; i++) {
        assert_int_equal(unetmm_ep_create(ctx, &attrs[i], &other),
                         i == 6 ? -ENOSPC : -EINVAL);
    }
}

/* These have the card look at a buffer when a message comes for it. */
TEST(buffers_are_looked_at_when_used, cmocka_unit_test)
{
    static const struct {
        uint32_t policy, flags;
        bool slots;
    } kinds[] = {
        { UNETMM_POLICY_SKIP, 0, false },
        { UNETMM_POLICY_BACKUP, 0, true },
        { UNETMM_POLICY_DROP, UNETMM_EP_RAW, true },
    };
    size_t i;

    assert_int_equal(unetmm_open("/fake/1", UNETMM_SOURCE_TLB, &ctx), 0);
    for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct unetmm_ep_attr attr = UNETMM_EP_ATTR_INIT;
        struct unetmm_ep *other;

        attr.policy = kinds[i].policy;
        attr.flags = kinds[i].flags;
        assert_int_equal(unetmm_ep_create(ctx, &attr, &other), 0);
        assert_int_equal(other->slots, kinds[i].slots);
        assert_int_equal(unetmm_ep_destroy(other), 0);
    }
    assert_int_equal(unetmm_close(ctx), 0);
    assert_int_equal(fake_driver_leaks(), 0);
}

TEST(context_outlives_its_endpoints, scene_test)
{
    assert_int_equal(unetmm_close(ctx), -EBUSY);
    assert_int_equal(unetmm_ep_id(ep), 1);
    assert_int_equal(unetmm_ctx_fd(ctx), FAKE_FD);
}

TEST(observer_has_no_endpoints, cmocka_unit_test)
{
    struct unetmm_info info;
    struct unetmm_ep *other;
    uint64_t values[4];

    fake_failures.request = UNETMM_IOC_SPACE;
    fake_failures.error = ENOSPC;
    assert_int_equal(unetmm_open("/fake/7", UNETMM_OBSERVE, &ctx), 0);
    fake_failures.error = 0;
    assert_int_equal(unetmm_ep_create(ctx, NULL, &other), -EINVAL);
    /* The caller has to set nothing but the size. */
    memset(&info, 0xa5, sizeof(info));
    info.size = sizeof(info);
    assert_int_equal(unetmm_info(ctx, &info), 0);
    assert_int_equal(info.mac[5], 7);
    info.size = 0;
    assert_int_equal(unetmm_info(ctx, &info), -EINVAL);
    assert_int_equal(unetmm_stats_read(ctx, UNETMM_SCOPE_CARD, 0, values, 4),
                     UNETMM_NUM_COUNTERS);
    assert_int_equal(unetmm_stats_read(ctx, UNETMM_SCOPE_ENDPOINT, 9, values,
                                       4), -ENOENT);
    assert_int_equal(unetmm_close(ctx), 0);
}

TEST(refusals_come_through, scene_test)
{
    const uint8_t nobody[6] = { 0x52, 0x54, 0, 0, 0, 99 };
    uint32_t mtu = 7;

    assert_int_equal(unetmm_probe(ctx, nobody, 1000000, &mtu), -EHOSTUNREACH);
    assert_int_equal(mtu, 7);
    assert_int_equal(unetmm_connect_ex(ep, nobody, 1, 1000000, &datagram_attr, NULL),
                     -ETIMEDOUT);
    assert_int_equal(unetmm_accept(ep, NULL, 0), -ETIMEDOUT);
    assert_int_equal(unetmm_accept(ep, NULL, 1000000), -ETIMEDOUT);
    assert_int_equal(unetmm_disconnect(ep, 3), -ENOENT);
    assert_int_equal(unetmm_disconnect(ep, 1u << 20), -ENOENT);
    assert_int_equal(unetmm_register(ctx, &mtu, 4, 0), -EOPNOTSUPP);
    assert_int_equal(unetmm_deregister(ctx, &mtu, 4), -EOPNOTSUPP);
    assert_int_equal(unetmm_prefetch(ctx, &mtu, 4, 0), -EOPNOTSUPP);
}

/* The driver does a part of it in each call, until there is no more. */
TEST(prefetch_goes_on, cmocka_unit_test)
{
    assert_int_equal(unetmm_open("/fake/1", UNETMM_SOURCE_ODP, &ctx), 0);
    assert_int_equal(unetmm_prefetch(ctx, (void *)FAKE_MAPPED, 10, 0), 10);
    assert_int_equal(unetmm_prefetch(ctx, (void *)(FAKE_MAPPED + 7),
                                     3 * FAKE_AT_ONCE, 0), 3 * FAKE_AT_ONCE);
    /* The rest is not mapped; then nothing is. */
    assert_int_equal(unetmm_prefetch(ctx, (void *)(FAKE_MAPPED_LAST - 99),
                                     5 * FAKE_AT_ONCE, 0), 100);
    assert_int_equal(unetmm_prefetch(ctx, (void *)(FAKE_MAPPED_LAST + 1), 1,
                                     0), -EFAULT);
    assert_int_equal(unetmm_prefetch(ctx, (void *)FAKE_MAPPED, 0, 0), -EINVAL);
    /* A driver that goes no further is not asked for ever. */
    fake_failures.nothing = true;
    assert_int_equal(unetmm_prefetch(ctx, (void *)FAKE_MAPPED, 10, 0), -EPROTO);
    fake_failures.nothing = false;
    fake_failures.request = UNETMM_IOC_PREFETCH;
    fake_failures.error = EINTR;
    assert_int_equal(unetmm_prefetch(ctx, (void *)FAKE_MAPPED, 10, 0), -EINTR);
    assert_int_equal(unetmm_close(ctx), 0);
}

/* The card talks to itself: connect and accept in one thread. */
/* All of it is said, and the same as of the channel later. */
static void check_peer(const struct unetmm_peer *peer, int channel)
{
    struct unetmm_channel_info info = { .size = sizeof(info) };

    assert_int_equal(unetmm_channel_info(ep, (unsigned)channel, &info), 0);
    assert_int_equal(peer->channel, channel);
    assert_int_equal(peer->endpoint, info.endpoint);
    assert_int_not_equal(peer->endpoint, UINT32_MAX);
    assert_memory_equal(peer->mac, info.mac, sizeof(peer->mac));
    assert_int_equal(peer->type, info.type);
    assert_int_equal(peer->mtu, unetmm_channel_mtu(ep, (unsigned)channel));
}

/* Only announced listeners are found, as far as there is room for them. */
TEST(peers_are_found, scene_test)
{
    struct unetmm_channel_attr attr = UNETMM_CHANNEL_ATTR_DATAGRAM;
    struct unetmm_listener found[4];
    struct unetmm_peers ask = {
        .size = sizeof(ask), .listeners = (uintptr_t)found, .count = 4,
    };

    assert_int_equal(unetmm_listen_ex(ep, 5, 1, &attr), 0);
    assert_int_equal(unetmm_peers(ctx, &ask, 1000), 1);
    assert_int_equal(found[0].service, 7);
    attr.flags |= UNETMM_ANNOUNCE;
    assert_int_equal(unetmm_listen_ex(ep, 5, 1, &attr), 0);
    ask.count = 4;
    assert_int_equal(unetmm_peers(ctx, &ask, 1000), 2);
    assert_int_equal(found[1].service, 5);
    assert_int_equal(found[1].endpoint, unetmm_ep_id(ep));
    ask.count = 1;
    assert_int_equal(unetmm_peers(ctx, &ask, 1000), 1);
    ask.service = 5;
    assert_int_equal(unetmm_peers(ctx, &ask, 1000), 1);
    assert_int_equal(found[0].service, 5);
    memcpy(ask.mac, (uint8_t[6]){ 1, 0, 0, 0, 0, 1 }, 6);
    assert_int_equal(unetmm_peers(ctx, &ask, 1000), -EINVAL);
    /* Of those who connect nothing is announced. */
    assert_int_equal(unetmm_connect_ex(ep, found[0].mac, 5, 0, &attr, NULL),
                     -EINVAL);
}

ALSO(message_goes_round, ktlb_test)
TEST(message_goes_round, scene_test)
{
    const uint8_t self[6] = { 0x52, 0x54, 0, 0, 0, 1 };
    struct unetmm_completion c = { 0 };
    struct unetmm_peer peer;
    char text[300] = "straight from memory", buffer[512];
    uint32_t mtu = 7;
    int from, to;

    assert_int_equal(unetmm_listen_ex(ep, 5, 1, &datagram_attr), 0);
    assert_int_equal(unetmm_probe(ctx, self, 1000000000, NULL), 0);
    assert_int_equal(unetmm_probe(ctx, self, 1000000000, &mtu), 0);
    assert_int_equal(mtu, 9000);
    memset(&peer, 0xff, sizeof(peer));
    from = unetmm_connect_ex(ep, self, 5, 1000000000, &datagram_attr, &peer);
    assert_in_range(from, 0, 15);
    check_peer(&peer, from);
    assert_int_equal(peer.mtu, 9000);
    memset(&peer, 0xff, sizeof(peer));
    to = unetmm_accept(ep, &peer, 1000000000);
    assert_in_range(to, 0, 15);
    check_peer(&peer, to);
    assert_memory_equal(peer.mac, self, 6);
    assert_int_equal(unetmm_channel_mtu(ep, (unsigned)to), 9000);
    assert_int_equal(unetmm_post_recv(ep, buffer, sizeof(buffer), 77, 0), 0);
    assert_int_equal(unetmm_send(ep, (unsigned)from, text, sizeof(text), 0,
                                 UNETMM_UNSIGNALED), 0);
    assert_int_equal(unetmm_wait(ep, &c, 1, 1000000000), 1);
    assert_int_equal(c.type, UNETMM_CQE_RECEIVED);
    assert_int_equal(c.user_data, 77);
    assert_int_equal(c.channel, to);
    assert_memory_equal(buffer, text, sizeof(text));
    assert_int_equal(unetmm_disconnect(ep, (unsigned)from), 0);
    assert_int_equal(unetmm_send(ep, (unsigned)from, text, 8, 0, 0),
                     -ENOENT);
}

/* Closes when the peer has all; other completions stay to be taken. */
TEST(shutdown_waits_for_the_peer, scene_test)
{
    struct unetmm_completion c;
    unsigned from, to;
    int channel;

    loop_back(&from, &to);
    assert_int_equal(unetmm_shutdown(ep, from, SECOND), -EPROTOTYPE);
    assert_int_equal(unetmm_shutdown(ep, 15, SECOND), -ENOENT);
    assert_int_equal(unetmm_listen(ep, 6, 1), 0);
    channel = unetmm_connect(ep, own_mac, 6, SECOND, NULL);
    assert_in_range(channel, 0, 15);
    assert_int_equal(unetmm_send(ep, from, "datagram", 8, 1, 0), 0);
    /* The fence is the last of both; the message's completion is kept. */
    assert_int_equal(unetmm_shutdown(ep, (unsigned)channel, 10 * SECOND), 0);
    assert_int_equal(unetmm_shutdown(ep, (unsigned)channel, SECOND), -ENOENT);
    assert_int_equal(unetmm_wait(ep, &c, 1, 10 * SECOND), 1);
    assert_int_equal(c.type, UNETMM_CQE_SENT);
    assert_int_equal(c.user_data, 1);
}

/* A channel has the type that both sides wanted. */
TEST(types_have_to_agree, scene_test)
{
    const uint8_t self[6] = { 0x52, 0x54, 0, 0, 0, 1 };
    struct unetmm_channel_attr attr = UNETMM_CHANNEL_ATTR_INIT;
    struct unetmm_channel_info info = { .size = sizeof(info) };
    struct unetmm_peer peer;
    int from, to;

    assert_int_equal(unetmm_listen_ex(ep, 5, 1, &datagram_attr), 0);
    assert_int_equal(unetmm_connect_ex(ep, self, 5, SECOND, NULL, NULL),
                     -EPROTOTYPE);
    assert_int_equal(unetmm_listen_ex(ep, 5, 1, NULL), 0);
    assert_int_equal(unetmm_connect_ex(ep, self, 5, SECOND, &datagram_attr, NULL), -EPROTOTYPE);
    /* The first one found is reliable. */
    assert_int_equal(unetmm_listen(ep, 5, 1), 0);
    from = unetmm_connect(ep, self, 5, SECOND, &peer);
    assert_in_range(from, 0, 15);
    assert_int_equal(peer.type, UNETMM_RELIABLE);
    assert_int_equal(peer.mtu, FAKE_MESSAGE);
    to = unetmm_accept(ep, &peer, SECOND);
    assert_in_range(to, 0, 15);
    assert_int_equal(peer.type, UNETMM_RELIABLE);
    assert_int_equal(unetmm_channel_info(ep, (unsigned)to, &info), 0);
    assert_int_equal(info.type, UNETMM_RELIABLE);
    assert_int_equal(info.longest, FAKE_MESSAGE);
    assert_int_equal(info.frame, 9000);
    assert_int_equal(info.endpoint, 1);
    assert_memory_equal(info.mac, self, 6);
    /* Both are taken if the attributes say so. */
    attr.flags = UNETMM_DATAGRAM | UNETMM_RELIABLE;
    assert_int_equal(unetmm_connect_ex(ep, self, 5, SECOND, &attr, NULL),
                     -EINVAL);
    assert_int_equal(unetmm_listen_ex(ep, 5, 2, &attr), 0);
    attr.flags = UNETMM_DATAGRAM;
    from = unetmm_connect_ex(ep, self, 5, SECOND, &attr, &peer);
    assert_in_range(from, 0, 15);
    assert_int_equal(peer.type, UNETMM_DATAGRAM);
    assert_int_equal(unetmm_channel_info(ep, (unsigned)from, &info), 0);
    assert_int_equal(info.type, UNETMM_DATAGRAM);
    assert_int_equal(info.longest, 9000);
    assert_int_equal(unetmm_disconnect(ep, (unsigned)from), 0);
    assert_int_equal(unetmm_channel_info(ep, (unsigned)from, &info), -ENOENT);
    assert_int_equal(unetmm_channel_info(ep, 16, &info), -ENOENT);
    assert_int_equal(unetmm_channel_info(ep, 1u << 20, &info), -ENOENT);
    info.size = 15;
    assert_int_equal(unetmm_channel_info(ep, (unsigned)to, &info), -EINVAL);
}

/* A structure of another version: `size` bytes of it are the program's. */
union sized {
    uint32_t size;
    struct unetmm_ep_attr ep;
    struct unetmm_channel_attr channel;
    struct unetmm_channel_info info;
    uint8_t bytes[256];
};

static int create_and_destroy(const struct unetmm_ep_attr *attr)
{
    struct unetmm_ep *other;
    int ret = unetmm_ep_create(ctx, attr, &other);

    return ret ? ret : unetmm_ep_destroy(other);
}

/* Programs of older and of newer libraries: shorter and longer structures. */
TEST(sizes_may_differ, scene_test)
{
    const struct unetmm_ep_attr ep_attr = UNETMM_EP_ATTR_INIT;
    const struct unetmm_channel_attr attr = UNETMM_CHANNEL_ATTR_INIT;
    union sized u = { .ep = ep_attr };
    uint32_t i;

    /* The fake driver has one endpoint. */
    assert_int_equal(unetmm_ep_destroy(ep), 0);
    for (i = 0; i < sizeof(u); i++) {
        u.size = i;
        assert_int_equal(create_and_destroy(&u.ep), i < 32 ? -EINVAL : 0);
    }
    /* A longer one must not ask for features that this library does not know. */
    u.bytes[sizeof(ep_attr)] = 1;
    assert_int_equal(create_and_destroy(&u.ep), -E2BIG);
    u.size = sizeof(ep_attr);
    assert_int_equal(create_and_destroy(&u.ep), 0);
    assert_int_equal(unetmm_ep_create(ctx, NULL, &ep), 0);
    u.channel = attr;
    for (i = 0; i < sizeof(u); i++) {
        u.size = i;
        memset(u.bytes + sizeof(attr), 0, sizeof(u) - sizeof(attr));
        assert_int_equal(unetmm_listen_ex(ep, 5, 1, &u.channel),
                         i < 8 ? -EINVAL : 0);
    }
    u.bytes[sizeof(u) - 1] = 1;
    assert_int_equal(unetmm_listen_ex(ep, 5, 1, &u.channel), 0);
    u.size = sizeof(u);
    assert_int_equal(unetmm_listen_ex(ep, 5, 1, &u.channel), -E2BIG);
}

TEST(sizes_of_answers_may_differ, scene_test)
{
    struct unetmm_channel_info whole = { .size = sizeof(whole) };
    union sized u;
    unsigned from, to;
    uint32_t i, j;

    loop_back(&from, &to);
    assert_int_equal(unetmm_channel_info(ep, from, &whole), 0);
    for (i = 4; i < sizeof(u); i++) {
        memset(&u, 0xee, sizeof(u));
        u.size = i;
        assert_int_equal(unetmm_channel_info(ep, from, &u.info),
                         i < 16 ? -EINVAL : 0);
        assert_int_equal(u.size, i);
        for (j = 4; j < sizeof(u); j++) {
            assert_int_equal(u.bytes[j], i < 16 || j >= i ? 0xee :
                             j < sizeof(whole) ? ((uint8_t *)&whole)[j] : 0);
        }
    }
}

TEST(wrong_attributes_are_refused, scene_test)
{
    const uint8_t self[6] = { 0x52, 0x54, 0, 0, 0, 1 };
    static const struct unetmm_channel_attr wrong[] = {
        { 3, UNETMM_RELIABLE, 0, 0, 0, 0 },
        { sizeof(wrong[0]), 0, 0, 0, 0, 0 },
        { sizeof(wrong[0]), 32 | UNETMM_RELIABLE, 0, 0, 0, 0 },
        { sizeof(wrong[0]), UNETMM_NOTIFY_CLOSE, 0, 0, 0, 0 },
        { sizeof(wrong[0]), UNETMM_RELIABLE, 1000001, 0, 0, 0 },
        { sizeof(wrong[0]), UNETMM_RELIABLE, 0, 256, 0, 0 },
        { sizeof(wrong[0]), UNETMM_RELIABLE, 0, 0, 256, 0 },
        { sizeof(wrong[0]), UNETMM_RELIABLE, 0, 0, 0, 1000001 },
        { sizeof(wrong[0]), UNETMM_DATAGRAM, 0, 0, 0, 1 },
        { sizeof(wrong[0]), UNETMM_DATAGRAM | UNETMM_GO_BACK_N, 0, 0, 0, 0 },
        { sizeof(wrong[0]), UNETMM_DATAGRAM, 1, 0, 0, 0 },
    };
    size_t i;

    for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(unetmm_listen_ex(ep, 5, 1, &wrong[i]), -EINVAL);
        assert_int_equal(unetmm_connect_ex(ep, self, 5, SECOND, &wrong[i],
                                           NULL), -EINVAL);
    }
}

TEST(exports_and_imports, scene_test)
{
    const uint8_t self[6] = { 0x52, 0x54, 0, 0, 0, 1 };
    static uint8_t memory[4096];
    uint64_t length = 0;
    int channel, i;

    assert_int_equal(unetmm_export(ctx, 7, memory, 0, 7, 0, 0), -EINVAL);
    assert_int_equal(unetmm_export(ctx, 7, memory, sizeof(memory),
                                   UNETMM_RIGHT_READ, 0, 0), 0);
    assert_int_equal(unetmm_export(ctx, 7, memory, sizeof(memory), 7, 0, 0),
                     -EEXIST);
    assert_int_equal(unetmm_listen_ex(ep, 5, 1, NULL), 0);
    channel = unetmm_connect_ex(ep, self, 5, SECOND, NULL, NULL);
    assert_in_range(channel, 0, 15);
    assert_int_equal(unetmm_import(ep, 15, 7, 0, 0, NULL), -ENOENT);
    assert_int_equal(unetmm_import(ep, (unsigned)channel, 8, 0, 0, NULL),
                     -ETIMEDOUT);
    assert_int_equal(unetmm_import(ep, (unsigned)channel, 8, 0, 1, NULL),
                     -ETIMEDOUT);
    assert_int_equal(unetmm_import(ep, (unsigned)channel, 7,
                                   UNETMM_RIGHT_WRITE, 0, NULL), -EACCES);
    for (i = 0; i < 8; i++) {
        assert_int_equal(unetmm_import(ep, (unsigned)channel, 7, 0, 0,
                                       &length), i);
        assert_int_equal(length, sizeof(memory));
    }
    assert_int_equal(unetmm_import(ep, (unsigned)channel, 7, 0, 0, NULL),
                     -ENOSPC);
    assert_int_equal(unetmm_write(ep, 3, 0, memory, 1, 0, 0, 0), -EACCES);
    assert_int_equal(unetmm_read(ep, 3, 4096, memory, 1, 0, 0), -ERANGE);
    assert_int_equal(unetmm_unimport(ep, 3), 0);
    assert_int_equal(unetmm_unimport(ep, 3), -ENOENT);
    assert_int_equal(unetmm_unimport(ep, 8), -ENOENT);
    assert_int_equal(unetmm_read(ep, 3, 0, memory, 1, 0, 0), -ENOENT);
    assert_int_equal(unetmm_import(ep, (unsigned)channel, 7, 0, 0, NULL), 3);
    assert_int_equal(unetmm_unexport(ctx, 7), 0);
    assert_int_equal(unetmm_unexport(ctx, 7), -ENOENT);
}

static void no_message(void *answer)
{
    ((struct unetmm_connect *)answer)->max_message = 0;
}

static void no_length(void *answer)
{
    ((struct unetmm_import *)answer)->length = 0;
}

/* An answer of the driver that makes no sense: its object is ended. */
TEST(wrong_answers_leave_nothing, scene_test)
{
    static uint8_t memory[4096];
    int channel;

    assert_int_equal(unetmm_export(ctx, 7, memory, sizeof(memory), UNETMM_RIGHT_READ, 0, 0), 0);
    assert_int_equal(unetmm_listen_ex(ep, 5, 1, NULL), 0);
    channel = unetmm_connect_ex(ep, own_mac, 5, SECOND, NULL, NULL);
    assert_in_range(channel, 0, 15);
    fake_failures.request = UNETMM_IOC_IMPORT;
    fake_failures.change = no_length;
    assert_int_equal(unetmm_import(ep, channel, 7, 0, 0, NULL), -EPROTO);
    assert_int_equal(fake_destroyed.type, UNETMM_OBJECT_IMPORT);
    assert_int_equal(fake_destroyed.endpoint, unetmm_ep_id(ep));
    assert_int_equal(unetmm_import(ep, channel, 7, 0, 0, NULL), fake_destroyed.id);
    fake_failures.request = UNETMM_IOC_CONNECT;
    fake_failures.change = no_message;
    assert_int_equal(unetmm_connect_ex(ep, own_mac, 5, SECOND, NULL, NULL), -EPROTO);
    assert_int_equal(fake_destroyed.type, UNETMM_OBJECT_CHANNEL);
    assert_int_equal(fake_destroyed.endpoint, unetmm_ep_id(ep));
    assert_int_equal(unetmm_connect_ex(ep, own_mac, 5, SECOND, NULL, NULL), fake_destroyed.id);
    assert_int_equal(unetmm_unexport(ctx, 7), 0);
}

/* The key of an export by key alone; nothing is stored for another one. */
TEST(keys, scene_test)
{
    static uint8_t memory[4096];
    uint64_t key = 5, base = 6;

    assert_int_equal(unetmm_export(ctx, 8, memory, sizeof(memory),
                                   UNETMM_RIGHT_READ, 0, 0), 0);
    assert_int_equal(unetmm_export(ctx, 9, memory, sizeof(memory),
                                   UNETMM_RIGHT_ALL, UNETMM_EXPORT_KEYED, 0),
                     0);
    assert_int_equal(unetmm_export_key(ctx, 8, &key, &base), -ENOENT);
    assert_int_equal(key, 5);
    assert_int_equal(base, 6);
    assert_int_equal(unetmm_export_key(ctx, 9, &key, &base), 0);
    assert_int_equal(key, FAKE_KEY + 9);
    assert_int_equal(base, (uintptr_t)memory);
    assert_int_equal(unetmm_unexport(ctx, 8), 0);
    assert_int_equal(unetmm_unexport(ctx, 9), 0);
}

/* The bytes that the driver lists are copied, and no others; and it is told so. */
TEST(redirects, scene_test)
{
    struct unetmm_redirected what = { 9, 9 };
    char own[8] = "0123456", to[8] = "abcdefg";

    assert_int_equal(unetmm_export(ctx, 1, own, 8, UNETMM_RIGHT_ALL, 0, 0),
                     0);
    assert_int_equal(unetmm_redirect(ctx, 1, 0, to, 4, NULL), -EOPNOTSUPP);
    assert_int_equal(unetmm_unexport(ctx, 1), 0);
    assert_int_equal(unetmm_redirect(ctx, 1, 0, to, 4, NULL), -ENOENT);
    assert_int_equal(unetmm_export(ctx, 1, own, 8, UNETMM_RIGHT_ALL,
                                   UNETMM_EXPORT_REDIRECT, 0), 0);
    assert_int_equal(unetmm_redirect_end(ctx, 1, 2), -ENOENT);
    assert_int_equal(unetmm_redirect_back(ctx, 1, 2, 0, NULL), -ENOENT);
    assert_int_equal(unetmm_redirect(ctx, 1, 2, to, 4, &what), 0);
    assert_false(fake_held());
    assert_int_equal(what.copied, 3);
    assert_int_equal(what.pieces, 1);
    assert_string_equal(to, "a345efg");
    to[1] = 'x';
    assert_int_equal(unetmm_redirect_back(ctx, 1, 2, 0, &what), 0);
    assert_int_equal(what.copied, 3);
    assert_string_equal(own, "012x456");
    assert_int_equal(unetmm_redirect_end(ctx, 1, 2), -ENOENT);
    /* Nothing had landed: nothing is copied, and there is nothing to go on. */
    assert_int_equal(unetmm_redirect(ctx, 1, 2, to + 7, 1, &what), 0);
    assert_int_equal(what.copied, 0);
    assert_int_equal(what.pieces, 0);
    assert_int_equal(unetmm_redirect_end(ctx, 1, 2), 0);
    assert_int_equal(unetmm_unexport(ctx, 1), 0);
}

static void early_span(void *answer)
{
    ((struct unetmm_redirect *)answer)->spans[0].offset--;
    ((struct unetmm_redirect *)answer)->spans[0].offset--;
}

static void long_span(void *answer)
{
    ((struct unetmm_redirect *)answer)->spans[0].length++;
}

static void many_spans(void *answer)
{
    ((struct unetmm_redirect *)answer)->count = UNETMM_REDIRECT_SPANS + 1;
}

static void other_part(void *answer)
{
    ((struct unetmm_redirect *)answer)->offset++;
}

static void other_place(void *answer)
{
    ((struct unetmm_redirect *)answer)->to++;
}

static void last_place(void *answer)
{
    ((struct unetmm_redirect *)answer)->from = UINT64_MAX - 2;
}

/* A part whose move fails has not moved, and holds nobody up. */
TEST(failed_redirects, scene_test)
{
    void (*const wrong[])(void *answer) = {
        early_span, long_span, many_spans, other_part, other_place, last_place,
    };
    char own[8] = "0123456", to[8] = "abcdefg";
    unsigned i;

    assert_int_equal(unetmm_export(ctx, 1, own, 8, UNETMM_RIGHT_ALL,
                                   UNETMM_EXPORT_REDIRECT, 0), 0);
    fake_failures.request = UNETMM_IOC_REDIRECT_GO;
    fake_failures.error = EIO;
    assert_int_equal(unetmm_redirect(ctx, 1, 2, to, 4, NULL), -EIO);
    assert_false(fake_held());
    assert_int_equal(unetmm_redirect_end(ctx, 1, 2), -ENOENT);
    strcpy(to, "abcdefg");
    fake_failures.request = UNETMM_IOC_REDIRECT;
    for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        fake_failures.change = wrong[i];
        assert_int_equal(unetmm_redirect(ctx, 1, 2, to, 4, NULL), -EPROTO);
        assert_string_equal(to, "abcdefg");
        assert_false(fake_held());
        assert_int_equal(unetmm_redirect_end(ctx, 1, 2), -ENOENT);
    }
    assert_int_equal(unetmm_redirect(ctx, 1, 2, to, 4, NULL), 0);
    fake_failures.change = early_span;
    assert_int_equal(unetmm_redirect_back(ctx, 1, 2, 0, NULL), -EPROTO);
    assert_string_equal(own, "0123456");
    assert_false(fake_held());
    fake_failures.change = last_place;
    assert_int_equal(unetmm_redirect_back(ctx, 1, 2, 0, NULL), -EPROTO);
    assert_false(fake_held());
    /* One whose end fails stays moved, and its peers do not wait. */
    fake_failures.request = UNETMM_IOC_REDIRECT_GO;
    fake_failures.error = EIO;
    assert_int_equal(unetmm_redirect_back(ctx, 1, 2, 0, NULL), -EIO);
    assert_false(fake_held());
    assert_int_equal(unetmm_redirect_back(ctx, 1, 2, 0, NULL), 0);
    assert_int_equal(unetmm_unexport(ctx, 1), 0);
}

TEST(child_lets_go, scene_test)
{
    struct unetmm_info info = { .size = sizeof(info) };
    struct unetmm_peers peers = { .size = sizeof(peers) };
    int status;
    pid_t pid;

    if (!wipes_on_fork()) {
        return;
    }
    pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        _exit(unetmm_info(ctx, &info) != -EOWNERDEAD ||
              unetmm_ctx_fd(ctx) != -EOWNERDEAD ||
              unetmm_ep_create(ctx, NULL, &ep) != -EOWNERDEAD ||
              unetmm_stats_read(ctx, 0, 0, NULL, 0) != -EOWNERDEAD ||
              unetmm_register(ctx, &info, 1, 0) != -EOWNERDEAD ||
              unetmm_deregister(ctx, &info, 1) != -EOWNERDEAD ||
              unetmm_prefetch(ctx, &info, 1, 0) != -EOWNERDEAD ||
              unetmm_export(ctx, 1, &info, 1, 1, 0, 0) != -EOWNERDEAD ||
              unetmm_unexport(ctx, 1) != -EOWNERDEAD ||
              unetmm_redirect(ctx, 1, 0, &info, 1, NULL) != -EOWNERDEAD ||
              unetmm_redirect_end(ctx, 1, 0) != -EOWNERDEAD ||
              unetmm_redirect_back(ctx, 1, 0, 0, NULL) != -EOWNERDEAD ||
              unetmm_peers(ctx, &peers, 0) != -EOWNERDEAD ||
              unetmm_probe(ctx, info.mac, 0, NULL) != -EOWNERDEAD);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* ---- Source ktlb: a call in the doorbell's place ---------------------------- */

static void send_one(unsigned channel, unsigned flags)
{
    assert_int_equal(unetmm_send(ep, channel, "ktlb", 5, 0,
                                 flags | UNETMM_UNSIGNALED), 0);
}

/* Receives `n` messages in the end. */
static void receive(unsigned n)
{
    struct unetmm_completion c = { 0 };

    for (; n; n--) {
        assert_int_equal(unetmm_wait(ep, &c, 1, 10 * SECOND), 1);
        assert_int_equal(c.type, UNETMM_CQE_RECEIVED);
        assert_memory_equal(c.data, "ktlb", 5);
    }
    assert_int_equal(unetmm_poll(ep, &c, 1), 0);
}

TEST(posts_once_for_what_is_queued, ktlb_test)
{
    char buffers[2][512];
    uint64_t posts;
    unsigned from, to;

    loop_back(&from, &to);
    posts = fake_driver_posts();
    assert_int_equal(unetmm_post_recv(ep, buffers[0], 512, 0, UNETMM_MORE), 0);
    assert_int_equal(unetmm_post_recv(ep, buffers[1], 512, 0, UNETMM_MORE), 0);
    send_one(from, UNETMM_MORE);
    assert_int_equal(fake_driver_posts(), posts);
    send_one(from, 0);
    assert_int_equal(fake_driver_posts(), posts + 1);
    receive(2);
    assert_int_equal(unetmm_ring(ep), 0);
    assert_int_equal(fake_driver_posts(), posts + 2);
}

/* Entries that a refused call has left in the queues go with the next. */
TEST(refused_post_is_made_good, ktlb_test)
{
    static const int errors[] = { EINVAL, EIO, ENODEV, EINTR };
    unsigned from, to, i;
    uint64_t sent;

    loop_back(&from, &to);
    for (i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        sent = fake_driver_sent();
        fake_failures.request = UNETMM_IOC_POST;
        fake_failures.error = errors[i];
        send_one(from, 0);
        assert_int_equal(fake_failures.error, 0);
        assert_int_equal(fake_driver_sent(), sent);
        /* The call that is made for it says so. */
        fake_failures.error = errors[i];
        assert_int_equal(unetmm_ring(ep), -errors[i]);
        assert_int_equal(unetmm_send_pending(ep), 1);
        switch (i) {
        case 0:
            assert_int_equal(unetmm_ring(ep), 0);
            break;
        case 1:
            send_one(from, 0);
            break;
        }
        receive(i == 1 ? 2 : 1);
    }
}

TEST(full_queue_is_posted, ktlb_test)
{
    struct unetmm_completion c = { 0 };
    unsigned from, to, n = 0, got = 0;
    int ret;

    loop_back(&from, &to);
    while ((ret = unetmm_send(ep, from, "ktlb", 5, 0, UNETMM_MORE |
                              UNETMM_UNSIGNALED)) == 0) {
        n++;
    }
    assert_int_equal(ret, -EAGAIN);
    assert_int_equal(n, 256);
    while (got < n && (ret = unetmm_wait(ep, &c, 1, 10 * SECOND)) == 1) {
        got++;
    }
    assert_int_equal(got, n);
    send_one(from, 0);
    receive(1);
}

TEST(only_ktlb_posts, scene_test)
{
    uint64_t posts = fake_driver_posts();
    unsigned from, to;

    loop_back(&from, &to);
    send_one(from, 0);
    receive(1);
    assert_int_equal(fake_driver_posts(), posts);
    assert_int_equal(unetmm_trap(ep), -EOPNOTSUPP);
}

/* ---- Handlers -------------------------------------------------------------- */

static struct {
    atomic_uint calls;
    atomic_int result;
} handled;

static void count(struct unetmm_ep *other, const struct unetmm_completion *c,
                  void *arg)
{
    (void)other;
    (void)c;
    (void)arg;
    atomic_fetch_add(&handled.calls, 1);
}

static void destroy(struct unetmm_ep *mine, const struct unetmm_completion *c,
                    void *arg)
{
    struct unetmm_completion next;
    int ret = unetmm_ep_destroy(mine);

    (void)c;
    (void)arg;
    /* Until we return, it can be told from one that is alive. */
    if (unetmm_poll(mine, &next, 1) != -EOWNERDEAD ||
        unetmm_handlers_unblock(mine) != -EOWNERDEAD ||
        unetmm_ep_destroy(mine) != -EOWNERDEAD) {
        ret = -EINVAL;
    }
    atomic_fetch_add(&handled.calls, 1);
    atomic_store(&handled.result, ret);
}

TEST(disconnect_takes_the_handler, scene_test)
{
    unsigned from, to;
    int again;

    atomic_store(&handled.calls, 0);
    loop_back(&from, &to);
    assert_int_equal(unetmm_set_handler(ep, UNETMM_EVERY_CHANNEL, count, NULL),
                     0);
    assert_int_equal(unetmm_set_handler(ep, to, destroy, NULL), 0);
    assert_int_equal(unetmm_disconnect(ep, to), 0);
    /* The card may have joined one channel to itself. */
    assert_int_equal(unetmm_disconnect(ep, from), from == to ? -ENOENT : 0);
    again = unetmm_connect_ex(ep, own_mac, 5, SECOND, &datagram_attr, NULL);
    assert_in_range(again, 0, 15);
    assert_int_equal(unetmm_accept(ep, NULL, SECOND), to);
    send_one((unsigned)again, 0);
    assert_int_equal(unetmm_dispatch(ep, 1, 10 * SECOND), 1);
    assert_int_equal(atomic_load(&handled.calls), 1);
}

TEST(handler_destroys_its_endpoint, scene_test)
{
    unsigned from, to;

    atomic_store(&handled.calls, 0);
    loop_back(&from, &to);
    assert_int_equal(unetmm_set_handler(ep, to, destroy, NULL), 0);
    assert_int_equal(unetmm_set_handler(ep, UNETMM_EVERY_CHANNEL, count, NULL),
                     0);
    send_one(from, 0);
    send_one(from, 0);
    assert_int_equal(unetmm_dispatch(ep, 9, 10 * SECOND), -ESHUTDOWN);
    ep = NULL;
    assert_int_equal(atomic_load(&handled.calls), 1);
    assert_int_equal(atomic_load(&handled.result), 0);
}

static void start(unetmm_handler handler)
{
    unsigned from, to;

    atomic_store(&handled.calls, 0);
    loop_back(&from, &to);
    assert_int_equal(unetmm_set_handler(ep, UNETMM_EVERY_CHANNEL, handler,
                                        NULL), 0);
    assert_int_equal(unetmm_handlers_start(ep, NULL, NULL), 0);
    assert_int_equal(unetmm_handlers_block(ep), 0);
    send_one(from, 0);
    assert_int_equal(unetmm_handlers_unblock(ep), 1);
}

static void await_calls(unsigned n)
{
    unsigned i;

    for (i = 0; i < 100000 && atomic_load(&handled.calls) < n; i++) {
        nanosleep(&(struct timespec) { .tv_nsec = 100000 }, NULL);
    }
    assert_int_equal(atomic_load(&handled.calls), n);
}

TEST(thread_destroys_its_endpoint, scene_test)
{
    start(destroy);
    await_calls(1);
    ep = NULL;
    assert_int_equal(atomic_load(&handled.result), 0);
}

/* Called between the thread's first step and unetmm_handlers_start()'s end. */
int __real_pthread_sigmask(int how, const sigset_t *set, sigset_t *before);
int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *before);

static struct unetmm_ep *awaited;       /* the endpoint whose end it awaits */

static void await_end(struct unetmm_ep *mine)
{
    int saved = errno, i;

    for (i = 0; i < 100000 && !msync(mine, 1, MS_ASYNC); i++) {
        nanosleep(&(struct timespec) { .tv_nsec = 100000 }, NULL);
    }
    errno = saved;
}

int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *before)
{
    if (awaited && how == SIG_SETMASK && !before) {
        await_end(awaited);
    }
    return __real_pthread_sigmask(how, set, before);
}

/* Nobody but the thread may touch the endpoint once it has begun. */
TEST(thread_is_faster_than_its_maker, scene_test)
{
    unsigned from, to;

    atomic_store(&handled.calls, 0);
    loop_back(&from, &to);
    assert_int_equal(unetmm_set_handler(ep, UNETMM_EVERY_CHANNEL, destroy,
                                        NULL), 0);
    send_one(from, 0);
    awaited = ep;
    assert_int_equal(unetmm_handlers_start(ep, NULL, NULL), 0);
    assert_int_not_equal(msync(awaited, 1, MS_ASYNC), 0);
    assert_int_equal(errno, ENOMEM);
    errno = 12345;
    awaited = ep = NULL;
    assert_int_equal(atomic_load(&handled.calls), 1);
    assert_int_equal(atomic_load(&handled.result), 0);
}

/*
 * Called at the end of a call that blocks handlers meanwhile: a message comes before, and
 * the thread has destroyed the endpoint before the call goes on.
 */
int __real_unetmm_handlers_unblock(struct unetmm_ep *mine);
int __wrap_unetmm_handlers_unblock(struct unetmm_ep *mine);

static unsigned waker;                  /* the message's channel */

int __wrap_unetmm_handlers_unblock(struct unetmm_ep *mine)
{
    uint32_t blocked = atomic_load(&unetmm_ep_private(mine)->handlers.blocked);
    int ret;

    if (awaited && blocked == 1) {
        send_one(waker, 0);
    }
    ret = __real_unetmm_handlers_unblock(mine);
    if (awaited && ret == 1) {
        await_end(awaited);
    }
    return ret;
}

static void prepare_end(unsigned *to)
{
    atomic_store(&handled.calls, 0);
    loop_back(&waker, to);
    assert_int_equal(unetmm_set_handler(ep, UNETMM_EVERY_CHANNEL, destroy, NULL), 0);
    assert_int_equal(unetmm_handlers_start(ep, NULL, NULL), 0);
    awaited = ep;
}

static void expect_end(void)
{
    awaited = ep = NULL;
    await_calls(1);
    assert_int_equal(atomic_load(&handled.result), 0);
}

/* No call touches the endpoint behind its unetmm_handlers_unblock(). */
TEST(thread_is_faster_than_counters_setter, scene_test)
{
    struct unetmm_event_private c = { .ctx = ctx };
    unsigned to;

    prepare_end(&to);
    assert_int_equal(unetmm_event_set_handler(ep, &c.pub, 0, NULL, NULL), 0);
    expect_end();
}

TEST(thread_is_faster_than_setter, scene_test)
{
    unsigned to;

    prepare_end(&to);
    assert_int_equal(unetmm_set_handler(ep, to, NULL, NULL), 0);
    expect_end();
}

TEST(thread_is_faster_than_disconnect, scene_test)
{
    unsigned from, to;

    prepare_end(&to);
    loop_back(&from, &to);
    assert_int_equal(unetmm_disconnect(ep, (int)to), 0);
    expect_end();
}

TEST(destroying_ends_the_thread, scene_test)
{
    start(count);
    await_calls(1);
    assert_int_equal(unetmm_ep_destroy(ep), 0);
    ep = NULL;
}

/* ---- Cancellation --------------------------------------------------------- */

static void sleep_in_handler(struct unetmm_ep *mine,
                             const struct unetmm_completion *c, void *arg)
{
    (void)mine;
    (void)c;
    (void)arg;
    /* A cancellation point, but handlers are not cancelled. */
    nanosleep(&(struct timespec) { .tv_nsec = 1 }, NULL);
    atomic_fetch_add(&handled.calls, 1);
}

static int use_endpoint_cancelled(struct unetmm_ctx *mine)
{
    struct unetmm_completion c;
    struct unetmm_ep *other;
    int from, wrong;

    if (unetmm_ep_create(mine, NULL, &other)) {
        return 1;
    }
    wrong = unetmm_listen_ex(other, 5, 1, &datagram_attr) || unetmm_arm(other) ||
        unetmm_wait(other, &c, 1, 1000000) ||
        unetmm_accept(other, NULL, 1000000) != -ETIMEDOUT;
    from = unetmm_connect_ex(other, own_mac, 5, SECOND, &datagram_attr, NULL);
    wrong |= from < 0 || unetmm_set_handler(other, UNETMM_EVERY_CHANNEL,
                                            sleep_in_handler, NULL) ||
        unetmm_dispatch(other, 1, 1000000) ||
        unetmm_send(other, (unsigned)from, "x", 1, 0, 0) ||
        unetmm_dispatch(other, 1, 10 * SECOND) != 1 ||
        unetmm_handlers_start(other, NULL, NULL) ||
        unetmm_handlers_stop(other);
    return wrong | !!unetmm_ep_destroy(other);
}

static __attribute__((noinline)) int use_context_cancelled(void)
{
    struct unetmm_ctx *mine;

    return unetmm_open("/fake/1", UNETMM_SOURCE_TLB, &mine) ||
        use_endpoint_cancelled(mine) || unetmm_close(mine);
}

/*
 * With a cancellation that is pending all the time.  No variable here: those of a
 * function that does not return stay poisoned for the stack's next user.
 */
static void *use_cancelled(void *argument)
{
    pthread_cancel(pthread_self());
    atomic_store(&handled.result, use_context_cancelled());
    pthread_testcancel();
    return argument;
}

TEST(no_call_is_a_cancellation_point, cmocka_unit_test)
{
    pthread_t thread;
    void *result;

    atomic_store(&handled.calls, 0);
    atomic_store(&handled.result, -1);
    assert_int_equal(pthread_create(&thread, NULL, use_cancelled, NULL), 0);
    pthread_join(thread, &result);
    assert_int_equal(atomic_load(&handled.result), 0);
    assert_true(atomic_load(&handled.calls) > 0);
    assert_ptr_equal(result, PTHREAD_CANCELED);
    assert_int_equal(fake_driver_leaks(), 0);
}

TEST(failed_thread_leaves_nothing, scene_test)
{
    assert_int_equal(unetmm_set_handler(ep, UNETMM_EVERY_CHANNEL, count, NULL),
                     0);
    fake_failures.thread = true;
    assert_int_equal(unetmm_handlers_start(ep, NULL, NULL), -EAGAIN);
    assert_int_equal(unetmm_handlers_stop(ep), -ESRCH);
    assert_int_equal(unetmm_dispatch(ep, 1, 0), 0);
}
