/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Every call of the driver with its first, its second, its third... chance to
 * fail taken, until none is left: the call says so by an errno and has done
 * nothing, or it can do without.  Then it is made again, and succeeds.
 *
 * A chance is any allocation of the kernel in the calling thread, and any copy
 * from or to user memory.  Work that the kernel does in threads of its own is
 * met by probability, under traffic.
 */
#include "card.h"
#include "guard.h"
#include "inject.h"
#include "link.h"
#include "raw.h"

#include <libunetmm/inline.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_CHANCES    5000
#define SERVICE         (SERVICE_FIRST - 8)
#define MEMORY_PAGES    3

/* The calls' objects; `base` is there throughout. */
struct scene {
    struct raw base;
    struct raw other;
    int event_fd, module_fd;
    uint64_t deadline;          /* asked for the time, the kernel copies */
    uint8_t mac[6];
    struct unetmm_connect connect, accept;
    uint32_t window;
    uint32_t flow;
    uint32_t counter;
    uint8_t *memory;
};

struct attempt {
    const char *name;
    /* Before each call, and after one that has succeeded */
    void (*before)(struct scene *scene);
    int (*call)(struct scene *scene);
    void (*after)(struct scene *scene);
    int right;                  /* its result if nothing fails */
    unsigned sources;           /* TEST_* */
    bool foreign;               /* passes on others' errnos */
    unsigned most;              /* chances to take in an ordinary run; 0: all */
};

/* ---- Objects left behind ----------------------------------------------------- */

/* The driver's objects of its users, from its files for developers. */
struct holdings {
    unsigned spaces, endpoints, channels;
    long long pinned, charged;
};

static void count_lines(const char *name, struct holdings *h)
{
    char path[100], line[256];
    long long value;
    FILE *file;

    snprintf(path, sizeof(path), "/sys/kernel/debug/unetmm/unetmm0/%s", name);
    file = fopen(path, "r");
    if (!file) {
        FAIL("%s cannot be read", path);
    }
    while (fgets(line, sizeof(line), file)) {
        h->spaces += !strncmp(line, "space ", 6);
        h->endpoints += !strncmp(line, "endpoint ", 9);
        if (sscanf(line, "pinned_now %lld", &value) == 1) {
            h->pinned = value;
        } else if (sscanf(line, "charged %lld", &value) == 1) {
            h->charged = value;
        }
    }
    fclose(file);
}

static struct holdings take_stock(void)
{
    struct holdings h = { 0 };

    count_lines("spaces", &h);
    count_lines("endpoints", &h);
    count_lines("counters", &h);
    return h;
}

static bool same(const struct holdings *a, const struct holdings *b)
{
    return a->spaces == b->spaces && a->endpoints == b->endpoints &&
        a->pinned == b->pinned && a->charged == b->charged;
}

/*
 * Some things are let go of a little later, by work of the kernel that nobody can
 * wait for.  A look too early makes a test fail, never pass.
 */
static struct holdings stock_at_rest(void)
{
    uint64_t end = deadline_in(10);
    struct holdings last, now = take_stock();

    do {
        CHECK(now_ns() < end);
        last = now;
        usleep(50000);
        now = take_stock();
    } while (!same(&now, &last));
    return now;
}

static void check_stock(const struct attempt *attempt,
                        const struct holdings *before)
{
    uint64_t end = deadline_in(20);
    struct holdings now;

    for (;;) {
        now = take_stock();
        if (same(&now, before)) {
            return;
        }
        if (now_ns() > end) {
            break;
        }
        breathe();
    }
    FAIL("%s leaves %d spaces, %d endpoints, %lld pinned, %lld charged pages",
         attempt->name, (int)(now.spaces - before->spaces),
         (int)(now.endpoints - before->endpoints),
         now.pinned - before->pinned, now.charged - before->charged);
}

/* ---- One call, all its chances ------------------------------------------------------- */

/* An errno that says: not now. */
static bool is_clean(int error)
{
    return error == -ENOMEM || error == -EFAULT || error == -EAGAIN;
}

/* Returns inject_end()'s result. */
static unsigned one_chance(const struct attempt *attempt, struct scene *scene,
                           unsigned n)
{
    unsigned left;
    int ret;

    if (attempt->before) {
        attempt->before(scene);
    }
    scene->deadline = deadline_in(10);
    inject_nth(n);
    ret = attempt->call(scene);
    left = inject_end();
    if (ret != attempt->right) {
        if (left || (!attempt->foreign && !is_clean(ret))) {
            FAIL("%s: chance %u: %d %s", attempt->name, n, ret,
                 error_name(ret));
        }
        ret = attempt->call(scene);
        if (ret != attempt->right) {
            FAIL("%s: made again after chance %u: %d %s", attempt->name, n,
                 ret, error_name(ret));
        }
    }
    if (attempt->after) {
        attempt->after(scene);
    }
    return left;
}

