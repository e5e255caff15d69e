/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The calls of the driver: lengths, reserved fields, pointers, the rights to
 * make them, and mappings.
 */
#include "card.h"
#include "link.h"
#include "pair.h"
#include "process.h"
#include "raw.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define SERVICE         (SERVICE_FIRST - 3)

/* ---- Every call with an argument that is right --------------------------------- */

union argument {
    struct unetmm_info info;
    struct unetmm_space space;
    struct unetmm_endpoint endpoint;
    struct unetmm_destroy destroy;
    struct unetmm_listen listen;
    struct unetmm_connect connect;
    struct unetmm_probe probe;
    struct unetmm_peers peers;
    struct unetmm_region region;
    struct unetmm_counters counters;
    struct unetmm_post post;
    struct unetmm_utlb utlb;
    struct unetmm_prefetch prefetch;
    struct unetmm_export export;
    struct unetmm_export_key export_key;
    struct unetmm_redirect redirect;
    struct unetmm_redirect_id redirect_id;
    struct unetmm_import import;
    struct unetmm_window window;
    struct unetmm_event event;
    struct unetmm_event_wait event_wait;
    struct unetmm_event_arm event_arm;
    struct unetmm_flow flow;
    uint8_t bytes[256];
};

static uint64_t some_values[UNETMM_NUM_COUNTERS];
static uint8_t some_memory[UNETMM_PAGE_BYTES] __attribute__((aligned(4096)));
static uint8_t more_memory[UNETMM_PAGE_BYTES] __attribute__((aligned(4096)));

/* The right to make a call; the driver has the same table (card/file.c). */
enum needs {
    NEEDS_NOTHING,              /* the descriptor */
    NEEDS_NO_OTHER,             /* the file has no space, or the caller's */
    NEEDS_OWNER,                /* the file has the caller's space ... */
    NEEDS_ENDPOINT,             /* ... and the second word is an endpoint of it */
};

struct call {
    const char *name;
    unsigned long request;
    uint32_t size;
    uint32_t first;             /* the first published length */
    enum needs needs;
    /* Fills the argument; returns the call's expected result. */
    int (*prepare)(struct raw *raw, union argument *a);
    void (*undo)(struct raw *raw, union argument *a);
};

static int prepare_info(struct raw *raw, union argument *a)
{
    (void)raw;
    (void)a;
    return 0;
}

/* On its own file, in place of the endpoint's file. */
static int prepare_space(struct raw *raw, union argument *a)
{
    raw->fd = raw_open_file();
    a->space.source = run.source;
    return 0;
}

static void undo_space(struct raw *raw, union argument *a)
{
    (void)a;
    close(raw->fd);
}

static int prepare_endpoint(struct raw *raw, union argument *a)
{
    (void)raw;
    a->endpoint = raw_request();
    return 0;
}

static void close_number(int fd, uint32_t number)
{
    CHECK_RET(raw_destroy(fd, UNETMM_OBJECT_ENDPOINT, number, 0), 0);
}

static void undo_endpoint(struct raw *raw, union argument *a)
{
    close_number(raw->fd, a->endpoint.id);
}

static int prepare_destroy_endpoint(struct raw *raw, union argument *a)
{
    struct unetmm_endpoint request = raw_request();

    CHECK_RET(raw_ioctl(raw->fd, UNETMM_IOC_ENDPOINT, &request), 0);
    a->destroy.type = UNETMM_OBJECT_ENDPOINT;
    a->destroy.endpoint = request.id;
    return 0;
}

static int prepare_listen(struct raw *raw, union argument *a)
{
    a->listen.endpoint = raw->ep.id;
    a->listen.service = SERVICE;
    a->listen.backlog = 1;
    return 0;
}

static int prepare_accept(struct raw *raw, union argument *a)
{
    a->connect.endpoint = raw->ep.id;
    return -EAGAIN;
}

static int prepare_connect(struct raw *raw, union argument *a)
{
    a->connect.endpoint = raw->ep.id;
    a->connect.service = SERVICE + 0x10000;
    /* Nobody has it: however slow all is, there is no answer. */
    memcpy(a->connect.mac, "\x02unetx", sizeof(a->connect.mac));
    a->connect.deadline_ns = now_ns() + 20 * NS_PER_MS;
    return -EHOSTUNREACH;
}

/* Each of these types ends in the same call; there is no such object. */
#define DESTROY(name, of_type, of_endpoint, of_count, result) \
    static int prepare_destroy_##name(struct raw *raw, union argument *a) \
    { \
        a->destroy.type = UNETMM_OBJECT_##of_type; \
        a->destroy.endpoint = (of_endpoint) ? raw->ep.id : 0; \
        a->destroy.count = of_count; \
        a->destroy.id = 5; \
        return result; \
    }
DESTROY(channel, CHANNEL, true, 0, -ENOENT)
DESTROY(export, EXPORT, false, 0, -ENOENT)
DESTROY(import, IMPORT, true, 0, -ENOENT)
DESTROY(window, WINDOW, true, 0, -ENOENT)
DESTROY(event, EVENT, false, 1, -ENOENT)
DESTROY(flow, FLOW, true, 0, -EPROTOTYPE)
#undef DESTROY

static int prepare_probe(struct raw *raw, union argument *a)
{
    (void)raw;
    a->probe.deadline_ns = deadline_in(5);
    card_mac(a->probe.mac);
    return 0;
}

/*
 * In vain: in a second a user has not as many questions as these tests make calls.  The
 * others are in channel.c.
 */
static int prepare_peers(struct raw *raw, union argument *a)
{
    static struct unetmm_listener found[4];

    (void)raw;
    a->peers.count = UNETMM_MAX_LISTENERS + 1;
    a->peers.listeners = (uintptr_t)found;
    return -EINVAL;
}

static int prepare_region(struct raw *raw, union argument *a)
{
    (void)raw;
    a->region.addr = (uintptr_t)some_memory;
    a->region.length = sizeof(some_memory);
    return run.source == UNETMM_SOURCE_PINNED ? 0 : -EOPNOTSUPP;
}

static void undo_register(struct raw *raw, union argument *a)
{
    if (run.source == UNETMM_SOURCE_PINNED) {
        CHECK_RET(raw_ioctl(raw->fd, UNETMM_IOC_DEREGISTER, a), 0);
    }
}

/* Until a call succeeds. */
static bool is_registered;

static void undo_deregister(struct raw *raw, union argument *a)
{
    (void)raw;
    (void)a;
    is_registered = false;
}

static int prepare_deregister(struct raw *raw, union argument *a)
{
    int ret = prepare_region(raw, a);

    a->region.size = sizeof(a->region);
    if (!is_registered) {
        CHECK_RET(raw_ioctl(raw->fd, UNETMM_IOC_REGISTER, a), ret);
    }
    is_registered = !ret;
    return ret;
}

static int prepare_counters(struct raw *raw, union argument *a)
{
    (void)raw;
    a->counters.count = UNETMM_NUM_COUNTERS;
    a->counters.values = (uintptr_t)some_values;
    return 0;
}

/* Nothing to post is posted. */
static int prepare_post(struct raw *raw, union argument *a)
{
    a->post.endpoint = raw->ep.id;
    return run.source == UNETMM_SOURCE_KTLB ? 0 : -EOPNOTSUPP;
}

static int prepare_utlb(struct raw *raw, union argument *a)
{
    (void)raw;
    a->utlb.addr = (uintptr_t)some_memory;
    a->utlb.npages = 1;
    return run.source == UNETMM_SOURCE_UTLB ? 0 : -EOPNOTSUPP;
}

static void undo_pin(struct raw *raw, union argument *a)
{
    if (run.source == UNETMM_SOURCE_UTLB) {
        CHECK_EQ(a->utlb.done, 1);
        CHECK_RET(raw_ioctl(raw->fd, UNETMM_IOC_UTLB_UNPIN, a), 0);
        CHECK_EQ(a->utlb.done, 1);
    }
}

static bool can_prefetch(void)
{
    return run.source == UNETMM_SOURCE_ODP ||
           run.source == UNETMM_SOURCE_SHADOW;
}

static int prepare_prefetch(struct raw *raw, union argument *a)
{
    (void)raw;
    a->prefetch.flags = UNETMM_PREFETCH_WRITE;
    a->prefetch.addr = (uintptr_t)more_memory;
    a->prefetch.length = sizeof(more_memory);
    return can_prefetch() ? 0 : -EOPNOTSUPP;
}

static bool can_export(void)
{
    return run.source != UNETMM_SOURCE_KTLB;
}

static int prepare_export(struct raw *raw, union argument *a)
{
    (void)raw;
    a->export.id = 4;
    a->export.addr = (uintptr_t)more_memory;
    a->export.length = sizeof(more_memory);
    a->export.rights = UNETMM_RIGHT_ALL;
    return can_export() ? 0 : -EOPNOTSUPP;
}

static void undo_export(struct raw *raw, union argument *a)
{
    if (can_export()) {
        CHECK_RET(raw_destroy(raw->fd, UNETMM_OBJECT_EXPORT, 0, a->export.id), 0);
    }
}

static int prepare_export_key(struct raw *raw, union argument *a)
{
    (void)raw;
    a->export_key.id = 6;
    return -ENOENT;
}

