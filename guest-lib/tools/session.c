/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One endpoint, one peer: buffers, frames and control messages of the tools.
 */
#include "session.h"

#include "op.h"
#include "pattern.h"

#include <stdlib.h>

#define CONTROL_MAGIC   0x74656e75u     /* "unet"; above MAX_MESSAGES */
#define CONTROL_BYTES   40
#define REQUEST_NS      (100 * NS_PER_MS)
#define ROOM_NS         (50 * NS_PER_MS)
/* Between two looks for callers, while some are there */
#define ACCEPT_NS       (20 * NS_PER_MS)
#define TX_COOKIE       0x8000000000000000ull
#define FLAG_VERIFY     0x01
#define FLAG_BIDIR      0x02
#define OP_SHIFT        4
/* Of the word that is the frame's, if it is not for messages */
#define COMBINE_SHIFT   8
#define NOTIFY_SHIFT    16

/* Fewest buffers: some always wait for control messages. */
#define LEAST_BUFFERS   8
#define MOST_BUFFERS    64
#define LEAST_TX_SLOTS  16
#define LEAST_FRAME     256

/* ---- Numbers in messages: little-endian -------------------------------- */

static void put_number(uint8_t *to, uint64_t value, unsigned bytes)
{
    unsigned i;

    for (i = 0; i < bytes; i++) {
        to[i] = (uint8_t)(value >> 8 * i);
    }
}

static uint64_t get_number(const uint8_t *from, unsigned bytes)
{
    uint64_t value = 0;
    unsigned i;

    for (i = 0; i < bytes; i++) {
        value |= (uint64_t)from[i] << 8 * i;
    }
    return value;
}

/* ---- Buffers ----------------------------------------------------------- */

static uint32_t power_of_two(uint32_t least)
{
    uint32_t n = 8;

    while (n < least) {
        n *= 2;
    }
    return n;
}

/* As many buffers as leave half of the TLB to the sends, within reason. */
static uint32_t suitable_buffers(const struct session *s)
{
    uint32_t pages = (uint32_t)(s->stride / UNETMM_PAGE_BYTES) + 1;
    uint32_t fit = s->info.tlb_sets * s->info.tlb_ways / 2 / pages;

    if (fit > MOST_BUFFERS) {
        fit = MOST_BUFFERS;
    }
    return fit < LEAST_BUFFERS ? LEAST_BUFFERS : fit;
}

/*
 * All buffers are in one block from malloc(): a card that indexes its TLB by
 * page number then finds as few conflicts as there can be.  It is registered
 * only where the source asks for it.
 */
static void allocate(struct session *s)
{
    uint64_t half = s->opt->memory / 2 / s->stride;
    size_t rx_bytes, bytes;
    uint8_t *block;
    int ret;

    s->rx_slots = half > s->buffers ? (uint32_t)half : s->buffers;
    s->tx_slots = 2 * s->buffers;
    if (s->tx_slots < LEAST_TX_SLOTS) {
        s->tx_slots = LEAST_TX_SLOTS;
    }
    if (half > s->tx_slots) {
        s->tx_slots = (uint32_t)half;
    }
    rx_bytes = s->rx_slots * s->stride;
    bytes = rx_bytes + s->tx_slots * s->stride;
    block = malloc(bytes + UNETMM_PAGE_BYTES);
    s->outstanding = calloc(s->tx_slots, sizeof(*s->outstanding));
    if (!block || !s->outstanding) {
        fail("no memory for %zu bytes of buffers: use a smaller --memory or "
             "fewer --buffers", bytes);
    }
    s->block = block;
    /* Frames of whole pages then touch no page more than they must. */
    block += -(uintptr_t)block % UNETMM_PAGE_BYTES;
    s->rx = block;
    s->tx = block + rx_bytes;
    if (s->opt->source == UNETMM_SOURCE_PINNED) {
        ret = unetmm_register(s->ctx, block, bytes, UNETMM_REGION_WRITE);
        if (ret) {
            fail_call(ret, UNETMM_CALL_REGISTER, "cannot register the buffers");
        }
    }
}

/*
 * Buffers come back in the order of posting, so the next place in memory is
 * always free as long as no more than rx_slots are out.  Their places in the queue
 * are free a little later than the messages in them are there: the card says so
 * once for all that it does in one go.
 */
