/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A process that writes anything into the queues of an endpoint.  The endpoint may stop;
 * other endpoints, of the same process and of others, go on, and no memory changes but
 * the memory given for it.
 */
#include "link.h"
#include "raw.h"
#include "traffic.h"

#include <libunetmm/inline.h>

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- Others, which must not notice ----------------------------------------------- */

struct bystanders {
    struct traffic traffic;     /* another file */
    struct raw same;            /* another endpoint of the same file */
    unsigned out, in;
};

static void bystanders_start(struct bystanders *b, int fd)
{
    traffic_start(&b->traffic, 9);
    raw_endpoint(&b->same, fd);
    raw_join_itself(&b->same, &b->out, &b->in);
}

/* A short message from the endpoint to itself. */
static void check_lives(struct raw *raw, unsigned out, unsigned in)
{
    struct unetmm_sqe *sqe = raw_sqe(raw, raw->sq_prod);
    static uint32_t number;
    struct unetmm_cqe cqe;
    unsigned sent = 0, received = 0;

    number++;
    memset(sqe, 0, sizeof(*sqe));
    sqe->opcode = UNETMM_OP_SEND;
    sqe->flags = UNETMM_SQE_F_INLINE;
    sqe->inline_len = sizeof(number);
    sqe->channel = (uint16_t)out;
    sqe->cookie = number;
    memcpy(sqe->data, &number, sizeof(number));
    raw->sq_prod++;
    raw_submit(raw);
    while (!sent || !received) {
        raw_await(raw, &cqe);
        if (cqe.opcode == UNETMM_CQE_SENT) {
            CHECK_EQ(cqe.status, UNETMM_ST_OK);
            CHECK_EQ(cqe.cookie, number);
            sent++;
        } else {
            CHECK_EQ(cqe.opcode, UNETMM_CQE_RECEIVED);
            CHECK_EQ(cqe.channel, in);
            CHECK(!memcmp(cqe.data, &number, sizeof(number)));
            received++;
        }
    }
}

static void bystanders_check(struct bystanders *b)
{
    unsigned long long before = atomic_load(&b->traffic.messages);

    check_lives(&b->same, b->out, b->in);
    EVENTUALLY(atomic_load(&b->traffic.messages) > before);
}

static void bystanders_stop(struct bystanders *b)
{
    bystanders_check(b);
    traffic_stop(&b->traffic);
    raw_close_endpoint(&b->same);
    raw_unmap(&b->same);
}

/* ---- Forged indices ----------------------------------------------------------------- */

/* The endpoint stops, says why, and can be closed. */
static void check_stopped(struct raw *raw, unsigned status)
{
    struct unetmm_cqe cqe = { 0 };

    EVENTUALLY(raw_state(raw) & UNETMM_EP_ERROR);
    while (raw_take(raw, &cqe)) {
    }
    CHECK_EQ(cqe.opcode, UNETMM_CQE_FAILED);
    CHECK_EQ(cqe.status, status);
    CHECK_EQ(raw_ep_counter(raw->fd, raw->ep.id, UNETMM_C_err_index), 1);
    raw_ring(raw);
    CHECK(!raw_take(raw, &cqe));
    raw_close_endpoint(raw);
    raw_unmap(raw);
}

TEST(forged_indices, TEST_MISS)
{
    const uint32_t ahead[] = { 129, 200, 0x1000, 0x7fffffff, 0x80000000,
                               0xffffff00, UINT32_MAX };
    struct bystanders b;
    unsigned i, which;
    int fd = raw_open_space();

    bystanders_start(&b, fd);
    for (i = 0; i < sizeof(ahead) / sizeof(ahead[0]); i++) {
        for (which = 0; which < 3; which++) {
            struct raw raw;

            raw_endpoint(&raw, fd);
            unetmm_write_index(which == 0 ? &raw.index->user.sq_prod :
                               which == 1 ? &raw.index->user.fq_prod :
                               &raw.index->user.cq_cons, ahead[i]);
            raw_ring(&raw);
            check_stopped(&raw, UNETMM_ST_BAD_INDEX);
        }
        bystanders_check(&b);
    }
    bystanders_stop(&b);
    close(fd);
}

