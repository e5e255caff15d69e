/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * -device lockstep: one end of a link in virtual time, on a hub with a card
 *
 *   -netdev hubport,id=n0,hubid=0 -device unetmm,netdev=n0
 *   -netdev hubport,id=n1,hubid=0 -device lockstep,netdev=n1,path=S,server=on
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qemu/error-report.h"
#include "qemu/option.h"
#include "qemu/config-file.h"
#include "qemu/module.h"
#include "qapi/error.h"
#include "qapi/visitor.h"
#include "hw/qdev-properties.h"
#include "migration/vmstate.h"
#include "lockstep.h"

static ssize_t lockstep_receive(NetClientState *nc, const uint8_t *data,
                                size_t bytes)
{
    lockstep_node_send(qemu_get_nic_opaque(nc), data, bytes);
    return bytes;
}

static NetClientInfo lockstep_net_info = {
    .type = NET_CLIENT_DRIVER_NIC,
    .size = sizeof(NICState),
    .receive = lockstep_receive,
};

/* ---- Saved state: the transmitter, and the frames on their way here ---- */

static int lockstep_pre_save(void *opaque)
{
    LockstepPort *port = opaque;

    if (port->saved) {
        g_byte_array_unref(port->saved);
    }
    port->saved = lockstep_node_on_the_way(port);
    port->saved_data = port->saved->data;
    port->saved_bytes = port->saved->len;
    return port->saved_bytes <= LOCKSTEP_MAX_SAVED ? 0 : -EFBIG;
}

/* Before as many bytes are allocated */
static bool lockstep_saved_bytes_fit(void *opaque, int version)
{
    return ((LockstepPort *)opaque)->saved_bytes <= LOCKSTEP_MAX_SAVED;
}

static int lockstep_post_load(void *opaque, int version)
{
    LockstepPort *port = opaque;
    const uint8_t *at = port->saved_data;
    size_t left = port->saved_bytes;
    LockstepHead head;

    while (left) {
        if (left < sizeof(head)) {
            return -EINVAL;
        }
        memcpy(&head, at, sizeof(head));
        head.bytes = le32_to_cpu(head.bytes);
        head.time = le64_to_cpu(head.time);
        if (head.bytes > MIN(left - sizeof(head), LOCKSTEP_MAX_FRAME) ||
            head.time < 0 || head.time > LOCKSTEP_MAX_TIME) {
            return -EINVAL;
        }
        if (lockstep_node_restores(port, head.time, at + sizeof(head),
                                   head.bytes)) {
            return -EINVAL;
        }
        at += sizeof(head) + head.bytes;
        left -= sizeof(head) + head.bytes;
    }
    g_free(port->saved_data);
    port->saved_data = NULL;
    if (port->line_free < 0 || port->line_free > LOCKSTEP_MAX_TIME) {
        return -EINVAL;
    }
    return 0;
}

static const VMStateDescription lockstep_vmstate = {
    .name = "lockstep",
    .version_id = 1,
    .minimum_version_id = 1,
    .pre_save = lockstep_pre_save,
    .post_load = lockstep_post_load,
    .fields = (const VMStateField[]) {
        VMSTATE_INT64(line_free, LockstepPort),
        VMSTATE_UINT32(saved_bytes, LockstepPort),
        VMSTATE_VALIDATE("saved bytes fit", lockstep_saved_bytes_fit),
        VMSTATE_VBUFFER_ALLOC_UINT32(saved_data, LockstepPort, 0, NULL,
                                     saved_bytes),
        VMSTATE_END_OF_LIST()
    }
};

/* ---- The device ---- */

/* Instructions have to be the clock, and idle time must take no time. */
static bool icount_suits(void)
{
    QemuOpts *opts = QTAILQ_FIRST(&qemu_find_opts("icount")->head);
    const char *shift = opts ? qemu_opt_get(opts, "shift") : NULL;

    return icount_enabled() && opts && shift && strcmp(shift, "auto") &&
           !qemu_opt_get_bool(opts, "sleep", true);
}

static bool lockstep_check(LockstepPort *port, Error **errp)
{
    if (!icount_suits()) {
        error_setg(errp, "lockstep: instructions are not the clock: say "
                   "-icount shift=N,sleep=off");
    } else if (!port->path) {
        error_setg(errp, "lockstep: path= is missing: name a UNIX socket");
    } else if (!port->latency_ns || port->latency_ns > LOCKSTEP_MAX_TIME) {
        error_setg(errp, "lockstep: latency-ns=%" PRIu64 ": use 1 or more",
                   port->latency_ns);
    } else if (port->queue > LOCKSTEP_MAX_QUEUE) {
        error_setg(errp, "lockstep: queue=%" PRIu32 ": use 0 to %u bytes",
                   port->queue, LOCKSTEP_MAX_QUEUE);
    } else if (port->start_ns > LOCKSTEP_MAX_TIME ||
               port->stop_ns > LOCKSTEP_MAX_TIME) {
        error_setg(errp, "lockstep: start-ns and stop-ns are %" PRId64
                   " at most", LOCKSTEP_MAX_TIME);
    } else if (port->stop_ns && port->stop_ns < port->start_ns) {
        error_setg(errp, "lockstep: stop-ns=%" PRIu64 " is before start-ns=%"
                   PRIu64, port->stop_ns, port->start_ns);
    } else {
        return true;
    }
    return false;
}

