/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Processes that die, and limits on their pins.
 *
 * Whatever state a process is killed in, its endpoints leave the card and its
 * pages are unpinned; others on the card do not notice.
 */
#include "late.h"
#include "link.h"
#include "raw.h"
#include "traffic.h"

#include <unetmm_hw.h>

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- The work of a process until it is killed -------------------------------------- */

static atomic_uint *ready;
static atomic_int *watcher;     /* the victim's userfaultfd */
static const uint8_t nobody[6] = { 0x52, 0x54, 0x00, 0xff, 0xfe, 0xfd };

static void post_forever(struct link *l)
{
    uint8_t *at = pages(64);
    struct unetmm_completion c;
    unsigned i;

    reach(l->ctx, at, 64 * PAGE, true);
    for (i = 0; ; i++) {
        unetmm_post_recv(l->rx->ep, at + i % 63 * PAGE, PAGE + 5, i, 0);
        unetmm_send(l->tx->ep, l->tx->channel, at + i % 62 * PAGE, 2 * PAGE,
                    i, 0);
        while (unetmm_poll(l->tx->ep, &c, 1) > 0) {
        }
        while (unetmm_poll(l->rx->ep, &c, 1) > 0) {
        }
        atomic_store(ready, 1);
    }
}

/* Nobody takes completions: the queue is full, sends wait. */
static void flood_forever(struct link *l)
{
    uint8_t *at = pages(4);

    reach(l->ctx, at, 4 * PAGE, true);
    for (;;) {
        unetmm_send(l->tx->ep, l->tx->channel, at + 5, 2 * PAGE, 0, 0);
        unetmm_ring(l->tx->ep);
        atomic_store(ready, 1);
    }
}

static void wait_forever(struct link *l)
{
    struct unetmm_completion c;

    atomic_store(ready, 1);
    unetmm_wait(l->rx->ep, &c, 1, -1);
}

static void accept_forever(struct link *l)
{
    CHECK_RET(unetmm_listen_ex(l->rx->ep, 0x4ea1, 1, &datagram_attr), 0);
    atomic_store(ready, 1);
    unetmm_accept(l->rx->ep, NULL, -1);
}

static void connect_forever(struct link *l)
{
    atomic_store(ready, 1);
    unetmm_connect_ex(l->tx->ep, nobody, 77, -1, &datagram_attr, NULL);
}

static void probe_forever(struct link *l)
{
    atomic_store(ready, 1);
    unetmm_probe(l->ctx, nobody, -1, NULL);
}

/* A userfaultfd that watches pages. */
static int watch(uint8_t *at, unsigned npages)
{
    struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };
    struct uffdio_api api = { .api = UFFD_API };
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

    CHECK(fd >= 0);
    CHECK_SYS(ioctl(fd, UFFDIO_API, &api));
    reg.range.start = (uintptr_t)at;
    reg.range.len = npages * PAGE;
    CHECK_SYS(ioctl(fd, UFFDIO_REGISTER, &reg));
    return fd;
}

/* Memory that never comes. */
static uint8_t *never(unsigned npages)
{
    uint8_t *at = pages(npages);

    atomic_store(watcher, watch(at, npages));
    return at;
}

static void fault_forever(struct link *l)
{
    uint8_t *at = never(8);
    unsigned i;

    for (i = 1; i < 8; i++) {
        post(l->rx, at + i * PAGE, PAGE, i);
    }
    send_pieces(l->tx, &(struct iovec) { at, PAGE }, 1, 1, 0);
    EVENTUALLY(ep_counter(l->tx, UNETMM_C_faults_deferred) == 1 &&
               ep_counter(l->rx, UNETMM_C_faults_deferred) > 0);
    atomic_store(ready, 1);
    pause();
}

static void register_forever(struct link *l)
{
    uint8_t *at = never(4);

    atomic_store(ready, 1);
    unetmm_register(l->ctx, at, 4 * PAGE, UNETMM_REGION_WRITE);
    pause();
}

static void prefetch_forever(struct link *l)
{
    uint8_t *at = never(4);

    atomic_store(ready, 1);
    unetmm_prefetch(l->ctx, at, 4 * PAGE, UNETMM_PREFETCH_WRITE);
    pause();
}

