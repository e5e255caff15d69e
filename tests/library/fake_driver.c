/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A driver and a card in one process, for the tools and the library's calls.
 * A process has one card and one endpoint.
 */
#include "fake_driver.h"
#include "fake_calls.h"
#include "fake_card.h"
#include "fake_export.h"
#include "sys/sys.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#define QUEUE_MAP       0x1000
#define DOORBELL_MAP    0x2000
#define BACKLOG         16
#define ACCEPTED        64
#define FAKE_UNANSWERED 1024u
#define REPEAT_NS       10000000u
#define IMPORT_ONCE_NS  3000000000u

enum frame_type {
    PROBE, PROBE_ACK, CONNECT, CONNECT_ACK, REFUSED, USER, IMPORT, IMPORT_ACK,
    WRITE, READ, FETCH_ADD, ANSWER,
};

struct frame {
    uint32_t type;
    uint32_t from;              /* card number */
    uint32_t src_channel;
    uint32_t dst_channel;
    uint64_t service;           /* one-sided: the export's number */
    uint64_t offset;            /* there; IMPORT_ACK: its length; CONNECT: the attempt */
    uint32_t mtu;               /* READ: bytes */
    uint32_t kind;              /* UNETMM_LISTEN_*, of CONNECT; rights */
    uint32_t imm;
    uint32_t notify;
    uint32_t len;
    uint8_t data[65536];
};
#define FRAME_HEADER offsetof(struct frame, data)

struct channel {
    bool open;
    uint32_t card;
    uint32_t channel;
    uint32_t mtu;
    uint32_t kind;
    bool refused;
    uint64_t attempt;           /* to connect: its time */
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;     /* an answer or a connection came */
    pthread_t thread;
    bool open, running, probe_answered;
    struct fake_card card;
    int event_fd;               /* as the library gave it */
    bool endpoint;
    uint32_t *doorbell;
    uint32_t posted;            /* source ktlb: in the doorbell's place */
    uint64_t posts;
    int maps;
    uint32_t number;
    uint32_t mtu;
    uint32_t source;
    uint64_t service;
    uint32_t takes;             /* UNETMM_LISTEN_* */
    bool announced;
    struct channel channels[FAKE_CHANNELS];
    uint32_t backlog[BACKLOG];
    unsigned waiting;
    uint64_t accepted[ACCEPTED];        /* attempts to connect, the last ones */
    unsigned naccepted;
    int socket;
    uint64_t random;
    unsigned loss, dup;
    uint64_t link_ns;                   /* from then on */
    uint64_t sent, received, dropped;
} fake = {
    .changed = PTHREAD_COND_INITIALIZER,
};

static void __attribute__((constructor)) init_lock(void)
{
    pthread_mutex_init(&fake.lock, NULL);
}

struct fake_failures fake_failures;
struct unetmm_destroy fake_destroyed;

static struct unetmm_export exports[FAKE_EXPORTS];     /* length 0: none */
/* A part of one that has moved; `to` 0: none. */
static struct {
    uint64_t to, length;
    bool held;
} moved;

static struct {
    bool live;
    uint64_t id;
} imports[FAKE_IMPORTS];

/* The peer's answers on an export, and its open questions. */
static struct {
    bool known;
    uint64_t length;
    uint32_t rights;
} asked;
static struct {
    uint64_t cookie;
    void *to;                   /* NULL: an atomic */
    uint16_t channel;
    bool quiet;
} unanswered[FAKE_UNANSWERED];
static unsigned first_unanswered, last_unanswered;

static struct frame in, out, answer;
static struct fake_message message;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                          void *(*run)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                          void *(*run)(void *), void *argument);
/* The C library's name for it where file offsets are given 64 bits */
int __wrap_open64(const char *path, int flags, ...)
    __attribute__((alias("__wrap_open")));

static unsigned env_number(const char *name, unsigned otherwise)
{
    const char *text = getenv(name);

    return text ? (unsigned)strtoul(text, NULL, 0) : otherwise;
}

/* ---- Frames ------------------------------------------------------------ */

static bool chance(unsigned per_thousand)
{
    fake.random = fake.random * 6364136223846793005ull + 1442695040888963407u;
    return (fake.random >> 33) % 1000 < per_thousand;
}

static void socket_name(struct sockaddr_un *name, uint32_t card)
{
    const char *directory = getenv("UNETMM_FAKE_DIR");

    name->sun_family = AF_UNIX;
    snprintf(name->sun_path, sizeof(name->sun_path), "%.80s/%u",
             directory ? directory : ".", card);
}

/* False: the wire pushes back. */
static bool transmit(uint32_t card, const struct frame *frame)
{
    struct sockaddr_un name;

    socket_name(&name, card);
    if (sendto(fake.socket, frame, FRAME_HEADER + frame->len, MSG_DONTWAIT,
               (struct sockaddr *)&name, sizeof(name)) >= 0) {
        return true;
    }
    return errno != EAGAIN && errno != ENOBUFS;
}

