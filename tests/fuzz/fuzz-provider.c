/*
 * unetmm: fuzzing: the provider of libfabric, and a peer that lies
 *
 * The provider is all there but for the network's addresses; the library beneath it
 * is this file: cards with channels, buffers and completions.  The input is the
 * peer, which calls, sends messages of the connection management and others, and
 * ends channels, and the program, which uses libfabric's calls in any order.  The
 * card keeps its own rules: a channel ends once, and nothing comes behind its end.
 *
 * In the end the program closes everything, and nothing may be left.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include <arpa/inet.h>
#include <assert.h>
#include <endian.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "fake_caller.h"
#include "input.h"
#include "provider.h"

#define OPERATIONS  256
#define CARDS       12          /* endpoints of the card */
#define CHANNELS    8
#define PENDING     512         /* completions of an endpoint */
#define POSTED      512         /* its buffers, and its sends under way */
#define EPS         6
#define PEPS        2
#define REQUESTS    6           /* that the program has read and not answered */
#define BYTES       256         /* of a buffer of the program */

struct umfi_config umfi_config = {
    .device = (char *)"unetmm0", .source = UNETMM_SOURCE_ODP,
    .policy = UNETMM_POLICY_RNR, .connect_ms = 200, .close_ms = 50,
    .timeout_us = 1000,
};
struct fi_provider umfi_provider = { .name = UMFI_NAME };
const uint32_t unetmm_inline_1_ = 1;

static FuzzIn *input;           /* also read inside the provider's calls */
static int64_t now_ns;
static bool neighbours_changed; /* the kernel's table, when time has passed */

/* ---- The system's time passes when the provider sleeps ---- */

int LLVMFuzzerInitialize(int *argc, char ***argv);

int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_poll(struct pollfd *fds, nfds_t n, int ms);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int n, int ms);

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    t->tv_sec = now_ns / 1000000000;
    t->tv_nsec = now_ns % 1000000000;
    return 0;
}

static void sleep_ms(int ms)
{
    now_ns += (ms > 0 ? ms : 1) * 1000000ll;
}

int __wrap_epoll_wait(int fd, struct epoll_event *events, int n, int ms)
{
    sleep_ms(ms);
    return 0;
}

/* ---- The library: endpoints of the card ---- */

struct buffer {
    void *at;
    size_t len;
    uint64_t user_data;
    uint16_t channel;           /* of a send */
};

static struct card {
    struct unetmm_ep ep;
    bool live, stopped;
    bool cm;                    /* of the connection management */
    unsigned callers;
    uint32_t mtu[CHANNELS];     /* 0: the number is free */
    bool ended[CHANNELS];       /* CLOSED has been written ... */
    bool owes[CHANNELS];        /* ... or had no room: the number is never another's */
    struct buffer posted[POSTED], sends[POSTED];
    unsigned nposted, nsends, depth, slots;
    struct unetmm_completion pending[PENDING];
    unsigned npending;
} cards[CARDS];
static struct unetmm_ep_index indices;
static int card_fd, context_fd;

int __wrap_poll(struct pollfd *fds, nfds_t n, int ms)
{
    for (unsigned i = 0; i < CARDS && !ms; i++) {
        if (cards[i].callers) {
            return 1;
        }
    }
    if (ms) {
        sleep_ms(ms);
    }
    return 0;
}

static struct card *card_of(const struct unetmm_ep *ep)
{
    struct card *card = umfi_of(ep, struct card, ep);

    assert(card->live);
    return card;
}

/* False: the completion queue is full, and the event comes later, or never. */
static bool complete(struct card *card, struct unetmm_completion c)
{
    if (card->npending == PENDING) {
        return false;
    }
    card->pending[card->npending++] = c;
    return true;
}

static int card_queue(struct unetmm_ep *ep, const struct iovec *iov, unsigned n,
                      size_t len, int is_inline)
{
    struct card *card = card_of(ep);
    const struct unetmm_request_ *r = &ep->request;

    if (card->nsends == card->slots) {
        return -EAGAIN;
    }
    if (!(r->flags & UNETMM_UNSIGNALED)) {
        card->sends[card->nsends++] = (struct buffer) {
            .user_data = r->user_data, .channel = r->channel,
        };
    }
    return 0;
}

static int card_post(struct unetmm_ep *ep, void *buf, size_t len, uint64_t user_data,
                     unsigned flags)
{
    struct card *card = card_of(ep);

    if (card->nposted == card->depth) {
        return -EAGAIN;
    }
    card->posted[card->nposted++] = (struct buffer) {
        .at = buf, .len = len, .user_data = user_data,
    };
    return 0;
}

