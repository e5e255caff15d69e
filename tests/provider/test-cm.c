/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Connection management: whose answer a message of a peer is. */
#include "../one_test.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <errno.h>

#include "cm.h"
#include "fake_caller.h"

#define CHANNELS    4
#define BUFFERS     64
#define PENDING     2048
#define BACKLOG     64
#define ROOM        1024    /* for completions that wait */
#define CM_BYTES    160     /* of a message */
#define CM_DATA     128     /* at its end, with their length before them */
#define CM_REQUEST  1
#define CM_ACCEPT   2
#define CM_REJECT   3
#define FIRST_PORT  32768   /* of those that nobody has asked for */
#define PORTS       28232
#define ANOTHER     1       /* card has the address */

/* ---- Time -------------------------------------------------------------------- */

static int64_t now_ms;

int __wrap_clock_gettime(clockid_t clock, struct timespec *t);

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    *t = (struct timespec) { .tv_sec = now_ms / 1000, .tv_nsec = now_ms % 1000 * 1000000 };
    return 0;
}

/* ---- The library, with one endpoint of the card ----------------------------- */

const uint32_t unetmm_inline_1_ = 1;
struct umfi_config umfi_config = { .source = UNETMM_SOURCE_ODP, .connect_ms = 1000 };
struct fi_provider umfi_provider = { .name = UMFI_NAME };

static int card_fds[2], context_fd;
static uint32_t mtu[CHANNELS];      /* 0: the number is free, or rests */
static bool told[CHANNELS];         /* their CLOSED has been written */
static uint8_t *buffers[BUFFERS];   /* that are posted */
static unsigned refusals;           /* of the next buffers, for want of memory */
static struct unetmm_completion pending[PENDING];
static uint8_t sent[CM_BYTES];      /* the last message */
static unsigned npending, requests, events;
static unsigned endpoints, created; /* of them: now, ever */
static int address_error;           /* of umfi_find_card(), or ANOTHER */
static const struct in_addr requester = { 7 };  /* of each request */
static struct in_addr changed_address;  /* in the neighbour table */
static unsigned asked;              /* its calls */
static int table_fd;                /* readable: the neighbour table has changed */
static fid_t unread;                /* handle of a request whose event nobody has read */
static unsigned polled;             /* completions taken by the last progress */
static bool endless;                /* peers send as fast as the provider reads */
static unsigned callers;            /* that wait for unetmm_accept() */
static uint8_t caller_mac;          /* each byte of the address of their card */
static bool stopped;                /* the endpoint, by the card */
static bool flooded;                /* by channel 2, before the ends of 0 and 1 */
static int listen_error;            /* of unetmm_listen_ex() */
static unsigned taken_ports;        /* that it finds, before one that is free */
static unsigned listens, last_port; /* its calls */
static int resolve_error;           /* of umfi_resolve() */
static int connect_error;           /* of unetmm_connect_ex() */
static struct umfi_cm_port *hasty;  /* its peers close at once, and another thread reads that */
static unsigned unreached;          /* EPs whose connector has no channel */
static const struct fid *event_fid;
static fid_t event_handle;          /* of a request */
static size_t event_limit, event_size, event_len;
static uint8_t event_data[CM_DATA];
static int event_error;
static struct sys_lock *fabric_lock;
static struct umfi_pep *listening;  /* its request that comes at once has its address */
static struct umfi_fabric *raced;   /* another thread opens a port for requests before it */
static struct umfi_cm_port *faster; /* ... this one */
static struct umfi_ep *closes;      /* another thread closes it while a port is opened */
static int create_error;            /* of the next unetmm_ep_create() */
static unsigned pinned;             /* regions */
static char logged[256];            /* the last line */
static int push_error;              /* the event queue takes no event */

/* The call may take long: others do not wait for it. */
static void require_free_lock(void)
{
    assert_true(sys_lock_try(fabric_lock));
    sys_lock_drop(fabric_lock);
}

static int card_queue(struct unetmm_ep *ep, const struct iovec *iov, unsigned n,
                      size_t len, int is_inline)
{
    assert_int_equal(len, CM_BYTES);
    memcpy(sent, iov[0].iov_base, len);
    requests++;
    return 0;
}

static int card_post(struct unetmm_ep *ep, void *buf, size_t len, uint64_t user_data,
                     unsigned flags)
{
    assert_int_equal(flags, 0);
    if (refusals) {
        refusals--;
        return -ENOMEM;
    }
    buffers[user_data] = buf;
    return 0;
}

static int card_poll(struct unetmm_ep *ep, struct unetmm_completion *c, unsigned n)
{
    assert_true(++polled <= 256 * ROOM);
    if (endless) {
        *c = (struct unetmm_completion) {
            .type = UNETMM_CQE_RECEIVED, .channel = 0, .is_inline = 1,
        };
        return 1;
    }
    if (!npending) {
        return stopped ? -EIO : 0;
    }
    *c = pending[0];
    memmove(pending, pending + 1, --npending * sizeof(pending[0]));
    return 1;
}

static const struct unetmm_rare_ops_ rare = {
    .queue = card_queue, .post = card_post, .poll = card_poll,
};
/* The endpoint, and the one that replaces it: all but their descriptors is the same. */
static struct unetmm_ep card_eps[2];

/* As fi_close(), until the EP's port ends. */
static void close_ep(struct umfi_ep *ep)
{
    sys_lock_take(&ep->domain->fabric->lock);
    umfi_cm_abandon_ep(ep);
    umfi_lock(ep->domain);
    umfi_ep_set_state(ep, UMFI_ENDED);
    umfi_unlock(ep->domain);
    sys_lock_drop(&ep->domain->fabric->lock);
}

int unetmm_ep_create(struct unetmm_ctx *ctx, const struct unetmm_ep_attr *attr,
                     struct unetmm_ep **ep)
{
    int error = create_error;
    bool race = raced;

    create_error = 0;
    if (race) {
        raced->request_port = faster;
        raced = NULL;
    }
    if (closes) {
        close_ep(closes);
        closes = NULL;
    }
    if (error) {
        return error;
    }
    *ep = &card_eps[created++ % 2];
    **ep = (struct unetmm_ep) {
        .alive = 1,
        .source = (const struct unetmm_source_ops_ *)&rare,
        .rare = &rare,
        .max_buffer_pages = UINT32_MAX,
        .inline_max = 256,
        .channels = CHANNELS,
        .channel_mtu = mtu,
    };
    endpoints++;
    if (race) {
        return 0;       /* The channels are those of the other port. */
    }
    npending = 0;
    memset(mtu, 0, sizeof(mtu));
    return 0;
}

int unetmm_ep_destroy(struct unetmm_ep *ep)
{
    endpoints--;
    return 0;
}

/* A completion of the channel that had the number has not been taken. */
static bool rests(unsigned channel)
{
    for (unsigned i = 0; i < npending; i++) {
        if (pending[i].channel == channel) {
            return true;
        }
    }
    return false;
}

/* The lowest number that is free, as the driver. */
static int open_channel(void)
{
    for (int i = 0; i < CHANNELS; i++) {
        if (!mtu[i] && (endless || !rests((unsigned)i))) {
            mtu[i] = 9000;
            told[i] = false;
            return i;
        }
    }
    return -ENOSPC;
}

