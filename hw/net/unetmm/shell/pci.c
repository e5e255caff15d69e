/*
 * unetmm: a network card for unpinned user memory: the PCI shell
 *
 * Usage:
 *   -netdev ...,id=n0 -device unetmm,netdev=n0[,mac=...]
 *   -device unetmm,help        lists every property with an explanation
 *
 * All behaviour is in the core (card/core.h); this file gives it a PCI
 * Express function, guest memory, interrupts, a clock and a wire, and knows
 * nothing of rings or translations.  docs/specs/unetmm.rst is the programming
 * guide.
 *
 * Locks: the BQL, held in every call.
 * Lifetimes: from realize to unetmm_exit() the card works.  A processor or an
 * I/O thread may have found a region before the end, have waited for the BQL
 * meanwhile, and call the region's handler after unetmm_exit(): it finds a
 * function that is absent (unetmm_gone()).  The regions, the core and the
 * tables of MSI-X live until the object ends (unetmm_instance_finalize()).
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "hw/pci/msix.h"
#include "hw/pci/pcie.h"
#include "hw/qdev-properties.h"
#include "hw/resettable.h"
#include "migration/vmstate.h"
#include "net/eth.h"
#include "net/hub.h"
#include "qapi/error.h"
#include "qemu/error-report.h"
#include "qemu/main-loop.h"
#include "qemu/module.h"
#include "qemu/timer.h"
#include "system/cpu-timers.h"
#include "../port/port.h"
#include "shell.h"

#define UNETMM_PCIE_CAP_OFFSET 0x80

/* ---- The core's host operations ----------------------------------------- */

static UnetmmState *unetmm_of(void *host)
{
    return host;
}

/* Not by QOM's cast: its check would cost more than a small DMA. */
static PCIDevice *pci_of(void *host)
{
    return &unetmm_of(host)->parent_obj;
}

static void host_interrupt(void *host, unsigned vector)
{
    PCIDevice *pdev = pci_of(host);

    if (msix_enabled(pdev)) {
        msix_notify(pdev, vector);
    }
}

static int64_t host_now_ns(void *host)
{
    return qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
}

static void host_timer_at(void *host, int64_t when_ns)
{
    UnetmmState *s = unetmm_of(host);

    if (when_ns == INT64_MAX) {
        timer_del(s->timer);
    } else {
        timer_mod(s->timer, when_ns);
    }
}

static void host_run_later(void *host)
{
    UnetmmState *s = unetmm_of(host);

    /* With icount, bottom halves run at moments that depend on the host. */
    if (icount_enabled()) {
        timer_mod(s->later_timer, host_now_ns(host));
    } else {
        qemu_bh_schedule(s->later_bh);
    }
}

static void host_effects_at(void *host, int64_t when_ns)
{
    UnetmmState *s = unetmm_of(host);

    if (when_ns == INT64_MAX) {
        timer_del(s->effects_timer);
    } else {
        timer_mod(s->effects_timer, when_ns);
    }
}

static void unetmm_sent_cb(NetClientState *nc, ssize_t ret)
{
    UnetmmState *s = qemu_get_nic_opaque(nc);

    if (s->timed && unetmm_timing_sent(&s->timing)) {
        return;
    }
    unetmm_core_sent(&s->core, ret > 0);
}

/*
 * The net layer calls a drop at a closed link a success, ours or the peer's
 * (a stream that nobody has joined yet), hence the look before.
 */
static UnetmmSent host_send(void *host, const uint8_t *frame, size_t bytes)
{
    NetClientState *nc = qemu_get_queue(unetmm_of(host)->nic);
    uint8_t padded[ETH_ZLEN];
    size_t padded_bytes = sizeof(padded);
    ssize_t ret;

    if (!nc->peer || nc->link_down || nc->peer->link_down) {
        return UNETMM_SENT_REFUSED;
    }
    if (net_peer_needs_padding(nc) &&
        eth_pad_short_frame(padded, &padded_bytes, frame, bytes)) {
        frame = padded;
        bytes = padded_bytes;
    }
    ret = qemu_send_packet_async(nc, frame, bytes, unetmm_sent_cb);
    if (ret == 0) {
        return UNETMM_SENT_QUEUED;
    }
    return ret > 0 ? UNETMM_SENT_DONE : UNETMM_SENT_REFUSED;
}

