/*
 * unetmm: the card's counters of its own work, against the work that can be seen
 *
 * Drops have their counters in the tests that provoke them.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "peer.h"

/* Bytes of datagrams, and of packets, which are counted as well. */
TEST_OF(test_sent, Fix *f, fix_test)
{
    peer_open(f);
    fake_insert(f->s1, PEER_PAGE(0), 2, NULL);
    expect_count(&f->h, tx_bytes, 708, {
        fix_send(f, &f->a, 0, 700, 1);
        fake_send_inline(&f->a, FIX_WIRE, 1, 8, 2, 0);
        fake_ring_bell(&f->a);
    });
    fake_wire_clear(&f->h);
    expect_count(&f->h, rel_packets, 4,
        expect_count(&f->h, tx_bytes, 2520, {
            peer_post(f, peer_sqe(UNETMM_OP_WRITE, 0, 2500, 0, 3));
            fake_send_inline(&f->a, PEER_CH, 1, 20, 4, 0);
            fake_ring_bell(&f->a);
        }));
    assert_int_equal(f->h.wire->len, 4);
    assert_int_equal(fake_ep_counter(&f->h, 1, UNETMM_C_tx_bytes), 708 + 2520);
    assert_int_equal(fake_ep_counter(&f->h, 1, UNETMM_C_rel_packets), 4);
    /* Again, and in place of the rejected packet. */
    fake_wire_clear(&f->h);
    expect_count(&f->h, rel_voids, 3,
        expect_count(&f->h, rel_packets, 3,
                     peer_ack_as(f, PEER_MY, 0, UNETMM_ACK_REJECTED,
                                 UNETMM_WHY_RANGE)));
    for (unsigned i = 0; i < 3; i++) {
        peer_expect(f, UNETMM_WIRE_VOID, PEER_MY + i);
    }
    peer_silence(f);
}

static void give_write(Fix *f, uint32_t psn, uint32_t region, uint32_t len)
{
    uint8_t data[PEER_MTU] = { 0 };

    peer_give(f, (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_WRITE, .psn = psn, .handle = region,
        .offset = PEER_KEY,
        .flags = UNETMM_WIRE_F_LAST | UNETMM_WIRE_F_ASK }, data, len);
}

TEST_OF(test_received, Fix *f, fix_test)
{
    peer_open(f);
    expect_count(&f->h, rel_acks_sent, 1,
                 give_write(f, PEER_YOURS, PEER_REGION, 100));
    peer_expect_ack(f, PEER_YOURS + 1, 0, UNETMM_ACK_OK, 0);
    /* Before its turn: the whole of a WRITE, and the head of a READ. */
    expect_count(&f->h, rel_kept, 1,
                 give_write(f, PEER_YOURS + 2, PEER_REGION, 100));
    expect_count(&f->h, rel_kept, 1, peer_give(f, (struct unetmm_frame) {
        .opcode = UNETMM_WIRE_READ, .psn = PEER_YOURS + 3,
        .handle = PEER_REGION, .offset = PEER_KEY, .imm = 100 }, NULL, 0));
    fake_wire_clear(&f->h);
    expect_count(&f->h, rel_rejects_sent, 1,
        expect_count(&f->h, rel_acks_sent, 1,
                     give_write(f, PEER_YOURS + 1, PEER_REGION + 1, 100)));
    peer_expect_ack(f, PEER_YOURS + 1, 3, UNETMM_ACK_REJECTED,
                    UNETMM_WHY_REGION);
}

static void tlb_of_one(UnetmmParams *p)
{
    p->tlb_sets = p->tlb_ways = 1;
    p->tlb_victims = 2;
}

TEST_OF(test_tlb, Fix *f, fix_test_with, tlb_of_one)
{
    expect_count(&f->h, tlb_inserts, 2,
                 fake_insert(f->s1, PEER_PAGE(0), 2, NULL));
    expect_count(&f->h, tlb_hits, 0,
        expect_count(&f->h, tlb_victim_hits, 1, fix_send(f, &f->a, 1, 100, 1)));
    expect_count(&f->h, tlb_hits, 1,
        expect_count(&f->h, tlb_victim_hits, 0, fix_send(f, &f->a, 1, 100, 2)));
    expect_count(&f->h, tlb_inserts, 1,
                 fake_insert(f->s1, PEER_PAGE(2), 1, NULL));
}

static void control(FakeEp *e, uint64_t at, struct unetmm_cqe *cqe)
{
    uint32_t slot = e->cq_cons & ((1u << e->cq_log2) - 1);
    struct unetmm_sqe sqe = {
        .opcode = UNETMM_OP_CONTROL, .nsegs = 1, .cookie = 7,
        .remote = unetmm_mac_to_u64(fake_peer_mac),
        .seg = { { .addr = at, .len = 32 } },
    };

    fake_send_sqe(e, sqe);
    fake_ring_bell(e);
    fake_read(e->host, e->cq + slot * sizeof(*cqe), cqe, sizeof(*cqe));
    e->cq_cons++;
    fake_user_word(e, offsetof(struct unetmm_ep_user, cq_cons), e->cq_cons);
    fake_wire_clear(e->host);
}

/*
 * x-lie: a completion of the driver's endpoint has one bit that is wrong, one
 * of those that say how it ended, but never its phase; a process's is true.
 */
TEST_OF(test_lies, Fix *f, fix_test)
{
    const unsigned data = offsetof(struct unetmm_cqe, data);
    const unsigned flags = offsetof(struct unetmm_cqe, flags);
    unsigned seen[8 * sizeof(struct unetmm_cqe)] = { 0 };
    struct unetmm_cqe due, is;
    FakeEp e;
    uint64_t at;

    fake_ep_open(&e, &f->d, 0, fake_space(&f->d, 0, UNETMM_SOURCE_DIRECT, 0));
    at = fake_alloc(&f->h, 32, 8, FAKE_R);
    control(&e, at, &due);
    unetmm_core_set_seed(&f->h.core, 42);
    f->h.core.knobs.lie = 1000000;
    for (unsigned i = 0; i < 4000; i++) {
        uint8_t phase = UNETMM_PHASE_OF(e.cq_cons, e.cq_log2);
        unsigned wrong = 0;

        expect_count(&f->h, inj_lie, 1, control(&e, at, &is));
        ((uint8_t *)&due)[flags] = phase;
        for (unsigned bit = 0; bit < G_N_ELEMENTS(seen); bit++) {
            unsigned n = (((uint8_t *)&is)[bit / 8] ^
                          ((uint8_t *)&due)[bit / 8]) >> bit % 8 & 1;

            seen[bit] += n;
            wrong += n;
        }
        assert_int_equal(wrong, 1);
    }
    for (unsigned bit = 0; bit < G_N_ELEMENTS(seen); bit++) {
        assert_int_equal(seen[bit] > 0, bit < 8 * data || bit > 8 * flags);
    }
    expect_count(&f->h, inj_lie, 0, fix_send(f, &f->b, 0, 10, 1));
}
