/*
 * unetmm: policy redirect: the system buffer and credits, packet by packet
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "peer.h"
#include "reliable/reliable.h"

#define ASK     UNETMM_WIRE_F_ASK
#define LAST    UNETMM_WIRE_F_LAST
#define NOTIFY  UNETMM_WIRE_F_NOTIFY
#define CREDIT  UNETMM_WIRE_F_CREDIT

#define SLOTS   8
#define CREDITS 5
#define OFFSET  1000                    /* in the region, of page 20 */

/* ---- Helpers ------------------------------------------------------------ */

static uint8_t set_channel(Fix *f, FakeEp *ep, uint16_t channel,
                           uint32_t recv_credits, uint32_t send_credits)
{
    const struct unetmm_cmd_channel how = {
        .mtu = PEER_MTU, .send_psn = PEER_MY, .recv_psn = PEER_YOURS,
        .retries = 3, .timeout_us = 1000, .not_ready_retries = 4,
        .recv_credits = recv_credits, .send_credits = send_credits,
    };

    return fake_channel_rel(ep, channel, fake_peer_mac, PEER_EP, channel,
                            &how);
}

static uint8_t clear_channel(FakeEp *ep, uint16_t channel)
{
    struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_CHANNEL_CLEAR, .ep = ep->id,
        .channel.channel = channel,
    };

    return fake_command(ep->driver, cmd, NULL);
}

/* Endpoint a again, with policy redirect. */
static void redirecting(Fix *f)
{
    assert_int_equal(fake_ep_destroy(&f->a), UNETMM_CS_OK);
    assert_int_equal(fake_sysbuf(&f->d, SLOTS, 9000), UNETMM_CS_OK);
    fake_ep_init(&f->a, &f->d, 1, f->s1);
    f->a.policy = UNETMM_POLICY_REDIRECT;
    fake_ep_create(&f->a);
    f->d.hold_slots = f->d.hold_back = true;
}

static void open_region(Fix *f)
{
    assert_int_equal(fake_region(f->s1, PEER_REGION, PEER_KEY, PEER_AT,
                                 PEER_LENGTH, UNETMM_RIGHT_ALL,
                                 UNETMM_REGION_F_NOTIFY), UNETMM_CS_OK);
}

/* All pages of the region are absent. */
static void open_all(Fix *f)
{
    redirecting(f);
    assert_int_equal(set_channel(f, &f->a, PEER_CH, CREDITS, 0),
                     UNETMM_CS_OK);
    open_region(f);
    fake_wire_clear(&f->h);
}

static void give_write(Fix *f, uint32_t n, uint32_t at, uint32_t len,
                       uint32_t flags, uint8_t byte)
{
    uint8_t data[PEER_MTU];

    memset(data, byte, sizeof(data));
    peer_give(f, (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_WRITE, .psn = PEER_YOURS + n,
        .handle = PEER_REGION, .offset = PEER_KEY, .remote = at,
        .flags = flags }, data, len);
    fake_serve(&f->d);
}

static void expect_ack_of(Fix *f, uint32_t n, uint64_t bits, uint32_t what)
{
    PeerFrame frame = peer_expect(f, UNETMM_WIRE_ACK, PEER_YOURS + n);

    assert_int_equal(frame.h.remote, bits);
    assert_int_equal(frame.h.imm, what);
    assert_int_equal(frame.h.flags, CREDIT);
    assert_int_equal(frame.h.handle, PEER_YOURS + n + CREDITS);
}

static void expect_bytes(Fix *f, uint32_t at, uint32_t len, uint8_t byte)
{
    g_autofree uint8_t *data = g_malloc(len);

    fake_load(f->s1, PEER_AT + at, data, len);
    for (uint32_t i = 0; i < len; i++) {
        assert_int_equal(data[i], byte);
    }
}

static uint32_t oldest(Fix *f)
{
    assert_true(f->d.full->len > 0);
    return g_array_index(f->d.full, uint32_t, 0);
}

static void answer_oldest(Fix *f, uint8_t status)
{
    uint32_t slot = oldest(f);

    g_array_remove_index(f->d.full, 0);
    assert_int_equal(fake_slot_done(&f->d, slot, status), UNETMM_CS_OK);
}

static UnetmmSysbuf *sysbuf(Fix *f)
{
    return f->h.core.sysbuf;
}

/* ---- Commands ----------------------------------------------------------- */

static uint8_t set_raw(Fix *f, uint64_t list, uint32_t slots, uint32_t bytes)
{
    struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_SYSBUF_SET,
        .sysbuf = { .list = list, .slots = slots, .slot_bytes = bytes },
    };

    return fake_command(&f->d, cmd, NULL);
}

