/*
 * unetmm: -device unetmm-late, for tests: handlers that are called late
 *
 * A processor (KVM) or an I/O thread looks for the region of an address, waits
 * for the BQL, and calls the region's handler then.  The region's device may
 * have been unplugged meanwhile.  No test can choose that moment, so this
 * device stands in for such a processor: `hold` finds the region of an address
 * and keeps a reference, as the processor does; `call` calls the handlers of
 * all these regions.
 *
 * Locks: the BQL, held in every call.
 * Lifetimes: a region that is held keeps its device's object; `hold` of
 * address 0, and the end of this device, release all.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "exec/memory.h"
#include "exec/address-spaces.h"
#include "exec/memop.h"
#include "hw/qdev-core.h"
#include "qapi/error.h"
#include "qapi/visitor.h"

#define TYPE_UNETMM_LATE "unetmm-late"
OBJECT_DECLARE_SIMPLE_TYPE(UnetmmLate, UNETMM_LATE)

#define LATE_BYTES  8192        /* of a region, from its beginning on */

struct UnetmmLate {
    DeviceState parent_obj;
    GPtrArray *regions;         /* MemoryRegion * */
    uint32_t ones;              /* regions whose loads all gave ones */
};

static void late_release(gpointer region)
{
    memory_region_unref(region);
}

static void late_hold(Object *obj, Visitor *v, const char *name, void *opaque,
                      Error **errp)
{
    UnetmmLate *late = UNETMM_LATE(obj);
    MemoryRegionSection section;
    uint64_t addr;

    if (!visit_type_uint64(v, name, &addr, errp)) {
        return;
    }
    if (!addr) {
        g_ptr_array_set_size(late->regions, 0);
        return;
    }
    section = memory_region_find(get_system_memory(), addr, 1);
    if (!section.mr) {
        error_setg(errp, "no region has address 0x%" PRIx64, addr);
        return;
    }
    g_ptr_array_add(late->regions, section.mr);
}

/* All handlers for one place, in all sizes.  True: the loads gave ones. */
static bool late_call_at(MemoryRegion *mr, hwaddr addr)
{
    static const uint64_t values[] = { 0, 1, UINT64_MAX };
    MemTxAttrs attrs = MEMTXATTRS_UNSPECIFIED;
    bool ones = true;

    for (unsigned bytes = 1; bytes <= 8; bytes *= 2) {
        MemOp op = size_memop(bytes) | MO_LE;
        uint64_t got = 0;

        for (unsigned i = 0; i < ARRAY_SIZE(values); i++) {
            memory_region_dispatch_write(mr, addr, values[i], op, attrs);
        }
        memory_region_dispatch_read(mr, addr, &got, op, attrs);
        ones &= got == UINT64_MAX >> (64 - 8 * bytes);
    }
    return ones;
}

static bool late_call_region(MemoryRegion *mr)
{
    uint64_t bytes = MIN(memory_region_size(mr), LATE_BYTES);
    bool ones = true;

    for (hwaddr addr = 0; addr + 8 <= bytes; addr += 4) {
        ones &= late_call_at(mr, addr);
    }
    return ones;
}

static void late_call(Object *obj, bool value, Error **errp)
{
    UnetmmLate *late = UNETMM_LATE(obj);

    late->ones = 0;
    for (unsigned i = 0; i < late->regions->len; i++) {
        late->ones += late_call_region(late->regions->pdata[i]);
    }
}

static void late_init(Object *obj)
{
    UnetmmLate *late = UNETMM_LATE(obj);

    late->regions = g_ptr_array_new_with_free_func(late_release);
    object_property_add_uint32_ptr(obj, "ones", &late->ones,
                                   OBJ_PROP_FLAG_READ);
}

static void late_finalize(Object *obj)
{
    g_ptr_array_unref(UNETMM_LATE(obj)->regions);
}

static void late_class_init(ObjectClass *class, void *data)
{
    DeviceClass *dc = DEVICE_CLASS(class);

    dc->desc = "for tests of unetmm: calls handlers of regions that are gone";
    set_bit(DEVICE_CATEGORY_MISC, dc->categories);
    object_class_property_add(class, "hold", "uint64", NULL, late_hold, NULL,
                              NULL);
    object_class_property_set_description(class, "hold",
        "keeps the region of this guest physical address; 0: releases all");
    object_class_property_add_bool(class, "call", NULL, late_call);
    object_class_property_set_description(class, "call",
        "calls all handlers of the regions that are held");
}

static const TypeInfo late_types[] = {
    {
        .name = TYPE_UNETMM_LATE,
        .parent = TYPE_DEVICE,
        .instance_size = sizeof(UnetmmLate),
        .instance_init = late_init,
        .instance_finalize = late_finalize,
        .class_init = late_class_init,
    },
};

DEFINE_TYPES(late_types)
