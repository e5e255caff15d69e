/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Raw endpoints: frames of all lengths arrive as they were sent, frames that an
 * endpoint may not send or have are refused, and nonsense does no harm.
 */
#include "card.h"
#include "frame.h"
#include "guard.h"
#include "pattern.h"
#include "process.h"

#include <libunetmm/inline.h>
#include <unetmm_hw.h>

#include <errno.h>
#include <linux/capability.h>
#include <string.h>
#include <unistd.h>

#define TEST_RAW    (TEST_TLB | TEST_PINNED | TEST_UTLB | TEST_SHADOW | TEST_ODP)
#define MOST        UNETMM_ETH_MAX
#define SPAN        17                  /* pages that a segmented frame needs */
#define PIECES      48                  /* ... and its pieces */
#define IP          0x0800
#define UDP         17
#define TCP         6

static struct unetmm_ep_attr dropping(void)
{
    return raw_attr(UNETMM_POLICY_DROP, 0);
}

struct scene {
    struct unetmm_ctx *ctx;
    struct station one, two;
    uint8_t *from, *to;         /* SPAN pages each, present */
};

static void scene_open(struct scene *s)
{
    struct unetmm_ep_attr attr = dropping();

    s->ctx = open_card();
    raw_station(&s->one, s->ctx, &attr, 0);
    raw_station(&s->two, s->ctx, &attr, 1);
    s->from = pages(SPAN);
    s->to = pages(SPAN);
    memset(s->from, 1, SPAN * PAGE);
    memset(s->to, 2, SPAN * PAGE);
    reach(s->ctx, s->from, SPAN * PAGE, false);
    reach(s->ctx, s->to, SPAN * PAGE, true);
}

static void scene_close(struct scene *s)
{
    station_close(&s->one);
    station_close(&s->two);
    CHECK_RET(unetmm_close(s->ctx), 0);
}

/* Sends until it is received: absent pages cost some frames with policy drop. */
static void deliver_frame(struct scene *s, size_t len, uint32_t offload,
                          struct unetmm_completion *c)
{
    uint64_t end = deadline_in(10);

    do {
        CHECK(now_ns() < end);
        CHECK_EQ(frame_send(&s->one, s->from, len, offload), UNETMM_ST_OK);
    } while (!take_now(&s->two, UNETMM_CQE_RECEIVED, c));
}

/* ---- Frames arrive as they were sent -------------------------------------------- */

static void one_length(struct scene *s, size_t len, uint32_t number)
{
    struct unetmm_completion c;

    frame_fill(s->from, len, 1, 0, number);
    memset(s->to, 0xee, len + 1);
    CHECK_RET(unetmm_post_recv(s->two.ep, s->to, SPAN * PAGE, number, 0), 0);
    deliver_frame(s, len, 0, &c);
    CHECK_EQ(c.user_data, number);
    CHECK_EQ(c.len, len);
    CHECK(!c.is_inline);
    frame_check(s->to, len, 1, 0, number);
    CHECK_EQ(s->to[len], 0xee);
}

TEST(lengths, TEST_RAW)
{
    struct chance chance;
    uint32_t number = 0;
    struct scene s;
    size_t len;

    chance_init(&chance, 1);
    scene_open(&s);
    for (len = FRAME_HEAD; len <= 300; len += run.lengthy ? 1 : 7) {
        one_length(&s, len, number++);
    }
    for (len = 1500; len <= 1530; len++) {
        one_length(&s, len, number++);
    }
    one_length(&s, MOST, number++);
    one_length(&s, MOST - 1, number++);
    while (number < rounds(150)) {
        one_length(&s, FRAME_HEAD + chance_below(&chance, MOST - FRAME_HEAD),
                   number);
        number++;
    }
    CHECK(ep_counter(&s.one, UNETMM_C_eth_tx_frames) >= number);
    CHECK_EQ(ep_counter(&s.two, UNETMM_C_rx_frames), number);
    CHECK(ep_counter(&s.two, UNETMM_C_eth_rx_frames) >= number);
    scene_close(&s);
}

/* From as many pieces as there may be. */
TEST(gathered, TEST_RAW)
{
    struct unetmm_completion c;
    struct iovec iov[UNETMM_MAX_SEGS];
    struct scene s;
    unsigned i, n;

    scene_open(&s);
    for (n = 1; n <= UNETMM_MAX_SEGS; n++) {
        size_t each = 200, at = 0;

        frame_fill(s.from, n * each, 1, 0, n);
        for (i = 0; i < n; i++, at += each) {
            iov[i] = (struct iovec) { s.from + at, each };
        }
        CHECK_RET(unetmm_post_recv(s.two.ep, s.to, PAGE, n, 0), 0);
        do {
            CHECK_RET(unetmm_send_frame(s.one.ep, iov, n, 0, n,
                                        n % 2 ? 0 : UNETMM_UNSIGNALED), 0);
            if (n % 2) {
                take(&s.one, UNETMM_CQE_SENT, &c);
            }
            EVENTUALLY(!unetmm_send_pending(s.one.ep));
        } while (!take_now(&s.two, UNETMM_CQE_RECEIVED, &c));
        CHECK_EQ(c.len, n * each);
        frame_check(s.to, n * each, 1, 0, n);
    }
    scene_close(&s);
}