TEST_OF(test_set, Fix *f, fix_test)
{
    uint64_t list = fake_alloc(&f->h, 4096, 4096, FAKE_RW);
    uint32_t bytes = UNETMM_SLOT_HEAD + f->h.core.params.user_mtu;
    uint64_t odd = cpu_to_le64(list + 4), high = cpu_to_le64(~0ull - 8);

    assert_int_equal(set_raw(f, list, FAKE_SLOTS + 1, bytes),
                     UNETMM_CS_BAD_ARG);
    assert_int_equal(set_raw(f, list, UINT32_MAX, bytes), UNETMM_CS_BAD_ARG);
    assert_int_equal(set_raw(f, list + 4, 2, bytes), UNETMM_CS_BAD_ARG);
    assert_int_equal(set_raw(f, list, 2, bytes - 1), UNETMM_CS_BAD_ARG);
    assert_int_equal(set_raw(f, FAKE_RAM_BASE - 4096, 2, bytes),
                     UNETMM_CS_DMA);
    fake_write(&f->h, list + 8, &odd, 8);
    assert_int_equal(set_raw(f, list, 2, bytes), UNETMM_CS_BAD_ARG);
    fake_write(&f->h, list + 8, &high, 8);
    assert_int_equal(set_raw(f, list, 2, bytes), UNETMM_CS_BAD_ARG);
    assert_int_equal(sysbuf(f)->n, 0);
    assert_int_equal(fake_sysbuf(&f->d, 3, 9000), UNETMM_CS_OK);
    assert_int_equal(fake_sysbuf(&f->d, FAKE_SLOTS, 9000), UNETMM_CS_OK);
    assert_int_equal(sysbuf(f)->nfree, FAKE_SLOTS);
    assert_int_equal(set_raw(f, 0, 0, 0), UNETMM_CS_OK);
    assert_int_equal(sysbuf(f)->n, 0);
}

static uint8_t create_as(Fix *f, FakeSpace *s, uint8_t policy)
{
    FakeEp ep;

    fake_ep_init(&ep, &f->d, 5, s);
    ep.policy = policy;
    fake_ep_alloc(&ep);
    return fake_command(&f->d, fake_ep_cmd(&ep), NULL);
}

/* Not without a buffer, nor where nobody brings pages. */
TEST_OF(test_who, Fix *f, fix_test)
{
    FakeSpace *pinned = fake_space(&f->d, 5, UNETMM_SOURCE_PINNED, 4);

    assert_int_equal(create_as(f, f->s1, UNETMM_POLICY_REDIRECT),
                     UNETMM_CS_BAD_ARG);
    assert_int_equal(fake_sysbuf(&f->d, 4, 9000), UNETMM_CS_OK);
    assert_int_equal(create_as(f, pinned, UNETMM_POLICY_REDIRECT),
                     UNETMM_CS_BAD_ARG);
    assert_int_equal(create_as(f, f->s1, UNETMM_POLICY_RNR + 1),
                     UNETMM_CS_BAD_ARG);
    assert_int_equal(create_as(f, f->s1, UNETMM_POLICY_REDIRECT),
                     UNETMM_CS_OK);
}

TEST_OF(test_promises, Fix *f, fix_test)
{
    redirecting(f);
    /* Somebody has to wait, and none needs more than the window. */
    assert_int_equal(fake_channel(&f->a, 1, fake_peer_mac, PEER_EP, 1, 1000),
                     UNETMM_CS_BAD_ARG);
    assert_int_equal(set_channel(f, &f->a, 1, 0, 0), UNETMM_CS_BAD_ARG);
    assert_int_equal(set_channel(f, &f->a, 1, 65, 0), UNETMM_CS_BAD_ARG);
    assert_int_equal(set_channel(f, &f->a, 1, 1, 65), UNETMM_CS_BAD_ARG);
    assert_int_equal(set_channel(f, &f->b, 1, 1, 0), UNETMM_CS_BAD_ARG);
    assert_int_equal(set_channel(f, &f->a, 1, 5, 0), UNETMM_CS_OK);
    assert_int_equal(set_channel(f, &f->a, 2, 4, 0), UNETMM_CS_FULL);
    assert_int_equal(set_channel(f, &f->a, 2, 3, 0), UNETMM_CS_OK);
    assert_int_equal(set_channel(f, &f->a, 3, 1, 0), UNETMM_CS_FULL);
    assert_int_equal(set_raw(f, 0, 0, 0), UNETMM_CS_BUSY);
    assert_int_equal(clear_channel(&f->a, 1), UNETMM_CS_OK);
    fake_ring_bell(&f->a);
    assert_int_equal(set_channel(f, &f->a, 3, 5, 0), UNETMM_CS_OK);
    assert_int_equal(sysbuf(f)->promised, SLOTS);
    assert_int_equal(fake_ep_destroy(&f->a), UNETMM_CS_OK);
    assert_int_equal(sysbuf(f)->promised, 0);
    assert_int_equal(set_raw(f, 0, 0, 0), UNETMM_CS_OK);
}

TEST_OF(test_done_of_nothing, Fix *f, fix_test)
{
    struct unetmm_cmd cmd = { .opcode = UNETMM_CMD_SYSBUF_DONE };

    open_all(f);
    assert_int_equal(fake_slot_done(&f->d, 0, 0), UNETMM_CS_BAD_ID);
    assert_int_equal(fake_slot_done(&f->d, SLOTS, 0), UNETMM_CS_BAD_ID);
    assert_int_equal(fake_slot_done(&f->d, ~0u, 0), UNETMM_CS_BAD_ID);
    give_write(f, 0, OFFSET, 10, LAST, 1);
    cmd.slot.slot = oldest(f);
    cmd.slot.rsvd[1] = 1;
    assert_int_equal(fake_command(&f->d, cmd, NULL), UNETMM_CS_BAD_ARG);
    assert_int_equal(fake_slot_done(&f->d, oldest(f), 3), UNETMM_CS_BAD_ARG);
    assert_int_equal(fake_slot_done(&f->d, oldest(f), 0), UNETMM_CS_OK);
    assert_int_equal(fake_slot_done(&f->d, oldest(f), 0), UNETMM_CS_BAD_ID);
}

