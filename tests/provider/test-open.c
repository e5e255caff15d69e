/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Opening of each object, with one call of the library or of the system that fails: nothing
 * is left of the object, and the next try succeeds.
 */
#define SCENE_WHOLE
#include "../one_test.h"
#include "scene.h"

#include "cm.h"
#include "fake_caller.h"

#include <dirent.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/timerfd.h>

#define CALLS   100     /* more than any object makes */
#define CONTEXT ((void *)&info)

/* ---- The system's calls -------------------------------------------------------- */

void *__real_calloc(size_t n, size_t size);
void *__real_malloc(size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
int __real_epoll_create1(int flags);
int __real_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event);
int __real_timerfd_create(int clock, int flags);
ssize_t __real_getrandom(void *buf, size_t len, unsigned flags);

#define WRAP(type, name, error, parameters, arguments) \
    type __wrap_##name parameters; \
    type __wrap_##name parameters \
    { \
        if (fails()) { \
            errno = ENFILE; \
            return error; \
        } \
        return __real_##name arguments; \
    }

WRAP(void *, calloc, NULL, (size_t n, size_t size), (n, size))
WRAP(void *, malloc, NULL, (size_t size), (size))
WRAP(void *, realloc, NULL, (void *old, size_t size), (old, size))
WRAP(void *, aligned_alloc, NULL, (size_t alignment, size_t size), (alignment, size))
WRAP(int, epoll_create1, -1, (int flags), (flags))
WRAP(int, epoll_ctl, -1, (int epoll, int op, int fd, struct epoll_event *event),
     (epoll, op, fd, event))
WRAP(int, timerfd_create, -1, (int clock, int flags), (clock, flags))
WRAP(ssize_t, getrandom, 1, (void *buf, size_t len, unsigned flags), (buf, len, flags))

static unsigned descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned n = 0;

    assert_non_null(dir);
    while (readdir(dir)) {
        n++;
    }
    closedir(dir);
    return n;
}

/* ---- Objects ------------------------------------------------------------------- */

static struct fid_fabric *fabric;
static struct fid_eq *eq;
static struct fid_domain *domain;
static struct fid_cq *cq;
static struct fid_pep *pep;
static struct fid_ep *srx, *shared, *own;
static struct fid_mr *mr;
static struct fi_info info;

static int open_fabric(void)
{
    int ret = umfi_fabric_open(NULL, &fabric, CONTEXT);
    const struct umfi_fabric *new = umfi_of(fabric, struct umfi_fabric, fid);

    if (!ret) {
        const struct umfi_list *lists[] = {
            &new->cm_ports, &new->ports, &new->callees, &new->callees_ready, &new->calls_running,
            &new->calls_ended,
        };

        for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
            assert_ptr_equal(lists[i]->next, lists[i]);
        }
        assert_int_equal(new->next_export, 1);
    }
    return ret;
}

static int open_eq(void)
{
    return fi_eq_open(fabric, NULL, &eq, CONTEXT);
}

static int open_domain(void)
{
    return fi_domain(fabric, &info, &domain, CONTEXT);
}

static int open_cq(void)
{
    struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_FD };

    return fi_cq_open(domain, &attr, &cq, CONTEXT);
}

static int open_mr(void)
{
    return fi_mr_reg(domain, &info, 1, FI_REMOTE_READ, 0, 0, 0, &mr, CONTEXT);
}

static int open_pep(void)
{
    return fi_passive_ep(fabric, &info, &pep, CONTEXT);
}

static int listen_pep(void)
{
    return fi_listen(pep);
}

static int open_srx(void)
{
    return fi_srx_context(domain, NULL, &srx, CONTEXT);
}

static int open_ep(void)
{
    return fi_endpoint(domain, &info, &own, CONTEXT);
}

static int open_other(void)
{
    return fi_endpoint(domain, &info, &shared, CONTEXT);
}