static void close_channel(unsigned channel)
{
    told[channel] = true;
    pending[npending++] = (struct unetmm_completion) {
        .type = UNETMM_CQE_CLOSED, .channel = (uint16_t)channel,
        .status = UNETMM_ST_BAD_CHANNEL,
    };
}

int unetmm_connect_ex(struct unetmm_ep *ep, const uint8_t mac[6], uint64_t service,
                      int64_t timeout_ns, const struct unetmm_channel_attr *attr,
                      struct unetmm_peer *peer)
{
    int channel = connect_error ? connect_error : open_channel();

    if (hasty && channel >= 0) {
        close_channel((unsigned)channel);
        umfi_cm_port_progress(hasty);
    }
    return channel;
}

int unetmm_disconnect(struct unetmm_ep *ep, int channel)
{
    mtu[channel] = 0;
    for (unsigned i = 0; flooded && channel < 2 && i < (channel ? 100 : ROOM - 4); i++) {
        pending[npending++] = (struct unetmm_completion) {
            .type = UNETMM_CQE_RECEIVED, .channel = 2, .is_inline = 1,
        };
    }
    if (!told[channel]) {
        close_channel((unsigned)channel);
    }
    if (flooded && channel == 1) {
        callers = 2;
        flooded = false;
    }
    return 0;
}

int unetmm_fd(const struct unetmm_ep *ep)
{
    return card_fds[ep - card_eps];
}

int unetmm_ctx_fd(const struct unetmm_ctx *ctx)
{
    return context_fd;
}

const char *unetmm_strerror(int error, enum unetmm_call call)
{
    return "";
}

const char *unetmm_status_str(unsigned status)
{
    return "";
}

int unetmm_listen_ex(struct unetmm_ep *ep, uint64_t service, unsigned backlog,
                     const struct unetmm_channel_attr *attr)
{
    require_free_lock();
    last_port = (uint16_t)service;
    if (listening) {
        assert_int_equal(ntohs(listening->address.sin_port), last_port);
        /* Another thread's fi_close() */
        assert_int_equal(umfi_cm_unlisten(listening), -FI_EBUSY);
    }
    return listens++ < taken_ports ? -EADDRINUSE : listen_error;
}

int unetmm_listen(struct unetmm_ep *ep, uint64_t service, unsigned backlog)
{
    assert_int_equal(service, 0);
    return 0;
}

int unetmm_accept(struct unetmm_ep *ep, struct unetmm_peer *peer, int64_t timeout_ns)
{
    int channel = callers ? open_channel() : -EAGAIN;

    if (channel < 0) {
        return -EAGAIN;
    }
    callers--;
    memset(peer->mac, caller_mac, sizeof(peer->mac));
    peer->channel = (uint16_t)channel;
    return channel;
}

/* Not called: no test accepts a request. */
int unetmm_channel_info(struct unetmm_ep *ep, int channel,
                        struct unetmm_channel_info *info)
{
    fail();
    return 0;
}

int unetmm_arm(struct unetmm_ep *ep)
{
    return stopped || npending;
}

int unetmm_ep_id(const struct unetmm_ep *ep)
{
    fail();
    return 0;
}

int unetmm_register(struct unetmm_ctx *ctx, void *addr, size_t length, unsigned flags)
{
    require_free_lock();
    pinned++;
    return 0;
}

int unetmm_deregister(struct unetmm_ctx *ctx, void *addr, size_t length)
{
    pinned--;
    return 0;
}

int __wrap_fi_log_enabled(const struct fi_provider *prov, enum fi_log_level level,
                          enum fi_log_subsys subsys);
void __wrap_fi_log(const struct fi_provider *prov, enum fi_log_level level,
                   enum fi_log_subsys subsys, const char *func, int line, const char *fmt, ...);

int __wrap_fi_log_enabled(const struct fi_provider *prov, enum fi_log_level level,
                          enum fi_log_subsys subsys)
{
    return 1;
}

void __wrap_fi_log(const struct fi_provider *prov, enum fi_log_level level,
                   enum fi_log_subsys subsys, const char *func, int line, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(logged, sizeof(logged), fmt, args);
    va_end(args);
}

/* ---- The rest of the provider ------------------------------------------------ */

int umfi_resolve(const struct umfi_netdev *dev, struct in_addr to, uint8_t mac[6])
{
    memset(mac, 2, 6);
    return resolve_error;
}

int umfi_find_card(const struct umfi_netdev *dev, struct in_addr address, uint8_t mac[6])
{
    asked++;
    memset(mac, address_error == ANOTHER ? 3 : 2, 6);
    return address_error == ANOTHER ? 0 : address_error;
}

void umfi_neighbours_read(int fd, const struct umfi_netdev *dev, umfi_neighbour_fn *found,
                          void *arg)
{
    eventfd_t count;

    if (!eventfd_read(fd, &count)) {
        found(arg, changed_address, NULL);
    }
}

void umfi_eq_set_timer(struct umfi_eq *eq)
{
}

bool umfi_eq_withdraw_request(struct umfi_eq *eq, fid_t handle)
{
    bool found = handle == unread;

    unread = found ? NULL : unread;
    return found;
}

int umfi_eq_push_event(struct umfi_eq *eq, uint32_t event, fid_t fid, int err,
                       struct fi_info *info, const void *data, size_t len)
{
    if (push_error) {
        fi_freeinfo(info);
        return push_error;
    }
    events++;
    event_fid = fid;
    event_error = err;
    event_len = len;
    if (len) {
        memcpy(event_data, data, len);
    }
    if (info) {
        event_limit = info->ep_attr->max_msg_size;
        event_size = info->rx_attr->size;
        event_handle = unread = info->handle;
        fi_freeinfo(info);
    }
    return 0;
}

void umfi_ep_push_event(struct umfi_ep *ep, uint32_t event, int err, const void *data, size_t len)
{
    umfi_eq_push_event(ep->eq, event, &ep->fid.fid, err, NULL, data, len);
}

struct fi_info *umfi_info_of_request(const struct fi_info *listener,
                                     const struct sockaddr_in *own,
                                     const struct sockaddr_in *peer)
{
    return fi_dupinfo(listener);
}

bool umfi_ep_begin_accepting(struct umfi_ep *ep, unsigned channel)
{
    fail();
    return false;
}

void umfi_ep_connected(struct umfi_ep *ep, const void *data, size_t len)
{
    fail();
}

void umfi_ep_fail_accepting(struct umfi_ep *ep, int error)
{
    /* The listener has gone. */
    assert_int_equal(error, FI_ECONNABORTED);
    unreached++;
    umfi_ep_set_state(ep, UMFI_ENDED);
}

/* Nothing has come. */
void umfi_port_progress(struct umfi_port *port)
{
}

void umfi_port_end_channel(struct umfi_port *port, unsigned channel)
{
    fail();
}

/* ---- Tests ------------------------------------------------------------------- */

struct scene {
    struct umfi_fabric fabric;
    struct umfi_domain domain;
    struct umfi_eq eq;
    struct umfi_port port;
    struct umfi_ep one, two;
};

