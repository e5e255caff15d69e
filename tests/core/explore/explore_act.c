/*
 * unetmm: exhaustive exploration of small states: the world and its actions
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "explore.h"

/* "a" and "b" are the endpoints, 0 and 1 the oldest unanswered misses. */
const char *const explore_actions[] = {
    "sa", "sb",         /* send from a to b, from b to a; doorbell */
    "pa", "pb",         /* post a buffer; doorbell */
    "fa", "fb",         /* a frame comes from the wire */
    "ia", "ib",         /* one that is on one page even of a wide buffer */
    "qa", "qb",         /* take all completions */
    "ca", "cb",         /* close the endpoint */
    "oa", "ob",         /* open it again */
    "ga", "gb",         /* the driver gives a page that nobody uses */
    "ha", "hb",         /* the driver gives the receive page unasked */
    "va", "vb",         /* the driver invalidates a receive page */
    "wa", "wb",         /* the driver invalidates the send pages */
    "k",                /* the driver reads the fault ring */
    "r0", "r1",         /* answer: resident */
    "d0", "d1",         /* answer: deferred */
    "e0", "e1",         /* answer: error */
    "y0", "y1",         /* answer: ask again */
    "t",                /* the page that is moving has moved */
};

const unsigned explore_actions_n = G_N_ELEMENTS(explore_actions);

static const XLeft all_left = {
    .send = { 2, 2 }, .post = { 2, 2 }, .frame = { 2, 2 },
    .close = 1, .open = 1, .give = 2, .invalidate = 2, .defer = 2,
    .error = 1, .retry = 1,
};

static World *the_world;        /* for the callback below */

int explore_action(const char *name, size_t len)
{
    for (unsigned i = 0; i < explore_actions_n; i++) {
        if (strlen(explore_actions[i]) == len &&
            !memcmp(explore_actions[i], name, len)) {
            return i;
        }
    }
    return -1;
}

/* ---- Where things lie ---- */

uint32_t world_send_len(const Scene *s)
{
    return s->wide_sends ? 300 : 100;
}

uint32_t world_buffer_len(const Scene *s)
{
    return s->wide_buffers ? 400 : 320;
}

/* In one space the pages of b follow those of a, unless all share one. */
static uint64_t world_page(const XEp *x, unsigned page)
{
    unsigned first = x->ep.id == 2 && x->ep.space->id == 1 ? X_PAGES : 0;

    return FIX_VA + (uint64_t)(first + page) * FAKE_PAGE;
}

uint64_t world_send_addr(const XEp *x, unsigned slot)
{
    const World *w = the_world;

    if (w->scene->wide_sends) {
        return world_page(x, 2 * slot + 1) - 150;
    }
    return FIX_VA + 64 + (x->ep.id * 2 + slot) * 512;
}

uint64_t world_buffer_addr(const XEp *x, unsigned slot)
{
    const World *w = the_world;

    if (w->scene->wide_buffers) {
        return world_page(x, X_RECV_PAGE + 2 * slot + 1) - 50;
    }
    return FIX_VA + X_RECV_PAGE * FAKE_PAGE + 32 + (x->ep.id * 2 + slot) * 512;
}

/* ---- Making one ---- */

/* Stands before the core's own: nothing that is in use may leave. */
static bool world_evict(void *opaque, const UnetmmTlbEntry *entry)
{
    must(!entry->busy && !entry->in_dma,
         "a busy entry is evicted: space %u page %" PRIx64, entry->space,
         entry->vpn);
    return the_world->evict(opaque, entry);
}

static void world_params(const Scene *s, UnetmmParams *p)
{
    fake_params(p);
    p->endpoints = 1 + X_EPS;
    p->spaces = 1 + X_EPS;
    p->channels = 3;
    p->tlb_sets = s->sets;
    p->tlb_ways = s->ways;
    p->tlb_victims = s->victims;
    p->pretranslate = 2;
    p->local_queue = 2;
    p->dma_page_ns = X_PAGE_NS;
}

