/*
 * unetmm: reliable channels: messages into packets, and packets again
 *
 * The card keeps no copy of sent data: each packet is gathered from the
 * process's memory when it goes out, the first time and every other, by the
 * same resumable transfer as any send (send/send.c), which may wait for a
 * translation each time.  Only inline data is kept.
 *
 * The table `kinds` has the operations' differences; all are packets of one
 * numbering, and complete in one order.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "../abi/unetmm_host.h"
#include "packet.h"

#define UNETMM_REL_ASK_EVERY    16      /* packets without a question */

/* ---- Operations --------------------------------------------------------- */

typedef struct RelKind {
    uint8_t opcode;             /* of its packets */
    bool one_sided;
    bool request;               /* over when it has been answered */
    bool gathers;               /* the packet has the message's bytes */
    /* The rest of the header; `at`: where in the message it begins. */
    void (*fill)(const UnetmmRelMsg *m, struct unetmm_frame *f, uint32_t at,
                 uint32_t bytes);
} RelKind;

static void fill_send(const UnetmmRelMsg *m, struct unetmm_frame *f,
                      uint32_t at, uint32_t bytes)
{
    f->offset = at;
    f->remote = m->len;
    if (at + bytes != m->len) {
        return;
    }
    f->flags |= UNETMM_WIRE_F_LAST;
    if (m->flags & UNETMM_SQE_F_IMM) {
        f->flags |= UNETMM_WIRE_F_IMM;
        f->imm = m->imm;
    }
}

static void fill_target(const UnetmmRelMsg *m, struct unetmm_frame *f,
                        uint32_t at)
{
    f->handle = m->region;
    f->offset = m->key;
    f->remote = m->remote + at;
    f->flags |= m->flags & UNETMM_SQE_F_KEYED ? UNETMM_WIRE_F_KEYED : 0;
}

static void fill_write(const UnetmmRelMsg *m, struct unetmm_frame *f,
                       uint32_t at, uint32_t bytes)
{
    fill_target(m, f, at);
    if (at + bytes != m->len) {
        f->imm = m->len - at - bytes;
        return;
    }
    f->flags |= UNETMM_WIRE_F_LAST;
    if (m->flags & UNETMM_SQE_F_NOTIFY) {
        f->flags |= UNETMM_WIRE_F_NOTIFY;
        f->imm = m->imm;
    } else if (m->flags & UNETMM_SQE_F_COUNT) {
        f->flags |= UNETMM_WIRE_F_COUNT;
        f->imm = m->imm;
    } else if (m->flags & UNETMM_SQE_F_IMM) {
        f->flags |= UNETMM_WIRE_F_IMM;
        f->imm = m->imm;
    }
}

static void fill_read(const UnetmmRelMsg *m, struct unetmm_frame *f,
                      uint32_t at, uint32_t bytes)
{
    fill_target(m, f, at);
    /* This one is as long as the MTU, if there is another. */
    f->imm = UNETMM_PREP(UNETMM_READ_BYTES, bytes) |
             UNETMM_PREP(UNETMM_READ_MORE, (m->len - at - 1) / bytes);
}

static void fill_atomic(const UnetmmRelMsg *m, struct unetmm_frame *f,
                        uint32_t at, uint32_t bytes)
{
    fill_target(m, f, at);
    f->imm = m->op == UNETMM_OP_FETCH_ADD ? UNETMM_ATOMIC_ADD :
             UNETMM_ATOMIC_SWAP;
}

static void fill_nothing(const UnetmmRelMsg *m, struct unetmm_frame *f,
                         uint32_t at, uint32_t bytes)
{
}

static const RelKind kinds[] = {
    [UNETMM_OP_SEND] = { .opcode = UNETMM_WIRE_SEND, .gathers = true,
                         .fill = fill_send },
    [UNETMM_OP_WRITE] = { .opcode = UNETMM_WIRE_WRITE, .one_sided = true,
                          .gathers = true, .fill = fill_write },
    [UNETMM_OP_READ] = { .opcode = UNETMM_WIRE_READ, .one_sided = true,
                         .request = true, .fill = fill_read },
    [UNETMM_OP_FETCH_ADD] = { .opcode = UNETMM_WIRE_ATOMIC, .one_sided = true,
                              .request = true, .fill = fill_atomic },
    [UNETMM_OP_CMP_SWAP] = { .opcode = UNETMM_WIRE_ATOMIC, .one_sided = true,
                             .request = true, .fill = fill_atomic },
    [UNETMM_OP_FENCE] = { .opcode = UNETMM_WIRE_VOID, .fill = fill_nothing },
};

