/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The home of a semaphore or a wait-queue.
 *
 * Members change the words of the home by atomics and writes, so a free unit costs a
 * member one round trip and the home nothing.  The home serves waiting members: the home
 * moves `limit` on, past tickets of no member, and tells the members whose tickets `limit`
 * has passed.  When a member goes, the home takes back the member's units and ticket.  A
 * member may go after it has announced a ticket and before it has named the ticket.  The
 * home finds that ticket when no other member is between these two steps: the ticket was
 * taken and no member has it.
 */
#include "sync.h"
#include "../sys/signals.h"
#include "../sys/refusals.h"

#include <signal.h>
#include <stddef.h>

#define MOST_TAKEN      64              /* completions between two looks at members */
#define AGAIN_NS        1000000         /* between two looks for lost tickets, or for room */
#define HELLO_ANSWER    1               /* user_data of the answer to a hello */

struct member {
    bool live;
    int channel, import;
    uint64_t op;                /* the last wait that has a ticket */
    unsigned state;             /* SYNC_* */
    uint64_t ticket;
    uint64_t gave_up;           /* waits that the member has given up */
    uint64_t given;             /* units or wake-ups of the record that the home has handled */
    uint64_t acked;             /* the last wait given up whose ticket the home has taken back */
    uint64_t told;              /* the last wait that was told of its turn */
    bool owes_answer;           /* the member does not know `acked` yet */
    bool probed;                /* the write that probes the channel has not completed */
};

/*
 * The sender of a channel's last hello.  One answer at a time is on its way to each channel, so
 * that a peer that takes no answers leaves the send queue to the others.
 */
struct asker {
    uint64_t to;                /* the export, as the hello has it */
    int slot;                   /* of the record, or -errno */
    bool owed;                  /* the answer is still to be sent */
    bool sending;               /* the answer before it has not completed */
};

struct unetmm_sync_home {
    struct sync_side side;
    struct sync_words *words;   /* side.words */
    unsigned kind;              /* SYNC_* */
    atomic_bool stop;
    pthread_t thread;
    int error;                  /* of the thread's end, or 0 */
    uint64_t limit;
    uint64_t departed_tickets;  /* named by members that have gone */
    unsigned lost;              /* members that have gone and may have taken one more ticket */
    struct run {
        uint64_t first, end;
    } orphans[SYNC_RUNS];       /* tickets without an owner, from `limit` on */
    unsigned norphans;
    struct asker *askers;       /* by channel */
    bool no_room;               /* an answer to a hello waits for room in the send queue */
    struct member members[UNETMM_SYNC_MEMBERS];
};

static uint64_t load_word(const uint64_t *word)
{
    return unetmm_swap64(__atomic_load_n(word, __ATOMIC_SEQ_CST));
}

static void show_limit(struct unetmm_sync_home *h)
{
    __atomic_store_n(&h->words->limit, unetmm_swap64(h->limit),
                     __ATOMIC_SEQ_CST);
}

/* ---- Tickets ----------------------------------------------------------- */

/* Tickets without an owner do not hold others up. */
static void pass_orphans(struct unetmm_sync_home *h)
{
    unsigned i = 0;

    while (i < h->norphans) {
        if (h->orphans[i].first <= h->limit) {
            h->limit += h->orphans[i].end - h->orphans[i].first;
            h->orphans[i] = h->orphans[--h->norphans];
            i = 0;
        } else {
            i++;
        }
    }
}

/* Not one ticket at a time: a hostile member chooses the number. */
static void advance_limit(struct unetmm_sync_home *h, uint64_t tickets)
{
    h->limit += tickets;
    pass_orphans(h);
    show_limit(h);
}

/* Units are free; a wake-up is for the next waiting member, if there is one. */
static void give_units(struct unetmm_sync_home *h, uint64_t units)
{
    if (units && (h->kind != SYNC_QUEUE || h->limit < load_word(&h->words->tail))) {
        advance_limit(h, units);
    }
}

static bool is_orphan(const struct unetmm_sync_home *h, uint64_t ticket)
{
    unsigned i;

    for (i = 0; i < h->norphans; i++) {
        if (ticket >= h->orphans[i].first && ticket < h->orphans[i].end) {
            return true;
        }
    }
    return false;
}