static int bind_all(void)
{
    assert_int_equal(fi_pep_bind(pep, &eq->fid, 0), 0);
    assert_int_equal(fi_ep_bind(shared, &srx->fid, 0), 0);
    for (int i = 0; i < 2; i++) {
        struct fid_ep *ep = i ? shared : own;

        assert_int_equal(fi_ep_bind(ep, &eq->fid, 0), 0);
        assert_int_equal(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), 0);
    }
    return 0;
}

static int enable_own(void)
{
    return fi_enable(own);
}

static int enable_shared(void)
{
    return fi_enable(shared);
}

/* The error is that of its event. */
static int connect_own(void)
{
    const struct sockaddr_in to = { .sin_family = AF_INET };
    struct fi_eq_err_entry error = { 0 };
    int ret = fi_connect(own, &to, NULL, 0);

    return ret ? ret : fi_eq_readerr(eq, &error, 0) > 0 ? -error.err : 0;
}

static const struct step {
    const char *name;
    int (*make)(void);
    bool keeps;                 /* after an error there may be a new endpoint of the card */
} steps[] = {
    { "fabric", open_fabric }, { "eq", open_eq }, { "domain", open_domain },
    { "cq", open_cq }, { "mr", open_mr }, { "pep", open_pep }, { "srx", open_srx },
    { "ep", open_ep }, { "other ep", open_other },
    { "bind", bind_all }, { "listen", listen_pep },
    { "enable", enable_own }, { "enable shared", enable_shared },
    { "connect", connect_own, .keeps = true },
};

/* All objects that are made before that step; NULL: all */
static void open_before(int (*make)(void))
{
    context_fd = eventfd(0, EFD_NONBLOCK);
    ncards = 0;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && steps[i].make != make; i++) {
        assert_int_equal(steps[i].make(), 0);
    }
}

/* Returns the number of calls that could fail. */
static unsigned fail_each(const struct step *step)
{
    for (unsigned n = 0; n < CALLS; n++) {
        unsigned before = descriptors(), ncards_before = ncards;
        int held_before = held, ret;

        fail_in = (int)n;
        ret = step->make();
        if (fail_in >= 0) {
            fail_in = -1;
            assert_int_equal(ret, 0);
            return n;
        }
        if (ret >= 0 || ret == -FI_EMFILE) {
            fail_msg("%s: %d though call %u failed", step->name, ret, n);
        }
        if (!step->keeps && (descriptors() != before || held != held_before)) {
            fail_msg("%s leaves something when call %u fails", step->name, n);
        }
        ncards = held == held_before ? ncards_before : ncards;
    }
    fail();
    return 0;
}

static void close_all(void)
{
    fid_t const all[] = {
        &own->fid, &shared->fid, &srx->fid, &pep->fid, &mr->fid, &cq->fid, &domain->fid,
        &eq->fid, &fabric->fid,
    };
    static const size_t classes[] = {
        FI_CLASS_EP, FI_CLASS_EP, FI_CLASS_SRX_CTX, FI_CLASS_PEP, FI_CLASS_MR, FI_CLASS_CQ,
        FI_CLASS_DOMAIN, FI_CLASS_EQ, FI_CLASS_FABRIC,
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        assert_int_equal(all[i]->fclass, classes[i]);
        assert_ptr_equal(all[i]->context, CONTEXT);
        if (all[i] == &cq->fid) {
            assert_int_equal(umfi_of(cq, struct umfi_cq, fid)->nports, 0);
        }
        assert_int_equal(fi_close(all[i]), 0);
    }
}