/* All, or as many as there is time for: others with another seed. */
static void all_chances(const struct attempt *attempt, struct scene *scene)
{
    unsigned chances = MOST_CHANCES - one_chance(attempt, scene, MOST_CHANCES);
    struct holdings before = stock_at_rest();
    uint64_t start = now_ns();
    unsigned n, taken = 0, step = 1;
    struct chance chance;

    if (attempt->most && !run.lengthy) {
        step = chances / attempt->most + 1;
    }
    chance_init(&chance, attempt->most);
    n = 1 + chance_below(&chance, step);
    for (; !one_chance(attempt, scene, n); n += step) {
        CHECK(++taken < MOST_CHANCES);
    }
    check_stock(attempt, &before);
    CHECK(taken || chances < n);
    note("%s: %u of %u chances, %llu ms", attempt->name, taken, chances,
         (unsigned long long)((now_ns() - start) / NS_PER_MS));
}

/* ---- The calls -------------------------------------------------------------------------- */

static int do_info(struct scene *s)
{
    struct unetmm_info info = { .size = sizeof(info) };

    return raw_ioctl(s->base.fd, UNETMM_IOC_INFO, &info);
}

static void open_other(struct scene *s)
{
    s->other.fd = raw_open_file();
}

static void close_other(struct scene *s)
{
    CHECK_SYS(close(s->other.fd));
}

static int do_space(struct scene *s)
{
    struct unetmm_space space = {
        .size = sizeof(space), .source = run.source,
    };
    int ret = raw_ioctl(s->other.fd, UNETMM_IOC_SPACE, &space);

    if (ret == -EFAULT) {
        /* The one call that may have been done all the same. */
        close_other(s);
        open_other(s);
    }
    return ret;
}

static void choose_endpoint(struct scene *s)
{
    s->other = (struct raw) { .fd = s->base.fd, .ep = raw_request() };
    s->other.ep.event_fd = s->event_fd;
}

/* A system buffer, of which some slots may be missing, and a thread. */
static void choose_redirecting(struct scene *s)
{
    CHECK_RET(write_file("/sys/module/unetmm/parameters/redirect_slots", "4"),
              0);
    choose_endpoint(s);
    s->other.ep.policy = UNETMM_POLICY_REDIRECT;
}

/* A raw one, with the backup ring, which has few buffers. */
static void choose_backup(struct scene *s)
{
    CHECK_RET(write_file("/sys/module/unetmm/parameters/backup_buffers", "8"),
              0);
    choose_endpoint(s);
    s->other.ep.policy = UNETMM_POLICY_BACKUP;
    s->other.ep.flags = UNETMM_ENDPOINT_RAW;
}

static int do_endpoint(struct scene *s)
{
    return raw_ioctl(s->base.fd, UNETMM_IOC_ENDPOINT, &s->other.ep);
}

static void close_endpoint(struct scene *s)
{
    raw_close_endpoint(&s->other);
}

static void close_redirecting(struct scene *s)
{
    close_endpoint(s);
    CHECK_RET(write_file("/sys/module/unetmm/parameters/redirect_slots",
                         "256"), 0);
}

static void close_backup(struct scene *s)
{
    close_endpoint(s);
    CHECK_RET(write_file("/sys/module/unetmm/parameters/backup_buffers",
                         "2048"), 0);
}

static void make_endpoint(struct scene *s)
{
    choose_endpoint(s);
    CHECK_RET(do_endpoint(s), 0);
}

static int do_endpoint_close(struct scene *s)
{
    return raw_destroy(s->base.fd, UNETMM_OBJECT_ENDPOINT, s->other.ep.id, 0);
}

static void make_raw(struct scene *s)
{
    choose_endpoint(s);
    s->other.ep.policy = UNETMM_POLICY_DROP;
    s->other.ep.flags = UNETMM_ENDPOINT_RAW;
    CHECK_RET(do_endpoint(s), 0);
}

static int do_flow(struct scene *s)
{
    struct unetmm_flow flow = {
        .size = sizeof(flow), .endpoint = s->other.ep.id,
        .kind = UNETMM_FLOW_MAC, .mac = { 2, 0x5d, 0, 0, 0, 1 },
    };
    int ret = raw_ioctl(s->base.fd, UNETMM_IOC_FLOW, &flow);

    s->flow = flow.flow;
    return ret;
}

static void make_flow(struct scene *s)
{
    make_raw(s);
    CHECK_RET(do_flow(s), 0);
}

static int do_flow_end(struct scene *s)
{
    return raw_destroy(s->base.fd, UNETMM_OBJECT_FLOW, s->other.ep.id, s->flow);
}

static int listen_on(struct scene *s, uint64_t service)
{
    struct unetmm_listen listen = {
        .size = sizeof(listen), .endpoint = s->base.ep.id, .service = service,
        .backlog = 4,
    };

    return raw_ioctl(s->base.fd, UNETMM_IOC_LISTEN, &listen);
}

static int do_listen(struct scene *s)
{
    return listen_on(s, SERVICE);
}

