/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Progress of connections: completions of CM ports, calls of peers, times that are over.
 *
 * Lifetime: each function that takes a message or an end may end the conn, and the end of the
 * last conn its port: loops over conns and ports read the next one first.
 *
 * All functions are called under the fabric's lock, and none waits for a peer.
 */
#include "cm.h"

#include <endian.h>
#include <poll.h>
#include <string.h>

static void handle_message(struct umfi_conn *conn, const struct umfi_message *m, size_t len)
{
    bool good = umfi_message_is_sound(m, len);

    if (good) {
        switch (le16toh(m->type)) {
        case UMFI_REQUEST:
            good = umfi_cm_handle_request(conn, m);
            break;
        case UMFI_ACCEPT:
            good = umfi_cm_handle_accept(conn, m);
            break;
        case UMFI_REJECT:
            good = umfi_cm_handle_reject(conn, m);
            break;
        default:
            good = umfi_message_not_expected(m);
        }
    }
    if (!good) {
        umfi_conn_drop(conn, FI_ECONNABORTED);
    }
}

/* A peer may hang up before its card acknowledges our answer: CLOSED says how the answer ends. */
static void handle_completion(struct umfi_conn *conn, const struct unetmm_completion *c,
                              const struct umfi_message *m)
{
    bool answered = conn->state == UMFI_CONN_ANSWERED, taken;

    if (c->type == UNETMM_CQE_RECEIVED && !c->is_inline) {
        handle_message(conn, m, c->len);
    } else if (c->type != UNETMM_CQE_BUFFER && !(answered && c->type == UNETMM_CQE_SENT)) {
        /* A request that failed, the end, a write, or a message of no type of ours */
        UMFI_INFO(FI_LOG_EP_CTRL, "the channel of a request has ended: %s\n",
                  unetmm_status_str(c->status));
        taken = answered && c->type == UNETMM_CQE_CLOSED && c->status == UNETMM_ST_BAD_CHANNEL;
        umfi_conn_drop(conn, taken ? 0 : umfi_connection_error(c->status));
    }
}

/* fi_connect() takes another endpoint, a listener does not. */
static void tell_failed(struct umfi_cm_port *port)
{
    struct umfi_pep *pep = port->pep;

    if (pep && !port->told) {
        UMFI_WARN(FI_LOG_EP_CTRL, "port %u gets no more requests: call fi_listen() again, "
                  "or close the passive endpoint\n", ntohs(pep->address.sin_port));
        port->told = umfi_eq_push_event(pep->eq, 0, &pep->fid.fid, FI_EIO, NULL, NULL, 0) !=
            -FI_ENOMEM;
    }
}

/*
 * Takes at most as many completions and calls as the queue and the backlog have room for, so
 * that peers which go on sending and calling do not keep the lock from other threads.
 */
void umfi_cm_port_progress(struct umfi_cm_port *port)
{
    unsigned taken = 0, calls = 0;
    struct unetmm_completion c;

    sys_assert_held(&port->fabric->lock);
    umfi_cm_port_post_refused(port);
    while (taken++ < UMFI_CM_COMPLETIONS && calls < UMFI_CM_BACKLOG &&
           umfi_cm_port_poll(port, &c)) {
        struct umfi_conn *conn = umfi_cm_port_find_conn(port, c.channel);
        struct umfi_message m = { 0 };

        /* Only of a send that has failed can a completion be behind the channel's end. */
        if (!conn && !umfi_cm_port_knows_end(port, c.channel) && c.type != UNETMM_CQE_SENT) {
            calls += umfi_cm_accept_callers(port);
            conn = umfi_cm_port_find_conn(port, c.channel);
        }
        if (c.type == UNETMM_CQE_CLOSED) {
            umfi_cm_port_take_end(port, c.channel);
        }
        /* The buffer is the card's again before the message is believed. */
        umfi_cm_port_copy_message(port, &c, &m);
        if (conn) {
            handle_completion(conn, &c, &m);
        }
    }
    if (port->failed) {
        umfi_cm_port_drop_conns(port);
        tell_failed(port);
    }
}

static void neighbour_found(void *fabric, struct in_addr address, const uint8_t *mac)
{
    umfi_cm_check_aside(fabric, address);
}

void umfi_cm_progress(struct umfi_fabric *fabric)
{
    struct pollfd waiting[] = {
        { .fd = unetmm_ctx_fd(fabric->ctx), .events = POLLPRI },
        { .fd = fabric->neighbours, .events = POLLIN },
    };
    bool ready = poll(waiting, 2, 0) > 0, arrived = ready && waiting[0].revents;
    struct umfi_cm_port *cm_port;
    struct umfi_port *port;

    sys_assert_held(&fabric->lock);
    if (ready && waiting[1].revents) {
        umfi_neighbours_read(fabric->neighbours, &fabric->dev, neighbour_found, fabric);
    }
    umfi_for_each(cm_port, &fabric->cm_ports, node) {
        if (arrived) {
            umfi_cm_accept_callers(cm_port);
        }
        umfi_cm_port_progress(cm_port);
        umfi_cm_port_end_late_conns(cm_port);
        if (cm_port->listens && !cm_port->pep) {
            umfi_cm_port_end_unneeded_conns(cm_port);
        }
    }
    umfi_for_each(port, &fabric->ports, node) {
        if (arrived) {
            umfi_arrivals_accept(port);
        }
        umfi_lock(port->domain);
        umfi_port_progress(port);
        umfi_unlock(port->domain);
        /* Behind the answers that name some. */
        umfi_arrivals_end_unwanted(port);
    }
}

int umfi_cm_arm_ports(struct umfi_fabric *fabric)
{
    struct umfi_cm_port *port;

    sys_assert_held(&fabric->lock);
    umfi_for_each(port, &fabric->cm_ports, node) {
        /* Arming empties the descriptor, also of a port that will have nothing more. */
        if (unetmm_arm(port->ep) && !port->failed) {
            return 1;
        }
    }
    return 0;
}
