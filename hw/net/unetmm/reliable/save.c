/*
 * unetmm: saving and restoring reliable channels
 *
 * A channel that exists was set by the checks of CHANNEL_SET before; here it
 * gets its place and its numbers, and those that live on after their channel
 * are made.  Which packet is of which message follows from the messages.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "reliable.h"

/* ---- Messages ----------------------------------------------------------- */

/* The segment of an atomic. */
static void msg_result_save(UnetmmStream *st, UnetmmRelMsg *m)
{
    struct unetmm_seg *seg = &m->segs[UNETMM_SQE_RESULT];
    bool result = m->nsegs;

    unetmm_stream_bool(st, &result, "result");
    m->nsegs = result;
    if (!result) {
        return;
    }
    unetmm_stream_u64(st, &seg->addr, "result_addr");
    seg->len = sizeof(m->old);
    if (seg->addr > UINT64_MAX - (seg->len - 1)) {
        unetmm_stream_refuse(st, "a result has no place");
    }
}

static void msg_data_save(UnetmmStream *st, UnetmmRelMsg *m)
{
    uint64_t total;

    if (m->flags & UNETMM_SQE_F_INLINE) {
        if (m->len > UNETMM_MAX_INLINE) {
            unetmm_stream_refuse(st, "an inline message is too long");
            return;
        }
        unetmm_stream_bytes(st, m->data, MAX(m->len, m->operands), "data");
        if (m->operands) {
            msg_result_save(st, m);
        }
        return;
    }
    m->nsegs = unetmm_send_save_segs(st, m->segs, m->nsegs, &total);
    if (total != m->len) {
        unetmm_stream_refuse(st, "a message and its segments do not agree");
    }
}

/* The checks of its descriptor. */
static bool msg_op_ok(const UnetmmCore *core, const UnetmmRelMsg *m)
{
    bool is_inline = m->flags & UNETMM_SQE_F_INLINE;

    if (!unetmm_send_flags_ok(core, m->op, m->flags) ||
        m->operands != unetmm_sqe_op(core, m->op)->operands) {
        return false;
    }
    if (m->unasked && m->op != UNETMM_OP_WRITE) {
        return false;
    }
    if (m->op == UNETMM_OP_FENCE) {
        return !m->len;
    }
    return !m->operands || (is_inline && m->len == sizeof(m->old));
}

static const UnetmmField msg_fields[] = {
    UNETMM_FIELDS(UnetmmRelMsg, op, operands),
    UNETMM_FIELD_BYTES(UnetmmRelMsg, old),
    UNETMM_FIELD(UnetmmRelMsg, cookie),
    UNETMM_FIELD_RANGE(UnetmmRelMsg, len, 0, UNETMM_MAX_STRICT_MESSAGE),
    UNETMM_FIELD_RANGE(UnetmmRelMsg, status, 0, UNETMM_NUM_ST - 1),
    UNETMM_FIELD_RANGE(UnetmmRelMsg, flags, 0, UNETMM_SQE_F_ALL),
    UNETMM_FIELD_BOOL(UnetmmRelMsg, ended),
    UNETMM_FIELD_RANGE(UnetmmRelMsg, unasked, 0, UNETMM_REL_START),
};

static const UnetmmField msg_target[] = {
    UNETMM_FIELDS(UnetmmRelMsg, region, key, remote),
};

static const UnetmmField msg_progress[] = {
    UNETMM_FIELD_BOOL(UnetmmRelMsg, started),
    UNETMM_FIELDS(UnetmmRelMsg, first_psn, sent),
};

static void msg_save(UnetmmStream *st, const UnetmmCore *core, UnetmmRelMsg *m)
{
    if (UNETMM_STREAM_FIELDS(st, m, msg_fields) && !msg_op_ok(core, m)) {
        unetmm_stream_refuse(st, "a send is of no kind that there is");
    }
    if (m->unasked) {
        unetmm_stream_u16(st, &m->import, "import");
        if (m->ended) {
            UNETMM_STREAM_FIELDS(st, m, msg_target);
        }
    }
    if (m->ended || st->wrong) {
        return;
    }
    m->kind = unetmm_rel_kind_of(core, m);
    unetmm_stream_u32(st, &m->imm, "imm");
    if (m->kind->sqe.one_sided) {
        UNETMM_STREAM_FIELDS(st, m, msg_target);
    }
    UNETMM_STREAM_FIELDS(st, m, msg_progress);
    msg_data_save(st, m);
}