/* ---- WRITEs ------------------------------------------------------------- */

/* It is here and not in its place: all that is told, then and later. */
TEST_OF(test_write, Fix *f, fix_test)
{
    struct unetmm_slot slot;

    open_all(f);
    give_write(f, 0, OFFSET, 500, LAST | NOTIFY, 0x11);
    expect_ack_of(f, 0, 0, UNETMM_ACK_PENDING);
    slot = fake_slot(&f->d, oldest(f));
    assert_int_equal(slot.space, 1);
    assert_int_equal(slot.ep, 1);
    assert_int_equal(slot.channel, PEER_CH);
    assert_int_equal(slot.opcode, UNETMM_OP_WRITE);
    assert_int_equal(slot.npieces, 1);
    assert_int_equal(slot.region, PEER_REGION);
    assert_int_equal(slot.len, 500);
    assert_int_equal(slot.piece[0].addr, PEER_AT + OFFSET);
    assert_int_equal(slot.piece[0].len, 500);
    assert_int_equal(slot.piece[0].from, 0);
    fake_expect_none(&f->a);
    expect_bytes(f, OFFSET, 500, 0);
    /* Sent again it is not taken again. */
    expect_count(&f->h, drop_rel_again, 1,
                 give_write(f, 0, OFFSET, 500, LAST | NOTIFY | ASK, 0x22));
    expect_ack_of(f, 0, 0, UNETMM_ACK_PENDING);
    fake_slot_serve(&f->d, 0);
    expect_ack_of(f, 1, 0, UNETMM_ACK_OK);
    fake_expect(&f->a, UNETMM_CQE_NOTIFY, UNETMM_ST_OK, PEER_REGION + 0x7000);
    expect_bytes(f, OFFSET, 500, 0x11);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_sysbuf_packets), 1);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_sysbuf_landed), 1);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_sysbuf_bytes), 500);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_writes), 1);
}

/* A later packet for the page waits behind it, though the page is there. */
TEST_OF(test_follows, Fix *f, fix_test)
{
    open_all(f);
    give_write(f, 0, OFFSET, 500, LAST, 0x11);
    fake_insert(f->s1, PEER_PAGE(20), 4, NULL);
    give_write(f, 1, OFFSET + 100, 500, LAST, 0x22);
    /* Another page, which is there: at once. */
    give_write(f, 2, OFFSET + 4096, 300, LAST | NOTIFY, 0x33);
    expect_bytes(f, OFFSET + 4096, 300, 0x33);
    expect_bytes(f, OFFSET, 600, 0);
    assert_int_equal(f->d.full->len, 2);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_sysbuf_follow), 1);
    fake_wire_clear(&f->h);
    fake_slot_serve(&f->d, 0);
    expect_ack_of(f, 1, 0x2 >> 1, UNETMM_ACK_PENDING);
    fake_expect_none(&f->a);
    fake_slot_serve(&f->d, 0);
    expect_ack_of(f, 3, 0, UNETMM_ACK_OK);
    fake_expect(&f->a, UNETMM_CQE_NOTIFY, UNETMM_ST_OK, PEER_REGION + 0x7000);
    expect_bytes(f, OFFSET, 100, 0x11);
    expect_bytes(f, OFFSET + 100, 500, 0x22);
}

/* Before its turn; and the earlier one comes later, round it. */
TEST_OF(test_early, Fix *f, fix_test)
{
    struct unetmm_slot slot;

    open_all(f);
    give_write(f, 1, OFFSET + 100, 100, LAST, 0x22);
    expect_ack_of(f, 0, 0x1, UNETMM_ACK_OK);
    give_write(f, 0, OFFSET, 300, LAST, 0x11);
    expect_ack_of(f, 0, 0x1, UNETMM_ACK_PENDING);
    slot = fake_slot(&f->d, g_array_index(f->d.full, uint32_t, 1));
    assert_int_equal(slot.npieces, 2);
    assert_int_equal(slot.piece[1].from, 200);
    fake_slot_serve(&f->d, 0);
    fake_wire_clear(&f->h);
    fake_slot_serve(&f->d, 0);
    expect_ack_of(f, 2, 0, UNETMM_ACK_OK);
    expect_bytes(f, OFFSET, 100, 0x11);
    expect_bytes(f, OFFSET + 100, 100, 0x22);
    expect_bytes(f, OFFSET + 200, 100, 0x11);
}

/* Two pages, one of which is there. */
TEST_OF(test_half_there, Fix *f, fix_test)
{
    open_all(f);
    fake_insert(f->s1, PEER_PAGE(20), 1, NULL);
    give_write(f, 0, 3900, 300, LAST, 0x44);
    assert_int_equal(f->d.full->len, 1);
    fake_slot_serve(&f->d, 0);
    expect_bytes(f, 3900, 300, 0x44);
}

