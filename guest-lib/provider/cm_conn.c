/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Conns: a channel of a CM port each, for one request for a connection.
 *
 * Lifetime:
 *
 *   connector   NEW -> REQUESTING -> ENDED
 *   acceptor    NEW -> CALLED -> [ASIDE ->] REQUESTED -> ANSWERED -> ENDED
 *                                               +-> ORPHANED ------^
 *
 * A connector's conn begins when the peer's driver has given the channel, and ends with the
 * answer.  An acceptor's conn begins with the channel that a peer opens.  From FI_CONNREQ on the
 * program has the conn's handle, so the conn stays, also without its channel, until the program
 * has answered; then until the peer has taken the answer, in time.  The end of the channel and
 * that of the CM port end a conn earlier, from each state (cm_ending.c).  umfi_conn_set_state() has
 * the table of transitions; it counts the port's idle conns, and ends the channel.
 *
 * An EP has a conn from its request, or from the opening for a peer's request, until the conn
 * ends or the EP is closed: each of the two then forgets the other.
 *
 * All functions are called under the fabric's lock.
 */
#include "cm.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define PROGRAM_TIMES   10      /* connect_ms: the peer's program may look late at its queue */

#define TO(state)   (1u << UMFI_CONN_##state)

/* The states that each state may be followed by */
static const unsigned followers[UMFI_CONN_STATES] = {
    [UMFI_CONN_NEW] = TO(REQUESTING) | TO(CALLED),
    [UMFI_CONN_REQUESTING] = TO(ENDED),
    [UMFI_CONN_CALLED] = TO(ASIDE) | TO(REQUESTED) | TO(ENDED),
    [UMFI_CONN_ASIDE] = TO(REQUESTED) | TO(ENDED),
    [UMFI_CONN_REQUESTED] = TO(ORPHANED) | TO(ANSWERED) | TO(ENDED),
    [UMFI_CONN_ORPHANED] = TO(ENDED),
    [UMFI_CONN_ANSWERED] = TO(ENDED),
};

/* An acceptor's conn that only the peer could go on with, and the peer need not. */
static bool is_idle(const struct umfi_conn *conn)
{
    return (TO(CALLED) | TO(ASIDE) | TO(ANSWERED)) >> conn->state & 1;
}

/* When the time is over that the peer's program has. */
static int64_t program_deadline(void)
{
    return umfi_now_ms() + (int64_t)PROGRAM_TIMES * umfi_config.connect_ms;
}

void umfi_conn_set_state(struct umfi_conn *conn, enum umfi_conn_state state)
{
    bool orphaned = conn->state == UMFI_CONN_ORPHANED, was_idle = is_idle(conn);
    bool asked = conn->state == UMFI_CONN_REQUESTING;

    sys_assert_held(&conn->port->fabric->lock);
    assert(followers[conn->state] >> state & 1);
    conn->state = state;
    conn->port->idle += (unsigned)is_idle(conn) - was_idle;
    conn->counts->idle += (unsigned)is_idle(conn) - was_idle;
    conn->counts->requests += (unsigned)(state == UMFI_CONN_REQUESTING) - asked;
    if (state == UMFI_CONN_ORPHANED || (state == UMFI_CONN_ENDED && !orphaned)) {
        umfi_cm_port_end_channel(conn->port, conn->channel);
    }
}

struct umfi_conn *umfi_conn_open(struct umfi_cm_port *port, unsigned channel,
                                 const uint8_t mac[6], struct umfi_ep *ep)
{
    bool ended = umfi_cm_port_knows_end(port, channel);
    struct umfi_conn *conn = ended ? NULL : calloc(1, sizeof(*conn));
    const void *of = ep ? (void *)ep->port : port;

    sys_assert_held(&port->fabric->lock);
    if (conn) {
        conn->counts = umfi_peer_get(port->fabric, of, umfi_card_id(mac));
    }
    if (!conn || !conn->counts) {
        umfi_cm_port_end_channel(port, channel);
        free(conn);
        return NULL;
    }
    conn->fid.fclass = FI_CLASS_CONNREQ;
    conn->port = port;
    conn->channel = channel;
    conn->ep = ep;
    conn->until_ms = program_deadline();
    memcpy(conn->mac, mac, 6);
    port->by_channel[channel] = conn;
    umfi_list_add(&port->conns, &conn->node);
    if (ep) {
        ep->conn = conn;
    }
    umfi_conn_set_state(conn, ep ? UMFI_CONN_REQUESTING : UMFI_CONN_CALLED);
    return conn;
}

void umfi_ep_fail_connecting(struct umfi_ep *ep, int error, const void *data, size_t len)
{
    sys_assert_held(&ep->domain->fabric->lock);
    UMFI_INFO(FI_LOG_EP_CTRL, "port %u: %s\n", ntohs(ep->dst.sin_port), fi_strerror(error));
    umfi_lock(ep->domain);
    umfi_ep_set_state(ep, UMFI_IDLE);
    umfi_unlock(ep->domain);
    umfi_ep_push_event(ep, 0, error, data, len);
}

