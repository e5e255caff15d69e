/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Peers that write into memory which is discarded again and again: faults without end.
 * Only the owner of that memory waits; a neighbour, another process on the card, has
 * its faults served in turn, and all of its messages arrive.
 */
#include "card.h"
#include "late.h"
#include "pair.h"
#include "process.h"
#include "raw.h"
#include "watch.h"

#include <libunetmm/inline.h>

#include <linux/capability.h>
#include <linux/userfaultfd.h>
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHANNELS        24u
#define AREA            4u              /* pages for each channel */
#define ID              0x5702
#define SERVICE         (SERVICE_FIRST - 20)
#define SPACES          "/sys/kernel/debug/unetmm/unetmm0/spaces"
#define PATIENCE_NS     ((int64_t)(20 * NS_PER_S * run.slow))

/*
 * The driver's counters of one space's misses (pager/pager.h), the number of spaces, and
 * the sum over all spaces.
 */
struct turns {
    unsigned spaces, most, deferred, asleep, most_workers;
    unsigned long long passed, most_passed;
};

static struct turns turns_of(uint64_t space)
{
    struct turns turns = { 0 };
    FILE *file = fopen(SPACES, "r");
    char line[400];

    CHECK(file);
    while (fgets(line, sizeof(line), file)) {
        const char *deferred = strstr(line, "deferred "), *most, *workers;
        unsigned long long passed;
        unsigned id, active;

        if (sscanf(line, "space %u ", &id) != 1) {
            continue;
        }
        turns.spaces++;
        workers = strstr(line, "workers ");
        CHECK(workers && sscanf(workers, "workers %u", &active) == 1);
        if (active > turns.most_workers) {
            turns.most_workers = active;
        }
        most = strstr(line, "passed ");
        CHECK(most);
        CHECK_EQ(sscanf(most, "passed %llu", &passed), 1);
        if (passed > turns.most_passed) {
            turns.most_passed = passed;
        }
        if (id != space) {
            continue;
        }
        most = strstr(line, "most ");
        CHECK(deferred && most);
        CHECK_EQ(sscanf(deferred, "deferred %u asleep %u", &turns.deferred,
                        &turns.asleep), 2);
        CHECK_EQ(sscanf(most, "most %u passed %llu", &turns.most,
                        &turns.passed), 2);
    }
    fclose(file);
    return turns;
}

/* ---- The storm: a process of its own ------------------------------------------------ */

struct storm_state {
    atomic_bool stop;
    atomic_ullong writes, vanished;
    atomic_uint space;
    atomic_bool answer;
};

static struct storm_state *state;

struct storm {
    struct look look;
    struct unetmm_ctx *ctx;
    struct station from[CHANNELS];
    struct station to;
    unsigned import[CHANNELS];
    uint8_t *memory, *source;
    pthread_t thread;
};

/* Discards the peers' target again and again. */
static void *vanish(void *argument)
{
    struct storm *s = argument;

    while (!atomic_load(&state->stop)) {
        CHECK_SYS(madvise(s->memory, CHANNELS * AREA * PAGE, MADV_DONTNEED));
        atomic_fetch_add(&state->vanished, 1);
    }
    return NULL;
}

/* A channel from each of many endpoints to one, whose misses are many, then. */
static void storm_open(struct storm *s)
{
    static const struct unetmm_channel_attr attr = UNETMM_CHANNEL_ATTR_INIT;
    unsigned i;

    s->ctx = look_open(&s->look);
    s->memory = small_pages(CHANNELS * AREA);
    s->source = small_pages(AREA);
    memset(s->source, 0x77, AREA * PAGE);
    station_open(&s->to, s->ctx, NULL);
    CHECK_RET(unetmm_export(s->ctx, ID, s->memory, CHANNELS * AREA * PAGE,
                            UNETMM_RIGHT_ALL, 0, 0), 0);
    for (i = 0; i < CHANNELS; i++) {
        station_open(&s->from[i], s->ctx, NULL);
        CHECK_RET(try_join(&s->from[i], &s->to, &attr, PATIENCE_NS), 0);
        s->import[i] = import_of(&s->from[i], ID, UNETMM_RIGHT_ALL);
    }
    atomic_store(&state->space, (unsigned)s->look.space);
}

static void storm_write(struct storm *s, unsigned i)
{
    int ret = unetmm_write(s->from[i].ep, s->import[i], i * AREA * PAGE,
                           s->source, AREA * PAGE, 0, i, 0);

    CHECK(!ret || ret == -EAGAIN);
    CHECK_RET(unetmm_ring(s->from[i].ep), 0);
}