/* Adds a ticket to the runs, beside which there may be one or two.  False: there is no room. */
static bool add_orphan(struct unetmm_sync_home *h, uint64_t ticket)
{
    struct run *before = NULL, *behind = NULL;
    unsigned i;

    for (i = 0; i < h->norphans; i++) {
        before = h->orphans[i].end == ticket ? &h->orphans[i] : before;
        behind = h->orphans[i].first == ticket + 1 ? &h->orphans[i] : behind;
    }
    if (before && behind) {
        before->end = behind->end;
        *behind = h->orphans[--h->norphans];
    } else if (before) {
        before->end++;
    } else if (behind) {
        behind->first--;
    } else if (h->norphans < SYNC_RUNS) {
        h->orphans[h->norphans++] = (struct run) { ticket, ticket + 1 };
    } else {
        return false;
    }
    return true;
}

/* The ticket has lost its owner.  False: there is no room to remember the ticket. */
static bool orphan_ticket(struct unetmm_sync_home *h, uint64_t ticket)
{
    if (ticket < h->limit) {
        give_units(h, 1);
        return true;
    }
    if (!is_orphan(h, ticket) && !add_orphan(h, ticket)) {
        return false;
    }
    pass_orphans(h);
    show_limit(h);
    return true;
}

/* ---- Members ----------------------------------------------------------- */

static struct sync_record *record_of(struct unetmm_sync_home *h,
                                     const struct member *m)
{
    return &h->words->records[m - h->members];
}

/* Units that the member holds: waits that neither failed nor still go on. */
static uint64_t held(const struct member *m)
{
    uint64_t ended = m->gave_up + m->given + (m->state == SYNC_WAITING ||
        (m->state == SYNC_GAVE_UP && m->acked != m->op));

    return m->op > ended ? m->op - ended : 0;
}

static void read_status(struct unetmm_sync_home *h, struct member *m)
{
    uint64_t status = load_word(&record_of(h, m)->status);

    m->op += ((status >> 2) - m->op) & SYNC_OPS;
    m->state = status & 3;
    m->ticket = status >> 22;
    if (m->state == SYNC_GAVE_UP && m->acked != m->op &&
        orphan_ticket(h, m->ticket)) {
        m->acked = m->op;
        m->gave_up++;
        m->owes_answer = true;
    }
}

/*
 * Given back: no more than it has, the rest when the rest can be seen.  Of a light
 * semaphore these are the units that members wait for, one each at most.
 */
static void read_units(struct unetmm_sync_home *h, struct member *m)
{
    uint64_t more = load_word(&record_of(h, m)->given) - m->given;
    uint64_t most = h->kind == SYNC_LIGHT ? UNETMM_SYNC_MEMBERS : held(m);

    more = more < most ? more : most;
    m->given += more;
    give_units(h, more);
}

/* The number of tickets from `limit` on, before `end`, that have an owner: at least 1. */
static uint64_t owned_run(const struct unetmm_sync_home *h, uint64_t end)
{
    unsigned i;

    for (i = 0; i < h->norphans; i++) {
        end = h->orphans[i].first < end ? h->orphans[i].first : end;
    }
    return end - h->limit;
}

/* Wakes members that were waiting when the wake-up was asked for. */
static void read_wakes(struct unetmm_sync_home *h, struct member *m)
{
    uint64_t word = load_word(&record_of(h, m)->wakes);
    uint64_t more = (word - m->given) & SYNC_WAKES, end = word >> 24;
    uint64_t tail = load_word(&h->words->tail);

    end = end < tail ? end : tail;
    m->given = word & SYNC_WAKES;
    while (more && h->limit < end) {
        uint64_t step = owned_run(h, end);

        step = more < step ? more : step;
        advance_limit(h, step);
        more -= step;
    }
}

static void read_member(struct unetmm_sync_home *h, struct member *m)
{
    read_status(h, m);
    if (h->kind != SYNC_QUEUE) {
        read_units(h, m);
    } else {
        read_wakes(h, m);
    }
}

/* Tells the member the limit, and the writes that it may forget. */
static void answer_member(struct unetmm_sync_home *h, struct member *m)
{
    bool turn = m->state == SYNC_WAITING && m->ticket < h->limit &&
        m->told != m->op;
    const uint64_t words[2] = { unetmm_swap64(h->limit),
                                unetmm_swap64(m->acked) };

    if ((turn || m->owes_answer) &&
        !unetmm_write(h->side.ep, m->import, offsetof(struct sync_answer, limit),
                      words, sizeof(words), 0, 0, UNETMM_UNSIGNALED |
                      UNETMM_INLINE | UNETMM_COUNT)) {
        m->owes_answer = false;
        if (turn) {
            m->told = m->op;
        }
    }
}

