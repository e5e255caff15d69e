/* SPDX-License-Identifier: GPL-2.0-or-later */
/* fi_getinfo(): the hints that the provider's endpoints suit. */
#include "../one_test.h"
#include <stdlib.h>
#include <string.h>

#include <netdb.h>

#include "provider.h"

/* ---- The rest of the provider, with a card ------------------------------------ */

const uint32_t unetmm_inline_1_ = 1;
static char device[] = "/dev/unetmm0";
struct umfi_config umfi_config = { .device = device, .source = UNETMM_SOURCE_ODP };
struct fi_provider umfi_provider = {
    .name = UMFI_NAME, .version = 3, .fi_version = FI_VERSION(1, 9),
};

#define ADDRESS(last)   htonl(0x0a070000 | (last))
#define OWN             1u
#define BEYOND          9u      /* of another network */

int umfi_netdev_find(struct umfi_netdev *dev)
{
    *dev = (struct umfi_netdev) {
        .address = { ADDRESS(OWN) },
        .limits = { .max_ring_log2 = 12, .endpoints = 5, .channels = 7, .regions = 11 },
    };
    return 0;
}

bool umfi_netdev_reaches(const struct umfi_netdev *dev, struct in_addr to)
{
    return to.s_addr != ADDRESS(BEYOND);
}

static int fail_in = -1;            /* allocations until one fails */
static int lookups, lookup_flags;   /* that getaddrinfo() has been asked for, not freed */

void *__real_malloc(size_t size);
char *__real_strdup(const char *text);
int __real_getaddrinfo(const char *node, const char *service, const struct addrinfo *wish,
                       struct addrinfo **list);
void __real_freeaddrinfo(struct addrinfo *list);
void *__wrap_malloc(size_t size);
char *__wrap_strdup(const char *text);
int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *wish,
                       struct addrinfo **list);
void __wrap_freeaddrinfo(struct addrinfo *list);

static bool fails(void)
{
    return fail_in >= 0 && !fail_in--;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}

int __wrap_getaddrinfo(const char *node, const char *service, const struct addrinfo *wish,
                       struct addrinfo **list)
{
    int ret = __real_getaddrinfo(node, service, wish, list);

    lookup_flags = wish->ai_flags;
    lookups += !ret;
    return ret;
}

void __wrap_freeaddrinfo(struct addrinfo *list)
{
    lookups--;
    __real_freeaddrinfo(list);
}

/* ---- Tests ------------------------------------------------------------------- */

static int ask(const struct fi_info *hints, struct fi_info **info)
{
    return umfi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, info);
}

/* Data move without the program, and connections do not. */
TEST(progress, cmocka_unit_test)
{
    struct fi_domain_attr domain = {
        .mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY,
    };
    const struct fi_info hints = { .mode = FI_RX_CQ_DATA, .domain_attr = &domain };
    struct fi_info *info;

    assert_int_equal(ask(&hints, &info), 0);
    assert_int_equal(info->domain_attr->control_progress, FI_PROGRESS_MANUAL);
    assert_int_equal(info->domain_attr->data_progress, FI_PROGRESS_AUTO);
    fi_freeinfo(info);
    domain.data_progress = FI_PROGRESS_AUTO;
    domain.control_progress = FI_PROGRESS_MANUAL;
    assert_int_equal(ask(&hints, &info), 0);
    fi_freeinfo(info);
    domain.control_progress = FI_PROGRESS_AUTO;
    assert_int_equal(ask(&hints, &info), -FI_ENODATA);
}

/* Nothing runs with another source than the one that the user wanted. */
TEST(unknown_source, cmocka_unit_test)
{
    struct fi_info *info;

    assert_int_equal(ask(NULL, &info), 0);
    fi_freeinfo(info);
    umfi_config.unknown_source = true;
    assert_int_equal(ask(NULL, &info), -FI_ENODATA);
    umfi_config.unknown_source = false;
}

#define PAGE        4096u
#define LONGEST     4190209u

