/*
 * unetmm qtests: the TLB, misses, evictions and invalidation
 *
 * Two endpoints in spaces of source `tlb`; the test is the driver.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "qemu/osdep.h"
#include "qemu/module.h"
#include "qobject/qdict.h"
#include "qobject/qlist.h"
#include "unetmm-lib.h"

#define PAGES       4
#define RIG_BYTES   (PAGES * UNETMM_PAGE_BYTES)
#define CHANNEL     1
#define PAGE_NS     1000                /* x-dma-page-ns of the slow cards */
#define PATH        "/machine/peripheral/unetmm0"
#define HEAD        (UNETMM_FAULT_F_WRITE | UNETMM_FAULT_F_HEAD)

typedef struct Rig {
    QUnetmm *c;
    QTestState *qts;
    QUnetmmEp tx, rx;
    QUnetmmBuf src, dst;
    uint8_t data[RIG_BYTES];
} Rig;

static void rig_up(Rig *r, QUnetmm *c, uint8_t policy)
{
    r->c = c;
    r->qts = c->dev.bus->qts;
    qunetmm_start(c, 6);
    qunetmm_space(c, 1, UNETMM_SOURCE_TLB, 0, 0);
    qunetmm_space(c, 2, UNETMM_SOURCE_TLB, 0, 0);
    qunetmm_ep(&r->tx, c, 1, 1, 4, policy);
    qunetmm_ep(&r->rx, c, 2, 2, 4, policy);
    qunetmm_channel(&r->tx, CHANNEL, c->mac, 2, CHANNEL, RIG_BYTES);
    qunetmm_channel(&r->rx, CHANNEL, c->mac, 1, CHANNEL, RIG_BYTES);
    qunetmm_buf(&r->src, c, PAGES, 17);
    qunetmm_buf(&r->dst, c, PAGES, 18);
    memcpy(r->data, r->src.model + UNETMM_PAGE_BYTES, RIG_BYTES);
}

static void rig_down(Rig *r)
{
    qunetmm_buf_check(&r->src);
    qunetmm_buf_check(&r->dst);
    qunetmm_buf_free(&r->src);
    qunetmm_buf_free(&r->dst);
}

static uint64_t va(unsigned page)
{
    return QUNETMM_VA + page * QUNETMM_PAGE;
}

static void expect_no_fault(Rig *r)
{
    struct unetmm_fault f;

    g_assert_false(qunetmm_fault(r->c, &f));
}

static void expect_evict(Rig *r, uint64_t vaddr, uint64_t pte, uint32_t tag,
                         uint8_t flags)
{
    struct unetmm_fault f;

    g_assert_true(qunetmm_fault(r->c, &f));
    g_assert_cmpuint(f.type, ==, UNETMM_FAULT_EVICT);
    g_assert_cmphex(f.vaddr, ==, vaddr);
    g_assert_cmphex(f.pte, ==, pte);
    g_assert_cmphex(f.tag, ==, tag);
    g_assert_cmphex(f.flags, ==, flags);
}

/* The translations of `npages` pages of a buffer, all of them taken. */
static void give(Rig *r, uint16_t space, uint32_t fault_id, unsigned page,
                 const QUnetmmBuf *buf, unsigned npages)
{
    uint32_t taken;

    g_assert_cmpuint(qunetmm_resolve(r->c, space, fault_id, va(page),
                                     buf->addr + page * QUNETMM_PAGE,
                                     QUNETMM_RW, npages, 100 + page, &taken),
                     ==, UNETMM_CS_OK);
    g_assert_cmpuint(taken, ==, npages);
}

/* One page of src, tagged with its number, unasked. */
static uint8_t insert(Rig *r, uint64_t vpn, uint32_t *taken)
{
    return qunetmm_resolve(r->c, 1, UNETMM_FAULT_NONE,
                           vpn << UNETMM_PAGE_SHIFT, r->src.addr, QUNETMM_RW,
                           1, vpn, taken);
}

static void expect_sent(Rig *r, uint8_t status, uint64_t cookie)
{
    qunetmm_expect(&r->tx, UNETMM_CQE_SENT, status, cookie);
}

/* Pages of src, sent to the start of a buffer of dst. */
static void expect_landed(Rig *r, uint64_t cookie, size_t to, size_t from,
                          uint32_t len)
{
    struct unetmm_cqe cqe = qunetmm_expect(&r->rx, UNETMM_CQE_RECEIVED,
                                           UNETMM_ST_OK, cookie);

    g_assert_cmpuint(cqe.len, ==, len);
    qunetmm_buf_expect(&r->dst, to, r->data + from, len);
    qunetmm_buf_check(&r->dst);
}

/* Answers everything that is asked; returns the number of evictions. */
static unsigned serve(Rig *r)
{
    struct unetmm_fault f;
    unsigned evicted = 0;

    while (qunetmm_fault(r->c, &f)) {
        unsigned page = (f.vaddr - QUNETMM_VA) >> UNETMM_PAGE_SHIFT;

        if (f.type == UNETMM_FAULT_EVICT) {
            evicted++;
        } else {
            give(r, f.space, f.fault_id, page,
                 f.space == 1 ? &r->src : &r->dst, f.npages);
        }
    }
    return evicted;
}

/* How many entries the TLB shows to the monitor. */
static unsigned tlb_used(Rig *r)
{
    QDict *answer = qtest_qmp(r->qts, "{ 'execute': 'qom-get', 'arguments': "
                              "{ 'path': %s, 'property': 'tlb' } }", PATH);
    unsigned n = qlist_size(qdict_get_qlist(answer, "return"));

    qobject_unref(answer);
    return n;
}

/* ---- Misses ------------------------------------------------------------- */

