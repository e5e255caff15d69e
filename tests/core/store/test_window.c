/*
 * unetmm: windows of automatic update and proxy pages, packet by packet
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "peer.h"
#include "reliable/reliable.h"

#define NS      1000
#define LAST    UNETMM_WIRE_F_LAST

/* ---- The driver's and the process's side -------------------------------- */

static struct unetmm_cmd_window window_cmd(uint32_t page, uint32_t npages,
                                           uint16_t bytes)
{
    return (struct unetmm_cmd_window) {
        .page = page, .npages = npages, .offset = 8192, .import = PEER_IMPORT,
        .combine_bytes = bytes, .combine_ns = bytes ? NS : 0,
    };
}

static uint8_t window_set(FakeEp *ep, struct unetmm_cmd_window window)
{
    struct unetmm_cmd cmd = { .opcode = UNETMM_CMD_WINDOW_SET, .ep = ep->id };

    cmd.window = window;
    return fake_command(ep->driver, cmd, NULL);
}

static uint8_t window_clear(FakeEp *ep, uint32_t page, uint32_t npages)
{
    struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_WINDOW_CLEAR,
        .window = { .page = page, .npages = npages },
    };

    return fake_command(ep->driver, cmd, NULL);
}

static uint8_t proxy_set(FakeEp *ep, struct unetmm_cmd_proxy proxy)
{
    struct unetmm_cmd cmd = { .opcode = UNETMM_CMD_PROXY_SET, .ep = ep->id };

    cmd.proxy = proxy;
    return fake_command(ep->driver, cmd, NULL);
}

/* As the shell does it: the memory first. */
static void store(Fix *f, uint32_t at, uint64_t value, unsigned bytes)
{
    uint8_t data[8];

    value = cpu_to_le64(value);
    memcpy(data, &value, sizeof(data));
    memcpy(f->h.windows + at, data, bytes);
    fake_may_migrate(&f->h);
    unetmm_core_store(&f->h.core, at, data, bytes);
}

/* The next frame is a packet of stores. */
static void expect_stored(Fix *f, uint32_t psn, uint64_t offset,
                          const void *data, uint32_t len)
{
    PeerFrame p = peer_expect(f, UNETMM_WIRE_WRITE, psn);

    assert_int_equal(p.h.handle, PEER_FAR);
    assert_int_equal(p.h.offset, PEER_FAR_KEY);
    assert_int_equal(p.h.remote, offset);
    assert_true(p.h.flags & LAST);
    assert_int_equal(p.h.len, len);
    assert_memory_equal(p.data, data, len);
}

static void expect_word(Fix *f, uint32_t psn, uint64_t offset, uint64_t value,
                        uint32_t len)
{
    value = cpu_to_le64(value);
    expect_stored(f, psn, offset, &value, len);
}

static void window_open(Fix *f, uint16_t combine)
{
    peer_open(f);
    assert_int_equal(window_set(&f->a, window_cmd(1, 2, combine)),
                     UNETMM_CS_OK);
}

/* ---- Commands ----------------------------------------------------------- */

#define BAD(change, why) do { \
        struct unetmm_cmd_window w = window_cmd(1, 2, 64); \
        FakeEp who = f->a; \
        change; \
        assert_int_equal(window_set(&who, w), why); \
    } while (0)

TEST_OF(test_commands, Fix *f, fix_test)
{
    peer_open(f);
    BAD(who.id = 3, UNETMM_CS_BAD_ID);
    BAD(who.id = 0xffff, UNETMM_CS_BAD_ID);
    BAD(who = f->b, UNETMM_CS_BAD_ID);
    BAD(w.import = 0, UNETMM_CS_BAD_ID);
    BAD(w.import = 0xffff, UNETMM_CS_BAD_ID);
    BAD(w.npages = 0, UNETMM_CS_BAD_ARG);
    BAD(w.npages = 4, UNETMM_CS_BAD_ARG);
    BAD(w.npages = ~0u, UNETMM_CS_BAD_ARG);
    BAD(w.page = 4, UNETMM_CS_BAD_ARG);
    BAD(w.page = ~0u, UNETMM_CS_BAD_ARG);
    BAD(w.combine_bytes = UNETMM_MAX_INLINE + 1, UNETMM_CS_BAD_ARG);
    BAD(w.combine_bytes = 0, UNETMM_CS_BAD_ARG);
    BAD(w.combine_ns = 0, UNETMM_CS_BAD_ARG);
    BAD(w.combine_ns = UNETMM_MAX_COMBINE_NS + 1, UNETMM_CS_BAD_ARG);
    BAD(w.offset = PEER_FAR_LENGTH - 8191, UNETMM_CS_BAD_ARG);
    BAD(w.offset = UINT64_MAX - 8191, UNETMM_CS_BAD_ARG);
    for (unsigned i = 0; i < 4; i++) {
        BAD(w.rsvd[i] = 1, UNETMM_CS_BAD_ARG);
    }
    BAD((w.combine_bytes = UNETMM_MAX_INLINE,
         w.combine_ns = UNETMM_MAX_COMBINE_NS), UNETMM_CS_OK);
    assert_int_equal(window_clear(&f->a, 1, 2), UNETMM_CS_OK);
    BAD(w.offset = PEER_FAR_LENGTH - 8192, UNETMM_CS_OK);
    BAD((w.page = 0, w.npages = 2), UNETMM_CS_EXISTS);
    BAD((w.page = 3, w.npages = 1), UNETMM_CS_EXISTS);
    assert_int_equal(window_clear(&f->a, 1, 4), UNETMM_CS_BAD_ARG);
    assert_int_equal(window_clear(&f->a, 1, 2), UNETMM_CS_OK);
    assert_int_equal(window_clear(&f->a, 0, 4), UNETMM_CS_OK);
    fake_import(&f->a, 0, PEER_CH, 1, 1, 8192, UNETMM_RIGHT_READ);
    BAD((w.import = 0, w.offset = 0), UNETMM_CS_BAD_ARG);
}

