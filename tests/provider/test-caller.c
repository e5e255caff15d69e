/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Threads that call peers' drivers: their times, their shares, their end. */
#include "../one_test.h"
#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "provider.h"

#define CALLS           260
#define THREADS         256
#define OF_PEER         4       /* threads */
#define OTHER           1000u   /* a peer that the test releases alone */
#define RESOLVED        0x02020202u /* the card that has each address */
#define PAGE            4096
#define REFUSED_MS      100
#define MOST_MS         1000

const uint32_t unetmm_inline_1_ = 1;
struct umfi_config umfi_config = { .source = UNETMM_SOURCE_ODP };
struct fi_provider umfi_provider = { .name = UMFI_NAME };

/* ---- The library, and the rest of the provider ------------------------------- */

static sem_t inside, released, ended;   /* threads: in a driver, may leave it, have ended */
static sem_t other_released;
static bool waits;              /* drivers do */
static int driver_answer, resolve_answer, thread_error;
static unsigned asked, resolved;
static int64_t asked_ns;        /* that drivers had for all their answers */
static int results[CALLS];      /* of the calls that have ended */
static unsigned nresults;
static bool masked;             /* the signals of the last thread in a driver */
static struct umfi_fabric fabric;

int unetmm_connect_ex(struct unetmm_ep *ep, const uint8_t mac[6], uint64_t service,
                      int64_t timeout_ns, const struct unetmm_channel_attr *attr,
                      struct unetmm_peer *peer)
{
    bool wait = waits;
    uint32_t peer_number;
    sigset_t mask;

    memcpy(&peer_number, mac, sizeof(peer_number));
    sys_lock_take(&fabric.lock);
    asked++;
    asked_ns += timeout_ns;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    masked = sigismember(&mask, SIGUSR1) == 1 && sigismember(&mask, SIGALRM) == 1;
    sys_lock_drop(&fabric.lock);
    sem_post(&inside);
    while (wait && sem_wait(peer_number == OTHER ? &other_released : &released)) {
        assert_int_equal(errno, EINTR);
    }
    return driver_answer;
}

const char *unetmm_strerror(int error, enum unetmm_call call)
{
    return "";
}

int umfi_resolve(const struct umfi_netdev *dev, struct in_addr to, uint8_t mac[6])
{
    resolved++;
    memset(mac, 2, sizeof(uint32_t));
    return resolve_answer;
}

static void called(struct umfi_call *call, int channel)
{
    assert_true(nresults < CALLS);
    results[nresults++] = channel;
    sem_post(&ended);
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                          void *(*run)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                          void *(*run)(void *), void *arg);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                          void *(*run)(void *), void *arg)
{
    return thread_error ? thread_error : __real_pthread_create(thread, attr, run, arg);
}

/* A cancelled thread leaves variables on its stack, where its alternative stack was freed. */
const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
    return "use_sigaltstack=0";
}

/* ---- Tests ------------------------------------------------------------------- */

static int open_scene(void **state)
{
    memset(&fabric, 0, sizeof(fabric));
    memset(results, 0, sizeof(results));
    asked = resolved = nresults = 0;
    asked_ns = driver_answer = resolve_answer = thread_error = 0;
    waits = masked = false;
    umfi_list_init(&fabric.callees);
    umfi_list_init(&fabric.callees_ready);
    umfi_list_init(&fabric.calls_running);
    umfi_list_init(&fabric.calls_ended);
    assert_int_equal(sem_init(&inside, 0, 0), 0);
    assert_int_equal(sem_init(&released, 0, 0), 0);
    assert_int_equal(sem_init(&other_released, 0, 0), 0);
    assert_int_equal(sem_init(&ended, 0, 0), 0);
    return 0;
}

#define scene_test(fn) cmocka_unit_test_setup(fn, open_scene)