/* The consumer index goes back: completions cannot be taken again. */
TEST(index_goes_back, TEST_MISS)
{
    struct unetmm_cqe cqe;
    struct raw raw;
    unsigned out, in, i;

    raw_open(&raw);
    raw_join_itself(&raw, &out, &in);
    for (i = 0; i < 5; i++) {
        check_lives(&raw, out, in);
    }
    /* The card has read the index. */
    raw_ring(&raw);
    unetmm_write_index(&raw.index->user.cq_cons, raw.cq_cons - 1);
    raw_ring(&raw);
    EVENTUALLY(raw_state(&raw) & UNETMM_EP_ERROR);
    raw_await(&raw, &cqe);
    CHECK_EQ(cqe.opcode, UNETMM_CQE_FAILED);
    raw_close(&raw);
}

/* ---- The library on a stopped endpoint ------------------------------------------------- */

TEST(stopped_endpoint, TEST_MISS)
{
    struct unetmm_ep_attr attr = default_attr();
    struct unetmm_completion c;
    struct link link;
    uint64_t end = deadline_in(10);
    int ret;

    attr.spin_ns = 0;
    link_open(&link, NULL, &attr);
    unetmm_write_index(&link.rx->ep->index->user.sq_prod, 100000);
    CHECK_RET(unetmm_ring(link.rx->ep), 0);
    do {
        CHECK(now_ns() < end);
        ret = unetmm_wait(link.rx->ep, &c, 1, 5 * NS_PER_S * run.slow);
    } while (ret == 1 && c.type != UNETMM_CQE_FAILED);
    CHECK_RET(ret, 1);
    CHECK_EQ(c.status, UNETMM_ST_BAD_INDEX);
    CHECK_RET(unetmm_wait(link.rx->ep, &c, 1, 5 * NS_PER_S * run.slow), -EIO);
    CHECK_RET(unetmm_poll(link.rx->ep, &c, 1), -EIO);
    /* Messages to it are dropped and counted; the sender does not suffer. */
    CHECK_EQ(send_status(link.tx, "x", 1), UNETMM_ST_OK);
    EVENTUALLY(ep_counter(link.rx, UNETMM_C_drop_stopped) == 1);
    while ((ret = unetmm_send(link.rx->ep, link.rx->channel, "x", 1, 0, 0)) ==
           0) {
        CHECK(now_ns() < end);
    }
    CHECK_RET(ret, -EIO);
    link_close(&link);
}

/* ---- Descriptors --------------------------------------------------------------------------- */

struct hostage {
    struct raw raw;
    unsigned out, in;
    uint8_t *arena;             /* buffers: may change */
    uint8_t *others;            /* may not */
};

#define ARENA_PAGES     8
#define OTHER_PAGES     32

static uint64_t odd_address(struct hostage *h, struct chance *chance)
{
    switch (chance_below(chance, 8)) {
    case 0:
        return chance_u64(chance);
    case 1:
        return (uintptr_t)h->raw.queues + chance_below(chance, 0x8000);
    case 2:
        return UINT64_MAX - chance_below(chance, 0x3000);
    case 3:
        return chance_u64(chance) | 0xffff800000000000ull;
    case 4:
        return chance_below(chance, 0x10000);
    default:
        return (uintptr_t)h->arena + chance_below(chance, (uint32_t)
                                                  (ARENA_PAGES * PAGE));
    }
}

static uint32_t odd_length(struct chance *chance)
{
    switch (chance_below(chance, 5)) {
    case 0:
        return (uint32_t)chance_u64(chance);
    case 1:
        return 0;
    case 2:
        return UINT32_MAX - chance_below(chance, 100);
    default:
        return chance_below(chance, 3 * UNETMM_PAGE_BYTES);
    }
}

