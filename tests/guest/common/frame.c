/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Frames with a number in each byte, and raw endpoints that send and take them. */
#include "frame.h"
#include "guard.h"
#include "pattern.h"

#include <string.h>
#include <unistd.h>

void frame_mac(unsigned n, uint8_t mac[6])
{
    uint32_t pid = (uint32_t)getpid();

    mac[0] = 0x02;
    mac[1] = 0x5e;
    mac[2] = (uint8_t)(pid >> 16);
    mac[3] = (uint8_t)(pid >> 8);
    mac[4] = (uint8_t)pid;
    mac[5] = (uint8_t)n;
}

struct unetmm_ep_attr raw_attr(unsigned policy, uint32_t backup)
{
    struct unetmm_ep_attr attr = UNETMM_EP_ATTR_INIT;

    attr.policy = policy;
    attr.flags = UNETMM_EP_RAW;
    attr.backup = backup;
    return attr;
}

int flow_add(struct station *station, uint32_t kind, uint32_t flags,
             uint16_t value, const uint8_t *mac)
{
    struct unetmm_flow_attr attr = UNETMM_FLOW_ATTR_INIT;

    attr.kind = kind;
    attr.flags = flags;
    attr.value = value;
    if (mac) {
        memcpy(attr.mac, mac, sizeof(attr.mac));
    }
    return unetmm_flow_add(station->ep, &attr);
}

void raw_station(struct station *station, struct unetmm_ctx *ctx,
                 const struct unetmm_ep_attr *attr, unsigned n)
{
    uint8_t mac[6];
    int ret;

    station_open(station, ctx, attr);
    frame_mac(n, mac);
    ret = flow_add(station, UNETMM_FLOW_MAC, UNETMM_FLOW_F_SOURCE, 0, mac);
    if (ret < 0) {
        FAIL("no flow: %s", error_name(ret));
    }
}

void frame_fill(uint8_t *frame, size_t len, unsigned to, unsigned from,
                uint32_t number)
{
    frame_mac(to, frame);
    frame_mac(from, frame + 6);
    frame[12] = FRAME_TYPE >> 8;
    frame[13] = FRAME_TYPE & 0xff;
    memcpy(frame + UNETMM_ETH_HEADER, &number, sizeof(number));
    pattern_fill(frame + FRAME_HEAD, len - FRAME_HEAD,
                 pattern_key(run.seed, number), 0);
}

uint32_t frame_number(const uint8_t *frame)
{
    uint32_t number;

    memcpy(&number, frame + UNETMM_ETH_HEADER, sizeof(number));
    return number;
}

void frame_check(const uint8_t *frame, size_t len, unsigned to, unsigned from,
                 uint32_t number)
{
    uint8_t head[FRAME_HEAD];

    CHECK(len >= FRAME_HEAD);
    frame_fill(head, sizeof(head), to, from, number);
    CHECK_EQ(frame_number(frame), number);
    CHECK_EQ(memcmp(frame, head, sizeof(head)), 0);
    CHECK_EQ(pattern_check(frame + FRAME_HEAD, len - FRAME_HEAD,
                           pattern_key(run.seed, number), 0),
             len - FRAME_HEAD);
}

unsigned frame_send(struct station *station, const void *frame, size_t len,
                    uint32_t offload)
{
    struct iovec iov = { (void *)(uintptr_t)frame, len };
    struct unetmm_completion c;

    CHECK_RET(unetmm_send_frame(station->ep, &iov, 1, offload, len, 0), 0);
    take(station, UNETMM_CQE_SENT, &c);
    CHECK_EQ(c.user_data, len);
    return c.status;
}

uint64_t station_drops(const struct station *station)
{
    uint64_t values[UNETMM_NUM_COUNTERS];

    CHECK_RET(unetmm_stats_read(station->ctx, UNETMM_SCOPE_ENDPOINT,
                                (unsigned)unetmm_ep_id(station->ep), values,
                                UNETMM_NUM_COUNTERS), UNETMM_NUM_COUNTERS);
    return sum_of_drops(values);
}