static void transmit_control(uint32_t card, enum frame_type type,
                             uint32_t src_channel, uint32_t dst_channel)
{
    struct frame frame;

    memset(&frame, 0, FRAME_HEADER);
    frame.type = type;
    frame.from = fake.number;
    frame.src_channel = src_channel;
    frame.dst_channel = dst_channel;
    frame.service = fake.service;
    frame.mtu = fake.mtu;
    frame.kind = fake.channels[src_channel % FAKE_CHANNELS].kind;
    /* An answer is to the frame that has come. */
    frame.offset = type == CONNECT ?
        fake.channels[src_channel % FAKE_CHANNELS].attempt : in.offset;
    transmit(card, &frame);
}

static int free_channel(void)
{
    int i;

    for (i = 0; i < FAKE_CHANNELS; i++) {
        if (!fake.channels[i].open) {
            return i;
        }
    }
    return -1;
}

static bool was_accepted(uint64_t attempt)
{
    unsigned i;

    for (i = 0; i < ACCEPTED && fake.accepted[i] != attempt; i++) {
    }
    return i < ACCEPTED;
}

static void on_connect(void)
{
    int i;

    if (!fake.service || in.service != fake.service) {
        return;
    }
    for (i = 0; i < FAKE_CHANNELS; i++) {
        if (fake.channels[i].open && fake.channels[i].card == in.from &&
            fake.channels[i].channel == in.src_channel &&
            fake.channels[i].attempt == in.offset) {
            /* Our answer was late. */
            transmit_control(in.from, CONNECT_ACK, (uint32_t)i,
                             in.src_channel);
            return;
        }
    }
    if (!(in.kind & fake.takes)) {
        transmit_control(in.from, REFUSED, 0, in.src_channel);
        return;
    }
    i = free_channel();
    /* One that comes again, when its channel has ended, opens no other. */
    if (i < 0 || fake.waiting == BACKLOG || was_accepted(in.offset)) {
        return;
    }
    fake.accepted[fake.naccepted++ % ACCEPTED] = in.offset;
    fake.channels[i] = (struct channel) {
        true, in.from, in.src_channel, in.mtu < fake.mtu ? in.mtu : fake.mtu,
        in.kind, false, in.offset
    };
    fake.backlog[fake.waiting++] = (uint32_t)i;
    transmit_control(in.from, CONNECT_ACK, (uint32_t)i, in.src_channel);
    pthread_cond_broadcast(&fake.changed);
}

static void on_user(void)
{
    struct channel *channel = &fake.channels[in.dst_channel % FAKE_CHANNELS];
    bool reliable = channel->kind == UNETMM_LISTEN_RELIABLE;
    int copies = !reliable && chance(fake.loss) ? 0 : 1;

    if (!fake.endpoint || !channel->open || channel->card != in.from ||
        channel->channel != in.src_channel) {
        return;
    }
    for (copies += !reliable && chance(fake.dup); copies; copies--) {
        if (fake_card_deliver(&fake.card, in.dst_channel, in.data, in.len,
                              true)) {
            fake.received++;
        } else {
            fake.dropped++;
        }
    }
}

/* ---- The other side of one-sided operations ----------------------------- */

static struct unetmm_export *find_export(uint64_t id)
{
    return fake_export_find(exports, FAKE_EXPORTS, id);
}

static void complete_now(const struct unetmm_cqe *cqe)
{
    while (!fake_card_complete(&fake.card, cqe)) {
        pthread_mutex_unlock(&fake.lock);
        sched_yield();
        pthread_mutex_lock(&fake.lock);
    }
}

static void on_import(void)
{
    const struct unetmm_export *export = find_export(in.service);

    memset(&answer, 0, FRAME_HEADER);
    answer.type = IMPORT_ACK;
    answer.from = fake.number;
    answer.service = in.service;
    answer.offset = export ? export->length : 0;
    answer.kind = export ? export->rights : 0;
    transmit(in.from, &answer);
}

static void notify(const struct unetmm_export *export)
{
    struct unetmm_cqe cqe = {
        .cookie = export->cookie, .len = in.len, .opcode = UNETMM_CQE_NOTIFY,
        .channel = (uint16_t)in.dst_channel,
    };

    cqe.notify.offset = in.offset;
    cqe.notify.imm = in.imm;
    complete_now(&cqe);
}

