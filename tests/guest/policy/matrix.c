/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Every source with every policy: the pairs in the table of docs/library.rst work,
 * with the same traffic and the same checks, and the rest is refused.
 */
#include "guard.h"
#include "link.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SPAN            8u              /* pages of each kind of memory */
#define LENGTH          (SPAN * PAGE)
#define ID              9u
#define TURNS           8u

/* ---- The table ---------------------------------------------------------------------- */

/*
 * A source that brings absent pages goes with the policies that wait, on reliable
 * channels.
 */
static bool brings(unsigned source)
{
    return source == UNETMM_SOURCE_TLB || source == UNETMM_SOURCE_KTLB ||
        source == UNETMM_SOURCE_SHADOW || source == UNETMM_SOURCE_ODP;
}

static bool has_reliable(unsigned source)
{
    return source != UNETMM_SOURCE_KTLB;
}

static bool waits(unsigned policy)
{
    return policy == UNETMM_POLICY_REDIRECT || policy == UNETMM_POLICY_RNR;
}

/*
 * Policy backup: datagrams alone, and their descriptors are in memory that the
 * driver reads, which those of ktlb are not.
 */
static bool keeps(unsigned policy)
{
    return policy == UNETMM_POLICY_BACKUP;
}

static bool allowed(unsigned source, unsigned policy)
{
    return (!waits(policy) && !keeps(policy)) ||
        (brings(source) && has_reliable(source));
}

/* ---- The scene ---------------------------------------------------------------------- */

struct scene {
    struct unetmm_ctx *ctx;
    struct unetmm_ep_attr attr;
    struct station one, two;    /* a reliable channel */
    uint8_t *mine;              /* to send and write from, and to read into */
    uint8_t *to;                /* for messages */
    uint8_t *own;               /* the export */
    unsigned import;
};

static uint8_t *shared(void)
{
    int fd = (int)CHECK_SYS(memfd_create("matrix", 0));
    uint8_t *at;

    CHECK_SYS(ftruncate(fd, (off_t)LENGTH));
    at = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(at != MAP_FAILED);
    close(fd);
    memset(at, 0, LENGTH);
    return at;
}

/* A page can go at any time, where that is not the program's error. */
static void away(uint8_t *at)
{
    if (brings(run.source)) {
        CHECK_SYS(madvise(at, LENGTH, MADV_DONTNEED));
    }
}

static void scene_open(struct scene *s)
{
    memset(s, 0, sizeof(*s));
    s->attr = default_attr();
    s->attr.policy = run.policy;
    s->ctx = open_card();
    s->mine = shared();
    s->to = shared();
    s->own = shared();
    reach(s->ctx, s->mine, LENGTH, true);
    reach(s->ctx, s->to, LENGTH, true);
}

static void scene_close(struct scene *s)
{
    CHECK_RET(unetmm_close(s->ctx), 0);
    CHECK_SYS(munmap(s->mine, LENGTH));
    CHECK_SYS(munmap(s->to, LENGTH));
    CHECK_SYS(munmap(s->own, LENGTH));
}

/* ---- Traffic ------------------------------------------------------------------------ */

static void completed(struct station *station, uint64_t cookie)
{
    struct unetmm_completion c;

    take(station, UNETMM_CQE_SENT, &c);
    CHECK_EQ(c.user_data, cookie);
    if (c.status) {
        FAIL("%s", unetmm_status_str(c.status));
    }
}

/* The buffer, which may have come back unfilled, with policy skip alone. */
static void received(struct scene *s, struct unetmm_completion *c)
{
    uint64_t end = deadline_in(10);

    while (!take_until(&s->two, UNETMM_CQE_RECEIVED, c,
                       now_ns() + NS_PER_MS)) {
        CHECK(now_ns() < end);
        while (take_now(&s->two, UNETMM_CQE_BUFFER, c)) {
            CHECK_EQ(c->status, UNETMM_ST_SKIPPED);
            CHECK_EQ(run.policy, UNETMM_POLICY_SKIP);
            post(&s->two, s->to, LENGTH, c->user_data);
        }
    }
}