static int prepare_redirect(struct raw *raw, union argument *a)
{
    (void)raw;
    a->redirect.what = UNETMM_REDIRECT_BEGIN;
    a->redirect.id = 6;
    a->redirect.to = (uintptr_t)more_memory;
    a->redirect.length = 1;
    return can_export() ? -ENOENT : -EOPNOTSUPP;
}

static int prepare_redirect_go(struct raw *raw, union argument *a)
{
    (void)raw;
    a->redirect_id.what = UNETMM_REDIRECT_END;
    a->redirect_id.id = 6;
    return -ENOENT;
}

static int prepare_import(struct raw *raw, union argument *a)
{
    a->import.endpoint = raw->ep.id;
    a->import.channel = 5;
    return -ENOENT;
}

static int prepare_window(struct raw *raw, union argument *a)
{
    a->window.endpoint = raw->ep.id;
    a->window.kind = UNETMM_WINDOW_FROM;
    a->window.at = (uintptr_t)some_memory & ~(uintptr_t)(PAGE - 1);
    a->window.length = PAGE;
    return 0;
}

static void undo_window(struct raw *raw, union argument *a)
{
    CHECK_RET(raw_destroy(raw->fd, UNETMM_OBJECT_WINDOW, raw->ep.id, a->window.id), 0);
}

static int prepare_event(struct raw *raw, union argument *a)
{
    (void)raw;
    a->event.count = 2;
    return 0;
}

static void undo_event(struct raw *raw, union argument *a)
{
    struct unetmm_destroy destroy = {
        .size = sizeof(destroy), .type = UNETMM_OBJECT_EVENT,
        .id = a->event.id, .count = 2,
    };

    CHECK_RET(raw_ioctl(raw->fd, UNETMM_IOC_DESTROY, &destroy), 0);
}

static int prepare_event_wait(struct raw *raw, union argument *a)
{
    (void)raw;
    a->event_wait.id = 5;
    return -ENOENT;
}

static int prepare_event_arm(struct raw *raw, union argument *a)
{
    (void)raw;
    a->event_arm.id = 5;
    a->event_arm.event_fd = -1;
    return -ENOENT;
}

/* The endpoint is none of frames. */
static int prepare_flow(struct raw *raw, union argument *a)
{
    a->flow.endpoint = raw->ep.id;
    a->flow.kind = UNETMM_FLOW_MAC;
    a->flow.mac[0] = 2;
    return -EPROTOTYPE;
}

