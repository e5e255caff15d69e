/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Connection management.
 *
 * A request goes over a channel of its own between two CM ports:
 *
 *   connector                                         acceptor
 *     channel to the PEP's service  ---------------->   a conn
 *     REQUEST, service of its data port  ----------->   FI_CONNREQ
 *       data channel  <------------------------------   fi_accept()
 *     FI_CONNECTED  <--  ACCEPT, its endpoint, channel
 *     ends the CM channel  ------------------------->   FI_CONNECTED
 *
 * or REJECT comes back.  The acceptor makes the data channel because it alone
 * knows to which of its ports the connection belongs.  A shared port may have
 * several channels on their way from one peer: ACCEPT names the one that is meant by
 * the acceptor's endpoint and channel.
 *
 * A thread opens each of the two channels (caller.c), since the peer's driver has to answer:
 * fi_connect() and fi_accept() do not wait for it.
 *
 * The acceptor sends nothing before the connector has taken the channel, so that a
 * stranger's message is not taken for the acceptor's (port.c).  The end of the CM channel
 * says so, or the first message of the connector.
 *
 * Peers are not trusted: the length, the numbers and the type of a message are
 * checked, and a wrong one ends its channel.  The address in a REQUEST is checked by the
 * kernel's neighbour table.  If the kernel has to ask for that address first, the request
 * is put aside until the table has changed, for connect_ms at most, and others go on.
 * The event of a request whose peer has gone leaves the event queue: no number of peers
 * fills that queue.
 */
#include "provider.h"

#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define SERVICE_BASE    0x756d666900000000ull   /* with a port: a PEP */
#define MAGIC           0x69666d75u             /* "umfi" */
#define BACKLOG         64
#define BUFFERS         64u
#define BUFFER_BYTES    256u
#define COMPLETIONS     1024u
#define REFUSED_MS      100     /* of umfi_cm_accept() */
#define ANSWERED_TIMES  10      /* connect_ms: a connector may look late at its queue */
#define PORT_FIRST      32768u  /* that a PEP without a port gets */
#define PORT_COUNT      28232u

enum type { REQUEST = 1, ACCEPT, REJECT };

/* Little-endian; longer than a message that arrives inside of its completion. */
struct message {
    uint32_t magic;
    uint16_t version;
    uint16_t type;
    uint64_t service;           /* REQUEST: of the connector's data port */
    uint32_t endpoint;          /* ACCEPT: the acceptor's ... */
    uint32_t channel;           /* ... of the card, and channel of it */
    uint32_t address;           /* REQUEST: the connector's, in network order */
    uint16_t port;
    uint16_t len;
    uint8_t data[UMFI_CM_DATA];
};

struct umfi_cm_port {
    struct umfi_list node;      /* fabric.cm_ports */
    struct umfi_list conns;
    struct umfi_fabric *fabric;
    bool listens;               /* or has listened; else it is the fabric's own */
    struct umfi_pep *pep;       /* NULL: the fabric's own, or the PEP was closed */
    struct unetmm_ep *ep;
    struct umfi_conn **by_channel;
    uint8_t *buffers;
    uint64_t refused;               /* buffers that the library has not taken */
    unsigned idle, idle_most;       /* callers: is_idle() */
    unsigned calling;               /* calls that use it without the lock */
    bool failed;                    /* the card stopped the endpoint */
    bool told;                      /* the program knows */
};

struct umfi_conn {
    struct fid fid;             /* the handle in FI_CONNREQ's info */
    struct umfi_list node;      /* port.conns */
    struct umfi_cm_port *port;
    struct umfi_ep *ep;         /* that asks, or is to answer */
    unsigned channel;
    bool open;                  /* its channel */
    bool closed;                /* its CQE_CLOSED has come */
    bool requested;             /* acceptor: REQUEST has come */
    bool answered;              /* acceptor: the peer is to end the channel */
    bool accepted;              /* the answer, to be given or given, is ACCEPT */
    bool hung_up;               /* by the peer, which may not have read our answer */
    bool aside;                 /* acceptor: the kernel asks for the address in `request` */
    uint8_t mac[6];
    uint64_t service;
    /* aside: of the kernel's answer.  answered: the peer is to end the channel until then. */
    int64_t until_ms;
    struct sockaddr_in peer;
    struct message request;
};

/* ---- Completions, under the fabric's lock ---------------------------------- */

static bool take_completion(struct umfi_cm_port *port, struct unetmm_completion *c)
{
    int n;

    n = port->failed ? 0 : unetmm_poll(port->ep, c, 1);
    if (n < 0) {
        UMFI_WARN(FI_LOG_EP_CTRL, "the endpoint for connections has stopped: %s\n",
                  unetmm_strerror(n, UNETMM_CALL_POLL));
        port->failed = true;
    }
    return n > 0;
}

/* NULL: the channel is nobody's. */
static struct umfi_conn *conn_of(const struct umfi_cm_port *port, unsigned channel)
{
    return channel < port->fabric->dev.card.channels ? port->by_channel[channel] : NULL;
}