/* Sometimes nonsense throughout, more often almost right. */
static void odd_send(struct hostage *h, struct chance *chance, uint32_t index)
{
    uint8_t *bytes = (uint8_t *)raw_sqe(&h->raw, index);
    struct unetmm_sqe *sqe = (void *)bytes;
    unsigned i;

    for (i = 0; i < UNETMM_SLOT_BYTES; i++) {
        bytes[i] = (uint8_t)chance_u64(chance);
    }
    if (!chance_below(chance, 4)) {
        return;
    }
    sqe->opcode = UNETMM_OP_SEND;
    sqe->flags = (uint8_t)chance_below(chance, 4);
    sqe->nsegs = (uint8_t)(sqe->flags & UNETMM_SQE_F_INLINE ? 0 :
                           chance_below(chance, UNETMM_MAX_SEGS + 2));
    sqe->inline_len = (uint8_t)(sqe->flags & UNETMM_SQE_F_INLINE ?
                                chance_below(chance, 256) : 0);
    sqe->channel = (uint16_t)(chance_below(chance, 8) ? h->out :
                              chance_below(chance, 0x10000));
    sqe->region = 0;
    sqe->imm = sqe->handle = 0;
    sqe->remote = 0;
    for (i = 0; !(sqe->flags & UNETMM_SQE_F_INLINE) && i < UNETMM_SQE_SEGS;
         i++) {
        sqe->seg[i].addr = odd_address(h, chance);
        sqe->seg[i].len = odd_length(chance);
        sqe->seg[i].rsvd = 0;
    }
    if (!chance_below(chance, 8)) {
        bytes[chance_below(chance, 32)] ^= (uint8_t)chance_u64(chance);
    }
}

static void odd_buffer(struct hostage *h, struct chance *chance,
                       uint32_t index)
{
    struct unetmm_fqe *fqe = raw_fqe(&h->raw, index);
    uint64_t address = odd_address(h, chance);
    uint32_t len = odd_length(chance);
    uint64_t arena = (uintptr_t)h->arena;

    /* A buffer may be filled where it lies: then it lies in the arena. */
    if (address >= arena - 0x10000 && address < arena + ARENA_PAGES * PAGE) {
        address = arena + address % PAGE;
        len %= (ARENA_PAGES - 1) * UNETMM_PAGE_BYTES;
    } else if (chance_below(chance, 2)) {
        address = UINT64_MAX - chance_below(chance, 0x4000);
    }
    fqe->addr = address;
    fqe->len = len;
    fqe->flags = chance_below(chance, 10) ?
        (chance_below(chance, 3) ? 0 : UNETMM_FQE_F_CHAIN) :
        (uint32_t)chance_u64(chance);
    fqe->cookie = chance_u64(chance);
    fqe->rsvd = chance_below(chance, 10) ? 0 : chance_u64(chance);
}

static void drain(struct raw *raw)
{
    struct unetmm_cqe cqe;

    while (raw_take(raw, &cqe)) {
        CHECK(cqe.opcode >= UNETMM_CQE_SENT &&
              cqe.opcode <= UNETMM_CQE_FAILED &&
              cqe.opcode != UNETMM_CQE_CONTROL);
        CHECK(cqe.status < UNETMM_NUM_ST);
    }
}

static void hostage_open(struct hostage *h, int fd)
{
    raw_endpoint(&h->raw, fd);
    raw_join_itself(&h->raw, &h->out, &h->in);
}

TEST(random_descriptors, TEST_ALL | TEST_UTLB | TEST_SHADOW | TEST_ODP | TEST_POLICIES, 60)
{
    struct bystanders b;
    struct chance chance;
    struct hostage h;
    int fd = raw_open_space();
    unsigned i, k;

    chance_init(&chance, 0);
    h.arena = pages(ARENA_PAGES);
    h.others = pages(OTHER_PAGES);
    pattern_fill(h.others, OTHER_PAGES * PAGE, 3, 0);
    bystanders_start(&b, fd);
    hostage_open(&h, fd);
    for (i = 0; i < rounds(1500); i++) {
        uint32_t free = 64 - (h.raw.sq_prod - h.raw.index->card.sq_cons);
        uint32_t room = 64 - (h.raw.fq_prod - h.raw.index->card.fq_cons);

        for (k = chance_below(&chance, 8); k && free; k--, free--) {
            odd_send(&h, &chance, h.raw.sq_prod++);
        }
        for (k = chance_below(&chance, 4); k && room; k--, room--) {
            odd_buffer(&h, &chance, h.raw.fq_prod++);
        }
        raw_submit(&h.raw);
        drain(&h.raw);
        if (raw_state(&h.raw) & UNETMM_EP_ERROR) {
            FAIL("bad descriptors stopped the endpoint");
        }
        if (i % 200 == 0) {
            bystanders_check(&b);
        }
    }
    note("%llu descriptors refused", (unsigned long long)
         raw_ep_counter(fd, h.raw.ep.id, UNETMM_C_err_descriptor));
    raw_close_endpoint(&h.raw);
    raw_unmap(&h.raw);
    CHECK_PATTERN(h.others, OTHER_PAGES * PAGE, 3);
    bystanders_stop(&b);
    close(fd);
}