static const struct call calls[] = {
#define CALL(name, needs, type, prepare, undo) \
    { #name, UNETMM_IOC_##name, sizeof(struct type), sizeof(struct type), \
      NEEDS_##needs, prepare, undo }
/* One that has grown: the member that was the last one at first. */
#define GROWN(name, needs, type, last, prepare, undo) \
    { #name, UNETMM_IOC_##name, sizeof(struct type), \
      offsetof(struct type, last) + sizeof(((struct type *)NULL)->last), \
      NEEDS_##needs, prepare, undo }
    GROWN(INFO, NOTHING, unetmm_info, pin_limit_pages, prepare_info, NULL),
    CALL(SPACE, NO_OTHER, unetmm_space, prepare_space, undo_space),
    GROWN(ENDPOINT, OWNER, unetmm_endpoint, doorbell_map, prepare_endpoint,
          undo_endpoint),
#define DESTROY(name, needs) \
    { "DESTROY " #name, UNETMM_IOC_DESTROY, sizeof(struct unetmm_destroy), \
      sizeof(struct unetmm_destroy), NEEDS_##needs, prepare_destroy_##name, NULL }
    DESTROY(endpoint, ENDPOINT),
    DESTROY(channel, ENDPOINT),
    DESTROY(export, OWNER),
    DESTROY(import, ENDPOINT),
    DESTROY(window, ENDPOINT),
    DESTROY(event, OWNER),
    DESTROY(flow, ENDPOINT),
#undef DESTROY
    GROWN(LISTEN, ENDPOINT, unetmm_listen, flags, prepare_listen, NULL),
    GROWN(ACCEPT, ENDPOINT, unetmm_connect, flags, prepare_accept, NULL),
    GROWN(CONNECT, ENDPOINT, unetmm_connect, flags, prepare_connect, NULL),
    CALL(PROBE, NO_OTHER, unetmm_probe, prepare_probe, NULL),
    CALL(PEERS, NO_OTHER, unetmm_peers, prepare_peers, NULL),
    CALL(REGISTER, OWNER, unetmm_region, prepare_region, undo_register),
    CALL(DEREGISTER, OWNER, unetmm_region, prepare_deregister,
         undo_deregister),
    CALL(COUNTERS, NOTHING, unetmm_counters, prepare_counters, NULL),
    CALL(POST, ENDPOINT, unetmm_post, prepare_post, NULL),
    CALL(UTLB_PIN, OWNER, unetmm_utlb, prepare_utlb, undo_pin),
    CALL(UTLB_UNPIN, OWNER, unetmm_utlb, prepare_utlb, NULL),
    CALL(PREFETCH, OWNER, unetmm_prefetch, prepare_prefetch, NULL),
    CALL(EXPORT, OWNER, unetmm_export, prepare_export, undo_export),
    CALL(EXPORT_KEY, OWNER, unetmm_export_key, prepare_export_key, NULL),
    CALL(REDIRECT, OWNER, unetmm_redirect, prepare_redirect, NULL),
    CALL(REDIRECT_GO, OWNER, unetmm_redirect_id, prepare_redirect_go, NULL),
    CALL(IMPORT, ENDPOINT, unetmm_import, prepare_import, NULL),
    CALL(WINDOW, ENDPOINT, unetmm_window, prepare_window, undo_window),
    CALL(EVENT, OWNER, unetmm_event, prepare_event, undo_event),
    CALL(EVENT_WAIT, OWNER, unetmm_event_wait, prepare_event_wait, NULL),
    CALL(EVENT_ARM, OWNER, unetmm_event_arm, prepare_event_arm, NULL),
    CALL(FLOW, ENDPOINT, unetmm_flow, prepare_flow, NULL),
#undef GROWN
#undef CALL
};
#define NUM_CALLS (sizeof(calls) / sizeof(calls[0]))

/* A file with a space and an endpoint, and an argument for a call on it. */
static int prepare(const struct call *call, struct raw *raw,
                   const struct raw *base, union argument *a)
{
    int ret;

    *raw = *base;
    memset(a, 0, sizeof(*a));
    ret = call->prepare(raw, a);
    memset(a->bytes + call->size, 0, sizeof(*a) - call->size);
    memcpy(a->bytes, &call->size, sizeof(call->size));
    return ret;
}

static void undo(const struct call *call, struct raw *raw, union argument *a)
{
    if (call->undo) {
        call->undo(raw, a);
    }
}

#define CHECK_CALL(call, expression, wanted) \
    do { \
        long long result_ = (expression); \
        if (result_ != (wanted)) { \
            FAIL("%s: %s is %lld %s, not %lld %s", (call)->name, #expression, \
                 result_, error_name(result_), (long long)(wanted), \
                 error_name(wanted)); \
        } \
    } while (0)

/* ---- Lengths ------------------------------------------------------------------------ */

static void one_call_by_length(const struct call *call,
                               const struct raw *base)
{
    union argument a;
    struct raw raw;
    uint32_t size;
    int right;

    /* As it was published, and longer with zeros in the rest */
    for (size = call->size; size <= call->size + 64; size += 32) {
        right = prepare(call, &raw, base, &a);
        memcpy(a.bytes, &size, sizeof(size));
        CHECK_CALL(call, raw_ioctl(raw.fd, call->request, &a), right);
        CHECK_BYTES(a.bytes + call->size, sizeof(a) - call->size, 0);
        CHECK(!memcmp(a.bytes, &size, sizeof(size)));
        undo(call, &raw, &a);
    }
    /* As it was at first: no more than that is read or written. */
    right = prepare(call, &raw, base, &a);
    memcpy(a.bytes, &call->first, sizeof(call->first));
    memset(a.bytes + call->first, 0xa5, sizeof(a) - call->first);
    CHECK_CALL(call, raw_ioctl(raw.fd, call->request, &a), right);
    CHECK_BYTES(a.bytes + call->first, sizeof(a) - call->first, 0xa5);
    undo(call, &raw, &a);
    /* Short: by one byte, by all but the length, by all */
    for (size = call->first - 1; size < call->first;
         size = size > 4 ? 4 : size - 4) {
        prepare(call, &raw, base, &a);
        memcpy(a.bytes, &size, sizeof(size));
        CHECK_CALL(call, raw_ioctl(raw.fd, call->request, &a), -EINVAL);
        if (call->prepare == prepare_space) {
            close(raw.fd);
        }
    }
    /* Longer with other bytes in the rest */
    prepare(call, &raw, base, &a);
    size = call->size + 32;
    memcpy(a.bytes, &size, sizeof(size));
    a.bytes[size - 1] = 1;
    CHECK_CALL(call, raw_ioctl(raw.fd, call->request, &a), -E2BIG);
    size = UINT32_MAX;
    memcpy(a.bytes, &size, sizeof(size));
    CHECK(raw_ioctl(raw.fd, call->request, &a) < 0);
}

TEST(lengths, TEST_ALL | TEST_UTLB | TEST_SHADOW | TEST_ODP)
{
    struct raw base;
    unsigned i;

    raw_open(&base);
    for (i = 0; i < NUM_CALLS; i++) {
        one_call_by_length(&calls[i], &base);
    }
    /* One file has one space. */
    raw_close(&base);
}

/* ---- Pointers ------------------------------------------------------------------------- */

static void one_call_by_pointer(const struct call *call,
                                const struct raw *base)
{
    struct guard guard;
    union argument a;
    struct raw raw;
    uint32_t size;
    int right;

    /* Right before a page that is not there */
    guard_make_at_end(&guard, call->size);
    right = prepare(call, &raw, base, &a);
    memcpy(guard.at, &a, call->size);
    CHECK_CALL(call, raw_ioctl(raw.fd, call->request, guard.at), right);
    memcpy(&a, guard.at, call->size);
    guard_check(&guard, call->size);
    undo(call, &raw, &a);

    prepare(call, &raw, base, &a);
    size = call->size + 8;
    memcpy(guard.at, &a, call->size);
    memcpy(guard.at, &size, sizeof(size));
    CHECK_CALL(call, raw_ioctl(raw.fd, call->request, guard.at), -EFAULT);
    CHECK_CALL(call, raw_ioctl(raw.fd, call->request, guard.area - PAGE),
               -EFAULT);
    CHECK_CALL(call, raw_ioctl(raw.fd, call->request, NULL), -EFAULT);
    CHECK_CALL(call, raw_ioctl(raw.fd, call->request,
                               (void *)0xffff888000000000), -EFAULT);
    CHECK_CALL(call, raw_ioctl(raw.fd, call->request,
                               (void *)0x8000000000000000), -EFAULT);
    guard_free(&guard);
    if (raw.fd != base->fd) {
        close(raw.fd);
    }
}

TEST(pointers, TEST_ALL | TEST_UTLB)
{
    struct unetmm_counters counters = { .size = sizeof(counters) };
    struct raw base;
    unsigned i;

    raw_open(&base);
    for (i = 0; i < NUM_CALLS; i++) {
        one_call_by_pointer(&calls[i], &base);
    }
    counters.count = 5;
    CHECK_RET(raw_ioctl(base.fd, UNETMM_IOC_COUNTERS, &counters), -EFAULT);
    counters.values = 0xffff888000000000;
    CHECK_RET(raw_ioctl(base.fd, UNETMM_IOC_COUNTERS, &counters), -EFAULT);
    counters.count = 0;
    CHECK_RET(raw_ioctl(base.fd, UNETMM_IOC_COUNTERS, &counters), 0);
    CHECK_EQ(counters.count, UNETMM_NUM_COUNTERS);
    counters.count = UINT32_MAX;
    counters.values = (uintptr_t)some_values;
    CHECK_RET(raw_ioctl(base.fd, UNETMM_IOC_COUNTERS, &counters), 0);
    CHECK_EQ(counters.count, UNETMM_NUM_COUNTERS);
    raw_close(&base);
}

/* Has the call nothing to say but its result? */
static bool is_silent(const struct call *call)
{
    return call->request == UNETMM_IOC_DESTROY ||
        call->request == UNETMM_IOC_LISTEN ||
        call->request == UNETMM_IOC_REGISTER ||
        call->request == UNETMM_IOC_DEREGISTER ||
        call->request == UNETMM_IOC_POST ||
        call->request == UNETMM_IOC_EXPORT;
}

static void one_call_read_only(const struct call *call, const struct raw *base,
                               uint8_t *page)
{
    union argument a;
    struct raw raw;
    int right = prepare(call, &raw, base, &a);

    CHECK_SYS(mprotect(page, PAGE, PROT_READ | PROT_WRITE));
    memcpy(page, &a, call->size);
    CHECK_SYS(mprotect(page, PAGE, PROT_READ));
    if (!right && !is_silent(call)) {
        CHECK_CALL(call, raw_ioctl(raw.fd, call->request, page), -EFAULT);
        if (raw.fd != base->fd) {
            close(raw.fd);
        }
        return;
    }
    CHECK_CALL(call, raw_ioctl(raw.fd, call->request, page), right);
    memcpy(&a, page, call->size);
    undo(call, &raw, &a);
}

/*
 * An argument that cannot be written is enough where nothing is written; else
 * the objects that the call has made are gone again.
 */
TEST(read_only_arguments, TEST_ALL | TEST_UTLB)
{
    struct unetmm_endpoint before = raw_request(), after = raw_request();
    uint8_t *page = pages(1);
    struct raw base;
    unsigned i;

    raw_open(&base);
    /* The lowest number that is free */
    CHECK_RET(raw_ioctl(base.fd, UNETMM_IOC_ENDPOINT, &before), 0);
    close_number(base.fd, before.id);
    for (i = 0; i < NUM_CALLS; i++) {
        one_call_read_only(&calls[i], &base, page);
    }
    CHECK_RET(raw_ioctl(base.fd, UNETMM_IOC_ENDPOINT, &after), 0);
    CHECK_EQ(after.id, before.id);
    close_number(base.fd, after.id);
    raw_close(&base);
}

/* ---- Fields --------------------------------------------------------------------------- */

/*
 * Each member that is to be zero; scripts/unetmm_tools/check/documents.py compares with the
 * header.
 */
static const struct field {
    unsigned long request;
    size_t offset, bytes;
} fields[] = {
#define FIELD(call, type, member) \
    { UNETMM_IOC_##call, offsetof(struct type, member), \
      sizeof(((struct type *)NULL)->member) }
    FIELD(INFO, unetmm_info, flags),
    FIELD(INFO, unetmm_info, rsvd0),
    FIELD(INFO, unetmm_info, rsvd1),
    FIELD(SPACE, unetmm_space, flags),
    FIELD(ENDPOINT, unetmm_endpoint, flags),
    FIELD(ENDPOINT, unetmm_endpoint, rsvd),
    FIELD(LISTEN, unetmm_listen, flags),
    FIELD(ACCEPT, unetmm_connect, flags),
    FIELD(ACCEPT, unetmm_connect, rsvd0),
    FIELD(ACCEPT, unetmm_connect, peer_channel),
    FIELD(CONNECT, unetmm_connect, flags),
    FIELD(CONNECT, unetmm_connect, rsvd0),
    FIELD(CONNECT, unetmm_connect, peer_channel),
    FIELD(PROBE, unetmm_probe, flags),
    FIELD(PROBE, unetmm_probe, rsvd0),
    FIELD(PROBE, unetmm_probe, rsvd1),
    FIELD(PEERS, unetmm_peers, flags),
    FIELD(PEERS, unetmm_peers, rsvd0),
    FIELD(PEERS, unetmm_peers, rsvd1),
    FIELD(REGISTER, unetmm_region, flags),
    FIELD(DEREGISTER, unetmm_region, flags),
    FIELD(POST, unetmm_post, flags),
    FIELD(POST, unetmm_post, rsvd),
    FIELD(UTLB_PIN, unetmm_utlb, flags),
    FIELD(UTLB_PIN, unetmm_utlb, rsvd),
    FIELD(UTLB_UNPIN, unetmm_utlb, flags),
    FIELD(UTLB_UNPIN, unetmm_utlb, rsvd),
    FIELD(UTLB_UNPIN, unetmm_utlb, ahead),
    FIELD(PREFETCH, unetmm_prefetch, flags),
    FIELD(EXPORT_KEY, unetmm_export_key, rsvd),
    FIELD(REDIRECT, unetmm_redirect, from),
    FIELD(REDIRECT, unetmm_redirect, count),
    FIELD(REDIRECT, unetmm_redirect, rsvd),
    FIELD(IMPORT, unetmm_import, rsvd),
    FIELD(WINDOW, unetmm_window, flags),
    FIELD(WINDOW, unetmm_window, rsvd),
    FIELD(EVENT, unetmm_event, rsvd),
    FIELD(EVENT_ARM, unetmm_event_arm, rsvd),
    FIELD(FLOW, unetmm_flow, flags),
    FIELD(FLOW, unetmm_flow, rsvd),
#undef FIELD
};

/* One bit of each byte. */
static void one_field(const struct field *field, const struct raw *base)
{
    const struct call *call = calls;
    union argument a;
    struct raw raw;
    size_t i;
    int ret;

    while (call->request != field->request) {
        call++;
    }
    for (i = 0; i < field->bytes; i++) {
        prepare(call, &raw, base, &a);
        a.bytes[field->offset + i] = 0x40;
        ret = raw_ioctl(raw.fd, call->request, &a);
        if (ret != -EOPNOTSUPP) {
            FAIL("%s with byte %zu set: %d %s", call->name, field->offset + i,
                 ret, error_name(ret));
        }
        if (raw.fd != base->fd) {
            close(raw.fd);
        }
    }
}

TEST(reserved, TEST_ALL | TEST_UTLB | TEST_SHADOW | TEST_ODP)
{
    struct raw base;
    unsigned i;

    raw_open(&base);
    for (i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        one_field(&fields[i], &base);
    }
    raw_close(&base);
}

/* There is no call that is not in the table above. */
TEST(all_calls, TEST_TLB)
{
    union argument a;
    struct raw base;
    unsigned nr, i;

    raw_open(&base);
    for (nr = 0; nr < 256; nr++) {
        bool known = false;

        for (i = 0; i < NUM_CALLS; i++) {
            known = known || calls[i].request == _IO(UNETMM_IOC_MAGIC, nr);
        }
        memset(&a, 0, sizeof(a));
        /* One that is there finds nothing: it needs a size. */
        CHECK_RET(raw_ioctl(base.fd, _IO(UNETMM_IOC_MAGIC, nr), &a),
                  known ? -EINVAL : -ENOTTY);
    }
    raw_close(&base);
}

TEST(unknown_calls, TEST_TLB)
{
    static const unsigned long requests[] = {
        _IO(UNETMM_IOC_MAGIC - 1, 0x00), _IO(UNETMM_IOC_MAGIC + 1, 0x00),
        _IOR(UNETMM_IOC_MAGIC, 0x00, struct unetmm_info),
        _IOWR(UNETMM_IOC_MAGIC, 0x01, struct unetmm_space),
        0, 0x5401, UINT32_MAX,
    };
    union argument a;
    unsigned i;
    int fd = raw_open_file();

    memset(&a, 0, sizeof(a));
    a.info.size = sizeof(a);
    for (i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        CHECK_RET(raw_ioctl(fd, requests[i], &a), -ENOTTY);
    }
    CHECK(read(fd, &a, 1) < 0);
    CHECK(write(fd, &a, 1) < 0);
    close(fd);
}

static bool is_listed(unsigned long request)
{
    unsigned i;

    for (i = 0; i < NUM_CALLS; i++) {
        if (calls[i].request == request) {
            return true;
        }
    }
    return false;
}

/* The driver has no call that the tables of these tests lack, and the reverse. */
TEST(listed_calls, TEST_TLB)
{
    int fd = raw_open_file();
    unsigned number;

    for (number = 0; number <= 0xff; number++) {
        unsigned long request = _IO(UNETMM_IOC_MAGIC, number);
        int ret = raw_ioctl(fd, request, NULL);

        if (ret != (is_listed(request) ? -EFAULT : -ENOTTY)) {
            FAIL("call 0x%02x is %slisted here, and the driver says %s",
                 number, is_listed(request) ? "" : "not ", error_name(ret));
        }
    }
    close(fd);
}

/* Members that do not name an object of the type are zero. */
static void wrong_objects(const struct raw *raw)
{
    const uint32_t ep = raw->ep.id;
    const struct {
        uint32_t type, endpoint, count;
        uint64_t id;
        int error;
    } wrong[] = {
        { 0, ep, 0, 0, -EINVAL },
        { UNETMM_OBJECT_FLOW + 1, ep, 0, 0, -EINVAL },
        { UINT32_MAX, ep, 0, 0, -EINVAL },
        { UNETMM_OBJECT_ENDPOINT, ep, 0, 1, -EOPNOTSUPP },
        { UNETMM_OBJECT_ENDPOINT, ep, 1, 0, -EOPNOTSUPP },
        { UNETMM_OBJECT_ENDPOINT, UINT32_MAX, 0, 0, -ENOENT },
        { UNETMM_OBJECT_EXPORT, ep, 0, 5, -EOPNOTSUPP },
        { UNETMM_OBJECT_EVENT, ep, 1, 0, -EOPNOTSUPP },
        { UNETMM_OBJECT_EVENT, 0, 0, 0, -ENOENT },
        { UNETMM_OBJECT_EVENT, 0, UINT32_MAX, 1, -ENOENT },
        { UNETMM_OBJECT_EVENT, 0, 1, 1ull << 32, -ENOENT },
        { UNETMM_OBJECT_CHANNEL, ep, 0, 1ull << 32, -ENOENT },
        { UNETMM_OBJECT_IMPORT, ep, 0, 1ull << 32, -ENOENT },
        { UNETMM_OBJECT_WINDOW, ep, 0, 1ull << 32, -ENOENT },
        { UNETMM_OBJECT_WINDOW, UINT32_MAX, 0, 0, -ENOENT },
    };
    struct unetmm_event event = { .size = sizeof(event), .count = 1 };
    unsigned i;

    CHECK_RET(raw_ioctl(raw->fd, UNETMM_IOC_EVENT, &event), 0);
    for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct unetmm_destroy destroy = {
            .size = sizeof(destroy), .endpoint = wrong[i].endpoint,
            .type = wrong[i].type, .count = wrong[i].count, .id = wrong[i].id,
        };
        int ret = raw_ioctl(raw->fd, UNETMM_IOC_DESTROY, &destroy);

        if (ret != wrong[i].error) {
            FAIL("object %u: %d %s", i, ret, error_name(ret));
        }
    }
    CHECK_RET(raw_destroy(raw->fd, UNETMM_OBJECT_EVENT, 0, event.id), 0);
}

TEST(wrong_values, TEST_TLB)
{
    struct unetmm_space space = { .size = sizeof(space), .source = 99 };
    struct unetmm_counters counters = { .size = sizeof(counters) };
    struct unetmm_endpoint request = raw_request();
    struct raw raw;
    int fd = raw_open_file();

    CHECK_RET(raw_ioctl(fd, UNETMM_IOC_SPACE, &space), -EINVAL);
    space.source = UNETMM_SOURCE_DIRECT;
    CHECK_RET(raw_ioctl(fd, UNETMM_IOC_SPACE, &space), -EINVAL);
    CHECK_RET(raw_ioctl(fd, UNETMM_IOC_ENDPOINT, &request), -EINVAL);
    close(fd);
    raw_open(&raw);
    space.source = run.source;
    CHECK_RET(raw_ioctl(raw.fd, UNETMM_IOC_SPACE, &space), -EBUSY);
#define REFUSED(member, value, error) \
    do { \
        request = raw_request(); \
        request.member = value; \
        CHECK_RET(raw_ioctl(raw.fd, UNETMM_IOC_ENDPOINT, &request), error); \
    } while (0)
    REFUSED(sq_log2, 0, -EINVAL);
    REFUSED(sq_log2, 15, -EINVAL);
    REFUSED(fq_log2, 32, -EINVAL);
    REFUSED(cq_log2, UINT32_MAX, -EINVAL);
    REFUSED(policy, 5, -EOPNOTSUPP);
    REFUSED(policy, UINT32_MAX, -EINVAL);
    REFUSED(pretranslate, 1000, -EINVAL);
    REFUSED(event_fd, 9999, -EINVAL);
    REFUSED(event_fd, -2, -EINVAL);
    REFUSED(event_fd, raw.fd, -EINVAL);
#undef REFUSED
    counters.scope = 3;
    CHECK_RET(raw_ioctl(raw.fd, UNETMM_IOC_COUNTERS, &counters), -EINVAL);
    counters.scope = UNETMM_SCOPE_ENDPOINT;
    counters.endpoint = UINT32_MAX;
    CHECK_RET(raw_ioctl(raw.fd, UNETMM_IOC_COUNTERS, &counters), -ENOENT);
    wrong_objects(&raw);
    raw_close(&raw);
}

/* Attributes of a channel that are taken or refused; `can`: a reliable one's result. */
static void wrong_listens(struct raw *raw, int can)
{
    struct unetmm_listen listen;

#define LISTENS(flag, member, value, error) \
    do { \
        listen = (struct unetmm_listen) { \
            .size = sizeof(listen), .endpoint = raw->ep.id, \
            .service = SERVICE, .backlog = 1, .flags = flag, \
            .member = value }; \
        CHECK_RET(raw_ioctl(raw->fd, UNETMM_IOC_LISTEN, &listen), error); \
    } while (0)
    LISTENS(UNETMM_LISTEN_RELIABLE, timeout_us, 1000000, can);
    LISTENS(UNETMM_LISTEN_RELIABLE, timeout_us, 1000001, can ?: -EINVAL);
    LISTENS(UNETMM_LISTEN_RELIABLE, retries, 255, can);
    LISTENS(UNETMM_LISTEN_RELIABLE, retries, 256, can ?: -EINVAL);
    LISTENS(UNETMM_LISTEN_RELIABLE, not_ready_retries, 256, can ?: -EINVAL);
    LISTENS(UNETMM_LISTEN_DATAGRAM, timeout_us, 1, -EINVAL);
    LISTENS(UNETMM_LISTEN_DATAGRAM, retries, 1, -EINVAL);
    LISTENS(0, not_ready_retries, 1, -EINVAL);
    LISTENS(UNETMM_LISTEN_DATAGRAM | UNETMM_LISTEN_RELIABLE, retries, 1, can);
    LISTENS(UNETMM_LISTEN_RELIABLE, not_ready_us, 1000000, can);
    LISTENS(UNETMM_LISTEN_RELIABLE, not_ready_us, 1000001, can ?: -EINVAL);
    LISTENS(UNETMM_LISTEN_DATAGRAM, not_ready_us, 1, -EINVAL);
    LISTENS(UNETMM_LISTEN_RELIABLE | UNETMM_LISTEN_REWIND, retries, 1, can);
    LISTENS(UNETMM_LISTEN_REWIND, retries, 0, -EINVAL);
    LISTENS(32, retries, 0, -EOPNOTSUPP);
    LISTENS(UNETMM_LISTEN_DATAGRAM, retries, 0, 0);
#undef LISTENS
}

static void wrong_connects(struct raw *raw, int can)
{
    struct unetmm_connect connect;

#define CONNECTS(call, flag, member, value, error) \
    do { \
        connect = (struct unetmm_connect) { \
            .size = sizeof(connect), .endpoint = raw->ep.id, \
            .service = UNETMM_IOC_##call == UNETMM_IOC_CONNECT ? \
                SERVICE : 0, .flags = flag, \
            .deadline_ns = deadline_in(10), .member = value }; \
        if (connect.service) { \
            card_mac(connect.mac); \
        } \
        CHECK_RET(raw_ioctl(raw->fd, UNETMM_IOC_##call, &connect), error); \
    } while (0)
    CONNECTS(CONNECT, 1, timeout_us, 1000001, can ?: -EINVAL);
    CONNECTS(CONNECT, 1, retries, 256, can ?: -EINVAL);
    CONNECTS(CONNECT, 1, not_ready_retries, UINT32_MAX, can ?: -EINVAL);
    CONNECTS(CONNECT, 0, timeout_us, 1, -EINVAL);
    CONNECTS(CONNECT, 0, retries, 1, -EINVAL);
    CONNECTS(CONNECT, 0, not_ready_retries, 1, -EINVAL);
    CONNECTS(CONNECT, 1, not_ready_us, 1000001, can ?: -EINVAL);
    CONNECTS(CONNECT, 0, not_ready_us, 1, -EINVAL);
    CONNECTS(CONNECT, 8, retries, 0, -EINVAL);
    CONNECTS(CONNECT, 1, peer_channel, 1, -EOPNOTSUPP);
    CONNECTS(CONNECT, 2, retries, 0, -EOPNOTSUPP);
    CONNECTS(CONNECT, 1, retries, 0, can ?: -EPROTOTYPE);
    CONNECTS(ACCEPT, 0, timeout_us, 1, -EINVAL);
    CONNECTS(ACCEPT, 0, not_ready_us, 1, -EINVAL);
    CONNECTS(ACCEPT, 0, peer_channel, 1, -EOPNOTSUPP);
    CONNECTS(ACCEPT, 0, retries, 1, -EINVAL);
    CONNECTS(ACCEPT, 0, not_ready_retries, 1, -EINVAL);
#undef CONNECTS
}

TEST(wrong_channels, TEST_ALL)
{
    struct unetmm_info info = { .size = sizeof(info) };
    struct raw raw;
    int can;

    raw_open(&raw);
    CHECK_RET(raw_ioctl(raw.fd, UNETMM_IOC_INFO, &info), 0);
    CHECK(info.reliable && info.max_message == UNETMM_MAX_MESSAGE);
    can = run.source == UNETMM_SOURCE_KTLB ? -EOPNOTSUPP : 0;
    wrong_listens(&raw, can);
    wrong_connects(&raw, can);
    raw_close(&raw);
}

/* Counters of an endpoint are there just while the endpoint is. */
TEST(counters_of_no_endpoint, TEST_TLB)
{
    struct unetmm_info info = { .size = sizeof(info) };
    struct unetmm_counters counters = {
        .size = sizeof(counters), .scope = UNETMM_SCOPE_ENDPOINT,
        .count = UNETMM_NUM_COUNTERS, .values = (uintptr_t)some_values,
    };
    struct raw raw;

    raw_open(&raw);
    CHECK_RET(raw_ioctl(raw.fd, UNETMM_IOC_INFO, &info), 0);
    counters.endpoint = 0;      /* the driver's own */
    CHECK_RET(raw_ioctl(raw.fd, UNETMM_IOC_COUNTERS, &counters), 0);
    counters.endpoint = raw.ep.id;
    CHECK_RET(raw_ioctl(raw.fd, UNETMM_IOC_COUNTERS, &counters), 0);
    raw_close_endpoint(&raw);
    CHECK_RET(raw_ioctl(raw.fd, UNETMM_IOC_COUNTERS, &counters), -ENOENT);
    counters.endpoint = info.endpoints - 1;     /* never used */
    CHECK_RET(raw_ioctl(raw.fd, UNETMM_IOC_COUNTERS, &counters), -ENOENT);
    counters.endpoint = info.endpoints;
    CHECK_RET(raw_ioctl(raw.fd, UNETMM_IOC_COUNTERS, &counters), -ENOENT);
    raw_unmap(&raw);
    close(raw.fd);
}

/* Numbers of endpoints that are not ours. */
TEST(wrong_endpoints, TEST_MISS)
{
    struct raw mine, others;
    unsigned i, k;

    raw_open(&mine);
    raw_open(&others);
    for (i = 0; i < NUM_CALLS; i++) {
        const uint32_t ids[] = { 0, others.ep.id, 255, 256, 0x10001,
                                 UINT32_MAX };
        const struct call *call = &calls[i];
        union argument a;
        struct raw raw;

        if (call->needs != NEEDS_ENDPOINT ||
            (call->request == UNETMM_IOC_POST &&
             run.source != UNETMM_SOURCE_KTLB)) {
            continue;
        }
        for (k = 0; k < sizeof(ids) / sizeof(ids[0]); k++) {
            prepare(call, &raw, &mine, &a);
            /* In all of them it is the second word. */
            memcpy(a.bytes + 4, &ids[k], sizeof(ids[k]));
            CHECK_CALL(call, raw_ioctl(raw.fd, call->request, &a), -ENOENT);
        }
    }
    raw_close(&mine);
    raw_close(&others);
}

/* ---- Mappings ---------------------------------------------------------------------------- */

static int try_map(int fd, size_t bytes, int protection, int flags,
                   uint64_t offset)
{
    void *at = mmap(NULL, bytes, protection, flags, fd, (off_t)offset);

    if (at == MAP_FAILED) {
        return -errno;
    }
    munmap(at, bytes);
    return 0;
}

TEST(mappings, TEST_TLB)
{
    const int rw = PROT_READ | PROT_WRITE;
    struct raw raw, others;
    uint64_t q, d, n;
    unsigned i;
    int bare;

    raw_open(&raw);
    raw_open(&others);
    q = raw.ep.queue_map;
    d = raw.ep.doorbell_map;
    n = raw.ep.queue_bytes;
    CHECK_RET(try_map(raw.fd, n, rw, MAP_SHARED, q), 0);
    CHECK_RET(try_map(raw.fd, n, PROT_READ, MAP_SHARED, q), 0);
    CHECK_RET(try_map(raw.fd, n, rw, MAP_PRIVATE, q), -EINVAL);
    CHECK_RET(try_map(raw.fd, n, rw | PROT_EXEC, MAP_SHARED, q), -EINVAL);
    CHECK_RET(try_map(raw.fd, n + PAGE, rw, MAP_SHARED, q), -EINVAL);
    CHECK_RET(try_map(raw.fd, n - PAGE, rw, MAP_SHARED, q), -EINVAL);
    CHECK_RET(try_map(raw.fd, n - PAGE, rw, MAP_SHARED, q + PAGE), -EINVAL);
    CHECK_RET(try_map(raw.fd, PAGE, PROT_WRITE, MAP_SHARED, d), 0);
    CHECK_RET(try_map(raw.fd, PAGE, PROT_WRITE, MAP_PRIVATE, d), -EINVAL);
    CHECK_RET(try_map(raw.fd, PAGE, rw | PROT_EXEC, MAP_SHARED, d), -EINVAL);
    CHECK_RET(try_map(raw.fd, 2 * PAGE, PROT_WRITE, MAP_SHARED, d), -EINVAL);
    CHECK_RET(try_map(raw.fd, PAGE, PROT_WRITE, MAP_SHARED, d + PAGE),
              -EINVAL);
    /* Another's, the driver's own, and nobody's */
    CHECK(try_map(raw.fd, n, rw, MAP_SHARED, others.ep.queue_map) < 0);
    CHECK(try_map(raw.fd, PAGE, PROT_WRITE, MAP_SHARED,
                  others.ep.doorbell_map) < 0);
    CHECK(try_map(raw.fd, PAGE, PROT_WRITE, MAP_SHARED, d & 0xffffffff) < 0);
    CHECK(try_map(raw.fd, PAGE, rw, MAP_SHARED, 0) < 0);
    for (i = 12; i < 63; i++) {
        CHECK(try_map(raw.fd, n, rw, MAP_SHARED, q ^ 1ull << i) < 0);
    }
    CHECK(try_map(raw.fd, PAGE, rw, MAP_SHARED, 1ull << 63) < 0);
    bare = raw_open_file();
    CHECK_RET(try_map(bare, n, rw, MAP_SHARED, q), -EINVAL);
    close(bare);
    raw_close(&others);
    raw_close(&raw);
}

/* A mapping can be cut and protected, but neither grown nor executed. */
TEST(mapping_changes, TEST_TLB)
{
    struct unetmm_cqe cqe;
    struct raw raw;

    raw_open(&raw);
    CHECK(mremap(raw.queues, raw.ep.queue_bytes, raw.ep.queue_bytes + PAGE,
                 MREMAP_MAYMOVE) == MAP_FAILED);
    CHECK(mprotect(raw.queues, PAGE, PROT_READ | PROT_EXEC) < 0);
    CHECK_SYS(mprotect(raw.queues, PAGE, PROT_READ));
    CHECK_SYS(mprotect(raw.queues, PAGE, PROT_READ | PROT_WRITE));
    raw.sq_prod = 1;
    raw_sqe(&raw, 0)->opcode = 99;
    raw_submit(&raw);
    raw_await(&raw, &cqe);
    CHECK_EQ(cqe.status, UNETMM_ST_BAD_DESC);
    CHECK_SYS(munmap(raw.queues + raw.ep.cq_offset, PAGE));
    raw_close_endpoint(&raw);
    CHECK_SYS(munmap(raw.queues, raw.ep.queue_bytes));
    close(raw.fd);
}

/* ---- Other processes ---------------------------------------------------------------------- */

/* An argument without a value. */
static int call_plainly(int fd, const struct call *call)
{
    union argument a;

    memset(&a, 0, sizeof(a));
    memcpy(a.bytes, &call->size, sizeof(call->size));
    return raw_ioctl(fd, call->request, &a);
}

static void check_stranger(const struct raw *base, bool mmap_too)
{
    unsigned i;

    for (i = 0; i < NUM_CALLS; i++) {
        CHECK_CALL(&calls[i], call_plainly(base->fd, &calls[i]),
                   calls[i].needs == NEEDS_NOTHING ? 0 : -EPERM);
    }
    if (mmap_too) {
        CHECK_RET(try_map(base->fd, base->ep.queue_bytes,
                          PROT_READ | PROT_WRITE, MAP_SHARED,
                          base->ep.queue_map), -EPERM);
        CHECK_RET(try_map(base->fd, PAGE, PROT_WRITE, MAP_SHARED,
                          base->ep.doorbell_map), -EPERM);
    }
}

static void stranger_main(void *argument)
{
    check_stranger(argument, true);
}

TEST(forked_child, TEST_ALL | TEST_UTLB | TEST_SHADOW | TEST_ODP)
{
    struct unetmm_cqe cqe;
    struct raw raw;

    raw_open(&raw);
    end_process(start_process(stranger_main, &raw));
    /* That child's end closes nothing of ours. */
    raw.sq_prod = 1;
    raw_submit(&raw);
    raw_await(&raw, &cqe);
    CHECK_EQ(cqe.status, UNETMM_ST_BAD_DESC);
    raw_close(&raw);
}

static void send_fd(int socket, int fd)
{
    char control[CMSG_SPACE(sizeof(int))] = { 0 };
    struct iovec iov = { control, 1 };
    struct msghdr message = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
        .msg_controllen = sizeof(control),
    };
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof(fd));
    CHECK_EQ(sendmsg(socket, &message, 0), 1);
}

static int receive_fd(int socket)
{
    char control[CMSG_SPACE(sizeof(int))], byte;
    struct iovec iov = { &byte, 1 };
    struct msghdr message = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
        .msg_controllen = sizeof(control),
    };
    int fd;

    CHECK_EQ(recvmsg(socket, &message, 0), 1);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
    return fd;
}

static void giver_main(void *argument)
{
    int *sockets = argument;
    struct raw raw;
    char byte;

    raw_open(&raw);
    send_fd(sockets[1], raw.fd);
    CHECK_EQ(write(sockets[1], &raw, sizeof(raw)), sizeof(raw));
    /* Ends without closing anything when it is told to. */
    CHECK_EQ(read(sockets[1], &byte, 1), 1);
}

/* The file outlives its process in the hands of another. */
TEST(passed_descriptor, TEST_ALL | TEST_UTLB | TEST_SHADOW | TEST_ODP)
{
    struct raw raw;
    int sockets[2], fd;
    pid_t pid;

    CHECK_SYS(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets));
    pid = start_process(giver_main, sockets);
    fd = receive_fd(sockets[0]);
    CHECK_EQ(read(sockets[0], &raw, sizeof(raw)), sizeof(raw));
    raw.fd = fd;
    check_stranger(&raw, true);
    CHECK_EQ(write(sockets[0], "x", 1), 1);
    end_process(pid);
    check_stranger(&raw, true);
    close(fd);
}