static void world_connect(World *w, XEp *x)
{
    XEp *peer = x == &w->x[0] ? &w->x[1] : &w->x[0];

    fake_channel(&x->ep, FIX_LOCAL, w->h.core.params.mac, peer->ep.id,
                 FIX_LOCAL, FIX_MTU);
    fake_connect_peer(&x->ep, FIX_WIRE, 10 + x->ep.id, FIX_MTU);
}

static void world_open(World *w, unsigned i)
{
    XEp *x = &w->x[i];
    FakeEp *ep = &x->ep;

    if (x->opened) {
        memset(fake_ptr(&w->h, ep->index, 128), 0, 128);
        memset(fake_ptr(&w->h, ep->cq, 64u << ep->cq_log2), 0,
               64u << ep->cq_log2);
        ep->sq_prod = ep->fq_prod = ep->cq_cons = 0;
    }
    x->sent = x->completed = x->posted = x->returned = x->received = 0;
    fake_ep_create(ep);
    x->open = true;
    x->opened++;
    world_connect(w, x);
}

static void world_start(World *w)
{
    const Scene *s = w->scene;
    unsigned pages = s->one_space ? 2 * X_PAGES : X_PAGES;

    the_world = w;
    fake_driver_init(&w->d, &w->h);
    w->d.ring[UNETMM_RING_FAULT].log2 = s->fault_log2;
    fake_driver_start(&w->d);
    w->evict = w->h.core.source->tlb.evict;
    w->h.core.source->tlb.evict = world_evict;
    w->left = all_left;
    for (unsigned i = 0; i < X_EPS; i++) {
        uint16_t id = s->one_space ? 1 : 1 + i;

        if (!w->d.spaces[id]) {
            fake_space(&w->d, id, UNETMM_SOURCE_TLB, 0);
            fake_map(w->d.spaces[id], FIX_VA, pages * FAKE_PAGE, FAKE_RW);
        }
        memset(&w->x[i], 0, sizeof(w->x[i]));
        fake_ep_init(&w->x[i].ep, &w->d, 1 + i, w->d.spaces[id]);
        w->x[i].ep.sq_log2 = w->x[i].ep.fq_log2 = 2;
        w->x[i].ep.cq_log2 = s->cq_log2;
        w->x[i].ep.policy = s->policy;
        world_open(w, i);
    }
    /* The first could not name the second's endpoint before it was there. */
    world_connect(w, &w->x[0]);
}

static void world_play_start(World *w)
{
    const char *at = w->scene->start;

    while (*at) {
        size_t len = strcspn(at, ",");
        int action = explore_action(at, len);

        must(action >= 0 && world_may(w, action),
             "the scene's own start is impossible");
        world_do(w, action);
        at += len + (at[len] == ',');
    }
}

void world_make(World *w, const Scene *scene)
{
    UnetmmParams p;

    memset(w, 0, sizeof(*w));
    w->scene = scene;
    w->faults = g_array_new(false, false, sizeof(XFault));
    world_params(scene, &p);
    fake_host_init(&w->h, &p);
    world_start(w);
    world_play_start(w);
}

void world_again(World *w)
{
    UnetmmParams p;

    fake_driver_free(&w->d);
    world_params(w->scene, &p);
    fake_host_again(&w->h, &p);
    g_array_set_size(w->faults, 0);
    memset(w->message, 0, sizeof(w->message));
    w->messages = w->offered = w->deferred = w->errors = 0;
    w->inv_pending = false;
    world_start(w);
    world_play_start(w);
}

void world_free(World *w)
{
    fake_driver_free(&w->d);
    fake_host_free(&w->h);
    g_array_unref(w->faults);
}

/* ---- Processes ---- */

