/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Endpoints on a port whose card is the test: their end, and its remains. */
#include "../one_test.h"
#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "provider.h"

#define CHANNELS    4
#define PENDING     8
#define OPS         2
#define CHANNEL     2       /* of the EP */

/* ---- The library, with one endpoint of the card ----------------------------- */

const uint32_t unetmm_inline_1_ = 1;
struct umfi_config umfi_config = { .source = UNETMM_SOURCE_ODP };
struct fi_provider umfi_provider = { .name = UMFI_NAME };
struct fi_ops_rma umfi_rma_ops;

static int card_fd;
static uint32_t mtu[CHANNELS];      /* 0: the channel is not open */
static struct unetmm_completion pending[PENDING];
static unsigned npending;
static uint64_t queued;             /* user_data of the last descriptor */
static sem_t was_queued;
static unsigned disconnects;
static bool stopped;                /* the endpoint, by the card */

static int card_queue(struct unetmm_ep *ep, const struct iovec *iov, unsigned n,
                      size_t len, int is_inline)
{
    queued = ep->request.user_data;
    sem_post(&was_queued);
    return 0;
}

static int card_post(struct unetmm_ep *ep, void *buf, size_t len, uint64_t user_data,
                     unsigned flags)
{
    return 0;
}

static int card_poll(struct unetmm_ep *ep, struct unetmm_completion *c, unsigned n)
{
    unsigned taken = npending < n ? npending : n;

    if (stopped && !npending) {
        return -EIO;
    }
    memcpy(c, pending, taken * sizeof(*c));
    npending -= taken;
    memmove(pending, pending + taken, npending * sizeof(*c));
    return (int)taken;
}

/* The channel takes each descriptor at once, long before the peer's card has its message. */
static int card_pending(struct unetmm_ep *ep)
{
    return 0;
}

static const struct unetmm_rare_ops_ rare = {
    .queue = card_queue, .post = card_post, .poll = card_poll,
};
static const struct unetmm_source_ops_ source = { .pending = card_pending };
static struct unetmm_ep_index indices;
static struct unetmm_ep card_ep = {
    .alive = 1,
    .source = &source,
    .rare = &rare,
    .index = &indices,
    .max_buffer_pages = UINT32_MAX,
    .channels = CHANNELS,
    .channel_mtu = mtu,
};

static void complete(uint8_t type, uint64_t user_data, uint8_t status)
{
    assert_true(npending < PENDING);
    pending[npending++] = (struct unetmm_completion) {
        .type = type, .channel = CHANNEL, .user_data = user_data, .status = status,
    };
}

int unetmm_disconnect(struct unetmm_ep *ep, int channel)
{
    assert_int_equal(channel, CHANNEL);
    disconnects++;
    mtu[channel] = 0;
    return 0;
}

int unetmm_fd(const struct unetmm_ep *ep)
{
    return card_fd;
}

int unetmm_arm(struct unetmm_ep *ep)
{
    eventfd_t count;

    eventfd_read(card_fd, &count);
    return npending || stopped;
}

const char *unetmm_status_str(unsigned status)
{
    return "";
}

const char *unetmm_strerror(int error, enum unetmm_call call)
{
    return "";
}

static void (*while_opening)(void);     /* another thread, while a port is opened; or NULL */
static int endpoints;

/* The test makes the port of its scene itself, as an SRX's that outlives its EPs. */
int unetmm_ep_create(struct unetmm_ctx *ctx, const struct unetmm_ep_attr *attr,
                     struct unetmm_ep **ep)
{
    void (*other)(void) = while_opening;

    while_opening = NULL;
    if (other) {
        other();
    }
    endpoints++;
    *ep = &card_ep;
    return 0;
}

int unetmm_ep_destroy(struct unetmm_ep *ep)
{
    endpoints--;
    return 0;
}

int unetmm_listen_ex(struct unetmm_ep *ep, uint64_t service, unsigned backlog,
                     const struct unetmm_channel_attr *attr)
{
    return 0;
}

/* ---- The rest of the provider ------------------------------------------------ */

void umfi_ep_push_event(struct umfi_ep *ep, uint32_t event, int err, const void *data, size_t len)
{
}