bool unetmm_rel_one_sided(const UnetmmRelMsg *m)
{
    return kinds[m->op].one_sided;
}

bool unetmm_rel_request(const UnetmmRelMsg *m)
{
    return kinds[m->op].request;
}

/* ---- Messages ----------------------------------------------------------- */

/* The import's present state is copied: the message uses the copy. */
static void rel_post_target(const UnetmmEp *ep, UnetmmRelMsg *m,
                            const UnetmmDescriptor *d)
{
    if (d->flags & UNETMM_SQE_F_KEYED) {
        m->region = d->region;
        m->key = d->handle;
    } else {
        m->region = ep->imports[d->handle].region;
        m->key = ep->imports[d->handle].key;
    }
    m->remote = d->remote;
}

UnetmmPosted unetmm_rel_post(UnetmmCore *core, UnetmmEp *ep,
                             UnetmmChannel *channel, const UnetmmDescriptor *d,
                             const uint8_t *data)
{
    UnetmmRel *rel = channel->rel;
    UnetmmRelMsg *m;

    if (rel->state != UNETMM_REL_OPEN) {
        /* In order, also then. */
        return rel->msgs.first == rel->msgs.end ? UNETMM_POST_FAILED :
               UNETMM_POST_FULL;
    }
    if (!unetmm_window_flush(core, ep, &rel->stores) ||
        rel->msgs.end - rel->msgs.first == UNETMM_REL_MSGS) {
        return UNETMM_POST_FULL;
    }
    m = unetmm_rel_msg(rel, rel->msgs.end++);
    memset(m, 0, sizeof(*m));
    m->op = d->opcode;
    m->cookie = d->cookie;
    m->len = d->len;
    m->flags = d->flags;
    m->imm = d->imm;
    m->nsegs = d->nsegs;
    m->operands = d->operands;
    if (kinds[m->op].one_sided) {
        rel_post_target(ep, m, d);
    }
    if (d->flags & UNETMM_SQE_F_INLINE) {
        memcpy(m->data, data, MAX(d->len, d->operands));
    } else {
        memcpy(m->segs, d->segs, d->nsegs * sizeof(m->segs[0]));
    }
    unetmm_rel_wake(ep, rel);
    unetmm_rel_starve(core, ep, rel);
    return UNETMM_POSTED;
}

/*
 * The peer keeps the results of the last few atomics: another must not push one
 * out that may still be asked for.
 */
static bool rel_atomics_full(const UnetmmRel *rel)
{
    const UnetmmSendWindow *tx = &rel->tx;
    uint32_t n = 0;

    for (uint32_t psn = tx->una; tx->pending && psn != tx->nxt; psn++) {
        uint64_t bit = unetmm_rel_bit(psn);
        uint8_t of = rel->msgs.of[psn % UNETMM_REL_WINDOW];
        const UnetmmRelMsg *m = &rel->msgs.msg[of];

        if (!(tx->voids & bit) && m->operands && (n || tx->pending & bit)) {
            n++;
        }
    }
    return n >= UNETMM_REL_ATOMICS;
}

static bool rel_window_open(const UnetmmRel *rel)
{
    const UnetmmSendWindow *tx = &rel->tx;

    return unetmm_sendwin_room(tx) && rel->msgs.next != rel->msgs.end &&
           !unetmm_sendwin_no_credit(tx) &&
           (!rel->msgs.msg[rel->msgs.next % UNETMM_REL_MSGS].operands ||
            !rel_atomics_full(rel));
}

/*
 * Behind a refusal only the packet that was refused is chosen.  One whose
 * gathering had begun before still goes out: it is as if the refusal had come
 * a little later.
 */