/* ---- Lengths that are none ------------------------------------------------------- */

/* Puts a descriptor past the library's checks; returns its completion's status. */
static unsigned forged(struct scene *s, size_t len, uint32_t imm,
                       unsigned channel)
{
    const struct unetmm_request_ request = {
        .user_data = 7, .imm = imm, .channel = (uint16_t)channel,
        .opcode = UNETMM_OP_FRAME,
    };
    struct unetmm_ep *ep = s->one.ep;
    struct unetmm_completion c;
    struct iovec iov = { s->from, len };
    unsigned n = len ? 1 : 0;

    unetmm_put_segs_(ep, ep->sq_prod,
                     unetmm_put_sqe_(ep, ep->sq_prod, &request, 0, n, 0), &iov, n);
    ep->sq_prod++;
    unetmm_write_index(&ep->index->user.sq_prod, ep->sq_prod);
    unetmm_ring(ep);
    take(&s->one, UNETMM_CQE_SENT, &c);
    return c.status;
}

TEST(no_lengths, TEST_RAW)
{
    struct iovec iov;
    struct scene s;
    size_t len;

    scene_open(&s);
    frame_fill(s.from, MOST, 1, 0, 1);
    for (len = 0; len < UNETMM_ETH_HEADER; len++) {
        iov = (struct iovec) { s.from, len };
        CHECK_RET(unetmm_send_frame(s.one.ep, &iov, 1, 0, 1, 0), -EINVAL);
        if (run.source != UNETMM_SOURCE_UTLB) {
            CHECK(forged(&s, len, 0, 0) != UNETMM_ST_OK);
        }
    }
    iov = (struct iovec) { s.from, MOST + 1 };
    CHECK_RET(unetmm_send_frame(s.one.ep, &iov, 1, 0, 1, 0), -EMSGSIZE);
    iov.iov_len = UNETMM_FRAME_MAX + 1;
    CHECK_RET(unetmm_send_frame(s.one.ep, &iov, 1, UNETMM_TX_CSUM |
                                UNETMM_TX_SEGMENT | 1460, 1, 0), -EMSGSIZE);
    iov.iov_len = 300;
    CHECK_RET(unetmm_send_frame(s.one.ep, &iov, 1, 0, 1, UNETMM_INLINE),
              -EMSGSIZE);
    CHECK_RET(unetmm_send_frame(s.one.ep, &iov, 1, 0x80000000u, 1, 0),
              -EINVAL);
    CHECK_RET(unetmm_send_frame(s.one.ep, &iov, 1, 0, 1, 0x100), -EINVAL);
    CHECK_RET(unetmm_send_frame(s.one.ep, &iov, UNETMM_MAX_SEGS + 1, 0, 1, 0),
              -EINVAL);
    if (run.source != UNETMM_SOURCE_UTLB) {
        CHECK(forged(&s, MOST + 1, 0, 0) != UNETMM_ST_OK);
        CHECK(forged(&s, SPAN * PAGE, 0, 0) != UNETMM_ST_OK);
        CHECK(forged(&s, 100, UNETMM_TX_SEGMENT, 0) != UNETMM_ST_OK);
        CHECK(forged(&s, 100, UNETMM_TX_CSUM | UNETMM_TX_SEGMENT | 1, 0) !=
              UNETMM_ST_OK);
        CHECK(forged(&s, 100, 1460, 0) != UNETMM_ST_OK);
        CHECK(forged(&s, 100, 0, 1) != UNETMM_ST_OK);
    }
    CHECK_EQ(ep_counter(&s.one, UNETMM_C_eth_tx_frames), 0);
    one_length(&s, 100, 1);
    scene_close(&s);
}