static void end_listen(struct scene *s)
{
    CHECK_RET(listen_on(s, 0), 0);
}

static void start_listen(struct scene *s)
{
    CHECK_RET(do_listen(s), 0);
}

static int do_connect(struct scene *s)
{
    s->connect = (struct unetmm_connect) {
        .size = sizeof(s->connect), .endpoint = s->base.ep.id,
        .service = SERVICE, .deadline_ns = s->deadline,
    };
    memcpy(s->connect.mac, s->mac, sizeof(s->mac));
    return raw_ioctl(s->base.fd, UNETMM_IOC_CONNECT, &s->connect);
}

static int do_accept(struct scene *s)
{
    s->accept = (struct unetmm_connect) {
        .size = sizeof(s->accept), .endpoint = s->base.ep.id,
        .deadline_ns = s->deadline,
    };
    return raw_ioctl(s->base.fd, UNETMM_IOC_ACCEPT, &s->accept);
}

static void listen_and_connect(struct scene *s)
{
    start_listen(s);
    CHECK_RET(do_connect(s), 0);
}

static int close_channel(struct scene *s, uint32_t number)
{
    return raw_destroy(s->base.fd, UNETMM_OBJECT_CHANNEL, s->base.ep.id, number);
}

/* After a connect and an accept; there is no other channel. */
static void check_channels(struct scene *s)
{
    CHECK_RET(close_channel(s, s->connect.channel), 0);
    CHECK_RET(close_channel(s, s->accept.channel), 0);
    CHECK(s->connect.channel < 2);
    CHECK(s->accept.channel < 2);
    end_listen(s);
}

static void accept_and_close(struct scene *s)
{
    CHECK_RET(do_accept(s), 0);
    check_channels(s);
}

static void make_channel(struct scene *s)
{
    listen_and_connect(s);
    CHECK_RET(do_accept(s), 0);
}

static int do_channel_close(struct scene *s)
{
    return close_channel(s, s->connect.channel);
}

static void close_accepted(struct scene *s)
{
    CHECK_RET(close_channel(s, s->accept.channel), 0);
    end_listen(s);
}

static int do_probe(struct scene *s)
{
    struct unetmm_probe probe = {
        .size = sizeof(probe), .deadline_ns = s->deadline,
    };

    memcpy(probe.mac, s->mac, sizeof(probe.mac));
    return raw_ioctl(s->base.fd, UNETMM_IOC_PROBE, &probe);
}

static int do_peers(struct scene *s)
{
    struct unetmm_listener found[2];
    struct unetmm_peers peers = {
        .size = sizeof(peers), .count = 2, .listeners = (uintptr_t)found,
    };
    int ret = raw_ioctl(s->base.fd, UNETMM_IOC_PEERS, &peers);

    /* The user's limit is no failure of an allocation. */
    return ret == -EAGAIN ? 0 : ret;
}

/* Never touched: the call has to page them in. */
static void map_memory(struct scene *s)
{
    s->memory = pages(MEMORY_PAGES);
}

static int region_call(struct scene *s, unsigned long request, unsigned flags)
{
    struct unetmm_region region = {
        .size = sizeof(region), .flags = flags,
        .addr = (uintptr_t)s->memory, .length = MEMORY_PAGES * PAGE,
    };

    return raw_ioctl(s->base.fd, request, &region);
}

static int do_register(struct scene *s)
{
    return region_call(s, UNETMM_IOC_REGISTER, UNETMM_REGION_WRITE);
}

static int do_deregister(struct scene *s)
{
    return region_call(s, UNETMM_IOC_DEREGISTER, 0);
}

static void end_memory(struct scene *s)
{
    unmap_pages(s->memory, MEMORY_PAGES);
}

static void deregister(struct scene *s)
{
    CHECK_RET(do_deregister(s), 0);
    end_memory(s);
}

static void map_registered(struct scene *s)
{
    map_memory(s);
    CHECK_RET(do_register(s), 0);
}

static int utlb_call(struct scene *s, unsigned long request, unsigned flags,
                     unsigned from, unsigned *done)
{
    struct unetmm_utlb utlb = {
        .size = sizeof(utlb), .flags = flags,
        .addr = (uintptr_t)s->memory + from * PAGE,
        .npages = MEMORY_PAGES - from,
    };
    int ret = raw_ioctl(s->base.fd, request, &utlb);

    *done = utlb.done;
    return ret;
}

/* A failure behind the first page is said by how far it got. */
static int do_utlb_pin(struct scene *s)
{
    unsigned from = 0, done;

    while (from < MEMORY_PAGES) {
        int ret = utlb_call(s, UNETMM_IOC_UTLB_PIN, UNETMM_REGION_WRITE, from,
                            &done);

        if (ret) {
            return ret;
        }
        CHECK(done && from + done <= MEMORY_PAGES);
        from += done;
    }
    return 0;
}

static int do_utlb_unpin(struct scene *s)
{
    unsigned done;

    return utlb_call(s, UNETMM_IOC_UTLB_UNPIN, 0, 0, &done);
}