static int card_poll(struct unetmm_ep *ep, struct unetmm_completion *c, unsigned n)
{
    struct card *card = card_of(ep);
    unsigned taken = card->npending < n ? card->npending : n;

    if (!taken && card->stopped) {
        return -EIO;
    }
    memcpy(c, card->pending, taken * sizeof(*c));
    card->npending -= taken;
    memmove(card->pending, card->pending + taken, card->npending * sizeof(*c));
    return (int)taken;
}

static int card_sends(struct unetmm_ep *ep)
{
    return (int)card_of(ep)->nsends;
}

static const struct unetmm_rare_ops_ rare = {
    .queue = card_queue, .post = card_post, .poll = card_poll,
};
static const struct unetmm_source_ops_ source = { .pending = card_sends };

static unsigned at_most(uint32_t wanted)
{
    return wanted < POSTED ? wanted : POSTED;
}

int unetmm_ep_create(struct unetmm_ctx *ctx, const struct unetmm_ep_attr *attr,
                     struct unetmm_ep **ep)
{
    for (unsigned i = 0; i < CARDS; i++) {
        struct card *card = &cards[i];

        if (card->live) {
            continue;
        }
        memset(card, 0, sizeof(*card));
        card->live = true;
        card->depth = at_most(attr->free_depth);
        card->cm = !(attr->flags & UNETMM_EP_NO_INLINE);
        card->slots = at_most(attr->send_slots ? attr->send_slots : POSTED);
        card->ep = (struct unetmm_ep) {
            .alive = 1, .source = &source, .rare = &rare, .index = &indices,
            .max_buffer_pages = UINT32_MAX, .inline_max = 256,
            .channels = CHANNELS, .channel_mtu = card->mtu,
        };
        *ep = &card->ep;
        return 0;
    }
    return -ENOSPC;
}

int unetmm_ep_destroy(struct unetmm_ep *ep)
{
    card_of(ep)->live = false;
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
        if (!card->mtu[i] && !card->owes[i] && !rests(card, (unsigned)i)) {
            card->mtu[i] = UNETMM_MAX_MESSAGE;
            card->ended[i] = false;
            return i;
        }
    }
    return -ENOSPC;
}

/* Each send comes back, before the end or, if the program ends it, behind. */
static void flush_sends(struct card *card, unsigned channel)
{
    unsigned left = 0;

    for (unsigned i = 0; i < card->nsends; i++) {
        if (card->sends[i].channel != channel ||
            !complete(card, (struct unetmm_completion) {
                .type = UNETMM_CQE_SENT, .channel = (uint16_t)channel,
                .status = UNETMM_ST_FLUSHED,
                .user_data = card->sends[i].user_data })) {
            card->sends[left++] = card->sends[i];
        }
    }
    card->nsends = left;
}

static void end_channel(struct card *card, unsigned channel, uint8_t status)
{
    if (card->mtu[channel] && !card->ended[channel]) {
        flush_sends(card, channel);
        card->ended[channel] = complete(card, (struct unetmm_completion) {
            .type = UNETMM_CQE_CLOSED, .channel = (uint16_t)channel,
            .status = status });
    }
}

int unetmm_connect_ex(struct unetmm_ep *ep, const uint8_t mac[6], uint64_t service,
                      int64_t timeout_ns, const struct unetmm_channel_attr *attr,
                      struct unetmm_peer *peer)
{
    static const int errors[] = { -EHOSTUNREACH, -ETIMEDOUT, -ECONNREFUSED };
    uint8_t how = fuzz_u8(input);
    int channel;

    if (how < 3) {
        now_ns += timeout_ns;
        return errors[how];
    }
    channel = open_channel(card_of(ep));
    if (channel >= 0 && how < 16) {
        end_channel(card_of(ep), (unsigned)channel, UNETMM_ST_BAD_CHANNEL);
    }
    return channel;
}

int unetmm_disconnect(struct unetmm_ep *ep, int channel)
{
    struct card *card = card_of(ep);

    assert(channel >= 0 && channel < CHANNELS && card->mtu[channel]);
    end_channel(card, (unsigned)channel, UNETMM_ST_BAD_CHANNEL);
    flush_sends(card, (unsigned)channel);
    card->owes[channel] = !card->ended[channel];
    card->mtu[channel] = 0;
    return 0;
}

