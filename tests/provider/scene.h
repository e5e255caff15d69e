/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Both sides of a connection, on a card that is the test: doubles and scenes.  With
 * SCENE_WHOLE there are doubles of the library, with its context, and of the addresses alone.
 */
#ifndef UNETMM_TESTS_PROVIDER_SCENE_H
#define UNETMM_TESTS_PROVIDER_SCENE_H

#include <errno.h>
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
#define PENDING     32
#define BUFFERS     64
#define CM_BYTES    160     /* of a message of the connection management */
#define CM_REQUEST  1
#define CM_ACCEPT   2
#define CM_SERVICE  9       /* in a request: the first byte */
#define CM_ADDRESS  7
#define SPARE       4       /* arrivals beside the requests */
#define CARDS       6       /* endpoints: some for data, one for connections */
#define PEER_EP     5
#define PEER_CHANNEL 70     /* and of the next arrival one more */

/* ---- The library ------------------------------------------------------------- */

const uint32_t unetmm_inline_1_ = 1;
static char scene_device[] = "/dev/unetmm0";
struct umfi_config umfi_config = { .device = scene_device, .source = UNETMM_SOURCE_ODP };
struct fi_provider umfi_provider = { .name = UMFI_NAME };
#ifndef SCENE_WHOLE
struct fi_ops_rma umfi_rma_ops;
#endif

static struct card {
    struct unetmm_ep ep;
    struct unetmm_completion pending[PENDING];
    unsigned npending, callers, arrived;
    uint32_t mtu[CHANNELS];             /* 0: the number is free */
    bool told[CHANNELS];        /* their CLOSED has been written */
    uint8_t *buffers[BUFFERS];          /* of the connection management */
    uint64_t posted[PENDING];           /* user_data of receive buffers */
    unsigned nposted;
    bool stopped;
    int fd;
} cards[CARDS];
static unsigned ncards, sent;
static bool hasty;                      /* peers close at once ... */
static struct umfi_port *reader;        /* ... and another thread reads of it first */
static int (*silent)(int64_t ns);       /* a peer's driver: the error */
static int untaken;                     /* slots with descriptors that no channel has taken */
static unsigned flood;                  /* messages of a stranger to the data port */
static int context_fd;
static struct sys_lock *domain_lock;   /* of the scene */
static struct unetmm_ep_attr created;   /* the last endpoint of the card */
static int held;                        /* objects of the library that are open */
static int fail_in = -1;                /* calls until one fails; -1: none does */
#ifndef SCENE_WHOLE
static uint32_t events[PENDING];
static unsigned nevents;
static fid_t handle;                    /* of the last request */
#endif

/* One of the calls of the library, or of the system's that a test wraps */
static bool fails(void)
{
    return fail_in >= 0 && !fail_in--;
}

static struct card *card_of(struct unetmm_ep *ep)
{
    return umfi_of(ep, struct card, ep);
}

static int card_queue(struct unetmm_ep *ep, const struct iovec *iov, unsigned n,
                      size_t len, int is_inline)
{
    sent++;
    return fails() ? -EIO : 0;
}