/* The limit is that of messages, but for a caller that asks for writes and reads. */
TEST(longest_message, cmocka_unit_test)
{
    struct fi_ep_attr ep = { .max_msg_size = LONGEST };
    struct fi_info hints = { .mode = FI_RX_CQ_DATA, .ep_attr = &ep }, *info;

    /* A buffer of 1024 pages, the card's limit, has room for it from the last byte of a page on. */
    assert_int_equal(LONGEST + PAGE - 1, 1024 * PAGE);
    assert_int_equal(ask(NULL, &info), 0);
    assert_int_equal(info->ep_attr->max_msg_size, LONGEST);
    assert_int_equal(info->ep_attr->protocol_version, UMFI_PROTOCOL_VERSION);
    fi_freeinfo(info);
    /* As ofi_rxm of a program without hints: no wish, though RMA is in the result */
    assert_int_equal(ask(&hints, &info), 0);
    assert_true(info->caps & FI_RMA);
    assert_int_equal(info->ep_attr->max_msg_size, LONGEST);
    fi_freeinfo(info);
    hints.caps = FI_MSG;
    assert_int_equal(ask(&hints, &info), 0);
    assert_int_equal(info->ep_attr->max_msg_size, LONGEST);
    fi_freeinfo(info);
    ep.max_msg_size++;
    assert_int_equal(ask(&hints, &info), -FI_ENODATA);
    hints.caps = FI_MSG | FI_RMA;
    assert_int_equal(ask(&hints, &info), 0);
    assert_int_equal(info->ep_attr->max_msg_size, UMFI_MAX_RMA);
    fi_freeinfo(info);
}

/* ---- Wishes, one at a time ----------------------------------------------------- */

#define CAPS        (FI_MSG | FI_RMA | FI_SEND | FI_RECV | FI_READ | FI_WRITE | \
                     FI_REMOTE_READ | FI_REMOTE_WRITE | FI_LOCAL_COMM | FI_REMOTE_COMM)
#define MR_MODE     (FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)
#define MOST_OPS    1024    /* a quarter of the card's longest ring */

struct wishes {
    struct fi_info info;
    struct fi_ep_attr ep;
    struct fi_domain_attr domain;
    struct fi_tx_attr tx;
    struct fi_rx_attr rx;
    struct fi_fabric_attr fabric;
};

static void no_wish(struct wishes *w)
{
    *w = (struct wishes) { .domain.mr_mode = MR_MODE, .info.mode = FI_RX_CQ_DATA };
    w->info.ep_attr = &w->ep;
    w->info.domain_attr = &w->domain;
    w->info.tx_attr = &w->tx;
    w->info.rx_attr = &w->rx;
    w->info.fabric_attr = &w->fabric;
}

#define WISH(member, good, bad) { #member, offsetof(struct wishes, member), \
        sizeof(((struct wishes *)NULL)->member), (uint64_t)(good), (uint64_t)(bad) }
static const struct {
    const char *name;
    size_t at, bytes;
    uint64_t good, bad;
} wishes[] = {
    WISH(info.caps, CAPS, CAPS | FI_TAGGED),
    WISH(info.addr_format, FI_SOCKADDR, FI_SOCKADDR_IN6),
    WISH(info.addr_format, FI_SOCKADDR_IN, FI_ADDR_STR),
    WISH(ep.type, FI_EP_MSG, FI_EP_RDM),
    WISH(ep.protocol, UMFI_PROTOCOL, UMFI_PROTOCOL + 1),
    WISH(ep.msg_prefix_size, 0, 1),
    WISH(ep.max_order_raw_size, 0, 1),
    WISH(ep.max_order_war_size, 0, 1),
    WISH(ep.max_order_waw_size, 0, 1),
    WISH(ep.tx_ctx_cnt, 1, 2),
    WISH(ep.rx_ctx_cnt, 1, 2),
    WISH(ep.rx_ctx_cnt, FI_SHARED_CONTEXT, 3),
    WISH(domain.name, (uintptr_t)"unetmm0", (uintptr_t)"unetmm1"),
    WISH(domain.mr_key_size, 8, 9),
    WISH(domain.cq_data_size, 4, 5),
    WISH(domain.max_ep_tx_ctx, 1, 2),
    WISH(domain.max_ep_rx_ctx, 1, 2),
    WISH(domain.mr_iov_limit, 1, 2),
    WISH(domain.max_ep_stx_ctx, 0, 1),
    WISH(domain.caps, FI_LOCAL_COMM | FI_REMOTE_COMM, FI_SHARED_AV),
    WISH(tx.caps, CAPS, CAPS | FI_ATOMIC),
    WISH(tx.op_flags, FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE |
         FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE, FI_COMMIT_COMPLETE),
    WISH(tx.msg_order, FI_ORDER_SAS, FI_ORDER_RAR),
    WISH(tx.comp_order, 0, 1),    /* libfabric 2 gives the names up */
    WISH(tx.inject_size, UMFI_INJECT, UMFI_INJECT + 1),
    WISH(tx.size, MOST_OPS, MOST_OPS + 1),
    WISH(tx.iov_limit, 4, 5),
    WISH(tx.rma_iov_limit, 1, 2),
    WISH(rx.caps, CAPS, CAPS | FI_ATOMIC),
    WISH(rx.op_flags, FI_COMPLETION, FI_MULTI_RECV),
    WISH(rx.msg_order, FI_ORDER_SAS, FI_ORDER_RAR),
    WISH(rx.comp_order, 0, 1),
    WISH(rx.total_buffered_recv, 0, 1),
    WISH(rx.size, MOST_OPS, MOST_OPS + 1),
    WISH(rx.iov_limit, 1, 2),
    WISH(fabric.name, (uintptr_t)UMFI_NAME, (uintptr_t)"other"),
};

