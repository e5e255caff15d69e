/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Members of semaphores and wait-queues.
 *
 * A wait says at home that it takes a ticket, takes it by FETCH_ADD, and reads how
 * far the home has served, all in one round trip.  If its ticket has been served, the wait
 * is over; if not, it says so, by a write that counts, and sleeps until it is told.
 *
 * Until the round trip has ended nobody knows the ticket.  A wait that ends before
 * leaves it `begun`, and the next one goes on with it.
 *
 * A light semaphore has a word of its free units less its waiting members.  A member
 * adds -1 to take a unit and 1 to give it back; the value before says whether anyone
 * waits.  Only a member that has to wait takes a ticket, and only a unit that is
 * waited for moves the home's limit.  A member that stops waiting takes itself out
 * of the word, unless a unit is already on its way to it: then it waits for that one.
 */
#include "sync.h"
#include "../sys/refusals.h"

#include <sched.h>
#include <stddef.h>

/* user_data of operations whose completion is waited for */
#define OF_WAIT 1u
#define OF_READ 2u
#define OF_POST 3u              /* a wait may be open meanwhile */

#define UNUSUAL(condition) __builtin_expect(!!(condition), 0)

#define POST_NS 10000000000ull          /* a queue that stays full has failed */

struct unetmm_sync {
    struct sync_side side;
    struct sync_answer *answer;         /* side.words */
    int channel, import;
    uint64_t record;                    /* offset of ours */
    unsigned kind;                      /* SYNC_* */
    enum { LIGHT_IDLE, LIGHT_TAKING, LIGHT_QUEUED, LIGHT_LEAVING } light;
    uint64_t left;                      /* light: `units` that leaving expects */
    bool broken;
    bool begun;                         /* a wait, whose ticket is not known */
    uint64_t op, given, held;
    uint64_t gave_up;                   /* this wait, until it is acknowledged */
    uint64_t old, old_at_post;          /* of the last atomic of each */
    unsigned open_ops;                  /* completions that are waited for */
};

/* ---- Completions ------------------------------------------------------- */

/* Inline, for light_finish(). */
static inline __attribute__((__always_inline__))
void member_take(struct unetmm_sync *s, const struct unetmm_completion *c)
{
    if (c->type == UNETMM_CQE_CLOSED || c->type == UNETMM_CQE_FAILED ||
        c->status) {
        s->broken = true;
    } else if (c->type == UNETMM_CQE_SENT && c->user_data) {
        s->open_ops--;
        if (c->is_inline && c->user_data == OF_POST) {
            s->old_at_post = unetmm_old_value(c);
        } else if (c->is_inline) {
            s->old = unetmm_old_value(c);
        }
    }
}

static int member_take_all(struct unetmm_sync *s)
{
    struct unetmm_completion c;
    int ret;

    while ((ret = unetmm_poll(s->side.ep, &c, 1)) > 0) {
        member_take(s, &c);
    }
    s->broken = s->broken || ret < 0;
    return s->broken ? -ENOTCONN : 0;
}

/* Something has come, or the home has told us, or the time has come. */
static int pause_until(struct unetmm_sync *s, uint64_t deadline)
{
    struct unetmm_completion c;
    int ret = unetmm_wait_any(s->side.ep, &c, 1, unetmm_time_until(deadline), true);

    if (ret == -EINTR) {
        return ret;
    }
    if (ret > 0) {
        member_take(s, &c);
    } else if (ret < 0) {
        s->broken = true;
    }
    unetmm_upcall_events(unetmm_ep_private(s->side.ep), UINT32_MAX);
    return member_take_all(s);
}

/* ---- Operations -------------------------------------------------------- */

/*
 * The result of posting, until there is room or no more hope.  *end is 0 at first:
 * the clock is looked at only where there is no room.
 */
static int retry_post(struct unetmm_sync *s, int ret, uint64_t *end)
{
    if (!ret) {
        return 0;
    }
    if (ret == -EAGAIN && !*end) {
        *end = sys_now_ns() + POST_NS;
    }
    if (ret == -EAGAIN && sys_now_ns() < *end) {
        sched_yield();
        return member_take_all(s) ? -ENOTCONN : 1;
    }
    s->broken = true;
    return -ENOTCONN;
}

/* Posts by `call`, again and again as retry_post() says; the result is in `ret`. */
#define POST(s, ret, call) \
    for (uint64_t end_ = 0; ((ret) = retry_post(s, call, &end_)) > 0;) { \
    }

