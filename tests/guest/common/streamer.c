/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A server of streams, each of which names its own use in its first bytes. */
#include "streamer.h"

#include "guard.h"
#include "pattern.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define BUFFER_BYTES    ((size_t)256 * 1024)

static size_t some(struct chance *chance, uint64_t most, uint64_t left)
{
    size_t n;

    most = most && most < BUFFER_BYTES ? most : BUFFER_BYTES;
    /* Half of the calls are short ones. */
    n = 1 + chance_below(chance, chance_below(chance, 2) ? (uint32_t)most :
                         most < 300 ? (uint32_t)most : 300);
    return n < left ? n : (size_t)left;
}

/* Not at the beginning of a page. */
static uint8_t *buffer(void)
{
    static uint8_t *at;

    if (!at) {
        at = pages((unsigned)(BUFFER_BYTES / PAGE) + 1);
    }
    return at + 40;
}

bool stream_send_pattern(struct unetmm_stream *s, uint64_t key, uint64_t bytes,
                         uint64_t most, struct chance *chance)
{
    uint8_t *from = buffer();
    uint64_t at = 0;

    while (at < bytes) {
        size_t n = some(chance, most, bytes - at);
        ssize_t sent;

        pattern_fill(from, n, key, at);
        sent = unetmm_stream_send(s, from, n, 0);
        if (sent != (ssize_t)n) {
            note("send of %zu at %llu: %zd", n, (unsigned long long)at, sent);
            return false;
        }
        /* Whatever the card still had to read of it would be wrong. */
        memset(from, 0xee, n);
        at += n;
    }
    return true;
}

uint64_t stream_take_pattern(struct unetmm_stream *s, uint64_t key, uint64_t bytes,
                             uint64_t most, struct chance *chance,
                             uint64_t *got)
{
    uint8_t *to = buffer();
    uint64_t at = 0, bad = 0;

    while (at < bytes) {
        size_t n = some(chance, most, bytes - at);
        ssize_t here = unetmm_stream_recv(s, to, n, chance_below(chance, 2) ?
                                          UNETMM_STREAM_WAITALL : 0);

        if (here <= 0) {
            note("recv of %zu at %llu: %zd", n, (unsigned long long)at, here);
            break;
        }
        if (pattern_check(to, (size_t)here, key, at) != (size_t)here) {
            bad++;
        }
        at += (size_t)here;
    }
    if (got) {
        *got = at;
    }
    return bad;
}

/* ---- The server ------------------------------------------------------------ */

static void echo(struct unetmm_stream *s)
{
    uint8_t *bytes = buffer();
    ssize_t n;

    while ((n = unetmm_stream_recv(s, bytes, BUFFER_BYTES, 0)) > 0 &&
           unetmm_stream_send(s, bytes, (size_t)n, 0) == n) {
    }
    unetmm_stream_shutdown(s);
}

static void sink(struct unetmm_stream *s, const struct stream_order *order,
                 struct chance *chance)
{
    uint64_t got, bad = stream_take_pattern(s, order->key, order->bytes,
                                            order->most, chance, &got);

    if (order->op == STREAM_DIE) {
        raise(SIGKILL);
    }
    bad += got != order->bytes;
    if (order->op == STREAM_SINK) {
        unetmm_stream_send(s, &bad, sizeof(bad), 0);
    }
}

static void run_program(struct unetmm_stream *s, uint64_t which)
{
    static const char *const programs[][8] = {
        { "/usr/bin/vmmc-hello" },
        { "/usr/bin/au-ring" },
        { "/usr/bin/unetmm-cp", "--listen", "--json", "--directory",
          COPY_DIRECTORY, "--service", COPY_SERVICE },
    };
    struct stream_ran ran = { 0 };
    int out[2], status;
    size_t said = 0;
    ssize_t n;
    pid_t pid;

    CHECK(which < sizeof(programs) / sizeof(programs[0]));
    mkdir(COPY_DIRECTORY, 0755);
    CHECK_SYS(pipe(out));
    pid = CHECK_SYS(fork());
    if (!pid) {
        CHECK_SYS(dup2(out[1], STDOUT_FILENO));
        CHECK_SYS(close(out[0]));
        CHECK_SYS(close(out[1]));
        execv(programs[which][0], (char *const *)(uintptr_t)programs[which]);
        _exit(127);
    }
    CHECK_SYS(close(out[1]));
    while (said < sizeof(ran.said) - 1 &&
           (n = read(out[0], ran.said + said,
                     sizeof(ran.said) - 1 - said)) > 0) {
        said += (size_t)n;
    }
    CHECK_SYS(close(out[0]));
    CHECK_SYS(waitpid(pid, &status, 0));
    ran.status = (uint64_t)status;
    unetmm_stream_send(s, &ran, sizeof(ran), 0);
}

/* A client may do anything, end in the middle for one. */
static void serve(struct unetmm_stream *s)
{
    struct stream_order order;
    struct chance chance;

    if (unetmm_stream_recv(s, &order, sizeof(order), UNETMM_STREAM_WAITALL) !=
        sizeof(order)) {
        return;
    }
    chance_init(&chance, order.key);
    switch (order.op) {
    case STREAM_SOURCE:
        stream_send_pattern(s, order.key, order.bytes, order.most, &chance);
        unetmm_stream_shutdown(s);
        break;
    case STREAM_ECHO:
        echo(s);
        break;
    case STREAM_RUN:
        run_program(s, order.key);
        break;
    default:
        sink(s, &order, &chance);
        break;
    }
}

void streams_serve(struct unetmm_ctx *ctx, uint64_t service,
                   const struct unetmm_stream_attr *attr)
{
    struct unetmm_stream_listener *listener;
    struct unetmm_stream *s;
    int ret;

    /* The service's former owner may not be quite dead. */
    EVENTUALLY((ret = unetmm_stream_listen(ctx, service, attr, &listener)) !=
               -EADDRINUSE);
    CHECK_RET(ret, 0);
    for (;;) {
        ret = unetmm_stream_accept(listener, -1, &s);
        if (!ret) {
            serve(s);
            unetmm_stream_close(s);
        } else if (ret != -EINTR && ret != -ECONNRESET) {
            FAIL("accept: %s", unetmm_stream_strerror(ret));
        }
    }
}