static void host_may_receive(void *host)
{
    qemu_flush_queued_packets(qemu_get_queue(unetmm_of(host)->nic));
}

static void host_warn_self(void *host)
{
    UnetmmState *s = unetmm_of(host);

    warn_report("unetmm: a frame came from the wire with this card's own "
                "address %02x:%02x:%02x:%02x:%02x:%02x; give each card "
                "another mac=", s->conf.macaddr.a[0], s->conf.macaddr.a[1],
                s->conf.macaddr.a[2], s->conf.macaddr.a[3],
                s->conf.macaddr.a[4], s->conf.macaddr.a[5]);
}

static void host_clear_windows(void *host, uint32_t page, uint32_t npages)
{
    UnetmmState *s = unetmm_of(host);
    uint64_t first = (uint64_t)page * UNETMM_PAGE_BYTES;
    uint64_t bytes = (uint64_t)npages * UNETMM_PAGE_BYTES;

    memset((uint8_t *)memory_region_get_ram_ptr(&s->windows) + first, 0,
           bytes);
    memory_region_set_dirty(&s->windows, first, bytes);
}

static const UnetmmHostOps unetmm_host_ops = {
    .mem_read = unetmm_memory_read,
    .mem_write = unetmm_memory_write,
    .mem_store32 = unetmm_memory_store32,
    .mem_cmpxchg64 = unetmm_memory_cmpxchg64,
    .interrupt = host_interrupt,
    .now_ns = host_now_ns,
    .timer_at = host_timer_at,
    .run_later = host_run_later,
    .send = host_send,
    .offload = unetmm_offload,
    .checksum_ok = unetmm_offload_checksum_ok,
    .may_receive = host_may_receive,
    .clear_windows = host_clear_windows,
    .warn_self = host_warn_self,
};

/* ---- QEMU's calls -------------------------------------------------------- */

/* Has the function left its slot?  Loads find ones then, stores nothing. */
static bool unetmm_gone(const UnetmmState *s)
{
    return !qatomic_read(&s->parent_obj.qdev.realized);
}

static uint64_t unetmm_regs_read(void *opaque, hwaddr addr, unsigned size)
{
    UnetmmState *s = opaque;

    if (unetmm_gone(s)) {
        return UINT64_MAX;
    }
    /* As on PCI Express, the card's writes come before its answer. */
    if (s->timed) {
        unetmm_timing_write_all(&s->timing);
    }
    return unetmm_core_read(&s->core, addr, size);
}

static void unetmm_regs_write(void *opaque, hwaddr addr, uint64_t value,
                              unsigned size)
{
    UnetmmState *s = opaque;

    if (!unetmm_gone(s)) {
        unetmm_core_write(&s->core, addr, value, size);
    }
}

/* All sizes come in, so that the core can count and log the illegal ones. */
static const MemoryRegionOps unetmm_regs_ops = {
    .read = unetmm_regs_read,
    .write = unetmm_regs_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid = { .min_access_size = 1, .max_access_size = 8, .unaligned = true },
    .impl = { .min_access_size = 1, .max_access_size = 8, .unaligned = true },
};

/* The BAR is prefetchable: a load must have no effect. */
static uint64_t unetmm_doorbell_read(void *opaque, hwaddr addr, unsigned size)
{
    return unetmm_gone(opaque) ? UINT64_MAX : 0;
}

