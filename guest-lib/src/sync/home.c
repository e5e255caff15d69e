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

#include <sched.h>
#include <signal.h>
#include <stddef.h>

#define MOST_TAKEN      64              /* completions between two looks at members */
#define LOST_NS         1000000         /* between two looks for lost tickets */
#define ANSWER_NS       1000000000      /* to find room for it */

struct member {
    bool live;
    int channel, import;
    uint64_t op;                /* the last wait that has a ticket */
    unsigned state;             /* SYNC_* */
    uint64_t ticket;
    uint64_t gave_up;           /* waits that ended so */
    uint64_t given;             /* of its words: dealt with */
    uint64_t acked;             /* the last wait given up that was dealt with */
    uint64_t told;              /* the last wait that was told of its turn */
    bool owes_ack;
    bool asked;                 /* a question whether it is there has no answer yet */
};

struct unetmm_sync_home {
    struct sync_side side;
    struct sync_words *words;   /* side.words */
    unsigned kind;              /* SYNC_* */
    atomic_bool stop;
    pthread_t thread;
    int error;                  /* that ended the thread, or 0 */
    uint64_t limit;
    uint64_t gone_ops;          /* tickets of members that have gone */
    unsigned lost;              /* members that may have had one more */
    struct run {
        uint64_t first, end;
    } dead[SYNC_RUNS];          /* tickets that nobody has, from limit on */
    unsigned ndead;
    struct member members[UNETMM_SYNC_MEMBERS];
};

static uint64_t load(const uint64_t *word)
{
    return unetmm_swap64(__atomic_load_n(word, __ATOMIC_SEQ_CST));
}

static void show_limit(struct unetmm_sync_home *h)
{
    __atomic_store_n(&h->words->limit, unetmm_swap64(h->limit),
                     __ATOMIC_SEQ_CST);
}

/* ---- Tickets ----------------------------------------------------------- */

/* Tickets without a member do not hold others up. */
static void pass_dead(struct unetmm_sync_home *h)
{
    unsigned i = 0;

    while (i < h->ndead) {
        if (h->dead[i].first <= h->limit) {
            h->limit += h->dead[i].end - h->dead[i].first;
            h->dead[i] = h->dead[--h->ndead];
            i = 0;
        } else {
            i++;
        }
    }
}

/* In one step: a member that breaks the rules chooses the number. */
static void serve(struct unetmm_sync_home *h, uint64_t tickets)
{
    h->limit += tickets;
    pass_dead(h);
    show_limit(h);
}

/* Units are free; a wake-up is for the next waiting member, if there is one. */
static void hand_on(struct unetmm_sync_home *h, uint64_t units)
{
    if (units && (h->kind != SYNC_QUEUE || h->limit < load(&h->words->tail))) {
        serve(h, units);
    }
}

static bool is_dead(const struct unetmm_sync_home *h, uint64_t ticket)
{
    unsigned i;

    for (i = 0; i < h->ndead && (ticket < h->dead[i].first || ticket >= h->dead[i].end); i++) {
    }
    return i < h->ndead;
}

/* Adds a ticket to the runs, beside which there may be one or two.  False: there is no room. */
static bool add_dead(struct unetmm_sync_home *h, uint64_t ticket)
{
    struct run *before = NULL, *behind = NULL;
    unsigned i;

    for (i = 0; i < h->ndead; i++) {
        before = h->dead[i].end == ticket ? &h->dead[i] : before;
        behind = h->dead[i].first == ticket + 1 ? &h->dead[i] : behind;
    }
    if (before && behind) {
        before->end = behind->end;
        *behind = h->dead[--h->ndead];
    } else if (before) {
        before->end++;
    } else if (behind) {
        behind->first--;
    } else if (h->ndead < SYNC_RUNS) {
        h->dead[h->ndead++] = (struct run) { ticket, ticket + 1 };
    } else {
        return false;
    }
    return true;
}

