/*
 * unetmm: reliable channels: messages that no descriptor asked for
 *
 * Stores in windows, and transfers that proxy pages have started, become a
 * message like any other, in the same order, but one without a cookie: it
 * completes only if it fails.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "reliable.h"

/* NULL: the channel takes no more now, or none ever. */
static UnetmmRelMsg *unasked_new(const UnetmmCore *core, UnetmmRel *rel,
                                 UnetmmRelUnasked unasked, uint16_t import)
{
    UnetmmRelMsg *m;

    if (rel->state != UNETMM_REL_OPEN ||
        rel->msgs.end - rel->msgs.first == UNETMM_REL_MSGS) {
        return NULL;
    }
    m = unetmm_rel_msg(rel, rel->msgs.end++);
    memset(m, 0, sizeof(*m));
    m->op = UNETMM_OP_WRITE;
    m->kind = unetmm_rel_kind(core, m->op);
    m->flags = UNETMM_SQE_F_QUIET;
    m->unasked = unasked;
    m->import = import;
    return m;
}

bool unetmm_rel_update(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                       const UnetmmUpdate *u)
{
    UnetmmRelMsg *m = unasked_new(core, rel, UNETMM_REL_UPDATE, u->import);

    if (!m) {
        return false;
    }
    m->flags |= UNETMM_SQE_F_INLINE;
    m->region = u->region;
    m->key = u->key;
    m->remote = u->remote;
    m->len = u->len;
    memcpy(m->data, u->data, u->len);
    unetmm_rel_wake(ep, rel);
    unetmm_rel_starve(core, ep, rel);
    unetmm_count(core, ep, UNETMM_C_window_packets, 1);
    unetmm_ready_push(core, ep);
    return true;
}

/* Has a failure of stores of the message's import been reported already? */
static bool overrun_silent(const UnetmmCore *core, UnetmmEp *ep,
                           const UnetmmRelMsg *m)
{
    const UnetmmImport *import = unetmm_import_of(core, ep, m->import,
                                                  m->region, m->key);

    return m->unasked == UNETMM_REL_UPDATE && import && import->said;
}

/* The oldest message that can report the end of the channel, or NULL. */
static const UnetmmRelMsg *overrun_blame(const UnetmmCore *core, UnetmmEp *ep,
                                         UnetmmRel *rel)
{
    for (uint32_t i = rel->msgs.first; i != rel->msgs.end; i++) {
        const UnetmmRelMsg *m = unetmm_rel_msg(rel, i);

        if (!m->ended && !overrun_silent(core, ep, m)) {
            return m;
        }
    }
    return NULL;
}

void unetmm_rel_overrun(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel)
{
    const UnetmmRelMsg *blame = overrun_blame(core, ep, rel);

    /* Also a process that has not asked for CQE_CLOSED must hear of the end. */
    ep->channels[rel->channel].tells_end |= !blame;
    unetmm_rel_fail(core, ep, rel, blame, UNETMM_ST_OVERRUN,
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
        unasked_new(core, rel, UNETMM_REL_START, start->import) : NULL;
    if (!m) {
        return UNETMM_POST_FULL;
    }
    m->region = import->region;
    m->key = import->key;
    m->remote = start->offset;
    m->len = start->len;
    m->nsegs = 1;
    m->segs[0] = (struct unetmm_seg) { .addr = addr, .len = start->len };
    unetmm_rel_wake(ep, rel);
    unetmm_rel_starve(core, ep, rel);
    return UNETMM_POSTED;
}

