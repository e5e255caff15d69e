/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The connecting side: fi_connect(), and the answers to its requests.
 *
 * Lifetime: an EP is UMFI_CONNECTING from fi_connect() on.  First it has a call (cm_caller.c),
 * which opens the channel, since the peer's driver has to answer: fi_connect() does not wait.
 * Then it has a conn, until the answer.  An EP that is closed leaves its call without an EP,
 * and the channel that the call brings is ended.
 */
#include "cm.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

bool umfi_cm_handle_accept(struct umfi_conn *conn, const struct umfi_message *m)
{
    struct umfi_ep *ep = conn->ep;
    struct umfi_arrival *arrival;

    sys_assert_held(&conn->port->fabric->lock);
    if (conn->state != UMFI_CONN_REQUESTING) {
        return umfi_message_not_expected(m);
    }
    umfi_arrivals_accept(ep->port);
    umfi_lock(ep->domain);
    /* A stranger's messages go, and an end that has come is known. */
    umfi_port_progress(ep->port);
    arrival = ep->port->failed ? NULL :
        umfi_arrival_find(ep->port, conn->mac, le32toh(m->endpoint), le32toh(m->channel));
    if (arrival) {
        ep->channel = arrival->channel;
        ep->open = true;
        umfi_ep_connected(ep, m->data, le16toh(m->len));
        umfi_arrival_free(conn->port->fabric, arrival);
    }
    umfi_unlock(ep->domain);
    if (!arrival) {
        UMFI_WARN(FI_LOG_EP_CTRL, "an answer names a channel that has not come, or has "
                  "ended: the request ends\n");
        return false;
    }
    /* The acceptor waits for that. */
    umfi_conn_free(conn, 0);
    return true;
}

bool umfi_cm_handle_reject(struct umfi_conn *conn, const struct umfi_message *m)
{
    sys_assert_held(&conn->port->fabric->lock);
    if (conn->state != UMFI_CONN_REQUESTING) {
        return umfi_message_not_expected(m);
    }
    umfi_ep_fail_connecting(conn->ep, FI_ECONNREFUSED, m->data, le16toh(m->len));
    umfi_conn_free(conn, 0);
    return true;
}

/* A port that has been replaced ends with its last call. */
static void end_unused_port(struct umfi_cm_port *port)
{
    if (port != port->fabric->request_port && !port->calling) {
        umfi_cm_port_end(port);
    }
}

/*
 * Gets the port for the fabric's own requests.  A new port replaces a port that has failed; the
 * fabric's lock is given back while that one is opened, which pins pages.
 */
static int get_request_port(struct umfi_fabric *fabric)
{
    struct umfi_cm_port *port = fabric->request_port, *opened;
    int ret;

    if (port && port->failed) {
        fabric->request_port = NULL;
        umfi_cm_port_drop_conns(port);
        end_unused_port(port);
    }
    if (fabric->request_port) {
        return 0;
    }
    sys_lock_drop(&fabric->lock);
    ret = umfi_cm_port_open(fabric, NULL, &opened);
    sys_lock_take(&fabric->lock);
    if (fabric->request_port) {
        /* Another thread was faster. */
        if (!ret) {
            umfi_cm_port_free(opened);
        }
        return 0;
    }
    if (!ret) {
        fabric->request_port = opened;
        umfi_list_add(&fabric->cm_ports, &opened->node);
    }
    return ret;
}

static void send_request(struct umfi_cm_port *port, struct umfi_ep *ep,
                         const struct umfi_call *call, unsigned channel)
{
    bool ended = umfi_cm_port_knows_end(port, channel);
    struct umfi_message m = {
        .service = htole64(ep->port->service),
        .address = ep->src.sin_addr.s_addr,
        .port = ep->src.sin_port,
    };
    struct umfi_conn *conn = umfi_conn_open(port, channel, call->mac, ep);
    int ret;

    if (!conn) {
        umfi_ep_fail_connecting(ep, ended ? FI_ECONNRESET : FI_ENOMEM, NULL, 0);
        return;
    }
    ret = umfi_conn_send_message(conn, &m, UMFI_REQUEST, call->data, call->len);
    if (ret) {
        umfi_conn_free(conn, -ret);
    }
}

/* The channel for a request: the request goes, unless the EP or the port has gone meanwhile. */
static void request_channel_opened(struct umfi_call *call, int channel)
{
    struct umfi_cm_port *port = call->cm_port;
    struct umfi_ep *ep = umfi_call_release_ep(call);

    port->calling--;
    if (ep && channel >= 0 && !port->failed) {
        send_request(port, ep, call, (unsigned)channel);
    } else if (channel >= 0) {
        umfi_cm_port_end_channel(port, (unsigned)channel);
        channel = -FI_EIO;
    }
    if (ep && channel < 0) {
        umfi_ep_fail_connecting(ep, -channel, NULL, 0);
    }
    end_unused_port(port);
}

static bool is_connecting(const struct umfi_ep *ep)
{
    bool connecting;

    umfi_lock(ep->domain);
    connecting = ep->state == UMFI_CONNECTING;
    umfi_unlock(ep->domain);
    return connecting;
}

int umfi_cm_connect(struct umfi_ep *ep, const struct sockaddr_in *to, const void *data,
                    size_t len)
{
    struct umfi_fabric *fabric = ep->domain->fabric;
    struct umfi_call *call;
    int ret;

    sys_lock_take(&fabric->lock);
    ret = umfi_ep_begin_connecting(ep, false);
    if (ret) {
        sys_lock_drop(&fabric->lock);
        return ret;
    }
    ep->dst = *to;
    call = umfi_call_create(ep, data, len, request_channel_opened);
    ret = call ? get_request_port(fabric) : -FI_ENOMEM;
    if (!is_connecting(ep)) {
        /* Another thread has closed the EP while the port was opened. */
        free(call);
        sys_lock_drop(&fabric->lock);
        return -FI_EOPBADSTATE;
    }
    if (ret) {
        /* The queue has all errors of requests; fi_connect() has begun one. */
        free(call);
        umfi_ep_fail_connecting(ep, -ret, NULL, 0);
    } else {
        call->cm_port = fabric->request_port;
        call->card_ep = fabric->request_port->ep;
        call->to = to->sin_addr;
        call->service = UMFI_CM_SERVICE | ntohs(to->sin_port);
        fabric->request_port->calling++;
        ep->call = call;
        umfi_call_begin(call);
    }
    sys_lock_drop(&fabric->lock);
    return 0;
}
