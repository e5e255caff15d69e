/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Semaphores and wait-queues: order, timeouts, and members that are killed.
 *
 * Local: the home is another context of this process.  Remote: it is the other
 * guest's echo.
 */
#include "ask.h"
#include "link.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SERVICE         (SERVICE_FIRST - 10)
#define UNITS           SEM_UNITS
#define TEST_EXPORT     (TEST_BOTH | TEST_UTLB)
#define PATIENCE_NS     ((int64_t)(20 * NS_PER_S * run.slow))
#define WAITERS         4

struct scene {
    struct unetmm_ctx *ctx;             /* the home's: local */
    struct unetmm_sync_home *home;
    uint8_t mac[6];
    uint64_t service;
};

/* The home is here. */
static void scene_open_here(struct scene *s, bool semaphore, uint64_t service)
{
    memset(s, 0, sizeof(*s));
    card_mac(s->mac);
    s->service = service;
    s->ctx = open_card();
    if (semaphore) {
        CHECK_RET(unetmm_sem_home(s->ctx, service, UNITS, &s->home), 0);
    } else {
        CHECK_RET(unetmm_waitq_home(s->ctx, service, &s->home), 0);
    }
}

static void scene_open_light(struct scene *s)
{
    memset(s, 0, sizeof(*s));
    card_mac(s->mac);
    s->service = SERVICE;
    s->ctx = open_card();
    CHECK_RET(unetmm_sem_home_light(s->ctx, SERVICE, UNITS, &s->home), 0);
}

static void scene_open(struct scene *s, bool semaphore)
{
    if (!run.remote) {
        scene_open_here(s, semaphore, SERVICE);
        return;
    }
    memset(s, 0, sizeof(*s));
    memcpy(s->mac, run.peer, sizeof(s->mac));
    s->service = semaphore ? SERVICE_SEM : SERVICE_QUEUE;
}

static void scene_close(struct scene *s)
{
    if (s->home) {
        CHECK_RET(unetmm_sync_home_close(s->home), 0);
        CHECK_RET(unetmm_close(s->ctx), 0);
    }
}

struct member {
    struct scene *scene;
    struct unetmm_ctx *ctx;
    struct unetmm_sync *sync;
    pthread_t thread;
    atomic_uint *order;                 /* whose turn it was, and ours */
    unsigned turn;
    int result;
    bool semaphore;
};

static void member_open(struct member *m, struct scene *s)
{
    memset(m, 0, sizeof(*m));
    m->scene = s;
    m->ctx = open_card();
    CHECK_RET(unetmm_sync_open(m->ctx, s->mac, s->service, PATIENCE_NS,
                               &m->sync), 0);
}

static void member_close(struct member *m)
{
    CHECK_RET(unetmm_sync_close(m->sync), 0);
    CHECK_RET(unetmm_close(m->ctx), 0);
}

/* All units are there, and no more: none is lost or doubled. */
static void all_there(struct scene *s)
{
    struct member m;
    unsigned i;

    member_open(&m, s);
    for (i = 0; i < UNITS; i++) {
        CHECK_RET(unetmm_sem_wait(m.sync, PATIENCE_NS), 1);
    }
    CHECK_RET(unetmm_sem_wait(m.sync, 20 * (int64_t)NS_PER_MS), 0);
    for (i = 0; i < UNITS; i++) {
        CHECK_RET(unetmm_sem_post(m.sync), 0);
    }
    CHECK_RET(unetmm_sem_post(m.sync), -EPERM);
    member_close(&m);
}

/* ---- One at a time ---------------------------------------------------------- */

TEST(basics, TEST_EXPORT | TEST_REMOTE)
{
    struct member m;
    struct scene s;
    unsigned i;

    scene_open(&s, true);
    all_there(&s);
    all_there(&s);
    member_open(&m, &s);
    CHECK_RET(unetmm_waitq_wait(m.sync, 0), -EPROTOTYPE);
    CHECK_RET(unetmm_waitq_wake(m.sync, 1), -EPROTOTYPE);
    for (i = 0; i < rounds(200); i++) {
        CHECK_RET(unetmm_sem_wait(m.sync, PATIENCE_NS), 1);
        CHECK_RET(unetmm_sem_post(m.sync), 0);
    }
    /* Its units go back with it. */
    CHECK_RET(unetmm_sem_wait(m.sync, PATIENCE_NS), 1);
    member_close(&m);
    all_there(&s);
    scene_close(&s);
}