/* How far it has been sent agrees with its place among the others. */
static bool msg_sent_ok(const UnetmmRel *rel, const UnetmmRelMsg *m,
                        uint32_t index)
{
    uint32_t before = index - rel->msgs.first;
    uint32_t next = rel->msgs.next - rel->msgs.first;

    if (m->len > unetmm_rel_longest(rel)) {
        return false;
    }
    if (before < next) {
        return m->ended || (m->started && m->sent == m->len);
    }
    if (m->ended || (before > next && m->started)) {
        return false;
    }
    return m->started ? m->sent && m->sent < m->len &&
                        m->sent % rel->mtu == 0 : !m->sent;
}

/* From `psn` on to `end` all are void.  False: one is not, or there is none. */
static bool msgs_gap(const UnetmmSendWindow *tx, uint32_t psn, uint32_t end)
{
    if (end - psn > tx->nxt - psn) {
        return false;
    }
    for (; psn != end; psn++) {
        if (!(tx->voids & unetmm_rel_bit(psn))) {
            return false;
        }
    }
    return true;
}

/* The packets of one message, those that are on their way; *psn goes on. */
static bool msg_tiles(UnetmmRel *rel, const UnetmmRelMsg *m, uint32_t index,
                      uint32_t end, uint32_t *psn)
{
    const UnetmmSendWindow *tx = &rel->tx;

    for (; *psn != end; (*psn)++) {
        uint64_t bit = unetmm_rel_bit(*psn);

        if (*psn == tx->nxt || (tx->voids & bit) ||
            ((tx->pending & bit) && !m->kind->request)) {
            return false;
        }
        rel->msgs.of[*psn % UNETMM_REL_WINDOW] = index % UNETMM_REL_MSGS;
    }
    return true;
}

/*
 * Packets that are not void belong to messages that have not ended, in order,
 * up to the last one sent.
 */
static bool msgs_tile(UnetmmRel *rel)
{
    const UnetmmSendWindow *tx = &rel->tx;
    uint32_t psn = tx->una;

    for (uint32_t i = rel->msgs.first; i != rel->msgs.end; i++) {
        const UnetmmRelMsg *m = unetmm_rel_msg(rel, i);
        uint32_t n = unetmm_rel_packets(m->sent, rel->mtu);

        if (m->ended || !m->started) {
            continue;
        }
        /* Some packets of the first message may be over. */
        if (psn != tx->una || psn - m->first_psn > n ||
            (psn - m->first_psn == n && m->sent == m->len)) {
            if (!msgs_gap(tx, psn, m->first_psn)) {
                return false;
            }
            psn = m->first_psn;
        }
        if (!msg_tiles(rel, m, i, m->first_psn + n, &psn)) {
            return false;
        }
        /* The next packet's number says where in the message it begins. */
        if (m->sent != m->len && psn != tx->nxt) {
            return false;
        }
    }
    return msgs_gap(tx, psn, tx->nxt);
}

static void msgs_check(UnetmmStream *st, UnetmmRel *rel)
{
    for (uint32_t i = rel->msgs.first; i != rel->msgs.end && !st->wrong; i++) {
        UnetmmRelMsg *m = unetmm_rel_msg(rel, i);

        if (rel->state == UNETMM_REL_OPEN ? !msg_sent_ok(rel, m, i) :
            !m->ended) {
            unetmm_stream_refuse(st, "a send is further than its channel");
        }
    }
    if (!st->wrong && rel->state == UNETMM_REL_OPEN && !msgs_tile(rel)) {
        unetmm_stream_refuse(st, "packets are of no message");
    }
}

static void msgs_save(UnetmmStream *st, const UnetmmCore *core, UnetmmRel *rel)
{
    uint32_t used = rel->msgs.end - rel->msgs.first;
    uint32_t next = rel->msgs.next - rel->msgs.first;

    used = unetmm_stream_choice(st, used, UNETMM_REL_MSGS + 1, "msgs");
    next = unetmm_stream_choice(st, next, used + 1, "msgs_begun");
    if (unetmm_stream_reads(st)) {
        rel->msgs.end = used;
        rel->msgs.next = next;
    }
    for (uint32_t i = 0; i < used && !st->wrong; i++) {
        unetmm_stream_enter(st, "msg", i);
        msg_save(st, core, unetmm_rel_msg(rel, rel->msgs.first + i));
        unetmm_stream_leave(st);
    }
    if (unetmm_stream_takes(st)) {
        msgs_check(st, rel);
    }
}

