/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Both sides of a connection, on a card that is the test: channels that nobody has asked
 * for, and messages of one that had a channel's number before.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "provider.h"

#define CHANNELS    8
#define PENDING     8
#define BUFFERS     64
#define CM_BYTES    160     /* of a message of the connection management */
#define CM_REQUEST  1
#define CM_ACCEPT   2
#define SPARE       4       /* arrivals beside the requests */
#define CARDS       2       /* endpoints: one for data, one for connections */
#define PEER_EP     5
#define PEER_CHANNEL 70     /* and of the next arrival one more */

/* ---- The library ------------------------------------------------------------- */

const uint32_t unetmm_inline_1_ = 1;
struct umfi_config umfi_config = { .source = UNETMM_SOURCE_ODP };
struct fi_provider umfi_provider = { .name = UMFI_NAME };
struct fi_ops_rma umfi_rma_ops;

static struct card {
    struct unetmm_ep ep;
    struct unetmm_completion pending[PENDING];
    unsigned npending, callers, arrived;
    uint32_t mtu[CHANNELS];             /* 0: the number is free */
    uint8_t *buffers[BUFFERS];          /* of the connection management */
    uint64_t posted[PENDING];           /* user_data of receive buffers */
    unsigned nposted;
    bool stopped;
} cards[CARDS];
static unsigned ncards, sent;
static bool crossing;                   /* peers close when we do */
static bool hasty;                      /* peers close at once ... */
static struct umfi_port *reader;        /* ... and another thread reads of it first */
static unsigned flood;                  /* messages of a stranger to the data port */
static int context_fd, card_fd;
static uint32_t events[PENDING];
static unsigned nevents;
static fid_t handle;                    /* of the last request */

static struct card *card_of(struct unetmm_ep *ep)
{
    return umfi_of(ep, struct card, ep);
}

static int card_queue(struct unetmm_ep *ep, const struct iovec *iov, unsigned n,
                      size_t len, int is_inline)
{
    sent++;
    return 0;
}

static int card_post(struct unetmm_ep *ep, void *buf, size_t len, uint64_t user_data,
                     unsigned flags)
{
    struct card *card = card_of(ep);

    if (user_data < BUFFERS) {
        card->buffers[user_data] = buf;
    } else {
        card->posted[card->nposted++ % PENDING] = user_data;
    }
    return 0;
}

static int card_poll(struct unetmm_ep *ep, struct unetmm_completion *c, unsigned n)
{
    struct card *card = card_of(ep);
    unsigned taken = card->npending < n ? card->npending : n;

    if (flood) {
        taken = flood < n ? flood : n;
        flood -= taken;
        for (unsigned i = 0; i < taken; i++) {
            c[i] = (struct unetmm_completion) {
                .type = UNETMM_CQE_RECEIVED, .channel = CHANNELS - 1,
                .user_data = card->posted[0],
            };
        }
        return (int)taken;
    }
    if (card->stopped) {
        return -EIO;
    }
    memcpy(c, card->pending, taken * sizeof(*c));
    card->npending -= taken;
    memmove(card->pending, card->pending + taken, card->npending * sizeof(*c));
    return (int)taken;
}

static int card_pending(struct unetmm_ep *ep)
{
    return 0;
}

static const struct unetmm_rare_ops_ rare = {
    .queue = card_queue, .post = card_post, .poll = card_poll,
};
static const struct unetmm_source_ops_ source = { .pending = card_pending };
static struct unetmm_ep_index indices;

int unetmm_ep_create(struct unetmm_ctx *ctx, const struct unetmm_ep_attr *attr,
                     struct unetmm_ep **ep)
{
    struct card *card = &cards[ncards++];

    assert_true(ncards <= CARDS);
    memset(card, 0, sizeof(*card));
    card->ep = (struct unetmm_ep) {
        .alive = 1, .source = &source, .rare = &rare, .index = &indices,
        .max_buffer_pages = UINT32_MAX, .inline_max = 256, .channels = CHANNELS,
        .channel_mtu = card->mtu,
    };
    *ep = &card->ep;
    return 0;
}