/* A peer that has a key may write, too: that takes a buffer, and fills none. */
static bool has_buffer(const struct unetmm_completion *c)
{
    return c->type == UNETMM_CQE_BUFFER || c->type == UNETMM_CQE_WRITTEN ||
        (c->type == UNETMM_CQE_RECEIVED && !c->is_inline);
}

/* A refusal, for want of memory, is not the end: see post_refused(). */
static int post(struct umfi_cm_port *port, uint64_t buffer)
{
    int ret = unetmm_post_recv(port->ep, port->buffers + buffer * BUFFER_BYTES, BUFFER_BYTES,
                               buffer, 0);

    port->refused &= ~(1ull << buffer);
    port->refused |= (uint64_t)!!ret << buffer;
    return ret;
}

static void post_refused(struct umfi_cm_port *port)
{
    for (unsigned i = 0; i < BUFFERS && port->refused; i++) {
        if (port->refused >> i & 1) {
            post(port, i);
        }
    }
}

/*
 * The entry in by_channel of a channel that the provider has ended.  The channel's CLOSED is
 * to come, and the driver gives the number again after the port has taken that completion.
 */
static struct umfi_conn ended;

static void end_channel(struct umfi_cm_port *port, unsigned channel, bool closed)
{
    port->by_channel[channel] = closed ? NULL : &ended;
    unetmm_disconnect(port->ep, (int)channel);
}

static void take_end(struct umfi_conn *conn, const struct unetmm_completion *c)
{
    conn->closed = conn->closed || c->type == UNETMM_CQE_CLOSED;
    conn->hung_up = conn->closed && c->status == UNETMM_ST_BAD_CHANNEL &&
        conn->answered;
}

/* ---- Conns, under the fabric's lock ---------------------------------------- */

static struct umfi_conn *conn_open(struct umfi_cm_port *port, unsigned channel,
                                   const uint8_t mac[6], struct umfi_ep *ep)
{
    struct umfi_conn *conn = calloc(1, sizeof(*conn));

    if (!conn) {
        end_channel(port, channel, false);
        return NULL;
    }
    conn->fid.fclass = FI_CLASS_CONNREQ;
    conn->port = port;
    conn->channel = channel;
    conn->open = true;
    conn->ep = ep;
    memcpy(conn->mac, mac, 6);
    port->by_channel[channel] = conn;
    umfi_list_add(&port->conns, &conn->node);
    if (ep) {
        ep->conn = conn;
    }
    return conn;
}

static void conn_hang_up(struct umfi_conn *conn)
{
    if (conn->open) {
        conn->open = false;
        end_channel(conn->port, conn->channel, conn->closed);
    }
}

/*
 * A caller whose REQUEST has not come, or that is to end its channel: only the peer
 * could go on, and it need not.
 */
static bool is_idle(const struct umfi_conn *conn)
{
    return conn->port->listens && (!conn->requested || conn->answered);
}

/* The connector has taken the channel of the acceptor's EP, or will not. */
static void settle(const struct umfi_conn *conn)
{
    struct umfi_ep *ep = conn->ep;

    if (!ep || !conn->accepted) {
        return;
    }
    umfi_lock(ep->domain);
    if (ep->state == UMFI_ACCEPTING && conn->hung_up) {
        umfi_ep_connected(ep, NULL, 0);
    } else if (ep->state == UMFI_ACCEPTING) {
        umfi_ep_abort(ep);
    }
    umfi_unlock(ep->domain);
}

static void conn_free(struct umfi_conn *conn)
{
    conn_hang_up(conn);
    settle(conn);
    if (is_idle(conn)) {
        conn->port->idle--;
    }
    if (conn->ep) {
        conn->ep->conn = NULL;
    }
    umfi_list_del(&conn->node);
    free(conn);
}

/*
 * Makes room for one more idle caller.  Idle callers have at most half of the listener's
 * channels, so that other callers find a channel.  The oldest idle caller goes, if possible
 * a caller without an EP of this process.
 */
static void make_room(struct umfi_cm_port *port)
{
    struct umfi_conn *oldest = NULL;

    if (port->idle < port->idle_most) {
        return;
    }
    for (struct umfi_list *i = port->conns.next; i != &port->conns; i = i->next) {
        struct umfi_conn *conn = umfi_of(i, struct umfi_conn, node);

        if (is_idle(conn) && (!oldest || (oldest->ep && !conn->ep))) {
            oldest = conn;
        }
    }
    UMFI_INFO(FI_LOG_EP_CTRL, "%u callers are idle: the oldest one's channel ends\n",
              port->idle);
    conn_free(oldest);
}

static int conn_send(struct umfi_conn *conn, struct message *m, enum type type,
                     const void *data, size_t len)
{
    m->magic = htole32(MAGIC);
    m->version = htole16(UMFI_PROTOCOL_VERSION);
    m->type = htole16(type);
    /* Of an answer; as fi_cm(3) has it, the rest is dropped without a word. */
    len = len < sizeof(m->data) ? len : sizeof(m->data);
    m->len = htole16((uint16_t)len);
    if (len) {
        memcpy(m->data, data, len);
    }
    return unetmm_send(conn->port->ep, conn->channel, m, sizeof(*m), 0,
                       UNETMM_INLINE | UNETMM_UNSIGNALED);
}