/* The send that ends a strict channel; which packets go follows from it. */
static void ending_save(UnetmmStream *st, UnetmmRel *rel)
{
    UnetmmRelEnding *ending = &rel->ending;
    uint32_t used = rel->msgs.end - rel->msgs.first;
    uint32_t at = ending->msg - rel->msgs.first;

    unetmm_stream_bool(st, &ending->due, "ending");
    if (!ending->due) {
        return;
    }
    at = unetmm_stream_choice(st, at, MAX(used, 1), "ending_msg");
    ending->status = unetmm_stream_choice(st, ending->status, UNETMM_NUM_ST,
                                          "ending_status");
    ending->msg = rel->msgs.first + at;
    if (!used || !rel->strict || !ending->status ||
        rel->state != UNETMM_REL_OPEN) {
        unetmm_stream_refuse(st, "a channel ends for no send of it");
    }
}

/* ---- Sending ------------------------------------------------------------ */

static void deadline_save(UnetmmStream *st, UnetmmCore *core, UnetmmRel *rel)
{
    const UnetmmSendWindow *tx = &rel->tx;
    bool open = rel->state == UNETMM_REL_OPEN, armed;
    int64_t when;

    unetmm_sendwin_save_deadline(st, &rel->tx, &armed, &when);
    if (armed && unetmm_stream_reads(st)) {
        unetmm_rel_arm_at(core, rel, when);
    }
    if ((!open && (armed || tx->paused)) ||
        (tx->paused && tx->una == tx->nxt) ||
        (open && !armed && tx->una != tx->nxt && !core->eps[rel->ep].error)) {
        unetmm_stream_refuse(st, "a channel waits for ever, or for nothing");
    }
}

/* The packet that is timed flies; no cut waits for a packet not yet sent. */
static bool congestion_ok(const UnetmmRel *rel)
{
    const UnetmmCongestion *c = &rel->congestion;
    const UnetmmSendWindow *tx = &rel->tx;

    return rel->state != UNETMM_REL_OPEN ||
           ((!c->timing || unetmm_sendwin_flies(tx, c->timed_psn)) &&
            (!c->cut || c->cut_psn - tx->una <= tx->nxt - tx->una));
}

static void congestion_save(UnetmmStream *st, const UnetmmCore *core,
                            UnetmmRel *rel)
{
    bool early = rel->tx.early;

    if (!unetmm_congestion_is_on(&core->params) ||
        rel->state == UNETMM_REL_CLOSED) {
        return;
    }
    unetmm_stream_enter(st, "congestion", UNETMM_STREAM_ONE);
    unetmm_congestion_save(st, &rel->congestion);
    unetmm_stream_bool(st, &early, "early");
    unetmm_stream_leave(st);
    if (!unetmm_stream_takes(st)) {
        return;
    }
    if (!congestion_ok(rel)) {
        unetmm_stream_refuse(st, "a channel's control waits for no packet");
    }
    unetmm_rel_pace_allow(rel);
    if (early) {
        unetmm_sendwin_hurry(&rel->tx);
    }
}

/* ---- Receiving ---------------------------------------------------------- */

static const UnetmmField kept_fields[] = {
    UNETMM_FIELDS(struct unetmm_frame, psn, offset, remote, flags, imm),
};

static void kept_save(UnetmmStream *st, UnetmmCore *core, UnetmmRel *rel,
                      uint32_t slot)
{
    UnetmmQueued *q = &rel->kept[slot];
    struct unetmm_frame *f;

    if (unetmm_stream_reads(st)) {
        q->frame = unetmm_port_buffer(core);
        memset(q->frame, 0, sizeof(*f));
        if (core->rel->kept++ == core->params.reliable_keep) {
            unetmm_stream_refuse(st, "more packets are kept than there is "
                                 "room for");
        }
    }
    f = (struct unetmm_frame *)q->frame;
    f->len = unetmm_stream_choice(st, f->len, rel->mtu + 1, "len");
    UNETMM_STREAM_FIELDS(st, f, kept_fields);
    unetmm_stream_bytes(st, unetmm_frame_at(q->frame, sizeof(*f), f->len),
                        f->len, "payload");
    if (unetmm_stream_reads(st)) {
        /* The members that are used, and were not saved. */
        f->opcode = UNETMM_WIRE_SEND;
        q->bytes = sizeof(*f) + f->len;
    }
    if (!st->wrong && (f->psn != unetmm_rel_kept_psn(rel, slot) ||
                       !unetmm_recv_members_ok(core, f))) {
        unetmm_stream_refuse(st, "a packet is kept that cannot be");
    }
}