/* Between the end of its port and the end of the EP, which other threads may find. */
void umfi_eq_remove_events(struct umfi_eq *eq, fid_t fid)
{
    assert_null(umfi_of(fid, struct umfi_ep, fid.fid)->port);
}

bool umfi_cm_assign_request(struct umfi_fabric *fabric, fid_t handle, struct umfi_ep *ep)
{
    fail();
    return false;
}

int umfi_cm_connect(struct umfi_ep *ep, const struct sockaddr_in *to, const void *data,
                    size_t len)
{
    fail();
    return 0;
}

int umfi_cm_accept(struct umfi_ep *ep, const void *data, size_t len)
{
    fail();
    return 0;
}

void umfi_cm_abandon_ep(struct umfi_ep *ep)
{
}

void umfi_calls_cancel(struct umfi_fabric *fabric, const struct unetmm_ep *card)
{
}


int umfi_pin(struct umfi_fabric *fabric, const void *addr, size_t len)
{
    return 0;
}

void umfi_unpin(struct umfi_fabric *fabric, const void *addr, size_t len)
{
}

/* ---- Tests ------------------------------------------------------------------- */

struct scene {
    struct umfi_fabric fabric;
    struct umfi_domain domain;
    struct umfi_srx srx;
    struct umfi_eq eq;
    struct umfi_port port;
    struct umfi_ep *by_channel[CHANNELS];
    uint8_t ends[CHANNELS];
    struct umfi_op sends[OPS], receives[OPS];
    struct fid_cq *cq;
    struct fid_ep *ep;
};

/* A connected EP, whose sends and receives complete in one queue. */
static void open_scene(struct scene *s)
{
    struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_FD };
    struct fi_info info = { 0 };
    struct umfi_ep *ep;

    memset(s, 0, sizeof(*s));
    npending = disconnects = 0;
    stopped = false;
    mtu[CHANNEL] = UNETMM_MAX_MESSAGE;
    card_fd = eventfd(0, EFD_NONBLOCK);
    assert_true(card_fd >= 0);
    assert_int_equal(sem_init(&was_queued, 0, 0), 0);
    s->domain.fabric = &s->fabric;
    s->fabric.dev.limits = (struct unetmm_info) { .channels = CHANNELS, .max_ring_log2 = 4 };
    umfi_list_init(&s->fabric.ports);
    s->port = (struct umfi_port) {
        .domain = &s->domain, .events = &umfi_channel_events,
        .ep = &card_ep, .by_channel = s->by_channel,
        .channel_ends = s->ends,
        .channels = CHANNELS,
    };
    umfi_list_init(&s->port.accepting);
    umfi_list_init(&s->port.ending);
    umfi_list_init(&s->domain.eps);
    umfi_pool_fill(&s->port.tx, s->sends, OPS);
    umfi_pool_fill(&s->port.rx, s->receives, OPS);
    s->srx.port = &s->port;
    assert_int_equal(umfi_cq_open(&s->domain.fid, &attr, &s->cq, NULL), 0);
    assert_int_equal(umfi_ep_open(&s->domain.fid, &info, &s->ep, NULL), 0);
    ep = umfi_of(s->ep, struct umfi_ep, fid);
    ep->port = &s->port;
    ep->tx_cq = ep->rx_cq = umfi_of(s->cq, struct umfi_cq, fid);
    ep->tx_completion = ep->rx_completion = FI_COMPLETION;
    ep->tx_cq->users += 2;
    ep->channel = CHANNEL;
    ep->open = true;
    ep->eq = &s->eq;
    s->eq.users++;
    umfi_lock(&s->domain);
    assert_int_equal(umfi_cq_attach(ep->tx_cq, &s->port), 0);
    assert_int_equal(umfi_cq_attach(ep->rx_cq, &s->port), 0);
    umfi_ep_set_state(ep, UMFI_CONNECTING);
    umfi_ep_connected(ep, NULL, 0);
    umfi_unlock(&s->domain);
}

/* The EP shares its port, which then stays. */
static void share_port(struct scene *s)
{
    umfi_of(s->ep, struct umfi_ep, fid)->srx = &s->srx;
    s->srx.users++;
}

static void close_scene(struct scene *s)
{
    assert_int_equal(s->eq.channels, 0);
    assert_int_equal(fi_close(&s->cq->fid), 0);
    umfi_ep_free_closed(&s->domain);
    sem_destroy(&was_queued);
    close(card_fd);
}

