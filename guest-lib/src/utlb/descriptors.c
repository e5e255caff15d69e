/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Source utlb: the pages that the descriptors of an endpoint use.
 *
 * A page that a descriptor names must stay pinned until the descriptor's completion.  So
 * each descriptor has a record, and the card gets the record's number in place of the
 * user_data.  A message with UNETMM_UNSIGNALED has a record, too, and its completion is
 * hidden from the program.
 *
 * The process's memory may change between the pinning of a page and the card's access:
 * then the card refuses the descriptor.  The library pins the pages again and posts the
 * same descriptor again, behind the descriptors that were posted meanwhile.  If a later
 * descriptor of the same reliable channel has to stay behind the refused descriptor, the
 * program gets the error instead.
 */
#include "utlb.h"

#define NONE            UINT32_MAX
/* A process that changes its memory all the time is told in the end. */
#define MOST_AGAIN      64u

struct record {
    uint64_t user_data;            /* the user's */
    uint64_t order;             /* when it was posted */
    uint64_t offset;            /* one-sided: in the import */
    uint32_t import, generation; /* keyed: the key */
    uint32_t imm;
    uint32_t next;              /* free ones; those to be posted again */
    uint16_t channel;
    uint16_t region;            /* keyed: the peer's */
    uint8_t op;                 /* UNETMM_OP_* */
    uint8_t flags;              /* UNETMM_UNSIGNALED, _NOTIFY, _COUNT, _IMM */
    uint8_t n;                  /* pieces; 0: the message was copied */
    uint8_t again;
    uint8_t why;                /* UNETMM_ST_*: why the pages were not pinned */
    bool post;                  /* a free buffer */
    bool write;                 /* the card writes to its pieces */
    bool keyed;                 /* by key, not by an import */
    bool live;
    bool held;
    bool ended;                 /* a send, whose channel has ended */
    struct iovec iov[UNETMM_MAX_SEGS];
};

struct unetmm_utlb_ep {
    struct unetmm_utlb_ctx *ctx;
    struct record *records;
    uint32_t count;
    uint32_t first_free;
    uint32_t quiet;             /* live ones of messages sent QUIET */
    uint32_t first_again[2], last_again[2]; /* sends; free buffers */
    uint64_t order;
    uint64_t *last;             /* by channel: the last that comes in order */
    uint32_t *generation;       /* of an import's number */
};

static struct unetmm_utlb_ep *utlb_of(const struct unetmm_ep *ep)
{
    return unetmm_ep_private(ep)->utlb;
}

/* Does it name an import? */
static bool is_one_sided(uint8_t op)
{
    return op == UNETMM_OP_WRITE || op == UNETMM_OP_READ ||
           op == UNETMM_OP_FETCH_ADD || op == UNETMM_OP_CMP_SWAP;
}

static int utlb_queue(struct unetmm_ep *ep, struct unetmm_request_ *request,
                      const struct iovec *iov, unsigned n);
static int utlb_post(struct unetmm_ep *ep, const struct iovec *iov, unsigned n,
                     uint64_t *user_data);
static int utlb_taken(struct unetmm_ep *ep, struct unetmm_completion *c);
static int utlb_pending(struct unetmm_ep *ep);

static const struct unetmm_source_ops_ utlb_ops = {
    .queue = utlb_queue,
    .post = utlb_post,
    .taken = utlb_taken,
    .pending = utlb_pending,
};

int unetmm_utlb_ep_open(struct unetmm_ep_private *ep)
{
    struct unetmm_utlb_ep *e = sys_calloc(1, sizeof(*e));

    if (!e) {
        return -ENOMEM;
    }
    e->last = sys_calloc(ep->pub.channels, sizeof(*e->last));
    e->generation = sys_calloc(ep->pub.nimports ? ep->pub.nimports : 1,
                               sizeof(*e->generation));
    if (!e->last || !e->generation) {
        free(e->generation);
        free(e->last);
        free(e);
        return -ENOMEM;
    }
    e->ctx = ep->ctx->utlb;
    e->first_free = e->first_again[0] = e->first_again[1] = NONE;
    ep->utlb = e;
    ep->pub.source = &utlb_ops;
    unetmm_ep_set_direct(&ep->pub);
    return 0;
}

/* ---- Records ----------------------------------------------------------- */

static int grow(struct unetmm_utlb_ep *e)
{
    uint32_t count = e->count ? 2 * e->count : 64, i;
    struct record *records = sys_calloc(count, sizeof(*records));

    if (!records) {
        return -ENOMEM;
    }
    if (e->count) {
        memcpy(records, e->records, e->count * sizeof(*records));
    }
    free(e->records);
    for (i = e->count; i < count; i++) {
        records[i].next = i + 1 < count ? i + 1 : NONE;
    }
    e->first_free = e->count;
    e->records = records;
    e->count = count;
    return 0;
}

