/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The exchange at a boundary: messages of the peers, until each has its mark.
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qemu/error-report.h"
#include "qemu/main-loop.h"
#include "hw/core/cpu.h"
#include "system/cpus.h"
#include "lockstep.h"
#include "../trace.h"
#include <poll.h>

#define MOST_PORTS      64
/* So long at most is a request to stop the CPUs not seen. */
#define POLL_MS         20
#define BYE_MS          1000

void lockstep_stop_machine(RunState state)
{
    CPUState *cpu;

    qemu_system_vmstop_request_prepare();
    qemu_system_vmstop_request(state);
    CPU_FOREACH(cpu) {
        cpu->stop = true;
        cpu_exit(cpu);
    }
}

void lockstep_fail(LockstepPort *port, const char *format, ...)
{
    va_list list;
    g_autofree char *why = NULL;

    va_start(list, format);
    why = g_strdup_vprintf(format, list);
    va_end(list);
    error_report("lockstep: path=%s at %" PRId64 " ns: %s; the machine is "
                 "stopped", port->path, lockstep_now(), why);
    port->state = LOCKSTEP_FAILED;
    port->mark_due = false;
    lockstep_link_close(port);
    lockstep_stop_machine(RUN_STATE_IO_ERROR);
}

/* ---- Messages ---- */

static void port_hello(LockstepPort *port, const LockstepHead *head,
                       const uint8_t *data)
{
    LockstepHello hello;

    memcpy(&hello, data, sizeof(hello));
    if (le32_to_cpu(hello.magic) != LOCKSTEP_MAGIC) {
        lockstep_fail(port, "the peer speaks another protocol");
    } else if (le64_to_cpu(hello.latency_ns) != port->latency_ns) {
        lockstep_fail(port, "the peer has latency-ns=%" PRId64 ", this "
                      "machine has %" PRIu64,
                      (int64_t)le64_to_cpu(hello.latency_ns),
                      port->latency_ns);
    } else if (le64_to_cpu(hello.stop_ns) != port->stop_ns) {
        lockstep_fail(port, "the peer has stop-ns=%" PRId64 ", this machine "
                      "has %" PRIu64, (int64_t)le64_to_cpu(hello.stop_ns),
                      port->stop_ns);
    } else if (head->time != port->boundary) {
        lockstep_fail(port, "the peer begins at %" PRId64 " ns, this machine "
                      "at %" PRId64 " ns: give both the same start-ns and the "
                      "same kind of snapshot", head->time, port->boundary);
    } else {
        port->state = LOCKSTEP_UP;
    }
}

static void port_frame(LockstepPort *port, const LockstepHead *head,
                       const uint8_t *data)
{
    const char *why;

    if (head->time < port->boundary) {
        lockstep_fail(port, "a frame is late: it should have arrived at %"
                      PRId64 " ns", head->time);
        return;
    }
    why = lockstep_node_arrives(port, head->time, data, head->bytes);
    if (why) {
        lockstep_fail(port, "%s", why);
    }
}

static void port_mark(LockstepPort *port, const LockstepHead *head)
{
    if (head->time != port->boundary) {
        lockstep_fail(port, "the peer is at boundary %" PRId64 " ns, not at %"
                      PRId64 " ns", head->time, port->boundary);
    } else if (head->promise < head->time) {
        lockstep_fail(port, "the peer promises to be silent until %" PRId64
                      " ns, which is past", head->promise);
    } else {
        port->peer_promise = head->promise;
        port->mark_due = false;
    }
}

static void port_message(LockstepPort *port, const LockstepHead *head,
                         const uint8_t *data)
{
    bool hello = head->type == LOCKSTEP_HELLO;

    if (hello != (port->state == LOCKSTEP_GREETING)) {
        lockstep_fail(port, "the peer's messages are out of order");
    } else if (hello) {
        port_hello(port, head, data);
    } else if (head->type == LOCKSTEP_FRAME) {
        port_frame(port, head, data);
    } else if (head->type == LOCKSTEP_MARK) {
        port_mark(port, head);
    } else {
        trace_lockstep_bye(port->path, head->time);
        port->state = LOCKSTEP_ENDED;
        port->mark_due = false;
        lockstep_link_close(port);
    }
}

