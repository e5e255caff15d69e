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
 * threads at most.  A peer that is called (`callee`) has a list of the calls that wait for a
 * thread, and is in fabric.callees_ready while one of these can have the next thread.  So the
 * beginning and the end of a call cost as much however many calls wait.
 *
 * A call of an address whose card is not known has a thread that asks for the card.  Then the
 * call is one of that card's, and waits for another thread.
 */
#include "../src/sys/signals.h"
#include "provider.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define THREADS             256     /* at a time */
#define CALLS_OF_PEER       4
#define STACK_BYTES         (256u << 10)

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
        ret = unetmm_connect_ex(call->card_ep, call->mac, call->service, ms * 1000000ll,
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
static void join_ended_calls(struct umfi_fabric *fabric);
static void start_waiting_calls(struct umfi_fabric *fabric);
static void queue_call(struct umfi_call *call);

/* The card of the address is known: a call of that card goes on. */
static void call_card(struct umfi_call *resolved)
{
    struct umfi_call *call = malloc(sizeof(*call));

    if (!call) {
        resolved->called(resolved, -FI_ENOMEM);
        return;
    }
    *call = *resolved;
    call->has_mac = true;
    if (call->ep) {
        call->ep->call = call;
    }
    queue_call(call);
}

static void *run_call(void *arg)
{
    struct umfi_call *call = arg;
    struct umfi_fabric *fabric = call->fabric;
    int ret = call->has_mac ? call_driver(call) :
        umfi_resolve(&fabric->dev, call->to, call->mac);

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    if (ret < 0 && call->has_mac) {
        UMFI_INFO(FI_LOG_EP_CTRL, "a call of a peer's driver: %s\n",
                  unetmm_strerror(ret, UNETMM_CALL_CONNECT));
        ret = -umfi_call_error(ret);
    }
    sys_lock_take(&fabric->lock);
    if (!call->cancelled) {
        leave_thread(call);
        /* At most this thread's stack is left until the next call, or the fabric's end. */
        join_ended_calls(fabric);
        umfi_list_add(&fabric->calls_ended, &call->node);
        if (ret || call->has_mac) {
            call->called(call, ret);
        } else {
            call_card(call);
        }
        start_waiting_calls(fabric);
    }
    sys_lock_drop(&fabric->lock);
    return NULL;
}

/*
 * The program's own threads handle its signals.  Those of a fault of this thread go to the
 * program's handler as elsewhere.
 */
static int start_thread(struct umfi_call *call)
{
    pthread_attr_t attr;
    sigset_t before;
    int ret = pthread_attr_init(&attr);

    if (!ret) {
        pthread_attr_setstacksize(&attr, STACK_BYTES);
        sys_block_signals(&before);
        ret = pthread_create(&call->thread, &attr, run_call, call);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&attr);
    }
    return -ret;
}

/* Calls of the callee have come or gone: it is ready or not. */
static void update_callee(struct umfi_fabric *fabric, struct umfi_peer *callee)
{
    if (umfi_list_is_empty(&callee->waiting) || callee->threads == CALLS_OF_PEER) {
        umfi_list_del(&callee->ready);
    } else if (umfi_list_is_empty(&callee->ready)) {
        umfi_list_add(&fabric->callees_ready, &callee->ready);
    }
}

/* The call's thread is at its end, or will do nothing any more. */
static void leave_thread(struct umfi_call *call)
{
    umfi_list_del(&call->node);
    call->fabric->threads--;
    call->callee->threads--;
    update_callee(call->fabric, call->callee);
    umfi_peer_put(call->fabric, call->callee);
}

/* Ready callees take turns.  A call fails if no thread can be made. */
static void start_waiting_calls(struct umfi_fabric *fabric)
{
    while (fabric->threads < THREADS && !umfi_list_is_empty(&fabric->callees_ready)) {
        struct umfi_peer *callee = umfi_of(fabric->callees_ready.next, struct umfi_peer, ready);
        struct umfi_call *call = umfi_of(callee->waiting.next, struct umfi_call, node);
        int ret;

        umfi_list_del(&callee->ready);
        umfi_list_del(&call->node);
        umfi_list_add(&fabric->calls_running, &call->node);
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

/* Threads of the list take no lock any more. */
static void join_ended_calls(struct umfi_fabric *fabric)
{
    struct umfi_call *call;

    umfi_for_each(call, &fabric->calls_ended, node) {
        umfi_list_del(&call->node);
        pthread_join(call->thread, NULL);
        free(call);
    }
}

static void queue_call(struct umfi_call *call)
{
    struct umfi_fabric *fabric = call->fabric;

    call->callee = umfi_peer_get(fabric, NULL,
                                 call->has_mac ? umfi_card_id(call->mac) : call->to.s_addr);
    if (!call->callee) {
        call->called(call, -FI_ENOMEM);
        free(call);
        return;
    }
    if (umfi_list_is_empty(&call->callee->node)) {
        umfi_list_add(&fabric->callees, &call->callee->node);
    }
    umfi_list_add(&call->callee->waiting, &call->node);
    update_callee(fabric, call->callee);
}

void umfi_call_begin(struct umfi_call *call)
{
    struct umfi_fabric *fabric = call->fabric;

    sys_assert_held(&fabric->lock);
    join_ended_calls(fabric);
    queue_call(call);
    start_waiting_calls(fabric);
}

static bool is_call_of(const struct umfi_call *call, const struct unetmm_ep *card_ep)
{
    return !card_ep || call->card_ep == card_ep;
}

static void drop_waiting_calls(struct umfi_fabric *fabric, const struct unetmm_ep *card_ep)
{
    struct umfi_peer *callee;
    struct umfi_call *call;

    umfi_for_each(callee, &fabric->callees, node) {
        callee->users++;
        umfi_for_each(call, &callee->waiting, node) {
            if (is_call_of(call, card_ep)) {
                umfi_list_del(&call->node);
                callee->users--;
                free(call);
            }
        }
        update_callee(fabric, callee);
        umfi_peer_put(fabric, callee);
    }
}

/* Takes out a call that has a thread.  NULL: there is none. */
static struct umfi_call *remove_call(struct umfi_fabric *fabric, const struct unetmm_ep *card_ep)
{
    struct umfi_call *call, *found = NULL;

    join_ended_calls(fabric);
    umfi_for_each(call, &fabric->calls_running, node) {
        if (is_call_of(call, card_ep)) {
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

void umfi_calls_cancel(struct umfi_fabric *fabric, const struct unetmm_ep *card_ep)
{
    struct umfi_call *call;

    sys_lock_take(&fabric->lock);
    drop_waiting_calls(fabric, card_ep);
    while ((call = remove_call(fabric, card_ep)) != NULL) {
        sys_lock_drop(&fabric->lock);
        pthread_cancel(call->thread);
        pthread_join(call->thread, NULL);
        free(call);
        sys_lock_take(&fabric->lock);
    }
    sys_lock_drop(&fabric->lock);
}