/* NULL: no memory. */
static struct record *make_record(struct unetmm_utlb_ep *e, uint64_t user_data,
                                  const struct iovec *iov, unsigned n)
{
    struct record *r;

    if (e->first_free == NONE && grow(e)) {
        return NULL;
    }
    r = &e->records[e->first_free];
    e->first_free = r->next;
    r->user_data = user_data;
    r->next = NONE;
    r->channel = 0;
    r->op = UNETMM_OP_SEND;
    r->flags = r->again = r->why = 0;
    r->post = r->write = r->held = r->keyed = r->ended = false;
    r->live = true;
    r->n = (uint8_t)n;
    if (n) {
        memcpy(r->iov, iov, n * sizeof(*iov));
    }
    return r;
}

/* The record ends. */
static void release_record(struct unetmm_utlb_ep *e, const struct record *r)
{
    if (r->held) {
        unetmm_utlb_let_go(e->ctx, r->iov, r->n);
        if (!r->post) {
            unetmm_utlb_sending(e->ctx, -1);
        }
    }
}

static void free_record(struct unetmm_utlb_ep *e, struct record *r)
{
    release_record(e, r);
    if (r->flags & UNETMM_UNSIGNALED) {
        e->quiet--;
    }
    r->live = false;
    r->next = e->first_free;
    e->first_free = (uint32_t)(r - e->records);
}

void unetmm_utlb_ep_close(struct unetmm_ep_private *ep)
{
    struct unetmm_utlb_ep *e = ep->utlb;
    uint32_t i;

    if (!e) {
        return;
    }
    for (i = 0; i < e->count; i++) {
        if (e->records[i].live) {
            release_record(e, &e->records[i]);
        }
    }
    free(e->records);
    free(e->generation);
    free(e->last);
    free(e);
    ep->pub.source = NULL;
    unetmm_ep_set_direct(&ep->pub);
    ep->utlb = NULL;
}

/* A descriptor posted with the number must not use another import. */
void unetmm_utlb_unimport(struct unetmm_ep_private *ep, int import)
{
    struct unetmm_utlb_ep *e = ep->utlb;

    if (e) {
        e->generation[import]++;
    }
}

void unetmm_utlb_disconnect(struct unetmm_ep_private *ep, int channel)
{
    struct unetmm_utlb_ep *e = ep->utlb;
    uint32_t i;

    for (i = 0; e && i < e->count; i++) {
        struct record *r = &e->records[i];

        r->ended |= r->live && !r->post && r->channel == channel;
    }
}

/* ---- Holding ----------------------------------------------------------- */

static uint8_t status_of(int error)
{
    switch (error) {
    case -EFAULT:
    case -EINVAL:               /* beyond any process's addresses */
        return UNETMM_ST_PROTECTION;
    case -EOPNOTSUPP:
        return UNETMM_ST_UNSUPPORTED;
    default:
        return UNETMM_ST_LIMIT;
    }
}

/*
 * Pages that cannot be pinned are the card's to refuse, in a completion like
 * that of any other source.
 */
static int hold_record(struct unetmm_utlb_ep *e, struct record *r)
{
    int ret = unetmm_utlb_hold(e->ctx, r->iov, r->n, r->write);

    if (ret == -EAGAIN) {
        return ret;
    }
    if (ret) {
        r->why = status_of(ret);
        return 0;
    }
    r->held = r->n > 0;
    if (r->held && !r->post) {
        unetmm_utlb_sending(e->ctx, 1);
    }
    return 0;
}

/* ---- Order ------------------------------------------------------------- */

static bool is_reliable(const struct unetmm_ep *ep, int channel)
{
    return unetmm_ep_private(ep)->records[channel].type == UNETMM_RELIABLE;
}

/*
 * Gives a record its place in the order of its channel.  Writes without a notification have
 * no order.  A record that is posted again keeps its place, because no record with an order
 * is behind it.
 */
static void in_order(struct unetmm_ep *ep, struct record *r)
{
    struct unetmm_utlb_ep *e = utlb_of(ep);

    r->order = ++e->order;
    if ((r->op != UNETMM_OP_WRITE ||
         r->flags & (UNETMM_NOTIFY | UNETMM_COUNT | UNETMM_IMM)) &&
        is_reliable(ep, r->channel)) {
        e->last[r->channel] = r->order;
    }
}