/* The same, with the EP. */
static void shut_scene(struct scene *s)
{
    share_port(s);
    umfi_config.close_ms = 0;
    assert_int_equal(fi_close(&s->ep->fid), 0);
    close_scene(s);
}

static void progress(struct scene *s)
{
    umfi_lock(&s->domain);
    umfi_port_progress(&s->port);
    umfi_unlock(&s->domain);
}

/*
 * The peer acknowledges nothing, and fi_close() has waited for it in vain.  The fence completes
 * when its channel has ended.  Until then it is not another's operation.
 */
TEST(late_fence, cmocka_unit_test)
{
    struct scene s;

    open_scene(&s);
    share_port(&s);
    /* Long enough for the fence to be queued on a machine that is busy. */
    umfi_config.close_ms = 200;
    assert_int_equal(fi_inject(s.ep, &s, 1, 0), 0);
    assert_int_equal(fi_close(&s.ep->fid), 0);
    assert_int_equal(disconnects, 1);
    assert_true(s.sends[0].busy);
    complete(UNETMM_CQE_SENT, queued, UNETMM_ST_BAD_CHANNEL);
    progress(&s);
    assert_false(s.sends[0].busy);
    close_scene(&s);
}

/* A send completes when its EP has been closed and its memory is gone. */
TEST(late_send, cmocka_unit_test)
{
    struct scene s;

    open_scene(&s);
    share_port(&s);
    umfi_config.close_ms = 0;
    assert_int_equal(fi_send(s.ep, &s, 1, NULL, 0, NULL), 0);
    assert_int_equal(fi_close(&s.ep->fid), 0);
    umfi_ep_free_closed(&s.domain);
    assert_true(s.sends[0].busy);
    complete(UNETMM_CQE_SENT, (uintptr_t)&s.sends[0], UNETMM_ST_BAD_CHANNEL);
    progress(&s);
    assert_false(s.sends[0].busy);
    close_scene(&s);
}

/* Takes the domain's lock while fi_close() waits: else that waits for ever. */
static void *answer_fence(void *arg)
{
    struct scene *s = arg;

    sem_wait(&was_queued);      /* the message */
    sem_wait(&was_queued);      /* the fence */
    umfi_lock(&s->domain);
    complete(UNETMM_CQE_SENT, (uintptr_t)&s->sends[0], UNETMM_ST_OK);
    complete(UNETMM_CQE_SENT, queued, UNETMM_ST_OK);
    umfi_unlock(&s->domain);
    eventfd_write(card_fd, 1);
    return NULL;
}

static void require_entries(struct scene *s, ssize_t n)
{
    struct fi_cq_msg_entry entries[1];

    for (; n; n--) {
        assert_int_equal(fi_cq_read(s->cq, entries, 1), 1);
    }
    assert_int_equal(fi_cq_read(s->cq, entries, 1), -FI_EAGAIN);
}

TEST(others_go_on, cmocka_unit_test)
{
    struct scene s;
    pthread_t other;

    open_scene(&s);
    share_port(&s);
    umfi_config.close_ms = INT32_MAX;
    assert_int_equal(fi_send(s.ep, &s, 1, NULL, 0, NULL), 0);
    assert_int_equal(pthread_create(&other, NULL, answer_fence, &s), 0);
    assert_int_equal(fi_close(&s.ep->fid), 0);
    assert_int_equal(pthread_join(other, NULL), 0);
    assert_int_equal(disconnects, 1);
    assert_false(s.sends[0].busy || s.sends[1].busy);
    require_entries(&s, 1);
    close_scene(&s);
}

/* A direction that has no operation left refuses its own calls alone. */
TEST(full_directions, cmocka_unit_test)
{
    for (unsigned full_of_sends = 0; full_of_sends < 2; full_of_sends++) {
        struct scene s;

        open_scene(&s);
        for (unsigned i = 0; i < OPS; i++) {
            assert_int_equal(full_of_sends ? fi_send(s.ep, &s, 1, NULL, 0, NULL) :
                             fi_recv(s.ep, &s, 1, NULL, 0, NULL), 0);
        }
        assert_int_equal(fi_send(s.ep, &s, 1, NULL, 0, NULL), full_of_sends ? -FI_EAGAIN : 0);
        assert_int_equal(fi_recv(s.ep, &s, 1, NULL, 0, NULL), full_of_sends ? 0 : -FI_EAGAIN);
        shut_scene(&s);
    }
}