static void remap_forever(struct link *l)
{
    uint8_t *at = pages(4);
    struct unetmm_completion c;

    for (;;) {
        unetmm_post_recv(l->rx->ep, at + 100, 2 * PAGE, 0, 0);
        unetmm_send(l->tx->ep, l->tx->channel, at, 2 * PAGE, 0, 0);
        CHECK_SYS(mmap(at, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE |
                       MAP_ANONYMOUS | MAP_FIXED, -1, 0));
        while (unetmm_poll(l->tx->ep, &c, 1) > 0 ||
               unetmm_poll(l->rx->ep, &c, 1) > 0) {
        }
        atomic_store(ready, 1);
    }
}

static void create_forever(struct link *l)
{
    struct unetmm_ep *ep;
    struct unetmm_ctx *ctx;

    for (;;) {
        CHECK_RET(unetmm_ep_create(l->ctx, NULL, &ep), 0);
        CHECK_RET(unetmm_ep_destroy(ep), 0);
        CHECK_RET(unetmm_open(NULL, run.source, &ctx), 0);
        CHECK_RET(unetmm_close(ctx), 0);
        atomic_store(ready, 1);
    }
}

struct victim {
    void (*act)(struct link *link);
    bool ends;                  /* returns from main instead */
    bool watched;               /* its userfaultfd outlives it */
};

static void *act_thread(void *argument)
{
    struct victim *victim = argument;
    struct link link;

    link_open(&link, NULL, NULL);
    victim->act(&link);
    return NULL;
}

static void victim_main(void *argument)
{
    struct victim *victim = argument;
    uint64_t end = deadline_in(10);
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, act_thread, argument), 0);
    if (!victim->ends) {
        pthread_join(thread, NULL);
    }
    while (!atomic_load(ready)) {
        CHECK(now_ns() < end);
        breathe();
    }
}


static unsigned live_endpoints(void)
{
    FILE *file = fopen("/sys/kernel/debug/unetmm/unetmm0/endpoints", "r");
    unsigned count = 0;
    char line[200];

    while (file && fgets(line, sizeof(line), file)) {
        count += !strncmp(line, "endpoint", 8);
    }
    if (file) {
        fclose(file);
    }
    return count;
}

/* Takes over the victim's userfaultfd, and never answers. */
static int take_watcher(pid_t pid)
{
    int process = (int)CHECK_SYS(syscall(SYS_pidfd_open, pid, 0));
    int fd = (int)CHECK_SYS(syscall(SYS_pidfd_getfd, process,
                                    atomic_load(watcher), 0));

    close(process);
    return fd;
}

static void kill_in(struct victim victim, unsigned times)
{
    struct unetmm_ctx *observer;
    struct chance chance;
    struct crowd crowd;
    uint64_t pinned;
    unsigned i, endpoints = live_endpoints();
    int fd = -1;
    pid_t pid;

    chance_init(&chance, 0);
    ready = shared_memory(sizeof(*ready));
    watcher = shared_memory(sizeof(*watcher));
    CHECK_RET(unetmm_open(NULL, UNETMM_OBSERVE, &observer), 0);
    pinned = driver_counter(observer, UNETMM_D_pinned_now);
    for (i = 0; i < times; i++) {
        atomic_store(ready, 0);
        victim.ends = i % 4 == 3 && !victim.watched;
        pid = start_process(victim_main, &victim);
        EVENTUALLY(atomic_load(ready));
        if (victim.watched) {
            fd = take_watcher(pid);
        }
        idle_ns(chance_below(&chance, 3000) * NS_PER_US);
        if (!victim.ends) {
            CHECK_SYS(kill(pid, SIGKILL));
        }
        await_process(pid);
        EVENTUALLY(driver_counter(observer, UNETMM_D_pinned_now) <= pinned);
        EVENTUALLY(live_endpoints() == endpoints);
        if (victim.watched) {
            close(fd);
        }
    }
    CHECK_RET(unetmm_close(observer), 0);
    /* The rest works. */
    crowd_start(&crowd, 1);
    crowd_stop(&crowd);
}

#define KILL_TEST(name, what, variants) \
    TEST(name, variants) \
    { \
        kill_in((struct victim) { .act = what }, rounds(8)); \
    }