/* The peer's card may ask for this: its process has been checked already. */
static void on_operation(void)
{
    const struct unetmm_export *export = find_export(in.service);
    uint32_t bytes = in.type == READ ? in.mtu : in.len;
    uint8_t *at;

    /* It may have ended while the write was on its way. */
    if (!export && in.type == WRITE) {
        return;
    }
    if (!export || in.offset > export->length ||
        bytes > export->length - in.offset) {
        fprintf(stderr, "fake driver: an operation beyond an export\n");
        abort();
    }
    at = (uint8_t *)(uintptr_t)export->addr + in.offset;
    memset(&answer, 0, FRAME_HEADER);
    answer.type = ANSWER;
    answer.from = fake.number;
    answer.len = bytes;
    if (in.type != WRITE) {
        memcpy(answer.data, at, bytes);
    }
    if (in.type == WRITE) {
        memcpy(at, in.data, bytes);
    } else if (in.type == FETCH_ADD) {
        uint64_t old, add;

        memcpy(&old, at, sizeof(old));
        memcpy(&add, in.data, sizeof(add));
        old = unetmm_swap64(unetmm_swap64(old) + unetmm_swap64(add));
        memcpy(at, &old, sizeof(old));
    }
    if (in.type == WRITE && in.notify) {
        notify(export);
    }
    while (in.type != WRITE && !transmit(in.from, &answer)) {
        sched_yield();
    }
}

static void on_answer(void)
{
    unsigned i = first_unanswered++ % FAKE_UNANSWERED;
    struct unetmm_cqe cqe = {
        .cookie = unanswered[i].cookie, .len = in.len,
        .channel = unanswered[i].channel, .opcode = UNETMM_CQE_SENT,
    };

    if (unanswered[i].to) {
        memcpy(unanswered[i].to, in.data, in.len);
    } else {
        memcpy(cqe.data, in.data, sizeof(uint64_t));
        cqe.flags = UNETMM_CQE_F_INLINE;
    }
    if (!unanswered[i].quiet) {
        complete_now(&cqe);
    }
}

/* True if a frame came. */
static bool receive(void)
{
    ssize_t bytes = recv(fake.socket, &in, sizeof(in), MSG_DONTWAIT);
    struct channel *channel;

    if (bytes < (ssize_t)FRAME_HEADER) {
        return false;
    }
    switch ((enum frame_type)in.type) {
    case PROBE:
        transmit_control(in.from, PROBE_ACK, 0, 0);
        break;
    case PROBE_ACK:
        fake.probe_answered = true;
        pthread_cond_broadcast(&fake.changed);
        break;
    case CONNECT:
        on_connect();
        break;
    case CONNECT_ACK:
    case REFUSED:
        channel = &fake.channels[in.dst_channel % FAKE_CHANNELS];
        if (channel->attempt == in.offset) {
            channel->channel = in.src_channel;
            channel->mtu = in.mtu < fake.mtu ? in.mtu : fake.mtu;
            channel->refused = in.type == REFUSED;
            channel->open = true;
            pthread_cond_broadcast(&fake.changed);
        }
        break;
    case USER:
        on_user();
        break;
    case IMPORT:
        on_import();
        break;
    case IMPORT_ACK:
        asked.length = in.offset;
        asked.rights = in.kind;
        asked.known = in.offset;
        break;
    case WRITE:
    case READ:
    case FETCH_ADD:
        on_operation();
        break;
    case ANSWER:
        on_answer();
        break;
    }
    return true;
}

/* True if it is done, and not only under way. */
static bool make_operation(void)
{
    unsigned i = last_unanswered % FAKE_UNANSWERED;

    out.service = imports[message.import % FAKE_IMPORTS].id;
    out.offset = message.offset;
    out.imm = message.imm;
    out.notify = message.notify;
    if (message.opcode == UNETMM_OP_WRITE) {
        out.type = WRITE;
        return true;
    }
    out.type = message.opcode == UNETMM_OP_READ ? READ : FETCH_ADD;
    out.mtu = message.len;
    out.len = out.type == READ ? 0 : message.len;
    unanswered[i].cookie = message.cookie;
    unanswered[i].to = message.to;
    unanswered[i].channel = message.channel;
    unanswered[i].quiet = message.quiet;
    last_unanswered++;
    return false;
}

static void transmit_message(void)
{
    bool done = true;

    const struct channel *channel = &fake.channels[message.channel %
                                                   FAKE_CHANNELS];

    out.type = USER;
    out.from = fake.number;
    out.src_channel = message.channel;
    out.dst_channel = channel->channel;
    out.len = message.len;
    memcpy(out.data, message.data, message.len);
    if (message.opcode != UNETMM_OP_SEND && message.opcode != UNETMM_OP_FENCE) {
        done = make_operation();
    }
    /* A fence sends nothing: the peer has all that was sent before it. */
    while (message.opcode != UNETMM_OP_FENCE && !transmit(channel->card, &out)) {
        /* The peer's socket is full, and perhaps it waits for ours. */
        if (!receive()) {
            sched_yield();
        }
    }
    fake.sent += message.opcode != UNETMM_OP_FENCE;
    while (done && !fake_card_sent(&fake.card, &message)) {
        pthread_mutex_unlock(&fake.lock);
        sched_yield();
        pthread_mutex_lock(&fake.lock);
    }
}