int unetmm_accept(struct unetmm_ep *ep, struct unetmm_peer *peer, int64_t timeout_ns)
{
    struct card *card = card_of(ep);
    int channel = card->callers ? open_channel(card) : -EAGAIN;

    if (channel < 0) {
        return -EAGAIN;
    }
    card->callers--;
    memset(peer->mac, 2 + (fuzz_u8(input) & 1), sizeof(peer->mac));
    peer->endpoint = fuzz_u8(input) & 7;
    peer->channel = (uint16_t)channel;
    return channel;
}

int unetmm_channel_info(struct unetmm_ep *ep, int channel,
                        struct unetmm_channel_info *info)
{
    uint8_t how = fuzz_u8(input);

    info->peer_channel = how & 15;
    return how < 0xf0 ? 0 : -ENOENT;
}

int unetmm_arm(struct unetmm_ep *ep)
{
    return card_of(ep)->npending || card_of(ep)->stopped;
}

int unetmm_ep_id(const struct unetmm_ep *ep)
{
    return (int)(card_of(ep) - cards);
}

int unetmm_listen_ex(struct unetmm_ep *ep, uint64_t service, unsigned backlog,
                     const struct unetmm_channel_attr *attr)
{
    return 0;
}

int unetmm_listen(struct unetmm_ep *ep, uint64_t service, unsigned backlog)
{
    assert(!service && card_of(ep)->live);
    return 0;
}

int unetmm_open(const char *device, unsigned src, struct unetmm_ctx **ctx)
{
    *ctx = (struct unetmm_ctx *)&context_fd;
    return 0;
}