/* Bytes that one process has left there are not shown to the next. */
TEST_OF(test_zeros, Fix *f, fix_test)
{
    memset(f->h.windows, 0x5a, sizeof(f->h.windows));
    window_open(f, 0);
    assert_int_equal(f->h.windows[FAKE_PAGE - 1], 0x5a);
    for (unsigned i = FAKE_PAGE; i < 3 * FAKE_PAGE; i++) {
        assert_int_equal(f->h.windows[i], 0);
    }
    assert_int_equal(f->h.windows[3 * FAKE_PAGE], 0x5a);
}

/* ---- Stores ------------------------------------------------------------- */

TEST_OF(test_stores, Fix *f, fix_test)
{
    window_open(f, 0);
    store(f, FAKE_PAGE, 0x11, 1);
    store(f, FAKE_PAGE + 1, 0x2222, 2);
    store(f, FAKE_PAGE + 8, 0x0807060504030201, 8);
    expect_word(f, PEER_MY, 8192, 0x11, 1);
    expect_word(f, PEER_MY + 1, 8193, 0x2222, 2);
    expect_word(f, PEER_MY + 2, 8200, 0x0807060504030201, 8);
    /* Over the boundary of two pages: two packets. */
    store(f, 2 * FAKE_PAGE - 3, 0x0807060504030201, 8);
    expect_word(f, PEER_MY + 3, 8192 + 4093, 0x030201, 3);
    expect_word(f, PEER_MY + 4, 8192 + 4096, 0x0807060504, 5);
    /* Of no window, and half of one. */
    expect_count(&f->h, drop_window, 1, store(f, 0, 1, 4));
    expect_count(&f->h, drop_window, 1, store(f, FAKE_PAGE - 2, 0x87654321, 4));
    expect_word(f, PEER_MY + 5, 8192, 0x8765, 2);
    expect_count(&f->h, drop_window, 1,
                 unetmm_core_store(&f->h.core, 4 * FAKE_PAGE,
                                   (const uint8_t *)"12345678", 8));
    expect_count(&f->h, drop_window, 1,
                 unetmm_core_store(&f->h.core, ~0u - 1,
                                   (const uint8_t *)"12", 2));
    peer_silence(f);
    peer_ack(f, PEER_MY + 6, 0);
    fake_expect_none(&f->a);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_window_packets), 6);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_window_stores), 6);
}

TEST_OF(test_combined, Fix *f, fix_test)
{
    window_open(f, 16);
    store(f, FAKE_PAGE, 0x0807060504030201, 8);
    store(f, FAKE_PAGE + 8, 0x0c0b0a09, 4);
    peer_silence(f);
    /* Full. */
    store(f, FAKE_PAGE + 12, 0x100f0e0d, 4);
    expect_stored(f, PEER_MY, 8192,
                  "\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17\20", 16);
    /* One that does not follow, and one for which there is no room. */
    store(f, FAKE_PAGE + 100, 0xaa, 1);
    store(f, FAKE_PAGE + 102, 0xbbbb, 2);
    expect_word(f, PEER_MY + 1, 8192 + 100, 0xaa, 1);
    for (unsigned i = 0; i < 6; i++) {
        store(f, FAKE_PAGE + 104 + 2 * i, 0xc0c0 + i, 2);
    }
    peer_silence(f);
    store(f, FAKE_PAGE + 116, 0x1122334455667788, 8);
    assert_int_equal(peer_expect(f, UNETMM_WIRE_WRITE, PEER_MY + 2).h.len, 14);
    peer_silence(f);
    /* Time. */
    fake_advance(&f->h, NS - 1);
    peer_silence(f);
    fake_advance(&f->h, 1);
    expect_word(f, PEER_MY + 3, 8192 + 116, 0x1122334455667788, 8);
    /* The same place again is another packet: nothing is left out. */
    store(f, FAKE_PAGE, 1, 4);
    store(f, FAKE_PAGE, 2, 4);
    expect_word(f, PEER_MY + 4, 8192, 1, 4);
    fake_advance(&f->h, NS);
    expect_word(f, PEER_MY + 5, 8192, 2, 4);
    peer_silence(f);
    peer_ack(f, PEER_MY + 6, 0);
    fake_expect_none(&f->a);
}

/* No packet has bytes of two pages of the window. */
TEST_OF(test_combined_in_a_page, Fix *f, fix_test)
{
    window_open(f, 16);
    store(f, 2 * FAKE_PAGE - 4, 0x04030201, 4);
    peer_silence(f);
    store(f, 2 * FAKE_PAGE, 0x08070605, 4);
    expect_word(f, PEER_MY, 8192 + FAKE_PAGE - 4, 0x04030201, 4);
    peer_silence(f);
    /* One store over the edge is in two packets as well. */
    store(f, 2 * FAKE_PAGE + 4, 0x0c0b0a09, 4);
    fake_advance(&f->h, NS);
    expect_word(f, PEER_MY + 1, 8192 + FAKE_PAGE, 0x0c0b0a0908070605, 8);
    store(f, 2 * FAKE_PAGE - 3, 0x0807060504030201, 8);
    expect_stored(f, PEER_MY + 2, 8192 + FAKE_PAGE - 3, "\1\2\3", 3);
    fake_advance(&f->h, NS);
    expect_stored(f, PEER_MY + 3, 8192 + FAKE_PAGE, "\4\5\6\7\10", 5);
    peer_silence(f);
}