static void send_one(struct scene *s, size_t len, uint64_t key)
{
    struct iovec iov = { s->mine, len };
    struct unetmm_completion c;

    pattern_fill(s->mine, len, key, 0);
    memset(s->to, 0x3c, LENGTH);
    post(&s->two, s->to, LENGTH, key);
    away(s->to);
    away(s->mine);
    send_pieces(&s->one, &iov, 1, key, 0);
    received(s, &c);
    CHECK_EQ(c.user_data, key);
    CHECK_EQ(c.len, len);
    CHECK_PATTERN(s->to, len, key);
    CHECK_BYTES(s->to + len, LENGTH - len, 0x3c);
    completed(&s->one, key);
}

static void one_sided(struct scene *s, size_t at, size_t len, uint64_t key)
{
    struct unetmm_completion c;

    pattern_fill(s->mine, len, key, 0);
    away(s->own);
    CHECK_RET(unetmm_write(s->one.ep, s->import, at, s->mine, len, 0, key, 0),
              0);
    completed(&s->one, key);
    CHECK_PATTERN(s->own + at, len, key);
    memset(s->mine, 0, len);
    away(s->own);
    away(s->mine);
    CHECK_RET(unetmm_read(s->one.ep, s->import, at, s->mine, len, key, 0), 0);
    completed(&s->one, key);
    CHECK_PATTERN(s->mine, len, key);
    *(uint64_t *)(s->own + LENGTH - 8) = key;
    away(s->own);
    CHECK_RET(unetmm_fetch_add(s->one.ep, s->import, LENGTH - 8, 5, key, 0), 0);
    take(&s->one, UNETMM_CQE_SENT, &c);
    CHECK_EQ(c.status, UNETMM_ST_OK);
    CHECK_EQ(unetmm_old_value(&c), key);
    CHECK_EQ(*(uint64_t *)(s->own + LENGTH - 8), key + 5);
}

/* That the policy had something to do, and did it. */
static void look_at_policy(struct scene *s)
{
    uint64_t slots = ep_counter(&s->two, UNETMM_C_sysbuf_packets);
    uint64_t refused = ep_counter(&s->two, UNETMM_C_rel_nacks_sent);

    note("%llu packets to the system buffer, told to come again %llu times, "
         "%llu buffers skipped", (unsigned long long)slots,
         (unsigned long long)refused,
         (unsigned long long)ep_counter(&s->two, UNETMM_C_bufs_skipped));
    CHECK_EQ(ep_counter(&s->two, UNETMM_C_drop_rel_credit), 0);
    if (run.policy != UNETMM_POLICY_REDIRECT) {
        CHECK_EQ(slots, 0);
    } else {
        CHECK(slots > 0);
    }
    if (run.policy != UNETMM_POLICY_SKIP) {
        CHECK_EQ(ep_counter(&s->two, UNETMM_C_bufs_skipped), 0);
    }
    if (brings(run.source) && run.policy != UNETMM_POLICY_REDIRECT) {
        CHECK(refused > 0);
    }
}

static void reliable(struct scene *s)
{
    static const struct unetmm_channel_attr usual = UNETMM_CHANNEL_ATTR_INIT;
    struct chance chance;
    unsigned i;

    chance_init(&chance, 1);
    station_open(&s->one, s->ctx, &s->attr);
    station_open(&s->two, s->ctx, &s->attr);
    CHECK_RET(try_join(&s->one, &s->two, &usual, 10 * NS_PER_S * run.slow), 0);
    CHECK_RET(unetmm_export(s->ctx, ID, s->own, LENGTH, UNETMM_RIGHT_ALL, 0,
                            0), 0);
    s->import = import_of(&s->one, ID, UNETMM_RIGHT_ALL);
    for (i = 0; i < rounds(TURNS); i++) {
        size_t most = LENGTH - UNETMM_CQE_INLINE - 1;
        size_t at = chance_below(&chance, LENGTH / 2);

        send_one(s, UNETMM_CQE_INLINE + 1 +
                 chance_below(&chance, (uint32_t)most), i);
        one_sided(s, at, 1 + chance_below(&chance, LENGTH / 2 - 8), i);
    }
    look_at_policy(s);
    CHECK_RET(unetmm_unexport(s->ctx, ID), 0);
    station_close(&s->one);
    station_close(&s->two);
}