static void open_scene(struct scene *s)
{
    memset(s, 0, sizeof(*s));
    npending = requests = events = callers = endpoints = created = 0;
    resolve_error = connect_error = listen_error = 0;
    unreached = 0;
    fake_calls_wait = false;
    address_error = 0;
    caller_mac = 2;
    asked = polled = 0;
    changed_address = requester;
    unread = NULL;
    stopped = flooded = endless = false;
    memset(mtu, 0, sizeof(mtu));
    umfi_list_init(&s->fabric.cm_ports);
    umfi_list_init(&s->fabric.ports);
    umfi_list_init(&s->fabric.calls_running);
    fabric_lock = &s->fabric.lock;
    s->fabric.dev.limits.channels = CHANNELS;
    s->fabric.epoll = epoll_create1(0);
    card_fds[0] = eventfd(0, 0);
    card_fds[1] = eventfd(0, 0);
    context_fd = eventfd(0, 0);
    s->fabric.neighbours = table_fd = eventfd(0, EFD_NONBLOCK);
    assert_true(s->fabric.epoll >= 0 && card_fds[0] >= 0 && card_fds[1] >= 0 && context_fd >= 0 &&
                table_fd >= 0);
    s->domain.fabric = &s->fabric;
    s->port.domain = &s->domain;
    umfi_list_init(&s->port.arrivals);
    s->one = s->two = (struct umfi_ep) {
        .domain = &s->domain, .port = &s->port, .eq = &s->eq,
    };
}

static void close_scene(struct scene *s)
{
    umfi_calls_cancel(&s->fabric, NULL);
    umfi_cm_close(&s->fabric);
    assert_int_equal(endpoints, 0);
    for (unsigned i = 0; i < 2; i++) {
        /* No endpoint is watched any more. */
        assert_int_equal(epoll_ctl(s->fabric.epoll, EPOLL_CTL_DEL, card_fds[i], NULL), -1);
    }
    close(s->fabric.epoll);
    close(card_fds[0]);
    close(card_fds[1]);
    close(context_fd);
    close(table_fd);
}

static void close_listener(struct scene *s, struct umfi_pep *pep)
{
    umfi_cm_unlisten(pep);
    close_scene(s);
}

static void open_listener(struct scene *s, struct umfi_pep *pep)
{
    open_scene(s);
    pep->fabric = &s->fabric;
    assert_int_equal(umfi_cm_listen(pep), 0);
}

/* The scene of a scene_test, listener_test, request_test or aside_test */
static struct scene scene;
static struct umfi_pep listener;

#define BEGIN(kind, ...) \
    static int begin_##kind(void **state) \
    { \
        listener = (struct umfi_pep) { 0 }; \
        open_##kind(&scene __VA_ARGS__); \
        return 0; \
    }

BEGIN(scene)
BEGIN(listener, , &listener)

static int end_scene(void **state)
{
    if (listener.fabric) {
        umfi_cm_unlisten(&listener);
    }
    close_scene(&scene);
    return 0;
}

#define scene_test(fn)      cmocka_unit_test_setup_teardown(fn, begin_scene, end_scene)
#define listener_test(fn)   cmocka_unit_test_setup_teardown(fn, begin_listener, end_scene)
#define request_test(fn)    cmocka_unit_test_setup_teardown(fn, begin_request, end_scene)
#define aside_test(fn)      cmocka_unit_test_setup_teardown(fn, begin_aside, end_scene)

static void progress(struct scene *s)
{
    polled = 0;
    sys_lock_take(&s->fabric.lock);
    umfi_cm_progress(&s->fabric);
    sys_lock_drop(&s->fabric.lock);
}

static int arms(struct scene *s)
{
    int ret;

    sys_lock_take(&s->fabric.lock);
    ret = umfi_cm_arm_ports(&s->fabric);
    sys_lock_drop(&s->fabric.lock);
    return ret;
}

static void abandon(struct scene *s, struct umfi_ep *ep)
{
    sys_lock_take(&s->fabric.lock);
    umfi_cm_abandon_ep(ep);
    sys_lock_drop(&s->fabric.lock);
}

static const struct sockaddr_in anywhere = { .sin_family = AF_INET };

static void require_connecting(struct umfi_ep *ep, unsigned channel)
{
    unsigned before = requests;

    assert_int_equal(umfi_cm_connect(ep, &anywhere, NULL, 0), 0);
    assert_int_equal(requests, before + 1);
    assert_int_equal(ep->state, UMFI_CONNECTING);
    assert_true(mtu[channel]);
}

/* A peer's message is in the card's completion queue. */
static void arrive(unsigned channel, uint8_t type)
{
    const uint8_t head[] = { 'u', 'm', 'f', 'i', 2, 0, type, 0 };

    assert_non_null(buffers[0]);
    memset(buffers[0], 0, CM_BYTES);
    memcpy(buffers[0], head, sizeof(head));
    memcpy(buffers[0] + offsetof(struct umfi_message, address), &requester, sizeof(requester));
    pending[npending++] = (struct unetmm_completion) {
        .type = UNETMM_CQE_RECEIVED, .channel = channel, .len = CM_BYTES,
    };
}

TEST(refused, scene_test)
{
    require_connecting(&scene.one, 0);
    require_connecting(&scene.two, 1);
    arrive(1, CM_REJECT);
    progress(&scene);
    assert_int_equal(events, 1);
    assert_ptr_equal(event_fid, &scene.two.fid.fid);
    assert_int_equal(event_error, FI_ECONNREFUSED);
    assert_int_equal(scene.two.state, UMFI_IDLE);
    assert_int_equal(scene.one.state, UMFI_CONNECTING);
}

/* Two first requests at a time: the port of one serves both, also if the other gets none. */
TEST(port_of_another_thread, cmocka_unit_test)
{
    static const int errors[] = { 0, -ENOSPC };

    for (size_t i = 0; i < 2; i++) {
        unsigned before;
        struct scene s;

        open_scene(&s);
        require_connecting(&s.one, 0);
        before = endpoints;
        raced = &s.fabric;
        faster = s.fabric.request_port;
        s.fabric.request_port = NULL;
        create_error = errors[i];
        require_connecting(&s.two, 1);
        assert_ptr_equal(s.fabric.request_port, faster);
        assert_int_equal(endpoints, before);
        close_scene(&s);
    }
}

/* Another thread closes the EP while the first port for requests is opened: nothing goes. */
TEST(closed_while_opening, cmocka_unit_test)
{
    static const int errors[] = { 0, -ENOSPC };

    for (size_t i = 0; i < 2; i++) {
        struct scene s;

        open_scene(&s);
        closes = &s.one;
        create_error = errors[i];
        assert_int_equal(umfi_cm_connect(&s.one, &anywhere, NULL, 0), -FI_EOPBADSTATE);
        assert_null(s.one.call);
        assert_int_equal(requests, 0);
        assert_int_equal(events, 0);
        close_scene(&s);
    }
}