/* In more pieces than a slot has room for: the peer comes again. */
TEST_OF(test_too_many_pieces, Fix *f, fix_test)
{
    unsigned n = UNETMM_SLOT_PIECES;

    redirecting(f);
    assert_int_equal(fake_ep_destroy(&f->a), UNETMM_CS_OK);
    assert_int_equal(fake_sysbuf(&f->d, FAKE_SLOTS, 9000), UNETMM_CS_OK);
    fake_ep_create(&f->a);
    assert_int_equal(set_channel(f, &f->a, PEER_CH, FAKE_SLOTS, 0),
                     UNETMM_CS_OK);
    open_region(f);
    for (unsigned i = 1; i <= n; i++) {
        give_write(f, i, OFFSET + 20 * i, 10, LAST, i);
    }
    fake_wire_clear(&f->h);
    expect_count(&f->h, sysbuf_refused, 1,
                 give_write(f, 0, OFFSET, 900, LAST, 0x55));
    assert_int_equal(peer_expect(f, UNETMM_WIRE_ACK, PEER_YOURS).h.imm,
                     UNETMM_ACK_NOT_READY);
    while (f->d.full->len) {
        fake_slot_serve(&f->d, 0);
    }
    f->d.hold_back = false;
    fake_paged_in(&f->d);
    give_write(f, 0, OFFSET, 900, LAST, 0x55);
    expect_bytes(f, OFFSET, 20, 0x55);
    expect_bytes(f, OFFSET + 20, 10, 1);
    expect_bytes(f, OFFSET + 30, 10, 0x55);
}

/* A part of it may move, which the card knows and the driver does not. */
TEST_OF(test_movable, Fix *f, fix_test)
{
    redirecting(f);
    assert_int_equal(set_channel(f, &f->a, PEER_CH, CREDITS, 0),
                     UNETMM_CS_OK);
    assert_int_equal(fake_region(f->s1, PEER_REGION, PEER_KEY, PEER_AT,
                                 PEER_LENGTH, UNETMM_RIGHT_ALL,
                                 UNETMM_REGION_F_REDIRECT), UNETMM_CS_OK);
    give_write(f, 0, OFFSET, 10, LAST, 1);
    expect_ack_of(f, 0, 0, UNETMM_ACK_NOT_READY);
    assert_int_equal(f->d.full->len, 0);
}

/* A request behind it waits for its turn, and reads the written bytes. */
TEST_OF(test_read_behind, Fix *f, fix_test)
{
    PeerFrame frame;

    open_all(f);
    give_write(f, 0, OFFSET, 100, LAST, 0x66);
    peer_give(f, (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_READ, .psn = PEER_YOURS + 1,
        .handle = PEER_REGION, .offset = PEER_KEY, .remote = OFFSET,
        .imm = 100 }, NULL, 0);
    fake_wire_clear(&f->h);
    fake_insert(f->s1, PEER_PAGE(20), 1, NULL);
    fake_slot_serve(&f->d, 0);
    frame = peer_take(f);
    if (frame.h.opcode == UNETMM_WIRE_ACK) {
        frame = peer_take(f);
    }
    assert_int_equal(frame.h.opcode, UNETMM_WIRE_ANSWER);
    assert_int_equal(frame.data[0], 0x66);
    assert_int_equal(frame.data[99], 0x66);
}

/* ---- Errors ------------------------------------------------------------- */

TEST_OF(test_failed, Fix *f, fix_test)
{
    open_all(f);
    give_write(f, 1, OFFSET + 4096, 100, LAST | NOTIFY, 2);
    give_write(f, 0, OFFSET, 100, LAST | NOTIFY, 1);
    fake_wire_clear(&f->h);
    answer_oldest(f, UNETMM_SLOT_FAILED);
    expect_ack_of(f, 0, 0x1, UNETMM_ACK_PENDING);
    answer_oldest(f, UNETMM_SLOT_LANDED);
    fake_expect(&f->a, UNETMM_CQE_NOTIFY, UNETMM_ST_OK, PEER_REGION + 0x7000);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_sysbuf_failed), 1);
    /* The second is never taken; its number is. */
    peer_expect(f, UNETMM_WIRE_ACK, PEER_YOURS + 1);
    give_write(f, 1, OFFSET + 4096, 100, LAST | NOTIFY, 2);
    expect_ack_of(f, 1, 0, UNETMM_ACK_REJECTED);
    peer_void(f, PEER_YOURS + 1, ASK);
    expect_ack_of(f, 2, 0, UNETMM_ACK_OK);
    fake_expect_none(&f->a);
}

/* The region goes meanwhile: the packet in a slot is rejected. */
TEST_OF(test_region_gone, Fix *f, fix_test)
{
    PeerFrame frame;

    open_all(f);
    give_write(f, 0, OFFSET, 100, LAST | NOTIFY, 1);
    fake_wire_clear(&f->h);
    assert_int_equal(fake_region_clear(&f->d, PEER_REGION), UNETMM_CS_OK);
    answer_oldest(f, UNETMM_SLOT_GONE);
    frame = peer_expect(f, UNETMM_WIRE_ACK, PEER_YOURS);
    assert_int_equal(frame.h.imm, UNETMM_ACK_REJECTED);
    assert_int_equal(frame.h.offset, UNETMM_WHY_REGION);
    fake_expect_none(&f->a);
}

/* The endpoint goes: a slot that the driver has is nobody's until it says. */
TEST_OF(test_endpoint_gone, Fix *f, fix_test)
{
    open_all(f);
    give_write(f, 0, OFFSET, 100, LAST, 1);
    assert_int_equal(fake_ep_destroy(&f->a), UNETMM_CS_OK);
    assert_int_equal(sysbuf(f)->promised, 1);
    assert_int_equal(set_raw(f, 0, 0, 0), UNETMM_CS_BUSY);
    answer_oldest(f, UNETMM_SLOT_GONE);
    assert_int_equal(sysbuf(f)->promised, 0);
    assert_int_equal(sysbuf(f)->nfree, SLOTS);
    assert_int_equal(set_raw(f, 0, 0, 0), UNETMM_CS_OK);
}

