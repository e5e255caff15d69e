/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The driver of a card in this process, whose endpoints talk to each other.
 *
 * `loop.lock` is that of all below, and of the card: its thread holds the lock for a turn
 * of the card, and the calls for as long as they do not wait.
 */
#include "fake_loop.h"
#include "fake_calls.h"
#include "fake_export.h"
#include "real_card.h"
#include "sys/sys.h"

#include <libunetmm/barrier.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
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
    bool open;
    unsigned peer, peer_channel;
    uint32_t rests_until;       /* the process has taken so many completions */
};

struct endpoint {
    uint64_t service, allowed;
    bool announced;
    struct unetmm_cmd_channel takes;    /* its end of channels that it listens for */
    struct channel channels[LOOP_CHANNELS];
    uint64_t imports[LOOP_IMPORTS];     /* the export and 1; 0: none */
    unsigned backlog[LOOP_CHANNELS], waiting;
    /* Operations that the card has been shown, that it has taken, and up to which slot */
    uint64_t shown, carried;
    uint32_t shown_slots;
    struct loop_operation log[LOOP_LOG];
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t counted;     /* one of the counters was incremented */
    pthread_cond_t listening;   /* an endpoint has another service */
    pthread_t thread;
    bool open, running, hide, hide_export;
    unsigned newest;
    struct endpoint endpoints[LOOP_ENDPOINTS];
    struct unetmm_export exports[LOOP_EXPORTS];         /* length 0: none */
    int bell;                   /* a byte out of band there: POLLPRI on LOOP_FD */
    struct {
        bool live;
        int event_fd;           /* 0: not armed */
    } counters[UNETMM_EVENT_COUNTERS];
    uint64_t *page;
    unsigned page_maps, calls_left;
    int error;
    bool failed;
    unsigned silent;            /* questions for an export that nobody answers */
    struct loop_questions questions;
} loop;

static void __attribute__((constructor)) init_lock(void)
{
    pthread_mutex_init(&loop.lock, NULL);
    pthread_cond_init(&loop.counted, NULL);
    pthread_cond_init(&loop.listening, NULL);
}

static const uint8_t loop_mac[6] = { 0x52, 0x54, 0, 0, 0, 1 };

void (*loop_hook)(unsigned long request);

/* The C library's name for it where file offsets are given 64 bits */
int __wrap_open64(const char *path, int flags, ...)
    __attribute__((alias("__wrap_open")));

static struct endpoint *endpoint_of(uint32_t id)
{
    return id && id <= LOOP_ENDPOINTS && real_endpoints[id - 1].live ?
        &loop.endpoints[id - 1] : NULL;
}

static unsigned number_of(const struct endpoint *ep)
{
    return (unsigned)(ep - loop.endpoints);
}

static struct unetmm_export *find_export(uint64_t id)
{
    return fake_export_find(loop.exports, LOOP_EXPORTS, id);
}

/* An export's number on the card, and its 32 secret bits: peers give both. */
static uint32_t region_of(const struct unetmm_export *export)
{
    return (uint32_t)(export - loop.exports);
}

static uint32_t key_of(const struct unetmm_export *export)
{
    return (uint32_t)export->id ^ 0x5ec2e7;
}

/* ---- Carrying ---------------------------------------------------------- */

static uint32_t slots_of(const struct unetmm_sqe *sqe)
{
    if (sqe->inline_len > UNETMM_SQE_INLINE) {
        return 1 + (sqe->inline_len - UNETMM_SQE_INLINE + UNETMM_SLOT_BYTES - 1) /
            UNETMM_SLOT_BYTES;
    }
    return sqe->nsegs > UNETMM_SQE_SEGS ? 1 + (sqe->nsegs - UNETMM_SQE_SEGS +
        UNETMM_SLOT_SEGS - 1) / UNETMM_SLOT_SEGS : 1;
}

static uint32_t bytes_of(const struct unetmm_sqe *sqe)
{
    return sqe->inline_len ? sqe->inline_len : sqe->nsegs ? sqe->seg[0].len : 0;
}