/* One that is longer than the buffer is dropped, and the buffer stays. */
TEST(too_long, TEST_TLB | TEST_ODP)
{
    struct unetmm_completion c;
    struct scene s;

    scene_open(&s);
    CHECK_RET(unetmm_post_recv(s.two.ep, s.to, 200, 1, 0), 0);
    frame_fill(s.from, 201, 1, 0, 1);
    CHECK_EQ(frame_send(&s.one, s.from, 201, 0), UNETMM_ST_OK);
    EVENTUALLY(ep_counter(&s.two, UNETMM_C_drop_too_long) == 1);
    frame_fill(s.from, 200, 1, 0, 2);
    deliver_frame(&s, 200, 0, &c);
    CHECK_EQ(c.user_data, 1);
    frame_check(s.to, 200, 1, 0, 2);
    scene_close(&s);
}

/* ---- Frames that nobody may send ------------------------------------------------- */

TEST(spoofed, TEST_TLB | TEST_ODP)
{
    struct scene s;
    uint64_t before;

    scene_open(&s);
    before = ep_counter(&s.one, UNETMM_C_eth_tx_frames);
    frame_fill(s.from, 100, 1, 0, 1);
    frame_mac(1, s.from + 6);
    CHECK(frame_send(&s.one, s.from, 100, 0) != UNETMM_ST_OK);
    card_mac(s.from + 6);
    CHECK(frame_send(&s.one, s.from, 100, 0) != UNETMM_ST_OK);
    memset(s.from + 6, 0xff, 6);
    CHECK(frame_send(&s.one, s.from, 100, 0) != UNETMM_ST_OK);
    CHECK_EQ(ep_counter(&s.one, UNETMM_C_drop_source), 3);
    frame_mac(0, s.from + 6);
    s.from[12] = UNETMM_ETHERTYPE >> 8;
    s.from[13] = UNETMM_ETHERTYPE & 0xff;
    CHECK(frame_send(&s.one, s.from, 100, 0) != UNETMM_ST_OK);
    CHECK_EQ(ep_counter(&s.one, UNETMM_C_drop_forged), 1);
    CHECK_EQ(ep_counter(&s.one, UNETMM_C_eth_tx_frames), before);
    one_length(&s, 100, 1);
    scene_close(&s);
}

/* An address without F_SOURCE is one to receive with. */
TEST(without_source, TEST_TLB)
{
    struct scene s;
    uint8_t mac[6];
    int flow;

    scene_open(&s);
    frame_mac(9, mac);
    flow = flow_add(&s.one, UNETMM_FLOW_MAC, 0, 0, mac);
    CHECK(flow >= 0);
    frame_fill(s.from, 100, 1, 9, 1);
    CHECK(frame_send(&s.one, s.from, 100, 0) != UNETMM_ST_OK);
    CHECK_RET(unetmm_flow_remove(s.one.ep, (unsigned)flow), 0);
    flow = flow_add(&s.one, UNETMM_FLOW_MAC, UNETMM_FLOW_F_SOURCE, 0, mac);
    CHECK(flow >= 0);
    CHECK_EQ(frame_send(&s.one, s.from, 100, 0), UNETMM_ST_OK);
    scene_close(&s);
}

/* ---- Flows ------------------------------------------------------------------------- */

TEST(collide, TEST_TLB)
{
    uint8_t mac[6], group[6] = { 0x33, 0x33, 0, 0, 0, 7 };
    struct unetmm_ep_attr attr = dropping();
    struct station three;
    struct scene s;
    int flow;

    scene_open(&s);
    frame_mac(1, mac);
    CHECK_RET(flow_add(&s.one, UNETMM_FLOW_MAC, 0, 0, mac), -EADDRINUSE);
    CHECK_RET(flow_add(&s.two, UNETMM_FLOW_MAC, 0, 0, mac), -EADDRINUSE);
    flow = flow_add(&s.one, UNETMM_FLOW_UDP, 0, 53, mac);
    CHECK(flow >= 0);
    CHECK_RET(flow_add(&s.two, UNETMM_FLOW_UDP, 0, 53, mac), -EADDRINUSE);
    CHECK(flow_add(&s.two, UNETMM_FLOW_TCP, 0, 53, mac) >= 0);
    CHECK_RET(unetmm_flow_remove(s.two.ep, (unsigned)flow), -ENOENT);
    CHECK_RET(unetmm_flow_remove(s.one.ep, (unsigned)flow), 0);
    CHECK_RET(unetmm_flow_remove(s.one.ep, (unsigned)flow), -ENOENT);
    CHECK(flow_add(&s.two, UNETMM_FLOW_UDP, 0, 53, mac) >= 0);
    /* A group is for all. */
    CHECK(flow_add(&s.one, UNETMM_FLOW_MAC, 0, 0, group) >= 0);
    CHECK(flow_add(&s.two, UNETMM_FLOW_MAC, 0, 0, group) >= 0);
    CHECK_RET(flow_add(&s.two, UNETMM_FLOW_MAC, 0, 0, group), -EADDRINUSE);
    /* They go with their endpoint. */
    station_close(&s.two);
    station_open(&three, s.ctx, NULL);
    CHECK_RET(flow_add(&three, UNETMM_FLOW_ANY, 0, 0, NULL), -EPROTOTYPE);
    station_close(&three);
    raw_station(&s.two, s.ctx, &attr, 1);
    one_length(&s, 100, 3);
    scene_close(&s);
}