TEST(limits, cmocka_unit_test)
{
    for (size_t i = 0; i < sizeof(wishes) / sizeof(wishes[0]); i++) {
        struct wishes w;
        struct fi_info *info;

        for (int bad = 0; bad < 2; bad++) {
            no_wish(&w);
            memcpy((char *)&w + wishes[i].at, bad ? &wishes[i].bad : &wishes[i].good,
                   wishes[i].bytes);
            if (ask(&w.info, &info) != (bad ? -FI_ENODATA : 0)) {
                fail_msg("%s, %s", wishes[i].name, bad ? "beyond" : "good");
            }
            if (!bad) {
                fi_freeinfo(info);
            }
        }
    }
}

/* Older callers know two modes, and each source has its own. */
TEST(modes_of_regions, cmocka_unit_test)
{
    static const struct {
        uint32_t version;
        unsigned source;
        int wish, ret, result;
        uint64_t mode;
    } rows[] = {
        { FI_VERSION(1, 5), UNETMM_SOURCE_ODP, MR_MODE, 0, MR_MODE, 0 },
        { FI_VERSION(1, 5), UNETMM_SOURCE_ODP, MR_MODE | FI_MR_LOCAL, 0, MR_MODE, 0 },
        { FI_VERSION(1, 5), UNETMM_SOURCE_ODP, FI_MR_VIRT_ADDR, -FI_ENODATA, 0, 0 },
        { FI_VERSION(1, 5), UNETMM_SOURCE_ODP, UMFI_MR_BASIC, 0, UMFI_MR_BASIC, 0 },
        { FI_VERSION(1, 5), UNETMM_SOURCE_PINNED, MR_MODE, -FI_ENODATA, 0, 0 },
        { FI_VERSION(1, 5), UNETMM_SOURCE_PINNED, MR_MODE | FI_MR_LOCAL, 0,
          MR_MODE | FI_MR_LOCAL, 0 },
        { FI_VERSION(1, 4), UNETMM_SOURCE_ODP, 0, 0, UMFI_MR_BASIC, 0 },
        { FI_VERSION(1, 4), UNETMM_SOURCE_ODP, UMFI_MR_BASIC, 0, UMFI_MR_BASIC, 0 },
        { FI_VERSION(1, 4), UNETMM_SOURCE_ODP, UMFI_MR_SCALABLE, -FI_ENODATA, 0, 0 },
        { FI_VERSION(1, 4), UNETMM_SOURCE_PINNED, UMFI_MR_BASIC, -FI_ENODATA, 0, 0 },
        { FI_VERSION(1, 4), UNETMM_SOURCE_PINNED, UMFI_MR_BASIC, 0, UMFI_MR_BASIC,
          UMFI_LOCAL_MR },
    };
    struct fi_info *info;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct wishes w;

        no_wish(&w);
        w.domain.mr_mode = rows[i].wish;
        w.info.mode |= rows[i].mode;
        umfi_config.source = rows[i].source;
        if (umfi_getinfo(rows[i].version, NULL, NULL, 0, &w.info, &info) != rows[i].ret) {
            fail_msg("row %zu", i);
        }
        if (!rows[i].ret) {
            assert_int_equal(info->domain_attr->mr_mode, rows[i].result);
            fi_freeinfo(info);
        }
    }
    umfi_config.source = UNETMM_SOURCE_ODP;
    for (uint32_t minor = 4; minor < 6; minor++) {
        assert_int_equal(umfi_getinfo(FI_VERSION(1, minor), NULL, NULL, 0, NULL, &info), 0);
        assert_int_equal(info->domain_attr->mr_mode, minor < 5 ? UMFI_MR_BASIC : MR_MODE);
        fi_freeinfo(info);
    }
}