/* The doorbell's effect on the card.  With source ktlb nobody rings it. */
static bool told_to_look(void)
{
    if (fake.source != UNETMM_SOURCE_KTLB) {
        return __atomic_exchange_n(fake.doorbell, 0, __ATOMIC_SEQ_CST);
    }
    if (__atomic_load_n(fake.doorbell, __ATOMIC_SEQ_CST)) {
        fprintf(stderr, "fake driver: a doorbell was rung with ktlb\n");
        abort();
    }
    return __atomic_exchange_n(&fake.posted, 0, __ATOMIC_SEQ_CST);
}

static void *card_thread(void *argument)
{
    struct timespec pause = { .tv_nsec = 20000 };

    (void)argument;
    for (;;) {
        bool busy = false;

        pthread_mutex_lock(&fake.lock);
        if (!fake.running) {
            pthread_mutex_unlock(&fake.lock);
            return NULL;
        }
        if (fake.endpoint && told_to_look()) {
            while (fake_card_take(&fake.card, &message)) {
                transmit_message();
                busy = true;
            }
        }
        busy |= receive();
        pthread_mutex_unlock(&fake.lock);
        if (!busy) {
            nanosleep(&pause, NULL);
        }
    }
}

/* ---- The calls --------------------------------------------------------- */

static int open_device(uint32_t number)
{
    struct sockaddr_un name;

    fake.number = number;
    fake.mtu = env_number("UNETMM_FAKE_MTU", 9000);
    fake.link_ns = sys_now_ns() + env_number("UNETMM_FAKE_LINK_AFTER", 0) * 1000000ull;
    fake.loss = env_number("UNETMM_FAKE_LOSS", 0);
    fake.dup = env_number("UNETMM_FAKE_DUP", 0);
    fake.random = env_number("UNETMM_FAKE_SEED", 1) + number;
    fake.socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    socket_name(&name, number);
    unlink(name.sun_path);
    if (bind(fake.socket, (struct sockaddr *)&name, sizeof(name))) {
        return -1;
    }
    fake.open = fake.running = true;
    if (__real_pthread_create(&fake.thread, NULL, card_thread, NULL)) {
        return refuse(EAGAIN);
    }
    return FAKE_FD;
}

int __wrap_open(const char *path, int flags, ...)
{
    va_list more;
    mode_t mode;

    va_start(more, flags);
    mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
    va_end(more);
    if (!strcmp(path, UNETMM_DEFAULT_DEVICE)) {
        path = "/fake/1";
    }
    if (strncmp(path, "/fake/", 6)) {
        return __real_open(path, flags, mode);
    }
    return fake.open ? refuse(EBUSY) :
        open_device((uint32_t)strtoul(path + 6, NULL, 10));
}

int __wrap_close(int fd)
{
    struct sockaddr_un name;

    if (fd != FAKE_FD) {
        return __real_close(fd);
    }
    pthread_mutex_lock(&fake.lock);
    fake.running = false;
    pthread_mutex_unlock(&fake.lock);
    pthread_join(fake.thread, NULL);
    __real_close(fake.socket);
    socket_name(&name, fake.number);
    unlink(name.sun_path);
    fake.open = false;
    memset(fake.channels, 0, sizeof(fake.channels));
    memset(exports, 0, sizeof(exports));
    memset(imports, 0, sizeof(imports));
    fake.waiting = 0;
    fake.service = 0;
    return 0;
}

static int do_info(struct unetmm_info *info)
{
    if (info->size < sizeof(*info)) {
        return refuse(EINVAL);
    }
    if (info->flags || info->rsvd0 || info->rsvd1) {
        return refuse(EOPNOTSUPP);
    }
    *info = (struct unetmm_info) {
        .size = sizeof(*info),
        .flags = UNETMM_INFO_LINK,
        .mac = { 0x52, 0x54, 0, 0, 0, (uint8_t)fake.number },
        .user_mtu = fake.mtu,
        .version = UNETMM_VERSION_VALUE,
        .caps = UNETMM_CAP_RELIABLE,
        .sources = 1u << UNETMM_SOURCE_TLB | 1u << UNETMM_SOURCE_KTLB |
                   1u << UNETMM_SOURCE_PINNED,
        .policies = 3,
        .endpoints = 2,
        .channels = FAKE_CHANNELS,
        .max_ring_log2 = UNETMM_MAX_RING_LOG2,
        .max_pretranslate = 16,
        .tlb_sets = 1024,
        .tlb_ways = 1,
        .tlb_victims = 16,
        .max_buffer_pages = 64,
        .reliable = FAKE_RELIABLE,
        .max_message = FAKE_MESSAGE,
        .regions = FAKE_EXPORTS,
        .imports = FAKE_IMPORTS,
    };
    return 0;
}