/* Windows of two channels, of which one waits longer than the other. */
TEST(test_two_times, fix_test)
{
    const struct unetmm_cmd_channel how = {
        .mtu = PEER_MTU, .send_psn = 1, .recv_psn = 1, .retries = 3,
        .timeout_us = 1000, .not_ready_retries = 4,
    };
    Fix *f = *state;
    struct unetmm_cmd_window w = window_cmd(3, 1, 64);
    struct unetmm_frame h;

    window_open(f, 64);
    assert_int_equal(fake_channel_rel(&f->a, PEER_CH + 1, fake_peer_mac,
                                      PEER_EP, PEER_CH + 1, &how),
                     UNETMM_CS_OK);
    assert_int_equal(fake_import(&f->a, PEER_IMPORT + 1, PEER_CH + 1, 5, 6,
                                 100000, UNETMM_RIGHT_WRITE), UNETMM_CS_OK);
    w.import = PEER_IMPORT + 1;
    w.combine_ns = 3 * NS;
    assert_int_equal(window_set(&f->a, w), UNETMM_CS_OK);
    store(f, 3 * FAKE_PAGE, 1, 8);
    store(f, FAKE_PAGE, 2, 8);
    fake_advance(&f->h, NS - 1);
    peer_silence(f);
    fake_advance(&f->h, 1);
    expect_word(f, PEER_MY, 8192, 2, 8);
    fake_advance(&f->h, 2 * NS - 1);
    peer_silence(f);
    fake_advance(&f->h, 1);
    assert_int_equal(f->h.wire->len, 1);
    memcpy(&h, fake_wire_at(&f->h, 0)->data, sizeof(h));
    unetmm_le_frame(&h);
    assert_int_equal(h.opcode, UNETMM_WIRE_WRITE);
    assert_int_equal(h.src_channel, PEER_CH + 1);
    assert_int_equal(h.handle, 5);
    assert_int_equal(f->h.core.store->updates, 0);
}

/* A posted write comes behind earlier stores, and before later ones. */
TEST_OF(test_order, Fix *f, fix_test)
{
    window_open(f, 64);
    store(f, FAKE_PAGE, 1, 8);
    peer_post(f, peer_sqe(UNETMM_OP_WRITE, 0, 10, 0, 7));
    store(f, FAKE_PAGE + 8, 2, 8);
    expect_word(f, PEER_MY, 8192, 1, 8);
    assert_int_equal(peer_expect(f, UNETMM_WIRE_WRITE, PEER_MY + 1).h.len, 10);
    peer_silence(f);
    fake_advance(&f->h, NS);
    expect_word(f, PEER_MY + 2, 8200, 2, 8);
    peer_ack(f, PEER_MY + 3, 0);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 7);
    fake_expect_none(&f->a);
}

static struct unetmm_sqe fence(uint64_t cookie)
{
    return (struct unetmm_sqe) { .opcode = UNETMM_OP_FENCE,
                                 .channel = PEER_CH, .cookie = cookie };
}

TEST_OF(test_fence, Fix *f, fix_test)
{
    struct unetmm_sqe bad;

    window_open(f, 64);
    store(f, FAKE_PAGE, 1, 8);
    peer_post(f, fence(11));
    expect_word(f, PEER_MY, 8192, 1, 8);
    assert_int_equal(peer_expect(f, UNETMM_WIRE_VOID, PEER_MY + 1).h.len, 0);
    peer_ack(f, PEER_MY + 1, 0);
    fake_expect_none(&f->a);
    peer_ack(f, PEER_MY + 2, 0);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 11);
#define REFUSED(change, why) do { \
        bad = fence(12); \
        change; \
        peer_post(f, bad); \
        fake_expect(&f->a, UNETMM_CQE_SENT, why, 12); \
    } while (0)
    REFUSED(bad.handle = 1, UNETMM_ST_BAD_DESC);
    REFUSED(bad.remote = 1, UNETMM_ST_BAD_DESC);
    REFUSED(bad.imm = 1, UNETMM_ST_BAD_DESC);
    REFUSED(bad.nsegs = 1, UNETMM_ST_BAD_DESC);
    REFUSED(bad.flags = UNETMM_SQE_F_INLINE, UNETMM_ST_BAD_DESC);
    REFUSED(bad.flags = UNETMM_SQE_F_NOTIFY, UNETMM_ST_BAD_DESC);
    REFUSED(bad.channel = FIX_WIRE, UNETMM_ST_BAD_CHANNEL);
    peer_silence(f);
}

/* ---- More than the channel takes ---------------------------------------- */