static void have_save(UnetmmStream *st, UnetmmCore *core, UnetmmRel *rel,
                      uint32_t slot)
{
    bool whole = rel->kept[slot].frame;

    unetmm_stream_bool(st, &whole, "whole");
    if (whole) {
        kept_save(st, core, rel, slot);
    } else {
        unetmm_rel_save_early(st, core, rel, slot);
    }
}

/* A buffer of which no part is empty, with room for the message. */
static bool rx_parts_ok(const UnetmmRelIn *in)
{
    uint64_t room = 0;

    for (uint32_t i = 0; i < in->nparts; i++) {
        const UnetmmPart *part = &in->parts[i];

        if (!part->len || part->addr > UINT64_MAX - (part->len - 1)) {
            return false;
        }
        room += part->len;
    }
    return room >= in->len;
}

/* A message that has its buffer, and not all its bytes. */
static bool rx_begun_ok(const UnetmmEp *ep, const UnetmmRel *rel)
{
    if (!rel->in.len) {
        return ep->no_inline && !rel->in.done;
    }
    return (ep->no_inline || rel->in.len > UNETMM_CQE_INLINE) &&
           rel->in.len <= unetmm_rel_longest(rel) &&
           rel->in.done < rel->in.len && rel->in.done % rel->mtu == 0 &&
           rx_parts_ok(&rel->in);
}

static bool rx_message_ok(const UnetmmEp *ep, const UnetmmRel *rel)
{
    const UnetmmRelIn *in = &rel->in;

    if (rel->state != UNETMM_REL_OPEN) {
        return in->giving_back == in->claimed && !rel->rx.have &&
               !rel->rx.refused && !rel->rx.refuse;
    }
    if (in->giving_back || in->claimed != in->in_message) {
        return false;
    }
    return !in->in_message || rx_begun_ok(ep, rel);
}

static const UnetmmField part_fields[] = {
    UNETMM_FIELDS(UnetmmPart, addr, len),
};

/* The last question, and when a packet of ours is late for it. */
static void question_save(UnetmmStream *st, UnetmmCore *core, UnetmmRel *rel)
{
    UnetmmRelAlong *along = &rel->along;
    bool late = along->question == UNETMM_REL_ANSWERED &&
                along->question_ns < st->now;

    along->likely = unetmm_stream_choice(st, along->likely,
                                         UNETMM_REL_ALONG_LIKELY + 1, "along");
    along->question = unetmm_stream_choice(st, along->question,
                                           UNETMM_REL_WAITS + 1, "question");
    if (along->question == UNETMM_REL_NO_QUESTION) {
        return;
    }
    unetmm_stream_bool(st, &late, "late");
    unetmm_stream_time(st, &along->question_ns, UNETMM_REL_ALONG_NS,
                       "question_ns");
    if (rel->state != UNETMM_REL_OPEN || core->eps[rel->ep].error ||
        !(core->eps[rel->ep].channels[rel->channel].peer_takes &
          UNETMM_CHANNEL_F_ACK) ||
        (late && along->question == UNETMM_REL_WAITS)) {
        unetmm_stream_refuse(st, "channel %u of endpoint %u was asked for an "
                             "acknowledgement in vain", rel->channel,
                             rel->ep);
    }
    if (!unetmm_stream_reads(st)) {
        return;
    }
    if (late) {
        along->question_ns = INT64_MIN;
    } else if (along->question == UNETMM_REL_WAITS) {
        unetmm_rel_due_at(core, rel, along->question_ns);
    }
}

static const UnetmmField rx_fields[] = {
    UNETMM_BOOLS(UnetmmRelIn, in_message, claimed, giving_back),
    UNETMM_FIELD_RANGE(UnetmmRelIn, buf_status, 0, UNETMM_NUM_ST - 1),
    UNETMM_FIELD_RANGE(UnetmmRelIn, len, 0, UNETMM_MAX_STRICT_MESSAGE),
    UNETMM_FIELD(UnetmmRelIn, done),
    UNETMM_FIELD_RANGE(UnetmmRelIn, nparts, 0, UNETMM_MAX_SEGS),
    UNETMM_FIELD_LIST(UnetmmRelIn, nparts, parts, "part", part_fields),
    UNETMM_FIELD(UnetmmRelIn, buf_cookie),
};