TEST(home_gone, TEST_TLB)
{
    int64_t wait = NS_PER_MS;
    struct unetmm_sync *late;
    struct member m, waiter;
    struct scene s;
    int ret;

    scene_open(&s, true);
    member_open(&m, &s);
    member_open(&waiter, &s);
    CHECK_RET(unetmm_sem_wait(m.sync, PATIENCE_NS), 1);
    CHECK_RET(unetmm_sem_wait(m.sync, PATIENCE_NS), 1);
    scene_close(&s);
    CHECK_RET(unetmm_sem_wait(waiter.sync, PATIENCE_NS), -ENOTCONN);
    CHECK_RET(unetmm_sem_wait(m.sync, PATIENCE_NS), -ENOTCONN);
    CHECK_RET(unetmm_sem_post(m.sync), -ENOTCONN);
    /* In so short a time it may not have been told that there is none. */
    do {
        ret = unetmm_sync_open(m.ctx, s.mac, s.service, wait, &late);
        wait *= 4;
    } while (ret == -EHOSTUNREACH && wait < PATIENCE_NS);
    CHECK_RET(ret, -ETIMEDOUT);
    member_close(&m);
    member_close(&waiter);
}

/* ---- The order -------------------------------------------------------------- */

static void *wait_in_line(void *argument)
{
    struct member *m = argument;

    m->result = m->semaphore ? unetmm_sem_wait(m->sync, PATIENCE_NS) :
        unetmm_waitq_wait(m->sync, PATIENCE_NS);
    m->turn = atomic_fetch_add(m->order, 1);
    if (m->semaphore && m->result == 1) {
        CHECK_RET(unetmm_sem_post(m->sync), 0);
    }
    return NULL;
}

/* A place in the line has been taken when the card has done the atomic. */
static void line_up(struct member *m, struct scene *s, atomic_uint *order,
                    bool semaphore)
{
    uint64_t before;

    member_open(m, s);
    m->order = order;
    m->semaphore = semaphore;
    before = card_counter(m->ctx, UNETMM_C_rel_atomics);
    CHECK_EQ(pthread_create(&m->thread, NULL, wait_in_line, m), 0);
    EVENTUALLY(card_counter(m->ctx, UNETMM_C_rel_atomics) > before);
}

static void line_end(struct member *m, unsigned turn)
{
    CHECK_EQ(pthread_join(m->thread, NULL), 0);
    CHECK_EQ(m->result, 1);
    CHECK_EQ(m->turn, turn);
    member_close(m);
}

TEST(in_order, TEST_EXPORT)
{
    struct member holder, impatient, waiter[WAITERS];
    atomic_uint order = 0;
    struct scene s;
    unsigned i;

    scene_open(&s, true);
    member_open(&holder, &s);
    member_open(&impatient, &s);
    for (i = 0; i < UNITS; i++) {
        CHECK_RET(unetmm_sem_wait(holder.sync, PATIENCE_NS), 1);
    }
    for (i = 0; i < WAITERS; i++) {
        line_up(&waiter[i], &s, &order, true);
        /* Between them is a member that has gone: nobody notices. */
        CHECK_RET(unetmm_sem_wait(impatient.sync, i * (int64_t)NS_PER_MS), 0);
    }
    CHECK_EQ(atomic_load(&order), 0);
    /* One unit: each gives it to the next. */
    CHECK_RET(unetmm_sem_post(holder.sync), 0);
    for (i = 0; i < WAITERS; i++) {
        line_end(&waiter[i], i);
    }
    CHECK_RET(unetmm_sem_wait(impatient.sync, PATIENCE_NS), 1);
    member_close(&impatient);
    member_close(&holder);
    all_there(&s);
    scene_close(&s);
}

