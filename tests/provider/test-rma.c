/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Operations by key: how many descriptors they are, and when there is room for them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "provider.h"

#define LONGEST     ((size_t)UMFI_MAX_RMA)
#define PART        ((size_t)UNETMM_MAX_MESSAGE)

/* Of the library, of init.c and of cq.c, which are not here. */
const uint32_t unetmm_inline_1_ = 1;
struct fi_provider umfi_provider = { .name = UMFI_NAME };

void umfi_cq_push(struct umfi_cq *cq, const struct umfi_entry *entry)
{
    fail();
}

static struct unetmm_sqe sq[UMFI_RMA_SLOTS];
static struct unetmm_ep_index indices;
static volatile uint32_t doorbell;
static const uint32_t mtu = UNETMM_MAX_MESSAGE;
static struct unetmm_ep card_ep = {
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
    port.free = &op;
    card_ep.sq_mask = slots - 1;
    card_ep.sq_prod = card_ep.sq_cons = 0;
    memset(&indices, 0, sizeof(indices));
}

static ssize_t write_bytes(size_t len)
{
    /* The card reads it, not the library. */
    return umfi_rma_ops.write(&ep.fid, (void *)PART, len, NULL, 0, 0, 1, &ep);
}

static void longest_operation(void **state)
{
    have_slots(UMFI_RMA_SLOTS);
    assert_int_equal(write_bytes(LONGEST), 0);
    assert_int_equal(op.parts, LONGEST / PART);
    assert_int_equal(card_ep.sq_prod, LONGEST / PART);
    have_slots(UMFI_RMA_SLOTS);
    assert_int_equal(write_bytes(LONGEST + 1), -FI_EINVAL);
}

/* One that the queue has no room for now is tried again, and one for ever is not. */
static void short_queue(void **state)
{
    have_slots(16);
    assert_int_equal(write_bytes(8 * PART + 1), -FI_EMSGSIZE);
    assert_ptr_equal(port.free, &op);
    assert_int_equal(write_bytes(8 * PART), 0);
    assert_int_equal(op.parts, 8);
    port.free = &op;
    assert_int_equal(write_bytes(4 * PART + 1), -FI_EAGAIN);
    assert_ptr_equal(port.free, &op);
    assert_int_equal(write_bytes(4 * PART), 0);
    assert_int_equal(op.parts, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(longest_operation),
        cmocka_unit_test(short_queue),
    };

    return cmocka_run_group_tests_name("rma", tests, NULL, NULL);
}
