/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The accepting side: requests of peers, fi_accept() and fi_reject().
 *
 * The address in a REQUEST is checked by the kernel's neighbour table.  If the kernel has to ask
 * for that address first, the request is put aside until the table has an entry of the address,
 * for connect_ms at most, and others go on.
 *
 * Lifetime: a peer's request is a conn, whose handle the program has from FI_CONNREQ until its
 * answer.  fi_accept() begins a call (cm_caller.c) for the data channel, and does not wait; the
 * answer goes when the call has ended.  If the EP is closed meanwhile the data channel ends
 * when it comes.
 */
#include "cm.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#define REFUSED_MS      100     /* of umfi_cm_accept() */

unsigned umfi_cm_accept_callers(struct umfi_cm_port *port)
{
    struct unetmm_peer peer;
    unsigned n = 0;

    sys_assert_held(&port->fabric->lock);
    while (port->pep && n < UMFI_CM_BACKLOG && unetmm_accept(port->ep, &peer, 0) >= 0) {
        n++;
        umfi_conn_make_room(port, peer.mac);
        umfi_conn_open(port, peer.channel, peer.mac, NULL);
    }
    return n;
}

/* The program gets the request, whose address is the peer's. */
static bool push_request(struct umfi_conn *conn, const struct umfi_message *m)
{
    struct umfi_pep *pep = conn->port->pep;
    struct fi_info *info;

    conn->service = le64toh(m->service);
    conn->peer = (struct sockaddr_in) {
        .sin_family = AF_INET,
        .sin_port = m->port,
        .sin_addr = { m->address },
    };
    info = umfi_info_of_request(pep->info, &pep->address, &conn->peer);
    if (!info) {
        return false;
    }
    info->handle = &conn->fid;
    if (umfi_eq_push_event(pep->eq, FI_CONNREQ, &pep->fid.fid, 0, info, m->data, le16toh(m->len))) {
        return false;
    }
    umfi_conn_set_state(conn, UMFI_CONN_REQUESTED);
    return true;
}

/*
 * Programs take the address in a request for the peer's name: ofi_rxm ends the connection
 * that it has to that address.  `found`, `mac`: of umfi_find_card().
 */
static bool check_request(struct umfi_conn *conn, const struct umfi_message *m, int found,
                          const uint8_t mac[6])
{
    if (found == -FI_EAGAIN && conn->state == UMFI_CONN_CALLED) {
        umfi_conn_set_state(conn, UMFI_CONN_ASIDE);
        conn->request = *m;
        conn->until_ms = umfi_now_ms() + umfi_config.connect_ms;
    }
    if (found == -FI_EAGAIN) {
        return true;
    }
    if (found || memcmp(mac, conn->mac, sizeof(conn->mac))) {
        UMFI_WARN(FI_LOG_EP_CTRL, "a request ends: %s\n",
                  found == -FI_EACCES ? "its address is not in the subnet" :
                  found ? "the neighbour table cannot be read" : "another card has its address");
        return false;
    }
    return push_request(conn, m);
}

bool umfi_cm_handle_request(struct umfi_conn *conn, const struct umfi_message *m)
{
    uint8_t mac[6];
    int found;

    sys_assert_held(&conn->port->fabric->lock);
    /* A closed PEP keeps only the requests that it has answered. */
    if (conn->state != UMFI_CONN_CALLED) {
        return umfi_message_not_expected(m);
    }
    found = umfi_find_card(&conn->port->fabric->dev, (struct in_addr) { m->address }, mac);
    return check_request(conn, m, found, mac);
}

void umfi_cm_check_aside(struct umfi_fabric *fabric, struct in_addr address)
{
    bool all = address.s_addr == INADDR_ANY, asked = false;
    struct umfi_cm_port *port;
    struct umfi_conn *conn;
    uint8_t mac[6];
    int found = 0;

    sys_assert_held(&fabric->lock);
    umfi_for_each(port, &fabric->cm_ports, node) {
        umfi_for_each(conn, &port->conns, node) {
            if (conn->state != UMFI_CONN_ASIDE ||
                (!all && conn->request.address != address.s_addr)) {
                continue;
            }
            /* Changes may have been waiting for long: the table has the last word. */
            if (all || !asked) {
                found = umfi_find_card(&fabric->dev, (struct in_addr) { conn->request.address },
                                       mac);
                /* The process has no descriptor left for the question: it is asked again. */
                found = found == -FI_EIO ? -FI_EAGAIN : found;
            }
            asked = true;
            if (!check_request(conn, &conn->request, found, mac)) {
                umfi_conn_drop(conn, 0);
            }
        }
    }
}

