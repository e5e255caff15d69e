/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Streams of bytes over writes to a peer's memory.
 *
 * Local: the other side is a process on the same card, or this one.  Remote: it is
 * the other guest's program echo.
 */
#include "ask.h"
#include "guard.h"
#include "link.h"
#include "pattern.h"
#include "streamer.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#define RING            65536u
#define SECONDS(n)      ((int64_t)((n) * NS_PER_S * run.slow))

/* Of streams of this process; the server's is the usual. */
static bool never_redirect;

static struct unetmm_stream_attr attr_of(uint32_t ring)
{
    struct unetmm_stream_attr attr = UNETMM_STREAM_ATTR_INIT;

    if (never_redirect) {
        attr.redirect_least = 0;
    }
    attr.ring_bytes = ring;
    attr.timeout_ns = SECONDS(30);
    return attr;
}

static uint64_t own_service(void)
{
    return SERVICE_FIRST - 19 + ((uint64_t)getpid() << 20);
}

/* ---- With a server ------------------------------------------------------------ */

struct scene {
    struct unetmm_ctx *ctx;
    pid_t server;               /* local */
    uint64_t service;
    uint8_t mac[6];
};

static void server(void *argument)
{
    const struct scene *s = argument;
    struct unetmm_stream_attr attr = attr_of(RING);

    streams_serve(open_card(), s->service, &attr);
}

static void scene_open(struct scene *s)
{
    memset(s, 0, sizeof(*s));
    s->service = SERVICE_STREAMS;
    memcpy(s->mac, run.peer, sizeof(s->mac));
    if (!run.remote) {
        s->service = own_service();
        card_mac(s->mac);
        s->server = start_process(server, s);
    }
    s->ctx = open_card();
}

static void scene_close(struct scene *s)
{
    if (s->server) {
        CHECK_SYS(kill(s->server, SIGKILL));
        await_process(s->server);
    }
    CHECK_RET(unetmm_close(s->ctx), 0);
}

static struct unetmm_stream *stream_to(struct scene *s, uint32_t ring, uint64_t op,
                                       uint64_t bytes, uint64_t key, uint64_t most)
{
    struct stream_order order = { op, bytes, key, most };
    struct unetmm_stream_attr attr = attr_of(ring);
    struct unetmm_stream *stream;
    int ret = unetmm_stream_connect(s->ctx, s->mac, s->service, &attr, SECONDS(20),
                                    &stream);

    if (ret) {
        FAIL("cannot connect: %s", unetmm_stream_strerror(ret));
    }
    CHECK_RET(unetmm_stream_send(stream, &order, sizeof(order), 0), sizeof(order));
    return stream;
}

static void send_one_way(struct scene *s, uint32_t ring, uint64_t bytes,
                         uint64_t key, uint64_t most, struct chance *chance)
{
    struct unetmm_stream *stream = stream_to(s, ring, STREAM_SINK, bytes, key, most);
    uint64_t bad = 1;

    CHECK(stream_send_pattern(stream, key, bytes, most, chance));
    CHECK_RET(unetmm_stream_recv(stream, &bad, sizeof(bad), UNETMM_STREAM_WAITALL),
              sizeof(bad));
    CHECK_EQ(bad, 0);
    CHECK_RET(unetmm_stream_close(stream), 0);
}

static void receive_one_way(struct scene *s, uint32_t ring, uint64_t bytes,
                            uint64_t key, uint64_t most, struct chance *chance)
{
    struct unetmm_stream *stream = stream_to(s, ring, STREAM_SOURCE, bytes, key,
                                             most);
    uint64_t got;
    char more;

    CHECK_EQ(stream_take_pattern(stream, key, bytes, most, chance, &got), 0);
    CHECK_EQ(got, bytes);
    CHECK_RET(unetmm_stream_recv(stream, &more, 1, 0), 0);
    CHECK_RET(unetmm_stream_recv(stream, &more, 1, 0), 0);
    CHECK_RET(unetmm_stream_close(stream), 0);
}

/* Calls of all sizes, rings smaller and larger than they are. */
TEST(both_ways, TEST_BOTH | TEST_REMOTE)
{
    static const struct { uint32_t ring; uint64_t most; } kinds[] = {
        { UNETMM_STREAM_RING_LEAST, 1000 }, { 8192, 100000 }, { RING, 40 },
        { RING, 200000 }, { 4 * RING, 250000 },
    };
    struct chance chance;
    struct scene s;
    unsigned i;

    chance_init(&chance, 0);
    scene_open(&s);
    for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        uint64_t bytes = kinds[i].most * rounds(5) +
            chance_below(&chance, 1000);

        send_one_way(&s, kinds[i].ring, bytes, chance_u64(&chance),
                     kinds[i].most, &chance);
        receive_one_way(&s, kinds[i].ring, bytes, chance_u64(&chance),
                        kinds[i].most, &chance);
    }
    scene_close(&s);
}

