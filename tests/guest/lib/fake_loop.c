/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A driver and a card in one process, whose endpoints talk to each other.
 *
 * `loop.lock` is that of all below; the thread that carries holds it for one
 * operation, and the calls for as long as they do not wait.
 */
#include "fake_loop.h"
#include "fake_calls.h"
#include "fake_card.h"
#include "fake_export.h"
#include "sys/sys.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define LOOP_FD         1001
#define QUEUE_MAP       0x1000000u      /* and 0x10000 for each endpoint */
#define DOORBELL_MAP    0x2000000u
#define COUNTER_MAP     0x3000000u
#define EACH_MAP        0x10000u
#define LOOP_MESSAGE    65536u

struct channel {
    bool open, tells, told, hidden;
    unsigned peer, peer_channel;
    uint32_t rests_until;       /* the process has taken so many completions */
};

struct import {
    bool live;
    unsigned channel;
    uint64_t export;
};

struct endpoint {
    bool live, mapped;
    struct fake_card card;
    uint32_t *doorbell;
    uint64_t service, allowed, carried;
    bool tells, announced, rung;
    struct channel channels[LOOP_CHANNELS];
    struct import imports[LOOP_IMPORTS];
    unsigned backlog[LOOP_CHANNELS], waiting;
    struct loop_operation log[LOOP_LOG];
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t counted;     /* one of the counters was incremented */
    pthread_cond_t listening;   /* an endpoint has another service */
    pthread_t thread;
    bool open, running, hide;
    unsigned newest;
    struct endpoint endpoints[LOOP_ENDPOINTS];
    struct unetmm_export exports[LOOP_EXPORTS];         /* length 0: none */
    int bell;                   /* a byte out of band there: POLLPRI on LOOP_FD */
    struct {
        bool live;
        int event_fd;           /* 0: not armed */
        uint64_t value;
    } counters[UNETMM_EVENT_COUNTERS];
    uint64_t *page;
    unsigned page_maps, calls_left;
    int error;
    bool failed;
    unsigned silent;            /* questions for an export that nobody answers */
} loop;

static void __attribute__((constructor)) init_lock(void)
{
    pthread_mutex_init(&loop.lock, NULL);
    pthread_cond_init(&loop.counted, NULL);
    pthread_cond_init(&loop.listening, NULL);
}

void (*loop_hook)(unsigned long request);

static struct fake_message message;

/* The C library's name for it where file offsets are given 64 bits */
int __wrap_open64(const char *path, int flags, ...)
    __attribute__((alias("__wrap_open")));

static struct endpoint *endpoint_of(uint32_t id)
{
    return id && id <= LOOP_ENDPOINTS && loop.endpoints[id - 1].live ?
        &loop.endpoints[id - 1] : NULL;
}

/* ---- Carrying ---------------------------------------------------------- */

/* A completion queue that stays full is a test's mistake. */
static void complete(struct endpoint *ep, const struct unetmm_cqe *cqe)
{
    if (ep->live && !fake_card_complete(&ep->card, cqe)) {
        fprintf(stderr, "fake loop: a completion queue is full\n");
        abort();
    }
}

static struct unetmm_export *find_export(uint64_t id)
{
    return fake_export_find(loop.exports, LOOP_EXPORTS, id);
}

static void count(const struct unetmm_export *export)
{
    unsigned id = export->counter;
    uint64_t now = __atomic_add_fetch(&loop.page[id], 1, __ATOMIC_SEQ_CST);

    if (loop.counters[id].event_fd &&
        now - loop.counters[id].value <= INT64_MAX) {
        sys_eventfd_add(loop.counters[id].event_fd);
        loop.counters[id].event_fd = 0;
    }
    pthread_cond_broadcast(&loop.counted);
}

/* The 32 secret bits of an export's key */
static uint32_t key_of(const struct unetmm_export *export)
{
    return (uint32_t)export->id ^ 0x5ec2e7;
}