static void rx_save(UnetmmStream *st, UnetmmCore *core, UnetmmRel *rel)
{
    unetmm_recvwin_save(st, &rel->rx, &rel->share.unlanded,
                        rel->state == UNETMM_REL_OPEN);
    UNETMM_STREAM_FIELDS(st, &rel->in, rx_fields);
    if (!rx_message_ok(&core->eps[rel->ep], rel)) {
        unetmm_stream_refuse(st, "channel %u of endpoint %u receives an "
                             "impossible message", rel->channel, rel->ep);
    }
    for (uint32_t i = 0; i < UNETMM_REL_WINDOW && !st->wrong; i++) {
        if (rel->rx.have & unetmm_rel_bit(i)) {
            unetmm_stream_enter(st, "kept", i);
            have_save(st, core, rel, i);
            unetmm_stream_leave(st);
        }
    }
    unetmm_rel_save_one_sided(st, rel);
    question_save(st, core, rel);
}

/* ---- Channels ----------------------------------------------------------- */

uint64_t unetmm_rels_save_limit(const UnetmmCore *core)
{
    uint64_t msg = 128 + UNETMM_MAX_SEGS * 12 + UNETMM_MAX_INLINE;

    uint64_t rel = 1024 + UNETMM_MAX_SEGS * 12 + UNETMM_REL_MSGS * msg +
                   UNETMM_REL_WINDOW * (4 + 32 + sizeof(UnetmmRelEarly) +
                                        sizeof(UnetmmRelAsk));

    return core->params.reliable * rel +
           (uint64_t)core->params.reliable_keep * UNETMM_SAVED_FRAME;
}

uint32_t unetmm_rel_credits(const UnetmmRel *rel)
{
    return rel->share.credits;
}

UnetmmRel *unetmm_rel_save_number(UnetmmStream *st, UnetmmCore *core,
                                  const UnetmmEp *ep, UnetmmRel *rel)
{
    uint32_t n = unetmm_stream_choice(st, rel ? rel->number + 1 : 0,
                                      core->params.reliable + 1, "rel");

    if (!unetmm_stream_reads(st)) {
        return rel;
    }
    rel = n ? core->rel->all[n - 1] : NULL;
    if (n && !rel) {
        unetmm_stream_refuse(st, "there is no reliable channel %u", n - 1);
    } else if (n && ep && rel->ep != ep->id) {
        unetmm_stream_refuse(st, "endpoint %u has no such reliable channel",
                             ep->id);
        rel = NULL;
    }
    return rel;
}

/* The one that CHANNEL_SET has made, or, closed, one of its own. */
static UnetmmRel *rel_restored(UnetmmStream *st, UnetmmCore *core,
                               UnetmmEp *ep, uint32_t slot, uint16_t channel,
                               UnetmmRelState state)
{
    UnetmmRel *rel = ep->channels[channel].rel;

    if (core->rel->all[slot]) {
        unetmm_stream_refuse(st, "two reliable channels are one");
        return NULL;
    }
    if (state == UNETMM_REL_CLOSED) {
        if (core->rel->used == core->params.reliable) {
            unetmm_stream_refuse(st, "there are too many reliable channels");
            return NULL;
        }
        rel = unetmm_rel_new(core, ep, slot);
        rel->channel = channel;
        rel->mtu = UNETMM_MIN_MTU;
        rel->state = state;
        return rel;
    }
    if (!rel || rel->awake) {
        unetmm_stream_refuse(st, "channel %u of endpoint %u is not reliable, "
                             "or twice", channel, ep->id);
        return NULL;
    }
    unetmm_rel_wake(ep, rel);
    rel->state = state;
    unetmm_rel_attach(core, rel, slot);
    return rel;
}

/* A channel that there is was promised its slots when it was set. */
static void promise_save(UnetmmStream *st, UnetmmCore *core, UnetmmRel *rel)
{
    uint32_t credits = unetmm_stream_choice(st, rel->share.credits,
                                            UNETMM_REL_WINDOW + 1, "credits");

    if (!unetmm_stream_takes(st)) {
        return;
    }
    if (rel->state != UNETMM_REL_CLOSED ? credits != rel->share.credits :
        !unetmm_sysbuf_promise(core, credits)) {
        unetmm_stream_refuse(st, "a channel has credits that nobody gave");
        return;
    }
    rel->share.credits = credits;
}