/* The error of a request says why there is no connection. */
TEST(errors_of_requests, cmocka_unit_test)
{
    static const struct {
        int resolve, connect;
        uint8_t status;             /* of the end of the channel */
        int error;
    } rows[] = {
        { .resolve = -FI_EHOSTUNREACH, .error = FI_EHOSTUNREACH },
        { .connect = -ETIMEDOUT, .error = FI_ECONNREFUSED },
        { .connect = -EPROTOTYPE, .error = FI_ECONNREFUSED },
        { .connect = -EHOSTUNREACH, .error = FI_ETIMEDOUT },
        { .connect = -ECONNRESET, .error = FI_ECONNRESET },
        { .connect = -ENOSPC, .error = FI_ENOSPC },
        { .status = UNETMM_ST_BAD_CHANNEL, .error = FI_ECONNRESET },
        { .status = UNETMM_ST_PEER_FAILED, .error = FI_ECONNRESET },
        { .status = UNETMM_ST_TIMEOUT, .error = FI_ETIMEDOUT },
        { .status = UNETMM_ST_DMA, .error = FI_EIO },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct scene s;

        open_scene(&s);
        resolve_error = rows[i].resolve;
        connect_error = rows[i].connect;
        assert_int_equal(umfi_cm_connect(&s.one, &anywhere, NULL, 0), 0);
        if (rows[i].status) {
            close_channel(0);
            pending[0].status = rows[i].status;
            progress(&s);
        }
        assert_int_equal(events, 1);
        assert_int_equal(event_error, rows[i].error);
        assert_int_equal(s.one.state, UMFI_IDLE);
        close_scene(&s);
    }
}

static void end_calls(struct scene *s, unsigned n, unsigned left)
{
    sys_lock_take(&s->fabric.lock);
    assert_int_equal(fake_calls_end(&s->fabric, n), left);
    sys_lock_drop(&s->fabric.lock);
}

/* fi_connect() returns before the peer's driver answers; the request goes then. */
TEST(silent_driver, scene_test)
{
    fake_calls_wait = true;
    assert_int_equal(umfi_cm_connect(&scene.one, &anywhere, NULL, 0), 0);
    assert_int_equal(umfi_cm_connect(&scene.one, &anywhere, NULL, 0), -FI_EISCONN);
    assert_int_equal(umfi_cm_connect(&scene.two, &anywhere, NULL, 0), 0);
    assert_int_equal(scene.eq.channels, 2);
    progress(&scene);
    assert_int_equal(requests, 0);
    assert_int_equal(events, 0);
    end_calls(&scene, 1, 1);
    assert_int_equal(requests, 1);
    assert_int_equal(scene.one.state, UMFI_CONNECTING);
    connect_error = -EHOSTUNREACH;
    end_calls(&scene, 1, 0);
    assert_int_equal(requests, 1);
    assert_int_equal(events, 1);
    assert_ptr_equal(event_fid, &scene.two.fid.fid);
    assert_int_equal(event_error, FI_ETIMEDOUT);
    assert_int_equal(scene.two.state, UMFI_IDLE);
    assert_int_equal(scene.eq.channels, 1);
}

/* The EP is closed before the driver answers: nothing goes, and the channel ends. */
TEST(closed_while_calling, scene_test)
{
    fake_calls_wait = true;
    assert_int_equal(umfi_cm_connect(&scene.one, &anywhere, NULL, 0), 0);
    abandon(&scene, &scene.one);
    assert_null(scene.one.call);
    end_calls(&scene, 1, 0);
    assert_int_equal(requests, 0);
    assert_int_equal(events, 0);
    assert_int_equal(mtu[0], 0);
}

/*
 * The card stops the endpoint of requests while a driver does not answer: the next request goes by
 * another endpoint, and the first one stays until its call has ended.
 */
TEST(stopped_while_calling, cmocka_unit_test)
{
    for (unsigned reached = 0; reached < 2; reached++) {
        struct scene s;

        open_scene(&s);
        fake_calls_wait = true;
        assert_int_equal(umfi_cm_connect(&s.one, &anywhere, NULL, 0), 0);
        stopped = true;
        progress(&s);
        stopped = false;
        assert_int_equal(umfi_cm_connect(&s.two, &anywhere, NULL, 0), 0);
        assert_int_equal(created, 2);
        assert_int_equal(endpoints, 2);
        connect_error = reached ? 0 : -EHOSTUNREACH;
        end_calls(&s, 1, 1);
        assert_int_equal(endpoints, 1);
        assert_int_equal(requests, 0);
        assert_int_equal(events, 1);
        assert_ptr_equal(event_fid, &s.one.fid.fid);
        assert_int_equal(event_error, reached ? FI_EIO : FI_ETIMEDOUT);
        assert_int_equal(s.one.state, UMFI_IDLE);
        assert_int_equal(mtu[0], 0);
        /* The new endpoint has none of the completions of the other one. */
        npending = 0;
        connect_error = 0;
        end_calls(&s, 1, 0);
        assert_int_equal(requests, 1);
        assert_int_equal(s.two.state, UMFI_CONNECTING);
        close_scene(&s);
    }
}

/*
 * The channel ends while the thread that has opened it waits for the lock: no request goes.
 * The end is not that of the next channel with the number.
 */
TEST(ended_while_calling, cmocka_unit_test)
{
    for (unsigned closed = 0; closed < 2; closed++) {
        struct scene s;

        open_scene(&s);
        fake_calls_wait = true;
        assert_int_equal(umfi_cm_connect(&s.one, &anywhere, NULL, 0), 0);
        if (closed) {
            abandon(&s, &s.one);
        }
        hasty = s.fabric.request_port;
        end_calls(&s, 1, 0);
        hasty = NULL;
        fake_calls_wait = false;
        assert_int_equal(requests, 0);
        assert_int_equal(events, !closed);
        assert_true(closed || event_error == FI_ECONNRESET);
        require_connecting(&s.two, 0);
        close_channel(0);
        progress(&s);
        assert_int_equal(events, !closed + 1);
        close_scene(&s);
    }
}

/*
 * An answer that nobody has read when its request is given up, as of the one of two
 * requests that cross, is not the answer of the next request on that channel.
 */
TEST(answer_of_a_request_before, scene_test)
{
    require_connecting(&scene.one, 0);
    arrive(0, CM_REJECT);
    abandon(&scene, &scene.one);
    require_connecting(&scene.two, 1);
    progress(&scene);
    assert_int_equal(npending, 0);
    assert_int_equal(events, 0);
    assert_int_equal(scene.two.state, UMFI_CONNECTING);
    arrive(1, CM_REJECT);
    progress(&scene);
    assert_int_equal(events, 1);
    assert_ptr_equal(event_fid, &scene.two.fid.fid);
}

/* The card gives an unfilled buffer back, and the driver has new callers. */
static void call_in(struct scene *s, unsigned n)
{
    callers = n;
    pending[npending++] = (struct unetmm_completion) {
        .type = UNETMM_CQE_BUFFER, .channel = (uint16_t)(s->fabric.dev.limits.channels - 1),
    };
    progress(s);
    assert_int_equal(callers, 0);
}

/* A listener with a request on channel 0 */
static void open_request(struct scene *s, struct umfi_pep *pep)
{
    open_listener(s, pep);
    call_in(s, 1);
    arrive(0, CM_REQUEST);
    progress(s);
}

BEGIN(request, , &listener)

static void require_open(unsigned channels)
{
    for (unsigned i = 0; i < CHANNELS; i++) {
        assert_int_equal(!!mtu[i], channels >> i & 1);
    }
}

