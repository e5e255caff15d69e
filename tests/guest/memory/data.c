/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Data: every length, place and kind of memory, in and out, and the card's answers
 * for memory that may not be used.
 */
#include "guard.h"
#include "huge.h"
#include "link.h"

#include <libunetmm/inline.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- Lengths and places -------------------------------------------------------- */

struct place {
    size_t len, from, to;
};

/* One message between guard pages; nothing but its bytes may change. */
static void exchange_guarded(struct link *link, const struct place *p,
                             uint64_t key)
{
    size_t room = p->len > UNETMM_CQE_INLINE ? p->len : UNETMM_CQE_INLINE + 1;
    struct iovec iov;
    struct unetmm_completion c;
    struct guard from, to;

    guard_make(&from, p->len, p->from);
    guard_make(&to, room, p->to);
    reach(link->ctx, from.area, from.bytes, false);
    reach(link->ctx, to.area, to.bytes, true);
    pattern_fill(from.at, p->len, key, 0);
    iov = (struct iovec) { from.at, p->len };
    exchange(link, &iov, 1, to.at, room, &c);
    CHECK_EQ(c.len, p->len);
    CHECK_EQ(c.is_inline, p->len <= UNETMM_CQE_INLINE);
    CHECK_PATTERN(c.is_inline ? c.data : to.at, p->len, key);
    guard_check(&from, p->len);
    guard_check(&to, c.is_inline ? 0 : p->len);
    CHECK_PATTERN(from.at, p->len, key);
    unreach(link->ctx, from.area, from.bytes);
    unreach(link->ctx, to.area, to.bytes);
    guard_free(&from);
    guard_free(&to);
}

static void all_sizes(struct link *link)
{
    const size_t mtu = link->tx->mtu;
    const size_t sizes[] = { 0, 1, 2, 39, 40, 41, 64, 223, 224, 225, 1000,
                             4095, 4096, 4097, 8191, 8192, 8193, mtu - 1,
                             mtu };
    const size_t places[] = { 0, PAGE - 1, 7, 63, 2048, 1 };
    unsigned i, k, n = rounds(6) < 6 ? rounds(6) : 6;
    uint64_t key = 0;

    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (k = 0; k < n; k++) {
            struct place place = {
                sizes[i], places[k], places[(k + 2) % 6],
            };

            if (sizes[i] <= mtu) {
                exchange_guarded(link, &place, pattern_key(run.seed, ++key));
            }
        }
    }
}

TEST(sizes, TEST_ALL | TEST_UTLB | TEST_SHADOW | TEST_ODP | TEST_POLICIES | TEST_REMOTE)
{
    struct link link;

    link_open(&link, NULL, NULL);
    all_sizes(&link);
    link_close(&link);
}

/* The same with every message by DMA. */
TEST(sizes_by_dma, TEST_ALL | TEST_UTLB | TEST_SHADOW | TEST_ODP)
{
    struct unetmm_ep_attr attr = default_attr();
    struct link link;

    attr.inline_max = 0;
    link_open(&link, NULL, &attr);
    all_sizes(&link);
    link_close(&link);
}

TEST(too_long, TEST_ALL | TEST_UTLB | TEST_SHADOW | TEST_ODP | TEST_REMOTE)
{
    struct guard from;
    struct link link;
    size_t mtu;

    link_open(&link, NULL, NULL);
    mtu = link.tx->mtu;
    CHECK_EQ(unetmm_channel_mtu(link.tx->ep, link.tx->channel), mtu);
    guard_make(&from, mtu + 1, 0);
    CHECK_RET(unetmm_send(link.tx->ep, link.tx->channel, from.at, mtu + 1, 1,
                          0), -EMSGSIZE);
    CHECK_RET(unetmm_send(link.tx->ep, link.tx->channel, from.at,
                          UNETMM_MAX_INLINE + 1, 1, UNETMM_INLINE),
              -EMSGSIZE);
    CHECK_RET(unetmm_send(link.tx->ep, link.tx->channel, from.at, SIZE_MAX, 1,
                          0), -EMSGSIZE);
    CHECK_RET(unetmm_send(link.tx->ep, link.tx->channel, from.at, 1, 1, 0x80),
              -EINVAL);
    CHECK_RET(unetmm_send(link.tx->ep, 1000, from.at, 1, 1, 0), -ENOENT);
    CHECK_RET(unetmm_post_recv(link.rx->ep, from.at, 0, 1, 0), -EINVAL);
    CHECK_RET(unetmm_post_recv(link.rx->ep, from.at, 1, 1, UNETMM_UNSIGNALED), -EINVAL);
    CHECK_RET(unetmm_post_recv(link.rx->ep, from.at, 1024 * PAGE + 1, 1, 0),
              -EMSGSIZE);
    CHECK_RET(unetmm_post_recv(link.rx->ep, from.at, UINT32_MAX, 1, 0),
              -EMSGSIZE);
    CHECK_EQ(unetmm_send_pending(link.tx->ep), 0);
    guard_free(&from);
    link_close(&link);
}

