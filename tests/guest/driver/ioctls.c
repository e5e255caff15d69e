/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Any call of the driver, in any order, by a user without rights: in one thread, and in
 * several threads that share their files.  Most members have values with which a call
 * gets far: small numbers, as other calls return them, and addresses of memory that
 * comes and goes.  The calls may fail; messages of others go on, and nothing is left
 * behind.
 *
 * The test does not judge the result of a call.  The kernel's checks judge: KASAN,
 * lockdep and kmemleak on the debug kernel.
 */
#include "link.h"
#include "process.h"
#include "raw.h"
#include "traffic.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define NOBODY          65534
#define FILES           3
#define THREADS         3
#define CALLS           4000        /* of a thread */
#define ARENA_PAGES     64
#define MAPPINGS        8
#define MOST_BYTES      512         /* of a call's structure */
#define SERVICE         (SERVICE_FIRST + 700)

/* ---- The calls ---------------------------------------------------------------- */

enum kind {
    SMALL, FLAGS, LOG2, ADDR, LENGTH, DEADLINE, SERVICE_NUMBER, MAC, EVENT_FD, BUFFER,
    POLICY, SOURCE,
};

struct member {
    uint16_t at, bytes;
    enum kind kind;
};

struct form {
    unsigned long request;
    uint32_t bytes;
    struct member members[12];  /* the others are zero; one of 0 bytes ends them */
};

