/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * unetmm-cp: copies files from one host to another through a stream.
 *
 * Of each file the sender says length and name, the receiver whether it takes it;
 * then come the bytes and their XXH64, then the receiver reports the outcome.
 */
#include "common.h"
#include "cp_file.h"
#include "cp_stream.h"
#include "row.h"

#include <fcntl.h>
#include <fts.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <libunetmm/byteorder.h>
#include <libunetmm/stream.h>

#define MAGIC           0x32632d6d6d74656eull   /* "netmm-c2" */
#define BUFFER_BYTES    ((size_t)4 << 20)
#define RING_BYTES      (1u << 20)
/* Nothing is said of progress before. */
#define PROGRESS_NS     (2 * NS_PER_S)

static const char cp_doc[] =
"Copies files to another host, on which another unetmm-cp listens, and checks\n"
"that the copies are equal.  HOST is the MAC address of its card or a name\n"
"of ethers(5), PATH the new name of the file, or, if it ends with a slash or\n"
"there are several files, the directory for them, below --directory of the\n"
"receiver.\v"
"Example, on one host and then on the other:\n"
"    unetmm-cp --listen --directory /tmp\n"
"    unetmm-cp big.iso 52:54:00:6d:00:01\n"
"    unetmm-cp -r results 52:54:00:6d:00:01:today/";

struct cp_options {
    const char *device;
    const char *directory;
    char **files;
    int nfiles;
    const char *path;           /* of the copies; NULL: their own names */
    bool is_directory;          /* `path` is one */
    uint8_t mac[6];
    uint64_t service;
    uint64_t timeout_ns;
    unsigned source;
    bool listen, forever, replace, copy, json, recursive;
};

/* The header before a file, little-endian; then its name. */
struct header {
    uint64_t magic;
    uint64_t length;
    uint32_t name_length;
    uint32_t mode;
};

enum answer { ANSWER_GO = 1, ANSWER_DONE, ANSWER_NAME, ANSWER_EXISTS,
              ANSWER_STORE, ANSWER_SUM };

struct transfer {
    const struct cp_options *opt;
    struct unetmm_stream *stream;
    uint8_t *buffer;
    XXH64_state_t *sum;         /* of the bytes so far */
    const char *name;
    uint64_t length, done;
    bool skipped;               /* something that is no file */
    uint64_t start_ns, shown_ns;
};

/* ---- Options ----------------------------------------------------------- */

enum { OPT_FOREVER = 256, OPT_DIRECTORY, OPT_REPLACE, OPT_SOURCE, OPT_COPY,
       OPT_TIMEOUT, OPT_JSON };

static const struct argp_option cp_options[] = {
    { "listen", 'l', NULL, 0, "receive, from one sender", 0 },
    { "forever", OPT_FOREVER, NULL, 0, "receive from the next sender after that", 0 },
    { "recursive", 'r', NULL, 0, "directories with all files in them, too", 0 },
    { "directory", OPT_DIRECTORY, "DIR", 0, "put files there (.)", 0 },
    { "replace", OPT_REPLACE, NULL, 0, "files that are there already, too", 0 },
    { "service", 'p', "N", 0, "number to meet under (20)", 0 },
    { "device", 'd', "FILE", 0, "our card (" UNETMM_DEFAULT_DEVICE ")", 0 },
    { "source", OPT_SOURCE, "NAME", 0,
      "tlb or pinned: where translations come from (tlb)", 0 },
    { "copy", OPT_COPY, NULL, 0, "out of the ring, never straight into the buffer",
      0 },
    { "timeout", OPT_TIMEOUT, "SECS", 0,
      "give up on a peer that is silent for so long (10)", 0 },
    { "json", OPT_JSON, NULL, 0, "one JSON object for each file", 0 },
    { 0 }
};

#define CP_SOURCES \
    (OPTION_BIT(UNETMM_SOURCE_TLB) | OPTION_BIT(UNETMM_SOURCE_PINNED))

static void set_cp_option(void *opaque, int key, const char *text)
{
    struct cp_options *opt = opaque;

    switch (key) {
    case 'd': opt->device = text; break;
    case 'l': opt->listen = true; break;
    case 'r': opt->recursive = true; break;
    case 'p': opt->service = number_option("service", text, 1, UINT64_MAX); break;
    case OPT_COPY: opt->copy = true; break;
    case OPT_DIRECTORY: opt->directory = text; break;
    case OPT_FOREVER: opt->forever = true; break;
    case OPT_JSON: opt->json = true; break;
    case OPT_REPLACE: opt->replace = true; break;
    case OPT_SOURCE: opt->source = source_option(text, CP_SOURCES); break;
    case OPT_TIMEOUT: opt->timeout_ns = seconds_option("timeout", text); break;
    }
}