/* The channel goes: its slots are not promised again before they are back. */
TEST_OF(test_channel_gone, Fix *f, fix_test)
{
    open_all(f);
    give_write(f, 0, OFFSET, 100, LAST, 1);
    assert_int_equal(clear_channel(&f->a, PEER_CH), UNETMM_CS_OK);
    fake_ring_bell(&f->a);
    assert_int_equal(set_channel(f, &f->a, PEER_CH, 4, 0), UNETMM_CS_FULL);
    fake_slot_serve(&f->d, 0);
    expect_bytes(f, OFFSET, 100, 1);
    assert_int_equal(set_channel(f, &f->a, PEER_CH, SLOTS, 0), UNETMM_CS_OK);
}

TEST_OF(test_reset, Fix *f, fix_test)
{
    open_all(f);
    give_write(f, 0, OFFSET, 100, LAST, 1);
    fake_set_reg(&f->h, UNETMM_REG_CTRL, UNETMM_CTRL_RESET);
    assert_int_equal(sysbuf(f)->n, 0);
    assert_int_equal(sysbuf(f)->promised, 0);
    assert_int_equal(sysbuf(f)->full.used, 0);
}

/* The fault ring is full: it is reported when there is room, in order. */
TEST_OF(test_ring_full, Fix *f, fix_test)
{
    struct unetmm_fault fault;
    uint32_t first;

    open_all(f);
    fake_set_reg(&f->h, UNETMM_REG_RING(UNETMM_RING_FAULT) +
                 UNETMM_RING_ENABLE, 0);
    give_write(f, 0, OFFSET, 100, LAST, 1);
    give_write(f, 1, OFFSET + 50, 100, LAST, 2);
    assert_int_equal(f->d.full->len, 0);
    assert_int_equal(sysbuf(f)->full.used, 2);
    first = unetmm_list_first(&sysbuf(f)->full);
    fake_migrate(&f->h);
    assert_int_equal(sysbuf(f)->full.used, 2);
    f->d.ring[UNETMM_RING_FAULT].index = 0;
    fake_set_reg(&f->h, UNETMM_REG_RING(UNETMM_RING_FAULT) +
                 UNETMM_RING_ENABLE, 1);
    fake_ring_bell(&f->a);
    while (fake_fault(&f->d, &fault)) {
        continue;
    }
    assert_int_equal(f->d.full->len, 2);
    assert_int_equal(oldest(f), first);
}

/* ---- SENDs -------------------------------------------------------------- */

static void give_send(Fix *f, uint32_t n, uint32_t at, uint32_t len,
                      uint32_t total, uint8_t byte)
{
    uint8_t data[PEER_MTU];

    memset(data, byte, sizeof(data));
    peer_give(f, (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_SEND, .psn = PEER_YOURS + n, .offset = at,
        .remote = total, .flags = at + len == total ? LAST | ASK : 0 },
        data, len);
    fake_serve(&f->d);
}

TEST_OF(test_send, Fix *f, fix_test)
{
    open_all(f);
    fake_post(&f->a, PEER_PAGE(8), 4096, 9);
    fake_ring_bell(&f->a);
    give_send(f, 0, 0, PEER_MTU, PEER_MTU + 500, 0x71);
    expect_ack_of(f, 0, 0, UNETMM_ACK_PENDING);
    assert_int_equal(fake_slot(&f->d, oldest(f)).opcode, UNETMM_OP_SEND);
    /* The next packet waits as it came, and then goes aside as well. */
    give_send(f, 1, PEER_MTU, 500, PEER_MTU + 500, 0x72);
    assert_int_equal(f->d.full->len, 1);
    fake_slot_serve(&f->d, 0);
    fake_serve(&f->d);
    fake_expect_none(&f->a);
    assert_int_equal(f->d.full->len, 1);
    fake_wire_clear(&f->h);
    fake_slot_serve(&f->d, 0);
    assert_int_equal(fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK,
                                 9).len, PEER_MTU + 500);
    expect_ack_of(f, 2, 0, UNETMM_ACK_OK);
}

/* It has been copied, and cannot be told of yet: it is told of later, once. */
TEST_OF(test_send_behind_cq_full, Fix *f, fix_test)
{
    uint8_t data[700];

    open_all(f);
    fake_post(&f->a, PEER_PAGE(8), 4096, 9);
    fake_ring_bell(&f->a);
    give_send(f, 0, 0, 700, 700, 0x71);
    expect_ack_of(f, 0, 0, UNETMM_ACK_PENDING);
    for (unsigned i = 0; i < 16; i++) {
        fake_send_inline(&f->a, PEER_CH, i, 8, 100 + i, 0);
        fake_ring_bell(&f->a);
        peer_ack(f, PEER_MY + 1 + i, 0);
    }
    fake_wire_clear(&f->h);
    fake_slot_serve(&f->d, 0);
    expect_ack_of(f, 0, 0, UNETMM_ACK_NOT_READY);
    for (unsigned i = 0; i < 16; i++) {
        fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 100 + i);
    }
    fake_expect_none(&f->a);
    fake_ring_bell(&f->a);
    expect_ack_of(f, 0, 0, UNETMM_ACK_OK);
    /* The packet comes again, and is not taken for the one in the slot. */
    give_send(f, 0, 0, 700, 700, 0x72);
    assert_int_equal(fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK,
                                 9).len, 700);
    expect_ack_of(f, 1, 0, UNETMM_ACK_OK);
    fake_expect_none(&f->a);
    fake_load(f->s1, PEER_PAGE(8), data, sizeof(data));
    for (unsigned i = 0; i < sizeof(data); i++) {
        assert_int_equal(data[i], 0x71);
    }
}

