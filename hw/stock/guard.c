/*
 * unetmm: the comparison of the running QEMU with the headers of this object
 *
 * QEMU tells the size of each type's class and instance, the offset of each
 * property and of each member of its saved state, and its version.  The sizes
 * change with nearly every change of a structure; the offsets find a member
 * that has moved within a structure of the same size.  For structures that are
 * no types the version is the only evidence.  layouts.txt names the check of
 * each structure of QEMU that the object knows.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "hw/core/cpu.h"
#include "hw/pci/pci_device.h"
#include "hw/qdev-properties.h"
#include "migration/vmstate.h"
#include "qapi/qapi-commands-control.h"
#include "stock.h"

/* The first members of QEMU's TypeImpl (qom/object.c); classes point to it. */
typedef struct {
    const char *name;
    size_t class_size;
    size_t instance_size;
} TypeHead;

typedef struct {
    const char *type;
    size_t class_size;
    size_t instance_size;
} TypeSize;

#define STOCK_TYPE(name, class, instance) \
    { name, sizeof(class), sizeof(instance) }

static const TypeSize stock_types[] = {
    STOCK_TYPE(TYPE_OBJECT, ObjectClass, Object),
    STOCK_TYPE(TYPE_DEVICE, DeviceClass, DeviceState),
    STOCK_TYPE(TYPE_PCI_DEVICE, PCIDeviceClass, PCIDevice),
    STOCK_TYPE(TYPE_MEMORY_REGION, ObjectClass, MemoryRegion),
    STOCK_TYPE(TYPE_CPU, CPUClass, CPUState),
};

typedef struct {
    const char *name;
    size_t offset;
} Place;

/* Properties of TYPE_PCI_DEVICE whose values are members. */
static const Place stock_properties[] = {
    { "addr", offsetof(PCIDevice, devfn) },
    { "multifunction", offsetof(PCIDevice, cap_present) },
    { "rombar", offsetof(PCIDevice, rom_bar) },
    { "acpi-index", offsetof(PCIDevice, acpi_index) },
};

/* Members of vmstate_pci_device. */
static const Place stock_saved[] = {
    { "config", offsetof(PCIDevice, config) },
};

static bool type_fits(const TypeSize *want)
{
    ObjectClass *class = object_class_by_name(want->type);
    const TypeHead *type = class ? *(const TypeHead **)class : NULL;

    return type && g_str_equal(type->name, want->type) &&
           type->class_size == want->class_size &&
           type->instance_size == want->instance_size;
}

static bool property_fits(const Place *want)
{
    ObjectClass *class = object_class_by_name(TYPE_PCI_DEVICE);
    ObjectProperty *found = object_class_property_find(class, want->name);
    const Property *property = found ? found->opaque : NULL;

    return property && property->offset == want->offset;
}

static bool saved_fits(const Place *want)
{
    const VMStateField *field = vmstate_pci_device.fields;

    while (field->name && !g_str_equal(field->name, want->name)) {
        field++;
    }
    return field->name && field->offset == want->offset;
}

/* Returns the first structure or member whose layout differs, or NULL. */
static const char *layout_that_differs(void)
{
    for (unsigned i = 0; i < ARRAY_SIZE(stock_types); i++) {
        if (!type_fits(&stock_types[i])) {
            return stock_types[i].type;
        }
    }
    for (unsigned i = 0; i < ARRAY_SIZE(stock_properties); i++) {
        if (!property_fits(&stock_properties[i])) {
            return stock_properties[i].name;
        }
    }
    for (unsigned i = 0; i < ARRAY_SIZE(stock_saved); i++) {
        if (!saved_fits(&stock_saved[i])) {
            return stock_saved[i].name;
        }
    }
    return NULL;
}

bool stock_qemu_fits(void)
{
    g_autoptr(VersionInfo) version = qmp_query_version(NULL);
    const VersionTriple *qemu = version->qemu;
    const char *differs;

    if (qemu->major != QEMU_VERSION_MAJOR ||
        qemu->minor != QEMU_VERSION_MINOR) {
        fprintf(stderr, "unetmm: this is QEMU %" PRId64 ".%" PRId64 ".%" PRId64
                " and the card is compiled for QEMU %d.%d: use a QEMU %d.%d, "
                "or the one that scripts/setup qemu builds\n",
                qemu->major, qemu->minor, qemu->micro, QEMU_VERSION_MAJOR,
                QEMU_VERSION_MINOR, QEMU_VERSION_MAJOR, QEMU_VERSION_MINOR);
        return false;
    }
    differs = layout_that_differs();
    if (differs) {
        fprintf(stderr, "unetmm: this QEMU %" PRId64 ".%" PRId64 ".%" PRId64
                " is configured otherwise than Debian's (%s has another "
                "layout): use Debian's QEMU, or the one that scripts/setup "
                "qemu builds\n", qemu->major, qemu->minor, qemu->micro,
                differs);
        return false;
    }
    return true;
}