bool umfi_cm_assign_request(struct umfi_fabric *fabric, fid_t handle, struct umfi_ep *ep)
{
    struct umfi_conn *conn;

    sys_lock_take(&fabric->lock);
    conn = umfi_conn_find(fabric, handle);
    if (conn && conn->ep) {
        conn = NULL;
    }
    if (conn) {
        conn->ep = ep;
        ep->conn = conn;
        ep->dst = conn->peer;
    }
    sys_lock_drop(&fabric->lock);
    return conn;
}

/* The data channel is there, or the connector was not reached: tells the connector. */
static void data_channel_opened(struct umfi_call *call, int channel)
{
    struct umfi_ep *ep = umfi_call_release_ep(call);
    struct umfi_message m = { 0 };
    struct umfi_conn *conn;
    bool lives = channel >= 0;

    if (!ep) {
        if (lives) {
            umfi_port_drop_channel(call->port, (unsigned)channel);
        }
        return;
    }
    conn = ep->conn;
    umfi_lock(ep->domain);
    if (lives) {
        m.endpoint = htole32((uint32_t)unetmm_ep_id(call->card_ep));
        m.channel = htole32((uint32_t)channel);
        lives = umfi_ep_begin_accepting(ep, (unsigned)channel);
    } else {
        /* FI_ECONNREFUSED is an answer to a request. */
        int error = channel == -FI_ECONNREFUSED ? FI_ECONNABORTED : -channel;

        UMFI_WARN(FI_LOG_EP_CTRL, "accepting: %s\n", fi_strerror(error));
        umfi_ep_fail_accepting(ep, error);
    }
    if (!conn && lives) {
        /* The listener has gone. */
        umfi_ep_fail_accepting(ep, FI_ECONNABORTED);
    }
    umfi_unlock(ep->domain);
    if (conn) {
        umfi_conn_send_answer(conn, &m, lives ? UMFI_ACCEPT : UMFI_REJECT, call->data,
                              lives ? call->len : 0);
    }
}

/*
 * The connector listens before it asks, so the driver's answer that no process listens is
 * final, unless the backlog is full.  The time is short because each peer chooses the service
 * that it names.
 */
static void call_connector(struct umfi_call *call, struct umfi_conn *conn)
{
    struct umfi_ep *ep = call->ep;

    call->card_ep = ep->port->ep;
    call->port = ep->port;
    call->to = conn->peer.sin_addr;
    memcpy(call->mac, conn->mac, sizeof(call->mac));
    call->has_mac = true;
    call->service = conn->service;
    call->first_ms = REFUSED_MS;
    ep->call = call;
    umfi_call_begin(call);
}

int umfi_cm_accept(struct umfi_ep *ep, const void *data, size_t len)
{
    struct umfi_fabric *fabric = ep->domain->fabric;
    struct umfi_call *call = umfi_call_create(ep, data, len, data_channel_opened);
    int ret = -FI_ECONNABORTED;

    if (!call) {
        return -FI_ENOMEM;
    }
    sys_lock_take(&fabric->lock);
    if (ep->conn && ep->conn->state == UMFI_CONN_REQUESTED && !umfi_ep_begin_connecting(ep, true)) {
        call_connector(call, ep->conn);
        ret = 0;
    }
    sys_lock_drop(&fabric->lock);
    if (ret) {
        free(call);
    }
    return ret;
}

int umfi_cm_reject(struct umfi_pep *pep, fid_t handle, const void *data, size_t len)
{
    struct umfi_message m = { 0 };
    struct umfi_conn *conn;
    int ret = -FI_EINVAL;

    sys_lock_take(&pep->fabric->lock);
    conn = umfi_conn_find(pep->fabric, handle);
    if (conn && conn->port->pep == pep) {
        ret = 0;
        umfi_conn_send_answer(conn, &m, UMFI_REJECT, data, len);
    }
    sys_lock_drop(&pep->fabric->lock);
    return ret;
}
