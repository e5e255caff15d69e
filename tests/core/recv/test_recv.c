/*
 * unetmm: receiving: frames cut and forged, buffers of all shapes
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fixture.h"

/* Sum of all counters that say a frame was dropped. */
static uint64_t drops(FakeHost *h)
{
    uint64_t n = 0;

    for (unsigned i = UNETMM_C_drop_no_buffer; i <= UNETMM_C_drop_reset; i++) {
        n += fake_counter(h, i);
    }
    return n + fake_counter(h, UNETMM_C_drop_runt);
}

static void one_buffer(Fix *f, uint64_t vaddr, uint32_t len, uint64_t cookie)
{
    fake_post(&f->a, vaddr, len, cookie);
    fix_settle(f);
}

static void deliver(Fix *f, uint32_t len, uint32_t n)
{
    fake_deliver(&f->h, fake_datagram(&f->a, FIX_WIRE, 11, len, n));
}

TEST_OF(test_inline, Fix *f, fix_test)
{
    for (uint32_t len = 0; len <= UNETMM_CQE_INLINE; len++) {
        struct unetmm_cqe cqe;

        deliver(f, len, len);
        cqe = fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 0);
        assert_int_equal(cqe.len, len);
        assert_int_equal(cqe.channel, FIX_WIRE);
        assert_int_equal(cqe.flags & ~UNETMM_PHASE, UNETMM_CQE_F_INLINE);
        for (uint32_t i = 0; i < UNETMM_CQE_INLINE; i++) {
            assert_int_equal(cqe.data[i], i < len ? fake_pattern(len, i) : 0);
        }
    }
    assert_int_equal(fake_ep_counter(&f->h, 1, UNETMM_C_rx_inline), 41);
    assert_int_equal(fake_ep_counter(&f->h, 1, UNETMM_C_rx_frames), 41);
    assert_int_equal(drops(&f->h), 0);
    /* One more byte needs a buffer. */
    expect_count(&f->h, drop_no_buffer, 1, deliver(f, 41, 1));
}

/* Everything but the message itself stays as it was. */
static void receive_at(Fix *f, uint64_t vaddr, uint32_t buf, uint32_t len)
{
    uint8_t *all = g_malloc(FIX_PAGES * FAKE_PAGE);
    uint8_t *now = g_malloc(FIX_PAGES * FAKE_PAGE);
    struct unetmm_cqe cqe;

    one_buffer(f, vaddr, buf, vaddr);
    fake_load(f->s1, FIX_VA, all, FIX_PAGES * FAKE_PAGE);
    deliver(f, len, len);
    cqe = fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, vaddr);
    assert_int_equal(cqe.len, len);
    assert_int_equal(cqe.flags & ~UNETMM_PHASE, 0);
    fake_check(f->s1, vaddr, len, len);
    fake_load(f->s1, FIX_VA, now, FIX_PAGES * FAKE_PAGE);
    memcpy(now + (vaddr - FIX_VA), all + (vaddr - FIX_VA), len);
    assert_memory_equal(now, all, FIX_PAGES * FAKE_PAGE);
    g_free(all);
    g_free(now);
}

TEST_OF(test_buffer_shapes, Fix *f, fix_test)
{
    static const uint32_t lens[] = { 41, 100, 4095, 4096, 4097, 8192, 9000 };

    fake_fill(f->s1, FIX_VA, FIX_PAGES * FAKE_PAGE, 999);
    for (unsigned i = 0; i < G_N_ELEMENTS(lens); i++) {
        receive_at(f, FIX_VA, lens[i], lens[i]);
        receive_at(f, FIX_VA + 1, lens[i], lens[i]);
        receive_at(f, FIX_VA + 4095, lens[i], lens[i]);
        receive_at(f, FIX_VA + 4096 - lens[i] % 4096, lens[i], lens[i]);
        receive_at(f, FIX_VA + 777, lens[i] + 3 * 4096, lens[i]);
    }
    receive_at(f, FIX_VA, 65536, 65536);
    receive_at(f, FIX_VA + 123, 65536 + 4096, 65536);
    assert_int_equal(drops(&f->h), 0);
}

