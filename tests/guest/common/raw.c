/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The driver's calls without the library. */
#include "raw.h"
#include "link.h"

#include <libunetmm/inline.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

int raw_ioctl(int fd, unsigned long request, void *argument)
{
    int ret = ioctl(fd, request, argument);

    return ret < 0 ? -errno : ret;
}

int raw_open_file(void)
{
    return CHECK_SYS(open(UNETMM_DEFAULT_DEVICE, O_RDWR | O_CLOEXEC));
}

int raw_open_space(void)
{
    struct unetmm_space space = {
        .size = sizeof(space), .source = run.source,
    };
    int fd = raw_open_file();

    CHECK_RET(raw_ioctl(fd, UNETMM_IOC_SPACE, &space), 0);
    CHECK(space.id > 0);
    return fd;
}

struct unetmm_endpoint raw_request(void)
{
    return (struct unetmm_endpoint) {
        .size = sizeof(struct unetmm_endpoint), .sq_log2 = 6, .fq_log2 = 6,
        .cq_log2 = 7, .policy = run.policy, .event_fd = -1,
    };
}

void raw_map(struct raw *raw)
{
    const struct unetmm_endpoint *ep = &raw->ep;

    raw->queues = CHECK_SYS(mmap(NULL, ep->queue_bytes,
                                 PROT_READ | PROT_WRITE, MAP_SHARED, raw->fd,
                                 (off_t)ep->queue_map));
    raw->doorbell = CHECK_SYS(mmap(NULL, ep->doorbell_bytes, PROT_WRITE,
                                   MAP_SHARED, raw->fd,
                                   (off_t)ep->doorbell_map));
    raw->index = (void *)(raw->queues + ep->index_offset);
    raw->sq = raw->queues + ep->sq_offset;
    raw->fq = (void *)(raw->queues + ep->fq_offset);
    raw->cq = (void *)(raw->queues + ep->cq_offset);
}

int raw_destroy(int fd, uint32_t type, uint32_t endpoint, uint64_t id)
{
    struct unetmm_destroy destroy = {
        .size = sizeof(destroy), .endpoint = endpoint, .type = type,
        .count = type == UNETMM_OBJECT_EVENT, .id = id,
    };

    return raw_ioctl(fd, UNETMM_IOC_DESTROY, &destroy);
}

void raw_endpoint(struct raw *raw, int fd)
{
    *raw = (struct raw) { .fd = fd, .ep = raw_request() };
    CHECK_RET(raw_ioctl(fd, UNETMM_IOC_ENDPOINT, &raw->ep), 0);
    raw_map(raw);
}

void raw_close_endpoint(struct raw *raw)
{
    CHECK_RET(raw_destroy(raw->fd, UNETMM_OBJECT_ENDPOINT, raw->ep.id, 0), 0);
}

void raw_unmap(struct raw *raw)
{
    CHECK_SYS(munmap(raw->queues, raw->ep.queue_bytes));
    CHECK_SYS(munmap((void *)(uintptr_t)raw->doorbell,
                     raw->ep.doorbell_bytes));
}

void raw_open(struct raw *raw)
{
    raw_endpoint(raw, raw_open_space());
}

void raw_close(struct raw *raw)
{
    raw_close_endpoint(raw);
    raw_unmap(raw);
    close(raw->fd);
}

void raw_join_itself(struct raw *raw, unsigned *out, unsigned *in)
{
    uint64_t service = 0x7a30000 + (uint64_t)getpid();
    struct unetmm_listen listen = {
        .size = sizeof(listen), .endpoint = raw->ep.id, .service = service,
        .backlog = 1,
    };
    struct unetmm_connect connect = {
        .size = sizeof(connect), .endpoint = raw->ep.id, .service = service,
        .deadline_ns = deadline_in(10),
    };
    struct unetmm_connect accept = {
        .size = sizeof(accept), .endpoint = raw->ep.id,
    };

    card_mac(connect.mac);
    CHECK_RET(raw_ioctl(raw->fd, UNETMM_IOC_LISTEN, &listen), 0);
    CHECK_RET(raw_ioctl(raw->fd, UNETMM_IOC_CONNECT, &connect), 0);
    CHECK_RET(raw_ioctl(raw->fd, UNETMM_IOC_ACCEPT, &accept), 0);
    listen.service = 0;
    CHECK_RET(raw_ioctl(raw->fd, UNETMM_IOC_LISTEN, &listen), 0);
    *out = connect.channel;
    *in = accept.channel;
}

void raw_ring(struct raw *raw)
{
    struct unetmm_post post = { sizeof(post), raw->ep.id, 0, 0 };

    if (run.source == UNETMM_SOURCE_KTLB) {
        /* An endpoint that is closed is as deaf as a doorbell behind it. */
        raw_ioctl(raw->fd, UNETMM_IOC_POST, &post);
        return;
    }
    unetmm_write_doorbell((volatile uint32_t *)(uintptr_t)raw->doorbell);
}

uint32_t raw_state(const struct raw *raw)
{
    return unetmm_read_word(&raw->index->card.state);
}

bool raw_take(struct raw *raw, struct unetmm_cqe *cqe)
{
    struct unetmm_cqe *next = &raw->cq[raw->cq_cons &
                                       ((1u << raw->ep.cq_log2) - 1)];
    uint32_t flags = unetmm_read_word(&next->flags);

    if ((flags & UNETMM_PHASE) !=
        UNETMM_PHASE_OF(raw->cq_cons, raw->ep.cq_log2)) {
        return false;
    }
    unetmm_from_card_barrier();
    *cqe = *next;
    raw->cq_cons++;
    unetmm_write_index(&raw->index->user.cq_cons, raw->cq_cons);
    return true;
}

void raw_await(struct raw *raw, struct unetmm_cqe *cqe)
{
    uint64_t end = deadline_in(10);

    while (!raw_take(raw, cqe)) {
        if (now_ns() > end) {
            FAIL("no completion within 10 s");
        }
        sched_yield();
    }
}

struct unetmm_sqe *raw_sqe(const struct raw *raw, uint32_t index)
{
    return (void *)(raw->sq + (size_t)(index & ((1u << raw->ep.sq_log2) - 1)) *
                    UNETMM_SLOT_BYTES);
}

struct unetmm_fqe *raw_fqe(const struct raw *raw, uint32_t index)
{
    return &raw->fq[index & ((1u << raw->ep.fq_log2) - 1)];
}

void raw_submit(struct raw *raw)
{
    unetmm_write_index(&raw->index->user.sq_prod, raw->sq_prod);
    unetmm_write_index(&raw->index->user.fq_prod, raw->fq_prod);
    raw_ring(raw);
}

uint64_t raw_ep_counter(int fd, uint32_t ep, enum unetmm_counter n)
{
    uint64_t values[UNETMM_NUM_COUNTERS];
    struct unetmm_counters request = {
        .size = sizeof(request), .scope = UNETMM_SCOPE_ENDPOINT,
        .endpoint = ep, .count = UNETMM_NUM_COUNTERS,
        .values = (uintptr_t)values,
    };

    CHECK_RET(raw_ioctl(fd, UNETMM_IOC_COUNTERS, &request), 0);
    return values[n];
}