/* Operations that no object has */
static void require_absent(void)
{
    struct fid_ep *none;
    struct fi_ops *const ops[] = {
        fabric->fid.ops, eq->fid.ops, domain->fid.ops, cq->fid.ops, mr->fid.ops,
        srx->fid.ops, pep->fid.ops, own->fid.ops,
    };
    const ssize_t results[] = {
        fabric->ops->wait_open(fabric, NULL, NULL),
        domain->ops->av_open(domain, NULL, NULL, NULL),
        domain->ops->scalable_ep(domain, NULL, NULL, NULL),
        domain->ops->cntr_open(domain, NULL, NULL, NULL),
        domain->ops->poll_open(domain, NULL, NULL),
        domain->ops->stx_ctx(domain, NULL, NULL, NULL),
        domain->ops->query_atomic(domain, FI_INT8, FI_SUM, NULL, 0),
        pep->cm->getpeer(NULL, NULL, NULL), pep->cm->connect(NULL, NULL, NULL, 0),
        pep->cm->accept(NULL, NULL, 0), pep->cm->shutdown(NULL, 0),
        pep->cm->join(NULL, NULL, 0, NULL, NULL), own->cm->setname(&own->fid, NULL, 0),
        own->cm->listen(NULL), own->cm->reject(NULL, NULL, NULL, 0),
        own->ops->cancel(&own->fid, NULL), own->ops->tx_ctx(own, 0, NULL, NULL, NULL),
        own->ops->rx_ctx(own, 0, NULL, NULL, NULL), own->ops->rx_size_left(own),
        own->ops->tx_size_left(own), fi_send(srx, NULL, 0, NULL, 0, NULL),
        fi_sendv(srx, NULL, NULL, 0, 0, NULL), fi_sendmsg(srx, NULL, 0),
        fi_inject(srx, NULL, 0, 0), fi_senddata(srx, NULL, 0, NULL, 0, 0, NULL),
        fi_injectdata(srx, NULL, 0, 0, 0),
    };

    info.handle = &cq->fid;
    assert_int_equal(fi_endpoint(domain, &info, &none, NULL), -FI_ECONNABORTED);
    info.handle = NULL;
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
        if (results[i] != -FI_ENOSYS) {
            fail_msg("result %zu: %zd", i, results[i]);
        }
    }
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        assert_int_equal(ops[i]->ops_open(NULL, NULL, 0, NULL, NULL), -FI_ENOSYS);
        /* Endpoints can be bound, and are the last two. */
        if (i < sizeof(ops) / sizeof(ops[0]) - 2) {
            assert_int_equal(ops[i]->bind(NULL, NULL, 0), -FI_ENOSYS);
        }
    }
}

TEST(all_fail_once, cmocka_unit_test)
{
    unsigned before;

    context_fd = eventfd(0, EFD_NONBLOCK);
    before = descriptors();
    for (unsigned pinned = 0; pinned < 2; pinned++) {
        umfi_config.source = pinned ? UNETMM_SOURCE_PINNED : UNETMM_SOURCE_ODP;
        ncards = 0;
        for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
            print_message("# %s: %u calls\n", steps[i].name, fail_each(&steps[i]));
        }
        require_absent();
        close_all();
        assert_int_equal(held, 0);
        assert_int_equal(descriptors(), before);
    }
    umfi_config.source = UNETMM_SOURCE_ODP;
    close(context_fd);
}

/* ---- Queues of the card ---------------------------------------------------------- */