TEST(queue, TEST_EXPORT)
{
    struct member waker, waiter[WAITERS];
    atomic_uint order = 0;
    struct scene s;
    unsigned i;

    scene_open(&s, false);
    member_open(&waker, &s);
    CHECK_RET(unetmm_sem_wait(waker.sync, 0), -EPROTOTYPE);
    /* Nobody waits: it wakes nobody, now or later. */
    CHECK_RET(unetmm_waitq_wake(waker.sync, 5), 0);
    CHECK_RET(unetmm_waitq_wake(waker.sync, 0), 0);
    CHECK_RET(unetmm_waitq_wait(waker.sync, 10 * (int64_t)NS_PER_MS), 0);
    for (i = 0; i < WAITERS; i++) {
        line_up(&waiter[i], &s, &order, false);
    }
    for (i = 0; i < 2; i++) {
        CHECK_RET(unetmm_waitq_wake(waker.sync, 1), 0);
        line_end(&waiter[i], i);
        CHECK_EQ(atomic_load(&order), i + 1);
    }
    CHECK_RET(unetmm_waitq_wake(waker.sync, 0), 0);
    for (; i < WAITERS; i++) {
        CHECK_EQ(pthread_join(waiter[i].thread, NULL), 0);
        CHECK_EQ(waiter[i].result, 1);
        member_close(&waiter[i]);
    }
    CHECK_RET(unetmm_waitq_wait(waker.sync, NS_PER_MS), 0);
    member_close(&waker);
    scene_close(&s);
}

/* ---- One wake-up among some that give up ------------------------------------- */

/* Those who hardly wait: each that is woken all the same wakes the next. */
struct hasty {
    struct scene *s;
    struct hasty_state {
        atomic_uint there, gave_up, woken, stop;
    } *state;
    uint64_t stream;
};

static void pass_on(void *argument)
{
    struct hasty *hasty = argument;
    struct chance chance;
    struct member m;

    chance_init(&chance, hasty->stream);
    member_open(&m, hasty->s);
    atomic_fetch_add(&hasty->state->there, 1);
    while (!atomic_load(&hasty->state->stop)) {
        /* Some give up as soon as they have a place, some wait for a while. */
        int got = unetmm_waitq_wait(m.sync, chance_below(&chance, 2) ?
                                    chance_below(&chance, 300000) :
                                    chance_below(&chance, 20 * NS_PER_MS));

        CHECK(got >= 0);
        atomic_fetch_add(got ? &hasty->state->woken : &hasty->state->gave_up, 1);
        if (got) {
            CHECK_RET(unetmm_waitq_wake(m.sync, 1), 0);
        }
    }
    member_close(&m);
}

/* Sees which endpoints there are; returns one that it has not seen before. */
static unsigned look_at_endpoints(struct unetmm_ctx *ctx, bool *seen)
{
    struct unetmm_info info;
    unsigned i, new = 0;
    uint64_t value;

    card_info(&info);
    for (i = 0; i < info.endpoints && i <= UINT16_MAX; i++) {
        if (!seen[i] && unetmm_stats_read(ctx, UNETMM_SCOPE_ENDPOINT, i, &value,
                                          1) > 0) {
            seen[i] = true;
            new = i;
        }
    }
    return new;
}

/* Opens a member and finds the number of its endpoint: nobody else opens one. */
static unsigned patient_open(struct member *m, struct scene *s)
{
    static bool seen[UINT16_MAX + 1];
    struct unetmm_ctx *ctx = open_card();
    unsigned endpoint;

    memset(seen, 0, sizeof(seen));
    look_at_endpoints(ctx, seen);
    member_open(m, s);
    endpoint = look_at_endpoints(ctx, seen);
    CHECK(endpoint);
    CHECK_RET(unetmm_close(ctx), 0);
    return endpoint;
}

static uint64_t answers_to(const struct member *m, unsigned endpoint)
{
    uint64_t values[UNETMM_NUM_COUNTERS];

    CHECK(unetmm_stats_read(m->ctx, UNETMM_SCOPE_ENDPOINT, endpoint, values,
                            UNETMM_NUM_COUNTERS) > 0);
    return values[UNETMM_C_rel_answers];
}

/*
 * One is in the line for as long as it takes, so that the wake-up has somebody to go
 * to.  On its way there it meets any number of others, which pass it on or are just
 * giving up, and is neither lost nor doubled by them.  Chance says how many, and not
 * how long it takes.
 */
static void one_wake_up(struct member *waker, struct member *patient,
                        unsigned endpoint, unsigned turn)
{
    uint64_t before = answers_to(patient, endpoint);

    /* It has its place when the atomic that takes it has been answered. */
    CHECK_EQ(pthread_create(&patient->thread, NULL, wait_in_line, patient), 0);
    EVENTUALLY(answers_to(patient, endpoint) > before);
    CHECK_EQ(atomic_load(patient->order), turn);
    CHECK_RET(unetmm_waitq_wake(waker->sync, 1), 0);
    CHECK_EQ(pthread_join(patient->thread, NULL), 0);
    CHECK_EQ(patient->result, 1);
    CHECK_EQ(patient->turn, turn);
}