static bool is_readable(struct scene *s)
{
    struct pollfd poll_cq = { .events = POLLIN };

    assert_int_equal(fi_control(&s->cq->fid, FI_GETWAIT, &poll_cq.fd), 0);
    return poll(&poll_cq, 1, 0) > 0;
}

static int trywait(struct scene *s)
{
    return umfi_cq_trywait(umfi_of(s->cq, struct umfi_cq, fid));
}

/* A message for each operation of the port */
static void receive_all(struct scene *s)
{
    for (unsigned i = 0; i < OPS; i++) {
        assert_int_equal(fi_recv(s->ep, s, 1, NULL, 0, NULL), 0);
        complete(UNETMM_CQE_RECEIVED, (uintptr_t)&s->receives[i], UNETMM_ST_OK);
    }
    eventfd_write(card_fd, 1);
}

/*
 * One reader sleeps.  Another one looks at the queue, is told to read, takes one of two
 * entries and goes: the first is awake for the other entry.
 */
TEST(two_readers, cmocka_unit_test)
{
    struct fi_cq_msg_entry entry;
    struct scene s;

    open_scene(&s);
    assert_int_equal(trywait(&s), 0);
    assert_false(is_readable(&s));
    receive_all(&s);
    assert_int_equal(trywait(&s), -FI_EAGAIN);
    assert_true(is_readable(&s));
    assert_int_equal(fi_cq_read(s.cq, &entry, 1), 1);
    assert_int_equal(trywait(&s), -FI_EAGAIN);
    assert_true(is_readable(&s));
    require_entries(&s, 1);
    assert_int_equal(trywait(&s), 0);
    assert_false(is_readable(&s));
    shut_scene(&s);
}

/* Its operations come back once, and a reader may sleep. */
TEST(stopped_port, cmocka_unit_test)
{
    struct fi_cq_msg_entry entry;
    struct scene s;

    open_scene(&s);
    stopped = true;
    eventfd_write(card_fd, 1);
    assert_int_equal(trywait(&s), -FI_EAGAIN);
    assert_int_equal(fi_cq_read(s.cq, &entry, 1), -FI_EAGAIN);
    eventfd_write(card_fd, 1);
    assert_int_equal(trywait(&s), 0);
    assert_false(is_readable(&s));
    shut_scene(&s);
}

/* The peer has ended the channel: receives come back, and there are no new ones. */
TEST(receive_after_the_end, cmocka_unit_test)
{
    struct fi_cq_err_entry error = { 0 };
    struct scene s;

    open_scene(&s);
    assert_int_equal(s.eq.channels, 1);
    assert_int_equal(fi_recv(s.ep, &s, 1, NULL, 0, &error), 0);
    complete(UNETMM_CQE_CLOSED, 0, UNETMM_ST_BAD_CHANNEL);
    progress(&s);
    assert_int_equal(fi_cq_readerr(s.cq, &error, 0), 1);
    assert_ptr_equal(error.op_context, &error);
    assert_int_equal(error.err, FI_ECANCELED);
    assert_int_equal(fi_recv(s.ep, &s, 1, NULL, 0, NULL), -FI_ENOTCONN);
    assert_int_equal(s.eq.channels, 0);
    require_entries(&s, 0);
    shut_scene(&s);
}

