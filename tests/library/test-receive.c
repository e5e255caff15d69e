/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The receiving side of unetmm-cp, with streams that are the test's: one that says
 * nothing keeps nobody out.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cp.h"

#include "../one_test.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST        20u
#define SHARE       8u              /* of a card, of the 16 places */
#define LIMIT_S     20

/* The bytes of a sender; then the stream ends, or no byte moves any more. */
struct unetmm_stream {
    uint8_t words[256];
    size_t length, taken;
    bool silent;
    uint8_t card;
};

static struct unetmm_stream streams[MOST];
static unsigned nstreams, accepted, closed;
static int callers;                     /* an eventfd */
static pthread_mutex_t lock;
static pthread_cond_t change = PTHREAD_COND_INITIALIZER;
static bool over;                       /* the silent ones' time has passed */

int __wrap_unetmm_open(const char *device, unsigned source, struct unetmm_ctx **ctx);
int __wrap_unetmm_close(struct unetmm_ctx *ctx);
int __wrap_unetmm_stream_listen(struct unetmm_ctx *ctx, uint64_t service,
                                const struct unetmm_stream_attr *attr,
                                struct unetmm_stream_listener **listener);
int __wrap_unetmm_stream_accept(struct unetmm_stream_listener *l, int64_t timeout_ns,
                                struct unetmm_stream **stream);
int __wrap_unetmm_stream_listener_fd(struct unetmm_stream_listener *l);
int __wrap_unetmm_stream_listener_close(struct unetmm_stream_listener *l);
int __wrap_unetmm_stream_peer(const struct unetmm_stream *s, uint8_t mac[6]);
int __wrap_unetmm_stream_stats(const struct unetmm_stream *s,
                               struct unetmm_stream_stats *stats);
ssize_t __wrap_unetmm_stream_send(struct unetmm_stream *s, const void *bytes, size_t len,
                                  unsigned flags);
ssize_t __wrap_unetmm_stream_recv(struct unetmm_stream *s, void *bytes, size_t len,
                                  unsigned flags);
int __wrap_unetmm_stream_close(struct unetmm_stream *s);

int __wrap_unetmm_open(const char *device, unsigned source, struct unetmm_ctx **ctx)
{
    return 0;
}

int __wrap_unetmm_close(struct unetmm_ctx *ctx)
{
    return 0;
}

int __wrap_unetmm_stream_listen(struct unetmm_ctx *ctx, uint64_t service,
                                const struct unetmm_stream_attr *attr,
                                struct unetmm_stream_listener **listener)
{
    return 0;
}

int __wrap_unetmm_stream_accept(struct unetmm_stream_listener *l, int64_t timeout_ns,
                                struct unetmm_stream **stream)
{
    eventfd_t one;

    assert_int_equal(timeout_ns, 0);
    if (eventfd_read(callers, &one)) {
        return -ETIMEDOUT;
    }
    *stream = &streams[accepted++];
    return 0;
}

int __wrap_unetmm_stream_listener_fd(struct unetmm_stream_listener *l)
{
    return callers;
}

int __wrap_unetmm_stream_listener_close(struct unetmm_stream_listener *l)
{
    return 0;
}

int __wrap_unetmm_stream_peer(const struct unetmm_stream *s, uint8_t mac[6])
{
    mac[5] = s->card;
    return 0;
}

int __wrap_unetmm_stream_stats(const struct unetmm_stream *s,
                               struct unetmm_stream_stats *stats)
{
    return 0;
}

ssize_t __wrap_unetmm_stream_send(struct unetmm_stream *s, const void *bytes, size_t len,
                                  unsigned flags)
{
    return (ssize_t)len;
}

ssize_t __wrap_unetmm_stream_recv(struct unetmm_stream *s, void *bytes, size_t len,
                                  unsigned flags)
{
    size_t left = s->length - s->taken, n = len < left ? len : left;

    if (n || !s->silent) {
        memcpy(bytes, s->words + s->taken, n);
        s->taken += n;
        return (ssize_t)n;
    }
    pthread_mutex_lock(&lock);
    while (!over) {
        pthread_cond_wait(&change, &lock);
    }
    pthread_mutex_unlock(&lock);
    return -ETIMEDOUT;
}