int unetmm_close(struct unetmm_ctx *ctx)
{
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

int unetmm_register(struct unetmm_ctx *ctx, void *addr, size_t length, unsigned flags)
{
    return 0;
}

int unetmm_deregister(struct unetmm_ctx *ctx, void *addr, size_t length)
{
    return 0;
}

int unetmm_export(struct unetmm_ctx *ctx, uint64_t id, void *addr, size_t length,
                  unsigned rights, unsigned flags, uint64_t user_data)
{
    return 0;
}

int unetmm_export_key(struct unetmm_ctx *ctx, uint64_t id, uint64_t *key, uint64_t *base)
{
    *key = id;
    return 0;
}

int unetmm_unexport(struct unetmm_ctx *ctx, uint64_t id)
{
    return 0;
}

const char *unetmm_strerror(int error, enum unetmm_call call)
{
    return "an error";
}

const char *unetmm_status_str(unsigned status)
{
    return "a status";
}

/* ---- The network's addresses ---- */

int umfi_netdev_find(struct umfi_netdev *dev)
{
    dev->address.s_addr = htonl(0x0a000001);
    dev->mask.s_addr = htonl(0xffffff00);
    dev->limits = (struct unetmm_info) {
        .channels = CHANNELS, .max_ring_log2 = 8, .endpoints = CARDS,
        .regions = 16,
    };
    return 0;
}

bool umfi_netdev_reaches(const struct umfi_netdev *dev, struct in_addr to)
{
    return true;
}

int umfi_resolve(const struct umfi_netdev *dev, struct in_addr to, uint8_t mac[6])
{
    memset(mac, 2, 6);
    return fuzz_u8(input) ? 0 : -EHOSTUNREACH;
}

int umfi_find_card(const struct umfi_netdev *dev, struct in_addr address, uint8_t mac[6])
{
    static const int answers[8] = { -FI_EACCES, [6] = -FI_EIO, [7] = -FI_EAGAIN };
    uint8_t how = fuzz_u8(input);

    memset(mac, 2 + (how >> 3 & 1), 6);
    return answers[how & 7];
}

int umfi_neighbours_open(void)
{
    return eventfd(0, EFD_NONBLOCK);
}

void umfi_neighbours_read(int fd, const struct umfi_netdev *dev, umfi_neighbour_fn *found,
                          void *arg)
{
    const uint8_t mac[6] = { 2 };

    if (neighbours_changed) {
        neighbours_changed = false;
        found(arg, (struct in_addr) { htonl(0x0a000002) }, mac);
    }
}

/* ---- The peer ---- */

/* As in cm.h, little-endian */
struct message {
    uint32_t magic;
    uint16_t version, type;
    uint64_t service;
    uint32_t endpoint, channel, address;
    uint16_t port, len;
    uint8_t data[UMFI_CM_DATA];
};

static struct card *any_card(uint8_t which)
{
    for (unsigned i = 0; i < CARDS; i++) {
        struct card *card = &cards[(which + i) % CARDS];

        if (card->live && !card->stopped) {
            return card;
        }
    }
    return NULL;
}

/* A right one, but for the members that the input chooses. */
static void make_message(struct message *m)
{
    uint8_t lies = fuzz_u8(input);

    memset(m, 0, sizeof(*m));
    m->magic = htole32(0x69666d75);
    m->version = htole16(UMFI_PROTOCOL_VERSION);
    m->type = htole16(1 + fuzz_u8(input) % 3);
    m->service = htole64(7);
    m->endpoint = htole32(fuzz_u8(input) & 7);
    m->channel = htole32(fuzz_u8(input) & 15);
    m->address = htonl(0x0a000002);
    m->port = htons(1000);
    m->len = htole16(fuzz_u8(input) % (UMFI_CM_DATA + 1));
    if (lies & 0x80) {
        ((uint8_t *)m)[fuzz_u8(input) % sizeof(*m)] ^= fuzz_u8(input);
    }
    if (lies & 0x40) {
        m->len = fuzz_u16(input);
    }
    if (lies & 0x20) {
        m->type = fuzz_u16(input);
    }
}

/* Fills the next buffer of the card: with a message, or a part of one. */
static void peer_sends(struct card *card)
{
    uint8_t channel = fuzz_u8(input) % CHANNELS, how = fuzz_u8(input);
    struct unetmm_completion c = {
        .type = how & 0x40 ? UNETMM_CQE_WRITTEN : UNETMM_CQE_RECEIVED,
        .channel = channel, .flags = how & 0x80 ? UNETMM_CQE_F_IMM : 0,
        .is_inline = (how & 0x3f) == 0x3f,
    };
    struct message m;
    struct buffer *b;

    make_message(&m);
    c.len = how & 1 ? fuzz_u8(input) : sizeof(m);
    if (!card->mtu[channel] || card->ended[channel]) {
        return;
    }
    if (!c.is_inline) {
        b = &card->posted[0];
        if (!card->nposted || card->npending == PENDING) {
            return;
        }
        c.len = c.len < b->len ? c.len : (uint32_t)b->len;
        if (c.len) {
            memcpy(b->at, &m, c.len < sizeof(m) ? c.len : sizeof(m));
        }
        c.user_data = b->user_data;
        memmove(b, b + 1, --card->nposted * sizeof(*b));
    }
    complete(card, c);
}

static void send_ends(struct card *card)
{
    uint8_t how = fuzz_u8(input);
    struct buffer *b = &card->sends[0];

    if (card->nsends && complete(card, (struct unetmm_completion) {
            .type = UNETMM_CQE_SENT, .channel = b->channel,
            .user_data = b->user_data,
            .status = how & 0x80 ? 1 + how % (UNETMM_NUM_ST - 1) : UNETMM_ST_OK })) {
        memmove(b, b + 1, --card->nsends * sizeof(*b));
    }
}

static void buffer_returns(struct card *card)
{
    struct buffer *b = &card->posted[0];

    if (card->nposted && complete(card, (struct unetmm_completion) {
            .type = UNETMM_CQE_BUFFER, .user_data = b->user_data,
            .status = UNETMM_ST_PROTECTION })) {
        memmove(b, b + 1, --card->nposted * sizeof(*b));
    }
}

static void peer_op(uint8_t what)
{
    struct card *card = any_card(fuzz_u8(input));

    if (!card) {
        return;
    }
    switch (what % 8) {
    case 0: case 1:
        card->callers += card->callers < 4;
        break;
    case 2: case 3: case 4:
        peer_sends(card);
        break;
    case 5:
        send_ends(card);
        break;
    case 6:
        end_channel(card, fuzz_u8(input) % CHANNELS, fuzz_u8(input) & 1 ?
                    UNETMM_ST_BAD_CHANNEL : UNETMM_ST_TIMEOUT);
        break;
    default:
        if (fuzz_u8(input) & 7) {
            buffer_returns(card);
        } else {
            card->stopped = true;
        }
        break;
    }
}

/* ---- The program ---- */

static struct {
    struct fid_fabric *fabric;
    struct fid_eq *eq;
    struct fid_domain *domain;
    struct fid_cq *cq;
    struct fid_ep *srx;
    struct fid_pep *pep[PEPS];
    struct fid_ep *ep[EPS];
    struct fi_info *info, *request[REQUESTS];
    unsigned nrequests;
    uint8_t bytes[BYTES];
} p;

static void open_pep(unsigned i)
{
    if (!fi_passive_ep(p.fabric, p.info, &p.pep[i], NULL)) {
        assert(!fi_pep_bind(p.pep[i], &p.eq->fid, 0));
        fi_listen(p.pep[i]);
    }
}

static void open_program(void)
{
    const struct sockaddr_in here = { .sin_family = AF_INET };
    struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_DATA, .size = 64 };
    struct umfi_netdev dev = { .index = 0 };

    memset(&p, 0, sizeof(p));
    umfi_netdev_find(&dev);
    p.info = umfi_info_alloc(&dev, &here, NULL);
    assert(p.info);
    p.info->tx_attr->size = p.info->rx_attr->size = 16;
    assert(!umfi_fabric_open(NULL, &p.fabric, NULL));
    assert(!fi_eq_open(p.fabric, NULL, &p.eq, NULL));
    assert(!fi_domain(p.fabric, p.info, &p.domain, NULL));
    assert(!fi_cq_open(p.domain, &cq, &p.cq, NULL));
    assert(!fi_srx_context(p.domain, p.info->rx_attr, &p.srx, NULL));
    open_pep(0);
}