/* Large reads are not copied, unless that is not wanted. */
TEST(redirected, TEST_BOTH | TEST_REMOTE)
{
    struct unetmm_stream_stats stats = { .size = sizeof(stats) };
    uint64_t bytes = 1000000ull * rounds(1), at, i;
    size_t most = 200000;
    uint8_t *to = pages((unsigned)(most / PAGE) + 2);
    struct unetmm_stream *stream;
    struct scene s;

    scene_open(&s);
    for (i = 0; i < 3; i++) {
        never_redirect = i == 2;
        stream = stream_to(&s, 4 * RING, STREAM_SOURCE, bytes, i, 0);
        /* At the beginning of a page, and not. */
        for (at = 0; at < bytes; at += most) {
            memset(to, 0, most);
            CHECK_RET(unetmm_stream_recv(stream, to + 123 * i, most, UNETMM_STREAM_WAITALL),
                      most);
            CHECK_EQ(pattern_check(to + 123 * i, most, i, at), most);
        }
        CHECK_RET(unetmm_stream_recv(stream, to, 1, 0), 0);
        CHECK_RET(unetmm_stream_stats(stream, &stats), 0);
        note("%llu redirected in %llu parts, %llu copied",
             (unsigned long long)stats.redirected,
             (unsigned long long)stats.redirections,
             (unsigned long long)stats.copied);
        CHECK_EQ(stats.received, bytes);
        CHECK_EQ(stats.redirected + stats.copied, bytes);
        CHECK(!never_redirect || (!stats.redirected && !stats.redirections));
        CHECK_RET(unetmm_stream_close(stream), 0);
    }
    scene_close(&s);
}

/* All that comes until an error. */
static void take_rest(struct unetmm_stream *stream, uint64_t key, uint64_t at)
{
    static uint8_t to[100000];
    ssize_t n;

    while ((n = unetmm_stream_recv(stream, to, sizeof(to), UNETMM_STREAM_WAITALL)) > 0) {
        CHECK_EQ(pattern_check(to, (size_t)n, key, at), n);
        at += (uint64_t)n;
    }
    CHECK(n == -ECONNRESET || n == -ETIMEDOUT);
}

/* The sender is killed while it writes to where we have it write. */
TEST(killed_redirected, TEST_BOTH)
{
    struct unetmm_stream *stream;
    struct chance chance;
    uint64_t got;
    struct scene s;
    pid_t pid;

    scene_open(&s);
    chance_init(&chance, 0);
    stream = stream_to(&s, RING, STREAM_SOURCE, 1ull << 40, 5, 0);
    CHECK_EQ(stream_take_pattern(stream, 5, 300000, 0, &chance, &got), 0);
    CHECK_EQ(got, 300000);
    pid = s.server;
    s.server = 0;
    CHECK_SYS(kill(pid, SIGKILL));
    take_rest(stream, 5, 300000);
    await_process(pid);
    unetmm_stream_close(stream);
    scene_close(&s);
}

/* Both directions of one stream at once, by poll(); then each end alone. */
struct duplex {
    struct unetmm_stream *stream;
    uint64_t key, bytes, out, in;
};

static void duplex_send(struct duplex *d, size_t most)
{
    uint8_t bytes[20000];
    size_t n = most < d->bytes - d->out ? most : (size_t)(d->bytes - d->out);
    ssize_t sent;

    pattern_fill(bytes, n, d->key, d->out);
    sent = unetmm_stream_send(d->stream, bytes, n, 0);
    memset(bytes, 0xdd, n);
    if (sent == -EAGAIN) {
        return;
    }
    CHECK(sent > 0 && (size_t)sent <= n);
    d->out += (uint64_t)sent;
    if (d->out == d->bytes) {
        CHECK_RET(unetmm_stream_shutdown(d->stream), 0);
        CHECK_RET(unetmm_stream_send(d->stream, bytes, 1, 0), -EPIPE);
    }
}

static bool duplex_take(struct duplex *d, size_t most)
{
    uint8_t bytes[20000];
    ssize_t got = unetmm_stream_recv(d->stream, bytes, most, 0);

    if (got == -EAGAIN) {
        return true;
    }
    CHECK(got >= 0);
    CHECK_EQ(pattern_check(bytes, (size_t)got, d->key, d->in), got);
    d->in += (uint64_t)got;
    return got;
}

TEST(duplex, TEST_BOTH | TEST_REMOTE)
{
    struct duplex d = { .key = 99, .bytes = 20000ull * rounds(40) };
    struct chance chance;
    struct scene s;
    bool more = true;

    chance_init(&chance, 0);
    scene_open(&s);
    d.stream = stream_to(&s, RING, STREAM_ECHO, 0, 0, 0);
    CHECK_RET(unetmm_stream_set_nonblocking(d.stream, 1), 0);
    while (more) {
        short wanted = d.out < d.bytes ? POLLIN | POLLOUT : POLLIN;
        struct pollfd fd = { .fd = unetmm_stream_fd(d.stream), .events = POLLIN };
        int ready = unetmm_stream_arm(d.stream, wanted);

        CHECK(ready >= 0 && !(ready & POLLERR));
        if (!ready) {
            CHECK(CHECK_SYS(poll(&fd, 1, (int)(30000 * run.slow))) == 1);
        }
        if (ready & POLLOUT) {
            duplex_send(&d, 1 + chance_below(&chance, 20000));
        }
        if (ready & POLLIN) {
            more = duplex_take(&d, 1 + chance_below(&chance, 20000));
        }
    }
    CHECK_EQ(d.in, d.bytes);
    CHECK_RET(unetmm_stream_close(d.stream), 0);
    scene_close(&s);
}