static int put_word(struct unetmm_sync *s, size_t member, uint64_t value, bool count)
{
    const uint64_t word = unetmm_swap64(value);
    int ret;

    POST(s, ret, unetmm_write(s->side.ep, s->import, s->record + member, &word, sizeof(word), 0, 0,
                              UNETMM_UNSIGNALED | UNETMM_INLINE | (count ? UNETMM_COUNT : 0)));
    return ret;
}

#define PUT(s, member, value, count) \
    put_word(s, offsetof(struct sync_record, member), value, count)

/* Posts the READs of the home's words: `tail` and `limit`. */
static int read_words(struct unetmm_sync *s)
{
    int ret;

    POST(s, ret, unetmm_read(s->side.ep, s->import, 0, &s->answer->tail, 2 * sizeof(uint64_t),
                             OF_READ, 0));
    s->open_ops += !ret;
    return ret;
}

static int add_ticket(struct unetmm_sync *s)
{
    int ret;

    POST(s, ret, unetmm_fetch_add(s->side.ep, s->import, offsetof(struct sync_words, tail), 1,
                                  OF_WAIT, 0));
    s->open_ops += !ret;
    return ret;
}

/* Until all that was posted to be waited for has come.  -ETIMEDOUT, -EINTR */
static int finish_ops(struct unetmm_sync *s, uint64_t deadline)
{
    int ret = member_take_all(s);

    while (!ret && s->open_ops) {
        if (deadline != UINT64_MAX && !unetmm_time_until(deadline)) {
            return -ETIMEDOUT;
        }
        ret = pause_until(s, deadline);
    }
    return ret;
}

/* Asks for a ticket, and how far has been served. */
static int ask_ticket(struct unetmm_sync *s)
{
    int ret;

    s->op++;
    ret = PUT(s, taking, s->op, false);
    if (!ret) {
        ret = add_ticket(s);
    }
    if (!ret) {
        ret = read_words(s);
    }
    s->begun = !ret;
    return ret;
}

/* 1: there it is.  0: the home's card has not answered by the deadline, or longer. */
static int take_ticket(struct unetmm_sync *s, uint64_t *ticket,
                       uint64_t deadline)
{
    uint64_t answer = sys_now_ns() + SYNC_ALIVE_NS;
    int ret = s->begun ? 0 : ask_ticket(s);

    if (!ret) {
        ret = finish_ops(s, answer > deadline ? answer : deadline);
    }
    if (ret) {
        return ret == -ETIMEDOUT ? 0 : ret;
    }
    s->begun = false;
    *ticket = s->old;
    return 1;
}

static uint64_t word_of(const uint64_t *word)
{
    return unetmm_swap64(__atomic_load_n(word, __ATOMIC_ACQUIRE));
}

static bool ticket_is_served(const struct unetmm_sync *s, uint64_t ticket)
{
    return word_of(&s->answer->limit) > ticket;
}

/* Sleeps until the condition holds (1), and asks now and then whether the home is there. */
static int sleep_until(struct unetmm_sync *s, uint64_t deadline,
                       bool (*holds)(const struct unetmm_sync *, uint64_t),
                       uint64_t arg)
{
    uint64_t ask = sys_now_ns() + SYNC_ALIVE_NS;

    for (;;) {
        int ret;

        if (holds(s, arg)) {
            return 1;
        }
        if (deadline != UINT64_MAX && !unetmm_time_until(deadline)) {
            return 0;
        }
        ret = pause_until(s, ask < deadline ? ask : deadline);
        if (ret) {
            return holds(s, arg) ? 1 : ret;
        }
        if (sys_now_ns() >= ask) {
            ret = PUT(s, alive, s->op, false);
            if (ret) {
                return ret;
            }
            ask = sys_now_ns() + SYNC_ALIVE_NS;
        }
    }
}

static bool end_is_acknowledged(const struct unetmm_sync *s, uint64_t op)
{
    return word_of(&s->answer->acked) >= op;
}

/* Gives the ticket up: the home passes it over, or hands its unit on. */
static int give_up(struct unetmm_sync *s, uint64_t ticket, int result)
{
    int ret = PUT(s, status, sync_status(s->op, SYNC_GAVE_UP, ticket), true);

    s->gave_up = s->op;
    return ret ? ret : result;
}