/* Completions without an operation, and of channels that there are not, change nothing. */
TEST(completions_of_nothing, cmocka_unit_test)
{
    static const struct { uint8_t type, status; } rows[] = {
        { UNETMM_CQE_SENT, UNETMM_ST_TIMEOUT }, { UNETMM_CQE_RECEIVED, UNETMM_ST_OK },
        { UNETMM_CQE_WRITTEN, UNETMM_ST_OK }, { UNETMM_CQE_BUFFER, UNETMM_ST_PROTECTION },
        { 99, UNETMM_ST_OK },
    };
    struct scene s;

    open_scene(&s);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (unsigned beyond = 0; beyond < 2; beyond++) {
            complete(rows[i].type, 0, rows[i].status);
            pending[npending - 1].channel = beyond ? CHANNELS : CHANNEL;
            progress(&s);
            require_entries(&s, 0);
        }
    }
    /* A message in the completion, though none is asked for: the buffer stays. */
    assert_int_equal(fi_recv(s.ep, &s, 1, NULL, 0, NULL), 0);
    complete(UNETMM_CQE_RECEIVED, (uintptr_t)&s.receives[0], UNETMM_ST_OK);
    pending[0].is_inline = 1;
    progress(&s);
    require_entries(&s, 0);
    assert_true(s.receives[0].busy);
    complete(UNETMM_CQE_CLOSED, 0, UNETMM_ST_BAD_CHANNEL);
    pending[0].channel = CHANNELS;
    progress(&s);
    assert_int_equal(s.eq.channels, 1);
    shut_scene(&s);
}

/* Receives of an SRX come back at a queue of its EPs, once. */
TEST(stopped_port_of_an_srx, cmocka_unit_test)
{
    struct fi_cq_err_entry error = { 0 };
    struct scene s;

    open_scene(&s);
    share_port(&s);
    s.srx.fid.msg = &umfi_srx_msg_ops;
    assert_int_equal(fi_recv(&s.srx.fid, &s, 1, NULL, 0, &error), 0);
    stopped = true;
    progress(&s);
    assert_int_equal(fi_cq_readerr(s.cq, &error, 0), 1);
    assert_ptr_equal(error.op_context, &error);
    assert_int_equal(error.err, FI_ECANCELED);
    assert_int_equal(fi_recv(&s.srx.fid, &s, 1, NULL, 0, NULL), -FI_ENOTCONN);
    progress(&s);
    require_entries(&s, 0);
    umfi_config.close_ms = 0;
    assert_int_equal(fi_close(&s.ep->fid), 0);
    require_entries(&s, 0);
    close_scene(&s);
}

static ssize_t (*post_receive)(struct fid_ep *ep);

static ssize_t post_one(struct fid_ep *ep)
{
    return fi_recv(ep, &endpoints, 1, NULL, 0, NULL);
}

static ssize_t post_pieces(struct fid_ep *ep)
{
    const struct iovec iov = { &endpoints, 1 };

    return fi_recvv(ep, &iov, NULL, 1, 0, NULL);
}

static ssize_t post_described(struct fid_ep *ep)
{
    const struct iovec iov = { &endpoints, 1 };
    const struct fi_msg msg = { .msg_iov = &iov, .iov_count = 1 };

    return fi_recvmsg(ep, &msg, 0);
}

static void *receive_thread(void *ep)
{
    return (void *)(intptr_t)post_receive(ep);
}

/* Another thread closes the EP, and its port, while fi_recv() waits for the lock. */
TEST(closed_while_receiving, cmocka_unit_test)
{
    static ssize_t (*const posts[])(struct fid_ep *ep) = { post_one, post_pieces, post_described };

    for (size_t i = 0; i < sizeof(posts) / sizeof(posts[0]); i++) {
        pthread_t other;
        struct scene s;
        void *result;

        open_scene(&s);
        post_receive = posts[i];
        umfi_lock(&s.domain);
        assert_int_equal(pthread_create(&other, NULL, receive_thread, s.ep), 0);
        while (__atomic_load_n(&s.domain.lock.state, __ATOMIC_ACQUIRE) != SYS_LOCK_AWAITED) {
            sched_yield();
        }
        umfi_of(s.ep, struct umfi_ep, fid)->port = NULL;
        umfi_unlock(&s.domain);
        assert_int_equal(pthread_join(other, &result), 0);
        assert_int_equal((intptr_t)result, -FI_EOPBADSTATE);
        assert_false(s.receives[0].busy);
        umfi_of(s.ep, struct umfi_ep, fid)->port = &s.port;
        shut_scene(&s);
    }
}

static struct fid_ep *raced;
static struct fid_cq *raced_cq;
static struct scene *race;

/* An EP that is bound and not enabled yet */
static struct fid_ep *open_bound(struct scene *s)
{
    struct fi_cq_attr attr = { .wait_obj = FI_WAIT_NONE };
    struct fi_info info = { 0 };
    struct fid_ep *ep;