/* It had all our bytes, and has gone before it had our last word: no error. */
TEST(peer_ended, TEST_BOTH | TEST_REMOTE)
{
    struct unetmm_stream *stream, *next;
    struct chance chance;
    struct scene s;
    unsigned i;

    chance_init(&chance, 0);
    scene_open(&s);
    stream = stream_to(&s, RING, STREAM_SOURCE, 1000, 7, 0);
    CHECK_EQ(stream_take_pattern(stream, 7, 1000, 0, &chance, NULL), 0);
    CHECK_RET(unetmm_stream_recv(stream, &i, 1, UNETMM_STREAM_WAITALL), 0);
    /* The server has one after the other. */
    next = stream_to(&s, RING, STREAM_SOURCE, 0, 8, 0);
    CHECK_RET(unetmm_stream_shutdown(stream), 0);
    for (i = 0; i < 5; i++) {
        struct pollfd fd = { .fd = unetmm_stream_fd(stream), .events = POLLIN };

        CHECK_EQ(unetmm_stream_arm(stream, 0), 0);
        CHECK(CHECK_SYS(poll(&fd, 1, (int)(30000 * run.slow))) == 1);
        CHECK(unetmm_stream_arm(stream, POLLIN | POLLOUT) == (POLLIN | POLLOUT));
    }
    CHECK_RET(unetmm_stream_shutdown(stream), 0);
    CHECK_RET(unetmm_stream_recv(stream, &i, 1, 0), 0);
    CHECK_RET(unetmm_stream_close(stream), 0);
    CHECK_RET(unetmm_stream_close(next), 0);
    scene_close(&s);
}

/* The peer has gone in the middle of our sending; or while we wait for it. */
TEST(peer_killed, TEST_BOTH | TEST_REMOTE)
{
    uint8_t *bytes = pages(16);
    struct unetmm_stream *stream;
    struct scene s;
    ssize_t ret;
    unsigned i;

    for (i = 0; i < 2; i++) {
        scene_open(&s);
        reach(s.ctx, bytes, 16 * PAGE, true);
        pattern_fill(bytes, 16 * PAGE, 3, 0);
        stream = stream_to(&s, RING, STREAM_DIE, i ? 10 * PAGE : 0, 3, 0);
        do {
            ret = i ? unetmm_stream_send(stream, bytes, 16 * PAGE, 0) :
                unetmm_stream_recv(stream, bytes, 16 * PAGE, 0);
        } while (ret > 0);
        CHECK(ret == -ECONNRESET || ret == -ETIMEDOUT);
        CHECK_RET(unetmm_stream_send(stream, bytes, 1, 0), ret);
        CHECK_RET(unetmm_stream_recv(stream, bytes, 1, 0), ret);
        CHECK_RET(unetmm_stream_close(stream), ret);
        unreach(s.ctx, bytes, 16 * PAGE);
        scene_close(&s);
    }
}

/* It closes while we send: no signal, and an error. */
TEST(peer_closes, TEST_BOTH | TEST_REMOTE)
{
    uint8_t *bytes = pages(16);
    struct unetmm_stream *stream;
    struct scene s;
    ssize_t ret;

    scene_open(&s);
    stream = stream_to(&s, RING, STREAM_ABANDON, 100, 3, 0);
    pattern_fill(bytes, 16 * PAGE, 3, 0);
    do {
        ret = unetmm_stream_send(stream, bytes, 16 * PAGE, 0);
    } while (ret > 0);
    CHECK_RET(ret, -EPIPE);
    CHECK_RET(unetmm_stream_recv(stream, bytes, PAGE, 0), 0);
    unetmm_stream_close(stream);
    scene_close(&s);
}

TEST(bad_wire, TEST_TLB | TEST_ONLY_REMOTE)
{
    static const char *const knobs[] = { "x-loss", "x-dup", "x-reorder",
                                         "x-corrupt", "x-delay" };
    struct chance chance;
    struct scene s;
    unsigned i;

    chance_init(&chance, 0);
    scene_open(&s);
    ask_host("set x-seed %llu", (unsigned long long)(run.seed & INT64_MAX));
    for (i = 0; i < 5; i++) {
        ask_host("set %s 20000", knobs[i]);
    }
    send_one_way(&s, RING, 50000ull * rounds(10), 1, 100000, &chance);
    receive_one_way(&s, RING, 50000ull * rounds(10), 2, 100000, &chance);
    for (i = 0; i < 5; i++) {
        ask_host("set %s 0", knobs[i]);
    }
    scene_close(&s);
}

/* ---- Programs on both sides ------------------------------------------------------- */