/* May the record be posted behind later ones?  A read may. */
static bool may_be_late(const struct unetmm_ep *ep, const struct record *r)
{
    const struct unetmm_utlb_ep *e = utlb_of(ep);

    return r->post || r->op == UNETMM_OP_READ ||
           !is_reliable(ep, r->channel) || e->last[r->channel] <= r->order;
}

/* ---- Posting ----------------------------------------------------------- */

static void post_again(struct unetmm_ep *ep);
static void take_quiet(struct unetmm_ep *ep);

/* The common part of a send and an operation, whose record is filled in. */
static int begin_send(struct unetmm_ep *ep, struct record *r, uint64_t *user_data,
                      unsigned *flags)
{
    struct unetmm_utlb_ep *e = utlb_of(ep);
    int ret;

    /* Nothing overtakes records that wait for room to be posted again. */
    ret = e->first_again[0] != NONE ? -EAGAIN : hold_record(e, r);
    if (ret) {
        free_record(e, r);
        return ret;
    }
    r->flags = (uint8_t)(*flags & (UNETMM_UNSIGNALED | UNETMM_NOTIFY |
                                   UNETMM_COUNT | UNETMM_IMM));
    if (r->flags & UNETMM_UNSIGNALED) {
        e->quiet++;
        *flags &= ~UNETMM_UNSIGNALED;
    }
    in_order(ep, r);
    *user_data = (uint64_t)(r - e->records);
    return 0;
}

/* Operation queue() of the source. */
static int utlb_queue(struct unetmm_ep *ep, struct unetmm_request_ *request,
                      const struct iovec *iov, unsigned n)
{
    struct unetmm_utlb_ep *e = utlb_of(ep);
    struct record *r;

    take_quiet(ep);
    r = make_record(e, request->user_data, iov, n);
    if (!r) {
        return -ENOMEM;
    }
    r->channel = request->channel;
    r->op = request->opcode;
    r->write = request->opcode == UNETMM_OP_READ;
    r->imm = request->imm;
    if (is_one_sided(r->op)) {
        r->import = request->import;
        r->keyed = request->flags & UNETMM_KEYED_;
        r->region = (uint16_t)(request->flags >> UNETMM_REGION_SHIFT_);
        r->generation = r->keyed ? 0 : e->generation[r->import];
        r->offset = request->offset;
    }
    return begin_send(ep, r, &request->user_data, &request->flags);
}

static int utlb_post(struct unetmm_ep *ep, const struct iovec *iov, unsigned n,
                     uint64_t *user_data)
{
    struct unetmm_utlb_ep *e = utlb_of(ep);
    struct record *r = make_record(e, *user_data, iov, n);
    int ret;

    if (!r) {
        return -ENOMEM;
    }
    r->post = r->write = true;
    ret = hold_record(e, r);
    if (ret) {
        free_record(e, r);
        return ret;
    }
    *user_data = (uint64_t)(r - e->records);
    return 0;
}

/* ---- Completions ------------------------------------------------------- */

/* The record that a completion is of, or NULL. */
static struct record *record_of(const struct unetmm_utlb_ep *e,
                                const struct unetmm_completion *c)
{
    bool post = c->type == UNETMM_CQE_BUFFER ||
        c->type == UNETMM_CQE_WRITTEN ||
        (c->type == UNETMM_CQE_RECEIVED && !c->is_inline);

    if ((!post && c->type != UNETMM_CQE_SENT) || c->user_data >= e->count ||
        !e->records[c->user_data].live || e->records[c->user_data].post != post) {
        return NULL;
    }
    return &e->records[c->user_data];
}

/* Can a refused record be posted again, as its pages are pinned now? */
static bool is_worth_it(struct unetmm_ep *ep, struct record *r,
                        const struct unetmm_completion *c)
{
    struct unetmm_utlb_ep *e = utlb_of(ep);
    int ret;

    if (c->status != UNETMM_ST_PROTECTION || !r->held || r->ended ||
        r->again == MOST_AGAIN || !may_be_late(ep, r)) {
        return false;
    }
    ret = unetmm_utlb_renew(e->ctx, r->iov, r->n, r->write);
    if (ret) {
        r->why = status_of(ret);
        return false;
    }
    r->again++;
    if (e->first_again[r->post] == NONE) {
        e->first_again[r->post] = (uint32_t)(r - e->records);
    } else {
        e->records[e->last_again[r->post]].next = (uint32_t)(r - e->records);
    }
    r->next = NONE;
    e->last_again[r->post] = (uint32_t)(r - e->records);
    return true;
}

