/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The server of unetmm-block.
 *
 * One thread.  A request waits until a chunk is free; then it is the chunk's job:
 *
 *   READ    file -> chunk, WRITE to the client        .. its completion: reply
 *   WRITE   READ from the client                      .. its completion:
 *           chunk -> file, reply
 *
 * A job belongs to the session that asked for it: if that has gone, the data of its
 * operation is dropped, and the chunk is free.  A session has few requests at a
 * time, so one that does not answer cannot fill the send queue for others; one that
 * has more, or sends an invalid request, is ended.
 */
#include "block.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define REPLY_COOKIE    0x100000000ull  /* and the channel, and its session */
#define MOST_WAITING    (BLOCK_SESSIONS * BLOCK_DEPTH * 2)
#define NOT_READY       200             /* refusals in a row: some two seconds */
#define ACCEPT_NS       ((int64_t)NS_PER_S)
#define COMPLETIONS     4096u
#define BATCH           16u

struct session {
    bool open;                          /* HELLO has come */
    bool ending;                        /* we have ended its channel: CLOSED is to come */
    uint32_t generation;
    uint32_t outstanding;               /* requests, replies on their way */
    uint64_t key;                       /* of the client's export */
    uint64_t heard_ns;                  /* its last request */
};

struct job {
    int channel;
    uint32_t generation;
    struct block_request request;
};

struct server {
    const struct block_options *opt;
    struct unetmm_ctx *ctx;
    struct unetmm_ep *ep;
    struct block_buffer buffer;
    struct session *sessions;           /* by channel */
    unsigned channels;
    struct job *jobs;                   /* by chunk */
    struct job waiting[MOST_WAITING];
    unsigned first, used;               /* of those */
    unsigned open, greeted;             /* sessions: now, ever */
    uint32_t accepted, ended;           /* channels */
    struct unetmm_completion taken[BATCH];
    unsigned taken_first, taken_end;
    int file;
    uint64_t file_bytes, served;
};

/* ---- The file ------------------------------------------------------------ */

static void open_file(struct server *s)
{
    struct stat st;

    s->file = open(s->opt->file, O_RDWR | O_CLOEXEC);
    if (s->file < 0 || fstat(s->file, &st)) {
        fail("%s cannot be opened: %s", s->opt->file, strerror(errno));
    }
    if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode)) {
        fail("%s is neither a file nor a disk", s->opt->file);
    }
    s->file_bytes = (uint64_t)st.st_size;
    if (S_ISBLK(st.st_mode) &&
        ioctl(s->file, BLKGETSIZE64, &s->file_bytes)) {
        fail("cannot find the size of %s: %s", s->opt->file,
             strerror(errno));
    }
    /* Reading ahead helps nobody whose requests are random. */
    posix_fadvise(s->file, 0, 0, POSIX_FADV_RANDOM);
}

/* 0, or an errno. */
static uint32_t move_file(const struct server *s, const struct job *job,
                          uint8_t *chunk)
{
    size_t done = 0, length = job->request.length;
    bool reads = job->request.op == BLOCK_READ;

    while (done < length) {
        off_t at = (off_t)(job->request.offset + done);
        ssize_t n = reads ? pread(s->file, chunk + done, length - done, at) :
                            pwrite(s->file, chunk + done, length - done, at);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return n ? (uint32_t)errno : EIO;
        }
        done += (size_t)n;
    }
    return 0;
}

/* ---- Sessions ------------------------------------------------------------ */

static struct session *job_session(struct server *s, const struct job *job)
{
    struct session *session = &s->sessions[job->channel];

    return session->open && session->generation == job->generation ?
        session : NULL;
}

/* Forgets the requests of a session that has ended: they would keep their places. */
static void forget_waiting(struct server *s, int channel)
{
    unsigned i, kept = 0;

    for (i = 0; i < s->used; i++) {
        struct job job = s->waiting[(s->first + i) % MOST_WAITING];

        if (job.channel != channel) {
            s->waiting[(s->first + kept++) % MOST_WAITING] = job;
        }
    }
    s->used = kept;
}

