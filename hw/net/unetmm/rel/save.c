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
#include "rel.h"
#include "../card/state.h"

/* ---- Messages ----------------------------------------------------------- */

static void state_msg_data(UnetmmStream *st, UnetmmRelMsg *m)
{
    uint64_t total = 0;

    if (m->flags & UNETMM_SQE_F_INLINE) {
        if (m->len > UNETMM_MAX_INLINE) {
            unetmm_stream_refuse(st, "an inline message is too long");
            return;
        }
        unetmm_stream_bytes(st, m->data, MAX(m->len, m->operands));
        return;
    }
    m->nsegs = unetmm_stream_choice(st, m->nsegs, UNETMM_MAX_SEGS + 1,
                                    "the number of segments");
    for (unsigned i = 0; i < m->nsegs; i++) {
        unetmm_stream_u64(st, &m->segs[i].addr);
        unetmm_stream_u32(st, &m->segs[i].len);
        total += m->segs[i].len;
        if (m->segs[i].len &&
            m->segs[i].addr > UINT64_MAX - (m->segs[i].len - 1)) {
            unetmm_stream_refuse(st, "a segment wraps round");
        }
    }
    if (total != m->len) {
        unetmm_stream_refuse(st, "a message and its segments do not agree");
    }
}

/* What its descriptor was checked for. */
static bool msg_op_ok(const UnetmmRelMsg *m)
{
    bool is_inline = m->flags & UNETMM_SQE_F_INLINE;

    if (!unetmm_send_flags_ok(m->op, m->flags) ||
        m->operands != unetmm_send_operands(m->op)) {
        return false;
    }
    if (m->unasked && m->op != UNETMM_OP_WRITE) {
        return false;
    }
    if (m->op == UNETMM_OP_FENCE) {
        return !m->len;
    }
    return m->operands ? is_inline && m->len == sizeof(m->old) :
           m->op != UNETMM_OP_READ || m->len;
}

static void state_msg_target(UnetmmStream *st, UnetmmRelMsg *m)
{
    unetmm_stream_u32(st, &m->region);
    unetmm_stream_u32(st, &m->key);
    unetmm_stream_u32(st, &m->imm);
    unetmm_stream_u64(st, &m->remote);
}

static void state_msg(UnetmmStream *st, UnetmmRelMsg *m)
{
    unetmm_stream_u8(st, &m->op);
    unetmm_stream_u8(st, &m->operands);
    unetmm_stream_bytes(st, m->old, sizeof(m->old));
    unetmm_stream_u64(st, &m->cookie);
    m->len = unetmm_stream_choice(st, m->len, UNETMM_MAX_MESSAGE + 1,
                                  "the length of a message");
    m->status = unetmm_stream_choice(st, m->status, UNETMM_NUM_ST,
                                     "the status of a send");
    m->flags = unetmm_stream_choice(st, m->flags, UNETMM_SQE_F_ALL + 1,
                                    "the flags of a send");
    unetmm_stream_bool(st, &m->ended, "whether a send has ended");
    m->unasked = unetmm_stream_choice(st, m->unasked, UNETMM_REL_START + 1,
                                      "who asked for a send");
    if (!st->wrong && !msg_op_ok(m)) {
        unetmm_stream_refuse(st, "a send is of no kind that there is");
    }
    if (m->unasked) {
        unetmm_stream_u16(st, &m->import);
        if (m->ended) {
            state_msg_target(st, m);
        }
    }
    if (m->ended || st->wrong) {
        return;
    }
    if (unetmm_rel_one_sided(m)) {
        state_msg_target(st, m);
    }
    unetmm_stream_bool(st, &m->started, "whether a send has begun");
    unetmm_stream_u32(st, &m->first_psn);
    unetmm_stream_u32(st, &m->sent);
    state_msg_data(st, m);
}