static void remove_member(struct unetmm_sync_home *h, struct member *m)
{
    bool recorded = true;

    read_member(h, m);
    m->live = false;
    give_units(h, h->kind == SYNC_SEMAPHORE ? held(m) : 0);
    if (m->state == SYNC_WAITING ||
        (m->state == SYNC_GAVE_UP && m->acked != m->op)) {
        recorded = orphan_ticket(h, m->ticket);
    }
    /* find_lost() finds the other ticket when there is room. */
    h->departed_tickets += m->op - !recorded;
    h->lost += (load_word(&record_of(h, m)->taking) != m->op) + !recorded;
    memset(record_of(h, m), 0, sizeof(struct sync_record));
    memset(m, 0, sizeof(*m));
}

/* ---- Lost tickets ------------------------------------------------------ */

/* Counts the tickets that members have named; false: a member is taking a ticket now. */
static bool count_named_tickets(struct unetmm_sync_home *h, uint64_t *known)
{
    unsigned i;

    *known = h->departed_tickets;
    for (i = 0; i < UNETMM_SYNC_MEMBERS; i++) {
        struct member *m = &h->members[i];

        if (m->live) {
            read_status(h, m);
            if (load_word(&record_of(h, m)->taking) != m->op) {
                return false;
            }
            *known += m->op;
        }
    }
    return true;
}

static bool waiter_has_ticket(const struct unetmm_sync_home *h, uint64_t ticket)
{
    unsigned i;

    for (i = 0; i < UNETMM_SYNC_MEMBERS; i++) {
        const struct member *m = &h->members[i];

        if (m->live && m->state == SYNC_WAITING && m->ticket == ticket) {
            return true;
        }
    }
    return false;
}

/*
 * Takes back the tickets whose owners have gone before they named them.  A ticket below
 * `limit` has given its owner a unit; another ticket is a place in the queue.
 */
static void find_lost(struct unetmm_sync_home *h)
{
    uint64_t tail = load_word(&h->words->tail), known, ticket, lost;

    if (!h->lost || !count_named_tickets(h, &known) || load_word(&h->words->tail) != tail) {
        return;
    }
    lost = tail - known < h->lost ? tail - known : h->lost;
    h->departed_tickets += lost;
    h->lost = 0;
    for (ticket = h->limit; lost && ticket < tail; ticket++) {
        if (ticket >= h->limit && !is_orphan(h, ticket) &&
            !waiter_has_ticket(h, ticket)) {
            if (!orphan_ticket(h, ticket)) {
                h->departed_tickets -= lost;
                h->lost = (unsigned)lost;
                return;
            }
            lost--;
        }
    }
    while (lost--) {
        give_units(h, 1);
    }
}

/* ---- Coming and going -------------------------------------------------- */

static struct member *member_of(struct unetmm_sync_home *h, int channel)
{
    unsigned i;

    for (i = 0; i < UNETMM_SYNC_MEMBERS; i++) {
        if (h->members[i].live && h->members[i].channel == channel) {
            return &h->members[i];
        }
    }
    return NULL;
}

static void accept_all(struct unetmm_sync_home *h)
{
    while (unetmm_accept(h->side.ep, NULL, 0) >= 0) {
    }
}

static int add_member(struct unetmm_sync_home *h, int channel,
                      uint64_t export)
{
    struct member *m = h->members;
    int ret;

    while (m < h->members + UNETMM_SYNC_MEMBERS && m->live) {
        m++;
    }
    if (m == h->members + UNETMM_SYNC_MEMBERS) {
        return -ENOSPC;
    }
    if (member_of(h, channel)) {
        return -EEXIST;
    }
    /* A member exports its record before it asks; without an export the member has gone. */
    ret = unetmm_import(h->side.ep, channel, export, UNETMM_RIGHT_WRITE, 0, NULL);
    if (ret < 0) {
        return ret;
    }
    *m = (struct member) { .live = true, .channel = channel,
                           .import = ret };
    return (int)(m - h->members);
}

static void answer_asker(struct unetmm_sync_home *h, unsigned channel)
{
    struct asker *a = &h->askers[channel];
    struct sync_hello hello = {
        .magic = unetmm_swap64(SYNC_MAGIC),
        .export = unetmm_swap64(h->side.export),
        .to = a->to,
        .slot = unetmm_swap32(a->slot < 0 ? 0 : (uint32_t)a->slot),
        .error = a->slot < 0 ? (int32_t)unetmm_swap32((uint32_t)a->slot) : 0,
        .kind = unetmm_swap64(h->kind),
    };
    int ret;

    if (a->owed && !a->sending) {
        ret = unetmm_send(h->side.ep, (int)channel, &hello, sizeof(hello), HELLO_ANSWER,
                          UNETMM_INLINE);
        a->sending = !ret;
        a->owed = ret == -EAGAIN;
        h->no_room = h->no_room || a->owed;
    }
}

