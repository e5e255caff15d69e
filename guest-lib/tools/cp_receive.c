/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The receiving side of unetmm-cp: a thread for each sender.
 *
 * A sender's struct is its thread's from sender_begin() until it has set `ended`, but
 * for `used` and `mac`, which are the main thread's, as is the listener.
 */
#include "cp.h"
#include "cp_file.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

/* At a time, of all cards and of one */
#define MOST_SENDERS    16u
#define MOST_OF_ONE     8u

/* ---- Files -------------------------------------------------------------- */

static bool answer(const struct transfer *t, enum answer what)
{
    uint64_t word = unetmm_swap64(what);

    return transfer_put(t, &word, sizeof(word));
}

static bool decline(const struct transfer *t, enum answer what, int error)
{
    complain("%s: %s", t->name, what == ANSWER_NAME ?
             "this receiver does not take files of that name" :
             what == ANSWER_SUM ? "it differs from the sent file" : strerror(-error));
    answer(t, what);
    return false;
}

/* False: said why not. */
static bool take_all(const struct transfer *t, void *bytes, size_t length)
{
    int got = transfer_take(t, bytes, length, false);

    return got > 0 || (!got && transfer_lost(t, 0));
}

/* 0, -errno of the file, or -EPIPE: said why the stream has no more of it. */
static int receive_bytes(struct transfer *t, struct cp_file *file)
{
    int stored = 0;
    uint64_t length;

    do {
        if (!take_all(t, &length, sizeof(length))) {
            return -EPIPE;
        }
        length = unetmm_swap64(length);
        if (length > CP_PIECE) {
            complain("%s: the peer is not a sending unetmm-cp", t->name);
            return -EPIPE;
        }
        if (!take_all(t, t->buffer, length)) {
            return -EPIPE;
        }
        /* The sender hears of it when it listens: after the last byte. */
        stored = stored ? stored : cp_file_write(file, t->buffer, length);
        transfer_add(t, length);
    } while (length == CP_PIECE);
    return stored;
}

static bool receive_into(struct transfer *t, struct cp_file *file,
                         const char *name, mode_t mode)
{
    int ret = receive_bytes(t, file);
    uint64_t sum;

    if (ret == -EPIPE || !take_all(t, &sum, sizeof(sum))) {
        return false;
    }
    if (!ret && unetmm_swap64(sum) != XXH64_digest(t->sum)) {
        return decline(t, ANSWER_SUM, 0);
    }
    ret = ret ? ret : cp_file_finish(file, name, mode, t->opt->replace);
    if (ret) {
        return decline(t, ret == -EEXIST ? ANSWER_EXISTS : ANSWER_STORE, ret);
    }
    return answer(t, ANSWER_DONE);
}

/* False: the sender is not to go on. */
static bool receive_in(struct transfer *t, int directory,
                       const struct header *header, const char *name)
{
    struct cp_file file;
    struct stat stat;
    bool good;
    int ret;

    if (!t->opt->replace &&
        !fstatat(directory, name, &stat, AT_SYMLINK_NOFOLLOW)) {
        return decline(t, ANSWER_EXISTS, -EEXIST);
    }
    ret = cp_file_create(&file, directory);
    if (ret) {
        return decline(t, ANSWER_STORE, ret);
    }
    good = answer(t, ANSWER_GO) &&
        receive_into(t, &file, name, unetmm_swap32(header->mode) & 0777);
    cp_file_drop(&file);
    if (good) {
        transfer_end(t);
    }
    return good;
}

/* The same; `path` is the sender's and not checked yet. */
static bool receive_file(struct transfer *t, int directory,
                         const struct header *header, const char *path)
{
    const char *name;
    bool good;
    int at;

    transfer_begin(t, "the sender's file", unetmm_swap64(header->length));
    if (!cp_path_good(path, unetmm_swap32(header->name_length))) {
        return decline(t, ANSWER_NAME, 0);
    }
    t->name = path;
    at = cp_path_open(directory, path, &name);
    if (at < 0) {
        return decline(t, ANSWER_STORE, at);
    }
    good = receive_in(t, at, header, name);
    close(at);
    return good;
}

/* ---- Senders ----------------------------------------------------------- */

/* One sender, and the thread that takes its files */
struct sender {
    struct receiver *receiver;
    struct transfer t;
    pthread_t thread;
    uint8_t mac[6];
    bool used;                  /* by the main thread alone */
    bool refused;               /* one too many of its card */
    bool known;                 /* it speaks our protocol */
    bool good;
    atomic_bool ended;
};

struct receiver {
    const struct cp_options *opt;
    struct unetmm_stream_listener *listener;
    int directory;
    int ended_fd;               /* an eventfd: a thread has ended */
    unsigned used;
    struct sender senders[MOST_SENDERS];
};

/* All files of one sender. */
static bool receive_files(struct sender *sender)
{
    const int directory = sender->receiver->directory;
    struct transfer *t = &sender->t;
    char name[CP_PATH_MOST + 1];
    struct header header;
    uint32_t length;
    bool good = true;
    int got;

    while (good) {
        t->name = NULL;
        got = transfer_take(t, &header, sizeof(header), false);
        if (got <= 0) {
            return !got;
        }
        length = unetmm_swap32(header.name_length);
        if (unetmm_swap64(header.magic) != CP_MAGIC || length > CP_PATH_MOST) {
            complain("the peer is not a sending unetmm-cp");
            return false;
        }
        sender->known = true;
        if (!take_all(t, name, length)) {
            return false;
        }
        name[length] = '\0';
        good = receive_file(t, directory, &header, name);
    }
    return good;
}