/* Runs one here; its exit status. */
static int run_here(const char *const *words, char *said, size_t most)
{
    int out[2], status;
    size_t at = 0;
    ssize_t n;
    pid_t pid;

    fflush(stdout);
    CHECK_SYS(pipe(out));
    pid = CHECK_SYS(fork());
    if (!pid) {
        dup2(out[1], STDOUT_FILENO);
        dup2(out[1], STDERR_FILENO);
        close(out[0]);
        close(out[1]);
        execv(words[0], (char *const *)(uintptr_t)words);
        _exit(127);
    }
    CHECK_SYS(close(out[1]));
    while (at < most - 1 && (n = read(out[0], said + at, most - 1 - at)) > 0) {
        at += (size_t)n;
    }
    said[at] = '\0';
    CHECK_SYS(close(out[0]));
    status = await_process(pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* Has the server run one side of a program, runs the other here. */
static int run_both(struct scene *s, enum stream_program which,
                    const char *const *words, char *said,
                    struct stream_ran *ran)
{
    struct unetmm_stream *stream = stream_to(s, RING, STREAM_RUN, 0, which, 0);
    int status = run_here(words, said, sizeof(ran->said));

    CHECK_RET(unetmm_stream_recv(stream, ran, sizeof(*ran), UNETMM_STREAM_WAITALL),
              sizeof(*ran));
    CHECK_RET(unetmm_stream_close(stream), 0);
    return status;
}

TEST(examples, TEST_TLB | TEST_REMOTE)
{
    char mac[UNETMM_MAC_CHARS], said[1016];
    const char *const hello[] = { "/usr/bin/vmmc-hello", mac, NULL };
    const char *const ring[] = { "/usr/bin/au-ring", mac, NULL };
    struct stream_ran ran;
    struct scene s;

    scene_open(&s);
    unetmm_format_mac(s.mac, mac);
    CHECK_EQ(run_both(&s, PROGRAM_VMMC_HELLO, hello, said, &ran), 0);
    CHECK_EQ(ran.status, 0);
    CHECK(!strcmp(ran.said, "42: hello, straight into your memory\n"));
    CHECK_EQ(run_both(&s, PROGRAM_AU_RING, ring, said, &ran), 0);
    CHECK_EQ(ran.status, 0);
    CHECK(!strcmp(ran.said, "20000 words, 0 wrong\n"));
    scene_close(&s);
}

static void write_pattern(const char *path, size_t bytes)
{
    int fd = CHECK_SYS(open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC,
                            0640));
    uint8_t *at = pages((unsigned)(bytes / PAGE) + 1);

    pattern_fill(at, bytes, run.seed, 0);
    CHECK_EQ(write(fd, at, bytes), bytes);
    CHECK_SYS(close(fd));
    unmap_pages(at, (unsigned)(bytes / PAGE) + 1);
}

/* The XXH64 of `bytes` bytes from write_pattern(), as unetmm-cp says it. */
static void checksum_of(size_t bytes, char words[48])
{
    uint8_t *at = pages((unsigned)(bytes / PAGE) + 1);

    pattern_fill(at, bytes, run.seed, 0);
    snprintf(words, 48, "\"checksum\":\"%016llx\"",
             (unsigned long long)XXH64(at, bytes, 0));
    unmap_pages(at, (unsigned)(bytes / PAGE) + 1);
}

/* The receiver has the sender's bytes; the local one is read. */
TEST(copies, TEST_BOTH | TEST_REMOTE)
{
    static const size_t sizes[] = { 0, (1 << 20) + 5 };
    char mac[UNETMM_MAC_CHARS], said[1016], path[40], sum[48];
    const char *const words[] = {
        "/usr/bin/unetmm-cp", "--json", "--service", COPY_SERVICE, "--source",
        run.source == UNETMM_SOURCE_TLB ? "tlb" : "pinned", "--timeout", "60",
        path, mac, NULL,
    };
    struct stream_ran ran;
    struct scene s;
    unsigned i;

    scene_open(&s);
    unetmm_format_mac(s.mac, mac);
    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        snprintf(path, sizeof(path), "/tmp/f%u-%llx", i,
                 (unsigned long long)now_ns());
        write_pattern(path, sizes[i]);
        CHECK_EQ(run_both(&s, PROGRAM_CP, words, said, &ran), 0);
        CHECK_EQ(ran.status, 0);
        checksum_of(sizes[i], sum);
        CHECK(strstr(said, sum));
        CHECK(strstr(ran.said, sum));
        /* It is there now, and stays: no second one, and not a byte of it. */
        CHECK_EQ(run_both(&s, PROGRAM_CP, words, said, &ran), 1);
        CHECK(strstr(said, "has a file of that name"));
        CHECK(WIFEXITED((int)ran.status) && WEXITSTATUS((int)ran.status) == 1);
        CHECK_SYS(unlink(path));
    }
    scene_close(&s);
}

/* A directory, sent with -r to a directory of another name. */
TEST(copies_a_tree, TEST_BOTH | TEST_REMOTE)
{
    static const char *const names[] = { "a", "sub/b", "sub/deep/c" };
    char tree[40], path[80], wanted[128], target[80], said[1016];
    char mac[UNETMM_MAC_CHARS];
    const char *const words[] = {
        "/usr/bin/unetmm-cp", "-r", "--json", "--service", COPY_SERVICE,
        "--timeout", "60", tree, target, NULL,
    };
    unsigned long long number = now_ns();
    struct stream_ran ran;
    struct scene s;
    unsigned i;

    scene_open(&s);
    snprintf(tree, sizeof(tree), "/tmp/t%llx", number);
    snprintf(target, sizeof(target), "%s:to%llx/", unetmm_format_mac(s.mac, mac),
             number);
    for (i = 0; i < 3; i++) {
        static const char *const directories[] = { "", "/sub", "/sub/deep" };

        snprintf(path, sizeof(path), "%s%s", tree, directories[i]);
        CHECK_SYS(mkdir(path, 0755));
        snprintf(path, sizeof(path), "%s/%s", tree, names[i]);
        write_pattern(path, 1000 * i);
    }
    CHECK_EQ(run_both(&s, PROGRAM_CP, words, said, &ran), 0);
    CHECK_EQ(ran.status, 0);
    for (i = 0; i < 3; i++) {
        snprintf(wanted, sizeof(wanted), "\"file\":\"to%llx/t%llx/%s\",\"bytes\":%u,",
                 number, number, names[i], 1000 * i);
        CHECK(strstr(said, wanted));
        CHECK(strstr(ran.said, wanted));
    }
    /* A link is skipped with a sentence, and the rest is sent. */
    snprintf(path, sizeof(path), "%s/sub/link", tree);
    CHECK_SYS(symlink("b", path));
    snprintf(target, sizeof(target), "%s:again%llx", mac, number);
    CHECK_EQ(run_both(&s, PROGRAM_CP, words, said, &ran), 1);
    CHECK_EQ(ran.status, 0);
    CHECK(strstr(said, "link: skipped"));
    scene_close(&s);
}