TEST(make_no_sense, TEST_TLB)
{
    static const uint8_t zero[6], group[6] = { 1, 0, 0x5e, 0, 0, 1 };
    uint8_t mac[6];
    struct scene s;

    scene_open(&s);
    frame_mac(5, mac);
    CHECK_RET(flow_add(&s.one, 0, 0, 0, mac), -EINVAL);
    CHECK_RET(flow_add(&s.one, 7, 0, 0, mac), -EINVAL);
    CHECK_RET(flow_add(&s.one, UNETMM_FLOW_MAC, 0, 1, mac), -EINVAL);
    CHECK_RET(flow_add(&s.one, UNETMM_FLOW_MAC, 0, 0, zero), -EINVAL);
    CHECK_RET(flow_add(&s.one, UNETMM_FLOW_MAC, UNETMM_FLOW_F_SOURCE, 0,
                       group), -EINVAL);
    CHECK_RET(flow_add(&s.one, UNETMM_FLOW_MAC, 4, 0, mac), -EOPNOTSUPP);
    CHECK_RET(flow_add(&s.one, UNETMM_FLOW_ETHERTYPE, 0, 0x5ff, mac), -EINVAL);
    CHECK_RET(flow_add(&s.one, UNETMM_FLOW_ETHERTYPE, 0, IP, group), -EINVAL);
    CHECK_RET(flow_add(&s.one, UNETMM_FLOW_ETHERTYPE, 0, UNETMM_ETHERTYPE,
                       mac), -EPERM);
    CHECK_RET(flow_add(&s.one, UNETMM_FLOW_UDP, 0, 0, mac), -EINVAL);
    CHECK_RET(flow_add(&s.one, UNETMM_FLOW_TCP, 0, 80, zero), -EINVAL);
    CHECK_RET(flow_add(&s.one, UNETMM_FLOW_UDP, UNETMM_FLOW_F_SOURCE, 80, mac),
              -EINVAL);
    CHECK_RET(flow_add(&s.one, UNETMM_FLOW_GROUP, 0, 0, mac), -EINVAL);
    CHECK_RET(flow_add(&s.one, UNETMM_FLOW_ANY, 0, 1, zero), -EINVAL);
    scene_close(&s);
}

/* More than there are: the last is refused, and removing one makes room. */
TEST(used_up, TEST_TLB)
{
    struct unetmm_info info;
    uint8_t mac[6] = { 0x02, 0x5f, 0, 0, 0, 0 };
    unsigned i, n = 0;
    struct scene s;
    int last = 0;

    card_info(&info);
    scene_open(&s);
    for (i = 0; i <= info.flows; i++) {
        int ret;

        mac[4] = (uint8_t)(i >> 8);
        mac[5] = (uint8_t)i;
        ret = flow_add(&s.one, UNETMM_FLOW_MAC, 0, 0, mac);
        if (ret < 0) {
            CHECK_RET(ret, -ENOSPC);
            break;
        }
        last = ret;
        n++;
    }
    CHECK(n >= 2 && n < info.flows);
    CHECK_RET(unetmm_flow_remove(s.one.ep, (unsigned)last), 0);
    CHECK(flow_add(&s.one, UNETMM_FLOW_MAC, 0, 0, mac) >= 0);
    one_length(&s, 100, 1);
    scene_close(&s);
}

