/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A thread that calls handlers as completions come.
 *
 * The thread uses the endpoint while it is `busy`.  A thread that blocks handlers
 * waits until it is not, and has the endpoint then; so the thread looks at
 * `blocked` after each completion and each short spin.  It sleeps on the endpoint's
 * own descriptor, by which all events wake it.
 *
 * `lock` is taken by everybody, whether there is a thread or not: it may begin or
 * end between any two steps of another.  Under it: has_thread (written), busy, asleep,
 * armed_at, error.  It is held for no handler and no sleep.  `inner` belongs to the
 * thread that runs the handler.
 */
#include "handler.h"
#include "../sys/signals.h"

#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>

enum { SLEEP, ASK_AGAIN };

/* Somebody wants the endpoint, or our end. */
static bool wanted(struct unetmm_handlers *h)
{
    return atomic_load(&h->blocked) || atomic_load(&h->stop);
}

/* As unetmm_wait() spins, but giving way.  0: nothing came. */
static int spin_for_message(struct unetmm_ep_private *ep, struct unetmm_completion *c)
{
    uint64_t now, end;
    int ret = 0;

    if (!ep->spin_ns) {
        return 0;
    }
    now = sys_now_ns();
    end = now + ep->spin_ns;
    while (!ret && !wanted(&ep->handlers) && !unetmm_watch_due(ep) &&
           (now < end || ep->spin_ns == UNETMM_SPIN_FOREVER)) {
        uint64_t slice = now + UNETMM_YIELD_NS;

        ret = unetmm_spin(&ep->pub, c, 1, slice < end ? slice : end, true);
        if (!ret && ep->spin_ns == UNETMM_SPIN_FOREVER) {
            sched_yield();
        }
        now = sys_now_ns();
    }
    return ret;
}

/*
 * Calls handlers until there is nothing (SLEEP: the endpoint is armed) or
 * somebody wants the endpoint (ASK_AGAIN), or returns -errno.
 */
static int serve(struct unetmm_ep_private *ep)
{
    struct unetmm_completion c;

    while (!wanted(&ep->handlers)) {
        int ret = unetmm_upcall_events(ep, UINT_MAX);

        if (ret >= 0 && wanted(&ep->handlers)) {
            break;              /* a counter's handler may have blocked handlers */
        }
        if (ret >= 0) {
            ret = unetmm_poll(&ep->pub, &c, 1);
        }
        if (!ret) {
            /* Descriptors that handlers have queued with UNETMM_MORE */
            if (ep->pub.unrung) {
                unetmm_ring(&ep->pub);
            }
            ret = spin_for_message(ep, &c);
        }
        if (!ret && !wanted(&ep->handlers)) {
            ret = unetmm_arm(&ep->pub);
            if (ret <= 0) {
                return ret ? ret : SLEEP;
            }
            continue;
        }
        if (ret > 0) {
            ret = unetmm_upcall(ep, &c);
        }
        if (ret < 0) {
            return ret;
        }
    }
    if (ep->pub.unrung) {
        unetmm_ring(&ep->pub);
    }
    return ASK_AGAIN;
}

/* Our own signals are blocked; an early end for another reason does no harm. */
static void sleep_armed(struct unetmm_ep_private *ep)
{
    struct pollfd entry = { .fd = ep->event_fd, .events = POLLIN };

    sys_ppoll(&entry, 1, NULL);
}

/* Serves the endpoint while nobody wants it.  Holds the lock. */
static int serve_locked(struct unetmm_ep_private *ep)
{
    struct unetmm_handlers *h = &ep->handlers;
    int ret;

    h->busy = true;
    pthread_mutex_unlock(&h->lock);
    ret = serve(ep);
    if (ret == -ESHUTDOWN || ret == -EOWNERDEAD) {
        return ret;             /* without the lock, which may be gone */
    }
    pthread_mutex_lock(&h->lock);
    if (ret != SLEEP || wanted(h)) {
        return ret;
    }
    h->armed_at = ep->pub.cq_cons;
    h->asleep = true;
    h->busy = false;
    pthread_cond_broadcast(&h->change);
    pthread_mutex_unlock(&h->lock);
    sleep_armed(ep);
    pthread_mutex_lock(&h->lock);
    h->asleep = false;
    return ret;
}

/* The card has stopped the endpoint.  False: the endpoint is gone. */
static bool end_by_itself(struct unetmm_ep_private *ep, int error)
{
    struct unetmm_handlers *h = &ep->handlers;

    h->error = error;
    if (!h->end) {
        return true;
    }
    pthread_mutex_unlock(&h->lock);
    if (unetmm_upcall(ep, NULL)) {
        return false;
    }
    pthread_mutex_lock(&h->lock);
    return true;
}