/* The peer's program never answers: the request ends in ten times the time of a driver. */
TEST(silent_program, scene_test)
{
    require_connecting(&scene.one, 0);
    now_ms += 10 * umfi_config.connect_ms - 1;
    require_connecting(&scene.two, 1);
    progress(&scene);
    assert_int_equal(events, 0);
    now_ms++;
    progress(&scene);
    assert_int_equal(events, 1);
    assert_ptr_equal(event_fid, &scene.one.fid.fid);
    assert_int_equal(event_error, FI_ETIMEDOUT);
    assert_int_equal(scene.one.state, UMFI_IDLE);
    assert_null(scene.one.conn);
    require_open(1 << 1);
    progress(&scene);
    /* Another try has its own time. */
    require_connecting(&scene.one, 0);
    progress(&scene);
    assert_int_equal(events, 1);
}

/*
 * Callers without a request have half of the channels: the oldest of them makes room.
 * One that has sent its request stays.
 */
TEST(silent_callers, cmocka_unit_test)
{
    struct umfi_pep pep = { 0 };
    struct scene s;

    open_listener(&s, &pep);
    call_in(&s, 2);
    require_open(1 << 0 | 1 << 1);
    call_in(&s, 1);
    require_open(1 << 1 | 1 << 2);
    arrive(1, CM_REQUEST);
    progress(&s);
    assert_int_equal(events, 1);
    call_in(&s, 1);
    require_open(1 << 0 | 1 << 1 | 1 << 2);
    call_in(&s, 1);
    require_open(1 << 0 | 1 << 1 | 1 << 3);
    progress(&s);
    callers = 1;
    pending[npending++] = (struct unetmm_completion) {
        .type = UNETMM_CQE_BUFFER, .channel = 2,
    };
    progress(&s);
    require_open(1 << 1 | 1 << 2 | 1 << 3);
    umfi_cm_unlisten(&pep);
    require_open(0);
    close_scene(&s);
}

/* A card that calls again and again takes its own places: the callers of others stay. */
TEST(callers_of_one_card, listener_test)
{
    call_in(&scene, 1);
    caller_mac = 3;
    call_in(&scene, 1);
    require_open(1 << 0 | 1 << 1);
    call_in(&scene, 1);
    require_open(1 << 0 | 1 << 2);
    call_in(&scene, 1);
    require_open(1 << 0 | 1 << 1);
    /* A third card: all have as many, and the oldest goes. */
    caller_mac = 4;
    call_in(&scene, 1);
    require_open(1 << 1 | 1 << 2);
}

/* An accepted request whose connector is late stays, however many its card has: strangers go. */
TEST(accepted_stays, listener_test)
{
    struct umfi_message m = { 0 };

    call_in(&scene, 1);
    arrive(0, CM_REQUEST);
    progress(&scene);
    assert_true(umfi_cm_assign_request(&scene.fabric, event_handle, &scene.one));
    sys_lock_take(&scene.fabric.lock);
    umfi_conn_send_answer(scene.one.conn, &m, UMFI_ACCEPT, NULL, 0);
    sys_lock_drop(&scene.fabric.lock);
    caller_mac = 3;
    call_in(&scene, 1);
    caller_mac = 2;
    call_in(&scene, 1);
    require_open(1 << 0 | 1 << 2);
    assert_non_null(scene.one.conn);
    abandon(&scene, &scene.one);
}

/* A request of which the program cannot be told ends, and takes no caller's place. */
TEST(untold_request, listener_test)
{
    for (unsigned i = 0; i < CHANNELS; i++) {
        call_in(&scene, 1);
        require_open(1 << 0);
        push_error = -FI_ENOMEM;
        arrive(0, CM_REQUEST);
        progress(&scene);
        push_error = 0;
        require_open(0);
        progress(&scene);
    }
    call_in(&scene, 2);
    require_open(1 << 0 | 1 << 1);
    arrive(1, CM_REQUEST);
    progress(&scene);
    assert_int_equal(events, 1);
    assert_int_equal(umfi_cm_reject(&listener, event_handle, NULL, 0), 0);
}

/* Half of an odd number: the larger half */
TEST(few_channels, cmocka_unit_test)
{
    for (unsigned channels = 2; channels <= 3; channels++) {
        struct umfi_pep pep = { 0 };
        struct scene s;

        open_scene(&s);
        s.fabric.dev.limits.channels = (uint16_t)channels;
        pep.fabric = &s.fabric;
        assert_int_equal(umfi_cm_listen(&pep), 0);
        call_in(&s, 1);
        require_open(1 << 0);
        call_in(&s, 1);
        require_open(channels == 3 ? 1 << 0 | 1 << 1 : 1 << 1);
        close_listener(&s, &pep);
    }
}

/* Callers that have their answer and do not hang up have no more than half, either. */
TEST(rejected_callers, cmocka_unit_test)
{
    fid_t handles[CHANNELS];
    struct umfi_pep pep = { 0 };
    struct scene s;

    open_listener(&s, &pep);
    for (unsigned i = 0; i < CHANNELS; i++) {
        call_in(&s, 1);
        arrive(i, CM_REQUEST);
        progress(&s);
        assert_int_equal(events, i + 1);
        handles[i] = event_handle;
    }
    require_open(1 << 0 | 1 << 1 | 1 << 2 | 1 << 3);
    for (unsigned i = 0; i < CHANNELS; i++) {
        assert_int_equal(umfi_cm_reject(&pep, handles[i], NULL, 0), 0);
    }
    assert_int_equal(requests, CHANNELS);
    require_open(1 << 2 | 1 << 3);
    umfi_cm_unlisten(&pep);
    require_open(0);
    close_scene(&s);
}

/*
 * The next caller gets the number of one that has sent nonsense.  The rest of that
 * one's completions, its end among them, is not the next one's.
 */
TEST(end_of_the_caller_before, listener_test)
{
    call_in(&scene, 2);
    for (unsigned i = 0; i < 2; i++) {
        arrive(0, CM_REJECT);
    }
    close_channel(0);
    call_in(&scene, 1);
    require_open(1 << 0 | 1 << 1);
    arrive(0, CM_REQUEST);
    progress(&scene);
    assert_int_equal(events, 1);
}

/* The same, when more waits than there is room for. */
TEST(end_in_a_flood, request_test)
{
    call_in(&scene, 2);
    flooded = true;
    arrive(0, CM_REJECT);
    arrive(1, CM_REJECT);
    progress(&scene);
    call_in(&scene, callers);
    require_open(1 << 0 | 1 << 1);
    arrive(1, CM_REQUEST);
    progress(&scene);
    assert_int_equal(events, 2);
}

/* The card gives a buffer to a completion. */
static void take_buffer(unsigned i, uint8_t type, unsigned channel)
{
    assert_non_null(buffers[i]);
    buffers[i] = NULL;
    pending[npending++] = (struct unetmm_completion) {
        .type = type, .channel = (uint16_t)channel, .user_data = i, .flags = UNETMM_CQE_F_IMM,
    };
}