TEST_OF(test_random_shapes, Fix *f, fix_test)
{
    uint64_t random = fake_seed();

    for (unsigned i = 0; i < 100; i++) {
        uint32_t buf = 41 + fake_random(&random) % 30000;
        uint32_t len = 41 + fake_random(&random) % (buf - 40);
        uint64_t at = FIX_VA + fake_random(&random) %
                      (FIX_PAGES * FAKE_PAGE - buf);

        receive_at(f, at, buf, len);
    }
}

TEST_OF(test_longer_than_buffer, Fix *f, fix_test)
{
    one_buffer(f, FIX_VA + 5, 1000, 1);
    fake_snapshot(&f->h);
    expect_count(&f->h, drop_too_long, 1, deliver(f, 1001, 1));
    fake_expect_none(&f->a);
    /* The buffer stays and takes the next. */
    deliver(f, 1000, 2);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 1);
    fake_check(f->s1, FIX_VA + 5, 1000, 2);
    /* The last byte of the memory is a buffer like others. */
    one_buffer(f, FIX_PAGE(FIX_PAGES) - 1, 1, 3);
    expect_count(&f->h, drop_too_long, 1, deliver(f, 41, 3));
}

TEST_OF(test_longer_than_mtu, Fix *f, fix_test)
{
    fake_channel(&f->a, 5, fake_peer_mac, 11, 5, 1000);
    one_buffer(f, FIX_VA, 4096, 1);
    expect_count(&f->h, drop_channel, 1, fake_deliver(
                     &f->h, fake_datagram(&f->a, 5, 11, 1001, 1)));
    fake_deliver(&f->h, fake_datagram(&f->a, 5, 11, 1000, 1));
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 1);
}

/* Free and completion queues go round many times. */
TEST_OF(test_queues_wrap, Fix *f, fix_test)
{
    for (unsigned i = 0; i < 200; i++) {
        uint64_t at = FIX_VA + i % 16 * 128;

        fake_post(&f->a, at, 128, i);
        if (i % 3 == 2 || i == 199) {
            fix_settle(f);
            for (unsigned j = i - i % 3; j <= i; j++) {
                deliver(f, 100, j);
                fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, j);
                fake_check(f->s1, FIX_VA + j % 16 * 128, 100, j);
            }
        }
    }
    assert_int_equal(fake_card(&f->a).fq_cons, 200);
    assert_int_equal(drops(&f->h), 0);
}

TEST_OF(test_buffers_posted_without_bell, Fix *f, fix_test)
{
    /* The arrival itself looks at the free queue; its page has no answer
     * yet, so this message is lost and the next is not. */
    fake_post(&f->a, FIX_VA, 100, 1);
    expect_count(&f->h, drop_asked, 0, (void)0);
    deliver(f, 50, 1);
    assert_int_equal(drops(&f->h), 1);
    fake_serve(&f->d);
    deliver(f, 50, 2);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 1);
}

TEST_OF(test_completion_queue_full, Fix *f, fix_test)
{
    one_buffer(f, FIX_VA, 100, 1);
    for (unsigned i = 0; i < 16; i++) {
        deliver(f, 8, i);
    }
    assert_int_equal(fake_card(&f->a).state,
                     UNETMM_EP_RUNNING | UNETMM_EP_CQ_BLOCKED);
    expect_count(&f->h, drop_cq_full, 1, deliver(f, 8, 99));
    expect_count(&f->h, drop_cq_full, 1, deliver(f, 50, 99));
    for (unsigned i = 0; i < 16; i++) {
        fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 0);
    }
    fake_expect_none(&f->a);
    /* The room counts without any doorbell, and the buffer is still there. */
    deliver(f, 50, 3);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 1);
    fake_check(f->s1, FIX_VA, 50, 3);
}

/* The last place belongs to a send in progress. */
TEST_OF(test_send_keeps_its_place, Fix *f, fix_test)
{
    fake_send_at(&f->a, FIX_WIRE, FIX_VA, 100, 7);
    fake_ring_bell(&f->a);
    for (unsigned i = 0; i < 15; i++) {
        deliver(f, 8, i);
    }
    expect_count(&f->h, drop_cq_full, 1, deliver(f, 8, 99));
    fake_serve(&f->d);
    for (unsigned i = 0; i < 15; i++) {
        fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 0);
    }
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 7);
}

