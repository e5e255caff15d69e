/*
 * unetmm: commands, each with each bad argument
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "peer.h"

static uint8_t cmd(Fix *f, struct unetmm_cmd c)
{
    return fake_command(&f->d, c, NULL);
}

TEST_OF(test_nop_and_unknown, Fix *f, fix_test)
{
    struct unetmm_cmd c = { .opcode = UNETMM_CMD_NOP };

    assert_int_equal(cmd(f, c), UNETMM_CS_OK);
    for (unsigned op = UNETMM_NUM_CMD; op < 256; op++) {
        c.opcode = op;
        memset(c.raw, op, sizeof(c.raw));
        expect_count(&f->h, err_command, 1,
                     assert_int_equal(cmd(f, c), UNETMM_CS_BAD_OPCODE));
    }
}

static struct unetmm_cmd space_cmd(uint16_t id, uint8_t source,
                                   uint8_t levels, uint64_t table)
{
    return (struct unetmm_cmd) {
        .opcode = UNETMM_CMD_SPACE_CREATE, .space = id,
        .space_create = { .source = source, .levels = levels,
                          .table = table },
    };
}

TEST_OF(test_space_create, Fix *f, fix_test)
{
    static const struct {
        uint16_t id;
        uint8_t source, levels;
        uint64_t table;
        uint8_t status;
    } row[] = {
        { 8, UNETMM_SOURCE_TLB, 0, 0, UNETMM_CS_BAD_ID },
        { 0xffff, UNETMM_SOURCE_TLB, 0, 0, UNETMM_CS_BAD_ID },
        { 1, UNETMM_SOURCE_TLB, 0, 0, UNETMM_CS_EXISTS },
        { 3, UNETMM_SOURCE_UTLB, 0, 0, UNETMM_CS_BAD_ARG },
        { 3, UNETMM_SOURCE_UTLB, 7, 0x1000, UNETMM_CS_BAD_ARG },
        { 3, UNETMM_SOURCE_SHADOW, 0, 0, UNETMM_CS_BAD_ARG },
        { 3, UNETMM_SOURCE_SHADOW, 7, 0x1000, UNETMM_CS_BAD_ARG },
        { 0, UNETMM_SOURCE_SHADOW, 1, 0x1000, UNETMM_CS_BAD_ARG },
        { 3, UNETMM_SOURCE_ODP, 0, 0, UNETMM_CS_BAD_ARG },
        { 3, UNETMM_SOURCE_ODP, 7, 0x1000, UNETMM_CS_BAD_ARG },
        { 0, UNETMM_SOURCE_ODP, 1, 0x1000, UNETMM_CS_BAD_ARG },
        { 3, 0xff, 0, 0, UNETMM_CS_BAD_ARG },
        { 3, 255, 0, 0, UNETMM_CS_BAD_ARG },
        { 3, UNETMM_SOURCE_DIRECT, 0, 0, UNETMM_CS_BAD_ARG },
        { 0, UNETMM_SOURCE_TLB, 0, 0, UNETMM_CS_BAD_ARG },
        { 0, UNETMM_SOURCE_PINNED, 1, 0x1000, UNETMM_CS_BAD_ARG },
        { 3, UNETMM_SOURCE_TLB, 1, 0x1000, UNETMM_CS_BAD_ARG },
        { 3, UNETMM_SOURCE_TLB, 0, 0x1000, UNETMM_CS_BAD_ARG },
        { 3, UNETMM_SOURCE_PINNED, 0, 0, UNETMM_CS_BAD_ARG },
        { 3, UNETMM_SOURCE_PINNED, 7, 0x1000, UNETMM_CS_BAD_ARG },
        { 3, UNETMM_SOURCE_PINNED, 255, 0x1000, UNETMM_CS_BAD_ARG },
        { 3, UNETMM_SOURCE_PINNED, 3, 0x1008, UNETMM_CS_BAD_ARG },
        { 0, UNETMM_SOURCE_DIRECT, 0, 0, UNETMM_CS_OK },
        { 0, UNETMM_SOURCE_DIRECT, 0, 0, UNETMM_CS_EXISTS },
        { 3, UNETMM_SOURCE_PINNED, 6, 0x1000, UNETMM_CS_OK },
        { 7, UNETMM_SOURCE_TLB, 0, 0, UNETMM_CS_OK },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(row); i++) {
        assert_int_equal(cmd(f, space_cmd(row[i].id, row[i].source,
                                          row[i].levels, row[i].table)),
                         row[i].status);
    }
}

TEST_OF(test_space_destroy, Fix *f, fix_test)
{
    struct unetmm_cmd c = { .opcode = UNETMM_CMD_SPACE_DESTROY, .space = 1 };

    assert_int_equal(cmd(f, c), UNETMM_CS_BUSY);
    assert_int_equal(fake_ep_destroy(&f->a), UNETMM_CS_OK);
    assert_int_equal(cmd(f, c), UNETMM_CS_OK);
    assert_int_equal(cmd(f, c), UNETMM_CS_BAD_ID);
    c.space = 5;
    assert_int_equal(cmd(f, c), UNETMM_CS_BAD_ID);
    c.space = 8;
    assert_int_equal(cmd(f, c), UNETMM_CS_BAD_ID);
    c.space = 0xffff;
    assert_int_equal(cmd(f, c), UNETMM_CS_BAD_ID);
    assert_int_equal(cmd(f, space_cmd(1, UNETMM_SOURCE_TLB, 0, 0)),
                     UNETMM_CS_OK);
}

TEST_OF(test_ep_create_bad, Fix *f, fix_test)
{
    struct unetmm_cmd good;
    FakeEp e;

    fake_ep_init(&e, &f->d, 3, f->s1);
    fake_ep_alloc(&e);
    good = fake_ep_cmd(&e);
#define BAD(change, expected) do { \
        struct unetmm_cmd c = good; \
        struct unetmm_cmd_ep *p = &c.ep_create; \
        (void)p; \
        change; \
        expect_count(&f->h, err_command, 1, \
                     assert_int_equal(cmd(f, c), expected)); \
    } while (0)
    BAD(c.ep = 8, UNETMM_CS_BAD_ID);
    BAD(c.ep = 0xffff, UNETMM_CS_BAD_ID);
    BAD(c.ep = 1, UNETMM_CS_EXISTS);
    BAD(c.ep = 0, UNETMM_CS_BAD_ARG);
    BAD(c.space = 8, UNETMM_CS_BAD_ID);
    BAD(c.space = 6, UNETMM_CS_BAD_ID);
    BAD(c.space = 0, UNETMM_CS_BAD_ID);
    for (unsigned bad = 0; bad < 256; bad += bad == 0 ? 15 : 16) {
        BAD(p->sq_log2 = bad, UNETMM_CS_BAD_ARG);
        BAD(p->fq_log2 = bad, UNETMM_CS_BAD_ARG);
        BAD(p->cq_log2 = bad, UNETMM_CS_BAD_ARG);
    }
    for (unsigned bad = unetmm_tables.npolicies; bad < 256; bad++) {
        BAD(p->policy = bad, UNETMM_CS_BAD_ARG);
    }
    /* There is no system buffer, and there are no bits. */
    BAD(p->policy = UNETMM_POLICY_REDIRECT, UNETMM_CS_BAD_ARG);
    BAD(p->policy = UNETMM_POLICY_BACKUP, UNETMM_CS_BAD_ARG);
    BAD(p->pretranslate = 5, UNETMM_CS_BAD_ARG);
    BAD(p->pretranslate = 255, UNETMM_CS_BAD_ARG);
    for (unsigned bit = 1; bit < 64; bit <<= 1) {
        BAD(p->sq_base += bit, UNETMM_CS_BAD_ARG);
        BAD(p->cq_base += bit, UNETMM_CS_BAD_ARG);
        BAD(p->index += bit, UNETMM_CS_BAD_ARG);
    }
    BAD(p->index += 64, UNETMM_CS_BAD_ARG);
    for (unsigned bit = 1; bit < 32; bit <<= 1) {
        BAD(p->fq_base += bit, UNETMM_CS_BAD_ARG);
    }