TEST_OF(test_queued, Fix *f, fix_test)
{
    unsigned n = UNETMM_REL_MSGS + 20;

    window_open(f, 0);
    for (unsigned i = 0; i < n; i++) {
        store(f, FAKE_PAGE + 8 * i, i, 8);
    }
    assert_int_equal(f->h.core.store->updates, 20);
    peer_post(f, fence(5));
    for (unsigned i = 0; i < UNETMM_REL_MSGS; i++) {
        expect_word(f, PEER_MY + i, 8192 + 8 * i, i, 8);
    }
    peer_silence(f);
    fake_may_migrate(&f->h);
    peer_ack(f, PEER_MY + 3, 0);
    for (unsigned i = UNETMM_REL_MSGS; i < UNETMM_REL_MSGS + 3; i++) {
        expect_word(f, PEER_MY + i, 8192 + 8 * i, i, 8);
    }
    peer_silence(f);
    peer_ack(f, PEER_MY + UNETMM_REL_MSGS + 3, 0);
    for (unsigned i = UNETMM_REL_MSGS + 3; i < n; i++) {
        expect_word(f, PEER_MY + i, 8192 + 8 * i, i, 8);
    }
    peer_expect(f, UNETMM_WIRE_VOID, PEER_MY + n);
    fake_expect_none(&f->a);
    peer_ack(f, PEER_MY + n + 1, 0);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 5);
    assert_int_equal(f->h.core.store->updates, 0);
}

/* A packet of stores has a store, and no more than a packet may have. */
TEST(test_store_lengths_saved, fix_test)
{
    static const uint16_t lens[] = { 1, UNETMM_MAX_INLINE, 0,
                                     UNETMM_MAX_INLINE + 1, UINT16_MAX };
    Fix *f = *state;
    UnetmmUpdate *u;

    window_open(f, 0);
    for (unsigned i = 0; i < UNETMM_REL_MSGS + 1; i++) {
        store(f, FAKE_PAGE + 8 * i, i, 8);
    }
    u = f->h.core.eps[1].channels[PEER_CH].rel->stores.first;
    for (unsigned i = 0; i < G_N_ELEMENTS(lens); i++) {
        g_autofree UnetmmUpdate *lie = g_malloc0(sizeof(*lie) + UINT16_MAX);
        g_autofree char *why = NULL;
        GByteArray *saved;
        FakeHost other;

        *lie = *u;
        lie->len = lens[i];
        f->h.core.eps[1].channels[PEER_CH].rel->stores.first = lie;
        saved = unetmm_core_save(&f->h.core);
        f->h.core.eps[1].channels[PEER_CH].rel->stores.first = u;
        fake_host_init(&other, &f->h.core.params);
        assert_int_equal(unetmm_core_load(&other.core, saved->data, saved->len,
                                          &why), i < 2);
        assert_true(i < 2 || strstr(why, "has no store, or too many"));
        fake_host_free(&other);
        g_byte_array_unref(saved);
    }
}

/* One more packet waits than the card has let in. */
static void add_waiting(Fix *f, UnetmmStores *s)
{
    UnetmmUpdate *more = g_memdup2(s->last, sizeof(*more));

    s->last->next = more;
    s->last = more;
    f->h.core.store->updates++;
    f->h.core.store->shared++;
    f->h.core.eps[s->ep].updates_shared++;
}

/*
 * A stream with as many packets as there are places is true, with one more it
 * lies.  Cards without shares have let one channel have them all.
 */
TEST_OF(test_queue_saved, Fix *f, fix_test)
{
    unsigned most = f->h.core.params.window_queue + f->h.core.params.reliable;
    UnetmmStores *s;

    window_open(f, 0);
    for (unsigned i = 0; i < UNETMM_REL_MSGS + 1; i++) {
        store(f, FAKE_PAGE + 8 * i, i, 8);
    }
    s = &f->h.core.eps[1].channels[PEER_CH].rel->stores;
    while (f->h.core.store->updates < most) {
        add_waiting(f, s);
    }
    for (unsigned i = 0; i < 2; i++) {
        GByteArray *saved = unetmm_core_save(&f->h.core);
        g_autofree char *why = NULL;
        FakeHost other;

        fake_host_init(&other, &f->h.core.params);
        assert_int_equal(unetmm_core_load(&other.core, saved->data, saved->len,
                                          &why), !i);
        assert_true(!i || strstr(why, "stores.updates is 81"));
        assert_int_equal(other.core.store->updates, i ? 0 : most);
        fake_check_counts(&other.core);
        fake_host_free(&other);
        g_byte_array_unref(saved);
        add_waiting(f, s);
    }
}

/* The store that finds no room ends the channel, and says so. */
TEST_OF(test_overrun, Fix *f, fix_test)
{
    /* Its own place, and half of the shared ones */
    unsigned n = UNETMM_REL_MSGS + 1 + f->h.core.params.window_queue / 2;

    window_open(f, 0);
    for (unsigned i = 0; i < n; i++) {
        store(f, FAKE_PAGE + 8 * i, i, 8);
    }
    fake_expect_none(&f->a);
    fake_wire_clear(&f->h);
    expect_count(&f->h, drop_window, 34,
                 store(f, FAKE_PAGE + 8 * n, n, 8));
    assert_int_equal(f->h.core.store->updates, 0);
    fake_ring_bell(&f->a);
    fake_expect(&f->a, UNETMM_CQE_UPDATE, UNETMM_ST_OVERRUN, 0);
    fake_expect_none(&f->a);
    peer_expect_ack(f, PEER_YOURS, 0, UNETMM_ACK_FAILED, UNETMM_WHY_CHANNEL);
    expect_count(&f->h, drop_window, 1, store(f, FAKE_PAGE, 1, 1));
    peer_silence(f);
}

/* ---- Shares of the places ----------------------------------------------- */

static const struct unetmm_cmd_channel plain = {
    .mtu = PEER_MTU, .retries = 1, .timeout_us = PEER_US,
};

