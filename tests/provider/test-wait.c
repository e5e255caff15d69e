/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which calls of the provider wait for a peer: the time that passes in the caller is that
 * which it has asked the driver, poll() or epoll_wait() for.
 */
#include "../one_test.h"
#include "scene.h"

#include <errno.h>
#include <poll.h>
#include <semaphore.h>

#define DEAD        3       /* endpoints whose peers have gone */
#define CLOSE_MS    1000

static pthread_t program;           /* the thread that calls the provider */
static int64_t waited_ms;           /* by it */
static int tick_ms;                 /* a look at the clock takes so long */
static struct umfi_ep *answering;   /* its card sends all while fi_close() waits */
static sem_t answered;              /* the silent driver's threads may go on */

int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_poll(struct pollfd *fds, nfds_t n, int ms);
int __wrap_epoll_wait(int fd, struct epoll_event *list, int n, int ms);

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    int64_t ms = __atomic_fetch_add(&waited_ms, tick_ms, __ATOMIC_RELAXED);

    t->tv_sec = 1 + ms / 1000;
    t->tv_nsec = ms % 1000 * 1000000;
    return 0;
}

/* A cancelled thread leaves variables on its stack, where its alternative stack was freed. */
const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
    return "use_sigaltstack=0";
}

static void wait_ms(int ms)
{
    if (ms > 0) {
        __atomic_add_fetch(&waited_ms, ms, __ATOMIC_RELAXED);
    }
}

static struct umfi_ep *inside(struct fid_ep *fid)
{
    return umfi_of(fid, struct umfi_ep, fid);
}

/* The card of an endpoint has sent all until its fence. */
static void complete_fence(const struct umfi_ep *ep)
{
    struct card *card = card_of(ep->port->ep);

    assert_non_null(ep->fence);
    card->pending[card->npending++] = (struct unetmm_completion) {
        .type = UNETMM_CQE_SENT, .user_data = (uintptr_t)ep->fence,
    };
}

int __wrap_poll(struct pollfd *fds, nfds_t n, int ms)
{
    assert_true(ms >= 0);
    wait_ms(ms);
    if (answering) {
        complete_fence(answering);
        answering = NULL;
    }
    return 0;
}

int __wrap_epoll_wait(int fd, struct epoll_event *list, int n, int ms)
{
    wait_ms(ms);
    return 0;
}

static int silent_driver(int64_t ns)
{
    if (pthread_equal(pthread_self(), program)) {
        wait_ms((int)(ns / 1000000));
    } else {
        while (sem_wait(&answered)) {
            assert_int_equal(errno, EINTR);
        }
    }
    return -EHOSTUNREACH;
}

static void open_wait(void)
{
    program = pthread_self();
    answering = NULL;
    waited_ms = tick_ms = 0;
    umfi_config.close_ms = CLOSE_MS;
    umfi_config.connect_ms = 1000;
    assert_int_equal(sem_init(&answered, 0, 0), 0);
}

/* Nobody answers: fi_connect(), fi_accept() and fi_close() return at once. */
TEST(silent_peer, cmocka_unit_test)
{
    const struct sockaddr_in to = { .sin_family = AF_INET };
    struct scene s;

    open_scene(&s);
    open_wait();
    open_endpoint(&s, NULL);
    silent = silent_driver;
    assert_int_equal(fi_connect(s.ep, &to, NULL, 0), 0);
    assert_int_equal(waited_ms, 0);
    close_scene(&s);
    assert_int_equal(waited_ms, 0);
    open_requested(&s);
    open_wait();
    silent = silent_driver;
    assert_int_equal(fi_accept(s.ep, NULL, 0), 0);
    assert_int_equal(waited_ms, 0);
    assert_int_equal(state_of(&s), UMFI_CONNECTING);
    close_scene(&s);
    assert_int_equal(waited_ms, 0);
}

/* A listener is closed whose connector neither takes the connection nor goes. */
TEST(listener_closes, cmocka_unit_test)
{
    struct scene s;

    open_requested(&s);
    open_wait();
    fi_accept(s.ep, NULL, 0);
    umfi_cm_unlisten(&s.pep);
    assert_int_equal(waited_ms, 0);
    close_scene(&s);
}

/* A connected endpoint with a message that the peer's card does not acknowledge */
static void open_dead(struct scene *s)
{
    struct umfi_ep *ep;

    open_endpoint(s, NULL);
    ep = umfi_of(s->ep, struct umfi_ep, fid);
    s->data->mtu[0] = UNETMM_MAX_MESSAGE;
    umfi_lock(&s->domain);
    ep->open = true;
    umfi_ep_set_state(ep, UMFI_CONNECTING);
    umfi_ep_connected(ep, NULL, 0);
    umfi_unlock(&s->domain);
    assert_int_equal(fi_inject(s->ep, s->memory, 1, 0), 0);
}

static struct scene scene;      /* of a dead_test, with: */
static struct fid_ep *eps[DEAD];

static int open_dead_ones(void **state)
{
    open_scene(&scene);
    open_wait();
    for (unsigned i = 0; i < DEAD; i++) {
        open_dead(&scene);
        eps[i] = scene.ep;
    }
    return 0;
}