static void *handler_thread(void *argument)
{
    struct unetmm_ep_private *ep = argument;
    struct unetmm_handlers *h = &ep->handlers;
    char name[16];

    /* The lock: start_locked() has written all that it writes. */
    pthread_mutex_lock(&h->lock);
    snprintf(name, sizeof(name), "unetmm-ep%u", ep->id);
    pthread_setname_np(pthread_self(), name);
    while (!atomic_load(&h->stop)) {
        int ret;

        if (atomic_load(&h->blocked)) {
            sys_cond_wait(&h->change, &h->lock);
            continue;
        }
        ret = serve_locked(ep);
        if (ret == -ESHUTDOWN || ret == -EOWNERDEAD ||
            (ret < 0 && !end_by_itself(ep, ret))) {
            return NULL;
        }
        h->busy = false;
        pthread_cond_broadcast(&h->change);
        if (ret < 0) {
            break;
        }
    }
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

static int start_locked(struct unetmm_ep_private *ep, unetmm_end end, void *arg)
{
    struct unetmm_handlers *h = &ep->handlers;
    int ret;

    if (h->has_thread) {
        return -EBUSY;
    }
    if (!h->every.handler) {
        return -ENOENT;
    }
    h->end = end;
    h->end_arg = arg;
    h->error = 0;
    atomic_store(&h->stop, false);
    h->has_thread = true;
    ret = -pthread_create(&h->thread, NULL, handler_thread, ep);
    if (ret) {
        h->has_thread = false;
    }
    return ret;
}

int unetmm_handlers_start(struct unetmm_ep *pub, unetmm_end end, void *arg)
{
    struct unetmm_ep_private *ep = unetmm_ep_private(pub);
    sigset_t before;
    int ret;

    if (!pub->alive) {
        return -EOWNERDEAD;
    }
    if (unetmm_in_handler(ep)) {
        return -EDEADLK;
    }
    sys_block_signals(&before);
    pthread_mutex_lock(&ep->handlers.lock);
    ret = start_locked(ep, end, arg);
    /*
     * From here on the thread runs, and its handlers may destroy the endpoint:
     * no line below touches them.
     */
    pthread_mutex_unlock(&ep->handlers.lock);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ret;
}

/* ---- From other threads ------------------------------------------------ */

static void wake(struct unetmm_ep_private *ep)
{
    sys_eventfd_add(ep->event_fd);
}

static void resume(struct unetmm_ep_private *ep)
{
    struct unetmm_handlers *h = &ep->handlers;
    struct unetmm_ep *pub = &ep->pub;
    int there;

    pthread_cond_broadcast(&h->change);
    if (!h->asleep) {
        return;
    }
    if (pub->unrung) {
        unetmm_ring(pub);
    }
    /* Has anything been taken, or a wake-up been used, that it waits for? */
    unetmm_next_flags_(pub, pub->cq_cons, &there);
    if (there || pub->stashed || pub->cq_cons != h->armed_at || unetmm_watch_due(ep) ||
        unetmm_read_word(&pub->index->card.state) &
        (UNETMM_EP_ERROR | UNETMM_EP_CQ_BLOCKED)) {
        wake(ep);
    }
}

/* ---- Blocking ---------------------------------------------------------- */

int unetmm_handlers_block(struct unetmm_ep *pub)
{
    struct unetmm_ep_private *ep = unetmm_ep_private(pub);
    struct unetmm_handlers *h = &ep->handlers;

    if (!pub->alive) {
        return -EOWNERDEAD;
    }
    pthread_mutex_lock(&h->lock);
    atomic_fetch_add(&h->blocked, 1);
    if (unetmm_in_handler(ep)) {
        h->inner++;
    } else {
        while (h->busy) {
            sys_cond_wait(&h->change, &h->lock);
        }
    }
    pthread_mutex_unlock(&h->lock);
    return 0;
}

int unetmm_handlers_unblock(struct unetmm_ep *pub)
{
    struct unetmm_ep_private *ep = unetmm_ep_private(pub);
    struct unetmm_handlers *h = &ep->handlers;
    int ret = -EPERM;

    if (!pub->alive) {
        return -EOWNERDEAD;
    }
    pthread_mutex_lock(&h->lock);
    if (unetmm_in_handler(ep)) {
        if (h->inner) {
            h->inner--;
            atomic_fetch_sub(&h->blocked, 1);
            ret = 0;
        }
    } else if (atomic_load(&h->blocked)) {
        ret = atomic_fetch_sub(&h->blocked, 1) == 1;
        if (ret && h->has_thread) {
            resume(ep);
        }
    }
    pthread_mutex_unlock(&h->lock);
    return ret;
}

int unetmm_handlers_stop(struct unetmm_ep *pub)
{
    struct unetmm_ep_private *ep = unetmm_ep_private(pub);
    struct unetmm_handlers *h = &ep->handlers;
    int ret;

    if (!pub->alive) {
        return -EOWNERDEAD;
    }
    if (unetmm_in_handler(ep)) {
        return -EDEADLK;
    }
    pthread_mutex_lock(&h->lock);
    /* Is there none, or does another caller end it already? */
    ret = !h->has_thread || atomic_exchange(&h->stop, true) ? -ESRCH : 0;
    pthread_cond_broadcast(&h->change);
    pthread_mutex_unlock(&h->lock);
    if (ret) {
        return ret;
    }
    wake(ep);
    sys_join(h->thread);
    pthread_mutex_lock(&h->lock);
    h->has_thread = false;
    ret = h->error;
    pthread_mutex_unlock(&h->lock);
    return ret;
}

void unetmm_thread_leave(struct unetmm_ep_private *ep)
{
    if (!ep->handlers.has_thread) {
        return;
    }
    if (unetmm_in_handler(ep)) {
        /* It ends when the handler returns, and nobody can wait for it. */
        pthread_detach(pthread_self());
    } else {
        unetmm_handlers_stop(&ep->pub);
    }
}