/* Each depth is a power of two, as large as is wanted, and no larger than the card's. */
TEST(depths, cmocka_unit_test)
{
    static const struct {
        unsigned card_log2, channels;
        size_t tx, rx;
        uint32_t send, receive, completion, cm_send;
    } rows[] = {
        { 16, 8, 0, 0, 1024, 256, 2048, 32 },
        { 16, 256, 1, 1, UMFI_RMA_SLOTS, 16, 1024, 1024 },
        { 17, 300, 8192, 1, 32768, 16, 65536, 2048 },
        { 17, 8, 8193, 17, 65536, 32, 131072, 32 },
        { 12, 1024, 1024, 1024, 4096, 1024, 4096, 4096 },
        { 12, 2048, 4096, 8192, 4096, 4096, 4096, 4096 },
    };

    context_fd = eventfd(0, EFD_NONBLOCK);
    umfi_config.policy = UNETMM_POLICY_RNR;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fi_tx_attr tx = { .size = rows[i].tx };
        struct fi_rx_attr rx = { .size = rows[i].rx };
        struct unetmm_info *card = NULL;

        ncards = 0;
        info = (struct fi_info) { .tx_attr = &tx, .rx_attr = &rx };
        for (size_t step = 0; step < sizeof(steps) / sizeof(steps[0]); step++) {
            assert_int_equal(steps[step].make(), 0);
            if (steps[step].make == open_fabric) {
                card = &umfi_of(fabric, struct umfi_fabric, fid)->dev.limits;
                card->max_ring_log2 = (uint8_t)rows[i].card_log2;
                card->channels = rows[i].channels;
            } else if (steps[step].make == enable_own) {
                assert_int_equal(created.send_slots, rows[i].send);
                assert_int_equal(created.free_depth, rows[i].receive);
                assert_int_equal(created.completion_depth, rows[i].completion);
                assert_int_equal(created.flags, UNETMM_EP_NO_INLINE);
                assert_int_equal(created.policy, UNETMM_POLICY_RNR);
            } else if (steps[step].make == listen_pep) {
                /* A message for each channel, of three slots */
                assert_int_equal(created.send_slots, rows[i].cm_send);
                assert_int_equal(created.free_depth, 64);
                assert_int_equal(created.completion_depth, 1024);
                assert_int_equal(created.policy, UNETMM_POLICY_RNR);
            }
        }
        close_all();
    }
    info = (struct fi_info) { 0 };
    close(context_fd);
}

/* ---- Addresses --------------------------------------------------------------------- */

static void *get_name(void *got)
{
    size_t len = sizeof(struct sockaddr_in);

    return fi_getname(&pep->fid, got, &len) ? NULL : got;
}

/* fi_getname() of another thread waits while the address is changed. */
TEST(name_is_locked, cmocka_unit_test)
{
    struct sockaddr_in got = { 0 };
    struct umfi_fabric *owner;
    pthread_t thread;
    void *ret;

    open_before(bind_all);
    owner = umfi_of(fabric, struct umfi_fabric, fid);
    sys_lock_take(&owner->lock);
    assert_int_equal(pthread_create(&thread, NULL, get_name, &got), 0);
    while (__atomic_load_n(&owner->lock.state, __ATOMIC_ACQUIRE) != SYS_LOCK_AWAITED) {
        assert_int_equal(__atomic_load_n(&got.sin_family, __ATOMIC_ACQUIRE), 0);
    }
    umfi_of(pep, struct umfi_pep, fid)->address.sin_port = htons(5);
    sys_lock_drop(&owner->lock);
    assert_int_equal(pthread_join(thread, &ret), 0);
    assert_ptr_equal(ret, &got);
    assert_int_equal(got.sin_port, htons(5));
    close_all();
    close(context_fd);
}

TEST(names, cmocka_unit_test)
{
    struct sockaddr_in name = { .sin_family = AF_INET, .sin_port = htons(77) }, got;
    struct sockaddr_in odd = { .sin_family = AF_INET6 };
    size_t len = sizeof(got);

    info = (struct fi_info) { .src_addr = &odd, .src_addrlen = sizeof(odd) - 1 };
    open_before(bind_all);
    assert_int_equal(fi_setname(&pep->fid, &odd, sizeof(odd)), -FI_EINVAL);
    assert_int_equal(fi_setname(&pep->fid, &name, sizeof(name) - 1), -FI_EINVAL);
    assert_int_equal(fi_setname(&pep->fid, &name, sizeof(name)), 0);
    assert_int_equal(fi_getname(&pep->fid, &got, &len), 0);
    assert_int_equal(len, sizeof(got));
    assert_int_equal(got.sin_family, AF_INET);
    assert_int_equal(got.sin_port, htons(77));
    got.sin_port = 1;
    len = 2;
    assert_int_equal(fi_getname(&pep->fid, &got, &len), -FI_ETOOSMALL);
    assert_int_equal(len, sizeof(got));
    assert_int_equal(got.sin_port, 1);
    assert_int_equal(fi_listen(pep), -FI_ENOEQ);
    assert_int_equal(bind_all(), 0);
    assert_int_equal(fi_listen(pep), 0);
    assert_int_equal(fi_setname(&pep->fid, &name, sizeof(name)), -FI_EOPBADSTATE);
    close_all();
    info = (struct fi_info) { 0 };
    close(context_fd);
}