#define dead_test(fn) cmocka_unit_test_setup(fn, open_dead_ones)

/* Peers that have gone cost a program that closes its endpoints one such time in all. */
TEST(peers_have_gone, dead_test)
{
    for (unsigned i = 0; i + 1 < DEAD; i++) {
        assert_int_equal(fi_close(&eps[i]->fid), 0);
        assert_int_equal(waited_ms, CLOSE_MS);
    }
    close_scene(&scene);
    assert_int_equal(waited_ms, CLOSE_MS);
}

/* The time is over between two looks at the clock: no wait without an end begins. */
TEST(time_is_over, dead_test)
{
    tick_ms = CLOSE_MS / 2;
    assert_int_equal(fi_close(&eps[0]->fid), 0);
    assert_int_equal(fi_close(&eps[1]->fid), 0);
    close_scene(&scene);
}

/* A peer that has taken messages since then has its whole time when its turn comes. */
TEST(peer_is_slow, dead_test)
{
    assert_int_equal(fi_close(&eps[0]->fid), 0);
    assert_int_equal(waited_ms, CLOSE_MS);
    complete_fence(inside(eps[1]));
    assert_int_equal(fi_close(&eps[1]->fid), 0);
    assert_int_equal(waited_ms, 2 * CLOSE_MS);
    close_scene(&scene);
    assert_int_equal(waited_ms, 2 * CLOSE_MS);
}

/* Fences leave half of the slots to messages: endpoints may share them. */
TEST(room_for_messages, dead_test)
{
    untaken = (int)inside(eps[1])->port->slots / 2;
    assert_int_equal(fi_close(&eps[0]->fid), 0);
    assert_null(inside(eps[1])->fence);
    untaken--;
    assert_int_equal(fi_close(&eps[1]->fid), 0);
    assert_non_null(inside(eps[2])->fence);
    close_scene(&scene);
}

/* FI_SHUTDOWN comes with the completion of the fence, which is behind all messages. */
TEST(shutdown_when_sent, dead_test)
{
    nevents = 0;
    for (unsigned i = 1; i < DEAD; i++) {
        assert_int_equal(fi_shutdown(eps[i], 0), 0);
        assert_non_null(inside(eps[i])->fence);
    }
    complete_fence(inside(eps[1]));
    progress(&scene);
    assert_int_equal(nevents, 1);
    assert_int_equal(events[0], FI_SHUTDOWN);
    assert_false(inside(eps[1])->open);
    assert_true(inside(eps[2])->open);
    assert_int_equal(waited_ms, 0);
    /* fi_close() waits for the other one. */
    assert_int_equal(fi_close(&eps[2]->fid), 0);
    assert_int_equal(waited_ms, CLOSE_MS);
    assert_int_equal(fi_close(&eps[1]->fid), 0);
    scene.ep = eps[0];
    close_scene(&scene);
    assert_int_equal(waited_ms, CLOSE_MS);
}

/* A fence of before fi_shutdown() may be before some messages: another one follows. */
TEST(two_fences, dead_test)
{
    struct umfi_ep *ep;

    nevents = 0;
    ep = inside(eps[1]);
    answering = inside(eps[0]);
    assert_int_equal(fi_close(&eps[0]->fid), 0);
    assert_in_range(waited_ms, 1, CLOSE_MS / 2);
    assert_int_equal(fi_shutdown(eps[1], 0), 0);
    assert_false(ep->fenced);
    complete_fence(ep);
    progress(&scene);
    assert_int_equal(nevents, 0);
    assert_true(ep->fenced);
    complete_fence(ep);
    progress(&scene);
    assert_int_equal(nevents, 1);
    assert_int_equal(events[0], FI_SHUTDOWN);
    assert_int_equal(fi_close(&eps[1]->fid), 0);
    close_scene(&scene);
}

/* fi_shutdown() does not wait.  After FI_SHUTDOWN fi_close() does not wait. */
TEST(shutdown_by_progress, dead_test)
{
    nevents = 0;
    for (unsigned i = 0; i < DEAD; i++) {
        assert_int_equal(fi_shutdown(eps[i], 0), 0);
        assert_int_equal(fi_shutdown(eps[i], 0), -FI_ENOTCONN);
        assert_int_equal(fi_send(eps[i], scene.memory, 1, NULL, 0, NULL), -FI_ENOTCONN);
        assert_int_equal(fi_recv(eps[i], scene.memory, 1, NULL, 0, NULL), -FI_ENOTCONN);
    }
    progress(&scene);
    assert_int_equal(nevents, 0);
    assert_int_equal(waited_ms, 0);
    wait_ms(CLOSE_MS);
    progress(&scene);
    assert_int_equal(nevents, DEAD);
    for (unsigned i = 0; i < DEAD; i++) {
        assert_int_equal(events[i], FI_SHUTDOWN);
        if (i + 1 < DEAD) {
            assert_int_equal(fi_close(&eps[i]->fid), 0);
        }
    }
    close_scene(&scene);
    assert_int_equal(waited_ms, CLOSE_MS);
}