KILL_TEST(kill_post, post_forever, TEST_ALL | TEST_UTLB | TEST_SHADOW | TEST_ODP | TEST_POLICIES)
KILL_TEST(kill_flood, flood_forever, TEST_ALL | TEST_UTLB | TEST_SHADOW | TEST_ODP)
KILL_TEST(kill_wait, wait_forever, TEST_MISS | TEST_SHADOW | TEST_ODP)
KILL_TEST(kill_accept, accept_forever, TEST_MISS)
KILL_TEST(kill_connect, connect_forever, TEST_MISS)
KILL_TEST(kill_probe, probe_forever, TEST_MISS)
KILL_TEST(kill_fault, fault_forever, TEST_MISS | TEST_SHADOW | TEST_ODP | TEST_POLICIES)
KILL_TEST(kill_register, register_forever, TEST_PINNED)
KILL_TEST(kill_prefetch, prefetch_forever, TEST_SHADOW | TEST_ODP)
KILL_TEST(kill_remap, remap_forever, TEST_MISS | TEST_SHADOW | TEST_ODP)
KILL_TEST(kill_create, create_forever, TEST_ALL | TEST_UTLB | TEST_SHADOW | TEST_ODP)

/* The process that should bring the pages lives on, and does not. */
TEST(kill_watched, TEST_MISS)
{
    kill_in((struct victim) { .act = fault_forever, .watched = true },
            rounds(8));
}

/* Sends until n posted buffers have come back, filled or not. */
static void use_buffers(struct link *link, const uint8_t *from, unsigned n)
{
    uint64_t end = deadline_in(10);
    struct unetmm_completion c;
    unsigned back = 0;

    while (back < n) {
        CHECK(now_ns() < end);
        CHECK_EQ(send_status(link->tx, from, PAGE), UNETMM_ST_OK);
        while (take_now(link->rx, UNETMM_CQE_RECEIVED, &c) ||
               take_now(link->rx, UNETMM_CQE_BUFFER, &c)) {
            back++;
        }
    }
}

/*
 * A userfaultfd is closed while pages that it watches are missed: they come as
 * if it had never been.  While it is being closed a fault can be neither
 * served nor refused, which must not hold up anyone.
 */
TEST(watcher_leaves, TEST_MISS)
{
    struct unetmm_completion c;
    struct chance chance;
    struct link link;
    uint8_t *at = pages(8);
    unsigned i, n;
    int fd;

    chance_init(&chance, 0);
    link_open(&link, NULL, NULL);
    reach(link.ctx, at, 8 * PAGE, true);
    for (i = 0; i < rounds(100); i++) {
        fd = watch(at, 8);
        for (n = 0; n < 4; n++) {
            post(link.rx, at + n * PAGE, PAGE, n);
            send_pieces(link.tx, &(struct iovec) { at + (n + 4) * PAGE, PAGE },
                        1, n, 0);
        }
        idle_ns(chance_below(&chance, 400) * NS_PER_US);
        close(fd);
        for (n = 0; n < 4; n++) {
            take(link.tx, UNETMM_CQE_SENT, &c);
            CHECK_EQ(c.status, UNETMM_ST_OK);
        }
        use_buffers(&link, at, 4);
        CHECK_SYS(madvise(at, 8 * PAGE, MADV_DONTNEED));
    }
    link_close(&link);
}

/* Several die at the same moment while others talk. */
TEST(kill_many, TEST_ALL | TEST_SHADOW | TEST_ODP)
{
    struct victim victim = { .act = post_forever };
    struct crowd crowd;
    unsigned i, k;
    pid_t pids[3];

    ready = shared_memory(sizeof(*ready));
    crowd_start(&crowd, 1);
    for (i = 0; i < rounds(6); i++) {
        atomic_store(ready, 0);
        for (k = 0; k < 3; k++) {
            pids[k] = start_process(victim_main, &victim);
        }
        EVENTUALLY(atomic_load(ready));
        crowd_await(&crowd, 5);
        for (k = 0; k < 3; k++) {
            CHECK_SYS(kill(pids[k], SIGKILL));
        }
        for (k = 0; k < 3; k++) {
            await_process(pids[k]);
        }
        crowd_await(&crowd, 5);
    }
    crowd_stop(&crowd);
}

/* exec closes the library's descriptors. */
static void exec_main(void *argument)
{
    struct link link;

    (void)argument;
    link_open(&link, NULL, NULL);
    post(link.rx, pages(1), PAGE, 1);
    execl("/bin/true", "true", (char *)NULL);
    FAIL("exec");
}