/* All of the queue memory, the card's half included, all the time. */
TEST(random_stores, TEST_ALL | TEST_UTLB | TEST_SHADOW | TEST_ODP, 60)
{
    struct bystanders b;
    struct chance chance;
    struct hostage h;
    int fd = raw_open_space();
    unsigned i, k, stopped = 0;

    chance_init(&chance, 0);
    h.arena = pages(ARENA_PAGES);
    h.others = pages(OTHER_PAGES);
    pattern_fill(h.others, OTHER_PAGES * PAGE, 3, 0);
    bystanders_start(&b, fd);
    hostage_open(&h, fd);
    for (i = 0; i < rounds(400); i++) {
        for (k = 0; k < 16; k++) {
            uint32_t at = chance_below(&chance, 3) ?
                chance_below(&chance, 32) * 4 :
                chance_below(&chance, (uint32_t)h.raw.ep.queue_bytes) & ~3u;
            volatile uint32_t *word = (void *)(h.raw.queues + at);

            /* Not a free buffer that could be a good one somewhere else. */
            if (at < h.raw.ep.fq_offset || at >= h.raw.ep.cq_offset) {
                *word = (uint32_t)chance_u64(&chance) >>
                    chance_below(&chance, 32);
            }
        }
        raw_ring(&h.raw);
        if (raw_state(&h.raw) & UNETMM_EP_ERROR && i % 4 == 3) {
            stopped++;
            raw_close_endpoint(&h.raw);
            raw_unmap(&h.raw);
            hostage_open(&h, fd);
        }
        if (i % 100 == 0) {
            bystanders_check(&b);
        }
    }
    note("stopped %u times", stopped);
    raw_close_endpoint(&h.raw);
    raw_unmap(&h.raw);
    CHECK_PATTERN(h.others, OTHER_PAGES * PAGE, 3);
    bystanders_stop(&b);
    close(fd);
}

/* ---- A single descriptor -------------------------------------------------------------------- */

static unsigned status_of(struct raw *raw, unsigned slots)
{
    struct unetmm_cqe cqe;

    raw->sq_prod += slots;
    raw_submit(raw);
    do {
        raw_await(raw, &cqe);
    } while (cqe.opcode != UNETMM_CQE_SENT);
    CHECK_EQ(cqe.cookie, 0x1234);
    return cqe.status;
}

static struct unetmm_sqe *plain_send(struct hostage *h)
{
    struct unetmm_sqe *sqe = raw_sqe(&h->raw, h->raw.sq_prod);

    memset(sqe, 0, sizeof(*sqe));
    sqe->opcode = UNETMM_OP_SEND;
    sqe->nsegs = 1;
    sqe->channel = (uint16_t)h->out;
    sqe->cookie = 0x1234;
    sqe->seg[0].addr = (uintptr_t)h->arena;
    sqe->seg[0].len = 100;
    return sqe;
}