/* ---- Both ends here ------------------------------------------------------------ */

struct pair {
    struct unetmm_ctx *ctx;
    struct unetmm_stream_listener *listener;
    struct unetmm_stream_attr attr;
    struct unetmm_stream *one, *two;
    int connected;
};

static void *connect_one(void *argument)
{
    struct pair *p = argument;
    uint8_t mac[6];

    card_mac(mac);
    p->connected = unetmm_stream_connect(p->ctx, mac, own_service(), &p->attr,
                                         SECONDS(20), &p->one);
    return NULL;
}

static void pair_open_as(struct pair *p, const struct unetmm_stream_attr *attr)
{
    struct pollfd fd = { .events = POLLPRI };
    pthread_t thread;

    memset(p, 0, sizeof(*p));
    p->ctx = open_card();
    p->attr = *attr;
    CHECK_RET(unetmm_stream_listen(p->ctx, own_service(), &p->attr, &p->listener), 0);
    CHECK_RET(unetmm_stream_accept(p->listener, 0, &p->two), -ETIMEDOUT);
    fd.fd = unetmm_stream_listener_fd(p->listener);
    CHECK_EQ(poll(&fd, 1, 0), 0);
    CHECK_EQ(pthread_create(&thread, NULL, connect_one, p), 0);
    CHECK_EQ(poll(&fd, 1, (int)(SECONDS(20) / 1000000)), 1);
    CHECK_EQ(fd.revents, POLLPRI);
    CHECK_RET(unetmm_stream_accept(p->listener, 0, &p->two), 0);
    CHECK_EQ(poll(&fd, 1, 0), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_RET(p->connected, 0);
}

static void pair_open(struct pair *p, uint32_t ring)
{
    struct unetmm_stream_attr attr = attr_of(ring);

    pair_open_as(p, &attr);
}

static void pair_close(struct pair *p)
{
    CHECK_RET(unetmm_stream_close(p->one), 0);
    CHECK_RET(unetmm_stream_close(p->two), 0);
    CHECK_RET(unetmm_stream_listener_close(p->listener), 0);
    CHECK_RET(unetmm_close(p->ctx), 0);
}

/* Asks until the wanted events are there, by the file descriptor. */
static int await_ready(struct unetmm_stream *s, short events)
{
    struct pollfd fd = { .fd = unetmm_stream_fd(s), .events = POLLIN };
    int ready;

    CHECK(fd.fd >= 0);
    while (!(ready = unetmm_stream_arm(s, events))) {
        CHECK(CHECK_SYS(poll(&fd, 1, (int)(30000 * run.slow))) == 1);
    }
    return ready;
}

/* Sends until nothing more goes, `least` bytes at least: how much. */
static uint64_t fill(struct unetmm_stream *s, uint64_t key, size_t most,
                     uint64_t least)
{
    uint8_t bytes[5000];
    uint64_t at = 0;

    for (;;) {
        ssize_t n;

        pattern_fill(bytes, most, key, at);
        n = unetmm_stream_send(s, bytes, most, UNETMM_STREAM_DONTWAIT);
        if (n > 0) {
            at += (uint64_t)n;
            continue;
        }
        CHECK_RET(n, -EAGAIN);
        if (at >= least) {
            return at;
        }
        /* Bytes on their way have to arrive first. */
        CHECK_EQ(await_ready(s, POLLOUT), POLLOUT);
    }
}

static void drain(struct unetmm_stream *s, uint64_t key, uint64_t bytes)
{
    uint8_t to[1000];
    uint64_t at = 0;

    while (at < bytes) {
        ssize_t n;

        CHECK_EQ(await_ready(s, POLLIN), POLLIN);
        n = unetmm_stream_recv(s, to, sizeof(to), UNETMM_STREAM_DONTWAIT);
        CHECK(n > 0);
        CHECK_EQ(pattern_check(to, (size_t)n, key, at), n);
        at += (uint64_t)n;
    }
    CHECK_RET(unetmm_stream_recv(s, to, 1, UNETMM_STREAM_DONTWAIT), -EAGAIN);
}

/*
 * A ring that is full is so to the byte, and words are bounded, too.  The
 * sender may not know of the last quarter of the received bytes.
 */
TEST(full, TEST_BOTH)
{
    struct unetmm_stream_stats stats = { .size = sizeof(stats) };
    uint32_t least = UNETMM_STREAM_RING_LEAST;
    uint8_t big[5000] = { 0 };
    uint64_t sum = 0, n;
    struct pair p;
    unsigned i;

    pair_open(&p, UNETMM_STREAM_RING_LEAST);
    for (i = 0; i < 4; i++) {
        n = fill(p.one, i, 700 + i, least);
        CHECK(n <= UNETMM_STREAM_RING_LEAST);
        if (n == UNETMM_STREAM_RING_LEAST) {
            CHECK_RET(unetmm_stream_arm(p.one, POLLOUT), 0);
        }
        drain(p.two, i, n);
        sum += n;
        n = fill(p.one, i, 1, 256 - 63);
        CHECK(n <= 256);
        drain(p.two, i, n);
        sum += n;
        least = UNETMM_STREAM_RING_LEAST / 4 * 3;
    }
    CHECK_RET(unetmm_stream_stats(p.one, &stats), 0);
    CHECK_EQ(stats.sent, sum);
    CHECK(stats.staged);
    CHECK_RET(unetmm_stream_send(p.one, big, sizeof(big), 0x80), -EINVAL);
    CHECK_RET(unetmm_stream_recv(p.one, big, sizeof(big), 0x80), -EINVAL);
    pair_close(&p);
}

/* A time that passes: the sent length is returned, then that nothing goes. */
TEST(timeouts, TEST_BOTH)
{
    struct unetmm_stream_attr attr = attr_of(UNETMM_STREAM_RING_LEAST);
    uint8_t *big = pages(2);
    struct pair p;

    attr.timeout_ns = SECONDS(0.5);
    pair_open_as(&p, &attr);
    CHECK_RET(unetmm_stream_recv(p.one, big, PAGE, 0), -ETIMEDOUT);
    pattern_fill(big, 2 * PAGE, 4, 0);
    CHECK_RET(unetmm_stream_send(p.one, big, 2 * PAGE, 0), UNETMM_STREAM_RING_LEAST);
    CHECK_RET(unetmm_stream_send(p.one, big, 2 * PAGE, 0), -ETIMEDOUT);
    memset(big, 0, 2 * PAGE);
    CHECK_RET(unetmm_stream_recv(p.two, big, 2 * PAGE, UNETMM_STREAM_WAITALL),
              UNETMM_STREAM_RING_LEAST);
    CHECK_PATTERN(big, UNETMM_STREAM_RING_LEAST, 4);
    CHECK_RET(unetmm_stream_recv(p.two, big, 2 * PAGE, UNETMM_STREAM_WAITALL),
              -ETIMEDOUT);
    pair_close(&p);
}

/* A child has none of it, and its end changes nothing. */
static void fork_of_stream(void *argument)
{
    struct pair *p = argument;
    char byte = 0;

    CHECK_RET(unetmm_stream_send(p->one, &byte, 1, 0), -EOWNERDEAD);
    CHECK_RET(unetmm_stream_recv(p->one, &byte, 1, 0), -EOWNERDEAD);
    CHECK_RET(unetmm_stream_shutdown(p->one), -EOWNERDEAD);
    CHECK_RET(unetmm_stream_arm(p->one, POLLIN), -EOWNERDEAD);
    unetmm_stream_close(p->one);
}

TEST(forked, TEST_BOTH)
{
    char bytes[2] = "ab";
    struct pair p;

    pair_open(&p, RING);
    CHECK_RET(unetmm_stream_send(p.two, bytes, 2, 0), 2);
    end_process(start_process(fork_of_stream, &p));
    CHECK_RET(unetmm_stream_recv(p.one, bytes, 2, UNETMM_STREAM_WAITALL), 2);
    pair_close(&p);
}

/* Many at once to one listener: each has a stream of its own. */
static void *crowd_one(void *argument)
{
    struct pair *p = argument;
    uint8_t mac[6], byte = 7;
    struct unetmm_stream *s;

    card_mac(mac);
    CHECK_RET(unetmm_stream_connect(p->ctx, mac, own_service(), &p->attr,
                                    SECONDS(60), &s), 0);
    CHECK_RET(unetmm_stream_send(s, &byte, 1, 0), 1);
    CHECK_RET(unetmm_stream_recv(s, &byte, 1, 0), 1);
    CHECK_EQ(byte, 8);
    CHECK_RET(unetmm_stream_close(s), 0);
    return NULL;
}

TEST(crowd, TEST_TLB)
{
    pthread_t threads[6];
    struct pair p = { .ctx = open_card(), .attr = attr_of(8192) };
    struct unetmm_stream *s;
    uint8_t byte;
    unsigned i;

    CHECK_RET(unetmm_stream_listen(p.ctx, own_service(), &p.attr, &p.listener), 0);
    for (i = 0; i < 6; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, crowd_one, &p), 0);
    }
    for (i = 0; i < 6;) {
        CHECK_RET(unetmm_stream_accept(p.listener, SECONDS(60), &s), 0);
        /* One that came second and was closed may come again. */
        if (unetmm_stream_recv(s, &byte, 1, 0) == 1) {
            byte++;
            CHECK_RET(unetmm_stream_send(s, &byte, 1, 0), 1);
            i++;
        }
        unetmm_stream_close(s);
    }
    for (i = 0; i < 6; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    CHECK_RET(unetmm_stream_listener_close(p.listener), 0);
    CHECK_RET(unetmm_close(p.ctx), 0);
}