/* The purposes of its misses, if there are any. */
static void missed_save(UnetmmStream *st, UnetmmRel *rel)
{
    for (unsigned kind = 0; kind < UNETMM_REL_MISSES; kind++) {
        unetmm_stream_enter(st, "missed", kind);
        unetmm_stream_u32(st, &rel->missed[kind].psn, "psn");
        unetmm_stream_leave(st);
    }
    unetmm_stream_bool(st, &rel->missed[UNETMM_REL_FAULT_ARRIVE].buffer,
                       "missed_buffer");
}

static const UnetmmField rel_numbers_fields[] = {
    UNETMM_FIELDS(UnetmmRel, retries, not_ready_retries),
    UNETMM_FIELD_RANGE(UnetmmRel, stage, 0, UNETMM_CHANNEL_INIT),
    UNETMM_BOOLS(UnetmmRel, rewinds, plain_rnr),
    UNETMM_FIELD_RANGE(UnetmmRel, denied, 0, UNETMM_RIGHT_ALL),
    UNETMM_FIELDS(UnetmmRel, why, timeout_us, not_ready_us),
};

/* Before RTS nothing has been sent, before RTR nothing was received. */
static bool rel_stage_ok(UnetmmRel *rel)
{
    bool sent = rel->tx.una != rel->tx.nxt ||
                rel->msgs.next != rel->msgs.first ||
                (rel->msgs.end != rel->msgs.first &&
                 unetmm_rel_msg(rel, rel->msgs.first)->started);
    const UnetmmRecvWindow *rx = &rel->rx;
    bool received = rx->have || rx->why || rx->late_why || rx->refused ||
                    rx->landed || rx->wrong || rx->bad_keys ||
                    rel->in.in_message || rel->in.run || rel->answers.owed;

    return rel->state != UNETMM_REL_OPEN ||
           rel->stage == UNETMM_CHANNEL_RTS ||
           (!sent && !(received && rel->stage == UNETMM_CHANNEL_INIT));
}

static void rel_numbers_save(UnetmmStream *st, UnetmmCore *core,
                             UnetmmRel *rel)
{
    bool owes = unetmm_rel_owes_ack(core, rel);

    UNETMM_STREAM_FIELDS(st, rel, rel_numbers_fields);
    /* Zero is the default's name in a command: no channel has it. */
    if (rel->timeout_us - 1 >= UNETMM_REL_MAX_TIMEOUT_US ||
        rel->not_ready_us - 1 >= UNETMM_REL_MAX_TIMEOUT_US) {
        unetmm_stream_refuse(st, "a channel's time is none, or too long");
    }
    if (rel->why >= UNETMM_NUM_WHY) {
        unetmm_stream_refuse(st, "a channel ended for no reason that there "
                             "is");
    }
    promise_save(st, core, rel);
    unetmm_stream_bool(st, &owes, "owes_ack");
    if (owes && rel->state == UNETMM_REL_CLOSED) {
        unetmm_stream_refuse(st, "a channel that is closed owes an answer");
    } else if (owes && unetmm_stream_reads(st)) {
        unetmm_rel_owe_ack(core, rel);
    }
    unetmm_stream_enter(st, "tx", UNETMM_STREAM_ONE);
    unetmm_sendwin_save(st, &rel->tx, rel->state == UNETMM_REL_OPEN);
    msgs_save(st, core, rel);
    ending_save(st, rel);
    deadline_save(st, core, rel);
    congestion_save(st, core, rel);
    unetmm_stream_leave(st);
    unetmm_stream_enter(st, "rx", UNETMM_STREAM_ONE);
    rx_save(st, core, rel);
    unetmm_stream_leave(st);
    if (!rel_stage_ok(rel)) {
        unetmm_stream_refuse(st, "a channel has sent or received too soon");
    }
    missed_save(st, rel);
    unetmm_stores_save(st, core, &rel->stores);
    if (rel->stores.first && rel->state != UNETMM_REL_OPEN) {
        unetmm_stream_refuse(st, "a channel that has ended has stores");
    }
}