/* Peers write by a key, and each write takes a buffer: the card has all of them again. */
TEST(written_by_peers, request_test)
{
    call_in(&scene, 2);
    take_buffer(1, UNETMM_CQE_WRITTEN, 1);
    /* Behind an end, and among completions that wait while a channel ends */
    arrive(0, CM_REJECT);
    take_buffer(2, UNETMM_CQE_WRITTEN, 0);
    take_buffer(3, UNETMM_CQE_WRITTEN, 2);
    take_buffer(4, UNETMM_CQE_WRITTEN, CHANNELS);
    refusals = 1;
    progress(&scene);
    /* The writers' channels have ended. */
    require_open(0);
    progress(&scene);
    for (unsigned i = 0; i < BUFFERS; i++) {
        assert_non_null(buffers[i]);
    }
}

/* Other callers' completions are not lost, and no wait begins before they are taken. */
TEST(others_wait, request_test)
{
    call_in(&scene, 1);
    arrive(1, CM_REQUEST);
    mtu[0] = 0;     /* its answer cannot be sent */
    assert_int_equal(umfi_cm_reject(&listener, event_handle, NULL, 0), 0);
    assert_int_equal(arms(&scene), 1);
    progress(&scene);
    assert_int_equal(events, 2);
}

/* The acceptor cannot reach the connector: both learn of it. */
TEST(connector_not_reached, request_test)
{
    assert_true(umfi_cm_assign_request(&scene.fabric, event_handle, &scene.one));
    connect_error = -ETIMEDOUT;
    assert_int_equal(umfi_cm_accept(&scene.one, "data", 4), 0);
    assert_int_equal(unreached, 1);
    assert_int_equal(requests, 1);
    assert_int_equal(sent[6], CM_REJECT);
    /* They are those of an ACCEPT. */
    for (unsigned i = CM_BYTES - CM_DATA - 2; i < CM_BYTES; i++) {
        assert_int_equal(sent[i], 0);
    }
    assert_null(scene.one.conn);
    assert_int_equal(umfi_cm_accept(&scene.one, NULL, 0), -FI_ECONNABORTED);
}

/* The program gets no request in another's name; its channel ends, and the log says why. */
TEST(name_of_another, cmocka_unit_test)
{
    static const struct {
        int error;
        const char *says;
    } rows[] = {
        { ANOTHER, "another card" }, { -FI_EACCES, "subnet" }, { -FI_EIO, "neighbour table" },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct umfi_pep pep = { 0 };
        struct scene s;

        open_listener(&s, &pep);
        call_in(&s, 1);
        address_error = rows[i].error;
        arrive(0, CM_REQUEST);
        logged[0] = 0;
        progress(&s);
        assert_int_equal(events, 0);
        assert_non_null(strstr(logged, rows[i].says));
        require_open(0);
        close_listener(&s, &pep);
    }
}

/* Pages of an endpoint for requests are pinned before anybody waits. */
TEST(pinned_ports, cmocka_unit_test)
{
    struct umfi_pep pep = { 0 };
    struct scene s;

    umfi_config.source = UNETMM_SOURCE_PINNED;
    open_listener(&s, &pep);
    require_connecting(&s.one, 0);
    assert_int_equal(pinned, 2);
    assert_int_equal(umfi_cm_listen(&pep), -FI_EOPBADSTATE);
    assert_int_equal(pinned, 2);
    close_listener(&s, &pep);
    assert_int_equal(pinned, 0);
    umfi_config.source = UNETMM_SOURCE_ODP;
}

/* A listener with a request on channel 0 whose address the kernel asks for */
static void open_aside(struct scene *s, struct umfi_pep *pep)
{
    open_listener(s, pep);
    call_in(s, 2);
    address_error = -FI_EAGAIN;
    arrive(0, CM_REQUEST);
    progress(s);
    assert_int_equal(events, 0);
}

BEGIN(aside, , &listener)

/* The kernel's answer, 0 or an error */
static void answer(struct scene *s, int error)
{
    address_error = error;
    assert_int_equal(eventfd_write(table_fd, 1), 0);
    progress(s);
}

/* A request waits for the kernel's answer, others do not wait for that request. */
TEST(address_asked_for, aside_test)
{
    address_error = 0;
    arrive(1, CM_REQUEST);
    progress(&scene);
    assert_int_equal(events, 1);
    /* The table has not changed: there is nothing to ask. */
    assert_int_equal(asked, 2);
    require_open(1 << 0 | 1 << 1);
    /* The time is that of the first look. */
    now_ms += umfi_config.connect_ms - 1;
    answer(&scene, -FI_EAGAIN);
    require_open(1 << 0 | 1 << 1);
    assert_int_equal(asked, 3);
    assert_int_equal(events, 1);
    /* No request has that address. */
    changed_address.s_addr = 1;
    answer(&scene, 0);
    assert_int_equal(asked, 3);
    changed_address = requester;
    answer(&scene, 0);
    assert_int_equal(events, 2);
    assert_true(umfi_cm_assign_request(&scene.fabric, event_handle, &scene.one));
    answer(&scene, 0);
    assert_int_equal(asked, 4);
    assert_int_equal(events, 2);
}

/*
 * However many requests wait for an address, one look at the table is for all of them.  After lost
 * changes each request is looked up; without a descriptor for it, the request waits on.
 */
TEST(address_of_many, aside_test)
{
    arrive(1, CM_REQUEST);
    progress(&scene);
    assert_int_equal(asked, 2);
    changed_address.s_addr = INADDR_ANY;
    answer(&scene, -FI_EIO);
    assert_int_equal(asked, 4);
    require_open(1 << 0 | 1 << 1);
    changed_address = requester;
    answer(&scene, 0);
    assert_int_equal(asked, 5);
    assert_int_equal(events, 2);
}

/* Of such a request nothing is left when it ends: the ways to its end. */
TEST(address_of_nobody, cmocka_unit_test)
{
    for (unsigned way = 0; way < 4; way++) {
        struct umfi_pep pep = { 0 };
        struct scene s;

        open_aside(&s, &pep);
        if (!way) {
            now_ms += umfi_config.connect_ms - 1;
            progress(&s);
            require_open(1 << 0 | 1 << 1);
            now_ms++;
            progress(&s);
        } else if (way == 1) {
            answer(&s, ANOTHER);
        } else if (way == 2) {
            /* It is no request's turn to send. */
            arrive(0, CM_REQUEST);
            progress(&s);
        } else if (way == 3) {
            close_channel(0);
            progress(&s);
        }
        require_open(1 << 1);
        answer(&s, 0);
        assert_int_equal(events, 0);
        /* It has left its place among the idle ones. */
        call_in(&s, 1);
        require_open(1 << 0 | 1 << 1);
        close_listener(&s, &pep);
    }
}

/* A peer that asks and goes leaves no event behind, unless the program has read it. */
TEST(event_of_a_peer_that_has_gone, cmocka_unit_test)
{
    for (unsigned read = 0; read < 2; read++) {
        struct umfi_pep pep = { 0 };
        struct scene s;

        open_request(&s, &pep);
        unread = read ? NULL : unread;
        close_channel(0);
        progress(&s);
        require_open(0);
        assert_null(unread);
        assert_int_equal(umfi_cm_assign_request(&s.fabric, event_handle, &s.one), read);
        close_listener(&s, &pep);
    }
}