/* The export that an operation is for, or NULL. */
static const struct unetmm_export *target_of(const struct endpoint *ep)
{
    const struct import *import = &ep->imports[message.import % LOOP_IMPORTS];
    const struct unetmm_export *export;

    if (!message.keyed) {
        return import->live && ep->channels[import->channel].open ?
            find_export(import->export) : NULL;
    }
    if (message.region >= LOOP_EXPORTS || message.channel >= LOOP_CHANNELS ||
        !ep->channels[message.channel].open) {
        return NULL;
    }
    export = &loop.exports[message.region];
    return export->length && export->flags & UNETMM_EXPORT_KEYED &&
        message.import == key_of(export) ? export : NULL;
}

static uint8_t place(const struct endpoint *ep, const struct unetmm_export *export,
                     void *at)
{
    const struct channel *channel = &ep->channels[message.channel %
                                                  LOOP_CHANNELS];

    if (message.has_imm &&
        !fake_card_written(&loop.endpoints[channel->peer].card,
                           channel->peer_channel, message.len, message.imm)) {
        return UNETMM_ST_NOT_READY;
    }
    memcpy(at, message.data, message.len);
    if (message.count && export->ncounters) {
        count(export);
    }
    return 0;
}

/* The other end of an operation; its status. */
static uint8_t operate(const struct endpoint *ep, struct unetmm_cqe *cqe)
{
    const struct unetmm_export *export = target_of(ep);
    uint64_t offset, old, operands[2];
    void *at;

    if (!export) {
        return UNETMM_ST_REVOKED;
    }
    offset = message.offset - (message.keyed ? export->addr : 0);
    if (offset > export->length || message.len > export->length - offset) {
        return UNETMM_ST_REMOTE_RANGE;
    }
    at = (void *)(uintptr_t)(export->addr + offset);
    if (message.opcode == UNETMM_OP_WRITE) {
        return place(ep, export, at);
    } else if (message.opcode == UNETMM_OP_READ) {
        memcpy(message.to, at, message.len);
    } else {
        memcpy(operands, message.data, sizeof(operands));
        old = operands[0];
        if (message.opcode == UNETMM_OP_FETCH_ADD) {
            old = __atomic_fetch_add((uint64_t *)at, operands[0],
                                     __ATOMIC_SEQ_CST);
        } else {
            __atomic_compare_exchange_n((uint64_t *)at, &old, operands[1],
                                        false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST);
        }
        memcpy(cqe->data, &old, sizeof(old));
        cqe->flags = UNETMM_CQE_F_INLINE;
    }
    return 0;
}

static void carry(struct endpoint *ep)
{
    const struct channel *channel = &ep->channels[message.channel %
                                                  LOOP_CHANNELS];
    struct unetmm_cqe cqe = {
        .cookie = message.cookie, .len = message.len,
        .channel = message.channel, .opcode = UNETMM_CQE_SENT,
    };
    struct unetmm_cqe received = {
        .opcode = UNETMM_CQE_RECEIVED, .len = message.len,
        .flags = UNETMM_CQE_F_INLINE |
            (message.has_imm ? UNETMM_CQE_F_IMM : 0),
        .imm = message.imm,
    };

    if (message.opcode == UNETMM_OP_FENCE) {
        cqe.status = channel->open ? UNETMM_ST_OK : UNETMM_ST_BAD_CHANNEL;
    } else if (message.opcode != UNETMM_OP_SEND) {
        cqe.status = operate(ep, &cqe);
    } else if (!channel->open) {
        cqe.status = UNETMM_ST_REVOKED;
    } else if (message.len <= sizeof(received.data)) {
        received.channel = (uint16_t)channel->peer_channel;
        memcpy(received.data, message.data, message.len);
        complete(&loop.endpoints[channel->peer], &received);
    } else if (message.has_imm) {
        cqe.status = UNETMM_ST_UNSUPPORTED;     /* no test has such a long one */
    } else if (!fake_card_deliver(&loop.endpoints[channel->peer].card,
                                  channel->peer_channel, message.data,
                                  message.len, false)) {
        cqe.status = UNETMM_ST_NOT_READY;
    }
    if (!message.quiet || cqe.status) {
        complete(ep, &cqe);
    }
}

