/*
 * unetmm: raw endpoints and flows: the owners of frames, and the rights to send
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#include "fixture.h"

#define VA          0x30000000ull
#define TX_PAGE     (VA)
#define RX_PAGE(n)  (VA + (uint64_t)(8 + 4 * (n)) * FAKE_PAGE)
#define RX_BYTES    (3 * FAKE_PAGE)
#define RAWS        3

static const uint8_t macs[RAWS][6] = {
    { 0x02, 0, 0, 0, 0, 1 }, { 0x02, 0, 0, 0, 0, 2 }, { 0x02, 0, 0, 0, 0, 3 },
};
static const uint8_t peer[6] = { 0x02, 0, 0, 0, 0, 0x99 };
static const uint8_t to_all[6] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
static const uint8_t group[6] = { 0x01, 0x00, 0x5e, 1, 2, 3 };

/* Three raw endpoints of a space each, with a buffer posted. */
typedef struct Raw {
    FakeHost h;
    FakeDriver d;
    FakeSpace *s[RAWS];
    FakeEp e[RAWS];
} Raw;

static uint8_t raw_create(FakeEp *ep, uint8_t flags)
{
    fake_ep_alloc(ep);
    ep->flags = UNETMM_EP_F_RAW | flags;
    return fake_command(ep->driver, fake_ep_cmd(ep), NULL);
}

static uint8_t flow(FakeEp *ep, uint32_t number, uint8_t kind, uint16_t value,
                    const uint8_t *mac, uint8_t flags)
{
    struct unetmm_cmd cmd = {
        .opcode = UNETMM_CMD_FLOW_SET, .ep = ep->id,
        .flow = { .flow = number, .kind = kind, .flags = flags,
                  .value = value },
    };

    if (mac) {
        memcpy(cmd.flow.mac, mac, 6);
    }
    return fake_command(ep->driver, cmd, NULL);
}

static uint8_t flow_clear(FakeDriver *d, uint32_t number)
{
    return fake_command(d, (struct unetmm_cmd) {
        .opcode = UNETMM_CMD_FLOW_CLEAR, .flow.flow = number }, NULL);
}

static int setup(void **state)
{
    Raw *r = test_calloc(1, sizeof(*r));
    UnetmmParams p;

    fake_params(&p);
    if (*state) {
        ((FixTune *)*state)(&p);
    }
    fake_host_init(&r->h, &p);
    fake_driver_init(&r->d, &r->h);
    fake_driver_start(&r->d);
    for (unsigned i = 0; i < RAWS; i++) {
        FakeEp *ep = &r->e[i];

        r->s[i] = fake_space(&r->d, 1 + i, UNETMM_SOURCE_ODP,
                             UNETMM_TABLE_LEVELS);
        fake_map(r->s[i], VA, 32 * FAKE_PAGE, FAKE_RW);
        fake_ep_init(ep, &r->d, 1 + i, r->s[i]);
        ep->policy = UNETMM_POLICY_DROP;
        assert_int_equal(raw_create(ep, 0), UNETMM_CS_OK);
        assert_int_equal(flow(ep, i, UNETMM_FLOW_MAC, 0, macs[i],
                              UNETMM_FLOW_F_BROADCAST |
                              UNETMM_FLOW_F_SOURCE), UNETMM_CS_OK);
        for (uint64_t at = VA; at < VA + 32 * FAKE_PAGE; at += FAKE_PAGE) {
            fake_table_set(r->s[i], at, fake_pte(fake_vpage(r->s[i], at)));
        }
        for (unsigned k = 0; k < 4; k++) {
            fake_post(ep, RX_PAGE(k), RX_BYTES, k);
        }
        fake_ring_bell(ep);
    }
    *state = r;
    return 0;
}

static int teardown(void **state)
{
    Raw *r = *state;

    fake_driver_free(&r->d);
    fake_host_free(&r->h);
    test_free(r);
    return 0;
}

/* ---- Frames ---- */

typedef struct Plain {
    uint8_t b[UNETMM_MAX_FRAME + 64];
    uint32_t bytes;
} Plain;

static void put16(uint8_t *at, uint16_t v)
{
    at[0] = v >> 8;
    at[1] = v;
}

static void plain(Plain *f, const uint8_t *to, const uint8_t *from,
                  uint16_t type, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++) {
        f->b[i] = i * 7 + bytes;
    }
    f->bytes = bytes;
    memcpy(f->b, to, MIN(bytes, 6));
    if (bytes >= 12) {
        memcpy(f->b + 6, from, 6);
    }
    if (bytes >= UNETMM_ETH_HEADER) {
        put16(f->b + 12, type);
    }
}

static void ip(Plain *f, const uint8_t *to, const uint8_t *from, uint8_t proto,
               uint16_t port, uint32_t bytes)
{
    uint8_t *at = f->b + UNETMM_ETH_HEADER;

    plain(f, to, from, 0x0800, bytes);
    memset(at, 0, 40);
    at[0] = 0x45;
    put16(at + 2, bytes - UNETMM_ETH_HEADER);
    at[9] = proto;
    put16(at + 22, port);
    at[32] = 0x50;
}

static void arrive(Raw *r, const Plain *f)
{
    assert_true(unetmm_core_receive(&r->h.core, f->b, f->bytes));
}