/* One more channel of the endpoint, with its number, and a page that goes there. */
static void one_more(FakeEp *ep, uint16_t channel, uint32_t page,
                     uint16_t combine)
{
    struct unetmm_cmd_window w = window_cmd(page, 1, combine);

    w.import = channel;
    w.offset = 0;
    assert_int_equal(fake_channel_rel(ep, channel, fake_peer_mac, PEER_EP,
                                      channel, &plain), UNETMM_CS_OK);
    assert_int_equal(fake_import(ep, channel, channel, 5, 6, 100000,
                                 UNETMM_RIGHT_WRITE), UNETMM_CS_OK);
    assert_int_equal(window_set(ep, w), UNETMM_CS_OK);
}

static bool channel_well(Fix *f, const FakeEp *ep, uint16_t channel)
{
    return f->h.core.eps[ep->id].channels[channel].rel->state ==
           UNETMM_REL_OPEN;
}

/* Stores on, as far as the channel lives; so many have been taken. */
static unsigned store_until_end(Fix *f, const FakeEp *ep, uint16_t channel,
                                uint32_t page)
{
    unsigned n = 0;

    for (;;) {
        assert_true(n < 500);
        store(f, page * FAKE_PAGE + 8 * n, n, 8);
        if (!channel_well(f, ep, channel)) {
            return n;
        }
        n++;
    }
}

/* The stores of a wait for ever; b has half of the places that a leaves. */
TEST_OF(test_shares, Fix *f, fix_test)
{
    unsigned half = 32;

    peer_open(f);
    one_more(&f->a, 6, 0, 0);
    one_more(&f->b, 6, 1, 0);
    one_more(&f->b, 7, 2, 0);
    for (unsigned i = 0; i < UNETMM_REL_MSGS + 1 + half; i++) {
        store(f, 8 * i, i, 8);
    }
    assert_int_equal(f->h.core.store->updates, 1 + half);
    for (unsigned i = 0; i < UNETMM_REL_MSGS + 1 + half / 4; i++) {
        store(f, FAKE_PAGE + 8 * i, i, 8);
    }
    /* The endpoint has its share once, not for each channel. */
    assert_int_equal(store_until_end(f, &f->b, 7, 2),
                     UNETMM_REL_MSGS + 1 + half / 4);
    assert_int_equal(store_until_end(f, &f->b, 6, 1), half / 4);
    assert_int_equal(store_until_end(f, &f->a, 6, 0), 0);
    assert_int_equal(f->h.core.store->shared, 0);
}

static void one_place(UnetmmParams *p)
{
    p->window_queue = 1;
}

/* All shared places are taken: the next process's stores go at once. */
TEST_OF(test_idle_channel, Fix *f, fix_test_with, one_place)
{
    peer_open(f);
    one_more(&f->a, 6, 0, 0);
    one_more(&f->b, 6, 1, 0);
    one_more(&f->b, 7, 2, 64);
    for (unsigned i = 0; i < UNETMM_REL_MSGS + 2; i++) {
        store(f, 8 * i, i, 8);
    }
    assert_int_equal(f->h.core.store->shared, 1);
    /* Those that grow: each waits in the channel's own place in its turn. */
    for (unsigned i = 0; i < 8; i++) {
        store(f, 2 * FAKE_PAGE + 16 * i, i, 8);
        assert_true(channel_well(f, &f->b, 7));
    }
    assert_int_equal(store_until_end(f, &f->b, 6, 1), UNETMM_REL_MSGS + 1);
    assert_true(channel_well(f, &f->a, 6));
    assert_true(channel_well(f, &f->b, 7));
}

/*
 * The oldest message is a store of an import that has been reported already:
 * another one reports the end.
 */
TEST_OF(test_overrun_blames_another, Fix *f, fix_test)
{
    struct unetmm_cmd_window w = window_cmd(0, 1, 0);

    window_open(f, 0);
    fake_import(&f->a, 7, PEER_CH, 5, 6, 100000, UNETMM_RIGHT_WRITE);
    w.import = 7;
    assert_int_equal(window_set(&f->a, w), UNETMM_CS_OK);
    store(f, FAKE_PAGE, 1, 8);
    store(f, FAKE_PAGE + 8, 2, 8);
    peer_ack_as(f, PEER_MY, 0, UNETMM_ACK_REJECTED, UNETMM_WHY_REGION);
    peer_ack(f, PEER_MY + 1, 0);
    assert_int_equal(fake_expect(&f->a, UNETMM_CQE_UPDATE, UNETMM_ST_REVOKED,
                                 0).notify.region, PEER_IMPORT);
    assert_int_equal(store_until_end(f, &f->a, PEER_CH, 0),
                     UNETMM_REL_MSGS - 1 + 1 + 32);
    fake_ring_bell(&f->a);
    assert_int_equal(fake_expect(&f->a, UNETMM_CQE_UPDATE, UNETMM_ST_OVERRUN,
                                 0).notify.region, 7);
    fake_expect_none(&f->a);
}

/* No message reports the end: a completion of the channel itself does. */
TEST_OF(test_overrun_blames_none, Fix *f, fix_test)
{
    struct unetmm_cmd_window w = window_cmd(0, 1, 0);

    window_open(f, 0);
    fake_import(&f->a, 7, PEER_CH, 5, 6, 100000, UNETMM_RIGHT_WRITE);
    w.import = 7;
    assert_int_equal(window_set(&f->a, w), UNETMM_CS_OK);
    for (unsigned i = 0; i < UNETMM_REL_MSGS + 1; i++) {
        store(f, FAKE_PAGE + 8 * i, i, 8);
    }
    /* The rejected one makes room for the one that waits. */
    peer_ack_as(f, PEER_MY, 0, UNETMM_ACK_REJECTED, UNETMM_WHY_REGION);
    peer_ack(f, PEER_MY + 1, 0);
    fake_expect(&f->a, UNETMM_CQE_UPDATE, UNETMM_ST_REVOKED, 0);
    assert_int_equal(store_until_end(f, &f->a, PEER_CH, 0), 1 + 32);
    fake_ring_bell(&f->a);
    assert_int_equal(fake_expect(&f->a, UNETMM_CQE_CLOSED, UNETMM_ST_OVERRUN,
                                 0).channel, PEER_CH);
    fake_expect_none(&f->a);
}