/* The card sees as many operations as it may carry, and each is logged. */
static uint32_t show(unsigned endpoint, uint32_t sq_prod)
{
    const struct real_endpoint *at = &real_endpoints[endpoint];
    const uint8_t *sq = (uint8_t *)at->queues + at->layout.sq_offset;
    struct endpoint *ep = &loop.endpoints[endpoint];
    uint32_t mask = (1u << at->layout.sq_log2) - 1;

    for (; ep->allowed && ep->shown_slots != sq_prod; ep->shown++) {
        const struct unetmm_sqe *sqe = (void *)(sq + (ep->shown_slots & mask) *
                                                UNETMM_SLOT_BYTES);
        uint32_t slots = slots_of(sqe);

        ep->allowed -= ep->allowed != UINT64_MAX;
        ep->shown_slots += slots;
        ep->log[ep->shown % LOOP_LOG] = (struct loop_operation) {
            .opcode = sqe->opcode, .quiet = sqe->flags & UNETMM_SQE_F_QUIET,
            .is_inline = sqe->flags & UNETMM_SQE_F_INLINE,
            .count = sqe->flags & UNETMM_SQE_F_COUNT,
            .slots = slots, .len = bytes_of(sqe), .offset = sqe->remote,
            .end = ep->shown_slots,
        };
    }
    return ep->shown_slots;
}

static struct unetmm_ep_index *index_of(const struct endpoint *ep)
{
    return real_endpoints[number_of(ep)].index;
}

static uint32_t sq_cons(unsigned endpoint)
{
    return unetmm_read_word(&real_endpoints[endpoint].index->card.sq_cons);
}

static void count_carried(unsigned endpoint)
{
    struct endpoint *ep = &loop.endpoints[endpoint];

    while (ep->carried < ep->shown &&
           sq_cons(endpoint) - ep->log[ep->carried % LOOP_LOG].end <= INT32_MAX) {
        ep->carried++;
    }
}

static void notified(const struct unetmm_notify *notify)
{
    if (notify->type != UNETMM_NOTIFY_COUNTER) {
        sys_eventfd_add(real_endpoints[notify->ep - 1].layout.event_fd);
    } else if (loop.counters[notify->data].event_fd) {
        sys_eventfd_add(loop.counters[notify->data].event_fd);
        loop.counters[notify->data].event_fd = 0;
    }
}

static const struct real_card_driver driver = { .notified = notified, .shown = show };

static bool turn(void)
{
    bool busy = real_card_turn();
    unsigned i;

    for (i = 0; i < LOOP_ENDPOINTS; i++) {
        if (real_endpoints[i].live) {
            count_carried(i);
        }
    }
    if (busy) {
        pthread_cond_broadcast(&loop.counted);
    }
    return busy;
}

static void *carrier(void *argument)
{
    const struct timespec pause = { .tv_nsec = 20000 };
    bool running, busy;

    do {
        pthread_mutex_lock(&loop.lock);
        running = loop.running;
        busy = turn();
        pthread_mutex_unlock(&loop.lock);
        if (!busy) {
            nanosleep(&pause, NULL);
        }
    } while (running);
    return argument;
}

/* ---- Endpoints and channels -------------------------------------------- */

/*
 * One end goes, and the other with it.  The card tells each process that has asked to be
 * told, and has not been; `tell`: this process, too.
 */
static void end_channel(struct endpoint *ep, unsigned number, bool tell)
{
    struct channel *own = &ep->channels[number];
    const struct channel *other = &loop.endpoints[own->peer].channels[own->peer_channel];

    real_channel_clear(number_of(ep), number, tell ? UNETMM_CHANNEL_F_TELL : 0);
    if (other->open && other->peer_channel == number && other->peer == number_of(ep)) {
        real_channel_clear(own->peer, own->peer_channel, UNETMM_CHANNEL_F_TELL);
    }
    turn();
    *own = (struct channel) {
        .rests_until = unetmm_read_word(&index_of(ep)->card.cq_prod),
    };
}

static void end_endpoint(struct endpoint *ep)
{
    unsigned i;

    for (i = 0; i < LOOP_CHANNELS; i++) {
        if (ep->channels[i].open) {
            end_channel(ep, i, false);
        }
    }
    ep->service = 0;
    ep->waiting = 0;
    memset(ep->imports, 0, sizeof(ep->imports));
}

static int do_endpoint(struct unetmm_endpoint *request)
{
    int index = real_endpoint_open(request);

    if (index < 0) {
        return refuse(ENOSPC);
    }
    loop.newest = (unsigned)index;
    loop.endpoints[index] = (struct endpoint) { .allowed = UINT64_MAX };
    request->queue_map = QUEUE_MAP + loop.newest * EACH_MAP;
    request->doorbell_map = DOORBELL_MAP + loop.newest * EACH_MAP;
    return 0;
}

static int do_endpoint_close(const struct unetmm_destroy *request)
{
    struct endpoint *ep = endpoint_of(request->endpoint);

    if (!ep) {
        return refuse(ENOENT);
    }
    end_endpoint(ep);
    real_endpoint_close(number_of(ep));
    return 0;
}