/* One operation.  False: there was none. */
static bool carry_next(struct endpoint *ep)
{
    bool done = false;

    pthread_mutex_lock(&loop.lock);
    if (ep->live) {
        ep->rung |= __atomic_exchange_n(ep->doorbell, 0, __ATOMIC_SEQ_CST);
        done = ep->rung && ep->allowed &&
            fake_card_take(&ep->card, &message);
        if (done) {
            ep->allowed -= ep->allowed != UINT64_MAX;
            carry(ep);
            ep->log[ep->carried % LOOP_LOG] = (struct loop_operation) {
                .opcode = message.opcode, .quiet = message.quiet,
                .is_inline = message.is_inline, .count = message.count,
                .slots = message.slots, .len = message.len,
                .offset = message.offset,
            };
            ep->carried++;
        } else if (ep->allowed) {
            ep->rung = false;
        }
    }
    pthread_mutex_unlock(&loop.lock);
    return done;
}

static bool is_running(void)
{
    bool running;

    pthread_mutex_lock(&loop.lock);
    running = loop.running;
    pthread_mutex_unlock(&loop.lock);
    return running;
}

static void *carrier(void *argument)
{
    const struct timespec pause = { .tv_nsec = 20000 };

    while (is_running()) {
        bool busy = false;
        unsigned i;

        for (i = 0; i < LOOP_ENDPOINTS; i++) {
            busy |= carry_next(&loop.endpoints[i]);
        }
        if (!busy) {
            nanosleep(&pause, NULL);
        }
    }
    return argument;
}

/* ---- Endpoints and channels -------------------------------------------- */

/* Each side has one completion of the channel's end, if it has asked for that. */
static void tell_end(struct endpoint *ep, unsigned number)
{
    const struct unetmm_cqe closed = {
        .opcode = UNETMM_CQE_CLOSED, .channel = (uint16_t)number,
    };
    struct channel *channel = &ep->channels[number];

    if (channel->open && channel->tells && !channel->told) {
        channel->told = true;
        complete(ep, &closed);
    }
}

/* One end goes; the other learns of it. */
static void end_channel(struct endpoint *ep, unsigned number)
{
    struct channel *own = &ep->channels[number];
    struct endpoint *peer = &loop.endpoints[own->peer];
    struct channel *other = &peer->channels[own->peer_channel];

    if (own->open && other->open && other->peer_channel == number &&
        &loop.endpoints[other->peer] == ep) {
        tell_end(peer, own->peer_channel);
    }
    tell_end(ep, number);
    *own = (struct channel) { .rests_until = ep->card.cq_prod };
}

static void end_endpoint(struct endpoint *ep)
{
    unsigned i;

    for (i = 0; i < LOOP_CHANNELS; i++) {
        if (ep->channels[i].open) {
            ep->channels[i].told = true;
            end_channel(ep, i);
        }
    }
    ep->service = 0;
    ep->waiting = 0;
    memset(ep->imports, 0, sizeof(ep->imports));
}