/* A message that is longer than the buffer is dropped; the buffer stays. */
TEST(longer_than_buffer, TEST_ALL | TEST_UTLB | TEST_SHADOW | TEST_ODP | TEST_POLICIES)
{
    struct guard from, to;
    struct unetmm_completion c;
    struct iovec iov;
    struct link link;
    uint64_t before;

    link_open(&link, NULL, NULL);
    guard_make(&from, 3000, 5);
    guard_make(&to, 1000, 77);
    reach(link.ctx, from.area, from.bytes, false);
    reach(link.ctx, to.area, to.bytes, true);
    pattern_fill(from.at, from.len, 1, 0);
    post(link.rx, to.at, to.len, 9);
    iov = (struct iovec) { from.at, 1001 };
    before = ep_counter(link.rx, UNETMM_C_drop_too_long);
    EVENTUALLY(!deliver(&link, &iov, 1, &c) &&
               ep_counter(link.rx, UNETMM_C_drop_too_long) > before);
    guard_check(&to, 0);
    CHECK_EQ(ep_counter(link.rx, UNETMM_C_bufs_failed), 0);
    iov.iov_len = 1000;
    CHECK(deliver(&link, &iov, 1, &c));
    CHECK_EQ(c.user_data, 9);
    CHECK_PATTERN(to.at, 1000, 1);
    guard_check(&to, 1000);
    link_close(&link);
}

/* ---- A buffer of several pieces ---------------------------------------------------- */

#define PARTS 3

static const size_t part_len[PARTS] = { 1000, 1, 5000 };

static void post_parts(const struct link *link, const struct guard *to,
                       uint64_t user_data)
{
    struct iovec iov[PARTS];
    unsigned i;

    for (i = 0; i < PARTS; i++) {
        iov[i] = (struct iovec) { to[i].at, to[i].len };
    }
    CHECK_RET(unetmm_post_recvv(link->rx->ep, iov, PARTS, user_data, 0), 0);
}

/* The first `len` bytes are in the parts, one behind the other, and no more. */
static void check_parts(const struct guard *to, const uint8_t *sent, size_t len)
{
    unsigned i;

    for (i = 0; i < PARTS; i++) {
        size_t here = len < to[i].len ? len : to[i].len;

        CHECK(!memcmp(to[i].at, sent, here));
        guard_check(&to[i], here);
        sent += here;
        len -= here;
    }
}

TEST(into_parts, TEST_ALL | TEST_UTLB | TEST_SHADOW | TEST_ODP)
{
    static const size_t lens[] = { 100, 1000, 1001, 1002, 4000, 6001 };
    struct guard from, to[PARTS];
    struct unetmm_completion c;
    struct link link;
    uint64_t before;
    unsigned i;

    link_open(&link, NULL, NULL);
    guard_make(&from, 6002, 5);
    reach(link.ctx, from.area, from.bytes, false);
    for (i = 0; i < PARTS; i++) {
        guard_make(&to[i], part_len[i], 77 * i);
        reach(link.ctx, to[i].area, to[i].bytes, true);
    }
    pattern_fill(from.at, from.len, 1, 0);
    for (i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        struct iovec iov = { from.at, lens[i] };
        unsigned part;

        for (part = 0; part < PARTS; part++) {
            guard_reset(&to[part]);
        }
        post_parts(&link, to, i);
        /* The driver may still be asked for the pages when the message comes. */
        EVENTUALLY(deliver(&link, &iov, 1, &c));
        CHECK_EQ(c.user_data, i);
        CHECK_EQ(c.len, lens[i]);
        check_parts(to, from.at, lens[i]);
    }
    before = ep_counter(link.rx, UNETMM_C_drop_too_long);
    post_parts(&link, to, 9);
    EVENTUALLY(!deliver(&link, &(struct iovec) { from.at, 6002 }, 1, &c) &&
               ep_counter(link.rx, UNETMM_C_drop_too_long) > before);
    CHECK(deliver(&link, &(struct iovec) { from.at, 6001 }, 1, &c));
    CHECK_EQ(c.user_data, 9);
    check_parts(to, from.at, 6001);
    CHECK_EQ(ep_counter(link.rx, UNETMM_C_bufs_failed), 0);
    link_close(&link);
}