static void *sender_run(void *argument)
{
    const uint64_t one = 1;
    struct sender *sender = argument;
    char words[UNETMM_MAC_CHARS];

    if (sender->refused) {
        complain("%s has %u transfers under way: no more are taken from there",
                 unetmm_format_mac(sender->mac, words), MOST_OF_ONE);
    } else {
        sender->good = receive_files(sender);
    }
    /* This may wait for the peer. */
    unetmm_stream_close(sender->t.stream);
    transfer_free(&sender->t);
    atomic_store(&sender->ended, true);
    if (write(sender->receiver->ended_fd, &one, sizeof(one)) < 0) {
        fail("a thread cannot say that it has ended: %s", strerror(errno));
    }
    return NULL;
}

/* There is a place for it. */
static void sender_begin(struct receiver *r, struct unetmm_stream *stream)
{
    struct sender *sender = NULL;
    unsigned i, same = 0;
    uint8_t mac[6] = { 0 };

    unetmm_stream_peer(stream, mac);
    for (i = 0; i < MOST_SENDERS; i++) {
        if (!r->senders[i].used) {
            sender = &r->senders[i];
        } else {
            same += !memcmp(r->senders[i].mac, mac, 6);
        }
    }
    *sender = (struct sender) {
        .receiver = r, .used = true, .refused = same >= MOST_OF_ONE,
    };
    memcpy(sender->mac, mac, 6);
    transfer_make(&sender->t, r->opt);
    sender->t.stream = stream;
    if (pthread_create(&sender->thread, NULL, sender_run, sender)) {
        fail("there can be no more threads");
    }
    r->used++;
}

/* The senders that have ended.  True: it is over, and `good` says how. */
static bool reap(struct receiver *r, bool *good)
{
    uint64_t number;
    bool over = false;
    unsigned i;

    if (read(r->ended_fd, &number, sizeof(number)) < 0) {
        return false;           /* EAGAIN: none */
    }
    for (i = 0; i < MOST_SENDERS; i++) {
        struct sender *sender = &r->senders[i];

        if (sender->used && atomic_load(&sender->ended)) {
            pthread_join(sender->thread, NULL);
            sender->used = false;
            r->used--;
            *good = sender->known || !over ? sender->good : *good;
            over = over || sender->known || !r->used;
        }
    }
    return over && !r->opt->forever;
}

/* False: nobody can come any more. */
static bool accept_sender(struct receiver *r)
{
    struct unetmm_stream *stream;
    int ret = unetmm_stream_accept(r->listener, 0, &stream);

    if (!ret) {
        sender_begin(r, stream);
    } else if (ret != -ETIMEDOUT && ret != -EINTR) {
        complain("a sender could not be accepted: %s", unetmm_stream_strerror(ret));
        return r->used || (ret == -ECONNRESET && r->opt->forever);
    }
    return true;
}

/*
 * A thread takes the files of each sender, so that one that is slow or says nothing
 * keeps nobody out.
 */
static bool serve(struct receiver *r)
{
    struct pollfd fds[] = {
        { .fd = r->ended_fd, .events = POLLIN }, { .events = POLLIN | POLLPRI },
    };
    bool good = false, over = false;

    while (!over) {
        int fd = r->used < MOST_SENDERS ? unetmm_stream_listener_fd(r->listener) : -1;

        /* A sender that ends gives back the resources that one more needs. */
        if (fd < 0 && !r->used) {
            fail_call(fd, UNETMM_CALL_LISTEN, "cannot listen");
        }
        fds[1].fd = fd;
        if (poll(fds, 2, -1) < 0 && errno != EINTR) {
            fail("cannot wait for a sender: %s", strerror(errno));
        }
        over = reap(r, &good);
        if (!over && fd >= 0 && !accept_sender(r)) {
            return false;
        }
    }
    return good;
}

bool cp_receive(const struct cp_options *opt)
{
    static struct receiver r;
    struct unetmm_stream_attr attr;
    struct unetmm_ctx *ctx;
    bool good;
    int ret;

    r = (struct receiver) {
        .opt = opt,
        .directory = open(opt->directory, O_DIRECTORY | O_RDONLY | O_CLOEXEC),
        .ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
    };
    if (r.directory < 0) {
        fail("%s: %s", opt->directory, strerror(errno));
    }
    if (r.ended_fd < 0) {
        fail("cannot make a descriptor: %s", strerror(errno));
    }
    cp_file_init();
    ctx = cp_open(opt, &attr);
    ret = unetmm_stream_listen(ctx, opt->service, &attr, &r.listener);
    if (ret) {
        fail_call(ret, UNETMM_CALL_LISTEN, "cannot listen");
    }
    good = serve(&r);
    if (r.used) {
        /* Threads use all that would be closed now. */
        fflush(stdout);
        _exit(good ? EXIT_SUCCESS : EXIT_FAILURE);
    }
    unetmm_stream_listener_close(r.listener);
    unetmm_close(ctx);
    close(r.directory);
    close(r.ended_fd);
    return good;
}