/* The endpoint has got the frame, and nothing else. */
static void got(FakeEp *ep, const Plain *f)
{
    struct unetmm_cqe cqe;
    uint8_t *there = test_malloc(f->bytes);

    assert_true(fake_poll(ep, &cqe));
    assert_int_equal(cqe.opcode, UNETMM_CQE_RECEIVED);
    assert_int_equal(cqe.status, UNETMM_ST_OK);
    assert_int_equal(cqe.len, f->bytes);
    fake_load(ep->space, RX_PAGE(cqe.cookie), there, f->bytes);
    assert_memory_equal(there, f->b, f->bytes);
    test_free(there);
    fake_expect_none(ep);
    fake_post(ep, RX_PAGE(cqe.cookie), RX_BYTES, cqe.cookie);
    fake_ring_bell(ep);
}

/* Bit n of the last argument: endpoint n gets it. */
static void for_whom(Raw *r, const Plain *f, unsigned who)
{
    arrive(r, f);
    for (unsigned i = 0; i < RAWS; i++) {
        if (who >> i & 1) {
            got(&r->e[i], f);
        } else {
            fake_expect_none(&r->e[i]);
        }
    }
}

static void post_frame(FakeEp *ep, const Plain *f, uint32_t imm,
                       uint64_t cookie)
{
    fake_store(ep->space, TX_PAGE, f->b, MIN(f->bytes, 8 * FAKE_PAGE));
    fake_send_sqe(ep, (struct unetmm_sqe) {
        .opcode = UNETMM_OP_FRAME, .nsegs = 1, .cookie = cookie, .imm = imm,
        .seg = { { .addr = TX_PAGE, .len = f->bytes } },
    });
    fake_ring_bell(ep);
}

static void sent(Raw *r, const Plain *f)
{
    const FakeFrame *w;

    assert_int_equal(r->h.wire->len, 1);
    w = r->h.wire->pdata[0];
    assert_int_equal(w->bytes, f->bytes);
    assert_memory_equal(w->data, f->b, f->bytes);
    g_ptr_array_set_size(r->h.wire, 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define SLOW(name) cmocka_unit_test_prestate_setup_teardown( \
    name, setup, teardown, (void *)slow)
#define FRUGAL(name) cmocka_unit_test_prestate_setup_teardown( \
    name, setup, teardown, (void *)frugal)
#define CRAMPED(name) cmocka_unit_test_prestate_setup_teardown( \
    name, setup, teardown, (void *)slow_queue_of_one)

/* ---- Whose a frame is ---- */

TEST_OF(test_addresses, Raw *r, T)
{
    Plain f;

    for (unsigned i = 0; i < RAWS; i++) {
        plain(&f, macs[i], peer, 0x0806, 60 + i);
        for_whom(r, &f, 1u << i);
    }
    plain(&f, to_all, peer, 0x0806, 60);
    expect_count(&r->h, eth_copies, 2, for_whom(r, &f, 7));
    plain(&f, peer, macs[0], 0x0800, 60);
    expect_count(&r->h, drop_no_flow, 1, for_whom(r, &f, 0));
    plain(&f, group, peer, 0x0800, 60);
    expect_count(&r->h, drop_no_flow, 1, for_whom(r, &f, 0));
}

TEST_OF(test_groups, Raw *r, T)
{
    Plain f;

    plain(&f, group, peer, 0x0800, 64);
    assert_int_equal(flow(&r->e[1], 5, UNETMM_FLOW_MAC, 0, group, 0),
                     UNETMM_CS_OK);
    for_whom(r, &f, 2);
    assert_int_equal(flow(&r->e[2], 6, UNETMM_FLOW_MAC, 0, group, 0),
                     UNETMM_CS_OK);
    for_whom(r, &f, 6);
    /* Once, however many flows want it. */
    assert_int_equal(flow(&r->e[2], 7, UNETMM_FLOW_GROUP, 0, NULL, 0),
                     UNETMM_CS_OK);
    for_whom(r, &f, 6);
    f.b[5]++;
    for_whom(r, &f, 4);
    assert_int_equal(flow_clear(&r->d, 7), UNETMM_CS_OK);
    for_whom(r, &f, 0);
}

/* The address of all is one of a group like others. */
TEST_OF(test_group_of_all, Raw *r, T)
{
    Plain f;

    plain(&f, to_all, peer, 0x0806, 60);
    assert_int_equal(flow_clear(&r->d, 1), UNETMM_CS_OK);
    for_whom(r, &f, 5);
    assert_int_equal(flow(&r->e[1], 5, UNETMM_FLOW_MAC, 0, to_all, 0),
                     UNETMM_CS_OK);
    for_whom(r, &f, 7);
    /* All groups, but no broadcasts. */
    assert_int_equal(flow_clear(&r->d, 5), UNETMM_CS_OK);
    assert_int_equal(flow(&r->e[1], 5, UNETMM_FLOW_GROUP, 0, NULL, 0),
                     UNETMM_CS_OK);
    for_whom(r, &f, 5);
}

TEST_OF(test_promiscuous, Raw *r, T)
{
    Plain f;

    assert_int_equal(flow(&r->e[2], 7, UNETMM_FLOW_ANY, 0, NULL, 0),
                     UNETMM_CS_OK);
    plain(&f, peer, peer, 0x0800, 99);
    for_whom(r, &f, 4);
    plain(&f, group, peer, 0x0800, 99);
    for_whom(r, &f, 4);
    /* A frame to another station is not its. */
    plain(&f, macs[0], peer, 0x0800, 99);
    for_whom(r, &f, 1);
}

