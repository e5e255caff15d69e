/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The card's half of one endpoint, over plain memory.
 */
#include "fake_card.h"
#include "sys/sys.h"

#include <sched.h>
#include <stdio.h>

#define CARD_CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "fake card: %s:%d: not so: %s\n", __FILE__, \
                    __LINE__, #condition); \
            abort(); \
        } \
    } while (0)

/* ---- Memory ------------------------------------------------------------ */

static uint32_t place(uint32_t *offset, uint32_t bytes, uint32_t alignment)
{
    uint32_t at = (*offset + alignment - 1) & ~(alignment - 1);

    *offset = at + bytes;
    return at;
}

void fake_card_init(struct fake_card *card, unsigned sq_log2, unsigned fq_log2,
                    unsigned cq_log2, int event_fd)
{
    struct unetmm_endpoint *layout = &card->layout;
    uint32_t offset = 0;
    uint8_t *base;

    memset(card, 0, sizeof(*card));
    layout->size = sizeof(*layout);
    layout->sq_log2 = sq_log2;
    layout->fq_log2 = fq_log2;
    layout->cq_log2 = cq_log2;
    layout->id = 1;
    layout->index_offset = place(&offset, sizeof(struct unetmm_ep_index), 128);
    layout->sq_offset = place(&offset, UNETMM_SLOT_BYTES << sq_log2, 64);
    layout->fq_offset = place(&offset,
                              (uint32_t)sizeof(struct unetmm_fqe) << fq_log2,
                              64);
    layout->cq_offset = place(&offset,
                              (uint32_t)sizeof(struct unetmm_cqe) << cq_log2,
                              64);
    layout->queue_bytes = (offset + 4095) & ~4095u;
    layout->doorbell_bytes = 4096;
    CARD_CHECK(!sys_mmap(&card->queues, layout->queue_bytes,
                         PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    base = card->queues;
    card->index = (void *)(base + layout->index_offset);
    card->sq = base + layout->sq_offset;
    card->fq = (void *)(base + layout->fq_offset);
    card->cq = (void *)(base + layout->cq_offset);
    card->event_fd = event_fd;
    fake_card_state(card, UNETMM_EP_RUNNING);
}

void fake_card_free(struct fake_card *card)
{
    sys_munmap(card->queues, card->layout.queue_bytes);
}

/* ---- Sending ----------------------------------------------------------- */

static uint8_t *slot(const struct fake_card *card, uint32_t index)
{
    return card->sq + (index & ((1u << card->layout.sq_log2) - 1)) *
        UNETMM_SLOT_BYTES;
}

static void take_inline(struct fake_card *card, const struct unetmm_sqe *sqe,
                        struct fake_message *m)
{
    uint32_t done = sqe->inline_len < UNETMM_SQE_INLINE ? sqe->inline_len :
        UNETMM_SQE_INLINE;

    CARD_CHECK(sqe->inline_len <= UNETMM_MAX_INLINE);
    CARD_CHECK(!sqe->nsegs || sqe->opcode == UNETMM_OP_SEND_TO);
    memcpy(m->data, sqe->data, done);
    while (done < sqe->inline_len) {
        uint32_t now = sqe->inline_len - done;

        if (now > UNETMM_SLOT_BYTES) {
            now = UNETMM_SLOT_BYTES;
        }
        memcpy(m->data + done, slot(card, card->sq_cons + m->slots++), now);
        done += now;
    }
    m->len = sqe->inline_len;
}

static void take_segs(struct fake_card *card, const struct unetmm_sqe *sqe,
                      struct fake_message *m)
{
    const struct unetmm_seg *seg = sqe->seg;
    unsigned i, left = UNETMM_SQE_SEGS;

    CARD_CHECK(sqe->nsegs <= UNETMM_MAX_SEGS && !sqe->inline_len);
    for (i = 0; i < sqe->nsegs; i++, seg++, left--) {
        void *from;
        uint32_t len;

        if (!left) {
            seg = (void *)slot(card, card->sq_cons + m->slots++);
            left = UNETMM_SLOT_SEGS;
        }
        CARD_CHECK(!seg->rsvd);
        from = (void *)(uintptr_t)unetmm_swap64(seg->addr);
        len = unetmm_swap32(seg->len);
        CARD_CHECK(len <= sizeof(m->data) - m->len);
        if (sqe->opcode == UNETMM_OP_READ) {
            m->to = i ? m->to : from;
        } else if (len) {
            memcpy(m->data + m->len, from, len);
        }
        m->len += len;
    }
}

/* Segments behind inline bytes, at a multiple of their size. */
static void take_behind(struct fake_card *card, const struct unetmm_sqe *sqe,
                        struct fake_message *m)
{
    unsigned place = (sqe->inline_len + sizeof(sqe->seg[0]) - 1) /
                     sizeof(sqe->seg[0]);
    unsigned i;

    CARD_CHECK(sqe->nsegs <= UNETMM_UD_SEGS);
    for (i = place; i < place + sqe->nsegs; i++) {
        unsigned n = i - UNETMM_SQE_SEGS;
        const struct unetmm_seg *seg = (void *)slot(card, card->sq_cons + 1 +
                                                    n / UNETMM_SLOT_SEGS);
        uint32_t len = unetmm_swap32(seg[n % UNETMM_SLOT_SEGS].len);

        seg += n % UNETMM_SLOT_SEGS;
        m->slots = 2 + n / UNETMM_SLOT_SEGS;
        CARD_CHECK(!seg->rsvd && len <= sizeof(m->data) - m->len);
        memcpy(m->data + m->len, (void *)(uintptr_t)unetmm_swap64(seg->addr),
               len);
        m->len += len;
    }
}

/* The valid combinations, by the card's rules. */
static void check_operation(const struct unetmm_sqe *sqe)
{
    bool notify = sqe->flags & UNETMM_SQE_F_NOTIFY;
    bool count = sqe->flags & UNETMM_SQE_F_COUNT;
    bool imm = sqe->flags & UNETMM_SQE_F_IMM;
    bool is_inline = sqe->flags & UNETMM_SQE_F_INLINE;

    CARD_CHECK(!(sqe->flags & ~UNETMM_SQE_F_ALL));
    CARD_CHECK(!sqe->region || sqe->flags & UNETMM_SQE_F_KEYED);
    CARD_CHECK(!sqe->imm || notify || count || imm ||
               sqe->opcode == UNETMM_OP_FRAME);
    CARD_CHECK(notify + count + imm <= 1);
    CARD_CHECK(!(notify || count) || sqe->opcode == UNETMM_OP_WRITE);
    CARD_CHECK(!(sqe->flags & UNETMM_SQE_F_INV) ||
               (imm && sqe->opcode == UNETMM_OP_SEND));
    CARD_CHECK(!imm || sqe->opcode == UNETMM_OP_WRITE ||
               sqe->opcode == UNETMM_OP_SEND ||
               sqe->opcode == UNETMM_OP_SEND_TO);
    switch (sqe->opcode) {
    case UNETMM_OP_SEND:
        CARD_CHECK(!sqe->handle && !sqe->remote);
        break;
    case UNETMM_OP_SEND_TO:
        CARD_CHECK(is_inline && sqe->inline_len >= UNETMM_UD_HEAD);
        break;
    case UNETMM_OP_FRAME:
        CARD_CHECK(!sqe->handle && !sqe->remote && !sqe->channel);
        CARD_CHECK(!(sqe->imm & ~UNETMM_TX_ALL));
        break;
    case UNETMM_OP_WRITE:
        break;
    case UNETMM_OP_FENCE:
        CARD_CHECK(!sqe->handle && !sqe->remote && !sqe->nsegs &&
                   !sqe->inline_len);
        break;
    case UNETMM_OP_READ:
        CARD_CHECK(!is_inline);
        break;
    case UNETMM_OP_FETCH_ADD:
        CARD_CHECK(is_inline && sqe->inline_len == 8);
        break;
    default:
        CARD_CHECK(sqe->opcode == UNETMM_OP_CMP_SWAP);
        CARD_CHECK(is_inline && sqe->inline_len == 16);
    }
}

bool fake_card_take(struct fake_card *card, struct fake_message *m)
{
    uint32_t prod = unetmm_read_word(&card->index->user.sq_prod);
    struct unetmm_sqe sqe;

    unetmm_from_card_barrier();
    CARD_CHECK(prod - card->sq_cons <= 1u << card->layout.sq_log2);
    if (prod == card->sq_cons) {
        return false;
    }
    memcpy(&sqe, slot(card, card->sq_cons), sizeof(sqe));
    /* All but the segments in this machine's order */
    sqe.channel = unetmm_swap16(sqe.channel);
    sqe.region = unetmm_swap16(sqe.region);
    sqe.cookie = unetmm_swap64(sqe.cookie);
    sqe.imm = unetmm_swap32(sqe.imm);
    sqe.handle = unetmm_swap32(sqe.handle);
    sqe.remote = unetmm_swap64(sqe.remote);
    check_operation(&sqe);
    m->opcode = sqe.opcode;
    m->notify = sqe.flags & UNETMM_SQE_F_NOTIFY;
    m->count = sqe.flags & UNETMM_SQE_F_COUNT;
    m->has_imm = sqe.flags & UNETMM_SQE_F_IMM;
    m->keyed = sqe.flags & UNETMM_SQE_F_KEYED;
    m->region = sqe.region;
    m->imm = sqe.imm;
    m->import = sqe.handle;
    m->offset = sqe.remote;
    m->to = NULL;
    m->cookie = sqe.cookie;
    m->channel = sqe.channel;
    m->quiet = sqe.flags & UNETMM_SQE_F_QUIET;
    m->is_inline = sqe.flags & UNETMM_SQE_F_INLINE;
    m->nsegs = sqe.nsegs;
    m->slots = 1;
    m->len = 0;
    if (m->is_inline) {
        take_inline(card, &sqe, m);
        if (m->opcode == UNETMM_OP_SEND_TO) {
            take_behind(card, &sqe, m);
        }
    } else {
        take_segs(card, &sqe, m);
    }
    CARD_CHECK(m->slots <= UNETMM_MAX_SLOTS);
    CARD_CHECK(m->slots <= prod - card->sq_cons);
    card->sq_cons += m->slots;
    unetmm_write_index(&card->index->card.sq_cons, card->sq_cons);
    return true;
}

/* ---- Completions ------------------------------------------------------- */

static bool cq_full(struct fake_card *card)
{
    uint32_t cons = unetmm_read_word(&card->index->user.cq_cons);

    CARD_CHECK(card->cq_prod - cons <= 1u << card->layout.cq_log2);
    return card->cq_prod - cons == 1u << card->layout.cq_log2;
}

static void wake(struct fake_card *card)
{
    uint64_t one = 1;
    uint32_t arm;

    unetmm_arm_barrier();
    arm = unetmm_read_word(&card->index->user.cq_arm);
    if (!(arm & UNETMM_ARM) || arm == card->woken_for ||
        !((card->cq_prod - arm) & UNETMM_ARM_COUNT) ||
        (card->cq_prod - arm) & 0x40000000u) {
        return;
    }
    card->woken_for = arm;
    CARD_CHECK(write(card->event_fd, &one, sizeof(one)) == sizeof(one));
}

bool fake_card_complete(struct fake_card *card, const struct unetmm_cqe *cqe)
{
    struct unetmm_cqe *to = &card->cq[card->cq_prod &
                                      ((1u << card->layout.cq_log2) - 1)];
    uint32_t phase = UNETMM_PHASE_OF(card->cq_prod, card->layout.cq_log2);
    struct unetmm_cqe le = *cqe;

    if (cq_full(card)) {
        return false;
    }
    le.cookie = unetmm_swap64(cqe->cookie);
    le.len = unetmm_swap32(cqe->len);
    le.channel = unetmm_swap16(cqe->channel);
    le.imm = unetmm_swap32(cqe->imm);
    if (!(cqe->flags & UNETMM_CQE_F_INLINE)) {
        le.notify.offset = unetmm_swap64(cqe->notify.offset);
        le.notify.imm = unetmm_swap32(cqe->notify.imm);
        le.notify.region = unetmm_swap32(cqe->notify.region);
    }
    /* All but the word with the phase, then that word. */
    memcpy(to, &le, offsetof(struct unetmm_cqe, flags));
    unetmm_write_index(&to->flags, cqe->flags | phase);
    card->cq_prod++;
    unetmm_write_index(&card->index->card.cq_prod, card->cq_prod);
    wake(card);
    return true;
}

void fake_card_send_done(struct fake_card *card, uint64_t cookie)
{
    const struct unetmm_cqe cqe = {
        .cookie = cookie,
        .opcode = UNETMM_CQE_SENT,
    };

    while (!fake_card_complete(card, &cqe)) {
        sched_yield();
    }
}

bool fake_card_sent(struct fake_card *card, const struct fake_message *m)
{
    const struct unetmm_cqe cqe = {
        .cookie = m->cookie,
        .len = m->len,
        .channel = m->channel,
        .opcode = UNETMM_CQE_SENT,
    };

    return m->quiet || fake_card_complete(card, &cqe);
}

static bool next_buffer(struct fake_card *card, struct unetmm_fqe *fqe)
{
    uint32_t prod = unetmm_read_word(&card->index->user.fq_prod);

    unetmm_from_card_barrier();
    CARD_CHECK(prod - card->fq_cons <= 1u << card->layout.fq_log2);
    if (prod == card->fq_cons) {
        return false;
    }
    *fqe = card->fq[card->fq_cons & ((1u << card->layout.fq_log2) - 1)];
    fqe->addr = unetmm_swap64(fqe->addr);
    fqe->len = unetmm_swap32(fqe->len);
    fqe->flags = unetmm_swap32(fqe->flags);
    fqe->cookie = unetmm_swap64(fqe->cookie);
    CARD_CHECK(fqe->len && !(fqe->flags & ~UNETMM_FQE_F_ALL) && !fqe->rsvd);
    return true;
}

static void drop_buffer(struct fake_card *card)
{
    card->fq_cons++;
    unetmm_write_index(&card->index->card.fq_cons, card->fq_cons);
}

bool fake_card_deliver(struct fake_card *card, unsigned channel,
                       const void *data, uint32_t len, bool allow_inline)
{
    struct unetmm_cqe cqe = {
        .len = len,
        .channel = (uint16_t)channel,
        .opcode = UNETMM_CQE_RECEIVED,
    };
    struct unetmm_fqe fqe;

    if (cq_full(card)) {
        return false;
    }
    if (allow_inline && len <= UNETMM_CQE_INLINE) {
        cqe.flags = UNETMM_CQE_F_INLINE;
        memcpy(cqe.data, data, len);
        return fake_card_complete(card, &cqe);
    }
    if (!next_buffer(card, &fqe) || fqe.len < len) {
        return false;
    }
    cqe.cookie = fqe.cookie;
    memcpy((void *)(uintptr_t)fqe.addr, data, len);
    drop_buffer(card);
    return fake_card_complete(card, &cqe);
}

/* The next buffer, unfilled, in a completion. */
static bool return_buffer(struct fake_card *card, struct unetmm_cqe *cqe)
{
    struct unetmm_fqe fqe;

    if (!next_buffer(card, &fqe)) {
        return false;
    }
    cqe->cookie = fqe.cookie;
    drop_buffer(card);
    return fake_card_complete(card, cqe);
}

bool fake_card_return(struct fake_card *card, uint8_t status)
{
    struct unetmm_cqe cqe = {
        .opcode = UNETMM_CQE_BUFFER,
        .status = status,
    };

    return return_buffer(card, &cqe);
}

bool fake_card_written(struct fake_card *card, unsigned channel, uint32_t len,
                       uint32_t imm)
{
    struct unetmm_cqe cqe = {
        .opcode = UNETMM_CQE_WRITTEN,
        .channel = (uint16_t)channel,
        .len = len,
        .flags = UNETMM_CQE_F_IMM,
        .imm = imm,
    };

    return return_buffer(card, &cqe);
}

void fake_card_state(struct fake_card *card, uint32_t state)
{
    unetmm_write_index(&card->index->card.state, state);
}

/* ---- For tests without a driver ---------------------------------------- */

/* As if so many had gone through all queues before. */
static void start_at(struct fake_endpoint *fake, uint32_t start)
{
    struct unetmm_ep *ep = fake->ep;
    struct fake_card *card = &fake->card;

    CARD_CHECK(UNETMM_PHASE_OF(start, card->layout.cq_log2) == 1);
    ep->sq_prod = ep->sq_cons = card->sq_cons = start;
    ep->fq_prod = ep->fq_cons = card->fq_cons = start;
    ep->cq_cons = card->cq_prod = start;
    start = unetmm_swap32(start);
    card->index->user.sq_prod = card->index->card.sq_cons = start;
    card->index->user.fq_prod = card->index->card.fq_cons = start;
    card->index->user.cq_cons = card->index->card.cq_prod = start;
}

void fake_endpoint_init(struct fake_endpoint *fake, unsigned sq_log2,
                        unsigned fq_log2, unsigned cq_log2, uint32_t start)
{
    void *doorbell;
    int event_fd = sys_eventfd();

    CARD_CHECK(event_fd >= 0);
    fake_card_init(&fake->card, sq_log2, fq_log2, cq_log2, event_fd);
    fake->doorbell_bytes = 4096;
    CARD_CHECK(!sys_mmap(&doorbell, fake->doorbell_bytes,
                         PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    fake->doorbell = doorbell;
    CARD_CHECK(!unetmm_ep_alloc(FAKE_CHANNELS, FAKE_IMPORTS, &fake->private));
    fake->private->event_fd = event_fd;
    fake->private->mtu[1] = 65536;
    unetmm_ep_bind(fake->private, &fake->card.layout, fake->card.queues,
                   doorbell);
    fake->ep = &fake->private->pub;
    fake->ep->inline_max = UNETMM_MAX_INLINE;
    fake->ep->max_buffer_pages = 20;
    start_at(fake, start);
}

void fake_endpoint_free(struct fake_endpoint *fake)
{
    sys_close(fake->card.event_fd);
    sys_munmap(fake->doorbell, fake->doorbell_bytes);
    fake_card_free(&fake->card);
    unetmm_ep_free(fake->private);
}

bool fake_endpoint_rung(struct fake_endpoint *fake)
{
    return __atomic_exchange_n(fake->doorbell, 0, __ATOMIC_SEQ_CST);
}
