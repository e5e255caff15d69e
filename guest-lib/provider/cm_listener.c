/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The listener: fi_listen(), and the end of listening.
 *
 * Lifetime: a PEP has a CM port from fi_listen() until it is closed.  Connectors that
 * were accepted keep the port after that, until they have taken the connection, in time.  When
 * the card has stopped the port, the next fi_listen() gives the PEP another port, and the new
 * port takes the requests that the program knows.
 */
#include "cm.h"

#include <errno.h>
#include <unistd.h>

#define PORT_FIRST      32768u  /* that a PEP without a port gets */
#define PORT_COUNT      28232u

int umfi_cm_unlisten(struct umfi_pep *pep)
{
    int64_t until = umfi_now_ms() + umfi_config.connect_ms;
    struct umfi_cm_port *port;
    struct umfi_conn *conn;

    sys_lock_take(&pep->fabric->lock);
    if (pep->begins) {
        sys_lock_drop(&pep->fabric->lock);
        return -FI_EBUSY;
    }
    port = pep->port;
    if (port) {
        umfi_cm_port_progress(port);
        umfi_for_each(conn, &port->conns, node) {
            conn->until_ms = conn->until_ms < until ? conn->until_ms : until;
        }
        unetmm_listen(port->ep, 0, 1);
        pep->port = NULL;
        port->pep = NULL;
        umfi_cm_port_end_unneeded_conns(port);
    }
    sys_lock_drop(&pep->fabric->lock);
    return 0;
}

/*
 * Moves the requests that the program knows from a port that the card has stopped to the next
 * port.  These requests have ended, and stay until the program answers them, because no other
 * request may get their handles.
 */
static void adopt_conns(struct umfi_cm_port *port, struct umfi_cm_port *old)
{
    struct umfi_conn *conn;

    umfi_for_each(conn, &old->conns, node) {
        umfi_list_del(&conn->node);
        umfi_list_add(&port->conns, &conn->node);
        conn->port = port;
    }
    umfi_cm_port_free(old);
}

/* Takes the port from its PEP, which may listen again. */
static void abandon_port(struct umfi_cm_port *port)
{
    port->failed = port->told = true;
    if (umfi_list_is_empty(&port->conns)) {
        port->pep->port = NULL;
        umfi_cm_port_free(port);
    }
}

/* A request that comes at once has the PEP's address as it is then. */
static void set_number(struct umfi_pep *pep, unsigned number)
{
    sys_lock_take(&pep->fabric->lock);
    pep->address.sin_port = htons((uint16_t)number);
    sys_lock_drop(&pep->fabric->lock);
}

/* Under no lock: many numbers may be taken.  `number` 0: any */
static int listen_at(struct umfi_cm_port *port, unsigned number)
{
    const struct unetmm_channel_attr attr = umfi_channel_attr();
    unsigned tries = PORT_COUNT;
    bool any = !number;
    int ret;

    do {
        if (any) {
            number = PORT_FIRST + ((unsigned)getpid() * 61 + tries) % PORT_COUNT;
            set_number(port->pep, number);
        }
        ret = unetmm_listen_ex(port->ep, UMFI_CM_SERVICE | number, UMFI_CM_BACKLOG, &attr);
    } while (any && ret == -EADDRINUSE && --tries);
    if (ret) {
        UMFI_WARN(FI_LOG_EP_CTRL, "port %u: %s\n", number,
                  unetmm_strerror(ret, UNETMM_CALL_LISTEN));
    }
    if (ret && any) {
        set_number(port->pep, 0);
    }
    return ret;
}

/* Gives the PEP a port.  Returns the number to listen at. */
static unsigned use_port(struct umfi_pep *pep, struct umfi_cm_port *port)
{
    unsigned number;

    sys_lock_take(&pep->fabric->lock);
    if (pep->port) {
        adopt_conns(port, pep->port);
    }
    umfi_list_add(&pep->fabric->cm_ports, &port->node);
    pep->port = port;
    number = ntohs(pep->address.sin_port);
    sys_lock_drop(&pep->fabric->lock);
    return number;
}

int umfi_cm_listen(struct umfi_pep *pep)
{
    struct umfi_cm_port *port = NULL;
    bool listens;
    int ret;

    sys_lock_take(&pep->fabric->lock);
    listens = pep->begins || (pep->port && !pep->port->told);
    pep->begins = pep->begins || !listens;
    sys_lock_drop(&pep->fabric->lock);
    if (listens) {
        return -FI_EOPBADSTATE;
    }
    ret = umfi_cm_port_open(pep->fabric, pep, &port);
    if (!ret) {
        ret = listen_at(port, use_port(pep, port));
    }
    sys_lock_take(&pep->fabric->lock);
    pep->begins = false;
    if (ret && port) {
        abandon_port(port);
    }
    sys_lock_drop(&pep->fabric->lock);
    return ret;
}