TEST(bad_descriptors, TEST_MISS)
{
    struct unetmm_sqe *sqe;
    struct hostage h;

    raw_open(&h.raw);
    raw_join_itself(&h.raw, &h.out, &h.in);
    h.arena = pages(ARENA_PAGES);
    memset(h.arena, 1, ARENA_PAGES * PAGE);
#define REFUSED(change, wanted) \
    do { \
        sqe = plain_send(&h); \
        change; \
        CHECK_EQ(status_of(&h.raw, 1), wanted); \
    } while (0)
    REFUSED(sqe->nsegs = 0, UNETMM_ST_OK);
    REFUSED(sqe->opcode = 0, UNETMM_ST_BAD_DESC);
    REFUSED(sqe->opcode = UNETMM_OP_CONTROL, UNETMM_ST_BAD_DESC);
    REFUSED(sqe->opcode = 255, UNETMM_ST_BAD_DESC);
    REFUSED(sqe->flags = 0x80, UNETMM_ST_BAD_DESC);
    REFUSED(sqe->nsegs = 17, UNETMM_ST_BAD_DESC);
    REFUSED(sqe->nsegs = 255, UNETMM_ST_BAD_DESC);
    REFUSED(sqe->nsegs = 3, UNETMM_ST_BAD_DESC);    /* cut off */
    REFUSED(sqe->inline_len = 1, UNETMM_ST_BAD_DESC);
    REFUSED(sqe->flags = UNETMM_SQE_F_INLINE, UNETMM_ST_BAD_DESC);
    REFUSED(sqe->region = 1, UNETMM_ST_BAD_DESC);
    REFUSED(sqe->imm = 1, UNETMM_ST_BAD_DESC);
    REFUSED(sqe->handle = 1, UNETMM_ST_BAD_DESC);
    REFUSED(sqe->remote = 1, UNETMM_ST_BAD_DESC);
    REFUSED(sqe->seg[0].rsvd = 1, UNETMM_ST_BAD_DESC);
    REFUSED(sqe->channel = (uint16_t)(h.in + 1), UNETMM_ST_BAD_CHANNEL);
    REFUSED(sqe->channel = 0xffff, UNETMM_ST_BAD_CHANNEL);
    REFUSED(sqe->seg[0].len = 9001, UNETMM_ST_TOO_LONG);
    REFUSED(sqe->seg[0].len = UINT32_MAX, UNETMM_ST_TOO_LONG);
    REFUSED((sqe->nsegs = 2, sqe->seg[1] = sqe->seg[0],
             sqe->seg[0].len = sqe->seg[1].len = 0x80000000u),
            UNETMM_ST_TOO_LONG);
    REFUSED(sqe->seg[0].addr = UINT64_MAX - 50, UNETMM_ST_PROTECTION);
#undef REFUSED
    check_lives(&h.raw, h.out, h.in);
    raw_close(&h.raw);
}

/* ---- Doorbells ---------------------------------------------------------------------------------- */

static sigjmp_buf escape;

static void on_fault(int number)
{
    siglongjmp(escape, number);
}

/* 0, or the signal that the store got. */
static int store(volatile uint8_t *at, unsigned bytes)
{
    int number = sigsetjmp(escape, 1);

    if (number) {
        return number;
    }
    switch (bytes) {
    case 1:
        *at = 0xff;
        break;
    case 2:
        *(volatile uint16_t *)at = 0xffff;
        break;
    case 4:
        *(volatile uint32_t *)at = 0xffffffff;
        break;
    default:
        *(volatile uint64_t *)at = UINT64_MAX;
        break;
    }
    return 0;
}

static void catch_faults(void)
{
    struct sigaction action = { .sa_handler = on_fault };

    CHECK_SYS(sigaction(SIGSEGV, &action, NULL));
    CHECK_SYS(sigaction(SIGBUS, &action, NULL));
}

TEST(odd_doorbells, TEST_MISS)
{
    struct bystanders b;
    struct raw raw;
    unsigned i, at, out, in;

    raw_open(&raw);
    raw_join_itself(&raw, &out, &in);
    bystanders_start(&b, raw.fd);
    for (i = 1; i <= 8; i *= 2) {
        for (at = 0; at <= PAGE - i; at += 248 + i) {
            CHECK_EQ(store(raw.doorbell + at / i * i, i), 0);
        }
    }
    for (i = 0; i < rounds(20000); i++) {
        raw_ring(&raw);
    }
    check_lives(&raw, out, in);
    bystanders_stop(&b);
    raw_close(&raw);
}