/* The answers that found no room */
static void answer_askers(struct unetmm_sync_home *h)
{
    unsigned i;

    if (h->no_room) {
        h->no_room = false;
        for (i = 0; i < h->side.ep->channels; i++) {
            answer_asker(h, i);
        }
    }
}

static void take_hello(struct unetmm_sync_home *h, const struct unetmm_completion *c)
{
    struct sync_hello hello = { 0 };
    int slot = -EPROTO;

    /* A member that is refused learns so on its channel, too. */
    if (unetmm_channel_mtu(h->side.ep, c->channel) < 0) {
        accept_all(h);
    }
    if (c->is_inline && c->len == sizeof(hello)) {
        memcpy(&hello, c->data, sizeof(hello));
        if (unetmm_swap64(hello.magic) == SYNC_MAGIC) {
            slot = add_member(h, c->channel, unetmm_swap64(hello.export));
        }
    }
    /* The answer to an earlier hello that still waits is given up: its asker has gone, or floods. */
    h->askers[c->channel].to = hello.export;
    h->askers[c->channel].slot = slot;
    h->askers[c->channel].owed = true;
    answer_asker(h, c->channel);
}

/* The answer to a hello has reached the asker's card, or its channel has ended. */
static void answer_ended(struct unetmm_sync_home *h, unsigned channel)
{
    h->askers[channel].sending = false;
    answer_asker(h, channel);
}

static void member_ended(struct unetmm_sync_home *h, int channel)
{
    struct member *m = member_of(h, channel);

    if (m) {
        int import = m->import;

        remove_member(h, m);
        unetmm_unimport(h->side.ep, import);
    }
    h->askers[channel] = (struct asker) { 0 };
    if (unetmm_channel_mtu(h->side.ep, channel) < 0) {
        accept_all(h);
    }
    unetmm_disconnect(h->side.ep, channel);
}

static void handle_completion(struct unetmm_sync_home *h, const struct unetmm_completion *c)
{
    struct member *m;

    if (c->channel >= h->side.ep->channels) {
        return;
    }
    if (c->type == UNETMM_CQE_RECEIVED) {
        take_hello(h, c);
    } else if (c->type == UNETMM_CQE_CLOSED) {
        member_ended(h, c->channel);
    } else if (c->type == UNETMM_CQE_SENT && c->user_data == HELLO_ANSWER) {
        answer_ended(h, c->channel);
    } else if (c->type == UNETMM_CQE_SENT && (m = member_of(h, c->channel))) {
        m->probed = false;
    }
    /* A failed write belongs to a channel that ends, which is notified. */
}

/* ---- The thread -------------------------------------------------------- */

/* 0, or -errno: the card has stopped the endpoint. */
static int serve_members(struct unetmm_sync_home *h)
{
    struct unetmm_completion c;
    unsigned i;
    int ret;

    /* A member that sends without end does not keep the others waiting. */
    for (i = 0, ret = 1; i < MOST_TAKEN && ret > 0; i++) {
        ret = unetmm_poll(h->side.ep, &c, 1);
        if (ret > 0) {
            handle_completion(h, &c);
        }
    }
    for (i = 0; i < UNETMM_SYNC_MEMBERS; i++) {
        if (h->members[i].live) {
            read_member(h, &h->members[i]);
        }
    }
    find_lost(h);
    answer_askers(h);
    for (i = 0; i < UNETMM_SYNC_MEMBERS; i++) {
        if (h->members[i].live) {
            answer_member(h, &h->members[i]);
        }
    }
    return ret < 0 ? ret : 0;
}

/*
 * Members that hold units, or that we tell nothing, may have gone in silence.  A member that
 * takes no answer fills no queue: it has one question at a time.
 */
static void probe_members(struct unetmm_sync_home *h)
{
    const uint64_t word = 0;
    unsigned i;

    for (i = 0; i < UNETMM_SYNC_MEMBERS; i++) {
        struct member *m = &h->members[i];

        if (m->live && !m->probed) {
            m->probed = !unetmm_write(h->side.ep, m->import, offsetof(struct sync_answer, alive),
                                     &word, sizeof(word), 0, 0, UNETMM_INLINE);
        }
    }
}