static int do_endpoint(struct unetmm_endpoint *request)
{
    struct endpoint *ep = loop.endpoints;
    void *doorbell;
    uint32_t id;

    while (ep < loop.endpoints + LOOP_ENDPOINTS && (ep->live || ep->mapped)) {
        ep++;
    }
    if (ep == loop.endpoints + LOOP_ENDPOINTS) {
        return refuse(ENOSPC);
    }
    doorbell = new_page();
    if (doorbell == MAP_FAILED) {
        return -1;
    }
    memset(ep, 0, sizeof(*ep));
    id = (uint32_t)(ep - loop.endpoints);
    fake_card_init(&ep->card, request->sq_log2, request->fq_log2,
                   request->cq_log2, request->event_fd);
    ep->card.layout.id = id + 1;
    ep->doorbell = doorbell;
    ep->live = ep->mapped = true;
    ep->allowed = UINT64_MAX;
    *request = ep->card.layout;
    request->queue_map = QUEUE_MAP + id * EACH_MAP;
    request->doorbell_map = DOORBELL_MAP + id * EACH_MAP;
    loop.newest = id;
    return 0;
}

static void free_queues(struct endpoint *ep)
{
    ep->mapped = false;         /* first: fake_card_free() comes here again */
    fake_card_free(&ep->card);
    __real_munmap(ep->doorbell, 4096);
}

static int do_endpoint_close(const struct unetmm_endpoint_id *request)
{
    struct endpoint *ep = endpoint_of(request->id);

    if (!ep) {
        return refuse(ENOENT);
    }
    end_endpoint(ep);
    ep->live = false;
    return 0;
}

static int new_channel(struct endpoint *ep)
{
    int i;

    for (i = 0; i < (int)LOOP_CHANNELS && (ep->channels[i].open ||
         (int32_t)(unetmm_read_word(&ep->card.index->user.cq_cons) -
                   ep->channels[i].rests_until) < 0); i++) {
    }
    return i < (int)LOOP_CHANNELS ? i : -1;
}

static int do_listen(const struct unetmm_listen *request)
{
    struct endpoint *ep = endpoint_of(request->endpoint);

    ep->service = request->service;
    ep->tells = request->flags & UNETMM_LISTEN_TELL;
    ep->announced = request->flags & UNETMM_LISTEN_ANNOUNCE;
    pthread_cond_broadcast(&loop.listening);
    return 0;
}

static int do_peers(struct unetmm_peers *request)
{
    struct unetmm_listener *to = (void *)(uintptr_t)request->listeners;
    unsigned i;

    request->count = 0;
    for (i = 0; i < LOOP_ENDPOINTS; i++) {
        const struct endpoint *ep = &loop.endpoints[i];

        if (ep->live && ep->announced && ep->service &&
            (!request->service || request->service == ep->service)) {
            to[request->count++] = (struct unetmm_listener) {
                .service = ep->service, .mac = { 0x52, 0x54, 0, 0, 0, 1 },
                .endpoint = (uint16_t)(i + 1), .mtu = 9000,
                .types = UNETMM_LISTEN_RELIABLE, .name = "loop",
            };
        }
    }
    return 0;
}

static void tell_channel(struct unetmm_connect *request, unsigned number,
                         unsigned peer)
{
    request->channel = number;
    request->mtu = 9000;
    request->max_message = LOOP_MESSAGE;
    request->peer_endpoint = peer + 1;
    request->flags = UNETMM_CONNECT_RELIABLE;
}

/* POLLPRI is there while a connection waits to be accepted. */
static void ring_bell(bool on)
{
    char byte = 0;

    if (on) {
        send(loop.bell, &byte, 1, MSG_OOB);
    } else {
        recv(LOOP_FD, &byte, 1, MSG_OOB | MSG_DONTWAIT);
    }
}

static bool any_waits(void)
{
    unsigned i;

    for (i = 0; i < LOOP_ENDPOINTS; i++) {
        if (loop.endpoints[i].live && loop.endpoints[i].waiting) {
            return true;
        }
    }
    return false;
}

static bool wait_until(pthread_cond_t *event, uint64_t deadline_ns)
{
    const struct timespec deadline = {
        .tv_sec = (time_t)(deadline_ns / 1000000000u),
        .tv_nsec = (long)(deadline_ns % 1000000000u),
    };

    return deadline_ns && !pthread_cond_clockwait(event, &loop.lock,
                                                  CLOCK_MONOTONIC, &deadline);
}