/* A frame to all, or to a group, comes once to each endpoint with a flow for it. */
TEST(to_all, TEST_TLB | TEST_ODP)
{
    uint8_t mac[6], all[6], group[6] = { 1, 0, 0x5e, 1, 2, 3 };
    struct unetmm_completion c;
    struct station three;
    struct unetmm_ep_attr attr = dropping();
    struct scene s;
    unsigned i;

    scene_open(&s);
    memset(all, 0xff, 6);
    station_open(&three, s.ctx, &attr);
    frame_mac(6, mac);
    CHECK(flow_add(&three, UNETMM_FLOW_MAC, UNETMM_FLOW_F_BROADCAST, 0, mac) >=
          0);
    CHECK(flow_add(&three, UNETMM_FLOW_MAC, 0, 0, group) >= 0);
    CHECK(flow_add(&three, UNETMM_FLOW_GROUP, 0, 0, NULL) >= 0);
    CHECK(flow_add(&s.two, UNETMM_FLOW_MAC, 0, 0, group) >= 0);
    for (i = 0; i < 20; i++) {
        bool everybody = i % 2;

        frame_fill(s.from, 100, 1, 0, i);
        memcpy(s.from, everybody ? all : group, 6);
        CHECK_RET(unetmm_post_recv(s.two.ep, s.to, PAGE, i, 0), 0);
        CHECK_RET(unetmm_post_recv(three.ep, s.to + PAGE, PAGE, i, 0), 0);
        do {
            unsigned status = frame_send(&s.one, s.from, 100, 0);

            /* It goes to the wire, too, where nobody may be. */
            CHECK(status == UNETMM_ST_OK || status == UNETMM_ST_REFUSED);
        } while (!take_now(&three, UNETMM_CQE_RECEIVED, &c));
        CHECK_EQ(memcmp(s.to + PAGE, s.from, 100), 0);
        CHECK(!take_now(&three, UNETMM_CQE_RECEIVED, &c));
        if (everybody) {
            /* Not its own: the buffer is taken by a frame of its own. */
            frame_fill(s.from, 100, 1, 0, i);
            deliver_frame(&s, 100, 0, &c);
        } else if (!take_now(&s.two, UNETMM_CQE_RECEIVED, &c)) {
            /* Dropped, for its page was absent: the buffer is still there. */
            frame_fill(s.from, 100, 1, 0, i);
            deliver_frame(&s, 100, 0, &c);
        }
        CHECK_EQ(c.user_data, i);
    }
    station_close(&three);
    scene_close(&s);
}

/* ---- Rights ------------------------------------------------------------------------ */

static void rights_main(void *argument)
{
    struct unetmm_ep_attr attr = dropping();
    uint8_t mac[6], own[6], reserved[6] = { 1, 0x80, 0xc2, 0, 0, 2 };
    uint8_t group[6] = { 1, 0, 0x5e, 0, 0, 9 };
    struct station station;
    struct unetmm_ctx *ctx;
    struct unetmm_ep *ep;

    (void)argument;
    card_mac(own);
    frame_mac(0, mac);
    ctx = open_card();
    station_open(&station, ctx, &attr);
    drop_capability(CAP_NET_ADMIN);
    CHECK_RET(flow_add(&station, UNETMM_FLOW_MAC, 0, 0, own), -EPERM);
    CHECK_RET(flow_add(&station, UNETMM_FLOW_MAC, UNETMM_FLOW_F_SOURCE, 0,
                       mac), -EPERM);
    CHECK_RET(flow_add(&station, UNETMM_FLOW_MAC, 0, 0, reserved), -EPERM);
    CHECK_RET(flow_add(&station, UNETMM_FLOW_ETHERTYPE, 0, IP, own), -EPERM);
    CHECK_RET(flow_add(&station, UNETMM_FLOW_ETHERTYPE, 0, IP, mac), -EPERM);
    CHECK_RET(flow_add(&station, UNETMM_FLOW_UDP, 0, 53, own), -EPERM);
    CHECK_RET(flow_add(&station, UNETMM_FLOW_TCP, 0, 80, own), -EPERM);
    CHECK_RET(flow_add(&station, UNETMM_FLOW_GROUP, 0, 0, NULL), -EPERM);
    CHECK_RET(flow_add(&station, UNETMM_FLOW_ANY, 0, 0, NULL), -EPERM);
    CHECK(flow_add(&station, UNETMM_FLOW_MAC, 0, 0, group) >= 0);
    drop_capability(CAP_NET_RAW);
    CHECK_RET(unetmm_ep_create(ctx, &attr, &ep), -EPERM);
    /* One of messages needs none. */
    CHECK_RET(unetmm_ep_create(ctx, NULL, &ep), 0);
    CHECK_RET(unetmm_ep_destroy(ep), 0);
    station_close(&station);
    CHECK_RET(unetmm_close(ctx), 0);
}

TEST(rights, TEST_TLB)
{
    end_process(start_process(rights_main, NULL));
}