/*
 * HOST or HOST:PATH.  A MAC address has colons itself, so that the whole word is tried
 * first.
 */
static bool parse_target(struct cp_options *opt, char *word)
{
    char *colon = strrchr(word, ':');
    size_t length;

    if (!unetmm_resolve(word, opt->mac)) {
        return true;
    }
    if (!colon) {
        return false;
    }
    *colon = '\0';
    if (unetmm_resolve(word, opt->mac)) {
        *colon = ':';
        return false;
    }
    length = strlen(colon + 1);
    if (!length) {
        return true;
    }
    opt->is_directory = colon[length] == '/' || opt->nfiles > 1 || opt->recursive;
    colon[length] = colon[length] == '/' ? '\0' : colon[length];
    opt->path = colon + 1;
    if (!cp_path_good(opt->path, strlen(opt->path))) {
        usage_error("the path is one below the directory of the receiver, without "
                    "names that begin with a dot, not '%s'", opt->path);
    }
    return true;
}

static void parse_cp_options(struct cp_options *opt, int argc, char **argv)
{
    static const struct command_line line = {
        .name = "unetmm-cp", .words = "FILE... HOST[:PATH]\n--listen",
        .doc = cp_doc, .options = cp_options, .set = set_cp_option,
    };
    int next = parse_words(&line, opt, argc, argv);

    if (opt->listen) {
        if (next != argc) {
            usage_error("--listen takes no files, not '%s'", argv[next]);
        }
        return;
    }
    if (argc - next < 2) {
        usage_error("name a file and the receiver, or --listen");
    }
    opt->files = argv + next;
    opt->nfiles = argc - next - 1;
    if (!parse_target(opt, argv[argc - 1])) {
        usage_error("the last word is the MAC address of a card or a name of "
                    "ethers(5), and perhaps a colon and a path, not '%s'",
                    argv[argc - 1]);
    }
}

/* ---- Both sides -------------------------------------------------------- */

/* A sentence about the stream; the caller ends it or the program. */
static bool lost(const struct transfer *t, int error)
{
    complain("%s%s%s", t->name ? t->name : "", t->name ? ": " : "",
             error == -ETIMEDOUT ? "the peer was silent for too long" :
             error ? unetmm_stream_strerror(error) :
             "the peer ended before the transfer was complete");
    return false;
}

static bool put(const struct transfer *t, const void *bytes, size_t length)
{
    int ret = cp_stream_put(t->stream, bytes, length);

    return !ret || lost(t, ret);
}

/* 1, or 0: the stream ends here; -1: said why not. */
static int take_when(const struct transfer *t, void *bytes, size_t length,
                     bool patient)
{
    size_t got;
    int ret = cp_stream_take(t->stream, bytes, length, patient, &got);

    if (!ret && got == length) {
        return 1;
    }
    if (!ret && !got) {
        return 0;
    }
    lost(t, ret);
    return -1;
}

static int take(const struct transfer *t, void *bytes, size_t length)
{
    return take_when(t, bytes, length, false);
}

static void show_progress(struct transfer *t)
{
    uint64_t now = now_ns();
    double seconds = (double)(now - t->start_ns) / (double)NS_PER_S;

    if (now - t->start_ns < PROGRESS_NS || now - t->shown_ns < NS_PER_S) {
        return;
    }
    t->shown_ns = now;
    fprintf(stderr, "%s: %" PRIu64 " of %" PRIu64 " MiB, %.0f MB/s\n", t->name,
            t->done >> 20, t->length >> 20, (double)t->done / seconds / 1e6);
}

static void begin(struct transfer *t, const char *name, uint64_t length)
{
    t->name = name;
    t->length = length;
    t->done = 0;
    XXH64_reset(t->sum, 0);
    t->start_ns = now_ns();
    t->shown_ns = 0;
}