static int wait_turn(struct unetmm_sync *s, uint64_t deadline)
{
    uint64_t ticket = 0;
    int ret = 1;

    if (s->gave_up) {
        /* The home may read the record's words until it has acknowledged that we gave up. */
        ret = sleep_until(s, deadline, end_is_acknowledged, s->gave_up);
        if (ret <= 0) {
            return ret;
        }
        s->gave_up = 0;
    }
    ret = take_ticket(s, &ticket, deadline);
    if (ret <= 0) {
        return ret;
    }
    if (word_of(&s->answer->read) <= ticket) {
        ret = PUT(s, status, sync_status(s->op, SYNC_WAITING, ticket), true);
        if (!ret) {
            ret = sleep_until(s, deadline, ticket_is_served, ticket);
        }
        if (ret <= 0) {
            return s->broken ? -ENOTCONN : give_up(s, ticket, ret);
        }
    }
    ret = PUT(s, status, sync_status(s->op, SYNC_GOT, ticket), false);
    return ret ? ret : 1;
}

/* ---- Light semaphores --------------------------------------------------- */

#define LIGHT_POLLS 256         /* for the answer of the home's card */

/*
 * The way of a wait or a post of a free semaphore is inline: two bare atomics take
 * 314 instructions, so a call costs two per cent of it.
 */
static inline __attribute__((__always_inline__))
int post_units(struct unetmm_sync *s, uint64_t n, uint64_t user_data)
{
    return unetmm_fetch_add(s->side.ep, s->import, offsetof(struct sync_words, units), n,
                            user_data, 0);
}

/* The same after it was refused with `ret`. */
static __attribute__((__noinline__))
int post_units_again(struct unetmm_sync *s, uint64_t n, uint64_t user_data, int ret)
{
    uint64_t end = 0;

    while ((ret = retry_post(s, ret, &end)) > 0) {
        ret = post_units(s, n, user_data);
    }
    return ret;
}

static inline __attribute__((__always_inline__))
int add_units(struct unetmm_sync *s, uint64_t n, uint64_t user_data)
{
    int ret = post_units(s, n, user_data);

    if (UNUSUAL(ret)) {
        ret = post_units_again(s, n, user_data, ret);
    }
    s->open_ops += !ret;
    return ret;
}

/* Posts the step out of the queue that is valid if `units` is s->left. */
static int leave_units(struct unetmm_sync *s)
{
    int ret;

    POST(s, ret, unetmm_cmp_swap(s->side.ep, s->import, offsetof(struct sync_words, units),
                                 s->left, s->left + 1, OF_WAIT, 0));
    s->open_ops += !ret;
    return ret;
}

static __attribute__((__noinline__))
int finish_later(struct unetmm_sync *s, int64_t timeout_ns)
{
    uint64_t answer = sys_now_ns() + SYNC_ALIVE_NS;
    uint64_t deadline = unetmm_time_of(timeout_ns);

    return finish_ops(s, answer > deadline ? answer : deadline);
}

/* Does the same as finish_ops(), and polls some times before it reads the clock. */
static inline __attribute__((__always_inline__))
int light_finish(struct unetmm_sync *s, int64_t timeout_ns)
{
    struct unetmm_completion c;
    unsigned i;

    for (i = 0; i < LIGHT_POLLS && s->open_ops; i++) {
        int ret = unetmm_poll(s->side.ep, &c, 1);

        if (ret > 0) {
            member_take(s, &c);
        }
        s->broken = s->broken || ret < 0;
        if (UNUSUAL(s->broken)) {
            return -ENOTCONN;
        }
    }
    return UNUSUAL(s->open_ops) ? finish_later(s, timeout_ns) : 0;
}

/* Out of the queue: `result`.  1: a unit was on its way, and is there. */
static int light_leave(struct unetmm_sync *s, int result)
{
    int ret;

    if (s->light != LIGHT_LEAVING) {
        s->left = UINT64_MAX;
        s->light = LIGHT_LEAVING;
        ret = leave_units(s);
        if (ret) {
            return ret;
        }
    }
    for (;;) {
        ret = light_finish(s, 0);
        if (ret) {
            return ret == -ETIMEDOUT ? result : ret;
        }
        if (s->old == s->left) {
            s->light = LIGHT_IDLE;
            return result;
        }
        if ((int64_t)s->old >= 0) {
            break;
        }
        s->left = s->old;
        ret = leave_units(s);
        if (ret) {
            return ret;
        }
    }
    s->light = LIGHT_QUEUED;
    ret = wait_turn(s, unetmm_time_of((int64_t)POST_NS));
    if (ret > 0) {
        s->light = LIGHT_IDLE;
    }
    return ret;
}

