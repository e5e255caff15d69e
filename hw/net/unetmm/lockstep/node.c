/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The node: which boundary comes next, and which frames arrive when.
 *
 * A timer on the virtual clock has the thread that executes the CPUs call
 * node_exchange() at each boundary, between two instructions whose number is
 * the same in every run.  The clock stands still meanwhile.  It moves by
 * 2^shift nanoseconds, so that `now` may be some nanoseconds after the
 * boundary; the peers count by boundaries.
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qemu/error-report.h"
#include "qemu/main-loop.h"
#include "qapi/error.h"
#include "hw/core/cpu.h"
#include "migration/blocker.h"
#include "system/block-backend.h"
#include "system/cpus.h"
#include "lockstep.h"
#include "../trace.h"

/* A machine without a timer promises to be silent for so long. */
#define IDLE_PROMISE    NANOSECONDS_PER_SECOND

static LockstepNode node = {
    .ports = QTAILQ_HEAD_INITIALIZER(node.ports),
};
static Error *blocker;

int64_t lockstep_now(void)
{
    return qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
}

static bool port_is_live(const LockstepPort *port)
{
    return port->state < LOCKSTEP_ENDED;
}

/* ---- Frames that arrive ---- */

/* Which of them has the first frame; NULL: none has one. */
static LockstepArrival *earlier(LockstepArrival *restored,
                                LockstepArrival *received)
{
    if (!restored || (received && received->time < restored->time)) {
        return received;
    }
    return restored;
}

static LockstepArrival *port_next_arrival(const LockstepPort *port)
{
    return earlier(QTAILQ_FIRST(&port->restored),
                   QTAILQ_FIRST(&port->arrivals));
}

/* The port whose frame arrives first; NULL: there is none. */
static LockstepPort *node_next_arrival(void)
{
    LockstepPort *port, *found = NULL;
    int64_t first = INT64_MAX;

    QTAILQ_FOREACH(port, &node.ports, next) {
        LockstepArrival *frame = port_next_arrival(port);

        if (frame && (frame->time < first || (frame->time == first &&
                                              port->index < found->index))) {
            found = port;
            first = frame->time;
        }
    }
    return found;
}

static void node_arm_delivery(void)
{
    LockstepPort *port = node_next_arrival();

    if (port) {
        timer_mod(node.deliver, port_next_arrival(port)->time);
    } else {
        timer_del(node.deliver);
    }
}

static const char *port_add(LockstepPort *port, LockstepFrames *frames,
                            int64_t time, const uint8_t *data, uint32_t bytes)
{
    LockstepArrival *last = QTAILQ_LAST(frames);
    uint64_t line = lockstep_line_bytes(bytes);
    LockstepArrival *frame;

    if (last && time < last->time) {
        return "a frame overtakes the one before it";
    }
    if (line > LOCKSTEP_MAX_FLIGHT - port->flight) {
        return "the peer has more than 128 MiB of frames on their way";
    }
    frame = g_malloc(sizeof(*frame) + bytes);
    frame->time = time;
    frame->bytes = bytes;
    memcpy(frame->data, data, bytes);
    port->flight += line;
    QTAILQ_INSERT_TAIL(frames, frame, next);
    return NULL;
}

const char *lockstep_node_arrives(LockstepPort *port, int64_t time,
                                  const uint8_t *data, uint32_t bytes)
{
    return port_add(port, &port->arrivals, time, data, bytes);
}

const char *lockstep_node_restores(LockstepPort *port, int64_t time,
                                   const uint8_t *data, uint32_t bytes)
{
    return port_add(port, &port->restored, time, data, bytes);
}

GByteArray *lockstep_node_on_the_way(LockstepPort *port)
{
    LockstepArrival *restored = QTAILQ_FIRST(&port->restored);
    LockstepArrival *received = QTAILQ_FIRST(&port->arrivals);
    GByteArray *all = g_byte_array_new();
    LockstepArrival *frame;

    while ((frame = earlier(restored, received))) {
        LockstepHead head = {
            .type = cpu_to_le32(LOCKSTEP_FRAME),
            .bytes = cpu_to_le32(frame->bytes),
            .time = cpu_to_le64(frame->time),
        };

        g_byte_array_append(all, (uint8_t *)&head, sizeof(head));
        g_byte_array_append(all, frame->data, frame->bytes);
        if (frame == restored) {
            restored = QTAILQ_NEXT(frame, next);
        } else {
            received = QTAILQ_NEXT(frame, next);
        }
    }
    return all;
}

static void port_deliver(LockstepPort *port, LockstepArrival *frame)
{
    if (frame == QTAILQ_FIRST(&port->restored)) {
        QTAILQ_REMOVE(&port->restored, frame, next);
    } else {
        QTAILQ_REMOVE(&port->arrivals, frame, next);
    }
    port->flight -= lockstep_line_bytes(frame->bytes);
    port->frames_received++;
    lockstep_print_frame(port, "rx", frame->time, frame->data, frame->bytes);
    trace_lockstep_rx(port->path, lockstep_now(), frame->bytes);
    qemu_send_packet(qemu_get_queue(port->nic), frame->data, frame->bytes);
    g_free(frame);
}