static void show_result(const struct transfer *t)
{
    double seconds = (double)(now_ns() - t->start_ns) / (double)NS_PER_S;
    double rate = seconds > 0 ? (double)t->done / seconds / 1e6 : 0;
    struct unetmm_stream_stats stats = { .size = sizeof(stats) };
    char sum[20];
    json_t *row;

    if (!t->opt->json) {
        printf("%s: %" PRIu64 " bytes, %.3f s, %.1f MB/s\n", t->name, t->done,
               seconds, rate);
        return;
    }
    unetmm_stream_stats(t->stream, &stats);
    snprintf(sum, sizeof(sum), "%016" PRIx64, XXH64_digest(t->sum));
    row = row_new();
    row_text(row, "file", t->name);
    row_count(row, "bytes", t->done);
    row_real(row, "seconds", seconds, 6);
    row_real(row, "mb_per_s", rate, 1);
    row_text(row, "checksum", sum);
    row_text(row, "source", source_name(t->opt->source));
    row_count(row, "redirected", stats.redirected);
    row_count(row, "copied", stats.copied);
    row_print(row);
}

static struct unetmm_stream_attr stream_attr(const struct cp_options *opt)
{
    struct unetmm_stream_attr attr = UNETMM_STREAM_ATTR_INIT;

    attr.ring_bytes = RING_BYTES;
    attr.timeout_ns = (int64_t)opt->timeout_ns;
    if (opt->copy) {
        attr.redirect_least = 0;
    }
    return attr;
}