static void test_miss(void *obj, void *data, QGuestAllocator *alloc)
{
    struct unetmm_fault f;
    Rig r;

    rig_up(&r, obj, UNETMM_POLICY_SKIP);
    qunetmm_post(&r.rx, 9, va(0), RIG_BYTES);
    g_assert_true(qunetmm_msi_taken(r.c, UNETMM_VEC_FAULT));
    f = qunetmm_expect_miss(r.c, va(0), PAGES, HEAD);
    g_assert_cmpuint(f.space, ==, 2);
    g_assert_cmpuint(f.ep, ==, 2);
    give(&r, 2, f.fault_id, 0, &r.dst, PAGES);
    expect_no_fault(&r);

    qunetmm_send(&r.tx, CHANNEL, 1, va(1) + 5, 2 * UNETMM_PAGE_BYTES);
    qunetmm_expect_none(&r.tx);
    f = qunetmm_expect_miss(r.c, va(1), 3, 0);
    g_assert_cmpuint(f.space, ==, 1);
    g_assert_cmpuint(f.ep, ==, 1);
    /* Only this endpoint waits. */
    qunetmm_channel(&r.rx, CHANNEL + 1, r.c->mac, 1, 40, 256);
    qunetmm_send_inline(&r.rx, CHANNEL + 1, 3, "x", 1);
    qunetmm_expect(&r.rx, UNETMM_CQE_SENT, UNETMM_ST_OK, 3);
    /* A reply for two of the three: it asks for the third. */
    give(&r, 1, f.fault_id, 1, &r.src, 2);
    qunetmm_expect_none(&r.tx);
    f = qunetmm_expect_miss(r.c, va(3), 1, 0);
    give(&r, 1, f.fault_id, 3, &r.src, 1);
    expect_sent(&r, UNETMM_ST_OK, 1);
    expect_landed(&r, 9, 0, UNETMM_PAGE_BYTES + 5, 2 * UNETMM_PAGE_BYTES);
    g_assert_cmpuint(qunetmm_counter(r.c, UNETMM_C_faults_send), ==, 2);
    g_assert_cmpuint(qunetmm_counter(r.c, UNETMM_C_faults_head), ==, 1);
    g_assert_cmpuint(tlb_used(&r), ==, PAGES + 3);
    /* An answer to a miss that is no longer asked. */
    g_assert_cmpuint(qunetmm_reply(r.c, 1, f.fault_id, UNETMM_REPLY_RETRY, 0),
                     ==, UNETMM_CS_STALE);
    rig_down(&r);
}

static void test_answers(void *obj, void *data, QGuestAllocator *alloc)
{
    struct unetmm_fault f, again;
    Rig r;

    rig_up(&r, obj, UNETMM_POLICY_SKIP);
    qunetmm_send(&r.tx, CHANNEL, 1, va(0), 8);
    f = qunetmm_expect_miss(r.c, va(0), 1, 0);
    g_assert_cmpuint(qunetmm_reply(r.c, 1, f.fault_id, UNETMM_REPLY_DEFERRED,
                                   0), ==, UNETMM_CS_OK);
    qunetmm_expect_none(&r.tx);
    expect_no_fault(&r);
    give(&r, 1, f.fault_id, 0, &r.src, 1);
    expect_sent(&r, UNETMM_ST_OK, 1);

    qunetmm_send(&r.tx, CHANNEL, 2, va(1), 8);
    f = qunetmm_expect_miss(r.c, va(1), 1, 0);
    g_assert_cmpuint(qunetmm_reply(r.c, 2, f.fault_id, UNETMM_REPLY_RETRY, 0),
                     ==, UNETMM_CS_STALE);      /* the wrong space */
    g_assert_cmpuint(qunetmm_reply(r.c, 1, f.fault_id, UNETMM_REPLY_RETRY, 0),
                     ==, UNETMM_CS_OK);
    again = qunetmm_expect_miss(r.c, va(1), 1, 0);
    g_assert_cmpuint(qunetmm_reply(r.c, 1, again.fault_id, UNETMM_REPLY_ERROR,
                                   UNETMM_ST_LIMIT), ==, UNETMM_CS_OK);
    expect_sent(&r, UNETMM_ST_LIMIT, 2);

    qunetmm_post(&r.rx, 9, va(0), 64);
    f = qunetmm_expect_miss(r.c, va(0), 1, HEAD);
    g_assert_cmpuint(qunetmm_reply(r.c, 2, f.fault_id, UNETMM_REPLY_ERROR,
                                   UNETMM_ST_UNSUPPORTED), ==, UNETMM_CS_OK);
    qunetmm_expect(&r.rx, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 0);
    qunetmm_expect(&r.rx, UNETMM_CQE_BUFFER, UNETMM_ST_UNSUPPORTED, 9);
    g_assert_cmpuint(qunetmm_counter(r.c, UNETMM_C_faults_deferred), ==, 1);
    g_assert_cmpuint(qunetmm_counter(r.c, UNETMM_C_faults_error), ==, 2);
    rig_down(&r);
}

