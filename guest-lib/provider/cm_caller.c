/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Calls of peers' drivers: the channel of a request, and that of an answer to one.
 *
 * A peer's driver may be silent, and the address of a peer may be nobody's.  So a thread
 * makes each call, and no caller of the provider waits for a peer.  When the driver has
 * answered, the thread goes on with the connection under the fabric's lock, and the
 * event queue tells the program.
 *
 * Each peer chooses how long its driver is silent, so a peer has CALLS_OF_PEER of the
 * threads at most.  Each peer that is called has a record, with a list of the calls that wait for a
 * thread.  A record is in fabric.ready while one of these can have the next thread.  So the end
 * of a call costs as much however many calls wait.
 */
#include "provider.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define THREADS             256     /* at a time */
#define CALLS_OF_PEER       4
#define STACK_BYTES         (256u << 10)

/* A peer that is called: a card, or an address whose card is not known. */
struct umfi_callee {
    struct umfi_list node;      /* fabric.callees */
    struct umfi_list ready;     /* fabric.ready, or none */
    struct umfi_list waiting;   /* calls without a thread, the oldest first */
    unsigned threads;
    bool has_mac;
    uint8_t mac[6];
    struct in_addr to;
};

/*
 * libunetmm asks on when a driver answers that nobody listens: -ETIMEDOUT after first_ms is
 * such an answer, or that of a full backlog, which has first_ms to become empty.  A driver
 * that has not answered at all, -EHOSTUNREACH, is asked again until most_ms are over.
 */
static int connect_to(const struct umfi_call *call)
{
    const struct unetmm_channel_attr attr = umfi_channel_attr();
    int64_t left = call->most_ms, ms = call->first_ms;
    int ret;

    do {
        ms = left < ms ? left : ms;
        ret = unetmm_connect_ex(call->card, call->mac, call->service, ms * 1000000ll,
                                &attr, NULL);
        left -= ms;
        ms *= 2;
    } while (ret == -EHOSTUNREACH && left > 0);
    return ret;
}

/*
 * May be cancelled in the driver, where it waits, and then touches nothing any more, as
 * libunetmm(7) allows for this one call: the caller of umfi_calls_cancel() destroys the card's
 * endpoint, and a channel with it.  No call of the library wakes a thread there: the endpoint's
 * end would free memory under it, and the program may use each signal itself.  Short deadlines
 * would drop answers that take longer, and still delay fi_close().
 */
static int call_driver(const struct umfi_call *call)
{
    int ret;

    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    ret = connect_to(call);
    pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, NULL);
    return ret;
}

static void leave_thread(struct umfi_call *call);
static void start_waiting_calls(struct umfi_fabric *fabric);

static void *run_call(void *arg)
{
    struct umfi_call *call = arg;
    struct umfi_fabric *fabric = call->fabric;
    int unresolved = call->has_mac ? 0 :
        umfi_resolve(&fabric->dev, call->to, call->mac);
    int ret = unresolved ? unresolved : call_driver(call);

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    if (ret < 0 && !unresolved) {
        UMFI_INFO(FI_LOG_EP_CTRL, "a call of a peer's driver: %s\n",
                  unetmm_strerror(ret, UNETMM_CALL_CONNECT));
        ret = -umfi_call_error(ret);
    }
    umfi_lock_take(&fabric->lock);
    if (!call->cancelled) {
        leave_thread(call);
        umfi_list_add(&fabric->called, &call->node);
        call->called(call, ret);
        start_waiting_calls(fabric);
    }
    umfi_lock_drop(&fabric->lock);
    return NULL;
}

/* The signals of the program are handled by its own threads. */
static int start_thread(struct umfi_call *call)
{
    pthread_attr_t attr;
    sigset_t all, before;
    int ret = pthread_attr_init(&attr);

    if (!ret) {
        pthread_attr_setstacksize(&attr, STACK_BYTES);
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        ret = pthread_create(&call->thread, &attr, run_call, call);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&attr);
    }
    return -ret;
}

/* A card may have many addresses. */
static bool is_callee_of(const struct umfi_callee *callee, const struct umfi_call *call)
{
    return callee->has_mac == call->has_mac &&
        (call->has_mac ? !memcmp(callee->mac, call->mac, sizeof(call->mac)) :
         callee->to.s_addr == call->to.s_addr);
}

/* NULL: no memory. */
static struct umfi_callee *get_callee(struct umfi_call *call)
{
    struct umfi_callee *callee;