/* Calls that take no space, and those for which there is none yet. */
TEST(unbound_file, TEST_TLB)
{
    int fd = raw_open_file();
    unsigned i;

    for (i = 0; i < NUM_CALLS; i++) {
        CHECK_CALL(&calls[i], call_plainly(fd, &calls[i]),
                   calls[i].needs == NEEDS_NOTHING ? 0 : -EINVAL);
    }
    close(fd);
}

/*
 * Two processes have a file that is nobody's yet.  One binds it, the other makes a
 * call all the time: before the file is bound there is no space for that, and
 * afterwards the space is not its own.
 */
struct race {
    int fd;
    const struct call *call;
    atomic_uint *tries;
};

static void binder_rival(void *argument)
{
    struct race *race = argument;
    int ret;

    do {
        ret = call_plainly(race->fd, race->call);
        atomic_fetch_add(race->tries, 1);
    } while (ret == -EINVAL);
    CHECK_CALL(race->call, ret, -EPERM);
}

/* It does not get the key of an export that the other one makes at once. */
static void key_rival(void *argument)
{
    struct race *race = argument;
    int ret;

    do {
        struct unetmm_export_key key = { .size = sizeof(key), .id = 7 };

        ret = raw_ioctl(race->fd, UNETMM_IOC_EXPORT_KEY, &key);
        atomic_fetch_add(race->tries, 1);
    } while (ret == -EINVAL || ret == -ENOENT);
    CHECK_RET(ret, -EPERM);
}