static void node_deliver(void *opaque)
{
    int64_t now = lockstep_now();
    LockstepPort *port;

    while ((port = node_next_arrival()) &&
           port_next_arrival(port)->time <= now) {
        port_deliver(port, port_next_arrival(port));
    }
    node_arm_delivery();
}

/* ---- Frames that leave ---- */

static int64_t line_ns(const LockstepPort *port, uint64_t bytes)
{
    return port->bps ? bytes * 8 * NANOSECONDS_PER_SECOND / port->bps : 0;
}

/* The counter of the reason why a frame cannot be sent; NULL: it can be. */
static uint64_t *drop_reason(LockstepPort *port, int64_t now, uint32_t bytes)
{
    if (port->state != LOCKSTEP_UP || bytes > LOCKSTEP_MAX_FRAME) {
        return &port->dropped_down;
    }
    if (port->bps && port->line_free > now &&
        port->line_free - now > line_ns(port, port->queue)) {
        return &port->dropped_queue;
    }
    if (lockstep_line_bytes(bytes) > LOCKSTEP_MAX_BURST - port->burst) {
        return &port->dropped_burst;
    }
    return NULL;
}

void lockstep_node_send(LockstepPort *port, const uint8_t *data,
                        uint32_t bytes)
{
    int64_t now = lockstep_now();
    uint64_t *dropped = drop_reason(port, now, bytes);
    uint64_t line = lockstep_line_bytes(bytes);
    int64_t arrival;

    if (dropped) {
        ++*dropped;
        lockstep_print_frame(port, "drop", now, data, bytes);
        return;
    }
    port->burst += line;
    port->line_free = MAX(now, port->line_free) + line_ns(port, line);
    arrival = port->line_free + port->latency_ns;
    port->first_sent = MIN(port->first_sent, arrival);
    port->frames_sent++;
    lockstep_print_frame(port, "tx", arrival, data, bytes);
    trace_lockstep_tx(port->path, now, arrival, bytes);
    lockstep_link_put(port, LOCKSTEP_FRAME, arrival, arrival, data, bytes);
}

/* ---- Boundaries ---- */

/*
 * Not all_cpu_threads_idle(): that also tells whether work for a CPU is queued,
 * which depends on the host.
 */
static bool cpus_sleep(void)
{
    CPUState *cpu;

    CPU_FOREACH(cpu) {
        if (!cpu->halted || cpu_has_work(cpu)) {
            return false;
        }
    }
    return true;
}

static bool port_is_due(const LockstepPort *port, int64_t now)
{
    return port_is_live(port) && port->boundary <= now;
}

/*
 * The earliest moment at which this machine does anything unless a frame comes
 * by a link whose boundary is now: the next timer, or the boundary of another
 * link, since a frame may arrive there.
 */
static int64_t node_promise(int64_t now)
{
    int64_t deadline, promise;
    LockstepPort *port;
    int due = 0;

    if (!cpus_sleep()) {
        return now;
    }
    deadline = qemu_clock_deadline_ns_all(QEMU_CLOCK_VIRTUAL,
                                          QEMU_TIMER_ATTR_ALL);
    promise = now + (deadline < 0 ? IDLE_PROMISE : deadline);
    QTAILQ_FOREACH(port, &node.ports, next) {
        if (port_is_due(port, now)) {
            due++;
        } else if (port_is_live(port)) {
            promise = MIN(promise, port->boundary);
        }
    }
    /* Frames of one link may leave at once by another. */
    return due > 1 ? now : promise;
}

static void node_arm(void)
{
    int64_t first = INT64_MAX;
    LockstepPort *port;

    QTAILQ_FOREACH(port, &node.ports, next) {
        if (port_is_live(port)) {
            first = MIN(first, port->boundary);
        }
    }
    if (first == INT64_MAX) {
        timer_del(node.sync);
    } else {
        timer_mod(node.sync, first);
    }
}

/* Sends the marks of all links before any is waited for. */
static void node_mark(int64_t now)
{
    LockstepPort *port;
    int64_t promise = node_promise(now);

    QTAILQ_FOREACH(port, &node.ports, next) {
        if (!port_is_due(port, now) || port->mark_sent) {
            continue;
        }
        port->promise = port->skip_idle ? MIN(promise, port->first_sent) : now;
        port->idle_boundaries += port->promise > now;
        port->first_sent = INT64_MAX;
        port->burst = 0;
        port->mark_sent = port->mark_due = true;
        lockstep_link_put(port, LOCKSTEP_MARK, port->boundary, port->promise,
                          NULL, 0);
    }
}

/* True if the machine is to stop now, at the moment that its user chose. */
static bool node_stops(int64_t now)
{
    LockstepPort *port;

    QTAILQ_FOREACH(port, &node.ports, next) {
        if (port->stop_ns && port->stop_ns <= now && !node.stopped &&
            port->stop_ns >= node.began) {
            node.stopped = true;
            lockstep_stop_machine(RUN_STATE_PAUSED);
            return true;
        }
    }
    return false;
}