#define M(type, member, kind) \
    { offsetof(struct unetmm_##type, member), \
      sizeof(((struct unetmm_##type *)0)->member), kind }
#define FORM(name, type, ...) \
    { UNETMM_IOC_##name, sizeof(struct unetmm_##type), { __VA_ARGS__ } }
#define CONNECTING \
    M(connect, endpoint, SMALL), M(connect, service, SERVICE_NUMBER), \
    M(connect, deadline_ns, DEADLINE), M(connect, mac, MAC), M(connect, flags, FLAGS), \
    M(connect, timeout_us, SMALL), M(connect, retries, SMALL)
#define REDIRECTING(type) M(type, what, SMALL), M(type, id, SMALL), M(type, offset, LENGTH)

static const struct form forms[] = {
    FORM(INFO, info, M(info, flags, FLAGS)),
    FORM(SPACE, space, M(space, source, SOURCE), M(space, flags, FLAGS),
         M(space, quota_pages, LOG2), M(space, log_bytes, LENGTH)),
    FORM(ENDPOINT, endpoint, M(endpoint, flags, FLAGS), M(endpoint, sq_log2, LOG2),
         M(endpoint, fq_log2, LOG2), M(endpoint, cq_log2, LOG2),
         M(endpoint, policy, POLICY), M(endpoint, pretranslate, SMALL),
         M(endpoint, event_fd, EVENT_FD), M(endpoint, backup, LOG2)),
    FORM(DESTROY, destroy, M(destroy, endpoint, SMALL), M(destroy, type, SMALL),
         M(destroy, count, SMALL), M(destroy, id, SMALL)),
    FORM(LISTEN, listen, M(listen, endpoint, SMALL),
         M(listen, service, SERVICE_NUMBER), M(listen, backlog, SMALL),
         M(listen, flags, FLAGS)),
    FORM(ACCEPT, connect, CONNECTING),
    FORM(CONNECT, connect, CONNECTING),
    FORM(PROBE, probe, M(probe, mac, MAC), M(probe, deadline_ns, DEADLINE)),
    FORM(PEERS, peers, M(peers, flags, FLAGS), M(peers, deadline_ns, DEADLINE),
         M(peers, service, SERVICE_NUMBER), M(peers, listeners, BUFFER),
         M(peers, mac, MAC), M(peers, count, SMALL)),
    FORM(REGISTER, region, M(region, flags, FLAGS), M(region, addr, ADDR),
         M(region, length, LENGTH)),
    FORM(DEREGISTER, region, M(region, addr, ADDR), M(region, length, LENGTH)),
    FORM(COUNTERS, counters, M(counters, scope, SMALL), M(counters, endpoint, SMALL),
         M(counters, count, LOG2), M(counters, values, BUFFER)),
    FORM(POST, post, M(post, endpoint, SMALL), M(post, flags, FLAGS)),
    FORM(UTLB_PIN, utlb, M(utlb, flags, FLAGS), M(utlb, addr, ADDR),
         M(utlb, npages, LOG2), M(utlb, ahead, LOG2)),
    FORM(UTLB_UNPIN, utlb, M(utlb, flags, FLAGS), M(utlb, addr, ADDR),
         M(utlb, npages, LOG2)),
    FORM(PREFETCH, prefetch, M(prefetch, flags, FLAGS), M(prefetch, addr, ADDR),
         M(prefetch, length, LENGTH)),
    FORM(EXPORT, export, M(export, flags, FLAGS), M(export, id, SMALL),
         M(export, addr, ADDR), M(export, length, LENGTH), M(export, rights, FLAGS),
         M(export, counter, SMALL), M(export, ncounters, SMALL)),
    FORM(EXPORT_KEY, export_key, M(export_key, id, SMALL)),
    FORM(REDIRECT, redirect, REDIRECTING(redirect), M(redirect, length, LENGTH),
         M(redirect, to, ADDR)),
    FORM(REDIRECT_GO, redirect_id, REDIRECTING(redirect_id)),
    FORM(IMPORT, import, M(import, endpoint, SMALL), M(import, id, SMALL),
         M(import, deadline_ns, DEADLINE), M(import, channel, SMALL)),
    FORM(WINDOW, window, M(window, endpoint, SMALL), M(window, kind, SMALL),
         M(window, import, SMALL), M(window, at, ADDR), M(window, length, LENGTH),
         M(window, flags, FLAGS)),
    FORM(EVENT, event, M(event, count, SMALL)),
    FORM(EVENT_WAIT, event_wait, M(event_wait, id, SMALL), M(event_wait, value, SMALL),
         M(event_wait, deadline_ns, DEADLINE)),
    FORM(EVENT_ARM, event_arm, M(event_arm, id, SMALL), M(event_arm, value, SMALL),
         M(event_arm, event_fd, EVENT_FD)),
    FORM(FLOW, flow, M(flow, endpoint, SMALL), M(flow, kind, SMALL),
         M(flow, flags, FLAGS), M(flow, value, SMALL), M(flow, mac, MAC)),
};
#define FORMS (sizeof(forms) / sizeof(forms[0]))

/* ---- A process ------------------------------------------------------------------ */

struct scene {
    atomic_int files[FILES];
    int event_fd;
    uint8_t *arena, *buffer;
    uint8_t mac[6];
    unsigned calls;
};

struct caller {
    struct scene *scene;
    struct chance chance;
    pthread_t thread;
    atomic_bool ended;
    struct {
        void *at;
        size_t bytes;
    } mappings[MAPPINGS];       /* of queues, doorbells, logs */
    unsigned nmappings;
};

static unsigned below(struct caller *c, unsigned n)
{
    return chance_below(&c->chance, n);
}

static uint64_t any_address(struct caller *c)
{
    switch (below(c, 12)) {
    case 0:
        return chance_u64(&c->chance);
    case 1:
        return 0;
    case 2:
        return UINT64_MAX - below(c, 2 * PAGE);
    case 3:
        return (uintptr_t)c->scene->arena + below(c, ARENA_PAGES * PAGE);
    default:
        return (uintptr_t)c->scene->arena + below(c, ARENA_PAGES) * PAGE;
    }
}

static uint64_t any_length(struct caller *c)
{
    switch (below(c, 12)) {
    case 0:
        return chance_u64(&c->chance);
    case 1:
        return 0;
    case 2:
        return UINT64_MAX - below(c, 2 * PAGE);
    case 3:
        return below(c, 3 * PAGE);
    default:
        return (1 + below(c, ARENA_PAGES / 4)) * PAGE;
    }
}

static uint64_t any_value(struct caller *c, enum kind kind)
{
    switch (kind) {
    case FLAGS:
        return below(c, 64) & below(c, 64);
    case LOG2:
        return below(c, 11);
    case ADDR:
        return any_address(c);
    case LENGTH:
        return any_length(c);
    case DEADLINE:
        return now_ns() + below(c, 3 * NS_PER_MS);
    case SERVICE_NUMBER:
        return below(c, 8) ? SERVICE + below(c, 4) : 0;
    case EVENT_FD:
        return below(c, 3) ? UINT64_MAX : (uint64_t)c->scene->event_fd;
    case BUFFER:
        return below(c, 8) ? (uintptr_t)c->scene->buffer : any_address(c);
    case POLICY:
        return below(c, UNETMM_POLICY_BACKUP + 2);
    case SOURCE:
        return 1 + below(c, UNETMM_SOURCE_ODP);
    default:
        return below(c, 8);
    }
}

static void fill(struct caller *c, const struct form *form, uint8_t *bytes)
{
    memset(bytes, 0, MOST_BYTES);
    memcpy(bytes, &form->bytes, sizeof(form->bytes));
    for (const struct member *m = form->members; m->bytes; m++) {
        uint64_t value;

        if (m->kind == MAC) {
            memcpy(bytes + m->at, c->scene->mac, m->bytes);
            continue;
        }
        value = any_value(c, m->kind);
        memcpy(bytes + m->at, &value, m->bytes);
    }
    /* Some have a wrong byte, a size of the past or the future among them. */
    if (!below(c, 6)) {
        bytes[below(c, form->bytes)] ^= (uint8_t)(1u << below(c, 8));
    }
}

/* Maps the bytes that a call has offered. */
static void map(struct caller *c, int fd, uint64_t offset, uint64_t bytes)
{
    void *at;

    if (c->nmappings == MAPPINGS) {
        c->nmappings--;
        munmap(c->mappings[c->nmappings].at, c->mappings[c->nmappings].bytes);
    }
    if (!bytes || bytes > 1 << 20) {
        return;
    }
    at = mmap(NULL, bytes, PROT_READ | (below(c, 4) ? PROT_WRITE : 0), MAP_SHARED, fd,
              (off_t)offset);
    if (at != MAP_FAILED) {
        c->mappings[c->nmappings].at = at;
        c->mappings[c->nmappings++].bytes = bytes;
    }
}

static void make_call(struct caller *c)
{
    const struct form *form = &forms[below(c, FORMS)];
    int fd = atomic_load(&c->scene->files[below(c, FILES)]);
    uint8_t bytes[MOST_BYTES] __attribute__((aligned(8)));
    const struct unetmm_endpoint *ep = (const void *)bytes;
    const struct unetmm_window *window = (const void *)bytes;
    const struct unetmm_space *space = (const void *)bytes;

    fill(c, form, bytes);
    if (raw_ioctl(fd, form->request, bytes) < 0) {
        return;
    }
    switch (form->request) {
    case UNETMM_IOC_ENDPOINT:
        map(c, fd, ep->queue_map, ep->queue_bytes);
        map(c, fd, ep->doorbell_map, ep->doorbell_bytes);
        break;
    case UNETMM_IOC_WINDOW:
        map(c, fd, window->map, window->map_bytes);
        break;
    case UNETMM_IOC_SPACE:
        map(c, fd, space->log_map, space->log_bytes);
        break;
    }
}

/* A mapping may be for reading, and its object may have ended. */
static __thread sigjmp_buf *fault_to;

static void on_fault(int number)
{
    if (!fault_to) {
        signal(number, SIG_DFL);
        raise(number);
    }
    siglongjmp(*fault_to, 1);
}

/* A word of a mapping is written: a descriptor, an index, a doorbell, a store. */
static void scribble(struct caller *c)
{
    unsigned i = below(c, MAPPINGS);
    uint32_t value = below(c, 4) ? below(c, 64) : (uint32_t)chance_u64(&c->chance);
    sigjmp_buf here;

    if (i >= c->nmappings) {
        return;
    }
    fault_to = &here;
    if (!sigsetjmp(here, 1)) {
        volatile uint32_t *words = c->mappings[i].at;

        words[below(c, (unsigned)(c->mappings[i].bytes / sizeof(*words)))] = value;
    }
    fault_to = NULL;
}

static void change_memory(struct caller *c)
{
    uint8_t *at = c->scene->arena + below(c, ARENA_PAGES) * PAGE;
    size_t bytes = (1 + below(c, 4)) * PAGE;

    bytes = bytes < (size_t)(c->scene->arena + ARENA_PAGES * PAGE - at) ? bytes : PAGE;
    switch (below(c, 4)) {
    case 0:
        CHECK(mmap(at, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at);
        break;
    case 1:
        munmap(at, bytes);
        break;
    case 2:
        mprotect(at, bytes, below(c, 2) ? PROT_READ : PROT_READ | PROT_WRITE);
        break;
    default:
        madvise(at, bytes, MADV_DONTNEED);
        break;
    }
}

/* The old file ends with its mappings; another thread may be in a call of it. */
static void change_file(struct caller *c)
{
    int fd = open(UNETMM_DEFAULT_DEVICE, O_RDWR | O_CLOEXEC), i = (int)below(c, FILES);

    if (fd >= 0) {
        close(atomic_exchange(&c->scene->files[i], fd));
    }
}

static void *call_on(void *argument)
{
    struct caller *c = argument;

    for (unsigned i = 0; i < c->scene->calls; i++) {
        unsigned what = below(c, 100);

        if (what < 80) {
            make_call(c);
        } else if (what < 92) {
            scribble(c);
        } else if (what < 98) {
            change_memory(c);
        } else if (what < 99) {
            struct pollfd wait = {
                .fd = atomic_load(&c->scene->files[below(c, FILES)]),
                .events = POLLIN | POLLPRI,
            };

            poll(&wait, 1, 0);
        } else {
            change_file(c);
        }
    }
    atomic_store(&c->ended, true);
    return NULL;
}

/* ---- The tests ------------------------------------------------------------------- */

static void nothing(int number)
{
    (void)number;
}

static void catch(int number, void (*handler)(int))
{
    struct sigaction action = { .sa_handler = handler, .sa_flags = SA_NODEFER };

    CHECK_SYS(sigaction(number, &action, NULL));
}

static void open_scene(struct scene *s, unsigned calls)
{
    struct rlimit limit = { 256 * PAGE, 256 * PAGE };

    catch(SIGSEGV, on_fault);
    catch(SIGBUS, on_fault);
    catch(SIGUSR1, nothing);
    card_mac(s->mac);
    CHECK_SYS(setrlimit(RLIMIT_MEMLOCK, &limit));
    be_user(NOBODY);
    s->calls = calls;
    s->event_fd = CHECK_SYS(eventfd(0, EFD_NONBLOCK));
    s->arena = pages(ARENA_PAGES);
    s->buffer = pages(ARENA_PAGES);
    for (unsigned i = 0; i < FILES; i++) {
        atomic_store(&s->files[i], raw_open_file());
    }
}

/* A deadline may be far away by chance: a signal ends each call in time. */
static void wake_until_ended(struct caller *callers, unsigned n)
{
    unsigned left;

    do {
        left = 0;
        usleep(20000);
        for (unsigned i = 0; i < n; i++) {
            if (!atomic_load(&callers[i].ended)) {
                pthread_kill(callers[i].thread, SIGUSR1);
                left++;
            }
        }
    } while (left);
}

static void run_callers(unsigned n)
{
    struct caller callers[THREADS] = { 0 };
    struct scene scene = { 0 };

    open_scene(&scene, rounds(CALLS) / run.slow);
    for (unsigned i = 0; i < n; i++) {
        callers[i].scene = &scene;
        chance_init(&callers[i].chance, i);
        CHECK_EQ(pthread_create(&callers[i].thread, NULL, call_on, &callers[i]), 0);
    }
    wake_until_ended(callers, n);
    for (unsigned i = 0; i < n; i++) {
        CHECK_EQ(pthread_join(callers[i].thread, NULL), 0);
    }
}

static void one_thread(void *argument)
{
    (void)argument;
    run_callers(1);
}

static void many_threads(void *argument)
{
    (void)argument;
    run_callers(THREADS);
}

/* The process's end takes the rest back; a neighbour's messages go on throughout. */
static void beside_a_neighbour(void (*callers)(void *argument))
{
    struct traffic traffic;
    unsigned long long before;

    traffic_start(&traffic, 9);
    end_process(start_process(callers, NULL));
    before = atomic_load(&traffic.messages);
    EVENTUALLY(atomic_load(&traffic.messages) > before);
    traffic_stop(&traffic);
}

TEST(alone, TEST_TLB, 300)
{
    beside_a_neighbour(one_thread);
}

TEST(together, TEST_TLB, 300)
{
    beside_a_neighbour(many_threads);
}
