/*
 * unetmm: reliable channels: completions of an endpoint's sends and buffers
 *
 * A send leaves its queue when the channel has taken its descriptor, and has
 * its completion when the peer has acknowledged all of it; until then its
 * memory is read as often as it takes.  So the sends of one channel complete
 * in order, and those of two channels of an endpoint do not wait for each
 * other.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "reliable.h"

/* The memory of a send is the process's again only when no page of it moves. */
static bool rel_send_moving(const UnetmmCore *core, const UnetmmEp *ep,
                            const UnetmmRel *rel)
{
    return (ep->tx.rel == rel && ep->tx.moving && !ep->tx.answer) ||
           (core->landing->active && core->landing->of == rel &&
            core->landing->header.opcode == UNETMM_WIRE_ANSWER);
}

static bool rel_send_due(const UnetmmCore *core, const UnetmmEp *ep,
                         UnetmmRel *rel)
{
    return rel->msgs.first != rel->msgs.end &&
           unetmm_rel_msg(rel, rel->msgs.first)->ended &&
           !rel_send_moving(core, ep, rel);
}

static bool rel_buffer_due(const UnetmmCore *core, const UnetmmRel *rel)
{
    return rel->in.giving_back && core->landing->of != rel && !rel->share.used;
}

static bool rel_over(const UnetmmCore *core, const UnetmmEp *ep,
                     const UnetmmRel *rel)
{
    return rel->state == UNETMM_REL_CLOSED &&
           rel->msgs.first == rel->msgs.end && !rel->in.giving_back &&
           ep->tx.rel != rel && core->landing->of != rel && !rel->share.used;
}

/* False: no room, or the endpoint was stopped. */
static bool rel_post_cqe(UnetmmCore *core, UnetmmEp *ep,
                         struct unetmm_cqe *cqe)
{
    if (!unetmm_ep_cq_spare(ep)) {
        ep->publish = true;
        return false;
    }
    return unetmm_ep_complete(core, ep, cqe);
}

/* The import of an update; NULL: it is no more. */
static UnetmmImport *unasked_import(const UnetmmCore *core, UnetmmEp *ep,
                                    const UnetmmRelMsg *m)
{
    return unetmm_import_of(core, ep, m->import, m->region, m->key);
}

/*
 * Says of one that has failed: of updates once for each import, and none if
 * the end of the channel tells of it.  False: there is nothing to say.
 */
static bool unasked_cqe(const UnetmmCore *core, UnetmmEp *ep,
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

/* A failed update was reported: the windows of its import go. */
static void unasked_said(UnetmmCore *core, UnetmmEp *ep, const UnetmmRelMsg *m)
{
    UnetmmImport *import = unasked_import(core, ep, m);

    if (m->unasked == UNETMM_REL_UPDATE && import) {
        import->said = true;
        unetmm_window_drop_import(core, ep, m->import);
    }
}

static bool rel_complete_send(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel)
{
    UnetmmRelMsg *m = unetmm_rel_msg(rel, rel->msgs.first);
    struct unetmm_cqe cqe = {
        .opcode = UNETMM_CQE_SENT, .status = m->status, .cookie = m->cookie,
        .channel = rel->channel, .len = m->len,
    };
    bool good = m->status == UNETMM_ST_OK, said;

    if (good && m->operands) {
        cqe.flags = UNETMM_CQE_F_INLINE;
        memcpy(cqe.data, m->old, sizeof(m->old));
    }
    said = m->unasked ? unasked_cqe(core, ep, m, &cqe) :
           !(good && (m->flags & UNETMM_SQE_F_QUIET));
    if (said && !rel_post_cqe(core, ep, &cqe)) {
        return false;
    }
    if (said && m->unasked) {
        unasked_said(core, ep, m);
    }
    unetmm_count(core, ep, good ? UNETMM_C_sends_done : UNETMM_C_sends_failed,
                 1);
    rel->msgs.first++;
    ep->sq_waits = false;
    return true;
}

static bool rel_complete_buffer(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel)
{
    struct unetmm_cqe cqe = {
        .opcode = UNETMM_CQE_BUFFER, .status = rel->in.buf_status,
        .cookie = rel->in.buf_cookie,
    };

    if (!rel_post_cqe(core, ep, &cqe)) {
        return false;
    }
    unetmm_count(core, ep, UNETMM_C_bufs_failed, 1);
    rel->in.claimed = rel->in.giving_back = rel->in.in_message = false;
    return true;
}

/* The next completion of this channel, if one is due and there is room. */
static bool rel_complete_one(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel)
{
    if (rel_send_due(core, ep, rel)) {
        if (!rel_complete_send(core, ep, rel)) {
            return false;
        }
        unetmm_window_go_on(core, ep, &rel->stores);
        return true;
    }
    return rel_buffer_due(core, rel) && rel_complete_buffer(core, ep, rel);
}

/*
 * Behind one that waits for room there may be others that are over.  Those
 * beyond the budget are work for another turn.
 */
void unetmm_rel_complete(UnetmmCore *core, UnetmmEp *ep)
{
    UnetmmRel *rel = ep->rels;

    while (!ep->error && rel && rel->awake && unetmm_budget_left(core)) {
        UnetmmRel *next = rel->next;

        if (unetmm_rel_ends(rel)) {
            unetmm_count(core, ep, UNETMM_C_rel_strict, 1);
            unetmm_rel_fail(core, ep, rel,
                            unetmm_rel_msg(rel, rel->ending.msg),
                            rel->ending.status, UNETMM_WHY_CHANNEL);
        }
        if (rel_complete_one(core, ep, rel)) {
            continue;
        }
        if (rel_over(core, ep, rel)) {
            unetmm_rel_part(ep, rel);
            unetmm_rel_delete(core, rel);
        }
        rel = next;
    }
}

bool unetmm_rel_quiet(UnetmmRel *rel)
{
    return rel->state != UNETMM_REL_CLOSED &&
           (rel->msgs.first == rel->msgs.end ||
            !unetmm_rel_msg(rel, rel->msgs.first)->ended) &&
           !rel->in.giving_back && !rel->rx.landed &&
           rel->rx.refused == UNETMM_REL_WANT_NOTHING &&
           !unetmm_rel_can_send(rel) && !unetmm_rel_can_answer(rel);
}

/* The work for an endpoint ends with this question: channels may rest then. */
bool unetmm_rel_completes(UnetmmCore *core, UnetmmEp *ep)
{
    bool room = unetmm_ep_cq_spare(ep);
    UnetmmRel *next;

    for (UnetmmRel *rel = ep->rels; rel && rel->awake; rel = next) {
        next = rel->next;
        if (rel_over(core, ep, rel) || unetmm_rel_ends(rel) ||
            (room && (rel_send_due(core, ep, rel) ||
                      rel_buffer_due(core, rel)))) {
            return true;
        }
        if (unetmm_rel_quiet(rel)) {
            unetmm_rel_rest(ep, rel);
        }
    }
    return false;
}