TEST(wake_ups, TEST_TLB | TEST_REMOTE)
{
    struct hasty_state *state = shared_memory(sizeof(*state));
    struct member waker, patient;
    struct hasty hasty[WAITERS];
    pid_t pids[WAITERS];
    atomic_uint order = 0;
    unsigned endpoint, i;
    struct scene s;

    scene_open(&s, false);
    for (i = 0; i < WAITERS; i++) {
        hasty[i] = (struct hasty) { &s, state, i };
        pids[i] = start_process(pass_on, &hasty[i]);
    }
    EVENTUALLY(atomic_load(&state->there) == WAITERS);
    member_open(&waker, &s);
    endpoint = patient_open(&patient, &s);
    patient.order = &order;
    for (i = 0; i < rounds(100); i++) {
        one_wake_up(&waker, &patient, endpoint, i);
    }
    atomic_store(&state->stop, true);
    for (i = 0; i < WAITERS; i++) {
        end_process(pids[i]);
    }
    note("%u gave up, %u passed it on", atomic_load(&state->gave_up),
         atomic_load(&state->woken));
    member_close(&patient);
    member_close(&waker);
    scene_close(&s);
}

/* ---- Many ------------------------------------------------------------------- */

struct crew {
    struct scene *s;
    struct crew_state {
        atomic_uint inside, most, done, hurry;
    } *state;
    uint64_t stream;
    unsigned last;              /* 0: for ever */
};

static void go_in(struct crew *crew, struct member *m, struct chance *chance)
{
    struct crew_state *state = crew->state;
    unsigned now;

    now = 1 + atomic_fetch_add(&state->inside, 1);
    if (now > atomic_load(&state->most)) {
        atomic_store(&state->most, now);
    }
    idle_ns(chance_below(chance, 100000));
    atomic_fetch_sub(&state->inside, 1);
    atomic_fetch_add(&state->done, 1);
    CHECK_RET(unetmm_sem_post(m->sync), 0);
}

static void work(void *argument)
{
    struct crew *crew = argument;
    struct chance chance;
    struct member m;

    chance_init(&chance, crew->stream);
    member_open(&m, crew->s);
    while (!crew->last || atomic_load(&crew->state->done) < crew->last) {
        /* Some wait for as long as it takes, some for no time at all. */
        int got = unetmm_sem_wait(m.sync, chance_below(&chance, 3) ?
                                  PATIENCE_NS : chance_below(&chance, 200000));

        if (got < 0) {
            FAIL("%s", unetmm_strerror(got, UNETMM_CALL_SYNC));
        }
        if (got) {
            go_in(crew, &m, &chance);
        }
    }
    member_close(&m);
}

static void crowd_at(struct scene *s)
{
    struct crew crew[WAITERS];
    struct crew_state *state = shared_memory(sizeof(*state));
    pid_t pids[WAITERS];
    unsigned i;

    for (i = 0; i < WAITERS; i++) {
        crew[i] = (struct crew) { s, state, i, rounds(100) };
        pids[i] = start_process(work, &crew[i]);
    }
    for (i = 0; i < WAITERS; i++) {
        end_process(pids[i]);
    }
    CHECK(atomic_load(&state->most) <= UNITS);
    note("%u inside at most, %u times", atomic_load(&state->most),
         atomic_load(&state->done));
    all_there(s);
}

TEST(crowd, TEST_BOTH | TEST_REMOTE)
{
    struct scene s;

    scene_open(&s, true);
    crowd_at(&s);
    scene_close(&s);
}

/* The same with a light semaphore; a member that is closed gives its unit back. */
TEST(light, TEST_EXPORT)
{
    struct member m;
    struct scene s;

    scene_open_light(&s);
    all_there(&s);
    member_open(&m, &s);
    CHECK_RET(unetmm_waitq_wait(m.sync, 0), -EPROTOTYPE);
    CHECK_RET(unetmm_sem_wait(m.sync, PATIENCE_NS), 1);
    member_close(&m);
    all_there(&s);
    crowd_at(&s);
    scene_close(&s);
}

/* ---- Ends ------------------------------------------------------------------- */