static void lockstep_realize(DeviceState *dev, Error **errp)
{
    LockstepPort *port = LOCKSTEP(dev);

    if (!lockstep_check(port, errp) || !lockstep_print_init(port, errp) ||
        !lockstep_link_init(port, errp)) {
        return;
    }
#ifndef HAVE_ICOUNT_BUSY
    warn_report_once("lockstep: this QEMU lacks the patch icount-no-warp-while-"
                     "the-cpu-thread-is-busy: the monitor waits while a peer "
                     "does, and runs may differ");
#endif
#ifndef HAVE_QEMU_CLOCK_NOTIFY_EXPIRED
    warn_report_once("lockstep: this QEMU lacks the patch icount-only-expired-"
                     "timer-lists-are-notified: runs take more of the host's "
                     "time");
#endif
    qemu_macaddr_default_if_unset(&port->conf.macaddr);
    port->nic = qemu_new_nic(&lockstep_net_info, &port->conf, TYPE_LOCKSTEP,
                             dev->id, &dev->mem_reentrancy_guard, port);
    lockstep_node_add(port);
}

static void lockstep_reset(DeviceState *dev)
{
    /* A reset stops the CPUs without a change of the machine's state. */
    lockstep_node_again();
}

static void get_virtual_ns(Object *obj, Visitor *v, const char *name,
                           void *opaque, Error **errp)
{
    int64_t now = lockstep_now();

    visit_type_int64(v, name, &now, errp);
}

static void lockstep_instance_init(Object *obj)
{
    LockstepPort *port = LOCKSTEP(obj);
    const struct {
        const char *name;
        uint64_t *value;
    } counters[] = {
        { "frames-sent", &port->frames_sent },
        { "frames-received", &port->frames_received },
        { "dropped-down", &port->dropped_down },
        { "dropped-queue", &port->dropped_queue },
        { "dropped-burst", &port->dropped_burst },
        { "boundaries", &port->boundaries },
        { "idle-boundaries", &port->idle_boundaries },
        { "waited-ns", &port->waited_ns },
    };

    QTAILQ_INIT(&port->restored);
    QTAILQ_INIT(&port->arrivals);
    for (int i = 0; i < ARRAY_SIZE(counters); i++) {
        object_property_add_uint64_ptr(obj, counters[i].name,
                                       counters[i].value, OBJ_PROP_FLAG_READ);
    }
    object_property_add(obj, "virtual-ns", "int", get_virtual_ns, NULL, NULL,
                        NULL);
}

static const Property lockstep_properties[] = {
    DEFINE_NIC_PROPERTIES(LockstepPort, conf),
    DEFINE_PROP_STRING("path", LockstepPort, path),
    DEFINE_PROP_BOOL("server", LockstepPort, server, false),
    DEFINE_PROP_UINT32("port", LockstepPort, index, 0),
    DEFINE_PROP_UINT64("latency-ns", LockstepPort, latency_ns, 10000),
    DEFINE_PROP_UINT64("bps", LockstepPort, bps, 0),
    DEFINE_PROP_UINT32("queue", LockstepPort, queue, LOCKSTEP_MAX_QUEUE),
    DEFINE_PROP_UINT64("start-ns", LockstepPort, start_ns, 0),
    DEFINE_PROP_UINT64("stop-ns", LockstepPort, stop_ns, 0),
    DEFINE_PROP_UINT32("patience-ms", LockstepPort, patience_ms, 10000),
    DEFINE_PROP_UINT32("timeout-s", LockstepPort, timeout_s, 300),
    DEFINE_PROP_BOOL("skip-idle", LockstepPort, skip_idle, true),
    DEFINE_PROP_STRING("log", LockstepPort, log_path),
    DEFINE_PROP_UINT64("print-ns", LockstepPort, print_ns, 0),
};

static void lockstep_class_init(ObjectClass *oc, void *data)
{
    DeviceClass *dc = DEVICE_CLASS(oc);

    dc->desc = "a link between machines that share one virtual time";
    dc->realize = lockstep_realize;
    dc->vmsd = &lockstep_vmstate;
    dc->hotpluggable = false;
    device_class_set_legacy_reset(dc, lockstep_reset);
    device_class_set_props(dc, lockstep_properties);
    set_bit(DEVICE_CATEGORY_NETWORK, dc->categories);
}

static const TypeInfo lockstep_type = {
    .name = TYPE_LOCKSTEP,
    .parent = TYPE_DEVICE,
    .instance_size = sizeof(LockstepPort),
    .instance_init = lockstep_instance_init,
    .class_init = lockstep_class_init,
};

static void lockstep_register(void)
{
    type_register_static(&lockstep_type);
}

type_init(lockstep_register)