/* Message numbers are the first four bytes, so that a reader knows which. */
static void act_send(World *w, unsigned i)
{
    XEp *x = &w->x[i];
    uint64_t at = world_send_addr(x, x->slots_sent % 2);
    uint32_t len = world_send_len(w->scene);
    uint32_t m = w->messages++;

    w->message[m] = (XMessage) { .len = len, .to = !i };
    fake_fill(x->ep.space, at, len, m);
    fake_store(x->ep.space, at, &m, sizeof(m));
    fake_send_at(&x->ep, FIX_LOCAL, at, len, x->sent);
    x->slots_sent++;
    x->sent++;
    fake_ring_bell(&x->ep);
}

static void act_post(World *w, unsigned i)
{
    XEp *x = &w->x[i];
    uint64_t at = world_buffer_addr(x, x->slots_posted % 2);
    uint8_t zero[512] = { 0 };

    fake_store(x->ep.space, at, zero, world_buffer_len(w->scene));
    fake_post(&x->ep, at, world_buffer_len(w->scene), x->posted);
    x->slots_posted++;
    x->posted++;
    fake_ring_bell(&x->ep);
}

static void act_frame(World *w, unsigned i, uint32_t len)
{
    XEp *x = &w->x[i];
    uint32_t m = w->messages++;
    FakeFrame *f = fake_datagram(&x->ep, FIX_WIRE, 10 + x->ep.id, len, m);

    w->message[m] = (XMessage) { .len = len, .to = i };
    memcpy(f->data + sizeof(struct unetmm_frame), &m, sizeof(m));
    w->offered++;
    must(fake_receive(&w->h, f), "a frame is not taken");
    g_free(f);
}

static void act_poll(World *w, unsigned i)
{
    XEp *x = &w->x[i];
    struct unetmm_cqe cqe;

    while (fake_poll(&x->ep, &cqe)) {
        check_completion(w, x, &cqe);
    }
    if (fake_card(&x->ep).state & UNETMM_EP_CQ_BLOCKED) {
        fake_ring_bell(&x->ep);
    }
}

static void act_close(World *w, unsigned i)
{
    struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_EP_DESTROY, .ep = w->x[i].ep.id,
    };

    w->x[i].closing = true;
    fake_issue(&w->d, cmd);
}

/* ---- The driver ---- */

static void drop_pins(World *w, FakeSpace *s, uint64_t first, uint64_t last)
{
    GHashTableIter iter;
    FakeVpage *page = NULL;

    g_hash_table_iter_init(&iter, s->pages);
    while (g_hash_table_iter_next(&iter, NULL, (void **)&page)) {
        if (page->vpn >= first && page->vpn <= last) {
            page->pins = 0;
            fake_rights(&w->h, page->dma, FAKE_PAGE, 0);
        }
    }
}

/* Of a buffer across two pages the second goes, while the first may move. */
static void act_invalidate(World *w, unsigned i, char what)
{
    const XEp *x = &w->x[i];
    unsigned page = what == 'w' ? 0 : X_RECV_PAGE + w->scene->wide_buffers;
    uint64_t bytes = (what == 'w' ? X_RECV_PAGE : 1) * FAKE_PAGE;
    uint64_t at = world_page(x, page);

    /* Narrow slots are all in the pages of the first. */
    if (!world_wide(w)) {
        at = FIX_VA + page * FAKE_PAGE;
    }
    w->inv_space = x->ep.space;
    w->inv_first = at >> 12;
    w->inv_last = (at + bytes - 1) >> 12;
    w->inv_pending = fake_invalidate(x->ep.space, at, bytes);
}

bool world_wide(const World *w)
{
    return w->scene->wide_sends || w->scene->wide_buffers;
}

static void act_read_faults(World *w)
{
    struct unetmm_fault f;

    while (fake_fault(&w->d, &f)) {
        if (f.type == UNETMM_FAULT_MISS) {
            XFault fault = { .f = f };

            check_new_fault(w, &f);
            g_array_append_val(w->faults, fault);
        }
    }
}

