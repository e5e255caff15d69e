/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The headers, numbers and errors that each file of the provider needs.
 */
#ifndef UMFI_BASE_H
#define UMFI_BASE_H

#include "../src/sys/lock.h"
#include "list.h"

#include <libunetmm/inline.h>

#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

#define UMFI_NAME           "unetmm"
#define UMFI_PROTOCOL       0x80000756u /* high bit: a provider's own */
#define UMFI_PROTOCOL_VERSION   2u      /* of the messages of cm.h */
#define UMFI_CM_DATA        128u    /* most bytes that go with a request or answer */
/* A buffer of the card that begins within a page takes less than the card's longest message. */
#define UMFI_MAX_MESSAGE    (UNETMM_MAX_MESSAGE - (UNETMM_PAGE_BYTES - 1))
#define UMFI_MAX_RMA        (1ull << 30)
/* Slots of the send queue for the longest one: a message of the card takes two. */
#define UMFI_IOV            4u
#define UMFI_CQ_DATA        4u      /* bytes of immediate data */
/* FI_MR_BASIC, FI_MR_SCALABLE and FI_LOCAL_MR, whose names newer headers warn of */
#define UMFI_MR_BASIC       (1 << 0)
#define UMFI_MR_SCALABLE    (1 << 1)
#define UMFI_LOCAL_MR       (1ull << 55)
#define UMFI_INJECT         UNETMM_MAX_INLINE
/* Slots of the send queue: of the longest copied message, of UMFI_IOV segments, of an RMA */
#define UMFI_COPY_SLOTS     (1 + (UMFI_INJECT - UNETMM_SQE_INLINE + UNETMM_SLOT_BYTES - 1) / \
                             UNETMM_SLOT_BYTES)
#define UMFI_IOV_SLOTS      (1 + (UMFI_IOV - UNETMM_SQE_SEGS + UNETMM_SLOT_SEGS - 1) / \
                             UNETMM_SLOT_SEGS)
#define UMFI_RMA_SLOTS      (UMFI_IOV_SLOTS * (UMFI_MAX_RMA / UNETMM_MAX_MESSAGE))
static_assert(UMFI_COPY_SLOTS >= UMFI_IOV_SLOTS, "the slots of any operation");
#define UMFI_TX_SIZE        256u    /* operations of an EP, unless it says so */
#define UMFI_RX_SIZE        256u

#define UMFI_WARN(subsys, ...)  FI_WARN(&umfi_provider, subsys, __VA_ARGS__)
#define UMFI_INFO(subsys, ...)  FI_INFO(&umfi_provider, subsys, __VA_ARGS__)

/* For functions that are kept out of line, so that their callers stay short */
#define UMFI_RARE   static __attribute__((__noinline__))

/* The time by the clock of all deadlines, in milliseconds. */
static inline int64_t umfi_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

struct umfi_fabric;
struct umfi_domain;
struct umfi_ep;
struct umfi_port;

/* ---- Errors for programs (error.c), of libfabric and positive ------------ */

/* The errno of a card's status, UNETMM_ST_*: of an operation, 0 for success ... */
int umfi_operation_error(unsigned status);
/* ... and of a connection that there is not yet, never 0. */
int umfi_connection_error(unsigned status);
/* The errno that a program gets for an error of unetmm_connect_ex() */
int umfi_call_error(int ret);
/* The result of a post: of libunetmm, 0 or negative, as of libfabric. */
static inline ssize_t umfi_error(int ret)
{
    return ret == -ENOENT ? -FI_ENOTCONN : ret;
}

#endif /* UMFI_BASE_H */