static void node_advance(int64_t now)
{
    LockstepPort *port;

    QTAILQ_FOREACH(port, &node.ports, next) {
        int64_t next;

        if (!port->mark_sent) {
            continue;
        }
        port->mark_sent = false;
        if (!port_is_live(port)) {
            continue;
        }
        port->boundaries++;
        port->last = now;
        next = MIN(port->promise, port->peer_promise) + port->latency_ns;
        if (port->stop_ns > port->boundary) {
            next = MIN(next, (int64_t)port->stop_ns);
        }
        trace_lockstep_boundary(port->path, now, port->promise,
                                port->peer_promise, next);
        port->boundary = next;
    }
}

static void node_exchange(CPUState *cpu, run_on_cpu_data data)
{
    int64_t now = lockstep_now();
    LockstepPort *port;
    bool first = false;

    if (!node.called) {
        return;
    }
    node.called = false;
    QTAILQ_FOREACH(port, &node.ports, next) {
        first |= port_is_due(port, now) && port->state == LOCKSTEP_APART;
    }
    /* A machine may be saved before it has ever met its peers. */
    if (first && node_stops(now)) {
        return;
    }
    node_mark(now);
    if (!lockstep_wait(&node)) {
        /* lockstep_node_again() goes on from here. */
        return;
    }
    node_advance(now);
    node_arm_delivery();
    node_arm();
    node_stops(now);
}

/*
 * A timer's callback must not wait: a thread that stops the machine waits for
 * the callback, with the BQL.  Work for a CPU may.  There is some for each
 * CPU, so that none executes an instruction before.
 */
static void node_sync(void *opaque)
{
    CPUState *cpu;

    node.called = true;
    CPU_FOREACH(cpu) {
        async_run_on_cpu(cpu, node_exchange, RUN_ON_CPU_NULL);
    }
}

void lockstep_node_again(void)
{
    if (node.begun) {
        node_arm();
    }
}

/* ---- The machine runs, stops, ends ---- */

/* Parts of a machine that act at moments of the host's time. */
static void node_warn(void)
{
    NetClientState *nc[16];
    int n = qemu_find_net_clients_except(NULL, nc, NET_CLIENT_DRIVER_NIC,
                                         ARRAY_SIZE(nc));

    for (int i = 0; i < MIN(n, (int)ARRAY_SIZE(nc)); i++) {
        if (nc[i]->info->type != NET_CLIENT_DRIVER_HUBPORT) {
            warn_report("lockstep: -netdev %s is not in virtual time: runs "
                        "will differ", nc[i]->name);
        }
    }
    for (BlockBackend *blk = blk_next(NULL); blk; blk = blk_next(blk)) {
        if (blk_bs(blk)) {
            warn_report("lockstep: the disk %s is not in virtual time: runs "
                        "will differ", blk_name(blk));
        }
    }
}

static void node_begin(void)
{
    LockstepPort *port;
    int64_t now = lockstep_now();

    node.begun = true;
    node.began = now;
    node_warn();
    QTAILQ_FOREACH(port, &node.ports, next) {
        port->boundary = MAX((int64_t)port->start_ns, now);
        port->first_sent = INT64_MAX;
        lockstep_print_begin(port);
    }
    node_arm_delivery();
}

/* Frames of after the last exchange are in no machine's saved state. */
static bool node_is_whole(void)
{
    LockstepPort *port;

    QTAILQ_FOREACH(port, &node.ports, next) {
        if (port->state == LOCKSTEP_GREETING || port->mark_sent ||
            (port->state == LOCKSTEP_UP &&
             (!node.stopped || port->last != lockstep_now()))) {
            return false;
        }
    }
    return true;
}

static void node_vm_change(void *opaque, bool running, RunState state)
{
    if (running && !node.begun) {
        node_begin();
    }
    if (running) {
        node_arm();
    }
    if (!running && node_is_whole()) {
        migrate_del_blocker(&blocker);
    } else if (!blocker) {
        Error *err = NULL;

        error_setg(&blocker, "lockstep: frames may be on their way; a machine "
                   "can be saved where stop-ns= has stopped it");
        if (migrate_add_blocker(&blocker, &err) < 0) {
            warn_report_err(err);
        }
    }
}

static void node_end(Notifier *notifier, void *data)
{
    LockstepPort *port;

    QTAILQ_FOREACH(port, &node.ports, next) {
        lockstep_bye(port);
    }
}

void lockstep_node_add(LockstepPort *port)
{
    static Notifier end = { .notify = node_end };

    if (!node.sync) {
        node.sync = timer_new_ns(QEMU_CLOCK_VIRTUAL, node_sync, NULL);
        node.deliver = timer_new_ns(QEMU_CLOCK_VIRTUAL, node_deliver, NULL);
        qemu_add_vm_change_state_handler(node_vm_change, NULL);
        qemu_register_shutdown_notifier(&end);
    }
    QTAILQ_INSERT_TAIL(&node.ports, port, next);
}