/* A buffer is not given back while somebody may still copy to it. */
TEST_OF(test_send_failed, Fix *f, fix_test)
{
    open_all(f);
    fake_post(&f->a, PEER_PAGE(8), 4096, 9);
    fake_ring_bell(&f->a);
    give_send(f, 0, 0, PEER_MTU, PEER_MTU + 500, 0x71);
    peer_ack_as(f, PEER_MY, 0, UNETMM_ACK_FAILED, UNETMM_WHY_CHANNEL);
    fake_ring_bell(&f->a);
    fake_expect_none(&f->a);
    fake_slot_serve(&f->d, 0);
    fake_expect(&f->a, UNETMM_CQE_BUFFER, UNETMM_ST_FLUSHED, 9);
}

TEST_OF(test_send_nowhere, Fix *f, fix_test)
{
    open_all(f);
    fake_post(&f->a, PEER_PAGE(8), 4096, 9);
    fake_ring_bell(&f->a);
    give_send(f, 0, 0, 700, 700, 0x71);
    answer_oldest(f, UNETMM_SLOT_FAILED);
    fake_expect(&f->a, UNETMM_CQE_BUFFER, UNETMM_ST_PROTECTION, 9);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_rel_failed), 1);
}

/* ---- Credits ------------------------------------------------------------ */

/* A peer that does not keep to them fills nobody else's slots. */
TEST_OF(test_overdrawn, Fix *f, fix_test)
{
    open_all(f);
    for (unsigned i = 0; i < CREDITS; i++) {
        give_write(f, i, OFFSET + 10 * i, 10, LAST, i);
    }
    assert_int_equal(f->d.full->len, CREDITS);
    expect_count(&f->h, drop_rel_credit, 1,
                 give_write(f, CREDITS, OFFSET, 10, LAST, 9));
    expect_count(&f->h, drop_rel_credit, 1, peer_void(f, PEER_YOURS + CREDITS,
                                                      0));
    fake_slot_serve(&f->d, 0);
    expect_count(&f->h, drop_rel_credit, 0,
                 give_write(f, CREDITS, OFFSET, 10, LAST, 9));
    expect_count(&f->h, drop_rel_credit, 1,
                 give_write(f, CREDITS + 1, OFFSET, 10, LAST, 9));
    assert_int_equal(sysbuf(f)->nfree, SLOTS - CREDITS);
}

static void open_limited(Fix *f, uint32_t credits)
{
    assert_int_equal(set_channel(f, &f->a, PEER_CH, 0, credits),
                     UNETMM_CS_OK);
    assert_int_equal(fake_import(&f->a, PEER_IMPORT, PEER_CH, PEER_FAR,
                                 PEER_FAR_KEY, PEER_FAR_LENGTH,
                                 UNETMM_RIGHT_ALL), UNETMM_CS_OK);
    fake_insert(f->s1, PEER_PAGE(0), 8, NULL);
    fake_wire_clear(&f->h);
}

static void grant(Fix *f, uint32_t psn, uint32_t limit)
{
    peer_give(f, (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_ACK, .psn = psn, .flags = CREDIT,
        .handle = limit }, NULL, 0);
}

/* No new packet without a credit; the last one asks for more. */
TEST_OF(test_limited, Fix *f, fix_test)
{
    open_limited(f, 3);
    peer_post(f, peer_sqe(UNETMM_OP_WRITE, 0, 5 * PEER_MTU, 0, 1));
    peer_expect(f, UNETMM_WIRE_WRITE, PEER_MY);
    peer_expect(f, UNETMM_WIRE_WRITE, PEER_MY + 1);
    assert_int_equal(peer_expect(f, UNETMM_WIRE_WRITE, PEER_MY + 2).h.flags,
                     ASK);
    peer_silence(f);
    /* Again costs none. */
    fake_advance(&f->h, 1000000);
    peer_expect(f, UNETMM_WIRE_WRITE, PEER_MY);
    fake_wire_clear(&f->h);
    grant(f, PEER_MY + 3, PEER_MY + 4);
    peer_expect(f, UNETMM_WIRE_WRITE, PEER_MY + 3);
    peer_silence(f);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_credit_waits), 2);
    /* An older one takes nothing back. */
    grant(f, PEER_MY + 3, PEER_MY + 3);
    grant(f, PEER_MY + 3, PEER_MY + 5);
    assert_int_equal(peer_expect(f, UNETMM_WIRE_WRITE, PEER_MY + 4).h.flags,
                     ASK | LAST);
    grant(f, PEER_MY + 5, PEER_MY + 8);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    assert_int_equal(f->h.core.eps[1].rels->tx.deadline_ns, INT64_MAX);
}