/* ---- Frames ---- */

/* A good message with a buffer, cut after every length. */
TEST_OF(test_cut_everywhere, Fix *f, fix_test)
{
    one_buffer(f, FIX_VA, 4096, 1);
    fake_snapshot(&f->h);
    for (size_t cut = 0; cut < 200; cut++) {
        FakeFrame *frame = fake_datagram(&f->a, FIX_WIRE, 11, 136, 1);
        uint64_t before = drops(&f->h);

        frame->bytes = cut;
        /* Memory beyond the cut is not the card's to read. */
        frame = g_realloc(frame, sizeof(*frame) + MAX(cut, 1));
        fake_deliver(&f->h, frame);
        assert_int_equal(drops(&f->h), before + 1);
        fake_expect_none(&f->a);
    }
    assert_memory_equal(f->h.before, f->h.ram, FAKE_RAM_BYTES);
    deliver(f, 136, 1);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 1);
}

/* Padding after the payload is ignored. */
TEST_OF(test_padding, Fix *f, fix_test)
{
    FakeFrame *frame = fake_datagram(&f->a, FIX_WIRE, 11, 100, 1);

    one_buffer(f, FIX_VA, 4096, 1);
    frame->bytes = 64 + 100;
    fake_header(frame)->len = cpu_to_le32(50);
    fake_seal(frame);
    fake_deliver(&f->h, frame);
    assert_int_equal(fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK,
                                 1).len, 50);
    fake_check(f->s1, FIX_VA, 50, 1);
    assert_int_equal(fake_read32(&f->h, fake_vpage(f->s1, FIX_VA)->dma + 52),
                     0);
}

TEST_OF(test_too_large_frame, Fix *f, fix_test)
{
    size_t bytes = UNETMM_MAX_FRAME + 1;
    FakeFrame *frame = g_malloc0(sizeof(*frame) + bytes);
    FakeFrame *good = fake_datagram(&f->a, FIX_WIRE, 11, 100, 1);

    memcpy(frame->data, good->data, 164);
    g_free(good);
    frame->bytes = bytes;
    expect_count(&f->h, drop_malformed, 1, fake_deliver(&f->h, frame));
}

/* Offers a changed frame to a; it must be dropped for this one reason. */
#define BAD(change, seal, counter) do { \
        FakeFrame *frame = fake_datagram(&f->a, FIX_WIRE, 11, 60, 1); \
        struct unetmm_frame *h = fake_header(frame); \
        uint64_t before = drops(&f->h); \
        change; \
        if (seal) { \
            fake_seal(frame); \
        } \
        (void)h; \
        expect_count(&f->h, counter, 1, fake_deliver(&f->h, frame)); \
        assert_int_equal(drops(&f->h), before + 1); \
        fake_expect_none(&f->a); \
    } while (0)

TEST_OF(test_each_address_field, Fix *f, fix_test)
{
    one_buffer(f, FIX_VA, 4096, 1);
    for (unsigned i = 0; i < 6; i++) {
        BAD(h->dst[i] ^= 0x40, true, drop_other_mac);
        BAD(h->src[i] ^= 0x40, true, drop_channel);
    }
    BAD(memset(h->dst, 0xff, 6), true, drop_other_mac);
    BAD(h->src[0] |= 1, true, drop_malformed);
    BAD(memcpy(h->src, f->h.core.params.mac, 6), true, drop_self);
    BAD(h->ethertype[0] = 0x08, true, drop_ethertype);
    BAD(h->ethertype[1] = 0x00, true, drop_ethertype);
    BAD(h->dst_ep = cpu_to_le16(0), true, drop_no_endpoint);
    BAD(h->dst_ep = cpu_to_le16(7), true, drop_no_endpoint);
    BAD(h->dst_ep = cpu_to_le16(8), true, drop_no_endpoint);
    BAD(h->dst_ep = cpu_to_le16(0xffff), true, drop_no_endpoint);
    BAD(h->dst_ep = cpu_to_le16(2), true, drop_channel);
    BAD(h->src_ep = cpu_to_le16(12), true, drop_channel);
    BAD(h->src_ep = cpu_to_le16(0), true, drop_channel);
    BAD(h->dst_channel = cpu_to_le16(0), true, drop_channel);
    BAD(h->dst_channel = cpu_to_le16(FIX_LOCAL), true, drop_channel);
    BAD(h->dst_channel = cpu_to_le16(16), true, drop_channel);
    BAD(h->dst_channel = cpu_to_le16(0xffff), true, drop_channel);
    deliver(f, 60, 1);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 1);
}