/* The connector has taken the channel of the acceptor's EP, or (`error`) will not. */
static void settle_acceptor(struct umfi_ep *ep, int error)
{
    umfi_lock(ep->domain);
    if (ep->state == UMFI_ACCEPTING && !error) {
        umfi_ep_connected(ep, NULL, 0);
    } else if (ep->state == UMFI_ACCEPTING) {
        umfi_ep_fail_accepting(ep, error);
    }
    umfi_unlock(ep->domain);
}

void umfi_conn_free(struct umfi_conn *conn, int error)
{
    bool asks = conn->state == UMFI_CONN_REQUESTING;

    umfi_conn_set_state(conn, UMFI_CONN_ENDED);
    if (conn->ep) {
        conn->ep->conn = NULL;
        if (!asks) {
            settle_acceptor(conn->ep, error);
        } else if (error) {
            umfi_ep_fail_connecting(conn->ep, error, NULL, 0);
        }
    }
    umfi_list_del(&conn->node);
    umfi_peer_put(conn->port->fabric, conn->counts);
    free(conn);
}

/*
 * Makes room for one more idle conn, of that card.  Idle conns have at most half of the listener's
 * channels, so that other callers find a channel.  A conn goes that has no EP of this process, if there
 * is one: of these the oldest of the card that would have the most, so that no card takes places of
 * others beyond an equal share.
 */
void umfi_conn_make_room(struct umfi_cm_port *port, const uint8_t mac[6])
{
    struct umfi_conn *conn, *victim = NULL;
    uint64_t id = umfi_card_id(mac);
    unsigned most = 0;

    sys_assert_held(&port->fabric->lock);
    if (port->idle < port->idle_most) {
        return;
    }
    umfi_for_each(conn, &port->conns, node) {
        if (is_idle(conn)) {
            unsigned share = conn->counts->idle + (conn->counts->id == id);

            if (!victim || (victim->ep && !conn->ep) ||
                (!victim->ep == !conn->ep && share > most)) {
                most = share;
                victim = conn;
            }
        }
    }
    UMFI_INFO(FI_LOG_EP_CTRL, "%u callers are idle, %u of one card: the oldest of these ends\n",
              port->idle, victim->counts->idle);
    umfi_conn_free(victim, FI_ECONNABORTED);
}

void umfi_conn_send_answer(struct umfi_conn *conn, struct umfi_message *m,
                           enum umfi_message_type type, const void *data, size_t len)
{
    sys_assert_held(&conn->port->fabric->lock);
    if (conn->state == UMFI_CONN_ORPHANED) {
        umfi_conn_free(conn, FI_ECONNABORTED);
        return;
    }
    if (conn->ep && type != UMFI_ACCEPT) {
        conn->ep->conn = NULL;
        conn->ep = NULL;
    }
    umfi_conn_make_room(conn->port, conn->mac);
    umfi_conn_set_state(conn, UMFI_CONN_ANSWERED);
    conn->until_ms = conn->port->pep ? program_deadline() : umfi_now_ms() + umfi_config.connect_ms;
    if (umfi_conn_send_message(conn, m, type, data, len)) {
        umfi_conn_free(conn, FI_ECONNABORTED);
    }
}

struct umfi_conn *umfi_conn_find(struct umfi_fabric *fabric, fid_t handle)
{
    struct umfi_cm_port *port;
    struct umfi_conn *conn;

    sys_assert_held(&fabric->lock);
    umfi_for_each(port, &fabric->cm_ports, node) {
        umfi_for_each(conn, &port->conns, node) {
            if (&conn->fid == handle && (conn->state == UMFI_CONN_REQUESTED ||
                                         conn->state == UMFI_CONN_ORPHANED)) {
                return conn;
            }
        }
    }
    return NULL;
}

/* An EP that was opened for a peer's request makes none itself. */
int umfi_ep_begin_connecting(struct umfi_ep *ep, bool accepts)
{
    int ret = -FI_EISCONN;

    sys_assert_held(&ep->domain->fabric->lock);
    umfi_lock(ep->domain);
    if (ep->state == UMFI_IDLE && accepts == (ep->conn && ep->conn->port->listens)) {
        ret = ep->port->failed ? -FI_EIO : 0;
    }
    if (!ret) {
        umfi_ep_set_state(ep, UMFI_CONNECTING);
        /* A program that sleeps at the queue already is to see how this ends. */
        umfi_eq_set_timer(ep->eq);
    }
    umfi_unlock(ep->domain);
    return ret;
}

struct umfi_call *umfi_call_create(struct umfi_ep *ep, const void *data, size_t len,
                                   void (*called)(struct umfi_call *call, int channel))
{
    struct umfi_call *call = calloc(1, sizeof(*call));

    if (call) {
        call->fabric = ep->domain->fabric;
        call->ep = ep;
        call->called = called;
        call->first_ms = call->most_ms = umfi_config.connect_ms;
        /* umfi_conn_send_message() cuts the data to the same length. */
        call->len = len < sizeof(call->data) ? len : sizeof(call->data);
        if (call->len) {
            memcpy(call->data, data, call->len);
        }
    }
    return call;
}

struct umfi_ep *umfi_call_release_ep(struct umfi_call *call)
{
    sys_assert_held(&call->fabric->lock);
    if (call->ep) {
        call->ep->call = NULL;
    }
    return call->ep;
}
