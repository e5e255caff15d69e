/*
 * unetmm: reliable channels: messages that no descriptor asked for
 *
 * What was stored in windows, and what proxy pages have started, becomes a
 * message like any other, in the same order, but one without a cookie: it
 * completes only if it fails.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "rel.h"

/* NULL: the channel takes no more now, or none ever. */
static UnetmmRelMsg *unasked_new(UnetmmRel *rel, UnetmmRelUnasked unasked,
                                 uint16_t import)
{
    UnetmmRelTx *tx = &rel->tx;
    UnetmmRelMsg *m;

    if (rel->state != UNETMM_REL_OPEN ||
        tx->msg_end - tx->msg_first == UNETMM_REL_MSGS) {
        return NULL;
    }
    m = unetmm_rel_msg(rel, tx->msg_end++);
    memset(m, 0, sizeof(*m));
    m->op = UNETMM_OP_WRITE;
    m->flags = UNETMM_SQE_F_QUIET;
    m->unasked = unasked;
    m->import = import;
    return m;
}

bool unetmm_rel_update(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                       const UnetmmUpdate *u)
{
    UnetmmRelMsg *m = unasked_new(rel, UNETMM_REL_UPDATE,
                                  u->import);

    if (!m) {
        return false;
    }
    m->flags |= UNETMM_SQE_F_INLINE;
    m->region = u->region;
    m->key = u->key;
    m->remote = u->remote;
    m->len = u->len;
    memcpy(m->data, u->data, u->len);
    unetmm_rel_starve(core, ep, rel);
    unetmm_count(core, ep, UNETMM_C_window_packets, 1);
    unetmm_engine_queue(core, ep);
    return true;
}

void unetmm_rel_overrun(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel)
{
    unetmm_rel_fail(core, ep, rel, NULL, UNETMM_ST_OVERRUN,
                    UNETMM_WHY_CHANNEL);
}

UnetmmStores *unetmm_rel_stores(const UnetmmChannel *channel)
{
    UnetmmRel *rel = channel->rel;

    return rel->state == UNETMM_REL_OPEN ? &rel->stores : NULL;
}

UnetmmPosted unetmm_rel_start(UnetmmCore *core, UnetmmEp *ep,
                              UnetmmChannel *channel, const UnetmmStart *start,
                              uint64_t addr)
{
    const UnetmmImport *import = &ep->imports[start->import];
    UnetmmRel *rel = channel->rel;
    UnetmmRelMsg *m;

    if (rel->state != UNETMM_REL_OPEN) {
        return UNETMM_POST_FAILED;
    }
    m = unetmm_window_flush(core, ep, &rel->stores) ?
        unasked_new(rel, UNETMM_REL_START, start->import) : NULL;
    if (!m) {
        return UNETMM_POST_FULL;
    }
    m->region = import->region;
    m->key = import->key;
    m->remote = start->offset;
    m->len = start->len;
    m->nsegs = 1;
    m->segs[0] = (struct unetmm_seg) { .addr = addr, .len = start->len };
    unetmm_rel_starve(core, ep, rel);
    return UNETMM_POSTED;
}

/* The import that an update was for, if that is what it was. */
static UnetmmImport *unasked_import(const UnetmmCore *core, UnetmmEp *ep,
                                    const UnetmmRelMsg *m)
{
    UnetmmImport *import = m->import < core->params.imports ?
                           &ep->imports[m->import] : NULL;

    return import && import->live && import->region == m->region &&
           import->key == m->key ? import : NULL;
}

bool unetmm_rel_unasked_cqe(const UnetmmCore *core, UnetmmEp *ep,
                            const UnetmmRelMsg *m, struct unetmm_cqe *cqe)
{
    const UnetmmImport *import = unasked_import(core, ep, m);

    if (m->status == UNETMM_ST_OK || m->status == UNETMM_ST_FLUSHED ||
        m->status == UNETMM_ST_BAD_CHANNEL ||
        (m->unasked == UNETMM_REL_UPDATE && import && import->said)) {
        return false;
    }
    cqe->opcode = UNETMM_CQE_UPDATE;
    cqe->notify.offset = m->remote;
    cqe->notify.region = m->import;
    return true;
}

void unetmm_rel_unasked_said(UnetmmCore *core, UnetmmEp *ep,
                             const UnetmmRelMsg *m)
{
    UnetmmImport *import = unasked_import(core, ep, m);

    if (m->unasked == UNETMM_REL_UPDATE && import) {
        import->said = true;
        unetmm_window_drop_import(core, ep, m->import);
    }
}
