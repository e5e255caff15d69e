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
 * threads at most.  The calls beyond wait in a list for one of the same peer to end.
 */
#include "provider.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define CALLS               256     /* threads at a time */
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
        umfi_list_del(&call->node);
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

/* A peer is a card, which may have many addresses; an address where the card is not known. */
static bool is_same_peer(const struct umfi_call *a, const struct umfi_call *b)
{
    return a->has_mac && b->has_mac ? !memcmp(a->mac, b->mac, sizeof(a->mac)) :
        a->to.s_addr == b->to.s_addr;
}

static bool has_thread(struct umfi_fabric *fabric, const struct umfi_call *call)
{
    unsigned all = 0, same = 0;
    struct umfi_call *other;

    umfi_for_each(other, &fabric->calling, node) {
        all++;
        same += is_same_peer(other, call);
    }
    return all < CALLS && same < CALLS_OF_PEER;
}

/* Starts waiting calls in their order.  A call fails if no thread can be made. */
static void start_waiting_calls(struct umfi_fabric *fabric)
{
    struct umfi_call *call;

    umfi_for_each(call, &fabric->to_call, node) {
        if (has_thread(fabric, call)) {
            int ret;

            umfi_list_del(&call->node);
            umfi_list_add(&fabric->calling, &call->node);
            ret = start_thread(call);
            if (ret) {
                umfi_list_del(&call->node);
                call->called(call, ret);
                free(call);
            }
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
    umfi_list_add(&call->fabric->to_call, &call->node);
    start_waiting_calls(call->fabric);
}

static bool is_call_of(const struct umfi_call *call, const struct unetmm_ep *card)
{
    return !card || call->card == card;
}

/* Drops those that have no thread yet; takes out one that has.  NULL: there is none. */
static struct umfi_call *remove_call(struct umfi_fabric *fabric, const struct unetmm_ep *card)
{
    struct umfi_call *call, *found = NULL;

    umfi_lock_take(&fabric->lock);
    join_ended_calls(fabric);
    umfi_for_each(call, &fabric->to_call, node) {
        if (is_call_of(call, card)) {
            umfi_list_del(&call->node);
            free(call);
        }
    }
    umfi_for_each(call, &fabric->calling, node) {
        if (is_call_of(call, card)) {
            found = call;
            break;
        }
    }
    if (found) {
        found->cancelled = true;
        umfi_list_del(&found->node);
        start_waiting_calls(fabric);
    }
    umfi_lock_drop(&fabric->lock);
    return found;
}

void umfi_calls_cancel(struct umfi_fabric *fabric, const struct unetmm_ep *card)
{
    struct umfi_call *call;

    while ((call = remove_call(fabric, card)) != NULL) {
        pthread_cancel(call->thread);
        pthread_join(call->thread, NULL);
        free(call);
    }
}