static struct endpoint *find_listener(uint64_t service)
{
    struct endpoint *to;

    for (to = loop.endpoints; to < loop.endpoints + LOOP_ENDPOINTS; to++) {
        if (to->live && to->service == service) {
            return to;
        }
    }
    return NULL;
}

static int do_connect(struct unetmm_connect *request)
{
    struct endpoint *ep = endpoint_of(request->endpoint), *to;
    int own, theirs;

    while (!(to = find_listener(request->service))) {
        if (!wait_until(&loop.listening, request->deadline_ns)) {
            return refuse(ETIMEDOUT);
        }
    }
    /* As the driver's CONNECT, the library's caller must not find the endpoint gone. */
    if (!ep || ep != endpoint_of(request->endpoint)) {
        fprintf(stderr, "fake loop: an endpoint was closed during its connect\n");
        abort();
    }
    if (to->waiting == LOOP_CHANNELS) {
        return refuse(ECONNREFUSED);
    }
    own = new_channel(ep);
    theirs = new_channel(to);
    if (own < 0 || theirs < 0) {
        return refuse(ENOSPC);
    }
    ep->channels[own] = (struct channel) {
        .open = true, .tells = request->flags & UNETMM_CONNECT_TELL,
        .peer = (unsigned)(to - loop.endpoints),
        .peer_channel = (unsigned)theirs,
    };
    to->channels[theirs] = (struct channel) {
        .open = true, .tells = to->tells,
        .peer = (unsigned)(ep - loop.endpoints), .peer_channel = (unsigned)own,
    };
    to->backlog[to->waiting++] = (unsigned)theirs;
    ring_bell(true);
    tell_channel(request, (unsigned)own, (unsigned)(to - loop.endpoints));
    return 0;
}

/* It is never waited for here. */
static int do_accept(struct unetmm_connect *request)
{
    struct endpoint *ep = endpoint_of(request->endpoint);
    unsigned number;

    if (!ep->waiting || loop.hide) {
        return refuse(EAGAIN);
    }
    number = ep->backlog[0];
    ep->waiting--;
    memmove(ep->backlog, ep->backlog + 1,
            ep->waiting * sizeof(ep->backlog[0]));
    if (!any_waits()) {
        ring_bell(false);
    }
    tell_channel(request, number, ep->channels[number].peer);
    return 0;
}

static int do_channel_close(const struct unetmm_channel *request)
{
    struct endpoint *ep = endpoint_of(request->endpoint);

    if (request->channel >= LOOP_CHANNELS ||
        !ep->channels[request->channel].open) {
        return refuse(ENOENT);
    }
    end_channel(ep, request->channel);
    return 0;
}

/* ---- Exports, imports, counters ---------------------------------------- */

/* As the driver, which waits so long if there is no deadline. */
#define IMPORT_ONCE_NS  3000000000u

static int unheard(uint64_t deadline_ns)
{
    deadline_ns = deadline_ns ? deadline_ns : sys_now_ns() + IMPORT_ONCE_NS;
    while (wait_until(&loop.listening, deadline_ns)) {
    }
    return refuse(EHOSTUNREACH);
}

static int do_import(struct unetmm_import *request)
{
    struct endpoint *ep = endpoint_of(request->endpoint);
    const struct unetmm_export *export = find_export(request->id);
    unsigned i;

    if (request->channel >= LOOP_CHANNELS ||
        !ep->channels[request->channel].open) {
        return refuse(ENOENT);
    }
    if (loop.silent) {
        loop.silent--;
        return unheard(request->deadline_ns);
    }
    if (!export) {
        return refuse(request->deadline_ns ? ETIMEDOUT : EAGAIN);
    }
    for (i = 0; i < LOOP_IMPORTS && ep->imports[i].live; i++) {
    }
    if (i == LOOP_IMPORTS) {
        return refuse(ENOSPC);
    }
    ep->imports[i] = (struct import) { true, request->channel, request->id };
    request->import = i;
    request->length = export->length;
    request->rights = export->rights;
    return 0;
}