/* ---- Ends --------------------------------------------------------------- */

/* In the next completion: as it is in memory, whatever machine this is. */
static void expect_in_memory(Fix *f, size_t at, uint64_t value, unsigned bytes)
{
    uint32_t slot = f->a.cq_cons & ((1u << f->a.cq_log2) - 1);
    uint8_t raw[8];

    fake_read(&f->h, f->a.cq + slot * sizeof(struct unetmm_cqe) + at, raw,
              bytes);
    for (unsigned i = 0; i < bytes; i++) {
        assert_int_equal(raw[i], (uint8_t)(value >> 8 * i));
    }
}

TEST_OF(test_rejected, Fix *f, fix_test)
{
    struct unetmm_cqe cqe;

    window_open(f, 0);
    store(f, FAKE_PAGE + 40, 1, 8);
    store(f, FAKE_PAGE + 48, 2, 8);
    fake_wire_clear(&f->h);
    peer_ack_as(f, PEER_MY, 0, UNETMM_ACK_REJECTED, UNETMM_WHY_REGION);
    peer_expect(f, UNETMM_WIRE_VOID, PEER_MY);
    peer_ack_as(f, PEER_MY + 1, 0, UNETMM_ACK_REJECTED, UNETMM_WHY_REGION);
    peer_expect(f, UNETMM_WIRE_VOID, PEER_MY + 1);
    peer_ack(f, PEER_MY + 2, 0);
    expect_in_memory(f, offsetof(struct unetmm_cqe, notify.offset), 8192 + 40,
                     8);
    expect_in_memory(f, offsetof(struct unetmm_cqe, notify.region),
                     PEER_IMPORT, 4);
    cqe = fake_expect(&f->a, UNETMM_CQE_UPDATE, UNETMM_ST_REVOKED, 0);
    assert_int_equal(cqe.notify.offset, 8192 + 40);
    assert_int_equal(cqe.notify.region, PEER_IMPORT);
    assert_int_equal(cqe.channel, PEER_CH);
    fake_expect_none(&f->a);
    /* The window is no more; the channel is. */
    expect_count(&f->h, drop_window, 1, store(f, FAKE_PAGE, 1, 1));
    peer_silence(f);
    peer_post(f, fence(3));
    peer_expect(f, UNETMM_WIRE_VOID, PEER_MY + 2);
    peer_ack(f, PEER_MY + 3, 0);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 3);
    /* Another import of that number is another one. */
    assert_int_equal(fake_import_clear(&f->a, PEER_IMPORT), UNETMM_CS_OK);
    fake_import(&f->a, PEER_IMPORT, PEER_CH, 5, 6, 100000, 1);
    assert_int_equal(window_set(&f->a, window_cmd(0, 1, 0)), UNETMM_CS_OK);
    store(f, 8, 3, 4);
    assert_int_equal(peer_expect(f, UNETMM_WIRE_WRITE, PEER_MY + 3).h.handle,
                     5);
}

/* Stores before the end of a window, or of its import, still go. */
TEST_OF(test_cleared, Fix *f, fix_test)
{
    window_open(f, 64);
    store(f, FAKE_PAGE, 1, 8);
    assert_int_equal(window_clear(&f->a, 1, 2), UNETMM_CS_OK);
    expect_count(&f->h, drop_window, 1, store(f, FAKE_PAGE + 8, 2, 8));
    fake_advance(&f->h, NS);
    expect_word(f, PEER_MY, 8192, 1, 8);
    window_set(&f->a, window_cmd(1, 2, 64));
    store(f, FAKE_PAGE, 3, 8);
    assert_int_equal(fake_import_clear(&f->a, PEER_IMPORT), UNETMM_CS_OK);
    fake_import(&f->a, PEER_IMPORT, PEER_CH, 5, 6, 100000, 1);
    expect_count(&f->h, drop_window, 1, store(f, FAKE_PAGE + 8, 4, 8));
    fake_advance(&f->h, NS);
    expect_word(f, PEER_MY + 1, 8192, 3, 8);
    peer_silence(f);
}

TEST_OF(test_channel_cleared, Fix *f, fix_test)
{
    struct unetmm_cmd cmd = { .opcode = UNETMM_CMD_CHANNEL_CLEAR, .ep = 1,
                              .channel.channel = PEER_CH };

    window_open(f, 64);
    store(f, FAKE_PAGE, 1, 8);
    expect_count(&f->h, drop_window, 1, fake_command(&f->d, cmd, NULL));
    expect_count(&f->h, drop_window, 1, store(f, FAKE_PAGE, 1, 8));
    fake_advance(&f->h, NS);
    peer_silence(f);
    fake_expect_none(&f->a);
}