    umfi_for_each(callee, &call->fabric->callees, node) {
        if (is_callee_of(callee, call)) {
            return callee;
        }
    }
    callee = calloc(1, sizeof(*callee));
    if (callee) {
        umfi_list_init(&callee->ready);
        umfi_list_init(&callee->waiting);
        callee->has_mac = call->has_mac;
        memcpy(callee->mac, call->mac, sizeof(callee->mac));
        callee->to = call->to;
        umfi_list_add(&call->fabric->callees, &callee->node);
    }
    return callee;
}

/* Calls of the callee have come or gone: it is ready or not, and ends with the last call. */
static void update_callee(struct umfi_fabric *fabric, struct umfi_callee *callee)
{
    bool waits = !umfi_list_is_empty(&callee->waiting);

    if (!waits || callee->threads == CALLS_OF_PEER) {
        umfi_list_del(&callee->ready);
    } else if (umfi_list_is_empty(&callee->ready)) {
        umfi_list_add(&fabric->ready, &callee->ready);
    }
    if (!waits && !callee->threads) {
        umfi_list_del(&callee->node);
        free(callee);
    }
}

/* The call's thread is at its end, or will do nothing any more. */
static void leave_thread(struct umfi_call *call)
{
    umfi_list_del(&call->node);
    call->fabric->threads--;
    call->callee->threads--;
    update_callee(call->fabric, call->callee);
}

/* Ready callees take turns.  A call fails if no thread can be made. */
static void start_waiting_calls(struct umfi_fabric *fabric)
{
    while (fabric->threads < THREADS && !umfi_list_is_empty(&fabric->ready)) {
        struct umfi_callee *callee = umfi_of(fabric->ready.next, struct umfi_callee, ready);
        struct umfi_call *call = umfi_of(callee->waiting.next, struct umfi_call, node);
        int ret;

        umfi_list_del(&callee->ready);
        umfi_list_del(&call->node);
        umfi_list_add(&fabric->calling, &call->node);
        fabric->threads++;
        callee->threads++;
        update_callee(fabric, callee);
        ret = start_thread(call);
        if (ret) {
            leave_thread(call);
            call->called(call, ret);
            free(call);
        }
    }
}

/* Their threads are at their end. */
static void join_ended_calls(struct umfi_fabric *fabric)
{
    struct umfi_call *call;

    umfi_for_each(call, &fabric->called, node) {
        umfi_list_del(&call->node);
        pthread_join(call->thread, NULL);
        free(call);
    }
}

void umfi_call_begin(struct umfi_call *call)
{
    umfi_assert_held(&call->fabric->lock);
    join_ended_calls(call->fabric);
    call->callee = get_callee(call);
    if (!call->callee) {
        call->called(call, -FI_ENOMEM);
        free(call);
        return;
    }
    umfi_list_add(&call->callee->waiting, &call->node);
    update_callee(call->fabric, call->callee);
    start_waiting_calls(call->fabric);
}

static bool is_call_of(const struct umfi_call *call, const struct unetmm_ep *card)
{
    return !card || call->card == card;
}

static void drop_waiting_calls(struct umfi_fabric *fabric, const struct unetmm_ep *card)
{
    struct umfi_callee *callee;
    struct umfi_call *call;

    umfi_for_each(callee, &fabric->callees, node) {
        umfi_for_each(call, &callee->waiting, node) {
            if (is_call_of(call, card)) {
                umfi_list_del(&call->node);
                free(call);
            }
        }
        update_callee(fabric, callee);
    }
}

/* Takes out a call that has a thread.  NULL: there is none. */
static struct umfi_call *remove_call(struct umfi_fabric *fabric, const struct unetmm_ep *card)
{
    struct umfi_call *call, *found = NULL;

    join_ended_calls(fabric);
    umfi_for_each(call, &fabric->calling, node) {
        if (is_call_of(call, card)) {
            found = call;
            break;
        }
    }
    if (found) {
        found->cancelled = true;
        leave_thread(found);
        start_waiting_calls(fabric);
    }
    return found;
}

void umfi_calls_cancel(struct umfi_fabric *fabric, const struct unetmm_ep *card)
{
    struct umfi_call *call;

    umfi_lock_take(&fabric->lock);
    drop_waiting_calls(fabric, card);
    while ((call = remove_call(fabric, card)) != NULL) {
        umfi_lock_drop(&fabric->lock);
        pthread_cancel(call->thread);
        pthread_join(call->thread, NULL);
        free(call);
        umfi_lock_take(&fabric->lock);
    }
    umfi_lock_drop(&fabric->lock);
}