int unetmm_ep_destroy(struct unetmm_ep *ep)
{
    return 0;
}

/* The lowest number that is free, as the driver. */
static int open_channel(struct card *card)
{
    for (int i = 0; i < CHANNELS; i++) {
        if (!card->mtu[i]) {
            card->mtu[i] = UNETMM_MAX_MESSAGE;
            return i;
        }
    }
    return -ENOSPC;
}

static void close_channel(struct card *card, unsigned channel, uint8_t status)
{
    card->pending[card->npending++] = (struct unetmm_completion) {
        .type = UNETMM_CQE_CLOSED, .channel = (uint16_t)channel, .status = status,
    };
}

static void close_hastily(struct card *card, int channel)
{
    if (hasty) {
        close_channel(card, (unsigned)channel, UNETMM_ST_BAD_CHANNEL);
    }
    if (reader) {
        umfi_lock(reader->domain);
        umfi_port_progress(reader);
        umfi_unlock(reader->domain);
    }
}

int unetmm_connect_ex(struct unetmm_ep *ep, const uint8_t mac[6], uint64_t service,
                      int64_t timeout_ns, const struct unetmm_channel_attr *attr,
                      struct unetmm_peer *peer)
{
    int channel = open_channel(card_of(ep));

    close_hastily(card_of(ep), channel);
    return channel;
}

int unetmm_disconnect(struct unetmm_ep *ep, int channel)
{
    card_of(ep)->mtu[channel] = 0;
    if (crossing) {
        close_channel(card_of(ep), (unsigned)channel, UNETMM_ST_BAD_CHANNEL);
    }
    return 0;
}

int unetmm_listen_ex(struct unetmm_ep *ep, uint64_t service, unsigned backlog,
                     const struct unetmm_channel_attr *attr)
{
    return 0;
}

int unetmm_accept(struct unetmm_ep *ep, struct unetmm_peer *peer, int64_t timeout_ns)
{
    struct card *card = card_of(ep);

    if (!card->callers) {
        return -EAGAIN;
    }
    card->callers--;
    memset(peer->mac, 2, sizeof(peer->mac));
    peer->endpoint = PEER_EP;
    peer->channel = (uint16_t)open_channel(card);
    return peer->channel;
}

int unetmm_channel_info(struct unetmm_ep *ep, int channel,
                        struct unetmm_channel_info *info)
{
    info->peer_channel = PEER_CHANNEL + card_of(ep)->arrived++;
    close_hastily(card_of(ep), channel);
    return 0;
}

int unetmm_fd(const struct unetmm_ep *ep)
{
    return card_fd;
}

int unetmm_ctx_fd(const struct unetmm_ctx *ctx)
{
    return context_fd;
}

int unetmm_arm(struct unetmm_ep *ep)
{
    return card_of(ep)->npending;
}

int unetmm_ep_id(const struct unetmm_ep *ep)
{
    return 1;
}

int unetmm_register(struct unetmm_ctx *ctx, void *addr, size_t length, unsigned flags)
{
    return 0;
}

int unetmm_deregister(struct unetmm_ctx *ctx, void *addr, size_t length)
{
    return 0;
}

const char *unetmm_strerror(int error, enum unetmm_call call)
{
    return "";
}

const char *unetmm_status_str(unsigned status)
{
    return "";
}

/* ---- The rest of the provider ------------------------------------------------ */

int umfi_resolve(const struct umfi_netdev *dev, struct in_addr to, uint8_t mac[6])
{
    memset(mac, 2, 6);
    return 0;
}

int umfi_has_address(const struct umfi_netdev *dev, const uint8_t mac[6],
                     struct in_addr address)
{
    return 0;
}

bool umfi_neighbours_changed(int fd)
{
    fail();
    return false;
}

bool umfi_eq_withdraw(struct umfi_eq *eq, fid_t request)
{
    return false;
}