static void unetmm_doorbell_write(void *opaque, hwaddr addr, uint64_t value,
                                  unsigned size)
{
    UnetmmState *s = opaque;

    if (!unetmm_gone(s)) {
        unetmm_core_doorbell(&s->core, addr / UNETMM_PAGE_BYTES);
    }
}

static const MemoryRegionOps unetmm_doorbell_ops = {
    .read = unetmm_doorbell_read,
    .write = unetmm_doorbell_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid = { .min_access_size = 1, .max_access_size = 8, .unaligned = true },
    .impl = { .min_access_size = 1, .max_access_size = 8, .unaligned = true },
};

static uint64_t unetmm_proxy_read(void *opaque, hwaddr addr, unsigned size)
{
    UnetmmState *s = opaque;

    return unetmm_gone(s) ? UINT64_MAX : unetmm_core_proxy_load(&s->core, addr);
}

static void unetmm_proxy_write(void *opaque, hwaddr addr, uint64_t value,
                               unsigned size)
{
    UnetmmState *s = opaque;

    if (!unetmm_gone(s)) {
        unetmm_core_proxy_store(&s->core, addr, value);
    }
}

static const MemoryRegionOps unetmm_proxy_ops = {
    .read = unetmm_proxy_read,
    .write = unetmm_proxy_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid = { .min_access_size = 1, .max_access_size = 8, .unaligned = true },
    .impl = { .min_access_size = 1, .max_access_size = 8, .unaligned = true },
};

static uint64_t unetmm_window_read(void *opaque, hwaddr addr, unsigned size)
{
    UnetmmState *s = opaque;

    return unetmm_gone(s) ? UINT64_MAX :
           ldn_le_p(memory_region_get_ram_ptr(&s->windows) + addr, size);
}

/* Loads read this memory directly; so the store comes first, then its news. */
static void unetmm_window_write(void *opaque, hwaddr addr, uint64_t value,
                                unsigned size)
{
    UnetmmState *s = opaque;
    uint8_t data[8];

    if (unetmm_gone(s)) {
        return;
    }
    stn_le_p(data, size, value);
    memcpy((uint8_t *)memory_region_get_ram_ptr(&s->windows) + addr, data,
           size);
    memory_region_set_dirty(&s->windows, addr, size);
    unetmm_core_store(&s->core, addr, data, size);
}

static const MemoryRegionOps unetmm_window_ops = {
    .read = unetmm_window_read,
    .write = unetmm_window_write,
    .endianness = DEVICE_LITTLE_ENDIAN,
    .valid = { .min_access_size = 1, .max_access_size = 8, .unaligned = true },
    .impl = { .min_access_size = 1, .max_access_size = 8, .unaligned = true },
};

static bool unetmm_nc_can_receive(NetClientState *nc)
{
    UnetmmState *s = qemu_get_nic_opaque(nc);

    return unetmm_core_can_receive(&s->core);
}

static ssize_t unetmm_nc_receive(NetClientState *nc, const uint8_t *buf,
                                 size_t size)
{
    UnetmmState *s = qemu_get_nic_opaque(nc);

    if (s->timed) {
        unetmm_timing_arrives(&s->timing);
    }
    /* 0 is "not now", and an empty frame would be offered for ever. */
    return unetmm_core_receive(&s->core, buf, size) ? MAX(size, 1) : 0;
}

static void unetmm_nc_link_status_changed(NetClientState *nc)
{
    UnetmmState *s = qemu_get_nic_opaque(nc);

    unetmm_core_set_link(&s->core, !nc->link_down);
}

static NetClientInfo unetmm_net_info = {
    .type = NET_CLIENT_DRIVER_NIC,
    .size = sizeof(NICState),
    .can_receive = unetmm_nc_can_receive,
    .receive = unetmm_nc_receive,
    .link_status_changed = unetmm_nc_link_status_changed,
};

static void unetmm_timer_cb(void *opaque)
{
    UnetmmState *s = opaque;

    unetmm_core_timer(&s->core);
}