static void post_buffer(struct session *s)
{
    uint32_t slot = s->posted++ % s->rx_slots;
    uint64_t start = now_ns();
    int ret;

    do {
        ret = unetmm_post_recv(s->ep, s->rx + slot * s->stride, s->frame, slot,
                               UNETMM_MORE);
    } while (ret == -EAGAIN && now_ns() - start < 10 * NS_PER_S);
    if (ret) {
        fail_call(ret, UNETMM_CALL_POST, "cannot post a buffer");
    }
}

/* ---- Opening ----------------------------------------------------------- */

static void open_card(struct session *s)
{
    const char *device = s->opt->device ? s->opt->device :
        UNETMM_DEFAULT_DEVICE;
    int ret = unetmm_open(device, s->opt->source, &s->ctx);

    if (ret) {
        fail_call(ret, UNETMM_CALL_OPEN, device);
    }
    s->info.size = sizeof(s->info);
    ret = unetmm_info(s->ctx, &s->info);
    if (ret) {
        fail_call(ret, UNETMM_CALL_ANY, device);
    }
}

/*
 * How long a buffer is.  The connecting side knows the sizes, and does not make the
 * card translate more than they need; the listening side has to be ready for a
 * frame.
 */
static uint32_t buffer_bytes(const struct session *s)
{
    const struct options *opt = s->opt;
    uint64_t most = LEAST_FRAME;
    uint32_t longest;
    unsigned i;

    if (opt->op->rights) {
        return LEAST_FRAME;     /* for control messages alone */
    }
    if (opt->frame) {
        return opt->frame;
    }
    for (i = 0; i < opt->nsizes; i++) {
        most = opt->sizes[i] > most ? opt->sizes[i] : most;
    }
    longest = opt->reliable ? RELIABLE_FRAME : s->info.user_mtu;
    return opt->listen || most > longest ? longest : (uint32_t)most;
}

/* Buffers that are translated ahead push each other out if they do not fit. */
static uint32_t heads_that_fit(const struct session *s)
{
    uint32_t pages = (uint32_t)(s->stride / UNETMM_PAGE_BYTES) + 1;
    uint32_t fit = s->info.tlb_sets * s->info.tlb_ways / 2 / pages;

    if (!s->opt->reliable || fit >= s->info.max_pretranslate) {
        return 0;
    }
    return fit ? fit : 1;
}

void session_open(struct session *s, const struct options *opt)
{
    struct unetmm_ep_attr attr = UNETMM_EP_ATTR_INIT;
    uint32_t i;
    int ret;

    memset(s, 0, sizeof(*s));
    s->opt = opt;
    open_card(s);
    s->frame = buffer_bytes(s);
    s->stride = s->frame < UNETMM_PAGE_BYTES ? (s->frame + 63) & ~63u :
        (s->frame + UNETMM_PAGE_BYTES - 1) & ~(UNETMM_PAGE_BYTES - 1u);
    s->buffers = opt->buffers ? opt->buffers : suitable_buffers(s);
    attr.policy = opt->policy;
    attr.pretranslate = heads_that_fit(s);
    attr.spin_ns = opt->spin_ns;
    attr.free_depth = power_of_two(s->buffers);
    s->depth = attr.completion_depth = power_of_two(2 * (s->buffers + attr.send_slots));
    ret = unetmm_ep_create(s->ctx, &attr, &s->ep);
    if (ret) {
        fail_call(ret, UNETMM_CALL_EP_CREATE, "cannot create an endpoint");
    }
    allocate(s);
    for (i = 0; i < s->buffers; i++) {
        post_buffer(s);
    }
    unetmm_ring(s->ep);
}

/* A listener's last answer is lost with the channel, unless the peer's card has the answer. */
static void await_answer(const struct session *s)
{
    if (s->opt->listen && s->opt->reliable && !s->gone) {
        unetmm_shutdown(s->ep, s->peer.channel, NS_PER_S);
    }
}

void session_close(struct session *s)
{
    uint64_t start = now_ns();

    await_answer(s);
    /* A last datagram may still be in the queue. */
    while (unetmm_send_pending(s->ep) > 0 && now_ns() - start < NS_PER_S) {
        struct event event;

        session_event(s, &event, (int64_t)NS_PER_MS);
        if (event.type == EVENT_FRAME) {
            session_release(s, &event);
        }
    }
    unetmm_ep_destroy(s->ep);
    unetmm_close(s->ctx);
    free(s->block);
    free(s->outstanding);
}

