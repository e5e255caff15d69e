/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Costs that source shadow adds to page faults and to unmapping: in a process
 * that uses it, in one that does not while another one does, and where nobody
 * does.  And how long a thread that unmaps pages waited for the card's lock.
 *
 * A fault's page comes into the table by a work of the driver's afterwards, which
 * is no part of the fault's time; of instructions it is a row of its own.
 */
#include "local.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PASSES      5u
#define LEAST       16u
#define MOST        65536u
#define WAITS       "/sys/kernel/debug/unetmm/unetmm0/shadow_waits"
#define AREA        2u          /* pages that are sent and taken away */
#define SECOND      1000000000ll

enum who { NOBODY, ANOTHER, ITSELF, WHOS };

static const char *const who_names[WHOS] = {
    "nobody uses shadow", "another process does", "the process does",
};

struct costs {
    int64_t fault, push, unmap;     /* push: from the first fault on */
};

static int64_t stamp(void)
{
    return counts_instructions() ? (int64_t)ticks() : now_ns();
}

static uint8_t *reserve(size_t bytes)
{
    uint8_t *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED || madvise(at, bytes, MADV_NOHUGEPAGE)) {
        die("no memory: boot the guest with more");
    }
    return at;
}

/* Until the driver has entered so many pages since `was`. */
static void await_push(uint64_t was, unsigned pages)
{
    int64_t end = now_ns() + 10 * SECOND;

    while (driver(UNETMM_D_shadow_set) - was < pages) {
        sched_yield();
        if (now_ns() > end) {
            die("a touched page is not in the table after ten seconds");
        }
    }
}

static void least(int64_t *value, int64_t took)
{
    *value = took < *value ? took : *value;
}

static void once(unsigned pages, bool pushed, struct costs *costs)
{
    uint64_t was = pushed ? driver(UNETMM_D_shadow_set) : 0;
    uint8_t *at = reserve(pages * PAGE);
    int64_t start = stamp();

    for (unsigned i = 0; i < pages; i++) {
        ((volatile uint8_t *)at)[i * PAGE] = 1;
    }
    least(&costs->fault, stamp() - start);
    if (pushed) {
        await_push(was, pages);
        least(&costs->push, stamp() - start);
    }
    start = stamp();
    if (madvise(at, pages * PAGE, MADV_DONTNEED)) {
        die("madvise() fails");
    }
    least(&costs->unmap, stamp() - start);
    munmap(at, pages * PAGE);
}

static void report(const char *what, enum who who, int64_t cost,
                   unsigned pages)
{
    bool counted = counts_instructions();

    printf("{\"peer\":\"Linux, one guest\",\"mode\":\"%s, %s\","
           "\"metric\":\"%s\",\"bytes\":%zu,\"frame\":0,\"median\":%.3f,"
           "\"p99\":null,\"n\":%u,\"unit\":\"%s\",\"push\":\"%s\","
           "\"who\":%u,\"statistic\":\"mean of the best pass\"}\n", what,
           who_names[who], counted ? "instructions" : "page", PAGE,
           (double)cost / pages / (counted ? 1 : 1000), pages,
           counted ? "instructions" : "us", what, who);
    fflush(stdout);
}

static void passes(enum who who, unsigned pages)
{
    struct costs costs = { INT64_MAX, INT64_MAX, INT64_MAX };

    for (unsigned i = 0; i < PASSES; i++) {
        once(pages, who == ITSELF, &costs);
    }
    report("page fault", who, costs.fault, pages);
    if (who == ITSELF) {
        report("page fault and push", who, costs.push, pages);
    }
    report("unmap", who, costs.unmap, pages);
}

