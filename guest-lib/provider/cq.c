/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Completion queues.
 *
 * A ring of entries in the program's memory, which grows: the completions of a
 * port may be for two queues, so a reader of one of them must be able to put aside
 * those of the other.
 *
 * The wait object is an epoll descriptor over the ports' descriptors and an eventfd.
 * The latter is written when another thread has put an entry into the ring of a
 * waiter: it has taken the port's wake-up.
 */
#include "provider.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define RING_LEAST  256u

/* The reader may take completions from the card itself: one port, an empty ring, nothing lost. */
static void set_only(struct umfi_cq *cq)
{
    cq->only = cq->nports == 1 && cq->prod == cq->cons && !cq->overrun ?
        cq->ports[0] : NULL;
}

static void progress_ports(struct umfi_cq *cq)
{
    for (unsigned i = 0; i < cq->nports; i++) {
        umfi_port_progress(cq->ports[i]);
    }
}

/* An entry in the reader's format, of so many bytes. */
static inline void store_entry(void *to, const struct fi_cq_tagged_entry *entry, size_t bytes)
{
    struct fi_cq_tagged_entry *e = to;

    e->op_context = entry->op_context;
    if (bytes == sizeof(struct fi_cq_entry)) {
        return;
    }
    e->flags = entry->flags;
    e->len = entry->len;
    if (bytes == sizeof(struct fi_cq_msg_entry)) {
        return;
    }
    e->buf = entry->buf;
    e->data = entry->data;
    if (bytes == sizeof(struct fi_cq_tagged_entry)) {
        e->tag = entry->tag;
    }
}

/*
 * With the lock, which it drops.  These are functions of their own so that cq_read()
 * needs no stack frame where it does not call them.
 */
UMFI_RARE ssize_t read_locked(struct umfi_cq *cq, void *buf, size_t count)
{
    size_t bytes = cq->entry_bytes, n = 0;
    ssize_t ret;

    if (cq->prod == cq->cons) {
        progress_ports(cq);
    }
    ret = cq->overrun ? -FI_EOVERRUN : -FI_EAGAIN;
    while (cq->prod != cq->cons) {
        const struct umfi_entry *entry = &cq->ring[cq->cons & cq->mask];

        if (entry->err) {
            ret = -FI_EAVAIL;
            break;
        }
        if (n == count) {
            break;
        }
        store_entry((char *)buf + n++ * bytes, &entry->e, bytes);
        cq->cons++;
    }
    set_only(cq);
    umfi_unlock(cq->domain);
    return n ? (ssize_t)n : ret;
}

/* Another thread has the lock. */
UMFI_RARE ssize_t read_behind(struct umfi_cq *cq, void *buf, size_t count)
{
    umfi_lock(cq->domain);
    return read_locked(cq, buf, count);
}

/*
 * The usual case: the next completion of the only port is the success of one descriptor, and
 * for this queue.  It goes from where the card has put it to the reader, in entries of so many
 * bytes.  False: there is none, or it is another case, which is left to read_locked().
 */
SYS_INLINE bool read_usual_entry(const struct umfi_cq *cq, struct umfi_port *port,
                                 struct unetmm_ep *card_ep, void *buf, size_t bytes)
{
    struct fi_cq_tagged_entry entry;
    struct unetmm_completion c;
    struct umfi_op *op;

    if (!unetmm_peek(card_ep, &c)) {
        return false;
    }
    op = (struct umfi_op *)(uintptr_t)c.user_data;
    if (c.status || !op) {
        return false;
    }
    if (c.type == UNETMM_CQE_SENT && op->usual_owner == cq) {
        umfi_fill_done(&entry, op, op->len);
        store_entry(buf, &entry, bytes);
        op->ep->sends--;
        umfi_op_free(&port->tx, op);
    } else if (c.type == UNETMM_CQE_RECEIVED && op->usual_owner == port && c.len <= op->len) {
        const struct umfi_ep *ep = umfi_port_find_ep(port, c.channel);

        if (!ep || ep->rx_cq != cq) {
            return false;
        }
        umfi_fill_received(&entry, op, &c);
        store_entry(buf, &entry, bytes);
        umfi_op_free(&port->rx, op);
    } else {
        return false;
    }
    unetmm_take(card_ep);
    return true;
}