static void storm_main(void *argument)
{
    static struct storm s;
    struct unetmm_completion c;
    unsigned i;

    (void)argument;
    storm_open(&s);
    CHECK_EQ(pthread_create(&s.thread, NULL, vanish, &s), 0);
    for (i = 0; i < CHANNELS; i++) {
        storm_write(&s, i);
    }
    while (!atomic_load(&state->stop)) {
        for (i = 0; i < CHANNELS; i++) {
            if (unetmm_poll(s.from[i].ep, &c, 1) == 1) {
                CHECK_EQ(c.status, UNETMM_ST_OK);
                atomic_fetch_add(&state->writes, 1);
                storm_write(&s, i);
            }
        }
    }
    CHECK_EQ(pthread_join(s.thread, NULL), 0);
}

static pid_t storm_start(void)
{
    pid_t pid;

    state = shared_memory(sizeof(*state));
    memset(state, 0, sizeof(*state));
    pid = start_process(storm_main, NULL);
    EVENTUALLY(atomic_load(&state->space));
    return pid;
}

/* ---- Its neighbour --------------------------------------------------------------------- */

/* A fault for each message, alone in its space's line. */
static void neighbour_goes_on(struct pair *p, unsigned n)
{
    uint8_t *from = small_pages(1), *to = small_pages(1);
    unsigned i;

    pattern_fill(from, PAGE, 1, 0);
    CHECK_EQ(unetmm_prefetch(p->ctx, from, PAGE, 0), PAGE);
    for (i = 0; i < n; i++) {
        CHECK_SYS(madvise(to, PAGE, MADV_DONTNEED));
        pass_pattern(p, from, to, PAGE, i);
    }
    unmap_pages(from, 1);
    unmap_pages(to, 1);
}

/*
 * However many misses the storm has waiting, the neighbour's is next but for one of
 * each other space.
 */
TEST(neighbour, TEST_ODP, 60)
{
    unsigned tries = 0, n = rounds(20);
    struct turns ours, theirs;
    struct pair p;
    uint64_t before;
    pid_t pid;

    pair_open(&p);
    pid = storm_start();
    before = faults(&p);
    do {
        neighbour_goes_on(&p, n);
        theirs = turns_of(atomic_load(&state->space));
    } while (++tries < 50 && (faults(&p) - before < 4 * n ||
                              theirs.most <= theirs.spaces + 2));
    ours = turns_of(p.look.space);
    note("%u messages; %llu faults in all, %llu writes, vanished %llu times; at "
         "most %u misses waited there, and %llu were served before one of ours",
         tries * n, (unsigned long long)(faults(&p) - before),
         (unsigned long long)atomic_load(&state->writes),
         (unsigned long long)atomic_load(&state->vanished), theirs.most,
         ours.passed);
    CHECK(theirs.most > ours.spaces + 2);
    CHECK(ours.passed < ours.spaces);
    atomic_store(&state->stop, true);
    end_process(pid);
    pair_close(&p);
}

/* ---- Users ------------------------------------------------------------------------------ */

#define CROWD           8u      /* spaces of one user */
#define OTHER_USER      1000u
#define MOST_CPUS       8

static atomic_bool cpus_free;

/* Gives the caller a higher priority than all threads of the driver. */
static void be_first(int cpu)
{
    struct sched_param param = { .sched_priority = 1 };
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    CHECK_SYS(sched_setaffinity(0, sizeof(set), &set));
    CHECK_SYS(sched_setscheduler(0, SCHED_FIFO, &param));
}

static void *occupy(void *argument)
{
    be_first((int)(intptr_t)argument);
    while (!atomic_load(&cpus_free)) {
    }
    return NULL;
}

static void send_absent(struct link *link)
{
    struct iovec iov = { small_pages(1), PAGE };

    send_pieces(link->tx, &iov, 1, 1, 0);
}

/* All have a miss before the driver sees the first; ours is the last. */
static void send_all(struct link *links, unsigned n)
{
    struct sched_param other = { 0 };
    pthread_t threads[MOST_CPUS];
    cpu_set_t set;
    int cpu, cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t end;
    unsigned i;

    CHECK(cpus <= MOST_CPUS);
    atomic_store(&cpus_free, false);
    for (cpu = 1; cpu < cpus; cpu++) {
        CHECK_EQ(pthread_create(&threads[cpu], NULL, occupy,
                                (void *)(intptr_t)cpu), 0);
    }
    CHECK_SYS(sched_getaffinity(0, sizeof(set), &set));
    be_first(0);
    for (i = 0; i < n; i++) {
        send_absent(&links[i]);
    }
    end = now_ns() + 50 * NS_PER_MS * run.slow;
    while (now_ns() < end) {
    }
    atomic_store(&cpus_free, true);
    CHECK_SYS(sched_setscheduler(0, SCHED_OTHER, &other));
    CHECK_SYS(sched_setaffinity(0, sizeof(set), &set));
    for (cpu = 1; cpu < cpus; cpu++) {
        CHECK_EQ(pthread_join(threads[cpu], NULL), 0);
    }
}

