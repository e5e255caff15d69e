/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The best that this host can do: copying memory, and a UNIX socket between
 * two processes of the same pattern as two QEMUs, with nothing of them but the
 * pattern.
 *
 * The floor of a latency: in each process one thread waits for the answer as a
 * guest's processor does (it spins, or sleeps on a condition), another sleeps
 * in poll() on the socket, as QEMU's event loop does, and hands over.  It is
 * measured until five runs agree within 20 %, and their spread is printed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FRAME_HEADER    64      /* bytes of a frame before its payload */
#define RUNS            5
#define MOST_RUNS       40      /* until RUNS of them agree */
#define AGREE           1.2
#define MESSAGES        3000

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void die(const char *what)
{
    fprintf(stderr, "bench-host: %s: %s\n", what, strerror(errno));
    exit(EXIT_FAILURE);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static bool all_of(int fd, void *buf, size_t bytes, bool out)
{
    uint8_t *at = buf;

    while (bytes) {
        ssize_t n = out ? write(fd, at, bytes) : read(fd, at, bytes);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return false;
        }
        at += n;
        bytes -= (size_t)n;
    }
    return true;
}

/* ---- The floor of latency ------------------------------------------------- */

struct end {
    int fd;
    bool spin;
    unsigned bytes;
    _Atomic unsigned seen;      /* messages that the reader has taken */
    pthread_mutex_t lock;       /* with `more`: for a waiter that sleeps */
    pthread_cond_t more;
};

static void *reader(void *opaque)
{
    struct end *end = opaque;
    uint8_t *buf = malloc(end->bytes);
    struct pollfd p = { .fd = end->fd, .events = POLLIN };

    while (buf && poll(&p, 1, -1) == 1 &&
           all_of(end->fd, buf, end->bytes, false)) {
        if (end->spin) {
            atomic_fetch_add(&end->seen, 1);
            continue;
        }
        pthread_mutex_lock(&end->lock);
        atomic_fetch_add(&end->seen, 1);
        pthread_cond_signal(&end->more);
        pthread_mutex_unlock(&end->lock);
    }
    free(buf);
    return NULL;
}

static void await(struct end *end, unsigned n)
{
    if (end->spin) {
        while (atomic_load(&end->seen) < n) {
            ;
        }
        return;
    }
    pthread_mutex_lock(&end->lock);
    while (atomic_load(&end->seen) < n) {
        pthread_cond_wait(&end->more, &end->lock);
    }
    pthread_mutex_unlock(&end->lock);
}

/* One end's part; `times` NULL: the one that answers. */
static void play(struct end *end, double *times)
{
    uint8_t *buf = calloc(1, end->bytes);
    pthread_t thread;

    if (!buf || pthread_create(&thread, NULL, reader, end)) {
        die("cannot start a thread");
    }
    for (unsigned i = 0; i < MESSAGES; i++) {
        double start = now_us();

        if (times && !all_of(end->fd, buf, end->bytes, true)) {
            die("write");
        }
        await(end, i + 1);
        if (!times && !all_of(end->fd, buf, end->bytes, true)) {
            die("write");
        }
        if (times) {
            times[i] = (now_us() - start) / 2;
        }
    }
    if (times) {
        shutdown(end->fd, SHUT_RDWR);
    }
    pthread_join(thread, NULL);
    free(buf);
}

static void pingpong(bool spin, unsigned bytes, double *times)
{
    struct end end = {
        .spin = spin, .bytes = bytes,
        .lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER,
    };
    int fds[2], status;
    pid_t child;

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds)) {
        die("socketpair");
    }
    child = fork();
    if (child < 0) {
        die("fork");
    }
    end.fd = fds[child == 0];
    close(fds[child != 0]);
    play(&end, child ? times : NULL);
    close(end.fd);
    if (!child) {
        _exit(0);
    }
    if (waitpid(child, &status, 0) < 0 || status) {
        die("the other process");
    }
    qsort(times, MESSAGES, sizeof(*times), by_value);
}