static int do_endpoint(struct unetmm_endpoint *request)
{
    uint32_t policy = request->policy;
    void *doorbell;

    if (fake.endpoint) {
        return refuse(ENOSPC);
    }
    if (policy != UNETMM_POLICY_SKIP && policy != UNETMM_POLICY_DROP &&
        policy != UNETMM_POLICY_BACKUP) {
        return refuse(EINVAL);
    }
    doorbell = new_page();
    if (doorbell == MAP_FAILED) {
        return -1;
    }
    fake_card_init(&fake.card, request->sq_log2, request->fq_log2,
                   request->cq_log2, request->event_fd);
    *request = fake.card.layout;
    request->policy = policy;
    request->queue_map = QUEUE_MAP;
    request->doorbell_map = DOORBELL_MAP;
    fake.doorbell = doorbell;
    fake.endpoint = true;
    return 0;
}

static int do_endpoint_close(const struct unetmm_destroy *request)
{
    if (!fake.endpoint || request->endpoint != fake.card.layout.id) {
        return refuse(ENOENT);
    }
    /* The process may still have the memory mapped: it is one and the same. */
    fake.endpoint = false;
    return 0;
}

/* Sends `type` again and again until `done` or the deadline. */
static bool repeat_until(uint32_t card, enum frame_type type, int channel,
                         uint64_t service, uint64_t deadline, bool *done)
{
    uint64_t own = fake.service;

    *done = false;
    while (!*done && sys_now_ns() < deadline) {
        uint64_t next = sys_now_ns() + REPEAT_NS;
        struct timespec pause = { .tv_nsec = 100000 };

        fake.service = service;
        transmit_control(card, type, (uint32_t)channel, 0);
        fake.service = own;
        while (!*done && sys_now_ns() < next) {
            pthread_mutex_unlock(&fake.lock);
            nanosleep(&pause, NULL);
            pthread_mutex_lock(&fake.lock);
        }
    }
    return *done;
}

/* The driver's checks of a reliable channel's attributes. */
static int check_reliable(bool reliable, uint32_t timeout_us, uint32_t retries,
                          uint32_t not_ready_retries, uint32_t not_ready_us,
                          bool rewind)
{
    if (reliable && fake.source == UNETMM_SOURCE_KTLB) {
        return EOPNOTSUPP;
    }
    if (!reliable) {
        return timeout_us || retries || not_ready_retries || not_ready_us ||
            rewind ? EINVAL : 0;
    }
    return timeout_us > UNETMM_REL_MAX_TIMEOUT_US || retries > 255 ||
        not_ready_retries > 255 || not_ready_us > UNETMM_REL_MAX_TIMEOUT_US ?
        EINVAL : 0;
}

static void tell_channel(struct unetmm_connect *request, uint32_t number)
{
    const struct channel *channel = &fake.channels[number];
    bool reliable = channel->kind == UNETMM_LISTEN_RELIABLE;

    request->channel = number;
    request->mtu = channel->mtu;
    request->peer_endpoint = 1;
    request->flags = reliable ? UNETMM_CONNECT_RELIABLE : 0;
    request->max_message = reliable ? FAKE_MESSAGE : channel->mtu;
}

static int do_connect(struct unetmm_connect *request)
{
    bool reliable = request->flags & UNETMM_CONNECT_RELIABLE;
    int i = free_channel();
    int error = check_reliable(reliable, request->timeout_us, request->retries,
                               request->not_ready_retries,
                               request->not_ready_us,
                               request->flags & UNETMM_CONNECT_REWIND);

    if (error || i < 0) {
        return refuse(error ? error : ENOSPC);
    }
    if (sys_now_ns() < fake.link_ns) {
        return refuse(ENETDOWN);
    }
    fake.channels[i] = (struct channel) {
        .card = request->mac[5], .attempt = sys_now_ns(),
        .kind = reliable ? UNETMM_LISTEN_RELIABLE : UNETMM_LISTEN_DATAGRAM,
    };
    if (!repeat_until(request->mac[5], CONNECT, i, request->service,
                      request->deadline_ns, &fake.channels[i].open)) {
        return refuse(ETIMEDOUT);
    }
    if (fake.channels[i].refused) {
        fake.channels[i].open = false;
        return refuse(EPROTOTYPE);
    }
    tell_channel(request, (uint32_t)i);
    return 0;
}