static void bind_and_export(int fd)
{
    struct unetmm_space space = { .size = sizeof(space), .source = run.source };
    struct unetmm_export export = {
        .size = sizeof(export), .flags = UNETMM_EXPORT_KEYED, .id = 7,
        .addr = (uintptr_t)more_memory, .length = sizeof(more_memory),
        .rights = UNETMM_RIGHT_READ,
    };

    CHECK_RET(raw_ioctl(fd, UNETMM_IOC_SPACE, &space), 0);
    CHECK_RET(raw_ioctl(fd, UNETMM_IOC_EXPORT, &export), 0);
}

static void one_race(struct race *race, struct chance *chance,
                     void (*rival)(void *))
{
    pid_t pid;

    race->fd = raw_open_file();
    atomic_store(race->tries, 0);
    pid = start_process(rival, race);
    EVENTUALLY(atomic_load(race->tries));
    idle_ns(chance_below(chance, 100000));
    bind_and_export(race->fd);
    end_process(pid);
    close(race->fd);
}

TEST(bound_meanwhile, TEST_TLB)
{
    struct race race = { .tries = shared_memory(PAGE) };
    struct chance chance;
    unsigned i;

    chance_init(&chance, 0);
    for (i = 0; i < rounds(100); i++) {
        race.call = &calls[i % NUM_CALLS];
        /* The other calls need no space, and SPACE would bind the file. */
        if (race.call->needs >= NEEDS_OWNER) {
            one_race(&race, &chance, binder_rival);
        }
    }
}

