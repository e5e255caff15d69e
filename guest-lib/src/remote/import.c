/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory of peers.
 *
 * Which memory of which peer an import is, only the drivers and the cards know.  The
 * library keeps its length and its rights, so that most mistakes are found before
 * anything is posted.
 */
#include "remote.h"

/* ---- Import ------------------------------------------------------------ */

int unetmm_import(struct unetmm_ep *pub, int channel, uint64_t id,
                  unsigned rights, int64_t timeout_ns, uint64_t *length)
{
    struct unetmm_ep_private *ep = unetmm_ep_private(pub);
    struct unetmm_import_record *record;
    struct unetmm_import import;
    int ret;

    if (!pub->alive) {
        return -EOWNERDEAD;
    }
    import = (struct unetmm_import) {
        .size = sizeof(import),
        .endpoint = ep->id,
        .id = id,
        .deadline_ns = unetmm_deadline(timeout_ns),
        .channel = (uint32_t)channel,
        .rights = rights,
    };
    ret = sys_ioctl(ep->ctx->fd, UNETMM_IOC_IMPORT, &import);
    if (ret < 0) {
        return unetmm_timed(ret, timeout_ns);
    }
    if (import.import >= pub->nimports || !import.length ||
        (unsigned)channel >= pub->channels) {
        unetmm_object_end(ep->ctx, UNETMM_OBJECT_IMPORT, ep->id, import.import, 0);
        return -EPROTO;
    }
    record = &ep->imports[import.import];
    record->channel = (uint16_t)channel;
    record->rights = (uint8_t)import.rights;
    /* A reader that finds the import finds the rest of its record. */
    __atomic_store_n(&record->length, import.length, __ATOMIC_RELEASE);
    if (length) {
        *length = import.length;
    }
    return (int)import.import;
}

int unetmm_unimport(struct unetmm_ep *pub, int import)
{
    struct unetmm_ep_private *ep = unetmm_ep_private(pub);

    if (!pub->alive) {
        return -EOWNERDEAD;
    }
    if ((unsigned)import >= pub->nimports ||
        !__atomic_load_n(&ep->imports[import].length, __ATOMIC_RELAXED)) {
        return -ENOENT;
    }
    __atomic_store_n(&ep->imports[import].length, 0, __ATOMIC_RELAXED);
    unetmm_utlb_unimport(ep, import);
    return unetmm_object_end(ep->ctx, UNETMM_OBJECT_IMPORT, ep->id, (uint32_t)import, 0);
}