/* Data of writes take a buffer: a caller that wants RMA has none without FI_RX_CQ_DATA. */
TEST(data_of_writes, cmocka_unit_test)
{
    static const struct {
        uint64_t caps, mode, rx_mode;
        bool has;
    } rows[] = {
        { 0, 0, 0, false },
        { FI_MSG | FI_RMA, 0, 0, false },
        { FI_MSG, 0, 0, true },
        { FI_MSG | FI_RMA, FI_RX_CQ_DATA, 0, true },
        { FI_MSG | FI_RMA, 0, FI_RX_CQ_DATA, true },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fi_info *info;
        struct wishes w;

        no_wish(&w);
        w.info.caps = rows[i].caps;
        w.info.mode = rows[i].mode;
        w.rx.mode = rows[i].rx_mode;
        assert_int_equal(ask(&w.info, &info), 0);
        assert_int_equal(info->domain_attr->cq_data_size, rows[i].has ? 4 : 0);
        assert_int_equal(info->mode, rows[i].mode);
        assert_int_equal(info->rx_attr->mode, rows[i].mode | rows[i].rx_mode);
        fi_freeinfo(info);
        w.domain.cq_data_size = 1;
        assert_int_equal(ask(&w.info, &info), rows[i].has ? 0 : -FI_ENODATA);
        if (rows[i].has) {
            fi_freeinfo(info);
        }
    }
}

/* ---- The result ------------------------------------------------------------------ */

TEST(description, cmocka_unit_test)
{
    const uint64_t tx = FI_MSG | FI_RMA | FI_SEND | FI_READ | FI_WRITE;
    const uint64_t rx = FI_MSG | FI_RMA | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE;
    struct fi_info *info;

    assert_int_equal(ask(NULL, &info), 0);
    assert_int_equal(info->caps, CAPS);
    assert_int_equal(info->mode, FI_RX_CQ_DATA);
    assert_int_equal(info->addr_format, FI_SOCKADDR_IN);
    assert_int_equal(info->src_addrlen, sizeof(struct sockaddr_in));
    assert_null(info->dest_addr);
    assert_int_equal(info->dest_addrlen, 0);
    assert_memory_equal(info->tx_attr, (&(struct fi_tx_attr) {
        .caps = tx, .msg_order = FI_ORDER_SAS, .inject_size = UMFI_INJECT, .size = 256,
        .iov_limit = 4, .rma_iov_limit = 1 }), sizeof(struct fi_tx_attr));
    assert_memory_equal(info->rx_attr, (&(struct fi_rx_attr) {
        .caps = rx, .mode = FI_RX_CQ_DATA, .msg_order = FI_ORDER_SAS, .size = 256,
        .iov_limit = 1 }), sizeof(struct fi_rx_attr));
    assert_int_equal(info->ep_attr->type, FI_EP_MSG);
    assert_int_equal(info->ep_attr->protocol, UMFI_PROTOCOL);
    assert_int_equal(info->ep_attr->tx_ctx_cnt, 1);
    assert_int_equal(info->ep_attr->rx_ctx_cnt, 1);
    assert_string_equal(info->domain_attr->name, "unetmm0");
    free(info->domain_attr->name);
    info->domain_attr->name = NULL;
    assert_memory_equal(info->domain_attr, (&(struct fi_domain_attr) {
        .threading = FI_THREAD_SAFE, .control_progress = FI_PROGRESS_MANUAL,
        .data_progress = FI_PROGRESS_AUTO, .resource_mgmt = FI_RM_ENABLED,
        .mr_mode = MR_MODE, .mr_key_size = 8, .cq_data_size = 4, .cq_cnt = 65536,
        .ep_cnt = 35, .tx_ctx_cnt = 5, .rx_ctx_cnt = 5, .max_ep_tx_ctx = 1,
        .max_ep_rx_ctx = 1, .max_ep_srx_ctx = 5, .mr_iov_limit = 1, .mr_cnt = 11,
        .caps = FI_LOCAL_COMM | FI_REMOTE_COMM }), sizeof(struct fi_domain_attr));
    assert_string_equal(info->fabric_attr->name, UMFI_NAME);
    assert_int_equal(info->fabric_attr->prov_version, 3);
    assert_int_equal(info->fabric_attr->api_version, FI_VERSION(1, 9));
    fi_freeinfo(info);
}

