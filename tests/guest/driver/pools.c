/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Pools of all users of a card (docs/limits.md has the table): some users take of one
 * pool all that they can, one after another; another user and root go on.  Limits of
 * containers.
 */
#include "card.h"
#include "frame.h"
#include "group.h"
#include "link.h"
#include "process.h"
#include "raw.h"

#include <libunetmm/window.h>

#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PARAMETERS      "/sys/module/unetmm/parameters/"
#define FIRST_UID       4242u
#define LAST_UID        5000u
#define MOST_GREEDY     6u
#define ID              5
#define SPAN            ((size_t)4)     /* pages of a window */

/* ---- The pools ------------------------------------------------------------------ */

/* One process's objects. */
struct taker {
    struct unetmm_ctx *ctx;
    struct station one, two;
    uint8_t *memory;
    unsigned n;                 /* taken */
};

struct pool {
    unsigned greedy;            /* users that take all that they can */
    int refusal;
    void (*prepare)(struct taker *t);
    int (*take)(struct taker *t);
};

static void prepare_nothing(struct taker *t)
{
    (void)t;
}

static void prepare_space(struct taker *t)
{
    t->ctx = open_card();
}

static int take_space(struct taker *t)
{
    return unetmm_open(NULL, run.source, &t->ctx);
}

static struct unetmm_ep_attr small_attr(void)
{
    struct unetmm_ep_attr attr = default_attr();

    attr.send_slots = attr.free_depth = 8;
    attr.completion_depth = 16;
    return attr;
}

static int take_endpoint(struct taker *t)
{
    struct unetmm_ep_attr attr = small_attr();

    return unetmm_ep_create(t->ctx, &attr, &t->one.ep);
}

static void prepare_stations(struct taker *t)
{
    t->ctx = open_card();
    station_open(&t->one, t->ctx, NULL);
    station_open(&t->two, t->ctx, NULL);
}

static int take_channel(struct taker *t)
{
    static const struct unetmm_channel_attr reliable = UNETMM_CHANNEL_ATTR_INIT;

    return try_join(&t->one, &t->two, &reliable, NS_PER_S * run.slow);
}

static void prepare_memory(struct taker *t)
{
    t->ctx = open_card();
    t->memory = pages(1);
}

static int take_export(struct taker *t)
{
    return unetmm_export(t->ctx, t->n, t->memory, PAGE, UNETMM_RIGHT_READ, 0, 0);
}

static void prepare_import(struct taker *t)
{
    static const struct unetmm_channel_attr reliable = UNETMM_CHANNEL_ATTR_INIT;

    prepare_stations(t);
    t->memory = pages(SPAN);
    CHECK_RET(unetmm_export(t->ctx, ID, t->memory, SPAN * PAGE,
                            UNETMM_RIGHT_ALL, 0, 0), 0);
    CHECK_RET(try_join(&t->one, &t->two, &reliable, 10 * NS_PER_S * run.slow),
              0);
}

/* An import has one window, so they are large; the last pages one by one. */
static int take_window(struct taker *t)
{
    const struct unetmm_window_attr attr = UNETMM_WINDOW_ATTR_INIT;
    void *at;
    int import = unetmm_import(t->one.ep, (int)t->one.channel, ID,
                               UNETMM_RIGHT_ALL, 10 * NS_PER_S * run.slow, NULL);

    int ret;

    CHECK(import >= 0);
    ret = unetmm_window_open(t->one.ep, import, 0, SPAN * PAGE, &attr, &at);
    return ret != -EDQUOT ? ret :
        unetmm_window_open(t->one.ep, import, 0, PAGE, &attr, &at);
}

static int take_proxy(struct taker *t)
{
    void *at;

    return unetmm_udma_from(t->one.ep, t->memory, PAGE, &at);
}

/* Has CAP_NET_RAW, as a user that may capture packets. */
static void keep_net_raw(void)
{
    struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct data[2] = { { 0 } };

    data[0].effective = data[0].permitted = 1u << CAP_NET_RAW;
    CHECK_SYS(syscall(SYS_capset, &head, data));
}