#undef BAD
    assert_int_equal(cmd(f, space_cmd(0, UNETMM_SOURCE_DIRECT, 0, 0)),
                     UNETMM_CS_OK);
    good.space = 0;
    assert_int_equal(cmd(f, good), UNETMM_CS_BAD_ARG);
    good.space = 1;
    assert_int_equal(cmd(f, good), UNETMM_CS_OK);
    assert_int_equal(fake_card(&e).state, UNETMM_EP_RUNNING);
}

/* An index block that the bus refuses: the endpoint is stopped at birth. */
TEST_OF(test_ep_create_refused_memory, Fix *f, fix_test)
{
    struct unetmm_notify n;
    FakeEp e;

    fake_ep_init(&e, &f->d, 3, f->s1);
    fake_ep_alloc(&e);
    f->h.refuse_first = e.index;
    f->h.refuse_last = e.index + 127;
    fake_ep_create(&e);
    assert_true(fake_notification(&f->d, &n));
    assert_int_equal(n.type, UNETMM_NOTIFY_EP_ERROR);
    assert_int_equal(n.ep, 3);
    assert_true(fake_reg(&f->h, UNETMM_REG_EVENTS) & UNETMM_EVENT_EP_ERROR);
    assert_int_equal(fake_ep_destroy(&e), UNETMM_CS_OK);
}