/* A channel of the other type there is none. */
static void refused_channel(struct scene *s, uint32_t type, int error)
{
    struct unetmm_channel_attr attr = UNETMM_CHANNEL_ATTR_INIT;
    struct station station;
    uint8_t mac[6];

    attr.flags = type;
    card_mac(mac);
    station_open(&station, s->ctx, &s->attr);
    CHECK_RET(unetmm_listen_ex(station.ep, SERVICE_FIRST, 1, &attr), error);
    CHECK_RET(unetmm_connect_ex(station.ep, mac, SERVICE_FIRST, NS_PER_S, &attr,
                                NULL), error);
    station_close(&station);
}

static void datagrams(struct scene *s)
{
    struct link link;
    unsigned i;

    link_open(&link, s->ctx, &s->attr);
    for (i = 0; i < rounds(TURNS); i++) {
        away(s->to);
        exchange_pattern(&link, s->mine, s->to, 2 * PAGE + i, i);
    }
    if (keeps(run.policy)) {
        CHECK(ep_counter(link.rx, UNETMM_C_backup_packets) > 0);
        CHECK_EQ(ep_counter(link.rx, UNETMM_C_backup_failed), 0);
    }
    link_close(&link);
}

/* ---- Cells -------------------------------------------------------------------------- */

static void cell(unsigned source, unsigned policy)
{
    struct unetmm_ep *ep;
    struct scene s;

    run.source = source;
    run.policy = policy;
    scene_open(&s);
    if (!allowed(source, policy)) {
        CHECK_RET(unetmm_ep_create(s.ctx, &s.attr, &ep), -EOPNOTSUPP);
        scene_close(&s);
        return;
    }
    if (keeps(policy)) {
        refused_channel(&s, UNETMM_RELIABLE, -EPROTOTYPE);
    } else if (has_reliable(source)) {
        reliable(&s);
    } else {
        refused_channel(&s, UNETMM_RELIABLE, -EOPNOTSUPP);
    }
    if (waits(policy)) {
        refused_channel(&s, UNETMM_DATAGRAM, -EPROTOTYPE);
    } else {
        datagrams(&s);
    }
    scene_close(&s);
}

#define SOURCES(X) \
    X(pinned, PINNED) X(utlb, UTLB) X(tlb, TLB) X(ktlb, KTLB) \
    X(shadow, SHADOW) X(odp, ODP)

#define CELL(source, SOURCE, policy, POLICY) \
TEST(source##_##policy, 0) \
{ \
    cell(UNETMM_SOURCE_##SOURCE, UNETMM_POLICY_##POLICY); \
}
#define CELLS(source, SOURCE) \
    CELL(source, SOURCE, drop, DROP) \
    CELL(source, SOURCE, skip, SKIP) \
    CELL(source, SOURCE, redirect, REDIRECT) \
    CELL(source, SOURCE, rnr, RNR) \
    CELL(source, SOURCE, backup, BACKUP)
SOURCES(CELLS)

/* The card and the driver allow the table's pairs, and no more. */
TEST(all_there_is, 0)
{
    struct unetmm_info info;
    uint32_t sources = 0;

#define SOURCE_BIT(source, SOURCE) sources |= 1u << UNETMM_SOURCE_##SOURCE;
    SOURCES(SOURCE_BIT)
    card_info(&info);
    CHECK_EQ(info.sources & ~(1u << UNETMM_SOURCE_DIRECT), sources);
    CHECK_EQ(info.policies, 1u << UNETMM_POLICY_DROP |
             1u << UNETMM_POLICY_SKIP | 1u << UNETMM_POLICY_REDIRECT |
             1u << UNETMM_POLICY_RNR | 1u << UNETMM_POLICY_BACKUP);
}