/* Peers that send on, or call on, do not keep the reader of the event queue. */
TEST(no_end_of_messages, listener_test)
{
    endless = true;
    callers = 10000;
    assert_int_equal(eventfd_write(context_fd, 1), 0);
    progress(&scene);
    assert_int_equal(callers, 10000 - BACKLOG);
    endless = false;
    callers = 0;
}

/*
 * The program closes the endpoint that is to accept a request: the peer learns that, and
 * is to end the channel.
 */
TEST(never_accepted, cmocka_unit_test)
{
    struct umfi_pep pep = { .info = fi_allocinfo() };
    struct scene s;

    assert_non_null(pep.info);
    pep.info->ep_attr->max_msg_size = UMFI_MAX_RMA;
    pep.info->rx_attr->size = 1000;
    open_request(&s, &pep);
    /* Limits and sizes are those of the listener. */
    assert_int_equal(event_limit, UMFI_MAX_RMA);
    assert_int_equal(event_size, 1000);
    assert_true(umfi_cm_assign_request(&s.fabric, event_handle, &s.one));
    abandon(&s, &s.one);
    assert_null(s.one.conn);
    assert_int_equal(requests, 1);
    assert_int_equal(umfi_cm_reject(&pep, event_handle, NULL, 0), -FI_EINVAL);
    call_in(&s, 2);
    require_open(1 << 1 | 1 << 2);
    close_listener(&s, &pep);
    fi_freeinfo(pep.info);
}

/*
 * All that asks by an endpoint that has stopped is refused, and no reader spins.  The next
 * request goes by another endpoint.
 */
TEST(stopped_endpoint, scene_test)
{
    require_connecting(&scene.one, 0);
    stopped = true;
    assert_int_equal(arms(&scene), 1);
    progress(&scene);
    assert_int_equal(events, 1);
    assert_ptr_equal(event_fid, &scene.one.fid.fid);
    assert_int_equal(event_error, FI_EIO);
    assert_int_equal(arms(&scene), 0);
    assert_int_equal(endpoints, 1);
    stopped = false;
    require_connecting(&scene.two, 0);
    assert_int_equal(endpoints, 1);
    assert_int_equal(created, 2);
    progress(&scene);
    assert_int_equal(events, 1);
    arrive(0, CM_REJECT);
    progress(&scene);
    assert_int_equal(events, 2);
    assert_ptr_equal(event_fid, &scene.two.fid.fid);
}

/* The program learns of it once, and the same port can be listened on again. */
TEST(stopped_listener, request_test)
{
    in_port_t port;

    port = listener.address.sin_port;
    assert_int_equal(umfi_cm_listen(&listener), -FI_EOPBADSTATE);
    assert_int_equal(created, 1);
    assert_true(umfi_cm_assign_request(&scene.fabric, event_handle, &scene.one));
    stopped = true;
    /* Without memory the event is kept for the next time. */
    push_error = -FI_ENOMEM;
    progress(&scene);
    push_error = 0;
    assert_int_equal(events, 1);
    assert_int_equal(umfi_cm_listen(&listener), -FI_EOPBADSTATE);
    for (unsigned i = 0; i < 2; i++) {
        progress(&scene);
        assert_int_equal(events, 2);
    }
    assert_ptr_equal(event_fid, &listener.fid.fid);
    assert_int_equal(event_error, FI_EIO);
    assert_int_equal(umfi_cm_accept(&scene.one, NULL, 0), -FI_ECONNABORTED);
    stopped = false;
    assert_int_equal(umfi_cm_listen(&listener), 0);
    assert_int_equal(listener.address.sin_port, port);
    assert_int_equal(endpoints, 1);
    call_in(&scene, 1);
    arrive(0, CM_REQUEST);
    progress(&scene);
    assert_int_equal(events, 3);
    abandon(&scene, &scene.one);
    assert_null(scene.one.conn);
}

/* The queue has lost events before: it takes none of the stop, and the program may listen again. */
TEST(stopped_listener_of_an_overrun_queue, listener_test)
{
    stopped = true;
    push_error = -FI_EOVERRUN;
    progress(&scene);
    push_error = 0;
    progress(&scene);
    assert_int_equal(events, 0);
    stopped = false;
    assert_int_equal(umfi_cm_listen(&listener), 0);
}

/*
 * A request that the program has read, and whose listener the card has stopped, ends with
 * the program's answer: until then its handle is no other request's.
 */
TEST(handle_of_a_stopped_listener, request_test)
{
    fid_t before;

    before = event_handle;
    unread = NULL;
    stopped = true;
    progress(&scene);
    stopped = false;
    assert_int_equal(umfi_cm_listen(&listener), 0);
    for (unsigned i = 0; i < CHANNELS; i++) {
        call_in(&scene, 1);
        arrive(i, CM_REQUEST);
        progress(&scene);
        assert_ptr_not_equal(event_handle, before);
    }
    require_open((1 << CHANNELS) - 1);
    assert_int_equal(umfi_cm_reject(&listener, before, NULL, 0), 0);
    assert_int_equal(requests, 0);
    require_open((1 << CHANNELS) - 1);
    assert_int_equal(umfi_cm_reject(&listener, before, NULL, 0), -FI_EINVAL);
}

/* A number that another has: the endpoint goes, and the passive endpoint is as before. */
TEST(number_of_another, cmocka_unit_test)
{
    struct umfi_pep pep = { .address.sin_port = htons(7) };
    struct scene s;

    open_scene(&s);
    pep.fabric = &s.fabric;
    listen_error = -EADDRINUSE;
    assert_int_equal(umfi_cm_listen(&pep), -EADDRINUSE);
    assert_null(pep.port);
    assert_int_equal(endpoints, 0);
    listen_error = 0;
    assert_int_equal(umfi_cm_listen(&pep), 0);
    assert_int_equal(pep.address.sin_port, htons(7));
    close_listener(&s, &pep);
}

/* Its own request would take the place of the one that it answers, in the EP. */
TEST(request_instead_of_an_answer, request_test)
{
    assert_true(umfi_cm_assign_request(&scene.fabric, event_handle, &scene.one));
    assert_int_equal(umfi_cm_connect(&scene.one, &anywhere, NULL, 0), -FI_EISCONN);
    assert_int_equal(requests, 0);
    assert_int_equal(scene.one.state, UMFI_IDLE);
    abandon(&scene, &scene.one);
    assert_null(scene.one.conn);
}

/* The program's data, of which as much goes as a message has room for. */
TEST(long_data, scene_test)
{
    uint8_t data[CM_DATA + 72];

    memset(data, 'd', sizeof(data));
    assert_int_equal(umfi_cm_connect(&scene.one, &anywhere, data, sizeof(data)), 0);
    assert_int_equal(requests, 1);
    assert_int_equal(sent[CM_BYTES - CM_DATA - 2], CM_DATA);
    assert_memory_equal(sent + CM_BYTES - CM_DATA, data, CM_DATA);
}

/* One byte of a good message that is another one, and the length of the message */
static const struct {
    uint8_t at, value, len;
} lies[] = {
    { 0, 'U', CM_BYTES }, { 3, 0, CM_BYTES }, { 4, 1, CM_BYTES }, { 4, 3, CM_BYTES },
    { 5, 1, CM_BYTES }, { 6, 0, CM_BYTES }, { 6, 4, CM_BYTES }, { 7, 1, CM_BYTES },
    { CM_BYTES - CM_DATA - 2, CM_DATA + 1, CM_BYTES }, { CM_BYTES - CM_DATA - 1, 1, CM_BYTES },
    { 0, 'u', CM_BYTES - 1 }, { 0, 'u', CM_BYTES + 1 }, { 0, 'u', 0 },
};
#define NLIES   (sizeof(lies) / sizeof(lies[0]))