/* Moves bytes, and reads messages up to the mark. */
static void port_move(LockstepPort *port)
{
    const char *why = lockstep_link_move(port);
    const uint8_t *data;
    LockstepHead head;

    if (why) {
        lockstep_fail(port, "%s", why);
        return;
    }
    while (port->mark_due &&
           (data = lockstep_link_get(port, &head, &why))) {
        port_message(port, &head, data);
    }
    if (port->mark_due && (why || port->link.over)) {
        lockstep_fail(port, "%s", why ?: "the peer is gone without a BYE");
    }
}

/* ---- Waiting ---- */

static bool port_lacks(const LockstepPort *port)
{
    return port->mark_due || (port->state == LOCKSTEP_UP && port->mark_sent &&
                              port->link.out->len);
}

static bool cpus_are_to_stop(void)
{
    CPUState *cpu;

    CPU_FOREACH(cpu) {
        if (cpu->stop) {
            return true;
        }
    }
    return false;
}

/* Sleeps until a socket is ready, without the BQL if QEMU allows that. */
static void node_poll(LockstepNode *node)
{
    struct pollfd fds[MOST_PORTS];
    LockstepPort *port;
    nfds_t n = 0;

    QTAILQ_FOREACH(port, &node->ports, next) {
        if (port_lacks(port) && n < MOST_PORTS) {
            fds[n].fd = lockstep_link_poll(port, &fds[n].events);
            n++;
        }
    }
#ifdef HAVE_ICOUNT_BUSY
    bool busy = qatomic_read(&icount_busy);

    qatomic_set(&icount_busy, true);
    bql_unlock();
    poll(fds, n, POLL_MS);
    bql_lock();
    qatomic_set(&icount_busy, busy);
#else
    poll(fds, n, POLL_MS);
#endif
}

/* Reports a peer that has been silent for long, and gives up in the end. */
static void node_complain(LockstepNode *node, int64_t waited, bool *said)
{
    LockstepPort *port;

    QTAILQ_FOREACH(port, &node->ports, next) {
        if (!port_lacks(port)) {
            continue;
        }
        if (port->timeout_s &&
            waited / NANOSECONDS_PER_SECOND >= port->timeout_s) {
            lockstep_fail(port, "no word from the peer for %" PRIu32 " s "
                          "(timeout-s sets that time, 0 is for ever)",
                          port->timeout_s);
        } else if (!*said && waited / SCALE_MS >= port->patience_ms) {
            *said = true;
            warn_report("lockstep: path=%s at %" PRId64 " ns: no word from "
                        "the peer for %" PRIu32 " ms; waiting", port->path,
                        lockstep_now(), port->patience_ms);
        }
    }
}

bool lockstep_wait(LockstepNode *node)
{
    int64_t begun = get_clock();
    bool said = false;

    for (;;) {
        LockstepPort *port, *lacking = NULL;

        QTAILQ_FOREACH(port, &node->ports, next) {
            if (port_lacks(port)) {
                port_move(port);
                lacking = port_lacks(port) ? port : lacking;
            }
        }
        if (cpus_are_to_stop()) {
            return false;
        }
        if (!lacking) {
            QTAILQ_FOREACH(port, &node->ports, next) {
                port->waited_ns += port->mark_sent ? get_clock() - begun : 0;
            }
            return true;
        }
        node_poll(node);
        node_complain(node, get_clock() - begun, &said);
    }
}

void lockstep_bye(LockstepPort *port)
{
    int64_t begun = get_clock();

    if (port->state != LOCKSTEP_UP && port->state != LOCKSTEP_GREETING) {
        return;
    }
    lockstep_link_put(port, LOCKSTEP_BYE, lockstep_now(), lockstep_now(), NULL,
                      0);
    while (port->link.out->len && !lockstep_link_move(port) &&
           get_clock() - begun < BYE_MS * SCALE_MS) {
        struct pollfd fd = { port->link.fd, POLLOUT, 0 };

        poll(&fd, 1, POLL_MS);
    }
    port->state = LOCKSTEP_ENDED;
    port->mark_due = false;
    lockstep_link_close(port);
}