TEST(refused, TEST_TLB)
{
    struct unetmm_ep_attr attr = dropping();
    struct unetmm_ctx *ctx = open_card();
    struct iovec iov = { (void *)(uintptr_t)"0123456789abcdefghij", 20 };
    struct station station, plain;
    struct unetmm_ep *ep;
    uint8_t mac[6];

    card_mac(mac);
    attr.policy = UNETMM_POLICY_SKIP;
    CHECK_RET(unetmm_ep_create(ctx, &attr, &ep), -EOPNOTSUPP);
    attr.policy = UNETMM_POLICY_DROP;
    attr.flags = 0x80000000u;
    CHECK_RET(unetmm_ep_create(ctx, &attr, &ep), -EOPNOTSUPP);
    attr = dropping();
    station_open(&station, ctx, &attr);
    CHECK_RET(unetmm_listen_ex(station.ep, 0x99, 1, &datagram_attr), -EPROTOTYPE);
    CHECK_RET(unetmm_connect_ex(station.ep, mac, 0x99, NS_PER_S, &datagram_attr, NULL),
              -EPROTOTYPE);
    CHECK_RET(unetmm_send(station.ep, 0, iov.iov_base, 20, 0, 0), -ENOENT);
    station_open(&plain, ctx, NULL);
    CHECK_RET(unetmm_send_frame(plain.ep, &iov, 1, 0, 0, 0), -EPROTOTYPE);
    station_close(&plain);
    station_close(&station);
    CHECK_RET(unetmm_close(ctx), 0);
}

TEST(not_ktlb, TEST_KTLB)
{
    struct unetmm_ep_attr attr = dropping();
    struct unetmm_ctx *ctx = open_card();
    struct unetmm_ep *ep;

    CHECK_RET(unetmm_ep_create(ctx, &attr, &ep), -EOPNOTSUPP);
    CHECK_RET(unetmm_close(ctx), 0);
}

/* ---- Offloads ------------------------------------------------------------------------ */