TEST(key_meanwhile, TEST_TLB)
{
    struct race race = { .tries = shared_memory(PAGE) };
    struct chance chance;
    unsigned i;

    chance_init(&chance, 0);
    for (i = 0; i < rounds(50); i++) {
        one_race(&race, &chance, key_rival);
    }
}

static int count_endpoint(int fd, uint32_t endpoint)
{
    struct unetmm_counters counters = {
        .size = sizeof(counters), .scope = UNETMM_SCOPE_ENDPOINT,
        .endpoint = endpoint, .count = UNETMM_NUM_COUNTERS,
        .values = (uintptr_t)some_values,
    };

    return raw_ioctl(fd, UNETMM_IOC_COUNTERS, &counters);
}

static void curious_main(void *argument)
{
    const struct raw *others = argument;
    struct unetmm_counters counters = {
        .size = sizeof(counters), .count = UNETMM_NUM_COUNTERS,
        .values = (uintptr_t)some_values,
    };
    int fd = raw_open_file();
    struct raw own;

    raw_open(&own);
    CHECK_RET(count_endpoint(fd, others->ep.id), 0);
    CHECK_RET(count_endpoint(fd, 0), 0);
    drop_capability(CAP_NET_ADMIN);
    CHECK_RET(count_endpoint(fd, others->ep.id), -EPERM);
    CHECK_RET(count_endpoint(others->fd, others->ep.id), -EPERM);
    CHECK_RET(count_endpoint(own.fd, others->ep.id), -EPERM);
    CHECK_RET(count_endpoint(fd, 0), -EPERM);
    /* By whichever file: the memory is the same process's. */
    CHECK_RET(count_endpoint(fd, own.ep.id), 0);
    CHECK_RET(count_endpoint(own.fd, own.ep.id), 0);
    CHECK_RET(count_endpoint(others->fd, own.ep.id), 0);
    CHECK_RET(count_endpoint(fd, UINT32_MAX), -ENOENT);
    /* Sums over all users are everybody's. */
    counters.scope = UNETMM_SCOPE_CARD;
    CHECK_RET(raw_ioctl(fd, UNETMM_IOC_COUNTERS, &counters), 0);
    counters.scope = UNETMM_SCOPE_DRIVER;
    counters.count = 0;
    CHECK_RET(raw_ioctl(fd, UNETMM_IOC_COUNTERS, &counters), 0);
    raw_close(&own);
    CHECK_RET(count_endpoint(fd, own.ep.id), -ENOENT);
    close(fd);
}