static int do_listen(const struct unetmm_listen *request)
{
    int error;

    if (request->size < sizeof(*request)) {
        return refuse(EINVAL);
    }
    error = check_reliable(request->flags & UNETMM_LISTEN_RELIABLE,
                           request->timeout_us, request->retries,
                           request->not_ready_retries, request->not_ready_us,
                           request->flags & UNETMM_LISTEN_REWIND);
    if (error) {
        return refuse(error);
    }
    fake.service = request->service;
    fake.announced = request->flags & UNETMM_LISTEN_ANNOUNCE;
    fake.takes = request->flags & ~UNETMM_LISTEN_ANNOUNCE ?
        request->flags & ~UNETMM_LISTEN_ANNOUNCE : UNETMM_LISTEN_DATAGRAM;
    return 0;
}

static int do_accept(struct unetmm_connect *request)
{
    struct timespec pause = { .tv_nsec = 100000 };
    uint32_t number;

    while (!fake.waiting) {
        if (!request->deadline_ns) {
            return refuse(EAGAIN);
        }
        if (sys_now_ns() >= request->deadline_ns) {
            return refuse(ETIMEDOUT);
        }
        pthread_mutex_unlock(&fake.lock);
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&fake.lock);
    }
    number = fake.backlog[0];
    memmove(fake.backlog, fake.backlog + 1,
            --fake.waiting * sizeof(fake.backlog[0]));
    memcpy(request->mac, (uint8_t [6]) { 0x52, 0x54, 0, 0, 0,
               (uint8_t)fake.channels[number].card }, 6);
    tell_channel(request, number);
    return 0;
}

static int do_probe(struct unetmm_probe *request)
{
    if (!repeat_until(request->mac[5], PROBE, 0, 0, request->deadline_ns,
                      &fake.probe_answered)) {
        return refuse(EHOSTUNREACH);
    }
    request->mtu = fake.mtu;
    return 0;
}

/* Its own listener, and one on a card that is far. */
static int do_peers(struct unetmm_peers *request)
{
    const struct unetmm_listener all[] = {
        { .service = 7, .mac = { 0x52, 0x54, 0, 0, 0, 99 }, .endpoint = 3,
          .mtu = 1024, .types = UNETMM_LISTEN_RELIABLE | UNETMM_LISTEN_DATAGRAM,
          .name = "far \"away\"" },
        { .service = fake.announced ? fake.service : 0,
          .mac = { 0x52, 0x54, 0, 0, 0, (uint8_t)fake.number },
          .endpoint = (uint16_t)fake.card.layout.id, .mtu = fake.mtu, .types = fake.takes,
          .name = "here" },
    };
    struct unetmm_listener *to = (void *)(uintptr_t)request->listeners;
    static const uint8_t none[6];
    uint32_t room = request->count, i;

    if (!room || room > UNETMM_MAX_LISTENERS || request->mac[0] & 1) {
        return refuse(EINVAL);
    }
    request->count = 0;
    for (i = 0; i < 2 && request->count < room; i++) {
        if (all[i].service &&
            (!request->service || request->service == all[i].service) &&
            (!memcmp(request->mac, none, 6) ||
             !memcmp(request->mac, all[i].mac, 6))) {
            to[request->count++] = all[i];
        }
    }
    return 0;
}

static int do_counters(struct unetmm_counters *request)
{
    uint64_t *values = (void *)(uintptr_t)request->values;
    uint32_t exist = request->scope == UNETMM_SCOPE_DRIVER ?
        (uint32_t)UNETMM_NUM_DRIVER_COUNTERS : (uint32_t)UNETMM_NUM_COUNTERS;
    uint32_t i;

    if (request->scope == UNETMM_SCOPE_ENDPOINT && request->endpoint != 1) {
        return refuse(ENOENT);
    }
    for (i = 0; i < exist && i < request->count; i++) {
        values[i] = 0;
    }
    if (request->scope != UNETMM_SCOPE_DRIVER && request->count > 3) {
        values[UNETMM_C_tx_frames] = fake.sent + 1;
        values[UNETMM_C_rx_frames] = fake.received;
    }
    request->count = exist;
    return 0;
}

static int do_region(const struct unetmm_region *request)
{
    if (fake.source != UNETMM_SOURCE_PINNED) {
        return refuse(EOPNOTSUPP);
    }
    return request->length ? 0 : refuse(EINVAL);
}

static int do_prefetch(struct unetmm_prefetch *request)
{
    uint64_t left = FAKE_MAPPED_LAST + 1 - request->addr;

    if (fake.source != UNETMM_SOURCE_ODP) {
        return refuse(EOPNOTSUPP);
    }
    if (!request->length) {
        return refuse(EINVAL);
    }
    if (request->addr < FAKE_MAPPED || request->addr > FAKE_MAPPED_LAST) {
        return refuse(EFAULT);
    }
    request->done = request->length < FAKE_AT_ONCE ? request->length :
        FAKE_AT_ONCE;
    request->done = request->done < left ? request->done : left;
    request->done = fake_failures.nothing ? 0 : request->done;
    return 0;
}