bool world_stale(World *w, const XFault *fault)
{
    uint32_t number = fault->f.fault_id & 0xffff;
    const UnetmmMiss *miss = &w->h.core.miss->all[number];

    return miss->generation != fault->f.fault_id >> 16 ||
           (miss->state != UNETMM_MISS_ASKED &&
            miss->state != UNETMM_MISS_DEFERRED);
}

/* One answer; the card must say that it waited for just that one. */
static void act_answer(World *w, char how, unsigned n)
{
    XFault fault = g_array_index(w->faults, XFault, n);
    bool stale = world_stale(w, &fault);
    uint8_t status = UNETMM_CS_BAD_ARG;

    switch (how) {
    case 'r':
        status = fake_resolve(&w->d, &fault.f, fault.f.npages, NULL);
        break;
    case 'd':
        status = fake_reply(&w->d, &fault.f, UNETMM_REPLY_DEFERRED, 0);
        w->deferred++;
        break;
    case 'e':
        status = fake_reply(&w->d, &fault.f, UNETMM_REPLY_ERROR,
                            UNETMM_ST_LIMIT);
        w->errors++;
        break;
    case 'y':
        status = fake_reply(&w->d, &fault.f, UNETMM_REPLY_RETRY, 0);
        break;
    }
    must(status == (stale ? UNETMM_CS_STALE : UNETMM_CS_OK) ||
         (!stale && how == 'r' && status == UNETMM_CS_PARTIAL),
         "answer %c to fault %x: status %u, stale %d", how, fault.f.fault_id,
         status, stale);
    if (how == 'd' && !stale) {
        g_array_index(w->faults, XFault, n).deferred = true;
        return;
    }
    /* Told to ask again, or without room, it does so under the same name. */
    must(how == 'y' || status == UNETMM_CS_PARTIAL || world_stale(w, &fault),
         "fault %x is still open after answer %c", fault.f.fault_id, how);
    g_array_remove_index(w->faults, n);
}

static void act_give(World *w, unsigned i, unsigned page)
{
    uint8_t status = fake_insert(w->x[i].ep.space,
                                 world_page(&w->x[i], page), 1, NULL);

    must(status == UNETMM_CS_OK || status == UNETMM_CS_PARTIAL,
         "gift refused with %u", status);
}

/* ---- After each action ---- */

static void closed(World *w, XEp *x)
{
    must(x->closing, "an endpoint is closed that nobody closed");
    x->closing = x->open = false;
    for (unsigned i = 0; i < X_EPS; i++) {
        if (w->x[i].open && w->x[i].ep.space == x->ep.space) {
            return;
        }
    }
    drop_pins(w, x->ep.space, 0, UINT64_MAX);
}

/* Takes the card's records since. */
static void world_listen(World *w)
{
    struct unetmm_cmd_done done;

    fake_run_later(&w->h);
    while (fake_done(&w->d, &done)) {
        must(done.opcode == UNETMM_CMD_EP_DESTROY &&
             done.status == UNETMM_CS_OK, "unexpected command completion");
        for (unsigned i = 0; i < X_EPS; i++) {
            if (w->x[i].closing) {
                closed(w, &w->x[i]);
                break;
            }
        }
    }
    if (w->inv_pending && !fake_reg(&w->h, UNETMM_REG_INV_CTRL)) {
        w->inv_pending = false;
        drop_pins(w, w->inv_space, w->inv_first, w->inv_last);
    }
    check_world(w);
}

static bool may_for_ep(World *w, char what, unsigned i)
{
    const XEp *x = &w->x[i];
    bool live = x->open && !x->closing;

    switch (what) {
    case 's':
        return live && w->left.send[i];
    case 'p':
        return live && w->left.post[i];
    case 'f':
    case 'i':
        return w->left.frame[i] &&
               unetmm_core_can_receive(&w->h.core);
    case 'q':
        return live && w->h.core.eps[x->ep.id].cq_prod != x->ep.cq_cons;
    case 'c':
        /* The model tells one close from another by there being one. */
        return live && w->left.close && !w->x[!i].closing;
    case 'o':
        return !x->open && w->left.open;
    case 'g':
    case 'h':
        return x->open && w->left.give && !w->inv_pending;
    default:
        return x->open && w->left.invalidate && !w->inv_pending;
    }
}

