/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The driver and the card come and go: module, binding, function reset, hot
 * unplug, while files are open, calls wait and messages are under way.
 */
#include "ask.h"
#include "card.h"
#include "guard.h"
#include "link.h"
#include "raw.h"
#include "traffic.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <unistd.h>

/* ---- The module --------------------------------------------------------------------------- */

static void refuse_unload(const char *why)
{
    int ret = module_unload();

    if (ret != -EBUSY && ret != -EWOULDBLOCK) {
        FAIL("unloading with %s: %d %s", why, ret, error_name(ret));
    }
}

TEST(busy, TEST_BOTH)
{
    struct raw raw;
    void *map;

    raw_open(&raw);
    refuse_unload("an endpoint");
    raw_close_endpoint(&raw);
    refuse_unload("a file and mappings");
    raw_unmap(&raw);
    refuse_unload("a file");
    close(raw.fd);
    raw_open(&raw);
    map = raw.queues;
    CHECK_SYS(munmap((void *)(uintptr_t)raw.doorbell, PAGE));
    close(raw.fd);
    refuse_unload("a mapping");
    CHECK_SYS(munmap(map, raw.ep.queue_bytes));
    card_check_works();
}

TEST(reload, TEST_TLB | TEST_NO_CARD, 60)
{
    unsigned i;

    for (i = 0; i < rounds(20); i++) {
        uint64_t end = deadline_in(10);
        int ret;

        /* The last user may still be leaving. */
        while ((ret = module_unload()) != 0) {
            CHECK(ret == -EWOULDBLOCK && now_ns() < end);
            breathe();
        }
        CHECK(!card_present());
        CHECK_RET(module_load(), 0);
        card_check_works();
    }
}

/* ---- The card goes, and comes back ----------------------------------------------------------- */

/* The calls of an open file when its card has gone. */
static void check_dead_file(struct raw *raw)
{
    struct unetmm_info info = { .size = sizeof(info) };
    struct unetmm_endpoint request = raw_request();
    struct pollfd entry = { .fd = raw->fd, .events = POLLIN };

    CHECK_RET(raw_ioctl(raw->fd, UNETMM_IOC_INFO, &info), -ENODEV);
    CHECK_RET(raw_ioctl(raw->fd, UNETMM_IOC_ENDPOINT, &request), -ENODEV);
    CHECK_EQ(CHECK_SYS(poll(&entry, 1, 0)), 1);
    CHECK(entry.revents & POLLHUP);
    /* The mappings are there, and nobody's. */
    raw_ring(raw);
    raw->index->user.sq_prod = 77;
    memset(raw->sq, 0xff, PAGE);
    raw_ring(raw);
    CHECK_EQ(raw->index->user.sq_prod, 77);
    raw_unmap(raw);
    close(raw->fd);
}

enum waits_in { WAITS, ACCEPTS, SLEEPS };

struct waiter {
    pthread_t thread;
    struct link link;
    struct unetmm_event_counter *counter;
    int result;
    enum waits_in in;
};

static void *waiter_thread(void *argument)
{
    struct waiter *w = argument;
    struct unetmm_completion c;

    /* A machine that goes to sleep interrupts calls, as a signal does. */
    do {
        w->result = w->in == ACCEPTS ?
            unetmm_accept(w->link.rx->ep, NULL, -1) :
            w->in == WAITS ? unetmm_wait(w->link.rx->ep, &c, 1, -1) :
            unetmm_event_wait(w->counter, 1, UNETMM_EVENT_BLOCK, -1);
    } while (w->result == -EINTR);
    return NULL;
}

static void waiter_start(struct waiter *w, enum waits_in in)
{
    struct unetmm_ep_attr attr = default_attr();

    attr.spin_ns = 0;
    w->in = in;
    w->result = 12345;
    link_open(&w->link, NULL, &attr);
    CHECK_RET(unetmm_event_create(w->link.ctx, 1, &w->counter), 0);
    CHECK_EQ(pthread_create(&w->thread, NULL, waiter_thread, w), 0);
}