/* All that is in the queues now; nothing else is taken before the next call. */
static int do_post(const struct unetmm_post *request)
{
    if (request->size < sizeof(*request)) {
        return refuse(EINVAL);
    }
    if (request->flags || request->rsvd ||
        fake.source != UNETMM_SOURCE_KTLB) {
        return refuse(EOPNOTSUPP);
    }
    if (!fake.endpoint || request->endpoint != fake.card.layout.id) {
        return refuse(ENOENT);
    }
    fake.posted = 1;
    fake.posts++;
    return 0;
}

static int do_channel_close(const struct unetmm_destroy *request)
{
    if (request->id >= FAKE_CHANNELS || !fake.channels[request->id].open) {
        return refuse(ENOENT);
    }
    fake.channels[request->id].open = false;
    return 0;
}

/* ---- Exports and imports ------------------------ */

static int do_export(const struct unetmm_export *request)
{
    if (request->flags & ~(UNETMM_EXPORT_NOTIFY | UNETMM_EXPORT_REDIRECT |
                           UNETMM_EXPORT_KEYED) ||
        fake.source == UNETMM_SOURCE_KTLB) {
        return refuse(EOPNOTSUPP);
    }
    if (!request->length || !request->rights ||
        request->rights & ~UNETMM_RIGHT_ALL) {
        return refuse(EINVAL);
    }
    if (find_export(request->id)) {
        return refuse(EEXIST);
    }
    return fake_export_add(exports, FAKE_EXPORTS, request);
}

static int do_export_key(struct unetmm_export_key *request)
{
    const struct unetmm_export *export = find_export(request->id);

    if (!export || !(export->flags & UNETMM_EXPORT_KEYED)) {
        return refuse(ENOENT);
    }
    request->key = FAKE_KEY + export->id;
    request->base = export->addr;
    return 0;
}

bool fake_held(void)
{
    return moved.held;
}

/* One span of a part, from its second byte on; then it is held. */
static int do_redirect(struct unetmm_redirect *request)
{
    struct unetmm_export *export = find_export(request->id);

    if (!export || (request->what == UNETMM_REDIRECT_BACK &&
                    !moved.to)) {
        return refuse(ENOENT);
    }
    if (!(export->flags & UNETMM_EXPORT_REDIRECT)) {
        return refuse(EOPNOTSUPP);
    }
    if (request->what == UNETMM_REDIRECT_BEGIN) {
        moved.to = request->to;
        moved.length = request->length;
    } else {
        request->to = moved.to;
    }
    request->from = export->addr + request->offset;
    request->count = moved.length > 1;
    request->spans[0].offset = request->offset + 1;
    request->spans[0].length = moved.length - 1;
    moved.held = request->count;
    return 0;
}

static int do_redirect_go(const struct unetmm_redirect_id *request)
{
    if (!find_export(request->id) || !moved.to) {
        return refuse(ENOENT);
    }
    if (request->what == UNETMM_REDIRECT_GO && !moved.held) {
        return refuse(EINVAL);
    }
    moved.held = false;
    if (request->what == UNETMM_REDIRECT_END) {
        moved.to = 0;
    }
    return 0;
}

/* Asks the process at the other end of a channel; without a deadline, too. */
static bool ask_peer(const struct unetmm_import *request,
                     struct unetmm_export *theirs)
{
    uint64_t end = request->deadline_ns ? request->deadline_ns :
        sys_now_ns() + IMPORT_ONCE_NS;

    if (!repeat_until(fake.channels[request->channel].card, IMPORT,
                      (int)request->channel, request->id, end, &asked.known)) {
        return false;
    }
    theirs->length = asked.length;
    theirs->rights = asked.rights;
    return true;
}

static int do_import(struct unetmm_import *request)
{
    const struct unetmm_export *export = find_export(request->id);
    struct unetmm_export theirs = { 0 };
    uint32_t i;

    if (request->channel >= FAKE_CHANNELS ||
        !fake.channels[request->channel].open) {
        return refuse(ENOENT);
    }
    if (fake.channels[request->channel].kind != UNETMM_LISTEN_RELIABLE) {
        return refuse(EPROTOTYPE);
    }
    if (fake.channels[request->channel].card != fake.number) {
        export = ask_peer(request, &theirs) ? &theirs : NULL;
    }
    if (!export || export->flags & UNETMM_EXPORT_KEYED) {
        return refuse(request->deadline_ns ? ETIMEDOUT : EAGAIN);
    }
    if (request->rights & ~export->rights) {
        return refuse(EACCES);
    }
    for (i = 0; i < FAKE_IMPORTS && imports[i].live; i++) {
    }
    if (i == FAKE_IMPORTS) {
        return refuse(ENOSPC);
    }
    imports[i].live = true;
    imports[i].id = request->id;
    request->import = i;
    request->length = export->length;
    request->rights = request->rights ? request->rights : export->rights;
    return 0;
}

