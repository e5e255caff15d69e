/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The end of requests for connections: by their peers, in time, with the program's objects.
 *
 * Lifetime: all conns of a CM port end before the port, and all CM ports before the fabric.
 * The event of a request whose peer has gone leaves the event queue: no number of peers fills
 * that queue.
 *
 * All functions are called under the fabric's lock, but umfi_cm_close().
 */
#include "cm.h"

#include <stdlib.h>

void umfi_conn_drop(struct umfi_conn *conn, int error)
{
    sys_assert_held(&conn->port->fabric->lock);
    if (conn->state == UMFI_CONN_ORPHANED) {
        return;
    }
    if (conn->state == UMFI_CONN_REQUESTED &&
        (conn->ep || !umfi_eq_withdraw_request(conn->port->pep->eq, &conn->fid))) {
        /* The program has the handle. */
        umfi_conn_set_state(conn, UMFI_CONN_ORPHANED);
        return;
    }
    umfi_conn_free(conn, error);
}

/* The card has stopped the port. */
void umfi_cm_port_drop_conns(struct umfi_cm_port *port)
{
    struct umfi_conn *conn;

    sys_assert_held(&port->fabric->lock);
    umfi_for_each(conn, &port->conns, node) {
        umfi_conn_drop(conn, FI_EIO);
    }
}

/* Why a conn ends whose time is over, by its state; NULL: the state has no limit of time. */
static const char *const late[UMFI_CONN_STATES] = {
    [UMFI_CONN_REQUESTING] = "the peer's program has not answered",
    [UMFI_CONN_ASIDE] = "no card has the address in it",
    [UMFI_CONN_ANSWERED] = "its sender has not taken the answer",
};

void umfi_cm_port_end_late_conns(struct umfi_cm_port *port)
{
    int64_t now = umfi_now_ms();
    struct umfi_conn *conn;

    sys_assert_held(&port->fabric->lock);
    umfi_for_each(conn, &port->conns, node) {
        if (late[conn->state] && now >= conn->until_ms) {
            UMFI_INFO(FI_LOG_EP_CTRL, "a request ends: %s\n", late[conn->state]);
            umfi_conn_free(conn, FI_ETIMEDOUT);
        }
    }
}

static bool is_accepting(const struct umfi_ep *ep)
{
    bool accepting;

    umfi_lock(ep->domain);
    accepting = ep->state == UMFI_ACCEPTING;
    umfi_unlock(ep->domain);
    return accepting;
}

/*
 * A port whose PEP was closed: only connectors keep it that have their answer, or are to
 * have it, and of which the acceptor does not know yet whether they take it.
 */
void umfi_cm_port_end_unneeded_conns(struct umfi_cm_port *port)
{
    struct umfi_conn *conn;

    sys_assert_held(&port->fabric->lock);
    umfi_for_each(conn, &port->conns, node) {
        if (!conn->ep || (!conn->ep->call && !is_accepting(conn->ep))) {
            umfi_conn_free(conn, 0);
        }
    }
    if (umfi_list_is_empty(&port->conns)) {
        umfi_cm_port_free(port);
    }
}

void umfi_cm_port_end(struct umfi_cm_port *port)
{
    sys_assert_held(&port->fabric->lock);
    while (!umfi_list_is_empty(&port->conns)) {
        umfi_conn_free(umfi_of(port->conns.next, struct umfi_conn, node), FI_EIO);
    }
    umfi_cm_port_free(port);
}

void umfi_cm_close(struct umfi_fabric *fabric)
{
    sys_lock_take(&fabric->lock);
    while (!umfi_list_is_empty(&fabric->cm_ports)) {
        umfi_cm_port_end(umfi_of(fabric->cm_ports.next, struct umfi_cm_port, node));
    }
    sys_lock_drop(&fabric->lock);
}

void umfi_cm_abandon_ep(struct umfi_ep *ep)
{
    struct umfi_conn *conn = ep->conn;
    struct umfi_message m = { 0 };

    sys_assert_held(&ep->domain->fabric->lock);
    if (ep->call) {
        ep->call->ep = NULL;
        ep->call = NULL;
    }
    if (!conn) {
        return;
    }
    if (conn->state == UMFI_CONN_REQUESTING) {
        umfi_conn_free(conn, 0);
    } else if (conn->state == UMFI_CONN_ANSWERED) {
        conn->ep = NULL;
        ep->conn = NULL;
    } else {
        umfi_conn_send_answer(conn, &m, UMFI_REJECT, NULL, 0);
    }
}