bool unetmm_rel_can_send(const UnetmmRel *rel)
{
    const UnetmmSendWindow *tx = &rel->tx;

    if (rel->state != UNETMM_REL_OPEN || tx->paused) {
        return false;
    }
    if (tx->refusals) {
        return tx->una != tx->nxt && (tx->lost & unetmm_rel_bit(tx->una));
    }
    return tx->lost || rel_window_open(rel);
}

/* The message of a packet that was sent, or is the next to be. */
UnetmmRelMsg *unetmm_rel_msg_of(UnetmmRel *rel, uint32_t psn)
{
    if (psn == rel->tx.nxt) {
        return unetmm_rel_msg(rel, rel->msgs.next);
    }
    return unetmm_rel_msg(rel, rel->msgs.of[psn % UNETMM_REL_WINDOW]);
}

static uint32_t rel_offset_of(const UnetmmRel *rel, const UnetmmRelMsg *m,
                              uint32_t psn)
{
    return m->started ? (psn - m->first_psn) * rel->mtu : 0;
}

uint32_t unetmm_rel_packet_bytes(UnetmmRel *rel, uint32_t psn,
                                 uint32_t *offset)
{
    const UnetmmRelMsg *m = unetmm_rel_msg_of(rel, psn);

    *offset = rel_offset_of(rel, m, psn);
    return MIN(rel->mtu, m->len - *offset);
}

uint32_t unetmm_rel_packet_len(UnetmmRel *rel, uint32_t psn)
{
    const UnetmmRelMsg *m;
    uint32_t at;

    if (unetmm_sendwin_is_void(&rel->tx, psn)) {
        return 0;
    }
    m = unetmm_rel_msg_of(rel, psn);
    return kinds[m->op].gathers ? unetmm_rel_packet_bytes(rel, psn, &at) :
           m->operands;
}

/* Makes *t the packet, nothing of which has been gathered. */
static void rel_load(UnetmmCore *core, UnetmmRel *rel, uint32_t psn,
                     UnetmmTransfer *t)
{
    const UnetmmRelMsg *m;
    uint32_t at;

    memset(t, 0, sizeof(*t));
    t->ops = &unetmm_rel_packet;
    t->state = UNETMM_TX_GATHER;
    t->desc.channel = rel->channel;
    t->rel = rel;
    t->psn = psn;
    t->desc.len = unetmm_rel_packet_len(rel, psn);
    t->frame = unetmm_port_buffer(core);
    if (!t->desc.len) {
        return;
    }
    m = unetmm_rel_msg_of(rel, psn);
    if (m->flags & UNETMM_SQE_F_INLINE) {
        memcpy(unetmm_frame_at(t->frame, sizeof(struct unetmm_frame),
                               t->desc.len), m->data, t->desc.len);
        t->done = t->desc.len;
        return;
    }
    at = rel_offset_of(rel, m, psn);
    t->desc.nsegs = m->nsegs;
    memcpy(t->desc.segs, m->segs, m->nsegs * sizeof(m->segs[0]));
    while (t->seg + 1 < t->desc.nsegs && at >= t->desc.segs[t->seg].len) {
        at -= t->desc.segs[t->seg++].len;
    }
    t->seg_off = at;
}

UnetmmRel *unetmm_rel_first(const UnetmmEp *ep)
{
    UnetmmRel *rel = ep->rels;

    while (rel && rel->awake && !unetmm_rel_can_send(rel) &&
           !unetmm_rel_can_answer(rel)) {
        rel = rel->next;
    }
    return rel && rel->awake ? rel : NULL;
}

bool unetmm_rel_next(UnetmmCore *core, UnetmmEp *ep, UnetmmTransfer *t)
{
    UnetmmRel *rel = unetmm_rel_first(ep);

    if (!rel || ep->error) {
        return false;
    }
    if (unetmm_rel_can_answer(rel) &&
        !(rel->answers.answered && unetmm_rel_can_send(rel))) {
        unetmm_rel_load_answer(core, ep, rel, t);
    } else {
        rel_load(core, rel, unetmm_sendwin_pick(&rel->tx), t);
        rel->answers.answered = false;
    }
    /* The others are before it the next time. */
    unetmm_rel_last(ep, rel);
    return true;
}