/* Two endpoints of one space want one page: one report, one answer. */
static void test_joined(void *obj, void *data, QGuestAllocator *alloc)
{
    struct unetmm_fault f;
    QUnetmmEp other;
    Rig r;

    rig_up(&r, obj, UNETMM_POLICY_SKIP);
    qunetmm_ep(&other, r.c, 3, 1, 4, UNETMM_POLICY_SKIP);
    qunetmm_channel(&other, CHANNEL, r.c->mac, 2, 40, 256);
    qunetmm_send(&r.tx, CHANNEL, 1, va(0), 2 * UNETMM_PAGE_BYTES);
    qunetmm_send(&other, CHANNEL, 2, va(1), 8);
    f = qunetmm_expect_miss(r.c, va(0), 2, 0);
    expect_no_fault(&r);
    g_assert_cmpuint(qunetmm_counter(r.c, UNETMM_C_faults_joined), ==, 1);
    give(&r, 1, f.fault_id, 0, &r.src, 2);
    expect_sent(&r, UNETMM_ST_OK, 1);
    qunetmm_expect(&other, UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
    rig_down(&r);
}

/* The one that was reported goes away: the other asks for itself. */
static void test_joined_alone(void *obj, void *data, QGuestAllocator *alloc)
{
    struct unetmm_fault f, second;
    QUnetmmEp other;
    Rig r;

    rig_up(&r, obj, UNETMM_POLICY_SKIP);
    qunetmm_ep(&other, r.c, 3, 1, 4, UNETMM_POLICY_SKIP);
    qunetmm_channel(&other, CHANNEL, r.c->mac, 2, 40, 256);
    qunetmm_send(&r.tx, CHANNEL, 1, va(0), 8);
    qunetmm_send(&other, CHANNEL, 2, va(0), 8);
    f = qunetmm_expect_miss(r.c, va(0), 1, 0);
    g_assert_cmpuint(f.ep, ==, 1);
    g_assert_cmpuint(qunetmm_ep_destroy(r.c, 1), ==, UNETMM_CS_OK);
    second = qunetmm_expect_miss(r.c, va(0), 1, 0);
    g_assert_cmpuint(second.ep, ==, 3);
    g_assert_cmpuint(qunetmm_reply(r.c, 1, f.fault_id, UNETMM_REPLY_ERROR,
                                   UNETMM_ST_LIMIT), ==, UNETMM_CS_STALE);
    give(&r, 1, second.fault_id, 0, &r.src, 1);
    qunetmm_expect(&other, UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
    rig_down(&r);
}

/* A translation without the right that is wanted is a miss. */
static void test_rights(void *obj, void *data, QGuestAllocator *alloc)
{
    struct unetmm_fault f;
    uint32_t taken;
    Rig r;

    rig_up(&r, obj, UNETMM_POLICY_SKIP);
    qunetmm_post(&r.rx, 9, va(0), 64);
    f = qunetmm_expect_miss(r.c, va(0), 1, HEAD);
    qunetmm_resolve(r.c, 2, f.fault_id, va(0), r.src.addr,
                    UNETMM_PTE_VALID | UNETMM_PTE_READ, 1, 1, &taken);
    f = qunetmm_expect_miss(r.c, va(0), 1, HEAD);
    give(&r, 2, f.fault_id, 0, &r.dst, 1);
    expect_no_fault(&r);                /* replaced, nobody pushed out */
    give(&r, 1, UNETMM_FAULT_NONE, 0, &r.src, 1);
    qunetmm_send(&r.tx, CHANNEL, 1, va(0), 64);
    expect_sent(&r, UNETMM_ST_OK, 1);
    expect_landed(&r, 9, 0, 0, 64);
    g_assert_cmpuint(tlb_used(&r), ==, 2);
    rig_down(&r);
}

/* ---- Heads that are not there, by policy -------------------------------- */

static void test_policy(void *obj, void *data, QGuestAllocator *alloc)
{
    struct unetmm_fault first, second;
    bool skip = data;
    Rig r;

    rig_up(&r, obj, skip ? UNETMM_POLICY_SKIP : UNETMM_POLICY_DROP);
    give(&r, 1, UNETMM_FAULT_NONE, 0, &r.src, 1);
    qunetmm_post(&r.rx, 8, va(0), 64);
    qunetmm_post(&r.rx, 9, va(1), 64);
    first = qunetmm_expect_miss(r.c, va(0), 1, HEAD);
    second = qunetmm_expect_miss(r.c, va(1), 1, HEAD);
    give(&r, 2, second.fault_id, 1, &r.dst, 1);
    /* Asked: the message is lost, the buffer stays. */
    qunetmm_send(&r.tx, CHANNEL, 1, va(0), 64);
    expect_sent(&r, UNETMM_ST_OK, 1);
    qunetmm_expect_none(&r.rx);
    g_assert_cmpuint(qunetmm_counter(r.c, UNETMM_C_drop_asked), ==, 1);
    g_assert_cmpuint(qunetmm_reply(r.c, 2, first.fault_id,
                                   UNETMM_REPLY_DEFERRED, 0), ==,
                     UNETMM_CS_OK);
    /* Deferred: skip returns it and takes the next; drop loses the message. */
    qunetmm_send(&r.tx, CHANNEL, 2, va(0), 64);
    expect_sent(&r, UNETMM_ST_OK, 2);
    if (skip) {
        qunetmm_expect(&r.rx, UNETMM_CQE_BUFFER, UNETMM_ST_SKIPPED, 8);
        expect_landed(&r, 9, UNETMM_PAGE_BYTES, 0, 64);
        g_assert_cmpuint(qunetmm_counter(r.c, UNETMM_C_bufs_skipped), ==, 1);
        g_assert_cmpuint(qunetmm_reply(r.c, 2, first.fault_id,
                                       UNETMM_REPLY_RETRY, 0), ==,
                         UNETMM_CS_STALE);
    } else {
        qunetmm_expect_none(&r.rx);
        g_assert_cmpuint(qunetmm_counter(r.c, UNETMM_C_drop_absent), ==, 1);
        give(&r, 2, first.fault_id, 0, &r.dst, 1);
        qunetmm_send(&r.tx, CHANNEL, 3, va(0), 64);
        expect_sent(&r, UNETMM_ST_OK, 3);
        expect_landed(&r, 8, 0, 0, 64);
    }
    rig_down(&r);
}

/* ---- Places in the TLB -------------------------------------------------- */

/* tlb-sets=4,tlb-victims=0: the second page of a set pushes out the first. */
static void test_conflict(void *obj, void *data, QGuestAllocator *alloc)
{
    uint32_t taken;
    Rig r;

    rig_up(&r, obj, UNETMM_POLICY_SKIP);
    for (unsigned vpn = 64; vpn < 68; vpn++) {
        g_assert_cmpuint(insert(&r, vpn, &taken), ==, UNETMM_CS_OK);
    }
    expect_no_fault(&r);
    g_assert_cmpuint(insert(&r, 70, &taken), ==, UNETMM_CS_OK);
    expect_evict(&r, 66 << UNETMM_PAGE_SHIFT, r.src.addr | QUNETMM_RW, 66, 0);
    g_assert_cmpuint(insert(&r, 66, &taken), ==, UNETMM_CS_OK);
    expect_evict(&r, 70 << UNETMM_PAGE_SHIFT, r.src.addr | QUNETMM_RW, 70, 0);
    expect_no_fault(&r);
    g_assert_cmpuint(tlb_used(&r), ==, 4);
    g_assert_cmpuint(qunetmm_counter(r.c, UNETMM_C_tlb_evictions), ==, 2);
    rig_down(&r);
}

/* tlb-sets=4,tlb-victims=2: victims leave in the order in which they fell. */
static void test_victims(void *obj, void *data, QGuestAllocator *alloc)
{
    uint32_t taken;
    Rig r;

    rig_up(&r, obj, UNETMM_POLICY_SKIP);
    for (unsigned vpn = 64; vpn < 76; vpn += 4) {
        g_assert_cmpuint(insert(&r, vpn, &taken), ==, UNETMM_CS_OK);
    }
    expect_no_fault(&r);                        /* 72 | 64 68 */
    g_assert_cmpuint(insert(&r, 76, &taken), ==, UNETMM_CS_OK);
    expect_evict(&r, 64 << UNETMM_PAGE_SHIFT, r.src.addr | QUNETMM_RW, 64, 0);
    /* A hit among the victims changes places: 68 | 76 72, 72 is older. */
    qunetmm_send(&r.tx, CHANNEL, 1, 68 << UNETMM_PAGE_SHIFT, 8);
    expect_sent(&r, UNETMM_ST_OK, 1);
    g_assert_cmpuint(qunetmm_counter(r.c, UNETMM_C_tlb_victim_hits), ==, 1);
    g_assert_cmpuint(insert(&r, 80, &taken), ==, UNETMM_CS_OK);
    expect_evict(&r, 72 << UNETMM_PAGE_SHIFT, r.src.addr | QUNETMM_RW, 72, 0);
    g_assert_cmpuint(insert(&r, 84, &taken), ==, UNETMM_CS_OK);
    expect_evict(&r, 76 << UNETMM_PAGE_SHIFT, r.src.addr | QUNETMM_RW, 76, 0);
    /* Another set's page uses the same victims. */
    g_assert_cmpuint(insert(&r, 65, &taken), ==, UNETMM_CS_OK);
    g_assert_cmpuint(insert(&r, 69, &taken), ==, UNETMM_CS_OK);
    expect_evict(&r, 68 << UNETMM_PAGE_SHIFT, r.src.addr | QUNETMM_RW, 68, 0);
    expect_no_fault(&r);
    rig_down(&r);
}

/* tlb-sets=1,tlb-ways=4: which way goes depends on use only with lru. */
static void test_ways(void *obj, void *data, QGuestAllocator *alloc)
{
    bool lru = data;
    uint32_t taken;
    Rig r;

    rig_up(&r, obj, UNETMM_POLICY_SKIP);
    for (unsigned vpn = 64; vpn < 68; vpn++) {
        g_assert_cmpuint(insert(&r, vpn, &taken), ==, UNETMM_CS_OK);
    }
    qunetmm_send(&r.tx, CHANNEL, 1, 64 << UNETMM_PAGE_SHIFT, 8);
    expect_sent(&r, UNETMM_ST_OK, 1);
    g_assert_cmpuint(insert(&r, 68, &taken), ==, UNETMM_CS_OK);
    expect_evict(&r, (uint64_t)(64 + lru) << UNETMM_PAGE_SHIFT,
                 r.src.addr | QUNETMM_RW, 64 + lru, 0);
    rig_down(&r);
}

/* tlb-sets=2,tlb-victims=1: pages of one reply never push each other out. */
static void test_batch(void *obj, void *data, QGuestAllocator *alloc)
{
    struct unetmm_fault f;
    uint32_t taken;
    Rig r;

    rig_up(&r, obj, UNETMM_POLICY_SKIP);
    qunetmm_send(&r.tx, CHANNEL, 1, va(0), RIG_BYTES);
    f = qunetmm_expect_miss(r.c, va(0), PAGES, 0);
    g_assert_cmpuint(qunetmm_resolve(r.c, 1, f.fault_id, va(0), r.src.addr,
                                     QUNETMM_RW, PAGES, 1, &taken), ==,
                     UNETMM_CS_PARTIAL);
    g_assert_cmpuint(taken, ==, 3);
    g_assert_cmpuint(qunetmm_counter(r.c, UNETMM_C_tlb_refused), ==, 1);
    f = qunetmm_expect_miss(r.c, va(3), 1, 0);
    give(&r, 1, f.fault_id, 3, &r.src, 1);
    expect_sent(&r, UNETMM_ST_OK, 1);
    /* A free buffer that can never fit is refused when it is posted. */
    qunetmm_post(&r.rx, 9, va(0), RIG_BYTES);
    qunetmm_expect(&r.rx, UNETMM_CQE_BUFFER, UNETMM_ST_TOO_LARGE, 9);
    rig_down(&r);
}

/* The eviction of a written translation is dirty. */
static void test_dirty(void *obj, void *data, QGuestAllocator *alloc)
{
    uint64_t pte;
    uint32_t taken;
    Rig r;

    rig_up(&r, obj, UNETMM_POLICY_SKIP);        /* tlb-sets=4, no victims */
    pte = r.dst.addr | QUNETMM_RW;
    give(&r, 1, UNETMM_FAULT_NONE, 0, &r.src, 1);
    give(&r, 2, UNETMM_FAULT_NONE, 1, &r.dst, 1);
    qunetmm_post(&r.rx, 9, va(1), 64);
    expect_no_fault(&r);
    qunetmm_send(&r.tx, CHANNEL, 1, va(0), 64);
    expect_sent(&r, UNETMM_ST_OK, 1);
    expect_landed(&r, 9, UNETMM_PAGE_BYTES, 0, 64);
    g_assert_cmpuint(qunetmm_resolve(r.c, 2, UNETMM_FAULT_NONE, va(5),
                                     r.dst.addr, QUNETMM_RW, 1, 7, &taken),
                     ==, UNETMM_CS_OK);
    expect_evict(&r, va(1), pte + UNETMM_PAGE_BYTES, 101,
                 UNETMM_FAULT_F_DIRTY);
    rig_down(&r);
}

/* tlb-sets=1, one way, slow DMA: the only entry is held by a transfer. */
static void test_all_busy(void *obj, void *data, QGuestAllocator *alloc)
{
    struct unetmm_fault f;
    QUnetmmEp other;
    uint32_t taken;
    Rig r;

    rig_up(&r, obj, UNETMM_POLICY_SKIP);
    qunetmm_ep(&other, r.c, 3, 2, 4, UNETMM_POLICY_SKIP);
    qunetmm_channel(&other, CHANNEL, r.c->mac, 2, 40, 256);
    give(&r, 1, UNETMM_FAULT_NONE, 0, &r.src, 1);
    qunetmm_send(&r.tx, CHANNEL, 1, va(0), 64);
    qunetmm_expect_none(&r.tx);                 /* its page is moving */
    qunetmm_send(&other, CHANNEL, 2, va(1), 64);
    f = qunetmm_expect_miss(r.c, va(1), 1, 0);
    g_assert_cmpuint(qunetmm_resolve(r.c, 2, f.fault_id, va(1), r.dst.addr,
                                     QUNETMM_RW, 1, 0, &taken), ==,
                     UNETMM_CS_PARTIAL);
    g_assert_cmpuint(taken, ==, 0);
    expect_no_fault(&r);                        /* it waits for a release */
    g_assert_cmpuint(qunetmm_counter(r.c, UNETMM_C_tlb_refused), ==, 1);
    qtest_clock_step(r.qts, PAGE_NS);
    expect_sent(&r, UNETMM_ST_OK, 1);
    f = qunetmm_expect_miss(r.c, va(1), 1, 0);
    give(&r, 2, f.fault_id, 1, &r.dst, 1);
    expect_evict(&r, va(0), r.src.addr | QUNETMM_RW, 100, 0);
    qunetmm_expect_none(&other);
    qtest_clock_step(r.qts, PAGE_NS);
    qunetmm_expect(&other, UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
    rig_down(&r);
}

/* ---- Invalidation ------------------------------------------------------- */

static void test_invalidate(void *obj, void *data, QGuestAllocator *alloc)
{
    Rig r;

    rig_up(&r, obj, UNETMM_POLICY_SKIP);
    give(&r, 1, UNETMM_FAULT_NONE, 0, &r.src, PAGES);
    give(&r, 2, UNETMM_FAULT_NONE, 0, &r.dst, PAGES);
    /* One byte of a page drops the page, in that space alone; inclusive. */
    qunetmm_invalidate(r.c, 1, va(1) + 4095, va(2));
    g_assert_false(qunetmm_invalidate_busy(r.c));
    g_assert_cmpuint(qunetmm_counter(r.c, UNETMM_C_tlb_invalidated), ==, 2);
    g_assert_cmpuint(tlb_used(&r), ==, 2 * PAGES - 2);
    expect_no_fault(&r);                        /* the driver knows */
    qunetmm_send(&r.tx, CHANNEL, 1, va(0), UNETMM_PAGE_BYTES + 1);
    qunetmm_expect_miss(r.c, va(1), 1, 0);
    /* Nonsense is ignored. */
    qunetmm_invalidate(r.c, 1, va(3), va(0));
    qunetmm_invalidate(r.c, 99, 0, UINT64_MAX);
    qunetmm_invalidate(r.c, UINT32_MAX & 0xffff, 0, UINT64_MAX);
    g_assert_cmpuint(tlb_used(&r), ==, 2 * PAGES - 2);
    qunetmm_invalidate(r.c, 2, 0, UINT64_MAX);
    g_assert_cmpuint(tlb_used(&r), ==, PAGES - 2);
    g_assert_cmpuint(qunetmm_counter(r.c, UNETMM_C_invalidations), ==, 5);
    rig_down(&r);
}

/* Slow DMA: busy until the page in flight has landed, and not longer. */
static void test_invalidate_send(void *obj, void *data,
                                 QGuestAllocator *alloc)
{
    struct unetmm_fault f;
    Rig r;

    rig_up(&r, obj, UNETMM_POLICY_SKIP);
    give(&r, 1, UNETMM_FAULT_NONE, 0, &r.src, PAGES);
    qunetmm_send(&r.tx, CHANNEL, 1, va(0), 2 * UNETMM_PAGE_BYTES);
    qunetmm_invalidate(r.c, 1, va(1), va(3));   /* not the one that moves */
    g_assert_false(qunetmm_invalidate_busy(r.c));
    qunetmm_invalidate(r.c, 2, va(0), va(0));   /* not that space */
    g_assert_false(qunetmm_invalidate_busy(r.c));
    qunetmm_invalidate(r.c, 1, va(0), va(0));
    g_assert_true(qunetmm_invalidate_busy(r.c));
    qtest_clock_step(r.qts, PAGE_NS - 1);
    g_assert_true(qunetmm_invalidate_busy(r.c));
    g_assert_cmpuint(tlb_used(&r), ==, 1);      /* dying, still in place */
    qtest_clock_step(r.qts, 1);
    g_assert_false(qunetmm_invalidate_busy(r.c));
    g_assert_cmpuint(tlb_used(&r), ==, 0);
    g_assert_cmpuint(qunetmm_counter(r.c, UNETMM_C_inv_waits), ==, 1);
    /* The second page is gone: it waits for it and holds nothing. */
    f = qunetmm_expect_miss(r.c, va(1), 1, 0);
    qunetmm_invalidate(r.c, 1, 0, UINT64_MAX);
    g_assert_false(qunetmm_invalidate_busy(r.c));
    qtest_clock_step(r.qts, 10 * PAGE_NS);
    qunetmm_expect_none(&r.tx);
    give(&r, 1, f.fault_id, 1, &r.src, 1);
    qunetmm_expect_none(&r.tx);
    qtest_clock_step(r.qts, PAGE_NS);
    expect_sent(&r, UNETMM_ST_OK, 1);
    rig_down(&r);
}

/* A message that is landing: the page in flight lands, no other does. */
static void test_invalidate_land(void *obj, void *data,
                                 QGuestAllocator *alloc)
{
    Rig r;

    rig_up(&r, obj, UNETMM_POLICY_SKIP);
    give(&r, 1, UNETMM_FAULT_NONE, 0, &r.src, 2);
    give(&r, 2, UNETMM_FAULT_NONE, 0, &r.dst, 2);
    qunetmm_post(&r.rx, 9, va(0), 2 * UNETMM_PAGE_BYTES);
    qunetmm_send(&r.tx, CHANNEL, 1, va(0), 2 * UNETMM_PAGE_BYTES);
    qtest_clock_step(r.qts, PAGE_NS);
    qtest_clock_step(r.qts, PAGE_NS);
    expect_sent(&r, UNETMM_ST_OK, 1);           /* now it lands */
    qunetmm_invalidate(r.c, 2, va(1), va(1));
    g_assert_false(qunetmm_invalidate_busy(r.c));
    qunetmm_invalidate(r.c, 2, va(0), va(1));
    g_assert_true(qunetmm_invalidate_busy(r.c));
    qtest_clock_step(r.qts, PAGE_NS);
    g_assert_false(qunetmm_invalidate_busy(r.c));
    g_assert_cmpuint(qunetmm_counter(r.c, UNETMM_C_drop_invalidated), ==, 1);
    qunetmm_buf_expect(&r.dst, 0, r.data, UNETMM_PAGE_BYTES);
    qtest_clock_step(r.qts, 10 * PAGE_NS);
    qunetmm_buf_check(&r.dst);
    qunetmm_expect_none(&r.rx);
    /* The buffer is still posted and asks for its pages again. */
    g_assert_cmpuint(serve(&r), ==, 0);
    g_assert_cmpuint(tlb_used(&r), ==, 4);
    qunetmm_send(&r.tx, CHANNEL, 2, va(1), UNETMM_PAGE_BYTES);
    qtest_clock_step(r.qts, PAGE_NS);
    expect_sent(&r, UNETMM_ST_OK, 2);
    qunetmm_expect_none(&r.rx);
    qtest_clock_step(r.qts, PAGE_NS);
    expect_landed(&r, 9, 0, UNETMM_PAGE_BYTES, UNETMM_PAGE_BYTES);
    rig_down(&r);
}

/* ---- Source shadow: entries locked in guest memory ---------------------- */

static uint64_t shadow_space(Rig *r, uint16_t space, const QUnetmmBuf *buf)
{
    uint64_t table = guest_alloc(r->c->alloc, UNETMM_PAGE_BYTES);

    qtest_memset(r->qts, table, 0, UNETMM_PAGE_BYTES);
    qunetmm_space(r->c, space, UNETMM_SOURCE_SHADOW, 1, table);
    qunetmm_pin(r->c, table, va(0), buf->addr, QUNETMM_RW, PAGES);
    return table + (va(0) >> UNETMM_PAGE_SHIFT) * sizeof(uint64_t);
}

/* As rig_up(); the entries of the first pages of src and dst. */
static void shadow_up(Rig *r, QUnetmm *c, uint64_t *from, uint64_t *to)
{
    r->c = c;
    r->qts = c->dev.bus->qts;
    qunetmm_start(c, 6);
    qunetmm_buf(&r->src, c, PAGES, 17);
    qunetmm_buf(&r->dst, c, PAGES, 18);
    memcpy(r->data, r->src.model + UNETMM_PAGE_BYTES, RIG_BYTES);
    *from = shadow_space(r, 1, &r->src);
    *to = shadow_space(r, 2, &r->dst);
    qunetmm_ep(&r->tx, c, 1, 1, 4, UNETMM_POLICY_SKIP);
    qunetmm_ep(&r->rx, c, 2, 2, 4, UNETMM_POLICY_SKIP);
    qunetmm_channel(&r->tx, CHANNEL, c->mac, 2, CHANNEL, RIG_BYTES);
    qunetmm_channel(&r->rx, CHANNEL, c->mac, 1, CHANNEL, RIG_BYTES);
}

/* Both sides' entries, while a page moves and when it has moved. */
static void test_shadow_lock(void *obj, void *data, QGuestAllocator *alloc)
{
    uint64_t from, to, word;
    Rig r;

    shadow_up(&r, obj, &from, &to);
    qunetmm_post(&r.rx, 9, va(0), UNETMM_PAGE_BYTES);
    qunetmm_send(&r.tx, CHANNEL, 1, va(0), UNETMM_PAGE_BYTES);
    word = qtest_readq(r.qts, from);
    g_assert_cmphex(word, ==, r.src.addr | QUNETMM_RW | UNETMM_PTE_LOCK);
    /* The driver takes it away: a transfer's lock keeps it till the end. */
    qtest_writeq(r.qts, from, word & ~QUNETMM_RW);
    qtest_clock_step(r.qts, PAGE_NS);
    g_assert_cmphex(qtest_readq(r.qts, from), ==, r.src.addr);
    expect_sent(&r, UNETMM_ST_OK, 1);
    g_assert_cmphex(qtest_readq(r.qts, to), ==, r.dst.addr | QUNETMM_RW |
                    UNETMM_PTE_DIRTY | UNETMM_PTE_LOCK);
    qtest_clock_step(r.qts, PAGE_NS);
    g_assert_cmphex(qtest_readq(r.qts, to), ==, r.dst.addr | QUNETMM_RW |
                    UNETMM_PTE_DIRTY);
    expect_landed(&r, 9, 0, 0, UNETMM_PAGE_BYTES);
    qunetmm_send(&r.tx, CHANNEL, 2, va(0), UNETMM_PAGE_BYTES);
    qunetmm_expect_miss(r.c, va(0), 1, 0);
    qunetmm_expect_none(&r.tx);
    rig_down(&r);
}

/* ---- The end of endpoints and spaces ------------------------------------ */

/* Slow DMA: EP_DESTROY is answered when the page in flight has landed. */
static void test_destroy_waits(void *obj, void *data, QGuestAllocator *alloc)
{
    struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_EP_DESTROY, .ep = 1, .tag = 0x1234,
    };
    struct unetmm_cmd_done done;
    Rig r;

    rig_up(&r, obj, UNETMM_POLICY_SKIP);
    give(&r, 1, UNETMM_FAULT_NONE, 0, &r.src, 2);
    qunetmm_send(&r.tx, CHANNEL, 1, va(0), 2 * UNETMM_PAGE_BYTES);
    qunetmm_submit(r.c, &cmd);
    g_assert_false(qunetmm_done(r.c, &done));
    g_assert_cmpuint(tlb_used(&r), ==, 2);
    qtest_clock_step(r.qts, PAGE_NS - 1);
    g_assert_false(qunetmm_done(r.c, &done));
    qtest_clock_step(r.qts, 1);
    g_assert_true(qunetmm_done(r.c, &done));
    g_assert_cmpuint(done.tag, ==, 0x1234);
    g_assert_cmpuint(done.status, ==, UNETMM_CS_OK);
    qunetmm_expect_none(&r.tx);
    /* It was the last of its space, whose translations went with it. */
    g_assert_cmpuint(tlb_used(&r), ==, 0);
    expect_no_fault(&r);
    qtest_clock_step(r.qts, 10 * PAGE_NS);
    g_assert_cmpuint(qunetmm_counter(r.c, UNETMM_C_tx_frames), ==, 0);
    rig_down(&r);
}

/* The same for one that receives. */
static void test_destroy_landing(void *obj, void *data,
                                 QGuestAllocator *alloc)
{
    struct unetmm_cmd cmd = { .opcode = UNETMM_CMD_EP_DESTROY, .ep = 2 };
    struct unetmm_cmd_done done;
    Rig r;

    rig_up(&r, obj, UNETMM_POLICY_SKIP);
    give(&r, 1, UNETMM_FAULT_NONE, 0, &r.src, 1);
    give(&r, 2, UNETMM_FAULT_NONE, 0, &r.dst, 1);
    qunetmm_post(&r.rx, 9, va(0), 64);
    qunetmm_send(&r.tx, CHANNEL, 1, va(0), 64);
    qtest_clock_step(r.qts, PAGE_NS);
    expect_sent(&r, UNETMM_ST_OK, 1);
    qunetmm_submit(r.c, &cmd);
    g_assert_false(qunetmm_done(r.c, &done));
    qtest_clock_step(r.qts, PAGE_NS);
    g_assert_true(qunetmm_done(r.c, &done));
    g_assert_cmpuint(done.status, ==, UNETMM_CS_OK);
    g_assert_cmpuint(qunetmm_counter(r.c, UNETMM_C_drop_stopped), ==, 1);
    /* Nothing was written for an endpoint that is going. */
    rig_down(&r);
}

/* ---- No room in the fault ring ------------------------------------------ */

#define MANY 6

/* A ring of 4, of which misses use 3: the rest wait, in order, none is lost. */
static void test_fault_full(void *obj, void *data, QGuestAllocator *alloc)
{
    QUnetmmEp eps[MANY];
    Rig r;

    rig_up(&r, obj, UNETMM_POLICY_SKIP);
    qunetmm_ring_start(r.c, UNETMM_RING_FAULT, 2);
    qunetmm_write(r.c, UNETMM_REG_EVENT_MASK, UNETMM_EVENT_FAULT_FULL);
    for (unsigned i = 0; i < MANY; i++) {
        qunetmm_ep(&eps[i], r.c, 10 + i, 1, 3, UNETMM_POLICY_DROP);
        qunetmm_channel(&eps[i], 0, r.c->mac, 2, 40, 256);
        qunetmm_send(&eps[i], 0, i, va(i), 8);
    }
    g_assert_cmpuint(qunetmm_counter(r.c, UNETMM_C_faults_send), ==, 3);
    g_assert_cmpuint(qunetmm_counter(r.c, UNETMM_C_faults_waited), ==, 1);
    g_assert_cmphex(qunetmm_read(r.c, UNETMM_REG_EVENTS) &
                    UNETMM_EVENT_FAULT_FULL, !=, 0);
    g_assert_true(qunetmm_msi_taken(r.c, UNETMM_VEC_EVENT));
    for (unsigned i = 0; i < MANY; i++) {
        struct unetmm_fault f = qunetmm_expect_miss(r.c, va(i), 1, 0);

        give(&r, 1, f.fault_id, i, &r.src, 1);
        qunetmm_expect(&eps[i], UNETMM_CQE_SENT, UNETMM_ST_OK, i);
    }
    expect_no_fault(&r);
    g_assert_cmphex(qunetmm_read(r.c, UNETMM_REG_EVENTS) &
                    UNETMM_EVENT_FAULT_FULL, !=, 0);
    qunetmm_write(r.c, UNETMM_REG_EVENTS, UNETMM_EVENT_FAULT_FULL);
    g_assert_cmphex(qunetmm_read(r.c, UNETMM_REG_EVENTS) &
                    UNETMM_EVENT_FAULT_FULL, ==, 0);
    rig_down(&r);
}

/* tlb-sets=4, no victims: no eviction without room to report it. */
static void test_evict_full(void *obj, void *data, QGuestAllocator *alloc)
{
    uint32_t taken;
    Rig r;

    rig_up(&r, obj, UNETMM_POLICY_SKIP);
    qunetmm_ring_start(r.c, UNETMM_RING_FAULT, 1);
    for (unsigned i = 0; i < 3; i++) {
        g_assert_cmpuint(insert(&r, 64 + 4 * i, &taken), ==, UNETMM_CS_OK);
    }
    g_assert_cmpuint(insert(&r, 76, &taken), ==, UNETMM_CS_PARTIAL);
    g_assert_cmpuint(taken, ==, 0);
    g_assert_cmphex(qunetmm_read(r.c, UNETMM_REG_EVENTS) &
                    UNETMM_EVENT_FAULT_FULL, !=, 0);
    /* 72 is still there. */
    qunetmm_send(&r.tx, CHANNEL, 1, 72 << UNETMM_PAGE_SHIFT, 8);
    expect_sent(&r, UNETMM_ST_OK, 1);
    expect_evict(&r, 64 << UNETMM_PAGE_SHIFT, r.src.addr | QUNETMM_RW, 64, 0);
    g_assert_cmpuint(insert(&r, 76, &taken), ==, UNETMM_CS_OK);
    expect_evict(&r, 68 << UNETMM_PAGE_SHIFT, r.src.addr | QUNETMM_RW, 68, 0);
    expect_evict(&r, 72 << UNETMM_PAGE_SHIFT, r.src.addr | QUNETMM_RW, 72, 0);
    expect_no_fault(&r);
    rig_down(&r);
}

/* max-faults=1: one report at a time. */
static void test_max_faults(void *obj, void *data, QGuestAllocator *alloc)
{
    struct unetmm_fault f;
    Rig r;

    rig_up(&r, obj, UNETMM_POLICY_SKIP);
    qunetmm_post(&r.rx, 9, va(0), 64);
    qunetmm_send(&r.tx, CHANNEL, 1, va(0), 64);
    f = qunetmm_expect_miss(r.c, va(0), 1, HEAD);
    expect_no_fault(&r);
    give(&r, 2, f.fault_id, 0, &r.dst, 1);
    f = qunetmm_expect_miss(r.c, va(0), 1, 0);
    give(&r, 1, f.fault_id, 0, &r.src, 1);
    expect_sent(&r, UNETMM_ST_OK, 1);
    expect_landed(&r, 9, 0, 0, 64);
    rig_down(&r);
}

/* ---- Misses and evictions on request ------------------------------------ */

static void test_force(void *obj, void *data, QGuestAllocator *alloc)
{
    const char *knob = data;
    enum unetmm_counter counter = !strcmp(knob, "x-force-miss") ?
                                  UNETMM_C_inj_miss : UNETMM_C_inj_evict;
    unsigned evicted = 0, landed = 0, posted = 0;
    Rig r;

    rig_up(&r, obj, UNETMM_POLICY_SKIP);
    qunetmm_qom_set(r.qts, PATH, "x-seed", 42);
    qunetmm_qom_set(r.qts, PATH, knob, 200000);
    for (unsigned i = 0; i < 60; i++) {
        struct unetmm_cqe cqe;

        for (; posted < landed + 2; posted++) {
            qunetmm_post(&r.rx, posted, va(0), RIG_BYTES);
        }
        evicted += serve(&r);
        qunetmm_send(&r.tx, CHANNEL, i, va(0), RIG_BYTES);
        evicted += serve(&r);
        expect_sent(&r, UNETMM_ST_OK, i);
        while (qunetmm_cqe(&r.rx, &cqe)) {
            landed += cqe.opcode == UNETMM_CQE_RECEIVED;
        }
    }
    qunetmm_qom_set(r.qts, PATH, knob, 0);
    g_assert_cmpuint(qunetmm_counter(r.c, counter), >, 20);
    g_assert_cmpuint(evicted, ==, qunetmm_counter(r.c, counter));
    g_assert_cmpuint(landed, >, 0);
    g_assert_cmpuint(landed + qunetmm_counter(r.c, UNETMM_C_drop_asked) +
                     qunetmm_counter(r.c, UNETMM_C_drop_no_buffer), ==, 60);
    qunetmm_buf_expect(&r.dst, 0, r.data, RIG_BYTES);
    rig_down(&r);
}

/* ---- Answers that are late, fail, or are refused on request ------------- */

static void test_answer_late(void *obj, void *data, QGuestAllocator *alloc)
{
    struct unetmm_fault f;
    Rig r;

    rig_up(&r, obj, UNETMM_POLICY_SKIP);
    qunetmm_qom_set(r.qts, PATH, "x-fault-delay-ns", 5000);
    qunetmm_qom_set(r.qts, PATH, "x-fault-delay", 1000000);
    qunetmm_send(&r.tx, CHANNEL, 1, va(0), 64);
    f = qunetmm_expect_miss(r.c, va(0), 1, 0);
    give(&r, 1, f.fault_id, 0, &r.src, 1);
    g_assert_cmpuint(tlb_used(&r), ==, 1);
    qunetmm_expect_none(&r.tx);
    qtest_clock_step(r.qts, 5000);
    expect_sent(&r, UNETMM_ST_OK, 1);
    g_assert_cmpuint(qunetmm_counter(r.c, UNETMM_C_inj_fault_late), ==, 1);
    /* The next test may be given the same machine. */
    qunetmm_qom_set(r.qts, PATH, "x-fault-delay", 0);
    rig_down(&r);
}

static void test_answer_fails(void *obj, void *data, QGuestAllocator *alloc)
{
    struct unetmm_fault f;
    uint32_t taken = 9;
    Rig r;

    rig_up(&r, obj, UNETMM_POLICY_SKIP);
    qunetmm_qom_set(r.qts, PATH, "x-fault-fail", 1000000);
    qunetmm_send(&r.tx, CHANNEL, 1, va(0), 64);
    f = qunetmm_expect_miss(r.c, va(0), 1, 0);
    g_assert_cmpuint(qunetmm_resolve(r.c, 1, f.fault_id, va(0), r.src.addr,
                                     QUNETMM_RW, 1, 5, &taken), ==,
                     UNETMM_CS_PARTIAL);
    g_assert_cmpuint(taken, ==, 0);
    g_assert_cmpuint(tlb_used(&r), ==, 0);
    expect_sent(&r, UNETMM_ST_LIMIT, 1);
    g_assert_cmpuint(qunetmm_counter(r.c, UNETMM_C_inj_fault_fail), ==, 1);
    qunetmm_qom_set(r.qts, PATH, "x-fault-fail", 0);
    rig_down(&r);
}

static void test_answer_refused(void *obj, void *data, QGuestAllocator *alloc)
{
    struct unetmm_fault f;
    uint32_t taken = 9;
    Rig r;

    rig_up(&r, obj, UNETMM_POLICY_SKIP);
    qunetmm_qom_set(r.qts, PATH, "x-fault-refuse", 1000000);
    qunetmm_send(&r.tx, CHANNEL, 1, va(0), 2 * QUNETMM_PAGE);
    f = qunetmm_expect_miss(r.c, va(0), 2, 0);
    g_assert_cmpuint(qunetmm_resolve(r.c, 1, f.fault_id, va(0), r.src.addr,
                                     QUNETMM_RW, 2, 5, &taken), ==,
                     UNETMM_CS_PARTIAL);
    g_assert_cmpuint(taken, <, 2);
    g_assert_cmpuint(tlb_used(&r), ==, taken);
    qunetmm_qom_set(r.qts, PATH, "x-fault-refuse", 0);
    f = qunetmm_expect_miss(r.c, va(taken), 2 - taken, 0);
    give(&r, 1, f.fault_id, taken, &r.src, 2 - taken);
    expect_sent(&r, UNETMM_ST_OK, 1);
    g_assert_cmpuint(qunetmm_counter(r.c, UNETMM_C_inj_fault_refuse), ==, 1);
    rig_down(&r);
}

static void unetmm_register_tlb_tests(void)
{
    QOSGraphTestOptions plain = { };
    QOSGraphTestOptions set = { .arg = (void *)"set" };
    QOSGraphTestOptions slow = {
        .edge.extra_device_opts = "x-dma-page-ns=" stringify(PAGE_NS)
    };
    QOSGraphTestOptions direct = {
        .edge.extra_device_opts = "tlb-sets=4,tlb-victims=0"
    };
    QOSGraphTestOptions victims = {
        .edge.extra_device_opts = "tlb-sets=4,tlb-victims=2"
    };
    QOSGraphTestOptions fifo = {
        .edge.extra_device_opts = "tlb-sets=1,tlb-ways=4,tlb-victims=0"
    };
    QOSGraphTestOptions lru = {
        .arg = (void *)"lru",
        .edge.extra_device_opts = "tlb-sets=1,tlb-ways=4,tlb-victims=0,"
                                  "tlb-replace=lru"
    };
    QOSGraphTestOptions tiny = {
        .edge.extra_device_opts = "tlb-sets=2,tlb-victims=1"
    };
    QOSGraphTestOptions busy = {
        .edge.extra_device_opts = "tlb-sets=1,tlb-victims=0,x-dma-page-ns="
                                  stringify(PAGE_NS)
    };
    QOSGraphTestOptions one = { .edge.extra_device_opts = "max-faults=1" };

    qos_add_test("tlb-miss", "unetmm", test_miss, &plain);
    qos_add_test("tlb-answers", "unetmm", test_answers, &plain);
    qos_add_test("tlb-joined", "unetmm", test_joined, &plain);
    qos_add_test("tlb-joined-alone", "unetmm", test_joined_alone, &plain);
    qos_add_test("tlb-rights", "unetmm", test_rights, &plain);
    qos_add_test("policy-drop", "unetmm", test_policy, &plain);
    qos_add_test("policy-skip", "unetmm", test_policy, &set);
    qos_add_test("tlb-conflict", "unetmm", test_conflict, &direct);
    qos_add_test("tlb-victims", "unetmm", test_victims, &victims);
    qos_add_test("tlb-fifo", "unetmm", test_ways, &fifo);
    qos_add_test("tlb-lru", "unetmm", test_ways, &lru);
    qos_add_test("tlb-batch", "unetmm", test_batch, &tiny);
    qos_add_test("tlb-dirty", "unetmm", test_dirty, &direct);
    qos_add_test("tlb-all-busy", "unetmm", test_all_busy, &busy);
    qos_add_test("invalidate", "unetmm", test_invalidate, &plain);
    qos_add_test("invalidate-send", "unetmm", test_invalidate_send, &slow);
    qos_add_test("invalidate-land", "unetmm", test_invalidate_land, &slow);
    qos_add_test("shadow-lock", "unetmm", test_shadow_lock, &slow);
    qos_add_test("destroy-waits", "unetmm", test_destroy_waits, &slow);
    qos_add_test("destroy-landing", "unetmm", test_destroy_landing, &slow);
    qos_add_test("fault-full", "unetmm", test_fault_full, &plain);
    qos_add_test("evict-full", "unetmm", test_evict_full, &direct);
    qos_add_test("max-faults", "unetmm", test_max_faults, &one);
}

/* Misbehaviour on request. */
static void unetmm_register_knob_tests(void)
{
    QOSGraphTestOptions plain = { };
    QOSGraphTestOptions miss = { .arg = (void *)"x-force-miss" };
    QOSGraphTestOptions evict = { .arg = (void *)"x-force-evict",
        .edge.extra_device_opts = "tlb-sets=8,tlb-victims=4" };

    qos_add_test("force-miss", "unetmm", test_force, &miss);
    qos_add_test("force-evict", "unetmm", test_force, &evict);
    qos_add_test("answer-late", "unetmm", test_answer_late, &plain);
    qos_add_test("answer-fails", "unetmm", test_answer_fails, &plain);
    qos_add_test("answer-refused", "unetmm", test_answer_refused, &plain);
}

libqos_init(unetmm_register_tlb_tests);
libqos_init(unetmm_register_knob_tests);
