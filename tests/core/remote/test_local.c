/*
 * unetmm: keys in segments and free buffers (EP_F_KEYS)
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "peer.h"

#define NUMBER  9
#define KEY     (NUMBER << 8 | 0x5a)
#define AT      (PEER_PAGE(2) + 40)     /* the region's memory ... */
#define IOVA    0x1000                  /* ... and its name */
#define LENGTH  5000
#define LKEY    (UNETMM_REGION_F_LKEY | UNETMM_REGION_F_IOVA)

static uint8_t set_region(Fix *f, uint8_t flags, uint32_t pd)
{
    struct unetmm_cmd cmd = fake_region_cmd(f->s1, NUMBER, KEY, AT, LENGTH);

    cmd.region.rights = 0;
    cmd.region.flags = flags;
    cmd.region.iova = flags & UNETMM_REGION_F_IOVA ? IOVA : 0;
    cmd.region.pd = pd;
    return fake_command(&f->d, cmd, NULL);
}

static void open_keys(Fix *f, uint8_t flags)
{
    fake_ep_destroy(&f->a);
    f->a.flags = UNETMM_EP_F_KEYS;
    f->a.pd = 3;
    fake_ep_create(&f->a);
    fake_channel(&f->a, FIX_WIRE, fake_peer_mac, 10, FIX_WIRE, 1500);
    peer_open(f);
    assert_int_equal(set_region(f, flags, 3), UNETMM_CS_OK);
    fake_insert(f->s1, PEER_PAGE(2), 3, NULL);
}

/* One segment of these. */
static void post(Fix *f, uint8_t op, uint64_t addr, uint32_t len, uint32_t key)
{
    struct unetmm_sqe s = peer_sqe(op, 0, len, 0, 7);

    s.seg[0].addr = addr;
    s.seg[0].key = key;
    if (op == UNETMM_OP_SEND) {
        s.handle = 0;
        s.channel = FIX_WIRE;
    }
    peer_post(f, s);
}

static void refused(Fix *f, uint8_t op, uint64_t addr, uint32_t len,
                    uint32_t key)
{
    uint64_t n = fake_counter(&f->h, UNETMM_C_err_key);

    post(f, op, addr, len, key);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_PROTECTION, 7);
    assert_int_equal(f->h.wire->len, 0);
    assert_int_equal(fake_counter(&f->h, UNETMM_C_err_key), n + 1);
}

static void sent(Fix *f, uint64_t addr, uint32_t len)
{
    uint8_t want[64];

    post(f, UNETMM_OP_SEND, addr, len, KEY);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 7);
    fake_load(f->s1, AT + (addr - IOVA), want, len);
    assert_memory_equal(fake_wire_at(&f->h, 0)->data + 64, want, len);
    fake_wire_clear(&f->h);
}

TEST_OF(test_arguments, Fix *f, fix_test)
{
    struct unetmm_cmd cmd = fake_ep_cmd(&f->a);

    assert_int_equal(set_region(f, 0, 0), UNETMM_CS_BAD_ARG);
    assert_int_equal(set_region(f, UNETMM_REGION_F_LKEY_WRITE, 0),
                     UNETMM_CS_BAD_ARG);
    assert_int_equal(set_region(f, UNETMM_REGION_F_LKEY |
                                   UNETMM_REGION_F_REDIRECT, 0),
                     UNETMM_CS_BAD_ARG);
    cmd.ep = 5;
    cmd.ep_create.flags = UNETMM_EP_F_KEYS | UNETMM_EP_F_RAW;
    assert_int_equal(fake_command(&f->d, cmd, NULL), UNETMM_CS_BAD_ARG);
    cmd.ep_create.flags = UNETMM_EP_F_KEYS;
    cmd.ep_create.policy = UNETMM_POLICY_BACKUP;
    cmd.ep_create.backup = 8;
    assert_int_equal(fake_command(&f->d, cmd, NULL), UNETMM_CS_BAD_ARG);
}