static void put16(uint8_t *at, unsigned value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static unsigned get16(const uint8_t *at)
{
    return (unsigned)at[0] << 8 | at[1];
}

static uint32_t sum_of(const uint8_t *at, size_t len, uint32_t sum)
{
    size_t i;

    for (i = 0; i + 1 < len; i += 2) {
        sum += get16(at + i);
    }
    return len % 2 ? sum + ((uint32_t)at[len - 1] << 8) : sum;
}

static unsigned folded(uint32_t sum)
{
    while (sum >> 16) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return sum;
}

/* An IPv4 frame of TCP or UDP with `n` bytes of payload; returns its length. */
static size_t ip_frame(uint8_t *f, unsigned proto, size_t n, uint32_t number)
{
    size_t head = proto == TCP ? 20 : 8;
    uint8_t *ip = f + 14, *l4 = ip + 20;

    memset(f, 0, 14 + 20 + head);
    frame_mac(1, f);
    frame_mac(0, f + 6);
    put16(f + 12, IP);
    ip[0] = 0x45;
    put16(ip + 2, (unsigned)(20 + head + n));
    ip[8] = 64;
    ip[9] = (uint8_t)proto;
    memcpy(ip + 12, "\x0a\x00\x00\x01\x0a\x00\x00\x02", 8);
    put16(ip + 10, ~folded(sum_of(ip, 20, 0)) & 0xffff);
    put16(l4, 1000);
    put16(l4 + 2, 2000);
    if (proto == TCP) {
        l4[12] = 5 << 4;
        l4[13] = 0x18;
    } else {
        put16(l4 + 4, (unsigned)(8 + n));
    }
    pattern_fill(l4 + head, n, pattern_key(run.seed, number), 0);
    return 14 + 20 + head + n;
}

static bool sum_is_right(const uint8_t *f)
{
    const uint8_t *ip = f + 14, *l4 = ip + 20;
    size_t len = get16(ip + 2) - 20;
    uint32_t sum = sum_of(ip + 12, 8, ip[9] + (uint32_t)len);

    return folded(sum_of(l4, len, sum)) == 0xffff &&
           folded(sum_of(ip, 20, 0)) == 0xffff;
}

TEST(checksums, TEST_TLB | TEST_ODP)
{
    struct unetmm_completion c;
    struct scene s;
    unsigned i;

    scene_open(&s);
    for (i = 0; i < rounds(40); i++) {
        unsigned proto = i % 2 ? TCP : UDP;
        size_t n = i * 37 % 1400;
        size_t len = ip_frame(s.from, proto, n, i);

        CHECK_RET(unetmm_post_recv(s.two.ep, s.to, PAGE, i, 0), 0);
        deliver_frame(&s, len, UNETMM_TX_CSUM, &c);
        CHECK_EQ(c.len, len);
        CHECK(sum_is_right(s.to));
        CHECK(c.flags & UNETMM_CQE_F_CSUM_OK);
        CHECK_EQ(pattern_check(s.to + len - n, n, pattern_key(run.seed, i), 0),
                 n);
        /* Wrong by one bit. */
        memcpy(s.from, s.to, len);
        s.from[len - 1] ^= 1;
        CHECK_RET(unetmm_post_recv(s.two.ep, s.to, PAGE, i, 0), 0);
        deliver_frame(&s, len, 0, &c);
        CHECK(!(c.flags & UNETMM_CQE_F_CSUM_OK));
    }
    scene_close(&s);
}

/* A frame of up to 64 KiB comes in pieces that make it up, with right sums. */
TEST(segmented, TEST_PINNED)
{
    struct unetmm_ep_attr attr = dropping();
    const unsigned mss = 1460;
    struct unetmm_completion c;
    size_t n, len, at, most = UNETMM_FRAME_MAX - 54 - 100;
    uint8_t *to = pages(PIECES / 2);
    struct scene s;
    unsigned i;

    scene_open(&s);
    reach(s.ctx, to, PIECES * PAGE / 2, true);
    for (n = 1; n <= most; n = n < most && n * 3 > most ? most : n * 3) {
        unsigned pieces = (unsigned)((n + mss - 1) / mss);

        len = ip_frame(s.from, TCP, n, (uint32_t)n);
        put16(s.from + 16, (unsigned)(len - 14));
        for (i = 0; i < PIECES; i++) {
            CHECK_RET(unetmm_post_recv(s.two.ep, to + i * PAGE / 2, PAGE / 2, i, 0),
                      0);
        }
        CHECK_EQ(frame_send(&s.one, s.from, len, UNETMM_TX_CSUM |
                            UNETMM_TX_SEGMENT | mss), UNETMM_ST_OK);
        for (i = 0, at = 0; i < pieces; i++) {
            uint8_t *f;

            take(&s.two, UNETMM_CQE_RECEIVED, &c);
            f = to + c.user_data * PAGE / 2;
            CHECK(sum_is_right(f));
            CHECK(c.len > 54);
            CHECK_EQ(pattern_check(f + 54, c.len - 54,
                                   pattern_key(run.seed, n), at), c.len - 54);
            at += c.len - 54;
        }
        CHECK_EQ(at, n);
        station_close(&s.two);
        raw_station(&s.two, s.ctx, &attr, 1);
        if (n == most) {
            break;
        }
    }
    scene_close(&s);
}

/* Headers cut at each byte, and bytes that are none, with each offload. */
TEST(cut_headers, TEST_TLB | TEST_ODP)
{
    static const uint32_t offloads[] = {
        UNETMM_TX_CSUM, UNETMM_TX_CSUM | UNETMM_TX_SEGMENT | 64,
        UNETMM_TX_CSUM | UNETMM_TX_SEGMENT | 1460,
    };
    unsigned i, k, refused_ones = 0;
    struct chance chance;
    struct scene s;
    size_t len;

    chance_init(&chance, 2);
    scene_open(&s);
    for (k = 0; k < 3; k++) {
        for (len = UNETMM_ETH_HEADER; len < 14 + 20 + 20; len++) {
            ip_frame(s.from, len % 2 ? TCP : UDP, 200, 1);
            refused_ones += frame_send(&s.one, s.from, len, offloads[k]) !=
                UNETMM_ST_OK;
        }
    }
    CHECK(refused_ones >= 100);
    for (i = 0; i < rounds(1000); i++) {
        len = UNETMM_ETH_HEADER + chance_below(&chance, 400);
        ip_frame(s.from, i % 2 ? TCP : UDP, 400, i);
        for (k = 0; k < 4; k++) {
            s.from[12 + chance_below(&chance, 60)] =
                (uint8_t)chance_below(&chance, 256);
        }
        frame_send(&s.one, s.from, len, offloads[i % 3]);
    }
    CHECK(ep_counter(&s.one, UNETMM_C_drop_offload) > 0);
    one_length(&s, 100, 1);
    scene_close(&s);
}

/* ---- With another host ------------------------------------------------------------------ */

#define ARP             0x0806
#define ARP_BYTES       (14 + 28)
#define OWN_IP          "\x0a\x09\x00\x09"
#define PEER_IP         "\x0a\x09\x00\x02"      /* NET_PEER */
#define PAGES_EACH      3
#define BUFFERS         8
#define UDP_HEAD        (14 + 20 + 8)

static void post_again(struct scene *s, uint64_t n)
{
    CHECK_RET(unetmm_post_recv(s->one.ep, s->to + n * PAGES_EACH * PAGE,
                               PAGES_EACH * PAGE, n, 0), 0);
}

static void send_arp(struct scene *s, uint8_t *frame)
{
    struct iovec iov = { frame, ARP_BYTES };
    struct unetmm_completion c;

    CHECK_RET(unetmm_send_frame(s->one.ep, &iov, 1, 0, 0, UNETMM_INLINE), 0);
    take(&s->one, UNETMM_CQE_SENT, &c);
    CHECK_EQ(c.status, UNETMM_ST_OK);
}

/* Asks for the peer, which learns by that where OWN_IP is now. */
static void ask_arp(struct scene *s)
{
    uint8_t frame[ARP_BYTES] = { 0 };

    memset(frame, 255, 6);
    frame_mac(0, frame + 6);
    put16(frame + 12, ARP);
    memcpy(frame + 14, "\0\1\x08\0\6\4\0\1", 8);
    frame_mac(0, frame + 22);
    memcpy(frame + 28, OWN_IP, 4);
    memcpy(frame + 38, PEER_IP, 4);
    send_arp(s, frame);
}

/* Who has OWN_IP?  Its station says so; anything else is not for it. */
static void answer_arp(struct scene *s, const uint8_t *f, size_t len)
{
    uint8_t answer[ARP_BYTES];

    if (len < ARP_BYTES || get16(f + 12) != ARP || get16(f + 20) != 1 ||
        memcmp(f + 38, OWN_IP, 4)) {
        return;
    }
    memcpy(answer, f, sizeof(answer));
    memcpy(answer, f + 22, 6);
    frame_mac(0, answer + 6);
    put16(answer + 20, 2);
    frame_mac(0, answer + 22);
    memcpy(answer + 28, OWN_IP, 4);
    memcpy(answer + 32, f + 22, 10);
    send_arp(s, answer);
}

/* The echo of a datagram with `n` bytes, if it comes before long. */
static bool echo_comes(struct scene *s, size_t n, uint32_t number)
{
    uint64_t end = now_ns() + NS_PER_S * run.slow;
    struct unetmm_completion c;
    bool came = false;

    while (!came && take_until(&s->one, UNETMM_CQE_RECEIVED, &c, end)) {
        const uint8_t *f = s->to + c.user_data * PAGES_EACH * PAGE;

        answer_arp(s, f, c.len);
        /* Short ones are padded. */
        if (c.len >= UDP_HEAD + n && get16(f + 12) == IP && f[23] == UDP &&
            get16(f + 38) == 8 + n) {
            CHECK(sum_is_right(f));
            CHECK(c.flags & UNETMM_CQE_F_CSUM_OK);
            came = pattern_check(f + UDP_HEAD, n, pattern_key(run.seed, number),
                                 0) == n;
        }
        post_again(s, c.user_data);
    }
    return came;
}

static void echo_once(struct scene *s, size_t n, uint32_t number)
{
    size_t len = ip_frame(s->from, UDP, n, number);
    uint8_t *ip = s->from + 14;
    unsigned tries;

    memcpy(s->from, run.peer, 6);
    memcpy(ip + 12, OWN_IP, 4);
    memcpy(ip + 16, PEER_IP, 4);
    put16(ip + 10, 0);
    put16(ip + 10, ~folded(sum_of(ip, 20, 0)) & 0xffff);
    put16(ip + 22, 7);
    for (tries = 0; tries < 20; tries++) {
        CHECK_EQ(frame_send(&s->one, s->from, len, UNETMM_TX_CSUM),
                 UNETMM_ST_OK);
        if (echo_comes(s, n, number)) {
            return;
        }
    }
    FAIL("a datagram of %zu bytes does not come back", n);
}

/* A process is a station of its own, which the other guest's Linux talks to. */
TEST(talks, TEST_TLB | TEST_PINNED | TEST_ODP | TEST_ONLY_REMOTE)
{
    struct unetmm_ep_attr attr = run.source == UNETMM_SOURCE_PINNED ?
                                 dropping() :
                                 raw_attr(UNETMM_POLICY_BACKUP, 16);
    struct chance chance;
    struct scene s = { .ctx = open_card() };
    uint8_t mac[6];
    uint32_t i;
    int ret;

    chance_init(&chance, 3);
    station_open(&s.one, s.ctx, &attr);
    frame_mac(0, mac);
    ret = flow_add(&s.one, UNETMM_FLOW_MAC, UNETMM_FLOW_F_SOURCE |
                   UNETMM_FLOW_F_BROADCAST, 0, mac);
    CHECK(ret >= 0);
    s.from = pages(PAGES_EACH);
    s.to = pages(BUFFERS * PAGES_EACH);
    reach(s.ctx, s.from, PAGES_EACH * PAGE, false);
    reach(s.ctx, s.to, BUFFERS * PAGES_EACH * PAGE, true);
    for (i = 0; i < BUFFERS; i++) {
        post_again(&s, i);
    }
    ask_arp(&s);
    for (i = 0; i < rounds(100); i++) {
        echo_once(&s, i < 40 ? i : chance_below(&chance, 8973), i);
    }
    echo_once(&s, 8972, i);
    station_close(&s.one);
    CHECK_RET(unetmm_close(s.ctx), 0);
}