static void prepare_frames(struct taker *t)
{
    struct unetmm_ep_attr attr = raw_attr(UNETMM_POLICY_DROP, 0);

    t->ctx = open_card();
    CHECK_RET(unetmm_ep_create(t->ctx, &attr, &t->one.ep), 0);
}

/* Frames to a group of its own, which nobody else loses by that. */
static int take_flow(struct taker *t)
{
    struct unetmm_flow_attr attr = UNETMM_FLOW_ATTR_INIT;
    uint32_t uid = getuid();
    int ret;

    attr.kind = UNETMM_FLOW_MAC;
    memcpy(attr.mac, (uint8_t[]){ 0x33, 0x77, (uint8_t)(uid >> 8),
                                  (uint8_t)uid, (uint8_t)(t->n >> 8),
                                  (uint8_t)t->n }, sizeof(attr.mac));
    ret = unetmm_flow_add(t->one.ep, &attr);
    return ret < 0 ? ret : 0;
}

static int take_announcement(struct taker *t)
{
    struct unetmm_channel_attr attr = UNETMM_CHANNEL_ATTR_INIT;
    int ret = take_endpoint(t);

    attr.flags |= UNETMM_ANNOUNCE;
    if (ret) {
        return ret;             /* a small card has fewer endpoints */
    }
    return unetmm_listen_ex(t->one.ep, SERVICE_FIRST + getuid() * 256 + t->n, 1,
                            &attr);
}

#define SOME_PINS       4096u

static void prepare_pins(struct taker *t)
{
    t->ctx = open_card();
    t->memory = pages(SOME_PINS);
}

static int take_pins(struct taker *t)
{
    return unetmm_register(t->ctx, t->memory + (size_t)t->n * 8 * PAGE, 8 * PAGE,
                           0);
}

/* ---- Users --------------------------------------------------------------------- */

enum { WAITS, TAKES, HAS_ALL, ENDS };

struct user {
    const struct pool *pool;
    unsigned uid;
    unsigned most;              /* of the pool; 0: all that it gets */
    atomic_uint state;
    unsigned got;
};

/* Other users may take thousands of objects meanwhile. */
static void await_state(struct user *user, unsigned state)
{
    struct patience patience = patience_of(120);

    while (atomic_load(&user->state) != state) {
        if (patience_ends(&patience, now_ns())) {
            FAIL("user %u is not in state %u within 120 s", user->uid, state);
        }
        breathe();
    }
}

static void become(const struct user *user)
{
    struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };

    CHECK_SYS(setrlimit(RLIMIT_MEMLOCK, &all));
    CHECK_SYS(prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0));
    be_user(user->uid);
    if (user->pool->take == take_flow) {
        keep_net_raw();
    }
}

static void user_main(void *argument)
{
    struct user *user = argument;
    struct taker t = { .n = 0 };
    int ret = 0;

    become(user);
    user->pool->prepare(&t);
    atomic_store(&user->state, WAITS);
    while (!user->most || t.n < user->most) {
        ret = user->pool->take(&t);
        if (ret) {
            CHECK_RET(ret, user->pool->refusal);
            break;
        }
        t.n++;
    }
    user->got = t.n;
    atomic_store(&user->state, HAS_ALL);
    await_state(user, ENDS);
}

/*
 * Each of some greedy users gets something, and holds it; another one and root get the
 * object that they ask for.
 */
static void goes_on(const struct pool *pool)
{
    struct user *users = shared_memory(PAGE);
    pid_t pids[MOST_GREEDY + 2];
    unsigned i, n = pool->greedy + 2;

    for (i = 0; i < n; i++) {
        users[i].pool = pool;
        users[i].uid = i < pool->greedy ? FIRST_UID + i :
            i == pool->greedy ? LAST_UID : 0;
        users[i].most = i < pool->greedy ? 0 : 1;
        pids[i] = start_process(user_main, &users[i]);
        await_state(&users[i], HAS_ALL);
        note("user %u: %u", users[i].uid, users[i].got);
        if (!users[i].got) {
            FAIL("user %u got nothing", users[i].uid);
        }
    }
    for (i = 0; i < n; i++) {
        atomic_store(&users[i].state, ENDS);
    }
    for (i = 0; i < n; i++) {
        end_process(pids[i]);
    }
}