/* ---- Sending ----------------------------------------------------------- */

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
    int got = take_when(t, &answer, sizeof(answer), wanted == ANSWER_DONE);

    if (got <= 0) {
        return got < 0 ? false : lost(t, 0);
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

static bool send_bytes(struct transfer *t, int fd)
{
    while (t->done < t->length) {
        uint64_t left = t->length - t->done;
        size_t most = left < BUFFER_BYTES ? (size_t)left : BUFFER_BYTES;
        ssize_t n = read_some(fd, t->buffer, most);

        if (n != (ssize_t)most) {
            complain("%s: %s", t->name, n < 0 ? strerror((int)-n) :
                     "the file became shorter during the transfer");
            return false;
        }
        XXH64_update(t->sum, t->buffer, most);
        if (!put(t, t->buffer, most)) {
            return false;
        }
        t->done += most;
        show_progress(t);
    }
    return true;
}

static bool send_open_file(struct transfer *t, int fd, const struct stat *stat)
{
    size_t name_length = strlen(t->name);
    struct header header = {
        .magic = unetmm_swap64(MAGIC),
        .length = unetmm_swap64((uint64_t)stat->st_size),
        .name_length = unetmm_swap32((uint32_t)name_length),
        .mode = unetmm_swap32(stat->st_mode & 0777),
    };
    uint64_t sum;

    if (!put(t, &header, sizeof(header)) || !put(t, t->name, name_length) ||
        !take_answer(t, ANSWER_GO) || !send_bytes(t, fd)) {
        return false;
    }
    sum = unetmm_swap64(XXH64_digest(t->sum));
    return put(t, &sum, sizeof(sum)) && take_answer(t, ANSWER_DONE);
}

/* Sends the file `path`; `name` is relative to the receiver's directory. */
static bool send_file(struct transfer *t, const char *path, const char *name)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat stat;
    bool good;

    if (fd < 0 || fstat(fd, &stat)) {
        complain("%s: %s", path, strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
        return false;
    }
    begin(t, name, (uint64_t)stat.st_size);
    good = S_ISREG(stat.st_mode) && cp_path_good(name, strlen(name));
    if (!good) {
        complain("%s: %s", path, S_ISDIR(stat.st_mode) ?
                 "a directory: use -r to copy all files in it" :
                 "not a file that can be copied");
    }
    good = good && send_open_file(t, fd, &stat);
    close(fd);
    if (good) {
        show_result(t);
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

static bool send_named(struct transfer *t, char *path)
{
    const char *slash = strrchr(path, '/');
    char target[CP_PATH_MOST + 1];

    if (t->opt->recursive) {
        return send_tree(t, path);
    }
    if (!target_name(t->opt, slash ? slash + 1 : path, target)) {
        complain("%s: the file name for the receiver is too long", path);
        return false;
    }
    return send_file(t, path, target);
}

static bool send_files(struct transfer *t, struct unetmm_ctx *ctx)
{
    const struct cp_options *opt = t->opt;
    struct unetmm_stream_attr attr = stream_attr(opt);
    bool good = true;
    int i, ret = unetmm_stream_connect(ctx, opt->mac, opt->service, &attr,
                                       (int64_t)opt->timeout_ns, &t->stream);

    if (ret) {
        fail_call(ret, UNETMM_CALL_CONNECT, "cannot connect");
    }
    /* After one that has failed the two may not be at the same place. */
    for (i = 0; i < opt->nfiles && good; i++) {
        good = send_named(t, opt->files[i]);
    }
    t->name = NULL;
    ret = unetmm_stream_close(t->stream);
    return good && !t->skipped && (!ret || lost(t, ret));
}

/* ---- Receiving --------------------------------------------------------- */

static bool answer(const struct transfer *t, enum answer what)
{
    uint64_t word = unetmm_swap64(what);

    return put(t, &word, sizeof(word));
}

static bool decline(const struct transfer *t, enum answer what, int error)
{
    complain("%s: %s", t->name, what == ANSWER_NAME ?
             "this receiver does not take files of that name" :
             what == ANSWER_SUM ? "it differs from the sent file" : strerror(-error));
    answer(t, what);
    return false;
}

static int receive_bytes(struct transfer *t, struct cp_file *file)
{
    int stored = 0;

    while (t->done < t->length) {
        uint64_t left = t->length - t->done;
        size_t most = left < BUFFER_BYTES ? (size_t)left : BUFFER_BYTES;
        int got = take(t, t->buffer, most);

        if (got <= 0) {
            if (!got) {
                lost(t, 0);
            }
            return -EPIPE;
        }
        XXH64_update(t->sum, t->buffer, most);
        /* The sender hears of it when it listens: after the last byte. */
        stored = stored ? stored : cp_file_write(file, t->buffer, most);
        t->done += most;
        show_progress(t);
    }
    return stored;
}

static bool receive_into(struct transfer *t, struct cp_file *file,
                         const char *name, mode_t mode)
{
    int ret = receive_bytes(t, file);
    uint64_t sum;

    if (ret == -EPIPE || take(t, &sum, sizeof(sum)) <= 0) {
        return ret == -EPIPE ? false : lost(t, 0);
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
        show_result(t);
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

    begin(t, "the sender's file", unetmm_swap64(header->length));
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

/* All files of one sender. */
static bool receive_files(struct transfer *t, int directory)
{
    char name[CP_PATH_MOST + 1];
    struct header header;
    uint32_t length;
    bool good = true;
    int got;

    while (good) {
        t->name = NULL;
        got = take(t, &header, sizeof(header));
        if (got <= 0) {
            return !got;
        }
        length = unetmm_swap32(header.name_length);
        if (unetmm_swap64(header.magic) != MAGIC || length > CP_PATH_MOST) {
            complain("the peer is not a sending unetmm-cp");
            return false;
        }
        if (length && take(t, name, length) <= 0) {
            return false;
        }
        name[length] = '\0';
        good = receive_file(t, directory, &header, name);
    }
    return good;
}

static bool serve(struct transfer *t, struct unetmm_ctx *ctx)
{
    const struct cp_options *opt = t->opt;
    struct unetmm_stream_attr attr = stream_attr(opt);
    struct unetmm_stream_listener *listener;
    bool good;
    int directory = open(opt->directory, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    int ret;

    if (directory < 0) {
        fail("%s: %s", opt->directory, strerror(errno));
    }
    ret = unetmm_stream_listen(ctx, opt->service, &attr, &listener);
    if (ret) {
        fail_call(ret, UNETMM_CALL_LISTEN, "cannot listen");
    }
    do {
        t->name = NULL;
        ret = unetmm_stream_accept(listener, -1, &t->stream);
        good = ret ? lost(t, ret) : receive_files(t, directory);
        if (!ret) {
            unetmm_stream_close(t->stream);
        }
    } while (opt->forever && (!ret || ret == -ECONNRESET));
    unetmm_stream_listener_close(listener);
    close(directory);
    return good;
}

int main(int argc, char **argv)
{
    struct cp_options opt = {
        .device = UNETMM_DEFAULT_DEVICE,
        .directory = ".",
        .service = 20,
        .timeout_ns = 10 * NS_PER_S,
        .source = UNETMM_SOURCE_TLB,
    };
    struct transfer t = { .opt = &opt };
    struct unetmm_ctx *ctx;
    bool good;
    int ret;

    parse_cp_options(&opt, argc, argv);
    t.buffer = aligned_alloc(UNETMM_PAGE_BYTES, BUFFER_BYTES);
    t.sum = XXH64_createState();
    if (!t.buffer || !t.sum) {
        fail("out of memory");
    }
    ret = unetmm_open(opt.device, opt.source, &ctx);
    if (ret) {
        fail_call(ret, UNETMM_CALL_OPEN, opt.device);
    }
    good = opt.listen ? serve(&t, ctx) : send_files(&t, ctx);
    unetmm_close(ctx);
    free(t.buffer);
    XXH64_freeState(t.sum);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