static int do_unimport(const struct unetmm_import_id *request)
{
    struct endpoint *ep = endpoint_of(request->endpoint);

    if (!ep->imports[request->import % LOOP_IMPORTS].live) {
        return refuse(ENOENT);
    }
    ep->imports[request->import % LOOP_IMPORTS].live = false;
    return 0;
}

/* The whole address space is one long export at 0, by its key. */
static int do_export(const struct unetmm_export *request)
{
    struct unetmm_export export = *request;

    if (export.flags & UNETMM_EXPORT_WHOLE) {
        if (export.addr || export.length) {
            return refuse(EINVAL);
        }
        export.length = UINT64_MAX;
        export.flags |= UNETMM_EXPORT_KEYED;
    }
    return fake_export_add(loop.exports, LOOP_EXPORTS, &export);
}

static int do_export_key(struct unetmm_export_key *request)
{
    const struct unetmm_export *export = find_export(request->id);

    if (!export || !(export->flags & UNETMM_EXPORT_KEYED)) {
        return refuse(ENOENT);
    }
    request->key = (uint64_t)(export - loop.exports) << 32 | key_of(export);
    request->base = export->addr;
    return 0;
}

static int do_event(struct unetmm_event *request)
{
    uint32_t i;

    for (i = 0; i < UNETMM_EVENT_COUNTERS && loop.counters[i].live; i++) {
    }
    if (i == UNETMM_EVENT_COUNTERS || request->count != 1) {
        return refuse(ENOSPC);
    }
    loop.counters[i].live = true;
    loop.counters[i].event_fd = 0;
    loop.page[i] = 0;
    request->id = i;
    request->map = COUNTER_MAP;
    return 0;
}

static int do_event_close(const struct unetmm_event_id *request)
{
    unsigned i;

    for (i = 0; i < LOOP_EXPORTS; i++) {
        if (loop.exports[i].length && loop.exports[i].ncounters &&
            loop.exports[i].counter == request->id) {
            return refuse(EBUSY);
        }
    }
    loop.counters[request->id].live = false;
    return 0;
}

static int do_event_arm(struct unetmm_event_arm *request)
{
    request->now = loop.page[request->id];
    loop.counters[request->id].value = request->value;
    loop.counters[request->id].event_fd =
        request->event_fd < 0 || request->now - request->value <= INT64_MAX ?
        0 : request->event_fd;
    return 0;
}

static int do_event_wait(struct unetmm_event_wait *request)
{
    bool late = false;

    for (;;) {
        request->now = __atomic_load_n(&loop.page[request->id],
                                       __ATOMIC_SEQ_CST);
        if (request->now - request->value <= INT64_MAX) {
            return 0;
        }
        if (late) {
            return refuse(request->deadline_ns ? ETIMEDOUT : EAGAIN);
        }
        late = !wait_until(&loop.counted, request->deadline_ns);
    }
}

static int do_info(struct unetmm_info *info)
{
    *info = (struct unetmm_info) {
        .size = sizeof(*info), .flags = UNETMM_INFO_LINK,
        .endpoints = LOOP_ENDPOINTS, .channels = LOOP_CHANNELS,
        .imports = LOOP_IMPORTS, .max_ring_log2 = UNETMM_MAX_RING_LOG2,
        .max_buffer_pages = 64, .max_message = LOOP_MESSAGE,
    };
    return 0;
}

/* ---- The calls --------------------------------------------------------- */