TEST(exec_closes, TEST_ALL | TEST_UTLB | TEST_SHADOW | TEST_ODP)
{
    end_process(start_process(exec_main, NULL));
}

/* ---- Memory that its owner has left ------------------------------------------------------ */

/* An endpoint with two buffers: a page that is pinned, and one that never comes. */
static void leave_buffers(struct raw *raw)
{
    uint8_t *at[2] = { pages(1), never(1) };
    unsigned i;

    raw_open(raw);
    for (i = 0; i < 2; i++) {
        *raw_fqe(raw, raw->fq_prod++) = (struct unetmm_fqe) {
            .addr = (uintptr_t)at[i], .len = PAGE, .cookie = i,
        };
    }
    raw_submit(raw);
    atomic_store(ready, 1);
    while (atomic_load(ready) == 1) {
        breathe();
    }
}

/* The queues stay mapped, and are the last to hold the file. */
static void close_and_wait(void *argument)
{
    struct raw raw;

    (void)argument;
    leave_buffers(&raw);
    close(raw.fd);
    atomic_store(ready, 3);
    pause();
}

/* The other program has the descriptor, and nothing of the memory. */
static void execute_with_file(void *argument)
{
    struct raw raw;

    (void)argument;
    leave_buffers(&raw);
    CHECK_SYS(fcntl(raw.fd, F_SETFD, 0));
    atomic_store(ready, 3);
    execl("/bin/sleep", "sleep", "1000", (char *)NULL);
    FAIL("exec");
}

/* Waits until the driver wants the page that never comes. */
static int await_sleep(pid_t pid)
{
    struct pollfd entry = { .events = POLLIN };

    EVENTUALLY(atomic_load(ready) == 1);
    entry.fd = take_watcher(pid);
    CHECK_EQ(poll(&entry, 1, 10000 * (int)run.slow), 1);
    return entry.fd;
}

/*
 * While a thread of the driver sleeps for a page of the process, the process leaves its
 * memory, and no close says so: the driver ends the sleep.  Without that nobody could
 * free the memory before the watcher of the page does.
 */
static void left_memory(void (*body)(void *argument), bool dies)
{
    unsigned i, endpoints = live_endpoints();
    struct unetmm_ctx *observer;
    uint64_t pinned;
    pid_t pid;
    int fd;

    ready = shared_memory(sizeof(*ready));
    watcher = shared_memory(sizeof(*watcher));
    CHECK_RET(unetmm_open(NULL, UNETMM_OBSERVE, &observer), 0);
    pinned = driver_counter(observer, UNETMM_D_pinned_now);
    for (i = 0; i < rounds(2); i++) {
        atomic_store(ready, 0);
        pid = start_process(body, NULL);
        fd = await_sleep(pid);
        EVENTUALLY(driver_counter(observer, UNETMM_D_pinned_now) > pinned);
        atomic_store(ready, 2);
        EVENTUALLY(atomic_load(ready) == 3);
        if (dies) {
            CHECK_SYS(kill(pid, SIGKILL));
            await_process(pid);
        }
        EVENTUALLY(driver_counter(observer, UNETMM_D_pinned_now) == pinned);
        if (!dies) {
            CHECK_SYS(kill(pid, SIGKILL));
            await_process(pid);
        }
        EVENTUALLY(live_endpoints() == endpoints);
        close(fd);
    }
    CHECK_RET(unetmm_close(observer), 0);
}

TEST(left_closed, TEST_TLB)
{
    left_memory(close_and_wait, true);
}

TEST(left_by_exec, TEST_TLB)
{
    left_memory(execute_with_file, false);
}

static void *outlive_main(void *argument)
{
    struct unetmm_completion c;
    struct late late;
    struct link link;

    /* The main thread has ended. */
    CHECK_EQ(pthread_join(*(pthread_t *)argument, NULL), 0);
    link_open(&link, NULL, NULL);
    late_make(&late, 1);
    send_pieces(link.tx, &(struct iovec) { late.at, PAGE }, 1, 1, 0);
    CHECK_EQ(late_wanted(&late), 0);
    /* Two looks of the driver at the owner. */
    idle_ns(2500 * NS_PER_MS);
    late_give(&late, 0, 1);
    take(link.tx, UNETMM_CQE_SENT, &c);
    CHECK_EQ(c.status, UNETMM_ST_OK);
    late_unmap(&late);
    link_close(&link);
    exit(0);
}