/* ---- A peer that lies ------------------------------------------------------------- */

#define MAGIC           0x6d616572747375ull
#define LIAR_RING       (2 * PAGE)
#define LIAR_ID         0x11a5
#define WORD(kind, position) ((uint32_t)(kind) << 30 | ((position) & 0x3fffffff))
enum { DATA, CREDIT, FIN, AHEAD };

/* A side's first message. */
struct greeting {
    uint64_t magic, ring_id;
    uint32_t version, ring_bytes, redirect_least, rsvd;
};

struct liar {
    struct unetmm_ctx *ctx;
    struct unetmm_stream_listener *listener;
    struct unetmm_stream *victim;
    struct station station;
    uint8_t *ring;
    struct greeting theirs;
    unsigned import;
};

/* It has a channel, and a stream is accepted on it; nothing has been said. */
static void liar_open_as(struct liar *l, const struct unetmm_stream_attr *attr)
{
    struct unetmm_completion c;
    uint8_t mac[6];
    int ret;

    memset(l, 0, sizeof(*l));
    l->ctx = open_card();
    card_mac(mac);
    CHECK_RET(unetmm_stream_listen(l->ctx, own_service(), attr, &l->listener), 0);
    station_open(&l->station, l->ctx, NULL);
    l->ring = pages(LIAR_RING / PAGE);
    CHECK_RET(unetmm_export(l->ctx, LIAR_ID, l->ring, LIAR_RING,
                            UNETMM_RIGHT_ALL, UNETMM_EXPORT_NOTIFY, 0), 0);
    ret = unetmm_connect_ex(l->station.ep, mac, own_service(), SECONDS(20),
                            NULL, NULL);
    CHECK(ret >= 0);
    l->station.channel = (unsigned)ret;
    CHECK_RET(unetmm_stream_accept(l->listener, SECONDS(20), &l->victim), 0);
    take(&l->station, UNETMM_CQE_RECEIVED, &c);
    CHECK(c.is_inline && c.len == sizeof(l->theirs));
    memcpy(&l->theirs, c.data, sizeof(l->theirs));
    CHECK(l->theirs.magic == MAGIC && l->theirs.ring_bytes == RING);
    ret = unetmm_import(l->station.ep, l->station.channel, l->theirs.ring_id,
                        UNETMM_RIGHT_WRITE, SECONDS(20), NULL);
    CHECK(ret >= 0);
    l->import = (unsigned)ret;
}