/* When all that came have been refused or served, the time of the others passes. */
int __wrap_unetmm_stream_close(struct unetmm_stream *s)
{
    pthread_mutex_lock(&lock);
    closed++;
    over = over || closed + SHARE == nstreams;
    pthread_cond_broadcast(&change);
    pthread_mutex_unlock(&lock);
    return 0;
}

static void say(struct unetmm_stream *s, const void *words, size_t length)
{
    memcpy(s->words + s->length, words, length);
    s->length += length;
}

/* Somebody calls; with a name it sends a file that has the same content. */
static struct unetmm_stream *call(const char *name, unsigned card)
{
    struct unetmm_stream *s = &streams[nstreams++];

    *s = (struct unetmm_stream) { .silent = !name, .card = (uint8_t)card };
    if (name) {
        uint64_t length = unetmm_swap64(strlen(name));
        uint64_t sum = unetmm_swap64(XXH64(name, strlen(name), 0));
        /* The length is not true, and need not be. */
        struct header header = {
            .magic = unetmm_swap64(CP_MAGIC),
            .name_length = unetmm_swap32((uint32_t)strlen(name)),
            .mode = unetmm_swap32(0600),
        };

        say(s, &header, sizeof(header));
        say(s, name, strlen(name));
        say(s, &length, sizeof(length));
        say(s, name, strlen(name));
        say(s, &sum, sizeof(sum));
    }
    return s;
}

static bool has_come(const char *directory, const char *name)
{
    char path[100];
    struct stat st;
    bool there;

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    there = !stat(path, &st) && (size_t)st.st_size == strlen(name);
    unlink(path);
    return there;
}

/* The exit status of a receiver, a process of its own, or -1: it goes on. */
static int receive(const char *directory)
{
    const struct cp_options opt = { .directory = directory, .json = true };
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (!pid) {
        alarm(LIMIT_S);
        /* The lines are not this program's. */
        assert_non_null(freopen("/dev/null", "w", stdout));
        callers = eventfd(nstreams, EFD_SEMAPHORE | EFD_NONBLOCK);
        _exit(cp_receive(&opt) ? EXIT_SUCCESS : EXIT_FAILURE);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int begin(void **state)
{
    static char directory[] = "test-receive-XXXXXX";

    memset(streams, 0, sizeof(streams));
    nstreams = accepted = closed = 0;
    over = false;
    pthread_mutex_init(&lock, NULL);
    strcpy(directory + sizeof(directory) - 7, "XXXXXX");
    *state = mkdtemp(directory);
    return !*state;
}

static int end(void **state)
{
    pthread_mutex_destroy(&lock);
    return rmdir(*state);
}

TEST(the_silent_keep_nobody_out, cmocka_unit_test_setup_teardown, begin, end)
{
    call(NULL, 1);
    call(NULL, 2);
    call("honest", 3);
    assert_int_equal(receive(*state), EXIT_SUCCESS);
    assert_true(has_come(*state, "honest"));
}

/* There are more places for others. */
TEST(one_card_has_its_share, cmocka_unit_test_setup_teardown, begin, end)
{
    unsigned i;

    for (i = 0; i < MOST - 1; i++) {
        call(NULL, 1);
    }
    call("honest", 2);
    assert_int_equal(receive(*state), EXIT_SUCCESS);
    assert_true(has_come(*state, "honest"));
}

/* Nobody has sent anything, and the time of all has passed. */
TEST(silence_is_a_failure, cmocka_unit_test_setup_teardown, begin, end)
{
    unsigned i;

    for (i = 0; i < SHARE + 1; i++) {
        call(NULL, 1);
    }
    assert_int_equal(receive(*state), EXIT_FAILURE);
}

/* A piece may not be longer than the buffer; no part of the file stays. */
TEST(long_pieces_are_refused, cmocka_unit_test_setup_teardown, begin, end)
{
    struct unetmm_stream *s = call("file", 1);
    const uint64_t length = unetmm_swap64(CP_PIECE + 1);

    memcpy(s->words + sizeof(struct header) + 4, &length, sizeof(length));
    assert_int_equal(receive(*state), EXIT_FAILURE);
    assert_false(has_come(*state, "file"));
}