static void close_scene(void)
{
    umfi_calls_cancel(&fabric, NULL);
    assert_ptr_equal(fabric.callees.next, &fabric.callees);
    assert_ptr_equal(fabric.callees_ready.next, &fabric.callees_ready);
    assert_int_equal(fabric.threads, 0);
    assert_ptr_equal(fabric.calls_running.next, &fabric.calls_running);
    assert_ptr_equal(fabric.calls_ended.next, &fabric.calls_ended);
    sem_destroy(&inside);
    sem_destroy(&released);
    sem_destroy(&other_released);
    sem_destroy(&ended);
}

/* `mac` 0: not known yet.  The call has a page of its own. */
static struct umfi_call *begin(uintptr_t card, uint32_t to, uint32_t mac)
{
    struct umfi_call *call = aligned_alloc(PAGE, PAGE);

    assert_non_null(call);
    assert_true(sizeof(*call) <= PAGE);
    memset(call, 0, sizeof(*call));
    call->fabric = &fabric;
    call->card_ep = (struct unetmm_ep *)card;
    call->to.s_addr = to;
    call->has_mac = mac;
    memcpy(call->mac, &mac, sizeof(mac));
    call->called = called;
    call->first_ms = REFUSED_MS;
    call->most_ms = MOST_MS;
    sys_lock_take(&fabric.lock);
    umfi_call_begin(call);
    sys_lock_drop(&fabric.lock);
    return call;
}

static void await(sem_t *semaphore, unsigned n)
{
    while (n--) {
        assert_int_equal(sem_wait(semaphore), 0);
    }
}

static void require_inside(unsigned n)
{
    await(&inside, n);
    assert_int_equal(sem_trywait(&inside), -1);
}

/* A driver that says that nobody listens, and one that says nothing */
TEST(times, scene_test)
{
    driver_answer = -ETIMEDOUT;
    begin(1, 1, 1);
    await(&ended, 1);
    assert_int_equal(results[0], -FI_ECONNREFUSED);
    assert_int_equal(asked, 1);
    assert_int_equal(asked_ns, REFUSED_MS * 1000000ll);
    assert_int_equal(resolved, 0);
    driver_answer = -EHOSTUNREACH;
    asked_ns = 0;
    begin(1, 1, 1);
    await(&ended, 1);
    assert_int_equal(results[1], -FI_ETIMEDOUT);
    assert_int_equal(asked_ns, MOST_MS * 1000000ll);
    /* 100, 200, 400 and the rest */
    assert_int_equal(asked, 1 + 4);
    close_scene();
}

TEST(addresses, scene_test)
{
    driver_answer = 5;
    begin(1, 1, 0);
    await(&ended, 1);
    assert_int_equal(results[0], 5);
    assert_int_equal(resolved, 1);
    resolve_answer = -EHOSTUNREACH;
    begin(1, 1, 0);
    await(&ended, 1);
    assert_int_equal(results[1], -EHOSTUNREACH);
    assert_int_equal(asked, 1);
    close_scene();
}

/* A peer has some threads, and others do not wait for them. */
TEST(shares, scene_test)
{
    sigset_t own;

    waits = true;
    for (unsigned i = 0; i < OF_PEER + 1; i++) {
        begin(1, 1, 1);
    }
    require_inside(OF_PEER);
    begin(1, 2, 2);
    require_inside(1);
    /* Signals are for the program's own threads. */
    assert_true(masked);
    pthread_sigmask(SIG_SETMASK, NULL, &own);
    assert_int_equal(sigismember(&own, SIGUSR1), 0);
    assert_int_equal(nresults, 0);
    driver_answer = 3;
    sem_post(&released);
    await(&ended, 1);
    assert_int_equal(results[0], 3);
    /* One of either address has ended: at most one more is asked. */
    for (unsigned i = 0; i < OF_PEER + 1; i++) {
        sem_post(&released);
    }
    await(&ended, OF_PEER + 1);
    assert_int_equal(asked, OF_PEER + 2);
    close_scene();
}