static int dispatch(unsigned long request, void *argument)
{
    switch (request) {
    case UNETMM_IOC_INFO: return do_info(argument);
    case UNETMM_IOC_SPACE: return 0;
    case UNETMM_IOC_ENDPOINT: return do_endpoint(argument);
    case UNETMM_IOC_ENDPOINT_CLOSE: return do_endpoint_close(argument);
    case UNETMM_IOC_LISTEN: return do_listen(argument);
    case UNETMM_IOC_PEERS: return do_peers(argument);
    case UNETMM_IOC_ACCEPT: return do_accept(argument);
    case UNETMM_IOC_CONNECT: return do_connect(argument);
    case UNETMM_IOC_CHANNEL_CLOSE: return do_channel_close(argument);
    case UNETMM_IOC_REGISTER: return refuse(EOPNOTSUPP);    /* as source tlb */
    case UNETMM_IOC_EXPORT: return do_export(argument);
    case UNETMM_IOC_UNEXPORT:
        return fake_export_remove(loop.exports, LOOP_EXPORTS,
                                  ((struct unetmm_export_id *)argument)->id);
    case UNETMM_IOC_EXPORT_KEY: return do_export_key(argument);
    case UNETMM_IOC_IMPORT: return do_import(argument);
    case UNETMM_IOC_UNIMPORT: return do_unimport(argument);
    case UNETMM_IOC_EVENT: return do_event(argument);
    case UNETMM_IOC_EVENT_CLOSE: return do_event_close(argument);
    case UNETMM_IOC_EVENT_ARM: return do_event_arm(argument);
    case UNETMM_IOC_EVENT_WAIT: return do_event_wait(argument);
    default: return refuse(ENOTTY);
    }
}

/* True: this call is the one that is to fail.  Nothing that ends things does. */
static bool fails(unsigned long request)
{
    if (!loop.error || request == UNETMM_IOC_ENDPOINT_CLOSE ||
        request == UNETMM_IOC_EVENT_CLOSE || request == UNETMM_IOC_UNEXPORT ||
        request == UNETMM_IOC_EVENT_ARM || request == UNETMM_IOC_ACCEPT ||
        loop.calls_left--) {
        return false;
    }
    errno = loop.error;
    loop.error = 0;
    loop.failed = true;
    return true;
}

/* LOOP_FD can be polled: it is one end of a pair of sockets. */
static bool open_bell(void)
{
    int pair[2];
    bool done;

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) {
        return false;
    }
    done = dup2(pair[0], LOOP_FD) == LOOP_FD;
    __real_close(pair[0]);
    if (!done) {
        __real_close(pair[1]);
        return false;
    }
    loop.bell = pair[1];
    return true;
}

int __wrap_open(const char *path, int flags, ...)
{
    void *page;

    if (strcmp(path, "/loop") || loop.open) {
        return __real_open(path, flags);
    }
    page = new_page();
    if (page == MAP_FAILED || !open_bell()) {
        return -1;
    }
    loop.page = page;
    loop.open = loop.running = true;
    if (pthread_create(&loop.thread, NULL, carrier, NULL)) {
        return refuse(EAGAIN);
    }
    return LOOP_FD;
}

int __wrap_close(int fd)
{
    if (fd != LOOP_FD) {
        return __real_close(fd);
    }
    pthread_mutex_lock(&loop.lock);
    loop.running = false;
    pthread_mutex_unlock(&loop.lock);
    pthread_join(loop.thread, NULL);
    __real_munmap(loop.page, 4096);
    loop.open = false;
    __real_close(loop.bell);
    return __real_close(LOOP_FD);
}

int __wrap_ioctl(int fd, unsigned long request, void *argument)
{
    int ret;

    if (fd != LOOP_FD) {
        return __real_ioctl(fd, request, argument);
    }
    if (loop_hook) {
        loop_hook(request);
    }
    pthread_mutex_lock(&loop.lock);
    ret = fails(request) ? -1 : dispatch(request, argument);
    pthread_mutex_unlock(&loop.lock);
    return ret;
}