/* One entry has been taken, and the reader has room for more, or the card is to be told. */
UMFI_RARE ssize_t read_further_entries(struct umfi_cq *cq, char *buf, size_t count)
{
    struct umfi_port *port = cq->only;
    struct unetmm_ep *card_ep = port->ep;
    size_t n = 1, bytes = cq->entry_bytes;

    while (n < count && read_usual_entry(cq, port, card_ep, buf + n * bytes, bytes)) {
        n++;
    }
    if (unetmm_card_waits(card_ep)) {
        unetmm_poll(card_ep, NULL, 0);
    }
    umfi_unlock(cq->domain);
    return (ssize_t)n;
}

SYS_INLINE ssize_t read_entries(struct fid_cq *fid, void *buf, size_t count, size_t bytes)
{
    struct umfi_cq *cq = umfi_of(fid, struct umfi_cq, fid);
    struct unetmm_ep *card_ep;

    if (__builtin_expect(!sys_lock_try(&cq->domain->lock), 0)) {
        return read_behind(cq, buf, count);
    }
    if (!cq->only || !count) {
        return read_locked(cq, buf, count);
    }
    card_ep = cq->only->ep;
    if (!read_usual_entry(cq, cq->only, card_ep, buf, bytes)) {
        return read_locked(cq, buf, count);
    }
    if (count > 1 || unetmm_card_waits(card_ep)) {
        return read_further_entries(cq, buf, count);
    }
    sys_lock_drop(&cq->domain->lock);
    return 1;
}

/* One for each format: the compiler leaves out the tests for it. */
static ssize_t read_context(struct fid_cq *fid, void *buf, size_t count)
{
    return read_entries(fid, buf, count, sizeof(struct fi_cq_entry));
}

static ssize_t read_msg(struct fid_cq *fid, void *buf, size_t count)
{
    return read_entries(fid, buf, count, sizeof(struct fi_cq_msg_entry));
}

static ssize_t read_data(struct fid_cq *fid, void *buf, size_t count)
{
    return read_entries(fid, buf, count, sizeof(struct fi_cq_data_entry));
}

static ssize_t read_tagged(struct fid_cq *fid, void *buf, size_t count)
{
    return read_entries(fid, buf, count, sizeof(struct fi_cq_tagged_entry));
}

static ssize_t cq_readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src)
{
    ssize_t ret = fi_cq_read(fid, buf, count);

    for (ssize_t i = 0; src && i < ret; i++) {
        src[i] = FI_ADDR_NOTAVAIL;
    }
    return ret;
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *buf,
                          uint64_t flags)
{
    struct umfi_cq *cq = umfi_of(fid, struct umfi_cq, fid);
    const struct umfi_entry *entry;
    ssize_t ret = -FI_EAGAIN;

    umfi_lock(cq->domain);
    entry = &cq->ring[cq->cons & cq->mask];
    if (cq->prod != cq->cons && entry->err) {
        buf->op_context = entry->e.op_context;
        buf->flags = entry->e.flags;
        buf->len = entry->e.len;
        buf->buf = entry->e.buf;
        buf->data = entry->e.data;
        buf->tag = 0;
        buf->olen = entry->olen;
        buf->err = entry->err;
        buf->prov_errno = entry->status;
        if (!umfi_is_old_caller(cq->domain->fabric)) {
            /* There is none, whichever way the caller wants it. */
            buf->err_data_size = 0;
        }
        if (!(flags & FI_PEEK)) {
            cq->cons++;
            set_only(cq);
        }
        ret = 1;
    }
    umfi_unlock(cq->domain);
    return ret;
}

/*
 * True: there are completions.  A port that has failed will have no more; arming empties
 * its descriptor all the same.
 */
static bool arm_port(struct umfi_port *port)
{
    return unetmm_arm(port->ep) && !port->failed;
}

/*
 * Others may be asleep behind the same descriptor.  So the eventfd stays readable as long
 * as there are entries, and a wake-up of a port that this caller takes, without sleeping,
 * is given to the others by the eventfd.
 */
static int prepare_wait(struct umfi_cq *cq)
{
    eventfd_t count;
    int ret = 0;

    if (cq->epoll < 0) {
        return -FI_EINVAL;
    }
    umfi_lock(cq->domain);
    if (cq->prod != cq->cons || cq->signaled || cq->overrun) {
        ret = -FI_EAGAIN;
    } else {
        eventfd_read(cq->event_fd, &count);
        for (unsigned i = 0; !ret && i < cq->nports; i++) {
            ret = arm_port(cq->ports[i]) ? -FI_EAGAIN : 0;
        }
        if (!ret) {
            cq->armed = true;
        } else {
            umfi_cq_wake_reader(cq);
        }
    }
    umfi_unlock(cq->domain);
    return ret;
}

static bool was_signaled(struct umfi_cq *cq)
{
    bool was;

    umfi_lock(cq->domain);
    was = cq->signaled;
    cq->signaled = false;
    umfi_unlock(cq->domain);
    return was;
}