/* ACCEPT or REJECT is the last message: the peer is to end the channel. */
static void conn_answer(struct umfi_conn *conn, struct message *m, enum type type,
                        const void *data, size_t len)
{
    conn->accepted = type == ACCEPT;
    if (!conn->open) {
        conn_free(conn);
        return;
    }
    if (conn->ep && !conn->accepted) {
        conn->ep->conn = NULL;
        conn->ep = NULL;
    }
    make_room(conn->port);
    conn->answered = true;
    conn->until_ms = umfi_now_ms() +
        (int64_t)(conn->port->pep ? ANSWERED_TIMES : 1) * umfi_config.connect_ms;
    conn->port->idle++;
    if (conn_send(conn, m, type, data, len)) {
        conn_free(conn);
    }
}

static struct umfi_conn *conn_find(struct umfi_fabric *fabric, fid_t handle)
{
    for (struct umfi_list *p = fabric->cm_ports.next; p != &fabric->cm_ports;
         p = p->next) {
        struct umfi_cm_port *port = umfi_of(p, struct umfi_cm_port, node);

        for (struct umfi_list *i = port->conns.next; i != &port->conns; i = i->next) {
            struct umfi_conn *conn = umfi_of(i, struct umfi_conn, node);

            if (&conn->fid == handle && conn->requested && !conn->answered) {
                return conn;
            }
        }
    }
    return NULL;
}

static void refuse_ep(struct umfi_ep *ep, int error, const void *data, size_t len)
{
    umfi_lock(ep->domain);
    ep->state = UMFI_IDLE;
    umfi_unlock(ep->domain);
    __atomic_sub_fetch(&ep->eq->channels, 1, __ATOMIC_RELEASE);
    umfi_eq_push(ep->eq, 0, &ep->fid.fid, error, NULL, data, len);
}

/* ---- Messages of peers ----------------------------------------------------- */

static bool is_sound(const struct message *m, size_t len)
{
    if (len != sizeof(*m) || le32toh(m->magic) != MAGIC) {
        UMFI_WARN(FI_LOG_EP_CTRL, "a wrong message of %zu bytes: the request ends\n",
                  len);
        return false;
    }
    if (le16toh(m->version) != UMFI_PROTOCOL_VERSION) {
        UMFI_WARN(FI_LOG_EP_CTRL, "the peer's provider has version %u of the messages, "
                  "this one %u: the request ends\n", le16toh(m->version),
                  UMFI_PROTOCOL_VERSION);
        return false;
    }
    if (le16toh(m->len) > UMFI_CM_DATA) {
        UMFI_WARN(FI_LOG_EP_CTRL, "a message has %u bytes of the program: the request "
                  "ends\n", le16toh(m->len));
        return false;
    }
    return true;
}

static bool not_expected(const struct message *m)
{
    UMFI_WARN(FI_LOG_EP_CTRL, "a message of type %u is not expected: the request ends\n",
              le16toh(m->type));
    return false;
}

/* The program gets the request, whose address is the peer's. */
static bool give_request(struct umfi_conn *conn, const struct message *m)
{
    struct umfi_pep *pep = conn->port->pep;
    struct fi_info *info;

    conn->service = le64toh(m->service);
    conn->peer = (struct sockaddr_in) {
        .sin_family = AF_INET,
        .sin_port = m->port,
        .sin_addr = { m->address },
    };
    info = umfi_info_alloc(&pep->fabric->dev, &pep->address, &conn->peer);
    if (!info) {
        return false;
    }
    /* libfabric sets these members in the result of fi_getinfo(); callers read them here, too. */
    info->fabric_attr->api_version = pep->fabric->fid.api_version;
    info->fabric_attr->prov_name = strdup(UMFI_NAME);
    if (!info->fabric_attr->prov_name) {
        fi_freeinfo(info);
        return false;
    }
    info->ep_attr->max_msg_size = pep->max_msg_size;
    info->handle = &conn->fid;
    conn->requested = true;
    conn->port->idle--;
    umfi_eq_push(pep->eq, FI_CONNREQ, &pep->fid.fid, 0, info, m->data,
                 le16toh(m->len));
    return true;
}

/*
 * Programs take the address in a request for the peer's name: ofi_rxm ends the connection
 * that it has to that address.
 */
static bool check_request(struct umfi_conn *conn, const struct message *m)
{
    int ret = umfi_has_address(&conn->port->fabric->dev, conn->mac,
                               (struct in_addr) { m->address });

    if (ret && ret != -FI_EAGAIN) {
        UMFI_WARN(FI_LOG_EP_CTRL, "a request has the address of another card\n");
        return false;
    }
    if (ret && !conn->aside) {
        conn->request = *m;
        conn->until_ms = umfi_now_ms() + umfi_config.connect_ms;
    }
    conn->aside = ret;
    return conn->aside || give_request(conn, m);
}

static bool take_request(struct umfi_conn *conn, const struct message *m)
{
    /* A closed PEP keeps only the requests that it has answered. */
    if (!conn->port->listens || conn->requested || conn->aside) {
        return not_expected(m);
    }
    return check_request(conn, m);
}