static void waiter_end(struct waiter *w)
{
    struct timespec end;

    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 20 * (time_t)run.slow;
    if (pthread_timedjoin_np(w->thread, NULL, &end)) {
        FAIL("a thread in %s is not told that the card has gone",
             w->in == ACCEPTS ? "accept" : w->in == WAITS ? "unetmm_wait" :
             "unetmm_event_wait");
    }
    CHECK(w->result == -ENODEV || w->result == -EIO);
    /* It still shows its value. */
    CHECK_EQ(unetmm_event_read(w->counter), 0);
    CHECK_RET(unetmm_event_wait(w->counter, 1, UNETMM_EVENT_BLOCK, 1000),
              -ENODEV);
    CHECK_RET(unetmm_event_destroy(w->counter), 0);
    unetmm_ep_destroy(w->link.one.ep);
    unetmm_ep_destroy(w->link.two.ep);
    CHECK_RET(unetmm_close(w->link.ctx), 0);
}

/* The same, asleep in a thread of the library that calls handlers. */
struct handled {
    struct link link;
    atomic_int error;
};

static void ignore(struct unetmm_ep *ep, const struct unetmm_completion *c,
                   void *arg)
{
    (void)ep;
    (void)c;
    (void)arg;
}

static void on_end(struct unetmm_ep *ep, int error, void *arg)
{
    (void)ep;
    atomic_store((atomic_int *)arg, error);
}

static void handled_start(struct handled *h)
{
    struct unetmm_ep_attr attr = default_attr();

    attr.spin_ns = 0;
    atomic_store(&h->error, 0);
    link_open(&h->link, NULL, &attr);
    CHECK_RET(unetmm_set_handler(h->link.rx->ep, UNETMM_EVERY_CHANNEL, ignore,
                                 NULL), 0);
    CHECK_RET(unetmm_handlers_start(h->link.rx->ep, on_end, &h->error), 0);
}

static void handled_end(struct handled *h)
{
    EVENTUALLY(atomic_load(&h->error));
    CHECK_RET(unetmm_handlers_stop(h->link.rx->ep), -EIO);
    unetmm_ep_destroy(h->link.one.ep);
    unetmm_ep_destroy(h->link.two.ep);
    CHECK_RET(unetmm_close(h->link.ctx), 0);
}

/* Takes the card away with `go`, brings it back with `come`. */
static void gone_and_back(void (*go)(void), void (*come)(void),
                          unsigned times)
{
    struct waiter waits, accepts, sleeps;
    struct handled handled;
    struct crowd crowd;
    unsigned i;

    for (i = 0; i < times; i++) {
        struct raw raw;

        card_find();
        raw_open(&raw);
        waiter_start(&waits, WAITS);
        waiter_start(&accepts, ACCEPTS);
        waiter_start(&sleeps, SLEEPS);
        handled_start(&handled);
        crowd_start(&crowd, 2);
        atomic_store(&crowd.state->hard, true);
        go();
        waiter_end(&accepts);
        waiter_end(&waits);
        waiter_end(&sleeps);
        handled_end(&handled);
        check_dead_file(&raw);
        /* While files are open the card that comes gets another name. */
        crowd_stop(&crowd);
        come();
        card_check_works();
    }
}

static void nothing(void)
{
}

static void do_unbind(void)
{
    CHECK_RET(card_unbind(), 0);
    CHECK(!card_present());
}

static void do_bind(void)
{
    CHECK_RET(card_bind(), 0);
}

TEST(unbind, TEST_BOTH | TEST_NO_CARD, 60)
{
    gone_and_back(do_unbind, do_bind, rounds(6));
}

static void do_reset(void)
{
    card_write("reset", "1");
}

TEST(function_reset, TEST_BOTH | TEST_NO_CARD, 60)
{
    gone_and_back(do_reset, nothing, rounds(6));
}

/* ---- The machine sleeps -------------------------------------------------------------- */

#define POWER_STATE     "/sys/power/state"
#define POWER_TEST      "/sys/power/pm_test"
#define POWER_DELAY     "/sys/module/suspend/parameters/pm_test_delay"

static void need_file(const char *path)
{
    if (access(path, W_OK) != 0) {
        test_skip("this kernel cannot sleep: there is no %s", path);
    }
}