/* A port that joins a queue is not armed: a sleeping reader of the queue wakes. */
TEST(port_wakes_reader, cmocka_unit_test)
{
    struct fid *fids[1];
    struct pollfd fd = { .events = POLLIN };

    open_before(enable_own);
    fids[0] = &cq->fid;
    assert_int_equal(fi_control(&cq->fid, FI_GETWAIT, &fd.fd), 0);
    assert_int_equal(fi_trywait(fabric, fids, 1), 0);
    assert_int_equal(poll(&fd, 1, 0), 0);
    assert_int_equal(enable_own(), 0);
    assert_int_equal(poll(&fd, 1, 0), 1);
    /* A signal ends one wait. */
    assert_int_equal(fi_trywait(fabric, fids, 1), 0);
    assert_int_equal(fi_cq_signal(cq), 0);
    assert_int_equal(fi_trywait(fabric, fids, 1), -FI_EAGAIN);
    assert_int_equal(fi_trywait(fabric, fids, 1), 0);
    close_all();
    close(context_fd);
}

/* The first request comes while a thread sleeps at the event queue. */
TEST(request_wakes_sleeper, cmocka_unit_test)
{
    struct itimerspec left;
    struct umfi_eq *queue;
    struct fid *fids[1];

    open_before(connect_own);
    fids[0] = &eq->fid;
    queue = umfi_of(eq, struct umfi_eq, fid);
    assert_int_equal(fi_trywait(fabric, fids, 1), 0);
    assert_int_equal(timerfd_gettime(queue->timer, &left), 0);
    assert_int_equal(left.it_value.tv_nsec, 0);
    assert_int_equal(connect_own(), 0);
    assert_int_equal(timerfd_gettime(queue->timer, &left), 0);
    assert_int_not_equal(left.it_value.tv_nsec, 0);
    close_all();
    close(context_fd);
}

/* The card stops an endpoint that is idle: it connects no more, and takes no buffer. */
TEST(stopped_port, cmocka_unit_test)
{
    const struct sockaddr_in to = { .sin_family = AF_INET };
    struct umfi_port *port;
    char memory[8];

    open_before(connect_own);
    port = umfi_of(own, struct umfi_ep, fid)->port;
    card_of(port->ep)->stopped = true;
    umfi_lock(port->domain);
    umfi_port_progress(port);
    umfi_unlock(port->domain);
    assert_true(port->failed);
    assert_int_equal(fi_recv(own, memory, sizeof(memory), NULL, 0, NULL), -FI_ENOTCONN);
    assert_int_equal(fi_connect(own, &to, NULL, 0), -FI_EIO);
    close_all();
    close(context_fd);
}

