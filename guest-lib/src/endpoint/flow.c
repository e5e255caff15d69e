/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Flows: the frames that a raw endpoint receives.  The driver decides which endpoint
 * may have which flow.
 */
#include "../base/base.h"

int unetmm_flow_add(struct unetmm_ep *pub, const struct unetmm_flow_attr *given)
{
    const struct unetmm_ep_private *ep = unetmm_ep_private(pub);
    struct unetmm_flow_attr attr = UNETMM_FLOW_ATTR_INIT;
    struct unetmm_flow request;
    int ret;

    if (!pub->alive) {
        return -EOWNERDEAD;
    }
    ret = given ? sized_read(&attr, sizeof(attr),
                             SIZED_UP_TO(struct unetmm_flow_attr, mac), given) :
        -EINVAL;
    if (ret) {
        return ret;
    }
    request = (struct unetmm_flow) {
        .size = sizeof(request), .endpoint = ep->id, .kind = attr.kind,
        .flags = attr.flags, .value = attr.value,
    };
    memcpy(request.mac, attr.mac, sizeof(request.mac));
    ret = sys_ioctl(ep->ctx->fd, UNETMM_IOC_FLOW, &request);
    if (ret < 0) {
        return ret;
    }
    return request.flow <= INT32_MAX ? (int)request.flow : -EPROTO;
}

int unetmm_flow_remove(struct unetmm_ep *pub, int flow)
{
    const struct unetmm_ep_private *ep = unetmm_ep_private(pub);

    if (!pub->alive) {
        return -EOWNERDEAD;
    }
    return unetmm_object_end(ep->ctx, UNETMM_OBJECT_FLOW, ep->id, (uint32_t)flow, 0);
}
