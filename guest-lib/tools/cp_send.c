/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The sending side of unetmm-cp.
 */
#include "cp.h"
#include "cp_file.h"

#include <fcntl.h>
#include <fts.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static bool refused(const struct transfer *t, uint64_t answer)
{
    complain("%s: the receiver %s", t->name,
             answer == ANSWER_NAME ? "does not take files of that name" :
             answer == ANSWER_EXISTS ? "has a file of that name: start it "
                                       "with --replace to overwrite it" :
             answer == ANSWER_STORE ? "could not store the file" :
             answer == ANSWER_SUM ? "received wrong bytes; try again" :
             "sends an invalid answer");
    return false;
}

static bool take_answer(const struct transfer *t, enum answer wanted)
{
    uint64_t answer;
    /* A receiver says nothing while its disk takes the file. */
    int got = transfer_take(t, &answer, sizeof(answer), wanted == ANSWER_DONE);

    if (got <= 0) {
        return got < 0 ? false : transfer_lost(t, 0);
    }
    answer = unetmm_swap64(answer);
    return answer == wanted || refused(t, answer);
}

/* As much as the buffer holds, or as there is. */
static ssize_t read_some(int fd, uint8_t *to, size_t length)
{
    size_t done = 0;

    while (done < length) {
        ssize_t n = read(fd, to + done, length - done);

        if (n < 0 && errno != EINTR) {
            return -errno;
        }
        if (!n) {
            break;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    return (ssize_t)done;
}

/* To the end that the file has, whatever its size says: that of a file of /proc is 0. */
static bool send_bytes(struct transfer *t, int fd)
{
    ssize_t n;

    do {
        uint64_t length;

        n = read_some(fd, t->buffer, CP_PIECE);
        if (n < 0) {
            complain("%s: %s", t->name, n == -EAGAIN ?
                     "it has no end" : strerror((int)-n));
            return false;
        }
        length = unetmm_swap64((uint64_t)n);
        if (!transfer_put(t, &length, sizeof(length)) ||
            !transfer_put(t, t->buffer, (size_t)n)) {
            return false;
        }
        transfer_add(t, (size_t)n);
    } while (n == (ssize_t)CP_PIECE);
    return true;
}

/* Bytes that the file had at the beginning may be missing. */
static bool became_shorter(const struct transfer *t, int fd)
{
    struct stat now;

    if (!fstat(fd, &now) && (uint64_t)now.st_size >= t->length) {
        return false;
    }
    complain("%s: the file became shorter during the transfer", t->name);
    return true;
}

static bool send_open_file(struct transfer *t, int fd, const struct stat *stat)
{
    size_t name_length = strlen(t->name);
    struct header header = {
        .magic = unetmm_swap64(CP_MAGIC),
        .length = unetmm_swap64((uint64_t)stat->st_size),
        .name_length = unetmm_swap32((uint32_t)name_length),
        .mode = unetmm_swap32(stat->st_mode & 0777),
    };
    uint64_t sum;

    if (!transfer_put(t, &header, sizeof(header)) || !transfer_put(t, t->name, name_length) ||
        !take_answer(t, ANSWER_GO) || !send_bytes(t, fd) || became_shorter(t, fd)) {
        return false;
    }
    sum = unetmm_swap64(XXH64_digest(t->sum));
    return transfer_put(t, &sum, sizeof(sum)) && take_answer(t, ANSWER_DONE);
}

static const char *why_no_file(const struct stat *st)
{
    return S_ISREG(st->st_mode) ? NULL : S_ISDIR(st->st_mode) ?
        "a directory: use -r to copy all files in it" :
        "not a file that can be copied";
}

/*
 * Opens a file and nothing else: a FIFO would make the caller wait, and a device may act
 * when it is opened.  -1: said why not.
 */
static int open_file(const char *path, struct stat *st)
{
    const char *why = stat(path, st) ? strerror(errno) : why_no_file(st);
    int fd = -1;

    if (!why) {
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        /* Something else may have that name now. */
        why = fd < 0 || fstat(fd, st) ? strerror(errno) : why_no_file(st);
    }
    if (!why) {
        return fd;
    }
    complain("%s: %s", path, why);
    if (fd >= 0) {
        close(fd);
    }
    return -1;
}

/* Sends the file `path`; `name` is relative to the receiver's directory. */
static bool send_file(struct transfer *t, const char *path, const char *name)
{
    struct stat st;
    bool good;
    int fd = open_file(path, &st);

    if (fd < 0) {
        return false;
    }
    transfer_begin(t, name, (uint64_t)st.st_size);
    good = send_open_file(t, fd, &st);
    close(fd);
    if (good) {
        transfer_end(t);
    }
    return good;
}

/* False: the name would be too long. */
static bool target_name(const struct cp_options *opt, const char *name,
                        char target[CP_PATH_MOST + 1])
{
    int length;

    if (opt->path && !opt->is_directory) {
        length = snprintf(target, CP_PATH_MOST + 1, "%s", opt->path);
    } else {
        length = snprintf(target, CP_PATH_MOST + 1, "%s%s%s",
                          opt->path ? opt->path : "", opt->path ? "/" : "", name);
    }
    return length >= 0 && (unsigned)length <= CP_PATH_MOST;
}

static bool send_entry(struct transfer *t, const FTSENT *entry, size_t base)
{
    char target[CP_PATH_MOST + 1];

    switch (entry->fts_info) {
    case FTS_D:
    case FTS_DP:
        return true;
    case FTS_F:
        if (target_name(t->opt, entry->fts_path + base, target) &&
            cp_path_good(target, strlen(target))) {
            return send_file(t, entry->fts_path, target);
        }
        complain("%s: skipped: the receiver does not take files of that name",
                 entry->fts_path);
        break;
    case FTS_DNR:
    case FTS_ERR:
    case FTS_NS:
        complain("%s: %s", entry->fts_path, strerror(entry->fts_errno));
        break;
    default:
        complain("%s: skipped: neither a file nor a directory", entry->fts_path);
        break;
    }
    t->skipped = true;
    return true;
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* The place in `path` from which the names of copies begin. */
static size_t tree_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;

    /* Of "/", "." and ".." the receiver gets the entries. */
    if (!*name) {
        return strlen(path);
    }
    return name[strspn(name, ".")] ? (size_t)(name - path) : strlen(path) + 1;
}

/* A file, or a directory with all files in it; symbolic links are not followed. */
static bool send_tree(struct transfer *t, char *path)
{
    char *const paths[] = { path, NULL };
    size_t length = strlen(path);
    bool good = true;
    FTSENT *entry;
    FTS *tree;

    while (length > 1 && path[length - 1] == '/') {
        path[--length] = '\0';
    }
    tree = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, by_name);
    if (!tree) {
        complain("%s: %s", path, strerror(errno));
        return false;
    }
    while (good && (entry = fts_read(tree))) {
        good = send_entry(t, entry, tree_base(path));
    }
    fts_close(tree);
    return good;
}

/* The name of a file that is named in the command line; false: said why not. */
static bool name_of(const struct cp_options *opt, const char *path,
                    char target[CP_PATH_MOST + 1])
{
    const char *slash = strrchr(path, '/');

    if (target_name(opt, slash ? slash + 1 : path, target) &&
        cp_path_good(target, strlen(target))) {
        return true;
    }
    complain("%s: the receiver does not take files of that name", path);
    return false;
}

static bool send_named(struct transfer *t, char *path)
{
    char target[CP_PATH_MOST + 1];

    if (t->opt->recursive) {
        return send_tree(t, path);
    }
    return name_of(t->opt, path, target) && send_file(t, path, target);
}

/* The checks of a named file that need no receiver; false: said why not. */
static bool check_named(const struct cp_options *opt, const char *path)
{
    char target[CP_PATH_MOST + 1];
    struct stat st;
    int fd;

    if (opt->recursive) {
        fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0) {
            complain("%s: %s", path, strerror(errno));
        }
    } else {
        fd = name_of(opt, path, target) ? open_file(path, &st) : -1;
    }
    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0;
}