/* Without CAP_NET_ADMIN a process sees the counters of its own endpoints alone. */
TEST(counters_of_others, TEST_ALL)
{
    struct raw raw;

    raw_open(&raw);
    end_process(start_process(curious_main, &raw));
    raw_close(&raw);
}

/* ---- The library in a child ------------------------------------------------------------------ */

static void library_in_child(void *argument)
{
    struct link *link = argument;
    struct unetmm_ep *ep = link->tx->ep;
    struct unetmm_info info = { .size = sizeof(info) };
    struct unetmm_completion c;
    uint64_t value;
    uint8_t *page = pages(1), mac[6] = { 2 };

    CHECK_RET(unetmm_send(ep, 0, "x", 1, 0, 0), -EOWNERDEAD);
    CHECK_RET(unetmm_post_recv(ep, &value, 8, 0, 0), -EOWNERDEAD);
    CHECK_RET(unetmm_poll(ep, &c, 1), -EOWNERDEAD);
    CHECK_RET(unetmm_wait(ep, &c, 1, NS_PER_S), -EOWNERDEAD);
    CHECK_RET(unetmm_ring(ep), -EOWNERDEAD);
    CHECK_RET(unetmm_arm(ep), -EOWNERDEAD);
    CHECK_RET(unetmm_fd(ep), -EOWNERDEAD);
    CHECK_RET(unetmm_ep_id(ep), -EOWNERDEAD);
    CHECK_RET(unetmm_send_pending(ep), -EOWNERDEAD);
    CHECK_RET(unetmm_channel_mtu(ep, 0), -EOWNERDEAD);
    CHECK_RET(unetmm_listen(ep, 5, 1), -EOWNERDEAD);
    CHECK_RET(unetmm_accept(ep, NULL, 0), -EOWNERDEAD);
    CHECK_RET(unetmm_connect(ep, mac, 5, 0, NULL), -EOWNERDEAD);
    CHECK_RET(unetmm_disconnect(ep, 0), -EOWNERDEAD);
    CHECK_RET(unetmm_ep_destroy(ep), -EOWNERDEAD);
    CHECK_RET(unetmm_ep_create(link->ctx, NULL, &ep), -EOWNERDEAD);
    CHECK_RET(unetmm_info(link->ctx, &info), -EOWNERDEAD);
    CHECK_RET(unetmm_probe(link->ctx, mac, 0, NULL), -EOWNERDEAD);
    CHECK_RET(unetmm_register(link->ctx, &value, 8, 0), -EOWNERDEAD);
    CHECK_RET(unetmm_stats_read(link->ctx, 0, 0, &value, 1), -EOWNERDEAD);
    CHECK_RET(unetmm_close(link->ctx), -EOWNERDEAD);
    /* The child opens the card for itself. */
    link_open(link, NULL, NULL);
    reach(link->ctx, page, PAGE, true);
    exchange_pattern(link, page, page + PAGE / 2, 200, 4);
    link_close(link);
}

TEST(child_of_the_library, TEST_BOTH | TEST_UTLB)
{
    uint8_t *from, *to;
    struct link link;

    link_open(&link, NULL, NULL);
    end_process(start_process(library_in_child, &link));
    from = pages(1);
    to = pages(1);
    reach(link.ctx, from, PAGE, true);
    reach(link.ctx, to, PAGE, true);
    exchange_pattern(&link, from, to, PAGE, 3);
    link_close(&link);
}

/* ---- poll() on the file ------------------------------------------------------------------------- */

static int polled(int fd, int events, int timeout)
{
    struct pollfd entry = { .fd = fd, .events = (short)events };

    return CHECK_SYS(poll(&entry, 1, timeout)) ? entry.revents : 0;
}

TEST(poll_on_file, TEST_TLB)
{
    unsigned out, in;
    struct unetmm_cqe cqe;
    struct raw raw;

    raw_open(&raw);
    CHECK_EQ(polled(raw.fd, POLLIN | POLLPRI, 0), 0);
    raw_join_itself(&raw, &out, &in);
    raw_sqe(&raw, 0)->opcode = UNETMM_OP_SEND;
    raw_sqe(&raw, 0)->flags = UNETMM_SQE_F_INLINE;
    raw_sqe(&raw, 0)->channel = (uint16_t)out;
    raw.sq_prod = 1;
    raw.index->user.cq_arm = UNETMM_ARM;
    raw_submit(&raw);
    CHECK_EQ(polled(raw.fd, POLLIN, 10000), POLLIN);
    raw_await(&raw, &cqe);
    CHECK_EQ(polled(raw.fd, POLLIN, 10000), POLLIN);
    raw_await(&raw, &cqe);
    CHECK_EQ(polled(raw.fd, POLLIN, 0), 0);
    raw.index->user.sq_prod = 5000;
    raw_ring(&raw);
    /* The completion is there before the driver has heard of it. */
    EVENTUALLY(polled(raw.fd, POLLIN, 0) & POLLERR);
    raw_close(&raw);
}

/* ---- A user's share ---------------------------------------------------------- */

#define PARAMETERS      "/sys/module/unetmm/parameters/"
#define MOST_SPACES     4

struct user {
    unsigned uid, spaces, endpoints;    /* its id, and how many of each it gets */
    atomic_uint *state;                 /* 1: it has all, and holds it until 2 */
};

/* So many, and then none, and that is said and counted. */
static void has_spaces(struct unetmm_ctx **ctx, unsigned n)
{
    struct unetmm_ctx *observer = NULL, *more = NULL;
    uint64_t limited;
    unsigned i;

    CHECK_RET(unetmm_open(NULL, UNETMM_OBSERVE, &observer), 0);
    for (i = 0; i < n; i++) {
        ctx[i] = open_card();
    }
    limited = driver_counter(observer, UNETMM_D_user_limited);
    CHECK_RET(unetmm_open(NULL, UNETMM_SOURCE_TLB, &more), -EDQUOT);
    CHECK_EQ(driver_counter(observer, UNETMM_D_user_limited), limited + 1);
    CHECK_RET(unetmm_close(observer), 0);
}

/* It does not matter which of its spaces they are in. */
static void has_endpoints(struct unetmm_ctx **ctx, unsigned spaces, unsigned n)
{
    struct unetmm_ep_attr attr = default_attr();
    struct unetmm_ep *eps[8], *more;
    uint64_t limited;
    unsigned i;

    for (i = 0; i < n; i++) {
        CHECK_RET(unetmm_ep_create(ctx[i % spaces], &attr, &eps[i]), 0);
    }
    limited = driver_counter(ctx[0], UNETMM_D_user_limited);
    CHECK_RET(unetmm_ep_create(ctx[n % spaces], &attr, &more), -EDQUOT);
    CHECK_EQ(driver_counter(ctx[0], UNETMM_D_user_limited), limited + 1);
    for (i = 0; i < n; i++) {
        CHECK_RET(unetmm_ep_destroy(eps[i]), 0);
    }
}

/* An ended process makes room. */
static void is_limited(void *argument)
{
    const struct user *user = argument;
    struct unetmm_ctx *ctx[MOST_SPACES];
    unsigned i, round;

    be_user(user->uid);
    for (round = 0; round < 2; round++) {
        has_spaces(ctx, user->spaces);
        if (user->endpoints) {
            has_endpoints(ctx, user->spaces, user->endpoints);
            has_endpoints(ctx, user->spaces, user->endpoints);
        }
        if (user->state) {
            atomic_store(user->state, 1);
            EVENTUALLY(atomic_load(user->state) == 2);
            return;
        }
        for (i = 0; i < user->spaces; i++) {
            CHECK_RET(unetmm_close(ctx[i]), 0);
        }
    }
}

/* Of one user's processes; another has as many, and root is not limited. */
static void two_users(void *argument)
{
    struct user one = *(const struct user *)argument;
    struct user other = { 4243, one.spaces, one.endpoints, NULL };
    struct unetmm_ctx *ctx[4];
    unsigned i;
    pid_t pid;

    one.state = shared_memory(4096);
    pid = start_process(is_limited, &one);
    EVENTUALLY(atomic_load(one.state) == 1);
    end_process(start_process(is_limited, &(struct user){ 4242, 0, 0, NULL }));
    end_process(start_process(is_limited, &other));
    for (i = 0; i < 4; i++) {
        ctx[i] = open_card();
    }
    while (i) {
        CHECK_RET(unetmm_close(ctx[--i]), 0);
    }
    atomic_store(one.state, 2);
    end_process(pid);
    /* Its objects have ended with it. */
    one.state = NULL;
    end_process(start_process(is_limited, &one));
}

