/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Receive buffers: the part of each that the card is given. */
#include "../one_test.h"

#include "provider.h"

#define LONGEST ((size_t)UNETMM_MAX_MESSAGE)

/* Of the library, which is not here. */
const uint32_t unetmm_inline_1_ = 1;

static struct {
    void *buf;
    size_t len;
    struct umfi_op *op;
} posted;

static int post(struct unetmm_ep *ep, void *buf, size_t len, uint64_t user_data,
                unsigned flags)
{
    posted.buf = buf;
    posted.len = len;
    posted.op = (struct umfi_op *)(uintptr_t)user_data;
    return 0;
}

/* An endpoint each of whose calls is the one above. */
static const struct unetmm_rare_ops_ rare = { .post = post };
static struct unetmm_ep card_ep = {
    .alive = 1,
    .source = (const struct unetmm_source_ops_ *)&rare,
    .rare = &rare,
    .max_buffer_pages = UINT32_MAX,
};
static char page[UNETMM_PAGE_BYTES] __attribute__((aligned(UNETMM_PAGE_BYTES)));
static struct umfi_op op;
static struct umfi_domain domain;
static struct umfi_port port = { .domain = &domain, .ep = &card_ep };
static struct umfi_ep ep = { .domain = &domain, .port = &port };

static void require_posted(void *buf, size_t len, void *card_buf, size_t card_len)
{
    /* No data fits into a buffer at NULL. */
    size_t room = buf ? len : 0;

    port.rx.free = &op;
    assert_int_equal(umfi_msg_ops.recv(&ep.fid, buf, len, NULL, 0, &ep), 0);
    assert_ptr_equal(posted.buf, card_buf);
    assert_int_equal(posted.len, card_len);
    /* The operation knows all of it. */
    assert_ptr_equal(posted.op, &op);
    assert_int_equal(op.len, room);
    assert_ptr_equal(op.context, &ep);
}

TEST(whole_buffer, cmocka_unit_test)
{
    require_posted(page, 1, page, 1);
    require_posted(page, LONGEST, page, LONGEST);
    require_posted(page + 100, LONGEST - 100, page + 100, LONGEST - 100);
}

TEST(empty_buffer, cmocka_unit_test)
{
    require_posted(page, 0, &port.scratch, 1);
    require_posted(NULL, 0, &port.scratch, 1);
    require_posted(NULL, 1024, &port.scratch, 1);
}

/* More pages than the longest message has. */
TEST(too_many_pages, cmocka_unit_test)
{
    require_posted(page, LONGEST + 1, page, LONGEST);
    require_posted(page, (size_t)1 << 40, page, LONGEST);
    require_posted(page + 100, LONGEST, page + 100, LONGEST - 100);
    require_posted(page + 4095, 2 * LONGEST, page + 4095, LONGEST - 4095);
}
