/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A station of its own on the wire (CAP_NET_RAW): an Ethernet frame and its answer.
 *
 *   raw-frames 02:00:00:00:00:01                        answers one frame
 *   raw-frames 02:00:00:00:00:02 02:00:00:00:00:01      sends one there
 */
#include <libunetmm.h>
#include <stdio.h>

static char frame[UNETMM_ETH_MAX + 1];

/* Of EtherType 0x88b6, which is for experiments, as the card's own is. */
static int send_text(struct unetmm_ep *ep, const uint8_t *from, const char *text)
{
    struct iovec iov = { frame, 60 };

    memcpy(frame + 6, from, 6);
    snprintf(frame + 12, 48, "\x88\xb6%s", text);
    return unetmm_send_frame(ep, &iov, 1, 0, 0, UNETMM_INLINE | UNETMM_UNSIGNALED);
}

int main(int argc, char **argv)
{
    struct unetmm_flow_attr own = UNETMM_FLOW_ATTR_INIT;
    struct unetmm_ep_attr attr = UNETMM_EP_ATTR_INIT;
    struct unetmm_completion c;
    struct unetmm_ctx *ctx;
    struct unetmm_ep *ep;
    int ret;

    attr.flags = UNETMM_EP_RAW;
    attr.policy = UNETMM_POLICY_BACKUP;
    own.kind = UNETMM_FLOW_MAC;
    own.flags = UNETMM_FLOW_F_SOURCE;
    ret = argc > 1 ? unetmm_parse_mac(argv[1], own.mac) : -EINVAL;
    ret = ret ? ret : unetmm_open(NULL, UNETMM_SOURCE_TLB, &ctx);
    ret = ret ? ret : unetmm_ep_create(ctx, &attr, &ep);
    ret = ret ? ret : unetmm_post_recv(ep, frame, UNETMM_ETH_MAX, 0, 0);
    ret = ret ? ret : unetmm_flow_add(ep, &own);
    if (ret >= 0 && argc > 2) {
        ret = unetmm_parse_mac(argv[2], (uint8_t *)frame);
        ret = ret ? ret : send_text(ep, own.mac, "question");
    }
    ret = ret < 0 ? ret : unetmm_wait(ep, &c, 1, -1);
    ret = ret > 0 && c.status ? unetmm_status_errno(c.status) : ret;
    printf("%s\n", ret < 0 ? unetmm_strerror(ret, UNETMM_CALL_ANY) : frame + 14);
    if (ret > 0 && argc == 2) {
        memcpy(frame, frame + 6, 6);
        ret = send_text(ep, own.mac, "answer");
    }
    ret = ret < 0 ? ret : unetmm_ep_destroy(ep);
    return ret < 0;
}