/* The channel has ended, or must: `closed` if its CLOSED, its last message, has come. */
static void session_end(struct server *s, int channel, bool closed)
{
    struct session *session = &s->sessions[channel];

    s->open -= session->open;
    session->open = false;
    session->ending = !closed;
    session->generation++;
    session->outstanding = 0;
    forget_waiting(s, channel);
    unetmm_disconnect(s->ep, channel);
    s->ended++;
}

static void reply(struct server *s, int channel,
                  const struct block_request *request, uint32_t error,
                  const uint64_t *value)
{
    struct session *session = &s->sessions[channel];
    struct block_reply r = {
        .op = block_le32(request->op | BLOCK_REPLY),
        .error = block_le32(error),
        .tag = request->tag,
    };
    unsigned i;
    int ret;

    for (i = 0; value && i < 3; i++) {
        r.value[i] = block_le64(value[i]);
    }
    ret = unetmm_send(s->ep, channel, &r, sizeof(r), REPLY_COOKIE | (unsigned)channel |
                      (uint64_t)(session->generation & 0xffff) << 16,
                      UNETMM_INLINE);
    /* The queue has room for all that sessions may have under way. */
    if (ret) {
        session_end(s, channel, false);
    }
}

/*
 * The client's card, not its driver, checks the key, with each operation: an import would
 * make this thread wait for the driver's answer.
 */
static void hello(struct server *s, int channel,
                  const struct block_request *request)
{
    struct session *session = &s->sessions[channel];
    const uint64_t value[3] = { s->file_bytes, s->buffer.chunk };

    session->key = request->remote;
    session->open = true;
    s->open++;
    s->greeted++;
    reply(s, channel, request, 0, value);
}

static void status(struct server *s, int channel,
                   const struct block_request *request)
{
    const uint64_t value[3] = {
        [STATUS_BUFFER] = s->buffer.bytes,
        [STATUS_RESIDENT] = buffer_resident(&s->buffer),
        [STATUS_SERVED] = s->served,
    };

    reply(s, channel, request, 0, value);
}

/* ---- Jobs ---------------------------------------------------------------- */

static void job_end(struct server *s, unsigned chunk, uint32_t error)
{
    struct job *job = &s->jobs[chunk];

    if (job_session(s, job)) {
        s->served += !error;
        reply(s, job->channel, &job->request, error, NULL);
    }
    buffer_give(&s->buffer, chunk);
}

/* The operation of a job; its completion has the result. */
static void job_move(struct server *s, unsigned chunk)
{
    struct job *job = &s->jobs[chunk];
    const struct block_request *r = &job->request;
    const struct session *session = &s->sessions[job->channel];
    uint8_t *at = buffer_at(&s->buffer, chunk);
    int ret;

    if (r->op == BLOCK_READ) {
        ret = unetmm_write_key(s->ep, job->channel, session->key, r->remote, at,
                               r->length, 0, chunk, 0);
    } else {
        ret = unetmm_read_key(s->ep, job->channel, session->key, r->remote, at,
                              r->length, chunk, 0);
    }
    if (ret) {
        job_end(s, chunk, (uint32_t)-ret);
    }
}

static void job_start(struct server *s, unsigned chunk, const struct job *job)
{
    uint32_t error = 0;

    s->jobs[chunk] = *job;
    if (!job_session(s, job)) {
        buffer_give(&s->buffer, chunk);
        return;
    }
    if (job->request.op == BLOCK_READ) {
        error = move_file(s, job, buffer_at(&s->buffer, chunk));
    }
    if (error) {
        job_end(s, chunk, error);
    } else {
        job_move(s, chunk);
    }
}

static void start_waiting(struct server *s)
{
    int chunk;

    while (s->used && (chunk = buffer_take(&s->buffer)) >= 0) {
        struct job job = s->waiting[s->first];

        s->first = (s->first + 1) % MOST_WAITING;
        s->used--;
        job_start(s, (unsigned)chunk, &job);
    }
}

static void job_moved(struct server *s, unsigned chunk, uint8_t st)
{
    struct job *job = &s->jobs[chunk];
    uint32_t error = st ? EREMOTEIO : 0;

    if (!st && job->request.op == BLOCK_WRITE && job_session(s, job)) {
        error = move_file(s, job, buffer_at(&s->buffer, chunk));
    }
    job_end(s, chunk, error);
}