static void liar_open(struct liar *l)
{
    struct unetmm_stream_attr attr = attr_of(RING);

    liar_open_as(l, &attr);
}

static void liar_close(struct liar *l)
{
    unetmm_stream_close(l->victim);
    CHECK_RET(unetmm_stream_listener_close(l->listener), 0);
    station_close(&l->station);
    CHECK_RET(unetmm_close(l->ctx), 0);
}

static void liar_greets(struct liar *l, const void *greeting, size_t len)
{
    CHECK_EQ(send_status(&l->station, greeting, len), UNETMM_ST_OK);
}

static void liar_writes(struct liar *l, uint32_t word, uint64_t offset,
                        uint32_t len)
{
    static const uint8_t bytes[200] = { 'l', 'i', 'e' };
    struct unetmm_completion c;

    CHECK_RET(unetmm_write(l->station.ep, l->import, offset, bytes, len, word,
                           1, UNETMM_NOTIFY), 0);
    take(&l->station, UNETMM_CQE_SENT, &c);
    CHECK_EQ(c.status, UNETMM_ST_OK);
}

/* Bytes of a stream, where they belong. */
static void liar_sends(struct liar *l, const uint8_t *from, uint32_t at,
                       uint32_t len, uint32_t word, unsigned flags)
{
    struct unetmm_completion c;

    CHECK_RET(unetmm_write(l->station.ep, l->import, at, from + at, len, word,
                           1, flags), 0);
    take(&l->station, UNETMM_CQE_SENT, &c);
    CHECK_EQ(c.status, UNETMM_ST_OK);
}

/* Nothing but the error, in nobody's memory. */
static void expect_error(struct liar *l, int error)
{
    struct guard guard;

    guard_make(&guard, 300, 77);
    CHECK_RET(unetmm_stream_recv(l->victim, guard.at, 300, 0), error);
    guard_check(&guard, 0);
    CHECK_RET(unetmm_stream_send(l->victim, guard.at, 10, 0), error);
    guard_free(&guard);
}

TEST(lies_at_first, TEST_BOTH)
{
    static const struct { struct greeting g; size_t len; int error; } lies[] = {
        { { MAGIC + 1, LIAR_ID, 1, LIAR_RING, 0, 0 }, 32, -EPROTO },
        { { MAGIC, LIAR_ID, 2, LIAR_RING, 0, 0 }, 32, -EPROTO },
        { { MAGIC, LIAR_ID, 1, LIAR_RING, 0, 0 }, 31, -EPROTO },
        { { MAGIC, LIAR_ID, 1, LIAR_RING, 0, 0 }, 0, -EPROTO },
        { { MAGIC, LIAR_ID, 1, 2 * LIAR_RING, 0, 0 }, 32, -EPROTO },
        { { MAGIC, LIAR_ID, 1, LIAR_RING / 2, 0, 0 }, 32, -EPROTO },
        { { MAGIC, LIAR_ID, 1, LIAR_RING - 1, 0, 0 }, 32, -EPROTO },
        { { MAGIC, LIAR_ID + 1, 1, LIAR_RING, 0, 0 }, 32, -ECONNRESET },
    };
    struct liar l;
    unsigned i;

    for (i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        liar_open(&l);
        liar_greets(&l, &lies[i].g, lies[i].len);
        expect_error(&l, lies[i].error);
        liar_close(&l);
    }
}