static int do_destroy(const struct unetmm_destroy *request)
{
    fake_destroyed = *request;
    switch (request->type) {
    case UNETMM_OBJECT_ENDPOINT: return do_endpoint_close(request);
    case UNETMM_OBJECT_CHANNEL: return do_channel_close(request);
    case UNETMM_OBJECT_EXPORT:
        return fake_export_remove(exports, FAKE_EXPORTS, request->id);
    case UNETMM_OBJECT_IMPORT:
        if (request->id >= FAKE_IMPORTS || !imports[request->id].live) {
            return refuse(ENOENT);
        }
        imports[request->id].live = false;
        return 0;
    default: return refuse(EINVAL);
    }
}

static int dispatch(unsigned long request, void *argument)
{
    switch (request) {
    case UNETMM_IOC_INFO: return do_info(argument);
    case UNETMM_IOC_SPACE:
        fake.source = ((struct unetmm_space *)argument)->source;
        return 0;
    case UNETMM_IOC_ENDPOINT: return do_endpoint(argument);
    case UNETMM_IOC_DESTROY: return do_destroy(argument);
    case UNETMM_IOC_LISTEN: return do_listen(argument);
    case UNETMM_IOC_ACCEPT: return do_accept(argument);
    case UNETMM_IOC_CONNECT: return do_connect(argument);
    case UNETMM_IOC_PROBE: return do_probe(argument);
    case UNETMM_IOC_PEERS: return do_peers(argument);
    case UNETMM_IOC_REGISTER:
    case UNETMM_IOC_DEREGISTER: return do_region(argument);
    case UNETMM_IOC_PREFETCH: return do_prefetch(argument);
    case UNETMM_IOC_COUNTERS: return do_counters(argument);
    case UNETMM_IOC_POST: return do_post(argument);
    case UNETMM_IOC_EXPORT: return do_export(argument);
    case UNETMM_IOC_EXPORT_KEY: return do_export_key(argument);
    case UNETMM_IOC_REDIRECT: return do_redirect(argument);
    case UNETMM_IOC_REDIRECT_GO: return do_redirect_go(argument);
    case UNETMM_IOC_IMPORT: return do_import(argument);
    default: return refuse(ENOTTY);
    }
}

int __wrap_ioctl(int fd, unsigned long request, void *argument)
{
    int ret, state;

    if (fd != FAKE_FD) {
        return __real_ioctl(fd, request, argument);
    }
    if (fake_failures.error && fake_failures.request == request) {
        ret = refuse(fake_failures.error);
        fake_failures.error = 0;
        return ret;
    }
    /* ioctl() is no cancellation point, though this one sleeps. */
    state = sys_cancel_disable();
    pthread_mutex_lock(&fake.lock);
    ret = dispatch(request, argument);
    pthread_mutex_unlock(&fake.lock);
    sys_cancel_restore(state);
    if (fake_failures.change && fake_failures.request == request) {
        fake_failures.change(argument);
        fake_failures.change = NULL;
    }
    return ret;
}

void *__wrap_mmap(void *address, size_t bytes, int protection, int flags,
                  int fd, off_t offset)
{
    bool queues = offset == QUEUE_MAP;
    bool *failure = queues ? &fake_failures.queue_map :
        &fake_failures.doorbell_map;

    if (fd != FAKE_FD) {
        return __real_mmap(address, bytes, protection, flags, fd, offset);
    }
    if (*failure) {
        *failure = false;
        errno = ENOMEM;
        return MAP_FAILED;
    }
    fake.maps++;
    return queues ? fake.card.queues : (void *)fake.doorbell;
}

int __wrap_munmap(void *address, size_t bytes)
{
    /* Only counted: the card's thread may be in it. */
    if (fake.maps && (address == fake.card.queues ||
                      address == (void *)fake.doorbell)) {
        fake.maps--;
        return 0;
    }
    return __real_munmap(address, bytes);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                          void *(*run)(void *), void *argument)
{
    if (fake_failures.thread) {
        fake_failures.thread = false;
        return EAGAIN;
    }
    return __real_pthread_create(thread, attr, run, argument);
}

uint64_t fake_driver_posts(void)
{
    uint64_t posts;

    pthread_mutex_lock(&fake.lock);
    posts = fake.posts;
    pthread_mutex_unlock(&fake.lock);
    return posts;
}

uint64_t fake_driver_sent(void)
{
    uint64_t sent;

    pthread_mutex_lock(&fake.lock);
    sent = fake.sent;
    pthread_mutex_unlock(&fake.lock);
    return sent;
}

unsigned fake_driver_waiting(void)
{
    unsigned waiting;

    pthread_mutex_lock(&fake.lock);
    waiting = fake.waiting;
    pthread_mutex_unlock(&fake.lock);
    return waiting;
}

int fake_driver_leaks(void)
{
    return fake.open + fake.endpoint + fake.maps;
}