static int new_channel(struct endpoint *ep)
{
    int i;

    for (i = 0; i < (int)LOOP_CHANNELS && (ep->channels[i].open ||
         (int32_t)(unetmm_read_word(&index_of(ep)->user.cq_cons) -
                   ep->channels[i].rests_until) < 0); i++) {
    }
    return i < (int)LOOP_CHANNELS ? i : -1;
}

static struct unetmm_cmd_channel end_of(bool tells, uint32_t timeout_us, uint32_t retries,
                                        uint32_t not_ready_retries, uint32_t not_ready_us)
{
    return (struct unetmm_cmd_channel) {
        .flags = tells ? UNETMM_CHANNEL_F_TELL : 0, .timeout_us = timeout_us,
        .retries = (uint8_t)retries, .not_ready_retries = (uint8_t)not_ready_retries,
        .not_ready_us = not_ready_us,
    };
}

static int do_listen(const struct unetmm_listen *request)
{
    struct endpoint *ep = endpoint_of(request->endpoint);

    ep->service = request->service;
    ep->takes = end_of(request->flags & UNETMM_LISTEN_TELL, request->timeout_us,
                       request->retries, request->not_ready_retries, request->not_ready_us);
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

        if (real_endpoints[i].live && ep->announced && ep->service &&
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
        if (real_endpoints[i].live && loop.endpoints[i].waiting) {
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
        if (real_endpoints[number_of(to)].live && to->service == service) {
            return to;
        }
    }
    return NULL;
}

static void set_end(struct endpoint *ep, unsigned number, struct unetmm_cmd_channel how,
                    const struct endpoint *peer, unsigned peer_channel)
{
    ep->channels[number] = (struct channel) {
        .open = true, .peer = number_of(peer), .peer_channel = peer_channel,
    };
    real_channel_set(number_of(ep), number, how, number_of(peer), peer_channel);
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
    set_end(ep, (unsigned)own, end_of(request->flags & UNETMM_CONNECT_TELL,
                                      request->timeout_us, request->retries,
                                      request->not_ready_retries, request->not_ready_us),
            to, (unsigned)theirs);
    set_end(to, (unsigned)theirs, to->takes, ep, (unsigned)own);
    to->backlog[to->waiting++] = (unsigned)theirs;
    ring_bell(true);
    tell_channel(request, (unsigned)own, number_of(to));
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

static int do_channel_close(const struct unetmm_destroy *request)
{
    struct endpoint *ep = endpoint_of(request->endpoint);

    if (request->id >= LOOP_CHANNELS || !ep->channels[request->id].open) {
        return refuse(ENOENT);
    }
    end_channel(ep, (unsigned)request->id, true);
    return 0;
}

/* ---- Exports, imports, counters ---------------------------------------- */

/* As the driver, which waits so long if there is no deadline. */
#define IMPORT_ONCE_NS  3000000000u

static void note_question(uint64_t deadline_ns)
{
    uint64_t now = sys_now_ns();
    uint64_t ns = !deadline_ns ? IMPORT_ONCE_NS : deadline_ns > now ? deadline_ns - now : 0;

    loop.questions.number++;
    loop.questions.longest_ns = ns > loop.questions.longest_ns ? ns : loop.questions.longest_ns;
}

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
    note_question(request->deadline_ns);
    if (loop.silent) {
        loop.silent--;
        return unheard(request->deadline_ns);
    }
    if (!export) {
        return refuse(request->deadline_ns ? ETIMEDOUT : EAGAIN);
    }
    for (i = 0; i < LOOP_IMPORTS && ep->imports[i]; i++) {
    }
    if (i == LOOP_IMPORTS) {
        return refuse(ENOSPC);
    }
    if (real_card_command((struct unetmm_cmd) {
            .opcode = UNETMM_CMD_IMPORT_SET, .ep = (uint16_t)request->endpoint,
            .import = { .import = i, .region = region_of(export), .key = key_of(export),
                        .channel = (uint16_t)request->channel,
                        .rights = (uint8_t)export->rights, .length = export->length },
        }, NULL)) {
        return refuse(EINVAL);
    }
    ep->imports[i] = request->id + 1;
    request->import = i;
    request->length = export->length;
    request->rights = export->rights;
    return 0;
}

static int do_unimport(const struct unetmm_destroy *request)
{
    struct endpoint *ep = endpoint_of(request->endpoint);

    if (!ep->imports[request->id % LOOP_IMPORTS]) {
        return refuse(ENOENT);
    }
    /* The card has none if the channel has ended. */
    real_card_command((struct unetmm_cmd) {
        .opcode = UNETMM_CMD_IMPORT_CLEAR, .ep = (uint16_t)request->endpoint,
        .import.import = (uint32_t)request->id }, NULL);
    ep->imports[request->id % LOOP_IMPORTS] = 0;
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
    if (fake_export_add(loop.exports, LOOP_EXPORTS, &export)) {
        return -1;
    }
    request = find_export(export.id);
    if (loop.hide_export) {
        real_card_hide((void *)(uintptr_t)export.addr);
        loop.hide_export = false;
    }
    return real_card_command((struct unetmm_cmd) {
        .opcode = UNETMM_CMD_REGION_SET, .space = REAL_SPACE,
        .region = {
            .region = region_of(request), .key = key_of(request), .addr = export.addr,
            .length = export.length, .cookie = export.cookie,
            .rights = (uint8_t)export.rights,
            .flags = (export.flags & UNETMM_EXPORT_NOTIFY ? UNETMM_REGION_F_NOTIFY : 0) |
                (export.flags & UNETMM_EXPORT_KEYED ? UNETMM_REGION_F_KEYED : 0) |
                (export.flags & UNETMM_EXPORT_REDIRECT ? UNETMM_REGION_F_REDIRECT : 0),
            .counter = (uint16_t)export.counter, .ncounters = (uint16_t)export.ncounters,
        } }, NULL) ? refuse(EINVAL) : 0;
}

static int do_unexport(const struct unetmm_destroy *request)
{
    const struct unetmm_export *export = find_export(request->id);

    if (export) {
        real_card_command((struct unetmm_cmd) {
            .opcode = UNETMM_CMD_REGION_CLEAR, .region.region = region_of(export) }, NULL);
    }
    return fake_export_remove(loop.exports, LOOP_EXPORTS, request->id);
}

static struct unetmm_landed landed[UNETMM_REDIRECT_LANDED] __attribute__((aligned(8)));

/* One part of an export at a time */
static int move_part(uint64_t id, struct unetmm_cmd_redirect how, uint32_t *spans)
{
    const struct unetmm_export *export = find_export(id);

    if (!export) {
        return refuse(ENOENT);
    }
    how.region = region_of(export);
    how.list = (uintptr_t)landed;
    return real_card_command((struct unetmm_cmd) {
        .opcode = UNETMM_CMD_REGION_REDIRECT, .redirect = how }, spans) ? refuse(EINVAL) : 0;
}

static int do_redirect(struct unetmm_redirect *request)
{
    static uint64_t moved_to;
    int ret = move_part(request->id, (struct unetmm_cmd_redirect) {
        .what = (uint8_t)request->what, .offset = request->offset,
        .length = request->length, .to = request->to }, &request->count);

    if (!ret) {
        request->from = find_export(request->id)->addr + request->offset;
        request->to = moved_to = request->to ? request->to : moved_to;
        memcpy(request->spans, landed, request->count * sizeof(landed[0]));
    }
    return ret;
}

static int do_counters(struct unetmm_counters *request)
{
    uint64_t *values = (void *)(uintptr_t)request->values;

    if (request->scope != UNETMM_SCOPE_CARD) {
        return refuse(ENOENT);
    }
    for (unsigned i = 0; i < request->count && i < UNETMM_NUM_COUNTERS; i++) {
        values[i] = real_card_counter(i);
    }
    request->count = UNETMM_NUM_COUNTERS;
    return 0;
}

static int do_redirect_go(const struct unetmm_redirect_id *request)
{
    return move_part(request->id, (struct unetmm_cmd_redirect) {
        .what = (uint8_t)request->what, .offset = request->offset }, NULL);
}

static int do_export_key(struct unetmm_export_key *request)
{
    const struct unetmm_export *export = find_export(request->id);

    if (!export || !(export->flags & UNETMM_EXPORT_KEYED)) {
        return refuse(ENOENT);
    }
    request->key = (uint64_t)region_of(export) << 32 | key_of(export);
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

static int do_event_close(const struct unetmm_destroy *request)
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

static int do_destroy(const struct unetmm_destroy *request)
{
    switch (request->type) {
    case UNETMM_OBJECT_ENDPOINT: return do_endpoint_close(request);
    case UNETMM_OBJECT_CHANNEL: return do_channel_close(request);
    case UNETMM_OBJECT_EXPORT: return do_unexport(request);
    case UNETMM_OBJECT_IMPORT: return do_unimport(request);
    case UNETMM_OBJECT_EVENT: return do_event_close(request);
    default: return refuse(EINVAL);
    }
}

static int do_event_arm(struct unetmm_event_arm *request)
{
    uint32_t reached = 0;

    real_card_command((struct unetmm_cmd) {
        .opcode = UNETMM_CMD_COUNTER_ARM, .space = REAL_SPACE,
        .arm = { .value = request->value, .counter = (uint16_t)request->id,
                 .arm = request->event_fd >= 0 } }, &reached);
    request->now = __atomic_load_n(&loop.page[request->id], __ATOMIC_SEQ_CST);
    loop.counters[request->id].event_fd = request->event_fd < 0 || reached ? 0 :
        request->event_fd;
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
    memcpy(info->mac, loop_mac, sizeof(info->mac));
    return 0;
}

/* ---- The calls --------------------------------------------------------- */

static int dispatch(unsigned long request, void *argument)
{
    switch (request) {
    case UNETMM_IOC_INFO: return do_info(argument);
    case UNETMM_IOC_SPACE: return 0;
    case UNETMM_IOC_ENDPOINT: return do_endpoint(argument);
    case UNETMM_IOC_DESTROY: return do_destroy(argument);
    case UNETMM_IOC_LISTEN: return do_listen(argument);
    case UNETMM_IOC_PEERS: return do_peers(argument);
    case UNETMM_IOC_ACCEPT: return do_accept(argument);
    case UNETMM_IOC_CONNECT: return do_connect(argument);
    case UNETMM_IOC_REGISTER: return refuse(EOPNOTSUPP);    /* as source tlb */
    case UNETMM_IOC_EXPORT: return do_export(argument);
    case UNETMM_IOC_EXPORT_KEY: return do_export_key(argument);
    case UNETMM_IOC_REDIRECT: return do_redirect(argument);
    case UNETMM_IOC_REDIRECT_GO: return do_redirect_go(argument);
    case UNETMM_IOC_COUNTERS: return do_counters(argument);
    case UNETMM_IOC_IMPORT: return do_import(argument);
    case UNETMM_IOC_EVENT: return do_event(argument);
    case UNETMM_IOC_EVENT_ARM: return do_event_arm(argument);
    case UNETMM_IOC_EVENT_WAIT: return do_event_wait(argument);
    default: return refuse(ENOTTY);
    }
}

/* True: this call is the one that is to fail.  Nothing that ends things does. */
static bool fails(unsigned long request)
{
    if (!loop.error || request == UNETMM_IOC_DESTROY ||
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
    va_list more;
    mode_t mode;
    void *page;

    va_start(more, flags);
    mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
    va_end(more);
    if ((strcmp(path, "/loop") && strcmp(path, UNETMM_DEFAULT_DEVICE)) || loop.open) {
        return __real_open(path, flags, mode);
    }
    page = new_page();
    if (page == MAP_FAILED || !open_bell()) {
        return -1;
    }
    loop.page = page;
    real_card_start(loop_mac, page, &driver);
    loop.open = loop.running = true;
    loop.questions = (struct loop_questions) { 0 };
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
    real_card_stop();
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
        (void *)real_endpoints[(offset - DOORBELL_MAP) / EACH_MAP].doorbell :
        real_endpoints[(offset - QUEUE_MAP) / EACH_MAP].queues;
}

int __wrap_munmap(void *address, size_t bytes)
{
    unsigned i;

    for (i = 0; i < LOOP_ENDPOINTS; i++) {
        const struct real_endpoint *ep = &real_endpoints[i];

        if (ep->queues && address == ep->queues) {
            real_endpoint_free(i);
            return 0;
        }
        if (ep->queues && address == (void *)ep->doorbell) {
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
    real_endpoints[endpoint].rung = operations;
    pthread_mutex_unlock(&loop.lock);
}

struct loop_questions loop_questions(void)
{
    struct loop_questions questions;

    pthread_mutex_lock(&loop.lock);
    questions = loop.questions;
    pthread_mutex_unlock(&loop.lock);
    return questions;
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
    const struct real_endpoint *ep = &real_endpoints[endpoint];
    uint32_t room;

    pthread_mutex_lock(&loop.lock);
    room = (1u << ep->layout.sq_log2) + sq_cons(endpoint) -
        unetmm_read_word(&ep->index->user.sq_prod);
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

void loop_hide_export(bool on)
{
    pthread_mutex_lock(&loop.lock);
    loop.hide_export = on;
    if (!on) {
        real_card_hide(NULL);
    }
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
        leaks += real_endpoints[i].live + (real_endpoints[i].queues != NULL);
    }
    for (i = 0; i < LOOP_EXPORTS; i++) {
        leaks += loop.exports[i].length != 0;
    }
    for (i = 0; i < UNETMM_EVENT_COUNTERS; i++) {
        leaks += loop.counters[i].live;
    }
    return leaks;
}