/* The grant is lost, and nothing is on its way: it asks until it has one. */
TEST_OF(test_probe, Fix *f, fix_test)
{
    open_limited(f, 1);
    peer_post(f, peer_sqe(UNETMM_OP_WRITE, 0, 2 * PEER_MTU, 0, 1));
    peer_expect(f, UNETMM_WIRE_WRITE, PEER_MY);
    peer_ack(f, PEER_MY + 1, 0);
    peer_silence(f);
    fake_advance(&f->h, 1000000);
    assert_int_equal(peer_expect(f, UNETMM_WIRE_ACK, PEER_YOURS).h.flags, ASK);
    fake_advance(&f->h, 2000000);
    assert_int_equal(peer_expect(f, UNETMM_WIRE_ACK, PEER_YOURS).h.flags, ASK);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_credit_probes), 2);
    /* No more than before: it goes on to wait, and does not begin to. */
    expect_count(&f->h, credit_waits, 0, grant(f, PEER_MY + 1, PEER_MY + 1));
    peer_silence(f);
    fake_advance(&f->h, 8000000);
    assert_int_equal(peer_expect(f, UNETMM_WIRE_ACK, PEER_YOURS).h.flags, ASK);
    fake_wire_clear(&f->h);
    grant(f, PEER_MY + 1, PEER_MY + 2);
    peer_expect(f, UNETMM_WIRE_WRITE, PEER_MY + 1);
    grant(f, PEER_MY + 2, PEER_MY + 3);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
}

/* Packets on their way keep their timeout, though a credit has come. */
TEST_OF(test_granted_and_lost, Fix *f, fix_test)
{
    struct unetmm_sqe write = peer_sqe(UNETMM_OP_WRITE, 0, PEER_MTU, 0, 1);

    open_limited(f, 1);
    write.nsegs = 2;
    write.seg[1] = (struct unetmm_seg) { .addr = PEER_PAGE(12), .len = 100 };
    peer_post(f, write);
    peer_expect(f, UNETMM_WIRE_WRITE, PEER_MY);
    peer_silence(f);
    grant(f, PEER_MY, PEER_MY + 2);
    /* The next one has no page yet, and nobody answers for that. */
    assert_int_equal(f->h.core.miss->asked, 1);
    fake_advance(&f->h, 1000000);
    fake_serve(&f->d);
    peer_expect(f, UNETMM_WIRE_WRITE, PEER_MY + 1);
    peer_expect(f, UNETMM_WIRE_WRITE, PEER_MY);
    peer_silence(f);
}

/* Nobody answers: the channel ends as any other does. */
TEST_OF(test_probe_in_vain, Fix *f, fix_test)
{
    open_limited(f, 1);
    peer_post(f, peer_sqe(UNETMM_OP_WRITE, 0, 2 * PEER_MTU, 0, 1));
    peer_ack(f, PEER_MY + 1, 0);
    for (unsigned i = 0; i < 4; i++) {
        fake_advance(&f->h, 10000000);
    }
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_TIMEOUT, 1);
}

/* The answer to a READ is no grant: its request asks for one as well. */
TEST_OF(test_limited_read, Fix *f, fix_test)
{
    static const uint8_t answer[100];

    open_limited(f, 1);
    peer_post(f, peer_sqe(UNETMM_OP_READ, 0, 100, 0, 1));
    assert_int_equal(peer_expect(f, UNETMM_WIRE_READ, PEER_MY).h.flags, ASK);
    peer_give(f, (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_ANSWER, .psn = PEER_MY }, answer, 100);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    peer_post(f, peer_sqe(UNETMM_OP_WRITE, 0, 100, 0, 2));
    peer_silence(f);
    fake_advance(&f->h, 1000000);
    assert_int_equal(peer_expect(f, UNETMM_WIRE_ACK, PEER_YOURS).h.flags, ASK);
    grant(f, PEER_MY + 1, PEER_MY + 9);
    peer_expect(f, UNETMM_WIRE_WRITE, PEER_MY + 1);
}

/* PENDING: it is not sent again, and asked about instead. */
TEST_OF(test_pending, Fix *f, fix_test)
{
    open_limited(f, 3);
    peer_post(f, peer_sqe(UNETMM_OP_WRITE, 0, 100, 0, 1));
    peer_expect(f, UNETMM_WIRE_WRITE, PEER_MY);
    peer_ack_as(f, PEER_MY, 0, UNETMM_ACK_PENDING, 0);
    fake_expect_none(&f->a);
    for (unsigned i = 0; i < 9; i++) {
        fake_advance(&f->h, 1000000);
        assert_int_equal(peer_expect(f, UNETMM_WIRE_ACK,
                                     PEER_YOURS).h.flags, ASK);
        peer_silence(f);
        peer_ack_as(f, PEER_MY, 0, UNETMM_ACK_PENDING, 0);
    }
    fake_expect_none(&f->a);
    peer_ack(f, PEER_MY + 1, 0);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    /* It is invalid for packets never sent, and with limits far away. */
    expect_count(&f->h, drop_rel_ack, 1,
                 peer_ack_as(f, PEER_MY + 1, 0, UNETMM_ACK_PENDING, 0));
    expect_count(&f->h, drop_rel_ack, 0,
                 grant(f, PEER_MY + 1, PEER_MY + 65));
    assert_int_equal(f->h.core.eps[1].rels->tx.limit, PEER_MY + 65);
    expect_count(&f->h, drop_rel_ack, 1,
                 grant(f, PEER_MY + 1, PEER_MY + 66));
    expect_count(&f->h, drop_rel_ack, 1, grant(f, PEER_MY + 1, PEER_MY));
}

/* Asked for, an acknowledgement is given: also of nothing. */
TEST_OF(test_asked, Fix *f, fix_test)
{
    open_all(f);
    peer_give(f, (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_ACK, .psn = PEER_MY, .flags = ASK }, NULL, 0);
    expect_ack_of(f, 0, 0, UNETMM_ACK_OK);
    peer_silence(f);
}