/* Words that cannot be, after ten bytes that were all right. */
TEST(lies, TEST_BOTH)
{
    static const struct { uint32_t word; uint64_t offset; uint32_t len; }
        lies[] = {
            { WORD(DATA, 20), 10, 9 }, { WORD(DATA, 20), 10, 11 },
            { WORD(DATA, 20), 11, 10 }, { WORD(DATA, 10), 10, 0 },
            { WORD(DATA, 10), 0, 10 }, { WORD(DATA, RING + 11), 10, 1 },
            { WORD(CREDIT, 1), 0, 0 }, { WORD(CREDIT, RING), 0, 0 },
            { WORD(CREDIT, ~0u), 0, 0 }, { WORD(FIN, 9), 0, 0 },
            { WORD(FIN, 11), 0, 0 }, { WORD(AHEAD, 9), 0, 0 },
            { WORD(AHEAD, RING + 11), 0, 0 }, { WORD(FIN, 10), 0, 5 },
        };
    static const struct greeting good = {
        MAGIC, LIAR_ID, 1, LIAR_RING, 0, 0,
    };
    uint8_t bytes[20];
    struct liar l;
    unsigned i;

    for (i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        liar_open(&l);
        liar_greets(&l, &good, sizeof(good));
        liar_writes(&l, WORD(DATA, 10), 0, 10);
        liar_writes(&l, lies[i].word, lies[i].offset, lies[i].len);
        CHECK_RET(unetmm_stream_recv(l.victim, bytes, 20, UNETMM_STREAM_WAITALL), 10);
        CHECK(!memcmp(bytes, "lie", 3));
        expect_error(&l, -EPROTO);
        liar_close(&l);
    }
    /* Greets again; then speaks without having greeted. */
    for (i = 0; i < 2; i++) {
        liar_open(&l);
        if (!i) {
            liar_greets(&l, &good, sizeof(good));
            liar_greets(&l, &good, sizeof(good));
        } else {
            liar_writes(&l, WORD(FIN, 1), 0, 0);
        }
        expect_error(&l, -EPROTO);
        liar_close(&l);
    }
}

/* Bytes that come after our redirection are not copied, by anybody. */
#define STRAIGHT    (PAGE * 4)

struct receiving {
    struct unetmm_stream *stream;
    uint8_t *to;
    ssize_t got;
};

static void *receive(void *argument)
{
    struct receiving *r = argument;

    r->got = unetmm_stream_recv(r->stream, r->to, STRAIGHT, UNETMM_STREAM_WAITALL);
    return NULL;
}

TEST(straight, TEST_BOTH)
{
    static const struct greeting good = {
        MAGIC, LIAR_ID, 1, LIAR_RING, 0, 0,
    };
    struct unetmm_stream_stats stats = { .size = sizeof(stats) };
    struct receiving r = { .to = pages(5) };
    uint8_t *from = pages(5);
    struct liar l;
    pthread_t thread;
    uint64_t before;

    liar_open(&l);
    reach(l.ctx, from, 5 * PAGE, false);
    liar_greets(&l, &good, sizeof(good));
    pattern_fill(from, STRAIGHT, 8, 0);
    r.stream = l.victim;
    before = driver_counter(l.ctx, UNETMM_D_redirects);
    CHECK_EQ(pthread_create(&thread, NULL, receive, &r), 0);
    liar_writes(&l, WORD(AHEAD, STRAIGHT), 0, 0);
    EVENTUALLY(driver_counter(l.ctx, UNETMM_D_redirects) > before);
    liar_sends(&l, from, 0, STRAIGHT, WORD(DATA, STRAIGHT), UNETMM_NOTIFY);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(r.got, STRAIGHT);
    CHECK_PATTERN(r.to, STRAIGHT, 8);
    CHECK_RET(unetmm_stream_stats(l.victim, &stats), 0);
    CHECK_EQ(stats.redirections, 1);
    CHECK_EQ(stats.redirected, STRAIGHT);
    CHECK_EQ(stats.copied, 0);
    unreach(l.ctx, from, 5 * PAGE);
    liar_close(&l);
}

/*
 * It announces more than it sends: our time passes, the bytes that came are ours, and
 * nothing lands in the buffer later.
 */
TEST(promises, TEST_BOTH)
{
    static const struct greeting good = {
        MAGIC, LIAR_ID, 1, LIAR_RING, 0, 0,
    };
    uint8_t *from = pages(5), *to = pages(5), *copy = pages(5);
    struct unetmm_stream_attr attr = attr_of(RING);
    struct unetmm_completion c;
    struct liar l;

    attr.timeout_ns = 100 * NS_PER_MS;
    liar_open_as(&l, &attr);
    reach(l.ctx, from, 5 * PAGE, false);
    liar_greets(&l, &good, sizeof(good));
    pattern_fill(from, 20000, 6, 0);
    liar_writes(&l, WORD(AHEAD, 20000), 0, 0);
    liar_sends(&l, from, 0, 9000, WORD(DATA, 9000), UNETMM_NOTIFY);
    liar_sends(&l, from, 9000, 3000, 0, 0);
    CHECK_RET(unetmm_stream_recv(l.victim, to, 20000, UNETMM_STREAM_WAITALL), 9000);
    CHECK_PATTERN(to, 9000, 6);
    memcpy(copy, to, 20000);
    liar_sends(&l, from, 12000, 8000, 0, 0);
    liar_sends(&l, from, 9000, 1, WORD(DATA, 9001), UNETMM_NOTIFY);
    liar_sends(&l, from, 9001, 10999, WORD(DATA, 20000), UNETMM_NOTIFY);
    CHECK(!memcmp(copy, to, 20000));
    CHECK_RET(unetmm_stream_recv(l.victim, to, 11000, UNETMM_STREAM_WAITALL), 11000);
    CHECK_EQ(pattern_check(to, 11000, 6, 9000), 11000);
    CHECK_RET(unetmm_stream_recv(l.victim, to, 1, 0), -ETIMEDOUT);
    CHECK(!take_now(&l.station, UNETMM_CQE_SENT, &c));
    unreach(l.ctx, from, 5 * PAGE);
    liar_close(&l);
}