static int card_post(struct unetmm_ep *ep, void *buf, size_t len, uint64_t user_data,
                     unsigned flags)
{
    struct card *card = card_of(ep);

    if (fails()) {
        return -EIO;
    }
    if (user_data < BUFFERS) {
        assert_int_equal(flags, 0);
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
    return untaken;
}

static const struct unetmm_rare_ops_ rare = {
    .queue = card_queue, .post = card_post, .poll = card_poll,
};
static const struct unetmm_source_ops_ source = { .pending = card_pending };
static struct unetmm_ep_index indices;

int unetmm_ep_create(struct unetmm_ctx *ctx, const struct unetmm_ep_attr *attr,
                     struct unetmm_ep **ep)
{
    struct card *card = &cards[ncards];

    if (fails()) {
        return -ENOSPC;
    }
    held++;
    created = *attr;
    assert_true(++ncards <= CARDS);
    memset(card, 0, sizeof(*card));
    card->fd = eventfd(0, EFD_NONBLOCK);
    assert_true(card->fd >= 0);
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
    close(card_of(ep)->fd);
    held--;
    return 0;
}

/* A completion of the channel that had the number has not been taken. */
static bool rests(const struct card *card, unsigned channel)
{
    for (unsigned i = 0; i < card->npending; i++) {
        if (card->pending[i].channel == channel) {
            return true;
        }
    }
    return false;
}

/* The lowest number that is free, as the driver. */
static int open_channel(struct card *card)
{
    for (int i = 0; i < CHANNELS; i++) {
        if (!card->mtu[i] && !rests(card, (unsigned)i)) {
            card->mtu[i] = UNETMM_MAX_MESSAGE;
            card->told[i] = false;
            return i;
        }
    }
    return -ENOSPC;
}

static void close_channel(struct card *card, unsigned channel, uint8_t status)
{
    if (card->told[channel]) {
        return;
    }
    card->told[channel] = true;
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
    int channel = silent ? silent(timeout_ns) : open_channel(card_of(ep));

    if (channel >= 0) {
        close_hastily(card_of(ep), channel);
    }
    return channel;
}

int unetmm_disconnect(struct unetmm_ep *ep, int channel)
{
    close_channel(card_of(ep), (unsigned)channel, UNETMM_ST_BAD_CHANNEL);
    card_of(ep)->mtu[channel] = 0;
    return 0;
}

int unetmm_listen_ex(struct unetmm_ep *ep, uint64_t service, unsigned backlog,
                     const struct unetmm_channel_attr *attr)
{
    return fails() ? -EIO : 0;
}

int unetmm_listen(struct unetmm_ep *ep, uint64_t service, unsigned backlog)
{
    assert_int_equal(service, 0);
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
    close_hastily(card, peer->channel);
    return peer->channel;
}

int unetmm_channel_info(struct unetmm_ep *ep, int channel,
                        struct unetmm_channel_info *info)
{
    if (domain_lock) {
        sys_assert_held(domain_lock);
    }
    info->peer_channel = PEER_CHANNEL + card_of(ep)->arrived++;
    return 0;
}

int unetmm_fd(const struct unetmm_ep *ep)
{
    return umfi_of(ep, struct card, ep)->fd;
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

/* One thing more is held, unless that fails. */
static int hold(void)
{
    bool failed = fails();

    held += !failed;
    return failed ? -ENOMEM : 0;
}

int unetmm_register(struct unetmm_ctx *ctx, void *addr, size_t length, unsigned flags)
{
    return hold();
}

int unetmm_deregister(struct unetmm_ctx *ctx, void *addr, size_t length)
{
    held--;
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

int umfi_find_card(const struct umfi_netdev *dev, struct in_addr address, uint8_t mac[6])
{
    memset(mac, 2, 6);
    return 0;
}

void umfi_neighbours_read(int fd, const struct umfi_netdev *dev, umfi_neighbour_fn *found,
                          void *arg)
{
    fail();
}

#ifndef SCENE_WHOLE
void umfi_eq_set_timer(struct umfi_eq *eq)
{
}

bool umfi_eq_withdraw_request(struct umfi_eq *eq, fid_t request)
{
    return false;
}

int umfi_eq_push_event(struct umfi_eq *eq, uint32_t event, fid_t fid, int err,
                       struct fi_info *info, const void *data, size_t len)
{
    assert_true(data || !len);
    events[nevents++ % PENDING] = err ? (uint32_t)-err : event;
    if (info) {
        handle = info->handle;
        fi_freeinfo(info);
    }
    return 0;
}

void umfi_ep_push_event(struct umfi_ep *ep, uint32_t event, int err, const void *data, size_t len)
{
    umfi_eq_push_event(ep->eq, event, &ep->fid.fid, err, NULL, data, len);
}

void umfi_eq_remove_events(struct umfi_eq *eq, fid_t fid)
{
}

#endif

#ifndef SCENE_WHOLE
struct fi_info *umfi_info_of_request(const struct fi_info *listener,
                                     const struct sockaddr_in *own,
                                     const struct sockaddr_in *peer)
{
    return fi_dupinfo(listener);
}
#endif

int umfi_pin(struct umfi_fabric *fabric, const void *addr, size_t len)
{
    return hold();
}

void umfi_unpin(struct umfi_fabric *fabric, const void *addr, size_t len)
{
    held--;
}

#ifdef SCENE_WHOLE
int unetmm_open(const char *device, unsigned src, struct unetmm_ctx **ctx)
{
    *ctx = (struct unetmm_ctx *)&context_fd;
    return hold();
}

int unetmm_close(struct unetmm_ctx *ctx)
{
    held--;
    return 0;
}

int unetmm_export(struct unetmm_ctx *ctx, uint64_t id, void *addr, size_t length,
                  unsigned rights, unsigned flags, uint64_t user_data)
{
    return hold();
}

int unetmm_export_key(struct unetmm_ctx *ctx, uint64_t id, uint64_t *key, uint64_t *base)
{
    *key = id;
    return fails() ? -EIO : 0;
}

int unetmm_unexport(struct unetmm_ctx *ctx, uint64_t id)
{
    held--;
    return 0;
}

int umfi_netdev_find(struct umfi_netdev *dev)
{
    dev->limits = (struct unetmm_info) { .channels = CHANNELS, .max_ring_log2 = 12 };
    return fails() ? -FI_ENODATA : 0;
}

bool umfi_netdev_reaches(const struct umfi_netdev *dev, struct in_addr to)
{
    fail();
    return false;
}

int umfi_neighbours_open(void)
{
    return fails() ? -1 : eventfd(0, EFD_NONBLOCK);
}
#else
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
    hasty = false;
    reader = NULL;
    silent = NULL;
    untaken = 0;
    flood = 0;
    umfi_config.connect_ms = 1000000;
    context_fd = eventfd(0, EFD_NONBLOCK);
    s->fabric.epoll = epoll_create1(0);
    s->fabric.neighbours = -1;
    assert_true(context_fd >= 0 && s->fabric.epoll >= 0);
    umfi_list_init(&s->fabric.cm_ports);
    umfi_list_init(&s->fabric.ports);
    umfi_list_init(&s->fabric.callees);
    umfi_list_init(&s->fabric.callees_ready);
    umfi_list_init(&s->fabric.calls_running);
    umfi_list_init(&s->fabric.calls_ended);
    s->fabric.dev.limits.channels = CHANNELS;
    s->fabric.dev.limits.max_ring_log2 = 12;
    s->domain.fabric = &s->fabric;
    domain_lock = &s->domain.lock;
    s->pep.fabric = s->eq.fabric = &s->fabric;
    umfi_list_init(&s->domain.eps);
    s->eq.fid.fid.fclass = FI_CLASS_EQ;
    assert_int_equal(umfi_cq_open(&s->domain.fid, &attr, &s->cq, NULL), 0);
}

static void close_scene(struct scene *s)
{
    umfi_config.close_ms = umfi_config.connect_ms = 0;
    assert_int_equal(fi_close(&s->ep->fid), 0);
    umfi_cm_unlisten(&s->pep);
    umfi_calls_cancel(&s->fabric, NULL);
    umfi_cm_close(&s->fabric);
    assert_int_equal(s->eq.channels, 0);
    assert_int_equal(fi_close(&s->cq->fid), 0);
    umfi_ep_free_closed(&s->domain);
    close(context_fd);
    close(s->fabric.epoll);
}

static void progress(struct scene *s)
{
    sys_lock_take(&s->fabric.lock);
    umfi_cm_progress(&s->fabric);
    sys_lock_drop(&s->fabric.lock);
}

/* A listener's endpoint, for a request that has come. */
static void open_requested(struct scene *s)
{
    const uint8_t request[] = {
        'u', 'm', 'f', 'i', 2, 0, CM_REQUEST, 0, CM_SERVICE, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, CM_ADDRESS,
    };

    open_scene(s);
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

static enum umfi_state state_of(const struct scene *s)
{
    return umfi_of(s->ep, struct umfi_ep, fid)->state;
}

#endif  /* SCENE_WHOLE */

#endif