/* For a request, or to connect; some share their buffers. */
static void open_ep(unsigned i, struct fi_info *info, bool shared)
{
    if (p.ep[i] || fi_endpoint(p.domain, info, &p.ep[i], &p.ep[i])) {
        return;
    }
    assert(!fi_ep_bind(p.ep[i], &p.eq->fid, 0));
    assert(!fi_ep_bind(p.ep[i], &p.cq->fid, FI_TRANSMIT | FI_RECV));
    if (shared) {
        assert(!fi_ep_bind(p.ep[i], &p.srx->fid, 0));
    }
    fi_enable(p.ep[i]);
}

static void close_ep(unsigned i)
{
    if (p.ep[i]) {
        assert(!fi_close(&p.ep[i]->fid));
        p.ep[i] = NULL;
    }
}

static void reject(unsigned i, const struct fi_info *info, size_t len)
{
    if (p.pep[i]) {
        fi_reject(p.pep[i], info->handle, p.bytes, len);
    }
}

static void read_events(void)
{
    _Alignas(struct fi_eq_cm_entry)
        uint8_t bytes[sizeof(struct fi_eq_cm_entry) + UMFI_CM_DATA];
    const struct fi_eq_cm_entry *e = (const void *)bytes;
    struct fi_eq_err_entry error = { .fid = NULL };
    uint32_t type;
    ssize_t n;

    while ((n = fi_eq_read(p.eq, &type, bytes, sizeof(bytes), 0)) != -FI_EAGAIN) {
        if (n == -FI_EAVAIL) {
            assert(fi_eq_readerr(p.eq, &error, 0) > 0);
        } else if (type == FI_CONNREQ && p.nrequests < REQUESTS) {
            p.request[p.nrequests++] = e->info;
        } else if (type == FI_CONNREQ) {
            reject(0, e->info, 0);
            fi_freeinfo(e->info);
        }
    }
}

static void read_completions(void)
{
    struct fi_cq_data_entry entries[8];
    struct fi_cq_err_entry error = { .err = 0 };
    ssize_t n;

    while ((n = fi_cq_read(p.cq, entries, 8)) != -FI_EAGAIN) {
        if (n == -FI_EAVAIL) {
            assert(fi_cq_readerr(p.cq, &error, 0) > 0);
        } else {
            assert(n > 0);
        }
    }
}

static void answer(unsigned i, uint8_t how)
{
    struct fi_info *info;

    if (!p.nrequests) {
        return;
    }
    info = p.request[--p.nrequests];
    if (how & 3) {
        close_ep(i);
        open_ep(i, info, how & 4);
        if (p.ep[i]) {
            fi_accept(p.ep[i], p.bytes, how & 8 ? UMFI_CM_DATA : 0);
        }
    } else {
        reject(how >> 2 & 1, info, how >> 3);
    }
    fi_freeinfo(info);
}

static void transfer(unsigned i, uint8_t how)
{
    struct fid_ep *ep = p.ep[i];
    size_t len = how & 0x80 ? BYTES : how & 15;

    if (how & 8) {
        fi_recv(p.srx, p.bytes, len, NULL, 0, &p);
    }
    if (!ep) {
        return;
    }
    switch (how & 7) {
    case 0: case 1:
        fi_recv(ep, p.bytes, len, NULL, 0, ep);
        break;
    case 2:
        fi_inject(ep, p.bytes, how & 15, 0);
        break;
    case 3:
        fi_write(ep, p.bytes, len, NULL, 0, 64, 5, ep);
        break;
    case 4:
        fi_read(ep, p.bytes, len, NULL, 0, 64, 5, ep);
        break;
    default:
        fi_send(ep, p.bytes, len, NULL, 0, ep);
        break;
    }
}