/* All devices sleep and wake up, and nothing else does. */
static void devices_sleep(const char *state)
{
    CHECK_RET(write_file(POWER_DELAY, "0"), 0);
    CHECK_RET(write_file(POWER_TEST, "devices"), 0);
    CHECK_RET(write_file(POWER_STATE, state), 0);
    CHECK_RET(write_file(POWER_TEST, "none"), 0);
}

static void do_suspend(void)
{
    devices_sleep("mem");
}

static void do_hibernate(void)
{
    devices_sleep("disk");
}

TEST(suspend, TEST_TLB | TEST_SHADOW | TEST_NO_CARD, 60)
{
    need_file(POWER_TEST);
    gone_and_back(do_suspend, nothing, rounds(3));
}

TEST(hibernate, TEST_TLB | TEST_NO_CARD, 60)
{
    need_file(POWER_TEST);
    gone_and_back(do_hibernate, nothing, rounds(2));
}

/* ---- The card goes ---------------------------------------------------------------------- */

static void do_remove(void)
{
    card_write("remove", "1");
    CHECK(!card_present());
}

static void do_rescan(void)
{
    CHECK_RET(write_file("/sys/bus/pci/rescan", "1"), 0);
}

TEST(remove_and_rescan, TEST_TLB | TEST_NO_CARD, 60)
{
    gone_and_back(do_remove, do_rescan, rounds(4));
}

static void do_unplug(void)
{
    ask_host("unplug");
    EVENTUALLY(!card_present());
}

static void do_plug(void)
{
    ask_host("plug");
}

TEST(unplug, TEST_TLB | TEST_NO_CARD, 60)
{
    gone_and_back(do_unplug, do_plug, rounds(3));
}

/* ---- Calls that begin when it goes ------------------------------------------------------------ */

#define CALLERS 8

struct caller {
    int fd;
    uint32_t counter;
    pthread_t thread;
    atomic_ullong calls;
    int result;
};

/* Asks and never sleeps, until it is told something else than `not yet`. */
static void *ask_for_ever(void *argument)
{
    struct caller *caller = argument;

    do {
        struct unetmm_event_wait wait = {
            .size = sizeof(wait), .id = caller->counter, .value = 1,
        };

        caller->result = raw_ioctl(caller->fd, UNETMM_IOC_EVENT_WAIT, &wait);
        atomic_fetch_add(&caller->calls, 1);
    } while (caller->result == -EAGAIN);
    return NULL;
}

/* Has memory faulted in and entered, and takes it away again. */
static void *prefetch_for_ever(void *argument)
{
    struct caller *caller = argument;
    const size_t bytes = 32 * (size_t)UNETMM_PAGE_BYTES;
    uint8_t *at = CHECK_SYS(mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));

    do {
        struct unetmm_prefetch prefetch = {
            .size = sizeof(prefetch), .flags = UNETMM_PREFETCH_WRITE,
            .addr = (uintptr_t)at, .length = bytes,
        };

        caller->result = raw_ioctl(caller->fd, UNETMM_IOC_PREFETCH, &prefetch);
        atomic_fetch_add(&caller->calls, 1);
        CHECK_SYS(madvise(at, bytes, MADV_DONTNEED));
    } while (!caller->result || caller->result == -EAGAIN);
    return NULL;
}

static void meet_the_end(void *(*call)(void *argument))
{
    static struct caller callers[CALLERS];
    unsigned i, k;

    for (i = 0; i < rounds(10); i++) {
        struct unetmm_event event = { .size = sizeof(event), .count = 1 };
        int fd;

        card_find();
        fd = raw_open_space();
        CHECK_RET(raw_ioctl(fd, UNETMM_IOC_EVENT, &event), 0);
        for (k = 0; k < CALLERS; k++) {
            callers[k] = (struct caller) { .fd = fd, .counter = event.id };
            CHECK_EQ(pthread_create(&callers[k].thread, NULL, call,
                                    &callers[k]), 0);
        }
        for (k = 0; k < CALLERS; k++) {
            EVENTUALLY(atomic_load(&callers[k].calls) > 0);
        }
        do_unbind();
        for (k = 0; k < CALLERS; k++) {
            CHECK_EQ(pthread_join(callers[k].thread, NULL), 0);
            CHECK_RET(callers[k].result, -ENODEV);
        }
        close(fd);
        do_bind();
    }
    card_check_works();
}