/* The address of nobody, which flows without an address have: no one's own. */
TEST_OF(test_nobody, Raw *r, T)
{
    static const uint8_t nobody[6];
    Plain f;

    plain(&f, nobody, peer, 0x0800, 60);
    assert_int_equal(flow(&r->e[0], 5, UNETMM_FLOW_GROUP, 0, NULL, 0),
                     UNETMM_CS_OK);
    expect_count(&r->h, drop_no_flow, 1, for_whom(r, &f, 0));
    for (unsigned i = 1; i < RAWS; i++) {
        assert_int_equal(flow(&r->e[i], 5 + i, UNETMM_FLOW_ANY, 0, NULL, 0),
                         UNETMM_CS_OK);
    }
    for_whom(r, &f, 6);
}

TEST_OF(test_ports, Raw *r, T)
{
    Plain f;

    assert_int_equal(flow(&r->e[1], 5, UNETMM_FLOW_TCP, 80, macs[0], 0),
                     UNETMM_CS_OK);
    assert_int_equal(flow(&r->e[2], 6, UNETMM_FLOW_UDP, 80, macs[0], 0),
                     UNETMM_CS_OK);
    ip(&f, macs[0], peer, 6, 80, 100);
    for_whom(r, &f, 2);
    ip(&f, macs[0], peer, 17, 80, 100);
    for_whom(r, &f, 4);
    ip(&f, macs[0], peer, 17, 81, 100);
    for_whom(r, &f, 1);
    ip(&f, macs[0], peer, 1, 80, 100);
    for_whom(r, &f, 1);
    ip(&f, macs[1], peer, 17, 80, 100);
    for_whom(r, &f, 2);
    /* Fragments have no port, the first not either. */
    ip(&f, macs[0], peer, 17, 80, 100);
    f.b[20] = 0x20;
    for_whom(r, &f, 1);
    f.b[20] = 0;
    f.b[21] = 1;
    for_whom(r, &f, 1);
}

TEST_OF(test_ipv6_ports, Raw *r, T)
{
    Plain f;

    assert_int_equal(flow(&r->e[1], 5, UNETMM_FLOW_TCP, 443, macs[0], 0),
                     UNETMM_CS_OK);
    plain(&f, macs[0], peer, 0x86dd, 120);
    f.b[14] = 0x60;
    f.b[20] = 6;
    put16(f.b + 56, 443);
    for_whom(r, &f, 2);
    f.b[20] = 0;                        /* hop-by-hop options */
    for_whom(r, &f, 1);
    f.b[20] = 6;
    f.b[14] = 0x50;
    for_whom(r, &f, 1);
}

TEST_OF(test_ethertypes, Raw *r, T)
{
    Plain f;

    assert_int_equal(flow(&r->e[1], 5, UNETMM_FLOW_ETHERTYPE, 0x88cc, macs[0],
                          0), UNETMM_CS_OK);
    assert_int_equal(flow(&r->e[2], 6, UNETMM_FLOW_UDP, 9, macs[0], 0),
                     UNETMM_CS_OK);
    assert_int_equal(flow(&r->e[1], 7, UNETMM_FLOW_ETHERTYPE, 0x0800, macs[0],
                          0), UNETMM_CS_OK);
    plain(&f, macs[0], peer, 0x88cc, 60);
    for_whom(r, &f, 2);
    plain(&f, macs[0], peer, 0x88cd, 60);
    for_whom(r, &f, 1);
    /* The more special one. */
    ip(&f, macs[0], peer, 17, 9, 80);
    for_whom(r, &f, 4);
    ip(&f, macs[0], peer, 17, 10, 80);
    for_whom(r, &f, 2);
    /* A tag is another type, and its inside is not looked at. */
    plain(&f, macs[0], peer, 0x8100, 80);
    put16(f.b + 16, 0x88cc);
    for_whom(r, &f, 1);
    assert_int_equal(flow(&r->e[2], 8, UNETMM_FLOW_ETHERTYPE, 0x8100, macs[0],
                          0), UNETMM_CS_OK);
    for_whom(r, &f, 4);
    /* Cut behind the type, it is no less one. */
    f.bytes = 15;
    for_whom(r, &f, 4);
}

/* A frame cut anywhere goes to the owner of its address, or to nobody. */
TEST_OF(test_cut, Raw *r, T)
{
    Plain f;

    assert_int_equal(flow(&r->e[1], 5, UNETMM_FLOW_TCP, 80, macs[0], 0),
                     UNETMM_CS_OK);
    for (unsigned ihl = 0; ihl < 16; ihl++) {
        for (uint32_t bytes = 0; bytes < 120; bytes++) {
            uint32_t header = UNETMM_ETH_HEADER + 4 * ihl;
            bool port = ihl >= 5 && bytes >= header + 20;

            ip(&f, macs[0], peer, 6, 0, 120);
            f.b[14] = 0x40 | ihl;
            put16(f.b + header + 2, 80);
            f.b[20] = f.b[21] = 0;
            f.b[23] = 6;
            f.bytes = bytes;
            if (bytes < UNETMM_ETH_HEADER) {
                expect_count(&r->h, drop_runt, 1, for_whom(r, &f, 0));
            } else {
                bool same = port && f.b[14] == (0x40 | ihl) &&
                            f.b[header + 2] == 0 && f.b[header + 3] == 80;

                for_whom(r, &f, same ? 2 : 1);
            }
        }
    }
}