static void close_pep(unsigned i)
{
    if (p.pep[i]) {
        assert(!fi_close(&p.pep[i]->fid));
        p.pep[i] = NULL;
    }
}

/* Drivers that were silent answer, or do not answer at once from now on. */
static void time_passes(uint8_t how)
{
    struct umfi_fabric *fabric = umfi_of(p.fabric, struct umfi_fabric, fid);

    now_ns += fuzz_u16(input) * 100000ll;
    neighbours_changed = true;
    fake_calls_wait ^= how & 0x40;
    sys_lock_take(&fabric->lock);
    fake_calls_end(fabric, 1 + (how >> 4 & 3));
    sys_lock_drop(&fabric->lock);
}

static void program_op(uint8_t what)
{
    const struct sockaddr_in there = {
        .sin_family = AF_INET, .sin_port = htons(1000),
        .sin_addr = { htonl(0x0a000002) },
    };
    unsigned i = fuzz_u8(input) % EPS;

    switch (what % 10) {
    case 0: case 1:
        read_events();
        break;
    case 2:
        read_completions();
        break;
    case 3:
        answer(i, fuzz_u8(input));
        break;
    case 4:
        open_ep(i, p.info, what & 0x40);
        if (p.ep[i]) {
            fi_connect(p.ep[i], &there, p.bytes, fuzz_u8(input) % UMFI_CM_DATA);
        }
        break;
    case 5:
        close_ep(i);
        break;
    case 6:
        if (p.ep[i]) {
            fi_shutdown(p.ep[i], 0);
        }
        break;
    case 7:
        time_passes(what);
        break;
    case 8:
        if (what & 0x40) {
            close_pep(i % PEPS);
        } else if (!p.pep[i % PEPS]) {
            open_pep(i % PEPS);
        }
        break;
    default:
        transfer(i, fuzz_u8(input));
        break;
    }
}

/* Whatever peers have done, the connection management has posted its buffers again. */
static void check_buffers(void)
{
    struct umfi_fabric *fabric = umfi_of(p.fabric, struct umfi_fabric, fid);

    sys_lock_take(&fabric->lock);
    do {
        umfi_cm_progress(fabric);
    } while (umfi_cm_arm_ports(fabric));
    for (unsigned i = 0; i < CARDS; i++) {
        assert(!cards[i].live || !cards[i].cm || cards[i].stopped ||
               cards[i].nposted == cards[i].depth);
    }
    sys_lock_drop(&fabric->lock);
}

static void close_program(void)
{
    while (p.nrequests) {
        fi_freeinfo(p.request[--p.nrequests]);
    }
    for (unsigned i = 0; i < EPS; i++) {
        close_ep(i);
    }
    for (unsigned i = 0; i < PEPS; i++) {
        close_pep(i);
    }
    assert(!fi_close(&p.srx->fid));
    assert(!fi_close(&p.cq->fid));
    assert(!fi_close(&p.domain->fid));
    assert(!fi_close(&p.eq->fid));
    assert(!fi_close(&p.fabric->fid));
    fi_freeinfo(p.info);
    for (unsigned i = 0; i < CARDS; i++) {
        assert(!cards[i].live);
    }
}

/* A library that libfabric needs catches signals that are libFuzzer's. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const int numbers[] = { SIGTERM, SIGINT, SIGSEGV, SIGBUS, SIGABRT, SIGILL,
                                   SIGFPE };

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        signal(numbers[i], SIG_DFL);
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    FuzzIn in = { data, size };

    input = &in;
    now_ns = 1000000000;
    neighbours_changed = fake_calls_wait = false;
    memset(cards, 0, sizeof(cards));
    card_fd = eventfd(0, EFD_NONBLOCK);
    context_fd = eventfd(0, EFD_NONBLOCK);
    open_program();
    for (unsigned i = 0; in.left && i < OPERATIONS; i++) {
        uint8_t what = fuzz_u8(&in);

        if (what & 0x80) {
            peer_op(what);
        } else {
            program_op(what);
        }
    }
    check_buffers();
    close_program();
    close(card_fd);
    close(context_fd);
    return 0;
}