/* Does the peer still need it?  It may have been acknowledged since. */
bool unetmm_rel_wanted(const UnetmmRel *rel, uint32_t psn)
{
    return rel->state == UNETMM_REL_OPEN &&
           unetmm_sendwin_needs(&rel->tx, psn);
}

/* A packet goes out for the first time: the message goes on by it. */
static void rel_first_time(UnetmmRel *rel, UnetmmRelMsg *m, uint32_t psn)
{
    uint32_t at;

    m->sent += unetmm_rel_packet_bytes(rel, psn, &at);
    if (!m->started) {
        m->started = true;
        m->first_psn = psn;
    }
    rel->msgs.of[psn % UNETMM_REL_WINDOW] = rel->msgs.next % UNETMM_REL_MSGS;
    if (m->sent == m->len) {
        rel->msgs.next++;
    }
}

/* An answer is asked for when none would come unasked soon. */
static bool rel_should_ask(const UnetmmEp *ep, const UnetmmRel *rel,
                           uint32_t psn, bool again)
{
    const UnetmmSendWindow *tx = &rel->tx;

    if (!again && tx->limited && psn + 1 == tx->limit) {
        return true;
    }
    if (!again && (tx->pending & unetmm_rel_bit(psn))) {
        return false;
    }
    return again || tx->nxt - tx->una == UNETMM_REL_WINDOW ||
           psn - tx->asked >= UNETMM_REL_ASK_EVERY ||
           (rel->msgs.next == rel->msgs.end && ep->sq_prod == ep->sq_cons);
}

/* m NULL: the packet is void. */
static void rel_packet_header(UnetmmCore *core, UnetmmEp *ep,
                              const UnetmmTransfer *t, const UnetmmRelMsg *m,
                              bool again)
{
    struct unetmm_frame *f = (struct unetmm_frame *)t->frame;
    UnetmmRel *rel = t->rel;

    unetmm_rel_header(core, rel, f, m ? kinds[m->op].opcode :
                      UNETMM_WIRE_VOID);
    f->len = t->desc.len;
    f->psn = t->psn;
    if (m) {
        uint32_t bytes, at;

        bytes = unetmm_rel_packet_bytes(rel, t->psn, &at);
        kinds[m->op].fill(m, f, at, bytes);
    }
    if (rel_should_ask(ep, rel, t->psn, again)) {
        f->flags |= UNETMM_WIRE_F_ASK;
        unetmm_sendwin_asks(&rel->tx, t->psn);
    }
    unetmm_rel_go_along(core, ep, rel, f);
}

/* The packet goes out now: notes its number and time. */
static void rel_account(UnetmmCore *core, UnetmmEp *ep,
                        const UnetmmTransfer *t)
{
    UnetmmRel *rel = t->rel;
    bool again = t->psn != rel->tx.nxt;
    bool empty = unetmm_sendwin_is_void(&rel->tx, t->psn);
    UnetmmRelMsg *m = empty ? NULL : unetmm_rel_msg_of(rel, t->psn);

    if (!again) {
        rel_first_time(rel, m, t->psn);
    }
    unetmm_sendwin_sent(&rel->tx, t->psn, !empty && kinds[m->op].request);
    if (rel->tx.deadline_ns == INT64_MAX) {
        unetmm_rel_arm(core, rel);
    }
    rel_packet_header(core, ep, t, m, again);
    unetmm_rel_starve(core, ep, rel);
    unetmm_spend(core, UNETMM_STEP_PACKET, t->desc.len);
    unetmm_count(core, ep, UNETMM_C_rel_packets, 1);
    unetmm_count(core, ep, UNETMM_C_rel_resent, again);
    unetmm_count(core, ep, UNETMM_C_rel_voids, empty);
    trace_unetmm_rel_sent(ep->id, rel->channel, t->psn, again);
}