/* Can it be done at all?  The place in the client is the card's to check. */
static uint32_t check_request(const struct server *s,
                              const struct block_request *r)
{
    if (!r->length || r->length > s->buffer.chunk ||
        r->length % BLOCK_UNIT || r->offset % BLOCK_UNIT) {
        return EINVAL;
    }
    return r->offset > s->file_bytes ||
           r->length > s->file_bytes - r->offset ? ENOSPC : 0;
}

static void want(struct server *s, int channel,
                 const struct block_request *request)
{
    uint32_t error = check_request(s, request);

    if (error) {
        reply(s, channel, request, error, NULL);
        return;
    }
    /* There are no more sessions, nor requests of one, than have room. */
    s->waiting[(s->first + s->used) % MOST_WAITING] = (struct job) {
        channel, s->sessions[channel].generation, *request
    };
    s->used++;
    start_waiting(s);
}

/* ---- Completions --------------------------------------------------------- */

/*
 * True: there is room for one more session.  One that has asked for nothing within the
 * timeout makes room.
 */
static bool has_room(struct server *s)
{
    struct session *idle = NULL;

    if (s->open < BLOCK_SESSIONS) {
        return true;
    }
    for (unsigned i = 0; i < s->channels; i++) {
        struct session *session = &s->sessions[i];

        if (session->open && !session->outstanding &&
            (!idle || session->heard_ns < idle->heard_ns)) {
            idle = session;
        }
    }
    if (!idle || now_ns() - idle->heard_ns < (uint64_t)s->opt->timeout_ns) {
        return false;
    }
    session_end(s, (int)(idle - s->sessions), false);
    return true;
}

static void on_request(struct server *s, const struct unetmm_completion *c)
{
    struct session *session = &s->sessions[c->channel];
    struct block_request r;

    memcpy(&r, c->data, sizeof(r));
    r.op = block_le32(r.op);
    r.length = block_le32(r.length);
    r.offset = block_le64(r.offset);
    r.remote = block_le64(r.remote);
    if (!c->is_inline || c->len != sizeof(r) ||
        session->outstanding >= 2 * BLOCK_DEPTH ||
        r.op < BLOCK_HELLO || r.op > BLOCK_STATUS ||
        session->open == (r.op == BLOCK_HELLO) ||
        (r.op == BLOCK_HELLO && !has_room(s))) {
        session_end(s, c->channel, false);
        return;
    }
    session->heard_ns = now_ns();
    session->outstanding++;
    if (r.op == BLOCK_HELLO) {
        hello(s, c->channel, &r);
    } else if (r.op == BLOCK_STATUS) {
        status(s, c->channel, &r);
    } else {
        want(s, c->channel, &r);
    }
}

static void on_sent(struct server *s, const struct unetmm_completion *c)
{
    int channel = (int)(c->user_data & 0xffff);
    struct session *session = &s->sessions[channel];

    if (!(c->user_data & REPLY_COOKIE)) {
        job_moved(s, (unsigned)c->user_data, c->status);
        start_waiting(s);
    } else if ((c->user_data >> 16 & 0xffff) == (session->generation & 0xffff)) {
        session->outstanding--;
    }
}

static bool accept_one(struct server *s)
{
    struct unetmm_peer peer;

    if (unetmm_accept(s->ep, &peer, 0) < 0) {
        return false;
    }
    s->accepted++;
    return true;
}

/*
 * A message may come before we have accepted its channel, or after we have ended it:
 * false.
 */
static bool accepted(struct server *s, int channel)
{
    while (unetmm_channel_mtu(s->ep, channel) < 0) {
        if (!accept_one(s)) {
            return false;
        }
    }
    return true;
}

static void on_completion(struct server *s, const struct unetmm_completion *c)
{
    struct session *session;

    if (c->channel >= s->channels) {
        return;
    }
    session = &s->sessions[c->channel];
    switch (c->type) {
    case UNETMM_CQE_RECEIVED:
        if (!session->ending && accepted(s, c->channel)) {
            on_request(s, c);
        }
        break;
    case UNETMM_CQE_SENT:
        on_sent(s, c);
        break;
    case UNETMM_CQE_CLOSED:
        if (!session->ending && accepted(s, c->channel)) {
            session_end(s, c->channel, true);
        }
        /* The number is the next caller's from here on. */
        session->ending = false;
        break;
    default:
        break;
    }
}