/* ---- Pieces --------------------------------------------------------------------- */

/* Cuts `len` bytes into n pieces, some of them empty. */
static void cut(struct chance *chance, uint8_t *at, size_t len, unsigned n,
                struct iovec *iov)
{
    unsigned i;

    for (i = 0; i < n; i++) {
        size_t now = i + 1 == n ? len :
            chance_below(chance, 4) ? chance_below(chance, (uint32_t)len + 1) :
            0;

        iov[i] = (struct iovec) { at, now };
        at += now;
        len -= now;
    }
}

TEST(segments, TEST_ALL | TEST_UTLB | TEST_SHADOW | TEST_ODP | TEST_REMOTE)
{
    struct unetmm_completion c;
    struct iovec iov[UNETMM_MAX_SEGS + 1] = { { 0 } };
    struct guard from, to;
    struct chance chance;
    struct link link;
    unsigned n, i;

    chance_init(&chance, 0);
    link_open(&link, NULL, NULL);
    guard_make(&from, link.tx->mtu, 123);
    guard_make(&to, link.tx->mtu, 2000);
    reach(link.ctx, from.area, from.bytes, false);
    reach(link.ctx, to.area, to.bytes, true);
    for (i = 0; i < rounds(6) * UNETMM_MAX_SEGS; i++) {
        size_t len = 225 + chance_below(&chance, link.tx->mtu - 224);

        n = 1 + i % UNETMM_MAX_SEGS;
        guard_reset(&to);
        pattern_fill(from.at, len, i, 0);
        cut(&chance, from.at, len, n, iov);
        exchange(&link, iov, n, to.at, to.len, &c);
        CHECK_EQ(c.len, len);
        CHECK_PATTERN(to.at, len, i);
        guard_check(&to, len);
    }
    CHECK_RET(unetmm_sendv(link.tx->ep, link.tx->channel, iov,
                           UNETMM_MAX_SEGS + 1, 0, 0), -EINVAL);
    /* No piece at all is an empty message. */
    post(link.rx, to.at, to.len, 3);
    CHECK(deliver(&link, NULL, 0, &c));
    CHECK_EQ(c.len, 0);
    link_close(&link);
}

/* Pieces from all over memory, and the same piece several times. */
TEST(scattered, TEST_ALL | TEST_UTLB | TEST_SHADOW | TEST_ODP)
{
    struct iovec iov[UNETMM_MAX_SEGS];
    struct unetmm_completion c;
    struct chance chance;
    uint8_t *area, *to;
    struct link link;
    unsigned i, k;
    size_t at;

    chance_init(&chance, 0);
    link_open(&link, NULL, NULL);
    area = pages(64);
    to = pages(4);
    pattern_fill(area, 64 * PAGE, 7, 0);
    reach(link.ctx, area, 64 * PAGE, false);
    reach(link.ctx, to, 4 * PAGE, true);
    for (i = 0; i < rounds(30); i++) {
        for (k = 0; k < UNETMM_MAX_SEGS; k++) {
            iov[k].iov_len = 1 + chance_below(&chance, link.tx->mtu / 16);
            iov[k].iov_base = area + chance_below(&chance, (uint32_t)
                                                  (64 * PAGE -
                                                   iov[k].iov_len));
            if (!chance_below(&chance, 4) && k) {
                iov[k] = iov[k - 1];
            }
        }
        exchange(&link, iov, UNETMM_MAX_SEGS, to, 4 * PAGE, &c);
        for (k = 0, at = 0; k < UNETMM_MAX_SEGS; k++) {
            CHECK(!memcmp(to + at, iov[k].iov_base, iov[k].iov_len));
            at += iov[k].iov_len;
        }
        CHECK_EQ(c.len, at);
    }
    link_close(&link);
}

/* ---- Queues ----------------------------------------------------------------------- */