TEST(shares_of_users, TEST_TLB)
{
    struct user user = { 4242, 3, 5, NULL };
    int result;

    CHECK_RET(write_file(PARAMETERS "user_spaces", "3"), 0);
    CHECK_RET(write_file(PARAMETERS "user_endpoints", "5"), 0);
    result = await_process(start_process(two_users, &user));
    CHECK_RET(write_file(PARAMETERS "user_spaces", "0"), 0);
    CHECK_RET(write_file(PARAMETERS "user_endpoints", "0"), 0);
    CHECK_EQ(result, 0);
}

#define MOST_EXPORTS    6u

/* Exports pages until the user has all that it may have; returns how many more it got. */
static unsigned export_all(struct unetmm_ctx *ctx, uint8_t *at)
{
    uint64_t limited = driver_counter(ctx, UNETMM_D_user_limited);
    unsigned n = 0;
    int ret;

    while (!(ret = unetmm_export(ctx, n, at, PAGE, UNETMM_RIGHT_READ, 0, 0))) {
        CHECK(++n <= MOST_EXPORTS);
    }
    CHECK_RET(ret, -EDQUOT);
    CHECK_EQ(driver_counter(ctx, UNETMM_D_user_limited), limited + 1);
    return n;
}

/* Exports count for all contexts of the user, and give their place back. */
static void exports_of_one(void *unused)
{
    struct unetmm_ctx *one, *two;
    uint8_t *at = pages(1);

    (void)unused;
    be_user(4242);
    one = open_card();
    two = open_card();
    CHECK_EQ(export_all(one, at), MOST_EXPORTS);
    CHECK_EQ(export_all(two, at), 0);
    CHECK_RET(unetmm_unexport(one, 3), 0);
    CHECK_EQ(export_all(two, at), 1);
    CHECK_RET(unetmm_close(one), 0);
    one = open_card();
    CHECK_EQ(export_all(one, at), MOST_EXPORTS - 1);
    CHECK_RET(unetmm_close(one), 0);
    CHECK_RET(unetmm_close(two), 0);
}

TEST(shares_of_exports, TEST_TLB)
{
    struct unetmm_ctx *ctx = open_card();
    uint8_t *at = pages(1);
    unsigned i;
    int result;

    CHECK_RET(write_file(PARAMETERS "user_exports", "6"), 0);
    result = await_process(start_process(exports_of_one, NULL));
    /* Root is not limited. */
    for (i = 0; !result && i <= MOST_EXPORTS; i++) {
        result = unetmm_export(ctx, i, at, PAGE, UNETMM_RIGHT_READ, 0, 0);
    }
    CHECK_RET(write_file(PARAMETERS "user_exports", "0"), 0);
    CHECK_EQ(result, 0);
    CHECK_RET(unetmm_close(ctx), 0);
}

/* Each of these channels has both its ends here: two of the user's four. */
static void channels_of_one(void *unused)
{
    static const struct unetmm_channel_attr reliable = UNETMM_CHANNEL_ATTR_INIT;
    struct unetmm_ctx *ctx;
    struct station one, two;
    uint64_t limited;
    unsigned round;

    (void)unused;
    be_user(4242);
    /* A user without a space would begin anew. */
    ctx = open_card();
    for (round = 0; round < 2; round++) {
        station_open(&one, ctx, NULL);
        station_open(&two, ctx, NULL);
        CHECK_RET(try_join(&one, &two, &reliable, 10 * NS_PER_S * run.slow), 0);
        CHECK_RET(try_join(&two, &one, &reliable, 10 * NS_PER_S * run.slow), 0);
        limited = driver_counter(ctx, UNETMM_D_user_limited);
        CHECK_RET(try_join(&one, &two, &reliable, NS_PER_S), -ENOSPC);
        CHECK_EQ(driver_counter(ctx, UNETMM_D_user_limited), limited + 1);
        /* Datagrams have no state on the card. */
        join(&one, &two);
        station_close(&two);
        station_close(&one);
    }
    CHECK_RET(unetmm_close(ctx), 0);
}

TEST(shares_of_channels, TEST_TLB)
{
    int result;

    CHECK_RET(write_file(PARAMETERS "user_channels", "4"), 0);
    result = await_process(start_process(channels_of_one, NULL));
    CHECK_RET(write_file(PARAMETERS "user_channels", "0"), 0);
    CHECK_EQ(result, 0);
}

#define USER_PINS   64u

/* Pins pages one by one until a limit; returns their number. */
static unsigned pin_all(struct unetmm_ctx *ctx, uint8_t *memory, unsigned most)
{
    unsigned n;
    int ret = 0;

    for (n = 0; n < most; n++) {
        ret = unetmm_register(ctx, memory + n * PAGE, PAGE, 0);
        if (ret) {
            break;
        }
    }
    /* ENOMEM: it was the page of the card's table that had none. */
    if (ret && ret != -ENOMEM) {
        CHECK_RET(ret, -EDQUOT);
    }
    return n;
}

/* `spaces` is 0: the user has no page left. */
static void pins_of_one(void *argument)
{
    struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };
    const struct user *user = argument;
    uint8_t *memory = small_pages(USER_PINS + 1);
    struct unetmm_ctx *ctx;
    unsigned pinned;

    CHECK_SYS(setrlimit(RLIMIT_MEMLOCK, &all));
    be_user(user->uid);
    if (!user->spaces) {
        /* Not even the first page of the table that the card reads. */
        CHECK_RET(unetmm_open(NULL, UNETMM_SOURCE_PINNED, &ctx), -ENOMEM);
        return;
    }
    CHECK_RET(unetmm_open(NULL, UNETMM_SOURCE_PINNED, &ctx), 0);
    pinned = pin_all(ctx, memory, USER_PINS + 1);
    note("user %u: %u pages", user->uid, pinned);
    /* The pages of the table are charged, too. */
    CHECK(pinned > USER_PINS / 2 && pinned < USER_PINS);
    if (user->state) {
        atomic_store(user->state, 1);
        EVENTUALLY(atomic_load(user->state) == 2);
    }
    CHECK_RET(unetmm_close(ctx), 0);
}

TEST(pins_of_users, TEST_PINNED)
{
    struct user one = { 4242, 1, 0, shared_memory(4096) };
    pid_t pid;

    CHECK_RET(write_file(PARAMETERS "user_pin_pages", "64"), 0);
    pid = start_process(pins_of_one, &one);
    EVENTUALLY(atomic_load(one.state) == 1);
    end_process(start_process(pins_of_one, &(struct user){ 4242, 0, 0, NULL }));
    end_process(start_process(pins_of_one, &(struct user){ 4243, 1, 0, NULL }));
    atomic_store(one.state, 2);
    end_process(pid);
    /* The pages have ended with the process. */
    end_process(start_process(pins_of_one, &(struct user){ 4242, 1, 0, NULL }));
    CHECK_RET(write_file(PARAMETERS "user_pin_pages", "0"), 0);
}

/* As many as it gets, until it is told to end. */
static void takes_all(void *argument)
{
    struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };
    struct unetmm_ep_attr attr = default_attr();
    struct unetmm_ctx *ctx, *more;
    atomic_uint *state = argument;
    unsigned spaces = 1, eps = 0;
    struct unetmm_ep *ep;
    int ret;

    CHECK_SYS(setrlimit(RLIMIT_MEMLOCK, &all));
    be_user(4242);
    ctx = open_card();
    while (!(ret = unetmm_open(NULL, UNETMM_SOURCE_TLB, &more))) {
        spaces++;
    }
    CHECK_RET(ret, -EDQUOT);
    while (!(ret = unetmm_ep_create(ctx, &attr, &ep))) {
        eps++;
    }
    CHECK_RET(ret, -EDQUOT);
    CHECK_EQ(driver_counter(ctx, UNETMM_D_user_limited) - state[1], 2);
    note("%u spaces, %u endpoints", spaces, eps);
    atomic_store(state, 1);
    EVENTUALLY(atomic_load(state) == 2);
    /* Its objects end with it. */
}

static void has_one(void *unused)
{
    struct unetmm_ep_attr attr = default_attr();
    struct unetmm_ctx *ctx;
    struct unetmm_ep *ep;

    (void)unused;
    be_user(4243);
    ctx = open_card();
    CHECK_RET(unetmm_ep_create(ctx, &attr, &ep), 0);
    CHECK_RET(unetmm_ep_destroy(ep), 0);
    CHECK_RET(unetmm_close(ctx), 0);
}

/* Unless the administrator says how many, there are some for others, too. */
TEST(all_of_a_user, TEST_TLB)
{
    atomic_uint *state = shared_memory(4096);
    struct unetmm_ctx *ctx = open_card();
    pid_t pid;

    state[1] = driver_counter(ctx, UNETMM_D_user_limited);
    CHECK_RET(unetmm_close(ctx), 0);
    pid = start_process(takes_all, state);
    EVENTUALLY(atomic_load(state) == 1);
    end_process(start_process(has_one, NULL));
    atomic_store(state, 2);
    end_process(pid);
}