void unetmm_rel_emit(UnetmmCore *core, UnetmmEp *ep, UnetmmTransfer *t)
{
    bool local = unetmm_port_local(core, t->rel->mac);

    /* A packet without a link counts as lost on its way. */
    if (!local && !core->port->link) {
        unetmm_count(core, ep, UNETMM_C_drop_link, 1);
        return;
    }
    unetmm_count(core, ep, UNETMM_C_tx_frames, 1);
    unetmm_count(core, ep, UNETMM_C_tx_bytes, t->desc.len);
    unetmm_port_transmit(core, g_steal_pointer(&t->frame),
                         sizeof(struct unetmm_frame) + t->desc.len);
}

static void rel_transmit(UnetmmCore *core, UnetmmEp *ep, UnetmmTransfer *t)
{
    UnetmmRel *rel = t->rel;

    if (t->needless || !unetmm_rel_wanted(rel, t->psn)) {
        unetmm_send_finish(t, UNETMM_ST_OK);
        return;
    }
    if (!unetmm_send_room(core, t, rel->mac)) {
        return;
    }
    rel_account(core, ep, t);
    unetmm_send_finish(t, UNETMM_ST_OK);
    unetmm_rel_emit(core, ep, t);
}

void unetmm_rel_let_go(UnetmmCore *core, UnetmmTransfer *t)
{
    unetmm_port_release(core, g_steal_pointer(&t->frame));
    unetmm_rel_wake(&core->eps[t->rel->ep], t->rel);
    t->state = UNETMM_TX_IDLE;
    t->rel = NULL;
    t->answer = t->needless = false;
}

static void rel_complete(UnetmmCore *core, UnetmmEp *ep, UnetmmTransfer *t)
{
    UnetmmRel *rel = t->rel;
    uint8_t status = t->status;
    uint32_t psn = t->psn;
    bool over = status == UNETMM_ST_OK || t->needless;
    UnetmmRelMsg *m;

    unetmm_rel_let_go(core, t);
    if (over || !unetmm_rel_wanted(rel, psn) ||
        unetmm_sendwin_is_void(&rel->tx, psn)) {
        return;
    }
    m = unetmm_rel_msg_of(rel, psn);
    if (!m->started) {
        /* The peer has seen nothing of it: only this send fails. */
        m->ended = true;
        m->status = status;
        rel->msgs.next++;
        return;
    }
    if (kinds[m->op].one_sided) {
        unetmm_rel_end_message(core, ep, rel, m, status);
    } else {
        unetmm_rel_fail(core, ep, rel, m, status, UNETMM_WHY_CHANNEL);
    }
}

const UnetmmTransferOps unetmm_rel_packet = {
    .transmit = rel_transmit,
    .complete = rel_complete,
};

/* ---- The end of one message --------------------------------------------- */

/* Drops the part of it in ep->tx. */
static void rel_abort_message(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                              const UnetmmRelMsg *m)
{
    if (ep->tx.rel == rel && !ep->tx.answer &&
        (ep->tx.psn == rel->tx.nxt ||
         unetmm_sendwin_flies(&rel->tx, ep->tx.psn)) &&
        !unetmm_sendwin_is_void(&rel->tx, ep->tx.psn) &&
        unetmm_rel_msg_of(rel, ep->tx.psn) == m) {
        unetmm_rel_abort_tx(core, ep, rel);
    }
}

void unetmm_rel_end_message(UnetmmCore *core, UnetmmEp *ep, UnetmmRel *rel,
                            UnetmmRelMsg *m, uint8_t status)
{
    const UnetmmSendWindow *tx = &rel->tx;

    rel_abort_message(core, ep, rel, m);
    for (uint32_t psn = tx->una; psn != tx->nxt; psn++) {
        if (!unetmm_sendwin_is_void(tx, psn) &&
            unetmm_rel_msg_of(rel, psn) == m) {
            unetmm_sendwin_void(&rel->tx, psn);
        }
    }
    unetmm_sendwin_rewound(&rel->tx);
    m->ended = true;
    m->status = status;
    if (rel->msgs.next != rel->msgs.end &&
        unetmm_rel_msg(rel, rel->msgs.next) == m) {
        rel->msgs.next++;
    }
    unetmm_rel_progress(core, ep, rel, tx->cum, 0, true);
}