/* A process that uses source shadow until it is killed. */
static pid_t user_of_shadow(void)
{
    int ready[2];
    pid_t pid;
    char byte = 0;

    if (pipe(ready)) {
        die("no pipe");
    }
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        check(unetmm_open(NULL, UNETMM_SOURCE_SHADOW, &ctx),
              UNETMM_CALL_OPEN);
        if (write(ready[1], &byte, 1) != 1) {
            _exit(EXIT_FAILURE);
        }
        for (;;) {
            pause();
        }
    }
    close(ready[1]);
    if (pid < 0 || read(ready[0], &byte, 1) != 1) {
        die("the other process did not begin");
    }
    close(ready[0]);
    return pid;
}

void push(unsigned pages)
{
    int status;
    pid_t pid;

    if (pages < LEAST || pages > MOST || strcmp(source_name, "shadow")) {
        die("source shadow, 16 to 65536 pages");
    }
    check(unetmm_close(ctx), UNETMM_CALL_ANY);
    passes(NOBODY, pages);
    pid = user_of_shadow();
    passes(ANOTHER, pages);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    check(unetmm_open(NULL, UNETMM_SOURCE_SHADOW, &ctx), UNETMM_CALL_OPEN);
    passes(ITSELF, pages);
}

/* ---- Waiting for the card ------------------------------------------------------- */

struct sender {
    uint8_t *at;
    struct unetmm_ep *ep;
    unsigned channel;
    atomic_bool stop;
};

static void *send_for_ever(void *argument)
{
    struct sender *s = argument;

    while (!atomic_load(&s->stop)) {
        check(unetmm_send(s->ep, s->channel, s->at, AREA * PAGE, 0, 0),
              UNETMM_CALL_SEND);
        await(s->ep, 1u << UNETMM_CQE_SENT);
    }
    return NULL;
}

/* The file's lines, as a JSON object: nanoseconds, and how many waited as long. */
static void print_histogram(void)
{
    FILE *file = fopen(WAITS, "r");
    uint64_t ns, n;
    const char *comma = "";

    printf("{");
    while (file && fscanf(file, " %" SCNu64 " ns and more: %" SCNu64, &ns,
                          &n) == 2) {
        printf("%s\"%" PRIu64 "\":%" PRIu64, comma, ns, n);
        comma = ",";
    }
    printf("}");
    if (file) {
        fclose(file);
    }
}

/*
 * Takes two pages away n times while messages are sent from them.  Messages are
 * dropped where they arrive: no buffer is posted.
 */
void waits(unsigned n)
{
    struct sender s = { .at = reserve(AREA * PAGE) };
    uint64_t was = driver(UNETMM_D_shadow_waits);
    uint64_t ns = driver(UNETMM_D_shadow_wait_ns);
    pthread_t thread;

    memset(s.at, 1, AREA * PAGE);
    check(unetmm_ep_create(ctx, NULL, &s.ep), UNETMM_CALL_EP_CREATE);
    s.channel = (unsigned)join(s.ep, s.ep);
    if (pthread_create(&thread, NULL, send_for_ever, &s)) {
        die("the system has no thread left");
    }
    for (unsigned i = 0; i < n; i++) {
        if (madvise(s.at, AREA * PAGE, MADV_DONTNEED)) {
            die("madvise() fails");
        }
        memset(s.at, 1, AREA * PAGE);
    }
    atomic_store(&s.stop, true);
    pthread_join(thread, NULL);
    printf("{\"peer\":\"Linux, one guest\",\"mode\":\"unmaps that waited for "
           "the card\",\"metric\":\"waits\",\"bytes\":%zu,\"frame\":0,"
           "\"median\":%" PRIu64 ",\"p99\":null,\"n\":%u,\"unit\":\"waits\","
           "\"wait_ns\":%" PRIu64 ",\"longest_ns\":%" PRIu64 ",\"histogram\":",
           PAGE, driver(UNETMM_D_shadow_waits) - was, n,
           driver(UNETMM_D_shadow_wait_ns) - ns,
           driver(UNETMM_D_shadow_wait_max_ns));
    print_histogram();
    printf("}\n");
    fflush(stdout);
    check(unetmm_ep_destroy(s.ep), UNETMM_CALL_ANY);
    munmap(s.at, AREA * PAGE);
}
