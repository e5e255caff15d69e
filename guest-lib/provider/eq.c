/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Event queues.
 *
 * Reading one makes progress with the connections of the whole fabric.  A blocked
 * reader sleeps in epoll until a CM port has something or an event is pushed.  A
 * peer that ends a connection is learnt of from the connection's port, whose
 * descriptor is left to the completion queue's waiter: were it watched here too,
 * each message would wake a thread that waits for events.  So the queue's descriptor
 * becomes readable UMFI_LOOK_MS after fi_trywait() as well, while it has connections or
 * accepts that have not ended, and the reader looks at the ports.
 */
#include "provider.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* Stores a struct fi_eq_cm_entry, or the entry of fi_eq_write() as it was written. */
static ssize_t store_event(const struct umfi_event *event, void *buf, size_t len)
{
    struct fi_eq_cm_entry *entry = buf;
    size_t data;

    if (event->event == FI_NOTIFY) {
        if (len < event->len) {
            return -FI_ETOOSMALL;
        }
        memcpy(buf, event->data, event->len);
        return (ssize_t)event->len;
    }
    if (len < sizeof(*entry)) {
        return -FI_ETOOSMALL;
    }
    data = len - sizeof(*entry) < event->len ? len - sizeof(*entry) : event->len;
    entry->fid = event->fid;
    entry->info = event->info;
    memcpy(entry->data, event->data, data);
    return (ssize_t)(sizeof(*entry) + data);
}

static ssize_t read_event(struct umfi_eq *eq, uint32_t *type, void *buf, size_t len,
                          uint64_t flags)
{
    struct umfi_event *event;
    ssize_t ret = -FI_EAGAIN;

    sys_lock_take(&eq->lock);
    event = eq->head;
    if (event && event->err) {
        ret = -FI_EAVAIL;
    } else if (event) {
        ret = store_event(event, buf, len);
        if (ret > 0) {
            *type = event->event;
            if (flags & FI_PEEK) {
                event->peeked = true;
            } else {
                free(umfi_event_unlink(eq, &eq->head));
            }
        }
    } else if (eq->overrun) {
        ret = -FI_EOVERRUN;
    }
    sys_lock_drop(&eq->lock);
    return ret;
}

static ssize_t eq_read(struct fid_eq *fid, uint32_t *type, void *buf, size_t len,
                       uint64_t flags)
{
    struct umfi_eq *eq = umfi_of(fid, struct umfi_eq, fid);
    ssize_t ret = read_event(eq, type, buf, len, flags);

    if (ret != -FI_EAGAIN) {
        return ret;
    }
    sys_lock_take(&eq->fabric->lock);
    umfi_cm_progress(eq->fabric);
    sys_lock_drop(&eq->fabric->lock);
    return read_event(eq, type, buf, len, flags);
}

static ssize_t eq_readerr(struct fid_eq *fid, struct fi_eq_err_entry *entry,
                          uint64_t flags)
{
    struct umfi_eq *eq = umfi_of(fid, struct umfi_eq, fid);
    bool old = umfi_is_old_caller(eq->fabric);
    void *data = old ? NULL : entry->err_data;
    size_t room = old ? 0 : entry->err_data_size;
    struct umfi_event *event;
    ssize_t ret = -FI_EAGAIN;

    sys_lock_take(&eq->lock);
    event = eq->head;
    if (event && event->err) {
        memset(entry, 0, sizeof(*entry));
        entry->fid = event->fid;
        entry->context = event->fid->context;
        entry->err = entry->prov_errno = event->err;
        if (data && room) {
            entry->err_data_size = room < event->len ? room : event->len;
            entry->err_data = memcpy(data, event->data, entry->err_data_size);
        } else {
            entry->err_data = event->data;
            entry->err_data_size = event->len;
        }
        if (!(flags & FI_PEEK)) {
            umfi_event_unlink(eq, &eq->head);
            /* The data is good until the next call. */
            free(eq->err_data);
            eq->err_data = event;
        }
        ret = sizeof(*entry);
    }
    sys_lock_drop(&eq->lock);
    return ret;
}

static ssize_t eq_write(struct fid_eq *fid, uint32_t type, const void *buf,
                        size_t len, uint64_t flags)
{
    struct umfi_eq *eq = umfi_of(fid, struct umfi_eq, fid);
    const struct fi_eq_entry *entry = buf;
    int ret;

    if (type != FI_NOTIFY || len < sizeof(*entry)) {
        return -FI_EINVAL;
    }
    ret = umfi_eq_push_event(eq, type, entry->fid, 0, NULL, buf, len);
    return ret ? ret : (ssize_t)len;
}

int umfi_eq_trywait(struct umfi_eq *eq)
{
    int ret;

    sys_lock_take(&eq->lock);
    ret = eq->head || eq->overrun ? -FI_EAGAIN : 0;
    sys_lock_drop(&eq->lock);
    if (ret) {
        return ret;
    }
    sys_lock_take(&eq->fabric->lock);
    ret = umfi_cm_arm_ports(eq->fabric) ? -FI_EAGAIN : 0;
    sys_lock_drop(&eq->fabric->lock);
    if (!ret) {
        umfi_eq_set_timer(eq);
    }
    return ret;
}