static void utlb_unpin(struct scene *s)
{
    unsigned done;

    CHECK_RET(utlb_call(s, UNETMM_IOC_UTLB_UNPIN, 0, 0, &done), 0);
    CHECK_EQ(done, MEMORY_PAGES);
    end_memory(s);
}

static void map_pinned(struct scene *s)
{
    map_memory(s);
    CHECK_RET(do_utlb_pin(s), 0);
}

/* Never touched: the call has to fault them in; a failure is said by how far. */
static int do_prefetch(struct scene *s)
{
    struct unetmm_prefetch prefetch = {
        .size = sizeof(prefetch), .flags = UNETMM_PREFETCH_WRITE,
        .addr = (uintptr_t)s->memory, .length = MEMORY_PAGES * PAGE,
    };

    while (prefetch.length) {
        int ret = raw_ioctl(s->base.fd, UNETMM_IOC_PREFETCH, &prefetch);

        if (ret) {
            return ret;
        }
        CHECK(prefetch.done && prefetch.done <= prefetch.length);
        prefetch.addr += prefetch.done;
        prefetch.length -= prefetch.done;
    }
    return 0;
}

static int do_counters(struct scene *s)
{
    uint64_t values[UNETMM_NUM_COUNTERS];
    struct unetmm_counters counters = {
        .size = sizeof(counters), .scope = UNETMM_SCOPE_ENDPOINT,
        .endpoint = s->base.ep.id, .count = UNETMM_NUM_COUNTERS,
        .values = (uintptr_t)values,
    };

    return raw_ioctl(s->base.fd, UNETMM_IOC_COUNTERS, &counters);
}

/* A message of a page to itself, into one that nobody has touched. */
static void write_descriptors(struct scene *s)
{
    struct raw *raw = &s->other;
    unsigned out, in;

    raw_endpoint(raw, s->base.fd);
    raw_join_itself(raw, &out, &in);
    map_memory(s);
    pattern_fill(s->memory, PAGE, out, 0);
    *raw_fqe(raw, 0) = (struct unetmm_fqe) {
        .addr = (uintptr_t)s->memory + PAGE, .len = PAGE,
    };
    raw_sqe(raw, 0)->opcode = UNETMM_OP_SEND;
    raw_sqe(raw, 0)->nsegs = 1;
    raw_sqe(raw, 0)->channel = (uint16_t)out;
    raw_sqe(raw, 0)->seg[0].addr = (uintptr_t)s->memory;
    raw_sqe(raw, 0)->seg[0].len = PAGE;
    unetmm_write_index(&raw->index->user.sq_prod, 1);
    unetmm_write_index(&raw->index->user.fq_prod, 1);
}

static int do_post(struct scene *s)
{
    struct unetmm_post post = { .size = sizeof(post),
                                .endpoint = s->other.ep.id };

    return raw_ioctl(s->base.fd, UNETMM_IOC_POST, &post);
}

/* Sent, or refused for want of memory; a message that came is right. */
static void await_sent(struct scene *s)
{
    struct unetmm_cqe cqe;

    do {
        raw_await(&s->other, &cqe);
        CHECK(cqe.status == UNETMM_ST_OK || cqe.status == UNETMM_ST_LIMIT ||
              cqe.status == UNETMM_ST_SKIPPED);
        if (cqe.opcode == UNETMM_CQE_RECEIVED) {
            CHECK(!memcmp(s->memory, s->memory + PAGE, PAGE));
        }
    } while (cqe.opcode != UNETMM_CQE_SENT);
    raw_close_endpoint(&s->other);
    raw_unmap(&s->other);
    end_memory(s);
}

/* ---- Calls that are no ioctls ------------------------------------------------ */

static int do_open(struct scene *s)
{
    s->other.fd = open(UNETMM_DEFAULT_DEVICE, O_RDWR | O_CLOEXEC);
    return s->other.fd < 0 ? -errno : 0;
}

/* Maps, touches the mapping, and unmaps. */
static int map_and_touch(int fd, size_t bytes, uint64_t offset)
{
    volatile uint8_t *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                                MAP_SHARED, fd, (off_t)offset);
    size_t i;

    if (at == MAP_FAILED) {
        return -errno;
    }
    for (i = 0; i < bytes; i += PAGE) {
        unetmm_write_doorbell((volatile uint32_t *)(at + i));
    }
    if (munmap((void *)(uintptr_t)at, bytes)) {
        int ret = -errno;

        /* A second call would map it twice. */
        CHECK_SYS(munmap((void *)(uintptr_t)at, bytes));
        return ret;
    }
    return 0;
}

static int do_map_queues(struct scene *s)
{
    return map_and_touch(s->base.fd, s->other.ep.queue_bytes,
                         s->other.ep.queue_map);
}

static int do_map_doorbell(struct scene *s)
{
    return map_and_touch(s->base.fd, s->other.ep.doorbell_bytes,
                         s->other.ep.doorbell_map);
}

