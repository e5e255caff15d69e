/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The list of events of an event queue, and its timer.
 */
#include "provider.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

struct umfi_event *umfi_event_unlink(struct umfi_eq *eq, struct umfi_event **at)
{
    struct umfi_event *event = *at;
    eventfd_t count;

    sys_assert_held(&eq->lock);
    *at = event->next;
    if (!event->next) {
        eq->tail = at;
    }
    if (!eq->head && !eq->overrun) {
        eventfd_read(eq->event_fd, &count);
    }
    return event;
}

int umfi_eq_push_event(struct umfi_eq *eq, uint32_t type, fid_t fid, int err,
                       struct fi_info *info, const void *data, size_t len)
{
    struct umfi_event *event = malloc(sizeof(*event) + len);

    if (!event) {
        UMFI_WARN(FI_LOG_EQ, "no memory for event %u\n", type);
        fi_freeinfo(info);
        return -FI_ENOMEM;
    }
    *event = (struct umfi_event) {
        .event = type, .err = err, .fid = fid, .info = info, .len = len,
    };
    if (len) {
        memcpy(event->data, data, len);
    }
    sys_lock_take(&eq->lock);
    if (eq->overrun) {
        sys_lock_drop(&eq->lock);
        fi_freeinfo(info);
        free(event);
        return -FI_EOVERRUN;
    }
    *eq->tail = event;
    eq->tail = &event->next;
    eventfd_write(eq->event_fd, 1);
    sys_lock_drop(&eq->lock);
    return 0;
}

void umfi_ep_push_event(struct umfi_ep *ep, uint32_t type, int err, const void *data, size_t len)
{
    struct umfi_eq *eq = ep->eq;

    if (umfi_eq_push_event(eq, type, &ep->fid.fid, err, NULL, data, len)) {
        sys_lock_take(&eq->lock);
        eq->overrun = true;
        eventfd_write(eq->event_fd, 1);
        sys_lock_drop(&eq->lock);
    }
}

void umfi_eq_remove_events(struct umfi_eq *eq, fid_t fid)
{
    struct umfi_event **at;

    sys_lock_take(&eq->lock);
    for (at = &eq->head; *at;) {
        if ((*at)->fid == fid) {
            struct umfi_event *event = umfi_event_unlink(eq, at);

            fi_freeinfo(event->info);
            free(event);
        } else {
            at = &(*at)->next;
        }
    }
    sys_lock_drop(&eq->lock);
}

bool umfi_eq_withdraw_request(struct umfi_eq *eq, fid_t handle)
{
    struct umfi_event *found = NULL;

    sys_lock_take(&eq->lock);
    for (struct umfi_event **at = &eq->head; *at; at = &(*at)->next) {
        if ((*at)->info && (*at)->info->handle == handle) {
            found = (*at)->peeked ? NULL : umfi_event_unlink(eq, at);
            break;
        }
    }
    sys_lock_drop(&eq->lock);
    if (!found) {
        return false;
    }
    fi_freeinfo(found->info);
    free(found);
    return true;
}

/* Under the lock, so that the last caller sets it by the latest count. */
void umfi_eq_set_timer(struct umfi_eq *eq)
{
    struct itimerspec when = { .it_value = { 0 } };

    sys_lock_take(&eq->lock);
    if (__atomic_load_n(&eq->channels, __ATOMIC_ACQUIRE)) {
        when.it_value.tv_nsec = UMFI_LOOK_MS * 1000000l;
    }
    timerfd_settime(eq->timer, 0, &when, NULL);
    sys_lock_drop(&eq->lock);
}