/* A channel, as the options say. */
static struct unetmm_channel_attr session_channel(const struct options *opt)
{
    static const struct unetmm_channel_attr datagrams =
        UNETMM_CHANNEL_ATTR_DATAGRAM;
    struct unetmm_channel_attr attr = UNETMM_CHANNEL_ATTR_INIT;

    if (!opt->reliable) {
        return datagrams;
    }
    attr.flags |= opt->go_back_n ? UNETMM_GO_BACK_N : 0;
    attr.rnr_us = opt->rnr_us;
    return attr;
}

void session_connect(struct session *s)
{
    struct unetmm_channel_attr attr = session_channel(s->opt);
    uint64_t deadline = now_ns() + s->opt->timeout_ns;
    char mac[UNETMM_MAC_CHARS];
    char what[64];
    int ret;

    do {
        ret = unetmm_connect_ex(s->ep, s->opt->mac, s->opt->service,
                                time_left(deadline), &attr, &s->peer);
    } while (link_may_come(ret, deadline));
    if (ret < 0) {
        snprintf(what, sizeof(what), "cannot reach %s",
                 unetmm_format_mac(s->opt->mac, mac));
        fail_call(ret, UNETMM_CALL_CONNECT, what);
    }
}

void session_silent(const struct session *s)
{
    char mac[UNETMM_MAC_CHARS];

    complain("nothing has come from %s for %llu seconds: its program has "
             "ended, or the network is down (--timeout sets a longer limit)",
             unetmm_format_mac(s->peer.mac, mac),
             (unsigned long long)(s->opt->timeout_ns / NS_PER_S));
}

/* ---- Events ------------------------------------------------------------ */

static void read_control(const uint8_t *bytes, struct control *control)
{
    int i;

    control->type = bytes[4];
    control->flags = bytes[5];
    control->run = (uint16_t)get_number(bytes + 6, 2);
    for (i = 0; i < 4; i++) {
        control->w[i] = (uint32_t)get_number(bytes + 8 + 4 * i, 4);
    }
    for (i = 0; i < 2; i++) {
        control->q[i] = get_number(bytes + 24 + 8 * i, 8);
    }
}

static void on_received(struct session *s, const struct unetmm_completion *c,
                        struct event *event)
{
    event->buffer = !c->is_inline;
    event->bytes = c->is_inline ? c->data : s->rx + c->user_data * s->stride;
    event->len = c->len;
    event->type = EVENT_FRAME;
    event->channel = c->channel;
    if (c->channel != s->peer.channel && !s->accepting) {
        /* The end of an earlier conversation */
        event->type = EVENT_NONE;
        session_release(s, event);
    } else if (c->len == CONTROL_BYTES &&
               get_number(event->bytes, 4) == CONTROL_MAGIC) {
        read_control(event->bytes, &event->control);
        session_release(s, event);
        event->type = EVENT_CONTROL;
    }
}

/*
 * Does the status end one message only?  The channel may close under an answer to a
 * peer that has left, and the listening side outlives peers, and a link that comes and
 * goes.
 */
static bool is_loss(const struct session *s, uint8_t status)
{
    switch (status) {
    case UNETMM_ST_BAD_CHANNEL:
    case UNETMM_ST_REFUSED:
        return true;
    case UNETMM_ST_LINK_DOWN:
    case UNETMM_ST_TIMEOUT:
    case UNETMM_ST_NOT_READY:
    case UNETMM_ST_PEER_BUFFER:
    case UNETMM_ST_PEER_FAILED:
    case UNETMM_ST_FLUSHED:
        return s->opt->listen;
    default:
        return false;
    }
}

/* An answer's place goes with the peer; the listener hears of it by silence. */
static bool is_op_loss(const struct session *s)
{
    return s->opt->listen;
}