static void leader_main(void *argument)
{
    static pthread_t self;
    pthread_t thread;

    (void)argument;
    self = pthread_self();
    CHECK_EQ(pthread_create(&thread, NULL, outlive_main, &self), 0);
    pthread_exit(NULL);
}

/* A process whose first thread has ended has its memory still. */
TEST(leader_ends, TEST_TLB)
{
    end_process(start_process(leader_main, NULL));
}

/* ---- Limits on pins ---------------------------------------------------------------------- */

static unsigned tlb_pages(void)
{
    struct unetmm_info info;

    card_info(&info);
    return info.tlb_sets * info.tlb_ways + info.tlb_victims;
}

/*
 * Queues of two endpoints take some 50 pages; of the rest, the TLB must be able
 * to hold more than the limit allows.
 */
static unsigned limit_pages(void)
{
    unsigned half = tlb_pages() / 2;

    return 60 + (half < 140 ? half : 140);
}

/* An ordinary process may pin only so much. */
static void become_limited(unsigned npages)
{
    struct rlimit limit = { npages * PAGE, npages * PAGE };
    struct __user_cap_header_struct header = {
        .version = _LINUX_CAPABILITY_VERSION_3,
    };
    struct __user_cap_data_struct data[2];

    CHECK_SYS(syscall(SYS_capget, &header, data));
    data[CAP_IPC_LOCK / 32].effective &= ~(1u << CAP_IPC_LOCK % 32);
    data[CAP_IPC_LOCK / 32].permitted &= ~(1u << CAP_IPC_LOCK % 32);
    CHECK_SYS(syscall(SYS_capset, &header, data));
    CHECK_SYS(setrlimit(RLIMIT_MEMLOCK, &limit));
}

/* Sends and receives page after page of far more memory than the limit allows. */
static void use_all(struct link *link, uint8_t *at, unsigned npages)
{
    struct unetmm_completion c;
    unsigned i, used = 0;

    post(link->rx, at, PAGE, 0);
    for (i = 0; i < npages; i++) {
        CHECK_EQ(send_status(link->tx, at + i * PAGE, 300), UNETMM_ST_OK);
        while (take_now(link->rx, UNETMM_CQE_RECEIVED, &c) ||
               take_now(link->rx, UNETMM_CQE_BUFFER, &c)) {
            CHECK(c.status == UNETMM_ST_OK || c.status == UNETMM_ST_SKIPPED);
            used = (used + 7) % npages;
            post(link->rx, at + used * PAGE, PAGE, used);
        }
    }
}

/*
 * Pages that no transfer uses make room at the limit.  A buffer that has more pages than
 * the limit allows together comes back.
 */
TEST(limited_tlb, TEST_MISS)
{
    struct unetmm_completion c;
    unsigned limit = limit_pages(), most = tlb_pages();
    uint64_t limited, given;
    struct link link;
    uint8_t *at;

    become_limited(limit);
    link_open(&link, NULL, NULL);
    at = pages(2 * limit);
    limited = driver_counter(link.ctx, UNETMM_D_pin_limited);
    given = driver_counter(link.ctx, UNETMM_D_pins_given_up);
    use_all(&link, at, 2 * limit);
    /* A page of the table of source ktlb is refused before others make room for it. */
    if (run.source != UNETMM_SOURCE_KTLB) {
        CHECK_EQ(driver_counter(link.ctx, UNETMM_D_pin_limited), limited);
    }
    limited = driver_counter(link.ctx, UNETMM_D_pin_limited);
    CHECK(driver_counter(link.ctx, UNETMM_D_pins_given_up) > given);
    link_close(&link);
    /* Queues are charged as well, so this one is too long for the rest. */
    link_open(&link, NULL, NULL);
    post(link.rx, at, (limit < most ? limit : most) * PAGE, 1);
    take(link.rx, UNETMM_CQE_BUFFER, &c);
    CHECK_EQ(c.status, UNETMM_ST_LIMIT);
    CHECK(driver_counter(link.ctx, UNETMM_D_pin_limited) > limited);
    use_all(&link, at, 4);
    link_close(&link);
}