#define POOL(name, limit, ...) \
    TEST(name, TEST_TLB, limit) \
    { \
        static const struct pool pool = { __VA_ARGS__ }; \
        \
        goes_on(&pool); \
    }
POOL(spaces, 0, 4, -EDQUOT, prepare_nothing, take_space)
POOL(endpoints, 0, 6, -EDQUOT, prepare_space, take_endpoint)
POOL(channels, 300, 2, -ENOSPC, prepare_stations, take_channel)
POOL(exports, 300, 4, -EDQUOT, prepare_memory, take_export)
POOL(windows, 0, 6, -EDQUOT, prepare_import, take_window)
POOL(flows, 0, 6, -EDQUOT, prepare_frames, take_flow)
POOL(announcements, 0, 5, -EDQUOT, prepare_space, take_announcement)

/* Pages for user-level DMA start. */
TEST(proxies, TEST_TLB)
{
    static const struct pool pool = { 6, -EDQUOT, prepare_import, take_proxy };

    user_probes(true);
    goes_on(&pool);
    user_probes(false);
}

TEST(pins, TEST_PINNED)
{
    static const struct pool pool = { 4, -ENOMEM, prepare_pins, take_pins };
    int ret;

    CHECK_RET(write_file(PARAMETERS "pin_limit_pages", "4096"), 0);
    goes_on(&pool);
    ret = write_file(PARAMETERS "pin_limit_pages", "262144");
    CHECK_RET(ret, 0);
}

/* A call that would take all pages at once. */
TEST(all_windows_at_once, TEST_TLB)
{
    struct unetmm_window window = { .size = sizeof(window) };
    struct raw raw;

    drop_capability(CAP_SYS_RESOURCE);
    raw_open(&raw);
    window.endpoint = raw.ep.id;
    window.length = (uint64_t)256 * PAGE;
    CHECK_RET(raw_ioctl(raw.fd, UNETMM_IOC_WINDOW, &window), -EDQUOT);
    window.length = (uint64_t)257 * PAGE;
    CHECK_RET(raw_ioctl(raw.fd, UNETMM_IOC_WINDOW, &window), -ENOSPC);
    raw_close(&raw);
}

/* ---- Containers ---------------------------------------------------------------- */

/* User 4242 is 1 of a namespace of its own, and not another user of the card. */
static void namespace_main(void *argument)
{
    struct user *user = argument;
    struct unetmm_ctx *ctx[4];
    unsigned i;

    be_user(user->uid);
    CHECK_SYS(unshare(CLONE_NEWUSER));
    atomic_store(&user->state, TAKES);
    await_state(user, WAITS);
    CHECK_SYS(setresuid(1, 1, 1));
    for (i = 0; i < user->most; i++) {
        CHECK_RET(unetmm_open(NULL, run.source, &ctx[i]), 0);
    }
    CHECK_RET(unetmm_open(NULL, run.source, &ctx[i]), -EDQUOT);
    atomic_store(&user->state, HAS_ALL);
}

TEST(user_namespaces, TEST_TLB)
{
    static const struct pool pool = { 1, -EDQUOT, prepare_nothing, take_space };
    struct user *users = shared_memory(PAGE);
    char path[40];
    pid_t outside, inside;
    int result;

    if (access("/proc/self/ns/user", F_OK)) {
        test_skip("this kernel has no user namespaces");
    }
    CHECK_RET(write_file(PARAMETERS "user_spaces", "3"), 0);
    users[0] = (struct user){ .pool = &pool, .uid = FIRST_UID, .most = 2 };
    users[1] = (struct user){ .uid = FIRST_UID, .most = 1 };
    outside = start_process(user_main, &users[0]);
    await_state(&users[0], HAS_ALL);
    inside = start_process(namespace_main, &users[1]);
    await_state(&users[1], TAKES);
    snprintf(path, sizeof(path), "/proc/%d/uid_map", (int)inside);
    CHECK_RET(write_file(path, "0 4242 1\n1 700000 10\n"), 0);
    atomic_store(&users[1].state, WAITS);
    result = await_process(inside);
    atomic_store(&users[0].state, ENDS);
    end_process(outside);
    CHECK_RET(write_file(PARAMETERS "user_spaces", "0"), 0);
    CHECK_EQ(result, 0);
}

