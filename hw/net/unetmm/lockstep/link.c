/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The socket of a lockstep port: whole messages in and out, never waiting.
 *
 * The peer's bytes are checked here as far as one message shows it: its type,
 * its length, its times.  The order of messages is checked in wait.c.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qemu/bswap.h"
#include "qemu/cutils.h"
#include "qemu/sockets.h"
#include "qemu/units.h"
#include "lockstep.h"
#include <poll.h>
#include <sys/un.h>

/* A message that is whole always fits, with one more to be received. */
#define IN_ROOM (4 * (LOCKSTEP_MAX_FRAME + sizeof(LockstepHead)))

static int link_socket(const char *path, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un) { .sun_family = AF_UNIX };
    if (strlen(path) >= sizeof(address->sun_path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    pstrcpy(address->sun_path, sizeof(address->sun_path), path);
    return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

bool lockstep_link_init(LockstepPort *port, Error **errp)
{
    LockstepLink *link = &port->link;
    struct sockaddr_un address;
    int fd = link_socket(port->path, &address);

    link->fd = -1;
    link->listen_fd = -1;
    if (fd < 0) {
        error_setg_errno(errp, errno, "lockstep: path=%s", port->path);
        return false;
    }
    if (port->server) {
        unlink(port->path);
        if (bind(fd, (struct sockaddr *)&address, sizeof(address)) ||
            listen(fd, 1)) {
            error_setg_errno(errp, errno, "lockstep: path=%s", port->path);
            close(fd);
            return false;
        }
        link->listen_fd = fd;
    } else {
        close(fd);
    }
    link->out = g_byte_array_new();
    link->in = g_malloc(IN_ROOM);
    return true;
}

void lockstep_link_close(LockstepPort *port)
{
    LockstepLink *link = &port->link;

    if (link->fd >= 0) {
        close(link->fd);
        link->fd = -1;
    }
    if (link->listen_fd >= 0) {
        close(link->listen_fd);
        link->listen_fd = -1;
        unlink(port->path);
    }
    g_byte_array_set_size(link->out, 0);
    link->out_sent = link->in_first = link->in_used = 0;
}

void lockstep_link_put(LockstepPort *port, uint32_t type, int64_t time,
                       int64_t promise, const void *data, uint32_t bytes)
{
    LockstepHead head = {
        .type = cpu_to_le32(type),
        .bytes = cpu_to_le32(bytes),
        .time = cpu_to_le64(time),
        .promise = cpu_to_le64(promise),
    };

    g_byte_array_append(port->link.out, (uint8_t *)&head, sizeof(head));
    if (bytes) {
        g_byte_array_append(port->link.out, data, bytes);
    }
}

static void link_greet(LockstepPort *port)
{
    LockstepHello hello = {
        .magic = cpu_to_le32(LOCKSTEP_MAGIC),
        .port = cpu_to_le32(port->index),
        .latency_ns = cpu_to_le64(port->latency_ns),
        .stop_ns = cpu_to_le64(port->stop_ns),
    };
    GByteArray *frames = port->link.out;
    int room = 4 * MiB;

    /* The kernel may give less; that costs time only. */
    setsockopt(port->link.fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    /* Messages put before the connection come after HELLO. */
    port->link.out = g_byte_array_new();
    lockstep_link_put(port, LOCKSTEP_HELLO, port->boundary, port->boundary,
                      &hello, sizeof(hello));
    g_byte_array_append(port->link.out, frames->data, frames->len);
    g_byte_array_unref(frames);
    port->state = LOCKSTEP_GREETING;
}

/* True once there is a connection; a peer that is not there is no error. */
static bool link_connect(LockstepPort *port)
{
    LockstepLink *link = &port->link;
    struct sockaddr_un address;
    int fd;

    if (port->server) {
        fd = accept(link->listen_fd, NULL, NULL);
        if (fd < 0) {
            return false;
        }
        qemu_set_cloexec(fd);
        g_unix_set_fd_nonblocking(fd, true, NULL);
    } else {
        fd = link_socket(port->path, &address);
        if (fd < 0 ||
            connect(fd, (struct sockaddr *)&address, sizeof(address))) {
            if (fd >= 0) {
                close(fd);
            }
            return false;
        }
    }
    link->fd = fd;
    link_greet(port);
    return true;
}

static const char *link_send(LockstepLink *link)
{
    while (link->out_sent < link->out->len) {
        ssize_t n = send(link->fd, link->out->data + link->out_sent,
                         link->out->len - link->out_sent, MSG_NOSIGNAL);
        if (n > 0) {
            link->out_sent += n;
        } else if (errno == EAGAIN) {
            return NULL;
        } else if (errno == EPIPE || errno == ECONNRESET) {
            /* Its last words may still be there to be received. */
            break;
        } else if (errno != EINTR) {
            return "the socket takes no more";
        }
    }
    g_byte_array_set_size(link->out, 0);
    link->out_sent = 0;
    return NULL;
}

static void link_receive(LockstepLink *link)
{
    ssize_t n;

    if (link->in_first) {
        memmove(link->in, link->in + link->in_first,
                link->in_used - link->in_first);
        link->in_used -= link->in_first;
        link->in_first = 0;
    }
    if (link->in_used == IN_ROOM) {
        return;
    }
    do {
        n = recv(link->fd, link->in + link->in_used, IN_ROOM - link->in_used,
                 0);
    } while (n < 0 && errno == EINTR);
    if (n > 0) {
        link->in_used += n;
        return;
    }
    /* Received bytes are read first: they may end with a BYE. */
    link->over = n == 0 || errno != EAGAIN;
}

const char *lockstep_link_move(LockstepPort *port)
{
    const char *why;

    if (port->link.fd < 0 && !link_connect(port)) {
        return NULL;
    }
    why = link_send(&port->link);
    link_receive(&port->link);
    return why;
}

int lockstep_link_poll(const LockstepPort *port, short *events)
{
    if (port->link.fd < 0) {
        *events = POLLIN;
        return port->link.listen_fd;
    }
    *events = POLLIN | (port->link.out->len ? POLLOUT : 0);
    return port->link.fd;
}

static const char *head_check(const LockstepHead *head)
{
    static const uint32_t most[] = {
        [LOCKSTEP_HELLO] = sizeof(LockstepHello),
        [LOCKSTEP_FRAME] = LOCKSTEP_MAX_FRAME,
        [LOCKSTEP_MARK] = 0,
        [LOCKSTEP_BYE] = 0,
    };

    if (head->type < LOCKSTEP_HELLO || head->type > LOCKSTEP_BYE) {
        return "the peer speaks another protocol (unknown type of message)";
    }
    if (head->bytes > most[head->type] ||
        (head->type == LOCKSTEP_HELLO && head->bytes != most[head->type])) {
        return "a message of the peer has an impossible length";
    }
    if (head->time < 0 || head->time > LOCKSTEP_MAX_TIME ||
        head->promise < 0 || head->promise > LOCKSTEP_MAX_TIME) {
        return "a message of the peer has an impossible time";
    }
    return NULL;
}

const uint8_t *lockstep_link_get(LockstepPort *port, LockstepHead *head,
                                 const char **why)
{
    LockstepLink *link = &port->link;
    const uint8_t *at = link->in + link->in_first;
    size_t have = link->in_used - link->in_first;

    if (have < sizeof(*head)) {
        return NULL;
    }
    memcpy(head, at, sizeof(*head));
    head->type = le32_to_cpu(head->type);
    head->bytes = le32_to_cpu(head->bytes);
    head->time = le64_to_cpu(head->time);
    head->promise = le64_to_cpu(head->promise);
    *why = head_check(head);
    if (*why || have - sizeof(*head) < head->bytes) {
        return NULL;
    }
    link->in_first += sizeof(*head) + head->bytes;
    return at + sizeof(*head);
}
