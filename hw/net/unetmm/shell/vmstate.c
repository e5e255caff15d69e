/*
 * unetmm: migration and snapshots
 *
 * PCI and MSI-X are QEMU's to save; the card is one block of bytes that only
 * the core understands (card/save.c).  The block is collected first, never
 * more of it than there can be, and believed after all has been read.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "hw/pci/msix.h"
#include "migration/qemu-file-types.h"
#include "migration/vmstate.h"
#include "qemu/error-report.h"
#include "shell.h"

#define UNETMM_PIECE 65536

static int unetmm_core_put(QEMUFile *f, void *pv, size_t size,
                           const VMStateField *field, JSONWriter *vmdesc)
{
    UnetmmState *s = pv;
    GByteArray *saved;

    if (s->timing.effects.length) {
        error_report("unetmm: %u effects of the card wait for their time "
                     "(timing=), and are in no saved state: let the machine "
                     "run a little further", s->timing.effects.length);
        return -EBUSY;
    }
    saved = unetmm_core_save(&s->core);
    qemu_put_be32(f, saved->len);
    qemu_put_buffer(f, saved->data, saved->len);
    g_byte_array_unref(saved);
    return 0;
}

/* Memory grows with the bytes received, not with the length announced. */
static int unetmm_core_get(QEMUFile *f, void *pv, size_t size,
                           const VMStateField *field)
{
    g_autofree uint8_t *piece = g_malloc(UNETMM_PIECE);
    UnetmmState *s = pv;
    uint32_t left = qemu_get_be32(f);

    if (left > unetmm_core_save_limit(&s->core)) {
        error_report("unetmm: %u bytes are more than a card like this one "
                     "can have saved", left);
        return -EINVAL;
    }
    g_byte_array_set_size(s->incoming, 0);
    while (left) {
        uint32_t n = MIN(left, UNETMM_PIECE);

        if (qemu_get_buffer(f, piece, n) != n) {
            error_report("unetmm: the state of the card ends too early");
            return -EIO;
        }
        g_byte_array_append(s->incoming, piece, n);
        left -= n;
    }
    return 0;
}

static const VMStateInfo unetmm_vmstate_core = {
    .name = "unetmm/core",
    .get = unetmm_core_get,
    .put = unetmm_core_put,
};

static int unetmm_post_load(void *opaque, int version_id)
{
    UnetmmState *s = opaque;
    g_autofree char *why = NULL;
    bool loaded = unetmm_core_load(&s->core, s->incoming->data,
                                   s->incoming->len, &why);

    g_byte_array_set_size(s->incoming, 0);
    if (!loaded) {
        error_report("unetmm: the card cannot go on here: %s", why);
        return -EINVAL;
    }
    /* qom-get shows the values in force. */
    s->knobs = s->core.knobs;
    return 0;
}

const VMStateDescription unetmm_vmstate = {
    .name = TYPE_UNETMM,
    .version_id = 1,
    .minimum_version_id = 1,
    .post_load = unetmm_post_load,
    .fields = (const VMStateField[]) {
        VMSTATE_PCI_DEVICE(parent_obj, UnetmmState),
        VMSTATE_MSIX(parent_obj, UnetmmState),
        {
            .name = "core",
            .info = &unetmm_vmstate_core,
            .flags = VMS_SINGLE,
        },
        VMSTATE_END_OF_LIST()
    },
};