/* However many spaces another user has, our miss is next but for one of them. */
TEST(users, TEST_ODP)
{
    struct link links[CROWD + 1];
    struct turns ours = { 0 };
    struct unetmm_ctx *ctx;
    struct look look;
    unsigned i, tries;

    /* The real user is the one that counts; the other rights stay. */
    CHECK_SYS(setresuid(OTHER_USER, 0, 0));
    ctx = look_open(&look);
    CHECK_SYS(setresuid(0, 0, 0));
    for (i = 0; i < CROWD; i++) {
        link_open(&links[i], NULL, NULL);
    }
    link_open(&links[CROWD], ctx, NULL);
    for (tries = 0; tries < 20 && ours.most_passed < CROWD - 1; tries++) {
        uint64_t before = driver_counter(ctx, UNETMM_D_faults);

        send_all(links, CROWD + 1);
        EVENTUALLY(driver_counter(ctx, UNETMM_D_faults) - before > CROWD);
        ours = turns_of(look.space);
    }
    note("%llu were served before one of ours, and %llu before another's",
         ours.passed, ours.most_passed);
    CHECK(ours.most_passed >= CROWD - 1);
    CHECK(ours.passed < 2);
    for (i = 0; i < CROWD; i++) {
        link_close(&links[i]);
    }
    link_close(&links[CROWD]);
    look_close(&look);
    CHECK_RET(unetmm_close(ctx), 0);
}

/* ---- Pages that do not come ------------------------------------------------------------- */

#define MOST_THREADS    6u

/* Threads of the driver's that page in for the storm */
static unsigned asleep(void)
{
    return turns_of(atomic_load(&state->space)).asleep;
}

/* All peers write to memory that somebody else brings, when he is told to. */
static void held_main(void *argument)
{
    static uint8_t zeros[UNETMM_PAGE_BYTES];
    static struct storm s;
    struct unetmm_completion c;
    unsigned i, page, done = 0;
    struct watch watch;
    bool protect;

    (void)argument;
    storm_open(&s);
    watch_start(&watch, s.memory, CHANNELS * AREA,
                UFFDIO_REGISTER_MODE_MISSING);
    for (i = 0; i < CHANNELS; i++) {
        storm_write(&s, i);
    }
    EVENTUALLY(atomic_load(&state->answer));
    while (done < CHANNELS) {
        if (watch_wanted(&watch, 1, &page, &protect)) {
            watch_bring(&watch, page, zeros);
        }
        for (i = 0; i < CHANNELS; i++) {
            if (unetmm_poll(s.from[i].ep, &c, 1) == 1) {
                CHECK_EQ(c.status, UNETMM_ST_OK);
                done++;
            }
        }
    }
    watch_end(&watch);
    CHECK_BYTES(s.memory, CHANNELS * AREA * PAGE, 0x77);
}

/* Starts a process with more misses than the threads that may wait for its pages. */
static pid_t hold_many(struct pair *p)
{
    uint64_t before;
    pid_t pid;

    pair_open(p);
    set_parameter("page_ins", MOST_THREADS);
    before = driver_counter(p->ctx, UNETMM_D_faults_over);
    state = shared_memory(sizeof(*state));
    memset(state, 0, sizeof(*state));
    pid = start_process(held_main, NULL);
    EVENTUALLY(driver_counter(p->ctx, UNETMM_D_faults_over) - before >=
               CHANNELS - MOST_THREADS);
    return pid;
}

/*
 * So many threads wait for pages of a process, and no more; the rest of its
 * misses wait, and are all served in the end.  The neighbour goes on meanwhile.
 */
TEST(page_ins, TEST_ODP)
{
    struct pair p;
    pid_t pid = hold_many(&p);

    CHECK_EQ(turns_of(atomic_load(&state->space)).deferred, CHANNELS);
    /* Threads are made as they are wanted. */
    EVENTUALLY(asleep() == MOST_THREADS);
    neighbour_goes_on(&p, rounds(20));
    /* The neighbour may have had one of its own. */
    EVENTUALLY(asleep() == MOST_THREADS);
    atomic_store(&state->answer, true);
    end_process(pid);
    EVENTUALLY(!asleep());
    set_parameter("page_ins", 16);
    pair_close(&p);
}