/* A signal ends one wait, as in fi_cq_sread(). */
int umfi_cq_trywait(struct umfi_cq *cq)
{
    int ret = prepare_wait(cq);

    if (ret) {
        was_signaled(cq);
    }
    return ret;
}

static ssize_t cq_sread(struct fid_cq *fid, void *buf, size_t count, const void *cond,
                        int timeout)
{
    struct umfi_cq *cq = umfi_of(fid, struct umfi_cq, fid);
    int64_t end = timeout < 0 ? INT64_MAX : umfi_now_ms() + timeout;

    if (cq->epoll < 0) {
        return -FI_EINVAL;
    }
    for (;;) {
        ssize_t ret = fi_cq_read(fid, buf, count);
        int64_t left = end == INT64_MAX ? -1 : end - umfi_now_ms();
        struct epoll_event event;

        if (ret != -FI_EAGAIN || was_signaled(cq) || (end != INT64_MAX && left <= 0)) {
            return ret;
        }
        if (prepare_wait(cq)) {
            continue;
        }
        if (epoll_wait(cq->epoll, &event, 1, (int)left) < 0 && errno != EINTR) {
            return -errno;
        }
    }
}

static ssize_t cq_sreadfrom(struct fid_cq *fid, void *buf, size_t count,
                            fi_addr_t *src, const void *cond, int timeout)
{
    ssize_t ret = cq_sread(fid, buf, count, cond, timeout);

    for (ssize_t i = 0; src && i < ret; i++) {
        src[i] = FI_ADDR_NOTAVAIL;
    }
    return ret;
}

static int cq_signal(struct fid_cq *fid)
{
    struct umfi_cq *cq = umfi_of(fid, struct umfi_cq, fid);

    if (cq->epoll < 0) {
        return -FI_EINVAL;
    }
    umfi_lock(cq->domain);
    cq->signaled = true;
    eventfd_write(cq->event_fd, 1);
    umfi_unlock(cq->domain);
    return 0;
}

/* prov_errno is the status that the card gave, 0: the provider's own error. */
static const char *cq_strerror(struct fid_cq *fid, int prov_errno, const void *data,
                               char *buf, size_t len)
{
    const char *text = prov_errno ? unetmm_status_str((unsigned)prov_errno) :
        "the operation was cancelled, or its buffer was too short";

    if (buf && len) {
        strncpy(buf, text, len - 1);
        buf[len - 1] = '\0';
    }
    return text;
}

/* ---- Ports ----------------------------------------------------------------- */

int umfi_cq_attach(struct umfi_cq *cq, struct umfi_port *port)
{
    struct epoll_event event = { .events = EPOLLIN };
    struct umfi_port **ports;
    unsigned *users;

    sys_assert_held(&cq->domain->lock);
    for (unsigned i = 0; i < cq->nports; i++) {
        if (cq->ports[i] == port) {
            cq->port_users[i]++;
            return 0;
        }
    }
    ports = realloc(cq->ports, (cq->nports + 1) * sizeof(*ports));
    if (!ports) {
        return -FI_ENOMEM;
    }
    cq->ports = ports;
    users = realloc(cq->port_users, (cq->nports + 1) * sizeof(*users));
    if (!users) {
        return -FI_ENOMEM;
    }
    cq->port_users = users;
    if (cq->epoll >= 0 &&
        epoll_ctl(cq->epoll, EPOLL_CTL_ADD, unetmm_fd(port->ep), &event)) {
        return -errno;
    }
    ports[cq->nports] = port;
    users[cq->nports++] = 1;
    set_only(cq);
    /* The new port is not armed: a sleeping reader has to look again. */
    umfi_cq_wake_reader(cq);
    return 0;
}

void umfi_cq_detach(struct umfi_cq *cq, struct umfi_port *port)
{
    sys_assert_held(&cq->domain->lock);
    for (unsigned i = 0; i < cq->nports; i++) {
        if (cq->ports[i] != port || --cq->port_users[i]) {
            continue;
        }
        if (cq->epoll >= 0) {
            epoll_ctl(cq->epoll, EPOLL_CTL_DEL, unetmm_fd(port->ep), NULL);
        }
        cq->ports[i] = cq->ports[--cq->nports];
        cq->port_users[i] = cq->port_users[cq->nports];
        set_only(cq);
        return;
    }
}

/* ---- Opening and closing --------------------------------------------------- */