void umfi_eq_push(struct umfi_eq *eq, uint32_t event, fid_t fid, int err,
                  struct fi_info *info, const void *data, size_t len)
{
    events[nevents++ % PENDING] = err ? (uint32_t)-err : event;
    if (info) {
        handle = info->handle;
        fi_freeinfo(info);
    }
}

void umfi_eq_forget(struct umfi_eq *eq, fid_t fid)
{
}

struct fi_info *umfi_info_alloc(const struct umfi_netdev *dev,
                                const struct sockaddr_in *src,
                                const struct sockaddr_in *dst)
{
    return fi_allocinfo();
}

int umfi_pin(struct umfi_fabric *fabric, const void *addr, size_t len)
{
    return 0;
}

void umfi_unpin(struct umfi_fabric *fabric, const void *addr, size_t len)
{
}

/* ---- The scene --------------------------------------------------------------- */

struct scene {
    struct umfi_fabric fabric;
    struct umfi_domain domain;
    struct umfi_eq eq;
    struct umfi_pep pep;
    struct fid_cq *cq;
    struct fid_ep *ep;
    struct card *data, *cm;
    char memory[64];
};

static void open_endpoint(struct scene *s, fid_t request)
{
    struct fi_info info = { .handle = request };

    assert_int_equal(umfi_ep_open(&s->domain.fid, &info, &s->ep, NULL), 0);
    assert_int_equal(fi_ep_bind(s->ep, &s->eq.fid.fid, 0), 0);
    assert_int_equal(fi_ep_bind(s->ep, &s->cq->fid, FI_TRANSMIT | FI_RECV), 0);
    s->data = &cards[ncards];
    assert_int_equal(fi_enable(s->ep), 0);
    assert_int_equal(fi_recv(s->ep, s->memory, sizeof(s->memory), NULL, 0, s), 0);
    assert_int_equal(s->data->nposted, 1);
}

static void open_scene(struct scene *s)
{
    struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_NONE };

    memset(s, 0, sizeof(*s));
    ncards = sent = nevents = 0;
    crossing = hasty = false;
    reader = NULL;
    flood = 0;
    umfi_config.connect_ms = 1000000;
    context_fd = eventfd(0, EFD_NONBLOCK);
    card_fd = eventfd(0, 0);
    s->fabric.epoll = epoll_create1(0);
    s->fabric.neighbours = -1;
    assert_true(context_fd >= 0 && card_fd >= 0 && s->fabric.epoll >= 0);
    pthread_mutex_init(&s->fabric.lock, NULL);
    umfi_list_init(&s->fabric.cm_ports);
    umfi_list_init(&s->fabric.ports);
    s->fabric.dev.card.channels = CHANNELS;
    s->fabric.dev.card.max_ring_log2 = 12;
    s->domain.fabric = &s->fabric;
    s->eq.fid.fid.fclass = FI_CLASS_EQ;
    assert_int_equal(umfi_cq_open(&s->domain.fid, &attr, &s->cq, NULL), 0);
}

static void close_scene(struct scene *s)
{
    umfi_config.close_ms = umfi_config.connect_ms = 0;
    assert_int_equal(fi_close(&s->ep->fid), 0);
    if (s->pep.port) {
        umfi_cm_port_close(s->pep.port);
    }
    if (s->fabric.active) {
        umfi_cm_port_close(s->fabric.active);
    }
    assert_int_equal(fi_close(&s->cq->fid), 0);
    umfi_ep_free_closed(&s->domain);
    close(context_fd);
    close(card_fd);
    close(s->fabric.epoll);
}

static void progress(struct scene *s)
{
    pthread_mutex_lock(&s->fabric.lock);
    umfi_cm_progress(&s->fabric);
    pthread_mutex_unlock(&s->fabric.lock);
}

/* A connector, whose request is on its way. */
static void open_connector(struct scene *s)
{
    const struct sockaddr_in to = { .sin_family = AF_INET };

    open_scene(s);
    open_endpoint(s, NULL);
    s->cm = &cards[ncards];
    assert_int_equal(fi_connect(s->ep, &to, NULL, 0), 0);
    assert_int_equal(sent, 1);
}