    s->eq.fabric = &s->fabric;
    s->eq.fid.fid.fclass = FI_CLASS_EQ;
    assert_int_equal(umfi_ep_open(&s->domain.fid, &info, &ep, NULL), 0);
    assert_int_equal(fi_ep_bind(ep, &s->eq.fid.fid, 0), 0);
    assert_int_equal(umfi_cq_open(&s->domain.fid, &attr, &raced_cq, NULL), 0);
    assert_int_equal(fi_ep_bind(ep, &raced_cq->fid, FI_TRANSMIT | FI_RECV), 0);
    return ep;
}

static void enable_raced(void)
{
    assert_int_equal(fi_enable(raced), 0);
}

static void close_raced(void)
{
    assert_int_equal(fi_close(&raced->fid), 0);
}

static void bind_raced(void)
{
    race->srx.fid.fid.fclass = FI_CLASS_SRX_CTX;
    race->srx.domain = &race->domain;
    assert_int_equal(fi_ep_bind(raced, &race->srx.fid.fid, 0), 0);
}

/* Another thread enables, closes or binds the EP while its port is opened: no port is left over. */
TEST(enabled_twice, cmocka_unit_test)
{
    static const struct {
        void (*other)(void);
        int ret, endpoints;
    } rows[] = {
        { NULL, 0, 1 }, { enable_raced, 0, 1 }, { close_raced, -FI_EOPBADSTATE, 0 },
        { bind_raced, -FI_EOPBADSTATE, 0 },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct scene s;

        open_scene(&s);
        race = &s;
        raced = open_bound(&s);
        while_opening = rows[i].other;
        assert_int_equal(fi_enable(raced), rows[i].ret);
        assert_int_equal(endpoints, rows[i].endpoints);
        if (rows[i].other != close_raced) {
            assert_int_equal(fi_close(&raced->fid), 0);
        }
        assert_int_equal(fi_enable(raced), -FI_EOPBADSTATE);
        assert_int_equal(fi_ep_bind(raced, &raced_cq->fid, FI_RECV), -FI_EOPBADSTATE);
        assert_int_equal(endpoints, 0);
        assert_int_equal(fi_close(&raced_cq->fid), 0);
        shut_scene(&s);
    }
}

/* A step that no EP makes: the provider's own mistake ends the program. */
TEST(wrong_step, cmocka_unit_test)
{
    struct scene s;
    int status;
    pid_t child;

    open_scene(&s);
    child = fork();
    if (!child) {
        /* A library that libfabric loads has a handler. */
        signal(SIGABRT, SIG_DFL);
        umfi_lock(&s.domain);
        umfi_ep_set_state(umfi_of(s.ep, struct umfi_ep, fid), UMFI_IDLE);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    shut_scene(&s);
}

static unsigned depth, deepest;     /* of the calls that end EPs */

static void end_some(struct umfi_port *port)
{
    deepest = ++depth > deepest ? depth : deepest;
    umfi_channel_events.progressed(port);
    depth--;
}

/* One EP after the other, not one inside the other. */
TEST(ended_together, cmocka_unit_test)
{
    const struct umfi_port_events events = {
        .connected = umfi_channel_events.connected, .ended = umfi_channel_events.ended,
        .progressed = end_some,
    };
    struct umfi_ep eps[8];
    struct scene s;

    open_scene(&s);
    s.port.events = &events;
    umfi_lock(&s.domain);
    for (unsigned i = 0; i < 8; i++) {
        eps[i] = *umfi_of(s.ep, struct umfi_ep, fid);
        eps[i].state = UMFI_ENDING;
        umfi_list_init(&eps[i].node);
        umfi_list_add(&s.port.ending, &eps[i].node);
        s.eq.channels++;
    }
    umfi_unlock(&s.domain);
    progress(&s);
    assert_int_equal(disconnects, 8);
    assert_int_equal(deepest, 1);
    shut_scene(&s);
}

/* Data that has no room in a request: nothing is asked. */
TEST(long_request, cmocka_unit_test)
{
    const struct sockaddr_in to = { .sin_family = AF_INET };
    uint8_t data[UMFI_CM_DATA + 1] = { 0 };
    struct scene s;

    open_scene(&s);
    assert_int_equal(fi_connect(s.ep, &to, data, sizeof(data)), -FI_EINVAL);
    shut_scene(&s);
}