TEST_OF(test_ep_destroy_bad, Fix *f, fix_test)
{
    struct unetmm_cmd c = { .opcode = UNETMM_CMD_EP_DESTROY };
    static const uint16_t bad[] = { 0, 3, 7, 8, 0xffff };

    for (unsigned i = 0; i < G_N_ELEMENTS(bad); i++) {
        c.ep = bad[i];
        assert_int_equal(cmd(f, c), UNETMM_CS_BAD_ID);
    }
    assert_int_equal(fake_ep_destroy(&f->a), UNETMM_CS_OK);
    assert_int_equal(fake_ep_destroy(&f->a), UNETMM_CS_BAD_ID);
    expect_count(&f->h, err_doorbell, 1, fake_ring_bell(&f->a));
}

/* Closing the last endpoint of a space drops the space's translations. */
TEST_OF(test_last_endpoint_drops_translations, Fix *f, fix_test)
{
    FakeEp c;

    fake_ep_open(&c, &f->d, 3, f->s1);
    assert_int_equal(fake_insert(f->s1, FIX_VA, 5, NULL), UNETMM_CS_OK);
    assert_int_equal(fake_insert(f->s2, FIX_VA, 7, NULL), UNETMM_CS_OK);
    assert_int_equal(f->h.core.source->tlb.used, 12);
    assert_int_equal(fake_ep_destroy(&f->a), UNETMM_CS_OK);
    assert_int_equal(f->h.core.source->tlb.used, 12);
    assert_int_equal(fake_ep_destroy(&c), UNETMM_CS_OK);
    assert_int_equal(f->h.core.source->tlb.used, 7);
    fake_serve(&f->d);
    assert_int_equal(f->d.evictions, 0);
}

TEST_OF(test_channel_bad, Fix *f, fix_test)
{
    const uint8_t *mac = fake_peer_mac;
    uint8_t group[6] = { 1, 0, 0, 0, 0, 0 };
    struct unetmm_cmd c = {
        .opcode = UNETMM_CMD_CHANNEL_CLEAR, .ep = 1,
        .channel.channel = 16,
    };
    FakeEp none = f->a;

    assert_int_equal(fake_channel(&f->a, 16, mac, 1, 1, 1500),
                     UNETMM_CS_BAD_ID);
    assert_int_equal(fake_channel(&f->a, 0xffff, mac, 1, 1, 1500),
                     UNETMM_CS_BAD_ID);
    assert_int_equal(fake_channel(&f->a, 5, mac, 1, 1, 255),
                     UNETMM_CS_BAD_ARG);
    assert_int_equal(fake_channel(&f->a, 5, mac, 1, 1, 0),
                     UNETMM_CS_BAD_ARG);
    assert_int_equal(fake_channel(&f->a, 5, mac, 1, 1, 65537),
                     UNETMM_CS_BAD_ARG);
    assert_int_equal(fake_channel(&f->a, 5, group, 1, 1, 1500),
                     UNETMM_CS_BAD_ARG);
    none.id = 3;
    assert_int_equal(fake_channel(&none, 5, mac, 1, 1, 1500),
                     UNETMM_CS_BAD_ID);
    none.id = 0;
    assert_int_equal(fake_channel(&none, 5, mac, 1, 1, 1500),
                     UNETMM_CS_BAD_ID);
    none.id = 0xffff;
    assert_int_equal(fake_channel(&none, 5, mac, 1, 1, 1500),
                     UNETMM_CS_BAD_ID);
    assert_int_equal(cmd(f, c), UNETMM_CS_BAD_ID);
    c.channel.channel = 5;
    assert_int_equal(cmd(f, c), UNETMM_CS_OK);
    c.ep = 9;
    assert_int_equal(cmd(f, c), UNETMM_CS_BAD_ID);
    assert_int_equal(fake_channel(&f->a, 5, mac, 1, 1, 256), UNETMM_CS_OK);
    assert_int_equal(fake_channel(&f->a, 15, mac, 1, 1, 65536), UNETMM_CS_OK);
}