static bool send_files(struct transfer *t)
{
    const struct cp_options *opt = t->opt;
    bool good = true;
    int i, ret;

    /* After one that has failed the two may not be at the same place. */
    for (i = 0; i < opt->nfiles && good; i++) {
        good = send_named(t, opt->files[i]);
    }
    t->name = NULL;
    ret = unetmm_stream_close(t->stream);
    return good && !t->skipped && (!ret || transfer_lost(t, ret));
}

bool cp_send(const struct cp_options *opt)
{
    struct unetmm_stream_attr attr;
    struct unetmm_ctx *ctx;
    struct transfer t;
    uint64_t deadline;
    bool good = true;
    int i, ret;

    for (i = 0; i < opt->nfiles; i++) {
        good = check_named(opt, opt->files[i]) && good;
    }
    if (!good) {
        return false;
    }
    ctx = cp_open(opt, &attr);
    transfer_make(&t, opt);
    deadline = now_ns() + opt->timeout_ns;
    do {
        ret = unetmm_stream_connect(ctx, opt->mac, opt->service, &attr,
                                    time_left(deadline), &t.stream);
    } while (link_may_come(ret, deadline));
    if (ret) {
        fail_call(ret, UNETMM_CALL_CONNECT, "cannot connect");
    }
    good = send_files(&t);
    transfer_free(&t);
    unetmm_close(ctx);
    return good;
}