static void on_sent(struct session *s, const struct unetmm_completion *c,
                    struct event *event)
{
    if (c->user_data & TX_COOKIE) {
        s->outstanding[(uint32_t)c->user_data]--;
    } else if (c->user_data & OP_COOKIE) {
        event->type = EVENT_DONE;
        event->number = (uint32_t)c->user_data;
        event->old = c->is_inline ? unetmm_old_value(c) : 0;
    }
    if (c->status && event->type == EVENT_DONE && !is_op_loss(s)) {
        fail("an operation failed: %s", unetmm_status_str(c->status));
    }
    if (c->status && event->type != EVENT_DONE && !is_loss(s, c->status)) {
        fail("a message was not sent: %s", unetmm_status_str(c->status));
    }
}

static void on_completion(struct session *s, const struct unetmm_completion *c,
                          struct event *event)
{
    switch (c->type) {
    case UNETMM_CQE_RECEIVED:
        on_received(s, c, event);
        break;
    case UNETMM_CQE_SENT:
        on_sent(s, c, event);
        break;
    case UNETMM_CQE_NOTIFY:
        event->type = EVENT_NOTIFIED;
        event->number = unetmm_notify_imm(c);
        break;
    case UNETMM_CQE_UPDATE:
        if (is_op_loss(s)) {
            break;
        }
        fail("a window store or a user-level DMA has failed: %s",
             unetmm_status_str(c->status));
    case UNETMM_CQE_BUFFER:
        if (c->status != UNETMM_ST_SKIPPED) {
            fail("the card returned a buffer unused: %s",
                 unetmm_status_str(c->status));
        }
        s->skipped++;
        post_buffer(s);
        break;
    case UNETMM_CQE_WRITTEN:
        /* Nothing of ours asks for that; it has used up a buffer. */
        post_buffer(s);
        break;
    default:
        fail("the card has stopped the endpoint: %s",
             unetmm_status_str(c->status));
    }
}

void session_event(struct session *s, struct event *event, int64_t timeout_ns)
{
    int ret;

    event->type = EVENT_NONE;
    event->buffer = false;
    if (s->asked.type != EVENT_NONE) {
        *event = s->asked;
        s->asked.type = EVENT_NONE;
        return;
    }
    if (s->next_completion == s->ncompletions) {
        ret = unetmm_wait(s->ep, s->completions,
                          sizeof(s->completions) / sizeof(s->completions[0]),
                          timeout_ns);
        if (ret < 0 && ret != -EINTR) {
            fail_call(ret, UNETMM_CALL_POLL, "cannot take completions");
        }
        s->next_completion = 0;
        s->ncompletions = ret < 0 ? 0 : (unsigned)ret;
    }
    while (s->next_completion < s->ncompletions &&
           event->type == EVENT_NONE) {
        on_completion(s, &s->completions[s->next_completion++], event);
    }
}

void session_release(struct session *s, struct event *event)
{
    if (event->buffer) {
        event->buffer = false;
        post_buffer(s);
    }
}

bool session_room(struct session *s, struct event *event, uint64_t *since_ns)
{
    if (!*since_ns) {
        *since_ns = now_ns();
    }
    session_event(s, event, (int64_t)ROOM_NS);
    if (event->type == EVENT_FRAME) {
        session_release(s, event);
    }
    if (now_ns() - *since_ns <= s->opt->timeout_ns) {
        return !s->gone;
    }
    if (!s->opt->listen) {
        fail("the peer takes nothing any more");
    }
    s->gone = true;
    return false;
}

/* ---- Callers ----------------------------------------------------------- */

static struct unetmm_peer take_caller(struct session *s, unsigned n)
{
    struct unetmm_peer peer = s->callers[n].peer;

    s->ncallers--;
    memmove(&s->callers[n], &s->callers[n + 1],
            (s->ncallers - n) * sizeof(s->callers[0]));
    return peer;
}

static void send_away(struct session *s, unsigned n)
{
    struct unetmm_peer peer = take_caller(s, n);

    unetmm_disconnect(s->ep, peer.channel);
}

/* All that are there; with nobody to wait for, the first one.  The oldest makes room. */
static void take_callers(struct session *s)
{
    struct caller new;
    int ret;

    do {
        ret = unetmm_accept(s->ep, &new.peer, s->ncallers ? 0 : -1);
        if (ret >= 0) {
            if (s->ncallers == MOST_CALLERS) {
                send_away(s, 0);
            }
            new.since_ns = now_ns();
            s->callers[s->ncallers++] = new;
        }
    } while (ret >= 0 || ret == -EINTR);
    if (ret != -ETIMEDOUT) {
        fail_call(ret, UNETMM_CALL_ACCEPT, "cannot accept a peer");
    }
}