TEST_OF(test_reply_bad, Fix *f, fix_test)
{
    struct unetmm_cmd good = {
        .opcode = UNETMM_CMD_FAULT_REPLY, .space = 1,
        .reply = { .fault_id = UNETMM_FAULT_NONE, .npages = 1,
                   .vaddr = FIX_VA, .list = f->d.list },
    };
#define BAD(change, expected) do { \
        struct unetmm_cmd c = good; \
        struct unetmm_cmd_reply *p = &c.reply; \
        (void)p; \
        change; \
        assert_int_equal(cmd(f, c), expected); \
    } while (0)
    BAD(c.space = 3, UNETMM_CS_BAD_ID);
    BAD(c.space = 8, UNETMM_CS_BAD_ID);
    BAD(c.space = 0xffff, UNETMM_CS_BAD_ID);
    BAD(p->status = 4, UNETMM_CS_BAD_ARG);
    BAD(p->status = 255, UNETMM_CS_BAD_ARG);
    BAD(p->npages = 513, UNETMM_CS_BAD_ARG);
    BAD(p->npages = 0xffff, UNETMM_CS_BAD_ARG);
    BAD(p->vaddr += 1, UNETMM_CS_BAD_ARG);
    BAD(p->vaddr += 2048, UNETMM_CS_BAD_ARG);
    BAD((p->vaddr = -(uint64_t)4096, p->npages = 2), UNETMM_CS_BAD_ARG);
    BAD((p->status = UNETMM_REPLY_ERROR, p->error = 0), UNETMM_CS_BAD_ARG);
    BAD((p->status = UNETMM_REPLY_ERROR, p->error = UNETMM_NUM_ST),
        UNETMM_CS_BAD_ARG);
    BAD((p->status = UNETMM_REPLY_ERROR, p->error = 1), UNETMM_CS_BAD_ARG);
    BAD(p->status = UNETMM_REPLY_DEFERRED, UNETMM_CS_BAD_ARG);
    BAD(p->status = UNETMM_REPLY_RETRY, UNETMM_CS_BAD_ARG);
    BAD(p->list = 0x10, UNETMM_CS_DMA);
    BAD(p->list = UINT64_MAX - 2, UNETMM_CS_DMA);
    BAD(p->fault_id = 0, UNETMM_CS_STALE);
    BAD(p->fault_id = 0x0001ffff, UNETMM_CS_STALE);
    BAD(p->fault_id = 8 * UNETMM_EP_MISSES, UNETMM_CS_STALE);
    /* The entry of a page has to be valid. */
    fake_write32(&f->h, f->d.list, 0x1000);
    BAD((void)0, UNETMM_CS_BAD_ARG);
#undef BAD
    assert_int_equal(f->h.core.source->tlb.used, 0);
    /* The last page of all may be given; none at all is allowed. */
    fake_write32(&f->h, f->d.list, 0x1003);
    good.reply.vaddr = -(uint64_t)4096;
    assert_int_equal(cmd(f, good), UNETMM_CS_OK);
    good.reply.npages = 0;
    assert_int_equal(cmd(f, good), UNETMM_CS_OK);
    assert_int_equal(f->h.core.source->tlb.used, 1);
}

/* A source that takes no translations refuses them. */
TEST_OF(test_reply_to_table_source, Fix *f, fix_test)
{
    struct unetmm_cmd c = {
        .opcode = UNETMM_CMD_FAULT_REPLY, .space = 3,
        .reply = { .fault_id = UNETMM_FAULT_NONE, .npages = 1,
                   .list = f->d.list },
    };

    assert_int_equal(cmd(f, space_cmd(3, UNETMM_SOURCE_PINNED, 1, 0x1000)),
                     UNETMM_CS_OK);
    assert_int_equal(cmd(f, c), UNETMM_CS_BAD_ARG);
    assert_int_equal(cmd(f, space_cmd(0, UNETMM_SOURCE_DIRECT, 0, 0)),
                     UNETMM_CS_OK);
    c.space = 0;
    assert_int_equal(cmd(f, c), UNETMM_CS_BAD_ARG);
}

/*
 * Created and destroyed over and over within one run of the engine, with work
 * in its queues each time: the list of endpoints to serve holds it once, and
 * nobody else falls out of the list.
 */