/* Should the program see the completion?  Puts nothing into the queues. */
static bool take_one(struct unetmm_ep *ep, struct unetmm_completion *c)
{
    struct unetmm_utlb_ep *e = utlb_of(ep);
    struct record *r = record_of(e, c);
    bool seen;

    if (c->type == UNETMM_CQE_CLOSED) {
        unetmm_utlb_disconnect(unetmm_ep_private(ep), c->channel);
    }
    if (!r) {
        return true;
    }
    if (is_worth_it(ep, r, c)) {
        return false;
    }
    if (c->status == UNETMM_ST_PROTECTION && r->why) {
        c->status = r->why;
    }
    c->user_data = r->user_data;
    seen = !(r->flags & UNETMM_UNSIGNALED) || c->status;
    free_record(e, r);
    return seen;
}

static int utlb_taken(struct unetmm_ep *ep, struct unetmm_completion *c)
{
    bool seen = take_one(ep, c);

    post_again(ep);
    return seen;
}

/*
 * Takes completions that nobody is to see, while they are the next.  The caller
 * may have looked for room in the send queue, which therefore stays as it is.
 */
static void take_quiet(struct unetmm_ep *ep)
{
    const struct unetmm_utlb_ep *e = utlb_of(ep);
    uint32_t index = ep->cq_cons;

    while (e->quiet) {
        struct unetmm_completion c;
        const struct record *r;
        uint32_t flags;
        int there;

        flags = unetmm_next_flags_(ep, index, &there);
        if (!there) {
            break;
        }
        unetmm_from_card_barrier();
        unetmm_take_(&ep->cq[index & ep->cq_mask], flags, &c);
        r = record_of(e, &c);
        if (!r || !(r->flags & UNETMM_UNSIGNALED) || c.status) {
            break;
        }
        take_one(ep, &c);
        index++;
    }
    if (index != ep->cq_cons) {
        ep->cq_cons = index;
        unetmm_write_index(&ep->index->user.cq_cons, index);
        if (unetmm_read_word(&ep->index->card.state) & UNETMM_EP_CQ_BLOCKED) {
            unetmm_ring(ep);
        }
    }
}

static int utlb_pending(struct unetmm_ep *ep)
{
    const struct unetmm_utlb_ep *e = utlb_of(ep);
    uint32_t i;
    int n = 0;

    take_quiet(ep);
    post_again(ep);
    for (i = e->first_again[0]; i != NONE; i = e->records[i].next) {
        n++;
    }
    return n;
}

/* ---- Posting again ----------------------------------------------------- */

/*
 * A record of a channel or an import that has ended does not use the channel or the import
 * that has its number now.
 */
static struct unetmm_request_ request_of(const struct unetmm_utlb_ep *e,
                                         const struct record *r,
                                         uint32_t number)
{
    struct unetmm_request_ request = {
        .user_data = number,
        .flags = r->flags & (UNETMM_NOTIFY | UNETMM_COUNT | UNETMM_IMM),
        .imm = r->imm,
        .channel = r->ended ? UINT16_MAX : r->channel,
        .opcode = r->op,
    };

    if (is_one_sided(r->op)) {
        request.import = r->keyed ||
            e->generation[r->import] == r->generation ? r->import : UINT32_MAX;
        request.flags |= r->keyed ? UNETMM_KEYED_ |
            (unsigned)r->region << UNETMM_REGION_SHIFT_ : 0;
        request.offset = r->offset;
    }
    return request;
}

static bool send_again(struct unetmm_ep *ep, const struct record *r,
                       uint32_t number)
{
    const struct unetmm_request_ request = request_of(utlb_of(ep), r, number);
    uint32_t slots = 1 + unetmm_seg_slots_(r->n);
    uint8_t *data;

    if (!unetmm_sq_has_room_(ep, slots)) {
        return false;
    }
    data = unetmm_put_sqe_(ep, ep->sq_prod, &request, false, r->n, 0);
    unetmm_put_segs_(ep, ep->sq_prod, data, r->iov, r->n);
    ep->sq_prod += slots;
    unetmm_write_index(&ep->index->user.sq_prod, ep->sq_prod);
    return true;
}

static bool offer_again(struct unetmm_ep *ep, struct record *r, uint32_t number)
{
    if (!unetmm_parts_fit(ep, r->n)) {
        return false;
    }
    unetmm_put_parts(ep, r->iov, r->n, number);
    return true;
}

static void post_again(struct unetmm_ep *ep)
{
    struct unetmm_utlb_ep *e = utlb_of(ep);
    bool any = false;
    unsigned post;

    for (post = 0; post < 2; post++) {
        uint32_t *first = &e->first_again[post];

        while (*first != NONE) {
            struct record *r = &e->records[*first];

            if (!(post ? offer_again(ep, r, *first) :
                         send_again(ep, r, *first))) {
                break;
            }
            *first = r->next;
            any = true;
        }
    }
    if (any) {
        unetmm_ring(ep);
    }
}