/* False: the last one has been silent for too long. */
static bool any_patience(struct session *s)
{
    while (s->ncallers && now_ns() - s->callers[0].since_ns > s->opt->timeout_ns) {
        s->peer = s->callers[0].peer;
        send_away(s, 0);
        if (!s->ncallers && !s->opt->forever) {
            session_silent(s);
            return false;
        }
    }
    return true;
}

static bool is_chosen(struct session *s, const struct event *event)
{
    unsigned i;

    if (event->type != EVENT_CONTROL || event->control.type != CONTROL_START) {
        return false;
    }
    for (i = 0; i < s->ncallers; i++) {
        if (s->callers[i].peer.channel == event->channel) {
            s->peer = take_caller(s, i);
            s->asked = *event;
            return true;
        }
    }
    return false;
}

/* False: all have been silent for the timeout, and that was said. */
static bool accept_peer(struct session *s)
{
    struct event event;
    uint32_t left = s->depth;
    bool chosen = false;

    s->gone = false;
    s->accepting = true;
    /* The last messages of an earlier peer must not count as the next one's. */
    do {
        session_event(s, &event, 0);
        session_release(s, &event);
    } while (s->ncompletions && --left);
    while (!chosen && any_patience(s)) {
        take_callers(s);
        session_event(s, &event, (int64_t)ACCEPT_NS);
        session_release(s, &event);
        chosen = is_chosen(s, &event);
    }
    s->accepting = false;
    return chosen;
}

bool session_serve(struct session *s, bool (*serve)(struct session *s))
{
    struct unetmm_channel_attr attr = session_channel(s->opt);
    bool good;
    int ret;

    attr.flags |= UNETMM_ANNOUNCE;
    ret = unetmm_listen_ex(s->ep, s->opt->service, 16, &attr);
    if (ret) {
        fail_call(ret, UNETMM_CALL_LISTEN, "cannot listen");
    }
    do {
        good = accept_peer(s) && serve(s);
        if (s->opt->forever) {
            await_answer(s);
            unetmm_disconnect(s->ep, s->peer.channel);
        }
    } while (s->opt->forever);
    return good;
}

/* ---- Control messages -------------------------------------------------- */

void session_control(struct session *s, const struct control *control)
{
    uint8_t bytes[CONTROL_BYTES];
    int i, ret;

    put_number(bytes, CONTROL_MAGIC, 4);
    bytes[4] = (uint8_t)control->type;
    bytes[5] = control->flags;
    put_number(bytes + 6, control->run, 2);
    for (i = 0; i < 4; i++) {
        put_number(bytes + 8 + 4 * i, control->w[i], 4);
    }
    for (i = 0; i < 2; i++) {
        put_number(bytes + 24 + 8 * i, control->q[i], 8);
    }
    ret = unetmm_send(s->ep, s->peer.channel, bytes, sizeof(bytes), 0,
                      UNETMM_INLINE | UNETMM_UNSIGNALED);
    /* A full queue is as good as a lost datagram: it will be asked again. */
    if (ret && ret != -EAGAIN) {
        fail_call(ret, UNETMM_CALL_SEND, "cannot send");
    }
}

bool session_request(struct session *s, const struct control *request,
                     enum control_type reply, struct control *answer,
                     uint64_t timeout_ns)
{
    uint64_t start = now_ns(), repeat = 0;

    for (;;) {
        uint64_t now = now_ns();
        struct event event;

        if (now - start >= timeout_ns) {
            return false;
        }
        if (now >= repeat) {
            session_control(s, request);
            repeat = now + REQUEST_NS;
        }
        session_event(s, &event, (int64_t)(repeat - now));
        if (event.type == EVENT_FRAME) {
            session_release(s, &event);
        } else if (event.type == EVENT_CONTROL &&
                   event.control.type == reply &&
                   event.control.run == request->run) {
            *answer = event.control;
            return true;
        }
    }
}

/* ---- Plans ------------------------------------------------------------- */

static void plan_cut(struct plan *plan)
{
    plan->nframes = (plan->size + plan->frame - 1) / plan->frame;
}