TEST_OF(test_each_header_field, Fix *f, fix_test)
{
    one_buffer(f, FIX_VA, 4096, 1);
    BAD(h->version = 0, true, drop_malformed);
    BAD(h->version = 2, true, drop_malformed);
    for (unsigned op = 0; op < 256; op++) {
        if (op == UNETMM_WIRE_SEND || op == UNETMM_WIRE_WRITE ||
            op == UNETMM_WIRE_ANSWER || op == UNETMM_WIRE_SEND_TO) {
            BAD(h->opcode = op, true, drop_channel);
        } else if (op != UNETMM_WIRE_DATAGRAM) {
            BAD(h->opcode = op, true, drop_malformed);
        }
    }
    BAD(h->len = cpu_to_le32(61), true, drop_malformed);
    BAD(h->len = cpu_to_le32(65537), true, drop_malformed);
    BAD(h->len = cpu_to_le32(0xffffffff), true, drop_malformed);
    BAD(h->len = cpu_to_le32(0xffffffc0), true, drop_malformed);
    for (unsigned bit = 1; bit < 32; bit++) {
        BAD(h->flags = cpu_to_le32(1u << bit), true, drop_malformed);
    }
    BAD(h->psn = 1, true, drop_malformed);
    BAD(h->offset = 1, true, drop_malformed);
    BAD(h->remote = 1, true, drop_malformed);
    BAD(h->handle = 1, true, drop_malformed);
    BAD(h->imm = 1, true, drop_malformed);
    BAD(h->header_crc ^= 1, false, drop_crc);
    BAD((h->flags = cpu_to_le32(UNETMM_WIRE_F_PAYLOAD_CRC), fake_seal(frame),
         frame->data[64 + 59] ^= 1), false, drop_crc);
    /* Each single bit of the protocol's header, damaged on the way. */
    for (unsigned bit = 14 * 8; bit < 64 * 8; bit++) {
        BAD(frame->data[bit / 8] ^= 1 << bit % 8, false, drop_crc);
    }
    deliver(f, 60, 1);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 1);
}
#undef BAD

TEST_OF(test_good_payload_crc, Fix *f, fix_test)
{
    FakeFrame *frame = fake_datagram(&f->a, FIX_WIRE, 11, 30, 1);

    fake_header(frame)->flags = cpu_to_le32(UNETMM_WIRE_F_PAYLOAD_CRC);
    fake_seal(frame);
    fake_deliver(&f->h, frame);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 0);
}

TEST_OF(test_own_source_is_warned_once, Fix *f, fix_test)
{
    for (unsigned i = 0; i < 5; i++) {
        FakeFrame *frame = fake_datagram(&f->a, FIX_WIRE, 11, 30, 1);

        memcpy(fake_header(frame)->src, f->h.core.params.mac, 6);
        fake_seal(frame);
        expect_count(&f->h, drop_self, 1, fake_deliver(&f->h, frame));
    }
    assert_int_equal(f->h.warned, 1);
}

/* With one buffer, number 9, whose address is returned. */
static uint64_t control_endpoint(Fix *f, FakeSpace *s0, FakeEp *e)
{
    uint64_t in = fake_alloc(&f->h, 256, 1, FAKE_W);

    fake_ep_open(e, &f->d, 0, s0);
    fake_post(e, in, 256, 9);
    fake_ring_bell(e);
    return in;
}