/* A listener's endpoint, for a request that has come. */
static void open_requested(struct scene *s)
{
    const uint8_t request[] = { 'u', 'm', 'f', 'i', 2, 0, CM_REQUEST, 0 };

    open_scene(s);
    s->pep.fabric = &s->fabric;
    s->pep.eq = &s->eq;
    s->cm = &cards[ncards];
    assert_int_equal(umfi_cm_listen(&s->pep), 0);
    s->cm->callers = 1;
    memset(s->cm->buffers[0], 0, CM_BYTES);
    memcpy(s->cm->buffers[0], request, sizeof(request));
    s->cm->pending[s->cm->npending++] = (struct unetmm_completion) {
        .type = UNETMM_CQE_RECEIVED, .len = CM_BYTES,
    };
    progress(s);
    assert_int_equal(nevents, 1);
    open_endpoint(s, handle);
}

/* An acceptor, which has answered a request. */
static void open_acceptor(struct scene *s)
{
    open_requested(s);
    assert_int_equal(fi_accept(s->ep, NULL, 0), 0);
    assert_int_equal(sent, 1);
}

/* A message on a channel of the data port fills its buffer. */
static void arrive(struct scene *s, unsigned channel)
{
    s->data->pending[s->data->npending++] = (struct unetmm_completion) {
        .type = UNETMM_CQE_RECEIVED, .channel = (uint16_t)channel, .len = 1,
        .user_data = s->data->posted[0],
    };
}

/* Peers open channels to the data port; the driver's descriptor has said so. */
static void call_in(struct scene *s, unsigned n)
{
    s->data->callers = n;
    pthread_mutex_lock(&s->fabric.lock);
    umfi_arrivals_take(umfi_of(s->ep, struct umfi_ep, fid)->port);
    pthread_mutex_unlock(&s->fabric.lock);
}

/* The peer's answer names the channel that the nth arrival is for it. */
static void answer(struct scene *s, unsigned nth)
{
    const uint8_t head[] = { 'u', 'm', 'f', 'i', 2, 0, CM_ACCEPT, 0 };
    const uint8_t which[] = {
        PEER_EP, 0, 0, 0, (uint8_t)(PEER_CHANNEL + nth), 0, 0, 0,
    };

    memset(s->cm->buffers[0], 0, CM_BYTES);
    memcpy(s->cm->buffers[0], head, sizeof(head));
    memcpy(s->cm->buffers[0] + 16, which, sizeof(which));
    s->cm->pending[s->cm->npending++] = (struct unetmm_completion) {
        .type = UNETMM_CQE_RECEIVED, .len = CM_BYTES,
    };
}

static void require_open(const struct scene *s, unsigned channels)
{
    for (unsigned i = 0; i < CHANNELS; i++) {
        assert_int_equal(!!s->data->mtu[i], channels >> i & 1);
    }
}

static void require_received(struct scene *s, ssize_t n)
{
    struct fi_cq_msg_entry entry;

    assert_int_equal(fi_cq_read(s->cq, &entry, 1), n ? n : -FI_EAGAIN);
}

static enum umfi_state state_of(const struct scene *s)
{
    return umfi_of(s->ep, struct umfi_ep, fid)->state;
}

/* ---- The connector's side ---------------------------------------------------- */

/*
 * Before any answer: one arrival for each request and a few more, the newest of them; a
 * buffer for none.
 */
static void nobody_asked(void **state)
{
    struct scene s;

    open_connector(&s);
    call_in(&s, SPARE + 3);
    arrive(&s, 0);
    progress(&s);
    require_open(&s, ((1 << (SPARE + 1)) - 1) << 2);
    assert_int_equal(s.data->nposted, 2);
    assert_int_equal(s.data->posted[1], s.data->posted[0]);
    require_received(&s, 0);
    answer(&s, 2);
    progress(&s);
    assert_int_equal(state_of(&s), UMFI_CONNECTED);
    /* There is no request any more. */
    call_in(&s, 2);
    progress(&s);
    require_open(&s, 1 << 2);
    close_scene(&s);
}