TEST_OF(test_lengths, Raw *r, T)
{
    static Plain f;

    for (uint32_t bytes = 0; bytes < UNETMM_MAX_FRAME + 20; bytes +=
         bytes < 1600 ? 1 : 997) {
        plain(&f, macs[0], peer, 0x0800, bytes);
        if (bytes < UNETMM_ETH_HEADER) {
            expect_count(&r->h, drop_runt, 1, for_whom(r, &f, 0));
        } else if (bytes > UNETMM_MAX_PAYLOAD) {
            expect_count(&r->h, drop_malformed, 1, for_whom(r, &f, 0));
        } else if (bytes > RX_BYTES) {
            expect_count(&r->h, drop_too_long, 1, for_whom(r, &f, 0));
        } else {
            expect_count(&r->h, eth_rx_bytes, bytes, for_whom(r, &f, 1));
        }
    }
}

TEST_OF(test_checksum_flag, Raw *r, T)
{
    struct unetmm_cqe cqe;
    Plain f;

    ip(&f, macs[0], peer, 6, 80, 100);
    r->h.checksums_ok = true;
    arrive(r, &f);
    assert_true(fake_poll(&r->e[0], &cqe));
    assert_true(cqe.flags & UNETMM_CQE_F_CSUM_OK);
    r->h.checksums_ok = false;
    arrive(r, &f);
    assert_true(fake_poll(&r->e[0], &cqe));
    assert_false(cqe.flags & UNETMM_CQE_F_CSUM_OK);
}

/* ---- Claims of flows ---- */

TEST_OF(test_flow_refused, Raw *r, T)
{
    static const uint8_t zero[6];
    FakeEp *e = r->e;

#define BAD(number, kind, value, mac, flags, why) \
    expect_count(&r->h, err_command, 1, \
                 assert_int_equal(flow(&e[1], number, kind, value, mac, \
                                       flags), why))
    BAD(5, UNETMM_FLOW_MAC, 0, macs[0], 0, UNETMM_CS_EXISTS);
    BAD(0, UNETMM_FLOW_MAC, 0, peer, 0, UNETMM_CS_EXISTS);
    BAD(r->h.core.params.flows, UNETMM_FLOW_MAC, 0, peer, 0,
        UNETMM_CS_BAD_ID);
    BAD(UINT32_MAX, UNETMM_FLOW_MAC, 0, peer, 0, UNETMM_CS_BAD_ID);
    BAD(5, UNETMM_FLOW_MAC, 1, peer, 0, UNETMM_CS_BAD_ARG);
    BAD(5, UNETMM_FLOW_MAC, 0, zero, 0, UNETMM_CS_BAD_ARG);
    BAD(5, UNETMM_FLOW_MAC, 0, group, UNETMM_FLOW_F_SOURCE,
        UNETMM_CS_BAD_ARG);
    BAD(5, UNETMM_FLOW_MAC, 0, peer, 4, UNETMM_CS_BAD_ARG);
    BAD(5, UNETMM_FLOW_UDP, 1, peer, UNETMM_FLOW_F_SOURCE, UNETMM_CS_BAD_ARG);
    BAD(5, UNETMM_FLOW_UDP, 1, zero, 0, UNETMM_CS_BAD_ARG);
    BAD(5, UNETMM_FLOW_ETHERTYPE, UNETMM_ETHERTYPE, peer, 0,
        UNETMM_CS_BAD_ARG);
    BAD(5, UNETMM_FLOW_GROUP, 0, peer, 0, UNETMM_CS_BAD_ARG);
    BAD(5, UNETMM_FLOW_ANY, 1, zero, 0, UNETMM_CS_BAD_ARG);
    BAD(5, 0, 0, peer, 0, UNETMM_CS_BAD_ARG);
    BAD(5, 7, 0, peer, 0, UNETMM_CS_BAD_ARG);
    BAD(5, 255, 0, peer, 0, UNETMM_CS_BAD_ARG);
    assert_int_equal(flow(&e[1], 5, UNETMM_FLOW_UDP, 7, macs[0], 0),
                     UNETMM_CS_OK);
    BAD(6, UNETMM_FLOW_UDP, 7, macs[0], 0, UNETMM_CS_EXISTS);
    assert_int_equal(flow_clear(&r->d, 6), UNETMM_CS_BAD_ID);
    assert_int_equal(flow_clear(&r->d, UINT32_MAX), UNETMM_CS_BAD_ID);
    /* Shared ones: of another endpoint, but not twice of one. */
    assert_int_equal(flow(&e[1], 6, UNETMM_FLOW_ANY, 0, NULL, 0),
                     UNETMM_CS_OK);
    BAD(7, UNETMM_FLOW_ANY, 0, zero, 0, UNETMM_CS_EXISTS);
    assert_int_equal(flow(&e[2], 7, UNETMM_FLOW_ANY, 0, NULL, 0),
                     UNETMM_CS_OK);
#undef BAD
}

TEST_OF(test_flow_of_others, Raw *r, T)
{
    FakeEp other;

    fake_ep_open(&other, &r->d, 5, r->s[0]);
    assert_int_equal(flow(&other, 5, UNETMM_FLOW_MAC, 0, peer, 0),
                     UNETMM_CS_BAD_ARG);
    other.id = 6;
    assert_int_equal(flow(&other, 5, UNETMM_FLOW_MAC, 0, peer, 0),
                     UNETMM_CS_BAD_ID);
}

/* Its flows go with an endpoint, and others may claim them. */
TEST_OF(test_flows_end, Raw *r, T)
{
    Plain f;

    plain(&f, macs[0], peer, 0x0800, 60);
    fake_ep_destroy(&r->e[0]);
    expect_count(&r->h, drop_no_flow, 1, arrive(r, &f));
    assert_int_equal(flow(&r->e[1], 0, UNETMM_FLOW_MAC, 0, macs[0], 0),
                     UNETMM_CS_OK);
    arrive(r, &f);
    got(&r->e[1], &f);
}