/* Killed wherever it is: nothing is lost, and nothing is there twice. */
TEST(killed, TEST_TLB | TEST_REMOTE)
{
    struct crew_state *state = shared_memory(sizeof(*state));
    struct chance chance;
    struct scene s;
    unsigned i, j;

    chance_init(&chance, 99);
    scene_open(&s, true);
    for (i = 0; i < rounds(12); i++) {
        struct crew crew[3];
        pid_t pids[3];

        for (j = 0; j < 3; j++) {
            crew[j] = (struct crew) { &s, state, 10 * i + j, 0 };
            pids[j] = start_process(work, &crew[j]);
        }
        /* They are under way. */
        EVENTUALLY(atomic_load(&state->done) > i);
        idle_ns(chance_below(&chance, 3000000));
        for (j = 0; j < 3; j++) {
            CHECK_SYS(kill(pids[j], SIGKILL));
            CHECK(WIFSIGNALED(await_process(pids[j])));
        }
        atomic_store(&state->done, i + 1);
        all_there(&s);
    }
    scene_close(&s);
}

static void hold_for_ever(void *argument)
{
    struct crew *crew = argument;
    struct member m;

    member_open(&m, crew->s);
    CHECK_RET(unetmm_sem_wait(m.sync, PATIENCE_NS), 1);
    atomic_fetch_add(&crew->state->inside, 1);
    pause();
}

/* A waiting member gets the unit of the one that was killed. */
TEST(holder_killed, TEST_TLB | TEST_REMOTE)
{
    struct crew_state *state = shared_memory(sizeof(*state));
    struct member waiter;
    atomic_uint order = 0;
    struct crew crew;
    struct scene s;
    pid_t pid[UNITS];
    unsigned i;

    scene_open(&s, true);
    crew = (struct crew) { &s, state, 0, 0 };
    for (i = 0; i < UNITS; i++) {
        pid[i] = start_process(hold_for_ever, &crew);
        EVENTUALLY(atomic_load(&state->inside) > i);
    }
    member_open(&waiter, &s);
    waiter.order = &order;
    waiter.semaphore = true;
    CHECK_RET(unetmm_sem_wait(waiter.sync, 5 * (int64_t)NS_PER_MS), 0);
    CHECK_EQ(pthread_create(&waiter.thread, NULL, wait_in_line, &waiter), 0);
    for (i = 0; i < UNITS; i++) {
        CHECK_SYS(kill(pid[i], SIGKILL));
        CHECK(WIFSIGNALED(await_process(pid[i])));
    }
    line_end(&waiter, 0);
    all_there(&s);
    scene_close(&s);
}

static void stand_in_line(void *argument)
{
    struct crew *crew = argument;
    struct member m;

    member_open(&m, crew->s);
    atomic_fetch_add(&crew->state->inside, 1);
    if (crew->last) {
        unetmm_waitq_wait(m.sync, -1);
    } else {
        unetmm_sem_wait(m.sync, -1);
    }
    FAIL("it has got the unit that it waits for");
}

/* Takes its place in the line, and is killed there. */
static void killed_in_line(struct scene *s, bool queue)
{
    struct crew_state *state = shared_memory(sizeof(*state));
    struct crew crew = { s, state, 0, queue };
    uint64_t before;
    struct unetmm_ctx *ctx = open_card();
    pid_t pid;

    before = card_counter(ctx, UNETMM_C_rel_atomics);
    pid = start_process(stand_in_line, &crew);
    EVENTUALLY(atomic_load(&state->inside) == 1);
    /* At a home in the other guest its place is known to that card alone. */
    EVENTUALLY(run.remote || card_counter(ctx, UNETMM_C_rel_atomics) > before);
    CHECK_SYS(kill(pid, SIGKILL));
    CHECK(WIFSIGNALED(await_process(pid)));
    CHECK_RET(unetmm_close(ctx), 0);
}

/* A member killed in the line leaves it: the next one's turn comes before its own. */
TEST(waiter_killed, TEST_TLB | TEST_REMOTE)
{
    struct member holder, waiter;
    atomic_uint order = 0;
    struct scene s;
    unsigned i;

    scene_open(&s, true);
    member_open(&holder, &s);
    for (i = 0; i < UNITS; i++) {
        CHECK_RET(unetmm_sem_wait(holder.sync, PATIENCE_NS), 1);
    }
    killed_in_line(&s, false);
    member_open(&waiter, &s);
    waiter.order = &order;
    waiter.semaphore = true;
    CHECK_EQ(pthread_create(&waiter.thread, NULL, wait_in_line, &waiter), 0);
    CHECK_RET(unetmm_sem_post(holder.sync), 0);
    line_end(&waiter, 0);
    CHECK_RET(unetmm_sem_post(holder.sync), 0);
    member_close(&holder);
    all_there(&s);
    scene_close(&s);
}