void *__wrap_mmap(void *address, size_t bytes, int protection, int flags,
                  int fd, off_t offset)
{
    if (fd != LOOP_FD) {
        return __real_mmap(address, bytes, protection, flags, fd, offset);
    }
    if (offset == COUNTER_MAP) {
        loop.page_maps++;
        return loop.page;
    }
    return offset >= DOORBELL_MAP ?
        (void *)loop.endpoints[(offset - DOORBELL_MAP) / EACH_MAP].doorbell :
        loop.endpoints[(offset - QUEUE_MAP) / EACH_MAP].card.queues;
}

int __wrap_munmap(void *address, size_t bytes)
{
    unsigned i;

    for (i = 0; i < LOOP_ENDPOINTS; i++) {
        struct endpoint *ep = &loop.endpoints[i];

        if (ep->mapped && address == ep->card.queues) {
            free_queues(ep);
            return 0;
        }
        if (ep->mapped && address == (void *)ep->doorbell) {
            return 0;           /* goes with the queues, which go last */
        }
    }
    if (address == loop.page) {
        loop.page_maps--;
        return 0;
    }
    return __real_munmap(address, bytes);
}

/* ---- For tests --------------------------------------------------------- */

unsigned loop_newest(void)
{
    return loop.newest;
}

void loop_allow(unsigned endpoint, uint64_t operations)
{
    pthread_mutex_lock(&loop.lock);
    loop.endpoints[endpoint].allowed = operations;
    pthread_mutex_unlock(&loop.lock);
}

void loop_silence_imports(unsigned number)
{
    pthread_mutex_lock(&loop.lock);
    loop.silent = number;
    pthread_mutex_unlock(&loop.lock);
}

uint64_t loop_carried(unsigned endpoint)
{
    uint64_t carried;

    pthread_mutex_lock(&loop.lock);
    carried = loop.endpoints[endpoint].carried;
    pthread_mutex_unlock(&loop.lock);
    return carried;
}

struct loop_operation loop_operation(unsigned endpoint, uint64_t number)
{
    struct loop_operation operation;

    pthread_mutex_lock(&loop.lock);
    operation = loop.endpoints[endpoint].log[number % LOOP_LOG];
    pthread_mutex_unlock(&loop.lock);
    return operation;
}

uint32_t loop_room(unsigned endpoint)
{
    const struct fake_card *card = &loop.endpoints[endpoint].card;
    uint32_t room;

    pthread_mutex_lock(&loop.lock);
    room = (1u << card->layout.sq_log2) + card->sq_cons -
        unetmm_read_word(&card->index->user.sq_prod);
    pthread_mutex_unlock(&loop.lock);
    return room;
}

void loop_kill(unsigned endpoint)
{
    pthread_mutex_lock(&loop.lock);
    loop.endpoints[endpoint].allowed = 0;
    end_endpoint(&loop.endpoints[endpoint]);
    pthread_mutex_unlock(&loop.lock);
}

void loop_hide_connections(bool on)
{
    pthread_mutex_lock(&loop.lock);
    loop.hide = on;
    pthread_mutex_unlock(&loop.lock);
}

void loop_fail(unsigned after, int error)
{
    pthread_mutex_lock(&loop.lock);
    loop.calls_left = after;
    loop.error = error;
    loop.failed = false;
    pthread_mutex_unlock(&loop.lock);
}

bool loop_has_failed(void)
{
    return loop.failed;
}

unsigned loop_leaks(void)
{
    unsigned i, leaks = loop.open + loop.page_maps;

    for (i = 0; i < LOOP_ENDPOINTS; i++) {
        leaks += loop.endpoints[i].live + loop.endpoints[i].mapped;
    }
    for (i = 0; i < LOOP_EXPORTS; i++) {
        leaks += loop.exports[i].length != 0;
    }
    for (i = 0; i < UNETMM_EVENT_COUNTERS; i++) {
        leaks += loop.counters[i].live;
    }
    return leaks;
}