TEST_OF(test_control_frames, Fix *f, fix_test)
{
    FakeSpace *s0 = fake_space(&f->d, 0, UNETMM_SOURCE_DIRECT, 0);
    FakeFrame *frame;
    struct unetmm_cqe cqe;
    FakeEp e;
    uint64_t in = control_endpoint(f, s0, &e);

    frame = fake_datagram(&e, 0, 0, 32, 4);
    expect_count(&f->h, drop_channel, 1, fake_receive(&f->h, frame));
    fake_header(frame)->opcode = UNETMM_WIRE_CONTROL;
    fake_header(frame)->src_ep = cpu_to_le16(3);
    fake_seal(frame);
    expect_count(&f->h, drop_malformed, 1, fake_receive(&f->h, frame));
    fake_header(frame)->src_ep = 0;
    fake_seal(frame);
    fake_deliver(&f->h, frame);
    cqe = fake_expect(&e, UNETMM_CQE_CONTROL, UNETMM_ST_OK, 9);
    assert_int_equal(cqe.source, unetmm_mac_to_u64(fake_peer_mac));
    assert_int_equal(cqe.channel, 0);
    fake_check(s0, in, 32, 4);
    frame = fake_datagram(&e, 0, 0, 32, 4);
    fake_header(frame)->opcode = UNETMM_WIRE_CONTROL;
    fake_seal(frame);
    expect_count(&f->h, drop_no_buffer, 1, fake_deliver(&f->h, frame));
}

/* For all stations: the control message PEERS, nothing else. */
TEST_OF(test_broadcast, Fix *f, fix_test)
{
    static const uint8_t all[6] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
    FakeSpace *s0 = fake_space(&f->d, 0, UNETMM_SOURCE_DIRECT, 0);
    FakeFrame *frame;
    struct unetmm_cqe cqe;
    uint8_t *type;
    uint32_t peers = 0;
    FakeEp e;
    uint64_t in = control_endpoint(f, s0, &e);

    while (fake_pattern(peers, 0) != UNETMM_CTL_PEERS) {
        peers++;
    }
    frame = fake_datagram(&e, 0, 0, 40, peers);
    type = frame->data + sizeof(struct unetmm_frame);
    memcpy(fake_header(frame)->dst, all, sizeof(all));
    fake_seal(frame);
    expect_count(&f->h, drop_other_mac, 1, fake_receive(&f->h, frame));
    fake_header(frame)->opcode = UNETMM_WIRE_CONTROL;
    fake_seal(frame);
    for (unsigned i = 0; i < sizeof(all); i++) {
        fake_header(frame)->dst[i] = 0x7f;
        fake_seal(frame);
        expect_count(&f->h, drop_other_mac, 1, fake_receive(&f->h, frame));
        fake_header(frame)->dst[i] = 0xff;
    }
    fake_seal(frame);
    for (unsigned i = 1; i < 256; i++) {
        *type = (uint8_t)(UNETMM_CTL_PEERS + i);
        fake_seal(frame);
        expect_count(&f->h, drop_other_mac, 1, fake_receive(&f->h, frame));
    }
    *type = UNETMM_CTL_PEERS;
    fake_seal(frame);
    /* Cut before the type, and behind it */
    expect_count(&f->h, drop_other_mac, 1,
                 unetmm_core_receive(&f->h.core, frame->data,
                                     sizeof(struct unetmm_frame)));
    expect_count(&f->h, drop_malformed, 1,
                 unetmm_core_receive(&f->h.core, frame->data,
                                     sizeof(struct unetmm_frame) + 1));
    fake_deliver(&f->h, frame);
    cqe = fake_expect(&e, UNETMM_CQE_CONTROL, UNETMM_ST_OK, 9);
    assert_int_equal(cqe.source, unetmm_mac_to_u64(fake_peer_mac));
    fake_check(s0, in, 40, peers);
}

TEST_OF(test_disabled, Fix *f, fix_test)
{
    fake_set_reg(&f->h, UNETMM_REG_CTRL, 0);
    expect_count(&f->h, drop_disabled, 1, deliver(f, 8, 1));
    fake_set_reg(&f->h, UNETMM_REG_CTRL, 1);
    deliver(f, 8, 1);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 0);
}