/* The sources and channels of each policy, by the specification. */
static const struct {
    bool fixed, brought, raw, type[2];
} allowed[] = {
    [UNETMM_POLICY_DROP] = { 1, 1, 1, { 1, 1 } },
    [UNETMM_POLICY_SKIP] = { 1, 1, 0, { 1, 1 } },
    [UNETMM_POLICY_REDIRECT] = { 0, 1, 0, { 0, 1 } },
    [UNETMM_POLICY_RNR] = { 0, 1, 0, { 0, 1 } },
    [UNETMM_POLICY_BACKUP] = { 0, 1, 1, { 1, 0 } },
};

static void try_types(Fix *f, const FakeEp *e)
{
    for (unsigned type = 0; type < 2; type++) {
        struct unetmm_cmd c = {
            .opcode = UNETMM_CMD_CHANNEL_SET, .ep = e->id,
            .channel = {
                .channel = type, .type = type, .mtu = 1500,
                .recv_credits = e->policy == UNETMM_POLICY_REDIRECT,
            },
        };
        bool ok = allowed[e->policy].type[type] &&
                  !(e->flags & UNETMM_EP_F_RAW);

        assert_int_equal(cmd(f, c), ok ? UNETMM_CS_OK : UNETMM_CS_BAD_ARG);
    }
}

static void try_policies(Fix *f, FakeSpace *s, bool brought, uint8_t flags)
{
    for (unsigned policy = 0; policy < G_N_ELEMENTS(allowed); policy++) {
        bool ok = (brought ? allowed[policy].brought :
                             allowed[policy].fixed) &&
                  (!flags || allowed[policy].raw);
        FakeEp e;

        fake_ep_init(&e, &f->d, 3, s);
        fake_ep_alloc(&e);
        e.policy = policy;
        e.flags = flags;
        e.backup = policy == UNETMM_POLICY_BACKUP ? 8 : 0;
        assert_int_equal(cmd(f, fake_ep_cmd(&e)),
                         ok ? UNETMM_CS_OK : UNETMM_CS_BAD_ARG);
        if (ok) {
            try_types(f, &e);
            assert_int_equal(fake_ep_destroy(&e), UNETMM_CS_OK);
        }
    }
}

TEST(test_policies, fix_test)
{
    static const struct {
        uint8_t source, levels;
        bool brought;
    } sources[] = {
        { UNETMM_SOURCE_PINNED, 1, false }, { UNETMM_SOURCE_UTLB, 1, false },
        { UNETMM_SOURCE_TLB, 0, true }, { UNETMM_SOURCE_KTLB, 1, true },
        { UNETMM_SOURCE_SHADOW, 1, true }, { UNETMM_SOURCE_ODP, 1, true },
    };
    struct unetmm_cmd gone = { .opcode = UNETMM_CMD_SPACE_DESTROY,
                               .space = 3 };
    Fix *f = *state;

    assert_int_equal(fake_sysbuf(&f->d, 4, 9000), UNETMM_CS_OK);
    for (unsigned i = 0; i < G_N_ELEMENTS(sources); i++) {
        FakeSpace *s = fake_space(&f->d, 3, sources[i].source,
                                  sources[i].levels);

        try_policies(f, s, sources[i].brought, 0);
        try_policies(f, s, sources[i].brought, UNETMM_EP_F_RAW);
        assert_int_equal(cmd(f, gone), UNETMM_CS_OK);
        fake_space_gone(s);
    }
}