static void *home_thread(void *argument)
{
    struct unetmm_sync_home *h = argument;
    uint64_t ask = sys_now_ns() + SYNC_ALIVE_NS;
    struct unetmm_completion c;
    int ret;

    for (;;) {
        unetmm_upcall_events(unetmm_ep_private(h->side.ep), UINT32_MAX);
        ret = serve_members(h);
        if (ret < 0 || atomic_load(&h->stop)) {
            break;
        }
        ret = unetmm_wait_any(h->side.ep, &c, 1, h->lost || h->no_room ?
                              AGAIN_NS : unetmm_time_until(ask), true);
        if (ret > 0) {
            handle_completion(h, &c);
        } else if (ret < 0 && ret != -EINTR) {
            break;
        }
        if (sys_now_ns() >= ask) {
            probe_members(h);
            ask = sys_now_ns() + SYNC_ALIVE_NS;
        }
    }
    h->error = ret;
    return NULL;
}

static int start_thread(struct unetmm_sync_home *h)
{
    sigset_t before;
    int ret;

    sys_block_signals(&before);
    ret = pthread_create(&h->thread, NULL, home_thread, h);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -ret;
}

/* ---- Making and ending ------------------------------------------------- */

static void free_home(struct unetmm_sync_home *h)
{
    free(h->askers);
    free(h);
}

static int open_home(struct unetmm_sync_home *h, uint64_t service, uint32_t units)
{
    const struct unetmm_channel_attr attr = {
        .size = sizeof(attr), .flags = UNETMM_RELIABLE | UNETMM_NOTIFY_CLOSE,
        .rnr_retries = UNETMM_REFUSALS,
    };
    size_t bytes = sizeof(*h->words) + sizeof(struct sync_record) * UNETMM_SYNC_MEMBERS +
        UNETMM_PAGE_BYTES - 1;
    int ret = unetmm_sync_side_open(&h->side, bytes - bytes % UNETMM_PAGE_BYTES, UNETMM_RIGHT_ALL);

    if (ret) {
        return ret;
    }
    h->words = h->side.words;
    /* Tickets of a light semaphore are served by those who give units back. */
    h->limit = h->kind == SYNC_LIGHT ? 0 : units;
    h->words->units = unetmm_swap64(units);
    show_limit(h);
    h->askers = sys_calloc(h->side.ep->channels, sizeof(*h->askers));
    ret = h->askers ? unetmm_listen_ex(h->side.ep, service, 16, &attr) : -ENOMEM;
    if (!ret) {
        ret = start_thread(h);
    }
    if (ret) {
        unetmm_sync_side_close(&h->side);
    }
    return ret;
}

static int make_home(struct unetmm_ctx *ctx, uint64_t service, unsigned kind,
                     uint32_t units, struct unetmm_sync_home **result)
{
    struct unetmm_sync_home *h;
    int ret = unetmm_ctx_check(ctx);

    if (ret) {
        return ret;
    }
    h = sys_calloc(1, sizeof(*h));
    if (!h) {
        return -ENOMEM;
    }
    h->side.ctx = ctx;
    h->kind = kind;
    ret = open_home(h, service, units);
    if (ret) {
        free_home(h);
        return ret;
    }
    *result = h;
    return 0;
}

int unetmm_sem_home(struct unetmm_ctx *ctx, uint64_t service, uint32_t units,
                    struct unetmm_sync_home **home)
{
    return make_home(ctx, service, SYNC_SEMAPHORE, units, home);
}

int unetmm_sem_home_light(struct unetmm_ctx *ctx, uint64_t service,
                          uint32_t units, struct unetmm_sync_home **home)
{
    return make_home(ctx, service, SYNC_LIGHT, units, home);
}

int unetmm_waitq_home(struct unetmm_ctx *ctx, uint64_t service,
                      struct unetmm_sync_home **home)
{
    return make_home(ctx, service, SYNC_QUEUE, 0, home);
}

int unetmm_sync_home_close(struct unetmm_sync_home *h)
{
    int ret = unetmm_ctx_check(h->side.ctx);

    if (ret) {
        free_home(h);
        return ret;
    }
    /* The thread looks at `stop` at least each time that it asks for its members. */
    atomic_store(&h->stop, true);
    sys_join(h->thread);
    ret = h->error;
    unetmm_sync_side_close(&h->side);
    free_home(h);
    return ret;
}