/* Short queues: descriptors wrap, completions change their phase. */
TEST(wrap, TEST_ALL | TEST_UTLB | TEST_SHADOW | TEST_ODP)
{
    struct unetmm_ep_attr attr = default_attr();
    struct unetmm_completion c;
    struct chance chance;
    uint8_t *from, *to;
    struct link link;
    unsigned i;

    attr.send_slots = 8;
    attr.free_depth = 2;
    attr.completion_depth = 4;
    chance_init(&chance, 0);
    link_open(&link, NULL, &attr);
    from = pages(4);
    to = pages(4);
    reach(link.ctx, from, 4 * PAGE, false);
    reach(link.ctx, to, 4 * PAGE, true);
    for (i = 0; i < rounds(200); i++) {
        size_t len = chance_below(&chance, i % 2 ? 300 : link.tx->mtu);
        struct iovec iov[UNETMM_MAX_SEGS];
        unsigned n = 1 + chance_below(&chance, UNETMM_MAX_SEGS);

        pattern_fill(from, len, i, 0);
        cut(&chance, from, len, n, iov);
        exchange(&link, iov, n, to, 4 * PAGE, &c);
        CHECK_EQ(c.len, len);
        CHECK_PATTERN(c.is_inline ? c.data : to, len, i);
    }
    CHECK_EQ(unetmm_send_pending(link.tx->ep), 0);
    link_close(&link);
}

/* One doorbell for many; no completions for quiet ones, but for failures. */
TEST(more_and_quiet, TEST_ALL | TEST_UTLB | TEST_SHADOW | TEST_ODP)
{
    struct unetmm_completion c;
    struct link link;
    uint8_t byte;
    unsigned i;

    link_open(&link, NULL, NULL);
    for (i = 0; i < 20; i++) {
        byte = (uint8_t)i;
        CHECK_RET(unetmm_send(link.tx->ep, link.tx->channel, &byte, 1, i,
                              UNETMM_MORE | UNETMM_UNSIGNALED), 0);
    }
    CHECK(!take_now(link.rx, UNETMM_CQE_RECEIVED, &c));
    CHECK_EQ(unetmm_send_pending(link.tx->ep), 20);
    CHECK_RET(unetmm_ring(link.tx->ep), 0);
    for (i = 0; i < 20; i++) {
        take(link.rx, UNETMM_CQE_RECEIVED, &c);
        CHECK(c.is_inline && c.len == 1 && c.data[0] == i);
    }
    EVENTUALLY(unetmm_send_pending(link.tx->ep) == 0);
    CHECK(!take_now(link.tx, UNETMM_CQE_SENT, &c));
    CHECK_RET(unetmm_send(link.tx->ep, link.tx->channel, NULL, 300, 77,
                          UNETMM_UNSIGNALED), 0);
    take(link.tx, UNETMM_CQE_SENT, &c);
    CHECK_EQ(c.status, UNETMM_ST_PROTECTION);
    CHECK_EQ(c.user_data, 77);
    link_close(&link);
}

/* A completion queue that nobody empties: nothing is lost on the way out. */
TEST(completions_full, TEST_MISS | TEST_SHADOW | TEST_ODP)
{
    struct unetmm_ep_attr attr = default_attr();
    struct unetmm_completion c;
    struct link link;
    unsigned i;

    attr.completion_depth = 8;
    link_open(&link, NULL, &attr);
    for (i = 0; i < 40; i++) {
        CHECK_RET(unetmm_send(link.tx->ep, link.tx->channel, &i, sizeof(i), i,
                              0), 0);
    }
    CHECK(ep_counter(link.tx, UNETMM_C_cq_waits) > 0);
    for (i = 0; i < 40; i++) {
        take(link.tx, UNETMM_CQE_SENT, &c);
        CHECK_EQ(c.user_data, i);
        CHECK_EQ(c.status, UNETMM_ST_OK);
    }
    EVENTUALLY(ep_handled(link.rx) == 40);
    for (i = 0; take_now(link.rx, UNETMM_CQE_RECEIVED, &c); i++) {
        CHECK_EQ(c.len, sizeof(i));
    }
    CHECK_EQ(i + ep_counter(link.rx, UNETMM_C_drop_cq_full), 40);
    CHECK(i >= 7);
    link_close(&link);
}

/* ---- Kinds of memory --------------------------------------------------------------- */

#define KIND_BYTES      (4 * PAGE)

/* In and out of memory of one kind, at its start, its end and in between. */
static void use_kind(struct link *link, const char *kind, uint8_t *memory)
{
    uint8_t *other = pages(4);
    size_t mtu = link->tx->mtu < KIND_BYTES ? link->tx->mtu : KIND_BYTES;
    const size_t places[] = { 0, 100, PAGE - 3, KIND_BYTES - mtu };
    unsigned i;

    note("%s", kind);
    reach(link->ctx, other, KIND_BYTES, true);
    reach(link->ctx, memory, KIND_BYTES, true);
    for (i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        size_t len = KIND_BYTES - places[i] < mtu ? KIND_BYTES - places[i] :
            mtu;

        exchange_pattern(link, memory + places[i], other, len,
                         pattern_key(run.seed, 2 * i));
        exchange_pattern(link, other, memory + places[i], len,
                         pattern_key(run.seed, 2 * i + 1));
    }
    unreach(link->ctx, other, KIND_BYTES);
    unreach(link->ctx, memory, KIND_BYTES);
    unmap_pages(other, 4);
}