TEST_OF(test_endpoint_closed, Fix *f, fix_test)
{
    window_open(f, 64);
    proxy_set(&f->a, (struct unetmm_cmd_proxy) {
        .page = 0, .npages = 1, .at = PEER_PAGE(0),
        .kind = UNETMM_PROXY_FROM });
    store(f, FAKE_PAGE, 1, 8);
    assert_int_equal(fake_ep_destroy(&f->a), UNETMM_CS_OK);
    assert_int_equal(f->h.core.store->updates, 0);
    expect_count(&f->h, drop_window, 1, store(f, FAKE_PAGE, 1, 8));
    for (unsigned i = 0; i < FAKE_WINDOWS; i++) {
        assert_false(f->h.core.store->windows[i].live);
        assert_int_equal(f->h.core.store->proxies[i].kind, 0);
    }
    fake_ep_create(&f->a);
    expect_count(&f->h, drop_window, 1, store(f, FAKE_PAGE, 1, 8));
    peer_silence(f);
}

/* ---- Proxy pages -------------------------------------------------------- */

#define TO(page_)   { .page = page_, .npages = 1, .at = 8192, \
                      .import = PEER_IMPORT, .kind = UNETMM_PROXY_TO }
#define FROM(page_, at_) { .page = page_, .npages = 1, .at = at_, \
                           .kind = UNETMM_PROXY_FROM }

static void proxy_store(Fix *f, uint64_t at, uint64_t value)
{
    unetmm_core_proxy_store(&f->h.core, at, value);
}

static uint32_t proxy_load(Fix *f, uint64_t at)
{
    uint32_t result = unetmm_core_proxy_load(&f->h.core, at);

    fake_serve(&f->d);
    return result;
}

static void proxies_open(Fix *f)
{
    struct unetmm_cmd_proxy to = TO(0), from = FROM(1, PEER_PAGE(2));

    peer_open(f);
    fake_fill(f->s1, PEER_PAGE(2), FAKE_PAGE, 9);
    assert_int_equal(proxy_set(&f->a, to), UNETMM_CS_OK);
    assert_int_equal(proxy_set(&f->a, from), UNETMM_CS_OK);
}

#define BAD_PROXY(change, why) do { \
        struct unetmm_cmd_proxy p = TO(2); \
        FakeEp who = f->a; \
        change; \
        assert_int_equal(proxy_set(&who, p), why); \
    } while (0)

TEST_OF(test_proxy_commands, Fix *f, fix_test)
{
    proxies_open(f);
    BAD_PROXY(who.id = 0, UNETMM_CS_BAD_ID);
    BAD_PROXY(who.id = 9, UNETMM_CS_BAD_ID);
    BAD_PROXY(p.import = 0, UNETMM_CS_BAD_ID);
    BAD_PROXY(p.import = 0xffff, UNETMM_CS_BAD_ID);
    BAD_PROXY(p.npages = 0, UNETMM_CS_BAD_ARG);
    BAD_PROXY(p.npages = 3, UNETMM_CS_BAD_ARG);
    BAD_PROXY(p.npages = ~0u, UNETMM_CS_BAD_ARG);
    BAD_PROXY(p.page = 4, UNETMM_CS_BAD_ARG);
    BAD_PROXY(p.at = 1, UNETMM_CS_BAD_ARG);
    BAD_PROXY(p.at = UINT64_MAX - 4095, UNETMM_CS_BAD_ARG);
    BAD_PROXY(p.at = 102400, UNETMM_CS_BAD_ARG);
    BAD_PROXY(p.kind = 0, UNETMM_CS_BAD_ARG);
    BAD_PROXY(p.kind = 3, UNETMM_CS_BAD_ARG);
    BAD_PROXY(p.kind = UNETMM_PROXY_FROM, UNETMM_CS_BAD_ARG);
    BAD_PROXY(p.rsvd[0] = 1, UNETMM_CS_BAD_ARG);
    BAD_PROXY(p.page = 1, UNETMM_CS_EXISTS);
    BAD_PROXY(p.at = 98304, UNETMM_CS_OK);
}

/* The pages of one command follow each other there, as they do here. */
TEST_OF(test_proxy_pages, Fix *f, fix_test)
{
    struct unetmm_cmd_proxy to = TO(2);

    to.npages = 2;
    proxies_open(f);
    assert_int_equal(proxy_set(&f->a, to), UNETMM_CS_OK);
    for (unsigned i = 0; i < 2; i++) {
        proxy_store(f, (2 + i) * FAKE_PAGE + 100, 8);
        assert_int_equal(proxy_load(f, FAKE_PAGE), UNETMM_START_DONE);
        assert_int_equal(peer_expect(f, UNETMM_WIRE_WRITE,
                                     PEER_MY + i).h.remote,
                         8192 + i * FAKE_PAGE + 100);
    }
    BAD_PROXY(p.page = 3, UNETMM_CS_EXISTS);
}

TEST_OF(test_start, Fix *f, fix_test)
{
    PeerFrame p;

    proxies_open(f);
    proxy_store(f, 100, 300);
    assert_int_equal(proxy_load(f, FAKE_PAGE + 20), UNETMM_START_DONE);
    p = peer_expect(f, UNETMM_WIRE_WRITE, PEER_MY);
    assert_int_equal(p.h.remote, 8292);
    assert_int_equal(p.h.handle, PEER_FAR);
    assert_int_equal(p.h.offset, PEER_FAR_KEY);
    assert_int_equal(p.h.len, 300);
    for (unsigned i = 0; i < 300; i++) {
        assert_int_equal(p.data[i], fake_pattern(9, 20 + i));
    }
    peer_ack(f, PEER_MY + 1, 0);
    fake_expect_none(&f->a);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_proxy_starts), 1);
}