static ssize_t eq_sread(struct fid_eq *fid, uint32_t *type, void *buf, size_t len,
                        int timeout, uint64_t flags)
{
    struct umfi_eq *eq = umfi_of(fid, struct umfi_eq, fid);
    int64_t end = timeout < 0 ? INT64_MAX : umfi_now_ms() + timeout;

    for (;;) {
        ssize_t ret = eq_read(fid, type, buf, len, flags);
        int64_t left = end == INT64_MAX ? UMFI_LOOK_MS : end - umfi_now_ms();
        struct epoll_event event;

        if (ret != -FI_EAGAIN || left <= 0) {
            return ret;
        }
        if (umfi_eq_trywait(eq)) {
            continue;
        }
        if (epoll_wait(eq->epoll, &event, 1,
                       (int)(left < UMFI_LOOK_MS ? left : UMFI_LOOK_MS)) < 0 &&
            errno != EINTR) {
            return -errno;
        }
    }
}

static const char *eq_strerror(struct fid_eq *fid, int prov_errno, const void *data,
                               char *buf, size_t len)
{
    if (buf && len) {
        strncpy(buf, fi_strerror(prov_errno), len - 1);
        buf[len - 1] = '\0';
    }
    return fi_strerror(prov_errno);
}

static void close_descriptors(struct umfi_eq *eq)
{
    const int all[] = { eq->event_fd, eq->timer, eq->epoll };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (all[i] >= 0) {
            close(all[i]);
        }
    }
}

static int eq_close(fid_t fid)
{
    struct umfi_eq *eq = umfi_of(fid, struct umfi_eq, fid.fid);

    if (__atomic_load_n(&eq->users, __ATOMIC_ACQUIRE)) {
        return -FI_EBUSY;
    }
    sys_lock_take(&eq->lock);
    while (eq->head) {
        struct umfi_event *event = umfi_event_unlink(eq, &eq->head);

        fi_freeinfo(event->info);
        free(event);
    }
    sys_lock_drop(&eq->lock);
    free(eq->err_data);
    close_descriptors(eq);
    __atomic_sub_fetch(&eq->fabric->users, 1, __ATOMIC_RELEASE);
    free(eq);
    return 0;
}

static int eq_control(fid_t fid, int command, void *arg)
{
    struct umfi_eq *eq = umfi_of(fid, struct umfi_eq, fid.fid);

    switch (command) {
    case FI_GETWAIT:
        *(int *)arg = eq->epoll;
        return 0;
    case FI_GETWAITOBJ:
        *(enum fi_wait_obj *)arg = FI_WAIT_FD;
        return 0;
    default:
        return -FI_ENOSYS;
    }
}

static struct fi_ops eq_fi_ops = {
    .size = sizeof(eq_fi_ops),
    .close = eq_close,
    .bind = umfi_no_bind,
    .control = eq_control,
    .ops_open = umfi_no_ops_open,
};

static struct fi_ops_eq eq_ops = {
    .size = sizeof(eq_ops),
    .read = eq_read,
    .readerr = eq_readerr,
    .write = eq_write,
    .sread = eq_sread,
    .strerror = eq_strerror,
};

static int open_descriptors(struct umfi_eq *eq)
{
    struct epoll_event event = { .events = EPOLLIN };
    int ret;

    eq->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    eq->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    eq->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (eq->event_fd >= 0 && eq->timer >= 0 && eq->epoll >= 0 &&
        !epoll_ctl(eq->epoll, EPOLL_CTL_ADD, eq->event_fd, &event) &&
        !epoll_ctl(eq->epoll, EPOLL_CTL_ADD, eq->timer, &event) &&
        !epoll_ctl(eq->epoll, EPOLL_CTL_ADD, eq->fabric->epoll, &event)) {
        return 0;
    }
    ret = -errno;
    close_descriptors(eq);
    return ret;
}

int umfi_eq_open(struct fid_fabric *fid, struct fi_eq_attr *attr, struct fid_eq **out,
                 void *context)
{
    struct umfi_fabric *fabric = umfi_of(fid, struct umfi_fabric, fid);
    struct umfi_eq *eq;
    int ret;

    if (attr && attr->wait_obj != FI_WAIT_NONE && attr->wait_obj != FI_WAIT_UNSPEC &&
        attr->wait_obj != FI_WAIT_FD) {
        return -FI_ENOSYS;
    }
    eq = calloc(1, sizeof(*eq));
    if (!eq) {
        return -FI_ENOMEM;
    }
    eq->fabric = fabric;
    ret = open_descriptors(eq);
    if (ret) {
        free(eq);
        return ret;
    }
    eq->tail = &eq->head;
    eq->fid.fid.fclass = FI_CLASS_EQ;
    eq->fid.fid.context = context;
    eq->fid.fid.ops = &eq_fi_ops;
    eq->fid.ops = &eq_ops;
    __atomic_add_fetch(&fabric->users, 1, __ATOMIC_RELAXED);
    *out = &eq->fid;
    return 0;
}