TEST(sleeper_killed, TEST_TLB)
{
    struct member waker, waiter;
    atomic_uint order = 0;
    struct scene s;

    scene_open_here(&s, false, SERVICE);
    member_open(&waker, &s);
    killed_in_line(&s, true);
    line_up(&waiter, &s, &order, false);
    CHECK_RET(unetmm_waitq_wake(waker.sync, 1), 0);
    line_end(&waiter, 0);
    member_close(&waker);
    scene_close(&s);
}

/*
 * A member that sends its identity and ends before it is read: its channel is soon
 * another's.
 */
static void haunt(void *argument)
{
    static const struct unetmm_channel_attr usual = UNETMM_CHANNEL_ATTR_INIT;
    struct crew *crew = argument;
    struct unetmm_ctx *ctx = open_card();
    /* As guest-lib/src/sync/sync.h has it, of an export that there is not. */
    uint64_t hello[5] = { 0x636e79736d6d6e75, 0xdead };

    while (!atomic_load(&crew->state->hurry)) {
        struct unetmm_ep *ep;
        int channel;

        CHECK_RET(unetmm_ep_create(ctx, NULL, &ep), 0);
        channel = unetmm_connect_ex(ep, crew->s->mac, crew->s->service,
                                    PATIENCE_NS, &usual, NULL);
        CHECK(channel >= 0);
        CHECK_RET(unetmm_send(ep, (unsigned)channel, hello, sizeof(hello), 0,
                              UNETMM_UNSIGNALED | UNETMM_INLINE), 0);
        CHECK_RET(unetmm_ep_destroy(ep), 0);
        atomic_fetch_add(&crew->state->done, 1);
    }
    CHECK_RET(unetmm_close(ctx), 0);
}

TEST(ghosts, TEST_TLB | TEST_REMOTE)
{
    struct crew_state *state = shared_memory(sizeof(*state));
    struct member m;
    struct scene s;
    struct crew crew = { &s, state, 0, 0 };
    unsigned i, before;
    pid_t pid[2];

    scene_open(&s, true);
    pid[0] = start_process(haunt, &crew);
    pid[1] = start_process(haunt, &crew);
    for (i = 0; i < rounds(40); i++) {
        before = atomic_load(&state->done);
        EVENTUALLY(atomic_load(&state->done) > before);
        member_open(&m, &s);
        CHECK_RET(unetmm_sem_wait(m.sync, PATIENCE_NS), 1);
        CHECK_RET(unetmm_sem_post(m.sync), 0);
        member_close(&m);
    }
    atomic_store(&state->hurry, true);
    end_process(pid[0]);
    end_process(pid[1]);
    note("%u came and went", atomic_load(&state->done));
    all_there(&s);
    scene_close(&s);
}

/* ---- A node that falls silent ------------------------------------------------ */

static uint64_t mac_number(const uint8_t mac[6])
{
    uint64_t number = 0;
    unsigned i;

    for (i = 0; i < 6; i++) {
        number = number << 8 | mac[i];
    }
    return number;
}

/* One of the other guest takes its place; then so many of them hold something. */
static void peer_member_joins(struct scene *s, struct link *echo,
                              unsigned number, unsigned holding)
{
    uint64_t before = card_counter(s->ctx, UNETMM_C_rel_atomics);

    peer_tell(echo->tx, PEER_JOIN, peer_join(mac_number(s->mac), number));
    EVENTUALLY(card_counter(s->ctx, UNETMM_C_rel_atomics) > before);
    EVENTUALLY(peer_ask(echo->tx, PEER_MEMBERS) == peer_members(holding, 0));
}

/* A home here whose line is one of ours, one of the other guest, one of ours. */
struct at_home {
    struct scene s;
    struct member active, waiter[2];
    atomic_uint order;
};