static void unetmm_effects_cb(void *opaque)
{
    UnetmmState *s = opaque;

    unetmm_timing_due(&s->timing);
}

static void unetmm_later_cb(void *opaque)
{
    UnetmmState *s = opaque;

    unetmm_core_run(&s->core);
}

/*
 * The net layer gives back its queued frames after this (it is told last), so
 * that nothing of ours is on its way while the machine stands still.
 */
static void unetmm_vm_change(void *opaque, bool running, RunState state)
{
    UnetmmState *s = opaque;

    /* Effects that wait are in no saved state. */
    if (s->timed && !running && state != RUN_STATE_PAUSED) {
        unetmm_timing_catch_up(&s->timing);
    }
    unetmm_core_pause(&s->core, !running);
}

/* ---- Life --------------------------------------------------------------- */

static bool unetmm_realize_windows(UnetmmState *s, Error **errp)
{
    uint64_t bytes = pow2ceil((uint64_t)s->params.window_pages *
                              UNETMM_PAGE_BYTES);

    if (!s->params.window_pages) {
        return true;
    }
    if (!memory_region_init_rom_device(&s->windows, OBJECT(s),
                                       &unetmm_window_ops, s,
                                       "unetmm-windows", bytes, errp)) {
        return false;
    }
    pci_register_bar(PCI_DEVICE(s), UNETMM_BAR_WINDOWS,
                     PCI_BASE_ADDRESS_SPACE_MEMORY |
                     PCI_BASE_ADDRESS_MEM_TYPE_64 |
                     PCI_BASE_ADDRESS_MEM_PREFETCH, &s->windows);
    return true;
}

static void unetmm_realize_proxies(UnetmmState *s)
{
    uint64_t bytes = pow2ceil((uint64_t)s->params.proxy_pages *
                              UNETMM_PAGE_BYTES);

    if (s->params.proxy_pages) {
        memory_region_init_io(&s->proxies, OBJECT(s), &unetmm_proxy_ops, s,
                              "unetmm-proxies", bytes);
        pci_register_bar(PCI_DEVICE(s), UNETMM_BAR_PROXY,
                         PCI_BASE_ADDRESS_SPACE_MEMORY, &s->proxies);
    }
}

/* The one that can fail comes first, so that it leaves nothing behind. */
static bool unetmm_realize_regions(UnetmmState *s, Error **errp)
{
    PCIDevice *pdev = PCI_DEVICE(s);
    uint64_t doorbell_bytes = pow2ceil((uint64_t)s->params.endpoints *
                                       UNETMM_PAGE_BYTES);

    if (!unetmm_realize_windows(s, errp)) {
        return false;
    }
    memory_region_init(&s->control, OBJECT(s), "unetmm-control",
                       UNETMM_BAR_REGS_BYTES);
    memory_region_init_io(&s->regs, OBJECT(s), &unetmm_regs_ops, s,
                          "unetmm-regs", UNETMM_REGS_BYTES);
    memory_region_add_subregion(&s->control, 0, &s->regs);
    pci_register_bar(pdev, UNETMM_BAR_REGS, PCI_BASE_ADDRESS_SPACE_MEMORY,
                     &s->control);
    unetmm_realize_proxies(s);
    memory_region_init_io(&s->doorbells, OBJECT(s), &unetmm_doorbell_ops, s,
                          "unetmm-doorbells", doorbell_bytes);
    pci_register_bar(pdev, UNETMM_BAR_DOORBELL,
                     PCI_BASE_ADDRESS_SPACE_MEMORY |
                     PCI_BASE_ADDRESS_MEM_TYPE_64 |
                     PCI_BASE_ADDRESS_MEM_PREFETCH, &s->doorbells);
    return true;
}

/* The regions are freed with the card, whose reference to itself this drops. */
static void unetmm_release_regions(UnetmmState *s)
{
    if (s->params.window_pages) {
        /* Else a card in the same place later would have the name of this. */
        vmstate_unregister_ram(&s->windows, DEVICE(s));
    }
    /* A region in another holds its owner, which would never be freed. */
    memory_region_del_subregion(&s->control, &s->regs);
}