/* The result has the caller's wishes, and else the values of a call without hints. */
TEST(granted, cmocka_unit_test)
{
    struct fi_info *info;
    struct wishes w;
    struct fid handle;

    no_wish(&w);
    assert_int_equal(ask(&w.info, &info), 0);
    assert_int_equal(info->tx_attr->size, UMFI_TX_SIZE);
    assert_int_equal(info->rx_attr->size, UMFI_RX_SIZE);
    assert_int_equal(info->domain_attr->threading, FI_THREAD_SAFE);
    assert_int_equal(info->ep_attr->rx_ctx_cnt, 1);
    fi_freeinfo(info);
    w.info.caps = FI_MSG | FI_SEND | FI_RMA | FI_REMOTE_READ;
    w.info.handle = &handle;
    w.ep.rx_ctx_cnt = FI_SHARED_CONTEXT;
    w.tx = (struct fi_tx_attr) { .op_flags = FI_INJECT, .size = 17 };
    w.rx = (struct fi_rx_attr) { .op_flags = FI_COMPLETION, .size = 19 };
    w.domain.threading = FI_THREAD_DOMAIN;
    assert_int_equal(ask(&w.info, &info), 0);
    assert_int_equal(info->caps, w.info.caps | FI_LOCAL_COMM | FI_REMOTE_COMM);
    assert_int_equal(info->tx_attr->caps, FI_MSG | FI_SEND | FI_RMA);
    assert_int_equal(info->rx_attr->caps, FI_MSG | FI_RMA | FI_REMOTE_READ);
    assert_ptr_equal(info->handle, &handle);
    assert_int_equal(info->ep_attr->rx_ctx_cnt, FI_SHARED_CONTEXT);
    assert_int_equal(info->tx_attr->op_flags, FI_INJECT);
    assert_int_equal(info->tx_attr->size, 17);
    assert_int_equal(info->rx_attr->op_flags, FI_COMPLETION);
    assert_int_equal(info->rx_attr->size, 19);
    assert_int_equal(info->domain_attr->threading, FI_THREAD_DOMAIN);
    info->handle = NULL;
    fi_freeinfo(info);
}

/* Of the ends: the last byte of 10.7.0.x, or 0: none */
static const struct {
    const char *node, *service;
    uint64_t flags;
    unsigned src_hint, dst_hint, dst;
    in_port_t src_port, dst_port;
    int ret;
} ways[] = {
    { NULL, "7", 0, 0, 0, 0, 7, 0, 0 },
    { NULL, "7", FI_SOURCE, 0, 2, 2, 7, 99, 0 },
    { "10.7.0.2", "7", 0, 0, 0, 2, 0, 7, 0 },
    { "10.7.0.2", "7", 0, OWN, 3, 2, 99, 7, 0 },
    { "10.7.0.2", NULL, 0, 0, 0, 2, 0, 0, 0 },
    { "10.7.0.1", "7", FI_SOURCE, 0, 0, 0, 7, 0, 0 },
    { "127.0.0.1", "7", FI_SOURCE, 0, 0, 0, 7, 0, 0 },
    { "10.7.0.2", "7", FI_SOURCE, 0, 0, 0, 0, 0, -FI_ENODATA },
    { "10.7.0.9", "7", 0, 0, 0, 0, 0, 0, -FI_ENODATA },
    { "name", "7", FI_NUMERICHOST, 0, 0, 0, 0, 0, -FI_ENODATA },
    { NULL, NULL, 0, 0, 2, 2, 0, 99, 0 },
    { NULL, NULL, 0, 0, BEYOND, 0, 0, 0, -FI_ENODATA },
    { NULL, NULL, 0, OWN, 0, 0, 99, 0, 0 },
    { NULL, NULL, 0, 2, 0, 0, 0, 0, -FI_ENODATA },
};