TEST_OF(test_buffer_memory_refused, Fix *f, fix_test)
{
    uint64_t dma;

    one_buffer(f, FIX_VA + 4000, 4000, 1);
    one_buffer(f, FIX_VA + 5 * FAKE_PAGE, 4000, 2);
    dma = fake_vpage(f->s1, FIX_VA + 4096)->dma;
    f->h.refuse_first = dma;
    f->h.refuse_last = dma + 4095;
    expect_count(&f->h, drop_dma, 1, deliver(f, 3000, 1));
    fake_expect(&f->a, UNETMM_CQE_BUFFER, UNETMM_ST_DMA, 1);
    deliver(f, 3000, 2);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 2);
    fake_check(f->s1, FIX_VA + 5 * FAKE_PAGE, 3000, 2);
}

/* A message whose completion the bus refuses is counted too. */
TEST(test_completion_memory_refused, cmocka_unit_test_teardown, fix_teardown)
{
    for (unsigned large = 0; large < 2; large++) {
        Fix *f;
        uint64_t before;

        *state = NULL;
        fix_setup(state);
        f = *state;
        one_buffer(f, FIX_VA, 4096, 1);
        f->h.refuse_first = f->a.cq;
        f->h.refuse_last = f->a.cq + 63;
        before = drops(&f->h);
        deliver(f, large ? 2000 : 8, 1);
        assert_int_equal(drops(&f->h), before + 1);
        assert_int_equal(fake_card(&f->a).state, UNETMM_EP_ERROR);
        if (!large) {
            fix_teardown(state);
        }
    }
}

/* An arrival finds a forged index as well. */
TEST_OF(test_forged_index_at_arrival, Fix *f, fix_test)
{
    fake_user_word(&f->a, offsetof(struct unetmm_ep_user, fq_prod), 99);
    expect_count(&f->h, drop_stopped, 1, deliver(f, 8, 1));
    fake_expect(&f->a, UNETMM_CQE_FAILED, UNETMM_ST_BAD_INDEX, 0);
}

/* Evictions of written pages are dirty, the others clean. */
TEST_OF(test_dirty, Fix *f, fix_test)
{
    one_buffer(f, FIX_VA, 3 * 4096, 1);
    deliver(f, 4097, 1);
    for (unsigned i = 0; i < 3; i++) {
        uint32_t id;

        assert_true(unetmm_tlb_lookup(&f->h.core.source->tlb, 1, (FIX_VA >> 12) + i,
                                      true, &id));
        assert_true(unetmm_tlb_evict_one(&f->h.core.source->tlb, id));
        assert_int_equal(fake_vpage(f->s1, FIX_VA + i * 4096)->dirty, i < 2);
    }
}

/*
 * A buffer that is skipped takes the last place: the message must not land in
 * the next one, for which no completion could be written.
 */
TEST_OF(test_skipped_takes_last_place, Fix *f, fix_test)
{
    FakeEp e;

    fake_ep_init(&e, &f->d, 3, f->s1);
    e.cq_log2 = 1;
    fake_ep_create(&e);
    fake_connect_peer(&e, FIX_WIRE, 13, FIX_MTU);
    fake_vpage(f->s1, FIX_VA)->absent = true;
    fake_post(&e, FIX_VA, 1000, 1);
    fake_post(&e, FIX_VA + FAKE_PAGE, 1000, 2);
    fake_ring_bell(&e);
    fake_serve(&f->d);
    /* One of the two places is taken by a message inside a completion. */
    fake_deliver(&f->h, fake_datagram(&e, FIX_WIRE, 13, 8, 1));
    fake_snapshot(&f->h);
    expect_count(&f->h, drop_cq_full, 1,
                 fake_deliver(&f->h, fake_datagram(&e, FIX_WIRE, 13, 500, 2)));
    assert_memory_equal(f->h.before + (fake_vpage(f->s1, FIX_VA + FAKE_PAGE)->
                                       dma - FAKE_RAM_BASE),
                        fake_ptr(&f->h, fake_vpage(f->s1, FIX_VA +
                                                   FAKE_PAGE)->dma,
                                 FAKE_PAGE), FAKE_PAGE);
    fake_expect(&e, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 0);
    fake_expect(&e, UNETMM_CQE_BUFFER, UNETMM_ST_SKIPPED, 1);
    fake_expect_none(&e);
    fake_deliver(&f->h, fake_datagram(&e, FIX_WIRE, 13, 500, 3));
    fake_expect(&e, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 2);
    fake_check(f->s1, FIX_VA + FAKE_PAGE, 500, 3);
}