static bool unetmm_realize_caps(UnetmmState *s, Error **errp)
{
    PCIDevice *pdev = PCI_DEVICE(s);

    if (pcie_endpoint_cap_init(pdev, UNETMM_PCIE_CAP_OFFSET) < 0) {
        error_setg(errp, "unetmm: no room for the PCI Express capability");
        return false;
    }
    pcie_cap_flr_init(pdev);
    if (msix_init(pdev, UNETMM_NUM_VECTORS, &s->control, UNETMM_BAR_REGS,
                  UNETMM_MSIX_TABLE, &s->control, UNETMM_BAR_REGS,
                  UNETMM_MSIX_PBA, 0, errp) < 0) {
        pcie_cap_exit(pdev);
        return false;
    }
    for (unsigned i = 0; i < UNETMM_NUM_VECTORS; i++) {
        msix_vector_use(pdev, i);
    }
    return true;
}

static void unetmm_realize_core(UnetmmState *s, const UnetmmCosts *costs)
{
    s->timed = s->timing_text;
    s->effects_timer = timer_new_ns(QEMU_CLOCK_VIRTUAL, unetmm_effects_cb, s);
    unetmm_timing_init(&s->timing, costs, &unetmm_host_ops, s,
                       host_effects_at);
    if (s->timed) {
        unetmm_core_init(&s->core, &s->params, &s->timing.ops, &s->timing);
    } else {
        unetmm_core_init(&s->core, &s->params, &unetmm_host_ops, s);
    }
}

static void unetmm_realize(PCIDevice *pdev, Error **errp)
{
    UnetmmState *s = UNETMM(pdev);
    DeviceState *dev = DEVICE(pdev);
    UnetmmCosts costs;

    qemu_macaddr_default_if_unset(&s->conf.macaddr);
    if (!unetmm_properties_check(s, &costs, errp) ||
        !unetmm_realize_regions(s, errp)) {
        return;
    }
    if (!unetmm_realize_caps(s, errp)) {
        unetmm_release_regions(s);
        return;
    }
    s->timer = timer_new_ns(QEMU_CLOCK_VIRTUAL, unetmm_timer_cb, s);
    s->later_timer = timer_new_ns(QEMU_CLOCK_VIRTUAL, unetmm_later_cb, s);
    s->later_bh = qemu_bh_new_guarded(unetmm_later_cb, s,
                                      &dev->mem_reentrancy_guard);
    s->incoming = g_byte_array_new();
    unetmm_offload_init(s);
    unetmm_memory_init(s);
    unetmm_realize_core(s, &costs);
    s->core.knobs = s->knobs;
    unetmm_core_set_seed(&s->core, s->knobs.seed);
    s->nic = qemu_new_nic(&unetmm_net_info, &s->conf,
                          object_get_typename(OBJECT(s)), dev->id,
                          &dev->mem_reentrancy_guard, s);
    qemu_format_nic_info_str(qemu_get_queue(s->nic), s->conf.macaddr.a);
    s->core.port->link = !qemu_get_queue(s->nic)->link_down;
    if (!runstate_is_running()) {
        unetmm_core_pause(&s->core, true);
    }
    s->vm_change = qdev_add_vm_change_state_handler(dev, unetmm_vm_change, s);
}

/*
 * Ends all that is on its way.  A frame in the net layer's queue names us, and
 * the core is told of its purge: so the core is stopped before, or it would
 * send the next one, and cleared of having counted it after.
 */
static void unetmm_stop(UnetmmState *s)
{
    unetmm_core_reset(&s->core);
    unetmm_timing_drop(&s->timing);
    qemu_purge_queued_packets(qemu_get_queue(s->nic));
    unetmm_core_reset(&s->core);
    unetmm_timing_drop(&s->timing);
}