/* The time of the oldest arrival has passed. */
static void expire(struct scene *s)
{
    struct umfi_port *port = umfi_of(s->ep, struct umfi_ep, fid)->port;

    umfi_of(port->arrivals.next, struct umfi_arrival, node)->until_ms = 0;
}

/* The peer sends, and never answers. */
static void no_answer_in_time(void **state)
{
    struct scene s;

    open_connector(&s);
    /* However short fi_connect() waits for a driver: an answer takes longer. */
    umfi_config.connect_ms = 0;
    call_in(&s, 1);
    progress(&s);
    require_open(&s, 1 << 0);
    expire(&s);
    progress(&s);
    require_open(&s, 0);
    assert_int_equal(state_of(&s), UMFI_CONNECTING);
    close_scene(&s);
}

/* Two were asked for, the first of which has been given up: its channel comes last. */
static void wanted_comes_first(void **state)
{
    struct scene s;

    open_connector(&s);
    call_in(&s, 2);
    progress(&s);
    answer(&s, 0);
    progress(&s);
    assert_int_equal(state_of(&s), UMFI_CONNECTED);
    require_open(&s, 1 << 0);
    close_scene(&s);
}

/* A connector that closes while its peer accepts leaves no channel. */
static void request_was_given_up(void **state)
{
    struct scene s;

    open_connector(&s);
    call_in(&s, 1);
    progress(&s);
    require_open(&s, 1 << 0);
    pthread_mutex_lock(&s.fabric.lock);
    umfi_cm_abandon(umfi_of(s.ep, struct umfi_ep, fid));
    pthread_mutex_unlock(&s.fabric.lock);
    progress(&s);
    require_open(&s, 0);
    close_scene(&s);
}

/*
 * A stranger has sent and has closed its channel before anybody learnt of it; the acceptor's
 * has the same number.
 */
static void message_of_a_stranger(void **state)
{
    struct scene s;

    open_connector(&s);
    arrive(&s, 0);
    call_in(&s, 1);
    answer(&s, 0);
    progress(&s);
    assert_int_equal(state_of(&s), UMFI_CONNECTED);
    require_open(&s, 1 << 0);
    require_received(&s, 0);
    arrive(&s, 0);
    require_received(&s, 1);
    close_scene(&s);
}

/* The end of an arrival is not the next one's of the same number. */
static void end_of_a_stranger(void **state)
{
    struct scene s;

    open_connector(&s);
    call_in(&s, 1);
    progress(&s);
    arrive(&s, 0);
    close_channel(s.data, 0, UNETMM_ST_BAD_CHANNEL);
    progress(&s);
    require_open(&s, 0);
    call_in(&s, 1);
    answer(&s, 1);
    progress(&s);
    assert_int_equal(state_of(&s), UMFI_CONNECTED);
    close_scene(&s);
}

/* The same, of one that we end. */
static void both_end(void **state)
{
    struct scene s;

    open_connector(&s);
    call_in(&s, 2);
    expire(&s);
    crossing = true;
    progress(&s);
    crossing = false;
    require_open(&s, 1 << 1);
    call_in(&s, 1);
    answer(&s, 2);
    progress(&s);
    assert_int_equal(state_of(&s), UMFI_CONNECTED);
    close_scene(&s);
}

/* The acceptor's channel has ended before its answer is read: nobody waits for that end. */
static void ended_acceptor(void **state)
{
    struct scene s;

    open_connector(&s);
    call_in(&s, 1);
    close_channel(s.data, 0, UNETMM_ST_BAD_CHANNEL);
    answer(&s, 0);
    progress(&s);
    assert_int_equal(state_of(&s), UMFI_IDLE);
    assert_int_equal(nevents, 1);
    assert_int_equal(events[0], (uint32_t)-FI_ECONNREFUSED);
    require_open(&s, 0);
    close_scene(&s);
}