static bool take_accept(struct umfi_conn *conn, const struct message *m)
{
    struct umfi_ep *ep = conn->ep;
    struct umfi_arrival *arrival;
    bool closed;

    if (conn->port->listens || !ep) {
        return not_expected(m);
    }
    umfi_arrivals_take(ep->port);
    arrival = umfi_arrival_find(ep->port, conn->mac, le32toh(m->endpoint),
                                le32toh(m->channel));
    if (!arrival) {
        UMFI_WARN(FI_LOG_EP_CTRL, "an answer names a channel that has not come, or has "
                  "ended: the request ends\n");
        return false;
    }
    umfi_lock(ep->domain);
    /* A stranger's messages go, and an end that has come is known. */
    umfi_port_progress(ep->port);
    closed = arrival->closed || ep->port->failed;
    if (!closed) {
        umfi_list_del(&arrival->node);
        ep->channel = arrival->channel;
        ep->open = true;
        umfi_ep_connected(ep, m->data, le16toh(m->len));
    }
    umfi_unlock(ep->domain);
    if (closed) {
        UMFI_INFO(FI_LOG_EP_CTRL, "an answer names a channel that has ended: the request "
                  "ends\n");
        return false;
    }
    free(arrival);
    /* The acceptor waits for that. */
    conn_free(conn);
    return true;
}

static bool take_reject(struct umfi_conn *conn, const struct message *m)
{
    if (conn->port->listens || !conn->ep) {
        return not_expected(m);
    }
    UMFI_INFO(FI_LOG_EP_CTRL, "port %u: rejected\n", ntohs(conn->ep->dst.sin_port));
    refuse_ep(conn->ep, FI_ECONNREFUSED, m->data, le16toh(m->len));
    conn_free(conn);
    return true;
}

/* The channel has ended, or says nonsense. */
static void lose(struct umfi_conn *conn)
{
    conn_hang_up(conn);
    if (!conn->port->listens) {
        if (conn->ep) {
            refuse_ep(conn->ep, FI_ECONNREFUSED, NULL, 0);
        }
        conn_free(conn);
    } else if (conn->answered || !conn->requested ||
               (!conn->ep && umfi_eq_withdraw(conn->port->pep->eq, &conn->fid))) {
        /* Else the program has the handle. */
        conn_free(conn);
    }
}

static void lose_all(struct umfi_cm_port *port)
{
    struct umfi_list *next;

    for (struct umfi_list *i = port->conns.next; i != &port->conns; i = next) {
        next = i->next;
        lose(umfi_of(i, struct umfi_conn, node));
    }
}

static void take_message(struct umfi_conn *conn, const struct message *m, size_t len)
{
    bool good = is_sound(m, len);

    if (good) {
        switch (le16toh(m->type)) {
        case REQUEST:
            good = take_request(conn, m);
            break;
        case ACCEPT:
            good = take_accept(conn, m);
            break;
        case REJECT:
            good = take_reject(conn, m);
            break;
        default:
            good = not_expected(m);
        }
    }
    if (!good) {
        lose(conn);
    }
}

/* How many; no more than can wait at a time. */
static unsigned take_callers(struct umfi_cm_port *port)
{
    struct unetmm_peer peer;
    unsigned n = 0;

    while (port->pep && n < BACKLOG && unetmm_accept(port->ep, &peer, 0) >= 0) {
        n++;
        make_room(port);
        if (conn_open(port, peer.channel, peer.mac, NULL)) {
            port->idle++;
        }
    }
    return n;
}

/* fi_connect() takes another endpoint, a listener does not. */
static void tell_failed(struct umfi_cm_port *port)
{
    struct umfi_pep *pep = port->pep;

    if (pep && !port->told) {
        UMFI_WARN(FI_LOG_EP_CTRL, "port %u gets no more requests: call fi_listen() again, "
                  "or close the passive endpoint\n", ntohs(pep->address.sin_port));
        umfi_eq_push(pep->eq, 0, &pep->fid.fid, FI_EIO, NULL, NULL, 0);
    }
    port->told = true;
}

/*
 * Takes at most as many completions and calls as the queue and the backlog have room for, so
 * that peers which go on sending and calling do not keep the lock from other threads.
 */
static void port_progress(struct umfi_cm_port *port)
{
    unsigned taken = 0, calls = 0;
    struct unetmm_completion c;

    post_refused(port);
    while (taken++ < COMPLETIONS && calls < BACKLOG && take_completion(port, &c)) {
        struct umfi_conn *conn = conn_of(port, c.channel);
        struct message m;

        /* Only of a send that has failed can a completion be behind the channel's end. */
        if (!conn && c.type != UNETMM_CQE_SENT) {
            calls += take_callers(port);
            conn = conn_of(port, c.channel);
        }
        if (conn == &ended) {
            port->by_channel[c.channel] = c.type == UNETMM_CQE_CLOSED ? NULL : conn;
            conn = NULL;
        }
        if (has_buffer(&c)) {
            /* The buffer is the card's again before the message is believed. */
            memcpy(&m, port->buffers + c.user_data * BUFFER_BYTES, sizeof(m));
            post(port, c.user_data);
        }
        if (conn && c.type == UNETMM_CQE_RECEIVED && !c.is_inline) {
            take_message(conn, &m, c.len);
        } else if (conn && c.type != UNETMM_CQE_BUFFER) {
            /* A send that failed, the end, a write, or a message of no type of ours */
            UMFI_INFO(FI_LOG_EP_CTRL, "the channel of a request has ended: %s\n",
                      unetmm_status_str(c.status));
            take_end(conn, &c);
            lose(conn);
        }
    }
    if (port->failed) {
        lose_all(port);
        tell_failed(port);
    }
}