/*
 * Works around MSI-X in QEMU: an access to the table or the PBA behind
 * msix_uninit() uses memory that it has freed, and would end QEMU.  The members
 * that are set here are those that its handlers read (QEMU 10.0); they
 * give a table whose vectors are masked.
 */
static void unetmm_leave_msix(PCIDevice *pdev)
{
    pdev->msix_entries_nr = UNETMM_NUM_VECTORS;
    pdev->msix_function_masked = true;
    pdev->msix_table = g_malloc0(UNETMM_NUM_VECTORS * PCI_MSIX_ENTRY_SIZE);
    pdev->msix_pba = g_malloc0(QEMU_ALIGN_UP(UNETMM_NUM_VECTORS, 64) / 8);
}

static void unetmm_exit(PCIDevice *pdev)
{
    UnetmmState *s = UNETMM(pdev);

    qemu_del_vm_change_state_handler(s->vm_change);
    unetmm_stop(s);
    qemu_del_nic(g_steal_pointer(&s->nic));
    timer_free(s->timer);
    timer_free(s->later_timer);
    timer_free(s->effects_timer);
    qemu_bh_delete(s->later_bh);
    unetmm_offload_exit(s);
    unetmm_memory_exit(s);
    g_byte_array_unref(s->incoming);
    msix_unuse_all_vectors(pdev);
    msix_uninit(pdev, &s->control, &s->control);
    unetmm_leave_msix(pdev);
    pcie_cap_exit(pdev);
    unetmm_release_regions(s);
}

static void unetmm_config_write(PCIDevice *pdev, uint32_t addr, uint32_t val,
                                int len)
{
    pci_default_write_config(pdev, addr, val, len);
    pcie_cap_flr_write_config(pdev, addr, val, len);
}

static void unetmm_reset_hold(Object *obj, ResetType type)
{
    UnetmmState *s = UNETMM(obj);

    if (s->nic) {
        unetmm_stop(s);
    }
}

static void unetmm_instance_init(Object *obj)
{
    unetmm_knobs_init(&UNETMM(obj)->knobs);
}

static void unetmm_instance_finalize(Object *obj)
{
    UnetmmState *s = UNETMM(obj);

    unetmm_core_free(&s->core);
    unetmm_timing_free(&s->timing);
    g_free(s->parent_obj.msix_table);
    g_free(s->parent_obj.msix_pba);
}

static void unetmm_class_init(ObjectClass *class, void *data)
{
    DeviceClass *dc = DEVICE_CLASS(class);
    PCIDeviceClass *pc = PCI_DEVICE_CLASS(class);
    ResettableClass *rc = RESETTABLE_CLASS(class);

    pc->realize = unetmm_realize;
    pc->exit = unetmm_exit;
    pc->config_write = unetmm_config_write;
    pc->vendor_id = UNETMM_PCI_VENDOR_ID;
    pc->device_id = UNETMM_PCI_DEVICE_ID;
    pc->revision = 1;
    pc->class_id = PCI_CLASS_NETWORK_ETHERNET;
    rc->phases.hold = unetmm_reset_hold;
    dc->desc = "unetmm: network card for unpinned user memory";
    dc->vmsd = &unetmm_vmstate;
    set_bit(DEVICE_CATEGORY_NETWORK, dc->categories);
    unetmm_class_properties(class);
}

static const TypeInfo unetmm_types[] = {
    {
        .name = TYPE_UNETMM,
        .parent = TYPE_PCI_DEVICE,
        .instance_size = sizeof(UnetmmState),
        .instance_init = unetmm_instance_init,
        .instance_finalize = unetmm_instance_finalize,
        .class_init = unetmm_class_init,
        .interfaces = (InterfaceInfo[]) {
            { INTERFACE_PCIE_DEVICE },
            { }
        },
    },
};

DEFINE_TYPES(unetmm_types)