TEST(ends, cmocka_unit_test)
{
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        struct sockaddr_in src = {
            .sin_family = AF_INET, .sin_port = htons(99), .sin_addr = {
                ADDRESS(ways[i].src_hint) },
        }, dst = src, *found;
        struct fi_info *info;
        struct wishes w;

        no_wish(&w);
        dst.sin_addr.s_addr = ADDRESS(ways[i].dst_hint);
        w.info.src_addr = ways[i].src_hint ? &src : NULL;
        w.info.dest_addr = ways[i].dst_hint ? &dst : NULL;
        w.info.src_addrlen = w.info.dest_addrlen = sizeof(src);
        if (umfi_getinfo(FI_VERSION(1, 17), ways[i].node, ways[i].service, ways[i].flags,
                         &w.info, &info) != ways[i].ret) {
            fail_msg("row %zu", i);
        }
        assert_int_equal(lookups, 0);
        if (ways[i].node || ways[i].service) {
            assert_int_equal(lookup_flags, (ways[i].flags & FI_SOURCE ? AI_PASSIVE : 0) |
                             (ways[i].flags & FI_NUMERICHOST ? AI_NUMERICHOST : 0));
        }
        if (ways[i].ret) {
            continue;
        }
        found = info->src_addr;
        assert_int_equal(found->sin_family, AF_INET);
        assert_int_equal(found->sin_addr.s_addr, ADDRESS(OWN));
        assert_int_equal(found->sin_port, htons(ways[i].src_port));
        found = info->dest_addr;
        assert_int_equal(!!found, !!ways[i].dst);
        if (found) {
            assert_int_equal(found->sin_addr.s_addr, ADDRESS(ways[i].dst));
            assert_int_equal(found->sin_port, htons(ways[i].dst_port));
        }
        fi_freeinfo(info);
    }
}

/* Addresses that are none, or too short for one, are as if they were not there. */
TEST(other_addresses, cmocka_unit_test)
{
    for (unsigned odd = 0; odd < 2; odd++) {
        struct sockaddr_in dst = {
            .sin_family = odd ? AF_INET6 : AF_INET, .sin_addr = { ADDRESS(BEYOND) },
        };
        struct fi_info *info;
        struct wishes w;

        no_wish(&w);
        w.info.dest_addr = &dst;
        w.info.dest_addrlen = sizeof(dst) - !odd;
        assert_int_equal(ask(&w.info, &info), 0);
        assert_null(info->dest_addr);
        fi_freeinfo(info);
    }
}

TEST(no_memory, cmocka_unit_test)
{
    struct sockaddr_in dst = { .sin_family = AF_INET };
    struct fi_info *info;
    struct wishes w;

    no_wish(&w);
    w.info.dest_addr = &dst;
    w.info.dest_addrlen = sizeof(dst);
    for (int n = 0; n < 4; n++) {
        fail_in = n;
        assert_int_equal(ask(&w.info, &info), -FI_ENOMEM);
        assert_int_equal(fail_in, -1);
    }
}

/* A listener's description, and that of a request to the listener */
TEST(no_memory_for_a_request, cmocka_unit_test)
{
    const struct sockaddr_in address = { .sin_family = AF_INET };
    struct umfi_fabric fabric = { .dev.limits.channels = 7 };
    struct fi_info *listener, *request;
    struct wishes w;

    no_wish(&w);
    for (int n = 0; n < 3; n++) {
        fail_in = n;
        assert_null(umfi_info_of_listener(&fabric, &w.info));
        assert_int_equal(fail_in, -1);
    }
    listener = umfi_info_of_listener(&fabric, &w.info);
    assert_non_null(listener);
    for (int n = 0; n < 2; n++) {
        fail_in = n;
        assert_null(umfi_info_of_request(listener, &address, &address));
        assert_int_equal(fail_in, -1);
    }
    request = umfi_info_of_request(listener, &address, &address);
    assert_non_null(request);
    assert_int_equal(request->dest_addrlen, sizeof(address));
    fi_freeinfo(request);
    fi_freeinfo(listener);
}