/* A process that is killed with many requests waiting leaves none behind. */
TEST(killed_with_many, TEST_ODP)
{
    struct pair p;
    pid_t pid = hold_many(&p);

    CHECK_SYS(kill(pid, SIGKILL));
    await_process(pid);
    EVENTUALLY(!asleep());
    neighbour_goes_on(&p, 3);
    set_parameter("page_ins", 16);
    pair_close(&p);
}

static void limited_main(void *argument)
{
    drop_capability(CAP_SYS_RESOURCE);
    held_main(argument);
}

/* So many threads wait for pages of all of a user's processes. */
TEST(user_threads, TEST_ODP)
{
    struct pair p;
    uint64_t before;
    pid_t pid;

    pair_open(&p);
    set_parameter("user_threads", 2);
    before = driver_counter(p.ctx, UNETMM_D_faults_over);
    state = shared_memory(sizeof(*state));
    memset(state, 0, sizeof(*state));
    pid = start_process(limited_main, NULL);
    EVENTUALLY(driver_counter(p.ctx, UNETMM_D_faults_over) - before >=
               CHANNELS - 2);
    CHECK_EQ(turns_of(atomic_load(&state->space)).deferred, CHANNELS);
    EVENTUALLY(asleep() == 2);
    neighbour_goes_on(&p, rounds(20));
    atomic_store(&state->answer, true);
    end_process(pid);
    EVENTUALLY(!asleep());
    set_parameter("user_threads", 256);
    pair_close(&p);
}

/* ---- Places for misses ------------------------------------------------------------------- */

#define CROWDED         24u     /* endpoints of one process */
#define BUFFERS         8u      /* that the card looks at ahead, of each */

struct crowded {
    struct raw raws[CROWDED];
    struct late late;
    int fd;
};

/* Each endpoint has buffers in memory that does not come. */
static void crowded_open(struct crowded *c)
{
    struct unetmm_space space = {
        .size = sizeof(space), .source = run.source,
    };
    unsigned i, k;

    late_make(&c->late, CROWDED * BUFFERS);
    c->fd = raw_open_file();
    CHECK_RET(raw_ioctl(c->fd, UNETMM_IOC_SPACE, &space), 0);
    for (i = 0; i < CROWDED; i++) {
        raw_endpoint(&c->raws[i], c->fd);
        for (k = 0; k < BUFFERS; k++) {
            *raw_fqe(&c->raws[i], c->raws[i].fq_prod++) = (struct unetmm_fqe) {
                .addr = (uintptr_t)c->late.at + (i * BUFFERS + k) * PAGE,
                .len = PAGE, .cookie = k,
            };
        }
        raw_submit(&c->raws[i]);
    }
    atomic_store(&state->space, space.id);
}

static void crowded_main(void *argument)
{
    static struct crowded c;

    (void)argument;
    drop_capability(CAP_SYS_RESOURCE);
    crowded_open(&c);
    EVENTUALLY(atomic_load(&state->stop));
}

static pid_t crowded_start(void (*body)(void *argument))
{
    pid_t pid;

    state = shared_memory(sizeof(*state));
    memset(state, 0, sizeof(*state));
    pid = start_process(body, NULL);
    EVENTUALLY(atomic_load(&state->space));
    return pid;
}

/*
 * However many misses of one process wait for memory, each has its place: another
 * process's are served, and the card is not told to ask again.
 */
TEST(places, TEST_ODP)
{
    struct pair p;
    uint64_t before;
    pid_t pid;

    pair_open(&p);
    before = faults(&p);
    pid = crowded_start(crowded_main);
    EVENTUALLY(faults(&p) - before >= CROWDED * BUFFERS);
    neighbour_goes_on(&p, rounds(20));
    CHECK_EQ(turns_of(atomic_load(&state->space)).deferred, CROWDED * BUFFERS);
    before = faults(&p);
    idle_ns(500 * NS_PER_MS);
    CHECK_EQ(faults(&p) - before, 0);
    atomic_store(&state->stop, true);
    end_process(pid);
    pair_close(&p);
}

/* The endpoints are closed; the file is open, so the driver sleeps for their pages still. */
static void closed_main(void *argument)
{
    static struct crowded c;
    unsigned i;

    (void)argument;
    crowded_open(&c);
    EVENTUALLY(turns_of(atomic_load(&state->space)).deferred ==
               CROWDED * BUFFERS);
    for (i = 0; i < CROWDED; i++) {
        raw_close_endpoint(&c.raws[i]);
    }
    atomic_store(&state->answer, true);
    EVENTUALLY(atomic_load(&state->stop));
}