/* A doorbell that was closed, then one whose number another has got. */
TEST(late_doorbells, TEST_MISS)
{
    struct bystanders b;
    struct raw raw, heir;
    uint64_t before;
    unsigned i;

    catch_faults();
    raw_open(&raw);
    bystanders_start(&b, raw.fd);
    CHECK_EQ(store(raw.doorbell, 4), 0);
    raw_close_endpoint(&raw);
    for (i = 1; i <= 8; i *= 2) {
        int got = store(raw.doorbell, i);

        CHECK(!got || got == SIGBUS || got == SIGSEGV);
    }
    raw_open(&heir);
    CHECK_EQ(heir.ep.id, raw.ep.id);
    before = raw_ep_counter(heir.fd, heir.ep.id, UNETMM_C_doorbells);
    for (i = 0; i < 100; i++) {
        store(raw.doorbell, 4);
    }
    CHECK_EQ(raw_ep_counter(heir.fd, heir.ep.id, UNETMM_C_doorbells), before);
    /* The queues that were closed are still there, and nobody's. */
    memset(raw.queues, 0xff, raw.ep.queue_bytes);
    bystanders_stop(&b);
    raw_close(&heir);
    raw_unmap(&raw);
    close(raw.fd);
}

/* ---- Mappings that go while they are used --------------------------------------------------------- */

TEST(queues_unmapped, TEST_MISS)
{
    struct bystanders b;
    unsigned out, in, i;
    struct raw raw;

    raw_open(&raw);
    bystanders_start(&b, raw.fd);
    for (i = 0; i < 8; i++) {
        struct raw own;

        raw_endpoint(&own, raw.fd);
        raw_join_itself(&own, &out, &in);
        check_lives(&own, out, in);
        memset(own.sq, 0x5a, 64 * UNETMM_SLOT_BYTES);
        own.sq_prod += 50;
        unetmm_write_index(&own.index->user.sq_prod, own.sq_prod);
        if (i % 2) {
            raw_ring(&own);
        }
        raw_unmap(&own);
        if (i % 4 > 1) {
            /* Mapped again, they have their old contents. */
            raw_map(&own);
            CHECK_EQ(own.index->user.sq_prod, own.sq_prod);
            raw_unmap(&own);
        }
        raw_close_endpoint(&own);
    }
    bystanders_stop(&b);
    raw_close(&raw);
}

/* The file is closed; mappings keep it, and the endpoint, alive. */
TEST(file_closed, TEST_BOTH)
{
    unsigned out, in, i;
    struct raw raw;

    for (i = 0; i < 4; i++) {
        raw_open(&raw);
        raw_join_itself(&raw, &out, &in);
        CHECK_SYS(close(raw.fd));
        check_lives(&raw, out, in);
        if (i % 2) {
            CHECK_SYS(munmap((void *)(uintptr_t)raw.doorbell,
                             raw.ep.doorbell_bytes));
            CHECK_SYS(munmap(raw.queues, raw.ep.queue_bytes));
        } else {
            raw_unmap(&raw);
        }
    }
}

/* Buffers and messages whose memory goes away over and over. */
TEST(buffers_unmapped, TEST_MISS | TEST_SHADOW | TEST_ODP | TEST_POLICIES)
{
    struct chance chance;
    struct bystanders b;
    struct hostage h;
    int fd = raw_open_space();
    unsigned i;

    chance_init(&chance, 0);
    h.arena = pages(ARENA_PAGES);
    bystanders_start(&b, fd);
    hostage_open(&h, fd);
    for (i = 0; i < rounds(300); i++) {
        uint32_t page = chance_below(&chance, ARENA_PAGES - 1);

        if (h.raw.fq_prod - h.raw.index->card.fq_cons < 64) {
            struct unetmm_fqe *fqe = raw_fqe(&h.raw, h.raw.fq_prod++);

            memset(fqe, 0, sizeof(*fqe));
            fqe->addr = (uintptr_t)h.arena + page * PAGE + 50;
            fqe->len = UNETMM_PAGE_BYTES;
        }
        if (h.raw.sq_prod - h.raw.index->card.sq_cons < 64) {
            struct unetmm_sqe *sqe = plain_send(&h);

            sqe->seg[0].addr = (uintptr_t)h.arena + page * PAGE + 1000;
            sqe->seg[0].len = UNETMM_PAGE_BYTES;
            h.raw.sq_prod++;
        }
        raw_submit(&h.raw);
        unmap_pages(h.arena + page * PAGE, 1);
        drain(&h.raw);
        CHECK_SYS(mmap(h.arena + page * PAGE, PAGE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
        CHECK(!(raw_state(&h.raw) & UNETMM_EP_ERROR));
    }
    raw_close_endpoint(&h.raw);
    raw_unmap(&h.raw);
    bystanders_stop(&b);
    close(fd);
}