void plan_make(struct plan *plan, const struct session *s, uint64_t size,
               uint32_t run, uint32_t first)
{
    const struct options *opt = s->opt;

    plan->run = run;
    plan->size = (uint32_t)size;
    plan->count = opt->count;
    plan->warmup = opt->warmup;
    plan->op = opt->op->number;
    plan->places = 0;
    plan->combine = opt->combine;
    plan->notify = opt->op->notifies && !opt->spin_ns;
    plan->frame = plan->op ? plan->size : opt->frame ? opt->frame :
        opt->reliable ? RELIABLE_FRAME : s->peer.mtu;
    if (!plan->op && plan->frame > s->peer.mtu) {
        plan->frame = s->peer.mtu;
    }
    plan->first = first;
    plan->seed = opt->seed;
    plan->verify = opt->verify;
    plan->bidir = opt->bidir;
    plan_cut(plan);
}

void plan_follow(const struct plan *plan, uint32_t *run, uint32_t *first)
{
    /* A run has at most a fiftieth of the numbers, and a control message 16 bits. */
    *run = *run % UINT16_MAX + 1;
    *first += plan->warmup + plan->count;
    if (*first > MAX_MESSAGES - MAX_MESSAGES / 25) {
        *first = 0;
    }
}

void plan_to_control(const struct plan *plan, struct control *control)
{
    *control = (struct control) {
        .type = CONTROL_START,
        .flags = (uint8_t)((plan->verify ? FLAG_VERIFY : 0) |
                           (plan->bidir ? FLAG_BIDIR : 0) |
                           plan->op << OP_SHIFT),
        .run = (uint16_t)plan->run,
        .w = { plan->size, plan->count, plan->warmup, plan->op ?
               plan->places | plan->combine << COMBINE_SHIFT |
               (uint32_t)plan->notify << NOTIFY_SHIFT : plan->frame },
        .q = { plan->seed, plan->first },
    };
}

/* Messages have bytes, frames at least one; the numbers as the options limit them. */
static bool plan_possible(const struct plan *plan)
{
    return plan->size && plan->size <= MOST_SIZE && plan->frame <= MOST_SIZE &&
        plan->count && plan->count <= MOST_COUNT && plan->warmup <= MOST_COUNT &&
        plan->first <= MAX_MESSAGES;
}

bool plan_from_control(struct plan *plan, const struct control *control)
{
    plan->run = control->run;
    plan->verify = control->flags & FLAG_VERIFY;
    plan->bidir = control->flags & FLAG_BIDIR;
    plan->size = control->w[0];
    plan->count = control->w[1];
    plan->warmup = control->w[2];
    plan->op = control->flags >> OP_SHIFT;
    if (plan->op) {
        plan->places = control->w[3] & 0xff;
        plan->combine = control->w[3] >> COMBINE_SHIFT & 0xff;
        plan->notify = control->w[3] >> NOTIFY_SHIFT & 1;
        plan->frame = plan->size ? plan->size : 1;
    } else {
        plan->frame = control->w[3] ? control->w[3] : 1;
    }
    plan->seed = control->q[0];
    plan->first = (uint32_t)control->q[1];
    if (!plan_possible(plan)) {
        complain("the peer asks for an impossible run, %u messages of %u bytes in "
                 "frames of %u: is it of the same version?", plan->count,
                 plan->size, plan->frame);
        return false;
    }
    plan_cut(plan);
    return true;
}

bool session_started(struct session *s, const struct plan *plan)
{
    struct control answer = {
        .type = CONTROL_STARTED,
        .run = (uint16_t)plan->run,
        .w = { !plan->op && plan->frame > s->frame ? s->frame : 0, s->buffers,
               s->opt->op->number },
    };

    session_control(s, &answer);
    return !answer.w[0] && plan->op == answer.w[2];
}

void session_check_op(const struct session *s, const struct control *started)
{
    if (started->w[2] != s->opt->op->number) {
        fail("the peer was started with --op %s: use the same on both sides",
             op_name(started->w[2]));
    }
}

/* The frames of a message differ by at most a byte: none is a mere rest. */
uint32_t plan_frame_length(const struct plan *plan, uint32_t frame)
{
    return plan->size / plan->nframes + (frame < plan->size % plan->nframes);
}

uint32_t plan_frame_position(const struct plan *plan, uint32_t frame)
{
    uint32_t longer = plan->size % plan->nframes;

    return plan->size / plan->nframes * frame +
        (frame < longer ? frame : longer);
}