static uint8_t *map_file(const char *path, int flags)
{
    int fd = CHECK_SYS(open(path, O_RDWR | O_CREAT, 0600));
    uint8_t *at;

    CHECK_SYS(ftruncate(fd, (off_t)KIND_BYTES));
    at = CHECK_SYS(mmap(NULL, KIND_BYTES, PROT_READ | PROT_WRITE, flags, fd,
                        0));
    close(fd);
    CHECK_SYS(unlink(path));
    return at;
}

TEST(kinds, TEST_ALL | TEST_UTLB | TEST_SHADOW | TEST_ODP | TEST_POLICIES)
{
    static uint8_t in_bss[KIND_BYTES] __attribute__((aligned(4096)));
    static uint8_t in_data[KIND_BYTES] __attribute__((aligned(4096))) = { 1 };
    uint8_t on_stack[KIND_BYTES + PAGE];
    struct link link;
    uint8_t *at;

    link_open(&link, NULL, NULL);
    use_kind(&link, "stack", on_stack +
             (PAGE - (uintptr_t)on_stack % PAGE) % PAGE);
    use_kind(&link, "static, zeroed", in_bss);
    use_kind(&link, "static, initialized", in_data);
    use_kind(&link, "anonymous", pages(4));
    at = CHECK_SYS(mmap(NULL, KIND_BYTES, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    use_kind(&link, "anonymous, shared", at);
    at = aligned_alloc(PAGE, KIND_BYTES);
    use_kind(&link, "heap", at);
    free(at);
    use_kind(&link, "file on tmpfs, private",
             map_file("/tmp/private", MAP_PRIVATE));
    use_kind(&link, "file on tmpfs, shared",
             map_file("/dev/shm/shared", MAP_SHARED));
    use_kind(&link, "file on the root file system, private",
             map_file("/private", MAP_PRIVATE));
    link_close(&link);
}

TEST(hugetlb, TEST_ALL | TEST_UTLB | TEST_SHADOW | TEST_ODP | TEST_POLICIES)
{
    struct link link;
    uint8_t *at;

    link_open(&link, NULL, NULL);
    at = huge_reserved();
    use_kind(&link, "hugetlb", at);
    CHECK_SYS(munmap(at, HUGE));
    link_close(&link);
}

/* Whole when it is used first, whatever registering it makes of it. */
TEST_NAMED("huge-page", huge_transparent,
     TEST_ALL | TEST_UTLB | TEST_SHADOW | TEST_ODP | TEST_POLICIES)
{
    struct link link;
    uint8_t *at;

    link_open(&link, NULL, NULL);
    at = huge_page();
    use_kind(&link, "transparent huge page", at + HUGE / 2);
    CHECK_SYS(munmap(at, HUGE));
    link_close(&link);
}

/* The program's own text: read-only, private, of a file. */
TEST(own_text, TEST_ALL | TEST_UTLB | TEST_SHADOW | TEST_ODP)
{
    const uint8_t *text = (const uint8_t *)((uintptr_t)test_main & -PAGE);
    struct unetmm_completion c;
    struct iovec iov = { (void *)(uintptr_t)text, PAGE };
    struct link link;
    uint8_t *to;

    link_open(&link, NULL, NULL);
    to = pages(1);
    reach(link.ctx, (void *)(uintptr_t)text, PAGE, false);
    reach(link.ctx, to, PAGE, true);
    exchange(&link, &iov, 1, to, PAGE, &c);
    CHECK_EQ(c.len, PAGE);
    CHECK(!memcmp(to, text, PAGE));
    link_close(&link);
}

/* Memory that nobody has touched reads as zeros and can be written. */
TEST(never_touched, TEST_ALL | TEST_UTLB | TEST_SHADOW | TEST_ODP)
{
    struct unetmm_completion c;
    struct iovec iov;
    uint8_t *from, *to, *fresh;
    struct link link;

    link_open(&link, NULL, NULL);
    from = pages(2);
    to = pages(2);
    reach(link.ctx, from, 2 * PAGE, false);
    reach(link.ctx, to, 2 * PAGE, true);
    memset(to, 0xee, 2 * PAGE);
    iov = (struct iovec) { from, 2 * PAGE };
    exchange(&link, &iov, 1, to, 2 * PAGE, &c);
    CHECK_EQ(c.len, 2 * PAGE);
    CHECK_BYTES(to, 2 * PAGE, 0);
    fresh = pages(3);
    reach(link.ctx, fresh, 3 * PAGE, true);
    memset(from, 0x11, 2 * PAGE);
    exchange(&link, &iov, 1, fresh + 100, 2 * PAGE, &c);
    CHECK_BYTES(fresh, 100, 0);
    CHECK_BYTES(fresh + 100, 2 * PAGE, 0x11);
    CHECK_BYTES(fresh + 100 + 2 * PAGE, PAGE - 100, 0);
    link_close(&link);
}

/* ---- Memory that may not be used -------------------------------------------------- */

/* After a refusal the same endpoints still carry messages. */
static void still_works(struct link *link)
{
    uint8_t *from = pages(1), *to = pages(1);

    reach(link->ctx, from, PAGE, true);
    reach(link->ctx, to, PAGE, true);
    exchange_pattern(link, from, to, PAGE, pattern_key(run.seed, 99));
    unreach(link->ctx, from, PAGE);
    unreach(link->ctx, to, PAGE);
    unmap_pages(from, 1);
    unmap_pages(to, 1);
}

static void refuse_buffer(struct link *link, const void *at, size_t len)
{
    post(link->rx, (void *)(uintptr_t)at, len, 0xbad);
    CHECK_EQ(provoke_return(link, NULL, (void *)(uintptr_t)at, len, 0xbad), UNETMM_ST_PROTECTION);
}

TEST(read_only, TEST_ALL | TEST_UTLB | TEST_SHADOW | TEST_ODP | TEST_POLICIES)
{
    struct unetmm_completion c;
    struct iovec iov;
    struct link link;
    uint8_t *at, *to;

    link_open(&link, NULL, NULL);
    at = pages(2);
    to = pages(2);
    pattern_fill(at, 2 * PAGE, 5, 0);
    CHECK_SYS(mprotect(at, 2 * PAGE, PROT_READ));
    reach(link.ctx, at, 2 * PAGE, false);
    reach(link.ctx, to, 2 * PAGE, true);
    iov = (struct iovec) { at, 2 * PAGE };
    exchange(&link, &iov, 1, to, 2 * PAGE, &c);
    CHECK_PATTERN(to, 2 * PAGE, 5);
    refuse_buffer(&link, at, 2 * PAGE);
    CHECK_PATTERN(at, 2 * PAGE, 5);
    if (run.source == UNETMM_SOURCE_PINNED) {
        CHECK_RET(unetmm_register(link.ctx, at + PAGE, PAGE,
                                  UNETMM_REGION_WRITE), -EEXIST);
        CHECK_RET(unetmm_deregister(link.ctx, at, 2 * PAGE), 0);
        CHECK(unetmm_register(link.ctx, at, PAGE, UNETMM_REGION_WRITE) < 0);
    }
    /* The second page of a buffer is refused as the first is. */
    CHECK_SYS(mprotect(at, PAGE, PROT_READ | PROT_WRITE));
    refuse_buffer(&link, at + 100, PAGE);
    CHECK_PATTERN(at, 2 * PAGE, 5);
    still_works(&link);
    link_close(&link);
}

TEST(not_readable, TEST_ALL | TEST_UTLB | TEST_SHADOW | TEST_ODP)
{
    struct link link;
    uint8_t *at;

    link_open(&link, NULL, NULL);
    at = pages(3);
    memset(at, 1, 3 * PAGE);
    CHECK_SYS(mprotect(at + PAGE, PAGE, PROT_NONE));
    CHECK_EQ(send_status(link.tx, at + PAGE, 300), UNETMM_ST_PROTECTION);
    CHECK_EQ(send_status(link.tx, at + 100, 2 * PAGE), UNETMM_ST_PROTECTION);
    refuse_buffer(&link, at + PAGE, 300);
    still_works(&link);
    link_close(&link);
}

TEST(unmapped, TEST_ALL | TEST_UTLB | TEST_SHADOW | TEST_ODP | TEST_POLICIES)
{
    const uintptr_t nowhere[] = {
        0, 8, PAGE, 0x7ffffffff000, 0x800000000000, 0xdeadbeefdead,
        0xffff888000000000, 0xffffffff81000000, 0xffffffffff600000,
        0xfffffffffffff000, 0x00ff000000000000,
    };
    struct link link;
    uint8_t *hole;
    unsigned i;

    link_open(&link, NULL, NULL);
    hole = pages(3);
    unmap_pages(hole + PAGE, 1);
    for (i = 0; i < sizeof(nowhere) / sizeof(nowhere[0]); i++) {
        CHECK_EQ(send_status(link.tx, (void *)nowhere[i], 300),
                 UNETMM_ST_PROTECTION);
        refuse_buffer(&link, (void *)nowhere[i], 300);
    }
    CHECK_EQ(send_status(link.tx, hole + PAGE, 300), UNETMM_ST_PROTECTION);
    CHECK_EQ(send_status(link.tx, hole + PAGE - 1, 300),
             UNETMM_ST_PROTECTION);
    refuse_buffer(&link, hole + PAGE, 300);
    refuse_buffer(&link, hole + 10, 2 * PAGE);
    CHECK_BYTES(hole, PAGE, 0);
    still_works(&link);
    link_close(&link);
}

/* Our own queues and doorbell are no memory for messages. */
TEST(own_queues, TEST_ALL | TEST_UTLB | TEST_SHADOW | TEST_ODP)
{
    unsigned status;
    struct link link;

    link_open(&link, NULL, NULL);
    status = send_status(link.tx, link.tx->ep->index, 300);
    CHECK(status == UNETMM_ST_UNSUPPORTED || status == UNETMM_ST_PROTECTION);
    if (run.source == UNETMM_SOURCE_PINNED) {
        CHECK(unetmm_register(link.ctx, link.tx->ep->index, PAGE, 0) < 0);
    }
    post(link.rx, (void *)link.rx->ep->index, 300, 5);
    status = provoke_return(&link, NULL, (void *)link.rx->ep->index, 300, 5);
    CHECK(status == UNETMM_ST_UNSUPPORTED || status == UNETMM_ST_PROTECTION);
    still_works(&link);
    link_close(&link);
}

/* ---- Registered memory --------------------------------------------------------------- */

TEST(registered, TEST_PINNED | TEST_POLICIES)
{
    struct unetmm_completion c;
    struct iovec iov;
    struct link link;
    uint8_t *at, *to;

    link_open(&link, NULL, NULL);
    at = pages(4);
    to = pages(4);
    memset(at, 3, 4 * PAGE);
    CHECK_EQ(send_status(link.tx, at, 300), UNETMM_ST_PROTECTION);
    refuse_buffer(&link, to, 300);
    CHECK_RET(unetmm_register(link.ctx, at + 10, PAGE, 0), 0);
    CHECK_RET(unetmm_register(link.ctx, to, 4 * PAGE, UNETMM_REGION_WRITE),
              0);
    /* Whole pages count: two of them, and not a third. */
    iov = (struct iovec) { at, 2 * PAGE };
    exchange(&link, &iov, 1, to, 4 * PAGE, &c);
    CHECK_BYTES(to, 2 * PAGE, 3);
    CHECK_EQ(send_status(link.tx, at + PAGE, PAGE + 1), UNETMM_ST_PROTECTION);
    refuse_buffer(&link, at, 300);
    CHECK_RET(unetmm_register(link.ctx, at + PAGE, 1, 0), -EEXIST);
    CHECK_RET(unetmm_deregister(link.ctx, at, PAGE), -ENOENT);
    CHECK_RET(unetmm_deregister(link.ctx, at + 10, PAGE), 0);
    CHECK_RET(unetmm_deregister(link.ctx, at + 10, PAGE), -ENOENT);
    CHECK_EQ(send_status(link.tx, at, 300), UNETMM_ST_PROTECTION);
    CHECK_RET(unetmm_register(link.ctx, at, 0, 0), -EINVAL);
    CHECK_RET(unetmm_register(link.ctx, at, SIZE_MAX, 0), -EINVAL);
    CHECK(unetmm_register(link.ctx, NULL, PAGE, 0) < 0);
    CHECK_RET(unetmm_register(link.ctx, at, PAGE, 0x80), -EOPNOTSUPP);
    still_works(&link);
    link_close(&link);
}

TEST(no_registration, TEST_MISS | TEST_SHADOW | TEST_ODP)
{
    struct link link;
    uint8_t *at;

    link_open(&link, NULL, NULL);
    at = pages(1);
    CHECK_RET(unetmm_register(link.ctx, at, PAGE, 0), -EOPNOTSUPP);
    CHECK_RET(unetmm_deregister(link.ctx, at, PAGE), -EOPNOTSUPP);
    still_works(&link);
    link_close(&link);
}

/* ---- All of it at random --------------------------------------------------------------- */

#define SOAK_BUFFERS    8
#define SOAK_PAGES      4

struct soak {
    struct link link;
    uint8_t *from, *to[SOAK_BUFFERS];
    uint64_t sent, received;
};

/* Takes all there is; messages come in order, though some may be missing. */
static void soak_take(struct soak *s, uint64_t *last)
{
    struct unetmm_completion c;

    while (take_now(s->link.rx, UNETMM_CQE_RECEIVED, &c)) {
        const uint8_t *got = c.is_inline ? c.data : s->to[c.user_data];
        uint64_t seq;

        CHECK(c.len >= sizeof(seq));
        memcpy(&seq, got, sizeof(seq));
        if (seq <= *last || seq > s->sent) {
            FAIL("message %llu of %u bytes%s after %llu of %llu",
                 (unsigned long long)seq, c.len,
                 c.is_inline ? ", inline," : "", (unsigned long long)*last,
                 (unsigned long long)s->sent);
        }
        *last = seq;
        s->received++;
        if (pattern_check(got + sizeof(seq), c.len - sizeof(seq),
                          pattern_key(run.seed, seq), sizeof(seq)) !=
            c.len - sizeof(seq)) {
            FAIL("message %llu is damaged", (unsigned long long)seq);
        }
        if (!c.is_inline) {
            post(s->link.rx, s->to[c.user_data], SOAK_PAGES * PAGE, c.user_data);
        }
    }
    while (take_now(s->link.rx, UNETMM_CQE_BUFFER, &c)) {
        CHECK_EQ(c.status, UNETMM_ST_SKIPPED);
        post(s->link.rx, s->to[c.user_data], SOAK_PAGES * PAGE, c.user_data);
    }
}

static void soak_send(struct soak *s, struct chance *chance)
{
    uint32_t longest = s->link.tx->mtu;
    size_t len = sizeof(uint64_t) +
        chance_below(chance, chance_below(chance, 3) ? 600 : longest - 8);
    uint8_t *at = s->from + chance_below(chance, (uint32_t)(PAGE));
    struct iovec iov[UNETMM_MAX_SEGS];
    struct unetmm_completion c;
    unsigned n = 1 + chance_below(chance, UNETMM_MAX_SEGS);
    uint64_t seq = ++s->sent;

    pattern_fill(at, len, pattern_key(run.seed, seq), 0);
    memcpy(at, &seq, sizeof(seq));
    cut(chance, at, len, n, iov);
    send_pieces(s->link.tx, iov, n, seq, 0);
    take(s->link.tx, UNETMM_CQE_SENT, &c);
    CHECK_EQ(c.status, UNETMM_ST_OK);
    CHECK_EQ(c.user_data, seq);
}

TEST(soak, TEST_ALL | TEST_UTLB | TEST_SHADOW | TEST_ODP | TEST_POLICIES | TEST_REMOTE, 60)
{
    struct chance chance;
    struct soak s = { 0 };
    uint64_t last = 0;
    unsigned i, least = rounds(1500), most = 20 * least;

    chance_init(&chance, 0);
    link_open(&s.link, NULL, NULL);
    if (run.remote) {
        uint64_t none;

        /* Its answer comes amid the messages, and is none of them. */
        peer_try(s.link.rx, PEER_PING, &none, now_ns());
    }
    s.from = pages(SOAK_PAGES);
    reach(s.link.ctx, s.from, SOAK_PAGES * PAGE, false);
    for (i = 0; i < SOAK_BUFFERS; i++) {
        s.to[i] = pages(SOAK_PAGES);
        reach(s.link.ctx, s.to[i], SOAK_PAGES * PAGE, true);
        post(s.link.rx, s.to[i], SOAK_PAGES * PAGE, i);
    }
    /* How many are dropped while pages are fetched depends on the machine. */
    for (i = 0; i < least || (i < most && s.received <= least / 2); i++) {
        soak_send(&s, &chance);
        /* The echo has only so many buffers. */
        if (run.remote && i % 16 == 15) {
            peer_ask(s.link.rx, PEER_PING);
        }
        soak_take(&s, &last);
    }
    if (run.remote) {
        peer_ask(s.link.rx, PEER_PING);
    } else {
        EVENTUALLY(ep_handled(s.link.rx) == s.sent);
    }
    soak_take(&s, &last);
    note("%llu sent, %llu received", (unsigned long long)s.sent,
         (unsigned long long)s.received);
    CHECK(s.received > least / 2);
    if (!run.remote) {
        CHECK_EQ(ep_counter(s.link.rx, UNETMM_C_rx_frames), s.received);
    }
    link_close(&s.link);
}