/* How far it has been sent agrees with its place among the others. */
static bool msg_sent_ok(const UnetmmRel *rel, const UnetmmRelMsg *m,
                        uint32_t index)
{
    const UnetmmRelTx *tx = &rel->tx;
    uint32_t before = index - tx->msg_first;
    uint32_t next = tx->msg_next - tx->msg_first;

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
static bool msgs_gap(const UnetmmRelTx *tx, uint32_t psn, uint32_t end)
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
static bool msg_tiles(UnetmmRelTx *tx, const UnetmmRelMsg *m, uint32_t index,
                      uint32_t end, uint32_t *psn)
{
    for (; *psn != end; (*psn)++) {
        uint64_t bit = unetmm_rel_bit(*psn);

        if (*psn == tx->nxt || (tx->voids & bit) ||
            ((tx->pending & bit) && !unetmm_rel_request(m))) {
            return false;
        }
        tx->msg[*psn % UNETMM_REL_WINDOW] = index % UNETMM_REL_MSGS;
    }
    return true;
}

/*
 * Packets that are not void belong to messages that have not ended, in order,
 * up to the last one sent.
 */
static bool msgs_tile(UnetmmRel *rel)
{
    UnetmmRelTx *tx = &rel->tx;
    uint32_t psn = tx->una;

    for (uint32_t i = tx->msg_first; i != tx->msg_end; i++) {
        const UnetmmRelMsg *m = unetmm_rel_msg(rel, i);
        uint32_t n = unetmm_rel_packets(m->sent, rel->mtu);

        if (m->ended || !m->started) {
            continue;
        }
        /* Of the first, some are over; all, if more of it is to follow. */
        if (psn != tx->una || psn - m->first_psn > n ||
            (psn - m->first_psn == n && m->sent == m->len)) {
            if (!msgs_gap(tx, psn, m->first_psn)) {
                return false;
            }
            psn = m->first_psn;
        }
        if (!msg_tiles(tx, m, i, m->first_psn + n, &psn)) {
            return false;
        }
        /* Where its next packet begins follows from that one's number. */
        if (m->sent != m->len && psn != tx->nxt) {
            return false;
        }
    }
    return msgs_gap(tx, psn, tx->nxt);
}

static void check_msgs(UnetmmStream *st, UnetmmRel *rel)
{
    UnetmmRelTx *tx = &rel->tx;

    for (uint32_t i = tx->msg_first; i != tx->msg_end && !st->wrong; i++) {
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

static void state_msgs(UnetmmStream *st, UnetmmRel *rel)
{
    UnetmmRelTx *tx = &rel->tx;
    uint32_t used = tx->msg_end - tx->msg_first;
    uint32_t next = tx->msg_next - tx->msg_first;

    used = unetmm_stream_choice(st, used, UNETMM_REL_MSGS + 1,
                                "the sends of a channel");
    next = unetmm_stream_choice(st, next, used + 1, "the sends begun");
    if (unetmm_stream_reads(st)) {
        tx->msg_end = used;
        tx->msg_next = next;
    }
    for (uint32_t i = 0; i < used && !st->wrong; i++) {
        state_msg(st, unetmm_rel_msg(rel, tx->msg_first + i));
    }
    if (unetmm_stream_reads(st) && !st->wrong) {
        check_msgs(st, rel);
    }
}

/* ---- Sending ------------------------------------------------------------ */

static uint64_t window_bits(uint32_t first, uint32_t end)
{
    uint64_t bits = 0;

    for (; first != end; first++) {
        bits |= unetmm_rel_bit(first);
    }
    return bits;
}

/* What is said of packets on their way does not contradict itself. */
static bool tx_bits_ok(const UnetmmRel *rel)
{
    const UnetmmRelTx *tx = &rel->tx;
    uint64_t window = window_bits(tx->una, tx->nxt);
    uint64_t taken = window_bits(tx->una, tx->cum);

    if (rel->state != UNETMM_REL_OPEN) {
        return !tx->pending && !tx->unplaced && !tx->voids;
    }
    if (tx->cum != tx->nxt &&
        tx->aside != !!(tx->acked & unetmm_rel_bit(tx->cum))) {
        return false;
    }
    return !((tx->acked | tx->lost | tx->pending | tx->voids) & ~window) &&
           !(tx->acked & tx->lost & ~tx->pending) && !(taken & ~tx->acked) &&
           !(tx->pending & tx->voids) && !(tx->unplaced & ~tx->pending) &&
           (tx->una == tx->cum || (tx->pending & unetmm_rel_bit(tx->una)));
}

static void state_deadline(UnetmmStream *st, UnetmmCore *core, UnetmmRel *rel)
{
    UnetmmRelTx *tx = &rel->tx;
    int64_t now = core->ops->now_ns(core->host);
    int64_t when = tx->deadline_ns;
    bool armed = when != INT64_MAX;

    unetmm_stream_bool(st, &armed, "a channel's time");
    unetmm_stream_bool(st, &tx->paused, "a channel's pause");
    if (armed) {
        unetmm_stream_time(st, &when, now, UNETMM_REL_MAX_TIMEOUT_US * 1000ull,
                           "the end of a channel's time");
        if (unetmm_stream_reads(st)) {
            unetmm_rel_arm_at(core, rel, when);
        }
    }
    if ((rel->state != UNETMM_REL_OPEN && (armed || tx->paused)) ||
        (tx->paused && tx->una == tx->nxt) ||
        (rel->state == UNETMM_REL_OPEN && !armed && tx->una != tx->nxt &&
         !core->eps[rel->ep].error)) {
        unetmm_stream_refuse(st, "a channel waits for ever, or for nothing");
    }
}

static void state_tx(UnetmmStream *st, UnetmmCore *core, UnetmmRel *rel)
{
    UnetmmRelTx *tx = &rel->tx;
    uint32_t flying = tx->nxt - tx->una;
    uint32_t taken = tx->cum - tx->una;

    unetmm_stream_u32(st, &tx->una);
    flying = unetmm_stream_choice(st, flying, UNETMM_REL_WINDOW + 1,
                                  "the packets on their way");
    tx->nxt = tx->una + flying;
    taken = unetmm_stream_choice(st, taken, flying + 1,
                                 "the packets that have been taken");
    tx->cum = tx->una + taken;
    unetmm_stream_u32(st, &tx->asked);
    unetmm_stream_u32(st, &tx->stamp);
    unetmm_stream_u32(st, &tx->acked_stamp);
    unetmm_stream_u64(st, &tx->acked);
    unetmm_stream_u64(st, &tx->lost);
    unetmm_stream_u32(st, &tx->answered_stamp);
    unetmm_stream_u64(st, &tx->pending);
    unetmm_stream_u64(st, &tx->unplaced);
    unetmm_stream_u64(st, &tx->voids);
    for (uint32_t psn = tx->una; psn != tx->nxt; psn++) {
        unetmm_stream_u32(st, &tx->stamps[psn % UNETMM_REL_WINDOW]);
    }
    tx->retries = unetmm_stream_choice(st, tx->retries, 256,
                                       "the timeouts of a channel");
    unetmm_stream_u32(st, &tx->refusals);
    unetmm_stream_bool(st, &tx->again, "whether requests went again");
    unetmm_stream_bool(st, &tx->rewinding, "whether answers are dropped");
    unetmm_stream_u32(st, &tx->rewind_psn);
    unetmm_stream_bool(st, &tx->limited, "whether there are credits");
    unetmm_stream_u32(st, &tx->limit);
    unetmm_stream_bool(st, &tx->starves, "whether a credit is waited for");
    unetmm_stream_bool(st, &tx->probe, "whether a peer is asked");
    unetmm_stream_bool(st, &tx->aside, "whether a packet has its place");
    if (!tx_bits_ok(rel)) {
        unetmm_stream_refuse(st, "a packet is on its way and is not");
    }
    state_msgs(st, rel);
    state_deadline(st, core, rel);
}

/* ---- Receiving ---------------------------------------------------------- */

static void state_kept(UnetmmStream *st, UnetmmCore *core, UnetmmRel *rel,
                       uint32_t slot)
{
    UnetmmQueued *q = &rel->rx.kept[slot];
    struct unetmm_frame *f;

    if (unetmm_stream_reads(st)) {
        q->frame = unetmm_port_buffer(core);
        memset(q->frame, 0, sizeof(*f));
        if (core->kept++ == core->params.reliable_keep) {
            unetmm_stream_refuse(st, "more packets are kept than there is "
                                 "room for");
        }
    }
    f = (struct unetmm_frame *)q->frame;
    f->len = unetmm_stream_choice(st, f->len, rel->mtu + 1,
                                  "the length of a packet");
    unetmm_stream_u32(st, &f->psn);
    unetmm_stream_u32(st, &f->offset);
    unetmm_stream_u64(st, &f->remote);
    unetmm_stream_u32(st, &f->flags);
    unetmm_stream_bytes(st, unetmm_frame_at(q->frame, sizeof(*f), f->len),
                        f->len);
    if (unetmm_stream_reads(st)) {
        /* All that is looked at of it, and was not saved. */
        f->opcode = UNETMM_WIRE_SEND;
        q->bytes = sizeof(*f) + f->len;
    }
    if (!st->wrong && (f->psn != unetmm_state_psn(rel, slot) ||
                       !unetmm_recv_members_ok(f))) {
        unetmm_stream_refuse(st, "a packet is kept that cannot be");
    }
}

static void state_have(UnetmmStream *st, UnetmmCore *core, UnetmmRel *rel,
                       uint32_t slot)
{
    bool whole = rel->rx.kept[slot].frame;

    unetmm_stream_bool(st, &whole, "how a packet is kept");
    if (whole) {
        state_kept(st, core, rel, slot);
    } else {
        unetmm_state_early(st, rel, slot);
    }
}

static bool rx_message_ok(const UnetmmRel *rel)
{
    const UnetmmRelRx *rx = &rel->rx;

    if (rel->state != UNETMM_REL_OPEN) {
        return rx->giving_back == rx->claimed && !rx->have && !rx->refused &&
               !rx->refuse;
    }
    if (rx->giving_back || rx->claimed != rx->in_message) {
        return false;
    }
    return !rx->in_message ||
           (rx->len > UNETMM_CQE_INLINE && rx->done < rx->len &&
            rx->done % rel->mtu == 0 &&
            rx->buf_addr <= UINT64_MAX - (rx->len - 1));
}

static void state_rx(UnetmmStream *st, UnetmmCore *core, UnetmmRel *rel)
{
    UnetmmRelRx *rx = &rel->rx;

    unetmm_stream_u32(st, &rx->nxt);
    unetmm_stream_u64(st, &rx->have);
    unetmm_stream_u64(st, &rx->unlanded);
    unetmm_stream_u64(st, &rx->spoilt);
    unetmm_stream_bool(st, &rx->landed, "whether a slot was answered");
    if ((rx->unlanded | rx->spoilt) & ~rx->have ||
        rx->unlanded & rx->spoilt) {
        unetmm_stream_refuse(st, "a packet is in a slot that is not here");
    }
    rx->refused = unetmm_stream_choice(st, rx->refused,
                                       UNETMM_REL_WANT_READ + 1,
                                       "what a packet is refused for");
    unetmm_stream_bool(st, &rx->refuse, "whether a packet is refused");
    unetmm_stream_bool(st, &rx->in_message, "whether a message arrives");
    unetmm_stream_bool(st, &rx->claimed, "whether a message has a buffer");
    unetmm_stream_bool(st, &rx->giving_back, "whether a buffer goes back");
    rx->buf_status = unetmm_stream_choice(st, rx->buf_status, UNETMM_NUM_ST,
                                          "the status of a buffer");
    rx->len = unetmm_stream_choice(st, rx->len, UNETMM_MAX_MESSAGE + 1,
                                   "the length of a message");
    unetmm_stream_u32(st, &rx->done);
    unetmm_stream_u64(st, &rx->buf_addr);
    unetmm_stream_u64(st, &rx->buf_cookie);
    if (!rx_message_ok(rel)) {
        unetmm_stream_refuse(st, "channel %u of endpoint %u receives what it "
                             "cannot", rel->channel, rel->ep);
    }
    for (uint32_t i = 0; i < UNETMM_REL_WINDOW && !st->wrong; i++) {
        if (rx->have & unetmm_rel_bit(i)) {
            state_have(st, core, rel, i);
        }
    }
    unetmm_state_one_sided(st, rel);
}

/* ---- Channels ----------------------------------------------------------- */

uint64_t unetmm_state_rel_limit(void)
{
    uint64_t msg = 128 + UNETMM_MAX_SEGS * 12 + UNETMM_MAX_INLINE;

    return 1024 + UNETMM_REL_MISSES * 128 + UNETMM_REL_MSGS * msg +
           UNETMM_REL_WINDOW * (4 + 32 + sizeof(UnetmmRelEarly) +
                                sizeof(UnetmmRelAsk));
}

UnetmmRel *unetmm_state_rel(UnetmmStream *st, UnetmmCore *core,
                            const UnetmmEp *ep, UnetmmRel *rel)
{
    uint32_t n = unetmm_stream_choice(st, rel ? rel->slot + 1 : 0,
                                      core->params.reliable + 1,
                                      "a reliable channel");

    if (!unetmm_stream_reads(st)) {
        return rel;
    }
    rel = n ? core->rels[n - 1] : NULL;
    if (n && (!rel || rel->ep != ep->id)) {
        unetmm_stream_refuse(st, "endpoint %u has no such reliable channel",
                             ep->id);
        rel = NULL;
    }
    return rel;
}

/* The one that CHANNEL_SET has made, or, closed, one of its own. */
static UnetmmRel *rel_restored(UnetmmStream *st, UnetmmCore *core,
                               UnetmmEp *ep, UnetmmRel **made, uint32_t slot,
                               uint16_t channel, UnetmmRelState state)
{
    UnetmmRel *rel = ep->channels[channel].rel;
    UnetmmRel **end = &ep->rels;

    if (core->rels[slot]) {
        unetmm_stream_refuse(st, "two reliable channels are one");
        return NULL;
    }
    if (state == UNETMM_REL_CLOSED) {
        if (core->rels_used == core->params.reliable) {
            unetmm_stream_refuse(st, "there are too many reliable channels");
            return NULL;
        }
        rel = unetmm_rel_new(core, ep, slot);
        rel->channel = channel;
        rel->mtu = UNETMM_MIN_MTU;
        rel->state = state;
        return rel;
    }
    while (*made && *made != rel) {
        made = &(*made)->next;
    }
    if (!rel || !*made) {
        unetmm_stream_refuse(st, "channel %u of endpoint %u is not reliable, "
                             "or twice", channel, ep->id);
        return NULL;
    }
    *made = rel->next;
    rel->next = NULL;
    while (*end) {
        end = &(*end)->next;
    }
    *end = rel;
    rel->state = state;
    unetmm_rel_attach(core, rel, slot);
    return rel;
}

/* A channel that there is was promised its slots when it was set. */
static void state_promise(UnetmmStream *st, UnetmmCore *core, UnetmmRel *rel)
{
    uint32_t credits = unetmm_stream_choice(st, rel->credits,
                                            UNETMM_REL_WINDOW + 1,
                                            "the credits of a channel");

    if (!unetmm_stream_reads(st) || st->wrong) {
        return;
    }
    if (rel->state != UNETMM_REL_CLOSED ? credits != rel->credits :
        !unetmm_sysbuf_promise(core, credits)) {
        unetmm_stream_refuse(st, "a channel has credits that nobody gave");
        return;
    }
    rel->credits = credits;
}

/* What its misses are for, if there are any. */
static void state_missed(UnetmmStream *st, UnetmmRel *rel)
{
    for (unsigned kind = 0; kind < UNETMM_REL_MISSES; kind++) {
        unetmm_stream_u32(st, &rel->missed[kind].psn);
    }
    unetmm_stream_bool(st, &rel->missed[UNETMM_REL_FAULT_ARRIVE].buffer,
                       "what a page is for");
}

static void state_rel_numbers(UnetmmStream *st, UnetmmCore *core,
                              UnetmmRel *rel)
{
    bool owes = core->acks[rel->slot / 64] & 1ull << rel->slot % 64;

    unetmm_stream_u8(st, &rel->retries);
    unetmm_stream_u8(st, &rel->not_ready_retries);
    unetmm_stream_bool(st, &rel->rewinds, "what a fault of an answer does");
    unetmm_stream_u8(st, &rel->why);
    unetmm_stream_u32(st, &rel->timeout_us);
    unetmm_stream_u32(st, &rel->not_ready_us);
    /* Zero is the default's name in a command: no channel has it. */
    if (rel->timeout_us - 1 >= UNETMM_REL_MAX_TIMEOUT_US ||
        rel->not_ready_us - 1 >= UNETMM_REL_MAX_TIMEOUT_US) {
        unetmm_stream_refuse(st, "a channel's time is none, or too long");
    }
    if (!rel->retries || rel->why > UNETMM_WHY_COUNTER) {
        unetmm_stream_refuse(st, "a channel has no retries, or ended for no "
                             "reason that there is");
    }
    state_promise(st, core, rel);
    unetmm_stream_bool(st, &owes, "whether an acknowledgement is owed");
    if (owes && rel->state == UNETMM_REL_CLOSED) {
        unetmm_stream_refuse(st, "a channel that is closed owes an answer");
    } else if (owes && unetmm_stream_reads(st)) {
        unetmm_rel_owe_ack(core, rel);
    }
    state_tx(st, core, rel);
    state_rx(st, core, rel);
    state_missed(st, rel);
    unetmm_state_stores(st, core, &rel->stores);
    if (rel->stores.first && rel->state != UNETMM_REL_OPEN) {
        unetmm_stream_refuse(st, "a channel that has ended has stores");
    }
}

static void save_rels(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep)
{
    for (UnetmmRel *rel = ep->rels; rel; rel = rel->next) {
        uint16_t slot = rel->slot;
        uint8_t state = rel->state;

        unetmm_stream_u16(st, &slot);
        unetmm_stream_u16(st, &rel->channel);
        unetmm_stream_u8(st, &state);
        state_rel_numbers(st, core, rel);
    }
}

static uint16_t u16_below(UnetmmStream *st, uint32_t limit, const char *what)
{
    uint16_t v = 0;

    unetmm_stream_u16(st, &v);
    if (v >= limit) {
        unetmm_stream_refuse(st, "%s is %u, which is out of range", what, v);
        v = 0;
    }
    return v;
}

static void load_rels(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep,
                      uint32_t n)
{
    UnetmmRel *made = g_steal_pointer(&ep->rels);

    for (UnetmmRel *rel = made; rel; rel = rel->next) {
        unetmm_rel_detach(core, rel);
    }
    for (uint32_t i = 0; i < n && !st->wrong; i++) {
        uint16_t slot = u16_below(st, core->params.reliable,
                                  "a reliable channel's place");
        uint16_t channel = u16_below(st, core->params.channels, "a channel");
        uint8_t state = 0;
        UnetmmRel *rel;

        unetmm_stream_u8(st, &state);
        if (state > UNETMM_REL_CLOSED) {
            unetmm_stream_refuse(st, "a reliable channel has no such state");
        }
        if (st->wrong) {
            break;
        }
        rel = rel_restored(st, core, ep, &made, slot, channel, state);
        if (rel) {
            state_rel_numbers(st, core, rel);
        }
    }
    if (made) {
        /* They end with the endpoint, as all does that is refused. */
        UnetmmRel **end = &ep->rels;

        while (*end) {
            end = &(*end)->next;
        }
        *end = made;
        unetmm_stream_refuse(st, "endpoint %u has reliable channels of which "
                             "nothing is said", ep->id);
    }
}

void unetmm_state_rels(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep)
{
    uint32_t n = 0;

    for (UnetmmRel *rel = ep->rels; rel && !unetmm_stream_reads(st);
         rel = rel->next) {
        n++;
    }
    n = unetmm_stream_choice(st, n, core->params.reliable + 1,
                             "the number of reliable channels");
    if (unetmm_stream_reads(st)) {
        load_rels(st, core, ep, n);
    } else {
        save_rels(st, core, ep);
    }
    if (ep->sq_waits && !ep->rels) {
        unetmm_stream_refuse(st, "endpoint %u waits for a channel that is not "
                             "there", ep->id);
    }
}

/* ---- A packet on its way out -------------------------------------------- */

/* From where it is on, its segments have what is left of it. */
static bool packet_segments_ok(const UnetmmTransfer *tx)
{
    const UnetmmDescriptor *d = &tx->desc;
    uint64_t left = 0;

    if (tx->done == d->len) {
        return true;
    }
    if (tx->seg >= d->nsegs || tx->seg_off > d->segs[tx->seg].len) {
        return false;
    }
    for (unsigned i = tx->seg; i < d->nsegs; i++) {
        left += d->segs[i].len;
    }
    return left - tx->seg_off >= d->len - tx->done;
}

/*
 * An answer is as long as what was asked for: what is not sent this time is
 * looked at again by `target` alone.  An atomic's is in the frame: it has none.
 */
static bool packet_answer_ok(const UnetmmTransfer *tx)
{
    const UnetmmTarget *target = &tx->target;

    if (!tx->desc.nsegs) {
        return tx->desc.len == sizeof(uint64_t) && tx->done == tx->desc.len &&
               !target->len;
    }
    /* A channel that is closed has no MTU any more; nor is it asked again. */
    return tx->desc.len && target->len == tx->desc.len &&
           (tx->rel->state != UNETMM_REL_OPEN || tx->desc.len <= tx->rel->mtu);
}

static bool packet_ok(const UnetmmTransfer *tx)
{
    UnetmmRel *rel = tx->rel;

    if (!unetmm_state_blocked_ok(tx) || !packet_segments_ok(tx) ||
        (tx->state != UNETMM_TX_GATHER && tx->state != UNETMM_TX_COMPLETE &&
         tx->done != tx->desc.len) || tx->blocked_on == UNETMM_BLOCKED_CQ) {
        return false;
    }
    if (tx->answer) {
        return tx->blocked_on != UNETMM_BLOCKED_FAULT &&
               packet_answer_ok(tx);
    }
    if (tx->blocked_on == UNETMM_BLOCKED_FAULT && tx->done == tx->desc.len) {
        return false;
    }
    if (tx->needless || !unetmm_rel_wanted(rel, tx->psn)) {
        return true;
    }
    return (tx->psn != rel->tx.nxt || rel->tx.msg_next != rel->tx.msg_end) &&
           tx->desc.len == unetmm_rel_packet_len(rel, tx->psn);
}

void unetmm_state_packet(UnetmmStream *st, UnetmmCore *core, UnetmmEp *ep)
{
    UnetmmTransfer *tx = &ep->tx;
    UnetmmDescriptor *d = &tx->desc;

    d->opcode = UNETMM_OP_SEND;
    d->channel = tx->rel->channel;
    unetmm_stream_u32(st, &tx->psn);
    unetmm_stream_bool(st, &tx->needless, "whether a packet is needed");
    unetmm_stream_bool(st, &tx->answer, "whether a packet is an answer");
    tx->ops = tx->answer ? &unetmm_rel_answer : &unetmm_rel_packet;
    if (tx->answer) {
        unetmm_state_target(st, &tx->target);
    }
    tx->status = unetmm_stream_choice(st, tx->status, UNETMM_NUM_ST,
                                      "the status of a packet");
    d->len = unetmm_stream_choice(st, d->len, UNETMM_MAX_PAYLOAD + 1,
                                  "the length of a packet");
    tx->done = unetmm_stream_choice(st, tx->done, d->len + 1,
                                    "what has been gathered");
    unetmm_stream_u32(st, &tx->seg_off);
    tx->seg = unetmm_stream_choice(st, tx->seg, UNETMM_MAX_SEGS, "a segment");
    d->nsegs = unetmm_stream_choice(st, d->nsegs, UNETMM_MAX_SEGS + 1,
                                    "the number of segments");
    for (unsigned i = 0; i < d->nsegs; i++) {
        unetmm_stream_u64(st, &d->segs[i].addr);
        unetmm_stream_u32(st, &d->segs[i].len);
        if (d->segs[i].len &&
            d->segs[i].addr > UINT64_MAX - (d->segs[i].len - 1)) {
            unetmm_stream_refuse(st, "a segment wraps round");
        }
    }
    if (!st->wrong && !packet_ok(tx)) {
        unetmm_stream_refuse(st, "endpoint %u sends a packet that it cannot",
                             ep->id);
    }
    if (!st->wrong) {
        unetmm_state_gathered(st, core, ep);
    }
}