TEST_OF(test_create_destroy_storm, Fix *f, fix_test)
{
    struct unetmm_cmd destroy = { .opcode = UNETMM_CMD_EP_DESTROY, .ep = 3 };
    struct unetmm_cmd_done done;
    FakeEp e;

    fake_ep_init(&e, &f->d, 3, f->s1);
    fake_ep_alloc(&e);
    fake_post(&e, FIX_VA, 100, 1);
    fake_send_inline(&f->a, FIX_WIRE, 1, 8, 1, 0);
    fake_send_inline(&f->b, FIX_WIRE, 2, 8, 2, 0);
    fake_set_reg(&f->h, UNETMM_REG_CTRL, 0);
    fake_ring_bell(&f->a);
    fake_ring_bell(&f->b);
    for (unsigned i = 0; i < 20; i++) {
        fake_issue(&f->d, fake_ep_cmd(&e));
        fake_issue(&f->d, destroy);
    }
    fake_set_reg(&f->h, UNETMM_REG_CTRL, 1);
    for (unsigned i = 0; i < 40; i++) {
        assert_true(fake_done(&f->d, &done));
        assert_int_equal(done.status, UNETMM_CS_OK);
    }
    assert_int_equal(f->h.core.lists->ready.used, 0);
    fake_check_counts(&f->h.core);
    fake_expect(&f->a, UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    fake_expect(&f->b, UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
}

/* ---- Endpoints of which nothing can be asked any more ------------------- */

#define WINDOW_PAGE 1

/* Commands for an endpoint with an import and a reliable channel. */
static const struct unetmm_cmd asked[] = {
    { .opcode = UNETMM_CMD_CHANNEL_SET,
      .channel = { .channel = 7, .peer_mac = { 2, 0, 0, 0, 0, 9 },
                   .peer_ep = 3, .peer_channel = 7, .mtu = 1000 } },
    { .opcode = UNETMM_CMD_CHANNEL_CLEAR, .channel = { .channel = 7 } },
    { .opcode = UNETMM_CMD_IMPORT_SET,
      .import = { .import = 3, .channel = PEER_CH, .region = PEER_FAR,
                  .key = PEER_FAR_KEY, .length = PEER_FAR_LENGTH,
                  .rights = UNETMM_RIGHT_ALL } },
    { .opcode = UNETMM_CMD_IMPORT_CLEAR, .import = { .import = 3 } },
    { .opcode = UNETMM_CMD_WINDOW_SET,
      .window = { .page = WINDOW_PAGE, .npages = 1, .import = PEER_IMPORT } },
    { .opcode = UNETMM_CMD_WINDOW_CLEAR,
      .window = { .page = WINDOW_PAGE, .npages = 1 } },
    { .opcode = UNETMM_CMD_PROXY_SET,
      .proxy = { .npages = 1, .kind = UNETMM_PROXY_TO,
                 .import = PEER_IMPORT } },
    { .opcode = UNETMM_CMD_PROXY_CLEAR, .proxy = { .npages = 1 } },
};

static void ask_all(Fix *f, uint16_t ep, bool answered)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(asked); i++) {
        struct unetmm_cmd c = asked[i];
        uint8_t status;

        c.ep = ep;
        status = cmd(f, c);
        /* Pages are cleared by their numbers, for any endpoint. */
        if (answered ? status != UNETMM_CS_OK :
            status != UNETMM_CS_BAD_ID && c.opcode != UNETMM_CMD_WINDOW_CLEAR &&
            c.opcode != UNETMM_CMD_PROXY_CLEAR) {
            fail_msg("command %u of endpoint %u: status %u", c.opcode, ep,
                     status);
        }
    }
}

static void slow(UnetmmParams *p)
{
    p->dma_page_ns = 1000;
}

TEST_OF(test_closing, Fix *f, fix_test_with, slow)
{
    struct unetmm_cmd gone = { .opcode = UNETMM_CMD_EP_DESTROY, .ep = 1 };
    struct unetmm_cmd_done done;

    peer_open(f);
    ask_all(f, 1, true);
    fake_insert(f->s1, PEER_PAGE(0), 1, NULL);
    fake_send_at(&f->a, FIX_WIRE, PEER_PAGE(0), 500, 1);
    fake_ring_bell(&f->a);
    fake_issue(&f->d, gone);
    assert_true(f->h.core.eps[1].closing);
    fake_migrate(&f->h);
    ask_all(f, 1, false);
    assert_int_equal(cmd(f, gone), UNETMM_CS_BAD_ID);
    fake_advance(&f->h, 1000);
    assert_true(fake_done(&f->d, &done));
    assert_int_equal(done.opcode, UNETMM_CMD_EP_DESTROY);
    assert_int_equal(done.status, UNETMM_CS_OK);
}

/* The control endpoint has no channels, and nothing that is reached by one. */
TEST_OF(test_control_endpoint, Fix *f, fix_test)
{
    FakeSpace *s = fake_space(&f->d, 0, UNETMM_SOURCE_DIRECT, 0);
    FakeEp control;

    peer_open(f);
    fake_ep_init(&control, &f->d, 0, s);
    control.policy = UNETMM_POLICY_DROP;
    fake_ep_create(&control);
    ask_all(f, 0, false);
    /* The same for numbers beyond the last endpoint. */
    ask_all(f, 6, false);
    ask_all(f, f->h.core.params.endpoints, false);
    ask_all(f, 0xffff, false);
    ask_all(f, 1, true);
}