/* The kernel may know the addresses of requests that were put aside. */
static void check_again(struct umfi_cm_port *port)
{
    struct umfi_list *next;

    for (struct umfi_list *i = port->conns.next; i != &port->conns; i = next) {
        struct umfi_conn *conn = umfi_of(i, struct umfi_conn, node);

        next = i->next;
        if (conn->aside && !check_request(conn, &conn->request)) {
            lose(conn);
        }
    }
}

/*
 * Ends the conns whose time is over: a connector that neither ends its request nor sends, of
 * which the acceptor is told, and a request whose address no card has.
 */
static void end_late(struct umfi_cm_port *port)
{
    int64_t now = port->idle ? umfi_now_ms() : 0;
    struct umfi_list *next;

    for (struct umfi_list *i = port->conns.next; port->idle && i != &port->conns;
         i = next) {
        struct umfi_conn *conn = umfi_of(i, struct umfi_conn, node);

        next = i->next;
        if ((conn->answered || conn->aside) && now >= conn->until_ms) {
            UMFI_INFO(FI_LOG_EP_CTRL, "a request ends: %s\n", conn->answered ?
                      "its sender has not taken the answer" :
                      "no card has the address in it");
            conn_free(conn);
        }
    }
}

static void port_free(struct umfi_cm_port *port)
{
    umfi_list_del(&port->node);
    if (port->ep) {
        epoll_ctl(port->fabric->epoll, EPOLL_CTL_DEL, unetmm_fd(port->ep), NULL);
        unetmm_ep_destroy(port->ep);
    }
    if (port->buffers && umfi_config.source == UNETMM_SOURCE_PINNED) {
        unetmm_deregister(port->fabric->ctx, port->buffers,
                          (size_t)BUFFERS * BUFFER_BYTES);
    }
    free(port->buffers);
    free(port->by_channel);
    free(port);
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
static void end_left(struct umfi_cm_port *port)
{
    struct umfi_list *next;

    for (struct umfi_list *i = port->conns.next; i != &port->conns; i = next) {
        struct umfi_conn *conn = umfi_of(i, struct umfi_conn, node);

        next = i->next;
        if (!conn->ep || (!conn->ep->call && !is_accepting(conn->ep))) {
            conn_free(conn);
        }
    }
    if (port->conns.next == &port->conns) {
        port_free(port);
    }
}

static unsigned requests_of(const struct umfi_port *port, const uint8_t mac[6])
{
    const struct umfi_cm_port *active = port->domain->fabric->active;
    unsigned n = 0;

    for (struct umfi_list *i = active ? active->conns.next : NULL;
         active && i != &active->conns; i = i->next) {
        const struct umfi_conn *conn = umfi_of(i, struct umfi_conn, node);

        n += conn->ep && conn->ep->port == port && !memcmp(conn->mac, mac, 6);
    }
    return n;
}

void umfi_cm_progress(struct umfi_fabric *fabric)
{
    struct pollfd waiting[] = {
        { .fd = unetmm_ctx_fd(fabric->ctx), .events = POLLPRI },
        { .fd = fabric->neighbours, .events = POLLIN },
    };
    bool ready = poll(waiting, 2, 0) > 0, arrived = ready && waiting[0].revents;
    bool changed = ready && waiting[1].revents &&
        umfi_neighbours_changed(fabric->neighbours);
    struct umfi_list *i, *next;

    for (i = fabric->cm_ports.next; i != &fabric->cm_ports; i = next) {
        struct umfi_cm_port *port = umfi_of(i, struct umfi_cm_port, node);

        next = i->next;
        if (arrived) {
            take_callers(port);
        }
        if (changed) {
            check_again(port);
        }
        port_progress(port);
        end_late(port);
        if (port->listens && !port->pep) {
            end_left(port);
        }
    }
    for (i = fabric->ports.next; i != &fabric->ports; i = i->next) {
        struct umfi_port *port = umfi_of(i, struct umfi_port, node);

        if (arrived) {
            umfi_arrivals_take(port);
        }
        umfi_lock(port->domain);
        umfi_port_progress(port);
        umfi_unlock(port->domain);
        /* Behind the answers that name some. */
        umfi_arrivals_sweep(port, requests_of);
    }
}

int umfi_cm_arm(struct umfi_fabric *fabric)
{
    for (struct umfi_list *i = fabric->cm_ports.next; i != &fabric->cm_ports;
         i = i->next) {
        struct umfi_cm_port *port = umfi_of(i, struct umfi_cm_port, node);

        /* Arming empties the descriptor, also of a port that will have nothing more. */
        if (unetmm_arm(port->ep) && !port->failed) {
            return 1;
        }
    }
    return 0;
}

/* ---- CM ports -------------------------------------------------------------- */

static int post_buffers(struct umfi_cm_port *port)
{
    size_t bytes = (size_t)BUFFERS * BUFFER_BYTES;
    int ret = 0;

    port->buffers = aligned_alloc(4096, bytes);
    if (!port->buffers) {
        return -FI_ENOMEM;
    }
    memset(port->buffers, 0, bytes);
    if (umfi_config.source == UNETMM_SOURCE_PINNED) {
        ret = unetmm_register(port->fabric->ctx, port->buffers, bytes,
                              UNETMM_REGION_WRITE);
        if (ret) {
            /* port_free() ends a registration. */
            free(port->buffers);
            port->buffers = NULL;
        }
    }
    for (unsigned i = 0; !ret && i < BUFFERS; i++) {
        ret = post(port, i);
    }
    return ret;
}

static int port_create(struct umfi_cm_port *port)
{
    struct unetmm_ep_attr attr = UNETMM_EP_ATTR_INIT;
    struct epoll_event event = { .events = EPOLLIN };
    int ret;

    attr.free_depth = BUFFERS;
    attr.completion_depth = COMPLETIONS;
    attr.spin_ns = 0;
    attr.policy = umfi_config.policy;
    ret = unetmm_ep_create(port->fabric->ctx, &attr, &port->ep);
    if (ret) {
        UMFI_WARN(FI_LOG_EP_CTRL, "%s\n",
                  unetmm_strerror(ret, UNETMM_CALL_EP_CREATE));
        return ret;
    }
    ret = post_buffers(port);
    if (!ret && epoll_ctl(port->fabric->epoll, EPOLL_CTL_ADD, unetmm_fd(port->ep),
                          &event)) {
        ret = -errno;
    }
    return ret;
}

static int port_open(struct umfi_fabric *fabric, struct umfi_pep *pep,
                     struct umfi_cm_port **out)
{
    struct umfi_cm_port *port = calloc(1, sizeof(*port));
    int ret = -FI_ENOMEM;

    if (!port) {
        return ret;
    }
    port->fabric = fabric;
    port->pep = pep;
    port->listens = pep;
    umfi_list_init(&port->node);
    umfi_list_init(&port->conns);
    port->idle_most = (fabric->dev.card.channels + 1) / 2;
    port->by_channel = calloc(fabric->dev.card.channels, sizeof(struct umfi_conn *));
    if (port->by_channel) {
        ret = port_create(port);
    }
    if (ret) {
        port_free(port);
        return ret;
    }
    *out = port;
    return 0;
}

/* ---- Calls of the program -------------------------------------------------- */

/* Ends all conns of the port, and the port.  The caller holds the fabric's lock. */
static void port_end(struct umfi_cm_port *port)
{
    while (port->conns.next != &port->conns) {
        conn_free(umfi_of(port->conns.next, struct umfi_conn, node));
    }
    port_free(port);
}

void umfi_cm_close(struct umfi_fabric *fabric)
{
    pthread_mutex_lock(&fabric->lock);
    while (fabric->cm_ports.next != &fabric->cm_ports) {
        port_end(umfi_of(fabric->cm_ports.next, struct umfi_cm_port, node));
    }
    pthread_mutex_unlock(&fabric->lock);
}

void umfi_cm_unlisten(struct umfi_pep *pep)
{
    struct umfi_cm_port *port = pep->port;
    int64_t until = umfi_now_ms() + umfi_config.connect_ms;

    if (!port) {
        return;
    }
    pthread_mutex_lock(&pep->fabric->lock);
    port_progress(port);
    for (struct umfi_list *i = port->conns.next; i != &port->conns; i = i->next) {
        struct umfi_conn *conn = umfi_of(i, struct umfi_conn, node);

        conn->until_ms = conn->until_ms < until ? conn->until_ms : until;
    }
    unetmm_listen(port->ep, 0, 1);
    pep->port = NULL;
    port->pep = NULL;
    end_left(port);
    pthread_mutex_unlock(&pep->fabric->lock);
}

/*
 * Moves the requests that the program knows from a port that the card has stopped to the next
 * port.  These requests have ended, and stay until the program answers them, because no other
 * request may get their handles.
 */
static void adopt(struct umfi_cm_port *port, struct umfi_cm_port *old)
{
    struct umfi_list *next;

    for (struct umfi_list *i = old->conns.next; i != &old->conns; i = next) {
        struct umfi_conn *conn = umfi_of(i, struct umfi_conn, node);

        next = i->next;
        umfi_list_del(&conn->node);
        umfi_list_add(&port->conns, &conn->node);
        conn->port = port;
    }
    port_free(old);
}

static int enter_port(struct umfi_pep *pep, struct umfi_cm_port **port)
{
    int ret = -FI_EOPBADSTATE;

    pthread_mutex_lock(&pep->fabric->lock);
    if (!pep->port || pep->port->told) {
        ret = port_open(pep->fabric, pep, port);
    }
    if (!ret) {
        if (pep->port) {
            adopt(*port, pep->port);
        }
        umfi_list_add(&pep->fabric->cm_ports, &(*port)->node);
        pep->port = *port;
    }
    pthread_mutex_unlock(&pep->fabric->lock);
    return ret;
}

/* Takes the port from its PEP, which may listen again. */
static void leave_port(struct umfi_cm_port *port)
{
    struct umfi_fabric *fabric = port->fabric;

    pthread_mutex_lock(&fabric->lock);
    port->failed = port->told = true;
    if (port->conns.next == &port->conns) {
        port->pep->port = NULL;
        port_free(port);
    }
    pthread_mutex_unlock(&fabric->lock);
}

static int listen_at(struct umfi_cm_port *port, in_port_t *at)
{
    const struct unetmm_channel_attr attr = umfi_channel_attr();
    unsigned number = ntohs(*at), tries = PORT_COUNT;
    bool any = !number;
    int ret;

    do {
        if (any) {
            number = PORT_FIRST + ((unsigned)getpid() * 61 + tries) % PORT_COUNT;
        }
        ret = unetmm_listen_ex(port->ep, SERVICE_BASE | number, BACKLOG, &attr);
    } while (any && ret == -EADDRINUSE && --tries);
    if (ret) {
        UMFI_WARN(FI_LOG_EP_CTRL, "port %u: %s\n", number,
                  unetmm_strerror(ret, UNETMM_CALL_LISTEN));
    }
    *at = htons((uint16_t)number);
    return ret;
}

int umfi_cm_listen(struct umfi_pep *pep)
{
    in_port_t at = pep->address.sin_port;
    struct umfi_cm_port *port;
    int ret = enter_port(pep, &port);

    if (!ret) {
        ret = listen_at(port, &at);
        if (ret) {
            leave_port(port);
        } else {
            pep->address.sin_port = at;
        }
    }
    return ret;
}

/* Gets the port for the fabric's own requests.  A new port replaces a port that has failed. */
static int get_active(struct umfi_fabric *fabric)
{
    int ret = 0;

    if (fabric->active && fabric->active->failed && !fabric->active->calling) {
        lose_all(fabric->active);
        port_end(fabric->active);
        fabric->active = NULL;
    }
    if (!fabric->active) {
        ret = port_open(fabric, NULL, &fabric->active);
        if (!ret) {
            umfi_list_add(&fabric->cm_ports, &fabric->active->node);
        }
    }
    return ret;
}

/* An EP that was opened for a peer's request makes none itself. */
static int begin_connecting(struct umfi_ep *ep, bool accepts)
{
    int ret = -FI_EISCONN;

    umfi_lock(ep->domain);
    if (ep->state == UMFI_IDLE && accepts == (ep->conn && ep->conn->port->listens)) {
        ep->state = UMFI_CONNECTING;
        __atomic_add_fetch(&ep->eq->channels, 1, __ATOMIC_RELEASE);
        ret = 0;
    }
    umfi_unlock(ep->domain);
    return ret;
}

static void called(struct umfi_call *call, int channel);

/* The caller names the peer; the EP is connecting. */
static struct umfi_call *call_alloc(struct umfi_ep *ep, const void *data, size_t len)
{
    struct umfi_call *call = calloc(1, sizeof(*call));

    if (call) {
        call->fabric = ep->domain->fabric;
        call->ep = ep;
        call->called = called;
        call->first_ms = call->most_ms = umfi_config.connect_ms;
        /* conn_send() cuts the data to the same length. */
        call->len = len < sizeof(call->data) ? len : sizeof(call->data);
        if (call->len) {
            memcpy(call->data, data, call->len);
        }
    }
    return call;
}

static void fail_connect(struct umfi_ep *ep, int error)
{
    UMFI_INFO(FI_LOG_EP_CTRL, "port %u: %s\n", ntohs(ep->dst.sin_port),
              unetmm_strerror(error, UNETMM_CALL_CONNECT));
    /* Refused, as when the answer says so; not an error of fi_connect(). */
    refuse_ep(ep, error == -EHOSTUNREACH ? FI_EHOSTUNREACH : FI_ECONNREFUSED, NULL, 0);
}

/* The channel for a request: the request goes. */
static void called_connect(struct umfi_call *call, int channel)
{
    struct umfi_cm_port *port = call->fabric->active;
    struct umfi_ep *ep = call->ep;
    struct umfi_conn *conn;
    struct message m;
    int ret;

    port->calling--;
    if (channel < 0 || !ep) {
        if (channel >= 0) {
            end_channel(port, (unsigned)channel, false);
        }
        if (ep) {
            fail_connect(ep, channel);
        }
        return;
    }
    m = (struct message) {
        .service = htole64(ep->port->service),
        .address = ep->src.sin_addr.s_addr,
        .port = ep->src.sin_port,
    };
    conn = conn_open(port, (unsigned)channel, call->mac, ep);
    ret = conn ? conn_send(conn, &m, REQUEST, call->data, call->len) : -FI_ENOMEM;
    if (conn && ret) {
        conn_free(conn);
    }
    if (ret) {
        fail_connect(ep, ret);
    }
}

int umfi_cm_connect(struct umfi_ep *ep, const struct sockaddr_in *to, const void *data,
                    size_t len)
{
    struct umfi_fabric *fabric = ep->domain->fabric;
    struct umfi_call *call;
    int ret;

    pthread_mutex_lock(&fabric->lock);
    ret = begin_connecting(ep, false);
    if (ret) {
        pthread_mutex_unlock(&fabric->lock);
        return ret;
    }
    ep->dst = *to;
    call = call_alloc(ep, data, len);
    ret = call ? get_active(fabric) : -FI_ENOMEM;
    if (ret) {
        free(call);
        fail_connect(ep, ret);
    } else {
        call->card = fabric->active->ep;
        call->to = to->sin_addr;
        call->service = SERVICE_BASE | ntohs(to->sin_port);
        fabric->active->calling++;
        ep->call = call;
        umfi_call_begin(call);
    }
    pthread_mutex_unlock(&fabric->lock);
    return 0;
}

bool umfi_cm_take(struct umfi_fabric *fabric, fid_t handle, struct umfi_ep *ep)
{
    struct umfi_conn *conn;

    pthread_mutex_lock(&fabric->lock);
    conn = conn_find(fabric, handle);
    if (conn && conn->ep) {
        conn = NULL;
    }
    if (conn) {
        conn->ep = ep;
        ep->conn = conn;
        ep->dst = conn->peer;
    }
    pthread_mutex_unlock(&fabric->lock);
    return conn;
}

/* Ends a channel; its messages go before another channel gets the number. */
static void end_data_channel(struct umfi_port *port, unsigned channel)
{
    umfi_lock(port->domain);
    umfi_port_leave(port, channel);
    umfi_unlock(port->domain);
}

/* The data channel is there, or the connector was not reached: tells the connector. */
static void called_accept(struct umfi_call *call, int channel)
{
    struct umfi_ep *ep = call->ep;
    struct message m = { 0 };
    struct umfi_conn *conn;
    bool lives = channel >= 0;

    if (!ep) {
        if (lives) {
            end_data_channel(call->port, (unsigned)channel);
        }
        return;
    }
    conn = ep->conn;
    umfi_lock(ep->domain);
    if (lives) {
        m.endpoint = htole32((uint32_t)unetmm_ep_id(call->card));
        m.channel = htole32((uint32_t)channel);
        lives = umfi_ep_expect(ep, (unsigned)channel);
    } else {
        UMFI_WARN(FI_LOG_EP_CTRL, "accepting: %s\n",
                  unetmm_strerror(channel, UNETMM_CALL_CONNECT));
        umfi_ep_unreached(ep);
    }
    if (!conn && lives) {
        /* The listener has gone. */
        umfi_ep_abort(ep);
    }
    umfi_unlock(ep->domain);
    if (conn) {
        conn_answer(conn, &m, lives ? ACCEPT : REJECT, call->data, call->len);
    }
}

static void called(struct umfi_call *call, int channel)
{
    if (call->ep) {
        call->ep->call = NULL;
    }
    if (call->port) {
        called_accept(call, channel);
    } else {
        called_connect(call, channel);
    }
}

/*
 * The connector listens before it asks, so the driver's answer that no process listens is
 * final, unless the backlog is full.  The time is short because each peer chooses the service
 * that it names.
 */
static void call_back(struct umfi_call *call, struct umfi_conn *conn)
{
    struct umfi_ep *ep = call->ep;

    call->card = ep->port->ep;
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
    struct umfi_call *call = call_alloc(ep, data, len);
    int ret = -FI_ECONNABORTED;

    if (!call) {
        return -FI_ENOMEM;
    }
    pthread_mutex_lock(&fabric->lock);
    if (ep->conn && ep->conn->requested && ep->conn->open && !begin_connecting(ep, true)) {
        call_back(call, ep->conn);
        ret = 0;
    }
    pthread_mutex_unlock(&fabric->lock);
    if (ret) {
        free(call);
    }
    return ret;
}

int umfi_cm_reject(struct umfi_pep *pep, fid_t handle, const void *data, size_t len)
{
    struct message m = { 0 };
    struct umfi_conn *conn;
    int ret = -FI_EINVAL;

    pthread_mutex_lock(&pep->fabric->lock);
    conn = conn_find(pep->fabric, handle);
    if (conn && conn->port->pep == pep) {
        ret = 0;
        conn_answer(conn, &m, REJECT, data, len);
    }
    pthread_mutex_unlock(&pep->fabric->lock);
    return ret;
}

void umfi_cm_abandon(struct umfi_ep *ep)
{
    struct umfi_conn *conn = ep->conn;
    struct message m = { 0 };

    if (ep->call) {
        ep->call->ep = NULL;
        ep->call = NULL;
    }
    if (!conn) {
        return;
    }
    if (!conn->port->listens) {
        conn_free(conn);
    } else if (conn->answered) {
        conn->ep = NULL;
        ep->conn = NULL;
    } else {
        conn_answer(conn, &m, REJECT, NULL, 0);
    }
}