static int light_queue(struct unetmm_sync *s, int64_t timeout_ns)
{
    int ret = wait_turn(s, unetmm_time_of(timeout_ns));

    if (ret > 0) {
        s->light = LIGHT_IDLE;
        return ret;
    }
    /* A ticket that nobody knows yet is kept, and with it the place. */
    if (s->broken || s->begun) {
        return ret;
    }
    return light_leave(s, ret);
}

static int light_wait(struct unetmm_sync *s, int64_t timeout_ns)
{
    int ret = 0;

    if (s->light == LIGHT_LEAVING) {
        uint64_t deadline = unetmm_time_of(timeout_ns);

        do {
            ret = light_leave(s, 0);
            timeout_ns = unetmm_time_until(deadline);
        } while (!ret && s->light == LIGHT_LEAVING && timeout_ns);
        if (ret || s->light != LIGHT_IDLE) {
            return ret;
        }
    }
    if (s->light == LIGHT_IDLE) {
        s->light = LIGHT_TAKING;
        ret = add_units(s, UINT64_MAX, OF_WAIT);
    }
    if (!ret && s->light == LIGHT_TAKING) {
        ret = light_finish(s, timeout_ns);
        if (!ret && (int64_t)s->old > 0) {
            s->light = LIGHT_IDLE;
            return 1;
        }
        if (!ret) {
            s->light = LIGHT_QUEUED;
        }
    }
    if (ret) {
        return ret == -ETIMEDOUT ? 0 : ret;
    }
    return light_queue(s, timeout_ns);
}

/* The value before has to be known: a member that waits needs the home. */
static int light_post(struct unetmm_sync *s)
{
    uint64_t end;
    int ret = add_units(s, 1, OF_POST);

    if (!ret) {
        ret = light_finish(s, (int64_t)POST_NS);
    }
    if (ret == -EINTR) {
        end = sys_now_ns() + POST_NS;
        while (ret == -EINTR) {
            ret = finish_ops(s, end);
        }
    }
    if (ret) {
        s->broken = true;
        return -ENOTCONN;
    }
    return (int64_t)s->old_at_post < 0 ? PUT(s, given, ++s->given, true) : 0;
}

/* The home does not know our units, nor the one of a wait that is still open. */
static void light_close(struct unetmm_sync *s)
{
    if (s->light == LIGHT_TAKING && !light_finish(s, 0) &&
        (int64_t)s->old > 0) {
        s->held++;
    }
    while (s->held && !s->broken) {
        s->held--;
        light_post(s);
    }
}

/* ---- Calls --------------------------------------------------------------- */

static int check_member(const struct unetmm_sync *s, bool semaphore)
{
    if (UNUSUAL(!s->side.ep->alive)) {
        return -EOWNERDEAD;
    }
    return s->broken ? -ENOTCONN :
        (s->kind != SYNC_QUEUE) != semaphore ? -EPROTOTYPE : 0;
}

int unetmm_sem_wait(struct unetmm_sync *s, int64_t timeout_ns)
{
    int ret = check_member(s, true);

    if (!ret) {
        ret = s->kind == SYNC_LIGHT ? light_wait(s, timeout_ns) :
            wait_turn(s, unetmm_time_of(timeout_ns));
        s->held += ret > 0;
    }
    return ret;
}

int unetmm_sem_post(struct unetmm_sync *s)
{
    int ret = check_member(s, true);

    if (ret) {
        return ret;
    }
    if (!s->held) {
        return -EPERM;
    }
    s->held--;
    return s->kind == SYNC_LIGHT ? light_post(s) :
        PUT(s, given, ++s->given, true);
}

int unetmm_waitq_wait(struct unetmm_sync *s, int64_t timeout_ns)
{
    int ret = check_member(s, false);

    return ret ? ret : wait_turn(s, unetmm_time_of(timeout_ns));
}

int unetmm_waitq_wake(struct unetmm_sync *s, uint32_t n)
{
    int ret = check_member(s, false);
    uint64_t tail, waiting;

    if (!ret) {
        ret = read_words(s);
    }
    if (!ret) {
        ret = finish_ops(s, sys_now_ns() + POST_NS);
    }
    if (ret) {
        return ret;
    }
    /* The members that wait now, not those that come later. */
    tail = word_of(&s->answer->tail);
    waiting = tail - word_of(&s->answer->read);
    s->given += n && n < waiting ? n : waiting;
    return waiting ? PUT(s, wakes, sync_wakes(s->given, tail), true) : 0;
}

/* ---- Coming and going -------------------------------------------------- */