static void floor_of(bool spin, unsigned bytes, unsigned most)
{
    static double times[MESSAGES];
    double runs[MOST_RUNS], spread = 0, p99 = 0;
    unsigned n = 0;

    while (n < most) {
        double low, high;

        pingpong(spin, bytes + FRAME_HEADER, times);
        runs[n++] = times[MESSAGES / 2];
        p99 = times[MESSAGES * 99 / 100];
        if (n < RUNS) {
            continue;
        }
        low = high = runs[n - 1];
        for (unsigned i = n - RUNS; i < n; i++) {
            low = runs[i] < low ? runs[i] : low;
            high = runs[i] > high ? runs[i] : high;
        }
        spread = high / low;
        if (spread <= AGREE) {
            break;
        }
    }
    qsort(runs + n - RUNS, RUNS, sizeof(*runs), by_value);
    printf("{\"peer\":\"host floor\",\"mode\":\"%s\",\"metric\":\"latency\","
           "\"bytes\":%u,\"frame\":%u,\"median\":%.2f,\"p99\":%.2f,\"n\":%u,"
           "\"unit\":\"us\",\"runs\":%u,\"spread\":%.2f}\n",
           spin ? "spin" : "block", bytes, bytes + FRAME_HEADER,
           runs[n - RUNS + RUNS / 2], p99, MESSAGES, n, spread);
}

/* ---- Bandwidth -------------------------------------------------------------- */

static void copies(size_t bytes)
{
    const unsigned n = 20000;
    uint8_t *from = malloc(bytes), *to = malloc(bytes);
    double best = 0;

    if (!from || !to) {
        die("no memory");
    }
    memset(from, 1, bytes);
    memset(to, 2, bytes);
    for (unsigned run = 0; run < RUNS; run++) {
        double start = now_us(), rate;

        for (unsigned i = 0; i < n; i++) {
            memcpy(to, from, bytes);
            /* The compiler must not see that all but one are in vain. */
            __asm__ volatile("" : : "r"(to) : "memory");
        }
        rate = (double)bytes * n / (now_us() - start);
        best = rate > best ? rate : best;
    }
    free(from);
    free(to);
    printf("{\"peer\":\"host memcpy\",\"mode\":\"one thread\","
           "\"metric\":\"bandwidth\",\"bytes\":%zu,\"frame\":%zu,"
           "\"median\":%.0f,\"p99\":null,\"n\":%u,\"unit\":\"MB/s\"}\n",
           bytes, bytes, best, n);
}

static double stream(size_t bytes, unsigned n)
{
    uint8_t *buf = calloc(1, bytes);
    double start;
    int fds[2], status;
    pid_t child;

    if (!buf || socketpair(AF_UNIX, SOCK_STREAM, 0, fds)) {
        die("socketpair");
    }
    child = fork();
    if (child < 0) {
        die("fork");
    }
    if (!child) {
        bool good = true;

        for (unsigned i = 0; good && i < n; i++) {
            good = all_of(fds[1], buf, bytes, false);
        }
        _exit(good ? 0 : 1);
    }
    close(fds[1]);
    start = now_us();
    for (unsigned i = 0; i < n; i++) {
        if (!all_of(fds[0], buf, bytes, true)) {
            die("write");
        }
    }
    if (waitpid(child, &status, 0) < 0 || status) {
        die("the other process");
    }
    start = now_us() - start;
    close(fds[0]);
    free(buf);
    return (double)bytes * n / start;
}

static void socket_bandwidth(unsigned bytes)
{
    const unsigned n = 200000000u / (bytes + FRAME_HEADER);
    double runs[RUNS];

    for (unsigned i = 0; i < RUNS; i++) {
        runs[i] = stream(bytes + FRAME_HEADER, n);
    }
    qsort(runs, RUNS, sizeof(*runs), by_value);
    printf("{\"peer\":\"host UNIX socket\",\"mode\":\"stream\","
           "\"metric\":\"bandwidth\",\"bytes\":%u,\"frame\":%u,"
           "\"median\":%.0f,\"p99\":null,\"n\":%u,\"unit\":\"MB/s\","
           "\"spread\":%.2f}\n", bytes, bytes, runs[RUNS / 2], n,
           runs[RUNS - 1] / runs[0]);
}

int main(int argc, char **argv)
{
    unsigned long most = argc > 1 ? strtoul(argv[1], NULL, 10) : MOST_RUNS;

    if (argc > 2 || most < RUNS || most > MOST_RUNS) {
        fprintf(stderr, "usage: bench-host [RUNS]\nPrints this host's limits, "
                "one JSON object a line. A latency is of the last 5\nruns of "
                "at most 5 to 40 (40), which end when 5 agree.\n");
        return argc > 1 && !strcmp(argv[1], "--help") ? 0 : 2;
    }
    copies(65536);
    floor_of(true, 8, (unsigned)most);
    floor_of(false, 8, (unsigned)most);
    socket_bandwidth(65536);
    socket_bandwidth(9000);
    return 0;
}