/* The same, but it ended before the connector had it in its list. */
static void hasty_acceptor(void **state)
{
    struct scene s;

    for (int other = 0; other < 2; other++) {
        open_connector(&s);
        hasty = true;
        reader = other ? umfi_of(s.ep, struct umfi_ep, fid)->port : NULL;
        call_in(&s, 1);
        hasty = false;
        answer(&s, 0);
        progress(&s);
        assert_int_equal(state_of(&s), UMFI_IDLE);
        assert_int_equal(nevents, 1);
        assert_int_equal(events[0], (uint32_t)-FI_ECONNREFUSED);
        reader = NULL;
        require_open(&s, 0);
        close_scene(&s);
    }
}

/* The end of a channel that had the number before, and that nobody here had. */
static void end_of_the_number_before(void **state)
{
    struct scene s;

    open_connector(&s);
    close_channel(s.data, 0, UNETMM_ST_BAD_CHANNEL);
    call_in(&s, 1);
    answer(&s, 0);
    progress(&s);
    assert_int_equal(state_of(&s), UMFI_CONNECTED);
    close_scene(&s);
    open_requested(&s);
    close_channel(s.data, 0, UNETMM_ST_BAD_CHANNEL);
    assert_int_equal(fi_accept(s.ep, NULL, 0), 0);
    progress(&s);
    assert_int_equal(state_of(&s), UMFI_ACCEPTING);
    close_scene(&s);
}

/* The card has stopped the port: a connection on it would never end. */
static void answer_to_a_stopped_port(void **state)
{
    struct scene s;

    open_connector(&s);
    call_in(&s, 1);
    s.data->stopped = true;
    answer(&s, 0);
    progress(&s);
    assert_int_equal(state_of(&s), UMFI_IDLE);
    assert_int_equal(nevents, 1);
    assert_int_equal(events[0], (uint32_t)-FI_ECONNREFUSED);
    close_scene(&s);
}

/* A stranger's messages do not keep the lock from others. */
static void flood_of_a_stranger(void **state)
{
    struct scene s;
    struct umfi_port *port;

    open_connector(&s);
    port = umfi_of(s.ep, struct umfi_ep, fid)->port;
    flood = 1000000;
    umfi_lock(&s.domain);
    umfi_port_progress(port);
    umfi_unlock(&s.domain);
    assert_in_range(flood, 900000, 999999);
    flood = 0;
    close_scene(&s);
}

/* ---- The acceptor's side ----------------------------------------------------- */

static void connector_hangs_up(void **state)
{
    struct scene s;

    open_acceptor(&s);
    progress(&s);
    assert_int_equal(nevents, 1);
    assert_int_equal(fi_send(s.ep, s.memory, 1, NULL, 0, NULL), -FI_ENOTCONN);
    close_channel(s.cm, 0, UNETMM_ST_BAD_CHANNEL);
    progress(&s);
    assert_int_equal(nevents, 2);
    assert_int_equal(events[1], FI_CONNECTED);
    assert_int_equal(fi_send(s.ep, s.memory, 1, NULL, 0, NULL), 0);
    close_scene(&s);
}

static void connector_sends_first(void **state)
{
    struct scene s;

    open_acceptor(&s);
    arrive(&s, 0);
    require_received(&s, 1);
    assert_int_equal(nevents, 2);
    assert_int_equal(events[1], FI_CONNECTED);
    assert_int_equal(fi_send(s.ep, s.memory, 1, NULL, 0, NULL), 0);
    close_channel(s.cm, 0, UNETMM_ST_BAD_CHANNEL);
    progress(&s);
    assert_int_equal(nevents, 2);
    close_scene(&s);
}

/* Whether it has the answer is not known: later messages may be lost. */
static void connector_is_lost(void **state)
{
    struct scene s;

    open_acceptor(&s);
    close_channel(s.cm, 0, UNETMM_ST_TIMEOUT);
    progress(&s);
    assert_int_equal(nevents, 3);
    assert_int_equal(events[1], FI_CONNECTED);
    assert_int_equal(events[2], FI_SHUTDOWN);
    require_open(&s, 0);
    close_scene(&s);
}