/* The ticket has lost its owner.  False: there is no room to remember the ticket. */
static bool bury(struct unetmm_sync_home *h, uint64_t ticket)
{
    if (ticket < h->limit) {
        hand_on(h, 1);
        return true;
    }
    if (!is_dead(h, ticket) && !add_dead(h, ticket)) {
        return false;
    }
    pass_dead(h);
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

static void look_at_status(struct unetmm_sync_home *h, struct member *m)
{
    uint64_t status = load(&record_of(h, m)->status);

    m->op += ((status >> 2) - m->op) & SYNC_OPS;
    m->state = status & 3;
    m->ticket = status >> 22;
    if (m->state == SYNC_GAVE_UP && m->acked != m->op &&
        bury(h, m->ticket)) {
        m->acked = m->op;
        m->gave_up++;
        m->owes_ack = true;
    }
}

/*
 * Given back: no more than it has, the rest when the rest can be seen.  Of a light
 * semaphore these are the units that members wait for, one each at most.
 */
static void look_at_units(struct unetmm_sync_home *h, struct member *m)
{
    uint64_t more = load(&record_of(h, m)->given) - m->given;
    uint64_t most = h->kind == SYNC_LIGHT ? UNETMM_SYNC_MEMBERS : held(m);

    more = more < most ? more : most;
    m->given += more;
    hand_on(h, more);
}

/* Wakes members that were waiting when the wake-up was asked for. */
static void look_at_wakes(struct unetmm_sync_home *h, struct member *m)
{
    uint64_t word = load(&record_of(h, m)->wakes);
    uint64_t more = (word - m->given) & SYNC_WAKES, end = word >> 24;
    uint64_t tail = load(&h->words->tail);

    end = end < tail ? end : tail;
    m->given = word & SYNC_WAKES;
    while (more-- && h->limit < end) {
        serve(h, 1);
    }
}

static void look(struct unetmm_sync_home *h, struct member *m)
{
    look_at_status(h, m);
    if (h->kind != SYNC_QUEUE) {
        look_at_units(h, m);
    } else {
        look_at_wakes(h, m);
    }
}

/* Tells the member the limit, and the writes that it may forget. */
static void tell(struct unetmm_sync_home *h, struct member *m)
{
    bool turn = m->state == SYNC_WAITING && m->ticket < h->limit &&
        m->told != m->op;
    const uint64_t words[2] = { unetmm_swap64(h->limit),
                                unetmm_swap64(m->acked) };

    if ((turn || m->owes_ack) &&
        !unetmm_write(h->side.ep, m->import, offsetof(struct sync_answer, limit),
                      words, sizeof(words), 0, 0, UNETMM_UNSIGNALED |
                      UNETMM_INLINE | UNETMM_COUNT)) {
        m->owes_ack = false;
        if (turn) {
            m->told = m->op;
        }
    }
}

static void remove_member(struct unetmm_sync_home *h, struct member *m)
{
    bool buried = true;

    look(h, m);
    m->live = false;
    hand_on(h, h->kind == SYNC_SEMAPHORE ? held(m) : 0);
    if (m->state == SYNC_WAITING ||
        (m->state == SYNC_GAVE_UP && m->acked != m->op)) {
        buried = bury(h, m->ticket);
    }
    /* find_lost() finds the other ticket when there is room. */
    h->gone_ops += m->op - !buried;
    h->lost += (load(&record_of(h, m)->taking) != m->op) + !buried;
    memset(record_of(h, m), 0, sizeof(struct sync_record));
    memset(m, 0, sizeof(*m));
}

/* ---- Lost tickets ------------------------------------------------------ */

/* Counts the tickets that members have named; false: a member is taking a ticket now. */
static bool all_known(struct unetmm_sync_home *h, uint64_t *known)
{
    unsigned i;

    *known = h->gone_ops;
    for (i = 0; i < UNETMM_SYNC_MEMBERS; i++) {
        struct member *m = &h->members[i];

        if (m->live) {
            look_at_status(h, m);
            if (load(&record_of(h, m)->taking) != m->op) {
                return false;
            }
            *known += m->op;
        }
    }
    return true;
}

static bool is_waited_with(const struct unetmm_sync_home *h, uint64_t ticket)
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
    uint64_t tail = load(&h->words->tail), known, ticket, lost;

    if (!h->lost || !all_known(h, &known) || load(&h->words->tail) != tail) {
        return;
    }
    lost = tail - known < h->lost ? tail - known : h->lost;
    h->gone_ops += lost;
    h->lost = 0;
    for (ticket = h->limit; lost && ticket < tail; ticket++) {
        if (ticket >= h->limit && !is_dead(h, ticket) &&
            !is_waited_with(h, ticket)) {
            if (!bury(h, ticket)) {
                h->gone_ops -= lost;
                h->lost = (unsigned)lost;
                return;
            }
            lost--;
        }
    }
    while (lost--) {
        hand_on(h, 1);
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

static void greet(struct unetmm_sync_home *h, const struct unetmm_completion *c)
{
    uint64_t end = sys_now_ns() + ANSWER_NS;
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
    hello = (struct sync_hello) {
        .magic = unetmm_swap64(SYNC_MAGIC),
        .export = unetmm_swap64(h->side.export),
        .to = hello.export,
        .slot = unetmm_swap32(slot < 0 ? 0 : (uint32_t)slot),
        .error = slot < 0 ? (int32_t)unetmm_swap32((uint32_t)slot) : 0,
        .kind = unetmm_swap64(h->kind),
    };
    while (unetmm_send(h->side.ep, c->channel, &hello, sizeof(hello), 0,
                       UNETMM_UNSIGNALED | UNETMM_INLINE) == -EAGAIN &&
           sys_now_ns() < end) {
        sched_yield();
    }
}

static void part(struct unetmm_sync_home *h, int channel)
{
    struct member *m = member_of(h, channel);

    if (m) {
        int import = m->import;

        remove_member(h, m);
        unetmm_unimport(h->side.ep, import);
    }
    if (unetmm_channel_mtu(h->side.ep, channel) < 0) {
        accept_all(h);
    }
    unetmm_disconnect(h->side.ep, channel);
}

static void take(struct unetmm_sync_home *h, const struct unetmm_completion *c)
{
    struct member *m;

    if (c->type == UNETMM_CQE_RECEIVED) {
        greet(h, c);
    } else if (c->type == UNETMM_CQE_CLOSED) {
        part(h, c->channel);
    } else if (c->type == UNETMM_CQE_SENT && (m = member_of(h, c->channel))) {
        m->asked = false;
    }
    /* A failed write belongs to a channel that ends, which is notified. */
}

/* ---- The thread -------------------------------------------------------- */

/* 0, or -errno: the card has stopped the endpoint. */
static int work(struct unetmm_sync_home *h)
{
    struct unetmm_completion c;
    unsigned i;
    int ret;

    /* A member that sends without end does not keep the others waiting. */
    for (i = 0, ret = 1; i < MOST_TAKEN && ret > 0; i++) {
        ret = unetmm_poll(h->side.ep, &c, 1);
        if (ret > 0) {
            take(h, &c);
        }
    }
    for (i = 0; i < UNETMM_SYNC_MEMBERS; i++) {
        if (h->members[i].live) {
            look(h, &h->members[i]);
        }
    }
    find_lost(h);
    for (i = 0; i < UNETMM_SYNC_MEMBERS; i++) {
        if (h->members[i].live) {
            tell(h, &h->members[i]);
        }
    }
    return ret < 0 ? ret : 0;
}

/*
 * Members that hold units, or that we tell nothing, may have gone in silence.  A member that
 * takes no answer fills no queue: it has one question at a time.
 */
static void ask_all(struct unetmm_sync_home *h)
{
    const uint64_t word = 0;
    unsigned i;

    for (i = 0; i < UNETMM_SYNC_MEMBERS; i++) {
        struct member *m = &h->members[i];

        if (m->live && !m->asked) {
            m->asked = !unetmm_write(h->side.ep, m->import, offsetof(struct sync_answer, alive),
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
        ret = work(h);
        if (ret < 0 || atomic_load(&h->stop)) {
            break;
        }
        ret = unetmm_wait_any(h->side.ep, &c, 1, h->lost ? LOST_NS :
                              unetmm_time_until(ask), true);
        if (ret > 0) {
            take(h, &c);
        } else if (ret < 0 && ret != -EINTR) {
            break;
        }
        if (sys_now_ns() >= ask) {
            ask_all(h);
            ask = sys_now_ns() + SYNC_ALIVE_NS;
        }
    }
    h->error = ret;
    return NULL;
}

static int start(struct unetmm_sync_home *h)
{
    sigset_t before;
    int ret;

    sys_block_signals(&before);
    ret = pthread_create(&h->thread, NULL, home_thread, h);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -ret;
}

/* ---- Making and ending ------------------------------------------------- */

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
    ret = unetmm_listen_ex(h->side.ep, service, 16, &attr);
    if (!ret) {
        ret = start(h);
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
        free(h);
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
        return ret;
    }
    /* The thread looks at `stop` at least each time that it asks for its members. */
    atomic_store(&h->stop, true);
    sys_join(h->thread);
    ret = h->error;
    unetmm_sync_side_close(&h->side);
    free(h);
    return ret;
}