/* ---- From the first session to the last ---------------------------------- */

static void start(struct server *s)
{
    struct unetmm_channel_attr attr = UNETMM_CHANNEL_ATTR_INIT;
    struct unetmm_ep_attr ep = UNETMM_EP_ATTR_INIT;
    struct unetmm_info info = { .size = sizeof(info) };
    int ret;

    ret = unetmm_open(s->opt->device, s->opt->source, &s->ctx);
    if (ret) {
        fail_call(ret, UNETMM_CALL_OPEN, "cannot open the card");
    }
    ret = unetmm_info(s->ctx, &info);
    if (ret) {
        fail_call(ret, UNETMM_CALL_ANY, "cannot read the card's properties");
    }
    s->channels = info.channels;
    s->sessions = calloc(s->channels, sizeof(*s->sessions));
    buffer_make(&s->buffer, s->ctx, s->opt);
    s->jobs = calloc(s->buffer.chunks, sizeof(*s->jobs));
    if (!s->sessions || !s->jobs) {
        fail("no memory for %u channels and %u chunks", s->channels,
             s->buffer.chunks);
    }
    ep.send_slots = 4096;
    ep.completion_depth = COMPLETIONS;
    ep.policy = UNETMM_POLICY_DROP;
    ret = unetmm_ep_create(s->ctx, &ep, &s->ep);
    if (ret) {
        fail_call(ret, UNETMM_CALL_EP_CREATE, "cannot create an endpoint");
    }
    attr.flags |= UNETMM_NOTIFY_CLOSE | UNETMM_ANNOUNCE;
    /* Else whose memory never comes would keep its chunks. */
    attr.rnr_retries = NOT_READY;
    ret = unetmm_listen_ex(s->ep, s->opt->service, 16, &attr);
    if (ret) {
        fail_call(ret, UNETMM_CALL_LISTEN, "cannot listen");
    }
}

static bool done(const struct server *s)
{
    return !s->opt->forever && s->greeted && !s->open &&
        s->ended == s->accepted;
}

/* 1, or as unetmm_wait() */
static int next_completion(struct server *s, struct unetmm_completion *c)
{
    int n;

    if (s->taken_first == s->taken_end) {
        n = unetmm_wait(s->ep, s->taken, BATCH, ACCEPT_NS);
        if (n <= 0) {
            return n;
        }
        s->taken_first = 0;
        s->taken_end = (unsigned)n;
    }
    *c = s->taken[s->taken_first++];
    return 1;
}

/* Takes messages; accepts connected but silent clients now and then. */
static void serve(struct server *s)
{
    uint64_t heard_ns = now_ns();
    struct unetmm_completion c;
    int n;

    while (!done(s)) {
        n = next_completion(s, &c);
        if (n < 0 && n != -EINTR) {
            fail_call(n, UNETMM_CALL_POLL, "the card has stopped");
        }
        if (n > 0) {
            on_completion(s, &c);
            heard_ns = now_ns();
            continue;
        }
        while (accept_one(s)) {
        }
        if (!s->opt->forever &&
            now_ns() - heard_ns >= (uint64_t)s->opt->timeout_ns) {
            fail("no request came within the timeout");
        }
    }
}

int block_serve(const struct block_options *opt)
{
    static struct server s;

    memset(&s, 0, sizeof(s));
    s.opt = opt;
    open_file(&s);
    start(&s);
    if (!opt->json) {
        printf("%s: %llu bytes, %u chunks of %u bytes, source %s\n", opt->file,
               (unsigned long long)s.file_bytes, s.buffer.chunks,
               s.buffer.chunk, source_name(opt->source));
        fflush(stdout);
    }
    serve(&s);
    if (!opt->json) {
        printf("%llu requests of %u sessions\n", (unsigned long long)s.served,
               s.greeted);
    }
    unetmm_ep_destroy(s.ep);
    buffer_free(&s.buffer, s.ctx, opt);
    unetmm_close(s.ctx);
    close(s.file);
    free(s.sessions);
    free(s.jobs);
    return EXIT_SUCCESS;
}