static bool may_answer(World *w, char what, unsigned n)
{
    const XFault *fault;

    /* The driver's lock: it does not answer while it invalidates. */
    if (w->inv_pending || n >= w->faults->len) {
        return false;
    }
    fault = &g_array_index(w->faults, XFault, n);
    return what == 'r' ||
           (what == 'd' && w->left.defer && !fault->deferred) ||
           (what == 'e' && w->left.error) || (what == 'y' && w->left.retry);
}

bool world_may(World *w, unsigned action)
{
    const char *name = explore_actions[action];
    const FakeRing *ring = &w->d.ring[UNETMM_RING_FAULT];

    switch (name[0]) {
    case 't':
        return w->h.timer != INT64_MAX;
    case 'k':
        return w->h.core.ring->all[UNETMM_RING_FAULT].prod != ring->index;
    case 'r': case 'd': case 'e': case 'y':
        return may_answer(w, name[0], name[1] - '0');
    default:
        return may_for_ep(w, name[0], name[1] - 'a');
    }
}

static void do_for_ep(World *w, char what, unsigned i)
{
    switch (what) {
    case 's':
        w->left.send[i]--;
        act_send(w, i);
        break;
    case 'p':
        w->left.post[i]--;
        act_post(w, i);
        break;
    case 'f':
    case 'i':
        w->left.frame[i]--;
        act_frame(w, i, what == 'f' ? world_send_len(w->scene) : X_SHORT);
        break;
    case 'q':
        act_poll(w, i);
        break;
    case 'c':
        w->left.close--;
        act_close(w, i);
        break;
    case 'o':
        w->left.open--;
        world_open(w, i);
        break;
    case 'g':
    case 'h':
        w->left.give--;
        act_give(w, i, what == 'g' ? X_GIFT_PAGE : X_RECV_PAGE);
        break;
    default:
        w->left.invalidate--;
        act_invalidate(w, i, what);
        break;
    }
}

void world_do(World *w, unsigned action)
{
    const char *name = explore_actions[action];

    switch (name[0]) {
    case 't':
        fake_advance(&w->h, w->h.timer - w->h.now);
        break;
    case 'k':
        act_read_faults(w);
        break;
    case 'r': case 'd': case 'e': case 'y':
        w->left.defer -= name[0] == 'd';
        w->left.error -= name[0] == 'e';
        w->left.retry -= name[0] == 'y';
        act_answer(w, name[0], name[1] - '0');
        break;
    default:
        do_for_ep(w, name[0], name[1] - 'a');
        break;
    }
    world_listen(w);
}

/* ---- The end ---- */

static void settle_step(World *w)
{
    if (w->h.timer != INT64_MAX) {
        fake_advance(&w->h, w->h.timer - w->h.now);
        world_listen(w);
    }
    act_read_faults(w);
    world_listen(w);
    while (w->faults->len && !w->inv_pending) {
        act_answer(w, 'r', 0);
        world_listen(w);
    }
    for (unsigned i = 0; i < X_EPS; i++) {
        if (w->x[i].open && !w->x[i].closing) {
            act_poll(w, i);
            world_listen(w);
        }
    }
}

/* No doorbell but where the card asks for one: a lost wake-up shows. */
void world_settle(World *w)
{
    unsigned quiet = 0;

    for (unsigned round = 0; quiet < 2; round++) {
        uint64_t before = w->h.writes + w->h.timer_runs;

        must(round < 200, "the card does not come to rest");
        settle_step(w);
        quiet = w->h.writes + w->h.timer_runs == before ? quiet + 1 : 0;
    }
    check_settled(w);
}