/* ---- Sending ---- */

TEST_OF(test_send, Raw *r, T)
{
    static const uint32_t lengths[] = { 14, 59, 60, 1514, 4097, 9022 };
    Plain f;

    for (unsigned i = 0; i < G_N_ELEMENTS(lengths); i++) {
        plain(&f, peer, macs[0], 0x0800, lengths[i]);
        post_frame(&r->e[0], &f, 0, i);
        fake_expect(&r->e[0], UNETMM_CQE_SENT, UNETMM_ST_OK, i);
        sent(r, &f);
    }
    assert_int_equal(fake_counter(&r->h, UNETMM_C_eth_tx_frames), 6);
    assert_int_equal(fake_counter(&r->h, UNETMM_C_eth_tx_bytes),
                     14 + 59 + 60 + 1514 + 4097 + 9022);
    /* Nothing was to be summed. */
    assert_int_equal(r->h.offloads, 0);
    assert_int_equal(fake_counter(&r->h, UNETMM_C_eth_csums), 0);
}

static void refused(Raw *r, const Plain *f, uint32_t imm, uint8_t status)
{
    post_frame(&r->e[0], f, imm, 7);
    fake_expect(&r->e[0], UNETMM_CQE_SENT, status, 7);
    assert_int_equal(r->h.wire->len, 0);
}

TEST_OF(test_send_refused, Raw *r, T)
{
    static Plain f;

    for (uint32_t bytes = 0; bytes < UNETMM_ETH_HEADER; bytes++) {
        plain(&f, peer, macs[0], 0x0800, bytes);
        expect_count(&r->h, drop_runt, 1,
                     refused(r, &f, 0, UNETMM_ST_BAD_DESC));
    }
    plain(&f, peer, macs[0], 0x0800, UNETMM_ETH_MAX + 1);
    refused(r, &f, 0, UNETMM_ST_TOO_LONG);
    plain(&f, peer, macs[0], UNETMM_ETHERTYPE, 60);
    expect_count(&r->h, drop_forged, 1,
                 refused(r, &f, 0, UNETMM_ST_PROTECTION));
    plain(&f, peer, macs[1], 0x0800, 60);
    expect_count(&r->h, drop_source, 1,
                 refused(r, &f, 0, UNETMM_ST_PROTECTION));
    plain(&f, peer, to_all, 0x0800, 60);
    expect_count(&r->h, drop_source, 1,
                 refused(r, &f, 0, UNETMM_ST_PROTECTION));
    plain(&f, peer, macs[0], 0x0800, 60);
    unetmm_core_set_link(&r->h.core, false);
    expect_count(&r->h, drop_link, 1,
                 refused(r, &f, 0, UNETMM_ST_LINK_DOWN));
}

TEST_OF(test_bad_descriptors, Raw *r, T)
{
    static const struct unetmm_sqe bad[] = {
        { .opcode = UNETMM_OP_SEND },
        { .opcode = UNETMM_OP_WRITE },
        { .opcode = UNETMM_OP_CONTROL },
        { .opcode = UNETMM_OP_FENCE },
        { .opcode = UNETMM_OP_FRAME, .channel = 1 },
        { .opcode = UNETMM_OP_FRAME, .remote = 1 },
        { .opcode = UNETMM_OP_FRAME, .handle = 1 },
        { .opcode = UNETMM_OP_FRAME, .flags = UNETMM_SQE_F_NOTIFY },
        { .opcode = UNETMM_OP_FRAME, .imm = 1 },
        { .opcode = UNETMM_OP_FRAME, .imm = 0x80000000u },
        { .opcode = UNETMM_OP_FRAME, .imm = UNETMM_TX_SEGMENT | 1000 },
        { .opcode = UNETMM_OP_FRAME,
          .imm = UNETMM_TX_SEGMENT | UNETMM_TX_CSUM },
        { .opcode = UNETMM_OP_FRAME,
          .imm = UNETMM_TX_SEGMENT | UNETMM_TX_CSUM | 63 },
        { .opcode = UNETMM_OP_FRAME,
          .imm = UNETMM_TX_SEGMENT | UNETMM_TX_CSUM | 0xffff },
        { .opcode = UNETMM_OP_FRAME, .imm = UNETMM_TX_CSUM | 1000 },
    };
    FakeEp other;

    for (unsigned i = 0; i < G_N_ELEMENTS(bad); i++) {
        struct unetmm_sqe sqe = bad[i];

        sqe.nsegs = 1;
        sqe.seg[0] = (struct unetmm_seg) { .addr = TX_PAGE, .len = 60 };
        sqe.cookie = i;
        fake_send_sqe(&r->e[0], sqe);
        fake_ring_bell(&r->e[0]);
        fake_expect(&r->e[0], UNETMM_CQE_SENT, UNETMM_ST_BAD_DESC, i);
    }
    /* And other endpoints send no frames. */
    fake_ep_open(&other, &r->d, 5, r->s[0]);
    fake_send_sqe(&other, (struct unetmm_sqe) {
        .opcode = UNETMM_OP_FRAME, .nsegs = 1,
        .seg = { { .addr = TX_PAGE, .len = 60 } } });
    fake_ring_bell(&other);
    fake_expect(&other, UNETMM_CQE_SENT, UNETMM_ST_BAD_DESC, 0);
    assert_int_equal(fake_channel(&r->e[0], 1, peer, 1, 1, 1500),
                     UNETMM_CS_BAD_ARG);
}