static void lie(uint8_t type, size_t i)
{
    arrive(0, type);
    buffers[0][lies[i].at] = lies[i].value;
    pending[npending - 1].len = lies[i].len;
}

/* Nobody learns of such a request, and its channel ends. */
TEST(lying_connector, cmocka_unit_test)
{
    for (size_t i = 0; i < NLIES + 2; i++) {
        struct umfi_pep pep = { 0 };
        struct scene s;

        open_listener(&s, &pep);
        call_in(&s, 1);
        if (i < NLIES) {
            lie(CM_REQUEST, i);
        } else {
            arrive(0, i == NLIES ? CM_ACCEPT : CM_REJECT);
        }
        progress(&s);
        assert_int_equal(events, 0);
        require_open(0);
        close_listener(&s, &pep);
    }
}

/* Such an answer ends the request. */
TEST(lying_acceptor, cmocka_unit_test)
{
    for (size_t i = 0; i < NLIES + 2; i++) {
        struct scene s;

        open_scene(&s);
        require_connecting(&s.one, 0);
        if (i < NLIES) {
            lie(CM_REJECT, i);
        } else {
            /* A channel that has not come */
            arrive(0, i == NLIES ? CM_ACCEPT : CM_REQUEST);
        }
        memset(buffers[0] + CM_BYTES - CM_DATA, 'd', CM_DATA);
        progress(&s);
        assert_int_equal(events, 1);
        assert_int_equal(event_error, FI_ECONNABORTED);
        assert_int_equal(event_len, 0);
        assert_int_equal(s.one.state, UMFI_IDLE);
        assert_null(s.one.conn);
        assert_int_equal(s.eq.channels, 0);
        require_open(0);
        close_scene(&s);
    }
}

/* All the data that a message has room for, each way */
TEST(data_of_messages, cmocka_unit_test)
{
    struct umfi_pep pep = { 0 };
    struct scene s;

    for (unsigned request = 0; request < 2; request++) {
        if (request) {
            open_listener(&s, &pep);
            call_in(&s, 1);
        } else {
            open_scene(&s);
            require_connecting(&s.one, 0);
        }
        arrive(0, request ? CM_REQUEST : CM_REJECT);
        buffers[0][CM_BYTES - CM_DATA - 2] = CM_DATA;
        memset(buffers[0] + CM_BYTES - CM_DATA, 'd', CM_DATA);
        progress(&s);
        assert_int_equal(events, 1);
        assert_int_equal(event_len, CM_DATA);
        assert_int_equal(event_data[0], 'd');
        assert_int_equal(event_data[CM_DATA - 1], 'd');
        if (request) {
            assert_int_equal(umfi_cm_reject(&pep, event_handle, "no", 2), 0);
            assert_int_equal(sent[4], 2);
            assert_int_equal(sent[6], CM_REJECT);
            assert_int_equal(sent[CM_BYTES - CM_DATA - 2], 2);
            assert_memory_equal(sent + CM_BYTES - CM_DATA, "no", 2);
            umfi_cm_unlisten(&pep);
        }
        close_scene(&s);
    }
}

/* Where the acceptor is to connect to, and in whose name, in the order of the wire */
TEST(request_names_us, scene_test)
{
    const uint8_t wanted[] = {
        'u', 'm', 'f', 'i', 2, 0, CM_REQUEST, 0, 8, 7, 6, 5, 4, 3, 2, 1,
        0, 0, 0, 0, 0, 0, 0, 0, 10, 7, 0, 3, 0x12, 0x34, 1, 0, 'd',
    };

    scene.port.service = 0x0102030405060708;
    scene.one.src.sin_addr.s_addr = htonl(0x0a070003);
    scene.one.src.sin_port = htons(0x1234);
    assert_int_equal(umfi_cm_connect(&scene.one, &anywhere, "d", 1), 0);
    assert_memory_equal(sent, wanted, sizeof(wanted));
}

/* One that has its answer is to be silent. */
TEST(message_after_the_answer, request_test)
{
    assert_int_equal(umfi_cm_reject(&listener, event_handle, NULL, 0), 0);
    require_open(1 << 0);
    arrive(0, CM_REQUEST);
    progress(&scene);
    assert_int_equal(events, 1);
    require_open(0);
}

/* A request for another passive endpoint is not this one's to refuse. */
TEST(handle_of_another, cmocka_unit_test)
{
    struct umfi_pep pep = { 0 }, other = { 0 };
    struct scene s;

    open_request(&s, &pep);
    other.fabric = &s.fabric;
    assert_int_equal(umfi_cm_reject(&other, event_handle, NULL, 0), -FI_EINVAL);
    assert_int_equal(umfi_cm_reject(&pep, &other.fid.fid, NULL, 0), -FI_EINVAL);
    assert_false(umfi_cm_assign_request(&s.fabric, &other.fid.fid, &s.one));
    assert_true(umfi_cm_assign_request(&s.fabric, event_handle, &s.one));
    assert_false(umfi_cm_assign_request(&s.fabric, event_handle, &s.two));
    assert_int_equal(requests, 0);
    abandon(&s, &s.one);
    close_listener(&s, &pep);
}

/* A request that has its answer gets no other: the provider's own mistake ends the program. */
TEST(answered_twice, request_test)
{
    struct umfi_message m = { 0 };
    int status;
    pid_t child;

    child = fork();
    if (!child) {
        struct umfi_conn *conn = umfi_of(event_handle, struct umfi_conn, fid);

        /* A library that libfabric loads has a handler. */
        signal(SIGABRT, SIG_DFL);
        sys_lock_take(&scene.fabric.lock);
        umfi_conn_send_answer(conn, &m, UMFI_REJECT, NULL, 0);
        umfi_conn_send_answer(conn, &m, UMFI_REJECT, NULL, 0);
        _exit(requests == 2);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

/* A number is asked for until one is free, as long as there are some. */
TEST(number_of_nobody, cmocka_unit_test)
{
    static const struct {
        unsigned taken;
        int ret;
    } rows[] = { { 0, 0 }, { 5, 0 }, { PORTS - 1, 0 }, { PORTS, -EADDRINUSE } };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct umfi_pep pep = { 0 };
        struct scene s;

        open_scene(&s);
        pep.fabric = &s.fabric;
        listening = &pep;
        listens = 0;
        taken_ports = rows[i].taken;
        assert_int_equal(umfi_cm_listen(&pep), rows[i].ret);
        assert_int_equal(listens, rows[i].taken + !rows[i].ret);
        assert_in_range(last_port, FIRST_PORT, FIRST_PORT + PORTS - 1);
        assert_int_equal(ntohs(pep.address.sin_port), rows[i].ret ? 0 : last_port);
        listening = NULL;
        taken_ports = 0;
        umfi_cm_unlisten(&pep);
        close_scene(&s);
    }
}