/* A stream that has forgotten the slot in which a packet waits is refused. */
TEST_OF(test_slot_forgotten, Fix *f, fix_test)
{
    open_all(f);
    give_write(f, 0, OFFSET, 100, LAST | ASK, 1);
    assert_int_equal(sysbuf(f)->slots[oldest(f)].state, UNETMM_SLOT_TOLD);
    for (unsigned i = 0; i < 2; i++) {
        GByteArray *saved = unetmm_core_save(&f->h.core);
        g_autofree char *why = NULL;
        FakeHost other;

        fake_host_init(&other, &f->h.core.params);
        assert_int_equal(unetmm_core_load(&other.core, saved->data, saved->len,
                                          &why), !i);
        assert_true(!i || strstr(why, "waits for a slot that it has not"));
        fake_host_free(&other);
        g_byte_array_unref(saved);
        sysbuf(f)->slots[oldest(f)].state = UNETMM_SLOT_FREE;
    }
    sysbuf(f)->slots[oldest(f)].state = UNETMM_SLOT_TOLD;
}

/* Is this card's state one that a card can have?  If not, why. */
static char *refused_why(Fix *f)
{
    GByteArray *saved = unetmm_core_save(&f->h.core);
    char *why = NULL;
    FakeHost other;

    fake_host_init(&other, &f->h.core.params);
    unetmm_core_load(&other.core, saved->data, saved->len, &why);
    fake_check_counts(&other.core);
    fake_host_free(&other);
    g_byte_array_unref(saved);
    return why;
}

static void expect_refused(Fix *f, const char *text)
{
    g_autofree char *why = refused_why(f);

    assert_non_null(why);
    assert_non_null(strstr(why, text));
}

TEST_OF(test_bad_slots_saved, Fix *f, fix_test)
{
    uint64_t addr;

    open_all(f);
    assert_null(refused_why(f));
    addr = sysbuf(f)->slots[3].addr;
    sysbuf(f)->slots[3].addr = 4;
    expect_refused(f, "the system buffer could not have been given");
    sysbuf(f)->slots[3].addr = addr;
}

/* Slots of channels that are gone, and promises: more than there are. */
TEST_OF(test_promises_saved, Fix *f, fix_test)
{
    open_all(f);
    give_write(f, 0, OFFSET, 100, LAST, 1);
    assert_int_equal(fake_ep_destroy(&f->a), UNETMM_CS_OK);
    fake_ep_create(&f->a);
    assert_int_equal(set_channel(f, &f->a, 1, SLOTS - 1, 0), UNETMM_CS_OK);
    assert_null(refused_why(f));
    sysbuf(f)->slots[oldest(f) + 1].state = UNETMM_SLOT_TOLD;
    expect_refused(f, "more slots are promised than there are");
    sysbuf(f)->slots[oldest(f) + 1].state = UNETMM_SLOT_FREE;
}

/* A channel that was cleared keeps its promise until its slots are back. */
TEST_OF(test_cleared_saved, Fix *f, fix_test)
{
    open_all(f);
    give_write(f, 0, OFFSET, 100, LAST, 1);
    assert_int_equal(clear_channel(&f->a, PEER_CH), UNETMM_CS_OK);
    fake_ring_bell(&f->a);
    assert_int_equal(sysbuf(f)->promised, CREDITS);
    assert_null(refused_why(f));
    fake_slot_serve(&f->d, 0);
    assert_int_equal(sysbuf(f)->promised, 0);
}

/* ---- Many senders ------------------------------------------------------- */

/*
 * As many channels as there are slots, each with one, and all pages absent:
 * everybody's packets go in turn, none is lost.
 */
TEST_OF(test_many, Fix *f, fix_test)
{
    redirecting(f);
    open_region(f);
    for (unsigned c = 0; c < SLOTS; c++) {
        assert_int_equal(set_channel(f, &f->a, 1 + c, 1, 0), UNETMM_CS_OK);
    }
    assert_int_equal(set_channel(f, &f->a, 1 + SLOTS, 1, 0), UNETMM_CS_FULL);
    for (unsigned n = 0; n < 5; n++) {
        for (unsigned c = 0; c < SLOTS; c++) {
            FakeFrame *frame = fake_datagram(&f->a, 1 + c, PEER_EP, 50, 0);
            struct unetmm_frame *h = fake_header(frame);

            h->opcode = UNETMM_WIRE_WRITE;
            h->psn = cpu_to_le32(PEER_YOURS + n);
            h->handle = cpu_to_le32(PEER_REGION);
            h->offset = cpu_to_le32(PEER_KEY);
            h->remote = cpu_to_le64(100 * c + 1000 * n);
            h->src_channel = cpu_to_le16(1 + c);
            memset(frame->data + 64, 0x10 * n + c + 1, 50);
            fake_seal(frame);
            fake_deliver(&f->h, frame);
            fake_serve(&f->d);
        }
        assert_int_equal(f->d.full->len, SLOTS);
        assert_int_equal(sysbuf(f)->nfree, 0);
        while (f->d.full->len) {
            fake_slot_serve(&f->d, f->d.full->len - 1);
        }
        for (unsigned c = 0; c < SLOTS; c++) {
            expect_bytes(f, 100 * c + 1000 * n, 50, 0x10 * n + c + 1);
        }
    }
    assert_int_equal(fake_counter(&f->h, UNETMM_C_drop_rel_credit), 0);
}