TEST(callers_meet_the_end, TEST_TLB | TEST_NO_CARD)
{
    meet_the_end(ask_for_ever);
}

TEST(prefetch_meets_the_end, TEST_SHADOW | TEST_ODP | TEST_NO_CARD)
{
    meet_the_end(prefetch_for_ever);
}

/* ---- The card is given up --------------------------------------------------------------------- */

#define TRACES              "/sys/kernel/tracing/"

/* One more probe, which is on from now. */
static void probe(const char *name, const char *rest)
{
    char text[200], path[100];
    int fd = open(TRACES "kprobe_events", O_WRONLY | O_APPEND | O_CLOEXEC);

    if (fd < 0) {
        test_skip("this kernel has no probes");
    }
    snprintf(text, sizeof(text), "p:unetmm_test/%s %s", name, rest);
    CHECK_EQ(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    CHECK_SYS(close(fd));
    snprintf(path, sizeof(path), TRACES "events/unetmm_test/%s/enable", name);
    CHECK_RET(write_file(path, "1"), 0);
}

static void probes_end(void)
{
    (void)write_file(TRACES "events/unetmm_test/enable", "0");
    CHECK_RET(write_file(TRACES "kprobe_events", ""), 0);
}

/* The value of a probe's first hit, or none. */
static bool probed(const char *name, unsigned long long *value)
{
    FILE *file = fopen(TRACES "trace", "r");
    char line[300], event[40];
    bool found = false;
    const char *at;

    CHECK(file);
    snprintf(event, sizeof(event), ": %s: (", name);
    while (!found && fgets(line, sizeof(line), file)) {
        at = strstr(line, event);
        at = at ? strstr(at, "value=") : NULL;
        if (at) {
            *value = strtoull(at + strlen("value="), NULL, 0);
            found = true;
        }
    }
    fclose(file);
    return found;
}

/* The driver's structure of the card: its state is first. */
static unsigned long long find_device(void)
{
    unsigned long long device;

    if (access(TRACES "kprobe_events", F_OK) &&
        mount("none", TRACES, "tracefs", 0, NULL)) {
        test_skip("this kernel has no traces");
    }
    CHECK_RET(write_file(TRACES "trace", ""), 0);
    probe("command", "unetmm_cmd value=%di:x64");
    card_check_works();
    CHECK(probed("command", &device));
    probes_end();
    return device;
}

/*
 * Code that finds the card given up takes pages from it without asking it.  So it
 * has lost the bus when the driver says that: the state that pci_clear_master() finds
 * is still the one of before.
 */
TEST(given_up, TEST_TLB | TEST_NO_CARD)
{
    struct unetmm_event event = { .size = sizeof(event), .count = 1 };
    unsigned long long device, before, then, after;
    char fetch[100];
    int fd, ret;

    card_find();
    device = find_device();
    fd = raw_open_space();
    snprintf(fetch, sizeof(fetch), "pci_clear_master value=@%#llx:u32", device);
    CHECK_RET(write_file(TRACES "trace", ""), 0);
    probe("fails", "unetmm_fail value=+0(%di):u32");
    probe("clears", fetch);
    probe("failed", "unetmm_net_event value=+0(%di):u32");
    expect_complaint("the card has failed and needs a reset: a command does not complete");
    card_memory_space(false);
    ret = raw_ioctl(fd, UNETMM_IOC_EVENT, &event);
    CHECK(ret == -EIO || ret == -ENODEV);
    EVENTUALLY(probed("failed", &after));
    CHECK(probed("fails", &before));
    CHECK(probed("clears", &then));
    probes_end();
    card_memory_space(true);
    card_write("reset", "1");
    close(fd);
    card_check_works();
    CHECK(before != after);
    CHECK_EQ(then, before);
}