TEST_OF(test_create_refused, Raw *r, T)
{
    FakeEp ep;

    fake_ep_init(&ep, &r->d, 5, r->s[0]);
    ep.policy = UNETMM_POLICY_DROP;
    /* A vector is for the driver's own alone. */
    assert_int_equal(raw_create(&ep, UNETMM_EP_F_VECTOR), UNETMM_CS_BAD_ARG);
    assert_int_equal(raw_create(&ep, 0x80), UNETMM_CS_BAD_ARG);
}

TEST_OF(test_offload, Raw *r, T)
{
    uint32_t imm = UNETMM_TX_CSUM | UNETMM_TX_SEGMENT | 1000;
    static Plain f;

    ip(&f, peer, macs[0], 6, 80, 54 + 3500);
    post_frame(&r->e[0], &f, imm, 1);
    fake_expect(&r->e[0], UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    assert_int_equal(r->h.offload_mss, 1000);
    assert_int_equal(r->h.wire->len, 4);
    for (unsigned i = 0; i < 4; i++) {
        const FakeFrame *w = r->h.wire->pdata[i];

        assert_int_equal(w->bytes, i < 3 ? 1054 : 554);
        assert_memory_equal(w->data + 54, f.b + 54 + 1000 * i,
                            w->bytes - 54);
    }
    g_ptr_array_set_size(r->h.wire, 0);
    ip(&f, peer, macs[0], 17, 80, 200);
    post_frame(&r->e[0], &f, UNETMM_TX_CSUM, 2);
    fake_expect(&r->e[0], UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
    assert_int_equal(r->h.offload_mss, 0);
    sent(r, &f);
    /* Longer than any frame that goes as it is. */
    ip(&f, peer, macs[0], 6, 80, 30000);
    post_frame(&r->e[0], &f, imm, 3);
    fake_expect(&r->e[0], UNETMM_CQE_SENT, UNETMM_ST_OK, 3);
    assert_int_equal(r->h.wire->len, 30);
    assert_int_equal(fake_counter(&r->h, UNETMM_C_eth_segmented), 2);
    assert_int_equal(fake_counter(&r->h, UNETMM_C_eth_csums), 1);
    g_ptr_array_set_size(r->h.wire, 0);
    r->h.offload_fails = true;
    expect_count(&r->h, drop_offload, 1,
                 refused(r, &f, imm, UNETMM_ST_BAD_DESC));
}

/* The host is never asked about a frame without a whole header. */
TEST_OF(test_offload_cut, Raw *r, T)
{
    uint32_t imm = UNETMM_TX_CSUM | UNETMM_TX_SEGMENT | 1000;
    Plain f;

    for (uint32_t bytes = UNETMM_ETH_HEADER; bytes < 54; bytes++) {
        ip(&f, peer, macs[0], 6, 80, 60);
        f.bytes = bytes;
        expect_count(&r->h, drop_offload, 1,
                     refused(r, &f, imm, UNETMM_ST_BAD_DESC));
        expect_count(&r->h, drop_offload, 1,
                     refused(r, &f, UNETMM_TX_CSUM, UNETMM_ST_BAD_DESC));
    }
    ip(&f, peer, macs[0], 17, 80, 60);
    expect_count(&r->h, drop_offload, 1,
                 refused(r, &f, imm, UNETMM_ST_BAD_DESC));
    plain(&f, peer, macs[0], 0x0806, 60);
    expect_count(&r->h, drop_offload, 1,
                 refused(r, &f, UNETMM_TX_CSUM, UNETMM_ST_BAD_DESC));
    assert_int_equal(r->h.offloads, 0);
}

/* A frame behind a tag, whatever that says, is treated as without one. */
TEST_OF(test_offload_tagged, Raw *r, T)
{
    static const uint16_t tags[] = { 0, 1, 0x0008, 0x0800, 0x86dd, 0xffff };
    Plain f, tagged;

    for (unsigned i = 0; i < 2 * G_N_ELEMENTS(tags); i++) {
        ip(&f, peer, macs[0], 6, 80, 100);
        if (i & 1) {
            put16(f.b + 12, 0x0806);
        }
        tagged = f;
        put16(tagged.b + 12, 0x8100);
        put16(tagged.b + 14, tags[i / 2]);
        memcpy(tagged.b + 16, f.b + 12, f.bytes - 12);
        tagged.bytes = f.bytes + 4;
        if (i & 1) {
            expect_count(&r->h, drop_offload, 1,
                         refused(r, &tagged, UNETMM_TX_CSUM,
                                 UNETMM_ST_BAD_DESC));
            continue;
        }
        post_frame(&r->e[0], &tagged, UNETMM_TX_CSUM, i);
        fake_expect(&r->e[0], UNETMM_CQE_SENT, UNETMM_ST_OK, i);
        sent(r, &tagged);
    }
}

/* The wire takes one: the next sends wait until all pieces have gone. */
TEST_OF(test_wire_busy, Raw *r, T)
{
    uint32_t imm = UNETMM_TX_CSUM | UNETMM_TX_SEGMENT | 1000;
    static Plain f, g;

    r->h.answer = UNETMM_SENT_QUEUED;
    ip(&f, peer, macs[0], 6, 80, 54 + 3000);
    post_frame(&r->e[0], &f, imm, 1);
    fake_expect(&r->e[0], UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    assert_int_equal(r->h.wire->len, 3);
    g_ptr_array_set_size(r->h.wire, 0);
    plain(&g, peer, macs[1], 0x0800, 60);
    expect_count(&r->h, wire_waits, 1, post_frame(&r->e[1], &g, 0, 2));
    fake_expect_none(&r->e[1]);
    r->h.answer = UNETMM_SENT_DONE;
    unetmm_core_sent(&r->h.core, true);
    unetmm_core_sent(&r->h.core, true);
    fake_expect_none(&r->e[1]);
    unetmm_core_sent(&r->h.core, true);
    fake_expect(&r->e[1], UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
    sent(r, &g);
}

/* Endpoints that wait for the wire get it in turn. */
TEST_OF(test_wire_in_turn, Raw *r, T)
{
    unsigned sent[RAWS] = { 0 };
    Plain f;

    r->h.answer = UNETMM_SENT_QUEUED;
    for (unsigned i = 0; i < 3 * RAWS; i++) {
        plain(&f, peer, macs[i % RAWS], 0x0800, 60);
        post_frame(&r->e[i % RAWS], &f, 0, i);
    }
    for (unsigned i = 0; i < 3 * RAWS; i++) {
        const FakeFrame *w = fake_wire_at(&r->h, i);

        assert_int_equal(r->h.wire->len, i + 1);
        assert_in_range(w->data[11], 1, RAWS);
        assert_int_equal(sent[w->data[11] - 1]++, i / RAWS);
        unetmm_core_sent(&r->h.core, true);
    }
}

/* ---- On the card itself ---- */

TEST_OF(test_local, Raw *r, T)
{
    static Plain f;
    struct unetmm_cqe cqe;

    unetmm_core_set_link(&r->h.core, false);
    plain(&f, macs[1], macs[0], 0x0800, 777);
    post_frame(&r->e[0], &f, 0, 1);
    fake_expect(&r->e[0], UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    got(&r->e[1], &f);
    assert_int_equal(r->h.wire->len, 0);
    /* To itself, and cut. */
    ip(&f, macs[0], macs[0], 6, 80, 54 + 2000);
    post_frame(&r->e[0], &f, UNETMM_TX_CSUM | UNETMM_TX_SEGMENT | 1000, 2);
    fake_expect(&r->e[0], UNETMM_CQE_SENT, UNETMM_ST_OK, 2);
    for (unsigned i = 0; i < 2; i++) {
        assert_true(fake_poll(&r->e[0], &cqe));
        assert_int_equal(cqe.opcode, UNETMM_CQE_RECEIVED);
        assert_int_equal(cqe.len, 1054);
    }
}

/* To all others here, and to the wire. */
TEST_OF(test_local_group, Raw *r, T)
{
    Plain f;

    plain(&f, to_all, macs[0], 0x0806, 60);
    post_frame(&r->e[0], &f, 0, 1);
    fake_expect(&r->e[0], UNETMM_CQE_SENT, UNETMM_ST_OK, 1);
    fake_expect_none(&r->e[0]);
    got(&r->e[1], &f);
    got(&r->e[2], &f);
    sent(r, &f);
}

static void frugal(UnetmmParams *p)
{
    p->budget_bytes = 65536;
}

/* A frame to a group is work for each of its endpoints, and has its budget. */
TEST_OF(test_copies_budget, Raw *r, FRUGAL)
{
    const uint64_t *received =
        &r->h.core.counters[UNETMM_C_eth_rx_frames];
    Plain f;

    plain(&f, to_all, macs[0], 0x0806, 9000);
    fake_store(r->e[0].space, TX_PAGE, f.b, f.bytes);
    for (unsigned i = 0; i < 12; i++) {
        fake_send_sqe(&r->e[0], (struct unetmm_sqe) {
            .opcode = UNETMM_OP_FRAME, .nsegs = 1, .cookie = i,
            .seg = { { .addr = TX_PAGE, .len = f.bytes } },
        });
    }
    fake_ring_bell(&r->e[0]);
    /* A frame and its completion are charged to the sender. */
    assert_int_equal(r->h.core.port->fifo_used, 7);
    assert_int_equal(*received, 0);
    r->h.later = 0;
    unetmm_core_run(&r->h.core);
    /*
     * Each frame is charged for itself, one copy, and completions: two are half
     * of the budget.  Then the sender has its turn, which takes the other half
     * for three frames more.
     */
    assert_int_equal(*received, 2 * 2);
    assert_int_equal(r->h.core.port->fifo_used, 7 - 2 + 3);
    r->h.later = 0;
    unetmm_core_run(&r->h.core);
    /* The sender had but two left, so one more could be delivered. */
    assert_int_equal(*received, 2 * (2 + 3));
    assert_int_equal(r->h.core.port->fifo_used, 8 - 3 + 2);
    fake_run_later(&r->h);
    assert_int_equal(*received, 2 * 12);
}

/* A frame that is cut is as much work as it has pieces. */
TEST_OF(test_pieces_budget, Raw *r, FRUGAL)
{
    enum { PIECES = 65536 / UNETMM_LEAST_BYTES, MSS = UNETMM_ETH_MIN_MSS };
    static Plain f;

    ip(&f, peer, macs[0], 6, 80, 54 + PIECES * MSS);
    fake_store(r->e[0].space, TX_PAGE, f.b, f.bytes);
    r->h.stuck = true;
    for (unsigned i = 0; i < 3; i++) {
        fake_send_sqe(&r->e[0], (struct unetmm_sqe) {
            .opcode = UNETMM_OP_FRAME, .nsegs = 1, .cookie = i,
            .imm = UNETMM_TX_CSUM | UNETMM_TX_SEGMENT | MSS,
            .seg = { { .addr = TX_PAGE, .len = f.bytes } },
        });
    }
    fake_ring_bell(&r->e[0]);
    assert_int_equal(r->h.wire->len, PIECES);
    fake_run_later(&r->h);
    assert_int_equal(r->h.wire->len, 3 * PIECES);
}

/* From the wire as well: the next frame waits. */
TEST_OF(test_copies_of_arrivals, Raw *r, FRUGAL)
{
    unsigned taken = 0;
    Plain f;

    plain(&f, to_all, peer, 0x0806, 9000);
    r->h.stuck = true;
    while (unetmm_core_receive(&r->h.core, f.b, f.bytes)) {
        taken++;
    }
    assert_int_equal(taken, (65536 + RAWS * 9000 - 1) / (RAWS * 9000));
    assert_int_equal(fake_run_later(&r->h), 1);
    assert_true(unetmm_core_receive(&r->h.core, f.b, f.bytes));
}

static void slow(UnetmmParams *p)
{
    p->dma_page_ns = 1000;
}

/* With a time for each page, copies land one after the other. */
TEST_OF(test_group_slow, Raw *r, SLOW)
{
    Plain f;

    plain(&f, to_all, peer, 0x0806, 60);
    arrive(r, &f);
    for (unsigned i = 0; i < RAWS; i++) {
        fake_expect_none(&r->e[i]);
        fake_advance(&r->h, 1000);
        got(&r->e[i], &f);
    }
}

/* A copy that waits is nobody's when its endpoint has gone. */
TEST_OF(test_group_slow_gone, Raw *r, SLOW)
{
    Plain f;

    plain(&f, to_all, peer, 0x0806, 60);
    arrive(r, &f);
    fake_ep_destroy(&r->e[1]);
    assert_int_equal(raw_create(&r->e[1], 0), UNETMM_CS_OK);
    fake_advance(&r->h, 1000);
    got(&r->e[0], &f);
    expect_count(&r->h, drop_stopped, 0, fake_advance(&r->h, 1000));
    assert_int_equal(fake_counter(&r->h, UNETMM_C_drop_stopped), 1);
    got(&r->e[2], &f);
}

static void slow_queue_of_one(UnetmmParams *p)
{
    p->dma_page_ns = 1000;
    p->local_queue = 1;
}

/* With no room in the card's queue a frame waits, and is not lost. */
TEST_OF(test_local_full, Raw *r, CRAMPED)
{
    Plain f;

    unsigned got = 0;

    /* Three are read at the same time; one lands, one is queued. */
    for (unsigned i = 0; i < 4; i++) {
        plain(&f, macs[1], macs[i % RAWS], 0x0800, 60 + i);
        post_frame(&r->e[i % RAWS], &f, 0, i);
    }
    for (unsigned i = 0; i < 12; i++) {
        fake_advance(&r->h, 1000);
    }
    assert_int_equal(fake_counter(&r->h, UNETMM_C_drop_local_full), 0);
    for (unsigned i = 0; i < RAWS; i++) {
        struct unetmm_cqe cqe;

        while (fake_poll(&r->e[i], &cqe)) {
            assert_int_equal(cqe.status, UNETMM_ST_OK);
            if (cqe.opcode == UNETMM_CQE_RECEIVED) {
                assert_int_equal(i, 1);
                got |= 1u << (cqe.len - 60);
            }
        }
    }
    assert_int_equal(got, 0xf);
}

/* ---- The driver's own ---- */

TEST_OF(test_vector, Raw *r, T)
{
    FakeSpace zero = { .driver = &r->d, .source = UNETMM_SOURCE_DIRECT };
    FakeEp net;
    Plain f;
    unsigned before;

    assert_int_equal(fake_command(&r->d, (struct unetmm_cmd) {
        .opcode = UNETMM_CMD_SPACE_CREATE, .space = 0,
        .space_create.source = UNETMM_SOURCE_DIRECT }, NULL), UNETMM_CS_OK);
    fake_ep_init(&net, &r->d, 6, &zero);
    net.policy = UNETMM_POLICY_DROP;
    assert_int_equal(raw_create(&net, UNETMM_EP_F_VECTOR), UNETMM_CS_OK);
    assert_int_equal(flow(&net, 9, UNETMM_FLOW_MAC, 0, peer, 0),
                     UNETMM_CS_OK);
    fake_post(&net, fake_alloc(&r->h, 2048, 64, FAKE_RW), 2048, 1);
    fake_user_word(&net, offsetof(struct unetmm_ep_user, cq_arm), UNETMM_ARM);
    fake_ring_bell(&net);
    before = r->h.interrupts[UNETMM_VEC_NET];
    plain(&f, peer, macs[0], 0x0800, 60);
    expect_count(&r->h, notifications, 1, arrive(r, &f));
    assert_int_equal(r->h.interrupts[UNETMM_VEC_NET], before + 1);
    arrive(r, &f);
    assert_int_equal(r->h.interrupts[UNETMM_VEC_NET], before + 1);
}

/* ---- Saved and restored ---- */

TEST_OF(test_migrate, Raw *r, SLOW)
{
    g_autoptr(GByteArray) saved = NULL;
    char *why = NULL;
    Plain f;

    plain(&f, to_all, peer, 0x0806, 60);
    arrive(r, &f);
    saved = unetmm_core_save(&r->h.core);
    assert_true(unetmm_core_load(&r->h.core, saved->data, saved->len, &why));
    for (unsigned i = 0; i < RAWS; i++) {
        fake_advance(&r->h, 1000);
        got(&r->e[i], &f);
    }
    plain(&f, macs[2], peer, 0x0806, 60);
    arrive(r, &f);
    fake_advance(&r->h, 1000);
    got(&r->e[2], &f);
}