/* A file with all that there can be in one. */
static void open_whole(struct scene *s)
{
    s->memory = pages(MEMORY_PAGES);
    raw_open(&s->other);
    if (run.source == UNETMM_SOURCE_PINNED) {
        struct unetmm_region region = {
            .size = sizeof(region), .addr = (uintptr_t)s->memory,
            .length = MEMORY_PAGES * PAGE,
        };

        CHECK_RET(raw_ioctl(s->other.fd, UNETMM_IOC_REGISTER, &region), 0);
    }
}

static int do_close(struct scene *s)
{
    return close(s->other.fd) ? -errno : 0;
}

static void end_mappings(struct scene *s)
{
    raw_unmap(&s->other);
    end_memory(s);
}

static int do_poll(struct scene *s)
{
    struct pollfd entry = { .fd = s->base.fd, .events = POLLIN };

    return poll(&entry, 1, 0) < 0 ? -errno : 0;
}

static int do_read(struct scene *s)
{
    uint32_t word;

    return read(s->base.fd, &word, sizeof(word)) < 0 ? -errno : 0;
}

static int do_fork(struct scene *s)
{
    pid_t pid = fork();
    int status;

    (void)s;
    if (pid < 0) {
        return -errno;
    }
    if (!pid) {
        _exit(0);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    return status;
}

/* ---- Exports and imports ------------------------------------------------------------ */

static uint8_t exported[UNETMM_PAGE_BYTES] __attribute__((aligned(4096)));

static int do_export(struct scene *s)
{
    struct unetmm_export export = {
        .size = sizeof(export), .id = 9, .addr = (uintptr_t)exported,
        .length = sizeof(exported), .rights = UNETMM_RIGHT_ALL,
    };

    return raw_ioctl(s->base.fd, UNETMM_IOC_EXPORT, &export);
}

static int do_unexport(struct scene *s)
{
    return raw_destroy(s->base.fd, UNETMM_OBJECT_EXPORT, 0, 9);
}

static void make_keyed(struct scene *s)
{
    struct unetmm_export export = {
        .size = sizeof(export), .id = 9, .addr = (uintptr_t)exported,
        .length = sizeof(exported), .rights = UNETMM_RIGHT_ALL,
        .flags = UNETMM_EXPORT_KEYED,
    };

    CHECK_RET(raw_ioctl(s->base.fd, UNETMM_IOC_EXPORT, &export), 0);
}

static int do_export_key(struct scene *s)
{
    struct unetmm_export_key key = { .size = sizeof(key), .id = 9 };

    return raw_ioctl(s->base.fd, UNETMM_IOC_EXPORT_KEY, &key);
}

static void end_export(struct scene *s)
{
    CHECK_RET(do_unexport(s), 0);
}

static void make_export(struct scene *s)
{
    CHECK_RET(do_export(s), 0);
}

static void make_movable(struct scene *s)
{
    struct unetmm_export export = {
        .size = sizeof(export), .id = 9, .addr = (uintptr_t)exported,
        .length = sizeof(exported), .rights = UNETMM_RIGHT_ALL,
        .flags = UNETMM_EXPORT_REDIRECT,
    };

    CHECK_RET(raw_ioctl(s->base.fd, UNETMM_IOC_EXPORT, &export), 0);
}

static int do_redirect(struct scene *s)
{
    static uint8_t elsewhere[UNETMM_PAGE_BYTES]
        __attribute__((aligned(4096)));
    struct unetmm_redirect redirect = {
        .size = sizeof(redirect), .what = UNETMM_REDIRECT_BEGIN, .id = 9,
        .offset = 5, .length = 1000, .to = (uintptr_t)elsewhere,
    };

    return raw_ioctl(s->base.fd, UNETMM_IOC_REDIRECT, &redirect);
}

static void make_moved(struct scene *s)
{
    make_movable(s);
    CHECK_RET(do_redirect(s), 0);
}

static int do_redirect_end(struct scene *s)
{
    struct unetmm_redirect_id id = {
        .size = sizeof(id), .what = UNETMM_REDIRECT_END, .id = 9, .offset = 5,
    };

    return raw_ioctl(s->base.fd, UNETMM_IOC_REDIRECT_GO, &id);
}

/* A channel to itself, and something to import. */
static void make_reliable(struct scene *s)
{
    struct unetmm_listen listen = {
        .size = sizeof(listen), .endpoint = s->base.ep.id, .service = SERVICE,
        .backlog = 4, .flags = UNETMM_LISTEN_RELIABLE,
    };

    CHECK_RET(raw_ioctl(s->base.fd, UNETMM_IOC_LISTEN, &listen), 0);
    s->connect = (struct unetmm_connect) {
        .size = sizeof(s->connect), .endpoint = s->base.ep.id,
        .service = SERVICE, .deadline_ns = s->deadline,
        .flags = UNETMM_CONNECT_RELIABLE,
    };
    memcpy(s->connect.mac, s->mac, sizeof(s->mac));
    CHECK_RET(raw_ioctl(s->base.fd, UNETMM_IOC_CONNECT, &s->connect), 0);
    CHECK_RET(do_accept(s), 0);
    make_export(s);
}

static int do_import(struct scene *s)
{
    struct unetmm_import import = {
        .size = sizeof(import), .endpoint = s->base.ep.id, .id = 9,
        .channel = s->connect.channel, .deadline_ns = s->deadline,
    };

    return raw_ioctl(s->base.fd, UNETMM_IOC_IMPORT, &import);
}

static int do_unimport(struct scene *s)
{
    return raw_destroy(s->base.fd, UNETMM_OBJECT_IMPORT, s->base.ep.id, 0);
}

static void end_reliable(struct scene *s)
{
    end_export(s);
    check_channels(s);
}

/* An attempt that failed has left no import: this one is number 0. */
static void end_import(struct scene *s)
{
    CHECK_RET(do_unimport(s), 0);
    end_reliable(s);
}

static void make_import(struct scene *s)
{
    make_reliable(s);
    CHECK_RET(do_import(s), 0);
}

/* Proxy pages: they hook the scheduler, and need no peer. */
static int do_window(struct scene *s)
{
    struct unetmm_window window = {
        .size = sizeof(window), .endpoint = s->base.ep.id,
        .kind = UNETMM_WINDOW_FROM, .length = PAGE,
        .at = (uintptr_t)&s->base & ~(uintptr_t)(PAGE - 1),
    };
    int ret = raw_ioctl(s->base.fd, UNETMM_IOC_WINDOW, &window);

    s->window = window.id;
    return ret;
}

static int do_window_close(struct scene *s)
{
    return raw_destroy(s->base.fd, UNETMM_OBJECT_WINDOW, s->base.ep.id, s->window);
}

static void end_window(struct scene *s)
{
    CHECK_RET(do_window_close(s), 0);
}

static void make_window(struct scene *s)
{
    CHECK_RET(do_window(s), 0);
}

/* ---- Event counters ---------------------------------------------------------- */

static void open_space(struct scene *s)
{
    s->other.fd = raw_open_space();
}

static int do_event(struct scene *s)
{
    struct unetmm_event event = { .size = sizeof(event), .count = 1 };
    int ret = raw_ioctl(s->other.fd, UNETMM_IOC_EVENT, &event);

    s->counter = event.id;
    return ret;
}

static void make_event(struct scene *s)
{
    open_space(s);
    CHECK_RET(do_event(s), 0);
}

static int do_event_end(struct scene *s)
{
    return raw_destroy(s->other.fd, UNETMM_OBJECT_EVENT, 0, s->counter);
}

/* A value which the counter has not reached, and a deadline which has passed. */
static int do_event_wait(struct scene *s)
{
    struct unetmm_event_wait wait = {
        .size = sizeof(wait), .id = s->counter, .value = 1, .deadline_ns = 1,
    };

    return raw_ioctl(s->other.fd, UNETMM_IOC_EVENT_WAIT, &wait);
}

static int do_event_arm(struct scene *s)
{
    struct unetmm_event_arm arm = {
        .size = sizeof(arm), .id = s->counter, .value = 1,
        .event_fd = s->event_fd,
    };

    return raw_ioctl(s->other.fd, UNETMM_IOC_EVENT_ARM, &arm);
}

static const struct attempt attempts[] = {
#define ATTEMPT(name, before, call, after, ...) \
    { #name, before, call, after, .sources = __VA_ARGS__ }
    ATTEMPT(INFO, NULL, do_info, NULL, TEST_TLB),
    ATTEMPT(SPACE, open_other, do_space, close_other, TEST_SOURCES),
    ATTEMPT(ENDPOINT, choose_endpoint, do_endpoint, close_endpoint,
            TEST_MISS | TEST_SHADOW | TEST_ODP),
    ATTEMPT(ENDPOINT, choose_redirecting, do_endpoint, close_redirecting,
            TEST_TLB | TEST_SHADOW | TEST_ODP),
    ATTEMPT(ENDPOINT, choose_backup, do_endpoint, close_backup,
            TEST_TLB | TEST_SHADOW | TEST_ODP),
    ATTEMPT(FLOW, make_raw, do_flow, close_endpoint, TEST_TLB),
    ATTEMPT(DESTROY flow, make_flow, do_flow_end, close_endpoint, TEST_TLB),
    ATTEMPT(DESTROY endpoint, make_endpoint, do_endpoint_close, NULL, TEST_MISS),
    ATTEMPT(LISTEN, NULL, do_listen, end_listen, TEST_TLB),
    ATTEMPT(ACCEPT, listen_and_connect, do_accept, check_channels, TEST_TLB),
    ATTEMPT(CONNECT, start_listen, do_connect, accept_and_close, TEST_TLB),
    ATTEMPT(DESTROY channel, make_channel, do_channel_close, close_accepted,
            TEST_TLB),
    ATTEMPT(PROBE, NULL, do_probe, NULL, TEST_TLB),
    ATTEMPT(PEERS, NULL, do_peers, NULL, TEST_TLB),
    ATTEMPT(REGISTER, map_memory, do_register, deregister, TEST_PINNED),
    ATTEMPT(DEREGISTER, map_registered, do_deregister, end_memory,
            TEST_PINNED),
    ATTEMPT(COUNTERS, NULL, do_counters, NULL, TEST_TLB),
    ATTEMPT(POST, write_descriptors, do_post, await_sent, TEST_KTLB),
    ATTEMPT(UTLB_PIN, map_memory, do_utlb_pin, utlb_unpin, TEST_UTLB),
    ATTEMPT(UTLB_UNPIN, map_pinned, do_utlb_unpin, end_memory, TEST_UTLB),
    ATTEMPT(PREFETCH, map_memory, do_prefetch, end_memory,
            TEST_SHADOW | TEST_ODP),
    ATTEMPT(EXPORT, NULL, do_export, end_export, TEST_BOTH | TEST_SHADOW | TEST_ODP),
    ATTEMPT(DESTROY export, make_export, do_unexport, NULL, TEST_BOTH | TEST_SHADOW | TEST_ODP),
    ATTEMPT(EXPORT_KEY, make_keyed, do_export_key, end_export, TEST_BOTH | TEST_SHADOW | TEST_ODP),
    ATTEMPT(REDIRECT, make_movable, do_redirect, end_export, TEST_BOTH),
    ATTEMPT(REDIRECT_GO, make_moved, do_redirect_end, end_export, TEST_BOTH),
    ATTEMPT(IMPORT, make_reliable, do_import, end_import, TEST_TLB),
    ATTEMPT(DESTROY import, make_import, do_unimport, end_reliable, TEST_TLB),
    ATTEMPT(WINDOW, NULL, do_window, end_window, TEST_TLB),
    ATTEMPT(DESTROY window, make_window, do_window_close, NULL, TEST_TLB),
    ATTEMPT(EVENT, open_space, do_event, close_other, TEST_TLB),
    ATTEMPT(DESTROY event, make_event, do_event_end, close_other, TEST_TLB),
    ATTEMPT(EVENT_WAIT, make_event, do_event_wait, close_other, TEST_TLB,
            .right = -ETIMEDOUT),
    ATTEMPT(EVENT_ARM, make_event, do_event_arm, close_other, TEST_TLB),
    ATTEMPT(open, NULL, do_open, close_other, TEST_TLB),
    ATTEMPT(mmap queues, make_endpoint, do_map_queues, close_endpoint,
            TEST_TLB),
    ATTEMPT(mmap doorbell, make_endpoint, do_map_doorbell, close_endpoint,
            TEST_TLB),
    ATTEMPT(close, open_whole, do_close, end_mappings, TEST_SOURCES),
    ATTEMPT(poll, NULL, do_poll, NULL, TEST_TLB),
    ATTEMPT(read, NULL, do_read, NULL, TEST_TLB, .right = -EINVAL),
    ATTEMPT(fork, NULL, do_fork, NULL, TEST_TLB, .most = 12),
};

static unsigned this_source(void)
{
    return run.source == UNETMM_SOURCE_TLB ? TEST_TLB :
        run.source == UNETMM_SOURCE_KTLB ? TEST_KTLB :
        run.source == UNETMM_SOURCE_UTLB ? TEST_UTLB :
        run.source == UNETMM_SOURCE_SHADOW ? TEST_SHADOW :
        run.source == UNETMM_SOURCE_ODP ? TEST_ODP : TEST_PINNED;
}

TEST(calls, TEST_SOURCES, 60)
{
    struct scene scene = { .event_fd = CHECK_SYS(eventfd(0, EFD_CLOEXEC)) };
    uint8_t *at = pages(4);
    struct link link;
    unsigned i;

    inject_need();
    link_open(&link, NULL, NULL);
    reach(link.ctx, at, 4 * PAGE, true);
    card_mac(scene.mac);
    raw_open(&scene.base);
    for (i = 0; i < sizeof(attempts) / sizeof(attempts[0]); i++) {
        if (attempts[i].sources & this_source()) {
            all_chances(&attempts[i], &scene);
            exchange_pattern(&link, at + 100, at + 2 * PAGE, PAGE + 8, i);
        }
    }
    raw_close(&scene.base);
    link_close(&link);
    close(scene.event_fd);
}

/* ---- The driver comes ------------------------------------------------------------------ */

static void unbind_card(struct scene *s)
{
    (void)s;
    CHECK_RET(card_unbind(), 0);
}

static int do_bind(struct scene *s)
{
    (void)s;
    return card_bind();
}

static void unload_module(struct scene *s)
{
    (void)s;
    EVENTUALLY(module_unload() == 0);
}

static int do_load(struct scene *s)
{
    return module_load_from(s->module_fd);
}

/* That a card cannot be had is no reason for a module not to be loaded. */
static void bind_if_need_be(struct scene *s)
{
    (void)s;
    if (!card_present()) {
        CHECK_RET(card_bind(), 0);
    }
}

TEST_NAMED("bind", binding, TEST_TLB | TEST_NO_CARD, 60)
{
    static const struct attempt attempt =
        ATTEMPT(bind, unbind_card, do_bind, NULL, TEST_TLB, .foreign = true,
                .most = 10);
    struct scene scene = { 0 };

    inject_need();
    card_find();
    all_chances(&attempt, &scene);
    card_check_works();
}

TEST_NAMED("load", loading, TEST_TLB | TEST_NO_CARD, 60)
{
    static const struct attempt attempt =
        ATTEMPT(load, unload_module, do_load, bind_if_need_be, TEST_TLB,
                .foreign = true, .most = 3);
    struct scene scene = { 0 };

    inject_need();
    card_find();
    scene.module_fd = module_file();
    all_chances(&attempt, &scene);
    close(scene.module_fd);
    card_check_works();
}

/* ---- Misses, while memory cannot be had -------------------------------------------------- */

#define PRESSURE_PAGES  8

struct pressure {
    struct link link;
    uint8_t *from, *to;
    atomic_bool stop;
    unsigned refused;           /* sends and buffers */
};

/* A holder of mmap_lock makes the driver take a thread for the miss. */
static void *churn_thread(void *argument)
{
    struct pressure *p = argument;

    while (!atomic_load(&p->stop)) {
        uint8_t *at = pages(16);

        memset(at, 1, 16 * PAGE);
        unmap_pages(at, 16);
    }
    return NULL;
}

/* Received (true), or dropped. */
static bool arrives(struct station *rx, uint64_t handled)
{
    uint64_t end = deadline_in(10);
    struct unetmm_completion c;

    while (!take_now(rx, UNETMM_CQE_RECEIVED, &c)) {
        if (ep_handled(rx) > handled) {
            return take_now(rx, UNETMM_CQE_RECEIVED, &c);
        }
        CHECK(now_ns() < end);
    }
    return true;
}

static void post_again(struct pressure *p, size_t len)
{
    struct unetmm_completion c;

    while (take_now(p->link.rx, UNETMM_CQE_BUFFER, &c)) {
        CHECK(c.status == UNETMM_ST_LIMIT || c.status == UNETMM_ST_SKIPPED);
        p->refused += c.status == UNETMM_ST_LIMIT;
        post(p->link.rx, p->to, len, 1);
    }
}

/* One message from and into pages that nobody has, sent until it is there. */
static void push_through(struct pressure *p, size_t len, uint64_t key)
{
    struct iovec iov = { p->from, len };
    uint64_t end = deadline_in(20);
    struct unetmm_completion c;
    uint64_t handled;

    CHECK_SYS(madvise(p->from, PRESSURE_PAGES * PAGE, MADV_DONTNEED));
    pattern_fill(p->from, len, key, 0);
    post(p->link.rx, p->to, len, 1);
    CHECK_SYS(madvise(p->to, PRESSURE_PAGES * PAGE, MADV_DONTNEED));
    for (;;) {
        CHECK(now_ns() < end);
        handled = ep_handled(p->link.rx);
        send_pieces(p->link.tx, &iov, 1, 2, 0);
        take(p->link.tx, UNETMM_CQE_SENT, &c);
        CHECK(c.status == UNETMM_ST_OK || c.status == UNETMM_ST_LIMIT);
        p->refused += c.status == UNETMM_ST_LIMIT;
        if (c.status == UNETMM_ST_OK && arrives(p->link.rx, handled)) {
            break;
        }
        post_again(p, len);
    }
    CHECK_PATTERN(p->to, len, key);
}

TEST(misses, TEST_MISS | TEST_SHADOW | TEST_ODP, 60)
{
    struct pressure p = { .from = pages(PRESSURE_PAGES),
                          .to = pages(PRESSURE_PAGES) };
    /* At 15 % that more find all memory they need has a chance below 1e-70. */
    unsigned i, least = rounds(200), most = least + 1000;
    struct chance chance;
    pthread_t thread;

    inject_need();
    chance_init(&chance, 1);
    link_open(&p.link, NULL, NULL);
    CHECK_EQ(pthread_create(&thread, NULL, churn_thread, &p), 0);
    inject_into_workers(15, 1000000);
    for (i = 0; i < least || (i < most && !p.refused); i++) {
        push_through(&p, UNETMM_CQE_INLINE + 1 +
                     chance_below(&chance, p.link.tx->mtu - UNETMM_CQE_INLINE),
                     i);
    }
    inject_stop();
    note("%u refused", p.refused);
    CHECK(p.refused > 0);
    atomic_store(&p.stop, true);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    exchange_pattern(&p.link, p.from, p.to, PAGE, 1);
    link_close(&p.link);
}