/* ---- Frames ------------------------------------------------------------ */

/*
 * Which place in memory a frame has.  Without --memory, no more places are
 * used than it takes to keep the card busy, so that the TLB holds them.
 */
static uint32_t tx_slot(const struct session *s, const struct plan *plan,
                        uint32_t seq, uint32_t frame)
{
    uint32_t cycle = 2 * plan->nframes;

    if (cycle < LEAST_TX_SLOTS) {
        cycle = LEAST_TX_SLOTS;
    }
    if (s->opt->memory || cycle > s->tx_slots) {
        cycle = s->tx_slots;
    }
    return (uint32_t)(((uint64_t)seq * plan->nframes + frame) % cycle);
}

static uint64_t frame_key(const struct plan *plan, bool reply, uint32_t seq)
{
    return pattern_key(reply ? ~plan->seed : plan->seed, seq);
}

static void make_header(uint8_t header[HEADER_BYTES], uint32_t seq,
                        uint32_t frame)
{
    put_number(header, seq, 4);
    put_number(header + 4, frame, 4);
}

bool session_prepare(struct session *s, const struct plan *plan, bool reply,
                     uint32_t seq, uint32_t frame)
{
    uint32_t slot = tx_slot(s, plan, seq, frame);
    uint32_t len = plan_frame_length(plan, frame);
    uint8_t *bytes = s->tx + slot * s->stride;
    uint8_t header[HEADER_BYTES];

    if (s->outstanding[slot]) {
        return false;
    }
    make_header(header, seq, frame);
    memcpy(bytes, header, len < HEADER_BYTES ? len : HEADER_BYTES);
    if (plan->verify && len > HEADER_BYTES) {
        pattern_fill(bytes + HEADER_BYTES, len - HEADER_BYTES,
                     frame_key(plan, reply, seq),
                     plan_frame_position(plan, frame) + HEADER_BYTES);
    }
    return true;
}

bool session_send(struct session *s, const struct plan *plan, uint32_t seq,
                  uint32_t frame, bool more)
{
    uint32_t slot = tx_slot(s, plan, seq, frame);
    uint32_t len = plan_frame_length(plan, frame);
    bool copied = len <= UNETMM_MAX_INLINE;
    unsigned flags = (more ? UNETMM_MORE : 0) | (copied ? UNETMM_UNSIGNALED : 0);
    int ret = unetmm_send(s->ep, s->peer.channel, s->tx + slot * s->stride,
                          len, TX_COOKIE | slot, flags);

    if (ret == -EAGAIN) {
        return false;
    }
    if (ret) {
        fail_call(ret, UNETMM_CALL_SEND, "cannot send");
    }
    s->outstanding[slot] += !copied;
    return true;
}

bool plan_identify(const struct plan *plan, const struct event *event,
                   uint32_t expected, uint32_t *seq, uint32_t *frame)
{
    unsigned bytes = event->len < 4 ? event->len : 4;
    unsigned unused = 32 - 8 * bytes;
    uint32_t low;

    if (!bytes) {
        return false;
    }
    low = (uint32_t)get_number(event->bytes, bytes);
    /* The nearest number with these low bits */
    *seq = expected + (uint32_t)((int32_t)((low - expected) << unused) >>
                                 unused);
    *frame = event->len < HEADER_BYTES ? 0 :
        (uint32_t)get_number(event->bytes + 4, 4);
    return *seq - plan->first < plan->warmup + plan->count &&
        *frame < plan->nframes &&
        event->len == plan_frame_length(plan, *frame);
}

bool plan_verify(const struct plan *plan, const struct event *event,
                 bool reply, uint32_t seq, uint32_t frame)
{
    uint8_t header[HEADER_BYTES];
    uint32_t len = event->len;

    if (!plan->verify) {
        return true;
    }
    make_header(header, seq, frame);
    if (memcmp(event->bytes, header,
               len < HEADER_BYTES ? len : HEADER_BYTES)) {
        return false;
    }
    return len <= HEADER_BYTES ||
        pattern_check(event->bytes + HEADER_BYTES, len - HEADER_BYTES,
                      frame_key(plan, reply, seq),
                      plan_frame_position(plan, frame) + HEADER_BYTES) ==
        len - HEADER_BYTES;
}