/* The endpoint of a request gets the sizes, the limit and the flags that its listener was opened with. */
TEST(request_to_a_listener, cmocka_unit_test)
{
    const uint8_t request[] = { 'u', 'm', 'f', 'i', 2, 0, CM_REQUEST, 0 };
    struct fi_ep_attr ep_attr = {
        .max_msg_size = UMFI_MAX_RMA / 2, .rx_ctx_cnt = FI_SHARED_CONTEXT,
    };
    struct fi_tx_attr tx = { .size = 700, .op_flags = FI_INJECT };
    struct fi_rx_attr rx = { .size = 600, .op_flags = FI_COMPLETION };
    struct fi_eq_cm_entry entry;
    struct sockaddr_in own_address;
    size_t len = sizeof(own_address);
    struct card *card;
    uint32_t type;

    info = (struct fi_info) {
        .caps = FI_MSG, .ep_attr = &ep_attr, .tx_attr = &tx, .rx_attr = &rx,
    };
    open_before(NULL);
    card = card_of(umfi_of(pep, struct umfi_pep, fid)->port->ep);
    card->callers = 1;
    memset(card->buffers[0], 0, CM_BYTES);
    memcpy(card->buffers[0], request, sizeof(request));
    card->pending[card->npending++] = (struct unetmm_completion) {
        .type = UNETMM_CQE_RECEIVED, .len = CM_BYTES,
    };
    assert_int_equal(fi_eq_read(eq, &type, &entry, sizeof(entry), 0), sizeof(entry));
    assert_int_equal(type, FI_CONNREQ);
    assert_int_equal(entry.info->rx_attr->size, 600);
    assert_int_equal(entry.info->tx_attr->size, 700);
    assert_int_equal(entry.info->rx_attr->op_flags, FI_COMPLETION);
    assert_int_equal(entry.info->tx_attr->op_flags, FI_INJECT);
    assert_int_equal(entry.info->ep_attr->max_msg_size, UMFI_MAX_RMA / 2);
    assert_int_equal(entry.info->ep_attr->rx_ctx_cnt, FI_SHARED_CONTEXT);
    assert_int_equal(entry.info->caps & (FI_MSG | FI_RMA), FI_MSG);
    assert_string_equal(entry.info->fabric_attr->prov_name, UMFI_NAME);
    assert_int_equal(fi_getname(&pep->fid, &own_address, &len), 0);
    assert_int_equal(entry.info->src_addrlen, len);
    assert_memory_equal(entry.info->src_addr, &own_address, len);
    fi_freeinfo(entry.info);
    close_all();
    info = (struct fi_info) { 0 };
    close(context_fd);
}

/* Objects of another domain or fabric cannot be bound. */
TEST(foreign_objects, cmocka_unit_test)
{
    struct umfi_domain other = { 0 };
    struct umfi_fabric elsewhere = { 0 };
    struct umfi_srx *foreign;
    struct umfi_eq *queue;

    open_before(bind_all);
    foreign = umfi_of(srx, struct umfi_srx, fid);
    queue = umfi_of(eq, struct umfi_eq, fid);
    other.fabric = &elsewhere;
    foreign->domain = &other;
    assert_int_equal(fi_ep_bind(shared, &srx->fid, 0), -FI_EINVAL);
    foreign->domain = umfi_of(domain, struct umfi_domain, fid);
    queue->fabric = &elsewhere;
    assert_int_equal(fi_ep_bind(own, &eq->fid, 0), -FI_EINVAL);
    assert_int_equal(fi_pep_bind(pep, &eq->fid, 0), -FI_EINVAL);
    queue->fabric = umfi_of(fabric, struct umfi_fabric, fid);
    close_all();
    close(context_fd);
}

/* There is no memory for an entry: the reader learns of that behind those that are there. */
TEST(lost_entry, cmocka_unit_test)
{
    const struct umfi_entry entry = { .err = 0 };
    struct fi_cq_data_entry read;
    struct umfi_cq *queue;

    open_before(NULL);
    queue = umfi_of(cq, struct umfi_cq, fid);
    umfi_lock(queue->domain);
    for (uint32_t i = 0; i <= queue->mask; i++) {
        umfi_cq_push_entry(queue, &entry);
    }
    fail_in = 0;
    umfi_cq_push_entry(queue, &entry);
    umfi_unlock(queue->domain);
    for (uint32_t i = 0; i <= queue->mask; i++) {
        assert_int_equal(fi_cq_read(cq, &read, 1), 1);
    }
    assert_int_equal(fi_cq_read(cq, &read, 1), -FI_EOVERRUN);
    assert_int_equal(fi_cq_read(cq, &read, 1), -FI_EOVERRUN);
    close_all();
    close(context_fd);
}