/*
 * Others get the numbers of misses that the card has forgotten, while the driver waits
 * for their pages: these misses are served, and the old ones are no more.
 */
TEST(numbers_again, TEST_ODP)
{
    struct turns turns;
    struct pair p;
    pid_t pid;

    pid = crowded_start(closed_main);
    EVENTUALLY(atomic_load(&state->answer));
    pair_open(&p);
    neighbour_goes_on(&p, rounds(20));
    pair_close(&p);
    turns = turns_of(atomic_load(&state->space));
    note("%u of %u misses are waited for still", turns.deferred,
         CROWDED * BUFFERS);
    CHECK(turns.deferred < CROWDED * BUFFERS);
    atomic_store(&state->stop, true);
    end_process(pid);
}

/* ---- Workers that are slow --------------------------------------------------------------- */

#define POOL            8u      /* workers: as few as a card may have */
#define LINKS           12u     /* spaces of one user, more than workers */
#define MISSES          150u

/* The driver's workers, whatever their number, run when nobody else wants to. */
static void make_workers_slow(void)
{
    struct sched_param param = { 0 };
    struct dirent *entry;
    char path[300], name[32];
    DIR *all = opendir("/proc");
    FILE *file;

    CHECK(all);
    while ((entry = readdir(all))) {
        snprintf(path, sizeof(path), "/proc/%s/comm", entry->d_name);
        file = atoi(entry->d_name) > 0 ? fopen(path, "r") : NULL;
        if (!file) {
            continue;
        }
        if (fgets(name, sizeof(name), file) && strstr(name, "-pager")) {
            sched_setscheduler(atoi(entry->d_name), SCHED_IDLE, &param);
        }
        fclose(file);
    }
    closedir(all);
}

static void *be_busy(void *argument)
{
    (void)argument;
    while (!atomic_load(&state->stop)) {
    }
    return NULL;
}

/* One miss at a time in each of many spaces, and all processors busy. */
static void slow_main(void *argument)
{
    static struct link links[LINKS];
    struct unetmm_completion c;
    struct iovec iov[LINKS];
    pthread_t threads[MOST_CPUS];
    int i, cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);

    (void)argument;
    drop_capability(CAP_SYS_RESOURCE);
    for (i = 0; i < (int)LINKS; i++) {
        link_open(&links[i], NULL, NULL);
        iov[i] = (struct iovec) { small_pages(1), PAGE };
        send_pieces(links[i].tx, &iov[i], 1, 1, 0);
    }
    CHECK(cpus <= MOST_CPUS);
    for (i = 0; i < cpus; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, be_busy, NULL), 0);
    }
    while (!atomic_load(&state->stop)) {
        for (i = 0; i < (int)LINKS; i++) {
            if (take_now(links[i].tx, UNETMM_CQE_SENT, &c)) {
                CHECK_SYS(madvise(iov[i].iov_base, PAGE, MADV_DONTNEED));
                send_pieces(links[i].tx, &iov[i], 1, 1, 0);
                atomic_fetch_add(&state->writes, 1);
            }
        }
    }
    for (i = 0; i < cpus; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
}

/*
 * Workers that are in the middle of a miss when their time is over stay there, and
 * others are woken: half of the pool at most for one user.
 */
TEST(workers, TEST_TLB | TEST_NO_CARD, 200)
{
    uint64_t end = deadline_in(180);
    unsigned most, until = 0;
    pid_t pid;

    card_find();
    CHECK_RET(card_unbind(), 0);
    set_parameter("pager_workers", POOL);
    CHECK_RET(card_bind(), 0);
    state = shared_memory(sizeof(*state));
    memset(state, 0, sizeof(*state));
    pid = start_process(slow_main, NULL);
    do {
        CHECK(now_ns() < end);
        make_workers_slow();
        breathe();
        most = turns_of(0).most_workers;
        if (!until && most >= POOL / 2) {
            until = (unsigned)atomic_load(&state->writes) + MISSES;
        }
    } while (!until || atomic_load(&state->writes) < until);
    note("%u misses, at most %u workers at one time", until, most);
    atomic_store(&state->stop, true);
    end_process(pid);
    CHECK_EQ(most, POOL / 2);
    CHECK_RET(card_unbind(), 0);
    set_parameter("pager_workers", 128);
    CHECK_RET(card_bind(), 0);
}