static int read_hello(const struct unetmm_completion *c,
                      struct sync_hello *hello)
{
    if (!c->is_inline || c->len != sizeof(*hello)) {
        return -EPROTO;
    }
    memcpy(hello, c->data, sizeof(*hello));
    return unetmm_swap64(hello->magic) == SYNC_MAGIC ? 0 : -EPROTO;
}

static int receive_hello(struct unetmm_sync *s, uint64_t deadline,
                         struct sync_hello *hello)
{
    struct unetmm_completion c;
    int ret;

    do {
        ret = unetmm_wait(s->side.ep, &c, 1, unetmm_time_until(deadline));
        if (ret <= 0) {
            return ret ? ret : -ETIMEDOUT;
        }
        if (c.type == UNETMM_CQE_CLOSED || c.status) {
            return -ENOTCONN;
        }
        if (c.type == UNETMM_CQE_RECEIVED && (ret = read_hello(&c, hello)) < 0) {
            return ret;
        }
        /* Another member's, which had this channel before us. */
    } while (c.type != UNETMM_CQE_RECEIVED ||
             (hello->to && unetmm_swap64(hello->to) != s->side.export));
    /* A home that does not keep the rules gives no error that is none. */
    ret = (int32_t)unetmm_swap32((uint32_t)hello->error);
    return ret > 0 || ret < -4095 ? -EPROTO : ret;
}

static int join_home(struct unetmm_sync *s, const uint8_t mac[6], uint64_t service,
                     uint64_t deadline)
{
    const struct unetmm_channel_attr attr = {
        .size = sizeof(attr), .flags = UNETMM_RELIABLE | UNETMM_NOTIFY_CLOSE,
        .rnr_retries = UNETMM_REFUSALS,
    };
    struct sync_hello hello = { .magic = unetmm_swap64(SYNC_MAGIC),
                                .export = unetmm_swap64(s->side.export) };
    uint32_t slot;
    int ret;

    ret = unetmm_connect_ex(s->side.ep, mac, service, unetmm_time_until(deadline),
                            &attr, NULL);
    if (ret < 0) {
        return ret;
    }
    s->channel = ret;
    ret = unetmm_send(s->side.ep, s->channel, &hello, sizeof(hello), 0,
                      UNETMM_UNSIGNALED | UNETMM_INLINE);
    if (!ret) {
        ret = receive_hello(s, deadline, &hello);
    }
    if (ret) {
        return ret;
    }
    slot = unetmm_swap32(hello.slot);
    if (slot >= UNETMM_SYNC_MEMBERS) {
        return -EPROTO;
    }
    if (unetmm_swap64(hello.kind) > SYNC_LIGHT) {
        return -EPROTO;
    }
    s->kind = (unsigned)unetmm_swap64(hello.kind);
    s->record = offsetof(struct sync_words, records) +
        slot * sizeof(struct sync_record);
    ret = unetmm_import(s->side.ep, s->channel, unetmm_swap64(hello.export),
                        UNETMM_RIGHT_ALL, unetmm_time_until(deadline), NULL);
    if (ret < 0) {
        return ret;
    }
    s->import = ret;
    return 0;
}

int unetmm_sync_open(struct unetmm_ctx *ctx, const uint8_t mac[6],
                     uint64_t service, int64_t timeout_ns,
                     struct unetmm_sync **result)
{
    struct unetmm_sync *s;
    int ret = unetmm_ctx_check(ctx);

    if (ret) {
        return ret;
    }
    s = sys_calloc(1, sizeof(*s));
    if (!s) {
        return -ENOMEM;
    }
    s->side.ctx = ctx;
    ret = unetmm_sync_side_open(&s->side, UNETMM_PAGE_BYTES, UNETMM_RIGHT_WRITE);
    if (!ret) {
        s->answer = s->side.words;
        ret = join_home(s, mac, service, unetmm_time_of(timeout_ns));
        if (ret) {
            unetmm_sync_side_close(&s->side);
        }
    }
    if (ret) {
        free(s);
        return ret;
    }
    *result = s;
    return 0;
}

int unetmm_sync_close(struct unetmm_sync *s)
{
    int ret = unetmm_ctx_check(s->side.ctx);

    if (ret) {
        free(s);
        return ret;
    }
    if (s->kind == SYNC_LIGHT && !s->broken) {
        light_close(s);
    }
    /* The end of the channel tells the home to take back our units. */
    unetmm_sync_side_close(&s->side);
    free(s);
    return 0;
}