static void rels_write(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep)
{
    uint32_t i = 0;

    for (UnetmmRel *rel = ep->rels; rel; rel = rel->next) {
        uint16_t slot = rel->number;
        uint8_t state = rel->state;

        unetmm_stream_enter(st, "rel", i++);
        unetmm_stream_u16(st, &slot, "slot");
        unetmm_stream_u16(st, &rel->channel, "channel");
        unetmm_stream_u8(st, &state, "state");
        rel_numbers_save(st, core, rel);
        unetmm_stream_leave(st);
    }
}

static void rel_read(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep)
{
    uint16_t slot = unetmm_stream_choice16(st, 0, core->params.reliable,
                                           "slot");
    uint16_t channel = unetmm_stream_choice16(st, 0, core->params.channels,
                                              "channel");
    UnetmmRel *rel = NULL;
    uint8_t state = 0;

    unetmm_stream_u8(st, &state, "state");
    if (state > UNETMM_REL_CLOSED) {
        unetmm_stream_refuse(st, "a reliable channel has no such state");
    }
    if (!st->wrong) {
        rel = rel_restored(st, core, ep, slot, channel, state);
    }
    if (rel) {
        rel_numbers_save(st, core, rel);
    }
}

/*
 * Those that CHANNEL_SET made rest until the stream speaks of them; its order
 * is that of their turns.
 */
static void rels_read(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep,
                      uint32_t n)
{
    while (ep->rel_awake) {
        unetmm_rel_detach(core, ep->rel_awake);
        unetmm_rel_rest(ep, ep->rel_awake);
    }
    for (uint32_t i = 0; i < n && !st->wrong; i++) {
        unetmm_stream_enter(st, "rel", i);
        rel_read(st, core, ep);
        unetmm_stream_leave(st);
    }
    if (ep->rel_awake ? ep->rel_awake->next : ep->rels) {
        /* Channels end with their endpoint: the stream is refused. */
        unetmm_stream_refuse(st, "endpoint %u has reliable channels of which "
                             "nothing is said", ep->id);
    }
}

void unetmm_rels_save(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep)
{
    uint32_t n = 0;

    for (UnetmmRel *rel = ep->rels; rel && !unetmm_stream_reads(st);
         rel = rel->next) {
        n++;
    }
    n = unetmm_stream_choice(st, n, core->params.reliable + 1, "rels");
    if (unetmm_stream_reads(st)) {
        rels_read(st, core, ep, n);
    } else {
        rels_write(st, core, ep);
    }
    if (ep->sq_waits && !ep->rels) {
        unetmm_stream_refuse(st, "endpoint %u waits for a channel that is not "
                             "there", ep->id);
    }
}

/* Each packet that waits is in a slot of its own, and no slot has another. */
static bool unlanded_ok(const UnetmmCore *core, const UnetmmRel *rel)
{
    const UnetmmShare *share = &rel->share;
    uint32_t n = 0;

    for (uint32_t i = 0; i < UNETMM_REL_WINDOW; i++) {
        const UnetmmSysbufSlot *slot = &core->sysbuf->slots[share->slot_of[i]];

        if (!(share->unlanded & unetmm_rel_bit(i))) {
            continue;
        }
        if (slot->share != share || slot->psn % UNETMM_REL_WINDOW != i) {
            return false;
        }
        n++;
    }
    return n == share->used;
}

/* Only a channel that goes on has misses. */
static bool misses_ok(const UnetmmRel *rel, bool goes)
{
    for (unsigned kind = 0; kind < UNETMM_REL_MISSES; kind++) {
        const UnetmmMiss *miss = &rel->misses[kind];

        if (miss->state != UNETMM_MISS_NONE && (!goes || miss->zero)) {
            return false;
        }
    }
    return true;
}

void unetmm_rels_check(UnetmmStream *st, UnetmmCore *core)
{
    /* Channels that the landing does not hold up are not touched by its end. */
    core->rel->waiting = core->landing->active;
    for (uint32_t i = 0; i < core->params.reliable && !st->wrong; i++) {
        const UnetmmRel *rel = core->rel->all[i];
        bool goes;

        if (!rel) {
            continue;
        }
        goes = rel->state == UNETMM_REL_OPEN && !core->eps[rel->ep].error;
        if (goes && !unlanded_ok(core, rel)) {
            unetmm_stream_refuse(st, "a channel waits for a slot that it has "
                                 "not");
        }
        if (!misses_ok(rel, goes)) {
            unetmm_stream_refuse(st, "a miss of channel %u of endpoint %u "
                                 "waits in vain", rel->channel,
                                 rel->ep);
        }
    }
}