/* The end of a call costs the same however many calls wait for another peer: none is touched. */
TEST(calls_of_a_silent_peer, scene_test)
{
    struct umfi_call *waiting[8];

    waits = true;
    for (unsigned i = 0; i < OF_PEER; i++) {
        begin(1, 1, 1);
    }
    for (size_t i = 0; i < 8; i++) {
        waiting[i] = begin(1, 1, 1);
    }
    begin(1, 2, OTHER);
    require_inside(OF_PEER + 1);
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(mprotect(waiting[i], PAGE, PROT_NONE), 0);
    }
    sem_post(&other_released);
    await(&ended, 1);
    sys_lock_take(&fabric.lock);
    assert_int_equal(nresults, 1);
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(mprotect(waiting[i], PAGE, PROT_READ | PROT_WRITE), 0);
    }
    sys_lock_drop(&fabric.lock);
    close_scene();
    assert_int_equal(asked, OF_PEER + 1);
}

/* A card takes no more threads by the names of others. */
TEST(share_of_a_card, scene_test)
{
    waits = true;
    for (unsigned i = 0; i < OF_PEER + 1; i++) {
        begin(1, i, 1);
    }
    require_inside(OF_PEER);
    /* Another card of one of these addresses */
    begin(1, 1, 2);
    require_inside(1);
    close_scene();
    assert_int_equal(asked, OF_PEER + 1);
}

/*
 * Calls of an address are of its card as soon as that is known: the card takes no more threads by
 * calls of both kinds, nor by many addresses.
 */
TEST(share_of_a_peer, scene_test)
{
    waits = true;
    for (unsigned i = 0; i < OF_PEER; i++) {
        begin(1, 1, 0);
    }
    require_inside(OF_PEER);
    begin(1, 1, RESOLVED);
    sys_lock_take(&fabric.lock);
    assert_int_equal(fabric.threads, OF_PEER);
    sys_lock_drop(&fabric.lock);
    begin(1, 2, 0);
    for (unsigned i = 0; i < OF_PEER + 2; i++) {
        sem_post(&released);
        await(&ended, 1);
    }
    assert_int_equal(asked, OF_PEER + 2);
    assert_int_equal(resolved, OF_PEER + 1);
    close_scene();
}

/* Calls of an endpoint that is closed end at once, wherever they are; others go on. */
TEST(cancelled, scene_test)
{
    waits = true;
    for (unsigned i = 0; i < OF_PEER + 1; i++) {
        begin(1, 1, 1);
    }
    begin(2, 2, 2);
    require_inside(OF_PEER + 1);
    umfi_calls_cancel(&fabric, (struct unetmm_ep *)1);
    assert_int_equal(nresults, 0);
    assert_int_equal(asked, OF_PEER + 1);
    driver_answer = 4;
    sem_post(&released);
    await(&ended, 1);
    assert_int_equal(nresults, 1);
    assert_int_equal(results[0], 4);
    close_scene();
    assert_int_equal(nresults, 1);
}

/* A cancelled call leaves its place to one that waits. */
TEST(place_of_a_cancelled_call, scene_test)
{
    waits = true;
    for (unsigned i = 0; i < OF_PEER; i++) {
        begin(i ? 1 : 2, 1, 1);
    }
    begin(1, 1, 1);
    require_inside(OF_PEER);
    umfi_calls_cancel(&fabric, (struct unetmm_ep *)2);
    require_inside(1);
    close_scene();
    assert_int_equal(nresults, 0);
}

TEST(no_thread, scene_test)
{
    thread_error = EAGAIN;
    begin(1, 1, 1);
    assert_int_equal(nresults, 1);
    assert_int_equal(results[0], -EAGAIN);
    assert_int_equal(asked, 0);
    close_scene();
}

/* Of all addresses together */
TEST(most_threads, scene_test)
{
    waits = true;
    for (unsigned i = 0; i < CALLS; i++) {
        begin(1, i, i + 1);
    }
    require_inside(THREADS);
    for (unsigned i = 0; i < CALLS; i++) {
        sem_post(&released);
    }
    await(&ended, CALLS);
    assert_int_equal(asked, CALLS);
    /* Each thread that ends has joined those before it. */
    sys_lock_take(&fabric.lock);
    assert_ptr_equal(fabric.calls_ended.next->next, &fabric.calls_ended);
    sys_lock_drop(&fabric.lock);
    close_scene();
}