/* Whatever comes between the two references, there is no transfer. */
TEST_OF(test_split, Fix *f, fix_test)
{
    struct unetmm_cmd_proxy theirs = FROM(2, PEER_PAGE(1));

    proxies_open(f);
    assert_int_equal(proxy_set(&f->b, theirs), UNETMM_CS_OK);
    assert_int_equal(proxy_load(f, FAKE_PAGE), UNETMM_START_SPLIT);
    proxy_store(f, 0, 8);
    fake_set_reg(&f->h, UNETMM_REG_PROXY_ABORT, 0);
    assert_int_equal(proxy_load(f, FAKE_PAGE), UNETMM_START_SPLIT);
    /* Another endpoint's load takes the store away, and gets nothing. */
    proxy_store(f, 0, 8);
    assert_int_equal(proxy_load(f, 2 * FAKE_PAGE), UNETMM_START_SPLIT);
    assert_int_equal(proxy_load(f, FAKE_PAGE), UNETMM_START_SPLIT);
    /* A load from a page without a source, a store without a destination. */
    proxy_store(f, 0, 8);
    assert_int_equal(proxy_load(f, 0), UNETMM_START_SPLIT);
    assert_int_equal(proxy_load(f, FAKE_PAGE), UNETMM_START_SPLIT);
    proxy_store(f, 0, 8);
    expect_count(&f->h, err_doorbell, 1, proxy_store(f, FAKE_PAGE, 8));
    assert_int_equal(proxy_load(f, FAKE_PAGE), UNETMM_START_SPLIT);
    proxy_store(f, 0, 8);
    expect_count(&f->h, err_doorbell, 1, proxy_store(f, 1ull << 40, 8));
    assert_int_equal(proxy_load(f, 1ull << 40), UNETMM_START_SPLIT);
    assert_int_equal(proxy_load(f, FAKE_PAGE), UNETMM_START_SPLIT);
    proxy_store(f, 0, 8);
    fake_import_clear(&f->a, PEER_IMPORT);
    assert_int_equal(proxy_load(f, FAKE_PAGE), UNETMM_START_SPLIT);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_proxy_splits), 10);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_proxy_refusals), 0);
    peer_silence(f);
}

TEST_OF(test_start_lengths, Fix *f, fix_test)
{
    static const struct {
        uint64_t to, from, len;
        uint32_t result;
    } starts[] = {
        { 0, 0, 0, UNETMM_START_REFUSED },
        { 0, 0, 4097, UNETMM_START_REFUSED },
        { 1, 0, 4096, UNETMM_START_REFUSED },
        { 0, 1, 4096, UNETMM_START_REFUSED },
        { 0, 0, UINT64_MAX, UNETMM_START_REFUSED },
        { 0, 0, 1ull << 32, UNETMM_START_REFUSED },
        { 4095, 4095, 2, UNETMM_START_REFUSED },
        { 4095, 4095, 1, UNETMM_START_DONE },
        { 0, 0, 4096, UNETMM_START_DONE },
    };

    proxies_open(f);
    for (unsigned i = 0; i < G_N_ELEMENTS(starts); i++) {
        proxy_store(f, starts[i].to, starts[i].len);
        assert_int_equal(proxy_load(f, FAKE_PAGE + starts[i].from),
                         starts[i].result);
    }
}

/* The end of the import may be in the page. */
TEST_OF(test_start_end, Fix *f, fix_test)
{
    struct unetmm_cmd_proxy to = TO(2);
    uint32_t end = PEER_FAR_LENGTH - 98304;

    proxies_open(f);
    to.at = 98304;
    assert_int_equal(proxy_set(&f->a, to), UNETMM_CS_OK);
    proxy_store(f, 2 * FAKE_PAGE, end + 1);
    assert_int_equal(proxy_load(f, FAKE_PAGE), UNETMM_START_REFUSED);
    proxy_store(f, 2 * FAKE_PAGE + end, 1);
    assert_int_equal(proxy_load(f, FAKE_PAGE), UNETMM_START_REFUSED);
    peer_silence(f);
    proxy_store(f, 2 * FAKE_PAGE, end);
    assert_int_equal(proxy_load(f, FAKE_PAGE), UNETMM_START_DONE);
}

TEST_OF(test_start_busy, Fix *f, fix_test)
{
    proxies_open(f);
    for (unsigned i = 0; i < UNETMM_REL_MSGS; i++) {
        proxy_store(f, 0, 8);
        assert_int_equal(proxy_load(f, FAKE_PAGE), UNETMM_START_DONE);
    }
    proxy_store(f, 0, 8);
    assert_int_equal(proxy_load(f, FAKE_PAGE), UNETMM_START_BUSY);
    peer_ack(f, PEER_MY + 1, 0);
    proxy_store(f, 0, 8);
    assert_int_equal(proxy_load(f, FAKE_PAGE), UNETMM_START_DONE);
    fake_expect_none(&f->a);
}

/* Each start is an operation of its own, and says that it has failed. */
TEST_OF(test_start_rejected, Fix *f, fix_test)
{
    proxies_open(f);
    for (unsigned i = 0; i < 2; i++) {
        proxy_store(f, 0, 8);
        assert_int_equal(proxy_load(f, FAKE_PAGE), UNETMM_START_DONE);
        peer_ack_as(f, PEER_MY + i, 0, UNETMM_ACK_REJECTED,
                    UNETMM_WHY_RIGHT);
        peer_ack(f, PEER_MY + i + 1, 0);
        fake_expect(&f->a, UNETMM_CQE_UPDATE, UNETMM_ST_REMOTE_RIGHT, 0);
    }
    fake_expect_none(&f->a);
}