static void limit_container(const char *text)
{
    if (group_write("rdma.max", text)) {
        test_skip("this kernel has no rdma controller");
    }
}

/* Root in a container, which has all capabilities: as many as the container may. */
static void container_main(void *unused)
{
    struct unetmm_ep_attr attr = small_attr();
    struct unetmm_ctx *ctx, *more;
    struct unetmm_ep *ep[3];
    uint8_t *at = pages(1);
    uint64_t limited;
    unsigned i, n;

    (void)unused;
    group_enter("container");
    for (i = 0; i < 2; i++) {
        ctx = open_card();
        limited = driver_counter(ctx, UNETMM_D_user_limited);
        CHECK_RET(unetmm_open(NULL, run.source, &more), -EDQUOT);
        CHECK_RET(unetmm_ep_create(ctx, &attr, &ep[0]), 0);
        CHECK_RET(unetmm_ep_create(ctx, &attr, &ep[1]), 0);
        CHECK_RET(unetmm_export(ctx, 1, at, PAGE, UNETMM_RIGHT_READ, 0, 0), 0);
        CHECK_RET(unetmm_ep_create(ctx, &attr, &ep[2]), -EDQUOT);
        CHECK_RET(unetmm_export(ctx, 2, at, PAGE, UNETMM_RIGHT_READ, 0, 0),
                  -EDQUOT);
        CHECK_EQ(driver_counter(ctx, UNETMM_D_user_limited), limited + 3);
        CHECK_RET(unetmm_unexport(ctx, 1), 0);
        CHECK_RET(unetmm_ep_create(ctx, &attr, &ep[2]), 0);
        n = 3;
        /* A group within does not help. */
        group_enter("container/within");
        CHECK_RET(unetmm_open(NULL, run.source, &more), -EDQUOT);
        /* All of it is given back to the group that had it. */
        while (n) {
            CHECK_RET(unetmm_ep_destroy(ep[--n]), 0);
        }
        CHECK_RET(unetmm_close(ctx), 0);
        group_enter("container");
    }
}

TEST(containers, TEST_TLB)
{
    struct unetmm_ep_attr attr = small_attr();
    struct unetmm_ctx *ctx;
    struct unetmm_ep *ep;
    pid_t pid;

    group_make("container", "+rdma");
    limit_container("unetmm0 hca_handle=1 hca_object=3");
    pid = start_process(container_main, NULL);
    end_process(pid);
    /* Others have no limit. */
    ctx = open_card();
    CHECK_RET(unetmm_ep_create(ctx, &attr, &ep), 0);
    CHECK_RET(unetmm_ep_destroy(ep), 0);
    CHECK_RET(unetmm_close(ctx), 0);
    limit_container("unetmm0 hca_handle=max hca_object=max");
}

/* Queues are memory of the process's group. */
TEST(queues_charged, TEST_TLB)
{
    struct unetmm_ep_attr attr = default_attr();
    struct unetmm_ctx *ctx = open_card();
    long long before, during, queues;
    struct unetmm_ep *ep;

    attr.send_slots = attr.free_depth = attr.completion_depth = 4096;
    queues = 4096 * (long long)(sizeof(struct unetmm_sqe) +
                                sizeof(struct unetmm_fqe) +
                                sizeof(struct unetmm_cqe));
    group_enter("queues");
    before = group_now("memory.current");
    CHECK_RET(unetmm_ep_create(ctx, &attr, &ep), 0);
    during = group_now("memory.current") - before;
    note("%lld bytes charged, queues of at least %lld", during, queues);
    CHECK(during >= queues);
    CHECK_RET(unetmm_ep_destroy(ep), 0);
    before += during;
    EVENTUALLY(before - group_now("memory.current") >= queues);
    CHECK_RET(unetmm_close(ctx), 0);
}
