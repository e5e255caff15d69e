/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Operations by key: how many descriptors they are, and when there is room for them. */
#include "../one_test.h"
#include <errno.h>
#include <string.h>

#include "provider.h"

#define LONGEST     ((size_t)UMFI_MAX_RMA)
#define PART        ((size_t)UNETMM_MAX_MESSAGE)

/* Of the library, of init.c and of cq.c, which are not here. */
const uint32_t unetmm_inline_1_ = 1;
struct fi_provider umfi_provider = { .name = UMFI_NAME };

void umfi_cq_push_entry(struct umfi_cq *cq, const struct umfi_entry *entry)
{
    fail();
}

static struct unetmm_sqe sq[UMFI_RMA_SLOTS];
static struct unetmm_ep_index indices;
static volatile uint32_t doorbell;
static const uint32_t mtu = UNETMM_MAX_MESSAGE;

/* The library calls it when the queue is full. */
static int no_room(struct unetmm_ep *ep, const struct iovec *iov, unsigned n, size_t len,
                   int is_inline)
{
    return -EAGAIN;
}

static const struct unetmm_rare_ops_ rare = { .queue = no_room };
static struct unetmm_ep card_ep = {
    .rare = &rare,
    .alive = 1,
    .index = &indices,
    .sq = (unetmm_u8 *)sq,
    .doorbell = &doorbell,
    .channels = 1,
    .channel_mtu = &mtu,
};
static struct umfi_op op;
static struct umfi_domain domain;
static struct umfi_port port = { .domain = &domain, .ep = &card_ep };
static struct umfi_ep ep = {
    .domain = &domain, .port = &port, .state = UMFI_CONNECTED,
};

/* An empty queue of so many slots; their number is a power of two. */
static void have_slots(uint32_t slots)
{
    port.slots = slots;
    port.tx.free = &op;
    card_ep.sq_mask = slots - 1;
    card_ep.sq_prod = card_ep.sq_cons = 0;
    memset(&indices, 0, sizeof(indices));
}

static ssize_t write_bytes(size_t len)
{
    /* The card reads it, not the library. */
    return umfi_rma_ops.write(&ep.fid, (void *)PART, len, NULL, 0, 0, 1, &ep);
}

TEST(longest_operation, cmocka_unit_test)
{
    have_slots(UMFI_RMA_SLOTS);
    assert_int_equal(write_bytes(LONGEST), 0);
    assert_int_equal(op.parts, LONGEST / PART);
    assert_int_equal(card_ep.sq_prod, LONGEST / PART);
    have_slots(UMFI_RMA_SLOTS);
    assert_int_equal(write_bytes(LONGEST + 1), -FI_EINVAL);
}

/* The sum of the lengths wraps. */
TEST(pieces_too_long, cmocka_unit_test)
{
    const struct iovec iov[3] = {
        { (void *)PART, SIZE_MAX / 2 + 1 }, { (void *)PART, SIZE_MAX / 2 + 1 }, { (void *)PART, 8 },
    };

    have_slots(UMFI_RMA_SLOTS);
    for (size_t n = 2; n <= 3; n++) {
        assert_int_equal(umfi_rma_ops.readv(&ep.fid, iov, NULL, n, 0, 0, 1, &ep), -FI_EINVAL);
        assert_int_equal(umfi_rma_ops.writev(&ep.fid, iov, NULL, n, 0, 0, 1, &ep), -FI_EINVAL);
    }
    assert_int_equal(card_ep.sq_prod, 0);
}

/* A write is tried again if the queue has no room now, and refused if it never has. */
TEST(short_queue, cmocka_unit_test)
{
    have_slots(16);
    assert_int_equal(write_bytes(8 * PART + 1), -FI_EMSGSIZE);
    assert_ptr_equal(port.tx.free, &op);
    assert_int_equal(write_bytes(8 * PART), 0);
    assert_int_equal(op.parts, 8);
    port.tx.free = &op;
    assert_int_equal(write_bytes(4 * PART + 1), -FI_EAGAIN);
    assert_ptr_equal(port.tx.free, &op);
    assert_int_equal(write_bytes(4 * PART), 0);
    assert_int_equal(op.parts, 4);
}

/* The card takes some parts, and then no more: those fail with the operation. */
TEST(refused_part, cmocka_unit_test)
{
    struct umfi_op *other = &(struct umfi_op) { .next = NULL };

    have_slots(16);
    port.slots = 64;
    op.next = other;
    assert_int_equal(write_bytes(20 * PART), 0);
    assert_int_equal(op.parts, 16);
    assert_int_equal(op.status, UNETMM_ST_BAD_DESC);
    assert_true(op.busy);
    assert_ptr_equal(port.tx.free, other);
    /* None of them: the call fails. */
    assert_int_equal(write_bytes(2 * PART), -FI_EAGAIN);
    assert_ptr_equal(port.tx.free, other);
    assert_false(other->busy);
    op.next = NULL;
}