/*
 * Source ktlb: the pages that a posted descriptor names do not make room, also when the
 * card has done with it, until the process posts again.  Pages that are gone do.
 */
TEST(limited_ktlb, TEST_KTLB)
{
    struct unetmm_completion c;
    unsigned limit = limit_pages(), most = tlb_pages();
    struct link link;
    uint8_t *at, *from;

    become_limited(limit);
    link_open(&link, NULL, NULL);
    at = pages(limit);
    from = pages(2);
    post(link.rx, at, (limit < most ? limit : most) * PAGE, 1);
    take(link.rx, UNETMM_CQE_BUFFER, &c);
    CHECK_EQ(c.status, UNETMM_ST_LIMIT);
    CHECK_EQ(send_status(link.tx, from, 300), UNETMM_ST_LIMIT);
    unmap_pages(at, limit / 2);
    EVENTUALLY(send_status(link.tx, from, 300) == UNETMM_ST_OK);
    post(link.rx, from + PAGE, PAGE, 2);
    use_all(&link, at + limit / 2 * PAGE, 4);
    link_close(&link);
}

TEST(limited_pinned, TEST_PINNED)
{
    unsigned limit = limit_pages();
    struct link link;
    uint8_t *at;

    become_limited(limit);
    link_open(&link, NULL, NULL);
    at = pages(2 * limit);
    CHECK_RET(unetmm_register(link.ctx, at, 2 * limit * PAGE, 0),
              -ENOMEM);
    CHECK_RET(unetmm_register(link.ctx, at, limit / 4 * PAGE,
                              UNETMM_REGION_WRITE), 0);
    CHECK_RET(unetmm_register(link.ctx, at + limit * PAGE,
                              limit * PAGE, 0), -ENOMEM);
    exchange_pattern(&link, at, at + PAGE, PAGE, 1);
    CHECK_RET(unetmm_deregister(link.ctx, at, limit / 4 * PAGE), 0);
    CHECK_RET(unetmm_register(link.ctx, at, limit / 4 * PAGE,
                              UNETMM_REGION_WRITE), 0);
    exchange_pattern(&link, at, at + PAGE, PAGE, 1);
    link_close(&link);
}

/* The library's quota is more than the limit: it finds out, and evicts. */
TEST(limited_utlb, TEST_UTLB)
{
    struct unetmm_utlb_stats stats = { .size = sizeof(stats) };
    unsigned limit = limit_pages(), i;
    struct link link;
    uint8_t *at;

    become_limited(limit);
    link_open(&link, NULL, NULL);
    /* At the limit comes a table of the driver, which is charged, too. */
    at = pages(4 * limit + UNETMM_TABLE_ENTRIES) + 2 * limit * PAGE;
    at += (UNETMM_TABLE_ENTRIES - (uintptr_t)at / PAGE % UNETMM_TABLE_ENTRIES) *
        PAGE;
    at -= 3 * limit / 2 * PAGE;
    for (i = 0; i < 2 * limit; i += 2) {
        exchange_pattern(&link, at + i * PAGE, at + (i + 1) * PAGE, PAGE, i);
    }
    CHECK_RET(unetmm_utlb_stats(link.ctx, &stats), 0);
    CHECK(stats.pinned_now < limit && stats.quota_pages > limit);
    CHECK(stats.evicted >= limit);
    link_close(&link);
}

/* Queues are charged as well. */
TEST(limited_queues, TEST_ALL | TEST_UTLB | TEST_SHADOW | TEST_ODP)
{
    struct unetmm_ctx *ctx;
    struct unetmm_ep *eps[100];
    int ret = 0;
    unsigned i, n = 0, limit = limit_pages();

    become_limited(limit);
    ctx = open_card();
    while (n < 100 && !(ret = unetmm_ep_create(ctx, NULL, &eps[n]))) {
        n++;
    }
    note("%u endpoints in %u pages", n, limit);
    CHECK(ret == -EDQUOT || ret == -ENOMEM);
    CHECK(n >= 2);
    CHECK_RET(unetmm_ep_destroy(eps[0]), 0);
    CHECK_RET(unetmm_ep_create(ctx, NULL, &eps[0]), 0);
    for (i = 0; i < n; i++) {
        CHECK_RET(unetmm_ep_destroy(eps[i]), 0);
    }
    CHECK_RET(unetmm_close(ctx), 0);
}