/* It closes while fi_accept() goes on, and its request first. */
static void hasty_connector(void **state)
{
    struct scene s;

    for (int other = 0; other < 2; other++) {
        open_requested(&s);
        hasty = true;
        reader = other ? umfi_of(s.ep, struct umfi_ep, fid)->port : NULL;
        assert_int_equal(fi_accept(s.ep, NULL, 0), 0);
        hasty = false;
        reader = NULL;
        close_channel(s.cm, 0, UNETMM_ST_BAD_CHANNEL);
        progress(&s);
        assert_int_equal(nevents, 3);
        assert_int_equal(events[1], FI_CONNECTED);
        assert_int_equal(events[2], FI_SHUTDOWN);
        require_open(&s, 0);
        close_scene(&s);
    }
}

/* The card stops the port while fi_accept() goes on. */
static void stopped_while_accepting(void **state)
{
    struct scene s;

    open_requested(&s);
    s.data->stopped = true;
    assert_int_equal(fi_accept(s.ep, NULL, 0), 0);
    close_channel(s.cm, 0, UNETMM_ST_BAD_CHANNEL);
    progress(&s);
    assert_int_equal(nevents, 3);
    assert_int_equal(events[1], FI_CONNECTED);
    assert_int_equal(events[2], FI_SHUTDOWN);
    close_scene(&s);
}

/* It neither closes its request nor sends. */
static void connector_is_silent(void **state)
{
    struct scene s;

    open_acceptor(&s);
    assert_int_equal(s.eq.channels, 1);
    progress(&s);
    assert_int_equal(nevents, 1);
    umfi_config.connect_ms = 0;
    close_scene(&s);
    open_requested(&s);
    umfi_config.connect_ms = 0;
    assert_int_equal(fi_accept(s.ep, NULL, 0), 0);
    progress(&s);
    assert_int_equal(nevents, 3);
    assert_int_equal(events[1], FI_CONNECTED);
    assert_int_equal(events[2], FI_SHUTDOWN);
    assert_int_equal(s.eq.channels, 0);
    require_open(&s, 0);
    close_scene(&s);
}

/* As connector_is_lost(), but the listener is closed, and it has waited. */
static void listener_closes(void **state)
{
    struct scene s;

    open_acceptor(&s);
    umfi_config.connect_ms = 0;
    umfi_cm_port_close(s.pep.port);
    s.pep.port = NULL;
    assert_int_equal(nevents, 3);
    assert_int_equal(events[2], FI_SHUTDOWN);
    require_open(&s, 0);
    close_scene(&s);
}

static void listener_waits(void **state)
{
    struct scene s;

    open_acceptor(&s);
    close_channel(s.cm, 0, UNETMM_ST_BAD_CHANNEL);
    umfi_cm_port_close(s.pep.port);
    s.pep.port = NULL;
    assert_int_equal(nevents, 2);
    assert_int_equal(state_of(&s), UMFI_CONNECTED);
    close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_asked),
        cmocka_unit_test(no_answer_in_time),
        cmocka_unit_test(wanted_comes_first),
        cmocka_unit_test(request_was_given_up),
        cmocka_unit_test(message_of_a_stranger),
        cmocka_unit_test(end_of_a_stranger),
        cmocka_unit_test(both_end),
        cmocka_unit_test(ended_acceptor),
        cmocka_unit_test(hasty_acceptor),
        cmocka_unit_test(end_of_the_number_before),
        cmocka_unit_test(answer_to_a_stopped_port),
        cmocka_unit_test(flood_of_a_stranger),
        cmocka_unit_test(connector_hangs_up),
        cmocka_unit_test(connector_sends_first),
        cmocka_unit_test(connector_is_lost),
        cmocka_unit_test(hasty_connector),
        cmocka_unit_test(stopped_while_accepting),
        cmocka_unit_test(connector_is_silent),
        cmocka_unit_test(listener_closes),
        cmocka_unit_test(listener_waits),
    };

    return cmocka_run_group_tests_name("arrival", tests, NULL, NULL);
}