TEST_OF(test_sent, Fix *f, fix_test)
{
    open_keys(f, LKEY);
    fake_fill(f->s1, AT, LENGTH, 5);
    sent(f, IOVA, 64);
    sent(f, IOVA + LENGTH - 64, 64);
    /* Without bytes nothing is looked at. */
    post(f, UNETMM_OP_SEND, 0, 0, 1);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 7);
    fake_wire_clear(&f->h);
    refused(f, UNETMM_OP_SEND, IOVA + LENGTH - 63, 64, KEY);
    refused(f, UNETMM_OP_SEND, IOVA - 1, 64, KEY);
    refused(f, UNETMM_OP_SEND, AT, 64, KEY);
    refused(f, UNETMM_OP_SEND, UINT64_MAX, 64, KEY);
    refused(f, UNETMM_OP_SEND, IOVA, UINT32_MAX, KEY);
    refused(f, UNETMM_OP_SEND, IOVA, 64, KEY + 1);
    refused(f, UNETMM_OP_SEND, IOVA, 64, KEY + 256);
    refused(f, UNETMM_OP_SEND, IOVA, 64, UINT32_MAX);
    refused(f, UNETMM_OP_SEND, IOVA, 64, 0);
    fake_region_clear(&f->d, NUMBER);
    refused(f, UNETMM_OP_SEND, IOVA, 64, KEY);
    assert_int_equal(set_region(f, LKEY, 4), UNETMM_CS_OK);
    refused(f, UNETMM_OP_SEND, IOVA, 64, KEY);
    fake_region_clear(&f->d, NUMBER);
    assert_int_equal(fake_region(f->s1, NUMBER, KEY, IOVA, LENGTH,
                                 UNETMM_RIGHT_ALL, 0), UNETMM_CS_OK);
    refused(f, UNETMM_OP_SEND, IOVA, 64, KEY);
}

/* To be written it has to say so: by an answer, and as a buffer. */
TEST(test_written, fix_test)
{
    struct unetmm_fqe fqe = { .addr = IOVA + 8, .len = 200, .cookie = 4,
                              .key = KEY };
    Fix *f = *state;
    FakeFrame *frame;

    open_keys(f, LKEY);
    refused(f, UNETMM_OP_READ, IOVA, 100, KEY);
    fake_post_fqes(&f->a, &fqe, 1);
    fake_ring_bell(&f->a);
    fake_expect(&f->a, UNETMM_CQE_BUFFER, UNETMM_ST_PROTECTION, 4);
    fake_region_clear(&f->d, NUMBER);
    set_region(f, LKEY | UNETMM_REGION_F_LKEY_WRITE, 3);
    post(f, UNETMM_OP_READ, IOVA + 16, 8, KEY);
    peer_expect(f, UNETMM_WIRE_READ, PEER_MY);
    peer_give(f, (struct unetmm_frame) { .opcode = UNETMM_WIRE_ANSWER,
                                         .psn = PEER_MY }, "eight by", 8);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 7);
    fake_post_fqes(&f->a, &fqe, 1);
    fqe.key |= 1ull << 32;
    fake_post_fqes(&f->a, &fqe, 1);
    fake_ring_bell(&f->a);
    frame = fake_datagram(&f->a, FIX_WIRE, 10, 100, 6);
    fake_deliver(&f->h, frame);
    fake_expect(&f->a, UNETMM_CQE_RECEIVED, UNETMM_ST_OK, 4);
    fake_expect(&f->a, UNETMM_CQE_BUFFER, UNETMM_ST_PROTECTION, 4);
    fake_check(f->s1, AT + 8, 100, 6);
}

/* Other endpoints have no keys. */
TEST_OF(test_without, Fix *f, fix_test)
{
    peer_open(f);
    set_region(f, LKEY, 0);
    post(f, UNETMM_OP_SEND, AT, 64, KEY);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_BAD_DESC, 7);
}