static int cq_close(fid_t fid)
{
    struct umfi_cq *cq = umfi_of(fid, struct umfi_cq, fid.fid);

    if (__atomic_load_n(&cq->users, __ATOMIC_ACQUIRE)) {
        return -FI_EBUSY;
    }
    if (cq->epoll >= 0) {
        close(cq->epoll);
        close(cq->event_fd);
    }
    __atomic_sub_fetch(&cq->domain->users, 1, __ATOMIC_RELEASE);
    free(cq->ports);
    free(cq->port_users);
    free(cq->ring);
    free(cq);
    return 0;
}

static int cq_control(fid_t fid, int command, void *arg)
{
    struct umfi_cq *cq = umfi_of(fid, struct umfi_cq, fid.fid);

    switch (command) {
    case FI_GETWAIT:
        if (cq->epoll < 0) {
            return -FI_ENODATA;
        }
        *(int *)arg = cq->epoll;
        return 0;
    case FI_GETWAITOBJ:
        *(enum fi_wait_obj *)arg = cq->epoll < 0 ? FI_WAIT_NONE : FI_WAIT_FD;
        return 0;
    default:
        return -FI_ENOSYS;
    }
}

static struct fi_ops cq_fi_ops = {
    .size = sizeof(cq_fi_ops),
    .close = cq_close,
    .bind = umfi_no_bind,
    .control = cq_control,
    .ops_open = umfi_no_ops_open,
};

static const struct fi_ops_cq cq_ops = {
    .size = sizeof(cq_ops),
    .readfrom = cq_readfrom,
    .readerr = cq_readerr,
    .sread = cq_sread,
    .sreadfrom = cq_sreadfrom,
    .signal = cq_signal,
    .strerror = cq_strerror,
};

static int open_wait_object(struct umfi_cq *cq, enum fi_wait_obj kind)
{
    struct epoll_event event = { .events = EPOLLIN };
    int ret;

    cq->epoll = cq->event_fd = -1;
    if (kind == FI_WAIT_NONE) {
        return 0;
    }
    cq->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    cq->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (cq->event_fd >= 0 && cq->epoll >= 0 &&
        !epoll_ctl(cq->epoll, EPOLL_CTL_ADD, cq->event_fd, &event)) {
        return 0;
    }
    ret = -errno;
    if (cq->event_fd >= 0) {
        close(cq->event_fd);
    }
    if (cq->epoll >= 0) {
        close(cq->epoll);
    }
    return ret;
}

static const struct format {
    size_t bytes;
    ssize_t (*read)(struct fid_cq *fid, void *buf, size_t count);
} formats[] = {
    [FI_CQ_FORMAT_UNSPEC] = { sizeof(struct fi_cq_entry), read_context },
    [FI_CQ_FORMAT_CONTEXT] = { sizeof(struct fi_cq_entry), read_context },
    [FI_CQ_FORMAT_MSG] = { sizeof(struct fi_cq_msg_entry), read_msg },
    [FI_CQ_FORMAT_DATA] = { sizeof(struct fi_cq_data_entry), read_data },
    [FI_CQ_FORMAT_TAGGED] = { sizeof(struct fi_cq_tagged_entry), read_tagged },
};

int umfi_cq_open(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **out,
                 void *context)
{
    struct umfi_domain *domain = umfi_of(fid, struct umfi_domain, fid);
    struct umfi_cq *cq;
    int ret;

    if ((size_t)attr->format >= sizeof(formats) / sizeof(formats[0]) ||
        (attr->wait_obj != FI_WAIT_NONE && attr->wait_obj != FI_WAIT_UNSPEC &&
         attr->wait_obj != FI_WAIT_FD) || attr->wait_cond != FI_CQ_COND_NONE) {
        return -FI_ENOSYS;
    }
    cq = calloc(1, sizeof(*cq));
    if (!cq) {
        return -FI_ENOMEM;
    }
    cq->ring = malloc(RING_LEAST * sizeof(*cq->ring));
    ret = cq->ring ? open_wait_object(cq, attr->wait_obj) : -FI_ENOMEM;
    if (ret) {
        free(cq->ring);
        free(cq);
        return ret;
    }
    cq->mask = RING_LEAST - 1;
    cq->entry_bytes = formats[attr->format].bytes;
    cq->ops = cq_ops;
    cq->ops.read = formats[attr->format].read;
    cq->domain = domain;
    cq->fid.fid.fclass = FI_CLASS_CQ;
    cq->fid.fid.context = context;
    cq->fid.fid.ops = &cq_fi_ops;
    cq->fid.ops = &cq->ops;
    __atomic_add_fetch(&domain->users, 1, __ATOMIC_RELAXED);
    *out = &cq->fid;
    return 0;
}