static void stay_at_home(struct at_home *h, struct link *echo, bool semaphore)
{
    unsigned i;

    scene_open_here(&h->s, semaphore, semaphore ? SERVICE_AT_HOME :
                    QUEUE_AT_HOME);
    member_open(&h->active, &h->s);
    /* One unit is the other guest's, so that they get it one after another. */
    for (i = 1; semaphore && i < UNITS; i++) {
        CHECK_RET(unetmm_sem_wait(h->active.sync, PATIENCE_NS), 1);
    }
    if (semaphore) {
        peer_member_joins(&h->s, echo, 1, 1);
    }
    line_up(&h->waiter[0], &h->s, &h->order, semaphore);
    peer_member_joins(&h->s, echo, semaphore ? 2 : PEER_QUEUE, 1);
    line_up(&h->waiter[1], &h->s, &h->order, semaphore);
    CHECK_EQ(atomic_load(&h->order), 0);
}

/* Each in its turn, but for the one that says nothing. */
static void line_goes_on(struct at_home *h, bool semaphore)
{
    unsigned i;

    for (i = 0; i < 2; i++) {
        /* The second wake-up is for the member that has gone: it goes on to the next. */
        if (!semaphore) {
            CHECK_RET(unetmm_waitq_wake(h->active.sync, 1), 0);
        }
        line_end(&h->waiter[i], i);
    }
    member_close(&h->active);
}


/* Of our own, at a home in the other guest: one has all its units, both want more. */
struct abroad {
    struct scene s;
    struct member member[2];
    atomic_uint order;
};

static void go_abroad(struct abroad *a)
{
    unsigned i;

    scene_open(&a->s, true);
    for (i = 0; i < 2; i++) {
        member_open(&a->member[i], &a->s);
        a->member[i].order = &a->order;
        a->member[i].semaphore = true;
    }
    for (i = 0; i < UNITS; i++) {
        CHECK_RET(unetmm_sem_wait(a->member[0].sync, PATIENCE_NS), 1);
    }
    CHECK_RET(unetmm_sem_wait(a->member[1].sync, NS_PER_MS), 0);
    for (i = 0; i < 2; i++) {
        CHECK_EQ(pthread_create(&a->member[i].thread, NULL, wait_in_line,
                                &a->member[i]), 0);
    }
}

/* Nobody waits for ever for a home that says nothing. */
static void find_no_home(struct abroad *a)
{
    unsigned i;

    for (i = 0; i < 2; i++) {
        CHECK_EQ(pthread_join(a->member[i].thread, NULL), 0);
        CHECK_RET(a->member[i].result, -ENOTCONN);
        CHECK_RET(unetmm_sem_post(a->member[i].sync), -ENOTCONN);
    }
}

/* When it is back it has all again. */
static void come_home(struct abroad *a)
{
    member_close(&a->member[0]);
    member_close(&a->member[1]);
    all_there(&a->s);
    scene_close(&a->s);
}

/*
 * The other guest's machine stands still.  One of its processes holds the unit
 * that ours wait for, and one is in the line, behind one of ours and before another, as
 * is one in a wait-queue; and it is the home that others of ours want.
 */
TEST(silent_node, TEST_TLB | TEST_ONLY_REMOTE)
{
    static struct at_home units, queue;
    static struct abroad abroad;
    struct link echo;

    link_open(&echo, NULL, NULL);
    stay_at_home(&units, &echo, true);
    stay_at_home(&queue, &echo, false);
    go_abroad(&abroad);
    ask_host("peer stop");
    line_goes_on(&queue, false);
    line_goes_on(&units, true);
    all_there(&units.s);
    find_no_home(&abroad);
    ask_host("peer cont");
    /* They have been declared dead, and learn of it. */
    EVENTUALLY(peer_tell(echo.tx, PEER_MEMBERS, 1) ==
               peer_members(0, 3));
    peer_ask(echo.tx, PEER_LEAVE);
    all_there(&units.s);
    come_home(&abroad);
    link_close(&echo);
    scene_close(&units.s);
    scene_close(&queue.s);
}

TEST(bad_wire, TEST_TLB | TEST_ONLY_REMOTE, 60)
{
    static const char *const knobs[] = { "x-loss", "x-dup", "x-reorder" };
    unsigned i;

    ask_host("set x-seed %llu", (unsigned long long)(run.seed & INT64_MAX));
    for (i = 0; i < 3; i++) {
        ask_host("set %s 30000", knobs[i]);
    }
    crowd();
    for (i = 0; i < 3; i++) {
        ask_host("set %s 0", knobs[i]);
    }
}
